"""Arrays of more than 2^31 elements: kernels compute addresses in 64 bits, and only there.

On the emulator the arrays are memory that is not touched, and the last blocks of a kernel run.
"""

import re
import shutil
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.cuda import text as cuda_text
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ops import TABLE as ops
from tests.support.kernels.cuda_resources import (
    ARCHITECTURES,
    assert_no_spills,
    compile_all,
    needs_nvrtc,
)
from tests.support.kernels.emulated import EmulatedProgram, renamed

pytestmark = pytest.mark.one_python
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

COLUMNS = 1 << 10
LENGTH = 257 << 23
"""More than 2^31 elements, whose last ones belong to the last block of a grid-stride loop."""
ROWS = LENGTH // COLUMNS
INDEX = np.array([ROWS - 1, 0, ROWS - 2])


def matrix() -> np.ndarray:
    """Zeros but for the last rows, which differ."""
    values = np.zeros((ROWS, COLUMNS), np.uint8)
    values[-8:] = np.arange(8 * COLUMNS).reshape(8, COLUMNS) % 251
    return values


def program_of(codegen: Any, function: Any, *arguments: Any) -> EmulatedProgram:
    return EmulatedProgram(codegen.graph_of(function, *map(codegen.type_of, arguments)))


@needs_compiler
def test_elements_far_behind_are_computed(codegen: Any) -> None:
    x = np.zeros(LENGTH, np.uint8)
    x[-2000:] = np.arange(2000) % 251
    program = program_of(codegen, lambda x: ops.add(x, 1), x)
    (result,) = program.last_blocks(1, x)

    np.testing.assert_array_equal(x[-2000:] + 1, result[-2000:])
    assert 0 == result[0]  # of the first block


@needs_compiler
def test_rows_far_behind_are_reduced(codegen: Any) -> None:
    x = np.zeros((1 << 19, (1 << 12) + 8), np.uint8)
    x[-1, 4000:4100] = np.arange(100)
    program = program_of(codegen, lambda x: ops.amax(x, dim=(1,)), x)
    (result,) = program.last_blocks(1, x)

    assert 99 == result[-1]


@needs_compiler
def test_tiles_far_behind_are_transposed(codegen: Any) -> None:
    x = matrix()
    program = program_of(codegen, lambda x: ops.clone(ops.permute(x, dims=(1, 0))), x)
    (result,) = program.last_blocks(1, x)

    np.testing.assert_array_equal(x[-8:, -8:].T, result[-8:, -8:])


@needs_compiler
def test_rows_far_behind_are_gathered_and_sliced(codegen: Any) -> None:
    x = matrix()
    program = program_of(
        codegen,
        lambda x, i: [
            ops.index_select(x, i, dim=0),
            ops.add(ops.slice(x, start=(ROWS - 8, 3), stop=(ROWS, 40), step=(1, 1)), 1),
        ],
        x, INDEX,
    )  # fmt: skip
    rows, part = program.last_blocks(1 << 20, x, INDEX)  # all of them

    np.testing.assert_array_equal(x[INDEX], rows)
    np.testing.assert_array_equal(x[-8:, 3:40] + 1, part)


@needs_compiler
def test_rows_far_behind_are_added_to(codegen: Any) -> None:
    source = np.arange(3 * COLUMNS, dtype=np.int64).reshape(3, COLUMNS).astype(np.uint8)
    x = matrix()
    program = program_of(codegen, lambda x, i, s: ops.index_add(x, i, s, dim=0), x, INDEX, source)
    (result,) = program.last_blocks(16, x, INDEX, source)

    np.testing.assert_array_equal(x[INDEX] + source, result[INDEX])


LARGE = TensorType((ROWS, COLUMNS), dtypes.float32)
SMALL = TensorType((64, COLUMNS), dtypes.float32)
INDICES = TensorType((64,), dtypes.int64)
FUNCTIONS: dict[str, Any] = {
    "pointwise": lambda x, i: ops.exp(x),
    "rows": lambda x, i: ops.softmax(x, dim=1),
    "totals": lambda x, i: ops.sum(x, dim=(0, 1)),
    "columns": lambda x, i: ops.sum(x, dim=(0,)),
    "transposed": lambda x, i: ops.clone(ops.permute(x, dims=(1, 0))),
    "scans": lambda x, i: [ops.cumsum(x, dim=1), ops.cumsum(x, dim=0)],
    "gather": lambda x, i: ops.index_select(x, i, dim=0),
    "scatter": lambda x, i: ops.index_add(x, i, ops.index_select(x, i, dim=0), dim=0),
    "random": lambda x, i: ops.rand(1, 2, shape=(ROWS, COLUMNS), dtype=dtypes.float32, shift=0),
    "order": lambda x, i: ops.argsort(x, dim=1, descending=False),
}  # fmt: skip


def kernels_of(codegen: Any, name: str, type: TensorType) -> list[CudaKernel]:
    graph = codegen.graph_of(FUNCTIONS[name], type, INDICES)
    return [renamed(k, name.replace(" ", "_")) for k in cuda_text.generate(graph, "unit").kernels]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("random", "order")])
def test_the_width_of_indices_follows_the_size(codegen: Any, name: str) -> None:
    """Loops of small arrays count in 32 bits, where division is quick; others in 64."""
    wide = re.compile(r"\bint64_t (turn|row|team|task|position|stop|place|part|i\d+)\b")
    large, small = (
        "\n".join(kernel.source for kernel in kernels_of(codegen, name, type))
        for type in (LARGE, SMALL)
    )

    assert wide.search(large)
    assert not wide.search(small)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_of_large_arrays_compile(codegen: Any, architecture: str) -> None:
    kernels = [kernel for name in FUNCTIONS for kernel in kernels_of(codegen, name, LARGE)]

    assert_no_spills(kernels, compile_all(kernels, architecture))
