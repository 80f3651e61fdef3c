"""Tangents that are appended to graphs are those of eager execution, for every row."""

import math
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Builder, Value
from dynajit.ir.transforms.tangents import append_tangents
from dynajit.ir.verify import verify
from dynajit.ops import TABLE, Op
from tests.eager.backward.test_forward import (
    complex_rows,
    differentiable,
    differentiable_rows,
    drawn,
    forward,
)
from tests.support.rows.samples import Sample

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.filterwarnings("ignore:Casting complex values to real"),
]


def type_of(array: np.ndarray) -> TensorType:
    return TensorType(array.shape, dtypes.from_numpy(array.dtype))


def recorded(op: Op, sample: Sample, directions: dict[int, np.ndarray]) -> np.ndarray | None:
    """The tangent that the graph of a call gives; None: the result does not move."""
    builder, inputs, operands, seeds = Builder(op.name), [], [], {}
    for i, given in enumerate(sample.inputs):
        if not isinstance(given, np.ndarray):
            operands.append(given)
            continue
        value = builder.placeholder("x", type_of(given))
        operands.append(value)
        inputs.append(np.array(given, order="C"))
        if i in directions:
            seeds[value.node] = builder.placeholder("tangent", type_of(given))
            inputs.append(directions[i])
    mark = builder.snapshot()
    result = builder.call(op, operands, sample.attributes)
    tangents = append_tangents(builder, builder.nodes_since(mark), seeds)
    if result.node not in tangents:
        return None
    graph = builder.finish([tangents[result.node]])
    verify(graph)
    assert graph.outputs[0].type.dtype is result.dtype
    return interpret.run(graph, inputs)[0]


def check(op: Op, dtype: DType) -> None:
    for sample, moving in differentiable(op, dtype):
        directions = {i: drawn(sample.inputs[i], i) for i in moving}
        expected, actual = forward(op, sample, directions), recorded(op, sample, directions)
        if actual is None:
            actual = np.zeros_like(expected)
        assert expected.shape == actual.shape, sample.name
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9, err_msg=sample.name)


@differentiable_rows()
def test_a_graph_gives_the_tangents_of_eager_execution(op: Op) -> None:
    check(op, dtypes.float64)


@complex_rows()
def test_a_graph_gives_the_complex_tangents_of_eager_execution(op: Op) -> None:
    check(op, dtypes.complex128)


def energy(ops: Any, x: Any) -> Any:
    y = ops.softmax(ops.sin(x), dim=0)
    z = ops.euclidean_norm(ops.mul(y, x), dim=(0,), keepdim=False)
    return ops.add(ops.logsumexp(x, dim=(0,), keepdim=False), z)


def test_tangents_are_ordinary_nodes_that_have_tangents() -> None:
    """Third derivatives in one direction, against `func.jvp`."""
    builder = Builder("nested")
    type = TensorType((3,), dtypes.float64)
    x, t = builder.placeholder("x", type), builder.placeholder("t", type)
    mark = builder.snapshot()
    found: Value = energy(TABLE, x)
    for _ in range(3):
        found = append_tangents(builder, builder.nodes_since(mark), {x.node: t})[found.node]
    graph = builder.finish([found])
    a, v = np.array([0.3, -0.7, 1.1]), np.array([1.0, 0.5, -2.0])

    def along(function: Any) -> Any:
        return lambda a: dj.func.jvp(function, (a,), (dj.tensor(v),))[1]

    expected = along(along(along(lambda a: energy(TABLE, a))))(dj.tensor(a)).item()
    assert not math.isclose(expected, 0.0)
    assert interpret.run(graph, [a, v])[0] == pytest.approx(expected)


def test_what_does_not_move_has_no_tangent() -> None:
    builder = Builder("still")
    type = TensorType((3,), dtypes.float64)
    x, y = builder.placeholder("x", type), builder.placeholder("y", type)
    t = builder.placeholder("t", type)
    mark = builder.snapshot()
    still = TABLE.exp(y)
    compared = TABLE.gt(x, y)
    cut = TABLE.detach(x)
    moved = TABLE.mul(x, still)
    tangents = append_tangents(builder, builder.nodes_since(mark), {x.node: t})
    assert moved.node in tangents
    assert not {still.node, compared.node, cut.node} & set(tangents)
