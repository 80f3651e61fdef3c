"""All ranks of one start, seen from the process that started them.

Contract: `Job.start` calls `mpiexec` and listens; `Job.step` handles what has happened since, and
is called until `Job.is_over`. The first rank that fails ends the job: its message is the reason,
what the others say afterwards is counted. Nothing is left running when the job is over, and if this
process is killed the supervisors notice.
"""

import contextlib
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Final

from dynajit.core.records import record
from dynajit.distributed.launching.messages import (
    ENDED,
    FAILED,
    FINISHED,
    HELLO,
    LEAVE,
    SIGNAL,
    STOP,
    WAITING,
    WATCH,
    Link,
    Message,
)
from dynajit.distributed.launching.runtimes import Placement, Runtime
from dynajit.distributed.launching.settings import VARIABLE, Settings

_SETTLE_S: Final = 0.2
"""From the first failure until it is told: the cause may arrive after what it caused."""

_QUIET_S: Final = 0.1
"""No output of the ranks for so long: all of it has passed through `mpiexec`."""

_LEAVE_S: Final = 2.0
"""For supervisors to end what was killed, and for `mpiexec` to end after its processes."""

RANK_MODULE: Final = "dynajit.distributed.launching.rank"


@record
class Failure:
    """How a rank ended badly.

    Args:
        rank: None: not one rank, but the job.
        reason: what happened, after "rank 1 (process 7 on host)".
        code: exit code; negative for a signal.
        text: the traceback, or empty.
        time_s: when, in seconds since the epoch.
        pid, host: of the program.
        is_of_job: the rank did nothing wrong by itself: the job ended because of it.
    """

    rank: int | None
    reason: str
    code: int
    text: str
    time_s: float
    pid: int = 0
    host: str = ""
    is_of_job: bool = False

    @property
    def exit_code(self) -> int:
        """As a shell would say it."""
        return self.code if self.code >= 0 else 128 - self.code

    def title(self) -> str:
        """One line."""
        if self.rank is None:
            return self.reason
        return f"rank {self.rank} (process {self.pid} on {self.host}) {self.reason}"


class Rank:
    """What is known of one rank. Mutable."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.link: Link | None = None
        self.pid = 0
        self.host = ""
        self.is_finished = False
        self.waits_in: str | None = None
        self.code: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether its program answers nobody any more."""
        return self.is_finished or self.code is not None


class Job:
    """One start of all ranks. Mutable.

    Args:
        runtime: the `mpiexec`.
        placement: how many ranks, and where.
        settings: for the ranks; host, port and token are filled in.
        program: arguments of `rank.py`.
        environ: of the ranks.
        stdin: for rank 0.
        tell: called with the first failure as soon as it is known.
    """

    def __init__(
        self,
        runtime: Runtime,
        placement: Placement,
        settings: Settings,
        program: Sequence[str],
        environ: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        tell: Callable[[Failure], None] | None = None,
    ) -> None:
        self.ranks = [Rank(number) for number in range(placement.size)]
        self.failures: list[Failure] = []
        self.first: Failure | None = None
        self.is_over = False
        self._runtime = runtime
        self._placement = placement
        self._settings = settings
        self._program = program
        self._environ = environ
        self._stdin = stdin
        self._tell = tell
        self._selector = selectors.DefaultSelector()
        self._strangers: set[Link] = set()
        self._kill_at: float | None = None
        self._give_up_at: float | None = None
        self._leave_by: float | None = None
        self._last_output = time.monotonic()
        self._pumps: list[threading.Thread] = []

    def start(self) -> None:
        """Call `mpiexec`."""
        host = "127.0.0.1" if self._placement.is_local else ""
        self._listener = socket.create_server((host, 0), backlog=max(16, len(self.ranks)))
        self._selector.register(self._listener, selectors.EVENT_READ, self._listener)
        self._token = secrets.token_hex(16)
        settings = self._filled_in(host or self._settings.host or socket.gethostname())
        environ = {**self._environ, VARIABLE: settings.text()}
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        python = [sys.executable, *flags, "-m", RANK_MODULE, *self._program]
        names = [VARIABLE, *(name for name in environ if name not in os.environ or name in _TAKEN)]
        self._process = subprocess.Popen(
            self._runtime.command(self._placement, sorted(set(names)), python),
            env=environ,
            stdin=self._stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        for source, target in ((self._process.stdout, 1), (self._process.stderr, 2)):
            assert source is not None
            pump = threading.Thread(target=self._show, args=(source, target), daemon=True)
            pump.start()
            self._pumps.append(pump)

    def _filled_in(self, host: str) -> Settings:
        values = {name: getattr(self._settings, name) for name in Settings.__match_args__}
        port = self._listener.getsockname()[1]
        return Settings(**values | {"host": host, "port": port, "token": self._token})

    def _show(self, source: Any, target: int) -> None:
        """Pass output on; what comes after all ranks have left is the runtime's talk about it."""
        with contextlib.suppress(OSError):
            while data := os.read(source.fileno(), 1 << 16):
                self._last_output = time.monotonic()
                if self._leave_by is None or self.first is None:
                    _write_all(target, data)

    def signal(self, number: int) -> None:
        """Send a signal to every program; those that do not end are killed."""
        for rank in self.ranks:
            if rank.link is not None:
                rank.link.send(SIGNAL, number=number)
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._settings.grace_s
        if self.first is None:
            name = signal.Signals(number).name
            self.first = Failure(None, f"the job was ended by {name}", -number, "", time.time())
            self._say()

    def step(self, timeout: float) -> None:
        """Handle what has happened, waiting for at most `timeout` seconds."""
        for key, _ in self._selector.select(timeout):
            if key.data is self._listener:
                self._admit()
            else:
                self._read(key.data)
        now = time.monotonic()
        self._look_at_runtime()
        if self.first is None:
            self._judge()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            if self._give_up_at is None:
                self._give_up_at = now + _LEAVE_S
            self._order(STOP, grace_s=0.0)
        self._look_for_end(now)

    def _admit(self) -> None:
        connection, _ = self._listener.accept()
        link = Link(connection)
        self._strangers.add(link)
        self._selector.register(link, selectors.EVENT_READ, link)

    def _read(self, link: Link) -> None:
        messages = link.receive()
        rank = next((rank for rank in self.ranks if rank.link is link), None)
        for message in messages or ():
            if rank is None:
                rank = self._greet(link, message)
                if rank is None:
                    messages = None
                    break
            else:
                self._hear(rank, message)
        if messages is None:
            self._selector.unregister(link)
            self._strangers.discard(link)
            link.close()
            if rank is not None:
                self._lose(rank)

    def _greet(self, link: Link, message: Message) -> Rank | None:
        """The rank that says hello, or None for somebody else."""
        given = str(message.get("token", ""))
        if message["what"] != HELLO or not secrets.compare_digest(given, self._token):
            return None
        rank = self.ranks[message["rank"]]
        self._strangers.discard(link)
        rank.link, rank.pid, rank.host = link, message["pid"], message["host"]
        if self.first is not None:
            link.send(STOP, grace_s=0.0)
        return rank

    def _hear(self, rank: Rank, message: Message) -> None:
        what = message["what"]
        if what == FINISHED:
            rank.is_finished = True
            self._order(WATCH)
        elif what == FAILED:
            self._fail(rank, message["error"], message["code"], message["text"], message["time"])
        elif what == WAITING:
            rank.waits_in = message["place"]
        elif what == ENDED:
            self._end(rank, message["code"])

    def _end(self, rank: Rank, code: int) -> None:
        rank.code = code
        self._order(WATCH)
        if code < 0:
            name = _name_of(-code)
            self._fail(rank, f"was killed by {name}{_HINTS.get(name, '')}", code)
        elif code and all(failure.rank != rank.number for failure in self.failures):
            self._fail(rank, f"ended with exit code {code}", code)

    def _lose(self, rank: Rank) -> None:
        """Its supervisor is gone."""
        rank.link = None
        if rank.code is None:
            rank.code = -int(signal.SIGKILL)
            reason = "ended without a word: its supervisor, or mpiexec, was killed"
            self._fail(rank, reason, rank.code)

    def _fail(
        self, rank: Rank, reason: str, code: int, text: str = "", time_s: float | None = None
    ) -> None:
        when = time.time() if time_s is None else time_s
        number, pid, host = rank.number, rank.pid, rank.host
        self.failures.append(Failure(number, reason, code, text, when, pid, host))

    def _order(self, what: str, **values: Any) -> None:
        for rank in self.ranks:
            if rank.link is not None and rank.code is None:
                rank.link.send(what, **values)

    def _judge(self) -> None:
        """Whether the job has failed, and by whom."""
        if self.failures:
            if time.time() < self.failures[0].time_s + _SETTLE_S and not self._are_all_over():
                return
            self.first = min(self.failures, key=lambda failure: failure.time_s)
        else:
            self.first = self._stall()
        if self.first is not None:
            self._say()
            self._order(STOP, grace_s=self._settings.grace_s)
            # Supervisors kill by themselves; what follows is for one that does not answer.
            self._kill_at = time.monotonic() + self._settings.grace_s

    def _stall(self) -> Failure | None:
        """Every rank that still runs waits for others, and one that could answer has ended."""
        done = [rank for rank in self.ranks if rank.is_done]
        running = [rank for rank in self.ranks if not rank.is_done]
        if not done or not running or any(rank.waits_in is None for rank in running):
            return None
        waits = "\n".join(f"  rank {rank.number} in {rank.waits_in}" for rank in running)
        rank = done[0]
        return Failure(
            rank.number,
            f"has ended without an error while others wait for messages:\n{waits}\n"
            "Every rank has to take part in the same collectives, and to answer what it is sent",
            1, "", time.time(), rank.pid, rank.host, True,
        )  # fmt: skip

    def _say(self) -> None:
        if self._tell is not None and self.first is not None:
            self._tell(self.first)

    def _are_all_over(self) -> bool:
        return all(rank.code is not None for rank in self.ranks)

    def _look_at_runtime(self) -> None:
        """An `mpiexec` that ends before its ranks."""
        code = self._process.poll()
        if code is None or self._leave_by is not None:
            return
        if self.first is None and not self.failures and not self._are_all_over():
            reason = f"{self._runtime.path} ended with exit code {code} before the ranks did"
            self.first = Failure(None, reason, code or 1, "", time.time())
            self._say()
        for rank in self.ranks:
            if rank.link is None and rank.code is None:
                rank.code = code or 1
        self._order(STOP, grace_s=0.0)

    def _look_for_end(self, now: float) -> None:
        if self._leave_by is None:
            is_hopeless = self._give_up_at is not None and now > self._give_up_at
            if not is_hopeless and not self._are_all_over():
                return
            if self.failures and self.first is None:
                return
            if now - self._last_output < _QUIET_S and self.first is not None:
                return
            self._leave_by = now + _LEAVE_S
            for rank in self.ranks:
                if rank.link is not None:
                    rank.link.send(LEAVE)
        if self._process.poll() is not None or now > self._leave_by:
            self.close()

    def close(self) -> None:
        """End what is left. Supervisors whose connection closes end their programs."""
        if self.is_over:
            return
        self.is_over = True
        if self._leave_by is None:
            self._leave_by = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        links = [rank.link for rank in self.ranks if rank.link is not None]
        for link in (*links, *self._strangers):
            link.close()
        self._selector.close()
        self._listener.close()
        for pump in self._pumps:
            pump.join(1.0)
        for stream in (self._process.stdout, self._process.stderr):
            _close(stream)


_TAKEN: Final = frozenset({"OMP_NUM_THREADS", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"})
"""Variables of this process that ranks on other machines see, too."""

_HINTS: Final = {
    "SIGKILL": " (by the system if memory ran out, or by somebody)",
    "SIGSEGV": " (a fault in native code)",
}


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _close(stream: BinaryIO | Any) -> None:
    if stream is not None:
        stream.close()


def _write_all(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]
