"""Replace composite nodes by the rows that they stand for."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, TypeAlias, TypeGuard

from dynajit.core.errors import InternalError
from dynajit.core.types.value_types import TensorType, ValueType, types_agree
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.node import Argument, Node, type_of
from dynajit.ir.rebuild import as_operand, keep, rebuild
from dynajit.ops.table.op_table import TABLE, Kind, Op

Keeps: TypeAlias = Callable[[Op, Sequence[ValueType | None], Mapping[str, Any]], bool]
"""Whether a call of a composite stays: the row, its operands' types, its attributes."""


def expand_composites(
    graph: Graph, kept: Set[str] = frozenset(), keeps: Keeps | None = None
) -> Graph:
    """The graph with every composite replaced by what its function records, recursively.

    Requires: a verified graph.
    Ensures: no composite but those named in `kept`, calls that `keeps` wants, and those that stay
    whole everywhere (`Composite.stays`); recorded nodes have the composite's location, and the last
    of them its name. Calls that `keeps` would want if their operands lay row by row get copies of
    those that do not.

    Raises:
        InternalError: a composite's function gives another type than its row infers.
    """
    return expand_with_origins(graph, kept, keeps)[0]


def expand_with_origins(
    graph: Graph, kept: Set[str] = frozenset(), keeps: Keeps | None = None
) -> tuple[Graph, dict[Node, Node]]:
    """As `expand_composites`; also, for each node of the result, the node that it was made for."""
    builder = _Expander(graph.name, (node.name for node in graph.nodes), kept, keeps)
    origins: dict[Node, Node] = {}

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        mark = builder.snapshot()
        found = _visit(builder, node, args)
        origins.update((added, node) for added in builder.nodes_since(mark))
        return found

    return rebuild(graph, visit, builder), origins


class _Expander(Builder):
    """A builder in which composite calls run their function instead of becoming a node."""

    def __init__(
        self, name: str, reserved: Iterable[str], kept: Set[str], keeps: Keeps | None
    ) -> None:
        super().__init__(name, reserved)
        self.kept = kept
        self.keeps = keeps

    def is_kept_row_by_row(
        self, op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]
    ) -> bool:
        """True for a call that is only expanded because an operand does not lie row by row."""
        types = list(map(_type_of, inputs))
        flat = [replace(type, strides=None) if _is_strided(type) else type for type in types]
        return self.keeps is not None and flat != types and self.keeps(op, flat, attributes)

    def is_expanded(self, op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
        """True for a composite that is not kept."""
        if op.kind is not Kind.COMPOSITE or op.name in self.kept:
            return False
        if self.keeps is None and op.rule.stays is None:
            return True
        types = list(map(_type_of, inputs))
        if op.rule.stays is not None and op.rule.stays(*types, **attributes):
            return False
        return self.keeps is None or not self.keeps(op, types, attributes)

    def handle(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Record the call, or what it stands for."""
        if not self.is_expanded(op, inputs, attributes):
            return super().handle(op, inputs, attributes)
        if self.is_kept_row_by_row(op, inputs, attributes):
            return super().handle(op, tuple(map(_row_by_row, inputs)), attributes)
        return op.rule.function(TABLE, *inputs, **attributes)


def _type_of(x: "Argument | Value") -> ValueType | None:
    return type_of(x.node if isinstance(x, Value) else x)


def _is_strided(type: ValueType | None) -> TypeGuard[TensorType]:
    return isinstance(type, TensorType) and not type.is_contiguous


def _row_by_row(x: object) -> Any:
    """A copy of an operand that does not lie so."""
    if not isinstance(x, Value) or not _is_strided(x.type):
        return x
    return TABLE.laid_out(x, order=tuple(range(len(x.shape))))


def _visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
    assert isinstance(builder, _Expander)
    op = node.op
    if op is None or not builder.is_expanded(op, args, node.attributes):
        return keep(builder, node, args)
    mark = builder.snapshot()
    operands = tuple(as_operand(builder, argument) for argument in args)
    result = builder.handle(op, operands, dict(node.attributes))
    if not isinstance(result, Value) or not types_agree(result.type, node.type):
        raise InternalError(f"{op.name}: the row infers {node.type}, its function gives {result!r}")
    return builder.rename_last(node.name) if builder.is_last(mark, result.node) else result
