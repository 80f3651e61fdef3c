"""Convolutions and pools as CUDA on the emulator: 16-bit floats and tf32 by tensor cores, classes
of pixels, parts of long sums."""

import shutil
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.cuda.units.steps import Options
from dynajit.core.types import dtypes
from dynajit.ir import interpret
from dynajit.ops import TABLE as ops
from tests.codegen.plan.test_natives import CONVOLUTIONS, Call
from tests.support.kernels.emulated import EmulatedProgram

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++"),
]

#: batch, groups, outputs and channels of a group, sizes, window, stride, before, after, dilation.
CASES = (
    *CONVOLUTIONS[1:9],
    (2, 1, 70, 20, (9, 9), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),  # two blocks of rows
    (1, 2, 130, 17, (8, 7), (3, 3), (1, 1), (1, 1), (1, 1), (2, 2)),
    (3, 1, 20, 16, (14, 9), (5, 3), (3, 2), (2, 0), (1, 1), (1, 1)),  # classes of several sizes
    (2, 1, 16, 18, (9, 8), (3, 3), (2, 2), (1, 1), (1, 1), (2, 2)),  # steps that do not divide
    (2, 32, 1, 1, (9, 8), (3, 3), (2, 1), (1, 1), (1, 1), (1, 1)),  # depthwise with classes
)
KINDS = {
    "float16": (dtypes.float16, False, 3e-3),
    "bfloat16": (dtypes.bfloat16, False, 2e-2),
    "tf32": (dtypes.float32, True, 3e-3),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_tensor_cores_give_what_plain_loops_give(codegen: Any, number: int, kind: str) -> None:
    dtype, tf32, tolerance = KINDS[kind]
    call = Call(CASES[number], np.random.default_rng(3))
    arrays = [a.astype(dtype.numpy) for a in (call.x, call.weight, call.y, call.bias)]
    call.x, call.weight, call.y, call.bias = (a.astype(np.float64) for a in arrays)
    types = [codegen.type_of(a) for a in arrays]
    graph = codegen.graph_of(lambda *v: call.rows(*v), *types, optimized=False)
    program = EmulatedProgram(graph, options=Options(tf32=tf32))

    assert program.explain.count(": native") == 3
    for want, got in zip(call.expected(), program(*arrays), strict=True):
        assert got.dtype == dtype.numpy
        error = np.abs(got.astype(np.float64) - want).max() / max(1.0, np.abs(want).max())
        assert error < tolerance


def forms(codegen: Any, case: Any, dtype: Any) -> set[str]:
    """Which functions the three kernels of a convolution call."""
    call = Call(case, np.random.default_rng(3))
    arrays = [a.astype(dtype.numpy) for a in (call.x, call.weight, call.y, call.bias)]
    types = [codegen.type_of(a) for a in arrays]
    graph = codegen.graph_of(lambda *v: call.rows(*v), *types, optimized=False)
    text = "".join(kernel.source for kernel in EmulatedProgram(graph).unit.kernels)
    return {name for name in ("tiles", "mma", "each", "whole") if f"dj_convolve_{name}<" in text}


def test_the_form_follows_from_dtype_and_rows(codegen: Any) -> None:
    """Groups of few rows have a thread or a block for each element."""
    dense, depthwise = CASES[8], CASES[-1]

    assert {"tiles"} == forms(codegen, dense, dtypes.float32)
    assert {"mma"} == forms(codegen, dense, dtypes.bfloat16)
    assert {"each", "whole"} == forms(codegen, depthwise, dtypes.bfloat16)


def test_long_sums_are_cut_and_added_up_in_order(codegen: Any) -> None:
    """The gradient by weights of many pixels: parts, and a kernel that folds them."""
    x, y = (
        np.random.default_rng(k).standard_normal((4, 16, 40, 40)).astype(np.float32) for k in (0, 1)
    )
    attributes = {
        "stride": (1, 1),
        "before": (1, 1),
        "after": (1, 1),
        "dilation": (1, 1),
        "groups": 1,
    }
    graph = codegen.graph_of(
        lambda y, x: ops.convolution_weight(y, x, size=(3, 3), **attributes),
        *map(codegen.type_of, (y, x)), optimized=False,
    )  # fmt: skip
    program = EmulatedProgram(graph)
    first, second = program(y, x)[0], program(y, x)[0]
    (want,) = interpret.run(graph, (y.astype(np.float64), x.astype(np.float64)))

    assert any(kernel.name.endswith("_fold") for kernel in program.unit.kernels)
    np.testing.assert_allclose(first, want, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float64], ids=str)
def test_pools_take_every_float(codegen: Any, dtype: Any) -> None:
    attributes = {
        "size": (3, 2),
        "stride": (2, 1),
        "before": (1, 0),
        "after": (1, 1),
        "dilation": (1, 1),
    }
    x = np.random.default_rng(0).integers(-9, 9, (2, 3, 9, 8)).astype(dtype.numpy)

    def function(x: Any) -> list[Any]:
        chosen = ops.max_pool_choice(x, **attributes)
        value = ops.max_pool(x, **attributes)
        put = ops.place_windows(value, chosen, shape=(9, 8), **attributes)
        return [value, chosen, put, ops.sum_pool(x, **attributes)]

    graph = codegen.graph_of(function, codegen.type_of(x), optimized=False)
    program = EmulatedProgram(graph)

    assert program.explain.count(": native") == 3
    for want, got in zip(interpret.run(graph, (x,)), program(x), strict=True):
        codegen.assert_same(want, got)


def test_a_rectifier_behind_a_convolution_is_its_own(codegen: Any) -> None:
    """And keeps NaN."""
    call = Call(CASES[8], np.random.default_rng(3))
    x, weight, _, bias = (a.astype(np.float32) for a in (call.x, call.weight, call.y, call.bias))
    x[0, 0, 0, 0] = np.nan
    options = {**call.attributes, "groups": 1}
    graph = codegen.graph_of(
        lambda x, w, b: ops.relu(ops.convolution(x, w, b, **options)),
        *map(codegen.type_of, (x, weight, bias)), optimized=False,
    )  # fmt: skip
    program = EmulatedProgram(graph)
    (want,), (got,) = interpret.run(graph, (x, weight, bias)), program(x, weight, bias)

    assert len(program.kernels) == 1
    np.testing.assert_array_equal(np.isnan(want), np.isnan(got))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
