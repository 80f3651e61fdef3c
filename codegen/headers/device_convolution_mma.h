/* Convolutions of CUDA units by tensor cores: the products of device_convolution.h for 16-bit floats,
 * and for float32 with ten bits of mantissa where that is allowed.
 *
 * 256 threads: eight warps, two along the rows and four along the columns of a block.
 */

/* A tile of each side in shared memory: rows of the left one, inner indices of the right one. */
template <typename T, int HIGH, int WIDE, int DEPTH>
struct dj_convolution_tiles {
    enum { LEFT_ROW = DEPTH + 8, RIGHT_ROW = WIDE + 8 };
    T left[HIGH * LEFT_ROW], right[DEPTH * RIGHT_ROW];
};

/* sums += the warp's rows of the left tile @ its columns of the right one. */
template <int ROWS, int COLUMNS, int HIGH, int WIDE, int DEPTH, typename T>
DJ_INLINE void dj_multiply_tiles(float (&sums)[ROWS][COLUMNS][4],
                                 const dj_convolution_tiles<T, HIGH, WIDE, DEPTH> &tiles, int row,
                                 int column) {
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        uint32_t a[ROWS][4];
#pragma unroll
        for (int i = 0; i < ROWS; i++) dj_load_a<DEPTH>(a[i], tiles.left, row + i * 16, k);
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 2) {
            uint32_t b[4];
            dj_load_b_turned<WIDE>(b, tiles.right, column + j * 8, k);
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                dj_mma(sums[i][j], a[i], b[0], b[1], T());
                dj_mma(sums[i][j + 1], a[i], b[2], b[3], T());
            }
        }
    }
}

template <int ROWS, int COLUMNS, int HIGH, int WIDE, int DEPTH>
DJ_INLINE void dj_multiply_tiles(float (&sums)[ROWS][COLUMNS][4],
                                 const dj_convolution_tiles<dj_tf32, HIGH, WIDE, DEPTH> &tiles,
                                 int row, int column) {
    const int lane = threadIdx.x % 32, k0 = lane % 4, place = lane / 4;
    enum { LEFT = DEPTH + 8, RIGHT = WIDE + 8 };
#pragma unroll
    for (int k = 0; k < DEPTH; k += 8) {
        float a[ROWS][4];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int item = 0; item < 4; item++)
                a[i][item] = tiles.left[(row + i * 16 + place + item % 2 * 8) * LEFT + k + k0 +
                                        item / 2 * 4].value;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            const float b0 = tiles.right[(k + k0) * RIGHT + column + j * 8 + place].value;
            const float b1 = tiles.right[(k + k0 + 4) * RIGHT + column + j * 8 + place].value;
#pragma unroll
            for (int i = 0; i < ROWS; i++) dj_mma_tf32(sums[i][j], a[i], b0, b1);
        }
    }
}

DJ_INLINE void dj_put(dj_tf32 *to, dj_tf32 x) { to->value = dj_rounded_tf32(x.value); }
DJ_INLINE void dj_put(dj_f16 *to, dj_f16 x) { *to = x; }
DJ_INLINE void dj_put(dj_bf16 *to, dj_bf16 x) { *to = x; }

/* HIGH rows (64 or 128) and WIDE columns (128) of a block; DEPTH inner indices at a time. */
template <typename P, typename T, typename O, bool IS_RECTIFIED, int HIGH, int WIDE, int DEPTH>
DJ_INLINE void dj_convolve_mma(const dj_convolution &c, const T *left, const T *right,
                               const T *bias, O *result, int cuts, int64_t cut_size) {
    enum { THREADS = 256, LEFTS = HIGH * DEPTH / THREADS, RIGHTS = WIDE * DEPTH / THREADS };
    enum { LEFT_ROW = DEPTH + 8, RIGHT_ROW = WIDE + 8, ROWS = HIGH / 32, COLUMNS = WIDE / 32 };
    DJ_DYNAMIC(unsigned char, memory);
    typedef dj_convolution_tiles<T, HIGH, WIDE, DEPTH> tiles_type;
    tiles_type &tiles = *(tiles_type *)memory;
    dj_line *lines = (dj_line *)(memory + (sizeof(tiles_type) + 15) / 16 * 16);
    const dj_share share = dj_share_of<P>(c, cuts, DEPTH);
    const P p(c, share.part);
    const int64_t row = (int64_t)blockIdx.y * HIGH, column = (int64_t)blockIdx.x * WIDE;
    if (row >= p.rows() || column >= p.columns()) return; /* classes have several sizes */
    left += p.left_start();
    bias += bias ? p.group * p.rows() : 0;
    const int own_n = threadIdx.x % WIDE, own_k = threadIdx.x % DEPTH;
    const bool has_column = column + own_n < p.columns();
    const dj_column own = p.column(has_column ? column + own_n : 0);
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / 4 * (HIGH / 2), warp_column = warp % 4 * (WIDE / 4);
    float sums[ROWS][COLUMNS][4];
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
#pragma unroll
            for (int item = 0; item < 4; item++) sums[i][j][item] = 0;
    T left_now[LEFTS], right_now[RIGHTS];
    for (int64_t k = share.start - DEPTH; k < share.stop; k += DEPTH) {
        /* The next tiles are loaded while these are multiplied; the first turn has none. */
        const int64_t next = k + DEPTH;
        __syncthreads();
        if (k >= share.start) {
#pragma unroll
            for (int i = 0; i < LEFTS; i++)
                dj_put(&tiles.left[(threadIdx.x / DEPTH + i * (THREADS / DEPTH)) * LEFT_ROW + own_k],
                       left_now[i]);
#pragma unroll
            for (int i = 0; i < RIGHTS; i++)
                dj_put(&tiles.right[(threadIdx.x / WIDE + i * (THREADS / WIDE)) * RIGHT_ROW + own_n],
                       right_now[i]);
        }
        if (threadIdx.x < DEPTH && next + threadIdx.x < share.stop)
            lines[threadIdx.x] = p.line(next + threadIdx.x);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < LEFTS; i++) {
            const int64_t m = row + threadIdx.x / DEPTH + i * (THREADS / DEPTH);
            dj_narrow_to(&left_now[i], 0.0f);
            if (m < p.rows() && next + own_k < share.stop)
                left_now[i] = left[m * p.left_row() + lines[own_k].left];
        }
#pragma unroll
        for (int i = 0; i < RIGHTS; i++) {
            const int from = threadIdx.x / WIDE + i * (THREADS / WIDE);
            int64_t place;
            dj_narrow_to(&right_now[i], 0.0f);
            if (has_column && next + from < share.stop && dj_inside(p, lines[from], own, &place))
                right_now[i] = right[place];
        }
        if (k >= share.start) dj_multiply_tiles(sums, tiles, warp_row, warp_column);
    }
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
#pragma unroll
        for (int item = 0; item < 2; item++) {
            const int64_t n = column + warp_column + j * 8 + lane % 4 * 2 + item;
            if (n >= p.columns()) continue;
            O *to = result + share.cut * cut_size + p.column(n).result;
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int64_t m = row + warp_row + i * 16 + lane / 4 + half * 8;
                    if (m < p.rows())
                        dj_narrow_to(to + m * p.result_row(),
                                     dj_finished<IS_RECTIFIED>(sums[i][j][half * 2 + item], bias, m));
                }
        }
}
