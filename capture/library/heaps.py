"""`heapq` and `bisect`: the Python versions of their own modules."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import bisect
import heapq
from types import BuiltinFunctionType

from dynajit.capture.library.pure import load
from dynajit.capture.library.table import replaces


def _checked(form):
    """The C versions say it in words of their own when there is nothing to take."""

    def take(heap, *item):
        if not heap:
            raise IndexError("index out of range")
        return form(heap, *item)

    return take


_TAKING = ("heappop", "heapreplace", "_heappop_max", "_heapreplace_max")


def _enter(original: object, *hidden: str) -> None:
    python = load(original.__name__, *hidden)
    for name, function in vars(original).items():
        form = getattr(python, name, None)
        if isinstance(function, BuiltinFunctionType) and form is not None:
            replaces(function)(_checked(form) if name in _TAKING else form)


_enter(heapq, "_heapq")
_enter(bisect, "_bisect")
