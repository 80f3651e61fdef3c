/* Matrix products of one dtype for one instruction set; included by _products.c once for each.
 *
 * The includer defines ELEMENT and INDEX (an integer of the same size), LANES of a vector, TALL (the
 * rows of a tile: 6 or 14; with two vectors of columns they fill the registers), DEPTH (of k at a
 * time: a tile of a stays in the first cache, a group of b in the second), DEPTH_OF(k, left, DEPTH)
 * (how much of it comes next), TARGET (the attribute that names the instruction set),
 * LOAD_SOME(from, count) and STORE_SOME(to, count, x) (the first lanes of a vector; nothing else is
 * touched, the others are 0), HAS_FEW (1 if few_products.h knows how MKL multiplies few rows or
 * columns of this dtype) and NAMED(x), the name of x here.
 *
 * The scheme is Goto's (K. Goto, R. van de Geijn, "Anatomy of High-Performance Matrix
 * Multiplication", ACM TOMS 34(3), 2008): blocks of both operands are packed in the order in which
 * a kernel for one tile reads them, unless so few tiles read them that it does not pay. A tile of the
 * left operand stays in the first cache while it is multiplied by a group of columns, which stays in
 * the second.
 *
 * Every element is a sum over k in order, cut at places that depend on k alone: its bits do not
 * depend on the other sizes, nor on how a product is cut into tiles. Products that the caller says to
 * have few rows or columns (IS_FEW) are the exception on CPUs of AMD: see few_products.h.
 */

typedef ELEMENT NAMED(vector)
    __attribute__((vector_size(LANES * sizeof(ELEMENT)), aligned(sizeof(ELEMENT)), may_alias));
typedef INDEX NAMED(order) __attribute__((vector_size(LANES * sizeof(ELEMENT))));
#define WIDE (2 * LANES) /* columns of a tile */
#define PACKED_ROW (DEPTH + 16) /* not a power of two: rows lie in different sets of the cache */

/* c (R, V LANES) = a (R, depth) @ b (depth, V LANES), or added to what c holds. Rows of a are
 * addressed from three of them by a_row and its triple: 14 pointers would not fit into registers.
 * FETCHES: the columns of b beside these are fetched meanwhile. APART: a term is rounded before it is
 * added, and sums go on from what c holds, instead of being added to it. */
#define KERNEL(R, V, NAME, FETCHES, APART)                                                          \
    TARGET static void NAMED(NAME##R)(const ELEMENT *restrict a, int64_t a_row, int64_t a_step,     \
                                      const ELEMENT *restrict b, int64_t b_step,                    \
                                      ELEMENT *restrict c, int64_t c_row, int64_t depth,            \
                                      int adds) {                                                   \
        typedef NAMED(vector) vector;                                                               \
        const int64_t triple = 3 * a_row;                                                           \
        const ELEMENT *a5 = a + 5 * a_row, *a10 = a + 10 * a_row;                                   \
        vector sum[R][V], right[V];                                                                 \
        _Pragma("GCC unroll 14") for (int r = 0; r < R; r++)                                        \
            _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) {                                   \
                __builtin_prefetch(c + r * c_row + v * LANES, 1);                                   \
                sum[r][v] = (vector){0};                                                            \
                if (APART && adds) sum[r][v] = *(const vector *)(c + r * c_row + v * LANES);        \
            }                                                                                       \
        for (int64_t l = 0; l < depth; l++) {                                                       \
            _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) {                                   \
                right[v] = *(const vector *)(b + v * LANES);                                        \
                if (FETCHES) __builtin_prefetch(b + WIDE + v * LANES);                              \
            }                                                                                       \
            _Pragma("GCC unroll 14") for (int r = 0; r < R; r++) {                                  \
                const ELEMENT *near = r < 5 ? a : r < 10 ? a5 : a10;                                \
                const ELEMENT x = near[r % 5 == 3 ? triple : r % 5 * a_row];                        \
                _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) {                               \
                    vector term = x * right[v];                                                     \
                    if (APART) __asm__("" : "+v"(term));                                            \
                    sum[r][v] += term;                                                              \
                }                                                                                   \
            }                                                                                       \
            a += a_step, a5 += a_step, a10 += a_step, b += b_step;                                  \
            __asm__("" : "+r"(a), "+r"(a5), "+r"(a10)); /* or the compiler makes 14 pointers */     \
        }                                                                                           \
        _Pragma("GCC unroll 14") for (int r = 0; r < R; r++)                                        \
            _Pragma("GCC unroll 2") for (int v = 0; v < V; v++) {                                   \
                vector *to = (vector *)(c + r * c_row + v * LANES);                                 \
                if (!(APART) && adds) sum[r][v] += *to;                                             \
                *to = sum[r][v];                                                                    \
            }                                                                                       \
    }
#if HAS_FEW
#define APART_KERNELS(R) KERNEL(R, 1, apart, 0, 1) KERNEL(R, 2, apart_two, 0, 1)
#else
#define APART_KERNELS(R)
#endif
#define KERNELS(R)                                                                                  \
    KERNEL(R, 1, one, 0, 0) KERNEL(R, 2, two, 0, 0) KERNEL(R, 2, ahead, 1, 0) APART_KERNELS(R)
KERNELS(1) KERNELS(2) KERNELS(3) KERNELS(4) KERNELS(5) KERNELS(6)
#if TALL == 14
KERNELS(7) KERNELS(8) KERNELS(9) KERNELS(10) KERNELS(11) KERNELS(12) KERNELS(13) KERNELS(14)
#endif

typedef void (*NAMED(kernel))(const ELEMENT *, int64_t, int64_t, const ELEMENT *, int64_t,
                              ELEMENT *, int64_t, int64_t, int);

/* By number of rows. */
#define SIX(N)                                                                                      \
    NULL, NAMED(N##1), NAMED(N##2), NAMED(N##3), NAMED(N##4), NAMED(N##5), NAMED(N##6)
#if TALL == 6
#define EVERY(N) SIX(N)
#else
#define EVERY(N)                                                                                    \
    SIX(N), NAMED(N##7), NAMED(N##8), NAMED(N##9), NAMED(N##10), NAMED(N##11), NAMED(N##12),        \
        NAMED(N##13), NAMED(N##14)
#endif
static const NAMED(kernel) NAMED(of_one)[TALL + 1] = {EVERY(one)};
static const NAMED(kernel) NAMED(of_two)[TALL + 1] = {EVERY(two)};
static const NAMED(kernel) NAMED(of_two_ahead)[TALL + 1] = {EVERY(ahead)};
#if HAS_FEW
static const NAMED(kernel) NAMED(of_one_apart)[TALL + 1] = {EVERY(apart)};
static const NAMED(kernel) NAMED(of_two_apart)[TALL + 1] = {EVERY(apart_two)};
#endif

/* Lane j of two vectors that exchange the blocks of d lanes which lie across the diagonal. */
#define LOW(j, d) (((j) & (d)) ? LANES + (j) - (d) : (j))
#define HIGH(j, d) (((j) & (d)) ? LANES + (j) : (j) + (d))
#define FOUR(F, j, d) F(j, d), F(j + 1, d), F(j + 2, d), F(j + 3, d)
#if LANES == 4
#define ORDER(F, d) FOUR(F, 0, d)
#elif LANES == 8
#define ORDER(F, d) FOUR(F, 0, d), FOUR(F, 4, d)
#else
#define ORDER(F, d) FOUR(F, 0, d), FOUR(F, 4, d), FOUR(F, 8, d), FOUR(F, 12, d)
#endif
#ifdef __clang__
#define CHOSEN(x, y, F, d) __builtin_shufflevector(x, y, ORDER(F, d))
#else
#define CHOSEN(x, y, F, d) __builtin_shuffle(x, y, (NAMED(order)){ORDER(F, d)})
#endif
#define EXCHANGE(d)                                                                                 \
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) {                                      \
        if (i & (d)) continue;                                                                      \
        const NAMED(vector) low = CHOSEN(x[i], x[i + (d)], LOW, d);                                 \
        x[i + (d)] = CHOSEN(x[i], x[i + (d)], HIGH, d);                                             \
        x[i] = low;                                                                                 \
    }

/* LANES columns of LANES elements become rows, `row` apart; from the `count`-th on they are 0. */
TARGET static inline void NAMED(turn)(const ELEMENT *columns, int64_t step, int64_t count,
                                      ELEMENT *rows, int64_t row) {
    NAMED(vector) x[LANES];
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) {
        x[i] = (NAMED(vector)){0};
        if (i < count) x[i] = *(const NAMED(vector) *)(columns + i * step);
    }
#if LANES == 16
    EXCHANGE(8)
#endif
#if LANES >= 8
    EXCHANGE(4)
#endif
    EXCHANGE(2)
    EXCHANGE(1)
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++)
        *(NAMED(vector) *)(rows + i * row) = x[i];
}

/* Where column j of `width` lies in panels of `depth` rows: each has two vectors of columns, the
 * last one if that is all that is left. Sets `wide`, the elements of a row there. */
static inline int64_t NAMED(place)(int64_t j, int64_t width, int64_t depth, int64_t *wide) {
    const int64_t start = j / WIDE * WIDE;
    *wide = width - start > LANES ? WIDE : LANES;
    return start * depth + j - start;
}

/* `width` columns of b as panels; what the last vector has beyond them is 0. */
TARGET static void NAMED(pack_right)(const ELEMENT *b, int64_t b_row, int64_t b_column,
                                     int64_t depth, int64_t width, ELEMENT *panels) {
    const int64_t whole = b_column == 1 ? width / LANES * LANES : 0;
    int64_t wide;
    for (int64_t l = 0; l < depth && whole; l++) /* row by row: each may lie on another page */
        for (int64_t j = 0; j < whole; j += LANES) {
            ELEMENT *to = panels + NAMED(place)(j, width, depth, &wide);
            __builtin_prefetch(b + (l + AHEAD) * b_row + j);
            *(NAMED(vector) *)(to + l * wide) = *(const NAMED(vector) *)(b + l * b_row + j);
        }
    for (int64_t j = whole; j < width; j += LANES) {
        ELEMENT *to = panels + NAMED(place)(j, width, depth, &wide);
        const ELEMENT *from = b + j * b_column;
        const int64_t count = least(width - j, LANES);
        int64_t l = 0;
        for (; b_row == 1 && l + LANES <= depth; l += LANES)
            NAMED(turn)(from + l, b_column, count, to + l * wide, wide);
        for (; b_column == 1 && l < depth; l++)
            *(NAMED(vector) *)(to + l * wide) = (NAMED(vector))LOAD_SOME(from + l * b_row, count);
        for (; l < depth; l++) {
            for (int64_t i = 0; i < count; i++) to[l * wide + i] = from[l * b_row + i * b_column];
            for (int64_t i = count; i < LANES; i++) to[l * wide + i] = 0;
        }
    }
}

/* What is multiplied at a time: `rows` of a with `depth` of k, in tiles of TALL rows. */
typedef struct {
    const ELEMENT *a;
    int64_t a_row, a_column, rows, depth;
    const ELEMENT *packed; /* or NULL: rows PACKED_ROW apart, or, if a_column is not 1, columns of TALL */
} NAMED(Left);

TARGET static void NAMED(pack_left)(NAMED(Left) *left, ELEMENT *packed) {
    left->packed = packed;
    if (left->a_column == 1) {
        for (int64_t r = 0; r < left->rows; r++) {
            const ELEMENT *a = left->a + r * left->a_row;
            for (int64_t l = 0; l < left->depth; l += 64 / sizeof(ELEMENT))
                __builtin_prefetch(a + AHEAD * left->a_row + l);
            memcpy(packed + r * PACKED_ROW, a, (size_t)left->depth * sizeof(ELEMENT));
        }
        return;
    }
    for (int64_t l = 0; l < left->depth; l++) { /* all tiles at a time: as in pack_right */
        const ELEMENT *a = left->a + l * left->a_column;
        int64_t row = 0;
        for (; left->a_row == 1 && row + TALL <= left->rows; row += TALL) {
            __builtin_prefetch(a + AHEAD * left->a_column + row);
            memcpy(packed + row * PACKED_ROW + l * TALL, a + row, TALL * sizeof(ELEMENT));
        }
        for (; row < left->rows; row++)
            packed[row / TALL * TALL * PACKED_ROW + l * TALL + row % TALL] = a[row * left->a_row];
    }
}

/* `width` columns of b in panels of two vectors, `panel` elements apart; rows of a panel are b_row
 * apart, of the last one, if it is not whole, last_row. Each row has whole vectors. */
typedef struct {
    const ELEMENT *b;
    int64_t b_row, last_row, panel, width;
    const NAMED(kernel) *one, *two; /* kernels for a vector and for two, */
    const NAMED(kernel) *first;     /* and for two and the first rows that are multiplied with it */
    int continues;                  /* sums go on from what the result holds */
} NAMED(Right);

/* `height` rows of c (at most TALL) = a @ right, or added to what c holds. A tile of a is read for
 * one panel after the other: it stays in the first cache, and rows of c are written along. */
TARGET static void NAMED(multiply_rows)(const ELEMENT *a, int64_t a_row, int64_t a_step,
                                        int64_t height, int64_t depth, NAMED(kernel) two,
                                        const NAMED(Right) *right, ELEMENT *c, int64_t c_row,
                                        int adds, ELEMENT *edge) {
    const ELEMENT *b = right->b;
    int64_t j = 0;
    for (; j + WIDE <= right->width; j += WIDE, b += right->panel)
        two(a, a_row, a_step, b, right->b_row, c + j, c_row, depth, adds);
    const int64_t left = right->width - j, wide = left <= LANES ? LANES : WIDE;
    const NAMED(kernel) last = left <= LANES ? right->one[height] : two;
    if (left == 0) return;
    if (left == wide) {
        last(a, a_row, a_step, b, right->last_row, c + j, c_row, depth, adds);
        return;
    }
    const int continues = adds && right->continues;
    for (int64_t r = 0; r < height && continues; r++)
        for (int64_t i = 0; i < left; i += LANES)
            *(NAMED(vector) *)(edge + r * wide + i) =
                (NAMED(vector))LOAD_SOME(c + r * c_row + j + i, least(LANES, left - i));
    last(a, a_row, a_step, b, right->last_row, edge, wide, depth, continues);
    for (int64_t r = 0; r < height; r++)
        for (int64_t i = 0; i < left; i += LANES) {
            const int64_t count = least(LANES, left - i);
            ELEMENT *to = c + r * c_row + j + i;
            NAMED(vector) sum = *(const NAMED(vector) *)(edge + r * wide + i);
            if (adds && !continues) sum += (NAMED(vector))LOAD_SOME(to, count);
            STORE_SOME(to, count, sum);
        }
}

/* All rows of `left` times `right`. */
TARGET static void NAMED(multiply_block)(const NAMED(Left) *left, const NAMED(Right) *right,
                                         ELEMENT *c, int64_t c_row, int adds, ELEMENT *edge) {
    const ELEMENT *a = left->a;
    int64_t a_row = left->a_row, a_step = left->a_column, a_tile = TALL * a_row;
    if (left->packed) {
        a = left->packed;
        a_row = a_step == 1 ? PACKED_ROW : 1;
        a_step = a_step == 1 ? 1 : TALL;
        a_tile = TALL * PACKED_ROW;
    }
    const NAMED(kernel) *kernels = right->first;
    for (int64_t row = 0; row < left->rows; row += TALL, a += a_tile, c += TALL * c_row) {
        const int64_t height = least(TALL, left->rows - row);
        NAMED(multiply_rows)(a, a_row, a_step, height, left->depth, kernels[height], right, c,
                             c_row, adds, edge);
        kernels = right->two;
    }
}

/* c (n, m) = a (n, k) @ b (k, m), or added to what c holds. */
typedef struct {
    const ELEMENT *a;
    int64_t a_row, a_column;
    const ELEMENT *b;
    int64_t b_row, b_column;
    ELEMENT *c;
    int64_t c_row, n, k, m;
    int adds;
    int is_apart; /* by the kernels that round terms */
} NAMED(Product);

DJ_MIRROR(ELEMENT, NAMED(mirror))

/* True for a matrix times its own transpose, where half of the sums are worth more than the copy of
 * the other half: a term is the same with its factors exchanged, so are the sums, to the bit. */
static inline int NAMED(mirrors)(const NAMED(Product) *all, int64_t home) {
    return all->a == all->b && all->a_row == all->b_column && all->a_column == all->b_row &&
           all->n == all->m && all->n >= 2 * MIRRORED_ROWS && all->k >= MIRRORED_DEPTH &&
           home < 0 && !all->adds && !all->is_apart;
}

/* The rows of a product, from `top` on, as they are cut; 0 without memory. Columns of b lie or stay
 * packed as `multiply` says. */
TARGET static int NAMED(multiply_all)(const NAMED(Product) *all, int64_t home, int is_packed) {
    enum { GROUP = GROUP_PANELS * WIDE };
    _Static_assert(KEPT_BYTES + sizeof(ELEMENT) * (TALL * WIDE + MOST_ROWS * PACKED_ROW) <=
                       SCRATCH_BYTES, "what one thread needs");
    _Static_assert(sizeof(ELEMENT) * DEPTH * GROUP <= KEPT_BYTES, "a group of columns");
    _Static_assert(MOST_ROWS % TALL == 0, "packed rows are whole tiles");
    _Static_assert(2 * FAR_ROWS < MOST_ROWS, "the bands of a product pack alike");
    const int64_t n = all->n, k = all->k, m = all->m, b_row = all->b_row, b_column = all->b_column;
    const int64_t whole = parts(m, LANES) * LANES, stays = home >= 0;
    if (stays && (home + k * whole) * (int64_t)sizeof(ELEMENT) > KEPT_BYTES) return 0;
    ELEMENT *panels = scratch();
    if (!panels) return 0;
    ELEMENT *edge = panels + KEPT_BYTES / sizeof(ELEMENT), *packed = edge + TALL * WIDE;
    /* The last band is the first of a matrix times its transpose: it needs all columns. */
    const int mirrors = NAMED(mirrors)(all, home);
    const int fits = whole * least(k, DEPTH) * (int64_t)sizeof(ELEMENT) <= KEPT_BYTES;
    const int64_t bands = parts(n, mirrors && fits ? MIRRORED_ROWS : MOST_ROWS);
    const int packs = m > (all->a_column == 1 ? ROWS_PACKED_FROM : COLUMNS_PACKED_FROM) * WIDE;
    NAMED(Right) right = {.one = NAMED(of_one), .two = NAMED(of_two)};
#if HAS_FEW
    if (all->is_apart) {
        right = (NAMED(Right)){
            .one = NAMED(of_one_apart), .two = NAMED(of_two_apart), .continues = 1};
    }
#endif
    for (int64_t first = 0, depth; first < k; first += depth) {
        depth = DEPTH_OF(k, k - first, DEPTH);
        const int64_t bytes = depth * b_row * (int64_t)sizeof(ELEMENT);
        /* What the first band packs serves the others, if there is room for all of it. */
        const int keeps =
            stays || (bands > 1 && whole * depth * (int64_t)sizeof(ELEMENT) <= KEPT_BYTES);
        ELEMENT *block = stays ? panels + home + first * whole : panels;
        for (int64_t turn = 0; turn < bands; turn++) {
            const int64_t band = mirrors ? bands - 1 - turn : turn;
            const int64_t top = part(n, bands, band), rows = part(n, bands, band + 1) - top;
            const int64_t columns = mirrors ? least(m, parts(top + rows, WIDE) * WIDE) : m;
            const int is_low = rows <= READ_ROWS || (rows <= FAR_ROWS && bytes <= FAR_BYTES);
            const int few = is_low && !mirrors; /* whose bands pack alike, too */
            const int reads = bytes <= NEAR_BYTES || (few && !stays);
            NAMED(Left) left = {.a = all->a + top * all->a_row + first * all->a_column,
                                .a_row = all->a_row, .a_column = all->a_column, .rows = rows,
                                .depth = depth};
            if (packs) NAMED(pack_left)(&left, packed);
            for (int64_t start = 0; start < columns; start += GROUP) {
                right.width = least(GROUP, columns - start);
                right.b = all->b + first * b_row + start * b_column;
                right.b_row = right.last_row = b_row, right.panel = WIDE;
                right.first = all->is_apart ? right.two : NAMED(of_two_ahead);
                if (b_column != 1 || right.width % LANES || !reads) {
                    ELEMENT *group = keeps ? block + start * depth : panels;
                    if (!is_packed && (turn == 0 || !keeps))
                        NAMED(pack_right)(right.b, b_row, b_column, depth, right.width, group);
                    right.b = group, right.b_row = WIDE, right.panel = depth * WIDE;
                    right.last_row = right.width % WIDE <= LANES ? LANES : WIDE;
                    right.first = right.two;
                }
                NAMED(multiply_block)(&left, &right, all->c + top * all->c_row + start, all->c_row,
                                      first > 0 || all->adds, edge);
            }
        }
    }
    if (mirrors) NAMED(mirror)(all->c, all->c_row, 0, n);
    return 1;
}

#if HAS_FEW
/* The product in the order of k. If `has_heads`, b lies in rows, and the first columns of rows of c
 * that are not aligned have their own order. */
TARGET static int NAMED(multiply_in_order)(const NAMED(Product) *all, int has_heads, int64_t home,
                                           int is_packed) {
    enum { BAND = 128 };
    few_four heads[BAND];
    NAMED(Product) band = *all;
    band.is_apart = 1;
    if (!has_heads || all->m < 5) return NAMED(multiply_all)(&band, home, is_packed);
    for (int64_t top = 0; top < all->n; top += BAND) {
        band.n = least(BAND, all->n - top);
        band.a = all->a + top * all->a_row, band.c = all->c + top * all->c_row;
        few_find_heads(band.a, band.a_row, band.a_column, band.b, band.b_row, band.c, band.c_row,
                       band.n, band.k, band.m, band.adds, heads);
        if (!NAMED(multiply_all)(&band, home, is_packed)) return 0;
        is_packed |= home >= 0;
        for (int64_t i = 0; i < band.n; i++)
            for (int64_t j = 0; j < few_head_columns(band.c + i * band.c_row, band.m); j++)
                band.c[i * band.c_row + j] = heads[i][j];
    }
    return 1;
}

/* A product of few rows or columns. Other strides than those of a matrix or of its transpose have no
 * order to keep: MKL never sees them. */
TARGET static int NAMED(multiply_few)(const NAMED(Product) *all, int64_t home, int how) {
    const int is_packed = (how & IS_PACKED) != 0;
    const ELEMENT *a = all->a, *b = all->b;
    const int64_t n = all->n, k = all->k, m = all->m, a_row = all->a_row, a_column = all->a_column;
    const int a_lies = a_column == 1 && a_row >= k, a_stands = a_row == 1 && a_column >= n;
    const int b_stands = all->b_row == 1 && all->b_column >= k;
    const int b_lies = all->b_column == 1 && all->b_row >= m;
    if (how & IN_ORDER) return NAMED(multiply_in_order)(all, 0, home, is_packed);
    if (m == 1 && !a_lies && a_stands && all->c_row == 1) { /* the same, b' @ a' */
        few_vector_by_rows(b, all->b_row, a, a_column, k, n, all->c, all->adds);
        return 1;
    }
    if (m == 1 && a_lies && all->b_row == 1 && (n > 1 || b_stands)) {
        few_dots(a, a_row, n, b, k, few_to_next_aligned(a + 3 * a_row), few_to_next_aligned(b), 1,
                 all->c, all->c_row, all->adds);
        return 1;
    }
    if (n == 1 && m > 1 && a_column == 1 && !b_lies && b_stands) {
        few_dots(b, all->b_column, m, a, k, few_to_next_aligned(b + 3 * all->b_column),
                 few_to_next_aligned(a), 1, all->c, 1, all->adds);
        return 1;
    }
    if (n > 1 && m > 1 && a_lies && !b_lies && b_stands) {
        float *panels = scratch();
        const int64_t room = (SCRATCH_BYTES - KEPT_BYTES) / (FEW_COLUMNS * (int64_t)sizeof(float));
        if (!panels || k > room) return NAMED(multiply_all)(all, home, is_packed);
        few_rows_by_columns(a, a_row, b, all->b_column, n, k, m, all->c, all->c_row, all->adds,
                            panels + KEPT_BYTES / sizeof(float));
        return 1;
    }
    if (n == 1 && all->b_column == 1) {
        few_vector_by_rows(a, a_column, b, all->b_row, k, m, all->c, all->adds);
        return 1;
    }
    const int has_heads = n > 1 && b_lies && !(how & IS_BESIDE);
    return NAMED(multiply_in_order)(all, has_heads, home, is_packed);
}
#endif

/* c (n, m) = a (n, k) @ b (k, m), all by strides in elements, c's columns side by side. n, m, k > 0.
 * If `home` is not negative, columns of b are packed from that element of the scratch on and stay
 * there, for calls of this thread with other rows and the same b, that say so by IS_PACKED; they
 * take k times m, which counts as whole vectors. `how` has bits of `How`. Returns 0, and has done
 * nothing, if there is no memory, or for a vector that IS_FEW where BLAS has better loops. */
TARGET static int NAMED(multiply)(const ELEMENT *a, int64_t a_row, int64_t a_column,
                                  const ELEMENT *b, int64_t b_row, int64_t b_column, ELEMENT *c,
                                  int64_t c_row, int64_t n, int64_t k, int64_t m, int64_t home,
                                  int how) {
    const NAMED(Product) all = {a, a_row, a_column, b, b_row, b_column, c, c_row, n, k, m,
                                (how & ADDS) != 0, 0};
#if HAS_FEW
    if (is_amd && (how & IS_FEW)) return NAMED(multiply_few)(&all, home, how);
#endif
    if ((how & IS_FEW) && (n == 1 || m == 1) && home < 0) return 0;
    return NAMED(multiply_all)(&all, home, (how & IS_PACKED) != 0);
}

#undef KERNEL
#undef KERNELS
#undef APART_KERNELS
#undef HAS_FEW
#undef SIX
#undef EVERY
#undef LOW
#undef HIGH
#undef FOUR
#undef ORDER
#undef CHOSEN
#undef EXCHANGE
#undef ELEMENT
#undef INDEX
#undef LANES
#undef WIDE
#undef PACKED_ROW
#undef TALL
#undef DEPTH
#undef DEPTH_OF
#undef TARGET
#undef LOAD_SOME
#undef STORE_SOME
#undef NAMED
