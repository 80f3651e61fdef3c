"""Special functions of device arrays, of float32 and float64, computed by SciPy."""

import numpy as np
import scipy.special
from cupy._array import device_array, host


def _function(name):
    function = getattr(scipy.special, name)

    def compute(*operands):
        with np.errstate(all="ignore"):
            return device_array(np.asarray(function(*map(host, operands))))

    compute.__name__ = name
    return compute


erf, erfc, erfinv, gammaln, gammainc, gammaincc, zeta, i0, i0e, i1, i1e = map(
    _function,
    ["erf", "erfc", "erfinv", "gammaln", "gammainc", "gammaincc", "zeta", "i0", "i0e", "i1", "i1e"],
)
