"""Loops with forms for ordinary operands: the others are computed without them, and alone so."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dynajit.codegen.pipeline import compile_graph
from dynajit.ops import TABLE as ops
from dynajit.ops.table.scalar import SCALARS

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

FORMS: dict[str, Callable[..., Any]] = {
    **{
        name: lambda x, row=row: getattr(ops, row.name)(x, *[3.7] * (row.arity - 1))
        for name, row in sorted(SCALARS.items())
        if row.far is not None
    },
    **{f"pow {y}": lambda x, y=y: ops.pow(x, y) for y in (-3, -0.5, 2.5, 3, 4, 6.0, 33)},
    "lgamma": ops.lgamma,
}


@pytest.mark.filterwarnings("ignore:.*has no native lowering:RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FORMS)
def test_an_unusual_operand_does_not_change_what_others_give(codegen, name, dtype):
    """The loop that meets it is run again; where loops begin depends on the result's address."""
    x = np.abs(np.random.default_rng(3).standard_normal(4099)).astype(dtype) * dtype(30)
    program = compile_graph(codegen.graph_of(FORMS[name], codegen.type_of(x)))
    (expected,) = program(x)
    for unusual in (1e6, 1e35, -3.7, np.inf, np.nan, -0.0):
        x[::7] = unusual
        (found,) = program(x)

        np.testing.assert_array_equal(
            np.delete(expected, np.s_[::7]), np.delete(found, np.s_[::7]), str(unusual)
        )


def test_rows_of_few_elements_have_the_forms_too(codegen):
    """One unusual row among many; the others are what they are without it."""
    x = np.abs(np.random.default_rng(3).standard_normal((4099, 3)))
    graph = codegen.graph_of(lambda x: ops.pow(ops.sum(x, dim=(1,)), 0.45), codegen.type_of(x))
    program = compile_graph(graph)
    assert "dj_pow_near_f64(" in program.kernels[0].source
    (expected,) = program(x)
    np.testing.assert_allclose(expected, x.sum(1) ** 0.45, rtol=1e-15)
    x[7] = [-1.0, -2.0, 0.5]
    (found,) = program(x)

    assert np.isnan(found[7])
    np.testing.assert_array_equal(np.delete(expected, 7), np.delete(found, 7))
