"""Runs a rank's program as Python would, and says how it ended.

Contract: `run` is called in the process that is the rank, once. A script, a module or what `spawn`
pickled runs as the main program, with `sys.argv` and `sys.path[0]` as Python sets them. A program
that fails does not go through `MPI_Finalize`, which would wait for the other ranks.
"""

import atexit
import multiprocessing
import os
import pickle
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from io import TextIOWrapper
from multiprocessing import spawn
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, NoReturn

from dynajit.core.process import tracebacks
from dynajit.distributed.launching.messages import FAILED, FINISHED, Link

_HIDDEN: Final = (str(Path(__file__).parent), runpy.__file__, "<frozen runpy>", "<frozen importlib")
"""Files of frames that are not the program's."""


class Reporter:
    """Says how the program ended: to the supervisor, or on stderr where there is none.

    Args:
        link: to the supervisor, or None.
    """

    def __init__(self, link: Link | None) -> None:
        self._link = link

    def finished(self) -> None:
        """The end was reached."""
        if self._link is not None:
            self._link.send(FINISHED)

    def failed(self, time_s: float, code: int, error: str, text: str) -> None:
        """The program raised, or called `sys.exit`.

        Args:
            time_s: when, in seconds since the epoch.
            code: exit code.
            error: what happened, in a few words.
            text: the traceback, or empty.
        """
        if self._link is not None:
            self._link.send(FAILED, time=time_s, code=code, error=error, text=text)
        elif text:
            sys.stderr.write(text)


def run(main: Callable[[], None], reporter: Reporter) -> None:
    """Call `main`, and report. Returns if the program came to its end, else leaves the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a pipe: lines are to be seen when they are written
            stream.reconfigure(line_buffering=True)
    try:
        main()
    except SystemExit as request:
        when = time.time()
        code = _exit_code(request)
        if code:
            reporter.failed(when, code, f"called sys.exit({request.code!r})", "")
            _leave(code)
    except KeyboardInterrupt as error:
        reporter.failed(time.time(), 130, "was interrupted (KeyboardInterrupt)", _text_of(error))
        _leave(130)
    except BaseException as error:
        when = time.time()  # before its text is made, which takes a while
        reporter.failed(when, 1, f"raised {type(error).__name__}", _text_of(error))
        if not tracebacks.is_of_python(sys.excepthook):  # the program wants to know
            sys.excepthook(type(error), error, _own_part(error.__traceback__))
        _leave(1)
    for thread in threading.enumerate():  # as Python does: they may still answer other ranks
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    reporter.finished()


def _exit_code(request: SystemExit) -> int:
    if request.code is None:
        return 0
    if isinstance(request.code, int):
        return request.code & 0xFF
    print(request.code, file=sys.stderr)
    return 1


def _leave(code: int) -> NoReturn:
    """End the process as Python does, but without libraries' own ends in C."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the program's first frame on."""
    own = trace
    while own is not None and own.tb_frame.f_code.co_filename.startswith(_HIDDEN):
        own = own.tb_next
    return own or trace


def _text_of(error: BaseException) -> str:
    own = _own_part(error.__traceback__)
    return "".join(traceback.format_exception(type(error), error, own))


def script(path: str, arguments: list[str]) -> None:
    """Run a file, or a folder or archive with a `__main__.py`."""
    sys.argv = [path, *arguments]
    if not os.path.isfile(path) or path.endswith((".zip", ".pyz")):
        runpy.run_path(path, run_name="__main__")
        return
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    module = ModuleType("__main__")
    module.__file__ = path
    module.__loader__ = SourceFileLoader("__main__", path)
    # It stays there: pickles, threads and functions at exit look for it.
    sys.modules["__main__"] = module
    exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)


def module(name: str, arguments: list[str]) -> None:
    """Run a module, as `python -m` does."""
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def function(path: str, rank: int) -> None:
    """Call what `spawn` pickled, with the rank before its arguments."""
    process: Any = multiprocessing.current_process()
    with open(path, "rb") as file:
        # As `multiprocessing` does it: a main module that starts processes while it is imported
        # is told so.
        process._inheriting = True
        try:
            spawn.prepare(pickle.load(file))
            called, arguments = pickle.load(file)
        finally:
            del process._inheriting
    called(rank, *arguments)
