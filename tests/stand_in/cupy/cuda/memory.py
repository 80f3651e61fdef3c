"""Device memory on the host: allocations, pointers, the pool with its counters.

`MemoryPointer.ptr` is an address that a program on the host may read and write. What the pool gives
out is filled with a pattern, so that a read of memory that nobody wrote is seen.
"""

import ctypes
import threading

import numpy as np

from cupy.cuda import runtime
from cupy.cuda.device import Device
from cupy.stand_in import MACHINE

UNIT = 512
_PATTERN = 0xAB


class OutOfMemoryError(MemoryError):
    """No memory of that size is free."""

    def __init__(self, size, total, limit=0):
        self._size, self._total, self._limit = size, total, limit
        message = f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes"
        super().__init__(message + (f", limit set to: {limit:,} bytes)." if limit else ")."))


_lock = threading.RLock()
_taken = {}


def bytes_taken(device):
    """Bytes that a device's allocations and pools hold."""
    return _taken.get(device, 0)


class _Block:
    """Bytes on the host that begin at a multiple of 512, as those of cudaMalloc."""

    __slots__ = ("buffer", "device_id", "ptr", "size")

    def __init__(self, size, device_id):
        self.size, self.device_id = 0, device_id
        with _lock:
            if bytes_taken(device_id) + size > MACHINE.total_bytes:
                raise OutOfMemoryError(size, bytes_taken(device_id))
            _taken[device_id] = bytes_taken(device_id) + size
        self.size = size
        raw = np.empty(size + UNIT, np.uint8)
        start = -raw.ctypes.data % UNIT
        self.buffer = raw[start : start + size]
        self.ptr = self.buffer.ctypes.data

    def __del__(self):
        if getattr(self, "size", 0) and _lock is not None:  # not at the end of the process
            with _lock:
                _taken[self.device_id] -= self.size


class BaseMemory:
    """Memory of a device: `ptr`, `size`, `device_id`."""

    def __int__(self):
        return self.ptr

    @property
    def device(self):
        return Device(self.device_id)


class Memory(BaseMemory):
    """An allocation without a pool."""

    def __init__(self, size):
        self.device_id = runtime.getDevice()
        self._block = _Block(size, self.device_id)
        self.size, self.ptr = size, self._block.ptr
        self.buffer = self._block.buffer


class UnownedMemory(BaseMemory):
    """Memory of somebody else, kept alive by `owner`."""

    def __init__(self, ptr, size, owner, device_id=-1):
        self.ptr, self.size, self._owner = ptr, size, owner
        self.device_id = runtime.getDevice() if device_id < 0 else device_id
        whole = (ctypes.c_uint8 * size).from_address(ptr) if size else bytearray()
        self.buffer = np.frombuffer(whole, np.uint8)


class PooledMemory(BaseMemory):
    """A block of a pool, which gets it back when the object ends."""

    def __init__(self, block, pool, used):
        self._block, self._pool, self._used = block, pool, used
        self.ptr, self.size, self.device_id = block.ptr, used, block.device_id
        self.buffer = block.buffer

    def free(self):
        if self.ptr:
            self.ptr = 0
            self._pool._take_back(self._block, self._used)

    def __del__(self):
        if getattr(self, "ptr", 0):
            self.free()


class MemoryPointer:
    """A place within an allocation."""

    __slots__ = ("device_id", "mem", "ptr")

    def __init__(self, mem, offset):
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id

    def __int__(self):
        return self.ptr

    def __repr__(self):
        return f"<MemoryPointer {self.ptr:#x} device={self.device_id} mem={self.mem}>"

    @property
    def device(self):
        return Device(self.device_id)

    def __add__(self, offset):
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    __radd__ = __add__

    def __sub__(self, offset):
        return self + -offset

    def copy_from_device(self, src, size):
        ctypes.memmove(self.ptr, src.ptr, size)

    def copy_from_device_async(self, src, size, stream=None):
        self.copy_from_device(src, size)

    def copy_from_host(self, mem, size):
        ctypes.memmove(self.ptr, mem, size)

    def copy_from_host_async(self, mem, size, stream=None):
        self.copy_from_host(mem, size)

    def copy_to_host(self, mem, size):
        ctypes.memmove(mem, self.ptr, size)

    def copy_to_host_async(self, mem, size, stream=None):
        self.copy_to_host(mem, size)

    def memset(self, value, size):
        ctypes.memset(self.ptr, value, size)

    def memset_async(self, value, size, stream=None):
        self.memset(value, size)


class _DevicePool:
    """What one device's part of a pool holds."""

    def __init__(self):
        self.free, self.used, self.total, self.limit = {}, 0, 0, 0


class MemoryPool:
    """Keeps what is freed for the next allocation of that size; each device has its own part."""

    def __init__(self, allocator=None):
        self._parts = {}

    def _part(self, device=None):
        device = runtime.getDevice() if device is None else device
        return self._parts.setdefault(device, _DevicePool())

    def malloc(self, size):
        if not size:
            return MemoryPointer(_nothing(), 0)
        rounded = -(-size // UNIT) * UNIT
        with _lock:
            part = self._part()
            blocks = part.free.get(rounded)
            block = blocks.pop() if blocks else self._new_block(part, rounded)
            part.used += rounded
        block.buffer.fill(_PATTERN)
        return MemoryPointer(PooledMemory(block, self, rounded), 0)

    def _new_block(self, part, size):
        try:
            self._check_limit(part, size)
            block = _Block(size, runtime.getDevice())
        except OutOfMemoryError:
            self.free_all_blocks()
            try:
                self._check_limit(part, size)
                block = _Block(size, runtime.getDevice())
            except OutOfMemoryError:
                raise OutOfMemoryError(size, part.total, part.limit) from None
        part.total += size
        return block

    def _check_limit(self, part, size):
        if part.limit and part.total + size > part.limit:
            raise OutOfMemoryError(size, part.total, part.limit)

    def _take_back(self, block, used):
        with _lock:
            part = self._part(block.device_id)
            part.used -= used
            part.free.setdefault(block.size, []).append(block)

    def free_all_blocks(self, stream=None):
        with _lock:
            part = self._part()
            for size, blocks in part.free.items():
                part.total -= size * len(blocks)
            part.free.clear()

    def n_free_blocks(self):
        return sum(map(len, self._part().free.values()))

    def used_bytes(self):
        return self._part().used

    def free_bytes(self):
        return self._part().total - self._part().used

    def total_bytes(self):
        return self._part().total

    def set_limit(self, size=None, fraction=None):
        if fraction is not None:
            size = int(MACHINE.total_bytes * fraction)
        self._part().limit = size or 0

    def get_limit(self):
        return self._part().limit


def _nothing():
    mem = BaseMemory()
    mem.ptr, mem.size, mem.device_id = 0, 0, runtime.getDevice()
    mem.buffer = np.empty(0, np.uint8)
    return mem


def _malloc(size):
    return MemoryPointer(Memory(size), 0)


_current = [_malloc]


def alloc(size):
    return _current[0](size)


def get_allocator():
    return _current[0]


def set_allocator(allocator=None):
    _current[0] = _malloc if allocator is None else allocator


__all__ = [
    "BaseMemory", "Memory", "MemoryPointer", "MemoryPool", "OutOfMemoryError", "PooledMemory",
    "UnownedMemory", "alloc", "get_allocator", "set_allocator",
]  # fmt: skip
