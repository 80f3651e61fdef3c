"""Tracebacks that are shown end at the program's line: frames of this library are folded.

Contract: only what shows an uncaught exception is told of fewer frames: `sys.excepthook`,
`threading.excepthook` and IPython. Exceptions keep their frames, for debuggers (`pdb.post_mortem`,
`%debug`, `sys.last_traceback`), pytest and whoever catches them. What is shown is what the hooks
before ours make of it. All is shown of an exception that is a fault of this library
(`InternalError`), and where no frame is the program's. Nothing is asked while no error is shown.
`Config.full_tracebacks` (`DYNAJIT_FULL_TRACEBACKS=1`) shows all frames.

Causes, contexts and the members of groups are folded as well. A frame of the program between frames
of the library (a hook, the backward of a Function, a module) stays. Frames of NumPy and of Python's
own library are folded where this library called them.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final

from dynajit.core.errors import InternalError
from dynajit.core.location import is_helper, is_of_library
from dynajit.core.process import config

NOTE: Final = "(frames of dynajit are left out: {count}.  DYNAJIT_FULL_TRACEBACKS=1 shows them)"


def folded(traceback: TracebackType | None) -> tuple[TracebackType | None, int]:
    """A traceback without the frames of this library, and how many were left out.

    Returns:
        The traceback itself and 0 where nothing is to be left out, or nothing would remain.
    """
    kept: list[TracebackType] = []
    count, within = 0, False
    entry = traceback
    while entry is not None:
        file = entry.tb_frame.f_code.co_filename
        within = is_of_library(file) or (within and is_helper(file))
        if within:
            count += 1
        else:
            kept.append(entry)
        entry = entry.tb_next
    if not count or not kept:
        return traceback, 0
    made: TracebackType | None = None
    for entry in reversed(kept):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made, count


@contextlib.contextmanager
def folding(error: BaseException) -> Iterator[None]:
    """What is shown of an exception within the block is folded; after it all is as it was."""
    if config.current().full_tracebacks or isinstance(error, InternalError):
        yield
        return
    before = [(one, one.__traceback__) for one in _related(error)]
    notes = getattr(error, "__notes__", None)
    total = 0
    # By the base class's methods: a class may refuse to have attributes set.
    for one, traceback in before:
        shorter, count = folded(traceback)
        total += count
        BaseException.with_traceback(one, shorter)
    if total:
        _set_notes(error, [*(notes or ()), NOTE.format(count=total)])
    try:
        yield
    finally:
        for one, traceback in before:
            BaseException.with_traceback(one, traceback)
        if total:
            _set_notes(error, notes)


def _set_notes(error: BaseException, notes: Any) -> None:
    """Also where the class refuses to have attributes set."""
    if notes is None:
        error.__dict__.pop("__notes__", None)
    else:
        error.__dict__["__notes__"] = notes


def _related(error: BaseException) -> list[BaseException]:
    """The exception, its causes and contexts, and the members of groups, each once."""
    found: dict[int, BaseException] = {}
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if id(one) in found:
            continue
        found[id(one)] = one
        waiting += [x for x in (one.__cause__, one.__context__) if x is not None]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
    return list(found.values())


# ---- where exceptions are shown ----


def install() -> None:
    """Fold what is shown from now on. Hooks that are there are called by ours; once per process."""
    if not getattr(sys.excepthook, "folds", False):
        sys.excepthook = _hook(sys.excepthook)
    if not getattr(threading.excepthook, "folds", False):
        threading.excepthook = _hook_of_threads(threading.excepthook)
    _install_in_ipython()


def is_of_python(hook: Callable[..., Any]) -> bool:
    """Whether a `sys.excepthook` is Python's own, folded or not: no program has set another."""
    return getattr(hook, "before", hook) is sys.__excepthook__


def _hook(before: Callable[..., Any]) -> Callable[..., Any]:
    def show(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        with folding(error):
            before(kind, error, error.__traceback__ if traceback is not None else None)

    show.folds = True  # type: ignore[attr-defined]
    show.before = before  # type: ignore[attr-defined]
    return show


def _hook_of_threads(before: Callable[..., Any]) -> Callable[..., Any]:
    def show(args: threading.ExceptHookArgs) -> None:
        error = args.exc_value
        if error is None:
            before(args)
            return
        with folding(error):
            shown = (args.exc_type, error, error.__traceback__, args.thread)
            before(threading.ExceptHookArgs(shown))

    show.folds = True  # type: ignore[attr-defined]
    return show


def _install_in_ipython() -> None:
    """Fold what IPython shows, unless the program has a handler of its own there."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if get_ipython is None else get_ipython()
    if shell is not None and not getattr(shell, "custom_exceptions", ()):
        shell.set_custom_exc((Exception,), _show_in_ipython)


def _show_in_ipython(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    with folding(error):
        shown = (kind, error, error.__traceback__)
        shell.showtraceback(shown, tb_offset=tb_offset, running_compiled_code=True)
    sys.last_traceback = traceback  # for %debug
