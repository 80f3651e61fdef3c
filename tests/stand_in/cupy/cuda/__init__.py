"""`cupy.cuda` of the stand-in: devices, memory, streams."""

from cupy.cuda import device, memory, nvtx, runtime, stream
from cupy.cuda.device import Device, get_device_id
from cupy.cuda.memory import (
    Memory,
    MemoryPointer,
    MemoryPool,
    UnownedMemory,
    alloc,
    get_allocator,
    set_allocator,
)
from cupy.cuda.pinned_memory import (
    PinnedMemory,
    PinnedMemoryPointer,
    PinnedMemoryPool,
    alloc_pinned_memory,
    set_pinned_memory_allocator,
)
from cupy.cuda.stream import (
    Event,
    ExternalStream,
    Stream,
    get_current_stream,
    get_elapsed_time,
)
from cupy.stand_in import MACHINE as _MACHINE


def is_available():
    return _MACHINE.devices > 0


def get_local_runtime_version():
    return _MACHINE.runtime_version


__all__ = [
    "Device", "Event", "ExternalStream", "Memory", "MemoryPointer", "MemoryPool",
    "PinnedMemory", "PinnedMemoryPointer", "PinnedMemoryPool", "Stream", "UnownedMemory", "alloc",
    "alloc_pinned_memory", "device", "get_allocator", "get_current_stream",
    "get_device_id", "get_elapsed_time", "get_local_runtime_version", "is_available", "memory",
    "nvtx", "runtime", "set_allocator", "set_pinned_memory_allocator", "stream",
]  # fmt: skip
