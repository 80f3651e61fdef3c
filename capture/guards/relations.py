"""Relations between sizes: what a region with symbolic sizes relies on beyond single tensors.

A `Relation` compares two integer expressions (`core.types.symint`) whose symbols are sizes of
tensors or Python ints. It is the expected value of a RELATION guard: readable as Python text, and
lowered to a postfix program that the C evaluator runs with overflow checks.

Made by `capture.tensors.sizes`.
"""

import enum
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dynajit.capture.places.sources import Source
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Number, SymInt

COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

#: The C evaluator's stack; an expression that needs more is not guarded as a relation.
STACK: Final = 32
_INT64: Final = 1 << 63


class Operation(enum.IntEnum):
    """Steps of a program; same numbers in `native/guards.h`."""

    CONSTANT = 0
    TERM = 1
    ADD = 2
    MULTIPLY = 3
    FLOORDIV = 4
    MOD = 5
    MIN = 6
    MAX = 7


_OPERATIONS: Final = {
    "floordiv": Operation.FLOORDIV, "mod": Operation.MOD,
    "min": Operation.MIN, "max": Operation.MAX,
}  # fmt: skip

Program = tuple[tuple[Operation, int], ...]


@record
class Term:
    """Where a symbol is found: the size of dimension `dim` of a tensor, or (None) an int.

    Args:
        name: the symbol.
        source: the tensor or the int.
        dim: see above.
    """

    name: str
    source: Source
    dim: int | None

    @property
    def text(self) -> str:
        """Python text, such as `x.shape[0]`."""
        place = self.source.expression()
        return place if self.dim is None else f"{place}.shape[{self.dim}]"

    def mapped(self, change: Callable[[Source], Source]) -> "Term":
        """The term with another source."""
        return replace(self, source=change(self.source))


@record
class Relation:
    """`left comparison right`.

    Args:
        comparison: one of `COMPARISONS`.
        left, right: expressions over the terms' names.
        terms: at least one.
    """

    comparison: str
    left: Number
    right: Number
    terms: tuple[Term, ...]

    @property
    def is_about_sizes(self) -> bool:
        """True if a term is the size of a tensor."""
        return any(term.dim is not None for term in self.terms)

    def text(self) -> str:
        """The condition as Python text."""
        return f"{self._side(self.left)} {self.comparison} {self._side(self.right)}"

    def _side(self, value: Number) -> str:
        return text_of(value, {term.name: term.text for term in self.terms})

    def values_text(self, numbers: Sequence[int | None]) -> str:
        """Both sides with numbers for the terms, such as `8 == 9`."""
        if None in numbers:
            return "a size that does not exist"
        known = dict(zip((term.name for term in self.terms), numbers, strict=True))
        sides = [symint.substitute(side, known) for side in (self.left, self.right)]  # type: ignore[arg-type]
        return f"{sides[0]} {self.comparison} {sides[1]}"

    def mapped(self, change: Callable[[Source], Source]) -> "Relation":
        """The relation with other sources."""
        return replace(self, terms=tuple(term.mapped(change) for term in self.terms))

    def program(self) -> Program:
        """The postfix program that leaves both sides on the stack."""
        places = {term.name: place for place, term in enumerate(self.terms)}
        return (*_steps(self.left, places), *_steps(self.right, places))

    @property
    def is_checkable(self) -> bool:
        """True if the C evaluator can run the program: small enough, and of 64-bit numbers."""
        depth = 0
        for operation, operand in self.program():
            depth += 1 if operation <= Operation.TERM else -1
            if depth > STACK or not -_INT64 <= operand < _INT64:
                return False
        return True


def text_of(value: Number, names: Mapping[str, str]) -> str:
    """An expression as Python text with these texts for the symbols, without outer parentheses."""
    text = without_outer_parentheses(symint.python(value))
    if not names:
        return text
    return re.sub(
        r"\b(" + "|".join(map(re.escape, names)) + r")\b", lambda match: names[match[0]], text
    )


def without_outer_parentheses(text: str) -> str:
    """A text whose first parenthesis is closed by its last character, without these two."""
    if not text.startswith("("):
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


def _steps(value: Number, places: Mapping[str, int]) -> Iterator[tuple[Operation, int]]:
    if not isinstance(value, SymInt):
        yield Operation.CONSTANT, value
        return
    for count, (monomial, factor) in enumerate(value.terms):
        yield Operation.CONSTANT, factor
        for atom in monomial:
            yield from _atom_steps(atom, places)
            yield Operation.MULTIPLY, 0
        if count:
            yield Operation.ADD, 0


def _atom_steps(atom: symint.Atom, places: Mapping[str, int]) -> Iterator[tuple[Operation, int]]:
    if atom.kind == "symbol":
        yield Operation.TERM, places[atom.name]
        return
    for operand in atom.operands:
        yield from _steps(operand, places)
    yield _OPERATIONS[atom.kind], 0
