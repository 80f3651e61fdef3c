/* Transcendental functions by libm: those that the vector headers do not define. */

#define DJ_LIBM_F32_1(name) DJ_INLINE float dj_##name##_f32(float x) { return name##f(x); }
#define DJ_LIBM_F64_1(name) DJ_INLINE double dj_##name##_f64(double x) { return name(x); }

DJ_LIBM_F32_1(sin)
DJ_LIBM_F64_1(sin)
DJ_LIBM_F32_1(cos)
DJ_LIBM_F64_1(cos)
DJ_LIBM_F32_1(tan)
DJ_LIBM_F64_1(tan)
DJ_LIBM_F64_1(erfc)

/* lgamma is off by up to 6 ULP beside the zeros of negative operands: the wider one, rounded. */
DJ_INLINE double dj_lgamma_f64(double x) { return (double)lgammal(x); }

/* By libm beyond DJ_NEAR alone; NaN at infinities, as in PyTorch. */
DJ_INLINE float dj_bessel_j0_f32(float x) {
    return fabsf(x) > DJ_NEAR ? (float)jn(0, (double)x) + (x - x) : dj_bessel_j0_near_f32(x);
}
DJ_INLINE float dj_bessel_j1_f32(float x) {
    return fabsf(x) > DJ_NEAR ? (float)jn(1, (double)x) + (x - x) : dj_bessel_j1_near_f32(x);
}
