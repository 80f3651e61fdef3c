"""Storages by PyTorch's path: plain pickles that PyTorch wrote, read under its name."""

import io
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch", reason="PyTorch writes the pickles")


class UnderItsName(pickle.Unpickler):
    """Finds PyTorch's modules in dynajit, as a program that imports dynajit as torch does."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" or module.startswith("torch."):
            module = "dynajit" + module.removeprefix("torch")
        return super().find_class(module, name)


def read(value: Any) -> Any:
    return UnderItsName(io.BytesIO(pickle.dumps(value))).load()


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_plain_pickles_of_tensors_keep_values_and_dtypes(name: str) -> None:
    value = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    found = read(value)

    assert getattr(dj, name) is found.dtype
    assert value.tolist() == found.tolist()


def test_plain_pickles_of_views_parameters_and_no_element() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    view, parameter, empty = read([x.t(), torch.nn.Parameter(x[1]), torch.zeros(0, 2)])

    assert (1, 3) == view.stride()
    assert x.t().tolist() == view.tolist()
    assert parameter.requires_grad and isinstance(parameter, dj.nn.Parameter)
    assert [3.0, 4.0, 5.0] == parameter.tolist()
    assert (0, 2) == empty.shape


def test_plain_pickles_of_modules_compute_what_pytorch_computes() -> None:
    nn = torch.nn
    layers = nn.Sequential(
        nn.Conv1d(2, 4, 3, padding="same"), nn.BatchNorm1d(4), nn.GELU(), nn.GroupNorm(2, 4)
    )
    x = torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(0))
    found = read(layers)

    np.testing.assert_allclose(
        layers(x).detach().numpy(), found(dj.tensor(x.numpy())).detach().numpy(), atol=1e-5
    )
    assert list(layers.state_dict()) == list(found.state_dict())


def test_hooks_of_pickled_modules_run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = torch.nn.utils.weight_norm(torch.nn.Linear(2, 2))
    found = read(layer)
    ran: list[int] = []
    found.register_forward_pre_hook(lambda module, args: ran.append(1))
    with dj.no_grad():
        found.weight_g.mul_(2)
        layer.weight_g.data.mul_(2)

    expected = layer(torch.ones(1, 2)).detach().numpy()
    np.testing.assert_allclose(expected, found(dj.ones(1, 2)).detach().numpy(), rtol=1e-5)
    assert [1] == ran
