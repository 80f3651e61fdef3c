"""GPUs by PyTorch's path: `dynajit.cuda.is_available()` and its kin.

Contract: tensors live on the CPU, so the answers are those of a PyTorch without CUDA: there are no
devices, what prepares or tidies up does nothing, and what needs a device raises.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from dynajit.core.errors import DeviceError
from dynajit.core.refusals import refused_class, refused_function
from dynajit.cuda import amp

_initialized = False
_NO_GPU = "dynajit's tensors live on the CPU; there is no GPU.  Ask cuda.is_available() first."


def is_available() -> bool:
    """Whether tensors can live on a GPU: False."""
    return False


def device_count() -> int:
    """Number of GPUs that tensors can live on: 0."""
    return 0


def is_initialized() -> bool:
    """Whether a GPU is in use: False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether GPUs compute with bfloat16: False."""
    return False


def manual_seed(seed: int) -> None:
    """Seed the current GPU's generator: there is none."""


def manual_seed_all(seed: int) -> None:
    """Seed the generator of every GPU: there is none."""


def empty_cache() -> None:
    """Give back cached GPU memory: there is none."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Forget the largest use of GPU memory: there was none."""


def memory_allocated(device: Any = None) -> int:
    """GPU memory in use, bytes: 0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """Largest GPU memory in use, bytes: 0."""
    return 0


def _missing(function: str) -> DeviceError:
    return DeviceError(
        f"cuda.{function}: dynajit's tensors live on the CPU; there is no GPU.  Ask "
        "cuda.is_available() first."
    )


def synchronize(device: Any = None) -> None:
    """Wait for a GPU.

    Raises:
        DeviceError: there is none.
    """
    raise _missing("synchronize")


def set_device(device: Any) -> None:
    """Choose the current GPU.

    Raises:
        DeviceError: there is none.
    """
    raise _missing("set_device")


def current_device() -> int:
    """The number of the current GPU.

    Raises:
        DeviceError: there is none.
    """
    raise _missing("current_device")


def get_device_name(device: Any = None) -> str:
    """The name of a GPU.

    Raises:
        DeviceError: there is none.
    """
    raise _missing("get_device_name")


def get_device_properties(device: Any = None) -> Any:
    """What a GPU has.

    Raises:
        DeviceError: there is none.
    """
    raise _missing("get_device_properties")


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU.

    Raises:
        DeviceError: there is none.
    """
    raise _missing("get_device_capability")


def memory_reserved(device: Any = None) -> int:
    """GPU memory taken from the driver, bytes: 0."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """Largest GPU memory taken from the driver, bytes: 0."""
    return 0


def reset_max_memory_allocated(device: Any = None) -> None:
    """Forget the largest use of GPU memory: there was none."""


def get_rng_state_all() -> list[Any]:
    """The generators' states, one per GPU: none."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Restore what `get_rng_state_all` gave.

    Raises:
        DeviceError: there are states in it.
    """
    if len(list(new_states)) > 0:
        raise _missing("set_rng_state_all")


def get_arch_list() -> list[str]:
    """Kinds of GPU that kernels are ready for: none."""
    return []


def is_current_stream_capturing() -> bool:
    """Whether a CUDA graph is recorded: False."""
    return False


@contextlib.contextmanager
def device(device: Any) -> Iterator[None]:
    """Make a GPU the current one for the block.

    Raises:
        DeviceError: one is named; None and negative numbers do nothing.
    """
    if device is not None and not (isinstance(device, int) and device < 0):
        raise _missing("device")
    yield


class OutOfMemoryError(RuntimeError):
    """GPU memory is used up: programs catch it; it is never raised."""


BFloat16Tensor = refused_class("cuda.BFloat16Tensor", _NO_GPU)
BoolTensor = refused_class("cuda.BoolTensor", _NO_GPU)
ByteTensor = refused_class("cuda.ByteTensor", _NO_GPU)
CharTensor = refused_class("cuda.CharTensor", _NO_GPU)
CUDAGraph = refused_class("cuda.CUDAGraph", _NO_GPU)
DoubleTensor = refused_class("cuda.DoubleTensor", _NO_GPU)
Event = refused_class("cuda.Event", _NO_GPU)
FloatTensor = refused_class("cuda.FloatTensor", _NO_GPU)
HalfTensor = refused_class("cuda.HalfTensor", _NO_GPU)
IntTensor = refused_class("cuda.IntTensor", _NO_GPU)
LongTensor = refused_class("cuda.LongTensor", _NO_GPU)
ShortTensor = refused_class("cuda.ShortTensor", _NO_GPU)
Stream = refused_class("cuda.Stream", _NO_GPU)
current_stream = refused_function("cuda.current_stream", _NO_GPU)
default_stream = refused_function("cuda.default_stream", _NO_GPU)
get_rng_state = refused_function("cuda.get_rng_state", _NO_GPU)
init = refused_function("cuda.init", _NO_GPU)
mem_get_info = refused_function("cuda.mem_get_info", _NO_GPU)
memory_stats = refused_function("cuda.memory_stats", _NO_GPU)
memory_summary = refused_function("cuda.memory_summary", _NO_GPU)
set_rng_state = refused_function("cuda.set_rng_state", _NO_GPU)
stream = refused_function("cuda.stream", _NO_GPU)

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CUDAGraph",
    "CharTensor",
    "DoubleTensor",
    "Event",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "OutOfMemoryError",
    "ShortTensor",
    "Stream",
    "amp",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
]
