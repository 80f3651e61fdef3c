"""`assert` of a tensor without a break: the launch checks it.

What is asserted is assumed to hold, and its truth is the divisor of an integer division that nobody
reads (`unread_results` keeps it). Where it does not hold, the launch refuses its values as those of
any other zero divisor: the original runs instead, as plain Python (`plain_run`), asks the tensor
itself and raises AssertionError, or whatever its message leads to.
"""

from typing import Any, Final

from dynajit.capture.machine.frames import Frame
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.types.symint import equals
from dynajit.ops.calls import contents
from dynajit.ops.table.op_table import TABLE

_FAILS: Final = ("LOAD_COMMON_CONSTANT", AssertionError)
_JUMPS: Final = {"POP_JUMP_IF_TRUE": True, "POP_JUMP_IF_FALSE": False}


def asserts(machine: Machine, frame: Frame, value: Value, index: int) -> bool | None:
    """The truth of a tensor that an `assert` is about, which the launch will check.

    Args:
        index: the place of the instruction that jumps by the truth.

    Returns:
        None: it is no such tensor, or no assertion follows.
    """
    if not isinstance(value, TensorValue):
        return None
    needed = _needed(frame, index)
    if needed is None or not _has_truth(machine, value):
        return None
    native_call(machine, _check if needed else _check_not, [value], {})
    return needed


def _needed(frame: Frame, index: int) -> bool | None:
    """The truth with which the jump at `index` goes past an assertion's failure."""
    instructions = frame.body.instructions
    jump = instructions[index]
    if jump.operation not in _JUMPS:
        return None
    if _is_failure(instructions[index + 1]):
        return _JUMPS[jump.operation]
    if _is_failure(instructions[jump.argument]):
        return not _JUMPS[jump.operation]
    return None


def _is_failure(instruction: Any) -> bool:
    return (instruction.operation, instruction.argument) == _FAILS


def _has_truth(machine: Machine, value: TensorValue) -> bool:
    """True for one element, which is no complex number."""
    kind = tensor_type(machine, value)
    return not kind.dtype.is_complex and all(equals(size, 1) for size in kind.shape)


def _check(value: Any) -> Any:
    return contents.require(TABLE.ne(value, 0))


def _check_not(value: Any) -> Any:
    return contents.require(TABLE.eq(value, 0))
