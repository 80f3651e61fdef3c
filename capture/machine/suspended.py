"""Generators that the captured code has made, as real generators.

One that has not started is a call of its function. One that is suspended is a call of a generator
function whose code is a copy of the original with a prologue that puts locals, cells and stack in
place and jumps to the very `yield` at which the original is suspended; the first `next` runs that
`yield` for real. From there on `send`, `throw`, `close` and `finally` are the interpreter's.

Used by `capture.region.rebuild`, which pushes the values and the calls.
"""

import weakref
from collections.abc import Generator
from types import CodeType, FunctionType
from typing import Any, Final

from bytecode import Instr
from bytecode.instr import InstrLocation

from dynajit.capture.bytecode import resume
from dynajit.capture.bytecode.assemble import Copy, Signature, Writer, assemble, prologue
from dynajit.capture.bytecode.instructions import Body, forget, live_locals
from dynajit.capture.bytecode.resume import Home, Spot
from dynajit.capture.machine import lifetimes
from dynajit.capture.values.functions import CellValue, GeneratorState
from dynajit.capture.values.objects import HandledException
from dynajit.capture.values.symbolic import Value

_MADE: Final[dict[int, tuple["weakref.ref[CodeType]", dict[Spot, CodeType]]]] = {}

_LIBRARY: Final = "dynajit.capture.library"


def why_not_made(state: GeneratorState) -> str | None:
    """Why no real generator can be made, or None."""
    if str(state.namespace.globals.get("__name__")).startswith(_LIBRARY):
        return "an iterator of the library in the middle of its work"
    index = state.frame.index
    if index and state.body[index - 1].operation != "YIELD_VALUE":
        return "a generator that is running"
    return None


def values(state: GeneratorState) -> list[Value]:
    """What the generator function takes, in order."""
    frame = state.frame
    if not frame.index:
        return [frame.locals[name] for name in state.body.parameters]
    names, cells, slots = resume.parameters_at(state.body, _spot(state))
    found = [frame.locals[name] for name in names] + [frame.cells[name] for name in cells]
    for slot in slots[:-1]:
        value = frame.stack[slot]
        found.append(value.exception if isinstance(value, HandledException) else value)
    return found


def closure(state: GeneratorState) -> tuple[Value, ...]:
    """Cells for the closure of the generator function; empty where they are not looked at."""
    return () if state.frame.index else state.closure


def code(state: GeneratorState) -> CodeType:
    """The code of the generator function."""
    original = state.code
    if not state.frame.index:
        count = len(state.body.parameters)
        return original.replace(
            co_argcount=count,
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=resume.plain_flags(original),
        )
    known = _MADE.get(id(original))
    if known is None or known[0]() is not original:
        known = (weakref.ref(original, forget(_MADE, id(original))), {})
        _MADE[id(original)] = known
    spot = _spot(state)
    found = known[1].get(spot)
    if found is None:
        found = known[1][spot] = _suspended(state.body, spot)
    return found


def function(state: GeneratorState) -> FunctionType:
    """The generator function of a suspended generator."""
    return Home(state.namespace.globals, state.code.co_name).function(code(state))


def _spot(state: GeneratorState) -> Spot:
    """In front of the `yield`, with what it yields on the stack."""
    index = state.frame.index - 1
    live = live_locals(state.body, index)
    bound = frozenset(
        name
        for name, value in state.frame.locals.items()
        if name in live or (not isinstance(value, CellValue) and lifetimes.is_lent(value))
    )
    nulls = tuple(value is None for value in state.frame.stack)
    return Spot(index, bound, frozenset(state.frame.cells), (*nulls, False))


def _suspended(body: Body, spot: Spot) -> CodeType:
    original = body.code
    copy = Copy(original)
    names, cells, slots = resume.parameters_at(body, spot)
    line = body[spot.index].location.line
    writer = Writer(InstrLocation(line, None, None, None))
    *setup, start = prologue(original)
    location = InstrLocation(original.co_firstlineno, None, None, None)
    entering = [Instr(name, location=location) for name in ("RETURN_GENERATOR", "POP_TOP")]
    writer.extend([*setup, *entering, start])
    below = Spot(spot.index, spot.bound, spot.cells, spot.nulls[:-1])
    resume.restore(writer, body, below)
    writer.load_constant(None)
    writer.jump(copy.label(body[spot.index].offset))
    writer.extend(copy.items())
    parameters = resume.parameter_names(names, cells, slots[:-1])
    return assemble(
        writer.items,
        original,
        Signature(len(parameters), 0, 0, parameters, resume.plain_flags(original)),
        max(original.co_stacksize, writer.maximum),
        original.co_qualname,
    )


def finished() -> Generator[Any, None, None]:
    """A generator that has ended."""
    made = _nothing()
    made.close()
    return made


def _nothing() -> Generator[Any, None, None]:
    yield
