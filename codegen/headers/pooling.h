/* Pools of generated C: windows are read where they lie, one output row at a time.
 *
 * For every element of the window a pass over a piece of the row; outputs whose element lies outside
 * are left out of its range, so no pass has a condition. All dims are three; pools over fewer have
 * leading ones. Planes are independent of each other, so the bits of a result do not depend on the
 * number of threads. Included where a graph has a pool.
 */

typedef struct {
    int64_t planes;
    int64_t in[3], out[3], size[3], stride[3], before[3], dilation[3];
} dj_pool;

enum { DJ_PIECE = 128 }; /* outputs of a row at once: their values and choices stay near */

#define DJ_POOL_WORK (1 << 17) /* elements of windows that are worth a team */

DJ_INLINE int dj_pool_team(const dj_pool *c, int threads) {
    int64_t work = c->planes * c->out[0] * c->out[1] * c->out[2];
    return work * c->size[0] * c->size[1] * c->size[2] >= DJ_POOL_WORK ? threads : 1;
}

/* Outputs from *low to *high (within a piece) whose element `step` of the last dim lies inside. */
DJ_INLINE void dj_inside(const dj_pool *c, int64_t step, int64_t from, int64_t count, int64_t *low,
                         int64_t *high) {
    int64_t stride = c->stride[2], first = from * stride + step - c->before[2];
    *low = first < 0 ? dj_min_index((-first + stride - 1) / stride, count) : 0;
    int64_t left = c->in[2] - first;
    *high = left <= 0 ? 0 : dj_min_index((left + stride - 1) / stride, count);
}

/* The first element along a dim of the window at `out` that lies inside: what is chosen where all
 * elements are -inf. */
DJ_INLINE int64_t dj_first_inside(const dj_pool *c, int dim, int64_t out) {
    const int64_t missing = c->before[dim] - out * c->stride[dim], gap = c->dilation[dim];
    return missing <= 0 ? 0 : dj_min_index((missing + gap - 1) / gap, c->size[dim] - 1);
}

#define DJ_POOLS(T, S)                                                                              \
    DJ_INLINE void dj_better_##S(const T *x, int64_t stride, int64_t low, int64_t high, int32_t tap, \
                                 T *best, int32_t *choice) {                                        \
        for (int64_t j = low; j < high; j++) {                                                      \
            const T v = x[j * stride], b = best[j];                                                 \
            const int is_better = (v > b) | ((v != v) & (b == b)); /* the first NaN wins */         \
            best[j] = is_better ? v : b;                                                            \
            choice[j] = is_better ? tap : choice[j];                                                \
        }                                                                                           \
    }                                                                                               \
    DJ_INLINE void dj_more_##S(const T *x, int64_t stride, int64_t low, int64_t high, T *sum) {     \
        for (int64_t j = low; j < high; j++) sum[j] += x[j * stride];                               \
    }                                                                                               \
                                                                                                    \
    /* One piece of an output row: `best` is the maximum or, if `is_sum`, the sum. */               \
    DJ_INLINE void dj_window_##S(const dj_pool *c, const T *plane, int64_t a, int64_t b,            \
                                 int64_t from, int64_t count, int is_sum, T *best,                  \
                                 int32_t *choice) {                                                 \
        const int64_t above = dj_first_inside(c, 0, a) * c->size[1] + dj_first_inside(c, 1, b);     \
        const int32_t start = (int32_t)(above * c->size[2]);                                        \
        for (int64_t j = 0; j < count; j++) best[j] = is_sum ? 0 : -(T)INFINITY, choice[j] = start; \
        for (int64_t j = 0; j < count && (from + j) * c->stride[2] < c->before[2]; j++)             \
            choice[j] += (int32_t)dj_first_inside(c, 2, from + j);                                  \
        int32_t tap = 0;                                                                            \
        for (int64_t k0 = 0; k0 < c->size[0]; k0++)                                                 \
            for (int64_t k1 = 0; k1 < c->size[1]; k1++) {                                           \
                const int64_t p = a * c->stride[0] + k0 * c->dilation[0] - c->before[0];            \
                const int64_t q = b * c->stride[1] + k1 * c->dilation[1] - c->before[1];            \
                if (p < 0 || p >= c->in[0] || q < 0 || q >= c->in[1]) {                             \
                    tap += (int32_t)c->size[2];                                                     \
                    continue;                                                                       \
                }                                                                                   \
                const T *row = plane + (p * c->in[1] + q) * c->in[2];                               \
                for (int64_t k2 = 0; k2 < c->size[2]; k2++, tap++) {                                \
                    const int64_t step = k2 * c->dilation[2], stride = c->stride[2];                \
                    int64_t low, high;                                                              \
                    dj_inside(c, step, from, count, &low, &high);                                   \
                    if (low >= high) continue;                                                      \
                    const T *x = row + (from * stride + step - c->before[2]);                       \
                    if (is_sum && stride == 1) dj_more_##S(x, 1, low, high, best);                  \
                    else if (is_sum && stride == 2) dj_more_##S(x, 2, low, high, best);             \
                    else if (is_sum) dj_more_##S(x, stride, low, high, best);                       \
                    else if (stride == 1) dj_better_##S(x, 1, low, high, tap, best, choice);        \
                    else if (stride == 2) dj_better_##S(x, 2, low, high, tap, best, choice);        \
                    else dj_better_##S(x, stride, low, high, tap, best, choice);                    \
                }                                                                                   \
            }                                                                                       \
    }                                                                                               \
                                                                                                    \
    /* One plane; either result may be left out. */                                                 \
    static __attribute__((unused)) void dj_max_plane_##S(const dj_pool *c, const T *x, T *value,    \
                                                         int64_t *chosen) {                         \
        T best[DJ_PIECE];                                                                           \
        int32_t choice[DJ_PIECE];                                                                   \
        for (int64_t row = 0; row < c->out[0] * c->out[1]; row++)                                   \
            for (int64_t from = 0; from < c->out[2]; from += DJ_PIECE) {                            \
                const int64_t count = dj_min_index(DJ_PIECE, c->out[2] - from);                     \
                const int64_t place = row * c->out[2] + from;                                       \
                dj_window_##S(c, x, row / c->out[1], row % c->out[1], from, count, 0, best,         \
                              choice);                                                              \
                if (value)                                                                          \
                    for (int64_t j = 0; j < count; j++) value[place + j] = best[j];                 \
                if (chosen)                                                                         \
                    for (int64_t j = 0; j < count; j++) chosen[place + j] = choice[j];              \
            }                                                                                       \
    }                                                                                               \
                                                                                                    \
    static __attribute__((unused)) void dj_max_pool_##S(const dj_pool *c, const T *x, T *value,     \
                                                        int64_t *chosen, int threads) {             \
        const int64_t wide = c->in[0] * c->in[1] * c->in[2];                                        \
        const int64_t narrow = c->out[0] * c->out[1] * c->out[2];                                   \
        const int team = dj_pool_team(c, threads);                                                  \
        _Pragma("omp parallel for schedule(static) num_threads(team)")                              \
        for (int64_t p = 0; p < c->planes; p++)                                                     \
            dj_max_plane_##S(c, x + p * wide, value ? value + p * narrow : NULL,                    \
                             chosen ? chosen + p * narrow : NULL);                                  \
    }                                                                                               \
                                                                                                    \
    static __attribute__((unused)) void dj_sum_plane_##S(const dj_pool *c, const T *x, T *value) {  \
        int32_t choice[DJ_PIECE];                                                                   \
        for (int64_t row = 0; row < c->out[0] * c->out[1]; row++)                                   \
            for (int64_t from = 0; from < c->out[2]; from += DJ_PIECE)                              \
                dj_window_##S(c, x, row / c->out[1], row % c->out[1], from,                         \
                              dj_min_index(DJ_PIECE, c->out[2] - from), 1,                          \
                              value + row * c->out[2] + from, choice);                              \
    }                                                                                               \
                                                                                                    \
    static __attribute__((unused)) void dj_sum_pool_##S(const dj_pool *c, const T *x, T *value,     \
                                                        int threads) {                              \
        const int64_t wide = c->in[0] * c->in[1] * c->in[2];                                        \
        const int64_t narrow = c->out[0] * c->out[1] * c->out[2];                                   \
        const int team = dj_pool_team(c, threads);                                                  \
        _Pragma("omp parallel for schedule(static) num_threads(team)")                              \
        for (int64_t p = 0; p < c->planes; p++)                                                     \
            dj_sum_plane_##S(c, x + p * wide, value + p * narrow);                                  \
    }                                                                                               \
                                                                                                    \
    /* Each value added where its choice lies; choices outside of the plane have no place. */       \
    static __attribute__((unused)) void dj_place_plane_##S(const dj_pool *c, const T *value,        \
                                                           const int64_t *chosen, T *result) {      \
        const uint32_t width = (uint32_t)c->size[2], height = (uint32_t)c->size[1];                 \
        const int64_t taps = c->size[0] * c->size[1] * c->size[2];                                  \
        memset(result, 0, sizeof(T) * (size_t)(c->in[0] * c->in[1] * c->in[2]));                    \
        for (int64_t a = 0, i = 0; a < c->out[0]; a++)                                              \
            for (int64_t b = 0; b < c->out[1]; b++)                                                 \
                for (int64_t d = 0; d < c->out[2]; d++, i++) {                                      \
                    if (chosen[i] < 0 || chosen[i] >= taps) continue;                               \
                    const uint32_t tap = (uint32_t)chosen[i], rest = tap / width;                   \
                    const int64_t p = a * c->stride[0] - c->before[0] +                             \
                                      (int64_t)(rest / height) * c->dilation[0];                    \
                    const int64_t q = b * c->stride[1] - c->before[1] +                             \
                                      (int64_t)(rest % height) * c->dilation[1];                    \
                    const int64_t r = d * c->stride[2] - c->before[2] +                             \
                                      (int64_t)(tap - rest * width) * c->dilation[2];               \
                    if (p < 0 || p >= c->in[0] || q < 0 || q >= c->in[1] || r < 0 || r >= c->in[2]) \
                        continue;                                                                   \
                    result[(p * c->in[1] + q) * c->in[2] + r] += value[i];                          \
                }                                                                                   \
    }                                                                                               \
                                                                                                    \
    static __attribute__((unused)) void dj_place_windows_##S(                                       \
        const dj_pool *c, const T *value, const int64_t *chosen, T *result, int threads) {          \
        const int64_t wide = c->in[0] * c->in[1] * c->in[2];                                        \
        const int64_t narrow = c->out[0] * c->out[1] * c->out[2];                                   \
        const int team = dj_pool_team(c, threads);                                                  \
        _Pragma("omp parallel for schedule(static) num_threads(team)")                              \
        for (int64_t p = 0; p < c->planes; p++)                                                     \
            dj_place_plane_##S(c, value + p * narrow, chosen + p * narrow, result + p * wide);      \
    }
