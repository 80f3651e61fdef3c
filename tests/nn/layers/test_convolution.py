"""Convolution and pooling layers against PyTorch: repr, state, values, gradients, compiled."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj

torch = pytest.importorskip("torch")

VALUES = np.random.default_rng(0)
X1, X2, X3 = (
    VALUES.standard_normal(shape, dtype=np.float32)
    for shape in ((2, 4, 9), (2, 4, 7, 8), (2, 4, 5, 4, 4))
)

LAYERS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "conv1d": (lambda nn: nn.Conv1d(4, 6, 3, stride=2), X1),
    "conv2d": (lambda nn: nn.Conv2d(4, 6, (3, 2), padding=(1, 0), dilation=2), X2),
    "conv2d same": (lambda nn: nn.Conv2d(4, 6, 3, padding="same", bias=False), X2),
    "conv2d groups": (lambda nn: nn.Conv2d(4, 8, 3, groups=2), X2),
    "conv2d depthwise": (lambda nn: nn.Conv2d(4, 8, 3, padding=1, groups=4), X2),
    "conv2d reflect": (lambda nn: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), X2),
    "conv2d circular": (
        lambda nn: nn.Conv2d(4, 6, 3, padding="same", padding_mode="circular"), X2,
    ),
    "conv3d": (lambda nn: nn.Conv3d(4, 2, 2), X3),
    "conv transpose 1d": (lambda nn: nn.ConvTranspose1d(4, 3, 3, stride=2, padding=1), X1),
    "conv transpose 2d": (
        lambda nn: nn.ConvTranspose2d(4, 6, 4, stride=2, padding=1, output_padding=1, groups=2),
        X2,
    ),
    "conv transpose 3d": (lambda nn: nn.ConvTranspose3d(4, 2, 2, bias=False), X3),
    "unfold": (lambda nn: nn.Unfold(3, padding=1, stride=2), X2),
    "fold": (lambda nn: nn.Fold((4, 4), 2, stride=2), X1[:, :, :4]),
    "max pool 1d": (lambda nn: nn.MaxPool1d(2), X1),
    "max pool 2d": (lambda nn: nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), X2),
    "max pool 3d": (lambda nn: nn.MaxPool3d(2), X3),
    "avg pool 1d": (lambda nn: nn.AvgPool1d(3, 1), X1),
    "avg pool 2d": (lambda nn: nn.AvgPool2d(3, 2, 1, count_include_pad=False), X2),
    "avg pool 3d": (lambda nn: nn.AvgPool3d(2), X3),
    "adaptive avg pool 1d": (lambda nn: nn.AdaptiveAvgPool1d(4), X1),
    "adaptive avg pool 2d": (lambda nn: nn.AdaptiveAvgPool2d((1, 1)), X2),
    "adaptive avg pool 3d": (lambda nn: nn.AdaptiveAvgPool3d((2, None, 3)), X3),
    "adaptive max pool 1d": (lambda nn: nn.AdaptiveMaxPool1d(3), X1),
    "adaptive max pool 2d": (lambda nn: nn.AdaptiveMaxPool2d(3), X2),
    "adaptive max pool 3d": (lambda nn: nn.AdaptiveMaxPool3d(2), X3),
    "lp pool 2d": (lambda nn: nn.LPPool2d(2, 3), np.abs(X2) + 0.5),
    "max unpool 2d": (lambda nn: _PoolAndBack(nn), X2[:, :, :6]),
}  # fmt: skip


def _PoolAndBack(nn: Any) -> Any:
    class PoolAndBack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pool = nn.MaxPool2d(2, return_indices=True)
            self.back = nn.MaxUnpool2d(2)

        def forward(self, x: Any) -> Any:
            return self.back(*self.pool(x))

    return PoolAndBack()


def run(library: Any, module: Any, call: Callable[[Any], Any], x: np.ndarray) -> list[Any]:
    """Output, gradient of the input, gradients of the parameters."""
    tensor = library.from_numpy(x.copy()).requires_grad_()
    module.zero_grad()
    output = call(tensor)
    weight = np.sin(np.arange(output.numel())).reshape(tuple(output.shape)).astype(np.float32)
    (output * library.from_numpy(weight)).sum().backward()
    gradients = [tensor.grad, *(p.grad for p in module.parameters())]
    return [output.detach().numpy(), *(g.numpy().copy() for g in gradients)]


@pytest.mark.parametrize("name", LAYERS)
def test_layer_equals_pytorchs(name: str) -> None:
    """repr, names and shapes of the state, values and gradients, eager and compiled."""
    make, x = LAYERS[name]
    theirs, ours = make(torch.nn), make(dj.nn)
    assert repr(theirs) == repr(ours)
    state = {key: value.numpy() for key, value in theirs.state_dict().items()}
    ours.load_state_dict({key: dj.from_numpy(value.copy()) for key, value in state.items()})
    expected = run(torch, theirs, theirs, x)

    compiled = dj.compile(ours, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (ours, compiled):
            for mine, other in zip(run(dj, ours, call, x), expected, strict=True):
                np.testing.assert_allclose(mine, other, rtol=1e-4, atol=2e-5)


def test_start_values_lie_within_pytorchs_bounds() -> None:
    """Uniform within 1/sqrt(inputs of one output), weight and bias."""
    layer = dj.nn.Conv2d(8, 64, 3, groups=2)
    bound = 1 / 6.0
    for parameter in layer.parameters():
        assert float(parameter.abs().max()) <= bound
        assert float(parameter.abs().max()) > 0.8 * bound


def test_transposed_convolution_takes_an_output_size() -> None:
    """One of the sizes that the stride allows."""
    layer = dj.nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)
    x = dj.zeros(1, 2, 4, 4)
    assert (1, 3, 8, 7) == tuple(layer(x, output_size=(8, 7)).shape)
    with pytest.raises(ValueError, match="requested an output size"):
        layer(x, output_size=(9, 7))


@pytest.mark.parametrize(
    "options", [{"groups": 0}, {"groups": 3}, {"padding": "full"}, {"padding_mode": "mirror"}]
)
def test_options_are_checked_like_pytorchs(options: dict[str, Any]) -> None:
    """ValueError at construction."""
    for nn in (torch.nn, dj.nn):
        with pytest.raises(ValueError, match=r"group|padding"):
            nn.Conv2d(4, 6, 3, **options)


def test_dynamic_sizes_share_one_graph() -> None:
    """A convolution, a pool and a view of the result at several image sizes."""
    layer = dj.nn.Sequential(dj.nn.Conv2d(3, 4, 3, stride=2, padding=1), dj.nn.MaxPool2d(2))
    compiled = dj.compile(lambda x: layer(x).view(x.size(0), -1), fullgraph=True, dynamic=True)
    for size in (9, 14, 16):
        x = dj.randn(size - 5, 3, size, size + 1)
        expected = layer(x).view(x.size(0), -1)
        assert bool((compiled(x) - expected).abs().max() < 1e-5)


def test_writing_activations_are_captured() -> None:
    """`inplace=True` after a layer needs no break; the value written is the one that is read."""
    layer = dj.nn.Sequential(dj.nn.Conv1d(2, 3, 2), dj.nn.ReLU(inplace=True), dj.nn.Conv1d(3, 2, 2))
    x = dj.randn(2, 2, 6)
    expected = layer(x)

    assert bool((dj.compile(layer, fullgraph=True)(x) - expected).abs().max() < 1e-6)


@pytest.mark.parametrize("mode", ["zeros", "reflect"])
def test_derived_convolutions_change_their_weight(mode: str) -> None:
    """By overriding `_conv_forward`, which `forward` calls, or by calling it, as with PyTorch's."""

    def results(library: Any) -> list[Any]:
        class Halved(library.nn.Conv2d):
            def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
                return super()._conv_forward(input, weight / 2, None)

        x = library.tensor(X2)
        layer = Halved(4, 6, 3, padding=1, padding_mode=mode)
        weight = np.cos(np.arange(4 * 6 * 9)).reshape(6, 4, 3, 3).astype(np.float32)
        layer.load_state_dict({"weight": library.tensor(weight), "bias": library.ones(6)})
        plain = library.nn.Conv2d(4, 6, 3, padding=1, padding_mode=mode)
        return [layer(x), plain._conv_forward(x, layer.weight, layer.bias)]

    for expected, actual in zip(results(torch), results(dj), strict=True):
        np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), atol=1e-5)
