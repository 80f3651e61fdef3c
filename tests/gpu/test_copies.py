"""Copies between host and GPU: pinned memory, copies beside the program, loaders, libraries."""

import os
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import DeviceError
from dynajit.utils.data.pinning import pin_memory

Pair = namedtuple("Pair", "left right")


def test_pinned_tensors_hold_the_same_elements() -> None:
    """In memory of their own; pinned ones are themselves."""
    x = dj.arange(6.0).reshape(2, 3).T
    pinned = x.pin_memory()

    assert not x.is_pinned()
    assert pinned.is_pinned()
    assert pinned[1:].is_pinned()
    assert pinned.pin_memory() is pinned
    assert x.tolist() == pinned.tolist()
    assert dj.empty(3, pin_memory=True).is_pinned()
    assert not dj.empty(3, pin_memory=False).is_pinned()
    assert dj.empty(0, 2).pin_memory().shape == (0, 2)
    with pytest.raises(DeviceError, match="only dense CPU tensors can be pinned"):
        x.cuda().pin_memory()


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("non_blocking", [False, True])
def test_copies_beside_the_program_arrive(pinned: bool, non_blocking: bool) -> None:
    """In order with what the stream does next, though the source is dropped at once."""
    totals = []
    for value in range(5):
        source = dj.full((1000,), float(value))
        source = source.pin_memory() if pinned else source
        moved = source.to("cuda", non_blocking=non_blocking)
        del source
        totals.append(moved.sum())

    assert [1000.0 * value for value in range(5)] == [total.item() for total in totals]


def test_copies_to_the_host_beside_the_program_end_in_pinned_memory() -> None:
    """They may be read after a synchronization."""
    x = dj.arange(1000.0, device="cuda")
    back = x.to("cpu", non_blocking=True)
    dj.cuda.synchronize()

    assert back.is_pinned()
    assert x.cpu().tolist() == back.tolist()


def test_copies_overlap_on_streams() -> None:
    """A tensor that another stream uses lives until that stream is done."""
    side = dj.cuda.Stream()
    x = dj.ones(1000, device="cuda")
    side.wait_stream(dj.cuda.current_stream())
    with dj.cuda.stream(side):
        y = x * 2
    x.record_stream(side)
    del x
    z = dj.zeros(1000, device="cuda")
    dj.cuda.current_stream().wait_stream(side)

    assert (2000, 0) == (y.sum().item(), z.sum().item())
    with pytest.raises(DeviceError, match="on the CPU"):
        dj.ones(1).record_stream(side)


class Squares(dj.utils.data.Dataset):
    """Samples of several kinds."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return dj.full((self.size,), float(index)), {"number": index, "name": f"n{index}"}


@pytest.mark.parametrize("size", [3, 4000])
@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_pin_their_batches(workers: int, size: int) -> None:
    """Wherever tensors are in them; workers themselves use no GPU."""
    loader = dj.utils.data.DataLoader(
        Squares(size), batch_size=2, num_workers=workers, pin_memory=True
    )
    seen = []
    for x, others in loader:
        assert x.is_pinned()
        assert others["number"].is_pinned()
        seen.append(x.to("cuda", non_blocking=True).sum(dim=1).tolist())
        assert isinstance(others["name"][0], str)

    assert [[0.0, size], [2.0 * size, 3.0 * size], [4.0 * size, 5.0 * size]] == seen
    assert not next(iter(dj.utils.data.DataLoader(Squares(2), batch_size=2)))[0].is_pinned()


def test_nests_are_pinned() -> None:
    """As PyTorch does: tuples become lists, other objects are asked."""

    class Own:
        def pin_memory(self) -> str:
            return "pinned"

    x = dj.ones(2)
    found = pin_memory({"a": (x, [x]), "b": Pair(x, "text"), "c": Own(), "d": 3})

    assert isinstance(found["a"], list)
    assert all(t.is_pinned() for t in (found["a"][0], found["a"][1][0], found["b"].left))
    assert ("text", "pinned", 3) == (found["b"].right, found["c"], found["d"])
    packed = dj.nn.utils.rnn.pack_sequence([dj.ones(3), dj.ones(2)])
    assert packed.pin_memory().is_pinned()
    assert packed.cuda().is_cuda


# -- other libraries -----------------------------------------------------------------------------


def test_arrays_of_cupy_are_tensors_without_a_copy() -> None:
    """Both ways: writes are seen on the other side."""
    cupy = gpu.module()
    array = cupy.arange(6, dtype=cupy.float32).reshape(2, 3)
    for take in (dj.as_tensor, dj.from_dlpack, dj.asarray, dj.utils.dlpack.from_dlpack):
        x = take(array)
        assert ("cuda", (2, 3), (3, 1)) == (x.device.type, tuple(x.shape), x.stride())
        x[0, 0] += 1
    assert 4 == array[0, 0].item()
    assert x.data_ptr() == array.data.ptr
    back = cupy.from_dlpack(x)
    assert back.data.ptr == x.data_ptr()
    assert cupy.asarray(x).data.ptr == x.data_ptr()
    copied = dj.tensor(array)
    copied.zero_()
    assert 4 == array[0, 0].item()


def test_tensors_tell_other_libraries_where_they_are() -> None:
    """`__cuda_array_interface__` and DLPack, strides and all."""
    x = dj.arange(6.0, device="cuda").reshape(2, 3).T
    told = x.__cuda_array_interface__

    assert ((3, 2), "<f4", (4, 12)) == (told["shape"], told["typestr"], told["strides"])
    assert (x.data_ptr(), False) == told["data"]
    assert (2, 0) == x.__dlpack_device__()
    assert dj.from_dlpack(x).data_ptr() == x.data_ptr()
    with pytest.raises(AttributeError, match="__cuda_array_interface__"):
        _ = x.cpu().__cuda_array_interface__
    with pytest.raises(RuntimeError, match="requires grad"):
        _ = x.clone().requires_grad_().__cuda_array_interface__


def test_numpy_gets_copies_only_where_it_is_asked_for() -> None:
    """By `.cpu()`, or `force=True`."""
    x = dj.ones(2, device="cuda")
    with pytest.raises(TypeError, match="cpu"):
        np.asarray(x)
    np.testing.assert_array_equal([1, 1], x.numpy(force=True))
    np.testing.assert_array_equal([1, 1], x.cpu().numpy())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forks_of_a_process_with_a_gpu_have_none() -> None:
    """With PyTorch's words; CUDA would fail in them in worse ways."""
    dj.ones(1, device="cuda")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            dj.ones(1, device="cuda")
        except BaseException as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)

    assert "Cannot re-initialize CUDA in forked subprocess" in text
    assert dj.cuda.is_available()
