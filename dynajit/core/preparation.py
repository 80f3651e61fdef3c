"""What a function makes in its first call only: made for real before the call is captured.

A captured function that fills its object's empty state in the first call, and uses it in all later
ones, would be compiled twice: for the empty state, and for the filled one. Contract:
`@prepared_by("method")` says of a method that `self.method(has_gradient)` makes what is missing,
that doing so early changes nothing else, and that calling it again does nothing. Capture calls it
where the method is called for an existing object, as long as the captured code has not changed what
it looks at. `has_gradient(tensor)` says whether a tensor has a gradient by then.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar

from dynajit.core.records import record

_F = TypeVar("_F", bound=Callable[..., Any])


@record
class Preparation:
    """What comes before a method.

    Args:
        method: name of the method that makes what is missing.
        reads: attributes of the object that it looks at, and into.
        fills: attributes whose containers it changes.
        unless: a parameter of the function: where it is given, and not None, the function runs code
            of the program before it looks, and nothing is made early.
    """

    method: str
    reads: tuple[str, ...]
    fills: tuple[str, ...]
    unless: str | None = None


_known: Final[dict[FunctionType, Preparation]] = {}


def prepared_by(
    method: str, reads: tuple[str, ...], fills: tuple[str, ...], unless: str | None = None
) -> Callable[[_F], _F]:
    """A decorator: see the module, and `Preparation`."""

    def declare(function: _F) -> _F:
        assert isinstance(function, FunctionType)
        _known[function] = Preparation(method, reads, fills, unless)
        return function

    return declare


def preparation_of(function: FunctionType) -> Preparation | None:
    """What comes before a function, or None."""
    return _known.get(function)
