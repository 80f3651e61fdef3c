/* Positions along a dim in order, of CUDA units: all of a row's (a sort), or the first of them.
 *
 * A place is a key and an element's position: no two places of a row are equal, so places in order
 * are the stable order of the elements, whatever the method. Equal elements have equal keys (all
 * NaNs, both zeros); NaN is the largest. A block sorts what its shared memory holds by a bitonic
 * network; runs of a longer row are then merged two by two: every place finds how many of the other
 * run's are in front of it. Of a run only as many places are kept as are wanted.
 * Source: K. Batcher, "Sorting networks and their applications", AFIPS 1968.
 */

/* Sizes and strides of the DIMS other dims. Args: elements of a row; which places of its order are
 * wanted, from `start` to before `stop`; distance of a row's elements, offset of the first one;
 * distance of a row's results. */
template <int DIMS>
struct dj_order {
    int64_t size, start, stop, step, offset, inner;
    int64_t sizes[DIMS ? DIMS : 1], strides[DIMS ? DIMS : 1];

    DJ_INLINE_MEMBER int64_t rows() const {
        int64_t count = 1;
#pragma unroll
        for (int d = 0; d < DIMS; d++) count *= sizes[d];
        return count;
    }

    /* Where a row begins. */
    DJ_INLINE_MEMBER int64_t begin(int64_t row) const {
        int64_t at = offset;
#pragma unroll
        for (int d = DIMS - 1; d >= 0; d--) {
            at += row % sizes[d] * strides[d];
            row /= sizes[d];
        }
        return at;
    }

    /* Where place number `rank` of a row's order goes. */
    DJ_INLINE_MEMBER int64_t result(int64_t row, int64_t rank) const {
        return (row / inner * (stop - start) + rank - start) * inner + row % inner;
    }
};

/* Keys as unsigned numbers in the order of the elements. Source: IEEE 754, whose magnitudes are
 * ordered like integers. */
DJ_INLINE uint32_t dj_key_bits(uint32_t bits, uint32_t sign, uint32_t infinity) {
    const uint32_t size = bits & (sign - 1);
    if (size > infinity) return 0xffffffffu; /* NaN */
    return bits & sign ? 0x80000000u - size : 0x80000000u + size;
}

DJ_INLINE uint32_t dj_key(dj_f16 x) { return dj_key_bits(x.bits, 0x8000u, 0x7c00u); }
DJ_INLINE uint32_t dj_key(dj_bf16 x) { return dj_key_bits(x.bits, 0x8000u, 0x7f80u); }
DJ_INLINE uint32_t dj_key(float x) {
    return dj_key_bits(dj_bits_of_f32(x), 0x80000000u, 0x7f800000u);
}
DJ_INLINE uint64_t dj_key(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t sign = 1ull << 63, size = bits & (sign - 1);
    if (size > 0x7ff0000000000000ull) return ~0ull; /* NaN */
    return bits & sign ? sign - size : sign + size;
}
DJ_INLINE uint32_t dj_key(uint8_t x) { return x; }
DJ_INLINE uint32_t dj_key(int8_t x) { return (uint32_t)(int32_t)x ^ 0x80000000u; }
DJ_INLINE uint32_t dj_key(int16_t x) { return (uint32_t)(int32_t)x ^ 0x80000000u; }
DJ_INLINE uint32_t dj_key(int32_t x) { return (uint32_t)x ^ 0x80000000u; }
DJ_INLINE uint64_t dj_key(int64_t x) { return (uint64_t)x ^ 1ull << 63; }

template <typename K, typename P>
DJ_INLINE bool dj_is_before(K key, P position, K other_key, P other_position) {
    return key < other_key || (key == other_key && position < other_position);
}

#define DJ_ORDER_THREADS 512
#define DJ_ORDER_BLOCK 2048 /* elements that a block sorts */

/* Rows, or runs of ROW elements of them, in order: as results, or as runs of `kept` places. */
template <int ROW, bool IS_DESCENDING, bool IS_RESULT, typename K, typename P, typename T, int DIMS>
DJ_INLINE void dj_order_blocks(const dj_order<DIMS> &c, const T *x, int64_t *result, K *run_keys,
                               P *run_positions) {
    __shared__ K keys[DJ_ORDER_BLOCK];
    __shared__ P positions[DJ_ORDER_BLOCK];
    const int64_t runs = (c.size + ROW - 1) / ROW; /* of a row */
    const int64_t first = (int64_t)blockIdx.x * (DJ_ORDER_BLOCK / ROW), count = c.rows() * runs;
    for (int i = threadIdx.x; i < DJ_ORDER_BLOCK; i += DJ_ORDER_THREADS) {
        const int64_t run = first + i / ROW, row = run / runs;
        const int64_t element = run % runs * ROW + i % ROW;
        keys[i] = ~(K)0; /* behind everything, since its position is */
        positions[i] = (P)element;
        if (run < count && element < c.size) {
            const K key = dj_key(x[c.begin(row) + element * c.step]);
            keys[i] = IS_DESCENDING ? ~key : key;
        }
    }
    for (int size = 2; size <= ROW; size *= 2)
        for (int step = size / 2; step; step /= 2) {
            __syncthreads();
            for (int pair = threadIdx.x; pair < DJ_ORDER_BLOCK / 2; pair += DJ_ORDER_THREADS) {
                const int i = 2 * pair - (pair & (step - 1)), j = i + step;
                const K a = keys[i], b = keys[j];
                const P p = positions[i], q = positions[j];
                const bool rises = (i % ROW & size) == 0;
                if (dj_is_before(b, q, a, p) == rises) {
                    keys[i] = b, keys[j] = a;
                    positions[i] = q, positions[j] = p;
                }
            }
        }
    __syncthreads();
    const int64_t kept = dj_min_index(ROW, c.stop);
    for (int i = threadIdx.x; i < DJ_ORDER_BLOCK; i += DJ_ORDER_THREADS) {
        const int64_t run = first + i / ROW, rank = i % ROW;
        if (run >= count || rank >= c.stop) continue;
        const int64_t length = dj_min_index(ROW, c.size - run % runs * ROW);
        if (rank >= length) continue;
        if (IS_RESULT) {
            if (rank >= c.start) result[c.result(run, rank)] = positions[i];
        } else {
            run_keys[run * kept + rank] = keys[i];
            run_positions[run * kept + rank] = positions[i];
        }
    }
}

/* Runs of `length` elements become runs of twice as many: as results, or as runs again. */
template <bool IS_RESULT, typename K, typename P, int DIMS>
DJ_INLINE void dj_order_merge(const dj_order<DIMS> &c, int64_t length, const K *keys,
                              const P *positions, int64_t *result, K *next_keys,
                              P *next_positions) {
    const int64_t runs = (c.size + length - 1) / length, kept = dj_min_index(length, c.stop);
    const int64_t next_runs = (c.size + 2 * length - 1) / (2 * length);
    const int64_t next_kept = dj_min_index(2 * length, c.stop);
    const int64_t count = c.rows() * runs * kept, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const int64_t place = i % kept, run = i / kept % runs, row = i / kept / runs;
        const int64_t own = dj_min_index(kept, c.size - run * length);
        if (place >= own) continue;
        const int64_t other = run ^ 1;
        int64_t low = 0, high = 0;
        if (other < runs) high = dj_min_index(kept, c.size - other * length);
        const K key = keys[i];
        const P position = positions[i];
        const int64_t base = (row * runs + other) * kept;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (dj_is_before(keys[base + middle], positions[base + middle], key, position))
                low = middle + 1;
            else
                high = middle;
        }
        const int64_t rank = place + low;
        if (rank >= next_kept) continue;
        if (IS_RESULT) {
            if (rank >= c.start && rank < c.stop) result[c.result(row, rank)] = position;
        } else {
            const int64_t to = (row * next_runs + run / 2) * next_kept + rank;
            next_keys[to] = key;
            next_positions[to] = position;
        }
    }
}
