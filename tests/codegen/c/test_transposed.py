"""Pointwise kernels that read across the order in which they write go through tiles."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.pipeline import compile_graph
from dynajit.ops import TABLE as ops
from tests.support.kernels.teams import same_for_teams

pytestmark = pytest.mark.one_python


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def program_of(codegen, function, *arrays):
    return compile_graph(codegen.graph_of(function, *map(codegen.type_of, arrays)))


def source_of(program) -> str:
    return "\n".join(kernel.source for kernel in program.kernels)


def transposed(*dims):
    return lambda x: ops.clone(ops.permute(x, dims=dims))


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((64, 64), (1, 0)),
        ((67, 131), (1, 0)),
        ((300, 17), (1, 0)),
        ((17, 1000), (1, 0)),
        ((5, 70, 33), (0, 2, 1)),
        ((70, 5, 33), (2, 1, 0)),
        ((33, 3, 70), (1, 2, 0)),
        ((2, 19, 9, 31), (0, 2, 3, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "float16"])
def test_transposed_copies_are_made_in_tiles_and_are_exact(codegen, shape, dims, dtype):
    x = (normal(*shape) * 50).astype(dtype)

    program = program_of(codegen, transposed(*dims), x)

    assert "tile0" in source_of(program)
    np.testing.assert_array_equal(program(x)[0], x.transpose(dims))


def test_arrays_that_lie_along_and_across_are_combined(codegen):
    x, y = normal(90, 150), normal(150, 90)
    program = program_of(codegen, lambda x, y: (x + ops.permute(y, dims=(1, 0))) * x, x, y)

    assert "tile0" in source_of(program)
    np.testing.assert_array_equal(program(x, y)[0], (x + y.T) * x)


def test_several_transposed_arrays_have_a_tile_each(codegen):
    x, y = normal(90, 150), normal(90, 150)
    program = program_of(codegen, lambda x, y: ops.clone(ops.permute(x - y * x, dims=(1, 0))), x, y)

    assert "tile1" in source_of(program)
    np.testing.assert_array_equal(program(x, y)[0], (x - y * x).T)


def test_views_with_gaps_and_offsets_are_read_where_they_lie(codegen):
    x = normal(150, 200)[3:130, 7:101]
    program = program_of(codegen, transposed(1, 0), x)

    assert "tile0" in source_of(program)
    np.testing.assert_array_equal(program(x)[0], x.T)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.pad(ops.permute(x, dims=(1, 0)), before=(1, 2), after=(1, 2), value=3.0),
        lambda x: ops.sum(ops.permute(x, dims=(1, 0)), dim=(1,)),
        lambda x: x + x,
    ],
    ids=["arms that may lie out of range", "reduction", "along memory"],
)
def test_other_kernels_have_no_tiles(codegen, function):
    assert "tile0" not in source_of(program_of(codegen, function, normal(90, 150)))


def test_small_arrays_have_no_tiles(codegen):
    assert "tile0" not in source_of(program_of(codegen, transposed(1, 0), normal(30, 40)))


def test_results_do_not_depend_on_threads(codegen):
    x = normal(700, 900)
    program = program_of(codegen, lambda x: ops.exp(ops.permute(x, dims=(1, 0))), x)

    (result,) = same_for_teams(program, [x])

    np.testing.assert_allclose(result, np.exp(x.T), rtol=1e-6)


def test_sizes_may_be_symbolic():
    copy = dj.compile(lambda x: x.t().contiguous() + 1, dynamic=True)

    for shape in ((70, 90), (131, 67), (20, 3)):
        x = normal(*shape)
        np.testing.assert_array_equal(copy(dj.from_numpy(x)).numpy(), x.T + 1)
