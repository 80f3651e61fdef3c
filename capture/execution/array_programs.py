"""Recursive programs over NumPy's arrays and over numbers, which are left to plain Python.

Contract: `Recursion.enter` is asked where a function is called, `leave` at a break. A function that
calls itself is a version for each size of its parts, and a part for each of its calls, where the
graph breaks in it; where it does not, it is unrolled. Both take longer to make, and to run, than
Python takes for arrays that are halved again and again. Where no break is allowed, and where there
are tensors, it is captured all the same. Many calls of functions in a program of numbers
alone (recursion, `reduce`, `map`) would be unrolled for each number: it is a plain program.
"""

from collections import Counter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.capture._capture import CompiledFunction
from dynajit.capture.breaks import SkipFrame
from dynajit.capture.execution import plain_programs
from dynajit.capture.machine.frames import Frame
from dynajit.capture.places import sources
from dynajit.capture.values.functions import CellValue, FunctionContents, FunctionValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.symbolic import Known
from dynajit.capture.values.tensors import TensorValue

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

MSG_RECURSIVE: Final = "a recursive function of arrays"

#: Calls of functions that are running already, of one capture, at most.
MOST_CALLS: Final = 24

#: Calls of any functions after which it is asked whether the program may meet a tensor at all.
CALLS_ASKED: Final = 64


def is_of_arrays(executor: "Executor") -> bool:
    """Whether a program computes with NumPy's arrays and numbers, and with no tensors."""
    given = [each for each in executor.recorder.inputs if isinstance(each, TensorValue)]
    places = map(executor.recorder.first_source, given)
    held = (value for frame in executor.frames for value in frame.locals.values())
    return all(isinstance(place, sources.TensorOver) for place in places) and any(
        isinstance(value, ObjectValue) and issubclass(value.python_type, (np.ndarray, np.generic))
        for value in held
    )


class Recursion:
    """The calls of one capture of functions that are running. Mutable."""

    def __init__(self) -> None:
        self._calls: Counter[CodeType] = Counter()
        self._entered = 0

    def enter(self, executor: "Executor", frame: Frame) -> None:
        """A function is about to be called.

        Raises:
            SkipFrame: it is one of arrays that has called itself many times, or one of many calls
                of a program that meets none (`plain_programs`).
        """
        if executor.refusals.loops is None or not frame.is_user:
            return
        self._entered += 1
        if self._entered == CALLS_ASKED:
            plain_programs.refuse(executor, is_long=True)
        if not any(active.code is frame.code for active in executor.frames):
            return
        self._calls[frame.code] += 1
        if self._calls[frame.code] > MOST_CALLS and is_of_arrays(executor):
            raise SkipFrame(MSG_RECURSIVE)

    def leave(self, executor: "Executor") -> None:
        """The graph breaks.

        Raises:
            SkipFrame: in a function of arrays that calls itself.
        """
        calls_itself = any(_calls_itself(executor, frame) for frame in executor.frames)
        if calls_itself and is_of_arrays(executor):
            raise SkipFrame(MSG_RECURSIVE)


def _calls_itself(executor: "Executor", frame: Frame) -> bool:
    """Whether the code of a frame names the function that it is of, as a global or in a cell."""
    name = frame.code.co_name
    if not frame.is_user:
        return False
    if name in frame.cells and name in frame.code.co_freevars:
        return _code_in(executor, frame.cells[name]) is frame.code
    if name not in frame.code.co_names:
        return False
    return _code_of(dict.get(frame.namespace.globals, name)) is frame.code


def _code_in(executor: "Executor", cell: CellValue) -> CodeType | None:
    """The code of the function that a cell holds; None if it holds none."""
    held = executor.heap[cell.identity]
    if isinstance(held, FunctionValue):
        contents: FunctionContents = executor.heap[held.identity]
        return contents.code
    if held is None:  # one of before that nobody has read
        try:
            return _code_of(executor.recorder.existing(cell).cell_contents)
        except ValueError:  # nothing is in it
            return None
    return _code_of(held.object) if isinstance(held, Known) else None


def _code_of(found: Any) -> CodeType | None:
    if type(found) is CompiledFunction:
        found = found.__wrapped__
    return found.__code__ if type(found) is FunctionType else None


__all__ = ["Recursion", "is_of_arrays"]
