/* The C side of capture: guard evaluator, entry object, scoped frame hook.
 *
 *   Guards            a tree of checks with shared prefixes, and in front of it a flat snapshot
 *   CompiledFunction  what `compile` returns: checks guards, calls the entry that fits
 *   hook_enter/leave  a PEP 523 evaluation function for frames met inside a region with breaks
 *
 * Contract. A guard never passes wrongly and never runs user code: attributes are read from
 * instance dicts, inline values and slots, class attributes through the MRO, keys by stored hash.
 * (One exception, shared with the user's own lookup: a user-defined key whose hash equals that of
 * a guarded key has its __eq__ called by the dict.)
 * Entries belong to the CompiledFunction, which the garbage collector sees; a code object's extra
 * slot only borrows a pointer to it. Everything runs under the GIL; free-threaded builds are not
 * supported.
 *
 * Called by dynajit.capture.guards, .cache and .session. CPython 3.11 to 3.14; what differs between
 * them is in the section "Versions" and nowhere else.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <structmember.h>
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_object.h>
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe.h>
#include <internal/pycore_stackref.h>
#endif
#undef Py_BUILD_CORE
#include <numpy/arrayobject.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include "tensor.h"

#ifdef Py_GIL_DISABLED
#error "free-threaded CPython is not supported"
#endif

/* ------------------------------------------------------------------------------- Versions ---- */

#if PY_VERSION_HEX < 0x030C0000 /* 3.11 */
#define FRAME_CODE(frame) ((frame)->f_code)
#define FRAME_FUNCTION(frame) ((frame)->f_func)
#define CODE_FRAME_SIZE(code) ((code)->co_nlocalsplus + (code)->co_stacksize + FRAME_SPECIALS_SIZE)
#define IS_TRACING(ts) ((ts)->cframe->use_tracing != 0)
#define CODE_GET_EXTRA _PyCode_GetExtra
#define CODE_SET_EXTRA _PyCode_SetExtra
#define REQUEST_CODE_EXTRA_INDEX _PyEval_RequestCodeExtraIndex
#else
#if PY_VERSION_HEX < 0x030D0000 /* 3.12 */
#define FRAME_CODE(frame) ((frame)->f_code)
#define FRAME_FUNCTION(frame) ((PyFunctionObject *)(frame)->f_funcobj)
#elif PY_VERSION_HEX < 0x030E0000 /* 3.13 */
#define FRAME_CODE(frame) ((PyCodeObject *)(frame)->f_executable)
#define FRAME_FUNCTION(frame) ((PyFunctionObject *)(frame)->f_funcobj)
#elif PY_VERSION_HEX < 0x030F0000 /* 3.14: what a frame refers to is tagged */
#define FRAME_CODE(frame) ((PyCodeObject *)PyStackRef_AsPyObjectBorrow((frame)->f_executable))
#define FRAME_FUNCTION(frame) ((PyFunctionObject *)PyStackRef_AsPyObjectBorrow((frame)->f_funcobj))
#else
#error "this version of CPython is not supported yet"
#endif
#define CODE_FRAME_SIZE(code) ((code)->co_framesize)
#define IS_TRACING(ts) ((ts)->tracing > 0 || (ts)->c_tracefunc != NULL || (ts)->c_profilefunc != NULL)
#define CODE_GET_EXTRA PyUnstable_Code_GetExtra
#define CODE_SET_EXTRA PyUnstable_Code_SetExtra
#define REQUEST_CODE_EXTRA_INDEX PyUnstable_Eval_RequestCodeExtraIndex
#endif

#if PY_VERSION_HEX < 0x030D0000
#define PyLong_AsInt _PyLong_AsInt
#endif

/* Up to 3.13 a hooked frame costs two units of the C recursion limit although it uses little C
 * stack; the hook gives them back, while much stack is left, so that the recursion limit stays the
 * one the user knows. 3.11 and 3.14 do not count. */
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
#define C_RECURSION_PER_FRAME 2
#else
#define C_RECURSION_PER_FRAME 0
#endif

/* A local of a frame that has not started (borrowed). */
static inline PyObject *
frame_local(_PyInterpreterFrame *frame, int i)
{
#if PY_VERSION_HEX < 0x030E0000
    return frame->localsplus[i];
#else
    return PyStackRef_AsPyObjectBorrow(frame->localsplus[i]);
#endif
}

/* Give a frame that has not started another code object; the data stack is the caller's matter. */
static inline void
frame_set_code(_PyInterpreterFrame *frame, PyCodeObject *new)
{
    PyCodeObject *old = FRAME_CODE(frame);
#if PY_VERSION_HEX < 0x030E0000
    for (int i = old->co_nlocalsplus; i < new->co_nlocalsplus; i++) {
        frame->localsplus[i] = NULL;
    }
    frame->stacktop = new->co_nlocalsplus;
    Py_INCREF(new);
#if PY_VERSION_HEX < 0x030D0000
    frame->f_code = new;
    frame->prev_instr = _PyCode_CODE(new) - 1;
#else
    frame->f_executable = (PyObject *)new;
    frame->instr_ptr = _PyCode_CODE(new);
#endif
    Py_DECREF(old);
#else
    _PyStackRef before = frame->f_executable;
    for (int i = old->co_nlocalsplus; i < new->co_nlocalsplus; i++) {
        frame->localsplus[i] = PyStackRef_NULL;
    }
    frame->stackpointer = frame->localsplus + new->co_nlocalsplus;
    frame->f_executable = PyStackRef_FromPyObjectNew((PyObject *)new);
    frame->instr_ptr = _PyCode_CODE(new);
    PyStackRef_CLOSE(before);
#endif
}

#if PY_VERSION_HEX < 0x030E0000
/* Where a number is that no two states of any dicts share. */
static inline uint64_t *
dict_version(PyObject *dict)
{
    return &((PyDictObject *)dict)->ma_version_tag;
}

static inline void
start_watching(void)
{
}

static inline int
keep_version(PyObject *dict)
{
    (void)dict;
    return 0;
}
#else
/* 3.14 has no version in dicts. A watcher counts instead: every change and the end of a watched
 * dict give its place a new number. Dicts may share a place, then one's change is another's. */
#define VERSION_PLACES 4096

static uint64_t dict_versions[VERSION_PLACES];
static uint64_t dict_changes;
static int dict_watcher = -1;

static inline uint64_t *
dict_version(PyObject *dict)
{
    uintptr_t address = (uintptr_t)dict >> 4;
    return &dict_versions[(address ^ address >> 12) % VERSION_PLACES];
}

static int
dict_changed(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value)
{
    *dict_version(dict) = ++dict_changes;
    return 0;
}

/* Without a watcher (there are few for all extensions together) guards have no snapshots. */
static inline void
start_watching(void)
{
    dict_watcher = PyDict_AddWatcher(dict_changed);
    if (dict_watcher < 0) {
        PyErr_Clear();
    }
}

/* Make `*dict_version(dict)` follow the dict. -1 where that is not possible. */
static inline int
keep_version(PyObject *dict)
{
    if (dict_watcher < 0) {
        return -1;
    }
    if (PyDict_Watch(dict_watcher, dict) < 0) {
        PyErr_Clear();
        return -1;
    }
    return 0;
}
#endif

/* The values of an instance that has no dict of its own yet, or NULL. */
static inline PyDictValues *
inline_values(PyObject *object)
{
#if PY_VERSION_HEX < 0x030C0000
    return *_PyObject_ValuesPointer(object);
#elif PY_VERSION_HEX < 0x030D0000
    PyDictOrValues pointer = *_PyObject_DictOrValuesPointer(object);
    return _PyDictOrValues_IsValues(pointer) ? _PyDictOrValues_GetValues(pointer) : NULL;
#else
    if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_INLINE_VALUES)) {
        return NULL;
    }
    PyDictValues *values = _PyObject_InlineValues(object);
    return values->valid ? values : NULL;
#endif
}

/* Where the managed dict pointer of an instance is stored. */
static inline PyObject **
managed_dict_address(PyObject *object)
{
    return (PyObject **)object - 3; /* the same place in 3.11 to 3.14 */
}

/* The managed dict of an instance without inline values, or NULL. */
static inline PyObject *
managed_dict(PyObject *object)
{
    return *managed_dict_address(object);
}

/* ---------------------------------------------------------------------------- Module state ---- */

static TensorApi *tensor_api;            /* of dynajit.eager._tensor */
static PyObject *generic_getattribute;   /* object.__getattribute__ as stored in object */
static PyObject *module_getattribute;    /* the same of ModuleType */
static PyObject *name_getattribute;      /* "__getattribute__" */
static PyObject *capture_error;          /* dynajit.core.errors.CaptureError */
static PyObject *name_grad;              /* "grad" */
static PyObject *name_requires_grad;     /* "requires_grad" */
static Py_ssize_t extra_index;           /* our slot in code objects */
static PyTypeObject GuardsType;
static PyTypeObject CompiledFunctionType;

static int
is_tensor(PyObject *object)
{
    return PyObject_TypeCheck(object, tensor_api->base_type);
}

/* --------------------------------------------------------------------------- Guards: data ---- */

/* Same numbers as capture.sources.Step. */
enum Step {
    STEP_SLOT, STEP_FUNCTION, STEP_CONSTANT, STEP_STATE, STEP_GLOBAL, STEP_BUILTIN, STEP_CLOSURE,
    STEP_DEFAULT, STEP_KEYWORD_DEFAULT, STEP_ATTRIBUTE, STEP_CLASS_ATTRIBUTE, STEP_ITEM, STEP_KEY,
    STEP_TYPE, STEP_METHOD_FUNCTION, STEP_METHOD_SELF, STEP_CELL, STEP_CODE, STEP_DICT,
    STEP_CLOSURE_CELL, STEP_COUNT
};

static const char *const step_names[] = {
    "SLOT", "FUNCTION", "CONSTANT", "STATE", "GLOBAL", "BUILTIN", "CLOSURE", "DEFAULT",
    "KEYWORD_DEFAULT", "ATTRIBUTE", "CLASS_ATTRIBUTE", "ITEM", "KEY", "TYPE", "METHOD_FUNCTION",
    "METHOD_SELF", "CELL", "CODE", "DICT", "CLOSURE_CELL",
};

/* Same numbers as capture.guards.Kind. */
enum Kind {
    KIND_TYPE_IS, KIND_IDENTITY, KIND_EQUALS, KIND_TENSOR, KIND_LENGTH, KIND_TRUE_VALUE,
    KIND_DICT_KEYS, KIND_HAS_NO_ATTRIBUTE, KIND_HAS_NO_KEY, KIND_PREDICATE, KIND_FUNCTION,
    KIND_GRAD_MODE, KIND_NOT_ALIASED, KIND_ALIASED, KIND_NO_SHARED_STORAGE, KIND_INSTANCE_LACKS,
    KIND_SEPARATE_MEMORY, KIND_HANDLING, KIND_RELATION,
    KIND_COUNT
};

static const char *const kind_names[] = {
    "TYPE_IS", "IDENTITY", "EQUALS", "TENSOR", "LENGTH", "TRUE_VALUE", "DICT_KEYS",
    "HAS_NO_ATTRIBUTE", "HAS_NO_KEY", "PREDICATE", "FUNCTION", "GRAD_MODE", "NOT_ALIASED",
    "ALIASED", "NO_SHARED_STORAGE", "INSTANCE_LACKS", "SEPARATE_MEMORY", "HANDLING",
    "RELATION",
};

enum Layout { LAYOUT_ANY, LAYOUT_STRIDES, LAYOUT_CONTIGUOUS };

typedef struct {
    npy_intp low, high; /* inclusive */
    npy_intp stride;    /* in bytes; ANY_NUMBER: does not matter */
} DimSpec;

/* The expected metadata of a tensor. */
typedef struct {
    PyTypeObject *type;      /* owned */
    PyArray_Descr *dtype;    /* owned */
    char requires_grad;      /* 0, 1 or 2: does not matter */
    char layout;             /* enum Layout */
    int rank;
    DimSpec dims[];
} TensorSpec;

#define ANY_NUMBER NPY_MIN_INTP

typedef struct {
    PyTypeObject *type; /* borrowed: int, float or bool */
    int count;
    int negated;
    struct {
        int operation;      /* Py_EQ ... */
        PyObject *constant; /* owned */
    } comparisons[];
} PredicateSpec;

/* The memory that a tensor's elements span. */
typedef struct {
    const char *start, *stop;
    int flags;          /* WRITTEN ... */
} Range;

/* The tensors of a region that writes into some of them. */
typedef struct {
    int count;
    Range *ranges;      /* room for one per tensor, in the order of `order` */
    int *order;         /* positions by address in the last check: nearly sorted in the next one */
    struct {
        int number;     /* of the node */
        int flags;
    } members[];
} MemorySpec;

/* Same numbers as capture.guard_facts.MemoryUse. */
#define MEMORY_WRITTEN 1   /* its elements change */
#define MEMORY_RECORDED 2  /* they change while gradients are recorded */
#define MEMORY_HISTORY 4   /* it gets a history by that */
#define MEMORY_LEAF 8      /* no operation made it */
#define MEMORY_RESULT 16   /* an operation made it */

/* Same numbers as capture.relations.Operation. */
enum Operation {
    OPERATION_CONSTANT, OPERATION_TERM, OPERATION_ADD, OPERATION_MULTIPLY, OPERATION_FLOORDIV,
    OPERATION_MOD, OPERATION_MIN, OPERATION_MAX, OPERATION_COUNT
};

#define RELATION_STACK 32

/* `left comparison right` between integers, as a postfix program that leaves both on a stack. */
typedef struct {
    int comparison; /* Py_EQ ... */
    int term_count;
    int length;
    struct Term {
        int node; /* number of the node whose value is the tensor or the Python int */
        int dim;  /* dimension of the tensor, or -1 for an int */
    } *terms;
    struct Instruction {
        int operation;
        int64_t operand; /* the constant, or the index of the term */
    } program[];
} RelationSpec;

typedef struct {
    int kind;
    int guard;          /* number of the guard */
    PyObject *expected; /* owned; for a weak IDENTITY: the weak reference */
    Py_hash_t hash;     /* of a key or name */
    int number;         /* LENGTH, TRUE_VALUE, GRAD_MODE; node number of the other operand */
    int is_weak;
    char *weak_items;   /* DICT_KEYS: which items of `expected` are weak references */
    TensorSpec *tensor;
    PredicateSpec *predicate;
    MemorySpec *memory;
    RelationSpec *relation;
} Check;

typedef struct Node {
    int step;
    int number;
    PyObject *argument; /* owned; for a weak key: the weak reference */
    int is_weak;
    Py_ssize_t index;
    Py_hash_t hash;
    int check_count;
    int child_count;
    Check *checks;
    struct Node *children;
    /* What the class says about attribute `argument`; valid while type and tag are these. */
    PyTypeObject *cached_type; /* borrowed, only compared */
    unsigned int cached_tag;
    PyObject *cached_descriptor; /* borrowed from the class */
    Py_ssize_t cached_slot;      /* index into inline values, or -1 */
    PyObject *seen;              /* value when the snapshot was taken; only compared */
} Node;

/* One fact of the snapshot. */
enum FactKind {
    FACT_WORD,    /* *(uint64_t *)address == expected */
    FACT_VERSION, /* the same, or else looking again at `base` finds the same below `node` */
    FACT_TAG,     /* *(unsigned *)address == expected */
    FACT_BYTE,    /* *(uint8_t *)address == expected */
    FACT_LEAF,    /* the checks of `node` hold for the object at *address */
    FACT_STEP,    /* the step of `node` from `base` exists, and all checks below hold */
    FACT_CHECKS,  /* the checks of `node` itself hold for `base` */
    FACT_KINDS
};

typedef struct {
    int kind;
    Node *node;
    PyObject *base; /* borrowed: alive if the facts before this one hold */
    void *address;
    uint64_t expected;
    PyObject *dict; /* FACT_VERSION: whose version; borrowed, as `base` */
} Fact;

/* A tensor that the facts cover while the metadata epoch stays. */
typedef struct {
    Node *node;
    PyObject *tensor; /* borrowed, as above */
} CoveredTensor;

typedef struct {
    PyObject_HEAD
    Node *roots;
    int root_count;
    int node_count;
    int guard_count;
    PyObject **values; /* per node: its value in the last walk, for relations; borrowed */
    int has_relations;
    /* the last failure, when asked for */
    int failed_guard;
    PyObject *failed_value; /* borrowed; NULL: the place does not exist */
    const RelationSpec *failed_relation;
    PyObject *stale;        /* borrowed: a view that must be refreshed before it can be read */
    /* snapshot */
    Fact *facts;
    int fact_count;
    int fact_capacity;
    CoveredTensor *tensors;
    int tensor_count;
    int tensor_capacity;
    int is_deep;            /* some root has children: a snapshot pays */
    int snapshot_valid;
    int values_changed;     /* `values` is not that of the snapshot any more */
    uint64_t epoch;         /* tensor metadata epoch of the snapshot */
    unsigned int misses;    /* consecutive snapshots that did not hold */
    unsigned int pause;     /* calls until the next snapshot is tried */
    int is_busy;            /* a check is running */
} Guards;

/* ----------------------------------------------------------------------- Guards: constants ---- */

static int
float_equal(double a, double b)
{
    if (a != a) {
        return b != b;
    }
    return memcmp(&a, &b, sizeof a) == 0;
}

/* Exact type and value; NaN equals NaN, 0.0 and -0.0 differ. No user code. */
static int
constant_equal(PyObject *a, PyObject *b)
{
    if (a == b) {
        return 1;
    }
    PyTypeObject *type = Py_TYPE(a);
    if (type != Py_TYPE(b)) {
        return 0;
    }
    if (type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBytes_Type) {
        return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
    }
    if (type == &PyFloat_Type) {
        return float_equal(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
    }
    if (type == &PyComplex_Type) {
        Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
        return float_equal(x.real, y.real) && float_equal(x.imag, y.imag);
    }
    if (type == &PyTuple_Type && PyTuple_GET_SIZE(a) == PyTuple_GET_SIZE(b)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
            if (!constant_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) {
                return 0;
            }
        }
        return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------------- Guards: reading ---- */

static PyObject *
weak_target(PyObject *reference)
{
    return ((PyWeakReference *)reference)->wr_object; /* None when dead */
}

/* Borrowed value of a key, or NULL without an exception. */
static PyObject *
dict_get(PyObject *dict, PyObject *key, Py_hash_t hash)
{
    PyObject *value = _PyDict_GetItem_KnownHash(dict, key, hash);
    if (value == NULL && PyErr_Occurred()) {
        PyErr_Clear();
    }
    return value;
}

/* Index of `name` in the shared keys of the class, or -1. */
static Py_ssize_t
shared_key_index(PyTypeObject *type, PyObject *name)
{
    PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
    if (keys == NULL || keys->dk_kind == DICT_KEYS_GENERAL) {
        return -1;
    }
    PyDictUnicodeEntry *entries = DK_UNICODE_ENTRIES(keys);
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        if (entries[i].me_key == name) {
            return i;
        }
    }
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) {
        if (entries[i].me_key != NULL && PyUnicode_Compare(entries[i].me_key, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Where an instance keeps its attributes. */
typedef struct {
    PyDictValues *values; /* inline values, or NULL */
    PyObject *dict;       /* borrowed; NULL if there is none (yet) */
    PyObject **address;   /* where the dict pointer is stored, or NULL */
} Storage;

static Storage
storage_of(PyObject *object)
{
    Storage storage = {NULL, NULL, NULL};
    PyTypeObject *type = Py_TYPE(object);
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        storage.values = inline_values(object);
        if (storage.values == NULL) {
            storage.address = managed_dict_address(object);
            storage.dict = managed_dict(object);
        }
    }
    else if (type->tp_dictoffset > 0) {
        storage.address = (PyObject **)((char *)object + type->tp_dictoffset);
        storage.dict = *storage.address;
    }
    else if (type->tp_dictoffset < 0) {
        storage.address = _PyObject_GetDictPtr(object);
        storage.dict = storage.address == NULL ? NULL : *storage.address;
    }
    return storage;
}

/* Borrowed value of an instance attribute, or NULL. `slot` caches the inline-value index. */
static PyObject *
instance_get(PyObject *object, PyObject *name, Py_hash_t hash, Py_ssize_t *slot)
{
    Storage storage = storage_of(object);
    if (storage.values != NULL) {
        PyDictKeysObject *keys = ((PyHeapTypeObject *)Py_TYPE(object))->ht_cached_keys;
        Py_ssize_t i = *slot;
        if (i < 0 || i >= keys->dk_nentries || DK_UNICODE_ENTRIES(keys)[i].me_key != name) {
            i = *slot = shared_key_index(Py_TYPE(object), name);
        }
        return i < 0 ? NULL : storage.values->values[i];
    }
    return storage.dict == NULL ? NULL : dict_get(storage.dict, name, hash);
}

/* True if attribute access on instances of `type` first follows the ordinary rules. */
static int
reads_ordinarily(PyTypeObject *type)
{
    if (type->tp_getattro == PyObject_GenericGetAttr
        || type->tp_getattro == PyModule_Type.tp_getattro) {
        return 1;
    }
    PyObject *found = _PyType_Lookup(type, name_getattribute);
    return found == generic_getattribute || found == module_getattribute;
}

static PyObject *
member_get(PyObject *object, PyObject *descriptor)
{
    PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
    if (!PyObject_TypeCheck(object, ((PyDescrObject *)descriptor)->d_type)) {
        return NULL;
    }
    if (member->type != T_OBJECT && member->type != T_OBJECT_EX) {
        return NULL;
    }
    PyObject *value = *(PyObject **)((char *)object + member->offset);
    if (value == NULL && member->type == T_OBJECT) {
        return Py_None;
    }
    return value;
}

/* What the class stores under the node's name (borrowed or NULL); -1: access is not ordinary. */
static int
class_lookup(Node *node, PyTypeObject *type, PyObject **descriptor)
{
    if (node->cached_type == type && node->cached_tag != 0
        && node->cached_tag == type->tp_version_tag) {
        *descriptor = node->cached_descriptor;
        return 0;
    }
    if (!reads_ordinarily(type)) {
        return -1;
    }
    *descriptor = _PyType_Lookup(type, node->argument);
    node->cached_type = type;
    node->cached_tag = type->tp_version_tag;
    node->cached_descriptor = *descriptor;
    return 0;
}

/* An attribute of a class: first in its MRO that does not bind. */
static PyObject *
read_class(PyTypeObject *class, PyObject *name)
{
    PyObject *meta = _PyType_Lookup(Py_TYPE(class), name);
    if (meta != NULL && Py_TYPE(meta)->tp_descr_set != NULL) {
        return NULL;
    }
    if (Py_TYPE(class)->tp_getattro != PyType_Type.tp_getattro) {
        return NULL;
    }
    PyObject *value = _PyType_Lookup(class, name);
    if (value == NULL || PyFunction_Check(value) || Py_TYPE(value)->tp_descr_get == NULL) {
        return value;
    }
    return NULL;
}

static PyObject *
read_attribute(Node *node, PyObject *object)
{
    if (PyType_Check(object)) {
        return read_class((PyTypeObject *)object, node->argument);
    }
    PyObject *descriptor;
    if (class_lookup(node, Py_TYPE(object), &descriptor) < 0) {
        return NULL;
    }
    if (descriptor != NULL && Py_TYPE(descriptor)->tp_descr_set != NULL) {
        if (Py_TYPE(descriptor) == &PyMemberDescr_Type) {
            return member_get(object, descriptor);
        }
        if (node->argument == name_grad && is_tensor(object)
            && Py_TYPE(descriptor) == &PyGetSetDescr_Type) {
            PyObject *grad = ((TensorObject *)object)->grad;
            return grad == NULL ? Py_None : grad;
        }
        return NULL;
    }
    PyObject *value = instance_get(object, node->argument, node->hash, &node->cached_slot);
    if (value != NULL) {
        return value;
    }
    if (descriptor != NULL && Py_TYPE(descriptor)->tp_descr_get == NULL) {
        return descriptor;
    }
    return NULL;
}

static PyObject *
read_default(PyObject *object, Py_ssize_t index)
{
    PyObject *defaults = ((PyFunctionObject *)object)->func_defaults;
    if (defaults == NULL || index >= PyTuple_GET_SIZE(defaults)) {
        return NULL;
    }
    return PyTuple_GET_ITEM(defaults, index);
}

static PyObject *
read_closure_cell(PyObject *object, Py_ssize_t index)
{
    PyObject *closure = ((PyFunctionObject *)object)->func_closure;
    if (closure == NULL || index >= PyTuple_GET_SIZE(closure)) {
        return NULL;
    }
    return PyTuple_GET_ITEM(closure, index);
}

static PyObject *
read_builtin(Node *node, PyObject *object)
{
    PyFunctionObject *function = (PyFunctionObject *)object;
    if (dict_get(function->func_globals, node->argument, node->hash) != NULL
        || !PyDict_Check(function->func_builtins)) {
        return NULL;
    }
    return dict_get(function->func_builtins, node->argument, node->hash);
}

static PyObject *
read_item(PyObject *object, Py_ssize_t index)
{
    if (PyList_Check(object)) {
        return index < PyList_GET_SIZE(object) ? PyList_GET_ITEM(object, index) : NULL;
    }
    if (PyTuple_Check(object)) {
        return index < PyTuple_GET_SIZE(object) ? PyTuple_GET_ITEM(object, index) : NULL;
    }
    return NULL;
}

/* The instance dict as an object; materialises it, which the object keeps. */
static PyObject *
read_instance_dict(PyObject *object)
{
    if (PyType_Check(object)) {
        return NULL;
    }
    if (PyModule_Check(object)) {
        return PyModule_GetDict(object);
    }
    if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT)
        && Py_TYPE(object)->tp_dictoffset == 0) {
        return NULL;
    }
    PyObject *dict = PyObject_GenericGetDict(object, NULL);
    if (dict == NULL) {
        PyErr_Clear();
        return NULL;
    }
    Py_DECREF(dict); /* the object holds it */
    return dict;
}

/* What a bound method of a built-in class is bound to; NULL for functions of modules. Borrowed. */
static PyObject *
builtin_self(PyObject *method)
{
    if (!PyCFunction_CheckExact(method)) {
        return NULL;
    }
    PyObject *self = PyCFunction_GET_SELF(method);
    return self == NULL || PyModule_Check(self) || PyType_Check(self) ? NULL : self;
}

/* The descriptor, such as list.append, that a bound method of a built-in class comes from.
 * Borrowed. */
static PyObject *
builtin_descriptor(PyObject *method)
{
    PyObject *self = builtin_self(method);
    if (self == NULL) {
        return NULL;
    }
    PyMethodDef *definition = ((PyCFunctionObject *)method)->m_ml;
    PyObject *name = PyUnicode_FromString(definition->ml_name);
    if (name == NULL) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *found = _PyType_Lookup(Py_TYPE(self), name);
    Py_DECREF(name);
    if (found == NULL || !Py_IS_TYPE(found, &PyMethodDescr_Type)) {
        return NULL;
    }
    return ((PyMethodDescrObject *)found)->d_method == definition ? found : NULL;
}

/* One step from `base`; borrowed, or NULL where the place does not exist. */
static PyObject *
read_step(Node *node, PyObject *base)
{
    switch (node->step) {
    case STEP_ATTRIBUTE:
        return read_attribute(node, base);
    case STEP_KEY: {
        PyObject *key = node->is_weak ? weak_target(node->argument) : node->argument;
        return PyDict_Check(base) ? dict_get(base, key, node->hash) : NULL;
    }
    case STEP_ITEM:
        return read_item(base, node->index);
    case STEP_TYPE:
        return (PyObject *)Py_TYPE(base);
    case STEP_CLASS_ATTRIBUTE:
        return _PyType_Lookup(Py_TYPE(base), node->argument);
    case STEP_DICT:
        return read_instance_dict(base);
    case STEP_METHOD_FUNCTION:
        return PyMethod_Check(base) ? PyMethod_GET_FUNCTION(base) : builtin_descriptor(base);
    case STEP_METHOD_SELF:
        return PyMethod_Check(base) ? PyMethod_GET_SELF(base) : builtin_self(base);
    case STEP_CELL:
        return PyCell_Check(base) ? PyCell_GET(base) : NULL;
    }
    if (!PyFunction_Check(base)) {
        return NULL;
    }
    PyFunctionObject *function = (PyFunctionObject *)base;
    PyObject *cell;
    switch (node->step) {
    case STEP_GLOBAL:
        return dict_get(function->func_globals, node->argument, node->hash);
    case STEP_BUILTIN:
        return read_builtin(node, base);
    case STEP_CLOSURE:
        cell = read_closure_cell(base, node->index);
        return cell == NULL ? NULL : PyCell_GET(cell);
    case STEP_CLOSURE_CELL:
        return read_closure_cell(base, node->index);
    case STEP_DEFAULT:
        return read_default(base, node->index);
    case STEP_KEYWORD_DEFAULT:
        return function->func_kwdefaults == NULL
                   ? NULL
                   : dict_get(function->func_kwdefaults, node->argument, node->hash);
    case STEP_CODE:
        return function->func_code;
    }
    return NULL;
}

/* ----------------------------------------------------------------------- Guards: checking ---- */

static int
dtype_matches(PyArray_Descr *actual, PyArray_Descr *expected)
{
    if (actual == expected) {
        return 1;
    }
    return actual->type_num == expected->type_num && PyArray_ISNBO(actual->byteorder)
           && PyDataType_ELSIZE(actual) == PyDataType_ELSIZE(expected);
}

/* The stride of a dimension of size 1 and all strides of an empty array are free. */
static int
strides_match(PyArrayObject *array, const DimSpec *dims, int rank)
{
    const npy_intp *sizes = PyArray_DIMS(array);
    const npy_intp *actual = PyArray_STRIDES(array);
    int differ = 0;
    for (int i = 0; i < rank; i++) {
        if (sizes[i] == 0) {
            return 1;
        }
        npy_intp stride = dims[i].stride;
        if (stride != actual[i] && sizes[i] != 1 && stride != ANY_NUMBER) {
            differ = 1;
        }
    }
    return !differ;
}

static int
check_tensor(Guards *self, const TensorSpec *spec, PyObject *object)
{
    if (Py_TYPE(object) != spec->type) {
        return 0;
    }
    TensorObject *tensor = (TensorObject *)object;
    PyArrayObject *array = (PyArrayObject *)tensor->array;
    if (!PyArray_CheckExact((PyObject *)array) || PyArray_NDIM(array) != spec->rank
        || !dtype_matches(PyArray_DESCR(array), spec->dtype) || !PyArray_ISALIGNED(array)) {
        return 0;
    }
    const npy_intp *sizes = PyArray_DIMS(array);
    for (int i = 0; i < spec->rank; i++) {
        if (sizes[i] < spec->dims[i].low || sizes[i] > spec->dims[i].high) {
            return 0;
        }
    }
    if (spec->layout == LAYOUT_STRIDES && !strides_match(array, spec->dims, spec->rank)) {
        return 0;
    }
    if (spec->layout == LAYOUT_CONTIGUOUS && !PyArray_IS_C_CONTIGUOUS(array)) {
        return 0;
    }
    if (spec->requires_grad == 2) {
        return 1;
    }
    if (tensor->replay != NULL && tensor->view_version != tensor->storage->version) {
        self->stale = object; /* a write through another view may have changed the flag */
        return 0;
    }
    return tensor->requires_grad == spec->requires_grad;
}

/* Number of items of a plain container, or -1. */
static Py_ssize_t
plain_length(PyObject *object)
{
    if (PyList_Check(object)) {
        return PyList_GET_SIZE(object);
    }
    if (PyTuple_Check(object)) {
        return PyTuple_GET_SIZE(object);
    }
    if (PyDict_Check(object)) {
        return PyDict_GET_SIZE(object);
    }
    if (PyAnySet_Check(object)) {
        return PySet_GET_SIZE(object);
    }
    if (PyUnicode_Check(object)) {
        return PyUnicode_GET_LENGTH(object);
    }
    return PyBytes_Check(object) ? PyBytes_GET_SIZE(object) : -1;
}

static int
key_matches(const Check *check, Py_ssize_t i, PyObject *key)
{
    PyObject *expected = PyTuple_GET_ITEM(check->expected, i);
    return check->weak_items[i] ? weak_target(expected) == key : constant_equal(key, expected);
}

/* An OrderedDict keeps its order outside the dict, a set in its table: ask their own iterators. */
static int
iterated_keys_match(PyObject *iterator, const Check *check)
{
    if (iterator == NULL) {
        PyErr_Clear();
        return 0;
    }
    int matches = 1;
    for (Py_ssize_t i = 0; matches && i < PyTuple_GET_SIZE(check->expected); i++) {
        PyObject *key = PyIter_Next(iterator);
        matches = key != NULL && key_matches(check, i, key);
        Py_XDECREF(key);
    }
    Py_DECREF(iterator);
    PyErr_Clear();
    return matches;
}

static int
dict_keys_match(PyObject *dict, const Check *check)
{
    if (PySet_CheckExact(dict)) {
        return PySet_GET_SIZE(dict) == PyTuple_GET_SIZE(check->expected)
               && iterated_keys_match(PySet_Type.tp_iter(dict), check);
    }
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(check->expected)) {
        return 0;
    }
    if (PyODict_Check(dict)) {
        return iterated_keys_match(PyODict_Type.tp_iter(dict), check);
    }
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &position, &key, &value)) {
        if (!key_matches(check, i++, key)) {
            return 0;
        }
    }
    return 1;
}

static int
check_predicate(const PredicateSpec *spec, PyObject *value)
{
    if (Py_TYPE(value) != spec->type) {
        return 0;
    }
    int holds = 1;
    for (int i = 0; holds && i < spec->count; i++) {
        /* not ...CompareBool: its identity shortcut says nan == nan */
        PyObject *result = PyObject_RichCompare(
            value, spec->comparisons[i].constant, spec->comparisons[i].operation);
        if (result == NULL) {
            PyErr_Clear();
            return 0;
        }
        holds = result == Py_True;
        Py_DECREF(result);
    }
    return holds != spec->negated;
}

static int
lacks_attribute(PyObject *object, Check *check, int look_at_class)
{
    if (PyType_Check(object)) {
        return _PyType_Lookup((PyTypeObject *)object, check->expected) == NULL
               && _PyType_Lookup(Py_TYPE(object), check->expected) == NULL;
    }
    Py_ssize_t slot = -1;
    if (instance_get(object, check->expected, check->hash, &slot) != NULL) {
        return 0;
    }
    return !look_at_class
           || (reads_ordinarily(Py_TYPE(object))
               && _PyType_Lookup(Py_TYPE(object), check->expected) == NULL);
}

static int
is_identical(const Check *check, PyObject *value)
{
    return (check->is_weak ? weak_target(check->expected) : check->expected) == value;
}

static int
check_value(Guards *self, Check *check, PyObject *value)
{
    switch (check->kind) {
    case KIND_TYPE_IS:
        return (PyObject *)Py_TYPE(value) == check->expected;
    case KIND_IDENTITY:
        return is_identical(check, value);
    case KIND_EQUALS:
        return constant_equal(value, check->expected);
    case KIND_TENSOR:
        return check_tensor(self, check->tensor, value);
    case KIND_LENGTH:
        return plain_length(value) == check->number;
    case KIND_TRUE_VALUE: {
        Py_ssize_t length = plain_length(value);
        return length >= 0 && (length > 0) == check->number;
    }
    case KIND_DICT_KEYS:
        return dict_keys_match(value, check);
    case KIND_HAS_NO_ATTRIBUTE:
        return lacks_attribute(value, check, 1);
    case KIND_INSTANCE_LACKS:
        return lacks_attribute(value, check, 0);
    case KIND_HAS_NO_KEY:
        return PyDict_Check(value) && dict_get(value, check->expected, check->hash) == NULL;
    case KIND_PREDICATE:
        return check_predicate(check->predicate, value);
    case KIND_FUNCTION:
        return PyFunction_Check(value) && ((PyFunctionObject *)value)->func_code == check->expected;
    case KIND_GRAD_MODE:
        return tensor_api->grad_mode()->grad_enabled == check->number;
    case KIND_HANDLING: {
        PyObject *handled = PyErr_GetHandledException();
        Py_XDECREF(handled);
        return (handled != NULL && handled != Py_None) == check->number;
    }
    default:
        return 1; /* relations are checked after the walk */
    }
}

static int
any_guard_below(const Node *node)
{
    if (node->check_count > 0) {
        return node->checks[0].guard;
    }
    for (int i = 0; i < node->child_count; i++) {
        int guard = any_guard_below(&node->children[i]);
        if (guard >= 0) {
            return guard;
        }
    }
    return -1;
}

static int
walk(Guards *self, Node *node, PyObject *value)
{
    self->values[node->number] = value;
    for (int i = 0; i < node->check_count; i++) {
        if (!check_value(self, &node->checks[i], value)) {
            self->failed_guard = node->checks[i].guard;
            self->failed_value = value;
            return 0;
        }
    }
    for (int i = 0; i < node->child_count; i++) {
        Node *child = &node->children[i];
        PyObject *next = read_step(child, value);
        if (next == NULL) {
            self->failed_guard = any_guard_below(child);
            self->failed_value = NULL;
            return 0;
        }
        if (!walk(self, child, next)) {
            return 0;
        }
    }
    return 1;
}

static void
free_memory_spec(MemorySpec *memory)
{
    PyMem_Free(memory->ranges);
    PyMem_Free(memory->order);
    PyMem_Free(memory);
}

static PyObject *
read_root(const Node *node, PyObject *const *slots, PyObject *function)
{
    switch (node->step) {
    case STEP_SLOT:
        return slots[node->index];
    case STEP_FUNCTION:
        return function;
    case STEP_CONSTANT:
        return node->argument;
    default:
        return Py_None; /* STEP_STATE: its checks do not look at a value */
    }
}

/* Whether an in-place write to a tensor is allowed, and recorded as it was captured. */
static int
is_writable(TensorObject *tensor, int flags)
{
    if (!PyArray_Check(tensor->array)
        || !PyArray_ISWRITEABLE((PyArrayObject *)tensor->array)) {
        return 0;
    }
    if (!(flags & MEMORY_RECORDED)) {
        return 1;
    }
    TensorObject *base = (TensorObject *)tensor->base;
    if (base == NULL) {
        return !tensor->requires_grad || tensor->grad_fn != NULL;
    }
    return !base->requires_grad || (base->grad_fn != NULL && tensor->replay != NULL);
}

static void
range_of(TensorObject *tensor, int flags, Range *range)
{
    PyArrayObject *array = (PyArrayObject *)tensor->array;
    const char *start = PyArray_BYTES(array), *stop = start + PyArray_ITEMSIZE(array);
    for (int d = 0; d < PyArray_NDIM(array); d++) {
        npy_intp extent = (PyArray_DIM(array, d) - 1) * PyArray_STRIDE(array, d);
        if (PyArray_DIM(array, d) == 0) {
            stop = start; /* no elements: overlaps nothing */
            break;
        }
        if (extent < 0) {
            start += extent;
        }
        else {
            stop += extent;
        }
    }
    *range = (Range){start, stop, flags};
}

/* A tensor that gets a history must not share its storage: views of it would get one, too. */
static int
shares_storage(Guards *self, const MemorySpec *memory, int position)
{
    TensorObject *written = (TensorObject *)self->values[memory->members[position].number];
    for (int i = 0; i < memory->count; i++) {
        TensorObject *other = (TensorObject *)self->values[memory->members[i].number];
        if (i != position && other->storage == written->storage) {
            return 1;
        }
    }
    return 0;
}

/* Written tensors overlap with no other one. By address, none may start before the end of the
 * ones in front of it if it is written or one of those is. */
static int
check_memory(Guards *self, MemorySpec *memory)
{
    for (int i = 0; i < memory->count; i++) {
        PyObject *value = self->values[memory->members[i].number];
        int flags = memory->members[i].flags;
        if (!is_tensor(value) || !PyArray_Check(((TensorObject *)value)->array)) {
            return 0;
        }
        int is_leaf = ((TensorObject *)value)->grad_fn == NULL;
        if (((flags & MEMORY_LEAF) && !is_leaf) || ((flags & MEMORY_RESULT) && is_leaf)) {
            return 0;
        }
        if ((flags & MEMORY_WRITTEN) && !is_writable((TensorObject *)value, flags)) {
            return 0;
        }
    }
    for (int i = 0; i < memory->count; i++) {
        int position = memory->order[i], flags = memory->members[position].flags;
        if ((flags & MEMORY_HISTORY) && shares_storage(self, memory, position)) {
            return 0;
        }
        Range range;
        range_of((TensorObject *)self->values[memory->members[position].number], flags, &range);
        int place = i;
        while (place > 0 && memory->ranges[place - 1].start > range.start) {
            memory->ranges[place] = memory->ranges[place - 1];
            memory->order[place] = memory->order[place - 1];
            place--;
        }
        memory->ranges[place] = range;
        memory->order[place] = position;
    }
    const char *end = NULL, *written_end = NULL;
    for (int i = 0; i < memory->count; i++) {
        Range range = memory->ranges[i];
        int is_written = range.flags & MEMORY_WRITTEN;
        if (range.start == range.stop) {
            continue;
        }
        if (range.start < written_end || (is_written && range.start < end)) {
            return 0;
        }
        end = range.stop > end ? range.stop : end;
        written_end = is_written && range.stop > written_end ? range.stop : written_end;
    }
    return 1;
}

static int
read_term(const Guards *self, struct Term term, int64_t *number)
{
    PyObject *value = self->values[term.node];
    if (value == NULL) {
        return 0;
    }
    if (term.dim >= 0) {
        if (!is_tensor(value)) {
            return 0;
        }
        PyArrayObject *array = (PyArrayObject *)((TensorObject *)value)->array;
        if (!PyArray_Check((PyObject *)array) || term.dim >= PyArray_NDIM(array)) {
            return 0;
        }
        *number = PyArray_DIM(array, term.dim);
        return 1;
    }
    int overflow;
    if (!PyLong_CheckExact(value)) {
        return 0;
    }
    *number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow;
}

/* One binary operation; 0 where the result is no int64_t. Rounds towards minus infinity. */
static int
combine(int operation, int64_t a, int64_t b, int64_t *result)
{
    int64_t rest;
    switch (operation) {
    case OPERATION_ADD:
        return !__builtin_add_overflow(a, b, result);
    case OPERATION_MULTIPLY:
        return !__builtin_mul_overflow(a, b, result);
    case OPERATION_FLOORDIV:
    case OPERATION_MOD:
        if (b == 0 || (b == -1 && a == INT64_MIN)) {
            return 0;
        }
        rest = a % b;
        rest += rest != 0 && (rest < 0) != (b < 0) ? b : 0;
        *result = operation == OPERATION_MOD ? rest : a / b - (a % b != 0 && (a < 0) != (b < 0));
        return 1;
    case OPERATION_MIN:
        *result = a < b ? a : b;
        return 1;
    default:
        *result = a > b ? a : b;
        return 1;
    }
}

static int
compare_numbers(int comparison, int64_t a, int64_t b)
{
    switch (comparison) {
    case Py_EQ:
        return a == b;
    case Py_NE:
        return a != b;
    case Py_LT:
        return a < b;
    case Py_LE:
        return a <= b;
    case Py_GT:
        return a > b;
    default:
        return a >= b;
    }
}

/* Fails where a term is missing and where a number overflows: a miss is slow, never wrong. */
static int
size_relation_holds(const Guards *self, const RelationSpec *spec)
{
    int64_t stack[RELATION_STACK];
    int depth = 0;
    for (int i = 0; i < spec->length; i++) {
        struct Instruction step = spec->program[i];
        if (step.operation == OPERATION_CONSTANT) {
            stack[depth++] = step.operand;
        }
        else if (step.operation == OPERATION_TERM) {
            if (!read_term(self, spec->terms[step.operand], &stack[depth++])) {
                return 0;
            }
        }
        else {
            depth--;
            if (!combine(step.operation, stack[depth - 1], stack[depth], &stack[depth - 1])) {
                return 0;
            }
        }
    }
    return compare_numbers(spec->comparison, stack[0], stack[1]);
}

static int
check_relation(const Guards *self, const Check *check, PyObject *value, PyObject *other)
{
    switch (check->kind) {
    case KIND_RELATION:
        return size_relation_holds(self, check->relation);
    case KIND_NOT_ALIASED:
        return value != other;
    case KIND_ALIASED:
        return value == other;
    default: /* KIND_NO_SHARED_STORAGE */
        return is_tensor(value) && is_tensor(other)
               && ((TensorObject *)value)->storage != ((TensorObject *)other)->storage;
    }
}

static int
is_relation(int kind)
{
    return kind == KIND_NOT_ALIASED || kind == KIND_ALIASED || kind == KIND_NO_SHARED_STORAGE
           || kind == KIND_RELATION;
}

static int
walk_relations(Guards *self, Node *node)
{
    for (int i = 0; i < node->check_count; i++) {
        Check *check = &node->checks[i];
        PyObject *value = self->values[node->number];
        if (check->kind == KIND_SEPARATE_MEMORY) {
            if (!check_memory(self, check->memory)) {
                self->failed_guard = check->guard;
                self->failed_value = value;
                return 0;
            }
            continue;
        }
        if (!is_relation(check->kind)) {
            continue;
        }
        if (!check_relation(self, check, value, self->values[check->number])) {
            self->failed_guard = check->guard;
            self->failed_value = value;
            self->failed_relation = check->relation;
            return 0;
        }
    }
    for (int i = 0; i < node->child_count; i++) {
        if (!walk_relations(self, &node->children[i])) {
            return 0;
        }
    }
    return 1;
}

/* The whole tree. 1: all guards hold; 0: failed_guard and failed_value say which does not. */
static int
walk_tree(Guards *self, PyObject *const *slots, Py_ssize_t slot_count, PyObject *function)
{
    for (int i = 0; i < self->root_count; i++) {
        Node *root = &self->roots[i];
        if (root->step == STEP_SLOT && root->index >= slot_count) {
            self->failed_guard = any_guard_below(root);
            self->failed_value = NULL;
            return 0;
        }
        if (!walk(self, root, read_root(root, slots, function))) {
            return 0;
        }
    }
    if (self->has_relations) {
        for (int i = 0; i < self->root_count; i++) {
            if (!walk_relations(self, &self->roots[i])) {
                return 0;
            }
        }
    }
    return 1;
}

/* The whole tree, after refreshing views that a write through another view made stale. */
static int
check_tree(Guards *self, PyObject *const *slots, Py_ssize_t slot_count, PyObject *function)
{
    for (;;) {
        self->stale = NULL;
        if (walk_tree(self, slots, slot_count, function)) {
            return 1;
        }
        if (self->stale == NULL) {
            return 0;
        }
        PyObject *view = Py_NewRef(self->stale);
        int was_busy = self->is_busy;
        self->is_busy = 0; /* nothing of the walk is kept */
        PyObject *flag = PyObject_GetAttr(view, name_requires_grad); /* eager code, not the user's */
        self->is_busy = was_busy;
        Py_DECREF(view);
        if (flag == NULL) {
            PyErr_Clear();
            return 0;
        }
        Py_DECREF(flag);
    }
}

/* ----------------------------------------------------------------------- Guards: snapshot ---- */

/* The snapshot is a list of facts that together imply the result of the tree walk at which they
 * were recorded. They are ordered so that an address is read only after earlier facts have shown
 * that the object around it is alive: an argument is alive; what a dict with an unchanged version
 * holds is the same living object (versions are unique over all dicts); a pointer found again in
 * a living object points to a living object, but after free and reuse of the address perhaps to
 * another one. So what hangs on a bare pointer is either checked again (leaves) or described by
 * further facts: class, dict pointer, dict version. */

static int
record_fact(Guards *self, int kind, Node *node, PyObject *base, void *address, uint64_t expected)
{
    if (self->fact_count == self->fact_capacity) {
        int capacity = self->fact_capacity ? 2 * self->fact_capacity : 32;
        Fact *facts = PyMem_Realloc(self->facts, capacity * sizeof(Fact));
        if (facts == NULL) {
            return -1;
        }
        self->facts = facts;
        self->fact_capacity = capacity;
    }
    self->facts[self->fact_count++] = (Fact){kind, node, base, address, expected, NULL};
    return 0;
}

static int
record_word(Guards *self, void *address, const void *expected)
{
    return record_fact(self, FACT_WORD, NULL, NULL, address, (uint64_t)(uintptr_t)expected);
}

static int
record_version(Guards *self, Node *node, PyObject *base, PyObject *dict)
{
    uint64_t *address = dict_version(dict);
    if (keep_version(dict) < 0
        || record_fact(self, FACT_VERSION, node, base, address, *address) < 0) {
        return -1;
    }
    self->facts[self->fact_count - 1].dict = dict;
    return 0;
}

static int
record_tag(Guards *self, PyTypeObject *type)
{
    if (type->tp_version_tag == 0) {
        return -1;
    }
    for (int i = self->fact_count - 1; i >= 0 && i > self->fact_count - 64; i--) {
        if (self->facts[i].kind == FACT_TAG && self->facts[i].address == &type->tp_version_tag) {
            return 0;
        }
    }
    return record_fact(self, FACT_TAG, NULL, NULL, &type->tp_version_tag, type->tp_version_tag);
}

static int
record_step(Guards *self, Node *node, PyObject *base)
{
    return record_fact(self, FACT_STEP, node, base, NULL, 0);
}

static int
record_tensor(Guards *self, Node *node, PyObject *tensor)
{
    if (self->tensor_count == self->tensor_capacity) {
        int capacity = self->tensor_capacity ? 2 * self->tensor_capacity : 32;
        CoveredTensor *tensors = PyMem_Realloc(self->tensors, capacity * sizeof(CoveredTensor));
        if (tensors == NULL) {
            return -1;
        }
        self->tensors = tensors;
        self->tensor_capacity = capacity;
    }
    self->tensors[self->tensor_count++] = (CoveredTensor){node, tensor};
    return record_word(self, &tensor->ob_type, Py_TYPE(tensor));
}

static int
is_about_contents(int kind)
{
    return kind == KIND_LENGTH || kind == KIND_TRUE_VALUE || kind == KIND_DICT_KEYS
           || kind == KIND_HAS_NO_KEY;
}

/* Only instances of classes made at run time can be given another class. */
static int
has_fixed_class(PyObject *object)
{
    return !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) && !PyModule_Check(object);
}

/* A leaf whose identity an unchanged dict (or class) proves. 1: facts recorded that make its
 * checks hold; 0: its checks must run each time; -1: no snapshot. */
static int
record_pinned_leaf(Guards *self, Node *node, PyObject *value)
{
    int needs_version = 0, needs_size = 0, needs_type = 0, is_covered_tensor = 0;
    for (int i = 0; i < node->check_count; i++) {
        int kind = node->checks[i].kind;
        if ((kind == KIND_LENGTH || kind == KIND_TRUE_VALUE) && PyDict_Check(value)
            && has_fixed_class(value)) {
            needs_size = 1;
        }
        else if (is_about_contents(kind) && PyDict_CheckExact(value)) {
            needs_version = 1;
        }
        else if (kind == KIND_TYPE_IS) {
            needs_type = 1;
        }
        else if (kind == KIND_TENSOR && ((TensorObject *)value)->replay == NULL) {
            is_covered_tensor = 1;
        }
        else if (kind == KIND_FUNCTION) {
            if (record_word(self, &((PyFunctionObject *)value)->func_code,
                            node->checks[i].expected) < 0) {
                return -1;
            }
        }
        else if (kind != KIND_IDENTITY && kind != KIND_EQUALS && kind != KIND_PREDICATE
                 && kind != KIND_NOT_ALIASED && kind != KIND_ALIASED
                 && kind != KIND_SEPARATE_MEMORY && kind != KIND_RELATION) {
            return 0;
        }
    }
    if (needs_type && !has_fixed_class(value)
        && record_word(self, &value->ob_type, Py_TYPE(value)) < 0) {
        return -1;
    }
    if (needs_size) {
        PyDictObject *dict = (PyDictObject *)value;
        if (record_word(self, &dict->ma_used, (void *)dict->ma_used) < 0) {
            return -1;
        }
    }
    if (needs_version && record_version(self, node, value, value) < 0) {
        return -1;
    }
    if (is_covered_tensor && record_tensor(self, node, value) < 0) {
        return -1;
    }
    return 1;
}

static int record_object(Guards *self, Node *node, PyObject *object, int is_pinned);

static int
is_leaf(const Node *node)
{
    return node->child_count == 0;
}

/* A child whose value an unchanged dict or class holds. */
static int
record_pinned_child(Guards *self, Node *child, PyObject *base, PyObject *value)
{
    child->seen = value;
    if (!is_leaf(child)) {
        return record_object(self, child, value, 1);
    }
    int covered = record_pinned_leaf(self, child, value);
    if (covered == 0) {
        return record_step(self, child, base);
    }
    return covered < 0 ? -1 : 0;
}

/* True if every check of a leaf only asks for objects that the checks own, and finds them: then
 * the pointer says it all, because their addresses cannot be used again. */
static int
is_owned_constant(const Node *node, PyObject *value)
{
    for (int i = 0; i < node->check_count; i++) {
        const Check *check = &node->checks[i];
        int by_value = check->kind == KIND_EQUALS || check->kind == KIND_IDENTITY;
        if (!by_value || check->is_weak || check->expected != value) {
            return 0;
        }
    }
    return node->check_count > 0;
}

/* A child whose value is found at an address inside a living object. */
static int
record_stored_child(Guards *self, Node *child, PyObject **address, PyObject *value)
{
    child->seen = value;
    if (!is_leaf(child)) {
        return record_word(self, address, value) < 0 ? -1 : record_object(self, child, value, 0);
    }
    if (is_owned_constant(child, value)) {
        return record_word(self, address, value);
    }
    return record_fact(self, FACT_LEAF, child, NULL, address, 0);
}

static int
record_inline_attribute(Guards *self, Node *child, PyObject *object, PyDictValues *values,
                        PyObject *value)
{
    Py_ssize_t slot = shared_key_index(Py_TYPE(object), child->argument);
    if (slot < 0) {
        return record_step(self, child, object); /* a class attribute; the name may yet be stored */
    }
    PyObject **address = &values->values[slot];
    if (*address != NULL) {
        return record_stored_child(self, child, address, value);
    }
    return record_word(self, address, NULL) < 0 ? -1
                                                : record_pinned_child(self, child, object, value);
}

static int
record_attribute(Guards *self, Node *child, PyObject *object, const Storage *storage)
{
    PyObject *value = read_attribute(child, object);
    PyObject *descriptor;
    if (value == NULL || class_lookup(child, Py_TYPE(object), &descriptor) < 0) {
        return -1;
    }
    child->seen = value;
    if (descriptor != NULL && Py_TYPE(descriptor)->tp_descr_set != NULL) {
        if (Py_TYPE(descriptor) != &PyMemberDescr_Type || value == Py_None) {
            return record_step(self, child, object);
        }
        PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
        return record_stored_child(self, child, (PyObject **)((char *)object + member->offset),
                                   value);
    }
    if (storage->values != NULL) {
        return record_inline_attribute(self, child, object, storage->values, value);
    }
    if (storage->dict == NULL) {
        return record_step(self, child, object);
    }
    return record_pinned_child(self, child, object, value);
}

/* That the instance still keeps its attributes in the same place. */
static int
record_storage(Guards *self, Node *node, PyObject *object, const Storage *storage)
{
    if (record_tag(self, Py_TYPE(object)) < 0) {
        return -1;
    }
    if (storage->values != NULL) {
#if PY_VERSION_HEX < 0x030C0000
        return record_word(self, _PyObject_ValuesPointer(object), storage->values);
#elif PY_VERSION_HEX < 0x030D0000
        PyDictOrValues *pointer = _PyObject_DictOrValuesPointer(object);
        return record_word(self, pointer, pointer->values);
#else
        return record_fact(self, FACT_BYTE, NULL, NULL, &storage->values->valid, 1);
#endif
    }
    if (storage->dict == NULL) {
        return 0;
    }
    return record_word(self, storage->address, storage->dict) < 0
               ? -1
               : record_version(self, node, object, storage->dict);
}

static int
record_closure(Guards *self, Node *child, PyObject *object)
{
    PyFunctionObject *function = (PyFunctionObject *)object;
    PyObject *cell = read_closure_cell(object, child->index);
    if (cell == NULL || PyCell_GET(cell) == NULL) {
        return -1;
    }
    PyObject **item = &PyTuple_GET_ITEM(function->func_closure, child->index);
    if (record_word(self, &function->func_closure, function->func_closure) < 0
        || record_word(self, item, cell) < 0) {
        return -1;
    }
    return record_stored_child(self, child, &((PyCellObject *)cell)->ob_ref, PyCell_GET(cell));
}

static int
record_item(Guards *self, Node *child, PyObject *object)
{
    PyObject *value = read_item(object, child->index);
    if (value == NULL) {
        return -1;
    }
    if (is_leaf(child)) {
        child->seen = value;
        return record_step(self, child, object);
    }
    if (record_word(self, &((PyVarObject *)object)->ob_size, (void *)Py_SIZE(object)) < 0) {
        return -1;
    }
    if (PyTuple_Check(object)) {
        return record_stored_child(self, child, &PyTuple_GET_ITEM(object, child->index), value);
    }
    PyListObject *list = (PyListObject *)object;
    if (record_word(self, &list->ob_item, list->ob_item) < 0) {
        return -1;
    }
    return record_stored_child(self, child, &list->ob_item[child->index], value);
}

static int
record_child(Guards *self, Node *child, PyObject *object, const Storage *storage)
{
    switch (child->step) {
    case STEP_ATTRIBUTE:
        if (PyType_Check(object)) {
            break;
        }
        return record_attribute(self, child, object, storage);
    case STEP_CLASS_ATTRIBUTE:
    case STEP_KEY:
    case STEP_GLOBAL:
    case STEP_BUILTIN: {
        PyObject *value = read_step(child, object);
        return value == NULL ? -1 : record_pinned_child(self, child, object, value);
    }
    case STEP_CLOSURE:
        return record_closure(self, child, object);
    case STEP_ITEM:
        return record_item(self, child, object);
    }
    child->seen = read_step(child, object);
    return record_step(self, child, object);
}

/* Which dicts and classes the children of a node are read from. */
typedef struct {
    int attributes, class_attributes, keys, globals, builtins;
} Uses;

static Uses
uses_of(const Node *node)
{
    Uses uses = {0, 0, 0, 0, 0};
    for (int i = 0; i < node->child_count; i++) {
        int step = node->children[i].step;
        uses.attributes |= step == STEP_ATTRIBUTE;
        uses.class_attributes |= step == STEP_CLASS_ATTRIBUTE;
        uses.keys |= step == STEP_KEY;
        uses.globals |= step == STEP_GLOBAL || step == STEP_BUILTIN;
        uses.builtins |= step == STEP_BUILTIN;
    }
    return uses;
}

/* The own checks of an inner node at a known address whose class is a fact already.
 * has_version: of the object, a dict; has_fields: of its own dict, where it keeps its attributes. */
static int
record_own_checks(Guards *self, Node *node, PyObject *object, int has_version, int has_fields)
{
    int must_run = 0;
    for (int i = 0; i < node->check_count; i++) {
        Check *check = &node->checks[i];
        if (check->kind == KIND_IDENTITY) {
            void *address = &((PyWeakReference *)check->expected)->wr_object;
            if (check->is_weak && record_word(self, address, object) < 0) {
                return -1;
            }
        }
        else if (check->kind == KIND_FUNCTION) {
            if (record_word(self, &((PyFunctionObject *)object)->func_code, check->expected) < 0) {
                return -1;
            }
        }
        else if (is_about_contents(check->kind) && PyDict_CheckExact(object)) {
            must_run |= !has_version;
        }
        else if (check->kind == KIND_INSTANCE_LACKS || check->kind == KIND_HAS_NO_ATTRIBUTE) {
            must_run |= !has_fields;
        }
        else if (check->kind != KIND_TYPE_IS && check->kind != KIND_NOT_ALIASED
                 && check->kind != KIND_ALIASED && check->kind != KIND_SEPARATE_MEMORY
                 && check->kind != KIND_RELATION) {
            must_run = 1;
        }
    }
    return must_run ? record_fact(self, FACT_CHECKS, node, object, NULL, 0) : 0;
}

/* An inner node at a known address: its class, what it holds, and everything below.
 * is_pinned: earlier facts say that it is this very object, not only one at its address. */
static int
record_object(Guards *self, Node *node, PyObject *object, int is_pinned)
{
    Uses uses = uses_of(node);
    Storage storage = {NULL, NULL, NULL};
    if (!(is_pinned && has_fixed_class(object))
        && record_word(self, &object->ob_type, Py_TYPE(object)) < 0) {
        return -1;
    }
    if (uses.attributes && !PyType_Check(object)) {
        storage = storage_of(object);
        if (record_storage(self, node, object, &storage) < 0) {
            return -1;
        }
    }
    else if (uses.class_attributes && record_tag(self, Py_TYPE(object)) < 0) {
        return -1;
    }
    if (uses.keys && record_version(self, node, object, object) < 0) {
        return -1;
    }
    if (uses.globals) {
        PyFunctionObject *function = (PyFunctionObject *)object;
        if (record_word(self, &function->func_globals, function->func_globals) < 0
            || record_version(self, node, object, function->func_globals) < 0) {
            return -1;
        }
        if (uses.builtins
            && (record_word(self, &function->func_builtins, function->func_builtins) < 0
                || record_version(self, node, object, function->func_builtins) < 0)) {
            return -1;
        }
    }
    if (record_own_checks(self, node, object, uses.keys, storage.dict != NULL) < 0) {
        return -1;
    }
    for (int i = 0; i < node->child_count; i++) {
        if (record_child(self, &node->children[i], object, &storage) < 0) {
            return -1;
        }
    }
    return 0;
}

/* After a successful walk of the tree: remember the facts that made it succeed. */
static void
record_snapshot(Guards *self, PyObject *const *slots, PyObject *function)
{
    self->fact_count = 0;
    self->tensor_count = 0;
    self->snapshot_valid = 0;
    self->epoch = *tensor_api->metadata_epoch;
    for (int i = 0; i < self->root_count; i++) {
        Node *root = &self->roots[i];
        if (is_leaf(root)) {
            continue;
        }
        root->seen = read_root(root, slots, function);
        if (record_object(self, root, root->seen, 0) < 0) {
            self->fact_count = 0;
            self->pause = 1000; /* something here cannot be described: rarely worth trying again */
            return;
        }
    }
    self->snapshot_valid = 1;
    self->values_changed = 0;
}

static int
is_dict_backed(const Node *node)
{
    return node->step == STEP_KEY || node->step == STEP_ATTRIBUTE || node->step == STEP_GLOBAL
           || node->step == STEP_BUILTIN;
}

/* Only checks that look at nothing but an immutable value, and no facts beyond the dict's. */
static int
checks_plain_value(const Node *node)
{
    for (int i = 0; i < node->check_count; i++) {
        int kind = node->checks[i].kind;
        if (kind != KIND_EQUALS && kind != KIND_PREDICATE) {
            return 0;
        }
    }
    return is_leaf(node);
}

static int
run_own_checks(Guards *self, Node *node, PyObject *value)
{
    for (int i = 0; i < node->check_count; i++) {
        if (!check_value(self, &node->checks[i], value)) {
            return 0;
        }
    }
    return 1;
}

/* A dict changed: does it still hold what the facts after this one are about? */
static int
look_again(Guards *self, Node *node, PyObject *base)
{
    if (!run_own_checks(self, node, base)) {
        return 0;
    }
    for (int i = 0; i < node->child_count; i++) {
        Node *child = &node->children[i];
        if (!is_dict_backed(child)) {
            continue;
        }
        PyObject *value = read_step(child, base);
        if (value == NULL || (value != child->seen && !checks_plain_value(child))) {
            return 0;
        }
        if (is_leaf(child)) { /* the same address may be another object by now */
            if (!walk(self, child, value)) {
                return 0;
            }
            child->seen = value;
        }
    }
    return 1;
}

static int
fact_holds_slowly(Guards *self, Fact *fact)
{
    PyObject *value;
    switch (fact->kind) {
    case FACT_VERSION:
        if (keep_version(fact->dict) < 0 || !look_again(self, fact->node, fact->base)) {
            return 0;
        }
        fact->expected = *(uint64_t *)fact->address;
        return 1;
    case FACT_LEAF:
        value = *(PyObject **)fact->address;
        return value != NULL && walk(self, fact->node, value);
    case FACT_STEP:
        value = read_step(fact->node, fact->base);
        return value != NULL && walk(self, fact->node, value);
    case FACT_CHECKS:
        return run_own_checks(self, fact->node, fact->base);
    case FACT_TAG:
        return *(unsigned int *)fact->address == fact->expected;
    case FACT_BYTE:
        return *(uint8_t *)fact->address == fact->expected;
    default:
        return 0;
    }
}

static int
facts_hold(Guards *self)
{
    Fact *fact = self->facts, *end = self->facts + self->fact_count;
    for (; fact < end; fact++) {
        if (fact->kind <= FACT_VERSION && *(uint64_t *)fact->address == fact->expected) {
            continue;
        }
        if (!fact_holds_slowly(self, fact)) {
            return 0;
        }
    }
    if (self->epoch != *tensor_api->metadata_epoch) { /* some tensor's metadata was replaced */
        for (int i = 0; i < self->tensor_count; i++) {
            CoveredTensor *covered = &self->tensors[i];
            if (((TensorObject *)covered->tensor)->replay != NULL
                || !walk(self, covered->node, covered->tensor)) {
                return 0;
            }
        }
        self->epoch = *tensor_api->metadata_epoch;
    }
    return 1;
}

enum Outcome { OUTCOME_HOLDS, OUTCOME_FAILS, OUTCOME_UNKNOWN };

static enum Outcome
check_snapshot(Guards *self, PyObject *const *slots, Py_ssize_t slot_count, PyObject *function)
{
    for (int i = 0; i < self->root_count; i++) {
        Node *root = &self->roots[i];
        if (root->step == STEP_SLOT && root->index >= slot_count) {
            return OUTCOME_FAILS;
        }
        PyObject *value = read_root(root, slots, function);
        if (!is_leaf(root)) {
            if (value != root->seen) {
                return OUTCOME_UNKNOWN;
            }
        }
        else if (!walk(self, root, value)) {
            return self->stale == NULL ? OUTCOME_FAILS : OUTCOME_UNKNOWN;
        }
    }
    if (self->fact_count && !facts_hold(self)) {
        return OUTCOME_UNKNOWN;
    }
    if (self->has_relations) {
        for (int i = 0; i < self->root_count; i++) {
            if (!walk_relations(self, &self->roots[i])) {
                return OUTCOME_FAILS;
            }
        }
    }
    return OUTCOME_HOLDS;
}

/* A snapshot that keeps failing is not worth taking: wait longer and longer. */
#define SNAPSHOT_PATIENCE 4
#define SNAPSHOT_LONGEST_PAUSE 256

static int
check_once(Guards *self, PyObject *const *slots, Py_ssize_t slot_count, PyObject *function)
{
    if (!self->is_deep) {
        return check_tree(self, slots, slot_count, function);
    }
    int usable = self->snapshot_valid && !(self->has_relations && self->values_changed);
    if (usable && self->pause == 0) {
        self->stale = NULL;
        enum Outcome outcome = check_snapshot(self, slots, slot_count, function);
        if (outcome == OUTCOME_HOLDS) {
            self->misses = 0;
            return 1;
        }
        if (outcome == OUTCOME_FAILS) {
            return 0;
        }
    }
    self->values_changed = 1;
    if (!check_tree(self, slots, slot_count, function)) {
        return 0;
    }
    if (self->pause > 0) {
        self->pause--;
        return 1;
    }
    if (usable && ++self->misses > SNAPSHOT_PATIENCE) {
        unsigned int pause = 1u << (self->misses < 8 ? self->misses : 8);
        self->pause = pause < SNAPSHOT_LONGEST_PAUSE ? pause : SNAPSHOT_LONGEST_PAUSE;
    }
    record_snapshot(self, slots, function);
    return 1;
}

/* Do all guards hold? No for a second check while one is running, which is possible only where a
 * dict key calls user code or a stale view is refreshed: a miss is slow, but never wrong. */
static int
guards_check(Guards *self, PyObject *const *slots, Py_ssize_t slot_count, PyObject *function)
{
    if (self->is_busy) {
        return 0;
    }
    self->is_busy = 1;
    int holds = check_once(self, slots, slot_count, function);
    self->is_busy = 0;
    return holds;
}

/* ----------------------------------------------------------------------- Guards: building ---- */

/* A size (exactly), None (any) or (low, high or None); a stride or None. */
static int
build_dim_spec(DimSpec *dim, PyObject *size, PyObject *stride)
{
    dim->low = 0;
    dim->high = NPY_MAX_INTP;
    dim->stride = stride == Py_None ? ANY_NUMBER : PyLong_AsSsize_t(stride);
    if (PyTuple_Check(size)) {
        PyObject *high;
        if (!PyArg_ParseTuple(size, "nO", &dim->low, &high)) {
            return -1;
        }
        if (high != Py_None) {
            dim->high = PyLong_AsSsize_t(high);
        }
    }
    else if (size != Py_None) {
        dim->low = dim->high = PyLong_AsSsize_t(size);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* (class, NumPy dtype, device, sizes, byte strides or None or True: row-major, requires_grad or
 * None) */
static TensorSpec *
build_tensor_spec(PyObject *expected)
{
    PyObject *type, *dtype, *sizes, *strides, *requires_grad;
    const char *device;
    if (!PyArg_ParseTuple(expected, "O!O!sO!OO", &PyType_Type, &type, &PyArrayDescr_Type, &dtype,
                          &device, &PyTuple_Type, &sizes, &strides, &requires_grad)) {
        return NULL;
    }
    if (!PyType_IsSubtype((PyTypeObject *)type, tensor_api->base_type)) {
        PyErr_Format(PyExc_TypeError, "TENSOR guard: %s is no tensor class",
                     ((PyTypeObject *)type)->tp_name);
        return NULL;
    }
    Py_ssize_t rank = PyTuple_GET_SIZE(sizes);
    int has_strides = strides != Py_None && strides != Py_True;
    if (has_strides && (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != rank)) {
        PyErr_SetString(PyExc_ValueError, "TENSOR guard: sizes and strides differ in length");
        return NULL;
    }
    TensorSpec *spec = PyMem_Calloc(1, sizeof(TensorSpec) + rank * sizeof(DimSpec));
    if (spec == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    spec->type = (PyTypeObject *)Py_NewRef(type);
    spec->dtype = (PyArray_Descr *)Py_NewRef(dtype);
    spec->requires_grad = requires_grad == Py_None ? 2 : requires_grad == Py_True;
    spec->layout = has_strides ? LAYOUT_STRIDES
                   : strides == Py_True ? LAYOUT_CONTIGUOUS : LAYOUT_ANY;
    spec->rank = (int)rank;
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *stride = has_strides ? PyTuple_GET_ITEM(strides, i) : Py_None;
        if (build_dim_spec(&spec->dims[i], PyTuple_GET_ITEM(sizes, i), stride) < 0) {
            Py_DECREF(type);
            Py_DECREF(dtype);
            PyMem_Free(spec);
            return NULL;
        }
    }
    return spec;
}

static const int comparison_operations[] = {Py_EQ, Py_NE, Py_LT, Py_LE, Py_GT, Py_GE};

/* (class, ((operation, constant), ...), negated) */
static PredicateSpec *
build_predicate_spec(PyObject *expected)
{
    PyObject *type, *comparisons;
    int negated;
    if (!PyArg_ParseTuple(expected, "O!O!p", &PyType_Type, &type, &PyTuple_Type, &comparisons,
                          &negated)) {
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(comparisons);
    PredicateSpec *spec =
        PyMem_Calloc(1, sizeof(PredicateSpec) + count * sizeof(spec->comparisons[0]));
    if (spec == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    spec->type = (PyTypeObject *)type;
    spec->negated = negated;
    int valid = type == (PyObject *)&PyLong_Type || type == (PyObject *)&PyFloat_Type
                || type == (PyObject *)&PyBool_Type;
    for (Py_ssize_t i = 0; valid && i < count; i++) {
        int operation;
        PyObject *constant;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(comparisons, i), "iO", &operation, &constant)) {
            valid = 0;
            break;
        }
        valid = operation >= 0 && operation < 6
                && (PyLong_CheckExact(constant) || PyFloat_CheckExact(constant)
                    || PyBool_Check(constant));
        if (valid) {
            spec->comparisons[i].operation = comparison_operations[operation];
            spec->comparisons[i].constant = Py_NewRef(constant);
            spec->count++;
        }
    }
    if (!valid) {
        for (int i = 0; i < spec->count; i++) {
            Py_DECREF(spec->comparisons[i].constant);
        }
        PyMem_Free(spec);
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError,
                            "PREDICATE guard: expected int, float or bool and such constants");
        }
        return NULL;
    }
    return spec;
}

/* True if the program stays within the stack and leaves two numbers. */
static int
is_program_valid(const RelationSpec *spec)
{
    int depth = 0;
    for (int i = 0; i < spec->length; i++) {
        struct Instruction step = spec->program[i];
        if (step.operation < 0 || step.operation >= OPERATION_COUNT) {
            return 0;
        }
        if (step.operation == OPERATION_TERM
            && (step.operand < 0 || step.operand >= spec->term_count)) {
            return 0;
        }
        depth += step.operation <= OPERATION_TERM ? 1 : -1;
        if (depth < 1 || depth > RELATION_STACK) {
            return 0;
        }
    }
    return depth == 2;
}

static void
free_relation_spec(RelationSpec *spec)
{
    if (spec != NULL) {
        PyMem_Free(spec->terms);
        PyMem_Free(spec);
    }
}

/* (comparison, ((node, dim), ...), ((operation, operand), ...)) */
static RelationSpec *
build_relation_spec(Guards *self, PyObject *expected)
{
    int comparison;
    PyObject *terms, *program;
    if (!PyArg_ParseTuple(expected, "iO!O!", &comparison, &PyTuple_Type, &terms, &PyTuple_Type,
                          &program)) {
        return NULL;
    }
    Py_ssize_t term_count = PyTuple_GET_SIZE(terms), length = PyTuple_GET_SIZE(program);
    RelationSpec *spec =
        PyMem_Calloc(1, sizeof(RelationSpec) + length * sizeof(struct Instruction));
    struct Term *places = PyMem_Calloc(term_count ? term_count : 1, sizeof(struct Term));
    if (spec == NULL || places == NULL) {
        PyMem_Free(spec);
        PyMem_Free(places);
        PyErr_NoMemory();
        return NULL;
    }
    spec->terms = places;
    int valid = comparison >= 0 && comparison < 6;
    spec->comparison = valid ? comparison_operations[comparison] : Py_EQ;
    for (Py_ssize_t i = 0; valid && i < term_count; i++) {
        valid = PyArg_ParseTuple(PyTuple_GET_ITEM(terms, i), "ii", &places[i].node, &places[i].dim)
                && places[i].node >= 0 && places[i].node < self->node_count;
        spec->term_count++;
    }
    for (Py_ssize_t i = 0; valid && i < length; i++) {
        long long operand;
        valid = PyArg_ParseTuple(PyTuple_GET_ITEM(program, i), "iL", &spec->program[i].operation,
                                 &operand);
        spec->program[i].operand = operand;
        spec->length++;
    }
    if (!valid || !is_program_valid(spec)) {
        free_relation_spec(spec);
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "RELATION guard: not a program over its terms");
        }
        return NULL;
    }
    return spec;
}

/* Instances are held weakly, so that a guard does not keep the user's model alive; classes,
 * modules, functions written in C and what has no weak references are held. */
static int
is_held_weakly(PyObject *object)
{
    return !(PyType_Check(object) || PyModule_Check(object) || PyCFunction_Check(object)
             || PyCode_Check(object) || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)));
}

/* New reference to the object or to a weak reference to it; *is_weak says which. */
static PyObject *
hold(PyObject *object, int *is_weak)
{
    *is_weak = is_held_weakly(object);
    return *is_weak ? PyWeakref_NewRef(object, NULL) : Py_NewRef(object);
}

static int
hold_keys(Check *check, PyObject *keys)
{
    if (!PyTuple_CheckExact(keys)) {
        PyErr_SetString(PyExc_TypeError, "DICT_KEYS guard: expected a tuple of keys");
        return -1;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(keys);
    check->weak_items = PyMem_Calloc(count ? count : 1, 1);
    check->expected = PyTuple_New(count);
    if (check->weak_items == NULL || check->expected == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        int is_weak;
        PyObject *held = hold(PyTuple_GET_ITEM(keys, i), &is_weak);
        if (held == NULL) {
            return -1;
        }
        PyTuple_SET_ITEM(check->expected, i, held);
        check->weak_items[i] = (char)is_weak;
    }
    return 0;
}

/* From a tuple of (node number, flags). */
static MemorySpec *
build_memory_spec(PyObject *expected)
{
    if (!PyTuple_CheckExact(expected)) {
        PyErr_SetString(PyExc_TypeError, "SEPARATE_MEMORY guard: expected a tuple of tensors");
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(expected);
    MemorySpec *memory =
        PyMem_Calloc(1, sizeof(MemorySpec) + (size_t)count * sizeof(memory->members[0]));
    if (memory == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memory->count = (int)count;
    memory->ranges = PyMem_Calloc(count ? count : 1, sizeof(Range));
    memory->order = PyMem_Calloc(count ? count : 1, sizeof(int));
    if (memory->ranges == NULL || memory->order == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        memory->order[i] = (int)i;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(expected, i), "ii", &memory->members[i].number,
                              &memory->members[i].flags)) {
            goto failed;
        }
    }
    return memory;
failed:
    free_memory_spec(memory);
    return NULL;
}

static int
build_check(Guards *self, Check *check, PyObject *spec)
{
    PyObject *expected;
    if (!PyArg_ParseTuple(spec, "iOi", &check->kind, &expected, &check->guard)) {
        return -1;
    }
    switch (check->kind) {
    case KIND_IDENTITY:
        check->expected = hold(expected, &check->is_weak);
        return check->expected == NULL ? -1 : 0;
    case KIND_DICT_KEYS:
        return hold_keys(check, expected);
    case KIND_TENSOR:
        check->tensor = build_tensor_spec(expected);
        return check->tensor == NULL ? -1 : 0;
    case KIND_PREDICATE:
        check->predicate = build_predicate_spec(expected);
        return check->predicate == NULL ? -1 : 0;
    case KIND_SEPARATE_MEMORY:
        self->has_relations = 1;
        check->memory = build_memory_spec(expected);
        return check->memory == NULL ? -1 : 0;
    case KIND_RELATION:
        self->has_relations = 1;
        check->relation = build_relation_spec(self, expected);
        return check->relation == NULL ? -1 : 0;
    case KIND_NOT_ALIASED:
    case KIND_ALIASED:
    case KIND_NO_SHARED_STORAGE:
        self->has_relations = 1;
        /* fall through */
    case KIND_LENGTH:
    case KIND_TRUE_VALUE:
    case KIND_GRAD_MODE:
    case KIND_HANDLING:
        check->number = PyLong_AsInt(expected);
        return check->number == -1 && PyErr_Occurred() ? -1 : 0;
    case KIND_HAS_NO_ATTRIBUTE:
    case KIND_INSTANCE_LACKS:
    case KIND_HAS_NO_KEY:
        check->hash = PyObject_Hash(expected);
        if (check->hash == -1) {
            return -1;
        }
        break;
    }
    check->expected = Py_NewRef(expected);
    return 0;
}

static int build_nodes(Guards *self, PyObject *specs, Node **nodes, int *count);

static int
build_node(Guards *self, Node *node, PyObject *spec)
{
    PyObject *argument, *checks, *children;
    if (!PyArg_ParseTuple(spec, "iOiO!O!", &node->step, &argument, &node->number, &PyTuple_Type,
                          &checks, &PyTuple_Type, &children)) {
        return -1;
    }
    if (node->step < 0 || node->step >= STEP_COUNT || node->number >= self->node_count) {
        PyErr_SetString(PyExc_ValueError, "guard tree: unknown step or node number");
        return -1;
    }
    if (node->step == STEP_KEY) {
        node->argument = hold(argument, &node->is_weak);
        if (node->argument == NULL) {
            return -1;
        }
    }
    else {
        node->argument = Py_NewRef(argument);
    }
    node->cached_slot = -1;
    if (PyUnicode_CheckExact(argument) && node->step != STEP_KEY && node->step != STEP_CONSTANT) {
        PyUnicode_InternInPlace(&node->argument);
    }
    if (PyLong_CheckExact(argument) && node->step != STEP_KEY && node->step != STEP_CONSTANT) {
        node->index = PyLong_AsSsize_t(argument);
        if (node->index < 0) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "guard tree: negative index");
            }
            return -1;
        }
    }
    if (PyUnicode_CheckExact(argument) || node->step == STEP_KEY) {
        node->hash = PyObject_Hash(argument);
        if (node->hash == -1) {
            return -1;
        }
    }
    Py_ssize_t count = PyTuple_GET_SIZE(checks);
    node->checks = PyMem_Calloc(count ? count : 1, sizeof(Check));
    if (node->checks == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        node->check_count++;
        if (build_check(self, &node->checks[i], PyTuple_GET_ITEM(checks, i)) < 0) {
            return -1;
        }
    }
    return build_nodes(self, children, &node->children, &node->child_count);
}

static int
build_nodes(Guards *self, PyObject *specs, Node **nodes, int *count)
{
    Py_ssize_t size = PyTuple_GET_SIZE(specs);
    *nodes = PyMem_Calloc(size ? size : 1, sizeof(Node));
    if (*nodes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        (*count)++;
        if (build_node(self, &(*nodes)[i], PyTuple_GET_ITEM(specs, i)) < 0) {
            return -1;
        }
    }
    return 0;
}

static void
free_check(Check *check)
{
    Py_CLEAR(check->expected);
    PyMem_Free(check->weak_items);
    check->weak_items = NULL;
    if (check->tensor != NULL) {
        Py_DECREF(check->tensor->type);
        Py_DECREF(check->tensor->dtype);
        PyMem_Free(check->tensor);
        check->tensor = NULL;
    }
    if (check->predicate != NULL) {
        for (int i = 0; i < check->predicate->count; i++) {
            Py_DECREF(check->predicate->comparisons[i].constant);
        }
        PyMem_Free(check->predicate);
        check->predicate = NULL;
    }
    if (check->memory != NULL) {
        free_memory_spec(check->memory);
        check->memory = NULL;
    }
    free_relation_spec(check->relation);
    check->relation = NULL;
}

static void
free_nodes(Node *nodes, int count)
{
    for (int i = 0; i < count; i++) {
        Node *node = &nodes[i];
        for (int j = 0; j < node->check_count; j++) {
            free_check(&node->checks[j]);
        }
        PyMem_Free(node->checks);
        free_nodes(node->children, node->child_count);
        Py_CLEAR(node->argument);
    }
    PyMem_Free(nodes);
}

static int
visit_nodes(Node *nodes, int count, visitproc visit, void *arg)
{
    for (int i = 0; i < count; i++) {
        Node *node = &nodes[i];
        Py_VISIT(node->argument);
        for (int j = 0; j < node->check_count; j++) {
            Py_VISIT(node->checks[j].expected);
            if (node->checks[j].tensor != NULL) {
                Py_VISIT(node->checks[j].tensor->type);
            }
        }
        int stop = visit_nodes(node->children, node->child_count, visit, arg);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

/* Guards(tree, guard_count): tree is a tuple of (step, argument, number, checks, children). */
static int
count_nodes(PyObject *specs)
{
    int count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(specs); i++) {
        PyObject *spec = PyTuple_GET_ITEM(specs, i);
        if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) != 5
            || !PyTuple_Check(PyTuple_GET_ITEM(spec, 4))) {
            PyErr_SetString(PyExc_TypeError, "guard tree: expected tuples of five");
            return -1;
        }
        int below = count_nodes(PyTuple_GET_ITEM(spec, 4));
        if (below < 0) {
            return -1;
        }
        count += 1 + below;
    }
    return count;
}

static PyObject *
guards_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *tree;
    int guard_count;
    if (!PyArg_ParseTuple(args, "O!i", &PyTuple_Type, &tree, &guard_count)) {
        return NULL;
    }
    int node_count = count_nodes(tree);
    if (node_count < 0) {
        return NULL;
    }
    Guards *self = (Guards *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->guard_count = guard_count;
    self->node_count = node_count;
    self->values = PyMem_Calloc(node_count ? node_count : 1, sizeof(PyObject *));
    if (self->values == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    if (build_nodes(self, tree, &self->roots, &self->root_count) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    for (int i = 0; i < self->root_count; i++) {
        self->is_deep |= self->roots[i].child_count > 0;
    }
    return (PyObject *)self;
}

static int
guards_traverse(Guards *self, visitproc visit, void *arg)
{
    return visit_nodes(self->roots, self->root_count, visit, arg);
}

/* No tp_clear: guards without their tree would pass. Whoever is in a cycle with them clears. */
static void
guards_dealloc(Guards *self)
{
    PyObject_GC_UnTrack(self);
    if (self->roots != NULL) {
        free_nodes(self->roots, self->root_count);
    }
    PyMem_Free(self->values);
    PyMem_Free(self->facts);
    PyMem_Free(self->tensors);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int
parse_check_arguments(PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyTuple_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "expected (flat arguments as a tuple, function)");
        return -1;
    }
    return 0;
}

static PyObject *
guards_check_method(Guards *self, PyObject *const *args, Py_ssize_t count)
{
    if (parse_check_arguments(args, count) < 0) {
        return NULL;
    }
    return PyBool_FromLong(guards_check(self, &PyTuple_GET_ITEM(args[0], 0),
                                        PyTuple_GET_SIZE(args[0]), args[1]));
}

/* The numbers of a relation's terms; None for one that is missing or no int64_t. */
static PyObject *
term_numbers(const Guards *self, const RelationSpec *spec)
{
    PyObject *numbers = PyTuple_New(spec->term_count);
    for (int i = 0; numbers != NULL && i < spec->term_count; i++) {
        int64_t number;
        PyObject *item = read_term(self, spec->terms[i], &number) ? PyLong_FromLongLong(number)
                                                                  : Py_NewRef(Py_None);
        if (item == NULL) {
            Py_CLEAR(numbers);
            break;
        }
        PyTuple_SET_ITEM(numbers, i, item);
    }
    return numbers;
}

static PyObject *
guards_first_failure(Guards *self, PyObject *const *args, Py_ssize_t count)
{
    if (parse_check_arguments(args, count) < 0) {
        return NULL;
    }
    self->values_changed = 1;
    self->failed_relation = NULL;
    if (check_tree(self, &PyTuple_GET_ITEM(args[0], 0), PyTuple_GET_SIZE(args[0]), args[1])) {
        Py_RETURN_NONE;
    }
    if (self->failed_relation != NULL) {
        return Py_BuildValue("iN", self->failed_guard, term_numbers(self, self->failed_relation));
    }
    PyObject *value = self->failed_value == NULL ? Py_NotImplemented : self->failed_value;
    return Py_BuildValue("iO", self->failed_guard, value);
}

static PyObject *
guards_fact_kinds(Guards *self, void *closure)
{
    int counts[FACT_KINDS] = {0};
    for (int i = 0; self->snapshot_valid && i < self->fact_count; i++) {
        counts[self->facts[i].kind]++;
    }
    PyObject *result = PyTuple_New(FACT_KINDS);
    for (int kind = 0; result != NULL && kind < FACT_KINDS; kind++) {
        PyObject *count = PyLong_FromLong(counts[kind]);
        if (count == NULL) {
            Py_CLEAR(result);
            break;
        }
        PyTuple_SET_ITEM(result, kind, count);
    }
    return result;
}

static PyObject *
guards_fact_count(Guards *self, void *closure)
{
    return PyLong_FromLong(self->snapshot_valid ? self->fact_count : 0);
}

static PyMethodDef guards_methods[] = {
    {"check", (PyCFunction)(void (*)(void))guards_check_method, METH_FASTCALL,
     "check(args, function) -> bool: do all guards hold for these flat arguments?"},
    {"first_failure", (PyCFunction)(void (*)(void))guards_first_failure, METH_FASTCALL,
     "first_failure(args, function) -> (guard number, value now) or None. The value is\n"
     "NotImplemented where the place does not exist."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef guards_getset[] = {
    {"fact_kinds", (getter)guards_fact_kinds, NULL,
     "Facts in the snapshot by kind: words, versions, tags, bytes, leaves, steps, checks.", NULL},
    {"fact_count", (getter)guards_fact_count, NULL, "Facts in the snapshot; 0 without one.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject GuardsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.capture._capture.Guards",
    .tp_doc = "Guards(tree, guard_count): the guards of one region, evaluated in C.",
    .tp_basicsize = sizeof(Guards),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = guards_new,
    .tp_dealloc = (destructor)guards_dealloc,
    .tp_traverse = (traverseproc)guards_traverse,
    .tp_methods = guards_methods,
    .tp_getset = guards_getset,
};

/* -------------------------------------------------------------------- Scopes of the hook ---- */

/* Per thread: the Python callable that is asked about frames, NULL where none is. */
typedef struct {
    PyObject *callback;   /* owned while set */
    PyCodeObject *passed; /* borrowed, only compared: the next frame of this code runs as it is */
    Py_ssize_t depth;     /* of hook_enter */
    PyObject **outer;     /* callbacks of the enclosing hook_enter scopes; owned */
    Py_ssize_t capacity;
    char *stack_half; /* below this address less than half of the C stack is left; NULL: unknown */
    char *stack_end;  /* below this address no frame is entered any more */
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
    PyObject *owner;     /* owned: capture.cache.Entry */
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
    PyObject *after_miss; /* callable or NULL: called with the object when a missed call is over */
    char is_positional;     /* no keyword-only parameters, no *args, no **kwargs */
    int argument_count;     /* positional parameters */
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

/* Flat slots of one call. Those in `owned` are released with it. */
#define SMALL_SLOTS 24

typedef struct {
    PyObject **slots;
    PyObject *small[SMALL_SLOTS];
    PyObject *args;   /* owned tuple for *args, or NULL */
    PyObject *kwargs; /* owned dict for **kwargs, or NULL */
} Binding;

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
        else if (binding->kwargs == NULL || !PyUnicode_Check(name)
                 || PyDict_SetItem(binding->kwargs, name, values[i]) < 0) {
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
    if (code->co_flags & CO_VARKEYWORDS) {
        binding->kwargs = PyDict_New();
        if (binding->kwargs == NULL) {
            return 0;
        }
        binding->slots[self->slot_count - 1] = binding->kwargs;
    }
    if (names != NULL && !bind_keywords(code, binding, args + count, names)) {
        return 0;
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

static PyObject *
call_flat(CompiledFunction *self, PyObject *target, PyObject *const *slots)
{
    if (self->is_positional) {
        return PyObject_Vectorcall(target, slots, self->argument_count, NULL);
    }
    if (!(self->code->co_flags & (CO_VARARGS | CO_VARKEYWORDS))) {
        return PyObject_Vectorcall(target, slots, self->argument_count, self->keyword_names);
    }
    return call_spread(self, target, slots);
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

/* Call an entry's function with the right callback for frames below. */
static PyObject *
call_in_scope(CompiledFunction *self, PyObject *target, PyObject *const *slots, int is_scoped)
{
    PyObject *wanted = wanted_callback(self, is_scoped);
    if (wanted == hook.callback) {
        return call_flat(self, target, slots);
    }
    PyObject *before = hook_swap(wanted);
    PyObject *result = call_flat(self, target, slots);
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
    for (int i = 0; i < self->entry_count; i++) {
        Guards *guards = (Guards *)Py_NewRef(self->entries[i].guards);
        int holds = guards_check(guards, slots, self->slot_count, function);
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
        PyTuple_SET_ITEM(flat, i, Py_NewRef(slots[i]));
    }
    PyObject *on_miss = Py_NewRef(self->on_miss);
    PyObject *before = hook_swap(NULL);
    PyObject *target =
        PyObject_CallFunctionObjArgs(on_miss, (PyObject *)self, function, flat, NULL);
    hook_restore(before);
    Py_DECREF(on_miss);
    Py_DECREF(flat);
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
run_flat(CompiledFunction *self, PyObject *const *slots, int *missed)
{
    Entry *entry = find_entry(self, slots, self->function);
    if (entry != NULL) {
        PyObject *target = Py_NewRef(entry->function);
        PyObject *result = call_in_scope(self, target, slots, entry->is_scoped);
        Py_DECREF(target);
        return result;
    }
    int is_scoped = 0;
    *missed = 1;
    PyObject *target = miss(self, slots, self->function, &is_scoped);
    if (target == NULL) {
        return NULL;
    }
    PyObject *result;
    if (target == self->function) {
        if (hook.callback != NULL) {
            hook.passed = (PyCodeObject *)((PyFunctionObject *)target)->func_code;
        }
        result = call_flat(self, target, slots);
        hook.passed = NULL;
    }
    else {
        result = call_in_scope(self, target, slots, is_scoped);
    }
    Py_DECREF(target);
    return result;
}

/* A compiled call up to its first tail call. */
static PyObject *
call_compiled(CompiledFunction *self, PyObject *const *args, size_t nargsf, PyObject *names,
              int *missed)
{
    if (self->disabled || is_eager()) {
        return call_original(self, args, nargsf, names);
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
        return run_flat(self, args, missed);
    }
    Binding binding;
    if (!bind(self, args, count, names, &binding)) {
        release_binding(&binding);
        PyErr_Clear();
        self->calls--;
        return call_original(self, args, nargsf, names); /* raises what CPython raises */
    }
    PyObject *result = run_flat(self, binding.slots, missed);
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
        if (Py_IS_TYPE(call->callable, &CompiledFunctionType)) {
            int missed = 0;
            result = call_compiled((CompiledFunction *)call->callable, call->args, Py_SIZE(call),
                                   NULL, &missed);
        }
        else {
            result = PyObject_Vectorcall(call->callable, call->args, Py_SIZE(call), NULL);
        }
        hook_restore(before);
        Py_DECREF(call);
    }
    return result;
}

static PyObject *
module_call_inner(PyObject *module, PyObject *callable)
{
    return finish_tail_calls(PyObject_CallNoArgs(callable));
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
    PyObject *result = call_compiled(self, args, nargsf, names, &missed);
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
            PyTuple_SET_ITEM(result, i, Py_NewRef(binding.slots[i]));
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

/* The function whose code the frame shall run. New reference; NULL with or without an exception:
 * the original. */
static PyObject *
choose_function(CompiledFunction *compiled, _PyInterpreterFrame *frame, int *is_scoped)
{
    PyObject *function = (PyObject *)FRAME_FUNCTION(frame);
    if (compiled->disabled || compiled->code != FRAME_CODE(frame) || is_eager()) {
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
        return Py_NewRef(entry->function);
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
    int is_scoped = 0;
    if (compiled != NULL) {
        function = choose_function(compiled, frame, &is_scoped);
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

static PyMethodDef module_methods[] = {
    {"tail_call", (PyCFunction)(void (*)(void))module_tail_call, METH_FASTCALL,
     "tail_call(function, *args): what compiled code returns to have the rest called."},
    {"call_inner", module_call_inner, METH_O,
     "call_inner(function): function() and the tail calls that it asks for."},
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
    {"is_held_weakly", module_is_held_weakly, METH_O,
     "is_held_weakly(object) -> bool: do guards refer to it weakly?"},
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
    PyObject *config = PyImport_ImportModule("dynajit.core.config");
    if (config == NULL) {
        return -1;
    }
    settings.variable = PyObject_GetAttrString(config, "CURRENT");
    Py_DECREF(config);
    if (settings.variable == NULL) {
        return -1;
    }
    name_getattribute = PyUnicode_InternFromString("__getattribute__");
    name_grad = PyUnicode_InternFromString("grad");
    name_requires_grad = PyUnicode_InternFromString("requires_grad");
    if (name_getattribute == NULL || name_grad == NULL || name_requires_grad == NULL) {
        return -1;
    }
    generic_getattribute = _PyType_Lookup(&PyBaseObject_Type, name_getattribute);
    module_getattribute = _PyType_Lookup(&PyModule_Type, name_getattribute);
    extra_index = REQUEST_CODE_EXTRA_INDEX(NULL); /* the slot borrows: nothing to release */
    if (extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "no free slot in code objects");
        return -1;
    }
    outer_evaluator = _PyEval_EvalFrameDefault;
    start_watching();
    return 0;
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
