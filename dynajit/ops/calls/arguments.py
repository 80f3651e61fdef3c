"""How arguments of library functions are read: PyTorch's flexible forms in, strict values out.

Contract: pure functions over shapes, dims, numbers and dtypes; nothing here runs an op.
"""

import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar
from typing import cast as cast_type

import ml_dtypes
import numpy as np

from dynajit.core.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import SymInt, is_within
from dynajit.core.types.value_types import ScalarType, Shape, Size, numel
from dynajit.ops.table import dispatch
from dynajit.ops.table.families import normalize_dim
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

NUMBERS = (bool, int, float, complex)
_VALUES = (*NUMBERS, np.generic, np.ndarray)


def is_tensor(value: object) -> "TypeGuard[TensorMethods]":
    """True for whatever runs ops: an eager tensor, a graph value, an operand of type inference."""
    return hasattr(value, "__dynajit_priority__")


def is_operand(value: Any) -> bool:
    """True for tensors, Python and NumPy numbers, and raw arrays."""
    return isinstance(value, _VALUES) or is_tensor(value)


def operand(value: Any) -> Any:
    """`value` as an operand of a row; a NumPy number becomes a Python number."""
    return value.item() if isinstance(value, np.generic) else value


def run_time_float(value: Any) -> Any:
    """`float(value)`; a number that a graph takes at run time stays what it is."""
    return value if type(value) is float or is_run_time_number(value) else float(value)


def known_number(value: Any) -> Any:
    """A zero-dim tensor as a Python float where its value is known now, else in float64.

    For formulas that are written once for eager execution, where an operation on floats costs a
    tenth, and for graphs, which hold for any value.
    """
    return value.double() if dispatch.is_recording() else float(value)


def float_operand(value: Any) -> Any:
    """A number that is divided or multiplied with floats: a symbolic size as a zero-dim float64
    tensor, since it has the arithmetic of integers only; others as they are."""
    if not isinstance(value, SymInt):
        return value
    return TABLE.cast(TABLE.integer(value=value), dtype=dtypes.float64)


def fitting(value: Any, dtype: DType, function: str) -> Any:
    """`operand(value)`, refused if it is a number that `dtype` cannot hold.

    Negative numbers wrap into uint8 as in PyTorch, as far as their magnitude fits.

    Args:
        value: number, tensor or None; numbers are checked, infinite ones and NaN for integer
            dtypes, and of a graph's run-time numbers
            those that have as much room on both sides of zero.
        dtype: what the number is converted to.
        function: for the message.

    Raises:
        DTypeError: the number would overflow.

    Source: `torch.full` and `Tensor.fill_` of PyTorch 2.x ("cannot be converted ... without
    overflow").
    """
    number = operand(value)
    low, high = _range_of(dtype)
    if isinstance(number, (int, float)):
        has_infinite = dtype.category is not Category.INTEGER
        fits = low <= number <= high or (has_infinite and not math.isfinite(number))
    else:
        at_run_time = isinstance(number, SymInt) or is_run_time_number(number)
        fits = not at_run_time or is_within(number, high)
    if not fits:
        raise DTypeError(
            f"{function}: value {number!r} cannot be converted to {dtype.name} without "
            f"overflow.  Expected a number in [{low}, {high}], or a wider dtype."
        )
    return number


def is_run_time_number(value: Any) -> bool:
    """True for a number that is an input of a graph."""
    return isinstance(getattr(value, "type", None), ScalarType)


def is_of_graph(value: Any) -> bool:
    """True for a number of Python's that a graph takes at run time, or computes."""
    return is_run_time_number(value) or getattr(value, "is_computed_number", False)


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


def is_integer(value: Any) -> bool:
    """True for what functions take as one integer: an int, a NumPy integer, a tensor without dims
    or with one element, and whatever else has `__index__`."""
    if isinstance(value, (int, SymInt)):
        return True
    if is_tensor(value):
        return all(type(n) is int and n == 1 for n in value.shape)
    if isinstance(value, np.ndarray):
        return value.ndim == 0
    return hasattr(value, "__index__")


def size(value: Any, function: str) -> Any:
    """An argument that is one integer (`is_integer`), as an int or a symbolic integer
    (Any, since functions say int of both).

    The one conversion of all library functions. A bool is none, but counts (`whole_number`) within
    sequences behind the first entry and in slices. The number of a tensor in a graph
    is not known: such a call is refused, and capture leaves it to eager execution.

    Raises:
        ArgumentError: it is none.
    """
    if type(value) is int or isinstance(value, SymInt):
        return value
    if isinstance(value, (bool, np.bool_)) or getattr(value, "dtype", None) is dtypes.bool_:
        raise ArgumentError(f"{function}(): expected an integer, but got a bool, {value!r}.")
    return whole_number(value, function)


def whole_number(value: Any, function: str) -> Any:
    """As `size`, but of a bool 0 or 1."""
    if isinstance(value, SymInt):
        return value
    if hasattr(value, "__index__"):
        return operator.index(value)
    kind = f"a tensor of {value.dtype.name}" if is_tensor(value) else type(value).__name__
    raise ArgumentError(f"{function}(): expected an integer, but got {kind} {value!r}.")


def integers(value: Any, function: str) -> Shape:
    """An argument that is one integer, or a sequence of them, as a tuple; see `size`."""
    return (size(value, function),) if is_integer(value) else sizes(value, function)


def sizes(shape: Sequence[Any], function: str) -> Shape:
    """A sequence of sizes as a tuple; see `size`."""
    for entry in shape:
        if type(entry) is not int:
            first, *rest = shape
            return size(first, function), *[whole_number(entry, function) for entry in rest]
    return tuple(shape)


Function = TypeVar("Function", bound=Callable[..., Any])


def with_integers(function: Function) -> Function:
    """A library function whose parameters that are annotated as integers get integers, whatever
    `size` takes was given; those called `dim` are left to `dim_of`."""
    parameters = inspect.signature(function).parameters
    several = {name: p.annotation == Sequence[int] for name, p in parameters.items()}
    wanted = tuple(
        (place, name)
        for place, (name, parameter) in enumerate(parameters.items())
        if parameter.annotation in _OF_INTEGERS and not name.startswith("dim")
    )

    def read(name: str, value: Any) -> Any:
        if value is None:
            return None
        return sizes(value, function.__name__) if several[name] else size(value, function.__name__)

    @functools.wraps(function)
    def wrapper(*args: Any, **named: Any) -> Any:
        for place, name in wanted:
            if place < len(args):
                if type(args[place]) is not int:
                    args = (*args[:place], read(name, args[place]), *args[place + 1 :])
            elif name in named and type(named[name]) is not int:
                named[name] = read(name, named[name])
        return function(*args, **named)

    return cast_type(Function, wrapper)


_OF_INTEGERS: Final = (int, int | None, Sequence[int])


_TOO_MANY: Final = 1 << 60  # elements of eight bytes, whose bytes no 64-bit integer counts


def non_negative(shape: Shape, function: str) -> Shape:
    """`shape`, checked.

    Raises:
        ShapeError: a size is negative, or no memory has so many elements.
    """
    count = 1
    for entry in shape:
        if not isinstance(entry, int):
            continue
        count *= entry
        if entry < 0:
            raise ShapeError(
                f"{function}(): trying to create a tensor with negative dimension {entry}: "
                f"{list(shape)}.  Expected sizes of at least 0."
            )
    if count >= _TOO_MANY:
        raise ShapeError(f"{function}(): storage size calculation overflowed with {list(shape)}.")
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


def dim_of(x: "TensorMethods", dim: Any, function: str) -> int:
    """`dim` of tensor x, counted from the front; see `families.normalize_dim`."""
    rank = len(x.shape)
    if type(dim) is int and -rank <= dim < rank:  # the words of a refusal need not be prepared
        return dim if dim >= 0 else dim + rank
    return normalize_dim(dim, rank, f"{function}(input: {describe_tensor(x)})")


def describe_tensor(x: "TensorMethods") -> str:
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


def cast(x: "TensorMethods", dtype: DType | None) -> Any:
    """x in `dtype`; x itself if it has it already or none is asked for."""
    return x if dtype is None or x.dtype is dtype else TABLE.cast(x, dtype=dtype)


def is_followed(x: object) -> bool:
    """Whether derivatives pass through a tensor: it requires gradients, or has a tangent; they may
    in graphs."""
    return bool(getattr(x, "requires_grad", True)) or bool(getattr(x, "_has_tangent", False))


def unchanged_by(x: "TensorMethods", y: Any, refused: str = "") -> Any:
    """x, whose derivative by y is 0, or refused: what steps of y, or its contents, decided.

    Args:
        y: a tensor that broadcasts to x.
        refused: the name of a function whose derivative nobody has.
    """
    if not is_tensor(y) or not is_followed(y):
        return x
    return TABLE.unchanged_by(x, y, refused=refused) if y.dtype.category >= Category.FLOATING else x


def constant(array: Any, device: Device) -> Any:
    """A tensor of elements that are known now, on a device.

    Args:
        array: of NumPy, or of CuPy on that device.
    """
    if not isinstance(array, np.ndarray):
        return TABLE.to_device(array, device=device)
    made = TABLE.clone(array)
    return made if device is CPU else TABLE.to_device(made, device=device)


def placed(x: "TensorMethods", device: Device) -> Any:
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
    PyTorch's kernels, which convert `alpha`, `beta` and `value` to the dtype of the tensors.

    Raises:
        DTypeError: a complex number for real tensors.
    """
    value = operand(value)
    if isinstance(value, complex) and not dtype.is_complex:
        raise DTypeError(
            f"the factor {value} for tensors of {dtype.name}.  Expected a real number."
        )
    whole = isinstance(value, float) and dtype.category is Category.INTEGER
    return int(value) if whole else value


def category_of(number: Any) -> Category:
    """Promotion category of a Python or NumPy number, or of one that a graph takes at run time."""
    if dispatch.is_recording() and is_run_time_number(number):
        found: Category = number.type.category
        return found
    return dtypes.category_of(number)


def is_number(value: Any) -> bool:
    """True for no tensor: a Python number, or one that a graph takes at run time."""
    if dispatch.is_recording() and is_run_time_number(value):
        return True
    return not is_tensor(value)
