"""Composite rows: statistics, normalisation, `linear`, `dropout`.

Contract: a composite is written with rows and Python operators only, so it runs eagerly, records
into a graph and infers its type with the same text. It stays one node until a pass expands it, so
code generation may give it a fused lowering. Attributes arrive normalised (dims sorted and counted
from the front). 16-bit floats compute in float32 and round once at the end. Those with an own
derivative are one node of the eager tape and save only what the formula names.
"""

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.core.arrays import products
from dynajit.core.errors import DTypeError, DTypeNotImplementedError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import agree, shapes_agree
from dynajit.core.types.value_types import Size, TensorType, ValueType, numel
from dynajit.ops.native import _native_forms, _philox, _vecmath
from dynajit.ops.rows.array_forms import is_plain, mean_of, sum_of
from dynajit.ops.rows.linear_algebra import product_of, transposed
from dynajit.ops.table import result_layouts, sample_rules
from dynajit.ops.table.families import (
    composite,
    describe,
    operand_type,
    reduced_shape,
    require_tensor,
)
from dynajit.ops.table.op_table import Autocast

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

# ---------------------------------------------------------------------------------------------
# helpers


def wide(ops: Any, x: Any) -> Any:
    """x in the dtype in which it computes: float32 for the 16-bit floats."""
    dtype = dtypes.compute_dtype(x.dtype)
    return x if dtype is x.dtype else ops.cast(x, dtype=dtype)


def narrow(ops: Any, x: Any, dtype: DType) -> Any:
    """x in `dtype`, the reverse of `wide`."""
    return x if x.dtype is dtype else ops.cast(x, dtype=dtype)


def count_operand(ops: Any, size: Size) -> Any:
    """An element count as an operand: the integer, or for a symbolic size a zero-dim tensor."""
    return size if isinstance(size, int) else ops.integer(value=size)


def _reduced_count(ops: Any, x: Any, dim: tuple[int, ...]) -> Any:
    return count_operand(ops, numel(tuple(x.shape[d] for d in dim)))


def kept(ops: Any, value: Any, shape: Any, dim: tuple[int, ...]) -> Any:
    """A reduced value with size 1 in place of the reduced dims of `shape`."""
    wanted = reduced_shape(tuple(shape), dim, True)
    return value if tuple(value.shape) == wanted else ops.reshape(value, shape=wanted)


def _is_empty(shape: Any, dim: tuple[int, ...]) -> bool:
    return any(isinstance(shape[d], int) and shape[d] == 0 for d in dim)


#: Rows whose dtype PyTorch checks before it looks for a kernel.
_CHECKED_FIRST: Final = frozenset(("mean", "std", "var"))


def floating_tensor(name: str, type: ValueType | None) -> TensorType:
    """The type of a floating tensor operand `x`.

    Raises:
        DTypeError: the dtype is not floating.
    """
    call = describe(name, ("x",), (type,))
    tensor = require_tensor(type, call, "x")
    if not tensor.dtype.is_floating_point:
        raise (DTypeError if name in _CHECKED_FIRST else DTypeNotImplementedError)(
            f"{call}: {name} is not defined for {tensor.dtype.name}.  Expected a floating dtype; "
            "cast with .float() or pass dtype."
        )
    return tensor


def require_floating(name: str, x: Any) -> None:
    """Refuse operands that are not floating: eager runs composites without their type rule.

    Raises:
        DTypeError: the dtype is not floating.
    """
    if not x.dtype.is_floating_point:
        floating_tensor(name, operand_type(x))


def _averaged_tensor(type: ValueType | None) -> TensorType:
    """The type of an operand that has a mean: floating or complex."""
    if isinstance(type, TensorType) and type.dtype.is_complex:
        return type
    return floating_tensor("mean", type)


def _mean_infer(x: ValueType, *, dim: Any, keepdim: bool = False) -> TensorType:
    type = _averaged_tensor(x)
    return type.with_shape(reduced_shape(type.shape, dim, keepdim))


def _same(name: str) -> Any:
    """Type rule: that of the first operand, which must be floating."""

    def infer(x: ValueType, *others: ValueType | None, **attributes: Any) -> TensorType:
        type = floating_tensor(name, x)
        return type.with_shape(type.shape)

    return infer


def _reduces(name: str) -> Any:
    """Type rule of a reduction that keeps the floating dtype."""

    def infer(x: ValueType, *, dim: Any, keepdim: bool = False, **attributes: Any) -> TensorType:
        type = floating_tensor(name, x)
        return type.with_shape(reduced_shape(type.shape, dim, keepdim))

    return infer


# ---------------------------------------------------------------------------------------------
# statistics


def _mean_vjp(ops: Any, g: Any, x_type: TensorType, dim: tuple[int, ...]) -> Any:
    count = count_operand(ops, numel(tuple(x_type.shape[d] for d in dim)))
    share = kept(ops, g, x_type.shape, dim) / count
    return ops.expand(share, shape=x_type.shape)


def _mean_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    return mean_of(xp, x, dim, keepdim) if is_plain(x) else NotImplemented


@composite(
    infer=_mean_infer,
    array=_mean_array,
    vjp={"x": _mean_vjp},
    linear=("x",),
    samples=sample_rules.along("dim"),
)
def mean(ops: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool = False) -> Any:
    """Arithmetic mean along `dim`; NaN where there is nothing to average."""
    if not x.dtype.is_floating_point:
        _averaged_tensor(operand_type(x))
    total = ops.sum(wide(ops, x), dim=dim, keepdim=keepdim)
    return narrow(ops, total / _reduced_count(ops, x, dim), x.dtype)


def _degrees(ops: Any, x: Any, dim: tuple[int, ...], correction: float) -> Any:
    """Count less `correction`, at least 0."""
    count = _reduced_count(ops, x, dim)
    if isinstance(count, int):
        return max(count - correction, 0)
    return ops.clamp_min(count - correction, 0)


def _deviation(ops: Any, x: Any, dim: tuple[int, ...]) -> Any:
    w = wide(ops, x)
    return w - ops.mean(w, dim=dim, keepdim=True)


def _var_vjp(ops: Any, g: Any, x: Any, dim: tuple[int, ...], correction: float) -> Any:
    slope = 2.0 * kept(ops, wide(ops, g), x.shape, dim) / _degrees(ops, x, dim, correction)
    return slope * _deviation(ops, x, dim)


def _degrees_of_array(x: np.ndarray, dim: tuple[int, ...], correction: float) -> float:
    """Count less `correction`, at least 0."""
    count: int = math.prod([x.shape[d] for d in dim])
    return max(count - correction, 0)


def _var_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool, correction: float) -> Any:
    if not is_plain(x):
        return NotImplemented
    deviation = x - mean_of(xp, x, dim, True)
    deviation *= deviation
    return sum_of(xp, deviation, dim, keepdim) / _degrees_of_array(x, dim, correction)


@composite(
    infer=_reduces("var"),
    array=_var_array,
    vjp={"x": _var_vjp},
    samples=sample_rules.along("dim"),
)
def var(
    ops: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool = False, correction: float = 1
) -> Any:
    """Mean squared deviation, divided by the count less `correction`."""
    require_floating("var", x)
    d = _deviation(ops, x, dim)
    total = ops.sum(d * d, dim=dim, keepdim=keepdim)
    return narrow(ops, total / _degrees(ops, x, dim, correction), x.dtype)


def _std_vjp(ops: Any, g: Any, out: Any, x: Any, dim: tuple[int, ...], correction: float) -> Any:
    """As for var, over 2 * std; 0 where the deviation is 0."""
    spread = kept(ops, wide(ops, out), x.shape, dim)
    is_zero = ops.eq(spread, 0)
    size = ops.where(is_zero, 1.0, spread) * _degrees(ops, x, dim, correction)
    slope = kept(ops, wide(ops, g), x.shape, dim) / size
    return ops.where(is_zero, 0.0, slope) * _deviation(ops, x, dim)


def _std_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool, correction: float) -> Any:
    if not is_plain(x):
        return NotImplemented
    return xp.sqrt(_var_array(xp, x, dim=dim, keepdim=keepdim, correction=correction))


@composite(
    infer=_reduces("std"),
    array=_std_array,
    vjp={"x": _std_vjp},
    samples=sample_rules.along("dim"),
)
def std(
    ops: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool = False, correction: float = 1
) -> Any:
    """Square root of `var`."""
    require_floating("std", x)
    spread = ops.var(wide(ops, x), dim=dim, keepdim=keepdim, correction=correction)
    return narrow(ops, ops.sqrt(spread), x.dtype)


def _norm_vjp(ops: Any, g: Any, out: Any, x: Any, dim: tuple[int, ...]) -> Any:
    length = kept(ops, wide(ops, out), x.shape, dim)
    is_zero = ops.eq(length, 0)
    slope = kept(ops, wide(ops, g), x.shape, dim) / ops.where(is_zero, 1.0, length)
    return ops.where(is_zero, 0.0, slope) * wide(ops, x)


def _euclidean_norm_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    return xp.sqrt(sum_of(xp, x * x, dim, keepdim)) if is_plain(x) else NotImplemented


@composite(
    infer=_reduces("norm"),
    array=_euclidean_norm_array,
    vjp={"x": _norm_vjp},
    autocast=Autocast.FULL,
    samples=sample_rules.along("dim"),
)
def euclidean_norm(ops: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool = False) -> Any:
    """Square root of the sum of squares; derivative 0 where that is 0."""
    require_floating("norm", x)
    w = wide(ops, x)
    return narrow(ops, ops.sqrt(ops.sum(w * w, dim=dim, keepdim=keepdim)), x.dtype)


# ---------------------------------------------------------------------------------------------
# softmax and its logarithm


def _softmax_vjp(ops: Any, g: Any, out: Any, dim: int) -> Any:
    g, out = wide(ops, g), wide(ops, out)
    weighted = g * out
    return weighted - out * ops.sum(weighted, dim=(dim,), keepdim=True)


def _softmax_array(xp: Any, x: Any, *, dim: int) -> Any:
    if not is_plain(x):
        return NotImplemented
    e = x - xp.maximum.reduce(x, axis=dim, keepdims=True)
    _vecmath.exp(e, out=e)
    e /= sum_of(xp, e, (dim,), True)
    return e


@composite(
    infer=_same("softmax"),
    array=_softmax_array,
    row_major=True,
    vjp={"x": _softmax_vjp},
    native=_native_forms.softmax,
    slopes={"x": _native_forms.softmax_slope},
    domain=(-20.0, 20.0),
    autocast=Autocast.FULL,
    samples=sample_rules.along("dim"),
)
def softmax(ops: Any, x: Any, *, dim: int) -> Any:
    """exp(x) over its sum along `dim`; a slice of only -inf gives NaN."""
    require_floating("softmax", x)
    if _is_empty(x.shape, (dim,)):
        return ops.clone(x)
    w = wide(ops, x)
    e = ops.exp(w - ops.amax(w, dim=(dim,), keepdim=True))
    return narrow(ops, e / ops.sum(e, dim=(dim,), keepdim=True), x.dtype)


def _log_softmax_vjp(ops: Any, g: Any, out: Any, dim: int) -> Any:
    g = wide(ops, g)
    return g - ops.exp(wide(ops, out)) * ops.sum(g, dim=(dim,), keepdim=True)


def _log_softmax_array(xp: Any, x: Any, *, dim: int) -> Any:
    if not is_plain(x):
        return NotImplemented
    shifted = x - xp.maximum.reduce(x, axis=dim, keepdims=True)
    shifted -= _vecmath.log(sum_of(xp, _vecmath.exp(shifted), (dim,), True))
    return shifted


@composite(
    infer=_same("log_softmax"),
    array=_log_softmax_array,
    row_major=True,
    vjp={"x": _log_softmax_vjp},
    native=_native_forms.log_softmax,
    slopes={"x": _native_forms.log_softmax_slope},
    domain=(-20.0, 20.0),
    autocast=Autocast.FULL,
    samples=sample_rules.along("dim"),
)
def log_softmax(ops: Any, x: Any, *, dim: int) -> Any:
    """log(softmax(x)), accurate for small probabilities."""
    require_floating("log_softmax", x)
    if _is_empty(x.shape, (dim,)):
        return ops.clone(x)
    w = wide(ops, x)
    shifted = w - ops.amax(w, dim=(dim,), keepdim=True)
    total = ops.sum(ops.exp(shifted), dim=(dim,), keepdim=True)
    return narrow(ops, shifted - ops.log(total), x.dtype)


def _logsumexp_vjp(ops: Any, g: Any, out: Any, x: Any, dim: tuple[int, ...]) -> Any:
    level = kept(ops, wide(ops, out), x.shape, dim)
    return kept(ops, wide(ops, g), x.shape, dim) * ops.exp(wide(ops, x) - level)


def _logsumexp_array(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    if not is_plain(x):
        return NotImplemented
    top = xp.maximum.reduce(x, axis=dim, keepdims=True)
    level = xp.where(xp.isfinite(top), top, top.dtype.type(0))
    shifted = x - level
    total = _vecmath.log(sum_of(xp, _vecmath.exp(shifted, out=shifted), dim, True))
    total += level
    return total if keepdim else total.reshape(reduced_shape(x.shape, dim, False))


@composite(
    infer=_reduces("logsumexp"),
    array=_logsumexp_array,
    vjp={"x": _logsumexp_vjp},
    domain=(-20.0, 20.0),
    samples=sample_rules.along("dim"),
)
def logsumexp(ops: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool = False) -> Any:
    """log of the sum of exp(x) along `dim`, without overflow; -inf where nothing is summed."""
    require_floating("logsumexp", x)
    w = wide(ops, x)
    if _is_empty(x.shape, dim):
        return narrow(ops, ops.log(ops.sum(ops.exp(w), dim=dim, keepdim=keepdim)), x.dtype)
    top = ops.amax(w, dim=dim, keepdim=True)
    level = ops.where(ops.isfinite(top), top, 0.0)
    total = ops.log(ops.sum(ops.exp(w - level), dim=dim, keepdim=True)) + level
    shape = reduced_shape(tuple(x.shape), dim, keepdim)
    return narrow(ops, ops.reshape(total, shape=shape), x.dtype)


# ---------------------------------------------------------------------------------------------
# one element for several


def _equals_infer(value: TensorType, x: ValueType) -> TensorType:
    found = operand_type(value)
    assert found is not None
    return found


def _equals_vjp(ops: Any, g: Any, value: Any, x: Any) -> Any:
    """Equal shares to all elements that equal the value; NaN equals NaN."""
    rank = len(value.shape)
    dims = tuple(range(rank, len(x.shape)))
    if rank:
        apart = (*value.shape, *(1,) * len(dims))
        value, g = ops.reshape(value, shape=apart), ops.reshape(g, shape=apart)
    chosen = ops.logical_or(ops.eq(x, value), ops.logical_and(ops.ne(x, x), ops.ne(value, value)))
    share = g / ops.sum(chosen, dim=dims, keepdim=rank > 0)
    return ops.where(chosen, share, 0.0)


@composite(infer=_equals_infer, vjp={"x": _equals_vjp}, samples=sample_rules.leading)
def shared_by_equals(ops: Any, value: Any, x: Any) -> Any:
    """The value, an element of x: all elements that equal it share its gradient.

    Args:
        value: without dims, or one for each element of the first dims of x; it gets no gradient.
    """
    return ops.clone(value)


# ---------------------------------------------------------------------------------------------
# normalisation


def _trailing(x: "TensorMethods", normalized_shape: tuple[Size, ...]) -> tuple[int, ...]:
    rank = len(x.shape)
    return tuple(range(rank - len(normalized_shape), rank))


def _norm_infer(name: str) -> Any:
    """Type rule of `layer_norm` and `rms_norm`."""

    def infer(
        x: ValueType, *parameters: ValueType | None, normalized_shape: Any, **attributes: Any
    ) -> TensorType:
        type = floating_tensor(name, x)
        size = len(normalized_shape)
        if (
            size == 0
            or type.rank < size
            or not shapes_agree(type.shape[type.rank - size :], normalized_shape)
        ):
            raise ShapeError(
                f"{name}(x: {type}): given normalized_shape={list(normalized_shape)}, expected "
                f"input with shape [*, {', '.join(map(str, normalized_shape))}]."
            )
        for given in parameters:
            if given is not None and not shapes_agree(given.shape, normalized_shape):
                raise ShapeError(
                    f"{name}(x: {type}): expected weight and bias to be of the same shape as "
                    f"normalized_shape={list(normalized_shape)}, but got {given}."
                )
        return type.with_shape(type.shape)

    return infer


def standardized(ops: Any, x: Any, dim: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """(x - mean) / sqrt(var + eps) along `dim`, and 1 / sqrt(var + eps)."""
    centered = _deviation(ops, x, dim)
    variance = ops.mean(centered * centered, dim=dim, keepdim=True)
    scale = ops.rsqrt(variance + eps)
    return centered * scale, scale


def _layer_norm_vjp_x(
    ops: Any, g: Any, x: Any, weight: Any, normalized_shape: Any, eps: float
) -> Any:
    dim = _trailing(x, normalized_shape)
    unit, scale = standardized(ops, x, dim, eps)
    g = wide(ops, g)
    g = g if weight is None else g * wide(ops, weight)
    along = ops.mean(g * unit, dim=dim, keepdim=True)
    return scale * (g - ops.mean(g, dim=dim, keepdim=True) - unit * along)


def _layer_norm_vjp_weight(ops: Any, g: Any, x: Any, normalized_shape: Any, eps: float) -> Any:
    unit, _ = standardized(ops, x, _trailing(x, normalized_shape), eps)
    return wide(ops, g) * unit


_layer_norm_infer = _norm_infer("layer_norm")
_rms_norm_infer = _norm_infer("rms_norm")


def _layer_norm_array(
    xp: Any, x: Any, weight: Any, bias: Any, *, normalized_shape: tuple[int, ...], eps: float
) -> Any:
    rank = len(normalized_shape)
    if not is_plain(x) or not rank or x.shape[-rank:] != normalized_shape:
        return NotImplemented
    for parameter in (weight, bias):
        if parameter is not None and (
            parameter.dtype is not x.dtype or parameter.shape != normalized_shape
        ):
            return NotImplemented
    dim = tuple(range(x.ndim - rank, x.ndim))
    result = x - mean_of(xp, x, dim, True)
    result *= 1.0 / xp.sqrt(mean_of(xp, result * result, dim, True) + eps)
    if weight is not None:
        result *= weight
    if bias is not None:
        result += bias
    return result


@composite(
    infer=_layer_norm_infer,
    array=_layer_norm_array,
    row_major=True,
    vjp={
        "x": _layer_norm_vjp_x,
        "weight": _layer_norm_vjp_weight,
        "bias": lambda ops, g: wide(ops, g),
    },
    native=_native_forms.layer_norm,
    slopes={
        "x": _native_forms.layer_norm_slope_x,
        "weight": _native_forms.layer_norm_slope_weight,
    },
    autocast=Autocast.FULL,
    samples=sample_rules.first_only(0),
)
def layer_norm(
    ops: Any,
    x: Any,
    weight: Any,
    bias: Any,
    *,
    normalized_shape: tuple[Size, ...],
    eps: float = 1e-5,
) -> Any:
    """x with mean 0 and variance 1 over the trailing dims, times weight plus bias (or None).

    Biased variance. Source: J. L. Ba et al., "Layer Normalization", arXiv:1607.06450.
    """
    _layer_norm_infer(*map(operand_type, (x, weight, bias)), normalized_shape=normalized_shape)
    unit, _ = standardized(ops, x, _trailing(x, normalized_shape), eps)
    unit = unit if weight is None else unit * wide(ops, weight)
    unit = unit if bias is None else unit + wide(ops, bias)
    return narrow(ops, unit, x.dtype)


def _rms_scale(ops: Any, x: Any, dim: tuple[int, ...], eps: float) -> Any:
    w = wide(ops, x)
    return ops.rsqrt(ops.mean(w * w, dim=dim, keepdim=True) + eps)


def _rms_norm_vjp_x(
    ops: Any, g: Any, x: Any, weight: Any, normalized_shape: Any, eps: float
) -> Any:
    dim = _trailing(x, normalized_shape)
    scale = _rms_scale(ops, x, dim, eps)
    unit = wide(ops, x) * scale
    g = wide(ops, g)
    g = g if weight is None else g * wide(ops, weight)
    return scale * (g - unit * ops.mean(g * unit, dim=dim, keepdim=True))


def _rms_norm_vjp_weight(ops: Any, g: Any, x: Any, normalized_shape: Any, eps: float) -> Any:
    return wide(ops, g) * (wide(ops, x) * _rms_scale(ops, x, _trailing(x, normalized_shape), eps))


def _rms_norm_array(
    xp: Any, x: Any, weight: Any, *, normalized_shape: tuple[int, ...], eps: float
) -> Any:
    rank = len(normalized_shape)
    if not is_plain(x) or not rank or x.shape[-rank:] != normalized_shape:
        return NotImplemented
    if weight is not None and (weight.dtype is not x.dtype or weight.shape != normalized_shape):
        return NotImplemented
    dim = tuple(range(x.ndim - rank, x.ndim))
    result = x * (1.0 / xp.sqrt(mean_of(xp, x * x, dim, True) + eps))
    if weight is not None:
        result *= weight
    return result


@composite(
    infer=_rms_norm_infer,
    array=_rms_norm_array,
    row_major=True,
    vjp={"x": _rms_norm_vjp_x, "weight": _rms_norm_vjp_weight},
    layout=result_layouts.suggested,
    samples=sample_rules.first_only(0),
)
def rms_norm(
    ops: Any, x: Any, weight: Any, *, normalized_shape: tuple[Size, ...], eps: float
) -> Any:
    """x over its root mean square over the trailing dims, times weight (or None).

    Source: B. Zhang and R. Sennrich, "Root Mean Square Layer Normalization", arXiv:1910.07467.
    """
    _rms_norm_infer(*map(operand_type, (x, weight)), normalized_shape=normalized_shape)
    unit = wide(ops, x) * _rms_scale(ops, x, _trailing(x, normalized_shape), eps)
    unit = unit if weight is None else unit * wide(ops, weight)
    return narrow(ops, unit, x.dtype)


# ---------------------------------------------------------------------------------------------
# linear, dropout


def as_rows(ops: Any, x: Any) -> Any:
    """x as a matrix: all dims but the last in one."""
    if len(x.shape) == 2:
        return x
    return ops.reshape(x, shape=(numel(tuple(x.shape[:-1])), x.shape[-1]))


def _linear_infer(
    x: ValueType | None, weight: ValueType | None, bias: ValueType | None
) -> TensorType:
    call = describe("linear", ("x", "weight", "bias"), (x, weight, bias))
    type, matrix = require_tensor(x, call, "x"), require_tensor(weight, call, "weight")
    if type.rank < 1 or matrix.rank != 2 or not agree(type.shape[-1], matrix.shape[1]):
        raise ShapeError(
            f"{call}: mat1 and mat2 shapes cannot be multiplied.  Expected x (*, in_features) "
            "and weight (out_features, in_features)."
        )
    dtypes_differ = type.dtype is not matrix.dtype
    if bias is not None:
        vector = require_tensor(bias, call, "bias")
        dtypes_differ = dtypes_differ or vector.dtype is not type.dtype
        if vector.rank > 1 or (vector.rank == 1 and not agree(vector.shape[0], matrix.shape[0])):
            raise ShapeError(f"{call}: expected a bias of shape ({matrix.shape[0]},).")
    if dtypes_differ:
        raise DTypeError(
            f"{call}: mat1 and mat2 must have the same dtype.  Cast one with .to(dtype)."
        )
    return type.with_shape((*type.shape[:-1], matrix.shape[0]))


def _linear_back(ops: Any, g: Any, weight: Any, type: TensorType) -> Any:
    """The gradient of `linear` by x; that of a vector is one row."""
    if type.rank == 1:
        return ops.linear(g, transposed(ops, weight), None)
    return ops.reshape(ops.matmul(as_rows(ops, g), weight), shape=type.shape)


def _linear_array(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    """The rows of x in one product, as the composite does."""
    if not is_plain(x) or not is_plain(weight) or weight.dtype is not x.dtype:
        return NotImplemented
    if weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        return NotImplemented
    size, width = weight.shape
    if bias is not None and (bias.dtype is not x.dtype or bias.shape != (size,)):
        return NotImplemented
    rows = x if x.ndim == 2 else x.reshape(-1, width)
    if bias is not None and xp is np:
        product = products.matmul_onto(bias, rows, weight.T)
    else:
        product = product_of(xp)(rows, weight.T)
        if bias is not None:
            product += bias
    return product if x.ndim == 2 else product.reshape(*x.shape[:-1], size)


@composite(
    infer=_linear_infer,
    array=_linear_array,
    vjp={
        "x": lambda ops, g, weight, x_type: _linear_back(ops, g, weight, x_type),
        "weight": lambda ops, g, x: ops.matmul(transposed(ops, as_rows(ops, g)), as_rows(ops, x)),
        "bias": lambda g: g,
    },
    linear=("bias",),
    factors=("x", "weight"),
    flops=lambda out, x, weight, bias: 2 * math.prod(out) * weight[1],
    samples=sample_rules.first_only(0),
)
def linear(ops: Any, x: Any, weight: Any, bias: Any) -> Any:
    """x @ weight.T + bias: x (*, in), weight (out, in), bias (out) or None -> (*, out)."""
    _linear_infer(operand_type(x), operand_type(weight), operand_type(bias))
    product = ops.matmul(as_rows(ops, x), transposed(ops, weight))
    product = product if bias is None else product + bias
    shape = (*x.shape[:-1], weight.shape[0])
    return product if len(x.shape) == 2 else ops.reshape(product, shape=shape)


def keep_scale(
    ops: Any, shape: Any, seed: Any, offset: Any, p: float, shift: Any, device: Any
) -> Any:
    """float32 mask of dropout: 1 / (1 - p) with probability 1 - p, else 0."""
    uniform = ops.rand(
        seed, offset, shape=tuple(shape), dtype=dtypes.float32, device=device, shift=shift
    )
    return ops.where(ops.ge(uniform, p), 1.0 / (1.0 - p) if p < 1 else 0.0, 0.0)


@composite(
    infer=_same("dropout"),
    vjp={
        "x": lambda ops, g, seed, offset, p, shift: ops.dropout(g, seed, offset, p=p, shift=shift)
    },
    native=_philox.dropout,
    layout=result_layouts.iterated,
    linear=("x",),
    samples=sample_rules.dropped,
)
def dropout(ops: Any, x: Any, seed: Any, offset: Any, *, p: float, shift: Any = 0) -> Any:
    """x with each element zeroed with probability p and the others scaled by 1 / (1 - p).

    Uses one word of the stream per element, whatever the dtype; the mask is drawn again for the
    gradient, never saved.
    """
    require_floating("dropout", x)
    scale = keep_scale(ops, x.shape, seed, offset, p, shift, x.device)
    return narrow(ops, wide(ops, x) * scale, x.dtype)
