"""`a if c else b` of run-time numbers as one number, so that both ways are one version.

A comparison of run-time numbers is guarded, and code has a version for each outcome. Where the jump
that follows only chooses between two expressions of numbers, both are expressions of the graph's
inputs instead, computed in front of the launch, and `choose` takes the one that Python would. The
other may raise, as a division by zero does that the condition is there to avoid: its parts are
attempted (`capture.values.numbers.ATTEMPT`). What is chosen has a guarded class, so that an error
that the program would see makes a guard fail, and the program's own code raises it.

Arms are straight code of local variables, literals, arithmetic and functions of numbers, and end
at one place: on the stack, in one variable, or returned, or in front of equal code up to a return.
All others jump.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from dynajit.capture.bytecode.instructions import Instruction
from dynajit.capture.machine.frames import Frame, Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.opcodes.variables import load_global
from dynajit.capture.python.numbers import MANY_BITS, MAX_SCALAR_OPERATIONS, is_size
from dynajit.capture.values.numbers import ATTEMPT, BOUNDED, FUNCTIONS
from dynajit.capture.values.symbolic import UNBOUND, Constant, Known, Scalar, Value
from dynajit.core.records import record

Operand: TypeAlias = Scalar | Constant

_JUMPS: Final = {"POP_JUMP_IF_TRUE": True, "POP_JUMP_IF_FALSE": False}
_SIGNS: Final = {"UNARY_NEGATIVE": "neg", "UNARY_POSITIVE": "pos"}
_LOADS: Final = frozenset(
    {
        "LOAD_FAST",
        "LOAD_DEREF",
        "LOAD_CONST",
        "LOAD_GLOBAL",
        "LOAD_ATTR",
        "LOAD_METHOD",
        "PUSH_NULL",
    }
)
_IN_ARMS: Final = frozenset({*_LOADS, *_SIGNS, "BINARY_OP", "CALL"})
#: Functions that arms may call: the arm that is not asked for is computed, too.
_NAMES: Final = {id(function): name for name, function in BOUNDED.items()}


@record
class _Arms:
    """Two pieces of straight code, and the instruction at which both have their value on top."""

    first: Sequence[Instruction]
    second: Sequence[Instruction]
    join: int
    is_first_if_true: bool


class _NotPlainError(Exception):
    """An arm has something other than arithmetic on numbers."""


def chosen_number(
    machine: Machine, frame: Frame, symbol: str, a: Value, b: Value
) -> Steps[Value | None]:
    """The number that the jump after `a symbol b` chooses; the frame goes on behind both arms.

    None: the comparison is one like any other, and nothing has been done but to guard names.
    """
    operands = _numbers(a, b)
    if operands is None or symbol not in FUNCTIONS:
        return None
    arms = _arms_at(frame.body.instructions, frame.index)
    if arms is None:
        return None
    try:
        condition = _attempted(symbol, operands)
        first = yield from _value(machine, frame, arms.first)
        second = yield from _value(machine, frame, arms.second)
    except _NotPlainError:
        return None
    if isinstance(condition, Constant) or (
        isinstance(first, Constant) and isinstance(second, Constant)
    ):
        return None  # what is decided is one of two literals: a version each knows which
    if not arms.is_first_if_true:
        first, second = second, first
    value = FUNCTIONS["choose"](condition.value, first.value, second.value)
    if type(value) not in (int, float):
        return None
    made = Scalar(value, None, ("choose", (condition, first, second)))
    if made.size > MAX_SCALAR_OPERATIONS:
        return None
    machine.recorder.use_number(made)
    if not machine.recorder.guard_number(made, "choice of a number", is_class=True):
        return None
    frame.index = arms.join
    return made


def _numbers(*values: Value) -> tuple[Operand, ...] | None:
    """The values, where they are numbers, one of them known at run time only, and none a size."""
    found = tuple(value for value in values if isinstance(value, (Scalar, Constant)))
    if len(found) < len(values) or any(is_size(value) for value in found):
        return None
    is_plain = all(type(value.value) in (int, float, type(None)) for value in found)
    return found if is_plain else None


def _arms_at(instructions: Sequence[Instruction], index: int) -> _Arms | None:
    """What a jump at the index chooses between."""
    if instructions[index].operation == "TO_BOOL":
        index += 1
    jump = instructions[index]
    if jump.operation not in _JUMPS or jump.argument <= index:
        return None
    first = _straight(instructions, index + 1, len(instructions))
    end = instructions[index + 1 + len(first)]
    behind = end.argument if end.operation == "JUMP" else len(instructions)
    second = _straight(instructions, jump.argument, behind)
    join = jump.argument + len(second)
    is_joined = join == behind or _end_alike(instructions, end.index, join)
    if not (is_joined and _leaves_one(first) and _leaves_one(second)):
        first, second, join = _before_equal_ends(instructions, index + 1, jump.argument)
    if not first or not second:
        return None
    return _Arms(first, second, join, not _JUMPS[jump.operation])


def _straight(instructions: Sequence[Instruction], start: int, end: int) -> Sequence[Instruction]:
    """The arithmetic from an instruction on, at most to another one."""
    found = start
    while found < end and instructions[found].operation in _IN_ARMS:
        found += 1
    return instructions[start:found]


def _end_alike(instructions: Sequence[Instruction], first: int, second: int) -> bool:
    """True if what stands at both places does the same with a value, and goes on at one place."""
    ends = instructions[first], instructions[second]
    if (ends[0].operation, ends[0].argument) != (ends[1].operation, ends[1].argument):
        return False
    if ends[0].operation == "STORE_FAST":
        behind = instructions[first + 1]
        return (behind.operation, behind.argument) == ("JUMP", second + 1)
    return ends[0].operation == "RETURN_VALUE"


def _before_equal_ends(
    instructions: Sequence[Instruction], first: int, second: int
) -> tuple[Sequence[Instruction], Sequence[Instruction], int]:
    """The arms in front of what Python 3.12 and later writes behind each of them: the few
    instructions up to a return. Empty where there is no such end.

    Returns:
        Both arms, each of which leaves one value, and where the second one's end begins.
    """
    ends = [_return_behind(instructions, start) for start in (first, second)]
    if None in ends:
        return (), (), second
    one, other = (ends[0] or 0) + 1, (ends[1] or 0) + 1
    found: tuple[Sequence[Instruction], Sequence[Instruction], int] = ((), (), second)
    while (
        one > first and other > second and _is_same(instructions[one - 1], instructions[other - 1])
    ):
        one, other = one - 1, other - 1
        arms = instructions[first:one], instructions[second:other]
        if all(_leaves_one(arm) for arm in arms):
            found = (*arms, other)
    return found


def _return_behind(instructions: Sequence[Instruction], start: int) -> int | None:
    """The return that comes next, if nothing jumps in front of it."""
    for place in range(start, len(instructions)):
        operation = instructions[place].operation
        if operation == "RETURN_VALUE":
            return place
        if "JUMP" in operation or operation in ("FOR_ITER", "SEND", "RERAISE", "RAISE_VARARGS"):
            return None
    return None


def _is_same(one: Instruction, other: Instruction) -> bool:
    return (one.operation, one.argument) == (other.operation, other.argument)


def _leaves_one(arm: Sequence[Instruction]) -> bool:
    """Whether arithmetic leaves one value, and takes none that was there before."""
    depth = 0
    for instruction in arm:
        operation, argument = instruction.operation, instruction.argument
        if operation not in _IN_ARMS:
            return False
        taken, given = 0, 1
        if operation in ("LOAD_ATTR", *_SIGNS):
            taken = 1
        elif operation == "LOAD_METHOD":
            taken, given = 1, 2
        elif operation == "BINARY_OP":
            taken = 2
        elif operation == "CALL":
            taken = argument[0] + 2
        if depth < taken:
            return False
        depth += given - taken
    return depth == 1


def _value(machine: Machine, frame: Frame, arm: Sequence[Instruction]) -> Steps[Operand]:
    """What an arm leaves on the stack.

    Raises:
        _NotPlainError: it does something else, or would raise for lack of a name.
    """
    stack: list[Value | None] = []
    for instruction in arm:
        operation, argument = instruction.operation, instruction.argument
        if operation == "PUSH_NULL":
            stack.append(None)
        elif operation in ("LOAD_ATTR", "LOAD_METHOD"):
            stack.append((yield from _function_of_math(machine, stack.pop(), argument)))
            if operation == "LOAD_METHOD":
                stack.append(None)
        elif operation in _LOADS:
            stack.append(_loaded(machine, frame, operation, argument))
        elif operation in _SIGNS:
            stack.append(_attempted(_SIGNS[operation], _popped(stack, 1)))
        elif operation == "BINARY_OP":
            stack.append(_attempted(argument.removesuffix("="), _popped(stack, 2)))
        else:
            count, names = argument
            operands = _popped(stack, count)
            stack.append(_attempted(_called(stack, names), operands))
    (operand,) = _popped(stack, 1)
    if stack:
        raise _NotPlainError
    return operand


def _popped(stack: list[Value | None], count: int) -> tuple[Operand, ...]:
    values = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    found = _numbers(*(value for value in values if value is not None))
    if found is None or len(found) < count:
        raise _NotPlainError
    return found


def _called(stack: list[Value | None], names: tuple[str, ...]) -> str:
    """The name of the function of numbers below the arguments, which are popped already."""
    known = [value for value in stack[-2:] if isinstance(value, Known)]
    is_plain = None in stack[-2:]  # it is called with no object in front of the arguments
    del stack[-2:]
    name = _NAMES.get(id(known[0].object)) if known and is_plain else None
    if name is None or names:
        raise _NotPlainError
    return name


def _loaded(machine: Machine, frame: Frame, operation: str, argument: Any) -> Value:
    if operation == "LOAD_CONST":
        return Constant(argument)
    if operation in ("LOAD_FAST", "LOAD_DEREF"):
        is_cell = operation == "LOAD_DEREF"
        cell = frame.cells.get(argument) if is_cell else None
        value = frame.locals.get(argument) if cell is None else machine.cell_contents(cell)
        if value is None or value is UNBOUND:
            raise _NotPlainError
        return value
    names = frame.namespace.globals
    found = names.get(argument, frame.namespace.builtins.get(argument))
    if found is not math and id(found) not in _NAMES:
        raise _NotPlainError
    load_global(machine, frame, argument)
    loaded: Value = frame.pop()
    return loaded


def _function_of_math(machine: Machine, module: Value | None, name: str) -> Steps[Value]:
    if not isinstance(module, Known) or module.object is not math or not hasattr(math, name):
        raise _NotPlainError
    return (yield from machine.get_attribute(module, name))


def _attempted(name: str, operands: tuple[Operand, ...]) -> Operand:
    """The function of numbers, which may raise."""
    is_comparison = name in ("==", "!=", "<", "<=", ">", ">=")
    if name not in BOUNDED and not is_comparison:
        raise _NotPlainError
    if name in ("min", "max") and len(operands) == 1:
        raise _NotPlainError
    attempt = ATTEMPT + name
    value = FUNCTIONS[attempt](*(operand.value for operand in operands))
    kind = type(value)
    if kind not in (int, float, bool, type(None)) or (
        kind is int and value.bit_length() > MANY_BITS
    ):
        raise _NotPlainError
    if all(isinstance(operand, Constant) and operand.source is None for operand in operands):
        return Constant(value)
    return Scalar(value, None, (attempt, operands))
