"""Quantization that is simulated: floats take the values that integers of few bits would have.

Contract: results are floats of the input's dtype. Gradients pass where a value lies within the
range, and stop elsewhere (the straight-through estimator: Y. Bengio, N. Leonard, A. Courville,
"Estimating or Propagating Gradients Through Stochastic Neurons", arXiv:1308.3432).
"""

from typing import Any, Final

from dynajit.core.errors import ArgumentError, InvalidValueRuntimeError, UnsupportedError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ops.calls.arguments import cast, dim_of, is_tensor, require_tensor
from dynajit.ops.calls.contents import occurs
from dynajit.ops.calls.public import Out, public
from dynajit.ops.table.op_table import TABLE

MSG_OUTSIDE: Final = "`zero_point` must be between `quant_min` and `quant_max`."

_ZERO_POINTS: Final = (dtypes.int32, dtypes.float32, dtypes.float16)


@public(out=Out.ABSENT)
def fake_quantize_per_tensor_affine(
    input: Any, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any
) -> Any:
    """(q - zero_point) * scale, where q is zero_point + round(input / scale), cut to
    [quant_min, quant_max]; NaN counts as quant_min.

    Args:
        input: floats of any shape.
        scale, zero_point: numbers, or tensors of one element both.
        quant_min, quant_max: integers.

    Raises:
        ArgumentError: one of scale and zero_point is a tensor, the other a number.
        InvalidValueError: the range is empty, or a number zero_point lies outside.
        UnsupportedError: the input has no floats.
    """
    call = "fake_quantize_per_tensor_affine"
    _check(call, input, quant_min, quant_max)
    if is_tensor(scale) is not is_tensor(zero_point):
        raise ArgumentError(
            f"{call}() received an invalid combination of arguments: scale and zero_point have to "
            "be numbers both, or tensors of one element both."
        )
    if not is_tensor(scale):
        if not quant_min <= zero_point <= quant_max:
            raise InvalidValueRuntimeError(MSG_OUTSIDE)
        scale = TABLE.full(scale, shape=(), dtype=dtypes.float32, device=input.device)
        zero_point = TABLE.full(zero_point, shape=(), dtype=dtypes.float32, device=input.device)
    elif scale.numel() != 1 or zero_point.numel() != 1:
        more = max(scale.numel(), zero_point.numel())
        raise InvalidValueRuntimeError(
            f"{call}: a Tensor with {more} elements cannot be converted to Scalar.  "
            "fake_quantize_per_channel_affine takes a scale for each channel."
        )
    scale, zero_point = (TABLE.reshape(one, shape=()) for one in (scale, zero_point))
    ends = quant_min, quant_max
    return _simulated(input, scale, zero_point, ends, is_whole=True, dtype=dtypes.float32)


@public(out=Out.ABSENT)
def fake_quantize_per_channel_affine(
    input: Any, scale: Any, zero_point: Any, axis: Any, quant_min: Any, quant_max: Any
) -> Any:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point for each place along a dim.

    Args:
        input: floats of any shape.
        scale: float32, one for each place along `axis`.
        zero_point: as many, of int32, float32 or float16; of the floats, the sum with the input is
            rounded.
        quant_min, quant_max: integers.

    Raises:
        InvalidValueError: the range is empty, a zero point lies outside, or there are more or
            fewer scales than places.
        DTypeError, UnsupportedError: of dtypes.
    """
    call = "fake_quantize_per_channel_affine"
    _check(call, input, quant_min, quant_max)
    dim = dim_of(input, axis, call)
    if axis < 0:
        raise InvalidValueRuntimeError(
            f"{call}: `axis` must be between 0 and number of dimensions of input, got {axis}"
        )
    for name, one in (("scale", scale), ("zero_point", zero_point)):
        require_tensor(one, call, name)
        if one.dim() != 1:
            raise InvalidValueRuntimeError(f"{call}: {name} should be a 1-D tensor")
        if one.shape[0] != input.shape[dim]:
            raise InvalidValueRuntimeError(
                f"{call}: dimensions of scale and zero-point are not consistent with input tensor: "
                f"{one.shape[0]} for {name} and {input.shape[dim]} places along dim {dim}"
            )
    if scale.dtype not in (dtypes.float32, dtypes.bfloat16):
        raise InvalidValueRuntimeError(
            f"{call}: Scale must be Float or BFloat16, found {scale.dtype.name}"
        )
    if zero_point.dtype not in _ZERO_POINTS:
        raise InvalidValueRuntimeError(
            f"{call}: Zero-point must be Int32, Float or Half, found {zero_point.dtype.name}"
        )
    is_whole = zero_point.dtype is dtypes.int32
    if is_whole:
        is_outside = TABLE.logical_or(
            TABLE.lt(zero_point, quant_min), TABLE.gt(zero_point, quant_max)
        )
        if occurs(is_outside):
            raise InvalidValueRuntimeError(MSG_OUTSIDE)
    shape = tuple(input.shape[dim] if d == dim else 1 for d in range(input.dim()))
    scale, zero_point = (TABLE.reshape(one, shape=shape) for one in (scale, zero_point))
    ends = quant_min, quant_max
    return _simulated(input, scale, zero_point, ends, is_whole, dtypes.float64)


def _check(call: str, input: Any, low: Any, high: Any) -> None:
    require_tensor(input, call)
    if not input.dtype.is_floating_point:
        raise UnsupportedError(f'"{call}" not implemented for {input.dtype.name}.  Use .float().')
    if low > high:
        raise InvalidValueRuntimeError(
            f"{call}: `quant_min` should be less than or equal to `quant_max`, got {low} and {high}"
        )


def _simulated(
    input: Any, scale: Any, zero_point: Any, ends: tuple[Any, Any], is_whole: bool, dtype: DType
) -> Any:
    """The values. As PyTorch's, scales and their inverses are float32, and what integers stand for
    is computed in `dtype`."""
    steps_dtype = dtypes.float64 if input.dtype is dtypes.float64 else dtypes.float32
    scale, zero_point = (TABLE.detach(one) for one in (scale, zero_point))
    inverse = cast(TABLE.reciprocal(cast(scale, dtypes.float32)), steps_dtype)
    offset = cast(zero_point, steps_dtype)
    given = cast(input, steps_dtype)
    steps = TABLE.mul(TABLE.detach(given), inverse)
    if is_whole:
        steps = TABLE.add(offset, TABLE.round(steps))
    else:
        steps = TABLE.round(TABLE.add(offset, steps))
    low, high = (float(end) for end in ends)
    is_within = TABLE.logical_and(TABLE.ge(steps, low), TABLE.le(steps, high))
    cut = TABLE.where(TABLE.ge(steps, low), TABLE.minimum(steps, high), low)
    above = TABLE.sub(cast(cut, dtype), cast(zero_point, dtype))
    value = cast(TABLE.mul(above, cast(scale, dtype)), input.dtype)
    passing = TABLE.where(is_within, input, 0.0)
    return TABLE.add(value, TABLE.sub(passing, TABLE.detach(passing)))


__all__ = ["fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"]
