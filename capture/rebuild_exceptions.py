"""What compiled code calls to make exceptions again: tracebacks and contexts.

Called by the code that `capture.rebuild` writes.
"""

import sys
import types
from collections.abc import Generator, Mapping
from typing import Any, Final

from dynajit.capture.values_objects import Passed


def _template() -> Generator[None, None, None]:
    yield


#: Attributes that change others when they are set come first.
_FIRST: Final = ("__cause__",)


def in_order_of_writing(state: Mapping[str, Any]) -> dict[str, Any]:
    """The C fields of an exception in an order in which they can be set."""
    return {name: state[name] for name in sorted(state, key=lambda name: name not in _FIRST)}


def adopt_context(error: BaseException) -> None:
    """Give an exception the context that raising it in the running caller would have given."""
    handled = sys.exc_info()[1]
    if handled is not None and handled is not error:
        error.__context__ = handled


def make_traceback(entries: tuple[Passed, ...]) -> types.TracebackType | None:
    """A traceback through frames that look like those of the original functions."""
    made = None
    for entry in reversed(entries):
        made = types.TracebackType(made, _frame(entry.code, entry.globals), -1, entry.line)
    return made


def _frame(code: types.CodeType, globals: dict[str, Any]) -> types.FrameType:
    """The frame of a function of the same file and name that never runs."""
    look_alike = _template.__code__.replace(
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
    )
    generator: Any = types.FunctionType(look_alike, globals)()
    frame: types.FrameType = generator.gi_frame
    return frame
