"""Fourier transforms against PyTorch, and their derivatives against differences."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import BoundsError, DTypeError, ShapeError
from dynajit.eager.backward.gradcheck import gradcheck, gradgradcheck

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch, the oracle, is not installed")

FROM_REAL = ("rfft", "ihfft", "rfft2", "ihfft2", "rfftn", "ihfftn")
ONE_DIM = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL_DIMS = (
    "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2",
    "fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn",
)  # fmt: skip
NORMS = (None, "backward", "ortho", "forward")


def numbers(name: str, *shape: int) -> np.ndarray:
    draw = np.random.default_rng(0)
    real = draw.normal(size=shape)
    return real if name in FROM_REAL else real + 1j * draw.normal(size=shape)


def single(name: str, *shape: int) -> np.ndarray:
    return numbers(name, *shape).astype(np.float32 if name in FROM_REAL else np.complex64)


def outcome(library: Any, name: str, x: np.ndarray, **options: Any) -> list[np.ndarray]:
    """The transform, and the gradient of its squared sizes along a ramp."""
    operand = library.tensor(x, requires_grad=True)
    value = getattr(library.fft, name)(operand, **options)
    ramp = library.tensor(np.arange(value.numel()).reshape(tuple(value.shape)) / 7.0)
    part = value.imag if value.is_complex() else value
    ((value.abs() ** 2 + part) * ramp).sum().backward()
    return [value.detach().resolve_conj().numpy(), operand.grad.resolve_conj().numpy()]


def assert_agrees(name: str, x: np.ndarray, **options: Any) -> None:
    expected, actual = (outcome(library, name, x, **options) for library in (torch, dj))
    for wanted, found in zip(expected, actual, strict=True):
        assert wanted.dtype == found.dtype
        rtol, atol = (1e-9, 1e-9) if x.dtype.itemsize > 4 + 4 * np.iscomplexobj(x) else (1e-4, 1e-3)
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


@needs_torch
@pytest.mark.parametrize("name", ONE_DIM)
def test_transforms_along_one_dim_equal_pytorch(name: str) -> None:
    for norm in NORMS:
        assert_agrees(name, numbers(name, 3, 6), norm=norm)
    for n in (1, 4, 5, 9, 10):
        assert_agrees(name, numbers(name, 3, 6), n=n)
        assert_agrees(name, numbers(name, 6, 3), n=n, dim=0, norm="ortho")
    assert_agrees(name, single(name, 5))
    assert_agrees(name, numbers(name, 2, 3, 5).transpose(2, 0, 1), dim=-3)


@needs_torch
@pytest.mark.parametrize("name", SEVERAL_DIMS)
def test_transforms_over_several_dims_equal_pytorch(name: str) -> None:
    for norm in NORMS:
        assert_agrees(name, numbers(name, 3, 4, 5), norm=norm)
    assert_agrees(name, numbers(name, 3, 4, 5), s=(6, 3))
    assert_agrees(name, numbers(name, 3, 4, 5), s=(5, -1), dim=(0, 1))
    assert_agrees(name, numbers(name, 3, 4, 5), dim=(2, 0), norm="ortho")
    assert_agrees(
        name, numbers(name, 3, 4).astype(np.float32 if name in FROM_REAL else np.complex64)
    )


@needs_torch
def test_numbers_that_are_not_complex_are_converted_as_in_pytorch() -> None:
    for data in ([1, 2, 3], [True, False], [1.0, 2.0]):
        for name in ONE_DIM:
            expected = getattr(torch.fft, name)(torch.tensor(data)).resolve_conj().numpy()
            actual = getattr(dj.fft, name)(dj.tensor(data)).resolve_conj().numpy()
            assert expected.dtype == actual.dtype
            np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_empty_batches_stay_empty() -> None:
    for name in ONE_DIM:
        x = dj.tensor(numbers(name, 0, 4), requires_grad=True)
        expected = getattr(np.fft, name)(np.zeros((1, 4)))[:0]
        actual = getattr(dj.fft, name)(x)
        assert expected.shape == tuple(actual.shape)
        assert actual.is_complex() == np.iscomplexobj(expected)
        actual.abs().sum().backward()
        assert tuple(x.grad.shape) == (0, 4)


@needs_torch
@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies_and_shifts_equal_pytorch(n: int) -> None:
    for name in ("fftfreq", "rfftfreq"):
        for options in ({}, {"d": 0.25}):
            expected = getattr(torch.fft, name)(n, **options)
            actual = getattr(dj.fft, name)(n, **options)
            assert actual.dtype is dj.float32
            np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-6)
    for name in ("fftshift", "ifftshift"):
        x = np.arange(3 * n).reshape(3, n)
        for dim in (None, 0, (1,), (0, -1)):
            expected = getattr(torch.fft, name)(torch.tensor(x), dim)
            np.testing.assert_array_equal(
                getattr(dj.fft, name)(dj.tensor(x), dim).numpy(), expected.numpy()
            )


@pytest.mark.parametrize("size", [4, 5])
def test_derivatives_equal_differences_twice(size: int) -> None:
    z = dj.tensor(numbers("fft", 2, size), requires_grad=True)
    x = dj.tensor(numbers("rfft", 2, size), requires_grad=True)
    for transform in (
        lambda z, x: dj.fft.fft(z, n=3) * dj.fft.ifft(x)[:, :3],
        lambda z, x: dj.fft.irfft(dj.fft.rfft(x, norm="ortho") ** 2, n=size) * z,
        lambda z, x: dj.fft.hfft(z, n=size) * dj.fft.ihfft(x).abs().sum(),
        lambda z, x: dj.fft.irfftn(dj.fft.fftn(z) * x, s=(3, size)),
        lambda z, x: dj.fft.rfft2(x) * z[:, : size // 2 + 1],
    ):
        assert gradcheck(transform, (z, x))
        assert gradgradcheck(transform, (z, x))


@pytest.mark.filterwarnings("ignore:dynajit. .* runs on the NumPy backend:RuntimeWarning")
def test_compiled_transforms_equal_plain_ones() -> None:
    def convolved(x: Any, y: Any) -> Any:
        n = x.shape[-1] + y.shape[-1] - 1
        return dj.fft.irfft(dj.fft.rfft(x, n) * dj.fft.rfft(y, n), n)

    compiled = dj.compile(convolved)
    for length in (6, 7, 9):
        x = dj.tensor(numbers("rfft", 3, length), requires_grad=True)
        y = dj.tensor(numbers("rfft", 4), requires_grad=True)
        result = compiled(x, y)
        (result**2).sum().backward()
        expected = np.stack([np.convolve(row, y.detach().numpy()) for row in x.detach().numpy()])
        np.testing.assert_allclose(result.detach().numpy(), expected, atol=1e-12)
        found = x.grad.clone(), y.grad.clone()
        x.grad = y.grad = None
        (convolved(x, y) ** 2).sum().backward()
        for wanted, gradient in zip((x.grad, y.grad), found, strict=True):
            np.testing.assert_allclose(gradient.numpy(), wanted.numpy(), atol=1e-10)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: dj.fft.fft(dj.tensor(1.0)), BoundsError, "no dimensions"),
        (lambda: dj.fft.fft(dj.ones(3), dim=1), BoundsError, "out of range"),
        (lambda: dj.fft.fft(dj.ones(3), n=0), ShapeError, "data points"),
        (lambda: dj.fft.irfft(dj.ones(1)), ShapeError, "data points"),
        (lambda: dj.fft.fft(dj.ones(3), norm="half"), ShapeError, "normalization mode"),
        (lambda: dj.fft.fft(dj.ones(3).half()), DTypeError, "Unsupported dtype"),
        (lambda: dj.fft.rfft(dj.tensor([1j])), DTypeError, "real input"),
        (lambda: dj.fft.ihfft(dj.tensor([1j])), DTypeError, "real input"),
        (lambda: dj.fft.fftn(dj.ones(2, 3), dim=(0, -2)), ShapeError, "unique"),
        (lambda: dj.fft.fftn(dj.ones(2, 3), s=(2,), dim=(0, 1)), ShapeError, "same length"),
        (lambda: dj.fft.fftn(dj.ones(2), s=(2, 2)), ShapeError, "only has 1"),
        (lambda: dj.fft.rfftn(dj.ones(2), dim=()), ShapeError, "at least one axis"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        call()
    if torch is not None:
        assert issubclass(error, (RuntimeError, IndexError))
