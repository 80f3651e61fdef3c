"""A loop with any number of turns is run once more, then back: as one with a known number is."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen import pipeline
from dynajit.core.errors import ShapeError, UnsupportedError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import interpret, keys, loops
from dynajit.ir.autodiff import differentiate, is_reach_of_one_turn, is_reach_settled
from dynajit.ir.generated import generated_function
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.loop_derivatives import gradients
from dynajit.ir.pipeline import optimize
from dynajit.ir.reruns import RERUN
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops

VECTOR = TensorType((3,), dtypes.float64)
BOOL = TensorType((), dtypes.bool_)
MOST = 1000


def _loop(stop: int | None, swaps: bool = False) -> loops.Loop:
    """x, y = tanh(x * w) + number / 10, 0.9 * y + x; on while the number is below `stop`."""
    builder = Builder("turn")
    number = builder.placeholder("number", ScalarType(Category.INTEGER))
    x, y, w = (builder.placeholder(name, VECTOR) for name in ("x", "y", "w"))
    counter = ops.full(number, shape=(), dtype=dtypes.float64)
    new = ops.add(ops.tanh(ops.mul(x, w)), ops.mul(counter, 0.1))
    after = [y, new] if swaps else [new, ops.add(ops.mul(y, 0.9), x)]
    tests = [] if stop is None else [ops.lt(counter, float(stop))]
    body = builder.finish([*after, *tests])
    return loops.Loop(
        body, (loops.Steps(0, 1),), 2, tests=stop is not None, active=(True,) * 3,
        gradients=gradients, unit=dtypes.float64,
    )  # fmt: skip


def _replaced() -> loops.Loop:
    """x, y = x * w, x + w: all that turns read gets a gradient in the first."""
    builder = Builder("turn")
    x, y, w = (builder.placeholder(name, VECTOR) for name in ("x", "y", "w"))
    body = builder.finish([ops.mul(x, w), ops.add(x, w), ops.gt(ops.sum(y, dim=(0,)), 0)])
    return loops.Loop(body, (), 2, tests=True, active=(True,) * 3)


def _joint(loop: loops.Loop, limit: int) -> Graph:
    builder = Builder("whole")
    go = builder.placeholder("go", BOOL)
    inputs = [builder.placeholder(name, VECTOR) for name in ("x", "y", "w")]
    found = loops.append(builder, loop, limit, go, inputs)
    graph = builder.finish(found[:2])
    return differentiate(graph, [False, True, True, True]).graph


def _given(go: bool = True) -> list[Any]:
    values = np.random.default_rng(0).standard_normal((5, 3)) * 0.4
    return [np.array(go), *values]


@pytest.mark.parametrize("turns", [1, 2, 40])
def test_gradients_are_those_of_a_known_number_of_turns(turns):
    expected = interpret.run(_joint(_loop(None), turns), _given())
    joint = _joint(_loop(turns - 1), MOST)
    verify(joint)
    assert any(node.op is RERUN for node in joint.calls)

    smaller = optimize(joint)
    blueprint = pipeline.to_data(pipeline.start_compile(smaller).blueprint)
    for found in (
        interpret.run(joint, _given()),
        generated_function(joint, dj.tensor)(*map(dj.tensor, _given())),
        pipeline.compile_graph(smaller)(*_given()),
        pipeline.start_build(pipeline.from_data(blueprint))()(*_given()),
    ):
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(np.asarray(b), a, 1e-12)
    assert sum(node.op is loops.LOOP for node in smaller.calls) == 1


def test_without_a_turn_gradients_are_handed_through():
    found = interpret.run(_joint(_loop(5), MOST), _given(go=False))
    given = _given()
    for a, b in zip(found, [*given[1:3], *given[4:6], np.zeros(3)], strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_gradients_reach_may_depend_on_the_number():
    assert is_reach_settled(_loop(5), 8)
    assert not is_reach_settled(_loop(5, swaps=True), 8)
    assert is_reach_of_one_turn(_replaced())
    assert not is_reach_of_one_turn(_loop(5))  # one turn gives `y` no gradient of `w`


def test_the_key_tells_loops_apart():
    assert keys.graph_text(_joint(_loop(5), MOST)) == keys.graph_text(_joint(_loop(5), MOST))
    assert keys.graph_text(_joint(_loop(5), MOST)) != keys.graph_text(_joint(_loop(6), MOST))


def test_operands_and_second_derivatives_are_refused():
    joint = _joint(_loop(5), MOST)
    (node,) = (node for node in joint.calls if node.op is RERUN)
    types = [getattr(argument, "type", None) for argument in node.args]
    with pytest.raises(ShapeError, match="rerun: the bodies take"):
        RERUN.infer(*types[:-1], TensorType((4,), dtypes.float64), **node.attributes)
    with pytest.raises(UnsupportedError, match="second derivative"):
        differentiate(joint, [node.type == VECTOR for node in joint.inputs])
