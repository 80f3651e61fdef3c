"""Warnings of the compiler that leave no trace in the program.

`warnings.warn` notes in the globals of the module that it blames (`__warningregistry__`) what was
shown; a program that is looking through its globals just then would notice. These notes are kept
here.
"""

import sys
import warnings
from typing import Any, Final

from dynajit.core.quoting import on_a_terminal

#: What was shown, as the `warnings` module keeps it.
_SHOWN: Final[dict[Any, Any]] = {}


def warn(message: str, stacklevel: int) -> None:
    """Show a RuntimeWarning.

    Args:
        message: its text.
        stacklevel: which frame it is about: 1 for the caller, 2 for the caller's caller ...
    """
    try:
        frame = sys._getframe(stacklevel)
    except ValueError:  # there are fewer frames
        frame = sys._getframe(1)
    warnings.warn_explicit(
        on_a_terminal(message),
        RuntimeWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        dict.get(frame.f_globals, "__name__"),
        _SHOWN,
    )
