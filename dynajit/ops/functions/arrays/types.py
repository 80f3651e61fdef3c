"""Dtypes as NumPy chooses them (NEP 50), and operands of one dtype.

Contract: an operand is a tensor, whose dtype counts, or a Python number, which counts by its
category only. NumPy itself is asked for the dtypes of its loops.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import SymInt
from dynajit.ops.calls.arguments import (
    cast,
    category_of,
    constant,
    is_number,
    is_run_time_number,
    is_tensor,
)
from dynajit.ops.functions.arrays.table import left, stands_for
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

_KINDS = {
    Category.BOOL: np.dtype(bool), Category.INTEGER: int, Category.FLOATING: float,
    Category.COMPLEX: complex,
}  # fmt: skip


def kind_of(x: object) -> Any:
    """What NumPy is told of an operand: a dtype, or a Python class of numbers."""
    if not is_number(x) and is_tensor(x):
        return x.dtype.numpy
    return _KINDS[category_of(x)]


def own_dtype(dtype: Any) -> DType:
    """Ours for one of NumPy's.

    Raises:
        LeftToNumPy: nothing is computed in it.
    """
    found = np.dtype(dtype)
    if found.kind not in "biufc" or not found.isnative:
        raise left(f"dtype {found}")
    try:
        own = dtypes.from_numpy(found)
    except Exception:
        raise left(f"dtype {found}") from None
    if own in dtypes.STORED:
        raise left(f"dtype {found}")
    return own


def asked(dtype: Any) -> Any:
    """A dtype argument as NumPy's dtype; None stays None."""
    return None if dtype is None else np.dtype(dtype)


def in_dtype(x: object, dtype: Any) -> Any:
    """An operand as one of a dtype of NumPy's; a number stays one where no element changes it.

    Raises:
        OverflowError: an int does not fit.
    """
    own = own_dtype(dtype)
    if is_run_time_number(x):
        return _run_time_number(x, own)
    if is_tensor(x):
        is_wrapped = own is dtypes.uint8 and x.dtype.category is Category.FLOATING  # -1.0 is 255
        return cast(cast(x, dtypes.int64) if is_wrapped else x, own)
    if type(x) in (bool, int, float, complex):
        return np.asarray(x, np.dtype(dtype)).item()
    return TABLE.full(x, shape=(), dtype=own, device=CPU)


#: In which every number of a program is as NumPy has it.
_OF_NUMBERS = (dtypes.float32, dtypes.float64, dtypes.int64)


def _run_time_number(x: object, dtype: DType) -> Any:
    """A number that a graph takes at run time, as a tensor.

    Raises:
        LeftToNumPy: whether it fits is only known when it is known.
    """
    if dtype not in _OF_NUMBERS or category_of(x) > dtype.category:
        raise left(f"a number that varies as {dtype.name}")
    return TABLE.mul(TABLE.full(1, shape=(), dtype=dtype, device=CPU), x)


def as_tensor(x: object, dtype: Any = None) -> "TensorMethods":
    """An operand as a tensor: a number in the dtype that NumPy gives it."""
    if is_tensor(x) and not is_run_time_number(x):
        return x if dtype is None else cast(x, own_dtype(dtype))
    if isinstance(x, (list, tuple)):
        nested: TensorMethods = array(x, dtype)
        return nested
    kind = kind_of(x)
    kind = np.dtype(kind) if dtype is None else np.dtype(dtype)
    value = in_dtype(x, kind)
    return (
        value
        if is_tensor(value)
        else TABLE.full(value, shape=(), dtype=own_dtype(kind), device=CPU)
    )


def common(values: Sequence[Any]) -> Any:
    """NumPy's dtype for several operands."""
    kinds = [kind_of(x) for x in values]
    typed = [kind if isinstance(kind, np.dtype) else kind(0) for kind in kinds]
    return np.result_type(*typed)


def default_sum(dtype: Any) -> Any:
    """The dtype in which NumPy adds: at least int64 for integers."""
    found = np.dtype(dtype)
    if found.kind in "bi":
        return np.dtype(np.int64) if found.itemsize < 8 else found
    return np.dtype(np.uint64) if found.kind == "u" else found


def axes_of(x: "TensorMethods", axis: Any) -> tuple[int, ...]:
    """The dims that `axis` names: None all.

    Raises:
        AxisError: no dim of the array.
    """
    rank = len(x.shape)
    given = range(rank) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    found = []
    for dim in given:
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise TypeError(f"an axis is an integer, not {dim!r}")
        if not -rank <= dim < rank:
            raise np.exceptions.AxisError(dim, rank)
        found.append(dim % rank)
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return tuple(found)


def axis_of(x: "TensorMethods", axis: Any) -> int:
    """The dim that `axis` names."""
    return axes_of(x, (axis,))[0]


def sizes_of(shape: Any) -> tuple[Any, ...]:
    """A shape argument: an integer or several.

    Raises:
        ValueError: a size is negative.
    """
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for size in given:
        if not isinstance(size, (int, SymInt)) or isinstance(size, bool):
            raise TypeError(f"a size is an integer, not {size!r}")
        if isinstance(size, int) and size < 0:
            raise ValueError("negative dimensions are not allowed")
    return given


def require_c_order(order: Any, *accepted: str) -> None:
    """Refuse an order of elements in memory other than row by row."""
    if order not in (None, "C", *accepted):
        raise left(f"order={order!r}")


def refuse_given(name: str, **given: Any) -> None:
    """Refuse arguments that were given, by name."""
    for argument, value in given.items():
        if value is not None and value is not np._NoValue:
            raise left(f"{argument}= of numpy.{name}")


def _holds_tensor(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(map(_holds_tensor, data))
    return not isinstance(data, (bool, int, float, complex))


def _nested(data: Any) -> Any:
    if not isinstance(data, (list, tuple)):
        return as_tensor(data)
    if not data:
        return as_tensor([])
    items = [_nested(item) for item in data]
    kind = np.result_type(*(item.dtype.numpy for item in items))
    return TABLE.stack(*(in_dtype(item, kind) for item in items), dim=0)


@stands_for(np.array, gives_arrays=True, is_view=True)
def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: bool = False,
    ndmin: int = 0, like: Any = None,
) -> Any:  # fmt: skip
    """An array of the elements of another, of a number, or of nested lists."""
    require_c_order(order, "K", "A")
    if like is not None or type(ndmin) is not int:
        raise left("like= or ndmin= of numpy.array")
    if is_tensor(object):
        found = in_dtype(object, object.dtype.numpy if dtype is None else dtype)
        if found is not object and copy is False:
            raise ValueError("Unable to avoid copy")
        found = TABLE.clone(found) if found is object and copy is True else found
        return _of_rank(found, ndmin)
    if copy is False:
        raise left("copy=False of numpy.array")
    if not _holds_tensor(object):
        made = np.array(object, dtype, ndmin=ndmin)
        own_dtype(made.dtype)
        return constant(made, CPU)
    found = _nested(object)
    return _of_rank(found if dtype is None else in_dtype(found, dtype), ndmin)


def _of_rank(x: "TensorMethods", rank: int) -> Any:
    missing = rank - len(x.shape)
    return TABLE.reshape(x, shape=(*(1,) * missing, *x.shape)) if missing > 0 else x


@stands_for(np.asarray, np.asanyarray, gives_arrays=True, is_view=True)
def asarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None,
            like: Any = None) -> Any:  # fmt: skip
    """The array itself where it has the dtype."""
    require_c_order(order, "K", "A")
    refuse_given("asarray", device=device, copy=copy, like=like)
    return as_tensor(a, dtype)
