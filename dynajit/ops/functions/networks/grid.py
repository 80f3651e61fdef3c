"""Sampling at computed places: `grid_sample` and `affine_grid` of `torch.nn.functional`.

Contract: tensors in, tensors out; places lie in [-1, 1], the last spatial dim first. What lies at
the edge of the input, or behind it, has PyTorch's derivative. `dynajit.nn.functional` publishes
them.

Source: M. Jaderberg et al., "Spatial Transformer Networks", arXiv:1506.02025; R. Keys (1981) for
"bicubic", with a = -0.75.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError, ShapeError, UnsupportedError
from dynajit.core.types import dtypes
from dynajit.core.types.symint import agree, equals, shapes_agree
from dynajit.core.types.value_types import Size, numel
from dynajit.ops.calls import arguments
from dynajit.ops.calls.arguments import cast, unchanged_by
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.positions import numbers_for
from dynajit.ops.calls.public import public
from dynajit.ops.rows.composites import count_operand
from dynajit.ops.table.op_table import TABLE, Autocast

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.WIDEST)
def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """The input at the places of a grid.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, h, w, 2) or (N, d, h, w, 3): x, y (and z) in [-1, 1].
        mode: "bilinear", "nearest", or "bicubic" for two dims.
        padding_mode: what lies outside: "zeros", the "border", or the input's "reflection".
        align_corners: whether -1 and 1 are the centres of the outermost elements, else their
            outer edges; None is False.

    Returns:
        (N, C, h, w) or (N, C, d, h, w).

    Raises:
        InvalidValueError: an unknown mode.
        ShapeError: shapes or dtypes do not go together.
    """
    if mode not in _MODES:
        raise InvalidValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise InvalidValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    _check(input, grid, mode)
    dtype = dtypes.compute_dtype(input.dtype)
    x, places = cast(input, dtype), cast(grid, dtype)
    n = len(input.shape) - 2
    sampler = _Sampler(x, padding_mode, bool(align_corners))
    # The grid names the last dim first.
    columns = [TABLE.select(places, dim=n + 1, index=n - 1 - d) for d in range(n)]
    result = sampler.sample(columns, mode)
    return cast(result, input.dtype)


def _check(input: Any, grid: Any, mode: str) -> None:
    rank = len(input.shape)
    if rank not in (4, 5) or len(grid.shape) != rank:
        raise ShapeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.dtype is not grid.dtype:
        raise ShapeError(
            "grid_sampler(): expected input and grid to have same dtype, but input has "
            f"{input.dtype.name} and grid has {grid.dtype.name}"
        )
    if not agree(input.shape[0], grid.shape[0]):
        raise ShapeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if not equals(grid.shape[-1], rank - 2):
        raise ShapeError(
            f"grid_sampler(): expected grid to have size {rank - 2} in last dimension, but got "
            f"grid with sizes {list(grid.shape)}"
        )
    if any(size == 0 for size in input.shape[2:]):
        raise ShapeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
            f"sizes {list(input.shape)}"
        )
    if mode == "bicubic" and rank != 4:
        raise ShapeError("grid_sampler(): bicubic interpolation only supports 4D input")


class _Sampler:
    """One input, flattened, and how places outside of it are read.

    Args:
        x: (N, C, *sizes).
        padding: "zeros", "border" or "reflection".
        is_aligned: see `grid_sample`.
    """

    def __init__(self, x: Any, padding: str, is_aligned: bool) -> None:
        self.sizes = tuple(x.shape[2:])
        self.lead = tuple(x.shape[:2])
        self.flat = TABLE.reshape(x, shape=(*self.lead, numel(self.sizes)))
        self.padding = padding
        self.is_aligned = is_aligned

    def sample(self, columns: list[Any], mode: str) -> Any:
        """The input at `columns`, one (N, *new) of grid coordinates per dim."""
        places = [self._place(column, d) for d, column in enumerate(columns)]
        if mode == "nearest":
            found = self._read([TABLE.round(self._padded(p, d)) for d, p in enumerate(places)])
            for column in columns:
                column = TABLE.reshape(column, shape=(column.shape[0], 1, *column.shape[1:]))
                found = unchanged_by(found, column)
            return found
        taps = self._cubic_taps(places) if mode == "bicubic" else self._linear_taps(places)
        total: Any = None
        for chosen in itertools.product(*taps):
            share: Any = None
            for _, weight in chosen:
                share = weight if share is None else TABLE.mul(share, weight)
            share = TABLE.reshape(share, shape=(share.shape[0], 1, *share.shape[1:]))
            part = TABLE.mul(self._read([position for position, _ in chosen]), share)
            total = part if total is None else TABLE.add(total, part)
        return total

    def _linear_taps(self, places: list[Any]) -> list[list[tuple[Any, Any]]]:
        """Per dim: (position, weight) of the elements before and behind a place."""
        taps = []
        for d, place in enumerate(places):
            place = self._padded(place, d)
            low = TABLE.floor(place)
            share = TABLE.sub(place, low)
            taps.append([(low, TABLE.sub(1.0, share)), (TABLE.add(low, 1.0), share)])
        return taps

    def _cubic_taps(self, places: list[Any]) -> list[list[tuple[Any, Any]]]:
        """Per dim: (position, weight) of the four elements around a place."""
        taps = []
        for d, place in enumerate(places):
            low = TABLE.floor(place)
            share = TABLE.sub(place, low)
            positions = [self._padded(TABLE.add(low, float(k)), d) for k in (-1, 0, 1, 2)]
            distances = (
                TABLE.add(share, 1.0), share, TABLE.sub(1.0, share), TABLE.sub(2.0, share)
            )  # fmt: skip
            weights = [_cubic(distance, is_far=k in (0, 3)) for k, distance in enumerate(distances)]
            taps.append(list(zip(positions, weights, strict=True)))
        return taps

    def _place(self, column: Any, d: int) -> Any:
        """Grid coordinates as positions along dim d."""
        size = count_operand(TABLE, self.sizes[d])
        if self.is_aligned:
            return TABLE.mul(TABLE.mul(TABLE.add(column, 1.0), 0.5), size - 1)
        return TABLE.mul(TABLE.sub(TABLE.mul(TABLE.add(column, 1.0), size), 1.0), 0.5)

    def _padded(self, place: Any, d: int) -> Any:
        """Positions moved into the input, as the padding says."""
        if self.padding == "zeros":
            return place
        last = count_operand(TABLE, self.sizes[d]) - 1
        if self.padding == "reflection":
            place = self._reflected(place, d)
        # Without a gradient at the ends, as in PyTorch: a clamp has one there.
        place = TABLE.where(TABLE.le(place, 0.0), 0.0, place)
        return TABLE.where(TABLE.ge(place, last), cast_like(last, place), place)

    def _reflected(self, place: Any, d: int) -> Any:
        """Positions reflected at the ends until they lie between them."""
        size = count_operand(TABLE, self.sizes[d])
        low, span = (0.0, size - 1) if self.is_aligned else (-0.5, size)
        if isinstance(span, int) and span == 0:
            return TABLE.mul(place, 0.0)
        away = TABLE.sub(place, low)
        away = TABLE.where(TABLE.lt(away, 0.0), TABLE.neg(away), away)
        turns = TABLE.floor(TABLE.div(away, span))
        rest = TABLE.sub(away, TABLE.mul(turns, span))
        is_even = TABLE.eq(TABLE.remainder(turns, 2.0), 0.0)
        back = TABLE.sub(span, rest)
        return TABLE.add(TABLE.where(is_even, rest, back), low)

    def _read(self, positions: list[Any]) -> Any:
        """Elements at whole positions, 0 outside: (N, C, *new)."""
        inside: Any = None
        flat: Any = None
        for size, position in zip(self.sizes, positions, strict=True):
            count = count_operand(TABLE, size)
            is_in = TABLE.logical_and(TABLE.ge(position, 0.0), TABLE.le(position, count - 1))
            whole = cast(TABLE.where(is_in, TABLE.detach(position), 0.0), dtypes.int64)
            inside = is_in if inside is None else TABLE.logical_and(inside, is_in)
            flat = whole if flat is None else TABLE.add(TABLE.mul(flat, count), whole)
        new = tuple(flat.shape[1:])
        count = numel(new)
        wanted = TABLE.expand(
            TABLE.reshape(flat, shape=(self.lead[0], 1, count)), shape=(*self.lead, count)
        )
        found = TABLE.reshape(TABLE.gather(self.flat, wanted, dim=2), shape=(*self.lead, *new))
        return TABLE.where(TABLE.reshape(inside, shape=(self.lead[0], 1, *new)), found, 0.0)


def cast_like(number: Any, like: Any) -> Any:
    """A number as it is, a zero-dim tensor in the dtype of `like`."""
    return float(number) if isinstance(number, int) else cast(number, like.dtype)


def _cubic(t: Any, is_far: bool) -> Any:
    """Keys' kernel at distances of at most 1, or of 1 to 2."""
    a = -0.75
    if is_far:
        inner = TABLE.add(TABLE.mul(TABLE.sub(TABLE.mul(t, a), 5 * a), t), 8 * a)
        return TABLE.sub(TABLE.mul(inner, t), 4 * a)
    inner = TABLE.sub(TABLE.mul(t, a + 2), a + 3)
    return TABLE.add(TABLE.mul(TABLE.mul(inner, t), t), 1.0)


# ---------------------------------------------------------------------------------------------
# grids


@public("nn.functional")
@autocast(cpu=Autocast.LOWER)
def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """The places that affine maps give to the elements of an output.

    Args:
        theta: (N, 2, 3) or (N, 3, 4).
        size: (N, C, H, W) or (N, C, D, H, W) of the output.
        align_corners: see `grid_sample`.

    Returns:
        (N, H, W, 2) or (N, D, H, W, 3).

    Raises:
        InvalidValueError: theta is not floating or does not fit, or a size is not positive.
        UnsupportedError: another number of sizes.
    """
    sizes = arguments.sizes(size, "affine_grid")
    n = len(sizes) - 2
    if not theta.dtype.is_floating_point:
        raise InvalidValueError(
            f"Expected theta to have floating point type, but got {theta.dtype.name}"
        )
    if n not in (2, 3):
        raise UnsupportedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively.  Got size {sizes}."
        )
    if len(theta.shape) != 3 or not shapes_agree(theta.shape[1:], (n, n + 1)):
        raise InvalidValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {sizes}.  "
            f"Got {tuple(theta.shape)}."
        )
    if any(length <= 0 for length in sizes):
        raise InvalidValueError(f"Expected non-zero, positive output size. Got {sizes}")
    dtype = dtypes.compute_dtype(theta.dtype)
    m = numbers_for(theta.device, *sizes[2:])
    axes = [_axis(m, length, bool(align_corners)) for length in sizes[2:]]
    wide = []
    for d, axis in enumerate(axes):
        column = m.tensor(m.reshape(axis, sizes[2 + d], *((1,) * (n - 1 - d))), theta.device)
        wide.append(TABLE.expand(column, shape=sizes[2:]))
    ones = TABLE.full(1, shape=sizes[2:], dtype=dtypes.float64, device=theta.device)
    points = TABLE.stack(*wide[::-1], ones, dim=n)
    count = numel(sizes[2:])
    base = TABLE.reshape(cast(points, dtype), shape=(1, count, n + 1))
    maps = TABLE.permute(cast(theta, dtype), dims=(0, 2, 1))
    base = TABLE.expand(base, shape=(theta.shape[0], count, n + 1))
    moved = TABLE.matmul(base, maps)
    return cast(TABLE.reshape(moved, shape=(theta.shape[0], *sizes[2:], n)), theta.dtype)


def _axis(m: Any, length: Size, is_aligned: bool) -> Any:
    """Places of the elements along one dim, float64."""
    if isinstance(length, int) and length == 1:
        return m.arange(1) * 0.0
    last = m.number(length - 1)
    index = m.cast(m.arange(length), dtypes.float64)
    axis = index * (2.0 / last) - 1.0
    axis = m.where(index < last, axis, 1.0)  # exactly
    return axis if is_aligned else axis * (last / m.number(length))
