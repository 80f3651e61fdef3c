"""`python -m dynajit.distributed.run`: start a program on several ranks, as `torchrun` does.

Contract: flags are in `launching/arguments.py`, what happens to ranks in `launching/job.py`. The
exit status is that of the rank that failed first (128 + n for signal n), or 0. What the launcher
itself says stands on stderr. Signals are passed on to all ranks, which have `--shutdown-timeout`
seconds to end. Page: docs/distributed.md.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from dynajit.core.errors import InvalidValueError, UnsupportedError
from dynajit.distributed.launching.arguments import Request, parser, request_of
from dynajit.distributed.launching.job import Failure, Job
from dynajit.distributed.launching.numbers import without_ranks
from dynajit.distributed.launching.runtimes import Runtime, found
from dynajit.distributed.launching.settings import Settings

__all__ = ["get_args_parser", "main", "parse_args", "run"]


class _Signals:
    """Signals that have come. Mutable; a context in which they are not obeyed at once.

    Args:
        numbers: which ones.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self.come: list[int] = []
        self._numbers = numbers

    def __enter__(self) -> "_Signals":
        self._before = {number: signal.signal(number, self._note) for number in self._numbers}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.come.append(number)


def get_args_parser() -> argparse.ArgumentParser:
    """The parser of the command line, by PyTorch's name."""
    return parser()


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """The flags and the program of a command line; `sys.argv` for None."""
    return parser().parse_args(args)


def run(args: argparse.Namespace) -> int:
    """Start the program that flags describe, and wait for its end.

    Args:
        args: of `parse_args`.

    Returns:
        The exit status.

    Raises:
        InvalidValueError: a flag is not accepted.
        UnsupportedError: there is no MPI runtime.
    """
    asked = request_of(args)
    runtime = found(f"dynajit.distributed.run with {asked.placement.size} ranks", asked.mpiexec)
    with _Signals(asked.signals) as signals:
        for attempt in range(asked.max_restarts + 1):
            failure = _attempt(asked, runtime, attempt, signals)
            if failure is None or signals.come:
                break
            if attempt < asked.max_restarts:
                _say(f"all ranks start again (restart {attempt + 1} of {asked.max_restarts}).")
    return 0 if failure is None else failure.exit_code


def _attempt(asked: Request, runtime: Runtime, attempt: int, signals: _Signals) -> Failure | None:
    """Start all ranks once; how they failed, or None."""
    settings = Settings(
        kind="run", host=asked.local_addr or "", port=0, token="", role=asked.role,
        prefix=asked.prefix, shown=asked.shown, redirects=asked.redirects, tee=asked.tee,
        log_folder=asked.log_folder, run_id=asked.run_id, attempt=attempt,
        max_restarts=asked.max_restarts, master_addr=asked.master_addr,
        master_port=asked.master_port or _free_port(), grace_s=asked.grace_s,
    )  # fmt: skip
    environ = runtime.environment(without_ranks(os.environ))
    if asked.placement.per_machine > 1:
        # As torchrun does: every rank would take all cores.
        environ.setdefault("OMP_NUM_THREADS", "1")
    # A terminal stays with the launcher: `mpiexec` is in a process group of its own.
    stdin = subprocess.DEVNULL if _is_terminal() else 0
    job = Job(runtime, asked.placement, settings, asked.program, environ, stdin, _report)
    job.start()
    try:
        seen = 0
        while not job.is_over:
            for number in signals.come[seen:]:
                job.signal(number)
            seen = len(signals.come)
            job.step(asked.poll_s)
    finally:
        job.close()
    _count_others(job)
    return job.first


def _is_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _report(failure: Failure) -> None:
    """Tell the reason before anything that follows from it."""
    _say(f"{failure.title()}." + (f"\n\n{failure.text}" if failure.text else ""))


def _count_others(job: Job) -> None:
    others = {failure.rank for failure in job.failures} - {job.first.rank if job.first else None}
    raised = sorted(
        failure.rank for failure in job.failures
        if failure.rank is not None and failure.rank in others and failure.code > 0
    )  # fmt: skip
    if raised:
        _say(f"failed after it, tracebacks left out: ranks {', '.join(map(str, raised))}.")
    if job.first is not None:
        _say(f"all ranks have ended; exit status {job.first.exit_code}.")


def _say(text: str) -> None:
    sys.stderr.write(f"dynajit.distributed.run: {text}\n")
    sys.stderr.flush()


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line; what is wrong with it is said in a line, and the status is 2."""
    try:
        return run(parse_args(args))
    except (InvalidValueError, UnsupportedError) as error:
        _say(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
