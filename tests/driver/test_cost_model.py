"""Versions that measure slower than plain Python are left to it."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError
from dynajit.driver import cost_model

CALLS = 2 * (cost_model.WARM_UP + cost_model.TURNS) + 1
OPTIONS = {"cost_model": True}


class Clock:
    """A clock that a test sets: compiled and plain calls take what it says. Mutable."""

    def __init__(self, compiled_ns: int, plain_ns: int) -> None:
        self.now = 0
        self.takes = [compiled_ns, plain_ns]
        self.reads = 0

    def perf_counter_ns(self) -> int:
        """Every second reading ends a call; calls take turns, the compiled one first."""
        if self.reads % 2:
            self.now += self.takes[self.reads // 2 % 2]
        self.reads += 1
        return self.now


def timed(monkeypatch: pytest.MonkeyPatch, compiled_ns: int, plain_ns: int) -> None:
    """Have the model read such a clock."""
    clock = Clock(compiled_ns, plain_ns)
    monkeypatch.setattr(cost_model, "time", clock)


def counting() -> tuple[Callable[..., Any], list[bool]]:
    """A function, and whether each call of it that ran its own code was captured."""
    ran: list[bool] = []

    def f(x: Any) -> Any:
        if not dj.compiler.is_compiling():
            ran.append(True)
        return x * 2 + 1

    return f, ran


def test_a_slower_version_is_left_to_plain_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All results are right meanwhile; report and log say it."""
    timed(monkeypatch, compiled_ns=2000, plain_ns=1000)
    f, ran = counting()
    compiled = dj.compile(f, options=OPTIONS, name="f")
    dj.set_logs("perf")
    try:
        for _ in range(CALLS):
            assert [3.0, 3.0] == compiled(dj.ones(2)).tolist()
    finally:
        dj.set_logs()
    before = len(ran)
    compiled(dj.ones(2))

    assert before + 1 == len(ran)
    text = "f: version 0 is left to plain Python: compiled it took 2.0 us, plain 1.0 us"
    assert text in str(compiled.report())
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "left to" in line]
    assert f"dynajit perf: {text}" in line


@pytest.mark.parametrize("compiled_ns", [1000, 990, 1040])
def test_a_version_that_is_not_slower_stays(
    monkeypatch: pytest.MonkeyPatch, compiled_ns: int
) -> None:
    """As it would without the option: its entry runs the compiled function itself."""
    timed(monkeypatch, compiled_ns=compiled_ns, plain_ns=1000)
    f, ran = counting()
    compiled = dj.compile(f, options=OPTIONS)
    for _ in range(CALLS):
        compiled(dj.ones(2))
    before = len(ran)
    compiled(dj.ones(2))

    assert cost_model.WARM_UP + cost_model.TURNS == before == len(ran)
    (entry,) = cost_model.cache.cache_of(compiled).entries(compiled)
    assert not isinstance(entry.function, cost_model._Measured)
    assert "left to plain" not in str(compiled.report())


def test_each_version_is_measured_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is left to plain Python, one for another dtype is compiled and measured."""
    timed(monkeypatch, compiled_ns=2000, plain_ns=1000)
    f, ran = counting()
    compiled = dj.compile(f, options=OPTIONS)
    for _ in range(CALLS):
        compiled(dj.ones(2))
    timed(monkeypatch, compiled_ns=500, plain_ns=1000)
    for _ in range(CALLS):
        compiled(dj.ones(2, dtype=dj.float64))
    before = len(ran)
    compiled(dj.ones(2, dtype=dj.float64))
    assert before == len(ran)
    compiled(dj.ones(2))
    assert before + 1 == len(ran)
    assert 1 == len(compiled.report().skips)


def test_errors_pass_and_are_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that raises is made once."""
    timed(monkeypatch, compiled_ns=500, plain_ns=1000)
    calls = []

    def f(x: Any, fails: bool) -> Any:
        calls.append(fails)
        if fails:
            raise ValueError("mine")
        return x + 1

    compiled = dj.compile(f, options=OPTIONS)
    for _ in range(CALLS):
        with pytest.raises(ValueError, match="mine"):
            compiled(dj.ones(2), True)
        compiled(dj.ones(2), False)

    assert [True, False] * CALLS == calls


def test_modules_are_measured_and_breaks_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results and gradients are those of eager execution in every call."""
    timed(monkeypatch, compiled_ns=2000, plain_ns=1000)
    model = dj.nn.Sequential(dj.nn.Linear(4, 5), dj.nn.ReLU())
    compiled = dj.compile(model, options=OPTIONS)
    x = dj.randn(3, 4)
    (expected,) = dj.autograd.grad(model(x).sum(), [model[0].bias])

    def breaks(x: Any) -> Any:
        y = x + 1
        dj.graph_break()
        return y * 2

    in_two = dj.compile(breaks, options=OPTIONS)
    for _ in range(CALLS + 2):
        (found,) = dj.autograd.grad(compiled(x).sum(), [model[0].bias])
        assert expected.tolist() == found.tolist()
        assert [4.0] == in_two(dj.ones(1)).tolist()
    assert 1 == len(compiled.report().skips)
    assert () == in_two.report().skips


def test_results_on_a_gpu_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their work goes on after the call: the version stays compiled, from the first call on."""
    timed(monkeypatch, compiled_ns=2000, plain_ns=1000)
    monkeypatch.setattr(cost_model, "_is_on_gpu", lambda result: True)
    f, ran = counting()
    compiled = dj.compile(f, options=OPTIONS)
    for _ in range(3):
        compiled(dj.ones(2))

    assert [] == ran
    on_gpu = SimpleNamespace(device=SimpleNamespace(type="cuda"))
    monkeypatch.undo()
    assert cost_model._is_on_gpu([1, {"a": on_gpu}])
    assert not cost_model._is_on_gpu((dj.ones(2), None))


def test_it_forgets_with_the_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `reset` a version is made and measured again; one that is dropped decides nothing."""
    timed(monkeypatch, compiled_ns=2000, plain_ns=1000)
    f, ran = counting()
    compiled = dj.compile(f, options=OPTIONS)
    compiled(dj.ones(2))
    dj.reset()
    for _ in range(CALLS + 1):
        compiled(dj.ones(2))
    before = len(ran)
    compiled(dj.ones(2))

    assert before + 1 == len(ran)


def test_the_option_is_a_truth_value() -> None:
    """As the others."""
    with pytest.raises(ArgumentError, match=r"'cost_model': 1\}\): expected True or False"):
        dj.compile(lambda x: x, options={"cost_model": 1})


def test_the_clock_is_a_real_one() -> None:
    """What tests replace is Python's."""
    assert cost_model.time is time
