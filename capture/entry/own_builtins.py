"""Whether the built-in functions that the compiler itself calls are Python's own.

A program may put others in their place, for the time of a call perhaps: the compiler would call
them. While one is replaced, functions run as plain Python. It calls no built-in function itself.
"""

import builtins
from typing import Any, Final

MSG_BUILTINS: Final = "a built-in function is replaced by another"

#: What the compiler does not call, or what may be replaced without harm to it.
_HARMLESS: Final = ("print", "input", "open")

_CURRENT: Final[dict[str, Any]] = vars(builtins)
_OWN: Final = {
    name: found
    for name, found in _CURRENT.items()
    if callable(found) and not name.startswith("_") and name not in _HARMLESS
}


def are_replaced() -> bool:
    """True if a program has replaced a built-in function."""
    for name, found in _OWN.items():  # noqa: SIM110 - `any` may be replaced
        if _CURRENT.get(name) is not found:
            return True
    return False
