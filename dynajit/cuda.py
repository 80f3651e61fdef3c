"""GPUs by PyTorch's path: `dynajit.cuda.is_available()` and its kin.

Contract: tensors live on the CPU, so the answers are those of a PyTorch without CUDA: there are no
devices, what prepares or tidies up does nothing, and what needs a device raises.
"""

from typing import Any

from dynajit.core.errors import DeviceError


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


__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
]
