"""A decorator of PyTorch's `fx` that programs copy: it changes nothing."""

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """A decorator that gives back what it decorates."""
    return lambda decorated: decorated


__all__ = ["compatibility"]
