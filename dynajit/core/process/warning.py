"""Warnings of this library, at the program's line, that leave no trace in the program.

Contract: a warning of `warn` is of one of the categories in `dynajit.core.errors`, or of PyTorch's
where that warns, too, and is about the innermost line that is not this library's. `warnings.warn`
notes in the globals of the module that it blames (`__warningregistry__`) what was shown; a program
that is looking through its globals just then would notice. These notes are kept here.
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


def warn(message: str, category: type[Warning] = DynajitWarning) -> None:
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


class Once:
    """A warning that is shown once in a process, or each time if programs ask for that. Mutable.

    Args:
        message: what it says.
        category: as PyTorch's.
    """

    #: What `set_warn_always` was given.
    is_always = False

    def __init__(self, message: str, category: type[Warning] = UserWarning) -> None:
        self.message = message
        self.category = category
        self.was_shown = False

    def show(self) -> None:
        """Show it, about the program's line."""
        if not self.was_shown or Once.is_always:
            self.was_shown = True
            warn(self.message, self.category)


def _frame_of_program(own: FrameType) -> FrameType:
    """The innermost frame of neither this library nor a helper; `own` if there is none."""
    frame: FrameType | None = own
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_of_library(file) and not is_helper(file):
            return frame
        frame = frame.f_back
    return own
