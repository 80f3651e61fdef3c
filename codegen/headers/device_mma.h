/* Tensor cores and asynchronous copies, for CUDA units with attention or convolutions.
 *
 * Fragments are those of PTX's mma.m16n8k16: of A (16 by 16) a lane has rows lane / 4 and 8 below,
 * columns 2 * (lane % 4) and 8 beside, two neighbours each; of B (16 by 8) the rows that those
 * columns meet in column lane / 4; of sums (16 by 8) rows as of A, columns 2 * (lane % 4) and the
 * next. Elements of 32 bits take the place of two neighbours (mma.m16n8k8: A is 16 by 8, B 8 by 8):
 * columns lane % 4 and 4 beside. Source: PTX ISA, "Matrix Fragments for mma.m16n8k16" and "...
 * mma.m16n8k8", "ldmatrix", "cp.async".
 * The emulator defines the same functions (emulated_...).
 */

/* The 16-bit types are one type in C++: kernels name the one that they have. */
struct dj_f16 {
    uint16_t bits;
};
struct dj_bf16 {
    uint16_t bits;
};
/* float32 that may be rounded to ten bits of mantissa. */
struct dj_tf32 {
    float value;
};

DJ_INLINE float dj_widened(dj_f16 x) { return dj_load_f16(x.bits); }
DJ_INLINE float dj_widened(dj_bf16 x) { return dj_load_bf16(x.bits); }
DJ_INLINE float dj_widened(dj_tf32 x) { return x.value; }
DJ_INLINE float dj_widened(float x) { return x; }
DJ_INLINE double dj_widened(double x) { return x; }

DJ_INLINE void dj_narrow_to(dj_f16 *to, float x) { to->bits = dj_store_f16(x); }
DJ_INLINE void dj_narrow_to(dj_bf16 *to, float x) { to->bits = dj_store_bf16(x); }
DJ_INLINE void dj_narrow_to(dj_tf32 *to, float x) { to->value = x; }
DJ_INLINE void dj_narrow_to(float *to, float x) { *to = x; }
DJ_INLINE void dj_narrow_to(double *to, double x) { *to = x; }

/* The dtype in which elements are multiplied and added up. */
template <typename T>
struct dj_wide {
    typedef float type;
};
template <>
struct dj_wide<double> {
    typedef double type;
};

DJ_INLINE float dj_fma(float a, float b, float c) { return fmaf(a, b, c); }
DJ_INLINE double dj_fma(double a, double b, double c) { return fma(a, b, c); }
DJ_INLINE float dj_exp_of(float x) { return expf(x); }
DJ_INLINE double dj_exp_of(double x) { return exp(x); }
DJ_INLINE float dj_log_of(float x) { return logf(x); }
DJ_INLINE double dj_log_of(double x) { return log(x); }

/* Two neighbours of a fragment in one register, the first one in the low half. */
template <typename T>
DJ_INLINE uint32_t dj_pair(float low, float high) {
    T a, b;
    dj_narrow_to(&a, low);
    dj_narrow_to(&b, high);
    return (uint32_t)a.bits | (uint32_t)b.bits << 16;
}

#ifdef EMULATED
#define dj_copy_async emulated_copy_async
#define dj_copy_commit emulated_copy_commit
#define dj_copy_wait emulated_copy_wait
DJ_INLINE void dj_mma(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, dj_f16) {
    emulated_mma(sum, a, b0, b1, [](uint16_t x) { return dj_load_f16(x); });
}
DJ_INLINE void dj_mma(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, dj_bf16) {
    emulated_mma(sum, a, b0, b1, [](uint16_t x) { return dj_load_bf16(x); });
}
DJ_INLINE float dj_rounded_tf32(float x) { return emulated_tf32(x); }
DJ_INLINE void dj_mma_tf32(float (&sum)[4], const float (&a)[4], float b0, float b1) {
    emulated_mma_tf32(sum, a, b0, b1);
}
template <typename T>
DJ_INLINE void dj_ldmatrix(uint32_t (&to)[4], const T *place, int offset) {
    emulated_ldmatrix(to, place + offset);
}
template <typename T>
DJ_INLINE void dj_ldmatrix_turned(uint32_t (&to)[4], const T *place, int offset) {
    emulated_ldmatrix_turned(to, place + offset);
}
template <typename T>
DJ_INLINE void dj_load_pair(uint32_t (&to)[2], const T *place, int offset) {
    for (int item = 0; item < 2; item++)
        to[item] = __float_as_uint(dj_widened(place[offset + item]));
}
#else
DJ_INLINE uint32_t dj_shared_address(const void *place) {
    return (uint32_t)__cvta_generic_to_shared(place);
}

/* sum += a @ b. */
DJ_INLINE void dj_mma(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, dj_f16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DJ_INLINE void dj_mma(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, dj_bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The nearest float32 with ten bits of mantissa; halves go away from zero. */
DJ_INLINE float dj_rounded_tf32(float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

/* sum (16 by 8) += a (16 by 8) @ b (8 by 8), of float32 with ten bits of mantissa. */
DJ_INLINE void dj_mma_tf32(float (&sum)[4], const float (&a)[4], float b0, float b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

/* The address of what lies a constant `offset` of elements behind a place of the lane's: a constant of
 * the instruction, which takes neither registers nor time. */
template <typename T>
DJ_INLINE uint32_t dj_shared_address(const T *place, int offset) {
    return dj_shared_address(place) + offset * (int)sizeof(T);
}

/* Four matrices of 8 by 8 in shared memory: lane l gives the address of row l % 8 of matrix l / 8;
 * it gets of each matrix row l / 4, columns 2 * (l % 4) and the next; `turned`: of its transpose. */
template <typename T>
DJ_INLINE void dj_ldmatrix(uint32_t (&to)[4], const T *place, int offset) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(dj_shared_address(place, offset))
                 : "memory");
}

template <typename T>
DJ_INLINE void dj_ldmatrix_turned(uint32_t (&to)[4], const T *place, int offset) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(dj_shared_address(place, offset))
                 : "memory");
}

/* Two neighbours of 32 bits in shared memory. */
template <typename T>
DJ_INLINE void dj_load_pair(uint32_t (&to)[2], const T *place, int offset) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(dj_shared_address(place, offset))
                 : "memory");
}

/* 16 bytes from global to shared memory; there once the thread has waited for its group. */
DJ_INLINE void dj_copy_async(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(dj_shared_address(to)), "l"(__cvta_generic_to_global(from))
                 : "memory");
}

/* The copies since the last one are a group. */
DJ_INLINE void dj_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/* All groups but the last `LEFT` are there. */
template <int LEFT>
DJ_INLINE void dj_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
#endif

/* ---- tiles of matrices in shared memory: rows of `WIDE` elements and 16 bytes more, so that the
 * rows of a matrix of 8 by 16 bytes meet all banks ---- */

template <int WIDE, typename T>
struct dj_tile_row {
    static const int length = WIDE + 16 / sizeof(T);
};

/* 16 bytes of zeros. */
struct __align__(16) dj_no_pack {
    uint32_t zeros[4] = {};
};

/* Rows [0, rows) and columns [0, columns) of a strided matrix, zeros behind them.
 * `is_packed`: neighbours of a row are packs of 16 aligned bytes; then copies are asynchronous. */
template <int HIGH, int WIDE, int THREADS, typename T>
DJ_INLINE void dj_load_tile(T *tile, const T *from, int64_t row_step, int64_t column_step,
                            int64_t rows, int columns, bool is_packed) {
    const int pack = 16 / sizeof(T), across = WIDE / pack, chunks = HIGH * across;
    if (is_packed && THREADS % across == 0) {
        /* A thread stays in its column: its places are one and constants. */
        const int row = threadIdx.x / across, column = threadIdx.x % across * pack;
        const int left = column < columns ? (int)dj_min_index(rows - row, HIGH) : 0;
        T *to = tile + row * dj_tile_row<WIDE, T>::length + column;
        from += row * row_step + column;
#pragma unroll
        for (int down = 0; down < HIGH; down += THREADS / across) {
            if (HIGH % (THREADS / across) && row + down >= HIGH) break;
            T *place = to + down * dj_tile_row<WIDE, T>::length;
            if (down < left)
                dj_copy_async(place, from + down * row_step);
            else
                *(dj_no_pack *)place = dj_no_pack();
        }
        return;
    }
#pragma unroll 1
    for (int chunk = threadIdx.x; chunk < chunks; chunk += THREADS) {
        const int row = chunk / across, column = chunk % across * pack;
        T *to = tile + row * dj_tile_row<WIDE, T>::length + column;
        if (is_packed && row < rows && column < columns) {
            dj_copy_async(to, from + row * row_step + column);
            continue;
        }
#pragma unroll
        for (int item = 0; item < pack; item++) {
            T value;
            dj_narrow_to(&value, 0.0f);
            if (row < rows && column + item < columns)
                value = from[row * row_step + (column + item) * column_step];
            to[item] = value;
        }
    }
}

/* The fragment of A at a tile's row and column. */
template <int WIDE, typename T>
DJ_INLINE void dj_load_a(uint32_t (&a)[4], const T *tile, int row, int column) {
    const int lane = threadIdx.x % 32, pack = 16 / sizeof(T);
    dj_ldmatrix(a, tile + (row + lane % 16) * dj_tile_row<WIDE, T>::length + lane / 16 * pack,
                column);
}

/* The fragments of two neighbouring B: b[0], b[1] of columns n to n + 7 and b[2], b[3] of the next
 * 8, rows k to k + 15 (of 32 bits: k + 7). The tile has B's columns as rows. */
template <int WIDE, typename T>
DJ_INLINE void dj_load_b(uint32_t (&b)[4], const T *tile, int n, int k) {
    const int lane = threadIdx.x % 32, pack = 16 / sizeof(T), length = dj_tile_row<WIDE, T>::length;
    dj_ldmatrix(b, tile + (lane / 16 * 8 + lane % 8) * length + lane / 8 % 2 * pack,
                n * length + k);
}

/* The same of a tile of 16-bit elements that has B's rows as rows. */
template <int WIDE, typename T>
DJ_INLINE void dj_load_b_turned(uint32_t (&b)[4], const T *tile, int n, int k) {
    const int lane = threadIdx.x % 32, length = dj_tile_row<WIDE, T>::length;
    dj_ldmatrix_turned(b, tile + lane % 16 * length + lane / 16 * 8, k * length + n);
}
