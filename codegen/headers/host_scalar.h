/* What C kernels have beside scalar.h, which is included first and is for CUDA, too: forms for loops
 * that compilers turn into vector instructions.
 *
 * `dj_philox_words` gives random words of many elements (c_words.py); the functions `near` are right
 * for ordinary operands only, and kernels look whether those are (c_expressions.py).
 */

/* The words from `position` on, behind those before it in the same block, whose number it gives.
 * Whole blocks are filled. Nobody reads the words of a negative position, which stand before the first
 * element that is drawn. */
DJ_ONCE static int64_t dj_philox_words(uint32_t *restrict words, int64_t seed, int64_t block,
                                       int64_t position, int64_t count) {
    const int64_t skip = position & 3, first = block + (position >> 2), blocks = (skip + count + 3) / 4;
    #pragma omp simd
    for (int64_t b = 0; b < blocks; b++) { /* the four are one block, which is computed once */
        words[4 * b] = (uint32_t)dj_philox(seed, first + b, 0);
        words[4 * b + 1] = (uint32_t)dj_philox(seed, first + b, 1);
        words[4 * b + 2] = (uint32_t)dj_philox(seed, first + b, 2);
        words[4 * b + 3] = (uint32_t)dj_philox(seed, first + b, 3);
    }
    return skip;
}

/* fmod, remainder and floor_divide for |x| < 2^24 |y| (double: 2^53 |y|), where whole quotients have
 * no gaps. The quotient of the magnitudes is rounded, so that its whole part may be too large by one,
 * but not too small; what is left of x is exact, as is the correction. */
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
#define DJ_HAS_FMA 1
#else
#define DJ_HAS_FMA 0
#endif
#define DJ_REST(T, S, F)                                                                            \
    DJ_INLINE T dj_fmod_near_##S(T x, T y) {                                                        \
        if (!DJ_HAS_FMA) return fmod##F(x, y);                                                      \
        T a = fabs##F(x), b = fabs##F(y), q = trunc##F(a / b);                                      \
        T r = __builtin_fma##F(-q, b, a);                                                           \
        r = r < 0 ? r + b : r;                                                                      \
        return copysign##F(q == 0 ? a : r, x); /* 0 times an infinite y would be NaN */             \
    }                                                                                               \
    DJ_INLINE T dj_remainder_near_##S(T x, T y) {                                                   \
        T r = dj_fmod_near_##S(x, y);                                                               \
        return (r != 0) & ((r < 0) != (y < 0)) ? r + y : r;                                         \
    }                                                                                               \
    DJ_INLINE T dj_floor_divide_near_##S(T x, T y) {                                                \
        T r = dj_fmod_near_##S(x, y), q = (x - r) / y;                                              \
        q -= (r != 0) & ((y < 0) != (r < 0)) ? (T)1 : (T)0;                                         \
        T whole = floor##F(q);                                                                      \
        whole = q - whole > (T)0.5 ? whole + 1 : whole;                                             \
        return q == 0 ? copysign##F((T)0, x / y) : whole;                                           \
    }

DJ_REST(float, f32, f)
DJ_REST(double, f64, )
