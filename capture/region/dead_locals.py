"""Locals that nothing reads any more and that keep an object alive all the same.

At a break, real code must find them as plain Python has them: see `capture.machine.lifetimes`.
"""

from collections.abc import Mapping

from dynajit.capture.machine.lifetimes import is_lent
from dynajit.capture.machine.recording import Recorder
from dynajit.capture.python.generators import is_guarded
from dynajit.capture.python.given_items import keeps_items
from dynajit.capture.python.objects.references import NotRebuildable, reach
from dynajit.capture.values.functions import GeneratorValue
from dynajit.capture.values.symbolic import Constant, Known, Scalar, Value
from dynajit.capture.values.tensors import TensorValue


def kept(dead: Mapping[str, Value], alive: list[Value], recorder: Recorder) -> dict[str, Value]:
    """Those of the locals that nothing reads whose objects must stay alive.

    Args:
        dead: the locals that nothing reads any more.
        alive: what exists anyway.
        recorder: of this capture.
    """
    if not dead:
        return {}
    existing = {value.object_id for value in reach(alive, recorder).values}
    return {name: value for name, value in dead.items() if _is_kept(value, existing, recorder)}


def _is_kept(value: Value, existing: set[int | None], recorder: Recorder) -> bool:
    if getattr(value, "source", None) is not None:
        return is_lent(value)
    if isinstance(value, (Constant, Known, Scalar)):
        return isinstance(value, Constant)
    if keeps_items(value, recorder):
        return True
    try:
        reached = reach([value], recorder).values
    except NotRebuildable:
        return False
    return any(_is_seen(found, existing, recorder) for found in reached)


def _is_seen(value: Value, existing: set[int | None], recorder: Recorder) -> bool:
    """True if somebody could tell that the value is gone."""
    if value.object_id is not None and value.object_id in existing:
        return True
    if isinstance(value, GeneratorValue):
        return is_guarded(recorder.heap[value.identity])
    return is_lent(value) and not isinstance(value, (TensorValue, Constant, Scalar))
