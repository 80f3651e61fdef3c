"""Array functions of composites: the numbers of the rows they stand for, or no answer."""

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.ops import TABLE, Kind, Op
from dynajit.ops.evaluate import array_form
from tests.support.rows.samples import all_rows, samples
from tests.support.rows.tape import run

FORMED = [op for op in all_rows() if op.kind is Kind.COMPOSITE and op.rule.array is not None]
#: But what moves elements of all dtypes, and what is about integers.
COMPUTING = [op for op in FORMED if op not in (TABLE.stack, TABLE.pivot_order)]
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def form(op: Op, *inputs, **attributes):
    """The row's array function on operands, or NotImplemented."""
    return array_form(op, inputs, op.bind(attributes))


@pytest.mark.parametrize("op", FORMED, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=lambda d: d.name)
def test_forms_give_the_numbers_of_their_rows(op: Op, dtype):
    answered = 0
    for sample in samples(op, dtype):
        result = array_form(op, sample.inputs, sample.attributes)
        if result is NotImplemented:
            continue
        answered += 1
        expected = run(op, sample.inputs, sample.attributes)
        assert (expected.shape, expected.dtype) == (result.shape, result.dtype), sample.name
        tolerance = TOLERANCE[dtype.name]
        np.testing.assert_allclose(result, expected, tolerance, tolerance, err_msg=sample.name)
    assert answered > 0


@pytest.mark.parametrize("op", FORMED, ids=lambda op: op.name)
def test_forms_neither_write_nor_return_their_operands(op: Op):
    for sample in samples(op, dtypes.float32):
        arrays = [x for x in sample.inputs if isinstance(x, np.ndarray)]
        before = [x.copy() for x in arrays]
        result = array_form(op, sample.inputs, sample.attributes)
        for old, new in zip(before, arrays, strict=True):
            np.testing.assert_array_equal(old, new, err_msg=sample.name)
            assert result is NotImplemented or not np.shares_memory(result, new), sample.name


@pytest.mark.parametrize("op", COMPUTING, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda d: d.name)
def test_forms_leave_16_bit_floats_to_the_rows(op: Op, dtype):
    for sample in samples(op, dtype):
        assert array_form(op, sample.inputs, sample.attributes) is NotImplemented, sample.name


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_infinities_and_nan_are_those_of_the_rows(name, special):
    for array in (np.full((2, 3), special), np.array([[special, 1.0, 2.0], [1.0, 2.0, 3.0]])):
        expected = run(TABLE[name], (array,), {"dim": 1})
        np.testing.assert_allclose(form(TABLE[name], array, dim=1), expected, 1e-12)


def test_what_the_rows_refuse_has_no_form():
    x, weight = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)
    assert form(TABLE.linear, x, weight.T.copy(), None) is NotImplemented
    assert form(TABLE.linear, x, weight.astype(np.float64), None) is NotImplemented
    assert form(TABLE.linear, x, weight, np.ones(3, np.float32)) is NotImplemented
    assert form(TABLE.linear, x, None, None) is NotImplemented
    assert form(TABLE.linear, x, 2.0, None) is NotImplemented
    assert form(TABLE.layer_norm, x, None, None, normalized_shape=(2,)) is NotImplemented
    assert form(TABLE.layer_norm, x, None, None, normalized_shape=()) is NotImplemented
    bias = np.ones(3, np.float64)
    assert form(TABLE.layer_norm, x, None, bias, normalized_shape=(3,)) is NotImplemented
    assert form(TABLE.mean, np.ones((2, 3), np.int64), dim=(0,)) is NotImplemented


@pytest.mark.parametrize("target", [[0, 3], [-1, 0], [0, -100], [0], [[0, 1]], [0.0, 1.0]])
def test_targets_that_are_no_classes_have_no_form(target):
    x = np.ones((2, 3), np.float32)
    for name in ("nll_loss", "cross_entropy"):
        assert form(TABLE[name], x, np.asarray(target), None) is NotImplemented


def test_overflow_is_silent():
    x = np.array([[1e30, -1e30]], np.float32)
    result = form(TABLE.layer_norm, x, None, None, normalized_shape=(2,))
    np.testing.assert_array_equal(np.zeros((1, 2), np.float32), np.abs(result))
