"""Rows among which there are loops: each loop's body is a program of its own, called turn by turn.

Contract: `LoopProgram` gives what `NumpyProgram` gives of the same graph, and has its attributes.
Nothing of a turn is interpreted: C calls the body's program turn by turn (`codegen/turns.h`), or
Python where it cannot: on a GPU it launches the body's plan turn by turn, and waits for nothing but
a test. `LoopBlueprint` is what can be kept on disk of it, `start_loops` makes the program of either
device.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dynajit.codegen import _runtime
from dynajit.codegen.compilers.started import Started
from dynajit.codegen.run.numpy_backend import NumpyProgram
from dynajit.core.arrays import any_arrays
from dynajit.core.process.recording import Kind, recorded
from dynajit.core.records import record
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import ScalarType, Shape, TensorType, numel
from dynajit.ir import interpret, loops
from dynajit.ir.graph import Graph
from dynajit.ir.loops import Listed, Loop, Steps
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.reruns import RERUN, run_back
from dynajit.ir.sizes import symbol_places
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table.op_table import Op


@record(eq=False)
class LoopBlueprint:
    """A graph of rows with loops, as data.

    Args:
        graph: the rows.
        bodies: the blueprint of each graph of `loops.bodies_of`; None for what cannot be kept.
    """

    graph: Graph
    bodies: tuple[Any, ...]


class LoopProgram(NumpyProgram):
    """See the module. Immutable.

    Args:
        graph: rows, with loops among them.
        name: for reports.
        bodies: the program of each graph of `loops.bodies_of`.
    """

    def __init__(self, graph: Graph, name: str, bodies: Sequence[Any]) -> None:
        super().__init__(graph, name)
        self._bodies = dict(zip(loops.bodies_of(graph), bodies, strict=True))
        self._whole = _whole(graph)
        self._straight = _straight(graph, self._bodies, self._whole)
        self.kernels = tuple(kernel for body in bodies for kernel in body.kernels)
        self.source = "\n".join([self.source, *(body.source for body in bodies)])
        self.explain = "\n".join(f"in each turn of a loop: {body.explain}" for body in bodies)
        self.from_cache = all(body.from_cache for body in bodies)
        self.stages = {name: value for body in bodies for name, value in body.stages.items()}

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs, in order; arrays are new, an output that is an input is that input."""
        if self._straight is None:
            return super().__call__(*arguments)
        with recorded(Kind.PROGRAM, self):
            return self._straight.run(arguments, self._turns_of)

    def _run(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        return interpret.run_again(self._walk, operands, self._evaluate)

    def _evaluate(self, op: Op, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """One row; a loop by the program of its body."""
        if op is loops.PART and isinstance(args[0], _Results):
            return args[0].take(**named)
        if op is RERUN:
            return run_back(named["again"], named["back"], args, self._turns_of)
        if op is not loops.LOOP:
            return evaluate(op, args, named, any_arrays.module_of(args[0]) if args else np)
        go, *values = args
        loop, limit = named["loop"], named["limit"]
        found = self._turns_of(loop, limit, values, bool(go))
        if loop in self._whole:
            return loops.contents(loop, limit, found)
        return _Results(found, loop.offsets(limit), values)

    def _turns_of(
        self, loop: Loop, limit: int, values: Sequence[Any], go: bool = True
    ) -> Sequence[Any]:
        """The results of a loop."""
        body = self._bodies[loop.body]
        arrays = [_row_major(value) for value in values]
        found = _turns(loop, limit, arrays, body) if go else None
        return loops.run(loop, limit, [go, *arrays], body) if found is None else found

    def __repr__(self) -> str:
        return f"<LoopProgram {self.name}>"


class DeviceLoopProgram(LoopProgram):
    """Loops on a GPU and what is read of them, without other rows. Immutable."""

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs, in order; all are new arrays."""
        with recorded(Kind.PROGRAM, self):
            return self._run(arguments)


def start_loops(blueprint: LoopBlueprint, name: str, bodies: Sequence[Started]) -> Started:
    """The program of rows with loops, on the device that the loops are on.

    Args:
        bodies: the programs of the blueprint's.
    """
    is_on_cpu = all(loop.device is CPU for loop in loops.loops_of(blueprint.graph))
    kind = LoopProgram if is_on_cpu else DeviceLoopProgram

    def finish() -> LoopProgram:
        return kind(blueprint.graph, name, [body() for body in bodies])

    return Started(finish, blueprint, parts=tuple(bodies))


@record(eq=False)
class _Part:
    """A result of a loop that is read.

    Args:
        number: of the value that it becomes.
        place: among the results of the loop; -1: it has no elements.
        type: of the array.
    """

    number: int
    place: int
    type: TensorType


@record(eq=False)
class _Runs:
    """A loop, by numbers of values.

    Args:
        loop, limit: of the row.
        numbers, counts: as `Program.turns` takes them.
        program: of the body.
        goes: the first turn runs.
        reads: what the body is given.
        parts: of its results.
        frees: values that nothing needs afterwards.
    """

    loop: Loop
    limit: int
    numbers: tuple[Any, ...]
    counts: tuple[Any, ...]
    program: _runtime.Program
    goes: bool
    reads: tuple[int, ...]
    parts: tuple[_Part, ...]
    frees: tuple[int, ...]


@record(eq=False)
class _Straight:
    """Loops on the CPU and parts of them, and nothing else: what a call looks up is known.

    Args:
        values: of a call: None for what it is given and for what it computes, then constants.
        loops: in order.
        outputs: numbers of values.
    """

    values: tuple[Any, ...]
    loops: tuple[_Runs, ...]
    outputs: tuple[int, ...]

    def run(
        self, arguments: Sequence[Any], by_turns: Callable[[Loop, int, Sequence[Any], bool], Any]
    ) -> tuple[Any, ...]:
        """The outputs.

        Args:
            arguments: of the program.
            by_turns: (loop, limit, operands of its body, whether the first turn runs) -> its
                results, where C cannot run the turns.
        """
        values = [*arguments, *self.values[len(arguments) :]]
        for step in self.loops:
            arrays = tuple([_row_major(np.asarray(values[number])) for number in step.reads])
            found = None
            if step.goes:
                program, carried = step.program, step.loop.carried
                found = program.turns(step.numbers, arrays, carried, step.limit, *step.counts)
            if found is None:
                found = by_turns(step.loop, step.limit, arrays, step.goes)
            away = {id(array) for array in arrays}
            for part in step.parts:
                is_there = part.place >= 0
                values[part.number] = (
                    _own(found[part.place], part.type, away) if is_there else _empty(part.type)
                )
            del found, arrays  # the next loop shall have their memory
            for number in step.frees:
                values[number] = None
        return tuple([values[number] for number in self.outputs])


def _own(result: Any, kind: TensorType, away: set[int]) -> Any:
    """A result of a loop, as an array of its own: a copy of what has gone away, and of a part.

    Args:
        kind: of the array, which has elements.
        away: who has got an array so far; grows.
    """
    array = np.asarray(result, kind.dtype.numpy) if kind.device is CPU else result
    if id(result) in away or isinstance(array.base, type(array)):
        return any_arrays.row_major(array)
    away.add(id(result))
    return array


def _empty(kind: TensorType) -> Any:
    """A result without elements, which lies nowhere."""
    return any_arrays.empty(kind.shape, kind.dtype.numpy, kind.device)


class _Results:
    """What a loop gave, of which only parts are asked for. Mutable: knows what was given away.

    Args:
        found, places: of each result.
        given: what the loop was given.
    """

    def __init__(self, found: Sequence[Any], places: Sequence[int], given: Sequence[Any]) -> None:
        self._found = {
            place: array
            for array, place in zip(found, places, strict=False)
            if isinstance(array, int) or array.size
        }
        self._away = {id(value) for value in given}

    def take(self, offset: int, shape: Shape, dtype: DType, device: Device) -> Any:
        """The result that begins at a byte: an array of its own."""
        kind = TensorType(shape, dtype, device)
        return _own(self._found[offset], kind, self._away) if numel(shape) else _empty(kind)


def _straight(
    graph: Graph, bodies: Mapping[Graph, Any], whole: frozenset[Loop]
) -> _Straight | None:
    """What calls of a graph need to know, where it is loops on the CPU and parts of them alone."""
    calls = [*graph.calls]
    constants = [node for node in graph.nodes if node.kind is NodeKind.CONSTANT]
    numbers = {node: number for number, node in enumerate((*graph.inputs, *calls, *constants))}
    is_plain = all(node.op in (loops.LOOP, loops.PART) for node in calls)
    is_plain = is_plain and all(output in numbers for output in graph.outputs)
    is_known = not symbol_places(graph) and not any(
        isinstance(node.type, ScalarType) for node in graph.inputs
    )
    if whole or not is_plain or not is_known:
        return None
    last_uses = interpret.last_uses(graph)
    found = []
    for node in calls:
        if node.op is not loops.LOOP:
            continue
        parts = [call for call in calls if node in call.args]
        runs = _runs(node, parts, numbers, bodies, last_uses)
        if runs is None:
            return None
        found.append(runs)
    outputs = tuple([numbers[output] for output in graph.outputs if isinstance(output, Node)])
    computed = (None,) * (len(numbers) - len(constants))
    values = (*computed, *(constant.value for constant in constants))
    return _Straight(values, tuple(found), outputs)


def _runs(
    node: Node,
    parts: Sequence[Node],
    numbers: Mapping[Node, int],
    bodies: Mapping[Graph, Any],
    last_uses: Mapping[Node, Sequence[Node]],
) -> _Runs | None:
    """A loop whose turns C may run, and of which only parts are read."""
    loop, limit = node.attributes["loop"], node.attributes["limit"]
    go, *values = node.args
    program = bodies[loop.body]
    read = [value for value in values if isinstance(value, Node)]
    if not isinstance(go, bool) or len(read) < len(values):
        return None
    if loop.device is not CPU or not isinstance(program, _runtime.Program):
        return None
    kept = []
    for part in parts:
        shape = part.attributes["shape"]
        place = -1 if not numel(shape) else _place_at(loop, limit, part.attributes["offset"])
        kept.append(_Part(numbers[part], place, TensorType(shape, part.attributes["dtype"])))
    reads = tuple([numbers[value] for value in read])
    frees = tuple([numbers[value] for value in last_uses.get(node, ())])
    return _Runs(
        loop, limit, _numbers_in_c(loop), _counts(loop), program, go, reads, tuple(kept), frees
    )


def _place_at(loop: Loop, limit: int, offset: int) -> int:
    """Which result with elements begins at a byte."""
    sizes = [numel(type.shape) for type in loop.types(limit)]
    found = zip(loop.offsets(limit), sizes, strict=False)
    return next(place for place, (start, size) in enumerate(found) if start == offset and size)


def _whole(graph: Graph) -> frozenset[Loop]:
    """The loops whose value is asked for, not only parts of it."""
    parts = {node for node in graph.calls if node.op is loops.PART}
    read = {argument for node in graph.calls if node not in parts for argument in node.args}
    return frozenset(
        node.attributes["loop"]
        for node in graph.calls
        if node.op is loops.LOOP and (node in read or node in graph.outputs)
    )


def _turns(loop: Loop, limit: int, arrays: list[Any], body: Any) -> Sequence[Any] | None:
    """The results, found by C; None where it cannot."""
    if not isinstance(body, _runtime.Program):
        return None
    if not all(isinstance(value, np.ndarray) for value in arrays):
        return None
    numbers = _numbers_in_c(loop)
    return body.turns(numbers, tuple(arrays), loop.carried, limit, *_counts(loop))


def _numbers_in_c(loop: Loop) -> tuple[Any, ...]:
    """The numbers of turns as `Program.turns` takes them."""
    return tuple([_in_c(number) for number in loop.numbers])


def _counts(loop: Loop) -> tuple[Any, ...]:
    """The place of the test among the results, and what follows it in `Program.turns`."""
    test = loop.carried + loop.collected if loop.tests else -1
    return test, loop.stacked, loop.collected, loop.backwards


def _in_c(number: Steps | Listed) -> Any:
    """A number of each turn as `Program.turns` takes it."""
    if isinstance(number, Steps):
        return number.start, number.step
    return np.array(number.values, np.float64 if isinstance(number.values[0], float) else np.int64)


def _row_major(value: Any) -> Any:
    """An array whose elements lie row by row; a number as it is."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value, order="C")
    if isinstance(value, (bool, int, float, complex)) or value.flags.c_contiguous:
        return value
    return any_arrays.row_major(value)
