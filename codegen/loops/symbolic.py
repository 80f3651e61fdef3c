"""The symbolic scalar namespace: row bodies run on it and leave loop-IR expressions behind.

Contract: `SymbolicScalars` has every name of `ops.table.scalar.NumpyScalars` (`exp`, `where`,
`cast`, `index`, `load`-related `less`, `equal`, `as_index`, ...), and `Scalar` every operator that
bodies use, with the same meaning. Bodies see `Scalar` operands in their compute dtype and plain
Python numbers; index maps see `core.types.symint` numbers as indices.
"""

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from dynajit.codegen.loops.loop_ir import (
    Apply,
    Cast,
    Compare,
    DataIndex,
    Expression,
    Index,
    Literal,
    Select,
)
from dynajit.core.errors import InternalError
from dynajit.core.operators import COMPARISONS
from dynajit.core.types import dtypes, symint
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import Number
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.scalar import SCALARS, NumpyScalars, Result


class Scalar:
    """An expression with the operators that row bodies use. Immutable."""

    __slots__ = ("expression",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    @property
    def dtype(self) -> DType:
        """dtype of the value."""
        return self.expression.dtype

    def __add__(self, other: Any) -> "Scalar":
        return binary("add", self, other)

    def __radd__(self, other: Any) -> "Scalar":
        return binary("add", other, self)

    def __sub__(self, other: Any) -> "Scalar":
        return binary("sub", self, other)

    def __rsub__(self, other: Any) -> "Scalar":
        return binary("sub", other, self)

    def __mul__(self, other: Any) -> "Scalar":
        return binary("mul", self, other)

    def __rmul__(self, other: Any) -> "Scalar":
        return binary("mul", other, self)

    def __truediv__(self, other: Any) -> "Scalar":
        return binary("div", self, other)

    def __rtruediv__(self, other: Any) -> "Scalar":
        return binary("div", other, self)

    def __neg__(self) -> "Scalar":
        return apply("neg", self)

    def __invert__(self) -> "Scalar":
        return apply("bitwise_not", self)

    def __and__(self, other: Any) -> "Scalar":
        return binary("bitwise_and", self, other)

    def __rand__(self, other: Any) -> "Scalar":
        return binary("bitwise_and", other, self)

    def __or__(self, other: Any) -> "Scalar":
        return binary("bitwise_or", self, other)

    def __ror__(self, other: Any) -> "Scalar":
        return binary("bitwise_or", other, self)

    def __xor__(self, other: Any) -> "Scalar":
        return binary("bitwise_xor", self, other)

    def __rshift__(self, other: Any) -> "Scalar":
        return binary("right_shift", self, other)

    def __lshift__(self, other: Any) -> "Scalar":
        return binary("left_shift", self, other)

    def __eq__(self, other: object) -> "Scalar":  # type: ignore[override]
        return binary("eq", self, other)

    def __ne__(self, other: object) -> "Scalar":  # type: ignore[override]
        return binary("ne", self, other)

    def __lt__(self, other: Any) -> "Scalar":
        return binary("lt", self, other)

    def __le__(self, other: Any) -> "Scalar":
        return binary("le", self, other)

    def __gt__(self, other: Any) -> "Scalar":
        return binary("gt", self, other)

    def __ge__(self, other: Any) -> "Scalar":
        return binary("ge", self, other)

    def __bool__(self) -> bool:
        raise InternalError("a row body asked for the truth of a symbolic scalar")

    def __repr__(self) -> str:
        return f"Scalar({self.expression})"


def literal(value: Any, dtype: DType) -> Expression:
    """A literal of `dtype`, rounded as a stored value of that dtype would be.

    Integers wrap, as in PyTorch; a 16-bit float is a cast of a float32 literal.
    """
    if dtype is dtypes.bool_:
        return Literal(bool(value), dtype)
    if dtype.category is Category.INTEGER:
        whole = int(value) if not isinstance(value, float) or math.isfinite(value) else 0
        wrapped = np.asarray(whole & ((1 << 64) - 1), np.uint64).astype(dtype.numpy)
        return Literal(int(wrapped), dtype)
    compute = dtypes.compute_dtype(dtype)
    with np.errstate(all="ignore"):
        rounded = float(dtype.numpy.type(value))
    number = Literal(rounded, compute)
    return number if compute is dtype else Cast(number, dtype)


def cast(expression: Expression, dtype: DType) -> Expression:
    """`expression` in `dtype`, folded where it is a literal or a cast there and back."""
    source = expression.dtype
    if source is dtype:
        return expression
    if isinstance(expression, Literal):
        return literal(expression.value, dtype)
    narrow = dtypes.compute_dtype(source) is not source
    if narrow and dtype is not dtypes.compute_dtype(source):
        return cast(cast(expression, dtypes.compute_dtype(source)), dtype)
    compute = dtypes.compute_dtype(dtype)
    if compute is not dtype and source is not compute:
        return Cast(cast(expression, compute), dtype)
    widened = isinstance(expression, Cast) and expression.operand.dtype is dtype
    if widened and dtypes.compute_dtype(dtype) is source and dtype is not source:
        # A 16-bit float widened and rounded again is itself.
        assert isinstance(expression, Cast)
        return expression.operand
    return Cast(expression, dtype)


def lift(operand: Any, dtype: DType) -> Expression:
    """An operand of a body as an expression: a Scalar's own, a number in `dtype`."""
    if isinstance(operand, Scalar):
        return operand.expression
    if isinstance(operand, symint.SymInt):
        return Index(operand)
    return literal(operand, dtype)


def common_dtype(operands: tuple[Any, ...]) -> DType:
    """dtype in which the operands of one function meet; numbers adapt to the scalars."""
    found: DType | None = None
    for operand in operands:
        if isinstance(operand, Scalar):
            found = operand.dtype if found is None else dtypes.promote(found, operand.dtype)
    if found is None:
        numbers = [dtypes.category_of(operand) for operand in operands]
        return dtypes.compute_dtype(dtypes.result_type([], numbers))
    for operand in operands:
        if isinstance(operand, float) and found.category < Category.FLOATING:
            found = dtypes.float64
    return found


def binary(function: str, left: Any, right: Any) -> Scalar:
    """An operator of row bodies on two operands, of which one is a Scalar."""
    dtype = common_dtype((left, right))
    if function in SCALARS:
        return apply(function, left, right)
    of_bools = TABLE[function].of_bools
    if dtype is dtypes.bool_ and of_bools is not None:
        return apply(of_bools, left, right)
    operands = tuple(cast(lift(x, dtype), dtype) for x in (left, right))
    result = dtypes.bool_ if function in COMPARISONS else dtype
    return Scalar(Apply(function, operands, result))


def apply(function: str, *operands: Any) -> Scalar:
    """A scalar function of `ops.table.scalar` on operands of which one is a Scalar."""
    dtype = common_dtype(operands)
    arguments = tuple(cast(lift(x, dtype), dtype) for x in operands)
    result = dtypes.bool_ if SCALARS[function].result is Result.BOOL else dtype
    if SCALARS[function].result is Result.BOOL and dtype.category < Category.FLOATING:
        known = SCALARS[function].integer
        if known in ("0", "1"):
            return Scalar(Literal(known == "1", dtypes.bool_))
    return Scalar(Apply(function, arguments, result))


class SymbolicScalars:
    """The namespace `m` that leaves expressions behind.

    Args:
        index: indices of the result's element, for creation ops.
        data_index: makes (or finds) the symbol of a checked data index.
    """

    def __init__(
        self,
        index: tuple[Number, ...] = (),
        data_index: Callable[[Expression, Number, bool], Number] | None = None,
    ) -> None:
        self._index = index
        self._data_index = data_index

    def index(self, d: int) -> Scalar:
        """int64 index along dimension d of the result."""
        return Scalar(_index_expression(self._index[d]))

    def integer(self, value: Number) -> Scalar:
        """A size as an int64 scalar."""
        return Scalar(_index_expression(value))

    def cast(self, x: Any, dtype: DType) -> Scalar:
        """x in another dtype."""
        own = x.dtype if isinstance(x, Scalar) else dtypes.of_number(x)
        return Scalar(cast(lift(x, own), dtype))

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """x where the condition holds; an index condition that is known picks its arm."""
        if isinstance(condition, bool):
            return x if condition else y
        dtype = common_dtype((x, y))
        yes, no = (cast(lift(v, dtype), dtype) for v in (x, y))
        if isinstance(condition.expression, Compare) or _is_index_condition(condition.expression):
            return Scalar(Select(condition.expression, yes, no))
        return Scalar(Apply("where", (cast(condition.expression, dtypes.bool_), yes, no), dtype))

    def logical_and(self, x: Any, y: Any) -> Any:
        """Both differ from 0; index conditions that are known disappear."""
        for known, other in ((x, y), (y, x)):
            if isinstance(known, bool):
                return other if known else False
        return apply("logical_and", x, y)

    def less(self, i: Any, j: Any) -> Any:
        """i < j, of indices: a bool where the ranges decide."""
        low, high = symint.bounds(j - i)
        if low is not None and low > 0:
            return True
        if high is not None and high <= 0:
            return False
        return Scalar(Compare("less", i, j))

    def equal(self, i: Any, j: Any) -> Any:
        """i == j, of indices: a bool where the ranges decide."""
        difference = i - j
        if isinstance(difference, int):
            return difference == 0
        low, high = symint.bounds(difference)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        return Scalar(Compare("equal", i, j))

    def as_index(self, value: Any, size: Number, wrap: bool = True) -> Number:
        """A loaded integer as an index, checked against `size` when the kernel runs."""
        if self._data_index is None:
            raise InternalError("as_index was called outside an index map")
        if not isinstance(value, Scalar):
            return int(NumpyScalars.as_index(value, size, wrap))
        index = cast(value.expression, dtypes.int64)
        known = _number(index)
        if known is not None and _is_within(known, size):
            return known
        return self._data_index(index, size, wrap)

    def __getattr__(self, name: str) -> Callable[..., Scalar]:
        if name not in SCALARS:
            raise AttributeError(f"m.{name} is not a scalar function; see ops/table/scalar.py")
        return lambda *operands: apply(name, *operands)


def _index_expression(index: Number) -> Expression:
    return Literal(index, dtypes.int64) if isinstance(index, int) else Index(index)


_EXACT: Final = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


def _number(expression: Expression) -> "Number | None":
    """An int64 value that loops alone decide, as an index expression; None for any other."""
    if isinstance(expression, Index):
        return expression.value
    if isinstance(expression, Literal):
        return int(expression.value)
    if not isinstance(expression, Apply) or expression.dtype is not dtypes.int64:
        return None
    combine = _EXACT.get(expression.function)
    operands = [_number(argument) for argument in expression.arguments]
    if combine is None or None in operands:
        return None
    found: Number = combine(*operands)
    return found


def _is_within(number: Number, size: Number) -> bool:
    """True if an index is a position among `size` for certain."""
    low, _ = symint.bounds(number)
    left, _ = symint.bounds(size - 1 - number)
    return low is not None and low >= 0 and left is not None and left >= 0


def _is_index_condition(expression: Expression) -> bool:
    """True for conditions made of comparisons of indices only."""
    if isinstance(expression, Compare):
        return True
    return (
        isinstance(expression, Apply)
        and expression.function == "logical_and"
        and all(_is_index_condition(x) for x in expression.arguments)
    )


class DataIndices:
    """The data indices of one kernel: equal ones share a symbol. Mutable: symbols are added."""

    def __init__(self) -> None:
        self._by_meaning: dict[tuple[Expression, Number, bool], DataIndex] = {}

    def __call__(self, value: Expression, size: Number, wrap: bool) -> Number:
        """The symbol of `value` as an index into `size` positions."""
        key = (value, size, wrap)
        found = self._by_meaning.get(key)
        if found is None:
            found = DataIndex(f"j{len(self._by_meaning)}", value, size, wrap)
            self._by_meaning[key] = found
        if not isinstance(size, int):
            return symint.symbol(found.name, 0, None, size)
        return symint.symbol(found.name, 0, max(size - 1, 0))

    def all(self) -> tuple[DataIndex, ...]:
        """Every data index made so far, a later one may depend on an earlier one."""
        return tuple(self._by_meaning.values())

    def within(self, expressions: Iterable[Expression]) -> list[DataIndex]:
        """The data indices that index expressions of `expressions` mention."""
        if not self._by_meaning:
            return []
        names: set[str] = set()
        for expression in expressions:
            for number in expression.numbers:
                names |= symint.symbols(number)
        return [index for index in self._by_meaning.values() if index.name in names]
