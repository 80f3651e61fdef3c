"""Tensors: handles whose heap contents say which graph value the tensor holds now.

An in-place operation on a tensor replaces the contents, so every alias of the handle sees it; the
graph itself stays pure. Memory shared between different tensor objects (views) is followed by
`memory`: one id for a tensor and all its views.
"""

from dataclasses import dataclass
from typing import Any

from dynajit.capture.values_containers import HeapValue


@dataclass(frozen=True, slots=True)
class TensorContents:
    """What a tensor holds.

    Args:
        value: the graph value, or None for an existing tensor that no operation has used yet.
        tensor: the existing tensor, for one that came from outside.
        memory: id shared by a tensor and its views.
        is_view: True if made as a view of another tensor.
    """

    value: Any
    tensor: Any = None
    memory: int = 0
    is_view: bool = False


class TensorValue(HeapValue):
    """A tensor; `cls` is its exact class (Tensor, Parameter, ...)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"TensorValue({self.identity})"
