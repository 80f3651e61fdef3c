"""NumPy's order statistics, interpolation and convolution, over tensors."""

from typing import TYPE_CHECKING, Any

import numpy as np

from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category
from dynajit.ops.calls.arguments import constant, is_tensor
from dynajit.ops.functions.arrangement.search import searchsorted as positions_in
from dynajit.ops.functions.arrangement.subscript import get_item
from dynajit.ops.functions.arrays.reductions import sort
from dynajit.ops.functions.arrays.table import left as leave
from dynajit.ops.functions.arrays.table import stands_for
from dynajit.ops.functions.arrays.types import as_tensor, axis_of, common, in_dtype, refuse_given
from dynajit.ops.functions.networks.convolution import conv1d
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

_ABSENT: Any = np._NoValue


def _sorted(a: Any, axis: Any, name: str) -> tuple[Any, int, int, Any]:
    """Sorted float64, the dim, how many there are along it, and where one of them is NaN."""
    a = as_tensor(a)
    whole = a.dtype.category in (Category.INTEGER, Category.BOOL)
    if not whole and a.dtype.name != "float64":
        raise leave(f"numpy.{name} of {a.dtype.name}")
    if axis is None:
        a, axis = TABLE.reshape(a, shape=(a.numel(),)), 0
    if isinstance(axis, (tuple, list)) or not a.shape:
        raise leave(f"numpy.{name} over several dims, or of a number,")
    dim = axis_of(a, axis)
    count = a.shape[dim]
    if type(count) is not int or not count:
        raise leave(f"numpy.{name} of sizes that vary, or of no elements,")
    x = sort(in_dtype(a, np.float64), dim)
    return x, dim, count, TABLE.isnan(_at(x, dim, count - 1))


def _at(x: "TensorMethods", dim: int, place: int) -> Any:
    return TABLE.select(x, dim=dim, index=place)


def _kept(found: Any, dim: int, axis: Any, rank: int, keepdims: Any) -> Any:
    if keepdims is _ABSENT or not keepdims:
        return found
    shape = (1,) * rank if axis is None else (*found.shape[:dim], 1, *found.shape[dim:])
    return TABLE.reshape(found, shape=tuple(shape))


@stands_for(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
           keepdims: Any = False) -> Any:  # fmt: skip
    """The element in the middle, or between both."""
    refuse_given("median", out=out)
    if overwrite_input:
        raise leave("numpy.median that overwrites its input")
    x, dim, count, is_nan = _sorted(a, axis, "median")
    high = _at(x, dim, count // 2)
    found = high if count % 2 else TABLE.div(TABLE.add(_at(x, dim, count // 2 - 1), high), 2.0)
    found = TABLE.where(is_nan, float("nan"), found)
    return _kept(found, dim, axis, len(as_tensor(a).shape), keepdims)


def _require_lines(name: str, method: str, overwrites: bool) -> None:
    if method != "linear" or overwrites:
        raise leave(f"numpy.{name} by this method")


def _quantile(name: str, a: Any, q: Any, hundred: float, axis: Any, keepdims: Any) -> Any:
    """By lines between elements, as NumPy draws them: from the nearer one."""
    several = isinstance(q, (list, tuple))
    given = q if several else (q,)
    if not all(type(part) in (int, float) and 0 <= part <= hundred for part in given):
        raise leave(f"numpy.{name} of parts that vary")
    if as_tensor(a).dtype.category is Category.BOOL:
        raise TypeError("NumPy subtracts no truth values")
    x, dim, count, is_nan = _sorted(a, axis, name)
    rank, results = len(as_tensor(a).shape), []
    for part in given:
        virtual = (count - 1) * np.true_divide(part, hundred)
        low = int(np.floor(virtual))
        high, t = min(low + 1, count - 1), float(virtual - low)
        below, above = _at(x, dim, low), _at(x, dim, high)
        apart = TABLE.sub(above, below)
        found = (
            TABLE.sub(above, TABLE.mul(apart, 1 - t))
            if t >= 0.5
            else TABLE.add(below, TABLE.mul(apart, t))
        )
        found = TABLE.where(is_nan, float("nan"), found)
        results.append(_kept(found, dim, axis, rank, keepdims))
    return TABLE.stack(*results, dim=0) if several else results[0]


@stands_for(np.percentile)
def percentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: Any = False, *,
               weights: Any = None) -> Any:  # fmt: skip
    """Between the elements that so many percent are below."""
    refuse_given("percentile", out=out, weights=weights)
    _require_lines("percentile", method, overwrite_input)
    return _quantile("percentile", a, q, 100, axis, keepdims)


@stands_for(np.quantile)
def quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: Any = False, *,
             weights: Any = None) -> Any:  # fmt: skip
    """Between the elements that this part is below."""
    refuse_given("quantile", out=out, weights=weights)
    _require_lines("quantile", method, overwrite_input)
    return _quantile("quantile", a, q, 1, axis, keepdims)


@stands_for(np.searchsorted, method="searchsorted")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Where values would be inserted."""
    refuse_given("searchsorted", sorter=sorter)
    if side not in ("left", "right"):
        raise ValueError("side")
    a, kind = as_tensor(a), common((as_tensor(a), as_tensor(v)))
    if len(a.shape) != 1 or kind.kind not in "iuf" or kind == np.float16:
        raise leave("numpy.searchsorted of this")
    v = as_tensor(v)
    x = TABLE.reshape(in_dtype(v, kind), shape=(v.numel(),))
    a = in_dtype(a, kind)
    if kind.kind != "f":
        found = positions_in(a, x, side=side)
    else:  # NaN is larger than numbers
        is_nan = TABLE.isnan(a)
        numbers = TABLE.sum(in_dtype(TABLE.logical_not(is_nan), np.int64), dim=(0,), keepdim=False)
        found = positions_in(TABLE.where(is_nan, float("inf"), a), x, side=side)
        behind = numbers if side == "left" else a.shape[0]
        found = TABLE.where(TABLE.isnan(x), behind, TABLE.minimum(found, numbers))
    return TABLE.reshape(found, shape=tuple(v.shape))


@stands_for(np.interp)
def interp(
    x: object, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """On the line between two known points."""
    refuse_given("interp", left=left, right=right, period=period)
    given = [as_tensor(value) for value in (x, xp, fp)]
    if any(value.dtype.category is Category.COMPLEX for value in given):
        raise leave("numpy.interp of complex numbers")
    places, xp, fp = (in_dtype(value, np.float64) for value in given)
    count = xp.shape[0] if len(xp.shape) == 1 else None
    if type(count) is not int or count < 2 or tuple(fp.shape) != (count,):
        raise leave("numpy.interp of this")
    flat = TABLE.reshape(places, shape=(places.numel(),))
    found = positions_in(xp, flat, side="right")
    place = TABLE.clamp(TABLE.sub(found, 1), 0, count - 2)
    low, high = get_item(xp, place), get_item(xp, TABLE.add(place, 1))
    below, above = get_item(fp, place), get_item(fp, TABLE.add(place, 1))
    slope = TABLE.div(TABLE.sub(above, below), TABLE.sub(high, low))
    value = TABLE.add(TABLE.mul(slope, TABLE.sub(flat, low)), below)
    again = TABLE.add(TABLE.mul(slope, TABLE.sub(flat, high)), above)
    again = TABLE.where(TABLE.logical_and(TABLE.isnan(again), TABLE.eq(below, above)), below, again)
    value = TABLE.where(TABLE.isnan(value), again, value)
    value = TABLE.where(TABLE.eq(flat, low), below, value)
    value = TABLE.where(TABLE.ge(flat, _at(xp, 0, count - 1)), _at(fp, 0, count - 1), value)
    value = TABLE.where(TABLE.lt(flat, _at(xp, 0, 0)), _at(fp, 0, 0), value)
    value = TABLE.where(TABLE.isnan(flat), flat, value)
    return TABLE.reshape(value, shape=tuple(places.shape))


def _correlated(a: Any, v: Any, mode: Any, name: str) -> Any:
    kind = common((a, v))
    if kind not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise leave(f"numpy.{name} of {kind}")
    if len(a.shape) != 1 or len(v.shape) != 1:
        raise leave(f"numpy.{name} of more dims")
    n, m = a.shape[0], v.shape[0]
    if type(n) is not int or type(m) is not int or not n or not m or n < m:
        raise leave(f"numpy.{name} of these sizes")
    before = {"valid": (0, 0), "same": (m // 2, m - 1 - m // 2), "full": (m - 1, m - 1)}.get(mode)
    if before is None:
        raise leave(f"numpy.{name} in mode {mode!r}")
    x = in_dtype(a, kind)
    ends = [TABLE.full(0, shape=(k,), dtype=x.dtype, device=CPU) for k in before]
    x = TABLE.cat(ends[0], x, ends[1], dim=0) if any(before) else x
    size = x.shape[0]
    x = TABLE.reshape(x, shape=(1, 1, size))
    kernel = TABLE.reshape(in_dtype(v, kind), shape=(1, 1, m))
    return TABLE.reshape(conv1d(x, kernel), shape=(size - m + 1,))


@stands_for(np.correlate)
def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """Sums of products with a shifted vector, which is no longer than the other."""
    return _correlated(as_tensor(a), as_tensor(v), mode, "correlate")


@stands_for(np.convolve)
def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """Sums of products with a reversed and shifted vector."""
    a, v = as_tensor(a), as_tensor(v)
    if len(a.shape) != 1 or len(v.shape) != 1:
        raise ValueError("object too deep for desired array")
    if type(a.shape[0]) is int and type(v.shape[0]) is int and a.shape[0] < v.shape[0]:
        a, v = v, a
    return _correlated(a, TABLE.flip(v, dims=(0,)), mode, "convolve")


@stands_for(np.digitize)
def digitize(x: object, bins: Any, right: bool = False) -> Any:
    """Which bin values are in; the bins are known, and rise."""
    if is_tensor(bins) or type(right) is not bool:
        raise leave("numpy.digitize of bins that vary")
    known = np.asarray(bins)
    if known.ndim != 1 or not np.all(known[1:] > known[:-1]):
        raise leave("numpy.digitize of bins that do not rise")
    return searchsorted(constant(known, CPU), x, "left" if right else "right")
