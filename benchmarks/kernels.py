"""Kernels: pointwise chain, softmax, layer norm: eager, compiled, and PyTorch where asked for.

Every case is written once over a namespace `m` (dynajit or torch), so both libraries run the same
text on the same numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dynajit as dj
from benchmarks.programs import arithmetic, gelu_chain
from dynajit.core.process import optional
from dynajit.measuring.timing import interleaved, row


def softmax(m: Any, x: Any) -> Any:
    """Softmax over the last dim."""
    return m.softmax(x, dim=-1)


def layer_norm(m: Any, x: Any) -> Any:
    """Layer norm over the last dim."""
    return m.nn.functional.layer_norm(x, (x.shape[-1],))


CASES: tuple[tuple[str, Callable[..., Any], tuple[int, ...]], ...] = (
    ("12 arithmetic ops, 1e3", arithmetic, (1_000,)),
    ("12 arithmetic ops, 1e5", arithmetic, (100_000,)),
    ("12 arithmetic ops, 1e7", arithmetic, (10_000_000,)),
    ("GELU chain, 1e5", gelu_chain, (100_000,)),
    ("GELU chain, 1e7", gelu_chain, (10_000_000,)),
    ("softmax 4096 x 1024", softmax, (4096, 1024)),
    ("layer norm 4096 x 1024", layer_norm, (4096, 1024)),
)


def candidates(
    function: Callable[..., Any], array: Any, compare: Sequence[str]
) -> dict[str, Callable[[], Any]]:
    """Callables to time, by name."""
    x = dj.from_numpy(array)
    compiled = dj.compile(lambda value: function(dj, value))
    found = {"eager": lambda: function(dj, x), "compiled": lambda: compiled(x)}
    if "torch" in compare:
        torch = optional.load("torch", needed_for="--compare torch", install="torch")
        t = torch.from_numpy(array)
        torch_compiled = torch.compile(lambda value: function(torch, value))
        found["torch eager"] = lambda: function(torch, t)
        found["torch.compile"] = lambda: torch_compiled(t)
    return found


def main(compare: Sequence[str] = ()) -> None:
    """Print the table; ratios against dynajit eager."""
    random = np.random.default_rng(0)
    for name, function, shape in CASES:
        array = random.standard_normal(shape, dtype=np.float32)
        rounds = 7 if array.size > 1_000_000 else 15
        times = interleaved(candidates(function, array, compare), rounds=rounds)
        print(row(name, times, "eager"))
