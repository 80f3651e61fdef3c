"""Poisson and binomial draws: means, determinism, dtypes, refusals."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DTypeError, InvalidValueError


@pytest.mark.parametrize("dtype", [dj.float16, dj.float32, dj.float64])
def test_means_and_variances_are_the_distributions(dtype: dj.dtype) -> None:
    """Of 20000 draws."""
    dj.manual_seed(0)
    poisson = dj.poisson(dj.full((20000,), 4.0, dtype=dtype))
    binomial = dj.binomial(dj.full((20000,), 10.0, dtype=dtype), dj.full((1,), 0.25, dtype=dtype))
    assert dtype is poisson.dtype is binomial.dtype
    assert (20000,) == poisson.shape == binomial.shape
    for drawn, mean, variance in ((poisson, 4, 4), (binomial, 2.5, 1.875)):
        array = drawn.double().numpy()
        assert (array == np.floor(array)).all()
        np.testing.assert_allclose([array.mean(), array.var()], [mean, variance], rtol=0.05)


def test_draws_depend_on_the_generator_only() -> None:
    """The default one, or the given one; the next draws are others."""
    rates = dj.full((100,), 7.0)
    dj.manual_seed(3)
    first, second = dj.poisson(rates), dj.poisson(rates)
    given = dj.poisson(rates, generator=dj.Generator().manual_seed(3))
    assert (first == given).all()
    assert not (first == second).all()
    dj.manual_seed(3)
    np.testing.assert_array_equal(dj.compile(lambda x: dj.poisson(x) + 1)(rates), first + 1)


def test_edges() -> None:
    """No rate, no trial, certain success, nothing to draw, a gradient of 0."""
    assert [0, 0] == dj.poisson(dj.zeros(2)).tolist()
    assert [0, 5] == dj.binomial(dj.tensor([0.0, 5.0]), dj.tensor([0.5, 1.0])).tolist()
    assert (0, 2) == dj.poisson(dj.ones(0, 2)).shape
    assert () == dj.poisson(dj.tensor(1.0)).shape
    rates = dj.ones(2, requires_grad=True)
    dj.poisson(rates).sum().backward()
    assert [0.0, 0.0] == rates.grad.tolist()


def test_wrong_operands_are_refused() -> None:
    """Negative rates and counts, probabilities beyond 1, integers, two dtypes."""
    with pytest.raises(InvalidValueError, match="non-negative"):
        dj.poisson(dj.tensor([-1.0]))
    with pytest.raises(InvalidValueError, match="probabilities"):
        dj.binomial(dj.ones(1), dj.tensor([1.5]))
    with pytest.raises(DTypeError, match="not implemented"):
        dj.poisson(dj.tensor([1]))
    with pytest.raises(DTypeError, match="expected float32"):
        dj.binomial(dj.ones(1), dj.ones(1).double())
