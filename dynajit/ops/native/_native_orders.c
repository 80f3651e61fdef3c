/* Orders, running sums and triangles of small arrays, in C: rows of `ops.rows.scans`, `ops.rows.reductions` and
 * `ops.rows.movement` in eager execution.
 *
 * Contract: that of `_native_forms.c`: the bits of the rows' array functions, or NotImplemented for all
 * but float32, float64 and int64 that lie row by row, not empty, and not so large that NumPy's loops
 * are worth what it takes to reach them. Triangles are of any size and of every dtype.
 * Called by `eager._rows`; `tests/ops/test_native_orders.py` compares.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native_rows.h"

enum {
    MOST_ELEMENTS = 1 << 14, /* of an array */
    MOST_SEARCHED = 1 << 12, /* of one in which extrema are found */
    MOST_ORDERED = 1 << 10,  /* of a line that is sorted */
    RUN = 16,                /* sorted by insertion, before runs are merged */
};

/* The lines of an array along one dim: `outer` blocks of `size` rows of `inner` elements. */
typedef struct {
    PyArrayObject *array;
    npy_intp outer, size, inner;
    int dim;
} Lines;

/* An integer in [low, high], or `otherwise`. */
static npy_intp
integer_within(PyObject *object, npy_intp low, npy_intp high, npy_intp otherwise)
{
    int overflow = 1;
    long long value =
        PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0;
    return overflow || value < low || value > high ? otherwise : (npy_intp)value;
}

/* 0 where others are to be asked. */
static int
read_lines(PyObject *object, PyObject *dim, Lines *lines)
{
    if (!PyArray_CheckExact(object)) {
        return 0;
    }
    PyArrayObject *x = lines->array = (PyArrayObject *)object;
    int type = PyArray_TYPE(x), rank = PyArray_NDIM(x);
    npy_intp count = PyArray_SIZE(x);
    lines->dim = (int)integer_within(dim, 0, rank - 1, -1);
    if (lines->dim < 0 || (type != NPY_FLOAT && type != NPY_DOUBLE && type != NPY_INT64) ||
        !PyArray_ISCARRAY_RO(x) || count < 1 || count > MOST_ELEMENTS) {
        return 0;
    }
    lines->outer = lines->inner = 1;
    lines->size = PyArray_DIM(x, lines->dim);
    for (int d = 0; d < rank; d++) {
        lines->outer *= d < lines->dim ? PyArray_DIM(x, d) : 1;
        lines->inner *= d > lines->dim ? PyArray_DIM(x, d) : 1;
    }
    return 1;
}

/* A new array with the shape of x but for `count` in place of `dim`. */
static PyArrayObject *
new_with_size(const Lines *lines, npy_intp count, int type)
{
    npy_intp sizes[NPY_MAXDIMS];
    int rank = PyArray_NDIM(lines->array);
    memcpy(sizes, PyArray_DIMS(lines->array), (size_t)rank * sizeof *sizes);
    sizes[lines->dim] = count;
    return (PyArrayObject *)PyArray_SimpleNew(rank, sizes, type);
}

/* The statement for the dtype of an array; S names the functions for it. */
#define FOR_DTYPE(array, STATEMENT)                                                                \
    switch (PyArray_TYPE(array)) {                                                                 \
    case NPY_FLOAT: STATEMENT(float, f32); break;                                                  \
    case NPY_DOUBLE: STATEMENT(double, f64); break;                                                \
    default: STATEMENT(int64_t, i64); break;                                                       \
    }

/* NaN is the largest. Of integers, and of equal numbers, none is less. */
#define IS_LESS(a, b) ((a) < (b) || ((b) != (b) && (a) == (a)))

#define LOOPS(T, SUM, S)                                                                           \
    typedef struct {                                                                               \
        T value;                                                                                   \
        int32_t position;                                                                          \
    } Item_##S;                                                                                    \
                                                                                                   \
    static int precedes_##S(T a, T b, int descending)                                              \
    {                                                                                              \
        return descending ? IS_LESS(b, a) : IS_LESS(a, b);                                         \
    }                                                                                              \
                                                                                                   \
    static void insert_##S(Item_##S *items, npy_intp count, int descending)                        \
    {                                                                                              \
        for (npy_intp i = 1; i < count; i++) {                                                     \
            const Item_##S item = items[i];                                                        \
            npy_intp k = i;                                                                        \
            for (; k > 0 && precedes_##S(item.value, items[k - 1].value, descending); k--) {       \
                items[k] = items[k - 1];                                                           \
            }                                                                                      \
            items[k] = item;                                                                       \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void merge_##S(const Item_##S *from, npy_intp middle, npy_intp count, Item_##S *to,     \
                          int descending)                                                          \
    {                                                                                              \
        npy_intp i = 0, k = middle;                                                                \
        for (npy_intp n = 0; n < count; n++) {                                                     \
            const int second = i == middle || (k < count && precedes_##S(from[k].value,            \
                                                                 from[i].value, descending));      \
            to[n] = from[second ? k++ : i++];                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* The items in order, equal ones in the order they had; in one of the two halves of `items`. */ \
    static const Item_##S *order_##S(Item_##S *items, npy_intp size, int descending)               \
    {                                                                                              \
        Item_##S *from = items, *to = items + size;                                                \
        for (npy_intp i = 0; i < size; i += RUN) {                                                 \
            insert_##S(from + i, size - i < RUN ? size - i : RUN, descending);                     \
        }                                                                                          \
        for (npy_intp run = RUN; run < size; run *= 2) {                                           \
            for (npy_intp i = 0; i < size; i += 2 * run) {                                         \
                npy_intp count = size - i < 2 * run ? size - i : 2 * run;                          \
                merge_##S(from + i, count < run ? count : run, count, to + i, descending);         \
            }                                                                                      \
            Item_##S *sorted = to;                                                                 \
            to = from;                                                                             \
            from = sorted;                                                                         \
        }                                                                                          \
        return from;                                                                               \
    }                                                                                              \
                                                                                                   \
    static int argsort_##S(const Lines *lines, int64_t *result, int descending, npy_intp start,    \
                           npy_intp stop)                                                          \
    {                                                                                              \
        const T *x = PyArray_DATA(lines->array);                                                   \
        Item_##S *items = malloc(2 * (size_t)lines->size * sizeof *items);                         \
        for (npy_intp o = 0; items != NULL && o < lines->outer; o++) {                             \
            for (npy_intp i = 0; i < lines->inner; i++) {                                          \
                for (npy_intp k = 0; k < lines->size; k++) {                                       \
                    items[k] = (Item_##S){x[(o * lines->size + k) * lines->inner + i], (int32_t)k}; \
                }                                                                                  \
                const Item_##S *ordered = order_##S(items, lines->size, descending);               \
                for (npy_intp k = start; k < stop; k++) {                                          \
                    result[(o * (stop - start) + k - start) * lines->inner + i] =                  \
                        ordered[k].position;                                                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        free(items);                                                                               \
        return items != NULL;                                                                      \
    }                                                                                              \
                                                                                                   \
    /* The first of the largest (or smallest) elements, or the first NaN. */                       \
    static void extremum_##S(const Lines *lines, int64_t *result, int is_smallest)                 \
    {                                                                                              \
        const T *x = PyArray_DATA(lines->array);                                                   \
        for (npy_intp o = 0; o < lines->outer; o++, x += lines->size * lines->inner) {             \
            for (npy_intp i = 0; i < lines->inner; i++) {                                          \
                npy_intp at = 0;                                                                   \
                T best = x[i];                                                                     \
                for (npy_intp k = 1; k < lines->size && best == best; k++) {                       \
                    const T other = x[k * lines->inner + i];                                       \
                    if (other != other || (is_smallest ? other < best : other > best)) {           \
                        best = other;                                                              \
                        at = k;                                                                    \
                    }                                                                              \
                }                                                                                  \
                *result++ = at;                                                                    \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void cumsum_##S(const Lines *lines, T *result, int reverse)                             \
    {                                                                                              \
        const T *x = PyArray_DATA(lines->array);                                                   \
        const npy_intp last = (lines->size - 1) * lines->inner;                                    \
        const npy_intp step = reverse ? -lines->inner : lines->inner;                              \
        for (npy_intp o = 0; o < lines->outer; o++) {                                              \
            for (npy_intp i = 0; i < lines->inner; i++) {                                          \
                npy_intp at = o * lines->size * lines->inner + i + (reverse ? last : 0);           \
                SUM total = (SUM)x[at]; /* -0.0 stays */                                           \
                result[at] = (T)total;                                                             \
                for (npy_intp k = 1; k < lines->size; k++) {                                       \
                    at += step;                                                                    \
                    total += (SUM)x[at];                                                           \
                    result[at] = (T)total;                                                         \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

LOOPS(float, double, f32)
LOOPS(double, double, f64)
LOOPS(int64_t, uint64_t, i64) /* wraps */

/* argsort(x, dim, descending, start, stop) */
static PyObject *
native_argsort(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Lines lines;
    if (given != 5 || !read_lines(args[0], args[1], &lines) || lines.size > MOST_ORDERED ||
        !PyBool_Check(args[2])) {
        DECLINE;
    }
    npy_intp stop =
        args[4] == Py_None ? lines.size : integer_within(args[4], 0, lines.size, -1);
    npy_intp start = integer_within(args[3], 0, stop, -1);
    if (start < 0) {
        DECLINE;
    }
    PyArrayObject *result = new_with_size(&lines, stop - start, NPY_INT64);
    if (result == NULL) {
        return NULL;
    }
    int64_t *to = PyArray_DATA(result);
    int is_done = 0;
#define STATEMENT(T, S) is_done = argsort_##S(&lines, to, args[2] == Py_True, start, stop)
    FOR_DTYPE(lines.array, STATEMENT)
#undef STATEMENT
    if (!is_done) {
        Py_DECREF(result);
        return PyErr_NoMemory();
    }
    return (PyObject *)result;
}

/* argmax or argmin(x, dims, keepdim), of one dim */
static PyObject *
position_of(PyObject *const *args, Py_ssize_t given, int is_smallest)
{
    Lines lines;
    if (given != 3 || !PyTuple_CheckExact(args[1]) || PyTuple_GET_SIZE(args[1]) != 1 ||
        !read_lines(args[0], PyTuple_GET_ITEM(args[1], 0), &lines) || !PyBool_Check(args[2]) ||
        PyArray_SIZE(lines.array) > MOST_SEARCHED) {
        DECLINE;
    }
    npy_intp sizes[NPY_MAXDIMS];
    int rank = 0;
    for (int d = 0; d < PyArray_NDIM(lines.array); d++) {
        if (d != lines.dim) {
            sizes[rank++] = PyArray_DIM(lines.array, d);
        }
        else if (args[2] == Py_True) {
            sizes[rank++] = 1;
        }
    }
    PyArrayObject *result = (PyArrayObject *)PyArray_SimpleNew(rank, sizes, NPY_INT64);
    if (result != NULL) {
#define STATEMENT(T, S) extremum_##S(&lines, PyArray_DATA(result), is_smallest)
        FOR_DTYPE(lines.array, STATEMENT)
#undef STATEMENT
    }
    return (PyObject *)result;
}

static PyObject *
native_argmax(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    return position_of(args, given, 0);
}

static PyObject *
native_argmin(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    return position_of(args, given, 1);
}

/* cumsum(x, dim, reverse) */
static PyObject *
native_cumsum(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Lines lines;
    if (given != 3 || !read_lines(args[0], args[1], &lines) || !PyBool_Check(args[2])) {
        DECLINE;
    }
    PyArrayObject *result = new_with_size(&lines, lines.size, PyArray_TYPE(lines.array));
    if (result != NULL) {
#define STATEMENT(T, S) cumsum_##S(&lines, PyArray_DATA(result), args[2] == Py_True)
        FOR_DTYPE(lines.array, STATEMENT)
#undef STATEMENT
    }
    return (PyObject *)result;
}

/* tril or triu(x, diagonal): of each row the elements in front of a column, or from it on. */
static PyObject *
triangle(PyObject *const *args, Py_ssize_t given, int is_lower)
{
    PyArrayObject *x =
        given == 2 && PyArray_CheckExact(args[0]) ? (PyArrayObject *)args[0] : NULL;
    npy_intp none = PY_SSIZE_T_MIN;
    npy_intp diagonal = x == NULL ? none : integer_within(args[1], -INT32_MAX, INT32_MAX, none);
    if (diagonal == none || PyArray_NDIM(x) < 2 || !PyArray_ISCARRAY_RO(x) ||
        PyArray_SIZE(x) == 0 || PyDataType_REFCHK(PyArray_DESCR(x))) {
        DECLINE;
    }
    PyArrayObject *result = (PyArrayObject *)PyArray_NewLikeArray(x, NPY_CORDER, NULL, 0);
    if (result == NULL) {
        return NULL;
    }
    int rank = PyArray_NDIM(x);
    npy_intp rows = PyArray_DIM(x, rank - 2), columns = PyArray_DIM(x, rank - 1);
    size_t width = (size_t)PyArray_ITEMSIZE(x), row_bytes = (size_t)columns * width;
    const char *from = PyArray_BYTES(x);
    char *to = PyArray_BYTES(result);
    npy_intp count = PyArray_SIZE(x) / columns;
    NPY_BEGIN_THREADS_DEF;
    NPY_BEGIN_THREADS_THRESHOLDED(PyArray_SIZE(x));
    for (npy_intp i = 0; i < count; i++, from += row_bytes, to += row_bytes) {
        npy_intp column = i % rows + diagonal + (is_lower ? 1 : 0);
        column = column < 0 ? 0 : column > columns ? columns : column;
        size_t middle = (size_t)column * width, begin = is_lower ? 0 : middle;
        size_t end = is_lower ? middle : row_bytes;
        memset(to, 0, begin);
        memcpy(to + begin, from + begin, end - begin);
        memset(to + end, 0, row_bytes - end);
    }
    NPY_END_THREADS;
    return (PyObject *)result;
}

static PyObject *
native_tril(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    return triangle(args, given, 1);
}

static PyObject *
native_triu(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    return triangle(args, given, 0);
}

/* ---- the module ----------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    METHOD("argsort", native_argsort,
           "argsort(x, dim, descending, start, stop) -> array or NotImplemented."),
    METHOD("argmax", native_argmax, "argmax(x, dim, keepdim) -> array or NotImplemented."),
    METHOD("argmin", native_argmin, "argmin(x, dim, keepdim) -> array or NotImplemented."),
    METHOD("cumsum", native_cumsum, "cumsum(x, dim, reverse) -> array or NotImplemented."),
    METHOD("tril", native_tril, "tril(x, diagonal) -> array or NotImplemented."),
    METHOD("triu", native_triu, "triu(x, diagonal) -> array or NotImplemented."),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.ops.native._native_orders",
    .m_doc = "Orders, running sums and triangles on arrays of NumPy, in C.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__native_orders(void)
{
    import_array();
    return PyModule_Create(&definition);
}
