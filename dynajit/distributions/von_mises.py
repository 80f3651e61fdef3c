"""The von Mises distribution of angles."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.distributions import constraints
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.utils import broadcast_all
from dynajit.eager import _tensor
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.ops.functions import cos, log
from dynajit.ops.functions.creation.creation import rand
from dynajit.ops.functions.elements.special import i0e, i1e


class VonMises(Distribution):
    """Angles; mean and variance are the circular ones.

    Args:
        loc: the most probable angle, modulo 2 pi; tensor or number.
        concentration: positive; near 0 all angles are alike.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real
    _parameter_dims = {"loc": 0, "concentration": 0}  # noqa: RUF012

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            place = self.loc.device
            turned = _draw(np.broadcast_to(_float64(self.concentration), shape), place)
            angles = turned + _float64(self.loc)
            whole = (angles + math.pi) % (2 * math.pi) - math.pi
            return _tensor.wrap(np.asarray(whole)).to(place, self.loc.dtype)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        # log I0(k) is log(i0e(k)) + k.
        rise = self.concentration * (cos(value - self.loc) - 1)
        return rise - math.log(2 * math.pi) - log(i0e(self.concentration))


def _float64(tensor: Any) -> Any:
    return np.asarray(any_arrays.as_numpy(tensor.array), np.float64)


def _draw(concentration: Any, place: Device) -> Any:
    """Angles around 0, one per concentration, float64, by rejection from wrapped Cauchy angles; of
    numbers of the generator of a device.

    Source: D. J. Best and N. I. Fisher, Applied Statistics 28 (1979).
    """
    flat = np.ascontiguousarray(concentration).reshape(-1)
    found, waiting = np.full_like(flat, math.nan), np.flatnonzero((flat > 0) & np.isfinite(flat))
    # The wrapped Cauchy angles' rho, (t - sqrt(2 t)) / (2 k), without the cancellation.
    t = 1 + np.sqrt(1 + 4 * flat**2)
    rho = 2 * flat / (t + np.sqrt(2 * t))
    while waiting.size:
        turn, level, side = (
            any_arrays.as_numpy(rand(waiting.size, dtype=dtypes.float64, device=place).array)
            for _ in range(3)
        )
        k, r = flat[waiting], rho[waiting]
        # cos of a wrapped Cauchy angle: (1 + s z) / (s + z) with s = (1 + r**2) / (2 r).
        z = np.cos(math.pi * turn)
        cosine = (2 * r + (1 + r**2) * z) / (1 + r**2 + 2 * r * z)
        with np.errstate(all="ignore"):
            c = k * ((1 + r**2) / (2 * r) - cosine)
            accepted = (c * (2 - c) > level) | (np.log(c / level) + 1 - c >= 0)
        angle = np.where(side < 0.5, -1.0, 1.0) * np.arccos(np.clip(cosine, -1.0, 1.0))
        found[waiting[accepted]] = angle[accepted]
        waiting = waiting[~accepted]
    return found.reshape(np.shape(concentration))


__all__ = ["VonMises"]
