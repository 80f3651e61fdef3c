"""Memory shared with other libraries by PyTorch's path: DLPack capsules and what makes them.

Contract: `from_dlpack` takes a capsule, too, as `to_dlpack` makes it; a capsule is used up by one
call.
"""

from typing import Any

from dynajit.eager.tensor.shared_memory import from_dlpack
from dynajit.eager.tensor.tensor import Tensor


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of the tensor's memory, without its history.

    Raises:
        what `Tensor.__dlpack__` raises: the dtype has no name.
    """
    return tensor.detach().__dlpack__()


__all__ = ["from_dlpack", "to_dlpack"]
