/* Convolutions of arrays, by the loops of generated C (codegen/headers/convolution_kernels.h).
 *
 * Contract: results have the bits that compiled functions give on the same CPU, for any number of
 * threads. `correlate` and `weigh` fill an array; all arrays are row-major, of one dtype, float32 or
 * float64, and as large as the sizes say. Called by `ops.rows.networks.convolution_forms`.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <numpy/arrayobject.h>

#include "eager_convolutions.h"

#define DECLARED(set)                                                                               \
    void correlate_f32_##set(const dj_convolution *, int, const void *, const void *, const void *, \
                             void *, Together, int, int64_t *);                                     \
    void correlate_f64_##set(const dj_convolution *, int, const void *, const void *, const void *, \
                             void *, Together, int, int64_t *);                                     \
    void weigh_f32_##set(const dj_convolution *, const void *, const void *, void *, Together, int, \
                         int64_t *);                                                                \
    void weigh_f64_##set(const dj_convolution *, const void *, const void *, void *, Together, int, \
                         int64_t *);                                                                \
    int winograd_##set(const dj_convolution *, int, const void *, const void *, const void *,       \
                       void *, Together, int);                                                      \
    static const Functions functions_##set = {winograd_##set,                                       \
                                              {correlate_f32_##set, correlate_f64_##set},           \
                                              {weigh_f32_##set, weigh_f64_##set}};

/* By dtype: float32, float64. */
typedef struct {
    Winograd winograd; /* of float32 */
    Correlate correlate[2];
    Weigh weigh[2];
} Functions;

DECLARED(plain)
#if defined(__x86_64__) && defined(__GNUC__)
DECLARED(avx2)
DECLARED(avx512)
#endif

typedef struct {
    const char *name;
    const Functions *functions;
} Set;

static const Set plain = {"plain", &functions_plain};
static Set chosen = {"plain", &functions_plain};
static Together together;

/* The instruction set of that name, or the best one; 0 where this CPU lacks it. */
static int find_set(const char *name, Set *found) {
    Set sets[3];
    int count = 0;
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) sets[count++] = (Set){"avx512", &functions_avx512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        sets[count++] = (Set){"avx2", &functions_avx2};
#endif
    sets[count++] = plain;
    for (int i = 0; i < count; i++)
        if (!name || !strcmp(name, sets[i].name)) {
            *found = sets[i];
            return 1;
        }
    return 0;
}

/* (batch, groups, outputs, channels of a group, in 3, out 3, size 3, stride 3, before 3, dilation 3) */
static int read_sizes(PyObject *given, dj_convolution *c) {
    int64_t *ends[] = {c->in, c->out, c->size, c->stride, c->before, c->dilation};
    int64_t numbers[22];
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 22) {
        PyErr_SetString(PyExc_ValueError, "convolution: expected 22 sizes");
        return 0;
    }
    for (int i = 0; i < 22; i++) {
        numbers[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(given, i));
        if (numbers[i] == -1 && PyErr_Occurred()) return 0;
    }
    *c = (dj_convolution){.batch = numbers[0], .groups = numbers[1], .outputs = numbers[2],
                          .channels = numbers[3]};
    for (int i = 0; i < 6; i++) memcpy(ends[i], numbers + 4 + 3 * i, 3 * sizeof(int64_t));
    return 1;
}

/* The elements of a row-major array of that many, or NULL with an exception. */
static void *elements(PyObject *given, int64_t count, int type) {
    PyArrayObject *array = (PyArrayObject *)given;
    if (!PyArray_Check(given) || PyArray_TYPE(array) != type || !PyArray_ISCARRAY_RO(array)
        || PyArray_SIZE(array) != count) {
        PyErr_SetString(PyExc_ValueError,
                        "convolution: an array is not row-major, or not of the dtype and size");
        return NULL;
    }
    return PyArray_DATA(array);
}

typedef struct {
    dj_convolution c;
    int type, threads;
    int64_t x, y, weight; /* elements */
} Call;

static int read_call(PyObject *sizes, PyObject *first, PyObject *threads, Call *call) {
    if (!read_sizes(sizes, &call->c)) return 0;
    call->type = PyArray_Check(first) ? PyArray_TYPE((PyArrayObject *)first) : NPY_FLOAT;
    call->threads = (int)PyLong_AsLong(threads);
    if (call->threads == -1 && PyErr_Occurred()) return 0;
    if (call->threads < 1 || (call->type != NPY_FLOAT && call->type != NPY_DOUBLE)) {
        PyErr_SetString(PyExc_ValueError, "convolution: expected threads, float32 or float64");
        return 0;
    }
    const dj_convolution *c = &call->c;
    call->x = c->batch * c->groups * c->channels * dj_volume(c->in);
    call->y = c->batch * c->groups * c->outputs * dj_volume(c->out);
    call->weight = c->groups * c->outputs * c->channels * dj_volume(c->size);
    return 1;
}

static PyObject *ended(const int64_t *status) {
    if (status[0]) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *correlate(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Call call;
    if (count != 8) {
        PyErr_SetString(PyExc_TypeError, "correlate: expected 8 arguments");
        return NULL;
    }
    if (!read_call(given[0], given[2], given[6], &call)) return NULL;
    const int is_back = PyObject_IsTrue(given[1]);
    const int is_direct = PyObject_IsTrue(given[7]) || call.type == NPY_DOUBLE;
    const int64_t outputs = call.c.groups * call.c.outputs;
    const void *source = elements(given[2], is_back ? call.y : call.x, call.type), *bias = NULL;
    const void *weight = source ? elements(given[3], call.weight, call.type) : NULL;
    if (!weight || (given[4] != Py_None && !(bias = elements(given[4], outputs, call.type))))
        return NULL;
    void *result = elements(given[5], is_back ? call.x : call.y, call.type);
    if (!result) return NULL;
    int64_t status[4] = {0};
    Py_BEGIN_ALLOW_THREADS
    if (is_direct || !chosen.functions->winograd(&call.c, is_back, source, weight, bias, result,
                                                 together, call.threads))
        chosen.functions->correlate[call.type == NPY_DOUBLE](
            &call.c, is_back, source, weight, bias, result, together, call.threads, status);
    Py_END_ALLOW_THREADS
    return ended(status);
}

static PyObject *weigh(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Call call;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "weigh: expected 5 arguments");
        return NULL;
    }
    if (!read_call(given[0], given[1], given[4], &call)) return NULL;
    const void *y = elements(given[1], call.y, call.type);
    const void *x = y ? elements(given[2], call.x, call.type) : NULL;
    void *result = x ? elements(given[3], call.weight, call.type) : NULL;
    if (!result) return NULL;
    int64_t status[4] = {0};
    Py_BEGIN_ALLOW_THREADS
    chosen.functions->weigh[call.type == NPY_DOUBLE](&call.c, y, x, result, together, call.threads,
                                                     status);
    Py_END_ALLOW_THREADS
    return ended(status);
}

static PyObject *use_set(PyObject *module, PyObject *name) {
    const char *before = chosen.name, *text = PyUnicode_AsUTF8(name);
    if (!text) return NULL;
    if (!find_set(text, &chosen)) {
        PyErr_Format(PyExc_ValueError, "use_set(%R): this CPU has no such instructions", name);
        return NULL;
    }
    return PyUnicode_FromString(before);
}

static PyMethodDef methods[] = {
    {"use_set", use_set, METH_O,
     "Choose an instruction set, for tests: plain, avx2 or avx512; returns the one before."},
    {"correlate", (PyCFunction)(void (*)(void))correlate, METH_FASTCALL,
     "correlate(sizes, is_back, source, weight, bias, result, threads, is_direct): y = x * weight +"
     " bias, or x from y."},
    {"weigh", (PyCFunction)(void (*)(void))weigh, METH_FASTCALL,
     "weigh(sizes, y, x, result, threads): the gradient of the weights."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dynajit.ops.native._convolutions", .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__convolutions(void) {
    import_array();
    together = (Together)PyCapsule_Import("dynajit.core.arrays._products.run_together", 0);
    if (!together) return NULL;
    find_set(NULL, &chosen);
    return PyModule_Create(&definition);
}
