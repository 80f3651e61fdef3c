/* Functions of arrays that NumPy lacks, by the vector mathematics of generated C.
 *
 * Contract: `erf` is a ufunc of float32 and float64, at most 4 ULP from the exact value; it has the
 * bits that generated kernels have on a CPU with the same instructions. Called by `ops.scalar`: a
 * model with GELU needs no SciPy, whose import takes 0.2 s and whose erf 10 times as long.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>
#include <fenv.h>
#include <stdint.h>
#include <string.h>

typedef void (*Loop)(const void *x, void *y, int64_t count);

#define DECLARED(set)                                                                               \
    void erf_f32_##set(const float *, float *, int64_t);                                            \
    void erf_f64_##set(const double *, double *, int64_t);

DECLARED(plain)
#if defined(__x86_64__) && defined(__GNUC__)
DECLARED(avx2)
#endif

enum { CHUNK = 512 };

/* Element by element where they do not lie side by side: the same bits, from a copy that does. */
#define UFUNC_LOOP(T, NAME)                                                                         \
    static void NAME(char **operands, npy_intp const *sizes, npy_intp const *steps, void *loop) {   \
        const char *x = operands[0];                                                                \
        char *y = operands[1];                                                                      \
        const Loop apply = *(const Loop *)loop;                                                     \
        if (steps[0] == sizeof(T) && steps[1] == sizeof(T)) {                                       \
            apply(x, y, sizes[0]);                                                                  \
        }                                                                                           \
        else {                                                                                      \
            T chunk[CHUNK];                                                                         \
            for (npy_intp start = 0; start < sizes[0]; start += CHUNK) {                            \
                const npy_intp count = sizes[0] - start < CHUNK ? sizes[0] - start : CHUNK;         \
                for (npy_intp i = 0; i < count; i++, x += steps[0]) memcpy(chunk + i, x, sizeof(T)); \
                apply(chunk, chunk, count);                                                         \
                for (npy_intp i = 0; i < count; i++, y += steps[1]) memcpy(y, chunk + i, sizeof(T)); \
            }                                                                                       \
        }                                                                                           \
        feclearexcept(FE_ALL_EXCEPT); /* paths that are not chosen are computed, too */             \
    }

UFUNC_LOOP(float, loop_f32)
UFUNC_LOOP(double, loop_f64)

static Loop erf_loops[2];
static PyUFuncGenericFunction functions[] = {loop_f32, loop_f64};
static void *erf_data[] = {&erf_loops[0], &erf_loops[1]};
static char types[] = {NPY_FLOAT, NPY_FLOAT, NPY_DOUBLE, NPY_DOUBLE};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dynajit.ops._vecmath", .m_size = -1,
};

PyMODINIT_FUNC PyInit__vecmath(void) {
    import_array();
    import_umath();
    erf_loops[0] = (Loop)erf_f32_plain, erf_loops[1] = (Loop)erf_f64_plain;
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        erf_loops[0] = (Loop)erf_f32_avx2, erf_loops[1] = (Loop)erf_f64_avx2;
#endif
    PyObject *module = PyModule_Create(&definition);
    PyObject *erf = PyUFunc_FromFuncAndData(functions, erf_data, types, 2, 1, 1, PyUFunc_None, "erf",
                                            "The error function.", 0);
    if (!module || !erf || PyModule_AddObjectRef(module, "erf", erf) < 0) Py_CLEAR(module);
    Py_XDECREF(erf);
    return module;
}
