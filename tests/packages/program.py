"""A program of a package: a model, what it is called with, and how it is compiled.

Contract: `Program` is what a function of `programs` or `ecosystems` gives. Inputs come from NumPy
with fixed seeds, never from the library.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """One program.

    Args:
        model: a module, whose state is made equal before it runs, or None.
        inputs: what it is called with: arrays.
        call: `call(model, *tensors)` -> a tensor, or a tuple of them.
        optimizer: `optimizer(parameters)`, or None for plain gradient descent.
        compiled: `compiled(program)` -> what is called instead of `call` where compiled code runs;
            None: the compiled `call`.
        is_whole: compiled code has no graph break, as in PyTorch.
    """

    model: Any
    inputs: tuple[np.ndarray, ...]
    call: Callable[..., Any] = lambda model, *inputs: model(*inputs)
    optimizer: Callable[[Any], Any] | None = None
    compiled: Callable[[Any], Callable[..., Any]] | None = None
    is_whole: bool = False


def normal(*shape: int) -> np.ndarray:
    """Normal numbers, the same at every call."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def words(*shape: int, count: int = 32) -> np.ndarray:
    """Numbers of words, the same at every call."""
    return np.random.default_rng(sum(shape)).integers(0, count, shape)
