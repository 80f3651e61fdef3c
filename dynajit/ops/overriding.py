"""Whether arguments override functions (`__torch_function__`): there is no such protocol.

Contract: questions are answered. Called by `dynajit.overrides` and `nn.functional`, where programs
look for them.
"""

from typing import Any

from dynajit.core.refusals import refused_function

WHY_NOT_OVERRIDDEN = "functions cannot be overridden here.  Call your own function in their place."


def has_torch_function(relevant_args: Any) -> bool:
    """Whether an argument overrides functions: False."""
    return False


def has_torch_function_unary(tensor: Any) -> bool:
    """Whether it overrides functions: False."""
    return False


def has_torch_function_variadic(*tensors: Any) -> bool:
    """Whether an argument overrides functions: False."""
    return False


handle_torch_function = refused_function("overrides.handle_torch_function", WHY_NOT_OVERRIDDEN)

__all__ = [
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
]
