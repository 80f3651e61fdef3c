"""Methods of statistics, searching and linear algebra, and of what else arranges tensors.

Contract: as `ops.methods.methods`, which mixes `AnalysisMethods` in: every method is a library
function whose first parameter is the tensor.
"""

from dynajit.ops.functions.elements import complex as complexes
from dynajit.ops.functions.elements import special
from dynajit.ops.functions.matrices import householder
from dynajit.ops.methods.function_methods import FunctionMethods


class AnalysisMethods(FunctionMethods):
    """See the module."""

    __slots__ = ()

    _conj = complexes.conj_view
    _neg_view = complexes.neg_view
    real = property(complexes.real)
    imag = property(complexes.imag)
    mH = property(complexes.adjoint)
    H = property(complexes.hermitian)
    polygamma = special.polygamma_method
    geqrf = householder.geqrf
    orgqr = householder.orgqr
    ormqr = householder.ormqr
