"""The CUDA driver of this process: finding it, what it says of GPUs, and its errors in words.

Contract: nothing is loaded before somebody asks. `driver()` is the library of `Config.cuda_driver`;
products come from the cuBLASLt that CuPy has loaded, or one that lies in NVIDIA's wheels. Every
error of the driver becomes an exception of dynajit's that says what it means and what to do.
"""

import ctypes
import ctypes.util
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

from dynajit.codegen import _device
from dynajit.core.arrays.gpu import faults as gpu_faults
from dynajit.core.errors import DeviceError, InternalError, OutOfMemoryError, ToolchainError
from dynajit.core.process import config

MSG_MISSING: Final = (
    "compiled functions on a GPU need the CUDA driver, and {path} cannot be loaded ({reason}).  "
    "Install NVIDIA's driver (in a container: start it with --gpus all), or name its library in "
    "DYNAJIT_CUDA_DRIVER."
)
MSG_FORKED: Final = (
    "compiled functions cannot use the GPU in this process: it is a fork of one that used it, and "
    "CUDA does not survive a fork.  Start workers with "
    'multiprocessing.get_context("spawn"), or use the GPU in the parent only.'
)
MSG_MEMORY: Final = (
    "the GPU has no memory for what {call} needs (code {code}).  Free tensors or call "
    "cuda.empty_cache(); CuPy's pool keeps what was freed."
)
MSG_IMAGE: Final = (
    "the CUDA driver does not take the kernels that NVRTC compiled: {name} ({call}, code {code}).  "
    "The driver may be older than NVRTC: update it, or install the NVRTC of its version "
    "(nvidia-smi shows it)."
)
MSG_CAPTURE: Final = (
    "the GPU reports {name} ({call}, code {code}): a stream is being captured as a CUDA graph, "
    "here or by another thread, and this call cannot run meanwhile.  Capture on a stream made with "
    "non_blocking=True, call the function once before, or use compile(mode='reduce-overhead')."
)
MSG_PRODUCTS: Final = (
    "matrix products on a GPU need cuBLASLt, and no libcublasLt is found.  It comes with the CUDA "
    "toolkit and with NVIDIA's wheels: pip install nvidia-cublas (for CUDA 12: "
    "nvidia-cublas-cu12)."
)

_MAJOR: Final = 75
_MINOR: Final = 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""

_SONAMES: Final = ("libcublasLt.so.13", "libcublasLt.so.12")
_WHEEL_FOLDERS: Final = ("nvidia.cu13", "nvidia.cublas")


def driver() -> _device.Driver:
    """The loaded driver.

    Raises:
        DeviceError: there is none, or it does not work.
    """
    return _driver(config.current().cuda_driver)


@functools.lru_cache(maxsize=4)
def _driver(path: str) -> _device.Driver:
    try:
        return _device.Driver(path, products_library(), fail)
    except OSError as error:
        raise DeviceError(MSG_MISSING.format(path=path, reason=error)) from error


def capability(device: int) -> tuple[int, int]:
    """Compute capability of a GPU: (9, 0) for Hopper."""
    found = driver()
    return found.attribute(_MAJOR, device), found.attribute(_MINOR, device)


def fail(call: str, code: int, name: str, text: str) -> NoReturn:
    """Raise what a failed call means. Called from C.

    Args:
        call: the function of the driver's, or of cuBLASLt's.
        code: what it returned.
        name: of the error.
        text: the library's own words.
    """
    if call.startswith("dlopen"):
        raise DeviceError(MSG_PRODUCTS)
    fault = gpu_faults.message(code, name, call)
    if fault is not None:
        raise DeviceError(fault)
    if call in ("cuModuleLoadData", "cuModuleGetFunction"):
        raise ToolchainError(MSG_IMAGE.format(name=name, call=call, code=code))
    if "CAPTURE" in name:
        raise DeviceError(MSG_CAPTURE.format(name=name, call=call, code=code))
    if name == "CUDA_ERROR_OUT_OF_MEMORY":
        raise OutOfMemoryError(MSG_MEMORY.format(call=call, code=code))
    said = f": {text}" if text else ""
    raise InternalError(f"{call} failed with {name} (code {code}){said}")


# ---------------------------------------------------------------------------------------------
# cuBLASLt


config.on_default(lambda default: _device.set_tf32(default.allow_tf32))


def products_library() -> str | None:
    """Path or name of cuBLASLt: the one that is loaded in this process wins; None without."""
    return next(_products_candidates(), None)


def _products_candidates() -> Iterator[str]:
    yield from _loaded("libcublasLt.so")
    for module in _WHEEL_FOLDERS:
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            continue
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield from sorted(map(str, Path(folder).glob("lib/libcublasLt.so.*")), reverse=True)
    for name in _SONAMES:
        if _can_load(name):
            yield name
    system = ctypes.util.find_library("cublasLt")
    if system:
        yield system


def _loaded(name: str) -> Iterator[str]:
    """Files of this process's memory map whose name begins so."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    paths = dict.fromkeys(line.partition("/")[2] for line in lines if name in line)
    yield from (f"/{path}" for path in paths if Path(path).name.startswith(name))


def _can_load(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
