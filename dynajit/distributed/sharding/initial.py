"""Values of sharded parameters that had none: modules that were made on the device "meta".

Contract: after `to_empty`, `reset_parameters()` of a module whose parameters are parts computes
whole values, as on one process, and every process keeps its part. Processes draw the same numbers
if their generators are in the same state (`manual_seed`).
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from dynajit.core.errors import ExpectationError
from dynajit.distributed.sharding.collecting import own_modules
from dynajit.distributed.sharding.units import Unit
from dynajit.eager.tensor.creation import empty
from dynajit.nn.module import Module


def materialized(module: Module, give_values: Callable[[Module], None] | None) -> None:
    """Give values to what lies on "meta", of modules that are not sharded yet.

    Args:
        give_values: of a module; its `to_empty` and `reset_parameters` if None.

    Raises:
        ExpectationError: neither is there.
    """
    for below in own_modules(module):
        own = [*below._parameters.values(), *below._buffers.values()]
        if not any(x is not None and x.is_meta for x in own):
            continue
        if give_values is not None:
            give_values(below)
            continue
        if not hasattr(below, "reset_parameters"):
            raise ExpectationError(
                f"{type(below).__name__} lies on the device 'meta' and has no reset_parameters.  "
                "Give param_init_fn, which gives it values."
            )
        below.to_empty(device="cpu", recurse=False)
        below.reset_parameters()


def keep_resetting(units: Iterable[Unit]) -> None:
    """Let `reset_parameters` of modules that have parts on "meta" see whole parameters."""
    by_module: dict[Module, list[tuple[Unit, int, str]]] = {}
    for unit in units:
        for index, (entry, leaf) in enumerate(zip(unit.entries, unit.leaves, strict=True)):
            if leaf.is_meta:
                for module, name in entry.owners:
                    by_module.setdefault(module, []).append((unit, index, name))
    for module, held in by_module.items():
        reset = getattr(module, "reset_parameters", None)
        if reset is not None:
            object.__setattr__(
                module, "reset_parameters", functools.partial(_reset, module, held, reset)
            )


def _reset(module: Any, held: list[tuple[Unit, int, str]], reset: Callable[[], None]) -> None:
    parts = dict(module._parameters)
    for unit, index, name in held:
        values = empty(unit.entries[index].shape, dtype=parts[name].dtype)
        module._parameters[name] = unit.dressed(index, values)
    try:
        reset()
        wholes = dict(module._parameters)
    finally:
        module._parameters.update(parts)
    for unit, index, name in held:
        if not unit.leaves[index].is_meta:
            unit.write(index, unit.undressed(index, wholes[name]))
