"""Which pointwise rows call functions that take many instructions."""

import pytest

from dynajit.core.types import dtypes
from dynajit.ops import TABLE, Op
from dynajit.ops.table.effort import functions_called, is_transcendental


@pytest.mark.parametrize("name", ["add", "mul", "relu", "where", "clamp", "eq", "sqrt", "floor"])
def test_arithmetic_is_cheap(name: str) -> None:
    """A few instructions."""
    assert not is_transcendental(TABLE[name], TABLE[name].bind({}))


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "pow", "sigmoid", "log"])
def test_a_polynomial_is_not(name: str) -> None:
    """Dozens of instructions."""
    assert is_transcendental(TABLE[name], TABLE[name].bind({}))


def test_attributes_reach_the_body() -> None:
    """A cast is one function, whatever the dtype."""
    cast: Op = TABLE.cast

    assert {"cast"} == functions_called(cast, (("dtype", dtypes.int8),))
