"""Cases of training steps, and of the optimiser alone."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import jax_models, programs
from benchmarks.case import Arrays, Build, Case, Run, Work
from benchmarks.libraries import Library

#: Losses of so many steps are compared: the first update shows in the second one.
_STEPS = 3


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of this group; the defaults are the table's."""

    small_batch: int = 64
    small_widths: tuple[int, ...] = (784, 256, 10)
    wide_batch: int = 256
    wide_widths: tuple[int, ...] = (1024, 1024, 1024, 1024)
    lstm_batch: int = 32
    lstm_steps: int = 16
    lstm_inputs: int = 64
    lstm_hidden: int = 128
    block_batch: int = 8
    block_length: int = 128
    block_width: int = 256
    block_heads: int = 4
    channels: tuple[int, int] = (16, 32)
    image_batch: int = 32
    image_size: int = 28
    adam_parameters: int = 10
    adam_side: int = 1000


@dataclass(frozen=True, slots=True)
class _Model:
    """A model in both spellings; `torch(m)` and `jax()` give model or (function, parameters)."""

    torch: Callable[[Any], Any]
    jax: Callable[[], tuple[Callable[..., Any], list[Any]]]
    is_classifier: bool


def cases(sizes: Sizes | None = None) -> list[Case]:
    """The rows."""
    sizes = sizes or Sizes()
    return [
        _small_mlp(sizes),
        _wide_mlp(sizes),
        _lstm(sizes),
        _block(sizes),
        _convnet(sizes),
        _adam(sizes),
    ]


def _small_mlp(sizes: Sizes) -> Case:
    batch, widths = sizes.small_batch, sizes.small_widths
    return Case(
        name=f"MLP {batch}x{widths[0]} training step, Adam",
        group="training",
        inputs=lambda: (programs.normal(batch, widths[0]), programs.classes(batch, widths[-1])),
        builds=_builds(_mlp_model(widths, is_classifier=True)),
        work=Work(flops=_mlp_flops(batch, widths)),
        ratio=2,
        calls=_STEPS,
    )


def _wide_mlp(sizes: Sizes) -> Case:
    batch, widths = sizes.wide_batch, sizes.wide_widths
    return Case(
        name=f"MLP {widths[0]}^2 x {len(widths) - 1}, batch {batch}, training step",
        group="training",
        inputs=lambda: (
            programs.normal(batch, widths[0]), programs.normal(batch, widths[-1], seed=1),
        ),
        builds=_builds(_mlp_model(widths, is_classifier=False)),
        work=Work(flops=_mlp_flops(batch, widths)),
        ratio=1.1,
        calls=_STEPS,
    )  # fmt: skip


def _mlp_model(widths: Sequence[int], *, is_classifier: bool) -> _Model:
    return _Model(
        lambda m: programs.mlp(m, widths),
        lambda: (jax_models.mlp, jax_models.mlp_parameters(widths)),
        is_classifier,
    )


def _mlp_flops(batch: int, widths: Sequence[int]) -> int:
    """Forward, both backward products; the first layer's input has no gradient."""
    pairs = list(itertools.pairwise(widths))
    products = 3 * sum(a * b for a, b in pairs) - pairs[0][0] * pairs[0][1]
    return 2 * batch * products


def _lstm(sizes: Sizes) -> Case:
    batch, steps = sizes.lstm_batch, sizes.lstm_steps
    inputs, hidden = sizes.lstm_inputs, sizes.lstm_hidden
    state = np.zeros((batch, hidden), np.float32)
    products = steps * 4 * hidden * (2 * inputs + 3 * hidden)
    return Case(
        name=f"LSTM training step, {steps} steps, batch {batch}, hidden {hidden}",
        group="training",
        inputs=lambda: (
            programs.normal(batch, steps, inputs), state, state.copy(), programs.classes(batch, 10),
        ),
        builds=_builds(
            _Model(
                lambda m: programs.lstm(m, inputs, hidden),
                lambda: (jax_models.lstm, jax_models.lstm_parameters(inputs, hidden)),
                True,
            )
        ),
        work=Work(flops=2 * batch * products),
        ratio=1.5,
        calls=_STEPS,
    )  # fmt: skip


def _block(sizes: Sizes) -> Case:
    batch, length, width = sizes.block_batch, sizes.block_length, sizes.block_width
    shape, heads = (batch, length, width), sizes.block_heads
    products = batch * length * (12 * width * width + 2 * length * width)
    return Case(
        name=f"transformer block d {width}, heads {heads}, seq {length}, batch {batch}",
        group="training",
        inputs=lambda: (programs.normal(*shape), programs.normal(*shape, seed=1)),
        builds=_builds(
            _Model(
                lambda m: programs.transformer(m, width, heads, 1),
                lambda: (
                    jax_models.transformer(heads), jax_models.transformer_parameters(width, 1)
                ),
                False,
            )
        ),
        work=Work(flops=3 * 2 * products),
        ratio=1.15,
        calls=_STEPS,
    )  # fmt: skip


def _convnet(sizes: Sizes) -> Case:
    batch, size, channels = sizes.image_batch, sizes.image_size, sizes.channels
    first, second = channels
    products = size * size * 9 * first
    later = (size // 2) ** 2 * 9 * first * second + 10 * second * (size // 4) ** 2
    return Case(
        name=f"convnet {first}/{second}, 1x{size}x{size}, batch {batch}, training step",
        group="training",
        inputs=lambda: (programs.normal(batch, 1, size, size), programs.classes(batch, 10)),
        builds=_builds(
            _Model(
                lambda m: programs.convnet(m, channels, size),
                lambda: (jax_models.convnet, jax_models.convnet_parameters(channels, size)),
                True,
            )
        ),
        work=Work(flops=2 * batch * (2 * products + 3 * later)),
        asked="at least PyTorch eager (oneDNN)",
        calls=_STEPS,
    )


def _builds(model: _Model) -> dict[str, Build]:
    return {"torch": _torch_step(model), "jax": _jax_step(model)}


def _torch_step(model: _Model) -> Build:
    def build(library: Library, arrays: Arrays) -> Run:
        m = library.namespace
        loss = programs.classification(m) if model.is_classifier else programs.regression(m)
        batch = tuple(library.tensor(array) for array in arrays)
        made = programs.fill(m, model.torch(m))
        return programs.training_step(library, programs.Training(made, loss, batch))

    return build


def _jax_step(model: _Model) -> Build:
    def build(library: Library, arrays: Arrays) -> Run:
        function, parameters = model.jax()
        make = jax_models.classification if model.is_classifier else jax_models.regression
        batch = tuple(library.tensor(array) for array in arrays)
        return jax_models.training_step(make(function), parameters, batch)

    return build


def _adam(sizes: Sizes) -> Case:
    count, side = sizes.adam_parameters, sizes.adam_side
    total = count * side * side
    return Case(
        name=f"Adam over {total:.0e} parameters".replace("e+0", "e"),
        group="training",
        inputs=lambda: tuple(programs.normal(side, side, seed=n) for n in range(count)),
        builds={"torch": _torch_adam, "jax": _jax_adam},
        # Parameter and both moments are updated where they lie, the gradient is read.
        work=Work(bytes=7 * 4 * total, is_update=True),
        limit_s=7e-3,
        calls=_STEPS,
    )


def _torch_adam(library: Library, arrays: Arrays) -> Run:
    m = library.namespace
    parameters = [m.nn.Parameter(library.tensor(array.copy())) for array in arrays]
    for parameter, array in zip(parameters, arrays, strict=True):
        parameter.grad = library.tensor(array.copy())
    optimizer = m.optim.Adam(parameters, lr=1e-3, **library.optimizer_options)
    update = library.compile(optimizer.step)

    def step() -> Any:
        update()
        return parameters[0]

    return step


def _jax_adam(library: Library, arrays: Arrays) -> Run:
    return jax_models.adam_step([library.tensor(array) for array in arrays])
