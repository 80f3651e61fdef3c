"""Cost of eager operations on small tensors, where the call is nearly all of the time.

Run: `python -m benchmarks eager --compare torch`. Every case is one callable over a namespace `m`
(dynajit or torch); the figures are medians of interleaved rounds.
"""

from collections.abc import Callable, Sequence
from typing import Any

import dynajit as dj
from dynajit.core.process import optional
from dynajit.measuring.timing import interleaved, row


def cases(m: Any) -> dict[str, Callable[[], Any]]:
    """What is measured, on tensors of 8 and of 4 x 8 float32 elements, and images of 3 x 8 x 8."""
    functional = m.nn.functional
    x, y, leaf = m.ones(8), m.ones(8), m.ones(8, requires_grad=True)
    batch, weight, classes = m.ones(4, 8), m.ones(8, 8), m.tensor([1, 2, 3, 0])
    recorded, images = m.ones(4, 8, requires_grad=True), m.ones(2, 3, 8, 8)
    mean, variance = m.zeros(3), m.ones(3)

    def step() -> None:
        scaled = leaf * 2 + 1
        (scaled * scaled).sum().backward()

    def with_gradient(function: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: m.autograd.grad(function(recorded).sum(), recorded)

    return {
        "x + y": lambda: x + y,
        "x * 2.0": lambda: x * 2.0,
        "x < y": lambda: x < y,
        "x + y, recorded": lambda: leaf + y,
        "exp": lambda: x.exp(),
        "sum": lambda: x.sum(),
        "sum(dim)": lambda: batch.sum(1),
        "x[0]": lambda: x[0],
        "x[2:5]": lambda: x[2:5],
        "x[0] = 1.0": lambda: x.__setitem__(0, 1.0),
        "x.add_(y)": lambda: x.add_(y),
        "view": lambda: x.view(2, 4),
        "reshape(-1)": lambda: batch.reshape(-1),
        "detach": lambda: leaf.detach(),
        "chunk": lambda: batch.chunk(2),
        "cat": lambda: m.cat([batch, batch]),
        "stack": lambda: m.stack([batch, batch]),
        "zeros": lambda: m.zeros(4, 8),
        "arange": lambda: m.arange(8),
        "randn": lambda: m.randn(4, 8),
        "transpose": lambda: batch.transpose(0, 1),
        "matmul": lambda: batch @ weight,
        "linear": lambda: functional.linear(batch, weight, x),
        "layer_norm": lambda: functional.layer_norm(batch, (8,), x, y),
        "softmax": lambda: functional.softmax(batch, -1),
        "gelu": lambda: functional.gelu(batch),
        "silu": lambda: functional.silu(batch),
        "clamp": lambda: batch.clamp(-1.0, 1.0),
        "dropout": lambda: functional.dropout(batch, 0.5),
        "embedding": lambda: functional.embedding(classes, weight),
        "var(dim)": lambda: batch.var(1),
        "max_pool2d": lambda: functional.max_pool2d(images, 2),
        "avg_pool2d": lambda: functional.avg_pool2d(images, 2),
        "batch_norm": lambda: functional.batch_norm(images, mean, variance, training=True),
        "cross_entropy": lambda: functional.cross_entropy(batch, classes),
        "layer_norm, backward": with_gradient(lambda v: functional.layer_norm(v, (8,))),
        "softmax, backward": with_gradient(lambda v: functional.softmax(v, -1)),
        "cross_entropy, backward": with_gradient(lambda v: functional.cross_entropy(v, classes)),
        "dropout, backward": with_gradient(lambda v: functional.dropout(v, 0.5)),
        "4 operations and backward": step,
        "MLP 8, 16, 4, batch 4, Adam": training_step(m, (8, 16, 4), 4),
        "MLP 784, 256, 10, batch 64, Adam": training_step(m, (784, 256, 10), 64),
    }


def training_step(m: Any, widths: tuple[int, int, int], batch: int) -> Callable[[], Any]:
    """A step of a classifier with one hidden layer."""
    inner = m.nn.Linear(*widths[:2]), m.nn.ReLU(), m.nn.Linear(*widths[1:])
    model, loss = m.nn.Sequential(*inner), m.nn.CrossEntropyLoss()
    optimizer = m.optim.Adam(model.parameters(), lr=1e-3)
    x, classes = m.randn(batch, widths[0]), m.arange(batch) % widths[2]

    def step() -> None:
        optimizer.zero_grad()
        loss(model(x), classes).backward()
        optimizer.step()

    return step


def main(compare: Sequence[str] = ()) -> None:
    """Print the table; ratios against dynajit."""
    found = {"eager": cases(dj)}
    if "torch" in compare:
        torch = optional.load("torch", needed_for="--compare torch", install="torch")
        found["torch eager"] = cases(torch)
    for name in found["eager"]:
        times = interleaved({library: calls[name] for library, calls in found.items()})
        print(row(name, times, "eager"))
