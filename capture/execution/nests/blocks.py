"""The blocks of a loop nest: where paths part and meet, and where they leave the loop.

Contract: a block is made for a place and the keys of all values there (`values.key_of`); the
numbers of these are in registers then that follow from the place, so that every path that comes to
it can set them. Those who make the steps of a block say where it goes on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dynajit.capture.execution.nests.activations import Activation, Exit, State
from dynajit.capture.execution.nests.complex_numbers import as_complex_number, is_complex
from dynajit.capture.execution.nests.comprehensions import Comprehensions
from dynajit.capture.execution.nests.inputs import Inputs
from dynajit.capture.execution.nests.values import (
    WHOLE,
    Cell,
    Elements,
    Formula,
    Generator,
    Grid,
    Group,
    Inner,
    Items,
    Listing,
    Literal,
    Method,
    NotNest,
    Number,
    Range,
    Returns,
    as_number,
    key_of,
    numbers_in,
    with_numbers,
)
from dynajit.capture.machine.frames import Frame
from dynajit.ir.nests import Register, Step

if TYPE_CHECKING:
    pass

#: Blocks of one nest, at most.
MOST_BLOCKS: Final = 600

#: Places of a `break` or of the end of a turn that may stand behind each other.
MOST_JUMPS: Final = 16


class Blocks(Comprehensions):
    """See the module's text. Mutable; used once.

    Args:
        frame: in which the loop runs.
        head: its `FOR_ITER`, or the first instruction of a `while`.
        base: the depth of the stack below what the loop has there.
        last: of the instructions of a `while`; None: it is none.
        is_rest: what follows the loop, up to the end of the function, is part of the nest.
        inputs: what the loop is given.

    Attributes:
        blocks: the steps of each.
        steps: those of the block that is being made.
        exits: paths out of the loop.
    """

    def __init__(
        self, frame: Frame, head: int, base: int, last: int | None, is_rest: bool, inputs: Inputs
    ) -> None:
        super().__init__(inputs, frame)
        self._head, self._base, self._last, self._is_rest = head, base, last, is_rest
        self._known: dict[Any, int] = {}
        self._waiting: list[tuple[int, State]] = []
        self._places: dict[tuple[int, str], int] = {}
        self._block = 0
        self.blocks: list[list[Step]] = [[]]
        self.steps = self.blocks[0]
        self.exits: list[Exit] = []
        self._state: State = []
        self._before: list[Any] = []

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

    def _computed(self, value: Any) -> Any:
        """A value that no change of memory changes, and a list that is kept."""
        if isinstance(value, Listing) and self._inputs.is_of_lists:
            return self.list_of(value)
        return self.held(value) if isinstance(value, Formula) else value

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
        found = {name: as_left(value) for name, value in top.locals.items() if name in live}
        self.exits.append(Exit(self._block, index, found, is_over))
        return True

    def _is_inside(self, index: int) -> bool:
        """Whether a place may be in the loop, or one that another loop goes on at."""
        return index <= (self._head if self._last is None else self._last)


def as_left(value: Any) -> Any:
    """A value as it is behind the nest, where it does not matter how large it is known to be."""
    return replace(value, extent=WHOLE) if isinstance(value, Number) else value


def kept(value: Any, is_counter: bool) -> Any:
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
        return Group(tuple(kept(item, is_counter) for item in value.items))
    is_drawing = isinstance(value, Method) and isinstance(value.target, Generator)
    if (isinstance(value, _PASSING) and not is_drawing) or value is None:
        raise NotNest
    return value


#: What no variable holds.
_PASSING: Final = (Range, Elements, Grid, Items, Formula, Listing, Method, Inner, Cell)
