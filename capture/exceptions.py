"""Python exceptions met while executing symbolically.

`Raised` carries the symbolic exception instance through the operations; the executor's loop looks
for a handler in the captured code's exception tables. One that leaves the root frame is a break:
the real instruction raises it.
"""

from dataclasses import replace
from typing import Any

from dynajit.capture.values import Constant, Value, constant
from dynajit.capture.values_objects import TRACEBACK, ExceptionValue, ObjectContents


class Raised(Exception):
    """A Python exception of the captured program."""

    def __init__(self, value: ExceptionValue) -> None:
        super().__init__(value.cls.__name__)
        self.value = value


class NotKnown(Exception):
    """A value is needed as a Python object and is not fully known."""


def new_exception(x: Any, cls: type, args: tuple[Value, ...]) -> ExceptionValue:
    """An exception instance made by the captured code."""
    identity = x.heap.allocate(ObjectContents(None, {}, args))
    return ExceptionValue(identity, cls)


def mark_raised(x: Any, value: ExceptionValue) -> None:
    """A handler gets the exception: it has a traceback, and perhaps a context, from here on."""
    contents: ObjectContents = x.heap[value.identity]
    if "__traceback__" not in contents.written:
        written = {**contents.written, "__traceback__": TRACEBACK}
        x.heap.write(value.identity, replace(contents, written=written))


def raise_python(x: Any, cls: type, *args: Any) -> Any:
    """Raise `cls(*args)` in the captured program."""
    values = tuple(a if isinstance(a, Value) else constant(a) for a in args)
    raise Raised(new_exception(x, cls, values))


def stop_iteration_value(raised: Raised, x: Any) -> Value:
    """`exc.value` of a StopIteration."""
    args = x.heap[raised.value.identity].construct
    return args[0] if args else Constant(None)
