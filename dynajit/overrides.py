"""Overridden functions by PyTorch's path: there is no such protocol.

Contract: questions are answered; modes and dispatch are refused when they are used.
"""

from typing import Any

from dynajit.core.refusals import refused_class, refused_function
from dynajit.eager.tensor import Tensor
from dynajit.ops.overriding import (
    WHY_NOT_OVERRIDDEN,
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor."""
    return isinstance(inp, Tensor)


TorchFunctionMode = refused_class("overrides.TorchFunctionMode", WHY_NOT_OVERRIDDEN)
get_overridable_functions = refused_function(
    "overrides.get_overridable_functions", WHY_NOT_OVERRIDDEN
)

__all__ = [
    "TorchFunctionMode",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
]
