"""Transfers that go on while the program does: `Work`, and the thread that moves them forward.

Contract: a work ends once, in the thread that waits or in the one here, and what was asked to be
done at its end is done before anybody is told. While nothing goes on, the thread sleeps.
"""

import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from dynajit.capture.control import disable, is_compiling
from dynajit.compat.futures import Future
from dynajit.core.errors import DistBackendError
from dynajit.distributed.channels.channel import DONE, TESTS_AT_ONCE, Request

if TYPE_CHECKING:
    from dynajit.eager.tensor.tensor import Tensor

#: Seconds after which a waiting thread sleeps between tests.
_SECONDS_AWAKE: Final = 0.1
_NAP: Final = 50e-6

MSG_LATE: Final = (
    "{called}: not done after {limit:g} s.  Another process has not called it, has called "
    "something else, or has ended.  TORCH_DISTRIBUTED_DEBUG=DETAIL tells what each process called; "
    "init_process_group(timeout=...) gives it more time."
)

#: Transfers that nobody waits for any more: the engine may still write their arrays.
_UNFINISHED: Final[list[Request]] = []


class Work:
    """A collective, or a message, that was started. Mutable: it ends.

    Args:
        request: the engine's.
        results: the tensors that it writes.
        finish: what is to be done with what arrived: called once, at the end.
        limit: seconds that `wait` takes at most.
        called: what the program asked for, for messages.
        failed: called with the error if it ends with one.
    """

    def __init__(
        self,
        request: Request,
        results: "Sequence[Tensor]",
        finish: Callable[[], None] | None,
        limit: float,
        called: str,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        self._request = request
        self._results = list(results)
        self._finish = finish
        self._limit = limit
        self._called = called
        self._failed = failed
        self._lock = threading.Lock()
        self._ended = False
        self.is_waited_for = False
        self._error: Exception | None = None

    def advance(self) -> bool:
        """Whether it ended, in one way or the other; moves it forward."""
        with self._lock:
            if self._ended:
                return True
            try:
                if not self._request.test():
                    return False
                if self._finish is not None:
                    self._finish()
            except Exception as error:
                self._end_badly(error)
            self._ended = True
            self._finish = None
            return True

    def _end_badly(self, error: Exception) -> None:
        self._error = error
        if self._failed is not None:
            self._failed(error)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """True, when it has ended.

        Raises:
            DistBackendError: it did not within the timeout, or the group's; or the engine failed.
        """
        if is_compiling():
            return _waited_between_graphs(self, timeout)
        limit = self._limit if timeout is None else timeout.total_seconds()
        self.is_waited_for = True
        if not _waited(self.advance, limit):
            self._give_up(limit)
        if self._error is not None:
            raise self._error
        return True

    def _give_up(self, limit: float) -> None:
        with self._lock:
            if not self._ended:
                _UNFINISHED.append(self._request)
                self._end_badly(DistBackendError(MSG_LATE.format(called=self._called, limit=limit)))
                self._ended, self._finish = True, None

    def is_completed(self) -> bool:
        """Whether it ended."""
        return self.advance()

    def is_success(self) -> bool:
        """Whether it ended well."""
        return self.advance() and self._error is None

    def exception(self) -> Exception | None:
        """What went wrong, if something did."""
        return self._error

    def result(self) -> "list[Tensor]":
        """The tensors that it wrote."""
        return self._results

    def forget_results(self) -> None:
        """Let go of the tensors that it wrote: the thread that moves works forward may know this
        one for a moment longer than the program."""
        self._results = []

    def source_rank(self) -> int:
        """The process that sent what was received, as the group counts."""
        return self._request.source

    def get_future(self) -> "WorkFuture":
        """A future of the tensors."""
        return WorkFuture(self.wait, self.result)


@functools.partial(disable, reason="no graph has started what is waited for")
def _waited_between_graphs(work: Work, timeout: timedelta | None) -> bool:
    return work.wait(timeout)


class EndedWork(Work):
    """A work that ended when it was started: there was nobody to send to.

    Args:
        results: the tensors that it wrote.
    """

    def __init__(self, results: "Sequence[Tensor]") -> None:
        self._request = DONE
        self._results = list(results)
        self._error = None

    def advance(self) -> bool:
        """True."""
        return True

    def wait(self, timeout: timedelta | None = None) -> bool:
        """True, at once."""
        return True


class WorkFuture(Future):
    """A value that is computed when it is waited for, by the thread that waits.

    Callbacks of several works run in the order in which a program waits, which is the same in all
    processes: a callback may start further collectives.

    Args:
        wait: waits for what it depends on.
        compute: makes the value.
    """

    def __init__(self, wait: Callable[[], object], compute: Callable[[], Any]) -> None:
        super().__init__()
        self._wait_for = wait
        self._compute = compute

    def wait(self) -> Any:
        """The value.

        Raises:
            The error of the work, or of the callback.
        """
        if not self.done():
            try:
                self._wait_for()
                value = self._compute()
            except Exception as error:
                self.set_exception(error)
            else:
                self.set_result(value)
        return self.value()

    def then(self, callback: Callable[["WorkFuture"], Any]) -> "WorkFuture":
        """A future of what the callback makes of this one; a future that it returns is waited
        for."""

        def made() -> Any:
            value = callback(self)
            return value.wait() if isinstance(value, Future) else value

        return WorkFuture(self.wait, made)


def finished(
    request: Request, finish: Callable[[], None] | None, limit: float, called: str
) -> None:
    """Wait for a transfer in this thread, which nobody else knows of.

    Raises: as of `Work.wait`.
    """
    if not (request.test() or _waited(request.test, limit)):
        _UNFINISHED.append(request)
        raise DistBackendError(MSG_LATE.format(called=called, limit=limit))
    if finish is not None:
        finish()


def _waited(test: Callable[[], bool], limit: float) -> bool:
    """Whether the test held within `limit` seconds."""
    for _ in range(TESTS_AT_ONCE):
        if test():
            return True
    start = time.monotonic()
    while not test():
        passed = time.monotonic() - start
        if passed > limit:
            return False
        if passed > _SECONDS_AWAKE:
            time.sleep(_NAP)
        else:
            os.sched_yield()
    return True


class Progress:
    """The thread that moves works forward while nobody waits for them. Mutable.

    Its thread is a daemon that is started with the first work.
    """

    def __init__(self) -> None:
        self._works: list[Work] = []
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, work: Work) -> None:
        """Move a work forward until it ends."""
        with self._wake:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="dynajit-progress", daemon=True
                )
                self._thread.start()
            self._works.append(work)
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._works:
                    self._wake.wait()
            if not self._advance_all():
                time.sleep(_NAP)

    def _advance_all(self) -> bool:
        """Whether a work ended. None of them is referred to from here afterwards: results of works
        may be large."""
        with self._wake:
            works = list(self._works)
        ended = [work for work in works if work.is_waited_for or work.advance()]
        with self._wake:
            self._works = [work for work in self._works if work not in ended]
        return bool(ended)

    def forget(self) -> None:
        """Leave all works where they are: the engine ends. The thread waits for new ones."""
        with self._wake:
            self._works = []

    def forget_thread(self) -> None:
        """Start afresh in a process that was forked: its parent's thread, which may have held the
        lock, is not here."""
        self._works = []
        self._wake = threading.Condition()
        self._thread = None


PROGRESS: Final = Progress()
os.register_at_fork(after_in_child=PROGRESS.forget_thread)
