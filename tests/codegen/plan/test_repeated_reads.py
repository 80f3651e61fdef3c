"""Values that are read at several places are stored where computing them again costs more."""

import numpy as np
import pytest

from dynajit.codegen.loops.elements import Storage
from dynajit.codegen.pipeline import compile_graph
from dynajit.codegen.plan.fusion import plan
from dynajit.codegen.plan.regions import Region
from dynajit.core.types import dtypes
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import TensorType
from dynajit.ops import TABLE as ops

pytestmark = pytest.mark.one_python

rng = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def part(x, start: int, stop: int):
    return ops.slice(x, start=(start,), stop=(stop,), step=(1,))


def smooth(x, size: int):
    """The mean of three neighbours, 2 elements fewer."""
    total = ops.add(ops.add(part(x, 0, size - 2), part(x, 1, size - 1)), part(x, 2, size))
    return ops.mul(total, 1 / 3)


def smooth_often(x, size: int, steps: int):
    for _ in range(steps):
        x, size = smooth(x, size), size - 2
    return x


def shift_around(x, size: int):
    """Each element's neighbour in front, the last one in front of the first."""
    return ops.cat(part(x, size - 1, size), part(x, 0, size - 1), dim=0)


def test_a_cheap_step_is_computed_at_every_place(codegen) -> None:
    """Three neighbours' means of a sum: two additions more are less than a store and a load."""
    codegen.check(lambda x, y: smooth(ops.add(x, y), 100), normal(100), normal(100), kernels=1)


def test_a_costly_step_is_stored(codegen) -> None:
    """An exponential at three places is computed once per element."""
    codegen.check(lambda x: smooth(ops.exp(x), 100), normal(100), kernels=2)


def test_a_long_chain_of_steps_stays_small(codegen) -> None:
    """Twelve steps: their work grows with their number, not with a power of it."""
    graph = codegen.graph_of(
        lambda x: smooth_often(x, 200, 12), codegen.type_of(normal(200)), optimized=True
    )
    units = plan(graph).units

    assert len(units) >= 4
    assert all(len(unit.elements.inlined) < 60 for unit in units)
    codegen.check(lambda x: smooth_often(x, 200, 12), normal(200))


def inner(size: int, down: int = 0, across: int = 0) -> dict[str, tuple[int, int]]:
    """The inner elements of a square, moved."""
    start = (1 + down, 1 + across)
    return {"start": start, "stop": (size - 1 + down, size - 1 + across), "step": (1, 1)}


def diffuse(x, size: int, steps: int):
    """Every step writes the inner elements anew, from themselves and four neighbours."""
    for _ in range(steps):
        around = ops.slice(x, **inner(size, 1))
        for place in ((-1, 0), (0, 1), (0, -1)):
            around = ops.add(around, ops.slice(x, **inner(size, *place)))
        middle = ops.slice(x, **inner(size))
        found = ops.add(middle, ops.mul(0.1, ops.sub(around, ops.mul(4.0, middle))))
        x = ops.slice_scatter(x, found, **inner(size))
    return x


@pytest.mark.parametrize("steps", [4, 12, 40])
def test_ends_of_long_chains_make_no_step_twice(codegen, steps: int) -> None:
    """Where a chain is cut because it is long, the values around the cut are stored as others."""
    graph = codegen.graph_of(lambda x: diffuse(x, 20, steps), codegen.type_of(normal(20, 20)))
    units = plan(graph).units

    assert steps == len(units)
    assert max(len(unit.elements.inlined) for unit in units) <= 16
    codegen.check(lambda x: diffuse(x, 20, steps), normal(20, 20))


def with_edges(x, size: int, steps: int):
    """Every step gives the four edges what lies beside them."""
    last = size - 1
    for _ in range(steps):
        for dim, edge, beside in ((0, 0, 1), (0, last, last - 1), (1, 0, 1), (1, last, last - 1)):
            whole = {"start": [0, 0], "stop": [size, size], "step": (1, 1)}
            source = {key: list(value) for key, value in whole.items()}
            whole["start"][dim], whole["stop"][dim] = edge, edge + 1
            source["start"][dim], source["stop"][dim] = beside, beside + 1
            kept = ops.slice(x, **{key: tuple(value) for key, value in source.items()})
            x = ops.slice_scatter(x, kept, **{key: tuple(value) for key, value in whole.items()})
        x = ops.add(x, 1.0)
    return x


def test_writes_of_parts_to_parts_do_not_double_the_work_each(codegen) -> None:
    graph = codegen.graph_of(lambda x: with_edges(x, 9, 6), codegen.type_of(normal(9, 9)))

    assert all(len(unit.elements.inlined) <= 24 for unit in plan(graph).units)
    codegen.check(lambda x: with_edges(x, 9, 6), normal(9, 9))


def test_shifts_in_a_ring_are_told_apart(codegen) -> None:
    """The slices of a shift start where the value starts, and are read elsewhere."""

    def step(x):
        return ops.exp(ops.add(shift_around(x, 50), x))

    codegen.check(lambda x: step(step(step(x))), normal(50), kernels=3)


def test_halves_that_are_read_once_share_the_kernel(codegen) -> None:
    """A gate: each element of the exponential is computed once, in one half or the other."""

    def gated(x):
        y = ops.exp(x)
        return ops.mul(part(y, 0, 50), part(y, 50, 100))

    codegen.check(gated, normal(100), kernels=1)


def test_another_shape_is_the_same_place(codegen) -> None:
    """A reshaped and a plain read of an element are one."""

    def both(x):
        y = ops.exp(x)
        return ops.mul(ops.reshape(y, shape=(100,)), ops.reshape(ops.sin(y), shape=(100,)))

    codegen.check(both, normal(10, 10), kernels=1)


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (7, 4)])
def test_padded_steps_keep_their_numbers(codegen, shape: tuple[int, int]) -> None:
    """Steps of which each pads what it reads, over few and no rows."""

    def step(x):
        rows = shape[0]
        wide = ops.pad(ops.tanh(x), before=(1, 0), after=(1, 0), value=0.5)
        above = ops.slice(wide, start=(0, 0), stop=(rows, 4), step=(1, 1))
        below = ops.slice(wide, start=(2, 0), stop=(rows + 2, 4), step=(1, 1))
        return ops.sub(above, below)

    codegen.check(lambda x: step(step(step(x))), normal(*shape))


def test_a_refused_value_leaves_nothing_behind(codegen) -> None:
    """What a kernel began to compute for a value that it does not take is not its own."""
    graph = codegen.graph_of(
        lambda x: (ops.exp(x), ops.flip(ops.sin(ops.exp(x)), dims=(0,))),
        codegen.type_of(normal(20)),
        optimized=True,
    )
    exponential, flipped = graph.outputs
    region = Region(Storage(graph.inputs), (20,))
    region.add(exponential)
    before = dict(region.elements.inlined)

    assert "other elements" in (region.try_add(flipped) or "")
    assert region.elements.inlined == before


@pytest.mark.parametrize("row", [(), (4,)])
def test_writes_at_unknown_places_do_not_double_the_text(codegen, row: tuple[int, ...]) -> None:
    """`x[k] += 1` for one k after the other: each reads all that were written before, or x."""
    places = [3, 5, 3, 8, 1, 5, 5, 9, 3, 2]
    types = [TensorType((symbol(f"s{n}", 0, 19),), dtypes.float32) for n in range(len(places))]

    def counted(x, *of_sizes):
        for each in of_sizes:
            (k,) = each.shape
            new = ops.reshape(ops.add(ops.select(x, dim=0, index=k), 1.0), shape=(1, *row))
            whole = {"stop": (k + 1, *row), "step": (1,) * x.ndim}
            x = ops.slice_scatter(x, new, start=(k, *(0 for _ in row)), **whole)
        return x

    x = normal(20, *row)
    graph = codegen.graph_of(counted, codegen.type_of(x), *types, optimized=True)
    program = compile_graph(graph)
    found, *_ = program(x, *(np.zeros(place, np.float32) for place in places))

    np.add.at(x, places, 1)
    np.testing.assert_allclose(found, x, rtol=1e-6)
    assert 1000 > program.source.count("\n")
