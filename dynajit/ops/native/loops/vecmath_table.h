/* The loops of one dtype and instruction set that `_vecmath.c` calls and vecmath_loops.h defines.
 *
 * Contract: operands and results lie side by side; results of single elements may be operands.
 */
#ifndef DJ_VECMATH_TABLE_H
#define DJ_VECMATH_TABLE_H
#include <stdint.h>

/* Functions of one float without one of double; the order is that of `Loops.single`. */
#define DJ_SINGLE_FUNCTIONS(EACH) EACH(bessel_j0) EACH(bessel_j1) DJ_PLAIN_FUNCTIONS(EACH)
#define DJ_PLAIN_FUNCTIONS(EACH)                                                                    \
    EACH(erfc) EACH(i0) EACH(i0e) EACH(i1) EACH(i1e) EACH(lgamma) EACH(log_ndtr)       \
    EACH(ndtri)

/* Functions of float and of double, by their names in NumPy and here; the order is that of `Loops.real`. */
#define DJ_REAL_FUNCTIONS(EACH) DJ_NEAR_FUNCTIONS(EACH) DJ_EVERYWHERE_FUNCTIONS(EACH)
#define DJ_NEAR_FUNCTIONS(EACH) EACH(sin, sin) EACH(cos, cos) EACH(tan, tan)
#define DJ_EVERYWHERE_FUNCTIONS(EACH)                                                               \
    EACH(exp, exp) EACH(exp2, exp2) EACH(expm1, expm1) EACH(log, log) EACH(log2, log2)              \
    EACH(log10, log10) EACH(log1p, log1p) EACH(arcsin, asin) EACH(arccos, acos)                     \
    EACH(arctan, atan) EACH(sinh, sinh) EACH(cosh, cosh) EACH(tanh, tanh) EACH(arcsinh, asinh)      \
    EACH(arccosh, acosh) EACH(arctanh, atanh)

typedef void (*Unary)(const void *x, void *y, int64_t count);
typedef void (*Binary)(const void *x, const void *y, void *z, int64_t count);

typedef struct {
    Unary erf, erfinv;
    Binary nextafter, arctan2, power;
    const Unary *real;
    const Unary *single; /* float only, as the next */
    Binary zeta;         /* see dj_zeta_near_f32 */
    /* x * y + z, rounded once; operand i is one element where fixed[i]. */
    void (*fma)(const void *x, const void *y, const void *z, void *out, int64_t count,
                const int *fixed);
    double (*sum)(const void *x, int64_t count);
    double (*squares)(const void *x, const void *center, int64_t count); /* of x - center */
    void (*whole_power)(const void *x, float y, void *out, int64_t count); /* float only */
} Loops;

#endif
