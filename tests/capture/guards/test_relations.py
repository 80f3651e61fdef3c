"""Relations between sizes: text, program, evaluation in C with overflow, explanations."""

import itertools
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture import _capture
from dynajit.capture.guards.facts import SizeRange, TensorFacts
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.relations import COMPARISONS, Relation, Term, text_of
from dynajit.capture.guards.tree import compile_guards
from dynajit.capture.places.sources import Local
from dynajit.core.types import dtypes, symint
from dynajit.core.types.symint import Number, maximum, minimum, symbol

X, Y, K = Local("x", 0), Local("y", 1), Local("k", 2)
A, B, C = symbol("a", None), symbol("b", None), symbol("c", None)
TERMS = (Term("a", X, 0), Term("b", Y, 0), Term("c", K, None))


def used(*sides: Number) -> tuple[Term, ...]:
    names = set().union(*map(symint.symbols, sides))
    return tuple(term for term in TERMS if term.name in names)


def guards_of(comparison: str, left: Number, right: Number):
    terms = used(left, right)
    relation = Relation(comparison, left, right, terms)
    return compile_guards([Guard(terms[0].source, Kind.RELATION, relation)])


EXPRESSIONS = (
    A, A + B, A * B - C, A // 4, A % 3, (A + C) // C, (A - 10) % C, minimum(A, B), maximum(A, C),
    A * 2 - B // 2 + 7, (A - 9) // (C * -1),
)  # fmt: skip


@pytest.mark.parametrize("left", EXPRESSIONS, ids=str)
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_the_evaluator_agrees_with_python(left: Number, comparison: str) -> None:
    right = B if isinstance(left, symint.SymInt) and "b" not in symint.symbols(left) else 5
    compiled = guards_of(comparison, left, right)
    for a, b, c in itertools.product((2, 3, 8, 12), (2, 5, 8), (1, 3, -4)):
        known = {"a": a, "b": b, "c": c}
        expected = COMPARISONS[comparison](
            symint.substitute(left, known), symint.substitute(right, known)
        )
        arguments = (dj.ones(a), dj.ones(b), c)
        assert expected == compiled.evaluator.check(arguments, None)


def test_an_overflow_fails_the_guard() -> None:
    compiled = guards_of("!=", C * C, A)
    assert compiled.evaluator.check((dj.ones(2), None, 3), None)
    for large in (1 << 32, 1 << 62, 1 << 63, -(1 << 70)):
        assert not compiled.evaluator.check((dj.ones(2), None, large), None)


def test_a_division_by_zero_fails_the_guard() -> None:
    for side in (A // C, A % C):
        compiled = guards_of(">=", side, 0)
        assert compiled.evaluator.check((dj.ones(4), None, 2), None)
        assert not compiled.evaluator.check((dj.ones(4), None, 0), None)


@pytest.mark.parametrize("wrong", [True, 2.0, "2", None, [2]])
def test_what_is_no_int_fails_the_guard(wrong: object) -> None:
    compiled = guards_of(">=", C, 0)
    assert not compiled.evaluator.check((None, None, wrong), None)


@pytest.mark.parametrize("wrong", [dj.ones(()), np.ones(3), 3, None])
def test_a_size_of_what_is_no_such_tensor_fails_the_guard(wrong: object) -> None:
    assert not guards_of(">=", A, 0).evaluator.check((wrong, None, 1), None)


def test_relations_read_as_python() -> None:
    names = {"a": "x.shape[0]", "b": "y.shape[0]"}
    assert "x.shape[0] % 4" == text_of(A % 4, names)
    assert "x.shape[0] == y.shape[0]" == Relation("==", A, B, used(A, B)).text()
    assert "k <= x.shape[0]*2" == Relation("<=", C, A * 2, used(A, C)).text()


def test_a_failure_says_what_it_met() -> None:
    compiled = guards_of("==", A, B)
    failure = compiled.explain_failure((dj.ones(8), dj.ones(9), 0), None)

    assert failure is not None
    assert "expected x.shape[0] == y.shape[0], now 8 == 9" == failure.explanation


@pytest.mark.parametrize(
    "expected",
    [((), 0, ((1, 0), (0, 1))), (((0, 0),), 0, ((2, 0),)), (((0, 0),), 9, ((0, 1), (0, 1))),
     (((0, 0),), 0, ((1, 0),)), (((5, 0),), 0, ((1, 0), (0, 1))), ((), 0, ((0, 1),) * 40)],
)  # fmt: skip
def test_programs_that_could_leave_the_stack_are_refused(expected: object) -> None:
    tree = ((0, 0, 0, ((int(Kind.RELATION), expected, 0),), ()),)
    with pytest.raises(ValueError, match="not a program"):
        _capture.Guards(tree, 1)


def test_tensor_guards_accept_ranges_and_row_major_layouts() -> None:
    facts = TensorFacts(
        dj.Tensor, dtypes.float32, "cpu", (SizeRange(2, 6), 3), None, False, row_major=True
    )
    compiled = compile_guards([Guard(X, Kind.TENSOR, facts)])

    accepted = [n for n in range(9) if compiled.evaluator.check((dj.ones(n, 3),), None)]
    assert [2, 3, 4, 5, 6] == accepted
    assert not compiled.evaluator.check((dj.ones(3, 4).t(),), None)
    assert "Tensor float32[2..6, 3], row-major, requires_grad=False" == str(facts)
    assert "row by row" in compiled.explain_failure((dj.ones(3, 4).t(),), None).explanation


def test_tensor_guards_accept_elements_side_by_side_in_an_order_of_dims() -> None:
    sizes = (SizeRange(2), SizeRange(2), 3)
    facts = TensorFacts(dj.Tensor, dtypes.float32, "cpu", sizes, None, False, order=(2, 0, 1))
    compiled = compile_guards([Guard(X, Kind.TENSOR, facts)])

    def accepts(x: Any) -> bool:
        return bool(compiled.evaluator.check((x,), None))

    assert accepts(dj.ones(3, 4, 5).permute(1, 2, 0))
    assert accepts(dj.ones(3, 2, 7).permute(1, 2, 0))
    assert not accepts(dj.ones(4, 5, 3))
    assert not accepts(dj.ones(3, 4, 10).permute(1, 2, 0)[:, ::2])
    assert not accepts(dj.ones(3, 5, 4).permute(2, 1, 0))
    assert "dims in the order [2, 0, 1]" in str(facts)
    explained = compiled.explain_failure((dj.ones(4, 5, 3),), None).explanation
    assert "the dims lay in the order [2, 0, 1], now they do not" in explained


@pytest.mark.parametrize("order", [(0, 2), (-1, 0)])
def test_orders_of_dims_that_are_none_are_refused(order: tuple[int, int]) -> None:
    facts = TensorFacts(dj.Tensor, dtypes.float32, "cpu", (2, 3), None, False, order=order)

    with pytest.raises(ValueError, match="names a dim that is none"):
        compile_guards([Guard(X, Kind.TENSOR, facts)])
