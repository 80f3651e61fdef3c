"""Programs on a GPU: kernels and products launched from C, against the rows on NumPy's arrays."""

import contextlib
import gc
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.device.pipeline import Launching
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import BoundsError, DivisionError
from dynajit.core.process import config
from dynajit.core.types import dtypes
from dynajit.ops import TABLE as ops
from tests.support.gpu.device_graphs import (
    array,
    check,
    check_program,
    compiled,
    graph_of,
    host,
    type_of,
)

pytestmark = pytest.mark.usefixtures("driver", "kernel_cache")
rng = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def test_a_pointwise_chain_is_one_launch() -> None:
    program = check(lambda x, y: ops.exp(ops.mul(ops.add(x, y), 0.5)), normal(33, 7), normal(7))

    assert 1 == program.plan.step_count


def test_numbers_go_by_value() -> None:
    check(lambda x, n, f, b: ops.add(ops.mul(ops.mul(x, f), n), b), normal(10), 3, 0.5, True)


@pytest.mark.parametrize("dtype", [np.float16, dtypes.bfloat16.numpy, np.float64, np.int64, bool])
def test_every_dtype_is_an_argument_and_a_result(dtype: Any) -> None:
    values = rng.integers(-4, 4, (5, 6)).astype(dtype)

    check(lambda x: (ops.where(ops.eq(x, x), x, x), ops.add(x, 1)), values)


def test_results_that_are_arguments_or_numbers_come_back_as_they_are() -> None:
    x = array(normal(3))
    graph = graph_of(lambda a: (ops.exp(a), a), type_of(normal(3)))
    program = compiled(graph)
    results = program(x)

    assert results[1] is x


@pytest.mark.parametrize("replays", [False, True])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (1, 1)])
def test_shapes_without_elements_or_dims_run(shape: tuple[int, ...], replays: bool) -> None:
    """A grid without blocks is left out, of CUDA graphs too."""
    x = normal(*shape) if shape else np.asarray(normal(1)[0])
    dims = tuple(range(len(shape)))
    program = check(
        lambda x: (ops.exp(x), ops.sum(x, dim=dims, keepdim=False)), x,
        launching=Launching(replays=replays),
    )  # fmt: skip
    given = array(x)
    for _ in range(4):
        np.testing.assert_allclose(host(program(given)[1]), x.sum(), rtol=1e-5, atol=1e-6)


def test_strided_inputs_are_read_where_they_lie() -> None:
    check(lambda x, y: ops.add(x, y), normal(6, 4).T, normal(8, 12)[::2, ::2])


def test_an_array_in_another_layout_is_copied_into_the_expected_one() -> None:
    graph = graph_of(lambda x: ops.exp(x), type_of(normal(4, 6)))
    program = compiled(graph)
    given = normal(6, 4).T

    np.testing.assert_allclose(np.exp(given), host(program(array(given))[0]), rtol=1e-5)


def test_wrong_arrays_are_refused() -> None:
    program = compiled(graph_of(lambda x, n: ops.mul(x, n), type_of(normal(4)), type_of(2)))
    x = array(normal(4))

    with pytest.raises(TypeError, match=r"shape \(5,\).*Expected dtype float32 and shape \(4,\)"):
        program(array(normal(5)), 1)
    with pytest.raises(TypeError, match=r"float64.*Expected dtype float32"):
        program(array(normal(4, dtype=np.float64)), 1)
    with pytest.raises(TypeError, match="Expected an array on the GPU"):
        program(normal(4), 1)
    with pytest.raises(TypeError, match="Expected an integer"):
        program(x, 1.5)
    with pytest.raises(OverflowError, match="does not fit in int64"):
        program(x, 1 << 70)
    with pytest.raises(TypeError, match=r"1 arguments given.  Expected 2"):
        program(x)


def test_an_array_of_another_device_is_refused(second_device: str) -> None:
    program = compiled(graph_of(lambda x: ops.exp(x), type_of(normal(4))))

    with pytest.raises(ValueError, match=r"is on cuda:1.  Expected cuda:0"):
        program(gpu.to_device(normal(4), 1))


def test_temporaries_live_in_a_workspace_that_is_kept() -> None:
    graph = graph_of(
        lambda x: ops.softmax(ops.matmul(ops.softmax(x, dim=1), x), dim=1), type_of(normal(32, 32))
    )
    program = compiled(graph)
    x = normal(32, 32)
    check_program(program, graph, [x])
    pool = gpu.module().get_default_memory_pool()
    before = pool.total_bytes()
    for _ in range(5):
        check_program(program, graph, [x])

    assert before == pool.total_bytes()


def test_an_index_out_of_range_is_reported_as_on_the_cpu() -> None:
    graph = graph_of(
        lambda x, i: ops.index_select(x, i, dim=0), type_of(normal(5, 3)), type_of(np.arange(4))
    )
    program = compiled(graph)
    x = array(normal(5, 3))

    assert program.may_fail
    with pytest.raises(BoundsError, match=r"index 5 is out of range for a dimension of size 5"):
        program(x, array(np.array([0, 5, 1, 2])))
    check_program(program, graph, [normal(5, 3), np.array([4, 0, 0, 1])])


def test_a_division_by_zero_is_reported_as_on_the_cpu() -> None:
    graph = graph_of(lambda x, y: ops.floor_divide(x, y), *[type_of(np.arange(4))] * 2)
    program = compiled(graph)

    with pytest.raises(DivisionError, match="integer division by zero"):
        program(array(np.arange(4)), array(np.array([1, 2, 0, 1])))


# ---------------------------------------------------------------------------------------------
# products

PRODUCTS = {
    "plain": (normal(20, 30), normal(30, 40)),
    "left transposed": (normal(30, 20).T, normal(30, 40)),
    "right transposed": (normal(20, 30), normal(40, 30).T),
    "both transposed": (normal(30, 20).T, normal(40, 30).T),
    "sliced": (normal(20, 50)[:, 10:40], normal(60, 40)[15:45]),
    "batched": (normal(4, 20, 30), normal(4, 30, 40)),
    "one right operand": (normal(4, 20, 30), normal(30, 40)),
    "two batch dims": (normal(2, 3, 20, 30), normal(2, 3, 30, 40)),
    "heads": (
        normal(2, 24, 3, 32).transpose(0, 2, 1, 3),
        normal(2, 24, 3, 32).transpose(0, 2, 3, 1),
    ),
    "double": (normal(20, 30, dtype=np.float64), normal(30, 40, dtype=np.float64)),
    "half": (normal(20, 30, dtype=np.float16), normal(30, 40, dtype=np.float16)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_the_librarys(name: str) -> None:
    tolerance = 2e-2 if name == "half" else 1e-4

    check(lambda x, y: ops.matmul(x, y), *PRODUCTS[name], tolerance=tolerance)


def test_a_product_without_terms_is_zero() -> None:
    check(lambda x, y: ops.matmul(x, y), normal(20, 0), normal(0, 30))


# ---------------------------------------------------------------------------------------------
# CUDA graphs

REPLAYS = Launching(replays=True)


def chain(x: Any, weight: Any, factor: Any) -> Any:
    return ops.mul(ops.softmax(ops.matmul(x, weight), dim=1), factor)


def test_calls_with_addresses_met_before_replay_a_graph() -> None:
    x, weight = normal(16, 64), normal(64, 48)
    graph = graph_of(chain, type_of(x), type_of(weight), type_of(0.5))
    program = compiled(graph, REPLAYS)
    given = array(x), array(weight)
    for number in range(12):
        got = program(*given, float(number))
        expected = compiled(graph)(*given, float(number))
        np.testing.assert_array_equal(host(expected[0]), host(got[0]))
        del got, expected
    hits, captures, refused = program.replayed

    assert hits >= 6
    assert 1 <= captures <= 4
    assert refused is None


def test_results_of_replays_can_be_kept() -> None:
    x = normal(16, 64)
    graph = graph_of(lambda x, f: ops.mul(ops.exp(x), f), type_of(x), type_of(0.5))
    program = compiled(graph, REPLAYS)
    given = array(x)
    kept = [program(given, float(number))[0] for number in range(40)]
    for number, result in enumerate(kept):
        np.testing.assert_allclose(np.exp(x) * number, host(result), rtol=1e-5, atol=1e-6)


def test_a_replay_reads_only_what_its_call_was_given() -> None:
    x = normal(16, 64)
    graph = graph_of(lambda x: ops.exp(x), type_of(x))
    program = compiled(graph, REPLAYS)
    for number in range(20):
        given = array(x + number)
        result = program(given)[0]
        np.testing.assert_allclose(np.exp(x + number), host(result), rtol=1e-4)
        del given, result
        gpu.module().get_default_memory_pool().free_all_blocks()


def test_errors_are_reported_by_replays() -> None:
    x, index = normal(5, 3), np.array([0, 1])
    graph = graph_of(lambda x, i: ops.index_select(x, i, dim=0), type_of(x), type_of(index))
    program = compiled(graph, REPLAYS)
    given, places = array(x), array(index)
    for _ in range(6):
        program(given, places)
    places[1] = 9

    assert program.replayed[0] > 0
    with pytest.raises(BoundsError, match="index 9 is out of range"):
        program(given, places)


def test_checks_in_front_are_no_part_of_a_graph(driver: Any) -> None:
    """A call waits for them, and would wait for all of the graph that they were part of."""
    x, weight, index = normal(5, 8), normal(8, 8), np.array([0, 1])

    def model(x: Any, w: Any, i: Any) -> Any:
        rows = ops.matmul(ops.softmax(ops.matmul(ops.index_select(x, i, dim=0), w), dim=1), w)
        return ops.softmax(ops.matmul(rows, w), dim=1)

    graph = graph_of(model, type_of(x), type_of(weight), type_of(index))
    program = compiled(graph, REPLAYS)
    given, places = (array(x), array(weight)), array(index)
    for _ in range(6):
        program(*given, places)
    launched, hits = driver and driver.calls("cuLaunchKernel"), program.replayed[0]
    (result,) = program(*given, places)

    assert hits > 0
    assert hits + 1 == program.replayed[0]
    assert driver is None or launched + 1 == driver.calls("cuLaunchKernel")
    (expected,) = compiled(graph)(*given, places)
    np.testing.assert_array_equal(host(expected), host(result))
    places[1] = 9
    with pytest.raises(BoundsError, match="index 9 is out of range"):
        program(*given, places)


def test_products_of_float32_are_full_unless_tf32_is_allowed() -> None:
    x, y = normal(16, 64), normal(64, 16)
    program = compiled(graph_of(lambda x, y: ops.matmul(x, y), type_of(x), type_of(y)))
    exact = x.astype(np.float64) @ y.astype(np.float64)
    full = np.abs(host(program(array(x), array(y))[0]) - exact).max()
    before = config.configure(allow_tf32=True)
    try:
        rough = np.abs(host(program(array(x), array(y))[0]) - exact).max()
    finally:
        config.configure(allow_tf32=before.allow_tf32)

    assert full < 2e-5
    assert 1e-4 < rough < 5e-2


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_a_bias_is_added_by_the_library(dtype: Any) -> None:
    x, weight, bias = (normal(*s, dtype=dtype) for s in ((4, 20, 30), (40, 30), (40,)))
    tolerance = 3e-2 if dtype is np.float16 else 1e-4
    program = check(
        lambda x, w, b: ops.add(ops.matmul(x, ops.permute(w, dims=(1, 0))), b), x, weight, bias,
        tolerance=tolerance,
    )  # fmt: skip

    assert 1 == program.plan.step_count


def test_other_additions_are_not_the_librarys() -> None:
    x, y = normal(20, 30), normal(30, 20)

    def kept(x: Any, y: Any, b: Any) -> Any:
        product = ops.matmul(x, y)
        return ops.add(product, b), product

    whole, along_rows, row = normal(20, 20), normal(20, 1), normal(20)
    plus = lambda x, y, b: ops.add(ops.matmul(x, y), b)
    assert 2 == check(plus, x, y, whole, tolerance=1e-4).plan.step_count
    assert 2 == check(plus, x, y, along_rows, tolerance=1e-4).plan.step_count
    assert 2 == check(kept, x, y, row, tolerance=1e-4).plan.step_count
    transposed = lambda x, y, b: ops.add(ops.permute(ops.matmul(x, y), dims=(1, 0)), b)
    assert 2 == check(transposed, x, y, row, tolerance=1e-4).plan.step_count


@pytest.mark.parametrize("replays", [False, True])
def test_calls_leak_nothing(blocks: Any, replays: bool, driver: Any) -> None:
    x, weight, index = normal(5, 8), normal(8, 8), np.array([0, 1])
    graph = graph_of(
        lambda x, w, i, f: ops.index_select(ops.mul(ops.matmul(x, w), f), i, dim=0),
        type_of(x), type_of(weight), type_of(index), type_of(0.5),
    )  # fmt: skip
    program = compiled(graph, Launching(replays=replays))
    given = array(x), array(weight), array(index)
    wrong = array(np.array([0, 99]))

    def call(count: int) -> None:
        for number in range(count):
            program(*given, float(number))
            with contextlib.suppress(BoundsError):
                program(given[0], given[1], wrong, 1.0)
            with contextlib.suppress(TypeError):
                program(given[1], given[1], wrong, 1.0)

    call(30)
    living, growth = driver and driver.block_count(), []
    for _ in range(3):  # what is loaded late, once, is no leak
        before = blocks()
        call(60)
        growth.append(blocks() - before)

    assert min(map(abs, growth)) < 30
    assert living == (driver and driver.block_count())


def test_programs_give_back_what_they_hold(driver: Any) -> None:
    if driver is None:
        pytest.skip("the stand-in counts blocks of memory")
    x, index = normal(5, 8), np.array([0, 1])
    work = lambda x, i: ops.index_select(
        ops.softmax(ops.matmul(x, ops.permute(x, dims=(1, 0))), dim=1), i, dim=0
    )
    graph = graph_of(work, type_of(x), type_of(index))
    given = array(x), array(index)
    compiled(graph, REPLAYS)(*given)
    gc.collect()
    before = driver.block_count()
    program = compiled(graph, REPLAYS)
    for _ in range(8):
        program(*given)
    assert program.replayed[1] >= 1
    del program
    gc.collect()

    assert before == driver.block_count()
