/* Transcendental functions by libm: what `vecmath.h` does not define.
 *
 * Code generation defines DJ_HAVE_<name>_<suffix> for each dj_<name>_<suffix> that it finds in
 * vecmath.h, so a vector version replaces the one here by being written.
 */
#define DJ_LIBM_F32_1(name) DJ_INLINE float dj_##name##_f32(float x) { return name##f(x); }
#define DJ_LIBM_F64_1(name) DJ_INLINE double dj_##name##_f64(double x) { return name(x); }
#define DJ_LIBM_F32_2(name) \
    DJ_INLINE float dj_##name##_f32(float x, float y) { return name##f(x, y); }
#define DJ_LIBM_F64_2(name) \
    DJ_INLINE double dj_##name##_f64(double x, double y) { return name(x, y); }

#ifndef DJ_HAVE_exp_f32
DJ_LIBM_F32_1(exp)
#endif
#ifndef DJ_HAVE_exp_f64
DJ_LIBM_F64_1(exp)
#endif
#ifndef DJ_HAVE_exp2_f32
DJ_LIBM_F32_1(exp2)
#endif
#ifndef DJ_HAVE_exp2_f64
DJ_LIBM_F64_1(exp2)
#endif
#ifndef DJ_HAVE_expm1_f32
DJ_LIBM_F32_1(expm1)
#endif
#ifndef DJ_HAVE_expm1_f64
DJ_LIBM_F64_1(expm1)
#endif
#ifndef DJ_HAVE_log_f32
DJ_LIBM_F32_1(log)
#endif
#ifndef DJ_HAVE_log_f64
DJ_LIBM_F64_1(log)
#endif
#ifndef DJ_HAVE_log2_f32
DJ_LIBM_F32_1(log2)
#endif
#ifndef DJ_HAVE_log2_f64
DJ_LIBM_F64_1(log2)
#endif
#ifndef DJ_HAVE_log10_f32
DJ_LIBM_F32_1(log10)
#endif
#ifndef DJ_HAVE_log10_f64
DJ_LIBM_F64_1(log10)
#endif
#ifndef DJ_HAVE_log1p_f32
DJ_LIBM_F32_1(log1p)
#endif
#ifndef DJ_HAVE_log1p_f64
DJ_LIBM_F64_1(log1p)
#endif
#ifndef DJ_HAVE_sin_f32
DJ_LIBM_F32_1(sin)
#endif
#ifndef DJ_HAVE_sin_f64
DJ_LIBM_F64_1(sin)
#endif
#ifndef DJ_HAVE_cos_f32
DJ_LIBM_F32_1(cos)
#endif
#ifndef DJ_HAVE_cos_f64
DJ_LIBM_F64_1(cos)
#endif
#ifndef DJ_HAVE_tan_f32
DJ_LIBM_F32_1(tan)
#endif
#ifndef DJ_HAVE_tan_f64
DJ_LIBM_F64_1(tan)
#endif
#ifndef DJ_HAVE_asin_f32
DJ_LIBM_F32_1(asin)
#endif
#ifndef DJ_HAVE_asin_f64
DJ_LIBM_F64_1(asin)
#endif
#ifndef DJ_HAVE_acos_f32
DJ_LIBM_F32_1(acos)
#endif
#ifndef DJ_HAVE_acos_f64
DJ_LIBM_F64_1(acos)
#endif
#ifndef DJ_HAVE_atan_f32
DJ_LIBM_F32_1(atan)
#endif
#ifndef DJ_HAVE_atan_f64
DJ_LIBM_F64_1(atan)
#endif
#ifndef DJ_HAVE_sinh_f32
DJ_LIBM_F32_1(sinh)
#endif
#ifndef DJ_HAVE_sinh_f64
DJ_LIBM_F64_1(sinh)
#endif
#ifndef DJ_HAVE_cosh_f32
DJ_LIBM_F32_1(cosh)
#endif
#ifndef DJ_HAVE_cosh_f64
DJ_LIBM_F64_1(cosh)
#endif
#ifndef DJ_HAVE_asinh_f32
DJ_LIBM_F32_1(asinh)
#endif
#ifndef DJ_HAVE_asinh_f64
DJ_LIBM_F64_1(asinh)
#endif
#ifndef DJ_HAVE_acosh_f32
DJ_LIBM_F32_1(acosh)
#endif
#ifndef DJ_HAVE_acosh_f64
DJ_LIBM_F64_1(acosh)
#endif
#ifndef DJ_HAVE_atanh_f32
DJ_LIBM_F32_1(atanh)
#endif
#ifndef DJ_HAVE_atanh_f64
DJ_LIBM_F64_1(atanh)
#endif
#ifndef DJ_HAVE_tanh_f32
DJ_LIBM_F32_1(tanh)
#endif
#ifndef DJ_HAVE_tanh_f64
DJ_LIBM_F64_1(tanh)
#endif
#ifndef DJ_HAVE_erf_f32
DJ_LIBM_F32_1(erf)
#endif
#ifndef DJ_HAVE_erf_f64
DJ_LIBM_F64_1(erf)
#endif
#ifndef DJ_HAVE_erfc_f32
DJ_LIBM_F32_1(erfc)
#endif
#ifndef DJ_HAVE_erfc_f64
DJ_LIBM_F64_1(erfc)
#endif
/* The C library's are off by up to 6 ULP beside the zeros of negative operands: wider ones, rounded. */
#ifndef DJ_HAVE_lgamma_f32
DJ_INLINE float dj_lgamma_f32(float x) { return (float)lgamma(x); }
#endif
#ifndef DJ_HAVE_lgamma_f64
DJ_INLINE double dj_lgamma_f64(double x) { return (double)lgammal(x); }
#endif
#ifndef DJ_HAVE_pow_f32
DJ_LIBM_F32_2(pow)
#endif
#ifndef DJ_HAVE_pow_f64
DJ_LIBM_F64_2(pow)
#endif
#ifndef DJ_HAVE_atan2_f32
DJ_LIBM_F32_2(atan2)
#endif
#ifndef DJ_HAVE_atan2_f64
DJ_LIBM_F64_2(atan2)
#endif
