"""Rows of a table looked up by integers: `embedding`, as composite rows.

Contract: as of `composites`; integers are checked against the number of rows.
"""

from typing import Any

from dynajit.core.errors import ShapeError
from dynajit.core.types.value_types import TensorType, numel
from dynajit.ops.native import _native_forms
from dynajit.ops.table import sample_rules
from dynajit.ops.table.families import composite


def _embedding_vjp(
    ops: Any, g: Any, weight_type: TensorType, indices: Any, padding_idx: int | None
) -> Any:
    count, size = numel(tuple(indices.shape)), weight_type.shape[1]
    if padding_idx is not None:
        live = ops.reshape(ops.ne(indices, padding_idx), shape=(*indices.shape, 1))
        g = ops.where(live, g, 0.0)
    zeros = ops.full(0, shape=weight_type.shape, dtype=g.dtype, device=g.device)
    flat = ops.reshape(indices, shape=(count,))
    return ops.index_add(zeros, flat, ops.reshape(g, shape=(count, size)), dim=0)


@composite(
    vjp={"weight": _embedding_vjp},
    native=_native_forms.embedding,
    slopes={"weight": _native_forms.embedding_slope},
    linear=("weight",),
    samples=sample_rules.looked_up,
)
def embedding(ops: Any, weight: Any, indices: Any, *, padding_idx: int | None = None) -> Any:
    """Rows of weight (n, d) at integer indices (*) -> (*, d); the row `padding_idx` gets no
    gradient."""
    if len(weight.shape) != 2:
        raise ShapeError(f"embedding: 'weight' must be 2-D, but has shape {list(weight.shape)}.")
    count = numel(tuple(indices.shape))
    rows = ops.index_select(weight, ops.reshape(indices, shape=(count,)), dim=0)
    return ops.reshape(rows, shape=(*indices.shape, weight.shape[1]))


def _by_frequency_vjp(
    ops: Any, g: Any, weight_type: TensorType, indices: Any, padding_idx: int | None
) -> Any:
    """The gradient of `embedding`, where each share is divided by how often its row occurs."""
    count = numel(tuple(indices.shape))
    flat = ops.reshape(indices, shape=(count,))
    none = ops.full(0, shape=weight_type.shape[:1], dtype=g.dtype, device=g.device)
    one = ops.full(1, shape=(count,), dtype=g.dtype, device=g.device)
    times = ops.index_select(ops.index_add(none, flat, one, dim=0), flat, dim=0)
    shares = ops.div(g, ops.reshape(times, shape=(*indices.shape, 1)))
    return _embedding_vjp(ops, shares, weight_type, indices, padding_idx)


@composite(vjp={"weight": _by_frequency_vjp}, linear=("weight",), samples=sample_rules.each)
def embedding_by_frequency(
    ops: Any, weight: Any, indices: Any, *, padding_idx: int | None = None
) -> Any:
    """`embedding`, with the gradient of each row divided by how often it is looked up."""
    return ops.embedding(weight, indices, padding_idx=padding_idx)
