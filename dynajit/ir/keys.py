"""A text that tells graphs apart: equal texts mean graphs of which every stage makes the same.

Contract: the text holds everything that passes, derivatives, partition and code generation read of
a graph: kinds, names, types, rows, arguments, attributes, contents of constants, and the range of
every symbol. User lines are left out: they reach reports only, which ask the graph at hand.
`Unkeyed` is raised for what cannot be told apart by its text.
"""

import hashlib
import marshal
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Atom, SymInt
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ir.graph import Graph
from dynajit.ir.loops import Listed, Loop, Steps
from dynajit.ir.nests import Nest
from dynajit.ir.node import Node
from dynajit.ir.written_derivative import WrittenDerivative
from dynajit.ops.table.op_table import Op, is_named


class Unkeyed(Exception):
    """A graph holds a value without a text; used only between `graph_text` and its callers."""


#: Values that `repr` tells apart: 1 from True and 1.0, 0.0 from -0.0. All NaN count as one.
_PLAIN: Final = frozenset({type(None), bool, int, float, complex, str})


def graph_text(graph: Graph) -> str:
    """The text of a graph.

    Raises:
        Unkeyed: an attribute, a literal or a row is not known here.
    """
    printer = _Printer()
    lines = [repr(graph.name)]
    for number, node in enumerate(graph.nodes):
        lines.append(printer.node(node))
        printer.numbers[node] = number
    lines.append(printer.items(graph.outputs))
    return "\n".join(lines)


class _Printer:
    """Texts of the parts of one graph. Mutable: remembers nodes, types and sizes."""

    def __init__(self) -> None:
        self.numbers: dict[Node, int] = {}
        self.types: dict[ValueType, str] = {}
        self.sizes: dict[SymInt, str] = {}
        self.loops: dict[int, int] = {}

    def node(self, node: Node) -> str:
        """A node: its arguments are the numbers of earlier ones."""
        parts = [node.kind.name, node.name, self.type(node.type)]
        if node.op is not None:
            parts += [_row(node.op), self.items(node.args)]
            parts += [f"{name}={self.value(value)}" for name, value in node.attributes.items()]
        if node.value is not None:
            parts.append(_contents(node.value))
        return " ".join(parts)

    def type(self, type: ValueType) -> str:
        """A type with its layout and its place."""
        found = self.types.get(type)
        if found is None:
            found = str(type)
            if isinstance(type, TensorType):
                shape = self.items(type.shape)
                strides = None if type.strides is None else self.items(type.strides)
                found = f"{type.dtype.name}{shape}{strides}{type.device}"
            self.types[type] = found
        return found

    def items(self, values: Iterable[Any]) -> str:
        """Several values."""
        return f"({','.join([self.value(value) for value in values])})"

    def value(self, value: Any) -> str:
        """An argument, an attribute or a size."""
        kind = type(value)
        if kind is Node:
            return f"%{self.numbers[value]}"
        if kind in _PLAIN:
            return repr(value)
        if kind is tuple or kind is list:
            return kind.__name__ + self.items(value)
        if kind is SymInt:
            return self.size(value)
        if kind is DType:
            return f"dtype {value.name}"
        if kind is Device:
            return f"device {value}"
        if kind is WrittenDerivative:
            return f"derivative {value.reads_result} [{graph_text(value.graph)}]"
        if kind is Steps:
            return f"steps {value.start} {value.step}"
        if kind is Listed:
            return f"listed {_digest(value.values)}"
        if kind is Nest:
            return f"nest [{value.text}]"
        if kind is Loop:
            return self.loop(value)
        raise Unkeyed(f"a {kind.__name__} has no text")

    def loop(self, loop: Loop) -> str:
        """A loop, and which it keeps more of; numbered as they come."""
        counts = loop.carried, loop.collected, loop.stacked
        facts = self.items(
            (*counts, loop.tests, loop.backwards, loop.unset, loop.repeats, loop.active, loop.unit)
        )
        number = self.loops.setdefault(id(loop), len(self.loops))
        origin = None if loop.origin is None else self.loops.get(id(loop.origin))
        numbers = self.items(loop.numbers)
        return f"loop {number} {origin} {numbers} {facts} [{graph_text(loop.body)}]"

    def size(self, size: SymInt) -> str:
        """An expression with the ranges of everything in it."""
        found = self.sizes.get(size)
        if found is None:
            terms = (
                f"{factor}*{'*'.join([self.atom(atom) for atom in monomial])}"
                for monomial, factor in size.terms
            )
            found = self.sizes[size] = f"<{'+'.join(terms)}>"
        return found

    def atom(self, atom: Atom) -> str:
        """A factor of an expression."""
        below = None if atom.below is None else self.size(atom.below)
        return f"{atom.kind} {atom.name}{self.items(atom.operands)}[{atom.low},{atom.high},{below}]"


def _row(op: Op) -> str:
    """The name of a row: names stand for rows that are in the table."""
    if not is_named(op):
        raise Unkeyed(f"{op.name} is not in the table")
    return op.name


#: A format of `marshal` in which equal numbers of one class are equal bytes.
_WITHOUT_REFERENCES: Final = 2


def _digest(numbers: tuple[int | float, ...]) -> str:
    """Many numbers, by their classes and bits."""
    return hashlib.sha256(marshal.dumps(numbers, _WITHOUT_REFERENCES)).hexdigest()


def _contents(array: Any) -> str:
    """An array by its bytes; the layout counts, since NumPy's sums depend on it."""
    if type(array) is not np.ndarray or array.dtype.hasobject:
        raise Unkeyed("a constant is not a plain array")
    digest = hashlib.sha256(array.tobytes()).hexdigest()
    return f"{array.dtype.name}{array.shape}{array.strides}{digest}"
