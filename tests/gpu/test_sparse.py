"""Sparse tensors on a GPU: the two tensors they are made of lie there."""

import io
from typing import Any

import numpy as np

import dynajit as dj


def made(device: str, tracked: bool = False) -> tuple[Any, Any]:
    """A sparse tensor with a position that is there twice, and its values."""
    where = dj.tensor([[0, 1, 1, 0], [2, 0, 2, 2]], device=device)
    values = dj.tensor([3.0, 4.0, 5.0, 6.0], device=device, requires_grad=tracked)
    return dj.sparse_coo_tensor(where, values, (2, 3)), values


def test_tensors_move_to_the_gpu_and_back() -> None:
    x = made("cpu")[0]
    there = x.to("cuda")

    assert there.is_cuda
    assert "cuda" == there.device.type == there._indices().device.type
    assert "torch.cuda.sparse.FloatTensor" == there.type()
    assert "device='cuda:0', size=(2, 3), nnz=4" in str(there)
    assert there.cuda() is there
    assert x.to_dense().tolist() == there.cpu().to_dense().tolist()
    file = io.BytesIO()
    dj.save(there, file)
    file.seek(0)
    assert "cuda" == dj.load(file).device.type


def test_operations_give_what_they_give_on_the_cpu() -> None:
    for run in (
        lambda x, d: x.coalesce(), lambda x, d: x.to_dense(), lambda x, d: x @ d,
        lambda x, d: (x @ x.t()).to_dense(), lambda x, d: dj.sparse.sum(x, 0), lambda x, d: x + x,
        lambda x, d: x * d.t()[:2], lambda x, d: x * x, lambda x, d: d.t()[:2] + x,
        lambda x, d: dj.sparse.softmax(x, 1), lambda x, d: d.to_sparse(), lambda x, d: x.half() / 2,
    ):  # fmt: skip
        dense = dj.arange(12.0).reshape(3, 4)[:, :3].contiguous()
        here = run(made("cpu")[0], dense)
        there = run(made("cuda")[0], dense.to("cuda"))
        assert there.is_cuda
        np.testing.assert_allclose(there.cpu().to_dense(), here.to_dense(), rtol=1e-6)


def test_gradients_stay_on_the_gpu() -> None:
    found = []
    for device in ("cpu", "cuda"):
        adjacency, values = made(device, tracked=True)
        dense = dj.ones(3, 2, device=device, requires_grad=True)
        (adjacency @ dense).square().sum().backward()
        assert device == values.grad.device.type == dense.grad.device.type
        found.append((values.grad.tolist(), dense.grad.tolist()))
    assert found[0] == found[1]
