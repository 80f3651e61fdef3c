"""Loss functions with the signatures of `torch.nn.functional`.

Contract: tensors in, tensors out; `reduction` is "none", "mean" or "sum", and PyTorch's older
`size_average` and `reduce` decide where they are given, with its warning. `dynajit.nn.functional`
publishes them.
"""

import math
import warnings
from typing import Any

from dynajit.core.errors import (
    ArgumentRuntimeError,
    BoundsError,
    DTypeError,
    InvalidValueError,
    ShapeError,
)
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import agree, shapes_agree
from dynajit.ops.calls.arguments import (
    cast,
    common_dtype,
    describe_tensor,
    misplaced,
    require_tensor,
    size,
)
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.contents import are_probabilities
from dynajit.ops.calls.dtypes_of_operands import as_written, require_category, require_same_dtype
from dynajit.ops.calls.public import public
from dynajit.ops.functions.networks.nn import pairwise_distance
from dynajit.ops.rows.networks.losses import reduce_loss
from dynajit.ops.table.op_table import TABLE, Autocast


def reduction_of(reduction: str, size_average: Any = None, reduce: Any = None) -> str:
    """The reduction that the options ask for; the older two win.

    Raises:
        InvalidValueError: the name is not known.
    """
    if size_average is not None or reduce is not None:
        reduction = "mean" if size_average is None or size_average else "sum"
        if reduce is not None and not reduce:
            reduction = "none"
        warnings.warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{reduction}' instead.",
            stacklevel=3,
        )
    if reduction not in ("none", "mean", "sum"):
        raise InvalidValueError(
            f"{reduction} is not a valid value for reduction.  Expected 'none', 'mean' or 'sum'."
        )
    return reduction


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Cross-entropy of logits (C), (N, C) or (N, C, d1, ...) and class indices, or probabilities
    of the same shape, whose dtype the result may have."""
    reduction = reduction_of(reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentRuntimeError(
            f"cross_entropy: label_smoothing must be between 0.0 and 1.0, got {label_smoothing}."
        )
    if type(ignore_index) is not int:
        ignore_index = size(ignore_index, "cross_entropy")
    _check_class_weight("cross_entropy", input, weight)
    smoothing = float(label_smoothing)
    if require_tensor(target, "cross_entropy", "target").dtype.is_floating_point:
        if ignore_index >= 0:
            raise ArgumentRuntimeError(
                f"cross_entropy(ignore_index={ignore_index}): a target of probabilities has no "
                "class to ignore."
            )
        dtype = common_dtype((input, target) if weight is None else (input, target, weight))
        logits, shares = (cast(one, dtype) for one in (input, target))
        return TABLE.soft_cross_entropy(
            logits, shares, weight, reduction=reduction, label_smoothing=smoothing
        )
    _check_classes("cross_entropy", input, target, weight)
    try:
        return TABLE.cross_entropy(
            input, target, weight, reduction=reduction, ignore_index=ignore_index,
            label_smoothing=smoothing,
        )  # fmt: skip
    except BoundsError as error:
        words = str(error)
    raise _no_class("cross_entropy", words, input, target)


def _no_class(name: str, words: str, input: Any, target: Any) -> BoundsError:
    """What a class that is out of range raises."""
    call = f"{name}(input: {describe_tensor(input)}, target: {describe_tensor(target)})"
    return misplaced(words, f"{call}: a target is no class")


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def nll_loss(
    input: Any, target: Any, weight: Any = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Minus the log-probability of the target class."""
    reduction = reduction_of(reduction, size_average, reduce)
    if type(ignore_index) is not int:
        ignore_index = size(ignore_index, "nll_loss")
    _check_class_weight("nll_loss", input, weight)
    _check_classes("nll_loss", input, target, weight)
    try:
        return TABLE.nll_loss(input, target, weight, reduction=reduction, ignore_index=ignore_index)
    except BoundsError as error:
        words = str(error)
    raise _no_class("nll_loss", words, input, target)


def _check_classes(function: str, input: Any, target: Any, weight: Any) -> None:
    """Refuse bools as classes, and weights of another dtype than the input.

    Raises:
        DTypeError: so it is.
    """
    require_category(function, Category.INTEGER, target=target)
    require_same_dtype(function, input, weight=weight)


def _check_class_weight(function: str, input: Any, weight: Any) -> None:
    """Refuse weights that are not one per class.

    Raises:
        ShapeError: as PyTorch's RuntimeError.
    """
    if weight is None or not input.shape:
        return
    classes = input.shape[min(1, len(input.shape) - 1)]
    if len(weight.shape) != 1 or not agree(weight.shape[0], classes):
        raise ShapeError(
            f"{function}: weight tensor should be defined either for all {classes} classes or no "
            f"classes but got weight tensor of shape: {list(weight.shape)}"
        )


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def mse_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", weight: Any = None,
) -> Any:  # fmt: skip
    """Squared difference."""
    reduction = reduction_of(reduction, size_average, reduce)
    if weight is None:
        return TABLE.mse_loss(input, target, reduction=reduction)
    return _weighted(TABLE.mse_loss(input, target, reduction="none"), weight, reduction)


def _weighted(loss: Any, weight: Any, reduction: str) -> Any:
    """`loss` times weight; its mean is over the sum of the weights."""
    loss = TABLE.mul(loss, weight)
    if reduction == "mean":
        total = reduce_loss(TABLE, TABLE.expand(weight, shape=tuple(loss.shape)), "sum")
        return TABLE.div(reduce_loss(TABLE, loss, "sum"), total)
    return reduce_loss(TABLE, loss, reduction)


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def l1_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", weight: Any = None,
) -> Any:  # fmt: skip
    """Absolute difference."""
    reduction = reduction_of(reduction, size_average, reduce)
    if weight is None:
        return TABLE.l1_loss(input, target, reduction=reduction)
    return _weighted(TABLE.l1_loss(input, target, reduction="none"), weight, reduction)


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def smooth_l1_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Any:  # fmt: skip
    """Squared below `beta`, absolute above.

    Raises:
        ShapeError: beta is negative.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if not beta >= 0:
        raise ShapeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    loss = TABLE.div(TABLE.huber(TABLE.sub(input, target), delta=float(beta)), float(beta))
    return reduce_loss(TABLE, loss, reduction)


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """Half the square below `delta`, linear above.

    Raises:
        ShapeError: delta is not positive.
        DTypeError: the result does not fit the input's dtype, which it has.
    """
    reduction = reduction_of(reduction)
    if not delta > 0:
        raise ShapeError("huber_loss does not support non-positive values for delta.")
    difference = TABLE.sub(input, target)
    loss = as_written("huber_loss", TABLE.huber(difference, delta=float(delta)), input.dtype)
    loss = loss if weight is None else TABLE.mul(loss, weight)  # its mean is that of all elements
    return reduce_loss(TABLE, loss, reduction)


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.BANNED)
def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Cross-entropy of probabilities of two classes.

    Raises:
        InvalidValueError: the sizes differ.
        DTypeError: the dtypes do, or the weights' does not fit theirs.
        ShapeError: an element is outside of [0, 1], as PyTorch's RuntimeError.
    """
    if target.dtype is not input.dtype:
        raise DTypeError(
            f"binary_cross_entropy: found dtype {target.dtype.name} of the target, but expected "
            f"{input.dtype.name}, the input's.  Convert it with target.to(input.dtype)."
        )
    if not shapes_agree(input.shape, target.shape):
        raise InvalidValueError(
            f"binary_cross_entropy: target size {list(target.shape)} must be the same as input "
            f"size {list(input.shape)}."
        )
    for name, part in (("input", input), ("target", target)):
        if not are_probabilities(part):
            raise ShapeError(
                f"binary_cross_entropy: all elements of {name} should be between 0 and 1.  Logits "
                "go to binary_cross_entropy_with_logits."
            )
    loss = TABLE.binary_entropy(input, target)
    loss = loss if weight is None else TABLE.mul(loss, weight)
    loss = as_written("binary_cross_entropy", loss, input.dtype)
    return reduce_loss(TABLE, loss, reduction_of(reduction, size_average, reduce))


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", pos_weight: Any = None,
) -> Any:  # fmt: skip
    """`binary_cross_entropy` of sigmoid(input), without overflow.

    Raises:
        InvalidValueError: the sizes differ.
        DTypeError: the result does not fit the target's dtype, which it has.
    """
    if not shapes_agree(input.shape, target.shape):
        raise InvalidValueError(
            f"binary_cross_entropy_with_logits: target size {list(target.shape)} must be the same "
            f"as input size {list(input.shape)}."
        )
    logs = TABLE.log_sigmoid(input)
    if pos_weight is not None:
        scale = TABLE.add(TABLE.mul(TABLE.sub(pos_weight, 1.0), target), 1.0)
        logs = TABLE.mul(logs, scale)
    loss = TABLE.sub(TABLE.mul(TABLE.sub(1, target), input), logs)
    loss = loss if weight is None else TABLE.mul(loss, weight)
    loss = as_written("binary_cross_entropy_with_logits", loss, target.dtype)
    return reduce_loss(TABLE, loss, reduction_of(reduction, size_average, reduce))


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def kl_div(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", log_target: bool = False,
) -> Any:  # fmt: skip
    """target * (log target - input); "batchmean" divides the sum by the first size.

    Raises:
        DTypeError: the input or the target is not floating.
    """
    require_category("kl_div", Category.FLOATING, input=input, target=target)
    if input.dtype.is_complex or target.dtype.is_complex:
        raise DTypeError("kl_div: Complex inputs not supported.")
    if log_target:
        loss = TABLE.mul(TABLE.exp(target), TABLE.sub(target, input))
    else:
        loss = TABLE.sub(TABLE.xlogy(target, target), TABLE.mul(target, input))
    if reduction == "batchmean" and size_average is None and reduce is None:
        total = reduce_loss(TABLE, loss, "sum")
        return TABLE.div(total, input.shape[0]) if input.shape else total
    return reduce_loss(TABLE, loss, reduction_of(reduction, size_average, reduce))


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def soft_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """log(1 + exp(-target * input)), targets 1 or -1.

    Raises:
        DTypeError: the result does not fit the input's dtype, which it has.
    """
    loss = TABLE.neg(TABLE.log_sigmoid(TABLE.mul(input, target)))
    loss = as_written("soft_margin_loss", loss, input.dtype)
    return reduce_loss(TABLE, loss, reduction_of(reduction, size_average, reduce))


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """input where target is 1, max(0, margin - input) where it is -1; in the input's dtype."""
    far = TABLE.where(TABLE.eq(target, 1), 0.0, TABLE.clamp_min(TABLE.sub(margin, input), 0.0))
    near = TABLE.where(TABLE.eq(target, -1), 0.0, input)
    loss = cast(TABLE.add(far, near), input.dtype)
    return reduce_loss(TABLE, loss, reduction_of(reduction, size_average, reduce))


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """max(0, margin - target * (input1 - input2)), targets 1 or -1."""
    if not len(input1.shape) == len(input2.shape) == len(target.shape):
        raise ShapeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {list(input1.shape)}, input2: {list(input2.shape)}, target: "
            f"{list(target.shape)}"
        )
    ahead = TABLE.mul(TABLE.neg(target), TABLE.sub(input1, input2))
    loss = TABLE.clamp_min(TABLE.add(ahead, margin), 0.0)
    return reduce_loss(TABLE, loss, reduction_of(reduction, size_average, reduce))


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """max(0, distance to positive - distance to negative + margin); with `swap` the negative's
    distance is the smaller of those to anchor and positive.

    Raises:
        InvalidValueError: the margin is not positive.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if margin <= 0:
        raise InvalidValueError(f"margin must be greater than 0, got {margin}")
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = TABLE.minimum(far, pairwise_distance(positive, negative, p, eps))
    loss = TABLE.clamp_min(TABLE.add(TABLE.sub(near, far), margin), 0.0)
    return reduce_loss(TABLE, loss, reduction)


@public("nn.functional")
@autocast(cpu=Autocast.FULL, cuda=Autocast.FULL)
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool = True, full: bool = False, size_average: Any = None,
    eps: float = 1e-8, reduce: Any = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """Minus the log-likelihood of counts; `full` adds Stirling's term for targets above 1.

    Raises:
        DTypeError: the targets are bools, and `full`.
    """
    if log_input:
        loss = TABLE.sub(TABLE.exp(input), TABLE.mul(target, input))
    else:
        loss = TABLE.sub(input, TABLE.mul(target, TABLE.log(TABLE.add(input, eps))))
    if full:
        require_category("poisson_nll_loss(full=True)", Category.INTEGER, target=target)
        above = TABLE.gt(target, 1)
        safe = TABLE.where(above, target, 2.0)
        half_log = TABLE.mul(TABLE.log(TABLE.mul(safe, 2 * math.pi)), 0.5)
        stirling = TABLE.add(TABLE.sub(TABLE.mul(safe, TABLE.log(safe)), safe), half_log)
        added = TABLE.add(loss, TABLE.where(above, stirling, 0.0))
        loss = as_written("poisson_nll_loss", added, loss.dtype)
    return reduce_loss(TABLE, loss, reduction_of(reduction, size_average, reduce))


@public("nn.functional")
def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Cross-entropy of each class against the rest, averaged over the last dim."""
    hit = TABLE.mul(target, TABLE.log_sigmoid(input))
    missed = TABLE.mul(TABLE.sub(1, target), TABLE.log_sigmoid(TABLE.neg(input)))
    loss = TABLE.neg(TABLE.add(hit, missed))
    loss = loss if weight is None else TABLE.mul(loss, weight)
    loss = TABLE.mean(loss, dim=(len(loss.shape) - 1,), keepdim=False)
    return reduce_loss(TABLE, loss, reduction_of(reduction, size_average, reduce))
