/* Pools of generated C: windows are read where they lie.
 *
 * A vector of outputs whose windows lie inside stays in registers while it meets one element of the
 * windows after the other. Of other outputs, some rows at a time, what an element of the window is for
 * each of them is taken side by side, and the pass over them has no condition. All dims are three; pools
 * over fewer have leading ones. Planes are independent of each other, so the bits of a result do not
 * depend on the number of threads. Included where a graph has a pool.
 */

typedef struct {
    int64_t planes;
    int64_t in[3], out[3], size[3], stride[3], before[3], dilation[3];
} dj_pool;

enum {
    DJ_PIECE = 128,      /* outputs at once: their values and choices stay near */
    DJ_PIECE_LANES = 16, /* passes go over a multiple of it: vectors have no rest */
    DJ_FEW_OUTPUTS = 4,  /* up to which each of them is computed alone */
    DJ_FETCHED_BYTES = 1 << 14, /* of rows up to which they are fetched while others are computed */
};

/* Outputs at once: of `rows` rows from `row` on (over the first two dims) those from `from` on. All
 * of a row, or one row alone, so they lie side by side. */
typedef struct {
    int64_t row, rows, from, count;
} dj_piece;

#define DJ_POOL_WORK (1 << 17) /* elements of windows that are worth a team */

DJ_INLINE int dj_pool_team(const dj_pool *c, int threads) {
    int64_t work = c->planes * c->out[0] * c->out[1] * c->out[2];
    return work * c->size[0] * c->size[1] * c->size[2] >= DJ_POOL_WORK ? threads : 1;
}

/* The piece behind another one, or the first behind {0}; 0 if there is none. */
DJ_INLINE int dj_next_piece(const dj_pool *c, dj_piece *piece) {
    const int64_t width = c->out[2], height = c->out[0] * c->out[1];
    piece->from += piece->count;
    if (piece->from >= width) piece->row += piece->rows, piece->from = 0;
    if (piece->row >= height || width == 0) return 0;
    piece->rows = dj_min_index(dj_max_index(DJ_PIECE / width, 1), height - piece->row);
    piece->count = dj_min_index(DJ_PIECE, width - piece->from);
    return 1;
}

/* Outputs from *low to *high (within a piece) whose element `step` of the last dim lies inside. */
DJ_INLINE void dj_inside(const dj_pool *c, int64_t step, int64_t from, int64_t count, int64_t *low,
                         int64_t *high) {
    int64_t stride = c->stride[2], first = from * stride + step - c->before[2];
    *low = first < 0 ? dj_min_index((-first + stride - 1) / stride, count) : 0;
    int64_t left = c->in[2] - first;
    *high = left <= 0 ? *low : dj_max_index(*low, dj_min_index((left + stride - 1) / stride, count));
}

/* Outputs from *low to *high along a dim whose whole windows lie inside. */
DJ_INLINE void dj_whole_windows(const dj_pool *c, int dim, int64_t *low, int64_t *high) {
    const int64_t stride = c->stride[dim];
    const int64_t room = c->in[dim] + c->before[dim] - (c->size[dim] - 1) * c->dilation[dim];
    *low = dj_min_index((c->before[dim] + stride - 1) / stride, c->out[dim]);
    *high = room <= 0 ? *low : dj_min_index((room - 1) / stride + 1, c->out[dim]);
    *high = dj_max_index(*low, *high);
}

/* Elements of a window, `gap` apart, over a length; most windows have no gaps, and no division. */
DJ_INLINE int64_t dj_steps(int64_t length, int64_t gap) {
    return gap == 1 ? length : (length + gap - 1) / gap;
}

/* The first element along a dim of the window at `out` that lies inside: what is chosen where all
 * elements are -inf. */
DJ_INLINE int64_t dj_first_inside(const dj_pool *c, int dim, int64_t out) {
    const int64_t missing = c->before[dim] - out * c->stride[dim], gap = c->dilation[dim];
    return missing <= 0 ? 0 : dj_min_index(dj_steps(missing, gap), c->size[dim] - 1);
}

/* What is chosen before anything is known. */
DJ_INLINE void dj_first_choices(const dj_pool *c, const dj_piece *piece, int32_t *choice) {
    int64_t a = piece->row / c->out[1], b = piece->row % c->out[1];
    for (int64_t r = 0; r < piece->rows; r++, choice += piece->count) {
        const int64_t above = dj_first_inside(c, 0, a) * c->size[1] + dj_first_inside(c, 1, b);
        for (int64_t j = 0; j < piece->count; j++) choice[j] = (int32_t)(above * c->size[2]);
        for (int64_t j = 0;
             j < piece->count && (piece->from + j) * c->stride[2] < c->before[2]; j++)
            choice[j] += (int32_t)dj_first_inside(c, 2, piece->from + j);
        if (++b == c->out[1]) b = 0, a++;
    }
}

/* Where an element of a window lies, from the window's start on. */
DJ_INLINE int64_t dj_tap_place(const dj_pool *c, int64_t tap) {
    const int64_t line = tap / c->size[2], k0 = line / c->size[1], k1 = line % c->size[1];
    const int64_t rows = k0 * c->dilation[0] * c->in[1] + k1 * c->dilation[1];
    return rows * c->in[2] + tap % c->size[2] * c->dilation[2];
}

/* Whether the outputs of a row whose windows lie inside, so many, are computed a vector at a time. */
DJ_INLINE int dj_goes_by_rows(const dj_pool *c, int64_t count, int64_t element) {
    const int is_near = c->stride[2] == 1 || (c->stride[2] == 2 && c->size[2] > 1);
    return is_near && count * element >= DJ_VECTOR_BYTES &&
           c->size[0] * c->size[1] * c->size[2] <= DJ_PIECE;
}

/* Fetches the rows that the next piece reads: what wrote them may have bypassed the caches, and
 * passes over some rows are too short for the CPU to see where they lead. */
DJ_INLINE void dj_fetch_next(const dj_pool *c, const char *plane, const dj_piece *piece,
                             int64_t element) {
    const int64_t line = c->in[2] * element, next = piece->row + piece->rows;
    const int64_t first = next / c->out[1] * c->stride[0] * c->in[1] + next % c->out[1] * c->stride[1];
    const char *from = plane + first * line;
    const int64_t bytes = piece->rows * c->stride[1] * line;
    for (int64_t i = 0; i < bytes && bytes <= DJ_FETCHED_BYTES; i += 64) __builtin_prefetch(from + i);
}

/* Pools of elements T; names end with S, and I is an integer as wide. */
#define DJ_POOLS(T, S, I)                                                                           \
    /* The element (k0, k1, k2) of the window of each output; `outside` where there is none. */     \
    DJ_INLINE void dj_take_##S(const dj_pool *c, const T *plane, const dj_piece *piece, int64_t k0, \
                               int64_t k1, int64_t k2, T outside, T *taken) {                       \
        const int64_t stride = c->stride[2], count = piece->count;                                  \
        const int64_t step = k2 * c->dilation[2], shift = piece->from * stride + step - c->before[2]; \
        int64_t low, high, a = piece->row / c->out[1], b = piece->row % c->out[1];                  \
        dj_inside(c, step, piece->from, count, &low, &high);                                        \
        for (int64_t r = 0; r < piece->rows; r++, taken += count) {                                 \
            const int64_t p = a * c->stride[0] + k0 * c->dilation[0] - c->before[0];                \
            const int64_t q = b * c->stride[1] + k1 * c->dilation[1] - c->before[1];                \
            const int is_in = p >= 0 && p < c->in[0] && q >= 0 && q < c->in[1];                     \
            const int64_t start = is_in ? low : count, stop = is_in ? high : count;                 \
            const int64_t place = (p * c->in[1] + q) * c->in[2] + shift;                            \
            for (int64_t j = 0; j < start; j++) taken[j] = outside;                                 \
            if (stride == 1)                                                                        \
                for (int64_t j = start; j < stop; j++) taken[j] = plane[place + j];                 \
            else if (stride == 2)                                                                   \
                for (int64_t j = start; j < stop; j++) taken[j] = plane[place + 2 * j];             \
            else                                                                                    \
                for (int64_t j = start; j < stop; j++) taken[j] = plane[place + stride * j];        \
            for (int64_t j = stop; j < count; j++) taken[j] = outside;                              \
            if (++b == c->out[1]) b = 0, a++;                                                       \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    DJ_INLINE void dj_better_##S(const T *restrict taken, int64_t count, int32_t tap,               \
                                 T *restrict best, int32_t *restrict choice) {                      \
        for (int64_t j = 0; j < count; j++) {                                                       \
            const T v = taken[j], b = best[j];                                                      \
            const int is_better = !(v <= b) & (b == b); /* the first NaN wins */                    \
            best[j] = is_better ? v : b;                                                            \
            choice[j] = is_better ? tap : choice[j];                                                \
        }                                                                                           \
    }                                                                                               \
    DJ_INLINE void dj_more_##S(const T *restrict taken, int64_t count, T *restrict sum) {           \
        for (int64_t j = 0; j < count; j++) sum[j] += taken[j];                                     \
    }                                                                                               \
                                                                                                    \
    /* The output d of the row (a, b): *best is the maximum of what it held or, if `is_sum`, the sum. */ \
    DJ_INLINE void dj_alone_##S(const dj_pool *c, const T *plane, int64_t a, int64_t b, int64_t d,  \
                                int is_sum, T *best, int32_t *choice) {                             \
        const int64_t outs[3] = {a, b, d};                                                          \
        int64_t first[3], low[3], high[3];                                                          \
        for (int dim = 0; dim < 3; dim++) {                                                         \
            const int64_t gap = c->dilation[dim];                                                   \
            first[dim] = outs[dim] * c->stride[dim] - c->before[dim];                               \
            low[dim] = first[dim] < 0 ? dj_steps(-first[dim], gap) : 0;                             \
            high[dim] = dj_min_index(dj_steps(c->in[dim] - first[dim], gap), c->size[dim]);         \
        }                                                                                           \
        for (int64_t k0 = low[0]; k0 < high[0]; k0++)                                               \
            for (int64_t k1 = low[1]; k1 < high[1]; k1++) {                                         \
                const int64_t p = first[0] + k0 * c->dilation[0], q = first[1] + k1 * c->dilation[1]; \
                const T *x = plane + (p * c->in[1] + q) * c->in[2];                                 \
                const int64_t tap = (k0 * c->size[1] + k1) * c->size[2];                            \
                for (int64_t k2 = low[2]; k2 < high[2]; k2++) {                                     \
                    const int64_t r = first[2] + k2 * c->dilation[2];                               \
                    if (is_sum) *best += x[r];                                                      \
                    else dj_better_##S(x + r, 1, (int32_t)(tap + k2), best, choice);                \
                }                                                                                   \
            }                                                                                       \
    }                                                                                               \
                                                                                                    \
    /* Some outputs: `best` is the maximum or, if `is_sum`, the sum. */                             \
    DJ_INLINE void dj_window_##S(const dj_pool *c, const T *plane, const dj_piece *piece,           \
                                 int is_sum, T *best, int32_t *choice) {                            \
        T taken[DJ_PIECE];                                                                          \
        const T outside = is_sum ? 0 : -(T)INFINITY;                                                \
        const int64_t count = piece->rows * piece->count;                                           \
        const int64_t whole = (count + DJ_PIECE_LANES - 1) / DJ_PIECE_LANES * DJ_PIECE_LANES;       \
        for (int64_t j = 0; j < whole; j++) taken[j] = best[j] = outside, choice[j] = 0;            \
        if (!is_sum) dj_first_choices(c, piece, choice);                                            \
        for (int64_t j = 0; j < count && count <= DJ_FEW_OUTPUTS; j++) {                            \
            const int64_t row = piece->row + j / piece->count, d = piece->from + j % piece->count;  \
            dj_alone_##S(c, plane, row / c->out[1], row % c->out[1], d, is_sum, best + j, choice + j); \
        }                                                                                           \
        if (count <= DJ_FEW_OUTPUTS) return;                                                        \
        int32_t tap = 0;                                                                            \
        for (int64_t k0 = 0; k0 < c->size[0]; k0++)                                                 \
            for (int64_t k1 = 0; k1 < c->size[1]; k1++)                                             \
                for (int64_t k2 = 0; k2 < c->size[2]; k2++, tap++) {                                \
                    dj_take_##S(c, plane, piece, k0, k1, k2, outside, taken);                       \
                    if (is_sum) dj_more_##S(taken, whole, best);                                    \
                    else dj_better_##S(taken, whole, tap, best, choice);                            \
                }                                                                                   \
    }                                                                                               \
                                                                                                    \
    typedef T dj_pool_lanes_##S                                                                     \
        __attribute__((vector_size(DJ_VECTOR_BYTES), aligned(sizeof(T)), may_alias));               \
    typedef I dj_pool_masks_##S __attribute__((vector_size(DJ_VECTOR_BYTES)));                      \
                                                                                                    \
    /* `count` outputs of a row, a vector at least, whose windows lie inside and begin at `x`;      \
     * element k of a window lies at places[k]. What hangs over is computed twice. 0 if some        \
     * element is NaN: the first one is the maximum, and it is not looked for here. */              \
    DJ_INLINE int dj_inside_row_##S(const dj_pool *c, const T *x, const int64_t *places,            \
                                    int64_t count, int is_sum, T *value, int64_t *chosen) {         \
        enum { LANES = DJ_VECTOR_BYTES / sizeof(T), BOTH = 2 * LANES };                             \
        const int64_t taps = c->size[0] * c->size[1] * c->size[2], stride = c->stride[2];           \
        const dj_pool_masks_##S none = {0};                                                         \
        dj_pool_masks_##S odd = none;                                                               \
        for (int64_t j = 0; j < count; j += BOTH) {                                                 \
            const int64_t d0 = dj_min_index(j, count - LANES);                                      \
            const int64_t d1 = dj_min_index(j + LANES, count - LANES), far = (d1 - d0) * stride;    \
            dj_pool_lanes_##S v, w, best = {0}, next;                                               \
            dj_pool_masks_##S choice = none, other = none;                                          \
            best += is_sum ? 0 : -(T)INFINITY, next = best;                                         \
            int64_t k2 = 0;                                                                         \
            for (int64_t tap = 0; tap < taps; tap++) {                                              \
                const T *at = x + d0 * stride + places[tap];                                        \
                if (stride == 1) {                                                                  \
                    v = *(const dj_pool_lanes_##S *)at;                                             \
                    w = *(const dj_pool_lanes_##S *)(at + far);                                     \
                } else if (k2) {                                                                    \
                    v = DJ_EVERY_SECOND(dj_pool_lanes_##S, at - 1, 1);                              \
                    w = DJ_EVERY_SECOND(dj_pool_lanes_##S, at + far - 1, 1);                        \
                } else {                                                                            \
                    v = DJ_EVERY_SECOND(dj_pool_lanes_##S, at, 0);                                  \
                    w = DJ_EVERY_SECOND(dj_pool_lanes_##S, at + far, 0);                            \
                }                                                                                   \
                k2 = k2 + 1 == c->size[2] ? 0 : k2 + 1;                                             \
                if (is_sum) {                                                                       \
                    best += v, next += w;                                                           \
                    continue;                                                                       \
                }                                                                                   \
                const dj_pool_masks_##S is_more = v > best, is_next = w > next;                     \
                best = (dj_pool_lanes_##S)(((dj_pool_masks_##S)v & is_more) |                       \
                                           ((dj_pool_masks_##S)best & ~is_more));                   \
                next = (dj_pool_lanes_##S)(((dj_pool_masks_##S)w & is_next) |                       \
                                           ((dj_pool_masks_##S)next & ~is_next));                   \
                odd |= (v != v) | (w != w);                                                         \
                if (!chosen) continue;                                                              \
                choice = (is_more & (none + (I)tap)) | (choice & ~is_more);                         \
                other = (is_next & (none + (I)tap)) | (other & ~is_next);                           \
            }                                                                                       \
            if (value) {                                                                            \
                *(dj_pool_lanes_##S *)(value + d0) = best;                                          \
                *(dj_pool_lanes_##S *)(value + d1) = next;                                          \
            }                                                                                       \
            for (int l = 0; chosen && l < LANES; l++) chosen[d0 + l] = choice[l];                   \
            for (int l = 0; chosen && l < LANES; l++) chosen[d1 + l] = other[l];                    \
        }                                                                                           \
        I found = 0;                                                                                \
        for (int l = 0; l < LANES; l++) found |= odd[l];                                            \
        return !found;                                                                              \
    }                                                                                               \
    static DJ_ONCE int dj_inside_sums_##S(const dj_pool *c, const T *x, const int64_t *places,      \
                                          int64_t count, T *value) {                                \
        return dj_inside_row_##S(c, x, places, count, 1, value, NULL);                              \
    }                                                                                               \
    static DJ_ONCE int dj_inside_maxima_##S(const dj_pool *c, const T *x, const int64_t *places,    \
                                            int64_t count, T *value) {                              \
        return dj_inside_row_##S(c, x, places, count, 0, value, NULL);                              \
    }                                                                                               \
    static DJ_ONCE int dj_inside_choices_##S(const dj_pool *c, const T *x, const int64_t *places,   \
                                             int64_t count, T *value, int64_t *chosen) {            \
        return dj_inside_row_##S(c, x, places, count, 0, value, chosen);                            \
    }                                                                                               \
                                                                                                    \
    /* The outputs of a piece, to where the results of the plane begin. */                          \
    DJ_INLINE void dj_piece_##S(const dj_pool *c, const T *x, const dj_piece *piece, int is_sum,    \
                                T *value, int64_t *chosen) {                                        \
        T best[DJ_PIECE];                                                                           \
        int32_t choice[DJ_PIECE];                                                                   \
        const int64_t count = piece->rows * piece->count;                                           \
        const int64_t place = piece->row * c->out[2] + piece->from;                                 \
        dj_window_##S(c, x, piece, is_sum, best, choice);                                           \
        if (value) memcpy(value + place, best, (size_t)count * sizeof(T));                          \
        for (int64_t j = 0; chosen && j < count; j++) chosen[place + j] = choice[j];                \
    }                                                                                               \
    static DJ_ONCE void dj_max_piece_##S(const dj_pool *c, const T *x, const dj_piece *piece,       \
                                         T *value, int64_t *chosen) {                               \
        dj_piece_##S(c, x, piece, 0, value, chosen);                                                \
    }                                                                                               \
    static DJ_ONCE void dj_sum_piece_##S(const dj_pool *c, const T *x, const dj_piece *piece,       \
                                         T *value) {                                                \
        dj_piece_##S(c, x, piece, 1, value, NULL);                                                  \
    }                                                                                               \
    /* The outputs of a row from `from` on, up to `to`. */                                          \
    DJ_INLINE void dj_some_outputs_##S(const dj_pool *c, const T *x, int64_t row, int64_t from,     \
                                       int64_t to, int is_sum, T *value, int64_t *chosen) {         \
        for (; from < to; from += DJ_PIECE) {                                                       \
            const dj_piece piece = {row, 1, from, dj_min_index(to - from, DJ_PIECE)};               \
            if (is_sum) dj_sum_piece_##S(c, x, &piece, value);                                      \
            else dj_max_piece_##S(c, x, &piece, value, chosen);                                     \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    /* One plane; either result may be left out. */                                                 \
    DJ_INLINE void dj_pool_plane_##S(const dj_pool *c, const T *x, int is_sum, T *value,            \
                                int64_t *chosen) {                                                  \
        const int64_t taps = c->size[0] * c->size[1] * c->size[2], width = c->out[2];               \
        int64_t low[3], high[3], places[DJ_PIECE];                                                  \
        for (int dim = 0; dim < 3; dim++) dj_whole_windows(c, dim, &low[dim], &high[dim]);          \
        const int64_t count = high[2] - low[2];                                                     \
        if (!dj_goes_by_rows(c, count, sizeof(T))) {                                                \
            for (dj_piece piece = {0}; dj_next_piece(c, &piece);) {                                 \
                dj_fetch_next(c, (const char *)x, &piece, sizeof(T));                               \
                if (is_sum) dj_sum_piece_##S(c, x, &piece, value);                                  \
                else dj_max_piece_##S(c, x, &piece, value, chosen);                                 \
            }                                                                                       \
            return;                                                                                 \
        }                                                                                           \
        for (int64_t tap = 0; tap < taps; tap++) places[tap] = dj_tap_place(c, tap);                \
        for (int64_t a = 0, row = 0; a < c->out[0]; a++)                                            \
            for (int64_t b = 0; b < c->out[1]; b++, row++) {                                        \
                const int64_t p = a * c->stride[0] - c->before[0];                                  \
                const int64_t q = b * c->stride[1] - c->before[1], line = c->in[2] * sizeof(T);     \
                const T *from = x + (p * c->in[1] + q) * c->in[2] + low[2] * c->stride[2] -         \
                                c->before[2];                                                       \
                const int64_t place = row * width + low[2];                                         \
                const int64_t ahead = c->stride[1] * line <= DJ_FETCHED_BYTES ? c->stride[1] * line : 0; \
                for (int64_t i = 0; i < ahead; i += 64)                                             \
                    __builtin_prefetch((const char *)from + c->size[1] * line + i);                 \
                T *to = value ? value + place : NULL;                                               \
                int is_done = a >= low[0] && a < high[0] && b >= low[1] && b < high[1];             \
                if (is_done)                                                                        \
                    is_done = is_sum ? dj_inside_sums_##S(c, from, places, count, to)               \
                              : chosen                                                              \
                                  ? dj_inside_choices_##S(c, from, places, count, to, chosen + place) \
                                  : dj_inside_maxima_##S(c, from, places, count, to);               \
                dj_some_outputs_##S(c, x, row, 0, is_done ? low[2] : width, is_sum, value, chosen); \
                if (is_done)                                                                        \
                    dj_some_outputs_##S(c, x, row, high[2], width, is_sum, value, chosen);          \
            }                                                                                       \
    }                                                                                               \
                                                                                                    \
    static __attribute__((unused)) void dj_max_plane_##S(const dj_pool *c, const T *x, T *value,    \
                                                         int64_t *chosen) {                         \
        dj_pool_plane_##S(c, x, 0, value, chosen);                                                  \
    }                                                                                               \
    static __attribute__((unused)) void dj_sum_plane_##S(const dj_pool *c, const T *x, T *value) {  \
        dj_pool_plane_##S(c, x, 1, value, NULL);                                                    \
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
    /* The values of the outputs from `from` to `to` of a row, whose choices may lie outside. */    \
    DJ_INLINE void dj_place_some_##S(const dj_pool *c, int64_t a, int64_t b, int64_t from,          \
                                     int64_t to, const T *value, const int64_t *chosen,             \
                                     T *result) {                                                   \
        const int64_t taps = c->size[0] * c->size[1] * c->size[2];                                  \
        for (int64_t d = from; d < to; d++) {                                                       \
            if (chosen[d] < 0 || chosen[d] >= taps) continue;                                       \
            const int64_t line = chosen[d] / c->size[2], k2 = chosen[d] % c->size[2];               \
            const int64_t k0 = line / c->size[1], k1 = line % c->size[1];                           \
            const int64_t p = a * c->stride[0] - c->before[0] + k0 * c->dilation[0];                \
            const int64_t q = b * c->stride[1] - c->before[1] + k1 * c->dilation[1];                \
            const int64_t r = d * c->stride[2] - c->before[2] + k2 * c->dilation[2];                \
            if (p < 0 || p >= c->in[0] || q < 0 || q >= c->in[1] || r < 0 || r >= c->in[2])         \
                continue;                                                                           \
            result[(p * c->in[1] + q) * c->in[2] + r] += value[d];                                  \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    /* Each value added where its choice lies; choices outside of the plane have no place. */       \
    static __attribute__((unused)) void dj_place_plane_##S(const dj_pool *c, const T *value,        \
                                                           const int64_t *chosen, T *result) {      \
        const int64_t taps = c->size[0] * c->size[1] * c->size[2], width = c->out[2];               \
        const int has_places = taps <= DJ_PIECE;                                                    \
        int64_t low[3], high[3], places[DJ_PIECE];                                                  \
        memset(result, 0, sizeof(T) * (size_t)(c->in[0] * c->in[1] * c->in[2]));                    \
        for (int64_t tap = 0; has_places && tap < taps; tap++) places[tap] = dj_tap_place(c, tap);  \
        for (int dim = 0; dim < 3; dim++) dj_whole_windows(c, dim, &low[dim], &high[dim]);          \
        for (int64_t a = 0; a < c->out[0]; a++)                                                     \
            for (int64_t b = 0; b < c->out[1]; b++, value += width, chosen += width) {              \
                const int64_t p = a * c->stride[0] - c->before[0];                                  \
                const int64_t q = b * c->stride[1] - c->before[1];                                  \
                const int64_t start = (p * c->in[1] + q) * c->in[2] - c->before[2];                 \
                const int is_whole =                                                                \
                    has_places && a >= low[0] && a < high[0] && b >= low[1] && b < high[1];         \
                const int64_t from = is_whole ? low[2] : width, to = is_whole ? high[2] : width;    \
                dj_place_some_##S(c, a, b, 0, from, value, chosen, result);                         \
                for (int64_t d = from; d < to; d++)                                                 \
                    if ((uint64_t)chosen[d] < (uint64_t)taps)                                       \
                        result[start + d * c->stride[2] + places[chosen[d]]] += value[d];           \
                dj_place_some_##S(c, a, b, to, width, value, chosen, result);                       \
            }                                                                                       \
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
