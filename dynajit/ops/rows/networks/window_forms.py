"""Windows, pools and convolutions on raw arrays: what eager runs in place of their rows.

Windows are strided views of the padded input. Pools take one pass over the whole output per
element of the window; convolutions copy windows into columns of bounded size and let BLAS multiply.

Contract: that of `ops.rows.array_forms`: `form(xp, *arrays, **attributes)` gives a new row-major
array, or NotImplemented for anything but the plain case, and never raises. `windows` and
`spread_windows` are the array functions of their rows, for any operand.
"""

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np

from dynajit.ops.rows.array_forms import INT64, is_plain

Sizes: TypeAlias = tuple[int, ...]

COLUMN_BYTES: Final = 1 << 24
"""Most memory of the columns of a convolution: 16 MB keep them near the caches."""

SHORT_PLANE: Final = 256
"""Output elements per channel below which the images of a chunk share one product."""


def padded(xp: Any, x: Any, before: Sizes, after: Sizes, value: Any) -> Any:
    """x with `value` around its last dims; x itself where nothing is added."""
    lead = x.ndim - len(before)
    if not any(before) and not any(amount > 0 for amount in after):
        return x
    inner = x.shape[lead:]
    amounts = [max(amount, 0) for amount in after]
    outer = [b + n + a for b, n, a in zip(before, inner, amounts, strict=True)]
    result = xp.full((*x.shape[:lead], *outer), value, x.dtype)
    result[(..., *map(_span, before, inner))] = x
    return result


def _span(start: int, length: int) -> slice:
    return slice(start, start + length)


@functools.lru_cache(maxsize=1024)
def counts_of(
    sizes: Sizes, size: Sizes, stride: Sizes, before: Sizes, after: Sizes, dilation: Sizes
) -> Sizes:
    """How many windows fit along each dim."""
    return tuple(
        (n + b + a - d * (k - 1) - 1) // s + 1
        for n, k, s, b, a, d in zip(sizes, size, stride, before, after, dilation, strict=True)
    )


def window_view(xp: Any, x: Any, size: Sizes, counts: Sizes, stride: Sizes, dilation: Sizes) -> Any:
    """All windows of a padded array, (*, *counts, *size), as a view that must not be written."""
    lead = x.ndim - len(size)
    steps = x.strides[lead:]
    strides = (
        *x.strides[:lead],
        *(step * by for step, by in zip(steps, stride, strict=True)),
        *(step * by for step, by in zip(steps, dilation, strict=True)),
    )
    return xp.lib.stride_tricks.as_strided(x, (*x.shape[:lead], *counts, *size), strides)


def windows(
    xp: Any, x: Any, *, size: Any, stride: Any, before: Any, after: Any, dilation: Any,
    value: Any = 0,
) -> Any:  # fmt: skip
    """The array function of `windows`."""
    counts = counts_of(x.shape[x.ndim - len(size) :], size, stride, before, after, dilation)
    whole = padded(xp, x, before, after, value)
    return xp.array(window_view(xp, whole, size, counts, stride, dilation), order="C")


def places_of(
    size: Sizes, counts: Sizes, stride: Sizes, dilation: Sizes
) -> Iterator[tuple[Sizes, tuple[Any, ...]]]:
    """Each position within the windows, and the slices of a padded array that hold it for all."""
    for offset in itertools.product(*map(range, size)):
        yield (
            offset,
            (
                ...,
                *(
                    slice(k * d, k * d + s * (count - 1) + 1, s)
                    for k, d, s, count in zip(offset, dilation, stride, counts, strict=True)
                ),
            ),
        )


def room(shape: Sizes, before: Sizes, after: Sizes) -> Sizes:
    """Sizes with the padding."""
    return tuple(b + n + max(a, 0) for b, n, a in zip(before, shape, after, strict=True))


def spread_windows(
    xp: Any, x: Any, *, shape: Any, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """The array function of `spread_windows`."""
    n = len(shape)
    lead = x.ndim - 2 * n
    counts, size = x.shape[lead : lead + n], x.shape[lead + n :]
    result = xp.zeros((*x.shape[:lead], *room(shape, before, after), *size), x.dtype)
    if 0 not in counts:
        for offset, place in places_of(size, counts, stride, dilation):
            result[(*place, *offset)] = x[(..., *offset)]
    kept = (..., *map(_span, before, shape), *(slice(None),) * n)
    return xp.array(result[kept], order="C")


def fold_windows(
    xp: Any, x: Any, *, shape: Any, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """Form of `fold_windows`."""
    n = len(shape)
    if not is_plain(x) or x.ndim < 2 * n:
        return NotImplemented
    lead = x.ndim - 2 * n
    counts, size = x.shape[lead : lead + n], x.shape[lead + n :]
    if counts_of(shape, size, stride, before, after, dilation) != counts:
        return NotImplemented
    total = xp.zeros((*x.shape[:lead], *room(shape, before, after)), x.dtype)
    for offset, place in places_of(size, counts, stride, dilation):
        total[place] += x[(..., *offset)]
    return cropped(xp, total, before, shape)


def cropped(xp: Any, total: Any, before: Sizes, shape: Sizes) -> Any:
    """A padded array without its padding; a copy only where there is some."""
    kept = total[(..., *map(_span, before, shape))]
    return kept if kept.shape == total.shape else xp.array(kept, order="C")


# ---------------------------------------------------------------------------------------------
# pools


def _pool_counts(
    x: np.ndarray, size: Sizes, stride: Sizes, before: Sizes, after: Sizes, dilation: Sizes
) -> Sizes | None:
    """Windows along each dim; None where the row's function should answer."""
    if not is_plain(x) or x.ndim < len(size):
        return None
    counts = counts_of(x.shape[x.ndim - len(size) :], size, stride, before, after, dilation)
    return counts if min(counts, default=1) > 0 else None


def sum_pool(
    xp: Any, x: Any, *, size: Any, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """Form of `sum_pool`."""
    counts = _pool_counts(x, size, stride, before, after, dilation)
    if counts is None:
        return NotImplemented
    whole = padded(xp, x, before, after, 0)
    total = xp.zeros((*x.shape[: x.ndim - len(size)], *counts), x.dtype)
    for _, place in places_of(size, counts, stride, dilation):
        total += whole[place]
    return total


def max_pool(
    xp: Any, x: Any, *, size: Any, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """Form of `max_pool`."""
    counts = _pool_counts(x, size, stride, before, after, dilation)
    if counts is None:
        return NotImplemented
    whole = padded(xp, x, before, after, -math.inf)
    best = xp.full((*x.shape[: x.ndim - len(size)], *counts), -math.inf, x.dtype)
    for _, place in places_of(size, counts, stride, dilation):
        xp.maximum(best, whole[place], out=best)
    return best


def max_pool_choice(
    xp: Any, x: Any, *, size: Any, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """Form of `max_pool_choice`."""
    counts = _pool_counts(x, size, stride, before, after, dilation)
    if counts is None:
        return NotImplemented
    whole = padded(xp, x, before, after, -math.inf)
    # Of bytes, where they suffice: an eighth of the memory. A better element stands behind the one
    # that is chosen, so the choice is the last better one.
    number = xp.uint8 if math.prod(size) <= 256 else xp.int64
    choice = xp.empty((*x.shape[: x.ndim - len(size)], *counts), number)
    choice[...] = _first_inside(xp, counts, size, stride, before, dilation)
    best: Any = None
    for position, (_, place) in enumerate(places_of(size, counts, stride, dilation)):
        here = whole[place]
        if best is None:
            best = xp.array(here, order="C")
            continue
        # The first NaN wins: a NaN is not below anything, and nothing is above it.
        better = ~(here <= best) & (best == best)
        xp.maximum(choice, better.astype(number) * number(position), out=choice)
        xp.maximum(best, here, out=best)
    return choice.astype(INT64)


def _first_inside(
    xp: Any, counts: Sizes, size: Sizes, stride: Sizes, before: Sizes, dilation: Sizes
) -> Any:
    """As that of `ops.rows.networks.windows`."""
    total: Any = 0
    for d, width in enumerate(size):
        missing = before[d] + dilation[d] - 1 - stride[d] * xp.arange(counts[d], dtype=INT64)
        first = xp.clip(missing // dilation[d], 0, width - 1)
        total = total * width + first.reshape(counts[d], *((1,) * (len(size) - 1 - d)))
    return total


def place_windows(
    xp: Any, x: Any, choice: Any, *, shape: Any, size: Any, stride: Any, before: Any,
    after: Any, dilation: Any,
) -> Any:  # fmt: skip
    """Form of `place_windows`."""
    n = len(shape)
    if not is_plain(x) or x.shape != choice.shape:
        return NotImplemented
    counts = x.shape[x.ndim - n :]
    if counts_of(shape, size, stride, before, after, dilation) != counts:
        return NotImplemented
    total = xp.zeros((*x.shape[: x.ndim - n], *room(shape, before, after)), x.dtype)
    if xp is np and _add_where_chosen(total, x, choice, size, stride, dilation):
        return cropped(xp, total, before, shape)
    for position, (_, place) in enumerate(places_of(size, counts, stride, dilation)):
        here, chosen = total[place], choice == position
        if xp is np:
            xp.add(here, x, out=here, where=chosen)
        else:  # ufuncs of CuPy take no condition
            here += xp.where(chosen, x, x.dtype.type(0))
    return cropped(xp, total, before, shape)


def _add_where_chosen(
    total: Any, x: Any, choice: Any, size: Sizes, stride: Sizes, dilation: Sizes
) -> bool:
    """Add each value to its place, in the order of the outputs, as PyTorch does; False, and nothing
    was done, if a choice is no element of a window, or the dtype is one that NumPy adds slowly."""
    n = len(size)
    is_possible = x.size and x.dtype in (np.float32, np.float64)
    if not is_possible or choice.min() < 0 or choice.max() >= math.prod(size):
        return False
    inner = total.shape[total.ndim - n :]
    planes = np.arange(0, total.size, math.prod(inner))[:, None]
    outputs = _places(x.shape[x.ndim - n :], stride, inner)
    elements = _places(size, dilation, inner)
    index = (planes + outputs) + elements[choice.reshape(planes.size, outputs.size)]
    np.add.at(total.reshape(-1), index.reshape(-1), x.reshape(-1))
    return True


def _places(counts: Sizes, steps: Sizes, inner: Sizes) -> Any:
    """Where the elements of a grid of steps lie in a row-major array of sizes `inner`."""
    place: Any = np.zeros((), np.int64)
    for count, step, length in zip(counts, steps, inner, strict=True):
        place = (place * length)[..., None] + np.arange(count) * step
    return place.reshape(-1)


def pick_windows(
    xp: Any, x: Any, choice: Any, *, size: Any, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """Form of `pick_windows`."""
    counts = _pool_counts(x, size, stride, before, after, dilation)
    if counts is None or choice.shape != (*x.shape[: x.ndim - len(size)], *counts):
        return NotImplemented
    whole = padded(xp, x, before, after, 0)
    picked = xp.zeros(choice.shape, x.dtype)
    for position, (_, place) in enumerate(places_of(size, counts, stride, dilation)):
        xp.copyto(picked, whole[place], where=choice == position)
    return picked
