/* The words of Philox4x32-10 streams, and the random rows, for eager execution.
 *
 * Contract: `words(seed, first_block, count)` gives `count` consecutive words of the stream of
 * `seed`, from counter block `first_block` on, as an int64 array: what `ops.rows.random.philox` gives,
 * to which it is compared. Both numbers are below 2**64; the block number wraps. The sixteen blocks
 * of a group go through the rounds side by side, which compilers turn into vector instructions.
 * Called by `ops.rows.random.stream` for arrays of NumPy.
 *
 * `rand`, `randn` and `dropout` are the rows of these names in C, under the contract of
 * `_native_forms.c`: the bits that their bodies give, or NotImplemented. `tests/ops/test_philox.py`
 * compares them.
 *
 * Source: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>
#include <math.h>
#include <stdint.h>

#include "ufunc_loops.h"

enum { GROUP = 16, WORDS = 4, ROUNDS = 10 };

/* The blocks `first` to `first + GROUP - 1`, word by word. */
static inline __attribute__((always_inline)) void
group_of_blocks(uint64_t seed, uint64_t first, int64_t *result)
{
    uint32_t c0[GROUP], c1[GROUP], c2[GROUP], c3[GROUP];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < GROUP; i++) {
        uint64_t block = first + (uint64_t)i;
        c0[i] = (uint32_t)block;
        c1[i] = (uint32_t)(block >> 32);
        c2[i] = c3[i] = 0;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < GROUP; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p1;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < GROUP; i++) {
        result[WORDS * i] = c0[i];
        result[WORDS * i + 1] = c1[i];
        result[WORDS * i + 2] = c2[i];
        result[WORDS * i + 3] = c3[i];
    }
}

static inline __attribute__((always_inline)) void
fill(uint64_t seed, uint64_t first, int64_t *result, Py_ssize_t count)
{
    enum { AT_ONCE = GROUP * WORDS };
    Py_ssize_t done = 0;
    for (; count - done >= AT_ONCE; done += AT_ONCE) {
        group_of_blocks(seed, first + (uint64_t)(done / WORDS), result + done);
    }
    if (done < count) {
        int64_t last[AT_ONCE];
        group_of_blocks(seed, first + (uint64_t)(done / WORDS), last);
        memcpy(result + done, last, (size_t)(count - done) * sizeof(int64_t));
    }
}

static void
fill_plain(uint64_t seed, uint64_t first, int64_t *result, Py_ssize_t count)
{
    fill(seed, first, result, count);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void
fill_avx2(uint64_t seed, uint64_t first, int64_t *result, Py_ssize_t count)
{
    fill(seed, first, result, count);
}
#endif

static void (*fill_here)(uint64_t, uint64_t, int64_t *, Py_ssize_t) = fill_plain;

static PyObject *
philox_words(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    if (given != 3) {
        PyErr_Format(PyExc_TypeError, "words: expected 3 arguments, got %zd", given);
        return NULL;
    }
    uint64_t seed = PyLong_AsUnsignedLongLong(args[0]);
    uint64_t first = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(args[1]);
    npy_intp count = PyErr_Occurred() ? 0 : PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    PyObject *result = PyArray_SimpleNew(1, &count, NPY_INT64);
    if (result == NULL) {
        return NULL;
    }
    int64_t *data = PyArray_DATA((PyArrayObject *)result);
    Py_BEGIN_ALLOW_THREADS
    fill_here(seed, first, data, count);
    Py_END_ALLOW_THREADS
    return result;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static Loop log_float, log_double, cos_float, cos_double;
static PyObject *cpu = NULL;     /* dynajit.core.types.device.CPU */
static PyObject *float32 = NULL; /* dynajit.core.types.dtypes.float32 */
static PyObject *float64 = NULL;
static PyObject *defaults = NULL; /* what knows the default dtype */

/* Elements that are drawn together: their words stay in the first cache. */
enum { CHUNK = 1024 };

/* The words of the elements from `start` on, `each` of them for one element. */
static void
draw(uint64_t seed, uint64_t first, npy_intp start, npy_intp count, int each, int64_t *words)
{
    fill_here(seed, first + (uint64_t)start * (uint64_t)each / WORDS, words, count * each);
}

static float
unit_of(int64_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

static void
rand_float(const int64_t *words, float *result, npy_intp count)
{
    for (npy_intp i = 0; i < count; i++) {
        result[i] = unit_of(words[i]);
    }
}

static void
rand_double(const int64_t *words, double *result, npy_intp count)
{
    for (npy_intp i = 0; i < count; i++) {
        result[i] = (double)((words[2 * i] >> 5) * (1 << 26) + (words[2 * i + 1] >> 6)) * 0x1p-53;
    }
}

/* The Box-Muller transform, rounded after each step as the body of the row is. */
#define RANDN(T, UNIT, SQRT)                                                                        \
    static void randn_##T(const int64_t *words, T *result, npy_intp count)                         \
    {                                                                                              \
        T radius[CHUNK], angle[CHUNK];                                                             \
        for (npy_intp i = 0; i < count; i++) {                                                     \
            radius[i] = (T)1 - UNIT(words[2 * i]);                                                 \
            angle[i] = (T)(2.0 * 3.14159265358979323846) * UNIT(words[2 * i + 1]);                 \
        }                                                                                          \
        apply(log_##T, radius, radius, count, sizeof(T));                                          \
        apply(cos_##T, angle, angle, count, sizeof(T));                                            \
        for (npy_intp i = 0; i < count; i++) result[i] = SQRT((T)-2 * radius[i]) * angle[i];       \
    }

#define UNIT_OF_32_BITS(word) ((double)(word) * 0x1p-32)

RANDN(float, unit_of, sqrtf)
RANDN(double, UNIT_OF_32_BITS, sqrt)

/* The arguments that random rows have in common. */
typedef struct {
    uint64_t seed, first;
    int rank, type;
    npy_intp sizes[NPY_MAXDIMS];
} Drawing;

/* (seed, offset, shape, dtype, device, shift): 0 where the row's body is to draw. */
static int
read_drawing(PyObject *const *args, Py_ssize_t given, Drawing *drawing)
{
    if (given != 6 || !PyLong_CheckExact(args[0]) || !PyLong_CheckExact(args[1]) ||
        !PyTuple_CheckExact(args[2]) || args[4] != cpu || !PyLong_CheckExact(args[5]) ||
        (args[3] != float32 && args[3] != float64)) {
        return 0;
    }
    drawing->type = args[3] == float32 ? NPY_FLOAT : NPY_DOUBLE;
    drawing->seed = PyLong_AsUnsignedLongLongMask(args[0]);
    drawing->first =
        PyLong_AsUnsignedLongLongMask(args[1]) + PyLong_AsUnsignedLongLongMask(args[5]);
    drawing->rank = (int)PyTuple_GET_SIZE(args[2]);
    for (int d = 0; d < drawing->rank && d < NPY_MAXDIMS; d++) {
        PyObject *size = PyTuple_GET_ITEM(args[2], d);
        drawing->sizes[d] = PyLong_CheckExact(size) ? PyLong_AsSsize_t(size) : -1;
        if (drawing->sizes[d] < 0) {
            PyErr_Clear();
            return 0;
        }
    }
    return drawing->rank <= NPY_MAXDIMS;
}

/* An array whose elements `floats` or `doubles` make of `each` words. */
static PyObject *
drawn(const Drawing *drawing, int is_normal)
{
    PyArrayObject *result = (PyArrayObject *)PyArray_SimpleNew(
        drawing->rank, (npy_intp *)drawing->sizes, drawing->type);
    if (result == NULL) {
        return NULL;
    }
    int is_float = drawing->type == NPY_FLOAT, each = is_normal || !is_float ? 2 : 1;
    npy_intp count = PyArray_SIZE(result);
    void *data = PyArray_DATA(result);
    int64_t words[2 * CHUNK];
    NPY_BEGIN_THREADS_DEF;
    NPY_BEGIN_THREADS_THRESHOLDED(count);
    for (npy_intp i = 0; i < count; i += CHUNK) {
        npy_intp here = count - i < CHUNK ? count - i : CHUNK;
        draw(drawing->seed, drawing->first, i, here, each, words);
        if (is_normal && is_float) randn_float(words, (float *)data + i, here);
        else if (is_normal) randn_double(words, (double *)data + i, here);
        else if (is_float) rand_float(words, (float *)data + i, here);
        else rand_double(words, (double *)data + i, here);
    }
    NPY_END_THREADS;
    return (PyObject *)result;
}

/* rand(seed, offset, shape, dtype, device, shift). */
static PyObject *
native_rand(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Drawing drawing;
    if (!read_drawing(args, given, &drawing)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    return drawn(&drawing, 0);
}

/* randn(seed, offset, shape, dtype, device, shift). */
static PyObject *
native_randn(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    Drawing drawing;
    if (!read_drawing(args, given, &drawing)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    return drawn(&drawing, 1);
}

static int
default_is_float32(void)
{
    PyObject *floating = PyObject_GetAttrString(defaults, "floating");
    int is_float32 = floating == float32;
    Py_XDECREF(floating);
    PyErr_Clear();
    return is_float32;
}

/* dropout(x, seed, offset, p, shift): x of float32 or float64, row by row; the scale is float32. */
static PyObject *
native_dropout(PyObject *module, PyObject *const *args, Py_ssize_t given)
{
    if (given != 5 || !PyArray_CheckExact(args[0]) || !PyLong_CheckExact(args[1]) ||
        !PyLong_CheckExact(args[2]) || !PyFloat_CheckExact(args[3]) ||
        !PyLong_CheckExact(args[4]) || !default_is_float32()) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyArrayObject *x = (PyArrayObject *)args[0];
    int type = PyArray_TYPE(x);
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || !PyArray_ISCARRAY_RO(x)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    uint64_t seed = PyLong_AsUnsignedLongLongMask(args[1]);
    uint64_t first =
        PyLong_AsUnsignedLongLongMask(args[2]) + PyLong_AsUnsignedLongLongMask(args[4]);
    double p = PyFloat_AS_DOUBLE(args[3]);
    float least = (float)p, scale = p < 1 ? (float)(1.0 / (1.0 - p)) : 0.0f;
    PyArrayObject *result =
        (PyArrayObject *)PyArray_SimpleNew(PyArray_NDIM(x), PyArray_DIMS(x), type);
    if (result == NULL) {
        return NULL;
    }
    npy_intp count = PyArray_SIZE(x);
    const void *from = PyArray_DATA(x);
    void *to = PyArray_DATA(result);
    int64_t words[CHUNK];
    NPY_BEGIN_THREADS_DEF;
    NPY_BEGIN_THREADS_THRESHOLDED(count);
    for (npy_intp i = 0; i < count; i += CHUNK) {
        npy_intp here = count - i < CHUNK ? count - i : CHUNK;
        draw(seed, first, i, here, 1, words);
        for (npy_intp j = 0; j < here && type == NPY_FLOAT; j++) {
            const float factor = unit_of(words[j]) >= least ? scale : 0.0f;
            ((float *)to)[i + j] = ((const float *)from)[i + j] * factor;
        }
        for (npy_intp j = 0; j < here && type == NPY_DOUBLE; j++) {
            const float factor = unit_of(words[j]) >= least ? scale : 0.0f;
            ((double *)to)[i + j] = ((const double *)from)[i + j] * (double)factor;
        }
    }
    NPY_END_THREADS;
    return (PyObject *)result;
}

static PyMethodDef methods[] = {
    {"rand", (PyCFunction)(void (*)(void))native_rand, METH_FASTCALL,
     "rand(seed, offset, shape, dtype, device, shift) -> array or NotImplemented."},
    {"randn", (PyCFunction)(void (*)(void))native_randn, METH_FASTCALL,
     "randn(seed, offset, shape, dtype, device, shift) -> array or NotImplemented."},
    {"dropout", (PyCFunction)(void (*)(void))native_dropout, METH_FASTCALL,
     "dropout(x, seed, offset, p, shift) -> array or NotImplemented."},
    {"words", (PyCFunction)(void (*)(void))philox_words, METH_FASTCALL,
     "words(seed, first_block, count) -> int64 array, shape (count,), of 32-bit words."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dynajit.ops.native._philox", .m_size = -1, .m_methods = methods,
};

static PyObject *
attribute_of(const char *module, const char *name)
{
    PyObject *owner = PyImport_ImportModule(module);
    PyObject *found = owner == NULL ? NULL : PyObject_GetAttrString(owner, name);
    Py_XDECREF(owner);
    return found;
}

static int
find_all(void)
{
    PyObject *vecmath = PyImport_ImportModule("dynajit.ops.native._vecmath");
    int failed = vecmath == NULL || find_loop(vecmath, "log", NPY_FLOAT, &log_float) < 0 ||
                 find_loop(vecmath, "log", NPY_DOUBLE, &log_double) < 0 ||
                 find_loop(vecmath, "cos", NPY_FLOAT, &cos_float) < 0 ||
                 find_loop(vecmath, "cos", NPY_DOUBLE, &cos_double) < 0;
    Py_XDECREF(vecmath);
    if (failed) {
        return -1;
    }
    cpu = attribute_of("dynajit.core.types.device", "CPU");
    float32 = attribute_of("dynajit.core.types.dtypes", "float32");
    float64 = attribute_of("dynajit.core.types.dtypes", "float64");
    defaults = attribute_of("dynajit.core.types.dtypes", "_default");
    return cpu == NULL || float32 == NULL || float64 == NULL || defaults == NULL ? -1 : 0;
}

PyMODINIT_FUNC
PyInit__philox(void)
{
    import_array();
    import_umath();
    if (find_all() < 0) {
        return NULL;
    }
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2")) {
        fill_here = fill_avx2;
    }
#endif
    return PyModule_Create(&definition);
}
