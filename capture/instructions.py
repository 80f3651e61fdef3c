"""Reading bytecode: a code object as canonical instructions.

The only reader that knows Python versions. `decode(code)` gives a `Body`: instructions of
`capture.instruction_set`, jumps as indices of instructions, and for each instruction the exception
handler that covers it. Frozen data; the result is kept as long as the code object lives.

Several instructions may come from one bytecode instruction and then share its `offset`; one
instruction may stand for several (keyword names and CALL) and then has the offset of the first.
Execution can therefore be restarted exactly at instructions that are the first of their offset
(`Body.first_of_offset`).

Read by the executor, and by `capture.emit` and `capture.resume` for stack depths and live locals.
"""

import bisect
import dis
import inspect
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import Any, Final

from bytecode.instr import BinaryOp, Intrinsic1Op, Intrinsic2Op
from dynajit.capture.instruction_set import DROPPED, JUMPS, OPERATIONS
from dynajit.capture.versions import IS_311, IS_313

from dynajit.core.errors import InternalError
from dynajit.core.location import Location


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Instruction:
    """One canonical instruction.

    Args:
        index: its place in `Body.instructions`.
        operation: a name in `capture.instruction_set.OPERATIONS`.
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
        return _stack_depths(self)

    @cached_property
    def handling(self) -> tuple[tuple[int, ...], ...]:
        """Stack slots, before each instruction, that hold the exception being handled further out.

        Each is the lower of the two slots pushed by PUSH_EXC_INFO; empty outside `except` blocks.
        """
        return _handling(self)

    @cached_property
    def live(self) -> tuple[frozenset[str], ...]:
        """Plain locals whose value before each instruction may still be read."""
        return _liveness(self)

    def text(self) -> str:
        """A listing for reports."""
        lines = []
        previous = None
        for instruction in self.instructions:
            line = instruction.location.line
            lines.append(f"{line if line != previous else '':>5} {instruction}")
            previous = line
        return "\n".join(lines)


_DECODED: Final[dict[int, tuple["weakref.ref[CodeType]", Body]]] = {}


def decode(code: CodeType) -> Body:
    """The canonical instructions of `code`; made once per code object.

    Raises:
        InternalError: an opcode this Python should not have.
    """
    key = id(code)
    entry = _DECODED.get(key)
    if entry is not None and entry[0]() is code:
        return entry[1]
    body = _Decoder(code).body()
    _DECODED[key] = (weakref.ref(code, lambda _: _DECODED.pop(key, None)), body)
    return body


def live_locals(body: Body, index: int) -> frozenset[str]:
    """Plain locals whose value may still be read when execution goes on at `index`."""
    return body.live[index]


# ------------------------------------------------------------------------------------- decoding

_COMPARISON_BOOL: Final = 16  # 3.13: this bit of COMPARE_OP asks for an exact bool
_CONVERSIONS: Final = {1: "str", 2: "repr", 3: "ascii"}
_FUNCTION_ATTRIBUTES: Final = {
    1: "defaults", 2: "keyword_defaults", 4: "annotations", 8: "closure",
}  # fmt: skip
_BINARY_SYMBOLS: Final = {
    "ADD": "+", "AND": "&", "FLOOR_DIVIDE": "//", "LSHIFT": "<<", "MATRIX_MULTIPLY": "@",
    "MULTIPLY": "*", "REMAINDER": "%", "OR": "|", "POWER": "**", "RSHIFT": ">>",
    "SUBTRACT": "-", "TRUE_DIVIDE": "/", "XOR": "^",
}  # fmt: skip
_INTRINSICS: Final = {
    "ASYNC_GEN_WRAP": "ASYNC_GEN_WRAP",
    "UNARY_POSITIVE": "UNARY_POSITIVE",
    "LIST_TO_TUPLE": "LIST_TO_TUPLE",
}
#: Bytecode instructions without an argument, or whose argument `dis` already gives as wanted.
_SAME_WITHOUT_ARGUMENT: Final = frozenset(
    row.name for row in OPERATIONS.values() if not row.argument
)
_SAME_WITH_NUMBER: Final = frozenset(
    {"COPY", "SWAP", "BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP",
     "BUILD_STRING", "BUILD_SLICE", "LIST_APPEND", "SET_ADD", "MAP_ADD", "LIST_EXTEND",
     "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE", "UNPACK_SEQUENCE", "MATCH_CLASS",
     "RAISE_VARARGS", "RERAISE", "GET_AWAITABLE"}
)  # fmt: skip
_SAME_WITH_VALUE: Final = frozenset(
    {"LOAD_CONST", "LOAD_FAST", "LOAD_FAST_AND_CLEAR", "STORE_FAST", "DELETE_FAST", "MAKE_CELL",
     "LOAD_CLOSURE", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "STORE_GLOBAL",
     "DELETE_GLOBAL", "LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_CLASSDEREF",
     "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_ATTR", "DELETE_ATTR",
     "IMPORT_NAME", "IMPORT_FROM"}
)  # fmt: skip


def _binary_symbol(argument: int) -> str:
    name = BinaryOp(argument).name
    if name.startswith("INPLACE_"):
        return _BINARY_SYMBOLS[name.removeprefix("INPLACE_")] + "="
    return _BINARY_SYMBOLS[name]


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
        """A reason, or None."""
        captured = {*self.code.co_cellvars, *self.code.co_freevars}
        shadows = sorted(
            row[1] for row in self.rows if row[0] == "LOAD_FAST_AND_CLEAR" and row[1] in captured
        )
        if shadows:
            return f"a comprehension's variable has the name of a captured variable: {shadows[0]}"
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
        if name == "POP_TOP" and self.previous == "END_FOR" and IS_313:
            return
        if name in DROPPED:
            return
        if name in ("CALL", "CALL_KW"):
            names, self.keyword_names = self.keyword_names, ()
            self.append(item, ("CALL", (item.arg, names)), start=self.call_start)
            self.call_start = None
            return
        self.append(item, *self.canonical(item))

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

    def canonical(self, item: dis.Instruction) -> tuple[tuple[str, Any], ...]:
        """(operation, argument) pairs for everything but calls; jump arguments are offsets."""
        name = item.opname
        if name in _TRANSLATIONS:
            return _TRANSLATIONS[name](item, self.code)
        if name in _SAME_WITHOUT_ARGUMENT:
            return ((name, None),)
        if name in _SAME_WITH_NUMBER:
            return ((name, item.arg),)
        if name == "LOAD_FAST" and self.is_cell(item.arg or 0):
            return (("LOAD_CLOSURE", item.argval),)
        if name in _SAME_WITH_VALUE:
            return ((name, item.argval),)
        if item.opcode in dis.hasjrel or item.opcode in dis.hasjabs:
            return ((_jump_name(name), item.argval),)
        raise InternalError(f"decode({self.code.co_qualname}): unknown bytecode operation {name}.")

    def is_cell(self, slot: int) -> bool:
        """3.13 loads cells with LOAD_FAST: is this slot a cell's?"""
        if not IS_313:
            return False
        names = self.code.co_varnames
        return slot >= len(names) or names[slot] in self.code.co_cellvars


def _jump_name(name: str) -> str:
    short = name.replace("_FORWARD", "").replace("_BACKWARD", "").replace("_NO_INTERRUPT", "")
    return short if short in JUMPS else name


def _load_global(item: dis.Instruction, code: CodeType) -> tuple[tuple[str, Any], ...]:
    argument = item.arg or 0
    load = ("LOAD_GLOBAL", code.co_names[argument >> 1])
    if not argument & 1:
        return (load,)
    return (load, ("PUSH_NULL", None)) if IS_313 else (("PUSH_NULL", None), load)


def _load_attr(item: dis.Instruction, code: CodeType) -> tuple[tuple[str, Any], ...]:
    argument = item.arg or 0
    if IS_311:
        return (("LOAD_ATTR", code.co_names[argument]),)
    return (("LOAD_METHOD" if argument & 1 else "LOAD_ATTR", code.co_names[argument >> 1]),)


def _load_super_attr(item: dis.Instruction, code: CodeType) -> tuple[tuple[str, Any], ...]:
    argument = item.arg or 0
    name = code.co_names[argument >> 2]
    return (("LOAD_SUPER_METHOD" if argument & 1 else "LOAD_SUPER_ATTR", name),)


def _format_value(item: dis.Instruction, _: CodeType) -> tuple[tuple[str, Any], ...]:
    argument = item.arg or 0
    conversion = _CONVERSIONS.get(argument & 3)
    with_spec = bool(argument & 4)
    if conversion is None:
        return (("FORMAT_VALUE", with_spec),)
    if not with_spec:
        return (("CONVERT_VALUE", conversion), ("FORMAT_VALUE", False))
    return (("SWAP", 2), ("CONVERT_VALUE", conversion), ("SWAP", 2), ("FORMAT_VALUE", True))


def _make_function(item: dis.Instruction, _: CodeType) -> tuple[tuple[str, Any], ...]:
    flags = 0 if IS_313 else item.arg or 0
    attributes = [
        ("SET_FUNCTION_ATTRIBUTE", _FUNCTION_ATTRIBUTES[flag])
        for flag in (8, 4, 2, 1)
        if flags & flag
    ]
    return (("MAKE_FUNCTION", None), *attributes)


def _compare(item: dis.Instruction, _: CodeType) -> tuple[tuple[str, Any], ...]:
    compare = ("COMPARE_OP", item.argval)
    if IS_313 and (item.arg or 0) & _COMPARISON_BOOL:
        return (compare, ("TO_BOOL", None))
    return (compare,)


def _intrinsic_1(item: dis.Instruction, _: CodeType) -> tuple[tuple[str, Any], ...]:
    name = Intrinsic1Op(item.arg).name.removeprefix("INTRINSIC_")
    if name in _INTRINSICS:
        return ((_INTRINSICS[name], None),)
    return (("CALL_INTRINSIC_1", name),)


def _intrinsic_2(item: dis.Instruction, _: CodeType) -> tuple[tuple[str, Any], ...]:
    return (("CALL_INTRINSIC_2", Intrinsic2Op(item.arg).name.removeprefix("INTRINSIC_")),)


def _pair(first: str, second: str) -> Any:
    def translate(item: dis.Instruction, _: CodeType) -> tuple[tuple[str, Any], ...]:
        return ((first, item.argval[0]), (second, item.argval[1]))

    return translate


def _fixed(*rows: tuple[str, Any]) -> Any:
    return lambda item, code: rows


_TRANSLATIONS: Final[dict[str, Any]] = {
    "LOAD_GLOBAL": _load_global,
    "LOAD_ATTR": _load_attr,
    "LOAD_METHOD": lambda item, code: (("LOAD_METHOD", code.co_names[item.arg]),),
    "LOAD_SUPER_ATTR": _load_super_attr,
    "LOAD_FAST_CHECK": lambda item, code: (("LOAD_FAST", item.argval),),
    "LOAD_FAST_LOAD_FAST": _pair("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": _pair("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": _pair("STORE_FAST", "STORE_FAST"),
    "BINARY_OP": lambda item, code: (("BINARY_OP", _binary_symbol(item.arg)),),
    "COMPARE_OP": _compare,
    "IS_OP": lambda item, code: (("IS_OP", bool(item.arg)),),
    "CONTAINS_OP": lambda item, code: (("CONTAINS_OP", bool(item.arg)),),
    "BINARY_SLICE": _fixed(("BUILD_SLICE", 2), ("BINARY_SUBSCR", None)),
    "STORE_SLICE": _fixed(("BUILD_SLICE", 2), ("STORE_SUBSCR", None)),
    "UNPACK_EX": lambda item, code: (("UNPACK_EX", (item.arg & 0xFF, item.arg >> 8)),),
    "FORMAT_VALUE": _format_value,
    "CONVERT_VALUE": lambda item, code: (("CONVERT_VALUE", _CONVERSIONS[item.arg]),),
    "FORMAT_SIMPLE": _fixed(("FORMAT_VALUE", False)),
    "FORMAT_WITH_SPEC": _fixed(("FORMAT_VALUE", True)),
    "RETURN_CONST": lambda item, code: (("LOAD_CONST", item.argval), ("RETURN_VALUE", None)),
    "CALL_FUNCTION_EX": lambda item, code: (("CALL_FUNCTION_EX", bool(item.arg & 1)),),
    "MAKE_FUNCTION": _make_function,
    "SET_FUNCTION_ATTRIBUTE": lambda item, code: (
        ("SET_FUNCTION_ATTRIBUTE", _FUNCTION_ATTRIBUTES[item.arg]),
    ),
    "CALL_INTRINSIC_1": _intrinsic_1,
    "CALL_INTRINSIC_2": _intrinsic_2,
    "PREP_RERAISE_STAR": _fixed(("CALL_INTRINSIC_2", "PREP_RERAISE_STAR")),
}


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


# ------------------------------------------------------------------------------------- analysis


def _stack_depths(body: Body) -> tuple[int | None, ...]:
    depths: list[int | None] = [None] * len(body)
    pending = [(0, 0)] if len(body) else []
    while pending:
        index, depth = pending.pop()
        known = depths[index]
        if known is not None:
            if known != depth:
                raise InternalError(
                    f"{body.code.co_qualname}: stack depth {depth} and {known} at "
                    f"{body[index]} ({body[index].location})"
                )
            continue
        depths[index] = depth
        pending.extend(_depths_after(body, index, depth))
    return tuple(depths)


def _depths_after(body: Body, index: int, depth: int) -> Iterator[tuple[int, int]]:
    """(successor, stack depth there), handlers included."""
    instruction = body[index]
    row = OPERATIONS[instruction.operation]
    popped, pushed = row.effect(instruction.argument)
    if row.falls_through:
        yield index + 1, depth - popped + pushed
    if row.on_jump is not None:
        popped, pushed = row.on_jump
        yield instruction.argument, depth - popped + pushed
    if instruction.handler is not None:
        handler = instruction.handler
        yield handler.target, handler.depth + handler.push_lasti + 1


def _handling(body: Body) -> tuple[tuple[int, ...], ...]:
    slots: list[tuple[int, ...] | None] = [None] * len(body)
    pending: list[tuple[int, tuple[int, ...]]] = [(0, ())] if len(body) else []
    while pending:
        index, before = pending.pop()
        if slots[index] is not None:
            continue
        slots[index] = before
        instruction = body[index]
        after = before
        if instruction.operation == "PUSH_EXC_INFO":
            after = (*before, (body.depths[index] or 1) - 1)
        elif instruction.operation == "POP_EXCEPT":
            after = before[:-1]
        pending.extend((successor, after) for successor in body.successors(index))
        if (handler := instruction.handler) is not None:
            pending.append((handler.target, tuple(s for s in before if s < handler.depth)))
    return tuple(() if entry is None else entry for entry in slots)


_READS: Final = frozenset({"LOAD_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST", "MAKE_CELL"})
_WRITES: Final = frozenset({"STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR"})
#: Names that give a function access to its own locals without an instruction for each.
_INTROSPECTION: Final = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe"})


def _liveness(body: Body) -> tuple[frozenset[str], ...]:
    """Backward dataflow; handlers count as successors of every instruction they cover."""
    always = _always_live(body.code)
    live: list[frozenset[str]] = [always] * (len(body) + 1)
    changed = True
    while changed:
        changed = False
        for index in range(len(body) - 1, -1, -1):
            instruction = body[index]
            after = frozenset().union(*(live[at] for at in body.successors(index)))
            if instruction.operation in _WRITES:
                after -= {instruction.argument}
            if instruction.operation in _READS:
                after |= {instruction.argument}
            if instruction.handler is not None:
                after |= live[instruction.handler.target]
            if not after <= live[index]:
                live[index] |= after
                changed = True
    return tuple(live[:-1])


def _always_live(code: CodeType) -> frozenset[str]:
    """Locals that something else than an instruction may read."""
    if _INTROSPECTION & set(code.co_names):
        return frozenset(code.co_varnames)
    if "__class__" in code.co_freevars and code.co_argcount:
        return frozenset(code.co_varnames[:1])  # zero-argument super() reads the first parameter
    return frozenset()
