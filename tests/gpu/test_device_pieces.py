"""Graphs cut into pieces: who runs what, in which order, and what goes between."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dynajit.codegen import pipeline
from dynajit.codegen.device import pieces as device_pieces
from dynajit.codegen.device.pieces import Kind
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret
from dynajit.ir.node import Node
from dynajit.ops import TABLE as ops
from tests.support.gpu.device_graphs import GPU, array, compiled, graph_of, host, type_of

pytestmark = pytest.mark.usefixtures("driver", "kernel_cache")
rng = np.random.default_rng(0)
x, y = (rng.standard_normal((4, 3)).astype(np.float32) for _ in range(2))
number = np.array(2.5, np.float32)


def has_kernel(node: Node) -> bool:
    """All rows but inverses."""
    return node.op is not ops.inverse


def kinds(function: Callable[..., Any], *types: Any) -> list[tuple[Kind, str]]:
    """Kind and device of each piece."""
    pieces = device_pieces.cut(graph_of(function, *types), has_kernel)
    return [(piece.kind, str(piece.device)) for piece in pieces]


def test_one_device_and_kernels_for_all_is_one_piece() -> None:
    found = kinds(lambda a, b: ops.add(ops.exp(a), b), type_of(x), type_of(y))

    assert [(Kind.KERNELS, "cuda:0")] == found


def test_what_the_cpu_computes_comes_first() -> None:
    def step(a: Any, count: Any) -> Any:
        more = ops.add(count, 1)
        return ops.mul(a, more), more

    found = kinds(step, type_of(x), type_of(number, CPU))

    assert [(Kind.HOST, "cpu"), (Kind.KERNELS, "cuda:0")] == found


def test_transfers_are_pieces_of_their_own() -> None:
    def there_and_back(a: Any) -> Any:
        there = ops.to_device(ops.exp(a), device=CPU)
        return ops.add(ops.to_device(ops.add(there, 1), device=GPU), a)

    found = kinds(there_and_back, type_of(x))

    assert [
        (Kind.KERNELS, "cuda:0"), (Kind.ROW, "cpu"), (Kind.HOST, "cpu"), (Kind.ROW, "cuda:0"),
        (Kind.KERNELS, "cuda:0"),
    ] == found  # fmt: skip


def test_kernels_wait_for_rows_that_can_run_now() -> None:
    square = type_of(np.eye(3, dtype=np.float32))
    found = kinds(lambda a, b: ops.add(ops.inverse(a), ops.exp(b)), square, square)

    assert [(Kind.ROW, "cuda:0"), (Kind.KERNELS, "cuda:0")] == found


def test_a_value_of_the_cpu_goes_by_value() -> None:
    graph = graph_of(lambda a, n: ops.mul(a, ops.add(n, 1)), type_of(x), type_of(number, CPU))
    *_, kernels = device_pieces.cut(graph, has_kernel)
    first = kernels.graph.inputs[-1]

    assert not isinstance(first.type, TensorType) or first.type.shape != ()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, bool, np.float16])
def test_numbers_of_the_cpu_count_as_tensors_in_promotion(dtype: Any) -> None:
    value = np.array(1, dtype)
    graph = graph_of(lambda a, n: ops.add(ops.mul(a, n), n), type_of(x), type_of(value, CPU))
    (got,) = compiled(graph)(array(x), value)
    (want,) = interpret.run(graph, (x, value))

    assert want.dtype == got.dtype
    np.testing.assert_allclose(host(got), want, rtol=1e-6)


def test_pieces_compute_what_the_graph_computes() -> None:
    def mixed(a: Any, b: Any, n: Any) -> Any:
        more = ops.add(n, 1)
        there = ops.to_device(ops.exp(ops.mul(a, more)), device=CPU)
        total = ops.sum(there, dim=(0, 1), keepdim=False)
        return ops.add(b, total), more, there, ops.mul(total, 2), a

    graph = graph_of(mixed, type_of(x), type_of(y), type_of(number, CPU))
    program = pipeline.start_compile(graph)()
    got = program(array(x), array(y), number)
    there = np.exp(x * (number + 1))

    np.testing.assert_allclose(host(got[0]), y + there.sum(), rtol=1e-5)
    np.testing.assert_allclose(got[1], number + 1)
    np.testing.assert_allclose(got[2], there, rtol=1e-5)
    np.testing.assert_allclose(got[3], there.sum() * 2, rtol=1e-5)
    np.testing.assert_array_equal(host(got[4]), x)


def test_values_are_let_go_when_nothing_needs_them() -> None:
    graph = graph_of(
        lambda a: ops.exp(ops.to_device(ops.to_device(ops.exp(a), device=CPU), device=GPU)),
        type_of(x),
    )
    program = pipeline.start_compile(graph)()
    freed = [number for step in program.order.steps for number in step.frees]

    assert sorted(set(freed)) == sorted(freed)
    assert program.order.count - 1 == len(freed)


def test_rows_without_a_kernel_are_named_in_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.device_pipeline, "_told", set())
    value = rng.standard_normal((3, 3)).astype(np.float32)
    graph = graph_of(lambda a: ops.exp(ops.inverse(a)), type_of(value))
    with pytest.warns(
        RuntimeWarning, match="is cut into 2 pieces on the GPU.*inverse.*through CuPy"
    ):
        program = pipeline.start_compile(graph)()

    np.testing.assert_allclose(
        host(program(array(value))[0]), np.exp(np.linalg.inv(value)), rtol=1e-3
    )
