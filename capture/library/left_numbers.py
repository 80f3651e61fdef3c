"""Numbers of Python's that a graph computes: a tensor without dims that holds one.

A program may return and keep them. Whatever it computes with one breaks the graph, and goes on with
Python's own int or float.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,var-annotated,has-type,misc"

from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.library.arrays import refuse
from dynajit.capture.library.table import rebuilds, stands_for

_OF_OBJECTS: Final = frozenset(dir(object)) - {
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__repr__", "__str__",
    "__format__", "__reduce__", "__reduce_ex__", "__sizeof__", "__dir__",
}  # fmt: skip


def _left(original: type, name: str) -> Callable[..., Any]:
    said = f"{original.__name__}.{name}"

    def call(self, /, *args, **keywords):
        return refuse(said, self)

    call.__name__ = name
    return call


def _form_of(original: type) -> Any:
    names = [name for name in dir(original) if name not in _OF_OBJECTS]
    members: dict[str, Any] = {
        "__module__": __name__,
        **{name: _left(original, name) for name in names},
    }
    for name in ("real", "imag", "numerator", "denominator"):
        if name in members:
            members[name] = property(members[name])
    form = type(original.__name__, (), members)
    stands_for(original, form)
    rebuilds(form)(_number_of)
    return form


def _number_of(tensor: Any) -> Any:
    return tensor.array.item()


#: Class of Python's -> its form.
LEFT_NUMBERS: Final[dict[type, Any]] = {original: _form_of(original) for original in (int, float)}
#: That of bool is for what leaves the function at once: its objects are known by identity.
RETURNED_BOOL: Final = _form_of(bool)
LEFT_FORMS: Final = frozenset((*LEFT_NUMBERS.values(), RETURNED_BOOL))
