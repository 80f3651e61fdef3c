/* Sizes, indices and the numbers that a program is given, for generated C and CUDA.
 *
 * `host.h` or `device.h` comes first. Everything is inline. Kernels have a local `status`
 * (int64_t[4]: code, value, size, lowest) in which checks leave the first problem they meet.
 */

#define DJ_STATUS_BOUNDS 1
#define DJ_STATUS_DIVISION 2

typedef union {
    int64_t i;
    double f;
} dj_scalar;

/* Of a size that is 0 nothing is computed, but what does not depend on it may be in front. */
DJ_INLINE int64_t dj_floordiv(int64_t a, int64_t b) {
    if (b == 0) return 0;
    int64_t q = a / b;
    return q - ((a % b != 0) & ((a % b < 0) != (b < 0)));
}

DJ_INLINE int64_t dj_mod(int64_t a, int64_t b) {
    if (b == 0) return 0;
    int64_t r = a % b;
    return r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0);
}

DJ_INLINE int64_t dj_min_index(int64_t a, int64_t b) { return a < b ? a : b; }
DJ_INLINE int64_t dj_max_index(int64_t a, int64_t b) { return a > b ? a : b; }

/* A loaded integer as an index into `size` positions; 0 after reporting one that is out of range. */
DJ_INLINE int64_t dj_data_index(int64_t value, int64_t size, int wrap, int64_t *status) {
    int64_t position = wrap && value < 0 ? value + size : value;
    if (__builtin_expect((uint64_t)position < (uint64_t)size, 1)) return position;
    return dj_report(status, DJ_STATUS_BOUNDS, value, size, wrap ? -size : 0);
}

/* The same of one that an earlier kernel has looked at, and reported. */
DJ_INLINE int64_t dj_checked_index(int64_t value, int64_t size, int wrap) {
    int64_t position = wrap && value < 0 ? value + size : value;
    return (uint64_t)position < (uint64_t)size ? position : 0;
}
