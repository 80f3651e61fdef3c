"""Second derivatives of functions of straight pieces: zeros, as in PyTorch, and not nothing."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

FUNCTIONS = {
    "relu": lambda m, x: m.nn.functional.relu(x),
    "leaky_relu": lambda m, x: m.nn.functional.leaky_relu(x, 0.2),
    "relu6": lambda m, x: m.nn.functional.relu6(x),
    "hardtanh": lambda m, x: m.nn.functional.hardtanh(x),
}


def second(library: Any, name: str) -> list[list[float]]:
    """Gradients of a penalty on a gradient by what it came from."""
    x = library.tensor([-1.5, -0.5, 0.0, 0.5, 1.5, float("nan")], requires_grad=True)
    bias = library.zeros(6, requires_grad=True)
    result = FUNCTIONS[name](library, x * 1.5 + bias)
    (gradient,) = library.autograd.grad(result.sum(), x, create_graph=True)
    assert gradient.requires_grad
    found = library.autograd.grad((gradient * gradient).sum(), (x, bias))
    return [gradient.tolist(), *(each.tolist() for each in found)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_derivative_of_a_slope_is_zeros(name: str) -> None:
    torch = pytest.importorskip("torch")

    np.testing.assert_array_equal(second(dj, name), second(torch, name))


def penalties(library: Any, wrap: Any) -> dict[str, Any]:
    """Gradients of WGAN-GP's penalty by the parameters of a critic."""
    nn, values = library.nn, np.random.default_rng(1)
    critic = nn.Sequential(
        nn.Linear(3, 4), nn.LeakyReLU(0.2), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)
    )
    state = {
        name: library.from_numpy(values.standard_normal(tuple(value.shape)).astype("f4"))
        for name, value in critic.state_dict().items()
    }
    critic.load_state_dict(state)
    x = library.from_numpy(values.standard_normal((5, 3)).astype("f4")).requires_grad_()
    result = wrap(critic)(x)
    ones = library.ones_like(result)
    (gradient,) = library.autograd.grad(result, x, ones, create_graph=True)
    ((gradient.norm(2, dim=1) - 1) ** 2).mean().backward()
    return {
        name: None if parameter.grad is None else parameter.grad.numpy()
        for name, parameter in critic.named_parameters()
    }


@pytest.mark.parametrize("wrap", [lambda critic: critic, dj.compile], ids=["eager", "compiled"])
def test_a_gradient_penalty_reaches_the_parameters_that_pytorchs_reaches(wrap: Any) -> None:
    torch = pytest.importorskip("torch")
    found, expected = penalties(dj, wrap), penalties(torch, lambda critic: critic)

    assert {name for name, value in found.items() if value is None} == {"4.bias"}
    assert found.keys() == expected.keys()
    for name, value in found.items():
        if value is not None:
            np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-6)
