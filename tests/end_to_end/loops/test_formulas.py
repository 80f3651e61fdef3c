"""Numbers that turns compute of their counters: one loop of the graph, plain Python's results."""

import math
import random
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.support.loops import loops_of

X = dj.arange(6.0) + 1
INNER = 30


def multiple(x):
    for i in range(60):
        x = x * 0.9 + 0.01 * (i + 1)
    return x


def harmonic(x):
    for i in range(60):
        x = x * 0.9 + 1 / (i + 1)
    return x


def schedule(x):
    for i in range(60):
        rate, decay = 0.1 * (1 - i / 60), 0.5**i
        x = x * (1 - rate) + decay
    return x, rate


def cosines(x):
    for i in range(60):
        x = x * math.cos(math.pi * (i + 0.5) / 60) + math.sqrt(i + 1)
    return x


def of_the_bound(x, n=60):
    for i in range(n):
        x = x * 0.9 + 0.01 * (n - i) + i / n
    return x


def conversions(x):
    for i in range(60):
        x = x * 0.9 + float(i // 7) + int(i * 0.3) + round(i / 7)
    return x


def larger_of(x):
    for i in range(60):
        x = x * 0.9 + max(i, 30) + min(0.5 * i, 7.0)
    return x


@pytest.mark.parametrize(
    "function", [multiple, harmonic, schedule, cosines, of_the_bound, conversions]
)
def test_formulas_of_the_counter_are_computed_for_all_turns(function: Any) -> None:
    compiled = dj.compile(function, fullgraph=True)
    for _ in range(2):
        expected, found = function(X), compiled(X)
        if isinstance(expected, tuple):
            assert expected[1:] == found[1:]
            expected, found = expected[0], found[0]
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-5)
    assert loops_of(function, X) == 1


def difference(x):
    for i in range(20):
        for j in range(INNER):
            x = x * 0.9 + 0.01 * (i - j)
    return x


def flat_place(x):
    for i in range(20):
        for j in range(INNER):
            x = x * 0.9 + x[(i * INNER + j) % 6] * 0.01
    return x


def both_floats(x):
    for i in range(20):
        a = 0.1 * i
        for j in range(INNER):
            x = x * 0.9 + (a + 0.2 * j) / 7 - (i + 1) * (j + 0.5)
    return x


def triangle(x):
    for i in range(20):
        for j in range(INNER):
            x = x * 0.99 + (i + j) * (i - j) // 3
    return x


@pytest.mark.parametrize("function", [difference, flat_place, both_floats, triangle])
def test_formulas_of_two_counters_do_not_unroll_the_inner_loop(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = dj.compile(function, fullgraph=True)
    expected = function(X)
    for _ in range(2):
        np.testing.assert_allclose(compiled(X).numpy(), expected.numpy(), rtol=2e-5, atol=1e-4)
    lengths = []
    for turns in (30, 45):
        monkeypatch.setitem(globals(), "INNER", turns)
        lengths.append(len(str(dj.explain(function)(X).graphs[0]).splitlines()))
    assert lengths[0] == lengths[1]


def divides_by_zero_in_a_turn(x):
    for i in range(60):
        1 / (i - 40)
        x = x + 1
    return x


def domain_error_in_a_turn(x):
    for i in range(60):
        x = x + math.sqrt(50 - i)
    return x


def overflows(x):
    for i in range(1, 400):
        x = x * 0.5 + 10.0**i * 0
    return x


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (divides_by_zero_in_a_turn, ZeroDivisionError), (domain_error_in_a_turn, ValueError),
        (overflows, OverflowError),
    ],
)  # fmt: skip
def test_what_a_turn_raises_is_raised(function: Any, error: type[Exception]) -> None:
    """Whether anything reads the number or not."""
    for run in (function, dj.compile(function)):
        with pytest.raises(error):
            run(X)


def other_class_later(x):
    kinds = []
    for i in range(60):
        n = 2 ** (i - 40)
        kinds.append(type(n).__name__)
        x = x * 0.9 + n * 1e-9
    return x, kinds


def larger_than_words(x):
    for i in range(1, 60):
        x = x * 0.9 + (3**i) / 3**i
    return x, 3**i


@pytest.mark.parametrize("function", [other_class_later, larger_than_words, larger_of])
def test_other_formulas_have_plain_results(function: Any) -> None:
    expected, found = function(X), dj.compile(function)(X)
    if isinstance(expected, tuple):
        assert expected[1:] == found[1:]
        expected, found = expected[0], found[0]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-5)


def test_gradients_pass_beside_formulas() -> None:
    def step(x, w):
        for i in range(40):
            x = x * (1 - 0.1 / (i + 1)) + w * math.sin(0.1 * i)
        return x.sum()

    results = []
    for run in (step, dj.compile(step, fullgraph=True)):
        x, w = X.clone().requires_grad_(), (X * 0.1).requires_grad_()
        run(x, w).backward()
        results.append((x.grad.numpy(), w.grad.numpy()))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5)


ATOMS = ["i", "j", "n", "2", "3", "0.5", "(i + 1)", "(j + 2)", "1.5"]
PAIRS = ["+", "-", "*", "/", "//", "%"]


def formula(draw: random.Random, depth: int) -> str:
    """A random expression of numbers."""
    if not depth or draw.random() < 0.2:
        return draw.choice(ATOMS)
    a, b = formula(draw, depth - 1), formula(draw, depth - 1)
    pair = draw.choice(PAIRS)
    return f"({a} {pair} {b})" if pair in "+-*" else f"({a} {pair} (abs({b}) + 1))"


@pytest.mark.parametrize("seed", range(25))
def test_random_formulas_have_plain_results(seed: int) -> None:
    draw = random.Random(seed)
    lines = ["def program(x, n):", "    for i in range(20):"]
    if draw.random() < 0.5:
        lines.append(f"        x = x * 0.5 + {formula(draw, 2)}".replace("j", "i"))
    lines += [
        "        for j in range(20):", f"            a = {formula(draw, 3)}",
        f"            x = x * 0.5 + a * 0.01 - {formula(draw, 2)}", "    return x, i, j, a",
    ]  # fmt: skip
    text = "\n".join(lines)
    space: dict[str, Any] = {}
    exec(compile(text, f"<formula {seed}>", "exec"), space)
    program, compiled = space["program"], dj.compile(space["program"])
    for n in (7, 7, 8, 9):
        expected, found = program(X, n), compiled(X, n)
        assert [*map(type, expected)] == [*map(type, found)]
        assert expected[1:] == found[1:], text
        np.testing.assert_allclose(
            found[0].numpy(), expected[0].numpy(), rtol=1e-4, atol=1e-3, err_msg=text
        )
