"""`nn.attention`: choices of kernels that change nothing."""

import pytest

import dynajit as dj
from dynajit.core.errors import ExpectationError
from dynajit.nn.attention import SDPBackend, sdpa_kernel


def attended(x: dj.Tensor) -> dj.Tensor:
    """Attention within a choice."""
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        return dj.nn.functional.scaled_dot_product_attention(x, x, x)


def test_the_choice_of_a_kernel_changes_nothing() -> None:
    """Eager and in one compiled graph."""
    dj.manual_seed(0)
    x = dj.randn(2, 4, 8)
    expected = dj.nn.functional.scaled_dot_product_attention(x, x, x)

    assert dj.equal(expected, attended(x))
    assert dj.allclose(expected, dj.compile(attended, fullgraph=True)(x), rtol=1e-5, atol=1e-6)


def test_a_choice_decorates_functions() -> None:
    """As PyTorch's generator-based context does."""
    decorated = sdpa_kernel(SDPBackend.MATH)(attended)

    assert (2, 4, 8) == tuple(decorated(dj.ones(2, 4, 8)).shape)


def test_what_is_no_backend_is_refused() -> None:
    """With PyTorch's class, AssertionError."""
    with pytest.raises(ExpectationError, match="SDPBackend"):
        sdpa_kernel("math")  # type: ignore[arg-type]


def test_the_numbers_are_pytorchs() -> None:
    """Of every backend that both know."""
    theirs = pytest.importorskip("torch.nn.attention").SDPBackend
    for backend in SDPBackend:
        assert int(getattr(theirs, backend.name)) == backend
