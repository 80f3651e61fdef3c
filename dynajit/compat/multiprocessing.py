"""Processes by PyTorch's path: the standard library's `multiprocessing`, and `spawn`.

Contract: all public names of `multiprocessing` are here. Tensors that are sent between processes
are copied, unless they are in shared memory (`share_memory_`). `spawn` has MPI start the processes
where it is installed, so that they can make a group (`dynajit.distributed`); elsewhere they are
plain processes.
"""

import multiprocessing
import multiprocessing.connection
import os
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any

from dynajit.distributed.launching.job import Failure
from dynajit.distributed.launching.runtimes import why_absent
from dynajit.distributed.launching.spawned import SpawnedJob


class ProcessException(Exception):
    """A process ended badly.

    Args:
        msg: what it said.
        error_index: its number.
        pid: its id.
    """

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = self.pid = pid


class ProcessRaisedException(ProcessException):
    """The function raised; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """The process ended with another exit code than 0, or by a signal."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int,
        signal_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name


def _run(
    function: Callable[..., Any], number: int, arguments: tuple[Any, ...], errors: Any
) -> None:
    try:
        function(number, *arguments)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that were started together. Mutable: they end.

    Args:
        processes: by number.
        errors: per process a queue for its traceback.
    """

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes = processes
        self.error_queues = errors

    def pids(self) -> list[int]:
        """Their ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until all have ended, or one ended badly; the others are then terminated.

        Returns:
            Whether all have ended.

        Raises:
            ProcessRaisedException: the function raised.
            ProcessExitedException: a process ended otherwise than well.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            alive = [process for process in self.processes if process.is_alive()]
            for number, process in enumerate(self.processes):
                if process.exitcode not in (None, 0):
                    self._stop(alive, grace_period)
                    self._raise(number, process)
            if not alive:
                return True
            rest = None if end is None else end - time.monotonic()
            if rest is not None and rest <= 0:
                return False
            multiprocessing.connection.wait([process.sentinel for process in alive], rest)

    def _stop(self, alive: list[Any], grace_period: float | None) -> None:
        for process in alive:
            process.terminate()
        for process in alive:
            process.join(30 if grace_period is None else grace_period)
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, number: int, process: Any) -> None:
        code, pid = process.exitcode, process.pid
        process.join()
        queue = self.error_queues[number]
        raise _error_of(number, pid, code, "" if queue.empty() else queue.get())


def _error_of(number: int, pid: int, code: int, text: str) -> ProcessException:
    """How a process ended badly; with the traceback, if it raised."""
    if text:
        message = f"\n\n-- Process {number} terminated with the following error:\n{text}"
        return ProcessRaisedException(message, number, pid)
    if code < 0:
        name = signal.Signals(-code).name
        message = f"process {number} terminated with signal {name}"
        return ProcessExitedException(message, number, pid, code, name)
    message = f"process {number} terminated with exit code {code}"
    return ProcessExitedException(message, number, pid, code)


class RankProcess:
    """One process of `RankContext`, as far as `multiprocessing.Process` is asked about.

    Args:
        job: all of them.
        number: of this one.
    """

    def __init__(self, job: SpawnedJob, number: int) -> None:
        self._job = job
        self._number = number

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._job.pids()[self._number]

    @property
    def exitcode(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._job.codes()[self._number]

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        """Wait for it: processes of one job end together."""
        self._job.join(timeout)

    def terminate(self) -> None:
        """End it by SIGTERM, and the job with it."""
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it by SIGKILL, and the job with it."""
        os.kill(self.pid, signal.SIGKILL)


class RankContext(ProcessContext):
    """Processes that MPI started together. Mutable: they end.

    Args:
        job: the processes.
        size: how many.
    """

    def __init__(self, job: SpawnedJob, size: int) -> None:
        super().__init__([RankProcess(job, number) for number in range(size)], [])
        self._job = job

    def pids(self) -> list[int]:
        """Their ids."""
        return self._job.pids()

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until all have ended; the first that ends badly ends the others.

        Args:
            timeout: in seconds; None: no end.
            grace_period: not used: the others have three seconds.

        Returns:
            Whether all have ended.

        Raises: as of `ProcessContext`; a job that ends itself, because processes wait for one that
            is gone, is a ProcessExitedException.
        """
        if not self._job.join(timeout):
            return False
        failure = self._job.failure()
        if failure is not None:
            raise _error_of_rank(failure)
        return True


def _error_of_rank(failure: Failure) -> ProcessException:
    if failure.rank is None or failure.is_of_job:
        return ProcessExitedException(failure.title(), failure.rank or 0, failure.pid, failure.code)
    return _error_of(failure.rank, failure.pid, failure.code, failure.text)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(i, *args)` in process i of `nprocs`.

    With "spawn", and where `mpi4py` and an MPI runtime are installed, process i is rank i of MPI;
    the variable DYNAJIT_LAUNCHED is "spawn" there.

    Args:
        join: wait until all have ended; else the processes are returned.
        daemon: they end with this process.
        start_method: "spawn", "fork" or "forkserver".

    Raises: as `ProcessContext.join`.
    """
    started = _ranks(fn, args, nprocs, daemon) if start_method == "spawn" else None
    if started is None:
        started = _plain_processes(fn, args, nprocs, daemon, start_method)
    if not join:
        return started
    started.join()
    return None


def _ranks(
    fn: Callable[..., Any], args: tuple[Any, ...], nprocs: int, daemon: bool
) -> ProcessContext | None:
    """Processes that MPI starts; None where it is not installed, or there is nothing to start."""
    if nprocs < 1 or why_absent() is not None:
        return None
    return RankContext(SpawnedJob(fn, args, nprocs, daemon), nprocs)


def _plain_processes(
    fn: Callable[..., Any], args: tuple[Any, ...], nprocs: int, daemon: bool, start_method: str
) -> ProcessContext:
    context: Any = multiprocessing.get_context(start_method)
    errors, processes = [], []
    for number in range(nprocs):
        queue = context.SimpleQueue()
        process = context.Process(target=_run, args=(fn, number, args, queue), daemon=daemon)
        process.start()
        errors.append(queue)
        processes.append(process)
    return ProcessContext(processes, errors)


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` with new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """How tensors are shared between processes: names to ask for."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """A name; it has no effect."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept a strategy; it has no effect.

    Raises:
        AssertionError: there is no such strategy.
    """
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}")


__all__ = [
    *multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
