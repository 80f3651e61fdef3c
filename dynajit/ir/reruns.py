"""The derivative of a loop whose number of turns is known at run time only: one row.

Contract: `rerun(count, *first, *last; again, back)` runs the loop `again` once more, from what it
began with, for as many turns as it had (`count`), and keeps what it collects of each; then it runs
`back`, which reads what was kept as its stacked rows. What is kept has as many rows as there are
turns, so it lives in the row, and is no value of the graph. `first` are the operands of `again`
(what is carried, what is fixed), `last` those of `back` but for what is stacked.

The value of the row is that of `back` with nothing collected: `part_of(back, NO_TURNS, result)`
reads a result. It has no derivative: second derivatives are taken where the number is known.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from dynajit.core.errors import ShapeError, UnsupportedError
from dynajit.core.types.value_types import TensorType
from dynajit.ir.loops import Loop, contents, plain_type, rows_of, run
from dynajit.ops.table.op_table import FURTHER, REQUIRED, Extern, Kind, Op

#: The limit by which the places of results are told: none of them has a row for each turn.
NO_TURNS: Final = 0


def _infer(count: Any, *types: Any, again: Loop, back: Loop) -> TensorType:
    """The bytes of what `back` hands on at the end.

    Raises:
        ShapeError: the operands are not what the bodies take.
    """
    own = back.inputs
    wanted = [*again.inputs, *own[: back.carried], *own[back.carried + back.stacked :]]
    if [plain_type(node.type) for node in wanted] != [plain_type(type) for type in types]:
        expected = [node.type for node in wanted]
        raise ShapeError(f"rerun: the bodies take {expected}, and were given {list(types)}.")
    units = back.offsets(NO_TURNS)[-1] // back.unit.itemsize
    return TensorType((units,), back.unit, back.device)


def run_back(
    again: Loop,
    back: Loop,
    operands: Sequence[Any],
    turns: Callable[[Loop, int, list[Any]], Sequence[Any]],
) -> Any:
    """The value of the row, for arrays.

    Args:
        again, back, operands: of the row.
        turns: (loop, number of turns, operands of its body but the numbers) -> its results.
    """
    count, values = int(operands[0]), operands[1:]
    first, last = values[: len(again.inputs)], values[len(again.inputs) :]
    handed_on, fixed = last[: back.carried], last[back.carried :]
    if not count:
        return contents(back, NO_TURNS, [*handed_on, 0])
    kept = turns(again, count, [*first])[again.carried : again.carried + again.collected]
    found = turns(back, count, [*handed_on, *kept, *fixed])
    return contents(back, NO_TURNS, found)


def _array(xp: Any, *operands: Any, again: Loop, back: Loop) -> Any:
    def turns(loop: Loop, count: int, values: list[Any]) -> Sequence[Any]:
        return run(loop, count, [True, *values], rows_of(loop, xp))

    return run_back(again, back, operands, turns)


def _refused(ops: Any, g: Any, operands: Sequence[Any], *, again: Loop, back: Loop) -> NoReturn:
    raise UnsupportedError(
        "The second derivative of a loop whose number of turns is known at run time only, within "
        "compiled code.  Take it outside (`create_graph=True`), or of a constant number of turns."
    )


RERUN: Final = FURTHER.enter(
    Op(
        "rerun",
        Kind.EXTERN,
        ("operands",),
        {"again": REQUIRED, "back": REQUIRED},
        _infer,
        Extern(_array, widens=True, takes_numbers=True),
        {"operands": _refused},
        variadic=True,
        opaque=True,
        document="Turns of a loop once more, then back: see `dynajit.ir.reruns`.",
    )
)

__all__ = ["NO_TURNS", "RERUN", "run_back"]
