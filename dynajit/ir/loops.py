"""Loops of a graph: a row whose attribute is the graph of a turn, and a row that reads results.

Contract: `loop(go, *carried, *fixed; loop, limit)` runs `Loop.body` until `limit` turns are over
(-1: no limit), or until the truth that it gives is false (`Loop.tests`); `go` says whether the
first turn runs. A turn takes its numbers, what is carried and what is fixed, and gives what is
carried into the next, what is collected of each turn, then the truth. The value of the row is the
bytes of what is carried at the end, then of what was collected, and of the number of turns that
ran: a node has one value. `part` makes an array of some of them. Neither row has a derivative, and
both are known to graphs only (`FURTHER`). A number of a turn is exact, or the loop is not made.

`append` records a loop in a graph. `interpret.run` runs the rows; `codegen.run.loop_program` runs
the body's own program instead.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.errors import ShapeError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import Shape, TensorType, numel
from dynajit.ir import interpret
from dynajit.ir.graph import Builder, Graph, Value, type_of
from dynajit.ir.node import Node
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


@record
class Listed:
    """A number that each turn has, one by one."""

    values: tuple[int | float, ...]

    def at(self, turn: int) -> int | float:
        """Its value in a turn, counted from 0."""
        return self.values[turn]


@record(eq=False)
class Loop:
    """See the module's text.

    Args:
        body: inputs: a number per entry of `numbers`, what is carried, what is fixed.
        numbers: what a turn knows of its place among the others.
        carried: how many values turns hand on.
        collected: how many values of each turn are kept, in a new dim 0; only with a limit.
        tests: the body's next output says whether there is a next turn. Further outputs are what
            may refuse its operands, and are not read.
    """

    body: Graph
    numbers: tuple[Steps | Listed, ...]
    carried: int
    collected: int = 0
    tests: bool = False

    def types(self, limit: int) -> tuple[TensorType, ...]:
        """The types of all results, in order."""
        given = [type_of(output) for output in self.body.outputs]
        carried = given[: self.carried]
        collected = given[self.carried : self.carried + self.collected]
        found: list[Any] = [*carried, *(_stacked(type, limit) for type in collected), COUNT]
        return tuple(found)


def _stacked(type: Any, count: int) -> TensorType:
    return TensorType((count, *type.shape), type.dtype, type.device)


def offsets(types: Sequence[TensorType]) -> list[Any]:
    """Where the bytes of each result begin, and where the last end."""
    found: list[Any] = [0]
    for type in types:
        found.append(found[-1] + numel(type.shape) * type.dtype.itemsize)
    return found


def _infer(go: Any, *types: Any, loop: Loop, limit: int) -> TensorType:
    """The bytes of all results.

    Raises:
        ShapeError: an operand is not what the body takes, or a turn hands on something else.
    """
    wanted = [node.type for node in loop.body.inputs[len(loop.numbers) :]]
    given = [_plain(type) for type in types]
    if given != list(map(_plain, wanted)):
        raise ShapeError(f"loop: the body takes {wanted}, and was given {list(types)}.")
    results = [type_of(output) for output in loop.body.outputs[: loop.carried]]
    if given[: loop.carried] != list(map(_plain, results)):
        raise ShapeError(f"loop: a turn takes {wanted} and hands on {results}.")
    return TensorType((offsets(loop.types(limit))[-1],), dtypes.uint8)


def _plain(type: Any) -> Any:
    """A type without its layout."""
    if not isinstance(type, TensorType):
        return type
    return TensorType(type.shape, type.dtype, type.device)


def run(
    loop: Loop, limit: int, operands: Sequence[Any], body: Callable[..., Sequence[Any]]
) -> np.ndarray[Any, Any]:
    """The value of a loop row, for arrays.

    Args:
        loop, limit: of the row.
        operands: `go`, what is carried, what is fixed.
        body: the program of a turn; what it gives is new, or one of its arguments.
    """
    go, *values = operands
    carried: Sequence[Any] = values[: loop.carried]
    fixed = values[loop.carried :]
    types = loop.types(limit)
    stacks = [
        np.empty((limit, *type.shape[1:]), type.dtype.numpy)
        for type in types[loop.carried : loop.carried + loop.collected]
    ]
    turn, goes_on = 0, bool(go)
    while goes_on and turn != limit:
        numbers = [number.at(turn) for number in loop.numbers]
        results = body(*numbers, *carried, *fixed)
        carried = results[: loop.carried]
        for stack, result in zip(stacks, results[loop.carried :], strict=False):
            stack[turn] = result
        goes_on = not loop.tests or bool(results[loop.carried + loop.collected])
        turn += 1
    kept = [*carried, *(stack[:turn] if turn < limit else stack for stack in stacks)]
    return contents(loop, limit, [*kept, turn])


def contents(loop: Loop, limit: int, results: Sequence[Any]) -> np.ndarray[Any, Any]:
    """The value of a loop row: all results one after the other, each where its type has it."""
    types = loop.types(limit)
    places = offsets(types)
    found = np.zeros(places[-1], np.uint8)
    for array, type, place in zip(results, types, places, strict=False):
        whole = np.ascontiguousarray(array, type.dtype.numpy).reshape(-1).view(np.uint8)
        found[place : place + whole.size] = whole
    return found


def _array(xp: Any, *operands: Any, loop: Loop, limit: int) -> Any:
    walk = interpret.Walk.of_rows(loop.body)
    return run(loop, limit, operands, lambda *given: interpret.run_again(walk, given))


def _part(xp: Any, contents: Any, *, offset: int, shape: Shape, dtype: DType) -> Any:
    part = contents[offset : offset + numel(shape) * dtype.itemsize]
    return xp.array(part).view(dtype.numpy).reshape(shape)


def _infer_part(contents: TensorType, *, offset: int, shape: Shape, dtype: DType) -> TensorType:
    return TensorType(shape, dtype, contents.device)


LOOP: Final = FURTHER.enter(
    Op(
        "loop",
        Kind.EXTERN,
        ("operands",),
        {"loop": REQUIRED, "limit": REQUIRED},
        _infer,
        Extern(_array, widens=True, refuses=True),
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
        {"offset": REQUIRED, "shape": REQUIRED, "dtype": REQUIRED},
        _infer_part,
        Extern(_part, widens=True),
        opaque=True,
        document="One result of a loop: see `dynajit.ir.loops`.",
    )
)


def append(
    builder: Builder, loop: Loop, limit: int, go: Any, carried: Sequence[Any], fixed: Sequence[Any]
) -> tuple[Value, ...]:
    """Record a loop: what is carried at the end, what was collected, the number of turns.

    Args:
        go: whether the first turn runs: True, or a zero-dim bool.
        carried, fixed: operands of the body.
    """
    contents = builder.call(LOOP, [go, *carried, *fixed], {"loop": loop, "limit": limit})
    types = loop.types(limit)
    return tuple(
        builder.call(PART, [contents], {"offset": at, "shape": tuple(type.shape),
                                        "dtype": type.dtype})
        for type, at in zip(types, offsets(types), strict=False)
    )  # fmt: skip


def loops_of(graph: Graph) -> Iterator[Loop]:
    """The loops of a graph, in order; not those within their bodies."""
    for node in graph.calls:
        if node.op is LOOP:
            yield node.attributes["loop"]


def is_loop(node: Node) -> bool:
    """True for a node of either row."""
    return node.op is LOOP or node.op is PART


__all__ = [
    "COUNT",
    "LARGEST_NUMBER",
    "LOOP",
    "PART",
    "Listed",
    "Loop",
    "Steps",
    "append",
    "is_loop",
    "loops_of",
    "offsets",
    "run",
]
