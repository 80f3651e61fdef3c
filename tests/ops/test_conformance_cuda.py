"""The conformance test's CUDA column: a row's kernels on the emulator give what it gives eagerly.

Rows of one dtype are compiled together, a part at a time. float32 by default; every dtype with
`--cuda all` (`make test-cuda`).
"""

import functools
import shutil
import tempfile
from pathlib import Path

import pytest

from dynajit.codegen.cuda import text as cuda_text
from dynajit.codegen.cuda.text import Unit
from dynajit.core.types import dtypes
from dynajit.ir.graph import Graph
from dynajit.ir.pipeline import optimize
from dynajit.ops import Op
from tests.support.kernels.emulated import Emulated, emulate
from tests.support.rows.oracle import LEAST, assert_close
from tests.support.rows.row_graphs import OTHER_DTYPES, ROWS, accepted, graph_of
from tests.support.rows.tape import run

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]

PART = 40
"""Rows that are compiled together."""


def unit_of(op: Op, dtype: str) -> tuple[Graph, Unit] | str:
    """The row's graph and unit, or why it has none."""
    drawn = accepted(op, dtypes.by_name(dtype))
    if not drawn:
        return "the row refuses the dtype"
    graph = optimize(graph_of(op, drawn)[0], keeps=cuda_text.keeps_native)
    reason = cuda_text.why_not(graph)
    if reason is not None:
        return reason
    unit = cuda_text.generate(graph, op.name)
    return unit.graph, unit


@functools.cache
def part_of(dtype: str, number: int) -> dict[str, Emulated | str]:
    """Some rows in a dtype: programs, or why there is none."""
    rows = ROWS[number * PART : (number + 1) * PART]
    found = {op.name: unit_of(op, dtype) for op in rows}
    units = {name: unit for name, unit in found.items() if not isinstance(unit, str)}
    with tempfile.TemporaryDirectory() as folder:
        programs = emulate(units, Path(folder))
    return {op.name: programs.get(op.name, found[op.name]) for op in rows}  # type: ignore


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", ["float32", *OTHER_DTYPES])
def test_a_row_on_the_emulator_gives_what_eager_gives(
    op: Op, dtype: str, pytestconfig: pytest.Config
) -> None:
    if dtype != "float32" and pytestconfig.getoption("cuda") != "all":
        pytest.skip("run with --cuda all")
    program = part_of(dtype, ROWS.index(op) // PART)[op.name]
    if isinstance(program, str):
        pytest.skip(program)
    drawn = accepted(op, dtypes.by_name(dtype))
    results = program(*graph_of(op, drawn)[1])
    assert len(results) == len(drawn)
    for sample, actual in zip(drawn, results, strict=True):
        expected = run(op, sample.inputs, sample.attributes)
        message = f"{op.name} {dtype} {sample.name}"
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), message
        least = LEAST.get(op.name)
        assert_close(actual, expected, dtypes.by_name(dtype), 4.0, message, least=least)
