"""Random graphs as CUDA text on the emulator: as accurate as the interpreter, by float64.

The graphs of `test_fuzz.py`, all of a test in one text. `DYNAJIT_FUZZ_SEEDS` and
`DYNAJIT_FUZZ_FIRST` as there.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from dynajit.codegen.cuda import text as cuda_text
from dynajit.codegen.cuda.text import Unit
from dynajit.ir.graph import Graph
from dynajit.ir.pipeline import optimize
from tests.codegen.test_fuzz import FIRST, SCALE, made_from, names
from tests.support.kernels.emulated import emulate
from tests.support.kernels.fuzz_graphs import Made, why_wrong, widened

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]

PART = 10
"""Graphs that are compiled together."""


def unit_of(made: Made) -> tuple[Graph, Unit] | None:
    """The optimised graph and its unit; None where CUDA has no kernel for something in it."""
    graph = optimize(made.graph, keeps=cuda_text.keeps_native)
    if cuda_text.why_not(graph) is not None:
        return None
    unit = cuda_text.generate(graph, graph.name)
    return unit.graph, unit


def parts(count: int) -> range:
    """First seeds of the parts."""
    return range(FIRST, FIRST + round(count * SCALE), PART)


@pytest.mark.parametrize("first", parts(40))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_graphs_are_as_accurate_as_the_interpreter(first: int, tmp_path: Path) -> None:
    made = {seed: made_from(seed) for seed in range(first, first + PART)}
    units = {str(seed): unit for seed in made if (unit := unit_of(made[seed])) is not None}
    assert len(units) > PART // 2
    for seed, program in emulate(units, tmp_path).items():
        graph = made[int(seed)]
        actual = program(*graph.inputs)
        narrow = int(seed) % 5 == 4
        for k, values in enumerate(zip(graph.narrow(), graph.wide(), actual, strict=True)):
            reason = why_wrong(*values, exact=graph.exact[k], narrow=narrow)
            assert reason is None, f"seed {seed}, {names(graph)[k]}: {reason}\n{graph.graph}"


@pytest.mark.parametrize("first", parts(20))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values_pass_through_random_graphs(first: int, tmp_path: Path) -> None:
    """NaN, infinities and exact numbers are the interpreter's, each in its place."""
    made = {seed: made_from(seed, special=True) for seed in range(first, first + PART)}
    units = {str(seed): unit for seed in made if (unit := unit_of(made[seed])) is not None}
    for seed, program in emulate(units, tmp_path).items():
        graph = made[int(seed)]
        actual = program(*graph.inputs)
        for name, left, right in zip(names(graph), graph.narrow(), actual, strict=True):
            assert (left.shape, left.dtype) == (right.shape, right.dtype), name
            message = f"seed {seed}, {name}\n{graph.graph}"
            np.testing.assert_array_equal(widened(right), widened(left), message)
