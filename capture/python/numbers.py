"""Arithmetic and comparison of run-time numbers: results are run-time numbers, or guarded truths.

Where an operand is a size the result stays symbolic, so that it may become a size again; see
`capture.tensors.sizes`. All other functions are those of `capture.values.numbers`: a guard on the
class of the result stands for "this raises nothing, and gives a number of this kind"; of truth
values the outcome is guarded, so that code with a branch has one version for each way. Functions of
the machine (`capture.machine.machine`).
"""

from typing import Any, Final

from dynajit.capture.machine.machine import Machine
from dynajit.capture.tensors.sizes import ALGEBRA, LARGEST
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.numbers import CLOSED, FUNCTIONS
from dynajit.capture.values.symbolic import Constant, Scalar, Value, constant
from dynajit.core.types.symint import Number

# -- sizes ---------------------------------------------------------------------------------------

#: Powers are written out as products.
_LARGEST_POWER: Final = 4


def is_size(value: Value) -> bool:
    """True for a run-time int that is a size, or an expression of sizes."""
    return isinstance(value, Scalar) and value.symbolic is not None


def size_arithmetic(machine: Machine, symbol: str, a: Value, b: Value) -> Value | None:
    """`a symbol b` where an operand is a size; None where the general rules are right.

    They are for an int of the program that is no size: what they give becomes a size only where
    that int may be one (`Sizes.shape_int`).
    """
    if not (is_size(a) or is_size(b)):
        return None
    sizes = machine.recorder.sizes
    left, right = _known_when_run(sizes, a), _known_when_run(sizes, b)
    if symbol == "**" and _is_float(b) and left is not None and sizes.decide("<", 0, left):
        return _float_power(machine, a, b)
    if left is None or right is None:
        return None
    if symbol in ("//", "%", "/") and sizes.decide("==", right, 0):
        return None
    if symbol == "**":
        return _power(machine, left, a, b)
    for operand in (a, b):
        _use(machine, operand)
    if symbol == "/":
        assert isinstance(a, (Scalar, Constant)) and isinstance(b, (Scalar, Constant))
        return Scalar(a.value / b.value, None, (symbol, (a, b)))
    algebra = ALGEBRA.get(symbol)
    if algebra is None:
        return None
    found: Value = machine.size_value(algebra(left, right))
    return found


def _known_when_run(sizes: Any, value: Value) -> "Number | None":
    """An expression that a graph may have for its sizes: of literals and of sizes."""
    found: Number | None = sizes.expression_of(value)
    return None if found is None or sizes.has_plain_ints(found) else found


def _is_float(value: Value) -> bool:
    """True for a float literal so small that no power of a size overflows."""
    return isinstance(value, Constant) and type(value.value) is float and abs(value.value) <= 4


def _float_power(machine: Machine, a: Any, b: Any) -> Value:
    """A power of a positive size: a run-time float."""
    _use(machine, a)
    machine.recorder.use(b)
    return Scalar(a.value**b.value, None, ("**", (a, b)))


def _power(machine: Machine, base: Number, a: Value, exponent: Value) -> Value | None:
    if not isinstance(exponent, Constant) or exponent.value not in range(_LARGEST_POWER + 1):
        return None
    _use(machine, a)
    machine.recorder.use(exponent)
    result: Number = 1
    for _ in range(exponent.value):
        result = result * base
    found: Value = machine.size_value(result)
    return found


def size_comparison(machine: Machine, symbol: str, a: Value, b: Value) -> bool | None:
    """The outcome, guarded, of comparing ints of which one is not a literal; None: not ints."""
    if not isinstance(a, Scalar) and not isinstance(b, Scalar):
        return None
    if isinstance(a, Constant) and a.source is not None:
        return None
    if isinstance(b, Constant) and b.source is not None:
        return None
    sizes = machine.recorder.sizes
    left, right = sizes.expression_of(a), sizes.expression_of(b)
    if left is None or right is None:
        return None
    for operand in (a, b):
        _use(machine, operand)
    return bool(sizes.decide(symbol, left, right))


def _use(machine: Machine, operand: Value) -> None:
    if isinstance(operand, Scalar):
        machine.recorder.use_scalar_type(operand)
    else:
        machine.recorder.use(operand)


# -- all numbers ---------------------------------------------------------------------------------

#: Longer expressions of run-time numbers are specialised: they are written out as a tree.
MAX_SCALAR_OPERATIONS: Final = 32
#: Numbers of more bits are specialised: guards would compute with them in every call.
MANY_BITS: Final = 4096

_NAMES: Final = {id(function): name for name, function in FUNCTIONS.items()}
#: Literals in which a number is searched without code of the user's.
_SEARCHED: Final = (range, frozenset, tuple)
#: Which of several operands is the result is decided by comparisons where these are sizes.
_CHOICES: Final = frozenset({"min", "max"})
#: These give what they are given where that has the class already.
_CONVERSIONS: Final = {"int": int, "float": float, "pos": None}
#: Whole numbers stay whole numbers, whatever they are.
_OF_WHOLE_NUMBERS: Final = frozenset(
    {"&", "|", "^", "neg", "pos", "invert", "abs", "int", "int.bit_length", "int.bit_count"}
)


def call_of_numbers(
    machine: Machine, function: Any, args: list[Value], keywords: dict[str, Value]
) -> Value | None:
    """`function(*args)` where it is one of numbers that are known when the code runs; else None."""
    if keywords or not any(isinstance(value, Scalar) for value in args):
        return None
    if function is divmod and len(args) == 2:
        parts = [function_of_numbers(machine, name, args) for name in ("//", "%")]
        found = tuple(part for part in parts if part is not None)
        return TupleValue(found) if len(found) == len(parts) else None
    name = _NAMES.get(id(function))
    return None if name is None else function_of_numbers(machine, name, args)


def function_of_numbers(machine: Machine, name: str, operands: list[Value]) -> Value | None:
    """The result of the function of that name; None: the general rules are right."""
    known = _numbers(name, operands)
    if known is None:
        return None
    if len(known) == 1 and name in _CONVERSIONS:
        wanted = _CONVERSIONS[name] or known[0].python_type
        if known[0].python_type is wanted:
            machine.recorder.use_number(known[0])
            return known[0]
    cost = sum(operand.size for operand in known if isinstance(operand, Scalar))
    if cost > MAX_SCALAR_OPERATIONS:
        return None
    try:
        result = FUNCTIONS[name](*(operand.value for operand in known))
    except Exception:
        return None  # the general rules make the exception that the program sees
    return _result(machine, name, known, result)


def _numbers(name: str, operands: list[Value]) -> "list[Scalar | Constant] | None":
    """The operands, where they are numbers that the function takes at run time."""
    known = [operand for operand in operands if isinstance(operand, (Scalar, Constant))]
    if name not in FUNCTIONS or len(known) < len(operands):
        return None
    if name in _CHOICES and (len(known) == 1 or any(is_size(operand) for operand in known)):
        return None
    searched = known[0] if name == "in" else None
    if isinstance(searched, Scalar) or (searched and searched.python_type not in _SEARCHED):
        return None
    numbers = known if searched is None else known[1:]
    are_numbers = all(type(operand.value) in (int, float, bool) for operand in numbers)
    return known if are_numbers else None


def _result(
    machine: Machine, name: str, operands: "list[Scalar | Constant]", result: Any
) -> Value | None:
    kind = type(result)
    if kind not in (int, float, bool) or (kind is int and result.bit_length() > MANY_BITS):
        return None
    made = Scalar(result, None, (name, tuple(operands)))
    for operand in operands:
        machine.recorder.use_number(operand)
    if kind is bool:
        found = machine.recorder.guard_number(made, "condition on numbers")
        return constant(result) if found else None
    if _is_certain(machine, name, operands) or machine.recorder.is_found_ahead(made):
        return made
    found = machine.recorder.guard_number(made, "arithmetic on numbers", is_class=True)
    return made if found else None


def _is_certain(machine: Machine, name: str, operands: "list[Scalar | Constant]") -> bool:
    """True if the result has its class, and nothing is raised, whatever the numbers are."""
    kinds = {operand.python_type for operand in operands}
    last = operands[-1]
    divisor = last.value if isinstance(last, Constant) else 0
    if name in CLOSED:
        return len(kinds) == 1 or all(_is_small(machine, operand) for operand in operands)
    if name in _OF_WHOLE_NUMBERS or name in ("//", "%"):
        return kinds == {int} and (name not in ("//", "%") or divisor != 0)
    if name == "/":
        first = operands[0]
        return divisor != 0 and (
            first.python_type is float or machine.recorder.sizes.fits_float(first)
        )
    if name == "**":
        return kinds == {int} and isinstance(last, Constant) and divisor >= 0
    if name in _CHOICES:
        return len(kinds) == 1
    return name == "float" and machine.recorder.sizes.fits_float(last)


def _is_small(machine: Machine, operand: "Scalar | Constant") -> bool:
    """True for a number that an operation with a float takes: any but an int that is too large."""
    if isinstance(operand, Constant):
        return type(operand.value) is float or abs(operand.value) <= LARGEST
    return operand.python_type is float or machine.recorder.sizes.fits_float(operand)
