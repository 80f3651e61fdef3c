"""PyTorch's private `_utils`, which programs that unpickle checkpoints import, and `_assert`.

Contract: two functions are those by which `load` rebuilds tensors; they take a checkpoint's
storages.
"""

from typing import Any

from dynajit.core.errors import ShapeError
from dynajit.core.types.dtypes import DType
from dynajit.eager.files.names import rebuilt_tensor as _rebuild_tensor_v2
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.parameter import rebuilt_parameter as _rebuild_parameter
from dynajit.ops.functions import cat


def _assert(condition: Any, message: Any) -> None:
    """`assert`, as a function.

    Raises:
        AssertionError: the condition does not hold.
    """
    assert condition, message


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """Refuse a tensor whose single element is zero; on GPUs, too, it is looked at now.

    Raises:
        ShapeError, a RuntimeError: it is zero, or there are other than one element.
    """
    try:
        assert input
    except AssertionError:
        message = assert_msg or "Expected Tensor with single nonzero value, but got zero"
        raise ShapeError(message) from None


def _element_size(dtype: DType) -> int:
    """Bytes per element."""
    return dtype.itemsize


def _flatten_dense_tensors(tensors: Any) -> Any:
    """All elements of dense tensors of one dtype, one tensor after the other, in one dim."""
    return cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Any) -> tuple[Any, ...]:
    """Views of `flat`, which `_flatten_dense_tensors` made, with the shapes of the tensors."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))


__all__ = [
    "_element_size",
    "_flatten_dense_tensors",
    "_rebuild_parameter",
    "_rebuild_tensor_v2",
    "_unflatten_dense_tensors",
]
