"""Every distribution against PyTorch's: log probabilities, moments, entropies, their gradients,
draws by their statistics, refusals, and one compiled graph."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

A = [[0.3, -1.2, 0.7], [2.0, 0.1, -0.4]]
P = [[0.5, 1.7, 0.9], [2.5, 0.3, 1.0]]
Q = [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]
M = [[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.7]]
T = [[1.2, 0.0, 0.0], [0.3, 0.9, 0.0], [-0.4, 0.2, 0.8]]


def covariance(name: str) -> Callable[..., Any]:
    return lambda d, loc, matrix: d.MultivariateNormal(loc, **{name: matrix})


# name -> (function of the module and tensors, parameters, values to ask for)
CASES: dict[str, tuple[Callable[..., Any], list[Any], Any]] = {
    "Normal": (lambda d, m, s: d.Normal(m, s), [A, P], A),
    "Normal of numbers": (lambda d, m: d.Normal(m, 2.0), [A], A),
    "Uniform": (lambda d, low, w: d.Uniform(low, low + w), [A, P],
                [[0.4, -1.0, 1.0], [3.0, 0.2, 0.5]]),
    "Bernoulli": (lambda d, p: d.Bernoulli(p), [Q], [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]),
    "Bernoulli by logits": (lambda d, x: d.Bernoulli(logits=x), [A],
                            [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]),
    "Categorical": (lambda d, p: d.Categorical(p), [P], [2, 0]),
    "Categorical by logits": (lambda d, x: d.Categorical(logits=x), [A], [1, 2]),
    "OneHotCategorical": (lambda d, p: d.OneHotCategorical(p), [P],
                          [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    "Straight through": (lambda d, p: d.OneHotCategoricalStraightThrough(p), [P],
                         [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    "Exponential": (lambda d, r: d.Exponential(r), [P], P),
    "Laplace": (lambda d, m, s: d.Laplace(m, s), [A, P], Q),
    "LogNormal": (lambda d, m, s: d.LogNormal(m, s), [A, P], P),
    "Independent": (lambda d, m, s: d.Independent(d.Normal(m, s), 1), [A, P], Q),
    "Multinomial": (lambda d, p: d.Multinomial(4, p), [P], [[1.0, 2.0, 1.0], [0.0, 4.0, 0.0]]),
    "Gamma": (lambda d, a, b: d.Gamma(a, b), [P, Q], P),
    "Chi2": (lambda d, a: d.Chi2(a), [P], P),
    "Beta": (lambda d, a, b: d.Beta(a, b), [P, Q], Q),
    "Dirichlet": (lambda d, a: d.Dirichlet(a), [P], Q),
    "MultivariateNormal": (covariance("covariance_matrix"), [A, M], Q),
    "by precision": (covariance("precision_matrix"), [A, M], Q),
    "by factor": (covariance("scale_tril"), [A, T], Q),
    "Squashed normal": (
        lambda d, m, s: d.TransformedDistribution(
            d.Normal(m, s), [d.AffineTransform(0.1, 0.5), d.TanhTransform()]),
        [A, P], [[0.3, -0.5, 0.9], [0.0, 0.2, -0.9]]),
    "Stick": (
        lambda d, m: d.TransformedDistribution(
            d.Independent(d.Normal(m, 1.0), 1), d.StickBreakingTransform()),
        [[0.3, -0.2]], [0.2, 0.5, 0.3]),
}  # fmt: skip
NAMES = list(CASES)
QUANTITIES = ["log_prob", "entropy", "mean", "variance", "stddev", "mode", "cdf", "icdf"]


def quantity(made: Any, name: str, value: Any) -> Any:
    """A quantity by name."""
    if name == "icdf":
        return made.icdf(value * 0 + 0.3)
    found = getattr(made, name)
    return found(value) if name in ("log_prob", "cdf") else found() if callable(found) else found


def outcome(library: Any, case: str, name: str, dtype: str) -> tuple[Any, list[Any]]:
    """The quantity as an array (or the error), and the gradients of the parameters."""
    make, parameters, value = CASES[case]
    kind = getattr(library, dtype)
    given = [library.tensor(p, dtype=kind).requires_grad_() for p in parameters]
    integer = case.startswith("Categorical")
    at = library.tensor(value) if integer else library.tensor(value, dtype=kind)
    try:
        found = quantity(make(library.distributions, *given), name, at)
    except NotImplementedError:
        return "missing", []
    if not found.requires_grad:
        return found.numpy(), []
    weights = library.arange(1, found.numel() + 1, dtype=kind).reshape(found.shape)
    try:
        gradients = library.autograd.grad((found * weights).sum(), given, allow_unused=True)
    except (NotImplementedError, RuntimeError):  # of the incomplete gamma function
        assert name == "cdf"
        return found.detach().numpy(), []
    return found.detach().numpy(), [None if g is None else g.numpy() for g in gradients]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", QUANTITIES)
@pytest.mark.parametrize("case", NAMES)
def test_quantities_and_gradients_equal_pytorchs(case: str, name: str, dtype: str) -> None:
    """What PyTorch has, and nothing where it has nothing."""
    expected, gradients = outcome(torch, case, name, dtype)
    actual, ours = outcome(dj, case, name, dtype)

    rtol, atol = (1e-4, 3e-5) if dtype == "float32" else (1e-7, 1e-7)
    if isinstance(expected, str):
        assert isinstance(actual, str)
        return
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)
    for mine, theirs in zip(ours, gradients, strict=bool(gradients)):
        if theirs is None or mine is None:
            assert theirs is None or not theirs.any()
            assert mine is None or not mine.any()
        else:
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=10 * atol)


@pytest.mark.parametrize("case", NAMES)
def test_shapes_and_texts_equal_pytorchs(case: str) -> None:
    """Batch, event, draws, expanded forms; facts of the class."""
    make, parameters, _ = CASES[case]
    facts = []
    for t in (torch, dj):
        made = make(t.distributions, *(t.tensor(p) for p in parameters))
        wide = made.expand((4, *made.batch_shape))
        drawn = made.sample((5, 2))
        facts.append([
            tuple(made.batch_shape), tuple(made.event_shape), tuple(drawn.shape),
            str(drawn.dtype).split(".")[1], tuple(wide.batch_shape), tuple(wide.sample().shape),
            tuple(wide.log_prob(wide.sample()).shape), type(wide).__name__,
            made.has_rsample, made.has_enumerate_support, made.support.event_dim,
            made.support.is_discrete, repr(made).replace("torch.", "").replace("dynajit.", "")
            if "Stick" not in case and "Squashed" not in case else "",
        ])  # fmt: skip
        assert bool(made.support.check(drawn).all())
        assert bool(t.isfinite(made.log_prob(drawn)).all())
    assert facts[0] == facts[1]


@pytest.mark.parametrize("case", NAMES)
def test_draws_have_the_mean_and_the_variance(case: str) -> None:
    """Within five standard errors; the same seed draws the same."""
    make, parameters, _ = CASES[case]
    made = make(dj.distributions, *(dj.tensor(p, dtype=dj.float64) for p in parameters))
    dj.manual_seed(1)
    drawn = made.sample((8000,))
    dj.manual_seed(1)
    assert dj.equal(drawn, made.sample((8000,)))
    if case.startswith("Categorical"):
        counts = np.stack([(drawn.numpy() == k).mean(0) for k in range(3)], -1)
        np.testing.assert_allclose(counts, made.probs.numpy(), atol=0.03)
        return
    if case in ("Squashed normal", "Stick"):
        reference = make(torch.distributions, *(torch.tensor(p) for p in parameters))
        mean = reference.sample((8000,)).mean(0).numpy()
        np.testing.assert_allclose(drawn.mean(0).numpy(), mean, atol=0.05)
        return
    mean, variance = made.mean.numpy(), made.variance.numpy()
    spread = np.sqrt(variance / 8000)
    assert (np.abs(drawn.mean(0).numpy() - mean) < 5 * spread + 1e-9).all()
    if case != "LogNormal":  # its fourth moment is too large for so few draws
        np.testing.assert_allclose(drawn.var(0).numpy(), variance, rtol=0.15, atol=0.01)


@pytest.mark.parametrize("case", [n for n in NAMES if CASES[n][0] and n not in (
    "Bernoulli", "Bernoulli by logits", "Categorical", "Categorical by logits",
    "OneHotCategorical", "Multinomial")])  # fmt: skip
def test_drawn_values_have_the_gradient_of_the_mean(case: str) -> None:
    """d mean(draws) / d parameters is near that of many of PyTorch's draws."""
    make, parameters, _ = CASES[case]
    found = []
    for t in (torch, dj):
        t.manual_seed(3)
        given = [t.tensor(p, dtype=t.float64).requires_grad_() for p in parameters]
        drawn = make(t.distributions, *given).rsample((6000,))
        weights = t.arange(1, drawn[0].numel() + 1, dtype=t.float64).reshape(drawn[0].shape)
        gradients = t.autograd.grad((drawn.mean(0) * weights).sum(), given)
        found.append([g.numpy() for g in gradients])
    scale = 0.9 if case == "LogNormal" else 0.15
    for theirs, mine in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=scale, atol=scale)


def test_gamma_draws_follow_their_distribution() -> None:
    """Small and large concentrations: the distribution function of the draws is uniform."""
    stats = pytest.importorskip("scipy.stats")
    dj.manual_seed(0)
    for shape in (0.05, 0.7, 1.0, 3.0, 50.0):
        drawn = dj.distributions.Gamma(dj.tensor(shape, dtype=dj.float64), 2.0).sample((4000,))
        result = stats.kstest(drawn.numpy(), stats.gamma(shape, scale=0.5).cdf)
        assert result.pvalue > 1e-4


def test_gamma_gradients_hold_the_probability() -> None:
    """The implicit derivative, against PyTorch's at the same draws."""
    from dynajit.eager.backward import gamma_numbers

    for shape in (0.2, 0.9, 2.5, 30.0):
        concentration = torch.full((50,), shape, dtype=torch.float64)
        drawn = torch._standard_gamma(concentration)
        expected = torch._standard_gamma_grad(concentration, drawn).numpy()
        actual = gamma_numbers.derivative(concentration.numpy(), drawn.numpy())
        np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=1e-7)


PAIRS = [
    ("Normal", "Normal"), ("Bernoulli", "Bernoulli"), ("Categorical", "Categorical by logits"),
    ("OneHotCategorical", "OneHotCategorical"), ("Uniform", "Uniform"), ("Uniform", "Normal"),
    ("Exponential", "Exponential"), ("Laplace", "Laplace"), ("Laplace", "Normal"),
    ("LogNormal", "LogNormal"), ("Independent", "Independent"), ("Gamma", "Gamma"),
    ("Beta", "Beta"), ("Dirichlet", "Dirichlet"), ("MultivariateNormal", "by precision"),
    ("Squashed normal", "Squashed normal"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_divergences_equal_pytorchs(first: str, second: str) -> None:
    """Values and gradients of both distributions' parameters."""
    found = []
    for t in (torch, dj):
        given = [
            [t.tensor(p, dtype=t.float64).requires_grad_() for p in CASES[name][1]]
            for name in (first, second)
        ]
        widened = [given[1][0] * 1.0, *(x * 1.25 for x in given[1][1:])]
        if second in ("by precision",):
            widened = given[1]
        p = CASES[first][0](t.distributions, *given[0])
        q = CASES[second][0](t.distributions, *widened)
        value = t.distributions.kl_divergence(p, q)
        finite = value[t.isfinite(value)].sum()
        gradients = t.autograd.grad(finite, [*given[0], *given[1]], allow_unused=True)
        found.append([value.detach().numpy(), *(g.numpy() for g in gradients if g is not None)])
    for theirs, mine in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)


def test_unknown_pairs_are_refused_and_can_be_registered() -> None:
    """By their classes."""
    d = dj.distributions
    q = d.Normal(0.0, 1.0)
    with pytest.raises(NotImplementedError, match="Cauchy and q type Normal"):
        d.kl_divergence(d.Cauchy(0.0, 1.0), q)

    class Mine(d.Normal):
        pass

    @d.register_kl(Mine, d.Normal)
    def formula(p: Any, q: Any) -> str:
        return "mine"

    assert "mine" == d.kl_divergence(Mine(0.0, 1.0), q)
    assert 0.0 == d.kl_divergence(q, Mine(0.0, 1.0)).item()


def test_divergences_of_classes_of_other_libraries_can_be_registered() -> None:
    """Any class is accepted; what is no class is refused."""

    class Other:
        pass

    for d in (torch.distributions, dj.distributions):
        d.register_kl(Other, d.Normal)(lambda p, q: "other")

        assert "other" == d.kl_divergence(Other(), d.Normal(0.0, 1.0))
        with pytest.raises(TypeError):
            d.register_kl("Other", d.Normal)


BAD: list[Callable[[Any], Any]] = [
    lambda t: t.distributions.Normal(t.zeros(2), t.tensor([1.0, -1.0])),
    lambda t: t.distributions.Normal(float("nan"), 1.0),
    lambda t: t.distributions.Normal("a", 1.0),
    lambda t: t.distributions.Uniform(1.0, 0.0),
    lambda t: t.distributions.Categorical(),
    lambda t: t.distributions.Categorical(t.ones(2), t.ones(2)),
    lambda t: t.distributions.Categorical(t.tensor(1.0)),
    lambda t: t.distributions.Categorical(t.tensor([-1.0, 1.0])),
    lambda t: t.distributions.Bernoulli(1.5),
    lambda t: t.distributions.Bernoulli(0.5).log_prob(t.tensor(0.3)),
    lambda t: t.distributions.Normal(t.zeros(2), 1.0).log_prob(t.zeros(3)),
    lambda t: t.distributions.Normal(0.0, 1.0).log_prob(1.0),
    lambda t: t.distributions.Categorical(t.ones(3)).log_prob(t.tensor(3)),
    lambda t: t.distributions.Exponential(t.tensor([0.0])),
    lambda t: t.distributions.Independent(t.distributions.Normal(0.0, 1.0), 1),
    lambda t: t.distributions.MultivariateNormal(t.zeros(2)),
    lambda t: t.distributions.MultivariateNormal(t.zeros(2), t.tensor([[1.0, 2.0], [2.0, 1.0]])),
    lambda t: t.distributions.MultivariateNormal(t.tensor(0.0), t.eye(2)),
    lambda t: t.distributions.Dirichlet(t.tensor(1.0)),
    lambda t: t.distributions.Beta(1.0, -1.0),
    lambda t: t.distributions.TransformedDistribution(t.distributions.Normal(0.0, 1.0), [3]),
    lambda t: t.distributions.ReshapeTransform((2,), (3,)),
]


@pytest.mark.parametrize("position", range(len(BAD)))
def test_bad_arguments_are_value_errors(position: int) -> None:
    """As in PyTorch, with the beginning of its text."""
    texts = []
    for t in (torch, dj):
        with pytest.raises(ValueError) as error:
            BAD[position](t)
        texts.append(str(error.value).replace("torch.", "").split()[:4])
    assert texts[0] == texts[1]


def test_checks_can_be_turned_off() -> None:
    """Per distribution, and by default."""
    d = dj.distributions
    assert d.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    d.Distribution.set_default_validate_args(False)
    try:
        assert d.Bernoulli(2.0).probs.item() == 2.0
    finally:
        d.Distribution.set_default_validate_args(True)


def test_values_can_be_listed() -> None:
    """Of discrete distributions."""
    for make in (
        lambda t: t.distributions.Categorical(t.ones(2, 3)),
        lambda t: t.distributions.Bernoulli(t.ones(2) * 0.5),
        lambda t: t.distributions.OneHotCategorical(t.ones(2, 3)),
    ):
        for expand in (True, False):
            theirs, ours = (make(t).enumerate_support(expand) for t in (torch, dj))
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_impossible_numbers_have_no_weight() -> None:
    """Logits of -inf: masked actions of a policy."""
    for t in (torch, dj):
        made = t.distributions.Categorical(logits=t.tensor([0.0, -float("inf"), 1.0]))
        assert np.isfinite(made.entropy().item())
        assert not (made.sample((200,)) == 1).any()
        np.testing.assert_allclose(made.entropy().item(), 0.58220309, rtol=1e-5)


@pytest.mark.parametrize("case", NAMES)
def test_a_compiled_graph_holds_the_distribution(case: str) -> None:
    """Made, asked and drawn from in one graph (gamma draws end it), with gradients."""
    make, parameters, value = CASES[case]
    draws = case not in ("Gamma", "Chi2", "Beta", "Dirichlet")

    def program(at: Any, *given: Any) -> Any:
        made = make(dj.distributions, *given)
        return made.log_prob(at).sum(), (made.sample((2,)) if draws else at)

    at = dj.tensor(value)
    results = []
    for call in (program, dj.compile(program, fullgraph=True)):
        dj.manual_seed(4)
        given = [dj.tensor(p).requires_grad_() for p in parameters]
        total, drawn = call(at, *given)
        total.backward()
        results.append([total.detach(), drawn, *(g.grad for g in given)])
    for plain, compiled in zip(*results, strict=True):
        np.testing.assert_allclose(compiled.numpy(), plain.numpy(), rtol=1e-4, atol=1e-5)
