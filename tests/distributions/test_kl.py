"""Divergences of every pair that PyTorch knows: values, gradients, infinities, refusals."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")
known = pytest.importorskip("torch.distributions.kl")

P = [0.5, 1.7, 3.9]
Q = [0.2, 0.55, 0.8]
A = [0.3, -1.2, 0.7]
VECTORS = [A, [[0.5, 0.1], [-0.3, 1.0], [0.2, 0.0]], Q]
MATRIX = [[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.7]]

# class -> (function of the module and tensors, parameters)
MAKERS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "Bernoulli": (lambda d, p: d.Bernoulli(p), [Q]),
    "Beta": (lambda d, a, b: d.Beta(a, b), [P, [1.3, 0.6, 2.0]]),
    "Binomial": (lambda d, p: d.Binomial(5, p), [Q]),
    "Cauchy": (lambda d, m, s: d.Cauchy(m, s), [A, P]),
    "ContinuousBernoulli": (lambda d, p: d.ContinuousBernoulli(p), [[0.2, 0.5, 0.8]]),
    "Exponential": (lambda d, r: d.Exponential(r), [P]),
    "Gamma": (lambda d, a, b: d.Gamma(a, b), [P, [1.3, 0.6, 2.0]]),
    "Geometric": (lambda d, p: d.Geometric(p), [Q]),
    "Gumbel": (lambda d, m, s: d.Gumbel(m, s), [A, P]),
    "HalfNormal": (lambda d, s: d.HalfNormal(s), [P]),
    "Laplace": (lambda d, m, s: d.Laplace(m, s), [A, P]),
    "LowRankMultivariateNormal": (lambda d, *of: d.LowRankMultivariateNormal(*of), VECTORS),
    "MultivariateNormal": (lambda d, m, v: d.MultivariateNormal(m, v), [A, MATRIX]),
    "Normal": (lambda d, m, s: d.Normal(m, s), [A, P]),
    "Pareto": (lambda d, s, a: d.Pareto(s, a), [[0.02, 0.03, 0.01], [2.2, 3.5, 5.0]]),
    "Poisson": (lambda d, r: d.Poisson(r), [P]),
    "Uniform": (lambda d, low, high: d.Uniform(low, high), [[0.1, 0.2, 0.3], [0.9, 0.7, 0.5]]),
}  # fmt: skip
PAIRS = sorted(
    (p.__name__, q.__name__)
    for p, q in known._KL_REGISTRY
    if p.__name__ in MAKERS and q.__name__ in MAKERS
)


def divergence(library: Any, pair: tuple[str, str], factor: float) -> list[Any]:
    """The value, and the gradients of both distributions' parameters."""
    given, made = [], []
    for name, scale in zip(pair, (1.0, factor), strict=True):
        make, parameters = MAKERS[name]
        leaves = [library.tensor(p, dtype=library.float64) * scale for p in parameters]
        leaves = [x.detach().requires_grad_() for x in leaves]
        given += leaves
        made.append(make(library.distributions, *leaves))
    value = library.distributions.kl_divergence(*made)
    finite = value.reshape(-1)[library.isfinite(value).reshape(-1)]
    if not finite.requires_grad:
        return [value.detach().numpy()]
    weights = library.arange(1, finite.numel() + 1, dtype=library.float64)
    gradients = library.autograd.grad((finite * weights).sum(), given, allow_unused=True)
    zeros = [np.zeros(x.shape) for x in given]
    filled = [z if g is None else g.numpy() for g, z in zip(gradients, zeros, strict=True)]
    return [value.detach().numpy(), *filled]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_divergences_equal_pytorchs(pair: tuple[str, str]) -> None:
    """Values and gradients, of p from q with other parameters."""
    theirs, ours = (divergence(t, pair, 0.9) for t in (torch, dj))
    for mine, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-7, atol=1e-9)


def test_every_pair_of_pytorchs_is_known() -> None:
    """Of the classes above; there is no formula between a continuous and a counted one."""
    d = dj.distributions
    for p, q in PAIRS:
        assert d.kl._formula_for(getattr(d, p), getattr(d, q)) is not None
    assert len(PAIRS) > 75


@pytest.mark.parametrize("pair", [("ContinuousBernoulli", "Uniform"),
                                  ("Uniform", "ContinuousBernoulli"), ("Uniform", "Beta"),
                                  ("Beta", "Uniform"), ("Normal", "Laplace"),
                                  ("Gamma", "Gumbel")], ids="-".join)  # fmt: skip
def test_divergences_equal_integrals(pair: tuple[str, str]) -> None:
    """Independently of PyTorch: of p * (log p - log q) by quadrature. PyTorch has infinity
    between a continuous Bernoulli and a uniform distribution on all of [0, 1]."""
    integrate = pytest.importorskip("scipy.integrate")
    d, t = dj.distributions, lambda x: dj.tensor(x, dtype=dj.float64)
    makers: dict[str, Any] = {
        "ContinuousBernoulli": d.ContinuousBernoulli(t(0.3)), "Uniform": d.Uniform(t(0.0), t(1.0)),
        "Beta": d.Beta(t(1.5), t(2.5)), "Normal": d.Normal(t(0.3), t(0.8)),
        "Laplace": d.Laplace(t(-0.1), t(0.5)), "Gamma": d.Gamma(t(2.5), t(1.5)),
        "Gumbel": d.Gumbel(t(0.4), t(0.9)),
    }  # fmt: skip
    p, q = (makers[name] for name in pair)
    low, high = {"Normal": (-7.0, 7.0), "Gamma": (0.0, 40.0)}.get(pair[0], (0.0, 1.0))

    def height(x: float) -> float:
        at = t(x)
        log_p = p.log_prob(at)
        return float((log_p.exp() * (log_p - q.log_prob(at))).item())

    expected = integrate.quad(height, low + 1e-9, high - 1e-9, limit=200)[0]
    np.testing.assert_allclose(d.kl_divergence(p, q).item(), expected, rtol=1e-5)


INFINITE: list[Callable[[Any], tuple[Any, Any]]] = [
    lambda d: (d.Uniform(-0.5, 0.5), d.Exponential(1.0)),
    lambda d: (d.Uniform(-0.5, 0.5), d.Gamma(1.5, 1.0)),
    lambda d: (d.Uniform(-0.5, 0.5), d.Beta(1.5, 1.0)),
    lambda d: (d.Uniform(0.5, 1.5), d.Beta(1.5, 1.0)),
    lambda d: (d.Uniform(0.5, 1.5), d.Pareto(0.7, 1.0)),
    lambda d: (d.Uniform(0.5, 1.5), d.ContinuousBernoulli(0.3)),
    lambda d: (d.Beta(1.5, 1.0), d.Uniform(0.1, 2.0)),
    lambda d: (d.ContinuousBernoulli(0.3), d.Uniform(0.1, 2.0)),
    lambda d: (d.Pareto(0.5, 0.9), d.Exponential(1.0)),
    lambda d: (d.Pareto(0.5, 0.9), d.Gamma(1.0, 1.0)),
    lambda d: (d.Pareto(0.5, 1.9), d.Normal(1.0, 1.0)),
    lambda d: (d.Pareto(0.5, 1.9), d.Pareto(1.0, 1.0)),
    lambda d: (d.Normal(0.0, 1.0), d.Exponential(1.0)),
    lambda d: (d.Poisson(1.0), d.Bernoulli(0.5)),
]  # fmt: skip


@pytest.mark.parametrize("position", range(len(INFINITE)))
def test_values_that_q_cannot_draw_are_infinitely_far(position: int) -> None:
    """Also where p's moments are infinite."""
    for t in (torch, dj):
        p, q = INFINITE[position](t.distributions)
        assert [math.inf] == t.distributions.kl_divergence(p, q).reshape(-1).tolist()


def test_numbers_of_trials_that_differ_are_infinite_or_refused() -> None:
    """More trials of p; fewer have no closed form."""
    for t in (torch, dj):
        d, p = t.distributions, t.tensor([0.3, 0.6])
        many, few = d.Binomial(5, p), d.Binomial(t.tensor([4.0, 5.0]), p)
        assert [math.inf, 0.0] == d.kl_divergence(many, few).tolist()
        with pytest.raises(NotImplementedError, match="total_count"):
            d.kl_divergence(few, many)


def test_vectors_of_other_sizes_are_refused() -> None:
    """Low rank or not."""
    for t in (torch, dj):
        d = t.distributions
        small = d.LowRankMultivariateNormal(t.zeros(2), t.ones(2, 1), t.ones(2))
        full = d.MultivariateNormal(t.zeros(3), t.eye(3))
        for p, q in ((small, full), (full, small)):
            with pytest.raises(ValueError, match="different event"):
                d.kl_divergence(p, q)


def wisharts(library: Any, df: Any) -> tuple[Any, Any]:
    """Two, of which the first has these degrees of freedom."""
    d, kind = library.distributions, library.float64
    q = d.Wishart(5.5, scale_tril=library.eye(3, dtype=kind) * 1.1)
    return d.Wishart(df, library.tensor(MATRIX, dtype=kind)), q


def test_divergences_of_wishart_distributions_equal_pytorchs() -> None:
    """One at a time: PyTorch adds over a batch of degrees of freedom, and has no gradient of p;
    ours has that of differences."""
    freedom = dj.tensor([3.5, 6.0], dtype=dj.float64).requires_grad_()
    found = dj.distributions.kl_divergence(*wisharts(dj, freedom))
    for number, mine in zip((3.5, 6.0), found.tolist(), strict=True):
        theirs = torch.distributions.kl_divergence(*wisharts(torch, number)).item()
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)

    found.sum().backward()
    ends = [
        dj.distributions.kl_divergence(*wisharts(dj, freedom.detach() + step)).numpy()
        for step in (1e-5, -1e-5)
    ]
    slopes = (ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(freedom.grad.numpy(), slopes, rtol=1e-5)


def test_sure_counts_have_finite_divergences() -> None:
    """A rate of 0 is q's rate away; a probability of 1 is finite."""
    d = dj.distributions
    assert 2.0 == d.kl_divergence(d.Poisson(0.0), d.Poisson(2.0)).item()
    sure = d.kl_divergence(d.Binomial(3, dj.tensor(1.0)), d.Binomial(3, dj.tensor(0.5))).item()
    np.testing.assert_allclose(sure, 3 * math.log(2), rtol=1e-6)


def test_a_compiled_graph_holds_a_divergence() -> None:
    """Of different families, with its gradient."""

    def program(low: Any, rate: Any) -> Any:
        d = dj.distributions
        return d.kl_divergence(d.Uniform(low, low + 1), d.Gamma(rate, rate)).sum()

    results = []
    for call in (program, dj.compile(program, fullgraph=True)):
        given = [dj.tensor(x).requires_grad_() for x in ([0.1, 0.5], [1.5, 0.7])]
        total = call(*given)
        total.backward()
        results.append([total.detach(), *(g.grad for g in given)])
    for plain, compiled in zip(*results, strict=True):
        np.testing.assert_allclose(compiled.numpy(), plain.numpy(), rtol=1e-5)
