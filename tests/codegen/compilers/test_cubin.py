"""What kernels take is read from cubins."""

import pytest

from dynajit.codegen.compilers import cubin, nvrtc
from dynajit.codegen.compilers.cubin import Resources
from dynajit.core.errors import InternalError

needs_nvrtc = pytest.mark.skipif(
    nvrtc.find() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)

SOURCE = """
extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }
extern "C" __global__ void turns(float *x) {
    __shared__ float kept[100];
    kept[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = kept[99 - threadIdx.x];
}
extern "C" __global__ void places(int *x) {
    int own[1000];
    for (int i = 0; i < 1000; i++) own[x[i]] = x[i];
    x[threadIdx.x] = own[x[threadIdx.x]];
}
extern "C" __global__ void mixes(float *x) {
    float own[40];
    for (int i = 0; i < 40; i++) own[i] = x[i * 32 + threadIdx.x];
    for (int k = 0; k < 40; k++)
        for (int i = 0; i < 40; i++) own[i] = own[i] * own[(7 * i + 3) % 40] + 1;
    for (int i = 0; i < 40; i++) x[i * 32 + threadIdx.x] = own[i];
}
"""


@needs_nvrtc
def test_every_kernel_is_found_with_what_it_takes() -> None:
    found = cubin.read(nvrtc.compile_source(SOURCE, "sm_80"))

    assert {"twice", "turns", "places", "mixes"} == set(found)
    assert Resources(found["twice"].registers, 0, 0) == found["twice"]
    assert 1 <= found["twice"].registers <= 16
    assert 400 == found["turns"].shared_bytes
    assert 4000 == found["places"].local_bytes
    assert 0 == found["mixes"].local_bytes
    assert found["mixes"].registers > 40


@needs_nvrtc
def test_registers_that_spill_are_local_memory() -> None:
    found = cubin.read(nvrtc.compile_source(SOURCE, "sm_80", ["--maxrregcount=24"]))

    assert found["mixes"].registers <= 24
    assert found["mixes"].local_bytes >= 4 * (40 - 24)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
def test_newer_architectures_are_read(architecture: str) -> None:
    """From sm_90 on, blocks have a reserved kibibyte of shared memory."""
    found = cubin.read(nvrtc.compile_source(SOURCE, architecture))

    assert found["turns"].shared_bytes in (400, 1424)
    assert 4000 == found["places"].local_bytes


def test_other_bytes_are_refused() -> None:
    with pytest.raises(InternalError, match="no ELF file"):
        cubin.read(b"PTX")
