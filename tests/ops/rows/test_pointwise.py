"""What is particular to single pointwise rows; the rest is in test_conformance."""

import math

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import DivisionError, DTypeError
from dynajit.core.types import dtypes
from dynajit.ops import TABLE, Kind
from tests.support.rows.tape import Tracked, gradients, run


def call(name, *inputs, **attributes):
    return run(TABLE[name], inputs, TABLE[name].bind(attributes))


def slope(name, *values, wrt=0):
    """The derivative of a row at scalars."""
    leaves = [Tracked(np.asarray(v, float)) for v in values]
    out = TABLE[name](*leaves)
    (found,) = gradients(out, Tracked(np.ones(out.shape)), [leaves[wrt]])
    return found.array.item()


def test_arithmetic_on_bool_is_logic():
    a, b = np.array([True, True, False]), np.array([True, False, False])
    assert [True, True, False] == call("add", a, b).tolist()
    assert [True, False, False] == call("mul", a, b).tolist()
    assert np.bool_ == call("add", a, b).dtype


@pytest.mark.parametrize("operands", [(True, True), (True, 1), (1.0, True)])
def test_bool_cannot_be_subtracted(operands):
    with pytest.raises(DTypeError, match="logical_xor"):
        call("sub", *(np.array([v]) for v in operands))


#: Rows of two inputs; `floor_divide` has no derivative, a loss's targets are floating.
OF_TWO = [
    op
    for op in TABLE
    if op.kind is Kind.POINTWISE and len(op.inputs) == 2 and not op.attributes
    if op.name not in ("floor_divide", "binary_entropy") and any(op.vjp.values())
]


@pytest.mark.parametrize("dtype", [dtypes.bool_, dtypes.int64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op", OF_TWO, ids=lambda op: op.name)
def test_gradients_beside_truth_values_and_ints_are_those_beside_floats(op, dtype):
    """Formulas subtract nothing from a truth value, which has no difference."""
    others = dj.tensor([1, 0, 1, 1, 0], dtype=dtype)
    for place, name in enumerate(op.inputs):
        x = dj.from_numpy(np.random.default_rng(0).uniform(*op.domain, 5)).requires_grad_()
        try:
            results = [
                op(*((x, other) if place == 0 else (other, x)))
                for other in (others, others.double())
            ]
        except DTypeError:
            continue  # no such operands
        if op.vjp.get(name) is None or not results[0].requires_grad:
            continue
        given, wide = (dj.autograd.grad(result.sum(), x)[0] for result in results)
        assert dj.allclose(given, wide, rtol=1e-12, equal_nan=True)


def test_integers_divide_to_float32():
    result = call("div", np.array([1, 2]), np.array([2, 0]))
    assert (np.float32, [0.5, math.inf]) == (result.dtype, result.tolist())


@pytest.mark.parametrize("name", ["remainder", "fmod", "floor_divide"])
def test_integers_divided_by_zero_raise(name):
    with pytest.raises(DivisionError):
        call(name, np.array([1]), np.array([0]))
    with pytest.raises(ZeroDivisionError):
        call(name, np.array([1]), 0)


def test_rounding_is_half_to_even():
    assert [-2.0, -0.0, 0.0, 2.0, 2.0] == call(
        "round", np.array([-1.5, -0.5, 0.5, 1.5, 2.5])
    ).tolist()


def test_sigmoid_never_overflows():
    result = call("sigmoid", np.array([-1e4, 1e4, -np.inf, np.inf, np.nan], np.float32))
    np.testing.assert_array_equal(result, np.array([0, 1, 0, 1, np.nan], np.float32))


def test_powers_have_finite_derivatives_at_zero():
    assert 0.0 == slope("pow", 0.0, 0.0)
    assert 0.0 == slope("pow", 0.0, 2.0, wrt=1)
    assert 1.0 == slope("pow", 0.0, 1.0)
    assert 0.0 == slope("pow", 0.0, 0.0, wrt=1)


def test_a_number_may_be_the_base_or_the_exponent():
    x = Tracked(np.array([0.5, 2.0]))
    for out, expected in (
        (TABLE.pow(x, 3), [0.75, 12.0]),
        (TABLE.pow(x, 2), [1.0, 4.0]),
        (TABLE.pow(x, 0), [0.0, 0.0]),
        (TABLE.pow(2.0, x), [2**0.5 * math.log(2), 4 * math.log(2)]),
        (TABLE.pow(0.0, x), [0.0, 0.0]),
    ):
        (found,) = gradients(out, Tracked(np.ones(2)), [x])
        np.testing.assert_allclose(found.array, expected, rtol=1e-15)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_ties_share_the_gradient(name):
    assert 0.5 == slope(name, 1.0, 1.0)
    assert 0.5 == slope(name, 1.0, 1.0, wrt=1)


def test_clamp_gives_the_gradient_on_the_closed_interval():
    assert [0.0, 1.0, 1.0, 1.0, 0.0] == [slope("clamp", x, 0.0, 1.0) for x in (-1, 0, 0.5, 1, 2)]
    assert 1.0 == slope("clamp", -1.0, 0.0, 1.0, wrt=1)
    assert 1.0 == slope("clamp", 2.0, 0.0, 1.0, wrt=2)


def test_clamp_with_crossed_bounds_gives_the_upper_one():
    assert [2.0, 2.0] == call("clamp", np.array([0.0, 9.0]), 5.0, 2.0).tolist()


@pytest.mark.parametrize("name", ["abs", "relu"])
def test_kinks_have_derivative_zero(name):
    assert 0.0 == slope(name, 0.0)


def test_where_takes_bool_only():
    with pytest.raises(DTypeError, match="Expected bool"):
        call("where", np.array([1, 0]), np.ones(2), np.zeros(2))


def test_where_stops_the_gradient_of_the_other_branch():
    x = Tracked(np.array([0.0, 4.0]))
    root = TABLE.sqrt(x)
    out = TABLE.where(Tracked(np.array([False, True])), root, 7.0)
    (found,) = gradients(out, Tracked(np.ones(2)), [root])
    assert [0.0, 1.0] == found.array.tolist()


def test_lerp_is_exact_at_both_ends():
    x, end = np.array([0.1], np.float32), np.array([1e8], np.float32)
    assert x == call("lerp", x, end, 0.0)
    assert end == call("lerp", x, end, 1.0)


def test_arange_rounds_once():
    expected = np.arange(1000) * 0.1 + 0.3
    result = call("arange", 0.3, 0.1, size=1000, dtype=dtypes.float32)
    np.testing.assert_array_equal(expected.astype(np.float32), result)


def test_arange_of_bool_is_refused():
    with pytest.raises(DTypeError):
        call("arange", 0, 1, size=2, dtype=dtypes.bool_)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_with_alpha_are_rounded_once_as_in_pytorch(dtype) -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(2)
    x, y, row = (random.standard_normal(shape).astype(dtype) for shape in ((40, 33), (40, 33), 33))

    def all_of(lib):
        a, b, c = map(lib.from_numpy, (x, y, row))
        large = lib.from_numpy(np.tile(x, (20, 1)))
        found = [a.add(b, alpha=-1e-3), a.sub(b, alpha=0.7), lib.add(a, c, alpha=3)]
        found += [
            a.clone().add_(b, alpha=0.3),
            a.clone().sub_(c, alpha=0.3),
            large.add_(large, alpha=0.1),
        ]
        return [value.numpy() for value in found]

    for expected, actual in zip(all_of(torch), all_of(dj), strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(expected, actual)


def test_sums_with_alpha_keep_their_dtypes_and_gradients() -> None:
    whole, half = dj.arange(4), dj.ones(4, dtype=dj.float16)
    assert whole.add(whole, alpha=2).dtype is dj.int64
    assert half.add(half, alpha=0.5).dtype is dj.float16
    assert dj.ones(4).add(dj.ones(4, dtype=dj.float64), alpha=0.5).dtype is dj.float64

    a, b = (dj.ones(3, requires_grad=True) for _ in range(2))
    a.sub(b, alpha=0.25).sum().backward()
    assert a.grad.tolist() == [1, 1, 1]
    assert b.grad.tolist() == [-0.25] * 3
