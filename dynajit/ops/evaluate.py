"""Running one row on raw arrays: the eager kernel, the NumPy backend, the constant folder.

Contract: `evaluate` returns a new array of the inferred shape and dtype (0-d where the shape is
empty), or a view for a view row; inputs are arrays and Python numbers and are never written.
Values are cast to the row's compute dtype first and to the result dtype last, so 16-bit floats
compute in float32 and round once. Floating-point exceptions give inf and nan, silently.

What depends only on the operands' dtypes (promotion, casts), or on their shapes and the attributes
(the checks of movement), is worked out once per row and combination, in `PLANS`: the common case
costs little more than the NumPy call, and eager runs it in C. On a GPU scalar bodies call NumPy's
functions, too: NumPy hands them over to CuPy (NEP 13 and 18).
"""

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from dynajit.core.errors import DTypeError, InternalError
from dynajit.core.types import dtypes
from dynajit.core.types.short_floats import is_short, shortened
from dynajit.core.types.value_types import ScalarType, TensorType, ValueType
from dynajit.ops.rows import random
from dynajit.ops.table.families import promoted_dtype
from dynajit.ops.table.op_table import Kind, Op
from dynajit.ops.table.scalar import NumpyScalars

_NUMPY: Final = NumpyScalars()
_ndarray: Final = np.ndarray
# NumPy keeps its error state in a context variable: running in a copy of a context where it says
# "ignore" costs a quarter of `with np.errstate(...)`.
QUIET: Final = contextvars.Context()
QUIET.run(np.seterr, all="ignore")


def evaluate(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], xp: Any = np) -> Any:
    """The result of a row on arrays and numbers.

    Args:
        op: a row of any kind but COMPOSITE.
        inputs: arrays (of any layout) and Python numbers, in the order of the row's inputs.
        attributes: all attributes of the row (`Op.bind`); sizes are plain ints.
        xp: the array module, of NumPy or `core.arrays.gpu.arrays`; the arrays belong to it. Scalars
            of NumPy go with either.

    Returns:
        array of the type that `op.infer` gives.

    Raises:
        ShapeError, DTypeError, ...: whatever `op.infer` refuses.
        DivisionError: integers are divided by zero.
        BoundsError: an index is out of range.
        InternalError: the row is a composite.
    """
    return _RUNNERS[op.kind](op, inputs, attributes, xp)


def array_form(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], xp: Any = np) -> Any:
    """The result of a composite by its array function (`Composite.array`), without its rows.

    Returns:
        a new array, or NotImplemented where there is no such function or it declines: then the
        composite's function computes, or refuses with the right message.
    """
    function = op.rule.array
    if function is None:
        return NotImplemented
    kind = _ndarray if xp is np else xp.ndarray
    for operand in inputs:
        if operand is not None and (type(operand) is not kind or operand.dtype in _STORED):
            return NotImplemented
    result = QUIET.copy().run(function, xp, *inputs, **attributes)
    return result if result is NotImplemented else xp.asarray(result)


def type_of_operand(operand: Any) -> ValueType | None:
    """The type of an array or a Python number, as `Op.infer` takes it; None stays None."""
    if operand is None:
        return None
    if hasattr(operand, "dtype") and hasattr(operand, "shape"):
        return TensorType(tuple(operand.shape), dtypes.from_numpy(operand.dtype))
    return ScalarType(dtypes.category_of(operand))


# ---------------------------------------------------------------------------------------------
# pointwise


class Plan(NamedTuple):
    """What follows from a row and the types of its operands; the eager layer reads it in C.

    Args:
        function: `function(namespace, *operands, **attributes)` -> result.
        namespace: the scalar namespace for a body, the array module for an array function.
        casts: per operand, the dtype to which it is cast.
        result: dtype of the result.
        view: the result shares memory with the first operand, and has its derivative.
        direct: gives the same, called with the operands alone, or None; for a reduction the
            `reduce` of a ufunc, which gives the same for at most 128 elements.
    """

    function: Callable[..., Any]
    namespace: Any
    casts: tuple[np.dtype, ...]
    result: np.dtype
    view: bool = False
    direct: Callable[..., Any] | None = None


# Pointwise rows: by the row, `signature_of` each operand and the attributes (without the sizes that
# some have). Reductions: by the row and the number of the dtype. Others: by the row,
# `_shaped_signature_of` each operand and the attributes. Eager looks there in C first
# (eager/_rows.c) and comes here for what is missing.
PLANS: Final[dict[Any, Plan]] = {}
_PLANS_KEPT: Final = 4096


def _pointwise(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], xp: Any) -> Any:
    if attributes:
        if "shape" in attributes or "size" in attributes:
            return _creation(op, inputs, attributes, xp)
        key: tuple[Any, ...] = (op, *map(signature_of, inputs), *attributes.values())
    elif len(inputs) == 2:
        x, y = inputs
        key = (
            op,
            x.dtype.num if type(x) is _ndarray and x.ndim else signature_of(x),
            y.dtype.num if type(y) is _ndarray and y.ndim else signature_of(y),
        )
    else:
        key = (op, *map(signature_of, inputs))
    plan = PLANS.get(key)
    if plan is None:
        plan = _remember(key, _make_plan(op, inputs, attributes, xp))
    if len(inputs) == 2:
        x, y = inputs
        first, second = plan.casts
        x = x if type(x) is _ndarray and x.dtype is first else _cast(x, first)
        y = y if type(y) is _ndarray and y.dtype is second else _cast(y, second)
        operands: Sequence[Any] = (x, y)
    else:
        operands = [*map(_cast, inputs, plan.casts)]
    try:
        result = QUIET.copy().run(plan.function, plan.namespace, *operands, **attributes)
    except ValueError:
        # Operands that do not broadcast: the type rule says which.
        op.infer(*map(type_of_operand, inputs), **attributes)
        raise
    if type(result) is _ndarray and result.dtype is plan.result:
        for x in operands:
            if result is x:
                return result.copy()
        return result
    return _converted(xp.asarray(result), plan.result, _shares(result, operands))


def _remember(key: Any, plan: Plan) -> Plan:
    if is_short(plan.result):  # rounded by `_converted`, not by what NumPy does in C
        return plan
    if len(PLANS) >= _PLANS_KEPT:
        PLANS.clear()
    PLANS[key] = plan
    return plan


def _creation(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], xp: Any) -> Any:
    """Rows whose sizes are an attribute, the first one; their plans hold for all sizes."""
    sizes, *others = attributes.values()
    key = (op, *map(signature_of, inputs), *others)
    plan = PLANS.get(key)
    if plan is None:
        plan = _remember(key, _make_plan(op, inputs, attributes, xp))
    shape = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    operands = [*map(_cast, inputs, plan.casts)]
    result = xp.empty(shape, plan.result)
    result[...] = QUIET.copy().run(plan.function, NumpyScalars(shape, xp), *operands, **attributes)
    return result


def _shares(result: Any, operands: Sequence[Any]) -> bool:
    """True if a body returned one of its operands, which the caller must not get."""
    return any(result is x or getattr(result, "base", None) is x for x in operands)


def signature_of(operand: Any) -> Any:
    """Hashable; equal for operands that promote and cast alike."""
    kind = type(operand)
    if kind is float or kind is int or kind is bool:
        return kind
    if kind is _ndarray:
        return operand.dtype.num if operand.ndim else (operand.dtype.num,)
    if hasattr(operand, "ndim"):
        return kind, operand.dtype.num, operand.ndim == 0
    return kind


def _make_plan(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], xp: Any) -> Plan:
    result = _tensor_type(op, inputs, attributes)
    rule = op.rule
    function, namespace = (rule.body, _NUMPY) if rule.array is None else (rule.array, xp)
    if op.kind is Kind.POINTWISE and rule.rounds:
        function = _rounding(function, rule, [type_of_operand(x) for x in inputs])
    return Plan(function, namespace, _casts_of(op, inputs), result.dtype.numpy)


def _rounding(function: Callable[..., Any], rule: Any, types: Sequence[Any]) -> Callable[..., Any]:
    """The function, of operands that are rounded first as its rule says."""
    promoted = promoted_dtype(types)
    places = [i for i, type in enumerate(types) if rule.rounds_to(type, promoted)]
    if not places:
        return function

    def rounded(namespace: Any, *operands: Any, **attributes: Any) -> Any:
        given = list(operands)
        for i in places:
            given[i] = _converted(
                _converted(given[i], promoted.numpy, False), given[i].dtype, False
            )
        return function(namespace, *given, **attributes)

    return rounded


def _tensor_type(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    return op.type_of_result([type_of_operand(x) for x in inputs], attributes)


def _casts_of(op: Op, inputs: Sequence[Any]) -> tuple[np.dtype, ...]:
    """dtype in which each operand reaches the body."""
    rule = op.rule
    types = [type_of_operand(x) for x in inputs]
    promoting = [
        type for name, type in zip(op.inputs, types, strict=True) if name not in rule.uncast
    ]
    compute: Any = rule.compute(promoted_dtype(promoting)).numpy if promoting else None
    return tuple(
        _own_dtype(type) if name in rule.uncast else compute
        for name, type in zip(op.inputs, types, strict=True)
    )


_WIDEST: Final = (np.dtype(bool), np.dtype(np.int64), np.dtype(float), np.dtype(complex))


def _own_dtype(type: ValueType | None) -> np.dtype:
    """dtype of an uncast operand: numbers stay exact, 16-bit floats widen."""
    if isinstance(type, TensorType):
        return dtypes.compute_dtype(type.dtype).numpy
    if type is None:
        raise InternalError("None was given where a row needs a tensor or a number")
    return _WIDEST[type.category]


def _cast(operand: Any, dtype: np.dtype) -> Any:
    """`operand` as an array (or NumPy scalar) of `dtype`; Python integers wrap, as in PyTorch."""
    if hasattr(operand, "dtype"):
        return _converted(operand, dtype, False)
    if dtype.kind in "iu":
        return _wrapped(operand, dtype)
    if is_short(dtype):
        return shortened(operand, dtype)[()]
    return QUIET.copy().run(dtype.type, operand)


def _converted(array: Any, dtype: np.dtype, copy: bool) -> Any:
    """`array` in another dtype; a float that overflows becomes inf, silently."""
    if array.dtype is dtype and not copy:
        return array
    if is_short(dtype):
        return shortened(array, dtype)
    return QUIET.copy().run(array.astype, dtype, copy=copy)


def _wrapped(number: int, dtype: np.dtype) -> Any:
    whole = int(number)
    if not -(1 << 63) <= whole < 1 << 63:
        raise DTypeError(
            f"the Python integer {whole} does not fit in int64.  Expected a value in "
            "[-2**63, 2**63 - 1]; use a float for larger magnitudes."
        )
    return np.asarray(whole, np.int64).astype(dtype)[()]


# ---------------------------------------------------------------------------------------------
# the other kinds


def _reduction(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], xp: Any) -> Any:
    (x,) = inputs
    key = (op, x.dtype.num) if type(x) is _ndarray else None
    plan = PLANS.get(key) if key is not None and x.size else None
    if plan is None:
        result = _tensor_type(op, inputs, attributes)
        compute = op.rule.compute(dtypes.from_numpy(x.dtype)).numpy
        reduce = op.rule.reduce if xp is np else None
        if reduce is None and op.rule.ufunc is not None:
            reduce = getattr(xp, op.rule.ufunc).reduce
        plan = Plan(op.rule.array, xp, (compute,), result.dtype.numpy, direct=reduce)
        if key is not None:
            _remember(key, plan)
    (cast,) = plan.casts
    operand = x if x.dtype is cast else _converted(x, cast, True)
    reduced = QUIET.copy().run(plan.function, xp, operand, **attributes)
    if isinstance(reduced, np.generic):  # NumPy's zero-dim results
        reduced = np.asarray(reduced)
    if type(reduced) is _ndarray and reduced.dtype is plan.result and reduced is not x:
        return reduced
    return _converted(xp.asarray(reduced), plan.result, _shares(reduced, inputs))


def _movement(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], xp: Any) -> Any:
    plan = _shaped_plan(op, inputs, attributes, xp)
    if len(inputs) == 1 and type(inputs[0]) is _ndarray:  # views, mostly
        result = plan.function(xp, inputs[0], **attributes)
    else:
        result = plan.function(xp, *(_as_array(x, xp) for x in inputs), **attributes)
    if type(result) is _ndarray and result.dtype is plan.result:
        return result
    return xp.asarray(result).astype(plan.result, copy=False)


def _wide(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], xp: Any) -> Any:
    """SCATTER and EXTERN: 16-bit floats compute in float32, since they accumulate."""
    plan = _shaped_plan(op, inputs, attributes, xp)
    takes_numbers = op.kind is Kind.EXTERN and op.rule.takes_numbers
    operands = [*inputs] if takes_numbers else [_as_array(x, xp) for x in inputs]
    if _widens_here(op):
        operands = [_widened(x) for x in operands]
    result = QUIET.copy().run(plan.function, xp, *operands, **attributes)
    return xp.asarray(result).astype(plan.result, copy=False)


def _widens_here(op: Op) -> bool:
    """True for rows whose array function gets 16-bit floats in float32."""
    return op.kind is Kind.SCATTER or (op.kind is Kind.EXTERN and not op.rule.widens)


def _shaped_plan(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], xp: Any) -> Plan:
    """The plan of a row whose type rule is asked once per shapes, dtypes and attributes."""
    key = (op, *map(_shaped_signature_of, inputs), *attributes.values())
    plan = PLANS.get(key)
    if plan is not None:
        return plan
    result = _tensor_type(op, inputs, attributes).dtype.numpy
    casts: tuple[Any, ...] = tuple(getattr(x, "dtype", None) for x in inputs)
    if _widens_here(op):
        casts = tuple(_WIDE if dtype in _NARROW else dtype for dtype in casts)
    view = op.kind is Kind.MOVEMENT and op.rule.view and bool(op.vjp)
    choose = op.rule.direct if op.kind is Kind.EXTERN else None
    direct = None if choose is None else choose(xp, *inputs)
    plan = Plan(op.rule.array, xp, casts, result, view, direct)
    if op.opaque:  # the program's own: its plan would keep that alive
        return plan
    if op.kind is Kind.MOVEMENT and op.rule.mirrors:
        return (
            plan  # which gives elements: tensors get a view, which takes `eager.operations.execute`
        )
    return _remember(key, plan)


def _shaped_signature_of(operand: Any) -> Any:
    """Hashable; equal for operands of one shape and dtype, and for numbers of one type."""
    if type(operand) is _ndarray:
        return operand.dtype.num, *operand.shape
    if hasattr(operand, "shape"):
        return operand.shape, operand.dtype
    return type(operand)


def _as_array(operand: Any, xp: Any) -> Any:
    if operand is None or hasattr(operand, "dtype"):
        return operand
    return xp.asarray(operand, dtypes.of_number(operand).numpy)


def _widened(array: Any) -> Any:
    if array is None:
        return None
    return array.astype(_WIDE) if array.dtype in _NARROW else array


_STORED: Final = frozenset(dtype.numpy for dtype in dtypes.STORED)
_NARROW: Final = (dtypes.float16.numpy, dtypes.bfloat16.numpy)
_WIDE: Final = dtypes.float32.numpy


def _random(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], xp: Any) -> Any:
    seed, offset = inputs
    return random.evaluate(op, seed, offset, attributes, xp)


def _composite(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], xp: Any) -> Any:
    raise InternalError(f"evaluate: {op.name} is a composite; expand it into rows first")


_RUNNERS: Final[Mapping[Kind, Callable[..., Any]]] = {
    Kind.POINTWISE: _pointwise,
    Kind.REDUCTION: _reduction,
    Kind.MOVEMENT: _movement,
    Kind.SCATTER: _wide,
    Kind.EXTERN: _wide,
    Kind.RANDOM: _random,
    Kind.COMPOSITE: _composite,
}
