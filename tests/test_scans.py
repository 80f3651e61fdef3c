"""Scans by functions against PyTorch's, and against the loop that they stand for."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit._higher_order_ops.associative_scan import associative_scan
from dynajit.core.errors import InvalidValueError

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch._higher_order_ops.associative_scan")


def recurrence(left: Any, right: Any) -> Any:
    """h -> a * h + b, joined."""
    (a, b), (c, d) = left, right
    return a * c, c * b + d


def looped(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The recurrence along dimension 1."""
    state, found = np.zeros_like(b[:, 0]), []
    for i in range(a.shape[1]):
        state = a[:, i] * state + b[:, i]
        found.append(state)
    return np.stack(found, 1)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_gives_the_loops_results_and_gradients(size: int, reverse: bool) -> None:
    rng = np.random.default_rng(size)
    a, b = (rng.standard_normal((2, size, 3)).astype(np.float32) for _ in range(2))
    turned = (a[:, ::-1], b[:, ::-1]) if reverse else (a, b)
    expected = looped(*turned)[:, ::-1] if reverse else looped(*turned)
    compiled = dj.compile(
        lambda x, y: associative_scan(recurrence, (x, y), 1, reverse), fullgraph=True
    )
    gradients = []
    for scan in (lambda x, y: associative_scan(recurrence, (x, y), -2, reverse), compiled):
        x, y = (dj.tensor(part.copy(), requires_grad=True) for part in (a, b))
        _, found = scan(x, y)
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-4, atol=1e-5)
        (found**2).sum().backward()
        gradients.append((x.grad, y.grad))
    given = [torch.tensor(part, requires_grad=True) for part in (a, b)]
    parts = [part.flip(1) for part in given] if reverse else given
    state, total = torch.zeros(2, 3), 0.0
    for i in range(size):
        state = parts[0][:, i] * state + parts[1][:, i]
        total = total + (state**2).sum()
    total.backward()
    for pair in gradients:
        for ours, other in zip(pair, given, strict=True):
            found = np.zeros_like(a) if ours is None else ours.numpy()
            np.testing.assert_allclose(found, other.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_a_scan_of_one_tensor_is_pytorchs() -> None:
    x = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)
    expected = theirs.associative_scan(
        torch.maximum, torch.from_numpy(x), 1, combine_mode="generic"
    )
    assert expected.tolist() == associative_scan(dj.maximum, dj.from_numpy(x), 1).tolist()


def test_what_cannot_be_scanned_is_refused() -> None:
    x = dj.ones(2, 3)
    with pytest.raises(InvalidValueError, match="Combine_mode"):
        associative_scan(dj.add, x, 0, combine_mode="other")
    with pytest.raises(InvalidValueError, match="at least one"):
        associative_scan(dj.add, (), 0)
    with pytest.raises(InvalidValueError, match="one size"):
        associative_scan(recurrence, (x, dj.ones(3, 3)), 0)
