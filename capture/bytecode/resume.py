"""Resume functions: the rest of a function after a graph break, as a function of its own.

A resume code is a full copy of the original with a prologue that takes the live locals, the cells
of captured variables and the stack as positional parameters, puts them in place and jumps to the
instruction to go on at. Where an exception is being handled there, the prologue takes it and makes
it the handled one again. It is ordinary bytecode: it is captured like any other code, and resuming
a resume code gives a resume code of the original function, so a loop that breaks in every
iteration uses one code object.

Because cells are parameters, one resume function serves every closure of the original; its own
closure is never looked at.

Made by `capture.emit.breaking`; the session wraps the code in a function and a compiled entry.
"""

import inspect
import weakref
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any, Final

from bytecode import Instr
from bytecode.instr import InstrLocation

from dynajit.capture import _capture
from dynajit.capture.bytecode.assemble import (
    Copy,
    Signature,
    Writer,
    assemble,
    cell_place,
    prologue,
)
from dynajit.capture.bytecode.instructions import Body, decode, forget, live_locals
from dynajit.core.errors import InternalError
from dynajit.core.records import record


@record
class Spot:
    """A place in a code object, and what exists there.

    Args:
        index: the canonical instruction to go on at.
        bound: plain locals with a value.
        cells: captured variables whose cell is in place.
        nulls: for each stack slot, bottom first, True for NULL.
    """

    index: int
    bound: frozenset[str]
    cells: frozenset[str]
    nulls: tuple[bool, ...]


@record(eq=False)
class Resume:
    """A resume code and how to call it: `resume(*locals, *cells, *stack)`.

    Args:
        code: the code object; needs the original function's globals, no defaults, any closure.
        original: qualified name of the function it is the rest of.
        locals: names of the locals to pass, in order; None for one that nothing reads and that
            has no value worth keeping.
        cells: names of the captured variables whose cells are passed, in order.
        slots: stack slots that are passed, in order; where an exception is being handled it is
            passed for the slot that holds the one handled before.
        line: the user's line where it goes on.
    """

    code: CodeType
    original: str
    locals: tuple[str, ...]
    cells: tuple[str, ...]
    slots: tuple[int, ...]
    line: int


@record
class Home:
    """What a code object becomes a function with.

    Args:
        globals: its global variables.
        name: the function's name.
    """

    globals: dict[str, Any]
    name: str

    @staticmethod
    def of(function: FunctionType) -> "Home":
        """As a function has it."""
        return Home(function.__globals__, function.__name__)

    def function(self, code: CodeType) -> FunctionType:
        """The function with the code; its cells are put in place by the code."""
        closure = tuple(CellType() for _ in code.co_freevars)
        return FunctionType(code, self.globals, self.name, None, closure)


@record
class _Origin:
    """Which code a resume code is a copy of, and which of its offsets an offset was."""

    root: "weakref.ref[CodeType]"
    offsets: dict[int, int]


_ORIGINS: Final[dict[int, tuple["weakref.ref[CodeType]", _Origin]]] = {}
_RESUMES: Final[dict[int, tuple["weakref.ref[CodeType]", dict[Spot, Resume]]]] = {}


#: Makes what is called from the rest of a function as a plain function.
MakeEntry = Callable[[FunctionType], Any]
_ENTRIES: "Final[weakref.WeakValueDictionary[tuple[Any, ...], Any]]" = weakref.WeakValueDictionary()


def entry(code: CodeType, home: Home, make: MakeEntry) -> Any:
    """What to call for a resume code with a home: `make(rest)`, once.

    A loop that breaks in each iteration meets the same rest again while it compiles it; without
    this it would compile it anew every time. The entry lives as long as code that calls it.

    Args:
        code: the resume code.
        home: of the captured function.
        make: makes a weakly referenceable object from the plain function.
    """
    key = (id(code), id(home.globals), make)
    found = _ENTRIES.get(key)
    if found is None:
        found = _ENTRIES[key] = make(home.function(code))
    return found


def why_not_resumable(body: Body, spot: Spot) -> str | None:
    """Why no resume function can go on at a spot, or None.

    Args:
        body: the original.
        spot: where to go on.
    """
    if body.is_generator:
        return "a generator or coroutine cannot be split"
    if "__class__" in body.freevars and body.parameters and body.parameters[0] not in spot.bound:
        return "super() needs the first parameter, which has been deleted or captured"
    return None


def resume(body: Body, spot: Spot) -> Resume:
    """The resume code that goes on at a spot; made once.

    Args:
        body: the original, or a resume code.
        spot: where to go on.

    Raises:
        InternalError: the stack has another depth there.
    """
    body, index = _in_root(body, spot.index)
    if body.depths[index] != len(spot.nulls):
        raise InternalError(
            f"resume({body.code.co_qualname}): {len(spot.nulls)} stack slots at {body[index]}, "
            f"expected {body.depths[index]}."
        )
    code = body.code
    known = _RESUMES.get(id(code))
    if known is None or known[0]() is not code:
        key = id(code)
        known = (weakref.ref(code, forget(_RESUMES, key)), {})
        _RESUMES[key] = known
    bound = (spot.bound & live_locals(body, index)) | body.kept[index]
    spot = Spot(index, bound, spot.cells, spot.nulls)
    found = known[1].get(spot)
    if found is None:
        found = known[1][spot] = _make(body, spot)
    return found


def parameters_at(body: Body, spot: Spot) -> tuple[tuple[str, ...], tuple[str, ...], list[int]]:
    """(locals, cells, stack slots) that code which goes on at a spot takes, in order."""
    code = body.code
    names = tuple(name for name in code.co_varnames if name in spot.bound)
    captured = (*code.co_cellvars, *code.co_freevars)
    cells = tuple(name for name in captured if name in spot.cells)
    return names, cells, [slot for slot, null in enumerate(spot.nulls) if not null]


def parameter_names(
    names: tuple[str, ...], cells: tuple[str, ...], slots: list[int]
) -> tuple[str, ...]:
    """What `parameters_at` is called in the code that takes it."""
    passed = (f".cell {name}" for name in cells)
    return (*names, *passed, *(f".stack{slot}" for slot in slots))


def restore(writer: Writer, body: Body, spot: Spot, keep: bool = False) -> None:
    """Put cells, stack and handled exceptions in place, from the parameters.

    Args:
        writer: where to append.
        body: the original.
        spot: where to go on.
        keep: the handled exceptions are handed on by this very code (see `handle`).
    """
    _, cells, slots = parameters_at(body, spot)
    for name in cells:
        writer.load_local(f".cell {name}")
        writer.store_cell(cell_place(body.code, name))
        writer.delete_local(f".cell {name}")
    handling = body.handling[spot.index]
    for slot in range(len(spot.nulls)):
        if slot not in slots:
            writer.push_null()
            continue
        writer.load_local(f".stack{slot}")
        if slot in handling:
            handle(writer, slot if keep else None)
        writer.delete_local(f".stack{slot}")


def release(writer: Writer) -> None:
    """In front of everything else: only the frame holds the arguments from here on."""
    writer.callable(lambda: writer.load_constant(_capture.release))
    writer.call(0)
    writer.pop()


def handle(writer: Writer, slot: int | None) -> None:
    """exception -> the one handled before; the exception is the handled one from here on.

    Args:
        writer: where to append.
        slot: keep the exception in a local named for this stack slot, to hand it on later.
    """
    if slot is not None:
        writer.copy_top()
        writer.store_local(handled_name(slot))
    writer.append("PUSH_EXC_INFO", None, 1, 2)
    writer.pop()


def handled_name(slot: int) -> str:
    """The local that keeps the exception whose predecessor a stack slot holds."""
    return f".handled{slot}"


def plain_flags(code: CodeType) -> int:
    """The flags of code whose parameters are all positional."""
    return code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)


def _make(body: Body, spot: Spot) -> Resume:
    code = body.code
    copy = Copy(code)
    names, cells, slots = parameters_at(body, spot)
    line = body[spot.index].location.line
    writer = Writer(InstrLocation(line, None, None, None))
    writer.extend(prologue(code))
    release(writer)
    restore(writer, body, spot)
    writer.jump(copy.label(body[spot.index].offset))
    start = sum(1 for item in writer.items if isinstance(item, Instr))
    writer.extend(copy.items())
    parameters = parameter_names(names, cells, slots)
    made = assemble(
        writer.items,
        code,
        Signature(len(parameters), 0, 0, parameters, plain_flags(code)),
        max(code.co_stacksize, writer.maximum),
        f"{code.co_qualname} (resumed at line {line})",
    )
    _remember(made, code, start)
    return Resume(made, code.co_qualname, names, cells, tuple(slots), line)


def _remember(made: CodeType, root: CodeType, start: int) -> None:
    """Keep which original offset each offset of the copy was."""
    pairs = zip(Copy.offsets(made)[start:], Copy.split_offsets(root), strict=True)
    offsets: dict[int, int] = {}
    seen: set[int] = set()
    for new, old in pairs:
        if old not in seen:  # the second half of a fused instruction is no place to go on at
            offsets[new] = old
            seen.add(old)
    key = id(made)
    reference = weakref.ref(made, forget(_ORIGINS, key))
    _ORIGINS[key] = (reference, _Origin(weakref.ref(root), offsets))


def start_of(code: CodeType) -> int:
    """The byte offset behind the prologue of a resume code; 0 for other code."""
    entry = _ORIGINS.get(id(code))
    if entry is None or entry[0]() is not code:
        return 0
    return min(entry[1].offsets)


def _in_root(body: Body, index: int) -> tuple[Body, int]:
    """The same place in the code that a resume code is a copy of."""
    entry = _ORIGINS.get(id(body.code))
    if entry is None or entry[0]() is not body.code:
        return body, index
    root = entry[1].root()
    offset = entry[1].offsets.get(body[index].offset)
    if root is None or offset is None:
        return body, index
    original = decode(root)
    return original, next(item.index for item in original if item.offset == offset)
