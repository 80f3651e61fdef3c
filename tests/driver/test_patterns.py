"""Registered patterns: in every backend, with the derivatives of what replaces them."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.compilers import toolchain
from dynajit.core.errors import ArgumentError
from dynajit.driver import patterns
from dynajit.nn import functional as F

pytestmark = pytest.mark.usefixtures("strict_programs")

BACKENDS = ["eager", "numpy"] + (["native"] if toolchain.find_compiler() else [])


@pytest.fixture(autouse=True)
def _no_others(monkeypatch):
    monkeypatch.setattr(patterns, "_patterns", [])


def normalized(x):
    return x.exp() / x.exp().sum(-1, keepdim=True)


def softmax(x):
    return x.softmax(-1)


def function(x, w):
    return normalized(x @ w).sin()


def operations(backend="eager"):
    x, w = dj.ones(5, 3), dj.ones(3, 4)
    return [n.op.name for n in dj.explain(function, backend=backend)(x, w).records[0].graph.calls]


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_and_gradients_are_those_of_the_replacement(backend) -> None:
    dj.register_pattern(normalized, softmax, [dj.ones(2, 3)])
    x, w = dj.randn(2, 5, 3), dj.randn(3, 4, requires_grad=True)
    expected = function(x, w)
    (slope,) = dj.autograd.grad(expected.square().sum(), w)
    actual = dj.compile(function, backend=backend, fullgraph=True)(x, w)
    (compiled_slope,) = dj.autograd.grad(actual.square().sum(), w)

    assert ["matmul", "softmax", "sin"] == operations(backend)
    np.testing.assert_allclose(expected.tolist(), actual.tolist(), rtol=1e-5)
    np.testing.assert_allclose(slope.tolist(), compiled_slope.tolist(), rtol=1e-4, atol=1e-6)


def test_large_operands_show_that_the_replacement_runs() -> None:
    """Where the program's own formula overflows."""
    x, w = dj.full((1, 3), 100.0), dj.ones(3, 2)
    plain = dj.compile(function)(x, w)
    dj.register_pattern(normalized, softmax, [dj.ones(2, 3)])

    assert plain.isnan().all()
    np.testing.assert_allclose(np.sin([[0.5, 0.5]]), dj.compile(function)(x, w).tolist(), rtol=1e-6)


def test_custom_backends_and_varying_sizes_see_it_too() -> None:
    dj.register_pattern(normalized, softmax, [dj.ones(2, 3)])
    seen = []

    def backend(module, examples):
        seen.append([node.op.name for node in module.graph.calls])
        return module

    compiled = dj.compile(function, backend=backend, dynamic=True)
    for rows in (2, 5):
        x, w = dj.randn(rows, 3), dj.randn(3, 4)
        np.testing.assert_allclose(function(x, w).tolist(), compiled(x, w).tolist(), rtol=1e-5)
    assert [["matmul", "softmax", "sin"]] == seen


def test_an_operator_of_the_programs_own_can_replace_a_part() -> None:
    @dj.library.custom_op("test_patterns::swish", mutates_args=())
    def swish(x: dj.Tensor) -> dj.Tensor:
        return dj.from_numpy(x.numpy() / (1 + np.exp(-x.numpy())))

    swish.register_fake(lambda x: dj.empty_like(x))
    dj.register_pattern(lambda x: x * x.sigmoid(), swish, [dj.ones(2)], name="swish")

    explanation = dj.explain(lambda x: x * x.sigmoid() + 1)(dj.ones(3))
    (record,) = explanation.records
    assert ["test_patterns.swish", "add"] == [n.op.name for n in record.graph.calls]
    compiled = dj.compile(lambda x: x * x.sigmoid() + 1)
    x = dj.arange(3.0)
    np.testing.assert_allclose((F.silu(x) + 1).tolist(), compiled(x).tolist(), rtol=1e-6)


def test_a_pattern_can_be_removed_switched_off_and_is_reported() -> None:
    handle = dj.register_pattern(normalized, softmax, [dj.ones(2, 3)])
    record = dj.explain(function)(dj.ones(2, 3), dj.ones(3, 4)).records[0]
    assert "captured replace_patterns: 8 -> 5 nodes, 2 of them new" in record.summary()

    with dj.config.override(disabled_passes="replace_patterns"):
        assert "softmax" not in operations()
    assert "softmax" in operations()
    handle.remove()
    assert "softmax" not in operations()


def test_a_name_means_one_pattern() -> None:
    dj.register_pattern(normalized, softmax, [dj.ones(2, 3)])
    with pytest.raises(ArgumentError, match="there is a pattern of this name"):
        dj.register_pattern(normalized, softmax, [dj.ones(2, 3)])
    with pytest.raises(ArgumentError, match="example_inputs is a Tensor"):
        dj.register_pattern(normalized, softmax, dj.ones(2, 3), name="other")
