"""The verifier accepts what the builder makes and names what is broken."""

from dataclasses import replace

import numpy as np
import pytest

from dynajit.core.errors import InternalError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder, Graph, Node, NodeKind
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops

X = TensorType((2, 3), dtypes.float32)


def example() -> tuple[Graph, Node, Node, Node, Node]:
    """A correct graph and its nodes: input, constant, sum, product."""
    builder = Builder("example")
    x = builder.placeholder("x", X)
    c = builder.constant(np.ones(3, np.float32), "c")
    total = ops.sum(x, dim=(0,), keepdim=False)
    product = ops.mul(total, c)
    graph = builder.finish([product])
    return graph, x.node, c.node, total.node, product.node


def test_what_the_builder_makes_is_accepted() -> None:
    """No rule is broken."""
    verify(example()[0])


def broken_graphs() -> dict[str, tuple[tuple[Node, ...], tuple, str]]:
    """name -> (nodes, outputs, part of the message) of graphs that each break one rule."""
    graph, x, c, total, product = example()
    foreign = Node(NodeKind.PLACEHOLDER, "foreign", X)
    attributes = dict(total.attributes)

    def with_total(**changes: object) -> tuple[Node, ...]:
        changed = replace(total, **changes)
        return x, c, changed, replace(product, args=(changed, c))

    return {
        "order": ((x, c, product, total), (product,), "does not come earlier"),
        "foreign argument": (with_total(args=(foreign,)), (), "does not come earlier"),
        "foreign output": (graph.nodes, (foreign,), "not a node of this graph"),
        "output class": (graph.nodes, ("text",), "neither a node nor a number"),
        "twice": ((*graph.nodes, total), (product,), "twice"),
        "same name": (with_total(name="c"), (), "two nodes have this name"),
        "keyword": (with_total(name="for"), (), "not a free Python identifier"),
        "reserved": (with_total(name="ops"), (), "not a free Python identifier"),
        "late placeholder": ((*graph.nodes, foreign), (product,), "after other nodes"),
        "type class": (with_total(type=None), (), "not a TensorType"),
        "wrong type": (with_total(type=X), (), "sum infers float32[3]"),
        "wrong dtype": (with_total(type=X.with_shape((3,)).with_dtype(dtypes.int8)), (), "infers"),
        "no op": (with_total(op=None), (), "not a row of the table"),
        "foreign op": (with_total(op=replace(ops.sum)), (), "not a row of the table"),
        "too many arguments": (with_total(args=(x, x)), (), "2 arguments for the inputs x"),
        "argument class": (with_total(args=("x",)), (), "neither a node nor a number"),
        "missing attribute": (with_total(attributes={"dim": (0,)}), (), "the attributes are"),
        "unknown attribute": (with_total(attributes={**attributes, "k": 1}), (), "attributes are"),
        "refused": (with_total(op=ops.cat, args=(1,), attributes={"dim": 0}), (), "refuses"),
        "value of a call": (with_total(value=1), (), "only a constant has a value"),
        "value of an input": ((replace(x, value=1),), (), "only a constant has a value"),
        "op of an input": ((replace(x, op=ops.sum),), (), "only a call"),
        "constant class": ((replace(c, value=[1.0]),), (), "is a list, not an array"),
        "constant type": ((replace(c, type=X),), (), "the value is float32[3]"),
    }


@pytest.mark.parametrize("name", broken_graphs())
def test_a_broken_graph_is_refused(name: str) -> None:
    """The message names the stage, the node and the rule, and shows the graph."""
    nodes, outputs, message = broken_graphs()[name]
    with pytest.raises(InternalError) as caught:
        verify(Graph("example", nodes, outputs), "some_pass")

    assert message in str(caught.value)
    assert "some_pass made a broken graph" in str(caught.value)
    assert "def example(" in str(caught.value)
