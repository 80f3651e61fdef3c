"""The steps of a loop nest over single elements, made of the bytecode of a loop.

Contract: `Flow.run` follows every path of a loop, and of functions that it calls, on values of
which only numbers vary (`values`). Where paths meet in one place with values of equal keys
there is one block; with others there are several, so that the class and the dtype of every variable
is known in each: `s = 0.0` is Python's float in a first turn, and NumPy's in those that follow. A
path that raises refuses. What is not numbers, elements and tuples of them raises `NotNest`: nothing
has happened then.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from dynajit.capture.bytecode.instructions import Instruction
from dynajit.capture.execution.nests.activations import Activation, State
from dynajit.capture.execution.nests.blocks import kept
from dynajit.capture.execution.nests.bodies import is_of_item, raises, targets
from dynajit.capture.execution.nests.calls import Calls
from dynajit.capture.execution.nests.complex_numbers import is_complex
from dynajit.capture.execution.nests.comprehensions import site_of
from dynajit.capture.execution.nests.formulas import is_whole, listed, with_arrays
from dynajit.capture.execution.nests.inputs import Inputs
from dynajit.capture.execution.nests.iteration import FLAT
from dynajit.capture.execution.nests.lists import Findings
from dynajit.capture.execution.nests.values import (
    Again,
    Array,
    Complex,
    Elements,
    Generator,
    Given,
    Grid,
    Group,
    Inner,
    Items,
    Listing,
    ListOf,
    Literal,
    Method,
    NotNest,
    Number,
    Outer,
    Range,
    Slice,
)
from dynajit.capture.machine.frames import Frame
from dynajit.capture.opcodes import HANDLERS as OPCODES
from dynajit.capture.values.symbolic import Known
from dynajit.ir.nests import Step, all_steps

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: Steps of one nest, at most: with as many blocks, what takes a compiler a second or two.
MOST_STEPS: Final = 6000

#: Turns of a `while`, and of the outermost loop around others, between two looks for signals.
POLLED_TURNS: Final = 1 << 16
POLLED_ROOTS: Final = 1 << 8

#: Blocks that fail before it is given up to find out of what class the numbers of lists are.
MOST_FAILURES: Final = 32


class Flow(Calls):
    """See the module's text. Mutable; used once.

    Args:
        machine, frame, head, base, last, is_rest, inputs: as of `Blocks` and `Calls`.
        findings: what is known of its lists.

    Attributes:
        has_loops: there are loops within it, or calls.
        has_inner: there are loops within it, or within functions that it calls.
        written: slots of the arrays that are written.
    """

    def __init__(
        self, machine: "Executor", frame: Frame, head: int, base: int, last: int | None,
        is_rest: bool, inputs: Inputs, findings: Findings,
    ) -> None:  # fmt: skip
        super().__init__(machine, frame, head, base, last, is_rest, inputs)
        self.findings = findings
        self._failed: NotNest | None = None
        self._failures = 0
        self.has_python_bits = inputs.is_of_lists
        self._outer: dict[Any, Any] = {}
        self.has_loops = self.has_inner = False
        self._count_of_steps = 0

    def run(self, given: Any = None) -> None:
        """Make all blocks.

        Args:
            given: what the loop goes over, or the truth that a `while` begins with; None: nothing.

        Raises:
            NotNest: it is no nest.
        """
        stored = {
            instruction.argument
            for instruction in self._frame.body
            if instruction.operation in ("STORE_FAST", "DELETE_FAST")
        }
        body = self._frame.body
        live = body.live[self._head]
        end = body[self._head].argument if self._last is None else self._last
        inner = body.instructions[self._head + 1 : end]
        self.has_loops = any(item.operation in ("FOR_ITER", "CALL") for item in inner)
        cells = self._cells_of(self._frame)
        held = live | stored | cells
        locals: dict[str, Any] = {n: Given(n) for n in self._frame.locals if n in held}
        for name in sorted(self.findings.growing):
            locals[name] = self._grown[name] = self.copy_of_list(self._inputs.local(name))
        stack = [None] * self._base
        if isinstance(given, Grid):
            given = replace(given, is_root=True)
        elif isinstance(given, (Range, Elements)):
            given = replace(given, is_iterator=True, is_root=True)
        own = [] if given is None else [given]
        first = Activation(self._frame, locals, [*stack, *own], self._head, cells)
        self._goto([first])
        known = len(self.findings.kinds)
        while self._waiting:
            self._block, state = self._waiting.pop()
            self.steps = self.blocks[self._block]
            self._try_to_follow(state)
            self._count_of_steps += sum(1 for _ in all_steps(self.steps))
            if self._count_of_steps > MOST_STEPS:
                raise NotNest
        if self._failed is not None:
            raise Again if len(self.findings.kinds) > known else self._failed

    def _try_to_follow(self, state: State) -> None:
        """Make the steps of a block; where it fails, perhaps since the class of an empty list was
        guessed, another block may tell it."""
        try:
            self._follow(state)
        except Again:
            raise
        except NotNest as failed:
            self._failures += 1
            if not self.has_guessed or self._failures > MOST_FAILURES:
                raise
            self._failed = failed.with_traceback(None)

    # -- instructions

    def _follow(self, state: State) -> None:
        """Make the steps of a block, up to its end."""
        is_first = True
        while True:
            top = state[-1]
            instruction = top.body[top.index]
            if not is_first and self._is_target(top):
                self._goto(state)
                return
            if raises(top.body, top.index):
                self.steps.append(Step("refuse"))
                return
            is_first = False
            self._state, self._before, self.fresh = state, [*top.stack], []
            top.index += 1
            handler = _HANDLERS.get(instruction.operation)
            if handler is None:
                raise NotNest
            if handler(self, state, instruction):
                return
            if self._leaves(state):
                return

    def _is_target(self, activation: Activation) -> bool:
        return activation.index in targets(activation.body)

    def _load_const(self, state: State, instruction: Instruction) -> None:
        value = instruction.argument
        found = Inner(value) if isinstance(value, CodeType) else _literal(value)
        state[-1].stack.append(found)

    def _load_fast(self, state: State, instruction: Instruction) -> bool:
        """A variable that nothing was stored in (behind a loop without turns) is an error."""
        if instruction.argument not in state[-1].locals:
            self.steps.append(Step("refuse"))
            return True
        state[-1].stack.append(self._held_by(state[-1], instruction.argument))
        return False

    def _held_by(self, activation: Activation, name: str) -> Any:
        """What a variable holds.

        Raises:
            NotNest: nothing.
        """
        found = activation.locals.get(name)
        if found is None:
            raise NotNest
        return self._inputs.local(found.name) if isinstance(found, Given) else found

    def _load_and_clear(self, state: State, instruction: Instruction) -> None:
        """A variable that a comprehension has one of the same name of."""
        state[-1].stack.append(state[-1].locals.pop(instruction.argument, None))

    def _store_fast(self, state: State, instruction: Instruction) -> None:
        top = state[-1]
        given = top.stack.pop()
        if given is None or isinstance(given, Given):  # what a comprehension gives back
            top.locals.pop(instruction.argument, None)
            if given is not None:
                top.locals[instruction.argument] = given
            return
        value = self._computed(given)
        if len(state) == 1 and self._is_own(instruction.argument, value):
            value = Given(instruction.argument)
        top.locals[instruction.argument] = kept(value, is_of_item(top.body, top.index - 1))

    def _is_own(self, name: str, value: Any) -> bool:
        """Whether a value is what a local of the frame holds in front of the nest."""
        if not isinstance(value, Array) or not value.is_given:
            return False
        given = self._inputs.given(value.slot)
        held = dict.get(self._frame.locals, name)  # a loop that is tried notes what is read
        return given is not None and held is given

    def _load_name(self, state: State, instruction: Instruction) -> bool:
        """A global or a cell: what it is is known as long as the nest is, but for a variable that
        an inner function knows, too."""
        top = state[-1]
        if instruction.operation == "LOAD_DEREF" and instruction.argument in top.cells:
            return self._load_fast(state, instruction)
        key = id(top.body), instruction.operation, instruction.argument
        if key not in self._outer:
            frame = top.frame
            OPCODES[instruction.operation](self._machine, frame, instruction.argument)
            self._outer[key] = self._inputs.convert(frame.pop())
        top.stack.append(self._outer[key])
        return False

    def _push_null(self, state: State, instruction: Instruction) -> None:
        state[-1].stack.append(None)

    def _pop_top(self, state: State, instruction: Instruction) -> None:
        state[-1].stack.pop()

    def _copy(self, state: State, instruction: Instruction) -> None:
        stack = state[-1].stack
        stack.append(stack[-instruction.argument])

    def _swap(self, state: State, instruction: Instruction) -> None:
        stack, depth = state[-1].stack, instruction.argument
        stack[-1], stack[-depth] = stack[-depth], stack[-1]

    def _unary(self, state: State, instruction: Instruction) -> None:
        stack = state[-1].stack
        match instruction.operation:
            case "UNARY_NOT":
                stack.append(self.inverted(stack.pop()))
            case "TO_BOOL":
                stack.append(self.truth(stack.pop()))
            case operation:
                stack.append(self.unary(_UNARY[operation], stack.pop()))

    def _binary(self, state: State, instruction: Instruction) -> None:
        stack = state[-1].stack
        b, a = stack.pop(), stack.pop()
        symbol = instruction.argument
        if isinstance(a, Array) and symbol.endswith("="):
            self._hold(state)
            stack.append(self.changed(symbol.removesuffix("="), a, b))
        elif isinstance(a, Listing) and symbol == "*" and self._inputs.is_of_lists:
            stack.append(self.repeated(a, b))
        elif symbol == "@":
            stack.append(self.dot(a, b))
        else:
            stack.append(self.binary(symbol.removesuffix("="), a, b))

    def _compare(self, state: State, instruction: Instruction) -> None:
        stack = state[-1].stack
        b, a = stack.pop(), stack.pop()
        stack.append(self.compare(instruction.argument, a, b))

    def _contains(self, state: State, instruction: Instruction) -> None:
        """`in` and `not in` a tuple of numbers that are known."""
        stack = state[-1].stack
        group, value = stack.pop(), stack.pop()
        if not isinstance(group, Group):
            raise NotNest
        found = self.is_one_of(value, group.items)
        stack.append(self.inverted(found) if instruction.argument else found)

    def _build_tuple(self, state: State, instruction: Instruction) -> None:
        stack, count = state[-1].stack, instruction.argument
        items = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        stack.append(Group(tuple(map(self._computed, items))))

    def _build_list(self, state: State, instruction: Instruction) -> None:
        self._build_tuple(state, instruction)
        group = state[-1].stack.pop()
        state[-1].stack.append(Listing(group.items, site_of(state[-1])))

    def _store_deref(self, state: State, instruction: Instruction) -> None:
        if instruction.argument not in self._cells_of(state[-1].frame):
            raise NotNest
        self._store_fast(state, instruction)

    def _build_slice(self, state: State, instruction: Instruction) -> None:
        stack, count = state[-1].stack, instruction.argument
        parts = [*stack[len(stack) - count :], *([Literal(None)] * (3 - count))]
        del stack[len(stack) - count :]
        if not all(isinstance(part, (Literal, Number)) for part in parts):
            raise NotNest
        stack.append(Slice(*parts))

    def _unpack(self, state: State, instruction: Instruction) -> None:
        found = self._computed(state[-1].stack.pop())
        if isinstance(found, Array):
            self.require_equal(found.sizes[0], Literal(instruction.argument))
            places = map(Literal, range(instruction.argument))
            found = Group(tuple(self.item(found, place) for place in places))
        if not isinstance(found, Group) or len(found.items) != instruction.argument:
            raise NotNest
        state[-1].stack.extend(reversed(found.items))

    # -- elements

    def _load_item(self, state: State, instruction: Instruction) -> None:
        stack = state[-1].stack
        key, target = stack.pop(), stack.pop()
        if isinstance(target, Group):
            if not isinstance(key, Literal) or type(key.value) is not int:
                raise NotNest
            if not -len(target.items) <= key.value < len(target.items):
                raise NotNest
            stack.append(target.items[key.value])
            return
        target = self._computed(target)
        if isinstance(target, ListOf):
            is_slice = isinstance(key, Slice)
            stack.append((self.slice_of_list if is_slice else self.item)(target, key))
            return
        if not isinstance(target, Array):
            raise NotNest
        stack.append(self._chosen_of(target, key))

    def _chosen_of(self, array: Array, key: Any) -> Any:
        """`array[key]`."""
        indices = with_arrays(key)
        if indices is not None:
            return self.gathered(array, indices)
        several = listed(key)
        return self.item(array, key) if several is None else self.picked(array, several)

    def _store_item(self, state: State, instruction: Instruction) -> None:
        stack = state[-1].stack
        key, target, value = stack.pop(), stack.pop(), stack.pop()
        if isinstance(target, ListOf):
            self.set_number(target, key, value)
            return
        if not isinstance(target, Array):
            raise NotNest
        self._hold(state)
        indices, several = with_arrays(key), listed(key)
        if isinstance(value, (Group, Listing)):
            value = self.made_of(value)
        if indices is not None:
            self.scatter(target, indices, value)
        elif several is not None:
            self.assign_picked(target, several, value)
        else:
            self.assign(self.part(target, key), value)

    def _load_attribute(self, state: State, instruction: Instruction) -> None:
        stack = state[-1].stack
        target = stack.pop()
        if instruction.operation == "LOAD_METHOD":
            target = self._computed(target) if isinstance(target, Listing) else target
            has_methods = isinstance(target, (ListOf, Generator))
            if is_whole(target) or is_complex(target) or has_methods:
                stack += [None, Method(instruction.argument, target)]
                return
            if not isinstance(target, Outer) or not _is_module(target):
                raise NotNest
            stack.append(None)
        if isinstance(target, Generator):
            stack.append(Method(instruction.argument, target))
            return
        stack.append(self._attribute(target, instruction.argument))

    def _attribute(self, target: Any, name: str) -> Any:
        if is_whole(target):
            return self._attribute_of_array(target, name)
        if name in ("real", "imag") and isinstance(target, (Number, Complex, Literal)):
            return self.part_of_number(target, name)
        if not isinstance(target, Outer):
            raise NotNest
        key = id(target.value), name
        if key not in self._outer:
            found = _at_once(self._machine.get_attribute(target.value, name))
            self._outer[key] = self._inputs.convert(found)
        return self._outer[key]

    def _attribute_of_array(self, target: Any, name: str) -> Any:
        match name:
            case "shape":
                return Group(tuple(target.sizes))
            case "ndim":
                return Literal(len(target.sizes))
            case "size":
                found = target.sizes[0]
                for size in target.sizes[1:]:
                    found = self.binary("*", found, size)
                return found
            case "T":
                return self.transposed(self._computed(target))
            case "real":
                return self.real_parts(target)
            case "imag":
                return self.imaginary_parts(target)
            case "flat":
                return self.over(FLAT, (self._computed(target),))
            case "dtype":
                return self._outer.setdefault(target.dtype, Outer(Known(target.dtype.numpy)))
        raise NotNest

    # -- jumps

    def _jump(self, state: State, instruction: Instruction) -> bool:
        self._poll_at(state, instruction)
        state[-1].index = instruction.argument
        if not self._leaves(state):
            self._goto(state)
        return True

    def _poll_at(self, state: State, instruction: Instruction) -> None:
        """Ask for signals in turns of a `while`, which may never end, and of a nest's root."""
        target, body = instruction.argument, state[-1].body
        if target >= instruction.index:
            return
        is_root = len(state) == 1 and target == self._head
        self.has_inner |= not is_root
        if target in body.while_loops:
            self.steps.append(Step("poll", name=POLLED_TURNS))
        elif is_root and self.has_loops:
            self.steps.append(Step("poll", name=POLLED_ROOTS))

    def _jump_if(self, state: State, instruction: Instruction) -> bool:
        """`POP_JUMP_IF_...` and `JUMP_IF_..._OR_POP`."""
        operation = instruction.operation
        is_kept = operation.endswith("OR_POP")
        value = state[-1].stack[-1]
        if "NONE" in operation:
            is_none = isinstance(value, Literal) and value.value is None
            truth = Literal(is_none is ("NOT" not in operation))
        else:
            truth = self.inverted(value) if "FALSE" in operation else self.truth(value)
        self._poll_at(state, instruction)
        jumping = [activation.copy() for activation in state]
        jumping[-1].index = instruction.argument
        if not is_kept:
            jumping[-1].stack.pop()
        state[-1].stack.pop()
        self._branch(truth, jumping, state)
        return True

    def _get_iter(self, state: State, instruction: Instruction) -> None:
        stack = state[-1].stack
        stack.append(self.iterator_of(self._computed(stack.pop())))

    def _for_iter(self, state: State, instruction: Instruction) -> bool:
        found = state[-1].stack[-1]
        truth = self.has_next(found)
        is_root = not isinstance(found, Items) and found.is_root
        over = [activation.copy() for activation in state]
        over[-1].stack.pop()
        over[-1].index = instruction.argument
        if isinstance(truth, Literal) and not truth.value:
            if not self._leaves(over, is_root):
                self._goto(over)
            return True
        inside = self._new_block()
        block, steps = self._block, self.steps
        self._block, self.steps = inside, self.blocks[inside]
        state[-1].stack[-1:] = self.next_of(found)
        self._goto(state)
        self._block, self.steps = block, steps
        if isinstance(truth, Literal):
            self.steps.append(Step("goto", name=inside))
            return True
        if isinstance(found, Grid):
            outside = self._behind(found, len(found.at) - 1, over, instruction.index)
        else:
            outside = self._apart(over, is_root)
        self.steps.append(Step("branch", operands=(truth.operand,), name=(inside, outside)))
        return True

    def _behind(self, found: Grid, dim: int, over: State, head: int) -> int:
        """A block of its own that goes on behind the last index along a dim: at the head of the
        loop with the next index of the dim before, or behind the loop.

        Args:
            over: the state behind the loop.
            head: its `FOR_ITER`.
        """
        if not dim:
            return self._apart(over, found.is_root)
        own, block = self.steps, self._block
        number = self._new_block()
        self._block, self.steps = number, self.blocks[number]
        following, truth = self.next_row(found, dim)
        again = [activation.copy() for activation in over]
        again[-1].stack.append(following)
        again[-1].index = head
        sides = self._apart(again), self._behind(found, dim - 1, over, head)
        self.steps.append(Step("branch", operands=(truth.operand,), name=sides))
        self._block, self.steps = block, own
        return number


def _literal(value: Any) -> Any:
    if type(value) is tuple:
        return Group(tuple(map(_literal, value)))
    if type(value) in (bool, int, float, complex, str, type(None), type(...)):
        return Literal(value)
    if type(value) is slice:
        return Slice(*(Literal(part) for part in (value.start, value.stop, value.step)))
    raise NotNest


def _is_module(value: Outer) -> bool:
    return isinstance(value.value, Known) and isinstance(value.value.object, ModuleType)


def _at_once(steps: Any) -> Any:
    """What an operation gives that runs no frame.

    Raises:
        NotNest: it runs one.
    """
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    raise NotNest


_UNARY: Final = {"UNARY_NEGATIVE": "-", "UNARY_POSITIVE": "+", "UNARY_INVERT": "~"}

_Handler = Callable[[Flow, State, Instruction], "bool | None"]
"""Gives True where the block has ended."""


def _each(names: Iterable[str], handler: _Handler) -> dict[str, _Handler]:
    return dict.fromkeys(names, handler)


_HANDLERS: Final[dict[str, _Handler]] = {
    "LOAD_CONST": Flow._load_const,
    "LOAD_FAST": Flow._load_fast,
    **_each(("LOAD_FAST_AND_CLEAR", "LOAD_CELL_AND_CLEAR"), Flow._load_and_clear),
    "MAKE_CELL": Flow._make_cell,
    "LOAD_CLOSURE": Flow._load_closure,
    **_each(("STORE_DEREF", "STORE_CELL"), Flow._store_deref),
    "MAKE_FUNCTION": Flow._make_function,
    "SET_FUNCTION_ATTRIBUTE": Flow._set_closure,
    "RETURN_GENERATOR": Flow._return_generator,
    "YIELD_VALUE": Flow._yield,
    "STORE_FAST": Flow._store_fast,
    **_each(("LOAD_GLOBAL", "LOAD_DEREF"), Flow._load_name),
    "PUSH_NULL": Flow._push_null,
    "POP_TOP": Flow._pop_top,
    "COPY": Flow._copy,
    "SWAP": Flow._swap,
    **_each((*_UNARY, "UNARY_NOT", "TO_BOOL"), Flow._unary),
    "BINARY_OP": Flow._binary,
    "COMPARE_OP": Flow._compare,
    "CONTAINS_OP": Flow._contains,
    "BUILD_TUPLE": Flow._build_tuple,
    "BUILD_LIST": Flow._build_list,
    "LIST_APPEND": Flow._list_append,
    "LIST_EXTEND": Flow._list_extend,
    "BUILD_SLICE": Flow._build_slice,
    "UNPACK_SEQUENCE": Flow._unpack,
    "BINARY_SUBSCR": Flow._load_item,
    "STORE_SUBSCR": Flow._store_item,
    **_each(("LOAD_ATTR", "LOAD_METHOD"), Flow._load_attribute),
    "JUMP": Flow._jump,
    **_each(
        ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE",
         "JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"), Flow._jump_if,
    ),
    "GET_ITER": Flow._get_iter,
    "FOR_ITER": Flow._for_iter,
    "CALL": Flow._call,
    "CALL_FUNCTION_EX": Flow._call_starred,
    "RETURN_VALUE": Flow._return,
}  # fmt: skip


__all__ = ["Flow"]
