/* Products of float32 with few rows or columns as PyTorch's MKL computes them on CPUs of AMD; included
 * by _products.c.
 *
 * Contract: MKL leaves products of fewer than FEW_ROWS rows or FEW_COLUMNS columns to loops for any
 * x86 CPU: a term is rounded before it is added, sums are not cut, and they go on from what the result
 * holds. Which order they have was found from outside, by terms so large that they swallow others
 * (P. Xie et al., "Revealing Floating-Point Accumulation Orders in Software/Hardware
 * Implementations", USENIX ATC 2025):
 *
 * - rows times columns that both lie in memory as such (x @ weight.T, the most usual product): in four
 *   lanes, and where fewer than four columns are left, in eight; terms before the first address that
 *   divides by 16 are summed before the lanes, into their first one, terms that do not fill them behind
 *   them, and what the result holds comes last (`few_dots`);
 * - a vector times such rows: the same, four rows at a time from where the last of them is aligned;
 * - all others: in the order of k (the kernels `apart` of product_loops.h). Of rows of b, the columns
 *   in front of the first address in the row of the result that divides by 16 are summed four terms
 *   onto the sum and four apart in turn (`few_head`), if four more columns follow.
 *
 * Called by `multiply_few` of product_loops.h. The order of a row depends on its address behind a
 * multiple of 16 bytes, as in MKL: fresh arrays begin at one, here and there, so shapes alone decide
 * for all but views.
 */

typedef float few_four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float few_eight __attribute__((vector_size(32), aligned(4), may_alias));

/* Floats from an address to the next one that divides by 16: 0 to 3. */
static inline int64_t few_to_aligned(const float *x) { return -((intptr_t)x >> 2) & 3; }

/* The same, but 4 instead of 0. */
static inline int64_t few_to_next_aligned(const float *x) { return 4 - ((intptr_t)x >> 2 & 3); }

/* A term is rounded: the compiler must not fuse it with the sum. */
#define FEW_TERM(T, x, y)                                                                           \
    __extension__({                                                                                 \
        T term = (x) * (y);                                                                         \
        __asm__("" : "+x"(term));                                                                   \
        term;                                                                                       \
    })

/* sum += x * y, rounded so; not before the sum is known, or terms of many sums would fill registers. */
#define FEW_ADD(T, sum, x, y)                                                                       \
    do {                                                                                            \
        T term = (x) * (y);                                                                         \
        __asm__("" : "+x"(term), "+x"(sum));                                                        \
        (sum) += term;                                                                              \
    } while (0)

#define FEW_FOUR(i) _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)

/* Four rows, `step` apart, of which each is a lane: their element l. */
static inline few_four few_column(const float *rows, int64_t step, int64_t l) {
    return (few_four){rows[l], rows[step + l], rows[2 * step + l], rows[3 * step + l]};
}

/* Four vectors of lanes: their sums, (lane 0 + lane 2) + (lane 1 + lane 3) each. */
TARGET_OF_FEW static inline few_four few_folded(const few_four *x) {
    const __m128 low = _mm_unpacklo_ps((__m128)x[0], (__m128)x[1]);
    const __m128 high = _mm_unpackhi_ps((__m128)x[0], (__m128)x[1]);
    const __m128 other_low = _mm_unpacklo_ps((__m128)x[2], (__m128)x[3]);
    const __m128 other_high = _mm_unpackhi_ps((__m128)x[2], (__m128)x[3]);
    const few_four lane0 = (few_four)_mm_movelh_ps(low, other_low);
    const few_four lane1 = (few_four)_mm_movehl_ps(other_low, low);
    const few_four lane2 = (few_four)_mm_movelh_ps(high, other_high);
    const few_four lane3 = (few_four)_mm_movehl_ps(other_high, high);
    return (lane0 + lane2) + (lane1 + lane3);
}

/* Two vectors of eight lanes: their low halves, or their high ones. */
#define FEW_LOW(x, y) ((few_eight)_mm256_permute2f128_ps((__m256)(x), (__m256)(y), 0x20))
#define FEW_HIGH(x, y) ((few_eight)_mm256_permute2f128_ps((__m256)(x), (__m256)(y), 0x31))

/* Lanes of two rows each, low and high, and of the next two: the sums of the four. */
TARGET_OF_FEW static inline few_four few_sums(few_eight x, few_eight y) {
    const few_four lanes[4] = {
        (few_four)_mm256_castps256_ps128((__m256)x), (few_four)_mm256_extractf128_ps((__m256)x, 1),
        (few_four)_mm256_castps256_ps128((__m256)y), (few_four)_mm256_extractf128_ps((__m256)y, 1),
    };
    return few_folded(lanes);
}

/* 4 GROUPS rows times x in four lanes from element `head` on, into c: elements c_step apart. */
#define FEW_DOTS(GROUPS)                                                                            \
    TARGET_OF_FEW static void few_dots##GROUPS(const float *rows, int64_t step, const float *x,     \
                                               int64_t k, int64_t head, float *c, int64_t c_step,   \
                                               int adds) {                                          \
        few_eight lanes[2 * GROUPS]; /* of two rows each */                                         \
        _Pragma("GCC unroll 2") for (int g = 0; g < GROUPS; g++) {                                  \
            few_four sum = {0};                                                                     \
            for (int64_t l = 0; l < head; l++)                                                      \
                sum += FEW_TERM(few_four, few_column(rows + 4 * g * step, step, l), x[l]);          \
            lanes[2 * g] = (few_eight){sum[0], 0, 0, 0, sum[1]};                                    \
            lanes[2 * g + 1] = (few_eight){sum[2], 0, 0, 0, sum[3]};                                \
        }                                                                                           \
        int64_t l = head;                                                                           \
        for (; l + 8 <= k; l += 8) {                                                                \
            const few_eight right = *(const few_eight *)(x + l);                                    \
            _Pragma("GCC unroll 4") for (int i = 0; i < 2 * GROUPS; i++) {                          \
                const float *row = rows + 2 * i * step + l;                                         \
                const few_eight even = FEW_TERM(few_eight, *(const few_eight *)row, right);         \
                const few_eight odd = FEW_TERM(few_eight, *(const few_eight *)(row + step), right); \
                lanes[i] += FEW_LOW(even, odd);                                                     \
                lanes[i] += FEW_HIGH(even, odd);                                                    \
            }                                                                                       \
        }                                                                                           \
        for (; l + 4 <= k; l += 4)                                                                  \
            _Pragma("GCC unroll 4") for (int i = 0; i < 2 * GROUPS; i++) {                          \
                const float *row = rows + 2 * i * step + l;                                         \
                const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(row));                       \
                const __m256 pair = _mm256_insertf128_ps(low, _mm_loadu_ps(row + step), 1);         \
                const __m256 right = _mm256_broadcast_ps((const __m128 *)(x + l));                  \
                lanes[i] += FEW_TERM(few_eight, (few_eight)pair, (few_eight)right);                 \
            }                                                                                       \
        _Pragma("GCC unroll 2") for (int g = 0; g < GROUPS; g++) {                                  \
            few_four sum = few_sums(lanes[2 * g], lanes[2 * g + 1]);                                \
            for (int64_t i = l; i < k; i++)                                                         \
                sum += FEW_TERM(few_four, few_column(rows + 4 * g * step, step, i), x[i]);          \
            for (int i = 0; i < 4; i++, c += c_step) *c = adds ? sum[i] + *c : sum[i];              \
        }                                                                                           \
    }
FEW_DOTS(1)
FEW_DOTS(2)

/* One row times x, eight terms at a time, in eight lanes, or in four if `is_narrow`. */
TARGET_OF_FEW static void few_dot(const float *row, const float *x, int64_t k, int64_t head,
                                  int is_narrow, float *c, int adds) {
    few_eight lanes = {0};
    int64_t l = 0;
    float sum = 0;
    for (; l < head; l++) sum += FEW_TERM(float, row[l], x[l]);
    few_four low = {sum};
    if (is_narrow) {
        for (; l + 8 <= k; l += 8) {
            low += FEW_TERM(few_four, *(const few_four *)(row + l), *(const few_four *)(x + l));
            low += FEW_TERM(few_four, *(const few_four *)(row + l + 4),
                            *(const few_four *)(x + l + 4));
        }
    }
    else {
        lanes[0] = sum;
        for (; l + 8 <= k; l += 8)
            lanes += FEW_TERM(few_eight, *(const few_eight *)(row + l), *(const few_eight *)(x + l));
        low = (few_four)_mm_add_ps(_mm256_castps256_ps128((__m256)lanes),
                                   _mm256_extractf128_ps((__m256)lanes, 1));
    }
    sum = (low[0] + low[2]) + (low[1] + low[3]);
    for (; l < k; l++) sum += FEW_TERM(float, row[l], x[l]);
    *c = adds ? sum + *c : sum;
}

/* `count` rows, `step` apart, times x: four at a time from element `head` on, those that are left
 * from `last_head` on. MKL's loop for vectors has the second of these in four lanes. */
TARGET_OF_FEW static void few_dots(const float *rows, int64_t step, int64_t count, const float *x,
                                   int64_t k, int64_t head, int64_t last_head, int is_vector,
                                   float *c, int64_t c_step, int adds) {
    int64_t i = 0;
    head = least(head, k), last_head = least(last_head, k);
    for (; i + 8 <= count; i += 8)
        few_dots2(rows + i * step, step, x, k, head, c + i * c_step, c_step, adds);
    for (; i + 4 <= count; i += 4)
        few_dots1(rows + i * step, step, x, k, head, c + i * c_step, c_step, adds);
    for (int left = 0; i < count; i++, left++)
        few_dot(rows + i * step, x, k, last_head, is_vector && left == 1, c + i * c_step, adds);
}

/* Four columns that lie as such, `step` apart, from element `head` on: four lanes of each in turn. */
TARGET_OF_FEW static void few_pack(const float *columns, int64_t step, int64_t head, int64_t k,
                                   float *packed) {
    for (int64_t l = head; l + 4 <= k; l += 4)
        for (int i = 0; i < 4; i++, packed += 4)
            *(few_four *)packed = *(const few_four *)(columns + i * step + l);
}

/* Four rows of a times the four columns that are packed, as `few_dots` for each row. */
TARGET_OF_FEW static void few_tile(const float *a, int64_t a_row, const float *columns, int64_t step,
                                   const float *packed, int64_t k, int64_t head, float *c,
                                   int64_t c_row, int adds) {
    few_eight low[4], high[4];
    few_four sums[4];
    FEW_FOUR(r) {
        sums[r] = (few_four){0};
        for (int64_t l = 0; l < head; l++)
            sums[r] += FEW_TERM(few_four, few_column(columns, step, l), a[r * a_row + l]);
        low[r] = (few_eight){sums[r][0], 0, 0, 0, sums[r][1], 0, 0, 0};
        high[r] = (few_eight){sums[r][2], 0, 0, 0, sums[r][3], 0, 0, 0};
    }
    const int64_t triple = 3 * a_row;
    int64_t l = head;
    for (; l + 4 <= k; l += 4, packed += 16) {
        const few_eight right = *(const few_eight *)packed;
        const few_eight other = *(const few_eight *)(packed + 8);
        FEW_FOUR(r) {
            const few_eight left =
                (few_eight)_mm256_broadcast_ps((const __m128 *)(a + l + (r == 3 ? triple : r * a_row)));
            low[r] += FEW_TERM(few_eight, left, right);
            high[r] += FEW_TERM(few_eight, left, other);
        }
    }
    FEW_FOUR(r) {
        few_four sum = few_sums(low[r], high[r]), *to = (few_four *)(c + r * c_row);
        for (int64_t i = l; i < k; i++)
            sum += FEW_TERM(few_four, few_column(columns, step, i), a[r * a_row + i]);
        if (adds) sum += *to;
        *to = sum;
    }
}

/* Four rows of a times a column, as `few_dot` for each row. */
TARGET_OF_FEW static void few_last(const float *a, int64_t a_row, const float *column, int64_t k,
                                   int64_t head, float *c, int64_t c_row, int adds) {
    few_eight lanes[4];
    FEW_FOUR(r) {
        float sum = 0;
        for (int64_t l = 0; l < head; l++) sum += FEW_TERM(float, column[l], a[r * a_row + l]);
        lanes[r] = (few_eight){sum};
    }
    int64_t l = head;
    for (; l + 8 <= k; l += 8) {
        const few_eight right = *(const few_eight *)(column + l);
        FEW_FOUR(r)
            lanes[r] += FEW_TERM(few_eight, *(const few_eight *)(a + r * a_row + l), right);
    }
    few_four halves[4];
    FEW_FOUR(r)
        halves[r] = (few_four)_mm_add_ps(_mm256_castps256_ps128((__m256)lanes[r]),
                                         _mm256_extractf128_ps((__m256)lanes[r], 1));
    few_four sum = few_folded(halves);
    for (; l < k; l++) sum += FEW_TERM(few_four, few_column(a, a_row, l), column[l]);
    for (int r = 0; r < 4; r++, c += c_row) *c = adds ? sum[r] + *c : sum[r];
}

/* Rows of a, `step` apart and the same from their addresses to aligned ones, times columns: fours of
 * them are packed. `n` divides by 4. */
TARGET_OF_FEW static void few_rows(const float *a, int64_t a_row, const float *b, int64_t b_column,
                                   int64_t n, int64_t k, int64_t m, int64_t head, float *c,
                                   int64_t c_row, int adds, float *packed) {
    enum { BAND = 64 }; /* rows that stay in a near cache for all columns */
    const int64_t whole = m / 4 * 4;
    for (int64_t j = 0; j < whole; j += 4)
        few_pack(b + j * b_column, b_column, head, k, packed + j * k);
    for (int64_t top = 0; top < n; top += BAND)
        for (int64_t j = 0; j < m; j += j < whole ? 4 : 1)
            for (int64_t i = top; i < least(n, top + BAND); i += 4) {
                const float *rows = a + i * a_row, *from = b + j * b_column;
                float *to = c + i * c_row + j;
                if (j < whole)
                    few_tile(rows, a_row, from, b_column, packed + j * k, k, head, to, c_row, adds);
                else few_last(rows, a_row, from, k, head, to, c_row, adds);
            }
}

/* Rows of a times columns, both of which lie as such; `packed` has room for k times FEW_COLUMNS. */
TARGET_OF_FEW static void few_rows_by_columns(const float *a, int64_t a_row, const float *b,
                                              int64_t b_column, int64_t n, int64_t k, int64_t m,
                                              float *c, int64_t c_row, int adds, float *packed) {
    const int64_t period = a_row % 4 == 0 ? 1 : a_row % 2 == 0 ? 2 : 4;
    const int64_t rows = m < FEW_COLUMNS ? n / (4 * period) * 4 : 0; /* of each period */
    for (int64_t i = 0; i < period && rows; i++) {
        const int64_t head = least(few_to_aligned(a + i * a_row), k);
        few_rows(a + i * a_row, period * a_row, b, b_column, rows, k, m, head, c + i * c_row,
                 period * c_row, adds, packed);
    }
    for (int64_t i = rows * period; i < n; i++) {
        const int64_t head = few_to_aligned(a + i * a_row);
        few_dots(b, b_column, m, a + i * a_row, k, head, head, 0, c + i * c_row, 1, adds);
    }
}

/* Eight columns, or those of `mask`, of a sum that goes on with `count` terms. */
TARGET_OF_FEW static inline __attribute__((always_inline)) few_eight
few_terms(few_eight sum, const float *rows, int64_t step, const float *left, int64_t count,
          const __m256i *mask) {
    for (int64_t i = 0; i < count; i++) {
        const few_eight row = mask ? (few_eight)_mm256_maskload_ps(rows + i * step, *mask)
                                   : *(const few_eight *)(rows + i * step);
        sum += FEW_TERM(few_eight, row, left[i]);
    }
    return sum;
}

/* A vector, its elements x_step apart, times rows that lie as such, in the order of k. */
TARGET_OF_FEW static void few_vector_by_rows(const float *x, int64_t x_step, const float *rows,
                                             int64_t step, int64_t k, int64_t m, float *c,
                                             int adds) {
    if (!adds) memset(c, 0, (size_t)m * sizeof(float));
    const int64_t whole = m / 8 * 8;
    const __m256i mask = FIRST_4_BYTES(m - whole);
    for (int64_t l = 0, count; l < k; l += count, rows += count * step) {
        float left[8];
        count = least(8, k - l);
        for (int64_t i = 0; i < count; i++) left[i] = x[(l + i) * x_step];
        for (int64_t j = 0; j < whole; j += 8) {
            few_eight *sum = (few_eight *)(c + j);
            *sum = count == 8 ? few_terms(*sum, rows + j, step, left, 8, NULL)
                              : few_terms(*sum, rows + j, step, left, count, NULL);
        }
        if (whole == m) continue;
        const few_eight sum = (few_eight)_mm256_maskload_ps(c + whole, mask);
        _mm256_maskstore_ps(c + whole, mask,
                            (__m256)few_terms(sum, rows + whole, step, left, count, &mask));
    }
}

/* Columns in front of the first aligned address of a row of the result, if four more follow. */
static inline int64_t few_head_columns(const float *row, int64_t m) {
    const int64_t count = few_to_aligned(row);
    return m - count >= 4 ? count : 0;
}

/* Of four rows of a times b, the first four columns: four terms onto the sum, four apart, in turn. */
TARGET_OF_FEW static void few_head(const float *a, int64_t a_row, int64_t a_column, const float *b,
                                   int64_t b_row, int64_t k, few_four *sums) {
    few_four sum[4], apart[4];
    const int64_t triple = 3 * a_row;
    FEW_FOUR(r) sum[r] = sums[r];
    int64_t l = 0;
    for (; l + 8 <= k; l += 8) {
        FEW_FOUR(i) {
            const few_four right = *(const few_four *)b;
            FEW_FOUR(r) FEW_ADD(few_four, sum[r], right, a[r == 3 ? triple : r * a_row]);
            a += a_column, b += b_row;
        }
        FEW_FOUR(r) apart[r] = (few_four){-0.0f, -0.0f, -0.0f, -0.0f};
        FEW_FOUR(i) {
            const few_four right = *(const few_four *)b;
            FEW_FOUR(r) FEW_ADD(few_four, apart[r], right, a[r == 3 ? triple : r * a_row]);
            a += a_column, b += b_row;
        }
        FEW_FOUR(r) sum[r] += apart[r];
    }
    for (; l < k; l++, a += a_column, b += b_row)
        FEW_FOUR(r) sum[r] += FEW_TERM(few_four, *(const few_four *)b, a[r * a_row]);
    FEW_FOUR(r) sums[r] = sum[r];
}

/* Of rows whose result begins beside an aligned address: their first four columns, which are sums in
 * that order as far as they are heads. */
TARGET_OF_FEW static void few_find_heads(const float *a, int64_t a_row, int64_t a_column,
                                         const float *b, int64_t b_row, const float *c,
                                         int64_t c_row, int64_t n, int64_t k, int64_t m, int adds,
                                         few_four *heads) {
    const int64_t period = c_row % 4 == 0 ? 1 : c_row % 2 == 0 ? 2 : 4;
    for (int64_t first = 0; first < least(period, n); first++) {
        if (few_head_columns(c + first * c_row, m) == 0) continue;
        for (int64_t i = first, count; i < n; i += count * period) {
            count = i + 3 * period < n ? 4 : 1;
            few_four sums[4];
            for (int64_t r = 0; r < 4; r++) {
                const float *from = c + (i + (count == 4 ? r * period : 0)) * c_row;
                sums[r] = (few_four){0};
                if (adds) sums[r] = *(const few_four *)from;
            }
            few_head(a + i * a_row, count == 4 ? period * a_row : 0, a_column, b, b_row, k, sums);
            for (int64_t r = 0; r < count; r++) heads[i + r * period] = sums[r];
        }
    }
}
