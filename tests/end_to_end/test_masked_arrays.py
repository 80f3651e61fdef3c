"""Elements of NumPy's arrays that a mask chooses: `a[a > 0].sum()`, `b[m] += 1`, `a[m]` itself."""

import warnings

import numpy as np
import pytest

import dynajit as dj

RANDOM = np.random.default_rng(0)
A = RANDOM.standard_normal(50)
M = RANDOM.standard_normal((6, 7))
LABELS = RANDOM.integers(0, 3, 6)


def sums(a):
    return a[a > 0].sum(), np.sum(a[a > 0]) + 1, a[a > 0].prod(), a[a < 0].sum(None)


def means(a):
    return a[a > 0].mean(), np.mean(a[a < 1]), a[a > 0].std(), np.var(a[a > 0])


def extremes(a):
    return a[a > 0].max(), a[a > 0].min(), np.max(a[a < 1]), np.min(a[a < 1])


def truths(a):
    return (a[a > 0] > 1).any(), (a[a > 0] > 0).all(), np.any(a[a > 9]), np.all(a[a > 9])


def sizes(a):
    n = a[a > 0].size
    return n, n + 1, np.count_nonzero(a > 0), np.count_nonzero(a), a[a > 0].ndim, a[a > 0].dtype


def themselves(a):
    return a[a > 0], a[a > 0] * 2 + 1, np.abs(a[a < 0]), a[a > 99]


def by_elements(a):
    m = a > 0
    return (np.sqrt(np.abs(a[m])) * a[m] - a[m] / 2).sum(), (a[m] > 1).sum(), -a[m].min()


def written(a):
    b = a.copy()
    b[b > 1] += 1
    b[b < 0] *= a.flat[0] if False else 2
    b[b > 0] = np.abs(b[b > 0]) / 2
    m = b > 0.5
    b[m] -= b[m]
    return b


def of_another_array(a):
    b = a.copy()
    b[a > 0] = a[a > 0] * 2
    return b, a


def copies(a):
    b = a.copy()
    m = b > 0
    chosen = b[m]
    b[:] = 0
    m[:] = False
    chosen += 1
    return chosen, chosen.sum(), b, m


def goes_on_with_them(a):
    chosen = a[a > 0]
    twice = chosen * 2
    return np.sort(twice), np.concatenate([chosen, twice]), len(chosen), chosen[:3], chosen.shape


def places(a):
    b = a.copy()
    b[np.nonzero(b > 0)] = 1
    return b, np.flatnonzero(a > 0), np.unique(a > 0)


PROGRAMS = [
    sums, means, extremes, truths, sizes, themselves, by_elements, written, of_another_array,
    copies, goes_on_with_them, places,
]  # fmt: skip
IN_ONE_GRAPH = PROGRAMS[:-2]
ARRAYS = [
    A, A.astype(np.float32), M, np.asfortranarray(M), M[::2, 1:4], (A * 9).astype(np.int64),
    (A * 9).astype(np.int16), np.where(A > 1.5, np.nan, A), np.where(A > 1, np.inf, A), M.T,
]  # fmt: skip


def assert_same(expected, found) -> None:
    """Equal in values, classes, dtypes, strides, and in that they own their memory."""
    assert type(expected) is type(found)
    if isinstance(expected, tuple):
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            assert_same(a, b)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert (expected.dtype, expected.shape) == (found.dtype, found.shape)
        assert expected.strides == found.strides
        tolerance = 1e-5 if expected.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(found, expected, tolerance, 1e-12)
    else:
        assert expected == found


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_what_a_mask_chooses_is_numpys(function, number) -> None:
    """And the argument is what it was."""
    a = ARRAYS[number]
    if function is written and a.dtype.kind == "i":
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = function(a)
        compiled = dj.compile(function)
        before = a.copy()
        for _ in range(2):
            assert_same(expected, compiled(a))
        np.testing.assert_array_equal(before, a)


@pytest.mark.parametrize("function", IN_ONE_GRAPH)
def test_what_a_mask_chooses_is_no_break(function) -> None:
    dj.compile(function, fullgraph=True)(A)
    assert dj.explain(function)(A).graph_count == 1


def test_an_integer_array_takes_no_quotients() -> None:
    def divide(a):
        b = a.copy()
        b[b > 0] /= 2
        return b

    with pytest.raises(np._core._exceptions._UFuncOutputCastingError):
        dj.compile(divide)((A * 9).astype(np.int64))


@pytest.mark.parametrize(
    "function",
    [lambda a: a[a > 99].max(), lambda a: np.min(a[a > 99]), lambda a: a[a > 99].mean(axis=0)],
)
def test_of_no_elements_numpy_raises_or_warns(function) -> None:
    told = []
    for call in (function, dj.compile(function)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = str(call(A))
            except ValueError as error:
                found = str(error)
        told.append((found, {str(each.message) for each in caught}))
    assert told[0] == told[1]


def test_rows_that_a_mask_chooses() -> None:
    def centers(x, labels):
        found = np.zeros((3, x.shape[1]))
        for k in range(3):
            found[k] = x[labels == k].mean(axis=0)
        x = x.copy()
        x[labels == 1] += 5
        x[labels == 2] = np.sqrt(np.abs(x[labels == 2]))
        return found, x, x[labels == 0].sum(axis=0), x[labels == 0], x[labels == 0].max()

    assert_same(centers(M, LABELS), dj.compile(centers, fullgraph=True)(M, LABELS))


def test_masks_in_loops() -> None:
    def shrink(a, n):
        total, count = np.float64(0), 0
        for _ in range(n):
            total = total + a[a > 0.1].sum()
            a = np.where(a > 0, a * 0.9, a + 0.05)
            count = count + np.count_nonzero(a > 0)
        return total, a, count

    assert_same(shrink(A, 40), dj.compile(shrink, fullgraph=True)(A, 40))


def test_other_masks_and_values_are_numpys() -> None:
    def others(a, m):
        b = a.copy()
        b[m] = a[a > 0][: m.sum()]
        b[a > 1] = a[a > 1][::-1]
        c = a[m] + a[m][::-1]
        return b, c, a[m][0], a[(a > 0) & m].sum(), a[m] * np.arange(m.sum())

    m = np.zeros(50, bool)
    m[3:9] = True
    assert_same(others(A, m), dj.compile(others)(A, m))
    for wrong in (m[:-1], m.astype(np.int64)):
        expected, found = [], []
        for call, told in ((others, expected), (dj.compile(others), found)):
            try:
                told.append(call(A, wrong))
            except Exception as error:
                told += [type(error), str(error)]
        assert str(expected) == str(found)
