"""Fractional max pools against PyTorch: windows by given samples, gradients, what is refused."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F

torch = pytest.importorskip("torch")
T = torch.nn.functional


def _both(n: int, x: np.ndarray, samples: np.ndarray, *args: Any, **chosen: Any) -> None:
    """Values, positions and the gradient of both libraries."""
    name = f"fractional_max_pool{n}d"
    theirs, ours = torch.tensor(x, requires_grad=True), dj.tensor(x, requires_grad=True)
    expected, expected_at = getattr(T, name)(
        theirs, *args, return_indices=True, _random_samples=torch.tensor(samples), **chosen
    )
    actual, actual_at = getattr(F, name)(
        ours, *args, return_indices=True, _random_samples=dj.tensor(samples), **chosen
    )
    np.testing.assert_array_equal(actual.detach().numpy(), expected.detach().numpy())
    assert dj.int64 == actual_at.dtype
    assert expected_at.tolist() == actual_at.tolist()
    weight = np.cos(np.arange(expected.numel())).reshape(tuple(expected.shape)).astype(x.dtype)
    expected.backward(torch.tensor(weight))
    actual.backward(dj.tensor(weight))
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(12))
def test_planes_equal_pytorchs(seed: int, dtype: str) -> None:
    """Sizes, counts and samples at random; windows overlap, and may leave gaps."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(4, 15, 2)
    widths = [int(draw.integers(1, 4)) for _ in sizes]
    counts = [int(draw.integers(1, s - w + 2)) for s, w in zip(sizes, widths, strict=True)]
    x = draw.normal(size=(2, 3, *sizes)).astype(dtype)
    samples = draw.uniform(size=(2, 3, 2)).astype(dtype)
    _both(2, x, samples, widths, output_size=counts)
    _both(2, x[0], samples, 2, output_ratio=(0.5, 0.75))


@pytest.mark.parametrize("seed", range(8))
def test_volumes_equal_pytorchs(seed: int) -> None:
    """The samples are for depth, height and width."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(4, 9, 3)
    counts = [int(draw.integers(1, s - 1)) for s in sizes]
    x = draw.normal(size=(2, 2, *sizes)).astype("float32")
    samples = draw.uniform(size=(2, 2, 3)).astype("float32")
    _both(3, x, samples, 2, output_size=counts)
    _both(3, x[1], samples, (1, 2, 2), output_ratio=(0.5, 0.5, 0.6))


def test_special_values_and_ties_equal_pytorchs() -> None:
    """NaN wins, the last one; of equal elements the first; a batch may have spare samples."""
    nan, inf = float("nan"), float("inf")
    rows = [[1, nan, 2, 2], [nan, 3, 2, 2], [5, -inf, -inf, inf], [-inf, -inf, -inf, 5]]
    x = np.array([[rows]], "float32")
    _both(2, x, np.zeros((3, 1, 2), "float32"), 2, 3)
    _both(2, np.full((1, 1, 4, 4), -inf, "float32"), np.zeros((1, 1, 2), "float32"), 2, 2)
    _both(2, x[:0], np.zeros((1, 1, 2), "float32"), 2, 3)
    _both(2, x, np.zeros((1, 1, 2), "float32"), 2, 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_dtypes_round_places_as_pytorchs(dtype: str) -> None:
    """The places are computed in the dtype of the input."""
    x = np.random.default_rng(3).normal(size=(2, 40, 30, 33))
    samples = np.random.default_rng(4).uniform(size=(2, 40, 2)) * 0.99
    expected = T.fractional_max_pool2d(
        torch.tensor(x).to(getattr(torch, dtype)), 2, 17, return_indices=True,
        _random_samples=torch.tensor(samples).to(getattr(torch, dtype)),
    )  # fmt: skip
    actual = F.fractional_max_pool2d(
        dj.tensor(x).to(getattr(dj, dtype)), 2, 17, return_indices=True,
        _random_samples=dj.tensor(samples).to(getattr(dj, dtype)),
    )  # fmt: skip

    assert expected[1].tolist() == actual[1].tolist()


REFUSED = {
    "no size": lambda t, f: f.fractional_max_pool2d(t.ones(1, 2, 6, 6), 2),
    "windows in a plane": lambda t, f: f.fractional_max_pool2d(t.ones(1, 2, 6, 6), 2, 6),
    "windows in a volume": lambda t, f: f.fractional_max_pool3d(t.ones(1, 2, 6, 6, 6), 2, 5),
    "negative size": lambda t, f: f.fractional_max_pool2d(t.ones(1, 2, 6, 6), 2, -1),
    "sizes": lambda t, f: f.fractional_max_pool2d(t.ones(1, 2, 6, 6), 2, (3, 3, 3)),
    "kernels": lambda t, f: f.fractional_max_pool2d(t.ones(1, 2, 6, 6), (2, 2, 2), 3),
    "empty plane": lambda t, f: f.fractional_max_pool2d(t.ones(1, 2, 0, 6), 2, 3),
    "dims of samples": lambda t, f: f.fractional_max_pool2d(
        t.ones(1, 2, 6, 6), 2, 3, _random_samples=t.ones(2, 2)
    ),
    "dtype of samples": lambda t, f: f.fractional_max_pool2d(
        t.ones(1, 2, 6, 6), 2, 3, _random_samples=t.zeros(1, 2, 2, dtype=t.float64)
    ),
    "channels of samples": lambda t, f: f.fractional_max_pool2d(
        t.ones(1, 2, 6, 6), 2, 3, _random_samples=t.zeros(1, 1, 2)
    ),
    "samples per plane": lambda t, f: f.fractional_max_pool2d(
        t.ones(1, 2, 6, 6), 2, 3, _random_samples=t.zeros(1, 2, 3)
    ),
    "batch of samples": lambda t, f: f.fractional_max_pool2d(
        t.ones(2, 2, 6, 6), 2, 3, _random_samples=t.zeros(1, 2, 2)
    ),
    "layer without size": lambda t, f: t.nn.FractionalMaxPool2d(2),
    "layer with both": lambda t, f: t.nn.FractionalMaxPool3d(2, 3, 0.5),
    "ratio of a layer": lambda t, f: t.nn.FractionalMaxPool3d(2, output_ratio=1.5),
    "kernel of a layer": lambda t, f: t.nn.FractionalMaxPool3d(0, 3),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case: str) -> None:
    """By an error of PyTorch's class."""
    with pytest.raises((RuntimeError, ValueError)) as expected:
        REFUSED[case](torch, T)
    with pytest.raises(expected.type):
        REFUSED[case](dj, F)


def test_layers_draw_places_or_keep_them() -> None:
    """Text and state are PyTorch's; without samples every call draws new ones."""
    x = dj.randn(1, 8, 30, 30)
    layer = dj.nn.FractionalMaxPool2d(2, output_ratio=0.45, return_indices=True)
    dj.manual_seed(0)
    first, again = layer(x)[1], layer(x)[1]
    dj.manual_seed(0)
    repeated = layer(x)[1]
    fixed = dj.nn.FractionalMaxPool3d(2, 3, _random_samples=dj.zeros(1, 2, 3))
    theirs = torch.nn.FractionalMaxPool3d(2, 3, _random_samples=torch.zeros(1, 2, 3))

    assert (1, 8, 13, 13) == tuple(first.shape)
    assert first.tolist() == repeated.tolist() != again.tolist()
    assert repr(theirs) == repr(fixed)
    assert list(theirs.state_dict()) == list(fixed.state_dict())
    volume = np.random.default_rng(0).normal(size=(1, 2, 6, 6, 6)).astype("float32")
    assert theirs(torch.tensor(volume)).tolist() == fixed(dj.tensor(volume)).tolist()
    assert repr(torch.nn.LPPool3d(2, 3)) == repr(dj.nn.LPPool3d(2, 3))


def test_compiled_pools_are_the_plain_ones() -> None:
    """In one graph, with the gradient."""
    samples = dj.rand(2, 3, 2)

    def pool(x: Any) -> Any:
        values, at = F.fractional_max_pool2d(x, 2, 4, return_indices=True, _random_samples=samples)
        return values * 2, at

    plain_x, compiled_x = (dj.randn(2, 3, 9, 8) for _ in range(2))
    compiled_x = plain_x.clone().requires_grad_()
    plain_x.requires_grad_()
    plain, compiled = pool(plain_x), dj.compile(pool, fullgraph=True)(compiled_x)
    plain[0].sum().backward()
    compiled[0].sum().backward()

    assert plain[0].tolist() == compiled[0].tolist()
    assert plain[1].tolist() == compiled[1].tolist()
    assert plain_x.grad.tolist() == compiled_x.grad.tolist()
