"""CUDA text: every kind of kernel is compiled by NVRTC and run, for numbers, on an emulator.

The emulator (`cuda_emulator.h`) runs the printed text on the CPU, with shuffles and barriers, and
looks at every access to memory. No GPU is used.
"""

import dataclasses
import shutil
import warnings
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.cuda import text as cuda_text
from dynajit.codegen.cuda.text import Unit
from dynajit.codegen.cuda.units.steps import CudaKernel, LibraryCall
from dynajit.core.errors import BoundsError, DivisionError, DTypeError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir import autodiff, interpret, partition
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.pipeline import optimize
from dynajit.ops import TABLE as ops
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import Kind
from tests.support.kernels.cuda_resources import (
    ARCHITECTURES,
    assert_no_spills,
    compile_all,
    needs_nvrtc,
)
from tests.support.kernels.emulated import Emulated, emulate, renamed
from tests.support.rows.samples import all_rows, has_samples, samples
from tests.support.rows.tape import type_of

pytestmark = pytest.mark.one_python

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
rng = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def integers(high: int, *shape: int) -> np.ndarray:
    return rng.integers(0, high, shape)


# ---------------------------------------------------------------------------------------------
# graphs


def type_of_argument(argument: Any) -> Any:
    """The type with the array's strides."""
    type = type_of(argument)
    if not isinstance(argument, np.ndarray):
        return type
    strides = tuple(step // argument.itemsize for step in argument.strides)
    return dataclasses.replace(type, strides=None if argument.flags.c_contiguous else strides)


def graph_of(function: Any, *types: Any) -> Graph:
    """The graph of a function over rows, composites and all."""
    builder = Builder("graph")
    values = [builder.placeholder(f"x{i}", type) for i, type in enumerate(types)]
    with dispatch.recording(builder.handle):
        out = function(*values)
    return builder.finish(out if isinstance(out, (tuple, list)) else [out])


def unit_of(graph: Graph) -> tuple[Graph, Unit]:
    """The optimised graph and its CUDA unit."""
    graph = optimize(graph, keeps=cuda_text.keeps_native)
    unit = cuda_text.generate(graph, graph.name)
    return unit.graph, unit


def function_unit(function: Any, *arguments: Any) -> tuple[Graph, Unit]:
    return unit_of(graph_of(function, *map(type_of_argument, arguments)))


@pytest.mark.parametrize("name", ["erfinv", "i0", "bessel_j1", "log_ndtr"])
def test_functions_that_cuda_lacks_say_so(name: str) -> None:
    """CuPy computes them, between kernels."""
    graph = graph_of(getattr(ops, name), type_of(normal(3)))

    assert f"{name} has no CUDA kernel." == cuda_text.why_not(graph)


def backward_of(function: Any, *arguments: Any) -> Graph:
    """The gradient graph of a function that gives one tensor; inputs: saved values, gradient."""
    graph = graph_of(function, *map(type_of_argument, arguments))
    wanted = [isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in arguments]
    joint = autodiff.differentiate(graph, wanted)
    return partition.partition(dataclasses.replace(joint, graph=optimize(joint.graph))).backward


def embedding(weight: Any, index: Any) -> Any:
    return ops.index_select(weight, index, dim=0)


CASES: dict[str, tuple[Any, ...]] = {
    "packs": (lambda x, y: ops.mul(ops.add(x, y), 2.0), normal(64, 100), normal(100)),
    "halves": (lambda x: ops.exp(x), normal(640, dtype=np.float16)),
    "no packs": (lambda x, y: ops.add(x, y), normal(7, 5), normal(5, 7).T),
    "transposed": (lambda x, y: ops.permute(x, dims=(2, 1, 0)) + y, normal(70, 3, 50), normal(70)),
    "transposed halves": (
        lambda x: ops.clone(ops.permute(x, dims=(1, 0))), normal(65, 70, dtype=np.float16)
    ),
    "transposed bytes": (lambda x: ops.clone(ops.permute(x, dims=(1, 0))), normal(90, 70) > 0),
    "numbers": (lambda x, n, f: ops.add(ops.mul(x, f), n), normal(10, dtype=np.float64), 3, 0.5),
    "broadcast": (lambda x, y: ops.add(x, y), normal(6, 1, 4), normal(5, 1)),
    "conditions": (lambda x: ops.pad(x, before=(1, 0), after=(0, 3), value=7.0), normal(3, 5)),
    "short rows": (lambda x: ops.softmax(x, dim=1), normal(40, 5)),
    "warp rows": (lambda x: ops.softmax(x, dim=1), normal(19, 300)),
    "block rows": (lambda x: ops.softmax(x, dim=1), normal(3, 3000)),
    "long rows": (lambda x: ops.softmax(x, dim=1), normal(2, 20_000)),
    "log_softmax": (lambda x: ops.log_softmax(x, dim=1), normal(9, 64)),
    "half rows": (lambda x: ops.softmax(x, dim=1), normal(5, 100, dtype=np.float16)),
    "layer_norm": (
        lambda x, w, b: ops.layer_norm(x, w, b, normalized_shape=(96,)),
        normal(12, 96), normal(96), normal(96),
    ),
    "tall layer_norm": (
        lambda x, w, b: ops.layer_norm(x, w, b, normalized_shape=(200,)),
        normal(700, 200), normal(200), normal(200),
    ),
    "wide layer_norm": (
        lambda x, w, b: ops.layer_norm(x, w, b, normalized_shape=(1600,)),
        normal(90, 1600), normal(1600), normal(1600),
    ),
    "cross_entropy": (
        lambda x, t: ops.cross_entropy(x, t, None), normal(300, 10), integers(10, 300)
    ),
    "var": (lambda x: ops.var(x, dim=(1,)), normal(6, 70)),
    "argmax": (
        lambda x: [ops.argmax(x, dim=(1,)), ops.argmax(x, dim=(0,)), ops.argmin(x, dim=(0, 1))],
        integers(4, 33, 700).astype(np.float32),
    ),
    "long argmax": (lambda x: ops.argmax(x, dim=(0,)), integers(9, 50_000).astype(np.float64)),
    "scans": (
        lambda x: [
            ops.cumsum(ops.exp(x), dim=1) * 2 + x,
            ops.cumprod(x, dim=0),
            ops.cumsum(x, dim=1, reverse=True),
        ],
        normal(40, 33),
    ),
    "long scans": (
        lambda x: [
            ops.cumsum(x, dim=1), ops.cumsum(x, dim=1, reverse=True), ops.cumsum(x + 1, dim=0),
            ops.cumsum(x + 2, dim=0, reverse=True),
        ],
        normal(3, 20_000),
    ),
    "tall scans": (
        lambda x: [ops.cumsum(x, dim=0), ops.cumsum(x, dim=0, reverse=True), ops.cumprod(x, dim=0)],
        normal(5000, 11),
    ),
    "narrow scans": (lambda x: ops.cumsum(x, dim=0), normal(20_000, 3)),
    "odd scans": (lambda x: ops.cumsum(x, dim=1), normal(70, 333)),
    "scans of scans": (
        lambda x: ops.cumsum(ops.exp(ops.cumsum(x * 0.01, dim=1) * 0.1) - x, dim=1) * x,
        normal(9, 2500),
    ),
    "half scans": (lambda x: ops.cumsum(x, dim=1), normal(4, 700, dtype=np.float16)),
    "integer scans": (lambda x: ops.cumsum(x, dim=1), integers(9, 5, 7, 3).astype(np.int8)),
    "total": (lambda x: ops.sum(ops.mul(x, x), dim=(0, 1)), normal(300, 301)),
    "total of rows": (
        lambda x: ops.sum(ops.logsumexp(x, dim=(1,)), dim=(0,)), normal(700, 20)
    ),
    "extrema": (
        lambda x: [ops.amax(x, dim=(0, 1)), ops.amin(x, dim=(1,)), ops.any(x, dim=(0,))],
        normal(130, 300),
    ),
    "integer sums": (
        lambda x: [ops.sum(x, dim=(1,)), ops.prod(x, dim=(0,))],
        integers(3, 6, 40).astype(np.int32),
    ),
    "columns": (lambda x: ops.sum(x, dim=(0,)), normal(50, 70)),
    "sections": (lambda x: ops.sum(x, dim=(0,)), normal(9000, 5)),
    "middle": (lambda x: ops.sum(x, dim=(1,)), normal(4, 60, 33)),
    "gather": (lambda x, i: ops.gather(x, i, dim=1), normal(5, 8), integers(8, 5, 3)),
    "embedding": (embedding, normal(11, 6), integers(11, 40)),
    "index_add": (
        lambda x, i, s: ops.index_add(x, i, s, dim=0), normal(9, 7), integers(9, 50), normal(50, 7)
    ),
    "half index_add": (
        lambda x, i, s: ops.index_add(x, i, s, dim=0),
        normal(9, 7, dtype=np.float16), integers(9, 50), normal(50, 7, dtype=np.float16),
    ),
    "scatter_add": (
        lambda x, i, s: ops.scatter_add(x, i, s, dim=1),
        normal(9, 7), integers(7, 9, 20), normal(9, 20),
    ),
    "scatter": (
        lambda x, i, s: ops.scatter(x, i, s, dim=1), normal(9, 7), integers(7, 9, 20), normal(9, 20)
    ),
    "index_put": (
        lambda x, i, s: ops.index_put(x, i, s, dims=(0, 1)),
        normal(6, 6), integers(6, 2, 200), normal(200),
    ),
    "random": (
        lambda s, o: [
            ops.rand(s, o, shape=(7, 9), dtype=dtypes.float32, shift=2),
            ops.rand(s, o, shape=(9,), dtype=dtypes.float64),
            ops.randn(s, o, shape=(33,), dtype=dtypes.float32),
        ],
        2**40 + 1, 9,
    ),
    "random of a turn": (
        lambda x, s, o, turn: ops.add(
            x, ops.randn(s, ops.add(ops.full(turn, shape=(), dtype=dtypes.int64), o),
                         shape=(64, 256), dtype=dtypes.float32, shift=2),
        ),
        normal(64, 256), 2**40 + 1, 9, 1000,
    ),
    "product": (
        lambda x, w, b: ops.relu(ops.add(ops.matmul(x, w), b)),
        normal(8, 16), normal(16, 4), normal(4),
    ),
    "division": (
        lambda x, y: ops.floor_divide(x, y), np.array([-7, 5, 9, -4]), np.array([2, -3, 4, -1])
    ),
    "empty": (
        lambda x: [ops.sum(x, dim=(1,)), ops.sum(x, dim=(0,)), ops.exp(x)],
        np.empty((3, 0), np.float32),
    ),
}  # fmt: skip

BACKWARD = (
    "warp rows", "block rows", "layer_norm", "tall layer_norm", "wide layer_norm", "cross_entropy",
    "var", "embedding", "gather",
)  # fmt: skip


def every_unit() -> dict[str, tuple[Graph, Unit]]:
    """All cases and the derivatives of some."""
    units = {name: function_unit(*case) for name, case in CASES.items()}
    for name in BACKWARD:
        units[f"{name} backward"] = unit_of(backward_of(*CASES[name]))
    return units


UNITS = every_unit()


# ---------------------------------------------------------------------------------------------
# compiling


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kind_of_kernel_compiles(architecture: str) -> None:
    """Rows, columns, totals, scatters, products' epilogues and derivatives."""
    kernels = [
        renamed(kernel, f"u{number}")
        for number, (_, unit) in enumerate(UNITS.values())
        for kernel in unit.kernels
    ]
    assert_no_spills(kernels, compile_all(kernels, architecture))


def sample_kernels(op: Any, dtype: Any) -> list[CudaKernel]:
    """Kernels of a row for two conformance samples; none if the row refuses the dtype."""
    try:
        drawn = samples(op, dtype)[:2]
        for sample in drawn:
            op.infer(*map(type_of, sample.inputs), **sample.attributes)
    except DTypeError:
        return []
    builder = Builder(op.name)
    outputs = []
    for sample in drawn:
        given = [
            builder.placeholder("x", type_of_argument(x)) if isinstance(x, np.ndarray) else x
            for x in sample.inputs
        ]
        outputs.append(builder.call(op, given, sample.attributes))
    graph = optimize(builder.finish(outputs), keeps=cuda_text.keeps_native)
    if cuda_text.why_not(graph) is not None:
        return []
    return list(cuda_text.generate(graph, op.name).kernels)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_row_compiles(architecture: str, pytestconfig: pytest.Config) -> None:
    """Every row of the table that has native code, in float32."""
    if architecture == "sm_100" and pytestconfig.getoption("cuda") != "all":
        pytest.skip("run with --cuda all")
    kernels = [
        renamed(kernel, op.name)
        for op in all_rows()
        if has_samples(op)
        for kernel in sample_kernels(op, dtypes.float32)
    ]
    assert len(kernels) > 100
    assert_no_spills(kernels, compile_all(kernels, architecture))


@needs_nvrtc
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float64"]
)
def test_pointwise_rows_compile_in_every_dtype(dtype: str) -> None:
    """All pointwise rows that take the dtype."""
    kernels = [
        renamed(kernel, op.name)
        for op in ops
        if op.kind is Kind.POINTWISE and has_samples(op)
        for kernel in sample_kernels(op, dtypes.by_name(dtype))[:1]
    ]
    assert len(kernels) > 20
    assert_no_spills(kernels, compile_all(kernels, "sm_90"))


# ---------------------------------------------------------------------------------------------
# numbers


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Emulated]:
    """All units, compiled together for the emulator."""
    return emulate(UNITS, tmp_path_factory.mktemp("emulator"))


def assert_close(expected: Any, actual: Any) -> None:
    expected = np.asarray(expected)
    assert (expected.dtype, expected.shape) == (actual.dtype, actual.shape)
    if not dtypes.from_numpy(expected.dtype).is_floating_point:
        np.testing.assert_array_equal(expected, actual)
        return
    tolerance = {2: 4e-3, 4: 3e-5, 8: 1e-11}[expected.dtype.itemsize]
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
    )


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_numpy(emulated: dict[str, Emulated], name: str) -> None:
    """Each case on the emulator against the graph interpreter."""
    arguments = CASES[name][1:]
    program = emulated[name]
    expected = interpret.run(program.graph, arguments)
    for want, got in zip(expected, program(*arguments), strict=True):
        assert_close(want, got)


@needs_compiler
@pytest.mark.parametrize("name", BACKWARD)
def test_derivatives_are_those_of_numpy(emulated: dict[str, Emulated], name: str) -> None:
    """Backward graphs, on drawn values for what the forward graph saves."""
    program = emulated[f"{name} backward"]
    targets = [a for a in CASES[name][1:] if isinstance(a, np.ndarray) and a.dtype.kind == "i"]
    arguments = []
    for node in program.graph.inputs:
        assert isinstance(node.type, TensorType)
        drawn = 1.5 + np.abs(normal(*node.type.shape))
        is_index = node.type.dtype is dtypes.int64
        arguments.append(np.array(targets[0] if is_index else drawn, node.type.dtype.numpy))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = interpret.run(program.graph, arguments)
    for want, got in zip(expected, program(*arguments), strict=True):
        assert_close(want, got)


@needs_compiler
def test_misaligned_arrays_take_the_scalar_loop(emulated: dict[str, Emulated]) -> None:
    """A view that does not start at 16 bytes gives the same numbers."""
    x, y = normal(6401)[1:].reshape(64, 100), normal(101)[1:]
    (actual,) = emulated["packs"](x, y)

    assert_close((x + y) * np.float32(2), actual)


@needs_compiler
@pytest.mark.parametrize("wrong", [11, -1])
def test_an_index_out_of_range_is_reported(emulated: dict[str, Emulated], wrong: int) -> None:
    """The status names the value; nothing is read or written out of range."""
    index = integers(11, 40)
    index[7] = wrong
    with pytest.raises(BoundsError, match=f"index {wrong} is out of range.* size 11"):
        emulated["embedding"](normal(11, 6), index)


# ---------------------------------------------------------------------------------------------
# launches


def steps_of(function: Any, *arguments: Any) -> tuple[Any, ...]:
    return function_unit(function, *arguments)[1].steps


def test_launch_geometry_follows_the_length_of_rows() -> None:
    """One or some lanes for short rows, a warp for longer ones, a block for the longest."""
    row_sum = lambda x: ops.sum(x, dim=(1,))
    (single,) = steps_of(row_sum, normal(640, 4))
    (few,) = steps_of(row_sum, normal(640, 5))
    (warp,) = steps_of(row_sum, normal(640, 1000))
    (block,) = steps_of(row_sum, normal(640, 5000))

    assert ((3, 1, 1), 0) == (single.grid, single.shared_bytes)
    assert ((20, 1, 1), 0) == (few.grid, few.shared_bytes)
    assert ((80, 1, 1), 0) == (warp.grid, warp.shared_bytes)
    assert ((640, 1, 1), 64) == (block.grid, block.shared_bytes)
    assert {(256, 1, 1)} == {kernel.block for kernel in (single, few, warp)}
    assert (512, 1, 1) == block.block


def test_few_long_rows_are_cut_into_sections() -> None:
    """Blocks leave partial sums, which a second kernel folds; later passes load its result."""
    names = [step.name for step in steps_of(lambda x: ops.softmax(x, dim=1), normal(2, 100_000))]

    assert ["0", "0_fold", "1", "1_fold", "2"] == [name.partition("amax_")[2] for name in names]


def test_rows_that_outgrow_registers_are_read_again() -> None:
    """A block of 1024 threads holds 32 floats in each."""
    (held,) = steps_of(lambda x: ops.softmax(x, dim=1), normal(300, 32_000))
    (read,) = steps_of(lambda x: ops.softmax(x, dim=1), normal(300, 36_000))

    assert 1 == held.source.count("dj_load_pack<4>(in0")
    assert 3 == read.source.count("dj_load_pack<4>(in0")


def test_totals_take_two_kernels_and_no_atomics() -> None:
    """Blocks leave partial sums in the workspace; another kernel folds them in order."""
    first, second = steps_of(lambda x: ops.sum(x, dim=(0, 1)), normal(640, 1000))

    assert (1, 1, 1) == second.grid
    assert first.buffers[-1] == second.buffers[0]
    assert "atomic" not in first.source + second.source


def test_neighbours_are_loaded_sixteen_bytes_at_a_time() -> None:
    """Four floats, eight halves; rows that do not divide into packs stay single."""
    (floats,) = steps_of(lambda x: ops.exp(x), normal(64, 100))
    (halves,) = steps_of(lambda x: ops.exp(x), normal(64, 100, dtype=np.float16))
    (single,) = steps_of(lambda x, y: ops.add(x, y), normal(64, 33), normal(33))

    assert "dj_load_pack<4>" in floats.source
    assert "dj_load_pack<8>" in halves.source
    assert "pack" not in single.source


def test_rows_are_read_once() -> None:
    """Phases share loads and expensive values through registers."""
    (kernel,) = steps_of(lambda x: ops.softmax(x, dim=1), normal(64, 1000))

    assert 1 == kernel.source.count("expf(")
    assert 1 == kernel.source.count("dj_load_pack<4>(in0")
    assert 1 == kernel.source.count("= in0[")  # the first one, to start from


def test_large_arrays_use_long_indices() -> None:
    """Index arithmetic is 64 bits wide where 32 do not suffice."""
    small = graph_of(lambda x: ops.exp(x), TensorType((1 << 20,), dtypes.float32))
    large = graph_of(lambda x: ops.exp(x), TensorType((1 << 31,), dtypes.float32))

    assert "(int turn" in unit_of(small)[1].kernels[0].source
    assert "(int64_t turn" in unit_of(large)[1].kernels[0].source


def test_products_are_library_calls() -> None:
    """Matrix products are not printed."""
    product, epilogue = steps_of(*CASES["product"])

    assert isinstance(product, LibraryCall)
    assert isinstance(epilogue, CudaKernel)


def test_only_kernels_that_can_fail_take_the_status() -> None:
    """Integer division and data indices can; addition cannot."""
    (divides,) = steps_of(lambda x, y: ops.floor_divide(x, y), integers(9, 8), integers(9, 8))
    (adds,) = steps_of(lambda x, y: ops.add(x, y), integers(9, 8), integers(9, 8))

    assert divides.may_fail
    assert not adds.may_fail


@needs_compiler
def test_integer_division_by_zero_is_reported(emulated: dict[str, Emulated]) -> None:
    """An integer divisor of zero raises, as in eager mode."""
    with pytest.raises(DivisionError):
        emulated["division"](np.arange(4), np.array([1, 0, 2, 3]))
