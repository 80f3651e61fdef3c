/* Special functions for float as branch-free inline code, with the contract of `vecmath.h`, which is
 * included first, as are `vecmath_f64.h` and `vecmath_f64_inverse.h`. Polynomials and quotients are weighted least squares fits at
 * Chebyshev nodes (the weights of the largest errors grow until all errors are alike), made for this
 * file. tests/codegen/test_vecmath.py measures the errors.
 */

/* ---- arcs and neighbours ---- */

static inline float
dj_atan2_f32(float y, float x)
{
    float a = fabsf(y), b = fabsf(x);
    int steep = a > b;
    float low = steep ? b : a, high = steep ? a : b;
    float t = low / (high == 0.0f ? 1.0f : high);
    t = low == INFINITY ? 1.0f : t;
    float angle = dj_atan_reduced(t);
    angle = steep ? 1.57079637f - (angle + 4.37113883e-8f) : angle; /* pi / 2 in two parts */
    float turned = 3.14159274f - (angle + 8.74227766e-8f);
    angle = copysignf(dj_bits_of_float(x) >> 31 ? turned : angle, y);
    angle = x != x ? x : angle;
    return y != y ? y : angle;
}

/* Magnitudes are in the order of their bits. */
static inline float
dj_nextafter_f32(float x, float y)
{
    uint32_t bits = dj_bits_of_float(x);
    uint32_t next = (x < y) == (x > 0.0f) ? bits + 1u : bits - 1u;
    next = x == 0.0f ? (dj_bits_of_float(y) & 0x80000000u) + 1u : next;
    float z = dj_float_of_bits(next);
    z = x == y ? y : z;
    return (x != x) | (y != y) ? x + y : z;
}

static inline double
dj_nextafter_f64(double x, double y)
{
    uint64_t bits = dj_bits_of_double(x);
    uint64_t next = (x < y) == (x > 0.0) ? bits + 1u : bits - 1u;
    next = x == 0.0 ? (dj_bits_of_double(y) & 0x8000000000000000u) + 1u : next;
    double z = dj_double_of_bits(next);
    z = x == y ? y : z;
    return (x != x) | (y != y) ? x + y : z;
}

/* ---- helpers in double ---- */

/* log x of positive normal numbers and infinity. */
DJ_WITHIN double
dj_log_of_normal(double x)
{
    uint64_t bits = dj_bits_of_double(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double k = (double)((int32_t)(bits >> 52) - 1023);
    double f = dj_double_of_bits((bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
    double low = DJ_FMA_F64(k, DJ_LN2_LOW_F64, -dj_log1p_reduced_tail_wide(f));
    return x == INFINITY ? x : DJ_FMA_F64(k, DJ_LN2_HIGH_F64, low + f);
}

/* ---- error functions and the normal distribution ---- */

#define DJ_LOG2_E_WIDE 1.4426950408889634

/* exp(a^2) erfc(a) for a >= 0, where a^5 is no overflow: beyond 10.3 it goes as 1 / a. */
DJ_WITHIN double
dj_scaled_erfc(double a)
{
    double n = DJ_FMA_F64(0.03297106921672821, a, 0.23004916310310364);
    double d = DJ_FMA_F64(0.05843902379274368, a, 0.4077771306037903);
    n = DJ_FMA_F64(n, a, 0.7333446741104126);
    d = DJ_FMA_F64(d, a, 1.328618049621582);
    n = DJ_FMA_F64(n, a, 1.2400704622268677);
    d = DJ_FMA_F64(d, a, 2.4058449268341064);
    n = DJ_FMA_F64(n, a, 1.0);
    d = DJ_FMA_F64(d, a, 2.368450164794922);
    return n / DJ_FMA_F64(d, a, 1.0);
}

/* Through double: of a large power the rounding of x^2 would count. */
DJ_WITHIN float
dj_erfc_f32(float x)
{
    double a = fabs((double)x);
    a = a > 10.3 ? 10.3 : a; /* 0 from there on */
    double y = dj_exp2_wide(-DJ_LOG2_E_WIDE * (a * a)) * dj_scaled_erfc(a);
    return (float)(x < 0.0f ? 2.0 - y : y);
}

/* Below 0 the logarithm of both factors of erfc, above log(1 - tail). */
DJ_WITHIN float
dj_log_ndtr_f32(float x)
{
    float a = fabsf(x);
    double reach = a > 1e6f ? 1e6 : (double)a; /* beyond, only the square counts */
    double near = a > 14.5f ? 14.5 : (double)a;
    double scaled = 0.5 * dj_scaled_erfc(0.7071067811865476 * reach);
    double power = dj_exp2_wide(-0.5 * DJ_LOG2_E_WIDE * (near * near));
    float y = dj_log1p_f32((float)(x > 0.0f ? -power * scaled : scaled - 1.0));
    return x > 0.0f ? y : DJ_FMA(-0.5f * a, a, y);
}

/* erfinv(x) / x as a quotient of polynomials in w = -log(1 - x^2) in [0, 16.7]. Source of the variable:
 * M. Giles, "Approximating the erfinv function", GPU Computing Gems 2, 2010. */
DJ_WITHIN float
dj_erfinv_f32(float x)
{
    float a = fabsf(x);
    float w = -dj_log_f32((1.0f - a) * (1.0f + a)); /* NaN beyond 1 */
    float n = DJ_FMA(2.3784794393577613e-05f, w, 0.0006469276850111783f);
    float d = DJ_FMA(1.250989043910522e-06f, w, 0.0001775652781361714f);
    n = DJ_FMA(n, w, 0.007808050140738487f);
    d = DJ_FMA(d, w, 0.0019081170903518796f);
    n = DJ_FMA(n, w, 0.05989449471235275f);
    d = DJ_FMA(d, w, 0.03219223394989967f);
    n = DJ_FMA(n, w, 0.3076953589916229f);
    d = DJ_FMA(d, w, 0.08539815992116928f);
    n = DJ_FMA(n, w, 0.8862269520759583f);
    d = DJ_FMA(d, w, 1.0f);
    float y = x * (n / d);
    return a == 1.0f ? x * INFINITY : y;
}

/* erfinv(x) / x as above, for w up to 104 by another quotient, in sqrt(w). */
DJ_WITHIN double
dj_erfinv_quotient(double w)
{
    int far = w > 16.0;
    double near = far ? 16.0 : w, s = sqrt(far ? w : 16.0);
    double n = DJ_FMA_F64(2.3784794393577613e-05, near, 0.0006469276850111783);
    double d = DJ_FMA_F64(1.250989043910522e-06, near, 0.0001775652781361714);
    n = DJ_FMA_F64(n, near, 0.007808050140738487);
    d = DJ_FMA_F64(d, near, 0.0019081170903518796);
    n = DJ_FMA_F64(n, near, 0.05989449471235275);
    d = DJ_FMA_F64(d, near, 0.03219223394989967);
    n = DJ_FMA_F64(n, near, 0.3076953589916229);
    d = DJ_FMA_F64(d, near, 0.08539815992116928);
    n = DJ_FMA_F64(n, near, 0.8862269520759583);
    d = DJ_FMA_F64(d, near, 1.0);
    double top = DJ_FMA_F64(75.876708984375, s, 165.1197509765625);
    double bottom = DJ_FMA_F64(0.0010181652614846826, s, 53.58778762817383);
    top = DJ_FMA_F64(top, s, -81.80908203125);
    bottom = DJ_FMA_F64(bottom, s, 119.14812469482422);
    top = DJ_FMA_F64(top, s, 78.96546936035156);
    bottom = DJ_FMA_F64(bottom, s, 1.0);
    return (far ? 0.7071067811865476 * top : n) / (far ? bottom : d);
}

/* erfinv(2 p - 1) sqrt(2), through double. */
DJ_WITHIN float
dj_ndtri_f32(float p)
{
    float w = -dj_log_f32(4.0f * p * (1.0f - p)); /* NaN below 0 and beyond 1 */
    double quotient = 1.4142135623730951 * dj_erfinv_quotient((double)w);
    float y = (float)((2.0 * (double)p - 1.0) * quotient);
    y = p == 0.0f ? -INFINITY : y;
    return p == 1.0f ? INFINITY : y;
}

/* exp(y^2) erfc(y) for 0.9 <= y <= 6. */
DJ_WITHIN double
dj_scaled_erfc_wide(double y)
{
    double n = DJ_FMA_F64(0.0037108935870103516, y, 0.040117006349299725);
    n = DJ_FMA_F64(n, y, 0.21197603636908094);
    n = DJ_FMA_F64(n, y, 0.6769756672449919);
    n = DJ_FMA_F64(n, y, 1.3681416198469798);
    n = DJ_FMA_F64(n, y, 1.6705074160511844);
    n = DJ_FMA_F64(n, y, 1.0000000851951398);
    double d = DJ_FMA_F64(0.0065773870051678346, y, 0.07110557488030275);
    d = DJ_FMA_F64(d, y, 0.37900564021103295);
    d = DJ_FMA_F64(d, y, 1.2354730809679646);
    d = DJ_FMA_F64(d, y, 2.6094072620772173);
    d = DJ_FMA_F64(d, y, 3.52634359702457);
    d = DJ_FMA_F64(d, y, 2.7988874610970766);
    d = DJ_FMA_F64(d, y, 1.0);
    return n / d;
}

/* A first value y with 7 digits, by the quotients of float, and two terms of Taylor's series at erf(y),
 * whose slope there is sqrt(pi) / 2 exp(y^2). From 1 on, the distance is that of 1 - erf(y) from the
 * exact 1 - |x|. */
DJ_WITHIN double
dj_erfinv_f64(double x)
{
    double a = fabs(x), t = (1.0 - a) * (1.0 + a);
    double y = a * dj_erfinv_quotient(-dj_log_of_normal(t > 0.0 ? t : 1.0));
    double low = y < 1.0 ? y : 0.0, high = y < 1.0 ? 1.0 : y, shifted;
    double p = dj_expm1_reduced_wide(dj_exp_reduced_wide(y * y, &shifted));
    double power = dj_scaled_wide(1.0 + p, shifted, 0);
    double near = a - DJ_FMA_F64(low, dj_erf_near_wide(low * low), low);
    double far = DJ_FMA_F64(a - 1.0, power, dj_scaled_erfc_wide(high));
    double step = 0.886226925452758 * (y < 1.0 ? near * power : far);
    double z = DJ_FMA_F64(step, DJ_FMA_F64(y, step, 1.0), y);
    z = a < 1e-12 ? 0.886226925452758 * a : z; /* subnormals; more terms are below 1 ULP */
    z = a == 1.0 ? INFINITY : z;
    return copysign(a <= 1.0 ? z : NAN, x);
}

/* ---- modified Bessel functions of orders 0 and 1 ----
 *
 * Through double. For |x| < 7.75 their power series in x^2, cut and fitted; beyond their expansion in
 * 1 / x (NIST Digital Library of Mathematical Functions, 10.25.2 and 10.40.1), fitted. Both are
 * computed.
 */
#define DJ_BESSEL_FAR 7.75

/* I0(a) by powers of z = a^2. */
DJ_WITHIN double
dj_i0_series(double z)
{
    double p = DJ_FMA_F64(5.504370484965921e-17, z, 6.282270151547432e-15);
    p = DJ_FMA_F64(p, z, 2.592596927072921e-12);
    p = DJ_FMA_F64(p, z, 4.642793927089883e-10);
    p = DJ_FMA_F64(p, z, 6.79551988014282e-08);
    p = DJ_FMA_F64(p, z, 6.780027433705982e-06);
    p = DJ_FMA_F64(p, z, 0.00043403846211731434);
    p = DJ_FMA_F64(p, z, 0.015624967403709888);
    p = DJ_FMA_F64(p, z, 0.2500000298023224);
    p = DJ_FMA_F64(p, z, 1.0);
    return p;
}

/* I1(a) / a by powers of z = a^2. */
DJ_WITHIN double
dj_i1_series(double z)
{
    double p = DJ_FMA_F64(2.653036230976027e-18, z, 3.7285665066173214e-16);
    p = DJ_FMA_F64(p, z, 1.5968328818515704e-13);
    p = DJ_FMA_F64(p, z, 3.3286071815519236e-11);
    p = DJ_FMA_F64(p, z, 5.659241519850866e-09);
    p = DJ_FMA_F64(p, z, 6.780664421057736e-07);
    p = DJ_FMA_F64(p, z, 5.425420022220351e-05);
    p = DJ_FMA_F64(p, z, 0.002604164183139801);
    p = DJ_FMA_F64(p, z, 0.0625);
    p = DJ_FMA_F64(p, z, 0.5);
    return p;
}

/* sqrt(a) exp(-a) I0(a) by powers of t = 1 / a. */
DJ_WITHIN double
dj_i0_expansion(double t)
{
    double p = DJ_FMA_F64(0.4136246144771576, t, -0.021270427852869034);
    p = DJ_FMA_F64(p, t, 0.03452959656715393);
    p = DJ_FMA_F64(p, t, 0.02786862663924694);
    p = DJ_FMA_F64(p, t, 0.04987001046538353);
    p = DJ_FMA_F64(p, t, 0.3989422619342804);
    return p;
}

/* sqrt(a) exp(-a) I1(a) by powers of t = 1 / a. */
DJ_WITHIN double
dj_i1_expansion(double t)
{
    double p = DJ_FMA_F64(-0.48185959458351135, t, 0.018257882446050644);
    p = DJ_FMA_F64(p, t, -0.04701925814151764);
    p = DJ_FMA_F64(p, t, -0.046540576964616776);
    p = DJ_FMA_F64(p, t, -0.14960594475269318);
    p = DJ_FMA_F64(p, t, 0.3989422917366028);
    return p;
}

/* exp(x) for |x| < 138. */
DJ_WITHIN double
dj_exp_of_moderate(double x)
{
    return dj_exp2_wide(DJ_LOG2_E_WIDE * x);
}

DJ_WITHIN float
dj_i0_f32(float x)
{
    double a = fabs((double)x), near = a < DJ_BESSEL_FAR ? a : 0.0;
    double t = 1.0 / (a < DJ_BESSEL_FAR ? DJ_BESSEL_FAR : a);
    double power = dj_exp_of_moderate(a < 100.0 ? a : 100.0); /* the result is infinite there */
    double y = a < DJ_BESSEL_FAR ? dj_i0_series(near * near) : power * sqrt(t) * dj_i0_expansion(t);
    return (float)(a < 100.0 ? y : a - a + INFINITY); /* NaN of infinity */
}

DJ_WITHIN float
dj_i0e_f32(float x)
{
    double a = fabs((double)x), near = a < DJ_BESSEL_FAR ? a : 0.0;
    double t = 1.0 / (a < DJ_BESSEL_FAR ? DJ_BESSEL_FAR : a);
    double y = dj_i0_series(near * near) * dj_exp_of_moderate(-near);
    return (float)(a < DJ_BESSEL_FAR ? y : sqrt(t) * dj_i0_expansion(t));
}

DJ_WITHIN float
dj_i1_f32(float x)
{
    double a = fabs((double)x), near = a < DJ_BESSEL_FAR ? a : 0.0;
    double t = 1.0 / (a < DJ_BESSEL_FAR ? DJ_BESSEL_FAR : a);
    double power = dj_exp_of_moderate(a < 100.0 ? a : 100.0); /* the result is infinite there */
    double y = a < DJ_BESSEL_FAR ? near * dj_i1_series(near * near) : power * sqrt(t) * dj_i1_expansion(t);
    return copysignf((float)(a < 100.0 ? y : a - a + INFINITY), x); /* NaN of infinity */
}

DJ_WITHIN float
dj_i1e_f32(float x)
{
    double a = fabs((double)x), near = a < DJ_BESSEL_FAR ? a : 0.0;
    double t = 1.0 / (a < DJ_BESSEL_FAR ? DJ_BESSEL_FAR : a);
    double y = near * dj_i1_series(near * near) * dj_exp_of_moderate(-near);
    return copysignf((float)(a < DJ_BESSEL_FAR ? y : sqrt(t) * dj_i1_expansion(t)), x);
}

/* ---- Bessel functions of orders 0 and 1 ----
 *
 * Through double. For |x| < 8 a polynomial in x^2 times what makes its two zeros there, whose squares
 * are in two parts; beyond, modulus and phase by powers of 1 / x^2 (NIST Digital Library of
 * Mathematical Functions, 10.18), fitted. Both are computed. The functions `near` are for |x| <= DJ_NEAR,
 * as those of angles.
 */

/* J0(a) by powers of z = a^2. */
DJ_WITHIN double
dj_j0_series(double z)
{
    double p = DJ_FMA_F64(-7.556174703751812e-23, z, 5.843996433861055e-20);
    p = DJ_FMA_F64(p, z, -2.5796570027594523e-17);
    p = DJ_FMA_F64(p, z, 8.377640128740342e-15);
    p = DJ_FMA_F64(p, z, -2.091986639267953e-12);
    p = DJ_FMA_F64(p, z, 3.9356007973889794e-10);
    p = DJ_FMA_F64(p, z, -5.3178595558514324e-08);
    p = DJ_FMA_F64(p, z, 4.784354473786778e-06);
    p = DJ_FMA_F64(p, z, -0.00025120234992739095);
    p = DJ_FMA_F64(p, z, 0.00567469332326807);
    return (z - 5.783185962946784 - 4.123247343506204e-16) * (z - 30.471262343662087 + 2.366534485750659e-16) * p;
}

/* The modulus of J0, times sqrt(pi a / 2), by powers of v = 1 / a^2. */
DJ_WITHIN double
dj_j0_modulus(double v)
{
    double p = DJ_FMA_F64(3.3667145484826904, v, -0.5147900990571613);
    p = DJ_FMA_F64(p, v, 0.1033738056924867);
    p = DJ_FMA_F64(p, v, -0.062499740891632);
    p = DJ_FMA_F64(p, v, 0.9999999999235901);
    return p;
}

/* The phase of J0, less its limit, times a, by powers of v = 1 / a^2. */
DJ_WITHIN double
dj_j0_phase(double v)
{
    double p = DJ_FMA_F64(68391091.25439423, v, -7176212.093912137);
    p = DJ_FMA_F64(p, v, 373176.99803970807);
    p = DJ_FMA_F64(p, v, -14100.82666568909);
    p = DJ_FMA_F64(p, v, 512.8749366398633);
    p = DJ_FMA_F64(p, v, -23.381633778975395);
    p = DJ_FMA_F64(p, v, 1.6378253752680054);
    p = DJ_FMA_F64(p, v, -0.2095699639989276);
    p = DJ_FMA_F64(p, v, 0.06510416643170146);
    p = DJ_FMA_F64(p, v, -0.12499999999995301);
    return p;
}

/* J1(a) / a by powers of z = a^2. */
DJ_WITHIN double
dj_j1_series(double z)
{
    double p = DJ_FMA_F64(-3.2243490225149203e-24, z, 2.6032133039938615e-21);
    p = DJ_FMA_F64(p, z, -1.2323899157449352e-18);
    p = DJ_FMA_F64(p, z, 4.3775834427818383e-16);
    p = DJ_FMA_F64(p, z, -1.2117861719639588e-13);
    p = DJ_FMA_F64(p, z, 2.557561904367732e-11);
    p = DJ_FMA_F64(p, z, -3.929463010516806e-09);
    p = DJ_FMA_F64(p, z, 4.085914061172792e-07);
    p = DJ_FMA_F64(p, z, -2.5304773968033486e-05);
    p = DJ_FMA_F64(p, z, 0.0006919228365949322);
    return (z - 14.681970642123893 + 9.858177825793294e-17) * (z - 49.2184563216946 - 5.086354069436341e-16) * p;
}

/* The modulus of J1, times sqrt(pi a / 2), by powers of v = 1 / a^2. */
DJ_WITHIN double
dj_j1_modulus(double v)
{
    double p = DJ_FMA_F64(-4.602240198715446, v, 0.7695711608827038);
    p = DJ_FMA_F64(p, v, -0.19317813016348637);
    p = DJ_FMA_F64(p, v, 0.1874996681370767);
    p = DJ_FMA_F64(p, v, 1.0000000000980198);
    return p;
}

/* The phase of J1, less its limit, times a, by powers of v = 1 / a^2. */
DJ_WITHIN double
dj_j1_phase(double v)
{
    double p = DJ_FMA_F64(-80576050.48218334, v, 8465648.964894151);
    p = DJ_FMA_F64(p, v, -442364.75972428627);
    p = DJ_FMA_F64(p, v, 16930.06276307798);
    p = DJ_FMA_F64(p, v, -633.5502237410956);
    p = DJ_FMA_F64(p, v, 30.519617849409574);
    p = DJ_FMA_F64(p, v, -2.369132907017292);
    p = DJ_FMA_F64(p, v, 0.37089806173316425);
    p = DJ_FMA_F64(p, v, -0.16406249975547485);
    p = DJ_FMA_F64(p, v, 0.3749999999999544);
    return p;
}

/* cos(x - quarters pi / 4 + more) for 1 or 3 quarters and small `more`. */
DJ_WITHIN double
dj_cos_of_phase(double x, double quarters, double more)
{
    double half = 0.5 * quarters;
    double shifted = DJ_FMA_F64(x, 0.6366197723675814, -half) + DJ_ROUND_MAGIC_F64;
    uint64_t n = dj_bits_of_double(shifted);
    double turns = shifted - DJ_ROUND_MAGIC_F64 + half;
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
    double r = DJ_FMA_F64(turns, -1.5707963267948966, x);
    r = DJ_FMA_F64(turns, -6.123233995736765e-17, r) + more;
#else
    double r = (x - turns * 1.5707963267341256) - turns * 6.077100506303966e-11;
    r = r - turns * 2.0222662487959506e-21 + more;
#endif
    double y = n & 1u ? dj_sin_reduced_wide(r) : dj_cos_reduced_wide(r);
    return dj_double_of_bits(dj_bits_of_double(y) ^ ((n + 1u) << 62 & 0x8000000000000000u));
}

DJ_WITHIN float
dj_bessel_j0_near_f32(float x)
{
    double a = fabs((double)x), near = a < 8.0 ? a : 0.0;
    double t = 1.0 / (a < 8.0 ? 8.0 : a), v = t * t;
    double modulus = sqrt(0.6366197723675814 * t) * dj_j0_modulus(v);
    double y = modulus * dj_cos_of_phase(a < 8.0 ? 8.0 : a, 1.0, t * dj_j0_phase(v));
    return (float)(a < 8.0 ? dj_j0_series(near * near) : y);
}

DJ_WITHIN float
dj_bessel_j1_near_f32(float x)
{
    double a = fabs((double)x), near = a < 8.0 ? a : 0.0;
    double t = 1.0 / (a < 8.0 ? 8.0 : a), v = t * t;
    double modulus = sqrt(0.6366197723675814 * t) * dj_j1_modulus(v);
    double y = modulus * dj_cos_of_phase(a < 8.0 ? 8.0 : a, 3.0, t * dj_j1_phase(v));
    float z = (float)(a < 8.0 ? near * dj_j1_series(near * near) : y);
    return x < 0.0f ? -z : x == 0.0f ? x : z;
}

/* ---- the zeta function of Hurwitz ---- */

/* exp2(-x log2(w)), 0 or infinite in float if it is beyond 2^-1000 or 2^1000. */
DJ_WITHIN double
dj_zeta_term(double w, double x)
{
    double t = -x * dj_log2_wide(w);
    t = t < -1000.0 ? -1000.0 : t;
    return dj_exp2_wide(t > 1000.0 ? 1000.0 : t);
}

/* zeta(x, q) for q > 0, both finite and x below 1e30; infinite for x = 1, NaN below. Through double:
 * the sum over k of (q + k)^-x, of which six terms and what the formula of Euler and Maclaurin makes of
 * the rest, to its third Bernoulli number (NIST Digital Library of Mathematical Functions, 25.11.5). */
DJ_WITHIN float
dj_zeta_near_f32(float x, float q)
{
    double s = (double)x, w = (double)q + 6.0;
    double sum = dj_zeta_term(q, s) + dj_zeta_term(q + 1.0, s) + dj_zeta_term(q + 2.0, s);
    sum += dj_zeta_term(q + 3.0, s) + dj_zeta_term(q + 4.0, s) + dj_zeta_term(q + 5.0, s);
    double power = dj_zeta_term(w, s), t = 1.0 / w, t2 = t * t;
    double rest = (s + 3.0) * (s + 4.0) * t2 * 3.306878306878307e-05; /* B6 / 6! */
    rest = (s + 1.0) * (s + 2.0) * t2 * (rest - 0.001388888888888889); /* B4 / 4! */
    rest = s * t * (rest + 0.08333333333333333);                       /* B2 / 2! */
    double y = sum + power * (w / (s - 1.0) + 0.5 + rest);
    return s > 1.0 ? (float)y : s == 1.0 ? INFINITY : NAN;
}

/* ---- gamma function ---- */

/* log |gamma(w)| for w >= 4, of which `log` is the logarithm, by Stirling's series (NIST Digital
 * Library of Mathematical Functions, 5.11.1), whose terms in 1 / w are fitted. */
DJ_WITHIN double
dj_stirling_wide(double w, double log)
{
    double t = 1.0 / w, v = t * t;
    double p = DJ_FMA_F64(0.04197201409193831, v, -0.01986252608990958);
    p = DJ_FMA_F64(p, v, 0.005985222355499244);
    p = DJ_FMA_F64(p, v, -0.00190687180404048);
    p = DJ_FMA_F64(p, v, 0.000841625402998414);
    p = DJ_FMA_F64(p, v, -0.0005952380577103721);
    p = DJ_FMA_F64(p, v, 0.0007936508053501478);
    p = DJ_FMA_F64(p, v, -0.0027777777778483738);
    p = DJ_FMA_F64(p, v, 0.08333333333333341);
    double low = DJ_FMA_F64(p, t, 0.4189385332046727); /* (log(2 pi) - 1) / 2 */
    return DJ_FMA_F64(w - 0.5, log - 1.0, low);
}

/* |sin(pi z)| for z >= 0, 0 where z has no bits behind the point. */
DJ_WITHIN double
dj_sine_of_turns(double z)
{
    double r = z < 1e9 ? z - ((z + DJ_ROUND_MAGIC_F64) - DJ_ROUND_MAGIC_F64) : 0.0;
    double v = r * r;
    double p = DJ_FMA_F64(-2.1125721850655894e-05, v, 0.0004659807998892387);
    p = DJ_FMA_F64(p, v, -0.007370362549508937);
    p = DJ_FMA_F64(p, v, 0.08214587860935085);
    p = DJ_FMA_F64(p, v, -0.5992645288205599);
    p = DJ_FMA_F64(p, v, 2.550164039862558);
    p = DJ_FMA_F64(p, v, -5.167712780049818);
    return fabs(r) * DJ_FMA_F64(p, v, 3.141592653589793);
}

/* Through double, which leaves enough digits beside the zeros: below 4 by recurrence, below 0 by
 * reflection (5.5.1 and 5.5.3 there), whose factors have one logarithm together. */
DJ_WITHIN float
dj_lgamma_f32(float x)
{
    double z = fabs((double)x), q = z * (z + 3.0);
    double product = z < 4.0 ? q * (q + 2.0) : 1.0; /* z (z + 1) (z + 2) (z + 3) */
    double w = z < 4.0 ? z + 4.0 : z, stirling = dj_stirling_wide(w, dj_log_of_normal(w));
    double sine = z * dj_sine_of_turns(z);
    double top = x < 0.0f ? 3.141592653589793 * product : 1.0;
    double factor = dj_log_of_normal(top / (x < 0.0f ? sine : product));
    double y = factor + (x < 0.0f ? -stirling : stirling);
    y = (x == 1.0f) | (x == 2.0f) ? 0.0 : y;
    return (float)(z == INFINITY ? z : y);
}

/* log |gamma(x)| / ((x - 1) (x - 2)) for 1 / 2 <= x <= 3 by powers of f = x - 1 / 2. */
DJ_WITHIN double
dj_lgamma_quotient(double f)
{
    double n = DJ_FMA_F64(-0.00020348212264974366, f, -0.01046501189998583);
    n = DJ_FMA_F64(n, f, -0.13811147753489403);
    n = DJ_FMA_F64(n, f, -0.6634068726316376);
    n = DJ_FMA_F64(n, f, -1.1146394250600837);
    n = DJ_FMA_F64(n, f, 0.4256513872079619);
    n = DJ_FMA_F64(n, f, 3.4883429433630537);
    n = DJ_FMA_F64(n, f, 4.134780448241981);
    n = DJ_FMA_F64(n, f, 2.011477327720249);
    n = DJ_FMA_F64(n, f, 0.3569032572329334);
    double d = DJ_FMA_F64(0.00050978952036733, f, 0.03083065987260353);
    d = DJ_FMA_F64(d, f, 0.5312947316407421);
    d = DJ_FMA_F64(d, f, 3.885180897820682);
    d = DJ_FMA_F64(d, f, 14.298028149108905);
    d = DJ_FMA_F64(d, f, 28.85531736617879);
    d = DJ_FMA_F64(d, f, 33.120331210194905);
    d = DJ_FMA_F64(d, f, 21.446897447666135);
    d = DJ_FMA_F64(d, f, 7.269239746485159);
    d = DJ_FMA_F64(d, f, 1.0);
    return 0.40625 + n / d;
}

/* lgamma_near is for positive normal numbers. */
DJ_WITHIN int
dj_lgamma_is_far_f64(double x)
{
    return !((x >= 0x1p-1022) & (x < INFINITY));
}

/* Below 1 / 2 and from 3 to 8 by recurrence, from 8 on by Stirling's series. */
DJ_WITHIN double
dj_lgamma_near_f64(double x)
{
    double y = x < 0.5 ? x + 1.0 : x, product = 1.0;
    for (int i = 1; i <= 5; i++) { /* unrolled; every difference is exact */
        double less = x - (double)i;
        int is_factor = (less >= 2.0) & (x < 8.0);
        product *= is_factor ? less : 1.0;
        y = is_factor ? less : y;
    }
    double log = dj_log_of_normal(x < 0.5 ? x : x < 3.0 ? 1.0 : x < 8.0 ? product : x);
    double inner = x < 8.0 ? y : 2.0;
    double zeros = x < 0.5 ? x * (x - 1.0) : (inner - 1.0) * (inner - 2.0);
    double rest = zeros * dj_lgamma_quotient(inner - 0.5);
    double near = rest + (x < 0.5 ? -log : log);
    return x < 8.0 ? near : dj_stirling_wide(x, log);
}
