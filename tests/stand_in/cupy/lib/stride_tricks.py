"""Views at other strides."""

import numpy as np

import cupy
from cupy._array import host, view_of


def as_strided(x, shape=None, strides=None):
    """As CuPy's, the result has no base."""
    shape = x.shape if shape is None else shape
    return cupy.ndarray(shape, x.dtype, x.data, x.strides if strides is None else strides)


def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    if writeable:
        raise NotImplementedError("Writeable views are not supported.")
    found = np.lib.stride_tricks.sliding_window_view(host(x), window_shape, axis)
    return view_of(x, found)


__all__ = ["as_strided", "sliding_window_view"]
