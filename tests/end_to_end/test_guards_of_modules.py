"""Guards of real modules: every change is seen, and an unchanged module costs few slow checks."""

import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit import nn
from dynajit.capture.entry import cache
from dynajit.nn import hooks
from dynajit.nn.hooks import RemovableHandle, register_module_forward_hook

SCALE = 1.0
HANDLES: list[RemovableHandle] = []


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
        if self.training:
            y = y + 1
        return y if self.mode == "plain" else -y


class Negative(Scaled):
    """Another class of the same layout."""

    def forward(self, x: Any) -> Any:
        return -super().forward(x)


def entry_of(compiled: Any) -> Any:
    """The version used last."""
    found = compiled._own_call.__func__
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


def global_hook(model: Any) -> None:
    HANDLES.append(register_module_forward_hook(lambda module, args, output: output + 50))


def global_table(model: Any) -> None:
    hooks.global_forward_pre_hooks[-1] = lambda module, args: (args[0] * 2,)


def backward_hook(model: Any) -> None:
    model.layer.register_full_backward_pre_hook(lambda module, gradients: None)


def replaced_table(model: Any) -> None:
    model.layer._forward_hooks = OrderedDict({0: lambda module, args, output: output * 9})


def looked_at_table(model: Any) -> None:
    assert not model.layer._forward_hooks


def frozen(model: Any) -> None:
    model.requires_grad_(False)


def evaluated(model: Any) -> None:
    model.eval()


def resized(model: Any) -> None:
    model.shift.data = dj.ones(7)


def pickled(model: Any) -> None:
    copied = pickle.loads(pickle.dumps(model.layer))
    copied.weight.data.mul_(2)
    model.layer = copied


@pytest.fixture(autouse=True)
def globals_again() -> Any:
    """Globals and global hooks as they were."""
    yield
    globals()["SCALE"] = 1.0
    hooks.global_forward_pre_hooks.clear()
    while HANDLES:
        HANDLES.pop().remove()


@pytest.mark.parametrize(
    "change",
    [attribute, number, entry, fields, cls, hook, removed_hook, table, buffer, submodule, data,
     method, global_name, global_hook, global_table, backward_hook, replaced_table, looked_at_table,
     frozen, evaluated, resized, pickled],
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
        assert expected.requires_grad == found.requires_grad
    if change not in (removed_hook, backward_hook, looked_at_table, frozen):
        assert before.flatten().tolist() != found.flatten().tolist()


def test_hooks_of_the_original_are_those_of_the_compiled_module() -> None:
    """A hook that comes and goes needs two versions, not one per change."""
    model = nn.Linear(2, 2)
    compiled = dj.compile(model, backend="numpy")
    x = dj.ones(3, 2)

    def hook(module: Any, args: Any, output: Any) -> Any:
        return output + 100

    for step in range(5):
        plain = compiled(x)
        model._forward_hooks[0] = hook
        assert [[100.0, 100.0]] * 3 == (compiled(x) - plain).tolist()
        assert compiled._forward_hooks == model._forward_hooks
        del model._forward_hooks[0]
        recompiles = len(cache.cache_of(compiled._own_call.__func__).recompiles)
        assert step > 0 or recompiles == 1
    assert recompiles == 1
