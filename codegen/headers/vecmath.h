/* Vector mathematics for float as branch-free inline code.
 *
 * Contract: at most 4 ULP from the exact value over all of float; NaN, infinities, signed zeros and
 * subnormals as in C99. No branches, no calls, no tables: a loop that calls these functions
 * vectorises at any vector width, and gives the same bits in the vector body and in the scalar
 * remainder of the loop. Polynomials and quotients are minimax fits (iteratively reweighted least
 * squares at Chebyshev nodes, coefficients rounded one after the other) made for this file; range
 * reductions are the textbook ones (Muller, "Elementary Functions", chapters 4 and 11). Sums are in
 * Estrin's order: a vector loop waits for the longest chain, not for the number of operations.
 * tests/codegen/test_vecmath.py measures the errors.
 */

#include <math.h>
#include <stdint.h>

#define DJ_LOG2_E 1.44269504088896341f
#define DJ_LN2_HIGH 0.693145751953125f     /* 16 bits of ln 2: n * this is exact for |n| < 256 */
#define DJ_LN2_LOW 1.42860682030941723e-6f /* ln 2 minus the above */
#define DJ_ROUND_MAGIC 12582912.0f         /* 1.5 * 2^23: adding it rounds to an integer */

/* a * b + c, rounded once where that is one instruction. */
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
#define DJ_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define DJ_FMA_F64(a, b, c) __builtin_fma(a, b, c)
#else
#define DJ_FMA(a, b, c) ((a) * (b) + (c))
#define DJ_FMA_F64(a, b, c) ((a) * (b) + (c))
#endif

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

/* ---- exponentials ---- */

/* expm1(r) for |r| <= ln(2) / 2 (1 + 1e-3). */
static inline float
dj_expm1_reduced(float r)
{
    float r2 = r * r;
    float low = DJ_FMA(0.1666651964187622f, r, 0.5f);
    float high = DJ_FMA(0.008368849754333496f, r, 0.041666384786367416f);
    high = DJ_FMA(0.0013942214427515864f, r2, high);
    return DJ_FMA(r2, DJ_FMA(high, r2, low), r);
}

/* x - n ln 2 with n the nearest integer of x / ln 2. `*shifted` has n in its lowest bits; where |x|
 * is too large for that, the caller does not use the result. */
static inline float
dj_exp_reduced(float x, float *shifted)
{
    *shifted = DJ_FMA(x, DJ_LOG2_E, DJ_ROUND_MAGIC);
    float n = *shifted - DJ_ROUND_MAGIC;
    return DJ_FMA(n, -DJ_LN2_LOW, DJ_FMA(n, -DJ_LN2_HIGH, x));
}

/* 2^n * y for y in [0.7, 1.42] whose result is no overflow; where that is subnormal, `small` must
 * hold: then the scale is put on in two steps, of which the second rounds. */
static inline float
dj_scaled(float y, float shifted, int small)
{
    uint32_t lift = small ? 32u << 23 : 0u;
    float scaled = dj_float_of_bits(dj_bits_of_float(y) + (dj_bits_of_float(shifted) << 23) + lift);
    return scaled * (small ? 0x1p-32f : 1.0f);
}

/* expm1(r) for |r| <= ln(2) (1 + 1e-3). */
static inline float
dj_expm1_reduced_twice(float r)
{
    float r2 = r * r;
    float low = DJ_FMA(0.1666661649942398f, r, 0.5000003576278687f);
    float middle = DJ_FMA(0.008335963822901249f, r, 0.04166119545698166f);
    float high = DJ_FMA(0.00019631025497801602f, r, 0.0014105556765571237f);
    high = DJ_FMA(DJ_FMA(high, r2, middle), r2, low);
    return DJ_FMA(high, r2, r);
}

/* 4^m exp(r) with r = x - m ln 4, as 2^m times 2^m exp(r): both factors are normal numbers, so the
 * product alone overflows, or is rounded to a subnormal. Where the result is 0, so is the factor 2^m:
 * a product too small for float would take many processors a hundred times as long. */
static inline float
dj_exp_f32(float x)
{
    float limited = x < -104.0f ? -176.04f : x; /* m is -127 there, which stands for 0 */
    float shifted = DJ_FMA(limited, 0.5f * DJ_LOG2_E, DJ_ROUND_MAGIC);
    /* m <= 64, compared as integers: one instruction, which lets r grow, or pass NaN on. */
    int32_t bits = (int32_t)dj_bits_of_float(shifted);
    shifted = dj_float_of_bits((uint32_t)(bits < 0x4b400040 ? bits : 0x4b400040));
    float m = shifted - DJ_ROUND_MAGIC;
    float r = DJ_FMA(m, -2.0f * DJ_LN2_LOW, DJ_FMA(m, -2.0f * DJ_LN2_HIGH, limited));
    float factor = dj_float_of_bits((dj_bits_of_float(shifted) << 23) + 0x3f800000u);
    return factor * DJ_FMA(factor, dj_expm1_reduced_twice(r), factor);
}

/* exp(x) for x <= 0, or NaN, as a term of a sum with a 1: 0 below 2^-126. See c_softmax.py. */
static inline float
dj_softmax_term_f32(float x)
{
    float shifted;
    float r = dj_exp_reduced(x < -88.03f ? -88.03f : x, &shifted); /* n >= -127, which stands for 0 */
    float factor = dj_float_of_bits((dj_bits_of_float(shifted) << 23) + 0x3f800000u);
    return DJ_FMA(factor, dj_expm1_reduced(r), factor);
}

/* x / sum for a term and its sum of at least 1, given 1 / sum. What the product misses is known exactly
 * but for results below 2^-100. See c_softmax.py. */
static inline float
dj_softmax_share_f32(float x, float sum, float inverse)
{
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
    float share = x * inverse;
    return DJ_FMA(DJ_FMA(-share, sum, x), inverse, share);
#else
    (void)inverse;
    return x / sum;
#endif
}

static inline float
dj_exp2_f32(float x)
{
    float shifted = x + DJ_ROUND_MAGIC;
    float r = (x - (shifted - DJ_ROUND_MAGIC)) * 0.693147180559945309f;
    float y = dj_scaled(1.0f + dj_expm1_reduced(r), shifted, x < -125.0f);
    y = x < -150.0f ? 0.0f : y;
    return x < 128.0f ? y : x * INFINITY;
}

/* Half of exp(x) - 1, where it is no overflow and x above -20. */
static inline float
dj_half_expm1(float x)
{
    float shifted;
    float p = dj_expm1_reduced(dj_exp_reduced(x, &shifted));
    float half = dj_float_of_bits((dj_bits_of_float(shifted) << 23) + 0x3f000000u); /* 2^(n-1) */
    return DJ_FMA(half, p, half - 0.5f);
}

static inline float
dj_expm1_f32(float x)
{
    float y = 2.0f * dj_half_expm1(x);
    y = x < -18.0f ? -1.0f : y;
    y = fabsf(x) < 1e-8f ? x : y; /* subnormals are not halved; keeps -0 */
    return x <= 88.72283172607422f ? y : x * INFINITY;
}

/* exp(a) / 2 for a >= 0; NaN stays. */
static inline float
dj_half_exp(float a)
{
    float shifted;
    float y = 1.0f + dj_expm1_reduced(dj_exp_reduced(a, &shifted));
    y = dj_float_of_bits(dj_bits_of_float(y) + ((dj_bits_of_float(shifted) - 1u) << 23));
    return a <= 89.41598510742188f ? y : a * INFINITY;
}

static inline float
dj_sinh_f32(float x)
{
    float a = fabsf(x);
    float half = dj_half_expm1(a < 9.0f ? a : 9.0f); /* E / 2; sinh is (E + E / (E + 1)) / 2 */
    float y = half + half / (half + half + 1.0f);
    y = a < 1e-4f ? a : y;
    return copysignf(a < 9.0f ? y : dj_half_exp(a), x);
}

static inline float
dj_cosh_f32(float x)
{
    float half = dj_half_exp(fabsf(x));
    return half + 0.25f / half;
}

static inline float
dj_tanh_f32(float x)
{
    float a = fabsf(x);
    float half = dj_half_expm1(a > 10.0f ? 20.0f : a + a);
    return copysignf(half / (half + 1.0f), x);
}

/* ---- logarithms ---- */

/* f - log(1 + f) for sqrt(1/2) - 1 <= f <= sqrt(2) - 1, as f^2/2 - f^3 q(f). */
static inline float
dj_log1p_reduced_tail(float f)
{
    float f2 = f * f;
    float f4 = f2 * f2;
    float a = DJ_FMA(-0.25000816583633423f, f, 0.33333316445350647f);
    float b = DJ_FMA(-0.16624337434768677f, f, 0.2000230997800827f);
    float c = DJ_FMA(-0.13130420446395874f, f, 0.14180563390254974f);
    float d = DJ_FMA(-0.07860954850912094f, f, 0.12886661291122437f);
    float q = DJ_FMA(DJ_FMA(d, f2, c), f4, DJ_FMA(b, f2, a));
    return f2 * DJ_FMA(-f, q, 0.5f);
}

/* Splits a positive finite x into 2^k * (1 + f), f as above. */
static inline float
dj_split(float x, float *k)
{
    int subnormal = x < 1.17549435e-38f;
    float y = subnormal ? x * 8388608.0f : x;
    uint32_t bits = dj_bits_of_float(y) + (0x3f800000u - 0x3f3504f3u);
    int32_t exponent = (int32_t)(bits >> 23) - (subnormal ? 150 : 127);
    *k = (float)exponent;
    return dj_float_of_bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
}

/* The edges that logarithms share: 0 -> -inf, below 0 -> NaN, inf and NaN -> themselves. */
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
    float low = DJ_FMA(k, DJ_LN2_LOW, -dj_log1p_reduced_tail(f));
    return dj_log_edges(x, DJ_FMA(k, DJ_LN2_HIGH, low + f));
}

static inline float
dj_log2_f32(float x)
{
    float k;
    float f = dj_split(x, &k);
    float tail = dj_log1p_reduced_tail(f);
    /* (f - tail) / ln 2; the head of 1 / ln 2 has 8 bits and that of f 16, so their product is exact. */
    float head = dj_float_of_bits(dj_bits_of_float(f) & 0xffffff00u);
    float rest = (f - head) - tail;
    float low = DJ_FMA(rest, DJ_LOG2_E, head * 0.00519504088896341f);
    return dj_log_edges(x, k + (head * 1.4375f + low));
}

static inline float
dj_log10_f32(float x)
{
    float k;
    float f = dj_split(x, &k);
    float tail = dj_log1p_reduced_tail(f);
    float head = dj_float_of_bits(dj_bits_of_float(f) & 0xffffff00u);
    float rest = (f - head) - tail;
    /* 1 / ln 10 in 8 bits and the rest; log10(2) in 12 bits and the rest. */
    float low = DJ_FMA(rest, 0.434294481903251828f, head * 0.000700731903251828f);
    low = DJ_FMA(k, 4.6050389811980175e-06f, low);
    return dj_log_edges(x, k * 0.301025390625f + (head * 0.43359375f + low));
}

static inline float
dj_log1p_f32(float x)
{
    float u = 1.0f + x;
    uint32_t bits = dj_bits_of_float(u) + (0x3f800000u - 0x3f3504f3u);
    int32_t exponent = (int32_t)(bits >> 23) - 127;
    /* 2^(2 - k), so that it is a number for every k; then f = 2^-k (1 + x) - 1, rounded once. */
    float scale = dj_float_of_bits((uint32_t)(129 - exponent) << 23);
    float f = DJ_FMA(0.25f * x, scale, DJ_FMA(0.25f, scale, -1.0f));
    float k = (float)exponent;
    float low = DJ_FMA(k, DJ_LN2_LOW, -dj_log1p_reduced_tail(f));
    float y = dj_log_edges(u, DJ_FMA(k, DJ_LN2_HIGH, low + f));
    return u == 1.0f ? x : y; /* tiny x, and -0 */
}

/* ---- error function ---- */

/* n / (n + d), where n / d is erf / (1 - erf). Both are polynomials, fitted together so that the error
 * of their quotient weighs what it moves the result. Where the result comes near 1, d is small beside n,
 * and the rounding of n is in both parts of the quotient: erf as one odd polynomial over an even one
 * has twice the error there. At 3.906 the quotient is 1, and all beyond is. The scale is that of the
 * least error. */
static inline float
dj_erf_f32(float x)
{
    float a = fabsf(x);
    a = a > 3.906f ? 3.906f : a;
    float p = DJ_FMA(0.0024376134388148785f, a, 0.000950056069996208f);
    float d = DJ_FMA(0.0006371093913912773f, a, -0.013664576224982738f);
    p = DJ_FMA(p, a, 0.005814543925225735f);
    d = DJ_FMA(d, a, 0.12283970415592194f);
    p = DJ_FMA(p, a, 0.004771080333739519f);
    d = DJ_FMA(d, a, -0.5928413271903992f);
    p = DJ_FMA(p, a, 0.3561277389526367f);
    d = DJ_FMA(d, a, 1.6210609674453735f);
    p = DJ_FMA(p, a, -0.81490558385849f);
    d = DJ_FMA(d, a, -2.3826828002929688f);
    p = DJ_FMA(p, a, 1.6604911088943481f);
    d = DJ_FMA(d, a, 1.471571922302246f);
    float n = a * p;
    return copysignf(n / (n + d), x);
}

/* ---- inverse functions ---- */

/* atan(t) for 0 <= t <= 1. */
static inline float
dj_atan_reduced(float t)
{
    float z = t * t, z2 = z * z;
    float b = DJ_FMA(0.1999853402376175f, z, -0.33333298563957214f);
    float c = DJ_FMA(0.10951506346464157f, z, -0.14264102280139923f);
    float d = DJ_FMA(0.05792722851037979f, z, -0.08401581645011902f);
    float e = DJ_FMA(0.010899696499109268f, z, -0.031148936599493027f);
    e = DJ_FMA(-0.0017904058331623673f, z2, e);
    float p = DJ_FMA(DJ_FMA(e, z2, d), z2 * z2, DJ_FMA(c, z2, b));
    return DJ_FMA(t * z, p, t);
}

static inline float
dj_atan_f32(float x)
{
    float a = fabsf(x);
    int far = a > 1.0f;
    float y = dj_atan_reduced(far ? 1.0f / a : a);
    y = far ? 1.57079637f - (y + 4.37113883e-8f) : y; /* pi / 2 in two parts */
    return copysignf(x != x ? x : y, x);
}

/* asin(s) for 0 <= s <= 1 / 2, z = s^2. */
static inline float
dj_asin_reduced(float s, float z)
{
    float p = DJ_FMA(0.07495252043008804f, z, 0.16666753590106964f);
    float q = DJ_FMA(0.02415209263563156f, z, 0.0454760417342186f);
    q = DJ_FMA(0.04221179708838463f, z * z, q);
    return DJ_FMA(s * z, DJ_FMA(q, z * z, p), s);
}

static inline float
dj_asin_f32(float x)
{
    float a = fabsf(x);
    int far = a > 0.5f;
    float z = far ? 0.5f - 0.5f * a : a * a; /* below 0 outside [-1, 1]: the root is NaN */
    float y = dj_asin_reduced(far ? sqrtf(z) : a, z);
    y = far ? 1.57079637f - (y + y + 4.37113883e-8f) : y;
    return copysignf(x != x ? x : y, x);
}

static inline float
dj_acos_f32(float x)
{
    float a = fabsf(x);
    int far = a > 0.5f;
    float z = far ? 0.5f - 0.5f * a : a * a;
    float y = dj_asin_reduced(far ? sqrtf(z) : a, z);
    float near = 1.57079637f - (copysignf(y, x) + 4.37113883e-8f);
    float turned = 3.14159274f - (y + y + 8.74227766e-8f);
    y = far ? (x < 0.0f ? turned : y + y) : near;
    return x != x ? x : y;
}

static inline float
dj_atanh_f32(float x)
{
    float a = fabsf(x);
    return copysignf(0.5f * dj_log1p_f32((a + a) / (1.0f - a)), x);
}

static inline float
dj_asinh_f32(float x)
{
    float a = fabsf(x);
    int far = a > 1e9f;
    float z = a * a;
    float y = dj_log1p_f32(far ? a : a + z / (1.0f + sqrtf(1.0f + z)));
    return copysignf(far ? y + 0.693147180559945309f : y, x);
}

static inline float
dj_acosh_f32(float x)
{
    int far = x > 1e9f;
    float t = x - 1.0f;
    float y = dj_log1p_f32(far ? x : t + sqrtf(t * (x + 1.0f)));
    y = far ? y + 0.693147180559945309f : y;
    return x < 1.0f ? NAN : y;
}

/* ---- angles ---- */

/* sin_near, cos_near and tan_near are for |x| <= DJ_NEAR; larger angles need thousands of bits of pi,
 * which libm has: a loop that meets one is run again with it (c_rows.py). */
#define DJ_NEAR 65536.0f

/* x - n pi / 2, with the nearest n in the lowest bits of `*quadrant`. */
static inline float
dj_angle_reduced(float x, uint32_t *quadrant)
{
    float shifted = DJ_FMA(x, 0.636619772367581343f, DJ_ROUND_MAGIC);
    float n = shifted - DJ_ROUND_MAGIC;
    *quadrant = dj_bits_of_float(shifted);
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
    /* Positive parts of pi / 2, so that -0 stays; the first step is exact. */
    float r = DJ_FMA(n, -1.570796251296997f, x);
    r = DJ_FMA(n, -7.549789415861596e-08f, r);
    return DJ_FMA(n, -5.390302529957765e-15f, r);
#else
    /* Positive parts of pi / 2, so that -0 stays; the first has 33 bits: its product is exact. */
    double wide = (double)x - (double)n * 1.57079632673412561417;
    return (float)(wide - (double)n * 6.07710050650619224932e-11);
#endif
}

/* sin(r) and cos(r) for |r| <= pi / 4 (1 + 1e-2). */
static inline float
dj_sin_reduced(float r)
{
    float z = r * r;
    float p = DJ_FMA(0.00833209604024887f, z, -0.16666653752326965f);
    float y = DJ_FMA(r * z, DJ_FMA(-0.0001950562873389572f, z * z, p), r);
    return copysignf(y, r); /* keeps -0 */
}

static inline float
dj_cos_reduced(float r)
{
    float z = r * r;
    float p = DJ_FMA(-0.0013887288514524698f, z, 0.04166664555668831f);
    p = DJ_FMA(2.442821096337866e-05f, z * z, p);
    return DJ_FMA(z * z, p, DJ_FMA(z, -0.5f, 1.0f));
}

/* By half turns, so that one polynomial is enough; it may pass 1 by its last bit. (Of cos it would
 * round cos(0).) */
static inline float
dj_sin_near_f32(float x)
{
    float shifted = DJ_FMA(x, 0.318309886183790672f, DJ_ROUND_MAGIC);
    float n = shifted - DJ_ROUND_MAGIC;
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
    float r = DJ_FMA(n, -3.141592502593994f, x);          /* exact */
    r = DJ_FMA(n, -1.5099578831723193e-07f, r);
    r = DJ_FMA(n, -1.078060505991553e-14f, r);
#else
    double wide = (double)x - (double)n * 3.14159265346825122834;
    float r = (float)(wide - (double)n * 1.21542010130012386447e-10);
#endif
    float z = r * r;
    float low = DJ_FMA(0.00833306834101677f, z, -0.16666659712791443f);
    float high = DJ_FMA(2.6057839477289235e-06f, z, -0.00019809666264336556f);
    float y = fabsf(DJ_FMA(r * z, DJ_FMA(high, z * z, low), r));
    y = y > 1.0f ? 1.0f : y;
    uint32_t sign = dj_bits_of_float(r) ^ dj_bits_of_float(shifted) << 31;
    return copysignf(y, dj_float_of_bits(sign));          /* keeps -0 */
}

static inline float
dj_cos_near_f32(float x)
{
    uint32_t n;
    float r = dj_angle_reduced(x, &n);
    float y = n & 1u ? dj_sin_reduced(r) : dj_cos_reduced(r);
    return dj_float_of_bits(dj_bits_of_float(y) ^ ((n + 1u) << 30 & 0x80000000u));
}

static inline float
dj_tan_near_f32(float x)
{
    uint32_t n;
    float r = dj_angle_reduced(x, &n);
    float sine = dj_sin_reduced(r), cosine = dj_cos_reduced(r);
    return (n & 1u ? -cosine : sine) / (n & 1u ? sine : cosine);
}

/* ---- powers ---- */

/* log2(1 + f) / f with 36 bits, so that 150 times the logarithm is known to 28 bits; 1 + f lies between
 * sqrt(1/2) and sqrt(2). */
static inline double
dj_log2_quotient(double f)
{
    double f2 = f * f, f4 = f2 * f2;
    double a = DJ_FMA_F64(-0.7213475207493755, f, 1.4426950408664843);
    double b = DJ_FMA_F64(-0.36067369894497214, f, 0.4808983626834635);
    double c = DJ_FMA_F64(-0.24045174546581333, f, 0.28853718517933935);
    double d = DJ_FMA_F64(-0.18033596151386122, f, 0.20617806551700268);
    double e = DJ_FMA_F64(-0.14276057360348846, f, 0.15875653673298623);
    double g = DJ_FMA_F64(-0.14448266548890806, f, 0.14449718489639954);
    double low = DJ_FMA_F64(b, f2, a), high = DJ_FMA_F64(d, f2, c);
    double top = DJ_FMA_F64(0.07954927737609052, f4, DJ_FMA_F64(g, f2, e));
    return DJ_FMA_F64(DJ_FMA_F64(top, f4, high), f4, low);
}

/* Through double: log2 |x|. */
static inline double
dj_log2_wide(double x)
{
    union { double f; uint64_t u; } pun = {.f = x};
    uint64_t bits = pun.u + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double k = (double)((int32_t)(bits >> 52) - 1023);
    pun.u = (bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu;
    double f = pun.f - 1.0;
    return DJ_FMA_F64(dj_log2_quotient(f), f, k);
}

/* 2^t for |t| <= 200. */
static inline double
dj_exp2_wide(double t)
{
    double shifted = t + 6755399441055744.0; /* 1.5 * 2^52 */
    double r = t - (shifted - 6755399441055744.0);
    double r2 = r * r;
    double a = DJ_FMA_F64(0.6931472067410805, r, 0.9999999999189595);
    double b = DJ_FMA_F64(0.05550327148722332, r, 0.2402265150586815);
    double c = DJ_FMA_F64(0.0013400458479019513, r, 0.00961799442331326);
    c = DJ_FMA_F64(0.00015478047607545253, r2, c);
    double y = DJ_FMA_F64(DJ_FMA_F64(c, r2, b), r2, a);
    union { double f; uint64_t u; } pun = {.f = shifted}, result = {.f = y};
    result.u += pun.u << 52;
    return result.f;
}

static inline float
dj_pow_f32(float x, float y)
{
    float a = fabsf(x);
    double t = (double)y * dj_log2_wide((double)a);
    t = t < -200.0 ? -200.0 : t;
    t = t > 200.0 ? 200.0 : t;
    float z = (float)dj_exp2_wide(t);
    float grown = y < 0.0f ? 0.0f : INFINITY, shrunk = y < 0.0f ? INFINITY : 0.0f;
    z = a == INFINITY ? grown : z;
    z = a == 0.0f ? shrunk : z;
    float limit = (a > 1.0f) == (y > 0.0f) ? INFINITY : 0.0f;
    z = fabsf(y) == INFINITY ? (a == 1.0f ? 1.0f : limit) : z;
    float half = y * 0.5f;
    int is_whole = floorf(y) == y, is_odd = is_whole & (floorf(half) != half);
    float turned = is_odd ? -z : z;
    turned = is_whole | (a == INFINITY) | (a == 0.0f) ? turned : NAN;
    z = dj_bits_of_float(x) >> 31 ? turned : z;
    z = (x != x) | (y != y) ? x + y : z;
    return (x == 1.0f) | (y == 0.0f) ? 1.0f : z;
}

/* pow_near is for positive normal x and 0. */
static inline int
dj_pow_is_far_f32(float x)
{
    uint32_t bits = dj_bits_of_float(x);
    return !((bits - 0x00800000u < 0x7f000000u) | (bits == 0));
}

/* As dj_pow_f32, for |y| <= 6: no result leaves the range of double, which takes comparisons to see.
 * Exponent and mantissa are taken apart in float. */
static inline float
dj_pow_near_f32(float x, float y)
{
    uint32_t bits = dj_bits_of_float(x) + (0x3f800000u - 0x3f3504f3u);
    float k = (float)((int32_t)(bits >> 23) - 127);
    double f = (double)(dj_float_of_bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f);
    double t = (double)y * DJ_FMA_F64(dj_log2_quotient(f), f, (double)k);
    float zero = y < 0.0f ? INFINITY : y == 0.0f ? 1.0f : 0.0f;
    return x == 0.0f ? zero : (float)dj_exp2_wide(t);
}

/* ---- whole powers ----
 *
 * Sums of two floats, the second of which is what the first was rounded by. Every step rounds as those
 * of SLEEF's powf for vectors do, with its coefficients (Shibata and Petrogalli, "SLEEF: a portable
 * vectorized library of C standard mathematical functions"): PyTorch calls that, and programs that
 * learn polynomials follow it to the last bit. Steps that are exact are shorter here. What other
 * powers do, through double, is nearer to the exact value in 2 of 100 cases, and takes two thirds of
 * the time.
 */

/* a * b + c, rounded once; without fused products through double, which holds a * b. */
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
#define DJ_FUSED(a, b, c) __builtin_fmaf(a, b, c)
#else
#define DJ_FUSED(a, b, c) ((float)((double)(a) * (double)(b) + (double)(c)))
#endif

typedef struct {
    float high, low;
} dj_pair;

/* A call in a loop would keep it from being a vector loop, and these are large. */
#define DJ_WITHIN static inline __attribute__((always_inline, unused))

DJ_WITHIN dj_pair
dj_pair_times(dj_pair x, float y)
{
    float high = x.high * y;
    return (dj_pair){high, DJ_FUSED(x.low, y, DJ_FUSED(x.high, y, -high))};
}

DJ_WITHIN dj_pair
dj_pair_product(dj_pair x, dj_pair y)
{
    float high = x.high * y.high, rest = DJ_FUSED(x.high, y.high, -high);
    return (dj_pair){high, DJ_FUSED(x.high, y.low, DJ_FUSED(x.low, y.high, rest))};
}

DJ_WITHIN dj_pair
dj_pair_square(dj_pair x)
{
    float high = x.high * x.high, rest = DJ_FUSED(x.high, x.high, -high);
    return (dj_pair){high, DJ_FUSED(x.high + x.high, x.low, rest)};
}

/* x + y where |x| is not below |y|. */
DJ_WITHIN dj_pair
dj_pair_sum(dj_pair x, dj_pair y)
{
    float high = x.high + y.high;
    return (dj_pair){high, x.high - high + y.high + x.low + y.low};
}

/* log(x 2^-k) of a positive normal number. */
DJ_WITHIN dj_pair
dj_log_pair(float x, float k)
{
    uint32_t above = dj_bits_of_float(x) - 0x3f400000u;                  /* of 3/4 */
    float exponent = (float)((int32_t)above >> 23) - k;
    float m = dj_float_of_bits((above & 0x007fffffu) + 0x3f400000u);     /* 3/4 to 3/2 */
    float less = m - 1.0f;                                               /* exact */
    dj_pair more = {m + 1.0f, m - (m + 1.0f - 1.0f)};
    float inverse = 1.0f / more.high, quotient = less * inverse;
    float missed = DJ_FUSED(-more.low, inverse, DJ_FUSED(-more.high, inverse, 1.0f));
    float rest = DJ_FUSED(inverse, less, -quotient);
    dj_pair z = {quotient, DJ_FUSED(quotient, missed, rest)};
    dj_pair z2 = dj_pair_square(z);
    float t = 0.240320354700088500976562f;
    t = DJ_FUSED(t, z2.high, 0.285112679004669189453125f);
    t = DJ_FUSED(t, z2.high, 0.400007992982864379882812f);
    dj_pair third = {0.66666662693023681640625f, 3.69183861259614332084311e-09f};
    dj_pair more_terms = dj_pair_times(z2, t);                           /* smaller */
    dj_pair factor = {third.high + more_terms.high, more_terms.low + third.low};
    factor.low += more_terms.high - (factor.high - third.high);
    dj_pair ln2 = {0.69314718246459960938f, -1.904654323148236017e-09f};
    dj_pair sum = dj_pair_times(ln2, exponent);
    float high = DJ_FUSED(z.high, 2.0f, sum.high);
    float low = DJ_FUSED(z.high, 2.0f, sum.high - high) + sum.low;
    dj_pair first = {high, DJ_FUSED(z.low, 2.0f, low)};
    return dj_pair_sum(first, dj_pair_product(dj_pair_product(z2, z), factor));
}

/* exp(x), rounded once where it is subnormal; |x.low| is at most 1/4. */
DJ_WITHIN float
dj_exp_of_pair(dj_pair x)
{
    /* Beyond these bounds all results are infinity and zero; at them, too. */
    float high = x.high < 100.0f ? x.high : 100.0f;
    high = high > -105.0f ? high : -105.0f;
    float shifted = (high + x.low) * DJ_LOG2_E + DJ_ROUND_MAGIC;
    float n = shifted - DJ_ROUND_MAGIC;
    float most = DJ_FUSED(n, -0.693145751953125f, high);                 /* exact */
    float rest = n * -1.428606765330187045e-06f;
    /* What is lost is exact, though `rest` may be larger: `most` is a multiple of 2^-25 then. */
    dj_pair r = {most + rest, rest - (most + rest - most) + x.low};
    float near = r.high + r.low;
    r = (dj_pair){near, r.high - near + r.low};
    float u = 0.00136324646882712841033936f;
    u = DJ_FUSED(u, r.high, 0.00836596917361021041870117f);
    u = DJ_FUSED(u, r.high, 0.0416710823774337768554688f);
    u = DJ_FUSED(u, r.high, 0.166665524244308471679688f);
    u = DJ_FUSED(u, r.high, 0.499999850988388061523438f);
    dj_pair y = dj_pair_sum(r, dj_pair_times(dj_pair_square(r), u));
    float one = 1.0f + y.high;
    y = (dj_pair){one, 1.0f - one + y.high + y.low};
    /* The power of two in two factors: one would not reach subnormal results. */
    uint32_t power = dj_bits_of_float(shifted) - 0x4b400000u;
    uint32_t half = (uint32_t)((int32_t)power >> 1);
    float scaled = (y.high + y.low) * dj_float_of_bits((half << 23) + 0x3f800000u);
    return scaled * dj_float_of_bits(((power - half) << 23) + 0x3f800000u);
}

/* x to a whole power of at most 2^16; for positive normal x and 0, as dj_pow_is_far_f32 has it. */
DJ_WITHIN float
dj_whole_pow_near_f32(float x, float y)
{
    float z = dj_exp_of_pair(dj_pair_times(dj_log_pair(x, 0.0f), y));
    float zero = y < 0.0f ? INFINITY : y == 0.0f ? 1.0f : 0.0f;
    return x == 0.0f ? zero : z;
}

/* x to any whole power. */
DJ_WITHIN float
dj_whole_pow_f32(float x, float y)
{
    float a = fabsf(x), half = y * 0.5f;
    int is_small = a < 0x1p-126f;
    dj_pair log = dj_log_pair(is_small ? a * 0x1p64f : a, is_small ? 64.0f : 0.0f);
    dj_pair power = dj_pair_times(log, y);
    power.low = fabsf(power.high) < 200.0f ? power.low : 0.0f;           /* of a huge one it is large */
    float z = dj_exp_of_pair(power);
    z = a == INFINITY ? (y < 0.0f ? 0.0f : INFINITY) : z;
    z = a == 0.0f ? (y < 0.0f ? INFINITY : 0.0f) : z;
    z = floorf(half) != half ? copysignf(z, x) : z;
    z = x != x ? x : z;
    return y == 0.0f ? 1.0f : z;
}
