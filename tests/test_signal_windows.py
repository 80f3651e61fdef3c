"""Windows of `signal.windows` are PyTorch's, and SciPy's where it is installed."""

import importlib
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.signal import windows

NAMES: dict[str, list[dict[str, Any]]] = {
    "bartlett": [{}], "blackman": [{}], "cosine": [{}], "hann": [{}], "hamming": [{}],
    "nuttall": [{}], "exponential": [{}, {"tau": 2.5}], "gaussian": [{}, {"std": 0.9}],
    "kaiser": [{}, {"beta": 3.0}, {"beta": 0.0}],
    "general_cosine": [{"a": [0.4, 0.3, 0.2]}, {"a": [1.0]}],
    "general_hamming": [{}, {"alpha": 0.6}],
}  # fmt: skip
BAD: list[tuple[str, int, dict[str, Any]]] = [
    ("hann", -1, {}), ("exponential", 5, {"tau": -1}), ("gaussian", 5, {"std": 0}),
    ("exponential", 5, {"center": 0}), ("kaiser", 5, {"beta": -3.0}),
    ("general_cosine", 5, {"a": []}), ("general_cosine", 5, {"a": 3}),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_windows_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    there = importlib.import_module("torch.signal.windows")
    for options in NAMES[name]:
        for length in (0, 1, 2, 5, 8):
            for sym in (True, False):
                for kind in ("float32", "float64"):
                    one = getattr(there, name)(
                        length, sym=sym, dtype=getattr(torch, kind), **options
                    )
                    other = getattr(windows, name)(
                        length, sym=sym, dtype=getattr(dj, kind), **options
                    )
                    assert kind == other.dtype.name
                    tolerance = 1e-6 if kind == "float32" else 1e-14
                    np.testing.assert_allclose(other.numpy(), one.numpy(), atol=tolerance)


def test_a_window_may_have_another_center() -> None:
    found = windows.exponential(3, center=0, sym=False, tau=2.0)
    np.testing.assert_allclose(found.numpy(), np.exp([0, -0.5, -1.0]), rtol=1e-6)


@pytest.mark.parametrize(("name", "length", "options"), BAD)
def test_what_makes_no_window_is_refused(name: str, length: int, options: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        getattr(windows, name)(length, **options)


def test_other_dtypes_are_refused() -> None:
    for dtype in (dj.int64, dj.float16, dj.bfloat16, dj.complex64):
        with pytest.raises(ValueError, match="expects float32 or float64"):
            windows.hann(3, dtype=dtype)
    assert windows.hann(3, requires_grad=True).requires_grad
