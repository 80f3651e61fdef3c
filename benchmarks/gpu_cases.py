"""The rows of the GPU table: programs, their inputs, what they must move, and what is asked.

Sizes are chosen so that one call runs well past the time of a launch. Inputs come in several sets,
which calls take in turn: what is in the cache from the last call does not count. A case builds one
callable per library that takes the number of the call.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks import programs
from benchmarks.gpu_libraries import GpuLibrary

Run = Callable[[int], Any]
Build = Callable[[GpuLibrary, Sequence[tuple[np.ndarray[Any, Any], ...]]], Run]

FLOAT: Final = 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the table; `SMALL` is for trying the programs out.

    Args:
        side: of square matrices.
        sets: of inputs.
        vector: elements of a chain.
        mlp: batch and widths.
        block: batch, length, width, heads.
        gpt: batch, length, width, heads, layers, words.
    """

    side: int = 4096
    sets: int = 4
    vector: int = 1 << 26
    mlp: tuple[int, ...] = (4096, 1024, 4096, 4096, 1024)
    block: tuple[int, ...] = (16, 512, 768, 12)
    gpt: tuple[int, ...] = (32, 256, 384, 6, 6, 256)


SMALL: Final = Sizes(24, 2, 300, (4, 6, 8, 6), (2, 6, 8, 2), (2, 6, 8, 2, 1, 12))


@dataclass(frozen=True, slots=True)
class Case:
    """One row.

    Args:
        name: of the row.
        inputs: makes one set of arrays.
        builds: a family of programs and what makes a library's callable.
        bytes: read and written by the least program.
        flops: of its matrix products.
        of_copy: asked: part of the bandwidth of a copy.
        against: asked: no slower than this contestant.
        sets: of inputs.
        tolerance: largest difference of two results, relative to their largest magnitude.
        host: the time of the host is measured, not that of the GPU.
        only: contestants that have a part; empty for all of the family.
    """

    name: str
    inputs: Callable[[int], tuple[np.ndarray[Any, Any], ...]]
    builds: Mapping[str, Build]
    bytes: int = 0
    flops: int = 0
    of_copy: float | None = None
    against: str | None = None
    sets: int = 1
    tolerance: float = 1e-4
    host: bool = False

    def why_not(self, library: GpuLibrary) -> str | None:
        """Why `library` has no part in this case, or None."""
        if library.family not in self.builds:
            return f"no {library.family} form of this case"
        return library.why_not_available()


def cases(sizes: Sizes) -> list[Case]:
    """The rows, those that matter most first: the time for all of them is limited."""
    return [
        _chain(sizes), *_rows(sizes), _total(sizes), _transposed(sizes), *_launches(),
        _mlp(sizes), _gpt(sizes), _block(sizes),
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------
# memory


def _over(function: Callable[..., Any]) -> Build:
    """A program `function(m, *tensors)` without gradients."""

    def build(library: GpuLibrary, sets: Sequence[tuple[np.ndarray[Any, Any], ...]]) -> Run:
        m = library.namespace
        tensors = [tuple(map(library.tensor, arrays)) for arrays in sets]
        by_count = {1: lambda x: function(m, x), 2: lambda x, y: function(m, x, y)}
        compiled = library.compile(by_count[len(tensors[0])])
        return lambda number: compiled(*tensors[number % len(tensors)])

    return build


def _backward(function: Callable[..., Any]) -> Build:
    """The gradients of a program alone: it is recorded once per set of inputs, the last of which is
    the gradient of its result."""

    def build(library: GpuLibrary, sets: Sequence[tuple[np.ndarray[Any, Any], ...]]) -> Run:
        m = library.namespace
        compiled = library.compile(lambda *inputs: function(m, *inputs))
        recorded = []
        for arrays in sets:
            *inputs, gradient = map(library.tensor, arrays)
            wanted = [x.requires_grad_() for x in inputs]
            recorded.append((compiled(*wanted), wanted, gradient))

        def run(number: int) -> Any:
            result, wanted, gradient = recorded[number % len(recorded)]
            return m.autograd.grad(result, wanted, gradient, retain_graph=True)[0]

        return run

    return build


def _chain(sizes: Sizes) -> Case:
    count = sizes.vector

    def fused(m: Any, x: Any, y: Any) -> Any:
        return m.tanh(x * y + 0.5) * x - y * 0.25

    return Case(
        name=f"pointwise chain, {count:.0e} floats".replace("e+0", "e"),
        inputs=lambda n: (programs.normal(count, seed=n), programs.normal(count, seed=n + 100)),
        builds={"torch": _over(fused), "cupy": _over(fused)},
        bytes=3 * FLOAT * count,
        of_copy=0.90,
        against="torch-compile",
        sets=sizes.sets,
    )


def _softmax(m: Any, x: Any) -> Any:
    return m.nn.functional.softmax(x, dim=-1)


def _norm(m: Any, x: Any, weight: Any, bias: Any) -> Any:
    return m.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias)


def _rows(sizes: Sizes) -> list[Case]:
    side = sizes.side
    matrix = FLOAT * side * side
    shared = {"of_copy": 0.85, "against": "torch-compile", "sets": sizes.sets}

    def one(n: int) -> tuple[np.ndarray[Any, Any], ...]:
        return (programs.normal(side, side, seed=n),)

    def two(n: int) -> tuple[np.ndarray[Any, Any], ...]:
        return (*one(n), programs.normal(side, side, seed=n + 100))

    def normed(n: int) -> tuple[np.ndarray[Any, Any], ...]:
        return (*one(n), programs.normal(side, seed=n), programs.normal(side, seed=n + 1))

    def norm_of_three(m: Any, x: Any) -> Any:
        return _norm(m, x, None, None)

    size = f"{side}x{side}"
    return [
        Case(f"softmax {size}", one, {"torch": _over(_softmax)}, bytes=2 * matrix, **shared),
        Case(f"softmax {size}, backward", two, {"torch": _backward(_softmax)},
             bytes=3 * matrix, **shared),
        Case(f"layer norm {size}", one, {"torch": _over(norm_of_three)}, bytes=2 * matrix,
             **shared),
        Case(f"layer norm {size}, backward", lambda n: (*normed(n), one(n + 200)[0]),
             {"torch": _backward(_norm)}, bytes=3 * matrix, tolerance=1e-3, **shared),
    ]  # fmt: skip


def _total(sizes: Sizes) -> Case:
    count = sizes.vector
    return Case(
        name=f"sum of {count:.0e} floats".replace("e+0", "e"),
        inputs=lambda n: (np.abs(programs.normal(count, seed=n)),),
        builds={"torch": _over(lambda m, x: x.sum()), "cupy": _over(lambda m, x: m.sum(x))},
        bytes=FLOAT * count,
        of_copy=0.90,
        against="torch-compile",
        sets=sizes.sets,
    )


def _transposed(sizes: Sizes) -> Case:
    side = sizes.side
    return Case(
        name=f"transpose {side}x{side} and add",
        inputs=lambda n: (programs.normal(side, side, seed=n),),
        builds={"torch": _over(lambda m, x: x.t().contiguous() + 1)},
        bytes=2 * FLOAT * side * side,
        of_copy=0.85,
        against="torch-compile",
        sets=sizes.sets,
    )


# ---------------------------------------------------------------------------------------------
# launches


def _launches() -> list[Case]:
    """What a call costs the host: kernels of next to no work."""

    def chain_of(kernels: int) -> Callable[..., Any]:
        def function(m: Any, x: Any) -> Any:
            for _ in range(kernels):
                x = m.nn.functional.softmax(x, dim=-1).sum(0, keepdim=True) + x
            return x

        return function

    return [
        Case("one kernel, host time", lambda n: (programs.normal(64, seed=n),),
             {"torch": _over(lambda m, x: x * 2 + 1)}, host=True, against="torch-compile"),
        Case("twenty reductions of 32x32, host time", lambda n: (programs.normal(32, 32, seed=n),),
             {"torch": _over(chain_of(10))}, host=True, against="torch-compile"),
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------
# training


def _step(model: Callable[[Any], Any], is_classifier: bool) -> Build:
    def build(library: GpuLibrary, sets: Sequence[tuple[np.ndarray[Any, Any], ...]]) -> Run:
        m = library.namespace
        loss = programs.classification(m) if is_classifier else programs.regression(m)
        batch = tuple(map(library.tensor, sets[0]))
        made = programs.fill(m, model(m)).to("cuda")
        step = programs.training_step(library, programs.Training(made, loss, batch))
        return lambda number: step()

    return build


def _mlp(sizes: Sizes) -> Case:
    batch, *widths = sizes.mlp
    products = 3 * sum(a * b for a, b in itertools.pairwise(widths))
    return Case(
        name=f"MLP {'-'.join(map(str, widths))}, batch {batch}, training step",
        inputs=lambda n: (
            programs.normal(batch, widths[0]), programs.normal(batch, widths[-1], seed=1),
        ),
        builds={"torch": _step(lambda m: programs.mlp(m, widths), is_classifier=False)},
        flops=2 * batch * (products - widths[0] * widths[1]),
        against="torch-compile",
        tolerance=1e-2,
    )  # fmt: skip


def _block(sizes: Sizes) -> Case:
    batch, length, width, heads = sizes.block
    shape = (batch, length, width)
    products = batch * length * (12 * width * width + 2 * length * width)
    return Case(
        name=f"transformer block d {width}, heads {heads}, seq {length}, batch {batch}, training",
        inputs=lambda n: (programs.normal(*shape), programs.normal(*shape, seed=1)),
        builds={"torch": _step(lambda m: programs.transformer(m, width, heads, 1), False)},
        flops=3 * 2 * products,
        against="torch-compile",
        tolerance=1e-2,
    )


def _gpt(sizes: Sizes) -> Case:
    batch, length, width, heads, layers, words = sizes.gpt
    inner = layers * (12 * width * width + 2 * length * width) + width * words
    random = np.random.default_rng(programs.SEED)
    text = random.integers(0, words, (batch, length + 1))
    return Case(
        name=f"GPT of {layers} layers, d {width}, seq {length}, batch {batch}, training step",
        inputs=lambda n: (text[:, :-1].copy(), text[:, 1:].reshape(-1).copy()),
        builds={
            "torch": _step(lambda m: programs.gpt(m, words, length, width, heads, layers), True)
        },
        flops=3 * 2 * batch * length * inner,
        against="torch-compile",
        tolerance=1e-2,
    )
