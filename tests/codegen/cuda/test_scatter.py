"""Scatters as CUDA on the emulator: writes that meet have the results of writing in order."""

import shutil
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.cuda.units.steps import Memset, Options
from dynajit.core.errors import BoundsError
from dynajit.core.types import dtypes
from dynajit.ir import interpret
from dynajit.ops import TABLE as ops
from tests.support.kernels.emulated import EmulatedProgram

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]
rng = np.random.default_rng(0)

REAL = [dtype for dtype in dtypes.ALL if not dtype.is_complex]


def drawn(dtype: Any, *shape: int) -> np.ndarray:
    return rng.integers(0, 4, shape).astype(dtype.numpy)


def run(codegen: Any, function: Any, *arguments: Any, **options: bool) -> EmulatedProgram:
    """The function's program, after comparing it with the interpreter."""
    graph = codegen.graph_of(function, *map(codegen.type_of, arguments))
    program = EmulatedProgram(graph, options=Options(**options))
    for want, got in zip(interpret.run(graph, arguments), program(*arguments), strict=True):
        codegen.assert_same(want, got)
    return program


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", REAL, ids=lambda dtype: dtype.name)
def test_sums_at_places_that_meet_in_every_dtype(
    codegen: Any, dtype: Any, deterministic: bool
) -> None:
    """Small whole numbers: sums are exact in any order; narrow integers wrap."""
    x, rows, index = drawn(dtype, 7, 5), drawn(dtype, 40, 5), rng.integers(0, 7, 40)
    places = rng.integers(0, 5, (7, 30))
    source = drawn(dtype, 7, 30)
    run(
        codegen,
        lambda x, i, s, p, q: [
            ops.index_add(x, i, s, dim=0), ops.scatter_add(x, p, q, dim=1),
        ],
        x, index, rows, places, source, deterministic=deterministic,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", REAL, ids=lambda dtype: dtype.name)
def test_products_and_extrema_at_places_that_meet_in_every_dtype(
    codegen: Any, dtype: Any, mode: str
) -> None:
    """Every place belongs to one thread: no atomics. NaN is larger and smaller than any number."""
    x, source = drawn(dtype, 7, 5), drawn(dtype, 7, 30)
    rows, places = rng.integers(0, 7, (40, 5)), rng.integers(0, 5, (7, 30))
    if dtype.is_floating_point:
        x[2, 1] = source[3, 4] = np.nan
    program = run(
        codegen,
        lambda x, i, s, p, q: [
            ops.scatter_reduce(x, i, s, dim=0, mode=mode),
            ops.scatter_reduce(x, p, q, dim=1, mode=mode),
        ],
        x, rows, drawn(dtype, 40, 5), places, source,
    )  # fmt: skip
    assert not any("dj_atomic" in kernel.source for kernel in program.unit.kernels)


@pytest.mark.parametrize("dtype", REAL, ids=lambda dtype: dtype.name)
def test_the_last_of_the_writes_that_meet_stays(codegen: Any, dtype: Any) -> None:
    """In row-major order of the writes, whichever thread comes first."""
    x, source, places = drawn(dtype, 7, 5), drawn(dtype, 7, 30), rng.integers(0, 5, (7, 30))
    at, values = rng.integers(0, 5, (2, 100)), drawn(dtype, 100)
    program = run(
        codegen,
        lambda x, p, s, i, v: [
            ops.scatter(x, p, s, dim=1), ops.index_put(x, i, v, dims=(0, 1)),
        ],
        x, places, source, at, values,
    )  # fmt: skip
    assert any(isinstance(step, Memset) for step in program.unit.steps)


def test_rows_are_claimed_once_each(codegen: Any) -> None:
    """Where whole rows are written, the number of a write is compared per row, not per element."""
    index = rng.integers(0, 6, (1, 50))
    program = run(
        codegen, lambda x, i, v: ops.index_put(x, i, v, dims=(0,)),
        drawn(dtypes.float32, 6, 300), index, drawn(dtypes.float32, 50, 300),
    )  # fmt: skip
    (claim,) = (kernel for kernel in program.unit.kernels if kernel.name.endswith("_claim"))

    assert (1, 1, 1) == claim.grid


def test_writes_that_cannot_meet_need_no_owners_and_no_atomics(codegen: Any) -> None:
    """A scatter of one write per row."""
    program = run(
        codegen, lambda x, i, v: ops.scatter(x, i, v, dim=1),
        drawn(dtypes.float32, 50, 30), rng.integers(0, 30, (50, 1)), drawn(dtypes.float32, 50, 1),
    )  # fmt: skip
    assert not any(isinstance(step, Memset) for step in program.unit.steps)
    assert not any("dj_atomic" in kernel.source for kernel in program.unit.kernels)


def test_deterministic_sums_use_no_atomics(codegen: Any) -> None:
    """Floats only: integers have the same bits in any order."""
    floats = (drawn(dtypes.float32, 9, 8), rng.integers(0, 9, 70), drawn(dtypes.float32, 70, 8))
    function = lambda x, i, s: ops.index_add(x, i, s, dim=0)
    fixed = run(codegen, function, *floats, deterministic=True)
    free = run(codegen, function, *floats)

    assert not any("dj_atomic" in kernel.source for kernel in fixed.unit.kernels)
    assert any("dj_atomic_add" in kernel.source for kernel in free.unit.kernels)


@pytest.mark.parametrize("size", [1, 3, 64, 127, 1000])
def test_odd_rows_are_added_by_packs_and_by_elements(codegen: Any, size: int) -> None:
    run(
        codegen, lambda x, i, s: ops.index_add(x, i, s, dim=0),
        drawn(dtypes.float32, 5, size), rng.integers(0, 5, 9), drawn(dtypes.float32, 9, size),
    )  # fmt: skip


@pytest.mark.parametrize("wrong", [7, -8, 1 << 40])
def test_an_index_out_of_range_is_reported(codegen: Any, wrong: int) -> None:
    index = rng.integers(0, 7, 40)
    index[13] = wrong
    arguments = (drawn(dtypes.float32, 7, 5), index, drawn(dtypes.float32, 40, 5))
    graph = codegen.graph_of(
        lambda x, i, s: ops.index_add(x, i, s, dim=0), *map(codegen.type_of, arguments)
    )
    with pytest.raises(BoundsError, match=f"index {wrong} is out of range"):
        EmulatedProgram(graph)(*arguments)
