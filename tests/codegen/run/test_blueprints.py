"""Programs as data: what is read back makes a program that does the same."""

import json

import ml_dtypes
import numpy as np
import pytest

from dynajit.codegen.pipeline import compile_graph, start_build, start_compile
from dynajit.codegen.run.blueprints import LARGEST_CONSTANTS, Unstorable, from_data, to_data
from dynajit.core.errors import BoundsError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.graph import Builder
from dynajit.ops import TABLE as ops

pytestmark = pytest.mark.c_only


def again(graph):
    """The program of a graph, made of its blueprint after a way through JSON."""
    data = to_data(start_compile(graph).blueprint)
    return start_build(from_data(json.loads(json.dumps(data))))()


def test_results_numbers_and_symbols_survive(codegen) -> None:
    """Arguments that are numbers, literal results, arguments given back."""
    graph = codegen.graph_of(
        lambda x, n: (ops.mul(x, n), 2.5, None, x, True),
        TensorType((3, 4), dtypes.float32, strides=(1, 3)),
        ScalarType(dtypes.Category.FLOATING),
    )
    x = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))

    product, number, nothing, same, truth = again(graph)(x, 0.5)

    np.testing.assert_array_equal(x * np.float32(0.5), product)
    assert (2.5, None, True) == (number, nothing, truth)
    assert same is x


def test_constants_survive(codegen) -> None:
    """Of every class of numbers, zero-dim and bfloat16 included."""
    kept = np.array([[1.5, -2.0], [0.25, 7.0]], ml_dtypes.bfloat16)

    def function(x):
        builder = x.builder
        wide = builder.constant(np.arange(40, dtype=np.int64))
        return ops.add(x, builder.constant(kept)), ops.add(wide, builder.constant(np.array(3)))

    graph = codegen.graph_of(function, TensorType((2, 2), dtypes.float32), optimized=False)
    program = compile_graph(graph)
    x = np.ones((2, 2), np.float32)

    for expected, found in zip(program(x), again(graph)(x), strict=True):
        assert expected.dtype == found.dtype
        np.testing.assert_array_equal(expected, found)


def test_kernels_say_their_kind_and_what_they_store(codegen) -> None:
    """Values within a kernel are not in memory; what is read back says the same."""

    def function(x):
        total = ops.sum(ops.exp(ops.matmul(x, x)), dim=(1,))
        return ops.add(total, 1.0), total

    graph = codegen.graph_of(function, TensorType((4, 4), dtypes.float32))
    program = compile_graph(graph)

    found = [(kernel.kind, kernel.stores) for kernel in program.kernels]
    assert [("matmul", ("matmul",)), ("row", ("sum", "add"))] == found
    assert program.kernels == again(graph).kernels


def test_reports_and_errors_are_the_same(codegen) -> None:
    """Kernels, text, notes, and the message of a failure."""
    graph = codegen.graph_of(
        lambda x, i: ops.index_select(x, i, dim=0),
        TensorType((3, 4), dtypes.float32),
        TensorType((2,), dtypes.int64),
    )
    program = compile_graph(graph)
    other = again(graph)

    assert program.kernels == other.kernels
    assert (program.source, program.explain) == (other.source, other.explain)
    assert program.may_fail == other.may_fail
    assert other.from_cache
    arguments = (np.ones((3, 4), np.float32), np.array([0, 9]))
    messages = set()
    for each in (program, other):
        with pytest.raises(BoundsError) as caught:
            each(*arguments)
        messages.add(str(caught.value))
    assert 1 == len(messages)


def test_what_is_not_a_number_is_not_stored() -> None:
    """An array that the graph holds would come back as another object."""
    builder = Builder("graph")
    x = builder.placeholder("x", TensorType((2,), dtypes.float32))
    constant = builder.constant(np.ones(3))
    started = start_compile(builder.finish([ops.exp(x), constant]))

    with pytest.raises(Unstorable, match="ndarray"):
        to_data(started.blueprint)


def test_large_constants_are_not_stored() -> None:
    """The cache holds kernels, not data."""
    builder = Builder("graph")
    x = builder.placeholder("x", TensorType((1,), dtypes.float32))
    large = builder.constant(np.zeros(LARGEST_CONSTANTS // 4 + 1, np.float32))
    started = start_compile(builder.finish([ops.add(x, large)]))

    with pytest.raises(Unstorable, match="large"):
        to_data(started.blueprint)
