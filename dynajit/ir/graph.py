"""The graph: typed nodes in order, immutable; and the builder, the only way to make them.

Contract: placeholders come first; a node's arguments come earlier in the same graph; names are
unique identifiers; every value has the type that its row infers; attributes are complete
(`Op.bind`). `ir.verify` checks it. Graphs print as runnable Python (`ir.printing`). Nodes are in
`ir.node`. Two graphs may share nodes: a pass keeps the nodes that it does not change.
Capture builds forward graphs, `ir.autodiff` joint graphs, passes rebuild graphs, code generation
reads them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import InternalError, UnsupportedError
from dynajit.core.location import Location
from dynajit.core.quoting import as_python_name, folded_html, on_a_line
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, META, Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import Shape, TensorType, ValueType, contiguous_strides
from dynajit.ir import printing
from dynajit.ir.node import Argument, Node, NodeKind, mirrors_of, type_of
from dynajit.ir.sizes import symbol_places
from dynajit.ops.methods.methods import TensorMethods
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import Kind, Op

__all__ = ["Argument", "Builder", "Graph", "Node", "NodeKind", "Value", "symbol_places", "type_of"]


@record(eq=False, repr=False)
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

    def print_tabular(self) -> None:
        """Print the nodes as a table to standard output."""
        print(printing.print_tabular(self))

    def __str__(self) -> str:
        return printing.print_graph(self)

    def __repr__(self) -> str:
        sizes = f"{len(self.inputs)} inputs, {len(self.calls)} operations"
        return f"<Graph {on_a_line(self.name)}: {sizes}, {len(self.outputs)} outputs>"

    def _repr_html_(self) -> str:
        return folded_html(repr(self), str(self))


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

    def resolve_device(self, device: Device, what: str) -> Device:
        """The device, with its number if it is a GPU: see `Builder.resolve_device`."""
        return self.builder.resolve_device(device, what)

    @property
    def array(self) -> Any:
        """The contents, which are not known: see `Builder.refuse`."""
        return self.builder.refuse(self, "its contents")

    def _note_parts(self, parts: tuple[Any, ...]) -> None:
        """Views that one call gave: see `Builder.note_parts`."""
        self.builder.note_parts(parts)

    def _mirrors(self) -> tuple[bool, bool]:
        """Whether eager execution would see memory conjugated here; whether negated."""
        return mirrors_of(self.node)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """A leaf of the tape is made, which graphs do not know: see `Builder.refuse`."""
        return self.builder.make_leaf(self, requires_grad)

    def __bool__(self) -> bool:
        return bool(self.builder.refuse(self, "its truth value"))

    def __repr__(self) -> str:
        return f"Value({self.node.name}: {self.node.type})"


class ComputedNumber(Value):
    """A number of Python's that a graph computes, as functions take one: a tensor of no dims that
    holds it in the dtype of the tensors beside it, and that they take for a number."""

    __slots__ = ()
    is_computed_number = True


def require_computed(dtype: DType, what: str) -> None:
    """Refuse a dtype for storage alone: kernels have no such elements.

    Raises:
        UnsupportedError: it is one.
    """
    if dtype in dtypes.STORED:
        raise UnsupportedError(
            f"{what} of {dtype}: a graph has no elements of this dtype.  Convert outside of what "
            "is compiled."
        )


def _keeps(op: Op, dtype: DType, arguments: Iterable[Any]) -> bool:
    """Whether a row gives unsigned integers that it was given, which kernels move as they are, or
    makes them of nothing, or by a program of its own."""
    if dtype not in dtypes.UNSIGNED or not (op.kind is Kind.MOVEMENT or dtype in op.takes):
        return False
    if op.opaque:
        return True
    types = [type_of(argument) for argument in arguments]
    given = [type.dtype for type in types if isinstance(type, TensorType)]
    return not given or dtype in given


class Builder:
    """Makes nodes. Mutable: nodes are appended; `snapshot`/`restore` undo appended nodes.

    Subclasses override `refuse` to say what happens when a value is asked for its contents, and
    `lift` to take other operands than values and numbers.

    Args:
        name: of the graph.
        reserved: names that new nodes must not get, because nodes with these names will be added
            by `adopt` or `copy`.
    """

    def __init__(self, name: str = "graph", reserved: Iterable[str] = ()) -> None:
        self.name = name
        self.location: Location | None = None
        self._nodes: list[Node] = []
        self._placeholders: list[Node] = []
        self._names: dict[str, int] = dict.fromkeys((*printing.RESERVED, *reserved), 0)

    @property
    def is_empty(self) -> bool:
        """True if nothing is computed yet: there are inputs at most."""
        return not self._nodes

    def strides_of(self, value: Value) -> Shape | None:
        """Those of `layout_of`; None where they are not known."""
        return self.layout_of(value)

    def layout_of(self, value: Value) -> Shape:
        """Strides, in elements, that functions take a value to have: values have no layout."""
        return contiguous_strides(value.shape)

    def placeholder(self, name: str, type: ValueType) -> Value:
        """A further input of the graph."""
        node = Node(NodeKind.PLACEHOLDER, self._unique(name), type, location=self.location)
        self._placeholders.append(node)
        return Value(self, node)

    def constant(self, array: Any, name: str = "constant", device: Device = CPU) -> Value:
        """A NumPy array known at compile time, whose elements programs have on a device."""
        type = TensorType(tuple(array.shape), dtypes.from_numpy(array.dtype), device)
        require_computed(type.dtype, "a constant")
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
        if isinstance(type, TensorType) and not _keeps(op, type.dtype, arguments):
            require_computed(type.dtype, op.name)
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

    def adopt(self, node: Node) -> Value:
        """Append a node of another graph as it is: its arguments are in this graph already.

        The name is taken over unchanged: it must be reserved, or not in use.
        """
        self._names.setdefault(node.name, 0)
        kept = self._placeholders if node.kind is NodeKind.PLACEHOLDER else self._nodes
        kept.append(node)
        return Value(self, node)

    def copy(self, node: Node, args: tuple[Argument, ...]) -> Value:
        """Append `node` with other arguments, keeping name and location (see `adopt`).

        Raises:
            ShapeError, DTypeError, ...: whatever `op.infer` refuses.
        """
        type = node.type
        if node.op is not None and any(
            type_of(old) != type_of(new) for old, new in zip(node.args, args, strict=True)
        ):
            type = node.op.infer(*(type_of(a) for a in args), **node.attributes)
        return self.adopt(replace(node, args=args, type=type))

    def handle(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Value:
        """The dispatch handler of this builder's values."""
        return self.call(op, [self.lift(operand) for operand in inputs], attributes)

    @property
    def knows_gradients(self) -> bool:
        """True if `may_need_gradient` is known, not assumed; capture knows it."""
        return False

    def may_need_gradient(self, value: Value) -> bool:
        """Whether a gradient may be asked for that passes through a value."""
        return True

    def lift(self, operand: Any) -> Any:
        """What an operand becomes in this graph: arrays that library functions make while they
        are recorded become constants; capture overrides it to take eager tensors in."""
        if operand is None or isinstance(operand, (bool, int, float, complex, Node)):
            return operand
        if isinstance(operand, Value):
            if operand.builder is not self:
                raise InternalError(f"{operand!r} belongs to another graph than {self.name!r}")
            return operand
        if isinstance(operand, np.ndarray):
            return self.constant(operand)
        raise InternalError(f"{type(operand).__name__} cannot be an argument of a graph node")

    def resolve_device(self, device: Device, what: str) -> Device:
        """A device of which a graph computes something, with its number; capture overrides it to
        rely on which GPU is the current one.

        Args:
            what: who asks, for messages.

        Raises:
            DeviceError: there is no such device.
            UnsupportedError: graphs know no tensors without elements.
        """
        if device.type == META.type:
            raise UnsupportedError(
                f"{what}(device='meta'): a graph has no tensors without elements.  Make it outside "
                "of what is compiled."
            )
        return gpu.resolve(device, what)

    def note_parts(self, parts: tuple[Value, ...]) -> None:
        """Views that one call gave, to which eager execution refuses recorded writes."""

    def make_leaf(self, value: Value, requires_grad: bool) -> Any:
        """What `requires_grad_` of a value that was just made gives; capture knows leaves."""
        return self.refuse(value, "requires_grad_()")

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

    def nodes_since(self, mark: tuple[int, int]) -> tuple[Node, ...]:
        """What was appended after the `snapshot` that gave `mark`."""
        return (*self._placeholders[mark[0] :], *self._nodes[mark[1] :])

    def has_since(self, mark: tuple[int, int], node: Node) -> bool:
        """True if `node` was appended after the `snapshot` that gave `mark`."""
        return any(node is added for added in self._nodes[mark[1] :])

    def is_last(self, mark: tuple[int, int], node: Node) -> bool:
        """True if `node` is what was appended last, and since the `snapshot` that gave `mark`."""
        return len(self._nodes) > mark[1] and self._nodes[-1] is node

    def rename_last(self, name: str) -> Value:
        """Give the node appended last another, reserved name."""
        return self.adopt(replace(self._nodes.pop(), name=name))

    def _unique(self, name: str) -> str:
        name = as_python_name(name)
        unique = name
        while unique in self._names:
            self._names[name] += 1
            unique = f"{name}_{self._names[name]}"
        self._names[unique] = 0
        return unique
