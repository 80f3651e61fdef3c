"""Orders, running sums and triangles in C: the bits of the array functions, or no answer."""

import itertools

import numpy as np
import pytest

import dynajit as dj
from dynajit.ops import TABLE
from dynajit.ops.native import _native_orders

DTYPES = [np.float32, np.float64, np.int64]
SHAPES = [(1,), (7,), (16,), (17,), (250,), (1000,), (4, 8), (1, 1), (5, 1), (3, 40), (2, 3, 17)]
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, np.nan)


def values(shape, dtype, seed=0, special=False):
    draw = np.random.default_rng(seed)
    drawn = np.asarray(draw.standard_normal(shape) * 3, dtype)
    drawn[draw.random(shape) < 0.3] = 2  # equal elements
    if special and dtype is not np.int64:
        for number in SPECIAL:
            drawn.flat[draw.integers(drawn.size)] = number
    if special and dtype is np.int64:
        drawn.flat[0] = np.iinfo(np.int64).max
        drawn.flat[-1] = np.iinfo(np.int64).min
    return drawn


def compare(name, x, **attributes):
    op = TABLE[name]
    with np.errstate(all="ignore"):
        expected = op.rule.array(np, x, **attributes)
    result = op.rule.native(x, *op.bind(attributes).values())
    assert type(result) is np.ndarray
    assert (expected.shape, expected.dtype) == (result.shape, result.dtype)
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(expected, result)
    if x.dtype.kind == "f":
        assert np.array_equal(np.signbit(expected), np.signbit(result))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("special", [False, True], ids=["plain", "special"])
def test_results_have_the_bits_of_the_array_functions(shape, dtype, special) -> None:
    for seed, dim in itertools.product(range(5), range(len(shape))):
        x = values(shape, dtype, seed, special)
        size = shape[dim]
        for descending in (False, True):
            for start, stop in {(0, None), (0, size), (size // 3, size), (0, 1), (0, 0)}:
                compare(
                    "argsort", x, dim=dim, descending=descending, start=start, stop=stop
                )  # fmt: skip
            compare("cumsum", x, dim=dim, reverse=descending)
            compare("argmax", x, dim=(dim,), keepdim=descending)
            compare("argmin", x, dim=(dim,), keepdim=descending)


@pytest.mark.parametrize("dtype", [*DTYPES, np.bool_, np.complex64, np.int8, np.float16])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 5), (5, 3), (2, 3, 4, 2)], ids=str)
@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles_are_those_of_numpy(name, shape, dtype) -> None:
    x = (values(shape, np.float64) + 1).astype(dtype)
    for diagonal in (0, 1, -1, 2, -3, 7, -7, 10**9):
        compare(name, x, diagonal=diagonal)


def test_all_but_the_plain_case_is_declined() -> None:
    x = np.ones((4, 6), np.float32)
    long = np.ones(1 << 15)
    for given in (
        x.T, x[:0], x[::2], x.astype(np.float16), x.astype(np.int32), x[0, 0], x.tolist(), long,
        x.astype(">f4"),
    ):  # fmt: skip
        assert _native_orders.argsort(given, 0, False, 0, None) is NotImplemented
        assert _native_orders.argmax(given, (0,), False) is NotImplemented
        assert _native_orders.cumsum(given, 0, False) is NotImplemented
    for dim in (-1, 2, 1.0, None, 2**70):
        assert _native_orders.argsort(x, dim, False, 0, None) is NotImplemented
        assert _native_orders.argmin(x, (dim,), False) is NotImplemented
        assert _native_orders.cumsum(x, dim, False) is NotImplemented
    for start, stop in ((-1, 2), (3, 2), (0, 7), (0.0, 1), (0, 2**70)):
        assert _native_orders.argsort(x, 1, False, start, stop) is NotImplemented
    for dims in ((0, 1), (), [0]):
        assert _native_orders.argmax(x, dims, False) is NotImplemented
    for wrong in (x.T, x[0], x[:0], x.astype(object)):
        assert _native_orders.tril(wrong, 0) is NotImplemented
    for diagonal in (0.5, None, 2**40):
        assert _native_orders.triu(x, diagonal) is NotImplemented
    for function in (_native_orders.argsort, _native_orders.argmax, _native_orders.tril):
        assert function(x) is NotImplemented


@pytest.mark.parametrize("size", [100, 2047, 2048, 5000])
@pytest.mark.parametrize("largest", [True, False])
def test_the_best_elements_are_the_first_of_the_whole_order(size, largest) -> None:
    """Whichever way is taken for so many elements."""
    x = values((size,), np.float32, special=True)
    for rows in (x, np.stack([x, x[::-1]])):
        found = dj.topk(dj.tensor(rows), 5, largest=largest)
        order = dj.argsort(dj.tensor(rows), descending=largest)[..., :5]

        assert np.array_equal(found.indices.numpy(), order.numpy())
        picked = np.take_along_axis(rows, order.numpy(), -1)
        np.testing.assert_array_equal(picked, found.values.numpy())
