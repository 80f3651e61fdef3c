"""Our own matrix products: NumPy's values for any sizes and strides; nothing else is touched."""

import ctypes
import mmap
import threading
from pathlib import Path

import numpy as np
import pytest

from dynajit.codegen.c import products as c_products
from dynajit.codegen.pipeline import compile_graph
from dynajit.codegen.run import blas
from dynajit.core.arrays import _products
from dynajit.ops import TABLE as ops

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

SETS = sorted(_products.addresses())
DTYPES = (np.float32, np.float64)
PAGE = mmap.PAGESIZE
IS_PACKED, IS_FEW, IN_ORDER, ADDS = 1, 2, 8, 16  # `How` of _products.c
NOBODY = 0  # the protection of a page that must not be touched
STATUS = Path("/proc/self/statm")

#: Around every border: one and two vectors of both sets, tiles of 6 and 14 rows, depths of 192 and
#: 384, a group of 8 panels, 378 rows.
SIZES = (1, 2, 3, 5, 6, 7, 8, 13, 14, 15, 16, 17, 27, 28, 29, 31, 32, 33, 48, 64, 100)
LARGE = (
    *((547, 3, 5), (20, 257, 40), (30, 513, 33), (15, 20, 257), (40, 260, 300), (552, 300, 40)),
    *((20, 193, 40), (20, 383, 33), (20, 384, 40), (20, 385, 33), (20, 767, 40), (20, 769, 33)),
)

needs_products = pytest.mark.skipif(not SETS, reason="no products of our own for this CPU")


def function(name, dtype):
    address = _products.addresses()[name][DTYPES.index(dtype)]
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    matrix = (pointer, size, size)
    return ctypes.CFUNCTYPE(ctypes.c_int, *matrix, *matrix, pointer, *[size] * 5, ctypes.c_int)(
        address
    )


def multiply(name, a, b, c, home=-1, how=0):
    """c = a @ b; c's columns lie side by side. Returns 1, or 0 if nothing was done."""
    strides = [s // a.itemsize for s in (*a.strides, *b.strides, c.strides[0])]
    sizes = (*a.shape, b.shape[1])
    return function(name, a.dtype.type)(
        a.ctypes.data, *strides[:2], b.ctypes.data, *strides[2:4], c.ctypes.data, strides[4],
        *sizes, home, how,
    )  # fmt: skip


def product(name, a, b, how=0):
    c = np.full((a.shape[0], b.shape[1]), np.nan, a.dtype)
    assert multiply(name, a, b, c, how=how) == 1
    return c


def assert_is_product(actual, a, b):
    """Within the error of sums in any order: N. Higham, Accuracy and Stability, section 3.1."""
    wide = [x.astype(np.longdouble) for x in (a, b)]
    bound = a.shape[1] * np.finfo(a.dtype).eps * (np.abs(wide[0]) @ np.abs(wide[1]))
    assert (np.abs(actual - wide[0] @ wide[1]) <= bound).all()


def laid_out(random, rows, columns, dtype, layout):
    """A matrix of random numbers whose elements lie in memory as `layout` says."""
    if layout == "rows":
        return random.standard_normal((rows, columns)).astype(dtype)
    if layout == "columns":
        return random.standard_normal((columns, rows)).astype(dtype).T
    if layout == "slice":
        return random.standard_normal((rows + 2, columns + 3)).astype(dtype)[1:-1, 2:-1]
    if layout == "columns of a slice":
        return random.standard_normal((columns + 2, rows + 3)).astype(dtype)[1:-1, 2:-1].T
    if layout == "every third":
        return random.standard_normal((2 * rows, 3 * columns)).astype(dtype)[::2, ::3]
    if layout == "backwards":
        return random.standard_normal((rows, columns)).astype(dtype)[::-1, ::-1]
    assert layout == "repeated"
    return np.broadcast_to(random.standard_normal((1, columns)).astype(dtype), (rows, columns))


LAYOUTS = (
    "rows", "columns", "slice", "columns of a slice", "every third", "backwards", "repeated",
)  # fmt: skip


@needs_products
@pytest.mark.parametrize("how", [0, IS_FEW, IS_FEW | IN_ORDER])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SETS)
def test_values_are_numpys_for_any_sizes_and_layouts(name, dtype, how):
    random = np.random.default_rng(0)
    shapes = [*LARGE, *random.choice(SIZES, (300, 3)).tolist()]
    for n, k, m in shapes:
        left, right = random.choice(LAYOUTS, 2)
        a = laid_out(random, n, k, dtype, left)
        b = laid_out(random, k, m, dtype, right)
        if how and not knows_few(n, m, dtype):
            continue

        assert_is_product(product(name, a, b, how), a, b)


@needs_products
@pytest.mark.parametrize("how", [ADDS, IS_FEW | ADDS])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SETS)
def test_products_are_added_to_what_is_there(name, dtype, how):
    random = np.random.default_rng(9)
    for n, k, m in [*LARGE, *random.choice(SIZES, (100, 3)).tolist()]:
        left, right = random.choice(LAYOUTS, 2)
        a, b = laid_out(random, n, k, dtype, left), laid_out(random, k, m, dtype, right)
        if how & IS_FEW and not knows_few(n, m, dtype):
            continue
        start = random.standard_normal((n, m)).astype(dtype)
        c = start.copy()
        assert multiply(name, a, b, c, how=how) == 1

        columns = np.concatenate([a, np.eye(n, dtype=dtype)], 1), np.concatenate([b, start])
        assert_is_product(c, *columns)


def knows_few(n, m, dtype):
    """Vectors are left to BLAS where their order is not known."""
    known = _products.ROUNDS_TERMS_OF_FEW and dtype is np.float32
    return known or (n > 1 and m > 1)


@needs_products
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SETS)
def test_vectors_are_left_to_blas_where_their_order_is_not_known(name, dtype):
    for n, m in ((1, 5), (5, 1), (1, 1)):
        a, b, c = np.ones((n, 4), dtype), np.ones((4, m), dtype), np.full((n, m), 7, dtype)
        expected = 4 if knows_few(n, m, dtype) else 7
        assert multiply(name, a, b, c, how=IS_FEW) == (expected == 4)

        assert (c == expected).all()


def at_a_guard(rows, columns, dtype, *, at_end):
    """(memory to keep, matrix) that ends where a page begins that nobody may touch, or begins where
    such a page ends."""
    size = rows * columns * np.dtype(dtype).itemsize
    pages = -(-size // PAGE)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for page in (start, start + (pages + 1) * PAGE):
        assert protect(page, PAGE, NOBODY) == 0
    offset = (pages + 1) * PAGE - size if at_end else PAGE
    flat = np.frombuffer(memory, dtype, rows * columns, offset)
    return memory, flat.reshape(rows, columns)


@needs_products
@pytest.mark.parametrize("how", [0, IS_FEW])
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SETS)
def test_nothing_outside_the_matrices_is_touched(name, dtype, at_end, how):
    random = np.random.default_rng(1)
    shapes = [*LARGE, *random.choice(SIZES, (60, 3)).tolist()]
    for n, k, m in shapes:
        turned = random.integers(0, 2, 2)
        sizes = ((k, n) if turned[0] else (n, k), (m, k) if turned[1] else (k, m), (n, m))
        (_, a), (_, b), (_, c) = (at_a_guard(*size, dtype, at_end=at_end) for size in sizes)
        a[...], b[...] = random.standard_normal(a.shape), random.standard_normal(b.shape)
        a, b = a.T if turned[0] else a, b.T if turned[1] else b
        if how and not knows_few(n, m, dtype):
            continue
        assert multiply(name, a, b, c, how=how) == 1

        assert_is_product(c, a, b)


@needs_products
@pytest.mark.parametrize("name", SETS)
def test_what_lies_between_the_rows_of_a_result_stays(name):
    random = np.random.default_rng(2)
    for n, k, m in ((15, 20, 5), (30, 300, 33), (3, 4, 64)):
        a, b = random.standard_normal((n, k)), random.standard_normal((k, m))
        whole = np.full((n + 2, m + 3), 7.0)
        assert multiply(name, a, b, whole[1:-1, 1:-2]) == 1
        np.testing.assert_allclose(whole[1:-1, 1:-2], a @ b, rtol=1e-9, atol=1e-12)
        whole[1:-1, 1:-2] = 7

        assert (whole == 7).all()


@needs_products
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SETS)
def test_bits_do_not_depend_on_how_a_product_is_cut(name, dtype):
    random = np.random.default_rng(3)
    a = laid_out(random, 90, 600, dtype, "rows")
    b = laid_out(random, 600, 100, dtype, "columns")
    whole = product(name, a, b)
    for rows, columns in ((7, 100), (90, 16), (31, 33), (1, 1), (14, 64)):
        for row in range(0, 90, rows):
            for column in range(0, 100, columns):
                part = product(name, a[row : row + rows], b[:, column : column + columns])

                assert (whole[row : row + rows, column : column + columns] == part).all()


@needs_products
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_instruction_sets_have_the_same_bits_up_to_the_first_cut(dtype):
    random = np.random.default_rng(4)
    a = laid_out(random, 37, 192, dtype, "rows")
    b = laid_out(random, 192, 75, dtype, "rows")

    assert len({product(name, a, b).tobytes() for name in SETS}) == 1


@needs_products
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_all_instruction_sets_have_the_same_bits_of_few_columns(layout):
    random = np.random.default_rng(4)
    a = laid_out(random, 37, 500, np.float32, "rows")
    b = laid_out(random, 500, 7, np.float32, layout)
    if not _products.ROUNDS_TERMS_OF_FEW:
        pytest.skip("sums of more than 192 terms are cut at other places")

    assert len({product(name, a, b, IS_FEW).tobytes() for name in SETS}) == 1


@needs_products
@pytest.mark.parametrize("name", SETS)
def test_long_sums_are_more_accurate_than_added_in_a_row(name):
    """Root mean squares of errors; those of sums that are cut grow with the parts."""
    random = np.random.default_rng(8)
    a = laid_out(random, 40, 4000, np.float32, "rows")
    b = laid_out(random, 4000, 40, np.float32, "rows")
    exact = a.astype(np.float64) @ b.astype(np.float64)
    in_a_row = np.cumsum(a[:, :, None] * b, axis=1, dtype=np.float32)[:, -1]

    errors = [np.sqrt(np.mean((c - exact) ** 2)) for c in (product(name, a, b), in_a_row)]
    assert errors[0] < 0.5 * errors[1]


@needs_products
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SETS)
def test_packed_columns_of_two_products_serve_other_rows(name, dtype, layout):
    random = np.random.default_rng(7)
    for k, m in ((3, 40), (64, 64), (257, 33), (700, 130)):
        a = laid_out(random, 130, k, dtype, "rows")
        rights = [laid_out(random, k, m, dtype, layout) for _ in range(2)]
        second = k * (m + 15)  # behind whole vectors of the first one's columns
        expected = [product(name, a, b) for b in rights]
        for start in range(0, 130, 42):
            rows = a[start : start + 42]
            for b, whole, home in zip(rights, expected, (0, second), strict=True):
                c = np.full((len(rows), m), np.nan, dtype)
                assert multiply(name, rows, b, c, home, IS_PACKED if start > 0 else 0) == 1

                np.testing.assert_array_equal(whole[start : start + 42], c)


@needs_products
@pytest.mark.parametrize("name", SETS)
def test_columns_that_cannot_be_kept_are_not_multiplied(name):
    columns = _products.KEPT_BYTES // 8 // 64
    a, b, c = np.ones((3, 64)), np.ones((64, columns)), np.full((3, columns), 7.0)

    assert multiply(name, a, b, c, home=1) == 0
    assert (c == 7).all()
    assert multiply(name, a, b, c, home=0) == 1
    assert (c == 64).all()


@needs_products
@pytest.mark.parametrize("name", SETS)
def test_not_a_number_and_infinity_stay_in_their_rows_and_columns(name):
    a, b = np.ones((20, 10)), np.ones((10, 35))
    a[3, 4], b[2, 33] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(a @ b, product(name, a, b))


@needs_products
@pytest.mark.parametrize("name", SETS)
def test_threads_multiply_at_a_time(name):
    random = np.random.default_rng(5)
    pairs = [(random.standard_normal((60, 300)), random.standard_normal((300, 70)))] * 8
    expected, results = product(name, *pairs[0]), []

    def work(a, b):
        results.extend(product(name, a, b) for _ in range(50))

    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(results) == 400
    assert all((result == expected).all() for result in results)


@needs_products
@pytest.mark.skipif(not STATUS.exists(), reason="this system does not say what memory is used")
def test_threads_that_end_give_their_memory_back():
    a, b = np.ones((500, 256)), np.ones((256, 500))

    def pages_after(count):
        for _ in range(count):
            thread = threading.Thread(target=product, args=(SETS[0], a, b))
            thread.start()
            thread.join()
        return int(STATUS.read_text().split()[1])

    before = pages_after(5)
    megabytes = (pages_after(100) - before) * PAGE >> 20

    assert megabytes < 30  # each thread writes to more than one


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_cpus_multiply_by_blas(codegen, monkeypatch, dtype):
    random = np.random.default_rng(6)
    arrays = [random.standard_normal(s).astype(dtype) for s in ((40, 300), (300, 50))]
    monkeypatch.setattr(blas, "own_products", lambda: (0, 0))
    graph = codegen.graph_of(ops.matmul, *map(codegen.type_of, arrays))
    (result,) = compile_graph(graph)(*arrays)

    assert_is_product(result, *arrays)


@needs_products
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SETS)
def test_a_matrix_times_its_transpose_has_the_bits_of_the_whole_product(name, dtype, layout):
    """Half of its sums are computed: with few bands, many, and columns that no scratch holds."""
    random = np.random.default_rng(7)
    for n in (83, 84, 85, 97, 126, 168, 169, 300, 547):
        for k in (31, 32, 33, 200, 385, 770) if n < 200 else (40, 390):
            a = laid_out(random, n, k, dtype, layout)
            held = np.full((n, n + 5), np.nan, dtype)
            assert multiply(name, a, a.T, held[:, :n])
            np.testing.assert_array_equal(held[:, :n], product(name, a, a.copy("K").T))
            assert np.isnan(held[:, n:]).all()
    a = laid_out(random, 2800, 100, dtype, layout)
    np.testing.assert_array_equal(product(name, a, a.T), product(name, a, a.copy("K").T))


@needs_products
@pytest.mark.parametrize("name", SETS)
def test_what_is_no_matrix_times_its_transpose_is_multiplied_whole(name):
    """The same address with other strides, and other addresses within the same memory."""
    a = np.random.default_rng(8).standard_normal((120, 120))
    for left, right in ((a, a), (a[:100], a[20:].T), (a[:, :100], a[:, 20:].T), (a.T, a.T)):
        np.testing.assert_array_equal(
            product(name, left, right), product(name, left.copy(), right.copy("K"))
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("shape", [(84, 40), (200, 50), (300, 300), (1000, 120), (120, 1000)])
def test_tiles_of_a_matrix_times_its_transpose_are_all_of_it(
    codegen, monkeypatch, dtype, is_own, shape
):
    """On our own products and on BLAS, of rows and of columns: `DJ_MIRRORED` of gemm.h."""
    if not is_own:
        monkeypatch.setattr(blas, "own_products", lambda: (0, 0))
    a = np.random.default_rng(9).standard_normal(shape).astype(dtype)
    for order in ((0, 1), (1, 0)):
        graph = codegen.graph_of(
            lambda x, order=order: ops.matmul(
                ops.permute(x, dims=order), ops.permute(x, dims=order[::-1])
            ),
            codegen.type_of(a),
        )
        (result,) = compile_graph(graph)(a)
        left = a.transpose(order)
        assert_is_product(result, left, left.T.copy())
        rows, terms = left.shape
        is_long = terms >= c_products.FEWEST_TERMS
        is_mirrored = rows >= c_products.FEWEST_MIRRORED_ROWS and is_long
        if is_own or is_mirrored:  # else each half has the bits that BLAS gives it
            np.testing.assert_array_equal(result, result.T)
