"""What loop nests do with calls: of functions of the program's, whose blocks are those of the nest,
and of functions that Python and NumPy have; and what a function returns.

Contract: what the function around the loop returns is numbers, arrays that the nest was given, and
lists that it has made, by the names that `Exit.locals` and `Exit.lists` have them under.
"""

import builtins
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.capture._capture import CompiledFunction
from dynajit.capture.bytecode.instructions import Instruction
from dynajit.capture.execution.nests.activations import Activation, Exit, State
from dynajit.capture.execution.nests.array_calls import CHANGING, may_write
from dynajit.capture.execution.nests.blocks import Blocks, as_left, kept
from dynajit.capture.execution.nests.callees import Callee, Callees
from dynajit.capture.execution.nests.complex_numbers import CMATH, as_complex_number, is_complex
from dynajit.capture.execution.nests.comprehensions import JOINING, MOST_DEPTH, YIELDED
from dynajit.capture.execution.nests.formulas import is_whole
from dynajit.capture.execution.nests.inputs import Inputs
from dynajit.capture.execution.nests.iteration import ITERATION
from dynajit.capture.execution.nests.operators import FUNCTIONS, MATHEMATICS, Operators
from dynajit.capture.execution.nests.values import (
    COMPLEX_DTYPES,
    DTYPES,
    Array,
    Group,
    Handed,
    Inner,
    ListOf,
    Literal,
    Method,
    NotNest,
    Number,
    Outer,
    Returns,
    as_number,
    length_of,
)
from dynajit.capture.machine.frames import Frame
from dynajit.capture.values.functions import FunctionValue
from dynajit.capture.values.symbolic import Known
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ir.nests import Register

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: What results are called that are returned: no names of variables.
RETURNED: Final = "return "
RETURNED_ITEM: Final = "items returned "
HANDED: Final = "list "


class Calls(Blocks):
    """See the module's text. Mutable; used once.

    Args:
        machine: at the head of the loop.
        others: as of `Blocks`.
    """

    def __init__(
        self, machine: "Executor", frame: Frame, head: int, base: int, last: int | None,
        is_rest: bool, inputs: Inputs,
    ) -> None:  # fmt: skip
        super().__init__(frame, head, base, last, is_rest, inputs)
        self._machine = machine
        self._callees = Callees(machine, inputs)

    def _call(self, state: State, instruction: Instruction) -> bool:
        count, names = instruction.argument
        stack = state[-1].stack
        arguments = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        below = stack[-2:]
        second, first = stack.pop(), stack.pop()
        if isinstance(first, Inner) and not arguments:
            self._comprehended(state, first, second)
            return False
        callee = second if first is None else first
        if first is not None and second is not None:
            raise NotNest
        first = count - len(names)
        named = dict(zip(names, arguments[first:], strict=True))
        drawing = self.method_that_draws(callee)
        if drawing is not None:
            given = [*map(self._computed, arguments[:first])]
            stack.append(self.drawn(drawing, given, named))
            return False
        if isinstance(callee, Method) and isinstance(callee.target, ListOf):
            arguments = [*map(self._computed, arguments)]
            stack.append(self._method_of_list(state, callee, [*arguments, *names]))
            return False
        if isinstance(callee, Method):
            if callee.name in CHANGING:
                self._hold(state)
            stack.append(self.method(callee.name, callee.target, arguments[:first], named))
            return False
        if isinstance(callee, Outer) and isinstance(callee.value, FunctionValue):
            return self._inline(state, callee.value, arguments, names)
        if not isinstance(callee, Outer) or not isinstance(callee.value, Known):
            raise NotNest
        self._machine.recorder.use(callee.value)
        target = callee.value.object
        if may_write(target, arguments):
            self._hold(state)
        made = self.called_with_arrays(target, arguments[:first], named)
        if made is not None:
            stack.append(made)
            return False
        if isinstance(target, CompiledFunction):
            return self._inline(state, Known(target.__wrapped__), arguments, names)
        if isinstance(target, FunctionType):
            return self._inline(state, callee.value, arguments, names)
        if names:
            raise NotNest
        if id(target) in JOINING and [ListOf] == [*map(type, arguments)]:
            stack.append(self.of_list(target, arguments[0]))
            return False
        if target is builtins.min or target is builtins.max:
            is_least = target is builtins.min
            return self._extreme(state, is_least, arguments, below)
        stack.append(self._called(target, arguments))
        return False

    def _call_starred(self, state: State, instruction: Instruction) -> bool:
        """`f(*tuple)`."""
        stack = state[-1].stack
        if instruction.argument or not isinstance(stack[-1], Group):
            raise NotNest
        items = stack.pop().items
        stack += items
        return self._call(state, replace(instruction, argument=(len(items), ())))

    def _called(self, target: Any, arguments: list[Any]) -> Any:
        """What a function gives that Python or NumPy has."""
        if type(target) not in _CALLED:
            raise NotNest
        name = target.__name__
        if target is builtins.list and len(arguments) == 1 and self._inputs.is_of_lists:
            return self.copy_of_list(arguments[0])
        if id(target) in ITERATION:
            return self.over(target, arguments)
        if target is builtins.len and len(arguments) == 1:
            (array,) = arguments
            if is_whole(array) or isinstance(array, ListOf):
                return self.length(array)
            if isinstance(array, Group):
                return Literal(len(array.items))
            raise NotNest
        if target is builtins.complex:
            return self.to_complex(arguments)
        if id(target) in CMATH:
            return self.of_cmath(target, arguments)
        if id(target) in _CONVERSIONS and len(arguments) == 1:
            return _CONVERSIONS[id(target)](self, arguments[0])
        if id(target) in _NUMBERS and len(arguments) == 1:
            return self.to_numpy(arguments[0], _NUMBERS[id(target)])
        is_known = name in FUNCTIONS or target is np.conjugate
        if is_known and isinstance(target, np.ufunc) and getattr(np, name) is target:
            return self.of_numpy(name, arguments)
        if name in MATHEMATICS and getattr(math, name) is target:
            return self.of_python(name, arguments)
        raise NotNest

    def _extreme(
        self, state: State, is_least: bool, arguments: list[Any], below: list[Any]
    ) -> bool:
        """`min` and `max`: the first of those than which none is less.

        Which of two numbers of different classes is meant decides about the class of what follows:
        there are two ways on. Where more numbers are to be looked at, both lead to the same call,
        with empty slots in place of the numbers that are done.

        Args:
            below: what the stack has below the arguments.
        """
        given = [argument for argument in arguments if argument is not None]
        is_group = len(given) == 1 and isinstance(given[0], Group)
        if is_group:
            given = list(given[0].items)
        if len(given) < 2:
            raise NotNest
        best, *rest = given
        while rest:
            other = rest.pop(0)
            truth, a, b = self.extreme(is_least, best, other)
            if a.dtype is b.dtype and a.is_python is b.is_python:
                best = self.selected(truth, b, a)
                continue
            if rest and is_group:
                raise NotNest
            ways = [[activation.copy() for activation in state] for _ in range(2)]
            for way, found in zip(ways, (b, a), strict=True):
                top, empty = way[-1], len(arguments) - len(rest) - 1
                top.stack += [*below, found, *rest, *([None] * empty)] if rest else [found]
                top.index -= bool(rest)
            self._branch(Number(truth, dtypes.bool_, True), *ways)
            return True
        state[-1].stack.append(best)
        return False

    def _inline(
        self, state: State, callee: Callee, arguments: list[Any], names: Sequence[str]
    ) -> bool:
        """A function of the program's: its blocks are those of the nest.

        Args:
            names: of the last arguments.
        """
        frame = self._callees.frame_of(callee)
        if len(state) > MOST_DEPTH:
            raise NotNest
        stored = {item.argument for item in frame.body if item.operation == "STORE_FAST"}
        bound = self._callees.bound(callee, [*map(self._computed, arguments)], names)
        locals = {
            name: kept(value, False) if name in stored else value for name, value in bound.items()
        }
        state.append(Activation(frame, locals, [], 0, self._cells_of(frame)))
        return False

    def _return(self, state: State, instruction: Instruction) -> bool:
        if len(state) == 1:
            return self._end(state[-1].stack.pop(), instruction.index)
        top = state.pop()
        value = top.locals[YIELDED] if YIELDED in top.locals else self._computed(top.stack.pop())
        state[-1].stack.append(value)
        return False

    def _end(self, value: Any, index: int) -> bool:
        """The end of the function."""
        if not self._is_rest:
            raise Returns
        value = self._computed(value)
        items = value.items if isinstance(value, Group) else (value,)
        if isinstance(value, Literal) and value.value is None:
            items = ()
        elif not items:
            raise NotNest
        prefix = RETURNED_ITEM if isinstance(value, Group) else RETURNED
        lists: list[Handed] = []
        found = {
            f"{prefix}{number}": self._returned(item, lists) for number, item in enumerate(items)
        }
        for grown in self._grown.values():
            self._handed(grown, lists)
        for handed in lists:
            found |= _facts_of(handed)
        self.exits.append(Exit(self._block, index, found, lists=tuple(lists)))
        return True

    def _returned(self, item: Any, lists: list[Handed]) -> Any:
        """A number, or an array that the nest was given, as it is behind the nest, or a list.

        Args:
            lists: the lists that are results; gets a new one.
        """
        if isinstance(item, ListOf) and item.array.slot < 0:
            return self._handed(item, lists)
        if isinstance(item, ListOf):
            item = item.array
        if isinstance(item, Array) and item.is_given and self._inputs.given(item.slot) is not None:
            return item
        return as_left(as_complex_number(item) if is_complex(item) else as_number(item))


def _facts_of(handed: Handed) -> dict[str, Any]:
    """The numbers by which a list is known behind the nest: where it is, and how long."""
    address = Number(address_of(handed), dtypes.int64, True)
    lengths = [length_of(handed.slot, dim) for dim in range(handed.kind[1])]
    return {fact_name(handed, number): fact for number, fact in enumerate((address, *lengths))}


def address_of(handed: Handed) -> Register:
    """The register of the address of a list's memory."""
    return Register(f"address{handed.number}", dtypes.int64)


def fact_name(handed: Handed, number: int) -> str:
    """What a number is called by which a list is known: the address, and lengths."""
    return f"{HANDED}{handed.number} {number}"


#: Classes of what is called and is no function of the program's.
_CALLED: Final = frozenset({type, np.ufunc, type(len)})

_CONVERSIONS: Final[dict[int, Callable[[Any, Any], Any]]] = {
    id(builtins.abs): Calls.absolute,
    id(builtins.float): Operators.to_float,
    id(builtins.int): Operators.to_int,
    id(builtins.bool): Operators.truth,
}

#: Classes of NumPy's numbers, and their dtypes.
_NUMBERS: Final[dict[int, DType]] = {
    id(dtype.numpy.type): dtype for dtype in (*DTYPES.values(), *COMPLEX_DTYPES.values())
}
