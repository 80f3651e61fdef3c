/* Matrix products of generated C: a call per tile, on the calling thread, of what the process has for
 * float32 and float64 (gemm.h), and loops for other dtypes, and for operands whose elements lie side
 * by side in neither direction. Included where a graph has a product.
 *
 * Matrices are given by row and column strides in elements; the result is row-major, its rows c_row
 * elements apart. Tiles depend on sizes and on the machine, so the bits of a result do not depend on
 * the number of threads.
 */

/* Rows or columns of a tile where `length` is cut into `count`; at least 1. */
static __attribute__((unused)) int64_t dj_tile_length(int64_t length, int64_t count) {
    int64_t even = (dj_max_index(length, 1) + count - 1) / count;
    return count > 1 ? (even + 15) / 16 * 16 : even;
}

/* Where an array would begin of which `part` is there, from the element `first` on: a number, because
 * no pointer may lie there. */
#define DJ_BEGIN(T, part, first) ((T *)((uintptr_t)(part) - sizeof(T) * (size_t)(first)))

#if defined(__AVX512F__)
#define DJ_PRODUCT_BYTES 64
#elif defined(__AVX__)
#define DJ_PRODUCT_BYTES 32
#else
#define DJ_PRODUCT_BYTES 16
#endif

/* Four rows and two vectors of columns at a time, sums in registers in the order of k. The right
 * operand's columns are packed unless they lie side by side; PLUS and TIMES combine. Sums are added to
 * what c holds if it `adds`. */
#define DJ_PRODUCT(T, S, PLUS, TIMES)                                                               \
    static __attribute__((unused)) void dj_product_##S(                                             \
        const T *a, int64_t a_row, int64_t a_column, const T *b, int64_t b_row, int64_t b_column,   \
        T *c, int64_t c_row, int64_t n, int64_t k, int64_t m, int adds) {                           \
        typedef T vec __attribute__((vector_size(DJ_PRODUCT_BYTES), aligned(sizeof(T)), may_alias)); \
        enum { LANES = DJ_PRODUCT_BYTES / sizeof(T), WIDTH = 2 * LANES, DEPTH = 128 };              \
        T panel[DEPTH * WIDTH], tile[4 * WIDTH];                                                    \
        for (int64_t start = 0; start < m; start += WIDTH)                                          \
            for (int64_t first = 0; first == 0 || first < k; first += DEPTH) {                      \
                const int64_t width = dj_min_index(WIDTH, m - start);                               \
                const int64_t depth = dj_min_index(DEPTH, k - first);                               \
                const T *right = b + first * b_row + start * b_column;                              \
                int64_t step = b_row;                                                               \
                if (b_column != 1 || width < WIDTH) {                                               \
                    for (int64_t j = 0; j < WIDTH; j++)                                             \
                        for (int64_t l = 0; l < depth; l++)                                         \
                            panel[l * WIDTH + j] = j < width ? right[l * b_row + j * b_column] : 0; \
                    right = panel, step = WIDTH;                                                    \
                }                                                                                   \
                for (int64_t i = 0; i < n; i += 4) {                                                \
                    const int64_t rows = dj_min_index(4, n - i);                                    \
                    T *to = c + i * c_row + start;                                                  \
                    const T *a0 = a + i * a_row + first * a_column;                                 \
                    const T *a1 = a0 + (rows > 1 ? a_row : 0);                                      \
                    const T *a2 = a1 + (rows > 2 ? a_row : 0), *a3 = a2 + (rows > 3 ? a_row : 0);   \
                    vec s00 = {0}, s10 = {0}, s20 = {0}, s30 = {0};                                 \
                    vec s01 = {0}, s11 = {0}, s21 = {0}, s31 = {0};                                 \
                    for (int64_t l = 0; l < depth; l++) {                                           \
                        const vec b0 = *(const vec *)(right + l * step);                            \
                        const vec b1 = *(const vec *)(right + l * step + LANES);                    \
                        const T x0 = a0[l * a_column], x1 = a1[l * a_column];                       \
                        const T x2 = a2[l * a_column], x3 = a3[l * a_column];                       \
                        s00 = s00 PLUS(x0 TIMES b0), s01 = s01 PLUS(x0 TIMES b1);                   \
                        s10 = s10 PLUS(x1 TIMES b0), s11 = s11 PLUS(x1 TIMES b1);                   \
                        s20 = s20 PLUS(x2 TIMES b0), s21 = s21 PLUS(x2 TIMES b1);                   \
                        s30 = s30 PLUS(x3 TIMES b0), s31 = s31 PLUS(x3 TIMES b1);                   \
                    }                                                                               \
                    vec *sums = (vec *)tile;                                                        \
                    sums[0] = s00, sums[1] = s01, sums[2] = s10, sums[3] = s11;                     \
                    sums[4] = s20, sums[5] = s21, sums[6] = s30, sums[7] = s31;                     \
                    for (int64_t r = 0; r < rows; r++)                                              \
                        for (int64_t j = 0; j < width; j++) {                                       \
                            const T sum = tile[r * WIDTH + j];                                      \
                            T *place = to + r * c_row + j;                                          \
                            *place = first == 0 && !adds ? sum : (T)(*place PLUS sum);              \
                        }                                                                           \
                }                                                                                   \
            }                                                                                       \
    }

DJ_PRODUCT(uint8_t, b8, |, &)
DJ_PRODUCT(uint8_t, u8, +, *)
DJ_PRODUCT(int8_t, i8, +, *)
DJ_PRODUCT(int16_t, i16, +, *)
DJ_PRODUCT(int32_t, i32, +, *)
DJ_PRODUCT(int64_t, i64, +, *)
DJ_PRODUCT(float, f32, +, *)
DJ_PRODUCT(double, f64, +, *)

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define DJ_SMALL_F32(x, y, sum) __builtin_fmaf(x, y, sum)
#define DJ_SMALL_F64(x, y, sum) __builtin_fma(x, y, sum)
#else
#define DJ_SMALL_F32(x, y, sum) ((x) * (y) + (sum))
#define DJ_SMALL_F64(x, y, sum) ((x) * (y) + (sum))
#endif
#define DJ_SMALL_APART(x, y, sum) ((sum) + (x) * (y))
#define DJ_SMALL_INTEGER(x, y, sum) ((sum) + (x) * (y))
#define DJ_SMALL_BOOL(x, y, sum) ((sum) | ((x) & (y)))

/* The same where k and m are small constants (DJ_SMALLEST elements at most), which the compiler
 * unrolls: a call of BLAS costs more than such a product. */
enum { DJ_SMALLEST = 64 };
#define DJ_SMALL(T, S, ADD)                                                                         \
    static inline __attribute__((always_inline, unused)) void dj_small_##S(                         \
        const T *restrict a, int64_t a_row, int64_t a_column, const T *restrict b, int64_t b_row,   \
        int64_t b_column, T *restrict c, int64_t c_row, int64_t n, int64_t k, int64_t m) {          \
        T right[DJ_SMALLEST];                                                                       \
        for (int64_t l = 0; l < k; l++)                                                             \
            for (int64_t j = 0; j < m; j++) right[l * m + j] = b[l * b_row + j * b_column];         \
        for (int64_t i = 0; i < n; i++) {                                                           \
            T sum[DJ_SMALLEST];                                                                     \
            for (int64_t j = 0; j < m; j++) sum[j] = 0;                                             \
            for (int64_t l = 0; l < k; l++) {                                                       \
                const T x = a[i * a_row + l * a_column];                                            \
                for (int64_t j = 0; j < m; j++)                                                     \
                    sum[j] = (T)(ADD(x, right[l * m + j], sum[j]));                                 \
            }                                                                                       \
            for (int64_t j = 0; j < m; j++) c[i * c_row + j] = sum[j];                              \
        }                                                                                           \
    }

DJ_SMALL(uint8_t, b8, DJ_SMALL_BOOL)
DJ_SMALL(uint8_t, u8, DJ_SMALL_INTEGER)
DJ_SMALL(int8_t, i8, DJ_SMALL_INTEGER)
DJ_SMALL(int16_t, i16, DJ_SMALL_INTEGER)
DJ_SMALL(int32_t, i32, DJ_SMALL_INTEGER)
DJ_SMALL(int64_t, i64, DJ_SMALL_INTEGER)
DJ_SMALL(float, f32, DJ_SMALL_F32)
DJ_SMALL(float, narrow_f32, DJ_SMALL_APART)
DJ_SMALL(double, f64, DJ_SMALL_F64)

typedef float __attribute__((vector_size(32))) dj_small_row;

/* A right operand of at most 8 columns, with zeros behind them. */
static inline __attribute__((always_inline, unused)) void dj_small_rows(
    const float *restrict b, int64_t b_row, int64_t b_column, int64_t k, int64_t m,
    dj_small_row *right) {
    for (int64_t l = 0; l < k; l++) {
        right[l] = (dj_small_row){0};
        for (int64_t j = 0; j < m; j++) right[l][j] = b[l * b_row + j * b_column];
    }
}

/* The same of float32 with terms that are rounded before they are added, as by our own products of few
 * columns on CPUs of AMD (few_products.h): in the order of k, */
static inline __attribute__((always_inline, unused)) void dj_small_apart_f32(
    const float *restrict a, int64_t a_row, int64_t a_column, const float *restrict b, int64_t b_row,
    int64_t b_column, float *restrict c, int64_t c_row, int64_t n, int64_t k, int64_t m) {
    if (m <= 4) {
        dj_small_narrow_f32(a, a_row, a_column, b, b_row, b_column, c, c_row, n, k, m);
        return;
    }
    dj_small_row right[8];
    dj_small_rows(b, b_row, b_column, k, m, right);
    for (int64_t i = 0; i < n; i++) {
        dj_small_row sum = {0};
        for (int64_t l = 0; l < k; l++) sum += a[i * a_row + l * a_column] * right[l];
        memcpy(c + i * c_row, &sum, sizeof(float) * (size_t)m);
    }
}

/* and in lanes: for rows of 4 or 8 elements that lie as such, each at a multiple of 16 bytes. */
static inline __attribute__((always_inline, unused)) void dj_small_lanes_f32(
    const float *restrict a, int64_t a_row, const float *restrict b, int64_t b_row, int64_t b_column,
    float *restrict c, int64_t c_row, int64_t n, int64_t k, int64_t m) {
    dj_small_row right[8], x[8];
    dj_small_rows(b, b_row, b_column, k, m, right);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t l = 0; l < k; l++) x[l] = a[i * a_row + l] * right[l];
        for (int64_t l = 0; l < 4 && k == 8; l++) x[l] += x[l + 4];
        const dj_small_row sum = (x[0] + x[2]) + (x[1] + x[3]);
        memcpy(c + i * c_row, &sum, sizeof(float) * (size_t)m);
    }
}

/* Of a part of a product: what `multiply` is told (`How` of _products.c) if the whole one has few rows
 * or columns, and whether other columns are to the left; DJ_MIRRORED is for gemm.h. */
enum { DJ_IS_PACKED = 1, DJ_IS_FEW = 2, DJ_IS_BESIDE = 4, DJ_IN_ORDER = 8, DJ_ADDS = 16 };
enum { DJ_MIRRORED = 32 };
enum { DJ_FEW_ROWS = 4, DJ_FEW_COLUMNS = 12, DJ_NAIVE_WORK = 400 };
static __attribute__((unused)) int dj_few(int64_t rows, int64_t inner, int64_t columns,
                                          int64_t column, int is_stack) {
    if (is_stack && (rows == 1 || columns == 1)) return 0;
    if (is_stack && rows * inner * columns < DJ_NAIVE_WORK) return DJ_IS_FEW | DJ_IN_ORDER;
    if (rows >= DJ_FEW_ROWS && columns >= DJ_FEW_COLUMNS) return 0;
    return DJ_IS_FEW | (column > 0 ? DJ_IS_BESIDE : 0);
}

/* Every row of c (n, m) begins as the same vector. */
#define DJ_BEGIN_ROWS(T, S)                                                                         \
    static inline __attribute__((unused)) void dj_begin_##S(const T *from, T *c, int64_t c_row,     \
                                                            int64_t n, int64_t m) {                 \
        for (int64_t i = 0; i < n; i++) memcpy(c + i * c_row, from, sizeof(T) * (size_t)m);         \
    }
DJ_BEGIN_ROWS(float, f32)
