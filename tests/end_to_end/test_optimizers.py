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
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    opt = make(model.parameters())
    step = dj.compile(opt.step) if is_compiled else opt.step
    x = dj.tensor(np.linspace(-1, 1, 24).reshape(6, 4))
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
        np.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-9)
    assert expected_state["state"].keys() == state["state"].keys()
    for number, entry in expected_state["state"].items():
        for field, value in entry.items():
            found = state["state"][number][field]
            np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-7, atol=1e-9)
    report = step.report()
    assert () == report.breaks
    assert () == report.skips
    assert 2 >= report.graphs


BEGINNING: dict[str, Callable[[Any], Any]] = {
    "adam": lambda p: optim.Adam(p, lr=0.05, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.05),
    "adamax": lambda p: optim.Adamax(p, lr=0.05),
    "nadam": lambda p: optim.NAdam(p, lr=0.05),
    "radam": lambda p: optim.RAdam(p, lr=0.05),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.05, momentum=0.5, centered=True),
    "rprop": lambda p: optim.Rprop(p, lr=0.05),
    "adadelta": lambda p: optim.Adadelta(p, lr=0.5),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.05),
    "asgd": lambda p: optim.ASGD(p, lr=0.05),
    "adafactor": lambda p: optim.Adafactor(p, lr=0.05),
}
"""Optimisers that make their state in the first step."""


def _states(opt: Any) -> list[Any]:
    """Names of what each parameter has, in order of the parameters; None without an entry."""
    parameters = [p for group in opt.param_groups for p in group["params"]]
    return [sorted(opt.state[p]) if p in opt.state else None for p in parameters]


@pytest.mark.parametrize("name", BEGINNING)
def test_a_step_that_begins_its_state_is_compiled_once(name: str) -> None:
    """The state is there before the first call is captured."""
    expected, _, _ = _run(BEGINNING[name], False)
    actual, _, step = _run(BEGINNING[name], True)

    for one, other in zip(expected, actual, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-9)
    assert (1, ()) == (step.report().graphs, step.report().breaks)


def _without_one_gradient(opt: Any) -> None:
    opt.step()


def _gradients_dropped(opt: Any) -> None:
    opt.zero_grad()
    opt.step()


def _gradient_made(opt: Any) -> None:
    parameter = opt.param_groups[0]["params"][1]
    parameter.grad = parameter * 2
    opt.step()


def _group_added(opt: Any) -> None:
    opt.param_groups[0]["params"] = opt.param_groups[0]["params"][:1]
    opt.step()


def _state_asked(opt: Any) -> int:
    before = len(opt.state)
    opt.step()
    return before


def _state_replaced(opt: Any) -> None:
    opt.state = type(opt.state)(dict)
    opt.step()


@pytest.mark.parametrize(
    "function",
    [
        _without_one_gradient,
        _gradients_dropped,
        _gradient_made,
        _group_added,
        _state_asked,
        _state_replaced,
    ],
)
def test_what_comes_before_a_step_decides_which_state_it_begins(
    function: Callable[[Any], Any],
) -> None:
    """Gradients, groups and state that the captured code itself changed or asked about: which
    parameters have state afterwards, and what they are, is as in plain Python."""
    found = []
    for is_compiled in (False, True):
        parameters = [nn.Parameter(dj.ones(3) * (k + 1)) for k in range(3)]
        parameters[0].grad, parameters[2].grad = dj.ones(3), dj.full((3,), 2.0)
        opt = optim.Adam(parameters, lr=0.1)
        run = dj.compile(function) if is_compiled else function
        steps = [(run(opt), _states(opt), [p.tolist() for p in parameters]) for _ in range(2)]
        found.append(steps)

    for plain, compiled in zip(*found, strict=True):
        assert plain[:2] == compiled[:2]
        np.testing.assert_allclose(compiled[2], plain[2], rtol=1e-6)


def test_a_step_of_a_class_of_a_program_begins_its_state_in_the_graph() -> None:
    """What it does before is its own business."""

    class Halved(optim.Adam):
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad = parameter.grad / 2
            return super().step(closure)

    expected, expected_state, _ = _run(lambda p: Halved(p, lr=0.05), False)
    actual, state, _ = _run(lambda p: Halved(p, lr=0.05), True)

    for one, other in zip(expected, actual, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-9)
    assert expected_state["state"].keys() == state["state"].keys()


def test_a_step_with_a_closure_begins_the_state_of_gradients_that_the_closure_leaves() -> None:
    def step(optimizer: Any, used: Any) -> Any:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = used.square().sum()
            loss.backward()
            return loss

        return optimizer.step(closure)

    found = []
    for called in (step, dj.compile(step, fullgraph=True)):
        used, other = (dj.ones(3, requires_grad=True) for _ in range(2))
        other.grad = dj.ones(3)
        optimizer = optim.Adam([used, other], lr=0.1)
        losses = [called(optimizer, used).item() for _ in range(3)]
        numbers = [*losses, *used.tolist()]
        found.append((numbers, other.grad, list(optimizer.state_dict()["state"])))
    assert pytest.approx(found[0][0]) == found[1][0]
    assert found[0][1:] == found[1][1:] == (None, [0])
