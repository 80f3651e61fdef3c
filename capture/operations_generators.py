"""`generator.throw` and `generator.close`, and StopIteration that leaves a generator.

Methods of the executor (`x`), written as functions; see `capture.executor`.
"""

from typing import Any

from dynajit.capture.exceptions import Raised, new_exception, raise_python, write_state
from dynajit.capture.frames import Frame
from dynajit.capture.operations_basic import Steps, unsupported
from dynajit.capture.values import NONE, TRUE, Constant, Known, Value
from dynajit.capture.values_functions import GeneratorValue
from dynajit.capture.values_objects import ExceptionValue, TracebackValue


def throw(x: Any, generator: GeneratorValue, args: list[Value]) -> Steps:
    """`generator.throw(exception)`, also with the three arguments of old."""
    error = args[0]
    if len(args) > 1 and isinstance(args[1], ExceptionValue):
        error = args[1]
    elif isinstance(error, Known) and isinstance(error.object, type):
        given = args[1:2] if len(args) > 1 and not _is_none(args[1]) else []
        error = yield from x.call(error, given, {})
    if not isinstance(error, ExceptionValue):
        raise unsupported("generator.throw", *args)
    if len(args) > 2 and isinstance(args[2], TracebackValue):
        write_state(x, error, "__traceback__", args[2])
    outcome = yield from thrown_into(x, generator, error)
    if outcome is None:
        raise_python(x, StopIteration, *x.generator_result(generator))
    return outcome


def _is_none(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is None


def thrown_into(x: Any, generator: GeneratorValue, error: ExceptionValue) -> Steps:
    """Raise `error` where the generator is suspended; its next item, or None where it ended."""
    state = x.heap[generator.identity]
    if state is None:
        raise Raised(error, is_going_on=True)
    if state.frame.index == 0:
        x.heap.write(generator.identity, None)
        raise Raised(error)
    instructions = state.body.instructions
    if any(
        instruction.operation == "SEND"
        for instruction in instructions[max(state.frame.index - 2, 0) : state.frame.index + 2]
    ):
        raise unsupported("throwing into a generator that delegates", generator)
    frame = Frame(state.body, state.code, state.namespace, {}, state.closure)
    frame.restore(state.frame)
    frame.generator = generator
    frame.handled = state.handled
    frame.thrown = Raised(error)
    x.heap.write(generator.identity, None)
    return (yield from x.run_generator(generator, frame))


def close(x: Any, generator: GeneratorValue) -> Steps:
    """`generator.close()`."""
    state = x.heap[generator.identity]
    if state is None or state.frame.index == 0:
        x.heap.write(generator.identity, None)
        return NONE
    try:
        outcome = yield from thrown_into(x, generator, new_exception(x, GeneratorExit, ()))
    except Raised as raised:
        if not issubclass(raised.value.cls, (GeneratorExit, StopIteration)):
            raise
        return NONE
    if outcome is not None:
        raise_python(x, RuntimeError, "generator ignored GeneratorExit")
    raise unsupported("the value that a closed generator returns", generator)


def stop_iteration_error(x: Any, value: ExceptionValue) -> ExceptionValue:
    """What leaves a generator instead of a StopIteration; anything else stays.

    Source: PEP 479.
    """
    if not issubclass(value.cls, StopIteration):
        return value
    made = new_exception(x, RuntimeError, (Constant("generator raised StopIteration"),))
    write_state(x, made, "__cause__", value)
    write_state(x, made, "__suppress_context__", TRUE)
    write_state(x, made, "__context__", value)
    return made
