"""Sorting orders as CUDA on the emulator: rows in a block, runs that are merged."""

import shutil
from typing import Any

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import TensorType
from dynajit.ops import TABLE as ops
from tests.support.kernels.emulated import EmulatedProgram

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]


def order(x: np.ndarray, dim: int, *, descending: bool) -> np.ndarray:
    """Positions of a stable order, NaN as the largest."""
    keys = -x if descending else x
    return np.argsort(keys, axis=dim, kind="stable")


def ordered(codegen: Any, x: Any, **attributes: Any) -> EmulatedProgram:
    given = {"dim": 0, "start": 0, "stop": None, "descending": False, **attributes}
    type = x if isinstance(x, TensorType) else codegen.type_of(x)
    return EmulatedProgram(codegen.graph_of(lambda x: ops.argsort(x, **given), type))


@pytest.mark.parametrize("size", [2049, 4096, 4097, 8193, 9000])
@pytest.mark.parametrize("descending", [False, True])
def test_long_rows_are_merged_from_runs(codegen: Any, size: int, descending: bool) -> None:
    """Runs of unequal numbers and lengths; few values, so that many are equal."""
    x = np.random.default_rng(0).integers(0, 50, (2, size)).astype(np.float32)
    program = ordered(codegen, x, dim=1, descending=descending)

    assert len(program.unit.kernels) == 1 + int(np.ceil(np.log2(size / 2048)))
    np.testing.assert_array_equal(order(x, 1, descending=descending), program(x)[0])


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 50), (20, 3000), (2040, 2060)])
def test_only_wanted_places_are_kept(codegen: Any, start: int, stop: int) -> None:
    x = np.random.default_rng(0).permutation(9000).astype(np.int32)
    program = ordered(codegen, x, start=start, stop=stop)

    np.testing.assert_array_equal(order(x, 0, descending=False)[start:stop], program(x)[0])
    kept = [b for k in program.unit.kernels for b in k.buffers if "keys0" in b.name]
    assert kept[0].size <= 5 * min(stop, 2048)


def test_one_unit_orders_rows_of_any_length(codegen: Any) -> None:
    type = TensorType((symbol("s0", 2), symbol("s1", 2)), dtypes.float64)
    program = ordered(codegen, type, dim=1)
    for shape in ((2, 2), (3, 2048), (2, 2049), (1, 4096), (2, 9000)):
        x = np.random.default_rng(1).standard_normal((max(shape[0], 2), shape[1]))
        np.testing.assert_array_equal(order(x, 1, descending=False), program(x)[0])


def test_many_short_rows_share_a_block(codegen: Any) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (3, 5, 300)).astype(np.int8)
    program = ordered(codegen, x, dim=1)
    (kernel,) = program.unit.kernels

    assert (4, 1, 1) == kernel.grid  # 900 rows, of 8 places each
    np.testing.assert_array_equal(order(x, 1, descending=False), program(x)[0])
