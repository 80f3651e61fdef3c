"""Sparse tensors by PyTorch's path: refused by name.

Contract: as `core.refusals` says; all tensors are dense. Called by users.
"""

from dynajit.core.refusals import refused_class, refused_function
from dynajit.ops.kind_methods import WHY_SPARSE

DoubleTensor = refused_class("sparse.DoubleTensor", WHY_SPARSE)
FloatTensor = refused_class("sparse.FloatTensor", WHY_SPARSE)
LongTensor = refused_class("sparse.LongTensor", WHY_SPARSE)
addmm = refused_function("sparse.addmm", WHY_SPARSE)
log_softmax = refused_function("sparse.log_softmax", WHY_SPARSE)
mm = refused_function("sparse.mm", WHY_SPARSE)
softmax = refused_function("sparse.softmax", WHY_SPARSE)
sum = refused_function("sparse.sum", WHY_SPARSE)

sparse_coo_tensor = refused_function("sparse_coo_tensor", WHY_SPARSE)
sparse_csr_tensor = refused_function("sparse_csr_tensor", WHY_SPARSE)
sparse_compressed_tensor = refused_function("sparse_compressed_tensor", WHY_SPARSE)

__all__ = [
    "DoubleTensor",
    "FloatTensor",
    "LongTensor",
    "addmm",
    "log_softmax",
    "mm",
    "softmax",
    "sum",
]
