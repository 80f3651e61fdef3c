"""Type rules that rows share: dtype rules, broadcasting, devices, dims.

Contract: pure functions on types (`core.types.value_types`); nothing here knows a row. A refusal
says what was asked (`describe`), what is wrong and what would be accepted. Row files import these
names from `ops.table.families`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from dynajit.core.errors import ArgumentError, BoundsError, DeviceError, ShapeError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import agree
from dynajit.core.types.value_types import ScalarType, Shape, Size, TensorType, ValueType

# ---------------------------------------------------------------------------------------------
# dtype rules


@record
class DTypeRule:
    """How a pointwise row or a reduction chooses its dtypes.

    Args:
        name: for messages and reports.
        result: `result(promoted)` -> dtype of the result, or None if `promoted` is refused.
        compute: `compute(promoted)` -> dtype in which the body computes (never a 16-bit float).
        accepted: in words, for the message of a refusal.
    """

    name: str
    result: Callable[[DType], DType | None]
    compute: Callable[[DType], DType]
    accepted: str = "any dtype"


def floating_of(dtype: DType) -> DType:
    """`dtype` if floating or complex, else the default dtype."""
    return dtype if dtype.category >= Category.FLOATING else dtypes.default_floating()


def _only(accepted: Callable[[DType], bool]) -> Callable[[DType], DType | None]:
    return lambda dtype: dtype if accepted(dtype) else None


def _floating_compute(dtype: DType) -> DType:
    return dtypes.compute_dtype(floating_of(dtype))


PROMOTED = DTypeRule("promoted", lambda dtype: dtype, dtypes.compute_dtype)
"""The promoted dtype of the inputs."""

NUMERIC = DTypeRule(
    "numeric",
    _only(lambda dtype: dtype is not dtypes.bool_),
    dtypes.compute_dtype,
    "an integer, floating or complex dtype; masks are inverted with ~ or logical_not",
)
"""The promoted dtype; bool is refused, as PyTorch does for `-`."""

FLOATING = DTypeRule("floating", floating_of, _floating_compute)
"""The promoted dtype if floating, else the default dtype."""

REAL_FLOATING = DTypeRule(
    "real floating",
    lambda dtype: None if dtype.is_complex else floating_of(dtype),
    _floating_compute,
    "a real dtype",
)
"""The promoted dtype if floating, the default one for bool and integers; complex numbers are
refused."""

FLOATING_ONLY = DTypeRule(
    "floating only",
    _only(lambda dtype: dtype.category >= Category.FLOATING),
    dtypes.compute_dtype,
    "a floating dtype",
)
"""The promoted dtype, which must be floating or complex."""

REAL_FLOATING_ONLY = DTypeRule(
    "real floating only",
    _only(lambda dtype: dtype.category is Category.FLOATING),
    dtypes.compute_dtype,
    "a real floating dtype",
)
"""The promoted dtype, which must be floating and real."""

COMPARISON = DTypeRule("comparison", lambda dtype: dtypes.bool_, dtypes.compute_dtype)
"""bool, computed in the promoted dtype."""

LOGICAL = DTypeRule("logical", lambda dtype: dtypes.bool_, lambda dtype: dtypes.bool_)
"""bool, of the truth of each input."""

INTEGRAL = DTypeRule(
    "integral",
    _only(lambda dtype: dtype.category <= Category.INTEGER),
    lambda dtype: dtype,
    "bool or an integer dtype",
)
"""The promoted dtype, which must be bool or integer."""

INTEGRAL_NUMERIC = DTypeRule(
    "integral numeric",
    _only(lambda dtype: dtype.category is Category.INTEGER),
    lambda dtype: dtype,
    "an integer dtype",
)
"""The promoted dtype, which must be integer."""

REAL = DTypeRule(
    "real",
    _only(lambda dtype: dtype.category <= Category.FLOATING),
    dtypes.compute_dtype,
    "a real dtype",
)
"""The promoted dtype, which must not be complex (ordering is not defined there)."""


def _magnitude(dtype: DType) -> DType | None:
    if dtype is dtypes.bool_:
        return None
    return dtypes.real_of(dtype) if dtype.is_complex else dtype


MAGNITUDE = DTypeRule(
    "magnitude",
    _magnitude,
    dtypes.compute_dtype,
    "an integer, floating or complex dtype",
)
"""The promoted dtype, of complex numbers that of their parts; bool is refused."""

REAL_NUMERIC = DTypeRule(
    "real numeric",
    _only(lambda dtype: dtype.category in (Category.INTEGER, Category.FLOATING)),
    dtypes.compute_dtype,
    "an integer or floating dtype",
)
"""The promoted dtype, neither bool nor complex."""

ORDERING = DTypeRule(
    "ordering",
    lambda dtype: None if dtype.is_complex else dtypes.bool_,
    dtypes.compute_dtype,
    "a real dtype",
)
"""bool, of real inputs."""


def _accumulated(dtype: DType) -> DType:
    return dtype if dtype.category >= Category.FLOATING else dtypes.int64


ACCUMULATED = DTypeRule(
    "accumulated", _accumulated, lambda dtype: dtypes.compute_dtype(_accumulated(dtype))
)
"""For sums and products: bool and integers give int64; 16-bit floats accumulate in float32."""

TRUTH = DTypeRule(
    "truth",
    lambda dtype: dtype if dtype is dtypes.uint8 else dtypes.bool_,
    lambda dtype: dtypes.bool_,
)
"""For any and all: bool, but uint8 for uint8, as in PyTorch."""

POSITION = DTypeRule(
    "position",
    lambda dtype: None if dtype.is_complex or dtype is dtypes.bool_ else dtypes.int64,
    dtypes.compute_dtype,
    "an integer or floating dtype",
)
"""For argmax and argmin: int64."""


# ---------------------------------------------------------------------------------------------
# type-rule helpers


@record
class Described:
    """A call in words, for error messages; the words are made when they are asked for.

    Args:
        name: of the row.
        names: of its inputs.
        types: of its operands.
    """

    name: str
    names: Sequence[str]
    types: Sequence[ValueType | None]

    def __str__(self) -> str:
        labels = list(self.names)
        if len(labels) < len(self.types):
            labels = [f"{labels[0]}{i}" for i in range(len(self.types))]
        parts = (f"{label}: {type}" for label, type in zip(labels, self.types, strict=False))
        return f"{self.name}({', '.join(parts)})"


def describe(name: str, names: Sequence[str], types: Sequence[ValueType | None]) -> Described:
    """The call in words, `matmul(a: float32[8, 3], b: float32[4, 5])`, for error messages.

    With fewer names than types (a variadic op) the name is numbered.
    """
    return Described(name, names, types)


def broadcast_shapes(shapes: Sequence[Shape], call: object) -> Shape:
    """The common shape under NumPy's and PyTorch's broadcasting rule.

    Args:
        shapes: any number of shapes; symbolic sizes match only themselves and 1.
        call: what was asked, from `describe`.

    Raises:
        ShapeError: two sizes differ and neither is 1.
    """
    if not shapes:
        return ()
    first = shapes[0]
    if all(shape == first for shape in shapes[1:]):
        return first
    rank = max(len(shape) for shape in shapes)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for position, size in enumerate(shape, rank - len(shape)):
            known = result[position]
            if _is_one(known):
                result[position] = size
            elif size != known and not _is_one(size):
                if not agree(size, known):
                    raise ShapeError(
                        f"{call}: sizes {known} and {size} of dimension {position - rank} do not "
                        "broadcast.  Expected equal sizes, or 1.  Reshape or expand one operand."
                    )
                if isinstance(size, int):
                    result[position] = size
    return tuple(result)


def _is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


MSG_TWO_DEVICES: Final = (
    "{call}: Expected all tensors to be on the same device, but found at least two devices, "
    "{first} and {second}!  Move one operand with .to(device)."
)


def common_device(types: Iterable[ValueType | None], call: object) -> Device:
    """The device of the tensor operands; a zero-dim CPU tensor goes with any device.

    Raises:
        DeviceError: tensors on two devices.
    """
    found: Device | None = None
    for type in types:
        if not isinstance(type, TensorType):
            continue
        if type.rank == 0 and type.device == CPU:
            continue
        if found is not None and type.device != found:
            raise DeviceError(MSG_TWO_DEVICES.format(call=call, first=found, second=type.device))
        found = type.device
    return CPU if found is None else found


def promoted_dtype(types: Iterable[ValueType | None]) -> DType:
    """The dtype in which tensors and numbers of these types meet
    (`core.types.dtypes.result_type`)."""
    present = [type for type in types if type is not None]
    return dtypes.result_type(
        [(t.dtype, len(t.shape)) for t in present if isinstance(t, TensorType)],
        [t.category for t in present if isinstance(t, ScalarType)],
    )


def normalize_dim(dim: int, rank: int, call: object) -> int:
    """`dim` counted from the front; a zero-dim tensor accepts 0 and -1, as in PyTorch.

    Raises:
        ArgumentError: `dim` is not an integer.
        BoundsError: `dim` is out of range.
    """
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise ArgumentError(f"{call}: dim is {dim!r}.  Expected an integer.")
    reach = max(rank, 1)
    number = dim.__index__()
    if not -reach <= number < reach:
        raise BoundsError(
            f"{call}: dimension {number} is out of range.  Expected a value in "
            f"[{-reach}, {reach - 1}]."
        )
    return number % reach


def normalize_dims(dim: int | Sequence[int] | None, rank: int, call: object) -> tuple[int, ...]:
    """Sorted dims counted from the front; None and the empty sequence mean all dims.

    Raises:
        BoundsError: a dim is out of range.
        ArgumentError: a dim appears twice.
    """
    if dim is None:
        return tuple(range(rank))
    given: tuple[Any, ...] = (dim,) if hasattr(dim, "__index__") else tuple(dim)
    if not given:
        return tuple(range(rank))
    dims = [normalize_dim(d, rank, call) for d in given]
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{call}: dim={given} names a dimension twice.  Expected each once.")
    return tuple(sorted(dims)) if rank else ()


def reduced_shape(shape: Shape, dim: tuple[int, ...], keepdim: bool) -> Shape:
    """`shape` without the dims in `dim` (sorted, non-negative), or with size 1 there."""
    if keepdim:
        return tuple(1 if d in dim else size for d, size in enumerate(shape))
    return tuple(size for d, size in enumerate(shape) if d not in dim)


def require_tensor(type: ValueType | None, call: object, name: str) -> TensorType:
    """`type` if it is a tensor's.

    Raises:
        ArgumentError: it is a number or None.
    """
    if not isinstance(type, TensorType):
        raise ArgumentError(f"{call}: {name} is {type or 'None'}.  Expected a tensor.")
    return type


def as_tensor_type(type: ValueType) -> TensorType:
    """`type`, with a number seen as the zero-dim tensor it would make standing alone."""
    if isinstance(type, TensorType):
        return type
    return TensorType((), dtypes.default_of(type.category))


def scalar_operand(ops: Any, operand: Any, type: ValueType, g: Any) -> Any:
    """An operand with which a formula may compute on its own, before it meets a tensor.

    Rows on numbers alone compute in the default dtype float32. A Python number (whose arithmetic
    is Python's) and a tensor stay; a run-time number becomes a zero-dim tensor as wide as `g`.

    Args:
        ops: the op table.
        operand, type: an input of the differentiated row, and its type.
        g: the gradient that the formula got.
    """
    if isinstance(type, TensorType) or isinstance(operand, (bool, int, float, complex)):
        return operand
    return ops.full(operand, shape=(), dtype=dtypes.compute_dtype(g.dtype), device=g.device)


def sum_to_type(ops: Any, g: Any, type: ValueType) -> Any:
    """Gradient `g` in the shape and dtype of the input that it belongs to.

    Undoes broadcasting: sums the dims that were added or stretched; a gradient that is itself
    smaller than the input is expanded. Then casts; a real input gets the real part.

    Args:
        ops: the op table.
        g: gradient, a shape that broadcasts with `type.shape`.
        type: type of the input; for a number the zero-dim sum is returned.
    """
    shape = type.shape
    if tuple(g.shape) != shape:
        g = _sum_to_shape(ops, g, shape)
    dtype = as_tensor_type(type).dtype
    if g.dtype is dtype:
        return g
    if g.dtype.is_complex and not dtype.is_complex:
        g = ops.real(g)
    return g if g.dtype is dtype else ops.cast(g, dtype=dtype)


def _sum_to_shape(ops: Any, g: Any, shape: Shape) -> Any:
    extra = len(g.shape) - len(shape)
    if extra > 0:
        g = ops.sum(g, dim=tuple(range(extra)), keepdim=False)
    offset = len(shape) - len(g.shape)
    stretched = tuple(
        d for d, size in enumerate(g.shape) if _is_one(shape[d + offset]) and not _is_one(size)
    )
    if stretched:
        g = ops.sum(g, dim=stretched, keepdim=True)
    return g if tuple(g.shape) == shape else ops.expand(g, shape=shape)
