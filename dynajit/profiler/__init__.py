"""A profiler that measures, by PyTorch's names: time and memory of operations, kernels and blocks.

Contract: `with profile() as prof` records what runs in the block, in all threads; the self times of
what it recorded and the Python time between add up to the time of the block. `prof.key_averages()`
sums by name, `.table()` prints, `export_chrome_trace` writes. Compiled functions appear as their
native calls and kernels. What costs in programs that are not profiled: nothing in eager operations,
two comparisons per native call and one per kernel. See docs/profiling.md.
"""

import contextlib
import enum
from collections.abc import Iterator

from dynajit.core.process import late
from dynajit.profiler.events import EventList, FunctionEvent, FunctionEventAvg
from dynajit.profiler.schedules import ProfilerAction, schedule
from dynajit.profiler.session import profile, record_function
from dynajit.profiler.traces import tensorboard_trace_handler


class ProfilerActivity(enum.Enum):
    """What to record: names to pass on. Work on a GPU is seen as the host's launches."""

    CPU = 0
    XPU = 1
    CUDA = 3


def supported_activities() -> set[ProfilerActivity]:
    """What is recorded: work of the CPU."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether operations can be recorded: True, though it is not Kineto that does it."""
    return True


@contextlib.contextmanager
def emit_nvtx(enabled: bool = True, record_shapes: bool = False) -> Iterator[None]:
    """Marks for NVIDIA's profilers: none are made."""
    yield


__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "ProfilerAction",
    "ProfilerActivity",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

late.show(__name__)
