/* Calling a plan with arrays: checks, new arrays for results, workspace, errors that kernels report.
 *
 * A `Program` is what `_runtime.Program` is on the CPU. Contract: arrays that do not have the layout
 * the code was generated for are copied into it; wrong dtypes and shapes are refused; results are
 * new arrays of the pool's, which an unfinished run does not hand out. Nothing waits for the GPU,
 * unless a kernel may report an error: then the call ends once the last such kernel has. Temporary
 * memory is kept between calls, per stream; a call that meets it in use takes some of its own.
 * Created by `dynajit.codegen.cuda_program`. */
#include "replays.h"

#include <structmember.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL dynajit_device_array_api
#define NO_IMPORT_ARRAY
#include <numpy/arrayobject.h>

#include "program.h"

enum { ARGUMENT_TENSOR, ARGUMENT_BOOL, ARGUMENT_INTEGER, ARGUMENT_FLOATING };
enum { RESULT_NEW, RESULT_ARGUMENT, RESULT_WRITTEN, RESULT_OBJECT };

/* Words that every program has; its inputs follow. */
enum { SLOT_STATUS, SLOT_WORKSPACE, SLOT_PRODUCTS, SLOT_WORKSPACE_BYTES, SLOT_FIRST };

#define STATUS_WORDS 4
#define KEPT_WORKSPACES 4

typedef struct {
    int kind, rank, any_strides;
    PyArray_Descr *dtype; /* owned; NULL for numbers */
    int *sizes;           /* slots */
    int64_t *strides;     /* in bytes; of an input */
    PyObject *shape;      /* owned; a tuple where all sizes are known, else NULL */
} Spec;

typedef struct {
    Py_ssize_t argument;
    int dim, slot;
    int64_t low, high;
} Symbol;

typedef struct {
    int kind, position;
    PyObject *object; /* owned; for RESULT_OBJECT */
} Result;

/* What a kernel reports, in memory of the host's that the GPU writes to, and when it was written. */
typedef struct Status {
    int64_t *words;
    void *event;
    struct Status *next;
} Status;

typedef struct {
    unsigned long long stream;
    PyObject *memory; /* owned; NULL: free */
    Address address;
    size_t bytes;
} Workspace;

/* The array that an argument was in an earlier call, and where it lies: parameters of models are the
 * same arrays in every call, and asking an array takes a third of a microsecond. */
typedef struct {
    PyObject *last;  /* borrowed, compared only */
    PyObject *alive; /* owned: refers weakly to an array that fits */
    uint64_t address;
} Seen;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *dictionary, *name;
    PlanObject *plan;
    Spec *arguments, *outputs;
    Result *results;
    Symbol *symbols;
    Py_ssize_t argument_count, output_count, result_count, symbol_count, tensor_count;
    int scalars_first, constants_first;
    PyObject *constants; /* tuple of arrays */
    PyObject *fail;      /* callable(code, value, size, lowest) that raises */
    /* of the array library: */
    PyTypeObject *array_type;
    PyObject *empty;      /* callable(shape, dtype) -> array */
    PyObject *contiguous; /* callable(array) -> array */
    PyObject *memory;     /* callable(bytes) -> object with `ptr` */
    PyObject *stream;     /* callable() -> address of the current stream */
    PyObject *elsewhere;  /* callable(program, arguments): from a thread on another device */
    Seen *seen; /* by tensor argument */
    Workspace kept[KEPT_WORKSPACES];
    Status *free_status;
    Replays replays;
    char *is_identity;
} ProgramObject;

static PyObject *text_dtype, *text_shape, *text_strides, *text_data, *text_ptr, *text_device_id;

/* ---- life ---- */

static void clear_specs(Spec *specs, Py_ssize_t count) {
    for (Py_ssize_t i = 0; specs && i < count; i++) {
        Py_XDECREF(specs[i].dtype);
        Py_XDECREF(specs[i].shape);
        PyMem_Free(specs[i].sizes);
        PyMem_Free(specs[i].strides);
    }
    PyMem_Free(specs);
}

#define OWNED(F)                                                                              \
    F(dictionary) F(constants) F(fail) F(empty) F(contiguous) F(memory) F(stream) F(elsewhere) \
    F(array_type)

static int Program_traverse(ProgramObject *self, visitproc visit, void *arg) {
#define VISIT(field) Py_VISIT(self->field);
    OWNED(VISIT)
    for (int i = 0; i < KEPT_WORKSPACES; i++) Py_VISIT(self->kept[i].memory);
    for (Py_ssize_t i = 0; self->results && i < self->result_count; i++)
        Py_VISIT(self->results[i].object);
    return 0;
}

static int Program_clear(ProgramObject *self) {
#define CLEAR(field) Py_CLEAR(self->field);
    OWNED(CLEAR)
    for (int i = 0; i < KEPT_WORKSPACES; i++) Py_CLEAR(self->kept[i].memory);
    for (Py_ssize_t i = 0; self->seen && i < self->tensor_count; i++) Py_CLEAR(self->seen[i].alive);
    for (Py_ssize_t i = 0; self->results && i < self->result_count; i++)
        Py_CLEAR(self->results[i].object);
    return 0;
}

/* Another context may be current, or none: what is destroyed says itself where it is. */
static void clear_driver_objects(ProgramObject *self) {
    DriverObject *driver = self->plan->module->driver;
    if (!device_is_forked) replays_clear(&self->replays, driver);
    while (self->free_status) {
        Status *next = self->free_status->next;
        if (!device_is_forked) {
            driver->call.event_destroy(self->free_status->event);
            driver->call.host_free(self->free_status->words);
        }
        PyMem_Free(self->free_status);
        self->free_status = next;
    }
    pthread_mutex_destroy(&self->replays.lock);
}

static void Program_dealloc(ProgramObject *self) {
    PyObject_GC_UnTrack(self);
    Program_clear(self);
    if (self->plan) clear_driver_objects(self);
    Py_CLEAR(self->name);
    Py_CLEAR(self->plan);
    clear_specs(self->arguments, self->argument_count);
    clear_specs(self->outputs, self->output_count);
    PyMem_Free(self->results);
    PyMem_Free(self->symbols);
    PyMem_Free(self->is_identity);
    PyMem_Free(self->seen);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* ---- arguments ---- */

static int refuse(ProgramObject *self, Py_ssize_t position, PyObject *given, const char *expected) {
    PyErr_Format(PyExc_TypeError, "%U: argument %zd is %R.  Expected %s.", self->name, position,
                 (PyObject *)Py_TYPE(given), expected);
    return -1;
}

static PyObject *known_shape(const Spec *spec, const uint64_t *words) {
    if (spec->shape) return Py_NewRef(spec->shape);
    PyObject *shape = PyTuple_New(spec->rank);
    for (int d = 0; shape && d < spec->rank; d++) {
        PyObject *size = PyLong_FromLongLong((long long)words[spec->sizes[d]]);
        if (!size) Py_CLEAR(shape);
        else PyTuple_SET_ITEM(shape, d, size);
    }
    return shape;
}

static int refuse_array(ProgramObject *self, Py_ssize_t position, PyObject *dtype, PyObject *shape,
                        const Spec *spec, const uint64_t *words) {
    PyObject *expected = known_shape(spec, words);
    if (expected)
        PyErr_Format(PyExc_TypeError,
                     "%U: argument %zd is an array of dtype %S and shape %S.  Expected dtype %S "
                     "and shape %S.",
                     self->name, position, dtype, shape, (PyObject *)spec->dtype, expected);
    Py_XDECREF(expected);
    return -1;
}

/* Item of a tuple of integers. */
static int64_t item(PyObject *tuple, int place) {
    return PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, place));
}

static int has_shape(PyObject *shape, const Spec *spec, const uint64_t *words) {
    if (!PyTuple_Check(shape) || PyTuple_GET_SIZE(shape) != spec->rank) return 0;
    for (int d = 0; d < spec->rank; d++)
        if (item(shape, d) != (int64_t)words[spec->sizes[d]]) return 0;
    return 1;
}

/* Strides of dims of size 1 mean nothing, nor do those of an array without elements. */
static int has_strides(PyObject *strides, const Spec *spec, const uint64_t *words) {
    int64_t step = PyDataType_ELSIZE(spec->dtype);
    if (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != spec->rank) return 0;
    for (int d = 0; d < spec->rank; d++)
        if (words[spec->sizes[d]] == 0) return 1;
    for (int d = spec->rank - 1; d >= 0; d--) {
        int64_t size = (int64_t)words[spec->sizes[d]];
        int64_t expected = spec->any_strides ? step : spec->strides[d];
        if (size > 1 && item(strides, d) != expected) return 0;
        step *= size;
    }
    return 1;
}

/* `object.data.<name>` as an integer; -1 with an exception. */
static long long data_number(PyObject *array, PyObject *name) {
    PyObject *data = PyObject_GetAttr(array, text_data);
    PyObject *number = data ? PyObject_GetAttr(data, name) : NULL;
    long long value = number ? (long long)PyLong_AsUnsignedLongLongMask(number) : -1;
    Py_XDECREF(data);
    Py_XDECREF(number);
    return value;
}

/* The address of an array that has the layout of a spec, or of a copy, which *held owns. */
static int address_in_layout(ProgramObject *self, Py_ssize_t position, PyObject *array,
                             const Spec *spec, const uint64_t *words, PyObject **held,
                             uint64_t *address) {
    PyObject *strides = PyObject_GetAttr(array, text_strides);
    if (!strides) return -1;
    int fits = has_strides(strides, spec, words);
    Py_DECREF(strides);
    if (!fits && !spec->any_strides) {
        PyErr_Format(PyExc_ValueError,
                     "%U: argument %zd does not have the strides that code was generated for.",
                     self->name, position);
        return -1;
    }
    if (!fits && !(array = *held = PyObject_CallOneArg(self->contiguous, array))) return -1;
    *address = (uint64_t)data_number(array, text_ptr);
    if (PyErr_Occurred()) return -1;
    if (*address % (uint64_t)PyDataType_ELSIZE(spec->dtype)) {
        PyErr_Format(PyExc_ValueError,
                     "%U: argument %zd lies at an address that is no multiple of its item size.  "
                     "Expected an aligned array; copy it.",
                     self->name, position);
        return -1;
    }
    return 0;
}

static int tensor_address(ProgramObject *self, Py_ssize_t position, PyObject *array,
                          const Spec *spec, const uint64_t *words, PyObject **held,
                          uint64_t *address) {
    if (!PyObject_TypeCheck(array, self->array_type))
        return refuse(self, position, array, "an array on the GPU");
    PyObject *dtype = PyObject_GetAttr(array, text_dtype);
    PyObject *shape = dtype ? PyObject_GetAttr(array, text_shape) : NULL;
    int done = -1;
    if (!shape) goto end;
    int is_same = dtype == (PyObject *)spec->dtype ||
                  (PyArray_DescrCheck(dtype) &&
                   PyArray_EquivTypes((PyArray_Descr *)dtype, spec->dtype));
    if (!is_same || !has_shape(shape, spec, words)) {
        refuse_array(self, position, dtype, shape, spec, words);
        goto end;
    }
    long long device = data_number(array, text_device_id);
    if (PyErr_Occurred()) goto end;
    if (device != self->plan->module->device) {
        PyErr_Format(PyExc_ValueError, "%U: argument %zd is on cuda:%lld.  Expected cuda:%d.",
                     self->name, position, device, self->plan->module->device);
        goto end;
    }
    done = address_in_layout(self, position, array, spec, words, held, address);
end:
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    return done;
}

static int is_alive(PyObject *reference, PyObject *array) {
#if PY_VERSION_HEX >= 0x030d0000
    PyObject *found;
    if (PyWeakref_GetRef(reference, &found) <= 0) return 0;
    Py_DECREF(found); /* the caller owns `array` */
    return found == array;
#else
    return PyWeakref_GET_OBJECT(reference) == array;
#endif
}

/* As tensor_address, without asking an array that was there before. Nobody changes the shape of an
 * array in place, as tensors rely on, too (eager/tensor.h). */
static int seen_address(ProgramObject *self, Py_ssize_t position, PyObject *array, const Spec *spec,
                        const uint64_t *words, PyObject **held, Seen *seen, uint64_t *address) {
    if (seen->alive && is_alive(seen->alive, array)) {
        *address = seen->address;
        return 0;
    }
    if (tensor_address(self, position, array, spec, words, held, address) < 0) return -1;
    Py_CLEAR(seen->alive);
    /* Of arrays that come twice only: most others are gone after the call. */
    if (seen->last == array && !*held && spec->shape) {
        seen->alive = PyWeakref_NewRef(array, NULL);
        if (!seen->alive) PyErr_Clear();
        seen->address = *address;
    }
    seen->last = array;
    return 0;
}

static int scalar_word(ProgramObject *self, Py_ssize_t position, PyObject *given, int kind,
                       uint64_t *word) {
    if (kind == ARGUMENT_FLOATING) {
        double value = PyFloat_CheckExact(given) ? PyFloat_AS_DOUBLE(given) : PyFloat_AsDouble(given);
        memcpy(word, &value, sizeof value);
        return value == -1.0 && PyErr_Occurred() ? -1 : 0;
    }
    if (kind == ARGUMENT_BOOL) {
        int truth = PyObject_IsTrue(given);
        *word = (uint64_t)truth;
        return truth < 0 ? -1 : 0;
    }
    PyObject *index = PyNumber_Index(given);
    if (!index) {
        PyErr_Clear();
        return refuse(self, position, given, "an integer");
    }
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow) {
        PyErr_Format(PyExc_OverflowError, "%U: argument %zd does not fit in int64.", self->name,
                     position);
        return -1;
    }
    *word = (uint64_t)value;
    return value == -1 && PyErr_Occurred() ? -1 : 0;
}

/* A symbolic size: the number itself, or a dimension of an array. */
static int symbol_value(ProgramObject *self, const Symbol *symbol, PyObject *given,
                        uint64_t *word) {
    const Spec *spec = &self->arguments[symbol->argument];
    if (symbol->dim < 0) {
        if (scalar_word(self, symbol->argument, given, spec->kind, word) < 0) return -1;
    } else {
        PyObject *shape = PyObject_GetAttr(given, text_shape);
        if (!shape) PyErr_Clear();
        int fits = shape && PyTuple_Check(shape) && PyTuple_GET_SIZE(shape) == spec->rank;
        if (fits) *word = (uint64_t)item(shape, symbol->dim);
        Py_XDECREF(shape);
        if (!fits) return refuse(self, symbol->argument, given, "an array of other dimensions");
    }
    if ((int64_t)*word >= symbol->low && (int64_t)*word <= symbol->high) return 0;
    PyErr_Format(PyExc_ValueError,
                 "%U: argument %zd has the size %lld.  Expected a size in [%lld, %lld].", self->name,
                 symbol->argument, (long long)*word, (long long)symbol->low,
                 (long long)symbol->high);
    return -1;
}

static int read_arguments(ProgramObject *self, PyObject *const *args, uint64_t *words,
                          PyObject **held) {
    int scalar = self->scalars_first, tensor = 0;
    for (Py_ssize_t k = 0; k < self->symbol_count; k++) {
        const Symbol *symbol = &self->symbols[k];
        if (symbol_value(self, symbol, args[symbol->argument], &words[symbol->slot]) < 0) return -1;
    }
    plan_compute(self->plan, words);
    for (Py_ssize_t i = 0; i < self->argument_count; i++) {
        const Spec *spec = &self->arguments[i];
        if (spec->kind != ARGUMENT_TENSOR) {
            if (scalar_word(self, i, args[i], spec->kind, &words[scalar++]) < 0) return -1;
            continue;
        }
        if (seen_address(self, i, args[i], spec, words, &held[tensor], &self->seen[tensor],
                         &words[SLOT_FIRST + tensor]) < 0)
            return -1;
        tensor++;
    }
    return 0;
}

/* ---- memory of a call ---- */

static int make_outputs(ProgramObject *self, uint64_t *words, PyObject **arrays) {
    for (Py_ssize_t i = 0; i < self->output_count; i++) {
        const Spec *spec = &self->outputs[i];
        PyObject *shape = known_shape(spec, words);
        if (!shape) return -1;
        PyObject *given[2] = {shape, (PyObject *)spec->dtype};
        arrays[i] = PyObject_Vectorcall(self->empty, given, 2, NULL);
        Py_DECREF(shape);
        if (!arrays[i]) return -1;
        long long address = data_number(arrays[i], text_ptr);
        if (PyErr_Occurred()) return -1;
        words[SLOT_FIRST + self->tensor_count + i] = (uint64_t)address;
    }
    return 0;
}

/* Memory for temporaries on a stream: what is kept for it, if that is free and large enough. */
static int take_workspace(ProgramObject *self, unsigned long long stream, size_t bytes,
                          Workspace *taken) {
    memset(taken, 0, sizeof *taken);
    if (!bytes) return 0;
    for (int i = 0; i < KEPT_WORKSPACES; i++) {
        Workspace *kept = &self->kept[i];
        if (!kept->memory || kept->stream != stream) continue;
        *taken = *kept;
        kept->memory = NULL;
        if (taken->bytes >= bytes) return 0;
        Py_CLEAR(taken->memory);
        break;
    }
    PyObject *size = PyLong_FromSize_t(bytes);
    PyObject *memory = size ? PyObject_CallOneArg(self->memory, size) : NULL;
    Py_XDECREF(size);
    PyObject *address = memory ? PyObject_GetAttr(memory, text_ptr) : NULL;
    if (!address) {
        Py_XDECREF(memory);
        return -1;
    }
    *taken = (Workspace){stream, memory, PyLong_AsUnsignedLongLongMask(address), bytes};
    Py_DECREF(address);
    return PyErr_Occurred() ? -1 : 0;
}

/* The last place holds what was kept last: streams come and go. */
static void keep_workspace(ProgramObject *self, const Workspace *taken) {
    if (!taken->memory) return;
    int place = KEPT_WORKSPACES - 1;
    for (int i = KEPT_WORKSPACES - 1; i >= 0; i--)
        if (!self->kept[i].memory) place = i;
    PyObject *before = self->kept[place].memory;
    self->kept[place] = *taken;
    Py_XDECREF(before);
}

static Status *take_status(ProgramObject *self) {
    DriverObject *driver = self->plan->module->driver;
    Status *status = self->free_status;
    if (!status) {
        status = PyMem_Calloc(1, sizeof *status);
        if (!status) return (Status *)PyErr_NoMemory();
        int code = driver->call.host_allocate((void **)&status->words, STATUS_WORDS * 8,
                                              HOST_PORTABLE | HOST_DEVICEMAP);
        const char *call = "cuMemHostAlloc";
        if (!code) {
            call = "cuEventCreate";
            code = driver->call.event_create(&status->event, EVENT_DISABLE_TIMING);
        }
        if (code) {
            if (status->words) driver->call.host_free(status->words);
            PyMem_Free(status);
            driver_failed(driver, call, code);
            return NULL;
        }
    } else {
        self->free_status = status->next;
    }
    memset(status->words, 0, STATUS_WORDS * 8);
    return status;
}

static void give_status(ProgramObject *self, Status *status) {
    status->next = self->free_status;
    self->free_status = status;
}

/* ---- running ---- */

/* What a call does with its steps besides giving them to the stream. */
typedef struct {
    int repeats;      /* 0: run once, and measure nothing */
    int is_tuning;    /* choose algorithms of products by measuring */
    float *by_step;   /* milliseconds of each step, or NULL */
    float milliseconds; /* of one run */
} Measure;

static int measure_products(Run *run) {
    PlanObject *plan = run->plan;
    for (Py_ssize_t i = 0; i < plan->product_count; i++)
        if (product_tune(run, &plan->products[i], run->prepared[i]) < 0) return -1;
    return 0;
}

static int between(Run *run, void *const *events, float *milliseconds) {
    run->failed = "cuEventElapsedTime";
    run->code = run->plan->module->driver->call.event_elapsed(milliseconds, events[0], events[1]);
    return run->code ? -1 : 0;
}

/* Runs one after the other, between two events. */
static int measure_runs(Run *run, Measure *measure, void *const *events) {
    const DriverFunctions *call = &run->plan->module->driver->call;
    run->failed = "cuEventRecord";
    if ((run->code = call->event_record(events[0], run->stream))) return -1;
    for (int i = 0; i < measure->repeats; i++)
        if (plan_enqueue(run) < 0) return -1;
    run->failed = "cuEventRecord";
    if ((run->code = call->event_record(events[1], run->stream))) return -1;
    run->failed = "cuEventSynchronize";
    if ((run->code = call->event_synchronize(events[1]))) return -1;
    if (between(run, events, &measure->milliseconds) < 0) return -1;
    measure->milliseconds /= (float)measure->repeats;
    return 0;
}

/* Each step by itself, in order, as often as there are repeats: what it reads is there when it runs,
 * and later steps have not yet put something else in its place. */
static int measure_steps(Run *run, Measure *measure, void *const *events) {
    PlanObject one = *run->plan; /* a plan of a single step */
    Run alone = *run;
    Measure each = {measure->repeats, 0, NULL, 0};
    alone.plan = &one;
    alone.mark = NULL;
    one.step_count = 1;
    for (Py_ssize_t i = 0; i < run->plan->step_count; i++) {
        one.steps = run->plan->steps + i;
        if (measure_runs(&alone, &each, events) < 0) {
            run->failed = alone.failed;
            run->code = alone.code;
            run->is_product_code = alone.is_product_code;
            return -1;
        }
        measure->by_step[i] = each.milliseconds;
    }
    return 0;
}

static int measured(Run *run, Measure *measure) {
    const DriverFunctions *call = &run->plan->module->driver->call;
    void *events[2] = {NULL, NULL};
    int done = 0;
    if (plan_enqueue(run) < 0) return -1; /* operands are there; code is loaded */
    if (measure->is_tuning && measure_products(run) < 0) return -1;
    run->failed = "cuEventCreate";
    for (int i = 0; i < 2 && !run->code; i++)
        run->code = call->event_create(&events[i], EVENT_DEFAULT);
    if (run->code) done = -1;
    if (!done && measure->repeats) done = measure_runs(run, measure, events);
    if (!done && measure->by_step) done = measure_steps(run, measure, events);
    for (int i = 0; i < 2; i++)
        if (events[i]) call->event_destroy(events[i]);
    return done;
}

/* Give the steps to the stream and wait for what kernels report. No GIL is held. */
static int run_steps(ProgramObject *self, Run *run, Measure *measure) {
    int done = measure             ? measured(run, measure)
               : self->replays.is_on || self->replays.count ? replays_run(&self->replays, run)
                                   : plan_enqueue(run);
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

static int report(ProgramObject *self, const int64_t *status) {
    PyObject *ignored =
        PyObject_CallFunction(self->fail, "LLLL", (long long)status[0], (long long)status[1],
                              (long long)status[2], (long long)status[3]);
    Py_XDECREF(ignored);
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a compiled program failed");
    return -1;
}

static int execute_on(ProgramObject *self, Run *run, Measure *measure, Status *status) {
    int done;
    if (status) {
        run->words[SLOT_STATUS] = (uint64_t)(uintptr_t)status->words;
        run->mark = status->event;
        if (refuse_capture(self, run->stream) < 0) return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    done = run_steps(self, run, measure);
    Py_END_ALLOW_THREADS
    if (done < 0) return run_failed(run);
    return status && status->words[0] ? report(self, status->words) : 0;
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

/* The array that the kernels wrote to: an argument, or the copy that had to be made of it. */
static PyObject *written(ProgramObject *self, Py_ssize_t position, PyObject *const *args,
                         PyObject **held) {
    Py_ssize_t tensor = 0;
    for (Py_ssize_t i = 0; i < position; i++) tensor += self->arguments[i].kind == ARGUMENT_TENSOR;
    return held[tensor] ? held[tensor] : args[position];
}

static PyObject *collect(ProgramObject *self, PyObject *const *args, PyObject **arrays,
                         PyObject **held) {
    PyObject *tuple = PyTuple_New(self->result_count);
    for (Py_ssize_t i = 0; tuple && i < self->result_count; i++) {
        Result *result = &self->results[i];
        PyObject *object = result->kind == RESULT_NEW        ? arrays[result->position]
                           : result->kind == RESULT_ARGUMENT ? args[result->position]
                           : result->kind == RESULT_WRITTEN
                               ? written(self, result->position, args, held)
                               : result->object;
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(object));
    }
    return tuple;
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
        results = collect(self, args, arrays, held);
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

static PyObject *Program_call(PyObject *callable, PyObject *const *args, size_t nargsf,
                              PyObject *kwnames) {
    ProgramObject *self = (ProgramObject *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    if (refuse_count(self, kwnames && PyTuple_GET_SIZE(kwnames) ? -1 : given) < 0) return NULL;
    if (!device_is_forked && driver_is_in(self->plan->module->driver, self->plan->module->device))
        return run_here(self, args, NULL);
    PyObject *tuple = PyTuple_New(given);
    for (Py_ssize_t i = 0; tuple && i < given; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    PyObject *both[2] = {callable, tuple};
    PyObject *results = tuple ? PyObject_Vectorcall(self->elsewhere, both, 2, NULL) : NULL;
    Py_XDECREF(tuple);
    return results;
}

/* Make the program's context current, whatever the array library has done, and call. */
static PyObject *Program_run_here(ProgramObject *self, PyObject *arguments) {
    if (!PyTuple_Check(arguments)) return refuse(self, 0, arguments, "a tuple"), NULL;
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

/* ---- construction ---- */

/* (dtype, slots of sizes, strides in bytes, any_strides, shape or None) or an integer kind */
static int read_spec(ProgramObject *self, PyObject *given, Spec *spec) {
    if (PyLong_Check(given)) {
        spec->kind = (int)PyLong_AsLong(given);
        return 0;
    }
    PyObject *dtype, *sizes, *strides, *shape;
    if (!PyArg_ParseTuple(given, "OO!O!pO", &dtype, &PyTuple_Type, &sizes, &PyTuple_Type, &strides,
                          &spec->any_strides, &shape) ||
        !PyArray_DescrConverter(dtype, &spec->dtype))
        return -1;
    spec->kind = ARGUMENT_TENSOR;
    spec->rank = (int)PyTuple_GET_SIZE(sizes);
    spec->shape = shape == Py_None ? NULL : Py_NewRef(shape);
    spec->sizes = PyMem_Calloc((size_t)spec->rank + 1, sizeof(int));
    spec->strides = PyMem_Calloc((size_t)spec->rank + 1, sizeof(int64_t));
    if (!spec->sizes || !spec->strides) return PyErr_NoMemory(), -1;
    for (int d = 0; d < spec->rank; d++) {
        spec->sizes[d] = (int)item(sizes, d);
        if (!spec->any_strides) spec->strides[d] = item(strides, d);
        if (PyErr_Occurred()) return -1;
        if (spec->sizes[d] < 0 || spec->sizes[d] >= self->plan->slot_count)
            return PyErr_SetString(PyExc_ValueError, "a size names a word that does not exist"), -1;
    }
    return 0;
}

static Spec *read_specs(ProgramObject *self, PyObject *given, Py_ssize_t *count) {
    *count = PyTuple_GET_SIZE(given);
    Spec *specs = PyMem_Calloc((size_t)*count + 1, sizeof(Spec));
    if (!specs) return (Spec *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < *count; i++)
        if (read_spec(self, PyTuple_GET_ITEM(given, i), &specs[i]) < 0) {
            clear_specs(specs, *count);
            return NULL;
        }
    return specs;
}

static int read_results(ProgramObject *self, PyObject *given) {
    self->result_count = PyTuple_GET_SIZE(given);
    self->results = PyMem_Calloc((size_t)self->result_count + 1, sizeof(Result));
    if (!self->results) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < self->result_count; i++) {
        Result *result = &self->results[i];
        PyObject *object;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(given, i), "iiO", &result->kind, &result->position,
                              &object))
            return -1;
        Py_ssize_t limit = result->kind == RESULT_NEW ? self->output_count : self->argument_count;
        if (result->kind != RESULT_OBJECT && (result->position < 0 || result->position >= limit)) {
            PyErr_SetString(PyExc_ValueError, "a result names an array that does not exist");
            return -1;
        }
        result->object = Py_NewRef(object);
    }
    return 0;
}

/* (argument, dimension or -1, slot, low, high) of each symbol */
static int read_symbols(ProgramObject *self, PyObject *given) {
    self->symbol_count = PyTuple_GET_SIZE(given);
    self->symbols = PyMem_Calloc((size_t)self->symbol_count + 1, sizeof(Symbol));
    if (!self->symbols) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < self->symbol_count; i++) {
        Symbol *symbol = &self->symbols[i];
        long long low, high;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(given, i), "niiLL", &symbol->argument, &symbol->dim,
                              &symbol->slot, &low, &high))
            return -1;
        symbol->low = low;
        symbol->high = high;
        int exists = symbol->argument >= 0 && symbol->argument < self->argument_count;
        const Spec *spec = exists ? &self->arguments[symbol->argument] : NULL;
        if (!spec || symbol->slot < 0 || symbol->slot >= self->plan->slot_count ||
            (symbol->dim < 0 ? spec->kind != ARGUMENT_INTEGER
                             : spec->kind != ARGUMENT_TENSOR || symbol->dim >= spec->rank)) {
            PyErr_SetString(PyExc_ValueError, "a symbol names an argument that does not show it");
            return -1;
        }
    }
    return 0;
}

/* Addresses of constants become words of the plan: they never change. */
static int read_constants(ProgramObject *self) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->constants); i++) {
        long long address = data_number(PyTuple_GET_ITEM(self->constants, i), text_ptr);
        if (PyErr_Occurred()) return -1;
        self->plan->initial[self->constants_first + i] = (uint64_t)address;
    }
    return 0;
}

static int is_within(ProgramObject *self, Py_ssize_t first, Py_ssize_t count) {
    if (first >= 0 && first + count <= self->plan->slot_count) return 1;
    PyErr_SetString(PyExc_ValueError, "a program has more words than its plan");
    return 0;
}

/* All words must be the same for a replay but the numbers of the call. */
static int mark_identity(ProgramObject *self, Py_ssize_t scalar_count) {
    self->is_identity = PyMem_Malloc((size_t)self->plan->slot_count + 1);
    if (!self->is_identity) return PyErr_NoMemory(), -1;
    memset(self->is_identity, 1, (size_t)self->plan->slot_count);
    memset(self->is_identity + self->scalars_first, 0, (size_t)scalar_count);
    self->replays.is_identity = self->is_identity;
    return 0;
}

static int read_program(ProgramObject *self, PyObject *arguments, PyObject *outputs,
                        PyObject *results, PyObject *symbols) {
    if (!(self->arguments = read_specs(self, arguments, &self->argument_count)) ||
        !(self->outputs = read_specs(self, outputs, &self->output_count)) ||
        read_results(self, results) < 0 || read_symbols(self, symbols) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < self->argument_count; i++)
        self->tensor_count += self->arguments[i].kind == ARGUMENT_TENSOR;
    self->seen = PyMem_Calloc((size_t)self->tensor_count + 1, sizeof(Seen));
    if (!self->seen) return PyErr_NoMemory(), -1;
    Py_ssize_t scalar_count = self->argument_count - self->tensor_count;
    if (!is_within(self, SLOT_FIRST, self->tensor_count + self->output_count) ||
        !is_within(self, self->scalars_first, scalar_count) ||
        !is_within(self, self->constants_first, PyTuple_GET_SIZE(self->constants)))
        return -1;
    return read_constants(self) < 0 ? -1 : mark_identity(self, scalar_count);
}

static PyObject *Program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", "plan", "arguments", "outputs", "results", "symbols",
                            "constants", "scalars_first", "constants_first", "arrays", "fail",
                            "replays", NULL};
    PyObject *name, *plan, *arguments, *outputs, *results, *symbols, *constants, *fail, *array_type;
    PyObject *empty, *contiguous, *memory, *stream, *elsewhere;
    int scalars_first, constants_first, replays;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "UO!O!O!O!O!O!ii(O!OOOOO)Op:Program", names, &name, &Plan_Type, &plan,
            &PyTuple_Type, &arguments, &PyTuple_Type, &outputs, &PyTuple_Type, &results,
            &PyTuple_Type, &symbols, &PyTuple_Type, &constants, &scalars_first, &constants_first,
            &PyType_Type, &array_type, &empty, &contiguous, &memory, &stream, &elsewhere, &fail,
            &replays))
        return NULL;
    ProgramObject *self = (ProgramObject *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = Program_call;
    self->name = Py_NewRef(name);
    self->plan = (PlanObject *)Py_NewRef(plan);
    self->constants = Py_NewRef(constants);
    self->fail = Py_NewRef(fail);
    self->array_type = (PyTypeObject *)Py_NewRef(array_type);
    self->empty = Py_NewRef(empty);
    self->contiguous = Py_NewRef(contiguous);
    self->memory = Py_NewRef(memory);
    self->stream = Py_NewRef(stream);
    self->elsewhere = Py_NewRef(elsewhere);
    self->scalars_first = scalars_first;
    self->constants_first = constants_first;
    self->replays.is_on = replays;
    pthread_mutex_init(&self->replays.lock, NULL);
    if (read_program(self, arguments, outputs, results, symbols) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *Program_repr(ProgramObject *self) {
    return PyUnicode_FromFormat("<Program %U on cuda:%d: %zd arguments, %zd results>", self->name,
                                self->plan->module->device, self->argument_count,
                                self->result_count);
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
    text_dtype = PyUnicode_InternFromString("dtype");
    text_shape = PyUnicode_InternFromString("shape");
    text_strides = PyUnicode_InternFromString("strides");
    text_data = PyUnicode_InternFromString("data");
    text_ptr = PyUnicode_InternFromString("ptr");
    text_device_id = PyUnicode_InternFromString("device_id");
    if (!text_dtype || !text_shape || !text_strides || !text_data || !text_ptr || !text_device_id)
        return -1;
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
