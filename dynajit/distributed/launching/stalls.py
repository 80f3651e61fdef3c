"""Where a program waits for other ranks, once one of them has ended.

Contract: `Watch` is a thread of the program that sleeps until the launcher says that a rank has
ended. From then on it says when the main thread stays in one call of `mpi4py` or of
`dynajit.distributed`, and when that call is over. A launcher that hears it of every rank that still
runs knows that nobody will go on: those that run wait, and those that could answer are gone.
"""

import ast
import inspect
import linecache
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from dynajit.distributed.launching.messages import WAITING, WATCH, Link

WAIT_S: Final = 4.0
"""A call that lasts shorter is not reported: most messages take far less, and the whole job is to
end within 10 s."""

_POLL_S: Final = 0.5
_OURS: Final = str(Path(__file__).parent.parent)
_LAUNCHING: Final = str(Path(__file__).parent)


class Call(NamedTuple):
    """A call that is under way: the frame that makes it, and where in its code."""

    frame: int
    instruction: int
    place: str


class Watch(threading.Thread):
    """Reads what the launcher says to this program. Mutable.

    Args:
        link: to the supervisor.
    """

    def __init__(self, link: Link) -> None:
        super().__init__(name="dynajit-launch-watch", daemon=True)
        self._link = link
        self._main = threading.main_thread().ident

    def run(self) -> None:
        """Sleep until a rank has ended, then look again and again."""
        while True:
            messages = self._link.receive()
            if messages is None:
                return
            if any(message["what"] == WATCH for message in messages):
                break
        self._look()

    def _look(self) -> None:
        last: Call | None = None
        since = 0.0
        is_told = False
        while True:
            frame = sys._current_frames().get(self._main or 0)
            call = None if frame is None else waiting_call(frame)
            del frame
            now = time.monotonic()
            if call is None or call != last:
                if is_told:
                    self._link.send(WAITING, place=None)
                last, since, is_told = call, now, False
            elif not is_told and now - since >= WAIT_S:
                self._link.send(WAITING, place=call.place)
                is_told = True
            time.sleep(_POLL_S)


def waiting_call(frame: FrameType) -> Call | None:
    """The call of another rank's doing that a thread is in, or None.

    Args:
        frame: the innermost one of the thread.
    """
    found: FrameType | None = frame
    while found is not None and _is_ours(found):
        found = found.f_back
    if found is None or (found is frame and not _calls_mpi(found)):
        return None
    place = f"{_source_of(found)} ({found.f_code.co_filename}:{found.f_lineno})"
    return Call(id(found), found.f_lasti, place)


def _is_ours(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(_OURS) and not file.startswith(_LAUNCHING)


def _source_of(frame: FrameType) -> str:
    """The text of the expression that is computed, as far as it stands on one line."""
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, last, start, end = positions
    if line is None:
        return ""
    text = linecache.getline(frame.f_code.co_filename, line, frame.f_globals)
    if line == last and start is not None and end is not None:
        # Columns count bytes of UTF-8.
        text = text.encode()[start:end].decode(errors="replace")
    return text.strip()


def _calls_mpi(frame: FrameType) -> bool:
    """Whether the call is one of a method of `mpi4py`: `comm.recv()`, `self.window.Lock(0)`."""
    try:
        tree = ast.parse(_source_of(frame), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    if not isinstance(tree, ast.Call):
        return False
    names: list[str] = []
    node: ast.expr = tree.func
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    found = frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    while names and not _is_of_mpi(found):
        found = _part(found, names.pop())
    return _is_of_mpi(found)


def _part(value: Any, name: str) -> Any:
    """An attribute as it is stored: no code of the program runs in this thread."""
    return inspect.getattr_static(value, name, None)


def _is_of_mpi(value: Any) -> bool:
    owner = getattr(value, "__self__", value) if inspect.isroutine(value) else value
    module = getattr(owner, "__name__", "") if inspect.ismodule(owner) else type(owner).__module__
    return str(module).partition(".")[0] == "mpi4py"
