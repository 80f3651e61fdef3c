"""The conformance test's graph columns: each row in a graph gives what it gives eagerly.

Columns: `interpreted` (all graph passes, then NumPy) and `compiled` (all passes, then native
code; library calls without a kernel run on NumPy). One graph holds a node per sample of a row, so
that there is one compilation per row and dtype. Placeholders carry the real strides; numbers are
literals in one half of the nodes and run-time scalars in the other. The derivative of the graph is
compared with the referee's.
"""

import shutil
from typing import Any

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ir import interpret
from dynajit.ir.autodiff import differentiate
from dynajit.ir.graph import Graph
from dynajit.ir.pipeline import optimize
from dynajit.ops import Kind, Op
from dynajit.ops.table.scalar import SCALARS
from tests.support.rows.oracle import assert_close
from tests.support.rows.row_graphs import OTHER_DTYPES, ROWS, accepted, graph_of
from tests.support.rows.tape import Tracked, gradients, refuses, run, tracked

pytestmark = pytest.mark.one_python

NATIVE_CALLS = ("matmul", "cumsum", "cumprod", "argsort")
COMPLEX_VIEWS = ("view_as_complex",)  # views of real operands with complex results
IN_SOME_DTYPES = tuple(name for name, row in SCALARS.items() if row.kernels is not None)
FALLS_BACK = pytest.mark.filterwarnings(
    "ignore:.*(has no native lowering|have no native code):RuntimeWarning"
)
ALL_ROWS = pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, marks=FALLS_BACK)
        if (op.kind is Kind.EXTERN and op.name not in NATIVE_CALLS)
        or op.name in (*COMPLEX_VIEWS, *IN_SOME_DTYPES)
        else op
        for op in ROWS
    ],
    ids=lambda op: op.name,
)
COMPILER = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")


def interpreted(graph: Graph) -> Any:
    """The graph after all passes, run by NumPy."""
    optimized = optimize(graph)
    return lambda *inputs: interpret.run(optimized, inputs)


def compiled(graph: Graph) -> Any:
    """The graph after all passes as native code."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    pipeline = pytest.importorskip("dynajit.codegen.pipeline")
    return pipeline.compile_graph(optimize(graph))


COLUMNS = pytest.mark.parametrize("execute", [interpreted, compiled], ids=lambda f: f.__name__)


def assert_equal_to_eager(op: Op, dtype: DType, execute: Any) -> None:
    drawn = accepted(op, dtype)
    if not drawn:
        return
    graph, inputs = graph_of(op, drawn)
    results = execute(graph)(*inputs)
    assert len(results) == len(drawn)
    for sample, actual in zip(drawn, results, strict=True):
        expected = run(op, sample.inputs, sample.attributes)
        message = f"{op.name} {dtype.name} {sample.name}"
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), message
        assert_close(actual, expected, dtype, 4.0, message)


@COLUMNS
@ALL_ROWS
def test_a_graph_gives_what_eager_gives(op: Op, execute: Any) -> None:
    assert_equal_to_eager(op, dtypes.float32, execute)


@pytest.mark.parametrize("dtype", OTHER_DTYPES)
@ALL_ROWS
def test_interpreted_graphs_keep_every_dtype(op: Op, dtype: str) -> None:
    assert_equal_to_eager(op, dtypes.by_name(dtype), interpreted)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", OTHER_DTYPES)
@ALL_ROWS
def test_compiled_graphs_keep_every_dtype(op: Op, dtype: str) -> None:
    assert_equal_to_eager(op, dtypes.by_name(dtype), compiled)


@pytest.mark.parametrize(
    "execute",
    [interpreted, pytest.param(compiled, marks=pytest.mark.slow)],
    ids=lambda f: f.__name__,
)
@ALL_ROWS
def test_the_joint_graph_gives_the_referees_gradients(op: Op, execute: Any) -> None:
    drawn = tuple(
        sample
        for sample in accepted(op, dtypes.float64)
        if any(isinstance(x, np.ndarray) for x in sample.inputs)
        # What is kept for derivatives comes into graphs after differentiation.
        and not sample.attributes.get("keeps", False)
    )
    if not drawn:
        return
    graph, inputs = graph_of(op, drawn)
    refused = [id(x) for sample in drawn for i, x in enumerate(sample.inputs) if refuses(op, i)]
    wanted = [
        isinstance(x, np.ndarray) and x.dtype == np.float64 and id(x) not in refused for x in inputs
    ]
    joint = differentiate(graph, wanted)
    if not joint.differentiable_outputs:
        return
    types = [(position, graph.outputs[position].type) for position in joint.differentiable_outputs]
    seeds = [
        np.random.default_rng(position).uniform(0.5, 1.5, type.shape).astype(type.dtype.numpy)
        for position, type in types
    ]
    results = execute(joint.graph)(*inputs, *seeds)
    actual = list(results[joint.output_count :])
    for position, sample in enumerate(drawn):
        leaves = tracked(op, sample.inputs)
        chosen = [x for x in leaves if isinstance(x, Tracked) and x.array.dtype == np.float64]
        expected: list[Any] = [None] * len(chosen)
        if position in joint.differentiable_outputs:
            seed = seeds[joint.differentiable_outputs.index(position)]
            out = op(*leaves, **sample.attributes)
            expected = gradients(out, Tracked(seed), chosen)
        for theirs in expected:
            mine = actual.pop(0)
            if theirs is None or mine is None:
                assert theirs is mine, sample.name
            else:
                assert_close(mine, theirs.array, dtypes.float64, 100.0, f"{op.name} {sample.name}")
