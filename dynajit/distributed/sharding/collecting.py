"""Which parameters become a module's units.

Contract: a parameter belongs to the first module that is sharded and has it below; modules that are
sharded later and share it borrow its unit. Parameters of one unit have one dtype, and all require
gradients or none does.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from dynajit.core.errors import ExpectationError, UnsupportedError
from dynajit.core.types.dtypes import DType
from dynajit.distributed.groups import ProcessGroup, group_of
from dynajit.distributed.sharding.calls import STATE, guard, state_of
from dynajit.distributed.sharding.splits import Members
from dynajit.distributed.sharding.units import Unit, UnitPart
from dynajit.distributed.tensor.dtensor import DTensor
from dynajit.distributed.tensor.layouts import Layout
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter, is_lazy

Owners = list[tuple[Module, str]]

_PART: Final = "_part_in_unit"
"""The attribute of a whole parameter that tells which part took its place."""


def sharding_group(given: Any, name: str) -> ProcessGroup:
    """The group that shards.

    Raises:
        InvalidValueError: there is none.
        ExpectationError: this process is outside.
    """
    found = group_of(given)
    if found is None:
        raise ExpectationError(f"{name}: this process is not in the group.")
    return found


def own_modules(module: Module) -> Iterator[Module]:
    """A module and all below that are in no sharded module below it."""
    yield module
    for child in module.children():
        if STATE not in child.__dict__:
            yield from own_modules(child)


def collected(
    module: Module,
    members: Members,
    parts: int,
    dtypes: tuple[DType | None, DType | None],
    ignored: set[int],
    layout_of: Callable[[Any], Layout] | None = None,
) -> tuple[list[Unit], list[Unit]]:
    """New units of a module, and those that it borrows.

    Args:
        layout_of: the DTensor that a parameter becomes; None: parts are plain.

    Raises:
        ExpectationError: the module is sharded already.
        UnsupportedError: a parameter is lazy.
    """
    if state_of(module) is not None:
        raise ExpectationError(
            f"{type(module).__name__} was sharded already.  Shard each module once, inner ones "
            "first."
        )
    found: dict[int, tuple[Parameter, Owners]] = {}
    borrowed: dict[Unit, None] = {}
    for owner in dict.fromkeys(own_modules(module)):
        for name, parameter in owner._parameters.items():
            if parameter is None or id(parameter) in ignored:
                continue
            if is_lazy(parameter):
                raise UnsupportedError(
                    f"{type(owner).__name__}.{name} has no shape yet.  Run the module once before "
                    "it is sharded."
                )
            is_spread = isinstance(parameter, DTensor) and not isinstance(parameter, UnitPart)
            if layout_of is None and is_spread:
                raise UnsupportedError(
                    f"{type(owner).__name__}.{name} is a DTensor.  Use fully_shard, which spreads "
                    "parameters over a mesh of more dims."
                )
            _enter(found, borrowed, parameter, owner, name)
    groups: dict[tuple[Any, bool], list[tuple[Parameter, Owners]]] = {}
    for parameter, owners in found.values():
        groups.setdefault((parameter.dtype, parameter.requires_grad), []).append(
            (parameter, owners)
        )
    units = []
    for same in groups.values():
        layouts = None if layout_of is None else [layout_of(parameter) for parameter, _ in same]
        unit = Unit(same, members, parts, dtypes, layouts)
        units.append(unit)
        for (parameter, _), leaf in zip(same, unit.leaves, strict=True):
            vars(parameter)[_PART] = leaf
    return units, list(borrowed)


def _enter(
    found: dict[int, tuple[Parameter, Owners]],
    borrowed: dict[Unit, None],
    parameter: Any,
    owner: Module,
    name: str,
) -> None:
    lent = parameter if isinstance(parameter, UnitPart) else vars(parameter).get(_PART)
    if lent is None:
        found.setdefault(id(parameter), (parameter, []))[1].append((owner, name))
        return
    unit = lent.unit
    unit.entries[lent.index].owners.append((owner, name))
    owner._parameters[name] = lent
    guard(unit, owner, name)
    borrowed[unit] = None
