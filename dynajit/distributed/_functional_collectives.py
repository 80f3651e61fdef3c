"""Collectives whose results are new tensors, by PyTorch's inner path: in a group of one, copies.

Contract: results have no other processes to wait for.
"""

from typing import Any

from dynajit.distributed.with_gradients import all_reduce as _all_reduce
from dynajit.distributed.with_gradients import broadcast as _broadcast


def all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:
    """A copy.

    Raises:
        InvalidValueError: there is no group.
    """
    return _all_reduce(self)


def all_gather_tensor(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """A copy, as `all_reduce`."""
    return _all_reduce(self)


def broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    """A copy; `src` is 0."""
    return _broadcast(self, src)


def wait_tensor(tensor: Any) -> Any:
    """The tensor itself: it is there."""
    return tensor


__all__ = ["all_gather_tensor", "all_reduce", "broadcast", "wait_tensor"]
