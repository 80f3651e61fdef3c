"""`opt.step()` through `compile`: one graph, the same numbers and state as eagerly."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn, optim

MAKERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: optim.Adam(parameters, lr=0.05),
    "adamw": lambda parameters: optim.AdamW(parameters, lr=0.05),
}


def _run(make: Callable[[Any], Any], is_compiled: bool) -> tuple[list[Any], Any, Any]:
    dj.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    opt = make(model.parameters())
    step = dj.compile(opt.step) if is_compiled else opt.step
    x = dj.tensor(np.linspace(-1, 1, 24).reshape(6, 4).astype("float32"))
    for _ in range(5):
        opt.zero_grad()
        (model(x) ** 2).mean().backward()
        step()
    return [p.detach().numpy() for p in model.parameters()], opt.state_dict(), step


@pytest.mark.parametrize("name", MAKERS)
def test_a_compiled_step_is_the_eager_one(name: str) -> None:
    """Five steps: parameters and state; the real `state` grows in the first one."""
    expected, expected_state, _ = _run(MAKERS[name], False)
    actual, state, step = _run(MAKERS[name], True)
    for one, other in zip(expected, actual, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    assert expected_state["state"].keys() == state["state"].keys()
    for number, entry in expected_state["state"].items():
        for field, value in entry.items():
            found = state["state"][number][field]
            np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-5, atol=1e-6)
    report = step.report()
    assert () == report.breaks
    assert () == report.skips
    assert 2 >= report.graphs
