"""Decorators that turn one function into one row of the op table.

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
take `ops` (the table), so row files import no rows from each other. Type rules
(`ops.table.type_rules`) are re-exported, so a row file imports everything from here.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, Unpack

import numpy as np

from dynajit.core.errors import (
    ArgumentError,
    BoundsError,
    BoundsRuntimeError,
    DTypeNotImplementedError,
    InternalError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import Shape, TensorType, ValueType
from dynajit.ops.table.op_table import (
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
    RowFacts,
    Scatter,
)
from dynajit.ops.table.scalar import Scalar, define
from dynajit.ops.table.type_rules import (
    ACCUMULATED,
    COMPARISON,
    FLOATING,
    FLOATING_ONLY,
    INTEGRAL,
    INTEGRAL_NUMERIC,
    LOGICAL,
    MAGNITUDE,
    NUMERIC,
    ORDERING,
    POSITION,
    PROMOTED,
    REAL,
    REAL_FLOATING,
    REAL_FLOATING_ONLY,
    REAL_NUMERIC,
    TRUTH,
    DTypeRule,
    as_tensor_type,
    broadcast_shapes,
    common_device,
    describe,
    floating_of,
    normalize_dim,
    normalize_dims,
    promoted_dtype,
    reduced_shape,
    require_tensor,
    scalar_operand,
    sum_to_type,
)
from dynajit.ops.table.typed import traced_infer

__all__ = [
    "ACCUMULATED",
    "COMPARISON",
    "FLOATING",
    "FLOATING_ONLY",
    "INTEGRAL",
    "INTEGRAL_NUMERIC",
    "LOGICAL",
    "MAGNITUDE",
    "NUMERIC",
    "ORDERING",
    "POSITION",
    "PROMOTED",
    "REAL",
    "REAL_FLOATING",
    "REAL_FLOATING_ONLY",
    "REAL_NUMERIC",
    "TRUTH",
    "DTypeRule",
    "Formulas",
    "as_tensor_type",
    "broadcast_shapes",
    "common_device",
    "composite",
    "creation_infer",
    "describe",
    "element_accumulator",
    "extern",
    "first_accumulator",
    "floating_of",
    "movement",
    "normalize_dim",
    "normalize_dims",
    "pointwise",
    "promoted_dtype",
    "random",
    "reduced_shape",
    "reduction",
    "require_tensor",
    "scalar_operand",
    "scatter",
    "sum_to_type",
]

Formulas: TypeAlias = Mapping[str, Callable[..., Any] | None]
Function: TypeAlias = Callable[..., Any]
Decorator: TypeAlias = Callable[[Function], Op]


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
    divides: bool = False,
    analytic: bool = True,
    bends: bool = False,
    native: Function | None = None,
    rounds: bool = False,
    scalar: Callable[[str, int], Scalar] | None = None,
    **facts: Unpack[RowFacts],
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
        divides, native, rounds: see `Pointwise`.
        analytic, bends: see `Op`.
        scalar: makes the scalar function of the row's name, which bodies call; see `scalar.scalar`.
    """

    def decorate(body: Function) -> Op:
        inputs, attributes, _ = _signature(body, 1)
        row = name or body.__name__
        if scalar is not None:
            function = scalar(row, len(inputs))
            define(function)
            if isinstance(function.numpy, np.ufunc):
                facts.setdefault("numpy_name", function.numpy.__name__)
        rule = (
            dtype if isinstance(dtype, DTypeRule) else DTypeRule(row, dtype, dtypes.compute_dtype)
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
                Pointwise(body, compute or rule.compute, array, kept, divides, native, rounds),
                vjp or {},
                domain=domain,
                document=body.__doc__ or "",
                analytic=analytic,
                bends=bends,
                **facts,
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
            raise DTypeNotImplementedError(
                f"{call}: {promoted.name} is refused.  Expected {rule.accepted}."
            )
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
    ufunc: str | None = None,
    reduce: Function | None = None,
    dtype: DTypeRule = PROMOTED,
    identity: Callable[[DType], tuple[Any, ...] | None],
    init: Function = element_accumulator,
    finish: Function = first_accumulator,
    vjp: Formulas | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    name: str | None = None,
    analytic: bool = True,
    native: Function | None = None,
    single: bool = False,
    scatters: bool = False,
    **facts: Unpack[RowFacts],
) -> Decorator:
    """Row of kind REDUCTION from `combine(m, a, b)` over accumulator tuples.

    The row has the input `x` and the attributes `dim` (sorted, non-negative; required) and
    `keepdim` (False). See `Reduction` for `array`, `ufunc`, `reduce`, `identity`, `init`,
    `finish`, `native`, `single` and `scatters`, `Op` for `analytic`.
    """

    def decorate(combine: Function) -> Op:
        row = name or combine.__name__
        rule = Reduction(
            init, combine, finish, identity, dtype.compute, array, ufunc, reduce, native, single,
            scatters,
        )  # fmt: skip
        return TABLE.enter(
            Op(
                row,
                Kind.REDUCTION,
                ("x",),
                {"dim": REQUIRED, "keepdim": False},
                _reduction_infer(row, dtype, identity),
                rule,
                vjp or {},
                domain=domain,
                document=combine.__doc__ or "",
                analytic=analytic,
                **facts,
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
            raise DTypeNotImplementedError(
                f"{call}: {x.dtype.name} is refused.  Expected {rule.accepted}."
            )
        if identity(rule.compute(x.dtype)) is None and _reduces_nothing(x.shape, dim):
            every = len(dim) == x.rank
            raise (BoundsRuntimeError if every else BoundsError)(
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
    native: Function | None = None,
    mirrors: bool = False,
    rearranges: bool = False,
    shown: tuple[str, ...] = (),
    strides: Function | None = None,
    whole: Function | None = None,
    **facts: Unpack[RowFacts],
) -> Decorator:
    """Row of kind MOVEMENT from `read(m, load, index, types, *, **attributes)`.

    Inputs and attributes are read from `array(xp, *inputs, *, **attributes)`. Formulas are used
    for complex gradients as they stand: moving elements has real coefficients. See `Movement` for
    `native`, `mirrors`, `rearranges`, `shown`, `strides` and `whole`.
    """

    def decorate(read: Function) -> Op:
        inputs, attributes, variadic = _signature(array, 1)
        rule = Movement(read, array, view, native, mirrors, rearranges, shown, strides, whole)
        document = read.__doc__ or ""
        row = name or read.__name__
        return TABLE.enter(
            Op(row, Kind.MOVEMENT, inputs, attributes, infer, rule, vjp or {}, variadic, domain,
               document, analytic=False, **facts)
        )  # fmt: skip

    return decorate


def scatter(
    *,
    infer: Callable[..., ValueType],
    array: Function,
    domain: Callable[..., Any],
    mode: str | None,
    vjp: Formulas | None = None,
    name: str | None = None,
    native: Function | None = None,
    **facts: Unpack[RowFacts],
) -> Decorator:
    """Row of kind SCATTER from `write(m, load, index, types, *, **attributes)`.

    Inputs and attributes are read from `array(xp, *inputs, *, **attributes)`; `domain` is the
    loop's shape (see `Scatter`, also for `native`), not the test domain.
    """

    def decorate(write: Function) -> Op:
        inputs, attributes, variadic = _signature(array, 1)
        rule = Scatter(domain, write, mode, array, native)
        document = write.__doc__ or ""
        row = name or write.__name__
        return TABLE.enter(
            Op(row, Kind.SCATTER, inputs, attributes, infer, rule, vjp or {}, variadic,
               document=document, **facts)
        )  # fmt: skip

    return decorate


def random(
    *,
    words: Callable[[DType], int],
    infer: Callable[..., ValueType] | None = None,
    name: str | None = None,
    native: Function | None = None,
    **facts: Unpack[RowFacts],
) -> Decorator:
    """Row of kind RANDOM from `body(m, words, dtype, *, **attributes)`.

    Inputs are `seed` and `offset`; attributes are shape, dtype, device, shift (see `Random`, also
    for `native`) and the body's keyword-only parameters.
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
                Random(words, body, native),
                document=body.__doc__ or "",
                **facts,
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
    widens: bool = False,
    direct: Callable[..., Any] | None = None,
    analytic: bool = True,
    native: Function | None = None,
    refuses: bool = False,
    **facts: Unpack[RowFacts],
) -> Decorator:
    """Row of kind EXTERN from `array(xp, *inputs, *, **attributes)`.

    See `Extern` for `widens`, `direct`, `native` and `refuses`, `Op` for `analytic`.
    """

    def decorate(array: Function) -> Op:
        inputs, attributes, variadic = _signature(array, 1)
        row = name or array.__name__
        return TABLE.enter(
            Op(row, Kind.EXTERN, inputs, attributes, infer,
               Extern(array, widens, direct, native, refuses),
               vjp or {}, variadic, domain, array.__doc__ or "", analytic, **facts)
        )  # fmt: skip

    return decorate


def composite(
    *,
    infer: Callable[..., ValueType] | None = None,
    array: Function | None = None,
    vjp: Formulas | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    name: str | None = None,
    on_tape: bool = True,
    analytic: bool = True,
    row_major: bool = False,
    native: Function | None = None,
    slopes: Mapping[str, Function] | None = None,
    stays: Callable[..., bool] | None = None,
    widens: bool = False,
    **facts: Unpack[RowFacts],
) -> Decorator:
    """Row of kind COMPOSITE from `function(ops, *inputs, *, **attributes)`.

    Without `infer` the type is found by running the function on operands that know only their
    types: they have `shape`, `dtype`, `device`, the Python operators, and can be given to rows
    (`ops.name(...)`), but have no methods. Without `vjp` the gradient is that of what the
    function records. See `Composite` for `array`, `on_tape`, `row_major`, `native`,
    `slopes`, `stays` and `widens`, `Op` for `analytic`.
    """

    def decorate(function: Function) -> Op:
        inputs, attributes, variadic = _signature(function, 1)
        row = name or function.__name__
        rule = infer or traced_infer(function)
        text = _in_float32(row, rule, function) if widens else function
        return TABLE.enter(
            Op(row, Kind.COMPOSITE, inputs, attributes, rule,
               Composite(text, array, on_tape, row_major, native, slopes or {}, stays,
                         widens),
               vjp or {}, variadic, domain, function.__doc__ or "", analytic, **facts)
        )  # fmt: skip

    return decorate


class Operand(Protocol):
    """What has a type: a tensor, a graph's value, or a type itself."""

    @property
    def shape(self) -> Any:
        """Its sizes."""

    @property
    def dtype(self) -> DType:
        """Of its elements."""


def operand_type(x: Operand | None) -> TensorType | None:
    """The type of an operand, from its shape and dtype; None stays None."""
    return None if x is None else TensorType(tuple(x.shape), x.dtype)


def _in_float32(row: str, rule: Callable[..., Any], function: Function) -> Function:
    """`function` for operands that are no 16-bit floats, and the row in float32 for others."""

    def is_narrow(x: object) -> bool:
        dtype = getattr(x, "dtype", None)
        return dtype is not None and dtypes.compute_dtype(dtype) is not dtype

    def widened(ops: Any, *inputs: Any, **attributes: Any) -> Any:
        flags = [is_narrow(x) for x in inputs]
        if not any(flags):
            return function(ops, *inputs, **attributes)
        types = [operand_type(x) if hasattr(x, "shape") else None for x in inputs]
        dtype = rule(*types, **attributes).dtype
        given = [
            ops.cast(x, dtype=dtypes.compute_dtype(x.dtype)) if is_short else x
            for x, is_short in zip(inputs, flags, strict=True)
        ]
        found = ops[row](*given, **attributes)
        return found if found.dtype is dtype else ops.cast(found, dtype=dtype)

    return widened


def _signature(function: Function, skip: int) -> tuple[tuple[str, ...], dict[str, Any], bool]:
    """Inputs, attributes and whether variadic, from a signature without its first parameters.

    Read from the code itself: `inspect.signature` takes 0.1 ms, and there are hundreds of rows.
    """
    code = function.__code__
    end = code.co_argcount
    inputs = code.co_varnames[skip:end]
    keywords = code.co_varnames[end : end + code.co_kwonlyargcount]
    defaults = function.__kwdefaults__ or {}
    attributes = {name: defaults.get(name, REQUIRED) for name in keywords}
    variadic = bool(code.co_flags & inspect.CO_VARARGS)
    if variadic:
        inputs += (code.co_varnames[end + code.co_kwonlyargcount],)
    return inputs, attributes, variadic
