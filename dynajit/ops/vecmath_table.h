/* The loops of one dtype and instruction set that `_vecmath.c` calls and vecmath_loops.h defines.
 *
 * Contract: operands and results lie side by side; the results of `erf`, `fma` and
 * `whole_power` may be operands.
 */
#ifndef DJ_VECMATH_TABLE_H
#define DJ_VECMATH_TABLE_H
#include <stdint.h>

typedef struct {
    void (*erf)(const void *x, void *y, int64_t count);
    /* x * y + z, rounded once; operand i is one element where fixed[i]. */
    void (*fma)(const void *x, const void *y, const void *z, void *out, int64_t count,
                const int *fixed);
    double (*sum)(const void *x, int64_t count);
    double (*squares)(const void *x, const void *center, int64_t count); /* of x - center */
    void (*whole_power)(const void *x, float y, void *out, int64_t count); /* float only */
} Loops;

#endif
