"""What rows say of calls that are simpler ones holds to the bit, in eager execution's own words."""

import itertools

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ops import TABLE, Kind, Op
from dynajit.ops.evaluate import evaluate

FLOATS = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-45, 3e38], np.float32)
INTS = np.array([0, 1, -1, 7, -(2**31), 2**31 - 1], np.int32)
BOOLS = np.array([False, True])
VALUES = (FLOATS, INTS, BOOLS, np.array([0, 1, 200, 255], np.uint8))
NUMBERS = (0, 1, -1, 2, 0.0, -0.0, 1.0, True, False)
SHAPED = np.arange(24.0).reshape(2, 3, 4)

TWICE = [row for row in TABLE if row.twice is not None and row.kind is Kind.POINTWISE]
NEUTRAL = [row for row in TABLE if row.neutral]
SINGLE = [row for row in TABLE if row.kind is Kind.REDUCTION and row.rule.single]


def bits(array: np.ndarray) -> tuple[np.dtype, tuple[int, ...], bytes]:
    return array.dtype, array.shape, np.ascontiguousarray(array).tobytes()


def result(row: Op, *inputs: np.ndarray, **attributes: object) -> np.ndarray | None:
    """None where the row refuses the operands."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(evaluate(row, inputs, row.bind(attributes)))
    except (TypeError, ValueError, NotImplementedError, RuntimeError):
        return None


@pytest.mark.parametrize("row", TWICE, ids=lambda row: row.name)
def test_two_calls_are_one_or_none(row: Op) -> None:
    assert row.twice is not None
    seen = 0
    for x in VALUES:
        once = result(row, x)
        again = None if once is None else result(row, once)
        expected = x if row.twice({}, {}) is None else once
        if again is None or expected is None or again.dtype != expected.dtype:
            continue
        seen += 1
        assert bits(expected) == bits(again)
    assert seen


def test_orders_and_shapes_of_two_movements_are_those_of_one() -> None:
    pairs = {
        "permute": [{"dims": dims} for dims in itertools.permutations(range(3))],
        "reshape": [{"shape": (6, 4)}, {"shape": (24,)}, {"shape": (2, 3, 4)}],
        "expand": [{"shape": (2, 3, 4)}, {"shape": (1, 2, 3, 4)}, {"shape": (5, 2, 3, 4)}],
    }
    named = {row.name for row in TABLE if row.twice is not None and row.kind is Kind.MOVEMENT}
    assert named == set(pairs)

    for name, choices in pairs.items():
        row = TABLE[name]
        assert row.twice is not None
        for first, then in itertools.product(choices, repeat=2):
            once = result(row, SHAPED, **first)
            assert once is not None
            again = result(row, once, **then)
            if again is None:
                continue
            attributes = row.twice(first, then)
            assert attributes is not None
            found = result(row, SHAPED, **attributes)
            assert found is not None
            assert bits(again) == bits(found)


@pytest.mark.parametrize("row", NEUTRAL, ids=lambda row: row.name)
def test_a_neutral_number_changes_no_bit(row: Op) -> None:
    seen = 0
    for name, is_neutral in row.neutral.items():
        at = row.inputs.index(name)
        for x, number in itertools.product(VALUES, NUMBERS):
            operands = [number, x] if at == 0 else [x, number]
            found = result(row, *operands)
            if found is None or found.dtype != x.dtype:
                continue
            if not is_neutral(number, dtypes.from_numpy(found.dtype)):
                continue
            seen += 1
            assert bits(x) == bits(found), (name, number)
    assert seen


@pytest.mark.parametrize("row", SINGLE, ids=lambda row: row.name)
def test_of_one_element_a_reduction_gives_this_one(row: Op) -> None:
    for x in (FLOATS, INTS):
        found = result(row, x.reshape(-1, 1), dim=(1,), keepdim=False)
        if found is not None and found.dtype == x.dtype:
            assert bits(x) == bits(found)
    assert result(row, FLOATS.reshape(-1, 1), dim=(1,), keepdim=False) is not None


@pytest.mark.parametrize(
    "name, same, other",
    [
        ("permute", {"dims": (0, 1, 2)}, {"dims": (0, 2, 1)}),
        (
            "slice",
            {"start": (0, 0, 0), "stop": (2, 3, 4), "step": (1, 1, 1)},
            {"start": (0, 0, 0), "stop": (2, 3, 4), "step": (1, 1, 2)},
        ),
        ("reshape", {"shape": (2, 3, 4)}, None),
        ("expand", {"shape": (2, 3, 4)}, None),
        ("cast", {"dtype": dtypes.float64}, None),
        ("clone", {}, None),
        ("detach", {}, None),
        ("laid_out", {"order": (2, 0, 1)}, None),
    ],
)
def test_a_call_that_says_so_gives_its_operand(name: str, same: dict, other: dict | None) -> None:
    row = TABLE[name]
    assert row.same is not None
    assert row.same(**row.bind(same))
    assert other is None or not row.same(**row.bind(other))

    found = result(row, SHAPED, **same)
    assert found is not None
    assert np.array_equal(SHAPED, found)


def test_all_rows_that_give_their_operand_are_known() -> None:
    known = {"permute", "slice", "reshape", "expand", "cast", "clone", "detach", "laid_out"}

    assert known | {"unchanged_by"} == {row.name for row in TABLE if row.same is not None}
    x = TensorType((2,), dtypes.float32)
    assert x == TABLE.unchanged_by.infer(x, x, refused="")
