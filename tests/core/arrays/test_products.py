"""Products of arrays: NumPy's values for every layout, the same bits for any number of threads."""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.arrays import _products
from dynajit.core.arrays.products import matmul, matmul_onto

random = np.random.default_rng(5)
FLOATS = (np.float32, np.float64)
needs_own = pytest.mark.skipif(not _products.addresses(), reason="no products of ours on this CPU")
LARGE = 260  # cubed, this is more than one thread does


def drawn(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return random.standard_normal(shape).astype(dtype)


def check(a: np.ndarray, b: np.ndarray) -> None:
    """Against sums in float64; in it, NumPy's own."""
    found, expected = matmul(a, b), np.matmul(a.astype(float), b.astype(float))
    bound = np.matmul(abs(a.astype(float)), abs(b.astype(float))) * np.finfo(a.dtype).eps

    assert found.dtype == a.dtype
    assert found.shape == expected.shape
    assert found.flags.c_contiguous
    assert (abs(found - expected) <= 2 * np.sqrt(a.shape[-1] + 1) * bound).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("k", [1, 7, 383, 384, 385, 768, 769, 1000])
def test_products_of_every_layout_are_those_of_numpy(dtype, k) -> None:
    for n, m in [(2, 2), (3, 33), (15, 16), (29, 70), (64, 10)]:
        a, b = drawn(n, k, dtype=dtype), drawn(k, m, dtype=dtype)
        layouts = product((a, np.asfortranarray(a)), (b, np.asfortranarray(b)))
        for left, right in layouts:
            check(left, right)
        wide_a, wide_b = drawn(2 * n, 3 * k, dtype=dtype), drawn(2 * k, 3 * m, dtype=dtype)
        check(wide_a[::2, ::3], wide_b[::2, ::3])
        check(a[::-1], b[:, ::-1])
        check(np.broadcast_to(a[:1], a.shape), np.broadcast_to(b[:, :1], b.shape))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 5, 7), (3, 7, 4)), ((5, 7), (2, 3, 7, 4)), ((2, 3, 5, 7), (7, 4)),
        ((3, 1, 5, 7), (4, 7, 6)), ((1, 5, 7), (9, 7, 4)), ((40, 60, 70), (40, 70, 80)),
        ((0, 5, 7), (7, 4)), ((2, 0, 7), (2, 7, 4)), ((2, 5, 0), (0, 4)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", FLOATS)
def test_stacks_broadcast(left, right, dtype) -> None:
    check(drawn(*left, dtype=dtype), drawn(*right, dtype=dtype))


def test_stacks_of_views_are_read_where_they_lie() -> None:
    heads = drawn(2, 40, 3, 16).transpose(0, 2, 1, 3)

    check(heads, heads.swapaxes(-1, -2))
    check(heads[:, ::2], heads[:, 1:, :, ::-1].swapaxes(-1, -2))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shapes", [((0, 5), (5, 4)), ((3, 0), (0, 4)), ((2, 0, 1, 5), (5, 4))])
def test_empty_products_are_numpys(shapes, dtype) -> None:
    a, b = (drawn(*shape, dtype=dtype) for shape in shapes)

    np.testing.assert_array_equal(matmul(a, b), a @ b)


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_with_vectors_are_those_of_numpy(dtype) -> None:
    for n, k, m in [(1, 5, 4), (4, 5, 1), (1, 300, 70), (70, 300, 1), (1, 40, 1)]:
        a, b = drawn(n, k, dtype=dtype), drawn(k, m, dtype=dtype)
        check(a, b)
        check(np.asfortranarray(a), np.asfortranarray(b))
        wide_a, wide_b = drawn(2 * n, 3 * k, dtype=dtype), drawn(2 * k, 3 * m, dtype=dtype)
        check(wide_a[::2, ::3], wide_b[::2, ::3])


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_go_on_from_a_vector(dtype) -> None:
    for n, k, m in [(40, 1000, 50), (3, 5, 7), (7, 300, 3), (1, 9, 4), (9, 9, 1), (3, 0, 2)]:
        a, b, start = drawn(n, k, dtype=dtype), drawn(k, m, dtype=dtype), drawn(m, dtype=dtype)
        found = matmul_onto(start, a, b)

        assert found.dtype == dtype
        np.testing.assert_allclose(found, start + a @ b, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(matmul_onto(np.ones(3), np.eye(2), np.ones((2, 3))), 2)
    assert matmul_onto(np.float32(2), np.eye(2, dtype=int), np.ones((2, 3), int) * 1.0).shape == (
        2,
        3,
    )


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.complex64])
def test_other_dtypes_are_numpys(dtype) -> None:
    a, b = (random.integers(0, 9, shape).astype(dtype) for shape in [(5, 6), (6, 7)])

    np.testing.assert_array_equal(matmul(a, b), a @ b)
    assert matmul(a, b).dtype == a.dtype


def test_misaligned_and_swapped_arrays_are_multiplied() -> None:
    a, b = drawn(6, 7), drawn(7, 8)
    shifted = np.frombuffer(b"x" + a.tobytes(), np.float32, a.size, offset=1).reshape(a.shape)
    swapped = a.astype(a.dtype.newbyteorder())

    for same in (shifted, swapped):
        np.testing.assert_allclose(matmul(same, b), a @ b, rtol=1e-5)


@pytest.mark.parametrize("shapes", [((3, 4), (5, 6)), ((2, 3, 4), (3, 4, 5)), ((2, 3, 4), (5, 6))])
def test_sizes_that_do_not_fit_are_refused_as_by_numpy(shapes) -> None:
    with pytest.raises(ValueError, match=r"matmul|shapes"):
        matmul(*(drawn(*shape) for shape in shapes))


def test_nan_and_infinity_reach_their_elements_only() -> None:
    a, b = np.ones((20, 400), np.float32), np.ones((400, 40), np.float32)
    a[3, 399], b[0, 7] = np.nan, np.inf
    found = matmul(a, b)

    assert np.isnan(found[3]).all()
    assert (np.delete(found, 3, 0)[:, 7] == np.inf).all()
    assert (np.delete(np.delete(found, 3, 0), 7, 1) == 400).all()


@pytest.fixture
def threads():
    """Sets how many threads multiply; as before in the end."""
    before = dj.get_num_threads()
    yield dj.set_num_threads
    dj.set_num_threads(before)


@needs_own
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((LARGE, LARGE), (LARGE, LARGE)), ((9, 2000), (2000, 700)), ((700, 2000), (2000, 9)),
        ((2, 1000), (1000, 3000)), ((50, 40, 60), (60, 70)), ((3, 200, 90), (3, 90, 200)),
    ],
)  # fmt: skip
def test_bits_do_not_depend_on_threads(threads, left, right) -> None:
    a, b = drawn(*left), drawn(*right)
    found = []
    for count in (1, 2, 3, 5):
        threads(count)
        found += [matmul(a, b) for _ in range(3)]

    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@needs_own
@pytest.mark.parametrize("k", [190, 193, 300, 385, 500, 769, 1000])
def test_sums_of_float32_are_cut_where_mkl_cuts_them(k: int) -> None:
    """On CPUs of AMD, or on those of Intel."""
    a, b = drawn(4, k), drawn(k, 16)

    def cut(lengths: list[int]) -> np.ndarray:
        total, first = np.zeros((4, 16), np.float32), 0
        for length in lengths:
            part = np.zeros((4, 16), np.float32)
            for i in range(first, first + length):
                exact = a[:, i : i + 1].astype(np.longdouble) * b[i] + part
                part = exact.astype(np.float32)  # fused: rounded once
            total, first = total + part, first + length
        return total

    def on_amd(left: int) -> list[int]:
        most = left // 2 if 192 < left < 384 else 192
        return [most] * (left // most) + [left % most]

    def on_intel(left: int) -> list[int]:
        if left > 2 * 384:
            return [384, *on_intel(left - 384)]
        return [(left + 1) // 2, left // 2] if left > 384 else [left]

    found = matmul(a, b)
    assert any(np.array_equal(found, cut(rule(k))) for rule in (on_amd, on_intel))


@needs_own
@pytest.mark.parametrize("sizes", [(40, 1000, 50), (3, 384, 17), (200, 70, 130)])
def test_compiled_functions_have_the_same_bits(sizes) -> None:
    n, k, m = sizes
    a, b = dj.from_numpy(drawn(n, k)), dj.from_numpy(drawn(m, k))

    np.testing.assert_array_equal(dj.compile(lambda a, b: a @ b.T)(a, b).numpy(), (a @ b.T).numpy())


def test_several_threads_multiply_at_once(threads) -> None:
    threads(2)
    pairs = [(drawn(LARGE, LARGE), drawn(LARGE, LARGE)) for _ in range(4)]
    expected = [matmul(a, b) for a, b in pairs]

    def repeated(pair: int) -> bool:
        return all(np.array_equal(matmul(*pairs[pair]), expected[pair]) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(repeated, range(4)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_multiplies_with_threads_of_its_own(threads) -> None:
    threads(2)
    a = drawn(LARGE, LARGE)
    expected = matmul(a, a)
    child = os.fork()
    if child == 0:
        same = all(np.array_equal(matmul(a, a), expected) for _ in range(5))
        os._exit(0 if same else 1)

    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(matmul(a, a), expected)
