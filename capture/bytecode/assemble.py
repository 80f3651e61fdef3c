"""Writing bytecode: the only writer that knows Python versions.

`Writer` appends instructions and follows the stack depth; `Copy` is a verbatim copy of a code
object whose places are addressed by byte offset; `assemble` makes the code object. Everything is
written with the `bytecode` package; this file works around five of its habits: constants that
marshal alike are merged (so all but singletons travel in boxes), operands of fused
instructions with 17 or more locals are mixed up (so fused instructions are split), the depth of
exception handlers is recomputed (so the given depths are kept), the conversion of a field of a
template string is misread (so another instruction stands in for it), and so are captured variables
whose name a plain local has, too (likewise).

Used by `capture.emit.emit` and `capture.bytecode.resume`.
"""

import dis
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, Final, TypeAlias

from bytecode import Bytecode, ConcreteBytecode, Instr, Label, SetLineno
from bytecode.concrete import ExceptionTableEntry
from bytecode.flags import CompilerFlags
from bytecode.instr import BinaryOp, CellVar, FreeVar, InstrLocation, TryBegin, TryEnd

from dynajit.capture import _capture
from dynajit.capture.bytecode.instructions import Recent
from dynajit.capture.bytecode.translation import SPECIAL_METHODS
from dynajit.capture.bytecode.versions import IS_311, IS_313, IS_314
from dynajit.core.errors import InternalError
from dynajit.core.records import record

Item: TypeAlias = Instr | Label | TryBegin | TryEnd | SetLineno

#: Where LOAD_METHOD and calls have the empty slot: below the callable up to 3.12, above it later.
NULL_IS_BELOW: Final = not IS_313

_PLAIN: Final = (bool, type(None), type(Ellipsis), CodeType)
_FUSED: Final = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}


#: An instruction that the package misreads, and one that takes its place on the way: it is found
#: only in coroutines, which are never copied.
_MISREAD: Final = dis.opmap.get("BUILD_INTERPOLATION", -1)
_STAND_IN: Final = dis.opmap["GET_AWAITABLE"]


class _Placed(FreeVar):
    """A free variable of which a STORE_DEREF puts the cell itself in place, not its contents."""


#: An instruction whose operand is always read as that of a captured variable.
_ON_CAPTURED: Final = "DELETE_DEREF"


def _exchanged(code: CodeType, old: int, new: int) -> CodeType:
    """The code with one opcode in the place of another."""
    text = bytearray(code.co_code)
    places = [position for position in range(0, len(text), 2) if text[position] == old]
    for position in places:
        text[position] = new
    return code.replace(co_code=bytes(text)) if places else code


class _Box:
    """An object on its way into `co_consts`; unique, so that nothing is merged with it.

    Equal objects stay two where they are two: the program may ask which they are.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def boxed(value: Any) -> Any:
    """The constant as the `bytecode` package may see it."""
    return value if _is_plain(value) else _Box(value)


def _is_plain(value: Any) -> bool:
    return any(type(value) is kind for kind in _PLAIN)  # `in` may ask the metaclass of a class


def _share_boxes(items: Iterable[Item]) -> None:
    """One box, and so one constant, for each object."""
    boxes: dict[int, _Box] = {}
    for item in items:
        if isinstance(item, Instr) and type(item.arg) is _Box:
            item.arg = boxes.setdefault(id(item.arg.value), item.arg)


class Writer:
    """Appends instructions, with the version's spelling; follows the stack depth. Mutable.

    Args:
        location: line of what is appended; may be changed at any time.
    """

    def __init__(self, location: InstrLocation) -> None:
        self.items: list[Item] = []
        self.location = location
        self.depth = 0
        self.maximum = 0

    def append(self, name: str, argument: Any = None, popped: int = 0, pushed: int = 0) -> None:
        """One instruction as the `bytecode` package spells it."""
        arguments = () if argument is None else (argument,)
        self.items.append(Instr(name, *arguments, location=self.location))
        self.depth -= popped
        if self.depth < 0:
            raise InternalError(f"Writer.append({name}): the stack is empty.")
        self.depth += pushed
        self.maximum = max(self.maximum, self.depth)

    def label(self, label: Label, depth: int) -> None:
        """A jump target, reached with `depth` slots on the stack."""
        self.items.append(label)
        self.depth = depth

    def extend(self, items: Iterable[Item]) -> None:
        """Instructions whose stack use is accounted for elsewhere."""
        self.items.extend(items)

    def load_constant(self, value: Any) -> None:
        """Push any object."""
        self.items.append(Instr("LOAD_CONST", boxed(value), location=self.location))
        self.depth += 1
        self.maximum = max(self.maximum, self.depth)

    def load_local(self, name: str) -> None:
        """Push a local that is bound."""
        self.append("LOAD_FAST", name, 0, 1)

    def store_local(self, name: str) -> None:
        """Pop into a local; storing NULL unbinds it."""
        self.append("STORE_FAST", name, 1, 0)

    def delete_local(self, name: str) -> None:
        """Unbind a local that is bound."""
        self.append("DELETE_FAST", name)

    def load_global(self, name: str) -> None:
        """Push a global or builtin."""
        self.append("LOAD_GLOBAL", (False, name), 0, 1)

    def load_attribute(self, name: str) -> None:
        """Replace the object on top by its attribute."""
        self.append("LOAD_ATTR", name if IS_311 else (False, name), 1, 1)

    def subscript(self) -> None:
        """container, key -> container[key]."""
        if IS_314:
            self.append("BINARY_OP", BinaryOp["SUBSCR"], 2, 1)
        else:
            self.append("BINARY_SUBSCR", None, 2, 1)

    def load_cell(self, variable: CellVar | FreeVar) -> None:
        """Push a cell itself."""
        self.append("LOAD_FAST" if IS_313 else "LOAD_CLOSURE", variable, 0, 1)

    def store_cell(self, variable: CellVar | FreeVar) -> None:
        """Pop a cell (or None) into the place where the code finds a variable's cell.

        For a free variable the instruction has no spelling: `assemble` makes it of the one that
        stores the cell's contents.
        """
        if isinstance(variable, FreeVar):
            self.append("STORE_DEREF", _Placed(variable.name), 1, 0)
        else:
            self.append("STORE_FAST", variable if IS_313 else variable.name, 1, 0)

    def push_null(self) -> None:
        """Push the empty slot."""
        self.append("PUSH_NULL", None, 0, 1)

    def pop(self) -> None:
        """Drop the top of the stack."""
        self.append("POP_TOP", None, 1, 0)

    def copy_top(self) -> None:
        """Push the top again."""
        self.append("COPY", 1, 0, 1)

    def callable(self, push: Callable[[], None]) -> None:
        """Push a callable, by `push`, and its empty slot, ready for arguments."""
        if NULL_IS_BELOW:
            self.push_null()
        push()
        if not NULL_IS_BELOW:
            self.push_null()

    def call(self, count: int, keywords: tuple[str, ...] = ()) -> None:
        """Call with `count` arguments on the stack, the last of them by keyword."""
        if IS_313:
            if not keywords:
                self.append("CALL", count, count + 2, 1)
                return
            self.load_constant(keywords)
            self.append("CALL_KW", count, count + 3, 1)
            return
        if keywords:
            self.append("KW_NAMES", keywords)
        if IS_311:
            self.append("PRECALL", count)
        self.append("CALL", count, count + 2, 1)

    def jump(self, label: Label) -> None:
        """Go on at a label further down."""
        self.append("JUMP_FORWARD", label)

    def end_of_loop(self) -> None:
        """What FOR_ITER expects at its target and skips when the iterator is exhausted."""
        if IS_311:
            return
        self.append("END_FOR")
        if IS_313:
            self.append("POP_ITER" if IS_314 else "POP_TOP")


@record
class _Reading:
    """What the `bytecode` package read of a code object, in order; never changed.

    Args:
        items: instructions, and what stands between them.
        by_offset: byte offset -> instruction.
    """

    items: tuple[Item, ...]
    by_offset: dict[int, Instr]


def _make_reading(code: CodeType) -> _Reading:
    readable = _exchanged(code, _MISREAD, _STAND_IN)
    text, misread, placed = _with_cells_readable(readable)
    concrete = ConcreteBytecode.from_code(readable.replace(co_code=text))
    concrete.exception_table = _whole(concrete.exception_table, code)
    items = tuple(concrete.to_bytecode(conserve_exception_block_stackdepth=True))
    offsets = Copy.offsets(code)
    instructions = [item for item in items if isinstance(item, Instr)]
    if len(offsets) != len(instructions):
        raise InternalError(f"Copy({code.co_qualname}): instructions were lost in reading.")
    for offset, instruction in zip(offsets, instructions, strict=True):
        if offset in misread:
            instruction.name = misread[offset]
        if offset in placed:
            place = instruction.arg
            assert isinstance(place, (CellVar, FreeVar))
            instruction.arg = _Placed(place.name)
    return _Reading(items, dict(zip(offsets, instructions, strict=True)))


_read: Final = Recent(_make_reading, 50)
"""The reading of a code object: several copies are made of one while it is compiled."""


def _whole(table: list[ExceptionTableEntry], code: CodeType) -> list[ExceptionTableEntry]:
    """The same entries, in whole instructions.

    The `bytecode` package places entries before it knows which jumps need an EXTENDED_ARG: in
    what it wrote an entry may begin between that and the jump, where it does not look for it when
    it reads.
    """
    raw = code.co_code
    for entry in table:
        while entry.start_offset and raw[2 * entry.start_offset - 2] == dis.EXTENDED_ARG:
            entry.start_offset -= 1
        while raw[2 * entry.stop_offset] == dis.EXTENDED_ARG:
            entry.stop_offset -= 1
    return [entry for entry in table if entry.start_offset <= entry.stop_offset]


def _units(code: CodeType) -> Iterator[tuple[int, str, int]]:
    """Byte offset, name and operand of each instruction; faster than `dis`, which makes texts."""
    raw = code.co_code
    high = 0
    for offset in range(0, len(raw), 2):
        name = dis.opname[raw[offset]]
        if name == "CACHE":
            continue
        operand = high | raw[offset + 1]
        high = operand << 8 if name == "EXTENDED_ARG" else 0
        if name != "EXTENDED_ARG":
            yield offset, name, operand


class Copy:
    """A copy of a code object's instructions, addressed by byte offset. Mutable; used once.

    Args:
        code: the original.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        reading = _read(code)
        self._items = reading.items
        self._by_offset = reading.by_offset
        self._labels: dict[int, Label] = {}

    @staticmethod
    def offsets(code: CodeType) -> list[int]:
        """Byte offsets of the instructions of `code`."""
        return [offset for offset, _, _ in _units(code)]

    @staticmethod
    def split_offsets(code: CodeType) -> list[int]:
        """For each instruction of a copy of `code`, the offset of what it is a copy of."""
        return [
            offset for offset, name, _ in _units(code) for _ in range(2 if name in _FUSED else 1)
        ]

    def between(self, first: int, last: int) -> list[Instr]:
        """Copies of the instructions with these byte offsets, ends included."""
        return [
            copied
            for offset, instruction in self._by_offset.items()
            if first <= offset <= last
            for copied in _split(instruction)
        ]

    def label(self, offset: int) -> Label:
        """The label in front of the instruction at `offset`."""
        if offset not in self._by_offset:
            raise InternalError(f"Copy({self.code.co_qualname}): no instruction at {offset}.")
        return self._labels.setdefault(offset, Label())

    def items(self) -> list[Item]:
        """The whole copy, with the labels asked for so far."""
        result: list[Item] = []
        offsets = iter(self._by_offset)
        for item in self._items:
            if not isinstance(item, Instr):
                result.append(item)
                continue
            label = self._labels.get(next(offsets))
            if label is not None:
                result.append(label)
            result.extend(_split(item))
        return result


def with_own_labels(items: Iterable[Item], entry: Label) -> list[Item]:
    """The same, able to stand beside another copy of the same code: labels and `try` blocks anew.

    Args:
        items: what refers to no other label than its own.
        entry: the label that stays, since others refer to it.
    """
    labels = {entry: entry}
    blocks: dict[TryBegin, TryBegin] = {}
    result: list[Item] = []
    for item in items:
        if isinstance(item, Label):
            item = labels.setdefault(item, Label())
        elif isinstance(item, TryBegin):
            target = labels.setdefault(item.target, Label())
            blocks[item] = item = TryBegin(target, item.push_lasti, item.stack_depth)
        elif isinstance(item, TryEnd):
            item = TryEnd(blocks[item.entry])
        elif isinstance(item, Instr) and isinstance(item.arg, Label):
            target = labels.setdefault(item.arg, Label())
            item = Instr(item.name, target, location=item.location)
        result.append(item)
    return result


def cell_place(code: CodeType, name: str) -> CellVar | FreeVar:
    """The operand that stands for a captured variable."""
    return CellVar(name) if name in code.co_cellvars else FreeVar(name)


def prologue(code: CodeType) -> list[Instr]:
    """The setup of a frame of `code`: cells, free variables, RESUME."""
    location = InstrLocation(code.co_firstlineno, None, None, None)
    result = []
    if code.co_freevars:
        result.append(Instr("COPY_FREE_VARS", len(code.co_freevars), location=location))
    for name in code.co_cellvars:
        result.append(Instr("MAKE_CELL", CellVar(name), location=location))
    result.append(Instr("RESUME", 0, location=location))
    return result


def _split(instruction: Instr) -> list[Instr]:
    """A copy, with constants boxed and fused instructions taken apart."""
    if instruction.name in _FUSED:
        operands: Any = instruction.arg
        return [
            Instr(name, operand, location=instruction.location)
            for name, operand in zip(_FUSED[instruction.name], operands, strict=True)
        ]
    copied = instruction.copy()
    if copied.name == "LOAD_FAST_BORROW":  # what is borrowed must outlive the use: not known here
        copied.name = "LOAD_FAST"
    if copied.name in ("LOAD_CONST", "RETURN_CONST"):
        copied.arg = boxed(copied.arg)
    return [copied]


def protected(items: Sequence[Item], target: Label, depth: int, push_lasti: bool) -> list[Item]:
    """The instructions under an exception handler.

    A NOP comes first: when a Python function called by the instruction raises, 3.13 looks for the
    handler of the code unit in front of the instruction.
    """
    begin = TryBegin(target, push_lasti, depth)
    first = items[0]
    assert isinstance(first, Instr)
    return [begin, Instr("NOP", location=first.location), *items, TryEnd(begin)]


def with_jump_to(instruction: Instr, label: Label) -> Instr:
    """A copy of a conditional jump that goes to a label further down."""
    name = str(instruction.name).replace("_BACKWARD", "_FORWARD")
    return Instr(name, label, location=instruction.location)


def without_method_slot(instructions: Sequence[Instr]) -> list[Instr]:
    """The same, but an attribute loaded for a call is always bound and its other slot NULL.

    Then it is known before the instruction runs which slot is NULL. Takes at most two slots more.
    """
    result = []
    for instruction in instructions:
        name = instruction.name
        argument: Any = instruction.arg
        if name == "LOAD_SPECIAL":
            result.extend(_bound_special(argument, instruction.location))
            continue
        is_method = name == "LOAD_METHOD" if IS_311 else (
            name in ("LOAD_ATTR", "LOAD_SUPER_ATTR") and argument[0]
        )  # fmt: skip
        if not is_method:
            result.append(instruction)
            continue
        location = instruction.location
        plain = argument if IS_311 else (False, *argument[1:])
        result.append(Instr("LOAD_ATTR" if IS_311 else name, plain, location=location))
        result.append(Instr("PUSH_NULL", location=location))
        if NULL_IS_BELOW:
            result.append(Instr("SWAP", 2, location=location))
    return result


def _bound_special(argument: int, location: InstrLocation | None) -> list[Instr]:
    """object -> the method of its class, bound, and NULL."""
    find = functools.partial(_capture.special_method, SPECIAL_METHODS[argument])
    rows: tuple[tuple[Any, ...], ...] = (
        ("PUSH_NULL",), ("LOAD_CONST", boxed(find)), ("SWAP", 3), ("CALL", 1), ("PUSH_NULL",),
    )  # fmt: skip
    return [Instr(*row, location=location) for row in rows]


@record
class Signature:
    """How a code object is called.

    Args:
        argcount: positional parameters, positional-only ones included.
        posonlyargcount: how many of them are positional-only.
        kwonlyargcount: keyword-only parameters.
        names: all parameters in slot order.
        flags: code flags.
    """

    argcount: int
    posonlyargcount: int
    kwonlyargcount: int
    names: tuple[str, ...]
    flags: int


def assemble(
    items: Sequence[Item],
    original: CodeType,
    signature: Signature,
    stacksize: int,
    qualname: str,
) -> CodeType:
    """A code object.

    Args:
        items: the instructions.
        original: gives name, file, first line, docstring, cells and free variables.
        signature: parameters and flags.
        stacksize: the deepest stack of any instruction.
        qualname: the qualified name.
    """
    _share_boxes(items)
    bytecode = Bytecode(items)
    bytecode.name = original.co_name
    bytecode.qualname = qualname
    bytecode.filename = original.co_filename
    bytecode.first_lineno = original.co_firstlineno
    bytecode.cellvars = list(original.co_cellvars)
    bytecode.freevars = list(original.co_freevars)
    first = original.co_consts[0] if original.co_consts else None
    bytecode.docstring = first if isinstance(first, str) else None
    bytecode.argcount = signature.argcount
    bytecode.posonlyargcount = signature.posonlyargcount
    bytecode.kwonlyargcount = signature.kwonlyargcount
    bytecode.argnames = list(signature.names)
    bytecode.flags = CompilerFlags(signature.flags)
    code = bytecode.to_code(stacksize=stacksize, compute_exception_stack_depths=False)
    constants = tuple(value.value if isinstance(value, _Box) else value for value in code.co_consts)
    code = code.replace(co_consts=constants, co_code=_with_cells_placed(code, items))
    return code if _MISREAD < 0 else _exchanged(code, _STAND_IN, _MISREAD)


def _with_cells_readable(code: CodeType) -> tuple[bytes, dict[int, str], set[int]]:
    """The bytecode as the `bytecode` package can read it: undoes `_with_cells_placed`.

    Where another instruction stands in for one: byte offset -> its name. And the byte offsets of
    what puts cells in place.
    """
    changed = bytearray(code.co_code)
    misread = {}
    placed = set()
    count = len({*code.co_varnames, *code.co_cellvars})
    for offset, name, operand in _units(code):
        if name == "STORE_FAST" and operand >= count:
            changed[offset] = dis.opmap["STORE_DEREF"]
            placed.add(offset)
        elif _is_misread(name, operand >= count):
            changed[offset] = dis.opmap[_ON_CAPTURED]
            misread[offset] = name
    return bytes(changed), misread, placed


def _is_misread(name: str, is_free: bool) -> bool:
    """True if the package looks an operand up among plain locals, which is a captured variable."""
    if IS_314 and name == "LOAD_DEREF":
        return True
    return IS_313 and is_free and dis.opmap[name] in dis.haslocal and name not in _FUSED


def _with_cells_placed(code: CodeType, items: Iterable[Item]) -> bytes:
    """The bytecode made of `items`, where STORE_DEREF of what is `_Placed` stores the cell itself:
    operands are alike."""
    changed = bytearray(code.co_code)
    stores = [i.arg for i in items if isinstance(i, Instr) and i.name == "STORE_DEREF"]
    offsets = [offset for offset, name, _ in _units(code) if name == "STORE_DEREF"]
    for offset, variable in zip(offsets, stores, strict=True):
        if isinstance(variable, _Placed):
            changed[offset] = dis.opmap["STORE_FAST"]
    return bytes(changed)
