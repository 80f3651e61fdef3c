"""Methods of statistics, searching and linear algebra, and of what else arranges tensors.

Contract: as `ops.methods.methods`, which mixes `AnalysisMethods` in: every method is a library
function whose first parameter is the tensor.
"""

from dynajit.ops.functions.arrangement import arrangement, statistics
from dynajit.ops.functions.arrangement import scatter as scatters
from dynajit.ops.functions.arrangement import search as searching
from dynajit.ops.functions.elements import complex as complexes
from dynajit.ops.functions.elements import elementwise, special
from dynajit.ops.functions.elements import number as numbers
from dynajit.ops.functions.matrices import householder
from dynajit.ops.functions.matrices import older_linalg as linalg
from dynajit.ops.functions.matrices.linalg import matrix_exp
from dynajit.ops.functions.networks import nn as layers
from dynajit.ops.functions.reductions import reduction as reductions
from dynajit.ops.functions.signals import spectrogram as spectrograms


class AnalysisMethods:
    """See the module."""

    __slots__ = ()

    tensor_split = arrangement.tensor_split
    hsplit = arrangement.hsplit
    vsplit = arrangement.vsplit
    dsplit = arrangement.dsplit
    split_with_sizes = arrangement.split_with_sizes
    rot90 = arrangement.rot90
    fliplr = arrangement.fliplr
    flipud = arrangement.flipud
    adjoint = complexes.adjoint
    angle = complexes.angle
    conj = complexes.conj
    conj_physical = complexes.conj_physical
    resolve_conj = complexes.resolve_conj
    resolve_neg = complexes.resolve_neg
    is_conj = complexes.is_conj
    is_neg = complexes.is_neg
    _conj = complexes.conj_view
    _neg_view = complexes.neg_view
    real = property(complexes.real)
    imag = property(complexes.imag)
    mH = property(complexes.adjoint)
    H = property(complexes.hermitian)
    trace = arrangement.trace
    diag_embed = arrangement.diag_embed
    diagflat = arrangement.diagflat
    kron = arrangement.kron
    inner = arrangement.inner
    vdot = arrangement.vdot
    ger = arrangement.ger
    addr = arrangement.addr
    addbmm = arrangement.addbmm
    narrow_copy = arrangement.narrow_copy
    select_scatter = arrangement.select_scatter
    slice_scatter = arrangement.slice_scatter
    diagonal_scatter = arrangement.diagonal_scatter
    unique = searching.unique
    unique_consecutive = searching.unique_consecutive
    msort = searching.msort
    cummax = searching.cummax
    cummin = searching.cummin
    logcumsumexp = searching.logcumsumexp
    mode = searching.mode
    bincount = searching.bincount
    histc = searching.histc
    histogram = searching.histogram
    nansum = statistics.nansum
    nanmean = statistics.nanmean
    nanmedian = statistics.nanmedian
    quantile = statistics.quantile
    nanquantile = statistics.nanquantile
    cov = statistics.cov
    corrcoef = statistics.corrcoef
    dist = statistics.dist
    renorm = statistics.renorm
    stft = spectrograms.stft
    istft = spectrograms.istft
    signbit = numbers.signbit
    copysign = numbers.copysign
    sgn = complexes.sgn
    positive = numbers.positive
    isposinf = numbers.isposinf
    isneginf = numbers.isneginf
    isreal = complexes.isreal
    is_nonzero = numbers.is_nonzero
    is_signed = numbers.is_signed
    is_same_size = numbers.is_same_size
    fmax = numbers.fmax
    fmin = numbers.fmin
    heaviside = numbers.heaviside
    deg2rad = numbers.deg2rad
    rad2deg = numbers.rad2deg
    hypot = numbers.hypot
    logaddexp2 = numbers.logaddexp2
    xlogy = numbers.xlogy
    sinc = numbers.sinc
    gcd = numbers.gcd
    lcm = numbers.lcm
    nextafter = numbers.nextafter
    ldexp = numbers.ldexp
    frexp = numbers.frexp
    lgamma = special.lgamma
    digamma = special.digamma
    polygamma = special.polygamma_method
    mvlgamma = special.mvlgamma
    erfinv = special.erfinv
    i0 = special.i0
    igamma = special.igamma
    igammac = special.igammac
    scatter_reduce = scatters.scatter_reduce
    index_reduce = scatters.index_reduce
    put = scatters.put
    masked_scatter = scatters.masked_scatter
    arccosh = elementwise.acosh
    arcsinh = elementwise.asinh
    arctanh = elementwise.atanh
    arctan2 = elementwise.atan2
    fix = elementwise.trunc
    cholesky = linalg.cholesky
    cholesky_inverse = linalg.cholesky_inverse
    cholesky_solve = linalg.cholesky_solve
    geqrf = householder.geqrf
    orgqr = householder.orgqr
    ormqr = householder.ormqr
    cross = linalg.cross
    det = linalg.det
    inverse = linalg.inverse
    logdet = linalg.logdet
    lu = linalg.lu
    lu_solve = linalg.lu_solve
    matrix_exp = matrix_exp
    matrix_power = linalg.matrix_power
    pinverse = linalg.pinverse
    qr = linalg.qr
    slogdet = linalg.slogdet
    svd = linalg.svd
    triangular_solve = linalg.triangular_solve
    argwhere = reductions.argwhere
    hardshrink = layers.hardshrink
    prelu = layers.prelu
