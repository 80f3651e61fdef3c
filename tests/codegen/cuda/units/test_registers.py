"""Kernels whose values do not fit into the registers that their bound leaves."""

import pytest

from dynajit.codegen.compilers import cubin, nvrtc
from dynajit.codegen.compilers.cubin import Resources
from dynajit.codegen.cuda.units import registers as cuda_registers

needs_nvrtc = pytest.mark.skipif(
    nvrtc.find() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)


def kernel(name: str, values: int, threads: int, blocks: int) -> str:
    """Reads so many values, and adds them up from the last to the first behind a barrier."""
    reads = "".join(f"    const float x{i} = from[{i} * 4096 + place];\n" for i in range(values))
    adds = "".join(f"    sum = sum * 1.5f + x{i};\n" for i in reversed(range(values)))
    return (
        f'extern "C" __global__ void __launch_bounds__({threads}, {blocks}) {name}('
        "volatile const float *from, float *to) {\n"
        "    const int place = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"{reads}    __syncthreads();\n    float sum = 0;\n{adds}    to[place] = sum;\n}}\n"
    )


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_a_kernel_that_spills_is_compiled_with_more_registers(architecture: str) -> None:
    source = kernel("large", 100, 256, 4) + kernel("small", 4, 256, 4)
    before = cubin.read(nvrtc.compile_source(source, architecture))
    after = cubin.read(cuda_registers.compile_source(source, architecture))

    assert before["large"].local_bytes > 0
    assert 0 == after["large"].local_bytes
    assert after["large"].registers > before["large"].registers
    assert before["small"] == after["small"]


@needs_nvrtc
def test_one_block_of_an_sm_is_the_end() -> None:
    source = kernel("large", 100, 1024, 1)
    found = cubin.read(cuda_registers.compile_source(source, "sm_90"))

    assert found["large"].local_bytes > 0


@pytest.mark.parametrize(
    "registers, local, threads, blocks, is_short",
    [
        (64, 8, 256, 4, True),
        (63, 8, 256, 4, True),
        (56, 8, 256, 4, False),
        (64, 0, 256, 4, False),
        (44, 32, 256, 4, False),  # arrays, or calls
        (255, 16, 128, 1, True),
        (80, 16, 256, 3, True),
    ],
)
def test_a_kernel_is_short_of_registers_if_it_has_all_and_uses_memory(
    registers: int, local: int, threads: int, blocks: int, is_short: bool
) -> None:
    taken = Resources(registers, local, 0)

    assert is_short == cuda_registers.is_short(taken, threads, blocks)


def test_only_kernels_that_are_short_get_room() -> None:
    source = kernel("one", 1, 256, 4) + kernel("two", 1, 128, 8) + kernel("three", 1, 1024, 1)
    short, wide = Resources(64, 8, 0), Resources(20, 0, 0)

    changed = cuda_registers.with_room(source, {"one": short, "two": wide, "three": short})
    assert source.replace("(256, 4) one", "(256, 2) one") == changed
    assert source == cuda_registers.with_room(source, {})


def test_text_for_other_gpus_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "compile_source", lambda source, architecture: b"no cubin")

    assert b"no cubin" == cuda_registers.compile_source("", "compute_90")
    assert b"no cubin" == cuda_registers.compile_source("", "sm_90")
