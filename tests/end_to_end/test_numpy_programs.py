"""NumPy programs are one graph, and give what NumPy gives: values, dtypes, classes, aliases."""

import copy
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import GraphBreakError

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(20, 3))
POSITIVE = np.abs(X) + 1


def heat(u: Any) -> Any:
    u = u.copy()
    for _ in range(3):
        inner = u[1:-1, 1:-1]
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1] = inner + 0.1 * (around - 4 * inner)
    return u


def life(grid: Any) -> Any:
    steps = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    count = sum(np.roll(np.roll(grid, i, 0), j, 1) for i, j in steps)
    return ((count == 3) | ((grid == 1) & (count == 2))).astype(grid.dtype)


def distances(x: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    return np.sqrt((d**2).sum(-1))


def covariance(x: Any) -> Any:
    centered = x - x.mean(axis=0)
    return centered.T @ centered / (len(x) - 1)


def k_means_step(x: Any, centers: Any) -> Any:
    labels = ((x[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
    chosen = (labels[:, None] == np.arange(centers.shape[0])).astype(x.dtype)
    return (chosen.T @ x) / np.maximum(chosen.sum(axis=0), 1)[:, None], labels


def bodies(p: Any, v: Any, m: Any, dt: float) -> Any:
    d = p[None, :, :] - p[:, None, :]
    r2 = (d * d).sum(axis=-1) + 1e-3
    v = v + dt * (d * (m[None, :] * r2**-1.5)[:, :, None]).sum(axis=1)
    return p + dt * v, v


def normalise(x: Any) -> None:
    x -= x.mean(axis=0)
    x /= x.std(axis=0) + 1e-8


def power_iteration(a: Any, v: Any) -> Any:
    for _ in range(4):
        v = a @ v
        v = v / np.linalg.norm(v)
    return v @ (a @ v), v


def filtered(image: Any, kernel: Any) -> Any:
    padded, out = np.pad(image, 1), np.zeros_like(image)
    for i in range(3):
        for j in range(3):
            out += kernel[i, j] * padded[i : i + image.shape[0], j : j + image.shape[1]]
    return out


def counts(x: Any, edges: Any) -> Any:
    return ((x[:, None] >= edges[:-1]) & (x[:, None] < edges[1:])).sum(axis=0)


def _normal(x: Any) -> Any:
    t = 1 / (1 + 0.2316419 * np.abs(x))
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * -1.821255978)))
    below = 1 - np.exp(-x * x / 2) * 0.3989422804 * tail
    return np.where(x < 0, 1 - below, below)


def option_price(spot: Any, strike: Any, t: float, rate: float, sigma: float) -> Any:
    first = (np.log(spot / strike) + (rate + 0.5 * sigma**2) * t) / (sigma * np.sqrt(t))
    second = first - sigma * np.sqrt(t)
    return spot * _normal(first) - strike * np.exp(-rate * t) * _normal(second)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def clamped(x: Any) -> Any:
    x[x < 0] = 0
    return x.any(), x.all(axis=1)


def logistic_regression(x: Any, y: Any, w: Any) -> Any:
    for _ in range(3):
        p = 1 / (1 + np.exp(-(x @ w)))
        w = w - 0.1 * (x.T @ (p - y)) / len(y)
    return w, -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()


def wave(before: Any, now: Any, c: float) -> Any:
    after = np.empty_like(before)
    after[1:-1] = 2 * now[1:-1] - before[1:-1] + c * c * (now[2:] - 2 * now[1:-1] + now[:-2])
    after[0] = after[-1] = 0
    return after


def made_by_the_class(x: Any) -> Any:
    rows, columns = np.ndarray(x.shape, x.dtype), np.ndarray(x.shape, order="F")
    rows[:], columns[:] = x, 2 * x
    line = np.ndarray(len(x), dtype=np.int64)
    line[:] = 3
    return rows, columns, line


def numbers(x: Any) -> Any:
    return x.sum(), x[0, 0], x.max(), 2.0 * x.mean(), np.float32(3) * x, x.shape, x.dtype


def whole_numbers(i: Any) -> Any:
    return i / 2, i // 2, i % 3, i**2, -i, i.sum(), i // (i - 2), np.arange(3) + i[:3]


def given_places(x: Any, y: Any) -> None:
    np.add(x, y, out=x)
    np.exp(x, out=y)


def rows(x: Any) -> Any:
    total = 0.0
    for row in x:
        total = total + row.sum()
    return total


PROGRAMS: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
    (heat, (RANDOM.normal(size=(12, 12)),)),
    (life, (RANDOM.integers(0, 2, (8, 8)),)),
    (life, (RANDOM.integers(0, 2, (8, 8)).astype(np.uint8),)),
    (distances, (X,)),
    (covariance, (X,)),
    (covariance, (X.astype(np.float32),)),
    (k_means_step, (X, X[:4].copy())),
    (bodies, (X, X * 0, POSITIVE[:, 0].copy(), 0.01)),
    (normalise, (X,)),
    (made_by_the_class, (X.astype(np.float32),)),
    (power_iteration, (X.T @ X, np.ones(3))),
    (filtered, (RANDOM.normal(size=(8, 9)), np.ones((3, 3)))),
    (counts, (X[:, 0].copy(), np.linspace(-2, 2, 5))),
    (option_price, (POSITIVE[:, 0].copy(), POSITIVE[:, 1].copy(), 1.0, 0.05, 0.2)),
    (option_price, (POSITIVE[:, 0], POSITIVE[:, 1].astype(np.float32), 1.0, 0.05, 0.2)),
    (softmax, (X,)),
    (softmax, (np.asfortranarray(X),)),
    (clamped, (X,)),
    (logistic_regression, (X, (X[:, 0] > 0).astype(float), np.zeros(3))),
    (wave, (X[:, 0].copy(), X[:, 1].copy(), 0.5)),
    (numbers, (X,)),
    (numbers, (X.astype(np.float32),)),
    (whole_numbers, (np.arange(5),)),
    (whole_numbers, (np.arange(5, dtype=np.int32),)),
    (given_places, (X, X * 2)),
    (rows, (X,)),
)


def assert_same(expected: Any, actual: Any) -> None:
    assert type(expected) is type(actual)
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(actual)
        for one, other in zip(expected, actual, strict=True):
            assert_same(one, other)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert (expected.dtype, expected.shape) == (actual.dtype, actual.shape)
        loose = 1e-5 if expected.dtype == np.float32 else 1e-10
        np.testing.assert_allclose(expected, actual, rtol=loose, atol=loose)
        wide = [n != 1 for n in expected.shape]
        steps = [
            [step for step, is_wide in zip(array.strides, wide, strict=True) if is_wide]
            for array in (expected, actual)
        ]
        assert steps[0] == steps[1]
    else:
        assert expected == actual


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("program", "args"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_a_numpy_program_is_one_graph(program: Callable[..., Any], args: tuple[Any, ...]) -> None:
    compiled = dj.compile(program, fullgraph=True)

    for _ in range(2):
        plain, others = copy.deepcopy(args), copy.deepcopy(args)
        assert_same(program(*plain), compiled(*others))
        assert_same(plain, others)


def test_results_share_memory_as_in_numpy() -> None:
    @dj.compile(fullgraph=True)
    def parts(x: Any) -> Any:
        part = x[1:]
        part[0] = 5
        return x, part, x.T, x + 0

    x = np.zeros((3, 4))
    same, part, turned, other = parts(x)

    assert same is x
    assert 5 == x[1, 0]
    assert np.shares_memory(part, x)
    assert np.shares_memory(turned, x)
    assert not np.shares_memory(other, x)


def test_arrays_that_overlap_are_told_apart() -> None:
    def shift(x: Any, y: Any) -> None:
        x[:] = y + 1
        y *= 2

    compiled = dj.compile(shift)
    for build in (lambda a: (a[:4], a[4:]), lambda a: (a[:4], a[2:6]), lambda a: (a[:4], a[:4])):
        plain, other = np.arange(8.0), np.arange(8.0)
        shift(*build(plain))
        compiled(*build(other))
        np.testing.assert_array_equal(plain, other)


def test_arrays_and_tensors_meet_in_tensor_programs() -> None:
    table = np.linspace(0, 1, 4, dtype=np.float32)

    @dj.compile(fullgraph=True)
    def program(t: Any, n: float) -> Any:
        scaled = dj.from_numpy(table) * t + dj.tensor(np.eye(6).flatten()[:4].astype(np.float32))
        return scaled * float(np.log(2.0)) + dj.as_tensor(np.arange(4)), (t + n).numpy()

    first, second = program(dj.ones(4), 2.0)

    expected = (table + np.eye(6).flatten()[:4]).astype(np.float32) * np.log(2.0) + np.arange(4)
    np.testing.assert_allclose(first.numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(second, np.full(4, 3, np.float32))
    assert np.ndarray is type(second)


def test_another_dtype_layout_or_class_is_another_program() -> None:
    def twice(x: Any) -> Any:
        return x * 2

    compiled = dj.compile(twice)
    values = np.arange(6.0).reshape(2, 3)
    kinds = [values, values.astype(np.float32), values.T, values.astype(int), np.float64(3), 3]
    kinds += [values[:, ::2], np.ma.masked_array(values), values.astype(">f8"), [1]]
    for x in kinds:
        assert_same(twice(x), compiled(x))


@pytest.mark.parametrize("program", [
    lambda x, y: x + y, lambda x, y: x @ y, lambda x, y: np.concatenate([x, y]),
    lambda x, y: x.reshape(7), lambda x, y: x[9], lambda x, y: x.sum(axis=5),
])  # fmt: skip
def test_bad_shapes_raise_what_numpy_raises(program: Callable[..., Any]) -> None:
    x, y = np.ones((3, 4)), np.ones((5, 7))
    with pytest.raises(Exception) as expected:
        program(x, y)

    with pytest.raises(expected.type) as actual:
        dj.compile(program)(x, y)

    assert str(expected.value) == str(actual.value)


def test_an_array_that_is_read_only_is_not_written() -> None:
    def clear(x: Any) -> None:
        x[:] = 0

    compiled = dj.compile(clear)
    compiled(np.ones(3))
    x = np.ones(3)
    x.flags.writeable = False

    with pytest.raises(ValueError, match="read-only"):
        compiled(x)

    assert [1, 1, 1] == x.tolist()


def test_floating_point_errors_that_are_to_raise_do() -> None:
    compiled = dj.compile(lambda x: 1 / x)
    assert np.isinf(compiled(np.zeros(2))).all()

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        compiled(np.zeros(2))


def test_a_break_names_the_function_of_numpy() -> None:
    with pytest.raises(GraphBreakError, match="eig"):
        dj.compile(lambda x: np.linalg.eig(x), fullgraph=True)(np.eye(3))


def test_random_numbers_are_drawn_in_order() -> None:
    def noisy(x: Any, generator: Any) -> Any:
        return x + generator.normal(size=3), x * np.random.rand(3)

    compiled = dj.compile(noisy)
    for seed in range(2):
        np.random.seed(seed)
        expected = noisy(np.ones(3), np.random.default_rng(seed))
        np.random.seed(seed)
        assert_same(expected, compiled(np.ones(3), np.random.default_rng(seed)))


def test_compiled_code_keeps_no_array() -> None:
    compiled = dj.compile(lambda x: x + 1)
    x = np.ones(5)
    before = sys.getrefcount(x)
    compiled(x)
    compiled(x)

    assert before == sys.getrefcount(x)


@pytest.mark.parametrize("name", [3, None, "dynajit", "elsewhere"])
def test_what_a_program_calls_its_module_does_not_matter(name: Any) -> None:
    """Functions of the library keep arrays as they are: those are told by a text alone."""
    space = {"np": np, "__name__": name}
    exec("def double(x):\n    return np.add(x, x)\n", space)
    compiled = dj.compile(space["double"], fullgraph=True)

    np.testing.assert_array_equal(compiled(np.arange(3.0)), [0.0, 2.0, 4.0])


def around(x: Any) -> Any:
    return (x[:-2, 1:-1] + x[2:, 1:-1] - 4 * x[1:-1, 1:-1], x.T[1:] * 2, x.T[1:] - x[:, 1:].T)


def blocks(x: Any) -> Any:
    three = x[1:, :, None] * x[:-1, None, :]
    return three, three[:, 1:].sum(axis=0), np.maximum(three, 0.5)


def walls(x: Any) -> Any:
    x[0, 1:-1] = -x[1, 1:-1]
    x[-1, 1:-1] = x[-2, 1:-1]
    x[1:-1, 0] = x[1:-1, 1]
    x[1:, 1:] = x[:-1, :-1]
    x[:, 2:] += x[:, :-2]
    return (x,)


@pytest.mark.parametrize("program", [around, blocks, walls])
def test_parts_of_arrays_of_any_size_are_one_graph(program: Callable[..., Any]) -> None:
    compiled = dj.compile(program, fullgraph=True)
    for number, size in enumerate((9, 7, 12, 5)):
        expected = np.random.default_rng(number).normal(size=(size, size))
        actual = expected.copy()

        plain, found = program(expected), compiled(actual)

        assert np.array_equal(expected, actual)
        for a, b in zip(plain, found, strict=True):
            assert np.allclose(a, b) and a.strides == b.strides
    assert compiled.report().recompile_count <= 2


def relaxed(x: Any, b: Any) -> Any:
    for _ in range(20):
        x[1:-1, 1:-1] = (b[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2]) / 4.5
        x[0, 1:-1] = -x[1, 1:-1]
        x[-1, 1:-1] = x[-2, 1:-1]
        x[1:-1, 0] = x[1:-1, 1]
    return x


def test_short_loops_over_arrays_of_any_size_are_not_unrolled() -> None:
    compiled = dj.compile(relaxed, fullgraph=True)
    for number, size in enumerate((9, 7, 12)):
        x, b = np.random.default_rng(number).normal(size=(2, size, size))
        assert np.allclose(relaxed(x.copy(), b), compiled(x.copy(), b), rtol=1e-12)
    assert compiled.report().recompile_count == 1
    *_, of_any_size = (version.made.graph for version in compiled.report().versions)
    assert "nest" in str(of_any_size) and len(of_any_size.calls) < 200
