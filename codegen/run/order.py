"""How programs follow each other where several compute one graph: which values each reads.

Contract: values are numbered, those that are given first. Data that can lie on disk.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from dynajit.core.records import record
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node


@record
class Step:
    """What one program reads and writes: numbers of values.

    Args:
        reads, writes: in the order of the program's arguments and results.
        frees: values that nothing needs afterwards.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    frees: tuple[int, ...]


@record
class Order:
    """How programs follow each other.

    Args:
        count: number of values; those that are given come first.
        steps: one per program.
        outputs: (number of a value or -1, literal) of each result.
    """

    count: int
    steps: tuple[Step, ...]
    outputs: tuple[tuple[int, Any], ...]


def order_of(
    graph: Graph,
    given: Iterable[Any],
    parts: Sequence[tuple[Iterable[Any], Iterable[Any]]],
) -> Order:
    """How the parts of a graph follow each other.

    Args:
        graph: whose outputs are the results.
        given: what values there are before: its inputs, and what else parts read.
        parts: (what it reads, what it writes) of each.
    """
    numbers: dict[Any, int] = {value: number for number, value in enumerate(given)}
    for _, writes in parts:
        for value in writes:
            numbers[value] = len(numbers)
    outputs = tuple(
        (numbers[o], None) if o in numbers else (-1, o.value if isinstance(o, Node) else o)
        for o in graph.outputs
    )
    needed = {number for number, _ in outputs}
    steps: list[Step] = []
    for part in reversed(parts):
        reads, writes = (tuple(numbers[value] for value in values) for values in part)
        frees = tuple(n for n in dict.fromkeys((*reads, *writes)) if n not in needed)
        needed.update(reads)
        steps.append(Step(reads, writes, frees))
    return Order(len(numbers), tuple(reversed(steps)), outputs)


def run_in_order(order: Order, programs: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
    """The results of programs that follow each other."""
    values = [*given, *[None] * (order.count - len(given))]
    for program, step in zip(programs, order.steps, strict=True):
        results = program(*[values[number] for number in step.reads])
        for number, result in zip(step.writes, results, strict=True):
            values[number] = result
        for number in step.frees:
            values[number] = None
    return tuple(values[number] if number >= 0 else literal for number, literal in order.outputs)


def to_data(order: Order, literal: Any) -> dict[str, Any]:
    """What JSON writes and reads unchanged.

    Args:
        literal: what a result that is no value becomes, or raises.
    """
    return {
        "count": order.count,
        "steps": [(step.reads, step.writes, step.frees) for step in order.steps],
        "outputs": [(number, literal(value)) for number, value in order.outputs],
    }


def from_data(data: Any) -> Order:
    """What `to_data` was given.

    Raises:
        KeyError, TypeError, ValueError: the data is something else.
    """
    steps = tuple(Step(tuple(r), tuple(w), tuple(f)) for r, w, f in data["steps"])
    outputs = tuple((number, value) for number, value in data["outputs"])
    return Order(data["count"], steps, outputs)
