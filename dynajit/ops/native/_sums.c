/* Sums of arrays along their first or their last dims, in PyTorch's order.
 *
 * Contract: `sum_of(x, dim, keepdim)` is the sum of an array of float32 or float64 without gaps along
 * the dims of a sorted tuple, or NotImplemented for all others: gaps, dims that in memory lie between
 * others, results whose dims would change places, nothing to add. What is added in which order follows
 * from where elements lie: a matrix and its transpose have the same sums. `add_reduce` is numpy.add.reduce (as called by eager/_rows.c: five arguments by place), and the
 * former where that is known. `column_addresses()` is for generated C (`codegen.run.blueprints`).
 * Errors of sums of n numbers grow with log n. Called by `ops.rows.reductions`.
 * Source: PyTorch's sum of a CPU, for which the order of one thread is taken.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>

typedef void (*Add)(const void *, int64_t, int64_t, int64_t, void *);
typedef void (*SumColumns)(const void *, int64_t, int64_t, void *);

#define DECLARED(SET)                                                                               \
    void add_f32_##SET(const void *, int64_t, int64_t, int64_t, void *);                            \
    void add_f64_##SET(const void *, int64_t, int64_t, int64_t, void *);                            \
    void sum_columns_f32_##SET(const void *, int64_t, int64_t, void *);                             \
    void sum_columns_f64_##SET(const void *, int64_t, int64_t, void *);
DECLARED(plain)
#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_AVX2 1
DECLARED(avx2)
#endif
/* For this CPU. */
static Add add_floats = add_f32_plain, add_doubles = add_f64_plain;
static SumColumns sum_columns[] = {sum_columns_f32_plain, sum_columns_f64_plain};
enum {
    MOST_DIMS = 32,
    QUIET_SIZE = 1 << 17, /* elements for whose sum others may wait for the interpreter: 10 us */
};

/* An array as rows before, numbers that are added, and columns behind them. */
typedef struct {
    int64_t outer, size, inner;
    int dims;
    npy_intp shape[MOST_DIMS]; /* of the result */
} Cut;

/* The dims with more than one place, from the outermost in memory on; -1 where there are gaps. */
static int find_order(PyArrayObject *x, int *order) {
    int count = 0;
    for (int d = 0; d < PyArray_NDIM(x); d++) {
        if (PyArray_DIM(x, d) == 1) continue;
        int place = count++;
        for (; place && PyArray_STRIDE(x, order[place - 1]) < PyArray_STRIDE(x, d); place--)
            order[place] = order[place - 1];
        order[place] = d;
    }
    npy_intp stride = PyArray_ITEMSIZE(x);
    for (int place = count - 1; place >= 0; stride *= PyArray_DIM(x, order[place]), place--)
        if (PyArray_STRIDE(x, order[place]) != stride) return -1;
    return count;
}

/* Sets `cut` for the dims of `dim`, a tuple; 0 where they do not lie side by side in memory, or not
 * at one end, or where others would change places. Dims of size 1 may be anywhere. */
static int find_cut(PyArrayObject *x, PyObject *dim, int keeps, Cut *cut) {
    const int rank = PyArray_NDIM(x);
    char is_reduced[MOST_DIMS] = {0};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dim); i++) {
        const long d = PyLong_AsLong(PyTuple_GET_ITEM(dim, i));
        if (d < 0 || d >= rank) return 0;
        is_reduced[d] = 1;
    }
    *cut = (Cut){1, 1, 1, 0, {0}};
    for (int d = 0; d < rank; d++)
        if (!is_reduced[d] || keeps) cut->shape[cut->dims++] = is_reduced[d] ? 1 : PyArray_DIM(x, d);
    int order[MOST_DIMS], last = -1;
    const int count = find_order(x, order);
    if (count < 0) return 0;
    for (int place = 0; place < count; place++) {
        const int d = order[place];
        const npy_intp size = PyArray_DIM(x, d);
        if (is_reduced[d] && cut->inner > 1) return 0;
        if (!is_reduced[d] && d < last) return 0;
        if (!is_reduced[d]) last = d;
        if (is_reduced[d]) cut->size *= size;
        else if (cut->size > 1) cut->inner *= size;
        else cut->outer *= size;
    }
    return cut->size > 1 && (cut->outer == 1 || cut->inner == 1);
}

/* A new array; NULL without an exception where this is not known. */
static PyObject *find_sum(PyObject *given, PyObject *dim, int keeps) {
    PyArrayObject *x = (PyArrayObject *)given;
    Cut cut;
    if (!PyArray_CheckExact(given) || !PyTuple_CheckExact(dim)) return NULL;
    const int type = PyArray_TYPE(x);
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || !PyArray_ISBEHAVED_RO(x)) return NULL;
    if (PyArray_NDIM(x) > MOST_DIMS || PyArray_SIZE(x) == 0) return NULL;
    if (!find_cut(x, dim, keeps, &cut)) return PyErr_Clear(), NULL;
    PyObject *result = PyArray_EMPTY(cut.dims, cut.shape, type, 0);
    if (!result) return NULL;
    const void *from = PyArray_DATA(x);
    void *to = PyArray_DATA((PyArrayObject *)result);
    const Add add = type == NPY_FLOAT ? add_floats : add_doubles;
    PyThreadState *state = PyArray_SIZE(x) > QUIET_SIZE ? PyEval_SaveThread() : NULL;
    add(from, cut.outer, cut.size, cut.inner, to);
    if (state) PyEval_RestoreThread(state);
    return result;
}

static PyObject *sum_of(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "sum_of takes an array, a tuple of dims and keepdim");
        return NULL;
    }
    PyObject *result = find_sum(arguments[0], arguments[1], arguments[2] == Py_True);
    if (result || PyErr_Occurred()) return result;
    Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *numpy_reduce;

static PyObject *add_reduce(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count == 5 && arguments[2] == Py_None && arguments[3] == Py_None) {
        PyObject *result = find_sum(arguments[0], arguments[1], arguments[4] == Py_True);
        if (result || PyErr_Occurred()) return result;
    }
    return PyObject_Vectorcall(numpy_reduce, arguments, count, NULL);
}

static PyObject *column_addresses(PyObject *module, PyObject *unused) {
    return Py_BuildValue("(KK)", (unsigned long long)(uintptr_t)sum_columns[0],
                         (unsigned long long)(uintptr_t)sum_columns[1]);
}

static PyMethodDef methods[] = {
    {"column_addresses", column_addresses, METH_NOARGS,
     "Addresses of `sum_columns` of sum_functions.h, float32 and float64, for this CPU."},
    {"sum_of", (PyCFunction)(void (*)(void))sum_of, METH_FASTCALL,
     "The sum of (x, dim, keepdim), or NotImplemented."},
    {"add_reduce", (PyCFunction)(void (*)(void))add_reduce, METH_FASTCALL,
     "numpy.add.reduce of (array, axis, dtype, out, keepdims)."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dynajit.ops.native._sums", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__sums(void) {
    import_array();
#ifdef HAS_AVX2
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
        add_floats = add_f32_avx2, add_doubles = add_f64_avx2;
        sum_columns[0] = sum_columns_f32_avx2, sum_columns[1] = sum_columns_f64_avx2;
    }
#endif
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *add = numpy ? PyObject_GetAttrString(numpy, "add") : NULL;
    numpy_reduce = add ? PyObject_GetAttrString(add, "reduce") : NULL;
    Py_XDECREF(numpy);
    Py_XDECREF(add);
    return numpy_reduce ? PyModule_Create(&definition) : NULL;
}
