"""Linear algebra; as in CuPy, 16-bit floats are refused and failures raise within
`cupyx.errstate(linalg="raise")` only (elsewhere the result is what cuSOLVER left: NaN here)."""

import numpy as np

from cupy._array import device_array, host


def _checked(*arrays):
    for a in arrays:
        if a.dtype.name in ("float16", "bfloat16"):
            raise TypeError(f"{a.dtype.name} is unsupported in linalg")
    return [host(a) for a in arrays]


def _or_nan(function, shapes, dtype):
    """What `function` gives; where it fails, NaN of the shapes that it would have had."""
    import cupyx

    try:
        return function()
    except np.linalg.LinAlgError:
        if cupyx.geterr()["linalg"] == "raise":
            raise
        return tuple(np.full(shape, np.nan, dtype) for shape in shapes)


def _as_arrays(found):
    found = found if isinstance(found, tuple) else (found,)
    return tuple(device_array(np.asarray(a)) for a in found)


def solve(a, b):
    a, b = _checked(a, b)
    return _as_arrays(_or_nan(lambda: np.linalg.solve(a, b), [b.shape], b.dtype))[0]


def inv(a):
    (a,) = _checked(a)
    return _as_arrays(_or_nan(lambda: np.linalg.inv(a), [a.shape], a.dtype))[0]


def cholesky(a):
    (a,) = _checked(a)
    return _as_arrays(_or_nan(lambda: np.linalg.cholesky(a), [a.shape], a.dtype))[0]


def svd(a, full_matrices=True, compute_uv=True):
    (a,) = _checked(a)
    return _as_arrays(tuple(np.linalg.svd(a, full_matrices, compute_uv)))


def qr(a, mode="reduced"):
    (a,) = _checked(a)
    return _as_arrays(tuple(np.linalg.qr(a, mode)))


def eigh(a, UPLO="L"):
    (a,) = _checked(a)
    return _as_arrays(tuple(np.linalg.eigh(a, UPLO)))


def det(a):
    (a,) = _checked(a)
    return _as_arrays(np.linalg.det(a))[0]


def slogdet(a):
    (a,) = _checked(a)
    return _as_arrays(tuple(np.linalg.slogdet(a)))


__all__ = ["cholesky", "det", "eigh", "inv", "qr", "slogdet", "solve", "svd"]
