"""Cases where the call is most of the time: one addition, a hundred arguments, a hundred layers."""

import itertools
from dataclasses import dataclass
from typing import Any

from benchmarks import jax_models, programs
from benchmarks.case import Arrays, Build, Case, Run, Work, over_tensors
from benchmarks.libraries import Library

MICROSECOND = 1e-6


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of this group; the defaults are the table's."""

    elements: int = 8
    arguments: int = 100
    layers: int = 100
    width: int = 16


def cases(sizes: Sizes | None = None) -> list[Case]:
    """The rows."""
    sizes = sizes or Sizes()
    one = over_tensors(programs.add_one)
    return [
        Case(
            name=f"x + 1, {sizes.elements} elements",
            group="latency",
            inputs=lambda: (programs.normal(sizes.elements),),
            builds=dict.fromkeys(("torch", "jax", "numpy", "numba"), one),
            limit_s=2 * MICROSECOND,
        ),
        _arguments_case(sizes),
        _mlp_case(sizes),
    ]


def _arguments_case(sizes: Sizes) -> Case:
    count = sizes.arguments
    total = over_tensors(programs.sum_of(count))
    return Case(
        name=f"{count} tensor arguments of {sizes.elements}",
        group="latency",
        inputs=lambda: tuple(programs.normal(sizes.elements, seed=n) for n in range(count)),
        builds=dict.fromkeys(("torch", "jax", "numpy"), total),
        limit_s=12 * MICROSECOND,
        asked="beyond the kernel's work",
    )


def _mlp_case(sizes: Sizes) -> Case:
    widths = [sizes.width] * (sizes.layers + 1)
    return Case(
        name=f"MLP inference, {sizes.layers} Linear of {sizes.width}",
        group="latency",
        inputs=lambda: (programs.normal(1, sizes.width),),
        builds={"torch": _mlp(widths), "jax": _jax_mlp(widths)},
        work=Work(
            bytes=4 * sum(a * b for a, b in itertools.pairwise(widths)),
            flops=2 * sum(a * b for a, b in itertools.pairwise(widths)),
        ),
        limit_s=150 * MICROSECOND,
        # A hundred layers magnify the last bit of the first ones, and the numbers become tiny.
        tolerance=1e-3,
    )


def _mlp(widths: list[int]) -> Build:
    def build(library: Library, arrays: Arrays) -> Run:
        m = library.namespace
        model = programs.fill(m, programs.mlp(m, widths)).requires_grad_(False)
        compiled, x = library.compile(model), library.tensor(arrays[0])
        return lambda: compiled(x)

    return build


def _jax_mlp(widths: list[int]) -> Build:
    def build(library: Library, arrays: Arrays) -> Run:
        layers = jax_models.mlp_parameters(widths)
        compiled: Any = library.compile(jax_models.mlp)
        x = library.tensor(arrays[0])
        return lambda: library.finish(compiled(layers, x))

    return build
