"""NumPy's functions of elements.

`apply` asks NumPy for the dtypes of the loop that it would run, makes the operands of these, and
calls the function of `LOOPS`, which says what the loop computes.
"""

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.core.operators import ORDER
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.ops.calls.arguments import cast, is_run_time_number, is_tensor
from dynajit.ops.functions.arrays.host_made import of_arrays
from dynajit.ops.functions.arrays.table import BY_ELEMENTS, ELEMENTWISE, FUNCTIONS, left, stands_for
from dynajit.ops.functions.arrays.types import as_tensor, asked, in_dtype, kind_of, own_dtype
from dynajit.ops.table.families import broadcast_shapes
from dynajit.ops.table.op_table import TABLE, Kind, Op
from dynajit.ops.table.scalar import SCALARS, Result

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

Loop = Callable[..., Any]


def _is(x: "TensorMethods", *categories: Category) -> bool:
    return x.dtype.category in categories


def _whole(x: "TensorMethods") -> bool:
    return _is(x, Category.BOOL, Category.INTEGER)


def _by_bool(logical: Any, row: Any) -> Loop:
    """`logical` of truth values, `row` of numbers."""

    def loop(x: "TensorMethods", *others: Any) -> Any:
        return logical(x, *others) if _is(x, Category.BOOL) else row(x, *others)

    return loop


def _ordered(row: Any) -> Loop:
    """Complex numbers are left to NumPy, which compares them part by part."""

    def loop(*operands: Any) -> Any:
        if _is(operands[0], Category.COMPLEX):
            raise left("an order of complex numbers")
        return row(*operands)

    return loop


def _real(row: Any) -> Loop:
    """Of complex numbers, rows round otherwise than NumPy at the ends of the range."""

    def loop(*operands: Any) -> Any:
        if _is(operands[0], Category.COMPLEX):
            raise left(f"{row.name} of complex numbers")
        return row(*operands)

    return loop


def _quotient(row: Any) -> Loop:
    """Of integers: 0 by 0, and nothing that a processor refuses by -1."""

    def loop(x: "TensorMethods", y: Any) -> Any:
        if _is(x, Category.FLOATING):
            return row(x, y)
        zero = TABLE.eq(y, 0)
        if x.dtype is dtypes.uint8:
            return TABLE.where(zero, 0, row(x, TABLE.where(zero, 1, y)))
        minus = TABLE.eq(y, -1)
        other = TABLE.logical_or(zero, minus)
        found = row(x, TABLE.where(other, 1, y))
        by_minus = TABLE.neg(x) if row is TABLE.floor_divide else 0
        return TABLE.where(zero, 0, TABLE.where(minus, by_minus, found))

    return loop


def _power(x: "TensorMethods", y: Any) -> Any:
    return _by_numpy("power", x, y) if _is(x, Category.INTEGER) else TABLE.pow(x, y)


def _by_numpy(name: str, *operands: Any) -> Any:
    """What NumPy computes of operands in the dtypes of one of its loops."""
    given = [x if is_tensor(x) else as_tensor(x) for x in operands]
    loop = getattr(np, name).resolve_dtypes((*(x.dtype.numpy for x in given), None))
    shape = broadcast_shapes([tuple(x.shape) for x in given], f"numpy.{name}")
    return of_arrays(name, given, (), shape, own_dtype(loop[-1]))


def _kept_if_whole(row: Any) -> Loop:
    def loop(x: "TensorMethods") -> Any:
        return x if _whole(x) else row(x)

    return loop


def _never_if_whole(row: Any, answer: bool) -> Loop:
    def loop(x: "TensorMethods") -> Any:
        if not _whole(x):
            return row(x)
        return TABLE.eq(x, x) if answer else TABLE.ne(x, x)

    return loop


def _absolute(x: "TensorMethods") -> Any:
    if x.dtype in (dtypes.bool_, dtypes.uint8):
        return x
    return TABLE.abs(x)


def _sign(x: "TensorMethods") -> Any:
    if _is(x, Category.COMPLEX):
        raise left("numpy.sign of complex numbers")
    if not _is(x, Category.FLOATING):
        return TABLE.sign(x)
    return TABLE.where(TABLE.isnan(x), x, TABLE.sign(x))


def _reciprocal(x: "TensorMethods") -> Any:
    if _whole(x):
        raise left("numpy.reciprocal of integers")
    return TABLE.reciprocal(x)


def _first_number(chosen: Any) -> Loop:
    """As `chosen`, where one operand is NaN the other."""

    def loop(x: "TensorMethods", y: Any) -> Any:
        if not _is(x, Category.FLOATING):
            return LOOPS["maximum" if chosen is TABLE.maximum else "minimum"](x, y)
        return TABLE.where(TABLE.isnan(x), y, TABLE.where(TABLE.isnan(y), x, chosen(x, y)))

    return loop


def _shift(row: Any) -> Loop:
    def loop(x: "TensorMethods", y: Any) -> Any:
        if is_tensor(y) or not 0 <= y < 8 * x.dtype.itemsize:
            return _by_numpy(row.name, x, as_tensor(y, x.dtype.numpy))
        return row(x, y)

    return loop


def _degrees(factor: float) -> Loop:
    def loop(x: "TensorMethods") -> Any:
        if x.dtype is dtypes.float16:
            raise left("degrees in halves")
        return TABLE.mul(x, in_dtype(factor, x.dtype.numpy))

    return loop


def _exp(z: Any) -> Any:
    """Of complex numbers in two steps, each with half of the exponent: neither overflows early."""
    if not _is(z, Category.COMPLEX):
        return TABLE.exp(z)
    a, b = TABLE.real(z), TABLE.imag(z)
    half = TABLE.exp(TABLE.mul(a, 0.5))
    real = TABLE.mul(TABLE.mul(half, TABLE.cos(b)), half)
    imag = TABLE.mul(TABLE.mul(half, TABLE.sin(b)), half)
    is_real = TABLE.eq(b, 0)
    real, imag = TABLE.where(is_real, TABLE.exp(a), real), TABLE.where(is_real, b, imag)
    at_end = TABLE.logical_and(TABLE.isinf(a), TABLE.logical_not(TABLE.isfinite(b)))
    is_small = TABLE.lt(a, 0)
    end = TABLE.where(is_small, 0.0, float("inf"))
    other = TABLE.where(is_small, 0.0, float("nan"))
    real = TABLE.where(at_end, cast(end, a.dtype), real)
    return TABLE.complex(real, TABLE.where(at_end, cast(other, a.dtype), imag))


def _heaviside(x: "TensorMethods", h: Any) -> Any:
    beside = TABLE.where(TABLE.eq(x, 0), h, cast(TABLE.gt(x, 0), x.dtype))
    return TABLE.where(TABLE.isnan(x), x, beside)


def _signbit(x: "TensorMethods") -> Any:
    one = TABLE.full(1, shape=(), dtype=x.dtype, device=x.device)
    return TABLE.lt(TABLE.copysign(one, x), 0)


#: C of a scalar function of integers that gives them back, that is never true, that always is.
_KEPT, _NEVER, _ALWAYS = "({0})", "0", "1"


def _loop_of(row: Op) -> Loop:
    """What the ufunc of a row computes of operands of one dtype."""
    loop: Loop = row
    scalar = SCALARS.get(row.name)
    whole = None if scalar is None else scalar.integer
    if row.of_bools is not None:
        loop = _by_bool(TABLE[row.of_bools], row)
    if row.kind is Kind.POINTWISE and row.rule.divides:
        return _quotient(row)
    if row.operator in ORDER or row in (TABLE.maximum, TABLE.minimum):
        return _ordered(loop)
    if whole in (_NEVER, _ALWAYS):
        return _never_if_whole(row, whole == _ALWAYS)
    is_exact = row.operator is not None or (scalar is not None and scalar.result is Result.BOOL)
    if is_exact:
        return loop
    return _kept_if_whole(_real(row)) if whole == _KEPT else _real(row)


#: Name of the function -> what its loop computes of operands of one dtype.
LOOPS: Final[dict[str, Loop]] = {
    **{row.numpy_name: _loop_of(row) for row in TABLE if row.numpy_name},
    "power": _power,
    "float_power": _power,
    "positive": lambda x: x,
    "absolute": _absolute,
    "fabs": TABLE.abs,
    "sign": _sign,
    "square": lambda x: TABLE.mul(x, x),
    "reciprocal": _reciprocal,
    "conjugate": lambda x: TABLE.conj(x) if _is(x, Category.COMPLEX) else x,
    "fmax": _ordered(_first_number(TABLE.maximum)),
    "fmin": _ordered(_first_number(TABLE.minimum)),
    "left_shift": _shift(TABLE.left_shift),
    "right_shift": _shift(TABLE.right_shift),
    "exp": _exp,
    "heaviside": _heaviside,
    "signbit": _signbit,
    "deg2rad": _degrees(math.pi / 180),
    "radians": _degrees(math.pi / 180),
    "rad2deg": _degrees(180 / math.pi),
    "degrees": _degrees(180 / math.pi),
}


_HALVES: Final = (-2.5, -1.5, -0.5, 1.5, 2.5)
_FLOATS: Final = ("float32", "float64")


def _by_roots(x: "TensorMethods", y: float) -> Any:
    """A power by half of an odd number: products of the root, a tenth of the time of a power.

    A power is never negative, of -0.0 neither, and that of -inf is the one of inf.
    """
    root = TABLE.sqrt(x) if y > 0 else TABLE.div(in_dtype(1.0, x.dtype.numpy), TABLE.sqrt(x))
    found = root
    for _ in range(int(2 * abs(y)) - 1):
        found = TABLE.mul(found, root)
    end = as_tensor(math.inf if y > 0 else 0.0, x.dtype.numpy)
    return TABLE.where(TABLE.eq(x, -math.inf), end, TABLE.abs(found))


def _by_number(name: str, operands: tuple[Any, ...]) -> Any:
    """A power by a known number, as NumPy computes it; None where nothing is special."""
    x, y = operands
    if is_tensor(x) and type(y) is float and y in _HALVES and x.dtype.name in _FLOATS:
        return _by_roots(x, y)
    if not is_tensor(x) or type(y) is not int or y < 0 or x.dtype.category is Category.BOOL:
        return None
    if x.dtype.category is Category.INTEGER:
        return TABLE.pow(x, in_dtype(y, x.dtype.numpy))
    return TABLE.mul(x, x) if y == 2 else None


#: What NumPy computes otherwise for some numbers.
_BY_NUMBERS = ("power", "left_shift", "right_shift")


def apply(name: str, *operands: Any, dtype: Any = None) -> Any:
    """What the function of this name gives for operands; `dtype`: of the result."""
    given = tuple(as_tensor(x) if isinstance(x, (list, tuple)) else x for x in operands)
    function: Any = getattr(np, name)
    if name in _BY_NUMBERS and any(map(is_run_time_number, given)):
        raise left(f"numpy.{name} of a number that varies")
    if len(given) != function.nin:
        raise TypeError(f"{name} takes {function.nin} operands")
    if name == "power" and any(is_tensor(x) and _is(x, Category.BOOL) for x in given):
        raise left("numpy.power of truth values")  # some numbers give another dtype
    if name == "power" and dtype is None:
        found = _by_number(name, given)
        if found is not None:
            return found
    named = {} if dtype is None else {"signature": (*(None,) * len(given), asked(dtype))}
    loop = function.resolve_dtypes((*map(kind_of, given), None), casting="same_kind", **named)
    ready = [in_dtype(x, kind) for x, kind in zip(given, loop[:-1], strict=True)]
    if not is_tensor(ready[0]):
        ready[0] = as_tensor(ready[0], loop[0])
    result = in_dtype(LOOPS[name](*ready), loop[-1])
    own_dtype(loop[-1])
    return TABLE.clone(result) if any(result is x for x in given) else result


def _enter_left(name: str) -> None:
    ufunc = getattr(np, name)

    @stands_for(ufunc, by_elements=True)
    def computed(*operands: Any) -> Any:
        given = [as_tensor(x) if isinstance(x, (list, tuple)) else x for x in operands]
        if any(map(is_run_time_number, given)):
            raise left(f"numpy.{name} of a number that varies")
        loop = ufunc.resolve_dtypes((*map(kind_of, given), None))
        return _by_numpy(
            name, *(as_tensor(x, kind) for x, kind in zip(given, loop[:-1], strict=True))
        )


#: What nothing here computes: NumPy does, between kernels.
for _name in ("cbrt", "spacing", "ldexp", "bitwise_count"):
    _enter_left(_name)


@stands_for(np.modf)
def modf(x: Any, /) -> Any:
    """What is behind the point, and the whole number."""
    x = as_tensor(x)
    if not _is(x, Category.FLOATING) or x.dtype is dtypes.float16:
        raise left(f"numpy.modf of {x.dtype.name}")
    whole = TABLE.trunc(x)
    rest = TABLE.where(TABLE.isinf(x), as_tensor(0.0, x.dtype.numpy), TABLE.sub(x, whole))
    return TABLE.copysign(rest, x), whole


@stands_for(np.divmod)
def divmod_(x: Any, y: Any, /) -> Any:
    """Floored quotients, and what is left."""
    return apply("floor_divide", x, y), apply("remainder", x, y)


for _name in LOOPS:
    FUNCTIONS[getattr(np, _name)] = functools.partial(apply, _name)
    BY_ELEMENTS.add(FUNCTIONS[getattr(np, _name)])
    ELEMENTWISE.add(FUNCTIONS[getattr(np, _name)])
