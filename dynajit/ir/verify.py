"""The checker of graph invariants: run on every graph after every pass in tests.

Contract: `verify` returns nothing, or raises InternalError that names the node, the rule and the
stage, with the graph printed. It never changes a graph.
"""

import keyword
from collections.abc import Iterator
from typing import Any

import numpy as np

from dynajit.core.errors import DynajitError, InternalError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind, type_of
from dynajit.ir.printing import RESERVED
from dynajit.ir.sizes import symbol_places, symbols
from dynajit.ops.table.op_table import is_named


def verify(graph: Graph, stage: str = "the builder") -> None:
    """Check every invariant of `graph`.

    Args:
        graph: any graph.
        stage: what made it (a pass), for the message.

    Raises:
        InternalError: an invariant is broken.
    """
    for where, rule in broken_rules(graph):
        raise InternalError(f"{stage} made a broken graph: {where}: {rule}\n{graph}")


def broken_rules(graph: Graph) -> Iterator[tuple[str, str]]:
    """(name of the node or output, what is wrong) for every broken invariant, in order."""
    earlier: set[Node] = set()
    names: set[str] = set()
    inputs_over = False
    for node in graph.nodes:
        if node in earlier:
            yield node.name, "the node is in the graph twice"
        if node.name in names:
            yield node.name, "two nodes have this name"
        if node.kind is NodeKind.PLACEHOLDER and inputs_over:
            yield node.name, "a placeholder comes after other nodes"
        inputs_over = inputs_over or node.kind is not NodeKind.PLACEHOLDER
        for rule in _broken_in_node(node, earlier):
            yield node.name, rule
        earlier.add(node)
        names.add(node.name)
    for name in sorted(symbols(graph) - symbol_places(graph).keys()):
        yield name, "no input shows this symbol"
    for position, output in enumerate(graph.outputs):
        if isinstance(output, Node):
            if output not in earlier:
                yield f"output {position}", f"{output.name} is not a node of this graph"
        elif not _is_literal(output):
            yield f"output {position}", f"{output!r} is neither a node nor a number nor None"


def _is_literal(argument: Any) -> bool:
    return argument is None or isinstance(argument, (bool, int, float, complex))


def _broken_in_node(node: Node, earlier: set[Node]) -> Iterator[str]:
    if not node.name.isidentifier() or keyword.iskeyword(node.name) or node.name in RESERVED:
        yield "the name is not a free Python identifier"
    type: Any = node.type
    if not isinstance(type, (TensorType, ScalarType)):
        yield f"the type is {type!r}, not a TensorType or ScalarType"
    elif node.kind is NodeKind.CALL:
        yield from _broken_in_call(node, earlier)
    elif node.op is not None or node.args or node.attributes:
        yield "only a call has an op, arguments and attributes"
    elif node.kind is NodeKind.CONSTANT:
        yield from _broken_in_constant(node)
    elif node.value is not None:
        yield "only a constant has a value"


def _broken_in_constant(node: Node) -> Iterator[str]:
    if not isinstance(node.value, np.ndarray):
        yield f"the value of a constant is a {type(node.value).__name__}, not an array"
        return
    held = TensorType(tuple(node.value.shape), dtypes.from_numpy(node.value.dtype))
    if node.type != held:
        yield f"the type is {node.type}, the value is {held}"


def _broken_in_call(node: Node, earlier: set[Node]) -> Iterator[str]:
    op = node.op
    if op is None or not is_named(op):
        yield f"the op is {op!r}, not a row of the table"
        return
    if node.value is not None:
        yield "only a constant has a value"
    expected = len(op.inputs)
    if len(node.args) < expected - 1 if op.variadic else len(node.args) != expected:
        yield f"{len(node.args)} arguments for the inputs {', '.join(op.inputs)} of {op.name}"
        return
    for argument in node.args:
        if isinstance(argument, Node):
            if argument not in earlier:
                yield f"the argument {argument.name} does not come earlier in this graph"
        elif not _is_literal(argument):
            yield f"the argument {argument!r} is neither a node nor a number nor None"
            return
    if set(node.attributes) != set(op.attributes):
        yield f"the attributes are {sorted(node.attributes)}, {op.name} has {sorted(op.attributes)}"
        return
    yield from _broken_type(node)


def _broken_type(node: Node) -> Iterator[str]:
    assert node.op is not None
    try:
        inferred = node.op.infer(*(type_of(a) for a in node.args), **node.attributes)
    except DynajitError as error:
        yield f"{node.op.name} refuses its operands: {error}"
        return
    if inferred != node.type:
        yield f"the type is {node.type}, {node.op.name} infers {inferred}"
