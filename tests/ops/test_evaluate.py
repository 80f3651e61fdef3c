"""Evaluation on raw arrays: dtypes, layouts, numbers, errors, silence."""

import math
import threading
import warnings

import numpy as np
import pytest

from dynajit.core.errors import DTypeError, InternalError, ShapeError
from dynajit.core.types import dtypes
from dynajit.ops import TABLE
from dynajit.ops.evaluate import evaluate

BFLOAT16 = dtypes.bfloat16.numpy


def run(name, *inputs, **attributes):
    op = TABLE[name]
    return evaluate(op, inputs, op.bind(attributes))


def test_a_result_is_an_array_even_where_numpy_gives_a_scalar():
    for result in (
        run("add", np.float32(1), np.float32(2)),
        run("add", np.asarray(1.0), 2),
        run("add", 1, 2),
        run("sum", np.ones(3), dim=(0,)),
        run("exp", np.zeros((), BFLOAT16)),
    ):
        assert isinstance(result, np.ndarray)
        assert () == result.shape


def test_numbers_alone_have_the_default_dtypes():
    assert (np.float32, 2.5) == (run("add", 2, 0.5).dtype, run("add", 2, 0.5).item())
    assert np.int64 == run("mul", 2, 3).dtype
    assert np.float32 == run("div", 1, 2).dtype
    assert np.bool_ == run("add", True, True).dtype
    assert math.inf == run("div", 1, 0).item()


def test_sixteen_bit_floats_round_once():
    x = np.array([1.0], np.float16)
    # In float16 arithmetic 2048 + 1 rounds to 2048 before the division by 2048.
    y = run("lerp", x, np.array([3.0], np.float16), 1 / 3)
    assert np.float16 == y.dtype
    assert np.float16(1 + 2 / 3) == y[0]
    many = np.ones(5000, np.float16)
    assert 5000.0 == float(run("sum", many, dim=(0,))[()])
    assert BFLOAT16 == run("exp", np.zeros(2, BFLOAT16)).dtype
    ones = np.ones((2, 3000), BFLOAT16)
    assert [3008.0, 3008.0] == run("sum", ones, dim=(1,)).astype(np.float32).tolist()


def test_python_integers_wrap_into_the_dtype_of_the_tensor():
    torch = pytest.importorskip("torch")
    for number in (300, -1, 2**40):
        for dtype in ("uint8", "int8", "int32"):
            x = np.array([1, 100], dtype)
            expected = torch.tensor(x) + number
            assert expected.tolist() == run("add", x, number).tolist(), (number, dtype)


def test_a_python_integer_beyond_64_bits_is_refused():
    with pytest.raises(DTypeError, match="does not fit in int64"):
        run("add", np.ones(2, np.int64), 2**70)


def test_floating_exceptions_are_silent_and_leave_numpy_settings_alone():
    before = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("div", np.ones(2), 0)
        run("exp", np.full(2, 1e5))
        run("mul", np.ones(1, np.float32), 1e300)
        run("sum", np.full(3, 1e308), dim=(0,))
        run("cast", np.array([np.nan, 1e30]), dtype=dtypes.int32)
        run("neg", np.asarray(np.uint8(1)))
    assert before == np.geterr()


def test_operands_that_do_not_broadcast_are_explained():
    with pytest.raises(ShapeError, match=r"add\(x: float32\[2\], y: float32\[3\]\)"):
        run("add", np.ones(2, np.float32), np.ones(3, np.float32))
    with pytest.raises(ShapeError, match=r"matmul"):
        run("matmul", np.ones((2, 3)), np.ones((2, 3)))


def test_zero_dim_operands_do_not_raise_the_dtype():
    wide = np.asarray(2.0)
    assert np.float32 == run("mul", np.ones(3, np.float32), wide).dtype
    assert np.float64 == run("mul", np.asarray(np.float32(1)), wide).dtype


def test_full_keeps_a_number_exact():
    assert 0.1 == run("full", 0.1, shape=(2,), dtype=dtypes.float64)[0]
    big = 2**62 + 1
    assert big == run("full", big, shape=(), dtype=dtypes.int64)[()]


def test_a_function_that_changes_nothing_still_gives_a_new_array():
    x = np.arange(3)
    for name in ("floor", "round", "sign"):
        result = run(name, x)
        assert not np.shares_memory(x, result)
    assert not np.shares_memory(x, run("cast", x, dtype=dtypes.int64))
    assert not np.shares_memory(x, run("sum", x, dim=()))


def test_a_view_row_gives_a_view():
    x = np.ones((2, 3))
    assert np.shares_memory(x, run("permute", x, dims=(1, 0)))
    assert np.shares_memory(x, run("reshape", x, shape=(6,)))


def test_a_composite_is_refused():
    with pytest.raises(InternalError, match="composite"):
        run("softmax", np.ones((2, 3)), dim=1)


def test_threads_evaluate_side_by_side():
    x = np.linspace(0.1, 1.0, 1000)
    expected = run("exp", x)
    failures = []

    def work():
        for _ in range(200):
            if not np.array_equal(expected, run("exp", x)):
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_dtype_not_the_value_decides_the_plan():
    x = np.ones(2, np.float32)
    assert np.float32 == run("add", x, 1).dtype
    assert np.float64 == run("add", x.astype(np.float64), 1).dtype
    assert np.float32 == run("add", x, 1.5).dtype
    assert np.float32 == run("add", np.ones(2, np.int64), 1.5).dtype
    assert np.int64 == run("add", np.ones(2, np.int64), 1).dtype
