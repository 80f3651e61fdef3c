"""Joint graphs compute PyTorch's gradients, and agree with finite differences."""

from dataclasses import replace

import numpy as np
import pytest

from dynajit.core.errors import InternalError
from dynajit.core.types import dtypes
from dynajit.ir.autodiff import differentiate
from dynajit.ir.graph import Builder
from dynajit.ir.interpret import run
from dynajit.ir.node import NodeKind
from dynajit.ir.pipeline import optimize
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops

F64 = dtypes.float64


def gradients(graph, inputs, seeds=None, requires_grad=None):
    """(outputs, gradients) of the joint graph; seeds default to ones."""
    joint = differentiate(graph, requires_grad or [True] * len(graph.inputs))
    verify(joint.graph)
    if seeds is None:
        seeds = [np.ones(node.type.shape, node.type.dtype.numpy) for node in joint.output_gradients]
    results = run(joint.graph, [*inputs, *seeds])
    return results[: joint.output_count], results[joint.output_count :]


def mean_of_squares(x):
    return ops.mean(ops.mul(x, x), dim=tuple(range(len(x.shape))))


def mlp(x, w1, b1, w2):
    return mean_of_squares(ops.linear(ops.relu(ops.linear(x, w1, b1)), w2, None))


def attention(q, k, v):
    scores = ops.mul(ops.matmul(q, ops.permute(k, dims=(0, 2, 1))), 0.5)
    return mean_of_squares(ops.matmul(ops.softmax(scores, dim=2), v))


# name -> (function of values, the same in PyTorch, shapes)
MODELS = {
    "mlp": (
        mlp,
        lambda torch, x, w1, b1, w2: ((x @ w1.T + b1).relu() @ w2.T).square().mean(),
        {"x": (4, 3), "w1": (5, 3), "b1": (5,), "w2": (2, 5)},
    ),
    "softmax cross-entropy": (
        lambda x: ops.neg(
            ops.mean(ops.select(ops.log_softmax(x, dim=1), dim=1, index=0), dim=(0,))
        ),
        lambda torch, x: -torch.log_softmax(x, 1)[:, 0].mean(),
        {"x": (4, 5)},
    ),
    "layer norm": (
        lambda x, w, b: mean_of_squares(ops.layer_norm(x, w, b, normalized_shape=(5,))),
        lambda torch, x, w, b: torch.layer_norm(x, (5,), w, b).square().mean(),
        {"x": (2, 3, 5), "w": (5,), "b": (5,)},
    ),
    "attention": (
        attention,
        lambda torch, q, k, v: (torch.softmax(q @ k.mT * 0.5, 2) @ v).square().mean(),
        {"q": (2, 3, 4), "k": (2, 5, 4), "v": (2, 5, 3)},
    ),
    "scaled dot product attention": (
        lambda q, k, v: mean_of_squares(
            ops.scaled_dot_product_attention(q, k, v, None, None, None, is_causal=True)
        ),
        lambda torch, q, k, v: (
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            .square()
            .mean()
        ),
        {"q": (2, 3, 4), "k": (2, 3, 4), "v": (2, 3, 4)},
    ),
    "broadcasting": (
        lambda x, y, z: mean_of_squares(ops.div(ops.mul(x, y), ops.add(z, 1.0))),
        lambda torch, x, y, z: (x * y / (z + 1.0)).square().mean(),
        {"x": (3, 1), "y": (2, 1, 4), "z": ()},
    ),
    "views": (
        lambda x: mean_of_squares(
            ops.cat(
                ops.slice(ops.permute(x, dims=(1, 0)), start=(0, 1), stop=(3, 4), step=(1, 2)),
                ops.reshape(ops.expand(ops.select(x, dim=1, index=1), shape=(2, 4)), shape=(4, 2)),
                dim=0,
            )
        ),
        lambda torch, x: (
            torch.cat([x.T[:, 1::2], x[:, 1].expand(2, 4).reshape(4, 2)]).square().mean()
        ),
        {"x": (4, 3)},
    ),
    "one value used often": (
        lambda x: mean_of_squares(ops.mul(ops.tanh(x), ops.add(ops.exp(x), ops.sin(x)))),
        lambda torch, x: (x.tanh() * (x.exp() + x.sin())).square().mean(),
        {"x": (3, 2)},
    ),
    "prod, amax, var": (
        lambda x: ops.add(
            ops.sum(ops.prod(x, dim=(1,)), dim=(0,)),
            ops.add(ops.sum(ops.amax(x, dim=(0,)), dim=(0,)), ops.var(x, dim=(0, 1))),
        ),
        lambda torch, x: x.prod(1).sum() + x.amax(0).sum() + x.var(),
        {"x": (3, 4)},
    ),
    "where and clamp": (
        lambda x, y: mean_of_squares(ops.where(ops.lt(x, 1.0), ops.clamp(y, 0.5, 1.2), x)),
        lambda torch, x, y: torch.where(x < 1.0, y.clamp(0.5, 1.2), x).square().mean(),
        {"x": (3, 4), "y": (4,)},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_pytorchs(name: str, record, samples) -> None:
    """The joint graph, as derived and after all passes, in float64."""
    torch = pytest.importorskip("torch")
    function, reference, shapes = MODELS[name]
    graph = record(function, **{key: (shape, F64) for key, shape in shapes.items()})
    inputs = samples(graph)
    tensors = [torch.tensor(array, requires_grad=True) for array in inputs]
    loss = reference(torch, *tensors)
    loss.backward()
    expected = [loss.detach().numpy(), *(tensor.grad.numpy() for tensor in tensors)]

    joint = differentiate(graph, [True] * len(inputs))
    for derived in (joint.graph, optimize(joint.graph)):
        for right, found in zip(expected, run(derived, [*inputs, np.ones(())]), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_agree_with_finite_differences(name: str, record, samples) -> None:
    """Central differences of the graph itself, along a random direction."""
    function, _, shapes = MODELS[name]
    graph = record(function, **{key: (shape, F64) for key, shape in shapes.items()})
    inputs = samples(graph)
    directions = samples(graph, seed=1)
    step = 1e-6
    ahead, behind = (
        run(graph, [x + sign * step * d for x, d in zip(inputs, directions, strict=True)])[0]
        for sign in (1, -1)
    )
    _, found = gradients(graph, inputs)
    slope = sum(np.sum(g * d) for g, d in zip(found, directions, strict=True))

    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-6)


def test_gather_adds_up_at_repeated_indices(record) -> None:
    """The gradient of a table is added for every row that was read."""
    index = np.array([2, 0, 2])
    graph = record(
        lambda w, i: ops.sum(ops.embedding(w, i), dim=(0, 1)), w=(3, 2), i=((3,), dtypes.int64)
    )
    _, (found,) = gradients(
        graph, [np.ones((3, 2), np.float32), index], requires_grad=[True, False]
    )

    assert [[1, 1], [0, 0], [2, 2]] == found.tolist()


def test_an_output_may_be_an_input_or_repeat(record) -> None:
    """Gradients of all outputs add up."""
    graph = record(lambda x: (x, ops.neg(x), x), x=(2,))
    seeds = [np.full(2, value, np.float32) for value in (1, 10, 100)]
    _, (found,) = gradients(graph, [np.zeros(2, np.float32)], seeds)

    assert [91, 91] == found.tolist()


def test_only_continuous_outputs_have_a_gradient(record) -> None:
    """Integer, bool, literal and independent outputs are left out."""
    graph = record(
        lambda x, y: (ops.lt(x, 0), ops.argmax(x, dim=(0,)), ops.exp(y), 3, ops.exp(x)),
        x=(2,),
        y=(2,),
    )
    joint = differentiate(graph, (True, False))

    assert (4,) == joint.differentiable_outputs
    assert ["grad_exp_1"] == [node.name for node in joint.output_gradients]


def test_detach_stops_the_gradient(record) -> None:
    """No path: None, not zeros."""
    graph = record(lambda x, y: ops.mul(ops.detach(x), y), x=(2,), y=(2,))
    joint = differentiate(graph, (True, True))

    assert joint.input_gradients[0] is None
    assert joint.input_gradients[1] is not None


def test_inputs_that_cannot_have_a_gradient_get_none(record) -> None:
    """Integer tensors and run-time numbers, even where a gradient is asked for."""
    graph = record(
        lambda x, i, n: ops.mul(ops.mul(x, i), n), x=(2,), i=((2,), dtypes.int64), n=float
    )
    joint = differentiate(graph, (True, True, True))

    assert [True, False, False] == [g is not None for g in joint.input_gradients]


def test_a_gradient_has_the_type_of_its_input(record) -> None:
    """Broadcasting and casts are undone."""
    graph = record(
        lambda x, y: ops.mul(x, ops.cast(y, dtype=dtypes.float64)),
        x=((3, 1), dtypes.float64),
        y=((1, 4), dtypes.float16),
    )
    joint = differentiate(graph, (True, True))

    assert [node.type for node in graph.inputs] == [node.type for node in joint.input_gradients]


def test_a_composite_with_a_formula_stays_one_node(record) -> None:
    """Its own derivative is used; one without is expanded."""
    graph = record(lambda x: ops.softmax(x, dim=0), x=(3,))
    names = [node.op.name for node in differentiate(graph, (True,)).graph.calls]

    assert ("softmax" in names) == bool(ops.softmax.vjp)


def test_gradient_nodes_point_at_the_users_line(record) -> None:
    """The line of the forward node."""
    graph = record(lambda x: ops.tanh(ops.exp(x)), x=(3,))
    joint = differentiate(graph, (True,))

    assert {"model.py:41"} == {str(node.location) for node in joint.graph.calls}


def test_forward_nodes_are_shared_and_come_first(record) -> None:
    """The joint graph starts with the forward graph itself."""
    graph = record(lambda x: ops.tanh(ops.exp(x)), x=(3,))
    joint = differentiate(graph, (True,)).graph

    assert graph.calls == joint.calls[: len(graph.calls)]
    assert [NodeKind.PLACEHOLDER] * 2 == [node.kind for node in joint.nodes[:2]]


def test_the_number_of_flags_is_checked(record) -> None:
    """One per input."""
    with pytest.raises(InternalError, match="2 requires_grad flags for 1 inputs"):
        differentiate(record(lambda x: x, x=(3,)), (True, False))


def test_a_formula_that_gives_no_value_is_an_internal_error(record) -> None:
    """A number is no gradient."""
    op = replace(ops.exp, vjp={"x": lambda g: 1.0})
    builder = Builder()
    x = builder.placeholder("x", record(lambda x: x, x=(2,)).inputs[0].type)
    graph = builder.finish([builder.call(op, [x], {})])
    with pytest.raises(InternalError, match=r"the gradient of x is 1\.0, not a value"):
        differentiate(graph, (True,))
