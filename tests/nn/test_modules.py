"""Layers by PyTorch's paths, buffers, and initial values by older names."""

import importlib
from typing import Any

import numpy as np
import pytest

import dynajit as dj

PATHS = sorted(dj.nn.modules.__all__)


@pytest.mark.parametrize(
    "name", [name for name in PATHS if name.islower() and name not in ("utils", "lazy", "module")]
)
def test_paths_lead_to_the_layers(name: str) -> None:
    """Each module publishes classes of `nn`, or their bases."""
    module = importlib.import_module(f"dynajit.nn.modules.{name}")

    assert module.__all__
    for entry in module.__all__:
        assert issubclass(getattr(module, entry), dj.nn.Module)
        assert entry.startswith("_") or getattr(dj.nn, entry) is getattr(module, entry)


def test_bases_are_asked_for_by_isinstance() -> None:
    """As programs do: normalizations, convolutions, losses."""
    modules = dj.nn.modules
    batch, instance = dj.nn.BatchNorm2d(2), dj.nn.InstanceNorm2d(2)
    assert isinstance(batch, modules.batchnorm._BatchNorm)
    assert not isinstance(instance, modules.batchnorm._BatchNorm)
    assert isinstance(instance, modules.instancenorm._InstanceNorm)
    assert isinstance(batch, modules.batchnorm._NormBase)
    assert isinstance(instance, modules.batchnorm._NormBase)
    assert isinstance(dj.nn.Conv2d(1, 1, 1), modules.conv._ConvNd)
    assert isinstance(dj.nn.MSELoss(), modules.loss._Loss)


def test_numbers_become_tuples() -> None:
    """`_pair` and its kin."""
    utils = dj.nn.modules.utils
    assert ((3,), (3, 3), (3, 3, 3)) == (utils._single(3), utils._pair(3), utils._triple(3))
    assert (1, 2) == utils._pair([1, 2])
    assert (3, 3, 3, 3) == utils._quadruple(3)
    assert (2, 2, 1, 1) == utils._reverse_repeat_tuple((1, 2), 2)
    assert [4, 6] == utils._list_with_default((4, None), [2, 5, 6])


def test_buffers_are_registered_by_assignment() -> None:
    """Persistent or not; they replace what was there, and move with the module."""
    module = dj.nn.Module()
    module.kept = dj.nn.Buffer(dj.ones(2))
    module.other = dj.nn.Buffer(dj.ones(3), persistent=False)
    assert {"kept", "other"} == {name for name, _ in module.named_buffers()}
    assert ["kept"] == list(module.state_dict())
    assert dj.float64 is module.double().kept.dtype
    assert not list(module.parameters())
    module.kept = None
    assert ["other"] == [name for name, _ in module.named_buffers()]
    assert not dj.nn.parameter.is_lazy(dj.nn.Parameter(dj.ones(1)))


def test_older_names_of_initial_values_warn() -> None:
    """And do the same."""
    dj.manual_seed(0)
    expected = dj.nn.init.kaiming_normal_(dj.empty(3, 4))
    dj.manual_seed(0)
    with pytest.warns(FutureWarning, match="kaiming_normal_"):
        actual = dj.nn.init.kaiming_normal(dj.empty(3, 4))
    assert (expected == actual).all()
    with pytest.warns(FutureWarning):
        assert (dj.nn.init.eye(dj.empty(2, 2)) == dj.eye(2)).all()


def test_fans_and_sparse_values() -> None:
    """The private names, and a share of zeros per column."""
    assert (36, 18) == dj.nn.init._calculate_fan_in_and_fan_out(dj.empty(2, 4, 3, 3))
    assert 18 == dj.nn.init._calculate_correct_fan(dj.empty(2, 4, 3, 3), "FAN_OUT")
    zeros = (dj.nn.init.sparse_(dj.empty(10, 4), 0.25) == 0).sum(0)
    assert [3, 3, 3, 3] == zeros.tolist()


def test_compiled_modules_read_buffers() -> None:
    """Of the class `Buffer`, too."""

    class Shifted(dj.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = dj.nn.Buffer(dj.arange(3.0))

        def forward(self, x: Any) -> Any:
            return x + self.shift

    found = dj.compile(Shifted(), fullgraph=True)(dj.ones(3))
    np.testing.assert_array_equal(found.numpy(), [1, 2, 3])
