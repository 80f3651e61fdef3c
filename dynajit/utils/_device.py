"""PyTorch's private `utils._device`: which functions make tensors on the default device.

Contract: a program that runs a module's constructors elsewhere asks for the list.
"""

import functools
from collections.abc import Callable
from typing import Any

from dynajit.eager.tensor.creation import as_tensor, tensor
from dynajit.eager.tensor.shared_memory import asarray
from dynajit.ops import functions as f


@functools.cache
def _device_constructors() -> set[Callable[..., Any]]:
    """The functions that take `device` and make a tensor of nothing but numbers."""
    return {
        f.arange, as_tensor, asarray, f.bartlett_window, f.blackman_window, f.empty, f.eye, f.full,
        f.hamming_window, f.hann_window, f.kaiser_window, f.linspace, f.logspace, f.ones, f.rand,
        f.randint, f.randn, f.randperm, tensor, f.tril_indices, f.triu_indices, f.zeros,
    }  # fmt: skip
