/* Programs on a GPU: what one call needs, and who does what.
 *
 * A `Program` is what `_runtime.Program` is on the CPU. Contract: arrays that do not have the layout
 * the code was generated for are copied into it; wrong dtypes and shapes are refused; results are
 * new arrays of the pool's, which an unfinished run does not hand out. Nothing waits for the GPU,
 * unless a kernel may report an error: then the call ends once the last such kernel has. Temporary
 * memory is kept between calls, per stream; a call that meets it in use takes some of its own.
 * Created by `dynajit.codegen.device.program`. */
#ifndef DYNAJIT_DEVICE_PROGRAM_H
#define DYNAJIT_DEVICE_PROGRAM_H

#include "replays.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL dynajit_device_array_api
#ifndef DYNAJIT_DEVICE_MODULE
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "../results.h"

enum { ARGUMENT_TENSOR, ARGUMENT_BOOL, ARGUMENT_INTEGER, ARGUMENT_FLOATING };

/* Words that every program has; its inputs follow. */
enum { SLOT_STATUS, SLOT_WORKSPACE, SLOT_PRODUCTS, SLOT_WORKSPACE_BYTES, SLOT_FIRST };

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

/* Where kernels report errors: zeros unless one did. A copy of it on the host, and when it is there. */
typedef struct Status {
    Address address;
    int64_t *copy;
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
    Results results;
    Symbol *symbols;
    Py_ssize_t argument_count, output_count, symbol_count, tensor_count;
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

extern PyTypeObject DeviceProgram_Type;

/* Names and constants of the module; -1 with an exception. */
int program_prepare(PyObject *module);

/* A call, as vectorcall has it. */
PyObject *Program_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* ---- program_new.c ---- */

PyObject *Program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);
void clear_specs(Spec *specs, Py_ssize_t count);

/* ---- arguments.c ---- */

/* `object.data.ptr` as an integer; -1 with an exception. */
long long array_address(PyObject *array);

/* The shape of an array in this call: a new tuple. */
PyObject *known_shape(const Spec *spec, const uint64_t *words);

/* Fill in the words that arguments give, and what follows from them; copies that had to be made of
 * arrays are owned by `held`. -1 with an exception. */
int read_arguments(ProgramObject *self, PyObject *const *args, uint64_t *words, PyObject **held);

int arguments_prepare(void);

/* ---- memory.c ---- */

/* New arrays for the results, and their addresses as words; -1 with an exception. */
int make_outputs(ProgramObject *self, uint64_t *words, PyObject **arrays);

/* Memory for temporaries on a stream: what is kept for it, if that is free and large enough. */
int take_workspace(ProgramObject *self, unsigned long long stream, size_t bytes, Workspace *taken);
void keep_workspace(ProgramObject *self, const Workspace *taken);

/* Where kernels report errors; NULL with an exception. */
Status *take_status(ProgramObject *self);
void give_status(ProgramObject *self, Status *status);

/* Free it; its device's context is current. */
void free_status(DriverObject *driver, Status *status);

/* ---- measuring.c ---- */

/* What a call does with its steps besides giving them to the stream. */
typedef struct {
    int repeats;        /* 0: measure nothing */
    int is_tuning;      /* choose algorithms of products by measuring */
    float *by_step;     /* milliseconds of each step, or NULL */
    float milliseconds; /* of one run */
} Measure;

/* Run and measure; -1 with `failed` of the run. Needs no GIL. */
int measured(Run *run, Measure *measure);

#endif
