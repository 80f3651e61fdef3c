"""`compat.finder`: the library under another name."""

import importlib
import subprocess
import sys
from importlib import metadata

import pytest

import dynajit as dj


@pytest.fixture
def alias(monkeypatch):
    """A name of the library, and of nothing below it when the test is over."""
    monkeypatch.setitem(sys.modules, "tensors", dj)
    yield "tensors"
    for name in [name for name in sys.modules if name.startswith("tensors.")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["nn", "nn.functional", "utils.data", "optim.lr_scheduler", "fft"])
def test_a_module_below_an_alias_is_the_librarys(alias, name):
    own = importlib.import_module(f"dynajit.{name}")
    spec = own.__spec__
    assert importlib.import_module(f"{alias}.{name}") is own
    assert own.__spec__ is spec
    assert own.__name__ == f"dynajit.{name}"


def test_what_the_library_has_not_is_not_found_by_the_name_that_was_asked(alias):
    with pytest.raises(ModuleNotFoundError, match=r"'tensors\.nowhere'.*no 'dynajit\.nowhere'"):
        importlib.import_module(f"{alias}.nowhere")
    with pytest.raises(ModuleNotFoundError, match=r"tensors\.nn\.nowhere"):
        importlib.import_module(f"{alias}.nn.nowhere")


def test_a_module_below_an_alias_does_not_hide_the_function_of_its_name(alias):
    made = importlib.import_module(f"{alias}.autograd.gradcheck")

    assert made is importlib.import_module("dynajit.autograd.gradcheck")
    assert dj.autograd.gradcheck is made.gradcheck


def test_the_name_that_a_program_sets_changes_nothing(alias, monkeypatch):
    monkeypatch.setattr(dj, "__name__", alias)

    assert importlib.import_module(f"{alias}.fft") is dj.fft
    with pytest.raises(ModuleNotFoundError, match=r"tensors\.nowhere"):
        importlib.import_module(f"{alias}.nowhere")


def test_other_packages_are_imported_as_ever(monkeypatch):
    monkeypatch.delitem(sys.modules, "xml.dom.minidom", raising=False)
    assert importlib.import_module("xml.dom.minidom").__name__ == "xml.dom.minidom"


def test_a_program_for_pytorch_runs_with_the_library_under_its_name():
    program = """
import sys, dynajit
sys.modules["torch"] = dynajit
import torch, torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torch.nn.modules.linear import Linear
import torch.optim.lr_scheduler
assert Linear is dynajit.nn.Linear and F is dynajit.nn.functional and torch.nn is dynajit.nn
assert sys.modules["torch.nn"] is sys.modules["dynajit.nn"]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x):
        return F.softmax(self.body(x), dim=-1)

net = Net()
assert isinstance(net, dynajit.nn.Module)
x = torch.ones(3, 2)
assert torch.allclose(net(x), torch.compile(net)(x))
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_other_name_has_the_metadata_of_a_package(alias):
    assert dj.version.__version__ == metadata.version(alias)
    assert [alias] == metadata.packages_distributions()[alias]
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("no-such-package-is-here")


def test_the_librarys_own_name_has_its_own_metadata(alias):
    assert dj.version.dynajit == metadata.version("dynajit")
