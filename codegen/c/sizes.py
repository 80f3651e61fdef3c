"""Symbolic sizes of a program: where they are read, and the C function that computes the rest.

Contract: `symbols_of(graph)` names every symbol with the argument and dimension that shows it, in
the order in which the runtime stores them behind the scalar arguments. `print_measure` is the C
function `measure(symbols, threads, table)`, which fills `table` with the bytes of the workspace,
the elements of all values, the dims of the tensor arguments and the dims of the outputs; the
runtime checks the former and allocates the latter.
"""

from collections.abc import Iterator, Mapping, Sequence

from dynajit.codegen.c.expressions import INDENT
from dynajit.codegen.c.rows import TEAM
from dynajit.codegen.plan.memory import Layout
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Bound, Number, SymInt
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Graph, symbol_places
from dynajit.ir.node import Node
from dynajit.ir.sizes import node_sizes


@record
class Symbol:
    """A size that is known when the program runs.

    Args:
        name: in the graph and in C.
        argument: position of the input that shows it.
        dim: its dimension; -1 if the input is the number itself.
        low, high: the range for which code was generated.
    """

    name: str
    argument: int
    dim: int
    low: int
    high: int


def symbols_of(graph: Graph) -> tuple[Symbol, ...]:
    """The symbols of a graph, by name; empty if every size is known."""
    places = symbol_places(graph)
    ranges: dict[str, tuple[Bound, Bound]] = {}
    for node in graph.nodes:
        for size in node_sizes(node):
            ranges.update(_ranges(size))
    found = []
    for name in sorted(ranges):
        argument, dim = places[name]
        low, high = ranges[name]
        least, most = -(1 << 63) if low is None else low, (1 << 63) - 1 if high is None else high
        found.append(Symbol(name, argument, -1 if dim is None else dim, least, most))
    return tuple(found)


def _ranges(size: Number) -> Iterator[tuple[str, tuple[Bound, Bound]]]:
    """(name, range) of the symbols in an expression."""
    if isinstance(size, SymInt):
        for monomial, _ in size.terms:
            for atom in monomial:
                if atom.kind == "symbol":
                    yield atom.name, (atom.low, atom.high)
                for operand in atom.operands:
                    yield from _ranges(operand)


def define_symbols(symbols: Sequence[Symbol], array: str, access: str = "") -> list[str]:
    """Lines of C that name the symbols and the size of the team."""
    lines = [
        f"{INDENT}const int64_t {symbol.name} = {array}{k}]{access};"
        for k, symbol in enumerate(symbols)
    ]
    names = "".join(f"(void){symbol.name}, " for symbol in symbols)
    team = f"{INDENT}const int64_t {symint.c(TEAM)} = threads;"
    return [*lines, team, f"{INDENT}{names}(void)team;"]


def print_measure(
    symbols: Sequence[Symbol], graph: Graph, layout: Layout, arrays: Mapping[Node, TensorType]
) -> str:
    """The C function that computes sizes.

    Args:
        arrays: input or output -> type of the array behind it, where the graph sees another one.
    """
    elements: Number = 0
    for node in graph.nodes:
        elements = elements + (node.type.numel if isinstance(node.type, TensorType) else 1)
    numbers: list[Number] = [layout.workspace_bytes, elements]
    for node in (*graph.inputs, *layout.outputs):
        type = arrays.get(node, node.type)
        if isinstance(type, TensorType):
            numbers.extend(type.shape)
    return "\n".join(
        [
            "void measure(const int64_t *symbols, int threads, int64_t *table) {",
            *define_symbols(symbols, "symbols["),
            *(f"{INDENT}table[{k}] = {symint.c(n)};" for k, n in enumerate(numbers)),
            "}",
        ]
    )
