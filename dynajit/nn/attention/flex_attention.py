"""Attention whose scores a function of the program changes: `flex_attention`, by PyTorch's path.

Contract: the whole matrix of scores is computed, in float32 (float64 for float64), and goes once
through `score_mod`, together with tensors of positions that broadcast; blocks of a mask save
nothing. Gradients are available everywhere. Compiled, it is captured with the functions in one
graph.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from dynajit.core.errors import AutogradError, InvalidValueError, UnsupportedError
from dynajit.core.types.dtypes import float32, float64
from dynajit.nn.attention.block_masks import (
    DEFAULT_BLOCK_SIZE,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
    over_all,
    positions,
)
from dynajit.ops import functions as f

ScoreFunction: TypeAlias = Callable[[Any, Any, Any, Any, Any], Any]
FlexKernelOptions = dict


@dataclass(frozen=True)
class AuxRequest:
    """What else `flex_attention` shall return.

    Args:
        lse: the logarithm of the sum of the exponentials of each row of scores.
        max_scores: the largest score of each row.
    """

    lse: bool = False
    max_scores: bool = False


@dataclass(frozen=True)
class AuxOutput:
    """What `AuxRequest` asked for, shape (B, H, queries); None for the rest."""

    lse: Any = None
    max_scores: Any = None


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: ScoreFunction | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query @ key^T * scale)) @ value over the last two dims.

    Args:
        query: floating, shape (B, Hq, L, E).
        key, value: shapes (B, Hkv, S, E) and (B, Hkv, S, Ev).
        score_mod: takes scores, shape (B, Hq, L, S), and the positions b, h, q_idx, kv_idx as
            integer tensors that broadcast; gives scores. None: they stay.
        block_mask: scores that its mask does not leave are -inf; a row of such gives zeros.
        scale: 1 / sqrt(E) for None.
        enable_gqa: several heads of queries, one after the other, share one of keys and values.
        return_lse: also return what `AuxRequest(lse=True)` asks for.
        kernel_options: accepted; there are no other kernels.
        return_aux: also return an `AuxOutput`.

    Returns:
        Shape (B, Hq, L, Ev), query's dtype; a pair with the second result, if one is asked for.

    Raises:
        InvalidValueError: sizes do not go together; a ValueError, as in PyTorch.
        UnsupportedError: there are not four dims, or `score_mod` does not broadcast.

    Source: J. Dong et al., "Flex Attention", arXiv:2412.05496.
    """
    _check_shapes(query, key, value, enable_gqa)
    _check_block_mask(query, key, block_mask)
    if return_lse and return_aux is not None:
        raise InvalidValueError("Cannot specify both return_lse and return_aux.")
    compute = float64 if query.dtype is float64 else float32
    q, k, v = query.to(compute), key.to(compute), value.to(compute)
    if enable_gqa and q.shape[1] != k.shape[1]:
        shared = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = _changed(f.matmul(q, k.transpose(-2, -1)) * factor, score_mod, block_mask)
    largest = scores.amax(-1, keepdim=True)
    # A row that is masked altogether has no largest score, and no weights.
    weights = f.exp(scores - f.where(f.isneginf(largest), 0.0, largest))
    total = weights.sum(-1, keepdim=True)
    result = (f.matmul(weights, v) / f.where(total == 0, 1.0, total)).to(query.dtype)
    if not return_lse and return_aux is None:
        return result
    lse = (largest + f.log(total)).squeeze(-1)
    if return_aux is None:
        return result, lse
    largest = largest.squeeze(-1)
    return result, AuxOutput(
        lse if return_aux.lse else None, largest if return_aux.max_scores else None
    )


def _changed(scores: Any, score_mod: ScoreFunction | None, block_mask: BlockMask | None) -> Any:
    if score_mod is None and block_mask is None:
        return scores
    shape = tuple(scores.shape)
    places = positions(shape, scores.device)
    if score_mod is not None:
        changed = score_mod(scores, *places)
        scores = over_all(changed, shape, "score_mod").to(scores.dtype)
    if block_mask is None:
        return scores
    mask = over_all(block_mask.mask_mod(*places), shape, "mask_mod")
    return f.where(mask, scores, -math.inf)


def _check_shapes(query: Any, key: Any, value: Any, enable_gqa: bool) -> None:
    devices = {str(tensor.device) for tensor in (query, key, value)}
    if len(devices) > 1:
        raise InvalidValueError(
            f"Expected query, key, and value to have the same device type, but got {devices}."
        )
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4:
        raise UnsupportedError(
            f"flex_attention: query, key, and value must be 4D tensors, got {query.ndim}, "
            f"{key.ndim} and {value.ndim} dims.  Add dims of size 1."
        )
    if query.shape[-1] != key.shape[-1]:
        raise InvalidValueError(
            "Expect query and key/value to have the same embedding dimension but got "
            f"E={query.shape[-1]} and E={key.shape[-1]}."
        )
    heads, shared = query.shape[1], key.shape[1]
    if not enable_gqa and heads != shared:
        raise InvalidValueError(
            "Expect query and key/value to have the same number of heads but got "
            f"Hq={heads} and Hkv={shared}. Try setting enable_gqa=True for GQA."
        )
    if enable_gqa and heads % shared != 0:
        raise InvalidValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={shared}."
        )
    if key.shape[2] != value.shape[2] or key.shape[1] != value.shape[1]:
        raise AutogradError(
            f"flex_attention: key of shape {tuple(key.shape)} and value of shape "
            f"{tuple(value.shape)}.  Expected the same heads and length."
        )


def _check_block_mask(query: Any, key: Any, block_mask: BlockMask | None) -> None:
    if query.shape[0] != key.shape[0]:
        batches = None if block_mask is None else block_mask.shape[0]
        if batches != query.shape[0]:
            raise InvalidValueError(
                "Expect query and key/value to have the same batch size, or block_mask and query "
                f"to have the same batch size, but got Bq={query.shape[0]}, Bkv={key.shape[0]}, "
                f"B_block_mask={batches}."
            )
    if block_mask is None:
        return
    if block_mask.seq_lengths != (query.shape[2], key.shape[2]):
        raise InvalidValueError(
            f"block_mask was created for block_mask.shape={block_mask.shape} but got "
            f"q_len={query.shape[2]} and kv_len={key.shape[2]}.  Make one for these lengths by "
            "create_block_mask."
        )


_DEFAULT_SPARSE_BLOCK_SIZE = DEFAULT_BLOCK_SIZE

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]
