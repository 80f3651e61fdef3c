"""A region that ends inside inlined calls: every frame goes on by itself.

The innermost frame and each caller but the root become a `stub`: a plain function that takes the
frame's state, runs the breaking instruction (or calls what goes on for the frame that it waits
for), and leaves for the resume functions of its own code. The region's code builds the chain from
the inside out as tail calls that nobody has made yet: no Python frame of the compiler's own is in
between, and what a frame was given dies when the frame lets go of it.

`write` is the end of the region's own code, the root's part included.
"""

import functools
from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from dynajit.capture import _capture
from dynajit.capture.bytecode import resume
from dynajit.capture.bytecode.assemble import (
    Copy,
    Item,
    Signature,
    Writer,
    assemble,
    cell_place,
    prologue,
)
from dynajit.capture.bytecode.instructions import Body, decode
from dynajit.capture.bytecode.resume import Home, Spot
from dynajit.capture.emit.breaking import MakeResume, Push, State, Tail, line_of
from dynajit.capture.places import sources
from dynajit.capture.region.region import Break, InnerFrame
from dynajit.capture.values.objects import HandledException
from dynajit.capture.values.symbolic import Value
from dynajit.core.errors import InternalError

if TYPE_CHECKING:
    from dynajit.capture.emit.emit import Emitter


def write(
    emitter: "Emitter", function: FunctionType, end: Break, make_resume: MakeResume | None
) -> list[Item]:
    """Append the end of a region that breaks; the copy of the original that has to follow.

    Raises:
        InternalError: the break is not at a place where the original can be restarted.
    """
    code = function.__code__
    body = decode(code)
    _check(body, end)
    writer = emitter.writer
    writer.location = line_of(body[end.index].location)
    spot = _spot(end, code, code.co_freevars)
    values = _keep_inner(emitter, end, make_resume)  # before any parameter changes
    _rebuild(emitter, body, end)
    emitter.release()
    own = None if end.awaits is None and end.record.reason.leaves_frame else make_resume
    tail = Tail(writer, body, Copy(code), Home.of(function), own, end.keeps)
    state = State(spot)
    if end.awaits is None:
        tail.run_instruction(end.index, state)
    else:
        tail.run_inner(end.index, end.awaits, state, _taking(writer, ".inner"), values)
    return tail.close()


def _spot(frame: Break | InnerFrame, code: CodeType, free: tuple[str, ...] = ()) -> Spot:
    nulls = tuple(value is None for value in frame.stack)
    return Spot(frame.index, frozenset(frame.locals), frozenset((*frame.cells, *free)), nulls)


def _check(body: Body, end: Break) -> None:
    problem = None
    if body.is_generator:
        problem = "generators cannot break"
    elif end.awaits is None and body.first_of_offset(end.index) != end.index:
        problem = "the instruction cannot be restarted"
    elif end.awaits is None and body.depths[end.index] != len(end.stack):
        problem = f"{len(end.stack)} stack slots, expected {body.depths[end.index]}"
    if problem is not None:
        raise InternalError(f"emit({body.code.co_qualname}) at {body[end.index]}: {problem}.")


def _rebuild(emitter: "Emitter", body: Body, end: Break) -> None:
    """Stack first, then the rest: the stack may need a parameter that is about to change."""
    writer = emitter.writer
    if any(isinstance(value, HandledException) for value in end.stack):
        _make_objects(emitter, end)
    for slot, value in enumerate(end.stack):
        if isinstance(value, HandledException):
            emitter.load_value(value.exception)
            resume.handle(writer, slot)
        else:
            emitter.load_value(value)
    stored = [
        name
        for name in body.code.co_varnames
        if name in end.locals and not _is_in_place(end.locals[name], name)
    ]
    captured = body.cellvars
    if resume.start_of(body.code):
        captured += body.freevars  # the closure of a resume function is not looked at
    cells = [name for name in captured if name in end.cells]
    for name in stored:
        emitter.load_value(end.locals[name])
    for name in cells:
        emitter.load_value(end.cells[name])
    for name in reversed(cells):
        writer.store_cell(cell_place(body.code, name))
    for name in reversed(stored):
        writer.store_local(name)
    for name in body.parameters:
        if name not in end.locals and name not in body.cellvars:
            writer.delete_local(name)


def _make_objects(emitter: "Emitter", end: Break) -> None:
    """Make what the frame holds while the caller's exception is still the handled one: it is the
    context of exceptions that were raised first."""
    for value in (*end.stack, *end.locals.values(), *end.cells.values()):
        made = value.exception if isinstance(value, HandledException) else value
        if hasattr(made, "identity"):
            emitter.load_value(made)
            emitter.writer.pop()


def _is_in_place(value: Value, name: str) -> bool:
    """True for a parameter that has the value it was called with."""
    source = getattr(value, "source", None)
    return isinstance(source, sources.Local) and source.name == name


def _keep_inner(emitter: "Emitter", end: Break, make_resume: MakeResume | None) -> list[list[Push]]:
    """Keep what goes on for the inner frames in locals; how to push the values needed later."""
    if end.awaits is None:
        return []
    writer = emitter.writer
    last = None if end.record.reason.leaves_frame else make_resume
    _push_chain(emitter, end.inner, make_resume, last)
    writer.store_local(".inner")
    values: list[list[Push]] = []
    number = 0
    for part in end.awaits.then:
        pushes = []
        for value in part.values:
            emitter.load_value(value)
            writer.store_local(f".value{number}")
            pushes.append(_taking(writer, f".value{number}"))
            number += 1
        values.append(pushes)
    return values


def _taking(writer: Writer, name: str) -> Push:
    """Pushes a local and lets go of it."""

    def push() -> None:
        writer.load_local(name)
        writer.load_constant(None)
        writer.store_local(name)

    return push


def _push_chain(
    emitter: "Emitter",
    frames: Sequence[InnerFrame],
    make_resume: MakeResume | None,
    last: MakeResume | None,
) -> None:
    """Push what goes on for the first of `frames`, and calls what goes on for the others.

    Args:
        make_resume: see `Tail`; `last` is that of the last frame.
    """
    frame, deeper = frames[0], frames[1:]
    spot = _spot(frame, frame.code)
    names, cells, slots = resume.parameters_at(decode(frame.code), spot)
    values = [frame.locals[name] for name in names]
    values += [frame.cells[name] for name in cells]
    for slot in slots:
        held = frame.stack[slot]
        values.append(held.exception if isinstance(held, HandledException) else held)
    own = last if frame.awaits is None else make_resume
    pushers: list[Push] = [functools.partial(_push_stub, emitter, frame, spot, own)]
    pushers += [functools.partial(emitter.load_value, value) for value in values]
    if frame.awaits is not None:
        pushers.append(lambda: _push_chain(emitter, deeper, make_resume, last))
        for part in frame.awaits.then:
            pushers += [functools.partial(emitter.load_value, value) for value in part.values]
    emitter.call(_capture.tail_call, *pushers)


def _push_stub(
    emitter: "Emitter", frame: InnerFrame, spot: Spot, make_resume: MakeResume | None
) -> None:
    """Push the function that takes over a frame."""
    code = stub(frame, spot, make_resume)
    _capture.mark_skip(code)
    emitter.load_constant(frame.home.function(code))


def stub(frame: InnerFrame, spot: Spot, make_resume: MakeResume | None) -> CodeType:
    """Code that takes a frame's state (see `resume.parameters_at`) and goes on with the frame.

    Further parameters where the frame waits for another: what to call for that, and the values
    that `Awaited.then` needs.
    """
    code = frame.code
    body = decode(code)
    names, cells, slots = resume.parameters_at(body, spot)
    parameters = resume.parameter_names(names, cells, slots)
    writer = Writer(line_of(body[spot.index].location))
    writer.extend(prologue(code))
    resume.release(writer)
    resume.restore(writer, body, spot, keep=True)
    tail = Tail(writer, body, Copy(code), frame.home, make_resume, frame.keeps)
    state = State(spot)
    if frame.awaits is None:
        tail.run_instruction(spot.index, state)
    else:
        values: list[list[Push]] = []
        parameters += (".inner",)
        for part in frame.awaits.then:
            taken = [f".value{len(parameters) + number}" for number in range(len(part.values))]
            parameters += tuple(taken)
            values.append([_taking(writer, name) for name in taken])
        tail.run_inner(spot.index, frame.awaits, state, _taking(writer, ".inner"), values)
    copy = tail.close()
    return assemble(
        [*writer.items, *copy],
        code,
        Signature(len(parameters), 0, 0, parameters, resume.plain_flags(code)),
        max(code.co_stacksize, writer.maximum),
        code.co_qualname,
    )
