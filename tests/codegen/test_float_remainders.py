"""Remainders and whole quotients of floats are exact, in the form for moderate quotients too."""

import itertools

import numpy as np
import pytest

from dynajit.codegen.pipeline import compile_graph
from dynajit.ops import TABLE as ops

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

COUNT = 1 << 17


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    rest = np.fmod(x, y)
    return np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


EXACT = {"fmod": np.fmod, "remainder": remainder, "floor_divide": np.floor_divide}


def patterns(dtype: type) -> np.ndarray:
    """Numbers of every exponent."""
    words = {np.float32: np.uint32, np.float64: np.uint64}[dtype]
    most = np.iinfo(words).max
    return np.random.default_rng(7).integers(0, most, COUNT, words, endpoint=True).view(dtype)


def operands(kind: str, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(5)
    y = (draw.standard_normal(COUNT) * 10 ** draw.uniform(-3, 3, COUNT)).astype(dtype)
    if kind == "spread":
        return (draw.standard_normal(COUNT) * 10 ** draw.uniform(-3, 5, COUNT)).astype(dtype), y
    if kind == "every exponent":
        return patterns(dtype), np.roll(patterns(dtype), 1)
    if kind == "moderate quotients of every exponent":
        x, y = patterns(dtype), np.roll(patterns(dtype), 1)
        most = dtype(1e7 if dtype is np.float32 else 1e15)
        with np.errstate(all="ignore"):
            kept = np.isfinite(x) & np.isfinite(y) & (np.abs(x) < most * np.abs(y))
        return x[kept], y[kept]
    if kind == "edges":
        tiny = np.finfo(dtype).smallest_subnormal
        edges = [0.0, -0.0, 1.0, -1.0, 2.5, -3.0, np.inf, -np.inf, np.nan, tiny, 3e38, 1e-38]
        x, y = zip(*itertools.product(edges, edges), strict=True)
        return np.array(x, dtype), np.array(y, dtype)
    multiples = (draw.integers(-1000, 1000, COUNT) * y).astype(dtype)
    side = {"multiples": 0, "above multiples": np.inf, "below multiples": -np.inf}[kind]
    return np.nextafter(multiples, dtype(side)) if side else multiples, y


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(
    "kind",
    ["spread", "every exponent", "moderate quotients of every exponent", "edges", "multiples",
     "above multiples", "below multiples"],
)  # fmt: skip
def test_results_are_exact(codegen, name, dtype, kind):
    x, y = operands(kind, dtype)
    graph = codegen.graph_of(getattr(ops, name), codegen.type_of(x), codegen.type_of(y))
    program = compile_graph(graph)
    (actual,) = program(x, y)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x, y)

    assert f"dj_{name}_near_" in "".join(kernel.source for kernel in program.kernels)
    np.testing.assert_array_equal(exact, actual)
    signs = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(exact)[signs], np.signbit(actual)[signs])
