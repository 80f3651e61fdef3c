"""Collectives whose results are new tensors, by PyTorch's inner path: in a group of one, copies.

Contract: results have no other processes to wait for.
"""

from typing import Any

from dynajit.core.errors import ShapeError
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


def all_to_all_single(
    self: Any, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = ""
) -> Any:
    """A copy; the splits are one, of all rows, or None.

    Raises:
        ShapeError: they are others.
        InvalidValueError: there is no group.
    """
    for splits in (output_split_sizes, input_split_sizes):
        if splits is not None and list(splits) != [self.shape[0]]:
            raise ShapeError(
                f"all_to_all_single: splits {list(splits)} of {self.shape[0]} rows.  Expected "
                f"[{self.shape[0]}]: there is one process."
            )
    return _all_reduce(self)


all_to_all_single_autograd = all_to_all_single
all_gather_tensor_autograd = all_gather_tensor


def wait_tensor(tensor: Any) -> Any:
    """The tensor itself: it is there."""
    return tensor


__all__ = [
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "wait_tensor",
]
