"""How programs say what an export shall write, by PyTorch's path: accepted, and never called.

Contract: decorators give back what they decorate.
"""

from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


def parse_args(*arg_descriptors: str) -> Callable[[_T], _T]:
    """A decorator that gives back the function."""
    return lambda function: function


def quantized_args(*arg_q_descriptors: bool, **options: Any) -> Callable[[_T], _T]:
    """A decorator that gives back the function."""
    return lambda function: function


__all__ = ["parse_args", "quantized_args"]
