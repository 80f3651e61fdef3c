"""Results of numbers in nests have the class, the dtype and the value that NumPy gives."""

import math
import operator
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.execution.nests.operators import Operators, bounds_of, common_dtype
from dynajit.capture.execution.nests.values import (
    MEDIUM,
    PYTHON_DTYPES,
    SMALL,
    WHOLE,
    Literal,
    NotNest,
    Number,
    as_number,
)
from dynajit.core.types import dtypes
from dynajit.ir.nests import Register
from tests.capture.execution.nests.test_nest import nests_of
from tests.end_to_end.loops.nests.test_nests import outcome

NUMPY = (
    np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint16, np.uint32, np.uint64,
    np.float32, np.float64,
)  # fmt: skip
SAMPLES: tuple[Any, ...] = (True, 1, 1.5, *(kind(1) for kind in NUMPY))
BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "**": operator.pow,
}  # fmt: skip


def number(sample: Any) -> Number:
    """A number of a sample's class that is not known."""
    if type(sample) in PYTHON_DTYPES:
        return Number(Register("p", PYTHON_DTYPES[type(sample)]), PYTHON_DTYPES[type(sample)], True)
    dtype = dtypes.from_numpy(sample.dtype)
    return Number(Register("n", dtype), dtype, False)


def kind_of(value: Any) -> tuple[Any, bool]:
    """The dtype of a number of Python's or NumPy's, and whether it is Python's."""
    if type(value) in PYTHON_DTYPES:
        return PYTHON_DTYPES[type(value)], True
    return dtypes.from_numpy(value.dtype), False


@pytest.mark.parametrize("symbol", BINARY)
@pytest.mark.parametrize("a", SAMPLES, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("b", SAMPLES, ids=lambda b: type(b).__name__)
def test_an_operator_gives_the_class_and_the_dtype_of_python(symbol: str, a: Any, b: Any) -> None:
    own = Operators()
    try:
        found = own.binary(symbol, number(a), number(b))
    except NotNest:
        return
    assert (found.dtype, found.is_python) == kind_of(BINARY[symbol](a, b))
    assert own.steps[-1].target is not None or own.steps[-1].operation == "require"


def test_the_operators_of_elements_are_there() -> None:
    for symbol in "+-*/":
        for a in (2, 1.5, np.int32(1), np.int64(1), np.float32(1), np.float64(1)):
            for b in (2, 1.5, np.int32(1), np.int64(1), np.float32(1), np.float64(1)):
                Operators().binary(symbol, number(a), number(b))


@pytest.mark.parametrize("symbol", ["<", "<=", "==", "!=", ">", ">="])
@pytest.mark.parametrize("a", SAMPLES, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("b", SAMPLES, ids=lambda b: type(b).__name__)
def test_comparisons_give_bools(symbol: str, a: Any, b: Any) -> None:
    try:
        found = Operators().compare(symbol, number(a), number(b))
    except NotNest:
        assert np.uint64 in (type(a), type(b))
        return
    is_python = type(a) in PYTHON_DTYPES and type(b) in PYTHON_DTYPES
    assert (found.dtype, found.is_python) == (dtypes.bool_, is_python)


@pytest.mark.parametrize("name", ["sqrt", "exp", "sin", "floor", "absolute", "square", "isnan"])
@pytest.mark.parametrize("a", SAMPLES, ids=lambda a: type(a).__name__)
def test_functions_of_numpy_give_its_dtypes(name: str, a: Any) -> None:
    try:
        found = Operators().of_numpy(name, [number(a)])
    except NotNest:
        return
    assert (found.dtype, found.is_python) == kind_of(getattr(np, name)(a))


@pytest.mark.parametrize("a", SAMPLES, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("b", SAMPLES, ids=lambda b: type(b).__name__)
def test_extremes_of_numpy_give_its_dtypes(a: Any, b: Any) -> None:
    try:
        found = Operators().of_numpy("maximum", [number(a), number(b)])
    except NotNest:
        return
    assert (found.dtype, found.is_python) == kind_of(np.maximum(a, b))


def test_what_is_known_is_computed_as_python_does() -> None:
    own = Operators()
    assert own.binary("+=", Literal(2), Literal(3)).value == 5
    assert own.unary("-", Literal(2.0)).value == -2.0
    assert own.inverted(Literal(0)).value is True
    assert own.to_float(Literal(3)).value == 3.0
    assert not own.steps
    with pytest.raises(NotNest):
        own.binary("//", Literal(2), Literal(0))


def test_small_ints_need_no_checks_and_others_do() -> None:
    def operations(a: int, b: int, symbol: str) -> list[str]:
        own = Operators()
        x, y = (Number(Register("i", dtypes.int64), dtypes.int64, True, e) for e in (a, b))
        own.binary(symbol, x, y)
        return [step.operation for step in own.steps]

    assert operations(SMALL, SMALL, "*") == ["mul"]
    assert operations(MEDIUM, MEDIUM, "+") == ["add"]
    assert operations(MEDIUM, SMALL, "*") == ["mul_whole"]
    assert operations(WHOLE, SMALL, "-") == ["sub_whole"]


def test_an_int_beyond_int64_is_no_number() -> None:
    with pytest.raises(NotNest):
        as_number(Literal(1 << 63))


def test_numbers_of_python_are_weak() -> None:
    assert common_dtype(number(1.5), number(np.float32(1))) is dtypes.float32
    assert common_dtype(number(2), number(np.int8(1))) is dtypes.int8
    assert common_dtype(number(1.5), number(np.int8(1))) is dtypes.float64
    assert bounds_of(dtypes.int8) == (-128, 127) and bounds_of(dtypes.uint8) == (0, 255)


@pytest.mark.parametrize(
    "name",
    ["sinh", "cosh", "asinh", "acosh", "atanh", "expm1", "exp2", "erf", "erfc", "pow", "fmod"],
)
def test_functions_of_math_give_what_python_gives(name: str) -> None:
    function = getattr(math, name)
    arity = 2 if name in ("pow", "fmod") else 1

    def computed(x, y):
        out = np.zeros(len(x))
        for i in range(len(x)):
            out[i] = function(x[i], y[i]) if arity == 2 else function(x[i])
        return out

    compiled = dj.compile(computed, fullgraph=True)
    y = np.array([0.5, 2.0, -3.0, 1.5])
    for x in ([0.1, 0.5, -0.3, 0.9], [1.5, 2.0, 7.0, 30.0], [-2.0, 1.0, 0.0, -0.0],
              [np.inf, 1.0, 2.0, 1.0], [-np.inf, 1.0, 2.0, 3.0], [np.nan, 1.0, 2.0, 3.0],
              [800.0, 3.0, 1.0, 1.0], [1.0, 5.0, 1.0, 1e300]):  # fmt: skip
        for divisor in (y, y * 0):
            args = np.array(x), divisor
            expected, _ = outcome(computed, args)
            actual, _ = outcome(compiled, args)
            if type(expected) is tuple:
                assert expected == actual
            else:
                np.testing.assert_allclose(actual, expected, rtol=4e-16)
    assert nests_of(computed, np.full(4, 2.0 if name == "acosh" else 0.5), y) == 1
