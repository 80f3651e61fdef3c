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

/* In front of a kernel that reads much and computes little, for processors that take vectors of 512 bits
 * in halves: see c_ahead.py. */
#if defined(__AVX512F__) && (defined(__znver3__) || defined(__znver4__)) && !defined(__clang__)
#define DJ_READS __attribute__((target("prefer-vector-width=256")))
#else
#define DJ_READS
#endif

/* Whether results of so many bytes bypass the caches: see c_bypass.py. */
#ifndef DJ_BYPASS_BYTES
#define DJ_BYPASS_BYTES INT64_MAX
#endif
#define DJ_BYPASSES(bytes, address) \
    ((bytes) >= DJ_BYPASS_BYTES && ((uintptr_t)(address) & 63) == 0)

/* Asks for a cache line that is going to be written, and does not bypass the caches. */
#define DJ_ASK_STORED(bytes, address) ((bytes) < DJ_BYPASS_BYTES ? __builtin_prefetch(address, 1) : (void)0)

/* The widest vector that the compiler takes for loops, and its store past the caches: another width
 * would wait for the registers to be put together. */
#if defined(__x86_64__) && defined(__AVX512F__) && defined(DJ_WIDE)
typedef float dj_wide __attribute__((vector_size(64), may_alias));
#define DJ_BYPASS_STORE(to, value) __builtin_ia32_movntps512((float *)(to), value)
#elif defined(__x86_64__) && defined(__AVX__)
typedef float dj_wide __attribute__((vector_size(32), may_alias));
#define DJ_BYPASS_STORE(to, value) __builtin_ia32_movntps256((float *)(to), value)
#else
typedef float dj_wide __attribute__((vector_size(16), may_alias));
#define DJ_BYPASS_STORE(to, value) __builtin_ia32_movntps((float *)(to), value)
#endif

/* Stores whole lines at an aligned place if they bypass the caches, or anything anywhere. */
DJ_INLINE void dj_store_lines(void *to, const void *from, int64_t bytes, int bypasses) {
#if defined(__x86_64__)
    if (bypasses) {
        for (int64_t k = 0; k < bytes; k += (int64_t)sizeof(dj_wide)) {
#if defined(__clang__)
            __builtin_nontemporal_store(*(const dj_wide *)((const char *)from + k),
                                        (dj_wide *)((char *)to + k));
#else
            DJ_BYPASS_STORE((char *)to + k, *(const dj_wide *)((const char *)from + k));
#endif
        }
        return;
    }
#endif
    memcpy(to, from, (size_t)bytes);
}

/* Behind the last of those stores: other threads may read what was written. */
DJ_INLINE void dj_bypassed(void) {
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
}

/* Elements of `size` bytes from an address to the next line. */
DJ_INLINE int64_t dj_before_line(const void *address, int64_t size) {
    return (int64_t)(-(uintptr_t)address & 63) / size;
}

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
