"""`as_strided` and `view(dtype)` against PyTorch's: memory, values, writes and gradients."""

import os
import random
from typing import Any

import pytest

import dynajit as dj

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")

PROGRAMS = int(os.environ.get("DYNAJIT_STRIDED_PROGRAMS", "150"))
DTYPES = (
    "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip
VIEWS = {
    "whole": lambda x: x,
    "cut by two": lambda x: x[:, 2:],
    "cut by one": lambda x: x[:, 1:],
    "cut in front": lambda x: x[1:],
    "transposed": lambda x: x.t(),
    "every second": lambda x: x[:, ::2],
    "a number": lambda x: x[0, 0],
    "nothing": lambda x: x[:0],
    "expanded": lambda x: x.expand(2, 4, 8),
    "with a new dim": lambda x: x[:, :4][:, None],
    "turned outside": lambda x: x.reshape(2, 2, 8).transpose(0, 1),
    "a row": lambda x: x.reshape(-1)[8:],
    "a column": lambda x: x.reshape(32, 1),
}

TAKEN = (
    lambda x: x,
    lambda x: x.transpose(0, -1),
    lambda x: x[1:],
    lambda x: x[..., 1:],
    lambda x: x.transpose(0, -1).contiguous() * 1,
    lambda x: x.expand(2, *x.shape),
    lambda x: x.flatten()[1:],
)


def _is_apart(size: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Whether the elements have a place each: others are written by PyTorch, in some order."""
    reach = 1
    for step, count in sorted(zip(stride, size, strict=True)):
        if count > 1 and step < reach:
            return False
        reach += step * (count - 1)
    return True


def _program(L: Any, seed: int) -> Any:
    """Takes a view at random strides of a tensor with a history, perhaps writes through it, and
    asks for gradients through the view and through its base."""
    draw = random.Random(seed)
    shape = draw.choice([(4, 6), (3, 4, 2), (12,)])
    leaf = L.arange(float(torch.Size(shape).numel())).reshape(shape).requires_grad_()
    x = draw.choice(TAKEN)(leaf * 2)
    size = tuple(draw.randrange(1, 4) for _ in range(draw.randrange(3)))
    stride = tuple(draw.randrange(4) for _ in size)
    view = x.as_strided(size, stride, draw.choice([None, 0, 1, 3]))
    found = [view.tolist(), tuple(view.stride()), view.storage_offset()]
    if draw.random() < 0.6 and _is_apart(size, stride):
        view.mul_(3)
        found.append(x.tolist())
    base = x if x._base is None else x._base
    for value in (view, base):
        weights = L.arange(1.0, 1.0 + value.numel()).reshape(value.shape)
        (value * weights).sum().backward(retain_graph=True)
        found.append(leaf.grad.tolist())
        leaf.grad = None
    return found


def _outcome(L: Any, seed: int) -> Any:
    try:
        return _program(L, seed)
    except RuntimeError:
        return RuntimeError


@pytest.mark.parametrize("first", range(0, PROGRAMS, 50))
def test_random_views_have_pytorchs_values_and_gradients(first: int) -> None:
    for seed in range(first, min(first + 50, PROGRAMS)):
        assert _outcome(torch, seed) == _outcome(dj, seed), f"program {seed}"


def test_writes_reach_the_base_of_compiled_functions() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        y.as_strided((2,), (2,), 1).add_(10)
        return y

    def run(L: Any, wrap: Any) -> Any:
        x = L.arange(4.0).requires_grad_()
        y = wrap(function)(x)
        (y * y).sum().backward()
        return y.tolist(), x.grad.tolist()

    assert run(torch, lambda f: f) == run(dj, lambda f: f) == run(dj, dj.compile)


def test_second_derivatives_pass_strided_views() -> None:
    def run(L: Any) -> Any:
        x = L.arange(1.0, 7.0).requires_grad_()
        y = (x * x).as_strided((2, 2), (2, 1), 1)
        (first,) = L.autograd.grad((y**3).sum(), x, create_graph=True)
        (second,) = L.autograd.grad(first.sum(), x)
        return first.tolist(), second.tolist()

    assert run(torch) == run(dj)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_are_seen_as_elements_of_any_size(dtype: str) -> None:
    def seen(L: Any, view: Any, other: str) -> Any:
        x = L.arange(32).reshape(4, 8).to(getattr(L, dtype))
        try:
            y = view(x).view(getattr(L, other))
        except RuntimeError:
            return RuntimeError
        bits = y.reshape(-1).clone().view(L.uint8).tolist()
        is_same = y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        return tuple(y.shape), tuple(y.stride()), y.storage_offset(), bits, is_same

    for name, view in VIEWS.items():
        for other in DTYPES:
            assert seen(torch, view, other) == seen(dj, view, other), (name, other)


def test_compiled_functions_see_bits_as_elements_of_another_size() -> None:
    def function(x: Any) -> Any:
        halves = (x * 2).view(dj.int32)
        halves[0] = 7
        return halves.view(dj.int64) + 1

    x = dj.arange(3)
    assert function(x).tolist() == dj.compile(function)(x).tolist() == [8, 3, 5]
