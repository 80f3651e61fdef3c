"""Elements side by side that are read under a condition each have the values that Python gives."""

import linecache
import random
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.c.masked_groups import BARRIER, Elements, barred, guarded, has_choices
from dynajit.core.types.dtypes import float64, int64
from dynajit.ir.nests import Register, Step

pytestmark = pytest.mark.one_python

ROWS = 64
DTYPES = (np.float64, np.float32, np.int64, np.int32, np.int16, np.uint8)


def arms(column: int, other: int, limit: int, value: int, count: int) -> list[str]:
    return [
        f"if m[i, {column}] > {limit}:",
        f"    b[i, {column}] = {value}",
        "else:",
        f"    b[i, {column}] = a[i, {other}]",
    ]


def one_condition(column: int, other: int, limit: int, value: int, count: int) -> list[str]:
    return [f"b[i, {column}] = a[i, {other}] if m[i, 0] > {limit} else {value}"]


def flat(column: int, other: int, limit: int, value: int, count: int) -> list[str]:
    return [
        f"if fm[{count} * i + {column}] > {limit}:",
        f"    fb[{count} * i + {column}] = fa[{count} * i + {other}]",
        "else:",
        f"    fb[{count} * i + {column}] = {value}",
    ]


def inner_loop(column: int, other: int, limit: int, value: int, count: int) -> list[str]:
    if column:
        return []
    return [
        f"for c in range({count}):",
        "    if m[i, c] > limits[c]:",
        "        b[i, c] = a[i, c]",
        "    else:",
        "        b[i, c] = c",
    ]


def program(form: Any, seed: int) -> tuple[Any, int]:
    """A random loop of a form over rows, and how many columns it has."""
    chosen = random.Random(seed)
    count = chosen.choice([2, 3, 4, 5, 8])
    lines = []
    for column in chosen.sample(range(count), count):
        other, limit, value = chosen.randrange(count), chosen.randrange(8), chosen.randrange(30)
        lines += form(column, other, limit, value, count)
    text = "def f(a, m, b, fa, fm, fb, limits):\n    for i in range(len(a)):\n"
    text += "".join(f"        {line}\n" for line in lines) + "    return b, fb\n"
    name = f"<masked {form.__name__} {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)
    return scope["f"], count


@pytest.mark.parametrize("form", [arms, one_condition, flat, inner_loop])
def test_columns_under_conditions_have_the_values_of_python(form):
    for seed in range(12):
        function, count = program(form, seed)
        dtype = DTYPES[seed % len(DTYPES)]
        numbers = np.random.default_rng(seed)
        a = numbers.integers(0, 100, (ROWS, count)).astype(dtype)
        m = numbers.integers(0, 8, (ROWS, count)).astype(dtype)
        limits = numbers.integers(0, 8, count)
        results = []
        for called in (function, dj.compile(function, fullgraph=True)):
            b, fb = np.zeros_like(a), np.zeros(a.size, dtype)
            results.append(called(a, m, b, a.ravel(), m.ravel(), fb, limits))
        for expected, actual in zip(*results, strict=True):
            np.testing.assert_array_equal(expected, actual, f"seed {seed}")


def test_elements_written_one_by_one_have_their_values():
    values = np.random.default_rng(4).integers(0, 30, (8, 8))
    values[:4] = 1
    values[4, 6:], values[5, :3] = values[4, 0], values[4, 1]

    def written(x, rows):
        out = dj.zeros(8, 8, dtype=dj.int16) + x
        for i in range(rows):
            for j in range(8):
                out[i, j] = int(values[i, j])
        return out

    x = dj.zeros((), dtype=dj.int16)
    for rows in (5, 7, 8):
        assert written(x, rows).tolist() == dj.compile(written)(x, rows).tolist()


LINES = [
    "for (int64_t row = 0; row < 800; row++) {",
    "    const int64_t i0 = row;",
    "    {",
    "        for (int64_t i1 = 0; i1 < 1; i1++) {",
    "            const float t1 = t0 ? 1 : (b4_x[(i0*8)]);",
    "            b5_y[(i0*8 + i1)] = t1;",
    "        }",
    "    }",
    "    for (int64_t i1 = 1; i1 < 2; i1++) {",
    "        float t2;",
    "        if (t0) {",
    "            t2 = 1;",
    "        } else {",
    "            t2 = b4_x[(i0*8 + 1)];",
    "        }",
    "        b5_y[(i0*8 + i1)] = t2;",
    "    }",
    "}",
]


def test_a_loop_has_a_barrier_where_a_turn_reads_two_elements_by_conditions():
    assert [LINES[0], f"    {BARRIER}", *LINES[1:]] == guarded(LINES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("t2 = b4_x[(i0*8 + 1)];", "t2 = 2;"),  # one read
        ("b4_x[(i0*8 + 1)]", "b4_x[(i0*8)]"),  # of one element
        ("(i0*8", "(i0"),  # of turns beside each other
        ("b4_x[(i0*8 + 1)]", "b6_z[(i0*8 + 1)]"),  # of two arrays
    ],
)
def test_other_loops_stay_as_they_are(old, new):
    lines = [line.replace(old, new) for line in LINES]
    assert lines == guarded(lines)


def test_short_loops_with_choices_are_not_unrolled():
    lines = ["for (int64_t i1 = 3; i1 < 6; i1++) {", "    b1[i1] = t0 ? 1 : t1;", "}"]
    assert ["#pragma GCC unroll 1", *lines] == guarded(lines)
    told = ["#pragma omp simd", *lines]
    assert told == guarded(told)


I, J, K, TRUE = (Register(name, int64) for name in "ijkt")


def of_a_loop(*reads: Step) -> list[list[Step]]:
    """A loop over `i`, by steps of 1, that reads under a condition."""
    return [
        [Step("set", I, (0,), int64), Step("goto", name=1)],
        [Step("lt", TRUE, (I, 9), int64), Step("branch", None, (TRUE,), name=(2, 5))],
        [Step("branch", None, (TRUE,), name=(3, 4))],
        [*reads, Step("goto", name=4)],
        [Step("add", J, (I, 1), int64), Step("set", I, (J,), int64), Step("goto", name=1)],
        [Step("leave")],
    ]


ARRAYS = {0: Elements("a", (8, 1)), 1: Elements("b", (1,)), 2: Elements("c", (3,))}


@pytest.mark.parametrize(
    ("first", "second", "is_barred"),
    [
        ((0, (I, 0)), (0, (I, 1)), True),  # far apart in turns
        ((0, (K, I)), (0, (K, J)), False),  # side by side in turns
        ((0, (I, 0)), (1, (I,)), False),  # of two arrays
        ((2, (I,)), (2, (J,)), True),  # by a stride
        ((1, (I,)), (1, (J,)), False),
        ((0, (K, 1)), (0, (K, 2)), False),  # the same in each turn
        ((0, (I, I)), (0, (I, 0)), True),
    ],
)
def test_a_nest_has_a_barrier_where_reads_are_far_apart_in_turns(first, second, is_barred):
    reads = [
        Step("load", Register(f"x{n}", int64), operands, None, slot)
        for n, (slot, operands) in enumerate((first, second))
    ]
    assert is_barred == (frozenset({1}) == barred(of_a_loop(*reads), ARRAYS))
    assert not barred(of_a_loop(reads[0]), ARRAYS)


def test_turns_choose_between_reads_of_one_array() -> None:
    x, y, t = (Register(name, float64) for name in "xyt")
    load, other = Step("load", x, (0,), slot=0), Step("load", y, (1,), slot=0)
    choice = Step("select", x, (t, x, y), float64)
    assert has_choices((load, other, choice))
    assert not has_choices((load, other))
    assert not has_choices((load, choice))
