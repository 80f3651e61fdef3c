"""NumPy's order statistics, interpolation and convolution, over tensors."""

from typing import TYPE_CHECKING, Any

import numpy as np

from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import floordiv, is_at_least, mod, shapes_agree
from dynajit.ops.calls.contents import holds, occurs
from dynajit.ops.functions.arrangement.search import searchsorted as positions_in
from dynajit.ops.functions.arrangement.subscript import get_item
from dynajit.ops.functions.arrays.products import matmul
from dynajit.ops.functions.arrays.reductions import mean, sort, sum_
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
    if not is_at_least(count, 1):
        raise leave(f"numpy.{name} of no elements")
    x = sort(in_dtype(a, np.float64), dim)
    return x, dim, count, TABLE.isnan(_at(x, dim, count - 1))


def _at(x: "TensorMethods", dim: int, place: Any) -> Any:
    """The elements at a place along a dim: a number, a size that varies, or a tensor."""
    if type(place) is int:
        return TABLE.select(x, dim=dim, index=place)
    return get_item(x, (*(slice(None),) * dim, place))


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
    high = _at(x, dim, floordiv(count, 2))
    if type(count) is int and count % 2:
        found = high
    else:
        found = TABLE.div(TABLE.add(_at(x, dim, floordiv(count, 2) - 1), high), 2.0)
    if type(count) is not int:
        is_odd = TABLE.eq(TABLE.integer(value=mod(count, 2)), 1)
        found = TABLE.where(is_odd, high, found)
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
        virtual = (count - 1) * np.true_divide(part, hundred) if type(count) is int else None
        found = (
            _between_known(x, dim, count, virtual)
            if virtual is not None
            else _between_any(x, dim, count, np.true_divide(part, hundred))
        )
        found = TABLE.where(is_nan, float("nan"), found)
        results.append(_kept(found, dim, axis, rank, keepdims))
    return TABLE.stack(*results, dim=0) if several else results[0]


def _between_known(x: "TensorMethods", dim: int, count: int, virtual: Any) -> Any:
    """On the line between the elements around a place."""
    low = int(np.floor(virtual))
    high, t = min(low + 1, count - 1), float(virtual - low)
    below, above = _at(x, dim, low), _at(x, dim, high)
    apart = TABLE.sub(above, below)
    if t >= 0.5:
        return TABLE.sub(above, TABLE.mul(apart, 1 - t))
    return TABLE.add(below, TABLE.mul(apart, t))


def _between_any(x: "TensorMethods", dim: int, count: Any, part: Any) -> Any:
    """As `_between_known`, of a number of elements that varies: the same steps, as rows."""
    last = TABLE.integer(value=count - 1)
    virtual = TABLE.mul(in_dtype(last, np.float64), float(part))
    floor = TABLE.floor(virtual)
    low = in_dtype(floor, np.int64)
    high, t = TABLE.minimum(TABLE.add(low, 1), last), TABLE.sub(virtual, floor)
    below, above = _at(x, dim, low), _at(x, dim, high)
    apart = TABLE.sub(above, below)
    from_above = TABLE.sub(above, TABLE.mul(apart, TABLE.sub(1.0, t)))
    from_below = TABLE.add(below, TABLE.mul(apart, t))
    return TABLE.where(TABLE.ge(t, 0.5), from_above, from_below)


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
    if count is None or not is_at_least(count, 2) or not shapes_agree(tuple(fp.shape), (count,)):
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
    if not is_at_least(n, 1) or not is_at_least(m, 1) or n < m:
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
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    return _correlated(a, TABLE.flip(v, dims=(0,)), mode, "convolve")


@stands_for(np.digitize)
def digitize(x: object, bins: Any, right: bool = False) -> Any:
    """Which bin values are in; the bins rise."""
    if type(right) is not bool:
        raise leave("numpy.digitize by this side")
    edges = as_tensor(bins)
    if len(edges.shape) != 1 or edges.dtype.category is Category.COMPLEX:
        raise leave("numpy.digitize of bins that do not rise")
    size = edges.shape[0]
    before, after = get_item(edges, slice(0, size - 1)), get_item(edges, slice(1, size))
    if not holds(TABLE.ge(after, before)):
        raise ValueError("numpy.digitize: bins that do not rise")
    return searchsorted(edges, x, "left" if right else "right")


@stands_for(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: Any = False, *,
            keepdims: Any = _ABSENT) -> Any:  # fmt: skip
    """Means over some dims, by weights."""
    if returned:
        raise leave("numpy.average together with the sum of weights")
    a = as_tensor(a)
    if not all(is_at_least(size, 1) for size in a.shape):
        raise leave("numpy.average of no elements")
    if weights is None:
        return mean(a, axis, keepdims=keepdims)
    weights = as_tensor(weights)
    if not shapes_agree(tuple(weights.shape), tuple(a.shape)):
        raise leave("numpy.average by weights of another shape")
    kind = common(
        (a, weights, np.float64) if a.dtype.category < Category.FLOATING else (a, weights)
    )
    if kind.kind != "f" or kind == np.float16:
        raise leave(f"numpy.average of {kind}")
    a, weights = in_dtype(a, kind), in_dtype(weights, kind)
    total = sum_(weights, axis, kind, keepdims=keepdims)
    if occurs(TABLE.eq(total, 0)):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    return TABLE.div(sum_(TABLE.mul(a, weights), axis, keepdims=keepdims), total)


@stands_for(np.cov, gives_arrays=True)
def cov(m: Any, y: Any = None, rowvar: Any = True, bias: Any = False, ddof: Any = None,
        fweights: Any = None, aweights: Any = None, *, dtype: Any = None) -> Any:  # fmt: skip
    """Covariances of rows, which are variables."""
    refuse_given("cov", fweights=fweights, aweights=aweights, dtype=dtype)
    given = [as_tensor(x) for x in (m, y) if x is not None]
    if any(x.dtype.category is Category.COMPLEX or not 0 < len(x.shape) < 3 for x in given):
        raise leave("numpy.cov of complex numbers, or of more than matrices,")
    rows = [_variables(in_dtype(x, np.float64), rowvar) for x in given]
    x = TABLE.cat(*rows, dim=0) if len(rows) > 1 else rows[0]
    count = x.shape[1]
    less = (0 if bias else 1) if ddof is None else ddof
    if type(less) is not int or not is_at_least(count - less, 1) or not is_at_least(x.shape[0], 1):
        raise leave("numpy.cov of so few numbers")
    x = TABLE.sub(x, TABLE.reshape(mean(x, 1), shape=(x.shape[0], 1)))
    found = TABLE.mul(
        matmul(x, TABLE.permute(x, dims=(1, 0))), TABLE.div(as_tensor(1.0), count - less)
    )
    ones = [d for d, size in enumerate(found.shape) if type(size) is int and size == 1]
    return TABLE.reshape(found, shape=()) if len(ones) == 2 else found


def _variables(x: "TensorMethods", rowvar: Any) -> Any:
    """A matrix of which each row is a variable."""
    if len(x.shape) == 1:
        return TABLE.reshape(x, shape=(1, x.shape[0]))
    return x if rowvar else TABLE.permute(x, dims=(1, 0))
