"""Numbers of Python's that a graph computes are Python's own behind it, whatever is done then."""

import linecache
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.nests.test_nests import loops_of

pytestmark = pytest.mark.one_python

X = np.array([0.1, 0.9, 0.2, 0.7, 0.8, 0.55, 0.6, 0.3] * 4)

SOURCE = """\
def program(x):
    count, where, big = 0, -1, 0.5
    for i in range(len(x)):
        if x[i] > 0.5:
            count += 1
            where = i
            big = float(x[i])
    return {use}
"""

ONE_GRAPH = (
    "count", "(count, where, big)", "(count, [where], {'k': big})", "type(count) is int",
    "isinstance(count, int)", "isinstance(big, np.floating)", "count is None",
    "(lambda q: q)(count)", "count ^ 255", "count & 6 | 1", "~where",
    "count // -3", "count % -7", "-where % 5", "count / 3", "count * 0.3",
    "1.5 - count", "(count ^ 3) / 7 + where", "(where | 1) * 2",
)  # fmt: skip
BREAK = (
    "count + 1", "1 + count", "2 ** count", "count if count > 2 else where", "f'{count} {big}'",
    "list(range(count))", "x[count]", "x[:count]", "[0] * count", "{count: 1}[20]",
    "max(count, 3)", "max(3, where)", "np.zeros(count).shape", "sum([count, 1])", "str(big)",
    "int(big)", "float(count)", "count == 20", "20 == count", "3 < count", "-count", "abs(where)",
    "math.sqrt(count)", "divmod(count, 2)", "bool(count)", "not count", "x * count", "count * x",
    "x[0] + count", "count in (1, 20)", "count in [20]", "sorted([count, where])",
    "np.float64(big)", "np.array([count, where])", "hash(count)", "round(big, 1)",
    "big.is_integer()", "count.real", "np.sqrt(big)", "'%d' % count", "set([count, 20]) == {20}",
    "count & True", "count >> 1", "count / where", "count // where", "count % where",
    "count % 2.5", "count * count * count / 3", "count == 20.0", "big // 2",
    "x.sum() if count else x", "any([count])", "np.minimum(x, big)",
    "dj.tensor(count) + 1", "[v for v in range(3) if v < count]", "count == where", "count < big",
)  # fmt: skip


def program(use: str) -> Callable[[Any], Any]:
    text, name = SOURCE.format(use=use), f"<{use}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"np": np, "dj": dj, "math": math}
    exec(compile(text, name, "exec"), names)
    found: Callable[[Any], Any] = names["program"]
    return found


@pytest.mark.parametrize("use", ONE_GRAPH)
def test_they_are_returned_and_kept(use: str) -> None:
    function = program(use)
    compiled = dj.compile(function, fullgraph=True)
    for _ in range(2):
        found = compiled(X)
        assert repr(found) == repr(function(X)) and type(found) is type(function(X))


@pytest.mark.parametrize("use", BREAK)
def test_what_is_computed_with_them_is_pythons(use: str) -> None:
    function = program(use)
    compiled = dj.compile(function)
    for _ in range(2):
        found = compiled(X)
        assert repr(found) == repr(function(X)) and type(found) is type(function(X))


@pytest.mark.parametrize("use", ["count / 0", "count // 0", "count % 0", "count / (where - where)"])
def test_divisions_by_zero_are_pythons(use: str) -> None:
    with pytest.raises(ZeroDivisionError) as expected:
        program(use)(X)
    with pytest.raises(ZeroDivisionError) as found:
        dj.compile(program(use))(X)
    assert str(expected.value) == str(found.value)


def test_a_quotient_of_large_ints_is_rounded_once() -> None:
    def divided(x):
        k = 0
        while x.sum() < 5:
            x = x + 1
            k += 123456789012345677
        return k / 3

    assert dj.compile(divided)(dj.zeros(1)) == divided(dj.zeros(1))


def test_another_loop_over_elements_takes_them() -> None:
    def chain(x):
        count = 0
        for i in range(len(x)):
            if x[i] > 0.5:
                count += 1
        s = x[0]
        for i in range(len(x)):
            s += x[i] * count
            if i > count:
                s -= 1
        return s, count

    assert dj.compile(chain, fullgraph=True)(X) == chain(X)


def closest(x):
    best, least = (0, 0), 1e9
    for i in range(len(x)):
        for j in range(i):
            if abs(x[i] - x[j]) < least:
                least, best = abs(x[i] - x[j]), (i, j)
    return x[best[0]] + x[best[1]], best, least


def of_sums(x):
    both = (0.0, 1)
    for i in range(len(x)):
        both = (both[0] + x[i], i)
    return x * 2, both, both[0] * 2


def in_tuples(x):
    inner = ((0, 1.5), 2)
    for i in range(len(x)):
        x[i] += 1
        if x[i] > 1.5:
            inner = ((i, x[i]), inner[1] + 1)
    return x, inner


def from_none(x):
    best = None
    for i in range(len(x)):
        if best is None or x[i] > best[1]:
            best = (i, x[i])
    return best, x * 2


def handed_on(x):
    now = before = (1, 2.0)
    for i in range(len(x)):
        before = now
        now = (i, x[i])
        x[i] += before[0]
    return now, before, x * 2


@pytest.mark.parametrize("function", [closest, of_sums, in_tuples, from_none, handed_on])
def test_tuples_of_numbers_are_left_behind(function: Callable[[Any], Any]) -> None:
    compiled = dj.compile(function, fullgraph=True)
    for size in (32, 20, 32):
        assert repr(function(X[:size].copy())) == repr(compiled(X[:size].copy()))
    assert loops_of(function, X.copy()) == 1
