"""`profile` and `record_function`: what begins and ends a recording.

Contract: while at least one `profile` records, events are rows of eager tensors in all threads,
native calls of compiled functions with their kernels, nodes of backward, compilations and named
blocks (`dynajit.core.process._recorder`). Profiles may lie in each other, and each has what began
in its own block. Nothing is asked of programs while none records.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from dynajit.capture.control import is_compiling
from dynajit.core.errors import ArgumentError
from dynajit.core.process import _recorder
from dynajit.core.process.recording import Kind
from dynajit.core.refusals import refused_function
from dynajit.ops.evaluate import QUIET
from dynajit.ops.table import dispatch
from dynajit.profiler import traces
from dynajit.profiler.events import EventList, FunctionEventAvg, events_between
from dynajit.profiler.schedules import ProfilerAction, always

_NO_TIMELINE: Final = (
    "memory is counted per operation: profile(profile_memory=True), then key_averages().table()."
)

#: How many profiles record, under its lock: rows pass through the recorder while there is one.
_recording = [0]
_lock = threading.Lock()


def _counted() -> tuple[tuple[Callable[..., Any], Any], ...]:
    """Have arrays counted that this thread makes, and rows of all threads, which run in a context
    of their own; the allocators before, and how to put them back."""
    places: tuple[Callable[..., Any], ...] = (_here, QUIET.run)
    return tuple((place, place(_recorder.count_memory)) for place in places)


def _here(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


class _Recording:
    """A block that is recorded, from now until `stop`. Mutable.

    Args:
        has_shapes, has_stacks, has_memory: what to record besides times.
    """

    def __init__(self, has_shapes: bool, has_stacks: bool, has_memory: bool) -> None:
        self._options = has_shapes, has_stacks
        self._thread = threading.get_ident()
        self._allocators = _counted() if has_memory else ()
        self._has_memory = has_memory
        with _lock:
            _recording[0] += 1
            if _recording[0] == 1:
                dispatch.record_rows(True)
        self._start = _recorder.start(*self._options)

    def stop(self) -> EventList:
        """End it.

        Returns:
            What was recorded.
        """
        stop = _recorder.stop(*self._options)
        has_shapes, has_stacks = self._options
        for context, allocator in self._allocators:
            context(_recorder.restore_memory, allocator)
        with _lock:
            _recording[0] -= 1
            events = events_between(self._start, stop)
            if not _recording[0]:
                dispatch.record_rows(False)
                _recorder.clear()
        recorded = sum(
            event.cpu_time_total
            for event in events
            if event.thread == self._thread and event.cpu_parent is None
        )
        self.elapsed_us = (stop - self._start) / 1e3
        return EventList(
            events,
            between_us=max(self.elapsed_us - recorded, 0.0),
            has_memory=self._has_memory,
            has_shapes=has_shapes,
            has_stacks=has_stacks,
        )


class profile:
    """Records what runs in a block; `key_averages().table()` shows it. Mutable.

    Args:
        activities: which of `ProfilerActivity`; what runs on a GPU is seen as the host's launches.
        schedule: which steps are recorded, told by `step()`; None: everything.
        on_trace_ready: called with this object when a round of the schedule, or the block, is over.
        record_shapes: note the sizes of operands, for `key_averages(group_by_input_shape=True)`.
        profile_memory: count the bytes of arrays that the thread makes and drops.
        with_stack: note the program's lines, for `group_by_stack_n` and `export_stacks`.
        enabled: False: record nothing.
        options: others of PyTorch's, without an effect.
    """

    def __init__(
        self,
        enabled: Any = True,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[["profile"], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        **options: Any,
    ) -> None:
        self.enabled = enabled is not False
        self.elapsed_s = 0.0
        self.step_num = 0
        self.on_trace_ready = on_trace_ready
        self._schedule = schedule or always
        self._has_steps = schedule is not None
        self._record = functools.partial(_Recording, record_shapes, with_stack, profile_memory)
        self._recording: _Recording | None = None
        self._action = ProfilerAction.NONE
        self._step = -1
        self._events = EventList()
        self._metadata: dict[str, Any] = {}

    def __enter__(self) -> "profile":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin the block."""
        if self.enabled:
            self._go_on(self._schedule(self.step_num))

    def stop(self) -> None:
        """End it, and call `on_trace_ready` if something was recorded."""
        self._end_step()
        if self._recording is not None:
            self._save()
        self._action = ProfilerAction.NONE

    def step(self) -> None:
        """The next step begins."""
        self.step_num += 1
        if self.enabled:
            self._end_step()
            if self._action is ProfilerAction.RECORD_AND_SAVE:
                self._save()
            self._go_on(self._schedule(self.step_num))

    def _go_on(self, action: ProfilerAction) -> None:
        """Record the step that begins, or do not."""
        if action.records and self._recording is None:
            self._recording = self._record()
        if not action.records and self._recording is not None:
            self._save()
        self._action = action
        if action.records and self._has_steps:
            self._step = _recorder.begin(Kind.NAMED, f"ProfilerStep#{self.step_num}")

    def _end_step(self) -> None:
        _recorder.end(self._step)
        self._step = -1

    def _save(self) -> None:
        recording, self._recording = self._recording, None
        if recording is None:
            return
        self._events = recording.stop()
        self.elapsed_s += recording.elapsed_us / 1e6
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    @property
    def profiler(self) -> "profile":
        """This object: where PyTorch has its inner profiler."""
        return self

    def events(self) -> EventList:
        """What was recorded last, one event per call."""
        return self._events

    @property
    def function_events(self) -> EventList:
        """`events()`."""
        return self._events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """What events of one name share; see `EventList.key_averages`."""
        return self._events.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """All events in one."""
        return self._events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all self times, the Python time between included."""
        return self._events.self_cpu_time_total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **widths: Any) -> str:
        """`events().table(...)`."""
        return self._events.table(sort_by, row_limit, **widths)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write what was recorded last for `chrome://tracing` or Perfetto; `.gz` compresses it.

        Raises:
            OSError: the file cannot be written.
        """
        traces.write_chrome_trace(path, self._events, self._metadata)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write stacks and their self times, for flame graphs; needs `with_stack=True`.

        Raises:
            ArgumentError: no stacks were recorded, or `metric` is no self time.
            OSError: the file cannot be written.
        """
        traces.write_stacks(path, self._events, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """A text to be kept in the trace."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """The same, for a text that is JSON already; it is kept as a text."""
        self._metadata[key] = str(value)

    export_memory_timeline = refused_function(
        "profiler.profile.export_memory_timeline", _NO_TIMELINE
    )

    def __repr__(self) -> str:
        if self._recording is not None:
            return "<profile: recording>"
        return f"<profile: {self.elapsed_s:.6f} s, {len(self._events)} events>"


def kernel_times(recorded: profile) -> dict[str, float]:
    """Microseconds that each kernel ran in a block, by `program/kernel`."""
    found: dict[str, float] = {}
    for event in recorded.events():
        if event.kind is Kind.KERNEL:
            found[event.name] = found.get(event.name, 0.0) + event.cpu_time_total
    return found


class record_function(contextlib.ContextDecorator):
    """A block, or a function, under a name of the program's. Mutable.

    Compiled functions run without it: what is within one is seen as kernels.

    Args:
        name: of the event.
        args: accepted for PyTorch's programs, without an effect.

    Raises:
        ArgumentError: `name` is no text.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise ArgumentError(f"record_function({name!r}): expected a text.")
        self.name = name
        self.args = args
        self._places: list[int] = []

    def _recreate_cm(self) -> "record_function":
        return record_function(self.name, self.args)  # calls of a function may overlap in threads

    def __enter__(self) -> "record_function":
        if not is_compiling():
            self._places.append(_recorder.begin(Kind.NAMED, self.name))
        return self

    def __exit__(self, *exception: object) -> None:
        if not is_compiling() and self._places:
            _recorder.end(self._places.pop())
