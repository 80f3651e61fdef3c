/* x^y for double, with the contract of `vecmath_f64.h`, which is included first: the logarithm has some
 * 65 bits, in two doubles, since y times it is up to 1024 times what an exponential may be off by.
 * tests/codegen/test_vecmath_f64.py measures the error.
 */

#define DJ_INFINITE_BITS_F64 INT64_C(0x7ff0000000000000)
#define DJ_ONE_BITS_F64 INT64_C(0x3ff0000000000000)

/* a * b - product, where product is a * b rounded. Source of the form without fused products:
 * T. J. Dekker, "A floating-point technique for extending the available precision", 1971. */
static inline double
dj_product_rest_wide(double a, double b, double product)
{
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
    return DJ_FMA_F64(a, b, -product);
#else
    double p = a * 134217729.0, q = b * 134217729.0;
    double a_high = p - (p - a), b_high = q - (q - b);
    double a_low = a - a_high, b_low = b - b_high;
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
}

/* log(2^k (1 + f)) for f in [-0.3, 0.42], and in `*rest` what is missing: 2 atanh(s), s = f / (2 + f).
 * One division: `s_low` is what `s` lacks, however that was rounded. */
static inline double
dj_log_pair_wide(double f, double k, double *rest)
{
    double d = 2.0 + f, d_low = (2.0 - d) + f, inverse = 1.0 / d;
    double s = f * inverse, product = s * d;
    double s_low = ((f - product) - dj_product_rest_wide(s, d, product) - s * d_low) * inverse;
    double z = s * s, z_low = DJ_FMA_F64(s + s, s_low, dj_product_rest_wide(s, s, z));
    double cube = s * z;
    double cube_low = dj_product_rest_wide(s, z, cube) + (s * z_low + s_low * z);
    double third = cube * 0.6666666666666666;
    double third_low = dj_product_rest_wide(cube, 0.6666666666666666, third);
    third_low = third_low + (cube_low * 0.6666666666666666 + cube * 3.700743415417188e-17);
    double z2 = z * z;
    double even = DJ_FMA_F64(0.11706189818894329, z2, 0.1538459492363594);
    even = DJ_FMA_F64(even, z2, 0.22222222221653867);
    even = DJ_FMA_F64(even, z2, 0.4);
    double odd = DJ_FMA_F64(0.11723623560845678, z2, 0.13334806604094968);
    odd = DJ_FMA_F64(odd, z2, 0.18181818335798924);
    odd = DJ_FMA_F64(odd, z2, 0.2857142857142937);
    double tail = cube * z * DJ_FMA_F64(odd, z, even);
    double near = (s + s) + third, near_low = ((s + s) - near) + third;
    double whole = k * DJ_LN2_HIGH_F64; /* exact */
    double high = whole + near, high_low = (whole - high) + near;
    double low = high_low + (near_low + (s_low + s_low + third_low + tail) + k * DJ_LN2_LOW_F64);
    double result = high + low;
    *rest = (high - result) + low;
    return result;
}

/* pow_near is for x in [2^-60, 2^60) and 0, and |y| <= 16: no result leaves the normal numbers. */
static inline int
dj_pow_is_far_f64(double x, double y)
{
    uint64_t bits = dj_bits_of_double(x);
    int is_ordinary = (bits - (UINT64_C(963) << 52) < UINT64_C(120) << 52) | (bits == 0);
    return !(is_ordinary & (fabs(y) <= 16.0));
}

/* The bits of dj_pow_f64, without its edges. */
static inline double
dj_pow_near_f64(double x, double y)
{
    uint64_t bits = dj_bits_of_double(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double k = (double)((int32_t)(bits >> 52) - 1023), low, shifted;
    double f = dj_double_of_bits((bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
    double log = dj_log_pair_wide(f, k, &low);
    double t = y * log;
    double t_low = DJ_FMA_F64(y, low, dj_product_rest_wide(y, log, t));
    double v = 1.0 + dj_expm1_reduced_wide(dj_exp_reduced_wide(t, &shifted) + t_low);
    double zero = y < 0.0 ? INFINITY : y == 0.0 ? 1.0 : 0.0;
    return x == 0.0 ? zero : dj_scaled_wide(v, shifted, 0);
}

/* `a` where c is 1, else `b`, by masks: the compiler makes branches of choices behind a
 * choice of x (a maximum with 0), where it knows them for one of its values, and no vectors then. */
static inline double
dj_chosen_f64(int64_t c, double a, double b)
{
    uint64_t mask = -(uint64_t)c;
    return dj_double_of_bits((dj_bits_of_double(a) & mask) | (dj_bits_of_double(b) & ~mask));
}

static inline double
dj_pow_f64(double x, double y)
{
    int64_t bits = (int64_t)dj_bits_of_double(x), size = bits & INT64_MAX;
    double a = dj_double_of_bits((uint64_t)size), k, low, shifted;
    double f = dj_split_wide(a, &k);
    double log = dj_log_pair_wide(f, k, &low);
    double t = y * log;
    double t_low = DJ_FMA_F64(y, low, dj_product_rest_wide(y, log, t));
    t_low = fabs(t) < 800.0 ? t_low : 0.0;
    t_low = fabs(y) < 1e290 ? t_low : 0.0; /* what was split may be infinite; t is 0 or large */
    t = t < -800.0 ? -800.0 : t;
    t = t > 800.0 ? 800.0 : t;
    double v = 1.0 + dj_expm1_reduced_wide(dj_exp_reduced_wide(t, &shifted) + t_low);
    double z = dj_scaled_wide(v, shifted, t < -707.0);
    z = t < -746.0 ? 0.0 : z;
    double most = v < 1.0 ? 1024.0 : 1023.0; /* v * 2^n is a number up to this n */
    z = shifted - DJ_ROUND_MAGIC_F64 > most ? INFINITY : z;
    double grown = y < 0.0 ? 0.0 : INFINITY, shrunk = y < 0.0 ? INFINITY : 0.0;
    z = dj_chosen_f64(size == DJ_INFINITE_BITS_F64, grown, z);
    z = dj_chosen_f64(size == 0, shrunk, z);
    double limit = dj_chosen_f64((size > DJ_ONE_BITS_F64) == (y > 0.0), INFINITY, 0.0);
    limit = dj_chosen_f64(size == DJ_ONE_BITS_F64, 1.0, limit);
    z = fabs(y) == INFINITY ? limit : z;
    double half = y * 0.5;
    int is_whole = floor(y) == y, is_odd = is_whole & (floor(half) != half);
    double turned = is_odd ? -z : z;
    int has_sign = is_whole | (size == DJ_INFINITE_BITS_F64) | (size == 0);
    turned = dj_chosen_f64(has_sign, turned, NAN);
    z = dj_chosen_f64(bits < 0, turned, z);
    z = dj_chosen_f64(size > DJ_INFINITE_BITS_F64, x, z);
    z = y != y ? y : z;
    return dj_chosen_f64((bits == DJ_ONE_BITS_F64) | (y == 0.0), 1.0, z);
}
