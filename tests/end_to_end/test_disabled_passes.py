"""Passes that are left out: programs compute the same, from other graphs and kernels."""

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn
from dynajit.codegen.compilers import toolchain
from dynajit.core.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("strict_programs")

needs_compiler = pytest.mark.skipif(toolchain.find_compiler() is None, reason="needs a C compiler")


class Block(nn.Module):
    """Three products of one operand, a norm, dead and double computations."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        (x * 3).exp()
        h = self.norm(x * 1 + 0.5 * dj.ones(8))
        mixed = self.q(h) * self.k(h) + self.v(h)
        return (mixed.sin() + mixed.sin() + x.detach()).softmax(-1)


def trained(compiled: bool) -> list[np.ndarray]:
    dj.manual_seed(0)
    model = Block()
    x = dj.randn(2, 5, 8, requires_grad=True)
    function = dj.compile(model, fullgraph=True) if compiled else model
    out = function(x)
    (out * dj.arange(8.0)).sum().backward()
    return [t.detach().numpy() for t in (out, x.grad, *(p.grad for p in model.parameters()))]


@pytest.fixture(scope="module")
def expected() -> list[np.ndarray]:
    return trained(compiled=False)


@needs_compiler
@pytest.mark.one_python
@pytest.mark.parametrize("names", [*((name,) for name in dj.config.PASSES), dj.config.PASSES])
def test_results_and_gradients_are_the_same(names, expected) -> None:
    with dj.config.override(disabled_passes=names):
        actual = trained(compiled=True)

    for one, other in zip(expected, actual, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@needs_compiler
def test_without_fusion_every_operation_is_a_kernel() -> None:
    def function(x):
        return ((x + 1).exp() * 2).sum()

    fused = dj.explain(function)(dj.ones(64))
    with dj.config.override(disabled_passes="fuse"):
        apart = dj.explain(function)(dj.ones(64))

    assert (1, 4) == (len(fused.kernels), len(apart.kernels))


@needs_compiler
def test_what_was_compiled_with_other_passes_is_not_restored() -> None:
    def function(x):
        return (x * 1).exp() * 1

    def nodes():
        explanation = dj.explain(function)(dj.ones(3))
        return len(explanation.records[0].forward.calls)

    with_all = nodes()
    with dj.config.override(disabled_passes=["simplify_algebra"]):
        without = nodes()

    assert (2, 3, 2) == (with_all, without, nodes())


@needs_compiler
def test_the_report_says_what_each_pass_changed_and_which_were_left_out() -> None:
    def function(x):
        return (x * 2.0).exp() + x.square().square() * dj.tensor([2.0]) * 1

    record = dj.explain(function)(dj.ones(3)).records[0]
    changed = {run.name for run in record.passes if run.added or run.removed}
    assert {"simplify_algebra", "fold_constants", "eliminate_dead_code"} & changed
    for run in record.passes:
        line = f"{run.name}: {len(run.before.nodes)} -> {len(run.after.nodes)} nodes"
        assert (run.name in changed) == (line in record.summary())

    with dj.config.override(disabled_passes="fuse,simplify_algebra"):
        record = dj.explain(function)(dj.ones(3)).records[0]
    assert "simplify_algebra" not in {run.name for run in record.passes}
    assert "  left out: fuse, simplify_algebra\n" in record.summary()


@needs_compiler
def test_the_report_tells_of_products_and_of_fusion() -> None:
    def function(x, y, z):
        return (x @ y + x.t().t() @ z).exp()

    operands = dj.ones(20, 3), dj.ones(3, 30), dj.ones(3, 30)
    record = dj.explain(function)(*operands).records[0]
    text = record.summary()

    assert "forward  share_products: " in text
    operations = len(record.forward.calls)
    assert f"forward: {len(record.kernels)} kernels of {operations} operations, " in text
    with dj.config.override(disabled_passes="share_products"):
        assert "share_products: " not in dj.explain(function)(*operands).records[0].summary()


def test_a_pass_that_is_needed_or_unknown_is_refused() -> None:
    for name in ("expand_composites", "no_such_pass"):
        with pytest.raises(ArgumentError, match="expected some of eliminate_common"):
            dj.config.disabled_passes = name
