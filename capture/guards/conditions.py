"""Conditions on Python numbers: what arithmetic on them gives, or of which class the result is.

A `Condition` is the expected value of a CONDITION guard: readable as Python text, and lowered to a
postfix program of calls that the C evaluator makes. The functions are those of
`capture.values.numbers`, which run no code of the user's, so that any arithmetic of the program
can be asked about, with numbers of any size and with exactly Python's results.

Made by `capture.machine.recording` from run-time numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from dynajit.capture.guards.facts import describe
from dynajit.capture.guards.relations import STACK, Term, without_outer_parentheses
from dynajit.capture.places.sources import Source
from dynajit.capture.values.numbers import FUNCTIONS, call_text
from dynajit.core.records import record

Number: TypeAlias = int | float


@record
class Call:
    """A function of numbers and what it is called with.

    Args:
        name: a key of `capture.values.numbers.FUNCTIONS`.
        operands: expressions.
    """

    name: str
    operands: tuple["Expression", ...]


Expression: TypeAlias = Term | Call | Number

#: Steps of a program: (kind, index of the term or number of operands, constant or function).
Program: TypeAlias = tuple[tuple[int, int, object], ...]
_TERM: Final = 0
_CONSTANT: Final = 1
_CALL: Final = 2


@record
class Condition:
    """An expression of numbers is equal to `outcome`, in its class too; or is of a class.

    Args:
        expression: at least one term is in it.
        outcome: an int, float or bool; a class where `is_class`.
        is_class: only the class of the result, and that it raises nothing, is expected.
    """

    expression: Expression
    outcome: Any
    is_class: bool = False

    @property
    def terms(self) -> tuple[Term, ...]:
        """Where its numbers are found, each once."""
        return tuple(dict.fromkeys(_terms(self.expression)))

    @property
    def is_about_sizes(self) -> bool:
        """True if a term is the size of a tensor."""
        return any(term.dim is not None for term in self.terms)

    @property
    def is_checkable(self) -> bool:
        """True if the C evaluator has room for its program."""
        depth = deepest = 0
        for kind, count, _ in self.program():
            depth += 1 - count if kind == _CALL else 1
            deepest = max(deepest, depth)
        return deepest <= STACK

    def key(self) -> tuple[Any, ...]:
        """What two equal conditions have in common; tells 1 from True and 0.0 from -0.0."""
        return _key(self.expression), _key(self.outcome), self.is_class

    def text(self) -> str:
        """The condition as Python text."""
        said = without_outer_parentheses(_text(self.expression))
        if self.is_class:
            return f"type({said}) is {self.outcome.__name__}"
        if isinstance(self.outcome, bool):
            return said if self.outcome else f"not {_text(self.expression)}"
        return f"{said} == {describe(self.outcome)}"

    def values_text(self, values: Sequence[Any]) -> str:
        """What the expression is for these numbers in the place of its terms, in words."""
        try:
            found = _value(self.expression, dict(zip(self.terms, values, strict=True)))
        except Exception as error:
            return f"it raises {type(error).__name__}"
        shown = type(found).__name__ if self.is_class else describe(found)
        pairs = zip(self.terms, values, strict=True)
        numbers = ", ".join(f"{term.text} = {describe(value)}" for term, value in pairs)
        return f"{shown} ({numbers})"

    def mapped(self, change: Callable[[Source], Source]) -> "Condition":
        """The condition with other sources."""
        return Condition(_mapped(self.expression, change), self.outcome, self.is_class)

    def program(self) -> Program:
        """The postfix program that leaves the result on the stack."""
        return tuple(_steps(self.expression, {term: i for i, term in enumerate(self.terms)}))


def _terms(expression: Expression) -> Iterator[Term]:
    if isinstance(expression, Term):
        yield expression
    elif isinstance(expression, Call):
        for operand in expression.operands:
            yield from _terms(operand)


def _key(expression: Expression) -> Any:
    if isinstance(expression, Call):
        return (expression.name, *map(_key, expression.operands))
    if isinstance(expression, Term):
        return expression
    return type(expression), repr(expression) if type(expression) is float else expression


def _text(expression: Expression) -> str:
    if isinstance(expression, Call):
        return call_text(expression.name, [_text(operand) for operand in expression.operands])
    if isinstance(expression, Term):
        return expression.text
    return describe(expression) if type(expression) is int else repr(expression)


def _value(expression: Expression, values: dict[Term, Any]) -> Any:
    if isinstance(expression, Call):
        operands = [_value(operand, values) for operand in expression.operands]
        return FUNCTIONS[expression.name](*operands)
    return values[expression] if isinstance(expression, Term) else expression


def _mapped(expression: Expression, change: Callable[[Source], Source]) -> Expression:
    if isinstance(expression, Call):
        return Call(
            expression.name, tuple(_mapped(operand, change) for operand in expression.operands)
        )
    return expression.mapped(change) if isinstance(expression, Term) else expression


def _steps(expression: Expression, places: dict[Term, int]) -> Iterator[tuple[int, int, object]]:
    if isinstance(expression, Term):
        yield _TERM, places[expression], None
    elif isinstance(expression, Call):
        for operand in expression.operands:
            yield from _steps(operand, places)
        yield _CALL, len(expression.operands), FUNCTIONS[expression.name]
    else:
        yield _CONSTANT, 0, expression
