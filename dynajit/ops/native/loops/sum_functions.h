/* Sums of float32 and float64 by the loops of codegen/headers/sums.h; included by sums_plain.c and
 * sums_avx2.c, which define NAMED(x), the name of x there.
 *
 * Contract: an array of (outer, size, inner), row-major, becomes its sums (outer, inner), where outer
 * or inner is 1; `sum_columns` takes any inner, 1 included, for generated C. Called by `_sums.c`.
 */
#include <stdint.h>
#include <string.h>

#include "sums.h"

#define ADD(T, S)                                                                                   \
    void NAMED(sum_columns_##S)(const void *from, int64_t size, int64_t width, void *to) {          \
        dj_sum_columns_##S(from, size, width, to);                                                  \
    }                                                                                               \
    void NAMED(add_##S)(const void *from, int64_t outer, int64_t size, int64_t inner, void *to) {   \
        const T *row = from;                                                                        \
        T *sum = to;                                                                                \
        if (inner > 1) {                                                                            \
            dj_sum_columns_##S(row, size, inner, sum);                                              \
            return;                                                                                 \
        }                                                                                           \
        for (int64_t i = 0; i < outer; i++) dj_sum_row_##S(row + i * size, size, sum + i);          \
    }
ADD(float, f32)
ADD(double, f64)
