/* Calls of programs. See program.h. */
#include "program.h"

#include <structmember.h>

#include "recorder.h"

/* Who records profiles: of a program on a GPU, the launch as the host sees it. */
static const Recorder *recorder;

/* ---- life ---- */

#define OWNED(F)                                                                              \
    F(dictionary) F(constants) F(fail) F(empty) F(contiguous) F(memory) F(stream) F(elsewhere) \
    F(array_type)

static int Program_traverse(ProgramObject *self, visitproc visit, void *arg) {
#define VISIT(field) Py_VISIT(self->field);
    OWNED(VISIT)
    for (int i = 0; i < KEPT_WORKSPACES; i++) Py_VISIT(self->kept[i].memory);
    return visit_results(&self->results, visit, arg);
}

static int Program_clear(ProgramObject *self) {
#define CLEAR(field) Py_CLEAR(self->field);
    OWNED(CLEAR)
    for (int i = 0; i < KEPT_WORKSPACES; i++) Py_CLEAR(self->kept[i].memory);
    for (Py_ssize_t i = 0; self->seen && i < self->tensor_count; i++) Py_CLEAR(self->seen[i].alive);
    clear_results(&self->results);
    return 0;
}

/* A forked child has nothing to destroy. */
static void clear_driver_objects(ProgramObject *self) {
    DriverObject *driver = self->plan->module->driver;
    pthread_mutex_destroy(&self->replays.lock);
    if (device_is_forked) return;
    void *before = driver_visit(driver, self->plan->module->device);
    replays_clear(&self->replays, driver);
    while (self->free_status) {
        Status *next = self->free_status->next;
        free_status(driver, self->free_status);
        self->free_status = next;
    }
    driver_return(driver, before);
}

static void Program_dealloc(ProgramObject *self) {
    PyObject_GC_UnTrack(self);
    Program_clear(self);
    if (self->plan) clear_driver_objects(self);
    Py_CLEAR(self->name);
    Py_CLEAR(self->plan);
    clear_specs(self->arguments, self->argument_count);
    clear_specs(self->outputs, self->output_count);
    PyMem_Free(self->results.items);
    PyMem_Free(self->symbols);
    PyMem_Free(self->is_identity);
    PyMem_Free(self->seen);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* ---- running ---- */


/* Give the steps to the stream and wait for what kernels report. No GIL is held. */
static int run_steps(ProgramObject *self, Run *run, Measure *measure) {
    int done = measure             ? measured(run, measure)
               : self->replays.is_on || self->replays.count ? replays_run(&self->replays, run)
                                   : plan_enqueue(run, 0, run->plan->step_count);
    if (done < 0 || !run->mark) return done;
    run->failed = "cuEventSynchronize";
    run->code = run->plan->module->driver->call.event_synchronize(run->mark);
    return run->code ? -1 : 0;
}

/* A stream that somebody captures cannot be waited for. */
static int refuse_capture(ProgramObject *self, void *stream) {
    DriverObject *driver = self->plan->module->driver;
    int status, code = driver->call.stream_is_capturing(stream, &status);
    if (code) return driver_failed(driver, "cuStreamIsCapturing", code);
    if (status == CAPTURE_STATUS_NONE) return 0;
    PyErr_Format(PyExc_RuntimeError,
                 "%U: its kernels may report an error (an index out of range, a division by zero), "
                 "which a call waits for, and the current stream is being captured.  Capture "
                 "other work, or use compile(mode='reduce-overhead').",
                 self->name);
    return -1;
}

/* Python's exception for what a kernel has reported; the next call, on whatever stream, starts with
 * zeros again. */
static int report(ProgramObject *self, const Status *status, void *stream) {
    const int64_t *words = status->copy;
    DriverObject *driver = self->plan->module->driver;
    int code = driver->call.memset_bytes(status->address, 0, STATUS_BYTES, stream);
    if (code) return driver_failed(driver, "cuMemsetD8Async", code);
    if ((code = driver->call.stream_synchronize(stream)))
        return driver_failed(driver, "cuStreamSynchronize", code);
    PyObject *ignored =
        PyObject_CallFunction(self->fail, "LLLL", (long long)words[0], (long long)words[1],
                              (long long)words[2], (long long)words[3]);
    Py_XDECREF(ignored);
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a compiled program failed");
    return -1;
}

static int execute_on(ProgramObject *self, Run *run, Measure *measure, Status *status) {
    int done;
    if (status) {
        run->status = run->words[SLOT_STATUS] = status->address;
        run->report = status->copy;
        run->mark = status->event;
        if (refuse_capture(self, run->stream) < 0) return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    done = run_steps(self, run, measure);
    Py_END_ALLOW_THREADS
    if (done < 0) return run_failed(run);
    return status && status->copy[0] ? report(self, status, run->stream) : 0;
}

static int execute(ProgramObject *self, Run *run, Measure *measure) {
    Workspace workspace;
    size_t products;
    PyObject *stream = PyObject_CallNoArgs(self->stream);
    if (!stream) return -1;
    unsigned long long address = PyLong_AsUnsignedLongLongMask(stream);
    Py_DECREF(stream);
    if (PyErr_Occurred() || plan_prepare(run, &products) < 0) return -1;
    if (measure && measure->is_tuning && products < PRODUCT_MOST_WORKSPACE)
        products = PRODUCT_MOST_WORKSPACE;
    size_t own = ((size_t)run->words[SLOT_WORKSPACE_BYTES] + 255) & ~(size_t)255;
    if (take_workspace(self, address, own + products, &workspace) < 0) return -1;
    run->stream = (void *)(uintptr_t)address;
    run->words[SLOT_WORKSPACE] = workspace.address;
    run->workspace = run->words[SLOT_PRODUCTS] = workspace.address + own;
    Status *status = NULL;
    int done = 0;
    if (self->plan->last_failing >= 0 && !(status = take_status(self))) done = -1;
    if (!done) done = execute_on(self, run, measure, status);
    if (status) give_status(self, status);
    keep_workspace(self, &workspace);
    return done;
}

#define SMALL_BYTES 4096

/* A call in a thread whose current context is the program's. */
static PyObject *run_here(ProgramObject *self, PyObject *const *args, Measure *measure) {
    _Alignas(16) char small[SMALL_BYTES];
    size_t objects = (size_t)(self->tensor_count + self->output_count) * sizeof(PyObject *);
    size_t bytes = plan_scratch(self->plan) + objects;
    char *memory = bytes > SMALL_BYTES ? PyMem_Malloc(bytes) : small;
    if (!memory) return PyErr_NoMemory();
    memset(memory, 0, bytes);
    Run run;
    plan_open(&run, self->plan, memory);
    PyObject **held = (PyObject **)(memory + bytes - objects), **arrays = held + self->tensor_count;
    PyObject *results = NULL;
    if (read_arguments(self, args, run.words, held) == 0 &&
        make_outputs(self, run.words, arrays) == 0 && execute(self, &run, measure) == 0)
        results = collect_results(&self->results, args, arrays, held);
    plan_close(&run);
    for (Py_ssize_t i = 0; i < self->tensor_count; i++) Py_XDECREF(held[i]);
    for (Py_ssize_t i = 0; i < self->output_count; i++) Py_XDECREF(arrays[i]);
    if (memory != small) PyMem_Free(memory);
    return results;
}

static int refuse_count(ProgramObject *self, Py_ssize_t given) {
    if (given == self->argument_count) return 0;
    PyErr_Format(PyExc_TypeError, "%U: %zd arguments given.  Expected %zd, by position.",
                 self->name, given, self->argument_count);
    return -1;
}

PyObject *Program_call(PyObject *callable, PyObject *const *args, size_t nargsf,
                              PyObject *kwnames) {
    ProgramObject *self = (ProgramObject *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    if (refuse_count(self, kwnames && PyTuple_GET_SIZE(kwnames) ? -1 : given) < 0) return NULL;
    if (!device_is_forked && driver_is_in(self->plan->module->driver, self->plan->module->device)) {
        if (!recorder->is_on) return run_here(self, args, NULL);
        int64_t place = recorder->begin(RECORD_PROGRAM, callable, NULL);
        PyObject *launched = run_here(self, args, NULL);
        recorder->end(place);
        return launched;
    }
    PyObject *tuple = PyTuple_New(given);
    for (Py_ssize_t i = 0; tuple && i < given; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    PyObject *both[2] = {callable, tuple};
    PyObject *results = tuple ? PyObject_Vectorcall(self->elsewhere, both, 2, NULL) : NULL;
    Py_XDECREF(tuple);
    return results;
}

/* Make the program's context current, whatever the array library has done, and call. */
static PyObject *Program_run_here(ProgramObject *self, PyObject *arguments) {
    if (!PyTuple_Check(arguments)) return PyErr_SetString(PyExc_TypeError, "a tuple of arguments is expected"), NULL;
    if (refuse_count(self, PyTuple_GET_SIZE(arguments)) < 0) return NULL;
    if (driver_enter(self->plan->module->driver, self->plan->module->device) < 0) return NULL;
    return run_here(self, &PyTuple_GET_ITEM(arguments, 0), NULL);
}

/* measure(arguments, repeats, tune, steps) -> (milliseconds, milliseconds of each step) */
static PyObject *Program_measure(ProgramObject *self, PyObject *args) {
    PyObject *arguments;
    Measure measure = {0, 0, NULL, 0};
    int with_steps;
    if (!PyArg_ParseTuple(args, "O!ipp", &PyTuple_Type, &arguments, &measure.repeats,
                          &measure.is_tuning, &with_steps) ||
        refuse_count(self, PyTuple_GET_SIZE(arguments)) < 0 ||
        driver_enter(self->plan->module->driver, self->plan->module->device) < 0)
        return NULL;
    Py_ssize_t count = with_steps ? self->plan->step_count : 0;
    if (with_steps) {
        measure.by_step = PyMem_Calloc((size_t)count + 1, sizeof(float));
        if (!measure.by_step) return PyErr_NoMemory();
    }
    PyObject *results = run_here(self, &PyTuple_GET_ITEM(arguments, 0), &measure);
    PyObject *times = results ? PyTuple_New(count) : NULL;
    for (Py_ssize_t i = 0; times && i < count; i++)
        PyTuple_SET_ITEM(times, i, PyFloat_FromDouble(measure.by_step[i]));
    PyMem_Free(measure.by_step);
    Py_XDECREF(results);
    return times ? Py_BuildValue("fN", measure.milliseconds, times) : NULL;
}

/* The algorithms of the products, as bytes: what `tune` chose. */
static PyObject *Program_algorithms(ProgramObject *self, PyObject *unused) {
    PlanObject *plan = self->plan;
    PyObject *list = PyTuple_New(plan->product_count);
    for (Py_ssize_t i = 0; list && i < plan->product_count; i++)
        PyTuple_SET_ITEM(list, i, PyBytes_FromStringAndSize((char *)plan->products[i].preset,
                                                            sizeof plan->products[i].preset));
    return list;
}

static PyObject *Program_repr(ProgramObject *self) {
    return PyUnicode_FromFormat("<Program %U on cuda:%d: %zd arguments, %zd results>", self->name,
                                self->plan->module->device, self->argument_count,
                                self->results.count);
}

/* (replayed calls, graphs captured, the call that refused to make one or None) */
static PyObject *Program_replayed(ProgramObject *self, void *unused) {
    const Replays *replays = &self->replays;
    return Py_BuildValue("KKz", (unsigned long long)replays->hits,
                         (unsigned long long)replays->captures, replays->refused);
}

static PyMethodDef Program_methods[] = {
    {"run_here", (PyCFunction)Program_run_here, METH_O,
     "Call with a tuple of arguments after making the program's context current."},
    {"measure", (PyCFunction)Program_measure, METH_VARARGS,
     "measure(arguments, repeats, tune, steps) -> (milliseconds, those of each step)"},
    {"algorithms", (PyCFunction)Program_algorithms, METH_NOARGS,
     "Algorithms of the products, as bytes that a plan takes."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef Program_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ProgramObject, vectorcall), READONLY, NULL},
    {"name", T_OBJECT, offsetof(ProgramObject, name), READONLY, "Name of the graph."},
    {"plan", T_OBJECT, offsetof(ProgramObject, plan), READONLY, "What runs."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef Program_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"replayed", (getter)Program_replayed, NULL,
     "(replayed calls, graphs captured, the call that refused to make one)", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject DeviceProgram_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.codegen._device.Program",
    .tp_basicsize = sizeof(ProgramObject),
    .tp_dealloc = (destructor)Program_dealloc,
    .tp_traverse = (traverseproc)Program_traverse,
    .tp_clear = (inquiry)Program_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(ProgramObject, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dictoffset = offsetof(ProgramObject, dictionary),
    .tp_methods = Program_methods,
    .tp_members = Program_members,
    .tp_getset = Program_getset,
    .tp_new = Program_new,
    .tp_repr = (reprfunc)Program_repr,
    .tp_doc = "A graph on a GPU: call it with arrays and numbers, get a tuple of arrays.",
};

int program_prepare(PyObject *module) {
    recorder = PyCapsule_Import(RECORDER_CAPSULE, 0);
    if (!recorder || arguments_prepare() < 0) return -1;
    return PyModule_AddIntMacro(module, ARGUMENT_TENSOR) < 0 ||
                   PyModule_AddIntMacro(module, ARGUMENT_BOOL) < 0 ||
                   PyModule_AddIntMacro(module, ARGUMENT_INTEGER) < 0 ||
                   PyModule_AddIntMacro(module, ARGUMENT_FLOATING) < 0 ||
                   PyModule_AddIntMacro(module, RESULT_NEW) < 0 ||
                   PyModule_AddIntMacro(module, RESULT_ARGUMENT) < 0 ||
                   PyModule_AddIntMacro(module, RESULT_WRITTEN) < 0 ||
                   PyModule_AddIntMacro(module, RESULT_OBJECT) < 0 ||
                   PyModule_AddIntMacro(module, SLOT_STATUS) < 0 ||
                   PyModule_AddIntMacro(module, SLOT_WORKSPACE) < 0 ||
                   PyModule_AddIntMacro(module, SLOT_WORKSPACE_BYTES) < 0 ||
                   PyModule_AddIntMacro(module, SLOT_FIRST) < 0
               ? -1
               : 0;
}
