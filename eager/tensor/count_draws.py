"""Random counts: `poisson` and `binomial`.

Contract: the default generator of the device (or the given one) gives the seed of NumPy's sampler,
so equal states give equal draws, which are made on the host for tensors on a GPU, too. The gradient
of rates is 0. This works eagerly, and ends the graph of a compiled region.
"""

from typing import Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import (
    DTypeError,
    DTypeNotImplementedError,
    InvalidValueError,
    InvalidValueRuntimeError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.eager import _tensor
from dynajit.ops.calls.arguments import require_tensor, unchanged_by
from dynajit.ops.functions.creation.creation import randint


def _sampler(generator: Any, place: Device) -> Any:
    words = randint(0, 2**31 - 1, (4,), dtype=dtypes.int64, generator=generator, device=place)
    return np.random.default_rng(words.tolist())


def _float64(tensor: Any, name: str) -> Any:
    if not require_tensor(tensor, name).dtype.is_floating_point:
        raise DTypeNotImplementedError(
            f'"{name}" not implemented for {tensor.dtype.name}.  Convert with float().'
        )
    return np.asarray(any_arrays.as_numpy(tensor.array), np.float64)


def poisson(input: Any, generator: Any = None) -> Any:
    """Draws of Poisson distributions with rates `input`, of its shape and dtype.

    Raises:
        DTypeError: the rates are integers.
        InvalidValueError: a rate is negative or NaN.
    """
    rates = _float64(input, "poisson")
    if not (rates >= 0).all():
        raise InvalidValueRuntimeError("invalid Poisson rate, expected rate to be non-negative")
    drawn = np.asarray(_sampler(generator, input.device).poisson(rates))
    made = _tensor.wrap(any_arrays.placed_like(drawn.astype(input.array.dtype), input.array))
    return unchanged_by(made, input)


def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """How many of `count` trials succeed, each with probability `prob`; broadcast, dtype of count.

    Raises:
        DTypeError: the dtypes differ, or are integers.
        InvalidValueError: a count is negative, or a probability outside [0, 1].
    """
    if count.dtype is not prob.dtype:
        raise DTypeError(
            f"binomial: found dtype {prob.dtype.name} of prob but expected {count.dtype.name}"
        )
    trials, chance = _float64(count, "binomial"), _float64(prob, "binomial")
    if not (trials >= 0).all() or not ((chance >= 0) & (chance <= 1)).all():
        raise InvalidValueError("binomial: expected counts >= 0 and probabilities in [0, 1]")
    drawn = np.asarray(_sampler(generator, count.device).binomial(trials.astype(np.int64), chance))
    return _tensor.wrap(any_arrays.placed_like(drawn.astype(count.array.dtype), count.array))
