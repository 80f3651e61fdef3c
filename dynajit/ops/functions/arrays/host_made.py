"""What NumPy computes in every call of a program: rows of a graph that call a function of it.

Contract: `by_numpy(name, numbers, shape, dtype)` is what NumPy's function of that name gives of
numbers, of which some are sizes that vary; the shape is said in terms of these. It is for functions
of cosines and powers, whose last bits are NumPy's own, and for lists of places. `of_arrays` takes
arrays in front of the numbers: it is for what nothing here computes to NumPy's bits, or for sizes
that vary. Where NumPy raises, the launch refuses its values, and NumPy says it in its own words.
Programs run such rows between generated ones; graphs alone know them (`FURTHER`).
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.errors import BoundsError, InternalError
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


def of_arrays(
    name: str, arrays: Sequence[Any], numbers: Sequence[Any], shape: Shape, dtype: DType
) -> Any:
    """What a function of NumPy's gives of arrays.

    Args:
        name: of the function in `numpy`; `add.at` and its kin take the index of each dim by itself,
            and give what they leave in their first array.
        arrays: its first operands: tensors on the CPU.
        numbers: those behind them, as of `by_numpy`.
        shape, dtype: of what it gives.
    """
    named = {"numbers": tuple(numbers), "shape": tuple(shape), "dtype": dtype}
    return _OF_ARRAYS(*arrays, name=name, **named)


def _infer(*, name: str, numbers: Any, shape: Shape, dtype: DType) -> TensorType:
    return TensorType(shape, dtype, CPU)


def _array(xp: Any, *, name: str, numbers: Any, shape: Shape, dtype: DType) -> Any:
    return _in_rows(getattr(np, name)(*numbers), name, shape, dtype)


def _in_rows(found: Any, name: str, shape: Shape, dtype: DType) -> Any:
    """What NumPy gave, row by row.

    Raises:
        InternalError: it has another shape than the graph says.
    """
    found = np.asarray(found)
    if found.shape != tuple(shape):
        raise InternalError(f"numpy.{name} gives the shape {found.shape}, not {shape}")
    return np.array(found, dtype.numpy, order="C", copy=None)


def _infer_of_arrays(
    *arrays: Any, name: str, numbers: Any, shape: Shape, dtype: DType
) -> TensorType:
    return TensorType(shape, dtype, CPU)


def _of_arrays(xp: Any, *arrays: Any, name: str, numbers: Any, shape: Shape, dtype: DType) -> Any:
    function: Any = np
    for part in name.split("."):
        function = getattr(function, part)
    try:
        with np.errstate(all="ignore"):  # compiled code warns of nothing
            if name.endswith(".at"):
                found = arrays[0].copy()
                behind = [*arrays[1:], *numbers]
                function(found, tuple(behind[:-1]), behind[-1])
            else:
                found = function(*arrays, *numbers)
    except (IndexError, ValueError, Warning) as error:
        raise BoundsError(f"numpy.{name}: {error}") from error
    return _in_rows(found, name, shape, dtype)


_MADE: Final = FURTHER.enter(
    Op(
        "made_by_numpy",
        Kind.EXTERN,
        (),
        {"name": REQUIRED, "numbers": REQUIRED, "shape": REQUIRED, "dtype": REQUIRED},
        _infer,
        Extern(_array, is_numpys=True),
        document="An array that NumPy makes of numbers: see `dynajit.ops.functions.arrays`.",
    )
)
"""Its name among attributes is no function: graphs lie on disk."""

_OF_ARRAYS: Final = FURTHER.enter(
    Op(
        "computed_by_numpy",
        Kind.EXTERN,
        ("arrays",),
        {"name": REQUIRED, "numbers": REQUIRED, "shape": REQUIRED, "dtype": REQUIRED},
        _infer_of_arrays,
        Extern(_of_arrays, widens=True, refuses=True, is_numpys=True),
        variadic=True,
        document="What NumPy computes of arrays: see `dynajit.ops.functions.arrays`.",
    )
)

__all__ = ["by_numpy", "of_arrays"]
