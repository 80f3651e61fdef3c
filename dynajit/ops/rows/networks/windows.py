"""Rows over sliding windows: cutting them out, adding them up again, pools.

Contract: windows slide over the last `n = len(size)` dims of x. The attributes of every row:
`size`, `stride`, `dilation` (positive), `before` (at least 0) and `after` (negative where the last
elements take no part), one entry per dim. Window o holds the elements `o * stride + k * dilation -
before` for k in [0, size); there are as many windows as fit into the padded dim. Code generation
inlines the index maps, so a pool is one kernel; eager execution uses
`ops.rows.networks.window_forms`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from dynajit.core.errors import DTypeNotImplementedError, InternalError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import shapes_agree
from dynajit.core.types.value_types import Shape, Size, TensorType, ValueType, numel
from dynajit.ops.native import _native_windows
from dynajit.ops.rows.composites import (
    floating_tensor,
    narrow,
    require_floating,
    wide,
)
from dynajit.ops.rows.networks import window_forms
from dynajit.ops.table import result_layouts, sample_rules
from dynajit.ops.table.families import (
    composite,
    describe,
    movement,
    operand_type,
    require_tensor,
)


class Geometry(NamedTuple):
    """How windows lie: see the module's contract."""

    stride: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilation: tuple[int, ...]

    def attributes(self) -> dict[str, tuple[int, ...]]:
        """As attributes of a row."""
        return self._asdict()


Function = TypeVar("Function", bound=Callable[..., Any])


def remembered(function: Function) -> Function:
    """`function(sizes, size, ...)`, of what is hashable, remembered for sizes that are plain
    integers: symbolic ones ask the program each time."""
    known = functools.lru_cache(maxsize=1024)(function)

    @functools.wraps(function)
    def call(sizes: Shape, size: tuple[Size, ...], *others: Any) -> Any:
        for n in (*sizes, *size):
            if type(n) is not int:
                return function(sizes, size, *others)
        return known(sizes, size, *others)

    return cast(Function, call)


def window_counts(sizes: Shape, size: Sequence[Size], geometry: Geometry) -> Shape:
    """How many windows there are along each dim of the given sizes."""
    return tuple(
        (length + before + after - dilation * (width - 1) - 1) // stride + 1
        for length, width, stride, before, after, dilation in zip(
            sizes, size, *geometry, strict=True
        )
    )


def require_windows(call: object, sizes: Shape, size: Sequence[Size], geometry: Geometry) -> Shape:
    """`window_counts`, refused where a known one is not positive.

    Raises:
        ShapeError: a window is larger than the padded input.
    """
    counts = window_counts(sizes, size, geometry)
    if any(isinstance(count, int) and count < 1 for count in counts):
        padded = [n + b + a for n, b, a in zip(sizes, geometry.before, geometry.after, strict=True)]
        spans = [d * (k - 1) + 1 for d, k in zip(geometry.dilation, size, strict=True)]
        raise ShapeError(
            f"{call}: Calculated padded input size per channel: {padded}.  Kernel size: {spans}.  "
            "Kernel size can't be greater than actual input size."
        )
    return counts


def lowest(dtype: DType) -> Any:
    """The value that no element of `dtype` is below."""
    if dtype.is_floating_point:
        return -math.inf
    return 0 if not dtype.is_signed else -(1 << (8 * dtype.itemsize - 1))


# ---------------------------------------------------------------------------------------------
# windows as new dims, and back


def _windows_infer(x: ValueType, *, size: Any, value: Any, **geometry: Any) -> TensorType:
    call = describe("windows", ("x",), (x,))
    type = require_tensor(x, call, "x")
    lead = type.rank - len(size)
    if lead < 0:
        raise ShapeError(f"{call}: windows over {len(size)} dimensions need as many.")
    counts = require_windows(call, type.shape[lead:], size, Geometry(**geometry))
    return type.with_shape((*type.shape[:lead], *counts, *size))


def _windows_vjp(
    ops: Any, g: Any, x_type: TensorType, size: Any, stride: Any, before: Any, after: Any,
    dilation: Any,
) -> Any:  # fmt: skip
    shape = x_type.shape[x_type.rank - len(size) :]
    return ops.fold_windows(
        g, shape=shape, stride=stride, before=before, after=after, dilation=dilation
    )


@movement(
    infer=_windows_infer,
    array=window_forms.windows,
    vjp={"x": _windows_vjp},
    samples=sample_rules.leading,
)
def windows(
    m: Any, load: Any, index: Any, types: Any, *, size: Any, stride: Any, before: Any,
    after: Any, dilation: Any, value: Any = 0,
) -> Any:  # fmt: skip
    """The windows of x (*, *sizes) as new last dims: (*, *counts, *size); `value` is around x."""
    shape, n = types[0].shape, len(size)
    lead = len(shape) - n
    source = list(index[:lead])
    inside: Any = None
    for d in range(n):
        i = index[lead + d] * stride[d] + index[lead + n + d] * dilation[d] - before[d]
        source.append(i)
        if before[d] > 0:
            inside = _both(m, inside, m.less(-1, i))
        if after[d] > 0:
            inside = _both(m, inside, m.less(i, shape[lead + d]))
    taken = load(0, tuple(source))
    return taken if inside is None else m.where(inside, taken, value)


def _both(m: Any, one: Any, other: Any) -> Any:
    return other if one is None else m.logical_and(one, other)


def _split(type: TensorType, n: int) -> tuple[Shape, Shape, Shape]:
    """Leading dims, counts and sizes of a tensor of windows."""
    lead = type.rank - 2 * n
    return type.shape[:lead], type.shape[lead : lead + n], type.shape[lead + n :]


def _require_fit(name: str, x: ValueType | None, shape: Shape, geometry: Geometry) -> TensorType:
    call = describe(name, ("x",), (x,))
    type = require_tensor(x, call, "x")
    if type.rank < 2 * len(shape):
        raise ShapeError(f"{call}: expected counts and sizes of windows over {len(shape)} dims.")
    _, counts, size = _split(type, len(shape))
    if not shapes_agree(window_counts(shape, size, geometry), counts):
        raise ShapeError(
            f"{call}: {list(counts)} windows of {list(size)} do not cover {list(shape)}.  Expected "
            f"{list(window_counts(shape, size, geometry))} of them."
        )
    return type


def _spread_infer(x: ValueType, *, shape: Shape, **geometry: Any) -> TensorType:
    type = _require_fit("spread_windows", x, shape, Geometry(**geometry))
    lead, _, size = _split(type, len(shape))
    return type.with_shape((*lead, *shape, *size))


def _spread_vjp(
    ops: Any, g: Any, shape: Shape, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """Windows of every slice of g, of which element k is that of slice k."""
    n, rank = len(shape), len(g.shape)
    lead = rank - 2 * n
    size = tuple(g.shape[lead + n :])
    dims = (*range(lead), *range(lead + n, rank), *range(lead, lead + n))
    cut = ops.windows(
        ops.permute(g, dims=dims), size=size, stride=stride, before=before, after=after,
        dilation=dilation,
    )  # fmt: skip
    for d in reversed(range(n)):
        # Dims: lead, slices 0..d, counts, sizes 0..d, sizes taken so far (in reverse order).
        cut = ops.diagonal(cut, offset=0, dim1=lead + d, dim2=lead + d + 1 + n + d)
    last = len(cut.shape) - 1
    return ops.permute(cut, dims=(*range(lead + n), *(last - d for d in range(n))))


@movement(
    infer=_spread_infer,
    array=window_forms.spread_windows,
    vjp={"x": _spread_vjp},
    samples=sample_rules.leading,
)
def spread_windows(
    m: Any, load: Any, index: Any, types: Any, *, shape: Any, stride: Any, before: Any,
    after: Any, dilation: Any,
) -> Any:  # fmt: skip
    """x (*, *counts, *size), each slice k of the last dims put where the windows' elements k lie
    in `shape`: (*, *shape, *size), zero elsewhere."""
    n = len(shape)
    lead = len(types[0].shape) - 2 * n
    counts = types[0].shape[lead : lead + n]
    source = list(index[:lead])
    inside: Any = None
    for d in range(n):
        i = index[lead + d] + before[d] - index[lead + n + d] * dilation[d]
        inside = _both(m, inside, m.less(-1, i))
        if stride[d] != 1:
            inside = _both(m, inside, m.equal(i % stride[d], 0))
            i = i // stride[d]
        source.append(i)
        inside = _both(m, inside, m.less(i, counts[d]))
    taken = load(0, (*source, *index[lead + n :]))
    return taken if inside is None else m.where(inside, taken, 0)


def _fold_infer(x: ValueType, *, shape: Shape, **geometry: Any) -> TensorType:
    type = _require_fit("fold_windows", x, shape, Geometry(**geometry))
    return type.with_shape((*type.shape[: type.rank - 2 * len(shape)], *shape))


def _fold_vjp(
    ops: Any, g: Any, x_type: TensorType, shape: Shape, stride: Any, before: Any, after: Any,
    dilation: Any,
) -> Any:  # fmt: skip
    return ops.windows(
        g, size=x_type.shape[x_type.rank - len(shape) :], stride=stride, before=before,
        after=after, dilation=dilation,
    )  # fmt: skip


@composite(
    infer=_fold_infer,
    array=window_forms.fold_windows,
    vjp={"x": _fold_vjp},
    linear=("x",),
    samples=sample_rules.leading,
)
def fold_windows(
    ops: Any, x: Any, *, shape: Shape, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """The transpose of `windows`: (*, *counts, *size) -> (*, *shape), where windows overlap their
    elements add up."""
    geometry = Geometry(stride, before, after, dilation)
    type = _require_fit("fold_windows", operand_type(x), shape, geometry)
    if _are_tiles(type, shape, geometry):
        return _untiled(ops, x, shape)
    spread = ops.spread_windows(wide(ops, x), shape=shape, **geometry.attributes())
    return narrow(ops, ops.sum(spread, dim=_last(len(spread.shape), len(shape))), x.dtype)


def _are_tiles(type: TensorType, shape: Shape, geometry: Geometry) -> bool:
    """True if windows (*, *counts, *size) lie side by side from the start of `shape` on."""
    _, counts, size = _split(type, len(shape))
    numbers = (*shape, *counts, *size)
    return (
        all(isinstance(number, int) for number in numbers)
        and tuple(size) == tuple(geometry.stride)
        and not any(geometry.before)
        and all(step == 1 for step in geometry.dilation)
    )


def _untiled(ops: Any, x: Any, shape: Shape) -> Any:
    """Windows that lie side by side as one tensor (*, *shape), zeros behind them."""
    n, rank = len(shape), len(x.shape)
    lead = rank - 2 * n
    pairs = [d for k in range(n) for d in (lead + k, lead + n + k)]
    covered = [x.shape[lead + k] * x.shape[lead + n + k] for k in range(n)]
    moved = ops.permute(x, dims=(*range(lead), *pairs))
    tiles = ops.reshape(moved, shape=(*x.shape[:lead], *covered))
    after = (*((0,) * lead), *(size - known for size, known in zip(shape, covered, strict=True)))
    if not any(after):
        return tiles
    return ops.pad(tiles, before=(0,) * len(after), after=after, value=0)


def _last(rank: int, n: int) -> tuple[int, ...]:
    return tuple(range(rank - n, rank))


# ---------------------------------------------------------------------------------------------
# pools


def _pooled(name: str, dtype: DType | None = None) -> Any:
    """Type rule of a pool: one value per window."""

    def infer(x: ValueType, *, size: Any, **geometry: Any) -> TensorType:
        call = describe(name, ("x",), (x,))
        type = require_tensor(x, call, "x")
        if type.dtype is dtypes.bool_ or type.dtype.is_complex:
            raise DTypeNotImplementedError(
                f"{call}: {name} is not implemented for {type.dtype.name}.  Expected an integer or "
                "floating dtype."
            )
        lead = type.rank - len(size)
        if lead < 0:
            raise ShapeError(f"{call}: windows over {len(size)} dimensions need as many.")
        counts = require_windows(call, type.shape[lead:], size, Geometry(**geometry))
        shape = (*type.shape[:lead], *counts)
        return TensorType(shape, dtype or type.dtype, type.device)

    return infer


def _sum_pool_vjp(
    ops: Any, g: Any, x_type: TensorType, size: Any, stride: Any, before: Any, after: Any,
    dilation: Any,
) -> Any:  # fmt: skip
    ones = (1,) * len(size)
    shared = ops.expand(ops.reshape(g, shape=(*g.shape, *ones)), shape=(*g.shape, *size))
    return _windows_vjp(ops, shared, x_type, size, stride, before, after, dilation)


@composite(
    infer=_pooled("sum_pool"),
    array=window_forms.sum_pool,
    vjp={"x": _sum_pool_vjp},
    native=_native_windows.sum_pool,
    slopes={"x": _native_windows.sum_pool_slope},
    layout=result_layouts.averaged,
    linear=("x",),
    samples=sample_rules.leading,
    widens=True,
)
def sum_pool(
    ops: Any, x: Any, *, size: Any, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """The sum of each window; what lies around x counts 0."""
    sum_pool.infer(operand_type(x), size=size, stride=stride, before=before, after=after,
                    dilation=dilation)  # fmt: skip
    cut = ops.windows(x, size=size, stride=stride, before=before, after=after, dilation=dilation)
    return narrow(ops, ops.sum(cut, dim=_last(len(cut.shape), len(size))), x.dtype)


def _max_pool_vjp(
    ops: Any, g: Any, x: Any, size: Any, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    geometry = Geometry(stride, before, after, dilation).attributes()
    choice = ops.max_pool_choice(x, size=size, **geometry)
    shape = tuple(x.shape[len(x.shape) - len(size) :])
    return ops.place_windows(g, choice, shape=shape, size=size, **geometry)


@composite(
    infer=_pooled("max_pool"),
    array=window_forms.max_pool,
    vjp={"x": _max_pool_vjp},
    native=_native_windows.max_pool,
    slopes={"x": _native_windows.max_pool_slope},
    layout=result_layouts.suggested,
    samples=sample_rules.leading,
    widens=True,
)
def max_pool(
    ops: Any, x: Any, *, size: Any, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """The largest element of each window; the gradient goes to the first of equal ones."""
    max_pool.infer(operand_type(x), size=size, stride=stride, before=before, after=after,
                    dilation=dilation)  # fmt: skip
    cut = ops.windows(
        x, size=size, stride=stride, before=before, after=after, dilation=dilation,
        value=lowest(x.dtype),
    )  # fmt: skip
    return ops.amax(cut, dim=_last(len(cut.shape), len(size)))


@composite(
    infer=_pooled("max_pool_choice", dtypes.int64),
    array=window_forms.max_pool_choice,
    vjp={"x": None},
    native=_native_windows.max_pool_choice,
    layout=result_layouts.suggested,
    samples=sample_rules.leading,
    widens=True,
)
def max_pool_choice(
    ops: Any, x: Any, *, size: Any, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """The row-major position within each window of its largest element, int64: never padding."""
    cut = ops.windows(
        x, size=size, stride=stride, before=before, after=after, dilation=dilation,
        value=lowest(x.dtype),
    )  # fmt: skip
    last = _last(len(cut.shape), len(size))
    choice = ops.argmax(cut, dim=last)
    if not any(before):
        return choice
    counts = tuple(choice.shape[len(choice.shape) - len(size) :])
    first = _first_inside(ops, counts, size, stride, before, dilation, x.device)
    return ops.where(ops.eq(ops.amax(cut, dim=last), lowest(x.dtype)), first, choice)


def _first_inside(
    ops: Any, counts: Shape, size: Any, stride: Any, before: Any, dilation: Any, device: Any
) -> Any:
    """The row-major position within each window of its first element that is no padding, int64
    (*counts): what is chosen where all elements are the lowest there are."""
    total: Any = None
    for d, width in enumerate(size):
        missing = ops.arange(
            before[d] + dilation[d] - 1, -stride[d], size=counts[d], dtype=dtypes.int64,
            device=device,
        )  # fmt: skip
        first = ops.floor_divide(ops.maximum(missing, 0), dilation[d])
        first = ops.reshape(
            ops.minimum(first, width - 1), shape=(counts[d], *((1,) * (len(size) - 1 - d)))
        )
        total = first if total is None else ops.add(ops.mul(total, width), first)
    return total


def _place_infer(
    x: ValueType, choice: ValueType, *, shape: Shape, size: Any, **geometry: Any
) -> TensorType:
    call = describe("place_windows", ("x", "choice"), (x, choice))
    type, chosen = floating_tensor("place_windows", x), require_tensor(choice, call, "choice")
    if not shapes_agree(type.shape, chosen.shape):
        raise InternalError(f"{call}: one choice per window is needed")
    return type.with_shape((*type.shape[: type.rank - len(shape)], *shape))


@composite(
    infer=_place_infer,
    array=window_forms.place_windows,
    vjp={
        "x": lambda ops, g, choice, size, stride, before, after, dilation: ops.pick_windows(
            g, choice, size=size, stride=stride, before=before, after=after, dilation=dilation
        )
    },
    linear=("x",),
    samples=sample_rules.leading,
    widens=True,
)
def place_windows(
    ops: Any, x: Any, choice: Any, *, shape: Shape, size: Any, stride: Any, before: Any,
    after: Any, dilation: Any,
) -> Any:  # fmt: skip
    """Zeros (*, *shape) with x (*, *counts), one value per window, added where `choice` says."""
    require_floating("place_windows", x)
    ones = (1,) * len(size)
    positions = ops.reshape(
        ops.arange(0, 1, size=numel(size), dtype=dtypes.int64, device=x.device), shape=size
    )
    is_chosen = ops.eq(ops.reshape(choice, shape=(*x.shape, *ones)), positions)
    spread = ops.where(is_chosen, ops.reshape(x, shape=(*x.shape, *ones)), 0)
    return ops.fold_windows(
        spread, shape=shape, stride=stride, before=before, after=after, dilation=dilation
    )


def _pick_infer(x: ValueType, choice: ValueType, *, size: Any, **geometry: Any) -> TensorType:
    result: TensorType = _pooled("pick_windows")(x, size=size, **geometry)
    return result


def _pick_vjp(
    ops: Any, g: Any, x_type: TensorType, choice: Any, size: Any, stride: Any, before: Any,
    after: Any, dilation: Any,
) -> Any:  # fmt: skip
    return ops.place_windows(
        g, choice, shape=x_type.shape[x_type.rank - len(size) :], size=size, stride=stride,
        before=before, after=after, dilation=dilation,
    )  # fmt: skip


@composite(
    infer=_pick_infer,
    array=window_forms.pick_windows,
    vjp={"x": _pick_vjp},
    linear=("x",),
    samples=sample_rules.leading,
)
def pick_windows(
    ops: Any, x: Any, choice: Any, *, size: Any, stride: Any, before: Any, after: Any, dilation: Any
) -> Any:
    """The element of each window of x at its row-major position `choice`."""
    cut = ops.windows(x, size=size, stride=stride, before=before, after=after, dilation=dilation)
    shape = tuple(choice.shape)
    flat = ops.reshape(cut, shape=(*shape, numel(size)))
    picked = ops.gather(flat, ops.reshape(choice, shape=(*shape, 1)), dim=len(shape))
    return ops.reshape(picked, shape=shape)
