"""Decorators that turn one function into one row of the op table, and the type rules rows share.

Contract: a decorated name *is* the `Op` row: it is entered in `TABLE` and is callable. What the
decorated function is, per kind, and where inputs and attributes are read from:

=============  ===========================================  =====================================
decorator      decorated function                           inputs and attributes come from
=============  ===========================================  =====================================
`pointwise`    `body(m, *inputs, *, **attributes)`          the body itself
`reduction`    `combine(m, a, b)`                           fixed: x; dim, keepdim
`movement`     `read(m, load, index, types, *, **attrs)`    `array(xp, *inputs, *, **attributes)`
`scatter`      `write(m, load, index, types, *, **attrs)`   `array(xp, *inputs, *, **attributes)`
`random`       `body(m, words, dtype, *, **attributes)`     fixed, plus the body's keyword-only
`extern`       `array(xp, *inputs, *, **attributes)`        the function itself
`composite`    `function(ops, *inputs, *, **attributes)`    the function itself
=============  ===========================================  =====================================

Positional parameters after the namespace are inputs, keyword-only parameters are attributes with
their defaults; a star parameter (`*arrays`) makes the op variadic. Formulas that need other rows
take `ops` (the table), so row files never import each other. Called by every row file.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dynajit.core import dtypes
from dynajit.core.device import CPU, Device
from dynajit.core.dtypes import Category, DType
from dynajit.core.errors import (
    ArgumentError,
    BoundsError,
    DeviceError,
    DTypeError,
    InternalError,
    ShapeError,
)
from dynajit.core.types import ScalarType, Shape, Size, TensorType, ValueType
from dynajit.ops import dispatch
from dynajit.ops.table import (
    REQUIRED,
    TABLE,
    Composite,
    Extern,
    Kind,
    Movement,
    Op,
    Pointwise,
    Random,
    Reduction,
    Scatter,
)

Formulas: TypeAlias = Mapping[str, Callable[..., Any] | None]
Function: TypeAlias = Callable[..., Any]
Decorator: TypeAlias = Callable[[Function], Op]


# ---------------------------------------------------------------------------------------------
# dtype rules


@dataclass(frozen=True, slots=True)
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
    """`dtype` if floating or complex, else the default float32."""
    return dtype if dtype.category >= Category.FLOATING else dtypes.float32


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
"""The promoted dtype if floating, else float32."""

FLOATING_ONLY = DTypeRule(
    "floating only",
    _only(lambda dtype: dtype.category >= Category.FLOATING),
    dtypes.compute_dtype,
    "a floating dtype",
)
"""The promoted dtype, which must be floating or complex."""

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


def describe(name: str, names: Sequence[str], types: Sequence[ValueType | None]) -> str:
    """The call in words, `matmul(a: float32[8, 3], b: float32[4, 5])`, for error messages.

    With fewer names than types (a variadic op) the name is numbered.
    """
    labels = list(names)
    if len(labels) < len(types):
        labels = [f"{names[0]}{i}" for i in range(len(types))]
    parts = (f"{label}: {type}" for label, type in zip(labels, types, strict=False))
    return f"{name}({', '.join(parts)})"


def broadcast_shapes(shapes: Sequence[Shape], call: str) -> Shape:
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
            elif not _is_one(size) and size != known:
                raise ShapeError(
                    f"{call}: sizes {known} and {size} of dimension {position - rank} do not "
                    "broadcast.  Expected equal sizes, or 1.  Reshape or expand one operand."
                )
    return tuple(result)


def _is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


def common_device(types: Iterable[ValueType | None], call: str) -> Device:
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
            raise DeviceError(
                f"{call}: operands are on {found} and {type.device}.  Expected one device.  "
                "Move one operand with .to(device)."
            )
        found = type.device
    return CPU if found is None else found


def promoted_dtype(types: Iterable[ValueType | None]) -> DType:
    """The dtype in which tensors and numbers of these types meet (`core.dtypes.result_type`)."""
    present = [type for type in types if type is not None]
    return dtypes.result_type(
        [(t.dtype, len(t.shape)) for t in present if isinstance(t, TensorType)],
        [t.category for t in present if isinstance(t, ScalarType)],
    )


def normalize_dim(dim: int, rank: int, call: str) -> int:
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


def normalize_dims(dim: int | Sequence[int] | None, rank: int, call: str) -> tuple[int, ...]:
    """Sorted dims counted from the front; None and the empty sequence mean all dims.

    Raises:
        BoundsError: a dim is out of range.
        ArgumentError: a dim appears twice.
    """
    if dim is None:
        return tuple(range(rank))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
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


def require_tensor(type: ValueType | None, call: str, name: str) -> TensorType:
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


def sum_to_type(ops: Any, g: Any, type: ValueType) -> Any:
    """Gradient `g` in the shape and dtype of the input that it belongs to.

    Undoes broadcasting: sums the dims that were added or stretched; a gradient that is itself
    smaller than the input is expanded. Then casts.

    Args:
        ops: the op table.
        g: gradient, a shape that broadcasts with `type.shape`.
        type: type of the input; for a number the zero-dim sum is returned.
    """
    shape = type.shape
    if tuple(g.shape) != shape:
        g = _sum_to_shape(ops, g, shape)
    dtype = as_tensor_type(type).dtype
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


# ---------------------------------------------------------------------------------------------
# decorators


def pointwise(
    *,
    dtype: DTypeRule | Callable[[DType], DType | None] = PROMOTED,
    compute: Callable[[DType], DType] | None = None,
    infer: Callable[..., ValueType] | None = None,
    array: Function | None = None,
    uncast: Iterable[str] = (),
    vjp: Formulas | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    name: str | None = None,
) -> Decorator:
    """Row of kind POINTWISE from its scalar body `body(m, *inputs, *, **attributes)`.

    Args:
        dtype: the result's dtype rule; a callable gets the promoted dtype.
        compute: overrides the rule's compute dtype.
        infer: overrides the family's type rule (broadcast shape, `dtype`).
        array: see `Pointwise.array`.
        uncast: inputs that reach the body in their own dtype and take no part in promotion (the
            condition of `where`).
        vjp, domain: see `Op`.
        name: name of the row, if not the function's.
    """

    def decorate(body: Function) -> Op:
        inputs, attributes, _ = _signature(body, 1)
        row = name or body.__name__
        rule = dtype if isinstance(dtype, DTypeRule) else DTypeRule(
            row, dtype, dtypes.compute_dtype
        )
        kept = frozenset(uncast)
        pointwise_infer = infer or _pointwise_infer(row, inputs, rule, kept)
        return TABLE.enter(
            Op(
                row,
                Kind.POINTWISE,
                inputs,
                attributes,
                pointwise_infer,
                Pointwise(body, compute or rule.compute, array, kept),
                vjp or {},
                domain=domain,
                document=inspect.getdoc(body) or "",
            )
        )

    return decorate


def _pointwise_infer(
    name: str, inputs: tuple[str, ...], rule: DTypeRule, uncast: frozenset[str]
) -> Callable[..., TensorType]:
    promoting = tuple(i for i, label in enumerate(inputs) if label not in uncast)

    def infer(*types: ValueType, **attributes: Any) -> TensorType:
        call = describe(name, inputs, types)
        if len(types) != len(inputs) or any(type is None for type in types):
            raise ArgumentError(f"{call}: expected the inputs {', '.join(inputs)}.")
        promoted = promoted_dtype(types[i] for i in promoting)
        result = rule.result(promoted)
        if result is None:
            raise DTypeError(f"{call}: {promoted.name} is refused.  Expected {rule.accepted}.")
        shape = broadcast_shapes([type.shape for type in types], call)
        return TensorType(shape, result, common_device(types, call))

    return infer


def first_accumulator(m: Any, accumulator: tuple[Any, ...]) -> Any:
    """The usual `finish` of a reduction with one accumulator."""
    return accumulator[0]


def element_accumulator(m: Any, x: Any, position: Any) -> tuple[Any, ...]:
    """The usual `init` of a reduction with one accumulator."""
    return (x,)


def reduction(
    *,
    array: Function,
    dtype: DTypeRule = PROMOTED,
    identity: Callable[[DType], tuple[Any, ...] | None],
    init: Function = element_accumulator,
    finish: Function = first_accumulator,
    vjp: Formulas | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    name: str | None = None,
) -> Decorator:
    """Row of kind REDUCTION from `combine(m, a, b)` over accumulator tuples.

    The row has the input `x` and the attributes `dim` (sorted, non-negative; required) and
    `keepdim` (False). See `Reduction` for `array`, `identity`, `init` and `finish`.
    """

    def decorate(combine: Function) -> Op:
        row = name or combine.__name__
        return TABLE.enter(
            Op(
                row,
                Kind.REDUCTION,
                ("x",),
                {"dim": REQUIRED, "keepdim": False},
                _reduction_infer(row, dtype, identity),
                Reduction(init, combine, finish, identity, dtype.compute, array),
                vjp or {},
                domain=domain,
                document=inspect.getdoc(combine) or "",
            )
        )

    return decorate


def _reduction_infer(
    name: str, rule: DTypeRule, identity: Callable[[DType], tuple[Any, ...] | None]
) -> Callable[..., TensorType]:
    def infer(x: ValueType, *, dim: tuple[int, ...], keepdim: bool) -> TensorType:
        call = describe(name, ("x",), (x,))
        x = require_tensor(x, call, "x")
        if list(dim) != sorted(set(dim)) or any(not 0 <= d < x.rank for d in dim):
            raise InternalError(f"{call}: dim={dim} is not sorted, unique and non-negative")
        result = rule.result(x.dtype)
        if result is None:
            raise DTypeError(f"{call}: {x.dtype.name} is refused.  Expected {rule.accepted}.")
        if identity(rule.compute(x.dtype)) is None and _reduces_nothing(x.shape, dim):
            raise BoundsError(
                f"{call}: dim={dim} has no elements and {name} has no identity.  Expected at "
                "least one element per result."
            )
        return TensorType(reduced_shape(x.shape, dim, keepdim), result, x.device)

    return infer


def _reduces_nothing(shape: Shape, dim: tuple[int, ...]) -> bool:
    """True if a reduced dim is empty; refused even where the result is empty, as in PyTorch."""
    return any(isinstance(shape[d], int) and shape[d] == 0 for d in dim)


def movement(
    *,
    infer: Callable[..., ValueType],
    array: Function,
    view: bool = False,
    vjp: Formulas | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    name: str | None = None,
) -> Decorator:
    """Row of kind MOVEMENT from `read(m, load, index, types, *, **attributes)`.

    Inputs and attributes are read from `array(xp, *inputs, *, **attributes)`.
    """

    def decorate(read: Function) -> Op:
        inputs, attributes, variadic = _signature(array, 1)
        rule = Movement(read, array, view)
        document = inspect.getdoc(read) or ""
        row = name or read.__name__
        return TABLE.enter(
            Op(row, Kind.MOVEMENT, inputs, attributes, infer, rule, vjp or {}, variadic, domain,
               document)
        )  # fmt: skip

    return decorate


def scatter(
    *,
    infer: Callable[..., ValueType],
    array: Function,
    domain: Callable[..., Any],
    mode: str,
    vjp: Formulas | None = None,
    name: str | None = None,
) -> Decorator:
    """Row of kind SCATTER from `write(m, load, index, types, *, **attributes)`.

    Inputs and attributes are read from `array(xp, *inputs, *, **attributes)`; `domain` is the
    loop's shape (see `Scatter`), not the test domain.
    """

    def decorate(write: Function) -> Op:
        inputs, attributes, variadic = _signature(array, 1)
        rule = Scatter(domain, write, mode, array)
        document = inspect.getdoc(write) or ""
        row = name or write.__name__
        return TABLE.enter(
            Op(row, Kind.SCATTER, inputs, attributes, infer, rule, vjp or {}, variadic,
               document=document)
        )  # fmt: skip

    return decorate


def random(
    *,
    words: Callable[[DType], int],
    infer: Callable[..., ValueType] | None = None,
    name: str | None = None,
) -> Decorator:
    """Row of kind RANDOM from `body(m, words, dtype, *, **attributes)`.

    Inputs are `seed` and `offset`; attributes are shape, dtype, device, shift (see `Random`)
    and the body's keyword-only parameters.
    """

    def decorate(body: Function) -> Op:
        _, own, _ = _signature(body, 3)
        attributes = {
            "shape": REQUIRED, "dtype": REQUIRED, "device": CPU, "shift": 0, **own
        }  # fmt: skip
        row = name or body.__name__
        return TABLE.enter(
            Op(
                row,
                Kind.RANDOM,
                ("seed", "offset"),
                attributes,
                infer or creation_infer,
                Random(words, body),
                document=inspect.getdoc(body) or "",
            )
        )

    return decorate


def creation_infer(
    *types: ValueType, shape: Shape, dtype: DType, device: Device = CPU, **attributes: Any
) -> TensorType:
    """Type rule of rows whose result is described by attributes alone."""
    return TensorType(tuple(shape), dtype, device)


def extern(
    *,
    infer: Callable[..., ValueType],
    vjp: Formulas | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    name: str | None = None,
) -> Decorator:
    """Row of kind EXTERN from `array(xp, *inputs, *, **attributes)`."""

    def decorate(array: Function) -> Op:
        inputs, attributes, variadic = _signature(array, 1)
        row = name or array.__name__
        return TABLE.enter(
            Op(row, Kind.EXTERN, inputs, attributes, infer, Extern(array), vjp or {}, variadic,
               domain, inspect.getdoc(array) or "")
        )  # fmt: skip

    return decorate


def composite(
    *,
    infer: Callable[..., ValueType] | None = None,
    vjp: Formulas | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    name: str | None = None,
) -> Decorator:
    """Row of kind COMPOSITE from `function(ops, *inputs, *, **attributes)`.

    Without `infer` the type is found by running the function on operands that know only their
    types: they have `shape`, `dtype`, `device`, the Python operators, and can be given to rows
    (`ops.name(...)`), but have no methods. Without `vjp` the gradient is that of what the
    function records.
    """

    def decorate(function: Function) -> Op:
        inputs, attributes, variadic = _signature(function, 1)
        row = name or function.__name__
        rule = infer or _traced_infer(function)
        return TABLE.enter(
            Op(row, Kind.COMPOSITE, inputs, attributes, rule, Composite(function), vjp or {},
               variadic, domain, inspect.getdoc(function) or "")
        )  # fmt: skip

    return decorate


def _signature(function: Function, skip: int) -> tuple[tuple[str, ...], dict[str, Any], bool]:
    """Inputs, attributes and whether variadic, from a signature without its first parameters."""
    inputs: list[str] = []
    attributes: dict[str, Any] = {}
    variadic = False
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        if parameter.kind is parameter.KEYWORD_ONLY:
            missing = parameter.default is parameter.empty
            attributes[parameter.name] = REQUIRED if missing else parameter.default
        elif parameter.kind is not parameter.VAR_KEYWORD:
            inputs.append(parameter.name)
            variadic = variadic or parameter.kind is parameter.VAR_POSITIONAL
    return tuple(inputs), attributes, variadic


# ---------------------------------------------------------------------------------------------
# types of composites


class Typed:
    """An operand that knows only its type; rows called with it infer. Immutable."""

    __slots__ = ("type",)
    __dynajit_priority__ = 5

    def __init__(self, type: ValueType) -> None:
        self.type = type

    @property
    def __dynajit_handler__(self) -> dispatch.Handler:
        return _infer_handler

    @property
    def shape(self) -> Shape:
        """Shape of the value."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """Element type; a number has the dtype that it would get standing alone."""
        return as_tensor_type(self.type).dtype

    @property
    def device(self) -> Device:
        """Device of the value."""
        return as_tensor_type(self.type).device

    def __bool__(self) -> bool:
        raise InternalError("the truth of an operand that knows only its type was asked for")


def _infer_handler(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Typed:
    return Typed(op.infer(*(_type_of(operand) for operand in inputs), **attributes))


def _type_of(operand: Any) -> ValueType | None:
    if operand is None:
        return None
    if isinstance(operand, Typed):
        return operand.type
    return ScalarType(dtypes.of_number(operand).category)


def _traced_infer(function: Function) -> Callable[..., ValueType]:
    def infer(*types: ValueType | None, **attributes: Any) -> ValueType:
        operands = [None if type is None else Typed(type) for type in types]
        with dispatch.recording(_infer_handler):
            result = function(TABLE, *operands, **attributes)
        return as_tensor_type(_type_of(result)) if result is not None else result

    return infer


def _install_operators() -> None:
    """Give `Typed` the arithmetic and comparison operators, each calling its row."""
    binary = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow",
        "floordiv": "floor_divide", "mod": "remainder", "matmul": "matmul",
        "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    }  # fmt: skip
    for operator, row in binary.items():
        setattr(Typed, f"__{operator}__", _operator(row, swap=False))
        setattr(Typed, f"__r{operator}__", _operator(row, swap=True))
    for operator in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Typed, f"__{operator}__", _operator(operator, swap=False))
    Typed.__neg__ = lambda self: TABLE.neg(self)  # type: ignore[attr-defined]
    Typed.__invert__ = lambda self: TABLE.bitwise_not(self)  # type: ignore[attr-defined]


def _operator(row: str, *, swap: bool) -> Callable[[Any, Any], Any]:
    if swap:
        return lambda self, other: TABLE[row](other, self)
    return lambda self, other: TABLE[row](self, other)


_install_operators()
