"""Orthogonal polynomials, Ai and the spherical Bessel function agree with PyTorch."""

import math
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.ops.functions.elements import polynomials

NAMES = [name for name in polynomials.__all__ if "polynomial" in name]
PLACES = [-1.0, -0.5, 0.0, 0.3, 0.9, 1.0, 1.5]


@pytest.mark.parametrize("name", NAMES)
def test_polynomials_are_those_of_pytorch(name: str) -> None:
    """Of numbers and of tensors of degrees."""
    torch = pytest.importorskip("torch")
    here, there = getattr(dj.special, name), getattr(torch.special, name)
    for kind, tolerance in (("float32", 2e-5), ("float64", 1e-11)):
        x, y = (m.tensor(PLACES, dtype=getattr(m, kind)) for m in (dj, torch))
        for n in (-2, 0, 1, 2, 3, 5, 8, 12):
            found, expected = here(x, n), there(y, n)
            assert kind == found.dtype.name
            np.testing.assert_allclose(
                found.numpy(), expected.numpy(), rtol=tolerance, atol=tolerance
            )
    degrees = [[-1.0], [0.0], [1.0], [2.7], [6.0]]
    found = here(dj.tensor(PLACES), dj.tensor(degrees))
    expected = there(torch.tensor(PLACES), torch.tensor(degrees))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(
        here(0.3, dj.tensor([2, 8])).numpy(), there(0.3, torch.tensor([2, 8])).numpy(), rtol=2e-5
    )
    assert there(torch.tensor([2]), 2).item() == here(dj.tensor([2]), 2).item()
    with pytest.raises(NotImplementedError, match="not implemented for float16"):
        here(dj.ones(1, dtype=dj.float16), 2)


@pytest.mark.parametrize("name", NAMES)
def test_polynomials_have_derivatives_and_fuse(name: str) -> None:
    """By finite differences; NaN stays NaN."""
    x = dj.tensor([0.2, 0.7, -0.4], dtype=dj.float64, requires_grad=True)
    function = getattr(dj.special, name)
    assert dj.autograd.gradcheck(lambda t: function(t, 4), (x,))
    compiled = dj.compile(lambda t: function(t, 4) * 2, fullgraph=True)
    np.testing.assert_allclose(
        compiled(x.detach()).numpy(), (function(x.detach(), 4) * 2).numpy(), rtol=1e-12
    )
    for n in (0, 1, 3):
        assert math.isnan(function(dj.tensor(math.nan), n).item())


def test_airys_function_is_that_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("scipy", reason="SciPy is not installed")
    places = [-5.0, -1.0, 0.0, 1.0, 200.0, math.inf, -math.inf, math.nan]
    for kind in ("float32", "float64"):
        found = dj.special.airy_ai(dj.tensor(places, dtype=getattr(dj, kind)))
        expected = torch.special.airy_ai(torch.tensor(places, dtype=getattr(torch, kind)))
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=3e-5, atol=1e-12)
    assert dj.float32 is dj.special.airy_ai(dj.tensor([1])).dtype
    for refused in (dj.ones(1, dtype=dj.float16), dj.ones(1, requires_grad=True)):
        with pytest.raises(NotImplementedError, match="not implemented"):
            dj.special.airy_ai(refused)


def test_the_spherical_bessel_function_is_that_of_pytorch() -> None:
    """With a slope everywhere."""
    torch = pytest.importorskip("torch")
    places = [0.0, 0.1, -0.3, 3.0, 40.0, math.inf, -math.inf, math.nan]
    for kind in ("float32", "float64"):
        found: Any = dj.special.spherical_bessel_j0(dj.tensor(places, dtype=getattr(dj, kind)))
        expected = torch.special.spherical_bessel_j0(
            torch.tensor(places, dtype=getattr(torch, kind))
        )
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-7)
    x = dj.tensor([0.0, 1.0, math.inf], requires_grad=True)
    dj.special.spherical_bessel_j0(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.0, math.cos(1) - math.sin(1), 0.0], atol=1e-6)
