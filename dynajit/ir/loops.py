"""Loops of a graph: a row whose attribute is the graph of a turn, and a row that reads results.

Contract: `loop(go, *carried, *stacked, *fixed; loop, limit)` runs `Loop.body` until `limit` turns
are over (-1: no limit), or until the truth that it gives is false (`Loop.tests`); `go` says whether
the first turn runs. A turn takes its numbers, what is carried, its row of what is stacked, and what
is fixed, and gives what is carried into the next, what is collected of each turn, then the truth.
The value of the row is the bytes of what is carried at the end, then of what was collected, and of
the number of turns that ran: a node has one value. `part` makes an array of some of them. Both are
known to graphs only (`FURTHER`). A number of a turn is exact, or the loop is not made. All tensors
of a loop are on one device (`Loop.device`); the number of turns is on the CPU.

Where gradients pass (`Loop.active`) the bytes count as floats, so that gradients of parts are
summed as those of any value, and `Loop.gradients` is the row's derivative (`ir.loop_derivatives`).

`append` records a loop in a graph. `interpret.run` runs the rows; code generation makes of a body a
function of its unit (`codegen.unit_loops`), or `codegen.run.loop_program` runs
the body's own program instead.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import ShapeError, UnsupportedError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import Shape, TensorType, numel
from dynajit.ir import interpret
from dynajit.ir.graph import Builder, Graph, Value, type_of
from dynajit.ir.node import Node
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table.op_table import FURTHER, REQUIRED, Extern, Kind, Op

#: Numbers that turns may have: more than any loop runs, and their products fit an int64.
LARGEST_NUMBER: Final = 1 << 62

COUNT: Final = TensorType((), dtypes.int64)
"""The type of the number of turns."""


@record
class Steps:
    """A number that each turn has: `start`, and `step` more in every turn that follows."""

    start: int
    step: int

    def at(self, turn: int) -> int:
        """Its value in a turn, counted from 0."""
        return self.start + self.step * turn

    def segment(self, first: int, last: int) -> "Steps":
        """The same number, where turn `first` is counted as 0."""
        return Steps(self.at(first), self.step)


@record
class Listed:
    """A number that each turn has, one by one."""

    values: tuple[int | float, ...]

    def at(self, turn: int) -> int | float:
        """Its value in a turn, counted from 0."""
        return self.values[turn]

    def segment(self, first: int, last: int) -> "Listed":
        """The same number in the turns from `first` to the one in front of `last`."""
        return Listed(self.values[first:last])


@record(eq=False)
class Loop:
    """See the module's text.

    Args:
        body: inputs: a number per entry of `numbers`, what is carried, a row each of what is
            stacked, what is fixed.
        numbers: what a turn knows of its place among the others.
        carried: how many values turns hand on.
        collected: how many values of each turn are kept, in a new dim 0; only with a limit.
        tests: the body's next output says whether there is a next turn. Further outputs are what
            may refuse its operands, and are not read.
        stacked: how many operands have a row for each turn; only with a limit.
        backwards: turn 0 has the last numbers and rows, and gives the last of what is collected.
        unset: nobody reads rows of what is collected that no turn gives; else these are zeros.
        active: of each operand but `go` whether gradients pass to it; (): to none.
        gradients: the derivative: (gradient of the row's value, operands, loop, limit) -> a
            gradient or None for each operand; with `active` only.
        origin: a loop of the same operands whose results come first among those of this one.
        repeats: it is computed once more where its results are read, not kept from forward.
        unit: what the row's value counts as: bytes, or floats that gradients pass in.
    """

    body: Graph
    numbers: tuple[Steps | Listed, ...]
    carried: int
    collected: int = 0
    tests: bool = False
    stacked: int = 0
    backwards: bool = False
    unset: bool = False
    active: tuple[bool, ...] = ()
    gradients: Callable[..., Sequence[Any]] | None = None
    origin: "Loop | None" = None
    repeats: bool = False
    unit: DType = dtypes.uint8

    def types(self, limit: int) -> tuple[TensorType, ...]:
        """The types of all results, in order."""
        given = [type_of(output) for output in self.body.outputs]
        carried = given[: self.carried]
        collected = given[self.carried : self.carried + self.collected]
        found: list[Any] = [*carried, *(_stacked(type, limit) for type in collected), COUNT]
        return tuple(found)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Those of the body but the numbers."""
        return self.body.inputs[len(self.numbers) :]

    @property
    def device(self) -> Device:
        """Where the tensors are that turns take and give."""
        given = [*self.inputs, *self.body.outputs]
        types = (node.type for node in given if isinstance(node, Node))
        return next((t.device for t in types if isinstance(t, TensorType)), CPU)

    def offsets(self, limit: int) -> list[Any]:
        """Where the bytes of each result begin, and where the last end; each in whole units."""
        found: list[Any] = [0]
        unit = self.unit.itemsize
        for type in self.types(limit):
            size = numel(type.shape) * type.dtype.itemsize
            found.append(found[-1] + -(-size // unit) * unit)
        return found

    def segment(self, first: int, last: int) -> "Loop":
        """The loop for some of the turns; backwards or not, `first` is the lowest of them."""
        numbers = tuple(number.segment(first, last) for number in self.numbers)
        return replace(self, numbers=numbers)

    def place(self, turn: int, limit: int) -> int:
        """The number of the row that a turn reads and gives."""
        return limit - 1 - turn if self.backwards else turn


def _stacked(type: Any, count: int) -> TensorType:
    return TensorType((count, *type.shape), type.dtype, type.device)


def _infer(go: Any, *types: Any, loop: Loop, limit: int) -> TensorType:
    """The bytes of all results.

    Raises:
        ShapeError: an operand is not what the body takes, or a turn hands on something else.
    """
    wanted: list[Any] = [node.type for node in loop.inputs]
    rows = slice(loop.carried, loop.carried + loop.stacked)
    wanted[rows] = [_stacked(type, limit) for type in wanted[rows]]
    given = [plain_type(type) for type in types]
    if given != list(map(plain_type, wanted)):
        raise ShapeError(f"loop: the body takes {wanted}, and was given {list(types)}.")
    results = [type_of(output) for output in loop.body.outputs[: loop.carried]]
    if given[: loop.carried] != list(map(plain_type, results)):
        raise ShapeError(f"loop: a turn takes {wanted} and hands on {results}.")
    return TensorType((loop.offsets(limit)[-1] // loop.unit.itemsize,), loop.unit, loop.device)


def plain_type(type: Any) -> Any:
    """A type without its layout, and without its device: rows that run know none."""
    return TensorType(type.shape, type.dtype) if isinstance(type, TensorType) else type


def run(
    loop: Loop, limit: int, operands: Sequence[Any], body: Callable[..., Sequence[Any]]
) -> list[Any]:
    """The results of a loop row, for arrays.

    Args:
        loop, limit: of the row.
        operands: `go`, what is carried, what is stacked, what is fixed.
        body: the program of a turn; what it gives is new, or one of its arguments.
    """
    go, *values = operands
    carried: Sequence[Any] = values[: loop.carried]
    rows = values[loop.carried : loop.carried + loop.stacked]
    fixed = values[loop.carried + loop.stacked :]
    types = loop.types(limit)
    stacks = [
        any_arrays.empty((limit, *type.shape[1:]), type.dtype.numpy, type.device)
        for type in types[loop.carried : loop.carried + loop.collected]
    ]
    turn, goes_on = 0, bool(go)
    while goes_on and turn != limit:
        place = loop.place(turn, limit)
        numbers = [number.at(place) for number in loop.numbers]
        results = body(*numbers, *carried, *(stack[place] for stack in rows), *fixed)
        carried = results[: loop.carried]
        for stack, result in zip(stacks, results[loop.carried :], strict=False):
            any_arrays.copy_into(stack[place, ...], result)
        goes_on = not loop.tests or bool(results[loop.carried + loop.collected])
        turn += 1
    kept = [*carried, *(stack[:turn] if turn < limit else stack for stack in stacks)]
    return [*kept, turn]


def contents(loop: Loop, limit: int, results: Sequence[Any]) -> Any:
    """The value of a loop row: all results one after the other, each where its type has it."""
    types = loop.types(limit)
    places = loop.offsets(limit)
    found = any_arrays.zeros((places[-1],), np.dtype(np.uint8), loop.device)
    for result, type, place in zip(results, types, places, strict=False):
        array = np.asarray(result, type.dtype.numpy) if type.device is CPU else result
        whole = array.reshape(-1).view(np.uint8)
        any_arrays.copy_into(found[place : place + whole.size], whole)
    return found.view(loop.unit.numpy)


def _array(xp: Any, *operands: Any, loop: Loop, limit: int) -> Any:
    return contents(loop, limit, run(loop, limit, operands, rows_of(loop, xp)))


def rows_of(loop: Loop, xp: Any) -> Callable[..., Sequence[Any]]:
    """The program of a turn that runs the body row by row, by functions of an array module."""
    walk = interpret.Walk.of_rows(loop.body)
    row = functools.partial(evaluate, xp=xp)
    return lambda *given: interpret.run_again(walk, given, row)


def _part(
    xp: Any, contents: Any, *, offset: int, shape: Shape, dtype: DType, device: Device
) -> Any:
    part = contents.view(np.uint8)[offset : offset + numel(shape) * dtype.itemsize]
    return any_arrays.placed(xp.array(part).view(dtype.numpy).reshape(shape), device)


def _infer_part(
    contents: TensorType, *, offset: int, shape: Shape, dtype: DType, device: Device
) -> TensorType:
    return TensorType(shape, dtype, device)


def _gradients(ops: Any, g: Any, operands: Sequence[Any], *, loop: Loop, limit: int) -> Any:
    assert loop.gradients is not None
    return loop.gradients(g, operands, loop, limit)


def _part_gradient(
    ops: Any,
    g: Any,
    contents_type: TensorType,
    *,
    offset: int,
    shape: Shape,
    dtype: DType,
    device: Device,
) -> Any:
    """Zeros, with the gradient where the part was.

    Raises:
        UnsupportedError: the part is of another dtype than what gradients are summed in.
    """
    if contents_type.dtype is not dtype:
        raise UnsupportedError(
            f"The derivative of a loop with a result of {dtype}: gradients pass in "
            f"{contents_type.dtype} only.  Convert what turns hand on to one dtype."
        )
    size, start = numel(shape), offset // dtype.itemsize
    rest = contents_type.shape[0] - start - size
    flat = ops.reshape(g, shape=(size,))
    return ops.pad(flat, before=(start,), after=(rest,), value=0.0)


LOOP: Final = FURTHER.enter(
    Op(
        "loop",
        Kind.EXTERN,
        ("operands",),
        {"loop": REQUIRED, "limit": REQUIRED},
        _infer,
        Extern(_array, widens=True, refuses=True, takes_numbers=True),
        {"operands": _gradients},
        variadic=True,
        opaque=True,
        document="Turns of a loop: see `dynajit.ir.loops`.",
    )
)

PART: Final = FURTHER.enter(
    Op(
        "loop_part",
        Kind.EXTERN,
        ("contents",),
        {"offset": REQUIRED, "shape": REQUIRED, "dtype": REQUIRED, "device": REQUIRED},
        _infer_part,
        Extern(_part, widens=True),
        {"contents": _part_gradient},
        opaque=True,
        document="One result of a loop: see `dynajit.ir.loops`.",
    )
)


def append(
    builder: Builder, loop: Loop, limit: int, go: Any, operands: Sequence[Any]
) -> tuple[Value, ...]:
    """Record a loop: what is carried at the end, what was collected, the number of turns.

    Args:
        go: whether the first turn runs: True, or a zero-dim bool.
        operands: of the body.
    """
    contents = builder.call(LOOP, [go, *operands], {"loop": loop, "limit": limit})
    return tuple(
        builder.call(PART, [contents], part_of(loop, limit, result))
        for result in range(loop.carried + loop.collected + 1)
    )


def part_of(loop: Loop, limit: int, result: int) -> dict[str, Any]:
    """The attributes of the row that reads a result."""
    type = loop.types(limit)[result]
    return {
        "offset": loop.offsets(limit)[result], "shape": tuple(type.shape), "dtype": type.dtype,
        "device": type.device,
    }  # fmt: skip


def loops_of(graph: Graph) -> Iterator[Loop]:
    """The loops of a graph, in order; not those within their bodies."""
    for node in graph.calls:
        yield from (value for value in node.attributes.values() if isinstance(value, Loop))


def bodies_of(graph: Graph) -> list[Graph]:
    """The graphs of turns, each once: segments of a loop share one."""
    return [*dict.fromkeys(loop.body for loop in loops_of(graph))]


def is_repeated(node: Node) -> bool:
    """True for a loop that is computed once more where it is read, and for parts of it."""
    if node.op is PART:
        return isinstance(node.args[0], Node) and is_repeated(node.args[0])
    return node.op is LOOP and bool(node.attributes["loop"].repeats)


__all__ = [
    "COUNT",
    "LARGEST_NUMBER",
    "LOOP",
    "PART",
    "Listed",
    "Loop",
    "Steps",
    "append",
    "bodies_of",
    "contents",
    "is_repeated",
    "loops_of",
    "part_of",
    "plain_type",
    "rows_of",
    "run",
]
