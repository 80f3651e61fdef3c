/* Attention of CUDA units by tensor cores: float32 and 16-bit floats of up to 128 features and values.
 *
 * 128 threads: each of four warps has 16 rows of a block of 64; the tiles that it meets lie in shared
 * memory, copied there while the ones before are multiplied. Sums of a warp stay in its registers,
 * and weights go from sums to operands without leaving them.
 *
 * float32 (T = float) is multiplied in three products of parts with ten bits of mantissa, which is
 * about as exact as products of float32; where ten bits are enough (T = dj_tf32) in one.
 * Source: H. Ootomo, R. Yokota, "Recovering single precision accuracy from Tensor Cores while
 * surpassing the FP32 theoretical peak performance", arXiv:2203.03341.
 */

#define DJ_MMA_THREADS 128
#define DJ_MMA_ROWS 64

#define DJ_LOG2_E 1.4426950408889634f

/* Rows of a warp's sums: lane / 4, and 8 more for half 1. */
DJ_INLINE int dj_mma_row(int half) {
    return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + half * 8;
}

/* Columns of sum `n` of a warp: this one and the next. */
DJ_INLINE int dj_mma_column(int n) { return n * 8 + threadIdx.x % 4 * 2; }

template <int COUNT>
DJ_INLINE void dj_mma_clear(float (&sums)[COUNT][4]) {
#pragma unroll
    for (int n = 0; n < COUNT; n++)
#pragma unroll
        for (int k = 0; k < 4; k++) sums[n][k] = 0;
}

/* sums (16 rows of the warp by 8 * COUNT) += left rows . right rows, over INNER of both. */
template <int COUNT, int INNER, bool IS_WHOLE = false, typename T>
DJ_INLINE void dj_mma_rows(float (&sums)[COUNT][4], const T *left, const T *right) {
#pragma unroll 4 /* more would take what is loaded early out of what holds sums */
    for (int k = 0; k < INNER; k += 16) {
        uint32_t a[4];
        dj_load_a<INNER>(a, left, threadIdx.x / 32 * 16, k);
#pragma unroll
        for (int n = 0; n < COUNT; n += 2) {
            uint32_t b[4];
            dj_load_b<INNER>(b, right, n * 8, k);
            dj_mma(sums[n], a, b[0], b[1], T());
            dj_mma(sums[n + 1], a, b[2], b[3], T());
        }
    }
}

/* sums (16 by 8 * COUNT) += weights (16 by 8 * MET, in registers) @ right (8 * MET by WIDE).
 * PARTS: sums of float32 that are made at a time, an even number. */
template <int COUNT, int MET, int WIDE, int PARTS, typename T>
DJ_INLINE void dj_mma_weights(float (&sums)[COUNT][4], const float (&weights)[MET][4],
                              const T *right) {
#pragma unroll
    for (int k = 0; k < MET; k += 2) {
        uint32_t a[4];
#pragma unroll
        for (int side = 0; side < 2; side++) {
            a[2 * side] = dj_pair<T>(weights[k + side][0], weights[k + side][1]);
            a[2 * side + 1] = dj_pair<T>(weights[k + side][2], weights[k + side][3]);
        }
#pragma unroll
        for (int n = 0; n < COUNT; n += 2) {
            uint32_t b[4];
            dj_load_b_turned<WIDE>(b, right, n * 8, k * 8);
            dj_mma(sums[n], a, b[0], b[1], T());
            dj_mma(sums[n + 1], a, b[2], b[3], T());
        }
    }
}

/* ---- the same of float32 ---- */

/* An operand as tensor cores read it, and what that leaves of it. */
struct dj_parts {
    float big, small;
};

DJ_INLINE float dj_cut_tf32(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }

/* x is big + small to 23 bits: `big` is the nearest number of ten bits, so that `small` has one bit
 * more than fits. Half of big's last bit is added as a number: the conversion of TF32 takes one
 * instruction more, and an integer would make zeros of some NaNs. `small` of an infinity is NaN. */
DJ_INLINE dj_parts dj_parts_of(float x) {
    const float power = __uint_as_float(__float_as_uint(x) & 0xff800000u);
    dj_parts parts;
    parts.big = dj_cut_tf32(fmaf(power, 1.0f / 2048, x));
    parts.small = dj_cut_tf32(x - parts.big);
    return parts;
}
DJ_INLINE dj_parts dj_parts_of(dj_tf32 x) {
    const dj_parts parts = {dj_rounded_tf32(x.value), 0};
    return parts;
}

template <typename T>
DJ_INLINE T dj_of_bits(uint32_t bits) {
    T x;
    dj_narrow_to(&x, __uint_as_float(bits));
    return x;
}

DJ_INLINE bool dj_has_rest(float) { return true; }
DJ_INLINE bool dj_has_rest(dj_tf32) { return false; }

/* Sums n and n + 1 += a @ b; `rest` gets the products with a small part: IS_WHOLE: of two, too, for
 * sums that nearly cancel out. */
template <typename T, bool IS_WHOLE, int COUNT>
DJ_INLINE void dj_mma_parts(float (&sums)[COUNT][4], float (&rest)[COUNT][4], int n,
                            const dj_parts (&a)[4], const dj_parts (&b)[4]) {
    const float big[4] = {a[0].big, a[1].big, a[2].big, a[3].big};
    const float small[4] = {a[0].small, a[1].small, a[2].small, a[3].small};
    const bool has_rest = dj_has_rest(T());
#pragma unroll
    for (int side = 0; has_rest && IS_WHOLE && side < 2; side++)
        dj_mma_tf32(rest[n + side], small, b[2 * side].small, b[2 * side + 1].small);
#pragma unroll
    for (int side = 0; has_rest && side < 2; side++)
        dj_mma_tf32(rest[n + side], small, b[2 * side].big, b[2 * side + 1].big);
#pragma unroll
    for (int side = 0; side < 2; side++)
        dj_mma_tf32(sums[n + side], big, b[2 * side].big, b[2 * side + 1].big);
#pragma unroll
    for (int side = 0; has_rest && side < 2; side++)
        dj_mma_tf32(rest[n + side], big, b[2 * side].small, b[2 * side + 1].small);
}

/* A sum and its rest, which is no number (or an infinity) where an operand is none: then the sum has
 * all that there is to say. */
template <typename T>
DJ_INLINE float dj_whole(float sum, float rest) {
    return dj_has_rest(T()) && fabsf(rest) < INFINITY ? sum + rest : sum;
}

/* As dj_mma_rows. */
template <int COUNT, int INNER, bool IS_WHOLE, typename T>
DJ_INLINE void dj_mma_rows_32(float (&sums)[COUNT][4], const T *left, const T *right) {
    float rest[COUNT][4];
    dj_mma_clear(rest);
#pragma unroll 2 /* all of them would take what is loaded early out of what holds sums */
    for (int k = 0; k < INNER; k += 8) {
        uint32_t bits[4];
        dj_parts a[4], b[4];
        dj_load_a<INNER>(bits, left, threadIdx.x / 32 * 16, k);
#pragma unroll
        for (int item = 0; item < 4; item++) a[item] = dj_parts_of(dj_of_bits<T>(bits[item]));
#pragma unroll
        for (int n = 0; n < COUNT; n += 2) {
            dj_load_b<INNER>(bits, right, n * 8, k);
#pragma unroll
            for (int item = 0; item < 4; item++) b[item] = dj_parts_of(dj_of_bits<T>(bits[item]));
            dj_mma_parts<T, IS_WHOLE>(sums, rest, n, a, b);
        }
    }
#pragma unroll
    for (int n = 0; n < COUNT; n++)
#pragma unroll
        for (int item = 0; item < 4; item++) sums[n][item] = dj_whole<T>(sums[n][item], rest[n][item]);
}

template <int COUNT, int INNER, bool IS_WHOLE = false>
DJ_INLINE void dj_mma_rows(float (&sums)[COUNT][4], const float *left, const float *right) {
    dj_mma_rows_32<COUNT, INNER, IS_WHOLE>(sums, left, right);
}
template <int COUNT, int INNER, bool IS_WHOLE = false>
DJ_INLINE void dj_mma_rows(float (&sums)[COUNT][4], const dj_tf32 *left, const dj_tf32 *right) {
    dj_mma_rows_32<COUNT, INNER, IS_WHOLE>(sums, left, right);
}

/* As dj_mma_weights, in an order that takes no exchange. Inner indices: the columns lane % 4 and 4
 * beside of A are two neighbours of a sum, and B's rows the same ones. Columns: sums n and n + 1 have
 * every other one of 16, so that a lane reads two neighbours at once (dj_mma_column_of). What tensor
 * cores add up they round towards zero: only the products of one call are left to them. */
template <int COUNT, int MET, int WIDE, int PARTS, typename T>
DJ_INLINE void dj_mma_weights_32(float (&sums)[COUNT][4], const float (&weights)[MET][4],
                                 const T *right) {
    const T *from = right + threadIdx.x % 4 * 2 * dj_tile_row<WIDE, T>::length +
                    threadIdx.x % 32 / 4 * 2;
#pragma unroll
    for (int first = 0; first < COUNT; first += PARTS) {
        float own[PARTS][4], rest[PARTS][4];
        dj_mma_clear(own);
        dj_mma_clear(rest);
#pragma unroll
        for (int k = 0; k < MET; k++) {
            dj_parts a[4], b[4];
#pragma unroll
            for (int item = 0; item < 4; item++)
                a[item] = dj_parts_of(dj_of_bits<T>(
                    __float_as_uint(weights[k][item % 2 * 2 + item / 2])));
#pragma unroll
            for (int n = 0; n < PARTS; n += 2) {
                if (first + n >= COUNT) continue;
#pragma unroll
                for (int next = 0; next < 2; next++) {
                    uint32_t pair[2];
                    dj_load_pair(pair, from,
                                 (k * 8 + next) * dj_tile_row<WIDE, T>::length + (first + n) * 8);
                    b[next] = dj_parts_of(dj_of_bits<T>(pair[0]));
                    b[next + 2] = dj_parts_of(dj_of_bits<T>(pair[1]));
                }
                dj_mma_parts<T, false>(own, rest, n, a, b);
            }
        }
#pragma unroll
        for (int n = 0; n < PARTS; n++)
#pragma unroll
            for (int item = 0; item < 4; item++)
                if (first + n < COUNT)
                    sums[first + n][item] += dj_whole<T>(own[n][item], rest[n][item]);
    }
}

template <int COUNT, int MET, int WIDE, int PARTS>
DJ_INLINE void dj_mma_weights(float (&sums)[COUNT][4], const float (&weights)[MET][4],
                              const float *right) {
    dj_mma_weights_32<COUNT, MET, WIDE, PARTS>(sums, weights, right);
}
template <int COUNT, int MET, int WIDE, int PARTS>
DJ_INLINE void dj_mma_weights(float (&sums)[COUNT][4], const float (&weights)[MET][4],
                              const dj_tf32 *right) {
    dj_mma_weights_32<COUNT, MET, WIDE, PARTS>(sums, weights, right);
}

/* ---- results ---- */

/* The column of an item of sum `n` of dj_mma_weights. */
template <typename T>
DJ_INLINE int dj_mma_column_of(int n, int item) {
    return sizeof(T) == 2 ? dj_mma_column(n) + item
                          : n / 2 * 16 + threadIdx.x % 4 * 4 + item * 2 + n % 2;
}

/* The warp's sums of dj_mma_weights of T, times `scale`, as rows of a row-major matrix. */
template <typename T, int COUNT, typename R>
DJ_INLINE void dj_mma_store(const float (&sums)[COUNT][4], R *to, int64_t rows, int columns,
                            const float (&scale)[2]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = dj_mma_row(half);
        if (row >= rows) continue;
#pragma unroll
        for (int n = 0; n < COUNT; n++)
#pragma unroll
            for (int item = 0; item < 2; item++) {
                const int column = dj_mma_column_of<T>(n, item);
                if (column < columns)
                    dj_narrow_to(to + (int64_t)row * columns + column,
                                 sums[n][half * 2 + item] * scale[half]);
            }
    }
}

template <typename M, int MASK>
DJ_INLINE const void *dj_mask_of(const dj_attention &c, const void *mask, int64_t head) {
    const int64_t place = dj_head(c, c.mask, head);
    return (MASK & 3) == DJ_MASK_ADDS ? (const void *)((const M *)mask + place)
                                      : (const void *)((const uint8_t *)mask + place);
}

/* exp(score - base). The difference comes first: of large scores it is exact. */
DJ_INLINE float dj_mma_weight(float score, float base) {
    return exp2f((score - base) * DJ_LOG2_E);
}

/* Forward. K keys of a tile; E features and V values, multiples of 16. */
template <typename T, typename M, int MASK, int K, int E, int V>
DJ_INLINE void dj_attend_mma(const dj_attention &c, const T *query, const T *key, const T *value,
                             const void *mask, T *result, float *level) {
    DJ_DYNAMIC(T, memory);
    T *queries = memory, *keys = queries + DJ_MMA_ROWS * dj_tile_row<E, T>::length;
    T *values = keys + K * dj_tile_row<E, T>::length;
    const int64_t blocks = (c.queries + DJ_MMA_ROWS - 1) / DJ_MMA_ROWS;
    const int64_t head = blockIdx.x / blocks;
    const int64_t q = (blocks - 1 - blockIdx.x % blocks) * DJ_MMA_ROWS;
    query += dj_head(c, c.query, head) + q * c.query.row;
    key += dj_head(c, c.key, head);
    value += dj_head(c, c.value, head);
    mask = dj_mask_of<M, MASK>(c, mask, head);
    const bool key_packed = dj_is_packed(key, c.key, c.features);
    const bool value_packed = dj_is_packed(value, c.value, c.values);
    dj_load_tile<DJ_MMA_ROWS, E, DJ_MMA_THREADS>(queries, query, c.query.row, c.query.column,
                                                 c.queries - q, (int)c.features,
                                                 dj_is_packed(query, c.query, c.features));
    dj_load_tile<K, E, DJ_MMA_THREADS>(keys, key, c.key.row, c.key.column, c.keys, (int)c.features,
                                       key_packed);
    dj_copy_commit();
    float sums[V / 8][4], top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
    dj_mma_clear(sums);
    const int64_t stop = dj_last_key<MASK>(c, q + DJ_MMA_ROWS);
    for (int64_t k = 0; k < stop; k += K) {
        dj_copy_wait<0>();
        __syncthreads(); /* the keys are there, and nobody needs the values before */
        dj_load_tile<K, V, DJ_MMA_THREADS>(values, value + k * c.value.row, c.value.row,
                                           c.value.column, c.keys - k, (int)c.values, value_packed);
        dj_copy_commit();
        float scores[K / 8][4];
        dj_mma_clear(scores);
        dj_mma_rows<K / 8, E>(scores, queries, keys);
        const int64_t column = k + dj_mma_column(0);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t row = q + dj_mma_row(0) + half * 8;
            float best = -INFINITY;
#pragma unroll
            for (int n = 0; n < K / 8; n++)
#pragma unroll
                for (int item = 0; item < 2; item++) {
                    float &score = scores[n][half * 2 + item];
                    score = dj_score<MASK, M>(c, mask, row, column + n * 8 + item,
                                              score * (float)c.scale);
                    best = score > best ? score : best;
                }
#pragma unroll
            for (int offset = 1; offset < 4; offset *= 2) {
                const float other = dj_exchange(0xffffffffu, best, offset);
                best = other > best ? other : best;
            }
            const float now = best > top[half] ? best : top[half];
            const float base = now == -INFINITY ? 0.0f : now; /* of nothing yet */
            const float factor = dj_mma_weight(top[half], base);
            float sum = 0;
#pragma unroll
            for (int n = 0; n < K / 8; n++)
#pragma unroll
                for (int item = 0; item < 2; item++) {
                    float &score = scores[n][half * 2 + item];
                    score = dj_mma_weight(score, base);
                    sum += score;
                }
            total[half] = total[half] * factor + sum; /* of a quarter of the row */
            top[half] = now;
#pragma unroll
            for (int n = 0; n < V / 8; n++) {
                sums[n][half * 2] *= factor;
                sums[n][half * 2 + 1] *= factor;
            }
        }
        dj_copy_wait<0>();
        __syncthreads(); /* the values are there, and nobody needs the keys any more */
        if (k + K < stop) {
            dj_load_tile<K, E, DJ_MMA_THREADS>(keys, key + (k + K) * c.key.row, c.key.row,
                                               c.key.column, c.keys - k - K, (int)c.features,
                                               key_packed);
            dj_copy_commit();
        }
        dj_mma_weights<V / 8, K / 8, V, V <= 64 ? 8 : 4>(sums, scores, values);
    }
    float scale[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int offset = 1; offset < 4; offset *= 2)
            total[half] += dj_exchange(0xffffffffu, total[half], offset);
        const int64_t row = q + dj_mma_row(half);
        const bool is_dead = MASK && total[half] == 0; /* all scores are -inf */
        const float base = top[half] == -INFINITY ? 0.0f : top[half];
        const float own = base + logf(total[half]);
        if (level && threadIdx.x % 4 == 0 && row < c.queries)
            level[head * c.queries + row] = is_dead              ? INFINITY
                                            : total[half] == 0 ? NAN
                                                               : own;
        scale[half] = is_dead ? 0.0f : 1 / total[half];
    }
    if (result)
        dj_mma_store<T>(sums, result + (head * c.queries + q) * c.values, c.queries - q,
                     (int)c.values, scale);
}

/* What one query and one key give: their weight, and the slope in the place of `rise`. */
template <int MASK, typename M>
DJ_INLINE void dj_mma_slope(const dj_attention &c, const void *mask, int64_t q, int64_t k,
                            float level, float along, float &weight, float &rise) {
    const float score = dj_score<MASK, M>(c, mask, q, k, weight * (float)c.scale);
    weight = level == INFINITY ? 0.0f : dj_mma_weight(score, level);
    rise = dj_slope<MASK>(c, mask, q, k, weight, rise, along);
}

/* Gradients of keys and values: a block has 64 keys and goes over the queries, Q at a time. */
template <typename T, typename M, int MASK, int Q, int E, int V>
DJ_INLINE void dj_attend_keys_mma(const dj_attention &c, const T *gradient, const T *query,
                                  const T *key, const T *value, const void *mask,
                                  const float *level, const float *along, float *to_key,
                                  float *to_value) {
    DJ_DYNAMIC(T, memory);
    const int queries_size = Q * dj_tile_row<E, T>::length, own_size = Q * dj_tile_row<V, T>::length;
    T *keys = memory, *values = keys + DJ_MMA_ROWS * dj_tile_row<E, T>::length;
    T *queries = values + DJ_MMA_ROWS * dj_tile_row<V, T>::length;
    T *gradients = queries + 2 * queries_size;
    const int64_t blocks = (c.keys + DJ_MMA_ROWS - 1) / DJ_MMA_ROWS;
    const int64_t head = blockIdx.x / blocks, k = blockIdx.x % blocks * DJ_MMA_ROWS;
    gradient += dj_head(c, c.gradient, head);
    query += dj_head(c, c.query, head);
    key += dj_head(c, c.key, head) + k * c.key.row;
    value += dj_head(c, c.value, head) + k * c.value.row;
    level += dj_head(c, c.level, head);
    along += head * c.queries;
    mask = dj_mask_of<M, MASK>(c, mask, head);
    const bool query_packed = dj_is_packed(query, c.query, c.features);
    const bool gradient_packed = dj_is_packed(gradient, c.gradient, c.values);
    dj_load_tile<DJ_MMA_ROWS, E, DJ_MMA_THREADS>(keys, key, c.key.row, c.key.column, c.keys - k,
                                                 (int)c.features,
                                                 dj_is_packed(key, c.key, c.features));
    dj_load_tile<DJ_MMA_ROWS, V, DJ_MMA_THREADS>(values, value, c.value.row, c.value.column,
                                                 c.keys - k, (int)c.values,
                                                 dj_is_packed(value, c.value, c.values));
    float key_sums[E / 8][4], value_sums[V / 8][4];
    dj_mma_clear(key_sums);
    dj_mma_clear(value_sums);
    const int64_t first = MASK & DJ_MASK_DIAGONAL ? k / Q * Q : 0;
    int parity = 0;
    for (int64_t q = first - Q; q < c.queries; q += Q, parity ^= 1) {
        /* The next tiles come while these are multiplied; the first turn only asks for them. */
        const int64_t next = q + Q;
        if (next < c.queries) {
            dj_load_tile<Q, E, DJ_MMA_THREADS>(
                queries + parity * queries_size, query + next * c.query.row, c.query.row,
                c.query.column, c.queries - next, (int)c.features, query_packed);
            dj_load_tile<Q, V, DJ_MMA_THREADS>(
                gradients + parity * own_size, gradient + next * c.gradient.row, c.gradient.row,
                c.gradient.column, c.queries - next, (int)c.values, gradient_packed);
        }
        dj_copy_commit();
        if (q < first) continue;
        dj_copy_wait<1>();
        __syncthreads();
        const T *own_queries = queries + (1 - parity) * queries_size;
        const T *own_gradients = gradients + (1 - parity) * own_size;
        float weights[Q / 8][4], slopes[Q / 8][4];
        dj_mma_clear(weights);
        dj_mma_clear(slopes);
        dj_mma_rows<Q / 8, E>(weights, keys, own_queries);
        dj_mma_rows<Q / 8, V, true>(slopes, values, own_gradients);
        const int64_t first_row = q + dj_mma_column(0), column = k + dj_mma_row(0);
#pragma unroll
        for (int n = 0; n < Q / 8; n++)
#pragma unroll
            for (int item = 0; item < 2; item++) {
                const int64_t row = first_row + n * 8 + item;
                const float own = row < c.queries ? level[row * c.level.row] : INFINITY;
                const float sum = row < c.queries ? along[row] : 0.0f;
#pragma unroll
                for (int half = 0; half < 2; half++)
                    dj_mma_slope<MASK, M>(c, mask, row, column + half * 8, own, sum,
                                          weights[n][half * 2 + item], slopes[n][half * 2 + item]);
            }
        dj_mma_weights<V / 8, Q / 8, V, 2>(value_sums, weights, own_gradients);
        dj_mma_weights<E / 8, Q / 8, E, 2>(key_sums, slopes, own_queries);
        __syncthreads();
    }
    const float scale[2] = {(float)c.scale, (float)c.scale}, one[2] = {1, 1};
    if (to_key)
        dj_mma_store<T>(key_sums, to_key + (head * c.keys + k) * c.features, c.keys - k,
                     (int)c.features, scale);
    if (to_value)
        dj_mma_store<T>(value_sums, to_value + (head * c.keys + k) * c.values, c.keys - k,
                     (int)c.values, one);
}

/* Gradients of queries: a block has 64 queries and goes over the keys, K at a time. */
template <typename T, typename M, int MASK, int K, int E, int V>
DJ_INLINE void dj_attend_queries_mma(const dj_attention &c, const T *gradient, const T *query,
                                     const T *key, const T *value, const void *mask,
                                     const float *level, const float *along, float *to_query) {
    DJ_DYNAMIC(T, memory);
    const int keys_size = K * dj_tile_row<E, T>::length, values_size = K * dj_tile_row<V, T>::length;
    T *queries = memory, *gradients = queries + DJ_MMA_ROWS * dj_tile_row<E, T>::length;
    T *keys = gradients + DJ_MMA_ROWS * dj_tile_row<V, T>::length;
    T *values = keys + 2 * keys_size;
    const int64_t blocks = (c.queries + DJ_MMA_ROWS - 1) / DJ_MMA_ROWS;
    const int64_t head = blockIdx.x / blocks;
    const int64_t q = (blocks - 1 - blockIdx.x % blocks) * DJ_MMA_ROWS;
    gradient += dj_head(c, c.gradient, head) + q * c.gradient.row;
    query += dj_head(c, c.query, head) + q * c.query.row;
    key += dj_head(c, c.key, head);
    value += dj_head(c, c.value, head);
    level += dj_head(c, c.level, head);
    along += head * c.queries;
    mask = dj_mask_of<M, MASK>(c, mask, head);
    const bool key_packed = dj_is_packed(key, c.key, c.features);
    const bool value_packed = dj_is_packed(value, c.value, c.values);
    dj_load_tile<DJ_MMA_ROWS, E, DJ_MMA_THREADS>(queries, query, c.query.row, c.query.column,
                                                 c.queries - q, (int)c.features,
                                                 dj_is_packed(query, c.query, c.features));
    dj_load_tile<DJ_MMA_ROWS, V, DJ_MMA_THREADS>(gradients, gradient, c.gradient.row,
                                                 c.gradient.column, c.queries - q, (int)c.values,
                                                 dj_is_packed(gradient, c.gradient, c.values));
    float sums[E / 8][4], own[2], sum[2];
    dj_mma_clear(sums);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int64_t row = q + dj_mma_row(half);
        own[half] = row < c.queries ? level[row * c.level.row] : INFINITY;
        sum[half] = row < c.queries ? along[row] : 0.0f;
    }
    const int64_t stop = dj_last_key<MASK>(c, q + DJ_MMA_ROWS);
    for (int64_t k = -K; k < stop; k += K) {
        /* The next tiles come while these are multiplied; the first turn only asks for them. */
        const int64_t next = k + K, parity = next / K % 2;
        if (next < stop) {
            dj_load_tile<K, E, DJ_MMA_THREADS>(keys + parity * keys_size, key + next * c.key.row,
                                               c.key.row, c.key.column, c.keys - next,
                                               (int)c.features, key_packed);
            dj_load_tile<K, V, DJ_MMA_THREADS>(values + parity * values_size,
                                               value + next * c.value.row, c.value.row,
                                               c.value.column, c.keys - next, (int)c.values,
                                               value_packed);
        }
        dj_copy_commit();
        if (k < 0) continue;
        dj_copy_wait<1>();
        __syncthreads();
        const T *own_keys = keys + (1 - parity) * keys_size;
        const T *own_values = values + (1 - parity) * values_size;
        float weights[K / 8][4], slopes[K / 8][4];
        dj_mma_clear(weights);
        dj_mma_clear(slopes);
        dj_mma_rows<K / 8, E>(weights, queries, own_keys);
        dj_mma_rows<K / 8, V, true>(slopes, gradients, own_values);
        const int64_t row = q + dj_mma_row(0), column = k + dj_mma_column(0);
#pragma unroll
        for (int n = 0; n < K / 8; n++)
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int item = 0; item < 2; item++)
                    dj_mma_slope<MASK, M>(c, mask, row + half * 8, column + n * 8 + item,
                                          own[half], sum[half],
                                          weights[n][half * 2 + item], slopes[n][half * 2 + item]);
        dj_mma_weights<E / 8, K / 8, E, E <= 64 ? 8 : 4>(sums, slopes, own_keys);
        __syncthreads();
    }
    const float scale[2] = {(float)c.scale, (float)c.scale};
    dj_mma_store<T>(sums, to_query + (head * c.queries + q) * c.features, c.queries - q,
                 (int)c.features, scale);
}
