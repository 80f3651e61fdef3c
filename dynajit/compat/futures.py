"""Values that will be there later, by PyTorch's path: `Future` without other processes.

Contract: a future is completed once, by `set_result` or `set_exception`, from any thread; `wait`
gives its value or raises its error, and callbacks run when it is completed, in the order in which
they were added (at once, when it is already).
"""

import threading
from collections.abc import Callable
from typing import Any

from dynajit.core.errors import DynajitError


class FutureError(DynajitError, RuntimeError):
    """A future was used in a way that it does not allow."""


class Future:
    """A value that will be there later. Mutable: completed once.

    Args:
        devices: (by name) where its tensors may lie; changes nothing.
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._completed = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def done(self) -> bool:
        """Whether it is completed, with a value or an error."""
        return self._completed.is_set()

    def wait(self) -> Any:
        """The value, waited for.

        Raises:
            The error with which the future was completed.
        """
        self._completed.wait()
        return self.value()

    def value(self) -> Any:
        """The value of a completed future; None before.

        Raises:
            The error with which the future was completed.
        """
        if self._error is not None:
            raise self._error
        return self._value

    def set_result(self, result: Any) -> None:
        """Complete it with a value.

        Raises:
            FutureError, a RuntimeError: it is completed.
        """
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Complete it with an error, which `wait` raises."""
        assert isinstance(result, Exception), (
            f"{result} is of type {type(result)}, not an Exception."
        )
        self._complete(None, result)

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise FutureError(
                    "Future: it is completed already, which happens only once.  Make a new one."
                )
            self._value, self._error = value, error
            self._completed.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[["Future"], Any]) -> None:
        """Call it with this future once that is completed."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[["Future"], Any]) -> "Future":
        """A future of what `callback` gives for this one; of what it raises, if it does."""
        following = Future()

        def complete(completed: Future) -> None:
            try:
                result = callback(completed)
            except Exception as error:
                following.set_exception(error)
                return
            following.set_result(result)

        self.add_done_callback(complete)
        return following

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


def collect_all(futures: list[Future]) -> Future:
    """A future of the list of the futures, completed when the last of them is."""
    collected = Future()
    left = len(futures)
    lock = threading.Lock()
    if not futures:
        collected.set_result([])

    def completed(future: Future) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            collected.set_result(list(futures))

    for future in futures:
        future.add_done_callback(completed)
    return collected


def wait_all(futures: list[Future]) -> list[Any]:
    """The values of all futures, waited for.

    Raises:
        The error of the first future that has one.
    """
    return [future.wait() for future in collect_all(futures).wait()]


__all__ = ["Future", "collect_all", "wait_all"]
