"""Special functions of device arrays, computed by SciPy in the types that CuPy has."""

import scipy.special
from cupy._ufunc import ufunc
from cupy._ufunc_types import SPECIAL_TYPES

globals().update(
    {
        name: ufunc(name, types, getattr(scipy.special, name))
        for name, types in SPECIAL_TYPES.items()
    }
)
__all__ = [*SPECIAL_TYPES]
