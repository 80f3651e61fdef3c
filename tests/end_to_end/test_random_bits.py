"""Draws give the same bits eagerly and compiled: every function that draws, every floating dtype,
odd sizes, views; and backward sees what forward drew."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import dynajit as dj
import dynajit.distributions as D
import dynajit.nn.functional as F
from dynajit import nn
from dynajit.ops.functions.creation.random_fills import FILLS

pytestmark = pytest.mark.one_python

FLOATING: Final = (dj.float32, dj.float64, dj.float16, dj.bfloat16)
CASES: Final = (((), FLOATING[0]), *(((7, 37), dtype) for dtype in FLOATING))

Draw = Callable[[tuple[int, ...], Any], Any]


def filling(name: str, *arguments: Any) -> Draw:
    """A method that fills a tensor, and a part of one whose elements do not lie side by side."""

    def draw(shape: tuple[int, ...], dtype: Any) -> Any:
        whole = getattr(dj.empty(shape, dtype=dtype), f"{name}_")(*arguments)
        base = dj.zeros((3, *shape, 5), dtype=dtype)
        getattr(base[1:, ..., 2], f"{name}_")(*arguments)
        return whole, base

    return draw


def ramp(shape: tuple[int, ...], dtype: Any) -> Any:
    return (dj.arange(dj.Size(shape).numel()).reshape(shape) * 0.01 + 0.3).to(dtype)


def matrix(shape: tuple[int, ...], dtype: Any) -> Any:
    return ramp((1, 5, *shape), dtype)


def initialised(function: Any) -> Draw:
    return lambda shape, dtype: function(dj.empty((3, 5, *shape), dtype=dtype))


ARGUMENTS: Final = {
    "uniform": (-1.3, 2.1), "normal": (0.3, 1.7), "bernoulli": (0.3,), "random": (2, 90),
    "exponential": (1.3,), "geometric": (0.3,), "cauchy": (0.1, 1.3), "log_normal": (0.3, 0.7),
}  # fmt: skip

DRAWS: Final[dict[str, Draw]] = {
    **{f"{name}_": filling(name, *arguments) for name, arguments in ARGUMENTS.items()},
    "defaults": lambda shape, dtype: [
        getattr(dj.empty(shape, dtype=dtype), f"{name}_")() for name in FILLS if name != "geometric"
    ],
    "rand": lambda shape, dtype: (dj.rand(shape, dtype=dtype), dj.rand_like(ramp(shape, dtype))),
    "randn": lambda shape, dtype: (dj.randn(shape, dtype=dtype), dj.randn_like(ramp(shape, dtype))),
    "normal": lambda shape, dtype: dj.normal(ramp(shape, dtype), ramp(shape, dtype)),
    "randint": lambda shape, dtype: dj.randint(0, 100, shape, dtype=dtype),
    "bernoulli": lambda shape, dtype: dj.bernoulli(ramp(shape, dtype) / 4),
    "binomial": lambda shape, dtype: dj.binomial(
        ramp(shape, dtype).round() + 4, ramp(shape, dtype) / 4
    ),
    "dropout": lambda shape, dtype: F.dropout(ramp(shape, dtype), 0.3),
    "channels": lambda shape, dtype: F.dropout1d(matrix(shape, dtype).reshape(1, 5, -1), 0.3),
    "alpha_dropout": lambda shape, dtype: F.alpha_dropout(ramp(shape, dtype), 0.3, training=True),
    "rrelu": lambda shape, dtype: F.rrelu(-ramp(shape, dtype), 0.1, 0.3, training=True),
    "xavier": initialised(nn.init.xavier_normal_),
    "kaiming": initialised(nn.init.kaiming_uniform_),
    "truncated": initialised(nn.init.trunc_normal_),
}  # fmt: skip

#: Whose sampling does not add what it drew: the order of a sum is the kernel's own.
DISTRIBUTIONS: Final = {
    "Normal": lambda one: D.Normal(one, one), "LogNormal": lambda one: D.LogNormal(one, one),
    "Exponential": D.Exponential, "Gumbel": lambda one: D.Gumbel(one, one),
    "Laplace": lambda one: D.Laplace(one, one), "Cauchy": lambda one: D.Cauchy(one, one),
    "HalfNormal": D.HalfNormal, "HalfCauchy": D.HalfCauchy,
    "StudentT": lambda one: D.StudentT(one + 2), "Weibull": lambda one: D.Weibull(one, one + 1),
    "Pareto": lambda one: D.Pareto(one, one), "Gamma": lambda one: D.Gamma(one, one),
    "InverseGamma": lambda one: D.InverseGamma(one, one),
    "Kumaraswamy": lambda one: D.Kumaraswamy(one, one + 1),
    "Uniform": lambda one: D.Uniform(one - 1, one), "Geometric": lambda one: D.Geometric(one / 4),
    "Bernoulli": lambda one: D.Bernoulli(one / 4), "Poisson": D.Poisson,
    "LogisticNormal": lambda one: D.LogisticNormal(one.reshape(-1), one.reshape(-1)),
    "RelaxedBernoulli": lambda one: D.RelaxedBernoulli(one, one / 4),
    "ContinuousBernoulli": lambda one: D.ContinuousBernoulli(one / 4),
}  # fmt: skip


def assert_same_bits(expected: Any, actual: Any) -> None:
    """Of tensors, and of tuples and lists of them."""
    if isinstance(expected, (tuple, list)):
        for left, right in zip(expected, actual, strict=True):
            assert_same_bits(left, right)
        return
    assert (expected.dtype, expected.shape) == (actual.dtype, actual.shape)
    np.testing.assert_array_equal(
        *(np.atleast_1d(_wide(t)).view(np.uint64) for t in (expected, actual))
    )


def _wide(tensor: Any) -> Any:
    """In float64, which has the bits of all narrower ones."""
    return tensor.detach().double().contiguous().numpy()


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    dj.manual_seed(23)
    return function(*arguments), dj.rand(1)


def assert_drawn_alike(function: Callable[..., Any], *arguments: Any) -> None:
    """Also what is drawn next, and by a later call."""
    compiled = dj.compile(function)
    for _ in range(2):
        assert_same_bits(run(function, *arguments), run(compiled, *arguments))


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_the_bits_of_eager_execution(name: str) -> None:
    assert_drawn_alike(lambda: [DRAWS[name](shape, dtype) for shape, dtype in CASES])


@pytest.mark.parametrize("names", [[*DISTRIBUTIONS][i : i + 3] for i in range(0, 21, 3)], ids=str)
def test_samples_of_distributions_have_the_bits_of_eager_execution(names: list[str]) -> None:
    def samples(one: Any) -> list[Any]:
        return [DISTRIBUTIONS[name](one).sample() for name in names]

    for dtype in (dj.float32, dj.float64):
        assert_drawn_alike(samples, dj.full((7, 37), 1.3, dtype=dtype))


def test_every_method_that_fills_is_among_them() -> None:
    assert set(FILLS) == set(ARGUMENTS)


def test_numbers_that_do_not_depend_on_a_dtype_are_those_of_eager_execution() -> None:
    weights = ramp((6, 9), dj.float32)
    assert_drawn_alike(lambda: (dj.randperm(1), dj.randperm(37), dj.randint(5, (7,))))
    assert_drawn_alike(lambda: (weights.multinomial(4), weights.multinomial(20, replacement=True)))


@pytest.mark.parametrize("size", [1, 5, 64, 4097])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_backward_of_dropout_sees_what_forward_drew(p: float, size: int) -> None:
    """The draws are not stored: kernels of backward repeat them."""

    def twice_dropped(x: Any) -> Any:
        return F.dropout((F.dropout(x, p) * x).tanh(), p)

    def gradient(function: Callable[[Any], Any]) -> tuple[Any, Any]:
        x = ramp((size,), dj.float32).requires_grad_()
        dropped = function(x)
        dropped.backward(ramp((size,), dj.float32))
        return dropped, x.grad

    expected, actual = run(gradient, twice_dropped), run(gradient, dj.compile(twice_dropped))
    assert_same_bits(expected, actual)


def test_what_dropout_drops_gets_no_gradient() -> None:
    x = ramp((4097,), dj.float32).requires_grad_()
    dropped = dj.compile(lambda x: F.dropout(x, 0.4))(x)
    dropped.sum().backward()
    assert 1000 < int((dropped == 0).sum()) < 2300
    assert dj.equal(dropped == 0, x.grad == 0)
