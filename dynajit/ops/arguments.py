"""How arguments of library functions are read: PyTorch's flexible forms in, strict values out.

Contract: pure functions over shapes, dims, numbers and dtypes; nothing here runs an op. Called by
the library functions (`ops.*_functions`), `ops.subscript` and `ops.methods`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from dynajit.core import device as devices
from dynajit.core import dtypes
from dynajit.core.device import CPU, Device
from dynajit.core.dtypes import Category, DType
from dynajit.core.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from dynajit.core.symint import SymInt
from dynajit.core.types import Shape, Size, numel
from dynajit.ops import dispatch
from dynajit.ops.families import normalize_dim
from dynajit.ops.table import TABLE

NUMBERS = (bool, int, float, complex)
_VALUES = (*NUMBERS, np.generic, np.ndarray)


def is_tensor(value: Any) -> bool:
    """True for whatever runs ops: an eager tensor, a graph value, an operand of type inference."""
    return hasattr(value, "__dynajit_priority__")


def is_operand(value: Any) -> bool:
    """True for tensors, Python and NumPy numbers, and raw arrays."""
    return isinstance(value, _VALUES) or is_tensor(value)


def operand(value: Any) -> Any:
    """`value` as an operand of a row; a NumPy number becomes a Python number."""
    return value.item() if isinstance(value, np.generic) else value


def known_number(value: Any) -> Any:
    """A zero-dim tensor as a Python float where its value is known now, else in float64.

    For formulas that are written once for eager execution, where an operation on floats costs a
    tenth, and for graphs, which hold for any value.
    """
    return value.double() if dispatch.is_recording() else float(value)


def fitting(value: Any, dtype: DType, function: str) -> Any:
    """`operand(value)`, refused if it is a number that `dtype` cannot hold.

    Negative numbers wrap into uint8 as in PyTorch, as far as their magnitude fits.

    Args:
        value: number, tensor or None; only finite Python numbers are checked.
        dtype: what the number is converted to.
        function: for the message.

    Raises:
        DTypeError: the number would overflow.

    Source: `torch.full` and `Tensor.fill_` of PyTorch 2.x ("cannot be converted ... without
    overflow").
    """
    number = operand(value)
    if isinstance(number, (int, float)) and math.isfinite(number):
        low, high = _range_of(dtype)
        if not low <= number <= high:
            raise DTypeError(
                f"{function}: value {number!r} cannot be converted to {dtype.name} without "
                f"overflow.  Expected a number in [{low}, {high}], or a wider dtype."
            )
    return number


@functools.cache
def _range_of(dtype: DType) -> tuple[float, float]:
    """Smallest and largest number that is accepted for a dtype."""
    if dtype.category is Category.BOOL:
        return -math.inf, math.inf
    if dtype.category is Category.INTEGER:
        limits = np.iinfo(dtype.numpy)
        return (int(limits.min) or -int(limits.max)), int(limits.max)
    component = dtypes.float32 if dtype is dtypes.complex64 else dtype
    component = dtypes.float64 if dtype is dtypes.complex128 else component
    largest = float(ml_dtypes.finfo(component.numpy).max)  # type: ignore[no-untyped-call]
    return -largest, largest


def require_tensor(value: Any, function: str, name: str = "input") -> Any:
    """`value` if it is a tensor.

    Raises:
        ArgumentError: it is not.
    """
    if not is_tensor(value):
        raise ArgumentError(
            f"{function}(): argument '{name}' must be a tensor, not {type(value).__name__}.  "
            "Make one with dynajit.tensor(...)."
        )
    return value


def misplaced(words: str, call: str, error: type[BoundsError] = BoundsError) -> BoundsError:
    """What a row says about an index that is out of range, said of the function that was called.

    Args:
        words: of the row's error, which is not handled any more: the new one has no context.
        call: the call in words, with the tensor that is read and that of the indices.
    """
    return error(f"{call}: {words[max(words.rfind('index '), 0) :]}")


def spread(arguments: tuple[Any, ...], keyword: Any = None) -> tuple[Any, ...]:
    """`f(2, 3)`, `f((2, 3))` and `f(shape=(2, 3))` all give (2, 3).

    Raises:
        ArgumentError: they are given by position and by name.
    """
    if keyword is not None:
        if arguments:
            raise ArgumentError(
                f"sizes or dims were given by position, {arguments}, and by name, {keyword}.  "
                "Give them once."
            )
        arguments = (keyword,)
    if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)):
        return tuple(arguments[0])
    return arguments


def sizes(shape: Sequence[Any], function: str) -> Shape:
    """Sizes as integers; NumPy integers and others with `__index__` are accepted.

    Raises:
        ArgumentError: an entry is not an integer.
    """
    for entry in shape:
        if type(entry) is not int:
            return tuple([size(entry, function) for entry in shape])
    return tuple(shape)


def size(entry: Any, function: str) -> Size:
    """One integer argument; see `sizes`."""
    if type(entry) is int or isinstance(entry, SymInt):
        return entry
    if hasattr(entry, "__index__") and not isinstance(entry, float):
        return int(entry.__index__())
    raise ArgumentError(
        f"{function}(): expected an integer size, got {type(entry).__name__} {entry!r}."
    )


def non_negative(shape: Shape, function: str) -> Shape:
    """`shape`, checked.

    Raises:
        ShapeError: a size is negative.
    """
    for entry in shape:
        if isinstance(entry, int) and entry < 0:
            raise ShapeError(
                f"{function}(): trying to create a tensor with negative dimension {entry}: "
                f"{list(shape)}.  Expected sizes of at least 0."
            )
    return shape


def resolve_shape(shape: Shape, total: Size) -> Shape:
    """`shape` with an entry of -1 replaced so that the product is `total`.

    Raises:
        ShapeError: two entries are -1, or no size fits.
    """
    plain = _plainly_resolved(shape, total)
    if plain is not None:
        return plain
    unknown = [d for d, entry in enumerate(shape) if isinstance(entry, int) and entry == -1]
    if len(unknown) > 1:
        raise ShapeError(f"reshape(shape={list(shape)}): only one dimension can be inferred.")
    wrong = [entry for entry in shape if isinstance(entry, int) and entry < -1]
    if wrong:
        raise ShapeError(f"reshape(shape={list(shape)}): invalid shape dimension {wrong[0]}.")
    if not unknown:
        return shape
    known = numel(tuple(entry for d, entry in enumerate(shape) if d != unknown[0]))
    if isinstance(known, int) and known == 0:
        raise ShapeError(
            f"reshape(shape={list(shape)}): cannot reshape tensor of {total} elements because "
            "the unspecified dimension size -1 can be any value and is ambiguous."
        )
    found = total // known
    if found * known != total and isinstance(total, int) and isinstance(known, int):
        raise ShapeError(
            f"reshape: shape '{list(shape)}' is invalid for input of size {total}.  Expected "
            f"{total} to be a multiple of {known}."
        )
    return tuple(found if d == unknown[0] else entry for d, entry in enumerate(shape))


def _plainly_resolved(shape: Shape, total: Size) -> Shape | None:
    """`resolve_shape` where all sizes are plain and fit; None: it has to look closer."""
    at, known = -1, 1
    for d, entry in enumerate(shape):
        if type(entry) is not int:
            return None
        if entry >= 0:
            known *= entry
        elif entry == -1 and at < 0:
            at = d
        else:
            return None
    if at < 0:
        return shape
    if known == 0 or type(total) is not int or total % known:
        return None
    return (*shape[:at], total // known, *shape[at + 1 :])


def dim_of(x: Any, dim: Any, function: str) -> int:
    """`dim` of tensor x, counted from the front; see `families.normalize_dim`."""
    rank = len(x.shape)
    if type(dim) is int and -rank <= dim < rank:  # the words of a refusal need not be prepared
        return dim if dim >= 0 else dim + rank
    return normalize_dim(dim, rank, f"{function}(input: {describe_tensor(x)})")


def describe_tensor(x: Any) -> str:
    """`float32[2, 3]`."""
    return f"{x.dtype.name}[{', '.join(map(str, x.shape))}]"


def dtype_of(value: Any) -> DType:
    """A dtype argument: a DType, the Python types bool, int, float, complex, or a NumPy dtype.

    Raises:
        ArgumentError: it is none of these.
    """
    found = dtypes.parse(value)
    if found is not None:
        return found
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return dtypes.from_numpy(value)
    raise ArgumentError(f"dtype is {value!r}.  Expected a dtype such as dynajit.float32.")


def device_of(value: Any) -> Device:
    """The device argument of what makes a tensor; None is the default device. Where a GPU has no
    number, it is the current one."""
    return devices.of_new_tensor(value)


def cast(x: Any, dtype: DType | None) -> Any:
    """x in `dtype`; x itself if it has it already or none is asked for."""
    return x if dtype is None or x.dtype is dtype else TABLE.cast(x, dtype=dtype)


def constant(array: Any, device: Device) -> Any:
    """A tensor of elements that are known now, on a device.

    Args:
        array: of NumPy, or of CuPy on that device.
    """
    if not isinstance(array, np.ndarray):
        return TABLE.to_device(array, device=device)
    made = TABLE.clone(array)
    return made if device is CPU else TABLE.to_device(made, device=device)


def placed(x: Any, device: Device) -> Any:
    """x if it is elsewhere than on the CPU, or the device is the CPU; else a copy of it there: what
    programs give on the CPU to be used with a tensor on a GPU."""
    if device is CPU or x.device is not CPU:
        return x
    return TABLE.to_device(x, device=device)


def common_dtype(operands: Sequence[Any]) -> DType:
    """The dtype in which tensors and numbers meet (`dtypes.result_type`)."""
    first: DType | None = getattr(operands[0], "dtype", None) if operands else None
    if first is not None and all(is_tensor(x) and x.dtype is first for x in operands):
        return first
    tensors = [(x.dtype, len(x.shape)) for x in operands if is_tensor(x)]
    numbers = [category_of(x) for x in operands if not is_tensor(x)]
    return dtypes.result_type(tensors, numbers)


def rounded_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors and numbers that computes in float32 where they are 16-bit floats, and
    rounds at its end only."""

    @functools.wraps(function)
    def wrapper(*operands: Any, **options: Any) -> Any:
        given = [x for x in (*operands, *options.values()) if is_tensor(x)]
        if not any(x.dtype.itemsize == 2 for x in given):
            return function(*operands, **options)
        dtype = common_dtype(given)
        wide = dtypes.compute_dtype(dtype)
        if wide is dtype:
            return function(*operands, **options)
        widened = [cast(x, wide) if is_tensor(x) else x for x in operands]
        others = {name: cast(x, wide) if is_tensor(x) else x for name, x in options.items()}
        return cast(function(*widened, **others), dtype)

    return wrapper


def coefficient(value: Any, dtype: DType) -> Any:
    """`value` as a factor of tensors of `dtype`: a float loses its fraction for integers, as in
    PyTorch's kernels, which convert `alpha`, `beta` and `value` to the dtype of the tensors."""
    value = operand(value)
    whole = isinstance(value, float) and dtype.category is Category.INTEGER
    return int(value) if whole else value


def category_of(number: Any) -> Category:
    """Promotion category of a Python or NumPy number."""
    return dtypes.category_of(number)
