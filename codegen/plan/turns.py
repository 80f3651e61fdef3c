"""Where each result of a turn lies, for loops whose turns are run by their unit of C.

Contract: `lower` gives a kernel that copies nothing from turn to turn: an output of a turn is
written to several arrays in order (`Cycle`), one more than there are turns that read it, the first
of which is the result's own; or to the row where it is collected. What turns hand on is a pointer.
In chunks, where several threads compute what lies in two of them, no result's own array is among
those.
"""

from collections.abc import Sequence
from typing import Final

from dynajit.codegen.loops.loop_ir import ALIGNMENT, Buffer, Cycle, TurnsKernel
from dynajit.codegen.loops.turns import Turns
from dynajit.core.errors import InternalError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType


def lower(
    name: str,
    turns: Turns,
    reads: Sequence[Buffer | None],
    numbers: Sequence[int],
    writes: Sequence[Buffer | None],
    goes: bool,
) -> TurnsKernel:
    """The kernel of a loop.

    Args:
        reads: the operands; None for a first one that is no array, and for numbers.
        numbers: the positions of those.
        writes: every result of the loop; None for one that nobody needs.
        goes: what a first operand that is no array says.
    """
    loop = turns.loop
    place = -(-turns.workspace // ALIGNMENT) * ALIGNMENT
    cycles = []
    for output, size in enumerate(turns.sizes):
        row = _row_of(turns, writes, output)
        own = None if turns.chunk or row is not None else _result_of(turns, writes, output)
        count = 0 if row is not None else _copies(turns, output)
        cycles.append(Cycle(row, own, count, place, _aligned(size)))
        place += max(count - (own is not None), 0) * _aligned(size)
    operands = [
        buffer
        for node, buffer in zip(loop.inputs, reads[1:], strict=False)
        if isinstance(node.type, TensorType)
    ]
    listed = reads[len(loop.inputs) + 1 :]
    return TurnsKernel(
        name,
        turns,
        goes if reads[0] is None else reads[0],
        tuple(_present(operands)),
        tuple(_present(listed)),
        tuple(numbers),
        tuple(writes),
        tuple(cycles),
        place,
        Buffer(f"{name}_memory", dtypes.uint8, place) if place and not turns.chunk else None,
    )


def _present(buffers: Sequence[Buffer | None]) -> list[Buffer]:
    found = [buffer for buffer in buffers if buffer is not None]
    if len(found) < len(buffers):
        raise InternalError("turns: an operand is no array")
    return found


APART: Final = 9 * ALIGNMENT
"""Bytes between arrays in memory: on x86 a read waits for a write a multiple of 4096 bytes away."""


def _aligned(size: int) -> int:
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT + APART


def _row_of(turns: Turns, writes: Sequence[Buffer | None], output: int) -> int | None:
    """The first result that collects an output of a turn, if it is read."""
    places = range(turns.loop.carried, turns.handed)
    return next((k for k in places if _is_of(turns, writes, k, output)), None)


def _result_of(turns: Turns, writes: Sequence[Buffer | None], output: int) -> int | None:
    """The first result that is an output of the last turn, if it is read."""
    return next((k for k in range(turns.loop.carried) if _is_of(turns, writes, k, output)), None)


def _is_of(turns: Turns, writes: Sequence[Buffer | None], result: int, output: int) -> bool:
    return turns.results[result] == (True, output) and writes[result] is not None


def _copies(turns: Turns, output: int) -> int:
    """How many arrays an output is written to in order, so that none is overwritten while a later
    turn reads it: two if the next turn reads it; one more for each turn that hands it on."""
    carried = turns.loop.carried
    ages = {k: 1 for k in range(carried) if turns.results[k] == (True, output)}
    oldest, waiting = 0, list(ages)
    while waiting:
        source = waiting.pop()
        oldest = max(oldest, ages[source])
        for k in range(carried):
            if turns.results[k] == (False, source) and k not in ages:
                ages[k] = ages[source] + 1
                waiting.append(k)
    return oldest + 1


__all__ = ["lower"]
