"""Methods that make their object's state in the first call (`core.preparation`), met in a capture.

Contract: `prepare` calls the preparation for real, if it can do no harm: the object existed before,
nothing but its other attributes was written so far, nothing was computed, and the containers that
the preparation fills were not met, so no fact about them is known yet. Otherwise the method does in
the graph what it does.
"""

import types
from typing import Any

from dynajit.capture.machine.machine import Machine
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import Value
from dynajit.core.preparation import Preparation, preparation_of
from dynajit.eager.operations.execute import eager_dispatch


def prepare(machine: Machine, function: types.FunctionType, args: list[Value]) -> None:
    """Make what a method would make in its first call, before it is inlined."""
    preparation = preparation_of(function)
    if preparation is None or not args or not isinstance(args[0], ObjectValue):
        return
    receiver = args[0]
    existing = machine.recorder.existing(receiver)
    if existing is not None and _is_untouched(machine, receiver, existing, preparation):
        with eager_dispatch():
            getattr(existing, preparation.method)()


def _is_untouched(
    machine: Machine, receiver: ObjectValue, existing: Any, preparation: Preparation
) -> bool:
    """True if the object is, for the captured code, still as at entry and not looked into."""
    if not machine.recorder.builder.is_empty or any(
        i != receiver.identity for i in machine.heap.changed()
    ):
        return False
    contents: ObjectContents = machine.heap[receiver.identity]
    fields = object.__getattribute__(existing, "__dict__")
    asked = (*preparation.reads, *preparation.fills)
    if any(name in contents.written or name not in fields for name in asked):
        return False
    return not any(machine.recorder.is_met(fields[name]) for name in preparation.fills)
