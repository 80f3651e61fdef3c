"""Memory shared with other libraries by PyTorch's path: DLPack capsules and what makes them.

Contract: `from_dlpack` takes a capsule, too, as `to_dlpack` makes it; a capsule is used up by one
call.
"""

from typing import Any

import numpy as np

from dynajit.eager.tensor.creation import from_dlpack as tensor_of_producer
from dynajit.eager.tensor.creation import from_numpy
from dynajit.eager.tensor.tensor import Tensor

_ON_THE_CPU = (1, 0)


class _Producer:
    """Hands a capsule on to a library that asks for an object."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _ON_THE_CPU


class _Writable:
    """The memory of an array that NumPy takes for read-only: older capsules do not say."""

    def __init__(self, array: Any) -> None:
        self._array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of the tensor's memory, without its history.

    Raises:
        what `Tensor.__dlpack__` raises: the tensor requires gradients, or its dtype has no name.
    """
    return tensor.__dlpack__()


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor that shares the memory of a capsule, or of an object with `__dlpack__`."""
    if hasattr(ext_tensor, "__dlpack__"):
        return tensor_of_producer(ext_tensor)
    return from_numpy(np.asarray(_Writable(np.from_dlpack(_Producer(ext_tensor)))))


__all__ = ["from_dlpack", "to_dlpack"]
