"""What kernels take of a GPU, by NVRTC: registers, memory of each thread, shared memory.

Contract: `compile_all` compiles kernels in one call of NVRTC and reads what each takes;
`assert_no_spills` refuses what keeps values in memory, unless `LOCAL_BYTES` has a reason for it;
`record` writes all of it to a file. Used by tests that compile; no GPU is needed.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dynajit.codegen.compilers import cubin, nvrtc
from dynajit.codegen.compilers.cubin import Resources
from dynajit.codegen.cuda import text as cuda_text
from dynajit.codegen.cuda.units import registers as cuda_registers
from dynajit.codegen.cuda.units.steps import CudaKernel

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")

LOCAL_BYTES = {
    # CUDA's reduction of large angles keeps the words of a product in an array.
    r"\b(sin|cos|tan)f?\(": 40,
    # With angles of float32 and of float64 there are two such arrays.
    r"(?s)(?=.*\b(sin|cos|tan)f\()(?=.*\b(sin|cos|tan)\()": 72,
    # In float64, calls of CUDA's own square root and remainder.
    r"\basin\(|\bdj_remainder_f64\(": 8,
    # Threads of blocks of 1024 have 64 registers at most: an SM has 65536.
    r"__launch_bounds__\(1024, 1\)": 48,
    # Four searches: where divergent threads meet again.
    r"_searchsorted": 16,
}
"""Texts whose kernels use local memory, and up to how much. Registers of others may not spill."""

needs_nvrtc = pytest.mark.skipif(
    nvrtc.find() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)


def compile_all(kernels: Sequence[CudaKernel], architecture: str) -> dict[str, Resources]:
    """One call of NVRTC: what every kernel takes, by its entry."""
    source = cuda_text.print_unit("tests", kernels)
    found = cubin.read(cuda_registers.compile_source(source, architecture))
    assert {kernel.entry for kernel in kernels} == set(found)
    return found


def assert_no_spills(kernels: Sequence[CudaKernel], found: Mapping[str, Resources]) -> None:
    """Every kernel keeps its values in registers but for those that are listed."""
    spilled = []
    for kernel in kernels:
        taken = found[kernel.entry]
        listed = [size for text, size in LOCAL_BYTES.items() if re.search(text, kernel.source)]
        if taken.local_bytes > max(listed, default=0):
            spilled.append(f"{kernel.entry}: {taken}\n{kernel.source}")
    assert not spilled, "\n\n".join(spilled)


def record(
    path: Path, architecture: str, kernels: Sequence[CudaKernel], found: Mapping[str, Resources]
) -> None:
    """Append a line for each kernel."""
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if is_new:
            file.write("architecture\tkernel\tthreads\tregisters\tlocal bytes\tshared bytes\n")
        for kernel in kernels:
            taken, threads = found[kernel.entry], kernel.block[0] * kernel.block[1]
            file.write(
                f"{architecture}\t{kernel.entry}\t{threads}\t{taken.registers}\t"
                f"{taken.local_bytes}\t{taken.shared_bytes}\n"
            )
