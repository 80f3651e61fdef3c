"""Slices that are assigned in place: kernels go over the slice, and results are plain Python's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.loops.loop_ir import (
    Apply,
    Axis,
    Buffer,
    Compare,
    Literal,
    Load,
    Phase,
    RowKernel,
    Select,
    Store,
)
from dynajit.codegen.plan.narrowing import narrowed, never_meet
from dynajit.core.types import dtypes

pytestmark = pytest.mark.one_python


def row(d: Any, v: Any, k: int) -> None:
    d[k] = v[0]


def column(d: Any, v: Any, k: int) -> None:
    d[:, k] += v[:, 1]


def box(d: Any, v: Any, k: int) -> None:
    d[k : k + 3, 2:-2] = v[:3, 2:-2] * 2


def every_second(d: Any, v: Any, k: int) -> None:
    d[::2, 1::3] = v[::2, 1::3] * k + d[::2, 1::3]


def two_rows(d: Any, v: Any, k: int) -> None:
    d[k] = v[0]
    d[k + 2] = v[1] - d[k + 2]


def the_same_row_twice(d: Any, v: Any, k: int) -> None:
    d[k] = v[0]
    d[k] += 1
    d[k + 1] = d[k] * 2


def a_row_and_a_column(d: Any, v: Any, k: int) -> None:
    d[k] = v[0]
    d[:, k] = v[0, : d.shape[0]]


def from_the_next_row(d: Any, v: Any, k: int) -> None:
    d[k] = d[k + 1] + 1


def a_column_from_those_before(d: Any, v: Any, k: int) -> None:
    d[:, k + 2] = 0.5 * d[:, k + 1] + v[:, k] - 0.25 * d[:, k]


def a_part_of_a_row_from_the_row_before(d: Any, v: Any, k: int) -> None:
    d[k + 1, 2:-1] = d[k, 1:-2] + d[k, 2:-1] * v[0, 3:]


def moved_along_the_row(d: Any, v: Any, k: int) -> None:
    d[k, 1:] = d[k, :-1] * 2


def moved_down(d: Any, v: Any, k: int) -> None:
    d[k + 1 :] = d[k:-1] * 2


def without_a_row_and_a_column(d: Any, v: Any, k: int) -> None:
    d[5:, 5:] -= d[5:, 4:5] * d[4:5, 5:] * k


def all_but_the_edge(d: Any, v: Any, k: int) -> None:
    d[1:-1, 1:-1] = 0.2 * (d[1:-1, 1:-1] + d[:-2, 1:-1] + d[2:, 1:-1])


def nothing(d: Any, v: Any, k: int) -> None:
    d[k:k] = 5


def up_to(d: Any, v: Any, k: int) -> None:
    d[:k, :k] = v[:k, :k]


def held_before(d: Any, v: Any, k: int) -> None:
    held = d[k] * 1
    d[k] = v[0]
    d[k + 1] = held


WAYS: tuple[Callable[[Any, Any, int], None], ...] = (
    row, column, box, every_second, two_rows, the_same_row_twice, a_row_and_a_column,
    from_the_next_row, a_column_from_those_before, a_part_of_a_row_from_the_row_before,
    moved_along_the_row, moved_down, without_a_row_and_a_column, all_but_the_edge, nothing, up_to,
    held_before,
)  # fmt: skip


@pytest.mark.parametrize("is_array", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_assigned_slice_leaves_the_rest(
    way: Callable[[Any, Any, int], None], is_array: bool
) -> None:
    """At several places: the first is a constant of the code, the others are not."""
    numbers = np.random.default_rng(0)
    given, value = numbers.random((20, 24)), numbers.random((20, 24))
    expected, found = given.copy(), given.copy()
    compiled = dj.compile(way, fullgraph=True)
    v = value if is_array else dj.from_numpy(value)
    for k in (3, 4, 9, 0, 5):
        way(expected, value, k)
        compiled(found if is_array else dj.from_numpy(found), v, k)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("mode", ["index_copy_", "index_add_"])
def test_rows_are_written_where_indices_say_and_an_error_leaves_no_trace(mode: str) -> None:
    def put(d: Any, index: Any, v: Any) -> None:
        getattr(d, mode)(0, index, v)

    compiled, v = dj.compile(put, fullgraph=True), dj.rand(3, 16)
    expected = dj.rand(500, 16)
    found = expected.clone()
    for places in ([3, 5, 499], [7, 7, 2]):
        put(expected, dj.tensor(places), v)
        compiled(found, dj.tensor(places), v)
        assert dj.equal(expected, found)
    with pytest.raises(IndexError):
        compiled(found, dj.tensor([0, 1, 500]), v)
    assert dj.equal(expected, found)


def kernel(*rows: tuple[int, int]) -> tuple[RowKernel, Buffer]:
    """Rows are set to 1, one after the other, in an array of 100 rows of 8."""
    source, target = (Buffer(name, dtypes.float32, 800) for name in ("in0", "out0"))
    i, j = Axis("i0", 100), Axis("i1", 8)
    offset = i.symbol * 8 + j.symbol
    value: Any = Load(source, offset)
    for low, high in rows:
        ends = (Compare("less", low - 1, i.symbol), Compare("less", i.symbol, high))
        both = Apply("logical_and", ends, dtypes.bool_)
        value = Select(both, Literal(1.0, dtypes.float32), value)
    phase = Phase(stores=(Store(target, offset, value),))
    return RowKernel("k0", (i,), (j,), (phase,)), source


@pytest.mark.parametrize(
    ("rows", "size", "is_choice"),
    [([(4, 6)], 2, False), ([(99, 100)], 1, False), ([(4, 6), (7, 9)], 5, True), ([], 100, False)],
)
def test_loops_go_over_what_changes(
    rows: list[tuple[int, int]], size: int, is_choice: bool
) -> None:
    found = narrowed(*kernel(*rows))
    (store,) = found.phases[0].stores
    assert [axis.size for axis in (*found.rows, *found.elements)] == [size, 8]
    assert isinstance(store.value, Select) == is_choice


@pytest.mark.parametrize("sizes", [(1, 1), (3, 4), (4, 3), (2, 9), (5, 1)])
@pytest.mark.parametrize("steps", [(8, 1), (1, 8), (4, 1), (3, 2), (7, 7), (0, 1)])
def test_what_is_read_and_what_is_written_are_compared_place_by_place(
    sizes: tuple[int, int], steps: tuple[int, int]
) -> None:
    """Beside all places, for every distance."""
    axes = [Axis(f"i{number}", size) for number, size in enumerate(sizes)]
    written: Any = sum(axis.symbol * step for axis, step in zip(axes, steps, strict=True))
    places = {i * steps[0] + j * steps[1] for i in range(sizes[0]) for j in range(sizes[1])}
    for apart in range(-60, 60):
        read = {place + apart for place in places}
        assert never_meet(written + apart, written, axes) == places.isdisjoint(read)
