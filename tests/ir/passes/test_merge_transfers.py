"""Transfers that follow each other are started as one, where order and data allow it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.passes.merge_transfers import MOST_BYTES, count_of, merge_transfers
from dynajit.ops.table.op_table import REQUIRED, Extern, Kind, Op
from dynajit.ops.table.op_table import TABLE as ops

NUMBER = TensorType((1,), dtypes.int64)
SENT: list[tuple[Any, Any]] = []
"""What was started: (array, parts)."""


def send(xp: Any, source: Any, after: Any, *, kind: str, parts: Any) -> Any:
    """Its own sign comes back, so that what arrives differs from what was sent."""
    SENT.append((source.copy(), parts))
    return np.array([len(SENT) - 1])


def arrived(xp: Any, number: Any, like: Any) -> Any:
    return -SENT[int(number[0])][0]


START = Op(
    "start", Kind.EXTERN, ("source", "after"), {"kind": REQUIRED, "parts": REQUIRED},
    lambda source, after, **named: NUMBER, Extern(send, starts=True, joins=True), opaque=True,
)  # fmt: skip
WAIT = Op(
    "wait", Kind.EXTERN, ("number", "like"), {},
    lambda number, like: like, Extern(arrived, awaits=True), opaque=True,
)  # fmt: skip


def graph_of(function: Callable[..., list[Any]], *shapes: tuple[int, ...]) -> Graph:
    """Of `function(last, *inputs)`, with the number of what was started before."""
    builder = Builder("g")
    last = builder.placeholder("last", NUMBER)
    inputs = [
        builder.placeholder(f"x{i}", TensorType(s, dtypes.float64)) for i, s in enumerate(shapes)
    ]
    return builder.finish(function(last, *inputs))


def both(function: Callable[..., list[Any]], *shapes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The parts of what the merged graph starts; its results are those of the graph."""
    graph = graph_of(function, *shapes)
    merged = merge_transfers(graph)
    generator = np.random.default_rng(0)
    arrays = [np.array([0]), *(generator.standard_normal(shape) for shape in shapes)]
    found = []
    for each in (graph, merged):
        SENT.clear()
        found.append(interpret.run(each, arrays))
    for expected, result in zip(*found, strict=True):
        if expected.dtype != np.int64:  # numbers of what was started differ
            np.testing.assert_array_equal(result, expected)
    assert count_of(graph) == (count_of(merged)[0], count_of(graph)[1])
    return [parts for _, parts in SENT]


def start(source: Any, after: Any, kind: str = "sum") -> Any:
    return START(source, after, kind=kind, parts=None)


def test_those_that_follow_each_other_are_one() -> None:
    """Of any shapes; what is computed between them comes first."""

    def function(last: Any, x: Any, y: Any) -> list[Any]:
        a = ops.exp(x)
        first = start(a, last)
        b = ops.sin(y)
        second = start(b, first)
        third = start(ops.reshape(x, shape=(4,)), second)
        return [
            WAIT(first, a) + 1.0,
            WAIT(second, b),
            WAIT(third, ops.reshape(x, shape=(4,))),
            third,
        ]

    assert [(4, 3, 4)] == both(function, (2, 2), (3,))


def test_what_needs_the_result_of_another_starts_after_it() -> None:
    def function(last: Any, x: Any) -> list[Any]:
        first = start(x, last)
        here = WAIT(first, x)
        second = start(ops.exp(here), first)
        third = start(x, second)
        return [WAIT(second, x), WAIT(third, x), here, third]

    assert [None, (2, 2)] == both(function, (2,))


def test_others_between_them_keep_them_apart() -> None:
    """Of another kind, or dtype, or something that is not a transfer of this kind at all."""

    def function(last: Any, x: Any) -> list[Any]:
        first = start(x, last)
        second = start(x, first, kind="maximum")
        third = start(ops.cast(x, dtype=dtypes.float32), second, kind="maximum")
        narrow = ops.cast(x, dtype=dtypes.float32)
        return [WAIT(first, x), WAIT(second, x), WAIT(third, narrow), third]

    assert [None, None, None] == both(function, (2,))


def test_a_transfer_that_nobody_here_waits_for_stays_alone() -> None:
    """Its number is known elsewhere."""

    def function(last: Any, x: Any) -> list[Any]:
        first = start(x, last)
        second = start(x, first)
        third = start(x, second)
        return [first, WAIT(second, x), WAIT(third, x), third]

    assert [None, (2, 2)] == both(function, (2,))


def test_no_more_travels_together_than_is_worth_it() -> None:
    half = MOST_BYTES // 2 // 8

    def function(last: Any, x: Any, y: Any) -> list[Any]:
        found, number = [], last
        for source in (x, x, y, y, x):
            number = start(source, number)
            found.append(WAIT(number, source))
        return [*found, number]

    assert [(half, half), (1, 1, half)] == both(function, (half,), (1,))
    assert [None] * 5 == both(function, (2 * half + 1,), (2 * half + 1,))
