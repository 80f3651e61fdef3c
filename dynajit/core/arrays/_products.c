/* Matrix products in float32 and float64 for x86 CPUs with AVX-512, or with AVX2 and FMA.
 *
 * Contract: `matmul(a, b)` multiplies arrays as numpy.matmul does, and by it where it is none of ours:
 * eager execution calls it (`core.arrays.products`), and `matmul_onto` where a vector is added to the rows. `addresses()` gives two C functions, for float32 and
 * float64, for each of these sets that the CPU has; see `multiply` in product_loops.h. They run on
 * the calling thread and keep a block of memory for it until it ends, of which KEPT_BYTES may hold
 * packed columns between calls. Generated C calls them through the runtime (`dj_gemm` of
 * headers/products.h), and BLAS where they are missing; `codegen.run.blas` hands them over.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <numpy/arrayobject.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "helper_threads.h"
#include "mirror.h"
#include "multiply.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_PRODUCTS 1

enum {
    MOST_ROWS = 378, /* at a time, a multiple of 14 and of 6: packed they stay in the second cache */
    ROWS_PACKED_FROM = 8,    /* panels of columns above which packing rows of a pays, */
    COLUMNS_PACKED_FROM = 4, /* and the same if its columns lie side by side */
    GROUP_PANELS = 8,        /* packed at a time: rows of b may lie on a page each */
    READ_ROWS = 28,          /* up to which b is read where it lies, */
    NEAR_BYTES = 1 << 15,    /* and bytes of b up to which it is, whatever the rows */
    FAR_ROWS = 70,           /* and both, */
    FAR_BYTES = 1 << 18,     /* in the second cache */
    MIRRORED_ROWS = 42, /* at a time of a matrix times its transpose, a multiple of 14 and of 6, */
    MIRRORED_DEPTH = 32, /* and sums from which half of them are not computed */
    AHEAD = 4,               /* rows that are fetched before they are packed */
    SCRATCH_BYTES = 1 << 22,
};

/* How much of k is multiplied next, where `left` of it is left, `most` at most. MKL cuts sums there,
 * too: most of float32 have the bits of PyTorch's, so units of a network that are near a kink fall to
 * the same side of it. On CPUs of Intel it halves what is left at the end, on those of AMD, also if
 * they have AVX-512, which it leaves alone there, sums that are not twice as long as `most`. */
static inline int64_t halves_of_rest(int64_t k, int64_t left, int64_t most) {
    return left > 2 * most ? most : left > most ? (left + 1) / 2 : left;
}
static inline int64_t halves_of_whole(int64_t k, int64_t left, int64_t most) {
    return least(left, k > most && k < 2 * most ? k / 2 : most);
}

enum { DEPTH_ON_AMD = 192 }; /* of float32: 384 would be 3 % faster, and less accurate by a third */
static int is_amd;           /* set when the module is loaded */
static inline int64_t as_on_this_cpu(int64_t k, int64_t left, int64_t most) {
    return is_amd ? halves_of_whole(k, left, DEPTH_ON_AMD) : halves_of_rest(k, left, most);
}

enum { FEW_ROWS = 4, FEW_COLUMNS = 12 }; /* below which MKL leaves products to other loops */

static pthread_key_t scratch_key;
static int has_key;

/* Memory of the calling thread, SCRATCH_BYTES; freed when it ends. */
static void *scratch(void) {
    static _Thread_local void *memory;
    if (memory || !has_key) return memory;
    void *fresh = aligned_alloc(4096, SCRATCH_BYTES);
    if (fresh && pthread_setspecific(scratch_key, fresh)) {
        free(fresh);
        return NULL;
    }
    return memory = fresh;
}

#define AVX512 __attribute__((target("avx512f,fma")))
#define AVX2 __attribute__((target("avx2,fma")))

/* From element 8 - n on, or 4 - n: masks of n lanes, as AVX2 takes them. */
static const int32_t lanes_of_4_bytes[] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
static const int64_t lanes_of_8_bytes[] = {-1, -1, -1, -1, 0, 0, 0, 0};
#define FIRST_4_BYTES(n) _mm256_loadu_si256((const __m256i *)(lanes_of_4_bytes + 8 - (n)))
#define FIRST_8_BYTES(n) _mm256_loadu_si256((const __m256i *)(lanes_of_8_bytes + 4 - (n)))
#define FIRST_OF_16(n) ((__mmask16)((1u << (n)) - 1))
#define FIRST_OF_8(n) ((__mmask8)((1u << (n)) - 1))

#define TARGET_OF_FEW __attribute__((target("avx2")))
#include "few_products.h"

#define ELEMENT float
#define INDEX int32_t
#define LANES 16
#define TALL 14
#define DEPTH 384
#define DEPTH_OF as_on_this_cpu
#define TARGET AVX512
#define LOAD_SOME(from, n) _mm512_maskz_loadu_ps(FIRST_OF_16(n), from)
#define STORE_SOME(to, n, x) _mm512_mask_storeu_ps(to, FIRST_OF_16(n), (__m512)(x))
#define HAS_FEW 1
#define NAMED(x) f32_avx512_##x
#include "product_loops.h"

#define ELEMENT double
#define INDEX int64_t
#define LANES 8
#define TALL 14
#define DEPTH 384
#define DEPTH_OF halves_of_rest
#define TARGET AVX512
#define LOAD_SOME(from, n) _mm512_maskz_loadu_pd(FIRST_OF_8(n), from)
#define STORE_SOME(to, n, x) _mm512_mask_storeu_pd(to, FIRST_OF_8(n), (__m512d)(x))
#define HAS_FEW 0
#define NAMED(x) f64_avx512_##x
#include "product_loops.h"

#define ELEMENT float
#define INDEX int32_t
#define LANES 8
#define TALL 6
#define DEPTH DEPTH_ON_AMD
#define DEPTH_OF halves_of_whole
#define TARGET AVX2
#define LOAD_SOME(from, n) _mm256_maskload_ps(from, FIRST_4_BYTES(n))
#define STORE_SOME(to, n, x) _mm256_maskstore_ps(to, FIRST_4_BYTES(n), (__m256)(x))
#define HAS_FEW 1
#define NAMED(x) f32_avx2_##x
#include "product_loops.h"

#define ELEMENT double
#define INDEX int64_t
#define LANES 4
#define TALL 6
#define DEPTH 384
#define DEPTH_OF halves_of_rest
#define TARGET AVX2
#define LOAD_SOME(from, n) _mm256_maskload_pd(from, FIRST_8_BYTES(n))
#define STORE_SOME(to, n, x) _mm256_maskstore_pd(to, FIRST_8_BYTES(n), (__m256d)(x))
#define HAS_FEW 0
#define NAMED(x) f64_avx2_##x
#include "product_loops.h"

#include "product_arrays.h"

#endif

typedef struct {
    const char *name;
    void *f32, *f64;
    int is_here;
} Set;

/* Instruction sets that have products, the best first. */
static int list_sets(Set *sets) {
    int count = 0;
#ifdef HAS_PRODUCTS
    __builtin_cpu_init();
    is_amd = __builtin_cpu_is("amd") != 0;
    sets[count++] = (Set){"avx512", f32_avx512_multiply, f64_avx512_multiply,
                          __builtin_cpu_supports("avx512f")};
    sets[count++] = (Set){"avx2", f32_avx2_multiply, f64_avx2_multiply,
                          __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")};
#endif
    return count;
}

static PyObject *addresses(PyObject *module, PyObject *unused) {
    Set sets[2];
    PyObject *found = PyDict_New();
    for (int i = 0, count = list_sets(sets); found && i < count; i++) {
        if (!sets[i].is_here) continue;
        PyObject *pair = Py_BuildValue("(KK)", (unsigned long long)(uintptr_t)sets[i].f32,
                                       (unsigned long long)(uintptr_t)sets[i].f64);
        if (!pair || PyDict_SetItemString(found, sets[i].name, pair) < 0) Py_CLEAR(found);
        Py_XDECREF(pair);
    }
    return found;
}

static PyObject *numpy_matmul, *name_dot;
static Multiply multiply[2]; /* float32, float64; NULL where this CPU has none */

/* For two matrices NumPy's method: a ufunc needs half a microsecond more to find the same product. */
static PyObject *matmul(PyObject *module, PyObject *const *operands, Py_ssize_t count) {
    if (count == 2 && PyArray_CheckExact(operands[0]) && PyArray_CheckExact(operands[1])) {
        PyArrayObject *a = (PyArrayObject *)operands[0], *b = (PyArrayObject *)operands[1];
#ifdef HAS_PRODUCTS
        PyObject *result = multiply_arrays(a, b, NULL, multiply);
        if (result || PyErr_Occurred()) return result;
#endif
        if (PyArray_NDIM(a) == 2 && PyArray_NDIM(b) == 2)
            return PyObject_CallMethodOneArg(operands[0], name_dot, operands[1]);
    }
    return PyObject_Vectorcall(numpy_matmul, operands, count, NULL);
}

/* As BLAS adds to a result: the first part of a sum that is cut is added to what is there, the second
 * to that. */
static PyObject *matmul_onto(PyObject *module, PyObject *const *operands, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "matmul_onto takes three arrays");
        return NULL;
    }
#ifdef HAS_PRODUCTS
    if (PyArray_CheckExact(operands[0]) && PyArray_CheckExact(operands[1]) &&
        PyArray_CheckExact(operands[2])) {
        PyObject *result =
            multiply_arrays((PyArrayObject *)operands[1], (PyArrayObject *)operands[2],
                            (PyArrayObject *)operands[0], multiply);
        if (result || PyErr_Occurred()) return result;
    }
#endif
    PyObject *product = matmul(module, operands + 1, 2);
    PyObject *result = product ? PyNumber_InPlaceAdd(product, operands[0]) : NULL;
    Py_XDECREF(product);
    return result;
}

static PyObject *install(PyObject *module, PyObject *function) {
#ifdef HAS_PRODUCTS
    Py_XSETREF(count_threads, Py_NewRef(function));
#endif
    Py_RETURN_NONE;
}

static PyObject *share_team(PyObject *module, PyObject *address) {
    void *function = PyLong_AsVoidPtr(address);
    if (!function && PyErr_Occurred()) return NULL;
    memcpy(&team.parallel, &function, sizeof function);
    Py_RETURN_NONE;
}

/* The capsule's name, by which others import it. */
#define RUN_TOGETHER "dynajit.core.arrays._products.run_together"

static PyMethodDef methods[] = {
    {"matmul", (PyCFunction)(void (*)(void))matmul, METH_FASTCALL,
     "The product of two arrays of at least two dims, as numpy.matmul."},
    {"matmul_onto", (PyCFunction)(void (*)(void))matmul_onto, METH_FASTCALL,
     "start + a @ b of (start, a, b): a vector and two arrays, whose sums go on from it."},
    {"install", install, METH_O, "Names the function that says how many threads may be used."},
    {"share_team", share_team, METH_O,
     "Names the address of libgomp's GOMP_parallel, whose threads are shared from then on."},
    {"addresses", addresses, METH_NOARGS,
     "{instruction set: (float32, float64)} of those that this CPU has, the best first."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dynajit.core.arrays._products", .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__products(void) {
    import_array();
    PyObject *numpy = PyImport_ImportModule("numpy");
    numpy_matmul = numpy ? PyObject_GetAttrString(numpy, "matmul") : NULL;
    name_dot = PyUnicode_InternFromString("dot");
    Py_XDECREF(numpy);
    if (!numpy_matmul || !name_dot) return NULL;
#ifdef HAS_PRODUCTS
    Set sets[2];
    for (int i = list_sets(sets) - 1; i >= 0; i--) {
        if (sets[i].is_here) multiply[0] = (Multiply)sets[i].f32, multiply[1] = (Multiply)sets[i].f64;
    }
    has_key = pthread_key_create(&scratch_key, free) == 0;
#endif
    pthread_atfork(NULL, NULL, forget_helpers);
    PyObject *module = PyModule_Create(&definition);
    int rounds = 0;
#ifdef HAS_PRODUCTS
    rounds = is_amd && multiply[0];
#endif
    if (module && (PyModule_AddIntConstant(module, "KEPT_BYTES", KEPT_BYTES) < 0 ||
                   PyModule_AddIntConstant(module, "ROUNDS_TERMS_OF_FEW", rounds) < 0))
        Py_CLEAR(module);
    PyObject *together = PyCapsule_New((void *)run_together, RUN_TOGETHER, NULL);
    if (module && (!together || PyModule_AddObjectRef(module, "run_together", together) < 0))
        Py_CLEAR(module);
    Py_XDECREF(together);
    PyObject *shared = PyCapsule_New(&team, TEAM_CAPSULE, NULL);
    if (module && (!shared || PyModule_AddObjectRef(module, "team", shared) < 0)) Py_CLEAR(module);
    Py_XDECREF(shared);
    PyObject *functions = PyCapsule_New(multiply, MULTIPLY, NULL);
    if (module && (!functions || PyModule_AddObjectRef(module, "multiply", functions) < 0))
        Py_CLEAR(module);
    Py_XDECREF(functions);
    return module;
}
