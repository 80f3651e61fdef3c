"""Strides, offsets and views."""

import io
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ShapeError
from dynajit.core.types import dtypes
from dynajit.eager.files.serialization import load, save
from dynajit.eager.tensor.creation import from_numpy, tensor


def test_strides_and_offsets_count_elements() -> None:
    x = tensor(np.arange(12).reshape(3, 4))
    y = x[1:, ::2]

    assert ((4, 1), (4, 2), 2, 0, 4) == (
        x.stride(),
        y.stride(),
        y.stride(1),
        x.storage_offset(),
        y.storage_offset(),
    )


def test_layout_agrees_with_pytorch() -> None:
    torch = pytest.importorskip("torch")
    values = np.arange(24).reshape(2, 3, 4)
    programs = (
        lambda x: x,
        lambda x: x[1],
        lambda x: x[:, 1:, ::2],
        lambda x: x.permute(2, 0, 1),
        lambda x: x.transpose(0, 2)[1],
        lambda x: x.expand(5, 2, 3, 4),
        lambda x: x.reshape(6, 4),
        lambda x: x.permute(1, 0, 2).reshape(3, 8),
        lambda x: x[:, None, 2],
    )
    for program in programs:
        ours, theirs = program(tensor(values)), program(torch.tensor(values))
        # the stride of a dimension of size 1 means nothing
        pairs = zip(theirs.stride(), ours.stride(), ours.shape, strict=True)
        assert [] == [(a, b) for a, b, size in pairs if size > 1 and a != b]
        assert theirs.storage_offset() == ours.storage_offset()
        assert theirs.is_contiguous() == ours.is_contiguous()


def test_views_share_storage() -> None:
    x = tensor(np.arange(6.0).reshape(2, 3))
    for view in (x[0], x.view(3, 2), x.T, x.expand(2, 2, 3), x.unsqueeze(0), x.reshape(-1)):
        assert view.untyped_storage() == x.untyped_storage()
        assert view._storage is x._storage
        assert view._base is x


def test_a_copy_has_its_own_storage() -> None:
    x = tensor(np.arange(6.0).reshape(2, 3))
    for copied in (x.clone(), x.T.reshape(-1), x.T.contiguous(), x * 1.0, x.flip(0)):
        assert copied._storage is not x._storage
        assert copied._base is None


def test_view_refuses_strides_that_do_not_fit() -> None:
    x = tensor(np.arange(6.0).reshape(2, 3), requires_grad=True).T
    with pytest.raises(ShapeError, match=r"Use .reshape\(...\) instead"):
        x.view(6)
    with pytest.raises(ShapeError, match=r"Use .reshape\(...\) instead"):
        x.view(-1)

    assert [0.0, 3.0, 1.0, 4.0, 2.0, 5.0] == x.reshape(-1).tolist()


def test_view_accepts_strides_that_fit() -> None:
    x = tensor(np.arange(24).reshape(2, 3, 4))[:, :, :2]

    assert ((2, 3, 2, 1), True) == (
        x.view(2, 3, 2, 1).shape,
        x.view(2, 3, 2, 1).data_ptr() == x.data_ptr(),
    )


def test_view_of_an_empty_tensor() -> None:
    assert (0, 5) == tensor(np.zeros((5, 0))).view(0, 5).shape


def test_view_refuses_wrong_sizes() -> None:
    with pytest.raises(ShapeError, match="invalid for input of size 6"):
        tensor(np.arange(6)).view(4)


def test_view_as_another_dtype_shares_the_bits() -> None:
    x = tensor([1.0])

    assert 0x3F800000 == x.view(dtypes.int32).item()
    with pytest.raises(ShapeError, match="multiples of 2"):
        x.view(dtypes.float64)


def test_contiguous_returns_itself_or_a_copy() -> None:
    x = tensor(np.arange(6).reshape(2, 3))

    assert (True, False, True) == (
        x.contiguous() is x,
        x.T.is_contiguous(),
        x.T.contiguous().is_contiguous(),
    )


def test_bytes() -> None:
    x = from_numpy(np.zeros((2, 3), np.float32))

    assert (4, 24, 24) == (x.itemsize, x.nbytes, x.untyped_storage().nbytes())


def test_strided_views_read_the_elements_whatever_made_the_memory() -> None:
    """Of loaded tensors, whose memory is bytes, and of bits read as another dtype."""
    file = io.BytesIO()
    save(tensor(np.arange(6, dtype=np.float32)), file)
    file.seek(0)
    loaded = load(file)
    part = loaded.as_strided((2, 2), (1, 2), 1)
    bits = tensor([1.0, -1.0], dtype=dtypes.float32).view(dtypes.int32).as_strided((1,), (1,), 1)

    assert (dtypes.float32, [[1.0, 3.0], [2.0, 4.0]]) == (part.dtype, part.tolist())
    assert (1, (1, 2)) == (part.storage_offset(), part.stride())
    assert (dtypes.int32, [-0x40800000]) == (bits.dtype, bits.tolist())
    part[0, 0] = 9
    assert 9 == loaded[1]


def test_storages_know_their_device() -> None:
    """And stay themselves where they go to it."""
    storage = tensor([1.0, 2.0]).untyped_storage()

    assert ("cpu", False) == (storage.device.type, storage.is_cuda)
    assert storage.cpu() is storage
    assert storage.to("cpu") is storage


ROW_MAJOR = {
    "softmax": lambda t, x: x.softmax(1),
    "log_softmax": lambda t, x: x.log_softmax(-1),
    "half": lambda t, x: x.to(t.float16).softmax(-1),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (x.shape[-1],)),
    "rms_norm": lambda t, x: t.nn.functional.rms_norm(x, (x.shape[-1],)),
    "cat": lambda t, x: t.cat([x, x * 2], 1),
    "stack": lambda t, x: t.stack([x, x + 1], 1),
    "roll": lambda t, x: x.roll(1, 1),
    "scatter": lambda t, x: x.scatter(0, t.zeros(1, 1, 1, 1, dtype=t.int64), x[:1, :1, :1, :1]),
}


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (1, 0, 2, 3), (0, 2, 1, 3), (3, 2, 1, 0)])
@pytest.mark.parametrize("name", ROW_MAJOR)
def test_results_lie_row_by_row_where_pytorchs_do(name: str, order: tuple[int, ...]) -> None:
    """So that `view` of them works; also in compiled functions, without a break."""
    torch = pytest.importorskip("torch")
    run = ROW_MAJOR[name]

    def viewed(t: Any, x: Any) -> Any:
        return run(t, x.permute(order)).view(-1, 2) * 2

    values = np.cos(np.arange(4 * 2 * 6 * 8, dtype=np.float32)).reshape(4, 2, 6, 8)
    expected = viewed(torch, torch.tensor(values))
    actual = viewed(dj, tensor(values))
    compiled = dj.compile(lambda x: viewed(dj, x), fullgraph=True)(tensor(values))
    recorded = viewed(dj, tensor(values).requires_grad_())
    for result in (actual, compiled, recorded):
        np.testing.assert_allclose(
            result.detach().float().numpy(), expected.detach().float().numpy(), rtol=2e-3, atol=1e-6
        )


def test_channels_that_are_last_stay_so_when_joined() -> None:
    """As in PyTorch."""
    torch = pytest.importorskip("torch")
    for library in (dj, torch):
        x = library.ones(2, 3, 4, 5).to(memory_format=library.channels_last)
        assert (120, 1, 30, 6) == tuple(library.cat([x, x], 1).stride())
