"""Forward then backward computes the joint graph; as little as possible is saved."""

from dataclasses import replace

import pytest

from dynajit.core.types import dtypes
from dynajit.ir.autodiff import differentiate
from dynajit.ir.interpret import run
from dynajit.ir.partition import partition, recompute_cost, size_bytes
from dynajit.ir.pipeline import optimize
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops
from dynajit.ops.table.op_table import Kind


def divided(graph, requires_grad=None, optimized=True, budget=1.0):
    """(joint, partition) of a graph, verified."""
    joint = differentiate(graph, requires_grad or [True] * len(graph.inputs))
    if optimized:
        joint = replace(joint, graph=optimize(joint.graph))
    parts = partition(joint, budget=budget)
    verify(parts.forward)
    verify(parts.backward)
    return joint, parts


def mlp(x, w1, w2):
    return ops.sum(ops.matmul(ops.gelu(ops.matmul(x, w1)), w2), dim=(0, 1))


FUNCTIONS = {
    "mlp": (mlp, {"x": (8, 4), "w1": (4, 6), "w2": (6, 3)}),
    "softmax": (lambda x: ops.softmax(ops.mul(x, 2.0), dim=1), {"x": (3, 4)}),
    "layer norm": (
        lambda x, w, b: ops.layer_norm(ops.exp(x), w, b, normalized_shape=(4,)),
        {"x": (3, 4), "w": (4,), "b": (4,)},
    ),
    "several outputs": (
        lambda x, y: (ops.exp(x), ops.mul(ops.exp(x), y), ops.lt(x, y), 3),
        {"x": (3, 4), "y": (4,)},
    ),
    "run-time number": (lambda x, n: ops.pow(ops.exp(x), n), {"x": (3,), "n": float}),
    "dropout": (
        lambda x, s, o: ops.matmul(ops.dropout(ops.exp(x), s, o, p=0.5), x),
        {"x": (4, 4), "s": int, "o": int},
    ),
    "constants": (
        lambda x: ops.mul(x, ops.arange(0, 1, size=4, dtype=dtypes.float32)),
        {"x": (3, 4)},
    ),
}


@pytest.mark.parametrize("budget", [1.0, 0.5, 0])
@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_then_backward_is_the_joint_graph(
    name: str, optimized: bool, budget: float, record, samples, same_bits
) -> None:
    """The same bits, whatever is saved and recomputed."""
    function, inputs = FUNCTIONS[name]
    graph = record(function, **inputs)
    joint, parts = divided(graph, optimized=optimized, budget=budget)
    arrays = samples(joint.graph)
    given, seeds = arrays[: joint.input_count], arrays[joint.input_count :]
    expected = run(joint.graph, arrays)
    results = run(parts.forward, given)
    outputs, saved = results[: joint.output_count], results[joint.output_count :]
    found = (*outputs, *run(parts.backward, [*saved, *seeds]))

    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        assert a is b if a is None else same_bits(a, b)


def test_what_is_saved_of_an_mlp(record) -> None:
    """Inputs are free, the first product is saved, gelu is computed again."""
    graph = record(mlp, **FUNCTIONS["mlp"][1])
    _, parts = divided(graph)
    (product,) = (node for node in parts.saved if node.op is not None)

    assert "matmul" == product.op.name
    assert 8 * 6 * 4 == parts.saved_bytes
    assert [0, 1, 2, None] == sorted(parts.saved_inputs, key=lambda i: (i is None, i))
    assert 0 < parts.recomputed
    assert [*(node.name for node in parts.saved), "grad_sum"] == [
        node.name for node in parts.backward.inputs
    ]


def test_products_are_never_recomputed(record) -> None:
    """Backward has only the products of the derivative."""
    graph = record(mlp, **FUNCTIONS["mlp"][1])
    _, parts = divided(graph)
    products = [node for node in parts.backward.calls if node.op.kind is Kind.EXTERN]

    assert 4 == len(products)


def test_a_chain_from_an_input_is_recomputed(record) -> None:
    """Nothing but the input is saved."""
    graph = record(lambda x: ops.tanh(ops.exp(ops.sin(x))), x=(100,))
    _, parts = divided(graph)

    assert (0,) == parts.saved_inputs
    assert 0 == parts.saved_bytes


def test_a_statistic_of_a_row_is_saved(record) -> None:
    """One number per row is cheaper than reading the rows again."""
    graph = record(
        lambda x: ops.mul(x, ops.rsqrt(ops.sum(ops.mul(x, x), dim=(1,), keepdim=True))),
        x=(10, 100),
    )
    _, parts = divided(graph)

    assert 10 * 4 == parts.saved_bytes


def test_a_saved_result_is_reported(record) -> None:
    """Writing to that result in place would spoil the gradient."""
    graph = record(lambda x, y: ops.matmul(x, y), x=(20, 20), y=(20, 20))
    assert (None, None) == partition(differentiate(graph, (True, True))).saved_outputs

    def function(x, y):
        product = ops.matmul(x, y)
        return ops.reshape(product, shape=(400,)), ops.matmul(product, y)

    graph = record(function, x=(20, 20), y=(20, 20))
    parts = partition(differentiate(graph, (True, True)))
    places = dict(zip((node.name for node in parts.saved), parts.saved_outputs, strict=True))

    assert {"x": None, "y": None, "matmul": 0} == places


def test_no_gradient_path_gives_none(record) -> None:
    """Literal None outputs, and inputs by position."""
    graph = record(lambda x, y, z: ops.mul(ops.detach(x), y), x=(2,), y=(2,), z=(2,))
    _, parts = divided(graph, (True, True, True))

    assert [False, True, False] == [output is not None for output in parts.backward.outputs]
    assert ["x", "y", "z"] == [node.name for node in parts.forward.inputs]


def test_saved_inputs_keep_their_strides(record) -> None:
    """The same array is handed to backward."""
    transposed = replace(record(lambda x: x, x=(2, 3)).inputs[0].type, strides=(1, 2))
    graph = record(lambda x: ops.exp(x), x=transposed)
    parts = partition(differentiate(graph, (True,)))

    assert [transposed] == [node.type for node in parts.backward.inputs[:1]]


def test_costs(record) -> None:
    """Movement and arithmetic are free to recompute, library calls are never recomputed."""
    graph = record(
        lambda x, s: (
            ops.exp(ops.add(ops.permute(x, dims=(1, 0)), 1)),
            ops.matmul(x, x),
            ops.sum(x, dim=(0,)),
            ops.rand(s, 0, shape=(4, 4), dtype=dtypes.float32),
        ),
        x=(4, 4),
        s=int,
    )
    costs = {node.name: recompute_cost(node) for node in graph.nodes}

    assert {
        "x": None, "s": None, "permute": 0, "add": 0, "exp": 16, "matmul": None, "sum": 64,
        "rand": 32,
    } == costs  # fmt: skip
    assert [64, 8] == [size_bytes(node.type) for node in graph.inputs]


def test_a_mask_is_saved_rather_than_drawn_again(record) -> None:
    """One byte per element instead of two random bytes' worth of work."""
    graph = record(FUNCTIONS["dropout"][0], **FUNCTIONS["dropout"][1])
    _, parts = divided(graph)

    assert "bool" in {str(node.type.dtype.name) for node in parts.saved if node.op is not None}
    assert Kind.RANDOM not in {node.op.kind for node in parts.backward.calls}


def test_of_an_input_that_is_overwritten_a_copy_is_saved(record) -> None:
    """The gradient of y needs x as it was; nothing saved is x itself."""
    graph = record(lambda x, y: ops.mul(ops.exp(x), ops.mul(x, y)), x=(3,), y=(3,))
    joint = differentiate(graph, (True, True))
    parts = partition(joint, written=(0,))
    verify(parts.forward)
    verify(parts.backward)
    assert 0 not in parts.saved_inputs
    assert parts.saved_bytes >= 12
    assert 0 in partition(joint).saved_inputs


def layers(x, **weights):
    """Equal layers: each saves a product, its activation is computed again."""
    for weight in weights.values():
        x = ops.gelu(ops.matmul(x, weight))
    return ops.sum(x, dim=(0, 1))


@pytest.mark.parametrize("budget", [0.9, 0.7, 0.5, 0.3, 0.1, 0.0])
def test_a_budget_is_kept_and_used(budget: float, record) -> None:
    """As many layers are saved as fit; what is left over is less than one."""
    graph = record(layers, x=(8, 16), **{f"w{k}": (16, 16) for k in range(10)})
    _, whole = divided(graph)
    _, parts = divided(graph, budget=budget)
    one = 8 * 16 * 4

    assert 10 * one <= whole.saved_bytes
    assert parts.saved_bytes <= budget * whole.saved_bytes
    assert budget * whole.saved_bytes - parts.saved_bytes < 2 * one
    assert parts.recomputed > whole.recomputed


def test_with_no_budget_only_inputs_are_saved(record) -> None:
    """Every product runs again."""
    graph = record(layers, x=(8, 16), w0=(16, 16), w1=(16, 16))
    _, parts = divided(graph, budget=0)

    assert 0 == parts.saved_bytes
    assert None not in parts.saved_inputs


def test_what_cannot_be_computed_again_is_saved_without_a_budget(record) -> None:
    """An input that is overwritten is copied, whatever that costs."""
    graph = record(lambda x, y: ops.matmul(ops.exp(x), y), x=(3, 3), y=(3, 3))
    joint = differentiate(graph, (True, True))
    parts = partition(joint, written=(0,), budget=0)

    assert 0 not in parts.saved_inputs
    assert 9 * 4 <= parts.saved_bytes
