"""Batches in pinned memory, from which a GPU copies while the program goes on.

Contract: tensors anywhere in a nest of containers are copied there (those that lie there already
stay), objects with a `pin_memory` method are asked, and everything else stays as it is. Without a
GPU nothing is copied.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dynajit.eager.tensor.tensor import Tensor
from dynajit.utils.data.collate import like_mapping, like_sequence


def pin_memory(data: Any, device: Any = None) -> Any:
    """`data` with its tensors in pinned memory. Tuples become lists, as in PyTorch.

    Args:
        device: has no effect: the memory serves all GPUs.
    """
    if isinstance(data, Tensor):
        return data.pin_memory() if not data.is_cuda else data
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return like_mapping(data, {key: pin_memory(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(pin_memory, data))
    if isinstance(data, tuple):
        return [pin_memory(item) for item in data]
    if isinstance(data, Sequence):
        return like_sequence(data, [pin_memory(item) for item in data])
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    return data
