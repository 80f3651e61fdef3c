/* Convolutions of generated C: products of windows and weights without the windows as a matrix.
 *
 * A convolution and its transpose in x are one walk: each result element is a sum over source
 * channels and taps, `source[base(p) + offset(tap)] * weight`, and the bias (see DJ_APART). Results of
 * a transpose with a stride fall into classes by their remainder: each class has its own taps. This
 * file has what no dtype matters to: sizes, walks, and where pixels lie; the sums are in
 * convolution_kernels.h, which is included once per dtype.
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

#define DJ_TALL (DJ_VECTOR_BYTES == 64 ? 8 : 6)

enum {
    DJ_BLOCK_BYTES = 64,     /* of the vectors that the compiler cuts to the CPU's */
    DJ_ACROSS = 2,           /* vectors of pixels of a tile; DJ_TALL channels fill the registers */
    DJ_DEPTH = 192,          /* products per pixel and pass: a panel of them fits the first cache */
    DJ_PANELS = 16,          /* of a block, at most: they share what is read of the weights */
    DJ_GATHERING = 6,        /* channels computed in the time in which their line is gathered */
    DJ_BLOCK_SUMS = 1 << 18, /* of a block */
    DJ_SHALLOW = 64,         /* products of a pixel below which storing whole vectors counts more */
    DJ_CHUNK_PIXELS = 256,   /* of a task, at least, where there are so many */
    DJ_CUT_TILES = 16,       /* of channels, at least, of tasks that share pixels, */
    DJ_PADDED = 32,          /* whose slabs are padded so many channels at a time */
    DJ_SLAB_BYTES = 1 << 19,
    DJ_OPEN_PIXELS = 512,    /* of a result up to which weights are read where they lie, */
    DJ_SET_BYTES = 4096,     /* unless their rows begin on the same sets of the first cache */
    DJ_GRADIENT_PIXELS = 512,        /* of a slab whose gradient is summed */
    DJ_GRADIENT_BLOCK = 256,         /* pixels that are summed at a time, in the first cache, */
    DJ_GRADIENT_TALL = DJ_TALL,      /* for so many taps, */
    DJ_GRADIENT_DEPTH = 8 * DJ_TALL, /* of those that are gathered together, */
    DJ_GRADIENT_PITCH = DJ_GRADIENT_BLOCK + 16, /* so far apart: no power of two; */
    DJ_GRADIENT_RUN = 16,            /* pixels of a row from which they are read where they lie */
    DJ_MOST_PARTS = 16,
    DJ_NARROW = 4, /* channels up to which results are summed one channel at a time */
    DJ_PLANE_BYTES = 1 << 15, /* of a slab of a plane that is convolved alone; */
    DJ_PLANE_AHEAD = 1 << 13, /* bytes between what is read and what is asked for; */
    DJ_PLANE_PIXELS = 1 << 14, /* results of a task of such, about */
    DJ_BESIDE = 64, /* elements beside a slab that are read, and not meant */
};

#define DJ_CONVOLUTION_WORK (1 << 20) /* multiplications that are worth a team */

/* What is computed of results in their place, while they are cached: `run` does so for `count` of a
 * plane's, from `start` on; planes are numbered by (image, channel of all groups). */
typedef struct dj_epilogue {
    void (*run)(const struct dj_epilogue *, int64_t plane, int64_t start, int64_t count);
    const void *const *operands;
    const int64_t *sizes;
    const dj_scalar *scalars;
} dj_epilogue;

typedef struct {
    int64_t batch, groups, outputs, channels; /* channels of one group */
    int64_t in[3], out[3], size[3], stride[3], before[3], dilation[3];
    int is_rectified;            /* the result is max(0, sum) */
    const dj_epilogue *epilogue; /* NULL: none */
} dj_convolution;

/* The same with rows of planes in front, where tasks are cut. */
static __attribute__((unused)) dj_convolution dj_rows_first(const dj_convolution *given) {
    dj_convolution c = *given;
    int64_t *dims[] = {c.in, c.out, c.size, c.stride, c.before, c.dilation};
    if (c.in[0] != 1 || c.out[0] != 1 || c.size[0] != 1 || c.before[0]) return c;
    for (int i = 0; i < 6; i++) {
        const int64_t row = dims[i][1];
        dims[i][1] = dims[i][0], dims[i][0] = row;
    }
    return c;
}

/* Result position p reads the padded source at (p * scale + shift) / divide + offset of a tap. Along
 * rows a padded slab has every `phases`th element side by side: there pixels lie so, scale[2] is 1. */
typedef struct {
    int64_t result[3], source[3], lead[3], reach[3], scale[3], shift[3], divide[3];
    int64_t phases, phase;     /* stride along rows; how far apart its phases lie in a row of a slab */
    int64_t plane[3];          /* of a padded slab */
    int64_t rows, slabs, taps; /* result rows of a slab, slabs of an image, taps of all classes */
} dj_walk;

DJ_INLINE int64_t dj_quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

DJ_INLINE int64_t dj_volume(const int64_t *d) { return d[0] * d[1] * d[2]; }

DJ_INLINE int64_t dj_base(const dj_walk *w, int d, int64_t p) {
    return (p * w->scale[d] + w->shift[d]) / w->divide[d];
}

/* Vectors of `lanes` pixels that slabs of `rows` rows fill. */
DJ_INLINE int64_t dj_vectors(const dj_walk *w, int64_t rows, int64_t lanes) {
    const int64_t row = w->result[1] * w->result[2], rest = w->result[0] % rows;
    return w->result[0] / rows * dj_quotient_up(rows * row, lanes) + dj_quotient_up(rest * row, lanes);
}

/* Slabs of at most `most` rows, as many in each unless others fill fewer vectors; their planes. */
static __attribute__((unused)) void dj_cut(dj_walk *w, int64_t channel_bytes, int64_t most,
                                           int64_t lanes) {
    w->plane[1] = dj_max_index(dj_base(w, 1, w->result[1] - 1) + w->reach[1] + 1, 1);
    const int64_t last = dj_base(w, 2, w->result[2] - 1) * w->phases;
    w->phase = dj_max_index(dj_quotient_up(last + w->reach[2] + 1, w->phases), 1);
    w->plane[2] = w->phase * w->phases;
    int64_t row = dj_max_index(channel_bytes * w->plane[1] * w->plane[2], 1);
    int64_t fit = (DJ_SLAB_BYTES / row - w->reach[0] - 1) * w->divide[0] / w->scale[0] + 1;
    int64_t rows = dj_max_index(dj_min_index(dj_min_index(fit, most), w->result[0]), 1);
    w->slabs = dj_quotient_up(w->result[0], rows);
    w->rows = dj_max_index(dj_quotient_up(w->result[0], w->slabs), 1);
    for (int64_t other = w->rows + 1; w->slabs > 1 && other <= rows; other++)
        if (dj_vectors(w, other, lanes) < dj_vectors(w, w->rows, lanes)) w->rows = other;
    w->slabs = dj_quotient_up(w->result[0], w->rows);
    w->plane[0] = ((w->rows - 1) * w->scale[0] + w->divide[0] - 1) / w->divide[0] + w->reach[0] + 1;
}

/* Images of a task: several where one has few pixels. */
DJ_INLINE int64_t dj_images(const dj_walk *w, int64_t batch) {
    const int64_t pixels = dj_max_index(dj_volume(w->result) / dj_volume(w->divide), 1);
    if (w->slabs > 1 || pixels >= DJ_CHUNK_PIXELS) return 1;
    const int64_t chunks = dj_max_index(batch * pixels / DJ_CHUNK_PIXELS, 1);
    return dj_max_index(dj_quotient_up(batch, chunks), 1);
}

static __attribute__((unused)) dj_walk dj_walk_forward(const dj_convolution *c) {
    dj_walk w;
    for (int d = 0; d < 3; d++) {
        w.result[d] = c->out[d], w.source[d] = c->in[d], w.lead[d] = c->before[d];
        w.reach[d] = (c->size[d] - 1) * c->dilation[d];
        w.scale[d] = c->stride[d], w.shift[d] = 0, w.divide[d] = 1;
    }
    w.phases = w.scale[2], w.scale[2] = 1;
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
    w.phases = 1;
    w.taps = dj_volume(c->size);
    return w;
}

/* The pixels of a task: rows of some images. */
typedef struct {
    int64_t image, images, first, end;
} dj_chunk;

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
            if (d == 2) step = step % w->phases * w->phase + step / w->phases;
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

/* Pixels of a row, side by side in a slab from `from` on: the first one's number and its place in the
 * result, where they lie `divide` apart. */
typedef struct {
    int64_t from, at, count, place;
} dj_run;

/* The runs of the numbers [start, start + count) of a class's pixels, of several images one behind the
 * other, whose slabs and results lie so far apart; returns how many. A row has `width` numbers, of
 * which those beside its last pixel have none. Runs are no longer than `longest`. */
static __attribute__((unused)) int64_t dj_runs(const dj_walk *w, const dj_pixels *pixels,
                                               int64_t first, int64_t slab, int64_t result,
                                               int64_t width, int64_t longest, int64_t start,
                                               int64_t count, dj_run *runs) {
    const int64_t origin = dj_base(w, 0, first);
    const int64_t height = pixels->count[1], depth = pixels->count[0];
    int64_t p2 = start % width, rest = start / width;
    int64_t p1 = rest % height, p0 = rest / height % depth, image = rest / height / depth, n = 0;
    for (int64_t at = 0; at < count; n++) {
        const int64_t a = pixels->start[0] + p0 * w->divide[0];
        const int64_t b = pixels->start[1] + p1 * w->divide[1];
        const int64_t q = pixels->start[2] + p2 * w->divide[2];
        const int64_t row = (dj_base(w, 0, a) - origin) * w->plane[1] + dj_base(w, 1, b);
        const int64_t length = dj_min_index(dj_min_index(longest, width - p2), count - at);
        runs[n] = (dj_run){image * slab + row * w->plane[2] + dj_base(w, 2, q), at,
                           dj_max_index(dj_min_index(length, pixels->count[2] - p2), 0),
                           image * result + (a * w->result[1] + b) * w->result[2] + q};
        at += length, p2 += length;
        if (p2 < width) continue;
        p2 = 0;
        if (++p1 == height) p1 = 0, p0++;
        if (p0 == depth) p0 = 0, image++;
    }
    return n;
}

/* Steps of a sum that begins with 0; sums of these are added up. */
DJ_INLINE int64_t dj_span(int64_t depth, int64_t taps) {
    return DJ_APART && taps > 1 ? taps * DJ_TOGETHER : dj_max_index(depth, 1);
}

#if defined(__clang__)
#define DJ_CONTRACT _Pragma("clang fp contract(fast)")
#else
#define DJ_CONTRACT
#endif

/* Memory of a call, cut into pieces at multiples of 64 bytes. */
DJ_INLINE int64_t dj_room(int64_t count, int64_t size) { return (count * size + 63) / 64 * 64; }

