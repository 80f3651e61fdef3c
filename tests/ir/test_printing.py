"""Graphs print as Python that runs and gives the same numbers."""

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder
from dynajit.ir.interpret import run
from dynajit.ir.passes.expand_composites import expand_composites
from dynajit.ir.printing import large_constants, print_graph, print_literal, print_tabular
from dynajit.ops import TABLE as ops
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table import dispatch


def execute(graph, inputs):
    """The outputs of the printed module, run on arrays."""
    namespace = {"constants": large_constants(graph)}
    exec(compile(print_graph(graph), "graph.py", "exec"), namespace)
    with dispatch.recording(evaluate):
        return namespace[graph.name](*inputs)


def test_a_graph_prints_as_python(record) -> None:
    """Types and the user's line are comments; default attributes are left out."""
    graph = record(lambda x, w: ops.relu(ops.matmul(x, w)), x=(8, 3), w=(3, 4))

    assert str(graph).splitlines() == [
        "from dynajit.ops import TABLE as ops",
        "",
        "def example(",
        "    x,  # float32[8, 3]",
        "    w,  # float32[3, 4]",
        "):",
        "    matmul = ops.matmul(x, w)  # float32[8, 4]  model.py:41",
        "    relu = ops.relu(matmul)  # float32[8, 4]  model.py:41",
        "    return (relu,)",
    ]


def test_the_printed_module_runs(record, samples, same_bits) -> None:
    """Attributes of every class, scalars, literals and several outputs survive printing."""

    def function(x, n, s):
        masked = ops.where(ops.lt(x, 1.0), float("-inf"), ops.add(x, s))
        wide = ops.cast(ops.expand(masked, shape=(2, 2, 3)), dtype=dtypes.float64)
        filled = ops.full(n, shape=(3,), dtype=dtypes.bool_)
        return ops.permute(wide, dims=(2, 0, 1)), filled, 7, None

    graph = record(function, x=(2, 3), n=int, s=float)
    inputs = samples(graph)

    for expected, actual in zip(run(graph, inputs), execute(graph, inputs), strict=True):
        assert same_bits(expected, actual) if expected is not None else actual is None


def test_constants_are_printed_or_named(record, same_bits) -> None:
    """Small constants are written out, with inf and nan; large ones are read from `constants`."""
    builder = Builder("example")
    small = builder.constant(np.array([np.inf, -np.nan, -0.0], np.float32))
    half = builder.constant(np.array([0.5, 3], dtypes.bfloat16.numpy))
    large = builder.constant(np.arange(40))
    graph = builder.finish([ops.neg(small), ops.neg(half), ops.neg(large)])

    assert ["constant_2"] == list(large_constants(graph))
    for expected, actual in zip(run(graph, []), execute(graph, []), strict=True):
        assert same_bits(expected, actual)


def test_the_table_has_a_row_per_node(record) -> None:
    """Nodes and outputs in columns."""
    graph = record(lambda x: ops.sum(x, dim=(0,), keepdim=True), x=(2, 3))

    header, rule, *rows = print_tabular(graph).splitlines()

    assert header.split() == ["kind", "name", "op", "arguments", "attributes", "type", "line"]
    assert {"-", " "} == set(rule)
    assert [
        ["placeholder", "x", "float32[2,", "3]"],
        ["call", "sum", "sum", "x", "dim=(0,),", "keepdim=True", "float32[1,", "3]", "model.py:41"],
        ["output", "sum"],
    ] == [row.split() for row in rows]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "True"),
        (-0.0, "-0.0"),
        (np.float64(1.5), "1.5"),
        ((1,), "(1,)"),
        ((), "()"),
        (dtypes.bool_, "bool_"),
        (dtypes.float16, "float16"),
        (1 + 2j, "complex(1.0, 2.0)"),
        (None, "None"),
        ("tanh", "'tanh'"),
    ],
)
def test_literals_print_as_python(value: object, text: str) -> None:
    """Literals and attributes are Python text."""
    assert text == print_literal(value)


def test_an_expanded_composite_prints_and_runs(record, samples, same_bits) -> None:
    """What a composite stands for is printable, too."""
    graph = expand_composites(record(lambda x: ops.softmax(x, dim=1), x=(2, 3)))
    inputs = samples(graph)

    assert same_bits(run(graph, inputs)[0], execute(graph, inputs)[0])


def test_the_type_of_a_constant_is_its_arrays() -> None:
    """A constant's type is read off the array."""
    constant = Builder().constant(np.zeros((2, 0), np.int16))

    assert TensorType((2, 0), dtypes.int16) == constant.type
