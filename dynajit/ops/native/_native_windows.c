/* Pools over two dims, and their gradients, in C: rows of `ops.rows.networks.windows` in eager execution.
 *
 * Contract: that of `_native_forms.c`: the bits of `ops.rows.networks.window_forms` and of the derivatives' rows, or
 * NotImplemented for all but float32 and float64 that lie row by row, not empty, under windows over
 * two dims of which each holds an element. Sums go through the positions of a window in row-major order,
 * gradients of maxima through the windows; of zeros that differ in sign the first is the largest.
 * Called by `eager._rows` and `eager.tape.node`; `tests/ops/test_native_windows.py` compares.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <math.h>
#include <stdint.h>

#include "native_rows.h"

static PyObject *name_shape = NULL;

/* Windows over the last two dims of an array; `size` to `dilation` per dim, as of `windows.Geometry`. */
typedef struct {
    npy_intp planes, sizes[2], counts[2];
    npy_intp size[2], stride[2], before[2], after[2], dilation[2];
} Windows;

/* The outputs whose element `k` of the window along dim `d` lies within the input: [first, last). */
typedef struct {
    npy_intp first, last;
    npy_intp shift; /* input position of output 0's element */
} Span;

static Span
span_of(const Windows *w, int d, npy_intp k)
{
    npy_intp shift = k * w->dilation[d] - w->before[d], step = w->stride[d];
    npy_intp first = shift >= 0 ? 0 : (-shift + step - 1) / step;
    npy_intp room = w->sizes[d] - shift;
    npy_intp last = room <= 0 ? 0 : (room + step - 1) / step;
    last = last < w->counts[d] ? last : w->counts[d];
    return (Span){first, last < first ? first : last, shift};
}

static int
read_pair(PyObject *pair, npy_intp least, npy_intp *numbers)
{
    if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2) {
        return 0;
    }
    for (int d = 0; d < 2; d++) {
        PyObject *number = PyTuple_GET_ITEM(pair, d);
        numbers[d] = PyLong_CheckExact(number) ? PyLong_AsSsize_t(number) : -1;
        if (PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
        if (numbers[d] < least || numbers[d] > INT32_MAX) {
            return 0;
        }
    }
    return 1;
}

/* True if every window has an element along dim `d`. */
static int
are_filled(const Windows *w, int d)
{
    for (npy_intp i = 0; i < w->counts[d]; i++) {
        int inside = 0;
        for (npy_intp k = 0; k < w->size[d] && !inside; k++) {
            npy_intp at = i * w->stride[d] + k * w->dilation[d] - w->before[d];
            inside = at >= 0 && at < w->sizes[d];
        }
        if (!inside) {
            return 0;
        }
    }
    return 1;
}

/* (size, stride, before, after, dilation) for an input of these last two sizes; 0: not for C. */
static int
read_windows(PyObject *const *args, Windows *w)
{
    if (!read_pair(args[0], 1, w->size) || !read_pair(args[1], 1, w->stride) ||
        !read_pair(args[2], 0, w->before) || !read_pair(args[3], 0, w->after) ||
        !read_pair(args[4], 1, w->dilation)) {
        return 0;
    }
    for (int d = 0; d < 2; d++) {
        npy_intp span = w->dilation[d] * (w->size[d] - 1) + 1;
        npy_intp room = w->sizes[d] + w->before[d] + w->after[d] - span;
        if (room < 0) {
            return 0;
        }
        w->counts[d] = room / w->stride[d] + 1;
        if (!are_filled(w, d)) {
            return 0;
        }
    }
    return w->sizes[0] <= INT32_MAX / w->sizes[1]; /* places are 32 bits wide */
}

static PyArrayObject *
plain(PyObject *object)
{
    if (!PyArray_CheckExact(object)) {
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    int type = PyArray_TYPE(array);
    int fits = (type == NPY_FLOAT || type == NPY_DOUBLE) && PyArray_ISCARRAY_RO(array) &&
               PyArray_NDIM(array) >= 2 && PyArray_SIZE(array) > 0;
    return fits ? array : NULL;
}

/* The windows of an array by five arguments; 0: not for C. */
static int
windows_of(PyArrayObject *x, PyObject *const *args, Windows *w)
{
    int rank = PyArray_NDIM(x);
    w->sizes[0] = PyArray_DIM(x, rank - 2);
    w->sizes[1] = PyArray_DIM(x, rank - 1);
    w->planes = PyArray_SIZE(x) / (w->sizes[0] * w->sizes[1]);
    return read_windows(args, w);
}

/* A new array like `x` with two other last sizes. */
static PyArrayObject *
with_last_sizes(PyArrayObject *x, const npy_intp *last, int type)
{
    npy_intp sizes[NPY_MAXDIMS];
    int rank = PyArray_NDIM(x);
    memcpy(sizes, PyArray_DIMS(x), (size_t)rank * sizeof(npy_intp));
    sizes[rank - 2] = last[0];
    sizes[rank - 1] = last[1];
    return (PyArrayObject *)PyArray_SimpleNew(rank, sizes, type);
}

/* ---- loops over planes ---------------------------------------------------------------------- */

/* For each element of a window in turn, the lines of outputs that have it within the input. */
#define FOR_LINES(w)                                                                               \
    for (npy_intp k0 = 0; k0 < (w)->size[0]; k0++)                                                 \
        for (npy_intp k1 = 0; k1 < (w)->size[1]; k1++)                                             \
            for (Span down = span_of(w, 0, k0), along = span_of(w, 1, k1), *once = &down;          \
                 once != NULL; once = NULL)                                                        \
                for (npy_intp i = down.first; i < down.last; i++)

#define POOLS(T, I)                                                                                   \
    static void sum_pool_##T(const Windows *w, const T *x, T *result)                              \
    {                                                                                              \
        const npy_intp area = w->sizes[0] * w->sizes[1], outputs = w->counts[0] * w->counts[1];    \
        memset(result, 0, (size_t)(w->planes * outputs) * sizeof(T));                              \
        for (npy_intp p = 0; p < w->planes; p++, x += area, result += outputs) {                   \
            FOR_LINES(w) {                                                                         \
                const T *line = x + (i * w->stride[0] + down.shift) * w->sizes[1] + along.shift;   \
                T *to = result + i * w->counts[1];                                                 \
                for (npy_intp j = along.first; j < along.last; j++) to[j] += line[j * w->stride[1]];\
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void max_pool_##T(const Windows *w, const T *x, T *result)                              \
    {                                                                                              \
        const npy_intp area = w->sizes[0] * w->sizes[1], outputs = w->counts[0] * w->counts[1];    \
        for (npy_intp n = 0; n < w->planes * outputs; n++) result[n] = -(T)INFINITY;               \
        for (npy_intp p = 0; p < w->planes; p++, x += area, result += outputs) {                   \
            FOR_LINES(w) {                                                                         \
                const T *line = x + (i * w->stride[0] + down.shift) * w->sizes[1] + along.shift;   \
                T *to = result + i * w->counts[1];                                                 \
                for (npy_intp j = along.first; j < along.last; j++) {                              \
                    const T here = line[j * w->stride[1]], best = to[j];                           \
                    to[j] = (here > best) | (here != here) ? here : best; /* NaN stays */          \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* The largest elements of a line of windows, the first of equal ones or the first NaN: where    \
     * they lie in the plane, or their numbers in the windows. `best` and `found` have room for it. */ \
    static void choose_##T(const Windows *w, const T *x, npy_intp i, int is_place, T *best,        \
                           I *found)                                                               \
    {                                                                                              \
        for (npy_intp j = 0; j < w->counts[1]; j++) found[j] = -1;                                 \
        for (npy_intp j = 0; j < w->counts[1]; j++) best[j] = 0;                                   \
        for (npy_intp k0 = 0; k0 < w->size[0]; k0++) {                                             \
            const npy_intp row = i * w->stride[0] + k0 * w->dilation[0] - w->before[0];            \
            if (row < 0 || row >= w->sizes[0]) continue;                                           \
            for (npy_intp k1 = 0; k1 < w->size[1]; k1++) {                                         \
                const Span along = span_of(w, 1, k1);                                              \
                const T *line = x + row * w->sizes[1] + along.shift;                               \
                const I first = (I)(is_place ? row * w->sizes[1] + along.shift                     \
                                             : k0 * w->size[1] + k1);                              \
                const I step = (I)(is_place ? w->stride[1] : 0);                                   \
                for (npy_intp j = along.first; j < along.last; j++) {                              \
                    const T here = line[j * w->stride[1]], before = best[j];                       \
                    const I number = first + (I)j * step, old = found[j];                          \
                    const int is_better = (old < 0) | (here > before) |                            \
                                          ((here != here) & (before == before));                   \
                    best[j] = is_better ? here : before;                                           \
                    found[j] = is_better ? number : old;                                           \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void max_pool_choice_##T(const Windows *w, const T *x, int64_t *result, T *best,        \
                                    I *found)                                                      \
    {                                                                                              \
        for (npy_intp p = 0; p < w->planes; p++, x += w->sizes[0] * w->sizes[1])                   \
            for (npy_intp i = 0; i < w->counts[0]; i++, result += w->counts[1]) {                  \
                choose_##T(w, x, i, 0, best, found);                                               \
                for (npy_intp j = 0; j < w->counts[1]; j++) result[j] = found[j];                  \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    static void max_pool_slope_##T(const Windows *w, const T *g, const T *x, T *result, T *best,   \
                                   I *found)                                                       \
    {                                                                                              \
        const npy_intp area = w->sizes[0] * w->sizes[1];                                           \
        memset(result, 0, (size_t)(w->planes * area) * sizeof(T));                                 \
        for (npy_intp p = 0; p < w->planes; p++, x += area, result += area)                        \
            for (npy_intp i = 0; i < w->counts[0]; i++, g += w->counts[1]) {                       \
                choose_##T(w, x, i, 1, best, found);                                               \
                for (npy_intp j = 0; j < w->counts[1]; j++) result[found[j]] += g[j];              \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    static void sum_pool_slope_##T(const Windows *w, const T *g, T *result)                        \
    {                                                                                              \
        const npy_intp area = w->sizes[0] * w->sizes[1], outputs = w->counts[0] * w->counts[1];    \
        memset(result, 0, (size_t)(w->planes * area) * sizeof(T));                                 \
        for (npy_intp p = 0; p < w->planes; p++, g += outputs, result += area) {                   \
            FOR_LINES(w) {                                                                         \
                const T *from = g + i * w->counts[1];                                              \
                T *line = result + (i * w->stride[0] + down.shift) * w->sizes[1] + along.shift;    \
                for (npy_intp j = along.first; j < along.last; j++) line[j * w->stride[1]] += from[j];\
            }                                                                                      \
        }                                                                                          \
    }

POOLS(float, int32_t)
POOLS(double, int64_t)

/* STATEMENTS(type) for the dtype of `x`, without the interpreter's lock where that pays. */
#define AT(T, array) ((T *)PyArray_DATA(array))
#define EITHER(x, STATEMENTS)                                                                      \
    do {                                                                                           \
        NPY_BEGIN_THREADS_DEF;                                                                     \
        NPY_BEGIN_THREADS_THRESHOLDED(PyArray_SIZE(x));                                            \
        if (PyArray_TYPE(x) == NPY_FLOAT) {                                                        \
            STATEMENTS(float)                                                                      \
        }                                                                                          \
        else {                                                                                     \
            STATEMENTS(double)                                                                     \
        }                                                                                          \
        NPY_END_THREADS;                                                                           \
    } while (0)

/* ---- rows ----------------------------------------------------------------------------------- */

/* Memory for a line of elements and one of integers that are as wide; NULL with an error. */
static void *
line_memory(const Windows *w, int type)
{
    size_t width = type == NPY_FLOAT ? sizeof(float) : sizeof(double);
    void *memory = PyMem_Malloc(2 * (size_t)w->counts[1] * width);
    return memory == NULL ? PyErr_NoMemory() : memory;
}

/* name(x, size, stride, before, after, dilation). */
#define POOL(name, TYPE, RESULT)                                                                   \
    static PyObject *native_##name(PyObject *module, PyObject *const *args, Py_ssize_t given)      \
    {                                                                                              \
        Windows w;                                                                                 \
        PyArrayObject *x = given == 6 ? plain(args[0]) : NULL;                                     \
        if (x == NULL || !windows_of(x, args + 1, &w)) {                                           \
            DECLINE;                                                                               \
        }                                                                                          \
        PyArrayObject *result = with_last_sizes(x, w.counts, TYPE);                                \
        void *memory = result == NULL ? NULL : line_memory(&w, PyArray_TYPE(x));                   \
        if (memory == NULL) {                                                                      \
            Py_XDECREF(result);                                                                    \
            return NULL;                                                                           \
        }                                                                                          \
        EITHER(x, RESULT);                                                                         \
        PyMem_Free(memory);                                                                        \
        return (PyObject *)result;                                                                 \
    }

#define SUMS(T) sum_pool_##T(&w, AT(T, x), AT(T, result));
#define MAXIMA(T) max_pool_##T(&w, AT(T, x), AT(T, result));
#define CHOICES(T)                                                                                 \
    max_pool_choice_##T(&w, AT(T, x), AT(int64_t, result), memory,                                 \
                        (void *)((T *)memory + w.counts[1]));

POOL(sum_pool, PyArray_TYPE(x), SUMS)
POOL(max_pool, PyArray_TYPE(x), MAXIMA)
POOL(max_pool_choice, NPY_INT64, CHOICES)

/* A gradient of the windows' results row by row, a new reference; NULL for other shapes and dtypes. */
static PyArrayObject *
gradient_for(PyObject *object, const Windows *w, int rank, int type)
{
    if (!PyArray_CheckExact(object)) {
        return NULL;
    }
    PyArrayObject *g = (PyArrayObject *)object;
    if (PyArray_TYPE(g) != type || PyArray_NDIM(g) != rank ||
        PyArray_DIM(g, rank - 2) != w->counts[0] || PyArray_DIM(g, rank - 1) != w->counts[1] ||
        PyArray_SIZE(g) != w->planes * w->counts[0] * w->counts[1]) {
        return NULL;
    }
    return PyArray_ISCARRAY_RO(g) ? (PyArrayObject *)Py_NewRef(object)
                                  : (PyArrayObject *)PyArray_NewCopy(g, NPY_CORDER);
}

/* max_pool_slope(g, x, size, stride, before, after, dilation). */
static PyObject *
max_pool_slope(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Windows w;
    PyArrayObject *x = given == 7 ? plain(args[1]) : NULL;
    if (x == NULL || !windows_of(x, args + 2, &w)) {
        DECLINE;
    }
    PyArrayObject *g = gradient_for(args[0], &w, PyArray_NDIM(x), PyArray_TYPE(x));
    if (g == NULL) {
        if (PyErr_Occurred()) {
            return NULL;
        }
        DECLINE;
    }
    PyArrayObject *result = with_last_sizes(x, w.sizes, PyArray_TYPE(x));
    void *memory = result == NULL ? NULL : line_memory(&w, PyArray_TYPE(x));
#define SLOPES(T)                                                                                  \
    max_pool_slope_##T(&w, AT(T, g), AT(T, x), AT(T, result), memory,                              \
                       (void *)((T *)memory + w.counts[1]));
    if (memory == NULL) {
        Py_CLEAR(result);
    }
    else {
        EITHER(x, SLOPES);
    }
#undef SLOPES
    PyMem_Free(memory);
    Py_DECREF(g);
    return (PyObject *)result;
}

/* The sizes that a tensor type says, as many as there are; 0 if they are not plain. */
static int
sizes_of_type(PyObject *type, npy_intp *sizes)
{
    PyObject *shape = PyObject_GetAttr(type, name_shape);
    if (shape == NULL) {
        PyErr_Clear();
        return 0;
    }
    Py_ssize_t rank = PyTuple_CheckExact(shape) ? PyTuple_GET_SIZE(shape) : 0;
    rank = rank > NPY_MAXDIMS ? 0 : rank;
    for (Py_ssize_t d = 0; d < rank; d++) {
        PyObject *size = PyTuple_GET_ITEM(shape, d);
        sizes[d] = PyLong_CheckExact(size) ? PyLong_AsSsize_t(size) : -1;
        if (sizes[d] <= 0) {
            PyErr_Clear();
            rank = 0;
        }
    }
    Py_DECREF(shape);
    return (int)rank;
}

/* sum_pool_slope(g, x_type, size, stride, before, after, dilation). */
static PyObject *
sum_pool_slope(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Windows w;
    npy_intp sizes[NPY_MAXDIMS];
    int rank = given == 7 && PyArray_CheckExact(args[0]) ? sizes_of_type(args[1], sizes) : 0;
    int type = rank < 2 ? NPY_NOTYPE : PyArray_TYPE((PyArrayObject *)args[0]);
    if (type != NPY_FLOAT && type != NPY_DOUBLE) {
        DECLINE;
    }
    w.planes = 1;
    for (int d = 0; d < rank - 2; d++) {
        w.planes *= sizes[d];
    }
    memcpy(w.sizes, sizes + rank - 2, sizeof(w.sizes));
    PyArrayObject *g = read_windows(args + 2, &w) ? gradient_for(args[0], &w, rank, type) : NULL;
    if (g == NULL) {
        if (PyErr_Occurred()) {
            return NULL;
        }
        DECLINE;
    }
    PyArrayObject *result = (PyArrayObject *)PyArray_SimpleNew(rank, sizes, type);
#define SLOPES(T) sum_pool_slope_##T(&w, AT(T, g), AT(T, result));
    if (result != NULL) {
        EITHER(result, SLOPES);
    }
#undef SLOPES
    Py_DECREF(g);
    return (PyObject *)result;
}

/* ---- the module ----------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    METHOD("sum_pool", native_sum_pool,
           "sum_pool(x, size, stride, before, after, dilation) -> array or NotImplemented."),
    METHOD("max_pool", native_max_pool,
           "max_pool(x, size, stride, before, after, dilation) -> array or NotImplemented."),
    METHOD("max_pool_choice", native_max_pool_choice,
           "max_pool_choice(x, size, stride, before, after, dilation) -> array or NotImplemented."),
    METHOD("max_pool_slope", max_pool_slope,
           "max_pool_slope(g, x, size, stride, before, after, dilation)."),
    METHOD("sum_pool_slope", sum_pool_slope,
           "sum_pool_slope(g, x_type, size, stride, before, after, dilation)."),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.ops.native._native_windows",
    .m_doc = "Pools on arrays of NumPy, in C.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__native_windows(void)
{
    import_array();
    name_shape = PyUnicode_InternFromString("shape");
    return name_shape == NULL ? NULL : PyModule_Create(&definition);
}
