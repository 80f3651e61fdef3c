"""The text of tensors is PyTorch's, but for the name of the library."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.types import dtypes
from dynajit.eager.tensor.creation import tensor

SAMPLES = [
    np.array(1.5, np.float32),
    np.array(3),
    np.array(True),
    np.array([1.0, 2.0], np.float32),
    np.array([1.5, -2.25, 100.125], np.float32),
    np.array([1.0, 2.0], np.float64),
    np.array([1, 20, -300]),
    np.array([1, 2], np.int8),
    np.array([True, False]),
    np.array([], np.float32),
    np.zeros((0, 3), np.float32),
    np.zeros((2, 0), np.int64),
    np.array([[1.0, 2.5], [3.0, 4.0]], np.float32),
    np.arange(24.0, dtype=np.float32).reshape(2, 3, 4),
    np.array([1e-5, 1.0], np.float32),
    np.array([1e10, 1.0], np.float32),
    np.array([np.nan, np.inf, -np.inf, 1.0], np.float32),
    np.array([np.nan, 0.5], np.float32),
    np.array([0.0, -0.0], np.float32),
    np.linspace(0, 1, 40, dtype=np.float32),
    np.arange(2000.0, dtype=np.float32),
    np.arange(4000).reshape(40, 100),
    np.arange(3000.0).reshape(10, 10, 30),
    np.array([0.1, 1234.5], np.float32),
    np.array([1.0, 100000.0], np.float32),
]


@pytest.mark.parametrize("array", SAMPLES, ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_the_text_is_that_of_pytorch(array: np.ndarray) -> None:
    torch = pytest.importorskip("torch")
    expected = repr(torch.tensor(array)).replace("torch.", "dynajit.")

    assert expected == repr(tensor(array))


def test_gradients_are_mentioned() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)

    assert "tensor([1., 2.], requires_grad=True)" == repr(x)
    assert "tensor([1., 2.], grad_fn=<MulBackward0>)" == repr(x * 1.0)


def test_bfloat16_prints_values() -> None:
    x = tensor([1.5], dtype=dtypes.bfloat16)

    assert "tensor([1.5000], dtype=dynajit.bfloat16)" == repr(x)


def test_complex_numbers() -> None:
    assert "tensor([1.+2.j, 3.-4.j])" == repr(tensor([1 + 2j, 3 - 4j]))


@pytest.mark.parametrize(
    "options",
    [{"precision": 2}, {"sci_mode": True}, {"sci_mode": False}, {"threshold": 3, "edgeitems": 1},
     {"linewidth": 40}, {"profile": "short"}, {"profile": "full"},
     {"profile": "short", "precision": 6}, {"profile": "no such one", "precision": 2}],
)  # fmt: skip
def test_print_options_are_pytorchs(options: dict[str, Any]) -> None:
    """Texts of a vector, a matrix, integers and complex numbers."""
    torch = pytest.importorskip("torch")
    values = np.linspace(0.001, 123.4, 30).astype(np.float32)
    try:
        texts = []
        for library in (torch, dj):
            library.set_printoptions(**options)
            x = library.from_numpy(values.copy())
            texts.append([repr(y) for y in (x, x.reshape(5, 6), x.long(), x[:0], x.round())])
        assert texts[0] == texts[1]
    finally:
        torch.set_printoptions(profile="default")
        dj.set_printoptions(profile="default")


def test_numbers_are_formatted_as_numbers() -> None:
    """Tensors of no dims, with or without a specification, also in compiled functions."""
    torch = pytest.importorskip("torch")

    def texts(t):
        some = (
            t.tensor(1.0), t.tensor(3), t.tensor(True), t.tensor(1 + 2j), t.tensor([1.0, 2.0]),
            t.tensor(1.5, requires_grad=True), t.tensor(1.5, dtype=t.float16),
            t.nn.Parameter(t.tensor(1.0)), t.empty((), device="meta"),
        )  # fmt: skip
        return [f"{x}" for x in some], f"{some[0]:.3f} {some[0] * 2:>8}", f"{some[0]!r}"

    assert texts(torch) == texts(dj)
    assert texts(torch) == dj.compile(lambda: texts(dj))()
