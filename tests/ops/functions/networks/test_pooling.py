"""Pools against PyTorch: random options, values, positions and gradients; what is refused."""

import random
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F

torch = pytest.importorskip("torch")
T = torch.nn.functional


def compare(
    function: str, x: np.ndarray, *args: Any, tolerance: float = 1e-12, **chosen: Any
) -> None:
    """Values (positions, too, if given) and the gradient of both libraries."""
    ours = dj.from_numpy(x.copy()).requires_grad_()
    theirs = torch.tensor(x, requires_grad=True)
    expected = getattr(T, function)(theirs, *args, **chosen)
    actual = getattr(F, function)(ours, *args, **chosen)
    if isinstance(expected, tuple):
        assert torch.int64 is expected[1].dtype
        np.testing.assert_array_equal(actual[1].numpy(), expected[1].numpy())
        actual, expected = actual[0], expected[0]
    g = np.cos(np.arange(expected.numel())).reshape(tuple(expected.shape)).astype(x.dtype)
    expected.backward(torch.tensor(g))
    actual.backward(dj.from_numpy(g))

    assert tuple(expected.shape) == tuple(actual.shape)
    np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), atol=tolerance)
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), atol=tolerance)


def drawn(seed: int) -> tuple[random.Random, int, np.ndarray, dict[str, Any]]:
    """(source, dims, x, window options) of one random pool."""
    draw = random.Random(seed)
    n = draw.choice([1, 2, 2, 3])
    size = tuple(draw.randint(2, 3) for _ in range(n))
    chosen = {
        "kernel_size": size,
        "stride": draw.choice([None, 1, 2, 3]),
        "padding": tuple(draw.randint(0, k // 2) for k in size),
        "ceil_mode": draw.random() < 0.5,
    }
    lead = (2, 3) if draw.random() < 0.7 else (3,)
    x = np.random.default_rng(seed).standard_normal((*lead, *(draw.randint(5, 9) for _ in size)))
    return draw, n, x, chosen


@pytest.mark.parametrize("seed", range(16))
def test_max_pool_equals_pytorchs(seed: int) -> None:
    """Values, positions and gradients, with overlaps, dilation and hanging windows."""
    draw, n, x, chosen = drawn(seed)
    chosen["dilation"] = draw.randint(1, 2)
    compare(f"max_pool{n}d", x, return_indices=bool(seed % 2), **chosen)


@pytest.mark.parametrize("seed", range(16))
def test_avg_pool_equals_pytorchs(seed: int) -> None:
    """Whatever counts as an element."""
    draw, n, x, chosen = drawn(seed)
    chosen["count_include_pad"] = draw.random() < 0.5
    if n > 1 and seed % 4 == 0:
        chosen["divisor_override"] = 3
    compare(f"avg_pool{n}d", x, **chosen)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("wanted", [1, 2, 3, 7])
def test_adaptive_pool_equals_pytorchs(n: int, kind: str, wanted: int) -> None:
    """Windows that are all alike, and windows that are not."""
    x = np.random.default_rng(n).standard_normal((2, 3, *(6, 7, 4)[:n]))
    name = f"adaptive_{kind}_pool{n}d"
    compare(name, x, wanted, **({"return_indices": True} if kind == "max" else {}))
    sizes = (None, 3, 2)[:n]
    if n > 1:
        compare(name, x[0], sizes)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_lp_pool_equals_pytorchs(p: float) -> None:
    """Of positive numbers, where the derivative exists."""
    x = np.random.default_rng(0).uniform(0.5, 2, (2, 3, 7, 8))
    compare("lp_pool2d", x, p, (2, 3), stride=2, ceil_mode=True)
    compare("lp_pool1d", x[0], p, 3)
    volume = np.random.default_rng(0).uniform(0.5, 2, (2, 3, 4, 5, 6))
    compare("lp_pool3d", volume, p, (2, 3, 2), stride=2, ceil_mode=True)
    compare("lp_pool3d", volume[0], p, 2)


@pytest.mark.parametrize("p", [float("inf"), float("-inf")])
def test_lp_pool_of_infinite_norms_equals_pytorchs(p: float) -> None:
    """The largest and the smallest absolute value."""
    x = np.random.default_rng(1).normal(size=(2, 3, 4, 5, 6))
    compare("lp_pool1d", x[0, 0], p, 2)
    compare("lp_pool2d", x[0], p, (2, 3), stride=2, ceil_mode=True)
    compare("lp_pool3d", x, p, 2, 1)


def test_max_pool_of_special_values() -> None:
    """NaN wins; of equal elements the first gets the gradient; a window of -inf has a position."""
    x = np.array([[[1.0, np.nan, 2.0, 2.0, 3.0, 3.0]]])
    compare("max_pool1d", x, 2, return_indices=True)
    low = np.full((1, 1, 4), -np.inf)
    expected = T.max_pool1d(torch.tensor(low), 2, padding=1, return_indices=True)
    actual = F.max_pool1d(dj.from_numpy(low), 2, padding=1, return_indices=True)
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("form", ["eager", "compiled", "float16"])
@pytest.mark.parametrize("name", ["max_pool1d", "max_pool2d", "max_pool3d"])
def test_windows_of_minus_infinity_choose_an_element_of_the_input(name: str, form: str) -> None:
    """The first one, not the padding before it: the gradient goes there, too."""
    n = int(name[-2])
    x = np.full((2, 1, *(7, 6, 5)[:n]), -np.inf, np.float16 if form == "float16" else np.float64)
    x[1, ..., 3] = np.linspace(-1, 1, x[1, ..., 3].size).reshape(x[1, ..., 3].shape)
    for options in ({"padding": 1}, {"padding": 1, "stride": 1, "dilation": 2}):
        theirs, ours = (f(x).requires_grad_() for f in (torch.tensor, dj.tensor))
        pool = getattr(F, name)
        if form != "eager":
            pool = dj.compile(pool)
        expected = getattr(T, name)(theirs, 3, return_indices=True, **options)
        actual = pool(ours, 3, return_indices=True, **options)
        for left, right in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(left.detach().numpy(), right.detach().numpy())
        actual[0].backward(dj.ones_like(actual[0]))
        expected[0].backward(torch.ones_like(expected[0]))
        np.testing.assert_array_equal(ours.grad.numpy(), theirs.grad.numpy())


def test_unpooling_undoes_pooling() -> None:
    """Elements return to where they were found."""
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 8)).astype(np.float32)
    found, where = T.max_pool2d(torch.tensor(x), 2, return_indices=True)
    expected = T.max_unpool2d(found, where, 2)
    ours, positions = F.max_pool2d(dj.from_numpy(x), 2, return_indices=True)

    np.testing.assert_array_equal(F.max_unpool2d(ours, positions, 2).numpy(), expected.numpy())
    wide = F.max_unpool2d(ours, positions, 2, output_size=(7, 8))
    assert (2, 3, 7, 8) == tuple(wide.shape)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_16_bit_floats_round_once(name: str) -> None:
    """The mean of a window is that of the float32 numbers, rounded."""
    x = dj.randn(2, 3, 6, 6).to(getattr(dj, name))
    for pool in (lambda t: F.avg_pool2d(t, 3, 2, 1), lambda t: F.adaptive_avg_pool2d(t, 4)):
        assert (pool(x) == pool(x.float()).to(x.dtype)).all()


def test_double_backward() -> None:
    """gradgradcheck in float64."""
    x = dj.randn(1, 2, 5, 5, dtype=dj.float64).requires_grad_()
    for pool in (
        lambda t: F.max_pool2d(t, 3, 2, 1),
        lambda t: F.avg_pool2d(t, 3, 2, 1, count_include_pad=False),
        lambda t: F.adaptive_avg_pool2d(t, 3) ** 2,
    ):
        assert dj.autograd.gradcheck(pool, (x,))
        assert dj.autograd.gradgradcheck(pool, (x,))


def test_empty_batches() -> None:
    """No image gives no image."""
    x = dj.zeros(0, 3, 6, 6)
    assert (0, 3, 3, 3) == tuple(F.max_pool2d(x, 2).shape)
    assert (0, 3, 3, 3) == tuple(F.avg_pool2d(x, 2).shape)
    assert (0, 3, 4, 4) == tuple(F.adaptive_avg_pool2d(x, 4).shape)


REFUSED = {
    "padding": (lambda f, z: f.max_pool2d(z(1, 1, 6, 6), 2, padding=2), "at most half"),
    "size": (lambda f, z: f.avg_pool1d(z(1, 1, 2), 5), "too small|greater than actual"),
    "rank": (lambda f, z: f.max_pool2d(z(6, 6), 2), "input"),
    "divisor": (lambda f, z: f.avg_pool2d(z(1, 1, 4, 4), 2, divisor_override=0), "not zero"),
    "stride": (lambda f, z: f.max_pool2d(z(1, 1, 4, 4), 2, stride=0), "stride should"),
    "no elements": (lambda f, z: f.adaptive_avg_pool2d(z(1, 1, 0, 4), 2), "non-zero size"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    """With an error of PyTorch's class that says the same thing."""
    call, substance = REFUSED[name]
    with pytest.raises(RuntimeError, match=substance):
        call(T, torch.zeros)
    with pytest.raises(RuntimeError, match=substance):
        call(F, dj.zeros)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_windows_may_have_more_elements_than_a_byte_counts(dtype: Any) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (2, 3, 40, 41)).astype(dtype)  # many ties
    x[0, 1] = -np.inf

    compare("max_pool2d", x, (17, 19), 3, (8, 9), return_indices=True, tolerance=1e-5)
