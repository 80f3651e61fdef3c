"""Functions of run-time numbers: the result is a run-time number again, or a guarded truth value.

What the functions are says `capture.values.numbers`. A guard on the class of the result stands for
"this raises nothing, and gives a number of this kind"; for truth values the outcome is guarded, so
that code with a branch has one version for each way. Functions of the machine
(`capture.machine.machine`).
"""

from typing import Any, Final

from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.sizes import is_size
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.numbers import CLOSED, FUNCTIONS
from dynajit.capture.values.symbolic import Constant, Scalar, Value, constant

#: Longer expressions of run-time numbers are specialised: they are written out as a tree.
MAX_SCALAR_OPERATIONS: Final = 32
#: Numbers of more bits are specialised: guards would compute with them in every call.
_MANY_BITS: Final = 4096

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
    if kind not in (int, float, bool) or (kind is int and result.bit_length() > _MANY_BITS):
        return None
    made = Scalar(result, None, (name, tuple(operands)))
    for operand in operands:
        machine.recorder.use_number(operand)
    if kind is bool:
        found = machine.recorder.guard_number(made, "condition on numbers")
        return constant(result) if found else None
    if _is_certain(machine, name, operands):
        return made
    found = machine.recorder.guard_number(made, "arithmetic on numbers", is_class=True)
    return made if found else None


def _is_certain(machine: Machine, name: str, operands: "list[Scalar | Constant]") -> bool:
    """True if the result has its class, and nothing is raised, whatever the numbers are."""
    kinds = {operand.python_type for operand in operands}
    last = operands[-1]
    divisor = last.value if isinstance(last, Constant) else 0
    if name in CLOSED:
        return True
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
