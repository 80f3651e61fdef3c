"""PyTorch's private `_utils`, which programs that unpickle checkpoints import, and `_assert`.

Contract: the functions are those by which `load` rebuilds tensors; they take a checkpoint's
storages. Called by users.
"""

from typing import Any

from dynajit.core.dtypes import DType
from dynajit.eager.checkpoint_names import rebuilt_tensor as _rebuild_tensor_v2
from dynajit.nn.parameter import rebuilt_parameter as _rebuild_parameter


def _assert(condition: Any, message: Any) -> None:
    """`assert`, as a function.

    Raises:
        AssertionError: the condition does not hold.
    """
    assert condition, message


def _element_size(dtype: DType) -> int:
    """Bytes per element."""
    return dtype.itemsize


__all__ = ["_element_size", "_rebuild_parameter", "_rebuild_tensor_v2"]
