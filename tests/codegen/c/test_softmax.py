"""Sums of exponentials beside the largest one are the same without their smallest terms."""

import numpy as np
import pytest

from dynajit.codegen.c import softmax as c_softmax
from dynajit.codegen.pipeline import compile_graph
from dynajit.ops import TABLE as ops

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

ROWS, COLUMNS = 7, 1031


def normal(*shape: int, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


def log_softmax(x):
    return ops.log_softmax(x, dim=1)


def powers(x):
    """exp(x - max), by rows."""
    return ops.exp(x - ops.amax(x, dim=(1,), keepdim=True))


def source_of(codegen, function, *arguments) -> str:
    graph = codegen.graph_of(function, *map(codegen.type_of, arguments))
    return "\n".join(kernel.source for kernel in compile_graph(graph).kernels)


@pytest.mark.parametrize(
    ("function", "is_told"),
    [
        (log_softmax, True),
        (lambda x: ops.sum(powers(x), dim=(1,)), True),
        (lambda x: ops.sum(powers(x * 2 + 1), dim=(1,)), True),
        (lambda x: ops.sum(ops.exp(x), dim=(1,)), False),
        (lambda x: ops.sum(ops.exp(x - ops.amin(x, dim=(1,), keepdim=True)), dim=(1,)), False),
        (lambda x: ops.sum(ops.exp(x - ops.amax(2 * x, dim=(1,), keepdim=True)), dim=(1,)), False),
        (lambda x: ops.amax(powers(x), dim=(1,)), False),
        (lambda x: (powers(x), ops.sum(powers(x), dim=(1,))), False),
        (lambda x: powers(x) / ops.sum(powers(x), dim=(1,), keepdim=True), False),
    ],
    ids=[
        "log-softmax", "sum", "of computed elements", "no largest", "smallest", "largest of others",
        "no sum", "stored", "softmax",
    ],
)  # fmt: skip
def test_terms_that_only_count_in_a_sum_are_told(codegen, function, is_told):
    assert is_told == (c_softmax.TERM in source_of(codegen, function, normal(ROWS, COLUMNS)))


def test_other_dtypes_are_left(codegen):
    assert c_softmax.TERM not in source_of(codegen, log_softmax, normal(ROWS, COLUMNS, dtype=float))


@pytest.mark.parametrize("columns", [1, 2, 15, 16, 65, COLUMNS, 9001])
@pytest.mark.parametrize("spread", [1e-3, 1, 30, 1e3, 1e30])
def test_values_are_those_of_float64(codegen, columns, spread):
    x = normal(ROWS, columns) * np.float32(spread)
    program = compile_graph(codegen.graph_of(log_softmax, codegen.type_of(x)))
    wide = x.astype(np.float64)
    shifted = wide - wide.max(1, keepdims=True)
    exact = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))

    np.testing.assert_allclose(program(x)[0], exact, rtol=3e-6, atol=3e-6)


def test_rows_with_infinities_and_nan_give_what_they_gave(codegen):
    x = normal(6, COLUMNS)
    x[0, 5], x[1, 5], x[2, :], x[3, 7] = np.nan, np.inf, -np.inf, -np.inf
    x[4, 1:] = -np.inf
    (actual,) = compile_graph(codegen.graph_of(log_softmax, codegen.type_of(x)))(x)

    assert np.isnan(actual[:3]).all()
    assert actual[3, 7] == -np.inf
    assert np.isfinite(np.delete(actual[3], 7)).all()
    assert actual[4, 0] == 0
    assert (actual[4, 1:] == -np.inf).all()


@pytest.mark.parametrize(
    ("function", "is_told"),
    [
        (lambda x: ops.softmax(x, dim=1), True),
        (lambda x: powers(x) / ops.sum(powers(x), dim=(1,), keepdim=True), True),
        (lambda x: 2 * ops.softmax(x, dim=1) + x, True),
        (lambda x: powers(2 * x) / ops.sum(powers(x), dim=(1,), keepdim=True), False),
        (lambda x: ops.exp(x) / ops.sum(ops.exp(x), dim=(1,), keepdim=True), False),
    ],
    ids=["softmax", "by hand", "read further", "other terms", "no largest"],
)
def test_shares_in_a_sum_with_a_1_are_told(codegen, function, is_told):
    assert is_told == (c_softmax.SHARE in source_of(codegen, function, normal(ROWS, COLUMNS)))


@pytest.mark.parametrize("spread", [1e-3, 1, 30, 1e3, 1e30])
def test_shares_have_the_bits_of_quotients(codegen, spread):
    """Where they are above 2^-100, and next to them below; NaN stays NaN."""
    x = normal(200, 512) * np.float32(spread)
    x[3, 5], x[4, 6], x[5] = np.inf, np.nan, -np.inf
    x[6, 1:] = -np.inf

    def both(x):
        terms = powers(x)
        total = ops.sum(terms, dim=(1,), keepdim=True)
        return terms / total, terms, total

    program = compile_graph(codegen.graph_of(both, codegen.type_of(x)))
    assert any(c_softmax.SHARE in kernel.source for kernel in program.kernels)
    with np.errstate(all="ignore"):
        share, terms, total = program(x)
        expected = terms / total

    large = ~(expected < 2.0**-100)
    np.testing.assert_array_equal(share[large], expected[large])
    np.testing.assert_allclose(share, expected, rtol=3e-7, atol=3e-45)
