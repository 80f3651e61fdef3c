"""Assertions about tensors are part of the graph; where one fails, plain Python raises its error.

PYTEST_DONT_REWRITE: the assertions of the functions that are compiled must stay what they are.
"""

from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import GraphBreakError


def _outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args).tolist()
    except Exception as error:
        return type(error), str(error)


def test_assertions_need_no_break() -> None:
    """Of a truth, of its opposite, of several, with a message, in inlined functions, by name."""

    def inner(x: Any) -> Any:
        assert not x.isnan().any()
        return x * 2

    def outer(x: Any) -> Any:
        assert (x > 0).all(), f"the least is {x.min().item():.1f}"
        x = inner(x)
        assert x.sum() < 100 and (x < 50).all()
        dj._assert((x != 6).all(), "six")
        dj._assert_async((x != 4).all(), "four")
        return x + 1

    compiled = dj.compile(outer, fullgraph=True)
    for numbers in (
        [1.0, 2.5],
        [5.0, 1.5],
        [-1.0, 2.0],
        [60.0, 1.0],
        [30.0, 1.0],
        [3.0, 1.0],
        [2.0, 1.0],
    ):
        x = dj.tensor(numbers)
        assert _outcome(outer, x) == _outcome(compiled, x)
    with pytest.raises(AssertionError, match=r"the least is -1\.0"):
        compiled(dj.tensor([-1.0, 2.0]))


@pytest.mark.parametrize("backend", ["native", "eager", "numpy"])
def test_every_backend_checks_assertions(backend: str) -> None:
    """One element of any kind has a truth: NaN is true; several, and complex numbers, break."""

    def function(x: Any) -> Any:
        assert x
        return x + x

    compiled = dj.compile(function, backend=backend)
    operands = [
        dj.tensor(True),
        dj.tensor(False),
        dj.ones(1, 1),
        dj.zeros(1),
        dj.tensor(float("nan")),
    ]
    for x in [*operands, dj.tensor(3), dj.tensor(2j), dj.tensor(0j), dj.ones(2), dj.ones(0)]:
        assert str(_outcome(function, x)) == str(_outcome(compiled, x))


def test_what_comes_before_a_failing_assertion_happens_once() -> None:
    """Writes to lists and tensors, random numbers, and the handler around it."""

    def function(x: Any, log: list[Any]) -> Any:
        log.append(dj.rand(1).item() if log is None else 1)
        x += dj.rand(2)
        try:
            assert x.sum() < 10, "large"
        except AssertionError as error:
            log.append(str(error))
            return x * 3
        return x * 2

    found = []
    for called in (function, dj.compile(function)):
        dj.manual_seed(0)
        log: list[Any] = []
        x, y = dj.ones(2), dj.full((2,), 9.0)
        found.append(
            [called(x, log).tolist(), called(y, log).tolist(), x.tolist(), y.tolist(), log]
        )
        found[-1].append(dj.rand(1).tolist())
    assert found[0] == found[1]
    assert [1, 1, "large"] == found[0][4]


def test_gradients_flow_past_assertions() -> None:
    """Also where what is asserted requires gradients."""

    def function(x: Any) -> Any:
        y = x * x
        assert y.sum()
        return y.sum()

    x = dj.ones(3, requires_grad=True)
    dj.compile(function, fullgraph=True)(x).backward()
    assert [2.0, 2.0, 2.0] == x.grad.tolist()


def test_other_branches_on_tensors_still_break() -> None:
    """Whose outcome is not known before the call."""

    def function(x: Any) -> Any:
        if x.sum() > 0:
            raise ValueError("positive")
        return x * 2

    with pytest.raises(GraphBreakError, match="the truth of a tensor"):
        dj.compile(function, fullgraph=True)(-dj.ones(2))
    assert [-2.0, -2.0] == dj.compile(function)(-dj.ones(2)).tolist()
