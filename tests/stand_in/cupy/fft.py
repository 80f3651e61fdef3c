"""Fourier transforms; results of float32 are complex64, as in CuPy."""

import numpy as np

from cupy._array import device_array, host


def _one(name):
    function = getattr(np.fft, name)

    def transform(a, n=None, axis=-1, norm=None):
        return device_array(function(host(a), n, axis, norm))

    transform.__name__ = name
    return transform


def _several(name):
    function = getattr(np.fft, name)

    def transform(a, s=None, axes=None, norm=None):
        return device_array(function(host(a), s, axes, norm))

    transform.__name__ = name
    return transform


fft, ifft, rfft, irfft, hfft, ihfft = map(_one, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_several, ("fftn", "ifftn", "rfftn", "irfftn"))


__all__ = ["fft", "fftn", "hfft", "ifft", "ifftn", "ihfft", "irfft", "irfftn", "rfft", "rfftn"]
