"""Resume functions: the rest of a function after a graph break, as a function of its own.

A resume code is a full copy of the original with a prologue that takes the live locals and the
stack as positional parameters, rebuilds the stack and jumps to the instruction to go on at. It is
ordinary bytecode: it is captured like any other code, and resuming a resume code gives a resume
code of the original function, so a loop that breaks in every iteration uses one code object.

Made by `capture.emit`; the session wraps the code in a function and a compiled entry.
"""

import inspect
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Final

from bytecode import Instr
from bytecode.instr import InstrLocation

from dynajit.capture.assemble import Copy, Signature, Writer, assemble, prologue
from dynajit.capture.instructions import Body, decode, forget, live_locals
from dynajit.core.errors import InternalError


@dataclass(frozen=True, slots=True, eq=False)
class Resume:
    """A resume code and how to call it: `resume(*locals, *stack)`.

    Args:
        code: the code object; needs the original function's globals and closure, no defaults.
        original: qualified name of the function it is the rest of.
        locals: names of the locals to pass, in order.
        nulls: for each stack slot, bottom first, True where it is NULL and is not passed.
        line: the user's line where it goes on.
    """

    code: CodeType
    original: str
    locals: tuple[str, ...]
    nulls: tuple[bool, ...]
    line: int


@dataclass(frozen=True, slots=True)
class _Origin:
    """Which code a resume code is a copy of, and which of its offsets an offset was."""

    root: "weakref.ref[CodeType]"
    offsets: dict[int, int]


_Key = tuple[int, frozenset[str], tuple[bool, ...]]
_ORIGINS: Final[dict[int, tuple["weakref.ref[CodeType]", _Origin]]] = {}
_RESUMES: Final[dict[int, tuple["weakref.ref[CodeType]", dict[_Key, Resume]]]] = {}


#: Makes what is called from the rest of a function as a plain function.
MakeEntry = Callable[[FunctionType], Any]
_ENTRIES: "Final[weakref.WeakValueDictionary[tuple[Any, ...], Any]]" = weakref.WeakValueDictionary()


def entry(made: Resume, function: FunctionType, make: MakeEntry) -> Any:
    """What to call for `made` with the globals and closure of `function`: `make(rest)`, once.

    A loop that breaks in each iteration meets the same rest again while it compiles it; without
    this it would compile it anew every time. The entry lives as long as code that calls it.

    Args:
        made: the resume code.
        function: the captured function, or a rest of it.
        make: makes a weakly referenceable object from the plain function.
    """
    closure = function.__closure__
    key = (id(made.code), id(function.__globals__), tuple(map(id, closure or ())), make)
    found = _ENTRIES.get(key)
    if found is None:
        rest = FunctionType(made.code, function.__globals__, function.__name__, None, closure)
        found = _ENTRIES[key] = make(rest)
    return found


def why_not_resumable(body: Body, index: int, bound: frozenset[str]) -> str | None:
    """Why no resume function can go on at instruction `index`, or None.

    Args:
        body: the original.
        index: where to go on.
        bound: plain locals that have a value there.
    """
    if body.is_generator:
        return "a generator or coroutine cannot be split"
    if body.cellvars:
        return f"variables shared with inner functions: {', '.join(body.cellvars)}"
    if body.handling[index]:
        return "an exception is being handled"
    if "__class__" in body.freevars and body.parameters and body.parameters[0] not in bound:
        return "super() needs the first parameter, which has been deleted"
    return None


def resume(body: Body, index: int, bound: frozenset[str], nulls: tuple[bool, ...]) -> Resume:
    """The resume code that goes on at instruction `index`; made once.

    Args:
        body: the original, or a resume code.
        index: the first canonical instruction to run.
        bound: plain locals that have a value there.
        nulls: for each stack slot there, True for NULL.

    Raises:
        InternalError: the stack has another depth there.
    """
    body, index = _in_root(body, index)
    if body.depths[index] != len(nulls):
        raise InternalError(
            f"resume({body.code.co_qualname}): {len(nulls)} stack slots at {body[index]}, "
            f"expected {body.depths[index]}."
        )
    code = body.code
    known = _RESUMES.get(id(code))
    if known is None or known[0]() is not code:
        key = id(code)
        known = (weakref.ref(code, forget(_RESUMES, key)), {})
        _RESUMES[key] = known
    wanted = bound & live_locals(body, index)
    found = known[1].get((index, wanted, nulls))
    if found is None:
        found = known[1][(index, wanted, nulls)] = _make(body, index, wanted, nulls)
    return found


def _make(body: Body, index: int, wanted: frozenset[str], nulls: tuple[bool, ...]) -> Resume:
    code = body.code
    copy = Copy(code)
    names = tuple(name for name in code.co_varnames if name in wanted)
    slots = tuple(f".stack{slot}" for slot, null in enumerate(nulls) if not null)
    line = body[index].location.line
    writer = Writer(InstrLocation(code.co_firstlineno, None, None, None))
    writer.extend(prologue(code))
    writer.location = InstrLocation(line, None, None, None)
    for slot, null in enumerate(nulls):
        if null:
            writer.push_null()
        else:
            writer.load_local(f".stack{slot}")
            writer.delete_local(f".stack{slot}")
    writer.jump(copy.label(body[index].offset))
    start = sum(1 for item in writer.items if isinstance(item, Instr))
    writer.extend(copy.items())
    variadic = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    parameters = names + slots
    made = assemble(
        writer.items,
        code,
        Signature(len(parameters), 0, 0, parameters, code.co_flags & ~variadic),
        max(code.co_stacksize, writer.maximum),
        f"{code.co_qualname} (resumed at line {line})",
    )
    _remember(made, code, start)
    return Resume(made, code.co_qualname, names, nulls, line)


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
