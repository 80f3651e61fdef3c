"""Scalar functions: the NumPy meaning at the edges, the spelling in C and CUDA."""

import math

import numpy as np
import pytest

from dynajit.core.errors import BoundsError, DivisionError, InternalError
from dynajit.core.types import dtypes
from dynajit.ops.table.scalar import SCALARS, SUFFIX, NumpyScalars, spell

M = NumpyScalars()
INF, NAN = math.inf, math.nan

UNARY = sorted(
    name for name, row in SCALARS.items()
    if row.arity == 1 and row.floating is not None and name != "cast"
)  # fmt: skip
BINARY = sorted(
    name for name, row in SCALARS.items() if row.arity == 2 and row.floating is not None
)


def quiet(function, *operands):
    with np.errstate(all="ignore"):
        return function(*operands)


def same(expected, actual):
    """Equal, with NaN equal to NaN and the sign of zeros compared."""
    expected, actual = np.asarray(expected, actual.dtype), np.asarray(actual)
    np.testing.assert_array_equal(actual, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_keep_the_floating_dtype(name, dtype):
    result = quiet(getattr(M, name), np.linspace(0.1, 0.9, 5).astype(dtype))
    bools = SCALARS[name].result.value == "bool"
    assert (np.dtype(bool) if bools else np.dtype(dtype)) == result.dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_keep_the_floating_dtype(name, dtype):
    x = np.linspace(0.1, 0.9, 5).astype(dtype)
    result = quiet(getattr(M, name), x, x[::-1])
    bools = SCALARS[name].result.value == "bool"
    assert (np.dtype(bool) if bools else np.dtype(dtype)) == result.dtype


EDGES = np.array([-INF, -1.5, -0.0, 0.0, 2.5, INF, NAN])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("abs", [INF, 1.5, 0.0, 0.0, 2.5, INF, NAN]),
        ("sign", [-1, -1, 0.0, 0.0, 1, 1, 0.0]),
        ("floor", [-INF, -2.0, -0.0, 0.0, 2.0, INF, NAN]),
        ("ceil", [-INF, -1.0, -0.0, 0.0, 3.0, INF, NAN]),
        ("trunc", [-INF, -1.0, -0.0, 0.0, 2.0, INF, NAN]),
        ("round", [-INF, -2.0, -0.0, 0.0, 2.0, INF, NAN]),
        ("sqrt", [NAN, NAN, -0.0, 0.0, math.sqrt(2.5), INF, NAN]),
        ("rsqrt", [NAN, NAN, -INF, INF, 1 / math.sqrt(2.5), 0.0, NAN]),
        ("reciprocal", [-0.0, 1 / -1.5, -INF, INF, 0.4, 0.0, NAN]),
        ("exp", [0.0, math.exp(-1.5), 1.0, 1.0, math.exp(2.5), INF, NAN]),
        ("erf", [-1.0, math.erf(-1.5), -0.0, 0.0, math.erf(2.5), 1.0, NAN]),
    ],
)
def test_unary_functions_at_the_edges(name, expected):
    result = quiet(getattr(M, name), EDGES)
    finite = np.isfinite(np.asarray(expected, float))
    np.testing.assert_allclose(result[finite], np.asarray(expected)[finite], rtol=1e-15)
    exact = ~finite | (np.asarray(expected) == 0)
    same(np.asarray(expected)[exact], result[exact])


@pytest.mark.parametrize(("name", "pick"), [("maximum", max), ("minimum", min)])
def test_extrema_propagate_nan(name, pick):
    function = getattr(M, name)
    assert np.isnan(quiet(function, np.float32(NAN), np.float32(1)))
    assert np.isnan(quiet(function, np.float32(1), np.float32(NAN)))
    assert pick(1.0, 2.0) == function(np.float32(1), np.float32(2))


def test_remainder_and_floor_divide_round_to_minus_infinity_as_python():
    values = np.array([-7.5, -7.0, -0.5, 0.5, 7.0, 7.5])
    for divisor in (2.0, -2.0, 0.75, -3.5):
        y = np.full_like(values, divisor)
        # Equal as numbers: a zero keeps the sign of x, as in PyTorch, not of y, as in Python.
        np.testing.assert_array_equal(M.remainder(values, y), [v % divisor for v in values])
        same([v // divisor for v in values], M.floor_divide(values, y))
        same([math.fmod(v, divisor) for v in values], M.fmod(values, y))


def test_float_division_by_zero_follows_ieee():
    x, zero = np.array([1.0, -1.0, 0.0]), np.zeros(3)
    same([NAN, NAN, NAN], quiet(M.remainder, x, zero))
    same([NAN, NAN, NAN], quiet(M.fmod, x, zero))
    same([INF, -INF, NAN], quiet(M.floor_divide, x, zero))


@pytest.mark.parametrize("name", ["remainder", "floor_divide", "fmod"])
def test_integer_division_by_zero_raises_both_builtin_classes(name):
    x, y = np.array([1, 2]), np.array([1, 0])
    for error in (DivisionError, RuntimeError, ZeroDivisionError):
        with pytest.raises(error, match="division by zero"):
            getattr(M, name)(x, y)


def test_integer_powers_wrap_and_take_negative_exponents():
    x = np.array([2, 1, -1, -1, 0, 3])
    y = np.array([-1, -5, -3, -4, -1, 4])
    assert [0, 1, -1, 1, 0, 81] == M.pow(x, y).tolist()
    assert np.dtype(np.int8) == M.pow(np.int8([100]), np.int8([2])).dtype
    assert [16] == M.pow(np.int8([100]), np.int8([2])).tolist()


def test_integers_pass_rounding_unchanged():
    x = np.array([-3, 0, 5], np.int16)
    for name in ("floor", "ceil", "trunc", "round"):
        result = getattr(M, name)(x)
        assert (x.dtype, [-3, 0, 5]) == (result.dtype, result.tolist())


def test_shifts_beyond_the_width_give_zero_or_the_sign():
    x = np.array([1, -5, -5, 5])
    assert [0, -40, 0, 0] == M.left_shift(x, np.array([70, 3, -1, 64])).tolist()
    assert [0, -1, -1, 0] == M.right_shift(x, np.array([70, 3, -1, 64])).tolist()


def test_where_hides_the_value_not_chosen():
    assert [1.0, 2.0] == M.where(np.array([True, False]), np.array([1.0, NAN]), 2.0).tolist()


def test_casts_truncate_and_wrap():
    x = np.array([-1.7, 300.2, 3.9])
    assert [-1, 300, 3] == M.cast(x, dtypes.int64).tolist()
    assert [255, 44, 3] == M.cast(x, dtypes.uint8).tolist()
    assert [-1, 44, 3] == M.cast(x, dtypes.int8).tolist()
    assert [True, False, True] == M.cast(np.array([NAN, -0.0, 1e-300]), dtypes.bool_).tolist()
    assert [44] == M.cast(np.array([300]), dtypes.uint8).tolist()


def test_indices_are_checked_and_wrapped():
    assert [4, 0] == NumpyScalars.as_index(np.array([-1, 0]), 5).tolist()
    for value, wrap in ((5, True), (-6, True), (-1, False)):
        with pytest.raises(BoundsError, match=f"index {value} is out of range"):
            NumpyScalars.as_index(np.array([value]), 5, wrap)


def test_index_counts_along_its_dimension():
    m = NumpyScalars((2, 3))
    assert [[0, 1, 2], [1, 2, 3]] == (m.index(0) + m.index(1)).tolist()


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="not a scalar function"):
        _ = M.besselj


SPELLED = {"bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"}


def test_every_function_has_a_spelling_or_a_reason():
    assert SPELLED == set(SUFFIX)
    for name, row in SCALARS.items():
        if name in ("cast", "index", "real", "imag", "complex"):
            continue
        operands = ["a", "b", "c"][: row.arity]
        spelled = 0
        for dtype in map(dtypes.by_name, SPELLED):
            for target in ("c", "cuda"):
                real = row.floating if target == "c" else row.cuda
                missing = (
                    row.kernels is not None and target == "c" and dtype.name not in row.kernels
                )
                if missing or (real if dtype.is_floating_point else row.integer) is None:
                    with pytest.raises(InternalError):
                        spell(name, dtype, target, *operands)
                    continue
                text = spell(name, dtype, target, *operands)
                spelled += 1
                assert "{" not in text
                assert text.count("(") == text.count(")")
        assert spelled, name


@pytest.mark.parametrize(
    ("name", "dtype", "target", "expected"),
    [
        ("exp", dtypes.float32, "c", "dj_exp_f32(a)"),
        ("exp", dtypes.float64, "c", "dj_exp_f64(a)"),
        ("exp", dtypes.float32, "cuda", "expf(a)"),
        ("exp", dtypes.float64, "cuda", "exp(a)"),
        ("rsqrt", dtypes.float32, "cuda", "rsqrtf(a)"),
        ("sqrt", dtypes.float32, "c", "sqrtf(a)"),
        ("abs", dtypes.int32, "c", "dj_abs_i32(a)"),
    ],
)
def test_spelling_of_one_operand(name, dtype, target, expected):
    assert expected == spell(name, dtype, target, "a")


def test_helpers_of_two_operands_are_named_by_the_dtype():
    assert "dj_remainder_i64(a, b)" == spell("remainder", dtypes.int64, "c", "a", "b")
    assert "dj_maximum_f32(a, b)" == spell("maximum", dtypes.float32, "cuda", "a", "b")
