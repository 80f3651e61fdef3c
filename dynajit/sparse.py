"""Sparse tensors by PyTorch's path: those of positions and values (COO); compressed layouts are
refused by name.

Contract: as `eager.sparse.sparse_tensor` and `eager.sparse.functions`; what refuses does as
`core.refusals` says.
"""

from dynajit.core.process import late
from dynajit.core.refusals import refused_function
from dynajit.core.types.tensor_layouts import WHY_COMPRESSED
from dynajit.eager.sparse.functions import (
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    addmm,
    log_softmax,
    mm,
    softmax,
    sparse_coo_tensor,
    sum,
)

sparse_csr_tensor = refused_function("sparse_csr_tensor", WHY_COMPRESSED)
sparse_csc_tensor = refused_function("sparse_csc_tensor", WHY_COMPRESSED)
sparse_bsr_tensor = refused_function("sparse_bsr_tensor", WHY_COMPRESSED)
sparse_bsc_tensor = refused_function("sparse_bsc_tensor", WHY_COMPRESSED)
sparse_compressed_tensor = refused_function("sparse_compressed_tensor", WHY_COMPRESSED)

__all__ = [
    "BFloat16Tensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "addmm",
    "log_softmax",
    "mm",
    "softmax",
    "sparse_coo_tensor",
    "sum",
]

late.show(__name__)
