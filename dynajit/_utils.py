"""PyTorch's private `_utils`, which programs that unpickle checkpoints import, and `_assert`.

Contract: two functions are those by which `load` rebuilds tensors; they take a checkpoint's
storages. Called by users.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.core.dtypes import DType
from dynajit.core.errors import ShapeError
from dynajit.eager.checkpoint_names import rebuilt_tensor as _rebuild_tensor_v2
from dynajit.eager.tensor import Tensor
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


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of tensors, of one dtype, one after the other in one dim; a copy."""
    return cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of `flat`, one after the other, in the shapes of `tensors`."""
    ends = [0]
    for tensor in tensors:
        ends.append(ends[-1] + tensor.numel())
    return tuple(
        flat.narrow(0, start, tensor.numel()).view(tensor.shape)
        for start, tensor in zip(ends, tensors, strict=False)
    )


__all__ = ["_element_size", "_rebuild_parameter", "_rebuild_tensor_v2"]
