"""Convolutions against PyTorch: random options, values and gradients; what is refused."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.codegen.c.products import FEW_COLUMNS
from dynajit.ops.native import _convolutions
from dynajit.ops.rows.networks import convolution_forms

torch = pytest.importorskip("torch")
T = torch.nn.functional


def options(seed: int) -> tuple[int, dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    """(dims, options, shape of x, shape of weight) of one random convolution."""
    draw = random.Random(seed)
    n = draw.choice([1, 2, 2, 3])
    groups = draw.choice([1, 1, 2, 3])
    per_group, outputs = draw.choice([1, 2]), groups * draw.choice([1, 2])
    size = [draw.choice([1, 2, 3]) for _ in range(n)]
    chosen = {
        "stride": tuple(draw.choice([1, 1, 2]) for _ in range(n)),
        "dilation": tuple(draw.choice([1, 1, 2]) for _ in range(n)),
        "padding": tuple(draw.choice([0, 1, 2]) for _ in range(n)),
        "groups": groups,
    }
    shape = (draw.choice([1, 2]), groups * per_group, *(draw.randint(5, 7) for _ in range(n)))
    return n, chosen, shape, (outputs, per_group, *size)


def compare(function: str, arrays: list[Any], chosen: dict[str, Any], tolerance: float) -> None:
    """Value and gradients of a function of both libraries."""
    ours = [None if a is None else dj.from_numpy(a.copy()).requires_grad_() for a in arrays]
    theirs = [None if a is None else torch.tensor(a, requires_grad=True) for a in arrays]
    expected = getattr(T, function)(*theirs, **chosen)
    actual = getattr(F, function)(*ours, **chosen)
    g = np.cos(np.arange(expected.numel())).reshape(tuple(expected.shape)).astype(arrays[0].dtype)
    expected.backward(torch.tensor(g))
    actual.backward(dj.from_numpy(g))

    np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), atol=tolerance)
    for mine, other in zip(ours, theirs, strict=True):
        if mine is not None:
            np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), atol=tolerance)


@pytest.fixture(params=["loops", "plain loops", "columns"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Every way to compute a convolution: loops for the CPU at hand and for any, and columns, which
    are those of GPUs."""
    if request.param == "columns":
        monkeypatch.setattr(convolution_forms, "_has_loops", lambda *arguments: False)
    before = _convolutions.use_set("plain") if request.param == "plain loops" else None
    yield str(request.param)
    if before is not None:
        _convolutions.use_set(before)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_convolution_equals_pytorchs(way: str, seed: int, dtype: Any) -> None:
    """Value and every gradient, with and without bias."""
    n, chosen, shape, kernel = options(seed)
    values = np.random.default_rng(seed)
    arrays = [values.standard_normal(s).astype(dtype) for s in (shape, kernel, kernel[:1])]
    arrays[2] = None if seed % 3 == 0 else arrays[2]

    compare(f"conv{n}d", arrays, chosen, 1e-4 if dtype is np.float32 else 1e-11)


@pytest.mark.parametrize("seed", range(12))
def test_transposed_convolution_equals_pytorchs(way: str, seed: int) -> None:
    """Value and every gradient, with output padding up to the stride or dilation."""
    n, chosen, shape, kernel = options(seed)
    draw = random.Random(seed)
    pairs = zip(chosen["stride"], chosen["dilation"], strict=True)
    chosen["output_padding"] = tuple(draw.randrange(max(s, d)) for s, d in pairs)
    chosen["padding"] = tuple(min(p, 1) for p in chosen["padding"])
    values = np.random.default_rng(seed)
    x = values.standard_normal((shape[0], kernel[0], *shape[2:]))
    bias = values.standard_normal(kernel[1] * chosen["groups"])

    compare(f"conv_transpose{n}d", [x, values.standard_normal(kernel), bias], chosen, 1e-11)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_16_bit_floats_compute_in_float32(name: str) -> None:
    """One rounding: the result is the float32 convolution of the same numbers, rounded."""
    dtype = getattr(dj, name)
    x, w, b = dj.randn(2, 3, 5, 5).to(dtype), dj.randn(4, 3, 3, 3).to(dtype), dj.randn(4).to(dtype)
    wide = F.conv2d(x.float(), w.float(), b.float(), padding=1)

    result = F.conv2d(x, w, b, padding=1)

    assert dtype is result.dtype
    assert (result == wide.to(dtype)).all()


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("size", [(3, 3), (2, 4)])
def test_named_padding_equals_pytorchs(padding: str, size: tuple[int, int]) -> None:
    """ "same" adds the larger half at the end."""
    values = np.random.default_rng(0)
    arrays = [values.standard_normal((2, 3, 6, 7)), values.standard_normal((4, 3, *size)), None]

    compare("conv2d", arrays, {"padding": padding, "dilation": (2, 1)}, 1e-11)


def test_one_image_needs_no_batch() -> None:
    """(C, H, W) is a batch of one, forward and transposed."""
    x, w = dj.randn(3, 6, 6), dj.randn(4, 3, 3, 3)
    up = dj.randn(3, 2, 3, 3)

    assert (F.conv2d(x, w) == F.conv2d(x[None], w)[0]).all()
    assert (F.conv_transpose2d(x, up) == F.conv_transpose2d(x[None], up)[0]).all()


def test_empty_batches_and_strided_operands() -> None:
    """No image gives no image; views are read where they lie."""
    w = dj.randn(4, 3, 3, 3).requires_grad_()
    empty = F.conv2d(dj.randn(0, 3, 6, 6), w)
    empty.sum().backward()
    assert (0, 4, 4, 4) == tuple(empty.shape)
    assert 0 == float(w.grad.abs().sum())

    x = dj.randn(6, 5, 3, 2).permute(3, 2, 0, 1)
    expected = F.conv2d(x.contiguous(), w)
    assert bool((F.conv2d(x, w) - expected).abs().max() < 1e-6)


def test_columns_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the bound, the result is the same: by images, and by rows of an image."""
    monkeypatch.setattr(convolution_forms, "_has_loops", lambda *arguments: False)
    values = np.random.default_rng(0)
    arrays = [values.standard_normal(s) for s in ((3, 2, 9, 8), (4, 2, 3, 3), (4,))]
    for most in (1, 2000, 20_000):
        monkeypatch.setattr(convolution_forms, "COLUMN_BYTES", most)
        compare("conv2d", arrays, {"padding": 1}, 1e-11)


@pytest.mark.parametrize("groups", [1, 2])
def test_double_backward(groups: int) -> None:
    """gradcheck and gradgradcheck in float64."""
    x = dj.randn(1, 2, 4, 4, dtype=dj.float64).requires_grad_()
    w = dj.randn(2, 2 // groups, 2, 2, dtype=dj.float64).requires_grad_()
    b = dj.randn(2, dtype=dj.float64).requires_grad_()

    def forward(x: Any, w: Any, b: Any) -> Any:
        return F.conv2d(x, w, b, stride=(2, 1), padding=1, groups=groups)

    def transposed(x: Any, w: Any) -> Any:
        return F.conv_transpose2d(x, w, stride=2, groups=groups)

    assert dj.autograd.gradcheck(forward, (x, w, b))
    assert dj.autograd.gradgradcheck(forward, (x, w, b))
    assert dj.autograd.gradgradcheck(transposed, (x, w))


@pytest.mark.parametrize("seed", range(4))
def test_unfold_and_fold_equal_pytorchs(seed: int) -> None:
    """Values and gradients."""
    draw = random.Random(seed)
    chosen = {
        "kernel_size": (draw.randint(1, 3), draw.randint(1, 3)), "dilation": draw.randint(1, 2),
        "padding": draw.randint(0, 1), "stride": (draw.randint(1, 2), draw.randint(1, 3)),
    }  # fmt: skip
    values = np.random.default_rng(seed)
    x = values.standard_normal((2, 3, 6, 7))
    compare("unfold", [x], chosen, 1e-12)
    columns = tuple(T.unfold(torch.tensor(x), **chosen).shape)
    compare("fold", [values.standard_normal(columns)], {"output_size": (6, 7), **chosen}, 1e-12)


REFUSED = {
    "channels": (lambda f, z: f.conv2d(z(2, 4, 5, 5), z(3, 3, 2, 2)), "to have 3 channels"),
    "kernel": (lambda f, z: f.conv2d(z(2, 3, 2, 2), z(3, 3, 5, 5)), "greater than actual input"),
    "groups": (lambda f, z: f.conv2d(z(2, 4, 5, 5), z(3, 2, 2, 2), groups=2), "divisible"),
    "bias": (lambda f, z: f.conv2d(z(2, 3, 5, 5), z(4, 3, 2, 2), z(3)), "expected bias"),
    "rank": (lambda f, z: f.conv2d(z(5, 5), z(4, 3, 2, 2)), r"batched\) input to conv2d"),
    "padding": (lambda f, z: f.conv1d(z(2, 3, 5), z(4, 3, 2), padding=-1), "negative padding"),
    "stride": (lambda f, z: f.conv1d(z(2, 3, 5), z(4, 3, 2), stride=0), "non-positive stride"),
    "strided same": (
        lambda f, z: f.conv1d(z(2, 3, 5), z(4, 3, 2), stride=2, padding="same"), "strided",
    ),
    "transposed channels": (
        lambda f, z: f.conv_transpose1d(z(2, 4, 5), z(3, 3, 2)), "to have 3 channels",
    ),
    "output padding": (
        lambda f, z: f.conv_transpose1d(z(2, 3, 5), z(3, 3, 2), output_padding=1),
        "output padding must be smaller",
    ),
    "fold": (
        lambda f, z: f.fold(z(1, 4, 5), (4, 4), (2, 2)), "number of sliding blocks",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    """With an error of PyTorch's class that says the same thing."""
    call, substance = REFUSED[name]
    with pytest.raises((RuntimeError, ValueError), match=substance):
        call(T, torch.zeros)
    with pytest.raises((RuntimeError, ValueError), match=substance):
        call(F, dj.zeros)


def test_dtypes_are_not_mixed() -> None:
    """As PyTorch: a cast is the user's business; bools have no convolution."""
    with pytest.raises((RuntimeError, TypeError), match="should be the same"):
        F.conv1d(dj.zeros(1, 2, 4), dj.zeros(3, 2, 2, dtype=dj.float64))
    with pytest.raises(NotImplementedError, match="not implemented for bool"):
        F.conv1d(dj.zeros(1, 2, 4, dtype=dj.bool), dj.zeros(3, 2, 2, dtype=dj.bool))


BIASES = ("bool", "int32", "int64", "float32", "float64", "complex64")


@pytest.mark.parametrize(
    "function", [f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)]
)
@pytest.mark.parametrize("name", ["int64", "float32", "complex64"])
def test_a_bias_of_another_dtype_is_taken_or_refused_as_in_pytorch(
    function: str, name: str
) -> None:
    """Refused but for real transposed convolutions of one and two dims, which keep their dtype."""
    n = int(function[-2])

    def outcome(library: Any, bias: str) -> Any:
        dtype = getattr(library, name)
        x = library.ones(1, 2, *(3,) * n).to(dtype)
        weight = library.ones(2, 2, *(2,) * n).to(dtype)
        call = getattr(library.nn.functional, function)
        try:
            result = call(x, weight, library.ones(2).to(getattr(library, bias)))
        except RuntimeError:
            return RuntimeError
        return str(result.dtype).split(".")[-1], result.tolist()

    expected = {bias: outcome(torch, bias) for bias in BIASES}
    assert expected == {bias: outcome(dj, bias) for bias in BIASES}


@pytest.mark.parametrize("shape", [(), (1,), (2,), (3, 1), (1, 3)], ids=str)
@pytest.mark.parametrize("name", ["int64", "float32", "complex64"])
@pytest.mark.parametrize("function", ["conv1d", "conv_transpose1d"])
def test_a_bias_of_other_sizes_is_refused(function: str, name: str, shape: tuple[int, ...]) -> None:
    size = (2, 3, 2) if "transpose" in function else (3, 2, 2)
    for library in (torch, dj):
        x, weight, bias = (
            library.ones(*sizes).to(getattr(library, name)) for sizes in ([1, 2, 4], size, [shape])
        )
        with pytest.raises(RuntimeError, match="bias to be 1-dimensional with 3 elements"):
            getattr(library.nn.functional, function)(x, weight, bias)


INTEGERS = ("int64", "int32", "int16", "int8", "uint8")


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("is_transposed", [False, True])
def test_convolutions_of_integers_are_pytorchs(seed: int, is_transposed: bool) -> None:
    """They wrap, as products of integers do; transposed ones are of int64 only."""
    n, chosen, shape, kernel = options(seed)
    name = "int64" if is_transposed else INTEGERS[seed % len(INTEGERS)]
    if name != "int64":
        chosen["dilation"] = 1  # PyTorch has others of int64 only
    function = f"conv_transpose{n}d" if is_transposed else f"conv{n}d"
    groups = chosen["groups"]
    if is_transposed:
        kernel = (shape[1], kernel[0] // groups, *kernel[2:])
    draw = np.random.default_rng(seed)
    x, weight = draw.integers(0, 100, shape), draw.integers(0, 100, kernel)
    bias = draw.integers(0, 100, kernel[1] * groups if is_transposed else kernel[0])

    def outcome(library: Any) -> Any:
        dtype = getattr(library, name)
        given = [library.tensor(array.tolist(), dtype=dtype) for array in (x, weight, bias)]
        try:
            result = getattr(library.nn.functional, function)(*given, **chosen)
        except RuntimeError:
            return "refused"
        return result.tolist(), result.dtype is dtype

    assert outcome(torch) == outcome(dj)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [("conv1d", "bool"), ("conv_transpose1d", "bool"), ("conv_transpose1d", "int32")],
)
def test_integers_that_pytorch_does_not_convolve_are_refused(function: str, dtype: str) -> None:
    for library in (torch, dj):
        x, weight = (library.ones(1, 1, n).to(getattr(library, dtype)) for n in (4, 2))
        with pytest.raises(NotImplementedError):
            getattr(library.nn.functional, function)(x, weight)


def test_a_convolution_of_integers_is_compiled() -> None:
    x, weight = dj.arange(32).view(1, 2, 4, 4), dj.arange(16).view(2, 2, 2, 2)

    def program(x: Any, weight: Any) -> Any:
        return F.conv2d(x, weight, padding=1) + 1

    compiled = dj.compile(program, fullgraph=True)
    assert program(x, weight).tolist() == compiled(x, weight).tolist()


#: batch, channels, outputs, sizes, stride: an image alone fills its vectors of columns; it does
#: not, and one product is made of all images; or it does not, and copies cost more.
POINTWISE = [
    (2, 5, 7, (9, 8), (2, 2)),
    (3, 280, 290, (7, 7), (1, 1)),
    (3, 280, 290, (13, 14), (2, 2)),
    (5, 80, 72, (2, 3), (2, 3)),
    (4, 6, 300, (7, 7), (1, 1)),
    (1, 280, 290, (7, 7), (1, 1)),
    (3, 75, 80, (5,), (1,)),
    (2, 70, 90, (3, 2, 3), (2, 1, 2)),
]


@pytest.mark.parametrize("batch, channels, outputs, sizes, stride", POINTWISE)
def test_windows_of_one_element_are_products(
    batch: int, channels: int, outputs: int, sizes: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    """Of PyTorch's values and gradients; compiled they have the same, and the same bits."""
    n = len(sizes)
    values = np.random.default_rng(channels)
    shapes = [(batch, channels, *sizes), (outputs, channels, *((1,) * n)), (outputs,)]
    x, weight, bias = (values.standard_normal(shape) for shape in shapes)
    compare(f"conv{n}d", [x, weight, bias], {"stride": stride}, 1e-11)
    up = values.standard_normal((batch, outputs, *sizes))
    compare(f"conv_transpose{n}d", [up, weight, None], {"stride": stride}, 1e-11)

    def step(x: Any, weight: Any, bias: Any) -> Any:
        y = getattr(F, f"conv{n}d")(x, weight, bias, stride=stride)
        return y, *dj.autograd.grad(y.square().sum(), (x, weight, bias))

    given = [dj.from_numpy(a).requires_grad_() for a in (x, weight, bias)]
    expected = step(*given)
    for mine, other in zip(dj.compile(step)(*given), expected, strict=True):
        assert dj.allclose(mine, other, rtol=1e-12, atol=1e-11)
    short = [dj.from_numpy(a.astype(np.float32)) for a in (x, weight)]
    function = getattr(F, f"conv{n}d")
    actual, eager = (each(*short, stride=stride) for each in (dj.compile(function), function))
    if eager[0, 0].numel() >= FEW_COLUMNS:  # fewer are summed in another order, see few_products.h
        assert dj.equal(actual, eager)


def test_images_of_any_number_share_a_product() -> None:
    """With a number of images that varies, in one version."""
    weight = dj.randn(290, 280, 1, 1)
    compiled = dj.compile(F.conv2d, dynamic=True)
    for batch in (3, 4, 9):
        x = dj.randn(batch, 280, 7, 7)
        assert dj.allclose(compiled(x, weight), F.conv2d(x, weight), atol=1e-4)
    assert not compiled.report().recompiles
