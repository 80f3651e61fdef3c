/* What every CUDA unit starts with: types, shuffles, error reports, 16-bit floats, packs.
 *
 * Needs no other header: NVRTC comes without the toolkit's. `scalar.h` follows and shares with C
 * the scalar rules. Written for sm_80 and newer. A host compiler that defines the CUDA built-ins
 * (blockIdx, __shfl_xor_sync, atomicCAS, ...) reads it, too.
 */
#define DJ_INLINE static __device__ __forceinline__
#define DJ_INLINE_MEMBER __device__ __forceinline__
/* Inline, too: a call would put what the kernel holds into local memory. */
#define DJ_COLD DJ_INLINE

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT64_C(x) x##LL
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif

/* The shared memory that the launch adds, as an array of T. */
#ifdef EMULATED
#define DJ_DYNAMIC(T, name) T *const name = (T *)emulator::dynamic
#else
#define DJ_DYNAMIC(T, name)                                                                         \
    extern __shared__ __align__(16) unsigned char dj_dynamic_memory[];                              \
    T *const name = (T *)dj_dynamic_memory
#endif

/* ---- error reports: the first problem wins; status may be memory of the host ---- */

DJ_COLD int64_t dj_report(int64_t *status, int64_t code, int64_t value, int64_t size, int64_t low) {
    if (atomicCAS_system((unsigned long long *)status, 0ull, (unsigned long long)code) == 0) {
        status[1] = value;
        status[2] = size;
        status[3] = low;
        __threadfence_system();
    }
    return 0;
}

/* ---- threads ---- */

/* The value of the thread whose lane differs in the bit `offset`. */
template <typename T>
DJ_INLINE T dj_exchange(unsigned mask, T value, int offset) {
    return (T)__shfl_xor_sync(mask, value, offset);
}

/* The value of the lane `offset` before this one in the warp, if there is one. */
template <typename T>
DJ_INLINE T dj_shift_up(T value, int offset) {
    return (T)__shfl_up_sync(0xffffffffu, value, offset);
}

/* The value of one lane, for the whole warp. */
template <typename T>
DJ_INLINE T dj_from_lane(T value, int lane) {
    return (T)__shfl_sync(0xffffffffu, value, lane);
}

/* The lanes of this thread's team, a group of `size` neighbours in a warp. */
DJ_INLINE unsigned dj_team_mask(int size) {
    return size >= 32 ? 0xffffffffu : ((1u << size) - 1u) << (threadIdx.x & 31u & ~(size - 1u));
}

/* ---- packs: N neighbouring elements, read and written by 16 bytes where `vector` says that their
 * address is a multiple; `count` of them where the last pack is cut ---- */

template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) dj_pack {
    T at[N];
};

template <int N, typename T>
DJ_INLINE dj_pack<T, N> dj_load_pack(const T *from, bool vector, int count = N) {
    dj_pack<T, N> pack;
    if (vector && count >= N) {
        pack = *reinterpret_cast<const dj_pack<T, N> *>(from);
    } else {
#pragma unroll
        for (int item = 0; item < N; item++)
            if (item < count) pack.at[item] = from[item];
    }
    return pack;
}

template <typename T, int N>
DJ_INLINE void dj_store_pack(T *to, const dj_pack<T, N> &pack, bool vector, int count = N) {
    if (vector && count >= N) {
        *reinterpret_cast<dj_pack<T, N> *>(to) = pack;
    } else {
#pragma unroll
        for (int item = 0; item < N; item++)
            if (item < count) to[item] = pack.at[item];
    }
}

template <int BYTES, typename T>
DJ_INLINE bool dj_is_aligned(const T *pointer) {
    return ((uint64_t)pointer & (BYTES - 1)) == 0;
}

/* ---- 16-bit floats: one instruction each, where scalar.h has the bit by bit versions ---- */

#ifdef __CUDA_ARCH__
#define DJ_HAVE_f16
DJ_INLINE float dj_load_f16(unsigned short x) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x));
    return value;
}

DJ_INLINE unsigned short dj_store_f16(float x) {
    unsigned short value;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(value) : "f"(x));
    return value;
}
#endif
