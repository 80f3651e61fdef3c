"""One version of a function serves many sizes: results, gradients, numbers of versions.

Every program runs on sizes that are equal and unequal, odd and even, 0, 1 and 2, and is compared
with plain eager execution, on which nothing here depends.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn
from dynajit.core.errors import DynamicSizeError

F = nn.functional
N, M = "n", "m"
#: In this order: 2 and more varies from the second call on; 1 and 0 are versions of their own.
SIZES = ((8, 5), (3, 7), (4, 4), (2, 2), (9, 2), (2, 9), (1, 3), (6, 10), (0, 3), (12, 12))

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[Any, ...], ...]]] = {
    "view": (lambda x: x.view(x.shape[0] * x.shape[1]), ((N, M),)),
    "reshape -1": (lambda x: x.reshape(-1, 2), ((N, 4),)),
    "flatten": (lambda x: x.flatten(1), ((N, M, 3),)),
    "size()": (lambda x: x * x.size(0) + x.size(-1), ((N, M),)),
    "numel": (lambda x: x.sum() / x.numel(), ((N, M),)),
    "len": (lambda x: x * len(x), ((N, 3),)),
    "mean by hand": (lambda x: x.sum(0) / x.shape[0], ((N, 3),)),
    "zeros": (lambda x: dj.zeros(x.shape[0], 3) + x, ((N, 3),)),
    "arange": (lambda x: dj.arange(x.shape[0]) * x, ((N,),)),
    "cat": (lambda x, y: dj.cat([x, y]), ((N, 3), (M, 3))),
    "stack": (lambda x, y: dj.stack([x, y], 1), ((N, 3), (N, 3))),
    "neighbours": (lambda x: x[1:] - x[:-1], ((N, 3),)),
    "half": (lambda x: x[: x.shape[0] // 2], ((N, 3),)),
    "every second": (lambda x: x[::2], ((N, 3),)),
    "last": (lambda x: x[-1] + x[x.shape[0] - 1], ((N, 3),)),
    "matmul": (lambda x, y: x @ y, ((N, M), (M, 3))),
    "batched matmul": (lambda x, y: x @ y, ((N, 3, M), (N, M, 3))),
    "softmax": (lambda x: x.softmax(0).log_softmax(1), ((N, M),)),
    "var": (lambda x: x.var(0) + x.std(), ((N, 3),)),
    "pad": (lambda x: F.pad(x, (1, 2)), ((N, M),)),
    "expand": (lambda x: x.unsqueeze(1).expand(-1, 4, -1), ((N, M),)),
    "repeat": (lambda x: x.repeat(2, 1), ((N, M),)),
    "transpose": (lambda x: (x.t() * 2).contiguous(), ((N, M),)),
    "transposed result": (lambda x: x.t() * 2, ((N, M),)),
    "heads": (lambda x: x.transpose(0, 1).reshape(x.shape[1], -1), ((N, M, 2),)),
    "chunk": (lambda x: x.chunk(2, dim=1)[0], ((N, 4),)),
    "branch": (lambda x: x * 2 if x.shape[0] > 4 else x * 3, ((N, 3),)),
    "equal sizes": (
        lambda x, y: x + y if x.shape[0] == y.shape[0] else x.sum() + y.sum(), ((N,), (M,))
    ),
    "divisible": (lambda x: x if x.shape[0] % 2 == 0 else x + 1, ((N, 3),)),
    "returned sizes": (lambda x: (x + 1, x.shape, x.shape[0] // 2, len(x) * 2.5), ((N, M),)),
    "range": (lambda x: sum(x[i] for i in range(x.shape[0])), ((N, 3),)),
    "rows": (lambda x: sum(row for row in x), ((N, 3),)),
    "text": (lambda x: (x + 1, f"{x.shape[0]} rows"), ((N, 3),)),
    "dict key": (lambda x: x * {2: 1.0}.get(x.shape[0], 3.0), ((N, 3),)),
    "embedding": (lambda x, w: F.embedding(x.long(), w), ((N, M), (5, 3))),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        ((2, N, 4), (2, N, 4), (2, N, 4)),
    ),
    "cross-entropy": (lambda x, y: F.cross_entropy(x, y.long().clamp(0, 2)), ((N, 3), (N,))),
    "mse": (lambda x, y: F.mse_loss(x, y), ((N, M), (N, M))),
    "layer norm": (lambda x: F.layer_norm(x, (4,)), ((N, 4),)),
    "layer norm of a varying shape": (lambda x: F.layer_norm(x, x.shape[1:]), ((N, M),)),
    "max": (lambda x: x.max(0).values + x.argmax(0), ((N, M),)),
    "sort": (lambda x: x.sort(0).values, ((N, 3),)),
    "cumsum": (lambda x: x.cumsum(0), ((N, 3),)),
    "tril": (lambda x: x.tril(), ((N, M),)),
    "eye": (lambda x: dj.eye(x.shape[0]) * x.sum(), ((N, 3),)),
    "root": (lambda x: x / x.shape[0] ** 0.5, ((N, 3),)),
    "math.sqrt": (lambda x: x / math.sqrt(x.shape[-1]), ((3, N),)),
    "min": (lambda x, y: x[: min(x.shape[0], y.shape[0])], ((N, 3), (M,))),
    "max of sizes": (lambda x, y: x.new_zeros(max(x.shape[0], len(y)), 2), ((N, 3), (M,))),
    "one_hot": (lambda x: F.one_hot(x.long().clamp(0, 3), 4), ((N,),)),
    "roll": (lambda x: x.roll(1, 0), ((N, 3),)),
    "outer": (lambda x, y: x[:, None] * y[None], ((N,), (M,))),
    "squeeze": (lambda x: x[:, :1].squeeze(1), ((N, 3),)),
    "squeeze of what may be 1": (lambda x: x[1:].squeeze(), ((N, 3),)),
    "glu": (lambda x: F.glu(x), ((3, N),)),
    "einsum": (lambda x, y: dj.einsum("ij,jk->ik", x, y), ((N, M), (M, 3))),
    "is_contiguous": (lambda x: (x + 1, x.t().is_contiguous()), ((N, M),)),
}  # fmt: skip

#: Programs that need the number itself: one version per size.
SPECIALISED = {"range", "rows", "text", "dict key", "math.sqrt"}


def tensors(shapes: tuple[tuple[Any, ...], ...], n: int, m: int) -> list[dj.Tensor]:
    random = np.random.default_rng(n * 100 + m)
    known = {N: n, M: m}
    return [
        dj.from_numpy(
            random.uniform(0.5, 2.0, tuple(known.get(size, size) for size in shape)).astype("f4")
        )
        for shape in shapes
    ]


def assert_same(expected: Any, actual: Any) -> None:
    if isinstance(expected, dj.Tensor):
        assert tuple(expected.shape) == tuple(actual.shape)
        assert expected.dtype == actual.dtype
        if not {0, 1} & set(expected.shape):
            assert expected.stride() == actual.stride()
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=2e-5, atol=1e-5)
    elif type(expected) is tuple:
        for one, other in zip(expected, actual, strict=True):
            assert_same(one, other)
    else:
        assert type(expected) is type(actual)
        assert expected == actual


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:dynajit:RuntimeWarning")
def test_results_equal_eager_for_every_size(name: str) -> None:
    program, shapes = PROGRAMS[name]
    compiled = dj.compile(program, backend="numpy", fullgraph=True)
    for n, m in SIZES:
        arguments = tensors(shapes, n, m)
        try:
            expected = program(*arguments)
        except Exception:  # the program refuses this size
            continue
        assert_same(expected, compiled(*arguments))

    if name not in SPECIALISED:
        # A static one, one or two for n >= 2, one each for results of size 1, for 1 and for 0.
        assert compiled.report().entries <= 6


@pytest.mark.parametrize(
    "name",
    ["mean by hand", "view", "cat", "neighbours", "matmul", "softmax", "var", "attention",
     "cross-entropy", "layer norm of a varying shape", "max", "outer", "transposed result"],
)  # fmt: skip
def test_gradients_equal_eager_for_every_size(name: str) -> None:
    program, shapes = PROGRAMS[name]
    compiled = dj.compile(program, backend="numpy", fullgraph=True)
    for n, m in SIZES[:6]:
        results = []
        for called in (program, compiled):
            leaves = [x.requires_grad_() for x in tensors(shapes, n, m)]
            value = called(*leaves)
            (value * value).sum().backward()
            results.append((value.detach(), *(x.grad for x in leaves if x.grad is not None)))
        for expected, actual in zip(*results, strict=True):
            np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=2e-4, atol=1e-4)

    assert compiled.report().entries <= 4


@pytest.mark.parametrize("backend", ["eager", "numpy", "native"])
def test_thirty_batch_sizes_cost_two_compiles(backend: str) -> None:
    dj.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))

    def loss_of(x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y)

    compiled = dj.compile(loss_of, backend=backend, fullgraph=True)
    random = np.random.default_rng(0)
    for n in (32, 48, 7, 2, 9, *random.integers(2, 100, 25).tolist()):
        x, y = dj.randn(n, 6), dj.from_numpy(random.integers(0, 3, (n,)))
        gradients = []
        losses = []
        for called in (compiled, loss_of):
            model.zero_grad()
            loss = called(x, y)
            loss.backward()
            losses.append(loss.item())
            gradients.append([parameter.grad.numpy().copy() for parameter in model.parameters()])
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
        for actual, expected in zip(*gradients, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-5)

    assert 2 == compiled.report().entries


def test_dynamic_true_serves_every_size_with_one_version() -> None:
    compiled = dj.compile(lambda x, w: (x @ w).relu().mean(0), dynamic=True, backend="numpy")
    for n, m in ((8, 4), (5, 5), (4, 9)):
        x, w = dj.randn(n, m), dj.randn(m, 3)
        np.testing.assert_allclose(
            compiled(x, w).numpy(), (x @ w).relu().mean(0).numpy(), rtol=1e-5, atol=1e-6
        )

    assert 1 == compiled.report().entries


def test_dynamic_true_leaves_sizes_to_the_parameters_that_force_them() -> None:
    layer = nn.Linear(8, 3)
    compiled = dj.compile(lambda x: layer(x), dynamic=True, backend="numpy", fullgraph=True)
    for n in (8, 4, 16):
        compiled(dj.randn(n, 8))

    assert 1 == compiled.report().entries
    assert any("float32[2.., 8]" in text for text in compiled.guards()[0])


def test_dynamic_false_compiles_every_size() -> None:
    compiled = dj.compile(lambda x: x + 1, dynamic=False, backend="numpy")
    for n in (2, 3, 4):
        compiled(dj.ones(n))

    assert 3 == compiled.report().entries


def test_a_marked_dimension_is_dynamic_at_once_and_within_its_bounds() -> None:
    compiled = dj.compile(lambda x: x * 2, backend="numpy")
    x = dj.ones(8, 3)
    dj.mark_dynamic(x, 0, min=4, max=64)
    compiled(x)
    for n in (4, 9, 64):
        compiled(dj.ones(n, 3))
    assert 1 == compiled.report().entries
    assert any("[4..64, 3]" in text for text in compiled.guards()[0])

    compiled(dj.ones(65, 3))
    assert 2 == compiled.report().entries


def test_a_static_mark_compiles_every_size() -> None:
    compiled = dj.compile(lambda x: x * 2, dynamic=True, backend="numpy")
    for n in (4, 5, 6):
        x = dj.ones(n, 3)
        dj.mark_static(x, 0)
        compiled(x)

    assert 3 == compiled.report().entries


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (lambda x: x @ dj.ones(8, 2), "dj.ones(8, 2)"),
        (lambda x: sum(x[0, i] for i in range(x.shape[1])), "range(x.shape[1])"),
    ],
)
def test_code_that_forces_a_marked_size_is_an_error_at_its_line(
    program: Callable[..., Any], words: str
) -> None:
    x = dj.ones(4, 8)
    dj.mark_dynamic(x, 1)

    with pytest.raises(DynamicSizeError, match=r"x\.shape\[1\] was marked dynamic.*needs it") as e:
        dj.compile(program, backend="numpy")(x)

    line = int(str(e.value).split(".py:")[1].split()[0].rstrip(".").rstrip(","))
    with open(__file__, encoding="utf-8") as text:
        assert words in text.read().splitlines()[line - 1]


def test_marks_are_checked() -> None:
    x = dj.ones(4)
    for wrong in (
        lambda: dj.mark_dynamic(x, 1),
        lambda: dj.mark_dynamic(x, 0, min=5),
        lambda: dj.mark_dynamic([1], 0),
        lambda: dj.mark_static(x, "a"),
    ):
        with pytest.raises((TypeError, ValueError)):
            wrong()


def test_tensors_of_a_list_are_dynamic_together() -> None:
    compiled = dj.compile(lambda xs: sum(x.sum() for x in xs), backend="numpy", fullgraph=True)
    for first in (3, 5, 8, 11):
        xs = [dj.ones(first + i, 2) for i in range(3)]
        assert sum(2 * (first + i) for i in range(3)) == compiled(xs).item()

    assert 2 == compiled.report().entries


def test_an_int_that_is_used_as_a_size_is_a_symbol() -> None:
    compiled = dj.compile(lambda x, n: x.view(n, -1) + dj.zeros(n, 1), backend="numpy")
    for n in (2, 3, 4, 6):
        expected = np.arange(12.0, dtype="f4").reshape(n, -1)
        np.testing.assert_array_equal(expected, compiled(dj.arange(12.0), n).numpy())

    assert 2 == compiled.report().entries


KERNEL = dj.randn(3, 3, 3, 3)
WINDOWS: dict[str, Callable[..., Any]] = {
    "stride": lambda x, n: nn.functional.conv2d(x, KERNEL, stride=n, padding=1),
    "strides": lambda x, n: nn.functional.conv2d(x, KERNEL, stride=(n, 1), padding=(1, n)),
    "dilation": lambda x, n: nn.functional.conv2d(x, KERNEL, dilation=n),
    "padding": lambda x, n: nn.functional.conv2d(x, KERNEL, padding=n),
    "transposed": lambda x, n: nn.functional.conv_transpose2d(x, KERNEL, stride=n),
    "maximum": lambda x, n: nn.functional.max_pool2d(x, n + 1, stride=n),
    "mean": lambda x, n: nn.functional.avg_pool2d(x, (n + 1, n)),
    "adaptive": lambda x, n: nn.functional.adaptive_avg_pool2d(x, n),
    "unfold": lambda x, n: nn.functional.unfold(x, 2, stride=n),
}


@pytest.mark.parametrize(
    "program",
    [
        lambda x, n: x.new_zeros(x.shape[0] * n) + 1,
        lambda x, n: x.reshape(x.shape[0] // n, n) * 2,
        lambda x, n: dj.arange(x.shape[0] - n + 3) * (x.shape[0] % n),
    ],
)
def test_a_size_and_an_int_make_a_size(program: Callable[..., Any]) -> None:
    compiled = dj.compile(program, fullgraph=True)
    with dj.config.override(strict=True):
        for n in (2, 3, 5, 4, 9):
            x = dj.arange(2.0 * n * n)
            assert program(x, n).tolist() == compiled(x, n).tolist()


@pytest.mark.parametrize("name", WINDOWS)
def test_numbers_of_windows_that_change_are_known_to_kernels(name: str) -> None:
    """As those of layers whose class is compiled once for all of them."""
    function = WINDOWS[name]
    compiled = dj.compile(function, fullgraph=True)
    for n in (1, 2, 3, 1):
        results = []
        for call in (function, compiled):
            x = dj.linspace(-1, 1, 243).reshape(1, 3, 9, 9).requires_grad_()
            result = call(x, n)
            result.square().sum().backward()
            results.append((result.detach().numpy(), x.grad.numpy()))
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_random_numbers_are_those_of_eager_execution() -> None:
    def program(x: Any) -> Any:
        return x + dj.rand(x.shape[0], 3), dj.randn(x.shape[0])

    compiled = dj.compile(program, backend="numpy", fullgraph=True)
    for n in (4, 7, 5, 9):
        x = dj.ones(n, 3)
        dj.manual_seed(n)
        expected = (*program(x), dj.rand(2))
        dj.manual_seed(n)
        assert_same(expected, (*compiled(x), dj.rand(2)))

    assert 2 == compiled.report().entries


def test_dimensions_that_were_equal_once_are_told_apart() -> None:
    compiled = dj.compile(lambda x: x.sum(0) * 2, backend="numpy", fullgraph=True)
    for n, m in ((4, 4), (6, 6), (7, 3), (5, 9)):
        compiled(dj.ones(n, m))

    assert 3 == compiled.report().entries


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_serve_random_sizes(seed: int) -> None:
    random = np.random.default_rng(seed)
    steps: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a + b,
        lambda a, b: a * b.mean(0),
        lambda a, b: (a - a.amax(1, keepdim=True)).exp(),
        lambda a, b: a / (1 + b.sum(1, keepdim=True).abs()),
        lambda a, b: a.t().reshape(a.shape[0], a.shape[1]) + b,
        lambda a, b: a.reshape(-1).view(a.shape) * b.shape[0],
        lambda a, b: dj.cat([a, b], 0)[: a.shape[0]],
        lambda a, b: a.unsqueeze(1).expand(-1, 2, -1).sum(1) + b,
        lambda a, b: F.pad(a, (1, 1))[:, 1:-1] * b,
        lambda a, b: a.softmax(1).cumsum(0) + b.flip(0),
    ]
    chosen = [steps[i] for i in random.integers(0, len(steps), 5)]

    def program(x: Any, y: Any) -> Any:
        for step in chosen:
            x, y = step(x, y), x.tanh()
        return x, y.sum(0)

    compiled = dj.compile(program, dynamic=True, backend="numpy", fullgraph=True)
    for n, m in random.integers(2, 12, (8, 2)).tolist():
        x, y = tensors(((N, M), (N, M)), n, m)
        for expected, actual in zip(program(x, y), compiled(x, y), strict=True):
            np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-3, atol=1e-4)

    assert compiled.report().entries <= 2  # a second one if the first call had n == m


def test_sizes_live_on_after_a_break() -> None:
    def program(x: Any) -> Any:
        n = x.shape[0]
        y, z = x * n, x[: n // 2]
        dj.graph_break()
        return y.view(n * x.shape[1]).sum() / n, z * n, n

    compiled = dj.compile(program, backend="numpy")
    for n in (8, 5, 9, 31):
        x = dj.linspace(0, 1, n * 4).reshape(n, 4)
        assert_same(program(x), compiled(x))

    assert 2 == compiled.report().entries


def test_double_backward_serves_every_size() -> None:
    def program(x: Any) -> Any:
        return (x.tanh() * x.shape[0]).mean() + x.reshape(-1).softmax(0)[0]

    compiled = dj.compile(program, backend="numpy", fullgraph=True)
    for n in (4, 6, 9):
        found = []
        for called in (program, compiled):
            x = dj.linspace(0, 1, n * 3).reshape(n, 3).detach().requires_grad_()
            (first,) = dj.autograd.grad(called(x), x, create_graph=True)
            (second,) = dj.autograd.grad((first * first).sum(), x)
            found.append(second.numpy())
        np.testing.assert_allclose(*found, atol=1e-6)

    assert 2 == compiled.report().entries


def test_a_recompile_says_which_size_is_dynamic_now() -> None:
    compiled = dj.compile(lambda x: x + 1, backend="numpy")
    compiled(dj.ones(32))
    compiled(dj.ones(48))

    (recompile,) = compiled.report().recompiles
    assert ("x.shape[0]: 32 -> 48; now dynamic",) == recompile.sizes
    assert str(recompile).startswith("x.shape[0]: 32 -> 48; now dynamic")


def test_a_number_that_never_settles_leaves_its_place_to_python() -> None:
    table = list(range(100))
    state = {"i": 0}

    def program(x: Any) -> Any:
        state["i"] += 1
        return x * table[state["i"]]

    compiled = dj.compile(program, backend="numpy")
    for i in range(1, 90):
        assert i == compiled(dj.ones(1)).item()

    assert len(compiled.report().recompiles) <= 8
    assert "was another one in many calls" in str(compiled.report().breaks[0])
