"""Overridden functions by PyTorch's path: there is no such protocol.

Contract: questions are answered; modes and dispatch are refused when they are used.
"""

from typing import Any

from dynajit.core.refusals import refused_class, refused_function
from dynajit.eager.tensor import Tensor

_WHY = "functions cannot be overridden here.  Call your own function in their place."


def has_torch_function(relevant_args: Any) -> bool:
    """Whether an argument overrides functions: False."""
    return False


def has_torch_function_unary(tensor: Any) -> bool:
    """Whether it overrides functions: False."""
    return False


def has_torch_function_variadic(*tensors: Any) -> bool:
    """Whether an argument overrides functions: False."""
    return False


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor."""
    return isinstance(inp, Tensor)


TorchFunctionMode = refused_class("overrides.TorchFunctionMode", _WHY)
get_overridable_functions = refused_function("overrides.get_overridable_functions", _WHY)
handle_torch_function = refused_function("overrides.handle_torch_function", _WHY)

__all__ = [
    "TorchFunctionMode",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
]
