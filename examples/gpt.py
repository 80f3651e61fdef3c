"""A small GPT over characters: one compiled training step, bfloat16, stop and resume.

    python examples/gpt.py --checkpoint gpt.pt            trains and saves
    python examples/gpt.py --checkpoint gpt.pt --resume   goes on where that stopped
    python examples/gpt.py --bf16                         products in bfloat16

The text it learns is the source of Python's own `argparse`, so nothing is downloaded. What a
resumed run computes is what the run would have computed that never stopped, to the last bit.
"""

import argparse
import inspect
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dynajit as dj
from dynajit import nn
from dynajit.nn import functional as F


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the model and its batches."""

    length: int = 128
    width: int = 128
    heads: int = 4
    depth: int = 4
    batch: int = 16


SMALL = Sizes(length=32, width=32, heads=2, depth=1, batch=4)


class Block(nn.Module):
    """Causal attention and a feed-forward network: (batch, length, width) -> the same."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.attention_norm = nn.LayerNorm(sizes.width)
        self.query_key_value = nn.Linear(sizes.width, 3 * sizes.width)
        self.projection = nn.Linear(sizes.width, sizes.width)
        self.norm = nn.LayerNorm(sizes.width)
        self.expand = nn.Linear(sizes.width, 4 * sizes.width)
        self.contract = nn.Linear(4 * sizes.width, sizes.width)

    def forward(self, x: dj.Tensor) -> dj.Tensor:
        """Both parts are added to their input."""
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.query_key_value(self.attention_norm(x)).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.contract(F.gelu(self.expand(self.norm(x))))


class GPT(nn.Module):
    """(batch, length) characters -> (batch, length, vocabulary) logits of the next ones."""

    def __init__(self, vocabulary: int, sizes: Sizes) -> None:
        super().__init__()
        self.characters = nn.Embedding(vocabulary, sizes.width)
        self.positions = nn.Parameter(0.02 * dj.randn(sizes.length, sizes.width))
        self.blocks = nn.Sequential(*(Block(sizes) for _ in range(sizes.depth)))
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, vocabulary)

    def forward(self, x: dj.Tensor) -> dj.Tensor:
        """Logits."""
        return self.head(self.norm(self.blocks(self.characters(x) + self.positions)))


class Text:
    """Characters as numbers, and random pieces of them."""

    def __init__(self, text: str) -> None:
        self.alphabet = sorted(set(text))
        number = {character: i for i, character in enumerate(self.alphabet)}
        self.numbers = dj.tensor([number[character] for character in text])

    def batch(self, sizes: Sizes) -> tuple[dj.Tensor, dj.Tensor]:
        """(batch, length) characters, and those that follow each."""
        starts = dj.randint(len(self.numbers) - sizes.length - 1, (sizes.batch, 1))
        places = starts + dj.arange(sizes.length)
        return self.numbers[places], self.numbers[places + 1]


class Training:
    """A model, its optimizer and schedule, and the compiled step. Mutable: it learns."""

    def __init__(self, text: Text, sizes: Sizes, steps: int, bf16: bool) -> None:
        self.text, self.sizes, self.steps = text, sizes, steps
        self.model = GPT(len(text.alphabet), sizes)
        self.optimizer = dj.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.1)
        self.schedule = dj.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda n: min(1.0, (n + 1) / 20) * 0.5 * (1 + math.cos(math.pi * n / steps)),
        )
        self.done = 0

        @dj.compile(fullgraph=True)
        def step(x: dj.Tensor, following: dj.Tensor) -> dj.Tensor:
            self.optimizer.zero_grad()
            with dj.autocast("cpu", dtype=dj.bfloat16, enabled=bf16):
                logits = self.model(x)
            loss = F.cross_entropy(logits.float().flatten(0, 1), following.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            return loss.detach()

        self.step = step

    def run(self, until: int) -> list[float]:
        """The losses up to that step."""
        losses = []
        while self.done < until:
            losses.append(self.step(*self.text.batch(self.sizes)).item())
            self.schedule.step()
            self.done += 1
            if self.done % 50 == 0:
                print(f"step {self.done:5}  loss {losses[-1]:.3f}")
        return losses

    def state(self) -> dict[str, Any]:
        """All that a later process needs to go on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "random": dj.get_rng_state(),
            "done": self.done,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        dj.set_rng_state(state["random"])
        self.done = state["done"]


def save(state: dict[str, Any], path: Path) -> None:
    """Written beside and renamed: whoever ends the process leaves the old file or the new one."""
    beside = path.with_suffix(".part")
    dj.save(state, beside)
    os.replace(beside, path)


def main() -> None:
    """Train, or go on training."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=400, help="of the whole run")
    parser.add_argument("--until", type=int, help="stop there; --resume goes on")
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--small", action="store_true", help="a tiny model, ten steps")
    given = parser.parse_args()
    if given.resume and given.checkpoint is None:
        parser.error("--resume needs --checkpoint")
    steps = 10 if given.small else given.steps

    dj.manual_seed(0)
    text = Text(inspect.getsource(argparse))
    training = Training(text, SMALL if given.small else Sizes(), steps, given.bf16)
    if given.resume:
        training.load(dj.load(given.checkpoint))
        print(f"goes on behind step {training.done}")
    losses = training.run(steps if given.until is None else min(given.until, steps))
    if given.checkpoint:
        save(training.state(), given.checkpoint)
    if losses:
        print(f"{training.step.report().summary}\nlast loss {losses[-1]:.6f}")


if __name__ == "__main__":
    main()
