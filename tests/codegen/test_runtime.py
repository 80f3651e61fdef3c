"""The call itself: arguments, results, memory, errors, threads, leaks."""

import gc
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen import _runtime
from dynajit.codegen.pipeline import compile_graph
from dynajit.core.errors import BoundsError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ops import TABLE as ops

pytestmark = pytest.mark.c_only


def vector(size: int) -> TensorType:
    return TensorType((size,), dtypes.float32)


@pytest.fixture
def add(codegen):
    graph = codegen.graph_of(lambda x, y: ops.add(x, y), vector(4), ScalarType(Category.FLOATING))
    return compile_graph(graph, name="add")


ONES = np.ones(4, np.float32)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_wrong_number_of_arguments(add) -> None:
    """The message has both numbers."""
    with pytest.raises(TypeError, match=r"add: 1 arguments given\.  Expected 2"):
        add(ONES)
    with pytest.raises(TypeError, match="by position"):
        add(ONES, y=1.0)


@pytest.mark.parametrize("wrong", [np.ones(5, np.float32), np.ones(4), np.ones((4, 1), np.float32)])
def test_wrong_arrays_are_refused(add, wrong) -> None:
    """Shape and dtype are checked before anything runs."""
    with pytest.raises(TypeError, match="Expected dtype float32 and shape"):
        add(wrong, 1.0)


def test_wrong_kinds_are_refused(add) -> None:
    """Lists are no arrays, strings are no numbers."""
    with pytest.raises(TypeError, match="Expected an array"):
        add([1.0] * 4, 1.0)
    with pytest.raises(TypeError):
        add(ONES, "1")


def test_numbers_of_all_kinds_are_accepted(add) -> None:
    """Python numbers, NumPy scalars and zero-dim arrays."""
    for number in (2, 2.0, True, np.float64(2), np.float32(2), np.array(2.0)):
        assert [1 + float(number)] * 4 == add(ONES, number)[0].tolist()


def test_other_layouts_are_copied(add) -> None:
    """Where code expects contiguous memory, strided and unaligned arrays still work."""
    strided = np.arange(8, dtype=np.float32)[::2]
    raw = np.zeros(17, np.uint8)
    unaligned = raw[1:].view(np.float32)

    assert [1.0, 3.0, 5.0, 7.0] == add(strided, 1.0)[0].tolist()
    assert [1.0] * 4 == add(unaligned, 1.0)[0].tolist()
    assert [1.0] * 4 == add(np.zeros(4, ">f4").astype("<f4"), 1.0)[0].tolist()


def test_promised_strides_are_checked(codegen) -> None:
    """Code for a transposed input refuses any other layout."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    program = codegen.check(lambda x: ops.neg(x), x.T)

    with pytest.raises(ValueError, match="strides"):
        program(np.ascontiguousarray(x.T))


def test_zero_dim_results_and_scalars(codegen) -> None:
    """A zero-dim input may be a NumPy scalar; a zero-dim result is a zero-dim array."""
    program = codegen.check(lambda x: ops.exp(x), np.array(1.0))
    (result,) = program(np.float64(0.0))

    assert isinstance(result, np.ndarray)
    assert ((), 1.0) == (result.shape, result.item())


def test_large_outputs_reuse_memory(codegen) -> None:
    """The block of a dead array serves the next call; live arrays keep theirs."""
    x = np.zeros(1 << 18, np.float32)
    program = codegen.check(lambda x: ops.add(x, 1.0), x)
    first = program(x)[0]
    address = first.ctypes.data
    second = program(x)[0]
    assert second.ctypes.data != address
    del first
    third = program(x)[0]

    assert third.ctypes.data == address
    assert third.flags.writeable and third.flags.aligned and third.ctypes.data % 64 == 0


def test_gradients_in_blocks_are_taken_over() -> None:
    """A gradient that a program made becomes `.grad` without a copy; what others hold is copied."""
    x = dj.ones(1 << 16, requires_grad=True)
    given = dj.ones(1 << 16)
    dj.compile(lambda x: (x * x).sum())(x).backward()

    assert type(x.grad.array.base).serves_one_array
    x.grad = None
    dj.compile(lambda x: x + 1.0)(x).backward(given)

    assert not np.shares_memory(x.grad.array, given.array)


def test_trim_gives_memory_back(codegen) -> None:
    """`trim` empties the cache of blocks."""
    x = np.zeros(1 << 18, np.float32)
    program = codegen.check(lambda x: ops.add(x, 1.0), x)
    del program
    gc.collect()
    assert _runtime.cached_bytes() > 0
    _runtime.trim()
    assert 0 == _runtime.cached_bytes()


def twice_multiplied(codegen, size: int) -> Any:
    """A program whose product in between, of `size` rows and columns, lies in its workspace; an
    argument for it."""
    x = np.random.default_rng(size).standard_normal((size, size)).astype(np.float32)
    graph = codegen.graph_of(lambda x: ops.matmul(ops.matmul(x, x), x), codegen.type_of(x))
    return compile_graph(graph), x


def test_large_workspaces_of_programs_are_one(codegen) -> None:
    """The largest is kept; programs that are smaller use it."""
    _runtime.trim()
    results, largest = [], 0
    for size in (600, 900, 700):
        program, x = twice_multiplied(codegen, size)
        expected = x.astype(float) @ x @ x
        results += [program(x)[0], program(x)[0]]
        largest = max(largest, 4 * size * size)
        np.testing.assert_allclose(results[-1], expected, atol=1e-5 * abs(expected).max())
    assert largest <= _runtime.cached_bytes() <= 1.2 * largest + 4 * 1.2 * 600**2
    _runtime.trim()
    assert _runtime.cached_bytes() == 0


def test_threads_run_programs_with_large_workspaces(codegen) -> None:
    """Each call has memory of its own, whichever program comes first."""
    programs = [twice_multiplied(codegen, size) for size in (520, 600, 700)]
    expected = [program(x)[0] for program, x in programs]
    wrong = []

    def work(first: int) -> None:
        for number in range(first, first + 12):
            program, x = programs[number % 3]
            if not np.array_equal(program(x)[0], expected[number % 3]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_failed_calls_leak_nothing(codegen) -> None:
    """After an error every temporary is gone."""
    x = np.zeros((5, 4000), np.float32)
    program = codegen.check(lambda x, i: ops.index_select(x, i, dim=0), x, np.array([1, 2]))
    wrong = np.array([0, 9])
    before = sys.getrefcount(x), sys.getrefcount(wrong)
    for _ in range(1000):
        with pytest.raises(BoundsError):
            program(x, wrong)

    assert before == (sys.getrefcount(x), sys.getrefcount(wrong))


def test_calls_leak_nothing(add) -> None:
    """1e5 calls leave reference counts and memory as they were."""
    number = 1234.5
    strided = np.zeros(8, np.float32)[::2]
    for _ in range(1000):
        add(ONES, number), add(strided, number)
    gc.collect()
    before = sys.getrefcount(ONES), sys.getrefcount(number), sys.getrefcount(np.dtype(np.float32))
    memory = resident_bytes()
    for _ in range(50_000):
        add(ONES, number), add(strided, number)

    after = sys.getrefcount(ONES), sys.getrefcount(number), sys.getrefcount(np.dtype(np.float32))
    assert before == after
    assert resident_bytes() - memory < 1 << 20


def test_dead_programs_leak_nothing(codegen) -> None:
    """Programs, and what hangs on them, are collected; reference cycles too."""
    graph = codegen.graph_of(lambda x: ops.add(x, 1.0), vector(4))
    compile_graph(graph)(ONES)
    gc.collect()
    memory = resident_bytes()
    for _ in range(200):
        program = compile_graph(graph)
        program.itself = program
        program(ONES)
    del program
    gc.collect()

    assert resident_bytes() - memory < 4 << 20


def test_threads_may_share_a_program(codegen) -> None:
    """Concurrent calls have a workspace each."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 300)).astype(np.float32)
    program = codegen.check(lambda x: ops.matmul(ops.exp(ops.matmul(x, x) * 0.01), x), x,
                            tolerance=1e-2)  # fmt: skip
    (expected,) = program(x)
    wrong = []

    def work() -> None:
        for _ in range(20):
            if not np.array_equal(expected, program(x)[0]):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == wrong


def test_program_describes_itself(add) -> None:
    """Stages, kernels, text and decisions are there for reports."""
    assert {"fusion", "lowering", "printing", "compiler", "load"} == set(add.stages)
    assert ["k0_add"] == [kernel.name for kernel in add.kernels]
    assert add.kernels[0].source in add.source
    assert "1 kernels" in add.explain
    assert "<Program add: 2 arguments, 1 results>" == repr(add)


@pytest.mark.parametrize("setting", ["OMP_WAIT_POLICY=active", "GOMP_SPINCOUNT=1000000", ""])
def test_programs_may_die_while_workers_idle(kernel_folder, setting) -> None:
    """Closing the last program does not unload the thread runtime under its workers."""
    code = (
        "import numpy as np, gc\n"
        "from dynajit.codegen.pipeline import compile_graph\n"
        "from dynajit.core.types import dtypes\n"
        "from dynajit.core.types.value_types import TensorType\n"
        "from dynajit.ir.graph import Builder\n"
        "from dynajit.ops import TABLE as ops\n"
        "b = Builder('g')\n"
        "x = b.placeholder('x', TensorType((1 << 20,), dtypes.float32))\n"
        "g = b.finish([ops.tanh(x)])\n"
        "for _ in range(3):\n"
        "    p = compile_graph(g)\n"
        "    p(np.ones(1 << 20, np.float32)), p(np.ones(1 << 20, np.float32))\n"
        "    del p\n"
        "    gc.collect()\n"
    )
    environment = {**os.environ, "DYNAJIT_CACHE_DIR": str(kernel_folder)}
    environment.update([setting.split("=")] if setting else [])
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)

    assert (0, b"") == (result.returncode, result.stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
def test_without_memory_the_error_says_for_what(codegen) -> None:
    """Sizes and dtype of a result, or the bytes of what is between."""
    column, row = (TensorType(shape, dtypes.float32) for shape in ((1 << 20, 1), (1, 1 << 20)))
    result = compile_graph(codegen.graph_of(ops.add, column, row))
    arguments = np.ones((1 << 20, 1), np.float32), np.ones((1, 1 << 20), np.float32)
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 36, before[1]))
    try:
        with pytest.raises(MemoryError, match=r"shape \(1048576, 1048576\) and data type float32"):
            result(*arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
