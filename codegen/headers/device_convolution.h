/* Convolutions of CUDA units: products of windows and weights without the windows as a matrix.
 *
 * A convolution, its transpose in x and its gradient by the weights are one product each: result
 * (rows by columns) = sum over an inner index of left (rows by inner) * right (inner by columns).
 * Every address is that of an inner index plus that of a row or a column; an element of the right
 * side lies inside if the sum of both coordinates does, in each of three dims. The transpose falls
 * into classes of pixels by their remainder, each with taps of its own (dilation 1; otherwise there
 * is one class, and steps that do not divide are left out). The gradient by the weights is cut into
 * parts of the inner index, which a later kernel adds up in order.
 *
 * All dims are three; convolutions over fewer have leading ones.
 */

struct dj_convolution {
    int64_t batch, groups, outputs, channels; /* outputs and channels of one group */
    int64_t in[3], out[3], size[3], stride[3], before[3], dilation[3];
};

DJ_INLINE int64_t dj_volume(const int64_t *d) { return d[0] * d[1] * d[2]; }

/* What an inner index adds to addresses of the left and right side, and its coordinates. */
struct dj_line {
    int64_t left, right;
    int at[3];
};

/* The same of a column of the result. */
struct dj_column {
    int64_t right, result;
    int at[3];
};

DJ_INLINE void dj_split(int64_t index, const int64_t *sizes, int64_t *parts) {
    parts[2] = index % sizes[2];
    parts[1] = index / sizes[2] % sizes[1];
    parts[0] = index / sizes[2] / sizes[1];
}

/* A position by coordinates that may be negative: what it adds to an address. */
DJ_INLINE int64_t dj_linear(const int *at, const int64_t *sizes) {
    return ((int64_t)at[0] * sizes[1] + at[1]) * sizes[2] + at[2];
}

/* y[outputs, pixels] = weight[outputs, channels * taps] @ windows of x. */
struct dj_forward {
    static const bool IS_LINEAR = true; /* coordinates are part of both sides' addresses */
    dj_convolution c;
    int64_t group;

    DJ_INLINE_MEMBER dj_forward(const dj_convolution &c, int64_t part) : c(c), group(part) {}
    DJ_INLINE_MEMBER int64_t rows() const { return c.outputs; }
    DJ_INLINE_MEMBER int64_t columns() const { return c.batch * dj_volume(c.out); }
    DJ_INLINE_MEMBER int64_t inner() const { return c.channels * dj_volume(c.size); }
    DJ_INLINE_MEMBER int64_t left_row() const { return inner(); }
    DJ_INLINE_MEMBER int64_t result_row() const { return dj_volume(c.out); }
    DJ_INLINE_MEMBER const int64_t *limits() const { return c.in; }
    DJ_INLINE_MEMBER int64_t step(int) const { return 1; }
    DJ_INLINE_MEMBER int64_t left_start() const { return group * rows() * inner(); }

    DJ_INLINE_MEMBER dj_line line(int64_t k) const {
        int64_t tap[3];
        dj_split(k % dj_volume(c.size), c.size, tap);
        dj_line found;
        for (int d = 0; d < 3; d++) found.at[d] = (int)(tap[d] * c.dilation[d]);
        found.left = k;
        found.right = k / dj_volume(c.size) * dj_volume(c.in) + dj_linear(found.at, c.in);
        return found;
    }

    DJ_INLINE_MEMBER dj_column column(int64_t n) const {
        const int64_t image = n / dj_volume(c.out), pixel = n % dj_volume(c.out);
        int64_t place[3];
        dj_split(pixel, c.out, place);
        dj_column found;
        for (int d = 0; d < 3; d++) found.at[d] = (int)(place[d] * c.stride[d] - c.before[d]);
        const int64_t first = image * c.groups + group;
        found.right = first * c.channels * dj_volume(c.in) + dj_linear(found.at, c.in);
        found.result = first * c.outputs * dj_volume(c.out) + pixel;
        return found;
    }
};

/* x[channels, pixels] = transposed weight[channels, outputs * taps] @ y where a tap leads to. */
template <bool HAS_CLASSES>
struct dj_transposed {
    static const bool IS_LINEAR = HAS_CLASSES;
    dj_convolution c;
    int64_t group, rest[3], taps[3], first[3], count[3];

    /* part: the group, and the class of pixels. */
    DJ_INLINE_MEMBER dj_transposed(const dj_convolution &given, int64_t part) : c(given) {
        const int64_t classes = HAS_CLASSES ? dj_volume(c.stride) : 1;
        group = part / classes;
        dj_split(part % classes, c.stride, rest);
        for (int d = 0; d < 3; d++) {
            if (!HAS_CLASSES) {
                taps[d] = c.size[d], first[d] = 0, count[d] = c.in[d];
                continue;
            }
            const int64_t stride = c.stride[d];
            taps[d] = dj_max_index((c.size[d] - rest[d] + stride - 1) / stride, 0);
            first[d] = dj_mod(rest[d] - c.before[d], stride);
            count[d] = dj_max_index((c.in[d] - first[d] + stride - 1) / stride, 0);
        }
    }
    DJ_INLINE_MEMBER int64_t rows() const { return c.channels; }
    DJ_INLINE_MEMBER int64_t columns() const { return c.batch * dj_volume(count); }
    DJ_INLINE_MEMBER int64_t inner() const { return c.outputs * dj_volume(taps); }
    DJ_INLINE_MEMBER int64_t left_row() const { return dj_volume(c.size); }
    DJ_INLINE_MEMBER int64_t result_row() const { return dj_volume(c.in); }
    DJ_INLINE_MEMBER const int64_t *limits() const { return c.out; }
    DJ_INLINE_MEMBER int64_t step(int d) const { return HAS_CLASSES ? 1 : c.stride[d]; }
    DJ_INLINE_MEMBER int64_t left_start() const {
        return group * c.outputs * c.channels * dj_volume(c.size);
    }

    DJ_INLINE_MEMBER dj_line line(int64_t k) const {
        const int64_t some = dj_volume(taps);
        int64_t own[3], tap[3];
        dj_split(some ? k % some : 0, taps, own);
        dj_line found;
        for (int d = 0; d < 3; d++) {
            tap[d] = HAS_CLASSES ? rest[d] + own[d] * c.stride[d] : own[d];
            found.at[d] = (int)(HAS_CLASSES ? -own[d] : -own[d] * c.dilation[d]);
        }
        const int64_t output = some ? k / some : 0;
        found.left = output * c.channels * dj_volume(c.size) +
                     (tap[0] * c.size[1] + tap[1]) * c.size[2] + tap[2];
        found.right = output * dj_volume(c.out) + (HAS_CLASSES ? dj_linear(found.at, c.out) : 0);
        return found;
    }

    DJ_INLINE_MEMBER dj_column column(int64_t n) const {
        const int64_t all = dj_volume(count), image = all ? n / all : 0;
        int64_t own[3], place[3];
        dj_split(all ? n % all : 0, count, own);
        dj_column found;
        for (int d = 0; d < 3; d++) {
            place[d] = HAS_CLASSES ? first[d] + own[d] * c.stride[d] : own[d];
            const int64_t reach = place[d] + c.before[d];
            found.at[d] = (int)(HAS_CLASSES ? (reach - rest[d]) / c.stride[d] : reach);
        }
        const int64_t base = image * c.groups + group;
        found.right = base * c.outputs * dj_volume(c.out) +
                      (HAS_CLASSES ? dj_linear(found.at, c.out) : 0);
        found.result = base * c.channels * dj_volume(c.in) +
                       (place[0] * c.in[1] + place[1]) * c.in[2] + place[2];
        return found;
    }
};

/* weight[outputs, channels * taps] = y[outputs, pixels] @ windows of x. */
struct dj_weighing {
    static const bool IS_LINEAR = true;
    dj_convolution c;
    int64_t group;

    DJ_INLINE_MEMBER dj_weighing(const dj_convolution &c, int64_t part) : c(c), group(part) {}
    DJ_INLINE_MEMBER int64_t rows() const { return c.outputs; }
    DJ_INLINE_MEMBER int64_t columns() const { return c.channels * dj_volume(c.size); }
    DJ_INLINE_MEMBER int64_t inner() const { return c.batch * dj_volume(c.out); }
    DJ_INLINE_MEMBER int64_t left_row() const { return dj_volume(c.out); }
    DJ_INLINE_MEMBER int64_t result_row() const { return columns(); }
    DJ_INLINE_MEMBER const int64_t *limits() const { return c.in; }
    DJ_INLINE_MEMBER int64_t step(int) const { return 1; }
    DJ_INLINE_MEMBER int64_t left_start() const { return 0; }

    DJ_INLINE_MEMBER dj_line line(int64_t k) const {
        const dj_column pixel = dj_forward(c, group).column(k);
        dj_line found;
        found.left = pixel.result, found.right = pixel.right;
        for (int d = 0; d < 3; d++) found.at[d] = pixel.at[d];
        return found;
    }

    DJ_INLINE_MEMBER dj_column column(int64_t n) const {
        const dj_line tap = dj_forward(c, group).line(n);
        dj_column found;
        found.right = tap.right, found.result = group * rows() * columns() + n;
        for (int d = 0; d < 3; d++) found.at[d] = tap.at[d];
        return found;
    }
};

/* Whether an element of the right side lies inside, and where. */
template <typename P>
DJ_INLINE bool dj_inside(const P &p, const dj_line &line, const dj_column &column, int64_t *place) {
    *place = line.right + column.right;
    bool is_in = true;
    int64_t own[3];
#pragma unroll
    for (int d = 0; d < 3; d++) {
        const int64_t at = (int64_t)line.at[d] + column.at[d], step = p.step(d);
        own[d] = step == 1 ? at : at / step;
        is_in = is_in && at >= 0 && own[d] < p.limits()[d] && (step == 1 || own[d] * step == at);
    }
    if (!P::IS_LINEAR)
        *place += (own[0] * p.limits()[1] + own[1]) * p.limits()[2] + own[2];
    return is_in;
}

/* What follows a sum: its row's bias, and the rectifier. */
template <bool IS_RECTIFIED, typename T, typename R>
DJ_INLINE R dj_finished(R sum, const T *bias, int64_t row) {
    if (bias) sum += (R)dj_widened(bias[row]);
    return IS_RECTIFIED && !(sum > 0) && sum == sum ? (R)0 : sum;
}

/* Which part of the inner index is a block's, and which group (and class) it works on. */
struct dj_share {
    int64_t part, start, stop, cut;
};

template <typename P>
DJ_INLINE dj_share dj_share_of(const dj_convolution &c, int cuts, int64_t depth) {
    dj_share share;
    share.part = blockIdx.z / cuts;
    share.cut = blockIdx.z % cuts;
    const int64_t inner = P(c, share.part).inner();
    const int64_t each = ((inner + cuts - 1) / cuts + depth - 1) / depth * depth;
    share.start = share.cut * each;
    share.stop = dj_min_index(share.start + each, inner);
    return share;
}

/* ==== products of float32 and float64, or sums in them, in tiles: 256 threads, 16 by 16 ==== */

/* HIGH rows and WIDE columns of a block, a multiple of 64; DEPTH inner indices at a time. O is the
 * dtype of the result, or of parts of it. */
template <typename P, typename T, typename O, bool IS_RECTIFIED, int HIGH, int WIDE, int DEPTH>
DJ_INLINE void dj_convolve_tiles(const dj_convolution &c, const T *left, const T *right,
                                 const T *bias, O *result, int cuts, int64_t cut_size) {
    typedef typename dj_wide<T>::type R;
    enum { THREADS = 256, LEFTS = HIGH * DEPTH / THREADS, RIGHTS = WIDE * DEPTH / THREADS };
    __shared__ R lefts[DEPTH][HIGH + 1], rights[DEPTH][WIDE + 1];
    __shared__ dj_line lines[DEPTH];
    const dj_share share = dj_share_of<P>(c, cuts, DEPTH);
    const P p(c, share.part);
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    const int64_t row = (int64_t)blockIdx.y * HIGH, column = (int64_t)blockIdx.x * WIDE;
    if (row >= p.rows() || column >= p.columns()) return; /* classes have several sizes */
    left += p.left_start();
    bias += bias ? p.group * p.rows() : 0;
    /* Of the right tile a thread loads one column, of the left one inner index. */
    const int own_n = threadIdx.x % WIDE, own_k = threadIdx.x % DEPTH;
    const bool has_column = column + own_n < p.columns();
    const dj_column own = p.column(has_column ? column + own_n : 0);
    R sums[HIGH / 16][WIDE / 16], left_now[LEFTS], right_now[RIGHTS];
#pragma unroll
    for (int i = 0; i < HIGH / 16; i++)
#pragma unroll
        for (int j = 0; j < WIDE / 16; j++) sums[i][j] = 0;
    for (int64_t k = share.start - DEPTH; k < share.stop; k += DEPTH) {
        /* The next tiles are loaded while these are multiplied; the first turn has none. */
        const int64_t next = k + DEPTH;
        __syncthreads();
        if (k >= share.start) {
#pragma unroll
            for (int i = 0; i < LEFTS; i++)
                lefts[own_k][threadIdx.x / DEPTH + i * (THREADS / DEPTH)] = left_now[i];
#pragma unroll
            for (int i = 0; i < RIGHTS; i++)
                rights[threadIdx.x / WIDE + i * (THREADS / WIDE)][own_n] = right_now[i];
        }
        if (threadIdx.x < DEPTH && next + threadIdx.x < share.stop)
            lines[threadIdx.x] = p.line(next + threadIdx.x);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < LEFTS; i++) {
            const int64_t m = row + threadIdx.x / DEPTH + i * (THREADS / DEPTH);
            left_now[i] = 0;
            if (m < p.rows() && next + own_k < share.stop)
                left_now[i] = dj_widened(left[m * p.left_row() + lines[own_k].left]);
        }
#pragma unroll
        for (int i = 0; i < RIGHTS; i++) {
            const int from = threadIdx.x / WIDE + i * (THREADS / WIDE);
            int64_t place;
            right_now[i] = 0;
            if (has_column && next + from < share.stop && dj_inside(p, lines[from], own, &place))
                right_now[i] = dj_widened(right[place]);
        }
        if (k < share.start) continue;
#pragma unroll
        for (int depth = 0; depth < DEPTH; depth++) {
            R a[HIGH / 16], b[WIDE / 16];
#pragma unroll
            for (int i = 0; i < HIGH / 16; i++) a[i] = lefts[depth][y + i * 16];
#pragma unroll
            for (int j = 0; j < WIDE / 16; j++) b[j] = rights[depth][x + j * 16];
#pragma unroll
            for (int i = 0; i < HIGH / 16; i++)
#pragma unroll
                for (int j = 0; j < WIDE / 16; j++) sums[i][j] = dj_fma(a[i], b[j], sums[i][j]);
        }
    }
#pragma unroll
    for (int j = 0; j < WIDE / 16; j++) {
        const int64_t n = column + x + j * 16;
        if (n >= p.columns()) continue;
        O *to = result + share.cut * cut_size + p.column(n).result;
#pragma unroll
        for (int i = 0; i < HIGH / 16; i++) {
            const int64_t m = row + y + i * 16;
            if (m < p.rows())
                dj_narrow_to(to + m * p.result_row(),
                             dj_finished<IS_RECTIFIED>(sums[i][j], bias, m));
        }
    }
}

/* ==== few rows for each group: a thread for each element of the result ==== */

template <typename P, typename T, bool IS_RECTIFIED, int INNER>
DJ_INLINE void dj_convolve_each(const dj_convolution &c, const T *left, const T *right,
                                const T *bias, T *result) {
    typedef typename dj_wide<T>::type R;
    const P p(c, blockIdx.z);
    const int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y;
    if (n >= p.columns() || m >= p.rows()) return;
    const dj_column own = p.column(n);
    left += p.left_start() + m * p.left_row();
    R sum = 0;
    /* INNER is the number of inner indices where it is small and known, else 0. */
    const int64_t inner = INNER ? INNER : p.inner();
#pragma unroll (INNER ? INNER : 4)
    for (int64_t k = 0; k < inner; k++) {
        const dj_line line = p.line(k);
        int64_t place;
        if (dj_inside(p, line, own, &place))
            sum = dj_fma((R)dj_widened(left[line.left]), (R)dj_widened(right[place]), sum);
    }
    bias += bias ? p.group * p.rows() : 0;
    dj_narrow_to(result + own.result + m * p.result_row(), dj_finished<IS_RECTIFIED>(sum, bias, m));
}

/* Few rows and columns for each group: a block for each element, over the whole inner index. */
template <typename P, typename T>
DJ_INLINE void dj_convolve_whole(const dj_convolution &c, const T *left, const T *right,
                                 T *result) {
    typedef typename dj_wide<T>::type R;
    __shared__ R warps[8];
    const P p(c, blockIdx.z);
    const int64_t n = blockIdx.x, m = blockIdx.y;
    const dj_column own = p.column(n);
    left += p.left_start() + m * p.left_row();
    R sum = 0;
    for (int64_t k = threadIdx.x; k < p.inner(); k += 256) {
        const dj_line line = p.line(k);
        int64_t place;
        if (dj_inside(p, line, own, &place))
            sum = dj_fma((R)dj_widened(left[line.left]), (R)dj_widened(right[place]), sum);
    }
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) sum += dj_exchange(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; warp++) sum += warps[warp];
        dj_narrow_to(result + own.result + m * p.result_row(), sum);
    }
}
