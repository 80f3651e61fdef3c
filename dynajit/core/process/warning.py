"""Warnings of this library, at the program's line, that leave no trace in the program.

Contract: a warning of `warn` is of one of the categories in `dynajit.core.errors` and is about the
innermost line that is not this library's. `warnings.warn` notes in the globals of the module that
it blames (`__warningregistry__`) what was shown; a program that is looking through its globals just
then would notice. These notes are kept here.
"""

import sys
import warnings
from types import FrameType
from typing import Any, Final

from dynajit.core.errors import DynajitWarning
from dynajit.core.location import is_helper, is_of_library
from dynajit.core.quoting import on_a_terminal

#: What was shown, as the `warnings` module keeps it.
_SHOWN: Final[dict[Any, Any]] = {}


def warn(message: str, category: type[DynajitWarning] = DynajitWarning) -> None:
    """Show a warning about the program's line."""
    frame = _frame_of_program(sys._getframe(1))
    warnings.warn_explicit(
        on_a_terminal(message),
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        dict.get(frame.f_globals, "__name__"),
        _SHOWN,
    )


def _frame_of_program(own: FrameType) -> FrameType:
    """The innermost frame of neither this library nor a helper; `own` if there is none."""
    frame: FrameType | None = own
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_of_library(file) and not is_helper(file):
            return frame
        frame = frame.f_back
    return own
