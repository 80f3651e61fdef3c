"""Single convolutions beside eager PyTorch: eager, compiled with a ReLU, and forward and backward.

Run: `python -m benchmarks convolutions --compare torch`. Numbers are the same in both libraries.
The figures are the fastest of interleaved rounds, with one thread and with all cores; ratios are to
dynajit. The plan's table of convolutions is here, and one of each further kind.
"""

import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import dynajit as dj
from benchmarks.networks import fastest
from benchmarks.programs import SEED
from dynajit.core.process import optional
from dynajit.measuring.timing import row

PAUSE = 0.03
"""Seconds in front of the calls of a library: the other one's threads may look for work until then,
and take a core (300 000 turns of libgomp are 19 ms on Zen 5)."""

AWAKE = 0.002
"""Seconds of calls in front of the one that is timed: threads that slept are awake then, as where
one call follows the other. To wake one takes as long as the smallest of these calls."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A convolution.

    Args:
        image: shape of the input: batch, channels, sizes.
        channels: of the result.
        size: of the window in each dim.
        options: further arguments (`stride`, `padding`, `groups`, `dilation`).
        is_transposed: a transposed one.
    """

    image: tuple[int, ...]
    channels: int
    size: int
    options: dict[str, int] = field(default_factory=dict)
    is_transposed: bool = False

    @property
    def weight(self) -> tuple[int, ...]:
        """The shape of the weights."""
        groups, own = self.options.get("groups", 1), self.image[1]
        first = (own, self.channels // groups) if self.is_transposed else None
        dims = len(self.image) - 2
        return (*(first or (self.channels, own // groups)), *([self.size] * dims))


SETTINGS = {
    "3x3 64>64, 56x56, batch 8": Setting((8, 64, 56, 56), 64, 3, {"padding": 1}),
    "3x3 128>128, 28x28, batch 8": Setting((8, 128, 28, 28), 128, 3, {"padding": 1}),
    "3x3 256>256, 14x14, batch 8": Setting((8, 256, 14, 14), 256, 3, {"padding": 1}),
    "3x3 512>512, 7x7, batch 8": Setting((8, 512, 7, 7), 512, 3, {"padding": 1}),
    "1x1 256>64, 56x56, batch 8": Setting((8, 256, 56, 56), 64, 1),
    "7x7 stride 2, 3>64, 224x224, batch 2": Setting(
        (2, 3, 224, 224), 64, 7, {"stride": 2, "padding": 3}
    ),
    "3x3 stride 2, 128>128, 56x56, batch 8": Setting(
        (8, 128, 56, 56), 128, 3, {"stride": 2, "padding": 1}
    ),
    "depthwise 3x3, 144, 56x56, batch 8": Setting(
        (8, 144, 56, 56), 144, 3, {"padding": 1, "groups": 144}
    ),
    "3x3 64>64, 128x128, batch 1": Setting((1, 64, 128, 128), 64, 3, {"padding": 1}),
    "3x3 1>16, 28x28, batch 32": Setting((32, 1, 28, 28), 16, 3, {"padding": 1}),
    "3x3 in 4 groups, 128>128, 28x28, batch 8": Setting(
        (8, 128, 28, 28), 128, 3, {"padding": 1, "groups": 4}
    ),
    "3x3 dilation 2, 64>64, 56x56, batch 4": Setting(
        (4, 64, 56, 56), 64, 3, {"padding": 2, "dilation": 2}
    ),
    "7 taps, 64>128, 1024, batch 8": Setting((8, 64, 1024), 128, 7, {"padding": 3}),
    "3x3x3 16>32, 16x16x16, batch 2": Setting((2, 16, 16, 16, 16), 32, 3, {"padding": 1}),
    "4x4 transposed, stride 2, 128>64, 28x28, batch 8": Setting(
        (8, 128, 28, 28), 64, 4, {"stride": 2, "padding": 1}, is_transposed=True
    ),
}

Calls = dict[str, Callable[[], Any]]


def function_of(m: Any, setting: Setting) -> Any:
    """The function of a library that computes a setting."""
    kind = f"conv{'_transpose' * setting.is_transposed}{len(setting.image) - 2}d"
    return getattr(m.nn.functional, kind)


def calls_of(m: Any, setting: Setting) -> Calls:
    """What is timed -> a call of it by a library."""
    random = np.random.default_rng(SEED)
    scale = np.float32(1 / np.prod(setting.weight[1:]) ** 0.5)
    image = random.standard_normal(setting.image, dtype=np.float32)
    weight = random.standard_normal(setting.weight, dtype=np.float32) * scale
    x, w = m.from_numpy(image), m.from_numpy(weight)
    convolution = function_of(m, setting)

    def rectified(x: Any, w: Any) -> Any:
        return m.nn.functional.relu(convolution(x, w, **setting.options))

    compiled = dj.compile(rectified) if m is dj else rectified
    leaves = [value.clone().requires_grad_() for value in (x, w)]
    gradient = m.ones_like(convolution(x, w, **setting.options))

    def both_ways() -> Any:
        compiled(*leaves).backward(gradient)
        for leaf in leaves:
            leaf.grad = None

    return {
        "eager": m.no_grad()(lambda: convolution(x, w, **setting.options)),
        "with ReLU": m.no_grad()(lambda: compiled(x, w)),
        "both ways": both_ways,
    }


def paused(call: Callable[[], Any]) -> Callable[[], Any]:
    """The call; every other one is a pause and as many calls as fill `AWAKE`: `fastest` times the
    others."""
    is_first = itertools.cycle((True, False))

    def waiting() -> Any:
        if next(is_first):
            time.sleep(PAUSE)
            end = time.perf_counter() + AWAKE
            while time.perf_counter() < end:
                call()
        return call()

    return waiting


def main(compare: Sequence[str] = (), rounds: int = 15) -> None:
    """Print the table; ratios against dynajit's call of the same kind."""
    libraries = {"dynajit": dj}
    if "torch" in compare:
        libraries["torch"] = optional.load("torch", needed_for="--compare torch", install="torch")
    before = dj.get_num_threads()
    for threads in dict.fromkeys((1, os.cpu_count() or 1)):
        for library in libraries.values():
            library.set_num_threads(threads)
        for title, setting in SETTINGS.items():
            made = {name: calls_of(library, setting) for name, library in libraries.items()}
            for kind in made["dynajit"]:
                found = fastest({name: paused(calls[kind]) for name, calls in made.items()}, rounds)
                print(row(f"{title}, {kind}, {threads} threads", found, "dynajit"), flush=True)
    dj.set_num_threads(before)
