"""Arrays that compiled functions make of sizes that vary: NumPy's, in one graph for all sizes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

pytestmark = pytest.mark.one_python

FUNCTIONS: dict[str, Callable[[int, int], Any]] = {
    "arange": lambda n, m: np.arange(n),
    "arange of float64": lambda n, m: np.arange(n, dtype=float) * 0.5,
    "arange of int32": lambda n, m: np.arange(1, n + 1, dtype=np.int32),
    "arange between": lambda n, m: np.arange(n, n + m),
    "arange by steps": lambda n, m: np.arange(1, n, 3),
    "arange downwards": lambda n, m: np.arange(n - 1, -1, -1),
    "arange of none": lambda n, m: np.arange(n, 2),
    "eye": lambda n, m: np.eye(n),
    "eye of two sizes": lambda n, m: np.eye(n, m, 1, dtype=np.int64),
    "eye below": lambda n, m: np.eye(n, k=-2) + np.eye(n, k=n - 1),
    "identity": lambda n, m: np.identity(n, dtype=bool),
    "tri": lambda n, m: np.tri(n, m, -1) + np.tri(n, m, dtype=int),
    "indices": lambda n, m: np.indices((n, m)),
    "indices of float32": lambda n, m: np.indices((m, 2, n), np.float32),
    "meshgrid": lambda n, m: np.meshgrid(np.arange(n), np.arange(m))[0],
    "mgrid": lambda n, m: np.mgrid[0:n, 1:m],
    "ogrid": lambda n, m: np.ogrid[0:n, 0:m][1],
    "fromfunction": lambda n, m: np.fromfunction(lambda i, j: i * 2 + j, (n, m)),
    "arange of floats": lambda n, m: np.arange(0.0, n)[0] + np.arange(-3.0, n, 2.0),
    "arange by no step": lambda n, m: np.arange(0, n, None),
    "bartlett": lambda n, m: np.bartlett(n),
    "frequencies": lambda n, m: np.fft.fftfreq(n),
    "frequencies of odd sizes": lambda n, m: np.fft.fftfreq(2 * m + 1, d=0.1),
    "positive frequencies": lambda n, m: np.fft.rfftfreq(n, 0.3) + np.fft.rfftfreq(n),
    "diagonal places": lambda n, m: np.diag_indices(n)[1] + np.diag_indices(n, 3)[2],
    "diag": lambda n, m: np.diag(np.arange(m)) * 2,
    "diag of floats": lambda n, m: np.diag(np.linspace(-1, 2, n)),
    "mgrid of one dim": lambda n, m: np.mgrid[0:n] + np.ogrid[1 : n + 1],
    "linspace to a size": lambda n, m: np.linspace(0, n, 10) + np.linspace(m, 0.5, 10),
    "linspace": lambda n, m: np.linspace(-1, 2, n),
    "linspace without its end": lambda n, m: np.linspace(0.1, 0.7, m, endpoint=False),
    "linspace of one number": lambda n, m: np.linspace(3.0, 3.0, n),
}
SIZES = (5, 7), (6, 4), (9, 2), (3, 11), (40, 40)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_may_vary(name: str) -> None:
    def function(x: Any) -> Any:
        n, m = x.shape
        return make(n, m) + (x.sum() > 1e9)  # of the dtype that the array has, or of int64

    make = FUNCTIONS[name]
    compiled = dj.compile(function, fullgraph=True)

    for sizes in SIZES:
        x = np.ones(sizes)
        expected, found = function(x), compiled(x)
        assert type(found) is np.ndarray
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    assert len(compiled.report().recompiles) <= 2
