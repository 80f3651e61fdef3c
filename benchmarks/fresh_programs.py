"""What a fresh process runs: `PROGRAMS[name](library)` gives (call, sizes).

`call(size)` runs once on a batch of `size`; `sizes` are the batches whose first calls are timed
together. Imported by `benchmarks.fresh_child` after the library that is measured.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from benchmarks import jax_models, programs
from benchmarks.libraries import LIBRARIES, Library

Call = Callable[[int], Any]
Program = Callable[[Library], tuple[Call, Sequence[int]]]

_ELEMENTS: Final = 100_000
_BATCHES: Final = tuple(range(1, 21))
_TRANSFORMER: Final = (256, 4, 6)  # width, heads, layers
_SEQUENCE: Final = (8, 128)  # batch, length


def library(name: str) -> Library:
    """A contestant by name."""
    return LIBRARIES[name]


def chain(library: Library) -> tuple[Call, Sequence[int]]:
    """The 12-op chain over 1e5 elements."""
    m = library.namespace
    compiled = library.compile(lambda x: programs.gelu_chain(m, x))
    x = library.tensor(programs.normal(_ELEMENTS))
    return lambda size: library.finish(compiled(x)), (1,)


def chain_batches(library: Library) -> tuple[Call, Sequence[int]]:
    """The chain over 1 to 20 rows of 1000."""
    m = library.namespace
    compiled = library.compile(lambda x: programs.gelu_chain(m, x))
    rows = library.tensor(programs.normal(_BATCHES[-1], 1000))
    return lambda size: library.finish(compiled(rows[:size])), _BATCHES


def mlp_batches(library: Library) -> tuple[Call, Sequence[int]]:
    """Inference of an MLP of 784, 256, 10 over 1 to 20 rows."""
    widths = (784, 256, 10)
    rows = library.tensor(programs.normal(_BATCHES[-1], widths[0]))
    if library.family == "jax":
        layers, jitted = jax_models.mlp_parameters(widths), library.compile(jax_models.mlp)
        return lambda size: library.finish(jitted(layers, rows[:size])), _BATCHES
    m = library.namespace
    model = programs.fill(m, programs.mlp(m, widths)).requires_grad_(False)
    compiled = library.compile(model)
    return lambda size: compiled(rows[:size]), _BATCHES


def mlp_step(library: Library) -> tuple[Call, Sequence[int]]:
    """A training step of an MLP of 784, 256, 10, batch 64, with Adam."""
    widths, batch = (784, 256, 10), (programs.normal(64, 784), programs.classes(64, 10))
    tensors = tuple(library.tensor(array) for array in batch)
    if library.family == "jax":
        loss = jax_models.classification(jax_models.mlp)
        step = jax_models.training_step(loss, jax_models.mlp_parameters(widths), tensors)
        return lambda size: step(), (1,)
    m = library.namespace
    model = programs.fill(m, programs.mlp(m, widths))
    training = programs.Training(model, programs.classification(m), tensors)
    step = programs.training_step(library, training)
    return lambda size: step(), (1,)


def transformer_inference(library: Library) -> tuple[Call, Sequence[int]]:
    """Six layers of width 256, batch 8, length 128."""
    width, heads, layers = _TRANSFORMER
    x = library.tensor(programs.normal(*_SEQUENCE, width))
    if library.family == "jax":
        parameters = jax_models.transformer_parameters(width, layers)
        jitted = library.compile(jax_models.transformer(heads))
        return lambda size: library.finish(jitted(parameters, x)), (1,)
    m = library.namespace
    model = programs.fill(m, programs.transformer(m, *_TRANSFORMER)).requires_grad_(False)
    compiled = library.compile(model)
    return lambda size: compiled(x), (1,)


def transformer_training(library: Library) -> tuple[Call, Sequence[int]]:
    """One training step of the same six layers, with Adam."""
    width, heads, layers = _TRANSFORMER
    arrays = (programs.normal(*_SEQUENCE, width), programs.normal(*_SEQUENCE, width, seed=1))
    batch = tuple(library.tensor(array) for array in arrays)
    if library.family == "jax":
        loss = jax_models.regression(jax_models.transformer(heads))
        parameters = jax_models.transformer_parameters(width, layers)
        step = jax_models.training_step(loss, parameters, batch)
        return lambda size: step(), (1,)
    m = library.namespace
    model = programs.fill(m, programs.transformer(m, *_TRANSFORMER))
    step = programs.training_step(library, programs.Training(model, programs.regression(m), batch))
    return lambda size: step(), (1,)


PROGRAMS: Final[Mapping[str, Program]] = {
    "chain": chain,
    "MLP step": mlp_step,
    "transformer inference": transformer_inference,
    "transformer training": transformer_training,
    "chain, batch 1 to 20": chain_batches,
    "MLP, batch 1 to 20": mlp_batches,
}
