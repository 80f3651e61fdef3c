/* Attention of CUDA units: softmax(query @ key' * scale + mask) @ value without the weights.
 *
 * A block of queries meets one block of keys after the other; per query the largest score so far and
 * the sum of exponentials are kept, and what was added up is scaled when a larger score comes.
 * Backward computes the weights again from the logarithm of that sum (`level`): one kernel goes over
 * the queries for each block of keys, another one over the keys for each block of queries, so that
 * no sums meet and bits are the same every time. Blocks above the diagonal are left out.
 *
 * float32 and 16-bit floats of up to 128 features and values are multiplied by tensor cores
 * (dj_..._mma), the others by tiles in shared memory (dj_..._tiles), added up in float32 or float64.
 * MASK is one of the kinds below, and 4 more under the diagonal.
 *
 * Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867;
 * T. Dao, "FlashAttention-2", arXiv:2307.08691.
 */

enum { DJ_MASK_NONE, DJ_MASK_CHOOSES, DJ_MASK_ADDS, DJ_MASK_DIAGONAL = 4 };

/* Where a matrix of each head lies: strides of four leading dims, rows and columns, in elements. */
struct dj_place {
    int64_t offset, batch[4], row, column;
};

struct dj_attention {
    int64_t batch[4], queries, keys, features, values;
    double scale;
    dj_place query, key, value, mask, gradient, result, level;
};

DJ_INLINE int64_t dj_head(const dj_attention &c, const dj_place &x, int64_t head) {
    int64_t at = x.offset;
#pragma unroll
    for (int d = 3; d >= 0; d--) {
        at += head % c.batch[d] * x.batch[d];
        head /= c.batch[d];
    }
    return at;
}

/* Whether neighbours of a row are packs of 16 aligned bytes, for every row. */
template <typename T>
DJ_INLINE bool dj_is_packed(const T *from, const dj_place &x, int64_t columns) {
    const int pack = 16 / sizeof(T);
    return x.column == 1 && x.row % pack == 0 && columns % pack == 0 && dj_is_aligned<16>(from);
}

template <int MASK, typename R>
DJ_INLINE R dj_masked(const dj_attention &c, const void *mask, int64_t q, int64_t k, R score) {
    if (k >= c.keys || q >= c.queries) return (R)-INFINITY;
    if ((MASK & DJ_MASK_DIAGONAL) && k > q) return (R)-INFINITY;
    const int64_t at = q * c.mask.row + k * c.mask.column;
    if ((MASK & 3) == DJ_MASK_CHOOSES) return ((const uint8_t *)mask)[at] ? score : (R)-INFINITY;
    return score;
}

/* What an added mask has at a place. */
template <typename M, typename R>
DJ_INLINE R dj_added(const dj_attention &c, const void *mask, int64_t q, int64_t k, R score) {
    if (k >= c.keys || q >= c.queries) return (R)-INFINITY;
    return score + (R)dj_widened(((const M *)mask)[q * c.mask.row + k * c.mask.column]);
}

template <int MASK, typename M, typename R>
DJ_INLINE R dj_score(const dj_attention &c, const void *mask, int64_t q, int64_t k, R score) {
    score = dj_masked<MASK>(c, mask, q, k, score);
    return (MASK & 3) == DJ_MASK_ADDS ? dj_added<M>(c, mask, q, k, score) : score;
}

/* Keys that a block of queries sees: under the diagonal those up to its last one. */
template <int MASK>
DJ_INLINE int64_t dj_last_key(const dj_attention &c, int64_t behind) {
    return MASK & DJ_MASK_DIAGONAL ? dj_min_index(behind, c.keys) : c.keys;
}

/* A weight: exp(score - level), 0 where nothing is seen. */
template <typename R>
DJ_INLINE R dj_weight(R score, R level) {
    return level == (R)INFINITY ? (R)0 : dj_exp_of(score - level);
}

/* ==== tiles in shared memory ==== */

/* 256 threads, 16 by 16: a thread has every 16th row and column of a tile. */
#define DJ_SIDE 16
#define DJ_TILE_THREADS (DJ_SIDE * DJ_SIDE)

template <int HIGH, int WIDE, typename T, typename R>
DJ_INLINE void dj_fill_tile(R *tile, const T *from, int64_t row_step, int64_t column_step,
                            int64_t rows, int columns) {
    for (int place = threadIdx.x; place < HIGH * WIDE; place += DJ_TILE_THREADS) {
        const int row = place / WIDE, column = place % WIDE;
        R value = 0;
        if (row < rows && column < columns)
            value = dj_widened(from[row * row_step + column * column_step]);
        tile[row * (WIDE + 1) + column] = value;
    }
}

/* sums[i][j] += left[row i] . right[row j] over `inner` columns of both. */
template <int ROWS, int COLUMNS, int INNER, typename R>
DJ_INLINE void dj_multiply_rows(R (&sums)[ROWS][COLUMNS], const R *left, const R *right) {
    const int x = threadIdx.x % DJ_SIDE, y = threadIdx.x / DJ_SIDE;
#pragma unroll 4
    for (int k = 0; k < INNER; k++) {
        R a[ROWS], b[COLUMNS];
#pragma unroll
        for (int i = 0; i < ROWS; i++) a[i] = left[(y + i * DJ_SIDE) * (INNER + 1) + k];
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) b[j] = right[(x + j * DJ_SIDE) * (INNER + 1) + k];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) sums[i][j] = dj_fma(a[i], b[j], sums[i][j]);
    }
}

/* sums[i][j] += left[row i][k] * right[k][column j] over INNER k. */
template <int ROWS, int COLUMNS, int INNER, int WIDE, typename R>
DJ_INLINE void dj_multiply(R (&sums)[ROWS][COLUMNS], const R *left, const R *right) {
    const int x = threadIdx.x % DJ_SIDE, y = threadIdx.x / DJ_SIDE;
#pragma unroll 4
    for (int k = 0; k < INNER; k++) {
        R a[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++) a[i] = left[(y + i * DJ_SIDE) * (INNER + 1) + k];
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            const R b = right[k * (WIDE + 1) + x + j * DJ_SIDE];
#pragma unroll
            for (int i = 0; i < ROWS; i++) sums[i][j] = dj_fma(a[i], b, sums[i][j]);
        }
    }
}

template <int ROWS, int COLUMNS, typename R>
DJ_INLINE void dj_clear(R (&sums)[ROWS][COLUMNS]) {
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) sums[i][j] = 0;
}

/* The largest value, or the sum, of the 16 threads of a row. */
template <typename R>
DJ_INLINE R dj_row_top(R value) {
#pragma unroll
    for (int offset = 1; offset < DJ_SIDE; offset *= 2) {
        const R other = dj_exchange(0xffffffffu, value, offset);
        value = other > value ? other : value;
    }
    return value;
}

template <typename R>
DJ_INLINE R dj_row_sum(R value) {
#pragma unroll
    for (int offset = 1; offset < DJ_SIDE; offset *= 2)
        value += dj_exchange(0xffffffffu, value, offset);
    return value;
}

/* Forward. Q queries of a block, K keys of a tile; E features and V values, multiples of 16. */
template <typename T, typename M, int MASK, int Q, int K, int E, int V>
DJ_INLINE void dj_attend_tiles(const dj_attention &c, const T *query, const T *key, const T *value,
                               const void *mask, T *result, typename dj_wide<T>::type *level) {
    typedef typename dj_wide<T>::type R;
    DJ_DYNAMIC(R, memory);
    const int wide = E > V ? E : V;
    R *queries = memory, *other = queries + Q * (E + 1), *weights = other + K * (wide + 1);
    const int x = threadIdx.x % DJ_SIDE, y = threadIdx.x / DJ_SIDE;
    const int64_t blocks = (c.queries + Q - 1) / Q;
    const int64_t head = blockIdx.x / blocks, q = (blocks - 1 - blockIdx.x % blocks) * Q;
    query += dj_head(c, c.query, head) + q * c.query.row;
    key += dj_head(c, c.key, head);
    value += dj_head(c, c.value, head);
    const int64_t place = dj_head(c, c.mask, head);
    mask = (MASK & 3) == DJ_MASK_ADDS ? (const void *)((const M *)mask + place)
                                      : (const void *)((const uint8_t *)mask + place);
    dj_fill_tile<Q, E>(queries, query, c.query.row, c.query.column, c.queries - q, (int)c.features);
    R sums[Q / DJ_SIDE][V / DJ_SIDE], top[Q / DJ_SIDE], total[Q / DJ_SIDE];
    dj_clear(sums);
#pragma unroll
    for (int i = 0; i < Q / DJ_SIDE; i++) top[i] = (R)-INFINITY, total[i] = 0;
    const int64_t stop = dj_last_key<MASK>(c, q + Q);
    for (int64_t k = 0; k < stop; k += K) {
        __syncthreads();
        dj_fill_tile<K, E>(other, key + k * c.key.row, c.key.row, c.key.column, c.keys - k,
                           (int)c.features);
        __syncthreads();
        R scores[Q / DJ_SIDE][K / DJ_SIDE];
        dj_clear(scores);
        dj_multiply_rows<Q / DJ_SIDE, K / DJ_SIDE, E>(scores, queries, other);
#pragma unroll
        for (int i = 0; i < Q / DJ_SIDE; i++) {
            const int row = y + i * DJ_SIDE;
            R best = (R)-INFINITY;
#pragma unroll
            for (int j = 0; j < K / DJ_SIDE; j++) {
                scores[i][j] = dj_score<MASK, M>(c, mask, q + row, k + x + j * DJ_SIDE,
                                                 scores[i][j] * (R)c.scale);
                best = scores[i][j] > best ? scores[i][j] : best;
            }
            best = dj_row_top(best);
            const R now = best > top[i] ? best : top[i];
            const R base = now == (R)-INFINITY ? (R)0 : now; /* of nothing yet */
            const R factor = dj_exp_of(top[i] - base);
            R sum = 0;
#pragma unroll
            for (int j = 0; j < K / DJ_SIDE; j++) {
                const R weight = dj_exp_of(scores[i][j] - base);
                weights[row * (K + 1) + x + j * DJ_SIDE] = weight;
                sum += weight;
            }
            total[i] = total[i] * factor + dj_row_sum(sum);
            top[i] = now;
#pragma unroll
            for (int j = 0; j < V / DJ_SIDE; j++) sums[i][j] *= factor;
        }
        __syncthreads();
        dj_fill_tile<K, V>(other, value + k * c.value.row, c.value.row, c.value.column, c.keys - k,
                           (int)c.values);
        __syncthreads();
        dj_multiply<Q / DJ_SIDE, V / DJ_SIDE, K, V>(sums, weights, other);
    }
#pragma unroll
    for (int i = 0; i < Q / DJ_SIDE; i++) {
        const int64_t row = q + y + i * DJ_SIDE;
        if (row >= c.queries) continue;
        const bool is_dead = MASK && total[i] == 0; /* all scores are -inf */
        const R base = top[i] == (R)-INFINITY ? (R)0 : top[i];
        if (level && x == 0)
            level[head * c.queries + row] = is_dead         ? (R)INFINITY
                                            : total[i] == 0 ? (R)NAN
                                                            : base + dj_log_of(total[i]);
        if (!result) continue;
        T *to = result + (head * c.queries + row) * c.values;
#pragma unroll
        for (int j = 0; j < V / DJ_SIDE; j++)
            if (x + j * DJ_SIDE < c.values)
                dj_narrow_to(to + x + j * DJ_SIDE, is_dead ? (R)0 : sums[i][j] / total[i]);
    }
}

/* gradient times result, summed over the values of each query: a warp for each. */
template <typename T>
DJ_INLINE void dj_attention_along(const dj_attention &c, const T *gradient, const T *result,
                                  typename dj_wide<T>::type *along) {
    typedef typename dj_wide<T>::type R;
    const int64_t heads = c.batch[0] * c.batch[1] * c.batch[2] * c.batch[3];
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= heads * c.queries) return;
    const int64_t head = row / c.queries, q = row % c.queries;
    gradient += dj_head(c, c.gradient, head) + q * c.gradient.row;
    result += dj_head(c, c.result, head) + q * c.result.row;
    R sum = 0;
    for (int64_t v = threadIdx.x % 32; v < c.values; v += 32)
        sum = dj_fma((R)dj_widened(gradient[v * c.gradient.column]),
                     (R)dj_widened(result[v * c.result.column]), sum);
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) sum += dj_exchange(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) along[row] = sum;
}

/* The gradient of a score; those that a mask takes out have none. */
template <int MASK, typename R>
DJ_INLINE R dj_slope(const dj_attention &c, const void *mask, int64_t q, int64_t k, R weight, R rise,
                     R along) {
    if (weight == 0 && dj_masked<MASK>(c, mask, q, k, (R)0) != 0) return 0;
    return weight * (rise - along);
}

/* Gradients of keys and values: a block has K keys and goes over the queries, Q at a time. */
template <typename T, typename M, int MASK, int Q, int K, int E, int V>
DJ_INLINE void dj_attend_keys_tiles(
    const dj_attention &c, const T *gradient, const T *query, const T *key, const T *value,
    const void *mask, const typename dj_wide<T>::type *level,
    const typename dj_wide<T>::type *along, typename dj_wide<T>::type *to_key,
    typename dj_wide<T>::type *to_value) {
    typedef typename dj_wide<T>::type R;
    DJ_DYNAMIC(R, memory);
    R *keys = memory, *values = keys + K * (E + 1), *queries = values + K * (V + 1);
    R *gradients = queries + Q * (E + 1), *scores = gradients + Q * (V + 1);
    const int x = threadIdx.x % DJ_SIDE, y = threadIdx.x / DJ_SIDE;
    const int64_t blocks = (c.keys + K - 1) / K;
    const int64_t head = blockIdx.x / blocks, k = blockIdx.x % blocks * K;
    gradient += dj_head(c, c.gradient, head);
    query += dj_head(c, c.query, head);
    key += dj_head(c, c.key, head) + k * c.key.row;
    value += dj_head(c, c.value, head) + k * c.value.row;
    level += dj_head(c, c.level, head);
    along += head * c.queries;
    const int64_t place = dj_head(c, c.mask, head);
    mask = (MASK & 3) == DJ_MASK_ADDS ? (const void *)((const M *)mask + place)
                                      : (const void *)((const uint8_t *)mask + place);
    dj_fill_tile<K, E>(keys, key, c.key.row, c.key.column, c.keys - k, (int)c.features);
    dj_fill_tile<K, V>(values, value, c.value.row, c.value.column, c.keys - k, (int)c.values);
    R key_sums[K / DJ_SIDE][E / DJ_SIDE], value_sums[K / DJ_SIDE][V / DJ_SIDE];
    dj_clear(key_sums);
    dj_clear(value_sums);
    const int64_t first = MASK & DJ_MASK_DIAGONAL ? k / Q * Q : 0;
    for (int64_t q = first; q < c.queries; q += Q) {
        __syncthreads();
        dj_fill_tile<Q, E>(queries, query + q * c.query.row, c.query.row, c.query.column,
                           c.queries - q, (int)c.features);
        dj_fill_tile<Q, V>(gradients, gradient + q * c.gradient.row, c.gradient.row,
                           c.gradient.column, c.queries - q, (int)c.values);
        __syncthreads();
        R weights[K / DJ_SIDE][Q / DJ_SIDE], slopes[K / DJ_SIDE][Q / DJ_SIDE];
        dj_clear(weights);
        dj_clear(slopes);
        dj_multiply_rows<K / DJ_SIDE, Q / DJ_SIDE, E>(weights, keys, queries);
        dj_multiply_rows<K / DJ_SIDE, Q / DJ_SIDE, V>(slopes, values, gradients);
#pragma unroll
        for (int j = 0; j < Q / DJ_SIDE; j++) {
            const int64_t row = q + x + j * DJ_SIDE;
            const R own = row < c.queries ? level[row * c.level.row] : (R)INFINITY;
            const R sum = row < c.queries ? along[row] : (R)0;
#pragma unroll
            for (int i = 0; i < K / DJ_SIDE; i++) {
                const int64_t column = k + y + i * DJ_SIDE;
                const R score = dj_score<MASK, M>(c, mask, row, column, weights[i][j] * (R)c.scale);
                weights[i][j] = dj_weight(score, own);
                slopes[i][j] =
                    dj_slope<MASK>(c, mask, row, column, weights[i][j], slopes[i][j], sum);
                scores[(y + i * DJ_SIDE) * (Q + 1) + x + j * DJ_SIDE] = weights[i][j];
            }
        }
        __syncthreads();
        dj_multiply<K / DJ_SIDE, V / DJ_SIDE, Q, V>(value_sums, scores, gradients);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < Q / DJ_SIDE; j++)
#pragma unroll
            for (int i = 0; i < K / DJ_SIDE; i++)
                scores[(y + i * DJ_SIDE) * (Q + 1) + x + j * DJ_SIDE] = slopes[i][j];
        __syncthreads();
        dj_multiply<K / DJ_SIDE, E / DJ_SIDE, Q, E>(key_sums, scores, queries);
    }
#pragma unroll
    for (int i = 0; i < K / DJ_SIDE; i++) {
        const int64_t row = k + y + i * DJ_SIDE;
        if (row >= c.keys) continue;
#pragma unroll
        for (int j = 0; j < E / DJ_SIDE; j++)
            if (to_key && x + j * DJ_SIDE < c.features)
                dj_narrow_to(to_key + (head * c.keys + row) * c.features + x + j * DJ_SIDE,
                             key_sums[i][j] * (R)c.scale);
#pragma unroll
        for (int j = 0; j < V / DJ_SIDE; j++)
            if (to_value && x + j * DJ_SIDE < c.values)
                dj_narrow_to(to_value + (head * c.keys + row) * c.values + x + j * DJ_SIDE,
                             value_sums[i][j]);
    }
}

/* Gradients of queries: a block has Q queries and goes over the keys, K at a time. */
template <typename T, typename M, int MASK, int Q, int K, int E, int V>
DJ_INLINE void dj_attend_queries_tiles(
    const dj_attention &c, const T *gradient, const T *query, const T *key, const T *value,
    const void *mask, const typename dj_wide<T>::type *level,
    const typename dj_wide<T>::type *along, typename dj_wide<T>::type *to_query) {
    typedef typename dj_wide<T>::type R;
    DJ_DYNAMIC(R, memory);
    R *queries = memory, *gradients = queries + Q * (E + 1), *keys = gradients + Q * (V + 1);
    R *values = keys + K * (E + 1), *slopes = values + K * (V + 1);
    const int x = threadIdx.x % DJ_SIDE, y = threadIdx.x / DJ_SIDE;
    const int64_t blocks = (c.queries + Q - 1) / Q;
    const int64_t head = blockIdx.x / blocks, q = (blocks - 1 - blockIdx.x % blocks) * Q;
    gradient += dj_head(c, c.gradient, head) + q * c.gradient.row;
    query += dj_head(c, c.query, head) + q * c.query.row;
    key += dj_head(c, c.key, head);
    value += dj_head(c, c.value, head);
    level += dj_head(c, c.level, head);
    along += head * c.queries;
    const int64_t place = dj_head(c, c.mask, head);
    mask = (MASK & 3) == DJ_MASK_ADDS ? (const void *)((const M *)mask + place)
                                      : (const void *)((const uint8_t *)mask + place);
    dj_fill_tile<Q, E>(queries, query, c.query.row, c.query.column, c.queries - q, (int)c.features);
    dj_fill_tile<Q, V>(gradients, gradient, c.gradient.row, c.gradient.column, c.queries - q,
                       (int)c.values);
    R sums[Q / DJ_SIDE][E / DJ_SIDE], own[Q / DJ_SIDE], sum[Q / DJ_SIDE];
    dj_clear(sums);
#pragma unroll
    for (int i = 0; i < Q / DJ_SIDE; i++) {
        const int64_t row = q + y + i * DJ_SIDE;
        own[i] = row < c.queries ? level[row * c.level.row] : (R)INFINITY;
        sum[i] = row < c.queries ? along[row] : (R)0;
    }
    const int64_t stop = dj_last_key<MASK>(c, q + Q);
    for (int64_t k = 0; k < stop; k += K) {
        __syncthreads();
        dj_fill_tile<K, E>(keys, key + k * c.key.row, c.key.row, c.key.column, c.keys - k,
                           (int)c.features);
        dj_fill_tile<K, V>(values, value + k * c.value.row, c.value.row, c.value.column, c.keys - k,
                           (int)c.values);
        __syncthreads();
        R weights[Q / DJ_SIDE][K / DJ_SIDE], rises[Q / DJ_SIDE][K / DJ_SIDE];
        dj_clear(weights);
        dj_clear(rises);
        dj_multiply_rows<Q / DJ_SIDE, K / DJ_SIDE, E>(weights, queries, keys);
        dj_multiply_rows<Q / DJ_SIDE, K / DJ_SIDE, V>(rises, gradients, values);
#pragma unroll
        for (int i = 0; i < Q / DJ_SIDE; i++)
#pragma unroll
            for (int j = 0; j < K / DJ_SIDE; j++) {
                const int64_t row = q + y + i * DJ_SIDE, column = k + x + j * DJ_SIDE;
                const R score = dj_score<MASK, M>(c, mask, row, column, weights[i][j] * (R)c.scale);
                const R weight = dj_weight(score, own[i]);
                slopes[(y + i * DJ_SIDE) * (K + 1) + x + j * DJ_SIDE] =
                    dj_slope<MASK>(c, mask, row, column, weight, rises[i][j], sum[i]);
            }
        __syncthreads();
        dj_multiply<Q / DJ_SIDE, E / DJ_SIDE, K, E>(sums, slopes, keys);
    }
#pragma unroll
    for (int i = 0; i < Q / DJ_SIDE; i++) {
        const int64_t row = q + y + i * DJ_SIDE;
        if (row >= c.queries) continue;
#pragma unroll
        for (int j = 0; j < E / DJ_SIDE; j++)
            if (x + j * DJ_SIDE < c.features)
                dj_narrow_to(to_query + (head * c.queries + row) * c.features + x + j * DJ_SIDE,
                             sums[i][j] * (R)c.scale);
    }
}
