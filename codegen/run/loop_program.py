"""Rows among which there are loops: each loop's body is a program of its own, called turn by turn.

On the CPU these are loops that are no part of their graph's unit of C (`codegen.unit_loops`).

Contract: `LoopProgram` gives what `NumpyProgram` gives of the same graph, and has its attributes.
Nothing of a turn is interpreted: C calls the body's program turn by turn (`codegen/turns.h`), or
Python where it cannot: on a GPU it launches the body's plan turn by turn, and waits for nothing but
a test. `LoopBlueprint` is what can be kept on disk of it, `start_loops` makes the program of either
device.
"""

from collections.abc import Sequence
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
from dynajit.core.types.value_types import Shape, TensorType, numel
from dynajit.ir import interpret, loops
from dynajit.ir.graph import Graph
from dynajit.ir.loops import Listed, Loop, Steps
from dynajit.ir.reruns import RERUN, run_back
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
        self.kernels = tuple(kernel for body in bodies for kernel in body.kernels)
        self.source = "\n".join([self.source, *(body.source for body in bodies)])
        self.explain = "\n".join(f"in each turn of a loop: {body.explain}" for body in bodies)
        self.from_cache = all(body.from_cache for body in bodies)
        self.stages = {name: value for body in bodies for name, value in body.stages.items()}

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
