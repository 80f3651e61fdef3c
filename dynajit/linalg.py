"""`dynajit.linalg`: linear algebra by PyTorch's path; see `ops.functions.matrices.linalg`."""

from dynajit.core.errors import LinAlgError
from dynajit.core.process import late
from dynajit.ops.calls.library_calls import publish
from dynajit.ops.functions.matrices.householder import householder_product
from dynajit.ops.functions.matrices.linalg import (
    cholesky,
    det,
    diagonal,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    lstsq,
    lu,
    lu_factor,
    lu_solve,
    matrix_exp,
    matrix_power,
    matrix_rank,
    pinv,
    qr,
    slogdet,
    solve,
    solve_triangular,
    svd,
    svdvals,
    tensorinv,
    tensorsolve,
    vander,
)
from dynajit.ops.functions.matrices.matrix import matmul
from dynajit.ops.functions.matrices.norm import (
    cond,
    cross,
    matrix_norm,
    multi_dot,
    norm,
    vecdot,
    vector_norm,
)
from dynajit.ops.functions.matrices.reported_failures import (
    cholesky_ex,
    inv_ex,
    lu_factor_ex,
    solve_ex,
)
from dynajit.ops.rows.symmetric_factors import ldl_factor, ldl_factor_ex, ldl_solve

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

publish(globals(), __all__)

late.show(__name__)
