"""Reductions in nests have NumPy's classes and dtypes, and its values to rounding."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.capture.execution.nests.test_views import arguments, as_nest, check, program
from tests.end_to_end.loops.nests.test_nests import outcome, same

pytestmark = pytest.mark.one_python

NAMES = ("sum", "prod", "mean", "max", "min", "argmax", "argmin", "any", "all", "var", "std")


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.int8, np.bool_])
def test_numbers_that_reductions_leave(dtype: Any) -> None:
    """Whatever is no nest is captured in other ways."""
    names = NAMES if dtype is np.float64 else NAMES[:-2]
    lines = ["s = 0", "for i in range(n):", "    x[i] *= 1"]
    lines += [f"    {name}_ = x[i:].{name}()" for name in names]
    lines += [
        f"    out[i, {place}] = np.{name}(a[i] > 0.5)" for place, name in enumerate(NAMES[2:9])
    ]
    a, x, k, out = arguments()
    args = a, (x * 3 - 4).astype(dtype), k, out
    function = program(*lines, f"return {', '.join(name + '_' for name in names)}")
    expected, found = outcome(function, args), as_nest(function, args)
    assert [*map(type, expected[0])] == [*map(type, found[0])]
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    np.testing.assert_allclose(found[1][3], expected[1][3], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32])
@pytest.mark.parametrize(
    "value",
    [
        "np.count_nonzero(x[i:])", "np.inner(x, x)", "np.vdot(x, x)", "np.add(x[i], 1)",
        "np.power(x[i], 2)", "np.divide(x[i], 2)", "np.multiply(x[i], 0.5)", "np.less(x[i], 2)",
        "np.negative(x[i])", "np.floor_divide(x[i], 2)", "np.sum(x, keepdims=True)[0]", "x[k][i]",
        "np.flip(x)[i]", "np.diff(x)[0]", "np.concatenate((x, x[:1]))[i]", "np.hstack((x, k))[i]",
        "np.asarray(x)[i]", "np.full_like(x, 2.5)[i]", "np.logical_not(x)[i]", "x[k * 0 + i][0]",
        "(x * np.count_nonzero(x))[i]", "(x + np.inner(x, x))[i]", "np.equal(x, k)[i]",
    ],
)  # fmt: skip
def test_functions_leave_numbers_of_numpys_classes(value: str, dtype: Any) -> None:
    function = program(
        "s = 0", "for i in range(n):", "    x[i:] += 1", f"    s = {value}", "return s"
    )
    a, x, k, out = arguments()
    args = a, (x * 3 - 4).astype(dtype), k, out
    expected, found = outcome(function, args), as_nest(function, args)
    assert type(expected[0]) is type(found[0])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)


@pytest.mark.parametrize(
    "value",
    [
        "a.sum()", "np.sum(a[1:, i % m])", "a.max(axis=1)[i]", "np.min(a, axis=0)[0]",
        "x @ x[::-1]", "np.dot(a[i], a[0])", "np.linalg.norm(x - i)", "a[i].dot(a[i])", "sum(x)",
        "max(a[i])", "min(x[1:])", "(x > i).sum()", "np.any(x > 3)", "(a[i] > 0.5).all()",
        "np.argmax(a[i])", "k[i:].sum()", "np.matmul(a[i], a[1])", "(a @ a.T).sum()",
        "(a[i] * a).sum(axis=(0, 1))", "x[i:i].sum()", "k.prod()", "k @ k", "(a.T @ x)[1]",
        "np.amax(np.abs(a))", "x[:0].any()",
    ],
)  # fmt: skip
def test_reductions_agree_to_rounding(value: str) -> None:
    function = program("for i in range(n):", f"    out[i, 0] = {value}", "    x[i] += 1.0")
    args = arguments()
    expected, found = outcome(function, args), as_nest(function, args)
    np.testing.assert_allclose(found[1][3], expected[1][3], rtol=1e-12)
    assert same(expected[0], found[0])


@pytest.mark.parametrize("special", ["np.nan", "np.inf", "-np.inf", "-0.0"])
def test_special_numbers(special: str) -> None:
    lines = ["for i in range(n):", f"    x[i] = {special}", "    out[i, 7] = x[::-1].max()"]
    names = "max", "min", "argmax", "argmin", "sum", "any", "all"
    lines += [f"    out[i, {place}] = x.{name}()" for place, name in enumerate(names)]
    check(program(*lines))


@pytest.mark.parametrize("name", ["mean", "max", "argmin", "var"])
def test_of_nothing_plain_python_says_what_numpy_says(name: str) -> None:
    function = program("for i in range(n):", f"    x[i] = x[i + 1:].{name}()")
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning) if name in "mean var" else _same():
        expected = outcome(function, arguments())
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning) if name in "mean var" else _same():
        found = outcome(dj.compile(function), arguments())
    assert same(expected, found)


def _same() -> Any:
    return np.errstate()


def test_a_long_sum_is_as_exact_as_that_of_numpy() -> None:
    def function(x, out):
        for i in range(len(out)):
            out[i] = x[i:].sum()
        return out

    x = np.random.default_rng(2).normal(size=20_000) * 1e6
    found = dj.compile(function, fullgraph=True)(x, np.zeros(5))
    exact = [float(np.sum(x[i:].astype(np.longdouble))) for i in range(5)]
    np.testing.assert_allclose(found, exact, atol=1e-13 * np.abs(x).sum())
