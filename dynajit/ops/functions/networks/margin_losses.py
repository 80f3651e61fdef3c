"""Losses of margins and of distributions with the signatures of `torch.nn.functional`.

Contract: as of `ops.functions.networks.loss`. `dynajit.nn.functional` publishes them.
"""

import math
from collections.abc import Callable
from typing import Any

from dynajit.core.errors import InvalidValueError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import agree, equals, shapes_agree
from dynajit.ops.calls.arguments import cast, is_tensor
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.contents import occurs
from dynajit.ops.calls.dtypes_of_operands import require_category, require_same_dtype
from dynajit.ops.calls.public import public
from dynajit.ops.functions.networks.loss import reduction_of
from dynajit.ops.functions.networks.nn import pairwise_distance
from dynajit.ops.rows.networks.losses import reduce_loss
from dynajit.ops.table.op_table import TABLE, Autocast


@public("nn.functional")
def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Minus the log-likelihood of targets under normal distributions around input.

    Args:
        var: variances of the input's shape, of that shape without its last dim or with one size 1,
            or one number; smaller ones count as eps, with the gradient of that.
        full: whether the constant is part of it.

    Raises:
        InvalidValueError: a variance is negative, or their shape does not fit.
        DTypeError: variances are not floating.
    """
    reduction = reduction_of(reduction)
    if not is_tensor(var):
        var = TABLE.full(
            float(var), shape=tuple(input.shape), dtype=input.dtype, device=input.device
        )
    require_category("gaussian_nll_loss", Category.FLOATING, var=var)
    if occurs(TABLE.lt(var, 0)):
        raise InvalidValueError("gaussian_nll_loss: var has negative entry/entries")
    var = _variances(var, tuple(input.shape))
    # What is raised to eps keeps its gradient.
    raised = TABLE.add(TABLE.sub(var, TABLE.detach(var)), eps)
    var = TABLE.where(TABLE.lt(var, eps), cast(raised, var.dtype), var)
    away = TABLE.sub(input, target)
    loss = TABLE.add(TABLE.log(var), TABLE.div(TABLE.mul(away, away), var))
    loss = TABLE.mul(loss, 0.5)
    loss = TABLE.add(loss, 0.5 * math.log(2 * math.pi)) if full else loss
    return reduce_loss(TABLE, loss, reduction)


def _variances(var: Any, shape: tuple[Any, ...]) -> Any:
    given = tuple(var.shape)
    if len(given) == len(shape) and all(map(equals, given, shape)):
        return var
    if len(given) == len(shape) - 1 and all(map(equals, given, shape[:-1])):
        return TABLE.reshape(var, shape=(*given, 1))
    if len(given) == len(shape):
        others = [
            size for size, wanted in zip(given, shape, strict=True) if not equals(size, wanted)
        ]
        if others == [1]:
            return var
    raise InvalidValueError(
        f"gaussian_nll_loss: var is of incorrect size: {list(given)} for an input of {list(shape)}"
    )


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """1 - cosine where target is 1, max(0, cosine - margin) where it is -1: (N, D) or (D)."""
    reduction = reduction_of(reduction, size_average, reduce)
    rank = len(input1.shape)
    if len(target.shape) not in (0, 1) or {rank, len(input2.shape)} != {len(target.shape) + 1}:
        raise ShapeError(
            f"cosine_embedding_loss: {len(target.shape)}D target tensor expects "
            f"{len(target.shape) + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    last = (rank - 1,)

    def dot(a: Any, b: Any) -> Any:
        return TABLE.sum(TABLE.mul(a, b), dim=last, keepdim=False)

    squares = TABLE.mul(
        TABLE.add(dot(input1, input1), 1e-12), TABLE.add(dot(input2, input2), 1e-12)
    )
    cosine = TABLE.div(dot(input1, input2), TABLE.sqrt(squares))
    near = TABLE.where(TABLE.eq(target, 1), TABLE.sub(1.0, cosine), 0.0)
    far = TABLE.clamp_min(TABLE.sub(cosine, margin), 0.0)
    loss = TABLE.add(near, TABLE.where(TABLE.eq(target, -1), far, 0.0))
    return reduce_loss(TABLE, loss, reduction)


def _reduced(loss: Any, reduction: str) -> Any:
    """`reduce_loss`; the mean over a batch without samples is 0."""
    is_empty = any(isinstance(n, int) and n == 0 for n in loss.shape)
    return reduce_loss(TABLE, loss, "sum" if is_empty and reduction == "mean" else reduction)


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None,
    size_average: Any = None, reduce: Any = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """How far each class comes within the margin of the target's, to the power p, over classes.

    Args:
        input: (N, C) or (C), or a number, which is one class.
        target: (N) or () of classes; (1) of an input without batch makes a batch of one.
        p: 1 or 2.
        weight: (C), a factor per target class, or None.

    Raises:
        InvalidValueError: another p, or a weight with other than one dim.
        ShapeError: shapes do not go together.
        DTypeError: the weight has another dtype than the input.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise InvalidValueError("multi_margin_loss: only p == 1 and p == 2 supported")
    p = int(p)
    require_same_dtype("multi_margin_loss", input, weight=weight)
    if weight is not None and len(weight.shape) != 1:
        raise InvalidValueError("multi_margin_loss: weight must be one-dimensional")
    if len(input.shape) < 2:
        batch = (1,) if target.shape else ()
        input = TABLE.reshape(input, shape=(*batch, *(input.shape or (1,))))
    x, y = _rows(input, target, 0, "multi_margin_loss")
    count, classes = x.shape
    if weight is not None and not agree(weight.shape[0], classes):
        raise ShapeError(
            f"multi_margin_loss: inconsistent weight size, expected {classes} but got "
            f"{list(weight.shape)}"
        )
    wanted = TABLE.reshape(y, shape=(count, 1))
    within = TABLE.add(TABLE.sub(x, TABLE.gather(x, wanted, dim=1)), margin)
    loss = TABLE.relu(within)  # at 0 the slope is 0, unlike that of `clamp_min`
    loss = TABLE.mul(loss, loss) if p == 2 else loss
    if weight is not None:
        share = TABLE.index_select(weight, y, dim=0)
        loss = TABLE.mul(loss, TABLE.reshape(share, shape=(count, 1)))
    numbers = TABLE.arange(0, 1, size=classes, dtype=dtypes.int64, device=x.device)
    loss = TABLE.where(TABLE.eq(wanted, numbers), 0.0, loss)
    loss = TABLE.mean(loss, dim=(1,), keepdim=False)
    loss = loss if len(input.shape) == 2 else TABLE.reshape(loss, shape=())
    return _reduced(loss, reduction)


def _rows(input: Any, target: Any, target_rank: int, function: str) -> tuple[Any, Any]:
    """(N, C) and targets with a batch, from both with or without one.

    Raises:
        ShapeError: they do not go together.
    """
    rank = len(input.shape)
    fits = rank in (1, 2) and len(target.shape) == target_rank + rank - 1
    if not fits or not shapes_agree(target.shape, input.shape[: len(target.shape)]):
        raise ShapeError(
            f"{function}: inconsistent target size {list(target.shape)} for an input of "
            f"{list(input.shape)}"
        )
    if rank == 2:
        return input, target
    wide = TABLE.reshape(input, shape=(1, *input.shape))
    return wide, TABLE.reshape(target, shape=(1, *target.shape))


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def multilabel_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """How far each class that is no target comes within 1 of each target's, over classes.

    Args:
        input: (N, C) or (C), or a number, which is one class.
        target: of that shape: classes, then -1.

    Raises:
        DTypeError: targets are bools.
    """
    require_category("multilabel_margin_loss", Category.INTEGER, target=target)
    reduction = reduction_of(reduction, size_average, reduce)
    if not input.shape and not target.shape:
        input, target = (TABLE.reshape(each, shape=(1,)) for each in (input, target))
    x, y = _rows(input, target, 1, "multilabel_margin_loss")
    count, classes = x.shape
    live = TABLE.cumprod(cast(TABLE.ge(y, 0), dtypes.int64), dim=1)
    live = TABLE.ne(live, 0)
    safe = TABLE.where(live, y, 0)
    numbers = TABLE.arange(0, 1, size=classes, dtype=dtypes.int64, device=x.device)
    apart = TABLE.reshape(safe, shape=(count, classes, 1))
    wide = TABLE.reshape(live, shape=(count, classes, 1))
    hit = TABLE.logical_and(TABLE.eq(apart, numbers), wide)
    is_target = TABLE.any(hit, dim=(1,), keepdim=True)
    chosen = TABLE.reshape(TABLE.gather(x, safe, dim=1), shape=(count, classes, 1))
    others = TABLE.reshape(x, shape=(count, 1, classes))
    within = TABLE.relu(TABLE.add(TABLE.sub(others, chosen), 1.0))
    counted = TABLE.logical_and(wide, TABLE.logical_not(is_target))
    total = TABLE.sum(TABLE.where(counted, within, 0.0), dim=(1, 2), keepdim=False)
    loss = TABLE.div(total, classes)
    loss = loss if len(input.shape) == 2 else TABLE.reshape(loss, shape=())
    return _reduced(loss, reduction)


@public("nn.functional")
def triplet_margin_with_distance_loss(
    anchor: Any, positive: Any, negative: Any, *,
    distance_function: Callable[[Any, Any], Any] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Any:  # fmt: skip
    """`triplet_margin_loss` by a distance of the caller's, or the Euclidean one.

    Raises:
        InvalidValueError: the margin is not positive.
        ShapeError: the numbers of dims differ.
    """
    reduction = reduction_of(reduction)
    if margin <= 0:
        raise InvalidValueError(f"margin must be greater than 0, got {margin}")
    if not len(anchor.shape) == len(positive.shape) == len(negative.shape):
        raise ShapeError(
            "triplet_margin_with_distance_loss: The anchor, positive, and negative tensors are "
            "expected to have the same number of dimensions, but got: anchor "
            f"{len(anchor.shape)}D, positive {len(positive.shape)}D, and negative "
            f"{len(negative.shape)}D inputs"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = TABLE.minimum(far, distance(positive, negative))
    loss = TABLE.clamp_min(TABLE.add(TABLE.sub(near, far), margin), 0.0)
    return reduce_loss(TABLE, loss, reduction)
