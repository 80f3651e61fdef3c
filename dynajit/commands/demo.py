"""`python -m dynajit demo`: train two small models on handwritten digits, eagerly and compiled.

The data are scikit-learn's 1797 images of 8 x 8 pixels (bundled with that library). Each model is
trained twice from the same seed with the same batches: once eagerly, once with `@dj.compile` on
the forward pass and the loss. Printed: test accuracy of both runs, the largest relative
difference between their losses, the ratio of their step times, what compiling cost (cold, and
again with the kernels on disk), and the explain report. The loss curves are drawn to a PNG.
"""

import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dynajit import nn, optim
from dynajit.core.process import config, optional
from dynajit.core.records import record
from dynajit.driver.compile import compile, explain
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.modes.random import manual_seed
from dynajit.eager.tensor.creation import from_numpy
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.utils.data import DataLoader, TensorDataset

SEED = 0
TEST_SIZE = 360
"""One fifth of the 1797 images."""


class MultilayerPerceptron(nn.Module):
    """Three linear layers with ReLU: (batch, 64) -> (batch, 10)."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 10),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the ten digits."""
        return self.layers(images.view(images.shape[0], 64))


class Block(nn.Module):
    """One transformer encoder layer, normalised first: (batch, length, width) -> the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.feedforward_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attention, then feed-forward, each added to its input."""
        batch, length, width = x.shape
        parts = self.query_key_value(self.attention_norm(x)).chunk(3, dim=-1)
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        )
        mixed = F.scaled_dot_product_attention(query, key, value)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.contract(F.gelu(self.expand(self.feedforward_norm(x))))


class TransformerClassifier(nn.Module):
    """Each image row is a token of 8 pixels: (batch, 8, 8) -> (batch, 10)."""

    def __init__(self, width: int = 64, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.position = nn.Embedding(8, width)
        self.register_buffer("places", from_numpy(np.arange(8)))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the ten digits."""
        x = self.embed(images) + self.position(self.places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))


@record
class Task:
    """A model to train and what it must reach.

    Args:
        name: for the output.
        model: makes a freshly initialised model.
        optimizer: makes its optimiser.
        epochs: passes over the training images.
        accuracy: test accuracy that the demo promises.
    """

    name: str
    model: Callable[[], nn.Module]
    optimizer: Callable[[Any], optim.Optimizer]
    epochs: int
    accuracy: float


TASKS = (
    Task(
        "MLP",
        MultilayerPerceptron,
        lambda parameters: optim.SGD(parameters, lr=0.05, momentum=0.9),
        epochs=15,
        accuracy=0.95,
    ),
    Task(
        "transformer",
        TransformerClassifier,
        lambda parameters: optim.AdamW(parameters, lr=1e-3),
        epochs=10,
        accuracy=0.93,
    ),
)


@dataclass(slots=True)
class Run:
    """What one training run showed; filled while it runs."""

    losses: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    accuracy: float = 0.0

    @property
    def step_ms(self) -> float:
        """Median step time in milliseconds, the first steps (compilation) left out."""
        return 1e3 * statistics.median(self.step_seconds[3:])


def load_digits() -> tuple[TensorDataset, TensorDataset]:
    """Training and test images, float32 (n, 8, 8) in [0, 1], with their digits, int64 (n,)."""
    datasets = optional.load(
        "sklearn.datasets", needed_for="the demo's data", install="dynajit[demo]"
    )
    digits = datasets.load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.target))
    images = (digits.images[order] / 16).astype("float32")
    targets = digits.target[order].astype("int64")
    train = TensorDataset(from_numpy(images[:-TEST_SIZE]), from_numpy(targets[:-TEST_SIZE]))
    test = TensorDataset(from_numpy(images[-TEST_SIZE:]), from_numpy(targets[-TEST_SIZE:]))
    return train, test


def loss_of(model: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of the model's logits: the function that is compiled."""
    return F.cross_entropy(model(images), targets)


def accuracy_of(model: nn.Module, data: TensorDataset) -> float:
    """Share of the images whose digit the model finds."""
    images, targets = data.tensors
    with no_grad():
        return float((model(images).argmax(dim=1) == targets).float().mean())


def train(
    task: Task,
    data: TensorDataset,
    test: TensorDataset,
    loss_function: Callable[..., Tensor],
    progress: Callable[[int, int, float], None],
    batch_size: int = 64,
) -> tuple[Run, nn.Module]:
    """Train a fresh model; the seed, and with it weights and batches, is always the same."""
    manual_seed(SEED)
    model = task.model()
    optimizer = task.optimizer(model.parameters())
    loader = DataLoader(data, batch_size=batch_size, shuffle=True, drop_last=True)
    run = Run()
    for epoch in range(task.epochs):
        for images, targets in loader:
            start = time.perf_counter()
            optimizer.zero_grad()
            loss = loss_function(model, images, targets)
            loss.backward()
            optimizer.step()
            run.step_seconds.append(time.perf_counter() - start)
            run.losses.append(loss.item())
        progress(epoch + 1, task.epochs, run.losses[-1])
    run.accuracy = accuracy_of(model, test)
    return run, model


def largest_difference(eager: Run, compiled: Run) -> float:
    """Largest relative difference between the losses of two runs, step by step."""
    return max(
        abs(a - b) / max(abs(a), 1e-12) for a, b in zip(eager.losses, compiled.losses, strict=True)
    )


def run_task(task: Task, data: TensorDataset, test: TensorDataset) -> dict[str, Any]:
    """Train eagerly and compiled, compare, and explain."""
    print(f"\n{task.name}")
    eager, _ = train(task, data, test, loss_of, _line("eager"))
    compiled, model = train(task, data, test, compile(loss_of), _line("compiled"))
    compile_cold_ms, compile_warm_ms = compile_times(model, data)
    explanation = explain(loss_of)(model, *_batch(data))
    result = {
        "name": task.name,
        "eager": eager,
        "compiled": compiled,
        "difference": largest_difference(eager, compiled),
        "ratio": eager.step_ms / compiled.step_ms,
        "cold_ms": compile_cold_ms,
        "warm_ms": compile_warm_ms,
        "explanation": explanation,
    }
    print_result(task, result)
    return result


def compile_times(model: nn.Module, data: TensorDataset) -> tuple[float, float]:
    """Milliseconds of the first compiled call: with an empty kernel cache, and with a full one."""
    times = []
    with tempfile.TemporaryDirectory() as folder, config.override(cache_dir=Path(folder)):
        for _ in range(2):
            start = time.perf_counter()
            compile(loss_of)(model, *_batch(data))
            times.append(1e3 * (time.perf_counter() - start))
    return times[0], times[1]


def print_result(task: Task, result: dict[str, Any]) -> None:
    """The figures of one task, a line each."""
    eager, compiled = result["eager"], result["compiled"]
    explanation = result["explanation"]
    met = min(eager.accuracy, compiled.accuracy) >= task.accuracy
    print(
        f"  test accuracy      eager {eager.accuracy:.1%}, compiled {compiled.accuracy:.1%}"
        f"  (promised {task.accuracy:.0%}: {'reached' if met else 'MISSED'})"
    )
    print(f"  largest relative difference between the losses: {result['difference']:.1e}")
    print(
        f"  median step        eager {eager.step_ms:.2f} ms, compiled {compiled.step_ms:.2f} ms:"
        f" {result['ratio']:.2f}x"
    )
    print(
        f"  first call         {result['cold_ms']:.0f} ms cold,"
        f" {result['warm_ms']:.0f} ms with kernels from the cache"
    )
    print(
        f"  captured           {explanation.graph_count} graph, {explanation.break_count} breaks,"
        f" {len(explanation.kernels)} kernels"
    )


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """The loss curves of every task, eager and compiled, as one PNG."""
    matplotlib = optional.load("matplotlib", needed_for="the plot", install="dynajit[demo]")
    matplotlib.use("Agg")
    pyplot = optional.load("matplotlib.pyplot", needed_for="the plot", install="dynajit[demo]")
    figure, axes = pyplot.subplots(1, len(results), figsize=(5.5 * len(results), 4))
    for axis, result in zip(axes, results, strict=True):
        axis.plot(result["eager"].losses, label="eager", linewidth=3, alpha=0.4)
        axis.plot(result["compiled"].losses, label="compiled", linewidth=1)
        axis.set_yscale("log")
        axis.set_title(f"{result['name']}: compiled {result['ratio']:.2f}x faster per step")
        axis.set_xlabel("step")
        axis.set_ylabel("training loss")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(arguments: list[str]) -> int:
    """Run the demo; returns 0 if every promise was kept.

    Args:
        arguments: optionally the path of the PNG (default `demo_losses.png`).
    """
    path = Path(arguments[0] if arguments else "demo_losses.png")
    data, test = load_digits()
    print(f"handwritten digits: {len(data)} training images, {len(test)} test images")
    results = [run_task(task, data, test) for task in TASKS]
    for result in results:
        print(f"\n=== explain: {result['name']} ===")
        print(result["explanation"])
    draw(results, path)
    print(f"\nloss curves: {path}")
    kept = all(
        min(result["eager"].accuracy, result["compiled"].accuracy) >= task.accuracy
        and result["difference"] <= 1e-4
        and math.isfinite(result["difference"])
        for task, result in zip(TASKS, results, strict=True)
    )
    return 0 if kept else 1


def _batch(data: TensorDataset) -> tuple[Tensor, Tensor]:
    images, targets = data.tensors
    return images[:64], targets[:64]


def _line(mode: str) -> Callable[[int, int, float], None]:
    """A progress bar: one line that is rewritten on a terminal, printed once elsewhere."""

    def report(epoch: int, epochs: int, loss: float) -> None:
        bar = "#" * epoch + "." * (epochs - epoch)
        text = f"  {mode:9s} [{bar}] epoch {epoch:2d}/{epochs}  loss {loss:.4f}"
        if sys.stdout.isatty():
            print(f"\r{text}", end="\n" if epoch == epochs else "", flush=True)
        elif epoch == epochs:
            print(text)

    return report
