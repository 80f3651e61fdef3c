"""Convolutions and pools by their own kernels, against loops over windows in float64.

Many calls share one graph, so that the compiler runs once per dtype.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.codegen.pipeline import compile_graph
from dynajit.codegen.plan import natives
from dynajit.core.types import dtypes
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret
from dynajit.ops import TABLE as ops
from dynajit.ops.rows.networks.window_forms import counts_of
from tests.support.kernels.teams import same_for_teams

pytestmark = pytest.mark.one_python

TYPES = {"float32": dtypes.float32, "float64": dtypes.float64}
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}

#: batch, groups, outputs and channels of a group, sizes, window, stride, before, after, dilation.
CONVOLUTIONS = (
    (2, 1, 3, 2, (9,), (3,), (1,), (1,), (1,), (1,)),
    (3, 1, 20, 5, (8, 11), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    (1, 1, 7, 9, (12, 7), (3, 2), (2, 3), (0, 1), (2, 0), (1, 1)),
    (2, 2, 17, 3, (10, 9), (3, 3), (1, 2), (2, 2), (2, 2), (2, 1)),
    (2, 6, 1, 1, (9, 13), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),  # depthwise
    (1, 5, 2, 1, (9, 10), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
    (2, 1, 33, 4, (5, 6, 7), (2, 3, 3), (1, 2, 1), (1, 1, 0), (0, 1, 1), (1, 1, 2)),
    (1, 1, 2, 40, (6, 6), (5, 5), (3, 3), (2, 2), (1, -1), (1, 1)),  # long sums, cut at the end
    (2, 1, 4, 3, (7, 8), (1, 1), (3, 2), (0, 0), (1, 0), (1, 1)),  # classes without taps
    (1, 1, 16, 16, (70, 60), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),  # several slabs, a team
    (2, 1, 16, 19, (7, 6), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),  # weights where they lie
    (1, 2, 8, 5, (11, 9), (3, 2), (2, 1), (1, 0), (1, 1), (1, 2)),
    (1, 1, 24, 40, (6, 6), (1, 1), (2, 2), (0, 0), (1, 1), (1, 1)),
)  # fmt: skip


class Call:
    """Random operands of one convolution; its three rows and their values by plain loops."""

    def __init__(self, case: Any, random: np.random.Generator) -> None:
        batch, self.groups, outputs, channels, sizes, size, *geometry = case
        self.size, self.shape = size, sizes
        self.attributes = dict(
            zip(("stride", "before", "after", "dilation"), geometry, strict=True)
        )
        self.counts = counts_of(sizes, size, **self.attributes)
        self.x = random.standard_normal((batch, self.groups * channels, *sizes))
        self.weight = random.standard_normal((self.groups * outputs, channels, *size))
        self.y = random.standard_normal((batch, self.groups * outputs, *self.counts))
        self.bias = random.standard_normal(self.groups * outputs)

    def windows(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """(output position, window position, input position) of every product."""
        a = self.attributes
        for out in itertools.product(*map(range, self.counts)):
            for k in itertools.product(*map(range, self.size)):
                place = tuple(
                    o * s + i * d - b
                    for o, i, s, d, b in zip(
                        out, k, a["stride"], a["dilation"], a["before"], strict=True
                    )
                )
                if all(0 <= p < n for p, n in zip(place, self.shape, strict=True)):
                    yield out, k, place

    def expected(self) -> list[np.ndarray]:
        """With bias; the transpose in x; the transpose in weight."""
        groups = self.groups
        batch, channels = self.x.shape[0], self.weight.shape[1]
        x = self.x.reshape(batch, groups, channels, *self.shape)
        w = self.weight.reshape(groups, -1, channels, *self.size)
        y = self.y.reshape(batch, groups, -1, *self.counts)
        forward, back, weigh = np.zeros_like(y), np.zeros_like(x), np.zeros_like(w)
        for out, k, place in self.windows():
            o, i, p = ((..., *index) for index in (out, k, place))
            forward[o] += np.einsum("ngc,goc->ngo", x[p], w[i])
            back[p] += np.einsum("ngo,goc->ngc", y[o], w[i])
            weigh[i] += np.einsum("ngo,ngc->goc", y[o], x[p])
        result = forward.reshape(self.y.shape)
        result = result + self.bias.reshape(-1, *([1] * len(self.size)))
        return [result, back.reshape(self.x.shape), weigh.reshape(self.weight.shape)]

    def rows(self, x: Any, weight: Any, y: Any, bias: Any) -> list[Any]:
        """The three rows."""
        options = {**self.attributes, "groups": self.groups}
        return [
            ops.convolution(x, weight, bias, **options),
            ops.convolution_input(y, weight, shape=self.shape, **options),
            ops.convolution_weight(y, x, size=self.size, **options),
        ]

    def operands(self, dtype: str) -> list[np.ndarray]:
        return [a.astype(dtype) for a in (self.x, self.weight, self.y, self.bias)]


@pytest.mark.parametrize(("channels", "dtype"), [(16, "float32"), (15, "float32"), (16, "float64")])
def test_the_report_says_which_convolutions_may_be_winograds(
    codegen: Any, channels: int, dtype: str
) -> None:
    attributes = {"stride": (1, 1), "before": (1, 1), "after": (1, 1), "dilation": (1, 1)}
    shapes = [(2, 32, 9, 9), (channels, 32, 3, 3)]
    graph = codegen.graph_of(
        lambda x, weight: ops.convolution(x, weight, None, groups=1, **attributes),
        *(TensorType(shape, TYPES[dtype]) for shape in shapes),
        optimized=False,
    )

    program = compile_graph(graph)

    assert ((channels, dtype) == (16, "float32")) is ("Winograd" in program.explain)


@pytest.mark.parametrize("dtype", TYPES)
def test_convolutions_and_their_transposes_equal_plain_loops(codegen: Any, dtype: str) -> None:
    random = np.random.default_rng(3)
    calls = [Call(case, random) for case in CONVOLUTIONS]

    def function(*values: Any) -> list[Any]:
        operands = zip(*[iter(values)] * 4, strict=True)
        return [row for call, given in zip(calls, operands, strict=True)
                for row in call.rows(*given)]  # fmt: skip

    arrays = [a for call in calls for a in call.operands(dtype)]
    types = [TensorType(a.shape, TYPES[dtype]) for a in arrays]
    graph = codegen.graph_of(function, *types, optimized=False)
    program = compile_graph(graph)
    assert program.explain.count(": native") == 3 * len(calls)
    expected = [value for call in calls for value in call.expected()]
    for number, (want, got) in enumerate(
        zip(expected, same_for_teams(program, arrays), strict=True)
    ):
        scale = max(1.0, np.abs(want).max())
        assert got.shape == want.shape
        error = np.abs(got - want).max() / scale
        assert error < TOLERANCE[dtype], (CONVOLUTIONS[number // 3], number % 3, error)


#: sizes (with the leading dims), window, stride, before, after, dilation.
POOLS = (
    ((2, 3, 8, 10), (2, 2), (2, 2), (0, 0), (0, 0), (1, 1)),
    ((2, 2, 9, 7), (3, 3), (2, 1), (1, 1), (1, 0), (1, 1)),
    ((1, 3, 11), (3,), (1,), (1,), (1,), (2,)),
    ((2, 1, 5, 6, 7), (2, 3, 2), (1, 2, 3), (1, 0, 1), (0, 1, 1), (1, 1, 2)),
    ((1, 2, 4, 300), (2, 3), (1, 1), (0, 1), (0, 1), (1, 1)),  # several pieces of a row
    ((1, 2, 9, 9), (2, 2), (3, 3), (0, 0), (-1, 0), (1, 1)),
    ((1, 2, 70, 13), (3, 2), (1, 2), (1, 1), (1, 1), (1, 1)),  # several rows in a piece
    ((2, 3, 5, 7), (5, 7), (1, 1), (0, 0), (0, 0), (1, 1)),  # one output: all of the plane
    ((2, 3, 4, 5), (3, 3), (2, 3), (1, 1), (1, 1), (2, 1)),  # a few outputs with edges
    ((1, 2, 15, 13), (13, 11), (2, 1), (6, 5), (6, 5), (1, 1)),  # more taps than a table has
    # rows of several vectors, with edges and without; each with few NaN and with none
    *(
        pool
        for pool in (
            ((2, 9, 112), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
            ((3, 8, 70), (2, 2), (2, 2), (0, 0), (0, 0), (1, 1)),
            ((2, 7, 37), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
            ((2, 5, 6, 43), (2, 3, 3), (1, 2, 2), (0, 1, 1), (1, 0, 1), (1, 1, 1)),
            ((1, 9, 83), (2, 3), (1, 2), (1, 2), (0, 2), (2, 2)),
        )
        for _ in range(2)
    ),
)


def pooled(x: np.ndarray, size: Any, counts: Any, geometry: Any) -> Iterator[Any]:
    """(output position, positions of the window's elements in row-major order, None outside)."""
    stride, before, _, dilation = geometry
    sizes = x.shape[x.ndim - len(size) :]
    for out in itertools.product(*map(range, counts)):
        places = []
        for k in itertools.product(*map(range, size)):
            place = tuple(
                o * s + i * d - b
                for o, i, s, d, b in zip(out, k, stride, dilation, before, strict=True)
            )
            inside = all(0 <= p < n for p, n in zip(place, sizes, strict=True))
            places.append(place if inside else None)
        yield out, places


def expected_pools(x: np.ndarray, g: np.ndarray, size: Any, geometry: Any) -> list[np.ndarray]:
    """Maxima, choices, sums, and `g` put back where the choices are."""
    lead = x.shape[: x.ndim - len(size)]
    counts = counts_of(x.shape[x.ndim - len(size) :], size, *geometry)
    best, total = np.zeros((*lead, *counts)), np.zeros((*lead, *counts))
    choice = np.zeros((*lead, *counts), np.int64)
    back = np.zeros(x.shape)
    for plane in itertools.product(*map(range, lead)):
        for out, places in pooled(x, size, counts, geometry):
            values = [-math.inf if p is None else float(x[plane + p]) for p in places]
            at = next((i for i, v in enumerate(values) if v != v), values.index(max(values)))
            best[plane + out], choice[plane + out] = values[at], at
            total[plane + out] = sum(float(x[plane + p]) for p in places if p is not None)
            if places[at] is not None:
                back[plane + places[at]] += g[plane + out]
    return [best, choice, total, back]


@pytest.mark.parametrize("dtype", TYPES)
def test_pools_equal_plain_loops(codegen: Any, dtype: str) -> None:
    random = np.random.default_rng(4)
    arrays: list[np.ndarray] = []
    expected: list[np.ndarray] = []
    for number, (shape, size, *geometry) in enumerate(POOLS):
        x = random.integers(-4, 5, shape).astype(dtype)  # many ties
        if number % 2 == 0:
            x.reshape(-1)[::7] = -math.inf
            x.reshape(-1)[3 :: 11 if x.size < 700 else 211] = math.nan
        counts = counts_of(shape[len(shape) - len(size) :], size, *geometry)
        g = random.standard_normal((*shape[: len(shape) - len(size)], *counts)).astype(dtype)
        arrays += [x, g]
        with np.errstate(invalid="ignore"):
            expected += expected_pools(x, g, size, geometry)

    def function(*values: Any) -> list[Any]:
        results = []
        for (shape, size, *geometry), x, g in zip(POOLS, values[::2], values[1::2], strict=True):
            names = ("stride", "before", "after", "dilation")
            options = {"size": size, **dict(zip(names, geometry, strict=True))}
            choice = ops.max_pool_choice(x, **options)
            inner = shape[len(shape) - len(size) :]
            results += [ops.max_pool(x, **options), choice, ops.sum_pool(x, **options),
                        ops.place_windows(g, choice, shape=inner, **options)]  # fmt: skip
        return results

    types = [TensorType(a.shape, TYPES[dtype]) for a in arrays]
    program = compile_graph(codegen.graph_of(function, *types, optimized=False))
    # Values and choices of one pool share a kernel.
    assert program.explain.count(": native") == 3 * len(POOLS)
    for want, got in zip(expected, same_for_teams(program, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def options_of(stride: int = 1, edge: int = 1) -> dict[str, Any]:
    return {"stride": (stride,) * 2, "before": (edge,) * 2, "after": (edge,) * 2,
            "dilation": (1, 1), "groups": 1}  # fmt: skip


def test_sizes_may_be_known_only_when_the_program_runs(codegen: Any) -> None:
    batch, length = symbol("s0", 2), symbol("s1", 6)
    types = [TensorType(shape, dtypes.float32) for shape in
             ((batch, 3, length, 8), (5, 3, 3, 3), (5,))]  # fmt: skip
    pool = {"size": (2, 2), "stride": (2, 2), "before": (0, 0), "after": (0, 0),
            "dilation": (1, 1)}  # fmt: skip

    def function(x: Any, weight: Any, bias: Any) -> list[Any]:
        y = ops.relu(ops.convolution(x, weight, bias, **options_of()))
        back = ops.convolution_input(y, weight, shape=tuple(x.shape[2:]), **options_of())
        weigh = ops.convolution_weight(y, x, size=(3, 3), **options_of())
        return [ops.max_pool(y, **pool), back, weigh]

    program = compile_graph(codegen.graph_of(function, *types, optimized=False))
    assert program.explain.count(": native") == 4
    for n, rows in ((2, 6), (3, 9), (7, 40)):
        random = np.random.default_rng(n)
        arrays = [random.standard_normal(shape).astype(np.float32) for shape in
                  ((n, 3, rows, 8), (5, 3, 3, 3), (5,))]  # fmt: skip
        plain = [TensorType(a.shape, dtypes.float32) for a in arrays]
        graph = codegen.graph_of(function, *plain, optimized=False)
        for want, got in zip(
            interpret.run(graph, arrays), same_for_teams(program, arrays), strict=True
        ):
            codegen.assert_same(want, got, 2e-4)


def test_infinite_weights_meet_no_padding_in_the_transpose(codegen: Any) -> None:
    y = np.ones((1, 2, 4, 4), np.float32)
    weight = np.ones((2, 3, 3, 3), np.float32)
    weight[0, 0, 0, 0], weight[1, 1, 2, 2] = np.inf, np.nan

    def function(y: Any, weight: Any) -> list[Any]:
        return [ops.convolution_input(y, weight, shape=(4, 4), **options_of())]

    types = [TensorType(a.shape, dtypes.float32) for a in (y, weight)]
    graph = codegen.graph_of(function, *types, optimized=False)
    (got,) = compile_graph(graph)(y, weight)
    (want,) = interpret.run(graph, [y, weight])
    assert np.isfinite(want[0, 0, 3, 3])
    np.testing.assert_allclose(got, want)


FLOAT, HALF = dtypes.float32, dtypes.float16


@pytest.mark.parametrize(
    ("shapes", "dtype", "changes", "reason"),
    (
        (((2, 3, 8, 8), (4, 3, 3, 3)), HALF, {}, "float32"),
        (((0, 3, 8, 8), (4, 3, 3, 3)), FLOAT, {}, "empty"),
        (((2, 3, 8, 8), (4, 3, 1, 1)), FLOAT, {"edge": 0}, "matrix product"),
    ),
)
def test_what_has_no_kernel_is_expanded(shapes: Any, dtype: Any, changes: Any, reason: str) -> None:
    types = [*(TensorType(shape, dtype) for shape in shapes), None]
    assert reason in str(natives.why_not_native("convolution", types, options_of(**changes)))


def small_convnet(m: Any) -> Any:
    return m.Sequential(
        m.Conv2d(2, 6, 3, padding=1), m.ReLU(), m.MaxPool2d(2),
        m.Conv2d(6, 18, 3, stride=2, padding=1, groups=2), m.ReLU(), m.AvgPool2d(2),
        m.Flatten(), m.Linear(18, 4),
    )  # fmt: skip


def test_a_training_step_equals_pytorch() -> None:
    torch = pytest.importorskip("torch")
    theirs = small_convnet(torch.nn)
    ours = small_convnet(dj.nn)
    with dj.no_grad():
        for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            own.copy_(dj.tensor(other.detach().numpy()))

    @dj.compile
    def loss(x: Any, y: Any) -> Any:
        return F.cross_entropy(ours(x), y)

    random = np.random.default_rng(0)
    for batch in (4, 9, 5):
        x = random.standard_normal((batch, 2, 8, 8)).astype(np.float32)
        y = random.integers(0, 4, batch)
        theirs.zero_grad()
        ours.zero_grad()
        want = torch.nn.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(y))
        want.backward()
        got = loss(dj.tensor(x), dj.tensor(y))
        got.backward()
        np.testing.assert_allclose(float(got), float(want.detach()), rtol=1e-5)
        for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            np.testing.assert_allclose(own.grad.numpy(), other.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_second_derivatives_equal_pytorch() -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 2, 6, 6))
    weight = random.standard_normal((3, 2, 3, 3))

    results = []
    for m, f, grad, wrap in (
        (torch, torch.nn.functional, torch.autograd.grad, lambda f: f),
        (dj, F, dj.autograd.grad, dj.compile),
    ):
        a, b = (m.tensor(value, requires_grad=True) for value in (x, weight))
        pool = wrap(lambda x, w, f=f: f.max_pool2d(f.conv2d(x, w, padding=1), 2))
        y = pool(a, b)
        (g,) = grad((y * y).sum(), a, create_graph=True)
        (g * g).sum().backward()
        results.append((a.grad, b.grad))
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-9)


def _all_kinds(x: Any, weight: Any) -> Any:
    """An image cut by a convolution, plane by plane by another, pooled; its places attend to each
    other, and are sorted."""
    patches = F.conv2d(x, weight, padding=1)
    patches = F.conv2d(patches, weight[:, :1] / 9, padding=1, groups=16)
    pooled = F.max_pool2d(patches, 2) + F.avg_pool2d(patches, 2)
    rows = pooled.flatten(2).transpose(1, 2)[:, None]
    found = F.scaled_dot_product_attention(rows, rows, rows)
    return found.sort(-1).values.sum()


@pytest.mark.parametrize("name", TYPES)
def test_native_kernels_of_all_kinds_share_one_unit(name: str) -> None:
    """No two define the same name: a convolution and attention once did."""
    random = np.random.default_rng(7)
    dtype = getattr(dj, name)
    x = dj.tensor(random.standard_normal((2, 3, 20, 20)), dtype=dtype)
    results = []
    for function in (_all_kinds, dj.compile(_all_kinds, fullgraph=True)):
        leaf = dj.tensor(np.cos(np.arange(16 * 27.0)).reshape(16, 3, 3, 3), dtype=dtype)
        leaf.requires_grad_()
        total = function(x, leaf)
        total.backward()
        results.append((total.item(), leaf.grad.numpy()))
    (total, gradient), (found, found_gradient) = results
    scale = np.abs(gradient).max()
    assert abs(total - found) <= TOLERANCE[name] * scale
    assert np.abs(gradient - found_gradient).max() <= TOLERANCE[name] * scale
