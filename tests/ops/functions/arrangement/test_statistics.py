"""Quantiles, covariances, integrals and distances agree with PyTorch."""

import math

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DynajitError
from tests.support.rows.compare import agree, numbers, outputs_of

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(3)
X = RNG.standard_normal((4, 6))
HOLES = np.where(RNG.random((4, 6)) < 0.3, math.nan, X)
HOLES[1] = math.nan
Q = np.array([0.0, 0.3, 0.75, 1.0])
A, B = RNG.standard_normal((2, 5, 3)), RNG.standard_normal((2, 4, 3))
MANY = RNG.standard_normal((30, 3))
STEPS = np.cumsum(RNG.random(6) + 0.1)

CASES = {
    "nansum": (lambda t, x: (t.nansum(x), x.nansum(1), t.nansum(x, (0, 1), True)), HOLES),
    "nanmean": (lambda t, x: (t.nanmean(x), x.nanmean(0, keepdim=True)), HOLES),
    "nanmedian": (
        lambda t, x: (t.nanmedian(x), t.nanmedian(x[2:], 1), t.nanmedian(x.detach(), 1).values),
        HOLES,
    ),
    "nanquantile": (
        lambda t, x, q: (t.nanquantile(x[2:], q.detach(), 1), x.nanquantile(0.5)), HOLES, Q,
    ),
    "quantile": (lambda t, x, q: t.quantile(x, q.detach()), X, Q),
    "quantile_dim": (lambda t, x, q: x.quantile(q.detach(), 0, keepdim=True), X, Q),
    "quantile_number": (lambda t, x: (t.quantile(x, 0.4), t.quantile(x, 0.4, 1, True)), X),
    "quantile_of_nan": (
        lambda t, x, q: (t.quantile(x.detach(), q.detach(), 1), t.nanquantile(x.detach(), 0.2, 1)),
        HOLES, Q,
    ),
    **{
        f"quantile_{way}": (
            lambda t, x, way=way: t.quantile(x, 0.37, 1, interpolation=way), X,
        )
        for way in ("lower", "higher", "nearest", "midpoint")
    },
    "cov": (lambda t, x: (t.cov(x), x.cov(correction=0), t.cov(x[0])), X),
    "cov_weights": (
        lambda t, x: t.cov(x, fweights=t.tensor([1, 2, 3, 1, 1, 2]), aweights=x[0].detach().abs()),
        X,
    ),
    "cov_aweights": (lambda t, x: t.cov(x, aweights=x[1].detach().abs(), correction=2), X),
    "corrcoef": (lambda t, x: (t.corrcoef(x), t.corrcoef(x[0])), X),
    "covariances_of_one": (
        lambda t, x: (t.cov(x[:1]), x[:1].cov(correction=0), t.corrcoef(x[:1])), X,
    ),
    "trapezoid": (lambda t, x: (t.trapezoid(x), t.trapz(x, dx=0.5, dim=0)), X),
    "trapezoid_points": (lambda t, x, p: (t.trapezoid(x, p), t.trapezoid(x, x)), X, STEPS),
    "cumulative_trapezoid": (lambda t, x, p: t.cumulative_trapezoid(x, p), X, STEPS),
    "cumulative_trapezoid_dim": (lambda t, x: t.cumulative_trapezoid(x, dx=2, dim=0), X),
    "diff": (lambda t, x: (t.diff(x, prepend=x[:, :1], append=x[:, :2]), x.diff(2, 0)), X),
    "diff_never": (lambda t, x: (t.diff(x, 0), x.diff(n=0, prepend=x[:, :1])), X),
    "diff_of_few": (lambda t, x: (t.diff(x[:2], 2, 0), t.diff(x[:2], n=5, dim=0)), X),
    "gradient": (lambda t, x: (*t.gradient(x), *t.gradient(x, spacing=None, dim=1)), X),
    "gradient_spacing": (lambda t, x: t.gradient(x, spacing=(2.0, 0.5), edge_order=2), X),
    "gradient_points": (lambda t, x, p: t.gradient(x, spacing=(p,), dim=1, edge_order=1), X, STEPS),
    "gradient_edges": (lambda t, x, p: t.gradient(x, spacing=(p,), dim=1, edge_order=2), X, STEPS),
    "cdist": (lambda t, a, b: t.cdist(a, b), A, B),
    "cdist_broadcast": (lambda t, a, b: t.cdist(a[:1], b), A, B),
    **{
        f"cdist_{p}": (lambda t, a, b, p=p: t.cdist(a, b, p=p), A, B)
        for p in (0.0, 1.0, 1.5, 3.0, math.inf)
    },
    "cdist_many": (lambda t, m, b: t.cdist(m, b[0]), MANY, B),
    "cdist_same": (lambda t, a: t.cdist(a[0], a[0]), A),
    "pdist": (lambda t, a: (t.pdist(a[0]), t.pdist(a[1], 1.0)), A),
    "dist": (lambda t, a, b: (t.dist(a[:, :4], b), t.dist(a[:, :4], b, 1)), A, B),
    "renorm": (lambda t, x: (t.renorm(x, 2, 0, 1.0), x.renorm(1, 1, 2.0)), X),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree_with_pytorch(name: str) -> None:
    expression, *arrays = CASES[name]
    agree(expression, *arrays)


def test_everything_compiles_as_one_graph() -> None:
    arrays = (X, HOLES, Q, A, B, MANY, STEPS)
    number = {id(array): i for i, array in enumerate(arrays)}
    calls = [
        (call, [number[id(array)] for array in given])
        for name, (call, *given) in CASES.items()
        if name != "cov_weights"
    ]

    def run(*tensors):
        return [call(dj, *[tensors[i] for i in places]) for call, places in calls]

    operands = [dj.tensor(array) for array in arrays]
    expected = outputs_of(run(*operands))
    actual = outputs_of(dj.compile(run, fullgraph=True)(*operands))

    assert len(expected) == len(actual)
    for left, right in zip(expected, actual, strict=True):
        np.testing.assert_allclose(numbers(right), numbers(left), rtol=1e-10, atol=1e-10)


def test_covariances_of_complex_numbers() -> None:
    z = X + 1j * X[::-1]
    agree(lambda t, z: (t.cov(z), t.corrcoef(z), t.corrcoef(z[0])), z, tolerance=1e-12)
    agree(lambda t, z, w: t.cov(z, aweights=w), z, np.abs(X[1]), gradients=False, tolerance=1e-12)


def test_weights_of_observations_have_a_say_in_the_dtype() -> None:
    def run(t, x, w):
        half, ones = x.to(t.float16), t.tensor([1, 2, 3, 1, 1, 2])
        return (
            t.cov(half, aweights=w.to(t.float32)),
            t.cov(half, fweights=ones),
            t.cov((x * 9).to(t.int64), aweights=w),
            t.cov((x * 9).to(t.int64), fweights=ones),
            t.cov((x * 9).to(t.int64), fweights=ones, aweights=w.to(t.float32), correction=2),
        )

    agree(run, X.astype(np.float32), np.abs(X[1]), gradients=False, tolerance=1e-3)


def test_methods_of_layers_and_positions() -> None:
    agree(lambda t, x, q: (x.prelu(q), x.hardshrink(0.3), (x > 0).argwhere()), X[:, :4], Q)


def test_float32_and_zero_dims() -> None:
    agree(lambda t, x: (t.quantile(x, 0.25), t.nanmedian(x)), X.astype(np.float32))
    agree(lambda t, x: (t.quantile(x[0, 0], 0.25), t.nanmedian(x[0, 0], 0), x), X)
    agree(lambda t, x: t.nansum(x), np.arange(6), gradients=False)


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: t.quantile(x, 1.5),
        lambda t, x: t.quantile(x, x),
        lambda t, x: t.quantile(x, t.tensor([0.5])),
        lambda t, x: t.quantile(x.long(), 0.5),
        lambda t, x: t.quantile(x[:0], 0.5),
        lambda t, x: t.quantile(x, 0.5, interpolation="cubic"),
        lambda t, x: t.nanmean(x.long()),
        lambda t, x: t.cov(x[None]),
        lambda t, x: t.cov(x, fweights=t.ones(6)),
        lambda t, x: t.cov(x, aweights=t.ones(5)),
        lambda t, x: t.diff(x, -1),
        lambda t, x: t.gradient(x, edge_order=3),
        lambda t, x: t.gradient(x, spacing=(1.0,)),
        lambda t, x: t.gradient(x[:1]),
        lambda t, x: t.cdist(x, x[:, :2]),
        lambda t, x: t.cdist(x[0], x),
        lambda t, x: t.cdist(x, x, -1),
        lambda t, x: t.cdist(x, x, compute_mode="quick"),
        lambda t, x: t.pdist(x[0]),
        lambda t, x: t.renorm(x, 0, 0, 1),
        lambda t, x: t.renorm(x[0], 2, 0, 1),
        lambda t, x: t.trapezoid(x, t.ones(3)),
    ],
)
def test_refusals(call) -> None:
    with pytest.raises(Exception):  # noqa: B017
        call(torch, torch.tensor(X))
    with pytest.raises(DynajitError):
        call(dj, dj.tensor(X))
