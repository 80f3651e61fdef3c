"""Normalisation layers against PyTorch: repr, values, gradients, running statistics, compiled."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F

torch = pytest.importorskip("torch")

VALUES = np.random.default_rng(0)
X0, X1, X2, X3 = (
    VALUES.standard_normal(shape, dtype=np.float32) * 2 + 1
    for shape in ((5, 4), (3, 4, 6), (3, 4, 5, 4), (2, 4, 2, 3, 2))
)

LAYERS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "batch norm of vectors": (lambda nn: nn.BatchNorm1d(4), X0),
    "batch norm 1d": (lambda nn: nn.BatchNorm1d(4, eps=1e-3, momentum=0.3), X1),
    "batch norm 2d": (lambda nn: nn.BatchNorm2d(4), X2),
    "batch norm 3d": (lambda nn: nn.BatchNorm3d(4), X3),
    "batch norm averaging": (lambda nn: nn.BatchNorm2d(4, momentum=None), X2),
    "batch norm bare": (lambda nn: nn.BatchNorm2d(4, affine=False), X2),
    "batch norm without bias": (lambda nn: nn.BatchNorm2d(4, bias=False), X2),
    "batch norm untracked": (lambda nn: nn.BatchNorm2d(4, track_running_stats=False), X2),
    "batch norm of one process": (lambda nn: nn.SyncBatchNorm(4), X2),
    "instance norm 1d": (lambda nn: nn.InstanceNorm1d(4), X1),
    "instance norm 2d": (lambda nn: nn.InstanceNorm2d(4, affine=True), X2),
    "instance norm tracked": (lambda nn: nn.InstanceNorm2d(4, track_running_stats=True), X2),
    "instance norm of one": (lambda nn: nn.InstanceNorm2d(4), X2[0]),
    "instance norm 3d": (lambda nn: nn.InstanceNorm3d(4), X3),
    "group norm": (lambda nn: nn.GroupNorm(2, 4), X2),
    "group norm bare": (lambda nn: nn.GroupNorm(4, 4, affine=False), X1),
    "local response norm": (lambda nn: nn.LocalResponseNorm(3, alpha=0.1, k=2.0), X2),
    "local response norm of even size": (lambda nn: nn.LocalResponseNorm(2), X1),
}


def run(library: Any, module: Any, call: Callable[[Any], Any], x: np.ndarray) -> list[np.ndarray]:
    """Two steps of training and one of evaluation: outputs, gradients, state."""
    found = []
    for step in range(3):
        call.train(step < 2)
        module.zero_grad()
        tensor = library.from_numpy(x + step).requires_grad_()
        output = call(tensor)
        weight = np.sin(np.arange(output.numel())).reshape(tuple(output.shape)).astype(np.float32)
        (output * library.from_numpy(weight)).sum().backward()
        gradients = [tensor.grad, *(p.grad for p in module.parameters())]
        found += [output.detach().numpy(), *(g.numpy().copy() for g in gradients)]
        found += [np.array(value.detach().numpy()) for value in module.state_dict().values()]
    return found


@pytest.mark.parametrize("name", LAYERS)
def test_layer_equals_pytorchs(name: str) -> None:
    """repr, state after training, values and gradients; eager, and compiled without a break."""
    make, x = LAYERS[name]
    theirs = make(torch.nn)
    expected = run(torch, theirs, theirs, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for is_compiled in (False, True):
            ours = make(dj.nn)
            assert repr(make(torch.nn)) == repr(ours)
            assert list(theirs.state_dict()) == list(ours.state_dict())
            call = dj.compile(ours, fullgraph=True) if is_compiled else ours
            for mine, other in zip(run(dj, ours, call, x), expected, strict=True):
                assert (other.dtype, other.shape) == (mine.dtype, mine.shape)
                np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_16_bit_floats_compute_in_float32(name: str) -> None:
    """One rounding; statistics keep their own dtype."""
    x = dj.from_numpy(X2).to(getattr(dj, name))
    norm, wide = dj.nn.BatchNorm2d(4), dj.nn.BatchNorm2d(4)

    assert (norm(x) == wide(x.float()).to(x.dtype)).all()
    assert dj.float32 is norm.running_var.dtype
    assert bool((norm.running_var - wide.running_var).abs().max() < 1e-6)
    assert (norm.eval()(x) == wide.eval()(x.float()).to(x.dtype)).all()
    assert (F.group_norm(x, 2) == F.group_norm(x.float(), 2).to(x.dtype)).all()


def test_running_statistics_of_float64_are_exact() -> None:
    """No share of a batch is rounded to float32."""
    found = []
    for library in (torch, dj):
        norm = library.nn.BatchNorm2d(4, dtype=library.float64)
        norm(library.from_numpy(X2.astype(np.float64)))
        found.append(norm.running_var.numpy().copy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-14)


def test_double_backward() -> None:
    """gradcheck and gradgradcheck in float64."""
    x = dj.randn(3, 2, 3, dtype=dj.float64).requires_grad_()
    w = dj.randn(2, dtype=dj.float64).requires_grad_()
    b = dj.randn(2, dtype=dj.float64).requires_grad_()

    def train(x: Any, w: Any, b: Any) -> Any:
        return F.batch_norm(x, None, None, w, b, True)

    assert dj.autograd.gradcheck(train, (x, w, b))
    assert dj.autograd.gradgradcheck(train, (x, w, b))
    assert dj.autograd.gradgradcheck(
        lambda x, w, b: F.instance_norm(x, None, None, w, b), (x, w, b)
    )


def test_states_without_a_count_of_batches_load() -> None:
    """As PyTorch: such states are older than the count."""
    norm = dj.nn.BatchNorm1d(3)
    state = {k: v for k, v in norm.state_dict().items() if k != "num_batches_tracked"}
    norm.load_state_dict(state)
    assert 0 == int(norm.num_batches_tracked)


REFUSED = {
    "one value": lambda f, z: f.batch_norm(z(1, 4), None, None, training=True),
    "statistics": lambda f, z: f.batch_norm(z(2, 4), z(3), z(3)),
    "weight": lambda f, z: f.batch_norm(z(2, 4), None, None, z(3), training=True),
    "one element": lambda f, z: f.instance_norm(z(2, 4, 1)),
    "groups": lambda f, z: f.group_norm(z(2, 4, 3), 3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    """With an error; which is a ValueError or a RuntimeError there."""
    with pytest.raises((RuntimeError, ValueError)):
        REFUSED[name](torch.nn.functional, torch.zeros)
    with pytest.raises((RuntimeError, ValueError)):
        REFUSED[name](F, dj.zeros)


def test_ranks_are_checked_like_pytorchs() -> None:
    """ValueError, with the expected and the given number of dims."""
    for library in (torch, dj):
        with pytest.raises(ValueError, match="expected 4D input"):
            library.nn.BatchNorm2d(4)(library.zeros(2, 4, 3))
        with pytest.raises(ValueError, match="expected 2D or 3D input"):
            library.nn.BatchNorm1d(4)(library.zeros(2, 4, 3, 3))


def test_a_small_convnet_trains_like_pytorchs() -> None:
    """Three steps of SGD: losses and running statistics, eager and compiled."""

    def make(library: Any) -> Any:
        nn = library.nn
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
            nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
        )  # fmt: skip

    images = VALUES.standard_normal((6, 1, 10, 10), dtype=np.float32)
    classes = np.array([0, 1, 2, 0, 1, 2])
    theirs = make(torch)
    state = {key: value.numpy().copy() for key, value in theirs.state_dict().items()}

    def losses(library: Any, module: Any, call: Any) -> list[float]:
        optimizer = library.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        found = []
        for _ in range(3):
            optimizer.zero_grad()
            scores = call(library.from_numpy(images))
            loss = library.nn.functional.cross_entropy(scores, library.from_numpy(classes))
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return [*found, *module[1].running_var.tolist(), *module[5].running_mean.tolist()]

    expected = losses(torch, theirs, theirs)
    for is_compiled in (False, True):
        ours = make(dj)
        ours.load_state_dict({key: dj.from_numpy(value.copy()) for key, value in state.items()})
        call = dj.compile(ours, fullgraph=True) if is_compiled else ours
        np.testing.assert_allclose(losses(dj, ours, call), expected, rtol=1e-3, atol=1e-5)


def test_batch_norms_are_converted_to_those_of_all_processes() -> None:
    """At any depth, with the very parameters and buffers."""
    model = dj.nn.Sequential(dj.nn.BatchNorm2d(4), dj.nn.Sequential(dj.nn.BatchNorm1d(3).eval()))
    weights = [id(value) for value in model.state_dict(keep_vars=True).values()]
    converted = dj.nn.SyncBatchNorm.convert_sync_batchnorm(model)

    assert converted is model
    assert all(isinstance(m, dj.nn.SyncBatchNorm) for m in (model[0], model[1][0]))
    assert weights == [id(value) for value in model.state_dict(keep_vars=True).values()]
    assert [True, False] == [model[0].training, model[1][0].training]
    alone = dj.nn.SyncBatchNorm.convert_sync_batchnorm(dj.nn.BatchNorm3d(2, affine=False))
    assert isinstance(alone, dj.nn.SyncBatchNorm)
    assert alone.weight is None


ONE_VALUE = {
    "function": lambda t: t.nn.functional.batch_norm(t.ones(1, 3), None, None, training=True),
    "layer": lambda t: t.nn.BatchNorm2d(3)(t.ones(1, 3, 1, 1)),
    "instance": lambda t: t.nn.functional.instance_norm(t.ones(2, 3, 1)),
    "instance layer": lambda t: t.nn.InstanceNorm2d(3)(t.ones(2, 3, 1, 1)),
    "dims": lambda t: t.nn.SyncBatchNorm(3)(t.ones(3)),
}


@pytest.mark.parametrize("name", ONE_VALUE)
def test_one_value_per_channel_is_pytorchs_value_error(name: str) -> None:
    """In training; nothing is moved."""
    for library in (torch, dj):
        with pytest.raises(ValueError, match="xpected"):
            ONE_VALUE[name](library)
    assert (1, 3) == tuple(F.batch_norm(dj.ones(1, 3), dj.zeros(3), dj.ones(3)).shape)


SHAPES = [
    (2, 24, 16, 16), (4, 64, 32, 32), (8, 3, 17, 17), (2, 116, 8, 8), (3, 5, 7), (2, 4, 3, 2, 5)
]  # fmt: skip


def bits_of(library: Any, shape: tuple[int, ...], call: Callable[[Any], Any]) -> list[np.ndarray]:
    """Output in training, running statistics after it, and output in evaluation."""
    rng = np.random.default_rng(0)
    layers = library.nn.BatchNorm1d, library.nn.BatchNorm2d, library.nn.BatchNorm3d
    layer = layers[len(shape) - 3](shape[1])
    with library.no_grad():
        for parameter in layer.parameters():
            values = rng.standard_normal(shape[1], dtype=np.float32)
            parameter.copy_(library.from_numpy(values))
    run = call(layer)
    outputs = []
    for training in (True, True, False):
        layer.train(training)
        x = rng.standard_normal(shape, dtype=np.float32) * 2 + np.float32(0.3)
        outputs.append(run(library.from_numpy(x)))
    found = [*outputs, layer.running_mean, layer.running_var]
    return [value.detach().numpy().view(np.int32) for value in found]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("call", [lambda layer: layer, dj.compile], ids=["eager", "compiled"])
def test_values_and_running_statistics_have_pytorchs_bits(shape, call) -> None:
    """A unit at the kink of what follows is on the same side of it."""
    expected = bits_of(torch, shape, lambda layer: layer)

    for found, theirs in zip(bits_of(dj, shape, call), expected, strict=True):
        np.testing.assert_array_equal(found, theirs)


@pytest.mark.parametrize("shape", [(64, 8), (5, 8, 1, 1), (4, 8, 3, 3), (4, 8, 30, 30)], ids=str)
def test_statistics_of_far_values_keep_their_digits(shape) -> None:
    """Sums are float64: deviations of 1 around 3000 keep what float32 holds of them."""
    x = (np.random.default_rng(0).standard_normal(shape) + 3000).astype(np.float32)
    dims = (0, *range(2, len(shape)))
    mean = dj.zeros(8)
    var = dj.zeros(8)
    F.batch_norm(dj.from_numpy(x), mean, var, None, None, True, 1.0)

    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean.numpy(), wide.mean(dims), 1e-7)
    np.testing.assert_allclose(var.numpy(), wide.var(dims, ddof=1), 2e-4)


@pytest.mark.parametrize("shape", [(4, 6, 9, 9), (2, 3, 64, 65), (3, 5, 40)], ids=str)
@pytest.mark.parametrize("call", [lambda f: f, dj.compile], ids=["eager", "compiled"])
def test_values_of_instances_have_pytorchs_bits(shape, call) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape, dtype=np.float32) * 3 + np.float32(1)
    weight, bias = (rng.standard_normal(shape[1], dtype=np.float32) for _ in range(2))
    theirs = torch.nn.functional.instance_norm(
        torch.from_numpy(x), weight=torch.from_numpy(weight), bias=torch.from_numpy(bias)
    )
    found = call(lambda x, w, b: F.instance_norm(x, weight=w, bias=b))(
        *map(dj.from_numpy, (x, weight, bias))
    )

    np.testing.assert_array_equal(found.numpy(), theirs.numpy())


@pytest.mark.parametrize("call", [lambda f: f, dj.compile], ids=["eager", "compiled"])
def test_an_empty_batch_leaves_running_statistics(call) -> None:
    layer = dj.nn.BatchNorm2d(3)

    assert call(layer)(dj.zeros(0, 3, 4, 4)).shape == (0, 3, 4, 4)
    assert layer.running_mean.tolist() == [0, 0, 0]
    assert layer.running_var.tolist() == [1, 1, 1]
