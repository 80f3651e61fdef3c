"""A graph run node by node.

`run` works on raw arrays (the NumPy backend, constant results, tests); `replay` calls the rows on
any operands that dispatch understands, such as eager tensors under the tape (double backward) or
values of another builder.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import InternalError
from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ir import sizes
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.passes.expand_composites import expand_composites
from dynajit.ops.evaluate import array_form, type_of_operand
from dynajit.ops.evaluate import evaluate as evaluate_row
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE, Kind, Op


def run(
    graph: Graph,
    inputs: Sequence[Any],
    evaluate: Callable[..., Any] = evaluate_row,
) -> tuple[Any, ...]:
    """The outputs of `graph` for raw arrays.

    Symbolic sizes in attributes become those of the inputs.

    Args:
        graph: any graph; composites are expanded first, or where they stay whole
            (`Composite.stays`) when their operands are known.
        inputs: an array or a number per placeholder, in order.
        evaluate: `evaluate(op, args, attributes)` -> array, for one row that is no composite.

    Returns:
        One array per output; literal outputs as they are.

    Raises:
        InternalError: the number of inputs is wrong.
    """
    return run_again(Walk.of_rows(graph), inputs, evaluate)


@record(eq=False)
class Walk:
    """What running a graph needs to know of it, for any number of runs.

    Args:
        graph: the graph.
        places: where inputs have the values of its symbols.
        uses: for each node the values that nothing needs after it.
    """

    graph: Graph
    places: Mapping[str, sizes.Place]
    uses: Mapping[Node, Sequence[Node]]

    @classmethod
    def of(cls, graph: Graph) -> "Walk":
        """The walk over a graph as it is."""
        return cls(graph, sizes.symbol_places(graph), last_uses(graph))

    @classmethod
    def of_rows(cls, graph: Graph) -> "Walk":
        """The walk over a graph whose composites are expanded, as `run` does."""
        if any(node.op is not None and node.op.kind is Kind.COMPOSITE for node in graph.nodes):
            graph = expand_composites(graph)
        return cls.of(graph)


def run_again(
    walk: Walk, inputs: Sequence[Any], evaluate: Callable[..., Any] = evaluate_row
) -> tuple[Any, ...]:
    """`run` of a graph that was looked at before, see `Walk.of_rows`."""

    def run_row(op: Op, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if op.kind is not Kind.COMPOSITE:
            return evaluate(op, args, named)
        return _composite(op, args, named, evaluate)

    return _walk(walk, inputs, run_row, lambda array: array)


def _composite(
    op: Op, args: tuple[Any, ...], named: dict[str, Any], evaluate: Callable[..., Any]
) -> Any:
    """The result of a composite for arrays: by its array function, else by its rows."""
    found = array_form(op, args, named) if all(isinstance(x, np.ndarray) for x in args) else None
    if found is not None and found is not NotImplemented:
        return found
    types = tuple(map(_type_of, args))
    walk = _rows_of(op, types, tuple(named.items()))
    return run_again(walk, [x for x in args if x is not None], evaluate)[0]


def _type_of(operand: Any) -> ValueType | None:
    """`type_of_operand`, with the array's device."""
    found = type_of_operand(operand)
    if not gpu.is_gpu_array(operand):
        return found
    assert isinstance(found, TensorType)
    return replace(found, device=gpu.device_of(operand))


@functools.lru_cache(maxsize=256)
def _rows_of(
    op: Op, types: tuple[ValueType | None, ...], named: tuple[tuple[str, Any], ...]
) -> Walk:
    """What a composite stands for, of operands with known sizes: rows, and other composites."""
    builder = Builder(op.name)
    operands = [
        None if type is None else builder.placeholder(f"x{i}", type) for i, type in enumerate(types)
    ]
    with dispatch.recording(builder.handle):
        result = op.rule.function(TABLE, *operands, **dict(named))
    return Walk.of(builder.finish([result]))


def replay(
    graph: Graph, operands: Sequence[Any], constant: Callable[[Any], Any] = lambda array: array
) -> tuple[Any, ...]:
    """The outputs of `graph` for operands of any kind, by calling its rows.

    Args:
        graph: any graph; composites are called as one row.
        operands: one per placeholder, in order.
        constant: makes an operand of a constant's array (`dynajit.from_numpy` for eager tensors).

    Raises:
        InternalError: the number of operands is wrong.
    """
    return _walk(Walk.of(graph), operands, lambda op, args, named: op(*args, **named), constant)


def _walk(
    walk: Walk,
    inputs: Sequence[Any],
    evaluate: Callable[..., Any],
    constant: Callable[[Any], Any],
) -> tuple[Any, ...]:
    graph = walk.graph
    placeholders = graph.inputs
    if len(inputs) != len(placeholders):
        raise InternalError(f"{graph.name} has {len(placeholders)} inputs; {len(inputs)} given")
    known: dict[Node, Any] = dict(zip(placeholders, inputs, strict=True))
    numbers = sizes.bind(walk.places, inputs)
    for node in graph.nodes:
        if node.kind is NodeKind.CONSTANT:
            known[node] = constant(node.value)
        elif node.kind is NodeKind.CALL:
            args = tuple(known[a] if isinstance(a, Node) else a for a in node.args)
            known[node] = evaluate(node.op, args, sizes.attributes(node.attributes, numbers))
        for argument in walk.uses.get(node, ()):
            del known[argument]
    return tuple(known[o] if isinstance(o, Node) else o for o in graph.outputs)


def last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """For each node the values that nothing needs after it: their memory is free from there."""
    last = {a: node for node in graph.nodes for a in node.args if isinstance(a, Node)}
    for output in graph.outputs:
        if isinstance(output, Node):
            last.pop(output, None)
    freed: dict[Node, list[Node]] = {}
    for argument, node in last.items():
        freed.setdefault(node, []).append(argument)
    return freed
