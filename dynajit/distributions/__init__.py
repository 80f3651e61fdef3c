"""Probability distributions with PyTorch's names: draws, log probabilities, entropies, divergences.

Contract: everything is composed of library functions, so that log probabilities, entropies and
most draws compile and have gradients; draws come from the default generator and are not PyTorch's
numbers. Draws by rejection (gamma and what is made of it, counts, angles) end a compiled graph.
"""

from dynajit.core.process import late
from dynajit.distributions import constraints, kl, kl_across, transforms, utils
from dynajit.distributions.bernoulli import Bernoulli
from dynajit.distributions.beta import Beta
from dynajit.distributions.binomial import Binomial
from dynajit.distributions.categorical import Categorical
from dynajit.distributions.cauchy import Cauchy
from dynajit.distributions.constraint_registry import biject_to, transform_to
from dynajit.distributions.continuous_bernoulli import ContinuousBernoulli
from dynajit.distributions.dirichlet import Dirichlet
from dynajit.distributions.distribution import Distribution, ExponentialFamily
from dynajit.distributions.exponential import Exponential
from dynajit.distributions.fishersnedecor import FisherSnedecor
from dynajit.distributions.gamma import Chi2, Gamma
from dynajit.distributions.generalized_pareto import GeneralizedPareto
from dynajit.distributions.geometric import Geometric
from dynajit.distributions.gumbel import Gumbel
from dynajit.distributions.half_cauchy import HalfCauchy
from dynajit.distributions.half_normal import HalfNormal
from dynajit.distributions.independent import Independent
from dynajit.distributions.inverse_gamma import InverseGamma
from dynajit.distributions.kl import kl_divergence, register_kl
from dynajit.distributions.kumaraswamy import Kumaraswamy
from dynajit.distributions.laplace import Laplace
from dynajit.distributions.lkj_cholesky import LKJCholesky
from dynajit.distributions.log_normal import LogNormal
from dynajit.distributions.logistic_normal import LogisticNormal
from dynajit.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from dynajit.distributions.mixture_same_family import MixtureSameFamily
from dynajit.distributions.multinomial import Multinomial
from dynajit.distributions.multivariate_normal import MultivariateNormal
from dynajit.distributions.negative_binomial import NegativeBinomial
from dynajit.distributions.normal import Normal
from dynajit.distributions.one_hot_categorical import (
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from dynajit.distributions.pareto import Pareto
from dynajit.distributions.poisson import Poisson
from dynajit.distributions.relaxed_bernoulli import RelaxedBernoulli
from dynajit.distributions.relaxed_categorical import RelaxedOneHotCategorical
from dynajit.distributions.studentT import StudentT
from dynajit.distributions.transformed_distribution import TransformedDistribution
from dynajit.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from dynajit.distributions.uniform import Uniform
from dynajit.distributions.von_mises import VonMises
from dynajit.distributions.weibull import Weibull
from dynajit.distributions.wishart import Wishart

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraints",
    "identity_transform",
    "kl",
    "kl_across",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
    "utils",
]

late.show(__name__)
