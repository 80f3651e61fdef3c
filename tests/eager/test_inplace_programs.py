"""Random programs of views and in-place writes: gradients against differences and PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dynajit.core.errors import DynajitError
from dynajit.eager.tensor.creation import tensor

SHAPES = ((3, 4), (4,))
SEEDS = range(150)


def view_of(kind: int, x: Any) -> Any:
    if x.ndim == 0:
        return x
    match kind:
        case 0:
            return x[0]
        case 1:
            return x[x.shape[0] // 2 :]
        case 2:
            return x.T if x.ndim == 2 else x
        case 3:
            return x.unsqueeze(0)
        case 4:
            return x.reshape(-1)
    return x[..., ::2]


def step(kind: int, choice: int, a: Any, b: Any, pool: list[Any]) -> None:
    fits = b.ndim <= a.ndim and tuple(b.shape) == tuple(a.shape[a.ndim - b.ndim :])
    if kind <= 2:
        pool.append(view_of(choice, a))
    elif kind == 3:
        pool.append((a * 2.0).sin())
    elif kind == 4:
        a.mul_(1.5)
    elif kind == 5 and fits:
        a.add_(b)
    elif kind == 6 and fits:
        a.copy_(b.sin())
    elif kind == 7:
        a.exp_().mul_(0.3)
    elif kind == 8 and a.ndim:
        a[0] = 0.25


def run(seed: int, make: Callable[[Any], Any], shift: float = 0.0) -> tuple[float, list[Any]]:
    """Loss and gradients of program `seed`, its leaves moved by `shift` along a fixed direction."""
    draw = np.random.default_rng(seed)
    leaves = [
        make(draw.uniform(-1, 1, shape) + shift * draw.standard_normal(shape)) for shape in SHAPES
    ]
    for leaf in leaves:
        leaf.requires_grad_()
    pool = [leaf * 1.0 for leaf in leaves] + [make(draw.uniform(-1, 1, (2, 3, 4)))]
    for _ in range(14):
        i, j = (int(draw.integers(0, len(pool))) for _ in range(2))
        step(int(draw.integers(0, 9)), int(draw.integers(0, 6)), pool[i], pool[j], pool)
    loss = sum(((x * x).sum() for x in pool), start=make(np.array(0.0)))
    loss.backward()
    gradients = [
        np.zeros(s) if x.grad is None else x.grad.numpy()
        for s, x in zip(SHAPES, leaves, strict=True)
    ]
    return loss.item(), gradients


def results(seed: int, shift: float = 0.0) -> tuple[float, list[Any]] | None:
    """None where a saved value was overwritten, or a write met its own operand in memory: an error
    is a right answer."""
    try:
        return run(seed, tensor, shift)
    except DynajitError as error:
        reasons = ("modified by an inplace operation", "refer to a single memory location")
        assert any(reason in str(error) for reason in reasons)
        return None


def test_gradients_agree_with_differences() -> None:
    checked = 0
    for seed in SEEDS:
        found = results(seed)
        if found is None or not abs(found[0]) < 1e3:
            continue
        draw = np.random.default_rng(seed)
        expected = 0.0
        for shape, gradient in zip(SHAPES, found[1], strict=True):
            draw.uniform(-1, 1, shape)
            expected += float((gradient * draw.standard_normal(shape)).sum())
        above, below = results(seed, 1e-6), results(seed, -1e-6)
        assert pytest.approx(expected, rel=1e-4, abs=1e-4) == (above[0] - below[0]) / 2e-6
        checked += 1

    assert checked > 50


def test_gradients_agree_with_pytorch_where_it_gives_any() -> None:
    torch = pytest.importorskip("torch")
    checked = 0
    for seed in SEEDS:
        try:
            loss, gradients = run(seed, torch.tensor)
        except RuntimeError:
            continue
        found = results(seed)
        assert found is not None, f"program {seed} works in PyTorch"
        assert pytest.approx(loss, nan_ok=True) == found[0]
        for expected, gradient in zip(gradients, found[1], strict=True):
            np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-9)
        checked += 1

    assert checked > 20
