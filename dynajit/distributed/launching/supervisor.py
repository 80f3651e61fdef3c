"""Watches over one rank: its output, its end, and what the launcher wants of it.

Contract: the supervisor is the process that `mpiexec` started, the program runs in a child of it.
So a program that is killed has somebody who says how, and whose output is read to its end. The
runtime sees the supervisor alone, which stays until the launcher has heard of the end: then all
supervisors leave together. A supervisor whose launcher is gone ends its program. Without a launcher
(somebody called `mpiexec`) it ends with the program's exit code, and the runtime does the rest.
"""

import os
import selectors
import signal
import socket
import time
from typing import Any, Final

from dynajit.distributed.launching.messages import ENDED, FAILED, LEAVE, SIGNAL, STOP, WATCH, Link
from dynajit.distributed.launching.output import Pump
from dynajit.distributed.launching.settings import STDERR

_FORWARDED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_DRAIN_S: Final = 0.2
"""How long output is read after the program's end: a child of it may hold the pipe open."""


class Supervisor:
    """Of one program. Mutable.

    Args:
        pid: of the program, which leads a process group.
        launcher: the connection, or None.
        program: the connection to the program.
        pumps: of its output.
        grace_s: seconds between SIGTERM and SIGKILL.
    """

    def __init__(
        self, pid: int, launcher: Link | None, program: Link, pumps: list[Pump], grace_s: float
    ) -> None:
        self._pid = pid
        self._launcher = launcher
        self._program = program
        self._grace_s = grace_s
        self._code: int | None = None
        self._kill_at: float | None = None
        self._is_dismissed = False
        self._selector = selectors.DefaultSelector()
        self._pumps = list(pumps)
        for source in (launcher, program, *pumps):
            if source is not None:
                self._selector.register(source, selectors.EVENT_READ, source)

    def run(self) -> int:
        """Until the program has ended and the launcher knows it; its code, negative for signals."""
        self._handle_signals()
        self._look_for_end()
        while self._code is None:
            self._wait()
            self._look_for_end()
        self._drain()
        if self._launcher is not None:
            self._launcher.send(ENDED, code=self._code)
            while not self._is_dismissed:
                self._wait()
        self._close()
        return self._code

    def _close(self) -> None:
        signal.set_wakeup_fd(-1)
        for source in (self._launcher, self._program, self._selector, self._wake, self._wakes):
            if source is not None:
                source.close()

    def _handle_signals(self) -> None:
        """A signal only wakes the selector; those for the program are passed on."""
        self._wake, wakes = socket.socketpair()
        self._wake.setblocking(False)
        wakes.setblocking(False)
        self._wakes = wakes
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        for number in _FORWARDED:
            signal.signal(number, lambda number, frame: self._signal(number))
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._selector.register(self._wake, selectors.EVENT_READ, self._wake)

    def _wait(self) -> None:
        """For the next event, or for the time to kill."""
        timeout = None if self._kill_at is None else self._kill_at - time.monotonic()
        if timeout is not None and timeout <= 0:
            self._kill_at = timeout = None
            self._signal(signal.SIGKILL)
        for key, _ in self._selector.select(timeout):
            self._handle(key.data)

    def _handle(self, source: Any) -> None:
        if isinstance(source, Pump):
            if not source.move():
                self._selector.unregister(source)
                self._pumps.remove(source)
        elif source is self._launcher and source is not None:
            self._obey(source)
        elif source is self._program:
            self._pass_on()
        else:
            source.recv(1 << 12)

    def _pass_on(self) -> None:
        """What the program says goes to the launcher."""
        messages = self._program.receive()
        if messages is None:
            self._selector.unregister(self._program)
        for message in messages or ():
            if self._launcher is not None:
                self._launcher.send(**message)
            if message["what"] == FAILED:  # the launcher shows the traceback; files have it, too
                for pump in self._pumps:
                    if pump.stream == STDERR:
                        pump.note(message["text"])

    def _obey(self, launcher: Link) -> None:
        messages = launcher.receive()
        if messages is None:
            self._selector.unregister(launcher)
            self._is_dismissed = True
            self._stop(self._grace_s)
        for message in messages or ():
            what = message["what"]
            if what == SIGNAL:
                self._signal(message["number"])
            elif what == STOP:
                self._stop(message["grace_s"])
            elif what == WATCH:
                self._program.send(WATCH)
            elif what == LEAVE:
                self._is_dismissed = True

    def _stop(self, grace_s: float) -> None:
        self._signal(signal.SIGTERM)
        self._kill_at = time.monotonic() + grace_s

    def _signal(self, number: int) -> None:
        """To the program and what it has started."""
        if self._code is not None:
            return
        try:
            os.killpg(self._pid, number)
        except ProcessLookupError:
            return

    def _look_for_end(self) -> None:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            if os.waitstatus_to_exitcode(status):
                self._signal(signal.SIGKILL)  # what a failed program leaves behind
            self._code = os.waitstatus_to_exitcode(status)

    def _drain(self) -> None:
        """Read what the program has written and said before its end."""
        end = time.monotonic() + _DRAIN_S
        while (rest := end - time.monotonic()) > 0:
            sources = [key for key, _ in self._selector.select(rest)]
            for key in sources:
                self._handle(key.data)
            if not self._pumps and self._program.fileno() not in self._selector.get_map():
                return
