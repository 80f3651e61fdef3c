"""Jumps, loops, calls, functions, returns, generators."""

from typing import Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.exceptions import Raised
from dynajit.capture.machine.frames import Frame
from dynajit.capture.python.basic import Steps, as_python, is_none, unsupported
from dynajit.capture.python.generators import stop_iteration_error
from dynajit.capture.python.tensors.assertions import asserts
from dynajit.capture.values.functions import FunctionContents, FunctionValue, GeneratorValue
from dynajit.capture.values.symbolic import NONE, Value


def jump(x: Any, frame: Frame, target: int) -> None:
    """Go to the target."""
    frame.index = target


def pop_jump_if_true(x: Any, frame: Frame, target: int) -> Steps:
    """Jump if the popped value is true."""
    if (yield from _truth(x, frame)):
        frame.index = target


def pop_jump_if_false(x: Any, frame: Frame, target: int) -> Steps:
    """Jump if the popped value is false."""
    if not (yield from _truth(x, frame)):
        frame.index = target


def _truth(x: Any, frame: Frame) -> Steps:
    """The truth of the popped value, which decides about the jump that is being executed."""
    value = frame.pop()
    assumed = asserts(x, frame, value, frame.index - 1)
    return (yield from x.truth(value)) if assumed is None else assumed


def jump_if_true_or_pop(x: Any, frame: Frame, target: int) -> Steps:
    """`a or b`."""
    if (yield from x.truth(frame.stack[-1])):
        frame.index = target
    else:
        frame.pop()


def jump_if_false_or_pop(x: Any, frame: Frame, target: int) -> Steps:
    """`a and b`."""
    if not (yield from x.truth(frame.stack[-1])):
        frame.index = target
    else:
        frame.pop()


def pop_jump_if_none(x: Any, frame: Frame, target: int) -> None:
    """Jump if the popped value is None."""
    if x.is_same(frame.pop(), NONE):
        frame.index = target


def pop_jump_if_not_none(x: Any, frame: Frame, target: int) -> None:
    """Jump if the popped value is not None."""
    if not x.is_same(frame.pop(), NONE):
        frame.index = target


def get_iter(x: Any, frame: Frame, argument: Any) -> Steps:
    """`iter(value)`."""
    frame.push((yield from x.iterate(frame.pop())))


def for_iter(x: Any, frame: Frame, target: int) -> Steps:
    """Push the next item, or leave the loop."""
    item = yield from x.advance(frame.stack[-1])
    if item is None:
        frame.pop()
        frame.index = target
    else:
        frame.push(item)


def call(x: Any, frame: Frame, argument: tuple[int, tuple[str, ...]]) -> Steps:
    """A call with counted arguments."""
    count, names = argument
    arguments = frame.pop_many(count)
    callee, arguments = callee_and_arguments(frame, arguments)
    split = len(arguments) - len(names)
    keywords = dict(zip(names, arguments[split:], strict=True))
    frame.push((yield from x.call(callee, arguments[:split], keywords)))


def callee_and_arguments(frame: Frame, arguments: list[Any]) -> tuple[Value, list[Any]]:
    """Pop what is called; an object whose method it is comes first among the arguments."""
    first, second = frame.pop_many(2)
    if first is None:
        return second, arguments
    if second is None:
        return first, arguments
    return first, [second, *arguments]


def make_function(x: Any, frame: Frame, argument: Any) -> None:
    """A function or lambda."""
    code = as_python(x, frame.pop())
    contents = FunctionContents(code, frame.namespace)
    frame.push(FunctionValue(x.heap.allocate(contents), type(make_function)))


def set_function_attribute(x: Any, frame: Frame, name: str) -> None:
    """Defaults, annotations or closure of a new function."""
    value, function = frame.pop_many(2)
    contents = x.heap[function.identity]
    x.heap.write(function.identity, contents.replacing(name, value))
    frame.push(function)


def return_value(x: Any, frame: Frame, argument: Any) -> Steps:
    """Leave the frame."""
    return x.leave(frame.pop())


def yield_value(x: Any, frame: Frame, argument: Any) -> Steps:
    """Suspend a generator."""
    return x.suspend(frame.pop())


def return_generator(x: Any, frame: Frame, argument: Any) -> None:
    """Generators are made by the call; the frame starts behind this."""
    frame.push(NONE)


def get_yield_from_iter(x: Any, frame: Frame, argument: Any) -> Steps:
    """The iterator of `yield from`."""
    frame.push((yield from x.iterate(frame.pop())))


def send(x: Any, frame: Frame, target: int) -> Steps:
    """One step of `yield from`."""
    sent = frame.pop()
    receiver = frame.stack[-1]
    if isinstance(receiver, GeneratorValue):
        item = yield from x.resume_generator(receiver, sent)
    elif is_none(x, sent):
        item = yield from x.advance(receiver)
    else:
        method = yield from x.get_attribute(receiver, "send")
        raise unsupported("send", method)
    if item is not None:
        frame.push(item)
        return
    result = x.generator_result(receiver)
    frame.push(result[0] if result else NONE)
    frame.index = target


def cleanup_throw(x: Any, frame: Frame, argument: Any) -> None:
    """An exception at `yield from`: StopIteration is the iterator's result."""
    _, _, error = frame.pop_many(3)
    if not issubclass(error.cls, StopIteration):
        raise Raised(error, is_going_on=True)
    frame.push(NONE)
    frame.push(x.heap[error.identity].state.get("value", NONE))


def end_send(x: Any, frame: Frame, argument: Any) -> None:
    """Drop the receiver of `yield from`."""
    value = frame.pop()
    frame.pop()
    frame.push(value)


def call_intrinsic_1(x: Any, frame: Frame, name: str) -> None:
    """Rare one-operand instructions."""
    if "STOPITERATION" in name:
        frame.push(stop_iteration_error(x, frame.pop()))
        return
    raise GraphBreak(breaks.UNSUPPORTED_INSTRUCTION, name)


HANDLERS = {
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
