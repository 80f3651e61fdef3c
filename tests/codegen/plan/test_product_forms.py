"""Products as other rows: the same values as NumPy's and PyTorch's, and no BLAS call."""

import itertools

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.loops.loop_ir import ColumnKernel, MatmulKernel, RowKernel
from dynajit.codegen.pipeline import compile_graph, generate
from dynajit.codegen.plan.product_forms import LARGEST_SUM, rewrite_products
from dynajit.core.types import dtypes
from dynajit.ops import TABLE as ops

pytestmark = pytest.mark.one_python

BF16 = dtypes.bfloat16.numpy
SHAPES = (
    ((1, 1), (1, 1)), ((5, 1), (1, 7)), ((1, 6), (6, 1)), ((1, 6), (6, 5)), ((5, 6), (6, 1)),
    ((0, 6), (6, 1)), ((1, 0), (0, 3)), ((4, 0), (0, 1)), ((1, 3), (3, 0)), ((3, 4), (4, 5)),
    ((3, 5, 6), (6, 1)), ((3, 1, 6), (3, 6, 4)), ((2, 1, 1, 6), (3, 6, 4)),
    ((3, 5, 1), (2, 1, 1, 4)), ((1, 100), (100, 100)), ((100, 100), (100, 1)),
    ((1, 5000), (5000, 1)), ((0, 1, 4), (4, 4)),
)  # fmt: skip


def turned(x):
    return ops.permute(x, dims=(1, 0))


def operand(shape, dtype, seed=0):
    random = np.random.default_rng(seed)
    if np.dtype(dtype) == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    return random.integers(-4, 5, shape).astype(dtype)  # exact: any order of sums is right


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BF16, np.int8, np.bool_])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_every_form_gives_the_product(codegen, left, right, dtype):
    codegen.check(ops.matmul, operand(left, dtype), operand(right, dtype, 1), tolerance=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
@pytest.mark.parametrize(("turn_left", "turn_right"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("n", "k", "m"), [(1, 9, 5), (5, 9, 1), (1, 9, 1), (5, 1, 7), (6, 5, 4)])
def test_transposed_operands_are_read_where_they_lie(
    codegen, n, k, m, turn_left, turn_right, dtype
):
    a = operand((k, n) if turn_left else (n, k), dtype)
    b = operand((m, k) if turn_right else (k, m), dtype, 1)

    def product(a, b):
        a = turned(a) if turn_left else a
        b = turned(b) if turn_right else b
        return ops.matmul(a, b)

    codegen.check(product, a, b, tolerance=0)


def kernels_of(codegen, function, *types):
    graph = rewrite_products(codegen.graph_of(function, *types))
    return [function.kernel for function in generate(graph, "g").functions]


def test_what_follows_a_small_product_with_a_vector_joins_its_kernel(codegen):
    x, w, b = (dtypes_of(codegen, shape) for shape in ((1, 16), (16, 16), (16,)))
    kernels = kernels_of(codegen, lambda x, w, b: ops.relu(ops.add(ops.matmul(x, w), b)), x, w, b)

    assert len(kernels) == 1
    assert not isinstance(kernels[0], MatmulKernel)


@pytest.mark.parametrize("turns", ["right", "left"])
def test_a_large_transposed_matrix_times_a_vector_is_read_along_its_memory(codegen, turns):
    n, k = 700, 800

    def product(x, w):
        return ops.matmul(x, turned(w)) if turns == "right" else ops.matmul(turned(w), x)

    x = operand((1, k) if turns == "right" else (k, 1), np.float32)
    w = operand((n, k) if turns == "right" else (k, n), np.float32, 1)
    (kernel,) = kernels_of(codegen, product, *(dtypes_of(codegen, a.shape) for a in (x, w)))

    assert isinstance(kernel, RowKernel if turns == "right" else ColumnKernel)
    codegen.check(product, x, w, tolerance=0)


def test_an_outer_product_joins_what_follows(codegen):
    x, y = dtypes_of(codegen, (300, 1)), dtypes_of(codegen, (1, 400))

    assert len(kernels_of(codegen, lambda x, y: ops.exp(ops.matmul(x, y)), x, y)) == 1


def test_a_large_matrix_times_a_vector_is_left_to_blas(codegen):
    x, w = dtypes_of(codegen, (1, LARGEST_SUM)), dtypes_of(codegen, (LARGEST_SUM, 2))

    assert isinstance(kernels_of(codegen, ops.matmul, x, w)[0], MatmulKernel)


def dtypes_of(codegen, shape):
    return codegen.type_of(np.zeros(shape, np.float32))


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_halves_are_multiplied_in_float32_and_rounded_once(codegen, dtype):
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(shape).astype(dtype) for shape in ((40, 70), (70, 50)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    graph = codegen.graph_of(ops.matmul, codegen.type_of(a), codegen.type_of(b))

    found = compile_graph(graph)(a, b)[0]

    assert found.dtype == dtype
    spacing = np.abs(exact) * (2.0**-11 if dtype == np.float16 else 2.0**-8)
    assert (np.abs(found.astype(np.float64) - exact) <= 1.01 * spacing + 1e-4).all()


def test_nan_and_infinity_pass_through_a_sum_of_products(codegen):
    a = np.float32([[np.nan, 1], [np.inf, 0], [1, 2]])
    codegen.check(ops.matmul, a, np.float32([[0], [1]]))
    codegen.check(ops.matmul, np.float32([[np.inf]]), np.float32([[0.0, 1.0, np.nan]]))


@pytest.mark.parametrize("equation", ["ij,j->i", "i,ij->j", "i,j->ij", "bi,bi->b", "bij,bj->bi"])
def test_gradients_of_vector_products_are_those_of_pytorch(equation):
    torch = pytest.importorskip("torch")
    sizes = {"i": 5, "j": 6, "b": 3}
    random = np.random.default_rng(1)
    terms = equation.split("->")[0].split(",")
    arrays = [random.standard_normal([sizes[c] for c in term]).astype("float32") for term in terms]
    ours = [dj.tensor(array, requires_grad=True) for array in arrays]
    theirs = [torch.from_numpy(array).requires_grad_() for array in arrays]

    dj.compile(lambda a, b: (dj.einsum(equation, a, b) ** 2).sum())(*ours).backward()
    (torch.einsum(equation, *theirs) ** 2).sum().backward()

    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("turn", [False, True])
@pytest.mark.parametrize(
    ("n", "k", "m"), [(2, 2, 2), (3, 127, 15), (5, 128, 33), (9, 300, 129), (2, 0, 3), (1, 40, 9)]
)
def test_integers_of_all_sizes_wrap_as_in_numpy(codegen, n, k, m, turn, dtype):
    random = np.random.default_rng(n)
    top = 2 if dtype == np.bool_ else np.iinfo(dtype).max
    a, b = (random.integers(0, top, s).astype(dtype) for s in ((n, k), (m, k) if turn else (k, m)))
    codegen.check(lambda a, b: ops.matmul(a, turned(b) if turn else b), a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "k", "m"), [(1, 90, 70), (70, 90, 1), (1, 5000, 3), (2, 5000, 1)])
def test_vectors_between_loops_and_memory_speed_may_be_strided(codegen, n, k, m, dtype):
    random = np.random.default_rng(n)
    a, b = (random.integers(-4, 5, shape).astype(dtype) for shape in ((n, k), (k, m)))
    wide_a, wide_b = (random.integers(-4, 5, (r, 2 * c)).astype(dtype) for r, c in ((n, k), (k, m)))

    left = (a, wide_a[:, ::2], np.asfortranarray(a), wide_a[:, :k])
    right = (b, wide_b[:, ::2], np.asfortranarray(b), wide_b[:, m:])

    def products(*operands):
        pairs = list(itertools.product(operands[: len(left)], operands[len(left) :]))
        plain = [ops.matmul(a, b) for a, b in pairs]
        return [*plain, *(ops.matmul(turned(b), turned(a)) for a, b in pairs)]

    codegen.check(products, *left, *right, tolerance=0)


@pytest.mark.c_only
@pytest.mark.parametrize("sizes", [(1, 700, 900), (900, 700, 1), (1, 300, 300), (1, 70000, 1)])
def test_products_with_vectors_have_the_same_bits_for_any_number_of_threads(sizes):
    n, k, m = sizes
    random = np.random.default_rng(0)
    a, b = (dj.tensor(random.standard_normal(s).astype("float32")) for s in ((n, k), (k, m)))
    before = dj.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            dj.set_num_threads(threads)
            found.append(dj.compile(lambda a, b: a @ b)(a, b).numpy())
    finally:
        dj.set_num_threads(before)

    np.testing.assert_array_equal(*found)
