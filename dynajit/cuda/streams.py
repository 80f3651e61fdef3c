"""Queues of work of a GPU (streams) and moments in them (events).

Contract: as `torch.cuda`; published by `dynajit.cuda`. They are CuPy's: what runs under
`stream(...)`, eager or compiled, and the program's own CuPy calls go to the same queue. Making one
raises `NoGpuError` where there is no GPU. Work of one stream runs in order; other streams wait
where `wait_stream` or an event says so.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.gpu.faults import in_words
from dynajit.core.errors import InvalidValueError, UnsupportedError
from dynajit.core.types.device import Device
from dynajit.cuda.devices import number_of


class Event:
    """A moment in a stream, which `record` sets. Mutable: recorded anew.

    Args:
        enable_timing: whether `elapsed_time` can be asked.
        blocking: `synchronize` sleeps instead of asking again and again.
        interprocess: not offered.
        device: the GPU, which may stand first, as for `Event` of PyTorch's whole library; `record`
            says in whose stream the moment is.

    Raises:
        NoGpuError: no GPU can be used, or the device is none.
        UnsupportedError: `interprocess=True`.
    """

    def __init__(
        self,
        enable_timing: Any = False,
        blocking: bool = False,
        interprocess: bool = False,
        device: Any = None,
    ) -> None:
        if not isinstance(enable_timing, int):
            enable_timing, device = False, enable_timing
        gpu.require("cuda.Event")
        number_of(device, "Event")
        if interprocess:
            raise UnsupportedError(
                "cuda.Event(interprocess=True): events are not shared between processes.  Leave it "
                "out."
            )
        self._is_timed = enable_timing
        self._is_blocking = blocking
        self._event: Any = None
        self._device: Device | None = None

    @property
    def device(self) -> Device | None:
        """The GPU in whose stream it was recorded; None before."""
        return self._device

    @property
    def cuda_event(self) -> int:
        """The address of CUDA's event; 0 before it was recorded."""
        return 0 if self._event is None else int(self._event.ptr)

    def record(self, stream: "Stream | None" = None) -> None:
        """The moment is now: when the stream (the current one) has done what it was given so far.

        Raises:
            InvalidValueError: it was recorded in a stream of another GPU before.
        """
        queue = current_stream() if stream is None else stream
        if self._event is None:
            with gpu.on(queue.device_index):
                self._event = gpu.module().cuda.Event(
                    block=self._is_blocking, disable_timing=not self._is_timed
                )
            self._device = queue.device
        elif self._device is not queue.device:
            raise InvalidValueError(
                f"Event.record: the event was recorded on {self._device}, the stream is on "
                f"{queue.device}.  Make an event for each GPU."
            )
        with gpu.on(queue.device_index):
            self._event.record(queue.of_cupy)

    def wait(self, stream: "Stream | None" = None) -> None:
        """Let a stream (the current one) wait until the moment is reached."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Whether the moment is reached; True before it was recorded."""
        return self._event is None or bool(self._event.done)

    def synchronize(self) -> None:
        """Wait until the moment is reached."""
        if self._event is not None:
            with in_words:
                self._event.synchronize()

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds from this moment to a later one, which both are reached.

        Raises:
            InvalidValueError: one of them was not recorded, or not made with `enable_timing`.
        """
        if not (self._is_timed and end_event._is_timed):
            raise InvalidValueError(
                "Both events must be created with argument 'enable_timing=True'."
            )
        if self._event is None or end_event._event is None:
            raise InvalidValueError("Both events must be recorded before calculating elapsed time.")
        return float(gpu.module().cuda.get_elapsed_time(self._event, end_event._event))

    def __repr__(self) -> str:
        moment = "uninitialized" if self._event is None else f"{self.cuda_event:#x}"
        return f"<dynajit.cuda.Event {moment}>"


class Stream:
    """A queue of work of a GPU, beside its default one.

    Args:
        device: whose; None is the current GPU.
        priority: negative numbers go first.

    Raises:
        NoGpuError: no GPU can be used.
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        gpu.require("cuda.Stream")
        number = number_of(device, "Stream")
        with gpu.on(number):
            made = gpu.module().cuda.Stream(non_blocking=True, priority=priority)
        self._take(number, made)

    def _take(self, number: int, of_cupy: Any) -> None:
        self.device_index = number
        self.of_cupy = of_cupy

    @property
    def device(self) -> Device:
        """The GPU whose queue it is."""
        return Device("cuda", self.device_index)

    @property
    def cuda_stream(self) -> int:
        """The address of CUDA's stream; 0 for the default one."""
        return int(self.of_cupy.ptr)

    @property
    def priority(self) -> int:
        """Negative numbers go first."""
        return int(self.of_cupy.priority)

    def __cuda_stream__(self) -> tuple[int, int]:
        """(version of the protocol, address): how other libraries take it."""
        return 0, self.cuda_stream

    def query(self) -> bool:
        """Whether all that it was given is done."""
        with gpu.on(self.device_index):
            return bool(self.of_cupy.done)

    def synchronize(self) -> None:
        """Wait until all that it was given is done."""
        with in_words, gpu.on(self.device_index):
            self.of_cupy.synchronize()

    def record_event(self, event: Event | None = None) -> Event:
        """An event (a new one) at the end of what the stream was given so far."""
        made = Event() if event is None else event
        made.record(self)
        return made

    def wait_event(self, event: Event) -> None:
        """What comes next waits until an event's moment is reached."""
        if event._event is not None:
            with gpu.on(self.device_index):
                self.of_cupy.wait_event(event._event)

    def wait_stream(self, stream: "Stream") -> None:
        """What comes next waits for all that another stream was given so far."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> "Stream":
        self._entered = [*getattr(self, "_entered", ()), stream(self)]
        self._entered[-1].__enter__()
        return self

    def __exit__(self, *reason: Any) -> None:
        self._entered.pop().__exit__(*reason)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        mine, theirs = ((s.device_index, s.cuda_stream) for s in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self.device_index, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<dynajit.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library made.

    Args:
        stream_ptr: its address.
        device: whose it is; None is the current GPU.

    Raises:
        NoGpuError: no GPU can be used.
    """

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        number = number_of(device, "ExternalStream")
        self._take(number, gpu.external_stream(stream_ptr, number))


def _of(number: int, of_cupy: Any) -> Stream:
    made = Stream.__new__(Stream)
    made._take(number, of_cupy)
    return made


def current_stream(device: Any = None) -> Stream:
    """The thread's current stream of a GPU.

    Raises:
        NoGpuError: no GPU can be used.
    """
    number = number_of(device, "current_stream")
    return _of(number, gpu.current_stream(number))


def default_stream(device: Any = None) -> Stream:
    """The stream that a GPU has by itself.

    Raises:
        NoGpuError: no GPU can be used.
    """
    return _of(number_of(device, "default_stream"), gpu.module().cuda.Stream.null)


def set_stream(stream: Stream | None) -> None:
    """Make a stream the thread's current one of its GPU, and that GPU the current one; None does
    nothing."""
    if stream is not None:
        gpu.set_current_device(stream.device_index)
        stream.of_cupy.use()


@contextlib.contextmanager
def _used(stream: Stream) -> Iterator[None]:
    with gpu.on(stream.device_index), stream.of_cupy:
        yield


class StreamContext:
    """`with cuda.stream(...)`: a stream is the thread's current one for the block, and its GPU,
    too; None does nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._entered: list[Any] = []

    def __enter__(self) -> None:
        made = contextlib.nullcontext() if self.stream is None else _used(self.stream)
        made.__enter__()
        self._entered.append(made)

    def __exit__(self, *reason: Any) -> None:
        self._entered.pop().__exit__(*reason)


def stream(stream: Stream | None) -> StreamContext:
    """`StreamContext(stream)`.

    Raises:
        NoGpuError: no GPU can be used.
    """
    gpu.require("cuda.stream")
    return StreamContext(stream)


def is_current_stream_capturing() -> bool:
    """Whether the current stream's work is recorded as a CUDA graph."""
    return gpu.is_loaded() and bool(gpu.current_stream().is_capturing())


__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "is_current_stream_capturing",
    "set_stream",
    "stream",
]
