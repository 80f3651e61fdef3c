"""Running sums and products: in order, whatever the loops, fused with what stands around them."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.pipeline import compile_graph
from dynajit.codegen.plan import fusion
from dynajit.ops import TABLE as ops
from tests.support.kernels.teams import same_for_teams

pytestmark = pytest.mark.one_python

SHAPES = [
    ((7,), 0), ((1,), 0), ((5, 300), 1), ((9, 1000), 1), ((3, 70, 5), 1), ((2, 600, 40), 1),
    ((6, 1), 1), ((0, 4), 1), ((4, 0), 1), ((3, 4, 5, 6), 2), ((2, 9, 3), 1), ((40, 1100), 0),
    ((1, 3000), 1),
]  # fmt: skip
DTYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]
rng = np.random.default_rng(0)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def values(shape, dtype="float32"):
    if dtype == "bool":
        return rng.standard_normal(shape) > 0
    return np.asarray(3 * rng.standard_normal(shape)).astype(dtype)


def in_order(x, function, dim, is_reverse=False):
    """The running values as PyTorch accumulates them, element after element."""
    whole = x.dtype.kind in "biu"
    wide = np.int64 if whole else np.float32 if x.dtype == np.float16 else np.float64
    result = np.empty(x.shape, np.int64 if whole else x.dtype)
    if not x.size:
        return result
    lines = np.moveaxis(x, dim, -1).reshape(-1, x.shape[dim])
    found = np.empty(lines.shape, result.dtype)
    for line, out in zip(lines, found, strict=True):
        running = wide(0 if function == "cumsum" else 1)
        for k in reversed(range(len(line))) if is_reverse else range(len(line)):
            with np.errstate(all="ignore"):
                step = np.add if function == "cumsum" else np.multiply
                running = step(running, wide(line[k]), dtype=wide)
                out[k] = running
    shape = np.moveaxis(result, dim, -1).shape
    result[...] = np.moveaxis(found.reshape(shape), -1, dim)
    return result


@pytest.mark.c_only
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", ["cumsum", "cumprod"])
def test_every_bit_is_that_of_one_element_after_the_other(codegen, function, dtype):
    arrays = [values(shape, dtype) for shape, _ in SHAPES]

    def scans(*xs):
        row = getattr(ops, function)
        pairs = [(x, dim) for x, (_, dim) in zip(xs, SHAPES, strict=True)]
        forward = [row(x, dim=dim, reverse=False) for x, dim in pairs]
        return forward + [row(x, dim=dim, reverse=True) for x, dim in pairs]

    program = compile_graph(codegen.graph_of(scans, *map(codegen.type_of, arrays)))
    results = iter(program(*arrays))
    for is_reverse in (False, True):
        for x, (shape, dim) in zip(arrays, SHAPES, strict=True):
            message = f"{shape} {dim} {is_reverse}"
            expected = in_order(x, function, dim, is_reverse)
            np.testing.assert_array_equal(next(results), expected, message, strict=True)


@pytest.mark.c_only
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_running_sums_are_those_of_pytorch(torch, dtype):
    for shape, dim in SHAPES:
        x = values(shape, dtype)
        compiled = dj.compile(lambda a, d=dim: (a.cumsum(d), dj.cumprod(a, d - a.ndim)))
        for found, name in zip(compiled(dj.from_numpy(x)), ("cumsum", "cumprod"), strict=True):
            expected = getattr(torch.from_numpy(x), name)(dim).numpy()
            np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("rows", [5, 6, 7, 9])
@pytest.mark.parametrize("columns", [5, 64, 65, 300])
def test_rows_of_a_last_group_begin_at_zero(codegen, rows, columns):
    """GCC 12 let them begin with the sums of the group before."""

    def running(x):
        sums = ops.cumsum(ops.add(x, 3.0), dim=1)
        return sums, ops.clamp(sums, 0.9, 1.1)

    codegen.check(running, values((rows, columns)))


def test_zero_dim_values_are_their_own_sum(codegen):
    codegen.check(lambda x: ops.cumsum(x, dim=0), np.asarray(3, np.int8), kernels=1)
    codegen.check(lambda x: ops.cumprod(x, dim=0), np.asarray(2.5), kernels=1)


def test_integers_wrap(codegen):
    x = np.full(9, 1 << 61)
    program = codegen.check(lambda x: ops.cumsum(x, dim=0), x)

    assert -(1 << 63) == program(x)[0][3]


@pytest.mark.parametrize("dim", [0, 1])
def test_what_stands_before_and_behind_shares_the_kernel(codegen, dim):
    x, y = values((30, 400), "float64"), values((400, 30), "float64").T

    def function(x, y):
        scanned = ops.cumsum(ops.exp(x) * y, dim=dim)
        return [scanned * 2 + x, ops.tanh(scanned)]

    program = codegen.check(function, x, y, kernels=1, tolerance=1e-9)
    same_for_teams(program, [x, y])


@pytest.mark.parametrize("dim", [0, 1])
def test_a_scan_of_a_scan_is_one_kernel(codegen, dim):
    x = values((30, 400), "float64")

    def function(x):
        first = ops.cumsum(ops.cos(x), dim=dim)
        second = ops.cumsum(first * x, dim=dim)
        return [second - first, ops.cumprod(ops.sin(x), dim=dim)]

    codegen.check(function, x, kernels=1)


def test_scans_in_two_directions_take_two_kernels_and_say_why(codegen):
    def function(x):
        forward = ops.cumsum(x, dim=1)
        return ops.cumsum(forward * x, dim=1, reverse=True)

    x = values((30, 400))
    graph = codegen.graph_of(function, codegen.type_of(x))

    codegen.check(function, x, kernels=2, tolerance=1e-3)
    assert any("in one direction per kernel" in note for note in fusion.plan(graph).notes)


def test_sums_of_scans_and_scans_of_shares(codegen):
    def function(x):
        share = ops.softmax(x, dim=1)
        scanned = ops.cumsum(share, dim=1)
        return [scanned, ops.sum(scanned, dim=(1,)), ops.amax(scanned, dim=(0,))]

    x = values((30, 400))
    codegen.check(function, x)


def test_large_angles_are_right_in_front_of_and_behind_a_scan(codegen):
    x = values((6, 700), "float64")
    x[:, 300] = 1e12

    codegen.check(lambda x: ops.sin(x + ops.cumsum(ops.cos(x), dim=1)), x, tolerance=1e-3)
    codegen.check(lambda x: ops.cumsum(ops.cos(x), dim=0), x)


def test_what_is_not_finite_stays_behind_it(codegen):
    x = values((8, 300))
    x[0, 3], x[1, 5], x[2, 7], x[2, 9], x[3] = np.nan, np.inf, np.inf, -np.inf, -0.0

    for dim in (0, 1):
        codegen.check(lambda x, d=dim: [ops.cumsum(x, dim=d), ops.cumprod(x, dim=d)], x)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_strides_flips_and_gathered_operands(codegen, dim):
    x = values((12, 9, 40))[::2, :, ::-3]
    index = rng.integers(0, 9, 20)

    def function(x, index):
        chosen = ops.index_select(x, index, dim=1)
        return [ops.cumsum(chosen, dim=dim), ops.cumsum(ops.flip(x, dims=(dim,)), dim=dim)]

    codegen.check(function, x, index)


@pytest.mark.parametrize("dim", [0, 1])
def test_the_bits_do_not_depend_on_threads(codegen, dim):
    x = values((333, 1111))
    program = codegen.check(lambda x: ops.cumsum(ops.exp(x), dim=dim), x, tolerance=1e-4)

    same_for_teams(program, [x])


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_are_one_kernel_each_and_those_of_pytorch(torch, dim):
    x, g = values((20, 300)), values((20, 300))

    def gradient(a):
        return (a * 2).cumsum(dim) * 3

    leaf = dj.tensor(x, requires_grad=True)
    result = dj.compile(gradient, fullgraph=True)(leaf)
    result.backward(dj.from_numpy(g))
    other = torch.tensor(x, requires_grad=True)
    gradient(other).backward(torch.from_numpy(g))

    np.testing.assert_allclose(leaf.grad.numpy(), other.grad.numpy(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("zeros", [(), (0,), (3,), (3, 7), (19,)])
def test_gradients_of_running_products_at_zeros_are_those_of_pytorch(torch, zeros):
    x, g = rng.standard_normal((4, 20)), rng.standard_normal((4, 20))
    x[1:3, list(zeros)] = 0
    for compiled in (False, True):
        run = dj.compile(lambda a: a.cumprod(1)) if compiled else lambda a: a.cumprod(1)
        leaf = dj.tensor(x, requires_grad=True)
        run(leaf).backward(dj.from_numpy(g))
        other = torch.tensor(x, requires_grad=True)
        other.cumprod(1).backward(torch.from_numpy(g))

        np.testing.assert_allclose(leaf.grad.numpy(), other.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("zeros", [(), (0,), (2,), (1, 3), (0, 4)])
def test_second_derivatives_of_running_products_at_zeros_are_those_of_pytorch(
    torch, zeros, reverse
):
    x, g = rng.standard_normal(5), rng.standard_normal(5)
    x[list(zeros)] = 0

    def second(library, values, weights):
        given = library.flip(values, (0,)) if reverse else values
        (first,) = library.autograd.grad(
            (library.cumprod(given, 0) * weights).sum(), values, create_graph=True
        )
        rows = [library.autograd.grad(f, values, retain_graph=True)[0] for f in first.unbind(0)]
        return np.stack([row.detach().numpy() for row in rows])

    ours = second(dj, dj.tensor(x, requires_grad=True), dj.from_numpy(g))
    theirs = second(torch, torch.tensor(x, requires_grad=True), torch.from_numpy(g))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_sizes_that_are_not_known_need_one_version(torch):
    compiled = dj.compile(lambda x: (x.cumsum(0) * 2, x.exp().cumsum(1)), dynamic=True)
    for shape in [(5, 7), (300, 500), (2, 1000), (1200, 2)]:
        x = values(shape, "float64")
        for found, expected in zip(
            compiled(dj.from_numpy(x)), (x.cumsum(0) * 2, np.exp(x).cumsum(1)), strict=True
        ):
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-10)


def test_a_verified_program_accepts_scans():
    x = values((50, 700))
    compiled = dj.compile(lambda a: (a.exp().cumsum(1), a.cumsum(0)), options={"verify": True})
    compiled(dj.from_numpy(x))
