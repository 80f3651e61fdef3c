"""Storages by PyTorch's path: the bytes behind tensors.

Contract: `UntypedStorage` is what `Tensor.untyped_storage` gives, `TypedStorage` what
`Tensor.storage` gives. Plain pickles that PyTorch wrote (`pickle.dump` of tensors, without `save`)
name this module.
"""

import io
from typing import Any

from dynajit.eager.files.serialization import load
from dynajit.eager.operations.storages import TypedStorage, UntypedStorage


def is_storage(obj: Any) -> bool:
    """Whether it is a storage."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def _load_from_bytes(b: bytes) -> Any:
    """The storage that PyTorch put into a plain pickle of a tensor; `pickle.load` calls this.

    It is what `_utils._rebuild_tensor_v2` takes. Like `pickle.load`, it runs what the bytes say.
    """
    return load(io.BytesIO(b), weights_only=False)


__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]
