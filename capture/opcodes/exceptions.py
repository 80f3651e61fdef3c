"""Exceptions and `with` statements."""

from dataclasses import replace
from typing import Any, Final

from dynajit.capture.bytecode.versions import IS_311
from dynajit.capture.machine.exceptions import Raised, handled, raise_python, write_state
from dynajit.capture.machine.frames import Frame, Steps
from dynajit.capture.machine.machine import Handler, Machine
from dynajit.capture.python.basic import (
    as_python,
    full_name,
    is_known,
    is_none,
    type_name,
    type_of,
    unsupported,
)
from dynajit.capture.python.containers import boolean
from dynajit.capture.python.contents import list_items, new_list
from dynajit.capture.python.exceptions import derive, is_traceback, matches, split, uses_no_handled
from dynajit.capture.values.containers import ListValue
from dynajit.capture.values.objects import ExceptionValue, HandledException, TracebackValue
from dynajit.capture.values.symbolic import NONE, TRUE, Constant, Known, Opaque, Value
from dynajit.capture.values.users_code import lookup


def raise_varargs(machine: Machine, frame: Frame, count: int) -> Steps[None]:
    """`raise`, `raise exc`, `raise exc from cause`."""
    if count == 0:
        _raise_again(machine)
    operands = frame.pop_many(count)
    value = yield from _instance(machine, operands[0], "exceptions must derive from BaseException")
    if count == 2:
        cause = operands[1]
        if not is_none(machine, cause):
            text = "exception causes must derive from BaseException"
            cause = yield from _instance(machine, cause, text)
        write_state(machine, value, "__cause__", cause)
        write_state(machine, value, "__suppress_context__", TRUE)
    raise Raised(value)


def _raise_again(machine: Machine) -> None:
    found = handled(machine)
    if found is None:
        uses_no_handled(machine)
        raise_python(machine, RuntimeError, "No active exception to reraise")
    raise Raised(found, is_going_on=True)


def _instance(machine: Machine, value: Value, text: str) -> Steps[ExceptionValue]:
    """The exception that `raise value` raises."""
    if isinstance(value, Known) and isinstance(value.object, type):
        machine.recorder.use(value)
        if not issubclass(value.object, BaseException):
            raise_python(machine, TypeError, text)
        made = yield from machine.call(value, [], {})
        if not issubclass(type_of(machine, made), BaseException):
            shown = f"calling {value.object!r} should have returned an instance of BaseException"
            raise_python(machine, TypeError, f"{shown}, not {made.python_type!r}")
        return _captured(made)
    if issubclass(type_of(machine, value), BaseException):
        return _captured(value)
    raise_python(machine, TypeError, text)


def _captured(value: Value) -> ExceptionValue:
    """The value, unless the exception existed before the captured code: that is left to Python."""
    if isinstance(value, ExceptionValue):
        return value
    raise unsupported("raise", value)


def push_exc_info(machine: Machine, frame: Frame, argument: Any) -> None:
    """Entering a handler."""
    value = frame.pop()
    frame.push(HandledException(value, machine.heap[frame.handled]))
    frame.push(value)
    machine.heap.write(frame.handled, value)


def pop_except(machine: Machine, frame: Frame, argument: Any) -> None:
    """Leaving a handler."""
    slot = frame.pop()
    if not isinstance(slot, HandledException):
        raise unsupported("leaving a handler", slot)
    machine.heap.write(frame.handled, slot.previous)


_NOT_CLASSES = "catching classes that do not inherit from BaseException is not allowed"


def _accepted(machine: Machine, classes: Value) -> Any:
    if not is_known(classes):
        raise unsupported("except", classes)
    accepted = as_python(machine, classes)
    for cls in accepted if isinstance(accepted, tuple) else (accepted,):
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise_python(machine, TypeError, _NOT_CLASSES)
    return accepted


def check_exc_match(machine: Machine, frame: Frame, argument: Any) -> None:
    """`except Classes`."""
    classes = frame.pop()
    machine.recorder.use(frame.stack[-1])
    frame.push(boolean(matches(machine, frame.stack[-1], _accepted(machine, classes))))


def check_eg_match(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
    """`except* Classes`: exception or None, classes -> the rest, the matching part."""
    classes = frame.pop()
    value = frame.pop()
    accepted = _accepted(machine, classes)
    for cls in accepted if isinstance(accepted, tuple) else (accepted,):
        if issubclass(cls, BaseExceptionGroup):
            text = "catching ExceptionGroup with except* is not allowed. Use except instead."
            raise_python(machine, TypeError, text)
    if isinstance(value, Opaque):
        raise unsupported("except*", value)
    if not isinstance(value, ExceptionValue):
        frame.stack.extend((value, NONE))
        return
    if issubclass(value.cls, BaseExceptionGroup):
        first, second = yield from split(machine, value, accepted)
    elif matches(machine, value, accepted):
        first, second = (yield from _wrapped(machine, value)), None
    else:
        first, second = None, value
    frame.push(NONE if second is None else second)
    frame.push(NONE if first is None else first)
    if first is not None:
        machine.heap.write(frame.handled, first)
        slot = max(n for n, v in enumerate(frame.stack) if isinstance(v, HandledException))
        frame.stack[slot] = replace(frame.stack[slot], exception=first)


def _wrapped(machine: Machine, value: ExceptionValue) -> Steps[Value]:
    """A plain exception caught by `except*`: in a group of its own."""
    group = Known(BaseExceptionGroup)
    made = yield from machine.call(group, [Constant(""), new_list(machine, [value])], {})
    assert isinstance(made, ExceptionValue)
    found = machine.heap[value.identity].state.get("__traceback__")
    if found is not None and not IS_311:
        write_state(machine, made, "__traceback__", found)
    return made


def call_intrinsic_2(machine: Machine, frame: Frame, name: str) -> Steps[None]:
    """The end of `except*`: what is left of the group, with what the handlers raised."""
    original, raised = frame.pop_many(2)
    if name != "PREP_RERAISE_STAR" or not isinstance(raised, ListValue):
        raise unsupported(name)
    for value in (original, *list_items(machine, raised)):
        if _holds_existing(machine, value):
            raise unsupported(name, value)
    items = [item for item in list_items(machine, raised) if isinstance(item, ExceptionValue)]
    if not items:
        frame.push(NONE)
        return
    if not issubclass(original.cls, BaseExceptionGroup):
        frame.push(items[0])
        return
    again = [item for item in items if _is_part(machine, item, original)]
    new = [item for item in items if item not in again]
    left = None
    if again:
        kept = {leaf for item in again for leaf in _leaves(machine, item)}
        left = yield from _projection(machine, original, kept)
    together = [*new, *([left] if left is not None else [])]
    if len(together) == 1:
        frame.push(together[0])
        return
    group = Known(BaseExceptionGroup)
    frame.push((yield from machine.call(group, [Constant(""), new_list(machine, together)], {})))


def _holds_existing(machine: Machine, value: Value) -> bool:
    """True for an exception from before the call, or a group with one in it."""
    if isinstance(value, ExceptionValue) and issubclass(value.cls, BaseExceptionGroup):
        items = machine.heap[value.identity].state["exceptions"].items
        return any(_holds_existing(machine, item) for item in items)
    return isinstance(value, Opaque)


def _traceback(machine: Machine, value: ExceptionValue) -> Value | None:
    found: Value | None = machine.heap[value.identity].state.get("__traceback__")
    return found


def _is_part(machine: Machine, item: ExceptionValue, original: ExceptionValue) -> bool:
    """True for a part of the original group that goes on as it was."""
    states = [machine.heap[value.identity].state for value in (item, original)]
    names = ("__traceback__", "__context__", "__cause__")
    return all(_is_one(states[0].get(name), states[1].get(name)) for name in names)


def _is_one(left: Value | None, right: Value | None) -> bool:
    """Whether two are one object: of one traceback there may be several handles."""
    if isinstance(left, TracebackValue) and isinstance(right, TracebackValue):
        return left.identity == right.identity
    return left is right


def _leaves(machine: Machine, value: ExceptionValue) -> list[int]:
    if not issubclass(value.cls, BaseExceptionGroup):
        return [value.identity]
    items = machine.heap[value.identity].state["exceptions"].items
    return [leaf for item in items for leaf in _leaves(machine, item)]


def _projection(machine: Machine, group: ExceptionValue, kept: set[int]) -> Steps[Value | None]:
    """The part of a group that holds the leaves `kept`, nesting as in the original; or None."""
    if not issubclass(group.cls, BaseExceptionGroup):
        return group if group.identity in kept else None
    found = []
    for item in machine.heap[group.identity].state["exceptions"].items:
        part = yield from _projection(machine, item, kept)
        if part is not None:
            found.append(part)
    return (yield from derive(machine, group, found)) if found else None


def reraise(machine: Machine, frame: Frame, argument: Any) -> None:
    """Going on with the exception on top."""
    value = frame.pop()
    if not isinstance(value, ExceptionValue):
        raise unsupported("reraise", value)
    raise Raised(value)


def before_with(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
    """Entering a `with` block."""
    manager = frame.pop()
    cls = type_of(machine, manager)
    for name, missing in (("__enter__", ""), ("__exit__", " (missed __exit__ method)")):
        if not _has(cls, name):
            raise_python(
                machine, TypeError,
                f"'{type_name(cls)}' object does not support the context manager protocol{missing}",
            )  # fmt: skip
    enter = yield from machine.get_special(manager, "__enter__")
    leave = yield from machine.get_special(manager, "__exit__")
    frame.push(leave)
    frame.push((yield from machine.call(enter, [], {})))


def load_special(machine: Machine, frame: Frame, name: str) -> Steps[None]:
    """The method `name` of the class, about to be called."""
    manager = frame.pop()
    cls = type_of(machine, manager)
    if not _has(cls, name):
        raise_python(machine, TypeError, _missing_method(cls, name))
    frame.push((yield from machine.get_special(manager, name)))
    frame.push(None)


def _has(cls: type, name: str) -> bool:
    return lookup(cls, name) is not lookup(cls, "a name that no class has")


def _missing_method(cls: type, method: str) -> str:
    """What 3.14 says where a class lacks a method of the `with` statement."""
    name = full_name(cls)
    text = f"'{name}' object does not support the context manager protocol (missed {method} method)"
    if _has(cls, "__aenter__") and _has(cls, "__aexit__"):
        text += (
            " but it supports the asynchronous context manager protocol. "
            "Did you mean to use 'async with'?"
        )
    return text


def with_except_start(machine: Machine, frame: Frame, has_two_slots: bool) -> Steps[None]:
    """Calling `__exit__` with the exception on top."""
    value = frame.stack[-1]
    leave = frame.stack[-5 if has_two_slots else -4]
    if not isinstance(value, ExceptionValue):
        raise unsupported("__exit__", value)
    found = _traceback(machine, value)
    traceback: Value = NONE
    if found is not None and is_traceback(machine, found):
        traceback = found
    arguments = [Known(value.cls), value, traceback]
    frame.push((yield from machine.call(leave, arguments, {})))


HANDLERS: Final[dict[str, Handler]] = {
    "RAISE_VARARGS": raise_varargs,
    "PUSH_EXC_INFO": push_exc_info,
    "POP_EXCEPT": pop_except,
    "CHECK_EXC_MATCH": check_exc_match,
    "CHECK_EG_MATCH": check_eg_match,
    "CALL_INTRINSIC_2": call_intrinsic_2,
    "RERAISE": reraise,
    "BEFORE_WITH": before_with,
    "LOAD_SPECIAL": load_special,
    "WITH_EXCEPT_START": with_except_start,
}
