"""What instructions of a loop nest do with lists, and with the functions of comprehensions.

Contract: the inner functions are those that Python calls at once: of comprehensions, which are
functions up to Python 3.11, and of generator expressions all of whose items are asked for before
anything else happens. So the variables around them are what they are when the function is made.
"""

import builtins
from dataclasses import replace
from typing import Any, Final

from dynajit.capture.bytecode.instructions import Instruction, decode
from dynajit.capture.execution.nests.activations import Activation, State
from dynajit.capture.execution.nests.formulas import slots_in
from dynajit.capture.execution.nests.inputs import Inputs
from dynajit.capture.execution.nests.lists import Lists, is_own_list
from dynajit.capture.execution.nests.values import (
    Array,
    Cell,
    Group,
    Handed,
    Inner,
    Listing,
    ListOf,
    Literal,
    Method,
    NotNest,
    Outer,
)
from dynajit.capture.machine.frames import Frame
from dynajit.capture.values.symbolic import Known

#: Calls within each other, at most.
MOST_DEPTH: Final = 8

#: The list of what a generator has yielded.
YIELDED: Final = ".yielded"

#: Functions that ask for all items of what they are given, and do nothing else meanwhile.
JOINING: Final = frozenset(map(id, (builtins.sum, builtins.min, builtins.max, builtins.list)))


class Comprehensions(Lists):
    """See the module's text. Mutable: steps are appended.

    Args:
        inputs: what the nest is given.
        frame: in which it runs.
    """

    def __init__(self, inputs: Inputs, frame: Frame) -> None:
        super().__init__(inputs)
        self._frame = frame
        self._grown: dict[str, ListOf] = {}
        self._inner: dict[int, Frame] = {}

    def _computed(self, value: Any) -> Any:
        """A value that no change of memory changes, and a list that is kept."""
        raise NotImplementedError

    def _held_by(self, activation: Activation, name: str) -> Any:
        """What a variable holds."""
        raise NotImplementedError

    # -- instructions

    def _list_append(self, state: State, instruction: Instruction) -> None:
        """What a comprehension does."""
        stack = state[-1].stack
        value = self._computed(stack.pop())
        place = len(stack) - instruction.argument
        target = stack[place] = self._computed(stack[place])
        if not isinstance(target, ListOf):
            raise NotNest
        self._append(state, target, value)

    def _list_extend(self, state: State, instruction: Instruction) -> None:
        """What a list of literals does."""
        stack = state[-1].stack
        more = stack.pop()
        place = len(stack) - instruction.argument
        if not isinstance(stack[place], Listing) or not isinstance(more, Group):
            raise NotNest
        stack[place] = replace(stack[place], items=(*stack[place].items, *more.items))

    def _append(self, state: State, target: ListOf, value: Any) -> None:
        self.append(target, value)
        if not isinstance(value, ListOf):
            return
        for activation in state:
            values = [activation.locals[n] for n in activation.locals if n in activation.live]
            for known in (*values, *activation.stack):
                if value.array.slot in slots_in(known):
                    raise NotNest  # the list has two names

    def _cells_of(self, frame: Frame) -> frozenset[str]:
        """The variables of a function that inner ones know."""
        return frozenset(frame.code.co_cellvars) if self._inputs.is_of_lists else frozenset()

    def _make_cell(self, state: State, instruction: Instruction) -> None:
        if instruction.argument not in state[-1].cells:
            raise NotNest

    def _load_closure(self, state: State, instruction: Instruction) -> None:
        if instruction.argument not in state[-1].cells:
            raise NotNest
        state[-1].stack.append(Cell(instruction.argument))

    def _make_function(self, state: State, instruction: Instruction) -> None:
        if not isinstance(state[-1].stack[-1], Inner):
            raise NotNest

    def _set_closure(self, state: State, instruction: Instruction) -> None:
        """The variables are those of this moment: the function is called before they change."""
        top = state[-1]
        inner, cells = top.stack.pop(), top.stack.pop()
        if instruction.argument != "closure" or not isinstance(cells, Group):
            raise NotNest
        held = tuple(self._held_by(top, cell.name) for cell in cells.items)
        top.stack.append(replace(inner, closure=held))

    def _comprehended(self, state: State, inner: Inner, iterator: Any) -> None:
        """A comprehension, which is a function of its own up to Python 3.11, or a generator
        whose items all are asked for at once."""
        code = inner.code
        is_list, is_generator = code.co_name == "<listcomp>", code.co_name == "<genexpr>"
        if not (is_list or (is_generator and self._is_joined(state[-1]))):
            raise NotNest
        frame = self._inner.get(id(code))
        if frame is None:
            namespace = state[-1].frame.namespace
            frame = self._inner[id(code)] = Frame(decode(code), code, namespace, {}, ())
        if frame.body.unsupported is not None or len(state) > MOST_DEPTH:
            raise NotNest
        names = (".0", *code.co_freevars)
        locals = dict(zip(names, (iterator, *inner.closure), strict=True))
        cells = frozenset((*code.co_freevars, *code.co_cellvars))
        if is_generator:
            locals[YIELDED] = self.list_of(Listing((), (id(frame.body), YIELDED)))
            cells |= {YIELDED}
        state.append(Activation(frame, locals, [], 0, cells))

    def _is_joined(self, top: Activation) -> bool:
        """Whether a generator that is on top of the stack goes to a function that asks for all of
        its items before anything else happens."""
        following = top.body[top.index]
        callee = next((value for value in top.stack[-2:] if value is not None), None)
        if not isinstance(callee, Outer) or not isinstance(callee.value, Known):
            return False
        is_call = (following.operation, following.argument) == ("CALL", (1, ()))
        return is_call and id(callee.value.object) in JOINING

    def _return_generator(self, state: State, instruction: Instruction) -> None:
        if YIELDED not in state[-1].locals:
            raise NotNest
        state[-1].stack.append(Literal(None))

    def _yield(self, state: State, instruction: Instruction) -> None:
        top = state[-1]
        value = self._computed(top.stack.pop())
        if isinstance(value, ListOf):
            raise NotNest
        self._append(state, top.locals[YIELDED], value)
        top.stack.append(Literal(None))

    def _method_of_list(self, state: State, method: Method, arguments: list[Any]) -> Any:
        """`numbers.append(x)` and its kin."""
        match method.name, len(arguments):
            case "append", 1:
                self._append(state, method.target, arguments[0])
                return Literal(None)
            case "pop", 0:
                return self.popped(method.target)
            case "copy", 0:
                return self.copy_of_list(method.target)
        raise NotNest

    def of_list(self, target: Any, given: Any) -> Any:
        """What a function of Python's gives that asks for all items of a list."""
        if target is builtins.list:
            return self.copy_of_list(given)
        return self.joined_numbers(target.__name__, given)

    def _handed(self, item: ListOf, lists: list[Handed]) -> Handed:
        """A list as a result.

        Args:
            lists: those that are so far; gets a new one.
        """
        array = item.array
        kind = array.dtype, len(array.sizes)
        if not is_own_list(array):
            raise NotNest
        known = [handed for handed in lists if handed.slot == array.slot]
        if not known:
            names = [n for n, grown in self._grown.items() if grown.array.slot == array.slot]
            known = [Handed(len(lists), array.slot, kind, names[0] if names else None)]
            lists += known
        return known[0]

    def parameter_of(self, array: Array) -> str:
        """See the base."""
        value = self._inputs.given(array.slot) if array.is_given else None
        locals = self._frame.locals
        found = [name for name in locals if value is not None and dict.get(locals, name) is value]
        if not found:
            raise NotNest
        return found[0]


def site_of(top: Activation) -> Any:
    """The instruction at hand."""
    return id(top.body), top.index - 1


__all__ = ["JOINING", "MOST_DEPTH", "YIELDED", "Comprehensions", "site_of"]
