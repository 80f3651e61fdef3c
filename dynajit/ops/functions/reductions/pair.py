"""Products and distances of pairs of rows with the signatures of `torch.nn.functional`.

Contract: tensors in, tensors out. `dynajit.nn.functional` publishes them.
"""

import math
from typing import Any

from dynajit.core.errors import ShapeError
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import agree, shapes_agree
from dynajit.core.types.value_types import numel
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.dtypes_of_operands import (
    refuse_complex_dtype,
    require_category,
    require_same_dtype,
)
from dynajit.ops.calls.positions import triangle_positions
from dynajit.ops.calls.public import Out, public
from dynajit.ops.functions.reductions.reduction import norm
from dynajit.ops.table.op_table import TABLE, Autocast


@public("nn.functional")
@autocast(cuda=Autocast.WIDEST)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """x1 (*, I) @ weight[o] (O, I, J) @ x2 (*, J) + bias (O): (*, O).

    Raises:
        ShapeError: sizes do not go together.
        DTypeError: dtypes differ.
    """
    require_same_dtype("bilinear", input1, input2=input2, weight=weight, bias=bias)
    lead = tuple(input1.shape[:-1])
    features, rows, columns = weight.shape
    if not shapes_agree(input2.shape[:-1], lead):
        raise ShapeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and "
            f"{list(input2.shape)}"
        )
    if not agree(input1.shape[-1], rows) or not agree(input2.shape[-1], columns):
        raise ShapeError(
            f"bilinear(): inputs of size {input1.shape[-1]} and {input2.shape[-1]} do not match "
            f"a weight of {list(weight.shape)}"
        )
    if bias is not None and not agree(bias.shape[-1], features):
        raise ShapeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[-1]} but expected "
            f"{features}"
        )
    count = numel(lead)
    matrix = TABLE.reshape(TABLE.permute(weight, dims=(1, 0, 2)), shape=(rows, features * columns))
    half = TABLE.matmul(TABLE.reshape(input1, shape=(count, rows)), matrix)
    half = TABLE.reshape(half, shape=(count, features, columns))
    other = TABLE.reshape(input2, shape=(count, columns, 1))
    result = TABLE.reshape(TABLE.matmul(half, other), shape=(*lead, features))
    return result if bias is None else TABLE.add(result, bias)


@public(also=("nn.functional.pdist",), out=Out.ABSENT)
@autocast(cuda=Autocast.FULL)
def pdist(input: Any, p: float = 2.0) -> Any:
    """Distances of all pairs of rows of (N, D), row by row of the upper triangle.

    Raises:
        ShapeError: the input has other than two dims, or p is negative.
        DTypeError: the input is not floating.
    """
    require_category("pdist", Category.FLOATING, input=input)
    refuse_complex_dtype("pdist", input)
    if len(input.shape) != 2:
        raise ShapeError(f"pdist only supports 2D tensors, got: {len(input.shape)}D")
    if not p >= 0:
        raise ShapeError(f"pdist only supports non-negative p values, got {p}")
    n = input.shape[0]
    first, second = triangle_positions(n, n, 1, False, input.device)
    a = TABLE.index_select(input, first, dim=0)
    b = TABLE.index_select(input, second, dim=0)
    return distance(TABLE.sub(a, b), p)


def distance(difference: Any, p: float) -> Any:
    """The norm of order p along the last dim of differences; elements that tie for the largest get
    all of its gradient."""
    if p == math.inf:
        last = len(difference.shape) - 1
        return TABLE.farthest(TABLE.abs(difference), dim=(last,), keepdim=False)
    return norm(difference, p, -1)
