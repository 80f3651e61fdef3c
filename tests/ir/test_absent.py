"""A backward graph without what only gradients that did not come lead to."""

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import TensorType
from dynajit.ir.absent import without
from dynajit.ir.interpret import run
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops


@pytest.fixture
def backward(record):
    """Of (x.sqrt(), x * w): from x, w and two gradients to those of x and w."""

    def function(x, w, g, h):
        slope = ops.div(ops.mul(g, 0.5), ops.sqrt(x))
        return ops.add(slope, ops.mul(h, w)), ops.mul(h, x)

    return record(function, x=(3,), w=(3,), g=(3,), h=(3,))


ZERO = np.zeros(3, np.float32)
ONE = np.ones(3, np.float32)
TWO = np.full(3, 2, np.float32)


def test_an_infinite_derivative_is_not_computed(backward) -> None:
    """With zeros for the missing gradient the sum is NaN."""
    part = without(backward, (2, 3), {2})
    verify(part)

    assert np.isnan(run(backward, (ZERO, TWO, ZERO, ONE))[0]).all()
    for expected, found in zip((TWO, ZERO), run(part, (ZERO, TWO, ZERO, ONE)), strict=True):
        np.testing.assert_array_equal(expected, found)


def test_outputs_that_only_the_absent_lead_to_have_none(backward) -> None:
    part = without(backward, (2, 3), {3})
    verify(part)
    slope, none = run(part, (ONE, TWO, ONE, ZERO))

    np.testing.assert_array_equal(0.5 * ONE, slope)
    assert none is None
    assert [] == [node for node in part.calls if backward.inputs[3] in node.args]


def test_inputs_stay(backward) -> None:
    assert len(backward.inputs) == len(without(backward, (2, 3), {2, 3}).inputs)
    assert (None, None) == without(backward, (2, 3), {2, 3}).outputs


def test_the_graph_is_the_same_if_all_came(backward) -> None:
    assert backward.nodes == without(backward, (2, 3), ()).nodes


def test_zeros_have_the_sizes_of_the_call(record) -> None:
    kind = TensorType((symbol("s0", 5),), dtypes.float32)
    graph = record(lambda g, h: ops.cat(ops.mul(g, 2.0), h, dim=0), g=kind, h=kind)
    part = without(graph, (0, 1), {0})

    (found,) = run(part, (ONE[:2], TWO[:2]))
    np.testing.assert_array_equal([0, 0, 2, 2], found)
