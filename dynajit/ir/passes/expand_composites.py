"""Replace composite nodes by the rows that they stand for."""

from collections.abc import Iterable, Set
from typing import Any

from dynajit.core.errors import InternalError
from dynajit.core.types import types_agree
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.node import Argument, Node
from dynajit.ir.rebuild import as_operand, keep, rebuild
from dynajit.ops.table import TABLE, Kind, Op


def expand_composites(graph: Graph, kept: Set[str] = frozenset()) -> Graph:
    """The graph with every composite replaced by what its function records, recursively.

    Requires: a verified graph.
    Ensures: no composite but those named in `kept`; recorded nodes have the composite's location,
    and the last of them its name.

    Raises:
        InternalError: a composite's function gives another type than its row infers.
    """
    return expand_with_origins(graph, kept)[0]


def expand_with_origins(
    graph: Graph, kept: Set[str] = frozenset()
) -> tuple[Graph, dict[Node, Node]]:
    """As `expand_composites`; also, for each node of the result, the node that it was made for."""
    builder = _Expander(graph.name, (node.name for node in graph.nodes), kept)
    origins: dict[Node, Node] = {}

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        mark = builder.snapshot()
        found = _visit(builder, node, args)
        origins.update((added, node) for added in builder.nodes_since(mark))
        return found

    return rebuild(graph, visit, builder), origins


class _Expander(Builder):
    """A builder in which composite calls run their function instead of becoming a node."""

    def __init__(self, name: str, reserved: Iterable[str], kept: Set[str]) -> None:
        super().__init__(name, reserved)
        self.kept = kept

    def is_expanded(self, op: Op | None) -> bool:
        """True for a composite that is not kept."""
        return op is not None and op.kind is Kind.COMPOSITE and op.name not in self.kept

    def handle(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Record the call, or what it stands for."""
        if self.is_expanded(op):
            return op.rule.function(TABLE, *inputs, **attributes)
        return super().handle(op, inputs, attributes)


def _visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
    assert isinstance(builder, _Expander)
    op = node.op
    if op is None or not builder.is_expanded(op):
        return keep(builder, node, args)
    mark = builder.snapshot()
    operands = tuple(as_operand(builder, argument) for argument in args)
    result = builder.handle(op, operands, dict(node.attributes))
    if not isinstance(result, Value) or not types_agree(result.type, node.type):
        raise InternalError(f"{op.name}: the row infers {node.type}, its function gives {result!r}")
    return builder.rename_last(node.name) if builder.is_last(mark, result.node) else result
