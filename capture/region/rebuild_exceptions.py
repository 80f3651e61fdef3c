"""What compiled code calls to make exceptions again: tracebacks and contexts."""

import sys
import types
from collections.abc import Generator, Mapping
from typing import Any, Final

from dynajit.capture.values.objects import Passed


def _template() -> Generator[None, None, None]:
    yield


_UNITS: Final = len(_template.__code__.co_code) // 2

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


def make_traceback(following: types.TracebackType | None, entry: Passed) -> types.TracebackType:
    """A traceback through a frame that looks like that of the original function."""
    at = -1 if entry.columns is None else 2 * (_UNITS - 1)
    return types.TracebackType(following, _frame(entry), at, entry.line)


def _frame(entry: Passed) -> types.FrameType:
    """The frame of a function of the same file, name and variables that never runs."""
    code = entry.code
    names = dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars))
    look_alike = _template.__code__.replace(
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
        co_varnames=tuple(names),
        co_nlocals=len(names),
        co_linetable=_line_table(entry),
    )
    generator: Any = types.FunctionType(look_alike, entry.globals)()
    frame: types.FrameType = generator.gi_frame
    return frame


def _line_table(entry: Passed) -> bytes:
    """A table that puts the template's last instruction at the entry's line and columns, and all
    others, at one of which its frame stands, at the line where the frame stands.

    Source: CPython, Objects/locations.md.
    """
    last_line = entry.line if entry.last_line is None else entry.last_line
    delta = last_line - entry.code.co_firstlineno
    table = b""
    for start in range(0, _UNITS - 1, 8):
        count = min(_UNITS - 1 - start, 8)
        table += bytes([0x80 | _NO_COLUMNS << 3 | count - 1]) + _signed(delta)
        delta = 0
    place, kind = _signed(entry.line - last_line), _NO_COLUMNS
    if entry.columns is not None:
        kind = _LONG
        place += _unsigned(0) + b"".join(_unsigned(column + 1) for column in entry.columns)
    return table + bytes([0x80 | kind << 3]) + place


_NO_COLUMNS: Final = 13
_LONG: Final = 14


def _unsigned(number: int) -> bytes:
    """Six bits at a time, lowest first; bit 6 says that more follow."""
    found = bytearray()
    while number >= 64:
        found.append(64 | number & 63)
        number >>= 6
    found.append(number)
    return bytes(found)


def _signed(number: int) -> bytes:
    """The sign is the lowest bit."""
    return _unsigned(-number << 1 | 1 if number < 0 else number << 1)
