"""Pain 5: a break in a loop leaves the whole frame to plain Python."""

from typing import Any

import pytest

import dynajit as dj


def test_the_body_of_a_loop_of_a_hundred_is_compiled_once(compile_count: Any) -> None:
    def train(x: Any, n: int) -> Any:
        losses = []
        for _ in range(n):
            x = x * 0.99 + 0.001
            loss = (x * x).sum()
            losses.append(loss.item())
            x = x - 0.01 * x * (3 if dj.is_compiling() else 2)
        return x, losses

    compiled = dj.compile(train)
    x, losses = compiled(dj.ones(4), 100)
    made = compile_count()
    expected, expected_losses = dj.ones(4), []
    for _ in range(100):
        expected = expected * 0.99 + 0.001
        expected_losses.append((expected * expected).sum().item())
        expected = expected - 0.01 * expected * 3
    assert x.tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    assert losses == pytest.approx(expected_losses, rel=1e-5)
    assert made <= 4
    compiled(dj.ones(4), 100)
    assert made == compile_count()


def test_a_break_in_a_callee_goes_on_in_the_callee() -> None:
    marks = []

    def inner(x: Any) -> Any:
        y = x * 2
        marks.append(y.sum().item())
        return y + (10 if dj.is_compiling() else 20)

    def outer(x: Any) -> Any:
        return inner(x + 1) * (3 if dj.is_compiling() else 5)

    compiled = dj.compile(outer)
    for _ in range(2):
        assert [42.0, 42.0] == compiled(dj.ones(2)).tolist()
    assert [8.0, 8.0] == marks
    assert 1 == len(compiled.report().breaks)
