"""Arrays that compiled functions make of sizes that vary: NumPy's, in one graph for all sizes."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.ops.functions.arrays.creation import _count_of_steps

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
    "hanning": lambda n, m: np.hanning(n) + np.hanning(n)[::-1],
    "hamming": lambda n, m: np.hamming(n + m),
    "blackman": lambda n, m: np.blackman(2 * n) * 0.5,
    "kaiser": lambda n, m: np.kaiser(n, 8.6),
    "kaiser by name": lambda n, m: np.kaiser(M=m, beta=14),
    "windows of one number and of none": lambda n, m: np.hanning(n - n + 1) + np.hamming(n - 2),
    "logspace": lambda n, m: np.logspace(-2, 3, n),
    "logspace of powers of two": lambda n, m: np.logspace(0, 5, num=m, endpoint=False, base=2),
    "geomspace": lambda n, m: np.geomspace(1, 1000, n),
    "geomspace downwards": lambda n, m: np.geomspace(256.0, 0.5, num=n, endpoint=False),
    "arange by halves": lambda n, m: np.arange(0, n, 0.5),
    "arange by tenths": lambda n, m: np.arange(1, n, 0.1)[::2] * 3,
    "arange by fifths from a size": lambda n, m: np.arange(n, n + m, 0.2),
    "arange by sevenths to nothing": lambda n, m: np.arange(n, -1.0, 1 / 7),
    "arange by three tenths": lambda n, m: np.arange(0, n, 0.3) + np.arange(0.0, n, 0.3),
    "arange by one and a half": lambda n, m: np.arange(-2, n, 1.5),
    "arange from a half": lambda n, m: np.arange(0.5, n),
    "arange downwards by quarters": lambda n, m: np.arange(n, -m, -0.25),
    "linspace of float32": lambda n, m: np.linspace(0, 1, n, dtype=np.float32),
    "linspace of integers": lambda n, m: np.linspace(0, 10, num=n, endpoint=False, dtype=int),
    "logspace of float32 to a size": lambda n, m: np.logspace(0, m, n, base=2, dtype=np.float32),
    "geomspace to a size": lambda n, m: np.geomspace(1, n, m) + np.geomspace(m, 0.5, m),
    "sparse indices": lambda n, m: np.indices((n, m), sparse=True)[1],
    "tril_indices": lambda n, m: np.stack(np.tril_indices(n)),
    "tril_indices of two sizes": lambda n, m: np.stack(np.tril_indices(n, 2, m)),
    "tril_indices below": lambda n, m: np.tril_indices(n, -3)[1],
    "triu_indices": lambda n, m: np.stack(np.triu_indices(n)),
    "triu_indices above": lambda n, m: np.stack(np.triu_indices(n, k=1)),
    "triu_indices of two sizes": lambda n, m: np.stack(np.triu_indices(m, -1, n)),
    "triu_indices by a size": lambda n, m: np.triu_indices(n, m // 8)[0],
    "pairs": lambda n, m: np.ones((n, n)).cumsum(axis=1)[np.triu_indices(n, 1)],
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


def test_the_count_of_steps_is_that_of_numpys_floats() -> None:
    """NumPy rounds `(stop - start) / step` up, in floats: for any end that an array may have."""
    random = np.random.default_rng(0)
    known = 0
    for step in (0.1, 0.2, 0.3, 0.7, 1 / 3, 1 / 7, 0.25, 1.5, 2.5, 0.01, 0.05, 0.99, -0.1, -1.25):
        for start in (0, 1, -3, 0.5, -0.25, 2.75):
            small, large = random.integers(-40, 400, 60), random.integers(0, 1 << 31, 60)
            for stop in map(int, (*small, *large, *(1 << np.arange(31)), *(10 ** np.arange(9)))):
                count = _count_of_steps(start, stop, step)
                known += count is not None
                assert count in (None, max(0, math.ceil((stop - start) / step)))
    assert known > 10_000


@pytest.mark.parametrize(
    "function", [lambda x: np.hanning(len(x)), lambda x: np.hanning(len(x)) + x]
)
def test_a_program_of_what_numpy_computes_gives_no_warning(function: Any) -> None:
    compiled = dj.compile(function, fullgraph=True)
    for size in (4, 6, 7):
        np.testing.assert_array_equal(compiled(np.ones(size)), function(np.ones(size)))
