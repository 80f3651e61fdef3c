"""The graph: typed nodes in order, immutable; and the builder, the only way to make them.

Contract: a node's arguments come earlier in the same graph; every value has a type; attributes
are complete (`Op.bind`). `ir.verify` checks it. Graphs print as runnable Python (`ir.printing`).
Capture builds forward graphs, `ir.autodiff` joint graphs, passes rebuild graphs, code generation
reads them.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dynajit.core import dtypes
from dynajit.core.device import CPU, Device
from dynajit.core.dtypes import DType
from dynajit.core.errors import InternalError
from dynajit.core.location import Location
from dynajit.core.types import ScalarType, Shape, TensorType, ValueType
from dynajit.ops import dispatch
from dynajit.ops.methods import TensorMethods
from dynajit.ops.table import Op


class NodeKind(enum.Enum):
    """What a node is."""

    PLACEHOLDER = "placeholder"  # an input of the graph, in order
    CONSTANT = "constant"  # an array known at compile time, in `value`
    CALL = "call"  # an op applied to arguments


@dataclass(frozen=True, slots=True, eq=False)
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

    def __repr__(self) -> str:
        return f"<{self.name}: {self.type}>"


Argument: TypeAlias = "Node | bool | int | float | complex | None"


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in an order in which they can run, and what comes out.

    Args:
        name: what is compiled, for reports.
        nodes: placeholders first.
        outputs: nodes (or literal numbers, where a result is known).
    """

    name: str
    nodes: tuple[Node, ...]
    outputs: tuple[Argument, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The placeholders, in order."""
        return tuple(node for node in self.nodes if node.kind is NodeKind.PLACEHOLDER)

    @property
    def calls(self) -> tuple[Node, ...]:
        """The nodes that compute."""
        return tuple(node for node in self.nodes if node.kind is NodeKind.CALL)

    def users(self) -> dict[Node, list[Node]]:
        """For each node, the nodes that take it as an argument (once each)."""
        users: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for argument in dict.fromkeys(a for a in node.args if isinstance(a, Node)):
                users[argument].append(node)
        return users


class Value(TensorMethods):
    """A handle on a node of the graph under construction; has every tensor method.

    Two handles on one node are interchangeable. It is what op formulas, composites and library
    functions see while a graph is recorded. Its truth, its items and its array are not known:
    asking raises through `Builder.refuse`.
    """

    __slots__ = ("builder", "node")
    __dynajit_priority__ = 10

    def __init__(self, builder: "Builder", node: Node) -> None:
        self.builder = builder
        self.node = node

    @property
    def __dynajit_handler__(self) -> dispatch.Handler:
        return self.builder.handle

    @property
    def type(self) -> ValueType:
        """Type of the node."""
        return self.node.type

    @property
    def shape(self) -> Shape:
        """Shape of the value; () for a run-time number."""
        return self.node.type.shape

    @property
    def dtype(self) -> DType:
        """Element type; a run-time number has the dtype it would get standing alone."""
        kind = self.node.type
        return kind.dtype if isinstance(kind, TensorType) else dtypes.default_of(kind.category)

    @property
    def device(self) -> Device:
        """Device of a tensor value; a number counts as on the CPU."""
        from_type = self.node.type
        return from_type.device if isinstance(from_type, TensorType) else CPU

    def __bool__(self) -> bool:
        return bool(self.builder.refuse(self, "its truth value"))

    def __repr__(self) -> str:
        return f"Value({self.node.name}: {self.node.type})"


class Builder:
    """Makes nodes. Mutable: nodes are appended; `snapshot`/`restore` undo appended nodes.

    Subclasses override `refuse` to say what happens when a value is asked for its contents.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.location: Location | None = None
        self._nodes: list[Node] = []
        self._placeholders: list[Node] = []
        self._names: dict[str, int] = {}

    def placeholder(self, name: str, type: ValueType) -> Value:
        """A further input of the graph."""
        node = Node(NodeKind.PLACEHOLDER, self._unique(name), type, location=self.location)
        self._placeholders.append(node)
        return Value(self, node)

    def constant(self, array: Any, name: str = "constant") -> Value:
        """A NumPy array known at compile time."""
        type = TensorType(tuple(array.shape), dtypes.from_numpy(array.dtype))
        node = Node(
            NodeKind.CONSTANT, self._unique(name), type, value=array, location=self.location
        )
        self._nodes.append(node)
        return Value(self, node)

    def call(
        self,
        op: Op,
        args: Iterable[Any],
        attributes: Mapping[str, Any],
        location: Location | None = None,
        name: str | None = None,
    ) -> Value:
        """Append `op(*args, **attributes)`; args are values, nodes, numbers or None.

        Raises:
            ShapeError, DTypeError, ...: whatever `op.infer` refuses.
        """
        arguments = tuple(a.node if isinstance(a, Value) else a for a in args)
        type = op.infer(*(type_of(a) for a in arguments), **attributes)
        node = Node(
            NodeKind.CALL,
            self._unique(name or op.name),
            type,
            op,
            arguments,
            dict(attributes),
            location=location or self.location,
        )
        self._nodes.append(node)
        return Value(self, node)

    def handle(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Value:
        """The dispatch handler of this builder's values."""
        return self.call(op, [self.lift(operand) for operand in inputs], attributes)

    def lift(self, operand: Any) -> Any:
        """What an operand becomes in this graph; capture overrides it to take eager tensors in."""
        if operand is None or isinstance(operand, (bool, int, float, complex, Node)):
            return operand
        if isinstance(operand, Value):
            if operand.builder is not self:
                raise InternalError(f"{operand!r} belongs to another graph than {self.name!r}")
            return operand
        raise InternalError(f"{type(operand).__name__} cannot be an argument of a graph node")

    def refuse(self, value: Value, what: str) -> Any:
        """Called when the contents of a value are asked for while a graph is built."""
        raise InternalError(f"{what} of {value!r} is not known while a graph is built")

    def finish(self, outputs: Iterable[Any]) -> Graph:
        """The graph of everything appended so far."""
        results = tuple(o.node if isinstance(o, Value) else o for o in outputs)
        return Graph(self.name, (*self._placeholders, *self._nodes), results)

    def snapshot(self) -> tuple[int, int]:
        """A mark for `restore`."""
        return len(self._placeholders), len(self._nodes)

    def restore(self, mark: tuple[int, int]) -> None:
        """Drop whatever was appended since `snapshot`."""
        del self._placeholders[mark[0] :]
        del self._nodes[mark[1] :]

    def _unique(self, name: str) -> str:
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return f"{name}_{count}" if count or name[-1:].isdigit() else name


def type_of(argument: Any) -> ValueType | None:
    """The type of a node argument; a literal number has a ScalarType; None stays None."""
    if argument is None:
        return None
    if isinstance(argument, Node):
        return argument.type
    return ScalarType(dtypes.of_number(argument).category)
