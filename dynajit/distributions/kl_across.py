"""Divergences between distributions of different families, entered into `kl`.

Contract: the divergence of p from q is minus the entropy of p, minus the mean of log q under p; so
there is one function per q, which takes the means that it needs, and a table of the pairs. Where p
draws what q cannot, it is infinite, and has no gradient. Imported for its entries.

Source: integrals; moments and moment generating functions of each family.
"""

import math
from typing import Any, Final

from dynajit.distributions.bernoulli import Bernoulli
from dynajit.distributions.beta import Beta
from dynajit.distributions.binomial import Binomial
from dynajit.distributions.continuous_bernoulli import ContinuousBernoulli
from dynajit.distributions.exponential import Exponential
from dynajit.distributions.gamma import Gamma
from dynajit.distributions.gumbel import Gumbel
from dynajit.distributions.kl import register_kl
from dynajit.distributions.laplace import Laplace
from dynajit.distributions.normal import HALF_LOG_2_PI, Normal
from dynajit.distributions.pareto import Pareto
from dynajit.distributions.poisson import Poisson
from dynajit.distributions.uniform import Uniform
from dynajit.distributions.utils import euler_constant
from dynajit.ops import functions as f

_BOUNDED: Final = (Beta, ContinuousBernoulli, Pareto, Uniform)
_INFINITE: Final[dict[tuple[type, str], tuple[type, ...]]] = {
    (Beta, "concentration1"): (Pareto,),
    (ContinuousBernoulli, "probs"): (Pareto,),
    (Exponential, "rate"): _BOUNDED,
    (Gamma, "concentration"): _BOUNDED,
    (Gumbel, "loc"): (*_BOUNDED, Exponential, Gamma),
    (Laplace, "loc"): (*_BOUNDED, Exponential, Gamma),
    (Normal, "loc"): (*_BOUNDED, Exponential, Gamma),
    (Pareto, "scale"): (Beta, ContinuousBernoulli, Uniform),
    (Poisson, "rate"): (Bernoulli, Binomial),
}
"""(class of p, a parameter that has its shape) -> classes of q that cannot draw all that p can."""


def _enter_infinite(type_p: type, name: str, type_q: type) -> None:
    @register_kl(type_p, type_q)
    def formula(p: Any, q: Any) -> Any:
        return f.full_like(getattr(p, name), math.inf)


for (_type_p, _name), _types in _INFINITE.items():
    for _type_q in _types:
        _enter_infinite(_type_p, _name, _type_q)


def _mean_of_uniform_log(low: Any, high: Any) -> Any:
    """The mean of log x between two bounds."""
    return (f.xlogy(high, high) - f.xlogy(low, low)) / (high - low) - 1


def _mean_of_log(p: Any) -> Any:
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -f.log(p.rate) - euler_constant
    if isinstance(p, Pareto):
        return f.log(p.scale) + p.alpha.reciprocal()
    return _mean_of_uniform_log(p.low, p.high)


def _within(p: Any, good: Any) -> Any:
    """A uniform distribution where it is good, else one that has finite divergences."""
    low, high = f.where(good, p.low, 0.25), f.where(good, p.high, 0.75)
    return Uniform(low, high, validate_args=False)


def _with_moments(p: Any, good: Any) -> Any:
    """A Pareto distribution where it is good, else one whose moments are finite."""
    return Pareto(p.scale, f.where(good, p.alpha, 3.0), validate_args=False)


# -- q is exponential or gamma ----------------------------------------------------------------


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _to_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - f.log(q.rate) + q.rate * p.mean


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Any:
    good = p.low >= 0
    return f.where(good, _to_exponential(_within(p, good), q), math.inf)


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Any:
    good = p.alpha > 1
    return f.where(good, _to_exponential(_with_moments(p, good), q), math.inf)


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
def _to_gamma(p: Any, q: Any) -> Any:
    shape, rate = q.concentration, q.rate
    constant = shape.lgamma() - shape * f.log(rate)
    return constant - p.entropy() - (shape - 1) * _mean_of_log(p) + rate * p.mean


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Any:
    good = p.low >= 0
    return f.where(good, _to_gamma(_within(p, good), q), math.inf)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Any:
    good = p.alpha > 1
    return f.where(good, _to_gamma(_with_moments(p, good), q), math.inf)


# -- q is normal or Laplace -------------------------------------------------------------------


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
def _to_normal(p: Any, q: Any) -> Any:
    distance = (p.variance + (p.mean - q.loc).pow(2)) / (2 * q.scale.pow(2))
    return distance - p.entropy() + f.log(q.scale) + HALF_LOG_2_PI


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Any:
    good = p.alpha > 2
    return f.where(good, _to_normal(_with_moments(p, good), q), math.inf)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    shift = (p.loc - q.loc) / p.scale
    # The mean of |x - q.loc|, a folded normal value.
    distance = math.sqrt(2 / math.pi) * f.exp(-0.5 * shift.pow(2)) + shift * f.erf(
        math.sqrt(0.5) * shift
    )
    return distance * p.scale / q.scale + f.log(2 * q.scale) - p.entropy()


# -- q is Gumbel: the mean of exp(-(x - loc) / scale) -------------------------------------------


def _to_gumbel(p: Any, q: Any, mean_of_exp: Any) -> Any:
    return mean_of_exp - p.entropy() + f.log(q.scale) + (p.mean - q.loc) / q.scale


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    both = p.rate * q.scale
    return _to_gumbel(p, q, f.exp(q.loc / q.scale) * both / (both + 1))


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Any:
    power = -p.concentration * f.log1p((p.rate * q.scale).reciprocal())
    return _to_gumbel(p, q, f.exp(q.loc / q.scale + power))


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    power = (q.loc - p.loc) / q.scale + 0.5 * (p.scale / q.scale).pow(2)
    return _to_gumbel(p, q, f.exp(power))


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    ends = f.exp((q.loc - p.low) / q.scale) - f.exp((q.loc - p.high) / q.scale)
    return _to_gumbel(p, q, ends * q.scale / (p.high - p.low))


# -- q is bounded -------------------------------------------------------------------------------


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _to_uniform(p: Any, q: Any) -> Any:
    found = f.log(q.high - q.low) - p.entropy()
    return f.where((q.low > 0) | (q.high < 1), math.inf, found)


@register_kl(Beta, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: Any) -> Any:
    constant = f.log1p(-q.probs) + q._log_normalizer_of_probs()
    return -p.entropy() - p.mean * q.logits - constant


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    found = _to_continuous_bernoulli(p, q)
    return f.where((p.low < 0) | (p.high > 1), math.inf, found)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    good = (p.low >= 0) & (p.high <= 1)
    kept, a, b = _within(p, good), q.concentration1, q.concentration0
    powers = (a - 1) * _mean_of_log(kept)
    powers = powers + (b - 1) * _mean_of_uniform_log(1 - kept.high, 1 - kept.low)
    constant = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return f.where(good, constant - powers - kept.entropy(), math.inf)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    good = p.low >= q.scale
    kept = _within(p, good)
    powers = (q.alpha + 1) * _mean_of_log(kept)
    found = powers - f.log(q.alpha) - q.alpha * f.log(q.scale) - kept.entropy()
    return f.where(good, found, math.inf)


# -- counts -------------------------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return q.rate - p.entropy() - p.probs * f.log(q.rate)
