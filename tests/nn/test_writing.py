"""The `inplace` argument and the functions with an underscore against PyTorch."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).standard_normal((4, 5)) * 3

LAYERS = {
    "relu": lambda t: t.nn.ReLU(inplace=True),
    "relu6": lambda t: t.nn.ReLU6(inplace=True),
    "leaky relu": lambda t: t.nn.LeakyReLU(0.2, inplace=True),
    "elu": lambda t: t.nn.ELU(0.7, inplace=True),
    "selu": lambda t: t.nn.SELU(inplace=True),
    "celu": lambda t: t.nn.CELU(0.7, inplace=True),
    "silu": lambda t: t.nn.SiLU(inplace=True),
    "mish": lambda t: t.nn.Mish(inplace=True),
    "hardswish": lambda t: t.nn.Hardswish(inplace=True),
    "hardsigmoid": lambda t: t.nn.Hardsigmoid(inplace=True),
    "hardtanh": lambda t: t.nn.Hardtanh(inplace=True),
    "threshold": lambda t: t.nn.Threshold(0.5, -1.0, inplace=True),
    "rrelu": lambda t: t.nn.RReLU(0.1, 0.3, inplace=True).eval(),
    "dropout": lambda t: t.nn.Dropout(0.5, inplace=True).eval(),
    "relu_": lambda t: t.nn.functional.relu_,
    "leaky_relu_": lambda t: lambda x: t.nn.functional.leaky_relu_(x, 0.3),
    "elu_": lambda t: t.nn.functional.elu_,
    "selu_": lambda t: t.nn.functional.selu_,
    "celu_": lambda t: t.nn.functional.celu_,
    "hardtanh_": lambda t: lambda x: t.nn.functional.hardtanh_(x, -0.5, 0.5),
    "threshold_": lambda t: lambda x: t.nn.functional.threshold_(x, 0.5, -1.0),
    "rrelu_": lambda t: lambda x: t.nn.functional.rrelu_(x, 0.2, 0.2),
}


def found(library: Any, layer: Any, run: Any = None) -> list[Any]:
    """Whether the result is what was written, the result, and the gradient behind the write."""
    x = library.from_numpy(X.copy()).requires_grad_()

    def written(x: Any) -> tuple[Any, Any]:
        hidden = x * 2
        return layer(hidden), hidden

    result, hidden = (run or (lambda f: f))(written)(x)
    (result * result).sum().backward()
    return [result.detach().numpy(), hidden.detach().numpy(), x.grad.numpy()]


@pytest.mark.parametrize("name", LAYERS)
def test_what_writes_its_input_has_pytorchs_gradient(name: str) -> None:
    """The derivative is that of the values before the write."""
    expected = found(torch, LAYERS[name](torch))
    for theirs, ours in zip(expected, found(dj, LAYERS[name](dj)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


def test_compiled_code_writes_alike() -> None:
    """Several writes in one graph."""

    layers = [LAYERS[name](dj) for name in ("leaky relu", "silu", "hardswish", "elu")]

    def several(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    expected = found(dj, several)
    actual = found(dj, several, lambda f: dj.compile(f, fullgraph=True))
    for theirs, ours in zip(expected, actual, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


def test_leaves_that_require_gradients_are_not_written() -> None:
    """As in PyTorch, a RuntimeError."""
    with pytest.raises(RuntimeError, match="leaf"):
        dj.nn.LeakyReLU(inplace=True)(dj.zeros(3, requires_grad=True))


@pytest.mark.parametrize("name", ["Dropout", "Dropout2d", "AlphaDropout"])
def test_dropout_of_nothing_writes_nothing(name: str) -> None:
    """What softmax has saved is still there for backward; leaves are passed on, as in PyTorch."""
    for library in (torch, dj):
        layers = [getattr(library.nn, name)(0.5, inplace=True).eval()]
        if name == "Dropout":
            layers.append(getattr(library.nn, name)(0.0, inplace=True))
        for layer in layers:
            x = library.ones(2, 3, 4, 4, requires_grad=True)
            weights = x.softmax(-1)
            assert layer(weights) is weights
            weights.square().sum().backward()
            assert layer(x) is x
    dropped = dj.compile(lambda x: (layer(x.softmax(-1)) ** 2).sum(), fullgraph=True)
    dropped(x).backward()
