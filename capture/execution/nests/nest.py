"""Loops over single elements of NumPy's arrays: the whole nest is one node of the graph.

A `for` over a range whose body computes with numbers and elements of arrays is not captured turn by
turn: its bytecode is made into a program of scalars (`flow`), with the loops within it and the
functions that it calls, which generated code runs (`ir.nests`). Behind it the arrays that it has
written hold what it has left, and variables are numbers of NumPy's, or such of Python's as the
launch computes. Where the program cannot say what Python does (an exception, an int that is too
large), it refuses its values, and the function runs plainly. A loop that is no such nest is
captured in other ways, as if it had not been looked at.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dynajit.capture.breaks import GraphBreak, SkipFrame
from dynajit.capture.bytecode.instruction_set import JUMPS
from dynajit.capture.bytecode.instructions import Body, Instruction
from dynajit.capture.execution.nests.activations import Exit
from dynajit.capture.execution.nests.calls import (
    HANDED,
    RETURNED,
    RETURNED_ITEM,
    address_of,
    fact_name,
)
from dynajit.capture.execution.nests.draws import OF_NORMALS, draws, may_draw
from dynajit.capture.execution.nests.flow import Flow
from dynajit.capture.execution.nests.inputs import Inputs, as_floats
from dynajit.capture.execution.nests.iteration import FLAT
from dynajit.capture.execution.nests.lists import Findings
from dynajit.capture.execution.nests.values import (
    LARGEST_MEDIUM,
    PYTHON_DTYPES,
    Again,
    Array,
    Complex,
    Group,
    Handed,
    NotNest,
    Number,
    Returns,
    key_of,
    numbers_in,
)
from dynajit.capture.execution.tried_turns import Reads, may_try
from dynajit.capture.machine.exceptions import NotKnown, Raised
from dynajit.capture.machine.frames import Frame
from dynajit.capture.python.tensors.arrays import is_array, is_writeable, memory_in, new_array
from dynajit.capture.python.tensors.autograd import data_of
from dynajit.capture.python.tensors.counts import new_count, new_returned
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.mutation import store_whole
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.tensors.turns import Varies, is_of_a_turn
from dynajit.capture.values.containers import (
    DictValue,
    IteratorValue,
    ListValue,
    RangeIterator,
    SetValue,
    TupleValue,
)
from dynajit.capture.values.symbolic import NONE, Constant, Known, Scalar, Value, constant
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import numel
from dynajit.ir import graph
from dynajit.ir.nests import NEST, Nest, Register, Step, Window, all_steps
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: Turns of a loop without loops in it from which a nest is made: fewer are unrolled.
FEWEST_TURNS: Final = 4

#: Elements that are copied whatever a loop does, and how many for each turn of one without others.
MOST_COPIED: Final = 1 << 14
MOST_TIMES: Final = 16

#: Elements of rows that turns leave and do not read again: a loop over whole arrays computes
#: functions such as `exp` of longer ones four times as fast.
MOST_KEPT: Final = 512

#: Turns of a loop that leaves numbers of Python's: fewer are unrolled, and the numbers known.
FEWEST_LEFT: Final = 17


#: Turns of a loop without loops in it that draws numbers: to read and write states of generators
#: takes as long as Python takes for these.
FEWEST_DRAWN: Final = 32


def at_loop(executor: "Executor", frame: Frame, is_unrolled: bool = False) -> bool:
    """The executor is in front of a `FOR_ITER`: perhaps all of its turns are one node.

    Args:
        is_unrolled: no turn stands for the others: if they are no nest, they are unrolled.

    Returns:
        Whether they are; the loop is over then.
    """
    iterator = frame.stack[-1]
    state = executor.heap[iterator.identity] if isinstance(iterator, IteratorValue) else None
    if not isinstance(state, RangeIterator) or len(state.rest) < FEWEST_TURNS:
        return False
    if state.last is not None:
        return False
    ends: list[Value] = [constant(state.rest.start), constant(state.rest.stop)]
    if state.stop is not None:
        ends[1] = state.stop
    loop = Loop(
        frame.index,
        len(frame.stack) - 1,
        (*ends, constant(state.rest.step)),
        is_unrolled=is_unrolled,
    )
    return _is_tried(executor, frame, loop)


def at_start(executor: "Executor", frame: Frame, instruction: Instruction) -> bool:
    """The executor is in front of a call or of `GET_ITER`: perhaps of `range`, by numbers that
    vary, or of an array, or of what else goes over arrays (`iteration.ITERATION`), for a loop that
    is a nest.

    Returns:
        Whether it is; the loop is over then.
    """
    following = frame.body.instructions[frame.index + 1 : frame.index + 3]
    if instruction.operation == "GET_ITER":
        array = frame.stack[-1]
        if following[0].operation != "FOR_ITER" or not _has_items(executor, array):
            return False
        loop = Loop(frame.index + 1, len(frame.stack) - 1, (array,), None, None)
        return _is_tried(executor, frame, loop)
    if [row.operation for row in following] != ["GET_ITER", "FOR_ITER"]:
        return False
    if instruction.operation == "LOAD_ATTR":
        array = frame.stack[-1]
        if instruction.argument != FLAT or not is_array(array):
            return False
        loop = Loop(frame.index + 2, len(frame.stack) - 1, (array,), None, FLAT)
        return _is_tried(executor, frame, loop)
    if instruction.operation == "CALL":
        count, names = instruction.argument
        base = len(frame.stack) - count - 2
        arguments = tuple(frame.stack[base + 2 :])
    else:
        names, base, starred = instruction.argument, len(frame.stack) - 3, frame.stack[-1]
        if not isinstance(starred, TupleValue):
            return False
        arguments = tuple(starred.items)
    if names:
        return False
    callee = [value for value in frame.stack[base : base + 2] if value is not None]
    if len(callee) != 1 or not isinstance(callee[0], Known):
        return False
    function = callee[0].object
    if function is range:
        is_open = any(_varies(executor, item) or is_array(item) for item in arguments)
    elif function is np.ndindex:
        is_open = True
    else:
        is_open = function in (enumerate, zip, np.ndenumerate) and all(
            _has_items(executor, argument) for argument in arguments[:1]
        )
    if not is_open:
        return False
    executor.recorder.use(callee[0])
    return _is_tried(executor, frame, Loop(frame.index + 2, base, arguments, None, function))


def _has_items(executor: "Executor", value: Any) -> bool:
    """Whether a value is an array whose items are some turns of a loop."""
    if not is_array(value):
        return False
    shape = tensor_type(executor, memory_in(executor, value)).shape
    return bool(shape) and not (isinstance(shape[0], int) and shape[0] < FEWEST_TURNS)


def at_while(executor: "Executor", frame: Frame, instruction: Instruction) -> bool:
    """The executor is in front of a turn of a `while`, or of its first test, on an array's number:
    perhaps all turns are one node.

    Returns:
        Whether they are; the loop is over then.
    """
    heads = frame.body.while_loops
    if frame.index in heads:
        loop = Loop(frame.index, len(frame.stack), (), heads[frame.index])
        return _is_tried(executor, frame, loop)
    jump = frame.index + (instruction.operation == "TO_BOOL")
    is_test = frame.body[jump].operation in ("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE")
    if not is_test or jump + 1 not in heads or not is_array(frame.stack[-1]):
        return False
    last = heads[jump + 1]
    base = len(frame.stack) - 1
    return _is_tried(executor, frame, Loop(frame.index, base, (frame.stack[-1],), last))


def at_whole(executor: "Executor", frame: Frame) -> bool:
    """The executor is at the beginning of a program over lists of numbers (`Refusals.lists`).

    Returns:
        Whether all of it is one node; the program is at its end then.
    """
    loop = Loop(frame.index, 0, (), len(frame.body.instructions) - 1)
    return _is_made(executor, frame, loop, is_rest=True)


def _varies(executor: "Executor", value: Any) -> bool:
    is_int = isinstance(value, Scalar) and value.python_type is int
    return is_int and not is_of_a_turn(value) and bool(executor.recorder.sizes.varies(value))


def _is_tried(executor: "Executor", frame: Frame, loop: "Loop") -> bool:
    place = id(frame.body), frame.index, loop.is_unrolled
    if place in executor.loops.no_nests or not may_try(executor, frame) or not frame.is_user:
        return False
    if not _may_be_nest(frame, loop):
        executor.loops.no_nests.add(place)
        return False
    if _is_made(executor, frame, loop):
        return True
    executor.loops.no_nests.add(place)
    return False


def _is_made(
    executor: "Executor", frame: Frame, loop: "Loop", is_rest: bool = False,
    findings: Findings | None = None,
) -> bool:  # fmt: skip
    """Whether a loop is a nest; it is over then.

    Args:
        findings: what is known of its lists; each attempt that fails for them adds to it.
    """
    mark, stack = executor.recorder.mark(), list(frame.stack)
    read = set(frame.locals.read) if isinstance(frame.locals, Reads) else None
    findings = Findings() if findings is None else findings
    try:
        _Nest(executor, frame, loop, is_rest, findings).make()
    except (NotNest, GraphBreak, NotKnown, SkipFrame, Varies, Raised, RecursionError) as reason:
        executor.recorder.restore(mark)
        frame.stack[:] = stack
        if isinstance(frame.locals, Reads) and read is not None:
            frame.locals.read = read  # what no nest has read, no turn has
        if isinstance(reason, Again):
            return _is_made(executor, frame, loop, is_rest, findings)
        may_return = isinstance(reason, Returns) and not is_rest
        return may_return and _is_made(executor, frame, loop, is_rest=True)
    return True


def _may_be_nest(frame: Frame, loop: "Loop") -> bool:
    """Whether a loop reads an array of some kind, or draws numbers, and no variable that is no
    number, no array and no generator."""
    body = frame.body
    end = body[loop.head].argument if loop.last is None else loop.last + 1
    inside = body.instructions[loop.head : end]
    names = dict.fromkeys(item.argument for item in inside if item.operation == "LOAD_FAST")
    held = [value for name in names if (value := dict.get(frame.locals, name)) is not None]
    if any(isinstance(value, _NEVER) for value in held):
        return False
    if any(map(is_array, (*held, *loop.arguments))):
        return True
    if any(map(draws, held)) or may_draw(frame, inside):
        return True
    operations = {item.operation for item in inside}
    return bool(operations & _SUBSCRIPTS) and bool(operations & _FROM_ELSEWHERE)


#: What a nest neither computes with nor looks into.
_NEVER: Final = (TensorValue, ListValue, DictValue, SetValue, IteratorValue)
_SUBSCRIPTS: Final = frozenset({"BINARY_SUBSCR", "STORE_SUBSCR"})
_FROM_ELSEWHERE: Final = frozenset({"LOAD_ATTR", "LOAD_DEREF", "LOAD_GLOBAL"})


@record(eq=False)
class Loop:
    """A loop in a frame.

    Args:
        head: its `FOR_ITER`, or where a `while` begins: its first turn, or its first test.
        base: the depth of the stack below what it has there.
        arguments: of the range that it goes over, or the truth that is tested first.
        last: instruction of a `while`; None: it is none.
        function: of those arguments; None: it goes over the only one.
        is_unrolled: if it is no nest.
    """

    head: int
    base: int
    arguments: tuple[Value, ...]
    last: int | None = None
    function: Any = range
    is_unrolled: bool = False


class _Nest:
    """A loop that is tried. Mutable; used once.

    Args:
        executor, frame: in front of it.
        loop: where it is.
        is_rest: what follows the loop, up to the end of the function, is part of the nest.
        findings: what is known of its lists.
    """

    def __init__(
        self, executor: "Executor", frame: Frame, loop: Loop, is_rest: bool, findings: Findings
    ) -> None:
        self._executor, self._frame, self._loop = executor, frame, loop
        self._recorder = executor.recorder
        self._is_rest = is_rest
        self._inputs = Inputs(executor, frame)
        self._flow = Flow(
            executor, frame, loop.head, loop.base, loop.last, is_rest, self._inputs, findings
        )

    def make(self) -> None:
        """Record the nest, and go on behind it.

        Raises:
            NotNest, GraphBreak, ...: it is none.
        """
        flow = self._flow
        given = [self._inputs.convert(value) for value in self._loop.arguments]
        if self._loop.last is None:
            flow.run(flow.over(self._loop.function, given))
        else:
            flow.run(*given)
        if not self._inputs.has_numpy and not self._inputs.is_of_lists:
            raise NotNest
        self._check_worth()
        index, live = self._end()
        exit, results = self._left(live)
        if not results and not flow.written:
            raise NotNest
        self._finish(exit)
        targets, windows = self._targets()
        drawn = [slot for slot in self._inputs.generators if slot in flow.written]
        written = (*targets, *drawn)
        registers = {name: self._registers_of(name) for name in results}
        nest = Nest(
            tuple(map(tuple, flow.blocks)),
            tuple(self._inputs.numbers),
            written,
            (*written, *(register for parts in registers.values() for register in parts)),
            windows,
            tuple(flow.scratch),
            is_alone=any(self._inputs.generators[n].python_type is Random for n in drawn),
        )
        nest.check()
        values = iter([self._run(nest, number) for number in range(len(nest.results))])
        for target in targets.values():
            data = data_of(self._executor, target)  # no tensor of this memory counts the write
            assert isinstance(data, TensorValue)
            is_complex = tensor_type(self._executor, data).dtype.is_complex
            value = next(values)
            store_whole(self._executor, data, TABLE.view_as_complex(value) if is_complex else value)
        steps = [step for block in flow.blocks for step in all_steps(block)]
        for slot in drawn:
            names = {step.name for step in steps if (step.operation, step.slot) == ("draw", slot)}
            has_normals = not names.isdisjoint(OF_NORMALS)
            self._recorder.write_state(self._inputs.generators[slot], next(values), has_normals)
        found = {name: _joined(exit.locals[name], values) for name in registers}
        if self._is_rest:
            self._return(exit, found)
            return
        self._check_left(results)
        self._go_on(index, found, exit)

    def _check_worth(self) -> None:
        """Turns of whole arrays, which do the same each, are better captured as such.

        Raises:
            NotNest: they do nothing else, or these are large; or there are few that draw numbers.
        """
        turns, is_flat = self._turns(), not self._flow.has_inner
        if self._inputs.generators and is_flat and turns is not None and turns < FEWEST_DRAWN:
            raise NotNest
        steps = [step for steps in self._flow.blocks for step in steps]
        wholes = [] if self._inputs.is_of_lists else self._wholes()
        if not wholes or self._flow.has_inner:
            return
        is_open = not all(map(_is_of_known_size, wholes))
        if self._loop.is_unrolled and is_open:
            return
        has_elements = any(step.operation in ("load", "store") for step in steps)
        has_parts = self._flow.has_moving or has_elements
        if not has_parts and not self._flow.has_rows:
            raise NotNest
        is_read = has_parts or bool(_slots(steps, "load") & _slots(steps, "store"))
        most = MOST_COPIED if is_read else MOST_KEPT
        if has_elements and is_open and self._inputs.largest <= most:
            return
        if any(_is_large(step, most, self._flow.has_turning) for step in wholes):
            raise NotNest

    def _wholes(self) -> list[Step]:
        """The steps of turns that are loops over whole arrays."""
        return [s for steps in self._flow.blocks for s in steps if s.operation == "each"]

    # -- how it ends

    def _end(self) -> tuple[int, Sequence[str]]:
        """Where paths lead that leave the loop, and what is live there."""
        exits = self._flow.exits
        if self._is_rest and exits:
            return exits[0].index, sorted({name for exit in exits for name in exit.locals})
        indices = {exit.index for exit in exits}
        if len({_way_out(self._frame.body, index) for index in indices}) != 1:
            raise Returns
        index = min(indices)
        stored = {
            instruction.argument
            for instruction in self._frame.body
            if instruction.operation == "STORE_FAST"
        }
        live = self._frame.body.live[index]
        return index, sorted(live & stored)

    def _left(self, live: Sequence[str]) -> tuple[Exit, list[str]]:
        """The end that is served, and which variables are results; other ends refuse.

        An end that has set the most variables is that of most calls, and among such the one with
        the most numbers of arrays, or floats: others are of no turn, or of turns that chose none.
        """
        if len({_arrays_of(exit) for exit in self._flow.exits}) > 1:
            raise NotNest
        changed = {
            exit: [name for name in live if self._is_result(exit, name)]
            for exit in self._flow.exits
        }
        most = max(map(len, changed.values()))
        served = [
            (exit, names)
            for exit, names in changed.items()
            if len(names) == most and all(self._class_of(exit.locals.get(name)) for name in names)
        ]
        if not served:
            raise Returns
        return max(served, key=lambda found: _rank_of_classes(found[0], found[1]))

    def _check_left(self, results: Sequence[str]) -> None:
        """
        Raises:
            NotNest: numbers of Python's are left by a loop that may be unrolled, which knows them.
        """
        held = self._chosen.locals
        numbers = [n for n in results if any(part.is_python for part in numbers_in(held[n]))]
        turns = self._turns()
        if turns is not None and turns < FEWEST_LEFT and set(numbers) - {self._counter()}:
            raise NotNest

    def _turns(self) -> int | None:
        """How many turns there are; None: it is not known."""
        if self._loop.last is not None or self._loop.function is not range:
            return None
        ends = [value.value for value in self._loop.arguments if isinstance(value, Constant)]
        return len(range(*ends)) if len(ends) == len(self._loop.arguments) else None

    def _counter(self) -> str | None:
        """The variable that holds the last item of the range behind the loop, all turns run."""
        if not self._turns() or not all(exit.is_over for exit in self._flow.exits):
            return None
        body, head = self._frame.body, self._loop.head
        first = body[head + 1]
        stores = [
            item
            for item in body.instructions[head : body[head].argument]
            if item.operation == "STORE_FAST" and item.argument == first.argument
        ]
        is_only = first.operation == "STORE_FAST" and len(stores) == 1
        return str(first.argument) if is_only else None

    def _is_result(self, exit: Exit, name: str) -> bool:
        found = exit.locals.get(name)
        if self._is_kept(found):
            return False
        if self._is_rest:
            return found is not None
        return found is None or key_of(found) != ("given", name)

    def _is_kept(self, found: Any) -> bool:
        """Whether a value is an array that the nest was given, or a list."""
        if not isinstance(found, Array) or not found.is_given:
            return isinstance(found, Handed)
        return self._inputs.given(found.slot) is not None

    def _finish(self, chosen: Exit) -> None:
        """Let every path out of the loop end."""
        self._chosen = chosen
        flow, wanted = self._flow, _key_of_exit(chosen)
        for exit in flow.exits:
            steps = flow.blocks[exit.block]
            if _key_of_exit(exit) != wanted:
                steps.append(Step("refuse"))
                continue
            flow.steps = steps
            for handed in exit.lists:
                steps.append(Step("hand_over", address_of(handed), slot=handed.slot))
            for name, value in exit.locals.items():
                if self._class_of(value) is None:
                    continue
                for target, part in zip(self._registers_of(name), numbers_in(value), strict=True):
                    is_int = part.is_python and part.dtype is dtypes.int64
                    if is_int and not self._inputs.is_of_lists:
                        flow.require_medium(part)  # what is computed of it behind the loop fits
                    steps.append(Step("set", target, (part.operand,), part.dtype))
            steps.append(Step("leave"))

    def _place(self, name: str) -> int:
        return sorted((*self._frame.code.co_varnames, *self._chosen.locals)).index(name)

    def _registers_of(self, name: str) -> list[Register]:
        """Those of a number that is left, two of a complex one, and of all in a tuple."""
        parts = enumerate(numbers_in(self._chosen.locals[name]))
        place = self._place(name)
        return [Register(f"left_{place}_{number}", part.dtype) for number, part in parts]

    # -- the graph

    def _targets(self) -> tuple[dict[int, TensorValue], tuple[Window, ...]]:
        """What is written, by slots, and arrays that share memory with what is written.

        Raises:
            NotNest: one may not be written, or it is not known how memory is shared.
        """
        heap, written = self._recorder.heap, self._flow.written
        found: dict[int, TensorValue] = {}
        windows: list[Window] = []
        groups: dict[int, list[tuple[int, TensorValue]]] = {}
        for slot, value, tensor in self._inputs.arrays.values():
            if slot in written and not is_writeable(self._executor, value):
                raise NotNest
            memory = heap[tensor.identity].memory
            groups.setdefault(memory or -1 - slot, []).append((slot, tensor))
        for memory, group in groups.items():
            changed = [tensor for slot, tensor in group if slot in written]
            if not changed:
                continue
            self._check_costs(changed)
            if len(group) == 1:
                found[group[0][0]] = group[0][1]
                continue
            contents: MemoryContents = heap[memory]
            kinds = {tensor_type(self._executor, tensor).dtype for _, tensor in group}
            if len({*kinds, contents.value.dtype}) != 1:
                raise NotNest  # parts of complex numbers
            self._inputs.operands.append(as_floats(contents.value))
            base = len(self._inputs.operands) - 1
            found[base] = contents.base
            windows += [self._window(slot, base, tensor) for slot, tensor in group]
        return found, tuple(windows)

    def _check_costs(self, tensors: Sequence[TensorValue]) -> None:
        """Arrays that are written are copied: that is not worth it for a few elements of many.

        Raises:
            NotNest: it is not.
        """
        turns = self._turns()
        if turns is None or self._flow.has_loops or self._wholes():
            return
        for tensor in tensors:
            size = numel(tensor_type(self._executor, tensor).shape)
            is_large = isinstance(size, int) and size > max(MOST_COPIED, MOST_TIMES * turns)
            if is_large and self._existed(tensor):
                raise NotNest

    def _existed(self, tensor: TensorValue) -> bool:
        """Whether the memory of a tensor is older than the graph."""
        contents: TensorContents = self._recorder.heap[tensor.identity]
        memory = contents.memory
        base = self._recorder.heap[memory].base if memory else tensor
        return self._recorder.existing(base) is not None

    def _window(self, slot: int, base: int, tensor: TensorValue) -> Window:
        place = tensor_memory.window(self._recorder, tensor)
        if place is None:
            raise NotNest
        offset, strides = place
        if tensor_type(self._executor, tensor).dtype.is_complex:
            return Window(slot, base, 2 * offset, (*(2 * stride for stride in strides), 1))
        return Window(slot, base, offset, strides)

    def _run(self, nest: Nest, result: int) -> graph.Value:
        builder = self._recorder.builder
        operands = [builder.without_gradient(value) for value in self._inputs.operands]
        return builder.call(NEST, operands, {"nest": nest, "result": result})

    def _go_on(self, index: int, results: dict[str, Any], exit: Exit) -> None:
        """The frame behind the loop. What is not live there may be as it was in front of it."""
        frame = self._frame
        for name, value in results.items():
            frame.locals[name] = self._behind(exit.locals[name], value)
        for name, kept in exit.locals.items():
            given = self._inputs.given(kept.slot) if isinstance(kept, Array) else None
            if given is not None:
                frame.locals[name] = given
        if (counter := self._counter()) in results:
            ends = [value.value for value in self._loop.arguments if isinstance(value, Constant)]
            frame.locals[str(counter)] = constant(range(*ends)[-1])
        del frame.stack[self._loop.base :]
        frame.index = index

    def _behind(self, kept: Any, value: Any) -> Value:
        """What a variable holds behind the loop.

        Args:
            value: the value of the graph, or one for each item of a tuple.
        """
        if isinstance(kept, Group):
            items = zip(kept.items, value, strict=True)
            return TupleValue(tuple(self._behind(item, held) for item, held in items))
        kind = self._class_of(kept)
        if kind is int:
            self._recorder.intervals.note(value.node, (-LARGEST_MEDIUM, LARGEST_MEDIUM))
        return self._made(self._recorder.new_tensor(value), kind)

    def _return(self, exit: Exit, results: dict[str, graph.Value]) -> None:
        """The frame in front of its end, with what it returns."""
        values = [
            self._returned(name, kept, results)
            for name, kept in exit.locals.items()
            if name.startswith((RETURNED, RETURNED_ITEM))
        ]
        is_one = any(name.startswith(RETURNED) for name in exit.locals)
        found = values[0] if is_one else TupleValue(tuple(values)) if values else NONE
        if exit.lists:
            lists = [self._facts_of(handed, exit, results) for handed in exit.lists]
            found = TupleValue((constant(HANDED), TupleValue(tuple(lists)), found))
        self._frame.stack[:] = [found]
        self._frame.index = exit.index

    def _returned(self, name: str, kept: Any, results: dict[str, graph.Value]) -> Value:
        """An array that the nest was given, a number that it leaves, or what a list is called."""
        if isinstance(kept, Handed):
            return constant(f"{HANDED}{kept.number}")
        given = self._inputs.given(kept.slot) if isinstance(kept, Array) else None
        if given is not None:
            return given
        return self._made(self._recorder.new_tensor(results[name]), self._class_of(kept))

    def _facts_of(self, handed: Handed, exit: Exit, results: dict[str, graph.Value]) -> Value:
        """The parameter whose list it is, the dtype of its numbers, their address, lengths."""
        dtype, rank = handed.kind
        names = [fact_name(handed, number) for number in range(1 + rank)]
        facts = [self._returned(name, exit.locals[name], results) for name in names]
        return TupleValue((constant(handed.name), constant(dtype.name), *facts))

    def _class_of(self, value: Any) -> Any:
        """The class of a number or a tuple of such that the graph can leave; None: it cannot."""
        if isinstance(value, Group):
            is_left = bool(value.items) and not self._is_rest
            return tuple if is_left and all(map(self._class_of, value.items)) else None
        is_returned = self._is_rest and len(self._executor.frames) == 1
        if isinstance(value, Complex):
            of_python = complex if is_returned else None
            return of_python if value.is_python else value.dtype.numpy.type
        if not isinstance(value, Number):
            return None
        if not value.is_python:
            return value.dtype.numpy.type
        if value.dtype is dtypes.bool_:
            return bool if is_returned else None
        return {dtypes.int64: int, dtypes.float64: float}.get(value.dtype)

    def _made(self, tensor: TensorValue, kind: Any) -> Value:
        """A number of a class over a tensor."""
        if kind is complex:
            return new_returned(self._executor, tensor)
        if kind in PYTHON_DTYPES:
            return new_count(self._executor, tensor, kind)
        return new_array(self._executor, tensor, kind)


def _joined(kept: Any, parts: Iterator[graph.Value]) -> Any:
    """A number that is left, of its parts, or such for each item of a tuple."""
    if isinstance(kept, Group):
        return tuple(_joined(item, parts) for item in kept.items)
    found = [next(parts) for _ in numbers_in(kept)]
    return TABLE.complex(*found) if len(found) > 1 else found[0]


def _rank_of_classes(exit: Exit, names: Iterable[str]) -> tuple[int, int]:
    """How many variables are numbers of NumPy's, and how many floats."""
    values = [part for name in names for part in numbers_in(exit.locals[name])]
    floats = [value for value in values if value.dtype.category is Category.FLOATING]
    return sum(not value.is_python for value in values), len(floats)


def _slots(steps: Iterable[Step], operation: str) -> set[int]:
    """Arrays of which steps, and those within them, load or store elements."""
    found: set[int] = set()
    for step in steps:
        if step.operation == operation:
            found.add(step.slot)
        elif step.operation == "each":
            found |= _slots(step.name.steps, operation)
    return found


def _is_large(step: Step, most: int, is_turning: bool) -> bool:
    """Whether loops of a step have more turns than that, or two have any number of them, but for
    those whose numbers differ between turns: no turn stands for the others then."""
    inner = [item for item in step.name.steps if item.operation == "each"]
    counts = [step.operands[0], *(item.operands[0] for item in inner)]
    known = [count for count in counts if isinstance(count, int)]
    is_open = not is_turning and len(counts) > len(known) + 1
    return is_open or math.prod(known) > most


def _is_of_known_size(step: Step) -> bool:
    """Whether it is known how many turns the loops of a step have."""
    inner = [item for item in step.name.steps if item.operation == "each"]
    return all(isinstance(item.operands[0], int) for item in (step, *inner))


def _way_out(body: Body, index: int) -> Any:
    """What two places have in common that go on alike: the instructions up to a `return`, which
    compilers write at each end of a `while`; else the place."""
    found = []
    for item in body.instructions[index:]:
        found.append((item.operation, item.argument))
        if item.operation == "RETURN_VALUE":
            return tuple(found)
        if item.operation in JUMPS or item.handler is not None:
            break
    return index


def _arrays_of(exit: Exit) -> Any:
    """The arrays that a path returns."""
    return tuple(key_of(value) for value in exit.locals.values() if isinstance(value, Array))


def _key_of_exit(exit: Exit) -> Any:
    return [(name, key_of(exit.locals[name])) for name in sorted(exit.locals)]


__all__ = ["at_loop", "at_start", "at_while", "at_whole"]
