"""Pain 13: hooks added after the first call never run."""

from typing import Any

import pytest

import dynajit as dj
from dynajit import nn
from dynajit.nn.hooks import register_module_forward_hook


@pytest.fixture
def network() -> Any:
    """A network with constant weights."""
    made = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with dj.no_grad():
        for parameter in made.parameters():
            parameter.fill_(1.0)
    return made


def test_a_forward_hook_added_later_runs_and_its_removal_is_seen(network: Any) -> None:
    compiled = dj.compile(network)
    x = dj.ones(1, 2)
    assert [[3.0, 3.0]] == compiled(x).tolist()
    calls: list[str] = []

    def hook(module: Any, args: Any, output: Any) -> Any:
        calls.append("called")
        return output * 2

    handle = network[0].register_forward_hook(hook)
    assert [[6.0, 6.0]] == compiled(x).tolist()
    assert [[6.0, 6.0]] == compiled(x).tolist()
    assert ["called", "called"] == calls
    handle.remove()
    assert [[3.0, 3.0]] == compiled(x).tolist()
    assert 2 == len(calls)


def test_a_pre_hook_on_the_root_added_later_runs(network: Any) -> None:
    compiled = dj.compile(network)
    x = dj.ones(1, 2)
    compiled(x)
    compiled.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    assert [[5.0, 5.0]] == compiled(x).tolist()


def test_a_global_hook_added_later_runs(network: Any) -> None:
    compiled = dj.compile(network)
    x = dj.ones(1, 2)
    compiled(x)
    seen: list[str] = []
    handle = register_module_forward_hook(
        lambda module, args, output: seen.append(type(module).__name__)
    )
    try:
        compiled(x)
    finally:
        handle.remove()
    assert ["Linear", "ReLU", "Sequential"] == seen
    compiled(x)
    assert 3 == len(seen)


def test_a_backward_hook_added_later_runs(network: Any) -> None:
    compiled = dj.compile(network)
    x = dj.ones(1, 2)
    compiled(x).sum().backward()
    seen: list[Any] = []
    network[0].register_full_backward_hook(
        lambda module, into, out: seen.append([part.tolist() for part in out])
    )
    compiled(x).sum().backward()
    assert [[[[1.0, 1.0]]]] == seen


def test_a_tensor_hook_added_later_runs(network: Any) -> None:
    compiled = dj.compile(network)
    x = dj.ones(1, 2)
    compiled(x)
    seen: list[Any] = []
    network[0].weight.register_hook(lambda gradient: seen.append(gradient.tolist()))
    compiled(x).sum().backward()
    assert [[[1.0, 1.0], [1.0, 1.0]]] == seen
