"""Which of its options a row takes: that for which the least is sent.

Contract: `plan` chooses for each dim of the mesh by itself, by layouts alone, so all processes
choose alike. Costs are counted in bytes of whole operands; cutting a part out of a whole costs next
to nothing, but is not free, so that what every process has whole stays whole.
"""

import functools
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType
from dynajit.distributed.tensor import rules
from dynajit.distributed.tensor.layouts import Layout, Placements
from dynajit.distributed.tensor.placements import Partial, Placement, Replicate, Shard
from dynajit.ops.table.op_table import Kind, Op

_LOG: Final = logging.getLogger(__name__)

_CUT: Final = 1e-6
"""What cutting a part out costs, in parts of what sending it would."""


@record
class Plan:
    """How a row is run on parts.

    Args:
        wants: per operand where it has to lie; None of what is no tensor.
        result: where the result lies.
        looks_up: the dim of the mesh whose processes look positions up in their own parts.
        sends: whether operands have to travel.
    """

    wants: tuple[Placements | None, ...]
    result: Placements
    looks_up: int | None
    sends: bool


def plan(
    op: Op,
    types: Sequence[Any],
    attributes: Mapping[str, Any],
    out: TensorType,
    layouts: Sequence[Layout | None],
) -> Plan:
    """See the module.

    Args:
        types, attributes, out: of the whole.
        layouts: of the operands; None of what is no tensor.
    """
    mesh = next(layout.mesh for layout in layouts if layout is not None)
    chosen: list[rules.Option] = []
    cost = 0.0
    looks_up: int | None = None
    for at in range(mesh.ndim):
        placements = tuple(None if layout is None else layout.placements[at] for layout in layouts)
        others = _others(layouts, at)
        call = rules.Call(op, tuple(types), attributes, out, placements, mesh.size(at), others)
        found = [option for option in rules.options(call) if not option.looks_up or others == 1]
        offered = [*found, rules.whole(call)]
        costs = [_cost(call, option) for option in offered]
        best = min(range(len(offered)), key=costs.__getitem__)
        chosen.append(offered[best])
        cost += costs[best]
        if offered[best].looks_up:
            looks_up = at
        if not found and costs[best] >= 1:
            _tell(op.name)
    wants = tuple(
        None if layout is None else tuple(_wanted(option, place) for option in chosen)
        for place, layout in enumerate(layouts)
    )
    return Plan(wants, tuple(option.result for option in chosen), looks_up, cost >= 1)


def _wanted(option: rules.Option, place: int) -> Placement:
    wanted = option.wants[place]
    assert wanted is not None
    return wanted


def _others(layouts: Sequence[Layout | None], at: int) -> int:
    """Processes along the other dims of the mesh that split an operand."""
    found = 1
    for layout in layouts:
        if layout is not None:
            split = [other for other in layout.order() if other != at]
            found = max(found, math.prod(layout.mesh.size(other) for other in split))
    return found


@functools.cache
def _tell(name: str) -> None:
    """Say once that a row has no form for parts."""
    _LOG.debug("%s: no form for parts of DTensors; every process computes the whole", name)


def _cost(call: rules.Call, option: rules.Option) -> float:
    cost = 0.0
    for place, wanted in enumerate(option.wants):
        old = call.placements[place]
        if old is not None and wanted is not None and old != wanted:
            type = call.types[place]
            cost += max(type.numel, 1) * type.dtype.itemsize * _part(old, wanted, call.count)
    return cost


def _part(old: Placement, new: Placement, count: int) -> float:
    """Of a change of placements: how much of the tensor is sent."""
    if isinstance(old, Replicate):
        return _CUT / (count if isinstance(new, Shard) else 1)
    if isinstance(old, Partial):
        return 2.0 if isinstance(new, Replicate) else 2 + _CUT
    if isinstance(new, Shard):
        return 1 / count
    return 1.0 if isinstance(new, Replicate) else 3.0


def takes_apart(op: Op, found: Plan) -> bool:
    """Whether a row is better run as the rows that it stands for: its operands would travel."""
    return op.kind is Kind.COMPOSITE and found.sends and not rules.is_named(op)
