"""Compiled functions follow the default dtype and device, also when those change."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj


@pytest.fixture(autouse=True)
def _float32_again() -> Iterator[None]:
    yield
    dj.set_default_dtype(dj.float32)
    dj.set_default_device(None)


def made_and_computed(x: Any, factor: float) -> Any:
    """Tensors of the default dtype by each way that there is."""
    y = x * factor + x.sqrt() / 3
    return (
        y, dj.zeros(2) + 0.1, dj.arange(0.0, 1.0, 0.25), dj.linspace(0, 1, 5).exp(), dj.tensor(0.1),
        dj.tensor([factor, 0.1]), dj.Tensor([0.1]), x.float() * factor, dj.full((2,), 0.1),
        dj.as_tensor([0.1, 2]), x / 7, x.new_tensor(0.1), dj.ones(2, dtype=float) / 3,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [dj.float64, dj.bfloat16, dj.float16])
def test_compiled_functions_compute_in_the_default_dtype(dtype: Any) -> None:
    """After they were compiled under another one, too, and after it is that one again."""
    x = dj.arange(1, 6)
    compiled = dj.compile(made_and_computed, fullgraph=True)
    for chosen in (dj.float32, dtype, dj.float32):
        dj.set_default_dtype(chosen)
        for factor in (0.1, 0.7):
            expected, found = made_and_computed(x, factor), compiled(x, factor)
            assert [y.dtype for y in expected] == [y.dtype for y in found]
            for one, other in zip(expected, found, strict=True):
                assert dj.allclose(one, other, rtol=1e-6 if one.dtype is dj.float32 else 1e-12)


def test_float64_has_its_precision_in_compiled_functions() -> None:
    dj.set_default_dtype(dj.float64)
    found = dj.compile(lambda x: x * 0.1 + x.sqrt(), fullgraph=True)(dj.arange(1, 6))
    numbers = np.arange(1, 6)
    assert np.allclose(found.numpy(), numbers * 0.1 + np.sqrt(numbers), rtol=1e-15, atol=0)


def test_a_compiled_function_may_change_the_default_dtype() -> None:
    """What comes behind the change is of the new dtype, in every call."""

    def function(x: Any) -> Any:
        before = dj.zeros(2) + x
        dj.set_default_dtype(dj.float64)
        behind = dj.zeros(2) + 0.1
        dj.set_default_dtype(dj.float32)
        return before, behind, dj.zeros(2) + 0.1

    compiled = dj.compile(function)
    for _ in range(3):
        found = compiled(dj.ones(2))
        assert [dj.float32, dj.float64, dj.float32] == [y.dtype for y in found]
        assert 0.1 == found[1][0].item()


def test_gradients_outlive_a_change_of_the_default_dtype() -> None:
    weight = dj.tensor([1.0, 2.0], requires_grad=True)
    compiled = dj.compile(lambda w, x: (w * x.sqrt()).exp().sum(), fullgraph=True)
    loss = compiled(weight, dj.arange(2))
    dj.set_default_dtype(dj.float64)
    loss.backward()
    assert weight.grad is not None
    expected = np.sqrt(np.arange(2)) * np.exp(np.array([1.0, 2.0]) * np.sqrt(np.arange(2)))
    assert np.allclose(weight.grad.numpy(), expected, rtol=1e-6)


def test_compiled_functions_look_at_the_default_device() -> None:
    """It is guarded: tensors are not made on the CPU where another one was chosen since."""

    def function(x: Any) -> Any:
        return x + dj.zeros(2)

    compiled = dj.compile(function, fullgraph=True)
    assert (compiled(dj.ones(2)) == 1).all()
    for make in (lambda: compiled(dj.ones(2, device="cpu")),):
        with dj.device("meta"), pytest.raises(RuntimeError):
            make()
    assert (compiled(dj.ones(2)) == 1).all()
    with dj.device("cpu"):
        assert (compiled(dj.ones(2)) == 1).all()


def test_a_block_of_a_device_may_stand_in_a_compiled_function() -> None:
    def function(x: Any) -> Any:
        with dj.device("cpu"):
            made = dj.zeros(2) + 1
        return x + made

    compiled = dj.compile(function)
    for _ in range(3):
        assert (compiled(dj.ones(2)) == 2).all()
    assert dj.get_default_device() == dj.device("cpu")
