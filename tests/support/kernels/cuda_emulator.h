// CUDA on the CPU, for tests of generated kernels: the very text that NVRTC gets, compiled by g++.
//
// This header comes first, the unit behind it, then DJ_EMULATE(entry) for each of its kernels, which
// exports `int emulated_<entry>(grid, block, dynamic_bytes, parameters)`; `parameters` is what
// cuLaunchKernel is given: a pointer to each argument. 0 means that the kernel ran; otherwise
// `emulator_message()` says what was wrong and where.
//
// Every CUDA thread of a block is a fiber, which runs to its next barrier or warp operation; blocks
// run one after the other. Wrong and therefore reported: a barrier that some threads do not meet, or
// meet at another place; a warp operation whose lanes are not all at the same one; a value taken
// from a lane outside the mask; launches no GPU would take. `emulated.py` compiles with
// -fsanitize=thread,bounds,alignment, whose calls are answered here (CHECKED), so that every access
// to memory is seen. Then these are reported, too: indices outside of shared arrays, accesses
// outside of dynamic shared memory, misaligned accesses (also of 16 bytes), shared memory read before
// anything was written to it, races between threads in shared memory that no barrier orders, and
// for buffers told by `emulator_allow`, accesses outside of them and races in them.
//
// Not emulated: the rounding of CUDA's own functions (the C library's are used), limits of
// registers, the order in which blocks run, memory that becomes visible late.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define EMULATED 1
#define UNSEEN __attribute__((no_sanitize("thread", "undefined")))

struct uint3 {
    unsigned x, y, z;
};
typedef uint3 dim3;

#define __device__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("emulated_shared")))
#define __launch_bounds__(...)
#define threadIdx emulator::now.thread
#define blockIdx emulator::now.block
#define blockDim emulator::now.threads
#define gridDim emulator::now.blocks

extern "C" char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" char _end[] __attribute__((visibility("hidden")));

namespace emulator {

constexpr unsigned WARP = 32;
constexpr unsigned MOST_THREADS = 1024;
constexpr size_t STACK_BYTES = 1 << 16;
constexpr size_t MOST_DYNAMIC = 227 << 10;
constexpr size_t ARENA = 4 * MOST_DYNAMIC; // dynamic shared memory in the middle, nothing around it

enum Event { RUNNING, WARP_WAIT, BARRIER, DONE };

struct Now {
    uint3 thread, block, threads, blocks;
};
static Now now;

// What lanes bring to a warp operation; the scheduler lets the lanes of a mask go together.
struct Meeting {
    unsigned mask;
    const void *place; // in the code: all lanes must be at the same one
    const void *given;
};

struct Fiber {
    ucontext_t context;
    jmp_buf resume;
    bool is_started;
    Event event;
    Meeting meeting;
    const void *barrier;
    unsigned syncs; // warp barriers that this lane has passed
};

static Fiber fibers[MOST_THREADS];
static char *stacks, *arena;
static char *dynamic;
static size_t dynamic_bytes;
static unsigned thread_count, own; // threads of the block; the running one
static unsigned barriers;          // that the block has passed
static jmp_buf scheduler, failed;
static char message[2048];

struct Copy {
    void *to;
    const void *from;
    unsigned group;
};
struct Copies {
    Copy *all;
    unsigned count, room, groups;
};
static Copies pending[MOST_THREADS];

struct Body {
    void (*run)(Body *);
};
static Body *body;

UNSEEN static void place_of(unsigned thread) {
    now.thread.x = thread % now.threads.x;
    now.thread.y = thread / now.threads.x % now.threads.y;
    now.thread.z = thread / now.threads.x / now.threads.y;
}

__attribute__((noreturn, format(printf, 1, 2))) UNSEEN static void fail(const char *reason, ...) {
    int at = snprintf(message, sizeof message, "block (%u, %u, %u), thread (%u, %u, %u): ",
                      now.block.x, now.block.y, now.block.z, now.thread.x, now.thread.y,
                      now.thread.z);
    va_list given;
    va_start(given, reason);
    vsnprintf(message + at, sizeof message - at, reason, given);
    va_end(given);
    _longjmp(failed, 1);
}

// ---- fibers ----

UNSEEN static void wait(Event event) {
    Fiber &fiber = fibers[own];
    fiber.event = event;
    if (_setjmp(fiber.resume) == 0) _longjmp(scheduler, 1);
}

UNSEEN static void enter() {
    body->run(body);
    fibers[own].event = DONE;
    _longjmp(scheduler, 1);
}

UNSEEN static void resume(unsigned thread) {
    Fiber &fiber = fibers[thread];
    own = thread;
    place_of(thread);
    fiber.event = RUNNING;
    if (_setjmp(scheduler) != 0) return;
    if (fiber.is_started) _longjmp(fiber.resume, 1);
    fiber.is_started = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks + thread * STACK_BYTES;
    fiber.context.uc_stack.ss_size = STACK_BYTES;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enter, 0);
    setcontext(&fiber.context);
}

// Whether the lanes that a waiting lane names have all come, so that they may go on.
UNSEEN static bool has_met(unsigned thread) {
    const Meeting &meeting = fibers[thread].meeting;
    unsigned first = thread / WARP * WARP;
    for (unsigned lane = 0; lane < WARP; lane++) {
        if (!(meeting.mask >> lane & 1)) continue;
        if (first + lane >= thread_count) {
            place_of(thread);
            fail("lane %u of the mask %08x does not exist", lane, meeting.mask);
        }
        const Fiber &other = fibers[first + lane];
        if (other.event != WARP_WAIT || other.meeting.mask != meeting.mask) return false;
        if (other.meeting.place != meeting.place) return false;
    }
    return true;
}

UNSEEN static bool release_warps() {
    bool any = false;
    for (unsigned thread = 0; thread < thread_count; thread++) {
        if (fibers[thread].event != WARP_WAIT || !has_met(thread)) continue;
        unsigned first = thread / WARP * WARP, mask = fibers[thread].meeting.mask;
        for (unsigned lane = 0; lane < WARP; lane++)
            if (mask >> lane & 1) fibers[first + lane].event = RUNNING;
        any = true;
    }
    return any;
}

UNSEEN static bool release_barrier() {
    const void *place = nullptr;
    for (unsigned thread = 0; thread < thread_count; thread++) {
        const Fiber &fiber = fibers[thread];
        place_of(thread);
        if (fiber.event == DONE) fail("a barrier is not met by the whole block: this thread ended");
        if (fiber.event != BARRIER) return false;
        if (place && fiber.barrier != place) fail("a barrier is met at another place of the kernel");
        place = fiber.barrier;
    }
    for (unsigned thread = 0; thread < thread_count; thread++) fibers[thread].event = RUNNING;
    barriers++;
    return true;
}

static void forget_block();
static void start_launch();

UNSEEN static void run_block() {
    for (unsigned thread = 0; thread < thread_count; thread++) {
        fibers[thread].is_started = false;
        fibers[thread].event = RUNNING;
        fibers[thread].syncs = 0;
        pending[thread].count = pending[thread].groups = 0;
    }
    barriers = 0;
    forget_block();
    for (;;) {
        bool is_done = true, any = false;
        for (unsigned thread = 0; thread < thread_count; thread++) {
            if (fibers[thread].event == RUNNING) {
                resume(thread);
                any = true;
            }
            is_done &= fibers[thread].event == DONE;
        }
        if (is_done) return;
        if (any || release_warps()) continue;
        for (unsigned thread = 0; thread < thread_count; thread++) {
            if (fibers[thread].event != WARP_WAIT) continue;
            place_of(thread);
            fail("not all lanes of the mask %08x come to a warp operation",
                 fibers[thread].meeting.mask);
        }
        release_barrier();
    }
}

// ---- launches ----

UNSEEN static void make_room() {
    if (stacks) return;
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    stacks = (char *)mmap(nullptr, MOST_THREADS * STACK_BYTES, protection, flags, -1, 0);
    arena = (char *)mmap(nullptr, ARENA, protection, flags, -1, 0);
}

UNSEEN static void check_geometry(const unsigned *grid, const unsigned *block, size_t bytes) {
    if (!grid[0] || !grid[1] || !grid[2]) fail("the grid (%u, %u, %u) has no block", grid[0], grid[1], grid[2]);
    if (grid[0] > 0x7fffffffu || grid[1] > 65535 || grid[2] > 65535)
        fail("the grid (%u, %u, %u) is too large", grid[0], grid[1], grid[2]);
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (!threads || threads > MOST_THREADS || block[2] > 64)
        fail("a block cannot have (%u, %u, %u) threads", block[0], block[1], block[2]);
    if (bytes > MOST_DYNAMIC) fail("a block cannot have %zu bytes of dynamic shared memory", bytes);
}

// Of the next launches, the last so many blocks along x; 0: all.
static unsigned last_blocks;

UNSEEN static int run(Body &given, const unsigned *grid, const unsigned *block, size_t bytes) {
    static int is_busy;
    while (__atomic_exchange_n(&is_busy, 1, __ATOMIC_ACQUIRE)) {}
    now = Now();
    start_launch();
    body = &given;
    int result = _setjmp(failed);
    if (result == 0) {
        check_geometry(grid, block, bytes);
        make_room();
        now.blocks = {grid[0], grid[1], grid[2]};
        now.threads = {block[0], block[1], block[2]};
        thread_count = block[0] * block[1] * block[2];
        dynamic = arena + ARENA / 4;
        dynamic_bytes = bytes;
        unsigned first = last_blocks && last_blocks < grid[0] ? grid[0] - last_blocks : 0;
        for (now.block.z = 0; now.block.z < grid[2]; now.block.z++)
            for (now.block.y = 0; now.block.y < grid[1]; now.block.y++)
                for (now.block.x = first; now.block.x < grid[0]; now.block.x++) run_block();
    }
    __atomic_store_n(&is_busy, 0, __ATOMIC_RELEASE);
    return result;
}

template <int... K>
struct Places {};
template <int N, int... K>
struct MakePlaces : MakePlaces<N - 1, N - 1, K...> {};
template <int... K>
struct MakePlaces<0, K...> {
    typedef Places<K...> type;
};
template <typename T>
struct Plain {
    typedef T type;
};
template <typename T>
struct Plain<const T> {
    typedef T type;
};

template <typename... Arguments>
struct Call : Body {
    void (*kernel)(Arguments...);
    void **parameters;
    template <int... K>
    UNSEEN void call(Places<K...>) {
        kernel(*(typename Plain<Arguments>::type *)parameters[K]...);
    }
    UNSEEN static void run_it(Body *own) {
        ((Call *)own)->call(typename MakePlaces<sizeof...(Arguments)>::type());
    }
};

// Runs a kernel as cuLaunchKernel does; what it returns see above.
template <typename... Arguments>
UNSEEN int launch(void (*kernel)(Arguments...), const unsigned grid[3], const unsigned block[3],
                  size_t dynamic_bytes, void **parameters) {
    Call<Arguments...> call;
    call.run = &Call<Arguments...>::run_it;
    call.kernel = kernel;
    call.parameters = parameters;
    return run(call, grid, block, dynamic_bytes);
}

// ---- memory ----

enum Access { READ, WRITE, ATOMIC };

// Who met a byte last, and when. Threads and warps count from 1; `SEVERAL` is more than one.
constexpr uint32_t SEVERAL = 0xffffffffu;
struct Visit {
    uint32_t thread, warp, block, barriers, syncs;
};
struct Byte {
    Visit write, read;
    bool is_atomic;
};

struct Region {
    char *start;
    size_t bytes;
    Byte *seen;
    bool is_shared;
};
static Region shared_static, shared_dynamic, *regions;
static unsigned region_count, block_number, first_block; // blocks of all launches are counted

UNSEEN static Byte *bytes_for(size_t count) { return (Byte *)calloc(count ? count : 1, sizeof(Byte)); }

UNSEEN static void forget(Region &region, char *start, size_t bytes) {
    if (region.bytes != bytes || !region.seen) {
        free(region.seen);
        region.seen = bytes_for(bytes);
    } else {
        memset(region.seen, 0, bytes * sizeof(Byte));
    }
    region.start = start;
    region.bytes = bytes;
    region.is_shared = true;
    memset(start, 0xcd, bytes);
}

UNSEEN static void start_launch() { first_block = block_number + 1; }

// A block starts with shared memory that holds nothing.
UNSEEN static void forget_block() {
    block_number++;
    forget(shared_static, __start_emulated_shared,
           (size_t)(__stop_emulated_shared - __start_emulated_shared));
    forget(shared_dynamic, dynamic, dynamic_bytes);
}

// Whether the running thread comes after a visit: as the same thread, or by way of a barrier.
UNSEEN static bool comes_after(const Visit &visit) {
    if (!visit.thread || visit.block < first_block) return true; // nobody's, or of an earlier launch
    if (visit.block != block_number) return false;
    if (visit.thread == own + 1 || visit.barriers != barriers) return true;
    return visit.warp == own / WARP + 1 && visit.syncs != fibers[own].syncs;
}

UNSEEN static void read_by(Visit &visit, const Visit &here) {
    const bool joins = visit.thread && visit.block == here.block && visit.barriers == here.barriers;
    const bool is_other = joins && visit.thread != here.thread && visit.syncs == here.syncs;
    const bool is_far = joins && visit.warp != here.warp;
    visit = here;
    if (is_other || is_far) visit.thread = SEVERAL;
    if (is_far) visit.warp = SEVERAL;
}

UNSEEN static void meet(const Region &region, const char *address, size_t size, Access access,
                        const char *kind) {
    const Visit here = {own + 1, own / WARP + 1, block_number, barriers, fibers[own].syncs};
    const char *verb = access == READ ? "reads" : "writes";
    for (size_t k = 0; k < size; k++) {
        const size_t at = address + k - region.start;
        Byte &byte = region.seen[at];
        if (access == READ && region.is_shared && !byte.write.thread)
            fail("reads byte %zu of %s, which nothing wrote", at, kind);
        if (!(access == ATOMIC && byte.is_atomic) && !comes_after(byte.write))
            fail("race: %s byte %zu of %s, which thread %u wrote", verb, at, kind,
                 byte.write.thread - 1);
        if (access == READ) {
            read_by(byte.read, here);
            continue;
        }
        if (!comes_after(byte.read)) fail("race: %s byte %zu of %s, which another thread reads", verb, at, kind);
        byte.write = here;
        byte.is_atomic = access == ATOMIC;
    }
}

UNSEEN static bool is_in(const char *address, const char *start, size_t bytes) {
    return address >= start && address < start + bytes;
}

UNSEEN static void check(const void *given, size_t size, Access access) {
    const char *address = (const char *)given;
    if (is_in(address, stacks, MOST_THREADS * STACK_BYTES)) return;
    if (is_in(address, shared_static.start, shared_static.bytes)) {
        meet(shared_static, address, size, access, "shared memory");
    } else if (is_in(address, arena, ARENA)) {
        if (address < dynamic || address + size > dynamic + dynamic_bytes)
            fail("%s at %ld of %zu bytes of dynamic shared memory", access == READ ? "reads" : "writes",
                 (long)(address - dynamic), dynamic_bytes);
        meet(shared_dynamic, address, size, access, "shared memory (dynamic)");
    } else if (region_count && !is_in(address, __ehdr_start, (size_t)(_end - __ehdr_start))) {
        for (unsigned k = 0; k < region_count; k++) {
            Region &region = regions[k];
            if (address >= region.start && address + size <= region.start + region.bytes)
                return meet(region, address, size, access, "a buffer");
        }
        for (unsigned k = 0; k < region_count; k++) {
            Region &region = regions[k];
            if (address + 4096 > region.start && address < region.start + region.bytes + 4096)
                fail("%s %zu bytes at byte %ld of a buffer of %zu bytes",
                     access == READ ? "reads" : "writes", size, (long)(address - region.start),
                     region.bytes);
        }
        fail("%s %zu bytes at %p, which is in no buffer", access == READ ? "reads" : "writes", size,
             given);
    }
}

// ---- warps ----

// Waits for the lanes of `mask` at the same operation; `given` stays until `part`.
UNSEEN static void gather(unsigned mask, const void *place, const void *given) {
    if (!(mask >> (own % WARP) & 1)) fail("the mask %08x lacks the own lane", mask);
    fibers[own].meeting = {mask, place, given};
    wait(WARP_WAIT);
}

UNSEEN static void part(unsigned mask) {
    fibers[own].meeting.place = nullptr;
    wait(WARP_WAIT);
    (void)mask;
}

template <typename T>
UNSEEN static const T &of_lane(unsigned lane) {
    return *(const T *)fibers[own / WARP * WARP + lane].meeting.given;
}

template <typename T>
UNSEEN static T from_lane(unsigned mask, const T &value, int lane, const void *place) {
    gather(mask, place, &value);
    if (!(mask >> lane & 1)) fail("takes a value from lane %d, which the mask %08x lacks", lane, mask);
    T found = of_lane<T>(lane);
    part(mask);
    return found;
}

// What the predicate is in each lane of the mask.
UNSEEN static unsigned vote(unsigned mask, bool predicate, const void *place) {
    gather(mask, place, &predicate);
    unsigned found = 0;
    for (unsigned lane = 0; lane < WARP; lane++)
        if (mask >> lane & 1) found |= (unsigned)of_lane<bool>(lane) << lane;
    part(mask);
    return found;
}

}  // namespace emulator

// Where an operation stands. An optimising compiler may make several calls of one in the text.
#ifdef __OPTIMIZE__
#define EMULATED_PLACE ((const void *)1)
#else
#define EMULATED_PLACE __builtin_return_address(0)
#endif

UNSEEN __attribute__((noinline)) static void __syncthreads() {
    emulator::fibers[emulator::own].barrier = EMULATED_PLACE;
    emulator::wait(emulator::BARRIER);
}

UNSEEN __attribute__((noinline)) static void __syncwarp(unsigned mask = 0xffffffffu) {
    emulator::gather(mask, EMULATED_PLACE, nullptr);
    emulator::fibers[emulator::own].syncs++;
}

template <typename T>
UNSEEN __attribute__((noinline)) static T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
    int own = emulator::own % 32, first = own & ~(width - 1);
    return emulator::from_lane(mask, value, first + (lane & (width - 1)), EMULATED_PLACE);
}

template <typename T>
UNSEEN __attribute__((noinline)) static T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    int own = emulator::own % 32, lane = own ^ bits;
    return emulator::from_lane(mask, value, lane / width > own / width ? own : lane, EMULATED_PLACE);
}

template <typename T>
UNSEEN __attribute__((noinline)) static T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    int own = emulator::own % 32, lane = own - (int)by;
    return emulator::from_lane(mask, value, lane < (own & ~(width - 1)) ? own : lane, EMULATED_PLACE);
}

template <typename T>
UNSEEN __attribute__((noinline)) static T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    int own = emulator::own % 32, lane = own + (int)by;
    return emulator::from_lane(mask, value, lane > (own | (width - 1)) ? own : lane, EMULATED_PLACE);
}

UNSEEN __attribute__((noinline)) static unsigned __ballot_sync(unsigned mask, int predicate) {
    return emulator::vote(mask, predicate != 0, EMULATED_PLACE);
}

UNSEEN __attribute__((noinline)) static int __any_sync(unsigned mask, int predicate) {
    return emulator::vote(mask, predicate != 0, EMULATED_PLACE) != 0;
}

UNSEEN __attribute__((noinline)) static int __all_sync(unsigned mask, int predicate) {
    return emulator::vote(mask, predicate != 0, EMULATED_PLACE) == mask;
}

template <typename T>
UNSEEN __attribute__((noinline)) static unsigned __match_any_sync(unsigned mask, T value) {
    emulator::gather(mask, EMULATED_PLACE, &value);
    unsigned found = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) found |= (unsigned)(emulator::of_lane<T>(lane) == value) << lane;
    emulator::part(mask);
    return found;
}

// ---- atomics ----

template <typename T, typename Change>
UNSEEN static T emulated_atomic(T *address, Change change) {
    emulator::check(address, sizeof(T), emulator::ATOMIC);
    if ((uintptr_t)address % sizeof(T)) emulator::fail("an atomic operation is misaligned");
    T old = *address;
    *address = change(old);
    return old;
}

#define EMULATED_ATOMIC(name, change)                                                               \
    template <typename T>                                                                           \
    UNSEEN static T name(T *address, T value) {                                                     \
        return emulated_atomic(address, [=](T old) UNSEEN -> T { return change; });                 \
    }
EMULATED_ATOMIC(atomicAdd, old + value)
EMULATED_ATOMIC(atomicMax, old > value ? old : value)
EMULATED_ATOMIC(atomicMin, old < value ? old : value)
EMULATED_ATOMIC(atomicOr, old | value)
EMULATED_ATOMIC(atomicExch, value)

template <typename T>
UNSEEN static T atomicCAS(T *address, T expected, T wanted) {
    return emulated_atomic(address, [=](T old) UNSEEN -> T { return old == expected ? wanted : old; });
}
#define atomicCAS_system atomicCAS

UNSEEN static inline void __threadfence() {}
UNSEEN static inline void __threadfence_system() {}

// ---- numbers ----

#define rsqrtf(x) (1 / sqrtf(x))
#define rsqrt(x) (1 / sqrt(x))
#define __ldg(address) (*(address))

UNSEEN static inline int __popc(unsigned x) { return __builtin_popcount(x); }
UNSEEN static inline int __ffs(int x) { return __builtin_ffs(x); }
UNSEEN static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }

UNSEEN static inline float __uint_as_float(unsigned bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

UNSEEN static inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// ---- tensor cores and asynchronous copies: see headers/device_mma.h ----

template <typename Widen>
UNSEEN __attribute__((noinline)) static void emulated_mma(
    float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Widen widen) {
    struct Given {
        uint32_t a[4], b[2];
    } own = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    emulator::gather(0xffffffffu, EMULATED_PLACE, &own);
    const int lane = emulator::own % 32;
    float totals[4];
    for (int element = 0; element < 4; element++) {
        const int row = lane / 4 + element / 2 * 8, column = lane % 4 * 2 + element % 2;
        float total = sum[element];
        for (int k = 0; k < 16; k++) {
            const Given &left = emulator::of_lane<Given>(row % 8 * 4 + k % 8 / 2);
            const Given &right = emulator::of_lane<Given>(column * 4 + k % 8 / 2);
            const uint32_t x = left.a[row / 8 + k / 8 * 2] >> k % 2 * 16;
            const uint32_t y = right.b[k / 8] >> k % 2 * 16;
            total += widen((uint16_t)x) * widen((uint16_t)y);
        }
        totals[element] = total;
    }
    emulator::part(0xffffffffu);
    for (int element = 0; element < 4; element++) sum[element] = totals[element];
}

// Rounded to ten bits of mantissa, halves away from zero.
UNSEEN static float emulated_tf32(float x) {
    const uint32_t bits = __float_as_uint(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? x : __uint_as_float((bits + 0x1000u) & ~0x1fffu);
}

UNSEEN __attribute__((noinline)) static void emulated_mma_tf32(float (&sum)[4], const float (&a)[4],
                                                               float b0, float b1) {
    struct Given {
        float a[4], b[2];
    } own = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const float all[] = {a[0], a[1], a[2], a[3], b0, b1};
    for (float value : all)
        if (value == value && emulated_tf32(value) != value) emulator::fail("an operand is no tf32");
    emulator::gather(0xffffffffu, EMULATED_PLACE, &own);
    const int lane = emulator::own % 32;
    float totals[4];
    for (int element = 0; element < 4; element++) {
        const int row = lane / 4 + element / 2 * 8, column = lane % 4 * 2 + element % 2;
        totals[element] = sum[element];
        for (int k = 0; k < 8; k++) {
            const Given &left = emulator::of_lane<Given>(row % 8 * 4 + k % 4);
            const Given &right = emulator::of_lane<Given>(column * 4 + k % 4);
            totals[element] += left.a[row / 8 + k / 4 * 2] * right.b[k / 4];
        }
    }
    emulator::part(0xffffffffu);
    for (int element = 0; element < 4; element++) sum[element] = totals[element];
}

UNSEEN static void emulated_matrices(uint32_t (&to)[4], const void *row, bool is_turned, const void *place) {
    if ((uintptr_t)row % 16) emulator::fail("the row of a matrix at %p is misaligned", row);
    emulator::check(row, 16, emulator::READ);
    emulator::gather(0xffffffffu, place, &row);
    const int lane = emulator::own % 32;
    for (int matrix = 0; matrix < 4; matrix++) {
        uint32_t pair[2];
        for (int item = 0; item < 2; item++) {
            const int first = lane / 4, second = lane % 4 * 2 + item;
            const int r = is_turned ? second : first, c = is_turned ? first : second;
            pair[item] = ((const uint16_t *)emulator::of_lane<const void *>(matrix * 8 + r))[c];
        }
        to[matrix] = pair[0] | pair[1] << 16;
    }
    emulator::part(0xffffffffu);
}

UNSEEN __attribute__((noinline)) static void emulated_ldmatrix(uint32_t (&to)[4], const void *row) {
    emulated_matrices(to, row, false, EMULATED_PLACE);
}

UNSEEN __attribute__((noinline)) static void emulated_ldmatrix_turned(uint32_t (&to)[4], const void *row) {
    emulated_matrices(to, row, true, EMULATED_PLACE);
}

// What was copied is there once it was waited for, not earlier.
UNSEEN static void emulated_copy_async(void *to, const void *from) {
    using namespace emulator;
    if ((uintptr_t)to % 16 || (uintptr_t)from % 16) fail("an asynchronous copy is misaligned");
    Copies &copies = pending[own];
    if (copies.count == copies.room) {
        copies.room = copies.room ? 2 * copies.room : 64;
        copies.all = (Copy *)realloc(copies.all, copies.room * sizeof(Copy));
    }
    copies.all[copies.count++] = {to, from, copies.groups};
}

UNSEEN static void emulated_copy_commit() { emulator::pending[emulator::own].groups++; }

template <unsigned LEFT>
UNSEEN static void emulated_copy_wait() {
    using namespace emulator;
    Copies &copies = pending[own];
    unsigned kept = 0;
    for (unsigned k = 0; k < copies.count; k++) {
        Copy &copy = copies.all[k];
        if (copy.group + LEFT >= copies.groups) {
            copies.all[kept++] = copy;
            continue;
        }
        check(copy.from, 16, READ);
        check(copy.to, 16, WRITE);
        memcpy(copy.to, copy.from, 16);
    }
    copies.count = kept;
}

// ---- what the host asks ----

#define EMULATED_EXPORT extern "C" __attribute__((visibility("default"), used)) UNSEEN

EMULATED_EXPORT const char *emulator_message() { return emulator::message; }

// Buffers that the next launches may touch; none: no access to global memory is looked at.
EMULATED_EXPORT void emulator_allow(const void *start, size_t bytes) {
    using namespace emulator;
    regions = (Region *)realloc(regions, (region_count + 1) * sizeof(Region));
    regions[region_count++] = {(char *)start, bytes, bytes_for(bytes), false};
}

// For arrays that are too large for all blocks to run.
EMULATED_EXPORT void emulator_run_last(unsigned blocks) { emulator::last_blocks = blocks; }

EMULATED_EXPORT void emulator_forget() {
    using namespace emulator;
    while (region_count) free(regions[--region_count].seen);
}

#define DJ_EMULATE(entry)                                                                           \
    EMULATED_EXPORT int emulated_##entry(const unsigned *grid, const unsigned *block,               \
                                         size_t dynamic_bytes, void **parameters) {                 \
        return emulator::launch(entry, grid, block, dynamic_bytes, parameters);                     \
    }

// ---- CHECKED: the compiler's calls ----

#define EMULATED_CALL extern "C" __attribute__((visibility("hidden"), used)) UNSEEN
#define EMULATED_ACCESS(size)                                                                       \
    EMULATED_CALL void __tsan_read##size(void *x) { emulator::check(x, size, emulator::READ); }     \
    EMULATED_CALL void __tsan_write##size(void *x) { emulator::check(x, size, emulator::WRITE); }   \
    EMULATED_CALL void __tsan_unaligned_read##size(void *x) {                                       \
        emulator::check(x, size, emulator::READ);                                                   \
    }                                                                                               \
    EMULATED_CALL void __tsan_unaligned_write##size(void *x) {                                      \
        emulator::check(x, size, emulator::WRITE);                                                  \
    }
EMULATED_ACCESS(1)
EMULATED_ACCESS(2)
EMULATED_ACCESS(4)
EMULATED_ACCESS(8)
EMULATED_ACCESS(16)

EMULATED_CALL void __tsan_read_range(void *x, size_t size) { emulator::check(x, size, emulator::READ); }
EMULATED_CALL void __tsan_write_range(void *x, size_t size) { emulator::check(x, size, emulator::WRITE); }
EMULATED_CALL void __tsan_volatile_read8(void *x) { emulator::check(x, 8, emulator::READ); }
EMULATED_CALL void __tsan_volatile_write8(void *x) { emulator::check(x, 8, emulator::WRITE); }
EMULATED_CALL void __tsan_vptr_update(void *, void *) {}
EMULATED_CALL void __tsan_vptr_read(void *) {}
EMULATED_CALL void __tsan_func_entry(void *) {}
EMULATED_CALL void __tsan_func_exit() {}
EMULATED_CALL void __tsan_init() {}

// The head of what GCC and Clang give to these calls.
struct EmulatedSource {
    const char *file;
    uint32_t line, column;
};

EMULATED_CALL void __ubsan_handle_out_of_bounds_abort(EmulatedSource *source, uintptr_t index) {
    emulator::fail("index %ld is out of bounds of an array, line %u", (long)index, source->line);
}

EMULATED_CALL void __ubsan_handle_type_mismatch_v1_abort(EmulatedSource *source, uintptr_t pointer) {
    emulator::fail("the access at %p is misaligned, line %u", (void *)pointer, source->line);
}
