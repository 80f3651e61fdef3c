"""Normalisation over the batch: the row `batch_norm`, its array form, and the functions over it.

Contract: statistics are per channel (dim 1), over all other dims, in float32 for 16-bit floats,
with one rounding at the end. What is written into running statistics is not decided here: functions
give new values, `nn.statistics` writes them. Called by `nn.statistics` and `nn.functional`.
"""

import math
from typing import Any

from dynajit.core import dtypes
from dynajit.core.errors import InvalidValueError, ShapeError
from dynajit.core.symint import agree
from dynajit.core.types import Shape, TensorType, ValueType, numel
from dynajit.ops.arguments import cast
from dynajit.ops.array_forms import is_plain
from dynajit.ops.composites import (
    floating_tensor,
    narrow,
    operand_type,
    require_floating,
    standardized,
    wide,
)
from dynajit.ops.families import composite
from dynajit.ops.table import TABLE


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


def require_channels(x: Any, shape: Any, name: str) -> None:
    """Refuse what has not one element per channel of x.

    Raises:
        ShapeError: the shape is not (C,).
    """
    if len(shape) != 1 or not agree(shape[0], x.shape[1]):
        raise ShapeError(
            f"batch_norm: {name} should contain {x.shape[1]} elements not {numel(tuple(shape))}."
        )


def _vjp_x(ops: Any, g: Any, x: Any, weight: Any, eps: float) -> Any:
    dim = _statistics_dims(len(x.shape))
    unit, scale = standardized(ops, x, dim, eps)
    g = wide(ops, g)
    g = g if weight is None else g * _per_channel(ops, wide(ops, weight), len(x.shape))
    along = ops.mean(g * unit, dim=dim, keepdim=True)
    return scale * (g - ops.mean(g, dim=dim, keepdim=True) - unit * along)


def _vjp_weight(ops: Any, g: Any, x: Any, eps: float) -> Any:
    dim = _statistics_dims(len(x.shape))
    unit, _ = standardized(ops, x, dim, eps)
    return ops.sum(wide(ops, g) * unit, dim=dim)


def _vjp_bias(ops: Any, g: Any) -> Any:
    return ops.sum(wide(ops, g), dim=_statistics_dims(len(g.shape)))


def _form(xp: Any, x: Any, weight: Any, bias: Any, *, eps: float) -> Any:
    """Form of `batch_norm`."""
    if not is_plain(x) or x.ndim < 2:
        return NotImplemented
    for parameter in (weight, bias):
        if parameter is not None and (
            parameter.dtype is not x.dtype or parameter.shape != (x.shape[1],)
        ):
            return NotImplemented
    dims = _statistics_dims(x.ndim)
    count = math.prod([x.shape[d] for d in dims])
    total = TABLE.sum.rule.array
    result = x - total(xp, x, dim=dims, keepdim=True) / count
    scale = 1.0 / xp.sqrt(total(xp, result * result, dim=dims, keepdim=True) / count + eps)
    shape = (-1, *((1,) * (x.ndim - 2)))
    result *= scale if weight is None else scale * weight.reshape(shape)
    if bias is not None:
        result += bias.reshape(shape)
    return result


@composite(
    infer=_batch_norm_infer,
    array=_form,
    vjp={"x": _vjp_x, "weight": _vjp_weight, "bias": _vjp_bias},
)
def batch_norm(ops: Any, x: Any, weight: Any, bias: Any, *, eps: float) -> Any:
    """x (N, C, *) with mean 0 and (biased) variance 1 per channel, times weight plus bias (C) or
    None.

    Source: S. Ioffe and C. Szegedy, "Batch Normalization", arXiv:1502.03167.
    """
    _batch_norm_infer(*map(operand_type, (x, weight, bias)), eps=eps)
    rank = len(x.shape)
    unit, _ = standardized(ops, x, _statistics_dims(rank), eps)
    unit = unit if weight is None else unit * _per_channel(ops, wide(ops, weight), rank)
    unit = unit if bias is None else unit + _per_channel(ops, wide(ops, bias), rank)
    return narrow(ops, unit, x.dtype)


# ---------------------------------------------------------------------------------------------
# functions


def normalized_by_batch(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    """The row on an input with more than one value per channel.

    Raises:
        InvalidValueError: there is only one value, whose variance says nothing.
    """
    count = numel((input.shape[0], *input.shape[2:]))
    if count == 1:
        raise InvalidValueError(
            f"batch_norm: Expected more than 1 value per channel when training, got input size "
            f"{list(input.shape)}."
        )
    return TABLE.batch_norm(input, weight, bias, eps=float(eps))


def normalized_by(input: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    """(input - mean) / sqrt(var + eps) * weight + bias, all but the input per channel.

    Raises:
        ShapeError: something has not one element per channel.
        DTypeError: the input is not floating.
    """
    require_floating("batch_norm", input)
    rank = len(input.shape)
    given = {"running_mean": mean, "running_var": var, "weight": weight, "bias": bias}
    for name, value in given.items():
        if value is not None:
            require_channels(input, value.shape, name)
    x = wide(TABLE, input)
    scale = TABLE.rsqrt(TABLE.add(wide(TABLE, var), float(eps)))
    scale = scale if weight is None else TABLE.mul(scale, wide(TABLE, weight))
    shift = TABLE.neg(TABLE.mul(wide(TABLE, mean), scale))
    shift = shift if bias is None else TABLE.add(shift, wide(TABLE, bias))
    product = TABLE.mul(x, _per_channel(TABLE, scale, rank))
    return cast(TABLE.add(product, _per_channel(TABLE, shift, rank)), input.dtype)


def moved_statistics(
    input: Any, running_mean: Any, running_var: Any, momentum: Any, per_instance: bool = False
) -> tuple[Any, Any]:
    """What the running statistics become: (1 - momentum) of the old plus momentum of the batch's
    mean and unbiased variance. Either may be None. Records no history.

    Args:
        momentum: a number, or a zero-dim tensor.
        per_instance: statistics of every instance apart, averaged over the batch.
    """
    x = wide(TABLE, TABLE.detach(input))
    dims = tuple(range(2, len(input.shape))) if per_instance else _statistics_dims(len(x.shape))
    moved: list[Any] = []
    for running, row, options in (
        (running_mean, TABLE.mean, {}), (running_var, TABLE.var, {"correction": 1}),
    ):  # fmt: skip
        if running is None:
            moved.append(None)
            continue
        require_channels(input, running.shape, "running statistics")
        batch = row(x, dim=dims, keepdim=False, **options)
        batch = TABLE.mean(batch, dim=(0,), keepdim=False) if per_instance else batch
        # Two numbers would make a float32 tensor.
        rest = 1.0 - momentum if isinstance(momentum, (int, float)) else TABLE.sub(1.0, momentum)
        old = TABLE.mul(wide(TABLE, running), rest)
        moved.append(cast(TABLE.add(old, TABLE.mul(batch, momentum)), running.dtype))
    return moved[0], moved[1]


def averaging_factor(count: Any) -> Any:
    """1 / count, the momentum of a cumulative average; float32."""
    return TABLE.reciprocal(cast(count, dtypes.float32))


def normalized_by_instance(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Mean 0 and variance 1 over all dims from 2 on, times weight plus bias per channel.

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
    rank = len(shape)
    x = wide(TABLE, input)
    flat = TABLE.reshape(x, shape=(*shape[:2], count))
    unit = TABLE.layer_norm(flat, None, None, normalized_shape=(count,), eps=float(eps))
    unit = TABLE.reshape(unit, shape=shape)
    if weight is not None:
        require_channels(input, weight.shape, "weight")
        unit = TABLE.mul(unit, _per_channel(TABLE, wide(TABLE, weight), rank))
    if bias is not None:
        require_channels(input, bias.shape, "bias")
        unit = TABLE.add(unit, _per_channel(TABLE, wide(TABLE, bias), rank))
    return cast(unit, input.dtype)


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """input / (k + alpha * mean of squares over `size` neighbouring channels) ** beta.

    Source: A. Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural
    Networks" (2012), 3.3.
    """
    shape = tuple(input.shape)
    if len(shape) < 3:
        raise ShapeError(
            f"local_response_norm: Expected 3D or higher dimensionality input (got {len(shape)} "
            "dimensions)."
        )
    x = wide(TABLE, input)
    squares = TABLE.reshape(TABLE.mul(x, x), shape=(*shape[:2], numel(shape[2:])))
    total = TABLE.sum_pool(
        squares, size=(size, 1), stride=(1, 1), before=(size // 2, 0), after=((size - 1) // 2, 0),
        dilation=(1, 1),
    )  # fmt: skip
    mean = TABLE.reshape(TABLE.div(total, size), shape=shape)
    divisor = TABLE.pow(TABLE.add(TABLE.mul(mean, float(alpha)), float(k)), float(beta))
    return cast(TABLE.div(x, divisor), input.dtype)
