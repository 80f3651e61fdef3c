/* Matrix products of generated C: single-threaded BLAS calls per tile, and loops for the dtypes that
 * BLAS does not know. Included where a graph has a product.
 *
 * Matrices are given by row and column strides in elements; the result is row-major, its rows c_row
 * elements apart. Tiles depend on sizes only, so the bits of a result do not depend on the number of
 * threads.
 */

/* Rows or columns of a tile where `length` is cut into `count`; at least 1. */
static __attribute__((unused)) int64_t dj_tile_length(int64_t length, int64_t count) {
    int64_t even = (dj_max_index(length, 1) + count - 1) / count;
    return count > 1 ? (even + 15) / 16 * 16 : even;
}

typedef void (*dj_sgemm_function)(char *, char *, int *, int *, int *, float *, float *, int *,
                                  float *, int *, float *, float *, int *);
typedef void (*dj_dgemm_function)(char *, char *, int *, int *, int *, double *, double *, int *,
                                  double *, int *, double *, double *, int *);

/* Row by row: sums in A, in order of k; LOAD and KEEP convert; PLUS and TIMES combine. */
#define DJ_PRODUCT(T, S, A, LOAD, KEEP, PLUS, TIMES)                                                \
    static __attribute__((unused)) void dj_product_##S(                                             \
        const T *a, int64_t a_row, int64_t a_column, const T *b, int64_t b_row, int64_t b_column,   \
        T *c, int64_t c_row, int64_t n, int64_t k, int64_t m) {                                     \
        enum { BLOCK = 256 };                                                                       \
        for (int64_t i = 0; i < n; i++)                                                             \
            for (int64_t start = 0; start < m; start += BLOCK) {                                    \
                A sum[BLOCK];                                                                       \
                int64_t width = dj_min_index(BLOCK, m - start);                                     \
                for (int64_t j = 0; j < width; j++) sum[j] = 0;                                     \
                for (int64_t l = 0; l < k; l++) {                                                   \
                    A x = (A)LOAD(a[i * a_row + l * a_column]);                                     \
                    for (int64_t j = 0; j < width; j++) {                                           \
                        A y = (A)LOAD(b[l * b_row + (start + j) * b_column]);                       \
                        sum[j] = (A)(sum[j] PLUS (x TIMES y));                                      \
                    }                                                                               \
                }                                                                                   \
                for (int64_t j = 0; j < width; j++) c[i * c_row + start + j] = KEEP(sum[j]);        \
            }                                                                                       \
    }

#define DJ_PLAIN(x) (x)
DJ_PRODUCT(uint8_t, b8, uint8_t, DJ_PLAIN, DJ_PLAIN, |, &)
DJ_PRODUCT(uint8_t, u8, uint8_t, DJ_PLAIN, DJ_PLAIN, +, *)
DJ_PRODUCT(int8_t, i8, int8_t, DJ_PLAIN, DJ_PLAIN, +, *)
DJ_PRODUCT(int16_t, i16, int16_t, DJ_PLAIN, DJ_PLAIN, +, *)
DJ_PRODUCT(int32_t, i32, int32_t, DJ_PLAIN, DJ_PLAIN, +, *)
DJ_PRODUCT(int64_t, i64, int64_t, DJ_PLAIN, DJ_PLAIN, +, *)
DJ_PRODUCT(float, f32, float, DJ_PLAIN, DJ_PLAIN, +, *)
DJ_PRODUCT(double, f64, double, DJ_PLAIN, DJ_PLAIN, +, *)
DJ_PRODUCT(dj_half, f16, float, dj_load_f16, dj_store_f16, +, *)
DJ_PRODUCT(dj_bfloat, bf16, float, dj_load_bf16, dj_store_bf16, +, *)

#define DJ_GEMM(T, S, GEMM)                                                                         \
    /* c (n, m) = a (n, k) @ b (k, m). BLAS is column-major: it computes c' = b' a'. */             \
    static __attribute__((unused)) void dj_gemm_##S(                                                \
        GEMM gemm, const T *a, int64_t a_row, int64_t a_column, const T *b, int64_t b_row,          \
        int64_t b_column, T *c, int64_t c_row, int64_t n, int64_t k, int64_t m) {                   \
        if (n == 0 || m == 0) return;                                                               \
        if (k == 0) {                                                                               \
            for (int64_t i = 0; i < n; i++) memset(c + i * c_row, 0, sizeof(T) * (size_t)m);        \
            return;                                                                                 \
        }                                                                                           \
        int a_rows = a_column == 1 && a_row >= k, b_rows = b_column == 1 && b_row >= m;             \
        int64_t a_step = a_rows ? a_row : a_column, b_step = b_rows ? b_row : b_column;             \
        int64_t most = n | k | m | a_step | b_step | c_row;                                         \
        if (most > INT32_MAX) { /* more than this BLAS can count */                                 \
            dj_product_##S(a, a_row, a_column, b, b_row, b_column, c, c_row, n, k, m);              \
            return;                                                                                 \
        }                                                                                           \
        char a_order = a_rows ? 'N' : 'T', b_order = b_rows ? 'N' : 'T';                            \
        int rows = (int)m, columns = (int)n, inner = (int)k, result = (int)c_row;                   \
        int a_int = (int)a_step, b_int = (int)b_step;                                               \
        T one = 1, zero = 0;                                                                        \
        gemm(&b_order, &a_order, &rows, &columns, &inner, &one, (T *)b, &b_int, (T *)a, &a_int,     \
             &zero, c, &result);                                                                    \
    }

DJ_GEMM(float, f32, dj_sgemm_function)
DJ_GEMM(double, f64, dj_dgemm_function)
