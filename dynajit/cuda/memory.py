"""Memory of GPUs by PyTorch's names: numbers, peaks, what is kept for reuse, a record over time.

Contract: as `torch.cuda.memory`; published by `dynajit.cuda` too. Numbers are bytes of CuPy's pool,
so those of the program's own CuPy arrays count; without a GPU they are 0. The record of
`_record_memory_history` can be drawn: `save_timeline`.
"""

import collections
import pickle
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, Final

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.gpu.memory import Event, readable
from dynajit.core.errors import InvalidValueError, OutOfMemoryError
from dynajit.core.process import late
from dynajit.cuda.devices import get_device_name, number_of
from dynajit.report import memory_timeline

_OF_ALL: Final = ("allocated_bytes", "reserved_bytes")


def memory_stats(device: Any = None) -> collections.OrderedDict[str, int]:
    """All numbers of a GPU: bytes that arrays take ("allocated_bytes.all.current"), their peak, all
    that was ever allocated and freed; bytes of the pool ("reserved_bytes.all...."); how many
    allocations there were, and how many failed ("num_ooms"). Empty without a GPU.
    """
    if not gpu.is_available():
        return collections.OrderedDict()
    number = number_of(device, "memory_stats")
    with gpu.on(number):
        return collections.OrderedDict(sorted(gpu.memory().statistics(number).items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """`memory_stats` with a dict per part of the names."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        place = nested
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


def memory_allocated(device: Any = None) -> int:
    """Bytes that arrays take on a GPU."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """Most bytes that arrays took on a GPU since the start, or `reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    """Bytes that were taken from the driver on a GPU, for arrays and for reuse."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    """Most bytes that were taken from the driver on a GPU."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Any = None) -> None:
    """The peaks of a GPU begin again with what is taken now."""
    if gpu.is_available():
        number = number_of(device, "reset_peak_memory_stats")
        with gpu.on(number):
            gpu.memory().forget_peaks(number)


def reset_max_memory_allocated(device: Any = None) -> None:
    """`reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """What a GPU has ever allocated begins again with what is taken now."""
    if gpu.is_available():
        number = number_of(device, "reset_accumulated_memory_stats")
        with gpu.on(number):
            gpu.memory().forget_sums(number)


def empty_cache() -> None:
    """Give memory that is kept for reuse back to the driver, on all GPUs."""
    if gpu.is_loaded():
        for number in range(gpu.device_count()):
            with gpu.on(number):
                gpu.memory().free_unused()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a GPU, by the driver.

    Raises:
        NoGpuError: no GPU can be used.
    """
    number = number_of(device, "mem_get_info")
    with gpu.on(number):
        free, total = gpu.module().cuda.runtime.memGetInfo()
    return int(free), int(total)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let the process take that part of a GPU's memory at most.

    Raises:
        NoGpuError: no GPU can be used.
        InvalidValueError: the fraction is outside 0 to 1.
    """
    number = number_of(device, "set_per_process_memory_fraction")
    if not 0 <= fraction <= 1:
        raise InvalidValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    with gpu.on(number):
        gpu.memory().limit(fraction)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of the numbers of a GPU, for people.

    Raises:
        NoGpuError: no GPU can be used.
    """
    number = number_of(device, "memory_summary")
    facts = memory_stats(number)
    free, total = mem_get_info(number)
    lines = [f"cuda:{number}, {get_device_name(number)}", f"{'':24}{'now':>14}{'peak':>14}"]
    for name, title in zip(_OF_ALL, ("arrays", "pool"), strict=True):
        now, peak = (readable(facts[f"{name}.all.{kind}"]) for kind in ("current", "peak"))
        lines.append(f"{title:24}{now:>14}{peak:>14}")
    if not abbreviated:
        lines += [
            f"{'allocated so far':24}{readable(facts['allocated_bytes.all.allocated']):>14}",
            f"{'allocations so far':24}{facts['allocation.all.allocated']:>14}",
            f"{'out of memory':24}{facts['num_ooms']:>14}",
        ]
    lines.append(f"{'free on the device':24}{readable(free):>14} of {readable(total)}")
    return "\n".join(lines)


# -- the record ----------------------------------------------------------------------------------


def _record_memory_history(
    enabled: str | bool | None = "all", *ignored: Any, max_entries: int | None = None, **others: Any
) -> None:
    """Record every allocation from now on, with the calls that led to it; None or False ends it.

    Args:
        max_entries: how many of the last events are kept; None: all.

    Raises:
        NoGpuError: no GPU can be used.
    """
    gpu.require("cuda.memory._record_memory_history")
    if enabled in (None, False):
        gpu.memory().stop_recording()
    else:
        gpu.memory().record(max_entries)


def _events(device: Any) -> list[Event]:
    events: Iterable[Event] = gpu.memory().events
    if device is None:
        return list(events)
    number = number_of(device, "memory._snapshot")
    return [event for event in events if event.device == number]


def _snapshot(device: Any = None) -> dict[str, Any]:
    """The record in the form of PyTorch's: {"segments": [], "device_traces": events per GPU}.

    Raises:
        NoGpuError: no GPU can be used.
    """
    gpu.require("cuda.memory._snapshot")
    traces: list[list[dict[str, Any]]] = [[] for _ in range(gpu.device_count())]
    names = {"alloc": "alloc", "free": "free_completed"}
    for event in _events(device):
        frames = [{"filename": f, "line": line, "name": name} for f, line, name in event.frames]
        traces[event.device].append({
            "action": names[event.action], "addr": event.address, "size": event.size,
            "stream": event.stream, "time_us": int(event.seconds * 1e6), "frames": frames,
        })  # fmt: skip
    return {"segments": [], "device_traces": traces}


def _dump_snapshot(filename: str | PathLike[str] = "dump_snapshot.pickle") -> None:
    """Write the record: as a picture to .html or .png (`save_timeline`), else pickled, for
    PyTorch's viewer.

    Raises:
        NoGpuError: no GPU can be used.
    """
    path = Path(filename)
    if path.suffix in (".html", ".png"):
        save_timeline(path)
    else:
        path.write_bytes(pickle.dumps(_snapshot(), protocol=4))


def save_timeline(filename: str | PathLike[str], device: Any = None) -> None:
    """Draw what the record says was taken over time: an area per allocation, the largest ones
    named by the line that made them.

    Args:
        filename: ends in .html (complete in itself), or .png (by matplotlib).
        device: the GPU; None is the current one.

    Raises:
        NoGpuError: no GPU can be used.
        InvalidValueError: nothing was recorded, or the name ends in something else.
        UnsupportedError: a .png without matplotlib.
    """
    number = number_of(device, "memory.save_timeline")
    memory_timeline.save(Path(filename), _events(number), f"cuda:{number}")


__all__ = [
    "OutOfMemoryError",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "save_timeline",
    "set_per_process_memory_fraction",
]

late.show(__name__)
