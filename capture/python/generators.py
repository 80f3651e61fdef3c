"""Generators made by the captured code: resume, send, throw, close, and what dies unfinished.

Functions of the machine (`capture.machine.machine`). The contents
of a generator are its `GeneratorState` while it is suspended, RUNNING, or None when it has ended.
"""

import sys
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.exceptions import (
    Raised,
    new_exception,
    raise_python,
    raised_by_close,
    write_state,
)
from dynajit.capture.machine.frames import Frame, Steps
from dynajit.capture.machine.lifetimes import lets_exit_pass
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import is_none, type_of, unsupported
from dynajit.capture.python.exceptions import is_traceback
from dynajit.capture.python.objects.watching import reachable
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.functions import GeneratorState, GeneratorValue
from dynajit.capture.values.objects import ExceptionValue, ObjectValue
from dynajit.capture.values.symbolic import NONE, Known, Value, constant
from dynajit.capture.values.users_code import inherits


class _Running:
    """Contents of a generator whose frame is being executed."""


RUNNING: Final = _Running()


class Yielded:
    """What a generator's frame sends back at `yield`."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


def resume_generator(machine: Machine, value: GeneratorValue, sent: Value) -> Steps[Value | None]:
    """Run a generator to its next `yield`; returns the item, or None when it has ended."""
    state = _suspended(machine, value)
    if state is None:
        return None
    is_started = state.frame.index > 0
    if not is_started and not is_none(machine, sent):
        message = "can't send non-None value to a just-started generator"
        raise_python(machine, TypeError, message)
    frame = _frame_of(value, state)
    if is_started:
        frame.push(sent)
    return (yield from _run(machine, value, frame))


def _suspended(machine: Machine, value: GeneratorValue) -> GeneratorState | None:
    state = machine.heap[value.identity]
    if state is RUNNING:
        raise_python(machine, ValueError, "generator already executing")
    found: GeneratorState | None = state
    return found


def _frame_of(value: GeneratorValue, state: GeneratorState) -> Frame:
    frame = Frame(state.body, state.code, state.namespace, {}, state.closure)
    frame.restore(state.frame)
    frame.generator = value
    frame.handled = state.handled
    return frame


def _run(machine: Machine, value: GeneratorValue, frame: Frame) -> Steps[Value | None]:
    machine.heap.write(value.identity, RUNNING)
    try:
        outcome = yield frame
    except Raised:
        machine.heap.write(value.identity, None)
        raise
    if isinstance(outcome, Yielded):
        return outcome.value
    machine.heap.write(value.identity, None)
    machine.generator_results[value.identity] = outcome
    return None


def stop_iteration_error(machine: Machine, value: ExceptionValue) -> ExceptionValue:
    """What leaves a generator instead of a StopIteration; anything else stays.

    Source: PEP 479.
    """
    if not issubclass(value.cls, StopIteration):
        return value
    made = new_exception(machine, RuntimeError, (constant("generator raised StopIteration"),))
    write_state(machine, made, "__cause__", value)
    write_state(machine, made, "__suppress_context__", constant(True))
    write_state(machine, made, "__context__", value)
    return made


# -- throw and close -------------------------------------------------------------------------------


def throw_into(machine: Machine, value: GeneratorValue, raised: Raised) -> Steps[Value | None]:
    """Raise at the `yield` where a generator waits; returns as `resume_generator`."""
    state = _suspended(machine, value)
    if state is None:
        raise raised
    if state.frame.index == 0:
        machine.heap.write(value.identity, None)
        raise raised
    receiver = _delegate(state)
    if receiver is not None:
        return (yield from _throw_into_delegate(machine, value, state, receiver, raised))
    frame = _frame_of(value, state)
    frame.thrown = raised
    return (yield from _run(machine, value, frame))


def _delegate(state: GeneratorState) -> Any:
    """The iterator of the `yield from` in which a generator is suspended, or None."""
    instructions = state.body.instructions
    following = instructions[state.frame.index]
    if following.operation != "JUMP" or instructions[following.argument].operation != "SEND":
        return None
    return state.frame.stack[-1]


def _throw_into_delegate(
    machine: Machine, value: GeneratorValue, state: GeneratorState, receiver: Any, raised: Raised
) -> Steps[Value | None]:
    frame = _frame_of(value, state)
    if isinstance(receiver, GeneratorValue):
        machine.heap.write(value.identity, RUNNING)
        try:
            if issubclass(raised.value.cls, GeneratorExit):
                yield from close_generator(machine, receiver)
                frame.thrown = raised
            else:
                item = yield from throw_into(machine, receiver, raised)
                if item is not None:
                    machine.heap.write(value.identity, state)
                    return item
                result = machine.generator_result(receiver)
                frame.push(result[0] if result else NONE)
                send = state.body.instructions[state.frame.index].argument
                frame.index = state.body.instructions[send].argument
        except Raised as another:
            frame.thrown = another
    elif isinstance(receiver, ObjectValue):
        yield from _check_lacks_method(machine, receiver, raised)
        frame.thrown = raised
    elif hasattr(receiver.python_type, "throw"):
        raise unsupported("throw", receiver)
    else:
        frame.thrown = raised
    return (yield from _run(machine, value, frame))


def _check_lacks_method(machine: Machine, receiver: ObjectValue, raised: Raised) -> Steps[None]:
    """The object of a `yield from` has no `throw` (or `close`): looking for it may run code.

    Raises:
        Raised: what looking for it raised.
        GraphBreak: it has the method.
    """
    is_exit = issubclass(raised.value.cls, GeneratorExit)
    name = "close" if is_exit else "throw"
    try:
        yield from machine.get_attribute(receiver, name)
    except Raised as another:
        if issubclass(another.value.cls, AttributeError):
            return
        if is_exit:
            raise unsupported(name, receiver) from None  # the error is only reported
        raise
    raise unsupported(name, receiver)


def close_generator(machine: Machine, value: GeneratorValue) -> Steps[Value]:
    """`generator.close()`: what it returned (3.13 and later), or None."""
    if _suspended(machine, value) is None:
        return NONE
    raised = raised_by_close(machine)
    try:
        item = yield from throw_into(machine, value, raised)
    except Raised as another:
        if issubclass(another.value.cls, (GeneratorExit, StopIteration)):
            return NONE
        raise
    finally:
        raised.__traceback__ = None  # it refers to this frame
    if item is not None:
        raise_python(machine, RuntimeError, "generator ignored GeneratorExit")
    result = machine.generator_result(value)
    return result[0] if result else NONE


def thrown_exception(machine: Machine, args: list[Value]) -> Steps[Raised]:
    """The exception that `throw(...)` names.

    Raises:
        GraphBreak: an exception from before the call; from 3.12 on also a class with a value, which
            warns where it is called.
    """
    kind, given, traceback = (*args, NONE, NONE)[:3]
    if len(args) > 1 and sys.version_info >= (3, 12):
        raise unsupported("throw(type, value)", kind)
    value = kind
    if isinstance(kind, Known) and isinstance(kind.object, type):
        value = yield from _normalised(machine, kind, given)
    elif not is_none(machine, given):
        raise unsupported("throw", given)
    if not isinstance(value, ExceptionValue):
        raise unsupported("throw", value)
    if is_traceback(machine, traceback):
        write_state(machine, value, "__traceback__", traceback)
    elif not is_none(machine, traceback):
        raise unsupported("throw", traceback)
    return Raised(value, has_context=True)


def _normalised(machine: Machine, cls: Known, given: Value) -> Steps[Value]:
    """What the interpreter makes of a class and a value: the value, if it is one of the class."""
    if is_none(machine, given):
        return (yield from machine.call(cls, [], {}))
    if inherits(type_of(machine, given), cls.object):
        return given
    if isinstance(given, TupleValue):
        return (yield from machine.call(cls, list(given.items), {}))
    if issubclass(type_of(machine, given), tuple):
        raise unsupported("throw", given)
    return (yield from machine.call(cls, [given], {}))


# -- dying -----------------------------------------------------------------------------------------


def is_guarded(state: Any) -> bool:
    """True for a generator that is suspended inside `try` or `with`, which does something when it
    is closed."""
    if not isinstance(state, GeneratorState) or state.frame.index == 0:
        return False
    handler = state.body.instructions[state.frame.index - 1].handler
    while handler is not None:
        landing = state.body.instructions[handler.target]
        if landing.operation not in ("CALL_INTRINSIC_1", "CLEANUP_THROW") and not lets_exit_pass(
            state.body, handler.target, state.namespace.globals
        ):
            return True
        handler = landing.handler
    return False


def is_open(machine: Machine, key: Any) -> bool:
    """True for the heap id of a generator that is closed when it dies."""
    return isinstance(key, int) and machine.heap.has(key) and is_guarded(machine.heap[key])


def drop(machine: Machine, value: Any) -> Steps[None]:
    """The stack or a local lets go of `value`: a generator that nobody else holds is closed.

    Raises:
        GraphBreak: closing it raises an error, which Python shows and then forgets.
    """
    if not isinstance(value, GeneratorValue) or not is_guarded(machine.heap[value.identity]):
        return
    if value.identity in reachable(machine):
        return
    try:
        yield from close_generator(machine, value)
    except Raised as raised:
        detail = f"a generator that raises {raised.value.cls.__name__} when it is closed"
        raise GraphBreak(breaks.OBJECT_ENDS, detail) from None
