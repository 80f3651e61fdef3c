"""Loop-IR expressions as C statements: each is computed once, as far outside as it can be.

Contract: `Scope.emit(expression)` returns a C expression (a name or a literal) and appends the
statements that compute it to the outermost enclosing scope in which all it depends on is known.
Arms of a `Select` are scopes of their own that nothing leaves, because what is not chosen must not
be evaluated.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dynajit.codegen.loops.loop_ir import (
    OPERATORS,
    Accumulated,
    Apply,
    Cast,
    Compare,
    DataIndex,
    Expression,
    Index,
    Literal,
    Load,
    Parameter,
    Select,
    Slot,
    Word,
    is_size,
)
from dynajit.core.errors import InternalError
from dynajit.core.operators import COMPARISONS
from dynajit.core.types import dtypes, symint
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import Number
from dynajit.ops.table.scalar import SCALARS, is_whole_power, near_form, spell

INDENT = "    "
_ACCESS = {"float16": "f16", "bfloat16": "bf16"}


class Names:
    """Counts temporaries of one function and knows its data indices. Mutable.

    Args:
        indices: the function's data indices.
        target: "c" or "cuda": whose spelling of scalar functions is printed.
    """

    def __init__(self, indices: Sequence[DataIndex], target: str = "c") -> None:
        self.indices: Mapping[str, DataIndex] = {index.name: index for index in indices}
        self.target = target
        self._count = 0

    def new(self) -> str:
        """A fresh temporary's name."""
        self._count += 1
        return f"t{self._count}"


class Scope:
    """A block of C under construction. Mutable: statements are appended.

    Args:
        names: shared by all scopes of a function.
        parent: the enclosing scope, None for the outermost.
        variables: index variables that this block defines.
        is_arm: statements must stay in this block.
        near: forms for ordinary operands may be used here; when they are wrong is put in it.
    """

    def __init__(
        self,
        names: Names,
        parent: "Scope | None" = None,
        variables: Sequence[str] = (),
        is_arm: bool = False,
        near: list[str] | None = None,
    ) -> None:
        self.names = names
        self.parent = parent
        self.variables = set(variables)
        self.is_arm = is_arm
        self.near = near
        self.lines: list[str] = []
        self.known: dict[Expression, str] = {}

    def child(self, variables: Sequence[str] = (), is_arm: bool = False) -> "Scope":
        """A block inside this one."""
        return Scope(self.names, self, variables, is_arm)

    def add(self, *lines: str) -> None:
        """Append statements."""
        self.lines.extend(lines)

    def text(self) -> list[str]:
        """The statements, indented once."""
        return [INDENT + line for line in self.lines]

    # -- names

    def find(self, expression: Expression) -> str | None:
        """Name of an expression that is already computed here or outside."""
        scope: Scope | None = self
        while scope is not None:
            if expression in scope.known:
                return scope.known[expression]
            scope = scope.parent
        return None

    def _defines(self, variable: str) -> bool:
        if is_size(variable):
            return True
        scope: Scope | None = self
        while scope is not None:
            if variable in scope.variables:
                return True
            scope = scope.parent
        return False

    def _home(self, expression: Expression, variables: set[str]) -> "Scope":
        """The outermost scope in which operands and variables are known."""
        home = self
        while home.parent is not None and not home.is_arm:
            outer = home.parent
            if not all(outer._defines(variable) for variable in variables):
                break
            if any(not _is_free(o) and outer.find(o) is None for o in expression.operands):
                break
            home = outer
        return home

    # -- expressions

    def emit(self, expression: Expression) -> str:
        """The C expression of `expression`; statements it needs are appended."""
        stack = [expression]
        while stack:
            current = stack[-1]
            if free_text(current) is not None or self.find(current) is not None:
                stack.pop()
                continue
            # The arms of a Select are not computed here.
            needed = (current.condition,) if isinstance(current, Select) else current.operands
            missing = [o for o in needed if free_text(o) is None and self.find(o) is None]
            if missing:
                stack.extend(reversed(missing))
                continue
            self._compute(current)
            stack.pop()
        return self._text(expression)

    def _text(self, expression: Expression) -> str:
        """The C expression of something that is computed already."""
        text = free_text(expression) or self.find(expression)
        if text is None:
            raise InternalError(f"{expression} is not known where it is used")
        return text

    def _compute(self, expression: Expression) -> None:
        """Append the statement of an expression whose operands are computed."""
        if isinstance(expression, (Accumulated, Slot)):
            raise InternalError(f"{expression} is not known where it is used")
        if isinstance(expression, Select):
            self._select(expression)
            return
        operands = [self._text(operand) for operand in expression.operands]
        variables = self.bind(expression.numbers)
        home = self._home(expression, variables)
        name = self.names.new()
        text = spelled(expression, operands, self.names.target)
        if home.near is not None and (near := _near_form(expression, operands, text)):
            text, far = near
            home.near.append(far)
        home.add(f"const {expression.dtype.c} {name} = {text};")
        home.known[expression] = name

    def bind(self, numbers: Sequence[Number]) -> set[str]:
        """Define the data indices that index expressions use; returns all their variables."""
        variables: set[str] = set()
        for number in numbers:
            variables |= symint.symbols(number)
        for variable in sorted(variables, key=lambda v: (len(v), v)):
            index = self.names.indices.get(variable)
            if index is not None and not self._defines(variable):
                self._define(index)
        return variables

    def _define(self, index: DataIndex) -> None:
        value = self.emit(index.value)
        home = self
        while home.parent is not None and not home.is_arm:
            inside = not _is_free(index.value) and home.parent.find(index.value) is None
            if inside:
                break
            home = home.parent
        given = f"{value}, {symint.c(index.size)}, {int(index.wrap)}"
        found = (
            f"dj_checked_index({given})" if index.is_checked else f"dj_data_index({given}, status)"
        )
        home.add(f"const int64_t {index.name} = {found};")
        home.variables.add(index.name)

    def _select(self, select: Select) -> None:
        condition = self._text(select.condition)
        name = self.names.new()
        arms = []
        for value in (select.yes, select.no):
            arm = self.child(is_arm=True)
            result = arm.emit(value)
            arms.append((arm, result))
        if all(len(arm.lines) <= 1 for arm, _ in arms):
            yes, no = (_inline(arm, result) for arm, result in arms)
            self.add(f"const {select.dtype.c} {name} = {condition} ? {yes} : {no};")
        else:
            self.add(f"{select.dtype.c} {name};", f"if ({condition}) {{")
            (yes_arm, yes), (no_arm, no) = arms
            self.add(*yes_arm.text(), f"{INDENT}{name} = {yes};", "} else {")
            self.add(*no_arm.text(), f"{INDENT}{name} = {no};", "}")
        self.known[select] = name

    def store(self, target: str, dtype: DType, value: Expression) -> None:
        """Append `target = value`, where the memory holds `dtype`."""
        text = self.emit(value)
        if value.dtype is not dtype:
            text = converted(text, value.dtype, dtype)
        self.add(f"{target} = {text};")


def _inline(arm: Scope, result: str) -> str:
    """The value of an arm with at most one statement, as an expression."""
    if not arm.lines:
        return result
    (line,) = arm.lines
    start, _, value = line.partition(" = ")
    if not start.endswith(f" {result}"):
        raise InternalError(f"the arm {line!r} does not compute {result}")
    return f"({value.rstrip(';')})"


INVERSES = frozenset((-1, -2))
"""Exponents for which PyTorch divides."""

MOST_NEAR_POWER = 6
"""Exponents for which the vector headers have `dj_pow_near_f32`."""

MOST_NEAR_WIDE_POWER = 16
"""Exponents for which they have `dj_pow_near_f64`."""


def _near_form(
    expression: Expression, operands: Sequence[str], text: str
) -> tuple[str, str] | None:
    """`text` for ordinary operands, and when they are not; both in C. None without such a form."""
    if not isinstance(expression, Apply):
        return None
    is_float = expression.dtype is dtypes.float32
    if expression.function == "lgamma" and not is_float:
        return text.replace("_f64(", "_near_f64(", 1), f"dj_lgamma_is_far_f64({operands[0]})"
    if expression.function == "pow" and expression.dtype is dtypes.float64:
        return _near_wide_power(expression.arguments[1], *operands)
    if expression.function == "pow" and is_float:
        return _near_power(expression.arguments[1], *operands)
    if not expression.dtype.is_floating_point:
        return None
    return near_form(expression.function, expression.dtype, text, *operands)


def _near_power(exponent: Expression, x: str, y: str) -> tuple[str, str] | None:
    """`_near_form` of a power with a known exponent; if that is whole, a base may be negative."""
    if _is_whole(exponent) and isinstance(exponent, Literal):
        if exponent.value in INVERSES:
            return None
        near = f"dj_whole_pow_near_f32(fabsf({x}), {y})"
        near = f"copysignf({near}, {x})" if exponent.value % 2 == 1 else near
        return near, f"dj_pow_is_far_f32(fabsf({x}))"
    if not isinstance(exponent, Literal) or not abs(exponent.value) <= MOST_NEAR_POWER:
        return None
    return f"dj_pow_near_f32({x}, {y})", f"dj_pow_is_far_f32({x})"


def _near_wide_power(exponent: Expression, x: str, y: str) -> tuple[str, str] | None:
    """`_near_form` of a power in double: of any exponent, and of a negative base if the program
    says a whole one."""
    if not isinstance(exponent, Literal) or not float(exponent.value).is_integer():
        return f"dj_pow_near_f64({x}, {y})", f"dj_pow_is_far_f64({x}, {y})"
    if exponent.value in INVERSES or abs(exponent.value) > MOST_NEAR_WIDE_POWER:
        return None
    near = f"dj_pow_near_f64(fabs({x}), {y})"
    near = f"copysign({near}, {x})" if exponent.value % 2 == 1 else near
    return near, f"dj_pow_is_far_f64(fabs({x}), {y})"


def _is_whole(exponent: Expression) -> bool:
    """True for a number of the program that is whole: such powers have PyTorch's bits."""
    if isinstance(exponent, Literal):
        return is_whole_power(float(exponent.value))
    number = exponent.operand if isinstance(exponent, Cast) else exponent
    return isinstance(number, Parameter) and number.dtype.category is Category.INTEGER


def _is_free(expression: Expression) -> bool:
    return isinstance(expression, (Literal, Parameter))


def free_text(expression: Expression) -> str | None:
    """The text of expressions that need no statement."""
    if isinstance(expression, Literal):
        return literal_text(expression)
    if isinstance(expression, Parameter):
        access = {"bool": "(uint8_t)(scalars[{0}].i != 0)", "int64": "scalars[{0}].i"}
        return access.get(expression.dtype.name, "scalars[{0}].f").format(expression.position)
    return None


def literal_text(literal: Literal) -> str:
    """A literal in C, exact."""
    value, dtype = literal.value, literal.dtype
    if dtype is dtypes.bool_:
        return "1" if value else "0"
    if dtype.category is Category.INTEGER:
        return integer_text(int(value), dtype)
    narrow = dtype is dtypes.float32
    if math.isnan(value):
        return "((float)NAN)" if narrow else "((double)NAN)"
    if math.isinf(value):
        text = "((float)INFINITY)" if narrow else "((double)INFINITY)"
        return f"(-{text})" if value < 0 else text
    # The shortest decimal that reads back as the same number.
    text = repr(float(np.float32(value).astype(str))) if narrow else repr(float(value))
    text = text + ("f" if narrow else "")
    return f"({text})" if text.startswith("-") else text


def integer_text(value: int, dtype: DType) -> str:
    """An integer literal of a dtype."""
    if value == -(1 << 63):
        return "(-INT64_C(9223372036854775807) - 1)"
    text = f"INT64_C({value})" if dtype is dtypes.int64 else f"(({dtype.c}){value})"
    return f"({text})" if value < 0 else text


def spelled(expression: Expression, operands: Sequence[str], target: str = "c") -> str:
    """One expression in C or CUDA, given its operands."""
    if isinstance(expression, Load):
        if expression.buffer.size == 0:
            return "0"
        return f"{expression.buffer.name}[{symint.c(expression.offset)}]"
    if isinstance(expression, Index):
        return symint.c(expression.value)
    if isinstance(expression, Compare):
        sign = "<" if expression.relation == "less" else "=="
        return f"({symint.c(expression.left)} {sign} {symint.c(expression.right)})"
    if isinstance(expression, Cast):
        return converted(operands[0], expression.operand.dtype, expression.dtype)
    if isinstance(expression, Word):
        return f"dj_philox({operands[0]}, {operands[1]}, {symint.c(expression.position)})"
    if isinstance(expression, Apply):
        return _applied(expression, operands, target)
    raise InternalError(f"{expression} has no spelling in C")


def _applied(expression: Apply, operands: Sequence[str], target: str) -> str:
    dtype = expression.arguments[-1].dtype
    if expression.function == "pow" and dtype.is_floating_point:
        exponent = expression.arguments[1]
        if isinstance(exponent, Literal) and exponent.value in INVERSES:
            divisor = operands[0] if exponent.value == -1 else f"({operands[0]} * {operands[0]})"
            return f"({literal_text(Literal(1.0, dtype))} / {divisor})"
        if dtype is dtypes.float32 and target == "c" and _is_whole(exponent):
            return f"dj_whole_pow_f32({', '.join(operands)})"
    if expression.function in SCALARS:
        return spell(expression.function, dtype, target, *operands)
    operator = OPERATORS[expression.function]
    text = f"({operands[0]} {operator} {operands[1]})"
    if expression.function in COMPARISONS or dtype.category is Category.FLOATING:
        return text
    return f"(({dtype.c}){text})"


def converted(text: str, source: DType, target: DType) -> str:
    """A conversion between dtypes, by the rules of the row `cast`."""
    if source is target:
        return text
    if source.name in _ACCESS:
        text = f"dj_load_{_ACCESS[source.name]}({text})"
        return converted(text, dtypes.float32, target)
    if target.name in _ACCESS:
        wide = converted(text, source, dtypes.float32)
        return f"dj_store_{_ACCESS[target.name]}({wide})"
    if target is dtypes.bool_:
        return f"(({text}) != 0)"
    if source.is_floating_point and target.category is Category.INTEGER:
        whole = "int64_t" if target in (dtypes.uint8, dtypes.int64) else "int32_t"
        text = f"dj_{whole}_of_f{8 * source.itemsize}({text})"
        return text if target.c == whole else f"(({target.c}){text})"
    if source is dtypes.bool_ and target.is_floating_point:
        # GCC would convert bytes: one by one, or so many at once that doubles do not fit registers.
        return f"(({text}) ? ({target.c})1 : ({target.c})0)"
    return f"(({target.c})({text}))"
