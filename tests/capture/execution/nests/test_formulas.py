"""Operations of whole rows in nests have NumPy's values, dtypes and order of reads and writes."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.capture.execution.nests.test_views import arguments, as_nest, check, program
from tests.end_to_end.loops.nests.test_nests import outcome, same

pytestmark = pytest.mark.one_python


@pytest.mark.parametrize(
    "line",
    [
        "x[1:] = x[:-1]", "x[:-1] = x[1:] * 2", "x[:] = x[::-1]", "x[1:] += x[:-1]", "x *= x[0]",
        "a[i, 1:] = a[i, :-1]", "a[i] = a[i - 1] * 2", "a[:, 0] = a[:, 1] + a[i, 0]",
        "a *= a[i, 0]", "a[1:] = a[:-1]", "a[:4, :4] = a[:4, :4].T", "a[i] -= a[i].max()",
        "a[1:, 1:] += a[:-1, :-1]", "row = a[i]; row[1:] = row[:-1]; a[0] += row",
        "a[[i, 0]] = a[[0, i]]", "a[[1, i]] = x[:4]", "t = a[i] * 2; a[i] = 0.0; a[0] = t",
        "t = a[i]; a[i] = 0.0; a[0] = t + 1", "x[:] = 3", "a[i], a[0] = a[0], a[i]", "a[:] = a[i]",
        "t = x + 1; x[0] = -1.0; x[1:] = t[:-1]", "a[i], a[0] = a[0].copy(), a[i].copy()",
        "a[[i, 0], 1:] = a[[0, i], :3] * 2", "a[...] += 1", "x.fill(2.0)",
        "t = a[[i, 0]]; t[0] += 5; a[1] += t[0]", "out[:, :4] = a; a[i] = out[0, :4]",
        "a[i] = a[i]", "a[i] = x[0], 1, a[0, i % 4], 2.5", "a[i, :2] = [i, x[i]]",
        "np.add(x, x[::-1], x)", "np.add(x[1:], x[:-1], out=x[1:])", "np.negative(x, x)",
        "t = np.multiply(a, 2, out=a); t[0] += a[i]", "np.add(k, 1, out=x)",
        "np.add(1, x, out=None)",
        "t = x > 2; np.logical_not(t, t); x[0] = t.sum()", "np.add(a[0], 1.0, a)",
        "t = x * 2; np.add(x, 1, x); out[0, :5] = t", "t = np.asarray(x); t[1] = 7",
        "t = a.T; t[0] += 1; a[0] = t[1, :4]", "a[i, :] = x[:, None][1:, 0]",
    ],
)  # fmt: skip
def test_a_right_side_is_read_before_its_memory_is_written(line: str) -> None:
    check(program("for i in range(1, n):", f"    {line}", "    x[0] += 0.5"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8])
@pytest.mark.parametrize("other", ["2", "1.5", "x[i]", "k"])
def test_dtypes_of_rows_are_those_of_numpy(other: str, dtype: Any) -> None:
    """Whatever is no nest is captured in other ways."""
    lines = ["for i in range(n):"]
    for place, symbol in enumerate(("+", "-", "*", "/", "//", "%", "**")):
        if not (symbol == "**" and (other, dtype) != ("2", np.int8)):
            lines += [f"    t = x {symbol} {other}", f"    out[i, {place}] = t[i]"]
            lines += [f"    a[i, {place % 4}] = t.dtype.itemsize"]
    a, x, k, out = arguments()
    args = a, (x + 1).astype(dtype), k + 1, out
    function = program(*lines)
    expected, found = outcome(function, args), outcome(dj.compile(function), args)
    assert expected[0] is found[0] is None
    for given, changed in zip(expected[1], found[1], strict=True):
        np.testing.assert_allclose(changed, given, rtol=2e-7)


@pytest.mark.parametrize(
    "value",
    [
        "np.sqrt(x)", "np.abs(-x)", "abs(x - 2)", "-x", "np.maximum(x, 2)", "x ** 0.5", "x ** 2",
        "np.minimum(x, x[::-1])", "np.where(x > 2, x, -1.0)", "np.where(x > x[i], 1, k)", "x > 1",
        "np.clip(x, 1, 3)", "x.copy()", "x.astype(np.int32)", "np.zeros_like(x)", "np.ones(5)",
        "np.full(5, 2.5)", "np.zeros(n, dtype=np.float32)", "~(x > 1)", "(x > 1) & (x < 3)",
        "np.array([x[i], 2, i])", "np.array((1, i))", "np.array([1, 2.5])", "np.arange(n - i, 5)",
        "np.arange(i)", "np.array(x)", "np.array([i, 0], dtype=np.float32)",
        "np.round(x * 0.7)", "np.sign(x - 2)", "np.rint(x + 0.5)", "np.cumsum(x)",
        "k.cumsum()", "x[:, None].T[0]", "np.outer(x, x)[i]", "(a @ a.T)[i]",
        "a @ a[i]", "x @ a", "np.dot(a.T, x)", "a.sum(axis=1)", "a.max(axis=0)", "np.full(n, 3)",
        "np.mean(a, axis=-1)", "np.empty_like(x) * 0", "x[:4] @ a.T[:, :n]",
        "(a.T @ a)[i % m]", "k @ k[:, None]",
        "np.add(x, 1)", "np.subtract(x, k)", "np.multiply(x, x[i])", "np.divide(k, 2)",
        "np.power(x, 2)", "np.power(x, k)", "np.floor_divide(x, 2)", "np.mod(k, 3)",
        "np.negative(k)", "np.bitwise_and(k, 3)", "np.bitwise_or(k, 1)",
        "np.bitwise_xor(k, k[::-1])", "np.invert(k)", "np.left_shift(k, 2)", "np.right_shift(k, 1)",
        "np.positive(x)", "np.greater(x, 1)", "np.less_equal(x, k)", "np.equal(k, 2)",
        "np.not_equal(x, k)", "np.logical_not(k)", "np.logical_and(x, k > 1)",
        "np.logical_or(x > 3, k)", "np.invert(x > 2)", "x[k].transpose()", "np.transpose(a)[i % m]",
        "a.transpose()[i % m]", "np.expand_dims(x, 0)[0]", "np.asarray(x)",
        "np.expand_dims(a, -1)[i, :, 0]", "np.concatenate((x[i:], a[i], x[:i]))", "np.diff(x)",
        "np.concatenate([a, a * 2])[i + n]", "np.concatenate((a, a[:, 1:]), axis=1)[i]",
        "np.concatenate((x, a[i]), 0)[2:6]", "np.hstack((x[1:3], a[i, 1:]))",
        "np.hstack((a, a))[i]", "np.diff(a)[i]", "np.diff(k)", "np.full_like(x, i)",
        "np.full_like(k, 2.7)", "a[i] - np.inner(x, x)", "x * np.vdot(x, k)",
        "x * np.count_nonzero(x > i)", "x * np.count_nonzero(a)",
        "a.sum(axis=1, keepdims=True)[:, 0]", "np.max(a, 0, keepdims=True)[0]",
        "np.mean(a, keepdims=True)[0]", "a.min(axis=(0, 1), keepdims=1)[0]", "a.sum(1, keepdims=0)",
        "np.flip(x)", "np.flip(a, 0)[i]", "np.flip(a)[i]", "np.flipud(a)[i]", "np.fliplr(a)[i]",
        "np.flip(x * 2)", "x[k]", "x[k - 5]", "(x * 2)[k]", "x.copy()[k]",
        "np.concatenate([x * 2, x + 1])[i:]", "a[k][i]", "a[k % 4, k % m]", "a[i, k % m]",
        "a[k, 1]", "x[k[:, None] * 0 + k % 5][i]", "k[k.astype(np.uint8)]", "x[k[:0]]",
        "(x + 1j)[k].imag", "(a @ a[k % 4])[i] if m == n else x", "a.astype(np.float32)[k % 4, 0]",
    ],
)  # fmt: skip
def test_arrays_that_turns_make(value: str) -> None:
    lines = f"    t = {value}", "    for j in range(len(t)):", "        out[i, j] = t[j]"
    function = program("for i in range(n):", *lines)
    args = arguments()
    expected, found = outcome(function, args), as_nest(function, args)
    np.testing.assert_allclose(found[1][3], expected[1][3], rtol=1e-12)
    assert same(expected[1][:3], found[1][:3])


@pytest.mark.parametrize(
    "line",
    [
        "x[k] = x", "x[k % 2] = x", "x[k] += x[k % 3]", "x[k % 2] *= 2", "a[k % 3] = a", "x[k] = i",
        "a[k % 3] = x[:4]", "a[k % 3, k % 4] = x", "a[i, k % 4] -= x", "a[k, i % 4] = a[i, 0]",
        "a[k[:, None], k[None, :4]] = a * 2", "x[x.astype(np.int64) % 5] = x", "k[k] = k[::-1]",
        "k[k] += 1; k %= 5", "a[k] = a[:1]", "a[k] = a[:1] * 2", "x[k[1:1]] = 9",
        "a[k - 5, -1] = x", "t = x[k]; x[k] = 0; out[i, :5] = t",
        "t = x.copy(); t[k] += i; a[:, 1] = t", "x[k] = x.astype(np.float32)",
        "z = x + 1j * x; z[k] = x; x[:] = z.imag + z.real",
    ],
)  # fmt: skip
def test_elements_are_set_by_arrays_of_indices(line: str) -> None:
    """The last one stays where indices repeat."""
    check(program("for i in range(1, n):", f"    {line}", "    x[0] += 0.5"))


def test_functions_along_all_dims_are_numpys() -> None:
    """Whatever is no nest is captured in other ways."""
    for value in ("np.concatenate((a, a), axis=None)", "np.expand_dims(a, (0, 1))[0, 0, :, 0]",
                  "np.concatenate((x, x), None)", "np.flip(a, (0, 1))[:, 0]"):  # fmt: skip
        function = program("for i in range(n):", f"    t = {value}", "    x[i:] += t[: n - i]")
        expected = outcome(function, arguments())
        assert same(expected, outcome(dj.compile(function), arguments()))


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("np.add(x, 0.5, out=k)", TypeError), ("np.add(x, 1, out=a)", ValueError),
        ("np.add(a, 1, out=x)", ValueError), ("np.concatenate((x, a))", ValueError),
        ("np.concatenate((a, a[:, 1:]))", ValueError), ("np.invert(x)", TypeError),
        ("np.power(k, -1)", ValueError), ("np.concatenate((a[:1], x[None, :3]))", ValueError),
    ],
)  # fmt: skip
def test_functions_refuse_what_numpy_refuses(line: str, error: type[Exception]) -> None:
    function = program("for i in range(n):", "    x[i:] += 1", f"    {line}")
    expected = outcome(function, arguments())
    assert issubclass(expected[0][0], error)
    assert same(expected, outcome(dj.compile(function), arguments()))


def test_arrays_of_two_turns_are_two() -> None:
    """A variable still holds what an earlier turn has made."""
    check(
        program(
            "old = np.zeros(n)",
            "older = np.zeros(n)",
            "for i in range(n):",
            "    new = x * i + old[0]",
            "    new[1] += older[2]",
            "    older = old",
            "    old = new",
            "    out[i, :5] = old - older",
            "    x[i] += 1.0",
        )
    )


def test_an_array_under_two_names_is_one() -> None:
    check(
        program(
            "for i in range(n):",
            "    t = x * i",
            "    u = t",
            "    u[1] = -5.0",
            "    t += 1",
            "    out[i, :5] = u",
            "    out[i, 5] = t[1]",
        )
    )


def test_rows_are_unpacked() -> None:
    check(
        program(
            "for i in range(n):",
            "    p, q, r, s = a[i] * 2",
            "    (u, v), w = (x[:2], a[:, 1])",
            "    out[i, 0] = p * q - r * s + u - v",
            "    w[i] += 1",
        )
    )
    function = program(
        "for i in range(n):", "    x[i] = 1.0", "    p, q = a[i]", "    x[i] = p + q"
    )
    expected = outcome(function, arguments())
    assert expected[0][0] is ValueError
    assert same(expected, outcome(dj.compile(function), arguments()))


def test_an_array_that_turns_make_may_be_left_to_a_function() -> None:
    def scaled(row, factor):
        row *= factor
        return row + 1

    def function(a, x):
        for i in range(len(a)):
            t = scaled(a[i], 2.0)
            for j in range(1, len(t)):
                x[i] += t[j] * t[j - 1]

    check(function, arguments()[:2])


def test_what_does_not_fit_a_dtype_leaves_plain_python_to_it() -> None:
    function = program("for i in range(n):", "    k[1:] = k[:-1] * 1.5", "    x[i] = k[-1]")
    expected = outcome(function, arguments())
    assert same(expected, outcome(dj.compile(function), arguments()))
    function = program("for i in range(n):", "    k *= 1.5", "    x[i] = k[-1]")
    with pytest.raises(TypeError, match="same_kind"):
        dj.compile(function)(*arguments())
