"""Epilogues of products and convolutions: the bits of the kernels one by one, for any threads."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.c import products
from dynajit.codegen.loops.loop_ir import Kernel, MatmulKernel, NativeKernel
from dynajit.codegen.pipeline import compile_graph, generate
from dynajit.codegen.plan import epilogues
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Graph
from dynajit.ops import TABLE as ops
from tests.support.kernels.teams import same_for_teams

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]


@pytest.fixture(autouse=True)
def results_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epilogues, "LEAST_BYTES", 1)


#: Shapes of x and of the weight; groups, stride, before, after, dilation.
CONVOLUTIONS = {
    "Winograd": ((2, 32, 25, 26), (20, 32, 3, 3), 1, (1, 1), (1, 1), (1, 1), (1, 1)),
    "Winograd of planes of 7x7": ((9, 16, 7, 7), (40, 16, 3, 3), 1, (1, 1), (1, 1), (1, 1), (1, 1)),
    "Winograd, dilated": ((2, 16, 31, 33), (20, 16, 3, 3), 1, (1, 1), (2, 2), (2, 2), (2, 2)),
    "Winograd, dilated along columns": (
        (1, 16, 32, 30), (24, 16, 3, 3), 1, (1, 1), (2, 1), (2, 1), (2, 1),
    ),
    "Winograd in 3 dims": (
        (2, 16, 5, 12, 14), (16, 16, 3, 3, 3), 1, (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1),
    ),
    "strides": ((2, 5, 19, 23), (20, 5, 3, 3), 1, (2, 2), (1, 1), (1, 1), (1, 1)),
    "several slabs": ((1, 3, 70, 64), (33, 3, 7, 7), 1, (2, 2), (3, 3), (3, 3), (1, 1)),
    "groups": ((2, 12, 15, 14), (36, 3, 3, 3), 4, (1, 1), (1, 1), (1, 1), (1, 1)),
    "depthwise": ((2, 12, 15, 14), (12, 1, 3, 3), 12, (1, 1), (1, 1), (1, 1), (1, 1)),
    "few channels": ((2, 8, 40, 41), (3, 8, 5, 5), 1, (1, 1), (2, 2), (2, 2), (1, 1)),
    "weights where they lie": ((2, 19, 7, 6), (16, 19, 3, 3), 1, (1, 1), (1, 1), (1, 1), (1, 1)),
    "1 dim": ((3, 7, 301), (17, 7, 7), 1, (1,), (3,), (3,), (1,)),
}  # fmt: skip


def affine(y: Any, scale: Any, shift: Any, other: Any) -> Any:
    return ops.relu(y * scale + shift)


def residual(y: Any, scale: Any, shift: Any, other: Any) -> Any:
    return ops.relu(y * scale + other) * shift


def lone(y: Any, scale: Any, shift: Any, other: Any) -> Any:
    return ops.sigmoid(y) * y


FUNCTIONS = (affine, residual, lone)


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def kernels_of(graph: Graph) -> list[Kernel]:
    return [function.kernel for function in generate(graph, "graph").functions]


def with_epilogues(graph: Graph) -> list[Kernel]:
    kinds = (MatmulKernel, NativeKernel)
    return [k for k in kernels_of(graph) if isinstance(k, kinds) and k.epilogue is not None]


def apart(monkeypatch: pytest.MonkeyPatch, graph: Graph, *arrays: np.ndarray) -> Any:
    """Results of the kernels one by one."""
    with monkeypatch.context() as context:
        context.setattr(epilogues, "join", lambda kernels, outside, may_have: list(kernels))
        assert not with_epilogues(graph)
        return compile_graph(graph)(*arrays)


def assert_same_bits(expected: Any, actual: Any) -> None:
    for one, other in zip(expected, actual, strict=True):
        assert one.tobytes() == other.tobytes()


class Convolution:
    """A convolution or its transpose in x, and operands of what follows it.

    Args:
        name: of `CONVOLUTIONS`.
        is_back: the transpose.
        dtype: of all operands.
    """

    def __init__(self, name: str, is_back: bool, dtype: str) -> None:
        shape, weight, groups, stride, before, after, dilation = CONVOLUTIONS[name]
        self.options = {"groups": groups, "stride": stride, "before": before, "after": after,
                        "dilation": dilation}  # fmt: skip
        self.is_back, self.sizes = is_back, shape[2:]
        geometry = zip(shape[2:], weight[2:], stride, before, after, dilation, strict=True)
        out = tuple((n + b + a - (k - 1) * d - 1) // s + 1 for n, k, s, b, a, d in geometry)
        images = (shape[0], weight[0], *out)
        given, self.result = (images, shape) if is_back else (shape, images)
        channels = (self.result[1], *(1 for _ in out))
        shapes = given, weight, channels, channels, self.result
        self.arrays = [normal(*s, dtype=dtype, seed=seed) for seed, s in enumerate(shapes)]

    def row(self, x: Any, weight: Any) -> Any:
        if self.is_back:
            return ops.convolution_input(x, weight, shape=self.sizes, **self.options)
        return ops.convolution(x, weight, None, **self.options)

    def graph(self, codegen: Any, function: Callable[..., Any]) -> Graph:
        found: Graph = codegen.graph_of(
            lambda x, weight, *rest: [function(self.row(x, weight), *rest)],
            *map(codegen.type_of, self.arrays),
            optimized=False,
        )
        return found


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("is_back", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_bits_are_those_of_a_convolution_and_what_follows_one_by_one(
    codegen: Any,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_back: bool,
    function: Callable[..., Any],
) -> None:
    call = Convolution(name, is_back, "float32")
    graph = call.graph(codegen, function)

    assert len(with_epilogues(graph)) == 1 and len(kernels_of(graph)) == 1
    expected = apart(monkeypatch, graph, *call.arrays)
    assert_same_bits(expected, same_for_teams(compile_graph(graph), call.arrays))


def not_finite(array: np.ndarray, value: float) -> np.ndarray:
    array = array.copy()
    array.reshape(-1)[array.size // 2] = value
    return array


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("is_back", [False, True])
@pytest.mark.parametrize("name", ["Winograd", "strides"])
def test_what_is_computed_again_for_numbers_that_are_not_finite_ends_once(
    codegen: Any,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_back: bool,
    place: int,
    value: float,
) -> None:
    call = Convolution(name, is_back, "float32")
    call.arrays[place] = not_finite(call.arrays[place], value)
    graph = call.graph(codegen, affine)

    assert with_epilogues(graph)
    expected = apart(monkeypatch, graph, *call.arrays)
    for one, other in zip(expected, compile_graph(graph)(*call.arrays), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sizes_may_vary(codegen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Convolution("strides", False, "float32")
    image, weight, *channels, other = (codegen.type_of(array) for array in call.arrays)
    sizes = symbol("s0", 1), symbol("s1", 8)
    types = [
        TensorType((sizes[0], 5, sizes[1], 23), image.dtype),
        weight,
        *channels,
        TensorType((sizes[0], 20, (sizes[1] - 1) // 2 + 1, 12), other.dtype),
    ]
    graph = codegen.graph_of(
        lambda x, weight, *rest: [residual(call.row(x, weight), *rest)], *types, optimized=False
    )

    assert with_epilogues(graph)
    program = compile_graph(graph)
    for batch, height in ((2, 19), (1, 8), (5, 40)):
        x = normal(batch, 5, height, 23)
        arrays = [x, *call.arrays[1:4], normal(batch, 20, (height - 1) // 2 + 1, 12, seed=7)]
        assert_same_bits(apart(monkeypatch, graph, *arrays), program(*arrays))


#: Sizes of the batch, rows, terms, columns.
PRODUCTS = ((3, 40, 17, 90), (1, 130, 33, 301), (17, 50, 64, 70), (2, 300, 20, 500))


@pytest.fixture(params=[False, True], ids=["large parts", "small parts"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parts of products, of a few rows each or as large as they are."""
    if request.param:
        monkeypatch.setattr(products, "EPILOGUE_BYTES", 1)
        monkeypatch.setattr(products, "TILE_ROWS", 6)
    yield


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("sizes", PRODUCTS)
def test_bits_are_those_of_a_product_and_what_follows_one_by_one(
    codegen: Any,
    monkeypatch: pytest.MonkeyPatch,
    parts: None,
    sizes: tuple[int, ...],
    function: Callable[..., Any],
    dtype: str,
) -> None:
    batch, rows, terms, columns = sizes
    shapes = (rows, terms), (batch, terms, columns), (rows, 1), (rows, 1), (batch, rows, columns)
    arrays = [normal(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]
    graph = codegen.graph_of(
        lambda weight, x, *rest: [function(ops.matmul(weight, x), *rest)],
        *map(codegen.type_of, arrays),
    )

    assert with_epilogues(graph)
    expected = apart(monkeypatch, graph, *arrays)
    assert_same_bits(expected, same_for_teams(compile_graph(graph), arrays))


def two_convolutions(y: Any, z: Any) -> list[Any]:
    return [ops.relu(y * 0.5 + z)]


def shown(y: Any, z: Any) -> list[Any]:
    return [ops.sigmoid(z), z, y]


def read_twice(y: Any, z: Any) -> list[Any]:
    return [ops.relu(z), ops.sum(z, dim=(1,)), y]


def turned(y: Any, z: Any) -> list[Any]:
    return [ops.relu(ops.flip(z, dims=(2,))), y]


def summed(y: Any, z: Any) -> list[Any]:
    return [ops.sum(ops.relu(z), dim=(2, 3)), y]


@pytest.mark.parametrize(
    ("function", "count"),
    [(two_convolutions, 1), (shown, 0), (read_twice, 0), (turned, 0), (summed, 0)],
)
def test_only_what_one_kernel_reads_element_by_element_is_an_epilogue(
    codegen: Any, function: Callable[..., list[Any]], count: int
) -> None:
    call = Convolution("strides", False, "float32")

    def network(x: Any, weight: Any, *rest: Any) -> list[Any]:
        return function(call.row(x, weight), call.row(x * 2.0, weight))

    types = map(codegen.type_of, call.arrays)
    graph = codegen.graph_of(network, *types, optimized=False)

    assert len(with_epilogues(graph)) == count
    codegen.check(network, *call.arrays, tolerance=1e-4)
