"""Networks and convolutions of `python -m benchmarks`: PyTorch's numbers, eager and compiled."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from benchmarks import convolutions, networks
from benchmarks.networks import Network

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.one_python

SMALL = {
    "plain blocks": Network(lambda m: networks.resnet(m, (1, 1), False), (3, 32, 32)),
    "deep blocks": Network(lambda m: networks.resnet(m, (1, 1), True), (3, 32, 32)),
    "U-Net": Network(lambda m: networks.unet(m, 4), (3, 24, 24)),
    "ConvNeXt": Network(lambda m: networks.convnext(m, 12, 1), (3, 16, 16)),
    "EfficientNet": Network(networks.efficientnet, (3, 20, 20)),
    "SRGAN": Network(lambda m: networks.srgan(m, 8, 1), (3, 8, 8)),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: Any) -> None:
    """PyTorch's compiler would take minutes."""
    monkeypatch.setattr(torch, "compile", lambda model: model)


@pytest.mark.parametrize("name", SMALL)
def test_networks_have_the_numbers_of_pytorch(name: str) -> None:
    found = {
        kind: np.asarray(run().numpy()) for kind, run in networks.evaluations(SMALL[name], 1, torch)
    }

    expected = found.pop("torch")
    scale = np.abs(expected).max()
    for kind, got in found.items():
        assert np.abs(got - expected).max() < 1e-5 * scale, kind


@pytest.mark.parametrize("name", SMALL)
def test_steps_of_training_have_the_losses_of_pytorch(name: str) -> None:
    """Of three steps, of two images each."""
    found = {
        kind: [float(run().detach()) for _ in range(3)]
        for kind, run in networks.steps(SMALL[name], 2, torch)
    }

    expected = found.pop("torch")
    assert expected[0] != expected[2]
    for kind, got in found.items():
        np.testing.assert_allclose(got, expected, rtol=1e-4, err_msg=kind)


@pytest.mark.parametrize("title", convolutions.SETTINGS)
def test_convolutions_have_the_numbers_of_pytorch(title: str) -> None:
    setting = convolutions.SETTINGS[title]
    ours, other = (convolutions.calls_of(m, setting) for m in (dj, torch))

    for kind in ("eager", "with ReLU"):
        got, expected = ours[kind]().numpy(), other[kind]().numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
