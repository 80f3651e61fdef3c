"""Layers and losses against PyTorch, forward and backward, with the same weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 5, 6), dtype=np.float32)
INDICES = RANDOM.integers(0, 9, (4, 5))
CLASSES = np.array([1, 0, 4, 2])
LOGITS = RANDOM.standard_normal((4, 5), dtype=np.float32)


def on(library: Any, array: np.ndarray) -> Any:
    """The array as a tensor of the library; floats require gradients."""
    tensor = library.from_numpy(array.copy())
    return tensor.requires_grad_() if array.dtype.kind == "f" else tensor


def run(library: Any, make: Callable[[Any], Any], inputs: tuple[np.ndarray, ...]) -> Any:
    """(output, gradients of inputs and parameters) as arrays; weights are set by formula."""
    module = make(library.nn)
    for number, parameter in enumerate(module.parameters()):
        count = int(np.prod(parameter.shape))
        values = np.cos(np.arange(count) * 0.7 + number).reshape(tuple(parameter.shape))
        parameter.data = library.from_numpy(values.astype(np.float32))
    tensors = [on(library, array) for array in inputs]
    output = module(*tensors)
    weight = library.from_numpy(
        np.sin(np.arange(output.numel())).reshape(tuple(output.shape)).astype(np.float32)
    )
    if output.requires_grad:
        (output * weight).sum().backward()
    gradients = [t.grad for t in (*tensors, *module.parameters())]
    found = [None if g is None else g.numpy() for g in gradients]
    return output.detach().numpy(), found


CASES = {
    "linear": (lambda nn: nn.Linear(6, 3), (X,)),
    "linear without bias": (lambda nn: nn.Linear(6, 3, bias=False), (X,)),
    "embedding": (lambda nn: nn.Embedding(9, 4), (INDICES,)),
    "embedding with padding": (lambda nn: nn.Embedding(9, 4, padding_idx=2), (INDICES,)),
    "layer norm": (lambda nn: nn.LayerNorm(6), (X,)),
    "layer norm over two dims": (lambda nn: nn.LayerNorm((5, 6)), (X,)),
    "layer norm without weights": (lambda nn: nn.LayerNorm(6, elementwise_affine=False), (X,)),
    "rms norm": (lambda nn: nn.RMSNorm(6, eps=1e-6), (X,)),
    "relu": (lambda nn: nn.ReLU(), (X,)),
    "relu6": (lambda nn: nn.ReLU6(), (X * 5,)),
    "gelu": (lambda nn: nn.GELU(), (X,)),
    "gelu tanh": (lambda nn: nn.GELU("tanh"), (X,)),
    "silu": (lambda nn: nn.SiLU(), (X,)),
    "sigmoid": (lambda nn: nn.Sigmoid(), (X,)),
    "tanh": (lambda nn: nn.Tanh(), (X,)),
    "leaky relu": (lambda nn: nn.LeakyReLU(0.1), (X,)),
    "elu": (lambda nn: nn.ELU(0.7), (X,)),
    "softplus": (lambda nn: nn.Softplus(2.0, 1.0), (X,)),
    "softmax": (lambda nn: nn.Softmax(dim=1), (X,)),
    "log softmax": (lambda nn: nn.LogSoftmax(dim=-1), (X,)),
    "flatten": (lambda nn: nn.Flatten(), (X,)),
    "unflatten": (lambda nn: nn.Unflatten(2, (2, 3)), (X,)),
    "dropout in evaluation": (lambda nn: nn.Dropout(0.5).eval(), (X,)),
    "mse": (lambda nn: nn.MSELoss(), (X, X[::-1].copy())),
    "l1 sum": (lambda nn: nn.L1Loss(reduction="sum"), (X, X[::-1].copy())),
    "cross entropy": (lambda nn: nn.CrossEntropyLoss(), (LOGITS, CLASSES)),
    "cross entropy smoothed": (
        lambda nn: nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1), (LOGITS, CLASSES),
    ),
    "cross entropy of probabilities": (
        lambda nn: nn.CrossEntropyLoss(reduction="none"),
        (LOGITS, np.abs(LOGITS) / np.abs(LOGITS).sum(1, keepdims=True)),
    ),
    "nll": (lambda nn: nn.NLLLoss(), (LOGITS, CLASSES)),
    "bce with logits": (
        lambda nn: nn.BCEWithLogitsLoss(), (LOGITS, (LOGITS > 0).astype(np.float32)),
    ),
    "sequential": (
        lambda nn: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)),
        (X,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_layer_equals_pytorchs(name: str) -> None:
    """Output and every gradient, float32, within rounding."""
    make, inputs = CASES[name]
    expected, expected_gradients = run(torch, make, inputs)
    actual, gradients = run(dj, make, inputs)

    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)
    assert [g is None for g in expected_gradients] == [g is None for g in gradients]
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5)


def test_dropout_keeps_the_expectation_and_zeroes_a_share() -> None:
    """In training: about p of the elements are 0, the others are scaled by 1 / (1 - p)."""
    dj.manual_seed(0)
    y = dj.nn.Dropout(0.25)(dj.ones(10_000))
    kept = y[y != 0]

    assert 0.72 < kept.numel() / 10_000 < 0.78
    np.testing.assert_allclose(kept.numpy(), 1 / 0.75, rtol=1e-6)


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_dropout_probability_is_checked(p: float) -> None:
    """PyTorch's error."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        dj.nn.Dropout(p)


def test_default_initialisation_has_pytorchs_bounds() -> None:
    """Linear: uniform within 1/sqrt(in); embedding: standard normal; norm: ones and zeros."""
    linear = dj.nn.Linear(100, 200)
    table = dj.nn.Embedding(200, 50, padding_idx=3)
    norm = dj.nn.LayerNorm(4)

    assert 0.09 < linear.weight.abs().max().item() <= 0.1
    assert 0.09 < linear.bias.abs().max().item() <= 0.1
    assert abs(table.weight.std().item() - 1) < 0.05
    assert [0.0] * 50 == table.weight[3].tolist()
    assert [1.0] * 4 == norm.weight.tolist()
    assert [0.0] * 4 == norm.bias.tolist()
