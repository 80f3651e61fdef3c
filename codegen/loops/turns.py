"""Loops whose turns are run by the unit of C that they stand in.

Contract: `turns(go, *operands, *listed; turns, result)` is one result of a loop (`ir.loops`): what
is carried at the end, what was collected, or the number of turns; calls with the same operands and
the same `Turns` are one run. `listed` are the numbers of turns that have no steps, an array each.
Rows that no turn has given are zeros.

A loop becomes such rows where its body has native code (`codegen.unit_loops`).
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ir.loops import Loop, rows_of, run
from dynajit.ir.passes.expand_composites import expand_composites
from dynajit.ops.table.op_table import FURTHER, REQUIRED, Extern, Kind, Op


@record(eq=False)
class Turns:
    """A loop, and what is known of the code of its turns.

    Args:
        loop, limit: of the row of `ir.loops`.
        name: the C function of a turn.
        results: for each result of the body that is read, (True, position of the output array) or
            (False, position of the array that the turn was given and hands on).
        sizes: bytes of each output array.
        workspace: bytes that a turn needs.
        work: elements that a turn computes.
        chunk: elements that the function of a turn computes, where it computes single elements of
            arrays of one shape: all turns are run for so many, then for the next; 0: of all.
    """

    loop: Loop
    limit: int
    name: str
    results: tuple[tuple[bool, int], ...]
    sizes: tuple[int, ...]
    workspace: int
    work: int
    chunk: int = 0

    @property
    def handed(self) -> int:
        """How many of the results are carried or collected."""
        return self.loop.carried + self.loop.collected


def _infer(go: Any, *types: ValueType, turns: Turns, result: int) -> TensorType:
    """The type of one result."""
    type = turns.loop.types(turns.limit)[result]
    return TensorType(type.shape, type.dtype, type.device)


def _array(xp: Any, go: Any, *operands: Any, turns: Turns, result: int) -> Any:
    """One result, by rows: only where the compiler takes too long; all turns are run for it."""
    loop, limit = turns.loop, turns.limit
    by_rows = rows_of(replace(loop, body=expand_composites(loop.body)), xp)
    found = run(loop, limit, [go, *operands[: len(loop.inputs)]], by_rows)[result]
    type = loop.types(limit)[result]
    array = np.asarray(found, type.dtype.numpy)
    if loop.carried <= result < turns.handed and len(array) < limit:
        make = np.empty if loop.unset else np.zeros
        missing = make((limit - len(array), *array.shape[1:]), array.dtype)
        return np.concatenate([missing, array] if loop.backwards else [array, missing])
    return array


TURNS: Final = FURTHER.enter(
    Op(
        "turns",
        Kind.EXTERN,
        ("operands",),
        {"turns": REQUIRED, "result": REQUIRED},
        _infer,
        Extern(_array, widens=True, refuses=True, takes_numbers=True),
        variadic=True,
        opaque=True,
        takes=dtypes.UNSIGNED,
        document="A result of a loop that a unit of C runs: see `dynajit.codegen.loops.turns`.",
    )
)


__all__ = ["TURNS", "Turns"]
