"""Whole training steps, in one compiled function: loss, `backward`, clipping and AdamW.

Every model is written once over a namespace `m` (dynajit or torch). dynajit runs the step whole,
and as it is arranged without capture of backward: the loss compiled, the update compiled apart.
PyTorch runs it in every arrangement that it has, and the fastest counts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dynajit as dj
from dynajit.core.process import optional
from dynajit.measuring.timing import interleaved, row

Step = Callable[[], Any]
#: (model, its parameters' optimiser, inputs, targets) -> a step without arguments.
Arrangement = Callable[["Setting"], Step]


@dataclass(frozen=True, slots=True)
class Model:
    """A model and data for it.

    Args:
        make: namespace -> module that gives logits.
        inputs: array of one batch.
        targets: class numbers.
    """

    make: Callable[[Any], Any]
    inputs: Any
    targets: Any


@dataclass(frozen=True, slots=True)
class Setting:
    """A model in one library, with its optimiser and one batch."""

    m: Any
    model: Any
    optimizer: Any
    inputs: Any
    targets: Any

    def loss(self, x: Any, y: Any) -> Any:
        """Cross entropy over the last dim."""
        logits = self.model(x)
        flat = logits.reshape(-1, logits.shape[-1])
        return self.m.nn.functional.cross_entropy(flat, y.reshape(-1))

    def update(self) -> None:
        """Clip the gradients, and take a step."""
        self.m.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


def mlp(m: Any) -> Any:
    """784-256-256-10."""
    layers = m.nn.Linear(784, 256), m.nn.ReLU(), m.nn.Linear(256, 256), m.nn.ReLU()
    return m.nn.Sequential(*layers, m.nn.Linear(256, 10))


def lstm(m: Any) -> Any:
    """One layer of 64 over sequences of 32 features, and a linear one on the last state."""

    class Classifier(m.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = m.nn.LSTM(32, 64, batch_first=True)
            self.head = m.nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    return Classifier()


def gpt(m: Any, width: int = 128, layers: int = 4, length: int = 64, words: int = 256) -> Any:
    """A decoder of four heads, with the weights of its embedding and its head tied."""

    class Block(m.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = m.nn.LayerNorm(width), m.nn.LayerNorm(width)
            self.qkv, self.out = m.nn.Linear(width, 3 * width), m.nn.Linear(width, width)
            self.up, self.down = m.nn.Linear(width, 4 * width), m.nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, steps, size = x.shape
            parts = self.qkv(self.first(x)).split(size, dim=2)
            q, k, v = (p.view(batch, steps, 4, size // 4).transpose(1, 2) for p in parts)
            attend = m.nn.functional.scaled_dot_product_attention
            mixed = attend(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, steps, size)
            x = x + self.out(mixed)
            return x + self.down(m.nn.functional.gelu(self.up(self.second(x))))

    class Decoder(m.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = m.nn.Embedding(words, width), m.nn.Embedding(length, width)
            self.blocks = m.nn.ModuleList([Block() for _ in range(layers)])
            self.last = m.nn.LayerNorm(width)
            self.head = m.nn.Linear(width, words, bias=False)
            self.head.weight = self.words.weight

        def forward(self, numbers: Any) -> Any:
            x = self.words(numbers) + self.places(m.arange(numbers.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.last(x))

    return Decoder()


def convnet(m: Any) -> Any:
    """Two convolutions with batch normalisation and pooling."""

    def block(channels: int, result: int) -> list[Any]:
        conv = m.nn.Conv2d(channels, result, 3, padding=1)
        return [conv, m.nn.BatchNorm2d(result), m.nn.ReLU(), m.nn.MaxPool2d(2)]

    head = m.nn.Flatten(), m.nn.Linear(32 * 8 * 8, 10)
    return m.nn.Sequential(*block(3, 16), *block(16, 32), *head)


def models() -> dict[str, Model]:
    """The models by name."""
    random = np.random.default_rng(0)

    def numbers(*shape: int) -> Any:
        return random.standard_normal(shape, dtype=np.float32)

    def classes(count: int, *shape: int) -> Any:
        return random.integers(0, count, shape)

    return {
        "MLP 64 x 784": Model(mlp, numbers(64, 784), classes(10, 64)),
        "LSTM 32 x 20 x 32": Model(lstm, numbers(32, 20, 32), classes(10, 32)),
        "GPT 16 x 64, d 128": Model(gpt, classes(256, 16, 64), classes(256, 16, 64)),
        "ConvNet 16 x 3 x 32 x 32": Model(convnet, numbers(16, 3, 32, 32), classes(10, 16)),
    }


def _whole(wrap: Callable[..., Any]) -> Arrangement:
    def arrange(s: Setting) -> Step:
        def step(x: Any, y: Any) -> Any:
            s.optimizer.zero_grad()
            loss = s.loss(x, y)
            loss.backward()
            s.update()
            return loss

        compiled = wrap(step)
        return lambda: compiled(s.inputs, s.targets)

    return arrange


def _apart(wrap_loss: Callable[..., Any], wrap_update: Callable[..., Any]) -> Arrangement:
    def arrange(s: Setting) -> Step:
        loss_of, update = wrap_loss(s.loss), wrap_update(s.update)

        def step() -> Any:
            s.optimizer.zero_grad()
            loss = loss_of(s.inputs, s.targets)
            loss.backward()
            update()
            return loss

        return step

    return arrange


def _as_it_is(function: Any) -> Any:
    return function


def _setting(m: Any, model: Model, **options: Any) -> Setting:
    m.manual_seed(0)
    made = model.make(m)
    optimizer = m.optim.AdamW(made.parameters(), lr=1e-3, **options)
    inputs, targets = m.from_numpy(model.inputs), m.from_numpy(model.targets)
    return Setting(m, made, optimizer, inputs, targets)


def _compiled_autograd(torch: Any) -> Callable[..., Any]:
    def wrap(function: Any) -> Any:
        compiled = torch.compile(function)

        def run(*args: Any) -> Any:
            with torch._dynamo.compiled_autograd._enable(torch.compile):
                return compiled(*args)

        return run

    return wrap


def _of_pytorch(torch: Any, model: Model) -> dict[str, Step]:
    compiled = torch.compile
    ways: dict[str, tuple[Arrangement, dict[str, Any]]] = {
        "torch eager": (_apart(_as_it_is, _as_it_is), {}),
        "torch fused": (_apart(_as_it_is, _as_it_is), {"fused": True}),
        "torch loss": (_apart(compiled, _as_it_is), {"fused": True}),
        "torch both": (_apart(compiled, compiled), {}),
        "torch autograd": (_whole(_compiled_autograd(torch)), {"fused": True}),
    }
    return {name: way(_setting(torch, model, **options)) for name, (way, options) in ways.items()}


def main(compare: Sequence[str] = ()) -> None:
    """Print the table; ratios against the step as a whole."""
    torch = None
    if "torch" in compare:
        torch = optional.load("torch", needed_for="--compare torch", install="torch")
    for name, model in models().items():
        found = {
            "whole": _whole(lambda step: dj.compile(step, fullgraph=True))(_setting(dj, model)),
            "apart": _apart(dj.compile, dj.compile)(_setting(dj, model)),
            "eager": _apart(_as_it_is, _as_it_is)(_setting(dj, model)),
        }
        if torch is not None:
            found |= _of_pytorch(torch, model)
        print(row(f"step of {name}", interleaved(found, rounds=21, round_s=0.05), "whole"))
