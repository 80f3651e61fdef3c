"""Graphs of derivatives that users wrote: what is taken over, and what runs them."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import AutogradError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder
from dynajit.ir.verify import verify
from dynajit.ir.written_derivative import WrittenDerivative, derivative, extract
from dynajit.ops import TABLE

TYPE = TensorType((3,), dtypes.float32)


def recorded(name="g"):
    """A graph with an input, a gradient, a result, and the sum of both times the input."""
    builder = Builder(name)
    x, g, out = (builder.placeholder(label, TYPE) for label in ("x", "g", "out"))
    mark = builder.snapshot()
    product = TABLE.mul(TABLE.add(g, out), x)
    return builder, mark, (x, g, out, product)


def test_operands_from_outside_become_inputs():
    builder, mark, (x, g, out, product) = recorded()
    found = extract("b", builder.nodes_since(mark), [product.node], g.node, out.node, {})
    verify(found.graph)
    assert [node.name for node in found.graph.inputs] == ["gradient", "result", "x"]
    assert found.reads_result
    assert found.read == (x.node,)


def test_what_no_gradient_needs_is_left_out():
    builder, mark, (_x, g, out, _) = recorded()
    needed = TABLE.neg(g)
    found = extract("b", builder.nodes_since(mark), [needed.node, None], g.node, out.node, {})
    verify(found.graph)
    assert [node.op.name for node in found.graph.calls] == ["neg"]
    assert not found.reads_result
    assert found.read == ()
    assert found.graph.outputs[1] is None


def test_one_value_may_be_read_in_place_of_another():
    builder, mark, (x, g, out, product) = recorded()
    instead = {x.node: out.node}
    found = extract("b", builder.nodes_since(mark), [product.node], g.node, out.node, instead)
    assert found.read == ()
    assert found.reads_result


def test_a_gradient_may_be_an_operand_itself():
    _builder, _mark, (x, g, out, _) = recorded()
    found = extract("b", (), [x.node, g.node], g.node, out.node, {})
    assert found.read == (x.node,)
    assert found.graph.outputs == (found.graph.inputs[1], found.graph.inputs[0])


def written(once=None):
    builder, mark, (_x, g, out, product) = recorded()
    found = extract("b", builder.nodes_since(mark), [product.node], g.node, out.node, {})
    return WrittenDerivative(found.graph, found.reads_result, dj.from_numpy, once)


def test_eager_tensors_run_the_graph():
    g, out, x = dj.tensor([1.0, 2, 3]), dj.tensor([4.0, 5, 6]), dj.tensor([7.0, 8, 9])
    found, rest = written()(g, out, [dj.zeros(3), x])
    np.testing.assert_array_equal(found, [35, 56, 81])
    assert rest is None


def test_values_of_another_graph_record_it():
    builder = Builder("other")
    g, out, sink, x = (builder.placeholder(label, TYPE) for label in ("g", "out", "sink", "x"))
    found, rest = written()(g, out, [sink, x])
    graph = builder.finish([found])
    verify(graph)
    assert [node.op.name for node in graph.calls] == ["add", "mul"]
    assert rest is None


def test_a_derivative_that_is_computed_once_refuses_a_second_one():
    g = dj.ones(3, requires_grad=True)
    once = dj.autograd.function.once_differentiable
    found, _ = written(once)(g, dj.ones(3), [dj.zeros(3), dj.ones(3)])
    with pytest.raises(AutogradError, match="once_differentiable"):
        found.sum().backward()


def test_a_function_gets_the_result_where_it_reads_it():
    reads = derivative(lambda g, out, x: (g, out, x), 3, True)
    assert reads(1, 2, [None, None, None, 4]) == [1, 2, 4, None]
    ignores = derivative(lambda g, x: (g + x,), 1, False)
    assert ignores(1, 2, [None, 4]) == [5, None]
