"""Processes by PyTorch's path: the standard library's `multiprocessing`, and `spawn`.

Contract: all public names of `multiprocessing` are here. Tensors that are sent between processes
are copied, unless they are in shared memory (`share_memory_`).
"""

import multiprocessing
import multiprocessing.connection
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any


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
        if not self.error_queues[number].empty():
            raise ProcessRaisedException(
                f"\n\n-- Process {number} terminated with the following error:\n"
                f"{self.error_queues[number].get()}",
                number,
                pid,
            )
        if code < 0:
            name = signal.Signals(-code).name
            message = f"process {number} terminated with signal {name}"
            raise ProcessExitedException(message, number, pid, code, name)
        raise ProcessExitedException(
            f"process {number} terminated with exit code {code}", number, pid, code
        )


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

    Args:
        join: wait until all have ended; else the processes are returned.
        daemon: they end with this process.
        start_method: "spawn", "fork" or "forkserver".

    Raises: as `ProcessContext.join`.
    """
    context: Any = multiprocessing.get_context(start_method)
    errors, processes = [], []
    for number in range(nprocs):
        queue = context.SimpleQueue()
        process = context.Process(target=_run, args=(fn, number, args, queue), daemon=daemon)
        process.start()
        errors.append(queue)
        processes.append(process)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    started.join()
    return None


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
