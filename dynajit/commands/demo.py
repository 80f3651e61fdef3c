"""`python -m dynajit demo`: train two small models on handwritten digits, eagerly and compiled.

The data are scikit-learn's 1797 images of 8 x 8 pixels (bundled with that library). Each model is
trained twice from the same seed with the same batches: once eagerly, once with `@dj.compile` on
the forward pass and the loss. Printed: test accuracy of both runs, the largest relative
difference between their losses, the ratio of their step times (the median of five runs, in turn),
and what compiling cost (cold, and again with the kernels on disk): a screen in all. `--full` prints
the explain reports, too. The loss curves are drawn to a PNG.
"""

import argparse
import functools
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit import nn, optim
from dynajit.commands.screen import counted, say, width
from dynajit.core.errors import UnsupportedError
from dynajit.core.process import config, optional, threads
from dynajit.core.process.processors import available_processors
from dynajit.core.records import record
from dynajit.driver.compile import compile, explain
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.modes.random import manual_seed
from dynajit.eager.tensor.creation import from_numpy
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.utils.data import DataLoader, TensorDataset

if TYPE_CHECKING:
    from dynajit.report.explanation import Explanation

ABOUT: Final = "train two models on handwritten digits, eagerly and compiled"

SEED = 0
TEST_SIZE = 360
"""One fifth of the 1797 images."""
MOST_DIFFERENCE = 1e-4
"""Of the losses of two trainings, relative: roundings of float32, grown over all steps."""
RUNS = 5
"""Times are medians of so many runs, eager and compiled in turn: machines drift."""
RUN_S = 0.1
"""Seconds of steps in a run."""


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
    accuracy: float = 0.0


@record
class StepTimes:
    """Milliseconds of a training step.

    Args:
        eager_ms, compiled_ms: per run, the mean of its steps.
        threads: that computed.
    """

    eager_ms: tuple[float, ...]
    compiled_ms: tuple[float, ...]
    threads: int

    @property
    def ratio(self) -> float:
        """How many times faster compiled steps are: the median of the runs."""
        pairs = zip(self.eager_ms, self.compiled_ms, strict=True)
        return statistics.median(eager / compiled for eager, compiled in pairs)


@record
class Result:
    """What the demo found out about one task.

    Args:
        task: the model.
        eager, compiled: both trainings.
        difference: see `largest_difference`.
        times: of a step.
        alone: the same in one thread; None where that was not asked.
        cold_ms, warm_ms: of the first compiled call: see `compile_times`.
        explanation: of the compiled function.
    """

    task: Task
    eager: Run
    compiled: Run
    difference: float
    times: StepTimes
    alone: StepTimes | None
    cold_ms: float
    warm_ms: float
    explanation: "Explanation"

    @property
    def is_kept(self) -> bool:
        """Whether both trainings reached what is promised, and agree."""
        accuracy = min(self.eager.accuracy, self.compiled.accuracy)
        agree = math.isfinite(self.difference) and self.difference <= MOST_DIFFERENCE
        return accuracy >= self.task.accuracy and agree


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


def step(
    loss_function: Callable[..., Tensor],
    model: nn.Module,
    optimizer: optim.Optimizer,
    images: Tensor,
    targets: Tensor,
) -> Tensor:
    """One step of training; its loss."""
    optimizer.zero_grad()
    loss = loss_function(model, images, targets)
    loss.backward()
    optimizer.step()
    return loss


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
            run.losses.append(step(loss_function, model, optimizer, images, targets).item())
        progress(epoch + 1, task.epochs, run.losses[-1])
    run.accuracy = accuracy_of(model, test)
    return run, model


def largest_difference(eager: Run, compiled: Run) -> float:
    """Largest relative difference between the losses of two runs, step by step."""
    return max(
        abs(a - b) / max(abs(a), 1e-12) for a, b in zip(eager.losses, compiled.losses, strict=True)
    )


def run_task(task: Task, data: TensorDataset, test: TensorDataset) -> Result:
    """Train eagerly and compiled, compare, and explain."""
    say(f"\n{task.name}")
    eager, _ = train(task, data, test, loss_of, _line("eager"))
    compiled, model = train(task, data, test, compile(loss_of), _line("compiled"))
    times = step_times(task, data)
    slow = times.ratio < 1 and times.threads > 1
    cold_ms, warm_ms = compile_times(model, data)
    return Result(
        task, eager, compiled, largest_difference(eager, compiled), times,
        step_times_alone(task, data) if slow else None, cold_ms, warm_ms,
        explain(loss_of)(model, *_batch(data)),
    )  # fmt: skip


def step_times(task: Task, data: TensorDataset) -> StepTimes:
    """Times of steps, eager and compiled in turn, each of a model of its own."""
    images, targets = _batch(data)
    steps = []
    for loss_function in (loss_of, compile(loss_of)):
        manual_seed(SEED)
        model = task.model()
        steps.append(
            functools.partial(
                step, loss_function, model, task.optimizer(model.parameters()), images, targets
            )
        )
    eager, compiled = steps
    count = _steps_in(RUN_S, eager, compiled)
    runs = [(_mean_ms(eager, count), _mean_ms(compiled, count)) for _ in range(RUNS)]
    eager_ms, compiled_ms = zip(*runs, strict=True)
    return StepTimes(eager_ms, compiled_ms, threads.get_num_threads())


def step_times_alone(task: Task, data: TensorDataset) -> StepTimes:
    """The same in one thread."""
    number = threads.get_num_threads()
    threads.set_num_threads(1)
    try:
        return step_times(task, data)
    finally:
        threads.set_num_threads(number)


def _steps_in(duration_s: float, *steps: Callable[[], object]) -> int:
    """How many steps of the slower kind take so long; the first ones, which compile, left out."""
    for one in steps:
        one()
    slowest = max(_mean_ms(one, 3) for one in steps)
    return max(3, int(1e3 * duration_s / slowest))


def _mean_ms(one: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        one()
    return 1e3 * (time.perf_counter() - start) / count


def compile_times(model: nn.Module, data: TensorDataset) -> tuple[float, float]:
    """Milliseconds of the first compiled call: with an empty kernel cache, and with a full one."""
    times = []
    with tempfile.TemporaryDirectory() as folder, config.override(cache_dir=Path(folder)):
        for _ in range(2):
            start = time.perf_counter()
            compile(loss_of)(model, *_batch(data))
            times.append(1e3 * (time.perf_counter() - start))
    return times[0], times[1]


def print_result(result: Result) -> None:
    """The figures of one task, a line each."""
    task, eager, compiled = result.task, result.eager, result.compiled
    met = min(eager.accuracy, compiled.accuracy) >= task.accuracy
    explanation = result.explanation
    say(
        f"  test accuracy  eager {eager.accuracy:.1%}, compiled {compiled.accuracy:.1%}"
        f"  (promised {task.accuracy:.0%}: {'reached' if met else 'MISSED'})"
    )
    say(f"  losses         differ by {result.difference:.1e} at most, relative")
    say(f"  step           {_times(result.times)}")
    if result.alone is not None:
        say(f"  in one thread  {_times(result.alone)}")
        say(f"                 {why_slower(result.times, result.alone)}")
    say(
        f"  first call     {result.cold_ms:.0f} ms cold,"
        f" {result.warm_ms:.0f} ms with kernels from the cache"
    )
    say(
        f"  captured       {counted(explanation.graph_count, 'graph')},"
        f" {counted(explanation.break_count, 'break')},"
        f" {counted(len(explanation.kernels), 'kernel')}"
    )


def _times(times: StepTimes) -> str:
    eager, compiled = statistics.median(times.eager_ms), statistics.median(times.compiled_ms)
    return f"eager {eager:.2f} ms, compiled {compiled:.2f} ms: {times.ratio:.2f}x"


def why_slower(times: StepTimes, alone: StepTimes) -> str:
    """What to say where compiled steps take longer than eager ones."""
    if statistics.median(alone.compiled_ms) >= statistics.median(times.compiled_ms):
        return "Steps this short are mostly calls; larger layers gain more."
    said = f"A team of {times.threads} threads costs such short kernels more than it brings here"
    load, cores = _load(), available_processors()
    if load > cores:
        return f"{said}: other programs use the cores (load {load:.1f} of {cores})."
    return f"{said}: set DYNAJIT_NUM_THREADS=1."


def _load() -> float:
    """Programs that wanted a core in the last minute; 0 where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0


def draw(results: list[Result], path: Path) -> None:
    """The loss curves of every task, eager and compiled, as one PNG.

    Raises:
        UnsupportedError: matplotlib is not there.
        OSError: the file cannot be written.
    """
    matplotlib = optional.load("matplotlib", needed_for="the plot", install="dynajit[demo]")
    matplotlib.use("Agg")
    pyplot = optional.load("matplotlib.pyplot", needed_for="the plot", install="dynajit[demo]")
    figure, axes = pyplot.subplots(1, len(results), figsize=(5.5 * len(results), 4), squeeze=False)
    for axis, result in zip(axes[0], results, strict=True):
        axis.plot(result.eager.losses, label="eager", linewidth=3, alpha=0.4)
        axis.plot(result.compiled.losses, label="compiled", linewidth=1)
        axis.set_yscale("log")
        axis.set_title(f"{result.task.name}: a compiled step is {result.times.ratio:.2f}x as fast")
        axis.set_xlabel("step")
        axis.set_ylabel("training loss")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _drawn(results: list[Result], path: Path) -> str:
    """Draw; a sentence about it."""
    try:
        draw(results, path)
    except OSError as error:
        return f"no loss curves: {path} cannot be written ({error.strerror or error})"
    except UnsupportedError as error:
        return f"no loss curves: {error}"
    return f"loss curves: {path}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the plot goes, and how much is printed."""
    parser.add_argument(
        "png", nargs="?", type=Path, default=Path("demo_losses.png"),
        help="file of the plot (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true", help="print the explain reports, too")


def run(asked: argparse.Namespace) -> int:
    """Run the demo; returns 0 if every promise was kept."""
    data, test = load_digits()
    say(f"handwritten digits: {len(data)} training images, {len(test)} test images")
    results = []
    for task in TASKS:
        results.append(run_task(task, data, test))
        print_result(results[-1])
    if asked.full:
        for result in results:
            say(f"\n=== explain: {result.task.name} ===\n{result.explanation}")
    say(f"\n{_drawn(results, asked.png)}")
    if not asked.full:
        say("graphs, guards and kernels: --full, or dj.explain(function)(*arguments)")
    return 0 if all(result.is_kept for result in results) else 1


def _batch(data: TensorDataset) -> tuple[Tensor, Tensor]:
    images, targets = data.tensors
    return images[:64], targets[:64]


def _line(mode: str) -> Callable[[int, int, float], None]:
    """A progress bar: one line that is rewritten on a terminal, printed once elsewhere."""

    def report(epoch: int, epochs: int, loss: float) -> None:
        bar = "#" * epoch + "." * (epochs - epoch)
        text = f"  {mode:9s} [{bar}] epoch {epoch:2d}/{epochs}  loss {loss:.4f}"
        columns = width()
        if columns is not None:
            shown = text[: columns - 1]
            print(f"\r{shown}", end="\n" if epoch == epochs else "", flush=True)
        elif epoch == epochs:
            print(text)

    return report
