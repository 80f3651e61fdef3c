"""The end of code that breaks: real instructions, and what comes after them.

Layout: cells, stack and live locals in place; the breaking instruction for real; then for each
place where it can go on a call of the resume function for that place, whose result is returned.
An exception that the original would catch goes on in the same way, at its handler. Where no resume
function can be made, control goes on in a copy of the original instead, as plain Python.

A caller that waits for a frame in which the region ends has, instead of the breaking instruction,
the call of what goes on for that frame (`Tail.run_inner`), under the same handlers.

The rest of a function is a tail call (`_capture.tail_call`): the frame in front of it is gone when
it runs, so each function of the program appears once in a traceback, a loop that breaks in every
turn needs no deeper stack, and what the rest deletes dies.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from bytecode import Instr, Label
from bytecode.instr import InstrLocation

from dynajit.capture import _capture
from dynajit.capture.bytecode import resume
from dynajit.capture.bytecode.assemble import (
    NULL_IS_BELOW,
    Copy,
    Item,
    Writer,
    cell_place,
    protected,
    with_jump_to,
    without_method_slot,
)
from dynajit.capture.bytecode.instruction_set import OPERATIONS, Use
from dynajit.capture.bytecode.instructions import Body, Handler, Instruction
from dynajit.capture.bytecode.resume import Home, Resume, Spot
from dynajit.capture.bytecode.versions import POSITION_IS_NULL
from dynajit.capture.machine.awaiting import Awaited
from dynajit.core.location import Location

#: Makes the object to call for a resume code: `make(made, home)(*locals, *cells, *stack)`.
MakeResume: TypeAlias = Callable[[Resume, Home], Callable[..., Any]]

#: Appends what pushes one value.
Push: TypeAlias = Callable[[], None]


class State:
    """Which stack slots are NULL, which locals and cells are in place. Mutable.

    Args:
        spot: the state to start from.
    """

    def __init__(self, spot: Spot) -> None:
        self.nulls = list(spot.nulls)
        self.bound = set(spot.bound)
        self.cells = set(spot.cells)

    def at(self, index: int) -> Spot:
        """The state as that in front of an instruction."""
        return Spot(index, frozenset(self.bound), frozenset(self.cells), tuple(self.nulls))

    def copy(self) -> "State":
        """The same, to be changed."""
        return State(self.at(0))

    def caught(self, handler: Handler) -> "State":
        """The state in front of the handler of an exception."""
        state = self.copy()
        del state.nulls[handler.depth :]
        state.nulls += [POSITION_IS_NULL] * handler.push_lasti + [False]
        return state

    def run(self, instruction: Instruction, jump: bool = False) -> None:
        """Follow one canonical instruction."""
        operation, argument = instruction.operation, instruction.argument
        if operation == "COPY":
            self.nulls.append(self.nulls[-argument])
            return
        if operation == "WITH_EXCEPT_START":  # looks at what is below, some of it NULL in 3.14
            self.nulls.append(False)
            return
        if operation == "SWAP":
            nulls = self.nulls
            nulls[-1], nulls[-argument] = nulls[-argument], nulls[-1]
            return
        popped, pushed = OPERATIONS[operation].effect(argument, jump)
        taken = [self.nulls.pop() for _ in range(popped)]
        self.nulls.extend(self._pushed_nulls(operation, argument, pushed))
        self._follow_variables(operation, argument, taken)

    def _follow_variables(self, operation: str, argument: Any, taken: list[bool]) -> None:
        if operation == "MAKE_CELL":
            self.bound.discard(argument)
            self.cells.add(argument)
        elif operation in ("LOAD_FAST_AND_CLEAR", "DELETE_FAST"):
            self.bound.discard(argument)
        elif operation == "LOAD_CELL_AND_CLEAR":
            self.cells.discard(argument)
        elif operation in ("STORE_FAST", "STORE_CELL"):
            names = self.cells if operation == "STORE_CELL" else self.bound
            (names.discard if taken[0] else names.add)(argument)

    def _pushed_nulls(self, operation: str, argument: Any, pushed: int) -> list[bool]:
        if operation == "PUSH_NULL":
            return [True]
        if operation in ("LOAD_METHOD", "LOAD_SUPER_METHOD", "LOAD_SPECIAL"):
            return [NULL_IS_BELOW, not NULL_IS_BELOW]
        if operation == "LOAD_FAST_AND_CLEAR":
            return [argument not in self.bound]
        if operation == "LOAD_CELL_AND_CLEAR":
            return [argument not in self.cells]
        return [False] * pushed


class Tail:
    """Writes what follows when the state of a frame is in place. Mutable; used once.

    Args:
        writer: where to append.
        body: the code whose instructions run.
        copy: a copy of the same code.
        home: what the code becomes a function with.
        make_resume: makes the object that is called to go on; None: go on as plain Python.
        keeps: an exception that is caught keeps this very frame: handlers run here.
    """

    def __init__(
        self,
        writer: Writer,
        body: Body,
        copy: Copy,
        home: Home,
        make_resume: MakeResume | None,
        keeps: bool,
    ) -> None:
        self.writer = writer
        self.body = body
        self.copy = copy
        self.home = home
        self.make_resume = make_resume
        self.keeps = keeps
        self.needs_copy = False
        self._landings: list[tuple[Label, int, State]] = []

    # -- the instruction -------------------------------------------------------------------------

    def run_instruction(self, index: int, state: State) -> None:
        """The breaking instruction for real, and every place where it can go on."""
        body = self.body
        group = [body[at] for at in range(index, body.after(index))]
        last = group[-1]
        real = without_method_slot(self.copy.between(group[0].offset, last.last_offset))
        jumped = Label()
        if OPERATIONS[last.operation].on_jump is not None:
            real[-1] = with_jump_to(real[-1], jumped)
        if last.operation == "PUSH_EXC_INFO":
            self.writer.copy_top()
            self.writer.store_local(resume.handled_name(len(state.nulls) - 1))
        self.writer.maximum = max(self.writer.maximum, len(state.nulls) + 2)
        self._protect(real, last.handler, state)
        for jump, at, after in self._places(group, state):
            self.writer.label(jumped if jump else Label(), len(after.nulls))
            if jump and last.operation == "FOR_ITER":
                self._end_of_loop(len(after.nulls))
            if last.operation == "CHECK_EG_MATCH":
                self._keep_match(body.handling[index][-1])
            self.go_on(at, after)

    def _keep_match(self, slot: int) -> None:
        """`except*` has made the part that matches, if any, the handled exception."""
        writer, kept = self.writer, resume.handled_name(slot)
        writer.store_local(".match")
        writer.callable(lambda: writer.load_constant(handled_part))
        writer.load_local(".match")
        writer.load_local(kept)
        writer.call(2)
        writer.store_local(kept)
        writer.load_local(".match")
        writer.delete_local(".match")

    def _places(self, group: Sequence[Instruction], before: State) -> list[tuple[bool, int, State]]:
        """(by jump, instruction, state) for each place where an instruction can go on."""
        last = group[-1]
        row = OPERATIONS[last.operation]
        jumps = [False] if row.falls_through else []
        if row.on_jump is not None:
            jumps.append(True)
        result = []
        for jump in jumps:
            state = before.copy()
            for instruction in group:
                state.run(instruction, jump=jump and instruction is last)
            at = last.argument if jump else self.body.after(group[0].index)
            result.append((jump, at, state))
        return result

    def _end_of_loop(self, depth: int) -> None:
        """What FOR_ITER expects at its target and skips; never executed."""
        self.writer.depth = depth + 2  # what the interpreter has popped already
        self.writer.end_of_loop()
        self.writer.depth = depth

    def _protect(self, items: Sequence[Item], handler: Handler | None, state: State) -> None:
        """Append instructions under the handler that covers them in the original."""
        if handler is None:
            self.writer.extend(items)
            return
        caught = state.caught(handler)
        if not self.keeps and self._why_not_resumable(handler.target, caught) is None:
            target = Label()
            self._landings.append((target, handler.target, caught))
        else:
            target = self.copy.label(self.body[handler.target].offset)
            self.needs_copy = True
        self.writer.extend(protected(items, target, handler.depth, handler.push_lasti))

    # -- waiting for a frame -----------------------------------------------------------------------

    def run_inner(
        self, index: int, awaited: Awaited, state: State, push: Push, values: Sequence[list[Push]]
    ) -> None:
        """What an instruction that waits for a frame does, and every place where it can go on.

        Args:
            index: the waiting instruction; its operands have been popped.
            awaited: what it does with the result.
            state: the state now.
            push: pushes what is called, without arguments, in place of the frame.
            values: for each of `awaited.then`, what push its values.
        """
        body, writer = self.body, self.writer
        last = body[index]
        jumped = Label()
        real = self.copy.between(last.offset, last.last_offset)
        before, writer.items = writer.items, []
        kept, writer.location = writer.location, real[-1].location or writer.location
        if awaited.use is Use.NEXT:
            self._next(push, with_jump_to(real[-1], jumped))
        else:
            self._result(awaited, push, values, real[-1], jumped)
        written, writer.items = writer.items, before
        writer.location = kept
        self._protect(written, last.handler, state)
        for jump, at, after in self._places_after(index, awaited.use, state):
            writer.label(jumped if jump else Label(), len(after.nulls))
            if awaited.use is Use.NEXT:
                self._drop_one_shot(jump, len(after.nulls))
            self.go_on(at, after)

    def _result(
        self,
        awaited: Awaited,
        push: Push,
        values: Sequence[list[Push]],
        real: Instr,
        jumped: Label,
    ) -> None:
        writer = self.writer
        writer.callable(lambda: writer.load_constant(_capture.finish_tail_calls))
        push()
        writer.call(1)
        for part, pushes in zip(awaited.then, values, strict=True):
            writer.store_local(".result")
            writer.callable(functools.partial(writer.load_constant, part.function))
            writer.load_local(".result")
            for push_value in pushes:
                push_value()
            writer.call(1 + len(pushes))
            writer.delete_local(".result")
        if awaited.use is Use.DROP:
            writer.pop()
        elif awaited.use is Use.PUSH_METHOD:
            writer.push_null()
            if NULL_IS_BELOW:
                writer.append("SWAP", 2)
        elif awaited.use is Use.OPERAND:
            is_jump = "JUMP" in str(real.name)
            writer.extend([with_jump_to(real, jumped) if is_jump else real])

    def _next(self, push: Push, for_iter: Instr) -> None:
        """FOR_ITER over an iterator that gives one item: what the frame returns.

        The interpreter itself then leaves the loop where the frame raises StopIteration.
        """
        writer = self.writer
        writer.callable(lambda: writer.load_constant(iter))
        writer.callable(lambda: writer.load_constant(functools.partial))
        writer.load_constant(_capture.finish_tail_calls)
        push()
        writer.call(2)
        writer.load_constant(_NEVER)
        writer.call(2)
        writer.extend([for_iter])
        writer.maximum = max(writer.maximum, writer.depth + 1)

    def _drop_one_shot(self, jump: bool, depth: int) -> None:
        writer = self.writer
        if jump:
            self._end_of_loop(depth + 1)
        else:
            writer.depth = depth + 1
            writer.append("SWAP", 2)
        writer.pop()

    def _places_after(self, index: int, use: Use, before: State) -> list[tuple[bool, int, State]]:
        instruction = self.body[index]
        after = self.body.after(index)
        if use is Use.OPERAND:
            state = before.copy()
            state.nulls.append(False)
            return self._places([instruction], state)
        state = before.copy()
        if use is Use.NEXT:
            left = before.copy()
            left.nulls.pop()
            state.nulls.append(False)
            return [(False, after, state), (True, instruction.argument, left)]
        if use is Use.PUSH_METHOD:
            state.nulls += [NULL_IS_BELOW, not NULL_IS_BELOW]
        elif use is Use.PUSH:
            state.nulls.append(False)
        return [(False, after, state)]

    # -- going on ----------------------------------------------------------------------------------

    def _why_not_resumable(self, index: int, state: State) -> str | None:
        if self.make_resume is None:
            return "the rest runs as plain Python"
        return resume.why_not_resumable(self.body, state.at(index))

    def go_on(self, index: int, state: State) -> None:
        """Leave the code for what follows at an instruction."""
        index, state = self._store(index, state)
        if self.body[index].operation == "RETURN_VALUE":
            self.writer.append("RETURN_VALUE", None, 1, 0)
        elif self._why_not_resumable(index, state) is None:
            self._call_resume(state.at(index), state)
        else:
            self.writer.jump(self.copy.label(self.body[index].offset))
            self.needs_copy = True

    def _store(self, index: int, state: State) -> tuple[int, State]:
        """Bind or drop the result for real: what the local held before ends here, whatever it is.

        Returns:
            Where control goes on, and the state there.
        """
        body, state = self.body, state.copy()
        while body[index].operation in ("STORE_FAST", "POP_TOP"):
            after = body.after(index)
            if after != index + 1 or state.nulls[-1]:
                break
            self.writer.extend(self.copy.between(body[index].offset, body[index].last_offset))
            state.run(body[index])
            self.writer.depth = len(state.nulls)
            index = after
        return index, state

    def _call_resume(self, spot: Spot, state: State) -> None:
        """Have the caller of this code call the resume function: this frame is gone by then."""
        writer = self.writer
        made = resume.resume(self.body, spot)
        handling = self.body.handling[spot.index]
        for slot in reversed(range(len(spot.nulls))):
            if slot in handling:
                writer.append("POP_EXCEPT", None, 1, 0)
            else:
                writer.store_local(f".slot{slot}")
                if POSITION_IS_NULL and spot.nulls[slot]:  # perhaps a position: keep no such local
                    writer.load_constant(None)
                    writer.store_local(f".slot{slot}")
        passed = [
            resume.handled_name(slot) if slot in handling else f".slot{slot}" for slot in made.slots
        ]
        assert self.make_resume is not None
        known = self.make_resume(made, self.home)
        writer.callable(lambda: writer.load_constant(_capture.tail_call))
        writer.load_constant(known)
        for name in made.locals:
            if name in state.bound:
                writer.load_local(name)
                writer.delete_local(name)  # the frame may outlive the call: a traceback has it
            else:
                writer.load_constant(None)
        for name in made.cells:
            writer.load_cell(cell_place(self.body.code, name))
        for name in passed:
            writer.load_local(name)
            writer.delete_local(name)
        writer.call(1 + len(made.locals) + len(made.cells) + len(passed))
        writer.append("RETURN_VALUE", None, 1, 0)

    def close(self) -> list[Item]:
        """Append what is left to write; the copy of the original that has to follow, if any."""
        for label, index, state in self._landings:
            self.writer.label(label, len(state.nulls))
            self.go_on(index, state)
        return self.copy.items() if self.needs_copy else []


class _Never:
    """Equal to nothing: the end of an iteration that has no end of its own."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


_NEVER: Final = _Never()


def handled_part(match: BaseException | None, handled: BaseException) -> BaseException:
    """What is being handled after `except*` looked for a match."""
    return handled if match is None else match


def line_of(location: Location) -> InstrLocation:
    """A line, as instructions carry it."""
    return InstrLocation(location.line, None, None, None)
