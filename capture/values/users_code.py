"""Where operators run the user's own Python code: special methods of classes and metaclasses.

What is known by its Python object (`values.Known`) may be worked with while capturing, unless that
runs code of the user.
"""

import sys
import types
from typing import Any, Final

from dynajit.capture import _capture, breaks
from dynajit.capture.values.by_class import remembered
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.symbolic import Known, Value
from dynajit.core.operators import BINARY, COMPARISONS, UNARY

MISSING: Final = object()


def text_keyed(fields: dict[Any, Any]) -> dict[str, Any]:
    """The `__dict__` of an object, as it is.

    Raises:
        GraphBreak: it has keys that are no strings: looking a name up may run their `__eq__`.
    """
    if not _capture.has_text_keys(fields):
        detail = "a __dict__ with keys that are no strings"
        raise breaks.GraphBreak(breaks.UNSUPPORTED_OPERATION, detail)
    return fields


def lookup(cls: type, name: str) -> Any:
    """What the class stores under a name, by its bases; MISSING where nothing does.

    Raises:
        GraphBreak: a class has keys that are no strings: asking runs their `__eq__`.
    """
    try:
        return _capture.class_member(cls, name, MISSING)
    except LookupError as error:
        raise breaks.GraphBreak(breaks.UNSUPPORTED_OPERATION, str(error)) from None


def class_with_methods(value: Value, *names: str) -> type | None:
    """The class of a value whose operators are looked up there, or None.

    That is an instance of a user class, and an object known by identity (a class with a
    metaclass, a member of an enumeration) if one of `names` is the user's own Python code there.
    """
    if isinstance(value, ObjectValue):
        return value.cls
    if isinstance(value, Known) and has_own_operators(type(value.object)):
        kind = type(value.object)
        return kind if any(is_users_code(lookup(kind, name)) for name in names) else None
    return None


def user_method(value: Value, *names: str) -> Any:
    """A special method of the user's that an object known by identity has, or None.

    Members of enumerations and classes have methods of their classes; a tuple those of its items.
    """
    if isinstance(value, TupleValue):
        return next(filter(None, (user_method(item, *names) for item in value.items)), None)
    if not isinstance(value, Known):
        return None
    found = (lookup(type(value.object), name) for name in names)
    return next(filter(is_users_code, found), None)


def is_users_code(raw: Any) -> bool:
    """True for a Python function that is not of the standard library."""
    if not isinstance(raw, types.FunctionType):
        return False
    module = str(raw.__globals__.get("__name__", ""))
    return module.partition(".")[0] not in sys.stdlib_module_names


@remembered
def has_own_operators(kind: type) -> bool:
    """True if an operator, `hash`, `bool` or the text of an instance may run the user's code."""
    return any(
        name in _OPERATORS and is_users_code(raw)
        for base in kind.__mro__
        for name, raw in vars(base).items()
    )


_OPERATORS: Final = frozenset(
    {f"__{way}{name}__" for way in ("", "r", "i") for name in (*BINARY, "divmod")}
    | {f"__{name}__" for name in (
        *COMPARISONS, *UNARY, "hash", "bool", "len", "contains", "iter", "next", "getitem",
        "index", "int", "float", "complex", "repr", "str", "format", "round", "reversed", "enter",
        "exit")}
)  # fmt: skip


@remembered
def answers_itself(kind: type) -> bool:
    """True for a metaclass with code of its own for what is asked of every class."""
    return any(lookup(kind, name) is not plain for name, plain in _OF_CLASSES.items())


_OF_CLASSES: Final = {
    name: vars(type)[name] for name in (
        "__getattribute__", "__mro__", "__bases__", "__dict__", "__name__", "__qualname__",
        "__flags__", "__dictoffset__", "__weakrefoffset__", "__basicsize__")
}  # fmt: skip


def is_quiet(value: Value) -> bool:
    """True if operators on a value that is known run no code of the user."""
    if isinstance(value, TupleValue):
        return all(is_quiet(item) for item in value.items)
    return not (isinstance(value, Known) and has_own_operators(type(value.object)))


def inherits(cls: type, base: Any) -> bool:
    """True if `base` is among the bases of `cls`; asks no metaclass."""
    return any(found is base for found in cls.__mro__)


def own_method(value: Value, name: str) -> Any:
    """A special method written in Python, or None."""
    cls = class_with_methods(value, name)
    if cls is None:
        return None
    method = lookup(cls, name)
    return method if isinstance(method, types.FunctionType) else None
