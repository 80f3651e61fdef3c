"""Storages by PyTorch's path: the bytes behind tensors.

Contract: `UntypedStorage` is what `Tensor.untyped_storage` gives; storages with an element type
are refused by name. Called by users.
"""

from typing import Any

from dynajit.core.refusals import refused_class
from dynajit.eager.layout import UntypedStorage

TypedStorage = refused_class(
    "storage.TypedStorage",
    "storages have no element type here.  Use tensor.untyped_storage(), or the tensor itself.",
)


def is_storage(obj: Any) -> bool:
    """Whether it is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]
