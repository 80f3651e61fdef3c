/* Sums of convolutions of one dtype; included once per dtype after convolution.h, with T and
 * DJ_OF(name), the name for that dtype.
 *
 * A task takes pixels of some images, pads their rows into a slab (so that no tap needs a condition),
 * and gathers what taps meet into panels: DJ_PANEL pixels side by side, one line per product of their
 * sums. A tile keeps DJ_TALL channels of a panel's sums in registers: vectors of pixels times one
 * weight each, so that results lie as they are stored. Gradients of weights are the same with pixels
 * and products exchanged: vectors of outputs times one element of a panel each.
 *
 * The scheme is that of products of matrices: K. Goto, R. van de Geijn, "Anatomy of High-Performance
 * Matrix Multiplication", ACM TOMS 34(3), 2008.
 */

#define DJ_LANES (DJ_VECTOR_BYTES / (int)sizeof(T))
#define DJ_PANEL (DJ_ACROSS * DJ_LANES)

#if !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast") /* a product and its sum round once where the CPU can */
#endif

typedef T DJ_OF(dj_lanes)
    __attribute__((vector_size(DJ_VECTOR_BYTES), aligned(sizeof(T)), may_alias));

#define DJ_EACH(r, R, v, V)                                                                         \
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)                                             \
        _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)
#define DJ_PITCH (DJ_PANEL + DJ_LANES) /* of the lines of a panel, see dj_gather */
#define DJ_VECTOR_AT(p, r, v) (*(DJ_OF(dj_lanes) *)((p) + r * DJ_PANEL + v * DJ_LANES))

/* out[r][pixel] = start[r][pixel] + sum over k of weights[k][r] * x[steps[k] + pixel], plus
 * add[r][pixel]; start and add may be NULL. Pixels of the second vector are read from x1 on. */
#define DJ_TILE(R, V)                                                                               \
    static DJ_ONCE void DJ_OF(dj_tile_##R##_##V)(const T *x0, const T *x1, const int64_t *steps,    \
                                                 const T *weights, int64_t count, const T *start,   \
                                                 const T *add, T *out) {                            \
        DJ_CONTRACT                                                                                 \
        DJ_OF(dj_lanes) sum[R][V], x[V];                                                            \
        DJ_EACH(r, R, v, V) sum[r][v] = (DJ_OF(dj_lanes)){0};                                       \
        if (start) DJ_EACH(r, R, v, V) sum[r][v] = DJ_VECTOR_AT(start, r, v);                       \
        for (int64_t k = 0; k < count; k++, weights += R) {                                         \
            DJ_EACH(r, 1, v, V) x[v] = DJ_VECTOR_AT((v ? x1 : x0) + steps[k], 0, 0);                \
            DJ_EACH(r, R, v, V) sum[r][v] += weights[r] * x[v];                                     \
        }                                                                                           \
        if (add) DJ_EACH(r, R, v, V) sum[r][v] += DJ_VECTOR_AT(add, r, v);                          \
        DJ_EACH(r, R, v, V) DJ_VECTOR_AT(out, r, v) = sum[r][v];                                    \
    }
DJ_TILE(2, 1) DJ_TILE(4, 1) DJ_TILE(6, 1) DJ_TILE(2, 2) DJ_TILE(4, 2) DJ_TILE(6, 2)
#if DJ_TALL == 8
DJ_TILE(8, 1) DJ_TILE(8, 2)
#endif
typedef void DJ_OF(dj_tile)(const T *, const T *, const int64_t *, const T *, int64_t, const T *,
                            const T *, T *);

/* One of these, for an even number of rows and some pixels of a panel. */
DJ_INLINE DJ_OF(dj_tile) *DJ_OF(dj_tile_of)(int64_t rows, int is_half) {
    static DJ_OF(dj_tile) *const tiles[2][4] = {
        {DJ_OF(dj_tile_2_2), DJ_OF(dj_tile_4_2), DJ_OF(dj_tile_6_2)},
        {DJ_OF(dj_tile_2_1), DJ_OF(dj_tile_4_1), DJ_OF(dj_tile_6_1)},
    };
#if DJ_TALL == 8
    if (rows == 8) return is_half ? DJ_OF(dj_tile_8_1) : DJ_OF(dj_tile_8_2);
#endif
    return tiles[is_half][rows / 2 - 1];
}

/* The same with weights where they lie: step k has, for row r, weights[places[k] + r * pitch]. */
#define DJ_OPEN_TILE(V)                                                                             \
    static DJ_ONCE void DJ_OF(dj_open_tile_##V)(                                                    \
        const T *x0, const T *x1, const int64_t *steps, const T *weights, const int64_t *places,    \
        int64_t pitch, int64_t count, const T *start, const T *add, T *out) {                       \
        enum { R = DJ_TALL };                                                                       \
        DJ_CONTRACT                                                                                 \
        DJ_OF(dj_lanes) sum[R][V], x[V];                                                            \
        DJ_EACH(r, R, v, V) sum[r][v] = (DJ_OF(dj_lanes)){0};                                       \
        if (start) DJ_EACH(r, R, v, V) sum[r][v] = DJ_VECTOR_AT(start, r, v);                       \
        for (int64_t k = 0; k < count; k++) {                                                       \
            const T *at = weights + places[k];                                                      \
            DJ_EACH(r, 1, v, V) x[v] = DJ_VECTOR_AT((v ? x1 : x0) + steps[k], 0, 0);                \
            DJ_EACH(r, R, v, V) sum[r][v] += at[r * pitch] * x[v];                                  \
        }                                                                                           \
        if (add) DJ_EACH(r, R, v, V) sum[r][v] += DJ_VECTOR_AT(add, r, v);                          \
        DJ_EACH(r, R, v, V) DJ_VECTOR_AT(out, r, v) = sum[r][v];                                    \
    }
DJ_OPEN_TILE(1) DJ_OPEN_TILE(2)

/* out[r][output] += sum over pixels of x[r][pixel] * y[pixel][output]. */
#define DJ_GRADIENT_TILE(V)                                                                         \
    static DJ_ONCE void DJ_OF(dj_gradient_tile_##V)(const T *x, const T *y, int64_t pixels,         \
                                                    T *out) {                                       \
        enum { R = DJ_GRADIENT_TALL };                                                              \
        DJ_CONTRACT                                                                                 \
        DJ_OF(dj_lanes) sum[R][V], line[V];                                                         \
        DJ_EACH(r, R, v, V) sum[r][v] = DJ_VECTOR_AT(out, r, v);                                    \
        for (int64_t q = 0; q < pixels; q++, x++, y += DJ_PANEL) {                                  \
            DJ_EACH(r, 1, v, V) line[v] = DJ_VECTOR_AT(y, r, v);                                    \
            DJ_EACH(r, R, v, V) sum[r][v] += x[r * DJ_GRADIENT_PITCH] * line[v];                    \
        }                                                                                           \
        DJ_EACH(r, R, v, V) DJ_VECTOR_AT(out, r, v) = sum[r][v];                                    \
    }
DJ_GRADIENT_TILE(1) DJ_GRADIENT_TILE(2)

/* The same where rows are long: x[r] of a run's pixel is what it meets in the slab at steps[r]. */
#define DJ_GRADIENT_RUNS(V)                                                                         \
    static DJ_ONCE void DJ_OF(dj_gradient_runs_##V)(const T *slab, const int64_t *steps,            \
                                                    const dj_run *runs, int64_t n, const T *y,      \
                                                    T *out) {                                       \
        enum { R = DJ_GRADIENT_TALL };                                                              \
        DJ_CONTRACT                                                                                 \
        DJ_OF(dj_lanes) sum[R][V], line[V];                                                         \
        int64_t at[R];                                                                              \
        DJ_EACH(r, R, v, 1) at[r] = steps[r];                                                       \
        DJ_EACH(r, R, v, V) sum[r][v] = DJ_VECTOR_AT(out, r, v);                                    \
        for (int64_t i = 0; i < n; i++) {                                                           \
            const T *x = slab + runs[i].from, *end = x + runs[i].count;                             \
            for (; x < end; x++, y += DJ_PANEL) {                                                   \
                DJ_EACH(r, 1, v, V) line[v] = DJ_VECTOR_AT(y, r, v);                                \
                DJ_EACH(r, R, v, V) sum[r][v] += x[at[r]] * line[v];                                \
            }                                                                                       \
        }                                                                                           \
        DJ_EACH(r, R, v, V) DJ_VECTOR_AT(out, r, v) = sum[r][v];                                    \
    }
DJ_GRADIENT_RUNS(1) DJ_GRADIENT_RUNS(2)

/* sum[j] = start + sum over k of weights[k pitch] * source[steps[k] + j] for `length` pixels of a row;
 * that goes on for DJ_BESIDE pixels. */
static DJ_ONCE void DJ_OF(dj_row)(const T *source, const int64_t *steps, const T *weights,
                                  int64_t pitch, int64_t count, T start, T *sum, int64_t length) {
    DJ_CONTRACT
    enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T) };
    typedef T lanes __attribute__((vector_size(DJ_BLOCK_BYTES), aligned(sizeof(T)), may_alias));
    for (int64_t j = 0; j < length; j += 2 * BLOCK) {
        const T *x = source + j;
        lanes a = {0}, b;
        a += start, b = a;
        for (int64_t k = 0; k < count; k++) {
            const T w = weights[k * pitch];
            a += w * *(const lanes *)(x + steps[k]);
            b += w * *(const lanes *)(x + steps[k] + BLOCK);
        }
        *(lanes *)(sum + j) = a, *(lanes *)(sum + j + BLOCK) = b;
    }
}

#if !defined(__clang__)
#pragma GCC pop_options
#endif

/* Columns `phase`, `phase` + phases, ... of a row with zeros around it. */
DJ_INLINE void DJ_OF(dj_pad_row)(const dj_walk *w, const T *row, int64_t phase, T *to) {
    const int64_t step = w->phases, front = w->lead[2] - phase;
    const int64_t low = front > 0 ? dj_min_index(dj_quotient_up(front, step), w->phase) : 0;
    const int64_t rest = w->source[2] + front;
    const int64_t high = rest > 0 ? dj_min_index(dj_quotient_up(rest, step), w->phase) : low;
    for (int64_t l = 0; l < low; l++) to[l] = 0;
    if (step == 1) {
        if (high > low) memcpy(to + low, row + low - front, sizeof(T) * (size_t)(high - low));
    } else {
        int64_t l = low;
        for (; step == 2 && 2 * (l + DJ_LANES) - front <= w->source[2] && l + DJ_LANES <= high;
             l += DJ_LANES)
            *(DJ_OF(dj_lanes) *)(to + l) = DJ_EVERY_SECOND(DJ_OF(dj_lanes), row + 2 * l - front, 0);
        const int64_t end = high - DJ_LANES; /* of the last vector, which meets the one before */
        if (step == 2 && end >= low && 2 * end > front && l < high) {
            *(DJ_OF(dj_lanes) *)(to + end) = DJ_EVERY_SECOND(DJ_OF(dj_lanes), row + 2 * end - front - 1, 1);
            l = high;
        }
        for (; l < high; l++) to[l] = row[l * step - front];
    }
    for (int64_t l = dj_max_index(low, high); l < w->phase; l++) to[l] = 0;
}

/* Rows from `from` on of some channels with zeros around them. */
static __attribute__((unused)) void DJ_OF(dj_pad)(const dj_walk *w, const T *source,
                                                  int64_t channels, int64_t from, T *slab) {
    const int64_t area = w->source[1] * w->source[2];
    for (int64_t c = 0; c < channels; c++, source += w->source[0] * area)
        for (int64_t i = 0; i < w->plane[0]; i++) {
            const int64_t a = from + i - w->lead[0];
            const int is_in = a >= 0 && a < w->source[0];
            for (int64_t j = 0; j < w->plane[1]; j++, slab += w->plane[2]) {
                const int64_t b = j - w->lead[1];
                if (!is_in || b < 0 || b >= w->source[1]) {
                    memset(slab, 0, sizeof(T) * (size_t)w->plane[2]);
                    continue;
                }
                const T *row = source + a * area + b * w->source[2];
                for (int64_t k = 0; k < w->source[2]; k += 64 / (int64_t)sizeof(T))
                    __builtin_prefetch(row + w->source[0] * area + k);
                for (int64_t p = 0; p < w->phases; p++)
                    DJ_OF(dj_pad_row)(w, row, p, slab + p * w->phase);
            }
        }
}

/* Line k of a panel, `pitch` elements long: what the pixels of some runs meet at steps[k]. Up to a
 * vector behind the last pixel is written, and DJ_BESIDE elements behind the slab are read. */
static DJ_ONCE void DJ_OF(dj_gather)(const T *slab, const int64_t *steps, int64_t count,
                                     const dj_run *runs, int64_t n, int64_t pitch, T *panel) {
    typedef DJ_OF(dj_lanes) lanes;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < runs[i].count; j += DJ_LANES) {
            const T *from = slab + runs[i].from + j;
            T *to = panel + runs[i].at + j;
            for (int64_t k = 0; k < count; k++, to += pitch)
                *(lanes *)to = *(const lanes *)(from + steps[k]);
        }
}

/* What the tasks of a convolution share. Before them, `packs` tasks bring the weights in order, and
 * pad the slabs that tasks share: those of other channels of the same pixels. */
typedef struct {
    dj_convolution c;
    dj_walk w;
    int64_t classes, results, sources; /* channels of a group */
    int64_t tiles, padded;             /* of results, and their rows */
    int64_t images, chunks, cuts, cut_tiles, panels, step, packs, tasks;
    int64_t packed, pads; /* packs of weights; and of each slab that tasks share */
    int64_t *starts; /* first tap of each class */
    int64_t *steps; /* per class: (source channel, tap) */
    int64_t *numbers; /* of taps, in the order of the classes */
    T *weights; /* per class: (group, tile, step, channel) */
    const T *source, *weight, *bias;
    T *result;
    int64_t *lines; /* steps of what was gathered */
    int64_t *places; /* of a step in a row of weights; NULL: they are packed */
    int is_back, is_narrow, is_near, team; /* is_near: tiles read slabs, nothing is gathered, */
    int is_through; /* and go through what stands between the pixels of two rows */
    int64_t slab, panel, block, room; /* bytes; room: of a thread, from `own` on */
    char *memory, *own, *shared; /* memory is to be freed; shared: slabs, NULL: each task pads its own */
} DJ_OF(dj_correlation);

DJ_INLINE dj_chunk DJ_OF(dj_chunk_of)(const DJ_OF(dj_correlation) *all, int64_t number) {
    const dj_walk *w = &all->w;
    const int64_t image = number / w->slabs * all->images, first = number % w->slabs * w->rows;
    return (dj_chunk){image, dj_min_index(all->images, all->c.batch - image), first,
                      dj_min_index(first + w->rows, w->result[0])};
}

/* Some channels of a group in the slabs of a chunk's images. */
static __attribute__((unused)) void DJ_OF(dj_pad_chunk)(const DJ_OF(dj_correlation) *all,
                                                        dj_chunk chunk, int64_t group,
                                                        int64_t channel, int64_t count, T *slab) {
    const int64_t volume = dj_volume(all->w.source), plane = dj_volume(all->w.plane);
    for (int64_t i = 0; i < chunk.images; i++) {
        const int64_t lane = (chunk.image + i) * all->c.groups + group;
        DJ_OF(dj_pad)(&all->w, all->source + (lane * all->sources + channel) * volume, count,
                      dj_base(&all->w, 0, chunk.first),
                      slab + (i * all->sources + channel) * plane);
    }
}

/* Rows of a tile of results: even, DJ_TALL but for the last one. */
DJ_INLINE int64_t DJ_OF(dj_rows)(const DJ_OF(dj_correlation) *all, int64_t tile) {
    return dj_min_index(DJ_TALL, all->padded - tile * DJ_TALL);
}

/* One tile's weights in the order in which it reads them; zeros beside the last channel. */
static __attribute__((unused)) void DJ_OF(dj_pack_weights)(const DJ_OF(dj_correlation) *all,
                                                           int64_t task) {
    const int64_t taps = all->w.taps, step = all->is_back ? all->results * taps : taps;
    const int64_t across = all->is_back ? taps : all->sources * taps, groups = all->c.groups;
    const int64_t group = task / all->tiles, tile = task % all->tiles, first = tile * DJ_TALL;
    const int64_t rows = DJ_OF(dj_rows)(all, tile);
    const int64_t used = dj_min_index(rows, all->results - first);
    const T *from = all->weight + group * all->results * all->sources * taps + first * across;
    for (int64_t class = 0; class < all->classes; class++) {
        const int64_t start = all->starts[class], count = all->starts[class + 1] - start;
        const int64_t depth = count * all->sources;
        T *to = all->weights + start * all->sources * groups * all->padded +
                (group * all->padded + first) * depth;
        for (int64_t channel = 0; channel < all->sources; channel += DJ_TOGETHER) {
            const int64_t together = dj_min_index(DJ_TOGETHER, all->sources - channel);
            for (int64_t i = 0; i < count; i++) {
                const T *at = from + channel * step + all->numbers[start + i];
                for (int64_t j = 0; j < together; j++, at += step, to += rows) {
                    for (int64_t r = 0; r < used; r++) to[r] = at[r * across];
                    for (int64_t r = used; r < rows; r++) to[r] = 0;
                }
            }
        }
    }
}

static __attribute__((unused)) void DJ_OF(dj_pack_task)(const DJ_OF(dj_correlation) *all,
                                                        int64_t task) {
    if (task < all->packed) {
        DJ_OF(dj_pack_weights)(all, task);
        return;
    }
    const int64_t number = (task - all->packed) / all->pads;
    const int64_t channel = (task - all->packed) % all->pads * DJ_PADDED;
    DJ_OF(dj_pad_chunk)(all, DJ_OF(dj_chunk_of)(all, number / all->c.groups), number % all->c.groups,
                        channel, dj_min_index(DJ_PADDED, all->sources - channel),
                        (T *)(all->shared + number * all->slab));
}

/* The sums of a tile to the planes of the result, where pixels of a run lie `step` apart. */
static __attribute__((unused)) void DJ_OF(dj_put_pixels)(T *sums, int64_t channels,
                                                         const dj_run *runs, int64_t n,
                                                         int64_t step, int is_rectified, T *result,
                                                         int64_t plane) {
    typedef DJ_OF(dj_lanes) lanes;
    int64_t pixels = runs[0].count;
    int is_dense = step == 1;
    for (int64_t i = 1; i < n; pixels += runs[i++].count)
        is_dense &= runs[i].place == runs[i - 1].place + runs[i - 1].count && runs[i].at == pixels;
    for (int64_t o = 0; o < channels; o++) {
        T *row = sums + o * DJ_PANEL, *to = result + o * plane;
        if (is_rectified)
            for (int64_t q = 0; q < DJ_PANEL; q++) row[q] = row[q] <= 0 ? 0 : row[q];
        if (is_dense) {
            int64_t q = 0;
            for (; q + DJ_LANES <= pixels; q += DJ_LANES)
                *(lanes *)(to + runs[0].place + q) = *(const lanes *)(row + q);
            for (; q < pixels; q++) to[runs[0].place + q] = row[q];
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            T *at = to + runs[i].place;
            const T *from = row + runs[i].at;
            int64_t q = 0;
            for (; step == 1 && q + DJ_LANES <= runs[i].count; q += DJ_LANES)
                *(lanes *)(at + q) = *(const lanes *)(from + q);
            for (; q < runs[i].count; q++) at[q * step] = from[q];
        }
    }
}

/* Some tiles of results for the pixels of some images, whose slabs lie one behind the other. */
static __attribute__((unused)) void DJ_OF(dj_wide)(
    const DJ_OF(dj_correlation) *all, int64_t class, int64_t group, int64_t image, int64_t images,
    int64_t first, int64_t end, int64_t tile, int64_t last_tile, const T *slab, char *own) {
    const dj_walk *w = &all->w;
    const dj_pixels pixels = dj_pixels_of(w, class, first, end);
    const int64_t plane = dj_volume(w->result), each = dj_volume(pixels.count);
    const int64_t vectors = dj_quotient_up(pixels.count[2], DJ_LANES) * DJ_LANES;
    const int64_t width = all->is_through ? w->plane[2] : all->is_near ? vectors : pixels.count[2];
    const int64_t longest = all->is_near && !all->is_through ? DJ_LANES : width;
    const int64_t behind = all->is_through ? width - pixels.count[2] : 0; /* the last row */
    const int64_t total = each ? images * pixels.count[0] * pixels.count[1] * width - behind : 0;
    const int64_t taps = all->starts[class + 1] - all->starts[class], depth = taps * all->sources;
    const int64_t *steps = all->steps + all->starts[class] * all->sources;
    const T *weights = all->weights +
                       all->starts[class] * all->sources * all->c.groups * all->padded +
                       group * all->padded * depth;
    const T *open = all->weight + group * all->results * depth; /* where nothing is packed */
    const int64_t span = dj_span(depth, taps), channel = tile * DJ_TALL;
    const int64_t channels = dj_min_index(last_tile * DJ_TALL, all->results) - channel;
    const int64_t blocks = dj_max_index(dj_quotient_up(total, all->panels * DJ_PANEL), 1);
    const int64_t step = dj_quotient_up(dj_quotient_up(total, blocks), DJ_PANEL) * DJ_PANEL;
    const T *bias = all->bias;
    T *panel = (T *)own, *block = (T *)(own + all->panel);
    T *part = (T *)((char *)block + all->block);
    dj_run runs[DJ_PANELS][DJ_PANEL];
    int64_t counts[DJ_PANELS];
    for (int64_t from = 0; from < total; from += step) {
        const int64_t count = dj_min_index(step, total - from);
        const int64_t panels = dj_quotient_up(count, DJ_PANEL);
        for (int64_t p = 0; p < panels; p++)
            counts[p] = dj_runs(w, &pixels, first, all->sources * dj_volume(w->plane),
                                all->c.groups * all->results * plane, width, longest,
                                from + p * DJ_PANEL,
                                dj_min_index(DJ_PANEL, count - p * DJ_PANEL), runs[p]);
        for (int64_t i = 0; (bias || !depth) && i < (last_tile - tile) * panels * DJ_TALL; i++) {
            const int64_t o = channel + i / DJ_TALL / panels * DJ_TALL + i % DJ_TALL;
            const T value = bias && o < all->results ? bias[group * all->results + o] : 0;
            for (int64_t q = 0; q < DJ_PANEL; q++) block[i * DJ_PANEL + q] = value;
        }
        for (int64_t start = 0; start < depth; start += span) {
            const int64_t stop = dj_min_index(start + span, depth);
            const int is_added = DJ_APART && (start || bias);
            for (int64_t k = start; k < stop; k += all->step) {
                const int64_t n = dj_min_index(all->step, stop - k);
                const int is_begun = k > start || (!is_added && bias), is_last = k + n == stop;
                for (int64_t p = 0; p < panels; p++) {
                    const int is_half = count - p * DJ_PANEL <= DJ_LANES;
                    const T *x0 = panel, *x1 = panel + DJ_LANES;
                    if (all->is_through)
                        x0 = slab + runs[p][0].from, x1 = x0 + DJ_LANES;
                    else if (all->is_near)
                        x0 = slab + runs[p][0].from, x1 = slab + runs[p][counts[p] - 1].from;
                    else
                        DJ_OF(dj_gather)(slab, steps + k, n, runs[p], counts[p], DJ_PITCH, panel);
                    const int64_t *met = all->is_near ? steps + k : all->lines;
                    for (int64_t t = tile; t < last_tile; t++) {
                        const int64_t at = ((t - tile) * panels + p) * DJ_TALL * DJ_PANEL;
                        const int64_t rows = DJ_OF(dj_rows)(all, t);
                        T *sum = (is_added ? part : block) + at;
                        const T *begun = is_begun ? sum : NULL;
                        const T *added = is_added && is_last ? block + at : NULL;
                        T *to = is_last ? block + at : sum;
                        if (all->places)
                            (is_half ? DJ_OF(dj_open_tile_1) : DJ_OF(dj_open_tile_2))(
                                x0, x1, met, open + t * DJ_TALL * depth, all->places + k, depth, n,
                                begun, added, to);
                        else
                            DJ_OF(dj_tile_of)(rows, is_half)(
                                x0, x1, met, weights + t * DJ_TALL * depth + k * rows, n, begun,
                                added, to);
                    }
                }
            }
        }
        T *result = all->result +
                    ((image * all->c.groups + group) * all->results + channel) * plane;
        for (int64_t o = 0; o < channels; o += DJ_TALL)
            for (int64_t p = 0; p < panels; p++)
                DJ_OF(dj_put_pixels)(block + (o * panels + p * DJ_TALL) * DJ_PANEL,
                                     dj_min_index(DJ_TALL, channels - o), runs[p], counts[p],
                                     w->divide[2], all->c.is_rectified, result + o * plane, plane);
    }
}

/* The same where a group has few results: one channel after the other, along rows of an image. */
static __attribute__((unused)) void DJ_OF(dj_narrow)(
    const DJ_OF(dj_correlation) *all, int64_t class, int64_t group, int64_t image, int64_t first,
    int64_t end, const T *slab) {
    enum { LENGTH = 96 };
    const dj_walk *w = &all->w;
    const dj_pixels pixels = dj_pixels_of(w, class, first, end);
    const int64_t rows = pixels.count[2] ? pixels.count[0] * pixels.count[1] : 0;
    const int64_t origin = dj_base(w, 0, first), left = dj_base(w, 2, pixels.start[2]);
    const int64_t taps = all->starts[class + 1] - all->starts[class], depth = taps * all->sources;
    const int64_t *steps = all->steps + all->starts[class] * all->sources;
    const T *weights = all->weights +
                       all->starts[class] * all->sources * all->c.groups * all->padded +
                       group * depth * all->padded;
    const int64_t span = dj_span(depth, taps);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t i = pixels.start[0] + row / pixels.count[1] * w->divide[0];
        const int64_t j = pixels.start[1] + row % pixels.count[1] * w->divide[1];
        const int64_t place = (i * w->result[1] + j) * w->result[2] + pixels.start[2];
        const T *source = slab + left +
            ((dj_base(w, 0, i) - origin) * w->plane[1] + dj_base(w, 1, j)) * w->plane[2];
        for (int64_t from = 0; from < pixels.count[2]; from += LENGTH) {
            const int64_t count = dj_min_index(LENGTH, pixels.count[2] - from);
            for (int64_t o = 0; o < all->results; o++) {
                const int64_t channel = group * all->results + o;
                const T plus = all->bias ? all->bias[channel] : 0;
                T line[LENGTH + DJ_BESIDE], part[LENGTH + DJ_BESIDE], *to = all->result + place +
                    from * w->divide[2] +
                    (image * all->c.groups * all->results + channel) * dj_volume(w->result);
                for (int64_t q = 0; q < count; q++) line[q] = plus;
                for (int64_t start = 0; start < depth; start += span) {
                    const int is_added = DJ_APART && (start || all->bias);
                    DJ_OF(dj_row)(source + from, steps + start,
                                  weights + o + start * all->padded, all->padded,
                                  dj_min_index(span, depth - start), DJ_APART ? 0 : plus,
                                  is_added ? part : line, count);
                    for (int64_t q = 0; q < count && is_added; q++) line[q] += part[q];
                }
                if (all->c.is_rectified)
                    for (int64_t q = 0; q < count; q++) line[q] = line[q] <= 0 ? 0 : line[q];
                for (int64_t q = 0; q < count; q++) to[q * w->divide[2]] = line[q];
            }
        }
    }
}

/* The transpose in x where a weight is infinite or NaN: times the zeros around `y` it would be */
/* NaN where no window is. One element after the other. */
static __attribute__((unused)) int DJ_OF(dj_finite_taps)(const T *weight, int64_t n) {
    T sums[DJ_PANEL] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + DJ_PANEL <= n; i += DJ_PANEL)
        for (int64_t l = 0; l < DJ_PANEL; l++) sums[l] += weight[i + l] * 0;
    for (; i < n; i++) sum += weight[i] * 0;
    for (int64_t l = 0; l < DJ_PANEL; l++) sum += sums[l];
    return sum == 0;
}
static __attribute__((noinline, cold, unused)) void DJ_OF(dj_exact_back)(
    const dj_convolution *c, const T *y, const T *weight, T *result) {
    const int64_t area = dj_volume(c->in), taps = dj_volume(c->size), out = dj_volume(c->out);
    for (int64_t i = 0; i < c->batch * c->groups * c->channels * area; i++) {
        const int64_t p[3] = {i / c->in[2] / c->in[1] % c->in[0], i / c->in[2] % c->in[1],
                              i % c->in[2]};
        const int64_t channel = i / area % c->channels, lane = i / area / c->channels;
        T sum = 0;
        for (int64_t tap = 0; tap < taps; tap++) {
            const int64_t k[3] = {tap / c->size[2] / c->size[1], tap / c->size[2] % c->size[1],
                                  tap % c->size[2]};
            int64_t place = 0;
            int is_in = 1;
            for (int d = 0; d < 3; d++) {
                const int64_t step = p[d] + c->before[d] - k[d] * c->dilation[d];
                is_in &= step >= 0 && step % c->stride[d] == 0 && step / c->stride[d] < c->out[d];
                place = place * c->out[d] + step / c->stride[d];
            }
            if (!is_in) continue;
            for (int64_t o = 0; o < c->outputs; o++)
                sum += y[(lane * c->outputs + o) * out + place] *
                       weight[((lane % c->groups * c->outputs + o) * c->channels + channel) *
                                  taps + tap];
        }
        result[i] = c->is_rectified && sum <= 0 ? 0 : sum;
    }
}

/* Everything before the tasks; 0 if there are none, since all is done or there is no memory. */
static __attribute__((unused)) int DJ_OF(dj_begin_correlation)(
    DJ_OF(dj_correlation) *all, const dj_convolution *given, int is_back, const T *source,
    const T *weight, const T *bias, T *result, int threads, int64_t *status) {
    *all = (DJ_OF(dj_correlation)){.c = dj_rows_first(given), .source = source,
                                   .weight = weight, .bias = bias, .result = result,
                                   .is_back = is_back};
    const dj_convolution *c = &all->c;
    dj_walk *w = &all->w;
    *w = is_back ? dj_walk_back(c) : dj_walk_forward(c);
    all->results = is_back ? c->channels : c->outputs;
    all->sources = is_back ? c->outputs : c->channels;
    all->classes = dj_volume(w->divide);
    const int64_t lanes = c->batch * c->groups, steps = all->sources * w->taps;
    const int64_t work = lanes * all->results * steps * dj_volume(c->out);
    all->team = work >= DJ_CONVOLUTION_WORK ? threads : 1;
    if (lanes * all->results * dj_volume(w->result) == 0) return 0;
    if (is_back && !DJ_OF(dj_finite_taps)(weight, c->groups * all->results * steps)) {
        DJ_OF(dj_exact_back)(c, source, weight, result);
        for (int64_t plane = 0; c->epilogue && plane < lanes * all->results; plane++)
            c->epilogue->run(c->epilogue, plane, 0, dj_volume(w->result));
        return 0;
    }
    all->padded = (all->results + 1) / 2 * 2, all->tiles = dj_quotient_up(all->padded, DJ_TALL);
    all->is_narrow = all->results <= DJ_NARROW;
    const int64_t wanted = all->team > 1 ? 4 * all->team : 1;
    const int64_t row = dj_max_index(w->result[1] * w->result[2] / all->classes, 1);
    dj_cut(w, all->sources * (int64_t)sizeof(T),
           dj_max_index(dj_quotient_up(w->result[0], dj_quotient_up(wanted, lanes)),
                        dj_quotient_up(DJ_CHUNK_PIXELS, row)),
           DJ_LANES * all->classes);
    all->images = all->is_narrow ? 1 : dj_images(w, c->batch);
    all->chunks = dj_quotient_up(c->batch, all->images) * w->slabs;
    const int64_t cuts = dj_min_index(dj_quotient_up(wanted, all->chunks * c->groups),
                                      dj_max_index(all->tiles / DJ_CUT_TILES, 1));
    all->cut_tiles = all->is_narrow ? all->tiles : dj_quotient_up(all->tiles, cuts);
    all->cuts = dj_quotient_up(all->tiles, all->cut_tiles);
    const int is_open = !is_back && !all->is_narrow && all->results % DJ_TALL == 0 &&
                        steps * (int64_t)sizeof(T) % DJ_SET_BYTES &&
                        c->batch * dj_volume(w->result) <= DJ_OPEN_PIXELS;
    all->pads = all->cuts > 1 ? dj_quotient_up(all->sources, DJ_PADDED) : 0;
    all->packed = is_open ? 0 : c->groups * all->tiles;
    all->packs = all->packed + all->chunks * c->groups * all->pads;
    all->tasks = all->chunks * c->groups * all->cuts;

    const int64_t span = dj_min_index(dj_span(steps, w->taps), steps);
    all->step = dj_max_index(dj_quotient_up(span, dj_quotient_up(span, DJ_DEPTH)), 1);
    const int64_t tall = all->cut_tiles * DJ_TALL * DJ_PANEL;
    const int64_t width = dj_max_index(w->result[2] / w->divide[2], 1);
    const int64_t beside = dj_quotient_up(width, DJ_LANES) * DJ_LANES - width;
    const int64_t between = w->plane[2] - width; /* rows, where these lie one behind the other */
    all->is_through = between < beside && all->images == 1 && w->plane[1] == 1 && w->phases == 1 &&
                      w->scale[0] == 1;
    const int64_t idle = all->is_through ? between : beside; /* numbers of a row without a pixel */
    all->is_near = !idle || (steps >= DJ_SHALLOW &&
                             idle * all->cut_tiles * DJ_TALL <= width * DJ_GATHERING);
    all->is_through &= all->is_near;
    all->panels = dj_max_index(dj_min_index(DJ_BLOCK_SUMS / tall, DJ_PANELS), 1);
    all->slab = dj_room(all->images * all->sources * dj_volume(w->plane) + DJ_BESIDE, sizeof(T));
    all->panel = dj_room(all->step * DJ_PITCH, sizeof(T));
    all->block = dj_room(all->panels * tall, sizeof(T));
    all->room = (all->pads ? 0 : all->slab) + (all->is_narrow ? 0 : all->panel + 2 * all->block);
    const int64_t open = is_open ? steps : 0;
    const int64_t table = dj_room(all->classes + 1 + steps + 3 * w->taps + all->step + open,
                                  sizeof(int64_t));
    const int64_t weights = is_open ? 0 : dj_room(steps * c->groups * all->padded, sizeof(T));
    const int64_t shared = all->pads ? all->chunks * c->groups * all->slab : 0;
    all->memory = malloc((size_t)(table + weights + shared + all->room * all->team + 64));
    if (!all->memory) { status[0] = 3; return 0; }
    char *aligned = all->memory + (64 - (uintptr_t)all->memory % 64);
    all->starts = (int64_t *)aligned, all->steps = all->starts + all->classes + 1;
    all->numbers = all->steps + steps, all->lines = all->numbers + 3 * w->taps;
    for (int64_t k = 0; k < all->step; k++) all->lines[k] = k * DJ_PITCH;
    all->places = is_open ? all->lines + all->step : NULL;
    all->weights = (T *)(aligned + table), all->own = aligned + table + weights + shared;
    all->shared = shared ? aligned + table + weights : NULL;
    int64_t *offset = all->numbers + w->taps, *to = all->steps;
    all->starts[0] = 0;
    for (int64_t class = 0; class < all->classes; class++) {
        const int64_t start = all->starts[class];
        const int64_t count = dj_taps(c, w, is_back, class, all->numbers + start, offset);
        all->starts[class + 1] = start + count;
        for (int64_t channel = 0; channel < all->sources; channel += DJ_TOGETHER)
            for (int64_t i = 0; i < count; i++)
                for (int64_t j = channel; j < dj_min_index(channel + DJ_TOGETHER, all->sources);
                     j++) {
                    if (is_open) all->places[to - all->steps] = j * w->taps + i;
                    *to++ = j * dj_volume(w->plane) + offset[i];
                }
    }
    return 1;
}

/* The epilogue of some tiles of results for the pixels of a chunk. */
static __attribute__((unused)) void DJ_OF(dj_finish_task)(const DJ_OF(dj_correlation) *all,
                                                          dj_chunk chunk, int64_t group,
                                                          int64_t tile, int64_t last_tile) {
    const dj_epilogue *epilogue = all->c.epilogue;
    const int64_t row = all->w.result[1] * all->w.result[2];
    const int64_t last = dj_min_index(last_tile * DJ_TALL, all->results);
    for (int64_t i = chunk.image; epilogue && i < chunk.image + chunk.images; i++)
        for (int64_t o = tile * DJ_TALL; o < last; o++)
            epilogue->run(epilogue, (i * all->c.groups + group) * all->results + o,
                          chunk.first * row, (chunk.end - chunk.first) * row);
}

static __attribute__((unused)) void DJ_OF(dj_correlation_task)(const DJ_OF(dj_correlation) *all,
                                                               int64_t task, int64_t thread) {
    char *own = all->own + all->room * thread;
    const int64_t cut = task % all->cuts, number = task / all->cuts;
    const int64_t group = number % all->c.groups, tile = cut * all->cut_tiles;
    const int64_t last_tile = dj_min_index(tile + all->cut_tiles, all->tiles);
    const dj_chunk chunk = DJ_OF(dj_chunk_of)(all, number / all->c.groups);
    const T *slab = (const T *)(all->shared ? all->shared + number * all->slab : own);
    if (!all->shared) {
        DJ_OF(dj_pad_chunk)(all, chunk, group, 0, all->sources, (T *)own);
        own += all->slab;
    }
    for (int64_t class = 0; class < all->classes; class++) {
        if (all->is_narrow)
            DJ_OF(dj_narrow)(all, class, group, chunk.image, chunk.first, chunk.end, slab);
        else
            DJ_OF(dj_wide)(all, class, group, chunk.image, chunk.images, chunk.first, chunk.end,
                           tile, last_tile, slab, own);
    }
    DJ_OF(dj_finish_task)(all, chunk, group, tile, last_tile);
}

static __attribute__((unused)) void DJ_OF(dj_correlate)(
    const dj_convolution *c, int is_back, const T *source, const T *weight, const T *bias,
    T *result, int threads, int64_t *status) {
    DJ_OF(dj_correlation) all;
    if (!DJ_OF(dj_begin_correlation)(&all, c, is_back, source, weight, bias, result, threads, status))
        return;
    _Pragma("omp parallel num_threads(all.team)")
    {
        _Pragma("omp for schedule(static)")
        for (int64_t task = 0; task < all.packs; task++) DJ_OF(dj_pack_task)(&all, task);
        _Pragma("omp for schedule(dynamic)")
        for (int64_t task = 0; task < all.tasks; task++)
            DJ_OF(dj_correlation_task)(&all, task, dj_thread());
    }
    free(all.memory);
}

/* The gradient of the weights: sums over images and pixels of windows times `y`. Parts are summed
 * in order; large weights have fewer, and tasks have fewer channels. After the tasks, `ends` tasks put
 * the sums in order. */
typedef struct {
    dj_convolution c;
    dj_walk w;
    const T *x, *y;
    T *result;
    int64_t wide, blocks, depth, images, units, part, parts, few, cuts; /* wide: outputs of a block */
    int64_t *steps;
    T *total; /* (part, group, block, step, output) */
    int team, is_few; /* is_few: outputs of a group */
    int64_t tasks, ends, slab, turned, gathered, room; /* bytes of a thread, from `own` on */
    char *memory, *own;
} DJ_OF(dj_weighing);

static __attribute__((unused)) int DJ_OF(dj_begin_weighing)(
    DJ_OF(dj_weighing) *all, const dj_convolution *given, const T *y, const T *x, T *result,
    int threads, int64_t *status) {
    *all = (DJ_OF(dj_weighing)){.c = dj_rows_first(given), .x = x, .y = y, .result = result};
    const dj_convolution *c = &all->c;
    dj_walk *w = &all->w;
    *w = dj_walk_forward(c);
    const int64_t taps = w->taps, area = dj_max_index(c->out[1] * c->out[2], 1);
    const int64_t work = c->batch * c->groups * c->outputs * c->channels * taps * dj_volume(c->out);
    all->team = work >= DJ_CONVOLUTION_WORK ? threads : 1;
    if (c->groups * c->outputs * c->channels * taps == 0) return 0;
    all->is_few = c->outputs <= DJ_NARROW;
    all->wide = all->is_few ? DJ_BLOCK_BYTES / (int)sizeof(T) : DJ_PANEL;
    all->blocks = dj_quotient_up(c->outputs, all->wide);
    all->depth = c->channels * taps;
    all->part = c->groups * all->blocks * all->depth * all->wide;
    dj_cut(w, c->channels * (int64_t)sizeof(T), dj_max_index(DJ_GRADIENT_PIXELS / area, 1), 1);
    all->images = all->is_few ? 1 : dj_images(w, c->batch);
    all->units = dj_quotient_up(c->batch, all->images) * w->slabs;
    const int64_t fit = dj_max_index((1 << 19) / all->part, 1);
    all->parts = dj_max_index(dj_min_index(dj_min_index(all->units, fit), DJ_MOST_PARTS), 1);
    const int64_t wanted = dj_quotient_up(DJ_MOST_PARTS / 2, all->parts * c->groups);
    all->few = dj_max_index(dj_quotient_up(c->channels, wanted), 16);
    all->cuts = dj_quotient_up(c->channels, all->few);
    all->tasks = all->parts * c->groups * all->cuts, all->ends = c->groups * all->blocks;
    const int64_t plane = dj_volume(w->plane), pixels = w->rows * area;
    all->slab = dj_room(all->images * plane * dj_min_index(all->few, c->channels) + DJ_BESIDE,
                        sizeof(T));
    if (all->is_few) {
        all->turned = dj_room(pixels * all->wide, sizeof(T));
        all->gathered = dj_room(pixels, sizeof(int64_t));
    } else {
        all->turned = dj_room(all->blocks * DJ_GRADIENT_BLOCK * DJ_PANEL, sizeof(T));
        all->gathered = dj_room((DJ_GRADIENT_DEPTH + DJ_GRADIENT_TALL) * DJ_GRADIENT_PITCH, sizeof(T));
    }
    all->room = all->slab + all->turned + all->gathered;
    const int64_t table = dj_room(all->depth + 2 * taps, sizeof(int64_t));
    const int64_t sums = dj_room(all->parts * all->part, sizeof(T));
    all->memory = malloc((size_t)(table + sums + all->room * all->team + 64));
    if (!all->memory) { status[0] = 3; return 0; }
    char *aligned = all->memory + (64 - (uintptr_t)all->memory % 64);
    all->steps = (int64_t *)aligned, all->total = (T *)(aligned + table);
    all->own = aligned + table + sums;
    int64_t *number = all->steps + all->depth;
    dj_taps(c, w, 0, 0, number, number + taps);
    for (int64_t k = 0; k < all->depth; k++)
        all->steps[k] = k / taps * plane + number[taps + k % taps];
    return 1;
}

/* What `count` rows of a slab add to the gradient, where a group has few outputs: pixels, not
 * outputs, fill the vectors. Four taps are summed side by side, so that sums need not wait.
 * `turn` has room for the rows of y with zeros behind them, `at` for their places. */
static __attribute__((noinline, unused)) void DJ_OF(dj_weigh_few)(
    const DJ_OF(dj_weighing) *all, const T *slab, const T *y, int64_t count, int64_t channels,
    T *turn, int64_t *at, T *sum) {
    DJ_CONTRACT
    enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T) };
    typedef T lanes __attribute__((vector_size(DJ_BLOCK_BYTES), aligned(sizeof(T)),
                                   may_alias));
    typedef int64_t words __attribute__((vector_size(DJ_BLOCK_BYTES)));
    const dj_walk *w = &all->w;
    const int64_t width = w->result[2], rest = width % BLOCK;
    const int64_t pitch = (width + BLOCK - 1) / BLOCK * BLOCK;
    const int64_t depth = channels * w->taps, whole = dj_volume(w->result);
    lanes marks = {0};
    memset(&marks, 255, (size_t)rest * sizeof(T));
    for (int64_t row = 0; row < count; row++) {
        const int64_t plane = row / w->result[1] * w->scale[0] * w->plane[1];
        at[row] = (plane + row % w->result[1] * w->scale[1]) * w->plane[2];
    }
    for (int64_t o = 0; o < all->c.outputs; o++, y += whole) {
        for (int64_t row = 0; row < count; row++) {
            memcpy(turn + row * pitch, y + row * width, (size_t)width * sizeof(T));
            for (int64_t j = width; j < pitch; j++) turn[row * pitch + j] = 0;
        }
        for (int64_t k = 0; k < depth; k += 4) {
            const T *taps[4];
            for (int r = 0; r < 4; r++)
                taps[r] = slab + all->steps[k + dj_min_index(r, depth - 1 - k)];
            lanes a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0};
            for (int64_t row = 0; row < count; row++) {
                for (int64_t j = 0; j < width; j += BLOCK) {
                    const lanes g = *(const lanes *)(turn + row * pitch + j);
                    const int64_t place = at[row] + j;
                    lanes x0 = *(const lanes *)(taps[0] + place);
                    lanes x1 = *(const lanes *)(taps[1] + place);
                    lanes x2 = *(const lanes *)(taps[2] + place);
                    lanes x3 = *(const lanes *)(taps[3] + place);
                    if (j + BLOCK > width) { /* what stands beside a row may be no number */
                        const words left = (words)marks;
                        x0 = (lanes)((words)x0 & left), x1 = (lanes)((words)x1 & left);
                        x2 = (lanes)((words)x2 & left), x3 = (lanes)((words)x3 & left);
                    }
                    a0 += g * x0, a1 += g * x1, a2 += g * x2, a3 += g * x3;
                }
            }
            const lanes found[4] = {a0, a1, a2, a3};
            for (int64_t r = 0; r < 4 && k + r < depth; r++) {
                T total = 0;
                for (int l = 0; l < BLOCK; l++) total += found[r][l];
                sum[(k + r) * BLOCK + o] += total;
            }
        }
    }
}

/* `count` elements of DJ_LANES rows that lie `pitch` apart, turned: element j of all rows side by side. */
static DJ_ONCE void DJ_OF(dj_turn_rows)(const T *from, int64_t pitch, int64_t count, T *to) {
    typedef T quad __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
    enum { LINE = 64 / sizeof(T) }; /* of four rows at a time: the others may lie in the same sets */
    const int64_t whole = DJ_LANES % 4 ? 0 : count / 4 * 4;
    for (int64_t start = 0; start < whole; start += LINE)
        for (int64_t l = 0; l < DJ_LANES; l += 4)
            for (int64_t j = start; j < dj_min_index(start + LINE, whole); j += 4) {
                const T *at = from + l * pitch + j;
                quad a[4];
                for (int64_t k = 0; k < 4; k++) a[k] = *(const quad *)(at + k * pitch);
                for (int k = 0; k < 4; k++)
                    *(quad *)(to + (j + k) * DJ_PANEL + l) =
                        (quad){a[0][k], a[1][k], a[2][k], a[3][k]};
            }
    for (int64_t j = whole; j < count; j++)
        for (int64_t l = 0; l < DJ_LANES; l++) to[j * DJ_PANEL + l] = from[l * pitch + j];
}

/* `count` pixels of y from `from` on, of images that have `each`: (block, pixel, output), zeros beside
 * the last output. */
static __attribute__((unused)) void DJ_OF(dj_turn_outputs)(const DJ_OF(dj_weighing) *all, const T *y,
                                                   int64_t each, int64_t from, int64_t count,
                                                   T *turned) {
    const int64_t whole = dj_volume(all->c.out), outputs = all->c.outputs;
    for (int64_t o = 0; o < all->blocks * DJ_PANEL; o += DJ_LANES) {
        T *to = turned + o / DJ_PANEL * DJ_GRADIENT_BLOCK * DJ_PANEL + o % DJ_PANEL;
        const int64_t used = dj_max_index(dj_min_index(DJ_LANES, outputs - o), 0);
        for (int64_t q = 0; q < count;) {
            const int64_t image = (from + q) / each, start = (from + q) % each;
            const int64_t left = dj_min_index(each - start, count - q);
            const T *at = y + image * all->c.groups * outputs * whole + o * whole + start;
            if (used == DJ_LANES) {
                DJ_OF(dj_turn_rows)(at, whole, left, to + q * DJ_PANEL);
                q += left;
                continue;
            }
            for (int64_t j = 0; j < left; j++, q++) {
                for (int64_t l = 0; l < used; l++) to[q * DJ_PANEL + l] = at[l * whole + j];
                for (int64_t l = used; l < DJ_LANES; l++) to[q * DJ_PANEL + l] = 0;
            }
        }
    }
}

/* What some runs of pixels add to `depth` products from `first` on, read where they lie in a slab. */
static __attribute__((unused)) void DJ_OF(dj_weigh_runs)(
    const DJ_OF(dj_weighing) *all, const T *slab, const dj_run *runs, int64_t n, int64_t depth,
    int64_t first, const T *turned, T *total) {
    for (int64_t o = 0; o < all->blocks; o++) {
        const T *line = turned + o * DJ_GRADIENT_BLOCK * DJ_PANEL;
        T *sums = total + (o * all->depth + first) * DJ_PANEL;
        const int is_half = all->c.outputs - o * DJ_PANEL <= DJ_LANES;
        for (int64_t k = 0; k < depth; k += DJ_GRADIENT_TALL, sums += DJ_GRADIENT_TALL * DJ_PANEL) {
            T some[DJ_GRADIENT_TALL * DJ_PANEL] __attribute__((aligned(64)));
            const int64_t rows = dj_min_index(DJ_GRADIENT_TALL, depth - k);
            int64_t steps[DJ_GRADIENT_TALL];
            for (int64_t r = 0; r < DJ_GRADIENT_TALL; r++)
                steps[r] = all->steps[dj_min_index(k + r, depth - 1)];
            T *to = rows == DJ_GRADIENT_TALL ? sums : some;
            if (to == some) memcpy(some, sums, sizeof(T) * (size_t)(rows * DJ_PANEL));
            (is_half ? DJ_OF(dj_gradient_runs_1) : DJ_OF(dj_gradient_runs_2))(slab, steps, runs, n,
                                                                            line, to);
            if (to == some) memcpy(sums, some, sizeof(T) * (size_t)(rows * DJ_PANEL));
        }
    }
}

/* What the pixels of a slab's rows add to the gradient; `y` is the first one of the first image. */
static __attribute__((unused)) void DJ_OF(dj_weigh_many)(
    const DJ_OF(dj_weighing) *all, const T *slab, const T *y, int64_t images, int64_t first,
    int64_t end, int64_t channel, int64_t channels, T *turned, T *gathered, T *total) {
    const dj_walk *w = &all->w;
    const dj_pixels pixels = dj_pixels_of(w, 0, first, end);
    const int64_t each = dj_volume(pixels.count), depth = channels * w->taps;
    dj_run runs[DJ_GRADIENT_BLOCK];
    for (int64_t from = 0; from < images * each; from += DJ_GRADIENT_BLOCK) {
        const int64_t count = dj_min_index(DJ_GRADIENT_BLOCK, images * each - from);
        const int64_t n = dj_runs(w, &pixels, first, channels * dj_volume(w->plane), 0,
                                  pixels.count[2], pixels.count[2], from, count, runs);
        DJ_OF(dj_turn_outputs)(all, y, each, from, count, turned);
        if (pixels.count[2] >= DJ_GRADIENT_RUN) {
            DJ_OF(dj_weigh_runs)(all, slab, runs, n, depth, channel * w->taps, turned, total);
            continue;
        }
        for (int64_t k = 0; k < depth; k += DJ_GRADIENT_DEPTH) {
            const int64_t lines = dj_min_index(DJ_GRADIENT_DEPTH, depth - k);
            DJ_OF(dj_gather)(slab, all->steps + k, lines, runs, n, DJ_GRADIENT_PITCH, gathered);
            for (int64_t o = 0; o < all->blocks; o++) {
                const T *line = turned + o * DJ_GRADIENT_BLOCK * DJ_PANEL;
                T *sums = total + (o * all->depth + channel * w->taps + k) * DJ_PANEL;
                const int is_half = all->c.outputs - o * DJ_PANEL <= DJ_LANES;
                for (int64_t r = 0; r < lines; r += DJ_GRADIENT_TALL) {
                    const int64_t rows = dj_min_index(DJ_GRADIENT_TALL, lines - r);
                    T some[DJ_GRADIENT_TALL * DJ_PANEL] __attribute__((aligned(64)));
                    T *to = rows == DJ_GRADIENT_TALL ? sums + r * DJ_PANEL : some;
                    if (to == some)
                        memcpy(some, sums + r * DJ_PANEL, sizeof(T) * (size_t)(rows * DJ_PANEL));
                    (is_half ? DJ_OF(dj_gradient_tile_1) : DJ_OF(dj_gradient_tile_2))(
                        gathered + r * DJ_GRADIENT_PITCH, line, count, to);
                    if (to == some)
                        memcpy(sums + r * DJ_PANEL, some, sizeof(T) * (size_t)(rows * DJ_PANEL));
                }
            }
        }
    }
}

static __attribute__((unused)) void DJ_OF(dj_weighing_task)(const DJ_OF(dj_weighing) *all,
                                                            int64_t task, int64_t thread) {
    const dj_convolution *c = &all->c;
    const dj_walk *w = &all->w;
    char *own = all->own + all->room * thread;
    T *padded = (T *)own, *turned = (T *)(own + all->slab);
    char *gathered = own + all->slab + all->turned;
    const int64_t cut = task % all->cuts, group = task / all->cuts % c->groups;
    const int64_t p = task / all->cuts / c->groups, channel = cut * all->few;
    const int64_t channels = dj_min_index(all->few, c->channels - channel);
    const int64_t area = c->out[1] * c->out[2], whole = dj_volume(c->out), plane = dj_volume(w->plane);
    T *total = all->total + p * all->part + group * all->blocks * all->depth * all->wide;
    for (int64_t o = 0; o < all->blocks; o++)
        memset(total + (o * all->depth + channel * w->taps) * all->wide, 0,
               sizeof(T) * (size_t)(channels * w->taps * all->wide));
    const int64_t last = all->units * (p + 1) / all->parts;
    for (int64_t unit = all->units * p / all->parts; unit < last; unit++) {
        const int64_t image = unit / w->slabs * all->images, first = unit % w->slabs * w->rows;
        const int64_t images = dj_min_index(all->images, c->batch - image);
        const int64_t end = dj_min_index(first + w->rows, c->out[0]);
        if ((end - first) * area <= 0) continue;
        for (int64_t i = 0; i < images; i++)
            DJ_OF(dj_pad)(w, all->x + (((image + i) * c->groups + group) * c->channels + channel) *
                                 dj_volume(c->in),
                          channels, dj_base(w, 0, first), padded + i * channels * plane);
        const T *y = all->y + (image * c->groups + group) * c->outputs * whole + first * area;
        if (all->is_few)
            DJ_OF(dj_weigh_few)(all, padded, y, (end - first) * c->out[1], channels, turned,
                                (int64_t *)gathered, total + channel * w->taps * all->wide);
        else
            DJ_OF(dj_weigh_many)(all, padded, y, images, first, end, channel, channels, turned,
                                 (T *)gathered, total);
    }
}

/* The sums of all parts for the outputs of one block, as the gradient lies. */
static __attribute__((unused)) void DJ_OF(dj_end_task)(const DJ_OF(dj_weighing) *all, int64_t task) {
    const int64_t group = task / all->blocks, block = task % all->blocks, wide = all->wide;
    const int64_t depth = all->depth, used = dj_min_index(wide, all->c.outputs - block * wide);
    T *sums = all->total + task * depth * wide;
    T *result = all->result + (group * all->c.outputs + block * wide) * depth;
    for (int64_t k = 0; k < depth; k += DJ_GRADIENT_DEPTH) {
        const int64_t count = dj_min_index(DJ_GRADIENT_DEPTH, depth - k);
        T *some = sums + k * wide;
        for (int64_t p = 1; p < all->parts; p++)
            for (int64_t i = 0; i < count * wide; i++) some[i] += some[p * all->part + i];
        for (int64_t o = 0; o < used; o++)
            for (int64_t l = 0; l < count; l++) result[o * depth + k + l] = some[l * wide + o];
    }
}

static __attribute__((unused)) void DJ_OF(dj_weigh)(const dj_convolution *c, const T *y, const T *x,
                                                    T *result, int threads, int64_t *status) {
    DJ_OF(dj_weighing) all;
    if (!DJ_OF(dj_begin_weighing)(&all, c, y, x, result, threads, status)) return;
    _Pragma("omp parallel num_threads(all.team)")
    {
        _Pragma("omp for schedule(dynamic)")
        for (int64_t task = 0; task < all.tasks; task++)
            DJ_OF(dj_weighing_task)(&all, task, dj_thread());
        _Pragma("omp for schedule(static)")
        for (int64_t task = 0; task < all.ends; task++) DJ_OF(dj_end_task)(&all, task);
    }
    free(all.memory);
}

#undef DJ_LANES
#undef DJ_PANEL
#undef DJ_PITCH
#undef DJ_EACH
#undef DJ_VECTOR_AT
#undef DJ_TILE
#undef DJ_OPEN_TILE
#undef DJ_GRADIENT_TILE
#undef DJ_GRADIENT_RUNS
