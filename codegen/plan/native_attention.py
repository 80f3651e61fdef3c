"""Attention and its gradients as kernels of their own: which calls, and their sizes.

Contract: operands are read where they lie, by their strides; results are row-major. Attention and
its level share a kernel, and so do the gradients of query, key and value.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dynajit.codegen.loops.loop_ir import Buffer, NativeKernel
from dynajit.codegen.plan.matrices import Strided
from dynajit.core.types import dtypes
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ir.node import Node

FORWARD: Final = ("scaled_dot_product_attention", "attention_level")
BACKWARD: Final = (
    "attention_query_gradient",
    "attention_key_gradient",
    "attention_value_gradient",
)
NAMES: Final = (*FORWARD, *BACKWARD)

_FORWARD_OPERANDS: Final = ("query", "key", "value", "mask")
_BACKWARD_OPERANDS: Final = ("gradient", *_FORWARD_OPERANDS, "result", "level")

BATCH_DIMS: Final = 4

LEAST_WORK: Final = 1 << 16
"""Multiplications of a head from which the kernels are faster than what the rows expand to.
Measured with AVX-512: 32 queries, keys and features take 0.97 of the time forward and 0.77 with
backward, 16 of each 1.9 and 1.2."""

LEAST_MASKED_WORK: Final = 1 << 13
"""The same under the diagonal or a mask, which costs the rows more: 16 queries, keys and features
take 0.38 of the time forward and 0.58 with backward."""

_NO_MASK, _CHOOSES, _ADDS = range(3)
_DIAGONAL = 4
"""Kinds of masks, as headers/attention.h numbers them."""


def operands_of(row: str) -> tuple[str, ...]:
    """What the first arguments of a row are, as the kernel calls them; the others are not read."""
    return _FORWARD_OPERANDS if row in FORWARD else _BACKWARD_OPERANDS


def masks_of(kernels: Iterable[NativeKernel]) -> int:
    """The kinds of masks that kernels of attention have, for DJ_MASKS."""
    masks = 0
    for kernel in kernels:
        numbers = dict(kernel.numbers)
        (kind,), (is_causal,) = numbers["mask_kind"], numbers["is_causal"]
        masks |= kind | (_DIAGONAL if is_causal else 0)
    return masks


def family_of(row: str) -> tuple[str, ...]:
    """The rows that share a kernel, in the order of its results; empty for other rows."""
    return next((family for family in (FORWARD, BACKWARD) if row in family), ())


def why_not_attention(
    row: str, types: Sequence[ValueType | None], attributes: Mapping[str, Any]
) -> str | None:
    """Why a call has no kernel of its own, or None if it has."""
    if attributes["dropout_p"] != 0:
        return "dropout draws a number for each weight, which the kernel never stores."
    given = dict(zip(operands_of(row), types, strict=False))
    mask = given.pop("mask")
    query, key, value = (given[name] for name in ("query", "key", "value"))
    assert isinstance(query, TensorType)
    assert isinstance(key, TensorType)
    assert isinstance(value, TensorType)
    tensors = [type for type in given.values() if isinstance(type, TensorType)]
    if query.dtype not in (dtypes.float32, dtypes.float64):
        return "it is not computed in float32 or float64."
    if any(type.dtype is not query.dtype for type in tensors):
        return "the operands are not all float32 or all float64."
    rank = max(type.rank for type in (query, key, value))
    if mask is not None:
        assert isinstance(mask, TensorType)
        if mask.dtype is not dtypes.bool_ and mask.dtype is not query.dtype:
            return "the mask is neither bool nor of the query's dtype."
        if mask.rank > rank:
            return "the mask has more dims than the result."
    if rank - 2 > BATCH_DIMS:
        return "there are more than four leading dims."
    if any(0 in type.shape for type in tensors):
        return "an operand is empty."
    if not isinstance(query.shape[-1], int):
        return "the number of features is not known."
    work = query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1])
    is_masked = attributes["is_causal"] or mask is not None
    if isinstance(work, int) and work < (LEAST_MASKED_WORK if is_masked else LEAST_WORK):
        return "its heads are small: products that are written out are faster."
    return None


def lower_attention(
    name: str, node: Node, places: Sequence[Strided | None], results: Mapping[Node, Buffer]
) -> NativeKernel:
    """The kernel of a planned call and those that share it."""
    assert node.op is not None
    row = node.op.name
    operands = dict(zip(operands_of(row), zip(node.args, places, strict=True), strict=False))
    shapes = {
        part: argument.type.shape
        for part, (argument, place) in operands.items()
        if place is not None and isinstance(argument, Node)
    }
    batch = _batch(shapes)
    features = shapes["query"][-1]
    scale = node.attributes["scale"]
    mask = operands["mask"][1]
    chooses = mask is not None and mask.buffer.dtype is dtypes.bool_
    numbers: dict[str, tuple[Any, ...]] = {
        "batch": batch,
        "queries": (shapes["query"][-2],),
        "keys": (shapes["key"][-2],),
        "features": (features,),
        "values": (shapes["value"][-1],),
        "scale": (float(features) ** -0.5 if scale is None else float(scale),),
        "is_causal": (int(node.attributes["is_causal"]),),
        "mask_kind": (_NO_MASK if mask is None else _CHOOSES if chooses else _ADDS,),
    }
    for part, (_, place) in operands.items():
        if place is not None:
            numbers[part] = _strides(place, 1 if part == "level" else 2)
    by_row = {call.op.name: buffer for call, buffer in results.items() if call.op}
    return NativeKernel(
        name,
        family_of(row)[0],
        tuple(None if place is None else place.buffer for _, place in operands.values()),
        tuple(by_row.get(other) for other in family_of(row)),
        tuple(numbers.items()),
    )


def _batch(shapes: Mapping[str, Sequence[Number]]) -> tuple[Number, ...]:
    """The leading dims of the result, after ones."""
    sizes: list[Number] = [1] * BATCH_DIMS
    for part in ("query", "key", "value"):
        for d, size in enumerate(reversed(shapes[part][:-2]), 1):
            if size != 1:
                sizes[-d] = size
    return tuple(sizes)


def _strides(place: Strided, kept: int) -> tuple[Number, ...]:
    """As the C struct has them: offset, leading strides, row and column; 0 in dims that lack."""
    lead, own = place.strides[:-kept], place.strides[-kept:]
    if len(place.strides) < kept:
        lead, own = (), place.strides
    own = (*own, 0) if kept == 1 else (*((0,) * (2 - len(own))), *own)
    return (place.offset, *((0,) * (BATCH_DIMS - len(lead))), *lead, *own)
