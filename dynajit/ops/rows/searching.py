"""Rows that look for positions in order: binary search, running extrema, running log-sum-exp.

Contract: `dim` counts from the front. Running rows double their reach in every step (W. D. Hillis,
G. L. Steele, "Data parallel algorithms", 1986), so a graph needs one pass per power of two, and
NumPy's running functions are their array forms. Along a symbolic size they stay one call.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ops.table import sample_rules
from dynajit.ops.table.families import composite, require_tensor

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

# ---------------------------------------------------------------------------------------------
# binary search


def _is_numbers(x: np.ndarray) -> bool:
    """True for integers and floats that NumPy compares as they are: 16-bit floats it converts."""
    return x.dtype.kind in "iub" or (x.dtype.kind == "f" and x.dtype != np.float16)


def _searchsorted_infer(sequence: ValueType, values: ValueType, *, right: bool) -> TensorType:
    return TensorType(tuple(values.shape), dtypes.int64)


def _searchsorted_array(xp: Any, sequence: Any, values: Any, *, right: bool) -> Any:
    """One vector, without NaN among its numbers, for all values."""
    plain = sequence.ndim == 1 and sequence.dtype == values.dtype and _is_numbers(sequence)
    if not plain or (sequence.size and sequence[-1] != sequence[-1]):
        return NotImplemented
    found = xp.searchsorted(sequence, values, side="right" if right else "left")
    return xp.asarray(found, dtype=np.int64)


def _stays_searchsorted(sequence: TensorType, values: TensorType, *, right: bool) -> bool:
    return not isinstance(sequence.shape[-1], int)


@composite(infer=_searchsorted_infer, array=_searchsorted_array, stays=_stays_searchsorted)
def searchsorted(ops: Any, sequence: Any, values: Any, *, right: bool) -> Any:
    """How many elements of each sorted row of `sequence` are less than (`right`: at most) a value.

    sequence: (n,), or (*, n) where values are (*, m), of one dtype. Dtype: int64. NaN is larger
    than every number.
    """
    size = sequence.shape[-1]
    first = ops.cast(ops.mul(ops.ne(values, values), 0), dtype=dtypes.int64)
    last = ops.add(first, size)
    for _ in range(size.bit_length()):
        middle = ops.floor_divide(ops.add(first, last), 2)
        at = ops.clamp_max(middle, size - 1)
        if len(sequence.shape) == 1:
            element = ops.index(sequence, ops.reshape(at, shape=(1, *at.shape)), dims=(0,))
        else:
            element = ops.gather(sequence, at, dim=len(sequence.shape) - 1)
        stays = ops.gt(element, values) if right else ops.ge(element, values)
        goes = ops.logical_and(ops.logical_not(stays), ops.lt(first, last))
        last = ops.where(goes, last, ops.where(ops.lt(first, last), middle, last))
        first = ops.where(goes, ops.add(middle, 1), first)
    return first


# ---------------------------------------------------------------------------------------------
# running values


def _earlier(ops: Any, x: Any, dim: int, reach: int, fill: Any) -> Any:
    """x shifted by `reach` positions along dim; `fill` where nothing comes earlier."""
    rank = len(x.shape)
    stop = tuple(n - reach if d == dim else n for d, n in enumerate(x.shape))
    kept = ops.slice(x, start=(0,) * rank, stop=stop, step=(1,) * rank)
    before = tuple(reach if d == dim else 0 for d in range(rank))
    return ops.pad(kept, before=before, after=(0,) * rank, value=fill)


def _reaches(x: "TensorMethods", dim: int) -> list[int]:
    size = x.shape[dim]
    return [1 << i for i in range(max(size - 1, 0).bit_length())]


def _stays_running(x: TensorType, *, dim: int, **others: Any) -> bool:
    return bool(x.shape) and not isinstance(x.shape[dim], int)


def _position_infer(x: ValueType, *, dim: int, largest: bool) -> TensorType:
    return TensorType(tuple(x.shape), dtypes.int64)


def _position_array(xp: Any, x: Any, *, dim: int, largest: bool) -> Any:
    """Positions by NumPy's running extremum, for numbers without NaN."""
    if x.ndim == 0 or not _is_numbers(x) or (x.dtype.kind == "f" and xp.isnan(x).any()):
        return NotImplemented
    extreme = (xp.maximum if largest else xp.minimum).accumulate(x, axis=dim)
    shape = [1] * x.ndim
    shape[dim] = x.shape[dim]
    numbers = xp.arange(x.shape[dim], dtype=np.int64).reshape(shape)
    return xp.maximum.accumulate(xp.where(x == extreme, numbers, 0), axis=dim)


@composite(
    infer=_position_infer,
    array=_position_array,
    stays=_stays_running,
    samples=sample_rules.along("dim"),
)
def running_position(ops: Any, x: Any, *, dim: int, largest: bool) -> Any:
    """Per position, where the largest (or smallest) element so far stands: the last of equal ones.

    NaN counts as more extreme than every number. Dtype: int64.
    """
    if not x.shape:
        return ops.full(0, shape=(), dtype=dtypes.int64, device=x.device)
    size = x.shape[dim]
    shape = tuple(size if d == dim else 1 for d in range(len(x.shape)))
    numbers = ops.arange(0, 1, size=size, dtype=dtypes.int64, device=x.device)
    found = ops.expand(ops.reshape(numbers, shape=shape), shape=tuple(x.shape))
    value = x
    for reach in _reaches(x, dim):
        other = _earlier(ops, value, dim, reach, 0)
        at = _earlier(ops, found, dim, reach, -1)
        beats = ops.ge(value, other) if largest else ops.le(value, other)
        stays = ops.logical_or(ops.ne(value, value), ops.logical_and(ops.eq(other, other), beats))
        stays = ops.logical_or(stays, ops.lt(at, 0))
        value, found = ops.where(stays, value, other), ops.where(stays, found, at)
    return found


def _log_add(ops: Any, a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)) of infinities and numbers."""
    top = ops.maximum(a, b)
    finite = ops.where(ops.isfinite(top), top, 0)
    total = ops.add(ops.exp(ops.sub(a, finite)), ops.exp(ops.sub(b, finite)))
    return ops.add(ops.log(total), finite)


def _logcumsumexp_vjp(ops: Any, g: Any, x: Any, out: Any, dim: int, reverse: bool) -> Any:
    """exp(x) * the sum of g * exp(-out) from each position on, in logarithms.

    The positive and the negative parts of g are summed apart. Source: the derivative of
    log(sum(exp(x_i))) is a softmax over what has been summed.
    """
    if not x.shape:
        return g

    def part(sign: int) -> Any:
        signed = ops.mul(g, sign)
        live = ops.gt(signed, 0)
        size = ops.sub(ops.log(ops.where(live, signed, 1)), ops.where(live, out, 0))
        sizes = ops.where(live, size, float("-inf"))
        summed = ops.logcumsumexp(sizes, dim=dim, reverse=not reverse)
        return ops.exp(ops.add(summed, x))

    return ops.sub(part(1), part(-1))


def _logcumsumexp_tangent(
    ops: Any, x_tangent: Any, x: Any, out: Any, dim: int, reverse: bool
) -> Any:
    """exp(-out) * the running sum of exp(x) times the tangent, in logarithms; 0 where out is -inf.

    Written down since the formula above, at a gradient without positive or negative parts, has an
    infinite logarithm within.
    """
    if not x.shape:
        return x_tangent
    level = ops.where(ops.isfinite(out), out, 0)

    def part(sign: int) -> Any:
        signed = ops.mul(x_tangent, sign)
        live = ops.gt(signed, 0)
        size = ops.add(ops.log(ops.where(live, signed, 1)), x)
        sizes = ops.where(live, size, float("-inf"))
        return ops.exp(ops.sub(ops.logcumsumexp(sizes, dim=dim, reverse=reverse), level))

    return ops.sub(part(1), part(-1))


def _same_infer(x: ValueType, *, dim: int, reverse: bool) -> TensorType:
    type = require_tensor(x, "logcumsumexp", "x")
    return type.with_shape(type.shape)


def _logcumsumexp_array(xp: Any, x: Any, *, dim: int, reverse: bool) -> Any:
    if x.ndim == 0 or x.dtype.kind != "f" or x.dtype.itemsize < 4:
        return NotImplemented
    given = xp.flip(x, dim) if reverse else x
    found = xp.logaddexp.accumulate(given, axis=dim)
    return xp.array(xp.flip(found, dim) if reverse else found, order="C")


@composite(
    infer=_same_infer,
    array=_logcumsumexp_array,
    vjp={"x": _logcumsumexp_vjp},
    tangent=_logcumsumexp_tangent,
    stays=_stays_running,
    samples=sample_rules.along("dim"),
)
def logcumsumexp(ops: Any, x: Any, *, dim: int, reverse: bool = False) -> Any:
    """log of the running sum of exponentials along `dim`, from the last element on if `reverse`.

    Floating dtypes; 16-bit floats compute in float32.
    """
    if not x.shape:
        return ops.clone(x)
    kind = dtypes.compute_dtype(x.dtype)
    value = ops.cast(x, dtype=kind)
    value = ops.flip(value, dims=(dim,)) if reverse else value
    for reach in _reaches(x, dim):
        value = _log_add(ops, value, _earlier(ops, value, dim, reach, float("-inf")))
    value = ops.flip(value, dims=(dim,)) if reverse else value
    return ops.cast(value, dtype=x.dtype)
