"""Functions of arrays with the bits of compiled functions: those of NumPy's names, and those that
NumPy lacks: `erf`, exact to 4 ULP, `fma`, rounded once, whole powers
with the bits of PyTorch's, and sums in double; for every layout, with the bits of compiled
functions."""

import math
import subprocess
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest

import dynajit as dj
from dynajit.ops import TABLE
from dynajit.ops.native import _vecmath
from dynajit.ops.native._vecmath import erf, fma, squares_wide, sum_wide, whole_power

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


NUMPY_NAMES = {
    "exp": dj.exp, "exp2": dj.exp2, "expm1": dj.expm1, "log": dj.log, "log2": dj.log2,
    "log10": dj.log10, "log1p": dj.log1p, "sin": dj.sin, "cos": dj.cos, "tan": dj.tan,
    "arcsin": dj.asin, "arccos": dj.acos, "arctan": dj.atan, "sinh": dj.sinh, "cosh": dj.cosh,
    "tanh": dj.tanh, "arcsinh": dj.asinh, "arccosh": dj.acosh, "arctanh": dj.atanh,
}  # fmt: skip
"""Functions that NumPy has, too."""


def operands_of_every_size(dtype: type) -> np.ndarray:
    """As below; angles beyond all reductions."""
    return np.concatenate(
        [numbers_of_every_size(), [1e5, -3e9, 65536.0, 88.7, -103.0]], dtype=dtype
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NUMPY_NAMES)
def test_functions_of_numpy_have_the_bits_of_compiled_ones(name: str, dtype) -> None:
    """And values within 4 ULP of NumPy's, in every layout, with no warning."""
    values = operands_of_every_size(dtype)
    x = dj.from_numpy(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = getattr(_vecmath, name)(values)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(values.astype(np.longdouble))

    np.testing.assert_array_equal(NUMPY_NAMES[name](x).numpy(), found)
    np.testing.assert_array_equal(dj.compile(NUMPY_NAMES[name])(x).numpy(), found)
    np.testing.assert_array_equal(getattr(_vecmath, name)(values[::-3]), found[::-3])
    near = abs(exact) <= np.finfo(dtype).max
    unit = np.spacing(abs(exact[near]).astype(dtype)).astype(np.longdouble)
    assert (abs(found[near] - exact[near]) <= 4 * unit).all()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    np.testing.assert_array_equal(np.signbit(found[near]), np.signbit(exact[near]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [dj.atan2, dj.pow], ids=["atan2", "pow"])
def test_functions_of_two_numbers_have_the_bits_of_compiled_ones(function, dtype) -> None:
    values = operands_of_every_size(dtype)
    x, y = dj.from_numpy(values), dj.from_numpy(np.random.default_rng(3).permutation(values))
    for pair in ((x, y), (x, y[7]), (x[11], y), (x, dj.tensor(3.0)), (x, dj.tensor(-1.0))):
        expected = function(*pair).numpy()
        np.testing.assert_array_equal(dj.compile(function)(*pair).numpy(), expected)


@pytest.mark.parametrize("exponent", [0.5, -0.5, 2, 3, -1, -2, 2.5, -7.25, 65, 0, 1.5])
@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_by_numbers_have_the_bits_of_compiled_ones(exponent, dtype) -> None:
    x = dj.from_numpy(operands_of_every_size(dtype))
    expected = dj.pow(x, exponent).numpy()
    np.testing.assert_array_equal(dj.compile(lambda x: x**exponent)(x).numpy(), expected)


def test_complex_numbers_go_through_numpy() -> None:
    z = np.array([1 + 2j, -0.5j, 3.0], np.complex64)
    for name in NUMPY_NAMES:
        np.testing.assert_array_equal(getattr(_vecmath, name)(z), getattr(np, name)(z))
    np.testing.assert_array_equal(_vecmath.power(z, z), np.power(z, z))


def test_a_result_may_be_written_over_the_operand() -> None:
    for dtype in DTYPES:
        values = np.linspace(0.1, 0.9, 1003).astype(dtype)
        for name in NUMPY_NAMES:
            expected, written = getattr(_vecmath, name)(values), values.copy()
            assert getattr(_vecmath, name)(written, out=written) is written
            np.testing.assert_array_equal(written, expected)


SPECIAL = {
    "erfc": dj.erfc, "erfinv": dj.erfinv, "lgamma": dj.lgamma, "ndtri": dj.special.ndtri,
    "log_ndtr": dj.special.log_ndtr, "i0": dj.i0, "i0e": dj.special.i0e, "i1": dj.special.i1,
    "i1e": dj.special.i1e, "bessel_j0": dj.special.bessel_j0, "bessel_j1": dj.special.bessel_j1,
}  # fmt: skip
"""Functions whose float32 values are those of kernels."""


def numbers_of_every_size() -> np.ndarray:
    """Both signs, edges, and more within [0, 1] than without."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal(5000) * np.exp(rng.uniform(-20, 20, 5000))
    edges = [0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 1e-45, 3e38]
    return np.concatenate([x, rng.uniform(0, 1, 5000), edges]).astype(np.float32)


@pytest.mark.parametrize("dtype", [dj.float32, dj.float16, dj.bfloat16])
@pytest.mark.parametrize("name", SPECIAL)
def test_compiled_special_functions_have_the_same_bits(name: str, dtype) -> None:
    """Within a larger kernel, too."""
    x = dj.from_numpy(numbers_of_every_size()).to(dtype)
    y = SPECIAL[name](x)
    compiled = dj.compile(lambda x: (SPECIAL[name](x), SPECIAL[name](x) * 2), fullgraph=True)
    found, twice = compiled(x)

    assert y.dtype is dtype
    np.testing.assert_array_equal(found.float().numpy(), y.float().numpy())
    np.testing.assert_array_equal(twice.float().numpy(), (y * 2).float().numpy())


@pytest.mark.parametrize("name", SPECIAL)
def test_layouts_do_not_change_special_functions(name: str) -> None:
    x = dj.from_numpy(numbers_of_every_size()[:10_000].reshape(100, 100))
    expected = SPECIAL[name](x).numpy()

    np.testing.assert_array_equal(SPECIAL[name](x[::3, ::7]).numpy(), expected[::3, ::7])
    np.testing.assert_array_equal(SPECIAL[name](x.T).numpy(), expected.T)
    assert SPECIAL[name](x[:0]).shape == (0, 100)


@pytest.mark.parametrize("name", ["ndtri", "log_ndtr", "i0", "i1e", "bessel_j0"])
def test_special_functions_of_double_are_compiled_around(name: str) -> None:
    """SciPy computes them between two kernels."""
    x = dj.linspace(0.05, 0.95, 1001, dtype=dj.float64)
    compiled = dj.compile(lambda x: SPECIAL[name](x * 1) * 2, fullgraph=True)

    assert dj.equal(compiled(x), SPECIAL[name](x) * 2)


@pytest.mark.parametrize("dtype", [dj.float32, dj.float64, dj.float16, dj.bfloat16])
def test_compiled_next_numbers_are_those_of_the_dtype(dtype) -> None:
    x = dj.linspace(-2, 2, 1001).to(dtype)
    y = x.flip(0)
    twice = dj.compile(lambda x, y: dj.nextafter(x, y) * 2, fullgraph=True)(x, y)
    found = dj.nextafter(x, y)

    assert dj.equal(twice, found * 2)
    assert dj.equal(found == x, x == y)
    strided = dj.stack([x, y], -1)
    assert dj.equal(dj.nextafter(strided[:, 0], strided[:, 1]), found)


def test_lgamma_of_double_is_exact_on_either_side_of_zero() -> None:
    """Positive numbers by the vector loop, all by the C library where one is not."""
    x = np.random.default_rng(8).uniform(-5, 20, 2000)
    lgamma = dj.compile(dj.lgamma)
    for part in (x, x[x > 0]):
        expected = np.array([math.lgamma(value) for value in part.tolist()])
        found = lgamma(dj.from_numpy(part)).numpy()

        np.testing.assert_allclose(found, expected, rtol=4e-15, atol=2e-15)


def test_zeta_of_unusual_operands_is_that_of_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.array([2.0, 3.0, 1.0, 0.5, 2.0, 2.5, np.nan, 3.0], np.float32)
    q = np.array([1.0, 0.0, 2.0, 2.0, -1.5, -1.5, 1.0, np.inf], np.float32)
    expected = special.zeta(x.astype(float), q.astype(float)).astype(np.float32)

    for function in (dj.special.zeta, dj.compile(lambda x, q: dj.special.zeta(x, q) * 1)):
        result = function(dj.from_numpy(x), dj.from_numpy(q)).numpy()
        np.testing.assert_allclose(result, expected, rtol=3e-7)


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


# ---------------------------------------------------------------------------------------------
# fma


def cancelling(dtype: type) -> list[np.ndarray]:
    """x, y and z of which x * y + z keeps few digits, or none, of the product."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(2000).astype(dtype) for _ in range(2))
    z = (-x * y * (1 + rng.integers(-3, 4, 2000) * np.finfo(dtype).eps)).astype(dtype)
    return [x, y, z]


@pytest.mark.parametrize("dtype", DTYPES)
def test_fma_rounds_the_exact_value_once(dtype) -> None:
    operands = cancelling(dtype)
    exact = [
        Fraction(x) * Fraction(y) + Fraction(z)
        for x, y, z in zip(*(each.astype(float).tolist() for each in operands), strict=True)
    ]
    found = fma(*operands)

    assert found.dtype == dtype
    # float(Fraction) is rounded once; the rounding to float32 of what needs 48 bits is exact here.
    np.testing.assert_array_equal(found, np.array([float(value) for value in exact]).astype(dtype))
    assert (found != operands[0] * operands[1] + operands[2]).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_do_not_change_the_bits_of_fma(dtype) -> None:
    x, y, z = (each.reshape(40, 50) for each in cancelling(dtype))
    expected = fma(x, y, z)

    np.testing.assert_array_equal(fma(x[::3, ::7], y[::3, ::7], z[::3, ::7]), expected[::3, ::7])
    np.testing.assert_array_equal(fma(x.T, y.T, np.ascontiguousarray(z.T)), expected.T)
    for rows in ([0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0]):
        alone = [each[:, :1] if kept else each for each, kept in zip((x, y, z), rows, strict=True)]
        whole = [np.ascontiguousarray(np.broadcast_to(each, x.shape)) for each in alone]
        np.testing.assert_array_equal(fma(*alone), fma(*whole))
    written = x.copy()
    assert fma(written, y, z, out=written) is written
    np.testing.assert_array_equal(written, expected)
    backwards = np.empty_like(x)[:, ::-1]
    np.testing.assert_array_equal(fma(x, y, z, out=backwards), expected)
    assert fma(x[:0], y[:0], z[:0]).shape == (0, 50)


def test_special_values_of_fma_are_those_of_ieee() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([inf, inf, 0.0, nan, 1.0, -0.0, 1e38, -0.0], np.float32)
    y = np.array([1.0, 1.0, inf, 1.0, 1.0, 1.0, 10.0, 1.0], np.float32)
    z = np.array([1.0, -inf, 1.0, 1.0, nan, -0.0, -inf, 0.0], np.float32)

    with np.errstate(invalid="ignore"):
        found = fma(x, y, z)

    np.testing.assert_array_equal(found, np.array([inf, nan, nan, nan, nan, -0.0, -inf, 0.0]))
    assert np.signbit(found[[5, 7]]).tolist() == [True, False]


@pytest.mark.parametrize("dtype", [dj.float32, dj.float64, dj.float16, dj.bfloat16])
def test_compiled_fma_has_the_same_bits(dtype) -> None:
    x, y, z = (dj.from_numpy(each).to(dtype) for each in cancelling(np.float64))
    compiled = dj.compile(lambda x, y, z: TABLE.fma(x, y, z))

    assert dj.equal(compiled(x, y, z), TABLE.fma(x, y, z))


# ---------------------------------------------------------------------------------------------
# sums in double


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 511, 512, 513, 5000])
def test_sums_are_those_of_double(dtype, size: int) -> None:
    rng = np.random.default_rng(size)
    x = (rng.standard_normal((3, size)) + 100).astype(dtype)
    center = np.array([100.0, 99.5, 101.25], dtype)
    squares = ((x - center[:, None]) ** 2).astype(float)

    assert sum_wide(x).dtype == squares_wide(x, center).dtype == np.float64
    np.testing.assert_allclose(sum_wide(x), [math.fsum(row) for row in x.tolist()], 1e-15)
    np.testing.assert_allclose(
        squares_wide(x, center), [math.fsum(row) for row in squares.tolist()], 1e-15
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_follow_strides(dtype) -> None:
    x = np.random.default_rng(0).standard_normal((40, 3, 6000)).astype(dtype)
    center = x[:, :, 0]
    turned = x[::-2, :, ::-2]

    np.testing.assert_allclose(sum_wide(turned), turned.sum(-1, dtype=float), 1e-12, 1e-12)
    np.testing.assert_array_equal(sum_wide(turned), sum_wide(np.ascontiguousarray(turned)))
    np.testing.assert_array_equal(
        squares_wide(x[:, :, ::3], center),
        squares_wide(np.ascontiguousarray(x[:, :, ::3]), np.ascontiguousarray(center)),
    )


EXPONENTS = (-7, -4, -3, -2, 4, 5, 6.0, 11, 40)


def bases() -> np.ndarray:
    """Both signs, over all powers that are reached, with the edges of C; of a size of which PyTorch
    computes no rest in another way."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal(20_000) * np.exp(rng.uniform(-9, 9, 20_000))
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-42, 3e38, -3e38]
    edges += [0.0] * (-(x.size + len(edges)) % 64)
    return np.concatenate([x.astype(np.float32), np.array(edges, np.float32)])


@pytest.mark.parametrize("exponent", [e for e in EXPONENTS if e != -2])
def test_whole_powers_are_exact_to_one_unit_with_the_edges_of_c(exponent) -> None:
    x = bases()
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), float(exponent))
        expected = exact.astype(np.float32)
        found = whole_power(x, np.float32(exponent))
        unit = np.spacing(np.abs(expected)).astype(np.float64)

    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    assert (np.abs(found[finite] - exact[finite]) <= unit[finite]).all()
    assert np.array_equal(np.signbit(found[finite]), np.signbit(expected[finite]))


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_whole_powers_are_those_of_pytorch(exponent) -> None:
    """Where results are normal: PyTorch rounds subnormal ones twice."""
    torch = pytest.importorskip("torch")
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("PyTorch computes powers without fused products on this CPU")
    x = bases()
    expected = (torch.from_numpy(x) ** exponent).numpy()
    normal = ~(np.abs(expected) < np.finfo(np.float32).tiny) | (expected == 0)

    np.testing.assert_array_equal((dj.from_numpy(x) ** exponent).numpy()[normal], expected[normal])
    compiled = dj.compile(lambda x: x**exponent)(dj.from_numpy(x))
    np.testing.assert_array_equal(compiled.numpy()[normal], expected[normal])


@pytest.mark.parametrize("exponent", [1.5, 2.0, 3.0, 4.0, 0.5, -0.5, -1.0, -2.0, 5.0])
def test_gradients_of_powers_are_those_of_pytorch(exponent) -> None:
    torch = pytest.importorskip("torch")
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("PyTorch computes powers without fused products on this CPU")
    x = np.random.default_rng(5).uniform(0.5, 3, 3008).astype(np.float32)
    leaf, other = torch.from_numpy(x).requires_grad_(), dj.from_numpy(x.copy()).requires_grad_()
    (leaf**exponent).sum().backward()
    (other**exponent).sum().backward()

    if exponent.is_integer():
        np.testing.assert_array_equal(other.grad.numpy(), leaf.grad.numpy())
    np.testing.assert_allclose(other.grad.numpy(), leaf.grad.numpy(), rtol=1e-6)


def test_layouts_do_not_change_whole_powers() -> None:
    x = np.random.default_rng(6).standard_normal((30, 100)).astype(np.float32)
    expected = whole_power(x, np.float32(5))

    np.testing.assert_array_equal(whole_power(x[::3, ::7], np.float32(5)), expected[::3, ::7])
    np.testing.assert_array_equal(whole_power(x.T, np.full((100, 1), 5, np.float32)), expected.T)
    written = x.copy()
    assert whole_power(written, np.float32(5), out=written) is written
    np.testing.assert_array_equal(written, expected)
    assert whole_power(x[:0], np.float32(5)).shape == (0, 100)


@pytest.mark.parametrize("exponent", [-1, -0.5, 0.5, 2, 3, 4, 2.5])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_powers_of_16_bit_floats_are_rounded_as_in_pytorch(dtype, exponent) -> None:
    torch = pytest.importorskip("torch")
    x = np.abs(np.random.default_rng(7).standard_normal(6400)).astype(np.float32) + np.float32(0.1)
    given = dj.from_numpy(x).to(getattr(dj, dtype))
    expected = (torch.from_numpy(x).to(getattr(torch, dtype)) ** exponent).float().numpy()

    np.testing.assert_array_equal((given**exponent).float().numpy(), expected)
    compiled = dj.compile(lambda x: x**exponent)(given)
    np.testing.assert_array_equal(compiled.float().numpy(), expected)
