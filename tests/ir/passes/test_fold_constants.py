"""What depends on no input is computed; numbers stay literals."""

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.ir.graph import Builder, NodeKind
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ir.passes.fold_constants import FOLDED_ELEMENTS, fold_constants
from dynajit.ops import TABLE as ops


def folded(graph):
    return eliminate_dead_code(fold_constants(graph))


def with_constant(array, function, x_shape=(3,), dtype=dtypes.float32):
    """The folded graph of `function(x, constant)`."""
    builder = Builder("example")
    x = builder.placeholder("x", ops.full.infer(None, shape=x_shape, dtype=dtype, device=None))
    return folded(builder.finish([function(x, builder.constant(np.asarray(array)))]))


def test_a_chain_of_constants_is_computed() -> None:
    """Its value becomes a constant; its parts go."""
    graph = with_constant(
        np.array([1, 4, 9], np.float32), lambda x, c: ops.add(x, ops.neg(ops.sqrt(c)))
    )
    (constant,) = (node for node in graph.nodes if node.kind is NodeKind.CONSTANT)

    assert [-1.0, -2.0, -3.0] == constant.value.tolist()
    assert 1 == len(graph.calls)


def test_zero_dim_constants_become_literals(body_of) -> None:
    """Where the consumer computes in the same dtype."""
    graph = with_constant(np.float32(2), lambda x, c: ops.mul(x, ops.exp2(c)))

    assert ["mul = ops.mul(x, 4.0)", "return (mul,)"] == body_of(graph)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.float64(0.1), dtypes.int32),  # float64 as a tensor, float32 as a number
        (np.int64(2**40), dtypes.int32),  # wraps as a tensor, does not fit as a number
    ],
)
def test_a_constant_stays_where_a_literal_would_change_the_result(value, dtype) -> None:
    """Promotion of a zero-dim tensor and of a number differ."""
    graph = with_constant(value, lambda x, c: ops.lt(x, c), dtype=dtype)

    assert NodeKind.CONSTANT in {node.kind for node in graph.nodes}


def test_full_of_a_number_becomes_the_rounded_literal(record, body_of) -> None:
    """The literal is what the tensor held."""

    def function(x):
        filler = ops.full(0.1, shape=(3,), dtype=dtypes.float16)
        return ops.add(x, filler)

    assert ["add = ops.add(x, 0.0999755859375)", "return (add,)"] == body_of(
        folded(record(function, x=(3,)))
    )


def test_a_full_that_broadcasts_stays(record) -> None:
    """Its shape is part of the result's."""
    graph = record(lambda x: ops.add(x, ops.full(1.0, shape=(4, 3), dtype=dtypes.float32)), x=(3,))

    assert 2 == len(folded(graph).calls)


def test_large_results_stay_calls() -> None:
    """A constant is never larger than the limit."""
    size = FOLDED_ELEMENTS + 1
    graph = with_constant(np.zeros(size, np.float32), lambda x, c: ops.add(x, ops.neg(c)), (size,))

    assert 2 == len(graph.calls)


def test_what_would_raise_is_left_to_run_time() -> None:
    """An error belongs to the call, not to the compilation."""
    graph = with_constant(
        np.array([1, 0], np.int64),
        lambda x, c: ops.add(x, ops.floor_divide(np.int64(7).item(), c)),
        (2,),
    )

    assert 2 == len(graph.calls)


def test_a_result_that_leaves_the_graph_is_not_folded() -> None:
    """The caller may write to it."""
    graph = with_constant(np.ones(3, np.float32), lambda x, c: ops.neg(c))

    assert 1 == len(graph.calls)


def test_random_numbers_are_not_folded(record) -> None:
    """They are drawn when the program runs."""
    graph = record(lambda x: ops.add(x, ops.rand(1, 2, shape=(), dtype=dtypes.float32)), x=(3,))

    assert 2 == len(folded(graph).calls)
