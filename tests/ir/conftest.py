"""What the tests of `dynajit.ir` share: recording a function as a graph, sample arrays."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dynajit.core.location import Location
from dynajit.core.process import config
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.verify import verify
from dynajit.ops.table import dispatch


@pytest.fixture(autouse=True)
def verified() -> Iterator[None]:
    """Every pass of the pipeline is followed by the verifier."""
    with config.override(verify_graphs=True):
        yield


@pytest.fixture
def record() -> Callable[..., Graph]:
    """`record(function, x=(2, 3), n=int)`: the graph of `function(x=..., n=...)`.

    An input is a shape (float32), a (shape, dtype) pair, a TensorType, or a number class.
    """

    def type_from(given: Any) -> Any:
        if isinstance(given, (TensorType, ScalarType)):
            return given
        if given in (bool, int, float):
            return ScalarType(dtypes.of_number(given(1)).category)
        if given and isinstance(given[0], tuple):
            return TensorType(*given)
        return TensorType(given, dtypes.float32)

    def recorded(function: Callable[..., Any], /, **inputs: Any) -> Graph:
        builder = Builder("example")
        operands = {n: builder.placeholder(n, type_from(t)) for n, t in inputs.items()}
        builder.location = Location("model.py", 41)
        with dispatch.recording(builder.handle):
            results = function(**operands)
        outputs = results if isinstance(results, tuple) else (results,)
        graph = builder.finish(outputs)
        verify(graph)
        return graph

    return recorded


@pytest.fixture
def samples() -> Callable[..., list[Any]]:
    """`samples(graph)`: an array or a number for every input of a graph, seeded."""

    def drawn(graph: Graph, seed: int = 0) -> list[Any]:
        random = np.random.default_rng(seed)
        values: list[Any] = []
        for node in graph.inputs:
            if isinstance(node.type, ScalarType):
                values.append((True, 3, 1.5)[node.type.category])
            elif node.type.dtype.category <= dtypes.Category.INTEGER:
                values.append(random.integers(0, 2, node.type.shape).astype(node.type.dtype.numpy))
            else:
                drawn_array = random.uniform(0.3, 1.7, node.type.shape)
                values.append(drawn_array.astype(node.type.dtype.numpy))
        return values

    return drawn


@pytest.fixture
def body_of() -> Callable[[Graph], list[str]]:
    """`body_of(graph)`: the printed statements without comments, for golden comparisons."""

    def statements(graph: Graph) -> list[str]:
        lines = str(graph).splitlines()
        return [line.partition("  #")[0].strip() for line in lines[lines.index("):") + 1 :]]

    return statements


@pytest.fixture
def same_bits() -> Callable[[Any, Any], bool]:
    """`same_bits(a, b)`: equal dtype, shape and values; NaN equals NaN, 0 differs from -0."""

    def equal(a: Any, b: Any) -> bool:
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.kind in "biu":
            return bool(np.array_equal(a, b))
        a, b = a.astype(np.float64), b.astype(np.float64)
        numbers = ~np.isnan(a)
        return bool(
            np.array_equal(a, b, equal_nan=True)
            and np.array_equal(np.signbit(a[numbers]), np.signbit(b[numbers]))
        )

    return equal
