"""Scaled dot-product attention, as one composite row.

Contract: shapes (..., length, features) with leading dims that broadcast; rows of the mask that
allow nothing give zeros, as in PyTorch. Random numbers for dropout come in as inputs. Called by
`nn_functions.scaled_dot_product_attention`.
"""

import math
from typing import Any

from dynajit.core import dtypes
from dynajit.core.errors import DTypeError
from dynajit.core.types import TensorType, ValueType
from dynajit.ops.composites import count_operand, keep_scale, narrow, wide
from dynajit.ops.families import broadcast_shapes, composite, describe, require_tensor
from dynajit.ops.linear_algebra import transposed

MINUS_INFINITY = float("-inf")


def _causal_mask(ops: Any, rows: Any, columns: Any, device: Any) -> Any:
    """bool (rows, columns): column at most row."""
    row = ops.arange(0, 1, size=rows, dtype=dtypes.int64, device=device)
    column = ops.arange(0, 1, size=columns, dtype=dtypes.int64, device=device)
    return ops.le(column, ops.reshape(row, shape=(rows, 1)))


def _default_scale(ops: Any, query: Any) -> Any:
    """1 / sqrt(features)."""
    size = count_operand(ops, query.shape[-1])
    return 1.0 / math.sqrt(size) if isinstance(size, int) else ops.rsqrt(size)


def _attention_infer(
    query: ValueType,
    key: ValueType,
    value: ValueType,
    attn_mask: ValueType | None,
    seed: ValueType | None,
    offset: ValueType | None,
    **attributes: Any,
) -> TensorType:
    names = ("query", "key", "value", "attn_mask")
    call = describe("scaled_dot_product_attention", names, (query, key, value, attn_mask))
    q, k, v = (
        require_tensor(type, call, name)
        for name, type in zip(names, (query, key, value), strict=False)
    )
    if not q.dtype.is_floating_point or k.dtype is not q.dtype or v.dtype is not q.dtype:
        raise DTypeError(
            f"{call}: expected query, key, and value to have the same floating dtype.  Cast them "
            "with .to(dtype)."
        )
    batch = broadcast_shapes([q.shape[:-2], k.shape[:-2], v.shape[:-2]], call)
    return q.with_shape((*batch, q.shape[-2], v.shape[-1]))


@composite(infer=_attention_infer)
def scaled_dot_product_attention(
    ops: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    seed: Any,
    offset: Any,
    *,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    shift: Any = 0,
) -> Any:
    """softmax(query @ key.T * scale + mask) @ value.

    Args:
        query, key, value: (..., L, E), (..., S, E), (..., S, V).
        attn_mask: bool (True takes part) or floating (added), broadcast to (..., L, S), or None.
        seed, offset: of the dropout mask; None where dropout_p is 0.

    Source: A. Vaswani et al., "Attention Is All You Need", arXiv:1706.03762.
    """
    factor = _default_scale(ops, query) if scale is None else scale
    scores = ops.matmul(wide(ops, query) * factor, transposed(ops, wide(ops, key)))
    masked = is_causal or attn_mask is not None
    if is_causal:
        allowed = _causal_mask(ops, query.shape[-2], key.shape[-2], query.device)
        scores = ops.where(allowed, scores, MINUS_INFINITY)
    if attn_mask is not None and attn_mask.dtype is dtypes.bool_:
        scores = ops.where(attn_mask, scores, MINUS_INFINITY)
    elif attn_mask is not None:
        scores = scores + wide(ops, attn_mask)
    weights = ops.softmax(scores, dim=len(scores.shape) - 1)
    if masked:
        dead = ops.all(ops.eq(scores, MINUS_INFINITY), dim=(len(scores.shape) - 1,), keepdim=True)
        weights = ops.where(dead, 0.0, weights)
    if dropout_p > 0:
        weights = weights * keep_scale(
            ops, weights.shape, seed, offset, dropout_p, shift, query.device
        )
    return narrow(ops, ops.matmul(weights, wide(ops, value)), query.dtype)
