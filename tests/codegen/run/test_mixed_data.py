"""Programs in a row as data: what is read again computes the same; what cannot be kept says so."""

import json
from typing import Any

import numpy as np
import pytest

from dynajit.codegen import pipeline
from dynajit.codegen.run.blueprints import Unstorable
from dynajit.codegen.run.mixed_program import MixedProgram
from dynajit.core.types import dtypes
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder, Graph
from dynajit.ops.table.op_table import TABLE as ops


def kept(graph: Graph) -> Any:
    """The blueprint of a graph's program, written and read."""
    started = pipeline.start_compile(graph)
    assert isinstance(started(), MixedProgram)
    return pipeline.from_data(json.loads(json.dumps(pipeline.to_data(started.blueprint))))


def test_what_was_kept_computes_the_same() -> None:
    """Rows with attributes between kernels; a result that is a number, and one that is an input."""
    builder = Builder("g")
    x = builder.placeholder("x", TensorType((4, 4), dtypes.float64))
    scale = ops.exp(x) * 2.0
    solved = ops.triangular_solve(scale, scale + 1.0, upper=True, unit=False)
    rotated = ops.pseudo_inverse(scale, rtol=1e-12, atol=0.0)
    graph = builder.finish([ops.sin(solved) + rotated, ops.inverse(scale), 3, x])
    array = np.random.default_rng(0).standard_normal((4, 4))

    expected = pipeline.start_compile(graph)()(array)
    found = pipeline.start_build(kept(graph))()(array)

    assert 3 == found[2]
    assert array is found[3]
    for one, other in zip(expected[:2], found[:2], strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_of_symbolic_sizes_are_not_kept() -> None:
    builder = Builder("g")
    size = symbol("s0", 2)
    x = builder.placeholder("x", TensorType((size, size), dtypes.float64))
    graph = builder.finish([ops.exp(ops.inverse(x)) + 1.0])

    with pytest.raises(Unstorable, match="symbolic"):
        kept(graph)


def test_data_that_names_no_row_is_refused() -> None:
    builder = Builder("g")
    x = builder.placeholder("x", TensorType((3, 3), dtypes.float64))
    started = pipeline.start_compile(builder.finish([ops.exp(ops.inverse(x))]))
    text = json.dumps(pipeline.to_data(started.blueprint)).replace('"inverse"', '"unheard of"')

    with pytest.raises(KeyError):
        pipeline.from_data(json.loads(text))
