"""Reading bytecode: a code object as canonical instructions.

`decode(code)` gives a `Body`: instructions of `capture.bytecode.instruction_set`, jumps as indices
of instructions, and for each instruction the exception handler that covers it. Frozen data; the
result is kept as long as the code object lives. Python versions matter only here and in
`capture.bytecode.translation`.

Several instructions may come from one bytecode instruction and then share its `offset`; one
instruction may stand for several (keyword names and CALL) and then has the offset of the first.
Execution can therefore be restarted exactly at instructions that are the first of their offset
(`Body.first_of_offset`).

Read by the executor, and by `capture.emit.emit` and `capture.bytecode.resume` for stack depths and
live locals.
"""

import bisect
import dis
import inspect
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import Any, Final, Generic, TypeVar

from dynajit.capture.bytecode import dataflow
from dynajit.capture.bytecode.instruction_set import DROPPED, JUMPS, OPERATIONS
from dynajit.capture.bytecode.translation import canonical
from dynajit.capture.bytecode.versions import IS_311, IS_313, IS_314
from dynajit.core.errors import InternalError
from dynajit.core.location import Location
from dynajit.core.records import record

T = TypeVar("T")


@record
class Handler:
    """Where an exception goes.

    Args:
        target: index of the handler's first instruction.
        depth: the stack is cut to this depth,
        push_lasti: then the position of the raising instruction is pushed if this is True,
            then the exception.
    """

    target: int
    depth: int
    push_lasti: bool


@record
class Instruction:
    """One canonical instruction.

    Args:
        index: its place in `Body.instructions`.
        operation: a name in `capture.bytecode.instruction_set.OPERATIONS`.
        argument: see the operation's row; for jumps the index of the target.
        location: the user's line.
        offset: byte offset of the (first) bytecode instruction it comes from.
        handler: what catches its exceptions inside this code, or None.
        last_offset: byte offset of the last bytecode instruction it comes from.
    """

    index: int
    operation: str
    argument: Any
    location: Location
    offset: int
    handler: Handler | None = None
    last_offset: int = -1

    def __str__(self) -> str:
        argument = "" if self.argument is None else f" {self.argument!r}"
        return f"{self.index:4} {self.operation}{argument}"


@dataclass(frozen=True, eq=False)
class Body:
    """A decoded code object.

    Does not keep the code object alive; whoever uses a body holds its code.

    Args:
        reference: weak reference to the code object.
        instructions: canonical instructions in order; execution starts at the first.
        parameters: all parameters in the order of the frame's slots: positional, keyword-only,
            `*args`, `**kwargs`.
        unsupported: why this code cannot be executed symbolically, or None.
    """

    reference: "weakref.ref[CodeType]" = field(repr=False)
    instructions: tuple[Instruction, ...] = field(repr=False)
    parameters: tuple[str, ...]
    unsupported: str | None = None

    @property
    def code(self) -> CodeType:
        """The code object.

        Raises:
            InternalError: it is gone.
        """
        code = self.reference()
        if code is None:
            raise InternalError("Body.code: the code object no longer exists.")
        return code

    @property
    def cellvars(self) -> tuple[str, ...]:
        """Names of the locals that live in cells made by this code (may include parameters)."""
        return self.code.co_cellvars

    @property
    def freevars(self) -> tuple[str, ...]:
        """Names of the variables of enclosing functions, in the order of the closure."""
        return self.code.co_freevars

    @property
    def is_generator(self) -> bool:
        """True for generators, coroutines and asynchronous generators."""
        kinds = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        return bool(self.code.co_flags & (kinds | inspect.CO_ITERABLE_COROUTINE))

    def __len__(self) -> int:
        return len(self.instructions)

    def __getitem__(self, index: int) -> Instruction:
        return self.instructions[index]

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def first_of_offset(self, index: int) -> int:
        """The first instruction with the same offset: where execution can be restarted."""
        offset = self.instructions[index].offset
        while index and self.instructions[index - 1].offset == offset:
            index -= 1
        return index

    def after(self, index: int) -> int:
        """The first instruction behind those that share the offset of `index`."""
        offset = self.instructions[index].offset
        while index < len(self) and self.instructions[index].offset == offset:
            index += 1
        return index

    def successors(self, index: int) -> tuple[int, ...]:
        """Where control can go without an exception."""
        instruction = self.instructions[index]
        row = OPERATIONS[instruction.operation]
        following = (index + 1,) if row.falls_through else ()
        return (*following, instruction.argument) if row.on_jump is not None else following

    @cached_property
    def depths(self) -> tuple[int | None, ...]:
        """Stack depth before each instruction; None where it is unreachable.

        Raises:
            InternalError: two paths disagree.
        """
        return dataflow.stack_depths(self)

    @cached_property
    def handling(self) -> tuple[tuple[int, ...], ...]:
        """Stack slots, before each instruction, that hold the exception being handled further out.

        Each is the lower of the two slots pushed by PUSH_EXC_INFO; empty outside `except` blocks.
        """
        return dataflow.handling(self)

    @cached_property
    def stops(self) -> tuple[bool, ...]:
        """True for the instructions in front of which a region may end.

        Real code can go on there, and there is a reason to: a new statement begins, control
        comes from elsewhere, or the instruction itself may be the breaking one.
        """
        return dataflow.stops(self)

    @cached_property
    def while_loops(self) -> dict[int, int]:
        """Where the turns of loops begin that are no `for`: the last jump back to there."""
        return dataflow.while_loops(self)

    @cached_property
    def kept(self) -> tuple[frozenset[str], ...]:
        """Plain locals that nothing reads before each instruction and that may have a value."""
        return dataflow.kept(self)

    @cached_property
    def live(self) -> tuple[frozenset[str], ...]:
        """Plain locals whose value before each instruction may still be read."""
        return dataflow.liveness(self)

    def text(self) -> str:
        """A listing for reports."""
        lines = []
        previous = None
        for instruction in self.instructions:
            line = instruction.location.line
            lines.append(f"{line if line != previous else '':>5} {instruction}")
            previous = line
        return "\n".join(lines)


class Recent(Generic[T]):
    """What was made of code objects, of the last few that were asked for. Mutable.

    Does not keep code alive. What is made of an instruction takes hundreds of bytes: a process
    with thousands of compiled functions would hold, and search for garbage, what it may never need.

    Args:
        make: of a code object.
        limit: how many to keep.
    """

    def __init__(self, make: Callable[[CodeType], T], limit: int) -> None:
        self.make = make
        self.limit = limit
        self.known: dict[int, tuple[weakref.ref[CodeType], T]] = {}

    def __call__(self, code: CodeType) -> T:
        """What `make` gives for `code`, now or lately."""
        key = id(code)
        entry = self.known.pop(key, None)
        if entry is None or entry[0]() is not code:
            entry = (weakref.ref(code, forget(self.known, key)), self.make(code))
        self.known[key] = entry  # behind the others: the first is the one not asked for longest
        if len(self.known) > self.limit:
            for oldest in list(self.known)[: -self.limit]:  # other threads may add in between
                self.known.pop(oldest, None)
        return entry[1]


def decode(code: CodeType) -> Body:
    """The canonical instructions of `code`.

    Raises:
        InternalError: an opcode this Python should not have.
    """
    return _decoded(code)


def forget(table: dict[int, Any], key: int) -> Callable[[Any], None]:
    """The callback of a weak reference that takes its row out of a table kept by id.

    Reads no global name: at the end of the process those are gone before the code objects are.
    """
    remove = table.pop

    def gone(_: Any) -> None:
        remove(key, None)

    return gone


_decoded: Final = Recent(lambda code: _Decoder(code).body(), 250)


def live_locals(body: Body, index: int) -> frozenset[str]:
    """Plain locals whose value may still be read when execution goes on at `index`."""
    return body.live[index]


# ------------------------------------------------------------------------------------- decoding


class _Decoder:
    """Translates one code object. Mutable; used once."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.line = code.co_firstlineno
        self.rows: list[tuple[str, Any, Location, int, int]] = []
        self.keyword_names: tuple[str, ...] = ()
        self.call_start: int | None = None
        self.previous = ""
        self.send_targets: set[int] = set()

    def body(self) -> Body:
        """The finished body."""
        raw = [item for item in dis.get_instructions(self.code) if item.opname != "EXTENDED_ARG"]
        if IS_311:
            self.send_targets = {item.argval for item in raw if item.opname == "SEND"}
        for position, item in enumerate(raw):
            self.translate(item, raw[position + 1].opname if position + 1 < len(raw) else "")
            self.previous = item.opname
        return Body(
            weakref.ref(self.code), self.linked(), parameters(self.code), self.why_unsupported()
        )

    def linked(self) -> tuple[Instruction, ...]:
        """The instructions with jumps and handlers as indices."""
        starts = [row[3] for row in self.rows]
        table = _exception_table(self.code)
        instructions = []
        for index, (operation, argument, location, offset, last) in enumerate(self.rows):
            if operation in JUMPS:
                argument = bisect.bisect_left(starts, argument)
            handler = None
            for start, end, target, depth, push_lasti in table:
                if start <= last < end:
                    handler = Handler(bisect.bisect_left(starts, target), depth, push_lasti)
            instructions.append(
                Instruction(index, operation, argument, location, offset, handler, last)
            )
        return tuple(instructions)

    def why_unsupported(self) -> str | None:
        """A reason, or None.

        Python (3.12 on) itself takes the two variables below for one, which has two names when
        the code object is written again.
        """
        both = sorted({*self.code.co_cellvars} & {*self.code.co_freevars})
        if both:
            return f"a free variable has the name of a comprehension's captured variable: {both[0]}"
        return None

    def location(self, item: dis.Instruction) -> Location:
        """The user's line and columns; instructions without a line get the previous one."""
        positions = item.positions
        line = positions.lineno if positions is not None else None
        if positions is None or line is None:
            return Location(self.code.co_filename, self.line, self.code.co_qualname)
        self.line = line
        single = positions.end_lineno == line
        return Location(
            self.code.co_filename, line, self.code.co_qualname, positions.col_offset,
            positions.end_col_offset if single else None,
        )  # fmt: skip

    def translate(self, item: dis.Instruction, following: str) -> None:
        """Append the canonical instructions for one bytecode instruction."""
        name = item.opname
        if item.offset in self.send_targets:
            self.append(item, ("END_SEND", None))
        if name in ("KW_NAMES", "PRECALL") or (following == "CALL_KW" and name == "LOAD_CONST"):
            self.begin_call(item)
            return
        if IS_314 and following == "CALL_FUNCTION_EX" and name == "PUSH_NULL":
            self.call_start = item.offset  # instead of a dict of keywords
            return
        if name in ("POP_TOP", "POP_ITER") and self.previous == "END_FOR" and IS_313:
            return
        if name in DROPPED:
            return
        if name in ("CALL", "CALL_KW"):
            names, self.keyword_names = self.keyword_names, ()
            self.append(item, ("CALL", (item.arg, names)), start=self.call_start)
            self.call_start = None
            return
        if self.call_start is not None:
            self.append(item, ("CALL_FUNCTION_EX", False), start=self.call_start)
            self.call_start = None
            return
        self.append(item, *canonical(item, self.code))

    def begin_call(self, item: dis.Instruction) -> None:
        """Remember the keyword names and where the group of call instructions starts."""
        if self.call_start is None:
            self.call_start = item.offset
        if item.opname != "PRECALL":
            self.keyword_names = self.code.co_consts[item.arg or 0]

    def append(
        self, item: dis.Instruction, *rows: tuple[str, Any], start: int | None = None
    ) -> None:
        """Append instructions that come from `item`."""
        location = self.location(item)
        offset = item.offset if start is None else start
        for operation, argument in rows:
            self.rows.append((operation, argument, location, offset, item.offset))


def parameters(code: CodeType) -> tuple[str, ...]:
    """All parameters in the order of their slots: positional, keyword-only, `*args`, `**kw`."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS)
    count += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def _exception_table(code: CodeType) -> list[tuple[int, int, int, int, bool]]:
    """(start, end, target, depth, push_lasti) with byte offsets.

    Source: CPython, Objects/exception_handling_notes.txt.
    """
    data = iter(code.co_exceptiontable)
    entries = []
    for first in data:
        start = _varint(first, data)
        length, target, depth = (_varint(next(data), data) for _ in range(3))
        entries.append((start * 2, (start + length) * 2, target * 2, depth >> 1, bool(depth & 1)))
    return entries


def _varint(byte: int, data: Iterator[int]) -> int:
    """Six bits a byte, high bits first; 64 marks that more follow."""
    value = byte & 63
    while byte & 64:
        byte = next(data)
        value = value << 6 | byte & 63
    return value
