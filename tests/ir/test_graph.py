"""The builder makes unique names, infers types, and shares or copies nodes on request."""

import pytest

from dynajit.core.errors import InternalError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder, NodeKind, Value
from dynajit.ops import TABLE as ops

X = TensorType((2, 3), dtypes.float32)


def test_names_are_unique_identifiers() -> None:
    """A repeated name is numbered; text that is no identifier is made one."""
    builder = Builder()
    names = [
        builder.placeholder(name, X).node.name
        for name in ("h", "h", "h_1", "h", "self.weight", "for", "ops", "2d")
    ]

    assert ["h", "h_1", "h_1_1", "h_2", "self_weight", "for_", "ops_1", "_2d"] == names


def test_call_infers_the_type() -> None:
    """A node has the type that its row infers."""
    builder = Builder()
    x = builder.placeholder("x", X)

    assert TensorType((2,), dtypes.float32) == ops.sum(x, dim=(1,), keepdim=False).type


def test_a_refused_operand_raises_and_appends_nothing() -> None:
    """A row's refusal passes through the builder."""
    builder = Builder()
    x = builder.placeholder("x", X)
    y = builder.placeholder("y", TensorType((4,), dtypes.float32))
    with pytest.raises(ShapeError, match="do not broadcast"):
        ops.add(x, y)

    assert 2 == len(builder.finish([]).nodes)


def test_restore_drops_what_was_appended() -> None:
    """`snapshot` and `restore` undo nodes and placeholders."""
    builder = Builder()
    x = builder.placeholder("x", X)
    mark = builder.snapshot()
    builder.placeholder("y", X)
    ops.neg(x)
    builder.restore(mark)

    assert (x.node,) == builder.finish([x]).nodes


def test_values_of_two_graphs_do_not_mix() -> None:
    """A value belongs to one builder."""
    x = Builder("first").placeholder("x", X)
    y = Builder("second").placeholder("y", X)
    with pytest.raises(InternalError, match="another graph"):
        ops.add(x, y)


def test_the_truth_of_a_value_is_refused() -> None:
    """A plain builder knows no contents."""
    with pytest.raises(InternalError, match="truth value"):
        bool(Builder().placeholder("x", X))


def test_copy_infers_again_only_when_types_change() -> None:
    """A copied node keeps name and location; its type follows its arguments."""
    builder = Builder()
    x = builder.placeholder("x", X)
    y = builder.placeholder("y", TensorType((5,), dtypes.float32))
    node = ops.exp(x).node
    other = Builder(reserved=["exp"])
    copied = other.copy(node, (y.node,)).node

    assert ("exp", (y.node,), (5,)) == (copied.name, copied.args, copied.type.shape)


def test_users_lists_each_user_once() -> None:
    """A node that takes an argument twice is one user."""
    builder = Builder()
    x = builder.placeholder("x", X)
    square = ops.mul(x, x)
    graph = builder.finish([square])

    assert [square.node] == graph.users()[x.node]
    assert (NodeKind.PLACEHOLDER, NodeKind.CALL) == tuple(node.kind for node in graph.nodes)
    assert isinstance(square, Value)
