"""Sorting orders by their own kernels: exactly the stable orders of NumPy, in every dtype."""

import ml_dtypes
import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.loops.loop_ir import NativeKernel
from dynajit.codegen.pipeline import compile_graph, generate
from dynajit.codegen.plan import fusion
from dynajit.core.errors import ShapeError
from dynajit.ops import TABLE as ops
from tests.support.kernels.teams import same_for_teams

pytestmark = pytest.mark.one_python

#: shape, dim, the part of the order.
PARTS = (
    ((1,), 0, (0, None)), ((7,), 0, (0, None)), ((7,), 0, (2, 5)), ((3, 1000), 1, (0, 5)),
    ((3, 1000), 1, (0, 400)), ((3, 1000), 1, (999, 1000)), ((2, 300, 5), 1, (0, 60)),
    ((40, 700), 0, (0, None)), ((5, 1300), 1, (0, None)), ((1, 70000), 1, (0, 9)),
    ((70000, 1), 0, (300, 3000)), ((35000, 2), 0, (0, 1)), ((2000, 3), 1, (0, None)),
    ((6, 8, 3), 0, (1, 4)), ((5,), 0, (3, 3)), ((0, 4), 1, (0, 2)), ((4, 0), 1, (0, None)),
    ((2, 3, 400), 2, (390, None)),
)  # fmt: skip
FLOATING = ("float32", "float64", "float16", "bfloat16")
DTYPES = (*FLOATING, "int64", "int32", "int16", "int8", "uint8", "bool")
rng = np.random.default_rng(0)


def values(shape, dtype):
    """Numbers with many equal ones; floats with both zeros, infinities and NaNs."""
    drawn = 40 * rng.standard_normal(shape)
    if dtype == "bool":
        return drawn > 0
    if dtype not in FLOATING:
        low = 0 if dtype == "uint8" else -100
        extreme = np.iinfo(dtype)
        whole = np.asarray(np.clip(drawn, low, 100)).astype(dtype)
        whole.flat[::11], whole.flat[5::13] = extreme.max, extreme.min
        return whole
    drawn.flat[::7], drawn.flat[3::7], drawn.flat[2::9] = 0.0, -0.0, np.inf
    drawn.flat[4::17], drawn.flat[6::19] = -np.inf, np.nan
    return drawn.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def order(x, dim, descending, start, stop):
    """The stable order, from floats of any width in float64; NaN is the largest."""
    wide = x if x.dtype.kind in "iub" else x.astype(np.float64)
    if descending:
        last = np.argsort(np.flip(wide, dim), axis=dim, kind="stable")
        found = x.shape[dim] - 1 - np.flip(last, dim)
    else:
        found = np.argsort(wide, axis=dim, kind="stable")
    return found[(slice(None),) * dim + (slice(start, stop),)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_orders_are_stable_whatever_part_is_asked_for(codegen, dtype):
    arrays = [values(shape, dtype) for shape, _, _ in PARTS]

    def orders(*xs):
        return tuple(
            ops.argsort(x, dim=dim, descending=descending, start=start, stop=stop)
            for descending in (False, True)
            for x, (_, dim, (start, stop)) in zip(xs, PARTS, strict=True)
        )

    graph = codegen.graph_of(orders, *map(codegen.type_of, arrays))
    found = same_for_teams(compile_graph(graph), arrays)

    expected = [
        order(x, dim, descending, start, stop)
        for descending in (False, True)
        for x, (_, dim, (start, stop)) in zip(arrays, PARTS, strict=True)
    ]
    for want, got in zip(expected, found, strict=True):
        assert got.dtype == np.int64
        np.testing.assert_array_equal(want, got)


def test_operands_are_read_by_their_strides(codegen):
    x = values((30, 4, 50), "float32")

    def orders(x):
        turned = ops.permute(x, dims=(2, 0, 1))
        return (
            ops.argsort(turned, dim=0, stop=3), ops.argsort(turned, dim=2),
            ops.argsort(ops.expand(x, shape=(2, 30, 4, 50)), dim=2, stop=3),
            ops.argsort(ops.flip(x, dims=(2,)), dim=2),
        )  # fmt: skip

    graph = codegen.graph_of(orders, codegen.type_of(x))
    found = compile_graph(graph)(x)

    turned = x.transpose(2, 0, 1)
    wide = np.broadcast_to(x, (2, 30, 4, 50))
    expected = (
        order(turned, 0, False, 0, 3), order(turned, 2, False, 0, None),
        order(wide, 2, False, 0, 3), order(x[..., ::-1], 2, False, 0, None),
    )  # fmt: skip
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_array_equal(want, got)


def test_a_graph_with_a_sort_is_native(codegen):
    """What stands around an order is computed by kernels of its own."""
    graph = codegen.graph_of(
        lambda x: ops.argsort(ops.exp(x), dim=1, stop=3), codegen.type_of(np.zeros((4, 9)))
    )

    assert fusion.why_not_native(graph) is None
    kernels = [function.kernel for function in generate(graph, "order").functions]
    assert [kernel.row for kernel in kernels if isinstance(kernel, NativeKernel)] == ["argsort"]


def test_more_dims_than_the_kernel_counts_run_on_numpy(codegen):
    x = values((1,) * 17 + (5,), "float32")
    graph = codegen.graph_of(lambda x: ops.argsort(x, dim=17), codegen.type_of(x))

    assert "no native lowering" in str(fusion.why_not_native(graph))


def test_one_program_serves_every_size():
    compiled = dj.compile(lambda x: (*x.topk(3), *x.sort(0)), dynamic=True)

    for rows, size in ((5, 20), (9, 300)):
        x = dj.tensor(values((rows, size), "float32"))
        for want, got in zip((*x.topk(3), *x.sort(0)), compiled(x), strict=True):
            np.testing.assert_array_equal(want.numpy(), got.numpy())


def test_a_dim_that_became_too_short_is_refused_as_in_eager_execution():
    compiled = dj.compile(lambda x: x.topk(5).values, dynamic=True)
    compiled(dj.arange(20.0)), compiled(dj.arange(9.0))

    with pytest.raises(ShapeError, match="topk: selected index k=5 out of range"):
        compiled(dj.arange(3.0))


@pytest.mark.parametrize("call", ["topk", "kthvalue", "sort", "median"])
def test_gradients_go_to_the_chosen_elements(call):
    torch = pytest.importorskip("torch")
    functions = {
        "topk": lambda x: x.topk(3, 0).values,
        "kthvalue": lambda x: x.kthvalue(4, 1).values,
        "sort": lambda x: x.sort(1, descending=True).values * 2,
        "median": lambda x: x.median(1).values,
    }
    array = np.random.default_rng(3).standard_normal((6, 40)).astype(np.float32)
    given = torch.tensor(array, requires_grad=True)
    (functions[call](given) ** 2).sum().backward()

    for function in (functions[call], dj.compile(functions[call])):
        x = dj.tensor(array, requires_grad=True)
        (function(x) ** 2).sum().backward()
        np.testing.assert_allclose(given.grad.numpy(), x.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_the_first_nan_is_the_median(dim):
    torch = pytest.importorskip("torch")
    array = np.array([[3.0, np.nan, 1.0, np.nan], [2.0, 5.0, 4.0, 1.0], [0.0, 1.0, np.nan, 2.0]])
    array = array.astype(np.float32)
    expected = torch.tensor(array)

    for function in (lambda x: x.median(dim), dj.compile(lambda x: x.median(dim))):
        found = function(dj.tensor(array))
        wanted = expected.median() if dim is None else expected.median(dim)
        if dim is None:
            assert np.isnan(found.item()) and np.isnan(wanted.item())
            continue
        for want, got in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(want.numpy(), got.numpy())
