"""Launches under bad conditions: no memory, faults, forks, threads, streams, work that is not done.

What tells the stand-in for the driver to misbehave is skipped on a GPU.
"""

import os
import threading
import warnings
from typing import Any

import numpy as np
import pytest

from dynajit.codegen import _device
from dynajit.codegen.device import driver as device_driver
from dynajit.codegen.device.pipeline import DEFAULT, Launching
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import BoundsError, DeviceError, OutOfMemoryError
from dynajit.core.process import config
from dynajit.ops import TABLE as ops
from tests.support.gpu.device_graphs import array, check_program, compiled, graph_of, host, type_of
from tests.support.gpu.driver_stand_in import Driver, image

pytestmark = pytest.mark.usefixtures("driver", "kernel_cache")
rng = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def program_of(function: Any, *arguments: Any, launching: Launching = DEFAULT) -> Any:
    return compiled(graph_of(function, *map(type_of, arguments)), launching)


@pytest.fixture
def lazy(driver: Driver | None) -> Any:
    """Work of the stand-in waits until somebody waits for it, as on a GPU."""
    if driver is None:
        yield lambda: None
        return
    driver.set_lazy(True)
    yield driver.drain
    driver.set_lazy(False)


# ---------------------------------------------------------------------------------------------
# work that is not done yet


@pytest.mark.parametrize("replays", [False, True])
def test_calls_do_not_disturb_those_that_still_run(lazy: Any, replays: bool) -> None:
    x, weight = normal(16, 32), normal(32, 32)
    program = program_of(
        lambda x, w, f: ops.softmax(ops.mul(ops.matmul(ops.softmax(x, dim=1), w), f), dim=1),
        x, weight, 0.5, launching=Launching(replays=replays),
    )  # fmt: skip
    given = array(x), array(weight)
    lazy()
    results = [program(*given, float(n))[0] for n in range(6)]
    lazy()
    for number, result in enumerate(results):
        alone = program(*given, float(number))[0]
        lazy()
        np.testing.assert_array_equal(host(alone), host(result))


def test_errors_are_waited_for(lazy: Any) -> None:
    x, index = normal(5, 3), np.array([0, 7])
    program = program_of(lambda x, i: ops.index_select(x, i, dim=0), x, index)
    given = array(x), array(index)

    with pytest.raises(BoundsError, match="index 7 is out of range"):
        program(*given)


# ---------------------------------------------------------------------------------------------
# memory


def test_a_result_without_memory_is_refused_and_nothing_has_changed() -> None:
    x = normal(64, 1024)
    program = program_of(lambda x: ops.exp(x), x)
    given = array(x)
    pool = gpu.module().get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + 4096)
    try:
        with pytest.raises(OutOfMemoryError, match=r"no memory for a result of shape \(64, 1024\) "
                           r"and dtype float32, 262144 bytes.*Nothing was computed"):  # fmt: skip
            program(given)
    finally:
        pool.set_limit(size=0)
    np.testing.assert_allclose(np.exp(x), host(program(given)[0]), rtol=1e-5)


def test_temporaries_without_memory_are_refused() -> None:
    x = normal(256, 256)
    program = program_of(lambda x: ops.sum(ops.matmul(x, x), dim=(0, 1), keepdim=False), x)
    given = array(x)
    pool = gpu.module().get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + 8192)
    try:
        with pytest.raises(OutOfMemoryError, match=r"no memory for temporaries, \d+ bytes"):
            program(given)
    finally:
        pool.set_limit(size=0)
    np.testing.assert_allclose((x @ x).sum(), host(program(given)[0]), rtol=1e-3)


# ---------------------------------------------------------------------------------------------
# faults

WRITES_BESIDE = """
#include <stdint.h>
extern "C" __global__ void beside(float *x) { x[1 << 20] = 1; }
"""


def test_a_fault_of_somebody_elses_kernel_is_explained(
    driver: Driver | None, driver_folder: Any
) -> None:
    if driver is None:
        pytest.skip("CUDA ends for the whole process with a fault")
    x = normal(8)
    program = program_of(lambda x: ops.exp(x), x)
    given = array(x)
    module = _device.Module(device_driver.driver(), image(WRITES_BESIDE, driver_folder), 0)
    kernel = (_device.STEP_KERNEL, "beside", (1, 1, 1), (1, 1, 1), 2, 0, (((0, -1),),), 0)
    plan = _device.Plan(module, 3, ((1, 1), (2, 0)), (), (kernel,), ())
    plan.run(0, (given.data.ptr,), 0)

    message = "CUDA_ERROR_ILLEGAL_ADDRESS.*read or wrote memory that is not its own.*new process"
    with pytest.raises(DeviceError, match=message):
        program(given)
    assert "beside" in driver.complaint()


@pytest.mark.parametrize("call", ["cuLaunchKernel", "cuStreamSynchronize"])
def test_other_failures_name_the_call(driver: Driver | None, call: str) -> None:
    if driver is None:
        pytest.skip("a driver does not fail on demand")
    x = normal(8)
    program = program_of(lambda x: ops.exp(x), x)
    given = array(x)
    driver.fail(call, 701)

    with pytest.raises(AssertionError, match=rf"{call} failed with "
                       r"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES \(code 701\)"):  # fmt: skip
        program(given)
        device_driver.driver().synchronize(0, 0)


@pytest.mark.parametrize("call", ["cuStreamBeginCapture_v2", "cuStreamEndCapture",
                                  "cuGraphInstantiateWithFlags", "cuStreamCreate"])  # fmt: skip
def test_where_graphs_are_refused_calls_run_without(driver: Driver | None, call: str) -> None:
    if driver is None:
        pytest.skip("a driver does not fail on demand")
    x = normal(8)
    program = program_of(lambda x: ops.exp(x), x, launching=Launching(replays=True))
    given = array(x)
    driver.fail(call, 801)
    for _ in range(8):
        np.testing.assert_allclose(np.exp(x), host(program(given)[0]), rtol=1e-5)

    assert program.replayed[2] is not None


def test_a_missing_driver_is_named_with_what_to_do() -> None:
    with (
        config.override(cuda_driver="libno-such-driver.so"),
        pytest.raises(DeviceError, match=r"libno-such-driver.so cannot be loaded.*DYNAJIT_CUDA_DR"),
    ):
        device_driver.driver()


def test_a_fork_is_told_that_it_cannot_use_the_gpu() -> None:
    x = normal(8)
    program = program_of(lambda x: ops.exp(x), x)
    given = array(x)
    program(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CPython 3.12 warns of threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            program(given)
        except DeviceError as error:
            code = 0 if "it is a fork of one that used it" in str(error) else 2
        os._exit(code)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ---------------------------------------------------------------------------------------------
# threads, streams, devices


@pytest.mark.parametrize("replays", [False, True])
def test_threads_with_streams_of_their_own_share_a_program(replays: bool) -> None:
    x, weight = normal(24, 32), normal(32, 32)
    program = program_of(
        lambda x, w, f: ops.mul(ops.softmax(ops.matmul(ops.softmax(x, dim=1), w), dim=1), f),
        x, weight, 0.5, launching=Launching(replays=replays),
    )  # fmt: skip
    given = array(x), array(weight)
    expected = host(program(*given, 1.0)[0])
    wrong: list[Any] = []

    def work(number: int) -> None:
        try:
            with gpu.module().cuda.Stream(non_blocking=True) as stream:
                for turn in range(8):
                    factor = float(number * 10 + turn)
                    result = program(*given, factor)[0]
                    stream.synchronize()
                    np.testing.assert_allclose(host(result), expected * factor, rtol=1e-5)
        except BaseException as error:
            wrong.append(error)

    gpu.synchronize()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_a_program_runs_on_its_own_device_whatever_the_current_one_is(second_device: str) -> None:
    x = normal(8)
    program = program_of(lambda x: ops.exp(x), x)
    given = array(x)
    with gpu.on(1):
        result = program(given)[0]

    assert result.data.device_id == 0
    np.testing.assert_allclose(np.exp(x), host(result), rtol=1e-5)


def test_a_program_can_be_first_called_from_a_thread() -> None:
    x = normal(8)
    program = program_of(lambda x: ops.exp(x), x)
    given, found = array(x), []
    thread = threading.Thread(target=lambda: found.append(program(given)[0]))
    thread.start()
    thread.join()
    gpu.synchronize()

    np.testing.assert_allclose(np.exp(x), host(found[0]), rtol=1e-5)


# ---------------------------------------------------------------------------------------------
# arrays


def test_arrays_at_any_multiple_of_their_item_size_run() -> None:
    x = normal(1, 37)
    given = array(normal(1, 44))
    graph = graph_of(lambda x: ops.softmax(ops.mul(x, 2.0), dim=1), type_of(x))
    program = compiled(graph)
    for start in range(5):
        part = given[:, start : start + 37]
        expected = program(part.copy())[0]
        np.testing.assert_array_equal(host(expected), host(program(part)[0]))
    check_program(program, graph, [x])


def test_an_array_between_items_is_refused() -> None:
    program = program_of(lambda x: ops.exp(x), normal(4))
    cupy = gpu.module()
    memory = cupy.cuda.alloc(64)

    with pytest.raises(ValueError, match="no multiple of its item size"):
        program(cupy.ndarray((4,), np.float32, memory + 2))


@pytest.mark.slow
def test_more_elements_than_32_bits_count(is_stand_in: bool) -> None:
    if is_stand_in:
        pytest.skip("needs a GPU with 12 GB")
    cupy = gpu.module()
    count = (1 << 31) + 64
    program = program_of(lambda x: ops.add(x, 1), np.lib.stride_tricks.as_strided(
        np.zeros(1, np.uint8), (count,), (1,)).view())  # fmt: skip
    x = cupy.arange(count, dtype=cupy.uint8)
    result = program(x)[0]

    assert bool((result == x + 1).all())


# ---------------------------------------------------------------------------------------------
# streams that somebody captures


@pytest.mark.parametrize("replays", [False, True])
def test_kernels_become_part_of_a_graph_that_somebody_captures(
    driver: Driver | None, replays: bool
) -> None:
    if driver is None:
        pytest.skip("CuPy's own capture is not asked for here")
    x = normal(8)
    program = program_of(lambda x: ops.exp(x), x, launching=Launching(replays=replays))
    given = array(x)
    for _ in range(4):
        program(given)
    with gpu.module().cuda.Stream(non_blocking=True) as stream:
        driver.begin_capture(stream.ptr)
        (result,) = program(given)
        captured = driver.end_capture(stream.ptr)
        assert not np.allclose(np.exp(x), host(result))  # nothing has run yet
        driver.run_graph(captured)

    np.testing.assert_allclose(np.exp(x), host(result), rtol=1e-5)


def test_a_call_that_must_wait_is_refused_while_somebody_captures(driver: Driver | None) -> None:
    if driver is None:
        pytest.skip("CuPy's own capture is not asked for here")
    x, index = normal(5, 3), np.array([0, 1])
    program = program_of(lambda x, i: ops.index_select(x, i, dim=0), x, index)
    given = array(x), array(index)
    with gpu.module().cuda.Stream(non_blocking=True) as stream:
        driver.begin_capture(stream.ptr)
        with pytest.raises(RuntimeError, match="the current stream is being captured"):
            program(*given)
        driver.end_capture(stream.ptr)


def test_errors_of_captures_say_what_to_do(driver: Driver | None) -> None:
    if driver is None:
        pytest.skip("a driver does not fail on demand")
    x = normal(8)
    program = program_of(lambda x: ops.exp(x), x)
    given = array(x)
    driver.fail("cuLaunchKernel", 906)

    with pytest.raises(DeviceError, match=r"STREAM_CAPTURE_IMPLICIT.*non_blocking=True"):
        program(given)
