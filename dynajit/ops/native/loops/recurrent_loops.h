/* Cells of recurrent layers for one instruction set; included by a file for each, which defines
 * NAMED(x), the name of x there, and has said for which CPU it is.
 *
 * Contract: as recurrent_cells.h says. The formulas are those of `ops.rows.networks.recurrent`, in
 * its order of operations, over the vector mathematics of generated C.
 */
#include "vecmath.h"
#include "vecmath_f64.h"
#include "recurrent_cells.h"

#define EACH_ELEMENT _Pragma("GCC ivdep") for (int64_t j = 0; j < size; j++)

/* The cells with gates. KEEPS: they are kept for backward, and read there; KEPT is the part of the
 * names that says so. */
#define GATED_CELLS(T, SUFFIX, KEPT, KEEPS)                                                         \
    static void NAMED(lstm##KEPT##_##SUFFIX)(const Step *s) {                                       \
        const int64_t size = s->size;                                                               \
        for (int64_t row = 0; row < s->rows; row++) {                                               \
            const T *x = (const T *)s->gates + row * 4 * size;                                      \
            const T *p = (const T *)s->product + row * 4 * size;                                    \
            T *cell = (T *)s->cell + row * size, *hidden = (T *)s->hidden + row * size;             \
            T *kept = KEEPS ? (T *)s->kept + row * s->kept_row : NULL;                              \
            EACH_ELEMENT {                                                                          \
                const T i = NAMED(sigmoid_##SUFFIX)(x[j] + p[j]);                                   \
                const T f = NAMED(sigmoid_##SUFFIX)(x[size + j] + p[size + j]);                     \
                const T n = dj_tanh_##SUFFIX(x[2 * size + j] + p[2 * size + j]);                    \
                const T o = NAMED(sigmoid_##SUFFIX)(x[3 * size + j] + p[3 * size + j]);             \
                const T c = f * cell[j] + i * n;                                                    \
                cell[j] = c;                                                                        \
                hidden[j] = o * dj_tanh_##SUFFIX(c);                                                \
                if (KEEPS)                                                                          \
                    kept[j] = i, kept[size + j] = f, kept[2 * size + j] = n, kept[3 * size + j] = o;\
            }                                                                                       \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    static void NAMED(gru##KEPT##_##SUFFIX)(const Step *s) {                                        \
        const int64_t size = s->size;                                                               \
        const T *bias = s->bias;                                                                    \
        for (int64_t row = 0; row < s->rows; row++) {                                               \
            const T *x = (const T *)s->gates + row * 3 * size;                                      \
            const T *p = (const T *)s->product + row * 3 * size;                                    \
            T *hidden = (T *)s->hidden + row * size;                                                \
            T *kept = KEEPS ? (T *)s->kept + row * s->kept_row : NULL;                              \
            EACH_ELEMENT {                                                                          \
                const T r = NAMED(sigmoid_##SUFFIX)(x[j] + p[j]);                                   \
                const T z = NAMED(sigmoid_##SUFFIX)(x[size + j] + p[size + j]);                     \
                const T own = p[2 * size + j] + bias[j];                                            \
                const T n = dj_tanh_##SUFFIX(x[2 * size + j] + r * own);                            \
                hidden[j] = n + z * (hidden[j] - n);                                                \
                if (KEEPS)                                                                          \
                    kept[j] = r, kept[size + j] = z, kept[2 * size + j] = n, kept[3 * size + j] = own;\
            }                                                                                       \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    static void NAMED(lstm_back##KEPT##_##SUFFIX)(const BackStep *s) {                              \
        const int64_t size = s->size;                                                               \
        for (int64_t row = 0; row < s->rows; row++) {                                               \
            const T *x = KEEPS ? (const T *)s->kept + row * s->kept_row                             \
                               : (const T *)s->gates + row * 4 * size;                              \
            const T *after = (const T *)s->after + row * s->after_row;                              \
            const T *before = (const T *)s->before + row * s->before_row;                           \
            const T *hidden = (const T *)s->hidden + row * size;                                    \
            T *p = (T *)s->slopes + row * s->slopes_row, *cell = (T *)s->cell + row * size;         \
            EACH_ELEMENT {                                                                          \
                const T i = KEEPS ? x[j] : NAMED(sigmoid_##SUFFIX)(x[j] + p[j]);                    \
                const T f = KEEPS ? x[size + j] : NAMED(sigmoid_##SUFFIX)(x[size + j] + p[size + j]);\
                const T n = KEEPS ? x[2 * size + j] : dj_tanh_##SUFFIX(x[2 * size + j] + p[2 * size + j]);\
                const T o = KEEPS ? x[3 * size + j]                                                 \
                                  : NAMED(sigmoid_##SUFFIX)(x[3 * size + j] + p[3 * size + j]);     \
                const T t = dj_tanh_##SUFFIX(after[j]);                                             \
                const T g = cell[j] + hidden[j] * (o * (1 - t * t));                                \
                p[j] = g * (n * i * (1 - i));                                                       \
                p[size + j] = g * (before[j] * f * (1 - f));                                        \
                p[2 * size + j] = g * (i * (1 - n * n));                                            \
                p[3 * size + j] = hidden[j] * (t * o * (1 - o));                                    \
                cell[j] = g * f;                                                                    \
            }                                                                                       \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    static void NAMED(gru_back##KEPT##_##SUFFIX)(const BackStep *s) {                               \
        const int64_t size = s->size;                                                               \
        const T *bias = s->bias;                                                                    \
        for (int64_t row = 0; row < s->rows; row++) {                                               \
            const T *x = KEEPS ? (const T *)s->kept + row * s->kept_row                             \
                               : (const T *)s->gates + row * 3 * size;                              \
            const T *before = (const T *)s->before + row * s->before_row;                           \
            T *p = (T *)s->slopes + row * s->slopes_row, *hidden = (T *)s->hidden + row * size;     \
            T *sent = (T *)s->sent + row * 3 * size;                                                \
            EACH_ELEMENT {                                                                          \
                const T r = KEEPS ? x[j] : NAMED(sigmoid_##SUFFIX)(x[j] + p[j]);                    \
                const T z = KEEPS ? x[size + j] : NAMED(sigmoid_##SUFFIX)(x[size + j] + p[size + j]);\
                const T own = KEEPS ? x[3 * size + j] : p[2 * size + j] + bias[j];                  \
                const T n = KEEPS ? x[2 * size + j] : dj_tanh_##SUFFIX(x[2 * size + j] + r * own);  \
                const T g = hidden[j], of_new = (1 - z) * (1 - n * n);                              \
                p[j] = sent[j] = g * (of_new * own * r * (1 - r));                                  \
                p[size + j] = sent[size + j] = g * ((before[j] - n) * z * (1 - z));                 \
                p[2 * size + j] = g * of_new;                                                       \
                p[3 * size + j] = sent[2 * size + j] = g * (of_new * r);                            \
                hidden[j] = g * z;                                                                  \
            }                                                                                       \
        }                                                                                           \
    }

#define CELLS(T, SUFFIX)                                                                            \
    static inline T NAMED(sigmoid_##SUFFIX)(T x) { return 1 / (1 + dj_exp_##SUFFIX(-x)); }          \
                                                                                                    \
    GATED_CELLS(T, SUFFIX, , 0)                                                                     \
    GATED_CELLS(T, SUFFIX, _kept, 1)                                                                \
                                                                                                    \
    static void NAMED(rnn_tanh_##SUFFIX)(const Step *s) {                                           \
        const int64_t size = s->rows * s->size;                                                     \
        const T *x = s->gates, *p = s->product;                                                     \
        T *hidden = s->hidden;                                                                      \
        EACH_ELEMENT hidden[j] = dj_tanh_##SUFFIX(x[j] + p[j]);                                     \
    }                                                                                               \
                                                                                                    \
    static void NAMED(rnn_relu_##SUFFIX)(const Step *s) {                                           \
        const int64_t size = s->rows * s->size;                                                     \
        const T *x = s->gates, *p = s->product;                                                     \
        T *hidden = s->hidden;                                                                      \
        EACH_ELEMENT {                                                                              \
            const T sum = x[j] + p[j];                                                              \
            hidden[j] = sum <= 0 ? 0 : sum; /* NaN stays */                                         \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    static void NAMED(rnn_tanh_back_##SUFFIX)(const BackStep *s) {                                  \
        const int64_t size = s->rows * s->size;                                                     \
        const T *after = s->after, *hidden = s->hidden;                                             \
        T *slopes = s->slopes;                                                                      \
        EACH_ELEMENT slopes[j] = hidden[j] * (1 - after[j] * after[j]);                             \
    }                                                                                               \
                                                                                                    \
    static void NAMED(rnn_relu_back_##SUFFIX)(const BackStep *s) {                                  \
        const int64_t size = s->rows * s->size;                                                     \
        const T *after = s->after, *hidden = s->hidden;                                             \
        T *slopes = s->slopes;                                                                      \
        EACH_ELEMENT slopes[j] = hidden[j] * (after[j] > 0 ? (T)1 : (T)0);                          \
    }                                                                                               \
                                                                                                    \
    static void NAMED(add_##SUFFIX)(void *to, const void *from, int64_t x_row, int64_t rows,        \
                                    int64_t size) {                                                 \
        for (int64_t row = 0; row < rows; row++) {                                                  \
            T *sum = (T *)to + row * size;                                                          \
            const T *x = (const T *)from + row * x_row;                                             \
            EACH_ELEMENT sum[j] += x[j];                                                            \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    const Cells NAMED(cells_##SUFFIX) = {                                                           \
        {{NAMED(lstm_##SUFFIX), NAMED(lstm_kept_##SUFFIX)},                                         \
         {NAMED(gru_##SUFFIX), NAMED(gru_kept_##SUFFIX)},                                           \
         {NAMED(rnn_tanh_##SUFFIX)},                                                                \
         {NAMED(rnn_relu_##SUFFIX)}},                                                               \
        {{NAMED(lstm_back_##SUFFIX), NAMED(lstm_back_kept_##SUFFIX)},                               \
         {NAMED(gru_back_##SUFFIX), NAMED(gru_back_kept_##SUFFIX)},                                 \
         {NAMED(rnn_tanh_back_##SUFFIX)},                                                           \
         {NAMED(rnn_relu_back_##SUFFIX)}},                                                          \
        NAMED(add_##SUFFIX),                                                                        \
    };

CELLS(float, f32)
CELLS(double, f64)
