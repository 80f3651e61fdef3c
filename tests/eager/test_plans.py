"""`_tensor.pointwise`: rows run in C by the plans that earlier evaluations left."""

import warnings

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DivisionError, ShapeError
from dynajit.eager._tensor import pointwise
from dynajit.ops import TABLE, Kind
from dynajit.ops.evaluate import evaluate

DTYPES = (dj.float32, dj.float64, dj.int64, dj.bool, dj.bfloat16)
BINARY = [
    op for op in TABLE if op.kind is Kind.POINTWISE and not op.attributes and len(op.inputs) == 2
]


def outcome(call):
    """The result, or the class of the error."""
    try:
        return call()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_are_those_of_evaluate(op, dtype):
    x = dj.tensor([[1.5, -2.0, 3.0], [0.0, 4.0, -1.0]]).to(dtype)
    y = dj.tensor([2.0, 3.0, 1.0]).to(dtype)
    zero_dim = dj.tensor(2.0).to(dtype)
    pairs = [(x, y), (x, zero_dim), (zero_dim, zero_dim), (x, 2.5), (3, x), (x.T, x.T), (x, True)]
    for first, second in pairs * 2:  # the second time there is a plan
        arrays = [v.array if isinstance(v, dj.Tensor) else v for v in (first, second)]
        expected = outcome(lambda arrays=arrays: evaluate(op, arrays, {}))
        result = outcome(lambda inputs=(first, second): op(*inputs))
        if isinstance(expected, type):
            assert expected is result
        else:
            assert (expected.shape, expected.dtype) == (tuple(result.shape), result.array.dtype)
            wide = np.float64  # NumPy does not know the NaN of bfloat16
            np.testing.assert_array_equal(expected.astype(wide), result.array.astype(wide))


def test_a_plan_answers_after_the_first_call():
    x = dj.ones(3)
    TABLE.add(x, x)
    assert [2.0, 2.0, 2.0] == pointwise(TABLE.add, (x, x)).tolist()
    TABLE.add(x, 2)
    assert [3.0, 3.0, 3.0] == pointwise(TABLE.add, (x, 2)).tolist()


def test_numbers_that_a_float_would_round_are_left_to_evaluate():
    x = dj.ones(3, dtype=dj.float64)
    TABLE.add(x, 2)
    assert pointwise(TABLE.add, (x, 2**24 + 1)) is NotImplemented
    assert pointwise(TABLE.add, (x, 2**70)) is NotImplemented
    assert pointwise(TABLE.add, (x, True)) is NotImplemented


def test_a_result_never_is_an_operand():
    x = dj.tensor([True, False])
    for op in (TABLE.logical_or, TABLE.bitwise_or, TABLE.maximum, TABLE.add):
        for _ in range(2):
            assert not np.shares_memory(op(x, x).array, x.array)


def test_errors_keep_their_words():
    x, y, zero = dj.ones(2), dj.ones(3), dj.zeros(2, dtype=dj.int64)
    for _ in range(2):
        x + x, zero // (zero + 1)
        with pytest.raises(ShapeError, match=r"add\(x: float32\[2\], y: float32\[3\]\)"):
            x + y
        with pytest.raises(DivisionError):
            zero // zero


def test_floating_point_exceptions_are_silent():
    x = dj.tensor([1e38, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert [np.inf, 0.0] == (x * 1e38).tolist()
            assert [np.inf, np.inf] == (1.0 / (x * 0)).tolist()
            assert [np.inf, np.inf] == (x + 1e300).tolist()


def test_operands_that_require_a_gradient_are_recorded():
    x = dj.ones(3, requires_grad=True)
    for _ in range(2):
        assert (x + x).grad_fn is not None
        with dj.no_grad():
            assert (x + x).grad_fn is None
