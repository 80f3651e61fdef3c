/* Scalar helpers of generated C and CUDA: what `dynajit.ops.table.scalar` names dj_<name>_<suffix>.
 *
 * `host.h` or `device.h`, and `indices.h`, come first. Everything is inline.
 */

typedef uint16_t dj_half;
typedef uint16_t dj_bfloat;

/* ---- floating point to integer ---- */

/* What does not fit, and NaN, is the least integer, as the instructions of x86 have it. One comparison
 * after the other: GCC 12 does not vectorise a loop with powers for a choice by two of them. */
#define DJ_WHOLE(T, S, I, LIMIT)                                                                    \
    DJ_INLINE I dj_##I##_of_##S(T x) {                                                              \
        T above = x >= -(LIMIT) ? x : -(LIMIT);                                                     \
        return (I)(above < (LIMIT) ? above : -(LIMIT));                                             \
    }

DJ_WHOLE(float, f32, int32_t, 2147483648.0f)
DJ_WHOLE(double, f64, int32_t, 2147483648.0)
DJ_WHOLE(float, f32, int64_t, 9223372036854775808.0f)
DJ_WHOLE(double, f64, int64_t, 9223372036854775808.0)

/* ---- 16-bit floats ---- */

DJ_INLINE float dj_f32_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

DJ_INLINE uint32_t dj_bits_of_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

DJ_INLINE float dj_load_bf16(dj_bfloat x) { return dj_f32_of_bits((uint32_t)x << 16); }

DJ_INLINE dj_bfloat dj_store_bf16(float x) {
    uint32_t bits = dj_bits_of_f32(x);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40u;
    return (dj_bfloat)(x != x ? quiet : rounded);
}

#ifndef DJ_HAVE_f16
/* In integers, which compilers put into vector lanes; GCC 12 makes a loop with the instruction of
 * F16C take one element at a time. Source: IEEE 754 binary16; subnormals through a float
 * multiplication, which is exact. */
DJ_INLINE float dj_load_f16(dj_half x) {
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, rest = x & 0x7fffu;
    uint32_t normal = (rest << 13) + (rest >= 0x7c00u ? 0x70000000u : 0x38000000u);
    uint32_t tiny = dj_bits_of_f32((float)rest * 0x1p-24f);
    return dj_f32_of_bits(sign | (rest < 0x400u ? tiny : normal));
}

DJ_INLINE dj_half dj_store_f16(float x) {
    uint32_t bits = dj_bits_of_f32(x), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    uint32_t tiny = dj_bits_of_f32(dj_f32_of_bits(rest) + 0.5f) - 0x3f000000u;
    uint32_t normal = (rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u)) >> 13;
    uint32_t value = rest < 0x38800000u ? tiny : rest >= 0x477ff000u ? 0x7c00u : normal;
    return (dj_half)(sign | (rest > 0x7f800000u ? 0x7e00u | ((rest >> 13) & 0x3ffu) : value));
}
#endif

/* ---- integers ---- */

#define DJ_INTEGER(T, S, U, IS_SIGNED)                                                              \
    DJ_INLINE T dj_abs_##S(T x) { return (T)(x < 0 ? (T)-(U)x : x); }                               \
    DJ_INLINE T dj_sign_##S(T x) { return (T)((x > 0) - (x < 0)); }                                 \
    DJ_INLINE T dj_bitwise_not_##S(T x) { return (T)~x; }                                           \
    DJ_INLINE T dj_left_shift_##S(T x, T y) {                                                       \
        return (T)((uint64_t)y < 8 * sizeof(T) ? (T)((uint64_t)x << (y & 63)) : 0);                 \
    }                                                                                               \
    DJ_INLINE T dj_right_shift_##S(T x, T y) {                                                      \
        return (T)((uint64_t)y < 8 * sizeof(T) ? (T)(x >> (y & 63)) : (x < 0 ? -1 : 0));            \
    }                                                                                               \
    DJ_INLINE T dj_pow_##S(T x, T y) {                                                              \
        if (y < 0) return (T)(x == 1 ? 1 : x == (T)-1 && IS_SIGNED ? (y & 1 ? -1 : 1) : 0);         \
        uint64_t base = (uint64_t)x, result = 1;                                                    \
        for (uint64_t n = (uint64_t)y; n; n >>= 1, base *= base)                                    \
            if (n & 1) result *= base;                                                              \
        return (T)result;                                                                           \
    }                                                                                               \
    DJ_INLINE T dj_checked_fmod_##S(T x, T y, int64_t *status) {                                    \
        if (y == 0) return (T)dj_report(status, DJ_STATUS_DIVISION, 0, 0, 0);                       \
        return (T)(IS_SIGNED && y == (T)-1 ? 0 : x % y);                                            \
    }                                                                                               \
    DJ_INLINE T dj_checked_remainder_##S(T x, T y, int64_t *status) {                               \
        T r = dj_checked_fmod_##S(x, y, status);                                                    \
        return (T)((r != 0) & ((r < 0) != (y < 0)) ? r + y : r);                                    \
    }                                                                                               \
    DJ_INLINE T dj_checked_floor_divide_##S(T x, T y, int64_t *status) {                            \
        if (y == 0) return (T)dj_report(status, DJ_STATUS_DIVISION, 0, 0, 0);                       \
        if (IS_SIGNED && y == (T)-1) return (T)(0 - (U)x);                                          \
        T q = (T)(x / y), r = (T)(x % y);                                                           \
        return (T)(q - ((r != 0) & ((r < 0) != (y < 0))));                                          \
    }

DJ_INTEGER(uint8_t, u8, uint8_t, 0)
DJ_INTEGER(int8_t, i8, uint8_t, 1)
DJ_INTEGER(int16_t, i16, uint16_t, 1)
DJ_INTEGER(int32_t, i32, uint32_t, 1)
DJ_INTEGER(int64_t, i64, uint64_t, 1)

#define dj_fmod_u8(x, y) dj_checked_fmod_u8(x, y, status)
#define dj_fmod_i8(x, y) dj_checked_fmod_i8(x, y, status)
#define dj_fmod_i16(x, y) dj_checked_fmod_i16(x, y, status)
#define dj_fmod_i32(x, y) dj_checked_fmod_i32(x, y, status)
#define dj_fmod_i64(x, y) dj_checked_fmod_i64(x, y, status)
#define dj_remainder_u8(x, y) dj_checked_remainder_u8(x, y, status)
#define dj_remainder_i8(x, y) dj_checked_remainder_i8(x, y, status)
#define dj_remainder_i16(x, y) dj_checked_remainder_i16(x, y, status)
#define dj_remainder_i32(x, y) dj_checked_remainder_i32(x, y, status)
#define dj_remainder_i64(x, y) dj_checked_remainder_i64(x, y, status)
#define dj_floor_divide_u8(x, y) dj_checked_floor_divide_u8(x, y, status)
#define dj_floor_divide_i8(x, y) dj_checked_floor_divide_i8(x, y, status)
#define dj_floor_divide_i16(x, y) dj_checked_floor_divide_i16(x, y, status)
#define dj_floor_divide_i32(x, y) dj_checked_floor_divide_i32(x, y, status)
#define dj_floor_divide_i64(x, y) dj_checked_floor_divide_i64(x, y, status)

DJ_INLINE uint8_t dj_abs_b8(uint8_t x) { return x; }
DJ_INLINE uint8_t dj_sign_b8(uint8_t x) { return x; }
DJ_INLINE uint8_t dj_bitwise_not_b8(uint8_t x) { return x ^ 1; }

/* ---- random words ---- */

/* Word `position` of the Philox4x32-10 stream of `seed` whose word 0 is in counter block `block`.
 * Source: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
DJ_INLINE int64_t dj_philox(int64_t seed, int64_t block, int64_t position) {
    uint64_t counter = (uint64_t)block + (uint64_t)position / 4;
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)((uint64_t)seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    uint32_t low = position & 1 ? c1 : c0, high = position & 1 ? c3 : c2;
    return (int64_t)(position & 2 ? high : low);
}

/* ---- real numbers: rules of the rows' scalar functions ---- */

#define DJ_REAL(T, S, F)                                                                            \
    /* A NaN x is not passed by the comparison, a NaN y by the choice: a chain of calls through x   \
     * waits for one instruction each. */                                                           \
    DJ_INLINE T dj_maximum_##S(T x, T y) {                                                          \
        T z = y > x ? y : x;                                                                        \
        return y != y ? y : z;                                                                      \
    }                                                                                               \
    DJ_INLINE T dj_minimum_##S(T x, T y) {                                                          \
        T z = y < x ? y : x;                                                                        \
        return y != y ? y : z;                                                                      \
    }                                                                                               \
    DJ_INLINE T dj_sign_##S(T x) { return (T)((x > 0) - (x < 0)); }                                 \
    DJ_INLINE T dj_fmod_##S(T x, T y) { return fmod##F(x, y); }                                     \
    DJ_INLINE T dj_remainder_##S(T x, T y) {                                                        \
        T r = fmod##F(x, y);                                                                        \
        return (r != 0) & ((r < 0) != (y < 0)) ? r + y : r;                                         \
    }                                                                                               \
    /* Source: CPython's float_floor_div. */                                                        \
    DJ_INLINE T dj_floor_divide_##S(T x, T y) {                                                     \
        if (y == 0) return x / y;                                                                   \
        T r = fmod##F(x, y), q = (x - r) / y;                                                       \
        if ((r != 0) & ((y < 0) != (r < 0))) q -= 1;                                                \
        if (q == 0) return copysign##F((T)0, x / y);                                                \
        T whole = floor##F(q);                                                                      \
        return q - whole > (T)0.5 ? whole + 1 : whole;                                              \
    }

DJ_REAL(float, f32, f)
DJ_REAL(double, f64, )
