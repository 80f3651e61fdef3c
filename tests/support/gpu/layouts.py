"""Arrays of NumPy as tensors on the GPU, in the very layout that they have."""

from typing import Any

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.eager import _tensor


def as_laid_out(array: np.ndarray) -> Any:
    """An array of CuPy with the elements and the strides of `array`, gaps and reversed dims too."""
    cupy = gpu.module()
    low = sum(min(0, (n - 1) * step) for n, step in zip(array.shape, array.strides, strict=True))
    high = sum(max(0, (n - 1) * step) for n, step in zip(array.shape, array.strides, strict=True))
    memory = cupy.cuda.alloc(max(high - low + array.itemsize, 1))
    made = cupy.ndarray(array.shape, array.dtype, memory + -low, array.strides)
    if array.size:
        repeated = tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)
        made[repeated] = cupy.asarray(np.array(array[repeated], order="C"))
    return made


def tensor_on_gpu(array: np.ndarray) -> Any:
    """The same as a tensor."""
    return _tensor.wrap(as_laid_out(array))
