"""Rows of a table looked up so that its gradient is sparse: it holds the rows that were asked for.

Contract: the gradient is a sparse tensor of the table's size with one sparse dim, not coalesced. It
may be asked for with `create_graph`. Captured functions break here.
"""

from typing import Any

from dynajit.core.errors import UnsupportedError
from dynajit.eager.backward.function import Function
from dynajit.eager.sparse.sparse_tensor import SparseTensor, made
from dynajit.ops.functions.networks.embedding import row_number
from dynajit.ops.table.op_table import TABLE


def looked_up(input: Any, weight: Any, padding_idx: int | None, scale_grad_by_freq: bool) -> Any:
    """Rows of weight (n, d) at the integers in input (*) -> (*, d); see
    `ops.functions.networks.embedding`.

    Raises:
        UnsupportedError: `scale_grad_by_freq`.
    """
    if scale_grad_by_freq:
        raise UnsupportedError(
            "embedding(sparse=True, scale_grad_by_freq=True): sparse gradients are not divided by "
            "frequencies.  Leave one of the two out."
        )
    if padding_idx is not None:
        padding_idx = row_number(padding_idx, weight.shape[0])
    return Embedding.apply(weight, input, padding_idx)


class Embedding(Function):
    """The rows; its name is that of the node on the tape."""

    @staticmethod
    def forward(ctx: Any, weight: Any, numbers: Any, padding_idx: int | None) -> Any:
        """Look the rows up, and keep their numbers."""
        ctx.save_for_backward(numbers)
        ctx.save_for_forward(numbers)
        ctx.padding_idx, ctx.sizes = padding_idx, tuple(weight.shape)
        return TABLE.embedding(weight, numbers, padding_idx=None)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradients of the rows, as values at the rows' numbers."""
        (numbers,) = ctx.saved_tensors
        elements = gradients[0].reshape(-1, ctx.sizes[1])
        where = numbers.reshape(1, -1).long()
        if ctx.padding_idx is not None:
            (kept,) = (where[0] != ctx.padding_idx).nonzero(as_tuple=True)
            where, elements = where.index_select(1, kept), elements.index_select(0, kept)
        return made(SparseTensor, where, elements, ctx.sizes, False), None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """The rows of the tangent."""
        (numbers,) = ctx.saved_tensors
        return TABLE.embedding(tangents[0], numbers, padding_idx=None)
