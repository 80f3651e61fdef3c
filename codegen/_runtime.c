/* Calling compiled programs: argument checks, output arrays, workspace, and nothing else.
 *
 * A `Program` is the `run` function of a library with the description of its arguments and results.
 * Contract: arrays that do not have the layout the code was generated for are copied into it; wrong
 * dtypes and shapes are refused; outputs are new arrays that own their memory (large ones through a
 * block that returns to a free list when the array dies); a failed run hands out nothing. A
 * workspace is kept between calls, a large one for all programs: versions of a function, and the
 * graphs of one, do not add up. A second thread that calls meanwhile gets a block of its own.
 * A program of symbolic sizes has a second function, `measure`: it is given the symbols, which are
 * read from the arguments, and computes all shapes and the workspace of this call (see c_sizes.py).
 * Created by `dynajit.codegen.pipeline`.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <structmember.h>
#include <sys/mman.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include "gemm.h"
#include "library.h"
#include "recorder.h"
#include "results.h"
#include "team.h"

/* ---- memory blocks ---- */

/* From this size on memory is kept: malloc would return it to the system and page faults on fresh
 * pages cost up to five times the arithmetic. */
#define BLOCK_SMALLEST ((size_t)1 << 15)
#define BLOCK_HUGE ((size_t)1 << 22) /* from here on aligned to, and advised for, huge pages */
#define HUGE_PAGE ((size_t)1 << 21)
#define CACHE_LIMIT ((size_t)1 << 30)
#define CLASS_COUNT 512
#define CLASS_DEPTH 8

typedef struct {
    void *memory[CLASS_DEPTH];
    int count;
} FreeList;

/* All guarded by the GIL. */
static FreeList free_lists[CLASS_COUNT];
static size_t cached_bytes;

/* Who records profiles. */
static const Recorder *recorder;

/* Eight size classes per power of two: at most 12.5 % is wasted. */
static size_t class_of(size_t size, size_t *rounded) {
    int exponent = 63 - __builtin_clzll((unsigned long long)(size | 1));
    size_t step = (size_t)1 << (exponent > 3 ? exponent - 3 : 0);
    *rounded = (size + step - 1) & ~(step - 1);
    exponent = 63 - __builtin_clzll((unsigned long long)(*rounded | 1));
    step = (size_t)1 << (exponent > 3 ? exponent - 3 : 0);
    return ((size_t)exponent * 8 + (*rounded / step - 8)) % CLASS_COUNT;
}

/* There under AddressSanitizer only: what a block has beyond its size, and all of one that nobody
 * uses, is not to be touched. */
void __asan_poison_memory_region(const volatile void *, size_t) __attribute__((weak));
void __asan_unpoison_memory_region(const volatile void *, size_t) __attribute__((weak));

static void *guarded(void *memory, size_t size, size_t rounded) {
    if (memory && __asan_poison_memory_region) {
        __asan_poison_memory_region(memory, rounded);
        __asan_unpoison_memory_region(memory, size);
    }
    return memory;
}

static void *block_take(size_t size) {
    size_t rounded, class = class_of(size, &rounded);
    FreeList *list = &free_lists[class];
    if (list->count) {
        cached_bytes -= rounded;
        return guarded(list->memory[--list->count], size, rounded);
    }
    size_t alignment = rounded >= BLOCK_HUGE ? HUGE_PAGE : 64;
    void *memory = aligned_alloc(alignment, (rounded + alignment - 1) & ~(alignment - 1));
#ifdef MADV_HUGEPAGE
    if (memory && rounded >= BLOCK_HUGE) madvise(memory, rounded, MADV_HUGEPAGE);
#endif
    return guarded(memory, size, rounded);
}

static void block_give(void *memory, size_t size) {
    size_t rounded, class = class_of(size, &rounded);
    FreeList *list = &free_lists[class];
    if (list->count == CLASS_DEPTH || cached_bytes + rounded > CACHE_LIMIT) {
        free(memory);
        return;
    }
    cached_bytes += rounded;
    list->memory[list->count++] = guarded(memory, 0, rounded);
}

/* The workspace that no call uses, of those of SHARED_SMALLEST and more: the largest so far. */
#define SHARED_SMALLEST ((size_t)1 << 20)
static struct {
    void *memory;
    size_t size;
} shared;

static void *take_shared(size_t *size) {
    void *memory = shared.memory;
    if (!memory) return block_take(*size);
    shared.memory = NULL;
    if (shared.size < *size) {
        block_give(memory, shared.size);
        return block_take(*size);
    }
    size_t rounded, needed = *size;
    class_of(*size = shared.size, &rounded);
    return guarded(memory, needed, rounded);
}

static void keep_shared(void *memory, size_t size) {
    void *other = shared.memory;
    size_t other_size = shared.size;
    if (other && other_size >= size) {
        block_give(memory, size);
        return;
    }
    shared.memory = memory, shared.size = size;
    if (other) block_give(other, other_size);
}

static PyObject *trim(PyObject *module, PyObject *unused) {
    for (int class = 0; class < CLASS_COUNT; class++)
        while (free_lists[class].count) free(free_lists[class].memory[--free_lists[class].count]);
    cached_bytes = 0;
    free(shared.memory);
    shared.memory = NULL;
    Py_RETURN_NONE;
}

static PyObject *cached(PyObject *module, PyObject *unused) {
    return PyLong_FromSize_t(cached_bytes + (shared.memory ? shared.size : 0));
}

typedef struct {
    PyObject_HEAD
    void *memory;
    size_t size;
} BlockObject;

static void Block_dealloc(BlockObject *self) {
    if (recorder->is_on) recorder->held(-(int64_t)self->size);
    block_give(self->memory, self->size);
    PyObject_Free(self);
}

static PyTypeObject Block_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.codegen._runtime.Block",
    .tp_basicsize = sizeof(BlockObject),
    .tp_dealloc = (destructor)Block_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Memory of one output array; returns to a free list.",
};

/* ---- programs ---- */

/* The BLAS pool is silenced while any program with products runs: their team tiles the products
 * over single-threaded calls. The library's setting is process-wide, so users are counted; both are
 * guarded by the GIL. */
static int blas_users, blas_threads;

typedef struct {
    int (*get_threads)(void);
    void (*set_threads)(int);
} BlasPool;

/* ---- thread teams ---- */

/* Size of the team of programs that have none of their own, and whether a team has run; guarded by
 * the GIL. */
static int team_size = 1, has_had_team;
static int is_direct; /* see `dj_runtime` */
static Team *team;    /* the same for eager execution, of which loops may follow */

/* A forked child has none of the threads that libgomp's pool believes to have, and waits for them
 * without end: it computes alone, if its parent had a team. Results do not depend on that. */
static int is_alone;

static void become_child(void) {
    is_alone = has_had_team;
    blas_users = 0; /* those that ran in other threads of the parent */
}

static void silence(const BlasPool *pool) {
    if (!pool->get_threads || !pool->set_threads || blas_users++) return;
    blas_threads = pool->get_threads();
    if (blas_threads > 1) pool->set_threads(1);
}

static void restore(const BlasPool *pool) {
    if (!pool->get_threads || !pool->set_threads || --blas_users) return;
    if (blas_threads > 1) pool->set_threads(blas_threads);
}

typedef union {
    int64_t i;
    double f;
} Scalar;

typedef int (*RunFunction)(void **, void **, void **, const void *, char *, const dj_runtime *, int,
                           int64_t *);
typedef void (*MeasureFunction)(const int64_t *symbols, int threads, int64_t *table);

/* What `measure` puts first; shapes follow. */
enum { TABLE_WORKSPACE, TABLE_ELEMENTS, TABLE_SHAPES };

/* Elements from which a call is worth a release of the GIL (PARALLEL_WORK of c_support.py). */
#define MANY_ELEMENTS ((int64_t)1 << 18)

enum { ARGUMENT_TENSOR, ARGUMENT_BOOL, ARGUMENT_INTEGER, ARGUMENT_FLOATING };

typedef struct {
    PyArray_Descr *dtype; /* owned; NULL for numbers */
    npy_intp *shape;      /* owned; shape then strides in bytes */
    int kind, rank, any_strides;
} Spec;

/* Where a symbolic size is read: a dimension of an argument, or (-1) the argument's number. */
typedef struct {
    Py_ssize_t argument;
    int dim;
    int64_t low, high;
} Symbol;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *dictionary;
    RunFunction run;
    MeasureFunction measure; /* NULL if all sizes are known */
    PyObject *library;
    Spec *arguments, *outputs;
    Results results;
    Symbol *symbols;
    Py_ssize_t argument_count, output_count, tensor_count, scalar_count, symbol_count;
    Py_ssize_t table_size;
    PyObject *constants; /* tuple of arrays */
    void **constant_data;
    PyObject *fail; /* callable(code, value, size, lowest) that raises */
    PyObject *name;
    dj_runtime runtime;
    BlasPool pool;
    size_t workspace_size; /* with `measure` the largest so far */
    void *workspace; /* NULL while a call uses it, before the first, or where it is shared */
    int threads, releases_gil;
} ProgramObject;

static int team_of(const ProgramObject *self) {
    return is_alone ? 1 : self->threads ? self->threads : team_size;
}

static void clear_specs(Spec *specs, Py_ssize_t count) {
    for (Py_ssize_t i = 0; specs && i < count; i++) {
        Py_XDECREF(specs[i].dtype);
        PyMem_Free(specs[i].shape);
    }
    PyMem_Free(specs);
}

static int Program_clear(ProgramObject *self) {
    Py_CLEAR(self->dictionary);
    Py_CLEAR(self->constants);
    Py_CLEAR(self->fail);
    clear_results(&self->results);
    return 0;
}

static int Program_traverse(ProgramObject *self, visitproc visit, void *arg) {
    Py_VISIT(self->dictionary);
    Py_VISIT(self->constants);
    Py_VISIT(self->fail);
    return visit_results(&self->results, visit, arg);
}

static void Program_dealloc(ProgramObject *self) {
    PyObject_GC_UnTrack(self);
    Program_clear(self);
    Py_CLEAR(self->name);
    clear_specs(self->arguments, self->argument_count);
    clear_specs(self->outputs, self->output_count);
    PyMem_Free(self->results.items);
    PyMem_Free(self->symbols);
    PyMem_Free(self->constant_data);
    if (self->workspace) block_give(self->workspace, self->workspace_size);
    Py_CLEAR(self->library);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int refuse(ProgramObject *self, Py_ssize_t position, PyObject *given, const char *expected) {
    PyErr_Format(PyExc_TypeError, "%U: argument %zd is %R.  Expected %s.", self->name, position,
                 (PyObject *)Py_TYPE(given), expected);
    return -1;
}

static int refuse_array(ProgramObject *self, Py_ssize_t position, PyArrayObject *array, Spec *spec,
                        const npy_intp *sizes) {
    PyObject *shape = PyTuple_New(spec->rank);
    if (!shape) return -1;
    for (int d = 0; d < spec->rank; d++)
        PyTuple_SET_ITEM(shape, d, PyLong_FromSsize_t(sizes[d]));
    PyObject *given = PyObject_GetAttrString((PyObject *)array, "shape");
    if (given)
        PyErr_Format(PyExc_TypeError,
                     "%U: argument %zd is an array of dtype %S and shape %S.  Expected dtype %S "
                     "and shape %S.",
                     self->name, position, (PyObject *)PyArray_DESCR(array), given,
                     (PyObject *)spec->dtype, shape);
    Py_XDECREF(given);
    Py_DECREF(shape);
    return -1;
}

/* Strides of dims of size 1 mean nothing. */
static int has_layout(PyArrayObject *array, const Spec *spec, const npy_intp *sizes) {
    const npy_intp *strides = PyArray_STRIDES(array), *expected = spec->shape + spec->rank;
    if (!PyArray_ISALIGNED(array) || PyArray_ISBYTESWAPPED(array)) return 0;
    if (sizes != spec->shape && spec->any_strides) return PyArray_IS_C_CONTIGUOUS(array);
    for (int d = 0; d < spec->rank; d++)
        if (strides[d] != expected[d] && sizes[d] > 1 && expected[d] != NPY_MIN_INTP) return 0;
    return 1;
}

/* The data of a tensor argument of shape `sizes`; a copy that had to be made is owned by *held. */
static void *tensor_data(ProgramObject *self, Py_ssize_t position, PyObject *given, Spec *spec,
                         const npy_intp *sizes, PyObject **held) {
    PyArrayObject *array = (PyArrayObject *)given;
    if (!PyArray_Check(given)) {
        if (!PyArray_CheckScalar(given)) {
            refuse(self, position, given, "an array");
            return NULL;
        }
        *held = PyArray_FromScalar(given, NULL);
        if (!*held) return NULL;
        array = (PyArrayObject *)*held;
    }
    if (PyArray_NDIM(array) != spec->rank ||
        (PyArray_DESCR(array) != spec->dtype &&
         !PyArray_EquivTypes(PyArray_DESCR(array), spec->dtype)) ||
        (spec->rank &&
         memcmp(PyArray_DIMS(array), sizes, sizeof(npy_intp) * (size_t)spec->rank))) {
        refuse_array(self, position, array, spec, sizes);
        return NULL;
    }
    if (has_layout(array, spec, sizes) || PyArray_SIZE(array) == 0) return PyArray_DATA(array);
    if (!spec->any_strides) {
        PyErr_Format(PyExc_ValueError,
                     "%U: argument %zd does not have the strides that code was generated for.",
                     self->name, position);
        return NULL;
    }
    Py_INCREF(spec->dtype);
    PyObject *copy = PyArray_FromArray(array, spec->dtype, NPY_ARRAY_CARRAY | NPY_ARRAY_ENSURECOPY);
    Py_XSETREF(*held, copy);
    return copy ? PyArray_DATA((PyArrayObject *)copy) : NULL;
}

static int scalar_value(ProgramObject *self, Py_ssize_t position, PyObject *given, int kind,
                        Scalar *value) {
    if (kind == ARGUMENT_FLOATING) {
        value->f = PyFloat_CheckExact(given) ? PyFloat_AS_DOUBLE(given) : PyFloat_AsDouble(given);
        return value->f == -1.0 && PyErr_Occurred() ? -1 : 0;
    }
    if (kind == ARGUMENT_BOOL) {
        int truth = PyObject_IsTrue(given);
        value->i = truth;
        return truth < 0 ? -1 : 0;
    }
    PyObject *index = PyLong_CheckExact(given) ? Py_NewRef(given) : PyNumber_Index(given);
    if (!index) {
        PyErr_Clear();
        return refuse(self, position, given, "an integer");
    }
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow) {
        PyErr_Format(PyExc_OverflowError, "%U: argument %zd does not fit in int64.", self->name,
                     position);
        return -1;
    }
    value->i = number;
    return number == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Set the error that there is no memory for a result. Returns NULL. */
static PyObject *no_memory_for(Spec *spec, const npy_intp *sizes) {
    PyObject *shape = PyTuple_New(spec->rank);
    for (int d = 0; shape && d < spec->rank; d++) {
        PyObject *size = PyLong_FromSsize_t(sizes[d]);
        if (!size) Py_CLEAR(shape);
        else PyTuple_SET_ITEM(shape, d, size);
    }
    if (!shape) return NULL;
    PyErr_Format(PyExc_MemoryError, "Unable to allocate a result with shape %R and data type %S",
                 shape, (PyObject *)spec->dtype);
    Py_DECREF(shape);
    return NULL;
}

static PyObject *new_output(Spec *spec, const npy_intp *sizes) {
    npy_intp size = (npy_intp)PyDataType_ELSIZE(spec->dtype);
    for (int d = 0; d < spec->rank; d++) {
        if (sizes[d] < 0)
            return PyErr_Format(PyExc_ValueError, "a result would have the size %zd", sizes[d]);
        if (__builtin_mul_overflow(size, sizes[d], &size)) return no_memory_for(spec, sizes);
    }
    Py_INCREF(spec->dtype);
    if (size < (npy_intp)BLOCK_SMALLEST)
        return PyArray_NewFromDescr(&PyArray_Type, spec->dtype, spec->rank, sizes, NULL, NULL, 0,
                                    NULL);
    BlockObject *block = PyObject_New(BlockObject, &Block_Type);
    if (!block) {
        Py_DECREF(spec->dtype);
        return NULL;
    }
    block->size = (size_t)size;
    block->memory = block_take(block->size);
    if (!block->memory) {
        Py_DECREF(spec->dtype);
        PyObject_Free(block);
        return no_memory_for(spec, sizes);
    }
    if (recorder->is_on) recorder->held((int64_t)size);
    PyObject *array = PyArray_NewFromDescr(&PyArray_Type, spec->dtype, spec->rank, sizes, NULL,
                                           block->memory, NPY_ARRAY_CARRAY, NULL);
    if (!array || PyArray_SetBaseObject((PyArrayObject *)array, (PyObject *)block) < 0) {
        if (!array) Py_DECREF(block);
        Py_XDECREF(array);
        return NULL;
    }
    return array;
}

/* At least *size bytes of workspace: the kept one if it is free and large enough. *size becomes the
 * size of what is returned. */
static void *take_workspace(ProgramObject *self, size_t *size) {
    void *kept = self->workspace, *memory;
    self->workspace = NULL;
    if (kept && self->workspace_size >= *size) {
        *size = self->workspace_size;
        return kept;
    }
    if (kept) block_give(kept, self->workspace_size);
    memory = *size >= SHARED_SMALLEST ? take_shared(size) : block_take(*size);
    if (!memory)
        PyErr_Format(PyExc_MemoryError, "%U: Unable to allocate %zu bytes for what it computes through",
                     self->name, *size);
    return memory;
}

static void keep_workspace(ProgramObject *self, void *memory, size_t size) {
    if (size >= SHARED_SMALLEST) {
        keep_shared(memory, size);
        return;
    }
    if (self->workspace) {
        block_give(memory, size);
        return;
    }
    self->workspace = memory;
    self->workspace_size = size;
}

/* ---- profiles ---- */

/* When the kernels of the program that this thread runs ended, by number. */
static _Thread_local struct {
    int64_t *ends;
    int count, room;
} stamps;

/* `dj_runtime.stamp` of a recorded run; called without the GIL. */
static void stamp(int kernel) {
    if (kernel >= stamps.room) {
        int room = 2 * kernel + 64;
        int64_t *grown = realloc(stamps.ends, sizeof(int64_t) * (size_t)room);
        if (!grown) return;
        stamps.ends = grown;
        stamps.room = room;
    }
    while (stamps.count < kernel) stamps.ends[stamps.count++] = 0; /* it was not called */
    stamps.ends[kernel] = recorder->now();
    stamps.count = kernel + 1;
}

static void record_kernels(ProgramObject *self, int64_t begin) {
    for (int kernel = 0; kernel < stamps.count; kernel++) {
        int64_t end = stamps.ends[kernel];
        if (!end) continue;
        recorder->add(RECORD_KERNEL, (PyObject *)self, kernel, begin, end);
        begin = end;
    }
}

/* `dj_runtime.is_interrupted`; called with or without the GIL. */
static int is_interrupted(void) {
    PyGILState_STATE state = PyGILState_Ensure();
    int found = PyErr_CheckSignals() < 0;
    PyGILState_Release(state);
    return found;
}

/* Raise what a program's status means. */
static void raise_failure(ProgramObject *self, const int64_t *status) {
    if (PyErr_Occurred()) return;  /* by a signal */
    PyObject *ignored = PyObject_CallFunction(self->fail, "LLLL", (long long)status[0],
                                              (long long)status[1], (long long)status[2],
                                              (long long)status[3]);
    Py_XDECREF(ignored);
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a compiled program failed");
}

/* `table` is what `measure` found, or NULL; `recorded`: the event of the call, or -1. */
static int execute(ProgramObject *self, void **inputs, void **outputs, Scalar *scalars,
                   const int64_t *table, int64_t recorded) {
    int64_t status[4] = {0, 0, 0, 0};
    void *workspace = NULL;
    size_t needed = table ? (size_t)table[TABLE_WORKSPACE] : self->workspace_size;
    int releases_gil = table ? table[TABLE_ELEMENTS] >= MANY_ELEMENTS : self->releases_gil;
    if (needed && !(workspace = take_workspace(self, &needed))) return -1;
    int threads = team_of(self);
    has_had_team |= threads > 1;
    silence(&self->pool);
    const dj_runtime *runtime = &self->runtime;
    dj_runtime stamping;
    int64_t begin = 0;
    if (recorded >= 0) {
        stamping = self->runtime;
        stamping.stamp = stamp;
        runtime = &stamping;
        stamps.count = 0;
        begin = recorder->now();
    }
    if (releases_gil) {
        Py_BEGIN_ALLOW_THREADS
        self->run(inputs, outputs, self->constant_data, scalars, workspace, runtime, threads,
                  status);
        Py_END_ALLOW_THREADS
    } else {
        self->run(inputs, outputs, self->constant_data, scalars, workspace, runtime, threads,
                  status);
    }
    if (recorded >= 0) record_kernels(self, begin);
    if (threads > 1) team_ran(team);
    restore(&self->pool);
    if (workspace) keep_workspace(self, workspace, needed);
    if (!status[0]) return 0;
    raise_failure(self, status);
    return -1;
}

/* Read the symbols from the arguments, check their ranges, compute all sizes. */
static int measure(ProgramObject *self, PyObject *const *args, int64_t *symbols, int64_t *table) {
    for (Py_ssize_t k = 0; k < self->symbol_count; k++) {
        const Symbol *symbol = &self->symbols[k];
        PyObject *given = args[symbol->argument];
        Spec *spec = &self->arguments[symbol->argument];
        if (symbol->dim < 0) {
            Scalar value;
            if (scalar_value(self, symbol->argument, given, spec->kind, &value) < 0) return -1;
            symbols[k] = value.i;
        } else if (!PyArray_Check(given) || PyArray_NDIM((PyArrayObject *)given) != spec->rank) {
            return refuse(self, symbol->argument, given, "an array of other dimensions");
        } else {
            symbols[k] = PyArray_DIM((PyArrayObject *)given, symbol->dim);
        }
        if (symbols[k] < symbol->low || symbols[k] > symbol->high) {
            PyErr_Format(PyExc_ValueError,
                         "%U: argument %zd has the size %lld.  Expected a size in [%lld, %lld].",
                         self->name, symbol->argument, (long long)symbols[k],
                         (long long)symbol->low, (long long)symbol->high);
            return -1;
        }
    }
    self->measure(symbols, team_of(self), table);
    return 0;
}

#define SMALL 24

static PyObject *Program_call(PyObject *callable, PyObject *const *args, size_t nargsf,
                              PyObject *kwnames) {
    ProgramObject *self = (ProgramObject *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    if (given != self->argument_count || (kwnames && PyTuple_GET_SIZE(kwnames))) {
        return PyErr_Format(PyExc_TypeError, "%U: %zd arguments given.  Expected %zd, by position.",
                            self->name, given, self->argument_count);
    }
    size_t needed = (size_t)(self->tensor_count * 2 + self->output_count * 2 + self->scalar_count +
                             self->symbol_count + self->table_size);
    void *small[SMALL * 3];
    void **memory = small;
    if (needed > SMALL * 3) {
        memory = PyMem_Malloc(needed * sizeof(void *));
        if (!memory) return PyErr_NoMemory();
    }
    memset(memory, 0, needed * sizeof(void *));
    void **inputs = memory, **outputs = inputs + self->tensor_count;
    PyObject **held = (PyObject **)(outputs + self->output_count);
    PyObject **arrays = held + self->tensor_count;
    Scalar *scalars = (Scalar *)(arrays + self->output_count);
    int64_t *symbols = (int64_t *)(scalars + self->scalar_count); /* the kernels find them there */
    int64_t *table = self->measure ? symbols + self->symbol_count : NULL;
    const npy_intp *sizes = table ? (const npy_intp *)(table + TABLE_SHAPES) : NULL;
    Py_ssize_t tensor = 0, scalar = 0;
    PyObject *results = NULL;
    int64_t recorded = recorder->is_on ? recorder->begin(RECORD_PROGRAM, callable, NULL) : -1;
    if (table && measure(self, args, symbols, table) < 0) goto done;
    for (Py_ssize_t i = 0; i < given; i++) {
        Spec *spec = &self->arguments[i];
        if (spec->kind == ARGUMENT_TENSOR) {
            const npy_intp *shape = table ? sizes : spec->shape;
            inputs[tensor] = tensor_data(self, i, args[i], spec, shape, &held[tensor]);
            if (!inputs[tensor++]) goto done;
            if (table) sizes += spec->rank;
        } else if (scalar_value(self, i, args[i], spec->kind, &scalars[scalar++]) < 0) {
            goto done;
        }
    }
    for (Py_ssize_t i = 0; i < self->output_count; i++) {
        Spec *spec = &self->outputs[i];
        arrays[i] = new_output(spec, table ? sizes : spec->shape);
        if (!arrays[i]) goto done;
        outputs[i] = PyArray_DATA((PyArrayObject *)arrays[i]);
        if (table) sizes += spec->rank;
    }
    if (execute(self, inputs, outputs, scalars, table, recorded) == 0)
        results = collect_results(&self->results, args, arrays, held);
done:
    for (Py_ssize_t i = 0; i < self->tensor_count; i++) Py_XDECREF(held[i]);
    for (Py_ssize_t i = 0; i < self->output_count; i++) Py_XDECREF(arrays[i]);
    if (memory != small) PyMem_Free(memory);
    if (recorded >= 0) recorder->end(recorded);
    return results;
}

#include "turns.h"

/* ---- construction ---- */

/* (dtype or kind, shape, byte strides, any_strides) or an integer kind; -1 for symbolic sizes, the
 * least number for symbolic strides. */
static int read_spec(PyObject *given, Spec *spec) {
    if (PyLong_Check(given)) {
        spec->kind = (int)PyLong_AsLong(given);
        return 0;
    }
    PyObject *dtype, *shape, *strides;
    int any;
    if (!PyArg_ParseTuple(given, "OO!O!p", &dtype, &PyTuple_Type, &shape, &PyTuple_Type, &strides,
                          &any))
        return -1;
    if (!PyArray_DescrConverter(dtype, &spec->dtype)) return -1;
    spec->kind = ARGUMENT_TENSOR;
    spec->any_strides = any;
    spec->rank = (int)PyTuple_GET_SIZE(shape);
    spec->shape = PyMem_Malloc(sizeof(npy_intp) * (size_t)(2 * spec->rank + 1));
    if (!spec->shape) return PyErr_NoMemory(), -1;
    for (int d = 0; d < spec->rank; d++) {
        spec->shape[d] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, d));
        spec->shape[d + spec->rank] = PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, d));
    }
    return PyErr_Occurred() ? -1 : 0;
}

static Spec *read_specs(PyObject *given, Py_ssize_t *count) {
    *count = PyTuple_GET_SIZE(given);
    Spec *specs = PyMem_Calloc((size_t)*count + 1, sizeof(Spec));
    if (!specs) return (Spec *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < *count; i++)
        if (read_spec(PyTuple_GET_ITEM(given, i), &specs[i]) < 0) {
            clear_specs(specs, *count);
            return NULL;
        }
    return specs;
}

/* Which of the tensors each result is that the kernels write to. */
static void find_written(ProgramObject *self) {
    for (Py_ssize_t i = 0; i < self->results.count; i++) {
        Result *result = &self->results.items[i];
        for (int j = 0; result->kind == RESULT_WRITTEN && j < result->position; j++)
            result->tensor += self->arguments[j].kind == ARGUMENT_TENSOR;
    }
}

/* (argument, dimension or -1, low, high) of each symbol; the arguments are known. */
static int read_symbols(ProgramObject *self, PyObject *given) {
    self->symbol_count = PyTuple_GET_SIZE(given);
    self->symbols = PyMem_Calloc((size_t)self->symbol_count + 1, sizeof(Symbol));
    if (!self->symbols) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < self->symbol_count; i++) {
        Symbol *symbol = &self->symbols[i];
        long long low, high;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(given, i), "niLL", &symbol->argument, &symbol->dim,
                              &low, &high))
            return -1;
        symbol->low = low;
        symbol->high = high;
        int exists = symbol->argument >= 0 && symbol->argument < self->argument_count;
        const Spec *spec = exists ? &self->arguments[symbol->argument] : NULL;
        if (!spec || (symbol->dim < 0 ? spec->kind != ARGUMENT_INTEGER
                                      : spec->kind != ARGUMENT_TENSOR || symbol->dim >= spec->rank)) {
            PyErr_SetString(PyExc_ValueError, "a symbol names an argument that does not show it");
            return -1;
        }
    }
    if (!self->symbol_count) return 0;
    self->table_size = TABLE_SHAPES;
    for (Py_ssize_t i = 0; i < self->argument_count; i++)
        self->table_size += self->arguments[i].rank;
    for (Py_ssize_t i = 0; i < self->output_count; i++) self->table_size += self->outputs[i].rank;
    return 0;
}

static int read_constants(ProgramObject *self, PyObject *given) {
    Py_ssize_t count = PyTuple_GET_SIZE(given);
    self->constants = Py_NewRef(given);
    self->constant_data = PyMem_Calloc((size_t)count + 1, sizeof(void *));
    if (!self->constant_data) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *array = PyTuple_GET_ITEM(given, i);
        if (!PyArray_Check(array) || !PyArray_ISCARRAY_RO((PyArrayObject *)array)) {
            PyErr_SetString(PyExc_TypeError, "constants must be contiguous arrays");
            return -1;
        }
        self->constant_data[i] = PyArray_DATA((PyArrayObject *)array);
    }
    return 0;
}

static int take_library(ProgramObject *self, PyObject *given) {
    self->library = Py_NewRef(given);
    self->run = (RunFunction)find_function(given, "run");
    if (!self->run) return -1;
    if (self->symbol_count) self->measure = (MeasureFunction)find_function(given, "measure");
    return self->symbol_count && !self->measure ? -1 : 0;
}

static PyObject *Program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", "library", "arguments", "outputs", "results", "constants",
                            "symbols", "workspace", "threads", "releases_gil", "blas", "products", "sums",
                            "fail", NULL};
    PyObject *name, *library, *arguments, *outputs, *results, *constants, *symbols, *fail;
    Py_ssize_t workspace;
    int threads, releases_gil;
    unsigned long long sgemm, dgemm, sgemv, dgemv, get_threads, set_threads, f32, f64;
    unsigned long long sums_f32, sums_f64;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UO!O!O!O!O!O!nip(KKKKKK)(KK)(KK)O:Program",
                                     names, &name, &Library_Type, &library, &PyTuple_Type,
                                     &arguments, &PyTuple_Type, &outputs,
                                     &PyTuple_Type, &results, &PyTuple_Type, &constants,
                                     &PyTuple_Type, &symbols, &workspace,
                                     &threads, &releases_gil, &sgemm, &dgemm, &sgemv, &dgemv,
                                     &get_threads, &set_threads, &f32, &f64, &sums_f32,
                                     &sums_f64, &fail))
        return NULL;
    ProgramObject *self = (ProgramObject *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = Program_call;
    self->name = Py_NewRef(name);
    self->fail = Py_NewRef(fail);
    self->workspace_size = (size_t)workspace;
    self->threads = threads;
    self->releases_gil = releases_gil;
    self->runtime.sgemm = (void *)(uintptr_t)sgemm;
    self->runtime.dgemm = (void *)(uintptr_t)dgemm;
    self->runtime.sgemv = (void *)(uintptr_t)sgemv;
    self->runtime.dgemv = (void *)(uintptr_t)dgemv;
    self->runtime.multiply_f32 = (void *)(uintptr_t)f32;
    self->runtime.multiply_f64 = (void *)(uintptr_t)f64;
    self->runtime.gemm_f32 = (void *)gemm_f32;
    self->runtime.gemm_f64 = (void *)gemm_f64;
    self->runtime.sum_columns_f32 = (void *)(uintptr_t)sums_f32;
    self->runtime.sum_columns_f64 = (void *)(uintptr_t)sums_f64;
    self->pool.get_threads = (int (*)(void))(uintptr_t)get_threads;
    self->pool.set_threads = (void (*)(int))(uintptr_t)set_threads;
    self->runtime.run_turns = (void *)(uintptr_t)run_turns;
    self->runtime.run_chunk = (void *)(uintptr_t)run_chunk;
    self->runtime.is_interrupted = is_interrupted;
    self->runtime.is_direct = &is_direct;
    self->runtime.is_silenced = self->pool.get_threads && self->pool.set_threads;
    self->arguments = read_specs(arguments, &self->argument_count);
    if (self->arguments) self->outputs = read_specs(outputs, &self->output_count);
    if (!self->outputs ||
        read_results(&self->results, results, self->argument_count, self->output_count) < 0 ||
        read_constants(self, constants) < 0 || read_symbols(self, symbols) < 0 ||
        take_library(self, library) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    find_written(self);
    for (Py_ssize_t i = 0; i < self->argument_count; i++)
        *(self->arguments[i].kind == ARGUMENT_TENSOR ? &self->tensor_count : &self->scalar_count) +=
            1;
    return (PyObject *)self;
}

static PyObject *Program_repr(ProgramObject *self) {
    return PyUnicode_FromFormat("<Program %U: %zd arguments, %zd results>", self->name,
                                self->argument_count, self->results.count);
}

static PyMemberDef Program_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ProgramObject, vectorcall), READONLY, NULL},
    {"name", T_OBJECT, offsetof(ProgramObject, name), READONLY, "Name of the graph."},
    {"threads", T_INT, offsetof(ProgramObject, threads), 0,
     "Size of the thread team; 0: what `set_team_size` says."},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef Program_methods[] = {
    {"turns", (PyCFunction)Program_turns, METH_VARARGS, "Run turns of a loop: see turns.h."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef Program_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject Program_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynajit.codegen._runtime.Program",
    .tp_basicsize = sizeof(ProgramObject),
    .tp_dealloc = (destructor)Program_dealloc,
    .tp_traverse = (traverseproc)Program_traverse,
    .tp_clear = (inquiry)Program_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(ProgramObject, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dictoffset = offsetof(ProgramObject, dictionary),
    .tp_members = Program_members,
    .tp_methods = Program_methods,
    .tp_getset = Program_getset,
    .tp_new = Program_new,
    .tp_repr = (reprfunc)Program_repr,
    .tp_doc = "A compiled graph: call it with arrays and numbers, get a tuple of arrays.",
};

static PyObject *set_team_size(PyObject *module, PyObject *number) {
    long size = PyLong_AsLong(number);
    if (size == -1 && PyErr_Occurred()) return NULL;
    if (size < 1 || size > INT_MAX) {
        PyErr_SetString(PyExc_ValueError, "A team has at least one thread.");
        return NULL;
    }
    team_size = (int)size;
    Py_RETURN_NONE;
}

static PyObject *set_direct(PyObject *module, PyObject *given) {
    int truth = PyObject_IsTrue(given);
    if (truth < 0) return NULL;
    is_direct = truth;
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"trim", trim, METH_NOARGS, "Give cached output memory back to the system."},
    {"cached_bytes", cached, METH_NOARGS, "Bytes of output memory kept for reuse."},
    {"set_direct", set_direct, METH_O, "Say whether all convolutions are summed directly."},
    {"set_team_size", set_team_size, METH_O,
     "Size of the thread team of all programs that have none of their own."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_runtime",
    .m_doc = "Calls compiled programs.",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__runtime(void) {
    import_array();
    recorder = PyCapsule_Import(RECORDER_CAPSULE, 0);
    team = PyCapsule_Import(TEAM_CAPSULE, 0);
    if (!recorder || !team) return NULL;
    if (pthread_atfork(NULL, NULL, become_child)) return PyErr_NoMemory();
    if (PyType_Ready(&Block_Type) < 0 || PyType_Ready(&Program_Type) < 0) return NULL;
    /* Who owns the array owns the memory: the tape need not copy such a gradient. */
    if (PyDict_SetItemString(Block_Type.tp_dict, "serves_one_array", Py_True) < 0) return NULL;
    PyType_Modified(&Block_Type);
    PyObject *module = PyModule_Create(&module_definition);
    if (!module) return NULL;
    if (add_library(module) < 0 ||
        PyModule_AddObjectRef(module, "Program", (PyObject *)&Program_Type) < 0 ||
        PyModule_AddIntMacro(module, ARGUMENT_TENSOR) < 0 ||
        PyModule_AddIntMacro(module, ARGUMENT_BOOL) < 0 ||
        PyModule_AddIntMacro(module, ARGUMENT_INTEGER) < 0 ||
        PyModule_AddIntMacro(module, ARGUMENT_FLOATING) < 0 ||
        PyModule_AddIntMacro(module, RESULT_NEW) < 0 ||
        PyModule_AddIntMacro(module, RESULT_ARGUMENT) < 0 ||
        PyModule_AddIntMacro(module, RESULT_WRITTEN) < 0 ||
        PyModule_AddIntMacro(module, RESULT_OBJECT) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
