"""Pools with the signatures of `torch.nn.functional`.

Contract: tensors in, tensors out; windows as `ops.rows.networks.windows` says. Where sizes are
symbolic, what a check finds is decided by the sizes of the present call and guarded. An adaptive
pool whose windows are not all alike, or whose sizes are symbolic, picks its elements first, so that
they are.
`dynajit.nn.functional` publishes them.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynajit.core.errors import ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.symint import SymInt, equals, shapes_agree
from dynajit.core.types.value_types import Shape, Size, numel
from dynajit.ops.calls.arguments import (
    cast,
    constant,
    integers,
    is_integer,
    require_tensor,
    with_integers,
)
from dynajit.ops.calls.arguments import size as size_argument
from dynajit.ops.calls.autocast import autocast, widened
from dynajit.ops.calls.placing import as_suggested, contiguous
from dynajit.ops.calls.positions import numbers_for
from dynajit.ops.calls.public import Out, public
from dynajit.ops.functions.networks.convolution import (
    batched,
    per_dim,
    require_positive_counts,
    require_range,
)
from dynajit.ops.rows.composites import count_operand
from dynajit.ops.rows.networks.windows import Geometry, remembered
from dynajit.ops.table.op_table import TABLE, Autocast

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


def _geometry(
    x: "TensorMethods", size: tuple[int, ...], stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, function: str,
) -> Geometry:  # fmt: skip
    """Where the windows of x (N, C, *sizes) lie.

    Raises:
        ShapeError: an option is out of range.
        ShapeError: a window does not fit.
    """
    n = len(size)
    no_stride = stride is None or (isinstance(stride, Sequence) and not stride)
    steps = size if no_stride else per_dim(stride, n, "stride", function)
    edges = per_dim(padding, n, "padding", function)
    gaps = per_dim(dilation, n, "dilation", function)
    return _checked_geometry(tuple(x.shape)[2:], size, steps, edges, gaps, ceil_mode, function)


@remembered
def _checked_geometry(
    sizes: Shape, size: tuple[int, ...], steps: tuple[int, ...], edges: tuple[int, ...],
    gaps: tuple[int, ...], ceil_mode: bool, function: str,
) -> Geometry:  # fmt: skip
    require_range(size, 1, "kernel size", function, "should be")
    require_range(steps, 1, "stride", function, "should be")
    require_range(gaps, 1, "dilation", function, "should be")
    spans = [d * (k - 1) + 1 for d, k in zip(gaps, size, strict=True)]
    if any(not 0 <= edge <= span // 2 for edge, span in zip(edges, spans, strict=True)):
        raise ShapeError(
            f"{function}: pad should be at most half of effective kernel size, and not negative, "
            f"but got pad={list(edges)}, kernel_size={list(size)} and dilation={list(gaps)}."
        )
    after = edges
    if ceil_mode:
        after = tuple(
            _ceiled(length, span, step, edge)
            for length, span, step, edge in zip(sizes, spans, steps, edges, strict=True)
        )
    geometry = Geometry(steps, edges, after, gaps)
    require_positive_counts(sizes, size, geometry, function)
    return geometry


def _ceiled(length: Size, span: int, stride: int, edge: int) -> int:
    """Padding at the end with which a last window may hang over, if it starts within the input or
    the padding before it.

    Source: the rule of PyTorch's pools (`pooling_output_shape`).
    """
    wide = length + 2 * edge - span + stride - 1
    starts_outside = wide // stride * stride >= length + edge
    return edge if starts_outside else edge + stride - 1


# ---------------------------------------------------------------------------------------------
# maximum


def _max_pool(
    n: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, return_indices: bool,
) -> Any:  # fmt: skip
    function = f"max_pool{n}d"
    if dilation == 1 and _is_whole(n, input, kernel_size, padding):
        return _adaptive_max_pool(n, input, 1, return_indices)
    size = per_dim(kernel_size, n, "kernel_size", function)

    def run(x: "TensorMethods") -> Any:
        geometry = _geometry(x, size, stride, padding, dilation, ceil_mode, function)
        values = TABLE.max_pool(x, size=size, **geometry.attributes())
        if not return_indices:
            return values
        choice = TABLE.max_pool_choice(x, size=size, **geometry.attributes())
        return values, _flat_positions(choice, tuple(x.shape)[2:], size, geometry)

    return batched(input, n, function, run, function)


def _flat_positions(choice: Any, sizes: Shape, size: tuple[int, ...], geometry: Geometry) -> Any:
    """Row-major positions in the input's last dims of choices within windows."""
    rank, n = len(choice.shape), len(size)
    total: Any = None
    rest = choice
    inner: list[Any] = []
    for width in reversed(size):
        inner.insert(0, TABLE.remainder(rest, width))
        rest = TABLE.floor_divide(rest, width)
    for d in range(n):
        count = choice.shape[rank - n + d]
        starts = TABLE.arange(
            -geometry.before[d], geometry.stride[d], size=count, dtype=dtypes.int64,
            device=choice.device,
        )  # fmt: skip
        starts = TABLE.reshape(starts, shape=(count, *((1,) * (n - 1 - d))))
        position = TABLE.add(TABLE.mul(inner[d], geometry.dilation[d]), starts)
        # A dilated window may hold nothing but padding.
        position = TABLE.maximum(position, 0)
        position = TABLE.minimum(position, count_operand(TABLE, sizes[d] - 1))
        if total is not None:
            position = TABLE.add(TABLE.mul(total, count_operand(TABLE, sizes[d])), position)
        total = position
    return total


@public(out=Out.ABSENT)
@public("nn.functional")
def max_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Largest elements of windows over (N, C, L) or (C, L), with their positions if asked for."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@public(out=Out.ABSENT)
@public("nn.functional")
def max_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Largest elements of windows over (N, C, H, W) or (C, H, W), with their positions in H * W
    if asked for."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@public(out=Out.ABSENT)
@public("nn.functional")
def max_pool3d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Largest elements of windows over (N, C, D, H, W) or (C, D, H, W), with their positions in
    D * H * W if asked for."""
    input = input if return_indices else widened(input)
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


# ---------------------------------------------------------------------------------------------
# average


def _in_wide(x: "TensorMethods") -> Any:
    return cast(x, dtypes.compute_dtype(x.dtype))


def _is_whole(n: int, input: Any, kernel_size: Any, padding: Any) -> bool:
    """True for one window over all elements, where sizes are symbolic."""
    sizes = tuple(input.shape)[len(input.shape) - n :]
    widths = tuple(kernel_size) if isinstance(kernel_size, Sequence) else (kernel_size,) * n
    if len(widths) != n or not any(isinstance(width, SymInt) for width in widths):
        return False
    edges = padding if isinstance(padding, Sequence) else (padding,)
    is_padded = any(not isinstance(edge, int) or edge for edge in edges)
    return not is_padded and all(map(equals, widths, sizes))


def _avg_pool(
    n: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Any:  # fmt: skip
    function = f"avg_pool{n}d"
    if divisor_override is None and _is_whole(n, input, kernel_size, padding):
        return _adaptive_avg_pool(n, input, 1)
    size = per_dim(kernel_size, n, "kernel_size", function)
    if divisor_override == 0:
        raise ShapeError(f"{function}: divisor must be not zero.")

    def run(x: "TensorMethods") -> Any:
        geometry = _geometry(x, size, stride, padding, 1, ceil_mode, function)
        total = TABLE.sum_pool(_in_wide(x), size=size, **geometry.attributes())
        if divisor_override is not None:
            return cast(TABLE.div(total, divisor_override), x.dtype)
        counts = tuple(total.shape)[2:]
        for d, divisor in enumerate(
            _divisors(tuple(x.shape)[2:], counts, size, geometry, count_include_pad, x.device)
        ):
            if not isinstance(divisor, int):
                divisor = TABLE.reshape(divisor, shape=(counts[d], *((1,) * (n - 1 - d))))
            total = TABLE.div(total, divisor)
        return cast(total, x.dtype)

    return batched(input, n, function, run, function)


def _divisors(
    sizes: Shape, counts: Shape, size: tuple[int, ...], geometry: Geometry, with_padding: bool,
    device: Any,
) -> list[Any]:  # fmt: skip
    """Per dim, how many elements count in each window: a number, or int64 (counts[d],)."""
    if not any(geometry.after[d] != geometry.before[d] for d in range(len(size))) and (
        with_padding or not any(geometry.before)
    ):
        # One division by the product rounds once.
        return [numel(size), *((1,) * (len(size) - 1))]
    found = []
    for d, width in enumerate(size):
        before, length = geometry.before[d], sizes[d]
        first = TABLE.arange(
            -before, geometry.stride[d], size=counts[d], dtype=dtypes.int64, device=device
        )
        end = length + before if with_padding else length
        last = TABLE.minimum(TABLE.add(first, width), count_operand(TABLE, end))
        if not with_padding:
            first = TABLE.maximum(first, 0)
        found.append(TABLE.sub(last, first))
    return found


@public(out=Out.ABSENT)
@public("nn.functional")
def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """Means of windows over (N, C, L) or (C, L)."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@public("nn.functional", out=Out.SAME_DTYPE, numpy_names=True)
@with_integers
def avg_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """Means of windows over (N, C, H, W) or (C, H, W); with `divisor_override` sums over it."""
    return _avg_pool(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@public("nn.functional", out=Out.SAME_DTYPE, numpy_names=True)
@autocast(cpu=Autocast.FULL)
@with_integers
def avg_pool3d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """Means of windows over (N, C, D, H, W) or (C, D, H, W); with `divisor_override` sums over
    it."""
    return _avg_pool(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _lp_pool(
    n: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Any:
    """By the mean: as in PyTorch a window that hangs over counts as if it were whole."""
    size = per_dim(kernel_size, n, "kernel_size", f"lp_pool{n}d")
    if norm_type == math.inf:
        return _max_pool(n, TABLE.abs(input), size, stride, 0, 1, ceil_mode, False)
    if norm_type == -math.inf:
        negative = TABLE.neg(TABLE.abs(input))
        return TABLE.neg(_max_pool(n, negative, size, stride, 0, 1, ceil_mode, False))
    powers = TABLE.pow(_in_wide(input), norm_type)
    total = TABLE.mul(_avg_pool(n, powers, size, stride, 0, ceil_mode, True, None), numel(size))
    positive = TABLE.mul(TABLE.sign(total), TABLE.relu(TABLE.abs(total)))
    return cast(TABLE.pow(positive, 1.0 / norm_type), input.dtype)


@public("nn.functional")
def lp_pool1d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Norms of windows over (N, C, L) or (C, L): (sum of x ** p) ** (1 / p)."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@public("nn.functional")
def lp_pool2d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Norms of windows over (N, C, H, W) or (C, H, W): (sum of x ** p) ** (1 / p)."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@public("nn.functional")
def lp_pool3d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Norms of windows over (N, C, D, H, W) or (C, D, H, W): (sum of x ** p) ** (1 / p)."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


# ---------------------------------------------------------------------------------------------
# adaptive


def _output_sizes(output_size: Any, sizes: Shape, function: str) -> Shape:
    """The wanted sizes; None keeps a dim."""
    n = len(sizes)
    if output_size is None or is_integer(output_size):
        output_size = (output_size,) * n
    if len(output_size) != n:
        raise ShapeError(
            f"{function}: expected output_size to be a number or {n} of them, but got "
            f"{list(output_size)}."
        )
    wanted = tuple(
        size if entry is None else size_argument(entry, function)
        for entry, size in zip(output_size, sizes, strict=True)
    )
    require_range(wanted, 0, "elements of output_size", function)
    if any(size == 0 for size in sizes):
        raise ShapeError(
            f"{function}: Expected input to have non-zero size for non-batch dimensions, but got "
            f"sizes {list(sizes)}."
        )
    return wanted


def _is_nothing(wanted: Shape) -> bool:
    return any(isinstance(k, int) and k == 0 for k in wanted)


def _empty(x: "TensorMethods", wanted: Shape, dtype: Any) -> Any:
    """No windows of x (N, C, *sizes); a gradient of them is zeros."""
    start = TABLE.slice(
        x,
        start=(0,) * len(x.shape),
        stop=(*x.shape[:2], *(0 for _ in wanted)),
        step=(1,) * len(x.shape),
    )
    return cast(TABLE.reshape(start, shape=(*x.shape[:2], *wanted)), dtype)


def _is_even(sizes: Shape, wanted: Shape) -> bool:
    """Whether windows are known to lie side by side."""
    return all(
        isinstance(n, int) and isinstance(k, int) and k != 0 and n % k == 0
        for n, k in zip(sizes, wanted, strict=True)
    )


def _even_geometry(sizes: Shape, wanted: Shape) -> tuple[tuple[int, ...], Geometry]:
    """Windows side by side."""
    size = tuple(int(n // k) for n, k in zip(sizes, wanted, strict=True))
    n = len(size)
    return size, Geometry(size, (0,) * n, (0,) * n, (1,) * n)


class _Windows(NamedTuple):
    """Windows of equal width along one dim, of which shorter ones repeat their last element.

    Args:
        numbers: what the others are made with, see `ops.calls.positions`.
        number, width: how many, and of how many elements.
        first: per window, where it begins.
        positions, real: where its elements are, and which do not repeat another one; both
            (number, width).
    """

    numbers: Any
    number: Size
    width: Size
    first: Any
    positions: Any
    real: Any

    def flat(self, part: Any) -> Any:
        """Numbers of one window after the other."""
        return self.numbers.reshape(part, self.number * self.width)

    def over(self, part: Any, rest: int) -> Any:
        """The same as a tensor, in front of `rest` dims."""
        return self.numbers.reshape(part, part.shape[0] * part.shape[1], *((1,) * rest))


def _uneven_windows(length: Size, count: Size, device: Any) -> _Windows:
    """Windows over a dim of `length` elements.

    Source: window i is [floor(i n / k), ceil((i + 1) n / k)), as in PyTorch.
    """
    m = numbers_for(device, length, count)
    index, n, k = m.arange(count), m.count(length), m.count(count)
    start, stop = index * n // k, -((index + 1) * -n // k)
    if isinstance(length, int) and isinstance(count, int):
        width: Size = int((stop - start).max(initial=1))
    elif isinstance(count, int) and count == 1:
        width = length
    elif isinstance(count, int):
        width = (length + count - 2) // count + 1
    else:
        width = length // count + 2
    stop = m.reshape(stop, count, 1)
    positions = m.reshape(start, count, 1) + m.reshape(m.arange(width), 1, width)
    return _Windows(m, count, width, start, m.minimum(positions, stop - 1), positions < stop)


def _with_even_windows(x: "TensorMethods", wanted: Shape) -> tuple[Any, list[_Windows]]:
    """x with its last dims made of `wanted` windows of equal width, and these."""
    found = []
    for d, count in enumerate(wanted):
        windows = _uneven_windows(x.shape[2 + d], count, x.device)
        where = windows.numbers.tensor(windows.flat(windows.positions), x.device)
        x = TABLE.index_select(x, where, dim=2 + d)
        found.append(windows)
    return x, found


def _apart(picked: Any, windows: Sequence[_Windows]) -> Any:
    """(N, C, *(count * width)) with counts and widths in dims of their own."""
    shape = [n for part in windows for n in (part.number, part.width)]
    return TABLE.reshape(picked, shape=(*tuple(picked.shape)[:2], *shape))


def _in_apart(n: int) -> tuple[int, ...]:
    """The dims of n widths in `_apart`."""
    return tuple(range(3, 3 + 2 * n, 2))


def _sums(picked: Any, windows: Sequence[_Windows]) -> Any:
    """Sums of windows (N, C, *(count * width))."""
    sizes, wanted = tuple(picked.shape)[2:], tuple(part.number for part in windows)
    if _is_even(sizes, wanted):
        size, geometry = _even_geometry(sizes, wanted)
        return TABLE.sum_pool(picked, size=size, **geometry.attributes())
    return TABLE.sum(_apart(picked, windows), dim=_in_apart(len(windows)), keepdim=False)


def _largest_in_windows(x: "TensorMethods", wanted: Shape) -> tuple[Any, Any]:
    """The largest elements of windows, and their row-major positions, where sizes are symbolic."""
    picked, windows = _with_even_windows(x, wanted)
    n, sizes, lead = len(wanted), tuple(x.shape)[2:], tuple(x.shape)[:2]
    rest = TABLE.argmax(_apart(picked, windows), dim=_in_apart(n), keepdim=False)
    within: list[Any] = []
    for part in reversed(windows):
        width = count_operand(TABLE, part.width)
        within.insert(0, TABLE.remainder(rest, width))
        rest = TABLE.floor_divide(rest, width)
    total: Any = 0
    for d, part in enumerate(windows):
        m = part.numbers
        first = m.tensor(m.reshape(part.first, part.number, *((1,) * (n - 1 - d))), x.device)
        total = TABLE.mul(total, count_operand(TABLE, sizes[d])) if d else total
        total = TABLE.add(TABLE.add(within[d], first), total)
    chosen = TABLE.reshape(total, shape=(*lead, numel(wanted)))
    values = TABLE.gather(TABLE.reshape(x, shape=(*lead, numel(sizes))), chosen, dim=2)
    return TABLE.reshape(values, shape=(*lead, *wanted)), total


def _adaptive_avg_pool(n: int, input: Any, output_size: Any) -> Any:
    function = f"adaptive_avg_pool{n}d"

    def run(x: "TensorMethods") -> Any:
        sizes = tuple(x.shape)[2:]
        wanted = _output_sizes(output_size, sizes, function)
        if _is_nothing(wanted):
            return _empty(x, wanted, x.dtype)
        if all(isinstance(k, int) and k == 1 for k in wanted):
            return cast(TABLE.mean(_in_wide(x), dim=tuple(range(2, n + 2)), keepdim=True), x.dtype)
        if _is_even(sizes, wanted):
            size, geometry = _even_geometry(sizes, wanted)
            total = TABLE.sum_pool(_in_wide(x), size=size, **geometry.attributes())
            return cast(TABLE.div(total, numel(size)), x.dtype)
        picked, windows = _with_even_windows(_in_wide(x), wanted)
        for d, part in enumerate(windows):
            mask = part.numbers.tensor(part.over(part.real, n - 1 - d), x.device)
            picked = TABLE.where(mask, picked, 0.0)
        total = _sums(picked, windows)
        for d, part in enumerate(windows):
            count = part.over(part.numbers.sum(part.real, 1), n - 1 - d)
            total = TABLE.div(total, part.numbers.tensor(count, x.device))
        return cast(total, x.dtype)

    return batched(input, n, function, lambda x: _laid_out(run(x), x), function)


def _laid_out(result: Any, x: Any) -> Any:
    """Channels last as x, but in three dims."""
    if len(x.shape) > 4:
        return contiguous(result)
    return as_suggested(result, x, rows=True)


@public(out=Out.ABSENT)
@public("nn.functional")
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """Means of `output_size` windows over (N, C, L) or (C, L)."""
    return _adaptive_avg_pool(1, input, output_size)


@public("nn.functional")
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Means of `output_size` windows over (N, C, H, W) or (C, H, W)."""
    return _adaptive_avg_pool(2, input, output_size)


@public("nn.functional")
@autocast(cpu=Autocast.FULL)
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Means of `output_size` windows over (N, C, D, H, W) or (C, D, H, W)."""
    return _adaptive_avg_pool(3, input, output_size)


def _adaptive_max_pool(n: int, input: Any, output_size: Any, return_indices: bool) -> Any:
    function = f"adaptive_max_pool{n}d"

    def run(x: "TensorMethods") -> Any:
        sizes = tuple(x.shape)[2:]
        wanted = _output_sizes(output_size, sizes, function)
        if _is_nothing(wanted):
            values = _empty(x, wanted, x.dtype)
            return (values, _empty(x, wanted, dtypes.int64)) if return_indices else values
        if not all(isinstance(size, int) for size in (*sizes, *wanted)):
            values, places = _largest_in_windows(x, wanted)
            return (_laid_out(values, x), places) if return_indices else _laid_out(values, x)
        positions: list[np.ndarray] = []
        pooled = x
        if not _is_even(sizes, wanted):
            pooled, windows = _with_even_windows(x, wanted)
            positions = [part.positions for part in windows]
        size, geometry = _even_geometry(tuple(pooled.shape)[2:], wanted)
        values = TABLE.max_pool(pooled, size=size, **geometry.attributes())
        if not return_indices:
            return _laid_out(values, x)
        choice = TABLE.max_pool_choice(pooled, size=size, **geometry.attributes())
        flat = _flat_positions(choice, tuple(pooled.shape)[2:], size, geometry)
        places = _original(flat, tuple(pooled.shape)[2:], sizes, positions)
        return _laid_out(values, x), _laid_out(places, x)

    return batched(input, n, function, run, function)


def _original(flat: Any, sizes: Shape, old: Shape, positions: list[np.ndarray]) -> Any:
    """Row-major positions in an input, from those in what was picked of it."""
    if not positions:
        return flat
    total: Any = None
    for d, where in enumerate(positions):
        inner = numel(sizes[d + 1 :])
        here = TABLE.remainder(TABLE.floor_divide(flat, inner), sizes[d])
        count = numel(tuple(here.shape))
        found = TABLE.index_select(
            constant(where.reshape(-1), flat.device), TABLE.reshape(here, shape=(count,)), dim=0
        )
        found = TABLE.reshape(found, shape=tuple(here.shape))
        total = found if total is None else TABLE.add(TABLE.mul(total, old[d]), found)
    return total


@public("nn.functional")
def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Largest elements of `output_size` windows over (N, C, L) or (C, L)."""
    return _adaptive_max_pool(1, input, output_size, return_indices)


@public("nn.functional")
def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Largest elements of `output_size` windows over (N, C, H, W) or (C, H, W)."""
    return _adaptive_max_pool(2, input, output_size, return_indices)


@public("nn.functional")
@autocast(cpu=Autocast.FULL)
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Largest elements of `output_size` windows over (N, C, D, H, W) or (C, D, H, W)."""
    return _adaptive_max_pool(3, input, output_size, return_indices)


# ---------------------------------------------------------------------------------------------
# the reverse of a maximum pool


def _max_unpool(
    n: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any,
    output_size: Any,
) -> Any:  # fmt: skip
    function = f"max_unpool{n}d"
    require_tensor(indices, function, "indices")
    size = per_dim(kernel_size, n, "kernel_size", function)
    steps = size if stride is None else per_dim(stride, n, "stride", function)
    edges = per_dim(padding, n, "padding", function)
    sizes = tuple(input.shape)[len(input.shape) - n :]
    if output_size is None:
        shape: Shape = tuple(
            (count - 1) * step - 2 * edge + width
            for count, step, edge, width in zip(sizes, steps, edges, size, strict=True)
        )
    else:
        shape = integers(output_size, function)[-n:]
    if not shapes_agree(indices.shape, input.shape):
        raise ShapeError(
            f"{function}: Expected shape of indices to be same as that of the input tensor "
            f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}."
        )
    lead = tuple(input.shape)[: len(input.shape) - n]
    if any(length < 1 for length in shape):
        raise ShapeError(f"{function}: the output size {list(shape)} is not positive.")
    zeros = TABLE.full(0, shape=(*lead, numel(shape)), dtype=input.dtype, device=input.device)
    flat = (*lead, numel(sizes))
    placed = TABLE.scatter(
        zeros, TABLE.reshape(indices, shape=flat), TABLE.reshape(input, shape=flat), dim=len(lead)
    )
    result = TABLE.reshape(placed, shape=(*lead, *shape))
    return as_suggested(result, input) if n < 3 else contiguous(result)


@public("nn.functional")
@autocast(cpu=Autocast.FULL)
def max_unpool1d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """Elements put where `max_pool1d` found them; zero elsewhere."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@public("nn.functional")
@autocast(cpu=Autocast.FULL)
def max_unpool2d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """Elements put where `max_pool2d` found them; zero elsewhere."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@public("nn.functional")
@autocast(cpu=Autocast.FULL)
def max_unpool3d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """Elements put where `max_pool3d` found them; zero elsewhere."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
