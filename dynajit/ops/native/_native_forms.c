/* Rows on arrays of NumPy, in C: what eager runs first where a row declares `native` or `slopes`.
 *
 * Contract: a function takes the arrays, numbers and None that are the row's inputs, then its
 * attributes in the row's order; one of `slopes` takes the parameters of the derivative formula
 * in its order. It gives a new row-major array (one for a view row a view), or NotImplemented,
 * without effect, for all but the plain case: float32 or float64 that lies row by row, nothing empty,
 * and what each function says. What it raises is not shown: the rows, which run then, find the words.
 *
 * The numbers are those of `ops.rows.array_forms` and of the formulas, bit by bit: exponentials and
 * logarithms are those loops of NumPy's ufuncs that NumPy itself would run, sums along a row those of
 * `_sums.c`, and everything else is rounded as NumPy's operators round. What is saved is what stands around the
 * loops: 1 us for each of the operators, and all arrays in between.
 * Called by `eager._rows`, `eager.tape.node`; `tests/ops/test_native_forms.py` compares.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "native_rows.h"
#include "sums.h"
#include "ufunc_loops.h"

/* The loops for one dtype. */
typedef struct {
    Loop exp, log, maximum;
} Loops;

static Loops of_float, of_double;
static PyObject *cpu = NULL;                       /* dynajit.core.types.device.CPU */
static PyObject *name_numpy = NULL, *name_shape = NULL;

/* About so many elements go through all steps before the next ones: they stay in the first cache. */
enum { BLOCK = 4096 };

/* `total` and `count` values that are `step` bytes apart, combined as a ufunc's `reduce` does. */
static void
accumulate(Loop loop, void *total, const void *x, npy_intp count, npy_intp step)
{
    char *operands[] = {total, (char *)x, total};
    npy_intp steps[] = {0, step, 0};
    loop.run(operands, &count, steps, loop.data);
}

/* Sums of a row, in the order of eager sums (`_sums.c`). */
static float
sum_float(const float *x, npy_intp count)
{
    float total;
    dj_sum_row_f32(x, count, &total);
    return total;
}

static double
sum_double(const double *x, npy_intp count)
{
    double total;
    dj_sum_row_f64(x, count, &total);
    return total;
}

#define ROWS(T, SQRT)                                                                              \
    /* Each row less its largest element. */                                                       \
    static void shift_##T(const T *x, T *result, npy_intp rows, npy_intp size)                     \
    {                                                                                              \
        for (npy_intp i = 0; i < rows; i++, x += size, result += size) {                           \
            T top = x[0];                                                                          \
            accumulate(of_##T.maximum, &top, x + 1, size - 1, sizeof(T));                          \
            for (npy_intp j = 0; j < size; j++) result[j] = x[j] - top;                            \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void softmax_##T(const T *x, T *result, npy_intp rows, npy_intp size)                   \
    {                                                                                              \
        shift_##T(x, result, rows, size);                                                          \
        apply(of_##T.exp, result, result, rows * size, sizeof(T));                                 \
        for (npy_intp i = 0; i < rows; i++, result += size) {                                      \
            const T total = sum_##T(result, size);                                                 \
            for (npy_intp j = 0; j < size; j++) result[j] /= total;                                \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* `powers` has room for all elements, then for one number per row. */                         \
    static void log_softmax_##T(const T *x, T *result, npy_intp rows, npy_intp size, T *powers)    \
    {                                                                                              \
        T *totals = powers + rows * size;                                                          \
        shift_##T(x, result, rows, size);                                                          \
        apply(of_##T.exp, result, powers, rows * size, sizeof(T));                                 \
        for (npy_intp i = 0; i < rows; i++) totals[i] = sum_##T(powers + i * size, size);          \
        apply(of_##T.log, totals, totals, rows, sizeof(T));                                        \
        for (npy_intp i = 0; i < rows; i++, result += size) {                                      \
            for (npy_intp j = 0; j < size; j++) result[j] -= totals[i];                            \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* One row less its mean, and 1 / sqrt(variance + eps); `squares` has room for a row. */       \
    static T center_##T(const T *x, T *result, npy_intp size, double eps, T *squares)              \
    {                                                                                              \
        const T mean = sum_##T(x, size) / (T)size;                                                 \
        for (npy_intp j = 0; j < size; j++) result[j] = x[j] - mean;                               \
        for (npy_intp j = 0; j < size; j++) squares[j] = result[j] * result[j];                    \
        return (T)1 / SQRT(sum_##T(squares, size) / (T)size + (T)eps);                             \
    }                                                                                              \
                                                                                                   \
    static void layer_norm_##T(const T *x, const T *weight, const T *bias, T *result,              \
                               npy_intp rows, npy_intp size, double eps, T *squares)               \
    {                                                                                              \
        for (npy_intp i = 0; i < rows; i++, x += size, result += size) {                           \
            const T scale = center_##T(x, result, size, eps, squares);                             \
            for (npy_intp j = 0; j < size; j++) result[j] *= scale;                                \
            if (weight != NULL) for (npy_intp j = 0; j < size; j++) result[j] *= weight[j];        \
            if (bias != NULL) for (npy_intp j = 0; j < size; j++) result[j] += bias[j];            \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void softmax_slope_##T(const T *g, const T *out, T *result, npy_intp rows,              \
                                  npy_intp size)                                                   \
    {                                                                                              \
        for (npy_intp i = 0; i < rows; i++, g += size, out += size, result += size) {              \
            for (npy_intp j = 0; j < size; j++) result[j] = g[j] * out[j];                         \
            const T total = sum_##T(result, size);                                                 \
            for (npy_intp j = 0; j < size; j++) result[j] -= out[j] * total;                       \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void log_softmax_slope_##T(const T *g, const T *out, T *result, npy_intp rows,          \
                                      npy_intp size)                                               \
    {                                                                                              \
        apply(of_##T.exp, (void *)out, result, rows * size, sizeof(T));                            \
        for (npy_intp i = 0; i < rows; i++, g += size, result += size) {                           \
            const T total = sum_##T(g, size);                                                      \
            for (npy_intp j = 0; j < size; j++) result[j] = g[j] - result[j] * total;              \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* `memory` has room for two rows. */                                                          \
    static void layer_norm_slope_x_##T(const T *g, const T *x, const T *weight, T *result,         \
                                       npy_intp rows, npy_intp size, double eps, T *memory)        \
    {                                                                                              \
        T *unit = memory, *slope = memory + size;                                                  \
        for (npy_intp i = 0; i < rows; i++, g += size, x += size, result += size) {                \
            const T scale = center_##T(x, unit, size, eps, slope);                                 \
            for (npy_intp j = 0; j < size; j++) unit[j] *= scale;                                  \
            for (npy_intp j = 0; j < size; j++)                                                    \
                slope[j] = weight == NULL ? g[j] : g[j] * weight[j];                               \
            for (npy_intp j = 0; j < size; j++) result[j] = slope[j] * unit[j];                    \
            const T along = sum_##T(result, size) / (T)size;                                       \
            const T mean = sum_##T(slope, size) / (T)size;                                         \
            for (npy_intp j = 0; j < size; j++)                                                    \
                result[j] = scale * (slope[j] - mean - unit[j] * along);                           \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void layer_norm_slope_weight_##T(const T *g, const T *x, T *result, npy_intp rows,      \
                                            npy_intp size, double eps, T *squares)                 \
    {                                                                                              \
        for (npy_intp i = 0; i < rows; i++, g += size, x += size, result += size) {                \
            const T scale = center_##T(x, result, size, eps, squares);                             \
            for (npy_intp j = 0; j < size; j++) result[j] = g[j] * (result[j] * scale);            \
        }                                                                                          \
    }

ROWS(float, sqrtf)
ROWS(double, sqrt)

/* Functions of one element after the other; `powers` has room for as many. */
#define ELEMENTS(T, ABS)                                                                           \
    static void leaky_relu_##T(const T *x, T *result, npy_intp count, double slope)                \
    {                                                                                              \
        const T by = (T)slope;                                                                     \
        for (npy_intp i = 0; i < count; i++) result[i] = x[i] > 0 ? x[i] : x[i] * by;              \
    }                                                                                              \
                                                                                                   \
    static void at_least_##T(const T *x, T *result, npy_intp count, double bound)                  \
    {                                                                                              \
        const T least = (T)bound; /* of equal zeros the second, as NumPy's `maximum` */            \
        for (npy_intp i = 0; i < count; i++)                                                       \
            result[i] = x[i] > least || x[i] != x[i] ? x[i] : least;                               \
    }                                                                                              \
                                                                                                   \
    static void at_most_##T(const T *x, T *result, npy_intp count, double bound)                   \
    {                                                                                              \
        const T most = (T)bound;                                                                   \
        for (npy_intp i = 0; i < count; i++)                                                       \
            result[i] = x[i] < most || x[i] != x[i] ? x[i] : most;                                 \
    }                                                                                              \
                                                                                                   \
    static void sigmoid_##T(const T *x, T *result, npy_intp count, T *powers)                      \
    {                                                                                              \
        for (npy_intp i = 0; i < count; i++) powers[i] = -ABS(x[i]);                               \
        apply(of_##T.exp, powers, powers, count, sizeof(T));                                       \
        for (npy_intp i = 0; i < count; i++)                                                       \
            result[i] = (x[i] >= 0 ? (T)1 : powers[i]) / ((T)1 + powers[i]);                       \
    }                                                                                              \
                                                                                                   \
    static void silu_##T(const T *x, T *result, npy_intp count, T *powers)                         \
    {                                                                                              \
        sigmoid_##T(x, result, count, powers);                                                     \
        for (npy_intp i = 0; i < count; i++) result[i] = x[i] * result[i];                         \
    }

ELEMENTS(float, fabsf)
ELEMENTS(double, fabs)

/* ---- arguments ------------------------------------------------------------------------------ */

/* The array, if it lies row by row, is not empty, and has elements of float32 or float64. */
static PyArrayObject *
plain(PyObject *object)
{
    if (!PyArray_CheckExact(object)) {
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    int type = PyArray_TYPE(array);
    int fits = (type == NPY_FLOAT || type == NPY_DOUBLE) && PyArray_ISCARRAY_RO(array) &&
               PyArray_NDIM(array) > 0 && PyArray_SIZE(array) > 0;
    return fits ? array : NULL;
}

/* The same, for an operand that goes with `x`: of its dtype, and of its shape. */
static PyArrayObject *
alike(PyObject *object, PyArrayObject *x)
{
    PyArrayObject *array = plain(object);
    int fits = array != NULL && PyArray_TYPE(array) == PyArray_TYPE(x) &&
               PyArray_SAMESHAPE(array, x);
    return fits ? array : NULL;
}

/* `object` like `x`, where one number may stand for all (a gradient of a sum); a new reference. */
static PyArrayObject *
spread_alike(PyObject *object, PyArrayObject *x)
{
    if (!PyArray_CheckExact(object)) {
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    if (PyArray_TYPE(array) != PyArray_TYPE(x) || !PyArray_SAMESHAPE(array, x)) {
        return NULL;
    }
    int is_one_number = 1;
    for (int d = 0; d < PyArray_NDIM(array); d++) {
        is_one_number &= PyArray_STRIDE(array, d) == 0 || PyArray_DIM(array, d) == 1;
    }
    if (is_one_number && !PyArray_ISCARRAY_RO(array)) {
        return (PyArrayObject *)PyArray_NewCopy(array, NPY_CORDER);
    }
    return (PyArrayObject *)Py_XNewRef((PyObject *)alike(object, x));
}

/* 1 if a parameter is None, or a vector of the size of a row of `x`; `*data` are its elements. */
static int
is_parameter(PyObject *object, PyArrayObject *x, void **data)
{
    *data = NULL;
    if (object == Py_None) {
        return 1;
    }
    PyArrayObject *array = plain(object);
    if (array == NULL || PyArray_TYPE(array) != PyArray_TYPE(x) || PyArray_NDIM(array) != 1 ||
        PyArray_DIM(array, 0) != PyArray_DIM(x, PyArray_NDIM(x) - 1)) {
        return 0;
    }
    *data = PyArray_DATA(array);
    return 1;
}

static npy_intp
row_size(PyArrayObject *x)
{
    return PyArray_DIM(x, PyArray_NDIM(x) - 1);
}

/* An exact integer that fits, else `otherwise`. */
static long long
whole(PyObject *object, long long otherwise)
{
    int overflow = 1;
    long long value = PyLong_Check(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0;
    return overflow ? otherwise : value;
}

static int
is_last_dim(PyObject *dim, PyArrayObject *x)
{
    return whole(dim, -1) == PyArray_NDIM(x) - 1;
}

/* True for (size of a row,): sums over several dims go another way. */
static int
is_row_shape(PyObject *shape, PyArrayObject *x)
{
    return PyTuple_CheckExact(shape) && PyTuple_GET_SIZE(shape) == 1 &&
           whole(PyTuple_GET_ITEM(shape, 0), -1) == row_size(x);
}

static PyArrayObject *
new_like(PyArrayObject *x)
{
    return (PyArrayObject *)PyArray_SimpleNew(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x));
}

/* How many rows go together, and memory for `count` numbers of the dtype, or NULL with an error. */
static npy_intp
rows_at_once(npy_intp rows, npy_intp size)
{
    npy_intp most = size < BLOCK ? BLOCK / size : 1;
    return rows < most ? rows : most;
}

static void *
memory_for(PyArrayObject *x, npy_intp count)
{
    void *memory = PyMem_Malloc((size_t)count * (size_t)PyArray_ITEMSIZE(x));
    return memory == NULL ? PyErr_NoMemory() : memory;
}

/* What follows in `BOTH` once for float and once for double, without the interpreter's lock where
 * that pays; T is the type, AT(array) its elements. */
#define AT(array) ((T *)PyArray_DATA(array))
#define EITHER(x, STATEMENTS)                                                                      \
    do {                                                                                           \
        NPY_BEGIN_THREADS_DEF;                                                                     \
        NPY_BEGIN_THREADS_THRESHOLDED(PyArray_SIZE(x));                                            \
        if (PyArray_TYPE(x) == NPY_FLOAT) {                                                        \
            typedef float T;                                                                       \
            STATEMENTS(float)                                                                      \
        }                                                                                          \
        else {                                                                                     \
            typedef double T;                                                                      \
            STATEMENTS(double)                                                                     \
        }                                                                                          \
        NPY_END_THREADS;                                                                           \
    } while (0)

/* ---- normalisation -------------------------------------------------------------------------- */

/* softmax(x, dim): along the last dim. */
static PyObject *
native_softmax(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    PyArrayObject *x = given == 2 ? plain(args[0]) : NULL;
    if (x == NULL || !is_last_dim(args[1], x)) {
        DECLINE;
    }
    PyArrayObject *result = new_like(x);
    if (result == NULL) {
        return NULL;
    }
    npy_intp size = row_size(x), rows = PyArray_SIZE(x) / size, most = rows_at_once(rows, size);
#define STATEMENTS(S)                                                                              \
    for (npy_intp i = 0; i < rows; i += most)                                                      \
        softmax_##S(AT(x) + i * size, AT(result) + i * size, rows - i < most ? rows - i : most,    \
                    size);
    EITHER(x, STATEMENTS);
#undef STATEMENTS
    return (PyObject *)result;
}

static int
take_log_softmax(PyArrayObject *x, PyArrayObject *result)
{
    npy_intp size = row_size(x), rows = PyArray_SIZE(x) / size, most = rows_at_once(rows, size);
    void *memory = memory_for(x, most * (size + 1));
    if (memory == NULL) {
        return -1;
    }
#define STATEMENTS(S)                                                                              \
    for (npy_intp i = 0; i < rows; i += most)                                                      \
        log_softmax_##S(AT(x) + i * size, AT(result) + i * size,                                   \
                        rows - i < most ? rows - i : most, size, memory);
    EITHER(x, STATEMENTS);
#undef STATEMENTS
    PyMem_Free(memory);
    return 0;
}

/* log_softmax(x, dim): along the last dim. */
static PyObject *
native_log_softmax(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    PyArrayObject *x = given == 2 ? plain(args[0]) : NULL;
    if (x == NULL || !is_last_dim(args[1], x)) {
        DECLINE;
    }
    PyArrayObject *result = new_like(x);
    if (result != NULL && take_log_softmax(x, result) < 0) {
        Py_CLEAR(result);
    }
    return (PyObject *)result;
}

/* layer_norm(x, weight, bias, normalized_shape, eps): over the last dim. */
static PyObject *
native_layer_norm(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    PyArrayObject *x = given == 5 ? plain(args[0]) : NULL;
    void *weight, *bias;
    if (x == NULL || !is_row_shape(args[3], x) || !is_parameter(args[1], x, &weight) ||
        !is_parameter(args[2], x, &bias) || !PyFloat_CheckExact(args[4])) {
        DECLINE;
    }
    npy_intp size = row_size(x), rows = PyArray_SIZE(x) / size;
    double eps = PyFloat_AS_DOUBLE(args[4]);
    PyArrayObject *result = new_like(x);
    void *memory = result == NULL ? NULL : memory_for(x, size);
    if (memory == NULL) {
        Py_XDECREF(result);
        return NULL;
    }
#define STATEMENTS(S) layer_norm_##S(AT(x), weight, bias, AT(result), rows, size, eps, memory);
    EITHER(x, STATEMENTS);
#undef STATEMENTS
    PyMem_Free(memory);
    return (PyObject *)result;
}

/* softmax_slope(g, out, dim): along the last dim. */
static PyObject *
softmax_slope(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    PyArrayObject *out = given == 3 ? plain(args[1]) : NULL;
    PyArrayObject *g = out == NULL || !is_last_dim(args[2], out) ? NULL : spread_alike(args[0], out);
    if (g == NULL) {
        if (PyErr_Occurred()) {
            return NULL;
        }
        DECLINE;
    }
    npy_intp size = row_size(out), rows = PyArray_SIZE(out) / size;
    PyArrayObject *result = new_like(out);
#define STATEMENTS(S) softmax_slope_##S(AT(g), AT(out), AT(result), rows, size);
    if (result != NULL) {
        EITHER(out, STATEMENTS);
    }
#undef STATEMENTS
    Py_DECREF(g);
    return (PyObject *)result;
}

/* log_softmax_slope(g, out, dim): along the last dim. */
static PyObject *
log_softmax_slope(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    PyArrayObject *out = given == 3 ? plain(args[1]) : NULL;
    PyArrayObject *g = out == NULL || !is_last_dim(args[2], out) ? NULL : spread_alike(args[0], out);
    if (g == NULL) {
        if (PyErr_Occurred()) {
            return NULL;
        }
        DECLINE;
    }
    npy_intp size = row_size(out), rows = PyArray_SIZE(out) / size;
    npy_intp most = rows_at_once(rows, size);
    PyArrayObject *result = new_like(out);
#define STATEMENTS(S)                                                                              \
    for (npy_intp i = 0; i < rows; i += most)                                                      \
        log_softmax_slope_##S(AT(g) + i * size, AT(out) + i * size, AT(result) + i * size,         \
                              rows - i < most ? rows - i : most, size);
    if (result != NULL) {
        EITHER(out, STATEMENTS);
    }
#undef STATEMENTS
    Py_DECREF(g);
    return (PyObject *)result;
}

/* layer_norm_slope_x(g, x, weight, normalized_shape, eps): over the last dim. */
static PyObject *
layer_norm_slope_x(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    PyArrayObject *x = given == 5 ? plain(args[1]) : NULL;
    void *weight;
    if (x == NULL || !is_row_shape(args[3], x) || !is_parameter(args[2], x, &weight) ||
        !PyFloat_CheckExact(args[4])) {
        DECLINE;
    }
    PyArrayObject *g = spread_alike(args[0], x);
    if (g == NULL) {
        if (PyErr_Occurred()) {
            return NULL;
        }
        DECLINE;
    }
    npy_intp size = row_size(x), rows = PyArray_SIZE(x) / size;
    double eps = PyFloat_AS_DOUBLE(args[4]);
    PyArrayObject *result = new_like(x);
    void *memory = result == NULL ? NULL : memory_for(x, 2 * size);
#define STATEMENTS(S)                                                                              \
    layer_norm_slope_x_##S(AT(g), AT(x), weight, AT(result), rows, size, eps, memory);
    if (memory != NULL) {
        EITHER(x, STATEMENTS);
    }
    else {
        Py_CLEAR(result);
    }
#undef STATEMENTS
    PyMem_Free(memory);
    Py_DECREF(g);
    return (PyObject *)result;
}

/* layer_norm_slope_weight(g, x, normalized_shape, eps): over the last dim; a row for each row. */
static PyObject *
layer_norm_slope_weight(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    PyArrayObject *x = given == 4 ? plain(args[1]) : NULL;
    if (x == NULL || !is_row_shape(args[2], x) || !PyFloat_CheckExact(args[3])) {
        DECLINE;
    }
    PyArrayObject *g = spread_alike(args[0], x);
    if (g == NULL) {
        if (PyErr_Occurred()) {
            return NULL;
        }
        DECLINE;
    }
    npy_intp size = row_size(x), rows = PyArray_SIZE(x) / size;
    double eps = PyFloat_AS_DOUBLE(args[3]);
    PyArrayObject *result = new_like(x);
    void *memory = result == NULL ? NULL : memory_for(x, size);
#define STATEMENTS(S)                                                                              \
    layer_norm_slope_weight_##S(AT(g), AT(x), AT(result), rows, size, eps, memory);
    if (memory != NULL) {
        EITHER(x, STATEMENTS);
    }
    else {
        Py_CLEAR(result);
    }
#undef STATEMENTS
    PyMem_Free(memory);
    Py_DECREF(g);
    return (PyObject *)result;
}

/* ---- functions of one element --------------------------------------------------------------- */

/* leaky_relu(x, negative_slope). */
static PyObject *
native_leaky_relu(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    PyArrayObject *x = given == 2 && PyFloat_CheckExact(args[1]) ? plain(args[0]) : NULL;
    if (x == NULL) {
        DECLINE;
    }
    PyArrayObject *result = new_like(x);
    double slope = PyFloat_AS_DOUBLE(args[1]);
#define STATEMENTS(S) leaky_relu_##S(AT(x), AT(result), PyArray_SIZE(x), slope);
    if (result != NULL) {
        EITHER(x, STATEMENTS);
    }
#undef STATEMENTS
    return (PyObject *)result;
}

/* A bound that is a Python number which no dtype rounds where it is not one of floats. */
static int
read_bound(PyObject *number, double *bound)
{
    if (PyFloat_CheckExact(number)) {
        *bound = PyFloat_AS_DOUBLE(number);
        return 1;
    }
    long long value = PyLong_CheckExact(number) ? whole(number, INT64_MAX) : INT64_MAX;
    *bound = (double)value;
    return value >= -(1 << 24) && value <= 1 << 24;
}

/* x between two bounds, of which either may be none. */
static PyObject *
bounded(PyArrayObject *x, const double *least, const double *most)
{
    PyArrayObject *result = new_like(x), *from = least == NULL ? x : result;
#define STATEMENTS(S)                                                                              \
    if (least != NULL) at_least_##S(AT(x), AT(result), PyArray_SIZE(x), *least);                   \
    if (most != NULL) at_most_##S(AT(from), AT(result), PyArray_SIZE(x), *most);
    if (result != NULL) {
        EITHER(x, STATEMENTS);
    }
#undef STATEMENTS
    return (PyObject *)result;
}

/* relu(x). */
static PyObject *
native_relu(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    double zero = 0;
    PyArrayObject *x = given == 1 ? plain(args[0]) : NULL;
    if (x == NULL) {
        DECLINE;
    }
    return bounded(x, &zero, NULL);
}

/* clamp(x, min, max): of Python numbers, as `clamp_min` and `clamp_max`. */
static PyObject *
native_clamp(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    double least, most;
    PyArrayObject *x = given == 3 ? plain(args[0]) : NULL;
    if (x == NULL || !read_bound(args[1], &least) || !read_bound(args[2], &most)) {
        DECLINE;
    }
    return bounded(x, &least, &most);
}

/* clamp_min(x, min). */
static PyObject *
native_clamp_min(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    double least;
    PyArrayObject *x = given == 2 ? plain(args[0]) : NULL;
    if (x == NULL || !read_bound(args[1], &least)) {
        DECLINE;
    }
    return bounded(x, &least, NULL);
}

/* clamp_max(x, max). */
static PyObject *
native_clamp_max(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    double most;
    PyArrayObject *x = given == 2 ? plain(args[0]) : NULL;
    if (x == NULL || !read_bound(args[1], &most)) {
        DECLINE;
    }
    return bounded(x, NULL, &most);
}

#define POWERED(name)                                                                              \
    static PyObject *native_##name(PyObject *module, PyObject *const *args, Py_ssize_t given)      \
    {                                                                                              \
        PyArrayObject *x = given == 1 ? plain(args[0]) : NULL;                                     \
        if (x == NULL) {                                                                           \
            DECLINE;                                                                               \
        }                                                                                          \
        npy_intp count = PyArray_SIZE(x);                                                          \
        double powers[BLOCK];                                                                      \
        PyArrayObject *result = new_like(x);                                                       \
        if (result != NULL) {                                                                      \
            EITHER(x, STATEMENTS);                                                                 \
        }                                                                                          \
        return (PyObject *)result;                                                                 \
    }
#define BLOCKS(function)                                                                           \
    for (npy_intp i = 0; i < count; i += BLOCK)                                                    \
        function(AT(x) + i, AT(result) + i, count - i < BLOCK ? count - i : BLOCK, (T *)powers);

/* sigmoid(x) and silu(x). */
#define STATEMENTS(S) BLOCKS(sigmoid_##S)
POWERED(sigmoid)
#undef STATEMENTS
#define STATEMENTS(S) BLOCKS(silu_##S)
POWERED(silu)
#undef STATEMENTS

/* ---- rows of a table ------------------------------------------------------------------------ */

/* The integers of an index that lies row by row and stays below `size`; NULL for others. */
static const int64_t *
positions(PyObject *object, npy_intp size)
{
    if (!PyArray_CheckExact(object)) {
        return NULL;
    }
    PyArrayObject *index = (PyArrayObject *)object;
    if (PyArray_TYPE(index) != NPY_INT64 || !PyArray_ISCARRAY_RO(index)) {
        return NULL;
    }
    const int64_t *at = PyArray_DATA(index);
    for (npy_intp i = 0; i < PyArray_SIZE(index); i++) {
        if (at[i] < 0 || at[i] >= size) {
            return NULL;
        }
    }
    return at;
}

/* embedding(weight, indices, padding_idx): of a matrix of float32 or float64. */
static PyObject *
native_embedding(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp sizes[NPY_MAXDIMS];
    PyArrayObject *weight = given == 3 ? plain(args[0]) : NULL;
    const int64_t *at = weight == NULL || PyArray_NDIM(weight) != 2
                            ? NULL
                            : positions(args[1], PyArray_DIM(weight, 0));
    PyArrayObject *index = at == NULL ? NULL : (PyArrayObject *)args[1];
    int rank = index == NULL ? NPY_MAXDIMS : PyArray_NDIM(index);
    if (rank >= NPY_MAXDIMS) {
        DECLINE;
    }
    memcpy(sizes, PyArray_DIMS(index), (size_t)rank * sizeof(npy_intp));
    sizes[rank] = PyArray_DIM(weight, 1);
    PyObject *result = PyArray_SimpleNew(rank + 1, sizes, PyArray_TYPE(weight));
    if (result == NULL) {
        return NULL;
    }
    size_t bytes = (size_t)sizes[rank] * (size_t)PyArray_ITEMSIZE(weight);
    char *to = PyArray_BYTES((PyArrayObject *)result);
    NPY_BEGIN_THREADS_DEF;
    NPY_BEGIN_THREADS_THRESHOLDED(PyArray_SIZE((PyArrayObject *)result));
    for (npy_intp i = 0; i < PyArray_SIZE(index); i++, to += bytes) {
        memcpy(to, PyArray_BYTES(weight) + (size_t)at[i] * bytes, bytes);
    }
    NPY_END_THREADS;
    return result;
}

/* ---- joining -------------------------------------------------------------------------------- */

/* True for arrays of one dtype and rank, row by row, of one shape but for the size of `dim` (-1: of
 * one shape). `count` arrays, then the dim. */
static int
are_joinable(PyObject *const *args, Py_ssize_t count, long long dim)
{
    if (count < 1 || !PyArray_CheckExact(args[0])) {
        return 0;
    }
    PyArrayObject *first = (PyArrayObject *)args[0];
    PyArray_Descr *descr = PyArray_DESCR(first);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyArrayObject *x = (PyArrayObject *)args[i];
        if (!PyArray_CheckExact(args[i]) || PyArray_DESCR(x) != descr ||
            !PyArray_ISCARRAY_RO(x) || PyArray_NDIM(x) != PyArray_NDIM(first)) {
            return 0;
        }
        for (int d = 0; d < PyArray_NDIM(x); d++) {
            if (d != dim && PyArray_DIM(x, d) != PyArray_DIM(first, d)) {
                return 0;
            }
        }
    }
    return !PyDataType_REFCHK(descr);
}

/* A new array with these sizes: an `outer`-th part of each array in turn, then the next parts. */
static PyObject *
joined(PyObject *const *args, Py_ssize_t count, int rank, npy_intp *sizes, npy_intp outer)
{
    PyArray_Descr *descr = PyArray_DESCR((PyArrayObject *)args[0]);
    Py_INCREF(descr); /* the array takes it */
    PyObject *result = PyArray_Empty(rank, sizes, descr, 0);
    if (result == NULL || outer == 0) {
        return result;
    }
    char *to = PyArray_BYTES((PyArrayObject *)result);
    NPY_BEGIN_THREADS_DEF;
    NPY_BEGIN_THREADS_THRESHOLDED(PyArray_SIZE((PyArrayObject *)result));
    for (npy_intp o = 0; o < outer; o++) {
        for (Py_ssize_t i = 0; i < count; i++) {
            PyArrayObject *x = (PyArrayObject *)args[i];
            size_t bytes = (size_t)(PyArray_NBYTES(x) / outer);
            memcpy(to, PyArray_BYTES(x) + (size_t)o * bytes, bytes);
            to += bytes;
        }
    }
    NPY_END_THREADS;
    return result;
}

/* cat(*arrays, dim). */
static PyObject *
native_cat(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp sizes[NPY_MAXDIMS], outer = 1;
    Py_ssize_t count = given - 1;
    long long dim = count < 1 ? -1 : whole(args[count], -1);
    if (dim < 0 || !are_joinable(args, count, dim)) {
        DECLINE;
    }
    int rank = PyArray_NDIM((PyArrayObject *)args[0]);
    if (dim >= rank) {
        DECLINE;
    }
    memcpy(sizes, PyArray_DIMS((PyArrayObject *)args[0]), (size_t)rank * sizeof(npy_intp));
    for (Py_ssize_t i = 1; i < count; i++) {
        sizes[dim] += PyArray_DIM((PyArrayObject *)args[i], (int)dim);
    }
    for (int d = 0; d < dim; d++) {
        outer *= sizes[d];
    }
    return joined(args, count, rank, sizes, outer);
}

/* stack(*arrays, dim). */
static PyObject *
native_stack(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp sizes[NPY_MAXDIMS], outer = 1;
    Py_ssize_t count = given - 1;
    long long dim = count < 1 ? -1 : whole(args[count], -1);
    if (dim < 0 || !are_joinable(args, count, -1)) {
        DECLINE;
    }
    PyArrayObject *first = (PyArrayObject *)args[0];
    int rank = PyArray_NDIM(first) + 1;
    if (dim >= rank || rank > NPY_MAXDIMS) {
        DECLINE;
    }
    for (int d = 0; d < rank; d++) {
        sizes[d] = d == dim ? count : PyArray_DIM(first, d < dim ? d : d - 1);
        outer *= d < dim ? sizes[d] : 1;
    }
    return joined(args, count, rank, sizes, outer);
}

/* ---- losses --------------------------------------------------------------------------------- */

/* True for classes 0 .. C-1, one for each of `count` samples, none of them ignored. */
static int
are_classes(PyObject *object, npy_intp count, npy_intp classes, long long ignored)
{
    if (!PyArray_CheckExact(object)) {
        return 0;
    }
    PyArrayObject *target = (PyArrayObject *)object;
    if (PyArray_TYPE(target) != NPY_INT64 || !PyArray_ISCARRAY_RO(target) ||
        PyArray_NDIM(target) != 1 || PyArray_DIM(target, 0) != count) {
        return 0;
    }
    const int64_t *chosen = PyArray_DATA(target);
    for (npy_intp i = 0; i < count; i++) {
        if (chosen[i] < 0 || chosen[i] >= classes || chosen[i] == ignored) {
            return 0;
        }
    }
    return 1;
}

typedef enum { NONE, SUM, MEAN, UNKNOWN } Reducing;

static Reducing
reducing_of(PyObject *text)
{
    static const char *const texts[] = {"none", "sum", "mean"};
    for (int i = 0; i < 3; i++) {
        if (PyUnicode_Check(text) && PyUnicode_CompareWithASCIIString(text, texts[i]) == 0) {
            return (Reducing)i;
        }
    }
    return UNKNOWN;
}

/* The losses of all samples, given the logarithms of probabilities, reduced. */
static PyObject *
chosen_losses(PyArrayObject *logs, const int64_t *chosen, Reducing reducing)
{
    npy_intp count = PyArray_DIM(logs, 0), classes = PyArray_DIM(logs, 1);
    PyArrayObject *losses =
        (PyArrayObject *)PyArray_SimpleNew(1, &count, PyArray_TYPE(logs));
    if (losses == NULL) {
        return NULL;
    }
#define STATEMENTS(S)                                                                              \
    for (npy_intp i = 0; i < count; i++) AT(losses)[i] = -AT(logs)[i * classes + chosen[i]];
    EITHER(losses, STATEMENTS);
#undef STATEMENTS
    if (reducing == NONE) {
        return (PyObject *)losses;
    }
    PyArrayObject *total = (PyArrayObject *)PyArray_SimpleNew(0, NULL, PyArray_TYPE(logs));
#define STATEMENTS(S)                                                                              \
    *AT(total) = sum_##S(AT(losses), count) / (reducing == MEAN ? (T)count : (T)1);
    if (total != NULL) {
        EITHER(losses, STATEMENTS);
    }
#undef STATEMENTS
    Py_DECREF(losses);
    return (PyObject *)total;
}

/* nll_loss(x, target, weight, reduction, ignore_index): x (N, C), no weight, nothing ignored. */
static PyObject *
native_nll_loss(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    PyArrayObject *x = given == 5 ? plain(args[0]) : NULL;
    if (x == NULL || PyArray_NDIM(x) != 2 || args[2] != Py_None) {
        DECLINE;
    }
    Reducing reducing = reducing_of(args[3]);
    if (reducing == UNKNOWN || !are_classes(args[1], PyArray_DIM(x, 0), PyArray_DIM(x, 1),
                                            whole(args[4], INT64_MIN))) {
        DECLINE;
    }
    return chosen_losses(x, PyArray_DATA((PyArrayObject *)args[1]), reducing);
}

/* cross_entropy(x, target, weight, reduction, ignore_index, label_smoothing): as `nll_loss`, without
 * smoothing. */
static PyObject *
native_cross_entropy(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    PyArrayObject *x = given == 6 ? plain(args[0]) : NULL;
    if (x == NULL || PyArray_NDIM(x) != 2 || args[2] != Py_None || !PyFloat_CheckExact(args[5]) ||
        PyFloat_AS_DOUBLE(args[5]) != 0.0) {
        DECLINE;
    }
    Reducing reducing = reducing_of(args[3]);
    if (reducing == UNKNOWN || !are_classes(args[1], PyArray_DIM(x, 0), PyArray_DIM(x, 1),
                                            whole(args[4], INT64_MIN))) {
        DECLINE;
    }
    PyArrayObject *logs = new_like(x);
    PyObject *result = NULL;
    if (logs != NULL && take_log_softmax(x, logs) == 0) {
        result = chosen_losses(logs, PyArray_DATA((PyArrayObject *)args[1]), reducing);
    }
    Py_XDECREF(logs);
    return result;
}

/* The sizes (N, C) of a tensor type; 0 if it has other ranks. */
static int
matrix_sizes(PyObject *type, npy_intp *sizes)
{
    PyObject *shape = PyObject_GetAttr(type, name_shape);
    if (shape == NULL) {
        PyErr_Clear();
        return 0;
    }
    int fits = PyTuple_CheckExact(shape) && PyTuple_GET_SIZE(shape) == 2;
    for (int d = 0; fits && d < 2; d++) {
        sizes[d] = (npy_intp)whole(PyTuple_GET_ITEM(shape, d), 0);
        fits = sizes[d] > 0;
    }
    Py_DECREF(shape);
    return fits;
}

/* embedding_slope(g, weight_type, indices, padding_idx): rows are added in the order of the indices. */
static PyObject *
embedding_slope(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp sizes[2];
    PyArrayObject *g = given == 4 ? plain(args[0]) : NULL;
    if (g == NULL || !matrix_sizes(args[1], sizes) || row_size(g) != sizes[1]) {
        DECLINE;
    }
    const int64_t *at = positions(args[2], sizes[0]);
    long long padding = args[3] == Py_None ? -1 : whole(args[3], INT64_MIN);
    if (at == NULL || padding == INT64_MIN ||
        PyArray_SIZE(g) != PyArray_SIZE((PyArrayObject *)args[2]) * sizes[1]) {
        DECLINE;
    }
    PyArrayObject *result = (PyArrayObject *)PyArray_ZEROS(2, sizes, PyArray_TYPE(g), 0);
    if (result == NULL) {
        return NULL;
    }
    npy_intp count = PyArray_SIZE(g) / sizes[1];
#define STATEMENTS(S)                                                                              \
    for (npy_intp i = 0; i < count; i++) {                                                         \
        T *sum = AT(result) + at[i] * sizes[1];                                                    \
        const T *row = AT(g) + i * sizes[1];                                                       \
        for (npy_intp j = 0; at[i] != padding && j < sizes[1]; j++) sum[j] += row[j];              \
    }
    EITHER(g, STATEMENTS);
#undef STATEMENTS
    return (PyObject *)result;
}

/* nll_loss_slope(g, x_type, target, weight, reduction, ignore_index): as `nll_loss`. */
static PyObject *
nll_loss_slope(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp sizes[2];
    if (given != 6 || !PyArray_CheckExact(args[0]) || args[3] != Py_None ||
        !matrix_sizes(args[1], sizes)) {
        DECLINE;
    }
    PyArrayObject *g = (PyArrayObject *)args[0];
    Reducing reducing = reducing_of(args[4]);
    int type = PyArray_TYPE(g), rank = reducing == NONE ? 1 : 0;
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || reducing == UNKNOWN ||
        PyArray_NDIM(g) != rank || (rank && PyArray_DIM(g, 0) != sizes[0]) ||
        !PyArray_ISBEHAVED_RO(g) ||
        !are_classes(args[2], sizes[0], sizes[1], whole(args[5], INT64_MIN))) {
        DECLINE;
    }
    PyArrayObject *result = (PyArrayObject *)PyArray_ZEROS(2, sizes, type, 0);
    if (result == NULL) {
        return NULL;
    }
    const int64_t *chosen = PyArray_DATA((PyArrayObject *)args[2]);
    npy_intp step = rank ? PyArray_STRIDE(g, 0) : 0;
#define STATEMENTS(S)                                                                              \
    for (npy_intp i = 0; i < sizes[0]; i++) {                                                      \
        const T slope = *(const T *)(PyArray_BYTES(g) + i * step);                                 \
        AT(result)[i * sizes[1] + chosen[i]] = -(reducing == MEAN ? slope / (T)sizes[0] : slope);  \
    }
    EITHER(result, STATEMENTS);
#undef STATEMENTS
    return (PyObject *)result;
}

/* ---- tensors of numbers --------------------------------------------------------------------- */

/* The sizes of a shape; -1 if one is no plain integer, negative, or there are too many. */
static int
read_sizes(PyObject *shape, npy_intp *sizes)
{
    if (!PyTuple_CheckExact(shape) || PyTuple_GET_SIZE(shape) > NPY_MAXDIMS) {
        return -1;
    }
    for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(shape); d++) {
        PyObject *size = PyTuple_GET_ITEM(shape, d);
        sizes[d] = PyLong_CheckExact(size) ? (npy_intp)whole(size, -1) : -1;
        if (sizes[d] < 0) {
            return -1;
        }
    }
    return (int)PyTuple_GET_SIZE(shape);
}

/* As `read_sizes`, of numbers that may be negative. */
static int
read_strides(PyObject *given, npy_intp *strides)
{
    if (!PyTuple_CheckExact(given) || PyTuple_GET_SIZE(given) > NPY_MAXDIMS) {
        return -1;
    }
    for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(given); d++) {
        long long stride = whole(PyTuple_GET_ITEM(given, d), LLONG_MIN);
        if (stride == LLONG_MIN) {
            return -1;
        }
        strides[d] = (npy_intp)stride;
    }
    return (int)PyTuple_GET_SIZE(given);
}

/* How many elements there are with these sizes; -1 where that is too large a number. */
static npy_intp
count_of(int rank, const npy_intp *sizes)
{
    npy_intp count = 1;
    for (int d = 0; d < rank; d++) {
        if (sizes[d] != 0 && count > NPY_MAX_INTP / sizes[d]) {
            return -1;
        }
        count *= sizes[d];
    }
    return count;
}

/* The NumPy dtype of a DType on the CPU, a new reference; NULL for another device. */
static PyArray_Descr *
dtype_on_cpu(PyObject *dtype, PyObject *device)
{
    PyObject *descr = device == cpu ? PyObject_GetAttr(dtype, name_numpy) : NULL;
    if (descr != NULL && !PyArray_DescrCheck(descr)) {
        Py_CLEAR(descr);
    }
    PyErr_Clear();
    return (PyArray_Descr *)descr;
}

static int
is_zero(PyObject *value)
{
    if (PyFloat_CheckExact(value)) {
        return PyFloat_AS_DOUBLE(value) == 0.0 && !signbit(PyFloat_AS_DOUBLE(value));
    }
    return PyLong_Check(value) && whole(value, 1) == 0;
}

#define FILL(T, number)                                                                            \
    for (npy_intp i = 0; i < count; i++) ((T *)data)[i] = (T)(number)

/* Every element the number; 0 if the dtype is to be filled another way. */
static int
fill(PyArrayObject *array, PyObject *value)
{
    npy_intp count = PyArray_SIZE(array);
    void *data = PyArray_DATA(array);
    int type = PyArray_TYPE(array);
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        if (type == NPY_FLOAT) FILL(float, number);
        else if (type == NPY_DOUBLE) FILL(double, number);
        else return 0;
        return 1;
    }
    long long number = whole(value, INT64_MIN);
    if (number == INT64_MIN) {
        return 0;
    }
    if (type == NPY_FLOAT) FILL(float, number);
    else if (type == NPY_DOUBLE) FILL(double, number);
    else if (type == NPY_INT64) FILL(int64_t, number);
    else if (type == NPY_BOOL) FILL(npy_bool, number != 0);
    else return 0;
    return 1;
}

/* full(value, shape, dtype, device): of a Python number, on the CPU. */
static PyObject *
native_full(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp sizes[NPY_MAXDIMS];
    if (given != 4 || !(PyFloat_CheckExact(args[0]) || PyLong_Check(args[0]))) {
        DECLINE;
    }
    int rank = read_sizes(args[1], sizes), zeros = is_zero(args[0]);
    PyArray_Descr *descr = rank < 0 ? NULL : dtype_on_cpu(args[2], args[3]);
    if (descr == NULL) {
        DECLINE;
    }
    PyObject *result = zeros ? PyArray_Zeros(rank, sizes, descr, 0)
                             : PyArray_Empty(rank, sizes, descr, 0); /* either takes `descr` */
    if (result == NULL || zeros || fill((PyArrayObject *)result, args[0])) {
        return result;
    }
    Py_DECREF(result);
    DECLINE;
}

/* arange(start, step, size, dtype, device): of integers, or of floats as floats, on the CPU. */
static PyObject *
native_arange(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp count = given == 5 && PyLong_CheckExact(args[2]) ? (npy_intp)whole(args[2], -1) : -1;
    if (count < 0) {
        DECLINE;
    }
    int are_whole = PyLong_CheckExact(args[0]) && PyLong_CheckExact(args[1]);
    uint64_t first = are_whole ? (uint64_t)whole(args[0], INT64_MIN) : 0;
    uint64_t step = are_whole ? (uint64_t)whole(args[1], INT64_MIN) : 0;
    if ((int64_t)first == INT64_MIN || (int64_t)step == INT64_MIN ||
        !(are_whole || (PyFloat_CheckExact(args[0]) && PyFloat_CheckExact(args[1])))) {
        DECLINE;
    }
    PyArray_Descr *descr = dtype_on_cpu(args[3], args[4]);
    int type = descr == NULL ? NPY_NOTYPE : descr->type_num;
    Py_XDECREF(descr);
    if (type != NPY_FLOAT && type != NPY_DOUBLE && (type != NPY_INT64 || !are_whole)) {
        DECLINE;
    }
    PyObject *result = PyArray_SimpleNew(1, &count, type);
    void *data = result == NULL ? NULL : PyArray_DATA((PyArrayObject *)result);
    if (result == NULL) {
        return NULL;
    }
    double start = are_whole ? 0 : PyFloat_AS_DOUBLE(args[0]);
    double by = are_whole ? 0 : PyFloat_AS_DOUBLE(args[1]);
    if (type == NPY_INT64) FILL(int64_t, first + step * (uint64_t)i);
    else if (type == NPY_FLOAT && are_whole) FILL(float, (int64_t)(first + step * (uint64_t)i));
    else if (type == NPY_FLOAT) FILL(float, start + (double)i * by);
    else if (are_whole) FILL(double, (int64_t)(first + step * (uint64_t)i));
    else FILL(double, start + (double)i * by);
    return result;
}

/* ---- views ---------------------------------------------------------------------------------- */

/* x with other sizes and strides, `offset` bytes further on; `flags` of those of x hold. */
static PyObject *
part_of(PyArrayObject *x, int rank, npy_intp *sizes, npy_intp *strides, npy_intp offset, int flags)
{
    PyArray_Descr *descr = PyArray_DESCR(x);
    Py_INCREF(descr); /* the view takes it */
    PyObject *view = PyArray_NewFromDescr(&PyArray_Type, descr, rank, sizes, strides,
                                          PyArray_BYTES(x) + offset, PyArray_FLAGS(x) & flags,
                                          NULL);
    if (view != NULL &&
        PyArray_SetBaseObject((PyArrayObject *)view, Py_NewRef((PyObject *)x)) < 0) {
        Py_CLEAR(view);
    }
    return view;
}

/* Row-major strides; a size of 0 counts as 1. */
static void
row_major_strides(int rank, const npy_intp *sizes, npy_intp step, npy_intp *strides)
{
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= sizes[d] > 1 ? sizes[d] : 1;
    }
}

/* Strides of x, which has elements, under other sizes of as many elements: those of PyTorch, also
 * where a size is 1; 0 where only a copy has these sizes. Dims of x that lie in memory as one are
 * a run, and new dims are filled from the last run on. */
static int
view_strides(PyArrayObject *x, int rank, const npy_intp *sizes, npy_intp *strides)
{
    int left = rank - 1, last = PyArray_NDIM(x) - 1;
    npy_intp run = 1, filled = 1, step = last < 0 ? PyArray_ITEMSIZE(x) : PyArray_STRIDE(x, last);
    for (int d = last; d >= 0; d--) {
        run *= PyArray_DIM(x, d);
        if (d > 0 && (PyArray_DIM(x, d - 1) == 1 || PyArray_STRIDE(x, d - 1) == run * step)) {
            continue;
        }
        for (; left >= 0 && (filled < run || sizes[left] == 1); left--) {
            strides[left] = filled * step;
            filled *= sizes[left];
        }
        if (filled != run) {
            return 0;
        }
        run = filled = 1;
        step = d > 0 ? PyArray_STRIDE(x, d - 1) : step;
    }
    for (; last < 0 && left >= 0; left--) {
        strides[left] = step;
    }
    return left < 0;
}

/* reshape(x, shape): a view where there is one, else a copy. */
static PyObject *
native_reshape(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp sizes[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    int rank = given == 2 && PyArray_CheckExact(args[0]) ? read_sizes(args[1], sizes) : -1;
    PyArrayObject *x = rank < 0 ? NULL : (PyArrayObject *)args[0];
    npy_intp count = x == NULL ? -1 : count_of(rank, sizes);
    if (count < 0 || count != PyArray_SIZE(x)) {
        DECLINE;
    }
    if (count == 0) {
        row_major_strides(rank, sizes, PyArray_ITEMSIZE(x), strides);
    }
    else if (!view_strides(x, rank, sizes, strides)) {
        PyArray_Dims shape = {sizes, rank};
        return PyArray_Newshape(x, &shape, NPY_CORDER);
    }
    return part_of(x, rank, sizes, strides, 0, NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE);
}

/* permute(x, dims). */
static PyObject *
native_permute(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp order[NPY_MAXDIMS];
    int rank = given == 2 && PyArray_CheckExact(args[0]) ? read_sizes(args[1], order) : -1;
    if (rank < 0 || rank != PyArray_NDIM((PyArrayObject *)args[0])) {
        DECLINE;
    }
    PyArray_Dims dims = {order, rank};
    return PyArray_Transpose((PyArrayObject *)args[0], &dims);
}

/* laid_out(x, order): a copy with its dims in that order in memory. */
static PyObject *
native_laid_out(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp order[NPY_MAXDIMS], inverse[NPY_MAXDIMS];
    int rank = given == 2 && PyArray_CheckExact(args[0]) ? read_sizes(args[1], order) : -1;
    if (rank < 0 || rank != PyArray_NDIM((PyArrayObject *)args[0])) {
        DECLINE;
    }
    for (int place = 0; place < rank; place++) {
        inverse[place] = -1;
    }
    int moves = 0;
    for (int place = 0; place < rank; place++) {
        npy_intp dim = order[place];
        if (dim < 0 || dim >= rank || inverse[dim] >= 0) {
            DECLINE;
        }
        inverse[dim] = place;
        moves |= dim != place;
    }
    if (!moves) {
        return PyArray_NewCopy((PyArrayObject *)args[0], NPY_CORDER);
    }
    PyArray_Dims dims = {order, rank}, back = {inverse, rank};
    PyObject *turned = PyArray_Transpose((PyArrayObject *)args[0], &dims);
    PyObject *copy =
        turned == NULL ? NULL : PyArray_NewCopy((PyArrayObject *)turned, NPY_CORDER);
    PyObject *result = copy == NULL ? NULL : PyArray_Transpose((PyArrayObject *)copy, &back);
    Py_XDECREF(turned);
    Py_XDECREF(copy);
    return result;
}

/* slice(x, start, stop, step): bounds within the sizes, steps that are positive. */
static PyObject *
native_slice(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp start[NPY_MAXDIMS], stop[NPY_MAXDIMS], step[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    PyArrayObject *x =
        given == 4 && PyArray_CheckExact(args[0]) ? (PyArrayObject *)args[0] : NULL;
    int rank = x == NULL ? -1 : PyArray_NDIM(x);
    if (rank < 0 || read_sizes(args[1], start) != rank || read_sizes(args[2], stop) != rank ||
        read_sizes(args[3], step) != rank) {
        DECLINE;
    }
    npy_intp offset = 0;
    for (int d = 0; d < rank; d++) {
        if (step[d] < 1 || start[d] > stop[d] || stop[d] > PyArray_DIM(x, d)) {
            DECLINE;
        }
        npy_intp length = stop[d] - start[d]; /* what is empty stays at its place, as in NumPy */
        stop[d] = length == 0 ? 0 : (length - 1) / step[d] + 1;
        strides[d] = PyArray_STRIDE(x, d) * (length == 0 ? 1 : step[d]);
        offset += PyArray_STRIDE(x, d) * (length == 0 ? 0 : start[d]);
    }
    return part_of(x, rank, stop, strides, offset, NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE);
}

/* select(x, dim, index): an index from the front. */
static PyObject *
native_select(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp sizes[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    PyArrayObject *x =
        given == 3 && PyArray_CheckExact(args[0]) ? (PyArrayObject *)args[0] : NULL;
    int rank = x == NULL ? 0 : PyArray_NDIM(x);
    long long dim = rank == 0 ? -1 : whole(args[1], -1), at = rank == 0 ? -1 : whole(args[2], -1);
    if (dim < 0 || dim >= rank || at < 0 || at >= PyArray_DIM(x, (int)dim)) {
        DECLINE;
    }
    for (int d = 0, kept = 0; d < rank; d++) {
        if (d != dim) {
            sizes[kept] = PyArray_DIM(x, d);
            strides[kept++] = PyArray_STRIDE(x, d);
        }
    }
    return part_of(x, rank - 1, sizes, strides, PyArray_STRIDE(x, (int)dim) * at,
                   NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE);
}

/* expand(x, shape): where elements are repeated, nobody may write. Strides are those of PyTorch,
 * also where a size is 1. */
static PyObject *
native_expand(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp sizes[NPY_MAXDIMS], strides[NPY_MAXDIMS], outer = 1;
    int rank = given == 2 && PyArray_CheckExact(args[0]) ? read_sizes(args[1], sizes) : -1;
    PyArrayObject *x = rank < 0 ? NULL : (PyArrayObject *)args[0];
    int extra = x == NULL ? -1 : rank - PyArray_NDIM(x);
    if (extra < 0) {
        DECLINE;
    }
    for (int d = rank - 1; d >= 0; d--) {
        npy_intp own = d < extra ? 1 : PyArray_DIM(x, d - extra);
        if (own != 1 && own != sizes[d]) {
            DECLINE;
        }
        strides[d] = d < extra ? outer : PyArray_STRIDE(x, d - extra);
        if (own != sizes[d] || extra == rank) {
            strides[d] = 0;
        }
        outer = sizes[d] * strides[d];
    }
    npy_intp count = count_of(rank, sizes);
    if (count < 0) {
        DECLINE;
    }
    int flags = NPY_ARRAY_ALIGNED | (count == PyArray_SIZE(x) ? NPY_ARRAY_WRITEABLE : 0);
    return part_of(x, rank, sizes, strides, 0, flags);
}

/* strided(x, sizes, strides, offset): memory of x, in bytes, from `offset` behind its first one; the
 * caller sees to it that it stays within that memory. */
static PyObject *
native_strided(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    npy_intp sizes[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    int rank = given == 4 && PyArray_CheckExact(args[0]) ? read_sizes(args[1], sizes) : -1;
    long long offset = rank < 0 ? 0 : whole(args[3], LLONG_MIN);
    if (rank < 0 || read_strides(args[2], strides) != rank || offset == LLONG_MIN) {
        DECLINE;
    }
    return part_of((PyArrayObject *)args[0], rank, sizes, strides, (npy_intp)offset,
                   NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE);
}

/* detach(x): the array itself. */
static PyObject *
native_detach(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    if (given != 1 || !PyArray_CheckExact(args[0])) {
        DECLINE;
    }
    return Py_NewRef(args[0]);
}

/* ---- the module ----------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    METHOD("softmax", native_softmax, "softmax(x, dim) -> array or NotImplemented."),
    METHOD("log_softmax", native_log_softmax, "log_softmax(x, dim) -> array or NotImplemented."),
    METHOD("layer_norm", native_layer_norm,
           "layer_norm(x, weight, bias, normalized_shape, eps) -> array or NotImplemented."),
    METHOD("nll_loss", native_nll_loss,
           "nll_loss(x, target, weight, reduction, ignore_index) -> array or NotImplemented."),
    METHOD("cross_entropy", native_cross_entropy,
           "cross_entropy(x, target, weight, reduction, ignore_index, label_smoothing) -> array or"
           " NotImplemented."),
    METHOD("leaky_relu", native_leaky_relu, "leaky_relu(x, slope) -> array or NotImplemented."),
    METHOD("relu", native_relu, "relu(x) -> array or NotImplemented."),
    METHOD("clamp", native_clamp, "clamp(x, min, max) -> array or NotImplemented."),
    METHOD("clamp_min", native_clamp_min, "clamp_min(x, min) -> array or NotImplemented."),
    METHOD("clamp_max", native_clamp_max, "clamp_max(x, max) -> array or NotImplemented."),
    METHOD("sigmoid", native_sigmoid, "sigmoid(x) -> array or NotImplemented."),
    METHOD("silu", native_silu, "silu(x) -> array or NotImplemented."),
    METHOD("embedding", native_embedding,
           "embedding(weight, indices, padding_idx) -> array or NotImplemented."),
    METHOD("cat", native_cat, "cat(*arrays, dim) -> array or NotImplemented."),
    METHOD("stack", native_stack, "stack(*arrays, dim) -> array or NotImplemented."),
    METHOD("full", native_full, "full(value, shape, dtype, device) -> array or NotImplemented."),
    METHOD("arange", native_arange,
           "arange(start, step, size, dtype, device) -> array or NotImplemented."),
    METHOD("reshape", native_reshape, "reshape(x, shape) -> array or NotImplemented."),
    METHOD("laid_out", native_laid_out, "laid_out(x, order) -> array or NotImplemented."),
    METHOD("permute", native_permute, "permute(x, dims) -> array or NotImplemented."),
    METHOD("expand", native_expand, "expand(x, shape) -> array or NotImplemented."),
    METHOD("slice", native_slice, "slice(x, start, stop, step) -> array or NotImplemented."),
    METHOD("select", native_select, "select(x, dim, index) -> array or NotImplemented."),
    METHOD("detach", native_detach, "detach(x) -> array or NotImplemented."),
    METHOD("strided", native_strided,
           "strided(x, sizes, strides, offset), in bytes -> array or NotImplemented."),
    METHOD("softmax_slope", softmax_slope, "softmax_slope(g, out, dim)."),
    METHOD("log_softmax_slope", log_softmax_slope, "log_softmax_slope(g, out, dim)."),
    METHOD("layer_norm_slope_x", layer_norm_slope_x,
           "layer_norm_slope_x(g, x, weight, normalized_shape, eps)."),
    METHOD("layer_norm_slope_weight", layer_norm_slope_weight,
           "layer_norm_slope_weight(g, x, normalized_shape, eps)."),
    METHOD("embedding_slope", embedding_slope,
           "embedding_slope(g, weight_type, indices, padding_idx)."),
    METHOD("nll_loss_slope", nll_loss_slope,
           "nll_loss_slope(g, x_type, target, weight, reduction, ignore_index)."),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynajit.ops.native._native_forms",
    .m_doc = "Rows on arrays of NumPy, in C.",
    .m_size = -1,
    .m_methods = methods,
};

static int
find_loops(PyObject *numpy, PyObject *vecmath, int type, Loops *loops)
{
    return find_loop(vecmath, "exp", type, &loops->exp) < 0 ||
                   find_loop(vecmath, "log", type, &loops->log) < 0 ||
                   find_loop(numpy, "maximum", type, &loops->maximum) < 0
               ? -1
               : 0;
}

PyMODINIT_FUNC
PyInit__native_forms(void)
{
    import_array();
    import_umath();
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *vecmath = numpy == NULL ? NULL : PyImport_ImportModule("dynajit.ops.native._vecmath");
    int failed = vecmath == NULL || find_loops(numpy, vecmath, NPY_FLOAT, &of_float) < 0 ||
                 find_loops(numpy, vecmath, NPY_DOUBLE, &of_double) < 0;
    Py_XDECREF(numpy);
    Py_XDECREF(vecmath);
    PyObject *devices = failed ? NULL : PyImport_ImportModule("dynajit.core.types.device");
    cpu = devices == NULL ? NULL : PyObject_GetAttrString(devices, "CPU");
    Py_XDECREF(devices);
    name_numpy = PyUnicode_InternFromString("numpy");
    name_shape = PyUnicode_InternFromString("shape");
    if (cpu == NULL || name_numpy == NULL || name_shape == NULL) {
        return NULL;
    }
    return PyModule_Create(&definition);
}
