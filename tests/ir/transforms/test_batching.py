"""Nodes of one sample, for all samples."""

from typing import Any

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.interpret import run
from dynajit.ir.node import NodeKind
from dynajit.ir.transforms.batching import MOST_CALLS, batched
from dynajit.ir.verify import verify
from dynajit.ops import TABLE
from dynajit.ops.table.sample_rules import NoRule

NUMBERS = np.random.default_rng(0)


def graph_of(function: Any, shapes: list[tuple[int, ...]], mapped: list[bool], count: int) -> Graph:
    """The graph of a function of samples, for all of them."""
    builder = Builder("mapped")
    types = [
        TensorType((count, *shape) if flag else shape, dtypes.float64)
        for shape, flag in zip(shapes, mapped, strict=True)
    ]
    whole = [builder.placeholder(f"x{i}", type) for i, type in enumerate(types)]
    inner = Builder("one")
    given: list[Any] = []
    known = {}
    for value, shape, flag in zip(whole, shapes, mapped, strict=True):
        stand_in = inner.placeholder("sample", TensorType(shape, dtypes.float64))
        known[stand_in.node] = (value, flag)
        given.append(stand_in)
    result = function(*given)
    nodes = [n for n in inner.finish([result]).nodes if n.kind is not NodeKind.PLACEHOLDER]
    found, flag = batched(builder, nodes, known, count)[result.node]
    assert flag
    graph = builder.finish([found])
    verify(graph)
    return graph


PROGRAMS = {
    "rows": (lambda x, w: TABLE.tanh(x @ w).sum(0) * 2, [(3, 4), (4, 5)]),
    "composites with rules": (lambda x, w: TABLE.linear(x, w, None).softmax(-1), [(3, 4), (5, 4)]),
    "composites by their rows": (lambda x, y: TABLE.mse_loss(x, y), [(3, 4), (3, 4)]),
    "views": (lambda x, w: x.t().reshape(2, 6)[:, 1:4] + w, [(3, 4), (3,)]),
}


@pytest.mark.parametrize("mapped", ([True, False], [False, True], [True, True]))
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_graph_gives_what_every_sample_gives(name: str, mapped: list[bool]) -> None:
    function, shapes = PROGRAMS[name]
    arrays = [
        NUMBERS.standard_normal((4, *shape) if flag else shape)
        for shape, flag in zip(shapes, mapped, strict=True)
    ]

    (found,) = run(graph_of(function, shapes, mapped, 4), arrays)

    for number in range(4):
        sample = [a[number] if flag else a for a, flag in zip(arrays, mapped, strict=True)]
        (expected,) = run(graph_of(function, shapes, [True, True], 1), [a[None] for a in sample])
        np.testing.assert_allclose(found[number], expected[0], rtol=1e-12)


def test_nodes_of_no_sample_are_taken_over() -> None:
    builder = Builder("mapped")
    x = builder.placeholder("x", TensorType((4, 3), dtypes.float64))
    y = builder.placeholder("y", TensorType((3,), dtypes.float64))
    mark = builder.snapshot()
    sample = builder.placeholder("sample", TensorType((3,), dtypes.float64))
    shared = TABLE.exp(y)
    result = sample * shared
    nodes = [*builder.nodes_since(mark)[1:]]
    builder.restore(mark)

    held = batched(builder, nodes, {sample.node: (x, True)}, 4)

    assert held[shared.node][0].node is shared.node
    assert (4, 3) == tuple(held[result.node][0].shape)


def test_a_row_without_a_rule_is_not_called_for_thousands_of_samples() -> None:
    def by_frequency(weight: Any) -> Any:
        indices = TABLE.cast(TABLE.mul(weight, 0), dtype=dtypes.int64)
        return TABLE.embedding_by_frequency(weight, indices)

    graph_of(by_frequency, [(3, 4)], [True], 2)
    with pytest.raises(NoRule):
        graph_of(by_frequency, [(3, 4)], [True], MOST_CALLS + 1)
