"""Helpers of the code generation tests: graphs from functions, native results against NumPy's."""

import functools
import shutil
from collections.abc import Callable, Iterator
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynajit.codegen import pipeline
from dynajit.codegen.pipeline import compile_graph
from dynajit.core.process import config
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.pipeline import optimize
from dynajit.ops.evaluate import type_of_operand
from dynajit.ops.table import dispatch
from tests.support.kernels.emulated import EmulatedProgram

NEEDS_COMPILER = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--target cuda`, what looks at C is left out, fixtures and all."""
    if config.getoption("target") == "cuda":
        for item in items:
            if item.get_closest_marker("c_only"):
                item.add_marker(pytest.mark.skip(reason="it looks at C"))


@pytest.fixture(autouse=True)
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--target cuda`, programs are CUDA units on the emulator."""
    if request.config.getoption("target") != "cuda":
        return

    def start(graph: Graph, *, name: str | None = None, written: Any = MappingProxyType({}),
              backend: str = "native", verify: bool = False,
              launching: Any = None) -> Any:  # fmt: skip
        return pipeline.Started(
            functools.partial(EmulatedProgram, graph, name or graph.name, written=written)
        )

    monkeypatch.setattr(pipeline, "start_compile", start)


@pytest.fixture(autouse=True)
def kernel_cache(kernel_folder: Any) -> Iterator[None]:
    """Kernels of tests stay out of the user's cache."""
    with config.override(cache_dir=kernel_folder):
        yield


def graph_of(
    function: Callable[..., Any], *types: Any, name: str = "graph", optimized: bool = True
) -> Graph:
    """The graph of a function over rows."""
    builder = Builder(name)
    values = [builder.placeholder(f"x{i}", type) for i, type in enumerate(types)]
    with dispatch.recording(builder.handle):
        out = function(*values)
    graph = builder.finish(out if isinstance(out, (tuple, list)) else [out])
    return optimize(graph) if optimized else graph


def type_of_argument(argument: Any) -> Any:
    """Type of an array with its strides, or of a number."""
    type = type_of_operand(argument)
    if isinstance(type, ScalarType):
        return type
    strides = tuple(stride // argument.itemsize for stride in argument.strides)
    contiguous = argument.flags.c_contiguous
    return TensorType(type.shape, type.dtype, strides=None if contiguous else strides)


def assert_same(expected: Any, actual: Any, tolerance: float | None = None) -> None:
    """Same dtype and shape; equal, or close for floats."""
    expected = np.asarray(expected)
    assert (expected.dtype, expected.shape) == (actual.dtype, actual.shape)
    if not dtypes.from_numpy(expected.dtype).is_floating_point:
        np.testing.assert_array_equal(expected, actual)
        return
    if tolerance is None:
        tolerance = {2: 2e-2, 4: 2e-5, 8: 1e-11}[expected.dtype.itemsize]
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
    )


def check(
    function: Callable[..., Any],
    *arguments: Any,
    kernels: int | None = None,
    tolerance: float | None = None,
) -> Any:
    """Compile a function over rows, run it, compare with the interpreter; returns the program."""
    graph = graph_of(function, *map(type_of_argument, arguments))
    program = compile_graph(graph)
    expected = interpret.run(graph, arguments)
    for want, got in zip(expected, program(*arguments), strict=True):
        assert_same(want, got, tolerance)
    if kernels is not None and isinstance(program, EmulatedProgram):
        assert kernels >= len(program.kernels), program.explain  # empty ones are not printed
    elif kernels is not None:
        assert kernels == len(program.kernels), program.explain
    return program


@pytest.fixture(scope="session")
def codegen(request: pytest.FixtureRequest) -> SimpleNamespace:
    """`graph_of`, `check` and `assert_same` of this file; whether programs are CUDA units."""
    if not NEEDS_COMPILER:
        pytest.skip("needs a C compiler")
    return SimpleNamespace(
        graph_of=graph_of,
        check=check,
        assert_same=assert_same,
        type_of=type_of_argument,
        is_cuda=request.config.getoption("target") == "cuda",
    )
