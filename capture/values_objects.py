"""Instances of user classes, modules included, and exceptions.

An instance is a heap object. Attributes of one that existed before are read one at a time, when
asked for, through sources; the contents hold what was read and what was written.
"""

from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

from dynajit.capture.values import Value
from dynajit.capture.values_containers import DictValue, HeapValue


class _Deleted(Value):
    __slots__ = ()

    def __repr__(self) -> str:
        return "DELETED"


DELETED: Final = _Deleted()


class ObjectValue(HeapValue):
    """An instance of a user class; contents: ObjectContents."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ObjectContents:
    """Attributes written by the captured code (or all, for an object that it made).

    Args:
        existing: the object, if it existed before.
        written: name -> value or DELETED, in the order of the first write; by convention never
            changed in place.
        construct: for an object that it made: values to pass to `cls.__new__` after the class.
    """

    existing: Any = None
    written: dict[str, Value] = field(default_factory=dict)
    construct: tuple[Value, ...] = ()


class ExceptionValue(ObjectValue):
    """An exception instance; `args` is in `construct`, its other attributes in `written`."""

    __slots__ = ()


class TracebackValue(Value):
    """The traceback of an exception that was raised; cannot be rebuilt, so neither can it."""

    __slots__ = ()

    @property
    def python_type(self) -> type:
        return TracebackType


TRACEBACK: Final = TracebackValue()


@dataclass(frozen=True, slots=True, eq=False)
class InstanceDictValue(DictValue):
    """`owner.__dict__` of a modelled instance; shares its contents, not its identity."""

    owner: Any = None

    @property
    def object_id(self) -> None:  # type: ignore[override]
        """None: the id belongs to the instance."""
        return None
