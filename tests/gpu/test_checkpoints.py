"""Checkpoints of tensors on a GPU, and checkpoints loaded to one."""

import io
import pickle
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DeviceError

KINDS = pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "old"])


def saved(value: Any, is_zip: bool = True) -> io.BytesIO:
    """A file with a value."""
    file = io.BytesIO()
    dj.save(value, file, _use_new_zipfile_serialization=is_zip)
    file.seek(0)
    return file


def on_gpu() -> Any:
    """Two tensors that share memory, one of them transposed and with an offset, and others."""
    whole = dj.arange(12.0, device="cuda").reshape(3, 4)
    return {
        "whole": whole, "part": whole.T[1:], "number": dj.tensor(7, device="cuda"),
        "bits": dj.tensor([True, False], device="cuda"), "none": dj.empty(0, 3, device="cuda"),
        "half": dj.tensor([1.5, 2.5], dtype=dj.bfloat16, device="cuda"), "host": dj.ones(2),
    }  # fmt: skip


def values_of(state: Any) -> Any:
    """The elements, and where each tensor lies."""
    return {name: tensor.cpu().float().tolist() for name, tensor in state.items()}


@KINDS
def test_tensors_come_back_to_the_device_where_they_were(is_zip: bool) -> None:
    """With their layouts, and sharing memory as before."""
    state = on_gpu()
    found = dj.load(saved(state, is_zip))

    assert values_of(state) == values_of(found)
    assert [x.device for x in state.values()] == [x.device for x in found.values()]
    assert [x.dtype for x in state.values()] == [x.dtype for x in found.values()]
    assert [x.stride() for x in state.values()] == [x.stride() for x in found.values()]
    found["whole"][0, 1] = -1
    assert -1 == found["part"][0, 0]
    assert 1 == found["part"].storage_offset()


@KINDS
@pytest.mark.parametrize(
    "place",
    ["cpu", {"cuda:0": "cpu"}, lambda storage, location: storage],
    ids=["name", "dict", "function"],
)
def test_tensors_of_a_gpu_load_to_the_cpu(is_zip: bool, place: Any) -> None:
    """By a name, a dict or a function of storage and location."""
    state = on_gpu()
    found = dj.load(saved(state, is_zip), map_location=place)

    assert values_of(state) == values_of(found)
    assert {"cpu"} == {x.device.type for x in found.values()}
    found["whole"][0, 1] = -1
    assert -1 == found["part"][0, 0]


@KINDS
@pytest.mark.parametrize(
    "place",
    ["cuda", {"cpu": "cuda:0"}, lambda storage, location: storage.cuda(0)],
    ids=["name", "dict", "function"],
)
def test_tensors_of_the_cpu_load_to_a_gpu(is_zip: bool, place: Any) -> None:
    """By a name, a dict or a function of storage and location."""
    state = {name: tensor.cpu() for name, tensor in on_gpu().items()}
    found = dj.load(saved(state, is_zip), map_location=place)

    assert values_of(state) == values_of(found)
    assert {"cuda"} == {x.device.type for x in found.values()}


def test_locations_of_the_file_are_shown_to_functions() -> None:
    """As `cuda:0`."""
    seen = []
    dj.load(saved(on_gpu()), map_location=lambda storage, location: seen.append(location))
    assert {"cpu", "cuda:0"} == set(seen)


def test_devices_that_are_not_there_are_refused() -> None:
    """By load, with the way out."""
    with pytest.raises(DeviceError, match="no such device"):
        dj.load(saved(on_gpu()), map_location="cuda:77")
    with pytest.raises(DeviceError, match="no such device"):
        dj.load(saved(on_gpu()), map_location={"cuda:0": "cuda:77"})


def test_pytorch_reads_them() -> None:
    """With `map_location="cpu"`, where PyTorch has no GPU."""
    torch = pytest.importorskip("torch")
    state = on_gpu()
    for is_zip in (True, False):
        found = torch.load(saved(state, is_zip), map_location="cpu", weights_only=True)
        assert values_of(state) == {name: x.float().tolist() for name, x in found.items()}


def test_safetensors_load_to_a_gpu() -> None:
    """Where the library is installed."""
    library = pytest.importorskip("safetensors.numpy")
    data = library.save({"a": np.array([1, 2], np.float32)})
    found = dj.load(io.BytesIO(data), map_location="cuda")

    assert ("cuda", [1.0, 2.0]) == (found["a"].device.type, found["a"].tolist())


def test_pickled_tensors_come_back_to_their_device() -> None:
    """By Python's pickle, parameters and modules, too."""
    layer = dj.nn.Linear(2, 3, device="cuda")
    again = pickle.loads(pickle.dumps(layer))

    assert ["cuda", "cuda"] == [p.device.type for p in again.parameters()]
    assert layer.weight.tolist() == again.weight.tolist()


def test_states_of_modules_and_optimizers_move_with_their_files() -> None:
    """A run that began on a GPU goes on on the CPU, and back, with the same numbers."""
    x = dj.arange(6.0).reshape(3, 2)

    def trained(place: str, state: Any = None) -> Any:
        model = dj.nn.Linear(2, 1, device=place)
        optimizer = dj.optim.Adam(model.parameters(), lr=0.1)
        if state is None:
            with dj.no_grad():
                for p in model.parameters():
                    p.fill_(0.25)
        else:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        for _ in range(3):
            optimizer.zero_grad()
            model(x.to(place)).square().mean().backward()
            optimizer.step()
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    first = trained("cuda")
    moved = trained("cpu", dj.load(saved(first), map_location="cpu"))
    stayed = trained("cuda", dj.load(saved(first)))
    unmapped = trained("cpu", dj.load(saved(first)))
    for other in (moved, unmapped):
        for name, tensor in stayed["model"].items():
            assert "cpu" == other["model"][name].device.type
            np.testing.assert_allclose(tensor.cpu(), other["model"][name], rtol=1e-5)
