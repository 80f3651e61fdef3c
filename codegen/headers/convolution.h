/* Convolutions of generated C: products of windows and weights without the windows as a matrix.
 *
 * A convolution and its transpose in x are one walk: each result element is a sum over source
 * channels and taps, `source[base(p) + offset(tap)] * weight`, and the bias (see DJ_APART). A task
 * pads one slab of rows of one image into a buffer near the core, so that no tap needs a condition;
 * the tile in the middle keeps DJ_ROWS pixels times DJ_BLOCK channels in registers and reads pixels
 * where they lie. Results of a transpose with a stride fall into classes by their remainder: each
 * class has its own taps.
 *
 * All dims are three; convolutions over fewer have leading ones. Every sum has one order, which
 * depends on sizes only, so the bits of a result do not depend on the number of threads. Included
 * where a graph has a convolution.
 */

#ifdef _OPENMP
int omp_get_thread_num(void);
#define dj_thread() omp_get_thread_num()
#else
#define dj_thread() 0
#endif

/* Channels that are summed side by side. oneDNN has the same order on x86, so that most convolutions of
 * float32 have the bits of PyTorch's. With AVX-512 such channels have a sum of their own, if there is
 * more than one tap; the bias is added to the first of them, then the others. */
#if defined(__AVX512F__)
#define DJ_TOGETHER 16
#define DJ_APART 1
#else
#define DJ_TOGETHER 8
#define DJ_APART 0
#endif

#if defined(__AVX512F__)
#define DJ_VECTOR_BYTES 64
#define DJ_PIECES(DO, r) DO(r, 0)
#elif defined(__AVX__)
#define DJ_VECTOR_BYTES 32
#define DJ_PIECES(DO, r) DO(r, 0) DO(r, 1)
#else
#define DJ_VECTOR_BYTES 16
#define DJ_PIECES(DO, r) DO(r, 0) DO(r, 1) DO(r, 2) DO(r, 3)
#endif
#define DJ_EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)

enum {
    DJ_ROWS = 6,          /* of a tile; with two vectors each they fill sixteen registers */
    DJ_BLOCK_BYTES = 64,  /* of the channels of a tile */
    DJ_PIXELS = 96,       /* that share the weights while these are in the first cache */
    DJ_DEPTH = 256,       /* products per pixel and pass: their weights are 16 KB */
    DJ_SLAB_BYTES = 1 << 19,
    DJ_GRADIENT_PIXELS = 512, /* of a slab whose gradient is transposed */
    DJ_MOST_TASKS = 16,
    DJ_NARROW = 4, /* channels up to which pixels, not channels, fill the vectors, */
    DJ_BESIDE = 32, /* and pixels beside a row that are read then, and not meant */
};

#define DJ_CONVOLUTION_WORK (1 << 20) /* multiplications that are worth a team */

typedef struct {
    int64_t batch, groups, outputs, channels; /* channels of one group */
    int64_t in[3], out[3], size[3], stride[3], before[3], dilation[3];
    int is_rectified; /* the result is max(0, sum) */
} dj_convolution;

/* Result position p reads the padded source at (p * scale + shift) / divide + offset of a tap. */
typedef struct {
    int64_t result[3], source[3], lead[3], reach[3], scale[3], shift[3], divide[3];
    int64_t plane[3];          /* of a padded slab */
    int64_t rows, slabs, taps; /* result rows of a slab, slabs of an image, taps of all classes */
} dj_walk;

DJ_INLINE int64_t dj_volume(const int64_t *d) { return d[0] * d[1] * d[2]; }

DJ_INLINE int64_t dj_base(const dj_walk *w, int d, int64_t p) {
    return (p * w->scale[d] + w->shift[d]) / w->divide[d];
}

/* Slabs of at most `most` rows; their planes. */
static __attribute__((unused)) void dj_cut(dj_walk *w, int64_t channel_bytes, int64_t most,
                                           int64_t tasks) {
    for (int d = 1; d < 3; d++)
        w->plane[d] = dj_max_index(dj_base(w, d, w->result[d] - 1) + w->reach[d] + 1, 1);
    int64_t row = dj_max_index(channel_bytes * w->plane[1] * w->plane[2], 1);
    int64_t fit = (DJ_SLAB_BYTES / row - w->reach[0] - 1) * w->divide[0] / w->scale[0] + 1;
    int64_t split = DJ_MOST_TASKS / dj_max_index(tasks, 1);
    if (split > 1) most = dj_min_index(most, (w->result[0] + split - 1) / split);
    w->rows = dj_max_index(dj_min_index(dj_min_index(fit, most), w->result[0]), 1);
    w->slabs = (w->result[0] + w->rows - 1) / w->rows;
    w->plane[0] = ((w->rows - 1) * w->scale[0] + w->divide[0] - 1) / w->divide[0] + w->reach[0] + 1;
}

static __attribute__((unused)) dj_walk dj_walk_forward(const dj_convolution *c) {
    dj_walk w;
    for (int d = 0; d < 3; d++) {
        w.result[d] = c->out[d], w.source[d] = c->in[d], w.lead[d] = c->before[d];
        w.reach[d] = (c->size[d] - 1) * c->dilation[d];
        w.scale[d] = c->stride[d], w.shift[d] = 0, w.divide[d] = 1;
    }
    w.taps = dj_volume(c->size);
    return w;
}

static __attribute__((unused)) dj_walk dj_walk_back(const dj_convolution *c) {
    dj_walk w;
    for (int d = 0; d < 3; d++) {
        w.result[d] = c->in[d], w.source[d] = c->out[d];
        w.reach[d] = w.lead[d] = (c->size[d] - 1) * c->dilation[d] / c->stride[d];
        w.scale[d] = 1, w.shift[d] = c->before[d], w.divide[d] = c->stride[d];
    }
    w.taps = dj_volume(c->size);
    return w;
}

/* The taps of a class: their numbers and their offsets in a plane; returns how many. */
static __attribute__((unused)) int64_t dj_taps(const dj_convolution *c, const dj_walk *w,
                                               int is_back, int64_t class, int64_t *number,
                                               int64_t *offset) {
    int64_t count = 0, rest[3] = {class / w->divide[2] / w->divide[1],
                                  class / w->divide[2] % w->divide[1], class % w->divide[2]};
    for (int64_t tap = 0; tap < w->taps; tap++) {
        int64_t k[3] = {tap / c->size[2] / c->size[1], tap / c->size[2] % c->size[1],
                        tap % c->size[2]};
        int64_t place = 0;
        int is_in = 1;
        for (int d = 0; d < 3; d++) {
            int64_t step = k[d] * c->dilation[d];
            is_in &= step % w->divide[d] == rest[d];
            if (is_back) step = w->reach[d] - (step - rest[d]) / w->divide[d];
            place = place * w->plane[d] + step;
        }
        if (is_in) number[count] = tap, offset[count++] = place;
    }
    return count;
}

/* Pixels of one class in the rows [first, end) of a slab: counts and first positions per dim. */
typedef struct {
    int64_t start[3], count[3];
} dj_pixels;

static __attribute__((unused)) dj_pixels dj_pixels_of(const dj_walk *w, int64_t class,
                                                      int64_t first, int64_t end) {
    int64_t rest[3] = {class / w->divide[2] / w->divide[1], class / w->divide[2] % w->divide[1],
                       class % w->divide[2]};
    dj_pixels pixels;
    for (int d = 0; d < 3; d++) {
        int64_t low = d ? 0 : first, high = d ? w->result[d] : end, n = w->divide[d];
        int64_t start = low + ((rest[d] - (low + w->shift[d])) % n + n) % n;
        pixels.start[d] = start;
        pixels.count[d] = start < high ? (high - start + n - 1) / n : 0;
    }
    return pixels;
}

/* Where the pixels [from, from + count) of a class lie in the slab and in the result. */
static __attribute__((unused)) void dj_places(const dj_walk *w, const dj_pixels *pixels,
                                              int64_t first, int64_t from, int64_t count,
                                              int64_t *base, int64_t *place) {
    int64_t p2 = from % pixels->count[2], rest = from / pixels->count[2];
    int64_t p1 = rest % pixels->count[1], p0 = rest / pixels->count[1];
    const int64_t origin = dj_base(w, 0, first);
    for (int64_t i = 0; i < count;) {
        int64_t a = pixels->start[0] + p0 * w->divide[0], b = pixels->start[1] + p1 * w->divide[1];
        int64_t row = ((dj_base(w, 0, a) - origin) * w->plane[1] + dj_base(w, 1, b)) * w->plane[2];
        int64_t out = (a * w->result[1] + b) * w->result[2];
        int64_t left = dj_min_index(pixels->count[2] - p2, count - i);
        int64_t q = pixels->start[2] + p2 * w->divide[2], from2 = dj_base(w, 2, q);
        for (int64_t j = 0; j < left; j++) base[i + j] = row + from2 + j * w->scale[2];
        if (place)
            for (int64_t j = 0; j < left; j++) place[i + j] = out + q + j * w->divide[2];
        i += left, p2 = 0;
        if (++p1 == pixels->count[1]) p1 = 0, p0++;
    }
}

/* Step k of a sum over channels and `count` taps: some channels tap by tap, then the next ones. */
DJ_INLINE void dj_step(int64_t k, int64_t count, int64_t channels, int64_t *channel, int64_t *tap) {
    const int64_t first = k / (count * DJ_TOGETHER) * DJ_TOGETHER;
    const int64_t together = dj_min_index(DJ_TOGETHER, channels - first);
    k -= first * count;
    *channel = first + k % together, *tap = k / together;
}

/* Steps of a sum that begins with 0; sums of these are added up. */
DJ_INLINE int64_t dj_span(int64_t depth, int64_t taps) {
    return DJ_APART && taps > 1 ? taps * DJ_TOGETHER : dj_max_index(depth, 1);
}

/* Memory of a call, cut into pieces at multiples of 64 bytes. */
DJ_INLINE int64_t dj_room(int64_t count, int64_t size) { return (count * size + 63) / 64 * 64; }

/* result[r][o] = sum over k of source[starts[r] + steps[k]] * weights[k][o], added to what is there
 * unless it is the first pass. */
#define DJ_LOAD(r, p) a##r##_##p = *(const vector *)(result + r * BLOCK + p * WIDTH);
#define DJ_ZERO(r, p) a##r##_##p = (vector){0};
#define DJ_NAME(r, p) vector a##r##_##p;
#define DJ_ADD(r, p) a##r##_##p += x##r * w##p;
#define DJ_KEEP(r, p) *(vector *)(result + r * BLOCK + p * WIDTH) = a##r##_##p;
#define DJ_WEIGHT(r, p) const vector w##p = *(const vector *)(weights + p * WIDTH);
#define DJ_ALL_LOAD(r) DJ_PIECES(DJ_LOAD, r)
#define DJ_ALL_ZERO(r) DJ_PIECES(DJ_ZERO, r)
#define DJ_ALL_NAME(r) DJ_PIECES(DJ_NAME, r)
#define DJ_ALL_KEEP(r) DJ_PIECES(DJ_KEEP, r)
#define DJ_START(r) const T *s##r = source + starts[r];
#define DJ_STEP(r) { const T x##r = s##r[step]; DJ_PIECES(DJ_ADD, r) }

#if defined(__clang__)
#define DJ_CONTRACT _Pragma("clang fp contract(fast)")
#else
#define DJ_CONTRACT
#endif

#define DJ_TILE(TYPE, S)                                                                            \
    static __attribute__((noinline, unused)) void dj_tile_##S(                                      \
        const TYPE *source, const int64_t *steps, const int64_t *starts, const TYPE *weights,       \
        int64_t count, TYPE *result, int is_first) {                                                \
        DJ_CONTRACT                                                                                 \
        typedef TYPE T;                                                                             \
        typedef T vector __attribute__((vector_size(DJ_VECTOR_BYTES), aligned(sizeof(T)),           \
                                        may_alias));                                                \
        enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T), WIDTH = DJ_VECTOR_BYTES / sizeof(T) };           \
        DJ_EACH_ROW(DJ_START)                                                                       \
        DJ_EACH_ROW(DJ_ALL_NAME)                                                                    \
        if (is_first) {                                                                             \
            DJ_EACH_ROW(DJ_ALL_ZERO)                                                                \
        } else {                                                                                    \
            DJ_EACH_ROW(DJ_ALL_LOAD)                                                                \
        }                                                                                           \
        for (int64_t k = 0; k < count; k++, weights += BLOCK) {                                     \
            const int64_t step = steps[k];                                                          \
            DJ_PIECES(DJ_WEIGHT, 0)                                                                 \
            DJ_EACH_ROW(DJ_STEP)                                                                    \
        }                                                                                           \
        DJ_EACH_ROW(DJ_ALL_KEEP)                                                                    \
    }                                                                                               \
    /* The same for one channel and `length` pixels of a row, `scale` apart in the source. That     \
     * goes on for DJ_BESIDE pixels; `sum` has room for DJ_PIXELS. */                               \
    static __attribute__((noinline, unused)) void dj_row_##S(                                       \
        const TYPE *source, int64_t scale, const int64_t *steps, const TYPE *weights,               \
        int64_t count, TYPE start, TYPE *sum, int64_t length) {                                     \
        DJ_CONTRACT                                                                                 \
        enum { BLOCK = DJ_BLOCK_BYTES / sizeof(TYPE) };                                             \
        typedef TYPE lanes __attribute__((vector_size(DJ_BLOCK_BYTES), aligned(sizeof(TYPE)),       \
                                          may_alias));                                              \
        if (scale == 1) {                                                                           \
            for (int64_t j = 0; j < length; j += 2 * BLOCK) {                                       \
                const TYPE *x = source + j;                                                         \
                lanes a = {0}, b;                                                                   \
                a += start, b = a;                                                                  \
                for (int64_t k = 0; k < count; k++) {                                               \
                    const TYPE w = weights[k * BLOCK];                                              \
                    a += w * *(const lanes *)(x + steps[k]);                                        \
                    b += w * *(const lanes *)(x + steps[k] + BLOCK);                                \
                }                                                                                   \
                *(lanes *)(sum + j) = a, *(lanes *)(sum + j + BLOCK) = b;                           \
            }                                                                                       \
            return;                                                                                 \
        }                                                                                           \
        for (int64_t j = 0; j < length; j++) sum[j] = start;                                        \
        for (int64_t k = 0; k < count; k++) {                                                       \
            const TYPE *x = source + steps[k], w = weights[k * BLOCK];                              \
            for (int64_t j = 0; j < length; j++) sum[j] += w * x[j * scale];                        \
        }                                                                                           \
    }

#define DJ_CONVOLUTION(T, S)                                                                        \
    /* Rows from `from` on of some channels with zeros around them. */                              \
    static __attribute__((unused)) void dj_pad_##S(const dj_walk *w, const T *source,               \
                                                   int64_t channels, int64_t from, T *slab) {       \
        const int64_t width = w->plane[2], area = w->source[1] * w->source[2];                      \
        const int64_t front = dj_min_index(w->lead[2], width);                                      \
        const int64_t inner = dj_max_index(dj_min_index(w->source[2], width - front), 0);           \
        for (int64_t c = 0; c < channels; c++, source += w->source[0] * area)                       \
            for (int64_t i = 0; i < w->plane[0]; i++) {                                             \
                const int64_t a = from + i - w->lead[0];                                            \
                const int is_in = a >= 0 && a < w->source[0];                                       \
                for (int64_t j = 0; j < w->plane[1]; j++, slab += width) {                          \
                    const int64_t b = j - w->lead[1];                                               \
                    if (!is_in || b < 0 || b >= w->source[1]) {                                     \
                        memset(slab, 0, sizeof(T) * (size_t)width);                                 \
                        continue;                                                                   \
                    }                                                                               \
                    for (int64_t l = 0; l < front; l++) slab[l] = 0;                                \
                    memcpy(slab + front, source + a * area + b * w->source[2],                      \
                           sizeof(T) * (size_t)inner);                                              \
                    for (int64_t l = front + inner; l < width; l++) slab[l] = 0;                    \
                }                                                                                   \
            }                                                                                       \
    }                                                                                               \
                                                                                                    \
    /* A block's pixels, one row of channels each, to the planes of the result. */                  \
    static __attribute__((unused)) void dj_put_##S(const T *block, int64_t channels,                \
                                                   const int64_t *place, int64_t count,             \
                                                   int is_rectified, T *result, int64_t plane) {    \
        enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T) };                                                \
        const int is_dense = place[count - 1] - place[0] == count - 1;                              \
        for (int64_t o = 0; o < channels; o++) {                                                    \
            T *to = result + o * plane, line[DJ_PIXELS];                                            \
            for (int64_t q = 0; q < count; q++) line[q] = block[q * BLOCK + o];                     \
            if (is_rectified)                                                                       \
                for (int64_t q = 0; q < count; q++) line[q] = line[q] <= 0 ? 0 : line[q];            \
            if (is_dense)                                                                           \
                memcpy(to + place[0], line, sizeof(T) * (size_t)count);                             \
            else                                                                                    \
                for (int64_t q = 0; q < count; q++) to[place[q]] = line[q];                         \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    /* What the tasks of a convolution share; each thread of its team has `slab` bytes from `own` on. */\
    typedef struct {                                                                                \
        const dj_convolution *c;                                                                    \
        dj_walk w;                                                                                  \
        int64_t classes, results, sources, blocks; /* channels of a group; blocks of results */     \
        int64_t *starts; /* first tap of each class */                                              \
        int64_t *steps; /* per class: (source channel, tap) */                                      \
        T *weights; /* per class: (group, block, step, channel) */                                  \
        const T *source, *bias;                                                                     \
        T *result;                                                                                  \
        int is_narrow, team;                                                                        \
        int64_t tasks, slab;                                                                        \
        char *memory, *own; /* memory is to be freed */                                             \
    } dj_correlation_##S;                                                                           \
                                                                                                    \
    static __attribute__((unused)) void dj_wide_##S(                                                \
        const dj_correlation_##S *all, int64_t class, int64_t group, int64_t image, int64_t first,  \
        int64_t end, const T *slab) {                                                               \
        enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T) };                                                \
        const dj_walk *w = &all->w;                                                                 \
        const dj_pixels pixels = dj_pixels_of(w, class, first, end);                                \
        const int64_t total = dj_volume(pixels.count), plane = dj_volume(w->result);                \
        const int64_t depth = (all->starts[class + 1] - all->starts[class]) * all->sources;         \
        const int64_t *steps = all->steps + all->starts[class] * all->sources;                      \
        int64_t base[DJ_PIXELS], place[DJ_PIXELS];                                                  \
        const int64_t span = dj_span(depth, all->starts[class + 1] - all->starts[class]);           \
        T block[DJ_PIXELS * BLOCK] __attribute__((aligned(64)));                                    \
        T part[DJ_PIXELS * BLOCK] __attribute__((aligned(64)));                                     \
        for (int64_t from = 0; from < total; from += DJ_PIXELS) {                                   \
            const int64_t count = dj_min_index(DJ_PIXELS, total - from);                            \
            dj_places(w, &pixels, first, from, count, base, place);                                 \
            for (int64_t q = count; q % DJ_ROWS; q++) base[q] = base[count - 1];                    \
            for (int64_t o = 0; o < all->blocks; o++) {                                             \
                const T *weights = all->weights + all->starts[class] * all->sources *               \
                                       all->c->groups * all->blocks * BLOCK +                       \
                                   (group * all->blocks + o) * depth * BLOCK;                       \
                const int64_t channel = group * all->results + o * BLOCK;                           \
                const int64_t used = dj_min_index(BLOCK, all->results - o * BLOCK);                 \
                if (!depth || all->bias) memset(block, 0, sizeof block);                            \
                if (all->bias)                                                                      \
                    for (int64_t q = 0; q < count; q++)                                             \
                        memcpy(block + q * BLOCK, all->bias + channel, sizeof(T) * (size_t)used);   \
                for (int64_t start = 0; start < depth; start += span) {                             \
                    const int64_t stop = dj_min_index(start + span, depth);                         \
                    const int is_added = DJ_APART && (start || all->bias);                          \
                    const int continues = !DJ_APART && all->bias;                                   \
                    T *sum = is_added ? part : block;                                               \
                    for (int64_t k = start; k < stop; k += DJ_DEPTH)                                \
                        for (int64_t q = 0; q < count; q += DJ_ROWS)                                \
                            dj_tile_##S(slab, steps + k, base + q, weights + k * BLOCK,             \
                                        dj_min_index(DJ_DEPTH, stop - k), sum + q * BLOCK,          \
                                        k == start && !continues);                                  \
                    for (int64_t i = 0; i < count * BLOCK && is_added; i++) block[i] += part[i];    \
                }                                                                                   \
                dj_put_##S(block, used, place, count, all->c->is_rectified,                         \
                           all->result + (image * all->c->groups * all->results + channel) * plane, \
                           plane);                                                                  \
            }                                                                                       \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    static __attribute__((unused)) void dj_narrow_##S(                                              \
        const dj_correlation_##S *all, int64_t class, int64_t group, int64_t image, int64_t first,  \
        int64_t end, const T *slab) {                                                               \
        enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T) };                                                \
        const dj_walk *w = &all->w;                                                                 \
        const dj_pixels pixels = dj_pixels_of(w, class, first, end);                                \
        const int64_t rows = pixels.count[2] ? pixels.count[0] * pixels.count[1] : 0;               \
        const int64_t depth = (all->starts[class + 1] - all->starts[class]) * all->sources;         \
        const int64_t *steps = all->steps + all->starts[class] * all->sources;                      \
        const T *weights = all->weights + all->starts[class] * all->sources * all->c->groups *      \
                                              all->blocks * BLOCK + group * depth * BLOCK;          \
        const int64_t span = dj_span(depth, all->starts[class + 1] - all->starts[class]);           \
        for (int64_t row = 0; row < rows; row++)                                                    \
            for (int64_t from = 0; from < pixels.count[2]; from += DJ_PIXELS) {                     \
                const int64_t count = dj_min_index(DJ_PIXELS, pixels.count[2] - from);              \
                int64_t base, place;                                                                \
                dj_places(w, &pixels, first, row * pixels.count[2] + from, 1, &base, &place);       \
                for (int64_t o = 0; o < all->results; o++) {                                        \
                    const int64_t channel = group * all->results + o;                               \
                    const T plus = all->bias ? all->bias[channel] : 0;                              \
                    T line[DJ_PIXELS], part[DJ_PIXELS], *to = all->result + place +                 \
                        (image * all->c->groups * all->results + channel) * dj_volume(w->result);   \
                    for (int64_t q = 0; q < count; q++) line[q] = plus;                             \
                    for (int64_t start = 0; start < depth; start += span) {                         \
                        const int is_added = DJ_APART && (start || all->bias);                      \
                        dj_row_##S(slab + base, w->scale[2], steps + start,                         \
                                   weights + o + start * BLOCK, dj_min_index(span, depth - start),  \
                                   DJ_APART ? 0 : plus, is_added ? part : line, count);             \
                        for (int64_t q = 0; q < count && is_added; q++) line[q] += part[q];         \
                    }                                                                               \
                    if (all->c->is_rectified)                                                       \
                        for (int64_t q = 0; q < count; q++) line[q] = line[q] <= 0 ? 0 : line[q];    \
                    for (int64_t q = 0; q < count; q++) to[q * w->divide[2]] = line[q];             \
                }                                                                                   \
            }                                                                                       \
    }                                                                                               \
                                                                                                    \
    /* The weights in the order in which tiles read them; zeros beside the last channel. */         \
    static __attribute__((unused)) void dj_pack_taps_##S(dj_correlation_##S *all, const T *weight,  \
                                                    int is_back, int64_t *scratch, int team) {      \
        enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T) };                                                \
        const int64_t taps = all->w.taps, step = is_back ? all->results * taps : taps;              \
        const int64_t across = is_back ? taps : all->sources * taps, groups = all->c->groups;       \
        const int64_t plane = dj_volume(all->w.plane);                                              \
        all->starts[0] = 0;                                                                         \
        for (int64_t class = 0; class < all->classes; class++) {                                    \
            int64_t *number = scratch, *offset = scratch + taps, start = all->starts[class];        \
            const int64_t count = dj_taps(all->c, &all->w, is_back, class, number, offset);         \
            const int64_t depth = count * all->sources;                                             \
            all->starts[class + 1] = start + count;                                                 \
            for (int64_t k = 0; k < depth; k++) {                                                   \
                int64_t channel, tap;                                                               \
                dj_step(k, count, all->sources, &channel, &tap);                                    \
                all->steps[start * all->sources + k] = channel * plane + offset[tap];               \
            }                                                                                       \
            T *to = all->weights + start * all->sources * groups * all->blocks * BLOCK;             \
            _Pragma("omp parallel for schedule(static) num_threads(team)")                          \
            for (int64_t b = 0; b < groups * all->blocks; b++) {                                    \
                const int64_t group = b / all->blocks, o = b % all->blocks * BLOCK;                 \
                const T *from = weight + group * all->results * all->sources * taps + o * across;   \
                const int64_t used = dj_min_index(BLOCK, all->results - o);                         \
                for (int64_t k = 0; k < depth; k++) {                                               \
                    int64_t channel, tap;                                                           \
                    dj_step(k, count, all->sources, &channel, &tap);                                \
                    const T *at = from + channel * step + number[tap];                              \
                    T *line = to + (b * depth + k) * BLOCK;                                         \
                    for (int64_t l = 0; l < BLOCK; l++) line[l] = l < used ? at[l * across] : 0;    \
                }                                                                                   \
            }                                                                                       \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    /* The transpose in x where a weight is infinite or NaN: times the zeros around `y` it would be */ \
    /* NaN where no window is. One element after the other. */                                      \
    static __attribute__((unused)) int dj_finite_taps_##S(const T *weight, int64_t n) {             \
        T sum = 0;                                                                                  \
        for (int64_t i = 0; i < n; i++) sum += weight[i] * 0;                                       \
        return sum == 0;                                                                            \
    }                                                                                               \
    static __attribute__((noinline, cold, unused)) void dj_exact_back_##S(                          \
        const dj_convolution *c, const T *y, const T *weight, T *result) {                          \
        const int64_t area = dj_volume(c->in), taps = dj_volume(c->size), out = dj_volume(c->out);  \
        for (int64_t i = 0; i < c->batch * c->groups * c->channels * area; i++) {                   \
            const int64_t p[3] = {i / c->in[2] / c->in[1] % c->in[0], i / c->in[2] % c->in[1],      \
                                  i % c->in[2]};                                                    \
            const int64_t channel = i / area % c->channels, lane = i / area / c->channels;          \
            T sum = 0;                                                                              \
            for (int64_t tap = 0; tap < taps; tap++) {                                              \
                const int64_t k[3] = {tap / c->size[2] / c->size[1], tap / c->size[2] % c->size[1], \
                                      tap % c->size[2]};                                            \
                int64_t place = 0;                                                                  \
                int is_in = 1;                                                                      \
                for (int d = 0; d < 3; d++) {                                                       \
                    const int64_t step = p[d] + c->before[d] - k[d] * c->dilation[d];               \
                    is_in &= step >= 0 && step % c->stride[d] == 0 && step / c->stride[d] < c->out[d]; \
                    place = place * c->out[d] + step / c->stride[d];                                \
                }                                                                                   \
                if (!is_in) continue;                                                               \
                for (int64_t o = 0; o < c->outputs; o++)                                            \
                    sum += y[(lane * c->outputs + o) * out + place] *                               \
                           weight[((lane % c->groups * c->outputs + o) * c->channels + channel) *   \
                                      taps + tap];                                                  \
            }                                                                                       \
            result[i] = c->is_rectified && sum <= 0 ? 0 : sum;                                      \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    /* Everything before the tasks; 0 if there are none, since all is done or there is no memory. */\
    static __attribute__((unused)) int dj_begin_correlation_##S(                                    \
        dj_correlation_##S *all, const dj_convolution *c, int is_back, const T *source,             \
        const T *weight, const T *bias, T *result, int threads, int64_t *status) {                  \
        enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T) };                                                \
        *all = (dj_correlation_##S){.c = c, .source = source, .bias = bias, .result = result};      \
        dj_walk *w = &all->w;                                                                       \
        *w = is_back ? dj_walk_back(c) : dj_walk_forward(c);                                        \
        all->results = is_back ? c->channels : c->outputs;                                          \
        all->sources = is_back ? c->outputs : c->channels;                                          \
        all->blocks = (all->results + BLOCK - 1) / BLOCK;                                           \
        all->classes = dj_volume(w->divide);                                                        \
        const int64_t lanes = c->batch * c->groups;                                                 \
        const int64_t work = lanes * all->results * all->sources * w->taps * dj_volume(c->out);     \
        all->team = work >= DJ_CONVOLUTION_WORK ? threads : 1;                                      \
        if (lanes * all->results * dj_volume(w->result) == 0) return 0;                             \
        if (is_back && !dj_finite_taps_##S(weight,                                                  \
                                          c->groups * all->results * all->sources * w->taps)) {     \
            dj_exact_back_##S(c, source, weight, result);                                           \
            return 0;                                                                               \
        }                                                                                           \
        dj_cut(w, all->sources * (int64_t)sizeof(T), w->result[0],                                  \
               work >= DJ_CONVOLUTION_WORK ? lanes : DJ_MOST_TASKS);                                \
        all->tasks = lanes * w->slabs;                                                              \
        const int64_t steps = all->sources * w->taps;                                               \
        const int64_t packed = steps * c->groups * all->blocks * BLOCK;                             \
        const int64_t table = dj_room(all->classes + 1 + steps + 2 * w->taps, sizeof(int64_t));     \
        const int64_t weights = dj_room(packed, sizeof(T));                                         \
        all->slab = dj_room(all->sources * dj_volume(w->plane) + DJ_BESIDE, sizeof(T));             \
        all->memory = malloc((size_t)(table + weights + all->slab * all->team + 64));               \
        if (!all->memory) { status[0] = 3; return 0; }                                              \
        char *aligned = all->memory + (64 - (uintptr_t)all->memory % 64);                           \
        all->starts = (int64_t *)aligned, all->steps = all->starts + all->classes + 1;              \
        all->weights = (T *)(aligned + table), all->own = aligned + table + weights;                \
        dj_pack_taps_##S(all, weight, is_back, all->steps + steps, all->team);                      \
        all->is_narrow = all->results <= (w->scale[2] == 1 ? DJ_NARROW : DJ_NARROW / 2);            \
        return 1;                                                                                   \
    }                                                                                               \
                                                                                                    \
    static __attribute__((unused)) void dj_correlation_task_##S(const dj_correlation_##S *all,      \
                                                                int64_t task, int64_t thread) {     \
        const dj_walk *w = &all->w;                                                                 \
        T *own = (T *)(all->own + all->slab * thread);                                              \
        const int64_t first = task % w->slabs * w->rows, lane = task / w->slabs;                    \
        const int64_t end = dj_min_index(first + w->rows, w->result[0]), groups = all->c->groups;   \
        dj_pad_##S(w, all->source + lane * all->sources * dj_volume(w->source), all->sources,       \
                   dj_base(w, 0, first), own);                                                      \
        for (int64_t class = 0; class < all->classes; class++)                                      \
            (all->is_narrow ? dj_narrow_##S : dj_wide_##S)(all, class, lane % groups,               \
                                                           lane / groups, first, end, own);         \
    }                                                                                               \
                                                                                                    \
    static __attribute__((unused)) void dj_correlate_##S(                                           \
        const dj_convolution *c, int is_back, const T *source, const T *weight, const T *bias,      \
        T *result, int threads, int64_t *status) {                                                  \
        dj_correlation_##S all;                                                                     \
        if (!dj_begin_correlation_##S(&all, c, is_back, source, weight, bias, result, threads,      \
                                      status))                                                      \
            return;                                                                                 \
        _Pragma("omp parallel for schedule(dynamic) num_threads(all.team)")                         \
        for (int64_t task = 0; task < all.tasks; task++)                                            \
            dj_correlation_task_##S(&all, task, dj_thread());                                       \
        free(all.memory);                                                                           \
    }                                                                                               \
                                                                                                    \
    /* The gradient of the weights: sums over images and pixels of windows times `y`. Parts are summed\
     * in order; large weights have fewer, and tasks have fewer channels. */                        \
    typedef struct {                                                                                \
        const dj_convolution *c;                                                                    \
        dj_walk w;                                                                                  \
        const T *x, *y;                                                                             \
        int64_t blocks, depth, units, part, parts, few, cuts, pixels;                               \
        int64_t *steps;                                                                             \
        T *total;                                                                                   \
        int team, is_few; /* is_few: outputs of a group */                                          \
        int64_t tasks, slab, turned, room; /* room: bytes of a thread from `own` on */              \
        char *memory, *own;                                                                         \
    } dj_weighing_##S;                                                                              \
                                                                                                    \
    static __attribute__((unused)) int dj_begin_weighing_##S(                                       \
        dj_weighing_##S *all, const dj_convolution *c, const T *y, const T *x, int threads,         \
        int64_t *status) {                                                                          \
        enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T) };                                                \
        *all = (dj_weighing_##S){.c = c, .w = dj_walk_forward(c), .x = x, .y = y};                  \
        dj_walk *w = &all->w;                                                                       \
        const int64_t taps = w->taps;                                                               \
        const int64_t work = c->batch * c->groups * c->outputs * c->channels * taps *               \
                             dj_volume(c->out);                                                     \
        all->team = work >= DJ_CONVOLUTION_WORK ? threads : 1;                                      \
        if (c->groups * c->outputs * c->channels * taps == 0) return 0;                             \
        const int64_t area = dj_max_index(c->out[1] * c->out[2], 1);                                \
        dj_cut(w, c->channels * (int64_t)sizeof(T), dj_max_index(DJ_GRADIENT_PIXELS / area, 1),     \
               DJ_MOST_TASKS);                                                                      \
        all->blocks = (c->outputs + BLOCK - 1) / BLOCK;                                             \
        all->depth = c->channels * taps, all->units = c->batch * w->slabs;                          \
        all->part = c->groups * all->blocks * all->depth * BLOCK;                                   \
        const int64_t fit = dj_max_index((1 << 20) / all->part, 1);                                 \
        all->parts = dj_max_index(dj_min_index(dj_min_index(all->units, fit), DJ_MOST_TASKS), 1);   \
        const int64_t wanted = dj_max_index(DJ_MOST_TASKS / 2 / (all->parts * c->groups), 1);       \
        all->few = dj_max_index((c->channels + wanted - 1) / wanted, 16);                           \
        all->cuts = (c->channels + all->few - 1) / all->few;                                        \
        all->tasks = all->parts * c->groups * all->cuts, all->pixels = w->rows * area;              \
        const int64_t plane = dj_volume(w->plane);                                                  \
        all->is_few = c->outputs <= DJ_NARROW;                                                      \
        const int64_t beside = all->is_few ? DJ_BESIDE * w->scale[2] : 0;                           \
        all->slab = dj_room(plane * dj_min_index(all->few, c->channels) + beside, sizeof(T));       \
        all->turned = dj_room(all->pixels * BLOCK, sizeof(T));                                      \
        all->room = all->slab + all->turned + dj_room(all->pixels, sizeof(int64_t));                \
        const int64_t table = dj_room(all->depth + DJ_ROWS + 2 * taps, sizeof(int64_t));            \
        const int64_t sums = dj_room(all->parts * all->part, sizeof(T));                            \
        all->memory = malloc((size_t)(table + sums + all->room * all->team + 64));                  \
        if (!all->memory) { status[0] = 3; return 0; }                                              \
        char *aligned = all->memory + (64 - (uintptr_t)all->memory % 64);                           \
        all->steps = (int64_t *)aligned, all->total = (T *)(aligned + table);                       \
        all->own = aligned + table + sums;                                                          \
        int64_t *number = all->steps + all->depth + DJ_ROWS;                                        \
        dj_taps(c, w, 0, 0, number, number + taps);                                                 \
        for (int64_t k = 0; k < all->depth; k++)                                                    \
            all->steps[k] = k / taps * plane + number[taps + k % taps];                             \
        memset(all->total, 0, (size_t)sums);                                                        \
        return 1;                                                                                   \
    }                                                                                               \
                                                                                                    \
    /* What `count` rows of a slab add to the gradient, where a group has few outputs: pixels, not  \
     * outputs, fill the vectors. Four taps are summed side by side, so that sums need not wait.    \
     * `turn` has room for the rows of y with zeros behind them, `at` for their places. */          \
    static __attribute__((noinline, unused)) void dj_weigh_few_##S(                                 \
        const dj_weighing_##S *all, const T *slab, const T *y, int64_t count, int64_t channels,     \
        T *turn, int64_t *at, T *sum) {                                                             \
        DJ_CONTRACT                                                                                 \
        enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T) };                                                \
        typedef T lanes __attribute__((vector_size(DJ_BLOCK_BYTES), aligned(sizeof(T)),             \
                                       may_alias));                                                 \
        typedef int64_t words __attribute__((vector_size(DJ_BLOCK_BYTES)));                         \
        const dj_walk *w = &all->w;                                                                 \
        const int64_t width = w->result[2], scale = w->scale[2], rest = width % BLOCK;              \
        const int64_t pitch = (width + BLOCK - 1) / BLOCK * BLOCK;                                  \
        const int64_t depth = channels * w->taps, whole = dj_volume(w->result);                     \
        lanes marks = {0};                                                                          \
        memset(&marks, 255, (size_t)rest * sizeof(T));                                              \
        for (int64_t row = 0; row < count; row++) {                                                 \
            const int64_t plane = row / w->result[1] * w->scale[0] * w->plane[1];                   \
            at[row] = (plane + row % w->result[1] * w->scale[1]) * w->plane[2];                     \
        }                                                                                           \
        for (int64_t o = 0; o < all->c->outputs; o++, y += whole) {                                 \
            for (int64_t row = 0; row < count; row++) {                                             \
                memcpy(turn + row * pitch, y + row * width, (size_t)width * sizeof(T));             \
                for (int64_t j = width; j < pitch; j++) turn[row * pitch + j] = 0;                  \
            }                                                                                       \
            for (int64_t k = 0; k < depth; k += 4) {                                                \
                const T *taps[4];                                                                   \
                for (int r = 0; r < 4; r++)                                                         \
                    taps[r] = slab + all->steps[k + dj_min_index(r, depth - 1 - k)];                \
                lanes a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0};                                       \
                for (int64_t row = 0; row < count; row++) {                                         \
                    for (int64_t j = 0; j < width; j += BLOCK) {                                    \
                        const lanes g = *(const lanes *)(turn + row * pitch + j);                   \
                        const int64_t place = at[row] + j * scale;                                  \
                        lanes x0, x1, x2, x3;                                                       \
                        if (scale == 1) {                                                           \
                            x0 = *(const lanes *)(taps[0] + place);                                 \
                            x1 = *(const lanes *)(taps[1] + place);                                 \
                            x2 = *(const lanes *)(taps[2] + place);                                 \
                            x3 = *(const lanes *)(taps[3] + place);                                 \
                        } else {                                                                    \
                            for (int l = 0; l < BLOCK; l++) {                                       \
                                x0[l] = taps[0][place + l * scale];                                 \
                                x1[l] = taps[1][place + l * scale];                                 \
                                x2[l] = taps[2][place + l * scale];                                 \
                                x3[l] = taps[3][place + l * scale];                                 \
                            }                                                                       \
                        }                                                                           \
                        if (j + BLOCK > width) { /* what stands beside a row may be no number */    \
                            const words left = (words)marks;                                        \
                            x0 = (lanes)((words)x0 & left), x1 = (lanes)((words)x1 & left);         \
                            x2 = (lanes)((words)x2 & left), x3 = (lanes)((words)x3 & left);         \
                        }                                                                           \
                        a0 += g * x0, a1 += g * x1, a2 += g * x2, a3 += g * x3;                     \
                    }                                                                               \
                }                                                                                   \
                const lanes found[4] = {a0, a1, a2, a3};                                            \
                for (int64_t r = 0; r < 4 && k + r < depth; r++) {                                  \
                    T total = 0;                                                                    \
                    for (int l = 0; l < BLOCK; l++) total += found[r][l];                           \
                    sum[(k + r) * BLOCK + o] += total;                                              \
                }                                                                                   \
            }                                                                                       \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    static __attribute__((unused)) void dj_weighing_task_##S(const dj_weighing_##S *all,            \
                                                             int64_t task, int64_t thread) {        \
        enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T) };                                                \
        const dj_convolution *c = all->c;                                                           \
        const dj_walk *w = &all->w;                                                                 \
        char *mine = all->own + all->room * thread;                                                 \
        T *padded = (T *)mine, *turn = (T *)(mine + all->slab);                                     \
        int64_t *base = (int64_t *)(mine + all->slab + all->turned);                                \
        const int64_t cut = task % all->cuts, group = task / all->cuts % c->groups;                 \
        const int64_t p = task / all->cuts / c->groups, channel = cut * all->few;                   \
        const int64_t own_channels = dj_min_index(all->few, c->channels - channel);                 \
        const int64_t area = dj_max_index(c->out[1] * c->out[2], 1), whole = dj_volume(c->out);     \
        const int64_t last = all->units * (p + 1) / all->parts;                                     \
        for (int64_t unit = all->units * p / all->parts; unit < last; unit++) {                     \
            const int64_t image = unit / w->slabs, first = unit % w->slabs * w->rows;               \
            const int64_t end = dj_min_index(first + w->rows, c->out[0]);                           \
            const int64_t count = (end - first) * area, lane = image * c->groups + group;           \
            const dj_pixels pixels = dj_pixels_of(w, 0, first, end);                                \
            if (!count || !dj_volume(pixels.count)) continue;                                       \
            dj_pad_##S(w, all->x + (lane * c->channels + channel) * dj_volume(c->in), own_channels, \
                       dj_base(w, 0, first), padded);                                               \
            if (all->is_few) {                                                                      \
                T *sum = all->total + p * all->part +                                               \
                         (group * all->depth + channel * w->taps) * BLOCK;                          \
                dj_weigh_few_##S(all, padded, all->y + lane * c->outputs * whole + first * area,    \
                                 (end - first) * c->out[1], own_channels, turn, base, sum);         \
                continue;                                                                           \
            }                                                                                       \
            dj_places(w, &pixels, first, 0, count, base, NULL);                                     \
            for (int64_t o = 0; o < all->blocks; o++) {                                             \
                const int64_t used = dj_min_index(BLOCK, c->outputs - o * BLOCK);                   \
                const T *from = all->y + (lane * c->outputs + o * BLOCK) * whole + first * area;    \
                for (int64_t l = 0; l < BLOCK; l++)                                                 \
                    for (int64_t q = 0; q < count; q++)                                             \
                        turn[q * BLOCK + l] = l < used ? from[l * whole + q] : 0;                   \
                T *sum = all->total + p * all->part +                                               \
                         ((group * all->blocks + o) * all->depth + channel * w->taps) * BLOCK;      \
                for (int64_t k = 0; k < own_channels * w->taps; k += DJ_ROWS) {                     \
                    T some[DJ_ROWS * BLOCK] __attribute__((aligned(64)));                           \
                    int64_t starts[DJ_ROWS];                                                        \
                    const int64_t rows = dj_min_index(DJ_ROWS, own_channels * w->taps - k);         \
                    for (int64_t r = 0; r < DJ_ROWS; r++)                                           \
                        starts[r] = all->steps[k + dj_min_index(r, rows - 1)];                      \
                    dj_tile_##S(padded, base, starts, turn, count, some, 1);                        \
                    for (int64_t i = 0; i < rows * BLOCK; i++) sum[k * BLOCK + i] += some[i];       \
                }                                                                                   \
            }                                                                                       \
        }                                                                                           \
    }                                                                                               \
                                                                                                    \
    static __attribute__((unused)) void dj_end_weighing_##S(dj_weighing_##S *all, T *result) {      \
        enum { BLOCK = DJ_BLOCK_BYTES / sizeof(T) };                                                \
        const dj_convolution *c = all->c;                                                           \
        const int64_t depth = all->depth;                                                           \
        T *total = all->total;                                                                      \
        for (int64_t p = 1; p < all->parts; p++)                                                    \
            for (int64_t i = 0; i < all->part; i++) total[i] += total[p * all->part + i];           \
        for (int64_t o = 0; o < c->groups * c->outputs; o++) {                                      \
            const int64_t group = o / c->outputs, lane = o % c->outputs;                            \
            const T *sum = total + (group * all->blocks + lane / BLOCK) * depth * BLOCK +           \
                           lane % BLOCK;                                                            \
            for (int64_t k = 0; k < depth; k++) result[o * depth + k] = sum[k * BLOCK];             \
        }                                                                                           \
        free(all->memory);                                                                          \
    }                                                                                               \
                                                                                                    \
    static __attribute__((unused)) void dj_weigh_##S(const dj_convolution *c, const T *y,           \
                                                     const T *x, T *result, int threads,            \
                                                     int64_t *status) {                             \
        dj_weighing_##S all;                                                                        \
        if (!dj_begin_weighing_##S(&all, c, y, x, threads, status)) return;                         \
        _Pragma("omp parallel for schedule(dynamic) num_threads(all.team)")                         \
        for (int64_t task = 0; task < all.tasks; task++)                                            \
            dj_weighing_task_##S(&all, task, dj_thread());                                          \
        dj_end_weighing_##S(&all, result);                                                          \
    }
