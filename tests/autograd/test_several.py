"""Hooks on the gradients of several tensors, in both libraries where PyTorch is installed."""

import importlib
import threading
from typing import Any

import pytest

import dynajit as dj


def libraries() -> list[Any]:
    """dynajit, and PyTorch where it is installed."""
    found: list[Any] = [dj]
    if importlib.util.find_spec("torch"):
        found.append(importlib.import_module("torch"))
    return found


def register(m: Any, *arguments: Any, **keywords: Any) -> Any:
    return m.autograd.graph.register_multi_grad_hook(*arguments, **keywords)


def leaf(m: Any, *numbers: float) -> Any:
    return m.tensor(numbers, requires_grad=True)


def listed(gradients: list[Any]) -> list[Any]:
    return [None if gradient is None else gradient.tolist() for gradient in gradients]


@pytest.mark.parametrize("m", libraries())
def test_a_hook_sees_all_gradients_once_in_each_backward(m: Any) -> None:
    x, y, z = leaf(m, 1.0, 2.0), leaf(m, 3.0), leaf(m, 4.0)
    seen: list[Any] = []
    handle = register(m, (x, y, z), lambda gradients: seen.append(listed(gradients)))
    (x * y).sum().backward()
    (x * y).sum().backward(inputs=(x,))
    handle.remove()
    (x * y).sum().backward()

    assert [[[3.0, 3.0], [3.0], None], [[3.0, 3.0], None, None]] == seen


@pytest.mark.parametrize("m", libraries())
def test_a_hook_sees_the_gradient_that_comes_first(m: Any) -> None:
    x = leaf(m, 2.0)
    first, second = x * 3, x * 5
    order: list[Any] = []
    second.register_hook(lambda g: order.append("second"))
    register(m, (m.ones(1), first, second), lambda g: order.append(g.tolist()), mode="any")
    total = (first * 7 + second * 11).sum()
    total.backward(retain_graph=True)
    total.backward()

    assert ["second", [11.0], "second", [11.0]] == order


@pytest.mark.parametrize("m", libraries())
def test_a_result_without_a_gradient_gives_none(m: Any) -> None:
    x = leaf(m, 1.0, 2.0, 3.0, 4.0)
    (rows, _), seen = m.topk(x * 1, 2), []
    one, two = (x * 2).split(2)
    register(m, (rows, one, two), lambda gradients: seen.append(listed(gradients)))
    (one.sum() + rows.sum()).backward()

    assert [[[1.0, 1.0], [1.0, 1.0], None]] == seen


@pytest.mark.parametrize("m", libraries())
def test_a_hook_is_called_although_a_gradient_that_could_come_does_not(m: Any) -> None:
    class First(m.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient, None

    x, y = leaf(m, 1.0), leaf(m, 2.0)
    a, b, seen = x * 2, y * 2, []
    register(m, (a, b), lambda gradients: seen.append(listed(gradients)))
    First.apply(a, b).backward()

    assert [[[1.0], None]] == seen


@pytest.mark.parametrize("m", libraries())
def test_gradients_that_hooks_replaced_are_seen_in_the_order_of_registration(m: Any) -> None:
    x = leaf(m, 1.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    seen: list[Any] = []
    register(m, (y,), lambda gradients: seen.append(listed(gradients)))
    y.register_hook(lambda g: g * 10)
    (y * 1).backward()

    assert [[[10.0]]] == seen
    assert [200.0] == x.grad.tolist()


@pytest.mark.parametrize("m", libraries())
@pytest.mark.parametrize("mode", ["all", "any"])
def test_runs_of_several_threads_and_failed_runs_keep_apart(m: Any, mode: str) -> None:
    x, y = leaf(m, 1.0), leaf(m, 2.0)
    a, b, seen = x * 2, y * 3, []
    register(m, (a, b), lambda gradients: seen.append(0), mode=mode)
    total = (a * b).sum()
    bad = [True]

    def fail(gradient: Any) -> None:
        if bad:
            bad.pop()
            raise ArithmeticError

    a.register_hook(fail)
    with pytest.raises(ArithmeticError):
        total.backward(retain_graph=True)
    before = len(seen)
    threads = [threading.Thread(target=lambda: total.backward(retain_graph=True)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 5 == len(seen) - before


@pytest.mark.parametrize("m", libraries())
def test_wrong_arguments_are_refused(m: Any) -> None:
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        register(m, (leaf(m, 1.0),), print, mode="some")
    with pytest.raises((RuntimeError, AssertionError), match="gradient function"):
        register(m, (m.ones(1),), print)


def test_grad_calls_hooks_on_leaves_too() -> None:
    x, y, seen = leaf(dj, 2.0), leaf(dj, 3.0), []
    register(dj, (x, y), lambda gradients: seen.append(listed(gradients)))
    dj.autograd.grad((x * y).sum(), (x,))

    assert [[[3.0], None]] == seen


def test_a_handle_is_a_block() -> None:
    x, seen = leaf(dj, 2.0), []
    with register(dj, (x,), seen.append):
        (x * 1).sum().backward()
    (x * 1).sum().backward()

    assert 1 == len(seen)


@pytest.mark.filterwarnings("ignore")
def test_compiled_calls_and_captured_backward_call_the_hook() -> None:
    def step(x: Any, y: Any) -> Any:
        (x * y).exp().sum().backward()
        return x.grad.clone()

    x, y, seen = leaf(dj, 0.5, 1.0), leaf(dj, 0.25), []
    register(dj, (x, y), lambda gradients: seen.append(listed(gradients)))
    expected = (step(x, y).tolist(), list(seen))
    x.grad = y.grad = None
    seen.clear()
    compiled = dj.compile(step)
    assert expected == (compiled(x, y).tolist(), seen)
    seen.clear()
    x.grad = None
    dj.compile(lambda x, y: (x * y).exp().sum())(x, y).backward()

    assert expected == (x.grad.tolist(), seen)


@pytest.mark.filterwarnings("ignore")
def test_a_hook_on_what_a_compiled_call_gave_is_called() -> None:
    compiled = dj.compile(lambda x: (x * 2, x.exp()))
    x, seen = leaf(dj, 0.0), []
    one, two = compiled(x)
    register(dj, (one, two), lambda gradients: seen.append(listed(gradients)))
    (one * two).sum().backward()
    one, two = compiled(x)
    register(dj, (one, two), lambda gradients: seen.append(listed(gradients)))
    (one * 3).sum().backward()

    assert [[[1.0], [0.0]], [[3.0], None]] == seen
