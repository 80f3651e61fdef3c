"""The emulator that runs CUDA kernels in tests: what it computes, and which mistakes it finds."""

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.cuda import text as cuda_text
from tests.support.kernels.emulated import KernelError, build, launch, load

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]

KERNELS = {
    "places": """(int *x) {
        const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        const int thread =
            threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        x[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000 * block + thread;
    }""",
    "turns": """(float *x) {
        __shared__ float kept[4][16];
        kept[threadIdx.x / 16][threadIdx.x % 16] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = kept[3 - threadIdx.x / 16][15 - threadIdx.x % 16];
    }""",
    "no_barrier": """(float *x) {
        __shared__ float kept[64];
        kept[threadIdx.x] = x[threadIdx.x];
        x[threadIdx.x] = kept[threadIdx.x ^ 32];
    }""",
    "no_warp_barrier": """(float *x) {
        __shared__ float kept[64];
        kept[threadIdx.x] = x[threadIdx.x];
        x[threadIdx.x] = kept[threadIdx.x ^ 1];
    }""",
    "warp_barrier": """(float *x) {
        __shared__ float kept[64];
        for (int turn = 0; turn < 2; turn++) {
            kept[threadIdx.x] = x[threadIdx.x];
            __syncwarp();
            const float other = kept[threadIdx.x ^ 1] + kept[threadIdx.x ^ 2];
            __syncwarp();
            x[threadIdx.x] = other;
        }
    }""",
    "read_then_write": """(float *x) {
        __shared__ float kept[64];
        kept[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        const float sum = kept[0] + kept[63];
        kept[threadIdx.x] = sum;
        x[threadIdx.x] = sum;
    }""",
    "write_after_read": """(float *x) {
        __shared__ float kept[64];
        kept[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = kept[0];
        if (threadIdx.x == 63) kept[0] = 1;
    }""",
    "beyond": """(float *x) {
        __shared__ float kept[4][16];
        kept[threadIdx.x / 16][threadIdx.x % 16 + 1] = x[threadIdx.x];
    }""",
    "beyond_dynamic": """(float *x) {
        DJ_DYNAMIC(float, kept);
        kept[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = kept[threadIdx.x];
    }""",
    "nothing_written": """(float *x) {
        __shared__ float kept[64];
        if (threadIdx.x < 60) kept[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = kept[threadIdx.x];
    }""",
    "half_a_barrier": """(float *x) {
        if (threadIdx.x < 32) __syncthreads();
    }""",
    "two_barriers": """(float *x) {
        if (threadIdx.x < 32) __syncthreads();
        else __syncthreads();
    }""",
    "missing_lane": """(float *x) {
        if (threadIdx.x % 32 != 5) x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
    }""",
    "lane_outside": """(float *x) {
        if (threadIdx.x % 32 < 8) x[threadIdx.x] = __shfl_sync(0xffu, x[threadIdx.x], 8);
    }""",
    "own_lane_outside": """(float *x) {
        x[threadIdx.x] = __shfl_sync(0xffu, x[threadIdx.x], 0);
    }""",
    "divergent_warp": """(float *x) {
        float value = x[threadIdx.x];
        if (threadIdx.x % 2) value = __shfl_xor_sync(0xaaaaaaaau, value, 2);
        else value = 2 * __shfl_xor_sync(0x55555555u, value, 4);
        x[threadIdx.x] = value;
    }""",
    "misaligned": """(float *x, int64_t shift) {
        float *own = x + 4 * threadIdx.x;
        if (threadIdx.x < 8) dj_store_pack(own, dj_load_pack<4>(own + shift, true), true);
    }""",
    "outside": """(float *x) { if (x[threadIdx.x + 1] == 1000) x[0] = 0; }""",
    "global_race": """(float *x) { x[threadIdx.x / 2] = blockIdx.x; }""",
    "blocks_race": """(float *x) { x[threadIdx.x] = blockIdx.x; }""",
    "atomics": """(float *x) {
        atomicAdd(x, 1.0f);
        atomicMax((int *)x + 1, (int)threadIdx.x);
    }""",
    "warps": """(int *x) {
        const unsigned lane = threadIdx.x % 32, all = 0xffffffffu;
        int found = __shfl_sync(all, (int)threadIdx.x, 3, 8);
        found = 100 * found + __shfl_up_sync(all, (int)lane, 2, 16);
        found = 100 * found + __shfl_down_sync(all, (int)lane, 1);
        found = 100 * found + __popc(__ballot_sync(all, lane < 10));
        found += 1000 * (__any_sync(all, lane == 31) && !__all_sync(all, lane < 31));
        x[threadIdx.x] = found + 10000 * __popc(__match_any_sync(all, (int)lane / 4));
    }""",
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """All kernels."""
    texts = [f'extern "C" __global__ void {name}{text}' for name, text in KERNELS.items()]
    source = "\n".join([cuda_text.prelude(), *texts])
    return load(build(source, list(KERNELS), tmp_path_factory.mktemp("kernels")))


@pytest.fixture
def run(library: ctypes.CDLL) -> Callable[..., np.ndarray]:
    """Run a kernel over one buffer."""

    def call(
        name: str,
        x: Any,
        *numbers: int,
        grid: Any = (1, 1, 1),
        block: Any = (64, 1, 1),
        dynamic: int = 0,
    ) -> np.ndarray:
        result = np.array(x)
        library.emulator_allow(result.ctypes.data, result.nbytes)
        words = [result.ctypes.data, *numbers]
        try:
            launch(library, name, grid, block, [w.to_bytes(8, "little") for w in words], dynamic)
        finally:
            library.emulator_forget()
        return result

    return call


FLOATS = np.arange(64, dtype=np.float32)


def test_grids_and_blocks_have_three_dims(run: Any) -> None:
    found = run("places", np.zeros(720, np.int32), grid=(2, 3, 5), block=(4, 3, 2))

    assert [1000 * (i // 24) + i % 24 for i in range(720)] == found.tolist()


def test_threads_exchange_through_shared_memory(run: Any) -> None:
    np.testing.assert_array_equal(FLOATS[::-1], run("turns", FLOATS))


def test_dynamic_shared_memory_is_what_the_launch_gives(run: Any) -> None:
    np.testing.assert_array_equal(FLOATS, run("beyond_dynamic", FLOATS, dynamic=256))
    with pytest.raises(KernelError, match=r"thread \(63, 0, 0\): writes at 252 of 252 bytes"):
        run("beyond_dynamic", FLOATS, dynamic=252)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("no_barrier", r"thread \(0, 0, 0\): reads byte .* of shared memory, .* nothing wrote"),
        ("no_warp_barrier", "reads byte .* of shared memory, .* nothing wrote"),
        ("read_then_write", r"race: reads byte .* of shared memory, which thread 0 wrote"),
        ("write_after_read", r"race: writes byte .* of shared memory, which another thread reads"),
        ("beyond", r"thread \(15, 0, 0\): index 16 is out of bounds of an array"),
        ("nothing_written", r"thread \(60, 0, 0\): reads byte .* .* nothing wrote"),
        ("half_a_barrier", "a barrier is not met by the whole block"),
        ("two_barriers", "a barrier is met at another place"),
        ("missing_lane", "not all lanes of the mask ffffffff come"),
        ("lane_outside", "takes a value from lane 8, which the mask 000000ff lacks"),
        ("own_lane_outside", "the mask 000000ff lacks the own lane"),
        ("outside", "reads 4 bytes at byte 256 of a buffer of 256 bytes"),
        ("global_race", "race: writes byte 0 of a buffer, which thread 0 wrote"),
    ],
)  # fmt: skip
def test_mistakes_are_found(run: Any, kernel: str, message: str) -> None:
    """Each kernel makes one; the message says which and which thread made it."""
    with pytest.raises(KernelError, match=message):
        run(kernel, FLOATS)


def test_blocks_that_write_to_one_place_race(run: Any) -> None:
    np.testing.assert_array_equal(np.zeros(64), run("blocks_race", FLOATS))
    with pytest.raises(KernelError, match=r"block \(1, 0, 0\), .*race: writes byte 0 of a buffer"):
        run("blocks_race", FLOATS, grid=(2, 1, 1))


def test_warp_barriers_order_the_lanes_of_a_warp(run: Any) -> None:
    found = run("warp_barrier", FLOATS)
    once = FLOATS[np.arange(64) ^ 1] + FLOATS[np.arange(64) ^ 2]

    np.testing.assert_array_equal(once[np.arange(64) ^ 1] + once[np.arange(64) ^ 2], found)


def test_lanes_may_take_branches_with_masks_of_their_own(run: Any) -> None:
    lanes = np.arange(64)
    expected = np.where(lanes % 2, FLOATS[lanes ^ 2], 2 * FLOATS[lanes ^ 4])

    np.testing.assert_array_equal(expected, run("divergent_warp", FLOATS))


def test_packs_must_be_aligned(run: Any) -> None:
    memory = np.zeros(80, np.float32)
    memory = memory[-memory.ctypes.data % 16 // 4 :][:68]
    np.testing.assert_array_equal(memory, run("misaligned", memory, 0))
    with pytest.raises(KernelError, match=r"thread \(0, 0, 0\): the access at .* is misaligned"):
        run("misaligned", memory, 1)


def test_atomic_operations_do_not_race(run: Any) -> None:
    found = run("atomics", np.zeros(2, np.float32), grid=(3, 1, 1))

    assert (192.0, 63) == (found[0], found.view(np.int32)[1])


def test_warp_operations_are_those_of_cuda(run: Any) -> None:
    lane = np.arange(64) % 32
    found = np.arange(64) // 8 * 8 + 3
    found = 100 * found + np.where(lane % 16 < 2, lane, lane - 2)
    found = 100 * found + np.where(lane == 31, 31, lane + 1)
    found = 100 * found + 10 + 1000 + 10000 * 4

    np.testing.assert_array_equal(found, run("warps", np.zeros(64, np.int32)))


@pytest.mark.parametrize(
    ("grid", "block", "dynamic", "message"),
    [
        ((0, 1, 1), (64, 1, 1), 0, "the grid .* has no block"),
        ((1, 65536, 1), (64, 1, 1), 0, "the grid .* is too large"),
        ((1, 1, 1), (1024, 2, 1), 0, "a block cannot have .* threads"),
        ((1, 1, 1), (64, 1, 1), 228 << 10, "dynamic shared memory"),
    ],
)
def test_launches_that_no_gpu_takes_are_refused(
    run: Any, grid: Any, block: Any, dynamic: int, message: str
) -> None:
    with pytest.raises(KernelError, match=message):
        run("places", np.zeros(4, np.int32), grid=grid, block=block, dynamic=dynamic)


def test_without_checks_the_numbers_are_the_same(tmp_path: Path) -> None:
    text = f'extern "C" __global__ void turns{KERNELS["turns"]}'
    library = load(build(cuda_text.prelude() + text, ["turns"], tmp_path, checked=False))
    x = FLOATS.copy()
    launch(library, "turns", (1, 1, 1), (64, 1, 1), [x.ctypes.data.to_bytes(8, "little")])

    np.testing.assert_array_equal(FLOATS[::-1], x)
