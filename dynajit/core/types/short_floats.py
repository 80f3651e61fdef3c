"""Casts to the floats of 8 bits, by PyTorch's rules.

Contract: `shortened(array, dtype)` rounds to nearest, ties to even, of what float32 holds: wider
numbers round twice, as in PyTorch. Too large numbers and infinities become the largest number of
`float8_e4m3fn`, the infinity of `float8_e5m2`, the NaN of those that end in `fnuz`.
`float8_e8m0fnu` has powers of two alone: signs are dropped, and halves go up. Casts from these
floats are exact, and NumPy's.
"""

from typing import Any, Final

import numpy as np

from dynajit.core.types import dtypes

_SHORT: Final = frozenset(dtype.numpy for dtype in dtypes.SHORT)
_LARGEST: Final = 448.0  # of float8_e4m3fn
_NAN_OF_E5M2: Final = 0x7F


def is_short(dtype: np.dtype) -> bool:
    """True for the NumPy dtype of a float of 8 bits."""
    return dtype.itemsize == 1 and dtype in _SHORT


def converted(array: Any, dtype: np.dtype) -> Any:
    """An array of NumPy in another dtype; itself if it has that already."""
    if array.dtype == dtype:
        return array
    return shortened(array, dtype) if is_short(dtype) else array.astype(dtype)


def is_own(dtype: np.dtype) -> bool:
    """True for dtypes that NumPy itself does not have: bfloat16 and the floats of 8 bits."""
    return dtype.isbuiltin == 2


def shortened(array: Any, dtype: np.dtype) -> Any:
    """A new array of a float of 8 bits: see the module.

    Args:
        array: an array or scalar of NumPy.
        dtype: one for which `is_short` is true.
    """
    if np.asarray(array).dtype == dtype:
        return array.copy()
    given = np.asarray(array)
    with np.errstate(all="ignore"):
        values = (given.real if given.dtype.kind == "c" else given).astype(np.float32)
        if dtype == dtypes.float8_e8m0fnu.numpy:
            return _powers_of_two(values).view(dtype)
        if dtype == dtypes.float8_e4m3fn.numpy:
            values = np.clip(values, -_LARGEST, _LARGEST)
        found = np.asarray(values).astype(dtype)
    if dtype == dtypes.float8_e5m2.numpy:
        codes = found.view(np.uint8)
        codes[np.isnan(values)] |= _NAN_OF_E5M2
    return found


def _powers_of_two(values: Any) -> Any:
    """The exponents of float32, one higher where the fraction is a half or more; 255 is NaN."""
    bits = np.ascontiguousarray(values).reshape(values.shape).view(np.uint32)
    exponents = (bits >> np.uint32(23)) & np.uint32(0xFF)
    fractions = bits & np.uint32(0x7FFFFF)
    half = np.uint32(0x400000)
    rises = (fractions > half) | ((fractions == half) & (exponents > 0))
    return (exponents + (rises & (exponents < 255))).astype(np.uint8)
