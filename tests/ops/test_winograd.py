"""Convolutions by Winograd's form (convolution_winograd.h): how exact they are, infinities and NaN,
threads, and the mode that sums directly."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.core.process import determinism
from dynajit.ops.native import _convolutions
from dynajit.ops.rows.networks import convolution_forms
from tests.ops.test_convolution_settings import Setting, exactly, result_sizes

pytestmark = pytest.mark.one_python

#: Of the largest error of direct sums.
TIMES = 4


@pytest.fixture(autouse=True)
def _default_mode() -> Iterator[None]:
    yield
    dj.use_deterministic_algorithms(False)


def drawn(seed: int, padding: int | None = None) -> Setting:
    """Sizes for which there is the form: odd and even ones, few and many images."""
    random = np.random.default_rng(seed)
    batch, *channels = (int(n) for n in random.integers((1, 32, 32), (10, 90, 90)))
    height, width = (int(n) for n in random.integers((9, 9), (24, 24)))
    around = int(random.integers(3)) if padding is None else padding
    return Setting(
        batch, 1, (channels[0], channels[1]), (height, width), (3, 3), (1, 1), (1, 1),
        (around, around), (0, 0), False, bool(random.integers(2)), "float32",
    )  # fmt: skip


def drawn_further(seed: int) -> Setting:
    """The same with groups, dilations, a third dim and few channels."""
    random = np.random.default_rng(1000 + seed)
    depth = [(), (1,), (2,), (3,)][seed % 4]
    dilation = tuple(int(n) for n in random.integers(1, 2 + seed % 3, 2))
    around = tuple(int(random.integers(2 * step + 1)) for step in dilation)
    sizes = tuple(int(n) for n in random.integers(26, 37, 2))
    inside, outside = (int(n) for n in random.integers(16 * min(max(dilation), 2), 40, 2))
    flat = (1,) * len(depth)
    return Setting(
        int(random.integers(1, 4)), int(random.integers(1, 4)), (inside, outside),
        (*(int(random.integers(3, 6)) for _ in depth), *sizes), (*depth, 3, 3), (*flat, 1, 1),
        (*flat, *dilation), (*(int(random.integers(k)) for k in depth), *around),
        (0,) * (2 + len(depth)), False, bool(random.integers(2)), "float32",
    )  # fmt: skip


def cotangent(s: Setting) -> np.ndarray:
    shape = (s.batch, s.groups * s.channels[1], *result_sizes(s))
    return s.numbers(np.random.default_rng(1), shape)


def ran(function: Any, operands: list[np.ndarray], g: np.ndarray) -> list[np.ndarray]:
    """Value and the gradient of x."""
    x, *rest = (dj.from_numpy(a.copy()) for a in operands)
    y = function(x.requires_grad_(), *rest)
    y.backward(dj.from_numpy(g))
    return [y.detach().numpy(), x.grad.numpy()]


def directly(function: Any, *given: Any) -> list[np.ndarray]:
    dj.use_deterministic_algorithms(True)
    found = ran(function, *given)
    dj.use_deterministic_algorithms(False)
    return found


def forward(x: np.ndarray, weight: np.ndarray, **options: Any) -> np.ndarray:
    return F.conv2d(*map(dj.from_numpy, (x, weight)), **options).numpy()


@pytest.mark.parametrize("draw", [drawn, drawn_further])
@pytest.mark.parametrize("first", range(0, 16, 4))
def test_results_are_as_exact_as_direct_sums(
    first: int, draw: Callable[[int], Setting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside float64; any number of threads gives the same bits, and so does compiling."""
    for seed in range(first, first + 4):
        s = draw(seed)
        operands, g = s.operands(seed), cotangent(s)
        found = []
        for threads in (1, 2, 5):
            monkeypatch.setattr(convolution_forms, "thread_count", lambda count=threads: count)
            found.append(ran(s, operands, g))
        if seed == first:
            found.append(ran(dj.compile(s), operands, g))
        direct = directly(s, operands, g)
        for of_form, of_sums, exact in zip(
            zip(*found, strict=True), direct, exactly(s, operands, g), strict=False
        ):
            assert 1 == len({a.tobytes() for a in of_form}), s
            assert of_form[0].tobytes() != of_sums.tobytes(), s
            error, allowed = (np.abs(a - exact).max() for a in (of_form[0], of_sums))
            assert error <= TIMES * allowed, (s, error / allowed)


@pytest.mark.parametrize("name", ["plain", "avx2", "avx512"])
def test_each_instruction_set_has_the_form(name: str) -> None:
    s = drawn(3)
    operands, g = s.operands(3), cotangent(s)
    try:
        before = _convolutions.use_set(name)
    except ValueError as refused:
        pytest.skip(str(refused))
    try:
        found, direct = ran(s, operands, g), directly(s, operands, g)
    finally:
        _convolutions.use_set(before)

    for value, sums, exact in zip(found, direct, exactly(s, operands, g), strict=False):
        assert value.tobytes() != sums.tobytes()
        assert np.abs(value - exact).max() <= TIMES * np.abs(sums - exact).max()


@pytest.mark.parametrize("padding", [0, 1, 2])
def test_the_deterministic_mode_has_the_bits_of_pytorch(padding: int) -> None:
    torch = pytest.importorskip("torch")
    s = drawn(5, padding)
    x, weight, *bias = s.operands(5)
    expected = torch.conv2d(*map(torch.from_numpy, (x, weight, *bias)), padding=padding).numpy()

    found = directly(s, [x, weight, *bias], cotangent(s))[0]

    assert expected.tobytes() == found.tobytes()


def test_a_compiled_function_follows_the_mode() -> None:
    """Without being compiled again."""
    s = drawn(6)
    operands, g = s.operands(6), cotangent(s)
    compiled = dj.compile(s, fullgraph=True)
    before = ran(compiled, operands, g)

    with dj.config.override(stance="fail_on_recompile"):
        direct = directly(compiled, operands, g)
        after = ran(compiled, operands, g)

    for first, sums, second, eager in zip(
        before, direct, after, directly(s, operands, g), strict=True
    ):
        assert first.tobytes() == second.tobytes()
        assert sums.tobytes() == eager.tobytes() != first.tobytes()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
@pytest.mark.parametrize("where", ["x", "weight", "bias", "g"])
@pytest.mark.parametrize("compiles", [False, True])
def test_what_is_not_finite_is_summed_directly(where: str, value: float, compiles: bool) -> None:
    """Winograd's form would make NaN of infinities, and infinities of large numbers."""
    values = np.random.default_rng(4)
    x = values.standard_normal((2, 33, 12, 13)).astype(np.float32)
    weight = values.standard_normal((35, 33, 3, 3)).astype(np.float32)
    bias = values.standard_normal(35).astype(np.float32)
    g = values.standard_normal((2, 35, 12, 13)).astype(np.float32)
    given = {"x": x, "weight": weight, "bias": bias, "g": g}[where]
    given.reshape(-1)[[0, given.size // 2]] = value
    if value == 3e38:
        given *= np.float32(0.5)

    def f(x: Any, weight: Any, bias: Any) -> Any:
        return F.conv2d(x, weight, bias, padding=1)

    function = dj.compile(f) if compiles else f
    found = ran(function, [x, weight, bias], g)

    for value_found, sums in zip(found, directly(f, [x, weight, bias], g), strict=True):
        if np.isfinite(sums).all():
            np.testing.assert_allclose(value_found, sums, rtol=1e-4, atol=1e-4 * np.abs(sums).max())
        else:
            assert sums.tobytes() == value_found.tobytes()


def test_a_relu_keeps_nan_and_is_fused() -> None:
    s = drawn(8)
    x, weight = s.operands(8)[:2]
    compiled = dj.compile(lambda x, weight: F.relu(F.conv2d(x, weight, padding=1)))

    def run(x: np.ndarray) -> np.ndarray:
        return compiled(*map(dj.from_numpy, (x, weight))).numpy()

    expected = np.maximum(forward(x, weight, padding=1), 0)
    assert expected.tobytes() == run(x).tobytes()
    x[0, 0, 0, 0] = np.nan
    assert np.isnan(run(x)[0, :, :2, :2]).all()
    assert np.isnan(run(x)).sum() == 4 * weight.shape[0]


@pytest.mark.parametrize("turned", [(0, 1, 3, 2), (0, 2, 3, 1), (1, 0, 2, 3)])
def test_operands_may_lie_in_any_order(turned: tuple[int, ...]) -> None:
    values = np.random.default_rng(9)
    x = values.standard_normal((40, 40, 20, 20)).astype(np.float32)[:, :, 2:, 2:]
    weight = values.standard_normal((64, 40, 3, 3)).astype(np.float32)
    order = np.argsort(turned)
    other = np.ascontiguousarray(x.transpose(turned)).transpose(order)

    assert forward(x.copy(), weight).tobytes() == forward(other, weight).tobytes()


@pytest.mark.parametrize(
    ("x", "weight", "options"),
    [
        ((2, 15, 14, 14), (40, 15, 3, 3), {}),
        ((2, 40, 14, 14), (15, 40, 3, 3), {}),
        ((2, 32, 14, 14), (32, 32, 3, 3), {"stride": 2}),
        ((2, 32, 14, 14), (32, 32, 3, 3), {"dilation": 12, "padding": 12}),
        ((2, 64, 14, 14), (64, 8, 3, 3), {"groups": 8}),
        ((2, 32, 14, 14), (32, 32, 3, 3), {"padding": 3}),
        ((2, 32, 14, 14), (32, 32, 3, 1), {}),
        ((1, 32, 5, 5), (32, 32, 3, 3), {"padding": 1}),
        ((40, 32, 3, 14), (64, 32, 3, 3), {}),
    ],
)
def test_others_are_summed_directly(
    x: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any]
) -> None:
    """Few channels or tiles, steps, small groups, wide edges, other windows, one row of results."""
    values = np.random.default_rng(2)
    operands = [values.standard_normal(shape).astype(np.float32) for shape in (x, weight)]
    assert not determinism.is_required()
    found = forward(*operands, **options)
    dj.use_deterministic_algorithms(True)

    assert forward(*operands, **options).tobytes() == found.tobytes()


def test_one_graph_serves_every_size() -> None:
    """Whether the form is used is found out at each call."""
    values = np.random.default_rng(7)
    weight = values.standard_normal((48, 36, 3, 3)).astype(np.float32)
    layer = dj.nn.Conv2d(36, 48, 3, padding=1, bias=False)
    layer.weight = dj.nn.Parameter(dj.from_numpy(weight))
    compiled = dj.compile(layer, dynamic=True, fullgraph=True)
    for shape in ((1, 36, 4, 4), (2, 36, 16, 16), (3, 36, 9, 11), (1, 36, 40, 7)):
        x = values.standard_normal(shape).astype(np.float32)
        found = compiled(dj.from_numpy(x)).detach().numpy()
        assert forward(x, weight, padding=1).tobytes() == found.tobytes(), shape
