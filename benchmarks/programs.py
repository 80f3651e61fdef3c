"""What the table of benchmarks runs, written over a namespace `m` that is dynajit or PyTorch.

Nothing here imports a library: a fresh process that measures one of them loads that one only.
Layers are what PyTorch calls them; parameters are filled from NumPy's generator, so that every
library starts with the same numbers. Every function of JAX, NumPy or C with the same meaning
stands in `benchmarks.forms`.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SEED = 20


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Normally distributed float32 numbers."""
    return np.random.default_rng(SEED + seed).standard_normal(shape, dtype=np.float32)


def classes(count: int, among: int) -> np.ndarray[Any, Any]:
    """Random class numbers, int64."""
    return np.random.default_rng(SEED).integers(0, among, count)


# ---------------------------------------------------------------------------------------------
# chains: the same text for every library with `tanh`


def add_one(x: Any) -> Any:
    """The least a compiled function can do."""
    return x + 1


def gelu_chain(m: Any, x: Any) -> Any:
    """Twelve operations with a tanh, as in the tanh form of GELU."""
    inner = (x + x * x * x * 0.044715) * 0.7978845608
    return (m.tanh(inner) + 1.0) * 0.5 * x * 1.5 + 0.25 - x * 0.125


def arithmetic(m: Any, x: Any) -> Any:
    """Twelve arithmetic operations."""
    y = x * 1.5 + 0.25
    y = y * x - 0.75
    y = y * 0.5 + x
    y = (y - 1.25) * 2.0
    y = y * y + 3.0
    return y * 0.125 - x


def broadcast(m: Any, column: Any, row: Any) -> Any:
    """A column and a row: (n, 1), (1, n) -> (n, n)."""
    return (column + row) * column - row * 0.5


def sum_of(count: int) -> Callable[..., Any]:
    """A function of exactly `count` positional arguments that adds them."""
    names = [f"t{number}" for number in range(count)]
    scope: dict[str, Any] = {}
    exec(f"def total({', '.join(names)}):\n    return {' + '.join(names)}", scope)
    function: Callable[..., Any] = scope["total"]
    return function


# ---------------------------------------------------------------------------------------------
# models


def fill(m: Any, model: Any, seed: int = SEED) -> Any:
    """Give every parameter its numbers: uniform, scaled by the fan-in; returns the model."""
    random = np.random.default_rng(seed)
    with m.no_grad():
        for parameter in model.parameters():
            shape = tuple(parameter.shape)
            bound = 1 / math.sqrt(math.prod(shape[1:]) if len(shape) > 1 else shape[0])
            numbers = random.uniform(-bound, bound, shape).astype(np.float32)
            parameter.copy_(m.from_numpy(numbers))
    return model


def mlp(m: Any, widths: Sequence[int]) -> Any:
    """Linear layers with ReLU between them: (batch, widths[0]) -> (batch, widths[-1])."""
    layers: list[Any] = []
    for width, following in itertools.pairwise(widths):
        layers += [m.nn.Linear(width, following), m.nn.ReLU()]
    return m.nn.Sequential(*layers[:-1])


def convnet(m: Any, channels: tuple[int, int], size: int) -> Any:
    """Two convolutions with ReLU and pooling, one linear: (batch, 1, size, size) -> (batch, 10)."""
    first, second = channels
    return m.nn.Sequential(
        m.nn.Conv2d(1, first, 3, padding=1), m.nn.ReLU(), m.nn.MaxPool2d(2),
        m.nn.Conv2d(first, second, 3, padding=1), m.nn.ReLU(), m.nn.MaxPool2d(2),
        m.nn.Flatten(), m.nn.Linear(second * (size // 4) ** 2, 10),
    )  # fmt: skip


def lstm(m: Any, inputs: int, hidden: int) -> Any:
    """An LSTM, unrolled in Python, and a linear layer on its last state.

    (batch, steps, inputs) -> (batch, 10). Gates in the order input, forget, cell, output.
    Source: Hochreiter and Schmidhuber (1997) with forget gates, as in PyTorch's `nn.LSTMCell`.
    """

    class Unrolled(m.nn.Module):  # type: ignore[misc]
        """One cell, applied to every step."""

        def __init__(self) -> None:
            super().__init__()
            self.from_input = m.nn.Linear(inputs, 4 * hidden)
            self.from_state = m.nn.Linear(hidden, 4 * hidden)
            self.head = m.nn.Linear(hidden, 10)

        def forward(self, x: Any, state: Any, cell: Any) -> Any:
            """Logits after the last step."""
            for step in range(x.shape[1]):
                gates = self.from_input(x[:, step]) + self.from_state(state)
                enter, forget, new, leave = gates.chunk(4, 1)
                cell = m.sigmoid(forget) * cell + m.sigmoid(enter) * m.tanh(new)
                state = m.sigmoid(leave) * m.tanh(cell)
            return self.head(state)

    return Unrolled()


def transformer(m: Any, width: int, heads: int, layers: int, is_causal: bool = False) -> Any:
    """Encoder layers, normalised first: (batch, length, width) -> the same.

    Args:
        is_causal: no place reads a later one.

    Source: Vaswani et al. (2017), with the normalisation before each part as in GPT-2.
    """
    functional = m.nn.functional

    class Block(m.nn.Module):  # type: ignore[misc]
        """Attention and a two-layer MLP of four times the width."""

        def __init__(self) -> None:
            super().__init__()
            self.attention_norm = m.nn.LayerNorm(width)
            self.query_key_value = m.nn.Linear(width, 3 * width)
            self.projection = m.nn.Linear(width, width)
            self.mlp_norm = m.nn.LayerNorm(width)
            self.up = m.nn.Linear(width, 4 * width)
            self.down = m.nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            """x: (batch, length, width)."""
            batch, length, _ = x.shape
            fused = self.query_key_value(self.attention_norm(x))
            fused = fused.view(batch, length, 3, heads, width // heads)
            query, key, value = fused.permute(2, 0, 3, 1, 4).unbind(0)
            read = functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
            x = x + self.projection(read.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(functional.gelu(self.up(self.mlp_norm(x))))

    return m.nn.Sequential(*(Block() for _ in range(layers)))


def gpt(m: Any, words: int, length: int, width: int, heads: int, layers: int) -> Any:
    """A language model of causal blocks: (batch, length) of words -> (batch * length, words).

    Source: Radford et al. (2019), "Language Models are Unsupervised Multitask Learners".
    """

    class Gpt(m.nn.Module):  # type: ignore[misc]
        """Embeddings of words and places, blocks, a norm and a head."""

        def __init__(self) -> None:
            super().__init__()
            self.words = m.nn.Embedding(words, width)
            self.places = m.nn.Embedding(length, width)
            self.blocks = transformer(m, width, heads, layers, is_causal=True)
            self.norm = m.nn.LayerNorm(width)
            self.head = m.nn.Linear(width, words)

        def forward(self, text: Any) -> Any:
            """text: (batch, length), integers."""
            places = m.arange(text.shape[1], device=text.device)
            x = self.words(text) + self.places(places)
            return self.head(self.norm(self.blocks(x))).view(-1, words)

    return Gpt()


# ---------------------------------------------------------------------------------------------
# training


@dataclass(frozen=True, slots=True)
class Training:
    """A model, its loss and one batch.

    Args:
        model: made and filled.
        loss: loss(model, *batch), a scalar.
        batch: tensors.
    """

    model: Any
    loss: Callable[..., Any]
    batch: tuple[Any, ...]


def classification(m: Any) -> Callable[..., Any]:
    """Cross-entropy of a model's logits; the targets come last."""

    def loss(model: Any, *batch: Any) -> Any:
        *inputs, targets = batch
        return m.nn.functional.cross_entropy(model(*inputs), targets)

    return loss


def regression(m: Any) -> Callable[..., Any]:
    """Mean square of the difference; the targets come last."""

    def loss(model: Any, *batch: Any) -> Any:
        *inputs, targets = batch
        return m.nn.functional.mse_loss(model(*inputs), targets)

    return loss


def training_step(library: Any, training: Training) -> Callable[[], Any]:
    """One step with Adam: forward and loss compiled, backward, the optimiser's step compiled.

    Args:
        library: a `benchmarks.libraries.TensorLibrary`.
        training: what is trained.

    Returns:
        A callable that makes a step and returns the loss before it.
    """
    model, loss, batch = training.model, training.loss, training.batch
    optimizer = library.namespace.optim.Adam(
        model.parameters(), lr=1e-3, **library.optimizer_options
    )

    def forward(*tensors: Any) -> Any:
        return loss(model, *tensors)

    compiled, update = library.compile(forward), library.compile(optimizer.step)

    def step() -> Any:
        optimizer.zero_grad()
        result = compiled(*batch)
        result.backward()
        update()
        return result

    return step
