"""Convolutions on raw arrays: what eager runs in place of the rows of
`ops.rows.networks.convolution`.

NumPy's arrays go through the loops of generated C (`_convolutions`), with the bits of compiled
functions. What these do not take, and arrays of a GPU, are matrix products: windows are copied into
columns, at most `COLUMN_BYTES` of them at a time (some images, or some rows of one image). Where
each group has one channel there is nothing to multiply as matrices: one pass over the output per
element of the window.

Contract: that of `ops.rows.array_forms`; results are row-major.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dynajit.core.arrays.products import thread_count
from dynajit.core.process import determinism
from dynajit.ops.native._convolutions import correlate, weigh
from dynajit.ops.rows.array_forms import is_plain
from dynajit.ops.rows.linear_algebra import product_of
from dynajit.ops.rows.networks.window_forms import (
    COLUMN_BYTES,
    SHORT_PLANE,
    Sizes,
    counts_of,
    cropped,
    padded,
    places_of,
    room,
    window_view,
)

FEW_OUTPUTS: Final = 4
"""Outputs of a group below which products have another order than convolutions (few_products.h)."""

MOST_CLASSES: Final = 64
"""Product of the strides up to which the loops compute a transpose in x: as
`codegen.plan.natives`."""


def _has_loops(xp: Any, size: Sizes, geometry: tuple[Sizes, ...], is_back: bool = False) -> bool:
    """True if the convolution of these windows is done by `_convolutions`."""
    stride, before, after, _ = geometry
    is_product = max(size) == 1 and not any(before) and not any(after)
    return xp is np and not is_product and not (is_back and math.prod(stride) > MOST_CLASSES)


@functools.lru_cache(maxsize=1024)
def _sizes(
    x: tuple[int, ...], y: tuple[int, ...], weight: tuple[int, ...], geometry: tuple[Sizes, ...],
    groups: int,
) -> tuple[int, ...]:  # fmt: skip
    """What `_convolutions` wants to know, of the shapes; three dims, the missing ones in front."""
    stride, before, _, dilation = geometry
    lead = 5 - len(x)
    three = (
        *((1,) * lead, x[2:], (1,) * lead, y[2:], (1,) * lead, weight[2:]),
        *((1,) * lead, stride, (0,) * lead, before, (1,) * lead, dilation),
    )
    numbers = (x[0], groups, weight[0] // groups, weight[1])
    return numbers + tuple(n for part in three for n in part)


def _correlated(
    source: Any, weight: Any, bias: Any, shape: tuple[int, ...], geometry: tuple[Sizes, ...],
    groups: int, is_back: bool,
) -> Any:  # fmt: skip
    """A new array of `shape`: y, or, if `is_back`, x."""
    result = np.empty(shape, source.dtype)
    source, weight = np.ascontiguousarray(source), np.ascontiguousarray(weight)
    bias = None if bias is None else np.ascontiguousarray(bias)
    x, y = (result, source) if is_back else (source, result)
    sizes = _sizes(x.shape, y.shape, weight.shape, geometry, groups)
    is_direct = determinism.is_required()
    correlate(sizes, is_back, source, weight, bias, result, thread_count(), is_direct)
    return result


def _fits(x: np.ndarray, other: Any, groups: int) -> bool:
    """True for two plain operands of one dtype and rank."""
    return (
        is_plain(x)
        and is_plain(other)
        and x.dtype == other.dtype
        and 3 <= x.ndim <= 5
        and other.ndim == x.ndim
        and groups > 0
    )


def _chunks(images: int, counts: Sizes, row_bytes: int) -> Iterator[tuple[slice, slice]]:
    """(images, rows) whose columns take at most `COLUMN_BYTES`: some images with small planes, one
    image, or rows of one."""
    rows = counts[0]
    image_bytes = max(rows * row_bytes, 1)
    if image_bytes <= COLUMN_BYTES:
        step = COLUMN_BYTES // image_bytes if math.prod(counts) < SHORT_PLANE else 1
        for start in range(0, images, step):
            yield slice(start, min(start + step, images)), slice(0, rows)
        return
    step = max(COLUMN_BYTES // max(row_bytes, 1), 1)
    for image in range(images):
        for start in range(0, rows, step):
            yield slice(image, image + 1), slice(start, min(start + step, rows))


def _columns(
    xp: Any, x: Any, size: Sizes, counts: Sizes, geometry: tuple[Sizes, ...], groups: int
) -> Iterator[tuple[slice, slice, Any]]:
    """(images, rows, their windows as matrices (groups, C / groups * numel(size), elements))."""
    stride, before, after, dilation = geometry
    batch, channels, n = x.shape[0], x.shape[1], len(size)
    whole = padded(xp, x, before, after, 0)
    view = window_view(xp, whole, size, counts, stride, dilation)
    view = view.reshape(batch, groups, channels // groups, *counts, *size)
    turned = view.transpose(1, 2, *range(3 + n, 3 + 2 * n), 0, *range(3, 3 + n))
    inner = channels // groups * math.prod(size)
    row_bytes = channels * math.prod(size) * math.prod(counts[1:]) * x.itemsize
    for images, rows in _chunks(batch, counts, row_bytes):
        chunk = turned[(*(slice(None),) * (2 + n), images, rows)]
        yield images, rows, chunk.reshape(groups, inner, -1)


def _turned(y: Any, images: slice, rows: slice, groups: int) -> Any:
    """Some images and rows of y (N, O, *counts), (groups, O / groups, images, *counts)."""
    part = y[images, :, rows]
    split = part.reshape(part.shape[0], groups, part.shape[1] // groups, *part.shape[2:])
    return split.transpose(1, 2, 0, *range(3, split.ndim))


def convolution(
    xp: Any, x: Any, weight: Any, bias: Any, *, stride: Any, before: Any, after: Any,
    dilation: Any, groups: int,
) -> Any:  # fmt: skip
    """Form of `convolution`."""
    if not _fits(x, weight, groups) or x.shape[1] != weight.shape[1] * groups:
        return NotImplemented
    outputs, size = weight.shape[0], weight.shape[2:]
    counts = counts_of(x.shape[2:], size, stride, before, after, dilation)
    if outputs % groups or min(counts) < 1:
        return NotImplemented
    if bias is not None and (bias.dtype != x.dtype or bias.shape != (outputs,)):
        return NotImplemented
    shape, geometry = (x.shape[0], outputs, *counts), (stride, before, after, dilation)
    is_few = xp is np and outputs // groups < FEW_OUTPUTS
    if is_few or _has_loops(xp, size, geometry):
        return _correlated(x, weight, bias, shape, geometry, groups, False)
    result = xp.empty(shape, x.dtype)
    if weight.shape[1] == 1 and groups > 1:
        _multiply_lanes(xp, x, weight, result, geometry)
    else:
        kernel = weight.reshape(groups, outputs // groups, -1)
        for images, rows, columns in _columns(xp, x, size, counts, geometry, groups):
            target = _turned(result, images, rows, groups)
            target[...] = product_of(xp)(kernel, columns).reshape(target.shape)
    if bias is not None:
        result += bias.reshape(-1, *((1,) * len(size)))
    return result


def _multiply_lanes(xp: Any, x: Any, weight: Any, result: Any, geometry: tuple[Sizes, ...]) -> None:
    """The convolution where each group has one channel, into `result`."""
    stride, before, after, dilation = geometry
    channels, size, counts = x.shape[1], weight.shape[2:], result.shape[2:]
    whole = padded(xp, x, before, after, 0)[:, :, None]
    lanes = result.reshape(x.shape[0], channels, -1, *counts)
    kernel = weight.reshape(channels, -1, *size)
    ones = (1,) * len(size)
    lanes[...] = 0
    for offset, place in places_of(size, counts, stride, dilation):
        factor = kernel[(..., *offset)]
        lanes += whole[place] * factor.reshape(*factor.shape, *ones)


def convolution_input(
    xp: Any, y: Any, weight: Any, *, shape: Any, stride: Any, before: Any, after: Any,
    dilation: Any, groups: int,
) -> Any:  # fmt: skip
    """Form of `convolution_input`."""
    if not _fits(y, weight, groups) or y.shape[1] != weight.shape[0]:
        return NotImplemented
    outputs, size = weight.shape[0], weight.shape[2:]
    counts = counts_of(shape, size, stride, before, after, dilation)
    if outputs % groups or y.shape[2:] != counts:
        return NotImplemented
    batch, per_group = y.shape[0], weight.shape[1]
    channels = per_group * groups
    geometry = (stride, before, after, dilation)
    if _has_loops(xp, size, geometry, True) and 0 not in shape:
        return _correlated(y, weight, None, (batch, channels, *shape), geometry, groups, True)
    total = xp.zeros((batch, channels, *room(shape, before, after)), y.dtype)
    places = [*places_of(size, counts, stride, dilation)]
    if per_group == 1 and groups > 1:
        ones = (1,) * len(size)
        lanes = y.reshape(batch, groups, -1, *counts)
        kernel = weight.reshape(groups, -1, *size)
        for offset, place in places:
            factor = kernel[(..., *offset)]
            total[place] += (lanes * factor.reshape(*factor.shape, *ones)).sum(axis=2)
        return cropped(xp, total, before, shape)
    kernel = weight.reshape(groups, outputs // groups, -1).transpose(0, 2, 1)
    image_bytes = channels * math.prod(size) * math.prod(counts) * y.itemsize
    step = max(COLUMN_BYTES // max(image_bytes, 1), 1)
    for start in range(0, batch, step):
        images = slice(start, min(start + step, batch))
        flat = y[images].reshape(-1, groups, outputs // groups, math.prod(counts))
        columns = product_of(xp)(kernel, flat).reshape(-1, channels, *size, *counts)
        for offset, place in places:
            total[images][place] += columns[(slice(None), slice(None), *offset)]
    return cropped(xp, total, before, shape)


def convolution_weight(
    xp: Any, y: Any, x: Any, *, size: Any, stride: Any, before: Any, after: Any, dilation: Any,
    groups: int,
) -> Any:  # fmt: skip
    """Form of `convolution_weight`."""
    if not _fits(y, x, groups) or y.shape[0] != x.shape[0]:
        return NotImplemented
    outputs, channels = y.shape[1], x.shape[1]
    counts = counts_of(x.shape[2:], size, stride, before, after, dilation)
    if outputs % groups or channels % groups or y.shape[2:] != counts:
        return NotImplemented
    geometry = (stride, before, after, dilation)
    if _has_loops(xp, size, geometry):
        gradient = np.empty((outputs, channels // groups, *size), y.dtype)
        y, x = np.ascontiguousarray(y), np.ascontiguousarray(x)
        sizes = _sizes(x.shape, y.shape, gradient.shape, geometry, groups)
        weigh(sizes, y, x, gradient, thread_count())
        return gradient
    if channels == groups > 1:
        lanes = y.reshape(y.shape[0], groups, -1, *counts)
        whole = padded(xp, x, before, after, 0)[:, :, None]
        gradient = xp.empty((groups, outputs // groups, *size), y.dtype)
        axes = (0, *range(3, lanes.ndim))
        for offset, place in places_of(size, counts, stride, dilation):
            gradient[(..., *offset)] = (lanes * whole[place]).sum(axis=axes)
        return gradient.reshape(outputs, 1, *size)
    total = xp.zeros((groups, outputs // groups, channels // groups * math.prod(size)), y.dtype)
    for images, rows, columns in _columns(xp, x, size, counts, geometry, groups):
        part = _turned(y, images, rows, groups).reshape(groups, outputs // groups, -1)
        total += product_of(xp)(part, columns.transpose(0, 2, 1))
    return total.reshape(outputs, channels // groups, *size)
