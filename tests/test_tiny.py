"""The whole path once, in two seconds: what a developer runs first.

    python -m pytest tests/test_tiny.py

An eager training step, the same step compiled, a break, a guard that fails, a file, a refusal. Each
test fails alone where its part of the path is broken.
"""

import io

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn

X = dj.tensor(np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3))
Y = X.sum(1, keepdim=True) * 0.5


def trained(wrap) -> list[float]:
    """Losses of three steps."""
    dj.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = dj.optim.SGD(model.parameters(), lr=0.1)
    forward = wrap(lambda x: ((model(x) - Y) ** 2).mean())
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = forward(X)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_model_learns_and_compiled_it_learns_the_same() -> None:
    plain = trained(lambda function: function)
    compiled = trained(lambda function: dj.compile(function, fullgraph=True))

    assert plain[0] > plain[1] > plain[2]
    np.testing.assert_allclose(compiled, plain, rtol=1e-5)


def test_values_and_gradients_are_those_of_the_formula() -> None:
    x = X.clone().requires_grad_()
    dj.compile(lambda x: (x.sin() * x).sum(), fullgraph=True)(x).backward()

    array = X.numpy().astype(np.float64)
    np.testing.assert_allclose(x.grad, np.sin(array) + array * np.cos(array), rtol=1e-5)


def test_a_break_is_reported_and_changes_no_result() -> None:
    def function(x):
        y = x * 2
        dj.graph_break()
        return y + 1

    found = dj.explain(function)(X)

    assert 2 == found.graph_count
    np.testing.assert_allclose(dj.compile(function)(X), X.numpy() * 2 + 1)


def test_another_value_of_python_makes_another_version() -> None:
    compiled = dj.compile(lambda x, is_double: x * 2 if is_double else x)

    np.testing.assert_array_equal(compiled(X, True), X.numpy() * 2)
    np.testing.assert_array_equal(compiled(X, False), X.numpy())


def test_a_checkpoint_comes_back() -> None:
    file = io.BytesIO()
    dj.save({"x": X}, file)
    file.seek(0)

    np.testing.assert_array_equal(dj.load(file)["x"], X)


@pytest.mark.parametrize("wrap", [lambda function: function, dj.compile])
def test_a_refusal_names_the_call(wrap) -> None:
    with pytest.raises(RuntimeError, match="matmul"):
        wrap(lambda x: x @ x)(X)
