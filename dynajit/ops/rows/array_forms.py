"""Composites on raw arrays: what eager runs in place of a composite's rows.

A composite is a dozen rows, each of which costs its checks, its plan and a tensor. On small
operands that is most of the time: with 4 x 8 elements, eager `softmax` takes twice, `layer_norm`
three times and `cross_entropy` seven times as long by its rows as by its form here.

Contract: `form(xp, *arrays, **attributes)` gives a new array with the numbers of the composite's
function up to rounding, or NotImplemented for operands that are anything but the plain case:
float32 or float64 throughout, shapes that fit, nothing empty. The function then computes or
refuses, so a form never raises. Floating-point exceptions are silent (the caller sees to it).
Declared as `array=` of a composite row, compared with the row's function by the conformance test.
"""

import math
from typing import Any, Final

import numpy as np

from dynajit.core.arrays import products
from dynajit.ops.native import _vecmath
from dynajit.ops.rows.linear_algebra import product_of
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.type_rules import reduced_shape

FLOAT32: Final = np.dtype(np.float32)
FLOAT64: Final = np.dtype(np.float64)
INT64: Final = np.dtype(np.int64)


def is_plain(x: np.ndarray | None) -> bool:
    """True for an array of float32 or float64, not empty, of one dimension or more."""
    return x is not None and x.dtype in (FLOAT32, FLOAT64) and x.ndim > 0 and x.size > 0


def _sum(xp: Any, x: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    return TABLE.sum.rule.array(xp, x, dim=dim, keepdim=keepdim)


def _mean(xp: Any, x: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
    return _sum(xp, x, dim, keepdim) / math.prod([x.shape[d] for d in dim])


def mean(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    """Form of `mean`."""
    return _mean(xp, x, dim, keepdim) if is_plain(x) else NotImplemented


def _degrees(x: np.ndarray, dim: tuple[int, ...], correction: float) -> float:
    """Count less `correction`, at least 0."""
    count: int = math.prod([x.shape[d] for d in dim])
    return max(count - correction, 0)


def var(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool, correction: float) -> Any:
    """Form of `var`."""
    if not is_plain(x):
        return NotImplemented
    deviation = x - _mean(xp, x, dim, True)
    deviation *= deviation
    return _sum(xp, deviation, dim, keepdim) / _degrees(x, dim, correction)


def std(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool, correction: float) -> Any:
    """Form of `std`."""
    if not is_plain(x):
        return NotImplemented
    return xp.sqrt(var(xp, x, dim=dim, keepdim=keepdim, correction=correction))


def euclidean_norm(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    """Form of `euclidean_norm`."""
    return xp.sqrt(_sum(xp, x * x, dim, keepdim)) if is_plain(x) else NotImplemented


def logsumexp(xp: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    """Form of `logsumexp`."""
    if not is_plain(x):
        return NotImplemented
    top = xp.maximum.reduce(x, axis=dim, keepdims=True)
    level = xp.where(xp.isfinite(top), top, top.dtype.type(0))
    shifted = x - level
    total = _vecmath.log(_sum(xp, _vecmath.exp(shifted, out=shifted), dim, True))
    total += level
    return total if keepdim else total.reshape(reduced_shape(x.shape, dim, False))


def rms_norm(xp: Any, x: Any, weight: Any, *, normalized_shape: tuple[int, ...], eps: float) -> Any:
    """Form of `rms_norm`."""
    rank = len(normalized_shape)
    if not is_plain(x) or not rank or x.shape[-rank:] != normalized_shape:
        return NotImplemented
    if weight is not None and (weight.dtype is not x.dtype or weight.shape != normalized_shape):
        return NotImplemented
    dim = tuple(range(x.ndim - rank, x.ndim))
    result = x * (1.0 / xp.sqrt(_mean(xp, x * x, dim, True) + eps))
    if weight is not None:
        result *= weight
    return result


def _difference(x: np.ndarray, y: np.ndarray) -> Any:
    """x - y of one dtype and shape, else None."""
    is_alike = is_plain(x) and is_plain(y) and x.dtype is y.dtype and x.shape == y.shape
    return x - y if is_alike else None


def _reduced(xp: Any, loss: Any, reduction: str) -> Any:
    if reduction == "none":
        return loss
    row = _sum if reduction == "sum" else _mean
    return row(xp, loss, tuple(range(loss.ndim)), False)


def mse_loss(xp: Any, x: Any, y: Any, *, reduction: str) -> Any:
    """Form of `mse_loss`."""
    d = _difference(x, y)
    if d is None:
        return NotImplemented
    d *= d
    return _reduced(xp, d, reduction)


def l1_loss(xp: Any, x: Any, y: Any, *, reduction: str) -> Any:
    """Form of `l1_loss`."""
    d = _difference(x, y)
    return NotImplemented if d is None else _reduced(xp, xp.abs(d, out=d), reduction)


def softmax(xp: Any, x: Any, *, dim: int) -> Any:
    """Form of `softmax`."""
    if not is_plain(x):
        return NotImplemented
    e = x - xp.maximum.reduce(x, axis=dim, keepdims=True)
    _vecmath.exp(e, out=e)
    e /= _sum(xp, e, (dim,), True)
    return e


def log_softmax(xp: Any, x: Any, *, dim: int) -> Any:
    """Form of `log_softmax`."""
    if not is_plain(x):
        return NotImplemented
    shifted = x - xp.maximum.reduce(x, axis=dim, keepdims=True)
    shifted -= _vecmath.log(_sum(xp, _vecmath.exp(shifted), (dim,), True))
    return shifted


def layer_norm(
    xp: Any, x: Any, weight: Any, bias: Any, *, normalized_shape: tuple[int, ...], eps: float
) -> Any:
    """Form of `layer_norm`."""
    rank = len(normalized_shape)
    if not is_plain(x) or not rank or x.shape[-rank:] != normalized_shape:
        return NotImplemented
    for parameter in (weight, bias):
        if parameter is not None and (
            parameter.dtype is not x.dtype or parameter.shape != normalized_shape
        ):
            return NotImplemented
    dim = tuple(range(x.ndim - rank, x.ndim))
    result = x - _mean(xp, x, dim, True)
    result *= 1.0 / xp.sqrt(_mean(xp, result * result, dim, True) + eps)
    if weight is not None:
        result *= weight
    if bias is not None:
        result += bias
    return result


def linear(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    """Form of `linear`: the rows of x in one product, as the composite does."""
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


def nll_loss(
    xp: Any, x: Any, target: Any, weight: Any, *, reduction: str, ignore_index: int
) -> Any:
    """Form of `nll_loss`."""
    if not _has_classes(xp, x, target, weight, ignore_index):
        return NotImplemented
    loss = -x[xp.arange(len(x)), target]
    if reduction == "none":
        return loss
    return _mean(xp, loss, (0,), False) if reduction == "mean" else _sum(xp, loss, (0,), False)


def cross_entropy(
    xp: Any,
    x: Any,
    target: Any,
    weight: Any,
    *,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
) -> Any:
    """Form of `cross_entropy`, without label smoothing."""
    if label_smoothing or not _has_classes(xp, x, target, weight, ignore_index):
        return NotImplemented
    logs = log_softmax(xp, x, dim=1)
    return nll_loss(xp, logs, target, weight, reduction=reduction, ignore_index=ignore_index)
