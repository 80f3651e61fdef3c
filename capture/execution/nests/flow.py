"""The blocks of a loop nest over single elements, made of the bytecode of a loop.

Contract: `Flow.run` follows every path of a loop, and of functions that it calls, on values of
which only numbers vary (`values`). Where paths meet in one place with values of equal keys
there is one block; with others there are several, so that the class and the dtype of every variable
is known in each: `s = 0.0` is Python's float in a first turn, and NumPy's in those that follow. A
path that raises refuses. What is not numbers, elements and tuples of them raises `NotNest`: nothing
has happened then.
"""

import builtins
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.capture._capture import CompiledFunction
from dynajit.capture.bytecode.instructions import Instruction
from dynajit.capture.execution.nests.activations import Activation, Exit, State
from dynajit.capture.execution.nests.array_calls import CHANGING, may_write
from dynajit.capture.execution.nests.bodies import is_of_item, raises, targets
from dynajit.capture.execution.nests.callees import Callee, Callees
from dynajit.capture.execution.nests.complex_numbers import (
    CMATH,
    as_complex_number,
    is_complex,
)
from dynajit.capture.execution.nests.comprehensions import (
    JOINING,
    MOST_DEPTH,
    YIELDED,
    Comprehensions,
    site_of,
)
from dynajit.capture.execution.nests.formulas import is_whole, listed, with_arrays
from dynajit.capture.execution.nests.inputs import Inputs
from dynajit.capture.execution.nests.iteration import FLAT, ITERATION
from dynajit.capture.execution.nests.lists import Findings
from dynajit.capture.execution.nests.operators import FUNCTIONS, MATHEMATICS, Operators
from dynajit.capture.execution.nests.values import (
    COMPLEX_DTYPES,
    DTYPES,
    WHOLE,
    Again,
    Array,
    Cell,
    Complex,
    Elements,
    Formula,
    Given,
    Grid,
    Group,
    Handed,
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
    Returns,
    Slice,
    as_number,
    key_of,
    length_of,
    numbers_in,
    with_numbers,
)
from dynajit.capture.machine.frames import Frame
from dynajit.capture.opcodes import HANDLERS as OPCODES
from dynajit.capture.values.functions import FunctionValue
from dynajit.capture.values.symbolic import Known
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ir.nests import Register, Step, all_steps

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: Blocks of one nest, at most, and steps: what takes a compiler a second or two.
MOST_BLOCKS: Final = 600
MOST_STEPS: Final = 6000

#: Turns of a `while`, and of the outermost loop around others, between two looks for signals.
POLLED_TURNS: Final = 1 << 16
POLLED_ROOTS: Final = 1 << 8

#: What results are called that are returned: no names of variables.
RETURNED: Final = "return "
RETURNED_ITEM: Final = "items returned "
HANDED: Final = "list "

#: Blocks that fail before it is given up to find out of what class the numbers of lists are.
MOST_FAILURES: Final = 32

#: Places of a `break` or of the end of a turn that may stand behind each other.
MOST_JUMPS: Final = 16


class Flow(Comprehensions):
    """See the module's text. Mutable; used once.

    Args:
        machine: at the head of the loop.
        frame: in which the loop runs.
        head: its `FOR_ITER`, or the first instruction of a `while`.
        last: of the instructions of a `while`; None: it is none.
        base: the depth of the stack below what the loop has there.
        is_rest: what follows the loop, up to the end of the function, is part of the nest.
        inputs: what the loop is given.
        findings: what is known of its lists.

    Attributes:
        blocks: the steps of each.
        exits: paths out of the loop.
        has_loops: there are loops within it, or calls.
        has_inner: there are loops within it, or within functions that it calls.
        written: slots of the arrays that are written.
    """

    def __init__(
        self, machine: "Executor", frame: Frame, head: int, base: int, last: int | None,
        is_rest: bool, inputs: Inputs, findings: Findings,
    ) -> None:  # fmt: skip
        super().__init__(inputs, frame)
        self._machine = machine
        self._head, self._base, self._last, self._is_rest = head, base, last, is_rest
        self.findings = findings
        self._failed: NotNest | None = None
        self._failures = 0
        self.has_python_bits = inputs.is_of_lists
        self._known: dict[Any, int] = {}
        self._waiting: list[tuple[int, State]] = []
        self._outer: dict[Any, Any] = {}
        self._places: dict[tuple[int, str], int] = {}
        self._callees = Callees(machine, inputs)
        self.has_loops = self.has_inner = False
        self._block = 0
        self._count_of_steps = 0
        self.blocks: list[list[Step]] = [[]]
        self.steps = self.blocks[0]
        self.exits: list[Exit] = []
        self._state: State = []
        self._before: list[Any] = []

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

    # -- blocks

    def _new_block(self) -> int:
        if len(self.blocks) >= MOST_BLOCKS:
            raise NotNest
        self.blocks.append([])
        return len(self.blocks) - 1

    def _goto(self, state: State) -> None:
        """End the block: go on in that of a state."""
        self._hold(state)
        moves: list[tuple[Register, Any]] = []
        keys: list[Any] = []
        for depth, activation in enumerate(state):
            live = activation.live
            activation.locals = {n: v for n, v in activation.locals.items() if n in live}
            for name, value in activation.locals.items():
                place = f"d{depth}_{self._place_of(activation, name)}"
                activation.locals[name] = self._settled(place, value, moves)
            for number, value in enumerate(activation.stack):
                activation.stack[number] = self._settled(f"d{depth}t{number}", value, moves)
            named = sorted(activation.locals.items())
            keys.append((
                id(activation.body), activation.index,
                tuple((name, key_of(value)) for name, value in named),
                tuple(map(key_of, activation.stack)),
            ))  # fmt: skip
        key = tuple(keys)
        if key not in self._known:
            self._known[key] = self._new_block()
            self._waiting.append((self._known[key], state))
        self._move(moves)
        self.steps.append(Step("goto", name=self._known[key]))

    def in_use(self) -> Iterable[Any]:
        """The values that the program may still ask for."""
        for activation in self._state:
            yield from activation.locals.values()
            yield from activation.stack
        yield from self._before
        yield from self._grown.values()

    def _hold(self, state: State) -> None:
        """Give what is on stacks and only a formula memory of its own: it is computed now."""
        self._state = state
        for activation in state:
            for number, value in enumerate(activation.stack):
                activation.stack[number] = self._computed(value)

    def _place_of(self, activation: Activation, name: str) -> int:
        return self._places.setdefault((id(activation.body), name), len(self._places))

    def _settled(self, place: str, value: Any, moves: list[tuple[Register, Any]]) -> Any:
        """The value with its numbers in the registers that they have between blocks."""
        found = []
        for number, given in enumerate(numbers_in(value)):
            register = Register(f"{place}_{number}_{given.dtype.name}", given.dtype)
            if given.operand != register:
                moves.append((register, given.operand))
            found.append(replace(given, operand=register))
        return with_numbers(value, iter(found))

    def _move(self, moves: Sequence[tuple[Register, Any]]) -> None:
        """Set registers, all at once."""
        targets = {target for target, _ in moves}
        held = {
            source: self.emit("set", source.dtype, source)
            for _, source in moves
            if isinstance(source, Register) and source in targets
        }
        for target, source in moves:
            known = held.get(source, source) if isinstance(source, Register) else source
            self.steps.append(Step("set", target, (known,), target.dtype))

    def _apart(self, state: State, is_over: bool = False) -> int:
        """A block of its own that goes on in a state: one side of a branch."""
        own, block = self.steps, self._block
        number = self._new_block()
        self._block, self.steps = number, self.blocks[number]
        if not self._leaves(state, is_over):
            self._goto(state)
        self._block, self.steps = block, own
        return number

    def _branch(self, truth: Any, first: State, second: State) -> None:
        """End the block: go on in one of two states."""
        if isinstance(truth, Literal):
            chosen = first if truth.value else second
            if not self._leaves(chosen):
                self._goto(chosen)
            return
        sides = self._apart(first), self._apart(second)
        self.steps.append(Step("branch", operands=(truth.operand,), name=sides))

    def _leaves(self, state: State, is_over: bool = False) -> bool:
        """Whether a state is out of the loop; the block ends then."""
        top = state[-1]
        if len(state) > 1 or self._is_rest:
            return False
        if self._last is not None and self._head <= top.index <= self._last:
            return False
        has_root = (
            self._last is None
            and len(top.stack) > self._base
            and isinstance(top.stack[self._base], (Range, Elements, Grid))
        )
        if has_root and top.stack[self._base].is_root:
            return False
        if len(top.stack) != self._base:
            raise Returns  # a value is returned, or what is no end of a turn
        index = top.index
        for _ in range(MOST_JUMPS):
            instruction = top.body[index]
            if instruction.operation != "JUMP" or self._is_inside(instruction.argument):
                break
            index = instruction.argument
        live = top.body.live[index]
        found = {name: _left(value) for name, value in top.locals.items() if name in live}
        self.exits.append(Exit(self._block, index, found, is_over))
        return True

    def _is_inside(self, index: int) -> bool:
        """Whether a place may be in the loop, or one that another loop goes on at."""
        return index <= (self._head if self._last is None else self._last)

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

    def _load_fast(self, state: State, instruction: Instruction) -> None:
        state[-1].stack.append(self._held_by(state[-1], instruction.argument))

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
        top.locals[instruction.argument] = _kept(value, is_of_item(top.body, top.index - 1))

    def _is_own(self, name: str, value: Any) -> bool:
        """Whether a value is what a local of the frame holds in front of the nest."""
        if not isinstance(value, Array) or not value.is_given:
            return False
        given = self._inputs.given(value.slot)
        held = dict.get(self._frame.locals, name)  # a loop that is tried notes what is read
        return given is not None and held is given

    def _computed(self, value: Any) -> Any:
        """A value that no change of memory changes, and a list that is kept."""
        if isinstance(value, Listing) and self._inputs.is_of_lists:
            return self.list_of(value)
        return self.held(value) if isinstance(value, Formula) else value

    def _load_name(self, state: State, instruction: Instruction) -> None:
        """A global or a cell: what it is is known as long as the nest is, but for a variable that
        an inner function knows, too."""
        top = state[-1]
        if instruction.operation == "LOAD_DEREF" and instruction.argument in top.cells:
            self._load_fast(state, instruction)
            return
        key = id(top.body), instruction.operation, instruction.argument
        if key not in self._outer:
            frame = top.frame
            OPCODES[instruction.operation](self._machine, frame, instruction.argument)
            self._outer[key] = self._inputs.convert(frame.pop())
        top.stack.append(self._outer[key])

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
            if is_whole(target) or is_complex(target) or isinstance(target, ListOf):
                stack += [None, Method(instruction.argument, target)]
                return
            if not isinstance(target, Outer) or not _is_module(target):
                raise NotNest
            stack.append(None)
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

    # -- calls

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
            name: _kept(value, False) if name in stored else value for name, value in bound.items()
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
        return _left(as_complex_number(item) if is_complex(item) else as_number(item))


def _left(value: Any) -> Any:
    """A value as it is behind the nest, where it does not matter how large it is known to be."""
    return replace(value, extent=WHOLE) if isinstance(value, Number) else value


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


def _literal(value: Any) -> Any:
    if type(value) is tuple:
        return Group(tuple(map(_literal, value)))
    if type(value) in (bool, int, float, complex, str, type(None), type(...)):
        return Literal(value)
    if type(value) is slice:
        return Slice(*(Literal(part) for part in (value.start, value.stop, value.step)))
    raise NotNest


def _kept(value: Any, is_counter: bool) -> Any:
    """A value as a variable holds it: a number of which only the class is known.

    Ints that are no counters may be any: there would be blocks for each size of `k` in `k += 1`.
    """
    if is_complex(value):
        return as_complex_number(value)
    if isinstance(value, Literal) and not isinstance(value.value, (str, type(None))):
        value = as_number(value)
    if isinstance(value, Number) and value.is_python and not is_counter:
        return replace(value, extent=WHOLE)
    if isinstance(value, Group):
        return Group(tuple(_kept(item, is_counter) for item in value.items))
    if isinstance(value, _PASSING) or value is None:
        raise NotNest
    return value


#: What no variable holds.
_PASSING: Final = (Range, Elements, Grid, Items, Formula, Listing, Method, Inner, Cell)


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


#: Classes of what is called and is no function of the program's.
_CALLED: Final = frozenset({type, np.ufunc, type(len)})

_CONVERSIONS: Final[dict[int, Callable[[Any, Any], Any]]] = {
    id(builtins.abs): Flow.absolute,
    id(builtins.float): Operators.to_float,
    id(builtins.int): Operators.to_int,
    id(builtins.bool): Operators.truth,
}

#: Classes of NumPy's numbers, and their dtypes.
_NUMBERS: Final[dict[int, DType]] = {
    id(dtype.numpy.type): dtype for dtype in (*DTYPES.values(), *COMPLEX_DTYPES.values())
}

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


__all__ = ["HANDED", "RETURNED", "RETURNED_ITEM", "Flow", "address_of", "fact_name"]
