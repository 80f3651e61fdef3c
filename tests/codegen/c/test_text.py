"""The translation unit: equal kernels are compiled once, different ones never merged."""

import re
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.c.text import NO_VECTORS_OF_SCALARS, without_names
from dynajit.codegen.pipeline import generate
from dynajit.core.types import dtypes
from dynajit.ops import TABLE as ops

pytestmark = pytest.mark.c_only

rng = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def definitions(source: str) -> int:
    """Number of kernels defined in a unit."""
    return len(re.findall(r"^static __attribute__\(\(noinline\)\) void k\d+", source, re.MULTILINE))


def test_layers_of_one_shape_share_their_kernels(codegen) -> None:
    """Four layers: four products and four activations run, one of each is compiled."""

    def function(x, *weights):
        for w in weights:
            x = ops.tanh(ops.matmul(x, w))
        return x

    program = codegen.check(function, normal(5, 5), *(normal(5, 5) for _ in range(4)))

    assert 8 == len(program.kernels)
    assert 2 == definitions(program.source)


def test_kernels_that_differ_in_a_number_are_both_compiled(codegen) -> None:
    """Literals, shapes and dtypes are part of the comparison; names are not."""

    def function(x, w):
        first = ops.matmul(ops.mul(x, 2.0), w)
        second = ops.matmul(ops.mul(first, 3.0), w)
        return ops.matmul(ops.mul(second, 2.0), w)

    program = codegen.check(function, normal(6, 6), normal(6, 6), tolerance=1e-4)

    assert 6 == len(program.kernels)
    assert 3 == definitions(program.source)


def test_kernels_that_read_other_arguments_are_compiled_once(codegen) -> None:
    """As an optimiser's: each parameter has its rate, and all one factor; results differ."""

    def function(x, y, z, slow, factor, fast):
        """Products between them keep the updates apart."""
        first = ops.sub(ops.mul(ops.tanh(x), slow), ops.mul(x, factor))
        second = ops.sub(ops.mul(ops.tanh(y), fast), ops.mul(y, factor))
        third = ops.sub(ops.mul(ops.tanh(z), factor), ops.mul(z, factor))
        return [ops.matmul(first, first), ops.matmul(second, second), ops.matmul(third, third)]

    matrices = (normal(9, 9), normal(9, 9), normal(9, 9))
    program = codegen.check(function, *matrices, 0.25, 3.0, 1.5)

    assert 6 == len(program.kernels)
    assert 3 == definitions(program.source)  # updates with two numbers and with one, and a product
    assert "(const dj_scalar[])" in program.source


def test_numbers_that_all_kernels_share_are_not_copied(codegen) -> None:
    """Kernels that read the same arguments are given the program's own array."""

    def function(x, y, factor):
        first, second = ops.mul(ops.tanh(x), factor), ops.mul(ops.tanh(y), factor)
        return [ops.matmul(first, first), ops.matmul(second, second)]

    program = codegen.check(function, normal(9, 9), normal(9, 9), 3.0)

    assert 2 == definitions(program.source)
    assert "(const dj_scalar[])" not in program.source


def test_only_names_that_the_kernel_declares_are_numbered(codegen) -> None:
    """Types and helper functions stay, so texts over other types or helpers differ."""
    types = [codegen.type_of(normal(7)), codegen.type_of(rng.standard_normal(7))]
    narrow, wide = (
        without_names(generate(codegen.graph_of(ops.exp, t), "g").functions[0]) for t in types
    )

    assert "dj_exp_f32" in narrow
    assert "dj_exp_f64" in wide
    assert "float" in narrow
    assert narrow != wide


def test_an_array_of_another_shape_is_read_in_the_order_it_lies(codegen) -> None:
    """The loop runs over all elements: rows and columns are not taken apart to be joined again."""

    def function(x, y):
        return ops.mul(ops.reshape(x, shape=(8, 16, 32)), ops.reshape(y, shape=(8, 16, 32)))

    def summed(x, y):
        return ops.sum(function(x, ops.reshape(y, shape=(128, 32))), dim=(2,))

    for body in (function, summed):
        program = codegen.check(body, normal(128, 32), normal(4, 32, 32))
        (kernel,) = re.findall(r"^static __attribute__.*? k0_.*?^}", program.source, re.M | re.S)
        indices = re.findall(r"\[(.*)\];", kernel)

        assert indices
        assert not [index for index in indices if "/" in index or "%" in index], indices


def written_over_each_other(x, y):
    """Float32 numbers of one tensor in more and more of another."""
    for place in range(3):
        x[place:] = y[place].float()
    return x


def chosen_by_place(x, y):
    places = dj.arange(4)
    return dj.where(places < 1, y[0].float().double(), y[1].float().double()) + x[:4] * 0


def by_elements_of_arrays(x, y):
    for place in range(len(x) - 1):
        x[place : place + 2] = np.float32(y[place])
    return x


@pytest.mark.parametrize(
    "function", [written_over_each_other, chosen_by_place, by_elements_of_arrays]
)
@pytest.mark.parametrize("count", [4, 5, 8, 9])
def test_doubles_that_become_floats_are_rounded(function: Any, count: int) -> None:
    """GCC 12 drops both conversions of scalars that it puts into a vector."""
    given = rng.random((2, count))
    make = np.array if function is by_elements_of_arrays else dj.tensor
    expected, found = (f(*map(make, given)) for f in (function, dj.compile(function)))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_only_units_that_round_doubles_do_without_vectors_of_scalars(codegen) -> None:
    x, y = normal(9), rng.random(9)
    for function, given, is_without in (
        (lambda x: ops.cast(ops.cast(x, dtype=dtypes.float32), dtype=dtypes.float64), y, True),
        (lambda x: ops.cast(x, dtype=dtypes.float32), y, False),
        (lambda x: ops.cast(ops.cast(x, dtype=dtypes.float64), dtype=dtypes.float32), x, False),
        (ops.sin, x, False),
    ):
        assert is_without == (NO_VECTORS_OF_SCALARS in codegen.check(function, given).source)
