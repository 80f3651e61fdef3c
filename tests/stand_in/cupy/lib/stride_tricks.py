"""Views at other strides."""

import numpy as np

from cupy._array import host, view_of


def as_strided(x, shape=None, strides=None):
    return view_of(x, np.lib.stride_tricks.as_strided(host(x), shape, strides))


def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    found = np.lib.stride_tricks.sliding_window_view(
        host(x), window_shape, axis, writeable=writeable
    )
    return view_of(x, found)


__all__ = ["as_strided", "sliding_window_view"]
