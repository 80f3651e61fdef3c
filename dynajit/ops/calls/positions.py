"""Vectors of numbers that follow from sizes: positions that are read, and weights.

Contract: formulas are written once, over what `numbers_for` gives: NumPy's functions where the
sizes are known, so that results are constants; else rows, which compute the same numbers when the
graph runs. Both take operators; dtypes are always asked for by name, since NumPy and rows promote
integers in different ways. Numbers are float64 where `cast` did not say otherwise.
"""

import math
from fractions import Fraction
from typing import Any, Final

import numpy as np

from dynajit.core.types import dtypes, symint
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import SymInt
from dynajit.core.types.value_types import Size, numel
from dynajit.ops.calls.arguments import constant, float_operand
from dynajit.ops.table.op_table import TABLE


class _Known:
    """NumPy's functions."""

    floor = staticmethod(np.floor)
    trunc = staticmethod(np.trunc)
    abs = staticmethod(np.abs)
    minimum = staticmethod(np.minimum)
    maximum = staticmethod(np.maximum)
    where = staticmethod(np.where)

    @staticmethod
    def arange(count: Size) -> Any:
        """0, 1, ... in int64."""
        return np.arange(int(count))

    @staticmethod
    def cast(x: np.ndarray | float, dtype: DType) -> Any:
        """x in `dtype`."""
        return x.astype(dtype.numpy) if isinstance(x, np.ndarray) else dtype.numpy.type(x)

    @staticmethod
    def count(size: Size) -> Any:
        """A size among integers."""
        return size

    @staticmethod
    def number(size: Size) -> Any:
        """A size among float64 numbers."""
        return float(size)

    @staticmethod
    def sum(x: np.ndarray, dim: int) -> Any:
        """Sums along a dim, which stays."""
        return x.sum(axis=dim, keepdims=True)

    @staticmethod
    def reshape(x: np.ndarray, *shape: Size) -> Any:
        """x in another shape."""
        return x.reshape([int(size) for size in shape])

    @staticmethod
    def tensor(x: np.ndarray, device: Device) -> Any:
        """What rows take."""
        return constant(x, device)


class _Computed:
    """Rows of the graph that is recorded.

    Args:
        device: where numbers are used.
    """

    floor = staticmethod(lambda x: TABLE.floor(x))
    trunc = staticmethod(lambda x: TABLE.trunc(x))
    abs = staticmethod(lambda x: TABLE.abs(x))
    minimum = staticmethod(lambda x, other: TABLE.minimum(x, other))
    maximum = staticmethod(lambda x, other: TABLE.maximum(x, other))
    where = staticmethod(lambda condition, x, other: TABLE.where(condition, x, other))

    def __init__(self, device: Device) -> None:
        self.device = device

    def arange(self, count: Size) -> Any:
        """0, 1, ... in int64."""
        return TABLE.arange(0, 1, size=count, dtype=dtypes.int64, device=self.device)

    def cast(self, x: Any, dtype: DType) -> Any:
        """x in `dtype`."""
        if isinstance(x, float | int):
            return TABLE.full(x, shape=(), dtype=dtype, device=self.device)
        return TABLE.cast(x, dtype=dtype)

    def count(self, size: Size) -> Any:
        """A size among integers."""
        return size if isinstance(size, int) else TABLE.integer(value=size)

    def number(self, size: Size) -> Any:
        """A size among float64 numbers."""
        return float_operand(size) if isinstance(size, SymInt) else float(size)

    def sum(self, x: Any, dim: int) -> Any:
        """Sums along a dim, which stays."""
        return TABLE.sum(x, dim=(dim,), keepdim=True)

    def reshape(self, x: Any, *shape: Size) -> Any:
        """x in another shape."""
        return TABLE.reshape(x, shape=shape)

    def tensor(self, x: Any, device: Device) -> Any:
        """What rows take."""
        return x


_KNOWN: Final = _Known()


def numbers_for(device: Device, *sizes: Size) -> Any:
    """The functions that numbers are computed with which follow from these sizes.

    Args:
        device: of the tensors that they are used with.
    """
    if all(isinstance(size, int) for size in sizes):
        return _KNOWN
    return _Computed(device)


def chosen_positions(mask: Any, count: Size) -> tuple[Any, ...]:
    """The positions of the true elements of a mask in row-major order, per dim int64 (count,).

    Args:
        count: how many there are, which follows from the sizes.
    """
    shape = tuple(mask.shape)
    is_other = TABLE.logical_not(TABLE.reshape(mask, shape=(numel(shape),)))
    rest = TABLE.argsort(is_other, dim=0, descending=False, start=0, stop=count)
    found: list[Any] = []
    for size in reversed(shape[1:]):
        width = size if isinstance(size, int) else TABLE.integer(value=size)
        found.insert(0, TABLE.remainder(rest, width))
        rest = TABLE.floor_divide(rest, width)
    return rest, *found


def _sum_within(last: Size, most: Size) -> Size:
    """The sum of min(max(i, 0), most) for all integers i up to `last`."""
    inside = symint.minimum(symint.maximum(last, 0), most)
    return inside * (inside + 1) // 2 + most * symint.maximum(last - most, 0)


def triangle_positions(
    rows: Size, columns: Size, offset: Size, is_lower: bool, device: Device
) -> tuple[Any, Any]:
    """Rows and columns of the elements of a triangle of a matrix, row by row, int64."""
    if isinstance(rows, int) and isinstance(columns, int) and isinstance(offset, int):
        make = np.tril_indices if is_lower else np.triu_indices
        place, at = make(rows, offset, columns)
        return constant(place.astype(np.int64), device), constant(at.astype(np.int64), device)
    edge = offset if is_lower else offset - 1
    below = _sum_within(rows + edge, columns) - _sum_within(edge, columns)
    kept = (TABLE.tril if is_lower else TABLE.triu)(
        TABLE.full(True, shape=(rows, columns), dtype=dtypes.bool_, device=device), diagonal=offset
    )
    found = chosen_positions(kept, below if is_lower else rows * columns - below)
    return found[0], found[1]


def scaled(length: Size, factor: float) -> Size:
    """`length * factor` of floats, rounded down.

    Of a symbolic size an expression, where that gives the same number for all sizes up to some
    bound, which is asked for.
    """
    if factor.is_integer():
        return length * int(factor)
    if isinstance(length, int):
        return math.floor(length * factor)
    exact = Fraction(factor).limit_denominator(_MOST_PARTS)
    known = np.arange(_LARGEST_SCALED)
    found = np.floor(known * factor).astype(np.int64)
    wrong = np.flatnonzero(found != known * exact.numerator // exact.denominator)
    if not length < (int(wrong[0]) if wrong.size else _LARGEST_SCALED):
        return math.floor(int(length) * factor)
    return length * exact.numerator // exact.denominator


_MOST_PARTS: Final = 1000
_LARGEST_SCALED: Final = 1 << 16
