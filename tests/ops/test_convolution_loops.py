"""Eager convolutions by the loops of generated C: bits, threads, forks, and what is refused."""

import os
import signal
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.core.arrays import _products, products
from dynajit.ops.native import _convolutions
from dynajit.ops.rows.networks import convolution_forms

#: (shape of x, of weight, options); channels around a block of 8 and of 16, tiles of 6 and 16.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9, 8), (5, 3, 3, 3), {"padding": 1}),
    ((1, 17, 7, 7), (18, 17, 3, 3), {"stride": 2, "padding": 1}),
    ((2, 8, 6, 9), (33, 8, 2, 3), {"dilation": 2, "padding": 2}),
    ((3, 12, 5, 5), (12, 1, 3, 3), {"groups": 12, "padding": 1}),
    ((2, 6, 20), (4, 3, 5), {"groups": 2, "padding": 2, "stride": 3}),
    ((1, 9, 4, 5, 3), (2, 9, 2, 2, 3), {"padding": (1, 0, 1)}),
    ((1, 20, 6, 6), (7, 20, 1, 1), {"stride": 2}),
    ((1, 7, 1, 1), (3, 7, 3, 3), {"padding": 1}),
]


def results(
    function: Any, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None
) -> list[np.ndarray]:
    """Value and gradients."""
    given = [
        None if a is None else dj.from_numpy(a.copy()).requires_grad_() for a in (x, weight, bias)
    ]
    y = function(*given)
    y.backward(dj.from_numpy(np.sin(np.arange(y.numel(), dtype=x.dtype)).reshape(y.shape)))
    return [y.detach().numpy(), *(g.grad.numpy() for g in given if g is not None)]


def drawn(shape: tuple[int, ...], kernel: tuple[int, ...], dtype: Any, n: int = 1) -> list[Any]:
    values = np.random.default_rng(n)
    return [values.standard_normal(s).astype(dtype) for s in (shape, kernel, kernel[:1])]


@pytest.mark.parametrize("channels", [3, 16, 21])
@pytest.mark.parametrize("stride", [1, 2])
def test_one_image_has_the_bits_that_it_has_among_many(channels: int, stride: int) -> None:
    """Weights are read where they lie for few pixels, and packed for many."""
    x, weight, bias = drawn((40, channels, 14, 13), (24, channels, 3, 3), np.float32)

    def f(x: np.ndarray) -> np.ndarray:
        given = map(dj.from_numpy, (x, weight, bias))
        return F.conv2d(*given, stride=stride, padding=1).numpy()

    alone, among = f(x[:1]), f(x)

    assert alone.tobytes() == among[:1].tobytes()


@pytest.mark.one_python
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_eager_and_compiled_convolutions_have_the_same_bits(
    case: int, dtype: Any, has_bias: bool
) -> None:
    shape, kernel, options = CASES[case]
    x, weight, bias = drawn(shape, kernel, dtype)
    forward = getattr(F, f"conv{len(shape) - 2}d")

    def f(x: Any, weight: Any, bias: Any) -> Any:
        return forward(x, weight, bias, **options)

    for eager, compiled in zip(
        results(f, x, weight, bias if has_bias else None)[:3],  # a bias's gradient is a sum
        results(dj.compile(f), x, weight, bias if has_bias else None)[:3],
        strict=True,
    ):
        assert eager.tobytes() == compiled.tobytes()


@pytest.mark.one_python
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transposed_ones_too(dtype: Any) -> None:
    x, weight, bias = drawn((2, 18, 6, 5), (18, 7, 3, 3), dtype)
    bias = bias[:7]

    def f(x: Any, weight: Any, bias: Any) -> Any:
        return F.conv_transpose2d(x, weight, bias, stride=2, padding=1, output_padding=1)

    for eager, compiled in zip(
        results(f, x, weight, bias)[:3], results(dj.compile(f), x, weight, bias)[:3], strict=True
    ):
        assert eager.tobytes() == compiled.tobytes()


#: (shape of x, of weight, options): tasks of rows, of several images, of channels, of parts of
#: images; rows that fill vectors, and that do not; strides along rows; sums in several passes.
SPREAD: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((3, 32, 24, 24), (40, 32, 3, 3), {"padding": 1}),
    ((9, 24, 7, 7), (300, 24, 3, 3), {"padding": 1}),
    ((1, 24, 40, 32), (24, 24, 3, 3), {"padding": 1}),
    ((2, 17, 31, 33), (24, 17, 5, 5), {"stride": 2, "padding": 2}),
    ((2, 8, 30, 50), (13, 8, 3, 4), {"stride": 3, "dilation": 2}),
    ((2, 40, 300), (64, 40, 9), {"padding": 4}),
    ((2, 4, 9, 10, 16), (24, 4, 3, 3, 3), {"padding": 1}),
    ((2, 48, 14, 14), (48, 12, 3, 3), {"padding": 1, "groups": 4}),
    ((2, 300, 9, 9), (40, 300, 1, 1), {"stride": 2}),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", range(len(SPREAD)))
def test_the_number_of_threads_changes_no_bit(
    case: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is computed is what windows and matrices give in float64."""
    shape, kernel, options = SPREAD[case]
    x, weight, bias = drawn(shape, kernel, dtype)
    forward = getattr(F, f"conv{len(shape) - 2}d")
    found = set()
    for threads in (1, 2, 5):
        monkeypatch.setattr(convolution_forms, "thread_count", lambda count=threads: count)
        values = results(lambda *given: forward(*given, **options), x, weight, bias)
        found.add(b"".join(value.tobytes() for value in values))
    assert 1 == len(found)
    for value, exact in zip(values, exactly(x, weight, bias, options), strict=True):
        tolerance = 1e-12 if dtype is np.float64 else 2e-5
        np.testing.assert_allclose(value, exact, rtol=0, atol=tolerance * np.abs(exact).max())


def exactly(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, options: dict[str, Any]
) -> list[np.ndarray]:
    """Value and gradients in float64, tap by tap: products of what a tap meets."""
    x, weight, bias = (a.astype(np.float64) for a in (x, weight, bias))
    n, groups = x.ndim - 2, options.get("groups", 1)
    stride, dilation = options.get("stride", 1), options.get("dilation", 1)
    padding = options.get("padding", 0)
    wide = np.pad(x, ((0, 0), (0, 0), *((padding, padding),) * n))
    sizes = [
        (wide.shape[2 + d] - dilation * (weight.shape[2 + d] - 1) - 1) // stride + 1
        for d in range(n)
    ]
    lanes = wide.reshape(x.shape[0], groups, -1, *wide.shape[2:])
    kernel = weight.reshape(groups, -1, *weight.shape[1:])
    y = np.zeros((x.shape[0], groups, kernel.shape[1], *sizes))
    taps = list(np.ndindex(*weight.shape[2:]))

    def met(tap: tuple[int, ...]) -> tuple[Any, ...]:
        return (
            ...,
            *(
                slice(k * dilation, k * dilation + stride * (size - 1) + 1, stride)
                for k, size in zip(tap, sizes, strict=True)
            ),
        )

    for tap in taps:
        y += np.einsum("goc,bgc...->bgo...", kernel[(..., *tap)], lanes[met(tap)])
    g = np.sin(np.arange(y.size, dtype=np.float64)).reshape(y.shape)
    for_x, for_weight = np.zeros_like(lanes), np.zeros_like(kernel)
    for tap in taps:
        for_x[met(tap)] += np.einsum("goc,bgo...->bgc...", kernel[(..., *tap)], g)
        own = lanes[met(tap)].reshape(*lanes.shape[:3], -1)
        for_weight[(..., *tap)] = np.einsum("bgcp,bgop->goc", own, g.reshape(*g.shape[:3], -1))
    inside = (..., *(slice(padding, padding + size) for size in x.shape[2:]))
    g = g.reshape(x.shape[0], -1, *sizes)
    return [
        y.reshape(g.shape) + bias.reshape(-1, *(1,) * n),
        for_x.reshape(wide.shape)[inside],
        for_weight.reshape(weight.shape),
        g.sum((0, *range(2, g.ndim))),
    ]


def test_a_forked_child_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has none of the threads that its parent started."""
    monkeypatch.setattr(convolution_forms, "thread_count", lambda: 3)
    x, weight = (dj.from_numpy(a) for a in drawn((4, 32, 24, 24), (32, 32, 3, 3), np.float32)[:2])
    expected = F.conv2d(x, weight).numpy()

    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if F.conv2d(x, weight).numpy().tobytes() == expected.tobytes() else 1)
    assert 0 == os.waitpid(child, 0)[1]


def weight_gradient(
    x: np.ndarray, g: np.ndarray, size: int, groups: int, stride: int, padding: int, dilation: int
) -> np.ndarray:
    """Tap by tap in float64: products of what a tap meets, and of nothing beside."""
    x, g = (a.astype(np.float64).reshape(a.shape[0], groups, -1, *a.shape[2:]) for a in (x, g))
    height, width = g.shape[3:]
    found = np.zeros((groups, g.shape[2], x.shape[2], size, size))
    for i in range(size):
        for j in range(size):
            rows = np.arange(height) * stride + i * dilation - padding
            columns = np.arange(width) * stride + j * dilation - padding
            own = (rows >= 0) & (rows < x.shape[3]), (columns >= 0) & (columns < x.shape[4])
            met = x[..., rows[own[0]][:, None], columns[own[1]]]
            given = g[..., own[0], :][..., own[1]]
            found[..., i, j] = np.einsum("bgohw,bgchw->goc", given, met)
    return found.reshape(-1, *found.shape[2:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [5, 7, 16, 28, 35])
@pytest.mark.parametrize(
    ("outputs", "channels", "size", "stride", "dilation"),
    [(1, 1, 3, 1, 1), (1, 1, 5, 2, 1), (2, 3, 3, 1, 2), (4, 2, 1, 1, 1), (1, 2, 2, 3, 1)],
)
def test_gradients_of_weights_of_few_outputs_meet_only_their_pixels(
    dtype: Any, width: int, outputs: int, channels: int, size: int, stride: int, dilation: int
) -> None:
    """Rows that end within a vector: a pixel that is infinite counts for its own taps only."""
    groups, padding = 3, dilation * (size - 1) // 2
    x, weight, _ = drawn((2, groups * channels, 6, width), (groups * outputs, channels, size, size),
                         dtype)  # fmt: skip
    x[0, 0, 2, 0], x[1, -1, 3, -1] = np.inf, np.nan
    given = dj.from_numpy(weight).requires_grad_()
    y = F.conv2d(dj.from_numpy(x), given, None, stride, padding, dilation, groups)
    g = np.random.default_rng(2).standard_normal(y.shape).astype(dtype)
    y.backward(dj.from_numpy(g))
    with np.errstate(invalid="ignore"):
        exact = weight_gradient(x, g, size, groups, stride, padding, dilation)

    np.testing.assert_allclose(given.grad.numpy(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not _products.addresses(), reason="this CPU is not x86 with fused products")
@pytest.mark.parametrize("outputs", [3, 20])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_sums_go_through_blocks_of_channels_tap_by_tap(outputs: int, size: int) -> None:
    """oneDNN's order on x86, which is one of these by the CPU's vectors: PyTorch's bits."""
    x, weight, bias = drawn((2, 40, 7, 7), (outputs, 40, size, size), np.float32)
    result = F.conv2d(*(dj.from_numpy(a) for a in (x, weight, bias))).numpy()

    def continued(start: np.float32, channels: range, o: int) -> np.float32:
        taps = [(i, j) for i in range(size) for j in range(size)]
        for i, j, c in ((i, j, c) for i, j in taps for c in channels):
            exact = np.longdouble(x[0, c, 1 + i, 2 + j]) * weight[o, c, i, j] + start
            start = np.float32(exact)  # fused: rounded once
        return start

    def one_sum_of_blocks_of_8(o: int) -> np.float32:
        total = bias[o]
        for first in range(0, 40, 8):
            total = continued(total, range(first, first + 8), o)
        return total

    def a_sum_for_each_16_channels(o: int) -> np.float32:
        total, block = bias[o], 40 if size == 1 else 16
        for first in range(0, 40, block):
            total += continued(np.float32(0), range(first, min(first + block, 40)), o)
        return total

    orders = (one_sum_of_blocks_of_8, a_sum_for_each_16_channels)
    expected = [[order(o) for o in range(outputs)] for order in orders]
    assert list(result[0, :, 1, 2]) in expected


def test_most_convolutions_have_the_bits_of_pytorchs() -> None:
    """Where both have loops for this CPU; otherwise they agree to rounding."""
    torch = pytest.importorskip("torch")
    if not _products.addresses():
        pytest.skip("this CPU is not x86 with fused products")
    alike = []
    for channels, outputs, size in [(3, 16, 3), (12, 32, 3), (64, 16, 3), (24, 32, 5), (64, 32, 1)]:
        arrays = drawn((2, channels, 8, 8), (outputs, channels, size, size), np.float32)
        expected = torch.nn.functional.conv2d(*map(torch.from_numpy, arrays), padding=size // 2)
        found = F.conv2d(*map(dj.from_numpy, arrays), padding=size // 2).numpy()
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)
        alike.append(bool((found == expected.numpy()).all()))
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch was built without oneDNN")
    assert sum(alike) >= 4


WRONG: dict[str, Any] = {
    "another dtype": lambda x, w, y: (x.astype(np.float64), w, y),
    "another size": lambda x, w, y: (x, w[:, :1], y),
    "no row-major array": lambda x, w, y: (x.transpose(0, 1, 3, 2), w, y),
    "no room for the result": lambda x, w, y: (x, w, y[:1]),
    "no array": lambda x, w, y: (x, None, y),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_are_not_what_the_sizes_say_are_refused(name: str) -> None:
    x, weight = drawn((2, 3, 6, 6), (4, 3, 3, 3), np.float32)[:2]
    result = np.zeros((2, 4, 4, 4), np.float32)
    sizes = (2, 1, 4, 3, 1, 6, 6, 1, 4, 4, 1, 3, 3, 1, 1, 1, 0, 0, 0, 1, 1, 1)
    source, kernel, to = WRONG[name](x, weight, result)

    with pytest.raises(ValueError, match="row-major"):
        _convolutions.correlate(sizes, False, source, kernel, None, to, 1, True)
    assert not result.any()


def test_sizes_that_are_no_22_numbers_are_refused() -> None:
    x, weight = drawn((2, 3, 6, 6), (4, 3, 3, 3), np.float32)[:2]
    with pytest.raises(ValueError, match="22 sizes"):
        _convolutions.weigh((1, 2), x, x, weight, 1)
    with pytest.raises(ValueError, match="threads"):
        _convolutions.weigh((1,) * 22, x, x, weight, 0)


def test_instructions_that_no_cpu_has_are_refused() -> None:
    with pytest.raises(ValueError, match="no such instructions"):
        _convolutions.use_set("mmx")


def test_as_many_threads_as_products_have() -> None:
    assert convolution_forms.thread_count is products.thread_count
