"""Scaled dot-product attention, its derivatives and what they need, as composite rows.

Contract: shapes (..., length, features) with leading dims that broadcast; rows of the mask that
allow nothing give zeros, as in PyTorch. Random numbers for dropout come in as inputs. The tape
takes the derivative of what attention records; graphs use its formulas, whose rows take the same
operands, so that one kernel may compute the gradients of query, key and value together.

Source: A. Vaswani et al., "Attention Is All You Need", arXiv:1706.03762; for the gradients
T. Dao et al., "FlashAttention", arXiv:2205.14135, appendix B.
"""

import math
from typing import Any

from dynajit.core.errors import DTypeError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ops.rows.composites import count_operand, keep_scale
from dynajit.ops.rows.linear_algebra import transposed
from dynajit.ops.table import result_layouts, sample_rules
from dynajit.ops.table.families import (
    broadcast_shapes,
    composite,
    describe,
    operand_type,
    require_tensor,
)

MINUS_INFINITY = float("-inf")

# ---------------------------------------------------------------------------------------------
# types


def _attention_infer(
    query: ValueType | None,
    key: ValueType | None,
    value: ValueType | None,
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


def _level_infer(*operands: ValueType | None, **attributes: Any) -> TensorType:
    """One number per query, in the dtype of the computation."""
    result = _attention_infer(*operands, **attributes)
    return TensorType(result.shape[:-1], dtypes.compute_dtype(result.dtype), result.device)


def _gradient_infer(name: str, position: int) -> Any:
    """Type rule of a gradient: of operand `position` of attention, with all leading dims; that of
    the mask (3) has the scores' shape."""

    def infer(
        g: ValueType | None,
        query: ValueType | None,
        key: ValueType | None,
        value: ValueType | None,
        attn_mask: ValueType | None,
        out: ValueType | None,
        level: ValueType | None,
        seed: ValueType | None,
        offset: ValueType | None,
        **attributes: Any,
    ) -> TensorType:
        operands = (query, key, value, attn_mask)
        result = _attention_infer(*operands, seed, offset)
        if position == 3:
            keys = require_tensor(key, name, "key").shape[-2]
            shape = (*result.shape[:-1], keys)
            if isinstance(attn_mask, TensorType):
                shape = broadcast_shapes([shape, attn_mask.shape], name)
        else:
            last = require_tensor(operands[position], name, "operand").shape[-2:]
            shape = (*result.shape[:-2], *last)
        return TensorType(shape, dtypes.compute_dtype(result.dtype), result.device)

    return infer


# ---------------------------------------------------------------------------------------------
# parts


def _default_scale(ops: Any, query: Any) -> Any:
    """1 / sqrt(features), which scales nothing where there are none."""
    size = count_operand(ops, query.shape[-1])
    return 1.0 / math.sqrt(max(size, 1)) if isinstance(size, int) else ops.rsqrt(size)


def _scaled(ops: Any, query: Any, scale: float | None) -> Any:
    return query * (_default_scale(ops, query) if scale is None else scale)


def _allowed(ops: Any, query: Any, key: Any, attn_mask: Any, is_causal: bool) -> list[Any]:
    """Bool masks of the scores that take part; several all hold."""
    masks = []
    if is_causal:
        rows, columns = query.shape[-2], key.shape[-2]
        row = ops.arange(0, 1, size=rows, dtype=dtypes.int64, device=query.device)
        column = ops.arange(0, 1, size=columns, dtype=dtypes.int64, device=query.device)
        masks.append(ops.le(column, ops.reshape(row, shape=(rows, 1))))
    if attn_mask is not None and attn_mask.dtype is dtypes.bool_:
        masks.append(attn_mask)
    return masks


def _scores(
    ops: Any, query: Any, key: Any, attn_mask: Any, is_causal: bool, scale: float | None
) -> Any:
    """Scaled products of queries and keys, -inf where they take no part."""
    scores = ops.matmul(_scaled(ops, query, scale), transposed(ops, key))
    for mask in _allowed(ops, query, key, attn_mask, is_causal):
        scores = ops.where(mask, scores, MINUS_INFINITY)
    if attn_mask is not None and attn_mask.dtype is not dtypes.bool_:
        scores = scores + attn_mask
    return scores


def _dead(ops: Any, scores: Any) -> Any:
    """Which queries have no key."""
    last = (len(scores.shape) - 1,)
    return ops.all(ops.eq(scores, MINUS_INFINITY), dim=last, keepdim=True)


def _weights(ops: Any, scores: Any, is_masked: bool) -> Any:
    """softmax(scores); zeros for queries without keys.

    Their scores are replaced before, too: the derivative of softmax is NaN there.
    """
    last = len(scores.shape) - 1
    if not is_masked:
        return ops.softmax(scores, dim=last)
    dead = _dead(ops, scores)
    return ops.where(dead, 0.0, ops.softmax(ops.where(dead, 0.0, scores), dim=last))


def _dropped(ops: Any, weights: Any, seed: Any, offset: Any, dropout_p: float, shift: Any) -> Any:
    if dropout_p == 0:
        return weights
    device = weights.device
    return weights * keep_scale(ops, weights.shape, seed, offset, dropout_p, shift, device)


# ---------------------------------------------------------------------------------------------
# derivatives


def _gradient_of(row: str) -> Any:
    """The formula that calls a row of the gradient family."""

    def formula(
        ops: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, out: Any, seed: Any,
        offset: Any, dropout_p: float, is_causal: bool, scale: float | None, shift: Any,
    ) -> Any:  # fmt: skip
        options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "shift": shift}
        level = ops.attention_level(query, key, value, attn_mask, seed, offset, **options)
        return ops[row](g, query, key, value, attn_mask, out, level, seed, offset, **options)

    return formula


@composite(
    infer=_attention_infer,
    vjp={
        "query": _gradient_of("attention_query_gradient"),
        "key": _gradient_of("attention_key_gradient"),
        "value": _gradient_of("attention_value_gradient"),
        "attn_mask": _gradient_of("attention_mask_gradient"),
    },
    on_tape=False,
    layout=result_layouts.attended,
    samples=sample_rules.attended,
    widens=True,
)
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
    """
    scores = _scores(ops, query, key, attn_mask, is_causal, scale)
    weights = _weights(ops, scores, is_causal or attn_mask is not None)
    weights = _dropped(ops, weights, seed, offset, dropout_p, shift)
    return ops.matmul(weights, value)


@composite(infer=_level_infer, samples=sample_rules.attended, widens=True)
def attention_level(
    ops: Any, query: Any, key: Any, value: Any, attn_mask: Any, seed: Any, offset: Any, *,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, shift: Any = 0,
) -> Any:  # fmt: skip
    """Logarithm of the sum of exp(scores) per query: weights are exp(scores - level); inf for
    queries that a mask leaves no key."""
    shape = _level_infer(*map(operand_type, (query, key, value, attn_mask)), None, None).shape
    scores = _scores(ops, query, key, attn_mask, is_causal, scale)
    last = (len(scores.shape) - 1,)
    if isinstance(scores.shape[-1], int) and scores.shape[-1] == 0:
        return ops.full(math.inf, shape=shape, dtype=scores.dtype, device=scores.device)
    top = ops.amax(scores, dim=last, keepdim=True)
    level = top + ops.log(ops.sum(ops.exp(scores - top), dim=last, keepdim=True))
    if is_causal or attn_mask is not None:
        level = ops.where(_dead(ops, scores), math.inf, level)
    return ops.expand(ops.reshape(level, shape=level.shape[:-1]), shape=shape)


def _weights_and_slopes(
    ops: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, seed: Any, offset: Any, *,
    dropout_p: float, is_causal: bool, scale: float | None, shift: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Weights after dropout, and the gradients of the scores."""
    is_masked = is_causal or attn_mask is not None
    scores = _scores(ops, query, key, attn_mask, is_causal, scale)
    weights = _weights(ops, scores, is_masked)
    dropped = _dropped(ops, weights, seed, offset, dropout_p, shift)
    rises = ops.matmul(g, transposed(ops, value))
    shares = _dropped(ops, rises, seed, offset, dropout_p, shift) * weights
    total = ops.sum(shares, dim=(len(shares.shape) - 1,), keepdim=True)
    slopes = shares - weights * total
    for mask in _allowed(ops, query, key, attn_mask, is_causal):
        slopes = ops.where(mask, slopes, 0.0)
    return dropped, ops.where(_dead(ops, scores), 0.0, slopes) if is_masked else slopes


@composite(
    infer=_gradient_infer("attention_query_gradient", 0), samples=sample_rules.attended, widens=True
)
def attention_query_gradient(
    ops: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, out: Any, level: Any,
    seed: Any, offset: Any, *, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, shift: Any = 0,
) -> Any:  # fmt: skip
    """Gradient of the query; `out` and `level` spare a kernel their computation."""
    options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "shift": shift}
    _, slopes = _weights_and_slopes(ops, g, query, key, value, attn_mask, seed, offset, **options)
    return _scaled(ops, ops.matmul(slopes, key), scale)


@composite(
    infer=_gradient_infer("attention_key_gradient", 1), samples=sample_rules.attended, widens=True
)
def attention_key_gradient(
    ops: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, out: Any, level: Any,
    seed: Any, offset: Any, *, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, shift: Any = 0,
) -> Any:  # fmt: skip
    """Gradient of the key; operands as for the query's."""
    options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "shift": shift}
    _, slopes = _weights_and_slopes(ops, g, query, key, value, attn_mask, seed, offset, **options)
    return ops.matmul(transposed(ops, slopes), _scaled(ops, query, scale))


@composite(
    infer=_gradient_infer("attention_value_gradient", 2), samples=sample_rules.attended, widens=True
)
def attention_value_gradient(
    ops: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, out: Any, level: Any,
    seed: Any, offset: Any, *, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, shift: Any = 0,
) -> Any:  # fmt: skip
    """Gradient of the value; operands as for the query's."""
    options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "shift": shift}
    weights, _ = _weights_and_slopes(ops, g, query, key, value, attn_mask, seed, offset, **options)
    return ops.matmul(transposed(ops, weights), g)


@composite(
    infer=_gradient_infer("attention_mask_gradient", 3), samples=sample_rules.attended, widens=True
)
def attention_mask_gradient(
    ops: Any, g: Any, query: Any, key: Any, value: Any, attn_mask: Any, out: Any, level: Any,
    seed: Any, offset: Any, *, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, shift: Any = 0,
) -> Any:  # fmt: skip
    """Gradient of an added mask, with all leading dims; operands as for the query's."""
    options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "shift": shift}
    _, slopes = _weights_and_slopes(ops, g, query, key, value, attn_mask, seed, offset, **options)
    return slopes
