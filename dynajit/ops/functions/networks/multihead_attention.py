"""Attention in several heads with its projections, as `multi_head_attention_forward`.

Contract: tensors in, tensors out; what is asked with `_batch_first` lies as (N, L, E), else as
(L, N, E), so that neither has to be turned. Where no weights are wanted, attention is one row,
whose queries without a key give zeros; the weights of such queries are NaN, as in PyTorch.
`nn.functional` publishes it, `nn.layers.multihead` calls it.

Source: A. Vaswani et al., "Attention Is All You Need", arXiv:1706.03762.
"""

import math
from typing import TYPE_CHECKING, Any

from dynajit.core.errors import ExpectationError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.symint import agree, equals, shapes_agree
from dynajit.ops.calls.arguments import whole_number
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.public import public
from dynajit.ops.functions.networks.nn import (
    dropout,
    linear,
    pad,
    scaled_dot_product_attention,
    softmax,
)
from dynajit.ops.functions.shapes.index import cat, chunk, split, unbind
from dynajit.ops.functions.shapes.shape import expand, permute, reshape, transpose, unsqueeze
from dynajit.ops.table.op_table import TABLE, Autocast

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


@public("nn.functional")
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def multi_head_attention_forward(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Any, in_proj_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: bool,
    dropout_p: float, out_proj_weight: Any, out_proj_bias: Any, training: bool = True,
    key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Any = None, k_proj_weight: Any = None,
    v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None,
    average_attn_weights: bool = True, is_causal: bool = False, *, _batch_first: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Attention of projected queries to projected keys and values, projected once more.

    Args:
        query, key, value: (L, N, E), (S, N, K), (S, N, V); or (L, E), (S, K), (S, V).
        in_proj_weight: (3 E, E) for all three, unless `use_separate_proj_weight`.
        q_proj_weight, k_proj_weight, v_proj_weight: (E, E), (E, K), (E, V).
        in_proj_bias: (3 E), or None.
        bias_k, bias_v: (1, 1, E): one more key and value for everybody, or None.
        add_zero_attn: one more key and value, of zeros.
        key_padding_mask: (N, S) or (S): True takes no part; or floating, added to the scores.
        attn_mask: (L, S) or (N * num_heads, L, S), of the same kinds.
        static_k, static_v: (N * num_heads, S, E / num_heads), in place of what is projected.
        is_causal: says that `attn_mask` is the causal one; it may be left unread then.

    Returns:
        (L, N, E) or (L, E); and the weights (N, L, S) or (L, S), with the heads before L unless
        averaged, or None where they are not needed.

    Raises:
        ExpectationError: ranks, sizes or dtypes do not go together.
        ShapeError: a mask's shape does not fit, or the causal mask is missing.
    """
    embed_dim_to_check = whole_number(embed_dim_to_check, "multi_head_attention_forward")
    num_heads = whole_number(num_heads, "multi_head_attention_forward")
    is_batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        query, key, value = _with_batch(query, key, value)
        key_padding_mask = None if key_padding_mask is None else unsqueeze(key_padding_mask, 0)
        _batch_first = True
    if is_causal and attn_mask is None:
        raise ShapeError(
            "multi_head_attention_forward: Need attn_mask if specifying the is_causal hint.  "
            "`Transformer.generate_square_subsequent_mask` makes it."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        is_causal = False
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    if use_separate_proj_weight:
        weights: tuple[Any, ...] = (q_proj_weight, k_proj_weight, v_proj_weight)
        if any(weight is None for weight in weights):
            raise ExpectationError(
                "multi_head_attention_forward: use_separate_proj_weight is True but one of "
                "q_proj_weight, k_proj_weight and v_proj_weight is None"
            )
        parts = _projected_apart(query, key, value, weights, in_proj_bias)
    else:
        parts = _projected(query, key, value, in_proj_weight, in_proj_bias)
    order = (0, 2, 1, 3) if _batch_first else (1, 2, 0, 3)
    q, k, v = (permute(_in_heads(part, num_heads), order) for part in parts)
    _check_masks(q, k, attn_mask, key_padding_mask)
    k, v = _with_biases(k, v, bias_k, bias_v, static_k, static_v)
    k, v = _static(k, static_k, "static_k"), _static(v, static_v, "static_v")
    if add_zero_attn:
        k, v = _with_zeros(k), _with_zeros(v)
    more = int(bias_k is not None) + int(add_zero_attn)
    mask = _merged_mask(q, attn_mask, key_padding_mask, more)
    probability = dropout_p if training else 0.0
    if need_weights:
        result, shares = _attended_with_weights(q, k, v, mask, probability)
    else:
        result = scaled_dot_product_attention(q, k, v, mask, probability, is_causal)
    result = _out_of_heads(result, _batch_first)
    result = linear(result, out_proj_weight, out_proj_bias)
    result = result if is_batched else reshape(result, result.shape[1:])
    if not need_weights:
        return result, None
    shares = TABLE.mean(shares, dim=(1,), keepdim=False) if average_attn_weights else shares
    return result, shares if is_batched else reshape(shares, shares.shape[1:])


# ---------------------------------------------------------------------------------------------
# checks


def _check_ranks(
    query: Any, key: Any, value: Any, key_padding_mask: Any, attn_mask: Any, num_heads: int
) -> bool:
    """Whether there is a batch.

    Raises:
        ExpectationError: the ranks do not go together.
    """
    rank = len(query.shape)
    if rank not in (2, 3):
        raise ExpectationError(
            "multi_head_attention_forward: query should be unbatched 2D or batched 3D tensor but "
            f"received {rank}-D query tensor"
        )
    query_is = f"For {'batched (3-D)' if rank == 3 else 'unbatched (2-D)'} `query`"
    if len(key.shape) != rank or len(value.shape) != rank:
        raise ExpectationError(
            f"{query_is}, expected `key` and `value` to be {rank}-D but found {len(key.shape)}-D "
            f"and {len(value.shape)}-D tensors respectively"
        )
    if key_padding_mask is not None and len(key_padding_mask.shape) != rank - 1:
        raise ExpectationError(
            f"{query_is}, expected `key_padding_mask` to be `None` or {rank - 1}-D but found "
            f"{len(key_padding_mask.shape)}-D tensor instead"
        )
    if attn_mask is None:
        return rank == 3
    if len(attn_mask.shape) not in (2, 3):
        raise ExpectationError(
            f"{query_is}, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{len(attn_mask.shape)}-D tensor instead"
        )
    expected = (num_heads, query.shape[0], key.shape[0])
    if rank == 2 and len(attn_mask.shape) == 3 and not shapes_agree(attn_mask.shape, expected):
        raise ExpectationError(
            f"Expected `attn_mask` shape to be {expected} but got {tuple(attn_mask.shape)}"
        )
    return rank == 3


def _check_sizes(
    query: Any, key: Any, value: Any, embed_dim: int, num_heads: int, is_apart: bool
) -> None:
    if not agree(query.shape[-1], embed_dim):
        raise ExpectationError(
            f"multi_head_attention_forward: was expecting embedding dimension of {embed_dim}, but "
            f"got {query.shape[-1]}"
        )
    if not equals(embed_dim % num_heads, 0):
        raise ExpectationError(
            f"multi_head_attention_forward: embed_dim {embed_dim} not divisible by num_heads "
            f"{num_heads}"
        )
    if is_apart and not shapes_agree(key.shape[:2], value.shape[:2]):
        raise ExpectationError(
            "multi_head_attention_forward: key's sequence and batch dims "
            f"{tuple(key.shape[:2])} do not match value's {tuple(value.shape[:2])}"
        )
    if not is_apart and not shapes_agree(key.shape, value.shape):
        raise ExpectationError(
            f"multi_head_attention_forward: key shape {tuple(key.shape)} does not match value "
            f"shape {tuple(value.shape)}"
        )


def _check_masks(q: Any, k: Any, attn_mask: Any, key_padding_mask: Any) -> None:
    """Masks against queries and keys (N, heads, L or S, features), before keys are added."""
    batch, heads, rows, _ = q.shape
    columns = k.shape[2]
    for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
        if mask is not None and mask.dtype not in (dtypes.bool_, *dtypes.FLOATING):
            raise ExpectationError(f"only bool and floating types of {name} are supported")
    if attn_mask is not None:
        rank = len(attn_mask.shape)
        expected = (rows, columns) if rank == 2 else (batch * heads, rows, columns)
        if not shapes_agree(attn_mask.shape, expected):
            raise ShapeError(
                f"The shape of the {rank}D attn_mask is {tuple(attn_mask.shape)}, but should be "
                f"{expected}."
            )
    if key_padding_mask is not None and not shapes_agree(key_padding_mask.shape, (batch, columns)):
        raise ExpectationError(
            f"Expected key_padded_mask.shape equal to {(batch, columns)}, but got "
            f"{tuple(key_padding_mask.shape)}"
        )


# ---------------------------------------------------------------------------------------------
# projections and heads


def _with_batch(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """A batch of one for each; what was one tensor stays one."""
    wide_query = unsqueeze(query, 0)
    wide_key = wide_query if key is query else unsqueeze(key, 0)
    return wide_query, wide_key, wide_key if value is key else unsqueeze(value, 0)


def _projected(query: Any, key: Any, value: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    """Query, key and value by thirds of one weight; one product for those that are one tensor."""
    if weight is None:
        raise ExpectationError(
            "multi_head_attention_forward: use_separate_proj_weight is False but in_proj_weight "
            "is None"
        )
    if key is not value:
        return _projected_apart(query, key, value, chunk(weight, 3), bias)
    if query is key:
        return _thirds(linear(query, weight, bias), 3)
    size = weight.shape[0] // 3
    weights = split(weight, [size, 2 * size])
    biases = (None, None) if bias is None else split(bias, [size, 2 * size])
    first = linear(query, weights[0], biases[0])
    return (first, *_thirds(linear(key, weights[1], biases[1]), 2))


def _thirds(x: "TensorMethods", count: int) -> tuple[Any, ...]:
    """The last dim as `count` parts."""
    apart = reshape(x, (*x.shape[:-1], count, x.shape[-1] // count))
    return unbind(apart, len(x.shape) - 1)


def _projected_apart(
    query: Any, key: Any, value: Any, weights: tuple[Any, ...], bias: Any
) -> tuple[Any, ...]:
    biases = (None, None, None) if bias is None else chunk(bias, 3)
    return tuple(
        linear(x, weight, part)
        for x, weight, part in zip((query, key, value), weights, biases, strict=True)
    )


def _in_heads(x: "TensorMethods", num_heads: int) -> Any:
    return reshape(x, (*x.shape[:-1], num_heads, x.shape[-1] // num_heads))


def _out_of_heads(x: "TensorMethods", is_batch_first: bool) -> Any:
    """(N, heads, L, D) -> (N, L, heads * D), or (L, N, heads * D)."""
    turned = permute(x, (0, 2, 1, 3) if is_batch_first else (2, 0, 1, 3))
    shape = turned.shape
    return reshape(turned, (shape[0], shape[1], shape[2] * shape[3]))


# ---------------------------------------------------------------------------------------------
# added keys and values


def _with_biases(
    k: Any, v: Any, bias_k: Any, bias_v: Any, static_k: Any, static_v: Any
) -> tuple[Any, Any]:
    if (bias_k is None) != (bias_v is None):
        raise ExpectationError(
            "multi_head_attention_forward: one of bias_k and bias_v is set but the other is None"
        )
    if bias_k is None:
        return k, v
    if static_k is not None or static_v is not None:
        raise ExpectationError(
            "multi_head_attention_forward: bias cannot be added to static key or value."
        )
    return _with_one_more(k, bias_k), _with_one_more(v, bias_v)


def _with_one_more(x: "TensorMethods", vector: Any) -> Any:
    """(N, heads, S, D) and (1, 1, heads * D) -> (N, heads, S + 1, D)."""
    batch, heads, _, size = x.shape
    return cat([x, expand(reshape(vector, (1, heads, 1, size)), (batch, heads, 1, size))], 2)


def _with_zeros(x: "TensorMethods") -> Any:
    return pad(x, (0, 0, 0, 1))


def _static(x: "TensorMethods", given: Any, name: str) -> Any:
    if given is None:
        return x
    batch, heads, _, size = x.shape
    if not shapes_agree(given.shape[::2], (batch * heads, size)):
        raise ExpectationError(
            f"multi_head_attention_forward: expecting {name} of shape ({batch * heads}, *, "
            f"{size}), but got {tuple(given.shape)}"
        )
    return reshape(given, (batch, heads, given.shape[1], size))


# ---------------------------------------------------------------------------------------------
# masks and weights


def added_mask(mask: Any, dtype: Any) -> Any:
    """A mask that is added to scores: a bool one as -inf where it is True."""
    if mask.dtype is not dtypes.bool_:
        return mask
    zeros = TABLE.full(0, shape=(), dtype=dtype, device=mask.device)
    return TABLE.where(mask, float("-inf"), zeros)


def _merged_mask(q: Any, attn_mask: Any, key_padding_mask: Any, more: int) -> Any:
    """One floating mask that broadcasts to (N, heads, L, S + more), or None."""
    batch, heads = q.shape[:2]
    masks = []
    if attn_mask is not None:
        mask = attn_mask
        if len(mask.shape) == 3:
            mask = reshape(mask, (batch, heads, *mask.shape[1:]))
        masks.append(mask)
    if key_padding_mask is not None:
        masks.append(reshape(key_padding_mask, (batch, 1, 1, key_padding_mask.shape[1])))
    merged = None
    for mask in masks:
        mask = added_mask(mask, q.dtype)
        mask = pad(mask, (0, more)) if more else mask
        merged = mask if merged is None else TABLE.add(merged, mask)
    return merged


def _attended_with_weights(q: Any, k: Any, v: Any, mask: Any, dropout_p: float) -> tuple[Any, Any]:
    scores = TABLE.matmul(TABLE.mul(q, math.sqrt(1.0 / int(q.shape[-1]))), transpose(k, -2, -1))
    scores = scores if mask is None else TABLE.add(scores, mask)
    shares = softmax(scores, dim=-1)
    if dropout_p > 0:
        shares = dropout(shares, dropout_p)
    return TABLE.matmul(shares, v), shares
