"""Symbolic sizes of a graph: where each is found at run time, and what it makes of the nodes.

Contract: a symbol of a graph is known as soon as the inputs are. It is the size of one dimension of
one tensor input, or an INTEGER placeholder that has the symbol's name. `symbol_places` says which;
`bind` reads the numbers; `known` puts them into shapes and attributes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from dynajit.core.types import symint
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import SymInt
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.node import Node

Place: TypeAlias = tuple[int, int | None]


class Nodes(Protocol):
    """What is read of a graph: `ir.graph.Graph` (which imports this file, hence the protocol)."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, in order."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The placeholders, in order."""


def symbol_places(graph: Nodes) -> dict[str, Place]:
    """For each symbol that an input shows: (position of the input, dimension or None).

    A dimension is preferred to a number, the first to later ones. The dimension is None where
    the input is an INTEGER placeholder that has the symbol's name.
    """
    places: dict[str, Place] = {}
    numbers: dict[str, Place] = {}
    for position, node in enumerate(graph.inputs):
        if isinstance(node.type, TensorType):
            for dim, size in enumerate(node.type.shape):
                name = symint.name_of(size)
                if name is not None:
                    places.setdefault(name, (position, dim))
        elif node.type == ScalarType(Category.INTEGER):
            numbers[node.name] = (position, None)
    return {**{name: numbers[name] for name in symbols(graph) & numbers.keys()}, **places}


def symbols(graph: Nodes) -> frozenset[str]:
    """The names of all symbols in the types and attributes of the nodes."""
    found: set[str] = set()
    for node in graph.nodes:
        for value in node_sizes(node):
            found |= symint.symbols(value)
    return frozenset(found)


def node_sizes(node: Node) -> Iterator[SymInt]:
    """Every expression in the type and the attributes of a node."""
    if isinstance(node.type, TensorType):
        yield from expressions(node.type.shape)
        yield from expressions(node.type.strides)
    for value in node.attributes.values():
        yield from expressions(value)


def bind(places: Mapping[str, Place], inputs: Sequence[Any]) -> dict[str, int]:
    """The number of each symbol, from arrays (or whatever has a shape) and Python numbers."""
    return {
        name: inputs[position] if dim is None else inputs[position].shape[dim]
        for name, (position, dim) in places.items()
    }


def known(value: Any, numbers: Mapping[str, int]) -> Any:
    """An attribute or a shape with numbers for its symbols; other values as they are."""
    if isinstance(value, SymInt):
        return symint.substitute(value, numbers)
    if isinstance(value, tuple):
        return tuple([known(entry, numbers) for entry in value])
    return value


def attributes(named: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[str, Any]:
    """Attributes of a node with numbers for their symbols."""
    if not numbers:
        return dict(named)
    return {name: known(value, numbers) for name, value in named.items()}


def expressions(value: Any) -> Iterator[SymInt]:
    """Every expression in an attribute or a shape."""
    if isinstance(value, SymInt):
        yield value
    elif isinstance(value, tuple):
        for entry in value:
            yield from expressions(entry)
