"""A formula's parameter names say what it needs."""

from dataclasses import replace

import pytest

from dynajit.core.errors import InternalError
from dynajit.ops import TABLE, Op
from dynajit.ops.table.derivatives import (
    Need,
    Parameter,
    call_formula,
    formula_parameters,
    is_variadic,
)


def row(formula: object, like: Op = TABLE.sum, name: str = "x") -> Op:
    """A row (not entered in the table) with another formula."""
    return replace(like, vjp={name: formula})


def test_names_are_resolved() -> None:
    """The table, the gradient, the result and its type, inputs, types and attributes."""
    op = row(lambda ops, g, out, out_type, x, x_type, dim: None)

    assert formula_parameters(op, "x") == (
        Parameter("ops", Need.TABLE),
        Parameter("g", Need.GRADIENT),
        Parameter("out", Need.RESULT),
        Parameter("out_type", Need.RESULT_TYPE),
        Parameter("x", Need.INPUT, 0),
        Parameter("x_type", Need.INPUT_TYPE, 0),
        Parameter("dim", Need.ATTRIBUTE, "dim"),
    )


def test_a_variadic_row_gets_sequences() -> None:
    """By `inputs` or by the row's own name; types likewise."""
    op = row(lambda g, inputs, inputs_types, tensors, tensors_types: None, TABLE.cat, "tensors")

    assert is_variadic(op, "tensors")
    assert [parameter.need for parameter in formula_parameters(op, "tensors") or ()] == [
        Need.GRADIENT,
        Need.INPUTS,
        Need.INPUT_TYPES,
        Need.INPUTS,
        Need.INPUT_TYPES,
    ]


def test_an_unknown_name_is_an_internal_error() -> None:
    """The message says which names mean something."""
    with pytest.raises(InternalError, match="a parameter 'y', which is no input"):
        formula_parameters(row(lambda g, y: g), "x")


def test_an_unknown_name_with_a_default_keeps_it() -> None:
    """Formulas made in a loop bind their own data so."""
    assert 6 == call_formula(row(lambda g, factor=2: g * factor), "x", lambda parameter: 3)


def test_no_formula_means_no_gradient() -> None:
    """Neither parameters nor a result."""
    op = replace(TABLE.sum, vjp={"x": None})

    assert formula_parameters(op, "x") is None
    assert call_formula(op, "x", lambda parameter: 0) is None


@pytest.mark.parametrize("op", list(TABLE), ids=lambda op: op.name)
def test_every_formula_of_the_table_is_understood(op: Op) -> None:
    """Every parameter name means something, and every formula belongs to an input."""
    assert set(op.vjp) <= set(op.inputs)
    for name in op.vjp:
        formula_parameters(op, name)
