"""Functions of neural networks that draw random numbers, besides `dropout`, with the signatures
of `torch.nn.functional`.

Contract: tensors in, tensors out; draws take the next numbers of the default generator.
`dynajit.nn.functional` publishes them.
"""

import math
from typing import Any

from dynajit.core.errors import ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import Shape
from dynajit.ops.calls.arguments import cast, dim_of
from dynajit.ops.calls.dtypes_of_operands import require_category
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.functions.creation.creation import rand, rand_like
from dynajit.ops.functions.networks.nn import check_probability, leaky_relu, softmax
from dynajit.ops.functions.reductions.reduction import argmax
from dynajit.ops.table.op_table import TABLE


@public(out=Out.ABSENT)
@public("nn.functional", inplace_argument=True, saves_input=True, in_place=InPlace.FUNCTION)
def rrelu(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Any:
    """leaky_relu with a slope uniform in [lower, upper] per element, and their mean in evaluation.

    Source: B. Xu et al., arXiv:1505.00853.

    Raises:
        ShapeError: lower is above upper.
    """
    if lower > upper:
        raise ShapeError(
            f"rrelu: Lower bound should be less than or equal to the upper bound, but got {lower} "
            f"and {upper}."
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    slope = TABLE.add(TABLE.mul(rand_like(input), upper - lower), lower)
    return TABLE.where(TABLE.le(input, 0), TABLE.mul(input, slope), input)


@public("nn.functional")
def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """softmax of (logits + Gumbel noise) / tau along `dim`; `hard` gives the one-hot of its largest
    entry, with the gradient of the softmax.

    Source: E. Jang et al., arXiv:1611.01144.
    """
    uniform = rand_like(logits)
    # A uniform of 0 would be infinite noise: it counts as half of the smallest step, 2**-24.
    waiting = TABLE.clamp_min(TABLE.neg(TABLE.log1p(TABLE.neg(uniform))), 2.0**-25)
    noise = TABLE.neg(TABLE.log(waiting))
    soft = softmax(TABLE.div(TABLE.add(logits, noise), tau), dim)
    if not hard:
        return soft
    d = dim_of(logits, dim, "gumbel_softmax")
    largest = argmax(soft, d, keepdim=True)
    classes = TABLE.arange(0, 1, size=soft.shape[d], dtype=dtypes.int64, device=soft.device)
    along = tuple(soft.shape[d] if i == d else 1 for i in range(len(soft.shape)))
    chosen = cast(TABLE.eq(TABLE.reshape(classes, shape=along), largest), soft.dtype)
    return TABLE.add(TABLE.sub(chosen, TABLE.detach(soft)), soft)


#: Minus the limit of selu at minus infinity: scale times alpha.
_SELU_LIMIT = 1.7580993408473766


@public("nn.functional", inplace_argument=True)
def alpha_dropout(input: Any, p: float = 0.5, training: bool = False) -> Any:
    """input with elements set to selu's limit with probability p, then scaled and shifted so that
    mean 0 and variance 1 stay.

    Source: G. Klambauer et al., arXiv:1706.02515, equation 7.
    """
    return _alpha_dropout(input, p, training, tuple(input.shape))


@public("nn.functional", inplace_argument=True)
def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False) -> Any:
    """`alpha_dropout` of whole channels, the first two dims."""
    if training and 0.0 < p <= 1.0 and len(input.shape) < 2:
        raise ShapeError("feature_alpha_dropout: requires at least 2 dimensions in the input.")
    shape = tuple(n if d < 2 else 1 for d, n in enumerate(input.shape))
    return _alpha_dropout(input, p, training, shape)


def _alpha_dropout(input: Any, p: float, training: bool, shape: Shape) -> Any:
    check_probability(p)
    if not training or p == 0:
        return input
    require_category("alpha_dropout", Category.FLOATING, input=input)
    if p == 1:
        return TABLE.mul(input, 0.0)
    scale = 1.0 / math.sqrt((_SELU_LIMIT**2 * p + 1.0) * (1.0 - p))
    dtype = dtypes.compute_dtype(input.dtype)
    uniform = rand(*shape, dtype=dtypes.float32, device=input.device)
    kept = cast(TABLE.ge(uniform, p), dtype)
    shift = TABLE.mul(TABLE.add(kept, p - 1.0), _SELU_LIMIT * scale)
    scaled = TABLE.mul(cast(input, dtype), TABLE.mul(kept, scale))
    return cast(TABLE.add(scaled, shift), input.dtype)
