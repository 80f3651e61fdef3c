"""`make_tensor`: random tensors with a given dtype, range and memory layout."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import InvalidValueError
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.type_info import finfo, iinfo
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions.creation.creation import empty, rand, randint
from dynajit.ops.functions.elements.complex import view_as_complex


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of random elements, uniform in [low, high).

    Args:
        shape: sizes, or one sequence of them.
        dtype: of the elements.
        device: where it lives.
        low, high: by default -9 and 9 for floating and complex dtypes (of both parts), -9 and 10
            for integers, 0 and 10 for those without a sign, 0 and 2 for bool. Brought into the
            range of the dtype.
        requires_grad: of the result, for floating and complex dtypes.
        noncontiguous: every second element of a larger tensor, where there are two or more.
        exclude_zero: zeros become the smallest positive normal number (1 for integers).
        memory_format: how the result lies.

    Raises:
        ValueError: low is not below high, lies outside the dtype's range or is NaN, or the options
            do not fit each other or the dtype.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    place = gpu.resolve(devices.parse(device), "make_tensor")
    is_spread = dtype.is_floating_point or dtype.is_complex
    if noncontiguous and memory_format is not None:
        raise InvalidValueError(
            "the parameters `noncontiguous` and `memory_format` are mutually exclusive"
        )
    if requires_grad and not is_spread:
        raise InvalidValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, got {dtype}"
        )
    bottom, top = _range(dtype, low, high)
    noncontiguous = noncontiguous and math.prod(sizes) > 1
    made = _drawn(_doubled(sizes) if noncontiguous else sizes, dtype, bottom, top).to(place)
    if exclude_zero:
        made = made.masked_fill(made == 0, finfo(dtype).tiny if is_spread else 1)
    if noncontiguous:
        made = made[..., 1::2]
    if memory_format is not None:
        made = made.clone(memory_format=memory_format)
    return made.requires_grad_() if requires_grad else made


def _doubled(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (*sizes[:-1], 2 * sizes[-1])


def _range(dtype: DType, low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds, by default those of the dtype.

    Raises:
        InvalidValueError: there is nothing between them, or nothing that the dtype holds.
    """
    is_spread = dtype.is_floating_point or dtype.is_complex
    least, beyond = _limits(dtype)
    default = (-9.0, 9.0) if is_spread else (-9, 10)
    bottom = default[0] if low is None else low
    top = default[1] if high is None else high
    if math.isnan(bottom) or math.isnan(top):
        raise InvalidValueError(f"`low` and `high` cannot be NaN, but got {bottom} and {top}")
    if bottom == top and is_spread:
        warnings.warn(
            "make_tensor: low==high is deprecated for floating and complex dtypes.  Use full(...).",
            FutureWarning,
            stacklevel=3,
        )
    elif not bottom < top:
        raise InvalidValueError(
            "`low` must be less than `high` (or equal, where nothing is drawn), "
            f"but got {bottom} >= {top}"
        )
    elif top < least or bottom >= beyond:
        raise InvalidValueError(
            f"make_tensor: got the interval [{bottom}, {top}), but {dtype} only holds numbers of "
            f"[{least}, {beyond})"
        )
    bottom, top = min(max(bottom, least), beyond), min(max(top, least), beyond)
    return (bottom, top) if is_spread else (math.ceil(bottom), math.ceil(top))


def _limits(dtype: DType) -> tuple[float, float]:
    """The least number of a dtype, and what bounds them above (of integers: first beyond)."""
    if dtype is dtypes.bool_:
        return 0, 2
    if dtype.is_floating_point or dtype.is_complex:
        return finfo(dtype).min, finfo(dtype).max
    return iinfo(dtype).min, min(iinfo(dtype).max + 1, 2**63 - 1)  # what `randint` can draw


def _drawn(sizes: tuple[int, ...], dtype: DType, low: float, high: float) -> Tensor:
    if 0 in sizes:
        return empty(*sizes, dtype=dtype)
    if dtype.is_complex:
        parts = _drawn((*sizes, 2), dtypes.float64, low, high)
        return view_as_complex(parts).to(dtype)
    if dtype.is_floating_point:
        return (rand(*sizes, dtype=dtypes.float64) * (high - low) + low).to(dtype)
    return randint(int(low), int(high), sizes).to(dtype)
