"""Methods that make their object's state in the first call (`core.preparation`), met in a capture.

Contract: `prepare` calls the preparation for real, if it can do no harm: the method runs no code of
the program before it looks, the object existed before, what the preparation reads of it was not
written so far, and the containers that it fills were not met, so that no fact about them is known
yet. Otherwise the method does in the graph what it does.
"""

import functools
import types
from typing import Any

from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import is_none
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorContents
from dynajit.core.preparation import Preparation, preparation_of
from dynajit.eager.operations.execute import eager_dispatch


def prepare(
    machine: Machine,
    function: types.FunctionType,
    args: list[Value],
    keywords: dict[str, Value],
) -> None:
    """Make what a method would make in its first call, before it is inlined."""
    preparation = preparation_of(function)
    if preparation is None or not args or not isinstance(args[0], ObjectValue):
        return
    if preparation.unless is not None:
        given = {**dict(zip(function.__code__.co_varnames, args, strict=False)), **keywords}
        if preparation.unless in given and not is_none(machine, given[preparation.unless]):
            return
    receiver = args[0]
    existing = machine.recorder.existing(receiver)
    if existing is not None and _is_untouched(machine, receiver, existing, preparation):
        with eager_dispatch():
            getattr(existing, preparation.method)(functools.partial(_has_gradient, machine))


def _is_untouched(
    machine: Machine, receiver: ObjectValue, existing: Any, preparation: Preparation
) -> bool:
    """True if the object is, for the captured code, still as at entry and not looked into."""
    contents: ObjectContents = machine.heap[receiver.identity]
    fields = object.__getattribute__(existing, "__dict__")
    asked = (*preparation.reads, *preparation.fills)
    if any(name in contents.written or name not in fields for name in asked):
        return False
    if any(_is_changed(machine, fields[name]) for name in preparation.reads):
        return False
    return not any(machine.recorder.is_met(fields[name]) for name in preparation.fills)


def _is_changed(machine: Machine, container: Any) -> bool:
    """True if the captured code has changed a container, or one of those in it."""
    handle = machine.recorder.handle_of(container)
    if handle is not None and machine.heap.is_changed(handle.identity):
        return True
    if isinstance(container, dict):
        container = list(container.values())
    return isinstance(container, (list, tuple)) and any(
        _is_changed(machine, part) for part in container if isinstance(part, (dict, list, tuple))
    )


def _has_gradient(machine: Machine, tensor: Any) -> bool:
    """Whether a tensor has a gradient at this point of the captured code."""
    handle = machine.recorder.handle_of(tensor)
    contents = None if handle is None else machine.heap[handle.identity]
    if isinstance(contents, TensorContents) and "grad" in contents.attributes:
        return not is_none(machine, contents.attributes["grad"])
    return tensor.grad is not None
