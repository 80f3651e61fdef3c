"""Library functions that look for elements: distinct ones, places in an order, counts.

Contract: the first parameter is the tensor, so most functions are methods of `TensorMethods`, too.
What has as many elements as there are distinct values (`unique`, `bincount`, ...) needs the
contents, so it breaks graphs, and is computed on the host; everything else is composed of rows.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import (
    ArgumentError,
    DTypeError,
    DTypeNotImplementedError,
    ShapeError,
    ShapeIndexError,
    UnsupportedError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import shapes_agree
from dynajit.core.types.value_types import numel
from dynajit.ops.calls import arguments
from dynajit.ops.calls.arguments import cast, constant, dim_of, is_tensor, with_integers
from dynajit.ops.calls.dtypes_of_operands import refuse_complex_dtype, require_category
from dynajit.ops.calls.public import Out, public
from dynajit.ops.functions.reductions.reduction import ValuesIndices, sort
from dynajit.ops.functions.shapes.shape import reshape, unsqueeze
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

# ---------------------------------------------------------------------------------------------
# distinct elements


def _selected(values: Any, inverse: Any, counts: Any, asked: tuple[bool, bool]) -> Any:
    """The values alone, or a tuple with what else was asked for."""
    extra = [part for part, wanted in zip((inverse, counts), asked, strict=True) if wanted]
    return (values, *(_whole(part, values) for part in extra)) if extra else values


@public(out=Out.ABSENT, numpy_names=False, method=True)
def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Distinct elements (or slices along `dim`), in order; needs the contents.

    Returns:
        values, or a tuple (values[, inverse][, counts]): the position in values of every element,
        and how often each value occurs, both int64. Every NaN is a value of its own.
    """
    array = _comparable(input)
    if dim is None:
        _, first, inverse, counts = np.unique(
            array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
        )
        inverse = inverse.reshape(array.shape)
        found = TABLE.index_select(reshape(input.detach(), -1), _whole(first, input), dim=0)
        found = _of_contents(found, input, "unique")
    else:
        d = dim_of(input, dim, "unique")
        rows = _slices(array, d)
        order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
        first, inverse, counts = _groups(rows[order])
        position = np.empty_like(inverse)
        position[order] = inverse
        inverse = position
        found = TABLE.index_select(input.detach(), _whole(order[first], input), dim=d)
        found = _of_contents(found, input, "unique")
    return _selected(found, inverse, counts, (return_inverse, return_counts))


def _of_contents(found: Any, input: Any, function: str) -> Any:
    """What was found in the contents of input: its derivative is refused."""
    if not arguments.is_followed(input):
        return found
    every = TABLE.sum(input, dim=tuple(range(len(input.shape))), keepdim=False)
    return arguments.unchanged_by(found, every, function)


def _slices(array: Any, dim: int) -> Any:
    """The slices along a dim as rows.

    Raises:
        ShapeError: they have no elements.
    """
    others = [n for d, n in enumerate(array.shape) if d != dim]
    if 0 in others:
        raise ShapeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    return np.moveaxis(array, dim, 0).reshape(array.shape[dim], math.prod(others))


def _comparable(input: Any) -> Any:
    """The elements in a dtype that NumPy compares, on the host."""
    arguments.require_tensor(input, "unique")
    array = any_arrays.as_numpy(input.array)
    is_short = input.dtype in (dtypes.float16, dtypes.bfloat16)
    return array.astype(np.float32) if is_short else array


def _whole(positions: Any, like: Any) -> Any:
    return constant(np.asarray(positions, np.int64), like.device)


def _groups(rows: Any) -> tuple[Any, Any, Any]:
    """Runs of equal neighbouring rows: their starts, the run of each row, their lengths."""
    if not len(rows):
        return (np.zeros(0, np.int64),) * 3
    differs = (rows[1:] != rows[:-1]).any(1)
    starts = np.concatenate([[0], np.flatnonzero(differs) + 1])
    number = np.concatenate([[0], np.cumsum(differs)])
    return starts, number, np.diff(np.append(starts, len(rows)))


@public(out=Out.ABSENT, numpy_names=False, method=True)
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements (or slices along `dim`); needs the contents.

    Returns:
        values, or a tuple (values[, inverse][, counts]) as of `unique`.
    """
    array = _comparable(input)
    if dim is None:
        starts, number, lengths = _groups(array.reshape(-1, 1))
        found = TABLE.index_select(reshape(input.detach(), -1), _whole(starts, input), dim=0)
        number = number.reshape(array.shape)
    else:
        d = dim_of(input, dim, "unique_consecutive")
        starts, number, lengths = _groups(_slices(array, d))
        found = TABLE.index_select(input.detach(), _whole(starts, input), dim=d)
    found = _of_contents(found, input, "unique_consecutive")
    return _selected(found, number, lengths, (return_inverse, return_counts))


@public(out=Out.SAME_DTYPE)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False,
         invert: bool = False) -> Any:  # fmt: skip
    """Whether each element is one of the test elements; either may be a number.

    Raises:
        DTypeError: one holds bools or complex numbers.
    """
    if not is_tensor(elements) and not is_tensor(test_elements):
        raise ArgumentError("isin(): expected a tensor as elements or test_elements.")
    like = elements if is_tensor(elements) else test_elements
    require_category("isin", Category.INTEGER, elements=elements, test_elements=test_elements)
    refuse_complex_dtype("isin", elements, test_elements)
    pair = [_as_tensor(v, like) for v in (elements, test_elements)]
    tests = reshape(pair[1], -1)
    shape = tuple(pair[0].shape)
    same = TABLE.eq(unsqueeze(pair[0], -1), tests)
    found = TABLE.any(same, dim=(len(shape),), keepdim=False)
    return TABLE.logical_not(found) if invert else found


def _as_tensor(value: Any, like: Any) -> Any:
    if is_tensor(value):
        return value
    return TABLE.full(value, shape=(), dtype=dtypes.of_number(value), device=like.device)


# ---------------------------------------------------------------------------------------------
# places in an order


@public(out=Out.SAME_DTYPE)
def searchsorted(
    sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool | None = None,
    side: str | None = None, sorter: Any = None,
) -> Any:  # fmt: skip
    """Where each value would be inserted into the sorted last dim: left of equal ones, or right.

    Args:
        sorted_sequence: (n,), or (*, n) with input (*, m).
        input: values, or a number where the sequence is a vector.
        right, side: `right=True` or `side="right"`: behind equal elements.
        sorter: positions that put `sorted_sequence` in order, of its shape.

    Returns:
        int64 (int32 with out_int32) positions in the shape of input.

    Raises:
        ShapeError: the leading dims of sequence and input differ, or sides contradict.
        DTypeError: the sorter is not int64.
    """
    if side not in (None, "left", "right"):
        raise ShapeError(f"searchsorted: side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise ShapeError(
            "searchsorted: side and right can't be set to opposites, got side of left while right "
            "was True"
        )
    values = input
    if not is_tensor(values):
        kind = arguments.common_dtype((sorted_sequence, values))
        values = TABLE.full(values, shape=(), dtype=kind, device=sorted_sequence.device)
    _check_search(sorted_sequence, values, input)
    if sorter is not None:
        _check_sorter(sorted_sequence, sorter)
        last = len(sorted_sequence.shape) - 1
        sorted_sequence = TABLE.gather(sorted_sequence, sorter, dim=last)
    kind = arguments.common_dtype((sorted_sequence, values))
    sorted_sequence, values = cast(sorted_sequence, kind), cast(values, kind)
    found = TABLE.searchsorted(sorted_sequence, values, right=bool(right) or side == "right")
    return cast(found, dtypes.int32) if out_int32 else found


def _check_search(sequence: Any, values: Any, given: Any) -> None:
    if not sequence.shape:
        raise ShapeError(
            "searchsorted: input value can be a scalar only when boundaries tensor dimension is 1"
        )
    if len(sequence.shape) == 1:
        return
    if not values.shape:
        raise ShapeError(
            "searchsorted: input value can be a scalar only when boundaries tensor dimension is 1"
        )
    if not shapes_agree(sequence.shape[:-1], values.shape[:-1]):
        raise ShapeError(
            "searchsorted: boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            "boundaries tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(sequence.shape)} and input value tensor {list(values.shape)}"
        )


def _check_sorter(sequence: Any, sorter: Any) -> None:
    if not shapes_agree(sorter.shape, sequence.shape):
        raise ShapeError(
            "searchsorted: boundary and sorter must have the same size, but got boundary tensor "
            f"{list(sequence.shape)}and got sorter tensor {list(sorter.shape)}"
        )
    if sorter.dtype is not dtypes.int64:
        raise DTypeError(
            f"searchsorted: sorter must be a tensor of long dtype but got dtype {sorter.dtype.name}"
        )


@public(out=Out.SAME_DTYPE)
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Number of the bucket between sorted boundaries that each value falls into; see
    `searchsorted`."""
    if len(boundaries.shape) != 1:
        raise ShapeError(
            "bucketize: boundaries tensor must be 1 dimension, but got "
            f"dim({len(boundaries.shape)})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@public(out=Out.SAME_DTYPE, method=True)
def msort(input: Any) -> Any:
    """input sorted along its first dim."""
    return sort(input, 0).values


# ---------------------------------------------------------------------------------------------
# running extrema, the most frequent element


@public(method=True)
def cummax(input: Any, dim: int) -> ValuesIndices:
    """(largest elements so far along `dim`, where they stand: the last of equal ones)."""
    return _running(input, dim, True)


@public(method=True)
def cummin(input: Any, dim: int) -> ValuesIndices:
    """(smallest elements so far along `dim`, where they stand: the last of equal ones)."""
    return _running(input, dim, False)


def _running(input: Any, dim: int, largest: bool) -> ValuesIndices:
    d = dim_of(input, dim, "cummax" if largest else "cummin")
    found = TABLE.running_position(input, dim=d, largest=largest)
    return ValuesIndices(TABLE.gather(input, found, dim=d), found)


@public(out=Out.SAME_DTYPE, method=True)
def logcumsumexp(input: Any, dim: int) -> Any:
    """log of the running sum of exponentials along `dim`, without overflow."""
    d = dim_of(input, dim, "logcumsumexp")
    if not input.dtype.is_floating_point:
        raise DTypeNotImplementedError(
            f'"logcumsumexp_out_cpu" not implemented for {input.dtype.name}.  Cast with .float().'
        )
    return TABLE.logcumsumexp(input, dim=d, reverse=False)


@public(method=True)
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent element along `dim` (the smallest of several) and its last position."""
    d = dim_of(input, dim, "mode")
    if not input.shape:
        zero = TABLE.full(0, shape=(), dtype=dtypes.int64, device=input.device)
        return ValuesIndices(TABLE.clone(input), zero)
    if input.shape[d] == 0:
        raise ShapeIndexError("mode(): Expected reduction dim to have non-zero size.")
    order = TABLE.argsort(input, dim=d, descending=False, start=0, stop=None)
    values = TABLE.gather(input, order, dim=d)
    n = input.shape[d]
    numbers = TABLE.arange(0, 1, size=n, dtype=dtypes.int64, device=input.device)
    place = reshape(numbers, tuple(n if i == d else 1 for i in range(len(input.shape))))
    # In the order, a run's length so far is the distance from where the run starts.
    shifted = TABLE.slice(
        values, start=(0,) * len(input.shape),
        stop=tuple(m - 1 if i == d else m for i, m in enumerate(input.shape)),
        step=(1,) * len(input.shape),
    )  # fmt: skip
    before = tuple(1 if i == d else 0 for i in range(len(input.shape)))
    previous = TABLE.pad(shifted, before=before, after=(0,) * len(input.shape), value=0)
    starts = TABLE.logical_or(TABLE.ne(values, previous), TABLE.eq(place, 0))
    start = TABLE.running_position(TABLE.where(starts, place, 0), dim=d, largest=True)
    start = TABLE.gather(TABLE.where(starts, place, 0), start, dim=d)
    best = TABLE.argmax(TABLE.sub(place, start), dim=(d,), keepdim=True)
    position = TABLE.gather(order, best, dim=d)
    pair = TABLE.gather(input, position, dim=d)
    if keepdim:
        return ValuesIndices(pair, position)
    return ValuesIndices(*(TABLE.select(part, dim=d, index=0) for part in (pair, position)))


# ---------------------------------------------------------------------------------------------
# counts


class Histogram(NamedTuple):
    """Result of `histogram`: two tensors."""

    hist: Any
    bin_edges: Any


@public(out=Out.ABSENT, method=True)
@with_integers
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number from 0 on occurs in a vector of integers (or their summed weights).

    Needs the contents: the largest number says how many counts there are.

    Raises:
        ShapeError: input is no vector, or weights have another shape.
        DTypeError: input is not of integers.
    """
    if input.dtype.category is not Category.INTEGER:
        raise DTypeNotImplementedError(f'"bincount_cpu" not implemented for {input.dtype.name}')
    if minlength < 0:
        raise ShapeError("minlength should be >= 0")
    array = any_arrays.as_numpy(input.array)
    if array.ndim != 1 or (array.size and array.min() < 0):
        raise ShapeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and not shapes_agree(weights.shape, input.shape):
        raise ShapeError("weights should be 1-d and have the same length as input")
    length = max(int(array.max()) + 1 if array.size else 0, minlength)
    if weights is None:
        return constant(np.bincount(array, minlength=length).astype(np.int64), input.device)
    kind = weights.dtype if weights.dtype is dtypes.float32 else dtypes.float64
    zeros = TABLE.full(0, shape=(length,), dtype=kind, device=input.device)
    return TABLE.index_add(zeros, cast(input, dtypes.int64), cast(weights.detach(), kind), dim=0)


def _range(x: "TensorMethods", low: float, high: float) -> tuple[float, float]:
    """The ends of a histogram: those given, or the smallest and largest element."""
    if low == high and numel(tuple(x.shape)):
        low, high = float(x.array.min()), float(x.array.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ShapeError(f"range of [{low}, {high}] is not finite")
    if low > high:
        raise ShapeError("max must be larger than min")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


@public(out=Out.SAME_DTYPE, method=True)
@with_integers
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Counts of the elements in `bins` equal bins from min to max (both 0: of the elements).

    The last bin includes its end; elements outside are not counted. Needs the contents where the
    ends are not given.
    """
    if not input.dtype.is_floating_point:
        raise DTypeNotImplementedError(f'"histogram_cpu" not implemented for {input.dtype.name}')
    if bins <= 0:
        raise ShapeError("bins must be > 0")
    x = TABLE.reshape(input.detach(), shape=(numel(tuple(input.shape)),))
    wide = cast(x, dtypes.float64)
    low, high = _range(wide, float(min), float(max))
    return cast(_counts(wide, bins, low, high), input.dtype)


def _counts(x: "TensorMethods", bins: int, low: float, high: float) -> Any:
    """How many of a vector of float64 lie in each of equal bins, as `numpy.histogram` says: what is
    nearly at an edge is compared with it."""
    edges = constant(np.linspace(low, high, bins + 1), x.device)
    inside = TABLE.logical_and(TABLE.ge(x, low), TABLE.le(x, high))
    known = TABLE.where(inside, x, low)
    share = TABLE.div(TABLE.sub(known, low), high - low)
    place = TABLE.clamp(cast(TABLE.mul(share, float(bins)), dtypes.int64), 0, bins - 1)
    is_lower = TABLE.lt(known, TABLE.gather(edges, place, dim=0))
    place = TABLE.sub(place, cast(is_lower, dtypes.int64))
    beyond = TABLE.ge(known, TABLE.gather(edges, TABLE.add(place, 1), dim=0))
    is_upper = TABLE.logical_and(beyond, TABLE.ne(place, bins - 1))
    place = TABLE.add(place, cast(is_upper, dtypes.int64))
    zeros = TABLE.full(0, shape=(bins,), dtype=dtypes.int64, device=x.device)
    return TABLE.scatter_add(zeros, place, cast(inside, dtypes.int64), dim=0)


@public(method=True)
def histogram(
    input: Any, bins: Any, *, range: tuple[float, float] | None = None, weight: Any = None,
    density: bool = False,
) -> Histogram:  # fmt: skip
    """(counts, edges) of the elements in equal bins, or between the edges in a tensor.

    Args:
        range: ends of equal bins; by default the smallest and largest element.
        weight: what each element counts, of the shape of input.
        density: divide by the total and by the widths. Needs the contents.
    """
    if not input.dtype.is_floating_point:
        raise DTypeNotImplementedError(f'"histogramdd" not implemented for {input.dtype.name}')
    _check_weight(input, weight, tuple(input.shape))
    if is_tensor(bins) and (len(bins.shape) != 1 or not numel(tuple(bins.shape))):
        raise ShapeError(
            f"histogram: got edges of shape {list(bins.shape)}.  Expected one dimension, and at "
            "least 1 element."
        )
    x = input.detach()
    if is_tensor(bins) and bins.dtype is not input.dtype:
        raise DTypeError(
            "histogram: input tensor and bins tensors should have the same dtype, but got input "
            f"with dtype {input.dtype.name} and bins with dtype {bins.dtype.name}"
        )
    if is_tensor(bins):
        edges = TABLE.clone(cast(bins, input.dtype))
    else:
        bins = arguments.size(bins, "histogram")
        if bins <= 0:
            raise ShapeError(f"histogram(): bins must be > 0, but got {bins}")
        if range is not None:
            low, high = _given_range(range)
        else:
            low, high = _range(x, 0.0, 0.0) if numel(tuple(x.shape)) else (0.0, 1.0)
        edges = constant(np.linspace(low, high, bins + 1).astype(input.dtype.numpy), input.device)
    flat, places = (any_arrays.as_numpy(part.array).reshape(-1) for part in (x, edges))
    factors = None if weight is None else any_arrays.as_numpy(weight.array).reshape(-1)
    sums, _ = np.histogram(flat, places, density=density, weights=factors)
    counts = constant(sums.astype(input.dtype.numpy), input.device)
    return Histogram(_of_contents(counts, input, "histogram"), edges)


def _given_range(ends: tuple[float, float]) -> tuple[float, float]:
    if len(ends) != 2:
        raise ShapeError(f"histogram: range has {len(ends)} elements.  Expected 2.")
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ShapeError(f"histogram: the range [{low}, {high}] is not finite")
    if low > high:
        raise ShapeError(f"histogram: min {low} should not exceed max {high}")
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _check_weight(input: Any, weight: Any, shape: tuple[Any, ...]) -> None:
    """
    Raises:
        DTypeError: the weight has another dtype than the input.
        ShapeError: it has another shape than the points.
    """
    if weight is None:
        return
    if weight.dtype is not input.dtype:
        raise DTypeError(
            f"histogram: weight is {weight.dtype.name}, and input {input.dtype.name}.  Expected "
            "the same dtype."
        )
    if tuple(weight.shape) != shape:
        raise ShapeError(
            f"histogram: weight has shape {list(weight.shape)}.  Expected {list(shape)}."
        )


class HistogramOfPoints(NamedTuple):
    """Result of `histogramdd`."""

    hist: Any
    bin_edges: Any


def histogramdd(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> HistogramOfPoints:
    """(counts, edges) of points in a grid of bins; needs the contents.

    Args:
        input: points, floating, shape (*, n).
        bins: the number of equal bins in each dim, one for all or a list of n; or n tensors of
            edges.
        range: 2 n ends of equal bins, (low, high) for each dim; by default the smallest and the
            largest coordinate.
        weight: what each point counts, shape (*).
        density: divide by the total and by the volumes.

    Returns:
        Counts with one dim per coordinate, input's dtype, and a tuple of n tensors of edges: those
        given, where they have that dtype.

    Raises:
        ShapeError: `bins` or `range` do not fit the number of coordinates.
        UnsupportedError: input is not floating.
    """
    if not input.dtype.is_floating_point:
        raise UnsupportedError(f'"histogramdd" not implemented for {input.dtype.name}')
    if len(input.shape) < 2:
        raise ShapeError("histogramdd: input tensor should have at least 2 dimensions")
    count = input.shape[-1]
    is_count = arguments.is_integer(bins) and not is_tensor(bins)
    given = [bins] * count if is_count else list(bins)
    if len(given) != count:
        raise ShapeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    if range is not None and len(range) != 2 * count:
        raise ShapeError(
            f"torch.histogramdd: for a {count}-dimensional histogram range should have "
            f"{2 * count} elements, but got {len(range)}"
        )
    _check_weight(input, weight, tuple(input.shape[:-1]))
    points = any_arrays.as_numpy(input.detach().array).reshape(-1, count)
    edges = [
        _edges(points[:, d], of_dim, None if range is None else range[2 * d : 2 * d + 2])
        for d, of_dim in enumerate(given)
    ]
    factors = None if weight is None else any_arrays.as_numpy(weight.detach().array).reshape(-1)
    if len(points):
        sums, _ = np.histogramdd(points, edges, density=density, weights=factors)
    else:
        sums = np.full([len(one) - 1 for one in edges], np.nan if density else 0.0)
    made = tuple(
        of_dim
        if is_tensor(of_dim) and of_dim.dtype is input.dtype
        else constant(one.astype(input.dtype.numpy), input.device)
        for of_dim, one in zip(given, edges, strict=True)
    )
    return HistogramOfPoints(constant(sums.astype(input.dtype.numpy), input.device), made)


def _edges(coordinates: np.ndarray, bins: Any, ends: Any) -> np.ndarray:
    """The edges of one dim of `histogramdd`."""
    if is_tensor(bins) and bins.shape:
        return np.asarray(any_arrays.as_numpy(bins.detach().array))
    bins = arguments.size(bins, "histogramdd")
    if bins <= 0:
        raise ShapeError(f"histogramdd: bins must be > 0, but got {bins}")
    if ends is None:
        ends = (coordinates.min(), coordinates.max()) if len(coordinates) else (0.0, 1.0)
    low, high = _given_range((float(ends[0]), float(ends[1])))
    return np.linspace(low, high, bins + 1).astype(coordinates.dtype)
