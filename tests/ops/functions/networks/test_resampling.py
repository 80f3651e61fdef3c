"""Resampling, shuffled pixels, dropout of channels: against PyTorch; layers over them, compiled."""

import math
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.core.errors import ArgumentError

torch = pytest.importorskip("torch")
T = torch.nn.functional

VALUES = np.random.default_rng(0)
X1, X2, X3 = (VALUES.standard_normal(s) for s in ((2, 4, 7), (2, 4, 6, 5), (1, 2, 4, 3, 5)))


def compare(name: str, x: np.ndarray, *args: Any, **chosen: Any) -> None:
    """Value and gradient of a function of both libraries."""
    ours, theirs = dj.from_numpy(x.copy()).requires_grad_(), torch.tensor(x, requires_grad=True)
    expected = getattr(T, name)(theirs, *args, **chosen)
    actual = getattr(F, name)(ours, *args, **chosen)
    g = np.cos(np.arange(expected.numel())).reshape(tuple(expected.shape)).astype(x.dtype)
    expected.backward(torch.tensor(g))
    actual.backward(dj.from_numpy(g))
    tolerance = 1e-10 if x.dtype == np.float64 else 2e-5

    assert tuple(expected.shape) == tuple(actual.shape)
    np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), atol=tolerance)
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), atol=tolerance)


SIZES = [
    {"size": 9},
    {"size": 3},
    {"scale_factor": 2},
    {"scale_factor": 1.7},
    {"scale_factor": 0.6},
]


@pytest.mark.parametrize("how", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "area"])
def test_resampled_lines_equal_pytorchs(mode: str, how: dict[str, Any]) -> None:
    """Larger and smaller, by sizes and by factors."""
    compare("interpolate", X1, mode=mode, **how)
    if mode == "linear":
        compare("interpolate", X1, mode=mode, align_corners=True, **how)


def same_values(x: np.ndarray, **chosen: Any) -> None:
    """PyTorch's gradients are not asked: they have places of their own."""
    expected, actual = (
        T.interpolate(torch.tensor(x), **chosen),
        F.interpolate(dj.tensor(x), **chosen),
    )
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_places_are_rounded_as_pytorch_rounds_them(mode: str, dtype: Any) -> None:
    """Where a place is nearly that of an element, and where sizes say less than factors."""
    for size in (1, 2, 3, 4, 6, 7, 8, 9, 10, 31, 64):
        line = np.arange(size, dtype=dtype).reshape(1, 1, size)
        for factor in (0.6, 1.1, 1.3, 2.3, 2.5, 4.6):
            if size * factor >= 1:
                same_values(line, mode=mode, scale_factor=factor)
        for wanted in (10, 49, 77):
            same_values(line, mode=mode, size=wanted)


@pytest.mark.parametrize("shape", [(1, 2, 2, 3), (1, 1, 150, 3)])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_factors_that_leave_or_double_the_size(mode: str, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for factor in (1.1, 1.3, 2.3):
        same_values(x, mode=mode, scale_factor=(1.0, factor))


@pytest.mark.parametrize("wrap", [lambda f: f, dj.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("how", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_are_rounded_and_cut_off_at_their_ends(
    mode: str, how: dict[str, Any], wrap: Any
) -> None:
    """As PyTorch does it, with weights of 16 bits; it joins those of bicubic borders before."""
    x = np.random.default_rng(4).integers(0, 256, (2, 3, 17, 12)).astype(np.uint8)
    for corners in (False, True):
        expected = T.interpolate(torch.tensor(x), mode=mode, align_corners=corners, **how)
        function = wrap(lambda x, c=corners: F.interpolate(x, mode=mode, align_corners=c, **how))
        actual = function(dj.tensor(x))
        assert actual.dtype is dj.uint8
        apart = np.abs(actual.numpy().astype(int) - expected.numpy().astype(int))
        if mode == "bilinear":
            assert apart.max() == 0
        assert apart.max() <= 2
        assert (apart > 0).mean() < 0.02


@pytest.mark.filterwarnings("ignore:.nn.functional.upsample_:UserWarning")
@pytest.mark.parametrize("name", ["upsample_nearest", "upsample_bilinear"])
def test_older_names(name: str) -> None:
    compare(name, X2, scale_factor=2)
    compare(name, X2, size=(7, 9))


@pytest.mark.parametrize("how", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_resampled_images_equal_pytorchs(mode: str, how: dict[str, Any]) -> None:
    """Both conventions of corners; float32, too."""
    compare("interpolate", X2, mode=mode, **how)
    compare("interpolate", X2.astype(np.float32), mode=mode, **how)
    if mode != "nearest":
        compare("interpolate", X2, mode=mode, align_corners=True, **how)


def test_other_resampling_options_equal_pytorchs() -> None:
    """Three dims, one factor per dim, factors that follow from the sizes."""
    compare("interpolate", X3, size=(5, 6, 4), mode="trilinear")
    compare("interpolate", X3, scale_factor=2, mode="nearest")
    compare("interpolate", X2, scale_factor=(2.5, 1.5), mode="bilinear")
    compare("interpolate", X2, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)


def test_shuffles_equal_pytorchs() -> None:
    """Values and gradients."""
    compare("pixel_shuffle", X2, 2)
    compare("pixel_unshuffle", X2[:, :, :, :4], 2)
    compare("channel_shuffle", X2, 2)


@pytest.mark.parametrize(
    ("name", "shape", "lead"),
    [
        ("dropout1d", (50, 40, 3), 2),
        ("dropout2d", (50, 40, 3, 2), 2),
        ("dropout2d", (50, 40, 3), 2),
        ("dropout2d", (50, 40), 2),
        ("dropout2d", (50, 40, 2, 3, 2), 2),
        ("dropout3d", (90, 2, 3, 2), 1),
        ("dropout3d", (50, 40, 2, 3, 2), 2),
        ("dropout3d", (90, 3), 1),
    ],
)
@pytest.mark.filterwarnings("ignore:dropout")
def test_channels_are_dropped_as_a_whole(name: str, shape: tuple[int, ...], lead: int) -> None:
    """About p of them; the others are scaled."""
    dj.manual_seed(0)
    y = getattr(F, name)(dj.ones(*shape), 0.25).numpy()
    channels = y.reshape(int(np.prod(shape[:lead])), -1)
    assert (channels == channels[:, :1]).all()
    kept = channels[:, 0] != 0
    assert 0.6 < kept.mean() < 0.9
    np.testing.assert_allclose(channels[kept], 1 / 0.75, rtol=1e-6)


@pytest.mark.parametrize("p", [0.0, 0.5])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("dropout1d", (4, 5, 3)),
        ("dropout1d", (5, 3)),
        ("dropout2d", (4, 5, 3, 2)),
        ("dropout2d", (4, 5, 3)),
        ("dropout2d", (4, 5)),
        ("dropout2d", (4, 5, 2, 3, 2)),
        ("dropout3d", (4, 5, 2, 3, 2)),
        ("dropout3d", (5, 2, 3, 2)),
        ("dropout3d", (5, 3)),
    ],
)
@pytest.mark.filterwarnings("ignore:dropout")
def test_what_drops_no_channel_is_its_input_where_pytorchs_is(
    name: str, shape: tuple[int, ...], p: float
) -> None:
    """Else a view of it, as of a batch of one that was added and taken away again."""
    x, theirs = dj.arange(float(math.prod(shape))).reshape(*shape), torch.ones(*shape)
    expected, actual = getattr(T, name)(theirs, p, p == 0), getattr(F, name)(x, p, p == 0)
    assert (expected is theirs) == (actual is x)
    assert actual.untyped_storage() == x.untyped_storage()
    assert expected.stride() == actual.stride()
    assert actual.tolist() == x.tolist()


@pytest.mark.parametrize(("name", "shape"), [("dropout2d", (4, 3)), ("dropout3d", (4, 3, 2))])
def test_dropout_of_channels_warns_where_there_are_too_few_dims(name, shape) -> None:
    """As PyTorch does."""
    torch = pytest.importorskip("torch")
    for library, x in ((dj, dj.ones(*shape)), (torch, torch.ones(*shape))):
        with pytest.warns(UserWarning, match=name):
            getattr(library.nn.functional, name)(x, 0.5)


REFUSED = {
    "dropout of channels of a vector": lambda f, z: f.dropout2d(z(3)),
    "dropout of channels without a batch of vectors": lambda f, z: f.dropout1d(z(3)),
    "size and factor": lambda f, z: f.interpolate(z(1, 1, 4), size=2, scale_factor=2),
    "neither": lambda f, z: f.interpolate(z(1, 1, 4)),
    "mode": lambda f, z: f.interpolate(z(1, 1, 4), 2, mode="bilinear"),
    "corners": lambda f, z: f.interpolate(z(1, 1, 4), 2, align_corners=True),
    "sizes": lambda f, z: f.interpolate(z(1, 1, 4), (2, 2)),
    "channels": lambda f, z: f.pixel_shuffle(z(1, 3, 4, 4), 2),
    "height": lambda f, z: f.pixel_unshuffle(z(1, 3, 5, 4), 2),
}


@pytest.mark.filterwarnings("ignore:dropout")
@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    """With an error."""
    for functions, zeros in ((T, torch.zeros), (F, dj.zeros)):
        with pytest.raises((ValueError, RuntimeError, TypeError, NotImplementedError)):
            REFUSED[name](functions, zeros)


LAYERS = {
    "upsample": (lambda nn: nn.Upsample(scale_factor=2), X2),
    "upsample bilinear": (lambda nn: nn.Upsample(size=(7, 9), mode="bilinear"), X2),
    "upsampling nearest": (lambda nn: nn.UpsamplingNearest2d(size=8), X2),
    "upsampling bilinear": (lambda nn: nn.UpsamplingBilinear2d(scale_factor=2), X2),
    "pixel shuffle": (lambda nn: nn.PixelShuffle(2), X2),
    "pixel unshuffle": (lambda nn: nn.PixelUnshuffle(2), X2[:, :, :, :4]),
    "channel shuffle": (lambda nn: nn.ChannelShuffle(2), X2),
    "zero pad": (lambda nn: nn.ZeroPad2d((1, 2, 0, 1)), X2),
    "constant pad": (lambda nn: nn.ConstantPad1d(1, 3.5), X1),
    "reflection pad": (lambda nn: nn.ReflectionPad2d(2), X2),
    "replication pad": (lambda nn: nn.ReplicationPad3d(1), X3),
    "circular pad": (lambda nn: nn.CircularPad1d((1, 2)), X1),
    "dropout in evaluation": (lambda nn: nn.Dropout2d(0.3).eval(), X2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_equals_pytorchs(name: str) -> None:
    """repr and values, eager and compiled without a break."""
    make, x = LAYERS[name]
    ours = make(dj.nn)
    expected = make(torch.nn)(torch.tensor(x)).numpy()
    assert repr(make(torch.nn)) == repr(ours)
    for call in (ours, dj.compile(ours, fullgraph=True)):
        np.testing.assert_allclose(call(dj.from_numpy(x.copy())).numpy(), expected, atol=1e-12)


def test_inplace_is_also_the_last_positional_argument() -> None:
    """As in PyTorch."""
    x = dj.tensor([-1.0, 2.0])
    assert F.relu(x, True) is x
    assert [0.0, 2.0] == x.tolist()
    y = dj.ones(2, 3, 4)
    assert F.dropout1d(y, 1.0, True, True) is y
    assert 0 == float(y.sum())


SMOOTH = [
    {"size": (3, 2)},
    {"size": (6, 5)},
    {"size": (13, 9)},
    {"size": (1, 3)},
    {"scale_factor": 0.4},
    {"scale_factor": (1.7, 0.5)},
    {"scale_factor": 0.4, "recompute_scale_factor": True},
]


@pytest.mark.parametrize("how", SMOOTH, ids=str)
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_without_aliasing_equal_pytorchs(
    mode: str, align_corners: bool, how: dict[str, Any]
) -> None:
    """Values and gradients of both floating dtypes, and bytes exactly."""
    chosen = {"mode": mode, "align_corners": align_corners, "antialias": True, **how}
    compare("interpolate", X2, **chosen)
    compare("interpolate", X2.astype(np.float32), **chosen)
    pixels = VALUES.integers(0, 256, (2, 3, 11, 14)).astype(np.uint8)
    expected = T.interpolate(torch.tensor(pixels), **chosen)
    np.testing.assert_array_equal(F.interpolate(dj.tensor(pixels), **chosen).numpy(), expected)


def test_images_without_aliasing_are_captured() -> None:
    """In one graph; other modes have no such choice, which is said."""
    x = dj.tensor(X2.astype(np.float32))

    def smaller(x: Any) -> Any:
        return F.interpolate(x, (3, 4), mode="bicubic", antialias=True)

    np.testing.assert_allclose(
        dj.compile(smaller, fullgraph=True)(x).numpy(), smaller(x).numpy(), atol=1e-6
    )
    with pytest.raises(ArgumentError, match="bilinear and bicubic"):
        F.interpolate(x, 3, mode="nearest", antialias=True)
