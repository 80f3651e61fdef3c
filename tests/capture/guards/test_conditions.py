"""Conditions on numbers: text, program, evaluation in C, explanations."""

import itertools
import math
from typing import Any

import pytest

from dynajit.capture import _capture
from dynajit.capture.guards.conditions import Call, Condition, Expression
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.relations import STACK, Term
from dynajit.capture.guards.tree import CompiledGuards, compile_guards
from dynajit.capture.places.sources import Local
from dynajit.capture.values.numbers import CLOSED, FUNCTIONS, OPERATORS

I, J = Term("", Local("i", 0), None), Term("", Local("j", 1), None)
SIZE = Term("", Local("x", 2), 1)
NUMBERS = (0, 1, -1, 3, 2**70, True, 0.0, -0.0, 2.5, -1e308, math.inf, math.nan)


def guards_of(*conditions: Condition) -> CompiledGuards:
    return compile_guards(
        Guard(condition.terms[0].source, Kind.CONDITION, condition) for condition in conditions
    )


def result_of(name: str, *operands: Any) -> Any:
    try:
        return FUNCTIONS[name](*operands)
    except Exception:
        return None


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_evaluated_as_by_python(name: str) -> None:
    asked = Call(name, (I, J))
    for a, b in itertools.product(NUMBERS, NUMBERS):
        if name in ("**", "<<") and type(b) is int and b > 64:
            continue  # no computer has the memory
        found = result_of(name, a, b)
        if found is None:
            continue
        holds = guards_of(Condition(asked, found)).evaluator.check((a, b), None)
        assert holds, (a, name, b)
        is_class = guards_of(Condition(asked, type(found), is_class=True))
        assert is_class.evaluator.check((a, b), None)


def test_values_are_told_apart_by_class_and_sign() -> None:
    asked = Call("*", (I, 1))
    compiled = guards_of(Condition(asked, 0.0))

    accepted = [n for n in (0.0, -0.0, 0, False) if compiled.evaluator.check((n,), None)]
    assert [repr(0.0)] == [repr(n) for n in accepted]
    assert guards_of(Condition(asked, math.nan)).evaluator.check((math.nan,), None)


def test_what_raises_does_not_hold_and_leaves_no_error() -> None:
    compiled = guards_of(Condition(Call("//", (7, I)), int, is_class=True))

    assert [True, False, True] == [compiled.evaluator.check((n,), None) for n in (2, 0, -3)]


@pytest.mark.parametrize("other", ["2", None, [1], 2j])
def test_what_is_no_number_does_not_hold(other: object) -> None:
    compiled = guards_of(Condition(Call("==", (I, I)), True))

    assert compiled.evaluator.check((2,), None)
    assert not compiled.evaluator.check((other,), None)


def test_conditions_are_asked_in_the_order_of_the_program() -> None:
    """`1 << i` of a large i is asked only where `i < 8` holds."""
    asked: list[int] = []

    def shift(number: int) -> int:
        asked.append(number)
        return 1 << number

    program = ((0, 0, None), (2, 1, shift))
    small = ((0, 0, None), (1, 0, 8), (2, 2, FUNCTIONS["<"]))
    terms = ((0, -1),)
    checks = (
        (int(Kind.CONDITION), (terms, program, int, True), 1),
        (int(Kind.CONDITION), (terms, small, True, False), 0),
    )
    evaluator = _capture.Guards(((0, 0, 0, checks, ()),), 2)

    assert [True, False] == [evaluator.check((n,), None) for n in (3, 10**9)]
    assert [3] == asked


@pytest.mark.parametrize(
    "program",
    [(), ((0, 1, None),), ((2, 1, abs),), ((0, 0, None), (0, 0, None)), ((3, 0, None),),
     ((0, 0, None),) * (STACK + 1), ((0, 0, None), (2, 2, max)), ((0, 0, None), (2, 0, max))],
)  # fmt: skip
def test_programs_that_could_leave_the_stack_are_refused(program: object) -> None:
    tree = ((0, 0, 0, ((int(Kind.CONDITION), (((0, -1),), program, 1, False), 0),), ()),)
    with pytest.raises(ValueError, match="not a program"):
        _capture.Guards(tree, 1)


TEXTS: list[tuple[Expression, Any, bool, str]] = [
    (Call("==", (Call("%", (I, 10)), 0)), True, False, "(i % 10) == 0"),
    (Call("==", (Call("%", (I, 10)), 0)), False, False, "not ((i % 10) == 0)"),
    (Call("math.cos", (Call("/", (I, 40)),)), float, True, "type(math.cos((i / 40))) is float"),
    (Call("neg", (SIZE,)), -3, False, "-x.shape[1] == -3"),
    (Call("int.bit_length", (I,)), 3, False, "i.bit_length() == 3"),
    (Call("in", ((1, 2), I)), True, False, "i in (1, 2)"),
    (Call("round", (I, 2)), 0.5, False, "round(i, 2) == 0.5"),
]


@pytest.mark.parametrize(("expression", "outcome", "is_class", "text"), TEXTS)
def test_a_condition_reads_as_python(
    expression: Expression, outcome: Any, is_class: bool, text: str
) -> None:
    assert text == Condition(expression, outcome, is_class).text()


def test_a_failure_says_what_it_met() -> None:
    compiled = guards_of(Condition(Call("==", (Call("%", (I, 10)), 0)), True))
    failure = compiled.explain_failure((7, 0), None)

    assert failure is not None
    assert "expected (i % 10) == 0, now False (i = 7)" == failure.explanation


def test_a_failure_of_what_raises_says_so() -> None:
    compiled = guards_of(Condition(Call("%", (7, I)), int, is_class=True))
    failure = compiled.explain_failure((0, 0), None)

    assert failure is not None
    assert "expected type(7 % i) is int, now it raises ZeroDivisionError" == failure.explanation


def test_functions_of_numbers_give_the_same_for_the_same_numbers() -> None:
    """They are asked in guards, and again in front of the launch."""
    samples = (3, 2, 5)
    for name, function in FUNCTIONS.items():
        for count in (1, 2, 3):
            try:
                first = function(*samples[:count])
            except Exception:
                continue
            assert repr(first) == repr(function(*samples[:count])), name
    assert CLOSED <= FUNCTIONS.keys()
