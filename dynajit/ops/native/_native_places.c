/* Elements read and written along one dim at positions that a tensor holds, in C: gather, scatter and
 * scatter_add of `ops.rows.indexing`, and scatter_reduce of `ops.rows.scatter_reductions`, in eager
 * execution.
 *
 * Contract: that of `_native_forms.c`: the bits of the rows' array functions, or NotImplemented for all
 * but arrays that lie row by row, with elements of 4 or 8 bytes, and positions that are within the dim.
 * Indices and sources may lie as they like (many are expanded): they are copied.
 * Where writes meet they are made in row-major order of the index.
 * Called by `eager._rows`; `tests/ops/test_native_places.py` compares.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <string.h>

#include "native_rows.h"

/* Where the entries of an index point to in an array: `at[n]` along `dim`, and as the entry lies itself
 * in the other dims, in which the index is no larger. */
typedef struct {
    PyArrayObject *index; /* row by row; to be released */
    const int64_t *at;
    npy_intp count;
    int rank, dim;
    npy_intp sizes[NPY_MAXDIMS]; /* of the index */
    npy_intp steps[NPY_MAXDIMS]; /* of the array, in elements */
} Places;

/* The array, if it lies row by row and has numbers of 4 or 8 bytes. */
static PyArrayObject *
plain(PyObject *object)
{
    if (!PyArray_CheckExact(object)) {
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    int fits = PyArray_ISCARRAY_RO(array) && PyTypeNum_ISNUMBER(PyArray_TYPE(array)) &&
               (PyArray_ITEMSIZE(array) == 4 || PyArray_ITEMSIZE(array) == 8);
    return fits ? array : NULL;
}

/* The array, or a copy, row by row. */
static PyArrayObject *
row_by_row(PyArrayObject *array)
{
    if (PyArray_ISCARRAY_RO(array)) {
        Py_INCREF(array);
        return array;
    }
    return (PyArrayObject *)PyArray_NewCopy(array, NPY_CORDER);
}

/* 0 where others are to be asked: nothing is to be released then. */
static int
read_places(PyArrayObject *x, PyObject *object, PyObject *dim, Places *places)
{
    if (!PyArray_CheckExact(object) || !PyLong_CheckExact(dim)) {
        return 0;
    }
    PyArrayObject *index = (PyArrayObject *)object;
    int overflow, rank = places->rank = PyArray_NDIM(x);
    long along = PyLong_AsLongAndOverflow(dim, &overflow);
    if (overflow || along < 0 || along >= rank || PyArray_NDIM(index) != rank ||
        PyArray_TYPE(index) != NPY_INT64 || !PyArray_ISNOTSWAPPED(index)) {
        return 0;
    }
    places->dim = (int)along;
    places->count = PyArray_SIZE(index);
    npy_intp step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        places->sizes[d] = PyArray_DIM(index, d);
        places->steps[d] = step;
        step *= PyArray_DIM(x, d);
        if (d != places->dim && places->sizes[d] > PyArray_DIM(x, d)) {
            return 0;
        }
    }
    places->index = row_by_row(index);
    if (places->index == NULL) {
        PyErr_Clear();
        return 0;
    }
    places->at = PyArray_DATA(places->index);
    npy_intp size = PyArray_DIM(x, places->dim);
    for (npy_intp n = 0; n < places->count; n++) {
        if (places->at[n] < 0 || places->at[n] >= size) {
            Py_DECREF(places->index);
            return 0;
        }
    }
    return 1;
}

/* The statement for each entry n and the place of its element. Entries that differ in the last dim
 * alone are a row: there the other dims are looked at once. */
#define FOR_PLACES(p, STATEMENT)                                                                   \
    do {                                                                                           \
        const int last_ = (p)->rank - 1;                                                           \
        const npy_intp row_ = (p)->sizes[last_], along_ = (p)->steps[(p)->dim];                    \
        const npy_intp next_ = last_ == (p)->dim ? 0 : 1;                                          \
        npy_intp at_[NPY_MAXDIMS] = {0}, base_ = 0;                                                \
        for (npy_intp n = 0; n < (p)->count;) {                                                    \
            for (npy_intp i_ = 0; i_ < row_; i_++, n++) {                                          \
                const npy_intp place = base_ + i_ * next_ + (p)->at[n] * along_;                   \
                STATEMENT;                                                                         \
            }                                                                                      \
            for (int d_ = last_ - 1; d_ >= 0; d_--) {                                              \
                const npy_intp step_ = d_ == (p)->dim ? 0 : (p)->steps[d_];                        \
                base_ += step_;                                                                    \
                if (++at_[d_] < (p)->sizes[d_]) break;                                             \
                base_ -= step_ * (p)->sizes[d_];                                                   \
                at_[d_] = 0;                                                                       \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#define TAKE(T)                                                                                    \
    static void take_##T(const Places *p, const void *from, void *to)                              \
    {                                                                                              \
        const T *x = from;                                                                         \
        T *result = to;                                                                            \
        FOR_PLACES(p, result[n] = x[place]);                                                       \
    }                                                                                              \
                                                                                                   \
    static void put_##T(const Places *p, const void *from, void *to)                               \
    {                                                                                              \
        const T *source = from;                                                                    \
        T *result = to;                                                                            \
        FOR_PLACES(p, result[place] = source[n]);                                                  \
    }
TAKE(uint32_t)
TAKE(uint64_t)

/* What is at a place, x, becomes a number of it and of what is written there, y. */
#define COMBINE(NAME, T, NUMBER)                                                                   \
    static void NAME##_##T(const Places *p, const void *from, void *to)                            \
    {                                                                                              \
        const T *source = from;                                                                    \
        T *result = to;                                                                            \
        FOR_PLACES(p, const T x = result[place]; const T y = source[n]; result[place] = NUMBER);   \
    }
/* Integers wrap: they are added and multiplied without a sign. NaN is larger and smaller than any. */
#define COMBINE_ALL(T, UNSIGNED)                                                                   \
    COMBINE(add, T, (T)((UNSIGNED)x + (UNSIGNED)y))                                                \
    COMBINE(prod, T, (T)((UNSIGNED)x * (UNSIGNED)y))                                               \
    COMBINE(amax, T, y > x || y != y ? y : x)                                                      \
    COMBINE(amin, T, y < x || y != y ? y : x)
COMBINE_ALL(float, float)
COMBINE_ALL(double, double)
COMBINE_ALL(int64_t, uint64_t)

typedef void (*Loop)(const Places *, const void *, void *);

enum { SET = -1, ADD, PROD, AMAX, AMIN };
static const char *const mode_names[] = {"add", "prod", "amax", "amin"};
static const Loop loops[][3] = {
    {add_float, add_double, add_int64_t},
    {prod_float, prod_double, prod_int64_t},
    {amax_float, amax_double, amax_int64_t},
    {amin_float, amin_double, amin_int64_t},
};

static void
run(Loop loop, const Places *places, PyArrayObject *from, PyArrayObject *to)
{
    NPY_BEGIN_THREADS_DEF;
    NPY_BEGIN_THREADS_THRESHOLDED(places->count);
    loop(places, PyArray_DATA(from), PyArray_DATA(to));
    NPY_END_THREADS;
}

/* gather(x, index, dim) */
static PyObject *
native_gather(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Places places;
    PyArrayObject *x = given == 3 ? plain(args[0]) : NULL;
    if (x == NULL || !read_places(x, args[1], args[2], &places)) {
        DECLINE;
    }
    PyArrayObject *result =
        (PyArrayObject *)PyArray_SimpleNew(places.rank, places.sizes, PyArray_TYPE(x));
    if (result != NULL) {
        run(PyArray_ITEMSIZE(x) == 4 ? take_uint32_t : take_uint64_t, &places, x, result);
    }
    Py_DECREF(places.index);
    return (PyObject *)result;
}

/* A copy of x, with the elements of source put at the places of the index, or combined with it. */
static PyObject *
scattered(PyObject *const *args, int mode)
{
    Places places;
    PyArrayObject *x = plain(args[0]);
    PyArrayObject *given = PyArray_CheckExact(args[2]) ? (PyArrayObject *)args[2] : NULL;
    if (x == NULL || given == NULL || PyArray_TYPE(given) != PyArray_TYPE(x) ||
        !PyArray_ISNOTSWAPPED(given) || !PyArray_Check(args[1]) ||
        !PyArray_SAMESHAPE(given, (PyArrayObject *)args[1])) {
        DECLINE;
    }
    int type = PyArray_TYPE(x);
    int dtype = type == NPY_FLOAT ? 0 : type == NPY_DOUBLE ? 1 : type == NPY_INT64 ? 2 : -1;
    Loop loop = PyArray_ITEMSIZE(x) == 4 ? put_uint32_t : put_uint64_t;
    if (mode != SET) {
        if (dtype < 0) {
            DECLINE;
        }
        loop = loops[mode][dtype];
    }
    if (!read_places(x, args[1], args[3], &places)) {
        DECLINE;
    }
    PyArrayObject *source = row_by_row(given), *result = NULL;
    if (source != NULL) {
        result = (PyArrayObject *)PyArray_NewCopy(x, NPY_CORDER);
    }
    if (result != NULL) {
        run(loop, &places, source, result);
    }
    Py_XDECREF(source);
    Py_DECREF(places.index);
    return (PyObject *)result;
}

/* scatter(x, index, source, dim) */
static PyObject *
native_scatter(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    if (given != 4) {
        DECLINE;
    }
    return scattered(args, SET);
}

/* scatter_add(x, index, source, dim) */
static PyObject *
native_scatter_add(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    if (given != 4) {
        DECLINE;
    }
    return scattered(args, ADD);
}

/* scatter_reduce(x, index, source, dim, mode) */
static PyObject *
native_scatter_reduce(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    for (int mode = PROD; given == 5 && PyUnicode_Check(args[4]) && mode <= AMIN; mode++) {
        if (PyUnicode_CompareWithASCIIString(args[4], mode_names[mode]) == 0) {
            return scattered(args, mode);
        }
    }
    DECLINE;
}

/* ---- the module ----------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    METHOD("gather", native_gather, "gather(x, index, dim) -> array or NotImplemented."),
    METHOD("scatter", native_scatter, "scatter(x, index, source, dim) -> array or NotImplemented."),
    METHOD("scatter_add", native_scatter_add,
           "scatter_add(x, index, source, dim) -> array or NotImplemented."),
    METHOD("scatter_reduce", native_scatter_reduce,
           "scatter_reduce(x, index, source, dim, mode) -> array or NotImplemented."),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.ops.native._native_places",
    .m_doc = "Gathers and scatters along a dim of arrays of NumPy, in C.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__native_places(void)
{
    import_array();
    return PyModule_Create(&definition);
}
