"""Pain 1: a new compile for every learning rate, step counter or float attribute."""

from typing import Any

import pytest

import dynajit as dj
from dynajit import nn


def test_a_learning_rate_changed_fifty_times_compiles_once(compile_count: Any) -> None:
    def step(w: Any, g: Any, lr: float) -> Any:
        return w - lr * g

    compiled = dj.compile(step, fullgraph=True)
    w, g = dj.ones(8), dj.full((8,), 2.0)
    for i in range(50):
        lr = 0.1 / (1 + i)
        assert compiled(w, g, lr).tolist() == pytest.approx(step(w, g, lr).tolist())
    assert 1 == compile_count()


class Scheduled(nn.Module):
    """Counts its calls, and scales by an attribute that a scheduler changes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.steps = 0
        self.scale = 1.0

    def forward(self, x: Any) -> Any:
        self.steps += 1
        return self.layer(x) * self.scale + self.steps


def test_counters_and_float_attributes_of_a_module_compile_once(compile_count: Any) -> None:
    eager = Scheduled()
    model = dj.compile(eager, fullgraph=True)
    x = dj.ones(2, 4)
    for i in range(20):
        model.scale = 1.0 / (1 + i)
        expected = eager.layer(x) * model.scale + (i + 1)
        assert model(x).flatten().tolist() == pytest.approx(expected.flatten().tolist())
        assert i + 1 == model.steps
    assert 1 == compile_count()


def test_a_branch_on_a_counter_guards_the_branch_not_the_number(compile_count: Any) -> None:
    def warm(x: Any, step: int) -> Any:
        return x * (step / 10) if step < 10 else x

    compiled = dj.compile(warm, fullgraph=True)
    x = dj.ones(3)
    for step in range(40):
        assert compiled(x, step).tolist() == pytest.approx(warm(x, step).tolist())
    assert 2 == compile_count()
    assert any("step < 10" in text or "10" in text for text in compiled.guards()[0])
