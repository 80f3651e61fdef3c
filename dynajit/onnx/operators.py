"""Shapes as tensors, by PyTorch's path: functions that programs call whether they export or not."""

from typing import Any

from dynajit.core.types.dtypes import int64
from dynajit.eager.tensor.creation import tensor


def shape_as_tensor(x: Any) -> Any:
    """The sizes of `x`, an int64 tensor of shape (x.ndim,)."""
    return tensor(list(x.shape), dtype=int64)


def reshape_from_tensor_shape(x: Any, shape: Any) -> Any:
    """`x` in the shape that a tensor of sizes says."""
    return x.reshape(shape.tolist())


__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]
