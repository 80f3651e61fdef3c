/* What callers of the products in _products.c say to them; see `multiply` in product_loops.h.
 *
 * Contract: the capsule MULTIPLY of `core.arrays._products` holds two functions, for float32 and for
 * float64; both are NULL where this CPU has none.
 */
#ifndef DJ_MULTIPLY_H
#define DJ_MULTIPLY_H
#include <stdint.h>

#define MULTIPLY "dynajit.core.arrays._products.multiply"

/* (a, a_row, a_column, b, b_row, b_column, c, c_row, n, k, m, home, how) */
typedef int (*Multiply)(const void *, int64_t, int64_t, const void *, int64_t, int64_t, void *,
                        int64_t, int64_t, int64_t, int64_t, int64_t, int);

enum { KEPT_BYTES = 1 << 21 }; /* packed columns for other rows: they lie in the third cache */

/* What `multiply` is told. */
enum How {
    IS_PACKED = 1, /* columns of b are in the scratch */
    IS_FEW = 2,    /* the whole product has few rows or columns, of which this is all or a part, */
    IS_BESIDE = 4, /* not the leftmost one. Parts begin at multiples of 4 rows and columns */
    IN_ORDER = 8,  /* terms are added in the order of k, if it IS_FEW */
    ADDS = 16,     /* to what c holds */
};

static inline int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* `length` is cut into as few parts of at most `most` as there can be, and they are even. */
static inline int64_t parts(int64_t length, int64_t most) { return (length + most - 1) / most; }
static inline int64_t part(int64_t length, int64_t count, int64_t index) {
    if (count == 1) return length * index; /* divisions would be a third of small products */
    return length / count * index + least(index, length % count);
}

#endif
