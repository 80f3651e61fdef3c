"""Functions on several ranks: what `multiprocessing.spawn` does where there is MPI.

Contract: `mpiexec` starts the ranks, which unpickle the function and its arguments as processes of
`multiprocessing` do, and make the main module in the same way. A `SpawnedJob` watches them from a
thread of its own. Each rank has a pickle of its own: connections in it can be taken over once.
"""

import atexit
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable
from multiprocessing import context, reduction, resource_sharer, spawn
from pathlib import Path
from typing import Any, Final

from dynajit.distributed.launching.job import Failure, Job
from dynajit.distributed.launching.numbers import without_ranks
from dynajit.distributed.launching.rank import SPAWNED
from dynajit.distributed.launching.runtimes import Placement, found
from dynajit.distributed.launching.settings import Settings

_STEP_S: Final = 0.1


class _Handover:
    """Stands for the process that is being started while its arguments are pickled.

    Open files in them are handed over by `multiprocessing`'s server of descriptors, because
    `mpiexec` lies between the two processes.
    """

    DupFd = staticmethod(resource_sharer.DupFd)

    def duplicate_for_child(self, fd: int) -> int:
        """The descriptor itself; `DupFd` copies it."""
        return fd


class SpawnedJob:
    """Ranks that call a function. Mutable: they end.

    Args:
        fn: called with the rank and `args`; both must be picklable.
        args: further arguments.
        size: number of ranks.
        daemon: they end with this process; else this process waits for them at its end.
    """

    def __init__(
        self, fn: Callable[..., Any], args: tuple[Any, ...], size: int, daemon: bool
    ) -> None:
        runtime = found(f"spawn(nprocs={size})")
        self._folder = tempfile.mkdtemp(prefix="dynajit-spawn-")
        try:
            for rank in range(size):
                _pickle(Path(self._folder) / f"{rank}.pickle", fn, args)
            settings = Settings("spawn", "", 0, "", payload=self._folder)
            environ = runtime.environment(without_ranks(os.environ))
            self._job = Job(runtime, Placement(size, size), settings, [SPAWNED], environ)
            self._job.start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._changed = threading.Condition()
        # Not the thread's end: a `Thread.join` that is interrupted takes it to have come.
        self._over = threading.Event()
        self._is_given_up = False
        self._signal: int | None = None
        self._thread = threading.Thread(target=self._watch, name="dynajit-spawn", daemon=True)
        self._thread.start()
        atexit.register(self.stop if daemon else self._over.wait)

    def _watch(self) -> None:
        try:
            while not self._job.is_over:
                self._step()
                with self._changed:
                    self._changed.notify_all()
        finally:
            self._job.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._over.set()

    def _step(self) -> None:
        """Do what was asked for since the last step, or handle what has happened."""
        if self._is_given_up:
            self._job.close()
        elif self._signal is not None:
            number, self._signal = self._signal, None
            self._job.signal(number)
        else:
            self._job.step(_STEP_S)

    def pids(self) -> list[int]:
        """Ids of the processes, which are known when all have started."""
        ranks = self._job.ranks
        with self._changed:
            self._changed.wait_for(lambda: self._job.is_over or all(rank.pid for rank in ranks))
        return [rank.pid for rank in ranks]

    def codes(self) -> list[int | None]:
        """Exit codes, negative for signals, None for ranks that run."""
        return [rank.code for rank in self._job.ranks]

    def join(self, timeout: float | None) -> bool:
        """Wait for the end of all; whether it came. An interrupt from the keyboard is passed on."""
        try:
            return self._over.wait(timeout)
        except KeyboardInterrupt:
            self.signal(signal.SIGINT)
            self._over.wait()
            raise

    def failure(self) -> Failure | None:
        """Of the first rank that failed, once all have ended."""
        return self._job.first

    def signal(self, number: int) -> None:
        """Send a signal to all ranks."""
        self._signal = number

    def stop(self) -> None:
        """End all ranks now."""
        self._is_given_up = True
        self._over.wait()


def _pickle(path: Path, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        # Of a process only these two methods are asked while arguments are pickled.
        context.set_spawning_popen(_Handover())  # type: ignore[arg-type]
        try:
            reduction.dump(spawn.get_preparation_data("spawned"), file)
            reduction.dump((fn, args), file)
        finally:
            context.set_spawning_popen(None)
