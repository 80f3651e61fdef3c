"""Guards of real modules: every change is seen, and an unchanged module costs few slow checks."""

from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit import nn
from dynajit.capture import cache

SCALE = 1.0


class Scaled(nn.Module):
    """A layer that reads a parameter, a buffer, an attribute and a global."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("shift", dj.ones(2))
        self.factor = 2.0
        self.mode = "plain"

    def forward(self, x: Any) -> Any:
        y = self.layer(x) * self.factor + self.shift.sum() * SCALE
        return y if self.mode == "plain" else -y


class Negative(Scaled):
    """Another class of the same layout."""

    def forward(self, x: Any) -> Any:
        return -super().forward(x)


def entry_of(compiled: Any) -> Any:
    """The version used last."""
    found = compiled._compiled_call.__func__
    return cache.cache_of(found).entries(found)[0]


@pytest.mark.parametrize("layers", [5, 40])
def test_slow_facts_do_not_grow_with_the_number_of_layers(layers: int) -> None:
    """Steps, leaves and checks are looked up anew in every call; words and versions are not."""
    compiled = dj.compile(nn.Sequential(*(nn.Linear(2, 2) for _ in range(layers))), backend="numpy")
    x = dj.ones(1, 2)
    for _ in range(4):
        compiled(x)
    words, slow, _ = entry_of(compiled).guards.evaluator.facts
    assert words > 5 * layers
    assert slow < 20


def attribute(model: Any) -> None:
    model.mode = "negated"


def number(model: Any) -> None:
    model.factor = 5.0


def entry(model: Any) -> None:
    model.layer._parameters["weight"] = nn.Parameter(dj.full((2, 2), 3.0))


def fields(model: Any) -> None:
    model.layer.__dict__ = {**model.layer.__dict__, "bias": None, "_parameters": {
        "weight": nn.Parameter(dj.full((2, 2), 4.0)), "bias": None}}  # fmt: skip


def cls(model: Any) -> None:
    model.__class__ = Negative


def hook(model: Any) -> None:
    model.layer.register_forward_hook(lambda module, args, output: output + 100)


def removed_hook(model: Any) -> None:
    model.layer.register_forward_hook(lambda module, args, output: output + 100).remove()


def table(model: Any) -> None:
    model.layer._forward_hooks[0] = lambda module, args, output: output * 9


def buffer(model: Any) -> None:
    model.shift = dj.ones(5)


def submodule(model: Any) -> None:
    model.layer = nn.Identity()


def data(model: Any) -> None:
    with dj.no_grad():
        model.layer.weight.mul_(3)


def method(model: Any) -> None:
    model.forward = lambda x: x * 11


def global_name(model: Any) -> None:
    globals()["SCALE"] = 7.0


@pytest.fixture(autouse=True)
def scale_again() -> Any:
    """The global as it was."""
    yield
    globals()["SCALE"] = 1.0


@pytest.mark.parametrize(
    "change",
    [attribute, number, entry, fields, cls, hook, removed_hook, table, buffer, submodule, data,
     method, global_name],
)  # fmt: skip
def test_a_change_is_seen_by_the_next_call(change: Callable[[Any], None]) -> None:
    """After several calls under the snapshot, compiled equals plain."""
    model = Scaled()
    compiled = dj.compile(model, backend="numpy")
    x = dj.ones(3, 2)
    for _ in range(6):
        before = compiled(x)
    change(compiled)
    expected = type(compiled)._call_forward(compiled, x)
    for _ in range(3):
        found = compiled(x)
        assert expected.flatten().tolist() == pytest.approx(found.flatten().tolist())
    if change is not removed_hook:
        assert before.flatten().tolist() != found.flatten().tolist()
