"""Library functions that reduce, scan or sort along dims.

Contract: the first parameter is the tensor, so each function is a method of `TensorMethods`, too.
`dim` may be None (all dims), an integer or several; it is normalised here before a row is called.
"""

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dynajit.core.errors import (
    ArgumentRuntimeError,
    BoundsError,
    BoundsRuntimeError,
    DTypeError,
    ShapeError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import agree, equals, fits_within
from dynajit.core.types.value_types import numel
from dynajit.ops.calls import arguments
from dynajit.ops.calls.arguments import cast, describe_tensor, dim_of, with_integers
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.dtypes_of_operands import refuse_complex_dtype
from dynajit.ops.calls.placing import as_computed
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.functions.elements.elementwise import isclose, maximum, minimum, nonzero
from dynajit.ops.functions.shapes.shape import reshape
from dynajit.ops.rows.composites import wide
from dynajit.ops.rows.factorizations import part
from dynajit.ops.table.families import floating_of, normalize_dims, reduced_shape
from dynajit.ops.table.op_table import TABLE, Autocast
from dynajit.ops.table.result_layouts import lies_by_rows

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


class ValuesIndices(NamedTuple):
    """Result of `max(dim)`, `min(dim)`, `sort`, `topk`, `kthvalue`, ...: two tensors."""

    values: Any
    indices: Any


# By rank; NumPy has no array of more than 64 dims.
_ALL_DIMS: Final = tuple(tuple(range(rank)) for rank in range(65))


def _dims(input: Any, dim: Any, function: str) -> tuple[int, ...]:
    if not arguments.is_tensor(input):  # a call less than to require it
        arguments.require_tensor(input, function)
    if dim is None:
        return _ALL_DIMS[len(input.shape)]
    if type(dim) is int and input.shape:
        return (dim_of(input, dim, function),)
    call = f"{function}(input: {describe_tensor(input)})"
    return normalize_dims(dim, len(input.shape), call)


@public(out=Out.AS_DTYPE, method=True, sparse=True)
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum along `dim`; bool and integers sum in int64."""
    dims = _dims(input, dim, "sum")
    if dtype is None:
        return TABLE.sum(input, dim=dims, keepdim=keepdim)
    x = cast(input, arguments.dtype_of(dtype))
    return _in_dtype(TABLE.sum(x, dim=dims, keepdim=keepdim), dtype)


def _in_dtype(result: Any, dtype: Any) -> Any:
    return result if dtype is None else cast(result, arguments.dtype_of(dtype))


@public(out=Out.AS_DTYPE, method=True)
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def prod(input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Product along `dim`."""
    dims = _dims(input, dim, "prod")
    x = cast(input, None if dtype is None else arguments.dtype_of(dtype))
    return _in_dtype(TABLE.prod(x, dim=dims, keepdim=keepdim), dtype)


@public(method=True)
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Mean along `dim` of a floating tensor.

    Raises:
        DTypeError: the tensor is not floating and no dtype is given.
    """
    dims = _dims(input, dim, "mean")
    x = cast(input, None if dtype is None else arguments.dtype_of(dtype))
    return TABLE.mean(x, dim=dims, keepdim=keepdim)


def _correction(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    """dim and correction from the old form (`unbiased`, also in the place of dim) or the new."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, arguments.operand(correction)


@public(method=True)
def var(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None) -> Any:  # fmt: skip
    """Variance along `dim`, divided by the count less `correction` (1); of complex numbers the
    sum of that of their parts."""
    dim, amount = _correction(dim, unbiased, correction)
    if input.dtype.is_complex:
        parts = (TABLE.real(input), TABLE.imag(input))
        real, imag = (var(part, dim, keepdim=keepdim, correction=amount) for part in parts)
        return TABLE.add(real, imag)
    return TABLE.var(input, dim=_dims(input, dim, "var"), keepdim=keepdim, correction=amount)


@public(method=True)
def std(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None) -> Any:  # fmt: skip
    """Square root of `var`."""
    dim, amount = _correction(dim, unbiased, correction)
    if input.dtype.is_complex:
        return TABLE.sqrt(var(input, dim, keepdim=keepdim, correction=amount))
    return TABLE.std(input, dim=_dims(input, dim, "std"), keepdim=keepdim, correction=amount)


@public(out=Out.ABSENT)
def var_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: float | None = None) -> Any:  # fmt: skip
    """(var, mean)."""
    dim, amount = _correction(dim, unbiased, correction)
    return var(input, dim, correction=amount, keepdim=keepdim), mean(input, dim, keepdim)


@public(out=Out.ABSENT)
def std_mean(input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: float | None = None) -> Any:  # fmt: skip
    """(std, mean)."""
    dim, amount = _correction(dim, unbiased, correction)
    return std(input, dim, correction=amount, keepdim=keepdim), mean(input, dim, keepdim)


@public(out=Out.SAME_DTYPE, method=True)
def amax(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Largest element; equal ones share the gradient."""
    return TABLE.amax(input, dim=_dims(input, dim, "amax"), keepdim=keepdim)


@public(out=Out.SAME_DTYPE, method=True)
def amin(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Smallest element; equal ones share the gradient."""
    return TABLE.amin(input, dim=_dims(input, dim, "amin"), keepdim=keepdim)


def _orderable(input: Any) -> Any:
    return TABLE.cast(input, dtype=dtypes.uint8) if input.dtype is dtypes.bool_ else input


@public(out=Out.SAME_DTYPE, method=True)
def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Position of the largest element (the first of equal ones): of the flattened input without
    `dim`, else along it."""
    return _arg(TABLE.argmax, input, dim, keepdim)


@public(out=Out.SAME_DTYPE, method=True)
def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Position of the smallest element; see `argmax`."""
    return _arg(TABLE.argmin, input, dim, keepdim)


def _arg(row: Any, input: Any, dim: int | None, keepdim: bool) -> Any:
    if input.dtype is dtypes.bool_:
        raise DTypeError(f"{row.name} is not defined for bool.  Cast with .int() first.")
    if dim is None:
        dims: tuple[int, ...] = tuple(range(len(input.shape)))
    else:
        dims = (dim_of(input, dim, row.name),) if input.shape else ()
    return row(input, dim=dims, keepdim=keepdim)


@public(method=True)
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; with `dim` (values, indices); with a tensor the elementwise maximum."""
    if other is not None:
        return maximum(input, other)
    if arguments.is_tensor(dim):
        return maximum(input, dim)
    if dim is None:
        return TABLE.largest(input, dim=tuple(range(len(input.shape))), keepdim=keepdim)
    return _extremum(TABLE.argmax, input, dim, keepdim)


@public(method=True)
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; with `dim` (values, indices); with a tensor the elementwise
    minimum."""
    if other is not None:
        return minimum(input, other)
    if arguments.is_tensor(dim):
        return minimum(input, dim)
    if dim is None:
        return TABLE.smallest(input, dim=tuple(range(len(input.shape))), keepdim=keepdim)
    return _extremum(TABLE.argmin, input, dim, keepdim)


def _extremum(row: Any, input: Any, dim: int, keepdim: bool) -> ValuesIndices:
    name = row.name.removeprefix("arg")
    refuse_complex_dtype(name, input)
    d = dim_of(input, dim, name)
    if not input.shape:
        zero = TABLE.full(0, shape=(), dtype=dtypes.int64, device=input.device)
        return ValuesIndices(TABLE.clone(input), zero)
    indices = row(_orderable(input), dim=(d,), keepdim=True)
    values = TABLE.gather(input, indices, dim=d)
    if keepdim:
        return ValuesIndices(values, indices)
    shape = tuple(n for i, n in enumerate(input.shape) if i != d)
    return ValuesIndices(TABLE.reshape(values, shape=shape), TABLE.reshape(indices, shape=shape))


class LowestHighest(NamedTuple):
    """Result of `aminmax`."""

    min: Any
    max: Any


@public(method=True)
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> LowestHighest:
    """(smallest, largest)."""
    dims = () if dim is None else dim
    return LowestHighest(amin(input, dims, keepdim), amax(input, dims, keepdim))


@public(out=Out.SAME_DTYPE, method=True)
def any(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """True where some element is not 0; an empty `dim` reduces nothing."""
    return TABLE.any(input, dim=_dims_or_none(input, dim, "any"), keepdim=keepdim)


@public(out=Out.SAME_DTYPE, method=True)
def all(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """True where no element is 0; an empty `dim` reduces nothing."""
    return TABLE.all(input, dim=_dims_or_none(input, dim, "all"), keepdim=keepdim)


def _dims_or_none(input: Any, dim: Any, function: str) -> tuple[int, ...]:
    """`_dims`, but no dims where the sequence is empty."""
    return () if isinstance(dim, (tuple, list)) and not dim else _dims(input, dim, function)


@public(out=Out.ABSENT, method=True)
def count_nonzero(input: Any, dim: Any = None) -> Any:
    """Number of elements that are not 0, int64."""
    return TABLE.sum(TABLE.ne(input, 0), dim=_dims(input, dim, "count_nonzero"), keepdim=False)


@public(also=("special.logsumexp",), method=True)
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """log of the sum of exponentials along `dim`, without overflow."""
    x = cast(input, floating_of(input.dtype))
    dims = _dims(input, dim, "logsumexp")
    if x.dtype.is_complex:
        return _complex_logsumexp(x, dims, keepdim)
    return TABLE.logsumexp(x, dim=dims, keepdim=keepdim)


def _complex_logsumexp(x: "TensorMethods", dims: tuple[int, ...], keepdim: bool) -> Any:
    """Shifted by the largest real part, a constant."""
    shape = reduced_shape(tuple(x.shape), dims, keepdim)
    if numel(tuple(x.shape)) == 0:
        return TABLE.log(TABLE.sum(TABLE.exp(x), dim=dims, keepdim=keepdim))
    top = TABLE.amax(TABLE.detach(TABLE.real(x)), dim=dims, keepdim=True)
    level = TABLE.where(TABLE.isfinite(top), top, 0.0)
    total = TABLE.log(TABLE.sum(TABLE.exp(TABLE.sub(x, level)), dim=dims, keepdim=True))
    return reshape(TABLE.add(total, level), shape)


@public(out=Out.SAME_DTYPE, method=True)
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False,
         dtype: Any = None) -> Any:  # fmt: skip
    """Vector norm along `dim` (all dims by default) of order p: 2 or "fro", 1, 0, inf, -inf, or
    any other number; "nuc" is the sum of singular values of matrices in two dims."""
    if p == "nuc":
        return _nuclear_norm(input, dim, keepdim, dtype)
    x = cast(input, None if dtype is None else arguments.dtype_of(dtype))
    if x.dtype.is_complex:
        x = TABLE.abs(x)
    if not x.dtype.is_floating_point:
        raise DTypeError(
            f"norm(input: {describe_tensor(x)}): expected a floating dtype.  Cast with .float()."
        )
    dims = _dims(x, dim, "norm")
    if p in ("fro", None) or p == 2:
        return TABLE.euclidean_norm(x, dim=dims, keepdim=keepdim)
    if isinstance(p, str):
        raise ArgumentRuntimeError(f"norm(p={p!r}): expected a number, 'fro' or 'nuc'.")
    size = TABLE.abs(x)
    if p == float("inf"):
        return TABLE.largest(size, dim=dims, keepdim=keepdim)
    if p == float("-inf"):
        return TABLE.smallest(size, dim=dims, keepdim=keepdim)
    if p == 0:
        count = cast(TABLE.sum(TABLE.ne(x, 0), dim=dims, keepdim=keepdim), x.dtype)
        return arguments.unchanged_by(count, TABLE.sum(size, dim=dims, keepdim=keepdim))
    if p == 1:
        return TABLE.sum(size, dim=dims, keepdim=keepdim)
    return cast(_norm_of_order(wide(TABLE, size), float(p), dims, keepdim), x.dtype)


def _nuclear_norm(input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """The sum of the singular values of matrices in two dims, by default the only ones."""
    x = cast(input, None if dtype is None else arguments.dtype_of(dtype))
    chosen = range(len(x.shape)) if dim is None else dim
    dims = [dim_of(x, d, "norm") for d in ((chosen,) if isinstance(chosen, int) else chosen)]
    if len(set(dims)) != 2 or len(dims) != 2:
        raise ShapeError(f"norm(p='nuc'): dim must be a 2-tuple. Got {tuple(dims)}")
    others = tuple(d for d in range(len(x.shape)) if d not in dims)
    both = TABLE.singular_values(TABLE.permute(x, dims=(*others, *dims)), full=False)
    m, last = x.shape[dims[0]], len(x.shape) - 1
    values = part(TABLE, both, -1, m, m + 1)
    total = TABLE.sum(values, dim=(last - 1, last), keepdim=False)
    total = TABLE.real(total) if total.dtype.is_complex else total
    kept = tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    return reshape(total, kept) if keepdim else total


def _norm_of_order(size: Any, p: float, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Norm of magnitudes, whose slope is 0 where an element or the norm is, not a power's."""
    if p < 1:
        is_zero = TABLE.eq(size, 0)
        powers = TABLE.pow(TABLE.where(is_zero, 1.0, size), p)
        powers = TABLE.where(is_zero, 0.0 if p > 0 else float("inf"), powers)
    else:
        powers = TABLE.pow(size, p)
    total = TABLE.sum(powers, dim=dims, keepdim=keepdim)
    is_zero = TABLE.eq(total, 0)
    root = TABLE.pow(TABLE.where(is_zero, 1.0, total), 1.0 / p)
    return TABLE.where(is_zero, 0.0 if p > 0 else float("inf"), root)


# ---------------------------------------------------------------------------------------------
# scans and sorting


@public(out=Out.AS_DTYPE, in_place=InPlace.METHOD, method=True)
def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Running sums along `dim`; bool and integers sum in int64."""
    x = cast(input, None if dtype is None else arguments.dtype_of(dtype))
    return _in_dtype(TABLE.cumsum(x, dim=dim_of(input, dim, "cumsum"), reverse=False), dtype)


@public(out=Out.AS_DTYPE, in_place=InPlace.METHOD, method=True)
def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Running products along `dim`."""
    x = cast(input, None if dtype is None else arguments.dtype_of(dtype))
    return _in_dtype(TABLE.cumprod(x, dim=dim_of(input, dim, "cumprod")), dtype)


def sum_to_size(input: Any, *sizes_: Any, size: Any = None) -> Any:
    """input summed to a shape that broadcasts to its own; input itself if that is its shape, but a
    copy of a zero-dim tensor.

    Raises:
        ShapeError: the shape does not broadcast to that of input.
    """
    shape = arguments.sizes(arguments.spread(sizes_, size), "sum_to_size")
    own = tuple(input.shape)
    added = len(own) - len(shape)
    if added < 0:
        raise ShapeError(
            f"sum_to_size(input: {describe_tensor(input)}): size {list(shape)} has more dims.  "
            "Expected as many as input has, or fewer."
        )
    ones = tuple(d for d, n in enumerate(shape, added) if equals(n, 1))
    bad = [d for d, n in enumerate(shape, added) if d not in ones and not agree(n, own[d])]
    if bad:
        raise ShapeError(
            f"sum_to_size(input: {describe_tensor(input)}): size {list(shape)} is not expandable "
            f"to size {list(own)}.  Expected 1 or the size of input for every dim."
        )
    dims = (*range(added), *(d for d in ones if not equals(own[d], 1)))
    is_whole = input.dtype.category < Category.FLOATING
    if not dims and not shape and is_whole:
        return TABLE.clone(cast(input, dtypes.int64))  # as a sum over no dims gives
    if not dims:
        return input if shape else TABLE.clone(input)
    return reshape(TABLE.sum(input, dim=dims, keepdim=True), shape)


@public(method=True)
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along `dim`, n times, with tensors before and behind input.

    Of n = 0 a copy of input, whatever stands around it.

    Raises:
        ArgumentError: n is negative.
    """
    if not input.shape:
        raise ShapeError("diff expects input to be at least one-dimensional")
    d, n = dim_of(input, dim, "diff"), arguments.size(n, "diff")
    if n < 0:
        raise ArgumentRuntimeError(f"diff: n is {n}.  Expected how often to subtract, 0 or more.")
    if n == 0:
        return TABLE.clone(input)
    if not input.shape:
        raise ShapeError("diff: expected a tensor with at least one dimension.")
    parts = [x for x in (prepend, input, append) if x is not None]
    if len(parts) > 1:
        dtype = arguments.common_dtype(parts)
        input = TABLE.cat(*(cast(x, dtype) for x in parts), dim=d)
    for _ in range(n):
        shape = tuple(input.shape)
        if equals(shape[d], 0):
            break
        ones = (1,) * len(shape)
        low = tuple(1 if i == d else 0 for i in range(len(shape)))
        top = tuple(m - 1 if i == d else m for i, m in enumerate(shape))
        later = TABLE.slice(input, start=low, stop=shape, step=ones)
        earlier = TABLE.slice(input, start=(0,) * len(shape), stop=top, step=ones)
        row = TABLE.logical_xor if input.dtype is dtypes.bool_ else TABLE.sub
        input = row(later, earlier)
    return input


@public(out=Out.ABSENT, method=True)
def argsort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """Positions that put input in order along `dim`; always stable."""
    d = dim_of(input, dim, "argsort")
    return as_computed(_positions(input, d, descending), input)


def _positions(input: Any, dim: int, descending: bool) -> Any:
    return TABLE.argsort(input, dim=dim, descending=descending, start=0, stop=None)


@public(method=True)
def sort(
    input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> ValuesIndices:
    """(sorted values, their positions) along `dim`; always stable."""
    d = dim_of(input, dim, "sort")
    indices = _positions(input, d, descending)
    values = TABLE.gather(input, indices, dim=d)
    if lies_by_rows(input):
        return ValuesIndices(values, indices)
    return ValuesIndices(as_computed(values, input), as_computed(indices, input))


@public(method=True)
def topk(
    input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> ValuesIndices:
    """The k largest (or smallest) elements along `dim`, in order, and their positions."""
    if type(k) is not int:
        k = arguments.size(k, "topk")
    d = dim_of(input, dim, "topk")
    n = input.shape[d] if input.shape else 1
    if not fits_within(0, k) or not fits_within(k, n):
        raise ShapeError(f"topk: selected index k={k} out of range for dimension of size {n}.")
    order = TABLE.argsort(input, dim=d, descending=largest, start=0, stop=k)
    return ValuesIndices(TABLE.gather(input, order, dim=d), order)


@public(method=True)
@with_integers
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest element along `dim` (counted from 1) and its position."""
    d = dim_of(input, dim, "kthvalue")
    n = input.shape[d] if input.shape else 1
    if not fits_within(1, k) or not fits_within(k, n):
        raise BoundsRuntimeError(f"kthvalue: there is no element {k} in a dimension of size {n}.")
    order = TABLE.argsort(input, dim=d, descending=False, start=k - 1, stop=k)
    return _element(input, order, d, keepdim)


@public(method=True)
def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element, the lower of two; with `dim` (values, indices). The first NaN wins."""
    if dim is None:
        flat = reshape(input, -1)
        if equals(flat.shape[0], 0) and input.dtype.is_floating_point:
            return TABLE.full(math.nan, shape=(), dtype=input.dtype, device=input.device)
        return TABLE.shared_by_equals(TABLE.detach(median(flat, 0).values), flat)
    d = dim_of(input, dim, "median")
    n = input.shape[d] if input.shape else 1
    middle = (n + 1) // 2
    if equals(middle, 0):
        raise BoundsError("median: there is no middle of an empty dimension.")
    found = TABLE.argsort(input, dim=d, descending=False, start=middle - 1, stop=middle)
    if input.dtype.is_floating_point and input.shape:
        largest = TABLE.argmax(input, dim=(d,), keepdim=True)
        is_missing = TABLE.isnan(TABLE.gather(input, largest, dim=d))
        found = TABLE.where(is_missing, largest, found)
    return _element(input, found, d, keepdim)


def _element(input: Any, position: Any, dim: int, keepdim: bool) -> ValuesIndices:
    """The elements at the positions, one along `dim`, and the positions."""
    pair = ValuesIndices(TABLE.gather(input, position, dim=dim), position)
    if keepdim or not input.shape:
        return pair
    return ValuesIndices(*(TABLE.select(part, dim=dim, index=0) for part in pair))


# ---------------------------------------------------------------------------------------------
# whole-tensor questions


@public(out=Out.ABSENT, method=True)
def allclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """True if `isclose` holds everywhere; needs the contents."""
    return bool(all(isclose(input, other, rtol, atol, equal_nan)))


@public(out=Out.ABSENT, method=True)
def equal(input: Any, other: Any) -> bool:
    """True if shapes and all elements are equal; needs the contents."""
    return tuple(input.shape) == tuple(other.shape) and bool(all(TABLE.eq(input, other)))


@public(out=Out.ABSENT, method=True)
def argwhere(input: Any) -> Any:
    """Positions of the elements that are not 0, int64 (n, rank); needs the contents."""
    return nonzero(input)


@public(name="numel", out=Out.ABSENT, method=True, sparse=True)
def element_count(input: Any) -> Any:
    """Number of elements."""
    return numel(tuple(input.shape))


@public(out=Out.ABSENT, numpy_names=False)
def is_tensor(obj: Any) -> bool:
    """True for tensors, and for nothing else."""
    return not isinstance(obj, type) and arguments.is_tensor(obj)


@public(out=Out.ABSENT, method=True, sparse=True)
def is_floating_point(input: Any) -> bool:
    """True for floating dtypes."""
    return bool(input.dtype.is_floating_point)


@public(out=Out.ABSENT, method=True, sparse=True)
def is_complex(input: Any) -> bool:
    """True for complex dtypes."""
    return bool(input.dtype.is_complex)


@public(out=Out.ABSENT)
def promote_types(type1: DType, type2: DType) -> DType:
    """The dtype that holds both."""
    return dtypes.promote(type1, type2)
