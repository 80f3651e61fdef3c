"""Composites become the rows that they stand for, at the user's line."""

from dataclasses import replace

import pytest

from dynajit.core.errors import InternalError
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Graph
from dynajit.ir.passes.expand_composites import expand_composites
from dynajit.ops import TABLE as ops
from dynajit.ops.table.op_table import Kind


def test_no_composite_is_left(record) -> None:
    """Composites inside composites are expanded, too; locations are kept."""
    graph = expand_composites(
        record(lambda x, w: ops.layer_norm(ops.softmax(x, dim=1), w, None, normalized_shape=(3,)),
               x=(2, 3), w=(3,))
    )  # fmt: skip

    assert Kind.COMPOSITE not in {node.op.kind for node in graph.calls}
    assert {"model.py:41"} == {str(node.location) for node in graph.calls}


def test_the_last_node_takes_the_name(record) -> None:
    """So the result of a softmax is still called so."""
    graph = expand_composites(record(lambda x: ops.softmax(x, dim=1), x=(2, 3)))

    assert graph.outputs[0].name == "softmax"
    assert graph.outputs[0].op.kind is not Kind.COMPOSITE


def test_a_composite_may_be_kept(record) -> None:
    """By name: those with a lowering of their own."""
    graph = record(lambda x: ops.softmax(x, dim=1), x=(2, 3))

    assert graph.nodes == expand_composites(graph, kept={"softmax"}).nodes


def test_a_wrong_type_is_an_internal_error(record) -> None:
    """The row's rule and its function must agree."""
    graph = record(lambda x: ops.softmax(x, dim=1), x=(2, 3))
    x, softmax = graph.nodes
    wrong = replace(softmax, type=TensorType((5,), x.type.dtype))
    with pytest.raises(InternalError, match="softmax: the row infers"):
        expand_composites(Graph("example", (x, wrong), (wrong,)))


def test_a_call_that_is_kept_but_for_strides_reads_a_copy(record) -> None:
    """The copy lies row by row; operands that do are read as they are."""
    graph = record(lambda x, w: ops.linear(x, w, None), x=(2, 3), w=(4, 3))
    x, w, linear = graph.nodes
    turned = replace(x, type=replace(x.type, strides=(1, 2)))
    called = replace(linear, args=(turned, w, None))
    given = Graph("example", (turned, w, called), (called,))

    def keeps(op, types, attributes) -> bool:
        return all(type is None or type.is_contiguous for type in types)

    kept = expand_composites(given, keeps=keeps)

    assert ["laid_out", "linear"] == [node.op.name for node in kept.calls]
    copy, call = kept.calls
    assert copy.attributes["order"] == (0, 1)
    assert call.args == (copy, kept.inputs[1], None)
    assert "linear" not in {node.op.name for node in expand_composites(given).calls}
