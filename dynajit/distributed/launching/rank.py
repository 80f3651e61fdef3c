"""What `mpiexec` starts on every rank: `python -m dynajit.distributed.launching.rank script.py`.

Contract: sets the variables that programs for `torchrun` read (`numbers.py`), then divides into the
program (`script.py`) and its supervisor (`supervisor.py`). Arguments: `--module NAME`,
`--no-python PROGRAM`, `--spawned` or the path of a script, and the program's arguments. With a
launcher (`settings.py`) output and ends are as it wants them; without one the module may be started
by `mpiexec` or `srun` directly.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from functools import partial

from dynajit.distributed.launching import script
from dynajit.distributed.launching.messages import HELLO, Link
from dynajit.distributed.launching.numbers import Place, of_environment, variables
from dynajit.distributed.launching.output import Pump, Route, routes
from dynajit.distributed.launching.settings import VARIABLE, Settings
from dynajit.distributed.launching.settings import of_environment as settings_of
from dynajit.distributed.launching.stalls import Watch
from dynajit.distributed.launching.supervisor import Supervisor

MODULE = "--module"
NO_PYTHON = "--no-python"
SPAWNED = "--spawned"

_PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when the one that started it ends."""


def main(arguments: list[str]) -> int:
    """Run one rank; the exit status of this process."""
    settings = settings_of(os.environ)
    place = of_environment(os.environ)
    os.environ.pop(VARIABLE, None)  # it is for this process alone
    os.environ.update(variables(place, settings))
    launcher = _connected(settings)
    found = routes(settings, place.rank)
    streams = {stream: _Stream(stream, route) for stream, route in found.items()}
    here, there = socket.socketpair()
    parent = os.getpid()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads, which here belong to BLAS: it handles forks itself.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        here.close()
        _become_program(parent, launcher, streams)
        return _run_program(arguments, place, settings, Link(there))
    there.close()
    with contextlib.suppress(OSError):  # the child does it, too: whoever comes first
        os.setpgid(pid, pid)
    return _supervise(pid, place, settings, launcher, Link(here), streams)


class _Stream:
    """Standard output or error of a rank."""

    def __init__(self, number: int, route: Route) -> None:
        self.number = number
        self.route = route
        self.ends = None if route.is_plain else os.pipe()

    def enter(self) -> None:
        """In the program: write into the pipe."""
        if self.ends is not None:
            os.dup2(self.ends[1], self.number)
            os.close(self.ends[0])
            os.close(self.ends[1])

    def pump(self) -> Pump | None:
        """In the supervisor: read from the pipe."""
        if self.ends is None:
            return None
        os.close(self.ends[1])
        file = None
        if self.route.file is not None:
            self.route.file.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            file = os.open(self.route.file, flags, 0o644)
        shown = self.number if self.route.is_shown else None
        return Pump(self.number, self.ends[0], shown, self.route.prefix, file)


def _connected(settings: Settings | None) -> Link | None:
    if settings is None:
        return None
    return Link(socket.create_connection((settings.host, settings.port), timeout=None))


def _become_program(parent: int, launcher: Link | None, streams: dict[int, _Stream]) -> None:
    """In the child: a process group of its own, which ends with the supervisor."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    if launcher is not None:
        launcher.close()
    for stream in streams.values():
        stream.enter()


def _run_program(arguments: list[str], place: Place, settings: Settings | None, link: Link) -> int:
    target, *rest = arguments
    if target == NO_PYTHON:
        try:
            os.execvp(rest[0], rest)
        except OSError as error:
            print(f"{rest[0]} cannot be started: {error}", file=sys.stderr)
            return 127
    reporter = script.Reporter(None if settings is None else link)
    if settings is not None:
        Watch(link).start()
    program: Callable[[], None]
    if target == SPAWNED:
        assert settings is not None and settings.payload is not None
        program = partial(script.function, f"{settings.payload}/{place.rank}.pickle", place.rank)
    elif target == MODULE:
        program = partial(script.module, rest[0], rest[1:])
    else:
        program = partial(script.script, target, rest)
    script.run(program, reporter)
    link.connection.detach()  # `Watch` reads it until the process is gone
    return 0


def _supervise(
    pid: int, place: Place, settings: Settings | None, launcher: Link | None, program: Link,
    streams: dict[int, _Stream],
) -> int:  # fmt: skip
    if launcher is not None and settings is not None:
        host = socket.gethostname()
        launcher.send(HELLO, token=settings.token, rank=place.rank, pid=pid, host=host)
    pumps = [pump for stream in streams.values() if (pump := stream.pump()) is not None]
    grace_s = 3.0 if settings is None else settings.grace_s
    code = Supervisor(pid, launcher, program, pumps, grace_s).run()
    if launcher is not None:
        return 0  # the launcher knows how the program ended
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
