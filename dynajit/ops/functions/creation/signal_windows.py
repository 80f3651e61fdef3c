"""Library functions that make windows of signal processing.

Contract: `periodic` leaves out the last element of a symmetric window that is longer by one. They
are computed in float64 and rounded once. Source: A. V. Oppenheim, R. W. Schafer, "Discrete-Time
Signal Processing", section 7.5.
"""

import math
from collections.abc import Callable
from typing import Any

from dynajit.core.errors import DTypeError, ShapeError
from dynajit.core.types import dtypes
from dynajit.ops.calls import arguments
from dynajit.ops.calls.arguments import cast, device_of
from dynajit.ops.calls.public import Out, public
from dynajit.ops.table.op_table import TABLE


def _window(
    name: str, length: int, periodic: bool, shape: Callable[[Any], Any], options: dict[str, Any]
) -> Any:
    """A window as a function of the position from 0 to 1."""
    length = arguments.size(length, name)
    if length < 0:
        raise ShapeError(f"{name} requires non-negative window_length, got window_length={length}")
    dtype = options.get("dtype")
    kind = dtypes.default_floating() if dtype is None else arguments.dtype_of(dtype)
    if not kind.is_floating_point:
        raise DTypeError(f"{name} expects floating point dtypes, got: {kind.name}")
    place = device_of(options.get("device"))
    if length == 1:
        result = TABLE.full(1, shape=(1,), dtype=kind, device=place)
    else:
        steps = length if periodic else length - 1
        index = TABLE.arange(0, 1, size=length, dtype=dtypes.float64, device=place)
        result = cast(shape(TABLE.div(index, steps) if length else index), kind)
    return result.requires_grad_(True) if options.get("requires_grad") else result


def _cosines(position: Any, *weights: float) -> Any:
    """The sum of weights[k] * cos(2 pi k * position)."""
    total: Any = weights[0]
    for k, weight in enumerate(weights[1:], 1):
        wave = TABLE.cos(TABLE.mul(position, 2 * math.pi * k))
        total = TABLE.add(TABLE.mul(wave, weight), total)
    return total


@public(out=Out.ABSENT)
def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    """A raised cosine that is 0 at its ends."""
    return _window(
        "hann_window", window_length, periodic, lambda p: _cosines(p, 0.5, -0.5), options
    )


@public(out=Out.ABSENT)
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46,
    **options: Any,
) -> Any:  # fmt: skip
    """alpha - beta * cos: a raised cosine that is small at its ends."""
    return _window(
        "hamming_window", window_length, periodic, lambda p: _cosines(p, alpha, -beta), options
    )


@public(out=Out.ABSENT)
def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    """A sum of two cosines that is 0 at its ends."""
    return _window(
        "blackman_window", window_length, periodic,
        lambda p: _cosines(p, 0.42, -0.5, 0.08), options,
    )  # fmt: skip


@public(out=Out.ABSENT)
def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    """A triangle that is 0 at its ends."""

    def triangle(position: Any) -> Any:
        return TABLE.sub(1, TABLE.abs(TABLE.sub(TABLE.mul(position, 2), 1)))

    return _window("bartlett_window", window_length, periodic, triangle, options)


@public(out=Out.ABSENT)
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any
) -> Any:
    """i0(beta * sqrt(1 - x^2)) / i0(beta) for x from -1 to 1."""

    def bell(position: Any) -> Any:
        x = TABLE.sub(TABLE.mul(position, 2), 1)
        height = TABLE.sqrt(TABLE.clamp_min(TABLE.sub(1, TABLE.square(x)), 0))
        top = TABLE.full(beta, shape=(), dtype=dtypes.float64, device=x.device)
        return TABLE.div(TABLE.i0(TABLE.mul(height, beta)), TABLE.i0(top))

    return _window("kaiser_window", window_length, periodic, bell, options)
