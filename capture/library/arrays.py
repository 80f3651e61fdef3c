"""Arrays and numbers of NumPy's in Python: a tensor over their elements.

What they do is said by functions over tensors (`dynajit.ops.functions.arrays`), which `on_tensors`
calls with the tensors of arrays, and whose results it makes arrays and numbers of. What is not
shown here is left to NumPy.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,var-annotated,has-type,misc"

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

import numpy as np

from dynajit.capture.library.table import (
    only_captured,
    reads_existing,
    rebuilds,
    replaces,
    stands_for,
)
from dynajit.capture.machine.immutables import ARRAYS
from dynajit.core.operators import BINARY, UNARY
from dynajit.ops import TABLE
from dynajit.ops.functions.arrays.table import METHODS


def on_tensors(name: str, *arguments: Any, **keywords: Any) -> Any:
    """What the function or method of this name gives; for captured code only."""
    only_captured(name, arguments, keywords)


def fact(name: str, array: Any) -> Any:
    """An attribute of an array that follows from its type; for captured code only."""
    only_captured(name, array)


def read(array: Any, key: Any) -> Any:
    """`array[key]`; for captured code only."""
    only_captured(array, key)


def store(array: Any, key: Any, value: Any, is_result: bool = False) -> None:
    """`array[key] = value`; of the result of an operation no more is lost than NumPy allows. For
    captured code only."""
    only_captured(array, key, value, is_result)


def refuse(name: str, *arguments: Any) -> Any:
    """Leave a call to NumPy where the elements are not known; for captured code only."""
    only_captured(name, *arguments)


_OPERATORS: Final = {row.operator: row.numpy_name or row.name for row in TABLE if row.operator} | {
    "pos": "positive"
}


def _operators() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, function in _OPERATORS.items():
        found[f"__{name}__"] = _of_one(function) if name in UNARY else _forward(function)
    for name in BINARY:
        found[f"__r{name}__"] = _reflected(_OPERATORS[name])
    for name in METHODS:
        found[name] = _method(name)
    return found


def _forward(function: str) -> Callable[..., Any]:
    def operate(self, other, /):
        return on_tensors(function, self, other)

    return operate


def _reflected(function: str) -> Callable[..., Any]:
    def operate(self, other, /):
        return on_tensors(function, other, self)

    return operate


def _of_one(function: str) -> Callable[..., Any]:
    def operate(self, /):
        return on_tensors(function, self)

    return operate


def _method(name: str) -> Callable[..., Any]:
    said = "." + name

    def call(self, /, *args, **keywords):
        return on_tensors(said, self, *args, **keywords)

    return call


def _in_place(function: str) -> Callable[..., Any]:
    def operate(self, other, /):
        store(self, ..., on_tensors(function, self, other), True)
        return self

    return operate


def _attribute(name: str) -> property:
    def get(self):
        return fact(name, self)

    return property(get)


def _left(name: str) -> Callable[..., Any]:
    def call(self, /, *args):
        return refuse(name, self, *args)

    return call


_FACTS: Final = (
    "shape",
    "dtype",
    "ndim",
    "size",
    "itemsize",
    "nbytes",
    "T",
    "real",
    "imag",
    "strides",
)
_LEFT: Final = ("__bool__", "__float__", "__int__", "__index__", "__complex__", "item", "tolist",
                "__contains__", "__repr__", "__str__", "__format__")  # fmt: skip


def _shared() -> dict[str, Any]:
    """What arrays and numbers have; functions of its own for each form, which they belong to."""
    return {
        **_operators(),
        **{name: _attribute(name) for name in _FACTS},
        **{name: _left(name) for name in _LEFT},
    }


def _of_arrays() -> dict[str, Any]:
    """What arrays have beyond that."""

    def read_item(self, key, /):
        return read(self, key)

    def store_item(self, key, value, /):
        store(self, key, value)

    def length(self, /):
        return fact("len", self)

    def items(self):
        for index in range(len(self)):
            yield self[index]

    def both_of_division(self, other, /):
        return self // other, self % other

    return {
        "__getitem__": read_item,
        "__setitem__": store_item,
        "__len__": length,
        "__iter__": items,
        "__hash__": None,
        "__divmod__": both_of_division,
        **{f"__i{name}__": _in_place(_OPERATORS[name]) for name in BINARY},
    }


def _made_of(original: type) -> Any:
    """The form of a class of NumPy's; nobody calls the form of arrays by its name."""
    members = {"__module__": __name__, **_shared()}
    if original is np.ndarray:
        members |= _of_arrays()
    members = {name: item for name, item in members.items() if hasattr(original, name)}
    for name, member in members.items():
        if isinstance(member, FunctionType):
            member.__name__ = name
    form = type(original.__name__, (), members)
    stands_for(original, form)
    return form


def _existing(original: type) -> Any:
    form = _made_of(original)
    reads_existing(form)
    rebuilds(form)(_array_of if original is np.ndarray else _number_of)
    return form


def _array_of(tensor: Any) -> Any:
    return tensor.numpy() if tensor.requires_grad else tensor.array  # which refuses the first


def _number_of(tensor: Any) -> Any:
    return tensor.array[()]


def _odd_of(tensor: Any, flipped: Any, is_writeable: bool) -> Any:
    found = np.flip(tensor.array, flipped) if flipped else tensor.array[...]
    if not is_writeable:
        found.flags.writeable = False
    return found


#: Class of NumPy's -> its form.
FORMS: Final = {original: _existing(original) for original in ARRAYS}

#: The form of arrays that no tensor can be: `tensor` with some dims from the end to the start
#: (`flipped`), or which may not be written to (not `is_writeable`).
ODD_FORM: Final = _made_of(np.ndarray)
rebuilds(ODD_FORM)(_odd_of)


def _chosen_of(tensor: Any, mask: Any) -> Any:
    return tensor.array[mask.array]


#: The form of the elements of an array that a mask chooses: how many only the data say. `tensor`
#: holds an element for each of the mask, of which those count that it chooses.
CHOSEN_FORM: Final = _made_of(np.ndarray)
rebuilds(CHOSEN_FORM)(_chosen_of)


@replaces(np.errstate)
class errstate:
    """Compiled code never warns: what NumPy is to do about errors matters where it is to raise."""

    def __init__(self, **asked):
        for name in asked:
            if asked[name] not in ("ignore", "warn"):
                refuse("errstate that raises or calls")

    def __enter__(self):
        return None

    def __exit__(self, *exception):
        return None
