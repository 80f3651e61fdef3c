"""Max pools over windows whose places are partly random, as of `torch.nn.functional`.

Contract: tensors in, tensors out. Windows have one size; the steps between them differ, and their
mean is a fraction. Symbolic sizes are decided by the present call and guarded.
`dynajit.nn.functional` publishes them.

Source: B. Graham, "Fractional Max-Pooling", arXiv:1412.6071; the pseudorandom sequence of places
and the order of the samples are PyTorch's.
"""

from typing import TYPE_CHECKING, Any

from dynajit.core.errors import InvalidValueError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.symint import equals, fits_within, shapes_agree
from dynajit.core.types.value_types import Shape, Size, numel
from dynajit.ops.calls.arguments import cast, require_tensor
from dynajit.ops.calls.positions import scaled
from dynajit.ops.calls.public import public
from dynajit.ops.functions.creation.creation import rand
from dynajit.ops.functions.networks.convolution import batched, per_dim, require_range
from dynajit.ops.functions.reductions.reduction import argmax
from dynajit.ops.rows.composites import count_operand
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


@public("nn.functional")
def fractional_max_pool2d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """Largest elements of windows over (N, C, H, W) or (C, H, W), with their positions in H * W if
    asked for.

    Args:
        kernel_size: size of the windows.
        output_size: how many windows there are per dim.
        output_ratio: instead of it, a share of the input's sizes.
        _random_samples: within [0, 1), (N, C, 2), for width and height; drawn if None.

    Raises:
        InvalidValueError: neither a size nor a ratio.
        ShapeError: windows do not fit, or the samples.
    """
    return _pool(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@public("nn.functional")
def fractional_max_pool3d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """`fractional_max_pool2d` over (N, C, D, H, W) or (C, D, H, W); the samples are (N, C, 3), for
    depth, height and width."""
    return _pool(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@public("nn.functional")
def fractional_max_pool2d_with_indices(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """`fractional_max_pool2d` with positions, whatever `return_indices` says."""
    return _pool(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


@public("nn.functional")
def fractional_max_pool3d_with_indices(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """`fractional_max_pool3d` with positions, whatever `return_indices` says."""
    return _pool(3, input, kernel_size, output_size, output_ratio, True, _random_samples)


def _pool(
    n: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any,
    return_indices: bool, samples: Any,
) -> Any:  # fmt: skip
    function = f"fractional_max_pool{n}d"
    require_tensor(input, function)
    if output_size is None and output_ratio is None:
        raise InvalidValueError(
            f"{function} requires specifying either an output_size or an output_ratio"
        )
    widths = per_dim(kernel_size, n, "kernel_size", function)
    require_range(widths, 1, "kernel size", function, "should be")

    def run(x: "TensorMethods") -> Any:
        sizes = tuple(x.shape[2:])
        counts = _counts(sizes, output_size, output_ratio, function)
        _check_fit(sizes, counts, widths, function)
        places = _samples(x, n, samples)
        # PyTorch's samples of a plane are for the width first, those of a volume for the depth.
        order = (1, 0) if n == 2 else (0, 1, 2)
        starts = [
            _starts(TABLE.select(places, dim=2, index=order[d]), sizes[d], counts[d], widths[d])
            for d in range(n)
        ]
        values, positions = _largest(x, starts, sizes, widths)
        return (values, positions) if return_indices else values

    return batched(input, n, function, run, function)


def _counts(sizes: Shape, output_size: Any, output_ratio: Any, function: str) -> Shape:
    if output_size is not None:
        counts = per_dim(output_size, len(sizes), "output_size", function)
        require_range(counts, 0, "output size", function, "should be")
        return counts
    is_one = isinstance(output_ratio, (int, float))
    ratios = (output_ratio,) * len(sizes) if is_one else tuple(output_ratio)
    if len(ratios) != len(sizes):
        raise InvalidValueError(
            f"{function}: expected output_ratio to be a number or {len(sizes)} of them, but got "
            f"{list(ratios)}"
        )
    return tuple(scaled(size, float(ratio)) for size, ratio in zip(sizes, ratios, strict=True))


def _check_fit(sizes: Shape, counts: Shape, widths: tuple[int, ...], function: str) -> None:
    if any(equals(size, 0) for size in sizes):
        raise ShapeError(
            f"{function}: Expected input to have non-zero size for non-batch dimensions, but got "
            f"sizes {list(sizes)}."
        )
    # PyTorch asks for one element more of volumes.
    spare = len(sizes) - 2
    for size, count, width in zip(sizes, counts, widths, strict=True):
        if not fits_within(count + width - 1 + spare, size):
            raise ShapeError(
                f"{function}: {count} windows of {width} are too large relative to the input's "
                f"size {size}.  Expected output_size + kernel_size - 1 <= {size - spare}."
            )


def _samples(x: "TensorMethods", n: int, samples: Any) -> Any:
    """(N, C, n) numbers within [0, 1)."""
    batch, channels = x.shape[:2]
    if samples is None:
        return rand(batch, channels, n, dtype=x.dtype, device=x.device)
    function = f"fractional_max_pool{n}d"
    require_tensor(samples, function, "_random_samples")
    shape = tuple(samples.shape)
    if samples.dtype != x.dtype:
        raise ShapeError(
            f"{function}: Expect _random_samples to have the same dtype as input, got "
            f"{samples.dtype.name} and {x.dtype.name}."
        )
    fits = len(shape) == 3 and fits_within(batch, shape[0])
    if not fits or not shapes_agree(shape[1:], (channels, n)):
        raise ShapeError(
            f"{function}: Expect _random_samples to have the sizes {[batch, channels, n]}, got "
            f"{list(shape)}."
        )
    if equals(shape[0], batch):
        return samples
    return TABLE.slice(samples, start=(0, 0, 0), stop=(batch, channels, n), step=(1, 1, 1))


def _starts(samples: Any, size: Size, count: Size, width: int) -> Any:
    """Where `count` windows begin per plane: int64 (N, C, count). The last one ends with the dim.

    In the dtype of the samples, as PyTorch computes: rounding decides about places.
    """
    lead = tuple(samples.shape)
    device = samples.device
    room = count_operand(TABLE, size - width)
    few = min(count, 1) if isinstance(count, int) else 1
    last = TABLE.full(room, shape=(*lead, few), dtype=dtypes.int64, device=device)
    if count <= 1:
        return last
    step = TABLE.div(
        TABLE.full(room, shape=(), dtype=samples.dtype, device=device),
        TABLE.full(count_operand(TABLE, count - 1), shape=(), dtype=samples.dtype, device=device),
    )
    index = TABLE.arange(0, 1, size=count - 1, dtype=dtypes.int64, device=device)
    sample = TABLE.reshape(samples, shape=(*lead, 1))
    moved = cast(TABLE.mul(TABLE.add(cast(index, samples.dtype), sample), step), dtypes.int64)
    first = cast(TABLE.mul(sample, step), dtypes.int64)
    return TABLE.cat(TABLE.sub(moved, first), last, dim=2)


def _largest(
    x: "TensorMethods", starts: list[Any], sizes: Shape, widths: tuple[int, ...]
) -> tuple[Any, Any]:
    """(values, positions within the last dims), each (N, C, *counts)."""
    lead = tuple(x.shape)[:2]
    counts = tuple(start.shape[2] for start in starts)
    flat: Any = None
    for d, start in enumerate(starts):
        inner = TABLE.arange(0, 1, size=widths[d], dtype=dtypes.int64, device=x.device)
        at = TABLE.add(TABLE.reshape(start, shape=(*lead, counts[d], 1)), inner)
        around: list[Size] = [1] * (2 * len(sizes))
        around[d], around[len(sizes) + d] = counts[d], widths[d]
        at = TABLE.reshape(at, shape=(*lead, *around))
        size = count_operand(TABLE, sizes[d])
        flat = at if flat is None else TABLE.add(TABLE.mul(flat, size), at)
    windows, inside = numel(counts), numel(widths)
    flat = TABLE.reshape(flat, shape=(*lead, windows * inside))
    elements = TABLE.gather(TABLE.reshape(x, shape=(*lead, numel(sizes))), flat, dim=2)
    elements = TABLE.reshape(elements, shape=(*lead, windows, inside))
    choice = _choice(elements)
    at = TABLE.gather(TABLE.reshape(flat, shape=(*lead, windows, inside)), choice, dim=3)
    return (
        TABLE.reshape(TABLE.gather(elements, choice, dim=3), shape=(*lead, *counts)),
        TABLE.reshape(at, shape=(*lead, *counts)),
    )


def _choice(elements: Any) -> Any:
    """The first of the largest along the last dim, or the last NaN, as int64."""
    largest = argmax(TABLE.detach(elements), -1, keepdim=True)
    order = TABLE.arange(0, 1, size=elements.shape[-1], dtype=dtypes.int64, device=elements.device)
    nans = TABLE.where(TABLE.isnan(elements), order, -1)
    last = TABLE.amax(nans, dim=(len(elements.shape) - 1,), keepdim=True)
    return TABLE.where(TABLE.ge(last, 0), last, largest)
