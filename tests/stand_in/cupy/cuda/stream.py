"""Streams and events. Work is done when its call returns, so all of it is done at any time; the
order in which streams, events and copies are used is what tests can see."""

import itertools
import threading
import time

from cupy.cuda import runtime

_numbers = itertools.count(0x1000)


class Event:
    """A moment on a stream."""

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.ptr = next(_numbers)
        self._timed = not disable_timing
        self._at = None

    @property
    def done(self):
        return True

    def record(self, stream=None):
        self._at = time.perf_counter()

    def synchronize(self):
        runtime._answer()


def get_elapsed_time(start_event, end_event):
    """Milliseconds between two events."""
    if start_event._at is None or end_event._at is None:
        raise runtime.CUDARuntimeError(400)
    return (end_event._at - start_event._at) * 1e3


class Stream:
    """A queue of work of one device."""

    null = None
    ptds = None

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.ptr = 0 if null else runtime.streamPerThread if ptds else next(_numbers)
        self.device_id = -1 if null or ptds else runtime.getDevice()
        self.is_non_blocking = non_blocking
        self.priority = priority or 0

    @classmethod
    def from_external(cls, obj):
        """The stream of an object with `__cuda_stream__`."""
        return _External(obj.__cuda_stream__()[1])

    def __eq__(self, other):
        return isinstance(other, Stream) and self.ptr == other.ptr

    def __hash__(self):
        return self.ptr

    def __repr__(self):
        return f"<{type(self).__name__} {self.ptr} (device {self.device_id})>"

    def __enter__(self):
        device = self._own_device()
        _position.devices.append(device)
        _position.stack(device).append(self)
        return self

    def __exit__(self, *exception):
        _position.stack(_position.devices.pop()).pop()

    def _own_device(self):
        current = runtime.getDevice()
        if self.device_id not in (-1, current):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id}) does not match with "
                f"the current device ({current})"
            )
        return current

    def __cuda_stream__(self):
        return (0, self.ptr)

    def use(self):
        _position.stack(self._own_device())[-1] = self
        return self

    @property
    def done(self):
        return True

    def synchronize(self):
        runtime._answer()

    def record(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event):
        pass

    def launch_host_func(self, callback, arg):
        callback(arg)

    def is_capturing(self):
        return False


class _External(Stream):
    def __init__(self, ptr, device_id=-1):
        self.ptr, self.device_id = ptr, device_id
        self.is_non_blocking, self.priority = False, 0


class ExternalStream(_External):
    """The stream with a given address."""


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)


class _Streams(threading.local):
    def __init__(self):
        self.stacks, self.devices = {}, []

    def stack(self, device):
        return self.stacks.setdefault(device, [Stream.null])


_position = _Streams()


def get_current_stream(device_id=-1):
    device = runtime.getDevice() if device_id == -1 else device_id
    return _position.stack(device)[-1]
