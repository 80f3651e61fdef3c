"""Graphs as text: runnable Python, and a table.

`print_graph` gives a module that holds one function: executed, it calls the rows in the graph's
order on whatever operands it is given. Comments say the type of each value and the user's line.
Constants too large to print are read from a dict named `constants` (`large_constants`), rows that
are not in the table (operators of the program's own, loops) from one named `rows` (`own_rows`). The
graph of a derivative that a user wrote (`ir.written_derivative`), or of a turn of a loop
(`ir.loops`), is a function in front of the other; loops are read from a dict named `loops`, and
programs of scalars (`ir.nests`) from one named `nests`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np

from dynajit.core.location import Location
from dynajit.core.quoting import as_python_name, on_a_line
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import Shape
from dynajit.ir.nests import Nest
from dynajit.ir.node import Argument, Node, NodeKind, literal_key
from dynajit.ir.sizes import symbol_places
from dynajit.ops.table.op_table import TABLE, Op

# Constants up to this many elements are written out; a longer line is not read by anyone.
PRINTED_ELEMENTS: Final = 16

# Names that mean something else in the printed module: no node may be called so.
RESERVED: Final = frozenset(
    {"ops", "constants", "rows", "array", "inf", "nan", "Device", "complex", "derivative", "loops",
     "nests"}
) | {dtype.name for dtype in dtypes.ALL} | {"bool_"}  # fmt: skip


class Printable(Protocol):
    """What is printed: `ir.graph.Graph` (which imports this file, hence the protocol)."""

    @property
    def name(self) -> str:
        """What is compiled."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes in order."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The placeholders, in order."""

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """Results."""


def print_graph(graph: Printable) -> str:
    """The graph as a Python module, without a trailing newline."""
    inner = [inner for node in graph.nodes for inner in _inner_functions(node)]
    return "\n".join(
        [*_imports(graph), *inner, *_function(graph, as_python_name(graph.name, RESERVED))]
    )


def _function(graph: Printable, name: str) -> Iterator[str]:
    """The lines of the function that a graph is."""
    inputs = [node for node in graph.nodes if node.kind is NodeKind.PLACEHOLDER]
    body = [_statement(node) for node in graph.nodes if node.kind is not NodeKind.PLACEHOLDER]
    results = "".join(f"{_argument(output)}, " for output in graph.outputs)
    yield f"def {name}("
    yield from (f"    {node.name},{_comment(node)}" for node in inputs)
    yield "):"
    yield from (f"    {line}" for line in (*_sizes(graph, inputs), *body))
    yield f"    return ({results.rstrip() if len(graph.outputs) == 1 else results[:-2]})"


def _inner_graph(value: Any) -> Printable | None:
    """The graph of an attribute that is a derivative or a loop."""
    found: Printable | None = getattr(value, "graph", None) or _body(value)
    return found


def _body(value: Any) -> Printable | None:
    """The graph of a turn, of an attribute that is a loop."""
    found: Printable | None = getattr(value, "body", None)
    return found


def _inner_functions(node: Node) -> Iterator[str]:
    """The lines of the functions that the attributes of a node are, innermost first."""
    for key, value in node.attributes.items():
        graph = _inner_graph(value)
        if graph is not None:
            yield from (line for inner in graph.nodes for line in _inner_functions(inner))
            is_derivative = _body(value) is None
            name = f"{node.name}_backward" if is_derivative else f"{loop_name(node, key)}_body"
            yield from (*_function(graph, name), "", "")


def loop_name(node: Node, key: str) -> str:
    """What an attribute that is a loop is read by from the dict `loops`."""
    return node.name if key == "loop" else f"{node.name}_{key}"


def print_tabular(graph: Printable, strides: Mapping[Node, Shape | None] | None = None) -> str:
    """One row per node: kind, name, op, arguments, attributes, type and the user's line.

    Args:
        strides: of values, in elements, for a column of their own; None: there is none.
    """
    rows = [("kind", "name", "op", "arguments", "attributes", "type", "strides", "line")]
    for node in graph.nodes:
        laid = None if strides is None else strides.get(node)
        rows.append(
            (
                node.kind.value,
                node.name,
                node.op.name if node.op else "",
                ", ".join(_argument(argument) for argument in node.args),
                ", ".join(_attributes(node)),
                str(node.type),
                "" if laid is None else print_literal(laid),
                _line(node.location),
            )
        )
    results = ", ".join(_argument(output) for output in graph.outputs)
    rows.append(("output", "", "", results, "", "", "", ""))
    if strides is None:
        rows = [(*row[:6], row[7]) for row in rows]  # type: ignore[misc]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rows.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def large_constants(graph: Printable) -> dict[str, np.ndarray]:
    """The `constants` that the printed module needs: name -> array."""
    return {
        node.name: node.value
        for node in graph.nodes
        if node.kind is NodeKind.CONSTANT and not _is_printed(node.value)
    }


def own_rows(graph: Printable) -> dict[str, Op]:
    """The `rows` that the printed module needs: name of the node -> its row."""
    return {node.name: node.op for node in graph.nodes if node.op and not _is_in_table(node.op)}


def _is_in_table(op: Op) -> bool:
    return op.name in TABLE and TABLE[op.name] is op


def print_literal(value: Any) -> str:
    """A literal argument or an attribute as Python text."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    if isinstance(value, DType):
        return "bool_" if value is dtypes.bool_ else value.name
    if isinstance(value, Device):
        index = "" if value.index is None else f", {value.index}"
        return f"Device({value.type!r}{index})"
    if isinstance(value, (tuple, list)):
        items = ", ".join(print_literal(item) for item in value)
        return f"({items},)" if len(value) == 1 else f"({items})"
    return repr(value)


def _sizes(graph: Printable, inputs: list[Node]) -> Iterator[str]:
    """The lines that name the symbolic sizes."""
    for name, (position, dim) in symbol_places(graph).items():
        if dim is not None:
            yield f"{name} = {inputs[position].name}.shape[{dim}]"


def _statement(node: Node) -> str:
    if node.kind is NodeKind.CONSTANT:
        return f"{node.name} = {_constant(node)}{_comment(node)}"
    op = "None" if node.op is None else f"ops.{node.op.name}"
    if node.op is not None and not _is_in_table(node.op):
        op = f"rows[{node.name!r}]"
    arguments = ", ".join([*(_argument(argument) for argument in node.args), *_attributes(node)])
    return f"{node.name} = {op}({arguments}){_comment(node)}"


def _constant(node: Node) -> str:
    if not _is_printed(node.value):
        return f"constants[{node.name!r}]"
    dtype = node.value.dtype
    if dtype == dtypes.bfloat16.numpy:
        return f"array({node.value.astype(np.float32).tolist()}, dtype={dtype.name!r})"
    return f"array({node.value.tolist()}, dtype={dtype.name!r})"


def _is_printed(array: Any) -> bool:
    """True for a small array; broken graphs are printed, too, so anything may come."""
    return isinstance(array, np.ndarray) and 0 < array.size <= PRINTED_ELEMENTS


def _attributes(node: Node) -> list[str]:
    return [f"{key}={_attribute(node, key, value)}" for key, value in _printed_attributes(node)]


def _attribute(node: Node, key: str, value: Any) -> str:
    graph = _inner_graph(value)
    if isinstance(value, Nest):
        return f"nests[{node.name!r}]"
    if graph is None:
        return print_literal(value)
    if _body(value) is not None:
        return f"loops[{loop_name(node, key)!r}]"
    return f"derivative({node.name}_backward, {len(graph.outputs)}, {value.reads_result})"


def _printed_attributes(node: Node) -> list[tuple[str, Any]]:
    """The attributes that differ from the row's default."""
    defaults = node.op.attributes if node.op else {}
    return [
        (name, value)
        for name, value in node.attributes.items()
        if name not in defaults or literal_key(defaults[name]) != literal_key(value)
    ]


def _argument(argument: Argument) -> str:
    return argument.name if isinstance(argument, Node) else print_literal(argument)


def _comment(node: Node) -> str:
    line = _line(node.location)
    return f"  # {node.type}" + (f"  {line}" if line else "")


def _line(location: Location | None) -> str:
    return on_a_line(f"{os.path.basename(location.file)}:{location.line}") if location else ""


def _imports(graph: Printable) -> list[str]:
    """The import lines that the module needs, and a blank line."""
    values = list(_values(graph))
    found = {_number_name(value) for value in values} - {""}
    used = sorted({print_literal(value) for value in values if isinstance(value, DType)})
    lines = []
    if found:
        lines.append(f"from math import {', '.join(sorted(found))}")
    if any(node.kind is NodeKind.CONSTANT and _is_printed(node.value) for node in graph.nodes):
        lines.append("from numpy import array")
    if any(isinstance(value, Device) for value in values):
        lines.append("from dynajit.core.types.device import Device")
    if used:
        lines.append(f"from dynajit.core.types.dtypes import {', '.join(used)}")
    if any(_inner_graph(value) and _body(value) is None for value in values):
        lines.append("from dynajit.ir.written_derivative import derivative")
    if any(node.op is not None for node in graph.nodes):
        lines.append("from dynajit.ops import TABLE as ops")
    return [*lines, ""] if lines else []


def _values(graph: Printable) -> Iterator[Any]:
    """Every literal and attribute that is printed, taken out of tuples, constants included."""
    for node in graph.nodes:
        yield from _leaves(node.args)
        yield from _leaves(value for _, value in _printed_attributes(node))
        for value in node.attributes.values():
            inner = _inner_graph(value)
            if inner is not None:
                yield from _values(inner)
        if node.kind is NodeKind.CONSTANT and _is_printed(node.value):
            yield from node.value.ravel().tolist()
    yield from _leaves(graph.outputs)


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _leaves(value)
        elif isinstance(value, complex):
            yield from (value.real, value.imag)
        else:
            yield value


def _number_name(value: Any) -> str:
    """`inf` or `nan` for a float that prints so."""
    return repr(abs(value)) if isinstance(value, float) and not np.isfinite(value) else ""
