/* Convolutions of groups of one channel, as depthwise ones are: windows of single planes, and their
 * transposes in x, without a stride there.
 *
 * Some rows of a plane, with zeros around them, fit the first cache: a slab. A tile keeps the sums of
 * some rows, or of some vectors of a row, in registers, and multiplies one weight with what lies at one
 * tap of all of them. Vectors are stored as they are: what hangs over the end of a row is overwritten by
 * the next row, and columns are computed from the last ones to the first.
 *
 * The sums and their order are those of convolution_kernels.h, after which this file is included, once
 * per dtype, with T and DJ_OF(name).
 */

#define DJ_LANES (DJ_VECTOR_BYTES / (int)sizeof(T))
#define DJ_EACH(r, R, v, V)                                                                         \
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)                                             \
        _Pragma("GCC unroll 4") for (int v = 0; v < V; v++)

/* What the tasks share. A unit is a slab of a plane (image, group); tasks are some units each. */
typedef struct {
    dj_convolution c;
    dj_walk w;
    const T *source, *weight, *bias;
    T *result;
    int64_t results, units, each, tasks; /* results of a group; units of a task */
    int64_t *steps;                      /* of the taps */
    int64_t elements;                    /* of the source */
    int64_t slab, room; /* elements; bytes of a thread, from `own` on: two slabs */
    int team;
    char *memory, *own; /* memory is to be freed */
} DJ_OF(dj_planes);

/* How the rows of a tile lie, and what is done with its sums. */
typedef struct {
    const int64_t *steps;
    int64_t taps, pitch, width; /* pitch: from row to row of the slab; width: of the result */
    const T *bias;              /* NULL: none */
    int is_rectified;
} DJ_OF(dj_plane);

/* A vector of results, of which those before `end` are stored. */
DJ_INLINE void DJ_OF(dj_put_vector)(DJ_OF(dj_lanes) value, T *to, const T *end) {
    if (end - to >= DJ_LANES)
        *(DJ_OF(dj_lanes) *)to = value;
    else if (end > to)
        memcpy(to, &value, (size_t)(end - to) * sizeof(T));
}

/* A row with zeros around it, `pitch` elements long; NULL: zeros. Less than a vector behind it is
 * written, and nothing is read from `end` on. */
DJ_INLINE void DJ_OF(dj_pad_whole_row)(const T *row, int64_t count, int64_t lead, int64_t pitch,
                                       const T *end, T *to) {
    typedef DJ_OF(dj_lanes) lanes;
    const int64_t last = row ? dj_min_index(lead + count, pitch) : 0;
    if (row) *(lanes *)to = (lanes){0};
    for (int64_t k = DJ_LANES; row && k < lead; k += DJ_LANES) *(lanes *)(to + k) = (lanes){0};
    for (int64_t k = lead; k < last; k += DJ_LANES, row += DJ_LANES) {
        __builtin_prefetch((const char *)row + DJ_PLANE_AHEAD);
        if (end - row >= DJ_LANES)
            *(lanes *)(to + k) = *(const lanes *)row;
        else
            memcpy(to + k, row, (size_t)(end - row) * sizeof(T));
    }
    if (last < pitch) *(lanes *)(to + last) = (lanes){0};
    for (int64_t k = last + DJ_LANES; k < pitch; k += DJ_LANES) *(lanes *)(to + k) = (lanes){0};
}

/* `dj_pad` of one plane, with a stride along rows of 1 or 2. `beside` has room for a slab, too. */
static DJ_ONCE void DJ_OF(dj_pad_plane)(const dj_walk *w, const T *source, const T *end, int64_t from,
                                        T *beside, T *slab) {
    const int64_t pitch = w->plane[2], rows = w->plane[0] * w->plane[1];
    T *to = w->phases == 1 ? slab : beside;
    for (int64_t i = 0; i < w->plane[0]; i++)
        for (int64_t j = 0; j < w->plane[1]; j++, to += pitch) {
            const int64_t a = from + i - w->lead[0], b = j - w->lead[1];
            const int is_in = a >= 0 && a < w->source[0] && b >= 0 && b < w->source[1];
            const T *row = source + (a * w->source[1] + b) * w->source[2];
            DJ_OF(dj_pad_whole_row)(is_in ? row : NULL, w->source[2], w->lead[2], pitch, end, to);
        }
    for (int64_t i = 0; w->phases == 2 && i < rows; i++, beside += pitch, slab += pitch) {
        for (int64_t l = 0; l < w->phase; l += DJ_LANES)
            *(DJ_OF(dj_lanes) *)(slab + l) = DJ_EVERY_SECOND(DJ_OF(dj_lanes), beside + 2 * l, 0);
        for (int64_t l = 0; l < w->phase; l += DJ_LANES)
            *(DJ_OF(dj_lanes) *)(slab + w->phase + l) = DJ_EVERY_SECOND(DJ_OF(dj_lanes), beside + 2 * l, 1);
    }
}

#if !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast") /* a product and its sum round once where the CPU can */
#endif

/* R rows of V vectors of results: x is what their first pixel meets, where a slab begins. */
#define DJ_PLANE_TILE(R, V)                                                                         \
    static DJ_ONCE void DJ_OF(dj_plane_tile_##R##_##V)(const DJ_OF(dj_plane) *p, const T *x,        \
                                                       const T *weights, T *to, const T *end) {     \
        DJ_CONTRACT                                                                                 \
        typedef DJ_OF(dj_lanes) lanes;                                                              \
        typedef __typeof__((lanes){0} <= (lanes){0}) masks;                                         \
        const int64_t pitch = p->pitch, taps = p->taps;                                             \
        const T plus = p->bias ? *p->bias : 0, start = DJ_APART ? 0 : plus;                         \
        lanes sum[R][V];                                                                            \
        DJ_EACH(r, R, v, V) sum[r][v] = (lanes){0} + start;                                         \
        for (int64_t k = 0; k < taps; k++) {                                                        \
            const T *at = x + p->steps[k], weight = weights[k];                                     \
            DJ_EACH(r, R, v, V) sum[r][v] += weight * *(const lanes *)(at + r * pitch + v * DJ_LANES); \
        }                                                                                           \
        if (DJ_APART && p->bias) DJ_EACH(r, R, v, V) sum[r][v] += plus;                             \
        if (p->is_rectified)                                                                        \
            DJ_EACH(r, R, v, V) sum[r][v] = (lanes)((masks)sum[r][v] & ~(sum[r][v] <= (lanes){0})); \
        DJ_EACH(r, R, v, V)                                                                         \
            DJ_OF(dj_put_vector)(sum[r][v], to + r * p->width + v * DJ_LANES, end);                 \
    }
DJ_PLANE_TILE(1, 1) DJ_PLANE_TILE(4, 1) DJ_PLANE_TILE(1, 4) DJ_PLANE_TILE(4, 2)

#if !defined(__clang__)
#pragma GCC pop_options
#endif

/* Rows of results that lie one behind the other, up to `end`. */
static __attribute__((unused)) void DJ_OF(dj_plane_rows)(const DJ_OF(dj_plane) *p, const T *x,
                                                         int64_t rows, const T *weights, T *to,
                                                         const T *end) {
    const int64_t vectors = dj_quotient_up(p->width, DJ_LANES);
    for (int64_t row = 0; row < rows;) {
        const int64_t tall = rows < 4 ? 1 : 4;
        row = dj_min_index(row, rows - tall); /* the last rows may be computed twice */
        const T *from = x + row * p->pitch;
        T *line = to + row * p->width;
        for (int64_t left = vectors; left > 0;) {
            const int64_t most = tall == 4 ? 2 : 4, wide = left % most ? 1 : most;
            left -= wide;
            (tall == 4 ? wide == 2 ? DJ_OF(dj_plane_tile_4_2) : DJ_OF(dj_plane_tile_4_1)
                       : wide == 4 ? DJ_OF(dj_plane_tile_1_4) : DJ_OF(dj_plane_tile_1_1))(
                p, from + left * DJ_LANES, weights, line + left * DJ_LANES, end);
        }
        row += tall;
    }
}

/* The results of a slab of a plane: rows from `first` to `end` of an image's group. */
static __attribute__((unused)) void DJ_OF(dj_plane_unit)(const DJ_OF(dj_planes) *all, int64_t lane,
                                                         int64_t first, int64_t end, T *slab) {
    const dj_walk *w = &all->w;
    const int64_t area = w->result[1] * w->result[2], group = lane % all->c.groups;
    const int64_t left = dj_base(w, 1, 0) * w->plane[2] + dj_base(w, 2, 0);
    const int is_flat = w->result[1] == 1;
    const int64_t steps[2] = {w->scale[0] * w->plane[1] * w->plane[2], w->scale[1] * w->plane[2]};
    const int64_t rows = is_flat ? end - first : w->result[1];
    const T *source = all->source + lane * dj_volume(w->source), *past = all->source + all->elements;
    if (w->phases <= 2 && w->lead[2] >= 0)
        DJ_OF(dj_pad_plane)(w, source, past, dj_base(w, 0, first), slab + all->slab, slab);
    else
        DJ_OF(dj_pad)(w, source, 1, dj_base(w, 0, first), slab);
    for (int64_t o = 0; o < all->results; o++) {
        const int64_t channel = group * all->results + o, plane = lane * all->results + o;
        const DJ_OF(dj_plane) p = {all->steps, w->taps, steps[!is_flat], w->result[2],
                                   all->bias ? all->bias + channel : NULL, all->c.is_rectified};
        T *to = all->result + plane * dj_volume(w->result);
        for (int64_t i = first; i < end; i += is_flat ? rows : 1)
            DJ_OF(dj_plane_rows)(&p, slab + left + (i - first) * steps[0], rows,
                                 all->weight + channel * w->taps, to + i * area,
                                 to + (is_flat ? end : i + 1) * area);
        if (all->c.epilogue)
            all->c.epilogue->run(all->c.epilogue, plane, first * area, (end - first) * area);
    }
}

static __attribute__((unused)) void DJ_OF(dj_planes_task)(const DJ_OF(dj_planes) *all, int64_t task,
                                                          int64_t thread) {
    const int64_t last = dj_min_index((task + 1) * all->each, all->units);
    for (int64_t unit = task * all->each; unit < last; unit++) {
        const int64_t first = unit % all->w.slabs * all->w.rows;
        const int64_t end = dj_min_index(first + all->w.rows, all->w.result[0]);
        if (first < end)
            DJ_OF(dj_plane_unit)(all, unit / all->w.slabs, first, end,
                                 (T *)(all->own + thread * all->room));
    }
}

/* Everything before the tasks; 0 if the call is to be computed in another way: other sizes, a weight
 * whose product with the zeros around a transpose is NaN, or no memory. */
static __attribute__((unused)) int DJ_OF(dj_begin_planes)(
    DJ_OF(dj_planes) *all, const dj_convolution *given, int is_back, const T *source,
    const T *weight, const T *bias, T *result, int threads) {
    *all = (DJ_OF(dj_planes)){.c = dj_rows_first(given), .source = source, .weight = weight,
                              .bias = bias, .result = result};
    const dj_convolution *c = &all->c;
    dj_walk *w = &all->w;
    *w = is_back ? dj_walk_back(c) : dj_walk_forward(c);
    all->results = is_back ? c->channels : c->outputs;
    const int64_t lanes = c->batch * c->groups, pixels = dj_volume(w->result);
    if ((is_back ? c->outputs : c->channels) != 1 || all->results > DJ_NARROW ||
        dj_volume(w->divide) != 1)
        return 0;
    if (is_back && !DJ_OF(dj_finite_taps)(weight, c->groups * all->results * w->taps)) return 0;
    const int64_t work = lanes * all->results * w->taps * pixels;
    all->team = work >= DJ_CONVOLUTION_WORK ? threads : 1;
    if (work == 0) return 1;
    dj_cut(w, DJ_SLAB_BYTES / DJ_PLANE_BYTES * (int64_t)sizeof(T), w->result[0], 1);
    all->units = lanes * w->slabs;
    const int64_t unit = all->results * w->rows * w->result[1] * w->result[2];
    const int64_t fair = all->team > 1 ? all->units / (4 * all->team) : all->units;
    all->each = dj_max_index(dj_min_index(DJ_PLANE_PIXELS / unit, fair), 1);
    all->tasks = dj_quotient_up(all->units, all->each);
    all->elements = lanes * dj_volume(w->source);
    all->slab = dj_room(dj_volume(w->plane) + DJ_BESIDE, 1);
    all->room = dj_room(2 * all->slab, sizeof(T));
    const int64_t table = dj_room(2 * w->taps, sizeof(int64_t));
    all->memory = malloc((size_t)(table + all->room * all->team + 64));
    if (!all->memory) return 0;
    char *aligned = all->memory + (64 - (uintptr_t)all->memory % 64);
    all->steps = (int64_t *)aligned, all->own = aligned + table;
    dj_taps(c, w, is_back, 0, all->steps + w->taps, all->steps);
    return 1;
}

/* 0 if the call is to be computed in another way. */
static __attribute__((unused)) int DJ_OF(dj_correlate_planes)(
    const dj_convolution *c, int is_back, const T *source, const T *weight, const T *bias,
    T *result, int threads) {
    DJ_OF(dj_planes) all;
    if (!DJ_OF(dj_begin_planes)(&all, c, is_back, source, weight, bias, result, threads)) return 0;
    _Pragma("omp parallel for schedule(dynamic) num_threads(all.team)")
    for (int64_t task = 0; task < all.tasks; task++) DJ_OF(dj_planes_task)(&all, task, dj_thread());
    free(all.memory);
    return 1;
}

#undef DJ_LANES
#undef DJ_EACH
#undef DJ_PLANE_TILE
