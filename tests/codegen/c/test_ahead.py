"""Row kernels that go through large rows more than once ask for later rows in the
busiest pass."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.pipeline import compile_graph
from dynajit.core.process import config
from dynajit.ops import TABLE as ops

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

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
        (softmax, 2),
        (lambda x: ops.var(x, dim=(1,)), 2),
    ],
    ids=["softmax", "variance"],
)
def test_one_of_two_passes_reads_ahead(codegen, function, requests):
    """A request for each line of 16 floats of the 32 lanes of a sum; as many for what a later pass
    stores."""
    source = source_of(codegen, function, normal(ROWS, COLUMNS))

    assert requests == source.count("__builtin_prefetch(")
    assert source.count("DJ_ASK_STORED(0, ") == (2 if function is softmax else 0)
    assert f"+ {8192 // 4 + 16 * (requests - 1)})]" in source


def test_a_choice_reads_a_row_ahead_where_that_pays(codegen):
    """A request for each line of 16 floats of the 64 lanes; on AMD's processors it is nothing."""
    source = source_of(codegen, lambda x: ops.argmax(x, dim=(1,)), normal(ROWS, COLUMNS))

    assert 4 == source.count("DJ_ASK_CLOSE(&")
    assert f"+ {8192 // 4 + 16 * 3})]" in source


def test_the_pass_that_computes_most_reads_ahead(codegen):
    """Of softmax the sum of exponentials, not the maximum before it."""
    maximum, total = source_of(codegen, softmax, normal(ROWS, COLUMNS)).split("float r0_sum", 1)

    assert "__builtin_prefetch(" not in maximum
    assert total.index("__builtin_prefetch(") < total.index("dj_exp_f32(")


def test_what_is_read_in_a_later_pass_only_is_asked_for_too(codegen):
    source = source_of(
        codegen, lambda x, y: x - y * ops.sum(x, dim=(1,), keepdim=True),
        normal(ROWS, COLUMNS), normal(ROWS, COLUMNS),
    )  # fmt: skip

    assert 4 == source.count(")]);") - 2 == source.count("__builtin_prefetch(")
    assert 2 == source.count("DJ_ASK_STORED_SOON(0, ")


def test_what_the_busiest_pass_itself_stores_is_not_asked_for(codegen):
    source = source_of(
        codegen,
        lambda x: (ops.exp(x - ops.amax(x, dim=(1,), keepdim=True)), ops.amax(x, dim=(1,))),
        normal(ROWS, COLUMNS),
    )

    assert "DJ_ASK_STORED_SOON(0, " in source
    assert source.index("DJ_ASK_STORED_SOON(0, ") < source.index("dj_exp_f32(t")


def test_a_single_pass_of_a_reduction_asks_for_what_is_close(codegen):
    source = source_of(codegen, lambda x: ops.sum(x, dim=(1,)), normal(ROWS, COLUMNS))

    assert 2 == source.count("DJ_ASK_CLOSE(&")
    assert f"+ {512 // 4})]" in source


@pytest.mark.parametrize(
    ("function", "only_reads"),
    [
        (lambda x: ops.sum(x, dim=(1,)), True),
        (lambda x: ops.sum(x * x, dim=(0, 1)), True),
        (lambda x: ops.sum(ops.exp(x), dim=(1,)), False),
        (lambda x: ops.amax(x, dim=(1,)), False),
        (lambda x: ops.var(x, dim=(1,)), False),
    ],
    ids=["sum", "of squares", "of exponentials", "maximum", "two passes"],
)
def test_sums_that_wait_for_memory_only_are_told(codegen, function, only_reads):
    assert only_reads == ("DJ_READS static" in source_of(codegen, function, normal(ROWS, COLUMNS)))


def test_results_in_an_array_of_their_own_are_computed_without_requests(codegen):
    source = source_of(codegen, lambda x: x + x, normal(ROWS, COLUMNS))
    assert "__builtin_prefetch(" not in source
    assert "DJ_ASK_CLOSE(" not in source


@pytest.mark.parametrize("size", [(1 << 18) + 37, 1 << 19], ids=["rest", "even"])
def test_updates_in_place_read_ahead_and_are_exact(tmp_path, size):
    """The arrays of a momentum step: 4 requests for each of 3."""
    gradient, momentum, parameter = (normal(3, size)[k] for k in range(3))
    tensors = [dj.from_numpy(a.copy()) for a in (gradient, momentum, parameter)]

    def step(gradient, momentum, parameter):
        momentum.mul_(0.5).add_(gradient)
        parameter.sub_(momentum)

    with config.override(dump=tmp_path):
        dj.compile(step)(*tensors)

    momentum = momentum * np.float32(0.5) + gradient
    np.testing.assert_array_equal(tensors[1].numpy(), momentum)
    np.testing.assert_array_equal(tensors[2].numpy(), parameter - momentum)
    (source,) = tmp_path.glob("*/*_forward.c")
    assert 12 == source.read_text().count("DJ_ASK_CLOSE(&")


@pytest.mark.parametrize(
    "x",
    [normal(16, COLUMNS), normal(COLUMNS, ROWS).T, normal(ROWS, 2 * COLUMNS)[:, ::2],
     normal(ROWS, COLUMNS + 40)[:, 40:]],
    ids=["small", "transposed", "every other column", "rows with gaps"],
)  # fmt: skip
def test_arrays_that_are_small_or_have_gaps_are_not_read_ahead(codegen, x):
    source = source_of(codegen, softmax, x)
    assert "__builtin_prefetch(" not in source
    assert ("DJ_ASK_STORED(" in source) == (x.size > ROWS * COLUMNS // 2)  # the result has no gaps


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
