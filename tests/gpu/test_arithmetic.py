"""Edges of arithmetic on a GPU that CuPy's functions treat in another way than NumPy's."""

import itertools
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.types import dtypes

EDGES = (0.0, -0.0, 0.1, -0.1, 1.0, -1.0, 2.5, 7.0, 1e30, float("inf"), -float("inf"), float("nan"))


def both(dtype: Any) -> tuple[Any, Any]:
    pairs = np.array([*itertools.product(EDGES, EDGES)]).astype(dtype.numpy)
    return dj.from_numpy(pairs[:, 0].copy()), dj.from_numpy(pairs[:, 1].copy())


def assert_equal(expected: Any, actual: Any) -> None:
    """The same bits, but for NaN; the sign of zeros counts."""
    want, got = expected.numpy(), actual.cpu().numpy()
    np.testing.assert_array_equal(got, want)
    finite = ~np.isnan(want.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(got)[finite], np.signbit(want)[finite])


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", [dj.float32, dj.float64])
def test_division_at_zeros_and_infinities(name: str, dtype: Any) -> None:
    x, y = both(dtype)
    function = getattr(dj, name)

    assert_equal(function(x, y), function(x.cuda(), y.cuda()))


def test_a_floor_is_that_of_the_exact_quotient() -> None:
    x = dj.tensor([1.0, -1.0, 6.0], dtype=dj.float64, device="cuda")

    assert [9.0, -10.0, 59.0] == dj.floor_divide(x, 0.1).tolist()


@pytest.mark.parametrize("dtype", [dj.uint8, dj.int8, dj.int16, dj.int32, dj.int64])
def test_shifts_beyond_the_width(dtype: Any) -> None:
    x = dj.tensor([1, 3, 100, 0, 127], dtype=dtype)
    x = x if dtype is dj.uint8 else dj.cat([x, -x])
    for amount in (0, 1, 7, 8, 15, 31, 32, 63, 64, 100):
        y = dj.full_like(x, amount)

        assert_equal(x << y, x.cuda() << y.cuda())
        assert_equal(x >> y, x.cuda() >> y.cuda())


def test_integers_are_not_divided_by_zero() -> None:
    x = dj.tensor([1, 2], device="cuda")
    for function in (dj.floor_divide, dj.remainder, dj.fmod):
        with pytest.raises(ZeroDivisionError, match="integer division by zero"):
            function(x, dj.tensor([1, 0], device="cuda"))


def test_an_index_out_of_range_is_refused_not_wrapped() -> None:
    x = dj.arange(5, device="cuda")
    wrong = dj.tensor([0, 5], device="cuda")
    for read in (
        lambda: x[wrong],
        lambda: x.index_select(0, wrong),
        lambda: x.gather(0, wrong),
        lambda: dj.zeros(5, device="cuda").index_add(0, wrong, dj.ones(2, device="cuda")),
        lambda: x.__setitem__(wrong, 1),
        lambda: x.scatter(0, wrong, 1),
    ):
        with pytest.raises(IndexError, match="out of"):
            read()

    assert [0, 1, 2, 3, 4] == x.tolist()


def test_negative_indices_count_from_the_end() -> None:
    x = dj.arange(5, device="cuda")

    assert [4, 0] == x[dj.tensor([-1, -5], device="cuda")].tolist()
    x[dj.tensor([-1])] = 9
    assert [0, 1, 2, 3, 9] == x.tolist()


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
def test_additions_at_repeated_indices_in_every_dtype(dtype: Any) -> None:
    """bool is "or", integers wrap, complex numbers have two parts."""
    index = dj.tensor([0, 2, 0, 0, 2])
    source = dj.tensor([100, 100, 100, 100, 100]).to(dtype)
    x = dj.zeros(3, dtype=dtype)
    expected = x.index_add(0, index, source)
    for required in (False, True):
        dj.use_deterministic_algorithms(required)
        try:
            actual = x.cuda().index_add(0, index.cuda(), source.cuda())
        finally:
            dj.use_deterministic_algorithms(False)

        assert dj.equal(expected, actual.cpu())


def test_deterministic_sums_do_not_depend_on_the_run() -> None:
    rng = np.random.default_rng(0)
    index = dj.from_numpy(rng.integers(0, 7, 1000)).cuda()
    source = dj.from_numpy(rng.standard_normal((1000, 3)).astype(np.float32)).cuda()
    zeros = dj.zeros(7, 3, device="cuda")
    dj.use_deterministic_algorithms(True)
    try:
        sums = [zeros.index_add(0, index, source) for _ in range(3)]
    finally:
        dj.use_deterministic_algorithms(False)
    expected = np.zeros((7, 3))
    np.add.at(expected, index.cpu().numpy(), source.cpu().numpy())

    assert dj.equal(sums[0], sums[1])
    assert dj.equal(sums[0], sums[2])
    np.testing.assert_allclose(sums[0].cpu().numpy(), expected, rtol=1e-5, atol=1e-5)


def test_of_repeated_writes_the_last_wins_in_deterministic_mode() -> None:
    index = dj.tensor([1, 1, 0, 1], device="cuda")
    dj.use_deterministic_algorithms(True)
    try:
        result = dj.zeros(2, device="cuda").scatter(0, index, dj.arange(4.0, device="cuda"))
    finally:
        dj.use_deterministic_algorithms(False)

    assert [2.0, 3.0] == result.tolist()


@pytest.mark.parametrize("mode", ["prod", "amax", "amin"])
def test_combinations_at_repeated_indices(mode: str) -> None:
    rng = np.random.default_rng(1)
    index = dj.from_numpy(rng.integers(0, 3, (50, 4)))
    source = dj.from_numpy(rng.uniform(0.8, 1.2, (50, 4)))
    x = dj.ones(3, 4, dtype=dj.float64)
    expected = x.scatter_reduce(0, index, source, mode)
    actual = x.cuda().scatter_reduce(0, index.cuda(), source.cuda(), mode)

    np.testing.assert_allclose(actual.cpu().numpy(), expected.numpy(), rtol=1e-13)
