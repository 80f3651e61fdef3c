"""`compile(module)` shares everything with the module: what is changed on one holds for both."""

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import autograd, nn
from dynajit.capture.entry import cache
from dynajit.nn.utils import rnn


class Model(nn.Module):
    """A parameter, a buffer, dropout, a plain attribute and a slot."""

    __slots__ = ("exponent",)

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(dj.full((2,), 3.0))
        self.register_buffer("shift", dj.ones(2))
        self.layer = nn.Linear(2, 2, bias=False)
        self.factor = 2.0
        self.exponent = 1
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        y = self.layer(x * self.weight * self.factor + self.shift) ** self.exponent
        return y + 1000 if self.training else y


class Doubled(Model):
    """Another class of the same layout."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * 2


def evaluated(model: Any) -> None:
    model.eval()


def attribute(model: Any) -> None:
    model.factor = 5.0


def new_attribute(model: Any) -> None:
    model.forward = lambda x: x * 11


def parameter(model: Any) -> None:
    model.weight = nn.Parameter(dj.full((2,), 7.0))


def registered_buffer(model: Any) -> None:
    zeros = model.shift * 0
    del model.shift
    model.register_buffer("shift", zeros)


def child(model: Any) -> None:
    model.layer = nn.Identity()


def hook(model: Any) -> None:
    model.register_forward_hook(lambda module, args, output: output + 100)


def slot(model: Any) -> None:
    model.exponent = 3


def cls(model: Any) -> None:
    model.__class__ = Doubled


def fields(model: Any) -> None:
    model.__dict__ = {**model.__dict__, "factor": -1.0}


def loaded(model: Any) -> None:
    model.load_state_dict({name: dj.ones_like(t) * 4 for name, t in model.state_dict().items()})


CHANGES: list[Callable[[Any], None]] = [
    evaluated, attribute, new_attribute, parameter, registered_buffer, child, hook, slot, cls,
    loaded,
]  # fmt: skip


def pickled(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


def values(x: Any) -> list[float]:
    """The elements of a tensor."""
    return [round(value, 3) for value in x.flatten().tolist()]


def recompiles_of(compiled: Any) -> int:
    """How often another version was needed."""
    return len(cache.cache_of(compiled._own_call.__func__).recompiles)


@pytest.mark.parametrize("change", [*CHANGES, fields])
@pytest.mark.parametrize("warm", [False, True])
def test_a_change_of_the_original_is_seen_by_the_compiled_module(
    change: Callable[[Any], None], warm: bool
) -> None:
    model = Model()
    compiled = dj.compile(model, backend="numpy")
    x = dj.ones(3, 2)
    before = values(compiled(x)) if warm else None
    change(model)
    found = values(compiled(x))

    assert values(model(x)) == found
    assert before != found


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_compiled_module_is_seen_by_the_original(
    change: Callable[[Any], None],
) -> None:
    model = Model()
    compiled = dj.compile(model, backend="numpy")
    x = dj.ones(3, 2)
    before = values(compiled(x))
    change(compiled)

    assert values(model(x)) == values(compiled(x))
    assert before != values(model(x))
    assert type(model) is type(compiled)


def test_it_is_another_object_with_the_same_class_and_state() -> None:
    model = Model()
    compiled = dj.compile(model)

    assert compiled is not model
    assert type(compiled) is Model
    assert vars(compiled) is vars(model)
    assert list(compiled.state_dict()) == list(model.state_dict())
    assert compiled.exponent == 1
    assert compiled.weight is model.weight
    with pytest.raises(AttributeError, match="'Model' object has no attribute 'missing'"):
        print(compiled.missing)


def test_what_forward_writes_is_there_on_both() -> None:
    model = Model()
    compiled = dj.compile(model, backend="numpy", fullgraph=True)
    for _ in range(3):
        compiled(dj.ones(1, 2))
    model(dj.ones(1, 2))

    assert [4, 4] == [model.calls, compiled.calls]


def test_the_original_runs_as_plain_python() -> None:
    ran = []

    class Noting(nn.Module):
        def forward(self, x: Any) -> Any:
            ran.append(dj.is_compiling())
            return x + 1

    model = Noting()
    compiled = dj.compile(model, backend="numpy")
    compiled(dj.ones(1))
    model(dj.ones(1))

    assert [True, False] == ran
    assert not hasattr(model, "report")
    assert not hasattr(model, "guards")
    assert compiled.report().calls == 1
    assert len(compiled.guards()) == 1


def test_forward_and_hooks_get_the_original() -> None:
    """As with PyTorch's compiled modules."""
    seen = []

    class Noting(nn.Module):
        def forward(self, x: Any) -> Any:
            seen.append(self)
            return x

    model = Noting()
    model.register_forward_pre_hook(lambda module, args: seen.append(module))
    dj.compile(model, backend="numpy")(dj.ones(1))

    assert all(found is model for found in seen)
    assert len(seen) == 2


def test_switching_modes_needs_one_version_each() -> None:
    model = Model()
    compiled = dj.compile(model, backend="numpy")
    x = dj.ones(1, 2)
    for _ in range(4):
        model.train()
        training = values(compiled(x))
        model.eval()
        assert training == [value + 1000 for value in values(compiled(x))]

    assert recompiles_of(compiled) == 1


def test_one_module_may_be_compiled_more_than_once() -> None:
    """Each compiled module has its own call, reports and options, over one state."""
    model = nn.Linear(2, 2)
    first = dj.compile(model, backend="numpy")
    second = dj.compile(first, backend="eager", fullgraph=True)
    x = dj.ones(1, 2)
    first(x)
    first(x)
    second(x)

    assert second._own_call.__self__ is model
    assert [2, 1] == [first.report().calls, second.report().calls]
    assert vars(first) is vars(second)


def test_a_compiled_module_within_a_compiled_function_is_one_graph() -> None:
    model = Model()
    compiled = dj.compile(model, backend="numpy")

    def step(x: Any) -> Any:
        before = compiled.calls
        y = compiled(x) + model(x)
        return y, before, compiled.calls, model.calls

    jitted = dj.compile(step, fullgraph=True, backend="numpy")
    for turn in range(3):
        found, *counts = jitted(dj.ones(1, 2))
        assert counts == [2 * turn, 2 * turn + 2, 2 * turn + 2]
    assert values(model(dj.ones(1, 2)) * 2) == values(found)
    model.eval()
    assert values(model(dj.ones(1, 2)) * 2) == values(jitted(dj.ones(1, 2))[0])


def test_a_compiled_module_may_be_a_child() -> None:
    inner = Model()
    outer = nn.Sequential(dj.compile(inner, backend="numpy"), nn.ReLU())
    both = dj.compile(outer, backend="numpy", fullgraph=True)
    x = dj.ones(2, 2)
    assert values(outer(x)) == values(both(x)) == values(nn.ReLU()(inner(x)))
    inner.factor = -3.0
    assert values(outer(x)) == values(both(x)) == values(nn.ReLU()(inner(x)))
    assert ["0.weight", "0.shift", "0.layer.weight"] == list(outer.state_dict())


def test_compiling_in_place_compiles_the_module_itself() -> None:
    model = Model()
    assert model.compile(backend="numpy", fullgraph=True) is None
    x = dj.ones(1, 2)
    assert values(model(x)) == values(model._call_forward(x))
    assert model.report().calls == 1
    model.eval()
    assert values(model(x)) == values(model._call_forward(x))
    assert len(model.guards()) == 2

    shared = dj.compile(model, backend="eager")
    assert values(shared(x)) == values(model(x))
    assert [1, 3] == [shared.report().calls, model.report().calls]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("kind", ["original", "compiled", "in place"])
def test_a_copy_is_a_plain_module_of_its_own(copied: Callable[[Any], Any], kind: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    compiled = dj.compile(model, backend="numpy")
    if kind == "in place":
        model.compile(backend="numpy")
    x = dj.ones(1, 2)
    expected = values(compiled(x))
    other = copied(compiled if kind == "compiled" else model)

    assert type(other) is nn.Sequential
    assert expected == values(other(x))
    assert not hasattr(other, "report")
    other.eval()
    assert model.training
    model.append(nn.Linear(2, 2))
    assert values(model(x)) == values(compiled(x))


def test_a_copy_by_the_users_own_state_is_a_module_of_its_own() -> None:
    """The instance dict as it is, compiled calls and all."""

    class Stated(nn.Linear):
        factor = 1.0

        def __getstate__(self) -> dict[str, Any]:
            return dict(self.__dict__)

        def forward(self, x: Any) -> Any:
            return super().forward(x) * self.factor

    model = Stated(2, 2)
    model.compile(backend="numpy")
    dj.compile(model, backend="numpy")(dj.ones(1, 2))
    for other in (copy.copy(model), copy.deepcopy(model)):
        other.factor = 2.0
        assert values(other(dj.ones(1, 2))) == values(other._call_forward(dj.ones(1, 2)))
        assert values(other(dj.ones(1, 2))) != values(model(dj.ones(1, 2)))


def test_the_compiled_module_keeps_the_original_and_not_the_reverse() -> None:
    model = nn.Linear(2, 2)
    compiled = dj.compile(model, backend="numpy")
    compiled(dj.ones(1, 2))
    reference = weakref.ref(compiled)
    del compiled
    gc.collect()
    assert reference() is None

    compiled = dj.compile(model, backend="numpy")
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is not None
    assert compiled(dj.ones(1, 2)).shape == (1, 2)
    del compiled
    gc.collect()
    assert reference() is None


def test_an_uncompiled_module_never_looks_at_its_slot() -> None:
    """A module without compiled calls has an empty slot, whatever makes it."""
    assert nn.Linear(2, 2)._own_call is None
    assert nn.Linear.__new__(nn.Linear)._own_call is None
    compiled = dj.compile(lambda x: nn.Linear(2, 2)(x), backend="numpy")
    assert compiled(dj.ones(1, 2)).shape == (1, 2)


def test_classes_may_call_super_from_their_own_call() -> None:
    class Twice(nn.Linear):
        def __call__(self, x: Any) -> Any:
            return super().__call__(x) * 2

    model = Twice(2, 2)
    compiled = dj.compile(model, backend="numpy")
    assert values(model(dj.ones(1, 2))) == values(compiled(dj.ones(1, 2)))
    assert compiled.report().calls == 1


def test_classes_with_reports_of_their_own_keep_them() -> None:
    class Reporting(nn.Linear):
        def report(self) -> str:
            return "mine"

    assert dj.compile(Reporting(2, 2)).report() == "mine"


def test_threads_may_compile_and_switch_one_module() -> None:
    model = Model().eval()
    found: list[list[float]] = []
    expected = values(model(dj.ones(1, 2)))

    def work() -> None:
        compiled = dj.compile(model, backend="numpy")
        for _ in range(20):
            found.append(values(compiled(dj.ones(1, 2))))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [expected] * 80 == found


def test_training_the_compiled_module_trains_the_original() -> None:
    model = nn.Linear(2, 1)
    compiled = dj.compile(model, backend="numpy")
    optimizer = dj.optim.SGD(compiled.parameters(), lr=0.5)
    before = values(model.weight)
    compiled(dj.ones(4, 2)).sum().backward()
    optimizer.step()

    assert values(model.weight) == pytest.approx([value - 2 for value in before], abs=2e-3)


@pytest.mark.parametrize("change", [evaluated, attribute, slot, registered_buffer, hook])
def test_it_shares_what_pytorch_shares(change: Callable[[Any], None]) -> None:
    """The same program with PyTorch's compiled module. What is registered on that stays its own."""
    torch = pytest.importorskip("torch")

    def outcome(library: Any, on_original: bool) -> Any:
        class Same(library.nn.Module):  # type: ignore[name-defined, misc]
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("shift", library.ones(2))
                self.factor = 2.0
                self.exponent = 1

            def forward(self, x: Any) -> Any:
                y = (x * self.factor + self.shift) ** self.exponent
                return y + 1000 if self.training else y

        model = Same()
        compiled = library.compile(model, backend="eager")
        x = library.ones(1, 2)
        found = [values(compiled(x))]
        change(model if on_original else compiled)
        return [*found, values(compiled(x)), values(model(x)), compiled.training, model.training]

    for on_original in (True,) if change in (registered_buffer, hook) else (True, False):
        assert outcome(torch, on_original) == outcome(dj, on_original)


class AsksItsParameters(nn.Module):
    """Idioms of public programs: where the parameters are, how many, a penalty on them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("scale", dj.full((3,), 2.0))

    def forward(self, x):
        parameter = next(self.parameters())
        start = autograd.Variable(dj.zeros(3, dtype=parameter.dtype)).to(parameter.device)
        penalty = sum(p.square().sum() for p in self.parameters())
        names = [name for name, _ in (*self.named_parameters(), *self.named_buffers())]
        result = self.second(self.first(x)) * self.scale + start
        return result + penalty, names, sum(p.numel() for p in self.parameters())


def test_a_module_that_asks_its_parameters_is_one_graph() -> None:
    model, x = AsksItsParameters(), dj.randn(2, 3)
    results = []
    for call in (model, dj.compile(model, fullgraph=True)):
        model.zero_grad()
        result, names, count = call(x)
        result.sum().backward()
        results.append((result.detach().numpy(), model.first.weight.grad.numpy()))

        assert names == ["first.weight", "first.bias", "second.bias", "scale"]
        assert count == 15
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "activation": lambda: nn.ReLU(inplace=True),
    "dropout": lambda: nn.Dropout(0.0),
    "softmax": lambda: nn.Softmax(dim=1),
    "pool": lambda: nn.MaxPool2d(2),
    "sequence": lambda: nn.Sequential(nn.LeakyReLU(0.2), nn.Flatten()),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_that_is_made_in_a_call_is_captured(name: str) -> None:
    """`nn.ReLU()(x)`, as programs write it in `forward`."""

    def function(x: Any) -> Any:
        return LAYERS[name]()(x * 2) + 1

    x = dj.randn(2, 3, 4, 4)

    assert dj.allclose(dj.compile(function, fullgraph=True)(x), function(x))


def test_a_loss_that_is_made_in_a_call_is_captured() -> None:
    def function(x: Any, y: Any) -> Any:
        return nn.CrossEntropyLoss()(x, y) + nn.MSELoss()(x, x * 2)

    x, y = dj.randn(5, 4), dj.arange(5) % 4

    assert dj.allclose(dj.compile(function, fullgraph=True)(x, y), function(x, y))


class Packed(nn.Module):
    """Sequences of several lengths through a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Any, lengths: Any) -> Any:
        packed = rnn.pack_padded_sequence(x * 2, lengths, batch_first=True, enforce_sorted=False)
        result, _ = self.cell(packed)
        padded, counts = rnn.pad_packed_sequence(result, batch_first=True)
        return self.head(padded).tanh(), counts


def test_functions_of_packed_sequences_break_once_each() -> None:
    """They look into the lengths all along: a break for every look would be forty."""
    model, x, lengths = Packed(), dj.randn(3, 7, 4), dj.tensor([5, 7, 2])
    before = dj.compile_stats()["breaks"]
    compiled = dj.compile(model)
    for _ in range(2):
        (found, counts), (expected, _) = compiled(x, lengths), model(x, lengths)
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-5, atol=1e-6)
        assert [5, 7, 2] == counts.tolist()

    assert dj.compile_stats()["breaks"] - before <= 4
