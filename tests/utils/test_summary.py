"""Summaries of models: shapes, parameters, operations, and nothing changed."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.utils.summary import summary


def _net() -> Any:
    net = dj.nn.Sequential(
        dj.nn.Conv2d(3, 4, 3), dj.nn.BatchNorm2d(4), dj.nn.Dropout(0.5), dj.nn.Flatten(),
        dj.nn.Sequential(dj.nn.Linear(4 * 6 * 6, 5), dj.nn.ReLU()),
    )  # fmt: skip
    net[1].eval()
    net[4][0].bias.requires_grad_(False)
    return net


def test_modules_parameters_and_operations() -> None:
    """In the order of `named_modules`; PyTorch's counts."""
    torch = pytest.importorskip("torch")
    net = _net()
    found = summary(net, dj.ones(2, 3, 8, 8))

    assert [path for path, _ in net.named_modules()] == [m.path for m in found.modules]
    by_path = {m.path: m for m in found.modules}
    assert ((2, 4, 6, 6),) == by_path["0"].shapes
    assert ("Linear", ((2, 5),)) == (by_path["4.0"].kind, by_path["4.0"].shapes)
    assert torch.nn.Conv2d(3, 4, 3).weight.numel() + 4 == by_path["0"].parameters
    assert 0 == by_path["4"].parameters and 2 * 2 * 5 * 144 == by_path["4"].flops
    assert 2 * (2 * 4 * 36) * 27 == by_path["0"].flops
    assert by_path[""].flops == found.flops == by_path["0"].flops + by_path["4"].flops
    assert 112 + 8 + 725 == found.parameters
    assert found.parameters - 5 == found.trainable


def test_the_model_stays_as_it_was() -> None:
    """Modes, statistics, gradients, random numbers."""
    net = _net()
    state = {name: value.clone() for name, value in net.state_dict().items()}
    modes = [module.training for module in net.modules()]
    dj.manual_seed(3)
    expected = dj.rand(3)
    dj.manual_seed(3)
    summary(net, dj.ones(2, 3, 8, 8))

    np.testing.assert_array_equal(expected.numpy(), dj.rand(3).numpy())
    assert modes == [module.training for module in net.modules()]
    assert {True, False} == set(modes)
    assert all(p.grad is None for p in net.parameters())
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(state[name].numpy(), value.numpy())


def test_modules_may_share_run_twice_and_not_at_all() -> None:
    """Parameters count once, operations each time; results may be nests, keywords are passed on."""

    class Net(dj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.unused = dj.nn.Linear(3, 3), dj.nn.Linear(3, 2)
            self.unused.weight = self.tied = dj.nn.Parameter(dj.ones(2, 3))

        def forward(self, x: Any, *, twice: bool) -> Any:
            y = self.one(x)
            return {"y": y, "z": (self.one(y) if twice else y, 1)}

    found = summary(Net(), dj.ones(4, 3), twice=True)
    by_path = {m.path: m for m in found.modules}

    assert ((4, 3), (4, 3)) == by_path[""].shapes
    assert (2 * 72, ((4, 3),)) == (by_path["one"].flops, by_path["one"].shapes)
    assert (0, ()) == (by_path["unused"].flops, by_path["unused"].shapes)
    assert 12 + 6 + 2 == found.parameters
    assert 72 == summary(Net(), dj.ones(4, 3), twice=False).flops


def test_a_compiled_model_has_the_same_summary() -> None:
    """Its layers are seen."""
    net = dj.nn.Sequential(dj.nn.Linear(3, 4), dj.nn.Tanh())
    plain = summary(net, dj.ones(2, 3))
    net.compile()

    assert plain == summary(net, dj.ones(2, 3))


def test_an_error_of_the_model_is_raised_and_modes_restored() -> None:
    """A wrong input."""
    net = dj.nn.Sequential(dj.nn.Linear(3, 4))
    with pytest.raises(RuntimeError):
        summary(net, dj.ones(2, 5))
    assert net.training and net[0].training


def test_the_text_is_a_table() -> None:
    """One line per module, and the totals."""
    lines = str(summary(_net(), dj.ones(2, 3, 8, 8))).splitlines()

    assert ["Module", "Output", "Parameters", "FLOP"] == lines[0].split()
    assert ["0", "(Linear)", "[2,", "5]", "725", "2,880"] == lines[-3].split()
    assert lines[-1].startswith("845 parameters, 840 of them trainable;")
