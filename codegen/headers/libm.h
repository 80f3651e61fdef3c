/* Transcendental functions by libm: those that the vector headers do not define. */

/* By libm beyond DJ_NEAR alone: a loop is run again with these where one of its angles is so large, and
 * what the others give must not depend on where loops begin and end. */
#define DJ_ANGLE(T, S, F, name)                                                                     \
    DJ_INLINE T dj_##name##_##S(T x) {                                                              \
        return fabs##F(x) <= DJ_NEAR ? dj_##name##_near_##S(x) : name##F(x);                        \
    }
DJ_ANGLE(float, f32, f, sin)
DJ_ANGLE(double, f64, , sin)
DJ_ANGLE(float, f32, f, cos)
DJ_ANGLE(double, f64, , cos)
DJ_ANGLE(float, f32, f, tan)
DJ_ANGLE(double, f64, , tan)

DJ_INLINE double dj_erfc_f64(double x) { return erfc(x); }

/* By libm for the operands alone that the near one is not for. lgamma is off by up to 6 ULP beside the
 * zeros of negative operands: the wider one, rounded. */
DJ_INLINE double dj_lgamma_f64(double x) {
    return dj_lgamma_is_far_f64(x) ? (double)lgammal(x) : dj_lgamma_near_f64(x);
}

/* By libm beyond DJ_NEAR alone; NaN at infinities, as in PyTorch. */
DJ_INLINE float dj_bessel_j0_f32(float x) {
    return fabsf(x) > DJ_NEAR ? (float)jn(0, (double)x) + (x - x) : dj_bessel_j0_near_f32(x);
}
DJ_INLINE float dj_bessel_j1_f32(float x) {
    return fabsf(x) > DJ_NEAR ? (float)jn(1, (double)x) + (x - x) : dj_bessel_j1_near_f32(x);
}
