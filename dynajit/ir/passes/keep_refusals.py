"""Have rows that may refuse look at all their operands, whoever reads the result."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.node import Argument, Node, named_arguments
from dynajit.ir.rebuild import as_operand, keep, rebuild
from dynajit.ir.refusals import may_refuse
from dynajit.ops.table.op_table import TABLE, Indices, Kind

#: Kinds of rows that are computed at all their elements and read all of their operands.
_COMPUTED: Final = (Kind.EXTERN, Kind.SCATTER, Kind.COMPOSITE, Kind.RANDOM)


def keep_refusals(graph: Graph) -> Graph:
    """The graph in which indices and divisors are checked that generated code would not look at.

    A kernel computes the elements that somebody reads: of `x[i][:1]` one, and of what the others
    refuse nothing would be known. Such a row's indices, or its divisor, are added to a zero that
    depends on all of them.

    Requires: no later pass drops a reader.
    Ensures: every call that may refuse has a reader, or a check, that looks at all its elements;
    except where it has none.
    """
    risky = [node for node in graph.calls if can_be_checked(node)]
    if not risky:
        return graph
    whole = _wholly_computed(graph)
    partial = {node for node in risky if node not in whole}
    if not partial:
        return graph

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        if node not in partial:
            return keep(builder, node, args)
        return keep(builder, node, (args[0], _checked(builder, node, args).node, *args[2:]))

    return rebuild(graph, visit)


def can_be_checked(node: Node) -> bool:
    """True for a node that may refuse its operand 1, which can be looked at by itself."""
    op = node.op
    is_known = op is not None and (op.indices or (op.kind is Kind.POINTWISE and op.rule.divides))
    return bool(is_known) and may_refuse(node) and isinstance(node.args[1], Node)


def _wholly_computed(graph: Graph) -> set[Node]:
    """The values of which every element is computed for certain."""
    found = {output for output in graph.outputs if isinstance(output, Node)}
    for node in reversed(graph.nodes):
        if node.op is None:
            continue
        if node.op.kind in _COMPUTED or (node.op.kind is Kind.REDUCTION and not _is_single(node)):
            found.add(node)
        if node in found:
            found.update(_wholly_read(node))
    return found


def _is_single(node: Node) -> bool:
    """True for a reduction of one element per result, which is computed where it is read."""
    given = node.args[0].type if isinstance(node.args[0], Node) else None
    assert isinstance(given, TensorType)
    return all(given.shape[d] == 1 for d in node.attributes["dim"])


def _wholly_read(node: Node) -> list[Node]:
    """The operands of which a node reads every element, if it is computed at all of its own."""
    op = node.op
    assert op is not None
    is_movement = op.kind is Kind.MOVEMENT
    return [
        argument
        for name, argument in named_arguments(node)
        if isinstance(argument, Node)
        and (not is_movement or name in op.rule.shown or (op.indices and name == op.inputs[1]))
    ]


# ---------------------------------------------------------------------------------------------
# checks: bool tensors that are False everywhere, and look at all of an operand


def _checked(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Value:
    """Operand 1, plus a zero for which all of it is looked at."""
    operand = as_operand(builder, args[1])
    zero = TABLE.cast(false_for(builder, node, args), dtype=operand.dtype)
    result: Value = TABLE.add(operand, zero)
    return result


def false_for(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Value:
    """A bool without dims, False, for which all of operand 1 of a node is looked at."""
    assert node.op is not None
    operands = (as_operand(builder, argument) for argument in args[:2])
    check = _divided if node.op.indices is None else _CHECKS[node.op.indices]
    looked: Value = check(node, *operands)
    dims = tuple(range(len(looked.shape)))
    return TABLE.any(looked, dim=dims, keepdim=False) if dims else looked


def _selected(node: Node, x: Any, index: Any) -> Any:
    dim = node.attributes["dim"]
    return TABLE.index_select(_nothing(x, (dim,)), index, dim=dim)


def _gathered(node: Node, x: Any, index: Any) -> Any:
    return TABLE.gather(_nothing(x, tuple(range(len(x.shape)))), index, dim=node.attributes["dim"])


def _indexed(node: Node, x: Any, indices: Any) -> Any:
    dims = node.attributes["dims"]
    return TABLE.index(_nothing(x, dims), indices, dims=dims)


def _nothing(x: Value, dims: tuple[int, ...]) -> Any:
    """False, as long as x in some dims, of size 1 in others."""
    shape = tuple(size if d in dims else 1 for d, size in enumerate(x.shape))
    return TABLE.full(False, shape=shape, dtype=dtypes.bool_, device=x.device)


def _divided(node: Node, x: Any, divisor: Any) -> Any:
    return TABLE.gt(TABLE.floor_divide(1, divisor), 1)


# What scatters is wholly computed where it has elements; `capture.region.unread_results` asks for
# what has none.
_CHECKS: Final[Mapping[Indices, Callable[[Node, Any, Any], Any]]] = {
    Indices.ALONG: _selected,
    Indices.EACH: _gathered,
    Indices.SEVERAL: _indexed,
}
