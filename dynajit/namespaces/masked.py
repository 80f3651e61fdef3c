"""Reductions and normalizations of the elements that a mask keeps, by PyTorch's path.

Contract: `mask` is None (everything counts) or has bools, True for what counts, and broadcasts to
the input. What does not count is as if it were not there: a reduction of nothing gives the identity
of its operation (0, 1, -inf, inf) or NaN. Gradients flow to what counts. Tensors that carry their
masks are refused. Composed of library functions.
"""

import builtins
from typing import Any

from dynajit.core.errors import ArgumentError, InvalidValueError, UnsupportedError
from dynajit.core.process import late
from dynajit.core.refusals import refused_class, refused_function
from dynajit.core.types.dtypes import Category, bool_, float32, float64, int64
from dynajit.core.types.type_info import iinfo
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops import functions as f
from dynajit.ops.calls.arguments import integers, is_integer
from dynajit.ops.calls.public import public, published
from dynajit.ops.functions.matrices.norm import vector_norm

Dims = int | tuple[int, ...] | None


def _prepared(input: Any, dtype: Any) -> Any:
    return input if dtype is None else input.to(dtype)


def _kept(input: Any, mask: Any, fill: Any) -> Any:
    """The input, with a number where the mask is False."""
    return input if mask is None else f.where(_whole(input, mask), input, fill)


def _whole(input: Any, mask: Any) -> Any:
    return mask.to(bool_).expand(tuple(input.shape))


def _dims(input: Any, dim: Dims) -> Any:
    if dim is None or dim == ():
        return tuple(range(input.ndim))
    return integers(dim, "masked")


def _lowest(dtype: Any) -> Any:
    if dtype.is_floating_point or dtype.is_complex:
        return -float("inf")
    return False if dtype.category is Category.BOOL else iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    if dtype.is_floating_point:
        return float("inf")
    return True if dtype.category is Category.BOOL else iinfo(dtype).max


@public("masked")
def sum(
    input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The sum over dims, of all for None; bool and integers give int64.

    Args:
        input: the tensor.
        dim: one dim or several.
        keepdim: keep them with size 1.
        dtype: convert the input first.
        mask: see the module.
    """
    x = _prepared(input, dtype)
    return f.sum(_kept(x, mask, 0), _dims(x, dim), keepdim, dtype=dtype)


@public("masked")
def prod(
    input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The product over dims; arguments as of `sum`. Over no dim it is the input itself."""
    if dtype is None and not (input.dtype.is_floating_point or input.dtype.is_complex):
        dtype = int64
    x = _kept(_prepared(input, dtype), mask, 1)
    rank = max(x.ndim, 1)
    for d in builtins.sorted((d % rank for d in _dims(x, dim)), reverse=True):
        x = f.prod(x, d, keepdim, dtype=dtype)
    return x


@public("masked")
def amax(
    input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The largest element over dims; arguments as of `sum`."""
    x = _prepared(input, dtype)
    return f.amax(_kept(x, mask, _lowest(x.dtype)), _dims(x, dim), keepdim)


@public("masked")
def amin(
    input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The smallest element over dims; arguments as of `sum`."""
    x = _prepared(input, dtype)
    return f.amin(_kept(x, mask, _highest(x.dtype)), _dims(x, dim), keepdim)


@public("masked")
def argmax(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """Where the largest element is, in the input's dtype, as in PyTorch; 0 where nothing counts.

    Args: as of `sum`; one dim, or None for the position among all elements.
    """
    x = _prepared(input, dtype)
    return f.argmax(_kept(x, mask, _lowest(x.dtype)), dim, keepdim).to(x.dtype)


@public("masked")
def argmin(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """Where the smallest element is; as of `argmax`."""
    x = _prepared(input, dtype)
    return f.argmin(_kept(x, mask, _highest(x.dtype)), dim, keepdim).to(x.dtype)


def _count(x: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Any) -> Any:
    """How many elements count, in x's dtype."""
    ones = f.ones_like(x) if mask is None else _whole(x, mask).to(x.dtype)
    return f.sum(ones, dims, keepdim)


@public("masked")
def mean(
    input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The mean over dims; NaN where nothing counts. Arguments as of `sum`.

    Raises:
        InvalidValueError: the input has integers, and no dtype is given.
    """
    x = _prepared(input, dtype)
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise InvalidValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {x.dtype}"
        )
    if mask is None:
        return f.mean(x, _dims(x, dim), keepdim)
    wide = _widened(x)
    dims = _dims(x, dim)
    total = f.sum(_kept(wide, mask, 0), dims, keepdim)
    return (total / _count(wide, dims, keepdim, mask)).to(x.dtype)


def _widened(x: Tensor) -> Any:
    """16-bit floats as float32, in which counts are exact."""
    return x.to(float32) if x.dtype.itemsize == 2 and x.dtype.is_floating_point else x


@public("masked")
def median(
    input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The lower of the middle elements along a dim; NaN where nothing counts.

    Raises:
        ArgumentError: `dim` is not a number.
        InvalidValueError: integers of which none counts; needs the contents.
    """
    if not is_integer(dim):
        raise ArgumentError(f"masked.median(dim={dim!r}): expected one dim.")
    x = _prepared(input, dtype)
    if mask is None:
        return f.median(x, dim, keepdim).values
    if x.dtype.is_floating_point:
        kept = _kept(x, mask, float("nan"))
        return f.nanmedian(kept, dim, keepdim).values
    if bool((_whole(x, mask).sum(dim) == 0).any()):
        raise InvalidValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    kept = _kept(x.to(float64), mask, float("nan"))
    return f.nanmedian(kept, dim, keepdim).values.to(x.dtype)


@public("masked")
def logsumexp(
    input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The logarithm of the sum of exponentials over dims, in the input's dtype, as in PyTorch:
    that of integers loses its fraction. Arguments as of `sum`."""
    x = _prepared(input, dtype)
    return f.logsumexp(_kept(x, mask, _lowest(x.dtype)), _dims(x, dim), keepdim).to(x.dtype)


@public("masked")
def logaddexp(
    input: Any,
    other: Any,
    *,
    dtype: Any = None,
    input_mask: Any = None,
    other_mask: Any = None,
) -> Any:
    """The logarithm of the sum of two exponentials, of which one may not count."""
    x, y = _prepared(input, dtype), _prepared(other, dtype)
    return f.logaddexp(_kept(x, input_mask, -float("inf")), _kept(y, other_mask, -float("inf")))


@public("masked")
def norm(
    input: Any,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The vector norm of an order over dims; arguments as of `sum`."""
    x = _prepared(input, dtype)
    order = 2.0 if ord is None else ord
    # As in PyTorch, what does not count is 0 for other negative orders: their norm is 0.
    fill = float("inf") if order == -float("inf") else 0
    return vector_norm(_kept(x, mask, fill), order, _dims(x, dim), keepdim)


@public("masked")
def normalize(
    input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Any:
    """The input divided by its norm along a dim, at least eps; 0 for what does not count."""
    x = _prepared(input, dtype)
    size = norm(x, ord, dim, keepdim=True, mask=mask).clamp_min(eps)
    return _kept(x, mask, 0) / size


@public("masked")
def var(
    input: Any,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The variance over dims: squares of deviations, divided by the count less a correction.

    Args:
        unbiased: a correction of 1, else of 0.
        correction: 1 by default.
        others: as of `sum`.

    Raises:
        InvalidValueError: both `unbiased` and `correction` are given.
    """
    if unbiased is not None and correction is not None:
        raise InvalidValueError("Only one of unbiased and correction may be given")
    taken = float(unbiased) if unbiased is not None else 1.0 if correction is None else correction
    x = _prepared(input, dtype)
    kind = x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else float32
    wide = _widened(x.to(kind))
    dims = _dims(x, dim)
    count = _count(wide, dims, True, mask)
    centre = f.sum(_kept(wide, mask, 0), dims, True) / count
    far = _kept(wide - centre, mask, 0)
    squares = (far * far.conj()).real if kind.is_complex else far * far
    total = f.sum(squares, dims, keepdim)
    left = _count(wide, dims, keepdim, mask) - taken
    left = left.real if kind.is_complex else left
    return (total / left.clamp_min(0)).to(kind)


@public("masked")
def std(
    input: Any,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The root of the variance; as of `var`."""
    return f.sqrt(
        var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
    )


@public("masked")
def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running sums along a dim; what does not count adds nothing."""
    return f.cumsum(_kept(_prepared(input, dtype), mask, 0), dim, dtype=dtype)


@public("masked")
def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running products along a dim; what does not count changes nothing."""
    return f.cumprod(_kept(_prepared(input, dtype), mask, 1), dim, dtype=dtype)


def _exponents(input: Any, dtype: Any, mask: Any, fill: float) -> Any:
    x = _prepared(input, dtype)
    if not x.dtype.is_floating_point:
        raise UnsupportedError(f"softmax is not implemented for {x.dtype.name}.  Give a dtype.")
    return _kept(x, mask, fill)


@public("masked")
def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """softmax along a dim; 0 for what does not count, NaN where nothing does.

    Raises:
        UnsupportedError: the input is not floating, and no dtype is given.
    """
    return f.softmax(_exponents(input, dtype, mask, -float("inf")), dim)


@public("masked")
def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return f.log_softmax(_exponents(input, dtype, mask, -float("inf")), dim)


@public("masked")
def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """`softmax` of the negated input."""
    return f.softmax(-_exponents(input, dtype, mask, float("inf")), dim)


@public("masked")
def is_masked_tensor(obj: Any) -> bool:
    """Whether it carries its mask: False."""
    return False


_WHY = "tensors do not carry masks here.  Pass the mask to the functions of masked."

MaskedTensor = refused_class("masked.MaskedTensor", _WHY)
as_masked_tensor = refused_function("masked.as_masked_tensor", _WHY)
masked_tensor = refused_function("masked.masked_tensor", _WHY)

__all__ = ["MaskedTensor", "as_masked_tensor", "masked_tensor", *sorted(published("masked"))]

late.show(__name__)
