"""The end of a region that breaks: stack and locals, the breaking instruction, what comes after.

Layout: rebuild the stack and the live locals; the breaking instruction (under the same handler as
in the original); then for each place where it can go on, either a call of the resume function and
its return, or a jump into the copy of the original. See `capture.emit`.
"""

import functools
import operator
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from bytecode import Label
from bytecode.instr import InstrLocation

from dynajit.capture import resume
from dynajit.capture.assemble import (
    NULL_IS_BELOW,
    Copy,
    protected,
    with_jump_to,
    without_method_slot,
)
from dynajit.capture.instruction_set import OPERATIONS
from dynajit.capture.instructions import Body, Instruction, live_locals
from dynajit.capture.region import Break
from dynajit.core.errors import InternalError
from dynajit.core.location import Location

if TYPE_CHECKING:
    from dynajit.capture.emit import Emitter, MakeResume


class State:
    """Which stack slots are NULL and which locals are bound. Mutable.

    Args:
        nulls: for each slot, True for NULL.
        bound: plain locals with a value.
    """

    def __init__(self, nulls: Sequence[bool], bound: frozenset[str]) -> None:
        self.nulls = list(nulls)
        self.bound = set(bound)

    def run(self, instruction: Instruction, jump: bool = False) -> None:
        """Follow one canonical instruction."""
        operation, argument = instruction.operation, instruction.argument
        if operation == "COPY":
            self.nulls.append(self.nulls[-argument])
            return
        if operation == "SWAP":
            nulls = self.nulls
            nulls[-1], nulls[-argument] = nulls[-argument], nulls[-1]
            return
        popped, pushed = OPERATIONS[operation].effect(argument, jump)
        taken = [self.nulls.pop() for _ in range(popped)]
        self._follow_locals(operation, argument, taken)
        self.nulls.extend(self._pushed_nulls(operation, argument, pushed))
        if operation == "LOAD_FAST_AND_CLEAR":
            self.bound.discard(argument)

    def _follow_locals(self, operation: str, argument: Any, taken: list[bool]) -> None:
        if operation == "STORE_FAST" and not taken[0]:
            self.bound.add(argument)
        elif operation in ("STORE_FAST", "DELETE_FAST"):
            self.bound.discard(argument)

    def _pushed_nulls(self, operation: str, argument: Any, pushed: int) -> list[bool]:
        if operation == "PUSH_NULL":
            return [True]
        if operation in ("LOAD_METHOD", "LOAD_SUPER_METHOD", "LOAD_SPECIAL"):
            return [NULL_IS_BELOW, not NULL_IS_BELOW]
        if operation == "LOAD_FAST_AND_CLEAR":
            return [argument not in self.bound]
        return [False] * pushed


def write(
    emitter: "Emitter",
    body: Body,
    copy: Copy,
    end: Break,
    make_resume: "MakeResume | None",
) -> bool:
    """Append the end of the region; True if the copy of the original has to follow.

    Raises:
        InternalError: the break is not at a place where the original can be restarted.
    """
    _check(body, end)
    group = [body[index] for index in range(end.index, body.after(end.index))]
    last = group[-1]
    handler = last.handler
    writer = emitter.writer
    writer.location = _line(last.location)
    _rebuild(emitter, body, end)
    emitter.release()
    real = without_method_slot(copy.between(group[0].offset, last.last_offset))
    places = _places(body, end, group)
    writer.maximum = max(writer.maximum, len(end.stack) + 2)
    jumped = Label()
    if OPERATIONS[last.operation].on_jump is not None:
        real[-1] = with_jump_to(real[-1], jumped)
    if handler is None:
        writer.extend(real)
    else:
        target = copy.label(body[handler.target].offset)
        writer.extend(protected(real, target, handler.depth, handler.push_lasti))
    needs_copy = handler is not None
    for jump, index, state in places:
        writer.label(jumped if jump else Label(), len(state.nulls))
        if jump and last.operation == "FOR_ITER":
            writer.depth += 2  # what the interpreter has popped already; never executed
            writer.end_of_loop()
            writer.depth = len(state.nulls)
        reason = resume.why_not_resumable(body, index, frozenset(state.bound))
        if make_resume is None or reason is not None:
            writer.jump(copy.label(body[index].offset))
            needs_copy = True
        else:
            _call_resume(emitter, body, index, state, make_resume)
    return needs_copy


def _check(body: Body, end: Break) -> None:
    problem = None
    if body.is_generator:
        problem = "generators cannot break"
    elif body.first_of_offset(end.index) != end.index:
        problem = "the instruction cannot be restarted"
    elif body.handling[end.index]:
        problem = "an exception is being handled"
    elif body.depths[end.index] != len(end.stack):
        problem = f"{len(end.stack)} stack slots, expected {body.depths[end.index]}"
    if problem is not None:
        raise InternalError(f"emit({body.code.co_qualname}) at {body[end.index]}: {problem}.")


def _rebuild(emitter: "Emitter", body: Body, end: Break) -> None:
    """Stack first, then locals: the stack may need a parameter that is about to change."""
    writer = emitter.writer
    for value in end.stack:
        emitter.load_value(value)
    live = live_locals(body, end.index)
    stored = [name for name in body.code.co_varnames if name in live and name in end.locals]
    for name in stored:
        emitter.load_value(end.locals[name])
    for name in reversed(stored):
        writer.store_local(name)
    for name in body.parameters:
        if name in live and name not in end.locals and name not in body.cellvars:
            writer.delete_local(name)


def _places(body: Body, end: Break, group: Sequence[Instruction]) -> list[tuple[bool, int, State]]:
    """(by jump, instruction, state) for each place where the breaking instruction can go on."""
    row = OPERATIONS[group[-1].operation]
    jumps = [False] if row.falls_through else []
    if row.on_jump is not None:
        jumps.append(True)
    result = []
    for jump in jumps:
        state = State([value is None for value in end.stack], frozenset(end.locals))
        for instruction in group:
            state.run(instruction, jump=jump and instruction is group[-1])
        index = group[-1].argument if jump else body.after(end.index)
        result.append((jump, index, state))
    return result


def _call_resume(
    emitter: "Emitter", body: Body, index: int, state: State, make_resume: "MakeResume"
) -> None:
    """Pass the live locals and the stack to the resume function and return its result."""
    writer = emitter.writer
    made = resume.resume(body, index, frozenset(state.bound), tuple(state.nulls))
    slots = [f".slot{slot}" for slot in range(len(state.nulls))]
    for name in reversed(slots):
        writer.store_local(name)
    passed = [name for name, null in zip(slots, state.nulls, strict=True) if not null]
    _push_resume(emitter, made, make_resume(made))
    for name in (*made.locals, *passed):
        writer.load_local(name)
    _release(emitter, body, (*made.locals, *passed))
    writer.call(len(made.locals) + len(passed))
    writer.append("RETURN_VALUE", None, 1, 0)


class _ByClosure:
    """Finds the resume function for the closure of the running frame.

    The same code can run for another closure than the one it was captured with (a function made
    anew in every call); then the rest is a plain function of that closure.

    Args:
        made: the resume code.
        known: the resume function for the captured function's closure.
        function: the captured function.
    """

    __slots__ = ("closure", "code", "function", "known")

    def __init__(self, made: resume.Resume, known: Any, function: FunctionType) -> None:
        self.code = made.code
        self.known = known
        self.function = function
        self.closure = function.__closure__ or ()

    def __call__(self, *closure: Any) -> Any:
        """The function to call with locals and stack."""
        if all(map(operator.is_, closure, self.closure)):
            return self.known
        function = self.function
        return FunctionType(self.code, function.__globals__, function.__name__, None, closure)


def _push_resume(emitter: "Emitter", made: resume.Resume, known: Any) -> None:
    """Push the resume function and its empty slot, ready for arguments."""
    writer = emitter.writer
    names = made.code.co_freevars
    if not names:
        writer.callable(lambda: writer.load_constant(known))
        return
    choose = _ByClosure(made, known, emitter.function)
    cells = [functools.partial(emitter.load_cell, name) for name in names]
    writer.callable(lambda: emitter.call(choose, *cells))


def _release(emitter: "Emitter", body: Body, names: Sequence[str]) -> None:
    """Let go of what was passed on: the rest of the function decides how long it lives."""
    parameters = [name for name in body.parameters if name not in body.cellvars]
    for name in dict.fromkeys((*names, *parameters)):
        emitter.writer.load_constant(None)
        emitter.writer.store_local(name)


def _line(location: Location) -> InstrLocation:
    return InstrLocation(location.line, None, None, None)
