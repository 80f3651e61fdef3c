"""Programs over lists of complex numbers, which run as one loop nest, against plain Python."""

import cmath
import copy
import math
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import dynajit as dj
from dynajit.capture.entry import list_programs
from dynajit.capture.entry.cache import cache_of
from dynajit.capture.entry.list_programs import ListProgram
from dynajit.capture.execution.nests.lists import IS_COMPENSATED_OF_COMPLEX


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is faster is not asked: all of it takes no time."""
    clock = SimpleNamespace(perf_counter=lambda: 0.0)
    monkeypatch.setattr(list_programs, "time", clock)


def transformed(x: list[complex]) -> list[complex]:
    n, j, length = len(x), 0, 2
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j ^= bit
        if i < j:
            x[i], x[j] = x[j], x[i]
    while length <= n:
        turn = -2 * math.pi / length
        step = complex(math.cos(turn), math.sin(turn))
        for i in range(0, n, length):
            w = 1 + 0j
            for k in range(i, i + length // 2):
                u, v = x[k], x[k + length // 2] * w
                x[k], x[k + length // 2] = u + v, u - v
                w *= step
        length <<= 1
    return x


def spectrum(x: list[complex]) -> list[complex]:
    found = []
    for k in range(len(x)):
        total = 0j
        for t in range(len(x)):
            total += x[t] * cmath.exp(-2j * math.pi * k * t / len(x))
        found.append(total)
    return found


def roots(c: list[complex], turns: int) -> list[complex]:
    found, z = [0j] * (len(c) - 1), 1 + 0j
    for i in range(len(found)):
        found[i] = z
        z *= 0.4 + 0.9j
    for _ in range(turns):
        for i in range(len(found)):
            value, slope = 0j, 1 + 0j
            for a in c:
                value = value * found[i] + a
            for j in range(len(found)):
                if j != i:
                    slope *= found[i] - found[j]
            found[i] = found[i] - value / slope
    return found


def hadamard(state: list[complex], target: int) -> float:
    h, total = 1 / math.sqrt(2), 0.0
    for i in range(len(state)):
        if not i & (1 << target):
            j = i | (1 << target)
            a, b = state[i], state[j]
            state[i], state[j] = h * (a + b), h * (a - b)
    for a in state:
        total += abs(a) ** 2
    return total


def largest(x: list[complex]) -> complex:
    best = 0j
    for a in x:
        if abs(a) > abs(best):
            best = a
    return best


def product(a: list[list[complex]], b: list[list[complex]]) -> list[list[complex]]:
    c = [[0j] * len(b) for _ in range(len(a))]
    for i in range(len(a)):
        for j in range(len(b)):
            total = 0j
            for k in range(len(b)):
                total += a[i][k] * b[k][j]
            c[i][j] = total
    return c


def rows(n: int) -> list[list[complex]]:
    found = []
    for i in range(n):
        row = []
        for j in range(n):
            row.append(complex(i, -j))
        found.append(row)
        found[i][0] -= 2j
    return found


def parts(x: list[complex]) -> tuple[Any, ...]:
    y, w = x[1:-1], x.copy()
    y[0] = 1j
    y.append(2 + 0j)
    x[0] = y.pop() * y[-1]
    for i in range(200):
        w[i % len(w)] += x[i % len(x)].conjugate() * 0.5 - y[i % len(y)].imag
    return w, y, x[0].real, x[-1] == w[-1]


def grown(x: list[complex], n: int) -> None:
    for _ in range(n):
        x.append(x[-1] * (0.5 + 0.5j))
    x.pop()


def sums(x: list[complex]) -> list[complex]:
    return [sum([a * b for b in x]) for a in x]


def numbers(n: int, scale: float = 1.0) -> list[complex]:
    chosen = random.Random(n)
    return [complex(chosen.gauss(0, scale), chosen.gauss(0, scale)) for _ in range(n)]


SQUARE = [numbers(10, k + 1) for k in range(10)]
PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (transformed, (numbers(128),)),
    (spectrum, (numbers(80),)),
    (roots, ([1 + 0j, -3 + 0j, 3 + 0j, -5 + 0j], 40)),
    (hadamard, (numbers(128), 3)),
    (largest, (numbers(200),)),
    (product, (SQUARE, [row[::-1] for row in SQUARE])),
    (rows, (20,)),
    (parts, (numbers(30),)),
    (grown, ([1 + 1j], 100)),
]


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """What a call gives or raises, and the arguments after it, with all digits and signs."""
    given = copy.deepcopy(args)
    try:
        found = repr(function(*given))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    return f"{found} {given}"


def program_of(compiled: Any) -> ListProgram:
    """What runs the calls of a compiled function."""
    (entry,) = cache_of(compiled).entries(compiled)
    assert isinstance(entry.function, ListProgram)
    return entry.function


@pytest.mark.parametrize(("function", "args"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_programs_over_complex_numbers_are_one_nest(function: Any, args: Any) -> None:
    compiled = dj.compile(function)
    for _ in range(3):
        assert outcome(function, args) == outcome(compiled, args)
    assert program_of(compiled).ran == 2  # one call measures both ways


@pytest.mark.skipif(IS_COMPENSATED_OF_COMPLEX, reason="Python adds up what rounding leaves out")
def test_complex_numbers_are_added_up_from_zero_on() -> None:
    compiled = dj.compile(sums)
    for given in (numbers(80), [-0j] * 80, [complex(-0.0, 1e308)] * 80):
        assert outcome(sums, (given,)) == outcome(compiled, (given,))
    assert program_of(compiled).ran


def scaled(x: list[complex], by: complex) -> None:
    for i in range(len(x)):
        x[i] = x[i] * by - x[i - 1] / by


ODD = (0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan, 1e308, 5e-324)


def test_signs_of_zeros_infinities_and_nans_are_those_of_python() -> None:
    compiled = dj.compile(scaled)
    given = [complex(a, b) for a in ODD for b in ODD]
    for by in (1j, -1 + 0j, complex(0.0, -0.0), complex(math.inf, 1.0), 2.5 - 0.5j):
        for numbers_of in (given, given[:3] * 30):
            assert outcome(scaled, (numbers_of, by)) == outcome(compiled, (numbers_of, by))


def test_numbers_of_other_classes_run_plainly() -> None:
    compiled = dj.compile(largest)
    for given in (numbers(90), [*numbers(90), 2.0], [*numbers(90), True], numbers(80)):
        assert outcome(largest, (given,)) == outcome(compiled, (given,))


def test_numbers_that_do_not_change_stay_the_objects_that_they_are() -> None:
    def doubled(x: list[complex]) -> None:
        for i in range(0, len(x), 2):
            x[i] *= 2

    compiled, given = dj.compile(doubled), numbers(100)
    for _ in range(2):
        compiled(numbers(100))
    before = list(given)
    compiled(given)
    assert program_of(compiled).ran == 2
    assert [a is b for a, b in zip(before, given, strict=True)] == [False, True] * 50
