"""Intervals of rows: every result of ints in the operands' intervals lies within."""

import itertools

import numpy as np
import pytest

from dynajit.ops import TABLE, Kind, Op
from dynajit.ops.evaluate import evaluate

ROWS = [row for row in TABLE if row.interval is not None]
BODIES = [row for row in ROWS if row.kind is Kind.POINTWISE and row.name != "full"]
OPERANDS = ((-3, 5), (-7, -2), (0, 0), (3, 3), (2, 9), (-4, -4), (0, 6))


def test_what_only_hands_on_its_operand_keeps_the_interval() -> None:
    others = [row for row in ROWS if row not in BODIES]

    assert {"full", "clone", "detach", "reshape"} == {row.name for row in others}
    assert all(row.interval((-2, 7)) == (-2, 7) for row in others if row.interval)


@pytest.mark.parametrize("row", BODIES, ids=lambda row: row.name)
def test_no_result_is_outside(row: Op) -> None:
    assert row.interval is not None
    known = 0
    for operands in itertools.product(OPERANDS, repeat=len(row.inputs)):
        found = row.interval(*operands)
        if found is None:
            continue
        known += 1
        ints = [np.arange(low, high + 1) for low, high in operands]
        result = evaluate(row, np.meshgrid(*ints), {})
        assert found[0] <= result.min()
        assert result.max() <= found[1]
    assert known
