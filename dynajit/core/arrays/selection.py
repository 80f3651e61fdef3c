"""One of two values for each element of a mask.

Contract: `select` is `numpy.where` for three operands, also on GPU arrays. NumPy decides element by
element, and a mask that a processor cannot foresee costs it 4 ns each; here the bits of both values
are combined, a tenth to a quarter of that.
"""

from typing import Any, Final

import numpy as np

LEAST: Final = 4096
"""Elements of a mask from which some passes over all of them take less time than a decision each:
for as many of float32 they take 6 us (measured), `numpy.where` 5 with a mask that it has seen
often, and 15 with a random one."""
_INTEGERS: Final = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def select(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y; shapes broadcast, dtypes as of `numpy.where`."""
    if type(condition) is np.ndarray and condition.dtype == np.bool_ and condition.size >= LEAST:
        dtype = _common_dtype(x, y)
        if dtype is not None:
            return _combined(condition, np.asarray(x, dtype), np.asarray(y, dtype))
    return np.where(condition, x, y)


def _common_dtype(x: object, y: object) -> Any:
    """The dtype of both values if it is one, at least one of them has a dtype, and there are
    integers of its size; else None."""
    arrays = [value for value in (x, y) if isinstance(value, (np.ndarray, np.generic))]
    if not arrays or arrays[0].dtype.itemsize not in _INTEGERS or arrays[0].dtype.hasobject:
        return None
    dtype = arrays[0].dtype
    others = (value for value in (x, y) if not isinstance(value, (np.ndarray, np.generic)))
    is_common = all(array.dtype == dtype and dtype.isnative for array in arrays) and all(
        _fits(value, dtype) for value in others
    )
    return dtype if is_common else None


def _fits(number: Any, dtype: Any) -> bool:
    """True if a number of Python's takes the dtype of an array beside it."""
    return dtype.kind in ("f" if type(number) is float else "fiu" if type(number) is int else "")


def _combined(condition: Any, x: Any, y: Any) -> Any:
    integer = _INTEGERS[x.dtype.itemsize]
    chosen = condition.view(np.int8).astype(integer)
    bits_x, bits_y = x.view(integer), y.view(integer)
    if bits_y.ndim == 0 and bits_y == 0:
        np.negative(chosen, out=chosen)  # all bits where the condition holds
        return np.bitwise_and(bits_x, chosen).view(x.dtype)
    if bits_x.ndim == 0 and bits_x == 0:
        np.subtract(chosen, 1, out=chosen)  # all bits where it does not
        return np.bitwise_and(bits_y, chosen).view(x.dtype)
    np.negative(chosen, out=chosen)
    differing = np.bitwise_and(np.bitwise_xor(bits_x, bits_y), chosen)
    return np.bitwise_xor(differing, bits_y).view(x.dtype)
