/* Vector mathematics for float: exp, exp2, expm1, log, log1p, tanh, erf as branch-free inline code.
 *
 * Contract: at most 4 ULP from the exact value over all of float; NaN, infinities, signed zeros and
 * subnormals as in C99. No branches, no calls, no tables: a loop that calls these functions
 * vectorises at any vector width, and gives the same bits in the vector body and in the scalar
 * remainder of the loop. Polynomials are minimax fits (iteratively reweighted least squares at
 * Chebyshev nodes) made for this file; range reductions are the textbook ones (Muller, "Elementary
 * Functions", chapters 4 and 11). tests/codegen/test_vecmath.py measures the errors.
 */
#ifndef DYNAJIT_VECMATH_H
#define DYNAJIT_VECMATH_H

#include <math.h>
#include <stdint.h>

#define DJ_LOG2_E 1.44269504088896341f
#define DJ_LN2_HIGH 0.693145751953125f     /* 16 bits of ln 2: n * this is exact for |n| < 256 */
#define DJ_LN2_LOW 1.42860682030941723e-6f /* ln 2 minus the above */
#define DJ_ROUND_MAGIC 12582912.0f         /* 1.5 * 2^23: adding it rounds to an integer */

static inline float
dj_float_of_bits(uint32_t bits)
{
    union { uint32_t u; float f; } pun = {.u = bits};
    return pun.f;
}

static inline uint32_t
dj_bits_of_float(float x)
{
    union { float f; uint32_t u; } pun = {.f = x};
    return pun.u;
}

/* Nearest integer of y (|y| < 2^22) as a float, and as an int32 without a conversion. */
static inline float
dj_round_magic(float y, int32_t *integer)
{
    float shifted = y + DJ_ROUND_MAGIC;
    *integer = (int32_t)(dj_bits_of_float(shifted) - 0x4b400000u);
    return shifted - DJ_ROUND_MAGIC;
}

/* 2^n for -126 <= n <= 127. */
static inline float
dj_power_of_two(int32_t n)
{
    return dj_float_of_bits((uint32_t)(n + 127) << 23);
}

/* expm1(r) for |r| <= ln(2) / 2 (1 + 1e-3). */
static inline float
dj_expm1_reduced(float r)
{
    float q = 0.0013942160876467824f;
    q = q * r + 0.008363775908946991f;
    q = q * r + 0.041666362434625626f;
    q = q * r + 0.16666573286056519f;
    q = q * r + 0.5f;
    return r + (r * r) * q;
}

/* 2^n * (1 + p), with n from -151 to 128: two factors keep the scale representable. */
static inline float
dj_scale_one_plus(float p, int32_t n)
{
    int32_t half = n >> 1;
    return ((1.0f + p) * dj_power_of_two(half)) * dj_power_of_two(n - half);
}

static inline float
dj_exp_f32(float x)
{
    float clamped = x > 89.0f ? 89.0f : x;
    clamped = clamped < -104.0f ? -104.0f : clamped;
    int32_t n;
    float k = dj_round_magic(clamped * DJ_LOG2_E, &n);
    float r = (clamped - k * DJ_LN2_HIGH) - k * DJ_LN2_LOW;
    n = n < -151 ? -151 : n > 129 ? 129 : n; /* only NaN is clamped here */
    return dj_scale_one_plus(dj_expm1_reduced(r), n);
}

static inline float
dj_exp2_f32(float x)
{
    float clamped = x > 129.0f ? 129.0f : x;
    clamped = clamped < -151.0f ? -151.0f : clamped;
    int32_t n;
    float k = dj_round_magic(clamped, &n);
    float r = (clamped - k) * 0.693147180559945309f;
    n = n < -151 ? -151 : n > 129 ? 129 : n;
    return dj_scale_one_plus(dj_expm1_reduced(r), n);
}

static inline float
dj_expm1_f32(float x)
{
    float clamped = x > 89.0f ? 89.0f : x;
    clamped = clamped < -20.0f ? -20.0f : clamped;
    int32_t n;
    float k = dj_round_magic(clamped * DJ_LOG2_E, &n);
    float r = (clamped - k * DJ_LN2_HIGH) - k * DJ_LN2_LOW;
    n = n < -30 ? -30 : n > 129 ? 129 : n;
    float p = dj_expm1_reduced(r);
    float half_scale = dj_power_of_two(n - 1 > 127 ? 127 : n - 1);
    float y = (p * half_scale + (half_scale - 0.5f)) * 2.0f;
    y = n == 0 ? p : y;
    y = x > 88.7228394f ? x * INFINITY : y;
    return x == 0.0f ? x : y; /* keeps -0 */
}

/* log(1 + f) for sqrt(1/2) - 1 <= f <= sqrt(2) - 1, as f - (f^2/2 - f^3 q(f)). */
static inline float
dj_log1p_reduced_tail(float f)
{
    float q = 0.07332437485456467f;
    q = q * f - 0.11659887433052063f;
    q = q * f + 0.11634676903486252f;
    q = q * f - 0.12396707385778427f;
    q = q * f + 0.1425115466117859f;
    q = q * f - 0.16669151186943054f;
    q = q * f + 0.2000068873167038f;
    q = q * f - 0.24999980628490448f;
    q = q * f + 0.3333333134651184f;
    return (f * f) * (0.5f - f * q);
}

/* Splits a positive finite x into 2^k * (1 + f), f as above. */
static inline float
dj_split(float x, float *k)
{
    float subnormal = x < 1.17549435e-38f ? 1.0f : 0.0f;
    float y = subnormal != 0.0f ? x * 8388608.0f : x;
    uint32_t bits = dj_bits_of_float(y) + (0x3f800000u - 0x3f3504f3u);
    int32_t exponent = (int32_t)(bits >> 23) - 127;
    float m = dj_float_of_bits((bits & 0x007fffffu) + 0x3f3504f3u);
    *k = (float)exponent - subnormal * 23.0f;
    return m - 1.0f;
}

/* The edges that log and log1p share: 0 -> -inf, below 0 -> NaN, inf and NaN -> themselves. */
static inline float
dj_log_edges(float argument, float y)
{
    y = argument < INFINITY ? y : argument;
    y = argument == 0.0f ? -INFINITY : y;
    return argument < 0.0f ? NAN : y;
}

static inline float
dj_log_f32(float x)
{
    float k;
    float f = dj_split(x, &k);
    float tail = dj_log1p_reduced_tail(f);
    float y = k * DJ_LN2_HIGH + ((k * DJ_LN2_LOW - tail) + f);
    return dj_log_edges(x, y);
}

static inline float
dj_log1p_f32(float x)
{
    float u = 1.0f + x;
    float k;
    float f = dj_split(u, &k);
    /* What rounding 1 + x lost, relative to u. */
    float lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
    float tail = dj_log1p_reduced_tail(f);
    float y = k * DJ_LN2_HIGH + (((k * DJ_LN2_LOW + lost / u) - tail) + f);
    y = dj_log_edges(u, y);
    return u == 1.0f ? x : y; /* tiny x, and -0 */
}

static inline float
dj_tanh_f32(float x)
{
    float a = fabsf(x);
    float e = dj_expm1_f32(2.0f * (a > 10.0f ? 10.0f : a));
    float y = a > 10.0f ? 1.0f : e / (e + 2.0f);
    y = x != x ? x : y;
    return copysignf(y, x);
}

static inline float
dj_erf_f32(float x)
{
    float a = fabsf(x);
    float near = a > 0.9f ? 0.9f : a;
    float z = near * near;
    float p = 8.32748701213859e-05f;
    p = p * z - 0.000813321559689939f;
    p = p * z + 0.0052002607844769955f;
    p = p * z - 0.026859119534492493f;
    p = p * z + 0.11283691227436066f;
    p = p * z - 0.37612634897232056f;
    p = p * z + 0.12837916612625122f;
    float small = near + near * p;
    float t = a < 0.9f ? 0.9f : a > 4.0f ? 4.0f : a;
    float q = -7.374564461315458e-07f; /* log(erfc(t)) on [0.9, 4] */
    q = q * t - 1.1311349226161838e-05f;
    q = q * t + 0.000378849683329463f;
    q = q * t - 0.003994101192802191f;
    q = q * t + 0.02477451227605343f;
    q = q * t - 0.10785821080207825f;
    q = q * t - 0.6336632966995239f;
    q = q * t - 1.129381775856018f;
    q = q * t + 0.0001506137050455436f;
    float large = 1.0f - dj_exp_f32(q);
    float y = a < 0.9f ? small : large;
    y = x != x ? x : y;
    return copysignf(y, x);
}

#endif
