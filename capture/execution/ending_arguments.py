"""Arguments that a region lets go of before its end: somebody may notice that they end.

Compiled code holds its arguments until it returns. Plain Python lets go of them where a local is
deleted or bound anew. An argument whose end somebody notices (a finalizer, a listening weak
reference, in it or in what it alone keeps alive) is watched: see `capture.python.objects.watching`.
For the others it is guarded that the objects of later calls end as quietly, or are held by others
as well.
"""

from collections.abc import Mapping
from typing import Any

from dynajit.capture._capture import ends_quietly
from dynajit.capture.bytecode.instructions import Body
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.machine import Machine
from dynajit.capture.machine.recording import Recorder
from dynajit.capture.places import sources
from dynajit.capture.values.functions import CellValue
from dynajit.capture.values.symbolic import Constant, Known, Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.records import record


@record
class Argument:
    """What the entry frame was called with under a name.

    Args:
        value: what its local holds at entry.
        is_fresh: a tuple of `*args` or a dict of `**kwargs`, made for this call.
        is_quiet: nobody can tell that it ends.
    """

    value: Value
    is_fresh: bool
    is_quiet: bool


def quiet_ends(body: Body, arguments: tuple[Any, ...]) -> tuple[bool, ...]:
    """For each argument of the entry frame: can nobody tell that it ends?

    Asked before capture refers to any of them: what others hold, too, does not end.
    """
    named = _named_count(body)
    return tuple(ends_quietly(obj, index >= named) for index, obj in enumerate(arguments))


def _named_count(body: Body) -> int:
    return body.code.co_argcount + body.code.co_kwonlyargcount


def watch_arguments(
    recorder: Recorder, body: Body, bound: Mapping[str, Value], quiet: tuple[bool, ...]
) -> dict[str, Argument]:
    """The arguments of the entry frame; those whose end somebody notices are watched from now on.

    Args:
        recorder: of this capture.
        body: of the entry frame.
        bound: parameter -> value.
        quiet: `quiet_ends` of them.
    """
    named = _named_count(body)
    found = {}
    for index, ((name, value), is_quiet) in enumerate(zip(bound.items(), quiet, strict=True)):
        found[name] = Argument(value, index >= named, is_quiet)
        if not is_quiet:
            recorder.watched[sources.Local(name, index)] = value
    return found


def guard_ends(machine: Machine, arguments: Mapping[str, Argument]) -> None:
    """Guard that nobody notices the end of the arguments that the region has let go of.

    Those that are watched end by instructions that run for real.
    """
    for index, (name, argument) in enumerate(arguments.items()):
        held = machine.root.locals.get(name)
        if isinstance(held, CellValue):
            held = machine.heap[held.identity]
        place = sources.Local(name, index)
        if not argument.is_quiet or getattr(held, "source", None) == place:
            continue
        is_known = _has_no_end(argument.value) and machine.recorder.is_relied_on(place)
        if argument.is_fresh or not is_known:
            machine.recorder.guard(place, Kind.ENDS_QUIETLY, argument.is_fresh, "let go of")


def _has_no_end(value: Value) -> bool:
    """True if the class, which is guarded, says that nobody notices the end."""
    return isinstance(value, (Constant, Scalar, Known, TensorValue))
