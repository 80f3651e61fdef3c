"""One value of a graph: the node, and what may be its argument.

Frozen data, compared by identity, so a node may be shared by a graph and by the graph that a pass
makes from it. `ir.graph` makes nodes and re-exports every name here; read that file first.
"""

import enum
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from dynajit.core.location import Location
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import ScalarType, TensorType, ValueType
from dynajit.ops.table.op_table import Kind, Op


class NodeKind(enum.Enum):
    """What a node is."""

    PLACEHOLDER = "placeholder"  # an input of the graph, in order
    CONSTANT = "constant"  # an array known at compile time, in `value`
    CALL = "call"  # an op applied to arguments


@record(eq=False)
class Node:
    """One value of a graph. Compared by identity.

    Args:
        kind: see NodeKind.
        name: unique within the graph, a Python identifier.
        type: TensorType, or ScalarType for a run-time Python number.
        op: the row, for CALL.
        args: for CALL: nodes, Python numbers (literals) or None, in the order of the op's inputs.
        attributes: for CALL: all of the op's attributes, completed.
        value: for CONSTANT: the NumPy array.
        location: the user's line that caused it, if any.
    """

    kind: NodeKind
    name: str
    type: ValueType
    op: Op | None = None
    args: tuple["Argument", ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    location: Location | None = None

    @property
    def is_view(self) -> bool:
        """True if the result shares memory with argument 0 when it runs eagerly."""
        return self.op is not None and self.op.kind is Kind.MOVEMENT and bool(self.op.rule.view)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.type}>"


Argument: TypeAlias = "Node | bool | int | float | complex | None"


def type_of(argument: Any) -> ValueType | None:
    """The type of a node argument; a literal number has a ScalarType; None stays None."""
    if argument is None:
        return None
    if isinstance(argument, Node):
        return argument.type
    return ScalarType(dtypes.category_of(argument))


def named_arguments(node: Node) -> Iterator[tuple[str, Argument]]:
    """(name of the op's input, argument) of a CALL; the last name of a variadic op repeats."""
    assert node.op is not None
    names = node.op.inputs
    for position, argument in enumerate(node.args):
        yield names[min(position, len(names) - 1)], argument


def storage_root(node: Node) -> Node:
    """The node whose memory `node` shares through a chain of views; itself if it is no view."""
    while node.is_view and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def rearranges(node: Node) -> bool:
    """True for a call whose elements are all elements of its only operand."""
    op = node.op
    return op is not None and op.kind is Kind.MOVEMENT and bool(op.rule.rearranges)


def mirrors_of(node: Node) -> tuple[bool, bool]:
    """Whether memory is seen conjugated where eager execution has the node's views as such, and
    whether negated."""
    steps = []
    while node.op is not None and isinstance(node.args[0] if node.args else None, Node):
        index = type_of(node.args[1]) if node.op.name == "index" else None
        is_number = isinstance(index, TensorType) and len(index.shape) == 1
        if not (node.is_view or is_number):
            break
        steps.append(node.op.name)
        node = node.args[0]  # type: ignore[assignment]
    conjugate = negative = False
    for name in reversed(steps):
        if name in ("real", "imag"):
            negative ^= conjugate and name == "imag"
            conjugate = False
        conjugate ^= name == "conj_view"
        negative ^= name == "neg_view"
    return conjugate, negative


def literal_key(value: Any) -> Hashable:
    """A key equal for literals and attributes that mean the same.

    Unlike `==` it tells 1 from 1.0 and True, and 0.0 from -0.0, and finds NaN equal to itself.
    """
    if isinstance(value, (tuple, list)):
        return (tuple, *(literal_key(item) for item in value))
    if isinstance(value, (float, complex)):
        return (type(value), repr(value))
    return (type(value), value)
