"""Which values share a kernel."""

import dataclasses

import numpy as np
import pytest

from dynajit.codegen.loops.elements import Storage
from dynajit.codegen.pipeline import compile_graph, generate
from dynajit.codegen.plan.fusion import is_traffic_saved, plan, why_not_fusable
from dynajit.codegen.plan.regions import Region
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir import autodiff, interpret, partition
from dynajit.ir.pipeline import optimize
from dynajit.ops import TABLE as ops

rng = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def linear_relu(x, w, b):
    return ops.relu(ops.linear(x, w, b))


TARGET = rng.integers(0, 10, 64)
LOSS = (lambda x, t: ops.cross_entropy(x, t, None), (normal(64, 10), TARGET))
NORM = (
    lambda x, w, b: ops.layer_norm(x, w, b, normalized_shape=(96,)),
    (normal(64, 96), normal(96), normal(96)),
)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x: ops.softmax(x, dim=1), (normal(64, 100),)),
        (lambda x: ops.softmax(x, dim=2), (normal(3, 4, 9),)),
        (lambda x: ops.log_softmax(x, dim=1), (normal(64, 10),)),
        (lambda x: ops.logsumexp(x, dim=(1,)), (normal(64, 10),)),
        (lambda x: ops.var(x, dim=(1,)), (normal(64, 10),)),
        (lambda x: ops.mean(ops.mul(x, x), dim=(0, 1)), (normal(64, 10),)),
        (lambda x, y: ops.mse_loss(x, y), (normal(400, 300), normal(400, 300))),
        LOSS,
        NORM,
    ],
    ids=["softmax", "softmax3", "log_softmax", "logsumexp", "var", "mean", "mse", "loss", "norm"],
)
def test_forward_is_one_kernel(codegen, function, arguments) -> None:
    """Reductions over the same rows, what they read and what reads them share a kernel."""
    codegen.check(function, *arguments, kernels=1)


def backward(codegen, function, arguments):
    """(forward program, backward program) after comparing both with the interpreter."""
    types = [codegen.type_of(a) for a in arguments]
    # As in the compile driver, derivatives are taken while composites are whole.
    graph = codegen.graph_of(function, *types, optimized=False)
    joint = autodiff.differentiate(graph, [t.dtype.is_floating_point for t in types])
    joint = dataclasses.replace(joint, graph=optimize(joint.graph))
    parts = partition.partition(joint)
    graphs = [optimize(parts.forward), optimize(parts.backward)]
    programs = [compile_graph(g) for g in graphs]
    results = programs[0](*arguments)
    for want, got in zip(interpret.run(graphs[0], arguments), results, strict=True):
        codegen.assert_same(want, got)
    count = len(graph.outputs)
    gradients = [np.asarray(normal(*r.shape)) for r in results[:count]]
    saved = (*results[count:], *gradients)
    for want, got in zip(interpret.run(graphs[1], saved), programs[1](*saved), strict=True):
        codegen.assert_same(want, got, 1e-4)
    return programs


@pytest.mark.parametrize(
    ("function", "arguments", "kernels"),
    [
        (lambda x: ops.softmax(x, dim=1), (normal(64, 100),), 1),
        (lambda x: ops.log_softmax(x, dim=1), (normal(64, 10),), 1),
        (lambda x: ops.layer_norm(x, None, None, normalized_shape=(96,)), (normal(64, 96),), 1),
        (*LOSS, 1),
        # Gradients of weight and bias go down the columns.
        (*NORM, 2),
    ],
    ids=["softmax", "log_softmax", "norm_x", "loss", "norm"],
)
def test_backward_is_one_kernel(codegen, function, arguments, kernels) -> None:
    """The derivatives of row reductions are row reductions again."""
    forward, back = backward(codegen, function, arguments)

    assert len(forward.kernels) == 1
    assert kernels == len(back.kernels), back.explain


def test_epilogue_of_a_product_is_one_kernel(codegen) -> None:
    """Bias and activation follow the product in one kernel."""
    codegen.check(linear_relu, normal(8, 16), normal(4, 16), normal(4), kernels=2)


def test_reshaped_products_share_memory(codegen) -> None:
    """A product seen under another shape is not copied."""
    codegen.check(
        lambda x, w: ops.reshape(ops.matmul(x, w), shape=(2, 4, 5)), normal(8, 16), normal(16, 5),
        kernels=1,
    )  # fmt: skip


def test_an_output_and_its_reshape_do_not_share_memory(codegen) -> None:
    """Two outputs have memory of their own each."""
    program = codegen.check(
        lambda x, w: [ops.matmul(x, w), ops.reshape(ops.matmul(x, w), shape=(40,))],
        normal(8, 16), normal(16, 5),
    )  # fmt: skip
    first, second = program(normal(8, 16), normal(16, 5))

    assert not np.shares_memory(first, second)


def test_expensive_values_are_computed_once(codegen) -> None:
    """An exponential that two kernels need is stored, cheap arithmetic is repeated."""
    program = codegen.check(
        lambda x: [ops.sum(ops.exp(x), dim=(0,)), ops.sum(ops.exp(x), dim=(1,))], normal(60, 64)
    )
    exponential = "= expf(" if codegen.is_cuda else "= dj_exp_f32(t"
    assert 1 == sum(kernel.source.count(exponential) for kernel in program.kernels)

    program = codegen.check(lambda x, b: ops.add(x, ops.exp(b)), normal(60, 50), normal(50))
    assert len(program.kernels) == 2


def test_siblings_share_a_kernel(codegen) -> None:
    """Independent values over one domain and input are one loop."""
    codegen.check(lambda x: [ops.add(x, 1.0), ops.mul(x, 2.0), ops.neg(x)], normal(50), kernels=1)
    codegen.check(
        lambda x: [ops.sum(x, dim=(0,)), ops.sum(ops.mul(x, x), dim=(0,))], normal(50, 7), kernels=1
    )


def test_values_that_need_each_other_around_a_product_stay_apart(codegen) -> None:
    """A kernel that would have to run both before and after a product is not made."""
    codegen.check(
        lambda x: ops.add(ops.exp(x), ops.matmul(ops.exp(x), ops.exp(x))), normal(9, 9), kernels=3
    )


def test_long_chains_are_cut(codegen) -> None:
    """Hundreds of rows in a chain compile, in a few kernels."""

    def function(x):
        for _ in range(300):
            x = ops.add(ops.mul(x, 0.99), 0.01)
        return x

    program = codegen.check(function, normal(20))

    assert 1 < len(program.kernels) < 30


def test_a_shared_subexpression_does_not_blow_up(codegen) -> None:
    """x -> x * x forty times is forty operations, not 2**40."""

    def function(x):
        for _ in range(40):
            x = ops.mul(x, x)
        return x

    codegen.check(function, np.full(8, 0.999, np.float32), kernels=1)


def test_why_not_fusable_says_why(codegen) -> None:
    """The reason names what is in the way; None means that it fits."""
    type = TensorType((4, 6), dtypes.float32)

    def function(x):
        e = ops.exp(x)
        return [e, ops.permute(e, dims=(1, 0)), ops.sum(x, dim=(0,)), ops.neg(x)]

    graph = codegen.graph_of(function, type)
    exp, moved, column_sum, negative = graph.outputs
    region = Region(Storage(graph.inputs), (4, 6))
    region.add(exp)

    assert why_not_fusable(region, negative) is None
    assert "reads exp at other elements" in str(why_not_fusable(region, moved))
    assert "reduces another domain" in str(why_not_fusable(region, column_sum))
    assert list(region.anchors) == [exp]


def test_generation_is_deterministic(codegen) -> None:
    """The same graph gives the same text, which is the cache key."""
    function, arguments = NORM
    types = [codegen.type_of(a) for a in arguments]
    texts = {generate(codegen.graph_of(function, *types), "g").source for _ in range(3)}

    assert len(texts) == 1


def test_dead_values_are_not_computed(codegen) -> None:
    """Only what an output needs is planned."""
    type = TensorType((4,), dtypes.float32)
    graph = codegen.graph_of(lambda x: [ops.exp(x)], type)

    assert len(plan(graph).units) == 1


def test_literal_input_and_repeated_outputs(codegen) -> None:
    """Outputs may be inputs, literals, constants, or the same value twice."""
    graph = codegen.graph_of(lambda x: [x, ops.neg(x)], TensorType((3,), dtypes.float32))
    graph = dataclasses.replace(graph, outputs=(*graph.outputs, 2.5, None, graph.outputs[1]))
    x = normal(3)
    same, negative, literal, nothing, again = compile_graph(graph)(x)

    assert same is x
    assert (2.5, None) == (literal, nothing)
    assert again is negative
    np.testing.assert_array_equal(-x, negative)


def test_column_reductions_that_need_each_other_stay_apart(codegen) -> None:
    """A column kernel goes down its rows once."""
    codegen.check(lambda x: ops.var(x, dim=(0,)), normal(50, 7), kernels=2)
    codegen.check(lambda x: ops.softmax(x, dim=0), normal(50, 7))
    codegen.check(lambda x: ops.softmax(x, dim=1), normal(3, 5, 4))


def test_a_residual_stream_is_read_as_one_array(codegen) -> None:
    """Each layer reads the sum so far, not every earlier layer's output again."""

    def function(x, w):
        for _ in range(6):
            x = ops.add(x, ops.matmul(ops.softmax(x, dim=1), w))
        return x

    graph = codegen.graph_of(function, *map(codegen.type_of, (normal(8, 8), normal(8, 8))))
    parameters = [len(f.buffers) for f in generate(graph, "residual").functions]

    assert max(parameters) <= 4
    codegen.check(function, normal(8, 8), normal(8, 8), tolerance=1e-4)


@pytest.mark.parametrize(
    ("kernels", "reads", "expected"), [(2, 1, False), (2, 2, False), (2, 3, True), (3, 2, True)]
)
def test_traffic_decides_what_cheap_values_are_stored(kernels, reads, expected) -> None:
    """kernels * reads against reads + one write + the other kernels' reads."""
    assert expected is is_traffic_saved(kernels, reads)
