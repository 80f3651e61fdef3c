"""`erf` of arrays: exact to 4 ULP, for every layout, with the bits of compiled functions."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest

import dynajit as dj
from dynajit.ops._vecmath import erf

DTYPES = (np.float32, np.float64)


def points(dtype: type) -> np.ndarray:
    """Dense where erf bends, and over every power of two."""
    exponents = np.ldexp(1.0, np.arange(-148 if dtype is np.float32 else -1073, 12))
    spread = np.concatenate([np.linspace(-6.5, 6.5, 40001), exponents, -exponents])
    return spread.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_exact_to_four_units(dtype) -> None:
    x = points(dtype)
    expected = np.array([math.erf(value) for value in x.tolist()])
    unit = np.spacing(abs(expected).astype(dtype)).astype(float)

    assert erf(x).dtype == dtype
    assert (abs(erf(x).astype(float) - expected) <= 4 * unit).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_are_those_of_c(dtype) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = erf(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -7.0], dtype))

    np.testing.assert_array_equal(found, np.array([0.0, -0.0, 1, -1, np.nan, 1, -1], dtype))
    assert np.signbit(found).tolist() == [False, True, False, True, False, False, True]


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_do_not_change_bits(dtype) -> None:
    x = points(dtype)[:3000].reshape(30, 100)
    expected = erf(x)

    np.testing.assert_array_equal(erf(x[::3, ::7]), expected[::3, ::7])
    np.testing.assert_array_equal(erf(x[:, ::-1].T), expected[:, ::-1].T)
    np.testing.assert_array_equal(erf(np.broadcast_to(x[0], (4, 100)))[2], expected[0])
    np.testing.assert_array_equal([erf(value) for value in x[1]], expected[1])
    written = x.copy()
    assert erf(written, out=written) is written
    np.testing.assert_array_equal(written, expected)
    assert erf(x[:0]).shape == (0, 100)


def test_other_numbers_are_converted() -> None:
    assert erf(np.float16(0.5)).dtype == np.float32
    np.testing.assert_array_equal(erf(np.arange(3)), erf(np.arange(3.0)))
    with pytest.raises(TypeError):
        erf(np.array([1j]))


@pytest.mark.parametrize("dtype", [dj.float32, dj.float64])
def test_compiled_functions_have_the_same_bits(dtype) -> None:
    x = dj.linspace(-6, 6, 100_003, dtype=dtype)

    assert dj.equal(dj.compile(dj.erf)(x), dj.erf(x))


def test_gelu_is_as_exact_as_one_plus_erf_can_be() -> None:
    """erf is off by 3 units below 1, 2^-24 each, and the sum by one more, times |x| / 2."""
    x = np.linspace(-6, 6, 100_003).astype(np.float32)
    wide = x.astype(float)
    expected = np.array([value / 2 * math.erfc(-value / math.sqrt(2)) for value in wide.tolist()])
    error = abs(dj.nn.functional.gelu(dj.tensor(x)).numpy() - expected)

    assert (error <= abs(wide) * 2.0**-23 + 2 * np.spacing(abs(expected).astype(np.float32))).all()


def test_gelu_imports_no_scipy() -> None:
    """Its import takes as long as a small model's first result."""
    code = (
        "import sys, dynajit as dj\n"
        "x = dj.ones(3, requires_grad=True)\n"
        "dj.nn.functional.gelu(x).sum().backward()\n"
        "sys.exit('scipy' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
