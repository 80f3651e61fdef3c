"""The methods of dense tensors that make sparse ones; these are loaded by the first call.

Contract: as `eager.sparse.sparse_tensor` says of the functions of these names. Imported by `eager`,
for the
methods: a class that sparse tensors derive from cannot have them in its own module.
"""

from typing import Any

from dynajit.core.process.late import Late
from dynajit.eager.tensor.tensor import Tensor

sparse = Late("dynajit.eager.sparse.sparse_tensor")


def to_sparse(self: Any, sparse_dim: int | None = None, *, layout: Any = None) -> Any:
    """What of a dense tensor is not 0, as a coalesced sparse tensor; see
    `eager.sparse.sparse_tensor`."""
    return sparse.to_sparse(self, sparse_dim, layout=layout)


def sparse_mask(self: Any, mask: Any) -> Any:
    """The elements at the positions of the sparse tensor `mask`; see
    `eager.sparse.sparse_tensor`."""
    return sparse.sparse_mask(self, mask)


Tensor.to_sparse = to_sparse  # type: ignore[attr-defined]
Tensor.to_sparse_coo = to_sparse  # type: ignore[attr-defined]
Tensor.sparse_mask = sparse_mask  # type: ignore[attr-defined]
