/* Sums of float32 and float64 in PyTorch's order, of columns and of rows. Included by eager sums
 * (ops/native/_sums.c), which kernels call for columns, too (process.h), and by `_native_forms.c`.
 *
 * PyTorch adds numbers in a cascade: 16 or more one after the other, then their sums, on four levels.
 * It does so in lanes of 32 bytes, whatever the CPU, four of which go side by side. Errors grow with
 * the logarithm of how many numbers are added. The includer may define DJ_SUM_TARGET, an attribute
 * that names an instruction set.
 */

#ifndef DJ_SUM_TARGET
#define DJ_SUM_TARGET
#endif

typedef float __attribute__((vector_size(32), aligned(4), may_alias)) dj_lanes_f32;
typedef double __attribute__((vector_size(32), aligned(8), may_alias)) dj_lanes_f64;
typedef float __attribute__((may_alias)) dj_lane_f32;
typedef double __attribute__((may_alias)) dj_lane_f64;
enum { DJ_SUM_LEVELS = 4, DJ_SUM_BLOCK = 1 << 12 }; /* bytes of sums that stay in the first cache */

/* log2 of how many numbers are added before their sum goes to the next level. */
static inline __attribute__((unused)) int dj_level_power(int64_t size) {
    int bits = 0;
    while (bits < 62 && INT64_C(1) << bits < size) bits++;
    return bits / DJ_SUM_LEVELS > 4 ? bits / DJ_SUM_LEVELS : 4;
}

/* Four sums of `size` values each: the first ones `across` elements apart, the next of each `down`;
 * and the sum of `size` values, `down` elements apart: of every fourth, then of these. */
#define DJ_CASCADE(T, V, NAME)                                                                      \
    DJ_SUM_TARGET static inline __attribute__((unused)) void dj_four_##NAME(                        \
        const T *from, int64_t down, int64_t across, int64_t size, V *sums) {                       \
        const int power = dj_level_power(size);                                                     \
        const int64_t step = INT64_C(1) << power;                                                   \
        V level[DJ_SUM_LEVELS][4];                                                                  \
        memset(level, 0, sizeof level);                                                             \
        int64_t i = 0;                                                                              \
        while (i + step <= size) {                                                                  \
            V sum[4] = {level[0][0], level[0][1], level[0][2], level[0][3]};                        \
            for (const int64_t end = i + step; i < end; i++, from += down)                          \
                _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)                                 \
                    sum[k] += *(const V *)(from + k * across);                                      \
            for (int k = 0; k < 4; k++) level[0][k] = sum[k];                                       \
            for (int j = 1; j < DJ_SUM_LEVELS; j++) {                                               \
                for (int k = 0; k < 4; k++) level[j][k] += level[j - 1][k];                         \
                memset(level[j - 1], 0, sizeof level[j - 1]);                                       \
                if (i & ((step - 1) << (j * power))) break;                                         \
            }                                                                                       \
        }                                                                                           \
        for (; i < size; i++, from += down)                                                         \
            for (int k = 0; k < 4; k++) level[0][k] += *(const V *)(from + k * across);             \
        for (int j = 1; j < DJ_SUM_LEVELS; j++)                                                     \
            for (int k = 0; k < 4; k++) level[0][k] += level[j][k];                                 \
        for (int k = 0; k < 4; k++) sums[k] = level[0][k];                                          \
    }                                                                                               \
    DJ_SUM_TARGET static inline __attribute__((unused)) void dj_one_##NAME(                         \
        const T *from, int64_t down, int64_t size, V *sum) {                                        \
        V sums[4];                                                                                  \
        dj_four_##NAME(from, 4 * down, down, size / 4, sums);                                       \
        for (int64_t i = size / 4 * 4; i < size; i++) sums[0] += *(const V *)(from + i * down);     \
        *sum = ((sums[0] + sums[1]) + sums[2]) + sums[3];                                           \
    }
DJ_CASCADE(float, dj_lanes_f32, lanes_f32)
DJ_CASCADE(double, dj_lanes_f64, lanes_f64)
DJ_CASCADE(float, dj_lane_f32, lane_f32)
DJ_CASCADE(double, dj_lane_f64, lane_f64)

/* Sums of `width` columns, whole lanes and at most DJ_SUM_BLOCK bytes, each as `dj_four` has them: rows
 * are read as they lie, four at a time. */
#define DJ_CASCADE_OF_ROWS(T, S)                                                                    \
    DJ_SUM_TARGET static inline __attribute__((unused)) void dj_rows_##S(                           \
        const T *from, int64_t row, int64_t size, int64_t width, T *to) {                           \
        enum { LANES = 32 / sizeof(T), MOST = DJ_SUM_BLOCK / 32 };                                  \
        const int power = dj_level_power(size);                                                     \
        const int64_t step = INT64_C(1) << power, count = width / LANES;                            \
        dj_lanes_##S level[DJ_SUM_LEVELS][MOST];                                                    \
        for (int j = 0; j < DJ_SUM_LEVELS; j++) memset(level[j], 0, 32 * (size_t)count);            \
        int64_t i = 0;                                                                              \
        while (i + step <= size) {                                                                  \
            for (const int64_t end = i + step; i < end; i += 4, from += 4 * row)                    \
                for (int64_t k = 0; k < count; k++) {                                               \
                    const T *at = from + k * LANES;                                                 \
                    dj_lanes_##S sum = level[0][k] + *(const dj_lanes_##S *)at;                     \
                    sum += *(const dj_lanes_##S *)(at + row);                                       \
                    sum += *(const dj_lanes_##S *)(at + 2 * row);                                   \
                    level[0][k] = sum + *(const dj_lanes_##S *)(at + 3 * row);                      \
                }                                                                                   \
            for (int j = 1; j < DJ_SUM_LEVELS; j++) {                                               \
                for (int64_t k = 0; k < count; k++) level[j][k] += level[j - 1][k];                 \
                memset(level[j - 1], 0, 32 * (size_t)count);                                        \
                if (i & ((step - 1) << (j * power))) break;                                         \
            }                                                                                       \
        }                                                                                           \
        for (; i < size; i++, from += row)                                                          \
            for (int64_t k = 0; k < count; k++)                                                     \
                level[0][k] += *(const dj_lanes_##S *)(from + k * LANES);                           \
        for (int64_t k = 0; k < count; k++) {                                                       \
            dj_lanes_##S sum = level[0][k];                                                         \
            for (int j = 1; j < DJ_SUM_LEVELS; j++) sum += level[j][k];                             \
            *(dj_lanes_##S *)(to + k * LANES) = sum;                                                \
        }                                                                                           \
    }
DJ_CASCADE_OF_ROWS(float, f32)
DJ_CASCADE_OF_ROWS(double, f64)

/* The sum of `size` elements side by side; and the sums of `width` columns of `size` rows that lie one
 * after the other. */
#define DJ_SUMS(T, S)                                                                               \
    DJ_SUM_TARGET static inline __attribute__((unused)) void dj_sum_row_##S(const T *from,          \
                                                                            int64_t size, T *to) {  \
        enum { LANES = 32 / sizeof(T) };                                                            \
        if (size < LANES) {                                                                         \
            dj_one_lane_##S(from, 1, size, to);                                                     \
            return;                                                                                 \
        }                                                                                           \
        dj_lanes_##S lanes;                                                                         \
        dj_one_lanes_##S(from, LANES, size / LANES, &lanes);                                        \
        T sum = 0;                                                                                  \
        for (int64_t i = size / LANES * LANES; i < size; i++) sum += from[i];                       \
        for (int i = 0; i < LANES; i++) sum += lanes[i];                                            \
        *to = sum;                                                                                  \
    }                                                                                               \
    DJ_SUM_TARGET static __attribute__((unused)) void dj_sum_columns_##S(                           \
        const T *from, int64_t size, int64_t width, T *to) {                                        \
        enum { LANES = 32 / sizeof(T) };                                                            \
        const int64_t fours = width / (4 * LANES) * 4 * LANES, most = DJ_SUM_BLOCK / sizeof(T);     \
        int64_t j = 0;                                                                              \
        for (int64_t count; j < fours; j += count) {                                                \
            count = fours - j < most ? fours - j : most;                                            \
            dj_rows_##S(from + j, width, size, count, to + j);                                      \
        }                                                                                           \
        for (; j + LANES <= width; j += LANES)                                                      \
            dj_one_lanes_##S(from + j, width, size, (dj_lanes_##S *)(to + j));                      \
        for (; width < LANES && j + 4 <= width; j += 4)                                             \
            dj_four_lane_##S(from + j, width, 1, size, to + j);                                     \
        for (; j < width; j++) dj_one_lane_##S(from + j, width, size, to + j);                      \
    }
DJ_SUMS(float, f32)
DJ_SUMS(double, f64)
