"""The row that scatters by products and extrema.

Contract: `dim` counts from the front; index and source are no larger than x apart from `dim`, as
the rows of `indexing` ask. Sums need no row: they are `scatter_add`.
"""

from typing import Any

import numpy as np

from dynajit.core.errors import DTypeError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.symint import fits_within, shapes_agree
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ops.native import _native_places
from dynajit.ops.rows.indexing import places_along, target_along
from dynajit.ops.table import sample_rules
from dynajit.ops.table.families import describe, require_tensor, scatter
from dynajit.ops.table.op_table import TABLE, Indices


def _infer(x: ValueType, index: ValueType, source: ValueType, *, dim: int, mode: str) -> TensorType:
    call = describe("scatter_reduce", ("x", "index", "source"), (x, index, source))
    type = require_tensor(x, call, "x")
    places = require_tensor(index, call, "index")
    if places.dtype is not dtypes.int64:
        raise DTypeError(f"{call}: scatter(): Expected dtype int64 for index")
    if require_tensor(source, call, "source").dtype is not type.dtype:
        raise DTypeError(f"{call}: scatter(): Expected self.dtype to be equal to src.dtype")
    fits = len(index.shape) == type.rank and all(
        d == dim or fits_within(n, type.shape[d]) for d, n in enumerate(index.shape)
    )
    if not fits or not shapes_agree(index.shape, source.shape):
        raise ShapeError(
            f"{call}: Expected index to be smaller than self apart from dimension {dim} and to be "
            "of the size of src"
        )
    return type.with_shape(type.shape)


def _zeros_of(ops: Any, x: Any, index: Any, source: Any, dim: int) -> tuple[Any, Any]:
    """Per element of x: how many factors of its product are 0, and the product of the others."""
    count = ops.cast(ops.eq(x, 0), dtype=dtypes.int64)
    more = ops.cast(ops.eq(source, 0), dtype=dtypes.int64)
    count = ops.scatter_add(count, index, more, dim=dim)
    others = ops.scatter_reduce(
        ops.where(ops.eq(x, 0), 1, x), index, ops.where(ops.eq(source, 0), 1, source),
        dim=dim, mode="prod",
    )  # fmt: skip
    return count, others


def _without(ops: Any, factor: Any, count: Any, others: Any) -> Any:
    """The product of all factors but one."""
    is_zero = ops.eq(factor, 0)
    left = ops.div(others, ops.where(is_zero, 1, factor))
    return ops.where(ops.eq(ops.sub(count, ops.cast(is_zero, dtype=dtypes.int64)), 0), left, 0)


def _shares(ops: Any, g: Any, x: Any, index: Any, source: Any, out: Any, dim: int) -> Any:
    """The gradient of an extremum, divided among the elements that are equal to it."""
    chosen = ops.cast(ops.eq(source, ops.gather(out, index, dim=dim)), dtype=g.dtype)
    count = ops.scatter_add(ops.cast(ops.eq(x, out), dtype=g.dtype), index, chosen, dim=dim)
    return ops.div(g, count)  # nothing equals NaN: 0 counted, and NaN in the end


def _vjp_of_x(
    ops: Any, g: Any, x: Any, index: Any, source: Any, out: Any, dim: int, mode: str
) -> Any:
    if mode == "prod":
        return ops.mul(g, _without(ops, x, *_zeros_of(ops, x, index, source, dim)))
    return ops.mul(_shares(ops, g, x, index, source, out, dim), ops.eq(x, out))


def _vjp_of_source(
    ops: Any, g: Any, x: Any, index: Any, source: Any, out: Any, dim: int, mode: str
) -> Any:
    if mode == "prod":
        count, others = (
            ops.gather(part, index, dim=dim) for part in _zeros_of(ops, x, index, source, dim)
        )
        return ops.mul(ops.gather(g, index, dim=dim), _without(ops, source, count, others))
    shares = ops.gather(_shares(ops, g, x, index, source, out, dim), index, dim=dim)
    return ops.mul(shares, ops.eq(source, ops.gather(out, index, dim=dim)))


def _array(xp: Any, x: Any, index: Any, source: Any, *, dim: int, mode: str) -> Any:
    result, name = xp.array(x), TABLE[mode].rule.ufunc
    if not x.ndim:
        return getattr(xp, name)(result, source)
    places = places_along("scatter_reduce", xp, x, index, dim)
    if xp is np:
        getattr(np, name).at(result, places, source)
    else:
        xp.combine_at(name, result, places, source)
    return result


@scatter(
    infer=_infer,
    array=_array,
    domain=lambda types, **attributes: types[1].shape,
    mode=None,
    vjp={"x": _vjp_of_x, "source": _vjp_of_source},
    native=_native_places.scatter_reduce,
    linear=(),
    indices=Indices.EACH,
    samples=sample_rules.along("dim"),
)
def scatter_reduce(
    m: Any, load: Any, index: Any, types: Any, *, dim: int, mode: str
) -> tuple[Any, Any]:
    """x combined with the elements of `source` at `index` along `dim`: by "prod", "amax" or "amin",
    as `mode` says."""
    return target_along(m, load, index, types, dim), load(2, index)
