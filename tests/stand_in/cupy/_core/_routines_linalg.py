"""How products are computed: one setting per dtype, for all threads."""

import numpy as np

COMPUTE_TYPE_DEFAULT = 1
COMPUTE_TYPE_TF32 = 7
_types = {}


def get_compute_type(dtype):
    return _types.get(np.dtype(dtype).char, COMPUTE_TYPE_DEFAULT)


def set_compute_type(dtype, compute_type):
    _types[np.dtype(dtype).char] = compute_type


def _rounded(array):
    """What a tensor core reads of float32 numbers: ten bits of mantissa, to the nearest."""
    if array.dtype != np.float32 or get_compute_type(np.float32) != COMPUTE_TYPE_TF32:
        return array
    bits = array.view(np.uint32) + np.uint32(0x0FFF) + ((array.view(np.uint32) >> 13) & 1)
    return np.where(np.isfinite(array), (bits & np.uint32(0xFFFFE000)).view(np.float32), array)
