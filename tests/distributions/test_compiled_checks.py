"""What distributions refuse, compiled ones refuse, too: every class, parameter and value.

A program is called with bad values, good ones and bad ones; the error is that of eager execution.
"""

import os
from collections.abc import Callable
from typing import Any, Final

import pytest

import dynajit as dj
from dynajit import distributions as d

#: Every class as native code, for known sizes and for such that vary, in both orders.
EVERY: Final = bool(os.environ.get("DYNAJIT_EVERY_REFUSAL"))

NAN: Final = float("nan")
A: Final = [[0.3, -1.2, 0.7], [2.0, 0.1, -0.4]]
P: Final = [[0.5, 1.7, 0.9], [2.5, 0.3, 1.0]]
U: Final = [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]
M: Final = [[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.7]]
C: Final = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]
T: Final = [[1.2, 0.0, 0.0], [0.3, 0.9, 0.0], [-0.4, 0.2, 0.8]]
UPPER: Final = [[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
CORNER: Final = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
COUNTS: Final = [[1.0, 2.0, 1.0], [0.0, 4.0, 0.0]]
BITS: Final = [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]
WARM: Final = dj.tensor(0.7)
NEGATIVE: Final = -1.0
OUTSIDE: Final = 1.5

#: class -> (how it is made, good parameters, bad ones in place of each, a good value, bad ones).
#: A number in place of a tensor stands in its first place.
CASES: Final[dict[str, tuple[Callable[..., Any], list[Any], list[list[Any]], Any, list[Any]]]] = {
    "Bernoulli": (d.Bernoulli, [U], [[OUTSIDE, NEGATIVE, NAN]], BITS, [0.5, NAN]),
    "Beta": (d.Beta, [P, P], [[0.0], [NEGATIVE]], U, [OUTSIDE, NEGATIVE]),
    "Binomial": (lambda p: d.Binomial(4, p), [U], [[OUTSIDE]], COUNTS, [NEGATIVE, 5.0, 0.5]),
    "Categorical": (d.Categorical, [U], [[NEGATIVE, NAN]], [2.0, 0.0], [3.0, NEGATIVE, 0.5]),
    "Cauchy": (d.Cauchy, [A, P], [[NAN], [0.0]], A, [NAN]),
    "Chi2": (d.Chi2, [P], [[NEGATIVE]], P, [NEGATIVE]),
    "ContinuousBernoulli": (lambda p: d.ContinuousBernoulli(p, validate_args=True), [U],
                            [[OUTSIDE]], U, [OUTSIDE]),
    "Dirichlet": (d.Dirichlet, [P], [[NEGATIVE, 0.0]], U, [0.9, NEGATIVE]),
    "Exponential": (d.Exponential, [P], [[NEGATIVE]], P, [NEGATIVE]),
    "FisherSnedecor": (d.FisherSnedecor, [P, P], [[NEGATIVE], [0.0]], P, [NEGATIVE]),
    "Gamma": (d.Gamma, [P, P], [[NEGATIVE], [0.0]], P, [NEGATIVE]),
    "GeneralizedPareto": (d.GeneralizedPareto, [A, P, U], [[NAN], [NEGATIVE], [NAN]],
                          [[5.0, 5.0, 5.0]], [-9.0]),
    "Geometric": (d.Geometric, [U], [[0.0, OUTSIDE]], COUNTS, [NEGATIVE, 0.5]),
    "Gumbel": (d.Gumbel, [A, P], [[NAN], [NEGATIVE]], A, [NAN]),
    "HalfCauchy": (d.HalfCauchy, [P], [[NEGATIVE]], P, [NEGATIVE]),
    "HalfNormal": (d.HalfNormal, [P], [[NEGATIVE]], P, [NEGATIVE]),
    "Independent": (lambda m, s: d.Independent(d.Normal(m, s), 1), [A, P], [[NAN], [NEGATIVE]],
                    A, [NAN]),
    "InverseGamma": (d.InverseGamma, [P, P], [[NEGATIVE], [0.0]], P, [NEGATIVE]),
    "Kumaraswamy": (d.Kumaraswamy, [P, P], [[NEGATIVE], [0.0]], U, [OUTSIDE]),
    "LKJCholesky": (lambda c: d.LKJCholesky(3, c), [2.0], [[NEGATIVE]], C, [0.5]),
    "Laplace": (d.Laplace, [A, P], [[NAN], [NEGATIVE]], A, [NAN]),
    "LogNormal": (d.LogNormal, [A, P], [[NAN], [NEGATIVE]], P, [NEGATIVE]),
    "LogisticNormal": (d.LogisticNormal, [A, P], [[NAN], [NEGATIVE]],
                       [[0.2, 0.5, 0.2, 0.1]] * 2, [0.9]),
    "LowRankMultivariateNormal": (d.LowRankMultivariateNormal, [A, M, [0.5, 1.7, 0.9]],
                                  [[NAN], [NAN], [NEGATIVE]], A, [NAN]),
    "MixtureSameFamily": (lambda w, m, s: d.MixtureSameFamily(d.Categorical(w), d.Normal(m, s)),
                          [U, A, P], [[NEGATIVE], [NAN], [NEGATIVE]], [0.3, 0.4], [NAN]),
    "Multinomial": (lambda p: d.Multinomial(4, p), [P], [[NEGATIVE]], COUNTS, [NEGATIVE, 3.0]),
    "MultivariateNormal": (d.MultivariateNormal, [A, M], [[NAN], [NEGATIVE, NAN]], A, [NAN]),
    "MultivariateNormal by precision": (
        lambda m, p: d.MultivariateNormal(m, precision_matrix=p), [A, M], [[NAN], [NEGATIVE]],
        A, [NAN]),
    "MultivariateNormal by factor": (
        lambda m, s: d.MultivariateNormal(m, scale_tril=s), [A, T], [[NAN], [NEGATIVE, UPPER]],
        A, [NAN]),
    "NegativeBinomial": (d.NegativeBinomial, [P, U], [[NEGATIVE], [OUTSIDE]], COUNTS,
                         [NEGATIVE, 0.5]),
    "Normal": (d.Normal, [A, P], [[NAN], [NEGATIVE, 0.0]], A, [NAN]),
    "OneHotCategorical": (d.OneHotCategorical, [U], [[NEGATIVE]], CORNER, [0.0, 0.5]),
    "OneHotCategoricalStraightThrough": (d.OneHotCategoricalStraightThrough, [U], [[NEGATIVE]],
                                         CORNER, [0.0]),
    "Pareto": (d.Pareto, [P, P], [[NEGATIVE], [0.0]], [[5.0, 5.0, 5.0]], [0.01]),
    "Poisson": (d.Poisson, [P], [[NEGATIVE]], COUNTS, [NEGATIVE, 0.5]),
    "RelaxedBernoulli": (lambda p: d.RelaxedBernoulli(WARM, p), [U], [[OUTSIDE]], U, [OUTSIDE]),
    "RelaxedOneHotCategorical": (lambda p: d.RelaxedOneHotCategorical(WARM, p), [U], [[NEGATIVE]],
                                 U, [0.9]),
    "StudentT": (d.StudentT, [P, A, P], [[NEGATIVE], [NAN], [0.0]], A, [NAN]),
    "TransformedDistribution": (
        lambda m, s: d.TransformedDistribution(d.Normal(m, s), [d.ExpTransform()]), [A, P],
        [[NAN], [NEGATIVE]], P, [NEGATIVE]),
    "Uniform": (d.Uniform, [A, [[3.0] * 3]], [[NAN, 4.0], [-9.0]], [[2.0] * 3], [-9.0, 9.0]),
    "VonMises": (d.VonMises, [A, P], [[NAN], [NEGATIVE]], A, [NAN]),
    "Weibull": (d.Weibull, [P, P], [[NEGATIVE], [0.0]], P, [NEGATIVE]),
    "Wishart": (lambda f, m: d.Wishart(f, m), [4.0, M], [[1.0], [NEGATIVE]], M, [NEGATIVE]),
}  # fmt: skip

#: Their parts are checked by the distributions that they are made of, or there is nothing to check.
LEFT_OUT: Final = {"Distribution", "ExponentialFamily"}


def classes() -> set[str]:
    found = {name for name in d.__all__ if isinstance(getattr(d, name), type)}
    return {name for name in found if issubclass(getattr(d, name), d.Distribution)}


def test_every_class_has_a_case() -> None:
    assert classes() - LEFT_OUT == {name.split()[0] for name in CASES}


def with_first(given: Any, bad: Any) -> Any:
    """A tensor whose first element is bad, or that is."""
    if isinstance(bad, list):
        return dj.tensor(bad)
    made = dj.tensor(given)
    made.view(-1)[0] = bad
    return made


def outcome(function: Callable[..., Any], *arguments: Any) -> str:
    """The error of a call, or that there is none."""
    try:
        function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def assert_refused(
    function: Callable[..., Any], good: list[Any], bad: list[list[Any]], **options: Any
) -> None:
    """A compiled function raises what it raises eagerly, in its first call and in later ones."""
    assert outcome(function, *good) == "no error"
    assert "no error" not in [outcome(function, *each) for each in bad]

    compiled = dj.compile(function, **options)

    for each in (*bad[:1], good, *bad):
        assert outcome(function, *each) == outcome(compiled, *each)


def ways(name: str, dynamic: bool) -> list[dict[str, Any]]:
    """Options of `compile`: what is captured does not depend on who computes it."""
    if EVERY:
        return [{"dynamic": True}, {"dynamic": None}]
    return [{"dynamic": dynamic or None, "backend": "native" if name in NATIVE else "numpy"}]


NATIVE: Final = ("Normal", "Gamma", "Categorical", "MultivariateNormal")


@pytest.mark.parametrize("name", CASES)
def test_compiled_distributions_refuse_parameters_as_eager_ones_do(name: str) -> None:
    make, parameters, wrong, _, _ = CASES[name]
    good = [dj.tensor(p) for p in parameters]
    bad = [
        [*good[:place], with_first(parameters[place], value), *good[place + 1 :]]
        for place, values in enumerate(wrong)
        for value in values
    ]
    for options in ways(name, dynamic=False):
        assert_refused(lambda *given: (make(*given), given[0] + 1)[1], good, bad, **options)


@pytest.mark.parametrize("name", CASES)
def test_compiled_distributions_refuse_values_as_eager_ones_do(name: str) -> None:
    make, parameters, _, value, wrong = CASES[name]
    good = [dj.tensor(p) for p in parameters]
    for options in ways(name, dynamic=True):
        assert_refused(
            lambda at, *given: make(*given).log_prob(at),
            [dj.tensor(value), *good],
            [[with_first(value, bad), *good] for bad in wrong],
            **options,
        )


def test_the_default_is_looked_up_in_every_call() -> None:
    compiled = dj.compile(lambda s: d.Normal(0.0, s).log_prob(dj.tensor(0.5)), backend="numpy")
    negative = dj.tensor(NEGATIVE)
    found = []
    for checks in (True, False, True):
        d.Distribution.set_default_validate_args(checks)
        try:
            found.append(outcome(compiled, negative).partition(":")[0])
        finally:
            d.Distribution.set_default_validate_args(True)

    assert ["InvalidValueError", "no error", "InvalidValueError"] == found


def test_checks_are_one_output_and_what_is_known_is_none() -> None:
    def outputs(function: Callable[..., Any]) -> int:
        graphs = []

        def backend(module: Any, examples: Any) -> Any:
            graphs.append(module.graph)
            return module

        dj.compile(function, backend=backend)(dj.tensor(0.5))
        return len(graphs[0].outputs)

    assert 2 == outputs(lambda x: d.Normal(0.0, 2.0).log_prob(x))
    assert 2 == outputs(lambda x: d.Normal(x, x).log_prob(x))
    assert 1 == outputs(lambda x: d.Normal(0.0, 2.0).mean + x)
