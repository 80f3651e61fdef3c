/* Attention in blocks: softmax(query @ key' * scale + mask) @ value without the matrix of weights.
 *
 * Included once per dtype after panels.h, with the dtype's DJ_EXP and DJ_LOG, and with DJ_MASKS: the
 * kinds of masks that its calls have (DJ_MASK_CHOOSES | DJ_MASK_ADDS | DJ_MASK_DIAGONAL), so that no
 * others are compiled. A block of queries meets one block of keys after the other; per query the
 * largest score so far and the sum of exponentials are kept, and what was added up is scaled when a
 * larger score comes. Backward computes the weights again from the logarithm of that sum (`level`).
 * Blocks above the diagonal are left out where nothing in them could give NaN.
 * Cuts depend on sizes only, so the bits of a result do not depend on the number of threads.
 *
 * Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867;
 * T. Dao et al., "FlashAttention", arXiv:2205.14135.
 */

#ifndef DJ_ATTENTION_WORK
#ifdef _OPENMP
int omp_get_thread_num(void);
#define DJ_ATTENTION_MEMBER omp_get_thread_num()
#else
#define DJ_ATTENTION_MEMBER 0
#endif

#define DJ_ATTENTION_WORK (1 << 20) /* multiplications that are worth a team */

enum {
    DJ_QUERIES = 48, /* of a block: multiples of the rows of a tile */
    DJ_KEYS = 192,   /* and of the elements in DJ_LINE bytes */
    DJ_LINE = 64,
    DJ_ATTENTION_TASKS = 16, /* up to which heads are cut */
    DJ_MASK_NONE = 0,
    DJ_MASK_CHOOSES = 1, /* bool: False gives -inf */
    DJ_MASK_ADDS = 2,
    DJ_MASK_DIAGONAL = 4, /* is_causal */
};

typedef struct {
    int64_t batch[4], queries, keys, features, values;
    double scale;
    int is_causal, mask_kind;
    dj_strided query, key, value, mask, gradient, result, level;
} dj_attention;

DJ_INLINE int64_t dj_round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Where the matrix of a head begins. */
static DJ_ONCE int64_t dj_head(const dj_attention *c, const dj_strided *x,
                                               int64_t head) {
    int64_t at = x->offset;
    for (int d = 3; d >= 0; d--) {
        at += head % c->batch[d] * x->batch[d];
        head /= c->batch[d];
    }
    return at;
}

/* Into how many tasks the `blocks` of a head are cut. */
DJ_INLINE int64_t dj_cuts(int64_t heads, int64_t blocks) {
    return dj_max_index(dj_min_index((DJ_ATTENTION_TASKS + heads - 1) / heads, blocks), 1);
}
#endif

/* ---- rows of scores ---- */

DJ_INLINE int DJ_OF(dj_chooses)(const dj_attention *c) {
    return (DJ_MASKS & DJ_MASK_CHOOSES) && c->mask_kind == DJ_MASK_CHOOSES;
}

DJ_INLINE int DJ_OF(dj_adds)(const dj_attention *c) {
    return (DJ_MASKS & DJ_MASK_ADDS) && c->mask_kind == DJ_MASK_ADDS;
}

DJ_INLINE int DJ_OF(dj_is_causal)(const dj_attention *c) {
    return (DJ_MASKS & DJ_MASK_DIAGONAL) && c->is_causal;
}

typedef T DJ_OF(dj_line) __attribute__((vector_size(DJ_LINE), aligned(sizeof(T)), may_alias));

DJ_INLINE T DJ_OF(dj_top)(const T *x, int64_t count, T top) {
    enum { LANES = DJ_LINE / sizeof(T) };
    T lanes[LANES];
    for (int l = 0; l < LANES; l++) lanes[l] = top;
    for (int64_t j = 0; j < count; j += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] = x[j + l] > lanes[l] ? x[j + l] : lanes[l];
    for (int l = 0; l < LANES; l++) top = lanes[l] > top ? lanes[l] : top;
    return top;
}

DJ_INLINE T DJ_OF(dj_lane_sum)(DJ_OF(dj_line) lanes) {
    enum { LANES = DJ_LINE / sizeof(T) };
    T parts[LANES];
    memcpy(parts, &lanes, sizeof parts);
    for (int step = LANES / 2; step; step /= 2)
        for (int l = 0; l < step; l++) parts[l] += parts[l + step];
    return parts[0];
}

/* exp(x) where many x are -inf: what dj_exp computes for them, and leaves out, may be subnormal,
 * which takes a CPU a hundred times as long. */
DJ_INLINE T DJ_OF(dj_weight)(T x) {
    const int is_gone = x < (sizeof(T) == 4 ? -104 : -746); /* the exponential rounds to 0 */
    const T y = DJ_EXP(is_gone ? 0 : x);
    return is_gone ? 0 : y;
}

/* x (count, a multiple of the lanes) becomes exp(x - base). Without masks few x are -inf. */
DJ_INLINE void DJ_OF(dj_weights)(T *x, int64_t count, T base) {
    enum { LANES = DJ_LINE / sizeof(T) };
    for (int64_t j = 0; j < count; j += LANES)
        for (int l = 0; l < LANES; l++)
            x[j + l] = DJ_MASKS ? DJ_OF(dj_weight)(x[j + l] - base) : DJ_EXP(x[j + l] - base);
}

static DJ_ONCE void DJ_OF(dj_fill)(T *x, int64_t count, T value) {
    for (int64_t j = 0; j < count; j++) x[j] = value;
}

/* `other` where the diagonal or a bool mask keeps queries from q on and keys from k on apart. */
static DJ_ONCE void DJ_OF(dj_choose)(const dj_attention *c, const void *mask, int64_t q,
                                     int64_t rows, int64_t k, int64_t keys, T other, T *scores) {
    const int64_t step = c->mask.column;
    for (int64_t r = 0; r < rows; r++) {
        T *restrict x = scores + r * DJ_KEYS;
        const int64_t seen = DJ_OF(dj_is_causal)(c) ? dj_max_index(q + r + 1 - k, 0) : keys;
        if (seen < keys) DJ_OF(dj_fill)(x + seen, keys - seen, other);
        if (!DJ_OF(dj_chooses)(c)) continue;
        const uint8_t *m = (const uint8_t *)mask + (q + r) * c->mask.row + k * step;
        if (step == 1) {
            for (int64_t j = 0; j < keys; j++) x[j] = m[j] ? x[j] : other;
            continue;
        }
        for (int64_t j = 0; j < keys; j++) {
            DJ_PLAIN_LOOP
            if (!m[j * step]) x[j] = other;
        }
    }
}

/* Scores with their mask: -inf where they take no part, and in the rest of `wide`. */
static DJ_ONCE void DJ_OF(dj_mask)(const dj_attention *c, const void *mask, int64_t q,
                                   int64_t rows, int64_t k, int64_t keys, int64_t wide,
                                   T *scores) {
    const int64_t step = c->mask.column;
    if (DJ_OF(dj_is_causal)(c) || DJ_OF(dj_chooses)(c))
        DJ_OF(dj_choose)(c, mask, q, rows, k, keys, -INFINITY, scores);
    for (int64_t r = 0; r < rows; r++) {
        T *restrict x = scores + r * DJ_KEYS;
        if (wide > keys) DJ_OF(dj_fill)(x + keys, wide - keys, -INFINITY);
        if (!DJ_OF(dj_adds)(c)) continue;
        const T *m = (const T *)mask + (q + r) * c->mask.row + k * step;
        if (step == 1) {
            for (int64_t j = 0; j < keys; j++) x[j] += m[j];
            continue;
        }
        for (int64_t j = 0; j < keys; j++) {
            DJ_PLAIN_LOOP
            x[j] += m[j * step];
        }
    }
}

/* ---- forward ---- */

typedef struct {
    const T *query, *key, *value, *gradient, *result, *level;
    const void *mask;
} DJ_OF(dj_head_operands);

static DJ_ONCE DJ_OF(dj_head_operands) DJ_OF(dj_operands)(
    const dj_attention *c, int64_t head, const DJ_OF(dj_head_operands) *all) {
    DJ_OF(dj_head_operands) own = *all;
    own.query += dj_head(c, &c->query, head);
    own.key += dj_head(c, &c->key, head);
    own.value += dj_head(c, &c->value, head);
    if (own.gradient) own.gradient += dj_head(c, &c->gradient, head);
    if (own.result) own.result += dj_head(c, &c->result, head);
    if (own.level) own.level += dj_head(c, &c->level, head);
    const int64_t mask = dj_head(c, &c->mask, head);
    if (DJ_OF(dj_chooses)(c)) own.mask = (const uint8_t *)own.mask + mask;
    if (DJ_OF(dj_adds)(c)) own.mask = (const T *)own.mask + mask;
    return own;
}

/* Scores become weights; the largest score, the sum of weights and what was summed follow. */
static DJ_ONCE void DJ_OF(dj_soften)(T *restrict scores, int64_t rows, int64_t count,
                                     T *restrict top, T *restrict total, T *restrict sums,
                                     int64_t wide) {
    enum { LANES = DJ_LINE / sizeof(T) };
    for (int64_t r = 0; r < rows; r++) {
        T *x = scores + r * DJ_KEYS;
        const T new_top = DJ_OF(dj_top)(x, count, top[r]);
        const T base = new_top == -INFINITY ? 0 : new_top; /* of nothing yet */
        const T factor = DJ_OF(dj_weight)(top[r] - base);
        DJ_OF(dj_line) sum = {0};
        DJ_OF(dj_weights)(x, count, base);
        for (int64_t j = 0; j < count; j += LANES) sum += *(const DJ_OF(dj_line) *)(x + j);
        total[r] = total[r] * factor + DJ_OF(dj_lane_sum)(sum);
        top[r] = new_top;
        if (sums && factor != 1)
            for (int64_t j = 0; j < wide; j += LANES)
                *(DJ_OF(dj_line) *)(sums + r * wide + j) *= factor;
    }
}

/* One block of queries, whose keys and values are packed. */
static DJ_ONCE void DJ_OF(dj_attend)(
    const dj_attention *c, const DJ_OF(dj_head_operands) *x, int64_t q, int64_t rows,
    const T *keys_packed, const T *values_packed, int may_skip, T *result, T *level, T *memory) {
    enum { LANES = DJ_LINE / sizeof(T) };
    const int64_t inner = dj_round_up(c->features, LANES), wide = dj_round_up(c->values, LANES);
    const int64_t all = dj_round_up(rows, DJ_PANEL_ROWS);
    const int is_masked = DJ_OF(dj_is_causal)(c) || c->mask_kind;
    T *packed = memory, *scores = packed + DJ_QUERIES * inner;
    T *sums = scores + DJ_QUERIES * DJ_KEYS;
    T top[DJ_QUERIES], total[DJ_QUERIES];
    for (int64_t r = 0; r < rows; r++) top[r] = -INFINITY, total[r] = 0;
    DJ_OF(dj_pack)(x->query + q * c->query.row, c->query.row, c->query.column, rows, c->features,
                   (T)c->scale, all, inner, packed);
    for (int64_t k = 0; k < c->keys && !(may_skip && k >= q + rows); k += DJ_KEYS) {
        const int64_t keys = dj_min_index(DJ_KEYS, c->keys - k), padded = dj_round_up(keys, LANES);
        DJ_OF(dj_panels_product)(packed, keys_packed + k * inner, all, inner, padded, scores,
                                 DJ_KEYS);
        DJ_OF(dj_mask)(c, x->mask, q, rows, k, keys, padded, scores);
        DJ_OF(dj_soften)(scores, rows, padded, top, total, k ? sums : NULL, wide);
        DJ_OF(dj_panel_product)(scores, DJ_KEYS, 1, values_packed + k * wide, all, padded, wide,
                                sums, wide, k > 0);
    }
    for (int64_t r = 0; r < rows; r++) {
        const int is_dead = is_masked && total[r] == 0; /* all scores are -inf */
        if (level) {
            const T base = top[r] == -INFINITY ? 0 : top[r];
            level[r] = is_dead ? INFINITY : total[r] == 0 ? NAN : base + DJ_LOG(total[r]);
        }
        if (!result) continue;
        T *restrict row = result + r * c->values;
        if (is_dead) DJ_OF(dj_fill)(row, c->values, 0);
        for (int64_t j = 0; !is_dead && j < c->values; j++) row[j] = sums[r * wide + j] / total[r];
    }
}

static __attribute__((unused)) void DJ_OF(dj_attention_forward)(
    const dj_attention *c, const DJ_OF(dj_head_operands) all, T *result, T *level, int threads,
    int64_t *status) {
    enum { LANES = DJ_LINE / sizeof(T) };
    const int64_t inner = dj_round_up(c->features, LANES), wide = dj_round_up(c->values, LANES);
    const int64_t heads = c->batch[0] * c->batch[1] * c->batch[2] * c->batch[3];
    const int64_t blocks = (c->queries + DJ_QUERIES - 1) / DJ_QUERIES;
    const int64_t cuts = dj_cuts(heads, blocks);
    const int64_t work = heads * c->queries * c->keys * (c->features + c->values);
    const int team = work >= DJ_ATTENTION_WORK ? threads : 1;
    const int64_t length = dj_round_up(c->keys, LANES);
    const int64_t own = length * (inner + wide) + DJ_QUERIES * (inner + wide + DJ_KEYS);
    T *memory = malloc(sizeof(T) * (size_t)(own * team) + DJ_LINE);
    if (!memory) { status[0] = 3; return; }
    T *lined = (T *)(((uintptr_t)memory + DJ_LINE - 1) / DJ_LINE * DJ_LINE);
#pragma omp parallel for schedule(dynamic) num_threads(team)
    for (int64_t task = 0; task < heads * cuts; task++) {
        const int64_t head = task / cuts, cut = task % cuts;
        const DJ_OF(dj_head_operands) x = DJ_OF(dj_operands)(c, head, &all);
        T *keys = lined + own * DJ_ATTENTION_MEMBER, *values = keys + length * inner;
        int may_skip = DJ_OF(dj_is_causal)(c);
        for (int64_t k = 0; k < c->keys; k += DJ_KEYS) {
            const int64_t some = dj_min_index(DJ_KEYS, c->keys - k);
            const int64_t padded = dj_round_up(some, LANES);
            DJ_OF(dj_pack)(x.key + k * c->key.row, c->key.column, c->key.row, c->features, some, 1,
                           inner, padded, keys + k * inner);
            DJ_OF(dj_pack)(x.value + k * c->value.row, c->value.row, c->value.column, some,
                           c->values, 1, padded, wide, values + k * wide);
        }
        if (may_skip) may_skip = DJ_OF(dj_is_finite)(values, length * wide);
        for (int64_t block = blocks * cut / cuts; block < blocks * (cut + 1) / cuts; block++) {
            const int64_t q = block * DJ_QUERIES, row = head * c->queries + q;
            DJ_OF(dj_attend)(c, &x, q, dj_min_index(DJ_QUERIES, c->queries - q), keys, values,
                             may_skip, result ? result + row * c->values : NULL,
                             level ? level + row : NULL, values + length * wide);
        }
    }
    free(memory);
}

/* ---- backward ---- */

/* What the key blocks of a head share: packed queries and gradients, by blocks of queries. */
typedef struct {
    const dj_attention *c;
    DJ_OF(dj_head_operands) x;
    T *queries, *gradients, *levels, *along; /* along: gradient times result, summed */
    T *scores, *slopes, *keys, *values, *rows, *to_key, *to_value, *to_query;
    int is_plain; /* nothing in queries, gradients and levels is inf or NaN */
} DJ_OF(dj_backward);

static DJ_ONCE T DJ_OF(dj_along)(const T *a, int64_t a_step, const T *b,
                                                 int64_t b_step, int64_t count) {
    enum { LANES = DJ_LINE / sizeof(T) };
    T lanes[LANES] = {0};
    int64_t j = 0;
    if (a_step == 1 && b_step == 1)
        for (; j + LANES <= count; j += LANES)
            for (int l = 0; l < LANES; l++) lanes[l] += a[j + l] * b[j + l];
    for (; j < count; j++) lanes[j % LANES] += a[j * a_step] * b[j * b_step];
    for (int step = LANES / 2; step; step /= 2)
        for (int l = 0; l < step; l++) lanes[l] += lanes[l + step];
    return lanes[0];
}

static DJ_ONCE void DJ_OF(dj_prepare)(DJ_OF(dj_backward) *b) {
    enum { LANES = DJ_LINE / sizeof(T) };
    const dj_attention *c = b->c;
    const int64_t inner = dj_round_up(c->features, LANES), wide = dj_round_up(c->values, LANES);
    b->is_plain = 1;
    for (int64_t q = 0; q < c->queries; q += DJ_QUERIES) {
        const int64_t rows = dj_min_index(DJ_QUERIES, c->queries - q);
        const int64_t all = dj_round_up(rows, DJ_PANEL_ROWS);
        DJ_OF(dj_pack)(b->x.query + q * c->query.row, c->query.row, c->query.column, rows,
                       c->features, (T)c->scale, all, inner, b->queries + q * inner);
        DJ_OF(dj_pack)(b->x.gradient + q * c->gradient.row, c->gradient.row, c->gradient.column,
                       rows, c->values, 1, all, wide, b->gradients + q * wide);
        if (DJ_OF(dj_is_causal)(c))
            b->is_plain = b->is_plain && DJ_OF(dj_is_finite)(b->queries + q * inner, all * inner) &&
                          DJ_OF(dj_is_finite)(b->gradients + q * wide, all * wide);
        for (int64_t r = q; r < q + rows; r++) {
            b->levels[r] = b->x.level[r * c->level.row];
            b->is_plain = b->is_plain && b->levels[r] == b->levels[r];
            b->along[r] = DJ_OF(dj_along)(b->x.gradient + r * c->gradient.row, c->gradient.column,
                                          b->x.result + r * c->result.row, c->result.column,
                                          c->values);
        }
    }
}

/* Scores become weights, gradients of weights those of scores; zeros beyond queries and keys. */
static DJ_ONCE void DJ_OF(dj_slopes)(
    const DJ_OF(dj_backward) *b, int64_t q, int64_t rows, int64_t all, int64_t k, int64_t keys,
    int64_t padded) {
    enum { LANES = DJ_LINE / sizeof(T) };
    for (int64_t r = 0; r < all; r++) {
        T *restrict weights = b->scores + r * DJ_KEYS, *restrict slopes = b->slopes + r * DJ_KEYS;
        if (r >= rows || b->levels[q + r] == INFINITY) { /* no query, or no key for it */
            memset(weights, 0, sizeof(T) * (size_t)padded);
            memset(slopes, 0, sizeof(T) * (size_t)padded);
            continue;
        }
        const T level = b->levels[q + r], along = b->along[q + r];
        DJ_OF(dj_weights)(weights, padded, level);
        for (int64_t j = 0; j < padded; j += LANES)
            for (int l = 0; l < LANES; l++) slopes[j + l] = weights[j + l] * (slopes[j + l] - along);
        if (padded > keys) {
            DJ_OF(dj_fill)(weights + keys, padded - keys, 0);
            DJ_OF(dj_fill)(slopes + keys, padded - keys, 0);
        }
    }
    if (DJ_OF(dj_is_causal)(b->c) || DJ_OF(dj_chooses)(b->c))
        DJ_OF(dj_choose)(b->c, b->x.mask, q, rows, k, keys, 0, b->slopes);
}

/* One block of keys with all queries: adds to to_query, sets to_key and to_value. */
static DJ_ONCE void DJ_OF(dj_attend_back)(const DJ_OF(dj_backward) *b, int64_t k,
                                                          int64_t keys) {
    enum { LANES = DJ_LINE / sizeof(T) };
    const dj_attention *c = b->c;
    const int64_t inner = dj_round_up(c->features, LANES), wide = dj_round_up(c->values, LANES);
    const int64_t padded = dj_round_up(keys, LANES), key_rows = dj_round_up(padded, DJ_PANEL_ROWS);
    DJ_OF(dj_pack)(b->x.key + k * c->key.row, c->key.column, c->key.row, c->features, keys, 1,
                   inner, padded, b->keys);
    DJ_OF(dj_pack)(b->x.value + k * c->value.row, c->value.column, c->value.row, c->values, keys, 1,
                   wide, padded, b->values);
    if (b->to_query)
        DJ_OF(dj_pack)(b->x.key + k * c->key.row, c->key.row, c->key.column, keys, c->features, 1,
                       padded, inner, b->rows);
    const int may_skip = DJ_OF(dj_is_causal)(c) && b->is_plain &&
                         DJ_OF(dj_is_finite)(b->keys, inner * padded) &&
                         DJ_OF(dj_is_finite)(b->values, wide * padded);
    int is_more = 0;
    for (int64_t q = 0; q < c->queries; q += DJ_QUERIES) {
        const int64_t rows = dj_min_index(DJ_QUERIES, c->queries - q);
        const int64_t all = dj_round_up(rows, DJ_PANEL_ROWS);
        const T *queries = b->queries + q * inner, *gradients = b->gradients + q * wide;
        if (may_skip && q + rows <= k) continue;
        DJ_OF(dj_panels_product)(queries, b->keys, all, inner, padded, b->scores, DJ_KEYS);
        DJ_OF(dj_mask)(c, b->x.mask, q, rows, k, keys, padded, b->scores);
        DJ_OF(dj_panels_product)(gradients, b->values, all, wide, padded, b->slopes, DJ_KEYS);
        DJ_OF(dj_slopes)(b, q, rows, all, k, keys, padded);
        if (b->to_value)
            DJ_OF(dj_panel_product)(b->scores, 1, DJ_KEYS, gradients, key_rows, all, wide,
                                    b->to_value, wide, is_more);
        if (b->to_key)
            DJ_OF(dj_panel_product)(b->slopes, 1, DJ_KEYS, queries, key_rows, all, inner,
                                    b->to_key, inner, is_more);
        if (b->to_query)
            DJ_OF(dj_panel_product)(b->slopes, DJ_KEYS, 1, b->rows, all, padded, inner,
                                    b->to_query + q * inner, inner, 1);
        is_more = 1;
    }
    if (!is_more && b->to_key) memset(b->to_key, 0, sizeof(T) * (size_t)(keys * inner));
    if (!is_more && b->to_value) memset(b->to_value, 0, sizeof(T) * (size_t)(keys * wide));
}

/* The first `columns` of each row of `from`, times `scale`. */
static DJ_ONCE void DJ_OF(dj_unpad)(const T *restrict from, int64_t row, int64_t rows,
                                    int64_t columns, T scale, T *restrict to) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++) to[r * columns + j] = from[r * row + j] * scale;
}

/* Gradients of query, key and value; NULL for one that nobody wants. */
static __attribute__((unused)) void DJ_OF(dj_attention_backward)(
    const dj_attention *c, const DJ_OF(dj_head_operands) given, T *to_query, T *to_key, T *to_value,
    int threads, int64_t *status) {
    enum { LANES = DJ_LINE / sizeof(T) };
    const int64_t inner = dj_round_up(c->features, LANES), wide = dj_round_up(c->values, LANES);
    const int64_t heads = c->batch[0] * c->batch[1] * c->batch[2] * c->batch[3];
    const int64_t blocks = (c->keys + DJ_KEYS - 1) / DJ_KEYS, cuts = dj_cuts(heads, blocks);
    const int64_t work = heads * c->queries * c->keys * (c->features + c->values);
    const int team = work >= DJ_ATTENTION_WORK ? threads : 1;
    const int64_t length = dj_round_up(c->queries, DJ_QUERIES), across = inner + wide;
    const int64_t block = DJ_QUERIES * DJ_KEYS;
    const int64_t own = length * across + 2 * dj_round_up(length, LANES) + 2 * block +
                        DJ_KEYS * (2 * inner + wide + across);
    const int64_t parts = to_query ? length * inner : 0; /* of the gradient of a head's queries */
    T *memory = malloc(sizeof(T) * (size_t)(own * team + parts * (cuts > 1 ? heads * cuts : team)) +
                       DJ_LINE);
    if (!memory) { status[0] = 3; return; }
    T *lined = (T *)(((uintptr_t)memory + DJ_LINE - 1) / DJ_LINE * DJ_LINE);
    T *sums = lined + own * team;
#pragma omp parallel for schedule(dynamic) num_threads(team)
    for (int64_t task = 0; task < heads * cuts; task++) {
        const int64_t head = task / cuts, cut = task % cuts, member = DJ_ATTENTION_MEMBER;
        DJ_OF(dj_backward) b = {.c = c, .x = DJ_OF(dj_operands)(c, head, &given)};
        b.queries = lined + own * member, b.gradients = b.queries + length * inner;
        b.levels = b.gradients + length * wide, b.along = b.levels + dj_round_up(length, LANES);
        b.scores = b.along + dj_round_up(length, LANES), b.slopes = b.scores + block;
        b.keys = b.slopes + block, b.values = b.keys + DJ_KEYS * inner;
        b.rows = b.values + DJ_KEYS * wide;
        b.to_key = to_key ? b.rows + DJ_KEYS * inner : NULL;
        b.to_value = to_value ? b.rows + DJ_KEYS * 2 * inner : NULL;
        b.to_query = to_query ? sums + parts * (cuts > 1 ? task : member) : NULL;
        if (to_query) memset(b.to_query, 0, sizeof(T) * (size_t)parts);
        DJ_OF(dj_prepare)(&b);
        for (int64_t i = blocks * cut / cuts; i < blocks * (cut + 1) / cuts; i++) {
            const int64_t k = i * DJ_KEYS, keys = dj_min_index(DJ_KEYS, c->keys - k);
            const int64_t row = head * c->keys + k;
            DJ_OF(dj_attend_back)(&b, k, keys);
            if (to_key)
                DJ_OF(dj_unpad)(b.to_key, inner, keys, c->features, 1,
                                to_key + row * c->features);
            if (to_value)
                DJ_OF(dj_unpad)(b.to_value, wide, keys, c->values, 1,
                                to_value + row * c->values);
        }
        if (to_query && cuts == 1)
            DJ_OF(dj_unpad)(b.to_query, inner, c->queries, c->features, (T)c->scale,
                            to_query + head * c->queries * c->features);
    }
    if (to_query && cuts > 1) {
#pragma omp parallel for schedule(static) num_threads(team)
        for (int64_t row = 0; row < heads * c->queries; row++) {
            T *sum = sums + row / c->queries * cuts * parts + row % c->queries * inner;
            for (int64_t cut = 1; cut < cuts; cut++)
                for (int64_t j = 0; j < inner; j++) sum[j] += sum[cut * parts + j];
            DJ_OF(dj_unpad)(sum, inner, 1, c->features, (T)c->scale, to_query + row * c->features);
        }
    }
    free(memory);
}
