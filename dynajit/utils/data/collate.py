"""Batches out of samples: tensors are stacked, numbers become tensors, containers go by element.

Contract: as PyTorch's `collate`, `default_collate` and `default_convert`; Python floats become
float64.
"""

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.errors import ArgumentError, ShapeError
from dynajit.core.types import dtypes
from dynajit.eager.tensor.creation import as_tensor, tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import stack

default_collate_err_msg_format: Final = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
    "{}.  Give the DataLoader a collate_fn."
)
#: NumPy's names of dtypes that are no numbers: texts, objects, times, records.
np_str_obj_array_pattern: Final = re.compile(r"[SUOaMmV]")


def collate(
    batch: Any,
    *,
    collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None,
) -> Any:
    """One batch out of samples of equal structure, by functions of the program.

    Args:
        batch: list of samples.
        collate_fn_map: class, or tuple of classes -> `function(batch, collate_fn_map=...)`; the
            exact class of the first sample counts first, then the first entry it is an instance of.

    Raises:
        ArgumentError: the samples hold something that cannot be batched.
        ShapeError: sequences differ in length.
    """
    first = batch[0]
    made = _function_for(first, collate_fn_map or {})
    if made is not None:
        return made(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {k: collate([d[k] for d in batch], collate_fn_map=collate_fn_map) for k in first}
        return like_mapping(first, columns)
    if isinstance(first, Sequence):
        return _collated_sequence(first, batch, collate_fn_map)
    raise ArgumentError(default_collate_err_msg_format.format(type(first)))


def _function_for(sample: Any, functions: Mapping[Any, Callable[..., Any]]) -> Any:
    found = functions.get(type(sample))
    if found is not None:
        return found
    return next((made for kind, made in functions.items() if isinstance(sample, kind)), None)


def _collated_sequence(first: Any, batch: Any, functions: Any) -> Any:
    if any(len(item) != len(first) for item in batch):
        raise ShapeError("each element in list of batch should be of equal size")
    columns = [collate(items, collate_fn_map=functions) for items in zip(*batch, strict=True)]
    if hasattr(first, "_fields"):
        return type(first)(*columns)
    return columns if isinstance(first, (tuple, list)) else like_sequence(first, columns)


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Tensors of one shape, stacked."""
    return stack(list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Arrays of numbers as tensors, collated."""
    _require_numbers(batch[0].dtype)
    return collate([as_tensor(item) for item in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """NumPy's numbers, as one tensor."""
    _require_numbers(batch[0].dtype)
    return as_tensor(np.stack([np.asarray(item) for item in batch]))


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Python's floats, as one tensor of float64."""
    return tensor(list(batch), dtype=dtypes.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Integers or truth values, as one tensor."""
    return tensor(list(batch))


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Texts, as they are."""
    return batch


#: What `default_collate` calls, by class; programs add classes of their own.
default_collate_fn_map: Final[dict[Any, Callable[..., Any]]] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    np.generic: collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """One batch out of samples of equal structure: `collate` by `default_collate_fn_map`.

    Args:
        batch: list of tensors, arrays, numbers, texts, or containers of them.

    Raises:
        ArgumentError: the samples hold something that cannot be batched.
        ShapeError: sequences differ in length, tensors in shape.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def _require_numbers(dtype: Any) -> None:
    if np_str_obj_array_pattern.search(dtype.str) is None:
        return
    if dtype not in (d.numpy for d in dtypes.KNOWN):
        raise ArgumentError(default_collate_err_msg_format.format(dtype))


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
