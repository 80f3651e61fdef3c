"""Where a GPU is the default device, tensors and layers are made there, eagerly and compiled."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj


@pytest.fixture(autouse=True)
def _cpu_again() -> Iterator[None]:
    yield
    dj.set_default_device(None)


def made(x: Any) -> Any:
    return (
        dj.zeros(2), dj.arange(3), dj.tensor([1.0, 2.0]), dj.tensor(x.shape[0]), dj.empty(2),
        dj.full((2,), 1.0), dj.eye(2), dj.linspace(0, 1, 3), dj.rand(2), dj.as_tensor([1, 2]),
        dj.Tensor([1.0]), x.new_zeros(2), dj.zeros_like(x), x.new_tensor([1.0]),
    )  # fmt: skip


ON_GPU = 10  # of the tensors above; those behind follow the CPU's `Tensor`, or their input


def test_new_tensors_are_on_the_default_device(driver: Any) -> None:
    x = dj.zeros(2)
    compiled = dj.compile(made, fullgraph=True)
    expected = ["cuda"] * ON_GPU + ["cpu"] * 4
    assert ["cpu"] * 14 == [y.device.type for y in compiled(x)]
    with dj.device("cuda"):
        for function in (made, compiled):
            found = function(x)
            assert expected == [y.device.type for y in found]
            assert [1.0, 2.0] == found[2].tolist()
    assert ["cpu"] * 14 == [y.device.type for y in compiled(x)]


def test_the_default_device_has_a_number() -> None:
    dj.set_default_device("cuda")
    assert dj.device("cuda:0") == dj.get_default_device() == dj.zeros(1).device
    dj.set_default_device("cuda:0")
    assert dj.device("cuda:0") == dj.zeros(1).device
    dj.set_default_device(None)
    assert dj.device("cpu") == dj.zeros(1).device


def test_a_training_step_needs_no_device_where_one_is_the_default() -> None:
    def losses(device: str) -> list[float]:
        with dj.device(device):
            dj.manual_seed(0)
            model = dj.nn.Sequential(
                dj.nn.Linear(3, 4), dj.nn.BatchNorm1d(4), dj.nn.Dropout(0.0), dj.nn.Linear(4, 1)
            )
            assert all(p.device.type == device for p in model.parameters())
            optimizer = dj.optim.Adam(model.parameters(), lr=0.1)
            x, found = dj.arange(12.0).reshape(4, 3), []
            for _ in range(3):
                optimizer.zero_grad()
                loss = dj.nn.functional.mse_loss(model(x), dj.ones(4, 1))
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        return found

    assert np.allclose(losses("cpu"), losses("cuda"), rtol=1e-4)


def test_arrays_of_numpy_go_to_the_default_device_where_they_are_copied() -> None:
    with dj.device("cuda"):
        assert dj.tensor(np.ones(2)).device.type == "cuda" == dj.as_tensor(np.ones(2)).device.type
        assert dj.from_numpy(np.ones(2)).device.type == "cpu"
    with dj.device("cpu"):
        assert dj.tensor(dj.ones(2, device="cuda")).device.type == "cpu"


def test_batches_are_collated_on_the_cpu_into_the_default_device() -> None:
    """As in PyTorch: tensors of the dataset stay where they are, its numbers do not."""
    data = [(dj.ones(2), 1.0), (dj.zeros(2), 2.0)]
    with dj.device("cuda"):
        tensors, numbers = next(iter(dj.utils.data.DataLoader(data, batch_size=2)))
    assert ["cpu", "cuda"] == [tensors.device.type, numbers.device.type]
