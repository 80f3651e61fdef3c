"""What a long compilation is doing, in one line of the terminal.

Contract: nothing is written unless the standard error stream is a terminal, `Config.progress` is on
and a compilation takes longer than `AFTER_S`; the line is erased when it ends, and whatever goes
wrong with the stream is ignored. `shown` surrounds a compilation, `note` says where it is; without
a terminal both cost next to nothing.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TextIO

from dynajit.core.process import config
from dynajit.core.quoting import on_a_line

AFTER_S: Final = 2.0
"""Seconds without a word."""
EVERY_S: Final = 0.25
"""Seconds between two looks at what is done."""
_NARROWEST: Final = 20
"""Columns of a terminal that has room for a line."""
_LONGEST_NAME: Final = 24
_USUAL: Final = 80
"""Columns where a terminal does not say how many it has."""

WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "capture": "reading the function",
        "backend": "waiting for its backend",
        "restore": "looking for it on disk",
        "autodiff": "deriving its gradients",
        "partition": "choosing what backward keeps",
        "passes": "simplifying its graph",
        "fusion": "choosing kernels",
        "lowering": "making loops",
        "printing": "writing kernels",
        "compiler": "waiting for the compiler of its kernels",
        "load": "loading its kernels",
        "emit": "writing its bytecode",
    }
)
"""Stages of a compilation -> what they do."""


@dataclass(slots=True, eq=False)
class _Running:
    """A compilation under way. Mutable: its stage changes."""

    name: str
    stream: TextIO
    started: float
    stage: str = "capture"
    ended: threading.Event = field(default_factory=threading.Event)


#: By the number of the thread that compiles.
_running: Final[dict[int, _Running]] = {}


@contextlib.contextmanager
def shown(name: str) -> Iterator[None]:
    """Surrounds the compilation of a function of this name."""
    stream, thread = _terminal(), threading.get_ident()
    if stream is None or thread in _running:
        yield
        return
    running = _running[thread] = _Running(name, stream, time.monotonic())
    writer = threading.Thread(target=_write, args=(running,), name="dynajit-progress", daemon=True)
    writer.start()
    try:
        yield
    finally:
        del _running[thread]
        running.ended.set()
        writer.join()


def note(stage: str) -> None:
    """The compilation in this thread, if any, begins a stage."""
    running = _running.get(threading.get_ident()) if _running else None
    if running is not None:
        running.stage = stage


def _terminal() -> TextIO | None:
    """The stream to write to; None where nobody looks."""
    if not config.current().progress:
        return None
    stream: TextIO | None = sys.stderr
    with contextlib.suppress(Exception):  # a closed stream, or one of the program's own
        return stream if stream is not None and stream.isatty() else None
    return None


def _write(running: _Running) -> None:
    """Write the line until the compilation ends; runs in a thread of its own."""
    if running.ended.wait(AFTER_S):
        return
    with contextlib.suppress(OSError, ValueError):  # the terminal is gone
        while not running.ended.wait(EVERY_S):
            running.stream.write(f"\r\x1b[K{_line(running)}")
            running.stream.flush()
        running.stream.write("\r\x1b[K")
        running.stream.flush()


def _line(running: _Running) -> str:
    """What is going on, no wider than the terminal."""
    what = WORDS.get(running.stage, running.stage)
    seconds = time.monotonic() - running.started
    name = on_a_line(running.name)
    if len(name) > _LONGEST_NAME:
        name = f"...{name[3 - _LONGEST_NAME :]}"  # the end tells functions apart
    line = f"dynajit: compiling {name}: {what} ({seconds:.0f} s)"
    try:
        width = os.get_terminal_size(running.stream.fileno()).columns or _USUAL
    except (OSError, ValueError):
        width = _USUAL
    return line[: max(width, _NARROWEST) - 1]
