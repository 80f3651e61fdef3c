/* The recorder of profiles: what ran, from when to when, in every thread.
 *
 * Contract: nothing is recorded, and nobody calls in here, until `start`. Then whoever does work
 * (rows through `Attempt`, compiled programs, backward, the program's own blocks) says `begin` and
 * `end`; events of a thread nest, and each knows the one that it lies in. `stop` is said once per
 * `start`; when the last one is said recording ends. `events` gives what was recorded so far,
 * `clear` forgets it. Times are those of `time.perf_counter_ns` on Linux and macOS: CLOCK_MONOTONIC.
 *
 * With `memory`, arrays that NumPy makes in the thread that said so come from an allocator that
 * counts; programs tell of their blocks by `held`. An event has the bytes taken less those given back
 * while it ran. Everything is guarded by the GIL. Called by `dynajit.profiler`; in C because a row
 * of small tensors takes a microsecond, and a Python watch would take as long again.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "recorder.h"

typedef struct {
    PyObject *what;   /* owned */
    PyObject *shapes; /* owned, or NULL */
    PyObject *stack;  /* owned, or NULL */
    int64_t begin, end; /* end: 0 while it runs */
    int64_t bytes;      /* while it runs: what the thread had taken when it began */
    int64_t parent;     /* place in the same thread, or -1 */
    int kind, number;
} Event;

/* The events of one thread. Never freed: there are as many as threads that ever recorded. */
typedef struct Log {
    Event *events;
    int64_t count, room, open; /* open: place of the innermost that runs, or -1 */
    int64_t taken;             /* bytes */
    int64_t generation;        /* of the events; older places mean nothing */
    int compiling;
    unsigned long thread;
    struct Log *next;
} Log;

#define PLACE_BITS 40 /* of a place; the generation lies above */

static Log *logs;
static _Thread_local Log *own;
static int64_t generation = 1;
static int starts, with_shapes, with_stacks;
static PyObject *name_run, *name_shape;

static int64_t clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static Log *own_log(void) {
    if (!own) {
        own = PyMem_RawCalloc(1, sizeof(Log));
        if (!own) return NULL;
        own->thread = PyThread_get_thread_ident();
        own->next = logs;
        logs = own;
        own->generation = 0;
    }
    if (own->generation != generation) {
        own->generation = generation;
        own->open = -1;
        own->compiling = 0;
    }
    return own;
}

/* ---- what an event knows besides its time; errors mean that it knows less ---- */

/* Per operand its sizes; () for what has none. */
static PyObject *shapes_of(PyObject *operands) {
    Py_ssize_t count = PyTuple_GET_SIZE(operands);
    PyObject *found = PyTuple_New(count);
    for (Py_ssize_t i = 0; found && i < count; i++) {
        PyObject *sizes = PyObject_GetAttr(PyTuple_GET_ITEM(operands, i), name_shape);
        PyObject *made = sizes ? PySequence_Tuple(sizes) : NULL;
        Py_XDECREF(sizes);
        if (!made) {
            PyErr_Clear();
            made = PyTuple_New(0);
        }
        if (!made) Py_CLEAR(found);
        else PyTuple_SET_ITEM(found, i, made);
    }
    PyErr_Clear();
    return found;
}

/* The frames of this thread, the innermost first: [(code, line), ...]. */
static PyObject *stack_of_thread(void) {
    PyObject *found = PyList_New(0);
    PyFrameObject *frame = found ? PyThreadState_GetFrame(PyThreadState_Get()) : NULL;
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        PyObject *pair = Py_BuildValue("(Oi)", code, PyFrame_GetLineNumber(frame));
        Py_DECREF(code);
        if (pair) PyList_Append(found, pair);
        Py_XDECREF(pair);
        Py_SETREF(frame, PyFrame_GetBack(frame));
    }
    PyErr_Clear();
    return found;
}

/* ---- recording ---- */

static Event *new_event(Log *log, int kind, PyObject *what, int64_t begin) {
    if (log->count == log->room) {
        int64_t room = log->room ? 2 * log->room : 1024;
        Event *grown = PyMem_RawRealloc(log->events, sizeof(Event) * (size_t)room);
        if (!grown) return NULL;
        log->events = grown;
        log->room = room;
    }
    Event *event = &log->events[log->count++];
    *event = (Event){.what = Py_NewRef(what), .begin = begin, .parent = log->open, .kind = kind};
    return event;
}

static int64_t begin_event(int kind, PyObject *what, PyObject *operands) {
    Log *log = own_log();
    if (!log || (log->compiling && kind != RECORD_COMPILE)) return -1;
    PyObject *shapes = NULL, *stack = NULL;
    if (with_shapes || with_stacks) { /* may run Python code, which may record */
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        if (with_shapes && operands && PyTuple_Check(operands)) shapes = shapes_of(operands);
        if (with_stacks) stack = stack_of_thread();
        PyErr_Restore(type, value, traceback);
    }
    Event *event = new_event(log, kind, what, 0);
    if (!event) {
        Py_XDECREF(shapes);
        Py_XDECREF(stack);
        return -1;
    }
    event->shapes = shapes;
    event->stack = stack;
    event->bytes = log->taken;
    log->open = log->count - 1;
    log->compiling += kind == RECORD_COMPILE;
    int64_t place = log->open | (log->generation << PLACE_BITS);
    event->begin = clock_now();
    return place;
}

static void end_event(int64_t place) {
    if (place < 0) return;
    int64_t now = clock_now();
    Log *log = own_log();
    if (!log || place >> PLACE_BITS != log->generation) return;
    Event *event = &log->events[place & (((int64_t)1 << PLACE_BITS) - 1)];
    if (event->end) return;
    event->end = now;
    event->bytes = log->taken - event->bytes;
    log->compiling -= event->kind == RECORD_COMPILE;
    log->open = event->parent;
}

static void add_event(int kind, PyObject *what, int number, int64_t begin, int64_t end) {
    Log *log = own_log();
    Event *event = log ? new_event(log, kind, what, begin) : NULL;
    if (!event) return;
    event->end = end;
    event->number = number;
}

static void note_held(int64_t bytes) {
    Log *log = own_log();
    if (log) log->taken += bytes;
}

static Recorder recorder = {0, clock_now, begin_event, end_event, add_event, note_held};

/* ---- rows ---- */

/* Attempt(attempt)(row, inputs, attributes): what `attempt` gives, or the row's `run` where that is
 * NotImplemented, recorded. See `_row_call.c`. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *attempt;
} AttemptObject;

static PyObject *Attempt_call(PyObject *callable, PyObject *const *args, size_t nargsf,
                              PyObject *kwnames) {
    AttemptObject *self = (AttemptObject *)callable;
    if (PyVectorcall_NARGS(nargsf) != 3 || kwnames)
        return PyErr_Format(PyExc_TypeError, "expected a row, its inputs and its attributes");
    int64_t place = recorder.is_on ? begin_event(RECORD_ROW, args[0], args[1]) : -1;
    PyObject *result = PyObject_Vectorcall(self->attempt, args, 3, NULL);
    if (result == Py_NotImplemented) {
        Py_DECREF(result);
        PyObject *run = PyObject_GetAttr(args[0], name_run);
        result = run ? PyObject_Call(run, args[1], args[2]) : NULL;
        Py_XDECREF(run);
    }
    end_event(place);
    return result;
}

static PyObject *Attempt_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *attempt;
    if (!PyArg_ParseTuple(args, "O", &attempt)) return NULL;
    AttemptObject *self = (AttemptObject *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = Attempt_call;
    self->attempt = Py_NewRef(attempt);
    return (PyObject *)self;
}

static void Attempt_dealloc(AttemptObject *self) {
    Py_XDECREF(self->attempt);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject Attempt_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.core.process._recorder.Attempt",
    .tp_doc = "Attempt(attempt): runs rows by `attempt` and records them.",
    .tp_basicsize = sizeof(AttemptObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(AttemptObject, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = Attempt_new,
    .tp_dealloc = (destructor)Attempt_dealloc,
};

/* ---- memory of arrays ---- */

/* The allocator lives as long as the process: arrays keep a pointer to it. */
static void *counting_malloc(void *context, size_t size) {
    if (recorder.is_on) note_held((int64_t)size);
    return malloc(size);
}

static void *counting_calloc(void *context, size_t count, size_t size) {
    if (recorder.is_on) note_held((int64_t)(count * size));
    return calloc(count, size);
}

static void *counting_realloc(void *context, void *memory, size_t size) {
    return realloc(memory, size);
}

static void counting_free(void *context, void *memory, size_t size) {
    if (recorder.is_on) note_held(-(int64_t)size);
    free(memory);
}

static PyDataMem_Handler counting = {
    "dynajit_recorder",
    1,
    {NULL, counting_malloc, counting_calloc, counting_realloc, counting_free},
};

/* ---- functions of the module ---- */

static PyObject *module_start(PyObject *module, PyObject *args) {
    int shapes, stacks;
    if (!PyArg_ParseTuple(args, "pp", &shapes, &stacks)) return NULL;
    starts++;
    with_shapes += shapes;
    with_stacks += stacks;
    recorder.is_on = 1;
    return PyLong_FromLongLong(clock_now());
}

static PyObject *module_stop(PyObject *module, PyObject *args) {
    int shapes, stacks;
    if (!PyArg_ParseTuple(args, "pp", &shapes, &stacks)) return NULL;
    int64_t now = clock_now();
    if (starts > 0) {
        starts--;
        with_shapes -= shapes;
        with_stacks -= stacks;
        recorder.is_on = starts > 0;
    }
    return PyLong_FromLongLong(now);
}

static PyObject *module_is_on(PyObject *module, PyObject *ignored) {
    return PyBool_FromLong(recorder.is_on);
}

static PyObject *module_begin(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (!recorder.is_on) return PyLong_FromLong(-1);
    if (count < 2) return PyErr_Format(PyExc_TypeError, "begin(kind, what, operands=None)");
    long kind = PyLong_AsLong(args[0]);
    if (kind == -1 && PyErr_Occurred()) return NULL;
    return PyLong_FromLongLong(begin_event((int)kind, args[1], count > 2 ? args[2] : NULL));
}

static PyObject *module_end(PyObject *module, PyObject *place) {
    long long number = PyLong_AsLongLong(place);
    if (number == -1 && PyErr_Occurred()) return NULL;
    end_event(number);
    Py_RETURN_NONE;
}

/* [(thread, [(kind, what, number, begin, end, parent, bytes, shapes, stack), ...]), ...] */
static PyObject *module_events(PyObject *module, PyObject *ignored) {
    PyObject *found = PyList_New(0);
    for (Log *log = logs; found && log; log = log->next) {
        int64_t count = log->generation == generation ? log->count : 0;
        PyObject *events = PyList_New(0);
        for (int64_t i = 0; events && i < count; i++) {
            Event *e = &log->events[i];
            PyObject *row = Py_BuildValue(
                "(iOiLLLLOO)", e->kind, e->what, e->number, (long long)e->begin, (long long)e->end,
                (long long)e->parent, e->end ? (long long)e->bytes : 0LL,
                e->shapes ? e->shapes : Py_None, e->stack ? e->stack : Py_None);
            if (!row || PyList_Append(events, row) < 0) Py_CLEAR(events);
            Py_XDECREF(row);
        }
        PyObject *pair = events ? Py_BuildValue("(kN)", log->thread, events) : NULL;
        if (!pair || PyList_Append(found, pair) < 0) Py_CLEAR(found);
        Py_XDECREF(pair);
    }
    return found;
}

static PyObject *module_clear(PyObject *module, PyObject *ignored) {
    generation++;
    for (Log *log = logs; log; log = log->next) {
        Event *events = log->events;
        int64_t count = log->count;
        log->events = NULL;
        log->count = log->room = 0;
        log->open = -1;
        for (int64_t i = 0; i < count; i++) { /* may run Python code */
            Py_XDECREF(events[i].what);
            Py_XDECREF(events[i].shapes);
            Py_XDECREF(events[i].stack);
        }
        PyMem_RawFree(events);
    }
    Py_RETURN_NONE;
}

static PyObject *module_count_memory(PyObject *module, PyObject *ignored) {
    PyObject *handler = PyCapsule_New(&counting, "mem_handler", NULL);
    PyObject *before = handler ? PyDataMem_SetHandler(handler) : NULL;
    Py_XDECREF(handler);
    return before;
}

static PyObject *module_restore_memory(PyObject *module, PyObject *before) {
    PyObject *ours = PyDataMem_SetHandler(before);
    Py_XDECREF(ours);
    if (!ours) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"start", module_start, METH_VARARGS, "start(shapes, stacks) -> the time, nanoseconds."},
    {"stop", module_stop, METH_VARARGS, "stop(shapes, stacks), as `start` was told -> the time."},
    {"is_on", module_is_on, METH_NOARGS, "Whether anybody records."},
    {"begin", (PyCFunction)(void (*)(void))module_begin, METH_FASTCALL,
     "begin(kind, what, operands=None) -> the place of the event; -1: it is not recorded."},
    {"end", module_end, METH_O, "end(place) of `begin`."},
    {"events", module_events, METH_NOARGS, "What was recorded, by thread."},
    {"clear", module_clear, METH_NOARGS, "Forget what was recorded."},
    {"count_memory", module_count_memory, METH_NOARGS,
     "Count the memory of arrays that this thread makes; gives the allocator before."},
    {"restore_memory", module_restore_memory, METH_O, "restore_memory(allocator)."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.core.process._recorder",
    .m_doc = "The recorder of profiles.",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__recorder(void) {
    import_array();
    name_run = PyUnicode_InternFromString("run");
    name_shape = PyUnicode_InternFromString("shape");
    if (!name_run || !name_shape || PyType_Ready(&Attempt_Type) < 0) return NULL;
    PyObject *module = PyModule_Create(&module_definition);
    PyObject *capsule = module ? PyCapsule_New(&recorder, RECORDER_CAPSULE, NULL) : NULL;
    if (!capsule || PyModule_AddObjectRef(module, "functions", capsule) < 0 ||
        PyModule_AddObjectRef(module, "Attempt", (PyObject *)&Attempt_Type) < 0)
        Py_CLEAR(module);
    Py_XDECREF(capsule);
    return module;
}
