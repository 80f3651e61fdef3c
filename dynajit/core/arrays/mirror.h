/* The other half of a matrix that is its own transpose.
 *
 * Contract: `DJ_MIRROR(T, NAME)` defines NAME(c, c_row, top, n): of the matrix c of elements T, whose
 * rows are c_row apart, what is above the diagonal in columns top to top + n gets what is below it
 * in those rows.
 */
#ifndef DJ_MIRROR_H
#define DJ_MIRROR_H
#include <stdint.h>

enum { DJ_MIRROR_SIDE = 16 }; /* of a square: a line of the cache has as many float32 */

#define DJ_MIRROR(T, NAME)                                                                          \
    static void NAME(T *c, int64_t c_row, int64_t top, int64_t n) {                                 \
        const int64_t end = top + n;                                                                \
        for (int64_t row = top; row < end; row += DJ_MIRROR_SIDE) {                                 \
            const int64_t low = row + DJ_MIRROR_SIDE < end ? row + DJ_MIRROR_SIDE : end;            \
            for (int64_t column = 0; column < low; column += DJ_MIRROR_SIDE) {                      \
                const int64_t side = column + DJ_MIRROR_SIDE;                                       \
                const int64_t right = side < low ? side : low;                                      \
                for (int64_t j = column; j < right; j++)                                            \
                    for (int64_t i = row > j ? row : j + 1; i < low; i++)                           \
                        c[j * c_row + i] = c[i * c_row + j];                                        \
            }                                                                                       \
        }                                                                                           \
    }

#endif
