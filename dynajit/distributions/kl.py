"""Kullback-Leibler divergences between distributions, by the pair of their classes.

Contract: `register_kl(P, Q)` enters a function; `kl_divergence(p, q)` calls the one of the nearest
base classes. Formulas compile and have gradients. Here are those of equal families; `kl_across`
enters those of different ones.

Source: integrals of log p - log q under p, for each pair.
"""

import math
from collections.abc import Callable
from typing import Any

from dynajit.core.errors import ArgumentError, InvalidValueError
from dynajit.core.process import late
from dynajit.distributions.bernoulli import Bernoulli
from dynajit.distributions.beta import Beta
from dynajit.distributions.binomial import Binomial
from dynajit.distributions.categorical import Categorical
from dynajit.distributions.cauchy import Cauchy
from dynajit.distributions.continuous_bernoulli import ContinuousBernoulli
from dynajit.distributions.dirichlet import Dirichlet
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.exponential import Exponential
from dynajit.distributions.gamma import Gamma
from dynajit.distributions.geometric import Geometric
from dynajit.distributions.gumbel import Gumbel
from dynajit.distributions.half_normal import HalfNormal
from dynajit.distributions.independent import Independent
from dynajit.distributions.laplace import Laplace
from dynajit.distributions.log_normal import LogNormal
from dynajit.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from dynajit.distributions.matrices import inverse_of_lower, matrix_times, solve_lower
from dynajit.distributions.multivariate_normal import MultivariateNormal
from dynajit.distributions.normal import HALF_LOG_2_PI, Normal
from dynajit.distributions.one_hot_categorical import OneHotCategorical
from dynajit.distributions.pareto import Pareto
from dynajit.distributions.poisson import Poisson
from dynajit.distributions.transformed_distribution import TransformedDistribution
from dynajit.distributions.uniform import Uniform
from dynajit.distributions.utils import euler_constant, sum_rightmost
from dynajit.distributions.wishart import Wishart
from dynajit.ops.functions import exp, log, log1p, where, xlogy
from dynajit.ops.functions.elements.special import multigammaln
from dynajit.ops.functions.networks.nn import softplus

_Formula = Callable[[Any, Any], Any]
_FORMULAS: dict[tuple[type, type], _Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[_Formula], _Formula]:
    """A decorator that enters `function(p, q)` for these classes and those derived from them.

    Raises:
        TypeError: something else than classes; any class is accepted, as in PyTorch, for
            distributions that other libraries make.
    """
    for one in (type_p, type_q):
        if not isinstance(one, type):
            raise ArgumentError(
                f"Expected type_p and type_q to be Distribution subclasses but got {one}"
            )

    def enter(function: _Formula) -> _Formula:
        _FORMULAS[type_p, type_q] = function
        return function

    return enter


def _formula_for(type_p: type, type_q: type) -> _Formula | None:
    """The formula of the nearest base classes: the first class counts most."""
    for base_p in type_p.__mro__:
        for base_q in type_q.__mro__:
            if (base_p, base_q) in _FORMULAS:
                return _FORMULAS[base_p, base_q]
    return None


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """The divergence of p from q, shape batch_shape.

    Raises:
        NotImplementedError: no formula is known for their classes.
    """
    formula = _formula_for(type(p), type(q))
    if formula is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}"
        )
    return formula(p, q)


@register_kl(Normal, Normal)
def _normal_normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    shift = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + shift - 1 - log(ratio))


@register_kl(LogNormal, LogNormal)
def _log_normal_log_normal(p: Any, q: Any) -> Any:
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed_transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "KL(p || q) of transformed distributions needs the same transforms"
        )
    found = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(found, len(found.shape) - len(p.batch_shape))


@register_kl(Independent, Independent)
def _independent_independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL(p || q) needs the same reinterpreted_batch_ndims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli_bernoulli(p: Any, q: Any) -> Any:
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    one = where(q.probs == 0, math.inf, one)
    one = where(p.probs == 0, 0.0, one)
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    zero = where(q.probs == 1, math.inf, zero)
    return one + where(p.probs == 1, 0.0, zero)


@register_kl(Categorical, Categorical)
def _categorical_categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = where(q.probs == 0, math.inf, terms)
    return where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_one_hot(p: Any, q: Any) -> Any:
    return _categorical_categorical(p._categorical, q._categorical)


@register_kl(Uniform, Uniform)
def _uniform_uniform(p: Any, q: Any) -> Any:
    found = log((q.high - q.low) / (p.high - p.low))
    return where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Any, q: Any) -> Any:
    width = p.high - p.low
    shift = (p.high + p.low - 2 * q.loc) / 2
    distance = (width.pow(2) / 12 + shift.pow(2)) / (2 * q.scale.pow(2))
    return HALF_LOG_2_PI + log(q.scale) - log(width) + distance


@register_kl(Exponential, Exponential)
def _exponential_exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -log(ratio) + ratio - 1


@register_kl(Laplace, Laplace)
def _laplace_laplace(p: Any, q: Any) -> Any:
    distance = (p.loc - q.loc).abs()
    ratio = p.scale / q.scale
    return -log(ratio) + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Laplace, Normal)
def _laplace_normal(p: Any, q: Any) -> Any:
    variance = q.scale.pow(2)
    ratio = p.scale.pow(2) / variance
    inside = 0.5 * log(2 * ratio / math.pi)
    means = 0.5 * p.loc.pow(2) - p.loc * q.loc + 0.5 * q.loc.pow(2)
    return -inside + ratio + means / variance - 1


@register_kl(Gamma, Gamma)
def _gamma_gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    return (
        b * log(p.rate / q.rate)
        + b.lgamma()
        - a.lgamma()
        + (a - b) * a.digamma()
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet_dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    normalisers = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return normalisers + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta_beta(p: Any, q: Any) -> Any:
    return _dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_multivariate(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise InvalidValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be "
            "computed"
        )
    factor, other = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    columns = solve_lower(other.unsqueeze(-3), factor.mT)
    trace = columns.pow(2).sum((-1, -2))
    shift = solve_lower(other, q.loc - p.loc).pow(2).sum(-1)
    half_logs = q._half_log_determinant() - p._half_log_determinant()
    return half_logs + 0.5 * (trace + shift - p.event_shape[0])


@register_kl(HalfNormal, HalfNormal)
def _half_normal_half_normal(p: Any, q: Any) -> Any:
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(Binomial, Binomial)
def _binomial_binomial(p: Any, q: Any) -> Any:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    found = p.total_count * _bernoulli_bernoulli(p, q)
    return where(p.total_count > q.total_count, math.inf, found)


@register_kl(Geometric, Geometric)
def _geometric_geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson_poisson(p: Any, q: Any) -> Any:
    return xlogy(p.rate, p.rate) - xlogy(p.rate, q.rate) - (p.rate - q.rate)


@register_kl(Cauchy, Cauchy)
def _cauchy_cauchy(p: Any, q: Any) -> Any:
    # F. Chyzak and F. Nielsen, arXiv:1905.10965.
    distance = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return log(distance) - log(4 * p.scale * q.scale)


@register_kl(Gumbel, Gumbel)
def _gumbel_gumbel(p: Any, q: Any) -> Any:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    tail = exp((1 + ratio).lgamma() - shift)
    return shift - log(ratio) + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(Pareto, Pareto)
def _pareto_pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    found = q.alpha * log(p.scale / q.scale) - log(ratio) + ratio - 1
    return where(p.scale < q.scale, math.inf, found)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli_continuous_bernoulli(p: Any, q: Any) -> Any:
    normalisers = p._log_normalizer_of_probs() - q._log_normalizer_of_probs()
    return p.mean * (p.logits - q.logits) + normalisers + log1p(-p.probs) - log1p(-q.probs)


def _normal_vectors(p: Any, q: Any, trace: Any, distance: Any) -> Any:
    """From the trace of inv(covariance of q) @ covariance of p, and the means' distance by q."""
    half_logs = q._half_log_determinant() - p._half_log_determinant()
    return half_logs + 0.5 * (trace + distance - p.event_shape[0])


def _require_same_event(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise InvalidValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event "
            "shapes cannot be computed"
        )


def _trace_of_low_rank(q: Any, factor: Any) -> Any:
    """The trace of inv(covariance of q) @ factor @ factor'."""
    diagonal = q._unbroadcasted_cov_diag.unsqueeze(-1)
    inside = (q._solved_rows() @ factor).pow(2).sum((-1, -2))
    return (factor.pow(2) / diagonal).sum((-1, -2)) - inside


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank_low_rank(p: Any, q: Any) -> Any:
    _require_same_event(p, q)
    own = p._unbroadcasted_cov_diag
    trace = _trace_of_low_rank(q, p._unbroadcasted_cov_factor)
    trace = trace + (own / q._unbroadcasted_cov_diag).sum(-1)
    trace = trace - (q._solved_rows().pow(2) * own.unsqueeze(-2)).sum((-1, -2))
    return _normal_vectors(p, q, trace, q._squared_distance(q.loc - p.loc))


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _multivariate_low_rank(p: Any, q: Any) -> Any:
    _require_same_event(p, q)
    trace = _trace_of_low_rank(q, p._unbroadcasted_scale_tril)
    return _normal_vectors(p, q, trace, q._squared_distance(q.loc - p.loc))


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_multivariate(p: Any, q: Any) -> Any:
    _require_same_event(p, q)
    inverse = inverse_of_lower(q._unbroadcasted_scale_tril)
    common = (inverse @ p._unbroadcasted_cov_factor).pow(2).sum((-1, -2))
    own = (inverse.pow(2) * p._unbroadcasted_cov_diag.unsqueeze(-2)).sum((-1, -2))
    distance = matrix_times(inverse, q.loc - p.loc).pow(2).sum(-1)
    return _normal_vectors(p, q, common + own, distance)


@register_kl(Wishart, Wishart)
def _wishart_wishart(p: Any, q: Any) -> Any:
    # The mean of the log density's difference needs E[log det], which has the digamma function.
    size = p.event_shape[-1]
    inverse = inverse_of_lower(q._unbroadcasted_scale_tril)
    trace = (inverse @ p._unbroadcasted_scale_tril).pow(2).sum((-1, -2))
    half_logs = q._half_log_determinant() - p._half_log_determinant()
    constants = multigammaln(q.df / 2, size) - multigammaln(p.df / 2, size)
    growth = (p.df - q.df) / 2 * p._multivariate_digamma()
    return q.df * half_logs + p.df * (trace - size) / 2 + constants + growth


__all__ = ["kl_divergence", "register_kl"]

late.show(__name__)
