"""Pinned host memory: ordinary memory that remembers being pinned."""

import numpy as np


class PinnedMemory:
    """Host memory that a device may copy from by itself."""

    def __init__(self, size, flags=0):
        self.size = size
        self._array = np.empty(size, np.uint8)
        self.ptr = self._array.ctypes.data if size else 0
        PINNED[self.ptr] = size

    def __int__(self):
        return self.ptr

    def __del__(self):
        PINNED.pop(getattr(self, "ptr", 0), None)


PINNED = {}


class PinnedMemoryPointer:
    """A place within pinned memory; a buffer of bytes."""

    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset

    def __int__(self):
        return self.ptr

    def size(self):
        return self.mem.size - (self.ptr - self.mem.ptr)

    @property
    def __array_interface__(self):
        return {
            "shape": (self.size(),), "typestr": "|u1", "data": (self.ptr, False), "version": 3,
        }  # fmt: skip


class PinnedMemoryPool:
    """Counts nothing: it only gives memory out."""

    def __init__(self, allocator=None):
        pass

    def malloc(self, size):
        return PinnedMemoryPointer(PinnedMemory(size), 0)

    def free_all_blocks(self):
        pass

    def n_free_blocks(self):
        return 0


def alloc_pinned_memory(size):
    return _pinned[0](size)


def set_pinned_memory_allocator(allocator=None):
    _pinned[0] = allocator or (lambda size: PinnedMemoryPointer(PinnedMemory(size), 0))


_pinned = [None]
set_pinned_memory_allocator()
