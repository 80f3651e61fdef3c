/* Products of small blocks in cache: panels of the right operand, tiles of the result in registers.
 *
 * Included once per dtype, with T, DJ_OF(name) (the name with the dtype's suffix) and DJ_QUAD (that
 * many elements are 16 bytes) defined. A matrix lies in panels: DJ_WIDEST vectors of columns, all
 * rows, then the next vectors; rests are of two vectors and of one. Unused lanes are 0.
 * An element is one sum in the order of k, so its bits do not depend on the width of vectors.
 */

#ifndef DJ_PANEL_PIECES
#if defined(__AVX512F__)
#define DJ_PANEL_BYTES 64
#define DJ_WIDEST 4
#elif defined(__AVX__)
#define DJ_PANEL_BYTES 32
#define DJ_WIDEST 2
#elif defined(__ARM_NEON)
#define DJ_PANEL_BYTES 16
#define DJ_WIDEST 4
#else
#define DJ_PANEL_BYTES 16
#define DJ_WIDEST 2
#endif
#define DJ_PANEL_PIECES(left) ((left) >= DJ_WIDEST ? DJ_WIDEST : (left) >= 2 ? 2 : 1)
#define DJ_PANEL_ROWS 6 /* of a tile: with four vectors each they fill 24 of 32 registers */
#define DJ_EACH_TILE_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)

#if defined(__clang__)
#define DJ_PANEL_CONTRACT _Pragma("clang fp contract(fast)")
#else
#define DJ_PANEL_CONTRACT
#endif

/* Elements of x and of y behind it, by their numbers: for GCC 11 a vector of the type `places`. */
#if defined(__clang__)
#define DJ_SHUFFLE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define DJ_SHUFFLE(x, y, ...) __builtin_shuffle(x, y, (places){__VA_ARGS__})
#endif

/* At the beginning of a loop's body: it is not worth vectors. */
#define DJ_PLAIN_LOOP __asm__("");

#define DJ_PIECES_1(DO, r) DO(r, 0)
#define DJ_PIECES_2(DO, r) DO(r, 0) DO(r, 1)
#define DJ_PIECES_4(DO, r) DO(r, 0) DO(r, 1) DO(r, 2) DO(r, 3)
#define DJ_TILE_SUM(r, p) vec s##r##_##p;
#define DJ_TILE_ZERO(r, p) s##r##_##p = (vec){0};
#define DJ_TILE_LOAD(r, p) s##r##_##p = *(const vec *)(c + r * c_row + p * WIDTH);
#define DJ_TILE_STORE(r, p) *(vec *)(c + r * c_row + p * WIDTH) = s##r##_##p;
#define DJ_TILE_RIGHT(r, p) const vec b##p = *(const vec *)(b + p * WIDTH);
#define DJ_TILE_ADD(r, p) s##r##_##p += x##r * b##p;
#define DJ_TILE_LEFT(r) const T *a##r = a + r * a_row;

/* The tile of DJ_PANEL_ROWS rows and PIECES vectors of c = a @ b, or with is_more added to c. */
#define DJ_PANEL_TILE(PIECES)                                                                      \
    static DJ_ONCE void DJ_OF(dj_panel_tile##PIECES)(                                              \
        const T *a, int64_t a_row, int64_t a_column, const T *b, int64_t inner, T *c,              \
        int64_t c_row, int is_more) {                                                              \
        DJ_PANEL_CONTRACT                                                                          \
        typedef T vec __attribute__((vector_size(DJ_PANEL_BYTES), aligned(sizeof(T)), may_alias)); \
        enum { WIDTH = DJ_PANEL_BYTES / sizeof(T) };                                               \
        DJ_EACH_TILE_ROW(DJ_TILE_SUMS_##PIECES)                                                    \
        DJ_EACH_TILE_ROW(DJ_TILE_LEFT)                                                             \
        if (is_more) {                                                                             \
            DJ_EACH_TILE_ROW(DJ_TILE_LOADS_##PIECES)                                               \
        } else {                                                                                   \
            DJ_EACH_TILE_ROW(DJ_TILE_ZEROS_##PIECES)                                               \
        }                                                                                          \
        for (int64_t k = 0; k < inner; k++, b += PIECES * WIDTH) {                                 \
            const int64_t at = k * a_column;                                                       \
            DJ_PIECES_##PIECES(DJ_TILE_RIGHT, 0)                                                   \
            DJ_EACH_TILE_ROW(DJ_TILE_STEP_##PIECES)                                                \
        }                                                                                          \
        __asm__("" : "+r"(c), "+r"(c_row)); /* no address is kept across the loop */               \
        DJ_EACH_TILE_ROW(DJ_TILE_STORES_##PIECES)                                                  \
    }
#define DJ_TILE_SUMS_1(r) DJ_PIECES_1(DJ_TILE_SUM, r)
#define DJ_TILE_SUMS_2(r) DJ_PIECES_2(DJ_TILE_SUM, r)
#define DJ_TILE_SUMS_4(r) DJ_PIECES_4(DJ_TILE_SUM, r)
#define DJ_TILE_LOADS_1(r) DJ_PIECES_1(DJ_TILE_LOAD, r)
#define DJ_TILE_LOADS_2(r) DJ_PIECES_2(DJ_TILE_LOAD, r)
#define DJ_TILE_LOADS_4(r) DJ_PIECES_4(DJ_TILE_LOAD, r)
#define DJ_TILE_ZEROS_1(r) DJ_PIECES_1(DJ_TILE_ZERO, r)
#define DJ_TILE_ZEROS_2(r) DJ_PIECES_2(DJ_TILE_ZERO, r)
#define DJ_TILE_ZEROS_4(r) DJ_PIECES_4(DJ_TILE_ZERO, r)
#define DJ_TILE_STORES_1(r) DJ_PIECES_1(DJ_TILE_STORE, r)
#define DJ_TILE_STORES_2(r) DJ_PIECES_2(DJ_TILE_STORE, r)
#define DJ_TILE_STORES_4(r) DJ_PIECES_4(DJ_TILE_STORE, r)
#define DJ_TILE_STEP_1(r) { const T x##r = a##r[at]; DJ_PIECES_1(DJ_TILE_ADD, r) }
#define DJ_TILE_STEP_2(r) { const T x##r = a##r[at]; DJ_PIECES_2(DJ_TILE_ADD, r) }
#define DJ_TILE_STEP_4(r) { const T x##r = a##r[at]; DJ_PIECES_4(DJ_TILE_ADD, r) }

/* A matrix of at most INT64_MAX elements by its strides. */
typedef struct {
    int64_t offset, batch[4], row, column;
} dj_strided;
#endif

#if !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast") /* a product and its sum round once where the CPU can */
#pragma GCC optimize("no-version-loops-for-strides")
#endif
#if DJ_WIDEST == 4
DJ_PANEL_TILE(4)
#endif
DJ_PANEL_TILE(2)
DJ_PANEL_TILE(1)
#if !defined(__clang__)
#pragma GCC pop_options
#endif

/* c (rows, columns) = a @ b, or with is_more added to c; b in panels of `inner` rows. Rows are a
 * multiple of DJ_PANEL_ROWS, columns of a vector. */
static DJ_ONCE void DJ_OF(dj_panel_product)(
    const T *a, int64_t a_row, int64_t a_column, const T *b, int64_t rows, int64_t inner,
    int64_t columns, T *c, int64_t c_row, int is_more) {
    enum { WIDTH = DJ_PANEL_BYTES / sizeof(T) };
    for (int64_t at = 0, pieces; at < columns; at += pieces * WIDTH) {
        pieces = DJ_PANEL_PIECES((columns - at) / WIDTH);
        const T *panel = b + at * inner;
        for (int64_t r = 0; r < rows; r += DJ_PANEL_ROWS) {
            const T *left = a + r * a_row;
            T *result = c + r * c_row + at;
            if (pieces == 1)
                DJ_OF(dj_panel_tile1)(left, a_row, a_column, panel, inner, result, c_row, is_more);
            else if (pieces == 2)
                DJ_OF(dj_panel_tile2)(left, a_row, a_column, panel, inner, result, c_row, is_more);
#if DJ_WIDEST == 4
            else
                DJ_OF(dj_panel_tile4)(left, a_row, a_column, panel, inner, result, c_row, is_more);
#endif
        }
    }
}

/* c (rows, columns) = a @ b where a is in panels, too: `rows` rows of `inner` columns. */
static DJ_ONCE void DJ_OF(dj_panels_product)(
    const T *a, const T *b, int64_t rows, int64_t inner, int64_t columns, T *c, int64_t c_row) {
    enum { WIDTH = DJ_PANEL_BYTES / sizeof(T) };
    if (DJ_PANEL_PIECES(inner / WIDTH) * WIDTH == inner) {
        DJ_OF(dj_panel_product)(a, inner, 1, b, rows, inner, columns, c, c_row, 0);
        return;
    }
    for (int64_t at = 0, pieces; at < columns; at += pieces * WIDTH) {
        pieces = DJ_PANEL_PIECES((columns - at) / WIDTH);
        for (int64_t k = 0, some; k < inner; k += some) {
            some = DJ_PANEL_PIECES((inner - k) / WIDTH) * WIDTH;
            DJ_OF(dj_panel_product)(a + k * rows, some, 1, b + at * inner + k * pieces * WIDTH,
                                    rows, some, pieces * WIDTH, c + at, c_row, k > 0);
        }
    }
}

/* True if all elements are finite. */
static DJ_ONCE int DJ_OF(dj_is_finite)(const T *x, int64_t count) {
    int is_odd = 0;
    for (int64_t i = 0; i < count; i++) is_odd |= !(x[i] - x[i] == 0);
    return !is_odd;
}

/* Four (or two) rows of as many elements, turned, times `scale`. */
DJ_INLINE void DJ_OF(dj_turn)(const T *x, int64_t row, T scale, T *y, int64_t y_row) {
    typedef T quad __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
    const quad a = *(const quad *)x * scale, b = *(const quad *)(x + row) * scale;
#if DJ_QUAD == 4
    typedef int32_t places __attribute__((vector_size(16), unused));
    const quad c = *(const quad *)(x + 2 * row) * scale, d = *(const quad *)(x + 3 * row) * scale;
    const quad ab = DJ_SHUFFLE(a, b, 0, 4, 1, 5);
    const quad cd = DJ_SHUFFLE(c, d, 0, 4, 1, 5);
    const quad ab2 = DJ_SHUFFLE(a, b, 2, 6, 3, 7);
    const quad cd2 = DJ_SHUFFLE(c, d, 2, 6, 3, 7);
    *(quad *)y = DJ_SHUFFLE(ab, cd, 0, 1, 4, 5);
    *(quad *)(y + y_row) = DJ_SHUFFLE(ab, cd, 2, 3, 6, 7);
    *(quad *)(y + 2 * y_row) = DJ_SHUFFLE(ab2, cd2, 0, 1, 4, 5);
    *(quad *)(y + 3 * y_row) = DJ_SHUFFLE(ab2, cd2, 2, 3, 6, 7);
#else
    typedef int64_t places __attribute__((vector_size(16), unused));
    *(quad *)y = DJ_SHUFFLE(a, b, 0, 2);
    *(quad *)(y + y_row) = DJ_SHUFFLE(a, b, 1, 3);
#endif
}

/* One panel of dj_pack, `wide` columns of which `used` come from x. */
static DJ_ONCE void DJ_OF(dj_pack_panel)(const T *restrict x, int64_t row, int64_t column,
                                         int64_t inner, int64_t used, T scale, int64_t wide,
                                         T *restrict panel) {
    int64_t turned_rows = 0, turned = 0;
    if (column == 1) {
        for (int64_t k = 0; k < inner; k++)
            for (int64_t j = 0; j < used; j++) panel[k * wide + j] = x[k * row + j] * scale;
        turned_rows = inner, turned = used;
    } else if (row == 1) {
        turned_rows = inner / DJ_QUAD * DJ_QUAD, turned = used / DJ_QUAD * DJ_QUAD;
        for (int64_t j = 0; j < turned; j += DJ_QUAD)
            for (int64_t k = 0; k < turned_rows; k += DJ_QUAD)
                DJ_OF(dj_turn)(x + j * column + k, column, scale, panel + k * wide + j, wide);
    }
    for (int64_t k = 0; k < inner; k++) /* the rest, of which there is little for most matrices */
        for (int64_t j = k < turned_rows ? turned : 0; j < used; j++) {
            DJ_PLAIN_LOOP
            panel[k * wide + j] = x[k * row + j * column] * scale;
        }
}

/* x (inner, columns) times `scale` to panels of `depth` rows and `width` columns, with zeros. */
static DJ_ONCE void DJ_OF(dj_pack)(const T *x, int64_t row, int64_t column, int64_t inner,
                                   int64_t columns, T scale, int64_t depth, int64_t width, T *to) {
    enum { WIDTH = DJ_PANEL_BYTES / sizeof(T) };
    for (int64_t at = 0, pieces; at < width; at += pieces * WIDTH) {
        pieces = DJ_PANEL_PIECES((width - at) / WIDTH);
        const int64_t wide = pieces * WIDTH;
        const int64_t used = dj_max_index(dj_min_index(wide, columns - at), 0);
        T *panel = to + at * depth;
        DJ_OF(dj_pack_panel)(x + at * column, row, column, inner, used, scale, wide, panel);
        for (int64_t k = 0; used < wide && k < inner; k++)
            memset(panel + k * wide + used, 0, sizeof(T) * (size_t)(wide - used));
        memset(panel + inner * wide, 0, sizeof(T) * (size_t)((depth - inner) * wide));
    }
}
