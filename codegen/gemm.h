/* Matrix products of float32 and float64 for compiled programs, which reach them through `dj_runtime`:
 * our own (_products.c), those of BLAS where these do not know the CPU, or loops. As a part of every
 * unit they would cost each 40 to 60 ms of compiler. Included by _runtime.c. */

#include "host.h"
#include "indices.h"
#include "mirror.h"
#include "products.h"

typedef int (*dj_multiply_f32)(const float *, int64_t, int64_t, const float *, int64_t, int64_t,
                               float *, int64_t, int64_t, int64_t, int64_t, int64_t, int);
typedef int (*dj_multiply_f64)(const double *, int64_t, int64_t, const double *, int64_t, int64_t,
                               double *, int64_t, int64_t, int64_t, int64_t, int64_t, int);
typedef void (*dj_sgemm_function)(char *, char *, int *, int *, int *, float *, float *, int *,
                                  float *, int *, float *, float *, int *);
typedef void (*dj_dgemm_function)(char *, char *, int *, int *, int *, double *, double *, int *,
                                  double *, int *, double *, double *, int *);
typedef void (*dj_sgemv_function)(char *, int *, int *, float *, float *, int *, float *, int *,
                                  float *, float *, int *);
typedef void (*dj_dgemv_function)(char *, int *, int *, double *, double *, int *, double *, int *,
                                  double *, double *, int *);

#define DJ_PROCESS_GEMM(T, S, L)                                                                    \
    /* c (n, m) = a (n, k) @ b (k, m), and whether it is one of our own products. BLAS is           \
     * column-major: it computes c' = b' a'. Columns of b may stay packed between calls: `home` of  \
     * product_loops.h, and `how`. */                                                               \
    static int gemm_all_##S(                                                                        \
        const dj_runtime *runtime, const T *a, int64_t a_row, int64_t a_column, const T *b,         \
        int64_t b_row, int64_t b_column, T *c, int64_t c_row, int64_t n, int64_t k, int64_t m,      \
        int64_t home, int how) {                                                                    \
        if (n == 0 || m == 0) return 0;                                                             \
        if (k == 0) {                                                                               \
            for (int64_t i = 0; i < n && !(how & DJ_ADDS); i++)                                     \
                memset(c + i * c_row, 0, sizeof(T) * (size_t)m);                                    \
            return 0;                                                                               \
        }                                                                                           \
        if ((((n > 1 || home >= 0) && m > 1) || (how & DJ_IS_FEW)) && runtime->multiply_##S &&      \
            ((dj_multiply_##S)runtime->multiply_##S)(a, a_row, a_column, b, b_row, b_column, c,     \
                                                     c_row, n, k, m, home, how))                    \
            return 1;                                                                               \
        int a_rows = a_column == 1 && a_row >= k, b_rows = b_column == 1 && b_row >= m;             \
        int64_t a_step = a_rows ? a_row : a_column, b_step = b_rows ? b_row : b_column;             \
        int64_t most = n | k | m | a_step | b_step | c_row;                                         \
        if (most > INT32_MAX) { /* more than this BLAS can count */                                 \
            dj_product_##S(a, a_row, a_column, b, b_row, b_column, c, c_row, n, k, m,               \
                           how & DJ_ADDS);                                                          \
            return 0;                                                                               \
        }                                                                                           \
        char a_order = a_rows ? 'N' : 'T', b_order = b_rows ? 'N' : 'T';                            \
        int rows = (int)m, columns = (int)n, inner = (int)k, result = (int)c_row, next = 1;         \
        int a_int = (int)a_step, b_int = (int)b_step;                                               \
        T one = 1, beta = (how & DJ_ADDS) ? 1 : 0;                                                  \
        dj_##L##gemv_function gemv = (dj_##L##gemv_function)runtime->L##gemv;                       \
        if (n == 1 && a_column > 0) { /* products with a vector take twice as long as matrices */   \
            int wide = b_rows ? rows : inner, tall = b_rows ? inner : rows, step = (int)a_column;   \
            gemv(&b_order, &wide, &tall, &one, (T *)b, &b_int, (T *)a, &step, &beta, c, &next);     \
            return 0;                                                                               \
        }                                                                                           \
        if (m == 1 && b_row > 0) {                                                                  \
            int wide = a_rows ? inner : columns, tall = a_rows ? columns : inner, step = (int)b_row; \
            char turned = a_rows ? 'T' : 'N';                                                       \
            gemv(&turned, &wide, &tall, &one, (T *)a, &a_int, (T *)b, &step, &beta, c, &result);    \
            return 0;                                                                               \
        }                                                                                           \
        ((dj_##L##gemm_function)runtime->L##gemm)(&b_order, &a_order, &rows, &columns, &inner,      \
                                                  &one, (T *)b, &b_int, (T *)a, &a_int, &beta, c,   \
                                                  &result);                                         \
        return 0;                                                                                   \
    }                                                                                               \
    DJ_MIRROR(T, mirror_##S)                                                                        \
    /* The same. DJ_MIRRORED: b is the transpose of a matrix of which a is some rows, and what is   \
     * above the diagonal comes from below, where BLAS may have given other bits: the first rows    \
     * are a square, which our own products mirror, others are beside it. */                        \
    static void gemm_##S(                                                                           \
        const dj_runtime *runtime, const T *a, int64_t a_row, int64_t a_column, const T *b,         \
        int64_t b_row, int64_t b_column, T *c, int64_t c_row, int64_t n, int64_t k, int64_t m,      \
        int64_t home, int how) {                                                                    \
        const int64_t top = how & DJ_MIRRORED ? (a - b) / a_row : 0;                                \
        const int64_t wide = how & DJ_MIRRORED ? top + n : m;                                       \
        const int is_own = gemm_all_##S(runtime, a, a_row, a_column, b, b_row, b_column, c, c_row,  \
                                        n, k, wide, home, how);                                     \
        if (top || ((how & DJ_MIRRORED) && !is_own)) mirror_##S(c - top * c_row, c_row, top, n);    \
    }

DJ_PROCESS_GEMM(float, f32, s)
DJ_PROCESS_GEMM(double, f64, d)
