"""What the program has asked NumPy to do about floating point errors.

Compiled code computes as NumPy does where such an error is ignored: it never warns. Where the
program wants to be told by an exception or a call, NumPy computes: guards of arrays ask
(`capture/native/guard_snapshot.c`).
"""

from contextvars import ContextVar
from typing import Any, Final

import numpy as np


def _state() -> ContextVar[Any] | None:
    found = getattr(getattr(np, "_core", None), "umath", None)
    state = getattr(found, "_extobj_contextvar", None)
    return state if isinstance(state, ContextVar) else None


#: Where NumPy keeps it; None: this NumPy keeps it elsewhere.
STATE: Final = _state()


def warns_only() -> bool:
    """True if NumPy warns at most."""
    return not set(np.geterr().values()) - {"ignore", "warn"}
