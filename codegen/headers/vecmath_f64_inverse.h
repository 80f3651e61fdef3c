/* Inverse functions and the error function for double, with the contract of `vecmath_f64.h`, which is
 * included first. Polynomials are weighted least squares fits at Chebyshev nodes in 50 digits, made for
 * this file. tests/codegen/test_vecmath_f64.py measures the errors.
 */

/* ---- arcs ---- */

/* atan(t) for |t| <= tan(pi / 8). */
static inline double
dj_atan_reduced_wide(double t)
{
    double z = t * t, z2 = z * z;
    double even = -0.03459087321643906;
    even = DJ_FMA_F64(even, z2, -0.05230646085042629);
    even = DJ_FMA_F64(even, z2, -0.06666427423331765);
    even = DJ_FMA_F64(even, z2, -0.09090908759052448);
    even = DJ_FMA_F64(even, z2, -0.14285714285661152);
    even = DJ_FMA_F64(even, z2, -0.3333333333333333);
    double odd = 0.016307217837656037;
    odd = DJ_FMA_F64(odd, z2, 0.04552423456948534);
    odd = DJ_FMA_F64(odd, z2, 0.05878956521134744);
    odd = DJ_FMA_F64(odd, z2, 0.0769229652532867);
    odd = DJ_FMA_F64(odd, z2, 0.1111111110527513);
    odd = DJ_FMA_F64(odd, z2, 0.1999999999999981);
    double p = DJ_FMA_F64(odd, z, even);
    return DJ_FMA_F64(t * z, p, t);
}

/* The angle in [0, pi / 2] whose tangent is y / x, for x, y >= 0, not both infinite. One division: by
 * the tangent of the angle less 0, pi / 4 or pi / 2. */
static inline double
dj_angle_wide(double y, double x)
{
    int far = y > 2.414213562373095 * x, middle = !far & (y > 0.4142135623730951 * x);
    double top = far ? -x : middle ? y - x : y;
    double bottom = far ? y : middle ? y + x : x;
    double whole = far ? 1.5707963267948966 : middle ? 0.7853981633974483 : 0.0;
    double low = far ? 6.123233995736766e-17 : middle ? 3.061616997868383e-17 : 0.0;
    double t = top / bottom;
    return whole + (dj_atan_reduced_wide(bottom == 0.0 ? 0.0 : t) + low);
}

static inline double
dj_atan_f64(double x)
{
    double y = dj_angle_wide(fabs(x), 1.0);
    return copysign(x != x ? x : y, x);
}

static inline double
dj_atan2_f64(double y, double x)
{
    double a = fabs(y), b = fabs(x);
    double scale = a > 1e300 ? 0x1p-60 : 1.0; /* sums stay finite */
    scale = b > 1e300 ? 0x1p-60 : scale;
    double angle = dj_angle_wide(a * scale, b * scale);
    double diagonal = b == INFINITY ? 0.7853981633974483 : angle;
    angle = a == INFINITY ? diagonal : angle;
    double turned = 3.141592653589793 - (angle - 1.2246467991473532e-16);
    angle = dj_bits_of_double(x) >> 63 ? turned : angle;
    angle = copysign(angle, y);
    angle = x != x ? x : angle;
    return y != y ? y : angle;
}

/* asin(s) for 0 <= s <= 1 / 2, z = s^2. */
static inline double
dj_asin_reduced_wide(double s, double z)
{
    double z2 = z * z;
    double even = 0.028878362746452394;
    even = DJ_FMA_F64(even, z2, 0.01751883397953867);
    even = DJ_FMA_F64(even, z2, 0.01033337215296726);
    even = DJ_FMA_F64(even, z2, 0.01397138708310213);
    even = DJ_FMA_F64(even, z2, 0.022372173467043486);
    even = DJ_FMA_F64(even, z2, 0.04464285714653523);
    even = DJ_FMA_F64(even, z2, 0.16666666666666669);
    double odd = -0.015032162599250314;
    odd = DJ_FMA_F64(odd, z2, 0.005413184483715509);
    odd = DJ_FMA_F64(odd, z2, 0.011477517005507167);
    odd = DJ_FMA_F64(odd, z2, 0.017352380709839098);
    odd = DJ_FMA_F64(odd, z2, 0.03038194412500875);
    odd = DJ_FMA_F64(odd, z2, 0.0749999999999834);
    double p = DJ_FMA_F64(odd, z, even);
    return DJ_FMA_F64(s * z, p, s);
}

static inline double
dj_asin_f64(double x)
{
    double a = fabs(x);
    int far = a > 0.5;
    double z = far ? 0.5 - 0.5 * a : a * a; /* below 0 outside [-1, 1]: the root is NaN */
    double y = dj_asin_reduced_wide(far ? sqrt(z) : a, z);
    y = far ? 1.5707963267948966 - (y + y - 6.123233995736766e-17) : y;
    return copysign(x != x ? x : y, x);
}

static inline double
dj_acos_f64(double x)
{
    double a = fabs(x);
    int far = a > 0.5;
    double z = far ? 0.5 - 0.5 * a : a * a;
    double y = dj_asin_reduced_wide(far ? sqrt(z) : a, z);
    double near = 1.5707963267948966 - (copysign(y, x) - 6.123233995736766e-17);
    double turned = 3.141592653589793 - (y + y - 1.2246467991473532e-16);
    y = far ? (x < 0.0 ? turned : y + y) : near;
    return x != x ? x : y;
}

/* ---- areas ---- */

static inline double
dj_atanh_f64(double x)
{
    double a = fabs(x);
    return copysign(0.5 * dj_log1p_f64((a + a) / (1.0 - a)), x);
}

static inline double
dj_asinh_f64(double x)
{
    double a = fabs(x);
    int far = a > 1e17;
    double z = a * a;
    double y = dj_log1p_f64(far ? a : a + z / (1.0 + sqrt(1.0 + z)));
    return copysign(far ? y + 0.6931471805599453 : y, x);
}

static inline double
dj_acosh_f64(double x)
{
    int far = x > 1e17;
    double t = x - 1.0;
    double y = dj_log1p_f64(far ? x : t + sqrt(t * (x + 1.0)));
    y = far ? y + 0.6931471805599453 : y;
    return x < 1.0 ? NAN : y;
}

/* ---- error function ---- */

/* erf(a) / a - 1 for 0 <= a <= 1, z = a^2. */
static inline double
dj_erf_near_wide(double z)
{
    double z2 = z * z;
    double even = 5.958930743134941e-11;
    even = DJ_FMA_F64(even, z2, 1.4660051998394848e-08);
    even = DJ_FMA_F64(even, z2, 1.6461004480962034e-06);
    even = DJ_FMA_F64(even, z2, 0.00012055331122299266);
    even = DJ_FMA_F64(even, z2, 0.005223977624823223);
    even = DJ_FMA_F64(even, z2, 0.11283791670954882);
    even = DJ_FMA_F64(even, z2, 0.1283791670955126);
    double odd = -1.1373902296430911e-09;
    odd = DJ_FMA_F64(odd, z2, -1.6350354461959655e-07);
    odd = DJ_FMA_F64(odd, z2, -1.4925595519506043e-05);
    odd = DJ_FMA_F64(odd, z2, -0.0008548326981129666);
    odd = DJ_FMA_F64(odd, z2, -0.026866170645077334);
    odd = DJ_FMA_F64(odd, z2, -0.3761263890318375);
    return DJ_FMA_F64(odd, z, even);
}

/* log(1 - erf(a)) for 1 <= a <= 6, u = a - 1.5: as exact as 1 - exp of it needs. */
static inline double
dj_log_erfc_wide(double u)
{
    double u2 = u * u;
    double even = 7.928921788294644e-11;
    even = DJ_FMA_F64(even, u2, 1.8151203685475083e-09);
    even = DJ_FMA_F64(even, u2, -2.7586565567930434e-08);
    even = DJ_FMA_F64(even, u2, -8.186867700370174e-07);
    even = DJ_FMA_F64(even, u2, -2.64690153503279e-06);
    even = DJ_FMA_F64(even, u2, 0.00021596331958462635);
    even = DJ_FMA_F64(even, u2, 0.0060067463851759895);
    even = DJ_FMA_F64(even, u2, -0.8926403306150015);
    even = DJ_FMA_F64(even, u2, -3.3844920895515527);
    double odd = -4.961195613822316e-12;
    odd = DJ_FMA_F64(odd, u2, -5.374689692520602e-10);
    odd = DJ_FMA_F64(odd, u2, -7.976826060987757e-10);
    odd = DJ_FMA_F64(odd, u2, 1.9216706737325715e-07);
    odd = DJ_FMA_F64(odd, u2, 2.371003071626562e-06);
    odd = DJ_FMA_F64(odd, u2, -2.2473718010538635e-05);
    odd = DJ_FMA_F64(odd, u2, -0.001257216683661221);
    odd = DJ_FMA_F64(odd, u2, -0.025824140633828725);
    odd = DJ_FMA_F64(odd, u2, -3.508800801779524);
    return DJ_FMA_F64(odd, u, even);
}

static inline double
dj_erf_f64(double x)
{
    double a = fabs(x);
    double near = DJ_FMA_F64(a, dj_erf_near_wide(a < 1.0 ? a * a : 1.0), a);
    double q = dj_log_erfc_wide((a < 1.0 ? 1.0 : a > 6.0 ? 6.0 : a) - 1.5);
    double shifted;
    double e = 1.0 + dj_expm1_reduced_wide(dj_exp_reduced_wide(q, &shifted));
    double far = 1.0 - dj_scaled_wide(e, shifted, 0);
    far = x != x ? x : far;
    return copysign(a < 1.0 ? near : far, x);
}
