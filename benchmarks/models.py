"""A training step of an MLP: forward and loss compiled, backward, optimiser eager."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dynajit as dj
from benchmarks.timing import interleaved, row
from dynajit.core.process import optional


def training_step(
    m: Any, images: Any, targets: Any, wrap: Callable[[Any], Any]
) -> Callable[[], Any]:
    """One step of a 64-256-256-10 MLP with SGD, as a callable without arguments."""
    layers = (
        m.nn.Linear(64, 256), m.nn.ReLU(), m.nn.Linear(256, 256), m.nn.ReLU(), m.nn.Linear(256, 10),
    )  # fmt: skip
    model = m.nn.Sequential(*layers)
    optimizer = m.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def loss_of(x: Any, y: Any) -> Any:
        return m.nn.functional.cross_entropy(model(x), y)

    compiled = wrap(loss_of)

    def step() -> Any:
        optimizer.zero_grad()
        loss = compiled(images, targets)
        loss.backward()
        optimizer.step()
        return loss

    return step


def main(compare: Sequence[str] = ()) -> None:
    """Print the table; ratios against dynajit eager."""
    random = np.random.default_rng(0)
    images = random.standard_normal((64, 64), dtype=np.float32)
    targets = random.integers(0, 10, 64)
    x, y = dj.from_numpy(images), dj.from_numpy(targets)
    found = {
        "eager": training_step(dj, x, y, lambda function: function),
        "compiled": training_step(dj, x, y, dj.compile),
    }
    if "torch" in compare:
        torch = optional.load("torch", needed_for="--compare torch", install="torch")
        x, y = torch.from_numpy(images), torch.from_numpy(targets)
        found["torch eager"] = training_step(torch, x, y, lambda function: function)
        found["torch.compile"] = training_step(torch, x, y, torch.compile)
    print(row("MLP training step, batch 64", interleaved(found), "eager"))
