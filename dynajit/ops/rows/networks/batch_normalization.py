"""Normalisation over the batch: the row `batch_norm`, its array form, and the functions over it.

Contract: statistics are per channel (dim 1), over all other dims. Sums are float64, whatever the
input; deviations, and what becomes of an element, are computed in its dtype (float32 for 16-bit
floats), with a product and its sum rounded once: for float32 on a CPU PyTorch's bits where there
are dims beyond the channel's. What is written into running statistics is not decided here:
functions give new values, `nn.statistics` writes them.
"""

import math
from typing import Any

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import (
    DTypeNotImplementedError,
    InvalidValueError,
    ShapeError,
    ShapeValueError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.symint import agree
from dynajit.core.types.value_types import Shape, TensorType, ValueType, numel
from dynajit.ops.calls.arguments import cast, with_integers
from dynajit.ops.calls.dtypes_of_operands import require_parameters
from dynajit.ops.calls.placing import as_suggested
from dynajit.ops.calls.public import public
from dynajit.ops.native import _native_batch_norm
from dynajit.ops.native._vecmath import fma, squares_wide, sum_wide
from dynajit.ops.rows.array_forms import is_plain
from dynajit.ops.rows.composites import (
    count_operand,
    floating_tensor,
    narrow,
    require_floating,
    wide,
)
from dynajit.ops.table import result_layouts, sample_rules
from dynajit.ops.table.families import composite, operand_type
from dynajit.ops.table.op_table import TABLE


def _statistics_dims(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank))


def _per_channel(ops: Any, value: Any, rank: int) -> Any:
    """A value per channel (C), shaped to broadcast along dim 1."""
    return ops.reshape(value, shape=(1, *value.shape, *((1,) * (rank - 2))))


def _batch_norm_infer(
    x: ValueType | None, weight: ValueType | None, bias: ValueType | None, *, eps: float
) -> TensorType:
    type = floating_tensor("batch_norm", x)
    if type.rank < 2:
        raise ShapeError(f"batch_norm(x: {type}): expected at least 2 dimensions.")
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None:
            require_channels(type, given.shape, name)
    return type.with_shape(type.shape)


def require_channels(x: TensorType, shape: Any, name: str) -> None:
    """Refuse what has not one element per channel of x.

    Raises:
        ShapeError: the shape is not (C,), or x has no channels.
    """
    if len(x.shape) < 2:
        raise ShapeError(f"batch_norm: expected at least 2 dimensions, but got {len(x.shape)}.")
    if len(shape) != 1 or not agree(shape[0], x.shape[1]):
        raise ShapeError(
            f"batch_norm: {name} should contain {x.shape[1]} elements not {numel(tuple(shape))}."
        )


# ---------------------------------------------------------------------------------------------
# sums per channel

# Fewer elements side by side than this are copied to where those of a channel follow each other:
# a line costs 20 ns.
_SHORT = 200


def _is_summed_here(x: np.ndarray) -> bool:
    return is_plain(x) and x.ndim >= 2 and not gpu.is_gpu_array(x)


def _added(x: np.ndarray, center: Any = None) -> Any:
    """Sum per channel, float64, of x, or of the squares of x - center."""
    if math.prod(x.shape[2:]) == 1:
        values = x.reshape(x.shape[:2])
        values = values if center is None else np.square(values - center)
        return values.sum(0, dtype=np.float64)
    lines = x.reshape(*x.shape[:2], -1)
    if lines.shape[2] < _SHORT:
        lines = lines.swapaxes(0, 1).reshape(1, x.shape[1], -1)
    return (sum_wide(lines) if center is None else squares_wide(lines, center)).sum(0)


def _sum_form(xp: Any, x: Any) -> Any:
    """Form of `channel_sum`."""
    return _added(x) if _is_summed_here(x) else NotImplemented


def _squares_form(xp: Any, x: Any, center: Any) -> Any:
    """Form of `channel_squares`."""
    if not _is_summed_here(x) or center.dtype is not x.dtype:
        return NotImplemented
    return _added(x, center)


@composite(array=_sum_form, native=_native_batch_norm.channel_sum, samples=sample_rules.by_channel)
def channel_sum(ops: Any, x: Any) -> Any:
    """Sum per channel (C), float64, of x (N, C, *), which is floating."""
    require_floating("channel_sum", x)
    return ops.sum(ops.cast(x, dtype=dtypes.float64), dim=_statistics_dims(len(x.shape)))


@composite(
    array=_squares_form, native=_native_batch_norm.channel_squares, samples=sample_rules.by_channel
)
def channel_squares(ops: Any, x: Any, center: Any) -> Any:
    """Sum per channel (C), float64, of the squares of x - center, in the dtype of x, which is
    floating: x (N, C, *), center (C)."""
    require_floating("channel_squares", x)
    deviation = x - _per_channel(ops, center, len(x.shape))
    return ops.channel_sum(deviation * deviation)


# ---------------------------------------------------------------------------------------------
# the row


def _count(ops: Any, x: Any) -> Any:
    return count_operand(ops, numel((x.shape[0], *x.shape[2:])))


def _statistics(ops: Any, x: Any) -> tuple[Any, Any]:
    """Mean, and sum of squared deviations from it, per channel (C) and in the dtype of x, which is
    wide."""
    mean = narrow(ops, ops.channel_sum(x) / _count(ops, x), x.dtype)
    return mean, narrow(ops, ops.channel_squares(x, mean), x.dtype)


def _scale(ops: Any, squares: Any, count: Any, eps: float) -> Any:
    """1 / sqrt(variance + eps), in float64 and rounded at the end, of the sum of squares."""
    variance = ops.cast(squares / count, dtype=dtypes.float64)
    return narrow(ops, ops.rsqrt(variance + eps), squares.dtype)


def _scaled(ops: Any, x: Any, mean: Any, scale: Any, weight: Any, bias: Any) -> Any:
    """(x - mean) * scale * weight + bias, per channel (C), as one product and one sum."""
    rank = len(x.shape)
    factor = scale if weight is None else scale * wide(ops, weight)
    term = -(mean * factor) if bias is None else ops.fma(-mean, factor, wide(ops, bias))
    return ops.fma(x, _per_channel(ops, factor, rank), _per_channel(ops, term, rank))


def _along(ops: Any, g: Any, x: Any, mean: Any) -> Any:
    """Sum per channel (C), float64, of g times the deviation."""
    return ops.channel_sum(g * (x - _per_channel(ops, mean, len(x.shape))))


def _vjp_x(ops: Any, g: Any, x: Any, weight: Any, eps: float) -> Any:
    g, x = wide(ops, g), wide(ops, x)
    rank, count = len(x.shape), _count(ops, x)
    mean, squares = _statistics(ops, x)
    scale = _scale(ops, squares, count, eps)
    slope = narrow(ops, _along(ops, g, x, mean), x.dtype) * scale * scale / count
    level = narrow(ops, ops.channel_sum(g) / count, x.dtype)
    deviation = x - _per_channel(ops, mean, rank)
    rest = ops.fma(-deviation, _per_channel(ops, slope, rank), g - _per_channel(ops, level, rank))
    factor = scale if weight is None else scale * wide(ops, weight)
    return rest * _per_channel(ops, factor, rank)


def _vjp_weight(ops: Any, g: Any, x: Any, eps: float) -> Any:
    g, x = wide(ops, g), wide(ops, x)
    mean, squares = _statistics(ops, x)
    scale = _scale(ops, squares, _count(ops, x), eps)
    return narrow(ops, _along(ops, g, x, mean) * scale, x.dtype)


def _vjp_bias(ops: Any, g: Any) -> Any:
    g = wide(ops, g)
    return narrow(ops, ops.channel_sum(g), g.dtype)


def _form(xp: Any, x: Any, weight: Any, bias: Any, *, eps: float) -> Any:
    """Form of `batch_norm`."""
    if not _is_summed_here(x):
        return NotImplemented
    for parameter in (weight, bias):
        if parameter is not None and (
            parameter.dtype is not x.dtype or parameter.shape != (x.shape[1],)
        ):
            return NotImplemented
    count = x.size // x.shape[1]
    mean = (_added(x) / count).astype(x.dtype)
    squares = _added(x, mean).astype(x.dtype)
    variance = (squares / x.dtype.type(count)).astype(np.float64)
    scale = (1.0 / np.sqrt(variance + eps)).astype(x.dtype)
    factor = scale if weight is None else scale * weight
    term = -(mean * factor) if bias is None else fma(-mean, factor, bias)
    shape = (-1, *((1,) * (x.ndim - 2)))
    return fma(x, factor.reshape(shape), term.reshape(shape))


@composite(
    infer=_batch_norm_infer,
    array=_form,
    vjp={"x": _vjp_x, "weight": _vjp_weight, "bias": _vjp_bias},
    native=_native_batch_norm.batch_norm,
    slopes={"x": _native_batch_norm.slope_x, "weight": _native_batch_norm.slope_weight},
    layout=result_layouts.suggested,
    samples=sample_rules.by_channel,
)
def batch_norm(ops: Any, x: Any, weight: Any, bias: Any, *, eps: float) -> Any:
    """x (N, C, *) with mean 0 and (biased) variance 1 per channel, times weight plus bias (C) or
    None.

    Source: S. Ioffe and C. Szegedy, "Batch Normalization", arXiv:1502.03167.
    """
    _batch_norm_infer(*map(operand_type, (x, weight, bias)), eps=eps)
    w = wide(ops, x)
    mean, squares = _statistics(ops, w)
    scale = _scale(ops, squares, _count(ops, w), eps)
    return narrow(ops, _scaled(ops, w, mean, scale, weight, bias), x.dtype)


# ---------------------------------------------------------------------------------------------
# functions


def normalized_by_batch(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    """The row on an input with more than one value per channel.

    Raises:
        InvalidValueError: there is only one value, whose variance says nothing.
    """
    require_parameters("batch_norm", input, weight=weight, bias=bias)
    count = numel((input.shape[0], *input.shape[2:]))
    if count == 1:
        raise InvalidValueError(
            f"batch_norm: Expected more than 1 value per channel when training, got input size "
            f"{list(input.shape)}."
        )
    if isinstance(count, int) and count == 0:  # of no values there are no statistics
        zero = TABLE.full(0, shape=(input.shape[1],), dtype=input.dtype, device=input.device)
        return _normalized_by(input, zero, zero, weight, bias, eps)
    return TABLE.batch_norm(input, weight, bias, eps=float(eps))


def normalized_by(input: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    """(input - mean) / sqrt(var + eps) * weight + bias, all but the input per channel.

    Raises:
        ShapeError: something has not one element per channel.
        DTypeError: the input is not floating, or something has another dtype.
    """
    require_floating("batch_norm", input)
    require_parameters(
        "batch_norm", input, running_mean=mean, running_var=var, weight=weight, bias=bias
    )
    return _normalized_by(input, mean, var, weight, bias, eps)


def _normalized_by(input: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    given = {"running_mean": mean, "running_var": var, "weight": weight, "bias": bias}
    for name, value in given.items():
        if value is not None:
            require_channels(input, value.shape, name)
    scale = TABLE.rsqrt(TABLE.add(wide(TABLE, var), float(eps)))
    scaled = _scaled(TABLE, wide(TABLE, input), wide(TABLE, mean), scale, weight, bias)
    return as_suggested(cast(scaled, input.dtype), input)


def moved_statistics(
    input: Any, running_mean: Any, running_var: Any, momentum: Any, per_instance: bool = False
) -> tuple[Any, Any]:
    """What the running statistics become: (1 - momentum) of the old plus momentum of the batch's
    mean and unbiased variance; the old of an empty batch. Either may be None. Records no history.

    Args:
        momentum: a number, or a zero-dim tensor.
        per_instance: statistics of every instance apart, averaged over the batch.

    Raises:
        ShapeError: a running statistic has not one element per channel.
        DTypeError: one has another dtype than the input.
    """
    require_parameters("batch_norm", input, running_mean=running_mean, running_var=running_var)
    for running in (running_mean, running_var):
        if running is not None:
            require_channels(input, running.shape, "running statistics")
    if numel(tuple(input.shape)) == 0:
        return running_mean, running_var
    x = wide(TABLE, TABLE.detach(input))
    if per_instance:
        dims = tuple(range(2, len(input.shape)))
        mean = TABLE.mean(x, dim=dims, keepdim=False)
        var = TABLE.var(x, dim=dims, keepdim=False, correction=1)
        mean, var = (TABLE.mean(each, dim=(0,), keepdim=False) for each in (mean, var))
    else:
        mean, squares = _statistics(TABLE, x)
        var = TABLE.div(squares, _count(TABLE, x) - 1)
    new_mean = _moved(running_mean, mean, momentum, lambda x, y, z: TABLE.add(TABLE.mul(x, y), z))
    return new_mean, _moved(running_var, var, momentum, TABLE.fma)


def _moved(running: Any, batch: Any, momentum: Any, fma: Any) -> Any:
    """momentum * batch + (1 - momentum) * running, in the dtype of the latter, which may be None.

    Args:
        fma: x * y + z, rounded twice for the mean and once for the variance: as PyTorch's.
    """
    if running is None:
        return None
    # Two numbers would make a float32 tensor.
    rest = 1.0 - momentum if isinstance(momentum, (int, float)) else TABLE.sub(1.0, momentum)
    old = TABLE.mul(wide(TABLE, running), rest)
    return cast(fma(batch, momentum, old), running.dtype)


def averaging_factor(count: Any) -> Any:
    """1 / count, the momentum of a cumulative average; float32."""
    return TABLE.reciprocal(cast(count, dtypes.float32))


def normalized_by_instance(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Mean 0 and variance 1 over all dims from 2 on, times weight plus bias per channel: every
    channel of an instance is one of a batch of one.

    Raises:
        InvalidValueError: there is only one element to normalise.
    """
    shape: Shape = tuple(input.shape)
    count = numel(shape[2:])
    if len(shape) < 3 or count == 1:
        raise InvalidValueError(
            "instance_norm: Expected more than 1 spatial element when training, got input size "
            f"{list(shape)}."
        )
    require_parameters("instance_norm", input, weight=weight, bias=bias)
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            require_channels(input, value.shape, name)
    whole = (1, numel(shape[:2]), *shape[2:])
    weight, bias = (_repeated(each, shape[0]) for each in (weight, bias))
    unit = TABLE.batch_norm(TABLE.reshape(input, shape=whole), weight, bias, eps=float(eps))
    return TABLE.reshape(unit, shape=shape)


def _repeated(value: Any, count: Any) -> Any:
    """A value per channel (C) for every instance, (count * C); None stays None."""
    if value is None:
        return None
    size = value.shape[0]
    return TABLE.reshape(TABLE.expand(value, shape=(count, size)), shape=(numel((count, size)),))


@public("nn.functional")
@with_integers
def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """input / (k + alpha * mean of squares over `size` neighbouring channels) ** beta.

    Source: A. Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural
    Networks" (2012), 3.3.
    """
    shape = tuple(input.shape)
    if len(shape) < 3:
        raise ShapeValueError(
            f"local_response_norm: Expected 3D or higher dimensionality input (got {len(shape)} "
            "dimensions)."
        )
    dtype = input.dtype
    whole = dtype is dtypes.int64
    if not (whole or dtype.is_floating_point):
        raise DTypeNotImplementedError(
            f"local_response_norm: not available for {dtype.name}.  Cast it with .float()."
        )
    if any(n == 0 for n in shape):
        return input
    x = wide(TABLE, input)
    squares = TABLE.reshape(TABLE.mul(x, x), shape=(*shape[:2], numel(shape[2:])))
    total = TABLE.sum_pool(
        squares, size=(size, 1), stride=(1, 1), before=(size // 2, 0), after=((size - 1) // 2, 0),
        dilation=(1, 1),
    )  # fmt: skip
    share = TABLE.floor_divide(total, size) if whole else TABLE.div(total, size)
    mean = TABLE.reshape(share, shape=shape)
    divisor = TABLE.pow(TABLE.add(TABLE.mul(mean, float(alpha)), float(k)), float(beta))
    return cast(TABLE.div(x, divisor), None if whole else dtype)
