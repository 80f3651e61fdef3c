"""Texts of graphs: equal for equal graphs, different for whatever changes the result."""

from dataclasses import replace

import numpy as np
import pytest

from dynajit.core.types import dtypes, symint
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.keys import Unkeyed, graph_text
from dynajit.ir.node import Node
from dynajit.ops import TABLE as ops


def text_of(record, function, **inputs) -> str:
    return graph_text(record(function, **inputs))


def constant(array) -> str:
    builder = Builder("graph")
    return graph_text(builder.finish([builder.constant(array)]))


def sized(low: int, high: int | None) -> str:
    """The text of a graph over a symbolic size with a range."""
    builder = Builder("graph")
    size = symint.symbol("s0", low, high)
    x = builder.placeholder("x", TensorType((size, size * 2 // 3), dtypes.float32))
    return graph_text(builder.finish([x]))


def test_equal_graphs_have_equal_texts(record) -> None:
    """Two recordings of one function."""
    inputs = {"x": (2, 3), "n": float}

    assert text_of(record, lambda x, n: ops.exp(x) * n, **inputs) == text_of(
        record, lambda x, n: ops.exp(x) * n, **inputs
    )


def test_whatever_changes_the_result_changes_the_text(record) -> None:
    """Literals of different classes and signs, attributes, rows, order, types and layouts."""
    shape = (2, 3)
    turned = TensorType(shape, dtypes.float32, strides=(1, 2))
    texts = [
        text_of(record, lambda x: x * 1, x=shape),
        text_of(record, lambda x: x * 1.0, x=shape),
        text_of(record, lambda x: x * True, x=shape),
        text_of(record, lambda x: x * 0.0, x=shape),
        text_of(record, lambda x: x * -0.0, x=shape),
        text_of(record, lambda x: x * float("nan"), x=shape),
        text_of(record, lambda x: x + 1, x=shape),
        text_of(record, lambda x: x * 1, x=(3, 2)),
        text_of(record, lambda x: x * 1, x=(shape, dtypes.float64)),
        text_of(record, lambda x: x * 1, x=turned),
        text_of(record, lambda x: ops.sum(x, dim=(0,), keepdim=False), x=shape),
        text_of(record, lambda x: ops.sum(x, dim=(1,), keepdim=False), x=shape),
        text_of(record, lambda x: ops.sum(x, dim=(1,), keepdim=True), x=shape),
        text_of(record, lambda x, y: x - y, x=shape, y=shape),
        text_of(record, lambda x, y: y - x, x=shape, y=shape),
        text_of(record, lambda x, y: (x - y, x), x=shape, y=shape),
    ]

    assert len(texts) == len(set(texts))


def test_contents_and_layout_of_constants_count() -> None:
    """NumPy's results depend on both."""
    array = np.arange(6.0).reshape(2, 3)
    other = array.copy()
    other[1, 2] = 7

    texts = {constant(a) for a in (array, other, np.asfortranarray(array), array.astype("f4"))}

    assert 4 == len(texts)
    assert constant(array) == constant(array.copy())


def test_ranges_of_symbols_count() -> None:
    """Code is generated for a range."""
    assert 3 == len({sized(2, None), sized(3, None), sized(2, 64)})
    assert sized(2, 64) == sized(2, 64)


def test_user_lines_do_not_count(record) -> None:
    """The same function recorded on another line."""
    graph = record(lambda x: ops.exp(x), x=(2,))
    bare = tuple(replace(node, location=None) for node in graph.inputs)
    (call,) = graph.calls
    moved = Graph(graph.name, (*bare, call), (call,))
    moved = Graph(graph.name, (*bare, replace(call, args=bare, location=None)), ())

    assert graph_text(moved).splitlines()[:3] == graph_text(graph).splitlines()[:3]


@pytest.mark.parametrize("value", [object(), slice(2), np.float32(1)])
def test_what_has_no_text_is_refused(record, value) -> None:
    """A value that is not known here might change without its text."""
    (x, call) = record(lambda x: ops.sum(x, dim=(0,), keepdim=False), x=(2, 3)).nodes
    strange: Node = replace(call, attributes={"dim": value})

    with pytest.raises(Unkeyed, match=type(value).__name__):
        graph_text(Graph("graph", (x, strange), (strange,)))


def test_a_row_that_is_not_in_the_table_is_refused(record) -> None:
    """Its name says nothing about it."""
    (x, call) = record(lambda x: ops.exp(x), x=(2, 3)).nodes
    strange: Node = replace(call, op=replace(call.op, name="exp"))

    with pytest.raises(Unkeyed, match="exp is not in the table"):
        graph_text(Graph("graph", (x, strange), (strange,)))
