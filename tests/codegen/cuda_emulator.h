// CUDA blocks on one CPU thread, for tests of generated kernels.
//
// Every CUDA thread of a block is a fiber. Fibers run in order to their next shuffle or barrier;
// then the next round starts. Lanes that shuffle together must be at the same shuffle in the same
// round, and no thread may end while others wait at a barrier: anything else aborts.
// Not emulated: races between threads that a barrier would have to order, memory alignment,
// the rounding of CUDA's own functions (the C library's are used).
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <vector>

struct Dimension {
    unsigned x;
};
static Dimension threadIdx, blockIdx, gridDim;

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __shared__ static
#define __launch_bounds__(threads)
#define rsqrtf(x) (1 / sqrtf(x))
#define rsqrt(x) (1 / sqrt(x))

namespace emulator {

enum Event { RUNNING, SHUFFLE, BARRIER, DONE };

constexpr size_t STACK_BYTES = 1 << 16;

struct Fiber {
    ucontext_t context;
    jmp_buf place;
    bool is_started = false;
    Event event = RUNNING;
    unsigned long shuffles = 0;
    char slot[8];
};

static std::vector<Fiber> fibers;
static std::vector<char> stacks;
static jmp_buf scheduler;
static std::function<void()> kernel;

static void fail(const char *reason) {
    fprintf(stderr, "block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, reason);
    abort();
}

static void wait(Event event) {
    Fiber &own = fibers[threadIdx.x];
    own.event = event;
    if (_setjmp(own.place) == 0) _longjmp(scheduler, 1);
}

static void enter() {
    kernel();
    fibers[threadIdx.x].event = DONE;
    _longjmp(scheduler, 1);
}

static void resume(unsigned thread) {
    Fiber &fiber = fibers[thread];
    threadIdx.x = thread;
    if (_setjmp(scheduler) != 0) return;
    if (fiber.is_started) _longjmp(fiber.place, 1);
    fiber.is_started = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks.data() + thread * STACK_BYTES;
    fiber.context.uc_stack.ss_size = STACK_BYTES;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enter, 0);
    setcontext(&fiber.context);
}

static void run_block(unsigned threads) {
    fibers.assign(threads, Fiber());
    stacks.resize(threads * STACK_BYTES);
    unsigned done = 0, waiting = 0;
    while (done < threads) {
        if (waiting && waiting + done == threads) {
            if (done) fail("a barrier is not met by the whole block");
            waiting = 0;
            for (Fiber &fiber : fibers) fiber.event = RUNNING;
        }
        done = waiting = 0;
        for (volatile unsigned thread = 0; thread < threads; thread++) {
            if (fibers[thread].event != DONE && fibers[thread].event != BARRIER) resume(thread);
            done += fibers[thread].event == DONE;
            waiting += fibers[thread].event == BARRIER;
        }
    }
}

static void launch(unsigned grid, unsigned threads, std::function<void()> body) {
    kernel = body;
    gridDim.x = grid;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++) run_block(threads);
}

}  // namespace emulator

static inline void __syncthreads() { emulator::wait(emulator::BARRIER); }

template <typename T>
static T __shfl_xor_sync(unsigned mask, T value, int offset) {
    using namespace emulator;
    unsigned own = threadIdx.x, partner = own ^ offset;
    if (!(mask >> (own & 31) & 1) || !(mask >> (partner & 31) & 1)) fail("lane not in the mask");
    memcpy(fibers[own].slot, &value, sizeof value);
    fibers[own].shuffles++;
    wait(SHUFFLE);
    if (fibers[own].shuffles != fibers[partner].shuffles) fail("lanes are at different shuffles");
    memcpy(&value, fibers[partner].slot, sizeof value);
    wait(SHUFFLE);
    return value;
}

static inline unsigned long long atomicCAS(
    unsigned long long *address, unsigned long long expected, unsigned long long wanted) {
    unsigned long long old = *address;
    if (old == expected) *address = wanted;
    return old;
}
