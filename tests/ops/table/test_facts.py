"""Facts of rows that name something elsewhere: what they name gives what the row gives."""

import math
import operator

import numpy as np
import pytest

from dynajit.core.operators import BINARY, COMPARISONS, UNARY
from dynajit.ops import TABLE, Op
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table.scalar import SCALARS, Scalar

NAMED = [row for row in TABLE if row.numpy_name is not None]
OPERATORS = [row for row in TABLE if row.operator is not None and row.name != "matmul"]
OF_BOOLS = [row for row in TABLE if row.of_bools is not None]
OF_MATH = [function for function in SCALARS.values() if function.math is not None]
WHOLE = np.array([7, 12, 1, 3, 5, 2])
REAL = np.array([1.25, 1.5, 1.0, 2.5, 3.0, 1.75])


def result_of(row: Op, *operands: np.ndarray) -> np.ndarray:
    return evaluate(row, operands, row.bind({}))


def operands_of(row: Op, function: np.ufunc | None = None) -> list[np.ndarray]:
    """Where all is defined, and of a dtype that NumPy's function takes."""
    is_whole = function is not None and "d" not in "".join(function.types)
    is_within = row.domain[1] <= 1
    first = WHOLE if is_whole else REAL / 4 if is_within else REAL
    return [first, first[::-1].copy()][: len(row.inputs)]


@pytest.mark.parametrize("row", NAMED, ids=lambda row: row.name)
def test_numpys_function_gives_what_the_row_gives(row: Op) -> None:
    function = getattr(np, row.numpy_name or "")
    operands = operands_of(row, function)

    np.testing.assert_allclose(result_of(row, *operands), function(*operands), rtol=1e-13)


@pytest.mark.parametrize("row", OPERATORS, ids=lambda row: row.name)
def test_the_operator_gives_what_the_row_gives(row: Op) -> None:
    operands = [WHOLE, WHOLE[::-1].copy()][: len(row.inputs)]
    expected = getattr(operator, f"__{row.operator}__")(*operands)

    np.testing.assert_allclose(result_of(row, *operands), expected, rtol=1e-6)


def test_every_operator_has_one_row() -> None:
    assert sorted({*BINARY, *COMPARISONS, *UNARY} - {"pos"}) == sorted(
        row.operator for row in TABLE if row.operator is not None
    )


@pytest.mark.parametrize("row", OF_BOOLS, ids=lambda row: row.name)
def test_of_truth_values_the_named_row_gives_the_same(row: Op) -> None:
    truths = [np.array([True, True, False, False]), np.array([True, False, True, False])]
    operands = truths[: len(row.inputs)]
    expected = result_of(TABLE[row.of_bools or ""], *operands)

    np.testing.assert_array_equal(result_of(row, *operands), expected)


def _holds(function: Scalar, x: float) -> bool:
    assert function.math is not None
    return all(getattr(operator, name)(x, bound) for name, bound in function.math.where)


@pytest.mark.parametrize("function", OF_MATH, ids=lambda function: function.name)
def test_pythons_function_gives_the_same_where_it_does_not_raise(function: Scalar) -> None:
    assert function.math is not None
    name = function.math.name or function.name
    if not hasattr(math, name):
        pytest.skip("a later Python has it")
    found = 0
    for x in (0.5, -0.5, 0.0, 1.0, -1.0, 1.5, -3.0, math.inf, -math.inf):
        operands = [x, 1.5][: function.arity]
        if not _holds(function, x):
            continue
        with np.errstate(all="ignore"):
            actual = function.numpy(*map(np.float64, operands))
        if function.math.is_finite and not np.isfinite(actual):
            continue
        assert actual == pytest.approx(getattr(math, name)(*operands), rel=1e-13, nan_ok=True)
        found += 1
    assert found
