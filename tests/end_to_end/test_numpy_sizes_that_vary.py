"""NumPy's functions in compiled functions where sizes and parameters vary between calls.

Each line is an expression of vectors `x` and `y`, matrices `M` and `S`, integers `i` and numbers
`n`, the length of all, and `k`: one graph, NumPy's values, dtypes, strides and errors, and memory
that is an argument's where NumPy's is.
"""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.fuzz.arrays import difference

pytestmark = pytest.mark.one_python

#: Of which one graph serves all sizes.
ONCE = """
np.repeat(x, k)
np.repeat(M, k, axis=1)
np.repeat(k, n)
np.repeat(x[:1], n)
np.repeat(x, n)
x.repeat(k)
np.repeat(np.arange(n), k)
np.diag(x, k)
np.diag(S, k)
np.diag(M, -k)
np.diagonal(M, k)
np.diagonal(M, -k, 1, 0)
np.trace(S, k)
np.diagflat(x)
np.diagflat(x, k)
np.diagflat(M)
np.array_split(x, 3)
np.split(np.arange(2 * n), 2)
np.unravel_index(i % 5, (n, 3))
np.unravel_index(k, M.shape)
np.unravel_index(np.argmax(M), M.shape)
np.ravel_multi_index((i % 3, i % 2), (n, n))
np.ravel_multi_index(np.array([[1, 2], [0, 1]]), M.shape)
np.vander(x)
np.vander(x, k)
np.vander(np.arange(n))
np.linspace(0, n, 5, retstep=True)
np.linspace(0, 1, 5, retstep=True)
np.linspace(x[0], x[1], n, retstep=True)
np.linspace(0, k, n, dtype=np.float32)
np.linspace(np.zeros(3), np.ones(3), n)
np.arange(0, n, 0.5, dtype=np.float32)
np.arange(0.5, n, dtype=np.float32)
np.arange(0, n, 0.3, dtype=np.float32)
np.arange(0, n, k)
np.pad(x, k)
np.pad(x, (k, 1), mode='edge')
np.pad(x, (0, n))
np.pad(M, ((1, k), (0, 2)), constant_values=3.0)
np.pad(x, k, mode='reflect')
np.pad(x, 1, mode='edge')
np.pad(x, 1, mode='wrap')
np.pad(M, 1, mode='reflect')
np.pad(M, 1, mode='symmetric')
np.pad(x, 1, constant_values=(1.0, 2.0))
np.take(x, i, mode='wrap')
np.take(x, i, mode='clip')
x.take(i % 3)
np.delete(x, k)
np.delete(M, 1, axis=0)
np.delete(x, [0, 2])
np.insert(x, k, 1.0)
np.insert(M, 1, 0.0, axis=1)
np.insert(x, 0, 1.0)
np.ediff1d(x)
np.convolve(x, y)
np.convolve(x, np.ones(3) / 3, 'valid')
np.correlate(x, y, 'full')
np.interp(np.linspace(0, 1, k), np.linspace(0, 1, n), x)
np.interp(x, np.arange(n), y)
np.digitize(x, np.linspace(-1, 1, k))
np.digitize(x, np.array([0.0, 1.0]))
np.percentile(x, [25, 50])
np.quantile(x, 0.5)
np.median(x)
np.median(M, axis=0)
np.argsort(x)
np.partition(x, k)
np.argpartition(x, k)
np.lexsort((x, y))
np.count_nonzero(x > 0)
np.kron(x, y)
np.linalg.inv(S + n * np.eye(n))
np.linalg.solve(S + n * np.eye(n), x)
np.linalg.det(S)
np.linalg.slogdet(S)
np.linalg.cholesky(S @ S.T + np.eye(n))
np.linalg.eigh(S + S.T)
np.linalg.eigvalsh(S + S.T)
np.linalg.svd(M, full_matrices=False)
np.linalg.qr(M)
np.linalg.pinv(M)
np.linalg.matrix_rank(M)
np.fft.fft(x)
np.fft.fft(x, k + 2)
np.fft.rfft(x)
np.fft.irfft(np.fft.rfft(x), n)
np.fft.ifft(x)
np.fft.fft2(M)
np.kaiser(n, k)
np.meshgrid(x, y, sparse=True)
np.cov(M)
np.corrcoef(M)
np.average(x, weights=np.abs(y))
np.average(M, axis=0)
np.std(x, ddof=1)
np.var(M, axis=1, ddof=k)
np.power(k, i)
np.repeat(M.T, 1, axis=0)
2 ** np.arange(n)
i << k
np.left_shift(1, i)
np.ldexp(x, k)
np.modf(x)
np.cbrt(x)
np.spacing(x)
np.putmask(x, x > 0, y)
np.isin(i, [1, 2])
np.fill_diagonal(S, k)
np.fill_diagonal(M, x[0])
np.maximum.at(x, i % 3, 2.0)
np.multiply.at(x, i % 3, 2.0)
np.lib.stride_tricks.sliding_window_view(x, 2)
np.bitwise_count(i)
np.nan_to_num(x, nan=k)
np.nanmean(x)
np.nanmax(M, axis=0)
np.nanmin(M, axis=1, keepdims=True)
np.nanstd(M, axis=0, ddof=1)
np.nanvar(x)
np.nanmedian(np.where(x > 1, np.nan, x))
np.nanprod(M, axis=(0, 1))
np.asfortranarray(M)
np.vecdot(x, y)
np.ldexp(x, i % 4)
np.add.at(M, (i % 3, i % 2), 1.0)
np.linspace(x, y, k)
np.insert(M, k, 3, axis=0)
np.cov(x, y)
np.cov(M, rowvar=False)
np.average(M, axis=1, weights=np.abs(M))
np.percentile(M, [0, 100, 33.3], axis=1)
np.pad(M, ((0, k), (k, 0)), mode='wrap')
np.fft.irfft(np.fft.rfft(x, 2 * n) * np.fft.rfft(y, 2 * n), 2 * n)[:n]
np.fft.fft(M, axis=0)
i >> i % 3
i ** i
"""

#: Of which each number of parts, or of decimals, is a graph.
BY_NUMBER = """
np.linspace(0, 1, n, retstep=True)
np.array_split(x, [k, n - 1, 2 * n])
np.array_split(x, k)
np.array_split(M, k, axis=1)
np.split(x[:k * 2], k)
np.vsplit(S[:, :], n)
np.convolve(x, np.ones(k), 'same')
np.quantile(x, 1 / k)
np.fft.fftn(M)
np.fft.hfft(x)
np.round(x, k)
np.lib.stride_tricks.sliding_window_view(x, k)
"""

#: `n` and `k` of each call: those after the second compile nothing, if they are usual ones.
USUAL = (6, 2), (8, 3), (11, 4), (13, 5), (17, 3)
UNUSUAL = (6, 2), (8, 3), (1, 1), (2, 0), (5, -1), (0, 1)


def _arguments(n: int, k: int) -> list[Any]:
    random = np.random.default_rng(n)
    x, y, m, s = (random.normal(size=shape) for shape in (n, n, (n, n + 2), (n, n)))
    return [x, y, m, s, random.integers(0, 9, n), n, k]


def _outcome(function: Any, n: int, k: int) -> list[Any]:
    arguments = _arguments(n, k)
    try:
        found = function(*arguments)
    except Exception as error:
        return [type(error), str(error)]
    parts = found if isinstance(found, (list, tuple)) else [found]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    shared = [np.shares_memory(part, given) for part in arrays for given in arguments[:5]]
    return [list(found) if isinstance(found, tuple) else found, arguments, shared]


def _function(expression: str) -> Any:
    return eval(f"lambda x, y, M, S, i, n, k: {expression}", {"np": np})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", [*ONCE.split("\n")[1:-1], *BY_NUMBER.split("\n")[1:-1]])
def test_is_one_graph_and_gives_what_numpy_gives(expression: str) -> None:
    function = _function(expression)
    with dj.config.override(strict=True):
        compiled = dj.compile(function, fullgraph=True)
        found = [_outcome(compiled, n, k) for n, k in USUAL]
    assert difference([_outcome(function, n, k) for n, k in USUAL], found) is None
    if expression in ONCE:
        assert len(compiled.report().recompiles) <= 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", ONCE.split("\n")[1:-1])
def test_sizes_of_one_and_none_are_numpys(expression: str) -> None:
    function = _function(expression)
    with dj.config.override(strict=True):
        found = [_outcome(dj.compile(function, backend="numpy"), n, k) for n, k in UNUSUAL]
    assert difference([_outcome(function, n, k) for n, k in UNUSUAL], found) is None


@pytest.mark.parametrize("expression", [
    "np.fromiter(range(n), float)", "np.fromiter((v * 2 for v in range(n)), np.int64)",
    "np.fromiter([v + 0.5 for v in range(n)], int)",
])  # fmt: skip
def test_an_array_of_what_an_iterator_gives_is_numpys(expression: str) -> None:
    function = _function(expression)
    compiled = dj.compile(function, fullgraph=True)
    for n in (3, 5):
        assert difference(_outcome(function, n, 1), _outcome(compiled, n, 1)) is None


def test_parts_are_views_that_a_write_goes_through() -> None:
    def function(x: Any, n: int) -> Any:
        for part in np.array_split(x, 3):
            part += n
        np.split(x, [1, n - 2])[1][:] *= 2
        return x

    compiled = dj.compile(function, fullgraph=True)
    for n in (6, 8, 11):
        np.testing.assert_array_equal(function(np.arange(n), n), compiled(np.arange(n), n))


@pytest.mark.parametrize("part", [
    "np.split(t, 3)[0]", "np.array_split(t, 2, axis=1)[1]", "np.hsplit(t, 2)[0]",
    "np.vsplit(t, 3)[2]", "np.ascontiguousarray(t)", "np.asfortranarray(t[0])", "np.asarray(t)",
    "t[np.argmax(x[:, 0]):]", "t[np.argmax(x[:, 0])]", "t[..., np.argmin(x[0])]",
    "t[[0, np.argmin(x[0])]]", "t[np.argmax(x[:, 0]), np.argmin(x[0])]",
])  # fmt: skip
def test_parts_of_flipped_arrays_share_memory_as_numpys(part: str) -> None:
    """Writes to parts were lost, and a contiguous copy was the array itself."""
    space: dict[str, Any] = {"np": np}
    exec(
        f"def function(x):\n    t = np.flip(x)\n    v = {part}\n    v += 7\n    return x, t", space
    )
    expected = space["function"](np.arange(12).reshape(3, 4))
    found = dj.compile(space["function"], backend="numpy")(np.arange(12).reshape(3, 4))
    assert difference(list(expected), list(found)) is None


@pytest.mark.parametrize("part", [
    "np.take(x, 1, axis=0)", "x.take(z, axis=1)", "np.delete(x, [], 0)", "np.pad(x, 0)",
    "np.repeat(x, 1, axis=0)", "np.diff(x, 0)", "np.array_split(x, 1)[0]",
    "np.asfortranarray(x.T)", "np.modf(x)[1]", "np.cov(x)",
])  # fmt: skip
def test_what_is_a_copy_in_numpy_is_one(part: str) -> None:
    _compare_written(part, np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize("key", ["np.array(1)", "z", "(z, slice(1, None))", "(..., np.array(0))"])
def test_an_index_that_is_an_array_without_dims_copies(key: str) -> None:
    """What was read so was a view, and writes to it reached the array."""
    _compare_written(f"x[{key}]", np.arange(12).reshape(3, 4))


def _compare_written(part: str, x: Any) -> None:
    """A part of an array, which is written, is compared with the array beside NumPy's."""
    space: dict[str, Any] = {"np": np}
    exec(f"def function(x, z):\n    v = {part}\n    v += 7\n    return x, v", space)
    expected, found = (
        call(x.copy(), np.array(1))
        for call in (space["function"], dj.compile(space["function"], backend="numpy"))
    )
    assert difference(list(expected), list(found)) is None


def test_singular_matrices_of_sizes_that_vary_raise_numpys_error() -> None:
    compiled = dj.compile(lambda x: np.linalg.inv(x) + 1)
    for n in (3, 4, 5):
        compiled(np.eye(n) * 2)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        compiled(np.ones((6, 6)))


def test_nothing_left_without_nan_is_numpys_warning() -> None:
    compiled = dj.compile(lambda x: np.nanmean(x, axis=0) + 1, fullgraph=True)
    compiled(np.ones((2, 3)))
    x = np.array([[1.0, np.nan, 2.0], [3.0, np.nan, np.nan]])

    with pytest.raises(RuntimeWarning, match="Mean of empty slice"):
        compiled(x)
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        found = compiled(x)
    np.testing.assert_array_equal(found, [3.0, np.nan, 3.0])
