"""Profiles by PyTorch's path: context managers that measure the time of the block, and no more.

Contract: programs run inside them unchanged; operations and memory are not recorded, and tables say
so. `cProfile` and `perf` see what this library does.
"""

import contextlib
import enum
import time
from collections.abc import Callable, Iterator
from typing import Any

from dynajit.core.process import late
from dynajit.core.refusals import refused_function

NOT_MEASURED = (
    "dynajit's profiler measures the time of the whole block only: no operations, no memory."
)


class ProfilerActivity(enum.Enum):
    """What to record: names to pass on."""

    CPU = 0
    XPU = 1
    CUDA = 3


class ProfilerAction(enum.Enum):
    """What a schedule says of a step: names to pass on."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class _Averages(list[Any]):
    """No operations: an empty list, whose table says so."""

    def table(self, *args: Any, **kwargs: Any) -> str:
        """What is not measured."""
        return NOT_MEASURED

    @property
    def self_cpu_time_total(self) -> float:
        """Time of the recorded operations, microseconds: 0."""
        return 0.0


EventList = _Averages


class profile:
    """Takes PyTorch's options; knows the time of the block, `elapsed_s`. Mutable."""

    def __init__(self, *args: Any, on_trace_ready: Any = None, **kwargs: Any) -> None:
        self.elapsed_s = 0.0
        self.step_num = 0
        self._on_trace_ready = on_trace_ready
        self._started = 0.0

    def __enter__(self) -> "profile":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin the block."""
        self._started = time.perf_counter()

    def stop(self) -> None:
        """End it, and call `on_trace_ready`."""
        self.elapsed_s += time.perf_counter() - self._started
        if self._on_trace_ready is not None:
            self._on_trace_ready(self)

    def step(self) -> None:
        """The next step begins."""
        self.step_num += 1

    def key_averages(self, *args: Any, **kwargs: Any) -> _Averages:
        """No operations."""
        return _Averages()

    def events(self) -> _Averages:
        """No operations."""
        return _Averages()

    def total_average(self) -> _Averages:
        """No operations."""
        return _Averages()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """What is not measured."""
        return NOT_MEASURED

    export_chrome_trace = refused_function("profiler.profile.export_chrome_trace", NOT_MEASURED)
    export_stacks = refused_function("profiler.profile.export_stacks", NOT_MEASURED)

    def __repr__(self) -> str:
        return f"<profile: {self.elapsed_s:.6f} s; {NOT_MEASURED}>"


def kineto_available() -> bool:
    """Whether operations can be recorded: False."""
    return False


@contextlib.contextmanager
def record_function(name: str, args: str | None = None) -> Iterator[None]:
    """A named part of a profile; it is not recorded. Also a decorator."""
    yield


@contextlib.contextmanager
def emit_nvtx(enabled: bool = True, record_shapes: bool = False) -> Iterator[None]:
    """Marks for NVIDIA's profilers: none are made."""
    yield


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **options: Any
) -> Callable[[int], ProfilerAction]:
    """A schedule of steps; nothing is recorded in any of them."""
    return lambda step: ProfilerAction.NONE


def tensorboard_trace_handler(*args: Any, **kwargs: Any) -> Callable[[Any], None]:
    """A function that would write a trace: it writes nothing."""
    return lambda prof: None


__all__ = [
    "EventList",
    "ProfilerAction",
    "ProfilerActivity",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]

late.show(__name__)
