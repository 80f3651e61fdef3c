"""Row kernels that go through large rows more than once ask for later rows in the first pass."""

import numpy as np
import pytest

from dynajit.codegen.pipeline import compile_graph
from dynajit.core import config
from dynajit.ops import TABLE as ops

ROWS, COLUMNS = 307, 1031
"""More than a mebibyte of floats, in rows that no number of lanes divides."""


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def softmax(x):
    return ops.softmax(x, dim=1)


def source_of(codegen, function, *arguments) -> str:
    graph = codegen.graph_of(function, *map(codegen.type_of, arguments))
    return "\n".join(kernel.source for kernel in compile_graph(graph).kernels)


@pytest.mark.parametrize(
    ("function", "requests"),
    [
        (softmax, 4),
        (lambda x: ops.argmax(x, dim=(1,)), 4),
        (lambda x: ops.var(x, dim=(1,)), 2),
    ],
    ids=["softmax", "argmax", "variance"],
)
def test_a_second_pass_reads_ahead_in_the_first(codegen, function, requests):
    """A request for each line of 16 floats of the lanes: 64 of a choice, 32 of a sum."""
    source = source_of(codegen, function, normal(ROWS, COLUMNS))

    assert requests == source.count("__builtin_prefetch(")
    assert f"+ {8192 // 4 + 16 * (requests - 1)})]" in source


def test_what_is_read_in_a_later_pass_only_is_asked_for_too(codegen):
    source = source_of(
        codegen, lambda x, y: x - y * ops.sum(x, dim=(1,), keepdim=True),
        normal(ROWS, COLUMNS), normal(ROWS, COLUMNS),
    )  # fmt: skip

    assert 4 == source.count("__builtin_prefetch(")


def test_a_single_pass_does_not_read_ahead(codegen):
    source = source_of(codegen, lambda x: ops.sum(x, dim=(1,)), normal(ROWS, COLUMNS))

    assert "__builtin_prefetch(" not in source


@pytest.mark.parametrize(
    "x",
    [normal(16, COLUMNS), normal(COLUMNS, ROWS).T, normal(ROWS, 2 * COLUMNS)[:, ::2],
     normal(ROWS, COLUMNS + 40)[:, 40:]],
    ids=["small", "transposed", "every other column", "rows with gaps"],
)  # fmt: skip
def test_arrays_that_are_small_or_have_gaps_are_not_read_ahead(codegen, x):
    assert "__builtin_prefetch(" not in source_of(codegen, softmax, x)


def test_results_are_right_and_do_not_depend_on_threads(codegen):
    x = normal(ROWS, COLUMNS)
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    results = []
    for threads in (1, 2):
        with config.override(num_threads=threads):
            program = compile_graph(codegen.graph_of(softmax, codegen.type_of(x)))
            results.append(program(x)[0])

    np.testing.assert_allclose(results[0], powers / powers.sum(1, keepdims=True), rtol=2e-6)
    np.testing.assert_array_equal(results[0], results[1])
