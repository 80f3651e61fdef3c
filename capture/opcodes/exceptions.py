"""Exceptions and `with` statements."""

from typing import Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.exceptions import Raised, raise_python
from dynajit.capture.frames import Frame
from dynajit.capture.operations_basic import Steps, as_python, defines, is_known, unsupported
from dynajit.capture.operations_containers import boolean
from dynajit.capture.values import Known, Value
from dynajit.capture.values_objects import TRACEBACK, ExceptionValue


class PreviousException(Value):
    """The slot that PUSH_EXC_INFO leaves below an exception; cannot be rebuilt."""

    __slots__ = ()

    @property
    def python_type(self) -> type:
        return BaseException


PREVIOUS = PreviousException()


def raise_varargs(x: Any, frame: Frame, count: int) -> Steps:
    """`raise`, `raise exc`, `raise exc from cause`."""
    if count == 0:
        raise GraphBreak(breaks.UNSUPPORTED_INSTRUCTION, "raise without an exception")
    operands = frame.pop_many(count)
    value = operands[0]
    if isinstance(value, Known) and isinstance(value.object, type):
        value = yield from x.call(value, [], {})
    if not isinstance(value, ExceptionValue):
        raise unsupported("raise", value)
    raise Raised(value)


def push_exc_info(x: Any, frame: Frame, argument: Any) -> None:
    """Entering a handler."""
    value = frame.pop()
    frame.push(PREVIOUS)
    frame.push(value)


def pop_except(x: Any, frame: Frame, argument: Any) -> None:
    """Leaving a handler."""
    frame.pop()


def check_exc_match(x: Any, frame: Frame, argument: Any) -> None:
    """`except Classes`."""
    classes = frame.pop()
    value = frame.stack[-1]
    if not is_known(classes):
        raise unsupported("except", classes)
    accepted = as_python(x, classes)
    if not isinstance(accepted, (type, tuple)):
        raise_python(
            x, TypeError,
            "catching classes that do not inherit from BaseException is not allowed",
        )  # fmt: skip
    frame.push(boolean(issubclass(value.cls, accepted)))


def reraise(x: Any, frame: Frame, argument: Any) -> None:
    """Going on with the exception on top."""
    value = frame.pop()
    if not isinstance(value, ExceptionValue):
        raise unsupported("reraise", value)
    raise Raised(value)


def before_with(x: Any, frame: Frame, argument: Any) -> Steps:
    """Entering a `with` block."""
    manager = frame.pop()
    for name in ("__enter__", "__exit__"):
        if not defines(x.type_of(manager), name):
            raise_python(
                x, TypeError,
                f"'{manager.python_type.__name__}' object does not support the context manager "
                "protocol",
            )  # fmt: skip
    leave = yield from x.get_special(manager, "__exit__")
    enter = yield from x.get_special(manager, "__enter__")
    frame.push(leave)
    frame.push((yield from x.call(enter, [], {})))


def with_except_start(x: Any, frame: Frame, argument: Any) -> Steps:
    """Calling `__exit__` with the exception on top."""
    value = frame.stack[-1]
    leave = frame.stack[-4]
    arguments = [Known(value.cls), value, TRACEBACK]
    frame.push((yield from x.call(leave, arguments, {})))


HANDLERS = {
    "RAISE_VARARGS": raise_varargs,
    "PUSH_EXC_INFO": push_exc_info,
    "POP_EXCEPT": pop_except,
    "CHECK_EXC_MATCH": check_exc_match,
    "RERAISE": reraise,
    "BEFORE_WITH": before_with,
    "WITH_EXCEPT_START": with_except_start,
}
