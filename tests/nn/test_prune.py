"""Pruning: PyTorch's masks, state dicts and refusals."""

import importlib
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.nn.utils import prune

DATA = np.random.default_rng(0).standard_normal((6, 5)).astype("float32")


def _pair(program: Any) -> list[Any]:
    """The layer after `program(library, prune, layer)`, ours and PyTorch's."""
    torch = pytest.importorskip("torch")
    layers = []
    for library in (dj, torch):
        layer = library.nn.Linear(5, 6)
        with library.no_grad():
            layer.weight.copy_(library.tensor(DATA))
            layer.bias.copy_(library.arange(-3.0, 3.0))
        program(library, importlib.import_module(f"{library.__name__}.nn.utils.prune"), layer)
        layers.append(layer)
    return layers


def _scored(l: Any, p: Any, m: Any) -> None:
    scores = l.arange(30.0).reshape(6, 5)
    p.l1_unstructured(m, "weight", 4, importance_scores=scores)


def _twice(l: Any, p: Any, m: Any) -> None:
    p.l1_unstructured(m, "weight", 0.3)
    p.ln_structured(m, "weight", 2, n=2, dim=0)
    p.l1_unstructured(m, "weight", 3)
    p.ln_structured(m, "weight", 0.25, n=1, dim=-1)


PROGRAMS = [
    lambda l, p, m: p.l1_unstructured(m, "weight", 0.4),
    lambda l, p, m: p.l1_unstructured(m, "bias", 2),
    lambda l, p, m: p.l1_unstructured(m, "weight", 0),
    lambda l, p, m: p.l1_unstructured(m, "weight", 1.0),
    lambda l, p, m: p.ln_structured(m, "weight", 2, n=2, dim=0),
    lambda l, p, m: p.ln_structured(m, "weight", 0.5, n=float("inf"), dim=-1),
    lambda l, p, m: p.identity(m, "weight"),
    lambda l, p, m: p.custom_from_mask(m, "weight", l.tensor(DATA > 0)),
    lambda l, p, m: p.random_unstructured(m, "weight", 1.0),
    lambda l, p, m: p.global_unstructured(
        [(m, "weight"), (m, "bias")], pruning_method=p.L1Unstructured, amount=9
    ),
    _scored,
    _twice,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_masks_values_and_gradients_are_pytorchs(program: Any) -> None:
    """State dicts, results, gradients; also after the pruning is made permanent."""
    ours, theirs = _pair(program)
    torch = pytest.importorskip("torch")
    assert list(theirs.state_dict()) == list(ours.state_dict())
    assert prune.is_pruned(dj.nn.Sequential(ours))
    for library, layer in ((dj, ours), (torch, theirs)):
        layer(library.ones(2, 5)).square().sum().backward()
    for name, value in theirs.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), ours.state_dict()[name].numpy())
    gradients = dict(ours.named_parameters())
    for name, parameter in theirs.named_parameters():
        np.testing.assert_allclose(parameter.grad, gradients[name].grad.numpy(), rtol=1e-5)
    for name in ("weight", "bias"):
        if f"{name}_orig" in gradients:
            prune.remove(ours, name)
            importlib.import_module("torch.nn.utils.prune").remove(theirs, name)
    assert not prune.is_pruned(ours)
    assert list(theirs.state_dict()) == list(ours.state_dict())
    np.testing.assert_array_equal(theirs.weight.detach(), ours.weight.detach().numpy())


def test_random_methods_prune_as_many_as_asked() -> None:
    """Elements, and whole slices."""
    layer = prune.random_unstructured(dj.nn.Linear(5, 6), "weight", 7)
    assert 7 == int((layer.weight_mask == 0).sum())
    layer = prune.random_structured(dj.nn.Linear(5, 6), "weight", 2, dim=1)
    assert [0, 0, 6, 6, 6] == sorted(layer.weight_mask.sum(dim=0).tolist())


def test_a_pruned_layer_is_compiled() -> None:
    """The same results and gradients."""
    layer = prune.l1_unstructured(dj.nn.Linear(5, 6), "weight", 0.5)
    x = dj.ones(2, 5)
    expected = layer(x).detach().numpy()

    np.testing.assert_allclose(expected, dj.compile(layer)(x).detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("error", "program"),
    [
        (ValueError, lambda p, m: p.l1_unstructured(m, "weight", 1.5)),
        (ValueError, lambda p, m: p.l1_unstructured(m, "weight", -1)),
        (ValueError, lambda p, m: p.l1_unstructured(m, "weight", 31)),
        (TypeError, lambda p, m: p.l1_unstructured(m, "weight", "half")),
        (ValueError, lambda p, m: p.ln_structured(m, "bias", 1, n=2, dim=0)),
        (IndexError, lambda p, m: p.ln_structured(m, "weight", 1, n=2, dim=2)),
        (ValueError, lambda p, m: p.remove(m, "weight")),
        (AttributeError, lambda p, m: p.identity(m, "nothing")),
        (
            TypeError,
            lambda p, m: p.global_unstructured([(m, "weight")], p.LnStructured, amount=1, n=2),
        ),
    ],
)
def test_refusals_are_pytorchs(error: type[Exception], program: Any) -> None:
    """And leave the module as it was."""
    pytest.importorskip("torch")
    for path in ("dynajit", "torch"):
        layer = importlib.import_module(path).nn.Linear(5, 6)
        with pytest.raises(error):
            program(importlib.import_module(f"{path}.nn.utils.prune"), layer)
        assert ["weight", "bias"] == list(layer.state_dict()) or path == "torch"
