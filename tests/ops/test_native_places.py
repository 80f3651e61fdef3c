"""Gathers and scatters in C: the bits of the array functions, or no answer."""

import numpy as np
import pytest

from dynajit.ops import TABLE
from dynajit.ops.native import _native_places

MODES = ("prod", "amax", "amin")
DTYPES = [np.float32, np.float64, np.int64, np.int32, np.complex64]
#: Of the array, and of an index that is no larger but along one dim.
SHAPES = [
    ((5,), (9,), 0), ((5,), (0,), 0), ((3, 4), (3, 4), 0), ((3, 4), (3, 1), 1), ((3, 4), (2, 4), 0),
    ((3, 4), (7, 2), 0), ((3, 4), (1, 9), 1), ((2, 3, 4), (2, 3, 1), 2), ((2, 3, 4), (2, 5, 3), 1),
    ((2, 3, 4), (1, 2, 6), 2), ((2, 3, 4), (6, 1, 1), 0), ((2, 3, 4, 5), (2, 2, 3, 4), 1),
    ((1, 1), (1, 1), 0), ((0, 4), (0, 4), 0), ((3, 0), (2, 0), 0),
]  # fmt: skip


def values(shape, dtype, seed=0):
    drawn = np.random.default_rng(seed).standard_normal(shape) * 100
    return np.asarray(drawn, dtype)


def same_bits(expected, result):
    assert type(result) is np.ndarray
    assert (expected.shape, expected.dtype) == (result.shape, result.dtype)
    assert result.flags.c_contiguous
    assert np.ascontiguousarray(expected).tobytes() == result.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "wanted", "dim"), SHAPES, ids=str)
def test_results_have_the_bits_of_the_array_functions(shape, wanted, dim, dtype) -> None:
    for seed in range(3):
        x = values(shape, dtype, seed)
        index = np.random.default_rng(seed).integers(0, max(shape[dim], 1), wanted)
        source = values(wanted, dtype, seed + 9)
        before = x.copy()
        same_bits(
            TABLE.gather.rule.array(np, x, index, dim=dim), _native_places.gather(x, index, dim)
        )
        same_bits(
            TABLE.scatter.rule.array(np, x, index, source, dim=dim),
            _native_places.scatter(x, index, source, dim),
        )
        combine(x, index, source, dim)
        same_bits(before, x)


def combine(x, index, source, dim) -> None:
    """By every mode: to the bit, or not at all."""
    results = {"add": _native_places.scatter_add(x, index, source, dim)}
    results |= {m: _native_places.scatter_reduce(x, index, source, dim, m) for m in MODES}
    for mode, result in results.items():
        if x.dtype not in (np.float32, np.float64, np.int64):
            assert result is NotImplemented
        elif mode == "add":
            same_bits(TABLE.scatter_add.rule.array(np, x, index, source, dim=dim), result)
        else:
            array = TABLE.scatter_reduce.rule.array
            same_bits(array(np, x, index, source, dim=dim, mode=mode), result)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_indices_and_sources_may_lie_as_they_like(dtype) -> None:
    """Expanded along a dim, as most are, turned, or with gaps."""
    x = values((5, 6), dtype)
    index = np.broadcast_to(np.array([[3], [0], [3]]), (3, 6))
    sources = [
        np.broadcast_to(values(6, dtype), (3, 6)), values((6, 3), dtype).T,
        values((3, 12), dtype)[:, ::2], values((3, 6), dtype)[::-1, ::-1],
    ]  # fmt: skip
    for source in sources:
        combine(x, index, source, 0)
        expected = TABLE.scatter.rule.array(np, x, index, source, dim=0)
        same_bits(expected, _native_places.scatter(x, index, source, 0))
        combine(x, np.array([[1, 1, 0]] * 6).T, source, 0)
    gathered = TABLE.gather.rule.array(np, x, index, dim=0)
    same_bits(gathered, _native_places.gather(x, index, 0))


def test_nan_is_the_largest_and_the_smallest() -> None:
    x, index = np.array([1.0, np.nan, 3.0]), np.array([0, 1, 2, 2])
    source = np.array([np.nan, 5.0, np.nan, 7.0])

    for mode in ("amax", "amin"):
        result = _native_places.scatter_reduce(x, index, source, 0, mode)
        assert np.isnan(result).all()


def test_sums_of_integers_wrap() -> None:
    x = np.full(3, np.iinfo(np.int64).max)
    index, source = np.array([1, 1, 2]), np.array([1, 1, -5])

    expected = np.array([x[0], np.iinfo(np.int64).min + 1, x[2] - 5])
    same_bits(expected, _native_places.scatter_add(x, index, source, 0))
    doubled = _native_places.scatter_reduce(x, index, np.array([2, 1, 3]), 0, "prod")
    same_bits(np.array([x[0], -2, x[2] - 2]), doubled)


def test_the_last_write_stays() -> None:
    x, index = np.zeros((2, 3)), np.array([[1, 1, 1], [0, 2, 0]])
    source = np.arange(1.0, 7).reshape(2, 3)

    same_bits(np.array([[0, 3, 0], [6, 0, 5.0]]), _native_places.scatter(x, index, source, 1))


def test_all_but_the_plain_case_is_declined() -> None:
    x, index = np.zeros((3, 4), np.float32), np.zeros((3, 2), np.int64)
    source = np.zeros((3, 2), np.float32)
    out = [np.full((3, 2), 4), np.full((3, 2), -1), np.full((3, 2), 2**40)]
    wrong = [
        *((x, other, source, 1) for other in out),
        (x.T, index, source, 1), (x[None], index, source, 1),
        (x.astype(np.float16), index, source.astype(np.float16), 1), (x > 0, index, source > 0, 1),
        (x, index.astype(np.int32), source, 1), (x, np.zeros((4, 2), np.int64), source, 1),
        (x, index, source, 2), (x, index, source, -1), (x, index, source, 1.0),
        (x.tolist(), index, source, 1),
        (x[0, 0], index, source, 0), (np.zeros(()), np.zeros((), np.int64), np.zeros(()), 0),
        (x[:, :0], index, source, 1), (x, index, source, 2**70),
    ]  # fmt: skip
    for array, places, written, dim in wrong:
        assert _native_places.gather(array, places, dim) is NotImplemented
        assert _native_places.scatter(array, places, written, dim) is NotImplemented
        assert _native_places.scatter_add(array, places, written, dim) is NotImplemented
        assert _native_places.scatter_reduce(array, places, written, dim, "amax") is NotImplemented
    for other in (source[:2], source.astype(np.float64), source.T, source.astype(">f4")):
        assert _native_places.scatter(x, index, other, 1) is NotImplemented
        assert _native_places.scatter_add(x, index, other, 1) is NotImplemented
    for mode in ("sum", "", 1, None):
        assert _native_places.scatter_reduce(x, index, source, 1, mode) is NotImplemented
    assert _native_places.gather(x) is NotImplemented
