"""Programs over lists of Python's numbers, which run as one loop nest, against plain Python."""

import copy
import math
import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import dynajit as dj
from dynajit.capture.entry import list_programs
from dynajit.capture.entry.cache import cache_of
from dynajit.capture.entry.list_programs import ListProgram
from dynajit.capture.execution.nests.operators import MATHEMATICS
from dynajit.core.errors import GraphBreakError
from tests.support.list_programs import Programs


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is faster is not asked: all of it takes no time."""
    clock = SimpleNamespace(perf_counter=lambda: 0.0)
    monkeypatch.setattr(list_programs, "time", clock)


def flat_product(n: int, alpha: float, a: list[float], b: list[float], c: list[float]) -> None:
    for i in range(n):
        for k in range(n):
            for j in range(n):
                c[i * n + j] += alpha * a[i * n + k] * b[k * n + j]


def relaxed(turns: int, a: list[list[float]]) -> list[list[float]]:
    n = len(a)
    for _ in range(turns):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                a[i][j] = (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1] + a[i][j]) / 5
    return a


def shortest_paths(d: list[list[float]]) -> list[list[float]]:
    for k in range(len(d)):
        row = d[k]
        for i in range(len(d)):
            for j, known in enumerate(row):
                if d[i][k] + known < d[i][j]:
                    d[i][j] = d[i][k] + known
    return d


def bubble_sort(a: list[int]) -> list[int]:
    for i in range(len(a)):
        for j in range(len(a) - 1 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a


def knapsack(weights: list[int], values: list[int], most: int) -> int:
    best = [0] * (most + 1)
    for i, weight in enumerate(weights):
        for room in range(most, weight - 1, -1):
            best[room] = max(best[room], best[room - weight] + values[i])
    return best[most]


def reached(edges: list[list[bool]], start: int) -> int:
    """The first places that a walk comes to; bools are read, written and counted."""
    seen, queue = [False] * len(edges), [0] * len(edges)
    seen[start], queue[0], head, tail = True, start, 0, 1
    while head < tail:
        at = queue[head]
        head += 1
        for other, is_edge in enumerate(edges[at]):
            if is_edge and not seen[other]:
                seen[other] = True
                queue[tail] = other
                tail += 1
    return tail


def mixed_results(a: list[float], b: list[int]) -> tuple[Any, ...]:
    total, count = 0.0, 0
    for x, k in zip(a, b):  # noqa: B905
        total += x * k
        count += k % 3
        a[k % len(a)] = x / 2
    return total, count, a, count > 4


def collatz(n: int) -> tuple[int, int]:
    longest, most = 1, 0
    for i in range(1, n):
        number, steps = i, 0
        while number != 1:
            number = number // 2 if number % 2 == 0 else 3 * number + 1
            steps += 1
        if steps > most:
            longest, most = i, steps
    return longest, most


def floats(count: int, seed: int) -> list[float]:
    generator = random.Random(seed)
    return [generator.uniform(-2, 2) for _ in range(count)]


def ints(count: int, seed: int, most: int = 20) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(1, most) for _ in range(count)]


def rows(n: int, seed: int) -> list[list[float]]:
    return [floats(n, seed + i) for i in range(n)]


def edges(n: int) -> list[list[bool]]:
    return [[k % 5 == 0 for k in ints(n, i)] for i in range(n)]


PROGRAMS: list[tuple[Any, Callable[[int], tuple[Any, ...]]]] = [
    (flat_product, lambda n: (n, 0.5, floats(n * n, 1), floats(n * n, 2), floats(n * n, 3))),
    (relaxed, lambda n: (3, rows(n, 1))),
    (shortest_paths, lambda n: ([[abs(x) for x in row] for row in rows(n, 1)],)),
    (bubble_sort, lambda n: (ints(4 * n, 1),)),
    (knapsack, lambda n: (ints(n, 1), ints(n, 2, 99), 40)),
    (reached, lambda n: (edges(n), 0)),
    (mixed_results, lambda n: (floats(20 * n, 1), ints(20 * n, 2))),
    (collatz, lambda n: (20 + n,)),
]


def outcome(function: Any, args: tuple[Any, ...]) -> Any:
    """What a call gives or raises, which of its lists it gives, and what these hold then."""
    try:
        result = function(*args)
    except Exception as error:
        return type(error), str(error), repr(args)
    items = result if isinstance(result, tuple) else (result,)
    given = [[item is arg for arg in args] for item in items if type(item) is list]
    return repr(result), given, repr(args)


def program_of(compiled: Any) -> ListProgram:
    """What runs the calls of a compiled function."""
    (entry,) = cache_of(compiled).entries(compiled)
    assert isinstance(entry.function, ListProgram)
    return entry.function


def check(compiled: Any, function: Any, *args: Any) -> None:
    """A call gives, raises and leaves what plain Python does."""
    other = copy.deepcopy(args)
    assert outcome(function, args) == outcome(compiled, other)


def check_sizes(function: Any, given: Any, fullgraph: bool, sizes: Sequence[int]) -> None:
    """Calls with arguments of several sizes, all of which a nest serves, but for the one that is
    timed and plain."""
    compiled = dj.compile(function, fullgraph=fullgraph)
    for n in sizes:
        check(compiled, function, *given(n))
    program = program_of(compiled)
    assert (0, len(sizes) - 2) == (program.refused, program.ran - 1)


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize(("function", "given"), PROGRAMS, ids=lambda item: item.__name__)
def test_numbers_are_those_of_plain_python(function: Any, given: Any, fullgraph: bool) -> None:
    check_sizes(function, given, fullgraph, (9, 9, 12, 7, 10, 6))


def start(function: Any, *args: Any) -> Any:
    """A compiled function that has served three calls by a nest."""
    compiled = dj.compile(function)
    for _ in range(3):
        check(compiled, function, *copy.deepcopy(args))
    assert 2 == program_of(compiled).ran
    return compiled


def check_refused(compiled: Any, function: Any, *args: Any) -> None:
    """The same of a call that no nest serves."""
    before = program_of(compiled).ran
    check(compiled, function, *args)
    assert before == program_of(compiled).ran


class Numbers(list[Any]):
    """No list of Python's own."""


def squares(n: int, a: list[Any], b: list[Any]) -> list[Any]:
    for i in range(n):
        b[i] = a[i] * a[i]
    return b


ODD_LISTS: list[Any] = [
    lambda a: [*a[:-1], 1.5], lambda a: [*a[:-1], True], lambda a: [*a[:-1], None],
    lambda a: [2**63, *a[1:]], lambda a: Numbers(a), lambda a: tuple(a), lambda a: [],
    lambda a: [3.5 for _ in a], lambda a: a[:-1], lambda a: [[k] for k in a],
]  # fmt: skip


@pytest.mark.parametrize("change", ODD_LISTS)
def test_other_lists_run_plainly(change: Any) -> None:
    compiled = start(squares, 70, ints(70, 1), ints(70, 2))
    odd = change(ints(70, 3))
    other = copy.deepcopy(odd)
    assert outcome(squares, (70, odd, ints(70, 2))) == outcome(compiled, (70, other, ints(70, 2)))
    assert outcome(squares, (70, ints(70, 2), odd)) == outcome(compiled, (70, ints(70, 2), other))
    entry = cache_of(compiled).entries(compiled)[-1]
    assert 2 == entry.function.ran


def appended(n: int, a: list[Any]) -> list[Any]:
    for i in range(n):
        a.append(a[i] * 2)
    return a


def told(n: int, a: list[Any]) -> list[Any]:
    for i in range(n):
        a[i % 3] = a[0] + i
    dj.graph_break()
    return a


def test_where_no_break_is_allowed_other_programs_are_captured() -> None:
    compiled = dj.compile(appended, fullgraph=True)
    for a in ([1.5, 2.5], [3, 4], [True]):
        check(compiled, appended, 100, a)
    with pytest.raises(GraphBreakError):
        dj.compile(told, fullgraph=True)(100, [1.0, 2.0, 3.0])
    check(dj.compile(told), told, 100, [1.0, 2.0, 3.0])


def test_ints_beyond_64_bits_are_exact() -> None:
    compiled = start(squares, 70, ints(70, 1), ints(70, 2))
    check_refused(compiled, squares, 70, [3_037_000_500] * 70, ints(70, 2))
    check_refused(compiled, squares, 70, [1 << 62] * 70, ints(70, 2))
    before = program_of(compiled).ran
    check(compiled, squares, 70, [3_037_000_499] * 70, ints(70, 2))
    check(compiled, squares, 70, [-3_037_000_499] * 70, ints(70, 2))
    assert before + 2 == program_of(compiled).ran


def test_a_result_beyond_what_graphs_compute_with_is_an_int() -> None:
    def product(n: int, a: list[int]) -> int:
        found = 1
        for i in range(n):
            found = found * a[i] % 10_000_000_000_037
        return found

    compiled = start(product, 70, ints(70, 1))
    before = program_of(compiled).ran
    check(compiled, product, 70, [2] * 63 + [1] * 7)
    assert before + 1 == program_of(compiled).ran
    check_refused(compiled, product, 70, [1 << 40] * 70)
    check_refused(compiled, product, 1 << 70, ints(70, 1))


def test_an_error_leaves_what_python_leaves() -> None:
    compiled = start(squares, 70, ints(70, 1), ints(70, 2))
    check_refused(compiled, squares, 71, ints(70, 1), ints(70, 2))

    def quotients(a: list[float], b: list[float]) -> None:
        for i in range(len(a)):
            a[i] = a[i] / b[i]

    compiled = start(quotients, floats(70, 1), floats(70, 2))
    check_refused(compiled, quotients, floats(70, 1), [*floats(68, 2), 0.0, 1.0])


def test_one_list_in_two_places_runs_plainly() -> None:
    compiled = start(squares, 70, ints(70, 1), ints(70, 2))
    a = ints(70, 1)
    before = program_of(compiled).ran
    assert squares(70, *[list(a)] * 2) == compiled(70, a, a) == a
    compiled_rows = start(relaxed, 2, rows(12, 1))
    row = floats(12, 1)
    check_refused(compiled_rows, relaxed, 2, [row] * 12)
    check_refused(compiled_rows, relaxed, 2, [*rows(11, 1), row[:-1]])
    assert before == program_of(compiled).ran


def test_numbers_that_do_not_change_stay_the_objects_that_they_are() -> None:
    def halved(a: list[float]) -> None:
        for i in range(0, len(a), 2):
            a[i] = a[i] / 2

    compiled = start(halved, floats(200, 1))
    a = [*floats(199, 2), math.nan]
    before = list(a)
    compiled(a)
    assert all(x is y for x, y in zip(a[1::2], before[1::2], strict=True))
    assert [x / 2 for x in before[::2]] == a[::2]


def test_zeros_have_signs() -> None:
    def negated(a: list[float]) -> list[float]:
        for i in range(len(a)):
            a[i] = -a[i]
        return a

    compiled = start(negated, floats(80, 1))
    check(compiled, negated, [0.0, -0.0] * 40)
    assert program_of(compiled).ran > 2


def changes_class(a: list[int]) -> list[int]:
    for i in range(len(a)):
        a[i] = a[i] / 2  # type: ignore[call-overload]
    return a


def moves_rows(a: list[list[float]]) -> list[list[float]]:
    for i in range(len(a) - 1):
        for _ in range(10):
            a[i], a[i + 1] = a[i + 1], a[i]
    return a


def adds_lists(a: list[float]) -> list[float]:
    found = a
    for _ in range(70):
        found = found + a
    return found


def compares_lists(a: list[float], b: list[float]) -> int:
    count = 0
    for _ in range(70):
        count += a == b
    return count


def slice_of_rows(a: list[list[float]]) -> list[list[float]]:
    for i in range(70):
        for row in a[1:]:
            row[0] += i
    return a[1:]


def row_in_two_places(n: int) -> list[list[int]]:
    rows, row = [], [0]
    for i in range(n):
        rows.append(row)
        row[0] += i
    return rows


def mixed_numbers(n: int) -> list[float]:
    found = []
    for i in range(n):
        found.append(i / 2 if i % 2 else i)
    return found


def rows_that_grow(n: int) -> list[list[int]]:
    rows = [[0] for _ in range(n)]
    for i in range(n):
        rows[i // 2].append(i)
    return rows


def kept_function(n: int) -> int:
    total = 0

    def add(x: int) -> int:
        return x + total

    for i in range(n):
        total = add(i)
    return total


PLAIN: list[tuple[Any, Any]] = [
    (changes_class, lambda: (ints(80, 1),)), (moves_rows, lambda: (rows(12, 1),)),
    (adds_lists, lambda: (floats(5, 1),)), (slice_of_rows, lambda: (rows(12, 1),)),
    (compares_lists, lambda: (floats(5, 1), floats(5, 1))), (row_in_two_places, lambda: (90,)),
    (mixed_numbers, lambda: (90,)), (rows_that_grow, lambda: (90,)), (kept_function, lambda: (90,)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "given"), PLAIN, ids=lambda item: item.__name__)
def test_what_else_lists_can_do_is_left_to_python(function: Any, given: Any) -> None:
    compiled = dj.compile(function)
    for _ in range(3):
        check(compiled, function, *given())
    (entry,) = cache_of(compiled).entries(compiled)
    assert not isinstance(entry.function, ListProgram)


def test_calls_by_name_and_with_defaults_are_plain_ones() -> None:
    def scaled(a: list[float], by: float = 2.0) -> list[float]:
        for i in range(len(a)):
            a[i] *= by
        return a

    compiled = dj.compile(scaled)
    for _ in range(3):
        assert scaled(floats(80, 1), by=3.0) == compiled(floats(80, 1), by=3.0)
        assert scaled(floats(80, 1)) == compiled(floats(80, 1))
        assert scaled(by=3.0, a=floats(80, 1)) == compiled(by=3.0, a=floats(80, 1))


def test_no_frame_of_the_compiler_stands_in_a_traceback() -> None:
    compiled = start(squares, 70, ints(70, 1), ints(70, 2))
    with pytest.raises(IndexError) as caught:
        compiled(71, ints(70, 1), ints(70, 2))
    assert "squares" == caught.traceback[-1].name and 2 == len(caught.traceback)


def test_what_is_slower_than_plain_python_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long list is read for a few numbers of it."""
    seconds = iter([0.0, 0.0, 0.0, 0.1, 0.5, 1.0, 1.2])
    compiled = dj.compile(squares)
    check(compiled, squares, 70, ints(70, 1), ints(70, 2))
    clock = SimpleNamespace(perf_counter=lambda: next(seconds))
    monkeypatch.setattr(list_programs, "time", clock)
    for _ in range(2):
        check(compiled, squares, 70, ints(90, 1), ints(90, 2))
    ran = program_of(compiled).ran
    for n in (90, 80, 200):
        check(compiled, squares, 70, ints(n, 1), ints(n, 2))
    assert ran == program_of(compiled).ran


def test_what_is_slower_of_few_items_is_asked_again_of_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = dj.compile(squares)
    for n in (70, 80):
        check(compiled, squares, n, ints(n, 1), ints(n, 2))
    few, many = [0.0, 0.0, 3.0, 4.0, 5.0], [0.0, 0.0, 1.0, 4.0, 9.0]
    seconds = iter([*few, *many])
    clock = SimpleNamespace(perf_counter=lambda: next(seconds, 9.0))
    monkeypatch.setattr(list_programs, "time", clock)
    ran = program_of(compiled).ran
    for n in (80, 70, 8, 300):
        check(compiled, squares, n, ints(n, 1), ints(n, 2))
    assert ran == program_of(compiled).ran
    for n in (400, 400, 390):
        check(compiled, squares, n, ints(n, 1), ints(n, 2))
    assert ran + 2 == program_of(compiled).ran


@pytest.mark.parametrize("first", [0, 1, 4])
def test_a_first_call_of_few_turns_says_nothing_of_many(first: int) -> None:
    compiled = dj.compile(bubble_sort)
    for n in (first, 80, first, 90, 95):
        check(compiled, bubble_sort, ints(n, n))
    entries = cache_of(compiled).entries(compiled)
    (program,) = [e.function for e in entries if isinstance(e.function, ListProgram)]
    assert program.ran


def test_of_short_lists_plain_python_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the time for 180 items is what plain Python takes for 18."""
    compiled = dj.compile(squares)
    for n in (70, 90):
        check(compiled, squares, n, ints(n, 1), ints(n, 2))
    seconds = iter([0.0, 0.0, 1.0, 1.0, 11.0])
    clock = SimpleNamespace(perf_counter=lambda: next(seconds, 11.0))
    monkeypatch.setattr(list_programs, "time", clock)
    check(compiled, squares, 90, ints(90, 1), ints(90, 2))
    ran = program_of(compiled).ran
    check(compiled, squares, 8, ints(8, 1), ints(8, 2))
    assert ran == program_of(compiled).ran
    check(compiled, squares, 10, ints(10, 1), ints(10, 2))
    assert ran + 1 == program_of(compiled).ran


def test_calls_that_are_refused_again_and_again_are_left_to_python() -> None:
    compiled = start(squares, 70, ints(70, 1), ints(70, 2))
    for _ in range(4 * 3 + 2):
        check(compiled, squares, 71, ints(70, 1), ints(70, 2))
    assert program_of(compiled).is_given_up


@pytest.mark.parametrize("name", [*sorted(MATHEMATICS), "** 2", "** 3", "** 7", "** 0.37"])
def test_functions_of_floats_have_the_bits_of_pythons(name: str) -> None:
    """They are those of the C library, as `math`'s are; a vector's have others."""
    operand = "(1 + a[i])" if name == "acosh" else "a[i]"
    given = ", ".join([operand] * (MATHEMATICS[name].arity if name in MATHEMATICS else 1))
    value = f"{operand} {name}" if "*" in name else f"math.{name}({given})"
    text = f"def program(n, a, b):\n    for i in range(n):\n        b[i] = {value}\n    return b\n"
    namespace: dict[str, Any] = {"math": math}
    exec(text, namespace)
    compiled, program = dj.compile(namespace["program"]), namespace["program"]
    for n in (200, 230, 210):
        a = [random.Random(n).uniform(0.01, 0.99) for _ in range(n)]
        result = program(n, a, [0.0] * n)
        b = [type(result[0])()] * n  # of bools and ints, too
        check(compiled, program, n, a, b)
    assert program_of(compiled).ran


def odd_arguments(n: int, generator: random.Random) -> tuple[Any, ...]:
    """Arguments of a random program, of which some are no lists of numbers of one class."""
    most = 1 << generator.choice([3, 3, 62])
    a, m = floats(n, n), rows(n, n)
    b = [generator.randrange(-most, most) for _ in range(n)]
    c = [generator.random() < 0.5 for _ in range(n)]
    if n and generator.random() < 0.3:
        generator.choice([a, b, c, m[0]])[-1] = generator.choice([1, 1.5, True, math.nan, 1 << 70])
    if n and generator.random() < 0.1:
        m[-1] = generator.choice([m[0], a, m[0][1:]])
    return n, a, b, c, m, generator.choice([1.5, 0.0, -2.0])


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed: int) -> None:
    namespace: dict[str, Any] = {}
    exec(Programs(seed).text(), namespace)
    function = namespace["program"]
    compiled, generator = dj.compile(function), random.Random(seed)
    for n in (5, 6, 4, 7, generator.choice([0, 1, 2, 3])):
        check(compiled, function, *odd_arguments(n, generator))


def descent() -> tuple[bool, float, float]:
    x, rate = 10.0, 0.005
    for _ in range(20000):
        energy, slope = 50 * (x - 0.95) ** 2, 100 * (x - 0.95)
        if abs(slope) > 0.01:
            x = x - rate * slope
    return abs(slope) > 0.01, energy, x


def last_of(n: int) -> int:
    for i in range(n):
        last = i * 3 % 7
    return last


def test_a_program_without_arguments_is_a_nest() -> None:
    assert program_of(start(descent)).ran


def test_a_variable_that_only_turns_set_is_read_behind_them() -> None:
    compiled = start(last_of, 200)
    check(compiled, last_of, 90)
    with pytest.raises(UnboundLocalError):
        compiled(0)
