"""Loops over complex numbers are one nest, and give what plain Python and NumPy give."""

import cmath
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.nests.test_nests import fresh
from tests.end_to_end.loops.test_collected import loops_of

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning"),
]


def mandelbrot(c, limit):
    out = np.zeros(c.shape, np.int64)
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            z, k = 0j, 0
            while k < limit and abs(z) <= 2.0:
                z = z * z + c[i, j]
                k += 1
            out[i, j] = k
    return out


def julia(xs, ys, c, limit):
    out = np.zeros((len(ys), len(xs)), np.int64)
    for i in range(len(ys)):
        for j in range(len(xs)):
            z, k = complex(xs[j], ys[i]), 0
            while z.real * z.real + z.imag * z.imag <= 4.0 and k < limit:
                z = z**2 + c
                k += 1
            out[i, j] = k
    return out


def newton(grid):
    roots = np.zeros(grid.shape, np.complex128)
    for i in range(len(grid)):
        z = grid[i]
        for _ in range(20):
            if z == 0:
                break
            z = z - (z**3 - 1) / (3 * z * z)
        roots[i] = z
    return roots


def gate(state, q, g):
    step = 1 << q
    for i in range(len(state)):
        if not i & step:
            a, b = state[i], state[i + step]
            state[i], state[i + step] = g[0, 0] * a + g[0, 1] * b, g[1, 0] * a + g[1, 1] * b


def butterflies(x):
    n, half = len(x), 1
    while half < n:
        for k in range(half):
            w = complex(math.cos(math.pi * k / half), -math.sin(math.pi * k / half))
            for i in range(k, n, 2 * half):
                t = w * x[i + half]
                x[i + half] = x[i] - t
                x[i] = x[i] + t
        half *= 2
    return x


def roots_of_parts(x):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = x[i].real - 2 * x[i].imag + abs(x[i]) + x.real[i] * x.imag[-1 - i]
        x.imag[i] = out[i]
        x[i] += x[i].conjugate() * np.conj(x[i - 1]) - x[i].conj() / 3
    return out, x


def rows_of(a, b):
    for i in range(1, len(a)):
        a[i, 1:] += a[i - 1, :-1] * b[i, 1:] - 1j * a[i, 1:].conj()
        a[i] = np.where(a[i].imag > 0, a[i] / 2, b[i])
        b[i] = a[i - 1].sum() + (a[i].real * 2).mean()


def last_one(x):
    total, kept = x[0], 1
    for i in range(1, len(x)):
        total = total * 0.5 + x[i]
        if total:
            kept += 1
    return total, kept


def made_in_turns(n, out):
    for i in range(n):
        w = np.zeros(3, complex)
        w[1] = 1j * i
        w[2] = np.complex64(i)
        v = np.array([w[1], 2.0, i])
        out[i] = (w + v).sum() + w @ v


R = np.random.default_rng(5)


def drawn(*shape: int, dtype: Any = np.complex128) -> Any:
    return (R.standard_normal(shape) + 1j * R.standard_normal(shape)).astype(dtype)


NESTS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (mandelbrot, (drawn(9, 8), 40)),
    (mandelbrot, (drawn(9, 8, dtype=np.complex64), 40)),
    (julia, (np.linspace(-1.5, 1.5, 9), np.linspace(-1, 1, 8), -0.4 + 0.6j, 30)),
    (newton, (drawn(25),)),
    (newton, (drawn(25, dtype=np.complex64),)),
    (gate, (drawn(32), 2, drawn(2, 2))),
    (gate, (drawn(64)[::2], 2, drawn(2, 2, dtype=np.complex64))),
    (roots_of_parts, (drawn(12),)),
    (roots_of_parts, (drawn(24)[::-2],)),
    (last_one, (drawn(20),)),
    (last_one, (drawn(20, dtype=np.complex64),)),
]


def bits(value: Any) -> Any:
    """Class, dtype, shape and numbers, of which all NaN are one."""
    if isinstance(value, (tuple, list)):
        return [type(value), *map(bits, value)]
    if not isinstance(value, (np.ndarray, np.generic)):
        return type(value), repr(value)
    array = np.array(value, order="C", ndmin=1)
    if array.dtype.kind == "c":
        array = array.view(array.real.dtype)
    if array.dtype.kind == "f":
        array[np.isnan(array)] = np.nan
    return type(value), np.asarray(value).dtype, np.shape(value), array.tobytes()


def outcome(function: Callable[..., Any], args: Any) -> tuple[Any, Any]:
    """What a call gives, and what it leaves in its arguments."""
    given = fresh(args)
    return bits(function(*given)), bits(given)


@pytest.mark.parametrize(("function", "args"), NESTS)
def test_loops_over_complex_elements_are_nests(function: Callable[..., Any], args: Any) -> None:
    expected = outcome(function, args)
    compiled = dj.compile(function, fullgraph=True)

    for _ in range(2):
        assert outcome(compiled, args) == expected
    assert loops_of(function, *fresh(args)) == 1


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_rows_of_complex_numbers_agree_with_numpy(dtype: Any) -> None:
    args = (drawn(7, 6, dtype=dtype), drawn(7, 6, dtype=dtype))
    plain, given = fresh(args), fresh(args)

    rows_of(*plain)
    dj.compile(rows_of, fullgraph=True)(*given)

    for a, b in zip(plain, given, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12 if dtype is np.complex128 else 1e-4)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_a_fourier_transform_agrees_with_python(dtype: Any) -> None:
    x = drawn(64, dtype=dtype)

    found = dj.compile(butterflies, fullgraph=True)(x.copy())

    np.testing.assert_allclose(
        found, butterflies(x), rtol=1e-13 if dtype is np.complex128 else 1e-5
    )


def test_complex_arrays_that_turns_make() -> None:
    expected, found = np.zeros(9, complex), np.zeros(9, complex)

    made_in_turns(9, expected)
    dj.compile(made_in_turns, fullgraph=True)(9, found)

    np.testing.assert_array_equal(found, expected)


SPECIAL = [0.0, -0.0, 1.5, -2.0, 1e200, -1e-200, math.inf, -math.inf, math.nan]
VALUES = [complex(x, y) for x in SPECIAL for y in SPECIAL]


def of_two(x, y, sums, differences, products, quotients, equal):
    for i in range(len(x)):
        sums[i] = x[i] + y[i]
        differences[i] = x[i] - y[i]
        products[i] = x[i] * y[i]
        quotients[i] = x[i] / y[i]
        equal[i] = x[i] == y[i]
        equal[i] += 2 * (x[i] != y[i])


def of_one(x, square, cube, negative, turned, size, truth):
    for i in range(len(x)):
        square[i] = x[i] ** 2
        cube[i] = x[i] ** 3
        negative[i] = -x[i]
        turned[i] = x[i].conjugate()
        size[i] = abs(x[i])
        truth[i] = 1 if x[i] else 0


OTHERS = [np.complex128, np.complex64, np.float64, np.float32, np.int64, np.int16]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_operators_of_numpy_with_nan_infinities_and_zeros(dtype: Any, other: Any) -> None:
    with np.errstate(all="ignore"):
        x, y = (
            np.array(a, dtype) for a in zip(*((a, b) for a in VALUES for b in VALUES), strict=True)
        )
        if not issubclass(other, np.complexfloating):
            y = np.nan_to_num(y.real, posinf=3, neginf=-5) if other in OTHERS[-2:] else y.real
            y = np.clip(y, -9, 9) if other in OTHERS[-2:] else y
        y = y.astype(other)
        results = [np.zeros(len(x), np.complex128) for _ in range(4)]
        results.append(np.zeros(len(x), np.int64))

        expected = outcome(of_two, (x, y, *results))
        swapped = outcome(of_two, (y, x, *results))
        compiled = dj.compile(of_two, fullgraph=True)

        assert outcome(compiled, (x, y, *results)) == expected
        assert outcome(compiled, (y, x, *results)) == swapped


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_functions_of_numpy_with_nan_infinities_and_zeros(dtype: Any) -> None:
    with np.errstate(all="ignore"):
        x = np.array(VALUES, dtype)
        results = [np.zeros(len(x), np.complex128) for _ in range(4)]
        results += [np.zeros(len(x)), np.zeros(len(x), np.int64)]

        expected = outcome(of_one, (x, *results))

        assert outcome(dj.compile(of_one, fullgraph=True), (x, *results)) == expected


def of_python(a, b, c, d, out, number):
    for i in range(len(a)):
        x, y = complex(a[i], b[i]), complex(c[i], d[i])
        z = x + y
        if number == 1:
            z = x - y
        elif number == 2:
            z = x * y
        elif number == 3:
            z = x / y
        elif number == 4:
            z = x * 2.5 - c[i]
        elif number == 5:
            z = -x + 2 - float(d[i])
        elif number == 6:
            z = (x == y) + 2 * (x != c[i]) + x.conjugate()
        elif number == 7:
            z = complex(abs(x), 1.0 if x else 0.0)
        elif number == 8:
            z = x**2
        elif number == 9:
            z = x**3
        elif number == 10:
            z = 1j * x - 3 / (y + 1)
        out[i] = z


@pytest.mark.parametrize("number", range(11))
def test_operators_of_python_with_nan_infinities_and_zeros(number: int) -> None:
    pairs = [(p, q) for p in VALUES for q in VALUES]
    served = 0
    compiled = dj.compile(of_python)
    for start in range(0, len(pairs), 81):
        several = pairs[start : start + 81]
        x, y = (np.array(part) for part in zip(*several, strict=True))
        args = [x.real.copy(), x.imag.copy(), y.real.copy(), y.imag.copy(), np.zeros(81, complex)]
        for chosen in (slice(None), slice(0, 81, 9), slice(2, 4)):
            given = [array[chosen] for array in args]
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    expected = outcome(of_python, (*given, number))
                except ArithmeticError as error:
                    with pytest.raises(type(error)):
                        compiled(*fresh(tuple(given)), number)
                    continue
                assert outcome(compiled, (*given, number)) == expected
                served += 1
    assert served


def exponentials(x, out, roots):
    for i in range(len(x)):
        out[i] = np.exp(x[i]) + np.exp(-2j * np.pi * i / len(x))
        roots[i] = np.sqrt(x[i]) + 0.5


def exponentials_of_python(a, out, roots):
    for i in range(len(a)):
        z = complex(a[i].real, a[i].imag)
        out[i] = cmath.exp(z) + cmath.rect(2.0, cmath.phase(z))
        size, angle = cmath.polar(z)
        roots[i] = cmath.sqrt(z) + complex(size, angle)


@pytest.mark.parametrize("function", [exponentials, exponentials_of_python])
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_functions_agree_with_those_of_python_and_numpy(function: Any, dtype: Any) -> None:
    of_zeros = np.array([0, -0.0, complex(-0.0, -0.0), complex(-4, -0.0), -4, 4j, -4j, 1e-10])
    x = np.concatenate([drawn(40), of_zeros, 30 * drawn(20)]).astype(dtype)
    expected, found = ([np.zeros(len(x), complex) for _ in range(2)] for _ in range(2))

    function(x, *expected)
    dj.compile(function, fullgraph=True)(x, *found)

    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-14 if dtype is np.complex128 else 2e-6)
        assert bits(np.signbit(a.imag)) == bits(np.signbit(b.imag))


def test_exponentials_that_overflow_are_those_of_python() -> None:
    x = np.array([1.0, complex(709.5, 1.5), complex(800, 0), complex(-math.inf, 3)])
    expected, found = ([np.zeros(len(x), complex) for _ in range(2)] for _ in range(2))

    exponentials(x, *expected)
    dj.compile(exponentials)(x, *found)

    assert bits(expected) == bits(found)
    with pytest.raises(OverflowError):
        dj.compile(exponentials_of_python)(x, *found)


def of_one_memory(x):
    y = x[2::2]
    for i in range(len(y)):
        x[i] = y[i] * 1j + x[i + 1]
        y[i] -= x[-1]


def test_complex_views_of_one_memory_see_each_others_writes() -> None:
    expected = drawn(12)
    found = expected.copy()
    of_one_memory(expected)
    dj.compile(of_one_memory, fullgraph=True)(found)

    assert bits(found) == bits(expected)


def parts_of_one_memory(x, parts):
    for i in range(1, len(x)):
        x[i] = x[i].real
        x[i] += parts[i - 1] * 1j
        parts[i] += x[i].imag


def test_parts_that_are_given_apart_see_writes_to_the_whole() -> None:
    for name in ("real", "imag"):
        expected = drawn(12)
        found = expected.copy()
        parts_of_one_memory(expected, getattr(expected, name))
        dj.compile(parts_of_one_memory)(found, getattr(found, name))

        assert bits(found) == bits(expected)


def without_imaginary_parts(a, b):
    for i in range(len(a)):
        a[i] = a[i].real
        b.imag[i] = b.real[i, ::-1]
        b.real[i] = abs(b[i, ::-1])


def test_parts_of_rows_are_views() -> None:
    args = (drawn(5, 4), drawn(5, 4))

    expected = outcome(without_imaginary_parts, args)

    assert outcome(dj.compile(without_imaginary_parts, fullgraph=True), args) == expected


def swapped_twice(x, y):
    z = 0j
    for i in range(len(x)):
        x[i], y[i] = y[i], x[i]
        x[i], y[i] = y[i], x[i]
        z = z * z + x[i]
        z = complex(i, 0.5)


def test_doubles_that_were_floats_have_few_digits() -> None:
    args = (drawn(20, dtype=np.complex64), drawn(20))

    expected = outcome(swapped_twice, args)

    assert outcome(dj.compile(swapped_twice, fullgraph=True), args) == expected


def beside_doubles(x, y, v, out):
    for i in range(len(x)):
        out[i] = (1j * v[i] + (2 - 1j) / v[i]) * x[i] - (1j - v[i]) * y[i]
        y[i] += (1j - v[i]) * 2 - v[i] * 1j
        x[i] *= -(2 + 1j) - v[i]
        out[i] += (1j == v[i]) + (1 + 0j == v[i])
        out[i, ...] += (1j / v).sum() + (1j == v).sum()


def test_complex_numbers_of_python_in_front_of_doubles_stay_those_of_python() -> None:
    args = (drawn(9, dtype=np.complex64), drawn(9, dtype=np.complex64), R.random(9), drawn(9))
    args[2][4] = 1.0
    plain, given = fresh(args), fresh(args)

    beside_doubles(*plain)
    dj.compile(beside_doubles, fullgraph=True)(*given)

    assert bits(plain[:2]) == bits(given[:2])
    np.testing.assert_allclose(given[3], plain[3], rtol=1e-13)


def test_other_sizes_and_dtypes_in_later_calls() -> None:
    compiled = dj.compile(last_one)
    for x in (drawn(5), drawn(9), drawn(1), drawn(12, dtype=np.complex64), R.random(8), drawn(30)):
        assert bits(compiled(x)) == bits(last_one(x))
    with pytest.raises(IndexError):
        compiled(drawn(0))


def real_from_complex(x, y):
    for i in range(len(x)):
        y[i] = x[i]


def ordered(x, y):
    for i in range(len(x)):
        y[i] = x[i] > 1


def without_a_remainder(x, y):
    for i in range(len(x)):
        y[i] = x[i] % 2


@pytest.mark.parametrize("function", [real_from_complex, ordered, without_a_remainder])
def test_what_complex_numbers_have_not_is_left_to_python(function: Any) -> None:
    x, y = drawn(6), np.zeros(6)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        try:
            function(x, y)
        except TypeError:
            with pytest.raises(TypeError):
                dj.compile(function)(x, y)
            return
        found = np.zeros(6)
        dj.compile(function)(x, found)
    assert bits(found) == bits(y)


def horner(coefficients, z):
    total = 0j
    for k in range(len(coefficients)):
        total = total * z + complex(coefficients[k])
    return total


def escaped(c, limit):
    z, k = 0j, 0
    while k < limit:
        z = z * z + complex(c[k])
        k += 1
        if abs(z) > 2.0:
            return z, k, True
    return z, k, False


def conjugate_sum(x):
    total = 0j
    for i in range(len(x)):
        total += complex(x[i], -x[i]).conjugate() * 1j
    return -total / 2


def turned(value, z):
    if value > 0:
        return complex(value) * z
    return -z


def of_a_function(x, z):
    total = 1 + 0j
    for i in range(len(x)):
        total += turned(x[i], z)
    return total


def parts_and_whole(x):
    total = 0j
    for i in range(len(x)):
        total += complex(x[i], i)
    return total.real, total, total.imag


RETURNING = [
    (horner, R.normal(size=40), 0.3 + 0.2j),
    (horner, drawn(40), 0.3 - 0.2j),
    (horner, np.zeros(5), -0.0 + 0j),
    (horner, np.array([-0.0] * 5), complex(-0.0, -0.0)),
    (horner, np.array([np.nan, 1.0, np.inf, 2.0, 3.0]), 1.5 + 0j),
    (escaped, np.full(30, 0.3), 30),
    (escaped, np.full(30, 0.1), 20),
    (conjugate_sum, R.normal(size=12)),
    (of_a_function, R.normal(size=12), 0.5 - 2j),
    (parts_and_whole, R.normal(size=33)),
]


@pytest.mark.parametrize(("function", "args"), [(given[0], given[1:]) for given in RETURNING])
def test_complex_numbers_of_python_are_returned(function: Any, args: tuple[Any, ...]) -> None:
    """As Python's own, with the bits and signs that Python has, by one nest."""
    compiled = dj.compile(function, fullgraph=True)
    expected = function(*args)
    for _ in range(2):
        found = compiled(*args)
        assert type(found) is type(expected)
        assert repr(found) == repr(expected)
    (made,) = dj.explain(function)(*args).graphs
    assert {node.op.name for node in made.calls} >= {"nest"}


def test_what_calls_a_nest_that_leaves_a_complex_number_computes_with_it() -> None:
    def twice(x, z):
        return horner(x, z) * 2 + horner(x[::-1], z)

    x = R.normal(size=20)
    assert repr(dj.compile(twice)(x, 0.5j)) == repr(twice(x, 0.5j))


def test_no_turn_leaves_the_complex_number_in_front_of_it() -> None:
    compiled = dj.compile(horner)
    for size in (6, 0, 1, 9, 0):
        x = R.normal(size=size)
        assert repr(compiled(x, 2 - 1j)) == repr(horner(x, 2 - 1j))
