/* Loops over the vector mathematics of generated C, for one instruction set; included by a file for
 * each, which defines NAMED(x), the name of x there, and has said for which CPU it is.
 *
 * Contract: as vecmath_table.h says. Sums go through LANES partial sums in double, which are added
 * in pairs: the same bits for every instruction set.
 */
#include "vecmath.h"
#include "vecmath_f64.h"
#include "vecmath_f64_inverse.h"
#include "vecmath_f64_power.h"
#include "vecmath_special.h"
#include "vecmath_table.h"

#include <stddef.h>

enum { LANES = 16 };

static double added_lanes(double *lanes) {
    for (int half = LANES / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
    return lanes[0];
}

#define ADDED(T, VALUE)                                                                             \
    double lanes[LANES] = {0};                                                                      \
    int64_t i = 0;                                                                                  \
    for (; i + LANES <= count; i += LANES)                                                          \
        for (int lane = 0; lane < LANES; lane++) lanes[lane] += (double)(VALUE(x[i + lane]));       \
    for (int lane = 0; i < count; i++, lane++) lanes[lane] += (double)(VALUE(x[i]));                \
    return added_lanes(lanes);

#define ITSELF(x) (x)
#define SQUARE(x) (((x) - middle) * ((x) - middle))

/* Not in the headers of strict C. */
extern double jn(int order, double x);

#define BESSEL(order)                                                                               \
    static inline float NAMED(j##order##_anywhere)(float x) {                                       \
        if (fabsf(x) > DJ_NEAR) return (float)jn(order, (double)x) + (x - x); /* see libm.h */      \
        return dj_bessel_j##order##_near_f32(x);                                                    \
    }                                                                                               \
    static void NAMED(bessel_j##order)(const void *from, void *to, int64_t count) {                 \
        const float *x = from;                                                                      \
        float *y = to;                                                                              \
        int far = 0;                                                                                \
        for (int64_t i = 0; i < count; i++) far |= fabsf(x[i]) > DJ_NEAR;                           \
        if (far) {                                                                                  \
            for (int64_t i = 0; i < count; i++) y[i] = NAMED(j##order##_anywhere)(x[i]);            \
        }                                                                                           \
        else {                                                                                      \
            for (int64_t i = 0; i < count; i++) y[i] = dj_bessel_j##order##_near_f32(x[i]);         \
        }                                                                                           \
    }
BESSEL(0)
BESSEL(1)

static void NAMED(zeta)(const void *from_x, const void *from_q, void *to, int64_t count) {
    const float *x = from_x, *q = from_q;
    for (int64_t i = 0; i < count; i++) ((float *)to)[i] = dj_zeta_near_f32(x[i], q[i]);
}

#define SINGLE(name)                                                                                \
    static void NAMED(name)(const void *x, void *y, int64_t count) {                                \
        for (int64_t i = 0; i < count; i++) ((float *)y)[i] = dj_##name##_f32(((const float *)x)[i]); \
    }
DJ_PLAIN_FUNCTIONS(SINGLE)

#define ENTRY(name) NAMED(name),
static const Unary NAMED(single)[] = {DJ_SINGLE_FUNCTIONS(ENTRY)};

/* The result may be the operand. */
#define EVERYWHERE(T, SUFFIX, numpy, name)                                                          \
    static void NAMED(numpy##_##SUFFIX)(const void *from, void *to, int64_t count) {                \
        const T *x = from;                                                                          \
        T *y = to;                                                                                  \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < count; i++) y[i] = dj_##name##_##SUFFIX(x[i]); \
    }

/* Of angles: by libm beyond DJ_NEAR alone, as libm.h. */
#define ANGLES(T, SUFFIX, F, numpy, name)                                                           \
    static void NAMED(numpy##_##SUFFIX)(const void *from, void *to, int64_t count) {                \
        const T *x = from;                                                                          \
        T *y = to;                                                                                  \
        int far = 0;                                                                                \
        for (int64_t i = 0; i < count; i++) far |= !(fabs##F(x[i]) <= DJ_NEAR);                     \
        if (far) {                                                                                  \
            for (int64_t i = 0; i < count; i++)                                                     \
                y[i] = fabs##F(x[i]) <= DJ_NEAR ? dj_##name##_near_##SUFFIX(x[i]) : name##F(x[i]);  \
        }                                                                                           \
        else {                                                                                      \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < count; i++)                                \
                y[i] = dj_##name##_near_##SUFFIX(x[i]);                                             \
        }                                                                                           \
    }

#define OF_FLOAT(numpy, name) EVERYWHERE(float, f32, numpy, name)
#define OF_DOUBLE(numpy, name) EVERYWHERE(double, f64, numpy, name)
#define ANGLES_OF_FLOAT(numpy, name) ANGLES(float, f32, f, numpy, name)
#define ANGLES_OF_DOUBLE(numpy, name) ANGLES(double, f64, , numpy, name)
DJ_EVERYWHERE_FUNCTIONS(OF_FLOAT)
DJ_EVERYWHERE_FUNCTIONS(OF_DOUBLE)
DJ_NEAR_FUNCTIONS(ANGLES_OF_FLOAT)
DJ_NEAR_FUNCTIONS(ANGLES_OF_DOUBLE)

#define REAL_OF_FLOAT(numpy, name) NAMED(numpy##_f32),
#define REAL_OF_DOUBLE(numpy, name) NAMED(numpy##_f64),
static const Unary NAMED(real_f32)[] = {DJ_REAL_FUNCTIONS(REAL_OF_FLOAT)};
static const Unary NAMED(real_f64)[] = {DJ_REAL_FUNCTIONS(REAL_OF_DOUBLE)};

#define PAIRS(T, SUFFIX, numpy, name)                                                               \
    static void NAMED(numpy##_##SUFFIX)(const void *from_x, const void *from_y, void *to,           \
                                        int64_t count) {                                            \
        const T *x = from_x, *y = from_y;                                                           \
        T *z = to;                                                                                  \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < count; i++)                                    \
            z[i] = dj_##name##_##SUFFIX(x[i], y[i]);                                                \
    }
PAIRS(float, f32, arctan2, atan2)
PAIRS(double, f64, arctan2, atan2)
PAIRS(float, f32, power, pow)
PAIRS(double, f64, power, pow)

#define LOOPS(T, SUFFIX, FMA, SINGLE, ZETA, POWER)                                                  \
    static void NAMED(erfinv_##SUFFIX)(const void *x, void *y, int64_t count) {                     \
        for (int64_t i = 0; i < count; i++) ((T *)y)[i] = dj_erfinv_##SUFFIX(((const T *)x)[i]);    \
    }                                                                                               \
    static void NAMED(nextafter_##SUFFIX)(const void *from_x, const void *from_y, void *to,         \
                                          int64_t count) {                                          \
        const T *x = from_x, *y = from_y;                                                           \
        for (int64_t i = 0; i < count; i++) ((T *)to)[i] = dj_nextafter_##SUFFIX(x[i], y[i]);       \
    }                                                                                               \
    static void NAMED(erf_##SUFFIX)(const void *x, void *y, int64_t count) {                        \
        for (int64_t i = 0; i < count; i++) ((T *)y)[i] = dj_erf_##SUFFIX(((const T *)x)[i]);       \
    }                                                                                               \
    static void NAMED(fma_##SUFFIX)(const void *from_x, const void *from_y, const void *from_z,     \
                                    void *to, int64_t count, const int *fixed) {                    \
        const T *x = from_x, *y = from_y, *z = from_z;                                              \
        T *out = to;                                                                                \
        if (!fixed[0] && fixed[1] && fixed[2]) {                                                    \
            const T factor = *y, term = *z;                                                         \
            for (int64_t i = 0; i < count; i++) out[i] = FMA(x[i], factor, term);                   \
        }                                                                                           \
        else if (!fixed[0] && !fixed[1] && !fixed[2]) {                                             \
            for (int64_t i = 0; i < count; i++) out[i] = FMA(x[i], y[i], z[i]);                     \
        }                                                                                           \
        else {                                                                                      \
            for (int64_t i = 0; i < count; i++)                                                     \
                out[i] = FMA(x[fixed[0] ? 0 : i], y[fixed[1] ? 0 : i], z[fixed[2] ? 0 : i]);        \
        }                                                                                           \
    }                                                                                               \
    static double NAMED(sum_##SUFFIX)(const void *from, int64_t count) {                            \
        const T *x = from;                                                                          \
        ADDED(T, ITSELF)                                                                            \
    }                                                                                               \
    static double NAMED(squares_##SUFFIX)(const void *from, const void *center, int64_t count) {    \
        const T *x = from, middle = *(const T *)center;                                             \
        ADDED(T, SQUARE)                                                                            \
    }                                                                                               \
    const Loops NAMED(loops_##SUFFIX) = {NAMED(erf_##SUFFIX), NAMED(erfinv_##SUFFIX),               \
                                         NAMED(nextafter_##SUFFIX), NAMED(arctan2_##SUFFIX),        \
                                         NAMED(power_##SUFFIX), NAMED(real_##SUFFIX), SINGLE, ZETA, \
                                         NAMED(fma_##SUFFIX), NAMED(sum_##SUFFIX),                  \
                                         NAMED(squares_##SUFFIX), POWER};

static void NAMED(whole_power)(const void *from, float y, void *to, int64_t count) {
    const float *x = from;
    float *out = to;
    /* What depends on y alone is no choice within the loop: GCC would make it no vector loop. */
    const uint32_t sign = floorf(y * 0.5f) != y * 0.5f ? 0x80000000u : 0;
    const float zero = y < 0.0f ? INFINITY : y == 0.0f ? 1.0f : 0.0f;
    int far = 0;
    for (int64_t i = 0; i < count; i++) far |= dj_pow_is_far_f32(fabsf(x[i]));
    if (far) {
        for (int64_t i = 0; i < count; i++) out[i] = dj_whole_pow_f32(x[i], y);
    }
    else {
        for (int64_t i = 0; i < count; i++) {
            const float power = dj_exp_of_pair(dj_pair_times(dj_log_pair(fabsf(x[i]), 0.0f), y));
            const float z = x[i] == 0.0f ? zero : power;
            out[i] = dj_float_of_bits(dj_bits_of_float(z) | (dj_bits_of_float(x[i]) & sign));
        }
    }
}

LOOPS(float, f32, __builtin_fmaf, NAMED(single), NAMED(zeta), NAMED(whole_power))
LOOPS(double, f64, __builtin_fma, NULL, NULL, NULL)
