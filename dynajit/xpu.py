"""Intel's GPUs by PyTorch's path: tensors do not live there."""

from dynajit.core.process import late
from dynajit.core.refusals import refused_class, refused_function

_WHY = "dynajit does not run on Intel's GPUs.  Ask xpu.is_available() first."


def is_available() -> bool:
    """Whether tensors can live on Intel's GPUs: False."""
    return False


def is_initialized() -> bool:
    """Whether one was used: False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether one computes in bfloat16: False."""
    return False


def device_count() -> int:
    """Number of such GPUs: 0."""
    return 0


def empty_cache() -> None:
    """Give memory back: there is none."""


def manual_seed(seed: int) -> None:
    """Seed the GPU's generator: there is none."""


def manual_seed_all(seed: int) -> None:
    """Seed all of them: there is none."""


Event = refused_class("xpu.Event", _WHY)
Stream = refused_class("xpu.Stream", _WHY)
current_device = refused_function("xpu.current_device", _WHY)
current_stream = refused_function("xpu.current_stream", _WHY)
get_device_capability = refused_function("xpu.get_device_capability", _WHY)
get_device_name = refused_function("xpu.get_device_name", _WHY)
get_device_properties = refused_function("xpu.get_device_properties", _WHY)
get_rng_state = refused_function("xpu.get_rng_state", _WHY)
max_memory_allocated = refused_function("xpu.max_memory_allocated", _WHY)
memory_allocated = refused_function("xpu.memory_allocated", _WHY)
set_device = refused_function("xpu.set_device", _WHY)
set_rng_state = refused_function("xpu.set_rng_state", _WHY)
synchronize = refused_function("xpu.synchronize", _WHY)

__all__ = [
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "set_device",
    "set_rng_state",
    "synchronize",
]

late.show(__name__)
