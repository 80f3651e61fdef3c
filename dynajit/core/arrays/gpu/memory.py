"""Memory of GPUs: how much is taken, its peaks, errors where none is left, a record of who took it.

Contract: `Watch` stands between CuPy and the pool that it takes memory from, once a GPU is in use,
and counts what goes through; other programs' use of CuPy in the process counts, too. An allocation
that fails raises `OutOfMemoryError` with the sizes, after CuPy has given back what its pool kept
and tried again; nothing is half done then, and the error is CuPy's own as well. Numbers are bytes,
devices are numbers from 0.
"""

import contextlib
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, Final

from dynajit.core.errors import OutOfMemoryError, UnsupportedError
from dynajit.core.records import record

MSG_OUT_OF_MEMORY: Final = (
    "CUDA out of memory. Tried to allocate {size}. GPU {device} has a total capacity of {total} of "
    "which {free} is free. {used} is in use by arrays of this process, {kept} is kept for "
    "reuse.{limit}  Use smaller batches, delete tensors that are no longer needed, run inference "
    "under no_grad(), or compute again what backward needs (utils.checkpoint)."
)
_INSIDE: Final = ("dynajit.", "cupy", "numpy")


def readable(size: int) -> str:
    """A number of bytes as people say it: 20.00 GiB."""
    value, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size} bytes" if unit == "bytes" else f"{value:.2f} {unit}"


@dataclass(slots=True)
class _Counts:
    """What happened on one device. Mutable: see `Watch`.

    Args:
        bound: what arrays take is at most this: what they took when it was looked at last, and all
            that was allocated since.
        peak: most bytes that arrays took.
        peak_reserved: most bytes that the pool held.
        allocated: bytes of all allocations so far.
        allocations: how many there were.
        failures: how many allocations found no memory.
    """

    bound: int = 0
    peak: int = 0
    peak_reserved: int = 0
    allocated: int = 0
    allocations: int = 0
    failures: int = 0


@record
class Event:
    """An entry of the record.

    Args:
        action: "alloc" or "free".
        address, size: of the memory.
        device, stream: where it was taken.
        seconds: when, by `time.perf_counter`.
        frames: calls that led to it, the innermost first: (file, line, function).
    """

    action: str
    address: int
    size: int
    device: int
    stream: int
    seconds: float
    frames: tuple[tuple[str, int, str], ...]


class _End:
    """Lives as long as an allocation, whose end it records."""

    __slots__ = ("_event", "_record")

    def __init__(self, record: deque[Event], event: Event) -> None:
        self._record, self._event = record, event

    def __del__(self) -> None:
        e = self._event
        now = time.perf_counter()
        self._record.append(Event("free", e.address, e.size, e.device, e.stream, now, ()))


class Watch:
    """Counts and records what is taken from CuPy's pool. Mutable; safe between threads.

    Args:
        cupy: the module; its allocator is replaced by one that calls the former one.
    """

    def __init__(self, cupy: ModuleType) -> None:
        self._cupy = cupy
        self._below = cupy.cuda.get_allocator()
        pool: Any = getattr(self._below, "__self__", None)
        if isinstance(pool, Watch):  # the GPU was looked for again
            self._below, pool = pool._below, pool.pool
        self.pool: Any = pool if hasattr(pool, "used_bytes") else cupy.get_default_memory_pool()
        self._counts: dict[int, _Counts] = {}
        self._lock = threading.RLock()  # a collection of garbage within may allocate
        self._record: deque[Event] | None = None
        self._error: type[Exception] = _error_class(cupy.cuda.memory.OutOfMemoryError)
        # Within CuPy's `using_allocator` of this thread the program has chosen, and keeps it.
        with contextlib.suppress(ValueError):
            cupy.cuda.set_allocator(self.malloc)

    def malloc(self, size: int) -> Any:
        """CuPy's allocator: memory on the current device.

        Raises:
            OutOfMemoryError: there is none of that size.
        """
        try:
            pointer = self._below(size)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise self._out_of_memory(size) from error
        taken = int(pointer.mem.size)
        pool, counts = self.pool, self._of(int(pointer.device_id))
        with self._lock:
            counts.allocations += 1
            counts.allocated += taken
            counts.bound += taken
            if counts.bound > counts.peak:
                counts.bound = int(pool.used_bytes())
                counts.peak = max(counts.peak, counts.bound)
            counts.peak_reserved = max(counts.peak_reserved, int(pool.total_bytes()))
        if self._record is not None and taken:
            self._note(pointer, taken)
        return pointer

    def _of(self, device: int) -> _Counts:
        found = self._counts.get(device)
        return self._counts.setdefault(device, _Counts()) if found is None else found

    def _out_of_memory(self, size: int) -> Exception:
        device = int(self._cupy.cuda.runtime.getDevice())
        self._of(device).failures += 1
        free, total = self._cupy.cuda.runtime.memGetInfo()
        used, limit = int(self.pool.used_bytes()), int(self.pool.get_limit())
        return self._error(
            MSG_OUT_OF_MEMORY.format(
                size=readable(size), device=device, total=readable(total), free=readable(free),
                used=readable(used), kept=readable(int(self.pool.total_bytes()) - used),
                limit=f" The pool may hold {readable(limit)}." if limit else "",
            )
        )  # fmt: skip

    # -- numbers, of the current device ------------------------------------------------------------

    def used(self) -> int:
        """Bytes that arrays take."""
        return int(self.pool.used_bytes())

    def reserved(self) -> int:
        """Bytes that the pool holds, for arrays and for reuse."""
        return int(self.pool.total_bytes())

    def free_unused(self) -> None:
        """Give what is kept for reuse back to the driver."""
        self.pool.free_all_blocks()

    def limit(self, fraction: float) -> None:
        """Let the pool hold that part of the device's memory at most."""
        self.pool.set_limit(fraction=fraction)

    def statistics(self, device: int) -> dict[str, int]:
        """All numbers of the current device, by PyTorch's names of them."""
        counts, used = self._of(device), self.used()
        return {
            "allocated_bytes.all.current": used,
            "allocated_bytes.all.peak": max(counts.peak, used),
            "allocated_bytes.all.allocated": counts.allocated,
            "allocated_bytes.all.freed": max(counts.allocated - used, 0),
            "allocation.all.allocated": counts.allocations,
            "reserved_bytes.all.current": self.reserved(),
            "reserved_bytes.all.peak": max(counts.peak_reserved, self.reserved()),
            "num_ooms": counts.failures,
        }

    def forget_peaks(self, device: int) -> None:
        """The peaks of the current device are what is taken now."""
        counts = self._of(device)
        with self._lock:
            counts.peak = counts.bound = self.used()
            counts.peak_reserved = self.reserved()

    def forget_sums(self, device: int) -> None:
        """What was allocated so far counts as nothing but what is taken now."""
        counts = self._of(device)
        with self._lock:
            counts.allocated, counts.allocations, counts.failures = self.used(), 0, 0

    # -- the record ----------------------------------------------------------------------------

    def record(self, max_entries: int | None) -> None:
        """Record what is taken and given back from now on, the last `max_entries`."""
        self._record = deque(maxlen=max_entries)

    def stop_recording(self) -> None:
        """Record nothing, and forget the record."""
        self._record = None

    @property
    def events(self) -> list[Event]:
        """The record so far."""
        return list(self._record or ())

    def _note(self, pointer: Any, size: int) -> None:
        record = self._record
        if record is None:
            return
        stream = int(self._cupy.cuda.get_current_stream().ptr)
        address, device, now = int(pointer.ptr), int(pointer.device_id), time.perf_counter()
        event = Event("alloc", address, size, device, stream, now, _callers())
        try:
            pointer.mem.dynajit_end = _End(record, event)
        except AttributeError:
            self._record = None
            raise UnsupportedError(
                f"a record of memory: memory of CuPy {self._cupy.__version__} does not say when it "
                "is given back.  Use a newer CuPy, and its own memory pool."
            ) from None
        record.append(event)


def _error_class(theirs: Any) -> Any:
    """Ours, which is CuPy's, too: programs catch either."""

    def __init__(self: Any, message: str) -> None:
        RuntimeError.__init__(self, message)

    members = {
        "__init__": __init__, "__doc__": OutOfMemoryError.__doc__, "__module__": __name__,
    }  # fmt: skip
    return type("OutOfMemoryError", (OutOfMemoryError, theirs), members)


def _callers() -> tuple[tuple[str, int, str], ...]:
    """The calls of the program that led here, without those inside the libraries."""
    frame: FrameType | None = sys._getframe(1)
    found: list[tuple[str, int, str]] = []
    while frame is not None and len(found) < 16:
        if not str(frame.f_globals.get("__name__", "")).startswith(_INSIDE):
            code = frame.f_code
            found.append((code.co_filename, frame.f_lineno, code.co_qualname))
        frame = frame.f_back
    return tuple(found)
