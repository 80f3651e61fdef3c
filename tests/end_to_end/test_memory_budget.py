"""`compile(options={"activation_memory_budget": ...})`: less is saved, gradients are the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn
from dynajit.core.process import config
from dynajit.ir.partition import partition


def model() -> nn.Module:
    dj.manual_seed(0)
    blocks = [(nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32)) for _ in range(4)]
    return nn.Sequential(*(layer for block in blocks for layer in block))


@pytest.fixture
def saved_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """Bytes that each graph saves for backward, in the order in which graphs were cut."""
    found: list[int] = []

    def cut(*arguments: Any, **keywords: Any) -> Any:
        parts = partition(*arguments, **keywords)
        found.append(parts.saved_bytes)
        return parts

    monkeypatch.setattr("dynajit.ir.partition.partition", cut)
    with config.override(cache_dir=tmp_path):
        yield found


def trained(model: nn.Module, x: Any, **options: Any) -> list[Any]:
    """The gradients of a step."""
    compiled = dj.compile(model, options=options)
    model.zero_grad()
    compiled(x).square().sum().backward()
    return [parameter.grad.numpy().copy() for parameter in model.parameters()]


@pytest.mark.parametrize("budget", [0.6, 0.25, 0])
def test_less_is_saved_and_gradients_stay(budget: float, saved_bytes: list[int]) -> None:
    x = dj.randn(16, 32)
    network = model()
    expected = trained(network, x)
    found = trained(network, x, activation_memory_budget=budget)

    everything, saved = saved_bytes
    assert saved <= max(budget, 0.35) * everything  # results are in memory anyway
    for left, right in zip(expected, found, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


def test_backward_after_a_write_to_a_recomputed_operand_is_as_in_eager_execution() -> None:
    """Eager execution saves no weight of a product whose input needs no gradient: a write to it
    changes nothing, also where the product runs again."""
    x, target = dj.randn(4, 4), dj.randn(4, 4, requires_grad=True)
    results = []
    for budget in (None, 1.0, 0.0):
        weight = dj.ones(4, 4)

        def function(target: Any, weight: Any = weight) -> Any:
            return ((x @ weight).exp() @ target).sum()

        if budget is not None:
            function = dj.compile(function, options={"activation_memory_budget": budget})
        target.grad = None
        loss = function(target)
        weight.mul_(3)
        loss.backward()
        results.append(target.grad.numpy().copy())

    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
    np.testing.assert_allclose(results[0], results[2], rtol=1e-5)


@pytest.mark.parametrize("wrong", [-0.1, 1.5, "half", True, float("nan")])
def test_a_budget_that_is_no_part_is_refused(wrong: Any) -> None:
    with pytest.raises(dj.errors.ArgumentError, match="expected a number from 0"):
        dj.compile(model(), options={"activation_memory_budget": wrong})


@pytest.mark.parametrize("backend", ["eager", lambda graph, types: None])
def test_a_backend_that_saves_nothing_has_no_budget(backend: Any) -> None:
    with pytest.raises(dj.errors.ArgumentError, match="what is saved for backward"):
        dj.compile(model(), backend=backend, options={"activation_memory_budget": 0.5})


def whole_step(layers: int, is_dropping: bool = True) -> tuple[Any, nn.Module]:
    """A training step as one function, and its network."""
    dj.manual_seed(0)
    drop = nn.Dropout(0.25) if is_dropping else nn.Identity()
    blocks = [(nn.Linear(32, 32), nn.GELU(), drop, nn.LayerNorm(32)) for _ in range(layers)]
    network = nn.Sequential(*(layer for block in blocks for layer in block))
    optimizer = dj.optim.SGD(network.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = network(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, network


def after_steps(x: Any, budget: float) -> list[Any]:
    """Losses and parameters of a step that is trained three times."""
    step, network = whole_step(3)
    options = {"activation_memory_budget": budget}
    compiled = dj.compile(step, fullgraph=True, options=options)
    losses = [compiled(x).numpy() for _ in range(3)]
    return [*losses, *(parameter.detach().numpy().copy() for parameter in network.parameters())]


@pytest.mark.parametrize("budget", [0.5, 0])
def test_whole_steps_with_a_budget_train_alike(budget: float) -> None:
    """Random bits are those of the step that keeps everything."""
    x = dj.randn(64, 32)
    for expected, found in zip(after_steps(x, 1), after_steps(x, budget), strict=True):
        np.testing.assert_allclose(expected, found, rtol=1e-4, atol=1e-5)


@pytest.mark.c_only
def test_less_is_needed_at_the_peak_of_a_whole_step_and_explained(tmp_path: Path) -> None:
    x = dj.randn(512, 32)
    peaks = []
    with config.override(cache_dir=tmp_path):
        for budget in (1, 0.5):
            step, _ = whole_step(6)
            options = {"activation_memory_budget": budget}
            text = str(dj.explain(step, options=options)(x))
            peaks.append(int(text.split(" bytes of results and ")[-1].split(" of temporaries")[0]))

    assert peaks[1] < 0.6 * peaks[0]
    assert "recompute:" in text
