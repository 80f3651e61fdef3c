"""Run-time numbers as expressions of conditions (`capture.guards.conditions`)."""

from typing import Protocol

from dynajit.capture.guards.conditions import Call, Expression
from dynajit.capture.guards.relations import Term
from dynajit.capture.values.symbolic import Constant, Scalar
from dynajit.core.types.symint import Atom, Number, SymInt

_ATOMS = {"floordiv": "//", "mod": "%", "min": "min", "max": "max"}


class Symbols(Protocol):
    """Who knows what symbols stand for: `capture.tensors.sizes.Sizes`."""

    def origin(self, name: str) -> "Term | Scalar":
        """Where the number of a symbol is found, or the run-time number that it is."""


def expression_of(symbols: Symbols, value: "Scalar | Constant") -> Expression | None:
    """The expression that gives a number, or None: a guard cannot find all that it is made of."""
    if isinstance(value, Constant):
        literal: Expression = value.value
        return literal
    if value.symbolic is not None:
        return expression_of_size(symbols, value.symbolic)
    if value.expression is None:
        is_found = value.source is not None and value.source.is_guardable
        return Term("", value.source, None) if is_found else None
    name, operands = value.expression
    return _call(name, *(expression_of(symbols, operand) for operand in operands))


def expression_of_size(symbols: Symbols, size: Number) -> Expression | None:
    """The same of an integer expression of sizes."""
    if not isinstance(size, SymInt):
        return size
    total: Expression | None = None
    for place, (monomial, factor) in enumerate(size.terms):
        product: Expression | None = None if monomial and factor == 1 else factor
        for position, atom in enumerate(monomial):
            part = _expression_of_atom(symbols, atom)
            product = part if position == 0 and factor == 1 else _call("*", product, part)
        total = product if place == 0 else _call("+", total, product)
    return total


def _expression_of_atom(symbols: Symbols, atom: Atom) -> Expression | None:
    if atom.kind != "symbol":
        parts = (expression_of_size(symbols, operand) for operand in atom.operands)
        return _call(_ATOMS[atom.kind], *parts)
    origin = symbols.origin(atom.name)
    if isinstance(origin, Scalar):
        return expression_of(symbols, origin)
    return Term("", origin.source, origin.dim) if origin.source.is_guardable else None


def _call(name: str, *operands: Expression | None) -> Expression | None:
    found = tuple(operand for operand in operands if operand is not None)
    return Call(name, found) if len(found) == len(operands) else None
