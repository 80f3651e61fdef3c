"""Optimisers against PyTorch over several steps; groups, state dicts, refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

START = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def steps(library: Any, make: Callable[[Any, Any], Any], count: int = 6) -> np.ndarray:
    """The parameter after some steps on an uneven quadratic."""
    parameter = library.nn.Parameter(library.from_numpy(START.copy()))
    optimizer = make(library.optim, [parameter])
    scale = library.from_numpy(np.arange(1, 7, dtype=np.float32).reshape(2, 3))
    for _ in range(count):
        optimizer.zero_grad()
        ((parameter - 0.3) ** 2 * scale).sum().backward()
        optimizer.step()
    return parameter.detach().numpy()


CASES = {
    "sgd": lambda optim, p: optim.SGD(p, lr=0.01),
    "momentum": lambda optim, p: optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.1),
    "nesterov": lambda optim, p: optim.SGD(
        p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.1
    ),
    "ascent": lambda optim, p: optim.SGD(p, lr=0.01, maximize=True),
    "adam": lambda optim, p: optim.Adam(p, lr=0.05),
    "adam with decay": lambda optim, p: optim.Adam(p, lr=0.05, weight_decay=0.1),
    "amsgrad": lambda optim, p: optim.Adam(p, lr=0.05, amsgrad=True, betas=(0.5, 0.6)),
    "adamw": lambda optim, p: optim.AdamW(p, lr=0.05, weight_decay=0.1, eps=1e-4),
}


@pytest.mark.parametrize("name", CASES)
def test_steps_equal_pytorchs(name: str) -> None:
    """The same parameters after six steps."""
    torch = pytest.importorskip("torch")

    np.testing.assert_allclose(
        steps(dj, CASES[name]), steps(torch, CASES[name]), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", ["momentum", "amsgrad"])
def test_state_dict_continues_where_it_stopped(name: str) -> None:
    """Three steps, a new optimiser with the saved state, three more: as six in one go."""
    parameter = dj.nn.Parameter(dj.from_numpy(START.copy()))
    optimizer = CASES[name](dj.optim, [parameter])
    scale = dj.from_numpy(np.arange(1, 7, dtype=np.float32).reshape(2, 3))
    for number in range(6):
        if number == 3:
            state = optimizer.state_dict()
            optimizer = CASES[name](dj.optim, [parameter])
            optimizer.load_state_dict(state)
        optimizer.zero_grad()
        ((parameter - 0.3) ** 2 * scale).sum().backward()
        optimizer.step()

    assert np.array_equal(steps(dj, CASES[name]), parameter.detach().numpy())


def test_groups_have_their_own_options() -> None:
    """A group without an option takes the default."""
    slow, fast = dj.nn.Parameter(dj.ones(1)), dj.nn.Parameter(dj.ones(1))
    optimizer = dj.optim.SGD([{"params": [slow]}, {"params": [fast], "lr": 1.0}], lr=0.1)
    (slow + fast).sum().backward()
    optimizer.step()

    assert [pytest.approx(0.9)] == slow.tolist()
    assert [0.0] == fast.tolist()


def test_closure_runs_with_gradients_on() -> None:
    """Its loss is returned."""
    parameter = dj.nn.Parameter(dj.ones(1))
    optimizer = dj.optim.SGD([parameter], lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (parameter * 2).sum()
        loss.backward()
        return loss

    assert 2.0 == optimizer.step(closure).item()
    assert [0.0] == parameter.tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dj.optim.SGD([]), "empty parameter list"),
        (lambda: dj.optim.SGD([dj.ones(1, requires_grad=True)], lr=-1), "Invalid learning rate"),
        (lambda: dj.optim.SGD([dj.ones(1, requires_grad=True) * 2]), "non-leaf"),
        (lambda: dj.optim.Adam([dj.ones(1, requires_grad=True)], betas=(1.0, 0.9)), "beta"),
        (lambda: dj.optim.SGD([dj.ones(1)], nesterov=True), "Nesterov"),
    ],
)
def test_wrong_options_are_refused(make: Callable[[], Any], message: str) -> None:
    """PyTorch's errors."""
    with pytest.raises(ValueError, match=message):
        make()


def test_a_parameter_in_two_groups_is_refused() -> None:
    """It would be updated twice."""
    parameter = dj.nn.Parameter(dj.ones(1))
    with pytest.raises(ValueError, match="more than one parameter group"):
        dj.optim.SGD([{"params": [parameter]}, {"params": [parameter]}], lr=0.1)


def test_a_bare_tensor_is_refused() -> None:
    """The message says to pass a list."""
    with pytest.raises(TypeError, match=r"Pass \[tensor\]"):
        dj.optim.SGD(dj.nn.Parameter(dj.ones(1)))
