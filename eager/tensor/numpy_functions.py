"""`wrap_numpy`: functions of NumPy's arrays as functions of tensors."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from dynajit.core import pytree
from dynajit.eager.tensor.creation import from_numpy, tensor_over
from dynajit.eager.tensor.tensor import Tensor


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes and gives tensors where `fn` takes and gives arrays.

    In compiled code the arrays are tensors to the graph, so that gradients pass. As plain Python
    the function runs on NumPy: a tensor that requires a gradient refuses.

    Args:
        fn: what computes with arrays. Numbers of NumPy's that it gives become tensors without dims.
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return on_arrays(fn, args, kwargs)

    return wrapper


def on_arrays(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What the function gives for arrays, as tensors; capture has a form of its own."""
    given, named = pytree.tree_map(_as_array, (args, kwargs))
    return pytree.tree_map(_as_tensor, function(*given, **named))


def _as_array(leaf: Any) -> Any:
    return leaf.numpy() if isinstance(leaf, Tensor) else leaf


def _as_tensor(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return from_numpy(leaf)
    return tensor_over(leaf) if isinstance(leaf, np.generic) else leaf
