"""Classes of the named tuples that functions return, by PyTorch's path.

Contract: each name is the class of what the function of that name returns. Functions that return
values and indices share one class, so `isinstance` cannot tell them apart.
"""

from dynajit.core.process import late
from dynajit.ops.functions.arrangement.search import Histogram
from dynajit.ops.functions.elements.number import MantissaExponent
from dynajit.ops.functions.matrices.linalg import QR, Eigen, LeastSquares, SignLogDet
from dynajit.ops.functions.matrices.linalg import SVD as ThinSVD
from dynajit.ops.functions.matrices.older_linalg import SVD, TriangularSolution
from dynajit.ops.functions.reductions.reduction import LowestHighest, ValuesIndices

cummax = cummin = kthvalue = max = median = min = mode = sort = topk = ValuesIndices
nanmedian = ValuesIndices
aminmax = LowestHighest
frexp = MantissaExponent
histogram = Histogram
linalg_eigh = Eigen
linalg_lstsq = LeastSquares
linalg_qr = qr = QR
linalg_slogdet = slogdet = SignLogDet
linalg_svd = ThinSVD
svd = SVD
triangular_solve = TriangularSolution

__all__ = [
    "aminmax",
    "cummax",
    "cummin",
    "frexp",
    "histogram",
    "kthvalue",
    "linalg_eigh",
    "linalg_lstsq",
    "linalg_qr",
    "linalg_slogdet",
    "linalg_svd",
    "max",
    "median",
    "min",
    "mode",
    "nanmedian",
    "qr",
    "slogdet",
    "sort",
    "svd",
    "topk",
    "triangular_solve",
]

late.show(__name__)
