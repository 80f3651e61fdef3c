/* Loops over the vector mathematics of generated C, for one instruction set; included by a file for
 * each, which defines NAMED(x), the name of x there, and has said for which CPU it is.
 *
 * Contract: `y` holds the results, in order; it may be `x` itself.
 */
#include "vecmath.h"
#include "vecmath_f64.h"
#include "vecmath_f64_inverse.h"

void NAMED(erf_f32)(const float *x, float *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = dj_erf_f32(x[i]);
}

void NAMED(erf_f64)(const double *x, double *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = dj_erf_f64(x[i]);
}
