/* What the other headers need of the C compiler, and error reports; `device.h` is the same for CUDA. */

/* What kernels use of the process they run in. */
typedef struct {
    void *sgemm, *dgemm, *sgemv, *dgemv; /* Fortran BLAS, 32-bit integers */
    void *multiply_f32, *multiply_f64; /* our own products, or NULL */
    void *gemm_f32, *gemm_f64; /* the best of these: see process.h, also for the next */
    void *sum_columns_f32, *sum_columns_f64;
    int is_silenced; /* the BLAS runs on the calling thread alone, so a team may call it */
    const int *is_direct; /* whether convolutions are summed directly, right now */
    void (*stamp)(int kernel); /* told of the end of each kernel while a profile is recorded; or NULL */
    void *run_turns, *run_chunk; /* see turns.h */
    int (*is_interrupted)(void); /* whether a signal of Python's has raised an exception */
} dj_runtime;

/* What follows the call of a kernel. */
#define DJ_DONE(kernel) if (__builtin_expect(runtime->stamp != 0, 0)) runtime->stamp(kernel)

#define DJ_INLINE static inline __attribute__((always_inline, unused))

/* A number as it is rounded: GCC 12 fuses products with the difference and the sum that lie side by
 * side in memory (`a * c - b * d`, `a * d + b * c`), `-ffp-contract=off` or not, and two doubles
 * side by side that become floats and doubles again keep all their digits. */
#if defined(__x86_64__)
#define DJ_ROUNDED(value) __asm__("" : "+x"(value))
#elif defined(__aarch64__)
#define DJ_ROUNDED(value) __asm__("" : "+w"(value))
#else
#define DJ_ROUNDED(value) __asm__("" : "+m"(value))
#endif

/* A function compiled once, not into each caller nor again for its constants: the functions that
 * take a compiler longest. */
#if defined(__clang__)
#define DJ_ONCE __attribute__((noinline, unused))
#else
#define DJ_ONCE __attribute__((noinline, noclone, unused))
#endif
#define DJ_COLD static __attribute__((noinline, cold, unused))

#if defined(__znver1__) || defined(__znver2__) || defined(__znver3__) || defined(__znver4__) \
    || defined(__znver5__)
#define DJ_IS_ZEN 1
#else
#define DJ_IS_ZEN 0
#endif

/* Asks for a cache line a little ahead of a single pass over memory, where that pays: see c_ahead.py. */
#define DJ_ASK_CLOSE(address) (DJ_IS_ZEN ? (void)0 : __builtin_prefetch(address))

/* In front of a kernel that reads much and computes little, for processors that take vectors of 512 bits
 * in halves: see c_ahead.py. */
#if defined(__AVX512F__) && (defined(__znver3__) || defined(__znver4__)) && !defined(__clang__)
#define DJ_READS __attribute__((target("prefer-vector-width=256")))
#else
#define DJ_READS
#endif

/* Whether the results of a kernel that moves so many bytes bypass the caches: see c_bypass.py. */
#ifndef DJ_BYPASS_BYTES
#define DJ_BYPASS_BYTES INT64_MAX
#endif
#define DJ_BYPASSES(moved, address) \
    ((moved) >= DJ_BYPASS_BYTES && ((uintptr_t)(address) & 63) == 0)

/* Asks for a cache line that is going to be stored, unless it bypasses the caches (`moved` is 0 where
 * it does not); in a pass that computes little, where that pays: see c_ahead.py. */
#define DJ_ASK_STORED(moved, address) \
    ((moved) >= DJ_BYPASS_BYTES ? (void)0 : __builtin_prefetch(address, 1))
#define DJ_ASK_STORED_SOON(moved, address) \
    (DJ_IS_ZEN ? (void)0 : DJ_ASK_STORED(moved, address))

/* Bytes of a register for vectors. */
#if defined(__AVX512F__)
#define DJ_VECTOR_BYTES 64
#elif defined(__AVX__)
#define DJ_VECTOR_BYTES 32
#else
#define DJ_VECTOR_BYTES 16
#endif

/* A vector (type `lanes`) of the elements 0, 2, 4, ... from an address on, or of 1, 3, 5, ...; two
 * vectors are read. */
#if defined(__clang__)
#define DJ_EVERY_SECOND(lanes, from, first)                                                         \
    __extension__({                                                                                 \
        lanes some;                                                                                 \
        for (int l = 0; l < (int)(sizeof(lanes) / sizeof *(from)); l++)                             \
            some[l] = (from)[2 * l + (first)];                                                      \
        some;                                                                                       \
    })
#else
#define DJ_EVERY_SECOND(lanes, from, first)                                                         \
    __extension__({                                                                                 \
        const lanes *parts = (const lanes *)(from);                                                 \
        __typeof__(parts[0] == parts[0]) order;                                                     \
        _Pragma("GCC unroll 16") for (int l = 0; l < (int)(sizeof(lanes) / sizeof *(from)); l++)    \
            order[l] = 2 * l + (first);                                                             \
        __builtin_shuffle(parts[0], parts[1], order);                                               \
    })
#endif

/* The widest vector that the compiler takes for loops, and its store past the caches: another width
 * would wait for the registers to be put together. Elsewhere than on x86, no store is special. */
#if defined(__AVX512F__) && defined(DJ_WIDE)
#define DJ_BYPASS_WIDTH 64
#elif defined(__AVX__)
#define DJ_BYPASS_WIDTH 32
#else
#define DJ_BYPASS_WIDTH 16
#endif
typedef float __attribute__((vector_size(DJ_BYPASS_WIDTH), may_alias)) dj_wide;
#if defined(__clang__)
#define DJ_BYPASS_STORE(to, value) __builtin_nontemporal_store(value, (dj_wide *)(to))
#elif defined(__AVX512F__) && defined(DJ_WIDE)
#define DJ_BYPASS_STORE(to, value) __builtin_ia32_movntps512((float *)(to), value)
#elif defined(__AVX__)
#define DJ_BYPASS_STORE(to, value) __builtin_ia32_movntps256((float *)(to), value)
#elif defined(__x86_64__)
#define DJ_BYPASS_STORE(to, value) __builtin_ia32_movntps((float *)(to), value)
#else
#define DJ_BYPASS_STORE(to, value) (*(dj_wide *)(to) = (value))
#endif

/* Stores whole lines past the caches, at the start of one. */
DJ_INLINE void dj_bypass(void *to, const void *lines, int64_t bytes) {
    for (int64_t k = 0; k < bytes; k += (int64_t)sizeof(dj_wide)) {
        DJ_BYPASS_STORE((char *)to + k, *(const dj_wide *)((const char *)lines + k));
    }
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
