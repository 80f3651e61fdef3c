"""Losses as composite rows: class indices, class probabilities, and elementwise differences.

Contract: `reduction` is "none", "sum" or "mean". The derivative of `nll_loss` is written without a
scatter (a comparison with the class number), so that it fuses with the derivative of `log_softmax`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from dynajit.core.errors import DTypeNotImplementedError, ShapeError, ShapeValueError
from dynajit.core.types import dtypes
from dynajit.core.types.symint import shapes_agree
from dynajit.core.types.value_types import TensorType, numel
from dynajit.ops.native import _native_forms
from dynajit.ops.rows.array_forms import INT64, is_plain, mean_of, sum_of
from dynajit.ops.rows.composites import count_operand, narrow, wide
from dynajit.ops.table import result_layouts
from dynajit.ops.table.families import composite
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


def all_dims(x: "TensorMethods") -> tuple[int, ...]:
    """Every dim of x."""
    return tuple(range(len(x.shape)))


def reduce_loss(ops: Any, loss: Any, reduction: str) -> Any:
    """`loss` as it is, summed, or averaged."""
    if reduction == "none":
        return loss
    row = ops.sum if reduction == "sum" else ops.mean
    return row(loss, dim=all_dims(loss), keepdim=False)


def class_dim(x: "TensorMethods") -> int:
    """The dim of x that counts classes: 0 for one sample, else 1."""
    return 0 if len(x.shape) == 1 else 1


def _classes_as(ops: Any, x_type: Any, rank: int) -> Any:
    """0 .. C-1 along the class dim, to broadcast with x."""
    dim = class_dim(x_type)
    size = x_type.shape[dim]
    numbers = ops.arange(0, 1, size=size, dtype=dtypes.int64, device=x_type.device)
    return ops.reshape(numbers, shape=tuple(size if d == dim else 1 for d in range(rank)))


def _with_class_dim(ops: Any, value: Any, x_type: Any) -> Any:
    """A per-sample value with size 1 in place of the class dim."""
    dim = class_dim(x_type)
    shape = tuple(value.shape)
    return ops.reshape(value, shape=(*shape[:dim], 1, *shape[dim:]))


def sample_weights(
    ops: Any, target: Any, weight: Any, ignore_index: int, dtype: Any
) -> tuple[Any, Any]:
    """Per sample: a class that is safe to look up, and its weight (0 where ignored)."""
    live = ops.ne(target, ignore_index)
    safe = ops.where(live, target, 0)
    if weight is None:
        return safe, ops.cast(live, dtype=dtype)
    flat = ops.reshape(safe, shape=(numel(tuple(safe.shape)),))
    looked_up = ops.index_select(weight, flat, dim=0)
    per_sample = ops.reshape(looked_up, shape=tuple(safe.shape))
    return safe, ops.where(live, ops.cast(per_sample, dtype=dtype), 0.0)


def check_target(name: str, x: Any, target: Any) -> None:
    """Raise ShapeError unless target has the shape of x without its class dim."""
    dim = class_dim(x)
    shape = tuple(x.shape)
    expected = (*shape[:dim], *shape[dim + 1 :])
    if not shape or tuple(target.shape) != expected:
        raise ShapeValueError(
            f"{name}: expected a target of shape {list(expected)} for an input of shape "
            f"{list(shape)}, got {list(target.shape)}."
        )


def _nll_vjp(
    ops: Any,
    g: Any,
    x_type: TensorType,
    target: Any,
    weight: Any,
    reduction: str,
    ignore_index: int,
) -> Any:
    g = wide(ops, g)
    _, factor = sample_weights(ops, target, weight, ignore_index, g.dtype)
    slope = g * factor
    if reduction == "mean":
        slope = slope / ops.sum(factor, dim=all_dims(factor), keepdim=False)
    # No class is -1: an ignored sample has no gradient even where all are ignored (0 / 0).
    hit_class = ops.where(ops.ne(target, ignore_index), target, -1)
    hit = ops.eq(_with_class_dim(ops, hit_class, x_type), _classes_as(ops, x_type, x_type.rank))
    return ops.where(hit, _with_class_dim(ops, -slope, x_type), 0.0)


def _has_classes(xp: Any, x: Any, target: Any, weight: Any, ignore_index: int) -> bool:
    """True for x (N, C) and N classes without weights; an ignored or a wrong class is the
    composite's business."""
    if weight is not None or target is None or not is_plain(x) or x.ndim != 2:
        return False
    count, classes = x.shape
    if target.dtype is not INT64 or target.shape != (count,):
        return False
    lowest, highest = target.min(), target.max()
    if lowest < 0 or highest >= classes:
        return False
    return not lowest <= ignore_index <= highest or not (target == ignore_index).any()


def _nll_loss_array(
    xp: Any, x: Any, target: Any, weight: Any, *, reduction: str, ignore_index: int
) -> Any:
    if not _has_classes(xp, x, target, weight, ignore_index):
        return NotImplemented
    loss = -x[xp.arange(len(x)), target]
    if reduction == "none":
        return loss
    return mean_of(xp, loss, (0,), False) if reduction == "mean" else sum_of(xp, loss, (0,), False)


@composite(
    array=_nll_loss_array,
    vjp={"x": _nll_vjp},
    native=_native_forms.nll_loss,
    slopes={"x": _native_forms.nll_loss_slope},
    linear=("x",),
)
def nll_loss(
    ops: Any, x: Any, target: Any, weight: Any, *, reduction: str = "mean", ignore_index: int = -100
) -> Any:
    """Minus the log-probability of the target class, times its weight; the mean divides by the
    sum of the weights.

    Args:
        x: log-probabilities (C,), (N, C) or (N, C, d1, ...).
        target: int64 classes, the shape of x without C.
        weight: (C,) or None.
    """
    check_target("nll_loss", x, target)
    w = wide(ops, x)
    safe, factor = sample_weights(ops, target, weight, ignore_index, w.dtype)
    chosen = ops.gather(w, _with_class_dim(ops, safe, x), dim=class_dim(x))
    # An ignored sample counts as 0 even where its log-probability is infinite.
    loss = ops.where(
        ops.ne(target, ignore_index), -ops.reshape(chosen, shape=tuple(safe.shape)) * factor, 0.0
    )
    if reduction == "none":
        return narrow(ops, loss, x.dtype)
    total = ops.sum(loss, dim=all_dims(loss), keepdim=False)
    if reduction == "mean":
        total = total / ops.sum(factor, dim=all_dims(factor), keepdim=False)
    return narrow(ops, total, x.dtype)


def _cross_entropy_array(
    xp: Any,
    x: Any,
    target: Any,
    weight: Any,
    *,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
) -> Any:
    """Without label smoothing."""
    if label_smoothing or not _has_classes(xp, x, target, weight, ignore_index):
        return NotImplemented
    logs = TABLE.log_softmax.rule.array(xp, x, dim=1)
    return _nll_loss_array(xp, logs, target, weight, reduction=reduction, ignore_index=ignore_index)


@composite(array=_cross_entropy_array, native=_native_forms.cross_entropy)
def cross_entropy(
    ops: Any,
    x: Any,
    target: Any,
    weight: Any,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """`nll_loss` of `log_softmax(x)` along the class dim, with class indices as target.

    Label smoothing e mixes the target with the uniform distribution: (1 - e) of the loss plus
    e / C times the sum over all classes.
    Source: C. Szegedy et al., arXiv:1512.00567; PyTorch's documentation for weights.
    """
    check_target("cross_entropy", x, target)
    dim = class_dim(x)
    logs = ops.log_softmax(wide(ops, x), dim=dim)
    loss = ops.nll_loss(logs, target, weight, reduction=reduction, ignore_index=ignore_index)
    if label_smoothing == 0:
        return narrow(ops, loss, x.dtype)
    even = logs if weight is None else logs * _weight_as(ops, weight, x)
    even = -ops.sum(even, dim=(dim,), keepdim=False)
    even = ops.where(ops.ne(target, ignore_index), even, 0.0)
    if reduction != "none":
        even = ops.sum(even, dim=all_dims(even), keepdim=False)
    if reduction == "mean":
        _, factor = sample_weights(ops, target, weight, ignore_index, logs.dtype)
        even = even / ops.sum(factor, dim=all_dims(factor), keepdim=False)
    count = count_operand(ops, x.shape[dim])
    mixed = loss * (1.0 - label_smoothing) + even * label_smoothing / count
    return narrow(ops, mixed, x.dtype)


def _weight_as(ops: Any, weight: Any, x: Any) -> Any:
    dim = class_dim(x)
    shape = tuple(weight.shape[0] if d == dim else 1 for d in range(len(x.shape)))
    return ops.reshape(wide(ops, weight), shape=shape)


@composite()
def soft_cross_entropy(
    ops: Any, x: Any, target: Any, weight: Any, *, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Cross-entropy with class probabilities as target, of the shape of x.

    The mean divides by the number of samples.
    """
    if not shapes_agree(target.shape, x.shape):
        raise ShapeError(
            f"cross_entropy: expected probabilities of shape {list(x.shape)}, got "
            f"{list(target.shape)}."
        )
    dim = class_dim(x)
    logs = ops.log_softmax(wide(ops, x), dim=dim)
    if label_smoothing:
        count = count_operand(ops, x.shape[dim])
        target = target * (1.0 - label_smoothing) + label_smoothing / count
    product = logs * target
    product = product if weight is None else product * _weight_as(ops, weight, x)
    return narrow(ops, reduce_loss(ops, -ops.sum(product, dim=(dim,), keepdim=False), reduction),
                  x.dtype)  # fmt: skip


def _difference_vjp(
    ops: Any, g: Any, x: Any, y: Any, reduction: str, slope: Any, sign: float
) -> Any:
    """`sign * slope(x - y) * g`, over the number of elements for the mean."""
    d = wide(ops, x) - wide(ops, y)
    g = wide(ops, g) * sign
    if reduction == "mean":
        g = g / count_operand(ops, numel(tuple(d.shape)))
    return g * slope(d)


def _difference_formulas(slope: Any) -> dict[str, Any]:
    """Formulas of a loss of x - y whose derivative is `slope(ops, x - y)`."""
    return {
        "x": lambda ops, g, x, y, reduction: _difference_vjp(
            ops, g, x, y, reduction, lambda d: slope(ops, d), 1.0
        ),
        "y": lambda ops, g, x, y, reduction: _difference_vjp(
            ops, g, x, y, reduction, lambda d: slope(ops, d), -1.0
        ),
    }


def _loss_dtype(x: "TensorMethods", y: Any) -> Any:
    """Common dtype of two operands of a loss."""
    return dtypes.result_type([(v.dtype, len(v.shape)) for v in (x, y)])


def _difference(x: np.ndarray, y: np.ndarray) -> Any:
    """x - y of one dtype and shape, else None."""
    is_alike = is_plain(x) and is_plain(y) and x.dtype is y.dtype and x.shape == y.shape
    return x - y if is_alike else None


def _reduced(xp: Any, loss: Any, reduction: str) -> Any:
    if reduction == "none":
        return loss
    row = sum_of if reduction == "sum" else mean_of
    return row(xp, loss, tuple(range(loss.ndim)), False)


def _mse_loss_array(xp: Any, x: Any, y: Any, *, reduction: str) -> Any:
    d = _difference(x, y)
    if d is None:
        return NotImplemented
    d *= d
    return _reduced(xp, d, reduction)


@composite(
    array=_mse_loss_array,
    vjp=_difference_formulas(lambda ops, d: 2.0 * d),
    layout=result_layouts.iterated,
)
def mse_loss(ops: Any, x: Any, y: Any, *, reduction: str = "mean") -> Any:
    """Squared difference. Shape: broadcast, or () when reduced."""
    if x.dtype.is_complex or y.dtype.is_complex:
        raise DTypeNotImplementedError(
            "mse_loss: complex numbers are refused.  Use (x - y).abs().square()."
        )
    d = wide(ops, x) - wide(ops, y)
    return narrow(ops, reduce_loss(ops, d * d, reduction), _loss_dtype(x, y))


def _direction(ops: Any, d: Any) -> Any:
    return ops.sgn(d) if d.dtype.is_complex else ops.sign(d)


def _l1_loss_array(xp: Any, x: Any, y: Any, *, reduction: str) -> Any:
    d = _difference(x, y)
    return NotImplemented if d is None else _reduced(xp, xp.abs(d, out=d), reduction)


@composite(
    array=_l1_loss_array,
    vjp=_difference_formulas(_direction),
    analytic=False,
    layout=result_layouts.iterated,
)
def l1_loss(ops: Any, x: Any, y: Any, *, reduction: str = "mean") -> Any:
    """Absolute difference; derivative 0 where equal. Shape: broadcast, or () when reduced."""
    d = wide(ops, x) - wide(ops, y)
    kind = dtypes.real_of(_loss_dtype(x, y))
    return narrow(ops, reduce_loss(ops, ops.abs(d), reduction), kind)
