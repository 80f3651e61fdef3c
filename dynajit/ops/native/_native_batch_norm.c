/* `batch_norm`, its derivatives and its sums per channel in C: rows of `ops.rows.networks.batch_normalization`.
 *
 * Contract: that of `_native_forms.c`: the bits of the rows' array forms and of the derivatives' rows, or
 * NotImplemented for all but float32 and float64 (N, C, *) that lie row by row and are not empty.
 * Sums and products with a sum are the loops of `_vecmath`, over the same elements side by side as
 * `ops.rows.networks.batch_normalization._added` has them. Called by `eager._rows` and `eager.tape.node`;
 * `tests/ops/test_native_batch_norm.py` compares.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>
#include <math.h>
#include <stdint.h>

#include "native_rows.h"
#include "ufunc_loops.h"

/* The loops for one dtype. */
typedef struct {
    Loop sum, squares, fma;
} Loops;

static Loops of_float, of_double;

/* `_SHORT` of `ops.rows.networks.batch_normalization`. */
enum { SHORT = 200 };

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

/* How many numbers a line has: what is summed at once, or a number per channel. */
static npy_intp
line_size(const Layout *layout)
{
    if (layout->size == 1) {
        return layout->channels;
    }
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
    /* The sum of one channel of more than one element in a row; `line` is memory for a line. */   \
    static double channel_sum_##T(const Layout *l, const T *x, const T *g, T mean, npy_intp c,     \
                                  T *line)                                                         \
    {                                                                                              \
        const npy_intp apart = l->channels * l->size;                                              \
        const int is_short = l->size < SHORT;                                                      \
        double total = 0;                                                                          \
        for (npy_intp n = 0; n < l->count; n++) {                                                  \
            const npy_intp at = n * apart + c * l->size;                                           \
            T *to = is_short ? line + n * l->size : line;                                          \
            if (!is_short && g == NULL) { /* they lie side by side */                              \
                total += sum_##T(x + at, l->size);                                                 \
                continue;                                                                          \
            }                                                                                      \
            terms_##T(x + at, g == NULL ? NULL : g + at, mean, to, l->size);                       \
            if (!is_short) total += sum_##T(line, l->size);                                        \
        }                                                                                          \
        return is_short ? sum_##T(line, l->count * l->size) : total;                               \
    }                                                                                              \
                                                                                                   \
    static double channel_squares_##T(const Layout *l, const T *x, T center, npy_intp c, T *line)  \
    {                                                                                              \
        const npy_intp apart = l->channels * l->size;                                              \
        const int is_short = l->size < SHORT;                                                      \
        double total = 0;                                                                          \
        for (npy_intp n = 0; n < l->count; n++) {                                                  \
            const T *from = x + n * apart + c * l->size;                                           \
            if (is_short) memcpy(line + n * l->size, from, (size_t)l->size * sizeof(T));           \
            else total += squares_##T(from, center, l->size);                                      \
        }                                                                                          \
        return is_short ? squares_##T(line, center, l->count * l->size) : total;                   \
    }                                                                                              \
                                                                                                   \
    /* Sums per channel of x, or of g times what x is above the means. */                          \
    static void sums_##T(const Layout *l, const T *x, const T *g, const T *means, double *totals,  \
                         T *line)                                                                  \
    {                                                                                              \
        for (npy_intp c = 0; c < l->channels && l->size > 1; c++)                                  \
            totals[c] = channel_sum_##T(l, x, g, g == NULL ? 0 : means[c], c, line);               \
        if (l->size > 1) return;                                                                   \
        for (npy_intp c = 0; c < l->channels; c++) totals[c] = 0;                                  \
        for (npy_intp n = 0; n < l->count; n++, x += l->channels) {                                \
            for (npy_intp c = 0; c < l->channels; c++) {                                           \
                const T term = g == NULL ? x[c] : g[n * l->channels + c] * (x[c] - means[c]);      \
                totals[c] += (double)term;                                                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* Sums per channel of the squares of x - center. */                                           \
    static void squares_of_##T(const Layout *l, const T *x, const T *centers, double *totals,      \
                               T *line)                                                            \
    {                                                                                              \
        for (npy_intp c = 0; c < l->channels && l->size > 1; c++)                                  \
            totals[c] = channel_squares_##T(l, x, centers[c], c, line);                            \
        if (l->size > 1) return;                                                                   \
        for (npy_intp c = 0; c < l->channels; c++) totals[c] = 0;                                  \
        for (npy_intp n = 0; n < l->count; n++, x += l->channels) {                                \
            for (npy_intp c = 0; c < l->channels; c++) {                                           \
                const T above = x[c] - centers[c], square = above * above;                         \
                totals[c] += (double)square;                                                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* Means per channel, and 1 / sqrt(variance + eps). */                                         \
    static void statistics_##T(const Layout *l, const T *x, double eps, T *means, T *scales,       \
                               double *totals, T *line)                                            \
    {                                                                                              \
        const npy_intp many = l->count * l->size;                                                  \
        sums_##T(l, x, NULL, NULL, totals, line);                                                  \
        for (npy_intp c = 0; c < l->channels; c++) means[c] = (T)(totals[c] / (double)many);       \
        squares_of_##T(l, x, means, totals, line);                                                 \
        for (npy_intp c = 0; c < l->channels; c++) {                                               \
            const double variance = (double)((T)totals[c] / (T)many);                              \
            scales[c] = (T)(1.0 / sqrt(variance + eps));                                           \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void batch_norm_##T(const Layout *l, const T *x, const T *weight, const T *bias,        \
                               double eps, T *result, double *totals)                              \
    {                                                                                              \
        T *mean = (T *)(totals + l->channels), *factor = mean + l->channels;                       \
        T *term = factor + l->channels, *line = term + l->channels;                                \
        statistics_##T(l, x, eps, mean, factor, totals, line);                                     \
        for (npy_intp c = 0; c < l->channels; c++) {                                               \
            factor[c] = weight == NULL ? factor[c] : factor[c] * weight[c];                        \
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
    /* (fma(mean - x, slope, g - level)) * factor for `count` elements; `step` 0: one channel. */  \
    static void rest_##T(const T *g, const T *x, const T *mean, const T *slope, const T *level,    \
                         const T *factor, int step, T *result, npy_intp count, T *line)            \
    {                                                                                              \
        for (npy_intp i = 0; i < count; i++) result[i] = g[i] - level[i * step];                   \
        for (npy_intp i = 0; i < count; i++) line[i] = -(x[i] - mean[i * step]);                   \
        fma_##T(line, slope, step, result, 1, result, count);                                      \
        for (npy_intp i = 0; i < count; i++) result[i] *= factor[i * step];                        \
    }                                                                                              \
                                                                                                   \
    static void slope_x_##T(const Layout *l, const T *g, const T *x, const T *weight, double eps,  \
                            T *result, double *totals)                                             \
    {                                                                                              \
        const npy_intp many = l->count * l->size;                                                  \
        T *mean = (T *)(totals + l->channels), *factor = mean + l->channels;                       \
        T *slope = factor + l->channels, *level = slope + l->channels;                             \
        T *line = level + l->channels;                                                             \
        statistics_##T(l, x, eps, mean, factor, totals, line);                                     \
        sums_##T(l, x, g, mean, totals, line);                                                     \
        for (npy_intp c = 0; c < l->channels; c++)                                                 \
            slope[c] = (T)totals[c] * factor[c] * factor[c] / (T)many;                             \
        sums_##T(l, g, NULL, NULL, totals, line);                                                  \
        for (npy_intp c = 0; c < l->channels; c++) {                                               \
            level[c] = (T)(totals[c] / (double)many);                                              \
            factor[c] = weight == NULL ? factor[c] : factor[c] * weight[c];                        \
        }                                                                                          \
        for (npy_intp n = 0, at = 0; n < l->count; n++) {                                          \
            if (l->size == 1) {                                                                    \
                rest_##T(g + at, x + at, mean, slope, level, factor, 1, result + at, l->channels,  \
                         line);                                                                    \
                at += l->channels;                                                                 \
                continue;                                                                          \
            }                                                                                      \
            for (npy_intp c = 0; c < l->channels; c++, at += l->size)                              \
                rest_##T(g + at, x + at, mean + c, slope + c, level + c, factor + c, 0,            \
                         result + at, l->size, line);                                              \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void slope_weight_##T(const Layout *l, const T *g, const T *x, double eps, T *result,   \
                                 double *totals)                                                   \
    {                                                                                              \
        T *mean = (T *)(totals + l->channels), *scale = mean + l->channels;                        \
        T *line = scale + l->channels;                                                             \
        statistics_##T(l, x, eps, mean, scale, totals, line);                                      \
        sums_##T(l, x, g, mean, totals, line);                                                     \
        for (npy_intp c = 0; c < l->channels; c++)                                                 \
            result[c] = (T)(totals[c] * (double)scale[c]);                                         \
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

/* Memory for a double and four numbers per channel, then for a line; NULL with an error. */
static double *
memory_for(PyArrayObject *x, const Layout *l)
{
    size_t numbers = 4 * (size_t)l->channels + (size_t)line_size(l);
    void *memory = PyMem_Malloc((size_t)l->channels * sizeof(double) +
                                numbers * (size_t)PyArray_ITEMSIZE(x));
    return memory == NULL ? (double *)PyErr_NoMemory() : memory;
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
    double *memory = result == NULL ? NULL : memory_for(x, &l);
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
    double *memory = result == NULL ? NULL : memory_for(x, l);
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
    double *memory = result == NULL ? NULL : memory_for(x, l);
    if (memory == NULL) {
        Py_XDECREF(result);
        return NULL;
    }
#define STATEMENTS(T)                                                                              \
    if (center == NULL) sums_##T(l, AT(T, x), NULL, NULL, AT(double, result), (T *)memory);        \
    else squares_of_##T(l, AT(T, x), center, AT(double, result), (T *)memory);
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
    .m_name = "dynajit.ops.native._native_batch_norm",
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
    PyObject *vecmath = PyImport_ImportModule("dynajit.ops.native._vecmath");
    int failed = vecmath == NULL || find_loops(vecmath, NPY_FLOAT, &of_float) < 0 ||
                 find_loops(vecmath, NPY_DOUBLE, &of_double) < 0;
    Py_XDECREF(vecmath);
    return failed ? NULL : PyModule_Create(&definition);
}
