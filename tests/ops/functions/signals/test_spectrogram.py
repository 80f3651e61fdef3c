"""Short-time Fourier transforms against PyTorch, and there and back."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DTypeError, ShapeError, UnsupportedError
from dynajit.eager.backward.gradcheck import gradcheck

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch, the oracle, is not installed")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """PyTorch warns of missing windows, and of pairs of parts; graphs run on NumPy."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A window was not provided", UserWarning)
        warnings.filterwarnings("ignore", "stft with return_complex=False", UserWarning)
        warnings.filterwarnings("ignore", "dynajit: .* runs on the NumPy backend", RuntimeWarning)
        yield


def signal(*shape: int, is_complex: bool = False) -> np.ndarray:
    draw = np.random.default_rng(0)
    real = draw.normal(size=shape)
    return real + 1j * draw.normal(size=shape) if is_complex else real


def outcome(library: Any, name: str, x: np.ndarray, window: Any, options: Any) -> list[np.ndarray]:
    """The transform, and the gradients of its weighted squared sizes."""
    operand = library.tensor(x, requires_grad=True)
    factors = None if window is None else library.tensor(window, requires_grad=True)
    value = getattr(library, name)(operand, window=factors, **options)
    ramp = library.tensor(np.arange(value.numel()).reshape(tuple(value.shape)) / 50.0)
    (value.abs() ** 2 * ramp).sum().backward()
    leaves = [operand] if factors is None else [operand, factors]
    return [value.detach().resolve_conj().numpy(), *(x.grad.resolve_conj().numpy() for x in leaves)]


def assert_agrees(name: str, x: np.ndarray, window: Any = None, **options: Any) -> None:
    expected, actual = (outcome(library, name, x, window, options) for library in (torch, dj))
    for wanted, found in zip(expected, actual, strict=True):
        assert (wanted.shape, wanted.dtype) == (found.shape, found.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9)


HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(8) / 8)


@needs_torch
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hop_length": 3},
        {"win_length": 5},
        {"window": HANN},
        {"window": HANN[1:7], "win_length": 6, "hop_length": 2},
        {"center": False},
        {"pad_mode": "constant"},
        {"normalized": True, "window": HANN},
        {"onesided": False},
        {"return_complex": False, "window": HANN},
    ],
    ids=str,
)
def test_transforms_of_real_signals_equal_pytorch(options: Any) -> None:
    options = {"n_fft": 8, "return_complex": True, **options}
    assert_agrees("stft", signal(2, 30), **options)
    assert_agrees("stft", signal(21), **options)


@needs_torch
def test_transforms_of_complex_signals_equal_pytorch() -> None:
    assert_agrees("stft", signal(2, 20, is_complex=True), n_fft=6)
    assert_agrees("stft", signal(2, 20), signal(6, is_complex=True), n_fft=6)


@needs_torch
@pytest.mark.parametrize(
    "options",
    [
        {"window": HANN},
        {"hop_length": 3, "window": HANN},
        {"length": 17, "window": HANN},
        {"center": False},
        {"normalized": True},
        {"win_length": 6, "hop_length": 2},
    ],
    ids=str,
)
def test_inverse_transforms_equal_pytorch(options: Any) -> None:
    assert_agrees("istft", signal(2, 5, 11, is_complex=True), n_fft=8, **options)
    assert_agrees("istft", signal(8, 11, is_complex=True), n_fft=8, onesided=False, **options)
    assert_agrees(
        "istft", signal(2, 8, 11, is_complex=True), n_fft=8, return_complex=True, **options
    )


def test_the_inverse_gives_the_signal_back() -> None:
    x = dj.tensor(signal(3, 40))
    window = dj.hann_window(16, dtype=dj.float64)
    for options in ({}, {"normalized": True}, {"onesided": False}):
        spectrum = x.stft(16, 4, window=window, return_complex=True, **options)
        back = spectrum.istft(16, 4, window=window, length=40, **options)
        np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-12)


def test_what_frames_do_not_reach_is_zero() -> None:
    spectrum = dj.stft(dj.ones(16), 8, return_complex=True)
    with pytest.warns(UserWarning, match="padded with zeros"):
        found = dj.istft(spectrum, 8, length=24)
    assert found[20:].tolist() == [0.0] * 4


def test_derivatives_equal_differences() -> None:
    x = dj.tensor(signal(10), requires_grad=True)
    window = dj.tensor(HANN[1:5], requires_grad=True)

    def there_and_back(x: Any, window: Any) -> Any:
        spectrum = dj.stft(x, 4, 2, window=window, return_complex=True)
        return dj.istft(spectrum * spectrum.abs(), 4, 2, window=window)

    assert gradcheck(there_and_back, (x, window))


def test_compiled_spectrograms_equal_plain_ones() -> None:
    def loss(x: Any) -> Any:
        spectrum = dj.stft(x * 2, 8, 2, window=dj.hann_window(8), return_complex=True)
        return (spectrum.abs() + 1e-3).log().mean()

    found = []
    for call in (loss, dj.compile(loss)):
        x = dj.tensor(signal(2, 32).astype(np.float32), requires_grad=True)
        value = call(x)
        value.backward()
        found.append((value.item(), x.grad.numpy()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-5)
    np.testing.assert_allclose(found[1][1], found[0][1], atol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: dj.stft(dj.ones(9), 4), ShapeError, "return_complex"),
        (lambda: dj.stft(dj.ones(1, 1, 9), 4, return_complex=True), ShapeError, "1D or 2D"),
        (lambda: dj.stft(dj.arange(9), 4, return_complex=True), DTypeError, "floating point"),
        (lambda: dj.stft(dj.ones(9), 20, center=False, return_complex=True), ShapeError, "n_fft"),
        (lambda: dj.stft(dj.ones(9), 4, 0, return_complex=True), ShapeError, "hop_length"),
        (lambda: dj.stft(dj.ones(9), 4, 1, 5, return_complex=True), ShapeError, "win_length"),
        (
            lambda: dj.stft(dj.ones(9), 4, window=dj.ones(3), return_complex=True),
            ShapeError,
            "1D window",
        ),
        (lambda: dj.stft(dj.tensor([1j] * 9), 4, onesided=True), DTypeError, "onesided"),
        (
            lambda: dj.stft(dj.ones(9), 4, return_complex=True, align_to_window=True),
            UnsupportedError,
            "align_to_window",
        ),
        (lambda: dj.istft(dj.ones(3, 4), 4), DTypeError, "complex-valued"),
        (lambda: dj.istft(dj.tensor([[1j]]), 4), ShapeError, "frequency dimension"),
        (
            lambda: dj.istft(dj.tensor([[1j] * 3] * 3), 4, return_complex=True),
            DTypeError,
            "onesided",
        ),
        (
            lambda: dj.istft(dj.tensor([[1j] * 3] * 3), 4, window=dj.zeros(4)),
            ShapeError,
            "window overlap add",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        call()
