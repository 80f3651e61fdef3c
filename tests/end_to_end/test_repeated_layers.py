"""Layers of a model repeat, and so do their kernels: each is compiled once, as `explain` shows."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit import nn

WIDTH, HEADS = 32, 4


class Block(nn.Module):
    """Attention and a perceptron, each behind a norm and beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.first(x)).reshape(batch, length, 3, HEADS, -1).unbind(2)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.second(x))))


def explained(layers: int, trains: bool) -> Any:
    """What `explain` says of a model of so many layers."""
    dj.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(layers)), nn.Linear(WIDTH, 7))
    for parameter in model.parameters():
        parameter.requires_grad_(trains)
    x = np.random.default_rng(0).standard_normal((2, 8, WIDTH)).astype(np.float32)
    return dj.explain(model)(dj.tensor(x))


def definitions(explanation: Any) -> list[str]:
    """The kernels in the C texts of all programs."""
    found = []
    for record in explanation.records:
        for role, program in record.programs:
            names = re.findall(r"^static \S+ void (\w+)\(", program.source, re.MULTILINE)
            found += [f"{role} {name}" for name in names]
    return found


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_six_layers_have_the_kernels_of_three(strict_programs: None, trains: bool) -> None:
    """The first and the last layer have other neighbours; those between are all alike."""
    three, six = explained(3, trains), explained(6, trains)

    assert three.kernels and len(six.kernels) > 1.6 * len(three.kernels)
    assert len(definitions(three)) == len(definitions(six))
    assert len(definitions(six)) < len(six.kernels) / 2


def test_explain_prints_the_compile_stages(strict_programs: None, tmp_path: Path) -> None:
    """One line per stage, with its milliseconds, capture and the C compiler among them."""
    with dj.config.override(cache_dir=tmp_path):
        text = str(explained(1, trains=True))
    stages = text[text.index("compile stages:") :]

    for stage in ("capture", "passes", "autodiff", "partition", "fusion", "printing", "compiler"):
        assert re.search(rf"^\s*{stage} +\d+\.\d\d ms( +#+)?$", stages, re.MULTILINE), stages
