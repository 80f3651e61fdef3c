"""Tensors on the device `meta`: types of results are PyTorch's, and there are no elements."""

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import ArgumentError, DeviceError, ShapeError, UnsupportedError

torch = pytest.importorskip("torch")

LIBRARIES = [pytest.param(dj, id="dynajit"), pytest.param(torch, id="torch")]


def meta(t: Any, *shape: int, dtype: str = "float32") -> Any:
    return t.empty(shape, device="meta", dtype=getattr(t, dtype))


def indices(t: Any, *shape: int) -> Any:
    return meta(t, *shape, dtype="int64")


def images(t: Any) -> Any:
    return meta(t, 2, 3, 8, 8)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda t, x: x @ x.t(),
    "sum of a row": lambda t, x: x + x[0],
    "number": lambda t, x: x * 2,
    "integers": lambda t, x: x.int() / 2,
    "zero-dim of the CPU": lambda t, x: x + t.tensor(1.0),
    "turned": lambda t, x: x.t().exp(),
    "turned sum": lambda t, x: x.t() + x.t(),
    "compared": lambda t, x: x == x,
    "select": lambda t, x: x[0],
    "slice": lambda t, x: x[:, 1:],
    "steps": lambda t, x: x[:, ::2],
    "by tensor": lambda t, x: x[indices(t, 4)],
    "by tensor of the CPU": lambda t, x: x[t.tensor([0, 1, 1])],
    "view": lambda t, x: x.view(6),
    "reshape that copies": lambda t, x: x.t().reshape(6),
    "reshape of a part": lambda t, x: x[:, :2].reshape(2, 1, 2),
    "expand": lambda t, x: x[:, None].expand(2, 5, 3),
    "as_strided": lambda t, x: x.as_strided((2, 2), (1, 2)),
    "unfold": lambda t, x: x.unfold(1, 2, 1),
    "diagonal": lambda t, x: x.diagonal(),
    "empty": lambda t, x: x[:0].sum(0),
    "sum": lambda t, x: x.sum(),
    "mean over dims": lambda t, x: x.mean((0, 1), keepdim=True),
    "sum of bools": lambda t, x: (x > 0).sum(1),
    "std": lambda t, x: x.std(0),
    "argmax": lambda t, x: x.argmax(1),
    "cumsum": lambda t, x: x.cumsum(0),
    "topk": lambda t, x: list(x.topk(2)),
    "sort": lambda t, x: list(x.sort()),
    "where": lambda t, x: t.where(x > 0, x, 0.0),
    "cat": lambda t, x: t.cat([x, x], 1),
    "stack": lambda t, x: t.stack([x, x], 1),
    "split": lambda t, x: x.split(2, 1),
    "einsum": lambda t, x: t.einsum("ij,kj->ik", x, x),
    "gather": lambda t, x: x.gather(1, indices(t, 2, 1)),
    "scatter": lambda t, x: x.scatter(1, indices(t, 2, 1), 1.0),
    "masked_fill": lambda t, x: x.masked_fill(x > 0, 0),
    "repeat": lambda t, x: x.repeat(2, 2),
    "complex": lambda t, x: t.complex(x, x),
    "real parts": lambda t, x: t.view_as_real(t.complex(x, x)),
    "fft": lambda t, x: t.fft.rfft(x),
    "det": lambda t, x: t.linalg.det(meta(t, 3, 3)),
    "half": lambda t, x: x.half(),
    "to": lambda t, x: x.to(t.float64),
    "to another": lambda t, x: t.ones(2).to(x),
    "type_as": lambda t, x: t.ones(2, dtype=t.int32).type_as(x),
    "channels_last": lambda t, x: images(t).to(memory_format=t.channels_last),
    "contiguous": lambda t, x: x.t().contiguous(),
    "data": lambda t, x: x.data,
    "written": lambda t, x: x.clone().exp_().add_(x).mul_(2),
    "written by number": lambda t, x: x.clone().add_(t.tensor(1.0)),
    "copied into": lambda t, x: x.clone().copy_(t.ones(2, 3)),
    "filled": lambda t, x: x.clone().fill_(2).zero_().normal_(),
    "ones": lambda t, x: t.ones(2, dtype=t.int32, device="meta"),
    "tensor": lambda t, x: t.tensor([1.0, 2.0], device="meta"),
    "arange": lambda t, x: t.arange(3, device="meta"),
    "linspace": lambda t, x: t.linspace(0, 1, 5, device="meta"),
    "rand": lambda t, x: t.rand(2, device="meta"),
    "randint": lambda t, x: t.randint(0, 5, (2,), device="meta"),
    "randperm": lambda t, x: t.randperm(5, device="meta"),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "ones_like on meta": lambda t, x: t.ones_like(t.ones(2), device="meta"),
    "ones_like on the CPU": lambda t, x: t.ones_like(x, device="cpu"),
    "new_zeros": lambda t, x: x.new_zeros(2),
    "as_tensor": lambda t, x: t.as_tensor(x),
    "linear": lambda t, x: t.nn.Linear(3, 4, device="meta")(x),
    "conv": lambda t, x: t.nn.Conv2d(3, 4, 3, padding=1, device="meta")(images(t)),
    "batch_norm": lambda t, x: t.nn.BatchNorm2d(3, device="meta")(images(t)),
    "layer_norm": lambda t, x: t.nn.LayerNorm(3, device="meta")(x),
    "group_norm": lambda t, x: t.nn.GroupNorm(1, 3, device="meta")(images(t)),
    "embedding": lambda t, x: t.nn.Embedding(10, 4, device="meta")(indices(t, 2, 3)),
    "lstm": lambda t, x: t.nn.LSTM(3, 5, device="meta")(meta(t, 7, 2, 3))[0],
    "encoder": lambda t, x: t.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, device="meta")(
        meta(t, 2, 5, 4)
    ),
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(
        *[meta(t, 2, 2, 5, 4)] * 3, is_causal=True
    ),
    "max_pool": lambda t, x: t.nn.functional.max_pool2d(images(t), 2),
    "interpolate": lambda t, x: t.nn.functional.interpolate(images(t), scale_factor=2),
    "cross_entropy": lambda t, x: t.nn.functional.cross_entropy(x, indices(t, 2)),
    "dropout": lambda t, x: t.nn.functional.dropout(x),
    "trunc_normal_": lambda t, x: t.nn.init.trunc_normal_(meta(t, 2, 3)),
    "orthogonal_": lambda t, x: t.nn.init.orthogonal_(meta(t, 3, 3)),
}


def shown(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return [shown(item) for item in result]
    facts = (tuple(result.shape), str(result.dtype).rpartition(".")[2], str(result.device))
    return *facts, tuple(result.stride()), result.requires_grad, result.is_contiguous()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_type_that_they_have_with_pytorch(name: str) -> None:
    """Shape, dtype, device and strides."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert shown(FUNCTIONS[name](torch, meta(torch, 2, 3))) == shown(
            FUNCTIONS[name](dj, meta(dj, 2, 3))
        )


TEXTS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda t, x: x,
    "integers": lambda t, x: x.int(),
    "zero-dim": lambda t, x: x.sum(),
    "parameter": lambda t, x: t.nn.Parameter(x),
    "format": lambda t, x: f"{x.sum()}",
    "type": lambda t, x: x.type(),
    "numbers": lambda t, x: [x.get_device(), x.nbytes, x.data_ptr(), len(x), x.is_cuda, x.is_meta],
    "storage": lambda t, x: x[1:, 1:].untyped_storage().nbytes(),
    "offset": lambda t, x: x[1:, 1:].storage_offset(),
    "index": lambda t, x: t.empty(2, device="meta:0").device,
}


@pytest.mark.parametrize("name", TEXTS)
def test_they_are_shown_as_pytorch_shows_them(name: str) -> None:
    expected = str(TEXTS[name](torch, meta(torch, 2, 3)))
    assert expected == str(TEXTS[name](dj, meta(dj, 2, 3))).replace("dynajit", "torch")


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], type[Exception]]] = {
    "item": (lambda t, x: x.sum().item(), UnsupportedError),
    "item of many": (lambda t, x: x.item(), ShapeError),
    "bool": (lambda t, x: bool(x.sum()), UnsupportedError),
    "float": (lambda t, x: float(x.sum()), UnsupportedError),
    "tolist": (lambda t, x: x.tolist(), UnsupportedError),
    "numpy": (lambda t, x: x.numpy(), ArgumentError),
    "asarray": (lambda t, x: np.asarray(x), ArgumentError),
    "cpu": (lambda t, x: x.cpu(), UnsupportedError),
    "to": (lambda t, x: x.to("cpu"), UnsupportedError),
    "copied out": (lambda t, x: t.ones(2, 3).copy_(x), UnsupportedError),
    "nonzero": (lambda t, x: x.nonzero(), UnsupportedError),
    "by mask": (lambda t, x: x[x > 0], UnsupportedError),
    "unique": (lambda t, x: t.unique(x), UnsupportedError),
    "equal": (lambda t, x: t.equal(x, x), UnsupportedError),
    "allclose": (lambda t, x: t.allclose(x, x), UnsupportedError),
    "with the CPU": (lambda t, x: t.ones(2, 3) + x, DeviceError),
    "cat with the CPU": (lambda t, x: t.cat([x, t.ones(2, 3)]), DeviceError),
    "view of other strides": (lambda t, x: x.t().view(6), ShapeError),
    "shapes": (lambda t, x: x @ x, ShapeError),
    "layer to the CPU": (lambda t, x: t.nn.Linear(2, 2, device="meta").to("cpu"), UnsupportedError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_whoever_asks_for_elements_is_refused(name: str) -> None:
    """By an error that is PyTorch's, or derives from it."""
    call, error = REFUSED[name]
    with pytest.raises((RuntimeError, TypeError)) as theirs:
        call(torch, meta(torch, 2, 3))
    with pytest.raises(error) as ours:
        call(dj, meta(dj, 2, 3))
    assert isinstance(ours.value, (RuntimeError, ValueError, TypeError))
    if issubclass(theirs.type, NotImplementedError):
        assert isinstance(ours.value, NotImplementedError)


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_tensor_of_any_size_takes_no_memory(t: Any) -> None:
    layer = t.nn.Linear(1 << 20, 1 << 20, device="meta")
    assert layer.weight.numel() == 1 << 40
    assert layer(meta(t, 3, 1 << 20)).shape == (3, 1 << 20)


def network(t: Any) -> Any:
    return t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.ReLU(), t.nn.Linear(4, 1))


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_network_is_made_without_memory_and_filled_later(t: Any) -> None:
    """By `to_empty` and a state that is copied, or by one that is assigned."""
    source = network(t).eval()
    x = t.ones(5, 3)
    for is_assigned in (False, True):
        with t.device("meta"):
            made = network(t).eval()
        assert all(p.is_meta and p.requires_grad for p in made.parameters())
        assert type(made[0].weight) is t.nn.Parameter
        if not is_assigned:
            assert made.to_empty(device="cpu") is made
        made.load_state_dict(source.state_dict(), assign=is_assigned)
        assert all(p.device.type == "cpu" and p.requires_grad for p in made.parameters())
        np.testing.assert_array_equal(source(x).detach().numpy(), made(x).detach().numpy())
        made(x).sum().backward()
        assert made[0].weight.grad.shape == (4, 3)


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_state_is_not_copied_into_meta_parameters(t: Any) -> None:
    """A warning says so; one on meta is copied nowhere."""
    with t.device("meta"):
        made = network(t)
    with pytest.warns(UserWarning, match="which is a no-op"):
        made.load_state_dict(network(t).state_dict())
    assert made[0].weight.is_meta
    with pytest.raises(RuntimeError, match="Cannot copy out of meta tensor"):
        network(t).load_state_dict(made.state_dict())


@pytest.mark.parametrize("t", LIBRARIES)
def test_gradients_and_steps_have_types(t: Any) -> None:
    with t.device("meta"):
        made = network(t)
    optimizer = t.optim.AdamW(made.parameters())
    made(meta(t, 5, 3)).sum().backward()
    assert [p.grad.shape for p in made.parameters()] == [p.shape for p in made.parameters()]
    assert t.nn.utils.clip_grad_norm_(made.parameters(), 1.0).is_meta
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("t", LIBRARIES)
def test_writes_to_parts_are_followed(t: Any) -> None:
    """Also by keys of positions and masks."""
    x = meta(t, 2, 3).requires_grad_()
    y = x * 1
    y[0] = 1
    y[:, 1].mul_(2)
    y.sum().backward()
    assert x.grad.shape == (2, 3)
    z = meta(t, 2, 3)
    z[indices(t, 1)] = 1.0
    z[z > 0] = 2.0
    z[t.tensor([0])] = 3.0
    assert z.is_meta


@pytest.mark.parametrize("t", LIBRARIES)
def test_copies_and_pickles_stay_there(t: Any) -> None:
    layer = t.nn.Linear(2, 3, device="meta")
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert copied.weight.is_meta
        assert type(copied.weight) is t.nn.Parameter
        assert (copied.weight.shape, copied.weight.requires_grad) == ((3, 2), True)
    turned = pickle.loads(pickle.dumps(meta(t, 2, 3).t()))
    assert (turned.shape, turned.stride()) == ((3, 2), (1, 3))


@pytest.mark.parametrize("t", LIBRARIES)
def test_nothing_is_drawn(t: Any) -> None:
    """The default generator stays where it is."""
    t.manual_seed(3)
    expected = t.rand(2)
    t.manual_seed(3)
    t.rand(2, device="meta")
    t.nn.Linear(2, 2, device="meta")
    assert expected.tolist() == t.rand(2).tolist()


def test_a_compiled_function_breaks_where_it_meets_one() -> None:
    """And goes on; facts of it are known."""
    x, y = meta(dj, 2, 3), dj.ones(2, 3)
    functions = {
        "operation": (lambda a: a + 1, x),
        "layer": (dj.nn.Linear(3, 2, device="meta"), x),
        "size": (lambda a: dj.ones(2) * a.shape[1], x),
        "facts": (lambda a: (a.is_meta, str(a.device), tuple(a.shape), a.ndim), x),
        "factory": (lambda a: (a + 1, dj.empty(2, device="meta")), y),
        "moved": (lambda a: (a * 2).to("meta"), y),
    }
    for name, (function, argument) in functions.items():
        expected, compiled = function(argument), dj.compile(function)
        for _ in range(2):
            found = compiled(argument)
            assert str(expected).split("grad_fn")[0] == str(found).split("grad_fn")[0], name
    both = dj.compile(lambda a: a * 2)
    assert both(y).tolist() == [[2.0] * 3] * 2
    assert both(x).is_meta
    assert both(y).tolist() == [[2.0] * 3] * 2
    with dj.device("meta"):
        assert dj.compile(lambda: dj.ones(2) + 1)().is_meta


def test_files_keep_them_in_both_directions() -> None:
    """With sizes, strides and classes; also where only plain data is allowed."""
    for writer in (dj, torch):
        layer = writer.nn.Linear(2, 3, device="meta")
        buffer = io.BytesIO()
        state = {**layer.state_dict(), "turned": meta(writer, 2, 3).t(), "plain": writer.ones(2)}
        writer.save({"state": state, "parameter": layer.weight}, buffer)
        for reader in (dj, torch):
            buffer.seek(0)
            found = reader.load(buffer, weights_only=True)
            turned = found["state"]["turned"]
            assert (turned.is_meta, turned.shape, turned.stride()) == (True, (3, 2), (1, 3))
            assert found["state"]["weight"].is_meta
            assert found["state"]["plain"].tolist() == [1.0, 1.0]
            assert type(found["parameter"]) is reader.nn.Parameter
            assert found["parameter"].requires_grad
            buffer.seek(0)
            placed = reader.load(buffer, map_location="meta")
            assert placed["state"]["plain"].is_meta
