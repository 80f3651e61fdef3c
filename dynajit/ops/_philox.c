/* The words of Philox4x32-10 streams, for eager execution.
 *
 * Contract: `words(seed, first_block, count)` gives `count` consecutive words of the stream of
 * `seed`, from counter block `first_block` on, as an int64 array: what `ops.random.philox` gives,
 * to which it is compared. Both numbers are below 2**64; the block number wraps. The sixteen blocks
 * of a group go through the rounds side by side, which compilers turn into vector instructions.
 * Called by `ops.random.stream` for arrays of NumPy.
 *
 * Source: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <stdint.h>

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

static PyMethodDef methods[] = {
    {"words", (PyCFunction)(void (*)(void))philox_words, METH_FASTCALL,
     "words(seed, first_block, count) -> int64 array, shape (count,), of 32-bit words."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dynajit.ops._philox", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__philox(void)
{
    import_array();
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2")) {
        fill_here = fill_avx2;
    }
#endif
    return PyModule_Create(&definition);
}
