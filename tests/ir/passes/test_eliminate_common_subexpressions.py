"""Equal calls become one, unless the caller would see that they share memory."""

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.ir.graph import Builder
from dynajit.ir.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from dynajit.ops import TABLE as ops


def test_equal_calls_become_one(record, body_of) -> None:
    """Chains of equal calls are merged from the inputs on."""
    graph = record(
        lambda x: ops.add(ops.exp(ops.neg(x)), ops.sum(ops.exp(ops.neg(x)), dim=(0,))), x=(2,)
    )

    assert [
        "neg = ops.neg(x)",
        "exp = ops.exp(neg)",
        "sum = ops.sum(exp, dim=(0,))",
        "add = ops.add(exp, sum)",
        "return (add,)",
    ] == body_of(eliminate_common_subexpressions(graph))


@pytest.mark.parametrize(("a", "b"), [(0.0, -0.0), (1, 1.0), (1, True)])
def test_literals_that_compare_equal_are_told_apart(record, a: float, b: float) -> None:
    """0 and -0, 1 and 1.0 and True mean different things."""
    graph = record(lambda x: ops.div(ops.add(x, a), ops.add(x, b)), x=(2,))

    assert 3 == len(eliminate_common_subexpressions(graph).calls)


def test_nan_literals_are_equal(record) -> None:
    """NaN is compared by meaning."""
    nan = float("nan")
    graph = record(lambda x: ops.div(ops.add(x, nan), ops.add(x, -nan)), x=(2,))

    assert 2 == len(eliminate_common_subexpressions(graph).calls)


def test_constants_are_compared_by_value_and_dtype() -> None:
    """Equal arrays of one dtype become one constant."""
    builder = Builder()
    arrays = [np.ones(2, np.float32), np.ones(2, np.float32), np.ones(2, np.float64)]
    a, b, c = (builder.constant(array) for array in arrays)
    graph = builder.finish([ops.add(ops.mul(a, b), c)])

    assert 2 + 2 == len(eliminate_common_subexpressions(graph).nodes)


@pytest.mark.parametrize(("shift", "expected"), [(0, 2), (1, 3)])
def test_random_rows_with_equal_counters_are_equal(record, shift: int, expected: int) -> None:
    """Counter-based numbers depend on seed, offset and shift only."""
    shape = {"shape": (4,), "dtype": dtypes.float32}

    def function(seed, offset):
        first = ops.rand(seed, offset, **shape)
        return ops.add(first, ops.rand(seed, offset, **shape, shift=shift))

    graph = record(function, seed=int, offset=int)

    assert expected == len(eliminate_common_subexpressions(graph).calls)


def test_two_results_keep_their_own_memory(record) -> None:
    """Writing to one result must not change the other."""
    graph = record(lambda x: (ops.exp(x), ops.exp(x)), x=(2,))
    first, second = eliminate_common_subexpressions(graph).outputs

    assert first is not second


def test_a_result_and_a_view_of_an_equal_result_keep_their_own_memory(record) -> None:
    """Also where the memory leaves through a view."""
    graph = record(lambda x: (ops.exp(x), ops.reshape(ops.exp(x), shape=(2, 1))), x=(2,))

    assert 3 == len(eliminate_common_subexpressions(graph).calls)


def test_an_intermediate_may_share_with_a_result(record) -> None:
    """Only one of the two leaves the graph."""
    graph = record(lambda x: (ops.exp(x), ops.neg(ops.exp(x))), x=(2,))

    assert 2 == len(eliminate_common_subexpressions(graph).calls)
