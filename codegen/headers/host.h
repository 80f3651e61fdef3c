/* What the other headers need of the C compiler, and error reports; `device.h` is the same for CUDA. */

/* What kernels use of the process they run in. */
typedef struct {
    void *sgemm, *dgemm, *sgemv, *dgemv; /* Fortran BLAS, 32-bit integers */
    void *multiply_f32, *multiply_f64; /* our own products, or NULL */
    int is_silenced; /* the BLAS runs on the calling thread alone, so a team may call it */
} dj_runtime;

#define DJ_INLINE static inline __attribute__((always_inline, unused))

/* A function compiled once, not into each caller nor again for its constants: the functions that
 * take a compiler longest. */
#if defined(__clang__)
#define DJ_ONCE __attribute__((noinline, unused))
#else
#define DJ_ONCE __attribute__((noinline, noclone, unused))
#endif
#define DJ_COLD static __attribute__((noinline, cold, unused))

/* Asks for a cache line a little ahead of a single pass over memory, where that pays: see c_ahead.py. */
#if defined(__znver1__) || defined(__znver2__) || defined(__znver3__) || defined(__znver4__) \
    || defined(__znver5__)
#define DJ_ASK_CLOSE(address) ((void)0)
#else
#define DJ_ASK_CLOSE(address) __builtin_prefetch(address)
#endif

/* The first problem wins. Gives 0, an index that every array has. */
DJ_COLD int64_t dj_report(int64_t *status, int64_t code, int64_t value, int64_t size, int64_t low) {
    int64_t none = 0;
    if (__atomic_compare_exchange_n(&status[0], &none, -1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        status[1] = value;
        status[2] = size;
        status[3] = low;
        __atomic_store_n(&status[0], code, __ATOMIC_RELAXED);
    }
    return 0;
}
