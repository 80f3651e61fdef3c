/* Vector mathematics for double as branch-free inline code: `vecmath.h`, which is included first, in
 * double precision, with the same contract. Polynomials are minimax fits (Remez exchange) made for
 * this file. tests/codegen/test_vecmath_f64.py measures the errors.
 */

#define DJ_LOG2_E_F64 1.4426950408889634
#define DJ_LN2_HIGH_F64 0.6931471805598903 /* 42 bits of ln 2: n * this is exact for |n| < 2048 */
#define DJ_LN2_LOW_F64 5.497923018708371e-14
#define DJ_ROUND_MAGIC_F64 6755399441055744.0 /* 1.5 * 2^52: adding it rounds to an integer */

static inline double
dj_double_of_bits(uint64_t bits)
{
    union { uint64_t u; double f; } pun = {.u = bits};
    return pun.f;
}

static inline uint64_t
dj_bits_of_double(double x)
{
    union { double f; uint64_t u; } pun = {.f = x};
    return pun.u;
}

/* ---- exponentials ---- */

/* expm1(r) for |r| <= ln(2) / 2 (1 + 1e-3). */
static inline double
dj_expm1_reduced_wide(double r)
{
    double r2 = r * r, r4 = r2 * r2;
    double a = DJ_FMA_F64(0.16666666666666685, r, 0.5);
    double b = DJ_FMA_F64(0.008333333333315754, r, 0.04166666666666667);
    double c = DJ_FMA_F64(0.00019841269899430764, r, 0.00138888888888818);
    double d = DJ_FMA_F64(2.7557231948525736e-06, r, 2.480158733265156e-05);
    double e = DJ_FMA_F64(2.5113008487499675e-08, r, 2.755726398945509e-07);
    e = DJ_FMA_F64(2.0918934885683066e-09, r2, e);
    double q = DJ_FMA_F64(DJ_FMA_F64(e, r4, DJ_FMA_F64(d, r2, c)), r4, DJ_FMA_F64(b, r2, a));
    return DJ_FMA_F64(r2, q, r);
}

/* x - n ln 2 with n the nearest integer of x / ln 2, in the lowest bits of `*shifted`. */
static inline double
dj_exp_reduced_wide(double x, double *shifted)
{
    *shifted = DJ_FMA_F64(x, DJ_LOG2_E_F64, DJ_ROUND_MAGIC_F64);
    double n = *shifted - DJ_ROUND_MAGIC_F64;
    return DJ_FMA_F64(n, -DJ_LN2_LOW_F64, DJ_FMA_F64(n, -DJ_LN2_HIGH_F64, x));
}

/* 2^n * y for y in [0.7, 1.42] whose result is no overflow; where that is subnormal, `small` holds. */
static inline double
dj_scaled_wide(double y, double shifted, int small)
{
    uint64_t lift = small ? UINT64_C(64) << 52 : 0;
    uint64_t bits = dj_bits_of_double(y) + (dj_bits_of_double(shifted) << 52) + lift;
    return dj_double_of_bits(bits) * (small ? 0x1p-64 : 1.0);
}

static inline double
dj_exp_f64(double x)
{
    double shifted;
    double r = dj_exp_reduced_wide(x, &shifted);
    double y = dj_scaled_wide(1.0 + dj_expm1_reduced_wide(r), shifted, x < -707.0);
    y = x < -746.0 ? 0.0 : y;
    return x <= 709.782712893384 ? y : x * INFINITY; /* NaN stays */
}

static inline double
dj_exp2_f64(double x)
{
    double shifted = x + DJ_ROUND_MAGIC_F64;
    double r = (x - (shifted - DJ_ROUND_MAGIC_F64)) * 0.6931471805599453;
    double y = dj_scaled_wide(1.0 + dj_expm1_reduced_wide(r), shifted, x < -1020.0);
    y = x < -1076.0 ? 0.0 : y;
    return x < 1024.0 ? y : x * INFINITY;
}

/* Half of exp(x) - 1, where it is no overflow and x above -40. */
static inline double
dj_half_expm1_wide(double x)
{
    double shifted;
    double p = dj_expm1_reduced_wide(dj_exp_reduced_wide(x, &shifted));
    double half = dj_double_of_bits((dj_bits_of_double(shifted) << 52) + 0x3fe0000000000000u);
    return DJ_FMA_F64(half, p, half - 0.5);
}

static inline double
dj_expm1_f64(double x)
{
    double y = 2.0 * dj_half_expm1_wide(x);
    y = x < -38.0 ? -1.0 : y;
    y = fabs(x) < 1e-17 ? x : y; /* subnormals are not halved; keeps -0 */
    return x <= 709.782712893384 ? y : x * INFINITY;
}

/* exp(a) / 2 for a >= 0; NaN stays. */
static inline double
dj_half_exp_wide(double a)
{
    double shifted;
    double y = 1.0 + dj_expm1_reduced_wide(dj_exp_reduced_wide(a, &shifted));
    y = dj_double_of_bits(dj_bits_of_double(y) + ((dj_bits_of_double(shifted) - 1) << 52));
    return a <= 710.4758600739439 ? y : a * INFINITY;
}

static inline double
dj_sinh_f64(double x)
{
    double a = fabs(x);
    double half = dj_half_expm1_wide(a < 20.0 ? a : 20.0);
    double y = half + half / (half + half + 1.0);
    y = a < 1e-9 ? a : y;
    return copysign(a < 20.0 ? y : dj_half_exp_wide(a), x);
}

static inline double
dj_cosh_f64(double x)
{
    double half = dj_half_exp_wide(fabs(x));
    return half + 0.25 / half;
}

static inline double
dj_tanh_f64(double x)
{
    double a = fabs(x);
    double half = dj_half_expm1_wide(a > 22.0 ? 44.0 : a + a);
    return copysign(half / (half + 1.0), x);
}

/* ---- logarithms ---- */

/* f - log(1 + f) for sqrt(1/2) - 1 <= f <= sqrt(2) - 1, through s = f / (2 + f). */
static inline double
dj_log1p_reduced_tail_wide(double f)
{
    double s = f / (2.0 + f);
    double z = s * s, z2 = z * z;
    double a = DJ_FMA_F64(0.39999999999408725, z, 0.6666666666666735);
    double b = DJ_FMA_F64(0.2222219839784053, z, 0.28571428743919924);
    double c = DJ_FMA_F64(0.15313776532156126, z, 0.1818357427378258);
    c = DJ_FMA_F64(0.1479887319626132, z2, c);
    double r = z * DJ_FMA_F64(DJ_FMA_F64(c, z2, b), z2, a);
    double half = 0.5 * f * f;
    return half - s * (half + r);
}

/* Splits a positive finite x into 2^k * (1 + f), f as above. */
static inline double
dj_split_wide(double x, double *k)
{
    int subnormal = x < 2.2250738585072014e-308;
    double y = subnormal ? x * 0x1p54 : x;
    uint64_t bits = dj_bits_of_double(y) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    int32_t exponent = (int32_t)(bits >> 52) - (subnormal ? 1077 : 1023);
    *k = (double)exponent;
    return dj_double_of_bits((bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
}

static inline double
dj_log_edges_wide(double argument, double y)
{
    y = argument < INFINITY ? y : argument;
    y = argument == 0.0 ? -INFINITY : y;
    return argument < 0.0 ? NAN : y;
}

static inline double
dj_log_f64(double x)
{
    double k;
    double f = dj_split_wide(x, &k);
    double low = DJ_FMA_F64(k, DJ_LN2_LOW_F64, -dj_log1p_reduced_tail_wide(f));
    return dj_log_edges_wide(x, DJ_FMA_F64(k, DJ_LN2_HIGH_F64, low + f));
}

static inline double
dj_log2_f64(double x)
{
    double k;
    double f = dj_split_wide(x, &k);
    /* The head of 1 / ln 2 has 32 bits and that of f 21, so their product is exact. */
    double head = dj_double_of_bits(dj_bits_of_double(f) & 0xffffffff00000000u);
    double rest = (f - head) - dj_log1p_reduced_tail_wide(f);
    double low = DJ_FMA_F64(rest, DJ_LOG2_E_F64, head * 1.6751713164886512e-10);
    return dj_log_edges_wide(x, k + (head * 1.4426950407214463 + low));
}

static inline double
dj_log10_f64(double x)
{
    double k;
    double f = dj_split_wide(x, &k);
    double head = dj_double_of_bits(dj_bits_of_double(f) & 0xffffffff00000000u);
    double rest = (f - head) - dj_log1p_reduced_tail_wide(f);
    double low = DJ_FMA_F64(rest, 0.4342944819032518, head * 2.5082946711645275e-11);
    low = DJ_FMA_F64(k, 2.8363394551044964e-14, low);
    return dj_log_edges_wide(x, k * 0.30102999566395283 + (head * 0.4342944818781689 + low));
}

static inline double
dj_log1p_f64(double x)
{
    double u = 1.0 + x;
    uint64_t bits = dj_bits_of_double(u) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    int32_t exponent = (int32_t)(bits >> 52) - 1023;
    /* 2^(2 - k), so that it is a number for every k; then f = 2^-k (1 + x) - 1, rounded once. */
    double scale = dj_double_of_bits((uint64_t)(1025 - exponent) << 52);
    double f = DJ_FMA_F64(0.25 * x, scale, DJ_FMA_F64(0.25, scale, -1.0));
    double k = (double)exponent;
    double low = DJ_FMA_F64(k, DJ_LN2_LOW_F64, -dj_log1p_reduced_tail_wide(f));
    double y = dj_log_edges_wide(u, DJ_FMA_F64(k, DJ_LN2_HIGH_F64, low + f));
    return u == 1.0 ? x : y; /* tiny x, and -0 */
}

/* ---- angles up to DJ_NEAR ---- */

/* x - n pi / 2, with the nearest n in the lowest bits of `*quadrant`. */
static inline double
dj_angle_reduced_wide(double x, uint64_t *quadrant)
{
    double shifted = DJ_FMA_F64(x, 0.6366197723675814, DJ_ROUND_MAGIC_F64);
    double n = shifted - DJ_ROUND_MAGIC_F64;
    *quadrant = dj_bits_of_double(shifted);
    /* Positive parts of pi / 2, so that -0 stays; the first step is exact. */
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
    double r = DJ_FMA_F64(n, -1.5707963267948966, x);
    r = DJ_FMA_F64(n, -6.123233995736765e-17, r);
    return DJ_FMA_F64(n, -1.0828566739219139e-32, r);
#else
    double r = (x - n * 1.5707963267341256) - n * 6.077100506303966e-11;
    return r - n * 2.0222662487959506e-21;
#endif
}

/* sin(r) and cos(r) for |r| <= pi / 4 (1 + 1e-3). */
static inline double
dj_sin_reduced_wide(double r)
{
    double z = r * r, z2 = z * z;
    double a = DJ_FMA_F64(0.008333333333322455, z, -0.16666666666666632);
    double b = DJ_FMA_F64(2.7557313687633025e-06, z, -0.00019841269829813532);
    double c = DJ_FMA_F64(1.5896682265980155e-10, z, -2.5050756723691112e-08);
    double p = DJ_FMA_F64(DJ_FMA_F64(c, z2, b), z2, a);
    return copysign(DJ_FMA_F64(r * z, p, r), r); /* keeps -0 */
}

static inline double
dj_cos_reduced_wide(double r)
{
    double z = r * r, z2 = z * z;
    double a = DJ_FMA_F64(-0.0013888888888874441, z, 0.0416666666666666);
    double b = DJ_FMA_F64(-2.755731438745403e-07, z, 2.4801587289636293e-05);
    double c = DJ_FMA_F64(-1.1359802230090792e-11, z, 2.0875727055438973e-09);
    double p = DJ_FMA_F64(DJ_FMA_F64(c, z2, b), z2, a);
    return DJ_FMA_F64(z2, p, DJ_FMA_F64(z, -0.5, 1.0));
}

static inline double
dj_sin_near_f64(double x)
{
    uint64_t n;
    double r = dj_angle_reduced_wide(x, &n);
    double y = n & 1u ? dj_cos_reduced_wide(r) : dj_sin_reduced_wide(r);
    return dj_double_of_bits(dj_bits_of_double(y) ^ (n << 62 & 0x8000000000000000u));
}

static inline double
dj_cos_near_f64(double x)
{
    uint64_t n;
    double r = dj_angle_reduced_wide(x, &n);
    double y = n & 1u ? dj_sin_reduced_wide(r) : dj_cos_reduced_wide(r);
    return dj_double_of_bits(dj_bits_of_double(y) ^ ((n + 1u) << 62 & 0x8000000000000000u));
}

static inline double
dj_tan_near_f64(double x)
{
    uint64_t n;
    double r = dj_angle_reduced_wide(x, &n);
    double sine = dj_sin_reduced_wide(r), cosine = dj_cos_reduced_wide(r);
    return (n & 1u ? -cosine : sine) / (n & 1u ? sine : cosine);
}
