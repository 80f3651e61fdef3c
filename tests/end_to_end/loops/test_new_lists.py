"""Lists that programs over numbers make, and change the length of, against plain Python."""

import copy
import random
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import dynajit as dj
from dynajit.capture.entry import list_programs
from dynajit.capture.execution.nests.lists import IS_COMPENSATED
from tests.end_to_end.loops.test_lists import (
    check,
    check_refused,
    check_sizes,
    floats,
    ints,
    odd_arguments,
    program_of,
    rows,
    start,
)
from tests.support.list_programs import Programs


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is faster is not asked: all of it takes no time."""
    clock = SimpleNamespace(perf_counter=lambda: 0.0)
    monkeypatch.setattr(list_programs, "time", clock)


def primes(n: int) -> list[int]:
    is_prime, found = [True] * (n + 1), []
    for i in range(2, n + 1):
        if is_prime[i]:
            found.append(i)
            for j in range(i * i, n + 1, i):
                is_prime[j] = False
    return found


def grown(a: list[float], n: int) -> list[float]:
    for i in range(n):
        a.append(a[i] * 2)
    return a


def grown_and_not_returned(a: list[float], b: list[int]) -> int:
    for k in b:
        a.append(k / 2)
        if k % 3 == 0:
            a.pop()
    return len(a)


def shrunk(a: list[int]) -> tuple[int, list[int]]:
    total = 0
    while a:
        total += a.pop()
        if total > 1300:
            break
    return total, a


def visited(n: int) -> tuple[list[int], int]:
    stack, seen, order = [n], [False] * (n + 1), []
    while stack:
        at = stack.pop()
        if seen[at]:
            continue
        seen[at] = True
        order.append(at)
        if at > 1:
            stack.append(at // 2)
            stack.append(at - 1)
    return order, len(stack)


def product(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    n, m, p = len(a), len(b), len(b[0])
    c = [[0.0] * p for _ in range(n)]
    for i in range(n):
        for j in range(p):
            for k in range(m):
                c[i][j] += a[i][k] * b[k][j]
    return c


def product_at_once(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    return [
        [sum(a[i][k] * b[k][j] for k in range(len(b))) for j in range(len(b[0]))]
        for i in range(len(a))
    ]


def table(n: int) -> tuple[list[list[int]], int]:
    found, total = [], 0
    for i in range(n):
        row = []
        for j in range(n):
            row.append(i * j)
        found.append(row)
    for row in found:
        total += max(row) + sum(row) - min(row)
    return found, total


def two_names(n: int) -> tuple[Any, ...]:
    a: list[int] = []
    b, length = a, len(a)
    for i in range(n):
        a.append(i)
        b.append(-len(a))
    return a, b, len(a), length


def averages(a: list[float], width: int) -> list[float]:
    found = []
    for i in range(len(a) - width):
        total = 0.0
        for x in a[i : i + width]:
            total += x
        found.append(total / width + sum(a[i : i + 2]))
    return found


def parts(a: list[int], n: int) -> tuple[Any, ...]:
    b = a[:]
    b[0] = 7
    c = [x * n + i for i, x in enumerate(a[::-1]) if x > 3]
    return b, c, list(range(n)), b[2:-1], [], [1, 2, n], sum(x > 3 for x in a)


def grows_while_it_is_gone_over(a: list[int]) -> list[int]:
    for x in a:
        if len(a) < 150:
            a.append(x + 1)
    return a


def exchanged(n: int) -> list[float]:
    old, new = [0.5] * n, [0.0] * n
    for _ in range(n):
        for i in range(1, n - 1):
            new[i] = (old[i - 1] + old[i + 1]) / 2 + i
        old, new = new, old
    return old


def given_and_new(a: list[int], b: list[int]) -> tuple[Any, ...]:
    found = [x + y for x, y in zip(a, b)]  # noqa: B905
    for i in range(len(found)):
        a[i] = found[-1 - i]
    return a, len(found), b, found


def given_first(a: list[int], b: list[int]) -> tuple[list[int], int]:
    for i in range(len(b)):
        a[i] += b[i]
    return a, len(b)


PROGRAMS: list[tuple[Any, Callable[[int], tuple[Any, ...]]]] = [
    (primes, lambda n: (20 * n,)), (grown, lambda n: (floats(9 * n, 1), 9 * n)),
    (grown_and_not_returned, lambda n: (floats(3, n), ints(20 * n, 2))),
    (shrunk, lambda n: (ints(20 * n, n),)), (visited, lambda n: (30 * n,)),
    (product, lambda n: (rows(n, 1), rows(n, 2))), (table, lambda n: (2 * n,)),
    (product_at_once, lambda n: (rows(n, 1), rows(n, 2))), (two_names, lambda n: (20 * n,)),
    (averages, lambda n: (floats(20 * n, 1), n)), (parts, lambda n: (ints(20 * n, 1), n)),
    (given_and_new, lambda n: (ints(9 * n, 1), ints(9 * n, 2))),
    (given_first, lambda n: (ints(9 * n, 1), ints(9 * n, 2))),
    (grows_while_it_is_gone_over, lambda n: (ints(n, 1),)), (exchanged, lambda n: (5 * n,)),
]  # fmt: skip


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize(("function", "given"), PROGRAMS, ids=lambda item: item.__name__)
def test_numbers_are_those_of_plain_python(function: Any, given: Any, fullgraph: bool) -> None:
    check_sizes(function, given, fullgraph, (9, 9, 12, 7, 10, 8))


def test_a_list_under_two_names_is_one_list() -> None:
    first, second, *_ = start(two_names, 80)(80)
    assert first is second
    compiled = start(grown, floats(80, 1), 70)
    a = floats(80, 1)
    before = list(a)
    assert compiled(a, 70) is a and 150 == len(a)
    assert all(x is y for x, y in zip(a, before, strict=False))


def test_lists_within_a_new_list_are_several() -> None:
    found, _ = start(table, 30)(30)
    assert 30 == len({id(row) for row in found})


def test_an_error_leaves_what_python_leaves() -> None:
    def failing(a: list[int], n: int) -> list[int]:
        for i in range(n):
            a.append(a[i] // (60 - i))
        return a

    compiled = start(failing, ints(80, 1), 50)
    check_refused(compiled, failing, ints(80, 1), 70)

    def emptied(a: list[int], n: int) -> int:
        total = 0
        for _ in range(n):
            total += a.pop()
        return total

    compiled = start(emptied, ints(80, 1), 70)
    check_refused(compiled, emptied, ints(80, 1), 90)


def test_ints_beyond_64_bits_are_exact() -> None:
    def powers(n: int, base: int) -> list[int]:
        found = [1]
        for _ in range(n):
            found.append(found[-1] * base)
        return found

    compiled = start(powers, 70, 1)
    check_refused(compiled, powers, 70, 3)
    compiled = start(summed, ints(80, 1), 70)
    check_refused(compiled, summed, [1 << 62] * 80, 70)


def summed(a: list[Any], n: int) -> Any:
    found = 0
    for i in range(n):
        found = sum(a[i:])
    return found


@pytest.mark.parametrize("given", [[0.1] * 90, [-0.0] * 90, [1e308] * 90, [1e16, 1.0, -1e16] * 30])
def test_sums_of_floats_are_pythons(given: list[float]) -> None:
    compiled = start(summed, floats(90, 1), 70)
    before = program_of(compiled).ran
    check(compiled, summed, given, 70)
    check(compiled, summed, [*given[:80], float("inf"), *given[81:]], 70)
    assert before + 2 == program_of(compiled).ran
    assert IS_COMPENSATED is (sys.version_info >= (3, 12))


def test_of_nothing_python_has_ints_and_errors() -> None:
    compiled = start(summed, floats(90, 1), 70)
    check_refused(compiled, summed, floats(60, 1), 70)  # the last sums are of nothing: 0, no 0.0

    def largest(a: list[int], n: int) -> int:
        found = 0
        for i in range(n):
            found = max(a[i:])
        return found

    compiled = start(largest, ints(90, 1), 70)
    check_refused(compiled, largest, ints(60, 1), 70)


def test_rows_of_several_lengths_run_plainly() -> None:
    def ragged(n: int, more: int) -> list[list[int]]:
        return [[i * j for j in range(n + i * more)] for i in range(n)]

    compiled = start(ragged, 20, 0)
    check_refused(compiled, ragged, 20, 1)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    namespace: dict[str, Any] = {}
    exec(Programs(seed, is_growing=True).text(), namespace)
    function = namespace["program"]
    compiled, generator = dj.compile(function), random.Random(seed)
    for n in (5, 6, 4, 7, generator.choice([1, 2, 3])):
        check(compiled, function, *copy.deepcopy(odd_arguments(n, generator)))
