/* Functions of the process that generated C calls through `dj_runtime`: they are the same for every
 * graph, and as a part of its unit they would cost 40 to 80 ms of compiler. */

/* c (n, m) = a (n, k) @ b (k, m): see gemm.h. */
#define DJ_GEMM(T, S)                                                                               \
    typedef void (*dj_gemm_##S##_function)(const dj_runtime *, const T *, int64_t, int64_t,         \
                                           const T *, int64_t, int64_t, T *, int64_t, int64_t,      \
                                           int64_t, int64_t, int64_t, int);                         \
    DJ_INLINE void dj_gemm_##S(                                                                     \
        const dj_runtime *runtime, const T *a, int64_t a_row, int64_t a_column, const T *b,         \
        int64_t b_row, int64_t b_column, T *c, int64_t c_row, int64_t n, int64_t k, int64_t m,      \
        int64_t home, int how) {                                                                    \
        ((dj_gemm_##S##_function)runtime->gemm_##S)(runtime, a, a_row, a_column, b, b_row,          \
                                                    b_column, c, c_row, n, k, m, home, how);        \
    }
DJ_GEMM(float, f32)
DJ_GEMM(double, f64)

/* The sums of `width` columns of `size` rows that lie one after the other: see sums.h. */
#define DJ_SUM_COLUMNS(T, S)                                                                        \
    DJ_INLINE void dj_sum_columns_##S(const dj_runtime *runtime, const T *from, int64_t size,       \
                                      int64_t width, T *to) {                                       \
        ((void (*)(const T *, int64_t, int64_t, T *))runtime->sum_columns_##S)(from, size, width,   \
                                                                               to);                 \
    }
DJ_SUM_COLUMNS(float, f32)
DJ_SUM_COLUMNS(double, f64)
