/* `batch_norm`, its derivatives and its sums per channel in C: rows of `ops.batch_normalization`.
 *
 * Contract: that of `_native_forms.c`: the bits of the rows' array forms and of the derivatives' rows, or
 * NotImplemented for all but float32 and float64 (N, C, *) that lie row by row and are not empty.
 * Sums and products with a sum are the loops of `_vecmath`, over the same elements side by side as
 * `ops.batch_normalization._added` has them. Called by `eager._rows` and `eager.node`;
 * `tests/ops/test_native_batch_norm.py` compares.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>
#include <math.h>
#include <stdint.h>

#include "ufunc_loops.h"

/* The loops for one dtype. */
typedef struct {
    Loop sum, squares, fma;
} Loops;

static Loops of_float, of_double;

/* `_SHORT` of `ops.batch_normalization`. */
enum { SHORT = 200 };

#define DECLINE Py_RETURN_NOTIMPLEMENTED

/* An array (N, C, *): `size` elements lie side by side for each instance and channel. */
typedef struct {
    npy_intp count, channels, size;
} Layout;

/* Up to so many instances NumPy adds one after the other, whatever the other sizes. */
enum { ADDED_IN_ORDER = 8 };

/* The array, if C is to take it: 0 for others. */
static int
read_layout(PyObject *object, Layout *layout)
{
    if (!PyArray_CheckExact(object)) {
        return 0;
    }
    PyArrayObject *x = (PyArrayObject *)object;
    int type = PyArray_TYPE(x);
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || !PyArray_ISCARRAY_RO(x) ||
        PyArray_NDIM(x) < 2 || PyArray_SIZE(x) == 0) {
        return 0;
    }
    layout->count = PyArray_DIM(x, 0);
    layout->channels = PyArray_DIM(x, 1);
    layout->size = PyArray_SIZE(x) / (layout->count * layout->channels);
    int is_one_column = layout->channels == 1 && (layout->size == 1 || layout->size >= SHORT);
    return !is_one_column || layout->count < ADDED_IN_ORDER;
}

/* How many numbers of memory a sum per channel takes. */
static npy_intp
line_size(const Layout *layout)
{
    return layout->size < SHORT ? layout->count * layout->size : layout->size;
}

#define SUMS(T)                                                                                    \
    static double sum_##T(const T *x, npy_intp size)                                               \
    {                                                                                              \
        double total;                                                                              \
        char *operands[] = {(char *)x, (char *)&total};                                            \
        npy_intp sizes[] = {1, size}, steps[] = {0, 0, sizeof(T)};                                 \
        of_##T.sum.run(operands, sizes, steps, of_##T.sum.data);                                   \
        return total;                                                                              \
    }                                                                                              \
                                                                                                   \
    static double squares_##T(const T *x, T center, npy_intp size)                                 \
    {                                                                                              \
        double total;                                                                              \
        char *operands[] = {(char *)x, (char *)&center, (char *)&total};                           \
        npy_intp sizes[] = {1, size}, steps[] = {0, 0, 0, sizeof(T)};                              \
        of_##T.squares.run(operands, sizes, steps, of_##T.squares.data);                           \
        return total;                                                                              \
    }                                                                                              \
                                                                                                   \
    /* x * y + z; operands with `step` 0 are one number. */                                        \
    static void fma_##T(const T *x, const T *y, int y_step, const T *z, int z_step, T *result,     \
                        npy_intp count)                                                            \
    {                                                                                              \
        char *operands[] = {(char *)x, (char *)y, (char *)z, (char *)result};                      \
        npy_intp one = sizeof(T), steps[] = {one, y_step * one, z_step * one, one};                \
        of_##T.fma.run(operands, &count, steps, of_##T.fma.data);                                  \
    }                                                                                              \
                                                                                                   \
    /* What is added: the elements of x (no g), or g times what x is above the mean. */            \
    static void terms_##T(const T *x, const T *g, T mean, T *result, npy_intp size)                \
    {                                                                                              \
        if (g == NULL) {                                                                           \
            memcpy(result, x, (size_t)size * sizeof(T));                                           \
            return;                                                                                \
        }                                                                                          \
        for (npy_intp i = 0; i < size; i++) result[i] = g[i] * (x[i] - mean);                      \
    }                                                                                              \
                                                                                                   \
    /* The sum of one channel; `line` has room for `line_size` numbers. */                         \
    static double channel_sum_##T(const Layout *l, const T *x, const T *g, T mean, npy_intp c,     \
                                  T *line)                                                         \
    {                                                                                              \
        const npy_intp apart = l->channels * l->size;                                              \
        const int is_short = l->size < SHORT && l->size > 1;                                       \
        double total = 0;                                                                          \
        for (npy_intp n = 0; n < l->count; n++) {                                                  \
            const npy_intp at = n * apart + c * l->size;                                           \
            T *to = is_short ? line + n * l->size : line;                                          \
            terms_##T(x + at, g == NULL ? NULL : g + at, mean, to, l->size);                       \
            if (!is_short) total += l->size == 1 ? (double)*line : sum_##T(line, l->size);         \
        }                                                                                          \
        return is_short ? sum_##T(line, l->count * l->size) : total;                               \
    }                                                                                              \
                                                                                                   \
    static double channel_squares_##T(const Layout *l, const T *x, T center, npy_intp c, T *line)  \
    {                                                                                              \
        const npy_intp apart = l->channels * l->size;                                              \
        const int is_short = l->size < SHORT && l->size > 1;                                       \
        double total = 0;                                                                          \
        for (npy_intp n = 0; n < l->count; n++) {                                                  \
            const T *from = x + n * apart + c * l->size;                                           \
            if (is_short) memcpy(line + n * l->size, from, (size_t)l->size * sizeof(T));           \
            else if (l->size > 1) total += squares_##T(from, center, l->size);                     \
            else {                                                                                 \
                const T square = (*from - center) * (*from - center);                              \
                total += (double)square;                                                           \
            }                                                                                      \
        }                                                                                          \
        return is_short ? squares_##T(line, center, l->count * l->size) : total;                   \
    }                                                                                              \
                                                                                                   \
    /* Mean of a channel, and 1 / sqrt(variance + eps). */                                         \
    static T statistics_##T(const Layout *l, const T *x, npy_intp c, double eps, T *line, T *mean) \
    {                                                                                              \
        const npy_intp many = l->count * l->size;                                                  \
        *mean = (T)(channel_sum_##T(l, x, NULL, 0, c, line) / (double)many);                       \
        const T squares = (T)channel_squares_##T(l, x, *mean, c, line);                            \
        const double variance = (double)(squares / (T)many);                                       \
        return (T)(1.0 / sqrt(variance + eps));                                                    \
    }                                                                                              \
                                                                                                   \
    /* `numbers` has room for three per channel, then for a line. */                               \
    static void batch_norm_##T(const Layout *l, const T *x, const T *weight, const T *bias,        \
                               double eps, T *result, T *numbers)                                  \
    {                                                                                              \
        T *factor = numbers, *term = factor + l->channels, *mean = term + l->channels;             \
        T *line = mean + l->channels;                                                              \
        for (npy_intp c = 0; c < l->channels; c++) {                                               \
            const T scale = statistics_##T(l, x, c, eps, line, mean + c);                          \
            factor[c] = weight == NULL ? scale : scale * weight[c];                                \
            mean[c] = -mean[c];                                                                    \
            term[c] = mean[c] * factor[c];                                                         \
        }                                                                                          \
        if (bias != NULL) fma_##T(mean, factor, 1, bias, 1, term, l->channels);                    \
        for (npy_intp n = 0; n < l->count; n++) {                                                  \
            if (l->size == 1) {                                                                    \
                fma_##T(x, factor, 1, term, 1, result, l->channels);                               \
                x += l->channels, result += l->channels;                                           \
                continue;                                                                          \
            }                                                                                      \
            for (npy_intp c = 0; c < l->channels; c++, x += l->size, result += l->size)            \
                fma_##T(x, factor + c, 0, term + c, 0, result, l->size);                           \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* `numbers` has room for a line, at least of `size`. */                                       \
    static void slope_x_##T(const Layout *l, const T *g, const T *x, const T *weight, double eps,  \
                            T *result, T *line)                                                    \
    {                                                                                              \
        const npy_intp apart = l->channels * l->size, many = l->count * l->size;                   \
        for (npy_intp c = 0; c < l->channels; c++) {                                               \
            T mean;                                                                                \
            const T scale = statistics_##T(l, x, c, eps, line, &mean);                             \
            const T along = (T)channel_sum_##T(l, x, g, mean, c, line);                            \
            const T slope = along * scale * scale / (T)many;                                       \
            const T level = (T)(channel_sum_##T(l, g, NULL, 0, c, line) / (double)many);           \
            const T factor = weight == NULL ? scale : scale * weight[c];                           \
            for (npy_intp n = 0; n < l->count; n++) {                                              \
                const npy_intp at = n * apart + c * l->size;                                       \
                T *to = result + at;                                                               \
                for (npy_intp i = 0; i < l->size; i++) to[i] = g[at + i] - level;                  \
                for (npy_intp i = 0; i < l->size; i++) line[i] = -(x[at + i] - mean);              \
                fma_##T(line, &slope, 0, to, 1, to, l->size);                                      \
                for (npy_intp i = 0; i < l->size; i++) to[i] *= factor;                            \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void slope_weight_##T(const Layout *l, const T *g, const T *x, double eps, T *result,   \
                                 T *line)                                                          \
    {                                                                                              \
        for (npy_intp c = 0; c < l->channels; c++) {                                               \
            T mean;                                                                                \
            const T scale = statistics_##T(l, x, c, eps, line, &mean);                             \
            result[c] = (T)(channel_sum_##T(l, x, g, mean, c, line) * (double)scale);              \
        }                                                                                          \
    }

SUMS(float)
SUMS(double)

#define AT(T, array) ((T *)PyArray_DATA(array))

/* STATEMENTS(type) for the dtype of `x`, without the interpreter's lock where that pays. */
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

/* 1 if a parameter is None or has one number per channel, in the dtype of `x`. */
static int
is_parameter(PyObject *object, PyArrayObject *x, void **data)
{
    *data = NULL;
    if (object == Py_None) {
        return 1;
    }
    if (!PyArray_CheckExact(object)) {
        return 0;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    if (PyArray_TYPE(array) != PyArray_TYPE(x) || !PyArray_ISCARRAY_RO(array) ||
        PyArray_NDIM(array) != 1 || PyArray_DIM(array, 0) != PyArray_DIM(x, 1)) {
        return 0;
    }
    *data = PyArray_DATA(array);
    return 1;
}

/* A gradient of the shape and dtype of `x`, row by row: a new reference, or NULL. */
static PyArrayObject *
gradient_for(PyObject *object, PyArrayObject *x)
{
    if (!PyArray_CheckExact(object)) {
        return NULL;
    }
    PyArrayObject *g = (PyArrayObject *)object;
    if (PyArray_TYPE(g) != PyArray_TYPE(x) || !PyArray_SAMESHAPE(g, x)) {
        return NULL;
    }
    if (PyArray_ISCARRAY_RO(g)) {
        return (PyArrayObject *)Py_NewRef(object);
    }
    for (int d = 0; d < PyArray_NDIM(g); d++) {
        if (PyArray_STRIDE(g, d) != 0 && PyArray_DIM(g, d) != 1) {
            return NULL; /* the formulas' result may lie otherwise */
        }
    }
    return (PyArrayObject *)PyArray_NewCopy(g, NPY_CORDER);
}

static void *
memory_for(PyArrayObject *x, npy_intp count)
{
    void *memory = PyMem_Malloc((size_t)count * (size_t)PyArray_ITEMSIZE(x));
    return memory == NULL ? PyErr_NoMemory() : memory;
}

/* batch_norm(x, weight, bias, eps). */
static PyObject *
native_batch_norm(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Layout l;
    void *weight, *bias;
    if (given != 4 || !read_layout(args[0], &l) || !PyFloat_CheckExact(args[3]) ||
        !is_parameter(args[1], (PyArrayObject *)args[0], &weight) ||
        !is_parameter(args[2], (PyArrayObject *)args[0], &bias)) {
        DECLINE;
    }
    PyArrayObject *x = (PyArrayObject *)args[0];
    PyArrayObject *result =
        (PyArrayObject *)PyArray_SimpleNew(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x));
    void *memory = result == NULL ? NULL : memory_for(x, 3 * l.channels + line_size(&l));
    if (memory == NULL) {
        Py_XDECREF(result);
        return NULL;
    }
    double eps = PyFloat_AS_DOUBLE(args[3]);
#define STATEMENTS(T) batch_norm_##T(&l, AT(T, x), weight, bias, eps, AT(T, result), memory);
    EITHER(x, STATEMENTS);
#undef STATEMENTS
    PyMem_Free(memory);
    return (PyObject *)result;
}

/* The slope of x (with `weight`) or, given no `weight` to multiply by, that of the weight. */
static PyObject *
slope_of(PyObject *gradient, PyArrayObject *x, const Layout *l, const void *weight, double eps,
         int is_of_x)
{
    PyArrayObject *g = gradient_for(gradient, x);
    if (g == NULL) {
        if (PyErr_Occurred()) {
            return NULL;
        }
        DECLINE;
    }
    PyArrayObject *result = (PyArrayObject *)(
        is_of_x ? PyArray_SimpleNew(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x))
                : PyArray_SimpleNew(1, (npy_intp *)&l->channels, PyArray_TYPE(x)));
    void *memory = result == NULL ? NULL : memory_for(x, line_size(l));
    if (memory == NULL) {
        Py_CLEAR(result);
    }
    else {
#define STATEMENTS(T)                                                                              \
    if (is_of_x) slope_x_##T(l, AT(T, g), AT(T, x), weight, eps, AT(T, result), memory);           \
    else slope_weight_##T(l, AT(T, g), AT(T, x), eps, AT(T, result), memory);
        EITHER(x, STATEMENTS);
#undef STATEMENTS
    }
    PyMem_Free(memory);
    Py_DECREF(g);
    return (PyObject *)result;
}

/* slope_x(g, x, weight, eps). */
static PyObject *
native_slope_x(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Layout l;
    void *weight;
    if (given != 4 || !read_layout(args[1], &l) || !PyFloat_CheckExact(args[3]) ||
        !is_parameter(args[2], (PyArrayObject *)args[1], &weight)) {
        DECLINE;
    }
    return slope_of(args[0], (PyArrayObject *)args[1], &l, weight, PyFloat_AS_DOUBLE(args[3]), 1);
}

/* slope_weight(g, x, eps). */
static PyObject *
native_slope_weight(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Layout l;
    if (given != 3 || !read_layout(args[1], &l) || !PyFloat_CheckExact(args[2])) {
        DECLINE;
    }
    return slope_of(args[0], (PyArrayObject *)args[1], &l, NULL, PyFloat_AS_DOUBLE(args[2]), 0);
}

/* channel_sum(x), and channel_squares(x, center) where there is a center. */
static PyObject *
sums_of(PyArrayObject *x, const Layout *l, const void *center)
{
    PyArrayObject *result =
        (PyArrayObject *)PyArray_SimpleNew(1, (npy_intp *)&l->channels, NPY_DOUBLE);
    void *memory = result == NULL ? NULL : memory_for(x, line_size(l));
    if (memory == NULL) {
        Py_XDECREF(result);
        return NULL;
    }
#define STATEMENTS(T)                                                                              \
    for (npy_intp c = 0; c < l->channels; c++)                                                     \
        AT(double, result)[c] =                                                                    \
            center == NULL                                                                         \
                ? channel_sum_##T(l, AT(T, x), NULL, 0, c, memory)                                 \
                : channel_squares_##T(l, AT(T, x), ((const T *)center)[c], c, memory);
    EITHER(x, STATEMENTS);
#undef STATEMENTS
    PyMem_Free(memory);
    return (PyObject *)result;
}

static PyObject *
native_channel_sum(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Layout l;
    if (given != 1 || !read_layout(args[0], &l)) {
        DECLINE;
    }
    return sums_of((PyArrayObject *)args[0], &l, NULL);
}

static PyObject *
native_channel_squares(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Layout l;
    void *center;
    if (given != 2 || args[1] == Py_None || !read_layout(args[0], &l) ||
        !is_parameter(args[1], (PyArrayObject *)args[0], &center)) {
        DECLINE;
    }
    return sums_of((PyArrayObject *)args[0], &l, center);
}

/* ---- the module ----------------------------------------------------------------------------- */

#define METHOD(name, function, text)                                                               \
    {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, text}

static PyMethodDef methods[] = {
    METHOD("batch_norm", native_batch_norm,
           "batch_norm(x, weight, bias, eps) -> array or NotImplemented."),
    METHOD("channel_sum", native_channel_sum, "channel_sum(x) -> array or NotImplemented."),
    METHOD("channel_squares", native_channel_squares,
           "channel_squares(x, center) -> array or NotImplemented."),
    METHOD("slope_x", native_slope_x, "slope_x(g, x, weight, eps)."),
    METHOD("slope_weight", native_slope_weight, "slope_weight(g, x, eps)."),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.ops._native_batch_norm",
    .m_doc = "batch_norm on arrays of NumPy, in C.",
    .m_size = -1,
    .m_methods = methods,
};

static int
find_loops(PyObject *vecmath, int type, Loops *loops)
{
    return find_loop(vecmath, "sum_wide", type, &loops->sum) < 0 ||
                   find_loop(vecmath, "squares_wide", type, &loops->squares) < 0 ||
                   find_loop(vecmath, "fma", type, &loops->fma) < 0
               ? -1
               : 0;
}

PyMODINIT_FUNC
PyInit__native_batch_norm(void)
{
    import_array();
    import_umath();
    PyObject *vecmath = PyImport_ImportModule("dynajit.ops._vecmath");
    int failed = vecmath == NULL || find_loops(vecmath, NPY_FLOAT, &of_float) < 0 ||
                 find_loops(vecmath, NPY_DOUBLE, &of_double) < 0;
    Py_XDECREF(vecmath);
    return failed ? NULL : PyModule_Create(&definition);
}
