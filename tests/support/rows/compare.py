"""Run one expression with PyTorch and with dynajit and compare results and gradients.

An expression is a function of a namespace `t` (torch, or the same names of dynajit) and tensors.
"""

import types
from typing import Any

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.eager import Tensor, tensor
from dynajit.nn import functional
from dynajit.ops import functions

torch = pytest.importorskip("torch")

DYNAJIT = types.SimpleNamespace(
    **{name: getattr(functions, name) for name in functions.__all__},
    **{dtype.name: dtype for dtype in dtypes.ALL},
    tensor=tensor,
    F=functional,
)
TORCH = types.SimpleNamespace(
    **{name: getattr(torch, name) for name in dir(torch) if not name.startswith("__")},
)
TORCH.F = torch.nn.functional

TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def to_torch(array: np.ndarray, grad: bool) -> Any:
    """A torch tensor with a copy of the array."""
    if array.dtype == dtypes.bfloat16.numpy:
        made = torch.tensor(array.astype(np.float32)).to(torch.bfloat16)
    else:
        made = torch.tensor(array)
    return made.requires_grad_(grad and made.is_floating_point())


def to_dynajit(array: np.ndarray, grad: bool) -> Tensor:
    """A tensor with a copy of the array."""
    made = tensor(array)
    return made.requires_grad_(grad and made.is_floating_point())


def outputs_of(result: Any) -> list[Any]:
    """The tensors of a result, flat."""
    if isinstance(result, (tuple, list)):
        return [output for entry in result for output in outputs_of(entry)]
    return [result]


def numbers(value: Any) -> np.ndarray:
    """float64 (or complex, or integer) copy of a torch or dynajit tensor, or of a number."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    if isinstance(value, Tensor):
        array = value.array
        return array.astype(np.float32) if array.dtype == dtypes.bfloat16.numpy else array
    return np.asarray(value)


def assert_same(expected: Any, actual: Any, tolerance: float | None = None) -> None:
    """Shapes, dtypes and values agree (NaN with NaN)."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, Tensor)
        assert str(expected.dtype).removeprefix("torch.") == actual.dtype.name
        tolerance = tolerance or TOLERANCE.get(actual.dtype.name, 0)
    left, right = numbers(expected), numbers(actual)
    assert left.shape == right.shape
    if tolerance:
        scale = np.abs(left[np.isfinite(left)]).max(initial=1.0)
        np.testing.assert_allclose(right, left, rtol=tolerance, atol=tolerance * scale)
    else:
        np.testing.assert_array_equal(right, left)


def agree(
    expression: Any, *arrays: Any, gradients: bool = True, tolerance: float | None = None
) -> None:
    """Assert that both libraries give the same results, and the same gradients of every
    floating array."""
    theirs = [to_torch(np.asarray(a), gradients) for a in arrays]
    ours = [to_dynajit(np.asarray(a), gradients) for a in arrays]
    expected = outputs_of(expression(TORCH, *theirs))
    actual = outputs_of(expression(DYNAJIT, *ours))
    assert len(expected) == len(actual)
    for left, right in zip(expected, actual, strict=True):
        assert_same(left, right, tolerance)
    live = [
        (left, right)
        for left, right in zip(expected, actual, strict=True)
        if isinstance(left, torch.Tensor) and left.requires_grad
    ]
    if not gradients or not live:
        return
    weights = [
        np.random.default_rng(i).standard_normal(tuple(left.shape))
        for i, (left, _) in enumerate(live)
    ]
    torch.autograd.backward(
        [left for left, _ in live],
        [torch.tensor(w).to(left.dtype) for w, (left, _) in zip(weights, live, strict=True)],
    )
    for w, (_, right) in zip(weights, live, strict=True):
        if right.requires_grad:  # a constant may count as differentiable in PyTorch
            right.backward(tensor(w).to(right.dtype), retain_graph=True)
    for left, right in zip(theirs, ours, strict=True):
        if right.grad is None:  # no path: PyTorch may have one that multiplies by zero
            assert left.grad is None or not numbers(left.grad).any()
        elif left.grad is None:
            assert not numbers(right.grad).any()
        else:
            assert_same(left.grad, right.grad, tolerance)
