"""Values and sizes that PyTorch's functions refuse are refused, eagerly and in compiled code.

Every function of `CHECKS` is called with every number of `NUMBERS` as an element, or as a number:
it raises where PyTorch's raises, and nowhere else. In compiled code elements are not known before
the launch, which refuses them; the first call and later ones are looked at. `SIZES` are calls whose
arguments do not go together. Skipped without PyTorch.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

NUMBERS = (0.5, 2.0, -0.5, math.nan, math.inf, 0.0, 1.0)

HALF = (0.5, 0.5)


def F(t: Any) -> Any:
    return t.nn.functional


CHECKS: dict[str, Callable[[Any, Any], Any]] = {
    "bernoulli": lambda t, x: t.bernoulli(x),
    "bernoulli of method": lambda t, x: x.bernoulli(),
    "bernoulli_": lambda t, x: t.zeros(2).bernoulli_(x),
    "binary_cross_entropy": lambda t, x: F(t).binary_cross_entropy(x, t.tensor(HALF)),
    "of targets": lambda t, x: F(t).binary_cross_entropy(t.tensor(HALF), x),
    "without reduction": lambda t, x: F(t).binary_cross_entropy(
        x, t.tensor(HALF), reduction="none"
    ),
    "of logits": lambda t, x: F(t).binary_cross_entropy_with_logits(x, t.tensor(HALF)),
    "deviations": lambda t, x: t.normal(0.0, x),
    "both tensors": lambda t, x: t.normal(t.zeros(2), x),
    "quantile": lambda t, x: t.quantile(t.arange(4.0), x),
    "nanquantile": lambda t, x: t.nanquantile(t.arange(4.0), x),
    "multinomial": lambda t, x: t.multinomial(x, 1),
    "gaussian_nll_loss": lambda t, x: F(t).gaussian_nll_loss(t.ones(2), t.ones(2), x),
    "cov": lambda t, x: t.cov(t.ones(3, 2) * x.detach().nan_to_num(), aweights=x),
}
"""Functions of a tensor of two elements, one of which is the number."""

GIVEN: dict[str, Callable[[Any, float], Any]] = {
    "bernoulli": lambda t, p: t.bernoulli(t.tensor(HALF), p),
    "bernoulli of method": lambda t, p: t.ones(2).bernoulli(p),
    "bernoulli_": lambda t, p: t.ones(2).bernoulli_(p),
    "normal": lambda t, p: t.normal(0.0, p, (2,)),
    "normal of means": lambda t, p: t.normal(t.zeros(2), p),
    "normal_": lambda t, p: t.ones(2).normal_(0, p),
    "exponential_": lambda t, p: t.ones(2).exponential_(p),
    "geometric_": lambda t, p: t.ones(2).geometric_(p),
    "log_normal_": lambda t, p: t.ones(2).log_normal_(0, p),
    "dropout": lambda t, p: F(t).dropout(t.ones(2), p),
    "cdist": lambda t, p: t.cdist(t.ones(2, 2), t.ones(2, 2), p),
    "pdist": lambda t, p: F(t).pdist(t.ones(2, 2), p),
    "renorm": lambda t, p: t.renorm(t.ones(2, 2), 2, 0, p),
    "renorm of order": lambda t, p: t.renorm(t.ones(2, 2), p, 0, 1.0),
    "smooth_l1_loss": lambda t, p: F(t).smooth_l1_loss(t.ones(2), t.ones(2), beta=p),
    "quantile": lambda t, p: t.quantile(t.ones(2), p),
}
"""Functions of a Python number."""

SIZES: dict[str, Callable[[Any, int], Any]] = {
    "nll_loss": lambda t, n: F(t).nll_loss(t.ones(2, 3), t.tensor([0, 1]), t.ones(n)),
    "nll_loss of one": lambda t, n: F(t).nll_loss(t.ones(3), t.tensor(1), t.ones(n)),
    "nll_loss of places": lambda t, n: F(t).nll_loss(
        t.ones(1, 3, 2), t.tensor([[1, 1]]), t.ones(n)
    ),
    "cross_entropy": lambda t, n: F(t).cross_entropy(t.ones(2, 3), t.tensor([0, 1]), t.ones(n)),
    "of probabilities": lambda t, n: F(t).cross_entropy(t.ones(2, 3), t.ones(2, 3), t.ones(n)),
    "multi_margin_loss": lambda t, n: F(t).multi_margin_loss(
        t.ones(2, 3), t.tensor([0, 1]), weight=t.ones(n)
    ),
    "bilinear": lambda t, n: F(t).bilinear(t.ones(1, 2), t.ones(1, 2), t.ones(3, 2, 2), t.ones(n)),
    "trapezoid": lambda t, n: t.trapezoid(t.ones(3), t.ones(n)),
    "flip": lambda t, n: t.ones(2, 3, 4).flip(0, n - 3),
    "squeeze": lambda t, n: t.ones(1, 1, 4).squeeze((0, n - 3)),
    "gradient": lambda t, n: t.gradient(t.ones(2, 3, 4), dim=(0, n - 3)),
    "random_": lambda t, n: t.zeros(2, dtype=t.uint8).random_(0, 254 + n),
    "random_ from": lambda t, n: t.zeros(2, dtype=t.uint8).random_(n - 2, 9),
    "randint": lambda t, n: t.randint(0, 254 + n, (2,), dtype=t.uint8),
}
"""Functions of a size, a dim or a bound that follows from it."""


def refuses(call: Callable[[], Any]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except (RuntimeError, ValueError, IndexError, TypeError):
            return True
    return False


def compare(function: Callable[[Any, Any], Any], values: Any, made: Callable[..., Any]) -> None:
    """Both libraries refuse the same values, the second eagerly and in compiled code."""
    compiled = dj.compile(functools.partial(function, dj))
    for value in values:
        expected = refuses(functools.partial(function, torch, made(torch, value)))
        ours = made(dj, value)
        eager = refuses(functools.partial(function, dj, ours))
        assert (value, expected, expected) == (
            value, eager, refuses(functools.partial(compiled, ours)),
        )  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
def test_elements_are_refused_as_in_pytorch(check: str) -> None:
    compare(CHECKS[check], (0.5, *NUMBERS, 0.5), lambda t, number: t.tensor([number, 0.5]))


@pytest.mark.parametrize("check", GIVEN)
def test_numbers_are_refused_as_in_pytorch(check: str) -> None:
    compare(GIVEN[check], NUMBERS, lambda t, number: number)


@pytest.mark.parametrize("check", SIZES)
def test_sizes_are_refused_as_in_pytorch(check: str) -> None:
    compare(SIZES[check], (1, 2, 3, 4), lambda t, size: size)
