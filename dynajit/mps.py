"""Apple's GPUs by PyTorch's path: tensors do not live there."""

from dynajit.core.process import late
from dynajit.core.refusals import refused_function

_WHY = "dynajit's tensors live on the CPU.  Ask backends.mps.is_available() first."


def is_available() -> bool:
    """Whether tensors can live on Apple's GPUs: False."""
    return False


def device_count() -> int:
    """Number of such GPUs: 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed the GPU's generator: there is none."""


current_allocated_memory = refused_function("mps.current_allocated_memory", _WHY)
driver_allocated_memory = refused_function("mps.driver_allocated_memory", _WHY)
empty_cache = refused_function("mps.empty_cache", _WHY)
get_rng_state = refused_function("mps.get_rng_state", _WHY)
set_rng_state = refused_function("mps.set_rng_state", _WHY)
synchronize = refused_function("mps.synchronize", _WHY)

__all__ = [
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "get_rng_state",
    "is_available",
    "manual_seed",
    "set_rng_state",
    "synchronize",
]

late.show(__name__)
