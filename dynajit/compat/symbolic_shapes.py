"""What programs ask of sizes by `fx.experimental.symbolic_shapes`.

Contract: a size is a number, or a symbol whose value is known while a function is captured:
comparing it gives an answer, which is guarded. Nothing here has a size without a value, so no
question stays open.
"""

from typing import Any

from dynajit.core.errors import DynajitError
from dynajit.core.types.symint import SymInt


class GuardOnDataDependentSymNode(DynajitError, RuntimeError):
    """A question about a size without a value; there is none, so nobody raises it."""


def guard_or_false(a: Any) -> bool:
    """Whether a comparison of sizes holds."""
    return bool(a)


def guard_or_true(a: Any) -> bool:
    """Whether a comparison of sizes holds."""
    return bool(a)


def guard_size_oblivious(expr: Any) -> bool:
    """Whether a comparison of sizes holds."""
    return bool(expr)


def statically_known_true(x: object) -> bool:
    """Whether a comparison of sizes holds; where sizes vary that is guarded."""
    return bool(x)


def is_symbolic(val: Any) -> bool:
    """Whether it is the size of a graph, not a number."""
    return isinstance(val, SymInt)


def free_symbols(val: Any) -> set[Any]:
    """The symbols that a size was left open with: none."""
    return set()


def free_unbacked_symbols(x: object) -> set[Any]:
    """The symbols without a value: none."""
    return set()


def has_free_symbols(val: Any) -> bool:
    """Whether sizes are left open: False."""
    return False


def has_free_unbacked_symbols(x: object) -> bool:
    """Whether there are sizes without a value: False."""
    return False


__all__ = [
    "GuardOnDataDependentSymNode",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_or_false",
    "guard_or_true",
    "guard_size_oblivious",
    "has_free_symbols",
    "has_free_unbacked_symbols",
    "is_symbolic",
    "statically_known_true",
]
