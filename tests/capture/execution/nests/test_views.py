"""Slices and indices in nests choose what NumPy's choose, share memory, raise what it raises."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.execution.nests import nest
from tests.end_to_end.loops.nests.test_nests import outcome, same

pytestmark = pytest.mark.one_python

SOURCE = np.random.default_rng(8)
MATRIX = SOURCE.random((5, 4))


def program(*lines: str) -> Callable[..., Any]:
    """A function whose body begins with `n, m = a.shape`."""
    text = "\n    ".join(["def function(a, x, k, out):", "n, m = a.shape", *lines])
    space: dict[str, Any] = {"np": np}
    exec(compile(text, "<program of a nest>", "exec"), space)
    return space["function"]  # type: ignore[no-any-return]


def arguments() -> tuple[Any, ...]:
    return MATRIX.copy(), np.arange(5.0), np.array([3, 1, 0, 2, 4]), np.zeros((5, 8))


def as_nest(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What a function gives, and what its arguments hold then, compiled as one nest."""
    made = []
    with pytest.MonkeyPatch.context() as patch:
        run = nest._Nest._run
        patch.setattr(nest._Nest, "_run", lambda *given: made.append(given[1]) or run(*given))
        found = outcome(dj.compile(function, fullgraph=True), args)
    assert len(set(map(id, made))) == 1
    return found


def check(function: Callable[..., Any], args: tuple[Any, ...] | None = None) -> None:
    """It is one nest, and does what it does plainly."""
    args = args or arguments()
    assert same(outcome(function, args), as_nest(function, args))


@pytest.mark.parametrize("step", [None, 2, -1, -3])
def test_bounds_of_slices_are_cut_as_those_of_lists(step: int | None) -> None:
    ends = np.array([*itertools.product(range(-8, 9), repeat=2)])
    text = f"x[ends[i, 0]:ends[i, 1]:{step}]"
    space: dict[str, Any] = {}
    lines = [
        "def function(x, ends, out):", "for i in range(len(ends)):", f"    row = {text}",
        "    out[i, 0] = len(row)", "    for j in range(len(row)):",
        "        out[i, j + 1] = row[j]",
    ]  # fmt: skip
    exec("\n    ".join(lines), space)
    for size in (0, 5):
        args = np.arange(1.0, size + 1), ends, np.zeros((len(ends), 7))
        check(space["function"], args)


@pytest.mark.parametrize("start", [None, 0, 1, -2, 7, -9])
@pytest.mark.parametrize("stop", [None, 3, -1, 9])
def test_bounds_that_are_known_are_cut(start: int | None, stop: int | None) -> None:
    lines = ["for i in range(n):"]
    for place, step in enumerate((None, 2, -1)):
        part = f"x[{start}:{stop}:{step}]"
        lines += [f"    out[i, {place}] = len({part}) + {part}.sum() * i"]
    check(program(*lines))


@pytest.mark.parametrize(
    "text",
    [
        "a[i]", "a[i, :]", "a[-1 - i]", "a[:, 2]", "a[i][1:]", "a[1:][k[0]]", "a[i, ::-1]",
        "a[..., 1]", "a.T[i % m]", "a[i][None][0]", "a[None, i, 1:][0]", "a[::-1][i]",
        "a[::2, 1][1:]", "a[i, ...]", "a[1:, 1:][i - 1]", "a[k[i]]", "a[1:3][:, i % m]",
        "a[::-2].T[1]", "a[()][i]", "a[i, k[4 - i]:]",
    ],
)  # fmt: skip
def test_parts_of_arrays_are_views(text: str) -> None:
    """What is written to a view is in the array."""
    check(
        program(
            "for i in range(n):",
            f"    row = {text}",
            "    for j in range(len(row)):",
            "        row[j] += i + 1",
            "        out[i, j] += a[j, i % m] + row[-1]",
        )
    )


def test_rows_of_arrays_in_another_order() -> None:
    function = program(
        "for i in range(n):", "    a[i, 1:] += a[i, :-1]", "    x[i] = a[:, 1].max()"
    )
    a, x, k, out = arguments()
    expected = outcome(function, (a.copy(), x, k, out))
    given = np.asfortranarray(a)
    assert same(expected[0], dj.compile(function, fullgraph=True)(given, x, k, out))
    np.testing.assert_array_equal(given, expected[1][0])


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("a[i + 1, 1:] = 0.0", IndexError), ("x[i] = a[i][i]", IndexError),
        ("a[i, :i] = x[:2]", ValueError), ("x[i] = np.dot(a[i], x)", ValueError),
        ("x[i] = x[i + 1:].max()", ValueError), ("x[i] = (a[i] + x[:i]).sum()", ValueError),
        ("x[k + i] = 0.0", IndexError), ("out[0, :5] = x[-i - k]", IndexError),
        ("a[i + 1, k[:0]] = 1", IndexError), ("x[k] = x[i:]", ValueError),
        ("a[k, k[:2]] = 0", IndexError), ("a[i, 1:] += x[:i]", ValueError),
        ("x[i] = np.argmin(x[:-i])", ValueError),
    ],
)  # fmt: skip
def test_what_raises_raises_with_what_plain_python_has_done_by_then(
    line: str, error: type[Exception]
) -> None:
    function = program("for i in range(n):", "    x[i] += 1.0", f"    {line}")
    expected = outcome(function, arguments())
    assert expected[0][0] is error
    assert same(expected, outcome(dj.compile(function), arguments()))


def test_steps_of_slices_may_be_of_the_turn() -> None:
    check(program("for i in range(1, n):", "    x[i::i] += i", "    out[i, 0] = len(a[:, ::i][0])"))
    function = program("for i in range(n):", "    x[:: i - 3] += i", "    x[i] += 0.5")
    expected = outcome(function, arguments())
    assert expected[0][0] is ValueError
    assert same(expected, outcome(dj.compile(function), arguments()))


def test_a_slice_with_a_step_of_zero_is_an_error() -> None:
    function = program("for i in range(n):", "    x[i] = x[::0].sum()")
    with pytest.raises(ValueError, match="zero"):
        dj.compile(function)(*arguments())


def test_sizes_that_vary_make_one_version() -> None:
    function = program(
        "for i in range(n):", "    x[i] += a[i, 1:].sum() - a[:, -1] @ x", "    for j in range(m):",
        "        a[i, j:] *= 0.5",
    )  # fmt: skip
    compiled = dj.compile(function, fullgraph=True)
    for n, m in ((5, 4), (6, 5), (7, 9), (12, 3), (4, 1)):
        args = SOURCE.random((n, m)), SOURCE.random(n), None, None
        expected, found = outcome(function, args), outcome(compiled, args)
        assert expected[0] == found[0] is None
        for given, changed in zip(expected[1][:2], found[1][:2], strict=True):
            np.testing.assert_allclose(given, changed, rtol=1e-12)
    assert compiled.report().graphs <= 3
