"""Arrays that NumPy itself makes of numbers in every call of a program: one row of a graph.

Contract: `by_numpy(name, numbers, shape, dtype)` is what NumPy's function of that name gives of
numbers, of which some are sizes that vary; the shape is said in terms of these. It is for functions
of cosines and powers, whose last bits are NumPy's own, and for lists of places: programs run such a
row between generated ones. The row is known to graphs only (`FURTHER`).
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.errors import InternalError
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import Shape, TensorType
from dynajit.ops.table.op_table import FURTHER, REQUIRED, Extern, Kind, Op


def by_numpy(name: str, numbers: Sequence[Any], shape: Shape, dtype: DType) -> Any:
    """What a function of NumPy's gives.

    Args:
        name: of the function in `numpy`.
        numbers: its operands, in its own order: numbers, sizes that vary, names of dtypes, None.
        shape, dtype: of what it gives; several arrays of one shape lie one after the other.
    """
    return _MADE(name=name, numbers=tuple(numbers), shape=shape, dtype=dtype)


def _infer(*, name: str, numbers: Any, shape: Shape, dtype: DType) -> TensorType:
    return TensorType(shape, dtype, CPU)


def _array(xp: Any, *, name: str, numbers: Any, shape: Shape, dtype: DType) -> Any:
    found = np.asarray(getattr(np, name)(*numbers))
    if found.shape != tuple(shape):
        raise InternalError(f"numpy.{name}{numbers} has the shape {found.shape}, not {shape}")
    return np.ascontiguousarray(found, dtype.numpy)


_MADE: Final = FURTHER.enter(
    Op(
        "made_by_numpy",
        Kind.EXTERN,
        (),
        {"name": REQUIRED, "numbers": REQUIRED, "shape": REQUIRED, "dtype": REQUIRED},
        _infer,
        Extern(_array),
        document="An array that NumPy makes of numbers: see `dynajit.ops.functions.arrays`.",
    )
)
"""Its name among attributes is no function: graphs lie on disk."""

__all__ = ["by_numpy"]
