"""Questions about symbolic integers: what ranges prove, and who answers the rest."""

import itertools

import pytest

from dynajit.core.types import symint
from dynajit.core.types.symint import Number, SymInt, symbol

N, M = symbol("n", 2), symbol("m", 2)


class Answers:
    """Decides by numbers and keeps what was asked."""

    def __init__(self, **numbers: int) -> None:
        self.numbers = numbers
        self.asked: list[str] = []

    def _value(self, number: Number) -> int:
        found = symint.substitute(number, self.numbers)
        assert isinstance(found, int)
        return found

    def decide(self, comparison: str, a: Number, b: Number) -> bool:
        self.asked.append(f"{a} {comparison} {b}")
        left, right = self._value(a), self._value(b)
        return {"==": left == right, "<": left < right, "<=": left <= right}[comparison]

    def unify(self, a: Number, b: Number) -> bool:
        self.asked.append(f"{a} is {b}")
        return self._value(a) == self._value(b)

    def number(self, value: SymInt) -> int:
        self.asked.append(f"int({value})")
        return self._value(value)


EXPRESSIONS = (N, M, N - 1, N // 2, N % 3, N * M, N * M - M, N + 1, 2, 0, N - N // 2, 4 * (N // 4))


@pytest.mark.parametrize("comparison", ["==", "<", "<="])
@pytest.mark.parametrize(("a", "b"), list(itertools.product(EXPRESSIONS, EXPRESSIONS)), ids=str)
def test_what_ranges_prove_holds_for_every_number(comparison: str, a: Number, b: Number) -> None:
    known = symint.known_comparison(comparison, a, b)
    if known is None:
        return
    for n, m in itertools.product((2, 3, 4, 7, 8), (2, 3, 9)):
        left, right = (symint.substitute(side, {"n": n, "m": m}) for side in (a, b))
        assert {"==": left == right, "<": left < right, "<=": left <= right}[comparison] == known


@pytest.mark.parametrize(
    ("comparison", "a", "b", "expected"),
    [
        ("<", 1, N, True),
        ("==", N, 1, False),
        ("<=", N // 2, N, True),
        ("<", N // 2, N, True),
        ("<", M, N * M, True),
        ("<=", 0, N - 2, True),
        ("==", N, N + 1, False),
        ("<", N, N, False),
        ("<=", N, M, None),
        ("==", 4 * (N // 4), N, None),
    ],
)
def test_what_is_proved(comparison: str, a: Number, b: Number, expected: bool | None) -> None:
    assert expected is symint.known_comparison(comparison, a, b)


def test_only_what_ranges_leave_open_is_asked() -> None:
    answers = Answers(n=8, m=3)
    with symint.deciding(answers):
        assert N > 1
        assert N > M
        assert not N < 5
        assert bool(N - 2)
        assert 8 == int(N)
        assert [0, 1, 2] == list(range(M))

    assert ["m < n", "n < 5", "(n - 2) == 0", "int(n)", "int(m)"] == answers.asked


def test_without_anybody_to_decide_order_is_an_error() -> None:
    for question in (lambda: N < M, lambda: range(N), lambda: bool(N - 2), lambda: float(N)):
        with pytest.raises(ValueError, match="not known"):
            question()


def test_sizes_that_must_be_equal_are_unified() -> None:
    answers = Answers(n=4, m=4)
    with symint.deciding(answers):
        assert symint.agree(N, M)
        assert symint.agree(N, N)
        assert not symint.agree(N, N + 1)
        assert not symint.agree(N, 5)
        assert symint.shapes_agree((N, 3), (M, 3))
        assert not symint.shapes_agree((N,), (N, 1))

    assert ["n is m", "n is 5", "n is m"] == answers.asked


def test_where_nobody_decides_sizes_that_may_be_equal_agree() -> None:
    assert symint.agree(N, M)
    assert not symint.agree(N, 1)
    assert symint.fits_within(N, M)
    assert not symint.fits_within(N + 1, N)
    assert not symint.equals(N, M)


def test_the_smaller_of_two_sizes_is_one_of_them_where_somebody_decides() -> None:
    assert "min(m, n)" == symint.python(symint.smaller(M, N))
    with symint.deciding(Answers(n=4, m=9)):
        assert symint.smaller(M, N) is N
        assert symint.larger(M, N) is M
