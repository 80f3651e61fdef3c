"""Rows with totals over rows for each column: forms of threads, rows that are read ahead.

On the emulator, which finds races between threads and accesses outside of arrays.
"""

import shutil
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dynajit.codegen.compilers import cubin, nvrtc
from dynajit.codegen.cuda import text as cuda_text
from dynajit.codegen.plan import joining
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ops import TABLE as ops
from tests.support.kernels.cuda_resources import ARCHITECTURES, assert_no_spills, needs_nvrtc
from tests.support.kernels.emulated import EmulatedProgram, renamed

pytestmark = pytest.mark.one_python

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture(autouse=True)
def small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of any size are worth reading once."""
    monkeypatch.setattr(joining, "LEAST_BYTES", 1)


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def gradients(x: Any, grad: Any, weight: Any, mean: Any) -> list[Any]:
    """What backward of a norm computes: per element over rows, and per column."""
    centred = x - mean
    total = ops.sum(grad * weight * centred, dim=(1,), keepdim=True)
    other = ops.sum(grad * weight, dim=(1,), keepdim=True)
    columns = [ops.sum(grad * centred, dim=(0,)), ops.sum(grad, dim=(0,))]
    return [grad * weight - centred * total - other, *columns]


def expected_gradients(x: Any, grad: Any, weight: Any, mean: Any) -> list[np.ndarray]:
    x, grad, weight, mean = (a.astype(np.float64) for a in (x, grad, weight, mean))
    centred = x - mean
    total = (grad * weight * centred).sum(1, keepdims=True)
    other = (grad * weight).sum(1, keepdims=True)
    return [grad * weight - centred * total - other, (grad * centred).sum(0), grad.sum(0)]


def arrays(rows: int, columns: int, dtype: Any = np.float32) -> list[np.ndarray]:
    """Arguments of `gradients`, so small that sums of 16-bit floats stay in range."""
    x, grad = normal(rows, columns, dtype=dtype), normal(rows, columns, seed=1, dtype=dtype)
    weight, mean = normal(columns, seed=2, dtype=dtype), normal(rows, 1, seed=3, dtype=dtype)
    return [x, grad, weight, mean]


def assert_gradients(codegen: Any, given: list[np.ndarray]) -> str:
    """The program's numbers are right, and one kernel reads the rows; returns its text."""
    graph = codegen.graph_of(gradients, *map(codegen.type_of, given))
    program = EmulatedProgram(graph)

    assert 1 == len(program.kernels)
    tolerance = {1: 1e-11, 2: 1e-4}.get(8 // given[0].itemsize, 5e-2)
    for want, got in zip(expected_gradients(*given), program(*given), strict=True):
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        error = np.abs(got.astype(np.float64) - want).max(initial=0)
        assert error <= tolerance * scale
    return program.unit.kernels[0].source


@needs_compiler
@pytest.mark.parametrize("rows", [2, 3, 8, 1027])
def test_fewer_rows_than_warps(codegen: Any, rows: int) -> None:
    """Warps without a row leave nothing."""
    text = assert_gradients(codegen, arrays(rows, 96))

    assert "next0" in text


@needs_compiler
@pytest.mark.parametrize("rows", [2, 300])
def test_blocks_read_ahead(codegen: Any, rows: int) -> None:
    """Some blocks have a row more than others; rows exchange through two places in turn."""
    text = assert_gradients(codegen, arrays(rows, 4096))

    assert "next0" in text
    assert ("side" in text) == (rows > 128)
    assert 1 == text.count("__syncthreads")


@needs_compiler
def test_warps_read_ahead(codegen: Any) -> None:
    text = assert_gradients(codegen, arrays(2100, 384))

    assert "next0[step]" in text
    assert "threadIdx.x & 31" in text


@needs_compiler
def test_rows_that_fill_the_registers_are_read_at_their_start(codegen: Any) -> None:
    text = assert_gradients(codegen, arrays(1100, 1024))

    assert "next0" not in text
    assert "taken0[step] = dj_load_pack" in text


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("columns", [96, 2048])
def test_other_floats(codegen: Any, dtype: Any, columns: int) -> None:
    assert "next0" in assert_gradients(codegen, arrays(270, columns, dtype))


@needs_compiler
def test_rows_that_are_no_packs(codegen: Any) -> None:
    """Rows of an odd length begin anywhere: nothing of them is read ahead."""
    assert "next0" not in assert_gradients(codegen, arrays(530, 203))


@needs_compiler
def test_rows_whose_last_pack_is_cut(codegen: Any) -> None:
    wide = [normal(530, 208, seed=seed)[:, :203] for seed in (0, 1)]
    text = assert_gradients(codegen, [*wide, *arrays(530, 203)[2:]])

    assert "count" in text


@needs_compiler
def test_arrays_that_begin_anywhere(codegen: Any) -> None:
    """Packs are read element by element, as far ahead."""
    x, *others = arrays(300, 96)
    memory = np.empty(x.size + 1, x.dtype)
    moved = memory[1:].reshape(x.shape)
    moved[...] = x

    assert "next0" in assert_gradients(codegen, [moved, *others])


@needs_compiler
def test_rows_that_a_condition_chooses(codegen: Any) -> None:
    """What lies outside of an array is not read, ahead or not."""
    x, *others = arrays(300, 96)

    def function(x: Any, *others: Any) -> list[Any]:
        return gradients(ops.pad(x, before=(7, 0), after=(5, 0), value=0.5), *others)

    given = [x[7:-5], *others]
    graph = codegen.graph_of(function, *map(codegen.type_of, given))
    padded = np.pad(x[7:-5], ((7, 5), (0, 0)), constant_values=0.5)
    program = EmulatedProgram(graph)

    assert "next0" in program.unit.kernels[0].source
    for want, got in zip(expected_gradients(padded, *others), program(*given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-3)


FILLED = {
    "warps": ("float32", 768), "no room ahead": ("float32", 1024), "blocks": ("float32", 4096),
    "three packs": ("float32", 5120), "halves": ("float16", 1280), "bfloats": ("bfloat16", 768),
    "doubles": ("float64", 1280),
}  # fmt: skip
"""Rows whose threads keep about as much as they have registers for."""


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_values_stay_in_registers(codegen: Any, architecture: str) -> None:
    """By the first launch bounds: those that are printed, from an estimate of registers."""
    kernels = []
    for number, (name, columns) in enumerate(FILLED.values()):
        dtype = dtypes.by_name(name)
        matrix = TensorType((8192, columns), dtype)
        others = TensorType((columns,), dtype), TensorType((8192, 1), dtype)
        unit = cuda_text.generate(codegen.graph_of(gradients, matrix, matrix, *others), "unit")
        kernels += [renamed(kernel, f"u{number}") for kernel in unit.kernels]
    source = cuda_text.print_unit("tests", kernels)
    assert_no_spills(kernels, cubin.read(nvrtc.compile_source(source, architecture)))
