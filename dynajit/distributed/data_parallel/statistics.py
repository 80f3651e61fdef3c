"""What layers that normalise over processes tell each other: one row of each.

Contract: gradients pass; backward is a collective, too. In compiled code both are nodes of a graph.
"""

from typing import Any

from dynajit.capture.control import is_compiling
from dynajit.core.process.process_groups import ProcessGroup
from dynajit.distributed.captured import nodes
from dynajit.distributed.collectives import all_gather_into_tensor, all_reduce
from dynajit.eager.backward.function import Function
from dynajit.eager.tensor.tensor import Tensor


class _Rows(Function):
    """Every process's row, in all of them."""

    @staticmethod
    def forward(ctx: Any, row: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        rows: Tensor = row.new_empty((group.size(), row.numel()))
        all_gather_into_tensor(rows, row.contiguous(), group)
        return rows

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _Own.apply(gradients[0], ctx.group), None


class _Own(Function):
    """This process's row of the sum of all processes' rows: the one is the other's transpose."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        summed = rows.contiguous().clone()
        all_reduce(summed, group=group)
        own: Tensor = summed[group.rank()].clone()
        return own

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _Rows.apply(gradients[0], ctx.group), None


def rows_of(row: Tensor, group: ProcessGroup) -> Tensor:
    """A row for each process, in the order of the group.

    Args:
        row: one dim, of the same size everywhere.

    Raises:
        DistBackendError: the others did not come in time.
    """
    if is_compiling():
        return nodes.rows_of(row, group)
    rows: Tensor = _Rows.apply(row, group)
    return rows
