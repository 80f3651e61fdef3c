"""Every row, and random graphs, compiled for the GPU: what comes out is what rows give on NumPy.

On a GPU all rows run in float32, and in every dtype with `--cuda all`. On the stand-ins, where g++
takes a second for each program, some do; all of them run on the emulator alone in
`tests/ops/test_conformance_cuda.py`, many in one text.
"""

import functools
import os
import warnings
from typing import Any

import numpy as np
import pytest

from dynajit.codegen import pipeline
from dynajit.codegen.compilers.started import Started
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.types import dtypes
from dynajit.ir.graph import Graph
from dynajit.ir.pipeline import optimize
from dynajit.ops import Op
from tests.codegen.test_fuzz import made_from, names
from tests.support.gpu.device_graphs import GPU, array, host, moved
from tests.support.kernels.fuzz_graphs import why_wrong
from tests.support.rows.oracle import assert_close
from tests.support.rows.row_graphs import OTHER_DTYPES, ROWS, accepted, graph_of
from tests.support.rows.tape import run

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.usefixtures("driver", "kernel_cache"),
    pytest.mark.filterwarnings("ignore:dynajit. .* is cut into:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
PART = 16
"""Programs whose kernels compile side by side, and of which one runs on the stand-in."""
IS_ONE_OF_SEVERAL = "PYTEST_XDIST_WORKER" in os.environ
"""Programs are compiled one by one: other processes have the others."""
UP_TO_SIGNS = ("symmetric_eigen", "general_eigen", "singular_values")
"""Vectors of either sign are right: products of the factors are compared in test_linear_algebra."""
ADDED_TO_ONE = ("gelu",)
"""1 + erf(x) cancels below 0: errors count relative to the 1, as erf is good to two roundings.
Source: CUDA Programming Guide, "Mathematical Functions Appendix"."""
SEEDS = int(os.environ.get("DYNAJIT_FUZZ_SEEDS", "60"))


def runs_here(number: int, is_stand_in: bool, every: int) -> bool:
    """All of them on a GPU, one of so many on the stand-in."""
    return not is_stand_in or number % every == 0


def on_gpu(graph: Graph) -> Graph:
    """The optimised graph with all values on the GPU."""
    return optimize(moved(graph, GPU))


@functools.cache
def started(dtype: str, part: int) -> dict[str, tuple[Started, list[Any]]]:
    """Programs of some rows on their way."""
    found = {}
    for op in ROWS[part * PART : (part + 1) * PART]:
        drawn = accepted(op, dtypes.by_name(dtype))
        if drawn:
            graph, inputs = graph_of(op, drawn)
            found[op.name] = (pipeline.start_compile(on_gpu(graph), name=op.name), inputs)
    return found


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", ["float32", *OTHER_DTYPES])
def test_a_row_on_the_gpu_gives_what_eager_gives(
    op: Op, dtype: str, is_stand_in: bool, pytestconfig: pytest.Config
) -> None:
    if dtype != "float32" and pytestconfig.getoption("cuda") != "all":
        pytest.skip("run with --cuda all")
    place = ROWS.index(op)
    if not runs_here(place, is_stand_in, every=PART):
        pytest.skip("on a GPU, and on the emulator in tests/ops/test_conformance_cuda.py")
    drawn = accepted(op, dtypes.by_name(dtype))
    if not drawn:
        pytest.skip("the row refuses the dtype")
    if is_stand_in or IS_ONE_OF_SEVERAL:
        graph, inputs = graph_of(op, drawn)
        program = pipeline.compile_graph(on_gpu(graph), name=op.name)
    else:
        on_its_way, inputs = started(dtype, place // PART)[op.name]
        program = on_its_way()
    results = program(*map(array, inputs))

    assert len(results) == len(drawn)
    for sample, actual in zip(drawn, results, strict=True):
        expected = run(op, sample.inputs, sample.attributes)
        message = f"{op.name} {dtype} {sample.name}"
        assert gpu.is_gpu_array(actual), message
        actual = host(actual)
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), message
        if op.name in UP_TO_SIGNS:
            actual, expected = np.abs(actual), np.abs(expected)
        least = 1.0 if op.name in ADDED_TO_ONE else None
        assert_close(actual, expected, dtypes.by_name(dtype), 4.0, message, least=least)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_graphs_are_as_accurate_as_the_interpreter(seed: int, is_stand_in: bool) -> None:
    if not runs_here(seed, is_stand_in, every=10):
        pytest.skip("on a GPU, and on the emulator in tests/codegen/test_fuzz_cuda.py")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = made_from(seed)
    program = pipeline.compile_graph(on_gpu(made.graph), name=f"random{seed}")
    actual = [np.asarray(host(a)) for a in program(*map(array, made.inputs))]
    narrow = seed % 5 == 4
    for k, values in enumerate(zip(made.narrow(), made.wide(), actual, strict=True)):
        reason = why_wrong(*values, exact=made.exact[k], narrow=narrow)
        assert reason is None, f"seed {seed}, {names(made)[k]}: {reason}\n{made.graph}"
