"""Lazy layers and uninitialized parameters, as PyTorch has them."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn

LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "linear": (lambda nn: nn.LazyLinear(3), (2, 4, 5)),
    "linear of a row": (lambda nn: nn.LazyLinear(3, bias=False), (5,)),
    "conv1d": (lambda nn: nn.LazyConv1d(4, 3, padding=1), (2, 3, 6)),
    "conv1d single": (lambda nn: nn.LazyConv1d(4, 3), (3, 6)),
    "conv2d": (lambda nn: nn.LazyConv2d(4, (2, 3), groups=2, bias=False), (2, 6, 5, 5)),
    "conv2d reflect": (lambda nn: nn.LazyConv2d(4, 3, 2, 1, padding_mode="reflect"), (1, 2, 5, 5)),
    "conv3d": (lambda nn: nn.LazyConv3d(2, 2, dilation=2), (1, 2, 4, 4, 4)),
    "transpose1d": (lambda nn: nn.LazyConvTranspose1d(4, 3, 2, 1, 1), (2, 3, 6)),
    "transpose2d": (lambda nn: nn.LazyConvTranspose2d(4, 2, groups=2), (2, 6, 3, 3)),
    "transpose3d": (lambda nn: nn.LazyConvTranspose3d(2, 2, bias=False), (1, 2, 3, 3, 3)),
    "batch1d": (lambda nn: nn.LazyBatchNorm1d(), (4, 3)),
    "batch2d": (lambda nn: nn.LazyBatchNorm2d(1e-3, 0.2, bias=False), (2, 3, 4, 4)),
    "batch3d": (lambda nn: nn.LazyBatchNorm3d(affine=False), (2, 3, 2, 2, 2)),
    "batch1d without statistics": (
        lambda nn: nn.LazyBatchNorm1d(track_running_stats=False),
        (4, 3, 5),
    ),
    "batch1d of nothing": (lambda nn: nn.LazyBatchNorm1d(1e-5, None, False, False), (4, 3)),
    "instance1d": (lambda nn: nn.LazyInstanceNorm1d(), (4, 3, 5)),
    "instance2d": (lambda nn: nn.LazyInstanceNorm2d(affine=False), (2, 3, 4, 4)),
    "instance3d": (
        lambda nn: nn.LazyInstanceNorm3d(track_running_stats=False),
        (2, 3, 2, 3, 2),
    ),
}


def _numbers(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(5).normal(size=shape).astype("float32")


def _outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except Exception as error:
        return type(error)


def _kind(error: Any) -> Any:
    """PyTorch's class of an error: ours are subclasses of it."""
    return next(kind for kind in error.__mro__ if kind.__module__ == "builtins")


@pytest.mark.parametrize("case", LAYERS)
def test_the_first_call_fixes_sizes_and_class(case: str) -> None:
    """Text, keys, sizes, values and gradients are PyTorch's before and after."""
    torch = pytest.importorskip("torch")
    make, shape = LAYERS[case]
    theirs, ours = make(torch.nn), make(nn)
    assert repr(theirs) == repr(ours)
    assert list(theirs.state_dict()) == list(ours.state_dict())
    assert theirs.has_uninitialized_params() == ours.has_uninitialized_params()
    x = _numbers(shape)
    theirs(torch.tensor(x))
    ours(dj.tensor(x))

    assert type(theirs).__name__ == type(ours).__name__
    assert type(ours).__name__.startswith(("Linear", "Conv", "Batch", "Instance"))
    assert repr(theirs) == repr(ours)
    state = {name: dj.tensor(entry.numpy()) for name, entry in theirs.state_dict().items()}
    ours.load_state_dict(state)
    expected = theirs(torch.tensor(x))
    actual = ours(dj.tensor(x))
    np.testing.assert_allclose(expected.detach().numpy(), actual.detach().numpy(), 1e-4, 1e-5)
    if not expected.requires_grad:
        assert not actual.requires_grad
        return
    (expected * expected).sum().backward()
    (actual * actual).sum().backward()
    for (name, wanted), (_, got) in zip(
        theirs.named_parameters(), ours.named_parameters(), strict=True
    ):
        np.testing.assert_allclose(wanted.grad.numpy(), got.grad.numpy(), 1e-3, 1e-3, err_msg=name)


def test_start_values_are_those_of_the_ordinary_layer() -> None:
    """The same seed gives the same weights, batch statistics start fresh."""
    dj.manual_seed(3)
    lazy = nn.LazyLinear(4)
    lazy(dj.ones(2, 3))
    dj.manual_seed(3)
    ordinary = nn.Linear(3, 4)
    norm = nn.LazyBatchNorm1d().eval()
    norm(dj.ones(2, 3))

    assert lazy.weight.tolist() == ordinary.weight.tolist()
    assert lazy.bias.tolist() == ordinary.bias.tolist()
    assert ([0.0] * 3, [1.0] * 3) == (norm.running_mean.tolist(), norm.running_var.tolist())
    assert ([1.0] * 3, [0.0] * 3) == (norm.weight.tolist(), norm.bias.tolist())
    assert norm.weight.requires_grad
    assert type(norm.running_mean) is dj.Tensor


WRONG: dict[str, Callable[[Any], Any]] = {
    "groups": lambda lib: lib.nn.LazyConv2d(4, 3, groups=2)(lib.ones(1, 3, 5, 5)),
    "rank of conv": lambda lib: lib.nn.LazyConv2d(4, 3)(lib.ones(5, 5)),
    "rank of norm": lambda lib: lib.nn.LazyBatchNorm1d()(lib.ones(1, 3, 5, 5)),
    "loaded for other inputs": lambda lib: _loaded(lib)(lib.ones(1, 5)),
    "open state into an ordinary layer": lambda lib: lib.nn.Linear(2, 3).load_state_dict(
        lib.nn.LazyLinear(3).state_dict()
    ),
    "other names": lambda lib: lib.nn.LazyLinear(3).load_state_dict(
        lib.nn.LazyLinear(3, bias=False).state_dict()
    ),
    "vector": lambda lib: lib.nn.utils.parameters_to_vector(lib.nn.LazyLinear(3).parameters()),
    "share": lambda lib: lib.nn.LazyLinear(3).share_memory(),
    "freeze": lambda lib: lib.nn.LazyLinear(3).requires_grad_(False),
    "initialize": lambda lib: lib.nn.init.ones_(lib.nn.LazyLinear(3).weight),
    "no initializer": lambda lib: _Open(lib)(1),
}


def _loaded(library: Any) -> Any:
    layer = library.nn.LazyLinear(3)
    layer.load_state_dict(library.nn.Linear(2, 3).state_dict())
    return layer


def _Open(library: Any) -> Any:
    class Open(library.nn.modules.lazy.LazyModuleMixin, library.nn.Module):  # type: ignore[misc]
        pass

    return Open()


@pytest.mark.parametrize("case", WRONG)
def test_wrong_uses_are_refused_as_pytorch_does(case: str) -> None:
    """By an error of the same builtin class."""
    torch = pytest.importorskip("torch")
    act = WRONG[case]
    expected, actual = _outcome(lambda: act(torch)), _outcome(lambda: act(dj))

    assert isinstance(actual, type)
    assert issubclass(actual, _kind(expected))


USES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda lib, p: p + 1,
    "added": lambda lib, p: lib.ones(2) + p,
    "function": lambda lib, p: lib.add(p, 1),
    "linear": lambda lib, p: lib.nn.functional.linear(lib.ones(1, 2), p),
    "numel": lambda lib, p: p.numel(),
    "dim": lambda lib, p: p.dim(),
    "detach": lambda lib, p: p.detach(),
    "clone": lambda lib, p: p.clone(),
    "item": lambda lib, p: p.item(),
    "numpy": lambda lib, p: p.numpy(),
    "tolist": lambda lib, p: p.tolist(),
    "index": lambda lib, p: p[0],
    "len": lambda lib, p: len(p),
    "iterate": lambda lib, p: list(p),
    "truth": lambda lib, p: bool(p),
    "equal": lambda lib, p: p == p,
    "fill": lambda lib, p: p.fill_(0),
    "backward": lambda lib, p: p.backward(),
    "type": lambda lib, p: p.type(),
    "shape": lambda lib, p: p.shape,
    "share": lambda lib, p: p.share_memory_(),
    "copied from": lambda lib, p: lib.ones(2).copy_(p),
    "repr": lambda lib, p: repr(p),
    "is float": lambda lib, p: (p.is_floating_point(), p.is_complex(), p.is_leaf),
    "grad": lambda lib, p: (p.grad, p.grad_fn, p.requires_grad),
    "same float": lambda lib, p: p.float() is p,
    "lazy": lambda lib, p: lib.nn.parameter.is_lazy(p),
}


@pytest.mark.parametrize("kind", ["UninitializedParameter", "UninitializedBuffer"])
@pytest.mark.parametrize("case", USES)
def test_uninitialized_tensors_answer_as_pytorchs(case: str, kind: str) -> None:
    """The same answer, or an error of the same class."""
    torch = pytest.importorskip("torch")
    expected, actual = (
        _outcome(lambda: USES[case](library, getattr(library.nn, kind)()))  # noqa: B023
        for library in (torch, dj)
    )
    if case == "copied from" and kind.endswith("Buffer"):
        assert issubclass(actual, RuntimeError)
        return

    assert expected == actual or issubclass(actual, _kind(expected))


def test_materialized_tensors_are_ordinary() -> None:
    """Sizes, dtype and class; hooks for gradients see them as any leaf."""
    parameter = nn.UninitializedParameter(dtype=dj.float64)
    buffer = nn.UninitializedBuffer()
    parameter.materialize((2, 3))
    buffer.materialize((4,), dtype=dj.int64)

    assert (nn.Parameter, dj.Tensor) == (type(parameter), type(buffer))
    assert ((2, 3), dj.float64) == (tuple(parameter.shape), parameter.dtype)
    assert ((4,), dj.int64) == (tuple(buffer.shape), buffer.dtype)
    parameter.sum().backward()
    assert [[1.0] * 3] * 2 == parameter.grad.tolist()
    assert not nn.parameter.is_lazy(parameter)
    converted = nn.UninitializedParameter().double()
    assert (dj.float64, True) == (converted.dtype, nn.parameter.is_lazy(converted))


def test_states_move_between_open_and_ordinary_layers() -> None:
    """Loading gives sizes, the first call the class; open entries leave open ones as they are."""
    source = nn.BatchNorm1d(3)
    source(dj.randn(5, 3))
    layer = nn.LazyBatchNorm1d()
    assert "<All keys matched successfully>" == repr(layer.load_state_dict(layer.state_dict()))
    assert layer.has_uninitialized_params()
    layer.load_state_dict(source.state_dict())

    assert isinstance(layer, nn.LazyBatchNorm1d)
    assert not layer.has_uninitialized_params()
    layer.eval()(dj.ones(1, 3))
    assert type(layer) is nn.BatchNorm1d
    assert layer.running_var.tolist() == source.running_var.tolist()
    assigned = nn.LazyLinear(2)
    assigned.load_state_dict(nn.Linear(3, 2).double().state_dict(), assign=True)
    assert dj.float64 == assigned.weight.dtype


def test_copies_are_open_on_their_own() -> None:
    """Deep copies, pickles and files keep dtypes; a call of one leaves the others open."""
    layer = nn.LazyLinear(3).double()
    file = io.BytesIO()
    dj.save(layer.state_dict(), file)
    file.seek(0)
    state = dj.load(file)
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
    for copied in copies:
        copied(dj.ones(1, 2, dtype=dj.float64))

    assert [nn.Linear, nn.Linear, nn.LazyLinear] == [type(each) for each in (*copies, layer)]
    assert layer.has_uninitialized_params()
    assert isinstance(state["weight"], nn.UninitializedParameter)
    assert dj.float64 == state["weight"].dtype


def test_pytorch_reads_files_of_open_states() -> None:
    """With both classes, and ours reads PyTorch's."""
    torch = pytest.importorskip("torch")
    ours, theirs = io.BytesIO(), io.BytesIO()
    dj.save(nn.LazyBatchNorm1d().state_dict(), ours)
    torch.save(torch.nn.LazyBatchNorm1d().state_dict(), theirs)
    ours.seek(0)
    theirs.seek(0)
    read = torch.load(ours, weights_only=False)

    assert torch.nn.UninitializedParameter is type(read["weight"])
    assert torch.nn.UninitializedBuffer is type(read["running_mean"])
    assert [type(entry).__name__ for entry in read.values()] == [
        type(entry).__name__ for entry in dj.load(theirs).values()
    ]


def test_optimizers_hold_parameters_before_they_have_sizes() -> None:
    """The objects stay the same, so that the first step after the first call updates them."""
    layer = nn.LazyLinear(1, bias=False)
    optimizer = dj.optim.SGD(layer.parameters(), lr=1.0)
    layer(dj.ones(1, 2)).sum().backward()
    before = layer.weight.detach().clone()
    optimizer.step()

    assert (before - 1).tolist() == layer.weight.tolist()


def test_conversions_reach_open_parameters_and_buffers() -> None:
    """`double` before the first call decides what the sizes are filled with."""
    layer = nn.LazyBatchNorm1d().double()
    layer(dj.ones(2, 3, dtype=dj.float64))

    assert {dj.float64} == {layer.weight.dtype, layer.running_mean.dtype}
    assert dj.int64 == layer.num_batches_tracked.dtype


def test_modules_of_programs_may_keep_their_class() -> None:
    """Without `cls_to_become` the parameters are inferred once; keywords are handed on."""
    seen = []

    class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, x: Any, factor: float = 1.0) -> None:
            seen.append(factor)
            self.weight.materialize(x.shape[-1:])
            self.weight.data.fill_(2.0)

        def forward(self, x: Any, factor: float = 1.0) -> Any:
            return x * self.weight * factor

    module = Scale()
    module.register_forward_pre_hook(lambda module, args: seen.append("hook"))

    assert [6.0, 6.0] == module(dj.ones(2), factor=3.0).tolist()
    assert [2.0, 2.0] == module(dj.ones(2)).tolist()
    assert [3.0, "hook", "hook"] == seen
    assert isinstance(module, Scale)


@pytest.mark.parametrize("way", ["model", "in place", "function"])
def test_compiled_models_get_their_sizes_from_the_first_call(way: str) -> None:
    """Later calls are captured, and see the layers' new classes; sizes are plain integers."""
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.LazyLinear(2))
    if way == "in place":
        model.compile(backend="eager", dynamic=True)
    call: Any = {
        "model": lambda: dj.compile(model, backend="eager", dynamic=True),
        "in place": lambda: model,
        "function": lambda: dj.compile(lambda x: model(x), backend="eager", dynamic=True),
    }[way]()
    x = dj.randn(3, 5)
    first = call(x)
    model.eval()
    plain = copy.deepcopy(model)

    assert (3, 2) == tuple(first.shape)
    assert ["Linear", "BatchNorm1d", "Linear"] == [type(layer).__name__ for layer in model]
    assert [int, int] == [type(model[0].in_features), type(model[1].num_features)]
    assert dj.allclose(call(x), plain(x), atol=1e-6)
    assert dj.allclose(call(x[:2]), plain(x[:2]), atol=1e-6)


def test_a_compiled_lazy_layer_runs_after_its_class_has_changed() -> None:
    """The compiled call holds the method of the lazy class."""
    layer = nn.LazyConv2d(2, 3)
    compiled = dj.compile(layer, backend="eager")
    x = dj.randn(1, 3, 5, 5)
    first = compiled(x)

    assert type(layer) is nn.Conv2d
    assert dj.allclose(layer(x), first, atol=1e-6)
    assert dj.allclose(layer(x), compiled(x), atol=1e-6)


def test_compiled_code_refuses_uninitialized_operands() -> None:
    """As plain code does."""
    parameter = nn.UninitializedParameter()
    with pytest.raises(ValueError, match="materialize"):
        dj.compile(lambda x: x + parameter)(dj.ones(2))
