"""Distributions of counts, of tails, of angles, relaxed ones, mixtures: everything that each has,
against PyTorch's.

`test_distributions` has the older and most used ones; these share one test per case.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")
# PyTorch says so of good draws of Wishart distributions.
pytestmark = pytest.mark.filterwarnings("ignore:Singular sample detected")

A = [[0.3, -1.2, 0.7], [2.0, 0.1, -0.4]]
P = [[0.5, 1.7, 0.9], [2.5, 0.3, 1.0]]
Q = [[0.2, 0.5, 0.3], [0.1, 0.15, 0.8]]
W = [[3.5, 1.5, 5.0], [2.2, 7.0, 4.5]]
ODDS = [[0.5, 0.0, -2.0], [1.5, -0.2, 0.9]]
MATRIX = [[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.7]]
COUNTS = [[0.0, 1.0, 3.0], [2.0, 5.0, 4.0]]

# name -> (function of the module and tensors, parameters, values to ask for)
CASES: dict[str, tuple[Callable[..., Any], list[Any], Any]] = {
    "Poisson": (lambda d, r: d.Poisson(r), [P], COUNTS),
    "Geometric": (lambda d, p: d.Geometric(p), [Q], COUNTS),
    "Geometric by logits": (lambda d, x: d.Geometric(logits=x), [ODDS], COUNTS),
    "Binomial": (lambda d, p: d.Binomial(5, p), [Q], COUNTS),
    "Binomial by logits": (lambda d, x: d.Binomial(5, logits=x), [ODDS], COUNTS),
    "NegativeBinomial": (lambda d, n, p: d.NegativeBinomial(n, p), [W, Q], COUNTS),
    "NegativeBinomial by logits": (
        lambda d, n, x: d.NegativeBinomial(n, logits=x), [P, ODDS], COUNTS),
    "Cauchy": (lambda d, m, s: d.Cauchy(m, s), [A, P], Q),
    "HalfCauchy": (lambda d, s: d.HalfCauchy(s), [P], Q),
    "HalfNormal": (lambda d, s: d.HalfNormal(s), [P], Q),
    "Gumbel": (lambda d, m, s: d.Gumbel(m, s), [A, P], Q),
    "StudentT": (lambda d, n, m, s: d.StudentT(n, m, s), [W, A, P], Q),
    "StudentT without variance": (lambda d, n: d.StudentT(n), [[0.8, 1.5, 2.0, 2.5]],
                                  [0.1, -2.0, 3.0, 0.5]),
    "Pareto": (lambda d, s, a: d.Pareto(s, a), [P, W], [[1.0, 1.8, 5.0], [3.0, 7.0, 4.5]]),
    "Weibull": (lambda d, s, k: d.Weibull(s, k), [P, W], Q),
    "GeneralizedPareto": (
        lambda d, m, s, k: d.GeneralizedPareto(m, s, k),
        [[0.0, 0.1, 0.2, 0.0], [1.0, 0.5, 2.0, 1.5], [0.0, 0.2, -0.4, -0.9]],
        [0.3, 0.7, 1.1, 0.4]),
    "MixtureSameFamily": (
        lambda d, w, m, s: d.MixtureSameFamily(d.Categorical(logits=w), d.Normal(m, s)),
        [ODDS, A, P], [0.4, -0.2]),
    "Mixture of vectors": (
        lambda d, w, m, s: d.MixtureSameFamily(
            d.Categorical(w), d.Independent(d.Normal(m, s), 1)),
        [[0.3, 0.9], A, P], [0.4, -0.2, 0.9]),
    "Mixture of angles": (
        lambda d, w, m, k: d.MixtureSameFamily(d.Categorical(w), d.VonMises(m, k)),
        [Q, A, P], [0.4, -0.2]),
    "RelaxedBernoulli": (lambda d, t, p: d.RelaxedBernoulli(t, p), [0.7, Q], Q),
    "RelaxedBernoulli by logits": (
        lambda d, t, x: d.RelaxedBernoulli(t, logits=x), [1.5, ODDS], Q),
    "RelaxedOneHotCategorical": (
        lambda d, t, p: d.RelaxedOneHotCategorical(t, p), [0.8, P],
        [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]),
    "LowRankMultivariateNormal": (
        lambda d, m, w, v: d.LowRankMultivariateNormal(m, w, v),
        [A, [[0.5, 0.1], [-0.3, 1.0], [0.2, 0.0]], [0.6, 1.1, 0.4]], Q),
    "InverseGamma": (lambda d, a, b: d.InverseGamma(a, b), [W, P], P),
    "Kumaraswamy": (lambda d, a, b: d.Kumaraswamy(a, b), [W, [[0.5, 1.7, 1.9], [2.5, 1.3, 1.2]]],
                    Q),
    "LogisticNormal": (lambda d, m, s: d.LogisticNormal(m, s), [[0.3, -0.2], [0.5, 1.1]],
                       [0.2, 0.5, 0.3]),
    "ContinuousBernoulli": (lambda d, p: d.ContinuousBernoulli(p),
                            [[[0.2, 0.5, 0.4995], [0.97, 0.5005, 0.8]]], Q),
    "ContinuousBernoulli by logits": (lambda d, x: d.ContinuousBernoulli(logits=x), [ODDS], Q),
    "FisherSnedecor": (lambda d, a, b: d.FisherSnedecor(a, b), [W, [[7.0, 4.5, 9.0],
                                                                    [6.0, 5.0, 12.0]]], P),
    "VonMises": (lambda d, m, k: d.VonMises(m, k), [A, P], A),
    "LKJCholesky": (
        lambda d, c: d.LKJCholesky(3, c), [[0.7, 2.5]],
        [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, -0.6, 0.8]]),
    "Wishart": (lambda d, n, v: d.Wishart(n, v), [[3.5, 6.0], MATRIX], MATRIX),
    "Wishart by precision": (
        lambda d, n, v: d.Wishart(n, precision_matrix=v), [[5.5, 6.0], MATRIX], MATRIX),
    "Wishart by factor": (
        lambda d, v: d.Wishart(4.0, scale_tril=v.tril()),
        [[[1.2, 0.0, 0.0], [0.3, 0.9, 0.0], [-0.4, 0.2, 0.8]]], MATRIX),
}  # fmt: skip
NAMES = list(CASES)
QUANTITIES = ["log_prob", "entropy", "mean", "variance", "stddev", "mode", "cdf", "icdf"]
DRAWN_EAGERLY = (
    "Poisson",
    "Binomial",
    "NegativeBinomial",
    "StudentT",
    "InverseGamma",
    "FisherSnedecor",
    "VonMises",
)


def parameters_of(library: Any, case: str, dtype: str) -> list[Any]:
    """New leaves."""
    kind = getattr(library, dtype)
    return [library.tensor(p, dtype=kind).requires_grad_() for p in CASES[case][1]]


def quantity(made: Any, name: str, value: Any) -> Any:
    """A quantity by name; None where there is none."""
    try:
        if name == "icdf":
            return made.icdf(value * 0 + 0.3)
        found = getattr(made, name)
        return (
            found(value) if name in ("log_prob", "cdf") else found() if callable(found) else found
        )
    except NotImplementedError:
        return None


def outcome(library: Any, case: str, name: str, dtype: str) -> list[Any] | None:
    """The quantity, and the gradients of the parameters."""
    make, _, value = CASES[case]
    given = parameters_of(library, case, dtype)
    at = library.tensor(value, dtype=getattr(library, dtype)).requires_grad_()
    found = quantity(make(library.distributions, *given), name, at)
    if found is None:
        return None
    if not found.requires_grad:
        return [found.numpy()]
    weights = library.arange(1, found.numel() + 1, dtype=found.dtype).reshape(found.shape)
    finite = library.where(library.isfinite(found), found, 0.0)
    sources = [*given, at]
    try:
        gradients = library.autograd.grad((finite * weights).sum(), sources, allow_unused=True)
    except (NotImplementedError, RuntimeError):  # of the incomplete gamma function
        assert (case, name) == ("InverseGamma", "cdf")
        return [found.detach().numpy()]
    zeros = [np.zeros(x.shape) for x in sources]
    filled = [z if g is None else g.numpy() for g, z in zip(gradients, zeros, strict=True)]
    return [found.detach().numpy(), *filled]


@pytest.mark.parametrize("case", NAMES)
def test_quantities_and_gradients_equal_pytorchs(case: str) -> None:
    """What PyTorch has, with gradients of parameters and values, and nothing else."""
    for name in QUANTITIES:
        for dtype, rtol, atol in (("float32", 2e-4, 3e-5), ("float64", 1e-7, 1e-8)):
            if dtype == "float64" and case == "GeneralizedPareto":
                continue  # PyTorch compares it with a float32 zero, and fails
            expected, actual = (outcome(t, case, name, dtype) for t in (torch, dj))
            assert (expected is None) == (actual is None), name
            if expected is None or actual is None:
                continue
            assert expected[0].dtype == actual[0].dtype, name
            np.testing.assert_allclose(actual[0], expected[0], rtol, atol, err_msg=name)
            if name in ("mode", "variance", "stddev") or len(expected) == 1:
                continue  # steps, and limits at infinity
            for mine, theirs in zip(actual[1:], expected[1:], strict=True):
                np.testing.assert_allclose(mine, theirs, rtol, 30 * atol, err_msg=name)


def facts(library: Any, case: str) -> list[Any]:
    """Shapes, texts and properties of the class."""
    make, parameters, _ = CASES[case]
    made = make(library.distributions, *(library.tensor(p) for p in parameters))
    wide = made.expand((4, *made.batch_shape))
    drawn = made.sample((5, 2))
    assert bool(made.support.check(drawn).all())
    assert bool(library.isfinite(made.log_prob(drawn)).all())
    return [
        tuple(made.batch_shape), tuple(made.event_shape), tuple(drawn.shape),
        str(drawn.dtype).split(".")[1], tuple(wide.batch_shape), tuple(wide.sample((2,)).shape),
        tuple(wide.log_prob(wide.sample()).shape), type(wide).__name__,
        tuple(wide.mean.shape) if quantity(wide, "mean", None) is not None else None,
        made.has_rsample, made.has_enumerate_support, made.support.event_dim,
        made.support.is_discrete, repr(made).replace("torch.", "").replace("dynajit.", ""),
        sorted(made.arg_constraints),
    ]  # fmt: skip


@pytest.mark.parametrize("case", NAMES)
def test_shapes_and_texts_equal_pytorchs(case: str) -> None:
    """Batch, event, draws, expanded forms; facts of the class."""
    assert facts(torch, case) == facts(dj, case)


@pytest.mark.parametrize("case", NAMES)
def test_draws_have_the_distribution_of_pytorchs(case: str) -> None:
    """Each coordinate, by the largest distance of two distribution functions; seeds repeat."""
    stats = pytest.importorskip("scipy.stats")
    draws = []
    for library in (torch, dj):
        library.manual_seed(11)
        made = CASES[case][0](library.distributions, *parameters_of(library, case, "float64"))
        drawn = made.sample((3000,))
        assert not drawn.requires_grad
        draws.append(drawn.reshape(3000, -1).numpy())
    for theirs, mine in zip(*(x.T for x in draws), strict=True):
        assert stats.ks_2samp(theirs, mine, method="asymp").pvalue > 1e-3
    dj.manual_seed(11)
    assert (made.sample((3000,)).reshape(3000, -1).numpy() == draws[1]).all()


REPARAMETERIZED = [
    name for name, (make, given, _) in CASES.items()
    if make(torch.distributions, *map(torch.tensor, given)).has_rsample
]  # fmt: skip


@pytest.mark.parametrize("case", REPARAMETERIZED)
def test_drawn_values_have_the_gradient_of_pytorchs(case: str) -> None:
    """That of the mean of a bounded function of 8000 draws."""
    found = []
    for library in (torch, dj):
        library.manual_seed(3)
        given = parameters_of(library, case, "float64")
        # PyTorch's correction of Wishart draws, which it always does, has no gradient.
        options = {"max_try_correction": 0} if case.startswith("Wishart") else {}
        drawn = CASES[case][0](library.distributions, *given).rsample((8000,), **options)
        weights = library.arange(1, drawn[0].numel() + 1, dtype=library.float64)
        mean = drawn.tanh().mean(0).reshape(-1)
        gradients = library.autograd.grad((mean * weights).sum(), given, allow_unused=True)
        found.append([g.numpy() for g in gradients if g is not None])
    for theirs, mine in zip(*found, strict=True):
        # Nine weighted elements of sums of squares spread ten times as far.
        atol = 0.6 if case.startswith("Wishart") else 0.06
        np.testing.assert_allclose(mine, theirs, rtol=0.1, atol=atol)


@pytest.mark.parametrize("case", ["Gumbel", "Geometric", "Pareto", "Cauchy", "GeneralizedPareto",
                                  "Binomial by logits", "HalfNormal", "MixtureSameFamily",
                                  "RelaxedBernoulli", "RelaxedOneHotCategorical", "Kumaraswamy",
                                  "LowRankMultivariateNormal", "ContinuousBernoulli"])  # fmt: skip
def test_a_compiled_graph_holds_the_distribution(case: str) -> None:
    """Made, asked and drawn from (where draws are no rejections), with gradients."""
    make, _, value = CASES[case]
    draws = not case.startswith(DRAWN_EAGERLY)

    def program(at: Any, *given: Any) -> Any:
        made = make(dj.distributions, *given)
        return made.log_prob(at).sum(), (made.sample((2,)) if draws else at)

    results = []
    for call in (program, dj.compile(program, fullgraph=True)):
        dj.manual_seed(4)
        given = parameters_of(dj, case, "float32")
        total, drawn = call(dj.tensor(value), *given)
        total.backward()
        results.append([total.detach(), drawn, *(g.grad for g in given)])
    for plain, compiled in zip(*results, strict=True):
        np.testing.assert_allclose(compiled.numpy(), plain.numpy(), rtol=1e-4, atol=1e-5)


BAD: list[Callable[[Any], Any]] = [
    lambda t: t.distributions.Poisson(-1.0),
    lambda t: t.distributions.Poisson(1.0).log_prob(t.tensor(0.5)),
    lambda t: t.distributions.Geometric(0.0),
    lambda t: t.distributions.Geometric(),
    lambda t: t.distributions.Geometric(t.tensor(1.5)),
    lambda t: t.distributions.Binomial(3, 0.5, logits=1.0),
    lambda t: t.distributions.Binomial(t.tensor(-1.0), t.tensor(0.5)),
    lambda t: t.distributions.Binomial(3, t.tensor(0.5)).log_prob(t.tensor(4.0)),
    lambda t: t.distributions.NegativeBinomial(3, t.tensor(1.0)),
    lambda t: t.distributions.NegativeBinomial(-1.0, t.tensor(0.5)),
    lambda t: t.distributions.Cauchy(0.0, -1.0),
    lambda t: t.distributions.HalfNormal(-1.0),
    lambda t: t.distributions.HalfCauchy(t.tensor([1.0])).log_prob(t.tensor([-1.0])),
    lambda t: t.distributions.Gumbel(float("nan"), 1.0),
    lambda t: t.distributions.StudentT(0.0),
    lambda t: t.distributions.Pareto(1.0, t.tensor(0.0)),
    lambda t: t.distributions.Pareto(t.tensor(1.0), t.tensor(1.0)).log_prob(t.tensor(0.5)),
    lambda t: t.distributions.Weibull(1.0, -1.0),
    lambda t: t.distributions.GeneralizedPareto(0.0, 1.0, t.tensor(-1.0)).log_prob(t.tensor(2.0)),
    lambda t: t.distributions.MixtureSameFamily(
        t.distributions.Normal(t.zeros(2), 1.0), t.distributions.Normal(t.zeros(2), 1.0)),
    lambda t: t.distributions.MixtureSameFamily(t.distributions.Categorical(t.ones(2)), 3),
    lambda t: t.distributions.MixtureSameFamily(
        t.distributions.Categorical(t.ones(2)), t.distributions.Normal(t.zeros(3), 1.0)),
    lambda t: t.distributions.MixtureSameFamily(
        t.distributions.Categorical(t.ones(2, 3)), t.distributions.Normal(t.zeros(4, 3), 1.0)),
    lambda t: t.distributions.MixtureSameFamily(
        t.distributions.Categorical(t.ones(2)), t.distributions.HalfNormal(t.ones(2))
    ).log_prob(t.tensor(-1.0)),
    lambda t: t.distributions.RelaxedBernoulli(t.tensor(1.0)),
    lambda t: t.distributions.RelaxedBernoulli(t.tensor(1.0), 1.5),
    lambda t: t.distributions.RelaxedOneHotCategorical(t.tensor(1.0), t.tensor(0.5)),
    lambda t: t.distributions.LowRankMultivariateNormal(t.tensor(0.0), t.ones(1, 1), t.ones(1)),
    lambda t: t.distributions.LowRankMultivariateNormal(t.zeros(2), t.ones(2), t.ones(2)),
    lambda t: t.distributions.LowRankMultivariateNormal(t.zeros(2), t.ones(3, 1), t.ones(2)),
    lambda t: t.distributions.LowRankMultivariateNormal(t.zeros(2), t.ones(2, 1), t.ones(3)),
    lambda t: t.distributions.LowRankMultivariateNormal(
        t.zeros(2), t.ones(2, 1), t.tensor([-3.0, 3.0])),
    lambda t: t.distributions.LowRankMultivariateNormal(
        t.zeros(3, 2), t.ones(2, 2, 1), t.ones(2)),
    lambda t: t.distributions.InverseGamma(1.0, -1.0),
    lambda t: t.distributions.Kumaraswamy(-1.0, 1.0),
    lambda t: t.distributions.LogisticNormal(0.0, -1.0),
    lambda t: t.distributions.ContinuousBernoulli(1.5, validate_args=True),
    lambda t: t.distributions.ContinuousBernoulli(0.3).log_prob(t.tensor(1.5)),
    lambda t: t.distributions.FisherSnedecor(1.0, 0.0),
    lambda t: t.distributions.VonMises(0.0, -1.0),
    lambda t: t.distributions.LKJCholesky(1),
    lambda t: t.distributions.LKJCholesky(3, -1.0),
    lambda t: t.distributions.LKJCholesky(2).log_prob(t.eye(2) * 2),
    lambda t: t.distributions.Wishart(1.0, t.eye(2)),
    lambda t: t.distributions.Wishart(3.0, t.ones(2)),
    lambda t: t.distributions.Wishart(t.tensor(3.0), scale_tril=-t.eye(2)),
    lambda t: t.distributions.Wishart(3.0, t.eye(2)).log_prob(-t.eye(2)),
]  # fmt: skip


@pytest.mark.parametrize("position", range(len(BAD)))
def test_bad_arguments_are_value_errors(position: int) -> None:
    """As in PyTorch, with the beginning of its text."""
    texts = []
    for t in (torch, dj):
        with pytest.raises(ValueError) as error:
            BAD[position](t)
        texts.append(re.sub("torch.|dynajit.", "", str(error.value)).split()[:2])
    assert texts[0] == texts[1]


def one_mixture_of_batches(library: Any) -> Any:
    """A Categorical without batch, over components with one."""
    d, t = library.distributions, library.tensor
    components = d.Normal(t([[0.1, -1.0, 2.0], [0.3, 0.2, 1.0]]), 0.7)
    return d.MixtureSameFamily(d.Categorical(t([0.2, 0.5, 0.3])), components)


def low_rank(library: Any) -> Any:
    """A batch of diagonals with one factor."""
    t = library.tensor
    diagonals = t([[0.4, 0.5, 1.0], [2.0, 0.3, 1.5]])
    return library.distributions.LowRankMultivariateNormal(
        library.zeros(3), t([[1.0, 0.2], [0.3, -0.4], [0.0, 0.7]]), diagonals
    )


def test_one_categorical_draws_for_all_batches() -> None:
    """Independently for each; PyTorch refuses."""
    dj.manual_seed(0)
    made = one_mixture_of_batches(dj)
    drawn = made.sample((6000,))
    assert (6000, 2) == tuple(drawn.shape)
    np.testing.assert_allclose(drawn.mean(0).numpy(), made.mean.numpy(), atol=0.06)
    np.testing.assert_allclose(drawn.var(0).numpy(), made.variance.numpy(), rtol=0.1)


EDGES: list[Callable[[Any], Any]] = [
    lambda t: t.distributions.Poisson(0.0).log_prob(t.tensor([0.0, 1.0])),
    lambda t: t.distributions.Geometric(1.0).log_prob(t.tensor([0.0, 1.0])),
    lambda t: t.distributions.Binomial(4, t.tensor([0.0, 1.0])).mean,
    lambda t: t.distributions.Binomial(0, t.tensor(0.3)).log_prob(t.tensor(0.0)),
    lambda t: t.distributions.Binomial(3, t.tensor([0.3, 0.4])).enumerate_support(),
    lambda t: t.distributions.Binomial(3, t.tensor([0.3, 0.4])).enumerate_support(False),
    lambda t: t.distributions.NegativeBinomial(0, t.tensor(0.3)).log_prob(t.tensor([0.0, 2.0])),
    lambda t: t.distributions.NegativeBinomial(0, t.tensor(0.3)).sample((4,)),
    lambda t: t.distributions.Pareto(1.0, t.tensor([0.5, 1.5])).mean,
    lambda t: t.distributions.Pareto(1.0, t.tensor([0.5, 1.5])).variance,
    lambda t: t.distributions.HalfNormal(1.0, validate_args=False).log_prob(t.tensor([-1.0, 0.0])),
    lambda t: t.distributions.GeneralizedPareto(0.0, 1.0, 0.3).log_survival_function(t.tensor(2.)),
    lambda t: t.distributions.GeneralizedPareto(0.0, t.ones(2), 1.5).mean,
    lambda t: t.distributions.GeneralizedPareto(0.0, 2.0, -1.0).log_prob(t.tensor([0.5, 2.0])),
    lambda t: t.distributions.Cauchy(t.zeros(0), 1.0).sample((2,)),
    lambda t: t.distributions.Poisson(t.zeros(0)).sample((2,)),
    lambda t: t.distributions.Gumbel(0.0, 1.0).log_prob(t.tensor([-100.0, 1e4, math.inf])),
    lambda t: one_mixture_of_batches(t).mean,
    lambda t: one_mixture_of_batches(t).variance,
    lambda t: one_mixture_of_batches(t).cdf(t.tensor([0.3, 0.4])),
    lambda t: one_mixture_of_batches(t).log_prob(t.tensor([[0.3, 0.4], [1.0, 2.0]])),
    lambda t: t.distributions.VonMises(0.5, t.tensor([1e-6, 4.0])).log_prob(t.tensor(0.4)),
    lambda t: t.distributions.VonMises(0.5, t.tensor([1e-6, 4.0])).variance,
    lambda t: t.distributions.InverseGamma(t.tensor([0.5, 1.5]), 1.0).mean,
    lambda t: t.distributions.InverseGamma(t.tensor([0.5, 1.5]), 1.0).variance,
    lambda t: t.distributions.FisherSnedecor(1.0, t.tensor([1.0, 3.0, 5.0])).mean,
    lambda t: t.distributions.FisherSnedecor(1.0, t.tensor([1.0, 3.0, 5.0])).variance,
    lambda t: t.distributions.FisherSnedecor(t.tensor([1.0, 3.0]), 3.0).mode,
    lambda t: t.distributions.ContinuousBernoulli(0.3).cdf(t.tensor([0.0, 1.0])),
    lambda t: t.distributions.ContinuousBernoulli(t.tensor([0.0, 1.0])).mean,
    lambda t: t.distributions.LogisticNormal(0.3, 1.0).log_prob(t.tensor([0.2, 0.8])),
    lambda t: low_rank(t).covariance_matrix,
    lambda t: low_rank(t).precision_matrix,
    lambda t: low_rank(t).scale_tril,
    lambda t: low_rank(t).expand((4, 2)).scale_tril,
    lambda t: t.distributions.Kumaraswamy(t.tensor([0.5, 2.0]), 2.0).mode,
    lambda t: t.distributions.StudentT(3.0).log_prob(t.tensor([-math.inf, 1e4])),
]  # fmt: skip


@pytest.mark.parametrize("position", range(len(EDGES)))
def test_edges_equal_pytorchs(position: int) -> None:
    """Sure and impossible events, infinite moments, empty batches."""
    theirs, ours = (EDGES[position](t).numpy() for t in (torch, dj))
    assert theirs.dtype == ours.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("error")
def test_draws_of_wishart_distributions_are_good_at_once() -> None:
    """Without a warning; few degrees of freedom have one."""
    dj.manual_seed(0)
    made = dj.distributions.Wishart(3.0, dj.eye(3))
    assert bool(made.support.check(made.sample((100,))).all())
    for t in (torch, dj):
        with pytest.warns(UserWarning, match="Low df values"):
            t.distributions.Wishart(2.5, t.eye(3))
        with pytest.raises(AssertionError, match="Exactly one"):
            t.distributions.Wishart(3.0)


def test_sharp_angles_have_the_variance_of_bessel_functions() -> None:
    """1 - I1 / I0, where PyTorch's polynomials lose digits; draws have that variance."""
    special = pytest.importorskip("scipy.special")
    made = dj.distributions.VonMises(3.0, dj.tensor(500.0, dtype=dj.float64))
    expected = 1 - special.i1e(500.0) / special.i0e(500.0)
    np.testing.assert_allclose(made.variance.item(), expected, rtol=1e-10)
    dj.manual_seed(0)
    drawn = made.sample((4000,)).numpy()
    assert (drawn >= -math.pi).all() and (drawn < math.pi).all()
    np.testing.assert_allclose(1 - np.cos(drawn - 3.0).mean(), expected, rtol=0.1)


def test_counts_that_differ_are_refused_where_values_are_listed() -> None:
    """By `entropy` and `enumerate_support`."""
    for t in (torch, dj):
        made = t.distributions.Binomial(t.tensor([1.0, 2.0]), t.tensor(0.5))
        for ask in (made.entropy, made.enumerate_support):
            with pytest.raises(NotImplementedError, match="Inhomogeneous total count"):
                ask()
