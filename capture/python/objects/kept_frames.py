"""Frames that an exception keeps, with all they hold, after they have ended.

The traceback of an exception that was raised while capturing is made of look-alikes: their frames
hold nothing. And what a frame holds moves on to the function that goes on after a break. Nobody can
tell, unless a frame holds something of whose end somebody may learn: such a frame must be a real
one when an exception that passed it leaves it, or stays when it ends; and where it catches one it
goes on itself, as plain Python.
"""

from collections.abc import Iterable
from typing import Any, Final

from dynajit.capture.machine.frames import Frame
from dynajit.capture.machine.lifetimes import held_objects, is_lent, is_referred_to
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.generators import is_open
from dynajit.capture.python.objects.watching import held_by, reachable
from dynajit.capture.values.objects import TracebackValue
from dynajit.capture.values.symbolic import Value

MSG_KEPT: Final = "an exception that keeps objects of its frames alive passes a handler"


def is_noticed(machine: Machine, frame: Frame) -> bool:
    """True if somebody may learn when what a frame holds ends; the stack included."""
    return _are_noticed(machine, [*_variables(frame), *frame.stack])


def is_noticed_later(machine: Machine, frame: Frame, index: int) -> bool:
    """True if the instruction at `index` is in a `try` and somebody may learn when what a variable
    of the frame holds ends: an exception that is caught there must keep the frame."""
    return frame.body[index].handler is not None and _are_noticed(machine, _variables(frame))


def outlive(machine: Machine, frames: Iterable[Frame], *results: Value) -> bool:
    """True if an exception in reach was caught in one of these frames, and the end of what a
    variable of that frame holds may be noticed.

    Args:
        machine: the symbolic machine.
        frames: which.
        results: what is in reach besides.
    """
    lasting = {frame.code for frame in frames if _are_noticed(machine, _variables(frame))}
    if not lasting:
        return False
    keys = reachable(machine) | held_by(results, machine.heap)
    states = [machine.heap[key] for key in keys if isinstance(key, int) and machine.heap.has(key)]
    return any(not lasting.isdisjoint(_codes_passed(state)) for state in states)


def _variables(frame: Frame) -> list[Value | None]:
    return [*frame.locals.values(), *frame.cells.values()]


def _are_noticed(machine: Machine, values: list[Value | None]) -> bool:
    lent = [machine.recorder.existing_of(v) for v in values if v is not None and is_lent(v)]
    existing = [obj for obj in lent if obj is not None]
    if any(map(is_referred_to, held_objects(existing, through_instances=False))):
        return True
    if not machine.recorder.watched:
        return False
    return any(is_open(machine, key) for key in held_by(values, machine.recorder.heap))


def _codes_passed(state: Any) -> set[Any]:
    """The code of the frames that an exception of this state passed while capturing."""
    fields = getattr(state, "state", None)
    traceback = fields.get("__traceback__") if isinstance(fields, dict) else None
    if not isinstance(traceback, TracebackValue):
        return set()
    return {link.entry.code for link in traceback.chain}
