/* What CUDA units have behind scalar.h: random words by packs, atomic operations on
 * every type. */

/* Words `position` to `position + N - 1` (see dj_philox); `position` and N are multiples of 4. The
 * rounds of four words are the same, so the compiler keeps one of each. */
template <int N>
DJ_INLINE dj_pack<uint32_t, N> dj_philox_pack(int64_t seed, int64_t block, int64_t position) {
    dj_pack<uint32_t, N> words;
#pragma unroll
    for (int item = 0; item < N; item++)
        words.at[item] = (uint32_t)dj_philox(seed, block + position / 4 + item / 4, item % 4);
    return words;
}

/* ---- tables: a row for each of the arrays that one launch works on ---- */

template <int ROWS, int COLUMNS>
struct dj_table {
    uint64_t at[ROWS][COLUMNS]; /* the first column: the row's first block */
};

/* The row of a block: the last one whose first block is not behind it. */
template <int ROWS, int COLUMNS>
DJ_INLINE int dj_table_row(const dj_table<ROWS, COLUMNS> &table, unsigned block) {
    int low = 0;
#pragma unroll
    for (int step = 32; step; step /= 2)
        if (low + step < ROWS && table.at[low + step][0] <= block) low += step;
    return low;
}

DJ_INLINE dj_scalar dj_scalar_of(uint64_t word) {
    dj_scalar scalar;
    scalar.i = (int64_t)word;
    return scalar;
}

/* ---- atomic operations ---- */

DJ_INLINE void dj_atomic_max(int32_t *place, int32_t value) { atomicMax(place, value); }
DJ_INLINE void dj_atomic_max(int64_t *place, int64_t value) {
    atomicMax((long long *)place, (long long)value);
}

DJ_INLINE void dj_atomic_add(float *place, float value) { atomicAdd(place, value); }
DJ_INLINE void dj_atomic_add(double *place, double value) { atomicAdd(place, value); }
DJ_INLINE void dj_atomic_add(int32_t *place, int32_t value) { atomicAdd(place, value); }
DJ_INLINE void dj_atomic_add(int64_t *place, int64_t value) {
    atomicAdd((unsigned long long *)place, (unsigned long long)value);
}

/* One and two bytes: the word around them is exchanged until nobody else has changed it. */
template <typename T>
DJ_INLINE void dj_atomic_add_narrow(T *place, T value) {
    unsigned *word = (unsigned *)((uint64_t)place & ~(uint64_t)3);
    const unsigned shift = 8u * (unsigned)((uint64_t)place & 3);
    const unsigned mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift;
    unsigned old = atomicCAS(word, 0u, 0u), expected;
    do {
        expected = old;
        const unsigned sum = (old >> shift) + (unsigned)value;
        old = atomicCAS(word, expected, (expected & ~mask) | ((sum << shift) & mask));
    } while (old != expected);
}

DJ_INLINE void dj_atomic_add(uint8_t *place, uint8_t value) { dj_atomic_add_narrow(place, value); }
DJ_INLINE void dj_atomic_add(int8_t *place, int8_t value) { dj_atomic_add_narrow(place, value); }
DJ_INLINE void dj_atomic_add(int16_t *place, int16_t value) { dj_atomic_add_narrow(place, value); }

/* bool: whoever comes, the place becomes 1. */
DJ_INLINE void dj_atomic_or(uint8_t *place, uint8_t value) {
    if (value) {
        unsigned *word = (unsigned *)((uint64_t)place & ~(uint64_t)3);
        atomicOr(word, 1u << 8u * (unsigned)((uint64_t)place & 3));
    }
}
