"""Convolutions of random settings: values and gradients beside sums of products in float64.

Drawn are dims, batch, channels, groups, kernel, and per dim stride, dilation and padding; plain and
transposed; float32 and float64. `DYNAJIT_CONVOLUTION_SETTINGS` says how many (40). Eager ones run
with one thread and with three; compiled ones many in a graph, so that there are few compilations.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

import dynajit as dj
import dynajit.nn.functional as F
from dynajit.ops.rows.networks import convolution_forms

pytestmark = pytest.mark.one_python

COUNT: Final = int(os.environ.get("DYNAJIT_CONVOLUTION_SETTINGS", "40"))
#: Settings of one test, which are one compiled graph.
TOGETHER: Final = 20
#: Of the largest value that a result has.
TOLERANCES: Final = {np.dtype(np.float32): 3e-5, np.dtype(np.float64): 1e-12}


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
    dtype: Any

    def operands(self, seed: int) -> list[np.ndarray]:
        """x, weight and, if there is one, bias."""
        values = np.random.default_rng(seed)
        inside, outside = (self.groups * count for count in self.channels)
        first, second = (inside, self.channels[1])
        if not self.is_transposed:
            first, second = (outside, self.channels[0])
        shapes = [(self.batch, inside, *self.sizes), (first, second, *self.kernel), (outside,)]
        return [
            values.standard_normal(shape).astype(self.dtype)
            for shape in (shapes if self.has_bias else shapes[:2])
        ]

    def __call__(self, x: Any, weight: Any, bias: Any = None) -> Any:
        options = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}
        n = len(self.sizes)
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
        wide = (1, 2, 3, 5, 8, 16, 17, 33) if groups == 1 else (1, 1, 2, 3, 5)
        each = [range(n)] * 5
        sizes = tuple(int(random.integers(1, most)) for _ in each[0])
        kernel = tuple(some(1, 2, 3, 3, 3, 4, 5) for _ in each[1])
        stride = tuple(some(1, 1, 1, 2, 3) for _ in each[2])
        dilation = tuple(some(1, 1, 2) for _ in each[3])
        padding = tuple(some(0, 1, 1, 2) for _ in each[4])
        is_transposed = some(True, False, False)
        found = Setting(
            some(1, 1, 2, 5), groups, (some(*wide), some(*wide)), sizes, kernel, stride, dilation,
            padding, tuple(min(some(0, 1), s - 1) for s in stride), is_transposed,
            some(True, False), some(np.float32, np.float32, np.float64),
        )  # fmt: skip
        if min(result_sizes(found)) > 0:
            return found


def result_sizes(s: Setting) -> list[int]:
    spans = [d * (k - 1) + 1 for d, k in zip(s.dilation, s.kernel, strict=True)]
    each = zip(s.sizes, s.stride, s.padding, s.output_padding, spans, strict=True)
    if s.is_transposed:
        return [(size - 1) * t - 2 * p + span + o for size, t, p, o, span in each]
    return [(size + 2 * p - span) // t + 1 for size, t, p, _, span in each]


# -- the referee: every tap of the kernel meets a grid of the padded operand ----------------------


def taps(s: Setting, counts: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    for tap in np.ndindex(*s.kernel):
        each = zip(tap, s.dilation, s.stride, counts, strict=True)
        yield tap, (..., *(slice(k * d, k * d + t * (c - 1) + 1, t) for k, d, t, c in each))


def padded(s: Setting, x: np.ndarray) -> np.ndarray:
    """By groups, with zeros around; behind by as much more as any tap may reach."""
    more = [d * k + t for d, k, t in zip(s.dilation, s.kernel, s.stride, strict=True)]
    around = [(p, p + m) for p, m in zip(s.padding, more, strict=True)]
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
    inner = (slice(p, p + size) for p, size in zip(s.padding, shape[2:], strict=True))
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
    """Value and gradients. A transposed convolution is the derivative of one by its input."""
    x, weight, *bias = (a.astype(np.float64) for a in operands)
    g = g.astype(np.float64)
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
    return np.random.default_rng(seed + 1).standard_normal(shape).astype(s.dtype)


def leaves(s: Setting, seed: int) -> list[Any]:
    return [dj.from_numpy(a.copy()).requires_grad_() for a in s.operands(seed)]


def ran(function: Any, seeds: list[int]) -> list[list[np.ndarray]]:
    """Of each setting value and gradients."""
    settings = [drawn(seed) for seed in seeds]
    given = [leaves(s, seed) for s, seed in zip(settings, seeds, strict=True)]
    values = function(*(x for tensors in given for x in tensors))
    towards = [dj.from_numpy(cotangent(s, seed)) for s, seed in zip(settings, seeds, strict=True)]
    dj.autograd.backward(values, towards)
    return [
        [y.detach().numpy(), *(x.grad.numpy() for x in tensors)]
        for y, tensors in zip(values, given, strict=True)
    ]


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
def test_random_convolutions_are_those_of_float64(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eager and compiled; three threads have the bits of one."""
    seeds = list(range(first, min(first + TOGETHER, COUNT)))
    function = program(seeds)
    by_threads = []
    for threads in (1, 3):
        monkeypatch.setattr(convolution_forms, "thread_count", lambda count=threads: count)
        by_threads.append(ran(function, seeds))
    compiled = ran(dj.compile(function), seeds)

    for seed, one, three, apart in zip(seeds, *by_threads, compiled, strict=True):
        s = drawn(seed)
        exact = exactly(s, s.operands(seed), cotangent(s, seed))
        for number, found in enumerate(zip(one, three, apart, exact, strict=True)):
            message = f"{seed}, result {number}: {s}"
            assert found[0].tobytes() == found[1].tobytes(), message
            for value in (found[0], found[2]):
                assert (value.shape, value.dtype) == (found[3].shape, s.dtype), message
                bound = TOLERANCES[np.dtype(s.dtype)] * max(1.0, np.abs(found[3]).max())
                np.testing.assert_allclose(value, found[3], rtol=0, atol=bound, err_msg=message)
