"""`finfo` and `iinfo`: the limits of element types.

Contract: frozen data with PyTorch's attribute names, made once per dtype: the functions look it up,
which capture follows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import ml_dtypes
import numpy as np

from dynajit.core.errors import ArgumentError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType


@dataclass(frozen=True)
class FloatingLimits:
    """Limits of a floating dtype.

    `resolution` is 10 ** -(decimal digits that always survive), `eps` the step above 1, `tiny` and
    `smallest_normal` the least number with all bits, `bits` the size of an element.
    """

    resolution: float
    min: float
    max: float
    eps: float
    smallest_normal: float
    tiny: float
    bits: int
    dtype: str

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        parts = ", ".join(f"{name}={getattr(self, name):.6g}" for name in names)
        return f"finfo({parts}, dtype={self.dtype})"


@dataclass(frozen=True)
class IntegerLimits:
    """Limits of an integer dtype; `bits` is the size of an element."""

    min: int
    max: int
    bits: int
    dtype: str

    def __repr__(self) -> str:
        # Six digits, as PyTorch prints them.
        return f"iinfo(min={self.min:.6g}, max={self.max:.6g}, dtype={self.dtype})"


def _floating(dtype: DType) -> FloatingLimits:
    limits = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    tiny = float(limits.tiny)
    return FloatingLimits(
        resolution=10.0 ** -math.floor(limits.nmant * math.log10(2)),
        min=float(limits.min),
        max=float(limits.max),
        eps=float(limits.eps),
        smallest_normal=tiny,
        tiny=tiny,
        bits=int(limits.bits),
        dtype=dtype.name,
    )


def _short(dtype: DType) -> FloatingLimits:
    """Of a float of 8 bits: NumPy and PyTorch differ in the step of one of them."""
    limits = _floating(dtype)
    return replace(limits, eps=0.125) if dtype is dtypes.float8_e5m2fnuz else limits


def _integer(dtype: DType) -> IntegerLimits:
    limits = np.iinfo(dtype.numpy)
    return IntegerLimits(int(limits.min), int(limits.max), int(limits.bits), dtype.name)


# A complex dtype has the limits of its parts.
_FLOATING: Final = {
    **{dtype: _floating(dtype) for dtype in dtypes.FLOATING},
    **{dtype: _short(dtype) for dtype in dtypes.SHORT},
    dtypes.complex64: _floating(dtypes.float32),
    dtypes.complex128: _floating(dtypes.float64),
}
_INTEGER: Final = {dtype: _integer(dtype) for dtype in (*dtypes.INTEGER, *dtypes.UNSIGNED)}


_Limits = TypeVar("_Limits")


def _limits(name: str, table: Mapping[Any, _Limits], dtype: Any, kind: str, other: str) -> _Limits:
    found = dtypes.parse(dtype)
    if found not in table:
        raise ArgumentError(f"{name}({dtype}): requires {kind} input type.  Use {other}.")
    return table[found]


def finfo(type: Any = None) -> FloatingLimits:
    """Limits of a floating dtype, by default of the default one; of its parts, for a complex one.

    Raises:
        ArgumentError: another dtype, or none.
    """
    return _limits(
        "finfo",
        _FLOATING,
        type or dtypes.default_floating(),
        "a floating point",
        "iinfo for integers",
    )


def iinfo(type: Any) -> IntegerLimits:
    """Limits of an integer dtype.

    Raises:
        ArgumentError: another dtype, or none.
    """
    return _limits("iinfo", _INTEGER, type, "an integer", "finfo for floating ones")
