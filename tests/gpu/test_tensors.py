"""Tensors on a GPU: made, moved, computed with, and what is refused, against the CPU's results."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, DeviceError


def test_a_tensor_is_made_on_the_current_device() -> None:
    x = dj.tensor([1.0, 2.0], device="cuda")

    assert dj.device("cuda", 0) is x.device
    assert x.is_cuda
    assert [1.0, 2.0] == x.tolist()


def test_a_device_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(DeviceError, match=r"cuda:99.*no such device.*cuda:0"):
        dj.zeros(2, device="cuda:99")


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "complex64"])
def test_elements_go_to_the_gpu_and_come_back(dtype: str) -> None:
    x = dj.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(dj, dtype))
    there = x.cuda()

    assert (x.dtype, x.shape) == (there.dtype, there.shape)
    assert dj.equal(x, there.cpu())


@pytest.mark.parametrize("layout", ["transposed", "strided", "reversed rows", "zero-dim", "empty"])
def test_dense_layouts_are_kept_and_others_become_row_major(layout: str) -> None:
    base = dj.arange(12.0).reshape(3, 4)
    x = {
        "transposed": base.t(),
        "strided": base[:, ::2],
        "reversed rows": base.flip(0),
        "zero-dim": base[1, 2],
        "empty": base[:0],
    }[layout]
    there = x.to("cuda")

    assert dj.equal(x, there.cpu())
    if x.is_contiguous() or layout == "transposed":
        assert x.stride() == there.stride()
    else:
        assert there.is_contiguous()


def test_numpy_is_refused_as_by_pytorch() -> None:
    x = dj.ones(2, device="cuda")
    with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy\. Use"):
        x.numpy()
    with pytest.raises(ArgumentError, match=r"Use Tensor\.cpu"):
        np.asarray(x)

    assert [1.0, 1.0] == x.numpy(force=True).tolist()


def test_tensors_of_two_devices_are_refused_with_both_and_the_call() -> None:
    x, y = dj.ones(3, device="cuda"), dj.ones(3)
    with pytest.raises(
        RuntimeError,
        match=r"add\(x: float32\[3\]@cuda:0, y: float32\[3\]\): Expected all tensors to be on the "
        "same device, but found at least two devices, cuda:0 and cpu!",
    ):
        x + y


def test_numbers_and_zero_dim_tensors_of_the_cpu_go_along() -> None:
    x = dj.tensor([1.0, 2.0], device="cuda")

    assert [3.0, 5.0] == (x * 2 + dj.tensor(1)).tolist()
    assert dj.float32 is (x + dj.tensor(1.0, dtype=dj.float64)).dtype
    assert x.device is (dj.tensor(3.0) / x).device


def test_gradients_come_back_to_where_the_tensor_was() -> None:
    x = dj.tensor([1.0, 2.0], requires_grad=True)
    (x.cuda().exp() * 2).sum().backward()
    expected = (2 * x.detach().exp()).tolist()

    assert x.grad is not None
    assert "cpu" == x.grad.device.type
    assert expected == pytest.approx(x.grad.tolist())


def test_views_share_memory_and_versions_on_a_gpu() -> None:
    x = dj.zeros(2, 3, device="cuda")
    row = x[1]
    row += 1

    assert x.data_ptr() + 12 == row.data_ptr()
    assert [[0.0] * 3, [1.0] * 3] == x.tolist()
    assert x._version == row._version == 1


def test_a_printed_tensor_says_where_it_lives() -> None:
    assert "tensor([1., 2.], device='cuda:0')" == repr(dj.tensor([1.0, 2.0], device="cuda"))
