"""Sums along the first or the last dims: PyTorch's bits."""

import itertools

import numpy as np
import pytest

import dynajit as dj
from dynajit.ops.native._sums import add_reduce, sum_of

random = np.random.default_rng(4)
DTYPES = (np.float32, np.float64)
SHAPES = (
    *((1,), (3,), (7,), (9,), (31,), (32,), (100,), (5000,), (70000,)),
    *((32, 1), (64, 100), (64, 10), (64, 7), (64, 5), (33, 3), (1000, 10), (5000, 33), (9000, 3)),
    *((64, 40), (300, 2100), (2, 3, 4), (5, 1, 9), (8, 16, 32), (3, 100, 1), (6, 257)),
)


def drawn(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return random.standard_normal(shape).astype(dtype)


def dims_of(rank: int):
    """All that lie side by side."""
    return [tuple(range(a, b)) for a, b in itertools.combinations(range(rank + 1), 2)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_are_pytorchs(dtype) -> None:
    torch = pytest.importorskip("torch")
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("PyTorch adds in lanes of another length here")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for shape in SHAPES:
        row_major = drawn(*shape, dtype=dtype)
        for x in (row_major, row_major.T, np.moveaxis(row_major, 0, -1)):
            for dim, keepdim in itertools.product(dims_of(len(shape)), (False, True)):
                found = sum_of(x, dim, keepdim)
                if found is NotImplemented:
                    continue
                expected = torch.from_numpy(x).sum(dim, keepdim=keepdim).numpy()

                assert found.shape == expected.shape
                assert (found == expected).all()
    torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_those_of_exact_sums(dtype) -> None:
    for shape in SHAPES:
        x = drawn(*shape, dtype=dtype)
        for dim in dims_of(len(shape)):
            found = add_reduce(x, dim, None, None, False)
            wide = x.astype(np.longdouble)
            bound = 40 * np.finfo(dtype).eps * np.abs(wide).sum(dim)

            assert (np.abs(found - wide.sum(dim)) <= bound).all()


def test_dims_in_between_and_other_layouts_are_left_to_numpy() -> None:
    x = drawn(4, 5, 6)
    others = [(x, (1,)), (x, ()), (x.T, (0,)), (x[:, ::2], (0,)), (x.astype(np.float16), (0,))]
    others += [(np.ones((0, 3), np.float32), (0,)), (x.astype(int), (0,)), (x, (0, 2))]
    others += [(x[::-1], (0,)), (np.broadcast_to(x[0], x.shape), (0,)), (x.T[:, ::-1], (0, 1))]

    for array, dim in others:
        assert sum_of(array, dim, False) is NotImplemented
        np.testing.assert_array_equal(
            add_reduce(array, dim, None, None, False), np.add.reduce(array, axis=dim)
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_matrix_and_its_transpose_have_the_same_sums(dtype) -> None:
    for shape in ((128, 64), (64, 300), (513, 33), (1000, 7)):
        x = dj.from_numpy(drawn(*shape, dtype=dtype))
        assert (x.t().sum(1) == x.sum(0)).all()
        assert (x.t().sum(0) == x.sum(1)).all()
        assert (x.t().mean(1, keepdim=True) == x.mean(0).unsqueeze(1)).all()
        assert x.t().sum(1).stride() == (1,)


def test_nan_and_infinity_stay_in_their_columns() -> None:
    x = np.ones((50, 40), np.float32)
    x[3, 7], x[49, 8] = np.nan, np.inf
    found = sum_of(x, (0,), False)

    assert np.isnan(found[7])
    assert found[8] == np.inf
    assert (np.delete(found, [7, 8]) == 50).all()


@pytest.mark.parametrize("shape", [(64, 100), (64, 10), (40, 3), (7, 33), (300, 16)])
def test_compiled_sums_of_columns_have_the_same_bits(shape) -> None:
    x = dj.from_numpy(drawn(*shape))
    found = dj.compile(lambda x: x.sum(0), fullgraph=True)(x)

    np.testing.assert_array_equal(x.sum(0).numpy(), found.numpy())


def test_two_sums_of_columns_may_be_one_kernel() -> None:
    x, y = dj.from_numpy(drawn(64, 50)), dj.from_numpy(drawn(64, 50))

    def both(x, y):
        return x.sum(0) + y.sum(0) * 2

    np.testing.assert_array_equal(both(x, y).numpy(), dj.compile(both)(x, y).numpy())


def test_compiled_sums_of_varying_rows_have_the_same_bits() -> None:
    compiled = dj.compile(lambda x: x.sum(0))
    for rows in (5, 40, 130):
        x = dj.from_numpy(drawn(rows, 24))

        np.testing.assert_array_equal(x.sum(0).numpy(), compiled(x).numpy())
