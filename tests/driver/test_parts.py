"""Backward programs in several goes: the gradients of the whole, the first before the last."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.arrays import any_arrays
from dynajit.driver import parts
from dynajit.eager.backward import arrivals


@pytest.fixture
def goes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of outputs that each go gave."""
    found: list[int] = []
    go = parts.ProgramInParts._go

    def counted(*arguments: Any) -> Any:
        part = go(*arguments)
        found.append(len(part))
        return part

    monkeypatch.setattr(parts.ProgramInParts, "_go", counted)
    return found


class Watched:
    """Leaves that are watched within a block; in which order they came."""

    def __init__(self, leaves: list[Any], sizes: tuple[int, int]) -> None:
        self.leaves = leaves
        self.order: list[int] = []
        self.watcher = arrivals.Watcher(self.arrived, sizes)

    def arrived(self, leaf: Any) -> None:
        self.order.append(next(i for i, other in enumerate(self.leaves) if other is leaf))

    def __enter__(self) -> "Watched":
        arrivals.watch(self.leaves, self.watcher)
        return self

    def __exit__(self, *error: object) -> None:
        arrivals.forget([id(leaf) for leaf in self.leaves], self.watcher)


def layers(count: int) -> Any:
    dj.manual_seed(0)
    stack = [part for _ in range(count) for part in (dj.nn.Linear(6, 6), dj.nn.Tanh())]
    return dj.nn.Sequential(*stack, dj.nn.LayerNorm(6)).double()


def gradients(module: Any, call: Any, x: Any) -> list[Any]:
    module.zero_grad()
    call(x).pow(3).sum().backward()
    return [parameter.grad.numpy().copy() for parameter in module.parameters()]


@pytest.mark.parametrize("dynamic", [False, True])
def test_goes_give_the_gradients_of_the_whole(goes: list[int], dynamic: bool) -> None:
    """Layers from last to first; with sizes that vary, too."""
    module = layers(4)
    call = dj.compile(module, dynamic=dynamic)
    for rows in (3, 5):
        x = dj.randn(rows, 6).double()
        expected = gradients(module, module, x)
        goes.clear()
        with Watched(list(module.parameters()), (1, 6 * 7 * 8)) as watched:
            found = gradients(module, call, x)
        assert len(goes) >= 4
        assert sum(goes) == len(found)
        assert {8, 9} == set(watched.order[:2])
        assert {0, 1} == set(watched.order[-2:])
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


def test_without_a_watcher_there_is_one_program(goes: list[int]) -> None:
    module = layers(2)
    gradients(module, dj.compile(module), dj.ones(2, 6).double())
    assert [] == goes


def test_large_parts_are_one_program(goes: list[int]) -> None:
    module = layers(2)
    with Watched(list(module.parameters()), (1 << 20, 1 << 20)) as watched:
        gradients(module, dj.compile(module), dj.ones(2, 6).double())
    assert [] == goes
    assert set(range(6)) == set(watched.order)


def test_leaves_that_the_program_may_write_come_at_once(goes: list[int]) -> None:
    """A hook that updates a parameter must not change what later goes read."""

    def zero(leaf: Any) -> None:
        leaf.data.zero_()

    module = layers(2)
    x = dj.randn(2, 6).double()
    expected = gradients(module, module, x)
    call = dj.compile(module)
    gradients(module, call, x)
    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(zero)
    with Watched(list(module.parameters()), (1, 1)):
        found = gradients(module, call, x)
    assert [] == goes
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


def test_second_runs_and_gradients_of_gradients_are_as_without(goes: list[int]) -> None:
    """What `create_graph` records is not in parts; a graph that is kept runs twice."""
    module = layers(2)
    call = dj.compile(module)
    x = dj.randn(2, 6).double()
    with Watched(list(module.parameters()), (1, 1)):
        call(x).pow(3).sum().backward(create_graph=True)
        assert [] == goes
        module.zero_grad()
        loss = call(x).pow(3).sum()
        loss.backward(retain_graph=True)
        assert len(goes) > 1
        once = [p.grad.numpy().copy() for p in module.parameters()]
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    for parameter, gradient in zip(module.parameters(), once, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), 2 * gradient, rtol=1e-10)


def test_gradients_are_not_copied(goes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of results becomes that of `.grad`, as without goes."""
    module = layers(3)
    call = dj.compile(module)
    x = dj.randn(2, 6).double()
    copied: list[Any] = []
    copying = any_arrays.row_major
    with Watched(list(module.parameters()), (1, 1)):
        gradients(module, call, x)
        monkeypatch.setattr(any_arrays, "row_major", lambda a: copied.append(a) or copying(a))
        for parameter in module.parameters():
            parameter.grad = None
        goes.clear()
        call(x).pow(3).sum().backward()
    assert len(goes) > 3
    assert [] == copied


def test_leaves_with_one_gradient_have_memory_of_their_own(goes: list[int]) -> None:
    a, b = (dj.ones(3).double().requires_grad_() for _ in range(2))
    c = dj.ones(3).double().requires_grad_()
    call = dj.compile(lambda: ((a + b) * c).sum())
    with Watched([a, b, c], (1, 1)):
        call().backward()
    assert len(goes) > 1
    a.grad.add_(1)
    assert [[2.0] * 3, [1.0] * 3, [2.0] * 3] == [a.grad.tolist(), b.grad.tolist(), c.grad.tolist()]
