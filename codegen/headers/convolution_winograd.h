/* Convolutions of float32 by windows of 3x3, without stride: Winograd's F(2x2, 3x3), which multiplies
 * 16 times for four results where sums of windows multiply 36 times.
 *
 * A tile is 4x4 elements of the source and 2x2 of the result. Of every tile and of every window 16 sums
 * are made; what lies at one of the 16 places, of all channels, is a matrix, and 16 products of such
 * matrices give, by further sums, the results. A task does all this for two panels of tiles: the sums of
 * its tiles stay in the second cache, the 16 products of DJ_TALL channels and a panel in the first.
 * `dj_winograd_suits` says which convolutions are computed in this way; their transposes in x are such
 * convolutions, too.
 *
 * Tiles lie in planes. With a dilation of d, every d-th row and column of an image is a plane: it is a
 * convolution without dilation. In three dims a plane is one depth of the result, and a source channel
 * at each tap along depth counts as a channel of its own.
 *
 * Results are as exact as direct sums of as many terms, and their bits do not depend on the number of
 * threads, but they are not those of direct sums. A result is a sum of what its own window holds, so a
 * NaN goes where it would go; infinities and sums beyond the largest number might become NaN. So a
 * call whose results are not all finite answers 0, and is computed directly.
 *
 * S. Winograd, "Arithmetic Complexity of Computations", SIAM 1980; A. Lavin, S. Gray, "Fast Algorithms
 * for Convolutional Neural Networks", CVPR 2016. Included after convolution_kernels.h for float.
 */

enum {
    DJ_WINOGRAD_LANES = DJ_VECTOR_BYTES / (int)sizeof(float),
    DJ_WINOGRAD_TILES = DJ_ACROSS * DJ_WINOGRAD_LANES, /* of a panel */
    DJ_WINOGRAD_PANELS = 2,     /* of a task, at most */
    DJ_WINOGRAD_DEPTH = 128,    /* channels of a sum that begins with 0 */
    DJ_WINOGRAD_CHANNELS = 16,  /* of source and result, at least */
    DJ_WINOGRAD_FEWEST = 16,    /* tiles that are worth the sums of weights */
    DJ_WINOGRAD_ROW = 128,      /* results of a row of tiles that are worth a vector for it */
    DJ_WINOGRAD_CUT = 8,        /* tiles of channels, at least, of tasks that share a panel */
    DJ_WINOGRAD_TURNED = 16,    /* source channels whose weights are turned together */
    DJ_WINOGRAD_BESIDE = 16,    /* elements between matrices: they begin on other sets of a cache */
};

typedef dj_lanes_f32 dj_winograd_lanes;
typedef int32_t dj_winograd_masks __attribute__((vector_size(DJ_VECTOR_BYTES)));
typedef float dj_winograd_rows __attribute__((vector_size(32), aligned(4), may_alias));

/* Elements of a, and of b behind it, by their numbers: for each lane l. */
#if defined(__clang__)
#define DJ_WINOGRAD_PICKED(a, b, number)                                                            \
    __extension__({                                                                                 \
        dj_winograd_lanes picked;                                                                   \
        for (int l = 0; l < DJ_WINOGRAD_LANES; l++)                                                 \
            picked[l] = (number) < DJ_WINOGRAD_LANES ? (a)[(number) % DJ_WINOGRAD_LANES]            \
                                                     : (b)[(number) % DJ_WINOGRAD_LANES];           \
        picked;                                                                                     \
    })
#else
#define DJ_WINOGRAD_PICKED(a, b, number)                                                            \
    __extension__({                                                                                 \
        dj_winograd_masks order;                                                                    \
        _Pragma("GCC unroll 16") for (int l = 0; l < DJ_WINOGRAD_LANES; l++) order[l] = (number);   \
        __builtin_shuffle(a, b, order);                                                             \
    })
#endif

/* What the tasks share. Before them, `packs` tasks make the sums of weights. */
typedef struct {
    const float *source, *weight, *bias;
    float *result;
    dj_walk w;                             /* of rows with zeros around them: phases are planes' */
    int64_t groups, results, channels;     /* of a group, */
    int64_t taps, sources;                 /* along depth; and as channels: (channel, tap) */
    int64_t dilation[2];                   /* of depths and rows */
    int64_t tall, wide, tiles, panels;     /* tiles of a plane; tiles and panels of all planes */
    int64_t blocks, cut_blocks, cuts, few; /* DJ_TALL result channels each; few: panels of a task */
    int64_t far, deep;                     /* elements from matrix to matrix: of tiles, of weights */
    int64_t packs, tasks, slab, room;      /* room: bytes of a thread, from `own` on */
    float *sums;                           /* of weights: (group, block, 16, source, DJ_TALL) */
    int64_t *steps;
    int is_back, is_rectified, team, is_odd; /* is_odd: some result is not finite */
    const dj_epilogue *epilogue;             /* NULL: none */
    char *memory, *own;                      /* memory is to be freed */
} dj_winograd;

/* Tiles of a row of a plane from the column j of tiles on, which lie `at` in a panel. */
typedef struct {
    int64_t plane, i, j, at, count;
} dj_winograd_run;

/* Where a plane of results lies: its image, its depth, and its first row and column. */
typedef struct {
    int64_t image, depth, row, column;
} dj_winograd_plane;

DJ_INLINE dj_winograd_plane dj_winograd_place(const dj_winograd *all, int64_t plane) {
    const int64_t rows = all->dilation[1], columns = all->w.phases, depths = all->w.result[0];
    return (dj_winograd_plane){plane / columns / rows / depths, plane / columns / rows % depths,
                               plane / columns % rows, plane % columns};
}

/* Whether a convolution, or its transpose in x, is computed in this way: where it wins a tenth at
 * least (docs/performance.md). Tiles may not hang over the edges by much. */
static __attribute__((unused)) int dj_winograd_suits(const dj_convolution *c, int is_back) {
    const int64_t *out = is_back ? c->in : c->out, *size = c->size, *dilation = c->dilation;
    const int64_t results = is_back ? c->channels : c->outputs;
    const int64_t sources = size[0] * (is_back ? c->outputs : c->channels);
    if (sources < DJ_WINOGRAD_CHANNELS || results < DJ_WINOGRAD_CHANNELS) return 0;
    for (int d = 0; d < 3; d++)
        if ((d && size[d] != 3) || c->stride[d] != 1 || c->before[d] < 0 ||
            c->before[d] > (size[d] - 1) * dilation[d])
            return 0;
    const int64_t wide = dj_quotient_up(dj_quotient_up(out[2], dilation[2]), 2);
    const int64_t tiles = dj_quotient_up(dj_quotient_up(out[1], dilation[1]), 2) * dilation[1] *
                          wide * dilation[2];
    return c->batch * out[0] * tiles >= DJ_WINOGRAD_FEWEST &&
           4 * 16 * tiles <= 3 * 9 * out[1] * out[2] && wide * results >= DJ_WINOGRAD_ROW;
}

/* Rows of weights of DJ_TALL results, `used` of which there are, turned: to[column][row]. */
static DJ_ONCE void dj_winograd_turn(const float *from, int64_t row, int64_t used, int64_t count,
                                     float (*to)[8]) {
    typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));
    int64_t turned = 0;
    for (; used == 8 && turned + 4 <= count; turned += 4)
        for (int64_t r = 0; r < 8; r += 4) {
            const float *x = from + r * row + turned;
            quad a[4], b[4];
            for (int64_t k = 0; k < 4; k++) a[k] = *(const quad *)(x + k * row);
            for (int k = 0; k < 4; k++) b[k] = (quad){a[0][k], a[1][k], a[2][k], a[3][k]};
            for (int64_t k = 0; k < 4; k++) *(quad *)&to[turned + k][r] = b[k];
        }
    for (; turned < count; turned++)
        for (int64_t r = 0; r < used; r++) to[turned][r] = from[r * row + turned];
}

/* The sums of the weights of DJ_TALL results of a group. A transpose's weights are those of the
 * convolution, turned by half: its taps run back. */
static __attribute__((unused)) void dj_winograd_pack(const dj_winograd *all, int64_t task) {
    DJ_CONTRACT
    float turned[DJ_WINOGRAD_TURNED * 9][8] __attribute__((aligned(64))) = {{0}};
    const int64_t group = task / all->blocks, first = task % all->blocks * DJ_TALL;
    const int64_t used = dj_min_index(DJ_TALL, all->results - first);
    const int64_t taps = all->is_back ? -1 : 1, window = 9 * all->taps;
    const int64_t row = window * (all->is_back ? 1 : all->channels);
    const float *from = all->weight + group * all->results * all->channels * window + first * row;
    float *sums = all->sums + task * 16 * all->deep;
    for (int64_t channel = 0; channel < all->sources; channel += DJ_WINOGRAD_TURNED) {
        const int64_t count = dj_min_index(DJ_WINOGRAD_TURNED, all->sources - channel);
        if (!all->is_back)
            dj_winograd_turn(from + channel * 9, row, used, count * 9, turned);
        for (int64_t i = 0, k = channel; all->is_back && i < count; i++, k++)
            dj_winograd_turn(from + k / all->taps * all->results * window + k % all->taps * 9, row,
                             used, 9, turned + i * 9);
        for (int64_t i = 0; i < count; i++) {
            const float (*g)[8] = (const float (*)[8])turned + i * 9 + (all->is_back ? 8 : 0);
            float *to = sums + (channel + i) * DJ_TALL;
            dj_winograd_rows down[4][3];
            for (int64_t k = 0; k < 3; k++) {
                const dj_winograd_rows a = *(const dj_winograd_rows *)g[k * taps];
                const dj_winograd_rows b = *(const dj_winograd_rows *)g[(3 + k) * taps] * 0.5f;
                const dj_winograd_rows c = *(const dj_winograd_rows *)g[(6 + k) * taps];
                const dj_winograd_rows outer = (a + c) * 0.5f;
                down[0][k] = a, down[1][k] = outer + b, down[2][k] = outer - b, down[3][k] = c;
            }
            for (int64_t k = 0; k < 4; k++, to += 4 * all->deep) {
                const dj_winograd_rows a = down[k][0], b = down[k][1] * 0.5f, c = down[k][2];
                const dj_winograd_rows outer = (a + c) * 0.5f, plus = outer + b, minus = outer - b;
                memcpy(to, &a, sizeof(float) * DJ_TALL);
                memcpy(to + all->deep, &plus, sizeof(float) * DJ_TALL);
                memcpy(to + 2 * all->deep, &minus, sizeof(float) * DJ_TALL);
                memcpy(to + 3 * all->deep, &c, sizeof(float) * DJ_TALL);
            }
        }
    }
}

/* The runs of the tiles [start, start + count) of a panel; returns how many. */
static __attribute__((unused)) int64_t dj_winograd_runs(const dj_winograd *all, int64_t start,
                                                        int64_t count, dj_winograd_run *runs) {
    int64_t n = 0;
    for (int64_t at = 0; at < count; n++) {
        const int64_t j = (start + at) % all->wide, row = (start + at) / all->wide;
        const int64_t length = dj_min_index(all->wide - j, count - at);
        runs[n] = (dj_winograd_run){row / all->tall, row % all->tall, j, at, length};
        at += length;
    }
    return n;
}

/* `count` rows of a channel of a plane, from the row `first` of those with zeros around them. */
static __attribute__((unused)) void dj_winograd_pad(const dj_winograd *all, int64_t group,
                                                    int64_t source, int64_t plane, int64_t first,
                                                    int64_t count, float *slab) {
    const dj_walk *w = &all->w;
    const dj_winograd_plane at = dj_winograd_place(all, plane);
    const int64_t tap = source % all->taps * all->dilation[0] * (all->is_back ? -1 : 1);
    const int64_t depth = at.depth + tap - w->lead[0], step = all->dilation[1];
    const float *from = all->source + w->source[1] * w->source[2] *
        (((at.image * all->groups + group) * all->channels + source / all->taps) * w->source[0] +
         depth);
    for (int64_t i = first * step + at.row - w->lead[1]; count--; i += step, slab += w->phase) {
        if (depth < 0 || depth >= w->source[0] || i < 0 || i >= w->source[1])
            memset(slab, 0, sizeof(float) * (size_t)w->phase);
        else
            dj_pad_row_f32(w, from + i * w->source[2], at.column, slab);
    }
}

/* The columns 0, 1, 2 and 3 of a row of the tiles of a vector. */
DJ_INLINE void dj_winograd_columns(const float *row, dj_winograd_lanes *columns) {
    const dj_winograd_lanes a = *(const dj_winograd_lanes *)row;
    const dj_winograd_lanes b = *(const dj_winograd_lanes *)(row + DJ_WINOGRAD_LANES);
    const dj_winograd_lanes c = *(const dj_winograd_lanes *)(row + 2);
    const dj_winograd_lanes d = *(const dj_winograd_lanes *)(row + 2 + DJ_WINOGRAD_LANES);
    columns[0] = DJ_WINOGRAD_PICKED(a, b, 2 * l), columns[1] = DJ_WINOGRAD_PICKED(a, b, 2 * l + 1);
    columns[2] = DJ_WINOGRAD_PICKED(c, d, 2 * l), columns[3] = DJ_WINOGRAD_PICKED(c, d, 2 * l + 1);
}

/* The sums of `count` tiles that lie side by side, each of the 16 to a matrix of its own. Up to a
 * vector behind the last one is written, and two are read. */
static DJ_ONCE void dj_winograd_tiles(const float *from, int64_t width, int64_t count, float *to,
                                      int64_t far) {
    for (int64_t j = 0; j < count; j += DJ_WINOGRAD_LANES) {
        const float *x = from + 2 * j;
        dj_winograd_lanes rows[4][4], down[4][4];
        for (int64_t i = 0; i < 4; i++) dj_winograd_columns(x + i * width, rows[i]);
        _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) {
            down[0][k] = rows[0][k] - rows[2][k], down[1][k] = rows[1][k] + rows[2][k];
            down[2][k] = rows[2][k] - rows[1][k], down[3][k] = rows[1][k] - rows[3][k];
        }
        float *at = to + j;
        _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++, at += 4 * far) {
            *(dj_winograd_lanes *)at = down[k][0] - down[k][2];
            *(dj_winograd_lanes *)(at + far) = down[k][1] + down[k][2];
            *(dj_winograd_lanes *)(at + 2 * far) = down[k][2] - down[k][1];
            *(dj_winograd_lanes *)(at + 3 * far) = down[k][1] - down[k][3];
        }
    }
}

/* The sums of one channel's tiles in the panels of a task: zeros beside the last one. */
static __attribute__((unused)) void dj_winograd_gather(const dj_winograd *all, int64_t group,
                                                       int64_t source, const dj_winograd_run *runs,
                                                       const int64_t *ends, int64_t panels,
                                                       float *slab, float *to) {
    const int64_t n = ends[panels - 1], width = all->w.phase;
    int64_t plane = -1, low = 0;
    for (int64_t p = 0, q = 0; p < panels; p++, to += 16 * all->far) {
        for (; q < ends[p]; q++) {
            if (runs[q].plane != plane) {
                int64_t last = q;
                while (last + 1 < n && runs[last + 1].plane == runs[q].plane) last++;
                plane = runs[q].plane, low = runs[q].i;
                dj_winograd_pad(all, group, source, plane, 2 * low, 2 * (runs[last].i - low) + 4,
                                slab);
            }
            dj_winograd_tiles(slab + 2 * (runs[q].i - low) * width + 2 * runs[q].j, width,
                              runs[q].count, to + runs[q].at, all->far);
        }
        const int64_t used = runs[q - 1].at + runs[q - 1].count;
        for (int64_t k = 0; used < DJ_WINOGRAD_TILES && k < 16; k++)
            memset(to + k * all->far + used, 0,
                   sizeof(float) * (size_t)(DJ_WINOGRAD_TILES - used));
    }
}

/* The 16 products of the weights of some result channels and the tiles of a panel. */
static __attribute__((unused)) void dj_winograd_multiply(const dj_winograd *all, const float *sums,
                                                         const float *tiles, int is_half,
                                                         float *products) {
    dj_tile_f32 *tile = dj_tile_of_f32(DJ_TALL, is_half);
    for (int64_t k = 0; k < 16; k++, products += DJ_TALL * DJ_WINOGRAD_TILES)
        for (int64_t channel = 0; channel < all->sources; channel += DJ_WINOGRAD_DEPTH) {
            const float *x = tiles + k * all->far + channel * DJ_WINOGRAD_TILES;
            tile(x, x + DJ_WINOGRAD_LANES, all->steps, sums + k * all->deep + channel * DJ_TALL,
                 dj_min_index(DJ_WINOGRAD_DEPTH, all->sources - channel), NULL,
                 channel ? products : NULL, products);
        }
}

/* The two rows of results of a panel's tiles from the products of a channel; `odd` adds up what is 0
 * but for numbers that are not finite. */
static DJ_ONCE void dj_winograd_results(const float *products, int64_t vectors, float bias,
                                        int is_rectified, float *upper, float *lower,
                                        dj_winograd_lanes *odd) {
    typedef dj_winograd_lanes lanes;
    enum { FAR = DJ_TALL * DJ_WINOGRAD_TILES, HALF = DJ_WINOGRAD_LANES / 2 };
    for (int64_t v = 0; v < vectors; v++, products += DJ_WINOGRAD_LANES) {
        lanes down[2][4], found[4];
        _Pragma("GCC unroll 4") for (int64_t k = 0; k < 4; k++) {
            const float *at = products + k * FAR;
            const lanes b = *(const lanes *)(at + 4 * FAR), c = *(const lanes *)(at + 8 * FAR);
            down[0][k] = *(const lanes *)at + b + c;
            down[1][k] = b - c - *(const lanes *)(at + 12 * FAR);
        }
        _Pragma("GCC unroll 2") for (int k = 0; k < 2; k++) {
            found[2 * k] = down[k][0] + down[k][1] + down[k][2] + bias;
            found[2 * k + 1] = down[k][1] - down[k][2] - down[k][3] + bias;
        }
        *odd += (found[0] * 0 + found[1] * 0) + (found[2] * 0 + found[3] * 0);
        _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)
            if (is_rectified)
                found[k] = (lanes)((dj_winograd_masks)found[k] & ~(found[k] <= (lanes){0}));
        lanes *first = (lanes *)upper + 2 * v, *second = (lanes *)lower + 2 * v;
        first[0] = DJ_WINOGRAD_PICKED(found[0], found[1], l / 2 + l % 2 * DJ_WINOGRAD_LANES);
        first[1] = DJ_WINOGRAD_PICKED(found[0], found[1], HALF + l / 2 + l % 2 * DJ_WINOGRAD_LANES);
        second[0] = DJ_WINOGRAD_PICKED(found[2], found[3], l / 2 + l % 2 * DJ_WINOGRAD_LANES);
        second[1] = DJ_WINOGRAD_PICKED(found[2], found[3], HALF + l / 2 + l % 2 * DJ_WINOGRAD_LANES);
    }
}

/* The results of a block of channels to where they lie: the runs of one panel. */
static __attribute__((unused)) void dj_winograd_put(const dj_winograd *all, int64_t group,
                                                    int64_t block, const float *products,
                                                    int is_half, const dj_winograd_run *runs,
                                                    int64_t n, dj_winograd_lanes *odd) {
    const int64_t height = all->w.result[1], width = all->w.result[2], step = all->w.phases;
    const int64_t down = all->dilation[1], volume = dj_volume(all->w.result);
    const int64_t first = group * all->results + block * DJ_TALL;
    const int64_t channels = dj_min_index(DJ_TALL, all->results - block * DJ_TALL);
    float both[2][2 * DJ_WINOGRAD_TILES], *to[DJ_WINOGRAD_TILES];
    int64_t rows[DJ_WINOGRAD_TILES], counts[DJ_WINOGRAD_TILES];
    for (int64_t q = 0; q < n; q++) {
        const dj_winograd_plane at = dj_winograd_place(all, runs[q].plane);
        const int64_t i = at.row + 2 * runs[q].i * down, j = at.column + 2 * runs[q].j * step;
        to[q] = all->result + (at.image * all->groups * all->results + first) * volume +
                (at.depth * height + i) * width + j;
        rows[q] = (i < height) + (i + down < height);
        counts[q] = dj_min_index(2 * runs[q].count, dj_quotient_up(width - j, step));
    }
    for (int64_t o = 0; o < channels; o++, products += DJ_WINOGRAD_TILES) {
        dj_winograd_results(products, is_half ? 1 : DJ_ACROSS, all->bias ? all->bias[first + o] : 0,
                            all->is_rectified, both[0], both[1], odd);
        for (int64_t q = 0; q < n; to[q++] += volume)
            for (int64_t i = 0; i < rows[q]; i++) {
                const float *from = both[i] + 2 * runs[q].at;
                float *at = to[q] + i * down * width;
                if (step == 1) memcpy(at, from, sizeof(float) * (size_t)counts[q]);
                for (int64_t k = 0; step > 1 && k < counts[q]; k++) at[k * step] = from[k];
            }
    }
}

/* Results that lie side by side in each channel of an image, from `start` of a channel on. */
typedef struct {
    int64_t image, start, count;
} dj_winograd_span;

/* What the runs of a task cover, in as few spans as there are; returns how many. Columns of planes lie
 * side by side. */
static __attribute__((unused)) int64_t dj_winograd_spans(const dj_winograd *all,
                                                         const dj_winograd_run *runs, int64_t n,
                                                         dj_winograd_span *spans) {
    const int64_t height = all->w.result[1], width = all->w.result[2], down = all->dilation[1];
    int64_t found = 0;
    for (int64_t q = 0, next; q < n; q = next) {
        int64_t wide = runs[q].count;
        for (next = q + 1; next < n && runs[next].plane == runs[q].plane &&
                           runs[next].i == runs[q].i; next++)
            wide += runs[next].count;
        const dj_winograd_plane at = dj_winograd_place(all, runs[q].plane);
        for (int64_t k = 0, i = at.row + 2 * runs[q].i * down; k < 2 && i < height; k++, i += down) {
            const int64_t j = 2 * runs[q].j, count = dj_min_index(2 * wide, width - j);
            const int64_t start = (at.depth * height + i) * width + j;
            dj_winograd_span *last = spans + found - 1;
            if (found && last->image == at.image && last->start + last->count == start)
                last->count += count;
            else
                spans[found++] = (dj_winograd_span){at.image, start, count};
        }
    }
    return found;
}

/* The epilogue of a block of channels. */
static __attribute__((unused)) void dj_winograd_end(const dj_winograd *all, int64_t group,
                                                    int64_t block, const dj_winograd_span *spans,
                                                    int64_t n) {
    const int64_t end = dj_min_index((block + 1) * DJ_TALL, all->results);
    for (int64_t o = block * DJ_TALL; o < end; o++)
        for (int64_t k = 0; k < n; k++)
            all->epilogue->run(all->epilogue,
                               (spans[k].image * all->groups + group) * all->results + o,
                               spans[k].start, spans[k].count);
}

static __attribute__((unused)) void dj_winograd_task(dj_winograd *all, int64_t task,
                                                     int64_t thread) {
    dj_winograd_run runs[DJ_WINOGRAD_PANELS * DJ_WINOGRAD_TILES];
    int64_t ends[DJ_WINOGRAD_PANELS], is_half[DJ_WINOGRAD_PANELS], n = 0;
    float products[16 * DJ_TALL * DJ_WINOGRAD_TILES] __attribute__((aligned(64)));
    char *own = all->own + all->room * thread;
    float *slab = (float *)own, *tiles = (float *)(own + all->slab);
    const int64_t cut = task % all->cuts, group = task / all->cuts % all->groups;
    const int64_t start = task / all->cuts / all->groups * all->few;
    const int64_t panels = dj_min_index(all->few, all->panels - start);
    for (int64_t p = 0; p < panels; p++) {
        const int64_t from = (start + p) * DJ_WINOGRAD_TILES;
        const int64_t count = dj_min_index(DJ_WINOGRAD_TILES, all->tiles - from);
        n += dj_winograd_runs(all, from, count, runs + n);
        ends[p] = n, is_half[p] = count <= DJ_WINOGRAD_LANES;
    }
    for (int64_t k = 0; k < all->sources; k++)
        dj_winograd_gather(all, group, k, runs, ends, panels, slab, tiles + k * DJ_WINOGRAD_TILES);
    dj_winograd_span spans[2 * DJ_WINOGRAD_PANELS * DJ_WINOGRAD_TILES];
    const int64_t found = all->epilogue && all->w.phases == 1 ?
                              dj_winograd_spans(all, runs, n, spans) : 0;
    dj_winograd_lanes odd = {0};
    const int64_t last = dj_min_index((cut + 1) * all->cut_blocks, all->blocks);
    for (int64_t block = cut * all->cut_blocks; block < last; block++) {
        for (int64_t p = 0; p < panels; p++) {
            const int64_t begin = p ? ends[p - 1] : 0;
            dj_winograd_multiply(all, all->sums + (group * all->blocks + block) * 16 * all->deep,
                                 tiles + p * 16 * all->far, is_half[p], products);
            dj_winograd_put(all, group, block, products, is_half[p], runs + begin, ends[p] - begin,
                            &odd);
        }
        if (found) dj_winograd_end(all, group, block, spans, found);
    }
    float sum = 0;
    for (int l = 0; l < DJ_WINOGRAD_LANES; l++) sum += odd[l];
    if (sum != 0) __atomic_store_n(&all->is_odd, 1, __ATOMIC_RELAXED);
}

/* How the tiles and channels are cut into tasks. */
static __attribute__((unused)) void dj_winograd_cut(dj_winograd *all) {
    const int64_t wanted = all->team > 1 ? dj_quotient_up(2 * all->team, all->groups) : 1;
    all->few = dj_max_index(dj_min_index(all->panels / (2 * wanted), DJ_WINOGRAD_PANELS), 1);
    if (all->team == 1) all->few = dj_min_index(all->panels, DJ_WINOGRAD_PANELS);
    const int64_t chunks = dj_quotient_up(all->panels, all->few);
    const int64_t cuts = dj_min_index(dj_quotient_up(wanted, chunks),
                                      dj_max_index(all->blocks / DJ_WINOGRAD_CUT, 1));
    all->cut_blocks = dj_quotient_up(all->blocks, cuts);
    all->cuts = dj_quotient_up(all->blocks, all->cut_blocks);
    all->tasks = chunks * all->groups * all->cuts;
}

/* Everything before the tasks; 0 if there is no memory. */
static __attribute__((unused)) int dj_begin_winograd(dj_winograd *all, const dj_convolution *c,
                                                     int is_back, const float *source,
                                                     const float *weight, const float *bias,
                                                     float *result, int threads) {
    *all = (dj_winograd){.source = source, .weight = weight, .bias = bias, .result = result,
                         .is_back = is_back, .is_rectified = c->is_rectified, .team = threads,
                         .epilogue = c->epilogue,
                         .groups = c->groups, .taps = c->size[0],
                         .dilation = {c->dilation[0], c->dilation[1]}};
    dj_walk *w = &all->w;
    all->results = is_back ? c->channels : c->outputs;
    all->channels = is_back ? c->outputs : c->channels;
    all->sources = all->channels * all->taps;
    for (int d = 0; d < 3; d++) {
        const int64_t reach = (c->size[d] - 1) * c->dilation[d];
        w->source[d] = is_back ? c->out[d] : c->in[d], w->result[d] = is_back ? c->in[d] : c->out[d];
        w->lead[d] = !is_back ? c->before[d] : d ? reach - c->before[d] : -c->before[d];
    }
    w->phases = c->dilation[2];
    all->tall = dj_quotient_up(dj_quotient_up(w->result[1], all->dilation[1]), 2);
    all->wide = dj_quotient_up(dj_quotient_up(w->result[2], w->phases), 2);
    all->tiles = c->batch * w->result[0] * all->dilation[1] * w->phases * all->tall * all->wide;
    all->panels = dj_quotient_up(all->tiles, DJ_WINOGRAD_TILES);
    all->blocks = dj_quotient_up(all->results, DJ_TALL), all->packs = c->groups * all->blocks;
    dj_winograd_cut(all);
    w->phase = 2 * all->wide + 2;
    all->far = all->sources * DJ_WINOGRAD_TILES + DJ_WINOGRAD_BESIDE;
    all->deep = all->sources * DJ_TALL + DJ_WINOGRAD_BESIDE;
    const int64_t rows = 2 * dj_min_index(all->few * DJ_WINOGRAD_TILES, all->tall) + 2;
    all->slab = dj_room(rows * w->phase + 2 * DJ_WINOGRAD_TILES, sizeof(float));
    all->room = all->slab + dj_room(all->few * 16 * all->far, sizeof(float));
    const int64_t table = dj_room(DJ_WINOGRAD_DEPTH, sizeof(int64_t));
    const int64_t sums = dj_room(all->packs * 16 * all->deep, sizeof(float));
    all->memory = malloc((size_t)(table + sums + all->room * all->team + 64));
    if (!all->memory) return 0;
    char *aligned = all->memory + (64 - (uintptr_t)all->memory % 64);
    all->steps = (int64_t *)aligned, all->sums = (float *)(aligned + table);
    all->own = aligned + table + sums;
    for (int64_t k = 0; k < DJ_WINOGRAD_DEPTH; k++) all->steps[k] = k * DJ_WINOGRAD_TILES;
    return 1;
}

/* Planes (image, channel) whose epilogue waits until all is there: with a dilation along rows, tasks
 * do not have pixels that lie side by side. */
static __attribute__((unused)) int64_t dj_winograd_planes(const dj_winograd *all) {
    if (!all->epilogue || all->w.phases == 1 || all->is_odd) return 0;
    const int64_t planes = all->w.result[0] * all->dilation[1] * all->w.phases;
    return all->tiles / (planes * all->tall * all->wide) * all->groups * all->results;
}

/* 0 if the call is to be computed directly. */
static __attribute__((unused)) int dj_winograd_correlate(const dj_convolution *c, int is_back,
                                                         const float *source, const float *weight,
                                                         const float *bias, float *result,
                                                         int threads) {
    dj_winograd all;
    if (!dj_winograd_suits(c, is_back)) return 0;
    if (!dj_begin_winograd(&all, c, is_back, source, weight, bias, result, threads)) return 0;
    _Pragma("omp parallel num_threads(all.team)")
    {
        _Pragma("omp for schedule(static)")
        for (int64_t task = 0; task < all.packs; task++) dj_winograd_pack(&all, task);
        _Pragma("omp for schedule(dynamic)")
        for (int64_t task = 0; task < all.tasks; task++) dj_winograd_task(&all, task, dj_thread());
        _Pragma("omp for schedule(static)")
        for (int64_t plane = 0; plane < dj_winograd_planes(&all); plane++)
            all.epilogue->run(all.epilogue, plane, 0, dj_volume(all.w.result));
    }
    free(all.memory);
    return !all.is_odd;
}
