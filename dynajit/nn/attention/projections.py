"""PyTorch's private parts of attention, which copies of its multi-head attention call.

Contract: values and errors of PyTorch's functions of these names in `nn.functional`.
"""

import warnings
from typing import Any

from dynajit.core.errors import ExpectationError
from dynajit.core.types.dtypes import bool_
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import zeros_like
from dynajit.ops.functions.networks.nn import linear


def _in_projection(
    q: Any, k: Any, v: Any,
    w_q: Any, w_k: Any, w_v: Any,
    b_q: Any = None, b_k: Any = None, b_v: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Queries, keys and values, each by its own weight and bias.

    Args:
        q, k, v: shape (..., features); the weights are (queries' features, features).
    """
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _in_projection_packed(q: Any, k: Any, v: Any, w: Any, b: Any = None) -> tuple[Any, ...]:
    """The same, with one weight and bias for all three, one below the other.

    Args:
        q, k, v: shape (..., E).
        w: shape (3 E, E).
        b: shape (3 E), or None.
    """
    weights = w.chunk(3)
    biases = (None, None, None) if b is None else b.chunk(3)
    given = zip((q, k, v), weights, biases, strict=True)
    return tuple([linear(x, weight, bias) for x, weight, bias in given])


def _none_or_dtype(input: Any) -> Any:
    """The dtype of a tensor; None of None.

    Raises:
        RuntimeError: it is neither.
    """
    if input is None:
        return None
    if isinstance(input, Tensor):
        return input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")


def _canonical_mask(
    mask: Any,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Any:
    """A mask as what is added to the scores: -inf where a mask of bools is True.

    Args:
        other_type: dtype of another mask, which should be the same; None does not ask.
        target_type: dtype of the result, where the mask is one of bools.

    Raises:
        ExpectationError, an AssertionError: the mask is of integers.
    """
    if mask is None:
        return None
    if mask.dtype is not bool_ and not mask.is_floating_point():
        raise ExpectationError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for "
            "both instead.",
            stacklevel=3,
        )
    if mask.is_floating_point():
        return mask
    return zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


__all__ = ["_canonical_mask", "_in_projection", "_in_projection_packed", "_none_or_dtype"]
