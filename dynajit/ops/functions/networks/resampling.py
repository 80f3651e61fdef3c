"""Resampling, shuffled pixels and dropout of channels with the signatures of
`torch.nn.functional`.

Contract: tensors in, tensors out; sizes may be symbolic. `dynajit.nn.functional` publishes them.
"""

import itertools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynajit.core.errors import (
    ArgumentError,
    ArgumentNotImplementedError,
    ArgumentValueError,
    DTypeNotImplementedError,
    ShapeError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import equals
from dynajit.core.types.value_types import Size
from dynajit.ops.calls.arguments import cast, sizes, with_integers
from dynajit.ops.calls.dtypes_of_operands import require_category
from dynajit.ops.calls.placing import as_suggested, copied_by_rows
from dynajit.ops.calls.positions import numbers_for, scaled
from dynajit.ops.calls.public import Out, public
from dynajit.ops.functions.networks.convolution import per_dim
from dynajit.ops.functions.networks.nn import check_probability, dropout
from dynajit.ops.functions.networks.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

# ---------------------------------------------------------------------------------------------
# resampling

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_MODES = ("nearest", "nearest-exact", *_LINEAR, "bicubic", "area")
_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


def _check_dtype(input: Any, mode: str) -> None:
    """
    Raises:
        DTypeNotImplementedError: the elements are neither floats nor bytes, or bytes where only
            images have a kernel for them.
    """
    takes_bytes = mode.startswith("nearest") or mode in ("bilinear", "bicubic")
    if input.dtype.is_floating_point or (takes_bytes and input.dtype is dtypes.uint8):
        return
    raise DTypeNotImplementedError(
        f"interpolate(mode={mode!r}): not implemented for {input.dtype.name}.  Cast with .float()."
    )


@public("nn.functional")
def interpolate(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:  # fmt: skip
    """input (N, C, *sizes) with other sizes.

    Args:
        size: the new sizes, one for all or one per dim; or
        scale_factor: how often the old ones, rounded down.
        mode: "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" or "area".
        align_corners: whether first and last elements lie on each other (else their outer edges).
        recompute_scale_factor: whether positions follow from the sizes instead of the factor.
        antialias: whether "bilinear" and "bicubic" average over all elements that a new one covers.

    Raises:
        ArgumentError: options that do not go together.
    """
    n = len(input.shape) - 2
    _check_mode(n, mode, align_corners, antialias)
    _check_dtype(input, mode)
    old = tuple(input.shape[2:])
    new, factors = _new_sizes(old, size, scale_factor)
    if recompute_scale_factor:
        if scale_factor is None:
            raise ArgumentError(
                "interpolate: recompute_scale_factor is not meaningful with an explicit size."
            )
        factors = (None,) * n
    if any(length < 1 for length in (*old, *new)):
        raise ShapeError(
            f"interpolate: Input and output sizes should be greater than 0, but got {list(old)} "
            f"and {list(new)}."
        )
    if mode == "area":
        return _AREA[n](input, new)
    wide = dtypes.compute_dtype(input.dtype)
    result = input if mode.startswith("nearest") else cast(input, wide)
    # PyTorch's kernel of small results passes over factors that leave or double the size.
    is_small = n > 1 and any(f is not None and f % 1 for f in factors) and sum(new) <= 128
    is_bytes = input.dtype is dtypes.uint8 and not mode.startswith("nearest")
    wide = dtypes.float64 if is_bytes else wide
    for d in reversed(range(n)) if is_bytes else range(n):
        if mode in _LINEAR and equals(new[d], old[d]):
            continue  # copied also where a factor moves places, as in PyTorch
        is_plain = is_small and any(equals(new[d], times * old[d]) for times in (1, 2))
        if mode == "nearest" and _is_repeated(old[d], new[d], None if is_plain else factors[d]):
            result = _repeated(result, 2 + d, new[d] // old[d])
            continue
        # Bytes are multiplied with weights that follow from the largest of all.
        from_, to = map(int, (old[d], new[d])) if is_bytes else (old[d], new[d])
        make = _shares if antialias else _taps
        m = numbers_for(input.device, from_, to)
        found: Any = make(m, from_, to, factors[d], mode, bool(align_corners), wide)
        if antialias:
            result = _mixed(m, result, 2 + d, _rounded(found) if is_bytes else found)
        else:
            result = _resampled(m, result, 2 + d, _in_16_bits(found) if is_bytes else found)
        if is_bytes:  # PyTorch goes from dim to dim in bytes
            result = TABLE.clamp(TABLE.floor(TABLE.add(result, 0.5)), 0.0, 255.0)
    if result is input:
        result = TABLE.clone(input)
    return as_suggested(cast(result, input.dtype), input)


def _in_16_bits(taps: Any) -> Any:
    """Weights as fractions whose numerators are 16-bit integers, as PyTorch multiplies bytes."""
    rounded = _rounded(np.stack([weights for _, weights in taps]))
    return [(places, weights) for (places, _), weights in zip(taps, rounded, strict=True)]


def _rounded(weights: np.ndarray) -> np.ndarray:
    """Weights with one denominator and 16-bit integers as numerators."""
    largest, bits = weights.max(), 0
    while bits < 22 and int(0.5 + largest * 2 ** (bits + 1)) < 2**15:
        bits += 1
    result: np.ndarray = np.trunc(weights * 2**bits + np.copysign(0.5, weights)) / 2**bits
    return result


def _check_mode(n: int, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode not in _MODES:
        raise ArgumentNotImplementedError(
            f"interpolate(mode={mode!r}): expected one of {', '.join(_MODES)}."
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(
            f"interpolate(mode={mode!r}): antialias is for the modes bilinear and bicubic only."
        )
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ArgumentValueError(
            "interpolate: align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear."
        )
    wanted = 2 if mode == "bicubic" else _LINEAR.get(mode, n)
    if not 1 <= n <= 3 or wanted != n:
        raise ArgumentNotImplementedError(
            f"interpolate: got {n + 2}D input, but the mode {mode!r} needs "
            f"{wanted + 2 if wanted != n else '3D to 5'}D input."
        )


def _new_sizes(
    old: tuple[Size, ...], size: Any, scale_factor: Any
) -> tuple[tuple[Size, ...], tuple[Any, ...]]:
    """(sizes, factors that positions are computed from, or None)."""
    n = len(old)
    if (size is None) == (scale_factor is None):
        raise ArgumentValueError("interpolate: only one of size or scale_factor should be defined.")
    if size is not None:
        if isinstance(size, Sequence) and len(size) != n:
            raise ArgumentValueError(
                f"interpolate: Input and output must have the same number of spatial dimensions, "
                f"but got {n} and {len(size)}."
            )
        new = sizes(size if isinstance(size, Sequence) else (size,) * n, "interpolate")
        return new, (None,) * n
    factors = tuple(scale_factor) if isinstance(scale_factor, Sequence) else (scale_factor,) * n
    if len(factors) != n:
        raise ArgumentError(
            f"interpolate: Input and scale_factor must have the same number of spatial dimensions, "
            f"but got {n} and {len(factors)}."
        )
    new = tuple(scaled(n, float(factor)) for n, factor in zip(old, factors, strict=True))
    return new, tuple(float(factor) for factor in factors)


def _is_repeated(old: Size, new: Size, factor: Any) -> bool:
    """True if each element is repeated a whole number of times."""
    if factor is not None:
        return bool(factor >= 1 and float(factor).is_integer())
    rest = new % old
    return isinstance(rest, int) and rest == 0


def _repeated(x: "TensorMethods", dim: int, times: Size) -> Any:
    shape = tuple(x.shape)
    if times == 1:
        return x
    apart = TABLE.reshape(x, shape=(*shape[: dim + 1], 1, *shape[dim + 1 :]))
    wide = TABLE.expand(apart, shape=(*shape[: dim + 1], times, *shape[dim + 1 :]))
    return TABLE.reshape(wide, shape=(*shape[:dim], shape[dim] * times, *shape[dim + 1 :]))


def _taps(
    m: Any, old: Size, new: Size, factor: Any, mode: str, align_corners: bool, dtype: Any
) -> list[tuple[Any, Any]]:
    """(positions, weights) of the elements that make each new element.

    Source: PyTorch's `area_pixel_compute_source_index`, its cubic coefficients with A = -0.75, and
    `nearest_neighbor_compute_source_index`; scales and positions in the dtype that computes, but
    those of the nearest element are rounded down as float32.

    Args:
        m: what numbers are computed with, see `ops.calls.positions`.
    """
    kind = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    index, last = m.arange(new), m.count(old - 1)
    if mode.startswith("nearest"):
        step = m.cast(_step(m, old, new, factor, False), kind)
        place = m.cast(index, kind)
        if mode == "nearest":
            place = place * step
        else:
            place = m.maximum((place + 0.5) * step - 0.5, 0) + 0.5
        nearest = m.cast(m.floor(m.cast(place, dtypes.float32)), dtypes.int64)
        return [(m.minimum(nearest, last), None)]
    place = m.cast(_places(m, index, old, new, factor, align_corners, kind), kind)
    if mode == "bicubic":
        first = m.floor(place)
        t = place - first
        whole = m.cast(first, dtypes.int64)
        return [
            (m.minimum(m.maximum(whole + k, 0), last), _cubic(m, m.abs(t - float(k))))
            for k in (-1, 0, 1, 2)
        ]
    place = m.maximum(place, 0)
    low = m.minimum(m.cast(m.floor(place), dtypes.int64), last)
    share = m.minimum(m.maximum(place - m.cast(low, kind), 0), 1)
    return [(low, 1 - share), (m.minimum(low + 1, last), share)]


def _step(m: Any, old: Size, new: Size, factor: Any, align_corners: bool) -> Any:
    """How far new elements are apart, in old ones; float64."""
    if align_corners:
        return m.number(old - 1) / m.number(new - 1) if new > 1 else 0.0
    return m.number(old) / m.number(new) if factor is None else 1.0 / factor


def _places(
    m: Any, index: Any, old: Size, new: Size, factor: Any, align_corners: bool, kind: Any
) -> Any:
    """Where new elements lie among old ones, float64; steps are rounded to `kind`."""
    step = m.cast(m.cast(_step(m, old, new, factor, align_corners), kind), dtypes.float64)
    index = m.cast(index, dtypes.float64)
    return index * step if align_corners else step * (index + 0.5) - 0.5


def _shares(
    m: Any, old: Size, new: Size, factor: Any, mode: str, align_corners: bool, dtype: Any
) -> Any:
    """How much each old element counts in each new one, where aliasing is avoided: (new, old).

    Source: PyTorch's `compute_index_ranges_weights`: a triangle, or Keys' kernel with A = -0.5,
    that is as wide as the new elements are far apart, normalised.

    Args:
        m: what numbers are computed with, see `ops.calls.positions`.
    """
    kind = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    step = m.cast(_step(m, old, new, factor, align_corners), kind)
    width = m.maximum(step, m.cast(1.0, kind))
    reach = width * (1 if mode == "bilinear" else 2)
    center = step * (m.reshape(m.cast(m.arange(new), kind), new, 1) + 0.5)
    first = m.maximum(m.trunc(center - reach + 0.5), 0)
    last = m.minimum(m.trunc(center + reach + 0.5), m.cast(m.number(old), kind))
    place = m.reshape(m.cast(m.arange(old), kind), 1, old)
    t = m.abs((place - center + 0.5) / width)
    if mode == "bilinear":
        weights = m.maximum(1 - t, 0)
    else:
        weights = m.where(t < 2, _cubic(m, t, -0.5), 0)
    weights = m.where(place < first, 0, m.where(place < last, weights, 0))
    total = m.sum(weights, 1)
    return weights / m.where(total == 0, 1, total)


def _mixed(m: Any, x: "TensorMethods", dim: int, shares: Any) -> Any:
    """Sums over `dim`, the last or the one before, weighted by the rows of `shares`."""
    dtype = dtypes.float64 if shares.dtype in (np.float64, dtypes.float64) else dtypes.float32
    wide = cast(x, dtype)
    matrix = m.tensor(shares, x.device)
    if dim == len(x.shape) - 1:
        return TABLE.matmul(wide, TABLE.permute(matrix, dims=(1, 0)))
    return TABLE.matmul(matrix, wide)


def _cubic(m: Any, t: Any, slope: float = -0.75) -> Any:
    """Keys' kernel, whose A is `slope`, at distances t of at most 2."""
    near = ((slope + 2) * t - (slope + 3)) * t * t + 1
    far = ((slope * t - 5 * slope) * t + 8 * slope) * t - 4 * slope
    return m.where(t <= 1, near, far)


def _resampled(m: Any, x: "TensorMethods", dim: int, taps: list[tuple[Any, Any]]) -> Any:
    ones = (1,) * (len(x.shape) - 1 - dim)
    total: Any = None
    for positions, weights in taps:
        part = TABLE.index_select(x, m.tensor(positions, x.device), dim=dim)
        if weights is not None:
            wide = m.reshape(weights, weights.shape[0], *ones)
            part = TABLE.mul(part, m.tensor(wide, x.device))
        total = part if total is None else TABLE.add(total, part)
    return total


@public("nn.functional")
def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """`interpolate`, by its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@public("nn.functional")
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` with "nearest", by its older name."""
    return interpolate(input, size, scale_factor, mode="nearest")


@public("nn.functional")
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` with "bilinear" and corners that are aligned, by its older name."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# ---------------------------------------------------------------------------------------------
# shuffled pixels


@public(out=Out.ABSENT)
@public("nn.functional")
@with_integers
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """(*, C * r * r, H, W) -> (*, C, H * r, W * r).

    Source: W. Shi et al., arXiv:1609.05158.
    """
    shape, r = tuple(input.shape), upscale_factor
    if len(shape) < 3 or r < 1 or not equals(shape[-3] % (r * r), 0):
        raise ShapeError(
            f"pixel_shuffle: expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but got input of shape {list(shape)} and upscale_factor={r}."
        )
    lead, (channels, height, width) = shape[:-3], shape[-3:]
    n = len(lead)
    apart = TABLE.reshape(input, shape=(*lead, channels // (r * r), r, r, height, width))
    dims = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    turned = copied_by_rows(TABLE.permute(apart, dims=dims))
    result = TABLE.reshape(turned, shape=(*lead, channels // (r * r), height * r, width * r))
    return as_suggested(result, input)


@public(out=Out.ABSENT)
@public("nn.functional")
@with_integers
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """(*, C, H * r, W * r) -> (*, C * r * r, H, W)."""
    shape, r = tuple(input.shape), downscale_factor
    if len(shape) < 3 or r < 1 or not (equals(shape[-2] % r, 0) and equals(shape[-1] % r, 0)):
        raise ShapeError(
            f"pixel_unshuffle: expects height and width to be divisible by downscale_factor, but "
            f"got input of shape {list(shape)} and downscale_factor={r}."
        )
    lead, (channels, height, width) = shape[:-3], shape[-3:]
    n = len(lead)
    apart = TABLE.reshape(input, shape=(*lead, channels, height // r, r, width // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    turned = copied_by_rows(TABLE.permute(apart, dims=order))
    result = TABLE.reshape(turned, shape=(*lead, channels * r * r, height // r, width // r))
    return as_suggested(result, input)


@public(out=Out.ABSENT)
@public("nn.functional")
@with_integers
def channel_shuffle(input: Any, groups: int) -> Any:
    """Channels (dim 1) of `groups` groups, taken in turn from each.

    Source: X. Zhang et al., arXiv:1707.01083.
    """
    shape = tuple(input.shape)
    if len(shape) < 3 or groups < 1 or not equals(shape[1] % groups, 0):
        raise ShapeError(
            f"channel_shuffle: Number of channels must be divisible by groups.  Got input of shape "
            f"{list(shape)} and groups={groups}."
        )
    apart = TABLE.reshape(input, shape=(shape[0], groups, shape[1] // groups, *shape[2:]))
    turned = copied_by_rows(TABLE.permute(apart, dims=(0, 2, 1, *range(3, len(shape) + 1))))
    return as_suggested(TABLE.reshape(turned, shape=shape), input)


# ---------------------------------------------------------------------------------------------
# dropout of channels


def _channel_dropout(input: Any, p: float, training: bool, lead: int) -> Any:
    """Each index of the first `lead` dims kept, scaled, or zeroed as a whole."""
    check_probability(p)
    if not training or p == 0:
        return input
    require_category("dropout", Category.FLOATING, input=input)
    rank = len(input.shape)
    if rank < lead:
        raise ShapeError("Feature dropout requires at least 2 dimensions in the input")
    shape = (*tuple(input.shape)[:lead], *itertools.repeat(1, rank - lead))
    ones = TABLE.full(1, shape=shape, dtype=dtypes.float32, device=input.device)
    factor = dropout(ones, p, True)
    wide = cast(input, dtypes.compute_dtype(input.dtype))
    return cast(TABLE.mul(wide, factor), input.dtype)


def _fresh_view(x: "TensorMethods") -> Any:
    """Another tensor of the same memory: what PyTorch gives for a sample without a batch."""
    return TABLE.reshape(x, shape=tuple(x.shape))


def _warn_of_rank(function: str, rank: int, ranks: tuple[int, int]) -> None:
    """Ranks for which PyTorch announces an error."""
    if rank not in ranks:
        warnings.warn(
            f"{function}: got {rank} dims, where it is meant for {ranks[0]} or {ranks[1]}; PyTorch "
            "will refuse that in a future release.  Use dropout to drop single elements.",
            stacklevel=3,
        )


@public("nn.functional", inplace_argument=True)
def dropout1d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """Whole channels of (N, C, L) or (C, L) zeroed with probability p, the others scaled.

    Raises:
        ShapeError: there are other than two or three dims.
    """
    rank = len(input.shape)
    if rank not in (2, 3):
        raise ShapeError(f"dropout1d: Expected 2D or 3D input, but received a {rank}D input.")
    dropped = _channel_dropout(input, p, training, rank - 1)
    return _fresh_view(dropped) if rank == 2 else dropped


@public("nn.functional", inplace_argument=True)
def dropout2d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """Whole channels of (N, C, H, W) zeroed with probability p, the others scaled; with three
    dims, those of (N, C, L). The channels always are the second dim, as in PyTorch.

    Raises:
        ShapeError: there are fewer than two dims, and something is to be dropped.
    """
    check_probability(p)
    rank = len(input.shape)
    _warn_of_rank("dropout2d", rank, (3, 4))
    return _channel_dropout(input, p, training, 2)


@public("nn.functional", inplace_argument=True)
def dropout3d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) zeroed with probability p, the others
    scaled. The channels are the first dim of all but five, as in PyTorch.

    Raises:
        ShapeError: there is no dim, and something is to be dropped.
    """
    rank = len(input.shape)
    _warn_of_rank("dropout3d", rank, (4, 5))
    dropped = _channel_dropout(input, p, training, 2 if rank == 5 else 1)
    return dropped if rank == 5 else _fresh_view(dropped)


def padding_amounts(padding: Any, n: int) -> tuple[int, ...]:
    """The amounts that `pad` takes, from one number for all sides of n dims, or from all."""
    if isinstance(padding, int):
        return (padding,) * (2 * n)
    return per_dim(padding, 2 * n, "padding", "pad")
