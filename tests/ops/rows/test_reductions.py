"""What is particular to single reduction rows; the rest is in test_conformance."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import BoundsError, DTypeError
from dynajit.core.types import dtypes
from dynajit.ops import TABLE
from tests.support.rows.tape import Tracked, gradients, run


def call(name, x, dim, keepdim=False):
    return run(TABLE[name], [x], {"dim": dim, "keepdim": keepdim})


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32"])
def test_integers_accumulate_in_int64(name, dtype):
    result = call(name, np.ones((2, 300), dtype), (1,))
    assert np.int64 == result.dtype
    assert ([300, 300] if name == "sum" else [1, 1]) == result.tolist()


def test_a_long_float32_sum_loses_nothing_that_a_pairwise_sum_keeps():
    ones = np.ones((1 << 21, 4), np.float32) * np.float32(0.1)
    exact = float(np.float32(0.1)) * (1 << 21)
    for x, dim in ((ones, (0,)), (np.ascontiguousarray(ones.T).T, (0,)), (ones.T, (1,))):
        error = np.abs(call("sum", x, dim).astype(float) - exact) / exact
        assert error.max() < 2e-6


@pytest.mark.parametrize("count", [1, 63, 64, 127, 128, 129, 192, 1025, 70000])
def test_blocked_sums_count_every_element_once(count):
    x = np.ones((count, 3), np.float32)
    assert [count] * 3 == call("sum", x, (0,)).tolist()
    assert [count] * 3 == call("sum", x.T, (1,)).tolist()
    assert count * 3 == call("sum", x[::-1], (0, 1)).item()


def test_empty_sums_and_products_are_their_identities():
    x = np.ones((0, 2))
    assert [0.0, 0.0] == call("sum", x, (0,)).tolist()
    assert [1.0, 1.0] == call("prod", x, (0,)).tolist()
    assert [False, False] == call("any", x, (0,)).tolist()
    assert [True, True] == call("all", x, (0,)).tolist()


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin"])
def test_an_empty_choice_is_an_index_error(name):
    with pytest.raises(BoundsError):
        call(name, np.ones((0, 2)), (0,))
    with pytest.raises(IndexError):
        call(name, np.ones((0, 2)), (0, 1))


def test_nan_wins_every_choice():
    x = np.array([[1.0, np.nan, 3.0, np.nan]])
    assert np.isnan(call("amax", x, (1,))).all()
    assert np.isnan(call("amin", x, (1,))).all()
    assert [1] == call("argmax", x, (1,)).tolist()
    assert [1] == call("argmin", x, (1,)).tolist()


def test_the_first_of_equal_elements_is_chosen():
    x = np.array([[2, 7, 7, 0, 0]])
    assert [1] == call("argmax", x, (1,)).tolist()
    assert [3] == call("argmin", x, (1,)).tolist()


def test_positions_of_several_dims_count_row_major():
    x = np.arange(24).reshape(2, 3, 4)
    assert 23 == call("argmax", x, (0, 1, 2)).item()
    assert [11, 11] == call("argmax", x, (1, 2)).tolist()
    assert [5] * 4 == call("argmax", x, (0, 1)).tolist()


def test_argmax_of_bool_is_refused():
    with pytest.raises(DTypeError, match="bool is refused"):
        call("argmax", np.array([True]), (0,))


def test_truth_of_uint8_stays_uint8():
    x = np.array([[0, 2], [0, 0]], np.uint8)
    result = call("any", x, (1,))
    assert (np.uint8, [1, 0]) == (result.dtype, result.tolist())
    assert np.bool_ == call("any", x.astype(np.int8), (1,)).dtype


def test_nan_is_true():
    assert [True] == call("all", np.array([[np.nan, 1.0]]), (1,)).tolist()


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_products_with_zeros_have_right_first_and_second_derivatives(zeros):
    torch = pytest.importorskip("torch")
    values = np.array([0.0] * zeros + [2.0, -3.0, 0.5])
    x = Tracked(values)
    out = TABLE.prod(x, dim=(0,))
    g = Tracked(np.asarray(1.5))
    (first,) = gradients(out, g, [x])
    probe = np.linspace(0.3, 1.1, len(values))
    second = gradients(first, Tracked(probe), [x, g])
    theirs = torch.tensor(values, requires_grad=True)
    scale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    (their_first,) = torch.autograd.grad(torch.prod(theirs, 0) * scale, theirs, create_graph=True)
    expected = torch.autograd.grad(
        their_first, (theirs, scale), torch.tensor(probe), allow_unused=True
    )
    np.testing.assert_allclose(first.array, their_first.detach().numpy(), rtol=1e-13)
    for mine, other in zip(second, expected, strict=True):
        np.testing.assert_allclose(mine.array, other.numpy(), rtol=1e-13)


def test_sixteen_bit_sums_accumulate_in_float32():
    x = np.full((3, 4096), 1.0, np.float16)
    assert dtypes.float32 is TABLE.sum.rule.compute(dtypes.float16)
    assert [4096.0] * 3 == call("sum", x, (1,)).tolist()


def test_a_dim_may_be_an_integer_of_numpy() -> None:
    x = dj.from_numpy(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(x.sum(np.int64(1)), [3, 12])
    np.testing.assert_array_equal(x.mean((np.int32(-1),)), [1, 4])
    np.testing.assert_allclose(x.softmax(np.int64(0)).sum(np.int64(0)), [1, 1, 1])
