/* What CUDA units have behind scalar.h: random words by packs. */

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
