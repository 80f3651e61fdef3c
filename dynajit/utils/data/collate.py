"""Batches out of samples: tensors are stacked, numbers become tensors, containers go by element.

Contract: as PyTorch's `default_collate` and `default_convert`; Python floats become float64.
Called by `utils.data.dataloader` and by users.
"""

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core import dtypes
from dynajit.core.errors import ArgumentError, ShapeError
from dynajit.eager.creation import as_tensor, tensor
from dynajit.eager.tensor import Tensor
from dynajit.ops.functions import stack

MSG_KINDS: Final = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
    "{kind}.  Give the DataLoader a collate_fn."
)


def default_collate(batch: Any) -> Any:
    """One batch out of samples of equal structure.

    Args:
        batch: list of tensors, arrays, numbers, texts, or containers of them.

    Raises:
        ArgumentError: the samples hold something that cannot be batched.
        ShapeError: sequences differ in length, tensors in shape.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch), 0)
    if isinstance(first, np.ndarray):
        _require_numbers(first.dtype)
        return stack([as_tensor(item) for item in batch], 0)
    if isinstance(first, np.generic):
        _require_numbers(first.dtype)
        return as_tensor(np.stack([np.asarray(item) for item in batch]))
    if isinstance(first, float):
        return tensor(list(batch), dtype=dtypes.float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return like_mapping(first, {k: default_collate([item[k] for item in batch]) for k in first})
    if isinstance(first, Sequence):
        return _collated_sequence(first, batch)
    raise ArgumentError(MSG_KINDS.format(kind=type(first)))


def _require_numbers(dtype: Any) -> None:
    if dtype.kind in "SUOaMmV" and dtype not in (d.numpy for d in dtypes.ALL):
        raise ArgumentError(MSG_KINDS.format(kind=dtype))


def _collated_sequence(first: Any, batch: Any) -> Any:
    if any(len(item) != len(first) for item in batch):
        raise ShapeError("each element in list of batch should be of equal size")
    columns = [default_collate(items) for items in zip(*batch, strict=True)]
    if hasattr(first, "_fields"):
        return type(first)(*columns)
    return columns if isinstance(first, (tuple, list)) else like_sequence(first, columns)


def default_convert(data: Any) -> Any:
    """Arrays and NumPy's numbers in a nest as tensors; everything else as it is."""
    if isinstance(data, (np.ndarray, np.generic)):
        return as_tensor(data) if data.dtype.kind not in "SUO" else data
    if isinstance(data, Mapping):
        return like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple):
        items = [default_convert(item) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else items
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return like_sequence(data, [default_convert(item) for item in data])
    return data


def like_mapping(pattern: Any, made: dict[Any, Any]) -> Any:
    """`made` in the class of `pattern`, or as a dict where that class takes no dict."""
    try:
        if isinstance(pattern, MutableMapping):
            filled = copy.copy(pattern)
            filled.update(made)
            return filled
        return type(pattern)(made)
    except TypeError:
        return made


def like_sequence(pattern: Any, made: list[Any]) -> Any:
    """`made` in the class of `pattern`, or as a list where that class takes no list."""
    try:
        if isinstance(pattern, MutableSequence) and type(pattern) is not list:
            filled = copy.copy(pattern)
            for place, item in enumerate(made):
                filled[place] = item
            return filled
        return type(pattern)(made)
    except TypeError:
        return made
