"""Python exceptions met while executing symbolically.

`Raised` carries the symbolic exception instance through the operations; the executor's loop looks
for a handler in the captured code's exception tables, and `record_passage` keeps context and
traceback as the interpreter would. One that leaves the root frame ends the region: it is made
again and raised there. What exceptions can do is in `capture.python.exceptions`.
"""

from dataclasses import replace
from typing import Any, NoReturn

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.machine import Machine
from dynajit.capture.values.objects import (
    ENTRY_CONTEXT,
    ExceptionValue,
    ObjectContents,
    Passed,
    TracebackValue,
)
from dynajit.capture.values.symbolic import Constant, Opaque, Value, constant

#: Instructions that go on with an exception: no context, no further entry in the traceback.
_GOING_ON = ("RERAISE",)


class Raised(Exception):
    """A Python exception of the captured program.

    Args:
        value: the exception.
        is_going_on: it was raised before, and goes on (`raise` without an exception).
        has_context: where it is raised does not give it a context (`generator.throw`).
    """

    def __init__(
        self, value: ExceptionValue, is_going_on: bool = False, has_context: bool = False
    ) -> None:
        super().__init__(value.cls.__name__)
        self.value = value
        self.is_going_on = is_going_on
        self.has_context = has_context
        self.is_recorded = False


class NotKnown(Exception):
    """A value is needed as a Python object and is not fully known."""


def new_exception(machine: Machine, cls: type, args: tuple[Value, ...]) -> ExceptionValue:
    """An exception instance made by the captured code; its `__init__` is not run."""
    identity = machine.heap.allocate(ObjectContents(None, {}, args, native_state(cls, args)))
    return ExceptionValue(identity, cls)


def native_state(cls: type, args: tuple[Value, ...]) -> dict[str, Value]:
    """What `__init__` of the simple built-in exceptions stores next to `args`."""
    if issubclass(cls, StopIteration):
        return {"value": args[0] if args else constant(None)}
    return {}


def raise_python(machine: Machine, cls: type, *args: Any, **state: Any) -> NoReturn:
    """Raise `cls(*args)` in the captured program.

    Args:
        state: attributes that the interpreter sets next to `args` (`name` of a NameError).
    """
    values = tuple(a if isinstance(a, Value) else constant(a) for a in args)
    made = new_exception(machine, cls, values)
    for name, item in state.items():
        write_state(machine, made, name, item if isinstance(item, Value) else constant(item))
    raise Raised(made)


def stop_iteration_value(raised: Raised, machine: Machine) -> Value:
    """`exc.value` of a StopIteration."""
    value: Value = machine.heap[raised.value.identity].state.get("value", Constant(None))
    return value


def write_state(machine: Machine, value: ExceptionValue, name: str, item: Value | None) -> None:
    """Store a C-level attribute; None removes it."""
    contents: ObjectContents = machine.heap[value.identity]
    state = {key: kept for key, kept in contents.state.items() if key != name}
    if item is not None:
        state[name] = item
    machine.heap.write(value.identity, replace(contents, state=state))


# -- raising -------------------------------------------------------------------------------------


def handled(machine: Machine) -> ExceptionValue | None:
    """The exception that the captured code is handling now, innermost.

    Raises:
        GraphBreak: it existed before the captured code.
    """
    seen = None
    for frame in reversed(machine.frames):
        if frame.handled == seen:
            continue
        seen = frame.handled
        found: Value | None = machine.heap[seen]
        if isinstance(found, ExceptionValue):
            return found
        if found is not None:
            detail = "an exception raised by real code is being handled"
            raise GraphBreak(breaks.UNSUPPORTED_OPERATION, detail)
    return None


def record_passage(machine: Machine, frame: Any, raised: Raised) -> None:
    """An exception leaves the current instruction of `frame`: context (once) and traceback."""
    instruction = frame.body.instructions[frame.index - 1]
    value = raised.value
    is_first, raised.is_recorded = not raised.is_recorded, True
    if is_first and (raised.is_going_on or instruction.operation in _GOING_ON):
        if raised.is_going_on or not instruction.argument:  # else it is where it was before
            _note_last_line(machine, frame, value, instruction.location.line)
        return
    if is_first and not raised.has_context:
        _set_context(machine, value, handled(machine))
    before = machine.heap[value.identity].state.get("__traceback__")
    following = before if isinstance(before, (TracebackValue, Opaque)) else None
    place = instruction.location
    is_precise = place.column is not None and place.end_column is not None
    columns = (place.column, place.end_column) if is_precise else None
    here = Passed(frame.code, frame.namespace.globals, place.line, columns)
    made = TracebackValue(machine.heap.allocate(None), here, following)
    write_state(machine, value, "__traceback__", made)


def _note_last_line(machine: Machine, frame: Any, value: ExceptionValue, line: int) -> None:
    """The frame stands where it raises the exception again; the traceback's line stays."""
    passed = machine.heap[value.identity].state.get("__traceback__")
    if not isinstance(passed, TracebackValue) or passed.entry.code is not frame.code:
        return
    if line != (passed.entry.last_line or passed.entry.line):
        entry = replace(passed.entry, last_line=line)
        write_state(machine, value, "__traceback__", replace(passed, entry=entry))


def raised_by_close(machine: Machine) -> Raised:
    """The GeneratorExit of `generator.close()`: raised where it is called."""
    made = new_exception(machine, GeneratorExit, ())
    _set_context(machine, made, handled(machine))
    return Raised(made, has_context=True)


def enter_by_throw(machine: Machine, frame: Any, raised: Raised) -> None:
    """An exception enters a generator's frame: what the generator itself handles is its context."""
    raised.has_context = True
    own = machine.heap[frame.handled]
    if isinstance(own, ExceptionValue):
        _set_context(machine, raised.value, own)


def _set_context(machine: Machine, value: ExceptionValue, context: ExceptionValue | None) -> None:
    """As the interpreter: a chain that leads back to the exception is cut there.

    The program may have made a chain that leads back to itself; it is followed once.
    """
    if context is None:
        state = machine.heap[value.identity].state
        write_state(machine, value, "__context__", state.get("__context__", ENTRY_CONTEXT))
        return
    if context.identity == value.identity:
        return
    link, met = context, {context.identity}
    while True:
        following = machine.heap[link.identity].state.get("__context__")
        if not isinstance(following, ExceptionValue):
            break
        if following.identity == value.identity:
            write_state(machine, link, "__context__", None)
            break
        if following.identity in met:
            break
        met.add(following.identity)
        link = following
    write_state(machine, value, "__context__", context)
