"""Jumps, loops, calls, functions, returns, generators."""

from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.exceptions import Raised
from dynajit.capture.machine.frames import Frame, Steps
from dynajit.capture.machine.machine import Handler, Machine
from dynajit.capture.python.basic import as_python, is_none, is_same, unsupported
from dynajit.capture.python.generators import resume_generator, stop_iteration_error
from dynajit.capture.python.iteration import counted_at_run_time, iterate
from dynajit.capture.python.tensors.assertions import asserts
from dynajit.capture.python.truth import truth
from dynajit.capture.values.functions import FunctionContents, FunctionValue, GeneratorValue
from dynajit.capture.values.symbolic import NONE, Value


def jump(machine: Machine, frame: Frame, target: int) -> None:
    """Go to the target."""
    frame.index = target


def pop_jump_if_true(machine: Machine, frame: Frame, target: int) -> Steps[None]:
    """Jump if the popped value is true."""
    if (yield from _truth(machine, frame)):
        frame.index = target


def pop_jump_if_false(machine: Machine, frame: Frame, target: int) -> Steps[None]:
    """Jump if the popped value is false."""
    if not (yield from _truth(machine, frame)):
        frame.index = target


def _truth(machine: Machine, frame: Frame) -> Steps[bool]:
    """The truth of the popped value, which decides about the jump that is being executed."""
    value = frame.pop()
    assumed = asserts(machine, frame, value, frame.index - 1)
    return (yield from truth(machine, value)) if assumed is None else assumed


def jump_if_true_or_pop(machine: Machine, frame: Frame, target: int) -> Steps[None]:
    """`a or b`."""
    if (yield from truth(machine, frame.stack[-1])):
        frame.index = target
    else:
        frame.pop()


def jump_if_false_or_pop(machine: Machine, frame: Frame, target: int) -> Steps[None]:
    """`a and b`."""
    if not (yield from truth(machine, frame.stack[-1])):
        frame.index = target
    else:
        frame.pop()


def pop_jump_if_none(machine: Machine, frame: Frame, target: int) -> None:
    """Jump if the popped value is None."""
    if is_same(machine, frame.pop(), NONE):
        frame.index = target


def pop_jump_if_not_none(machine: Machine, frame: Frame, target: int) -> None:
    """Jump if the popped value is not None."""
    if not is_same(machine, frame.pop(), NONE):
        frame.index = target


def get_iter(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
    """`iter(value)`."""
    frame.push((yield from iterate(machine, frame.pop())))


def for_iter(machine: Machine, frame: Frame, target: int) -> Steps[None]:
    """Push the next item, or leave the loop."""
    item = yield from machine.advance(frame.stack[-1])
    if item is None:
        frame.pop()
        frame.index = target
    else:
        frame.push(item)


def call(machine: Machine, frame: Frame, argument: tuple[int, tuple[str, ...]]) -> Steps[None]:
    """A call with counted arguments."""
    count, names = argument
    arguments = frame.pop_many(count)
    callee, arguments = callee_and_arguments(frame, arguments)
    split = len(arguments) - len(names)
    keywords = dict(zip(names, arguments[split:], strict=True))
    following = frame.body.instructions[frame.index : frame.index + 2]
    if not names and [row.operation for row in following] == ["GET_ITER", "FOR_ITER"]:
        iterator = counted_at_run_time(machine, callee, arguments)
        if iterator is not None:
            frame.push(iterator)
            return
    frame.push((yield from machine.call(callee, arguments[:split], keywords)))


def callee_and_arguments(frame: Frame, arguments: list[Any]) -> tuple[Value, list[Any]]:
    """Pop what is called; an object whose method it is comes first among the arguments."""
    first, second = frame.pop_many(2)
    if first is None:
        return second, arguments
    if second is None:
        return first, arguments
    return first, [second, *arguments]


def make_function(machine: Machine, frame: Frame, argument: Any) -> None:
    """A function or lambda."""
    code = as_python(machine, frame.pop())
    contents = FunctionContents(code, frame.namespace)
    frame.push(FunctionValue(machine.heap.allocate(contents), type(make_function)))


def set_function_attribute(machine: Machine, frame: Frame, name: str) -> None:
    """Defaults, annotations or closure of a new function."""
    value, function = frame.pop_many(2)
    contents = machine.heap[function.identity]
    machine.heap.write(function.identity, contents.replacing(name, value))
    frame.push(function)


def return_value(machine: Machine, frame: Frame, argument: Any) -> None:
    """Leave the frame."""
    machine.leave(frame.pop())


def yield_value(machine: Machine, frame: Frame, argument: Any) -> None:
    """Suspend a generator."""
    machine.suspend(frame.pop())


def return_generator(machine: Machine, frame: Frame, argument: Any) -> None:
    """Generators are made by the call; the frame starts behind this."""
    frame.push(NONE)


def get_yield_from_iter(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
    """The iterator of `yield from`."""
    frame.push((yield from iterate(machine, frame.pop())))


def send(machine: Machine, frame: Frame, target: int) -> Steps[None]:
    """One step of `yield from`."""
    sent = frame.pop()
    receiver = frame.stack[-1]
    if isinstance(receiver, GeneratorValue):
        item = yield from resume_generator(machine, receiver, sent)
    elif is_none(machine, sent):
        item = yield from machine.advance(receiver)
    else:
        method = yield from machine.get_attribute(receiver, "send")
        raise unsupported("send", method)
    if item is not None:
        frame.push(item)
        return
    result = machine.generator_result(receiver)
    frame.push(result[0] if result else NONE)
    frame.index = target


def cleanup_throw(machine: Machine, frame: Frame, argument: Any) -> None:
    """An exception at `yield from`: StopIteration is the iterator's result."""
    _, _, error = frame.pop_many(3)
    if not issubclass(error.cls, StopIteration):
        raise Raised(error, is_going_on=True)
    frame.push(NONE)
    frame.push(machine.heap[error.identity].state.get("value", NONE))


def end_send(machine: Machine, frame: Frame, argument: Any) -> None:
    """Drop the receiver of `yield from`."""
    value = frame.pop()
    frame.pop()
    frame.push(value)


def call_intrinsic_1(machine: Machine, frame: Frame, name: str) -> None:
    """Rare one-operand instructions."""
    if "STOPITERATION" in name:
        frame.push(stop_iteration_error(machine, frame.pop()))
        return
    raise GraphBreak(breaks.UNSUPPORTED_INSTRUCTION, name)


HANDLERS: Final[dict[str, Handler]] = {
    "JUMP": jump,
    "POP_JUMP_IF_TRUE": pop_jump_if_true,
    "POP_JUMP_IF_FALSE": pop_jump_if_false,
    "JUMP_IF_TRUE_OR_POP": jump_if_true_or_pop,
    "JUMP_IF_FALSE_OR_POP": jump_if_false_or_pop,
    "POP_JUMP_IF_NONE": pop_jump_if_none,
    "POP_JUMP_IF_NOT_NONE": pop_jump_if_not_none,
    "GET_ITER": get_iter,
    "FOR_ITER": for_iter,
    "CALL": call,
    "MAKE_FUNCTION": make_function,
    "SET_FUNCTION_ATTRIBUTE": set_function_attribute,
    "RETURN_VALUE": return_value,
    "YIELD_VALUE": yield_value,
    "RETURN_GENERATOR": return_generator,
    "GET_YIELD_FROM_ITER": get_yield_from_iter,
    "SEND": send,
    "END_SEND": end_send,
    "CLEANUP_THROW": cleanup_throw,
    "CALL_INTRINSIC_1": call_intrinsic_1,
}
