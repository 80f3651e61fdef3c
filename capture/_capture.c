/* The C side of capture: entry object and scoped frame hook; the guard evaluator is in native/.
 *
 *   Guards            a tree of checks with shared prefixes, and in front of it a flat snapshot
 *   CompiledFunction  what `compile` returns: checks guards, calls the entry that fits
 *   hook_enter/leave  a PEP 523 evaluation function for frames met inside a region with breaks
 *
 * Contract. Guards never pass wrongly and never run user code (native/guards.h). Entries belong to
 * the CompiledFunction, which the garbage collector sees; a code object's extra slot only borrows a
 * pointer to it. Everything runs under the GIL; free-threaded builds are not supported.
 *
 * CPython 3.11 to 3.14; what differs between them is in native/versions.h and native/dict_versions.h.
 */
#define DYNAJIT_IMPORTS_ARRAYS
#include "native/guards.h"
#include "native/dict_versions.h"
#include "native/class_lookup.h"
#include "native/hashed.h"
#include "native/number_calls.h"
#include "native/number_lists.h"
#include "native/quiet_lookup.h"
#include "native/caller_stack.h"
#include <pthread.h>
#include <time.h>

/* ---------------------------------------------------------------------------- Module state ---- */

TensorApi *tensor_api;
PyObject *name_getattribute;
PyObject *name_grad;
PyObject *name_hooks;
PyObject *name_requires_grad;
PyObject *name_bases;
PyObject *registrations;
PyObject *subclasses;
PyObject *deque_type;
int (*const *classes_not_asked)(void);
PyObject *current_device;
PyObject *warns_only;
PyObject *numpy_errors;
vectorcallfunc plain_call;
static PyObject *capture_error; /* dynajit.core.errors.CaptureError */
static Py_ssize_t extra_index;  /* our slot in code objects */
static PyTypeObject CompiledFunctionType;

/* -------------------------------------------------------------------- Scopes of the hook ---- */

/* Flat slots of one call. `args` and `kwargs` are released with it. */
#define SMALL_SLOTS 24

typedef struct {
    PyObject **slots;
    PyObject *small[SMALL_SLOTS];
    PyObject *args;   /* owned tuple for *args, or NULL */
    PyObject *kwargs; /* owned dict for **kwargs, or NULL */
    int has_defaults; /* some slot was filled with a default value */
} Binding;

/* What holds the arguments of a call besides the frame that was made for it. */
typedef struct {
    PyObject **held;    /* owned references: a tail call's, or perhaps the caller's stack */
    Py_ssize_t count;
    PyObject *callable; /* borrowed: what was called, for `release_on_stack`; NULL: a tail call */
    Binding *binding;   /* or NULL */
    PyObject *code;     /* borrowed, only compared: what will ask for their release */
} Handed;

/* Per thread: the Python callable that is asked about frames, NULL where none is. */
typedef struct {
    PyObject *callback;   /* owned while set */
    PyCodeObject *passed; /* borrowed, only compared: the next frame of this code runs as it is */
    Py_ssize_t depth;     /* of hook_enter */
    PyObject **outer;     /* callbacks of the enclosing hook_enter scopes; owned */
    Py_ssize_t capacity;
    char *stack_half; /* below this address less than half of the C stack is left; NULL: unknown */
    char *stack_end;  /* below this address no frame is entered any more */
    Handed *handed;   /* of the innermost call of a function that may ask for their release */
} HookState;

static _Thread_local HookState hook;
static Py_ssize_t hook_users; /* active callbacks of all threads; guarded by the GIL */
static _PyFrameEvalFunction outer_evaluator; /* what evaluated frames before us */

static PyObject *evaluate_frame(PyThreadState *ts, _PyInterpreterFrame *frame, int throwflag);

static void
count_hook_user(Py_ssize_t change)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (hook_users == 0 && change > 0) {
        outer_evaluator = _PyInterpreterState_GetEvalFrameFunc(interpreter);
        _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate_frame);
    }
    hook_users += change;
    if (hook_users == 0 && _PyInterpreterState_GetEvalFrameFunc(interpreter) == evaluate_frame) {
        _PyInterpreterState_SetEvalFrameFunc(interpreter, outer_evaluator);
    }
}

/* Make `callback` (borrowed; NULL: nobody) the one in force; the caller owns what is returned. */
static PyObject *
hook_swap(PyObject *callback)
{
    PyObject *before = hook.callback;
    if (callback == before) {
        return Py_XNewRef(before);
    }
    hook.callback = Py_XNewRef(callback);
    if ((callback != NULL) != (before != NULL)) {
        count_hook_user(callback != NULL ? 1 : -1);
    }
    return before;
}

static void
hook_restore(PyObject *before)
{
    PyObject *now = hook_swap(before);
    Py_XDECREF(now);
    Py_XDECREF(before);
}

/* ---------------------------------------------------------------------- CompiledFunction ---- */

typedef struct {
    Guards *guards;      /* owned */
    PyObject *function;  /* owned: same signature as the original */
    PyObject *owner;     /* owned: capture.entry.cache.Entry */
    uint64_t hits;
    int is_scoped;       /* frames called from it are shown to the callback */
} Entry;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;     /* the original */
    PyCodeObject *code;     /* of the original when the entries were made */
    PyObject *on_miss;      /* (compiled function, function, flat arguments) -> function to call */
    PyObject *callback;     /* for frames met in scoped entries, or None */
    PyObject *dict;
    PyObject *weakrefs;
    Entry *entries;
    int entry_count;
    int entry_capacity;
    uint64_t calls;
    uint64_t hits;
    char disabled;
    char is_slower;    /* disabled: frames of it were faster as they are */
    int trial;         /* frames that found an entry, until the trial is over */
    double spent[2];   /* seconds of frames on trial, compiled and plain */
    double fastest[2]; /* of one of them */
    double slowest[2];
    char is_rest; /* what goes on after a break: seen by tracers as it is written */
    PyObject *after_miss; /* callable or NULL: called with the object when a missed call is over */
    char is_positional;     /* no keyword-only parameters, no *args, no **kwargs */
    int argument_count;     /* positional parameters */
    int named_count;        /* and keyword-only ones; behind them *args and **kwargs */
    int slot_count;         /* flat slots, in the order of co_varnames */
    PyObject *keyword_names; /* tuple of the keyword-only parameters, or NULL */
} CompiledFunction;

/* The code object's slot only borrows us: empty it before we go. */
static void
forget_code(CompiledFunction *self)
{
    void *extra = NULL;
    if (self->code != NULL && CODE_GET_EXTRA((PyObject *)self->code, extra_index, &extra) == 0
        && extra == self) {
        CODE_SET_EXTRA((PyObject *)self->code, extra_index, NULL);
    }
}

/* Take over the signature of the original's code, and tell frames of that code where to look. */
static int
adopt_code(CompiledFunction *self)
{
    PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)self->function)->func_code;
    int has_args = (code->co_flags & CO_VARARGS) != 0, has_kwargs = (code->co_flags & CO_VARKEYWORDS) != 0;
    int named = code->co_argcount + code->co_kwonlyargcount;
    PyObject *names = NULL;
    if (code->co_kwonlyargcount > 0) {
        names = PyTuple_GetSlice(code->co_localsplusnames, code->co_argcount, named);
        if (names == NULL) {
            return -1;
        }
    }
    self->is_positional = !has_args && !has_kwargs && code->co_kwonlyargcount == 0;
    self->argument_count = code->co_argcount;
    self->named_count = named;
    self->slot_count = named + has_args + has_kwargs;
    Py_XSETREF(self->keyword_names, names);
    forget_code(self);
    Py_XSETREF(self->code, (PyCodeObject *)Py_NewRef(code));
    return CODE_SET_EXTRA((PyObject *)code, extra_index, self);
}

static void
drop_entries(CompiledFunction *self)
{
    Entry *entries = self->entries;
    int count = self->entry_count;
    self->entries = NULL;
    self->entry_count = 0;
    self->entry_capacity = 0;
    for (int i = 0; i < count; i++) {
        Py_DECREF(entries[i].guards);
        Py_DECREF(entries[i].function);
        Py_DECREF(entries[i].owner);
    }
    PyMem_Free(entries);
}

/* Stands for the dict of **kwargs where a call has none; guards only look at it. */
static PyObject *no_keywords;

/* How a call was made, for what is called in its place. */
typedef struct {
    PyObject *const *slots;
    PyObject *const *args; /* as given, or NULL where a slot holds a default value */
    Py_ssize_t count;
    PyObject *names;
    Handed *handed;
} Arguments;

static void
release_binding(Binding *binding)
{
    Py_XDECREF(binding->args);
    Py_XDECREF(binding->kwargs);
    if (binding->slots != binding->small) {
        PyMem_Free(binding->slots);
    }
}

/* Position of a keyword among the parameters, or -1. */
static int
find_parameter(PyCodeObject *code, PyObject *name)
{
    int named = code->co_argcount + code->co_kwonlyargcount;
    for (int i = code->co_posonlyargcount; i < named; i++) {
        if (PyTuple_GET_ITEM(code->co_localsplusnames, i) == name) {
            return i;
        }
    }
    for (int i = code->co_posonlyargcount; i < named; i++) {
        PyObject *parameter = PyTuple_GET_ITEM(code->co_localsplusnames, i);
        if (PyUnicode_CheckExact(name) && PyUnicode_Compare(parameter, name) == 0) {
            return i;
        }
    }
    return -1;
}

static int
bind_keywords(PyCodeObject *code, Binding *binding, PyObject *const *values, PyObject *names)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        int position = find_parameter(code, name);
        if (position >= 0) {
            if (binding->slots[position] != NULL) {
                return 0;
            }
            binding->slots[position] = values[i];
        }
        else if (!(code->co_flags & CO_VARKEYWORDS) || !PyUnicode_Check(name)) {
            return 0;
        }
        else if (binding->kwargs == NULL && (binding->kwargs = PyDict_New()) == NULL) {
            return 0;
        }
        else if (PyDict_SetItem(binding->kwargs, name, values[i]) < 0) {
            return 0;
        }
    }
    return 1;
}

static int
bind_defaults(PyFunctionObject *function, PyCodeObject *code, Binding *binding)
{
    PyObject *defaults = function->func_defaults;
    Py_ssize_t count = defaults == NULL ? 0 : PyTuple_GET_SIZE(defaults);
    Py_ssize_t first = code->co_argcount - count;
    for (int i = 0; i < code->co_argcount; i++) {
        if (binding->slots[i] == NULL) {
            if (i < first) {
                return 0;
            }
            binding->has_defaults = 1;
            binding->slots[i] = PyTuple_GET_ITEM(defaults, i - first);
        }
    }
    for (int i = code->co_argcount; i < code->co_argcount + code->co_kwonlyargcount; i++) {
        if (binding->slots[i] == NULL) {
            PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
            PyObject *value = function->func_kwdefaults == NULL
                                  ? NULL
                                  : PyDict_GetItemWithError(function->func_kwdefaults, name);
            if (value == NULL) {
                return 0;
            }
            binding->has_defaults = 1;
            binding->slots[i] = value;
        }
    }
    return 1;
}

/* Flat slots as the interpreter would bind them. 0: it would raise (or memory ran out). */
static int
bind(CompiledFunction *self, PyObject *const *args, Py_ssize_t count, PyObject *names,
     Binding *binding)
{
    PyFunctionObject *function = (PyFunctionObject *)self->function;
    PyCodeObject *code = self->code;
    binding->args = binding->kwargs = NULL;
    binding->has_defaults = 0;
    binding->slots = binding->small;
    if (self->slot_count > SMALL_SLOTS) {
        binding->slots = PyMem_Malloc(self->slot_count * sizeof(PyObject *));
        if (binding->slots == NULL) {
            binding->slots = binding->small;
            return 0;
        }
    }
    memset(binding->slots, 0, self->slot_count * sizeof(PyObject *));
    int named = code->co_argcount + code->co_kwonlyargcount;
    Py_ssize_t positional = count < code->co_argcount ? count : code->co_argcount;
    memcpy(binding->slots, args, positional * sizeof(PyObject *));
    if (code->co_flags & CO_VARARGS) {
        binding->args = PyTuple_New(count - positional);
        if (binding->args == NULL) {
            return 0;
        }
        for (Py_ssize_t i = positional; i < count; i++) {
            PyTuple_SET_ITEM(binding->args, i - positional, Py_NewRef(args[i]));
        }
        binding->slots[named] = binding->args;
    }
    else if (count > positional) {
        return 0;
    }
    if (names != NULL && !bind_keywords(code, binding, args + count, names)) {
        return 0;
    }
    if (code->co_flags & CO_VARKEYWORDS) {
        binding->slots[self->slot_count - 1] =
            binding->kwargs == NULL ? no_keywords : binding->kwargs;
    }
    return bind_defaults(function, code, binding);
}

/* Call a function of the original's signature with *args and **kwargs spread again. */
static PyObject *
call_spread(CompiledFunction *self, PyObject *target, PyObject *const *slots)
{
    PyCodeObject *code = self->code;
    int named = code->co_argcount + code->co_kwonlyargcount;
    PyObject *args = code->co_flags & CO_VARARGS ? slots[named] : NULL;
    PyObject *kwargs = code->co_flags & CO_VARKEYWORDS ? slots[self->slot_count - 1] : NULL;
    Py_ssize_t extra = args == NULL ? 0 : PyTuple_GET_SIZE(args);
    Py_ssize_t keywords = kwargs == NULL ? 0 : PyDict_GET_SIZE(kwargs);
    Py_ssize_t named_keywords = code->co_kwonlyargcount + keywords;
    PyObject **flat = PyMem_Malloc((named + extra + keywords + 1) * sizeof(PyObject *));
    PyObject *names = named_keywords ? PyTuple_New(named_keywords) : NULL;
    if (flat == NULL || (named_keywords && names == NULL)) {
        PyMem_Free(flat);
        Py_XDECREF(names);
        return PyErr_NoMemory();
    }
    Py_ssize_t position = 0, name = 0;
    for (int i = 0; i < code->co_argcount; i++) {
        flat[position++] = slots[i];
    }
    for (Py_ssize_t i = 0; i < extra; i++) {
        flat[position++] = PyTuple_GET_ITEM(args, i);
    }
    Py_ssize_t positional = position;
    for (int i = code->co_argcount; i < named; i++) {
        PyTuple_SET_ITEM(names, name++, Py_NewRef(PyTuple_GET_ITEM(code->co_localsplusnames, i)));
        flat[position++] = slots[i];
    }
    Py_ssize_t cursor = 0;
    PyObject *key, *value;
    while (kwargs != NULL && PyDict_Next(kwargs, &cursor, &key, &value)) {
        PyTuple_SET_ITEM(names, name++, Py_NewRef(key));
        flat[position++] = value;
    }
    PyObject *result = PyObject_Vectorcall(target, flat, positional, names);
    Py_XDECREF(names);
    PyMem_Free(flat);
    return result;
}

/* A slot for what may keep or change it. New reference. */
static PyObject *
slot_for_others(PyObject *slot)
{
    return slot == no_keywords ? PyDict_New() : Py_NewRef(slot);
}

static PyObject *
call_with(CompiledFunction *self, PyObject *target, const Arguments *arguments)
{
    if (self->is_positional) {
        return PyObject_Vectorcall(target, arguments->slots, self->argument_count, NULL);
    }
    if (arguments->args != NULL) {
        return PyObject_Vectorcall(target, arguments->args, arguments->count, arguments->names);
    }
    if (!(self->code->co_flags & (CO_VARARGS | CO_VARKEYWORDS))) {
        return PyObject_Vectorcall(target, arguments->slots, self->argument_count,
                                   self->keyword_names);
    }
    return call_spread(self, target, arguments->slots);
}

/* The callback for frames below an entry: in scoped entries the own one or, without one, that in
 * force; else nobody. Borrowed. */
static PyObject *
wanted_callback(CompiledFunction *self, int is_scoped)
{
    if (!is_scoped) {
        return NULL;
    }
    return self->callback == NULL || self->callback == Py_None ? hook.callback : self->callback;
}

/* Let go of the arguments that the caller of the running code holds: the frame has them. */
static PyObject *
module_release(PyObject *module, PyObject *unused)
{
    Handed *handed = hook.handed;
    _PyInterpreterFrame *frame = CURRENT_FRAME(PyThreadState_Get());
    if (handed == NULL || frame == NULL || handed->code != (PyObject *)FRAME_CODE(frame)) {
        Py_RETURN_NONE;
    }
    hook.handed = NULL;
    if (handed->callable == NULL) {
        release_all(handed->held, handed->count);
    }
    else {
        release_on_stack(frame, handed->callable, handed->held, handed->count);
    }
    if (handed->binding != NULL) {
        Py_CLEAR(handed->binding->args);
        Py_CLEAR(handed->binding->kwargs);
    }
    Py_RETURN_NONE;
}

/* In front of the call of something that may ask for the release of its arguments. Returns what
 * `hook.handed` is to be after it. */
static Handed *
hand_over(Handed *handed, PyObject *target)
{
    Handed *before = hook.handed;
    handed->code = PyFunction_Check(target) ? ((PyFunctionObject *)target)->func_code : NULL;
    hook.handed = handed;
    return before;
}

static PyObject *
call_handed(CompiledFunction *self, PyObject *target, const Arguments *arguments)
{
    Handed *before = hand_over(arguments->handed, target);
    PyObject *result = call_with(self, target, arguments);
    hook.handed = before;
    return result;
}

/* Call an entry's function with the right callback for frames below. */
static PyObject *
call_in_scope(CompiledFunction *self, PyObject *target, const Arguments *arguments, int is_scoped)
{
    PyObject *wanted = wanted_callback(self, is_scoped);
    if (wanted == hook.callback) {
        return call_handed(self, target, arguments);
    }
    PyObject *before = hook_swap(wanted);
    PyObject *result = call_handed(self, target, arguments);
    hook_restore(before);
    return result;
}

/* Whether the configuration in force says that compiled functions run as plain Python. The answer
 * is kept per Config object, which never changes. */
static struct {
    PyObject *variable;       /* ContextVar: the Config of this thread or task, or None */
    PyObject *asked;          /* the Config asked last; owned */
    char asked_is_eager;
    char default_is_eager;    /* of the process's default */
} settings;

static int
is_eager(void)
{
    PyObject *value = NULL;
    if (PyContextVar_Get(settings.variable, NULL, &value) < 0 || value == NULL) {
        PyErr_Clear();
        return settings.default_is_eager;
    }
    if (value == Py_None) {
        Py_DECREF(value);
        return settings.default_is_eager;
    }
    if (value != settings.asked) {
        PyObject *answer = PyObject_GetAttrString(value, "is_eager");
        settings.asked_is_eager = answer == Py_True;
        PyErr_Clear();
        Py_XDECREF(answer);
        Py_XSETREF(settings.asked, Py_NewRef(value));
    }
    Py_DECREF(value);
    return settings.asked_is_eager;
}

/* The original, as plain Python; frames below it stay visible to a callback in force. */
static PyObject *
call_original(CompiledFunction *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    PyObject *function = Py_NewRef(self->function);
    if (hook.callback != NULL) {
        hook.passed = (PyCodeObject *)((PyFunctionObject *)function)->func_code;
    }
    PyObject *result = PyObject_Vectorcall(function, args, nargsf, names);
    hook.passed = NULL;
    Py_DECREF(function);
    return result;
}

/* The entry whose guards hold (borrowed) or NULL; moved to the front. */
static Entry *
find_entry(CompiledFunction *self, PyObject *const *slots, PyObject *function)
{
    Call call = {slots, self->slot_count, self->named_count, function, 1};
    for (int i = 0; i < self->entry_count; i++) {
        Guards *guards = (Guards *)Py_NewRef(self->entries[i].guards);
        int holds = guards_check(guards, &call);
        int moved = i >= self->entry_count || self->entries[i].guards != guards;
        Py_DECREF(guards);
        if (moved) { /* eager code ran while a stale view was refreshed, and changed the list */
            i = -1;
            continue;
        }
        if (!holds) {
            continue;
        }
        if (i > 0) {
            Entry found = self->entries[i];
            memmove(self->entries + 1, self->entries, i * sizeof(Entry));
            self->entries[0] = found;
        }
        self->entries[0].hits++;
        self->hits++;
        return &self->entries[0];
    }
    return NULL;
}

/* An error that the compiler raises for users says where in its text: its own frames go. */
static void
hide_own_frames(void)
{
    if (!PyErr_ExceptionMatches(capture_error)) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (PyException_SetTraceback(value, Py_None) < 0) {
        PyErr_Clear();
    }
    Py_CLEAR(traceback);
    PyErr_Restore(type, value, NULL);
}

/* Ask on_miss which function to run. New reference; *is_scoped as its entry says. */
static PyObject *
miss(CompiledFunction *self, PyObject *const *slots, PyObject *function, int *is_scoped)
{
    *is_scoped = 0;
    if (self->on_miss == NULL) { /* cleared by the garbage collector, or deleted */
        return Py_NewRef(function);
    }
    PyObject *flat = PyTuple_New(self->slot_count);
    if (flat == NULL) {
        return NULL;
    }
    for (int i = 0; i < self->slot_count; i++) {
        PyObject *slot = slot_for_others(slots[i]);
        if (slot == NULL) {
            Py_DECREF(flat);
            return NULL;
        }
        PyTuple_SET_ITEM(flat, i, slot);
    }
    PyObject *on_miss = Py_NewRef(self->on_miss);
    PyObject *before = hook_swap(NULL);
    PyObject *target =
        PyObject_CallFunctionObjArgs(on_miss, (PyObject *)self, function, flat, NULL);
    hook_restore(before);
    Py_DECREF(on_miss);
    Py_DECREF(flat);
    if (target == NULL && PyErr_ExceptionMatches(PyExc_RecursionError)) {
        PyErr_Clear(); /* no room for the compiler: plain Python meets the limit, or does not */
        target = Py_NewRef(Py_None);
    }
    if (target == NULL) {
        hide_own_frames();
        return NULL;
    }
    if (target == Py_None) {
        Py_SETREF(target, Py_NewRef(function));
    }
    if (!PyCallable_Check(target)) {
        PyErr_Format(PyExc_TypeError, "on_miss returned a %s.  Expected a function or None.",
                     Py_TYPE(target)->tp_name);
        Py_DECREF(target);
        return NULL;
    }
    for (int i = 0; i < self->entry_count; i++) {
        if (self->entries[i].function == target) {
            *is_scoped = self->entries[i].is_scoped;
        }
    }
    return target;
}

/* Tell `after_miss` that a call that compiled something is over; the call's outcome stays. */
static void
report_miss(CompiledFunction *self)
{
    if (self->after_miss == NULL || self->after_miss == Py_None) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *before = hook_swap(NULL);
    PyObject *after_miss = Py_NewRef(self->after_miss);
    PyObject *answer = PyObject_CallOneArg(after_miss, (PyObject *)self);
    if (answer == NULL) {
        PyErr_WriteUnraisable(after_miss);
    }
    Py_XDECREF(answer);
    Py_DECREF(after_miss);
    hook_restore(before);
    PyErr_Restore(type, value, traceback);
}

/* One call. *missed: no entry fitted. The result may be a TailCall. */
static PyObject *
run_bound(CompiledFunction *self, const Arguments *arguments, int *missed)
{
    Entry *entry = find_entry(self, arguments->slots, self->function);
    if (entry != NULL) {
        PyObject *target = Py_NewRef(entry->function);
        PyObject *result = call_in_scope(self, target, arguments, entry->is_scoped);
        Py_DECREF(target);
        return result;
    }
    int is_scoped = 0;
    *missed = 1;
    PyObject *target = miss(self, arguments->slots, self->function, &is_scoped);
    if (target == NULL) {
        return NULL;
    }
    PyObject *result;
    if (target == self->function) {
        if (hook.callback != NULL) {
            hook.passed = (PyCodeObject *)((PyFunctionObject *)target)->func_code;
        }
        result = call_handed(self, target, arguments);
        hook.passed = NULL;
    }
    else {
        result = call_in_scope(self, target, arguments, is_scoped);
    }
    Py_DECREF(target);
    return result;
}

/* A compiled call up to its first tail call. */
static PyObject *
call_compiled(CompiledFunction *self, PyObject *const *args, size_t nargsf, PyObject *names,
              Handed *handed, int *missed)
{
    if (self->disabled || is_eager() || tensor_api->grad_mode()->has_levels
        || (self->is_rest && PyThreadState_Get()->c_tracefunc != NULL)
        || !is_called_plainly(self->function)) {
        Handed *before = hand_over(handed, self->function);
        PyObject *result = call_original(self, args, nargsf, names);
        hook.handed = before;
        return result;
    }
    if (((PyFunctionObject *)self->function)->func_code != (PyObject *)self->code) {
        drop_entries(self); /* f.__code__ was assigned */
        if (adopt_code(self) < 0) {
            return NULL;
        }
    }
    self->calls++;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    if (names == NULL && self->is_positional && count == self->argument_count) {
        return run_bound(self, &(Arguments){args, args, count, NULL, handed}, missed);
    }
    Binding binding;
    if (!bind(self, args, count, names, &binding)) {
        release_binding(&binding);
        PyErr_Clear();
        self->calls--;
        return call_original(self, args, nargsf, names); /* raises what CPython raises */
    }
    handed->binding = &binding;
    Arguments arguments = {
        binding.slots, binding.has_defaults ? NULL : args, count, names, handed,
    };
    PyObject *result = run_bound(self, &arguments, missed);
    release_binding(&binding);
    return result;
}

/* The rest of a function after a break, to be called when the frame in front of it is gone: a loop
 * that breaks in every turn needs no deeper stack, and nothing of that frame stays alive. */
typedef struct {
    PyObject_VAR_HEAD
    PyObject *callable;
    PyObject *callback; /* in force where the call was asked for; NULL: none */
    PyObject *args[1];
} TailCall;

static void
tail_dealloc(TailCall *self)
{
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_XDECREF(self->args[i]);
    }
    Py_XDECREF(self->callback);
    Py_DECREF(self->callable);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject TailCallType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.capture._capture.TailCall",
    .tp_doc = "A call that the caller of the running code makes; never seen by users.",
    .tp_basicsize = offsetof(TailCall, args),
    .tp_itemsize = sizeof(PyObject *),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)tail_dealloc,
};

static PyObject *
module_tail_call(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "tail_call: what to call is missing");
        return NULL;
    }
    TailCall *made = PyObject_NewVar(TailCall, &TailCallType, count - 1);
    if (made == NULL) {
        return NULL;
    }
    made->callable = Py_NewRef(args[0]);
    made->callback = Py_XNewRef(hook.callback);
    for (Py_ssize_t i = 1; i < count; i++) {
        made->args[i - 1] = Py_NewRef(args[i]);
    }
    return (PyObject *)made;
}

/* Make the tail calls that a result asks for, one after the other. Steals `result`. */
static PyObject *
finish_tail_calls(PyObject *result)
{
    while (result != NULL && Py_IS_TYPE(result, &TailCallType)) {
        TailCall *call = (TailCall *)result;
        PyObject *before = hook_swap(call->callback);
        Handed handed = {.held = call->args, .count = Py_SIZE(call)};
        if (Py_IS_TYPE(call->callable, &CompiledFunctionType)) {
            int missed = 0;
            result = call_compiled((CompiledFunction *)call->callable, call->args, Py_SIZE(call),
                                   NULL, &handed, &missed);
        }
        else {
            Handed *outer = hand_over(&handed, call->callable);
            result = PyObject_Vectorcall(call->callable, call->args, Py_SIZE(call), NULL);
            hook.handed = outer;
        }
        hook_restore(before);
        Py_DECREF(call);
    }
    return result;
}

static PyObject *
module_finish_tail_calls(PyObject *module, PyObject *result)
{
    return finish_tail_calls(Py_NewRef(result));
}

static PyObject *
compiled_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names)
{
    CompiledFunction *self = (CompiledFunction *)callable;
    int missed = 0;
    Handed handed = {
        .held = (PyObject **)args,
        .count = PyVectorcall_NARGS(nargsf) + (names == NULL ? 0 : PyTuple_GET_SIZE(names)),
        .callable = callable,
    };
    PyObject *result = call_compiled(self, args, nargsf, names, &handed, &missed);
    if (result != NULL && Py_IS_TYPE(result, &TailCallType)) {
        result = finish_tail_calls(result);
    }
    if (missed) {
        report_miss(self);
    }
    return result;
}

/* As functools.wraps does: names, documentation, annotations and the function's own attributes. */
static const char *const copied_names[] = {
    "__module__", "__name__", "__qualname__", "__doc__",
#if PY_VERSION_HEX < 0x030E0000
    "__annotations__",
#else
    "__annotate__", /* annotations are evaluated when they are asked for */
#endif
};

static int
copy_description(PyObject *function, PyObject *dict)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(copied_names); i++) {
        PyObject *value = PyObject_GetAttrString(function, copied_names[i]);
        if (value == NULL || PyDict_SetItemString(dict, copied_names[i], value) < 0) {
            Py_XDECREF(value);
            return -1;
        }
        Py_DECREF(value);
    }
    PyObject *own = ((PyFunctionObject *)function)->func_dict;
    return own == NULL ? 0 : PyDict_Update(dict, own);
}

static PyObject *
compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "on_miss", "callback", NULL};
    PyObject *function, *on_miss, *callback = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|O:CompiledFunction", names,
                                     &PyFunction_Type, &function, &on_miss, &callback)) {
        return NULL;
    }
    CompiledFunction *self = (CompiledFunction *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = compiled_vectorcall;
    self->function = Py_NewRef(function);
    self->on_miss = Py_NewRef(on_miss);
    self->callback = Py_NewRef(callback);
    self->dict = PyDict_New();
    if (self->dict == NULL || copy_description(function, self->dict) < 0 || adopt_code(self) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* Code objects hide what they refer to from the garbage collector, and the code of an entry refers
 * to what goes on after a break: in a loop to its own CompiledFunction. Where a code object belongs
 * to one function alone, which runs nowhere and is known to nobody else, its constants are as good
 * as ours. `holders`: how many of ours hold the function. */
static int
visit_constants(PyObject *function, Py_ssize_t holders, visitproc visit, void *arg)
{
    if (!PyFunction_Check(function) || Py_REFCNT(function) != holders) {
        return 0;
    }
    PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)function)->func_code;
    if (Py_REFCNT(code) != 1) { /* a frame runs it */
        return 0;
    }
    Py_VISIT(code->co_consts);
    if (Py_REFCNT(code->co_consts) != 1) { /* another code object counts what is in there */
        return 0;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); i++) {
        int stop = visit_constants(PyTuple_GET_ITEM(code->co_consts, i), 1, visit, arg);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

static int
compiled_traverse(CompiledFunction *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->code);
    Py_VISIT(self->on_miss);
    Py_VISIT(self->callback);
    Py_VISIT(self->after_miss);
    Py_VISIT(self->dict);
    for (int i = 0; i < self->entry_count; i++) {
        Py_VISIT(self->entries[i].guards);
        Py_VISIT(self->entries[i].function);
        Py_VISIT(self->entries[i].owner);
        if (Py_REFCNT(self->entries[i].owner) == 1) { /* an Entry, which holds the function, too */
            int stop = visit_constants(self->entries[i].function, 2, visit, arg);
            if (stop) {
                return stop;
            }
        }
    }
    return 0;
}

static int
compiled_clear(CompiledFunction *self)
{
    /* function and code stay: calling a cleared object must still be safe */
    self->disabled = 1;
    drop_entries(self);
    Py_CLEAR(self->on_miss);
    Py_CLEAR(self->after_miss);
    Py_CLEAR(self->callback);
    Py_CLEAR(self->dict);
    return 0;
}

static void
compiled_dealloc(CompiledFunction *self)
{
    PyObject_GC_UnTrack(self);
    forget_code(self); /* first: a weak reference's callback may run frames of this code */
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    compiled_clear(self);
    Py_CLEAR(self->function);
    Py_CLEAR(self->code);
    Py_CLEAR(self->keyword_names);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
compiled_get(PyObject *self, PyObject *instance, PyObject *owner)
{
    if (instance == NULL || instance == Py_None) {
        return Py_NewRef(self);
    }
    return PyMethod_New(self, instance);
}

static PyObject *
compiled_repr(CompiledFunction *self)
{
    return PyUnicode_FromFormat("<compiled %U at %p>",
                                ((PyFunctionObject *)self->function)->func_qualname, self);
}

/* Pickled and copied like a function: by name. */
static PyObject *
compiled_reduce(CompiledFunction *self, PyObject *unused)
{
    return Py_NewRef(((PyFunctionObject *)self->function)->func_qualname);
}

static int
reserve_entry(CompiledFunction *self)
{
    if (self->entry_count < self->entry_capacity) {
        return 0;
    }
    int capacity = self->entry_capacity ? 2 * self->entry_capacity : 4;
    Entry *entries = PyMem_Realloc(self->entries, capacity * sizeof(Entry));
    if (entries == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->entries = entries;
    self->entry_capacity = capacity;
    return 0;
}

#define EXTRA_SKIP ((void *)1)

static PyObject *
compiled_add_entry(CompiledFunction *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"guards", "function", "owner", "is_scoped", NULL};
    PyObject *guards, *function, *owner = Py_None;
    int is_scoped = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|Op:add_entry", names, &GuardsType, &guards,
                                     &function, &owner, &is_scoped)) {
        return NULL;
    }
    if (!PyCallable_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "add_entry: function is not callable");
        return NULL;
    }
    if (reserve_entry(self) < 0) {
        return NULL;
    }
    if (PyFunction_Check(function)
        && ((PyFunctionObject *)function)->func_code != (PyObject *)self->code
        && CODE_SET_EXTRA(((PyFunctionObject *)function)->func_code, extra_index, EXTRA_SKIP) < 0) {
        return NULL;
    }
    memmove(self->entries + 1, self->entries, self->entry_count * sizeof(Entry));
    self->entries[0] = (Entry){
        .guards = (Guards *)Py_NewRef(guards),
        .function = Py_NewRef(function),
        .owner = Py_NewRef(owner),
        .is_scoped = is_scoped,
    };
    self->entry_count++;
    Py_RETURN_NONE;
}

static PyObject *
compiled_remove_entry(CompiledFunction *self, PyObject *owner)
{
    for (int i = 0; i < self->entry_count; i++) {
        if (self->entries[i].owner == owner) {
            Entry removed = self->entries[i];
            self->entry_count--;
            memmove(self->entries + i, self->entries + i + 1,
                    (self->entry_count - i) * sizeof(Entry));
            Py_DECREF(removed.guards);
            Py_DECREF(removed.function);
            Py_DECREF(removed.owner);
            Py_RETURN_TRUE;
        }
    }
    Py_RETURN_FALSE;
}

static PyObject *
compiled_clear_entries(CompiledFunction *self, PyObject *unused)
{
    drop_entries(self);
    self->is_slower = 0;
    self->trial = 0;
    memset(self->spent, 0, sizeof(self->spent));
    memset(self->fastest, 0, sizeof(self->fastest));
    memset(self->slowest, 0, sizeof(self->slowest));
    Py_RETURN_NONE;
}

static PyObject *
compiled_entries(CompiledFunction *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    if (list == NULL) {
        return NULL;
    }
    for (int i = 0; i < self->entry_count; i++) {
        PyObject *item = Py_BuildValue("OK", self->entries[i].owner,
                                       (unsigned long long)self->entries[i].hits);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_XDECREF(item);
            Py_DECREF(list);
            return NULL;
        }
        Py_DECREF(item);
    }
    return list;
}

/* bind(args, kwargs) -> flat slots as a tuple, or None where the call would raise. */
static PyObject *
compiled_bind(CompiledFunction *self, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    Py_ssize_t keywords = kwargs == NULL ? 0 : PyDict_GET_SIZE(kwargs);
    PyObject *names = PyTuple_New(keywords);
    PyObject **flat = PyMem_Malloc((count + keywords + 1) * sizeof(PyObject *));
    if (names == NULL || flat == NULL) {
        Py_XDECREF(names);
        PyMem_Free(flat);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        flat[i] = PyTuple_GET_ITEM(args, i);
    }
    Py_ssize_t cursor = 0, position = 0;
    PyObject *key, *value;
    while (keywords && PyDict_Next(kwargs, &cursor, &key, &value)) {
        PyTuple_SET_ITEM(names, position, Py_NewRef(key));
        flat[count + position++] = value;
    }
    Binding binding;
    PyObject *result;
    if (bind(self, flat, count, names, &binding)) {
        result = PyTuple_New(self->slot_count);
        for (int i = 0; result != NULL && i < self->slot_count; i++) {
            PyObject *slot = slot_for_others(binding.slots[i]);
            if (slot == NULL) {
                Py_CLEAR(result);
                break;
            }
            PyTuple_SET_ITEM(result, i, slot);
        }
    }
    else {
        PyErr_Clear();
        result = Py_NewRef(Py_None);
    }
    release_binding(&binding);
    Py_DECREF(names);
    PyMem_Free(flat);
    return result;
}

static PyObject *
compiled_get_entry_count(CompiledFunction *self, void *closure)
{
    return PyLong_FromLong(self->entry_count);
}

static PyMethodDef compiled_methods[] = {
    {"add_entry", (PyCFunction)(void (*)(void))compiled_add_entry, METH_VARARGS | METH_KEYWORDS,
     "add_entry(guards, function, owner=None, is_scoped=False): publish an entry, tried first.\n"
     "Frames called from a scoped entry are shown to `callback`."},
    {"remove_entry", (PyCFunction)compiled_remove_entry, METH_O,
     "remove_entry(owner) -> bool: whether there was such an entry."},
    {"clear_entries", (PyCFunction)compiled_clear_entries, METH_NOARGS, "Drop every entry."},
    {"entries", (PyCFunction)compiled_entries, METH_NOARGS,
     "entries() -> [(owner, hits), ...] in the order in which they are tried."},
    {"bind", (PyCFunction)(void (*)(void))compiled_bind, METH_VARARGS | METH_KEYWORDS,
     "bind(*args, **kwargs) -> flat slots as a tuple, or None where the call would raise."},
    {"__reduce__", (PyCFunction)compiled_reduce, METH_NOARGS, "Pickled by name."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef compiled_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(CompiledFunction, function), READONLY, "The original."},
    {"__code__", T_OBJECT, offsetof(CompiledFunction, code), READONLY, "The original's code."},
    {"on_miss", T_OBJECT_EX, offsetof(CompiledFunction, on_miss), 0,
     "on_miss(compiled, function, flat arguments) -> function to call, or None: the original."},
    {"callback", T_OBJECT, offsetof(CompiledFunction, callback), 0,
     "Callback for frames met in scoped entries, or None."},
    {"after_miss", T_OBJECT, offsetof(CompiledFunction, after_miss), 0,
     "after_miss(compiled): called when a call that found no entry is over, or None."},
    {"calls", T_ULONGLONG, offsetof(CompiledFunction, calls), 0, "Calls so far."},
    {"hits", T_ULONGLONG, offsetof(CompiledFunction, hits), 0, "Calls that found an entry."},
    {"disabled", T_BOOL, offsetof(CompiledFunction, disabled), 0, "True: run the original."},
    {"is_slower", T_BOOL, offsetof(CompiledFunction, is_slower), READONLY,
     "True: disabled, since frames of it were faster as they are."},
    {"is_rest", T_BOOL, offsetof(CompiledFunction, is_rest), 0,
     "True: what goes on after a break; runs the original while sys.settrace is in force."},
    {NULL, 0, 0, 0, NULL},
};

#if PY_VERSION_HEX >= 0x030E0000
static PyObject *
compiled_get_annotations(CompiledFunction *self, void *closure)
{
    PyObject *own = PyDict_GetItemString(self->dict, "__annotations__");
    return own != NULL ? Py_NewRef(own) : PyObject_GetAttrString(self->function, "__annotations__");
}

static int
compiled_set_annotations(CompiledFunction *self, PyObject *value, void *closure)
{
    return value == NULL ? PyDict_DelItemString(self->dict, "__annotations__")
                         : PyDict_SetItemString(self->dict, "__annotations__", value);
}
#endif

static PyGetSetDef compiled_getset[] = {
#if PY_VERSION_HEX >= 0x030E0000
    {"__annotations__", (getter)compiled_get_annotations, (setter)compiled_set_annotations,
     "The original's annotations, or what was assigned.", NULL},
#endif
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"entry_count", (getter)compiled_get_entry_count, NULL, "Number of entries.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject CompiledFunctionType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.capture._capture.CompiledFunction",
    .tp_doc = "CompiledFunction(function, on_miss, callback=None): a function with guarded entries.\n\n"
              "Behaves like `function` (binds as a method, keeps its name and signature); a call\n"
              "runs the first entry whose guards hold, else what on_miss returns.",
    .tp_basicsize = sizeof(CompiledFunction),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL
                | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = compiled_new,
    .tp_dealloc = (destructor)compiled_dealloc,
    .tp_traverse = (traverseproc)compiled_traverse,
    .tp_clear = (inquiry)compiled_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(CompiledFunction, vectorcall),
    .tp_dictoffset = offsetof(CompiledFunction, dict),
    .tp_weaklistoffset = offsetof(CompiledFunction, weakrefs),
    .tp_descr_get = compiled_get,
    .tp_repr = (reprfunc)compiled_repr,
    .tp_methods = compiled_methods,
    .tp_members = compiled_members,
    .tp_getset = compiled_getset,
};

/* -------------------------------------------------------------------------- Frame hook ---- */

/* Where this thread's C stack ends. A hooked call uses about 500 bytes of it where an unhooked
 * one uses none, and CPython 3.11 does not watch it at all. */
#define UNKNOWN_STACK_BYTES (512 * 1024)

static void
find_stack(char *here)
{
    char *low = here - UNKNOWN_STACK_BYTES;
    size_t size = UNKNOWN_STACK_BYTES;
#ifdef __linux__
    pthread_attr_t attributes;
    void *address;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &address, &size) == 0) {
            low = address;
        }
        pthread_attr_destroy(&attributes);
    }
#endif
    hook.stack_half = low + size / 2;
    hook.stack_end = low + size / 8;
}

/* Run the frame as it is now. */
static PyObject *
run_frame(PyThreadState *ts, _PyInterpreterFrame *frame, int throwflag)
{
#if C_RECURSION_PER_FRAME
    char here;
    int given = &here > hook.stack_half ? C_RECURSION_PER_FRAME : 0;
    ts->c_recursion_remaining += given;
#endif
    PyObject *result = outer_evaluator(ts, frame, throwflag);
#if C_RECURSION_PER_FRAME
    ts->c_recursion_remaining -= given;
#endif
    return result;
}

#define GENERATOR_FLAGS \
    (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)
#define SIGNATURE_FLAGS (CO_VARARGS | CO_VARKEYWORDS)

static int
is_replaceable(PyThreadState *ts, _PyInterpreterFrame *frame)
{
    if (frame->owner != FRAME_OWNED_BY_THREAD || IS_TRACING(ts)) {
        return 0;
    }
    int flags = FRAME_CODE(frame)->co_flags;
    return (flags & CO_OPTIMIZED) && (flags & CO_NEWLOCALS) && !(flags & GENERATOR_FLAGS);
}

/* Free variables: the last co_nfreevars of co_localsplusnames. */
static int
same_free_variables(PyCodeObject *a, PyCodeObject *b)
{
    if (a->co_nfreevars != b->co_nfreevars) {
        return 0;
    }
    for (int i = 1; i <= a->co_nfreevars; i++) {
        PyObject *x = PyTuple_GET_ITEM(a->co_localsplusnames, a->co_nlocalsplus - i);
        PyObject *y = PyTuple_GET_ITEM(b->co_localsplusnames, b->co_nlocalsplus - i);
        if (x != y && PyUnicode_Compare(x, y) != 0) {
            return 0;
        }
    }
    return 1;
}

/* Can `frame`, which has not started, run `new` instead of its own code? */
static int
can_swap(PyThreadState *ts, _PyInterpreterFrame *frame, PyFunctionObject *function)
{
    PyCodeObject *old = FRAME_CODE(frame), *new = (PyCodeObject *)function->func_code;
    if (function->func_globals != frame->f_globals || (new->co_flags & GENERATOR_FLAGS)
        || !(new->co_flags & CO_OPTIMIZED) || !(new->co_flags & CO_NEWLOCALS)
        || new->co_argcount != old->co_argcount
        || new->co_kwonlyargcount != old->co_kwonlyargcount
        || (new->co_flags & SIGNATURE_FLAGS) != (old->co_flags & SIGNATURE_FLAGS)
        || !same_free_variables(old, new)) {
        return 0;
    }
    int needed = CODE_FRAME_SIZE(new), size = CODE_FRAME_SIZE(old);
    if (needed <= size) {
        return 1;
    }
    /* it may only grow at the top of the stack, within its chunk */
    return (PyObject **)frame + size == ts->datastack_top
           && (PyObject **)frame + needed < ts->datastack_limit;
}

/* Give the frame another code object and run it. The interpreter clears the frame as usual. */
static PyObject *
swap_and_run(PyThreadState *ts, _PyInterpreterFrame *frame, PyCodeObject *new)
{
    PyCodeObject *old = FRAME_CODE(frame);
    if ((PyObject **)frame + CODE_FRAME_SIZE(old) == ts->datastack_top) {
        ts->datastack_top = (PyObject **)frame + CODE_FRAME_SIZE(new);
    }
    frame_set_code(frame, new);
    return run_frame(ts, frame, 0);
}

/* Leave a frame that has not started with the exception that is set. */
static PyObject *
fail_frame(PyThreadState *ts, _PyInterpreterFrame *frame)
{
    return run_frame(ts, frame, 1);
}

static int
frame_slot_count(PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0)
           + ((code->co_flags & CO_VARKEYWORDS) != 0);
}

/* Ask the callback for the CompiledFunction of a code object met for the first time.
 * New reference; NULL with or without an exception. */
static CompiledFunction *
ask_callback(_PyInterpreterFrame *frame)
{
    PyCodeObject *code = FRAME_CODE(frame);
    int count = frame_slot_count(code);
    PyObject *flat = PyTuple_New(count);
    if (flat == NULL) {
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        PyTuple_SET_ITEM(flat, i, Py_NewRef(frame_local(frame, i)));
    }
    PyObject *callback = Py_NewRef(hook.callback);
    PyObject *before = hook_swap(NULL);
    PyObject *answer =
        PyObject_CallFunctionObjArgs(callback, (PyObject *)FRAME_FUNCTION(frame), flat, NULL);
    hook_restore(before);
    Py_DECREF(callback);
    Py_DECREF(flat);
    if (answer == NULL || answer == Py_None) {
        Py_XDECREF(answer);
        return NULL;
    }
    if (!Py_IS_TYPE(answer, &CompiledFunctionType)) {
        PyErr_Format(PyExc_TypeError,
                     "the frame callback returned a %s.  Expected a CompiledFunction or None.",
                     Py_TYPE(answer)->tp_name);
        Py_DECREF(answer);
        return NULL;
    }
    return (CompiledFunction *)answer;
}

/* Frames that plain Python calls again and again may do so little that their guards cost more than
 * their kernels save. After so many that found an entry, as many of the next ones run compiled as
 * plain; what is slower then, as a whole and in its fastest run, is given up. Who is first of two,
 * of four and of eight changes (the sequence of Thue and Morse), so that calls for large and for
 * small arrays in turns come to both. */
#define TRIAL_BEGIN 64
#define TRIAL_END (TRIAL_BEGIN + 16)
#define TRIAL_PLAIN 0x6996 /* a bit for each frame of the trial, the lowest for its first */
#define TRIAL_SHARE 0.8

static double
seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Whether a frame of the trial, counted from one, runs plainly. */
static int
is_plain_turn(int turn)
{
    return turn > TRIAL_BEGIN && (TRIAL_PLAIN >> (turn - TRIAL_BEGIN - 1) & 1);
}

/* Whether the next frame is to run plainly; counts it while the trial goes on. */
static int
begin_turn(CompiledFunction *compiled)
{
    return compiled->trial < TRIAL_END && is_plain_turn(++compiled->trial);
}

/* Of all frames of one kind but the slowest: the first plain one meets code that nobody ran yet. */
static double
usual_seconds(const CompiledFunction *compiled, int is_plain)
{
    return compiled->spent[is_plain] - compiled->slowest[is_plain];
}

static void
note_turn(CompiledFunction *compiled, int turn, double seconds)
{
    int is_plain = is_plain_turn(turn);
    double *fastest = &compiled->fastest[is_plain], *slowest = &compiled->slowest[is_plain];
    compiled->spent[is_plain] += seconds;
    *fastest = *fastest == 0.0 || seconds < *fastest ? seconds : *fastest;
    *slowest = seconds > *slowest ? seconds : *slowest;
    if (turn == TRIAL_END && compiled->fastest[1] < TRIAL_SHARE * compiled->fastest[0]
        && usual_seconds(compiled, 1) < TRIAL_SHARE * usual_seconds(compiled, 0)) {
        compiled->disabled = compiled->is_slower = 1;
    }
}

/* The function whose code the frame shall run. New reference; NULL with or without an exception:
 * the original. */
static PyObject *
choose_function(CompiledFunction *compiled, _PyInterpreterFrame *frame, int *is_scoped)
{
    PyObject *function = (PyObject *)FRAME_FUNCTION(frame);
    if (compiled->disabled || compiled->code != FRAME_CODE(frame) || is_eager()
        || tensor_api->grad_mode()->has_levels) {
        return NULL;
    }
    compiled->calls++;
    PyObject *slots[compiled->slot_count + 1];
    for (int i = 0; i < compiled->slot_count; i++) {
        slots[i] = frame_local(frame, i);
    }
    Entry *entry = find_entry(compiled, slots, function);
    if (entry != NULL) {
        *is_scoped = entry->is_scoped;
        return begin_turn(compiled) ? NULL : Py_NewRef(entry->function);
    }
    PyObject *target = miss(compiled, slots, function, is_scoped);
    if (target == function || target == compiled->function
        || (target != NULL && !PyFunction_Check(target))) {
        Py_CLEAR(target);
    }
    return target;
}

static PyObject *
run_chosen(PyThreadState *ts, _PyInterpreterFrame *frame, CompiledFunction *compiled,
           PyObject *function, int is_scoped)
{
    if (!can_swap(ts, frame, (PyFunctionObject *)function)) {
        return run_frame(ts, frame, 0);
    }
    PyCodeObject *code = (PyCodeObject *)Py_NewRef(((PyFunctionObject *)function)->func_code);
    PyObject *wanted = wanted_callback(compiled, is_scoped);
    /* from here on `outer_evaluator` must stay what it is: a scope may end below */
    PyObject *before = hook_swap(wanted);
    PyObject *result = swap_and_run(ts, frame, code);
    hook_restore(before);
    Py_DECREF(code);
    return finish_tail_calls(result);
}

static PyObject *
evaluate_frame(PyThreadState *ts, _PyInterpreterFrame *frame, int throwflag)
{
    char here;
    if (hook.stack_end == NULL) {
        find_stack(&here);
    }
    if (&here < hook.stack_end && !throwflag) {
        PyErr_SetString(PyExc_RecursionError, "the C stack is nearly used up");
        return fail_frame(ts, frame);
    }
    if (hook.callback == NULL || throwflag || !is_replaceable(ts, frame)) {
        return run_frame(ts, frame, throwflag);
    }
    PyCodeObject *code = FRAME_CODE(frame);
    if (hook.passed == code) {
        hook.passed = NULL;
        return run_frame(ts, frame, 0);
    }
    void *extra = NULL;
    CODE_GET_EXTRA((PyObject *)code, extra_index, &extra);
    if (extra == EXTRA_SKIP) {
        return run_frame(ts, frame, 0);
    }
    CompiledFunction *compiled = (CompiledFunction *)Py_XNewRef((PyObject *)extra);
    if (compiled == NULL) {
        compiled = ask_callback(frame);
    }
    PyObject *function = NULL;
    int is_scoped = 0, turn = 0;
    double start = 0.0;
    if (compiled != NULL) {
        int before = compiled->trial;
        start = before >= TRIAL_BEGIN && before < TRIAL_END ? seconds_now() : 0.0;
        function = choose_function(compiled, frame, &is_scoped);
        if (compiled->trial > before && compiled->trial > TRIAL_BEGIN) {
            turn = compiled->trial;
            /* without its entries a frame would have no guards */
            start = function == NULL ? seconds_now() : start;
        }
    }
    PyObject *result;
    if (function != NULL) {
        result = run_chosen(ts, frame, compiled, function, is_scoped);
        Py_DECREF(function);
    }
    else if (PyErr_Occurred()) {
        result = fail_frame(ts, frame);
    }
    else {
        result = run_frame(ts, frame, 0);
    }
    if (turn > 0) {
        note_turn(compiled, turn, seconds_now() - start);
    }
    Py_XDECREF(compiled);
    return result;
}

/* ----------------------------------------------------------------------- Module functions ---- */

static PyObject *
module_hook_enter(PyObject *module, PyObject *callback)
{
    if (callback != Py_None && !PyCallable_Check(callback)) {
        PyErr_SetString(PyExc_TypeError, "hook_enter: expected a callable or None");
        return NULL;
    }
    if (hook.depth == hook.capacity) {
        Py_ssize_t capacity = hook.capacity ? 2 * hook.capacity : 8;
        PyObject **outer = PyMem_Realloc(hook.outer, capacity * sizeof(PyObject *));
        if (outer == NULL) {
            return PyErr_NoMemory();
        }
        hook.outer = outer;
        hook.capacity = capacity;
    }
    hook.outer[hook.depth++] = hook_swap(callback == Py_None ? NULL : callback);
    Py_RETURN_NONE;
}

static PyObject *
module_hook_leave(PyObject *module, PyObject *unused)
{
    if (hook.depth == 0) {
        PyErr_SetString(PyExc_RuntimeError, "hook_leave without hook_enter in this thread");
        return NULL;
    }
    hook_restore(hook.outer[--hook.depth]);
    if (hook.depth == 0) { /* keep nothing in a thread that may end */
        PyMem_Free(hook.outer);
        hook.outer = NULL;
        hook.capacity = 0;
    }
    Py_RETURN_NONE;
}

static PyObject *
module_hook_state(PyObject *module, PyObject *unused)
{
    int installed =
        _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate_frame;
    return Py_BuildValue("OO", hook.callback == NULL ? Py_None : hook.callback,
                         installed ? Py_True : Py_False);
}

static PyObject *
module_mark_skip(PyObject *module, PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "mark_skip: expected a code object, got %s",
                     Py_TYPE(code)->tp_name);
        return NULL;
    }
    if (CODE_SET_EXTRA(code, extra_index, EXTRA_SKIP) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
module_is_skipped(PyObject *module, PyObject *code)
{
    void *extra = NULL;
    if (!PyCode_Check(code)) {
        PyErr_SetString(PyExc_TypeError, "is_skipped: expected a code object");
        return NULL;
    }
    CODE_GET_EXTRA(code, extra_index, &extra);
    return PyBool_FromLong(extra == EXTRA_SKIP);
}

static PyObject *
module_cached_function(PyObject *module, PyObject *code)
{
    void *extra = NULL;
    if (!PyCode_Check(code)) {
        PyErr_SetString(PyExc_TypeError, "cached_function: expected a code object");
        return NULL;
    }
    CODE_GET_EXTRA(code, extra_index, &extra);
    return Py_NewRef(extra == NULL || extra == EXTRA_SKIP ? Py_None : (PyObject *)extra);
}

static PyObject *
module_cell_contents(PyObject *module, PyObject *cell)
{
    if (!PyCell_Check(cell)) {
        PyErr_Format(PyExc_TypeError, "cell_contents: expected a cell, got %s",
                     Py_TYPE(cell)->tp_name);
        return NULL;
    }
    return Py_NewRef(PyCell_GET(cell) == NULL ? Py_NotImplemented : PyCell_GET(cell));
}

#if PY_VERSION_HEX >= 0x030E0000
/* What LOAD_SPECIAL says when a class lacks a method of the `with` statement. */
static void
special_method_error(PyTypeObject *type, PyObject *name)
{
    PyObject *path = PyType_GetFullyQualifiedName(type);
    PyObject *enter = PyUnicode_FromString("__aenter__");
    PyObject *leave = PyUnicode_FromString("__aexit__");
    if (path != NULL && enter != NULL && leave != NULL) {
        int other = _PyType_Lookup(type, enter) != NULL && _PyType_Lookup(type, leave) != NULL;
        PyErr_Format(PyExc_TypeError,
                     "'%U' object does not support the context manager protocol (missed %U method)%s",
                     path, name,
                     other ? " but it supports the asynchronous context manager protocol. "
                             "Did you mean to use 'async with'?"
                           : "");
    }
    Py_XDECREF(path);
    Py_XDECREF(enter);
    Py_XDECREF(leave);
}

/* What LOAD_SPECIAL finds, bound. */
static PyObject *
module_special_method(PyObject *module, PyObject *args)
{
    PyObject *name, *object;
    if (!PyArg_ParseTuple(args, "UO:special_method", &name, &object)) {
        return NULL;
    }
    PyTypeObject *type = Py_TYPE(object);
    PyObject *found = _PyType_Lookup(type, name);
    if (found == NULL) {
        special_method_error(type, name);
        return NULL;
    }
    descrgetfunc bind = Py_TYPE(found)->tp_descr_get;
    if (bind == NULL) {
        return Py_NewRef(found);
    }
    Py_INCREF(found);
    PyObject *bound = bind(found, object, (PyObject *)type);
    Py_DECREF(found);
    return bound;
}
#endif

static PyObject *
module_class_tag(PyObject *module, PyObject *cls)
{
    if (!PyType_Check(cls)) {
        PyErr_SetString(PyExc_TypeError, "class_tag: expected a class");
        return NULL;
    }
    return PyLong_FromUnsignedLong(class_tag((PyTypeObject *)cls));
}

static PyObject *
module_ends_quietly(PyObject *module, PyObject *args)
{
    PyObject *object;
    int is_fresh;
    if (!PyArg_ParseTuple(args, "Op", &object, &is_fresh)) {
        return NULL;
    }
    return PyBool_FromLong(ends_quietly(object, is_fresh));
}

static PyObject *
module_is_held_weakly(PyObject *module, PyObject *object)
{
    return PyBool_FromLong(is_held_weakly(object));
}

static PyObject *
module_get_grad_mode(PyObject *module, PyObject *unused)
{
    return PyBool_FromLong(tensor_api->grad_mode()->grad_enabled);
}

static PyObject *
module_set_grad_mode(PyObject *module, PyObject *enabled)
{
    int wanted = PyObject_IsTrue(enabled);
    if (wanted < 0) {
        return NULL;
    }
    char before = tensor_api->grad_mode()->grad_enabled;
    tensor_api->grad_mode()->grad_enabled = (char)wanted;
    return PyBool_FromLong(before);
}

static PyObject *
module_set_default_is_eager(PyObject *module, PyObject *eager)
{
    int wanted = PyObject_IsTrue(eager);
    if (wanted < 0) {
        return NULL;
    }
    settings.default_is_eager = (char)wanted;
    Py_RETURN_NONE;
}

static PyObject *
module_is_called_plainly(PyObject *module, PyObject *function)
{
    return PyBool_FromLong(is_called_plainly(function));
}

static PyMethodDef module_methods[] = {
    {"tail_call", (PyCFunction)(void (*)(void))module_tail_call, METH_FASTCALL,
     "tail_call(function, *args): what compiled code returns to have the rest called."},
    {"release", module_release, METH_NOARGS,
     "release(): the caller of the running code lets go of its arguments; the frame keeps them."},
    {"finish_tail_calls", module_finish_tail_calls, METH_O,
     "finish_tail_calls(result): the result after the tail calls that it asks for."},
    {"hook_enter", module_hook_enter, METH_O,
     "hook_enter(callback): from now on, in this thread, a frame of new code asks\n"
     "callback(function, flat arguments) -> CompiledFunction or None. None: nobody is asked."},
    {"hook_leave", module_hook_leave, METH_NOARGS, "hook_leave(): undo the last hook_enter."},
    {"hook_state", module_hook_state, METH_NOARGS,
     "hook_state() -> (callback of this thread or None, is the evaluation function installed)."},
    {"mark_skip", module_mark_skip, METH_O, "mark_skip(code): the hook lets its frames run."},
    {"is_skipped", module_is_skipped, METH_O, "is_skipped(code) -> bool."},
    {"cached_function", module_cached_function, METH_O,
     "cached_function(code) -> the CompiledFunction that frames of this code use, or None."},
    {"cell_contents", module_cell_contents, METH_O,
     "cell_contents(cell) -> its contents; NotImplemented when empty."},
#if PY_VERSION_HEX >= 0x030E0000
    {"special_method", module_special_method, METH_VARARGS,
     "special_method(name, object) -> the method of the object's class, bound."},
#endif
    {"class_tag", module_class_tag, METH_O,
     "class_tag(class) -> int that is another one once the class or a base of it has changed;\n"
     "0: it has none."},
    {"class_member", (PyCFunction)(void (*)(void))module_class_member, METH_FASTCALL,
     "class_member(class, name, default): what the class or a base stores under a name.\n"
     "LookupError: a class has keys that are no strings."},
    {"is_quiet_lookup", (PyCFunction)(void (*)(void))module_is_quiet_lookup, METH_FASTCALL,
     "is_quiet_lookup(dict, name): whether looking the name up asks no key's Python code."},
    {"has_text_keys", module_has_text_keys, METH_O,
     "has_text_keys(dict) -> bool: looking up a str in it never asks a key of another class."},
    {"is_called_plainly", module_is_called_plainly, METH_O,
     "is_called_plainly(function) -> bool: does a call of it run its code, and no C\n"
     "function that an extension module set?"},
    {"makes_plainly", module_makes_plainly, METH_O,
     "makes_plainly(class) -> (is its tp_new, is its tp_init that of object?)."},
    {"is_held_weakly", module_is_held_weakly, METH_O,
     "is_held_weakly(object) -> bool: do guards refer to it weakly?"},
    {"ends_quietly", module_ends_quietly, METH_VARARGS,
     "ends_quietly(object, is_fresh) -> bool: can nobody tell that an object ends, and what it\n"
     "alone keeps alive? is_fresh: a tuple or dict made for one call."},
    {"store_hashed", (PyCFunction)(void (*)(void))module_store_hashed, METH_FASTCALL,
     "store_hashed(dict or set, hashes, keys, values): store keys without asking for their hash."},
    {"attempt", (PyCFunction)(void (*)(void))module_attempt, METH_FASTCALL,
     "attempt(function, *numbers): what the function gives, or None where it raises or one of\n"
     "the numbers is None."},
    {"read_numbers", (PyCFunction)(void (*)(void))module_read_numbers, METH_FASTCALL,
     "read_numbers(list, memory, class, shape) -> bool: whether all numbers of the list, and of the\n"
     "lists in it, are of the class, and the lists of the shape; memory holds them then."},
    {"write_numbers", (PyCFunction)(void (*)(void))module_write_numbers, METH_FASTCALL,
     "write_numbers(list, memory, class, shape) -> bool: the same, from memory to the list; numbers\n"
     "that are equal stay the objects that they are."},
    {"take_memory", (PyCFunction)(void (*)(void))module_take_memory, METH_FASTCALL,
     "take_memory(address, size) -> bytearray: a copy of memory from malloc, which is freed."},
    {"choose", (PyCFunction)(void (*)(void))module_choose, METH_FASTCALL,
     "choose(condition, a, b): `a if condition else b`."},
    {"get_grad_mode", module_get_grad_mode, METH_NOARGS, "get_grad_mode() -> bool."},
    {"set_grad_mode", module_set_grad_mode, METH_O,
     "set_grad_mode(enabled) -> the mode before (this thread)."},
    {"set_default_is_eager", module_set_default_is_eager, METH_O,
     "set_default_is_eager(eager): is_eager of the process's default configuration."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.capture._capture",
    .m_doc = "Guard evaluator, entry object and scoped frame hook.",
    .m_size = -1,
    .m_methods = module_methods,
};

/* What CPython gives every new function; its name is not public on all versions. */
static int
find_plain_call(void)
{
    PyObject *scope = PyDict_New();
    PyCodeObject *code = PyCode_NewEmpty("", "", 1);
    PyObject *function
        = scope == NULL || code == NULL ? NULL : PyFunction_New((PyObject *)code, scope);
    if (function != NULL) {
        plain_call = ((PyFunctionObject *)function)->vectorcall;
    }
    Py_XDECREF(function);
    Py_XDECREF(code);
    Py_XDECREF(scope);
    return function == NULL ? -1 : 0;
}

static int
load_dependencies(void)
{
    import_array1(-1);
    PyObject *eager = PyImport_ImportModule("dynajit.eager._tensor");
    if (eager == NULL) {
        return -1;
    }
    Py_DECREF(eager); /* sys.modules keeps it */
    tensor_api = PyCapsule_Import(DYNAJIT_TENSOR_CAPSULE, 0);
    if (tensor_api == NULL) {
        return -1;
    }
    PyObject *errors = PyImport_ImportModule("dynajit.core.errors");
    if (errors == NULL) {
        return -1;
    }
    capture_error = PyObject_GetAttrString(errors, "CaptureError");
    Py_DECREF(errors);
    if (capture_error == NULL) {
        return -1;
    }
    PyObject *config = PyImport_ImportModule("dynajit.core.process.config");
    if (config == NULL) {
        return -1;
    }
    settings.variable = PyObject_GetAttrString(config, "CURRENT");
    Py_DECREF(config);
    if (settings.variable == NULL) {
        return -1;
    }
    PyObject *abstract = PyImport_ImportModule("abc");
    if (abstract == NULL) {
        return -1;
    }
    registrations = PyObject_GetAttrString(abstract, "get_cache_token");
    Py_DECREF(abstract);
    subclasses = PyObject_GetAttrString((PyObject *)&PyType_Type, "__subclasses__");
    PyObject *collections = PyImport_ImportModule("collections");
    if (collections == NULL) {
        return -1;
    }
    deque_type = PyObject_GetAttrString(collections, "deque");
    Py_DECREF(collections);
    classes_not_asked = PyCapsule_Import("dynajit.ops.native._library_call.not_asked", 0);
    if (classes_not_asked == NULL) {
        return -1;
    }
    PyObject *gpu = PyImport_ImportModule("dynajit.core.arrays.gpu.runtime");
    if (gpu == NULL) {
        return -1;
    }
    current_device = PyObject_GetAttrString(gpu, "current_device");
    Py_DECREF(gpu);
    PyObject *floats = PyImport_ImportModule("dynajit.core.arrays.numpy_errors");
    if (floats == NULL) {
        return -1;
    }
    warns_only = PyObject_GetAttrString(floats, "warns_only");
    numpy_errors = PyObject_GetAttrString(floats, "STATE");
    Py_DECREF(floats);
    if (numpy_errors == Py_None) {
        Py_CLEAR(numpy_errors);
    }
    name_getattribute = PyUnicode_InternFromString("__getattribute__");
    name_grad = PyUnicode_InternFromString("grad");
    name_hooks = PyUnicode_InternFromString("hooks");
    name_requires_grad = PyUnicode_InternFromString("requires_grad");
    name_bases = PyUnicode_InternFromString("__bases__");
    no_keywords = PyDict_New();
    if (name_getattribute == NULL || name_grad == NULL || name_hooks == NULL
        || name_requires_grad == NULL || name_bases == NULL || registrations == NULL || subclasses == NULL
        || deque_type == NULL || current_device == NULL || warns_only == NULL || no_keywords == NULL) {
        return -1;
    }
    extra_index = REQUEST_CODE_EXTRA_INDEX(NULL); /* the slot borrows: nothing to release */
    if (find_plain_call() < 0) {
        return -1;
    }
    if (extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "no free slot in code objects");
        return -1;
    }
    outer_evaluator = _PyEval_EvalFrameDefault;
    start_watching();
    return start_quiet_lookup() < 0 ? -1 : start_hashed();
}

static int
add_names(PyObject *module, const char *attribute, const char *const *names, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple != NULL && i < count; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);
        if (name == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, i, name);
    }
    if (tuple == NULL || PyModule_AddObject(module, attribute, tuple) < 0) {
        Py_XDECREF(tuple);
        return -1;
    }
    return 0;
}

PyMODINIT_FUNC
PyInit__capture(void)
{
    if (load_dependencies() < 0) {
        return NULL;
    }
    PyObject *self = PyModule_Create(&module);
    if (self == NULL) {
        return NULL;
    }
    if (PyType_Ready(&TailCallType) < 0 || PyModule_AddType(self, &GuardsType) < 0 || PyModule_AddType(self, &CompiledFunctionType) < 0
        || add_names(self, "STEPS", step_names, STEP_COUNT) < 0
        || add_names(self, "KINDS", kind_names, KIND_COUNT) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return self;
}
