"""`make_tensor`: random tensors with a given dtype, range and memory layout."""

from collections.abc import Sequence
from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import InvalidValueError, UnsupportedError
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.type_info import iinfo
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions.creation.creation import empty, rand, randint


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
        dtype: bool, an integer or a floating dtype.
        device: where it lives.
        low, high: by default -9 and 9 for floating dtypes, -9 and 10 for integers, 0 and 10 for
            uint8, 0 and 2 for bool.
        requires_grad: of the result, for floating dtypes.
        noncontiguous: every second element of a larger tensor.
        exclude_zero: zeros become the smallest positive value (1 for integers).

    Raises:
        ValueError: low is not below high, or the options do not fit the dtype.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    place = gpu.resolve(devices.parse(device), "make_tensor")
    if dtype.is_complex or memory_format is not None:
        raise UnsupportedError(
            "make_tensor: complex dtypes and memory formats are not available.  Make the tensor "
            "from parts."
        )
    if requires_grad and not dtype.is_floating_point:
        raise InvalidValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, got {dtype}"
        )
    bottom, top = _range(dtype, low, high)
    made = _drawn(_doubled(sizes) if noncontiguous else sizes, dtype, bottom, top).to(place)
    if exclude_zero:
        smallest = _smallest(dtype)
        made = made.masked_fill(made == 0, smallest)
    if noncontiguous and made.numel() > 1:
        made = made[..., ::2]
    return made.requires_grad_() if requires_grad else made


def _doubled(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (*sizes[:-1], 2 * sizes[-1]) if sizes else sizes


def _smallest(dtype: DType) -> float:
    """What stands for zero where zeros are not wanted."""
    if not dtype.is_floating_point:
        return 1
    return 1e-7 if dtype in (dtypes.float16, dtypes.bfloat16) else 1e-30


def _range(dtype: DType, low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds, by default those of the dtype.

    Raises:
        InvalidValueError: there is nothing between them.
    """
    default = (-9.0, 9.0)
    if dtype is dtypes.bool_:
        default = (0, 2)
    elif dtype is dtypes.uint8:
        default = (0, 10)
    elif not dtype.is_floating_point:
        default = (-9, 10)
    bottom = default[0] if low is None else low
    top = default[1] if high is None else high
    if not dtype.is_floating_point and dtype is not dtypes.bool_:
        bottom, top = max(bottom, iinfo(dtype).min), min(top, iinfo(dtype).max)
    if not bottom < top:
        raise InvalidValueError(
            "`low` must be less than `high` (or equal, where nothing is drawn), "
            f"but got {bottom} >= {top}"
        )
    return bottom, top


def _drawn(sizes: tuple[int, ...], dtype: DType, low: float, high: float) -> Tensor:
    if 0 in sizes:
        return empty(*sizes, dtype=dtype)
    if dtype.is_floating_point:
        return (rand(*sizes, dtype=dtypes.float64) * (high - low) + low).to(dtype)
    return randint(int(low), int(high), sizes).to(dtype)
