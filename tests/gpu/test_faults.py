"""Kernels of somebody else that end CUDA for the process: dynajit says so, whoever is asked next.

The stand-in plays the fault; on a GPU one would end the process of all other tests.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dynajit as dj
from dynajit.codegen.device import driver as device_driver
from dynajit.core.arrays.gpu import faults as gpu_faults
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import DeviceError, InternalError, OutOfMemoryError, ToolchainError

ILLEGAL_ADDRESS = 700
MESSAGE = (
    r"cudaErrorIllegalAddress.*launched earlier, here or by another library, read or wrote memory "
    r"that is not its own.*start a new process.*cupy\.RawKernel"
)


@pytest.fixture
def fault(is_stand_in: bool) -> Iterator[Callable[[int], None]]:
    """A function by which a kernel of the program's own fails with an error of CUDA."""
    if not is_stand_in:
        pytest.skip("a fault ends CUDA for the whole process")
    yield gpu.module().stand_in.fault
    gpu.module().stand_in.fault(0)


CALLS: dict[str, Callable[[Any], Any]] = {
    "a row": lambda x: x + 1,
    "a row with an array function": lambda x: dj.nn.functional.softmax(x, dim=0),
    "a product": lambda x: x @ x,
    "a copy to the CPU": lambda x: x.cpu(),
    "a copy to the GPU": lambda x: dj.ones(3).cuda(),
    "a number": lambda x: x.sum().item(),
    "text": repr,
    "a condition": lambda x: bool(x[0] > 0),
    "waiting for the device": lambda x: dj.cuda.synchronize(),
    "waiting for a stream": lambda x: dj.cuda.current_stream().synchronize(),
    "waiting for an event": lambda x: dj.cuda.current_stream().record_event().synchronize(),
    "a derivative": lambda x: (x.requires_grad_() * 2).sum().backward(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_fault_is_told_as_that_of_an_earlier_kernel(
    fault: Callable[[int], None], name: str
) -> None:
    """Every time again, since CUDA does not recover."""
    x = dj.arange(4.0, device="cuda")
    fault(ILLEGAL_ADDRESS)
    for _ in range(2):
        with pytest.raises(DeviceError, match=MESSAGE) as caught:
            CALLS[name](x)
        assert isinstance(caught.value.__cause__, gpu.module().cuda.runtime.CUDARuntimeError)


def test_tensors_of_the_cpu_outlive_a_fault(fault: Callable[[int], None]) -> None:
    x = dj.arange(4.0)
    fault(ILLEGAL_ADDRESS)

    assert 6 == x.sum().item()


def test_other_errors_of_cupy_stay_what_they_are(fault: Callable[[int], None]) -> None:
    """Only faults are known to be somebody else's."""
    fault(999)
    with pytest.raises(gpu.module().cuda.runtime.CUDARuntimeError):
        dj.cuda.synchronize()


@pytest.mark.parametrize("code", gpu_faults.FAULTS)
def test_the_driver_tells_of_faults_in_the_same_words(code: int) -> None:
    with pytest.raises(DeviceError, match=gpu_faults.FAULTS[code]):
        device_driver.fail("cuLaunchKernel", code, "CUDA_ERROR", "")


@pytest.mark.parametrize(
    ("call", "code", "name", "error", "text"),
    [
        ("cuModuleLoadData", 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", ToolchainError,
         "The driver may be older than NVRTC: update it"),
        ("cuModuleLoadData", 209, "CUDA_ERROR_NO_BINARY_FOR_GPU", ToolchainError, "nvidia-smi"),
        ("cuMemAlloc", 2, "CUDA_ERROR_OUT_OF_MEMORY", OutOfMemoryError, "what cuMemAlloc needs"),
        ("dlopen(libcublasLt)", 0, "", DeviceError, "pip install nvidia-cublas"),
        ("cublasLtMatmul", 13, "an error of cuBLASLt", InternalError, "code 13"),
    ],
)  # fmt: skip
def test_other_errors_of_the_driver_say_what_to_do(
    call: str, code: int, name: str, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        device_driver.fail(call, code, name, "")
