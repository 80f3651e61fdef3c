"""Training on a GPU: models and optimisers compiled, alone and as whole steps, against the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn as nn
import dynajit.nn.functional as F

pytestmark = pytest.mark.usefixtures("driver", "strict_programs")
STEPS = 3


def mlp() -> Any:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 5))


def convnet() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5)
    )


class Attention(nn.Module):
    """A causal block over embedded words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, text: Any) -> Any:
        return self.head(self.block(self.words(text)).mean(1))


random = np.random.default_rng(0)
MODELS: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    "mlp": (mlp, random.standard_normal((8, 6)).astype(np.float32)),
    "convnet": (convnet, random.standard_normal((4, 1, 8, 8)).astype(np.float32)),
    "attention": (Attention, random.integers(0, 11, (4, 7))),
}


def trained(
    name: str, device: str, wrap: Callable[[Any], Any], make: Callable[[Any], Any]
) -> tuple[list[float], list[np.ndarray]]:
    """Losses of some steps and the parameters after them."""
    model, inputs = MODELS[name]
    dj.manual_seed(0)
    made = model()
    made.to(device)
    optimizer = make(made.parameters())
    x = dj.from_numpy(inputs).to(device)
    y = (dj.arange(len(inputs)) % 5).to(device)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(made(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = wrap(step)
    losses = [run(x, y).item() for _ in range(STEPS)]
    return losses, [p.detach().cpu().numpy() for p in made.parameters()]


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:dynajit. .* is cut into:RuntimeWarning")
def test_a_whole_step_on_the_gpu_is_that_of_the_cpu(name: str, mode: str | None) -> None:
    def optimizer(parameters: Any) -> Any:
        # The bias of keys has no gradient but rounding, which Adam would make steps of full size.
        if name == "attention":
            return dj.optim.SGD(parameters, lr=0.1, momentum=0.9)
        return dj.optim.AdamW(parameters, lr=1e-2)

    want = trained(name, "cpu", lambda step: step, optimizer)
    got = trained(name, "cuda", lambda step: dj.compile(step, mode=mode), optimizer)

    np.testing.assert_allclose(got[0], want[0], rtol=1e-4)
    for mine, theirs in zip(got[1], want[1], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)
