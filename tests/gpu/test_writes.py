"""Writes in place, views, keys and reshaping on a GPU, against the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

Program = Callable[[Any], Any]


def base(device: str, dtype: Any = dj.float32) -> Any:
    """Numbers from -4 to 7, (3, 4)."""
    return dj.arange(-4.0, 8.0, device=device).reshape(3, 4).to(dtype).clone()


def index(x: Any, *numbers: int) -> Any:
    """Positions on the device of x."""
    return dj.tensor(numbers, device=x.device)


WRITES: dict[str, Program] = {
    "add_": lambda x: x.add_(1),
    "mul_": lambda x: x.mul_(x),
    "sub_ alpha": lambda x: x.sub_(x, alpha=2),
    "div_": lambda x: x.div_(4),
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(3),
    "copy_": lambda x: x.copy_(x + 1),
    "clamp_": lambda x: x.clamp_(-1, 2),
    "relu_": lambda x: x.relu_(),
    "neg_": lambda x: x.neg_(),
    "exp_": lambda x: x.exp_(),
    "lerp_": lambda x: x.lerp_(x + 1, 0.5),
    "addcmul_": lambda x: x.addcmul_(x, x, value=2),
    "pow_": lambda x: x.pow_(2),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, -1),
    "tril_": lambda x: x.tril_(),
    "index_add_": lambda x: x.index_add_(0, index(x, 0, 0, 2), x.clone()),
    "index_fill_": lambda x: x.index_fill_(1, index(x, 1, 3), 9),
    "index_copy_": lambda x: x.index_copy_(0, index(x, 2, 1), x[:2].clone()),
    "scatter_": lambda x: x.scatter_(1, index(x, 0, 1, 2).unsqueeze(1), 5.0),
    "scatter_add_": lambda x: x.scatter_add_(0, index(x, 0, 1, 0, 1).unsqueeze(0), x[:1].clone()),
    "+=": lambda x: x.__iadd__(1),
    "*=": lambda x: x.__imul__(2),
    "@": lambda x: x.addmm_(x[:, :3], x),
    "view": lambda x: x[1:, ::2].add_(10),
    "column": lambda x: x[:, 1].mul_(0),
    "transposed": lambda x: x.T.add_(dj.arange(3.0, device=x.device)),
    "diagonal": lambda x: x.diagonal().fill_(7),
    "narrow": lambda x: x.narrow(1, 1, 2).zero_(),
    "unfold": lambda x: x.view(-1).unfold(0, 3, 3)[1].fill_(2),
    "row =": lambda x: x.__setitem__(1, 5),
    "slice =": lambda x: x.__setitem__((slice(1, 3), 2), -1),
    "list =": lambda x: x.__setitem__([0, 2], x[1].clone()),
    "index =": lambda x: x.__setitem__(index(x, 2, 0), x[:2].clone()),
    "pairs =": lambda x: x.__setitem__((index(x, 0, 2), index(x, 1, 3)), 8),
    "mask =": lambda x: x.__setitem__(x > 2, 0),
    "mask = many": lambda x: x.__setitem__(x > 6, index(x, 1).float()),
    "ellipsis =": lambda x: x.__setitem__((..., 0), index(x, 1, 2, 3).float()),
    "host =": lambda x: x.__setitem__(0, dj.tensor(3.0)),
    "numpy =": lambda x: x.__setitem__(1, np.ones(4, np.float32)),
    "index_put_": lambda x: x.index_put_((index(x, 0, 0, 1),), x.clone(), accumulate=True),
    "put_": lambda x: x.put_(index(x, 3, 5), index(x, 1, 2).float()),
    "masked_scatter_": lambda x: x.masked_scatter_(x > 0, x.clone()),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "t_": lambda x: x.t_(),
    "squeeze_": lambda x: x.unsqueeze_(0).squeeze_(),
    "resize_ less": lambda x: x.resize_(2, 2),
    "resize_ same": lambda x: x.resize_(4, 3),
    "data =": lambda x: setattr(x, "data", x.data * 2),
    "set_": lambda x: x.set_(x[1:].clone()),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_change_what_they_change_on_the_cpu(name: str) -> None:
    """The tensor, its views, and how often it was written to."""
    found = []
    for device in ("cpu", "cuda"):
        x = base(device)
        part = x[1]
        try:
            WRITES[name](x)
        except AttributeError:
            pytest.skip("no such method")
        found.append((x.cpu(), part.cpu(), x._version, x.device.type == device, x.shape))
    (a, b, *rest), (c, d, *others) = found
    np.testing.assert_allclose(a, c, rtol=1e-6)
    np.testing.assert_allclose(b, d, rtol=1e-6)
    assert rest == others


# Of NumPy's windows the memory is not known, and others forget the history.
UNLIKE = ("set_", "data =", "unfold")


@pytest.mark.parametrize("name", [name for name in WRITES if name not in UNLIKE])
def test_writes_have_the_gradients_of_the_cpu(name: str) -> None:
    """Through the new history of the tensor, and that of its views."""
    found = []
    for device in ("cpu", "cuda"):
        leaf = base(device).requires_grad_()
        x = leaf * 1.5
        try:
            WRITES[name](x)
            (x * dj.arange(1.0, x.numel() + 1, device=device).view_as(x)).sum().backward()
        except (AttributeError, RuntimeError) as error:
            found.append(str(error).replace("@cuda:0", "").replace("cuda:0", "cpu"))
            continue
        found.append(leaf.grad.cpu().tolist())
    if isinstance(found[0], list):
        np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    else:
        assert found[0] == found[1]


READS: dict[str, Program] = {
    "row": lambda x: x[1],
    "negative": lambda x: x[-1, -2],
    "step": lambda x: x[::2, 1:],
    "none": lambda x: x[:, None, 1],
    "list": lambda x: x[[2, 0, 0]],
    "index": lambda x: x[index(x, 1, -1)],
    "host index": lambda x: x[dj.tensor([1, 2])],
    "numpy index": lambda x: x[np.array([0, 2])],
    "pairs": lambda x: x[index(x, 0, 1), index(x, 3, 2)],
    "mask": lambda x: x[x > 0],
    "row mask": lambda x: x[index(x, 1, 0, 1).bool()],
    "mixed": lambda x: x[1:, index(x, 0, 2)],
    "zero-dim": lambda x: x[dj.tensor(1, device=x.device)],
    "take": lambda x: x.take(index(x, 1, 5)),
    "nonzero": lambda x: (x > 0).nonzero(),
    "masked_select": lambda x: x.masked_select(x > 2),
    "unbind": lambda x: x.unbind(0)[1],
    "split": lambda x: x.split(2, 1)[1],
    "flip": lambda x: x.flip(0),
    "iterate": lambda x: list(x)[2],
    "tolist": lambda x: dj.tensor(x.tolist()),
    "sort": lambda x: x.sort(1, descending=True).values,
    "topk": lambda x: x.topk(2).indices,
    "unique": lambda x: (x // 2).unique(),
    "searchsorted": lambda x: dj.searchsorted(x, x),
    "bincount": lambda x: (x + 4).long().flatten().bincount(),
    "where": lambda x: dj.where(x > 0, x, 0),
    "cat": lambda x: dj.cat([x, x], 1),
    "stack": lambda x: dj.stack([x, x]),
    "roll": lambda x: x.roll(1, 0),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 3), 1),
    "view": lambda x: x.view(dj.int32),
    "expand": lambda x: x[:, :1].expand(3, 5),
    "repeat": lambda x: x.repeat(2, 1),
    "contiguous": lambda x: x.T.contiguous(),
    "channels": lambda x: x.view(1, 3, 2, 2).to(memory_format=dj.channels_last),
}


@pytest.mark.parametrize("name", READS)
def test_parts_are_those_of_the_cpu(name: str) -> None:
    """Elements, dtype and strides; on the device of the tensor."""
    here, there = (READS[name](base(device)) for device in ("cpu", "cuda"))

    np.testing.assert_array_equal(here, there.cpu())
    assert here.dtype is there.dtype
    steps = [
        [step for step, size in zip(x.stride(), x.shape, strict=True) if size > 1]
        for x in (here, there)
    ]
    assert steps[0] == steps[1]


@pytest.mark.parametrize(
    "read", [lambda x: x[3], lambda x: x[index(x, 0, 3)], lambda x: x[index(x, -4)],
             lambda x: x[[5]], lambda x: x[0, 4], lambda x: x.index_select(0, index(x, 7)),
             lambda x: x.gather(0, index(x, 9).unsqueeze(0)),
             lambda x: x.scatter(0, index(x, 3).unsqueeze(0), 1.0),
             lambda x: x.__setitem__(index(x, 3), 0), lambda x: x.index_add(0, index(x, 3), x[:1]),
             lambda x: dj.nn.functional.embedding(index(x, 3), x)],
)  # fmt: skip
def test_keys_out_of_range_are_refused_as_on_the_cpu(read: Program) -> None:
    """With the same error; a GPU alone would read another element."""
    errors = []
    for device in ("cpu", "cuda"):
        with pytest.raises((IndexError, RuntimeError)) as caught:
            read(base(device))
        errors.append(type(caught.value))
    assert issubclass(errors[1], errors[0])


def test_numbers_leave_the_gpu_one_by_one() -> None:
    """By `item`, `int`, `bool`, `float`, loops and formats."""
    x = dj.tensor([1.5, -2.0], device="cuda")
    one = x[0]

    assert (1.5, 1, True, "1.5") == (one.item(), int(one), bool(one), f"{one:.1f}")
    assert [1.5, -2.0] == [float(value) for value in x]
    assert "tensor([ 1.5000, -2.0000], device='cuda:0')" == repr(x)
    assert 2 == len(x)
    assert [10, 20][dj.tensor(1, device="cuda")] == 20
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted"):
        x.item()


def test_other_devices_keep_their_writes(second_device: str) -> None:
    """Whichever is current; large ones, too."""
    x = dj.zeros(1 << 15, device=second_device)
    x.add_(2.0).mul_(x).sub_(1, alpha=2)
    x[3:5] = 7
    x.requires_grad_()
    (x * x).sum().backward()

    assert (second_device, 2.0, 7.0) == (str(x.device), x[0].item(), x[4].item())
    assert second_device == str(x.grad.device)
    moved = x.detach().to("cuda:0")
    assert ("cuda:0", 7.0) == (str(moved.device), moved[3].item())
    assert dj.equal(moved.to(second_device), x)
    zero_dim = dj.tensor(3.0, device="cuda:0").to(second_device)
    assert ((), 3.0) == (tuple(zero_dim.shape), zero_dim.item())


def test_resized_tensors_grow_alone() -> None:
    """And are refused where others would see it."""
    x = dj.ones(2, device="cuda")
    x.resize_(5)
    assert ([1.0, 1.0], 5) == (x[:2].tolist(), x.numel())
    y = dj.ones(4, device="cuda")
    view = y[:2]
    with pytest.raises(NotImplementedError, match="resize_"):
        y.resize_(9)
    del view


CONJUGATES: dict[str, Program] = {
    "add_": lambda x: x.conj().add_(1j),
    "imag": lambda x: x.conj().imag.mul_(2),
    "transposed": lambda x: x.mH[0].zero_(),
    "negated": lambda x: x._neg_view().copy_(x * 2),
    "item": lambda x: x.conj().__setitem__(0, 3j),
    "entries": lambda x: x.conj().__setitem__(index(x, 0, 2), 3j),
    "out": lambda x: dj.add(x, 1j, out=x.conj()),
}


@pytest.mark.parametrize("name", CONJUGATES)
def test_writes_through_conjugate_views_reach_the_memory(name: str) -> None:
    def written(device: str) -> Any:
        x = base(device, dj.complex64) * (1 + 2j)
        view = x.conj()
        CONJUGATES[name](x)
        assert dj.equal(view, x.conj_physical())
        assert view.data_ptr() == x.data_ptr()
        return x.cpu().numpy()

    np.testing.assert_array_equal(written("cpu"), written("cuda"))
