/* Functions of arrays that NumPy lacks, or has with other bits, by the vector mathematics of generated C.
 *
 * Contract: ufuncs of float32 and float64, with the bits that generated kernels have on a CPU with the
 * same instructions. Those of DJ_REAL_FUNCTIONS, `arctan2`, `power`, `erf`, `erfinv` and, for float32
 * only, the special functions of vecmath_table.h are at most 4 ULP from the exact value; `nextafter` is
 * exact, `fma` is x * y + z, rounded once, and `whole_power` x to a whole number y of at most 2^16 in
 * size, float32 only. Complex numbers go through NumPy's loops. `sum_wide` (i)->() and `squares_wide`
 * (i),()->() add what lies along the last dimension, in double, the latter the squares of x - center in
 * the dtype of x; their bits depend neither on the CPU nor on strides. Called by rows, their
 * array forms and, by their loops, rows in C: a model with GELU needs no SciPy, whose import
 * takes 0.2 s and whose functions take 5 to 60 times as long, and statistics of a batch need no copy in
 * double. NumPy's own exponential took 3 times as long (AVX2, 200 thousand floats), its tangent 20.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>
#include <fenv.h>
#include <stdint.h>
#include <string.h>

#include "ufunc_loops.h"
#include "vecmath_table.h"

#define DECLARED(set) extern const Loops loops_f32_##set, loops_f64_##set;

DECLARED(plain)
#if defined(__x86_64__) && defined(__GNUC__)
DECLARED(avx2)
DECLARED(avx512)
#endif

enum { CHUNK = 512 };

/* No floating-point exception was met: paths that are not chosen are computed, too. `feclearexcept`
 * saves and restores the state of x87, which nothing here uses: 70 ns more for each call. */
static inline void clear_exceptions(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~0x3fu);
#else
    feclearexcept(FE_ALL_EXCEPT);
#endif
}

/* `count` elements side by side: where they are, or in `chunk`. */
#define GATHERED(T)                                                                                 \
    static const char *gathered_##T(const char *x, npy_intp step, npy_intp count, T *chunk) {       \
        if (step == sizeof(T) || count == 1) return x;                                              \
        for (npy_intp i = 0; i < count; i++, x += step) memcpy(chunk + i, x, sizeof(T));            \
        return (const char *)chunk;                                                                 \
    }

#define SCATTERED(T)                                                                                \
    static void scattered_##T(const T *chunk, char *x, npy_intp step, npy_intp count) {             \
        for (npy_intp i = 0; i < count; i++, x += step) memcpy(x, chunk + i, sizeof(T));            \
    }

/* Element by element where they do not lie side by side: the same bits, from a copy that does. */
#define LOOPS(T, SUFFIX)                                                                            \
    GATHERED(T)                                                                                     \
    SCATTERED(T)                                                                                    \
    static void unary_##SUFFIX(char **operands, npy_intp const *sizes, npy_intp const *steps,       \
                               void *function) {                                                    \
        T in[CHUNK], out[CHUNK];                                                                    \
        const npy_intp whole = steps[1] == sizeof(T) && steps[0] == sizeof(T) ? sizes[0] : CHUNK;   \
        for (npy_intp start = 0; start < sizes[0]; start += whole) {                                \
            const npy_intp count = sizes[0] - start < whole ? sizes[0] - start : whole;             \
            char *y = operands[1] + start * steps[1];                                               \
            void *to = steps[1] == sizeof(T) ? (void *)y : out;                                     \
            (*(const Unary *)function)(                                                             \
                gathered_##T(operands[0] + start * steps[0], steps[0], count, in), to, count);      \
            if (to == out) scattered_##T(out, y, steps[1], count);                                  \
        }                                                                                           \
        clear_exceptions();                                                                         \
    }                                                                                               \
    static void binary_##SUFFIX(char **operands, npy_intp const *sizes, npy_intp const *steps,      \
                                void *function) {                                                   \
        T in[2][CHUNK], out[CHUNK];                                                                 \
        const npy_intp one = sizeof(T);                                                             \
        const int is_whole = steps[0] == one && steps[1] == one && steps[2] == one;                 \
        const npy_intp whole = is_whole ? sizes[0] : CHUNK;                                         \
        for (npy_intp start = 0; start < sizes[0]; start += whole) {                                \
            const npy_intp count = sizes[0] - start < whole ? sizes[0] - start : whole;             \
            const void *from[2];                                                                    \
            for (int i = 0; i < 2; i++)                                                             \
                from[i] = gathered_##T(operands[i] + start * steps[i], steps[i], count, in[i]);     \
            char *z = operands[2] + start * steps[2];                                               \
            void *to = steps[2] == one ? (void *)z : out;                                           \
            (*(const Binary *)function)(from[0], from[1], to, count);                               \
            if (to == out) scattered_##T(out, z, steps[2], count);                                  \
        }                                                                                           \
        clear_exceptions();                                                                         \
    }                                                                                               \
    static void fma_##SUFFIX(char **operands, npy_intp const *sizes, npy_intp const *steps,         \
                             void *loops) {                                                         \
        T in[3][CHUNK], out[CHUNK];                                                                 \
        int fixed[3], is_whole = steps[3] == sizeof(T);                                             \
        for (int i = 0; i < 3; i++) {                                                               \
            fixed[i] = steps[i] == 0;                                                               \
            is_whole = is_whole && (fixed[i] || steps[i] == sizeof(T));                             \
        }                                                                                           \
        const npy_intp whole = is_whole ? sizes[0] : CHUNK;                                         \
        for (npy_intp start = 0; start < sizes[0]; start += whole) {                                \
            const npy_intp count = sizes[0] - start < whole ? sizes[0] - start : whole;             \
            const void *from[3];                                                                    \
            for (int i = 0; i < 3; i++)                                                             \
                from[i] = gathered_##T(operands[i] + start * steps[i], steps[i],                    \
                                       fixed[i] ? 1 : count, in[i]);                                \
            char *r = operands[3] + start * steps[3];                                               \
            void *to = steps[3] == sizeof(T) ? (void *)r : out;                                     \
            ((const Loops *)loops)->fma(from[0], from[1], from[2], to, count, fixed);               \
            if (to == out) scattered_##T(out, r, steps[3], count);                                  \
        }                                                                                           \
        feclearexcept(FE_UNDERFLOW | FE_INEXACT);                                                   \
    }                                                                                               \
    static double total_##SUFFIX(const Loops *loops, const char *x, npy_intp step, npy_intp size,   \
                                 const void *center) {                                              \
        T in[CHUNK];                                                                                \
        double total = 0;                                                                           \
        for (npy_intp start = 0; start < size; start += CHUNK) {                                    \
            const npy_intp count = size - start < CHUNK ? size - start : CHUNK;                     \
            const void *from = gathered_##T(x + start * step, step, count, in);                     \
            total += center ? loops->squares(from, center, count) : loops->sum(from, count);        \
        }                                                                                           \
        return total;                                                                               \
    }                                                                                               \
    static void sum_wide_##SUFFIX(char **operands, npy_intp const *sizes, npy_intp const *steps,    \
                                  void *loops) {                                                    \
        for (npy_intp i = 0; i < sizes[0]; i++) {                                                   \
            const double total =                                                                    \
                total_##SUFFIX(loops, operands[0] + i * steps[0], steps[2], sizes[1], NULL);        \
            memcpy(operands[1] + i * steps[1], &total, sizeof total);                               \
        }                                                                                           \
    }                                                                                               \
    static void squares_wide_##SUFFIX(char **operands, npy_intp const *sizes,                       \
                                      npy_intp const *steps, void *loops) {                         \
        for (npy_intp i = 0; i < sizes[0]; i++) {                                                   \
            const double total = total_##SUFFIX(loops, operands[0] + i * steps[0], steps[3],        \
                                                sizes[1], operands[1] + i * steps[1]);              \
            memcpy(operands[2] + i * steps[2], &total, sizeof total);                               \
        }                                                                                           \
    }

LOOPS(float, f32)

/* Elements with the same power side by side are computed together. */
static void whole_power(char **operands, npy_intp const *sizes, npy_intp const *steps, void *loops) {
    float in[CHUNK], out[CHUNK];
    for (npy_intp start = 0, count; start < sizes[0]; start += count) {
        const npy_intp rest = sizes[0] - start;
        count = steps[1] ? 1 : rest < CHUNK ? rest : CHUNK;
        float y;
        memcpy(&y, operands[1] + start * steps[1], sizeof y);
        const char *x = gathered_float(operands[0] + start * steps[0], steps[0], count, in);
        ((const Loops *)loops)->whole_power(x, y, out, count);
        scattered_float(out, operands[2] + start * steps[2], steps[2], count);
    }
    clear_exceptions();
}

LOOPS(double, f64)

static void *data[2]; /* the loops of this CPU, per dtype */
static void *erf_data[2], *erfinv_data[2], *nextafter_data[2], *zeta_data[1];
static void *arctan2_data[2];

#define NAME(name) #name,
static const char *const single_names[] = {DJ_SINGLE_FUNCTIONS(NAME)};
enum { SINGLE_COUNT = sizeof single_names / sizeof *single_names };
static void *single_data[SINGLE_COUNT];

/* Of float and double the loops of this CPU; of complex numbers NumPy's. */
#define NUMPY_NAME(numpy, name) #numpy,
static const char *const real_names[] = {DJ_REAL_FUNCTIONS(NUMPY_NAME)};
enum { REAL_COUNT = sizeof real_names / sizeof *real_names };
enum { REAL_TYPES = 4 };
static void *real_data[REAL_COUNT][REAL_TYPES];
static PyUFuncGenericFunction real_functions[REAL_COUNT][REAL_TYPES];
static char real_types[] = {NPY_FLOAT, NPY_FLOAT, NPY_DOUBLE, NPY_DOUBLE,
                            NPY_CFLOAT, NPY_CFLOAT, NPY_CDOUBLE, NPY_CDOUBLE};

#define FUNCTION(name) static PyUFuncGenericFunction name##_functions[] = {name##_f32, name##_f64};
FUNCTION(unary)
FUNCTION(binary)
FUNCTION(fma)
FUNCTION(sum_wide)
FUNCTION(squares_wide)

static void *power_data[REAL_TYPES];
static PyUFuncGenericFunction power_functions[REAL_TYPES] = {binary_f32, binary_f64};
static char power_types[] = {NPY_FLOAT, NPY_FLOAT, NPY_FLOAT,
                             NPY_DOUBLE, NPY_DOUBLE, NPY_DOUBLE,
                             NPY_CFLOAT, NPY_CFLOAT, NPY_CFLOAT,
                             NPY_CDOUBLE, NPY_CDOUBLE, NPY_CDOUBLE};

static PyUFuncGenericFunction whole_power_functions[] = {whole_power};
static char unary_types[] = {NPY_FLOAT, NPY_FLOAT, NPY_DOUBLE, NPY_DOUBLE};
static char binary_types[] = {NPY_FLOAT, NPY_FLOAT, NPY_FLOAT,
                              NPY_DOUBLE, NPY_DOUBLE, NPY_DOUBLE};
static char fma_types[] = {NPY_FLOAT, NPY_FLOAT, NPY_FLOAT, NPY_FLOAT,
                           NPY_DOUBLE, NPY_DOUBLE, NPY_DOUBLE, NPY_DOUBLE};
static char sum_types[] = {NPY_FLOAT, NPY_DOUBLE, NPY_DOUBLE, NPY_DOUBLE};
static char squares_types[] = {NPY_FLOAT, NPY_FLOAT, NPY_DOUBLE, NPY_DOUBLE, NPY_DOUBLE, NPY_DOUBLE};

typedef struct {
    PyUFuncGenericFunction *functions;
    void **data;
    char *types;
    int dtypes, inputs;
    const char *core; /* the signature of dimensions, NULL for element by element */
} Rule;

/* Adds a ufunc to the module. */
static int add(PyObject *module, const char *name, Rule rule, const char *document) {
    PyObject *function = PyUFunc_FromFuncAndDataAndSignature(
        rule.functions, rule.data, rule.types, rule.dtypes, rule.inputs, 1, PyUFunc_None, name,
        document, 0, rule.core);
    const int result = function ? PyModule_AddObjectRef(module, name, function) : -1;
    Py_XDECREF(function);
    return result;
}

/* NumPy's loops of complex numbers, behind those of float and double. */
static int find_complex(PyObject *numpy, const char *name, PyUFuncGenericFunction *functions,
                        void **of_functions) {
    Loop narrow, wide;
    if (find_loop(numpy, name, NPY_CFLOAT, &narrow) < 0 ||
        find_loop(numpy, name, NPY_CDOUBLE, &wide) < 0)
        return -1;
    functions[2] = narrow.run, of_functions[2] = narrow.data;
    functions[3] = wide.run, of_functions[3] = wide.data;
    return 0;
}

/* Functions that NumPy has, too, under its names: so arrays of CuPy are handed over to CuPy's (NEP 13). */
static int add_real(PyObject *module, PyObject *numpy) {
    for (int i = 0; i < REAL_COUNT; i++) {
        real_functions[i][0] = unary_f32, real_functions[i][1] = unary_f64;
        if (find_complex(numpy, real_names[i], real_functions[i], real_data[i]) < 0 ||
            add(module, real_names[i],
                (Rule){real_functions[i], real_data[i], real_types, REAL_TYPES, 1, NULL},
                "NumPy's function of this name.") < 0)
            return -1;
    }
    if (find_complex(numpy, "power", power_functions, power_data) < 0 ||
        add(module, "power", (Rule){power_functions, power_data, power_types, REAL_TYPES, 2, NULL},
            "x to the power y.") < 0)
        return -1;
    return add(module, "arctan2", (Rule){binary_functions, arctan2_data, binary_types, 2, 2, NULL},
               "The angle of the point (y, x).");
}

static int add_all(PyObject *module) {
    PyObject *numpy = PyImport_ImportModule("numpy");
    const int failed = numpy == NULL || add_real(module, numpy) < 0;
    Py_XDECREF(numpy);
    if (failed) return -1;
    for (int i = 0; i < SINGLE_COUNT; i++)
        if (add(module, single_names[i],
                (Rule){unary_functions, single_data + i, unary_types, 1, 1, NULL},
                "The special function of this name, in float32.") < 0)
            return -1;
    if (add(module, "erf", (Rule){unary_functions, erf_data, unary_types, 2, 1, NULL},
            "The error function.") < 0 ||
        add(module, "erfinv", (Rule){unary_functions, erfinv_data, unary_types, 2, 1, NULL},
            "The inverse of the error function.") < 0 ||
        add(module, "nextafter", (Rule){binary_functions, nextafter_data, binary_types, 2, 2, NULL},
            "The next number after x towards y.") < 0 ||
        add(module, "zeta", (Rule){binary_functions, zeta_data, binary_types, 1, 2, NULL},
            "Hurwitz's zeta function of finite q > 0 and x < 1e30, in float32.") < 0 ||
        add(module, "fma", (Rule){fma_functions, data, fma_types, 2, 3, NULL},
            "x * y + z, rounded once.") < 0 ||
        add(module, "whole_power", (Rule){whole_power_functions, data, binary_types, 1, 2, NULL},
            "x to a whole number y of at most 2^16 in size.") < 0 ||
        add(module, "sum_wide", (Rule){sum_wide_functions, data, sum_types, 2, 1, "(i)->()"},
            "Sum along the last dimension, in double.") < 0)
        return -1;
    return add(module, "squares_wide",
               (Rule){squares_wide_functions, data, squares_types, 2, 2, "(i),()->()"},
               "Sum of the squares of x - center along the last dimension, in double.");
}

static void choose(const Loops *narrow, const Loops *wide) {
    data[0] = (void *)narrow, data[1] = (void *)wide;
    erf_data[0] = (void *)&narrow->erf, erf_data[1] = (void *)&wide->erf;
    erfinv_data[0] = (void *)&narrow->erfinv, erfinv_data[1] = (void *)&wide->erfinv;
    nextafter_data[0] = (void *)&narrow->nextafter, nextafter_data[1] = (void *)&wide->nextafter;
    zeta_data[0] = (void *)&narrow->zeta;
    arctan2_data[0] = (void *)&narrow->arctan2, arctan2_data[1] = (void *)&wide->arctan2;
    power_data[0] = (void *)&narrow->power, power_data[1] = (void *)&wide->power;
    for (int i = 0; i < REAL_COUNT; i++)
        real_data[i][0] = (void *)(narrow->real + i), real_data[i][1] = (void *)(wide->real + i);
    for (int i = 0; i < SINGLE_COUNT; i++) single_data[i] = (void *)(narrow->single + i);
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dynajit.ops.native._vecmath", .m_size = -1,
};

PyMODINIT_FUNC PyInit__vecmath(void) {
    import_array();
    import_umath();
    choose(&loops_f32_plain, &loops_f64_plain);
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        choose(&loops_f32_avx2, &loops_f64_avx2);
    /* As codegen.compilers.toolchain: CPUs that have the last one run at full clock with wide vectors. */
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2"))
        choose(&loops_f32_avx512, &loops_f64_avx512);
#endif
    PyObject *module = PyModule_Create(&definition);
    if (module && add_all(module) < 0) Py_CLEAR(module);
    return module;
}
