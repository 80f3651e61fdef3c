"""Checks of indices stand in front of the other kernels where all indices are inputs."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.cuda import text as cuda_text
from dynajit.core.errors import BoundsError
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.pipeline import optimize
from dynajit.ops import TABLE as ops
from dynajit.ops.table import dispatch
from tests.support.kernels.emulated import emulate

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]

WORDS, WIDTH, COUNT = 7, 5, 6
RANDOM = np.random.default_rng(0)
TABLE = RANDOM.standard_normal((WORDS, WIDTH)).astype(np.float32)
WEIGHT = RANDOM.standard_normal((WIDTH, WORDS)).astype(np.float32)
INDEX = np.array([0, 6, 3, 3, 1, 5])


def graph_of(function: Any, *arrays: Any) -> Graph:
    builder = Builder("checks")
    values = [
        builder.placeholder(f"x{i}", TensorType(a.shape, dtypes.from_numpy(a.dtype)))
        for i, a in enumerate(arrays)
    ]
    with dispatch.recording(builder.handle):
        out = function(*values)
    return optimize(builder.finish([out]), keeps=cuda_text.keeps_native)


def model(table: Any, weight: Any, index: Any, target: Any) -> Any:
    """A gather in front and another one behind a product and a softmax."""
    found = ops.index_select(table, index, dim=0)
    scores = ops.log_softmax(ops.matmul(found, weight), dim=1)
    return ops.sum(ops.gather(scores, ops.reshape(target, shape=(COUNT, 1)), dim=1), dim=(0, 1))


def compiled(function: Any, arrays: Any, folder: Path) -> tuple[Any, Any, Graph]:
    graph = graph_of(function, *arrays)
    unit = cuda_text.generate(graph, "checks")
    return emulate({"checks": (unit.graph, unit)}, folder)["checks"], unit, graph


def failing(unit: Any) -> list[int]:
    return [place for place, step in enumerate(unit.steps) if getattr(step, "may_fail", False)]


def test_only_the_first_kernels_report(tmp_path: Path) -> None:
    arrays = TABLE, WEIGHT, INDEX, INDEX[::-1].copy()
    program, unit, graph = compiled(model, arrays, tmp_path)

    assert [0, 1] == failing(unit)
    (actual,), (expected,) = program(*arrays), interpret.run(graph, arrays)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.parametrize("place", [2, 3])
@pytest.mark.parametrize("wrong", [WORDS, -WORDS - 1, 1 << 40])
def test_an_index_out_of_range_is_reported(place: int, wrong: int, tmp_path: Path) -> None:
    arrays = [TABLE, WEIGHT, INDEX, INDEX[::-1].copy()]
    program, _, _ = compiled(model, arrays, tmp_path)
    changed = [*arrays]
    changed[place] = arrays[place].copy()
    changed[place][4] = wrong

    with pytest.raises(BoundsError, match=str(wrong)):
        program(*changed)
    program(*arrays)


def test_indices_of_the_same_meaning_are_looked_at_once(tmp_path: Path) -> None:
    def twice(table: Any, weight: Any, index: Any) -> Any:
        first = ops.matmul(ops.index_select(table, index, dim=0), weight)
        other = ops.index_select(ops.exp(table), index, dim=0)
        return ops.add(ops.matmul(other, weight), ops.softmax(first, dim=1))

    _, unit, _ = compiled(twice, (TABLE, WEIGHT, INDEX), tmp_path)

    assert [0] == failing(unit)


def test_sums_over_the_rows_of_a_gather_are_checked_in_front(tmp_path: Path) -> None:
    """As the gradient of places added to words: its loops go over the index column by column."""

    def summed(table: Any, weight: Any, index: Any) -> Any:
        rows = ops.sigmoid(ops.matmul(table, weight))
        found = ops.index_select(rows, ops.reshape(index, shape=(COUNT,)), dim=0)
        total = ops.sum(ops.reshape(found, shape=(2, COUNT // 2, WORDS)), dim=(0,))
        return ops.matmul(ops.softmax(total, dim=1), ops.exp(rows))

    arrays = TABLE, WEIGHT, INDEX.reshape(2, 3).copy()
    program, unit, graph = compiled(summed, arrays, tmp_path)

    assert [0] == failing(unit)
    np.testing.assert_allclose(program(*arrays)[0], interpret.run(graph, arrays)[0], rtol=1e-5)
    arrays[2][1, 0] = WORDS
    with pytest.raises(BoundsError, match=str(WORDS)):
        program(*arrays)


def test_computed_indices_are_looked_at_where_they_are_used(tmp_path: Path) -> None:
    def computed(table: Any, weight: Any, index: Any) -> Any:
        scores = ops.matmul(ops.index_select(table, index, dim=0), weight)
        best = ops.argmax(scores, dim=(1,))
        return ops.matmul(ops.index_select(table, best, dim=0), weight)

    arrays = TABLE, WEIGHT, INDEX
    program, unit, graph = compiled(computed, arrays, tmp_path)

    assert failing(unit)[-1] > 2
    np.testing.assert_allclose(program(*arrays)[0], interpret.run(graph, arrays)[0], rtol=1e-5)


def test_elements_that_nobody_asks_for_are_not_looked_at(tmp_path: Path) -> None:
    """A part of the indices is used, beside other rows: no check goes over all of the result."""

    def part(table: Any, weight: Any, index: Any) -> Any:
        rows = ops.index_select(table, ops.slice(index, start=(0,), stop=(4,), step=(1,)), dim=0)
        return ops.softmax(ops.matmul(ops.cat(rows, table, dim=0), weight), dim=1)

    arrays = TABLE, WEIGHT, np.array([1, 2, 3, 4, 99, 99])
    program, _, graph = compiled(part, arrays, tmp_path)

    np.testing.assert_allclose(program(*arrays)[0], interpret.run(graph, arrays)[0], rtol=1e-5)


def test_positions_of_a_range_need_no_check(tmp_path: Path) -> None:
    def places(table: Any, weight: Any) -> Any:
        index = ops.arange(1, 1, size=COUNT, dtype=dtypes.int64, device=CPU)
        return ops.softmax(ops.matmul(ops.index_select(table, index, dim=0), weight), dim=1)

    arrays = TABLE, WEIGHT
    program, unit, graph = compiled(places, arrays, tmp_path)

    assert [] == failing(unit)
    np.testing.assert_allclose(program(*arrays)[0], interpret.run(graph, arrays)[0], rtol=1e-5)
