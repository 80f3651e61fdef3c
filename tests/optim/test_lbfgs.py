"""L-BFGS against PyTorch: whole trajectories, with and without the line search, states."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import InvalidValueError, UnsupportedError

torch = pytest.importorskip("torch")

START = (np.array([-1.2, 1.0]), np.array([[0.3, -0.7], [2.0, 0.5]]))


def rosenbrock(library: Any, a: Any, b: Any) -> Any:
    """A curved valley, and a quartic beside it."""
    valley = (1 - a[0]) ** 2 + 100 * (a[1] - a[0] ** 2) ** 2
    return valley + ((b - 1) ** 4).sum() + (b * b).sum() * 0.1


def wavy(library: Any, a: Any, b: Any) -> Any:
    """Many minima: brackets and zooms."""
    return (a.sin() * 3 + a * a * 0.1).sum() + (b.cos() * b).sum() + (b**4).sum() * 0.01


def kinked(library: Any, a: Any, b: Any) -> Any:
    """No derivative at the minimum."""
    return a.abs().sum() + (b - 0.5).abs().max() * 2


FUNCTIONS = (rosenbrock, wavy, kinked)
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"lr": 0.01},
    "search": {"line_search_fn": "strong_wolfe"},
    "search from afar": {"line_search_fn": "strong_wolfe", "lr": 30, "max_iter": 7},
    "short history": {"line_search_fn": "strong_wolfe", "history_size": 2, "max_iter": 5},
    "few evaluations": {"line_search_fn": "strong_wolfe", "max_eval": 3},
    "tolerant": {"lr": 0.01, "tolerance_grad": 0.5, "tolerance_change": 1e-3},
}


def trajectory(library: Any, function: Any, options: dict[str, Any], steps: int) -> list[Any]:
    """Losses, evaluations and parameters of some steps; the state is saved and loaded between."""
    leaves = [library.from_numpy(start.copy()).requires_grad_(True) for start in START]
    optimizer = library.optim.LBFGS(leaves, **options)
    found = []
    for number in range(steps):
        losses: list[float] = []

        def closure(losses: list[float] = losses, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = function(library, *leaves)
            loss.backward()
            losses.append(loss.item())
            return loss

        returned = optimizer.step(closure)
        state = optimizer.state[leaves[0]]
        found.append(
            [
                returned.item(), *losses, state["func_evals"], state["n_iter"],
                *(x for leaf in leaves for x in leaf.detach().reshape(-1).tolist()),
            ]
        )  # fmt: skip
        if number == 1:
            saved = optimizer.state_dict()
            optimizer = library.optim.LBFGS(leaves, **options)
            optimizer.load_state_dict(saved)
    return found


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_trajectories_are_pytorchs(function: Any, name: str) -> None:
    """Every evaluation's loss, and all parameters after each step."""
    steps = 2 if function is kinked else 4  # at kinks rounding decides which way it goes
    expected = trajectory(torch, function, OPTIONS[name], steps)
    actual = trajectory(dj, function, OPTIONS[name], steps)

    for wanted, found in zip(expected, actual, strict=True):
        assert len(wanted) == len(found)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_states_are_pytorchs() -> None:
    """Names of entries, and a state that PyTorch saved."""
    names = []
    for library in (torch, dj):
        leaf = library.ones(3, requires_grad=True)
        optimizer = library.optim.LBFGS([leaf], line_search_fn="strong_wolfe")

        def closure(optimizer: Any = optimizer, leaf: Any = leaf) -> Any:
            optimizer.zero_grad()
            loss = ((leaf - 3) ** 4).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        names.append(set(optimizer.state_dict()["state"][0]))
    assert names[0] == names[1]


def test_what_it_refuses() -> None:
    """Groups, complex parameters, other searches, negative rates."""
    x, y = dj.ones(1, requires_grad=True), dj.ones(1, requires_grad=True)
    with pytest.raises(InvalidValueError, match="per-parameter options"):
        dj.optim.LBFGS([{"params": [x]}, {"params": [y]}])
    with pytest.raises(UnsupportedError, match="complex"):
        dj.optim.LBFGS([dj.tensor([1j], requires_grad=True)])
    with pytest.raises(InvalidValueError):
        dj.optim.LBFGS([x], lr=-1)
    optimizer = dj.optim.LBFGS([x], line_search_fn="golden")

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="strong_wolfe"):
        optimizer.step(closure)


def test_nothing_is_done_at_a_minimum() -> None:
    """One evaluation; float32 gets near to a minimum."""
    x = dj.zeros(2, requires_grad=True)
    optimizer = dj.optim.LBFGS([x], line_search_fn="strong_wolfe")
    calls = []

    def closure() -> Any:
        optimizer.zero_grad()
        calls.append(1)
        loss = ((x * x) ** 2).sum() + (x * x).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert 1 == len(calls)
    with dj.no_grad():
        x.fill_(2.0)
    optimizer.step(closure)
    assert (x.detach().abs() < 1e-4).all()
