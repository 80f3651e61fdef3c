"""Convolutions of random settings: values and gradients beside sums of products in float64.

Drawn are dims, batch, channels, groups, kernel, and per dim stride, dilation and padding; what lies
around x, as the modules' `padding_mode`; plain and transposed; every floating dtype.
`DYNAJIT_CONVOLUTION_SETTINGS` says how many (40). Each runs with one thread and with three, eager
and compiled; compiled ones many in a graph, so that there are few compilations.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F

pytestmark = pytest.mark.one_python

COUNT: Final = int(os.environ.get("DYNAJIT_CONVOLUTION_SETTINGS", "40"))
#: Settings of one test, which are one compiled graph.
TOGETHER: Final = 20
#: Of the largest value that a result has. Those of 16 bits are sums of float32, rounded; what is
#: added to such a sum (a bias after a transpose, gradients that meet at an edge) is rounded again.
TOLERANCES: Final = {"float32": 1e-5, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.5e-2}
#: What NumPy calls the modes of padding.
MODES: Final = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@dataclass(frozen=True)
class Setting:
    """One convolution; sizes are per dim."""

    batch: int
    groups: int
    channels: tuple[int, int]  # of a group: in, out
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    is_transposed: bool
    has_bias: bool
    dtype: str
    mode: str = "zeros"  # of padding: also "same", where `padding` is not read

    @property
    def edges(self) -> list[tuple[int, int]]:
        """Elements before and behind x, per dim."""
        if self.mode != "same":
            return [(p, p) for p in self.padding]
        totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]

    def numbers(self, values: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Of the dtype; those of bfloat16 in float32."""
        drawn = values.standard_normal(shape)
        if self.dtype != "bfloat16":
            return drawn.astype(self.dtype)
        return (drawn.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)

    def operands(self, seed: int) -> list[np.ndarray]:
        """x, weight and, if there is one, bias."""
        values = np.random.default_rng(seed)
        inside, outside = (self.groups * count for count in self.channels)
        first, second = (inside, self.channels[1])
        if not self.is_transposed:
            first, second = (outside, self.channels[0])
        shapes = [(self.batch, inside, *self.sizes), (first, second, *self.kernel), (outside,)]
        return [self.numbers(values, shape) for shape in shapes[: 2 + self.has_bias]]

    def __call__(self, x: Any, weight: Any, bias: Any = None) -> Any:
        options: dict[str, Any] = {"stride": self.stride, "dilation": self.dilation}
        n = len(self.sizes)
        if self.mode in MODES:
            x = F.pad(x, [p for p in self.padding[::-1] for _ in (0, 1)], mode=self.mode)
        else:
            options["padding"] = "same" if self.mode == "same" else self.padding
        if not self.is_transposed:
            return getattr(F, f"conv{n}d")(x, weight, bias, groups=self.groups, **options)
        further = {"output_padding": self.output_padding, "groups": self.groups}
        return getattr(F, f"conv_transpose{n}d")(x, weight, bias, **options, **further)


def drawn(seed: int) -> Setting:
    """A setting whose result has elements."""
    random = np.random.default_rng(seed)

    def some(*choices: Any) -> Any:
        return choices[random.integers(len(choices))]

    while True:
        n = some(1, 2, 2, 2, 3)
        most = {1: 40, 2: 14, 3: 6}[n]
        groups = some(1, 1, 1, 2, 3, 8)
        wide = (1, 2, 3, 5, 8, 16, 17, 33) if groups == 1 else (1, 1, 2, 3, 5, 17)
        each = [range(n)] * 5
        sizes = tuple(int(random.integers(1, most)) for _ in each[0])
        kernel = tuple(some(1, 2, 3, 3, 3, 4, 5) for _ in each[1])
        stride = tuple(some(1, 1, 1, 2, 3) for _ in each[2])
        dilation = tuple(some(1, 1, 2) for _ in each[3])
        padding = tuple(some(0, 1, 1, 2) for _ in each[4])
        is_transposed = some(True, False, False)
        mode = "zeros" if is_transposed else some("zeros", "zeros", "same", *MODES)
        if n > 1 and some(True, False, False, False, False):  # windows of Winograd's form
            kernel, stride, wide = (*kernel[:-2], 3, 3), (1,) * n, (16, 17, 33)
            sizes = (*sizes[:-2], *(size + 5 for size in sizes[-2:]))
        channels = some(*wide), some(*wide)
        if some(True, False, False, False):  # planes alone, of several vectors, rows and slabs
            groups, channels = some(1, 2, 3, 8), (1, some(1, 1, 2, 4))
            sizes = tuple(size * int(random.integers(1, 10)) for size in sizes)
            channels = channels[::-1] if is_transposed else channels
        if mode == "same":
            stride = (1,) * n
        found = Setting(
            some(1, 1, 2, 5), groups, channels, sizes, kernel, stride, dilation,
            padding, tuple(min(some(0, 1), s - 1) for s in stride), is_transposed,
            some(True, False), some("float32", "float32", "float32", *TOLERANCES), mode,
        )  # fmt: skip
        is_wide = all(p < size for p, size in zip(padding, sizes, strict=True))
        if min(result_sizes(found)) > 0 and (is_wide or mode not in MODES):
            return found


def result_sizes(s: Setting) -> list[int]:
    spans = [d * (k - 1) + 1 for d, k in zip(s.dilation, s.kernel, strict=True)]
    each = zip(s.sizes, s.stride, s.edges, s.output_padding, spans, strict=True)
    if s.is_transposed:
        return [(size - 1) * t - sum(edge) + span + o for size, t, edge, o, span in each]
    return [(size + sum(edge) - span) // t + 1 for size, t, edge, _, span in each]


# -- the referee: every tap of the kernel meets a grid of the padded operand ----------------------


def taps(s: Setting, counts: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    for tap in np.ndindex(*s.kernel):
        each = zip(tap, s.dilation, s.stride, counts, strict=True)
        yield tap, (..., *(slice(k * d, k * d + t * (c - 1) + 1, t) for k, d, t, c in each))


def padded(s: Setting, x: np.ndarray) -> np.ndarray:
    """By groups, with zeros around; behind by as much more as any tap may reach."""
    more = [d * k + t for d, k, t in zip(s.dilation, s.kernel, s.stride, strict=True)]
    around = [(p, q + m) for (p, q), m in zip(s.edges, more, strict=True)]
    lanes = x.reshape(x.shape[0], s.groups, -1, *x.shape[2:])
    return np.pad(lanes, ((0, 0), (0, 0), (0, 0), *around))


def forward(s: Setting, x: np.ndarray, weight: np.ndarray, counts: tuple[int, ...]) -> np.ndarray:
    wide = padded(s, x)
    kernel = weight.reshape(s.groups, -1, *weight.shape[1:])
    y = np.zeros((x.shape[0], s.groups, kernel.shape[1], *counts))
    for tap, place in taps(s, counts):
        y += np.einsum("goc,bgc...->bgo...", kernel[(..., *tap)], wide[place])
    return y.reshape(x.shape[0], -1, *counts)


def by_input(s: Setting, g: np.ndarray, weight: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    wide = padded(s, np.zeros(shape))
    kernel = weight.reshape(s.groups, -1, *weight.shape[1:])
    lanes = g.reshape(g.shape[0], s.groups, -1, *g.shape[2:])
    for tap, place in taps(s, g.shape[2:]):
        wide[place] += np.einsum("goc,bgo...->bgc...", kernel[(..., *tap)], lanes)
    inner = (slice(p, p + size) for (p, _), size in zip(s.edges, shape[2:], strict=True))
    return wide[(..., *inner)].reshape(shape)


def by_weight(s: Setting, g: np.ndarray, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    wide = padded(s, x)
    lanes = g.reshape(g.shape[0], s.groups, -1, g[0, 0].size)
    found = np.zeros((s.groups, shape[0] // s.groups, *shape[1:]))
    for tap, place in taps(s, g.shape[2:]):
        met = wide[place].reshape(*wide.shape[:3], -1)
        found[(..., *tap)] = np.einsum("bgcp,bgop->goc", met, lanes)
    return found.reshape(shape)


def exactly(s: Setting, operands: list[np.ndarray], g: np.ndarray) -> list[np.ndarray]:
    """Value and gradients. A transposed convolution is the derivative of one by its input; elements
    around x that are copies of others add to the gradients of these."""
    x, weight, *bias = (a.astype(np.float64) for a in operands)
    g = g.astype(np.float64)
    if s.mode in MODES:
        places = np.pad(np.arange(x[0, 0].size).reshape(s.sizes), s.edges, MODES[s.mode])  # type: ignore[call-overload]
        inner = replace(s, sizes=places.shape, padding=(0,) * places.ndim, mode="zeros")
        lanes = x.reshape(*x.shape[:2], -1)
        y, met, *slopes = exactly(inner, [lanes[:, :, places], weight, *bias], g)
        slope = np.zeros_like(lanes)
        np.add.at(slope, (slice(None), slice(None), places), met)
        return [y, slope.reshape(x.shape), *slopes]
    if s.is_transposed:
        y = by_input(s, x, weight, g.shape)
        slopes = [forward(s, g, weight, x.shape[2:]), by_weight(s, x, g, weight.shape)]
    else:
        y = forward(s, x, weight, g.shape[2:])
        slopes = [by_input(s, g, weight, x.shape), by_weight(s, g, x, weight.shape)]
    for b in bias:
        y = y + b.reshape(-1, *(1,) * len(s.sizes))
        slopes.append(g.sum((0, *range(2, g.ndim))))
    return [y, *slopes]


# -- the tests -------------------------------------------------------------------------------------


def cotangent(s: Setting, seed: int) -> np.ndarray:
    shape = (s.batch, s.groups * s.channels[1], *result_sizes(s))
    return s.numbers(np.random.default_rng(seed + 1), shape)


def leaf(s: Setting, a: np.ndarray) -> Any:
    return dj.from_numpy(a.copy()).to(getattr(dj, s.dtype))


def ran(function: Any, seeds: list[int]) -> list[list[np.ndarray]]:
    """Of each setting value and gradients; those of 16 bits in float32."""
    settings = [drawn(seed) for seed in seeds]
    given = [
        [leaf(s, a).requires_grad_() for a in s.operands(seed)]
        for s, seed in zip(settings, seeds, strict=True)
    ]
    values = function(*(x for tensors in given for x in tensors))
    towards = [leaf(s, cotangent(s, seed)) for s, seed in zip(settings, seeds, strict=True)]
    dj.autograd.backward(values, towards)
    found = []
    for s, y, tensors in zip(settings, values, given, strict=True):
        results = [y.detach(), *(x.grad for x in tensors)]
        assert {getattr(dj, s.dtype)} == {x.dtype for x in results}, s
        found.append([(x.float() if "16" in s.dtype else x).numpy() for x in results])
    return found


def program(seeds: list[int]) -> Any:
    """All settings, one after the other; their operands one after the other, too."""
    settings = [drawn(seed) for seed in seeds]

    def convolutions(*operands: Any) -> Any:
        found, at = [], 0
        for s in settings:
            count = 3 if s.has_bias else 2
            found.append(s(*operands[at : at + count]))
            at += count
        return found

    return convolutions


@pytest.mark.parametrize("first", range(0, COUNT, TOGETHER))
def test_random_convolutions_are_those_of_float64(first: int) -> None:
    """Eager and compiled; three threads have the bits of one."""
    seeds = list(range(first, min(first + TOGETHER, COUNT)))
    eager = program(seeds)
    by_function = []
    for function in (eager, dj.compile(eager)):
        by_threads = []
        for threads in (1, 3):
            with dj.config.override(num_threads=threads):
                by_threads.append(ran(function, seeds))
        by_function.append(by_threads)

    for seed, *found in zip(seeds, *by_function[0], *by_function[1], strict=True):
        s = drawn(seed)
        exact = exactly(s, s.operands(seed), cotangent(s, seed))
        for number, (one, three, *compiled, expected) in enumerate(zip(*found, exact, strict=True)):
            message = f"{seed}, result {number}: {s}"
            assert one.tobytes() == three.tobytes(), message
            assert compiled[0].tobytes() == compiled[1].tobytes(), message
            for value in (one, compiled[0]):
                assert value.shape == expected.shape, message
                bound = TOLERANCES[s.dtype] * max(1.0, np.abs(expected).max())
                np.testing.assert_allclose(value, expected, rtol=0, atol=bound, err_msg=message)
