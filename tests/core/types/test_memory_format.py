"""Memory formats: where elements lie, never what they are."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, ShapeError

FORMATS = ("contiguous_format", "channels_last")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "form", ["contiguous", "to", "clone", "channels_last_3d", "permuted", "requires grad"]
)
def test_formats_are_pytorchs(name: str, form: str) -> None:
    """Strides, values, gradients, and what `is_contiguous` says."""
    torch = pytest.importorskip("torch")
    values = np.arange(120.0).reshape(2, 3, 4, 5).astype(np.float32)

    def run(library: Any) -> Any:
        leaf = library.from_numpy(values.copy()).requires_grad_(form == "requires grad")
        chosen, x = getattr(library, name), leaf
        if form == "channels_last_3d":
            x, chosen = x[:, :, None], library.channels_last_3d
        if form == "permuted":
            x = x.permute(0, 3, 1, 2)
        if form == "clone":
            y = x.clone(memory_format=chosen)
        elif form == "to":
            y = x.to(memory_format=chosen)
        else:
            y = x.contiguous(memory_format=chosen)
        if form == "requires grad":
            (y * y).sum().backward()
        known = [y.is_contiguous(memory_format=getattr(library, each)) for each in FORMATS]
        gradient = None if leaf.grad is None else leaf.grad.tolist()
        return y.stride(), y.tolist(), known, y.is_contiguous(), gradient

    assert run(torch) == run(dj)


def test_wrong_formats_are_refused() -> None:
    """Of another number of dims; no format at all."""
    with pytest.raises(ShapeError, match="rank 4"):
        dj.ones(2, 3).contiguous(memory_format=dj.channels_last)
    assert not dj.ones(2, 3).is_contiguous(memory_format=dj.channels_last)
    with pytest.raises(ArgumentError, match="memory format"):
        dj.ones(2, 3).contiguous(memory_format="channels_last")
    assert "dynajit.channels_last" == repr(dj.channels_last)


def test_formats_are_captured() -> None:
    """As constants of one graph; modules and factories accept them."""
    module = dj.nn.Conv2d(3, 2, 3).to(memory_format=dj.channels_last)

    def run(x: Any) -> Any:
        x = x.contiguous(memory_format=dj.channels_last)
        like = dj.zeros_like(x, memory_format=dj.preserve_format)
        return module(x.to(memory_format=dj.channels_last)) + like.sum()

    x = dj.randn(2, 3, 5, 5)
    np.testing.assert_allclose(
        dj.compile(run)(x).detach().numpy(), run(x).detach().numpy(), rtol=1e-5, atol=1e-6
    )
