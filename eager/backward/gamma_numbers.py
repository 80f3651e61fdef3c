"""Random numbers of the standard gamma distribution, with gradients.

Contract: numbers come from the default generator of a device, by rejection, so how many are drawn
depends on them: this works eagerly, and ends the graph of a compiled region. What is accepted is
found on the host, for tensors on a GPU, too. The gradient with respect to the concentration is that
of the draw with its probability held fixed.

Sources: G. Marsaglia and W. W. Tsang, ACM TOMS 26 (2000), for the draws; M. Figurnov et al.,
arXiv:1805.08498, for the gradient.
"""

from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.process.optional import load
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.eager import _tensor
from dynajit.eager.backward.function import Function
from dynajit.ops.functions.creation.creation import rand, randn

_STEP: Final = 1e-4
"""Relative step of the central difference, of 4th order: its error and the rounding of gammainc
(1e-15) are then about 1e-11."""


def _numbers(draw: Any, count: int, place: Device) -> Any:
    """An array of `rand` or `randn`, float64, drawn on a device."""
    return any_arrays.as_numpy(draw(count, dtype=dtypes.float64, device=place).array)


def _draw(shape: Any, place: Device) -> Any:
    """Draws for concentrations of 1 and more, float64."""
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    found = np.zeros_like(shape)
    waiting = np.arange(shape.size)
    while waiting.size:
        noise = _numbers(randn, waiting.size, place)
        uniform = _numbers(rand, waiting.size, place)
        scale, width = d[waiting], c[waiting]
        v = (1.0 + width * noise) ** 3
        with np.errstate(all="ignore"):
            bound = 0.5 * noise**2 + scale - scale * v + scale * np.log(v)
            accepted = (v > 0) & (np.log(uniform) < bound)
        found[waiting[accepted]] = (scale * v)[accepted]
        waiting = waiting[~accepted]
    return found


def draw(concentration: Any, place: Device = CPU) -> Any:
    """An array of draws, as many as concentrations, float64, by the generator of a device.

    Below 1 a draw for 1 more is multiplied by a power of a uniform number.
    """
    flat = np.ascontiguousarray(concentration, np.float64).reshape(-1)
    small = flat < 1.0
    found = _draw(np.where(small, flat + 1.0, flat), place)
    if small.any():
        uniform = 1.0 - _numbers(rand, flat.size, place)
        found = np.where(small, found * uniform ** (1.0 / flat), found)
    return found.reshape(np.shape(concentration))


def derivative(concentration: Any, value: Any) -> Any:
    """d value / d concentration at a fixed probability, float64: minus the derivative of the
    distribution function with respect to the concentration, over the density."""
    special = load("scipy.special", needed_for="gradients of gamma draws", install="scipy>=1.11")
    step = _STEP * concentration

    def probability(times: float) -> Any:
        return special.gammainc(concentration + times * step, value)

    rise = (8 * (probability(1) - probability(-1)) - probability(2) + probability(-2)) / (12 * step)
    with np.errstate(all="ignore"):
        density = np.exp(
            (concentration - 1) * np.log(value) - value - special.gammaln(concentration)
        )
        return np.where(density > 0, -rise / density, 0.0)


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        """The draws, in the dtype of the concentrations, never 0."""
        array = concentration.array
        wide = draw(np.asarray(any_arrays.as_numpy(array), np.float64), concentration.device)
        floor = np.finfo(np.float64 if array.dtype == np.float64 else np.float32).tiny
        drawn = np.asarray(np.maximum(wide, floor)).astype(array.dtype)
        found = _tensor.wrap(any_arrays.placed_like(drawn, array))
        ctx.save_for_backward(concentration, found)
        ctx.save_for_forward(concentration, found)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """The gradient of the concentrations; it has none itself."""
        return _StandardGamma.jvp(ctx, gradient)

    @staticmethod
    def jvp(ctx: Any, gradient: Any) -> Any:
        """The tangent of the draws, one by one that of the concentrations times the slope."""
        concentration, found = (
            np.asarray(any_arrays.as_numpy(x.array), np.float64) for x in ctx.saved_tensors
        )
        slope = np.asarray(derivative(concentration, found)).astype(gradient.array.dtype)
        return gradient * _tensor.wrap(any_arrays.placed_like(slope, gradient.array))


def standard_gamma(concentration: Any) -> Any:
    """Draws of Gamma(concentration, 1), shape and dtype of the concentration."""
    return _StandardGamma.apply(concentration)
