"""Leaves that are watched: told of their gradients while backward goes on."""

from collections.abc import Iterator
from typing import Any

import pytest

import dynajit as dj
from dynajit.eager.backward import arrivals
from dynajit.eager.backward.present import queue_callback


@pytest.fixture
def watched() -> Iterator[Any]:
    """`watched(*leaves)` -> a list that grows by what happens."""
    made: list[Any] = []

    def watch(*leaves: Any) -> list[Any]:
        events: list[Any] = []

        def arrived(leaf: Any) -> None:
            place = next(i for i, other in enumerate(leaves) if other is leaf)
            events.append((place, leaf.grad.tolist()))

        watcher = arrivals.Watcher(arrived, (1, 1))
        arrivals.watch(list(leaves), watcher)
        made.append(([id(leaf) for leaf in leaves], watcher))
        return events

    yield watch
    for keys, watcher in made:
        arrivals.forget(keys, watcher)
    assert {} == arrivals.WATCHERS


def test_the_last_leaf_comes_before_earlier_nodes_run(watched: Any) -> None:
    """With its whole gradient; a leaf that is used twice when both parts are there."""
    a, b, c = (dj.full((1,), n, requires_grad=True) for n in (2.0, 3.0, 5.0))
    events = watched(a, b, c)
    first = a * b
    first.register_hook(lambda gradient: events.append("first node"))
    ((first * c) * a).sum().backward()
    assert [(2, [12.0]), "first node", (0, [60.0]), (1, [20.0])] == events


def test_hooks_run_before_and_gradients_are_not_copied_for_it(watched: Any) -> None:
    a = dj.ones(1, requires_grad=True)
    events = watched(a)
    a.register_hook(lambda gradient: gradient * 2)

    def grow(leaf: Any) -> None:
        leaf.grad.add_(1)

    a.register_post_accumulate_grad_hook(grow)
    (a * 3).sum().backward()
    assert [(0, [7.0])] == events


def test_unused_leaves_and_grad_do_not_come(watched: Any) -> None:
    a, b = (dj.ones(1, requires_grad=True) for _ in range(2))
    events = watched(a, b)
    dj.autograd.grad((a * b).sum(), [a, b])
    assert [] == events
    (a * 1).sum().backward()
    assert [(0, [1.0])] == events


def test_leaves_that_are_asked_for_come_at_the_end(watched: Any) -> None:
    a, b = (dj.ones(1, requires_grad=True) for _ in range(2))
    events = watched(a, b)
    (a * b).sum().backward(inputs=[b])
    assert [(1, [1.0])] == events


def test_callbacks_run_at_the_end_of_the_outermost_backward() -> None:
    """Not where backward raises; outside of one they are refused."""
    a = dj.ones(1, requires_grad=True)
    events: list[str] = []

    def inner(gradient: Any) -> None:
        b = dj.ones(1, requires_grad=True)
        b.register_hook(lambda g: queue_callback(lambda: events.append("callback")))
        with dj.enable_grad():
            (b * 2).sum().backward()
        events.append("inner ended")

    y = a * 2
    y.register_hook(inner)
    a.register_hook(lambda gradient: events.append("leaf"))
    y.sum().backward()
    assert ["inner ended", "leaf", "callback"] == events
    with pytest.raises(RuntimeError, match="during backward"):
        queue_callback(lambda: None)
