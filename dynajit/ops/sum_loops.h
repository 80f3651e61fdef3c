/* Sums in PyTorch's order for one dtype and instruction set; included by _sums.c once for each.
 *
 * The includer defines ELEMENT, LANES (of 32 bytes), TARGET (the attribute that names the instruction
 * set) and NAMED(x), the name of x here.
 *
 * PyTorch adds numbers in a cascade: so many one after the other, then their sums, on four levels. It
 * does so in lanes of 32 bytes, whatever the CPU, four of which go side by side.
 */

typedef ELEMENT NAMED(vector)
    __attribute__((vector_size(32), aligned(sizeof(ELEMENT)), may_alias));

/* Four sums of `size` values each: the first ones `across` elements apart, the next of each `down`. */
#define CASCADE(T, NAME)                                                                            \
    TARGET static void NAMED(NAME)(const ELEMENT *from, int64_t down, int64_t across, int64_t size, \
                                   T *sums) {                                                       \
        const int power = level_power(size);                                                        \
        const int64_t step = INT64_C(1) << power;                                                   \
        T level[LEVELS][4];                                                                         \
        memset(level, 0, sizeof level);                                                             \
        int64_t i = 0;                                                                              \
        while (i + step <= size) {                                                                  \
            T sum[4] = {level[0][0], level[0][1], level[0][2], level[0][3]};                        \
            for (const int64_t end = i + step; i < end; i++, from += down)                          \
                _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)                                 \
                    sum[k] += *(const T *)(from + k * across);                                      \
            for (int k = 0; k < 4; k++) level[0][k] = sum[k];                                       \
            for (int j = 1; j < LEVELS; j++) {                                                      \
                for (int k = 0; k < 4; k++) level[j][k] += level[j - 1][k];                         \
                memset(level[j - 1], 0, sizeof level[j - 1]);                                       \
                if (i & ((step - 1) << (j * power))) break;                                         \
            }                                                                                       \
        }                                                                                           \
        for (; i < size; i++, from += down)                                                         \
            for (int k = 0; k < 4; k++) level[0][k] += *(const T *)(from + k * across);             \
        for (int j = 1; j < LEVELS; j++)                                                            \
            for (int k = 0; k < 4; k++) level[0][k] += level[j][k];                                 \
        for (int k = 0; k < 4; k++) sums[k] = level[0][k];                                          \
    }                                                                                               \
                                                                                                    \
    /* The sum of `size` values, `down` elements apart: of every fourth, then of these. */          \
    TARGET static void NAMED(NAME##_of_one)(const ELEMENT *from, int64_t down, int64_t size,        \
                                            T *sum) {                                               \
        T sums[4];                                                                                  \
        NAMED(NAME)(from, 4 * down, down, size / 4, sums);                                          \
        for (int64_t i = size / 4 * 4; i < size; i++) sums[0] += *(const T *)(from + i * down);     \
        *sum = ((sums[0] + sums[1]) + sums[2]) + sums[3];                                           \
    }
CASCADE(NAMED(vector), vectors)
typedef ELEMENT NAMED(single) __attribute__((may_alias));
CASCADE(NAMED(single), singles)

/* The sum of `size` elements side by side. */
TARGET static void NAMED(sum_of_row)(const ELEMENT *from, int64_t size, ELEMENT *to) {
    if (size < LANES) {
        NAMED(singles_of_one)(from, 1, size, to);
        return;
    }
    NAMED(vector) lanes;
    NAMED(vectors_of_one)(from, LANES, size / LANES, &lanes);
    ELEMENT sum = 0;
    for (int64_t i = size / LANES * LANES; i < size; i++) sum += from[i];
    for (int i = 0; i < LANES; i++) sum += lanes[i];
    *to = sum;
}

/* The sums of `width` columns of `size` rows that lie one after the other. */
TARGET static void NAMED(sums_of_columns)(const ELEMENT *from, int64_t size, int64_t width,
                                          ELEMENT *to) {
    int64_t j = 0;
    for (; j + 4 * LANES <= width; j += 4 * LANES) {
        NAMED(vector) sums[4];
        NAMED(vectors)(from + j, width, LANES, size, sums);
        for (int k = 0; k < 4; k++) *(NAMED(vector) *)(to + j + k * LANES) = sums[k];
    }
    for (; j + LANES <= width; j += LANES)
        NAMED(vectors_of_one)(from + j, width, size, (NAMED(vector) *)(to + j));
    for (; width < LANES && j + 4 <= width; j += 4)
        NAMED(singles)(from + j, width, 1, size, to + j);
    for (; j < width; j++) NAMED(singles_of_one)(from + j, width, size, to + j);
}

static void NAMED(add)(const void *from, int64_t outer, int64_t size, int64_t inner, void *to) {
    const ELEMENT *row = from;
    ELEMENT *sum = to;
    for (int64_t i = 0; i < outer; i++, row += size * inner, sum += inner) {
        if (inner == 1) NAMED(sum_of_row)(row, size, sum);
        else NAMED(sums_of_columns)(row, size, inner, sum);
    }
}

#undef CASCADE
#undef ELEMENT
#undef LANES
#undef TARGET
#undef NAMED
