"""Which parameters become a module's units.

Contract: a parameter belongs to the first module that is sharded and has it below; modules that are
sharded later and share it borrow its unit. Parameters of one unit have one dtype, and all require
gradients or none does.
"""

from collections.abc import Iterator
from typing import Any, Final

from dynajit.core.errors import ExpectationError, UnsupportedError
from dynajit.core.types.dtypes import DType
from dynajit.distributed.groups import ProcessGroup, group_of
from dynajit.distributed.sharding.calls import STATE, guard, state_of
from dynajit.distributed.sharding.units import PartOfParameter, Unit
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter, is_lazy

Owners = list[tuple[Module, str]]

_PART: Final = "_part_in_unit"
"""The attribute of a whole parameter that tells which part took its place."""


def sharding_group(given: Any, name: str) -> ProcessGroup:
    """The group that shards.

    Raises:
        InvalidValueError: there is none.
        UnsupportedError: several groups, as hybrid strategies take.
    """
    if isinstance(given, (tuple, list)):
        raise UnsupportedError(
            f"{name}: two groups (a hybrid strategy) were given.  Parameters are sharded over one "
            "group: give it alone, or None for all processes."
        )
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
    group: ProcessGroup,
    parts: int,
    dtypes: tuple[DType | None, DType | None],
    ignored: set[int],
) -> tuple[list[Unit], list[Unit]]:
    """New units of a module, and those that it borrows.

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
            _enter(found, borrowed, parameter, owner, name)
    groups: dict[tuple[Any, bool], list[tuple[Parameter, Owners]]] = {}
    for parameter, owners in found.values():
        groups.setdefault((parameter.dtype, parameter.requires_grad), []).append(
            (parameter, owners)
        )
    units = []
    for same in groups.values():
        unit = Unit(same, group, parts, dtypes)
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
    lent = parameter if isinstance(parameter, PartOfParameter) else vars(parameter).get(_PART)
    if lent is None:
        found.setdefault(id(parameter), (parameter, []))[1].append((owner, name))
        return
    unit = lent.unit
    unit.entries[lent.index].owners.append((owner, name))
    owner._parameters[name] = lent
    guard(unit, owner, name)
    borrowed[unit] = None
