"""Programs in which no tensor can turn up run as plain Python, and are captured when one can."""

import math
import random
from collections import deque
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest
from numpy import array

import dynajit as dj
from dynajit.capture.entry.cache import cache_of
from dynajit.capture.entry.session import MSG_NEST
from dynajit.capture.execution.plain_programs import MSG_PLAIN, is_plain

NOTHING: Any = None
TENSOR = dj.ones(3)
TABLE = [1, 2, 3]


def product(n: int, a: list[float], b: list[float], c: list[float]) -> list[float]:
    for i in range(n):
        for j in range(n):
            for k in range(n):
                c[i * n + j] += a[i * n + k] * b[k * n + j]
    return c


def walk(n: int, seed: int) -> tuple[int, int]:
    generator = random.Random(seed)
    x, y = 0, 0
    for _ in range(n):
        step = generator.randrange(4)
        if step < 2:
            x += 2 * step - 1
        else:
            y += 2 * step - 5
    return x, y


def sorted_by_merging(a: list[int]) -> list[int]:
    if len(a) <= 1:
        return a
    middle = len(a) // 2
    left, right = sorted_by_merging(a[:middle]), sorted_by_merging(a[middle:])
    made, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            made.append(left[i])
            i += 1
        else:
            made.append(right[j])
            j += 1
    return made + left[i:] + right[j:]


def total(items: list[Any]) -> Any:
    found = 0
    for item in items:
        found = found + item * 2
    return found


def numbers(count: int) -> list[int]:
    return [random.Random(i).randrange(1000) for i in range(count)]


CALLS: list[tuple[Any, Any]] = [
    (product, lambda k: (6 + k, *(list(map(float, numbers((6 + k) ** 2))) for _ in range(3)))),
    (walk, lambda k: (200 + k, k)),
    (sorted_by_merging, lambda k: (numbers(60 + k),)),
    (total, lambda k: (numbers(100 + k),)),
]


@pytest.mark.parametrize(("function", "given"), CALLS, ids=lambda item: item.__name__)
def test_one_version_is_the_original_for_all_numbers(function: Any, given: Any) -> None:
    compiled = dj.compile(function)
    for k in range(6):
        assert compiled(*given(k)) == function(*given(k))
    cache = cache_of(compiled)
    assert 1 == cache.compile_count
    (entry,) = cache.entries(compiled)
    code = getattr(entry.function, "__code__", None)
    assert 5 == cache.hits(compiled)[0]
    assert (MSG_NEST if code is None else MSG_PLAIN) in str(dj.explain(function)(*given(0)))
    assert code in (None, function.__code__)


def test_a_list_of_tensors_is_captured_after_lists_of_numbers() -> None:
    compiled = dj.compile(total)
    for given in ([], numbers(100), [float(i) for i in range(80)], []):
        assert compiled(given) == total(given)
    dj.testing.assert_close(compiled([TENSOR] * 5), TENSOR * 10)
    assert 1 == compiled.report().graphs


def test_a_break_in_front_of_tensors_is_none_of_these() -> None:
    def function(n: int) -> Any:
        print(n)
        return dj.ones(4) * n

    compiled = dj.compile(function)
    dj.testing.assert_close(compiled(3), dj.full((4,), 3.0))
    assert 1 == compiled.report().graphs


def uses_module() -> Any:
    return np.zeros(3)


def calls_one() -> Any:
    return uses_module()


def reads_nothing_so_far() -> Any:
    return NOTHING


def reads_tensor() -> Any:
    return TENSOR


def reads_list() -> Any:
    return TABLE[0] + math.sqrt(2)


def calls_function_of_numpy() -> Any:
    return array([1])


def calls_function_of_python() -> Any:
    return sqrt(len([1]))


def imports() -> Any:
    import numpy

    return numpy


def within() -> Any:
    return [np.zeros(i) for i in range(3)]


def draws_numbers(n: int) -> float:
    found = 0.0
    for _ in range(n):
        found += np.random.random() + np.random.uniform(0.0, n) + np.random.poisson(4)
    return found


def draws_array(n: int) -> Any:
    return np.random.rand(3)


def draws_array_by_size(n: int) -> Any:
    return np.random.normal(0.0, 1.0, n)


def draws_array_by_name(n: int) -> Any:
    return np.random.random(size=n)


def draws_numbers_of(generator: Any) -> float:
    found = 0.0
    for _ in range(100):
        found += generator.normal() + generator.uniform(1, 2)
    return found


def draws_array_of(generator: Any) -> Any:
    return generator.standard_normal(5)


class Held:
    """Anything may be in it."""


class Walker:
    """Holds what its methods put there."""

    __slots__ = ("_place",)

    def __init__(self, place: float) -> None:
        self._place = place

    @property
    def place(self) -> float:
        return self._place

    def step(self) -> None:
        self._place += random.uniform(-1, 1) + Fraction(1, 2)


class Maker(Walker):
    """Makes arrays."""

    def step(self) -> None:
        self._place += np.ones(3).sum()


def walks(n: int) -> float:
    walker = Walker(0.0)
    for _ in range(n):
        walker.step()
    return walker.place


def makes(n: int) -> float:
    maker = Maker(0.0)
    for _ in range(n):
        maker.step()
    return maker.place


def recursive(n: int) -> int:
    return n and recursive(n - 1)


OBJECTS: list[tuple[bool, Any, tuple[Any, ...]]] = [
    (False, uses_module, ()), (False, calls_one, ()), (False, reads_nothing_so_far, ()),
    (False, reads_tensor, ()), (False, imports, ()), (False, within, ()),
    (False, calls_function_of_numpy, ()), (True, calls_function_of_python, ()),
    (True, total, ([1].append,)), (False, total, ([TENSOR].append,)),
    (True, reads_list, ()), (True, recursive, (3,)), (True, total, ([1, 2.0],)),
    (True, total, ([[1], [2.0]],)), (True, total, ((),)), (True, total, ({"a": 1},)),
    (True, total, (deque([1]),)), (True, total, (None,)), (True, total, (recursive,)),
    (False, total, ([TENSOR],)), (False, total, (np.ones(3),)), (False, total, (np.float64(1),)),
    (False, total, ({},)), (False, total, ({"a": TENSOR},)), (False, total, (Held(),)),
    (False, total, (iter([1]),)), (False, total, (dj.nn.Linear(2, 2),)), (False, total, (Held,)),
    (True, draws_numbers, (9,)), (False, draws_array, (9,)), (False, draws_array_by_size, (9,)),
    (False, draws_array_by_name, (9,)), (True, draws_numbers_of, (np.random.default_rng(1),)),
    (True, draws_numbers_of, (np.random.RandomState(1),)),
    (False, draws_array_of, (np.random.default_rng(1),)),
    (False, total, ([[[TENSOR]]],)), (False, total, (uses_module,)),
    (True, walks, (9,)), (False, makes, (9,)),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "function", "given"), OBJECTS)
def test_what_a_call_can_reach(expected: bool, function: Any, given: tuple[Any, ...]) -> None:
    assert expected is is_plain(function, given)


@pytest.mark.parametrize("draw", [draws_numbers, draws_array_by_size])
def test_numbers_are_drawn_as_in_plain_python(draw: Any) -> None:
    compiled, found = dj.compile(draw), []
    for function in (draw, compiled, compiled):
        np.random.seed(5)
        found.append([function(90), np.random.random()])
    for other in found[1:]:
        np.testing.assert_equal(other, found[0])
    assert (draw is draws_numbers) == (MSG_PLAIN in str(dj.explain(draw)(90)))


def test_closures_and_defaults_are_looked_at() -> None:
    held: Any = TENSOR

    def closed() -> Any:
        return held

    def default(x: Any = TENSOR) -> Any:
        return x

    assert not is_plain(closed, ()) and not is_plain(default, ())
    held = 3
    assert is_plain(closed, ())
    held = None
    assert not is_plain(closed, ())


def doubled(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        found.insert(0, item * 2)
    return found


def test_a_whole_graph_that_is_no_nest_is_captured_all_the_same() -> None:
    compiled = dj.compile(doubled, fullgraph=True)
    assert compiled(numbers(100)) == doubled(numbers(100))
    assert compiled(numbers(101)) == doubled(numbers(101))
    assert 2 == cache_of(compiled).compile_count


def digits(n: int) -> int:
    found = 0
    while n:
        found += n % 10
        n //= 10
    return found


def test_an_int_that_no_turns_come_of_needs_few_versions() -> None:
    compiled = dj.compile(digits)
    for n in (7, 20**3, 9, 20**12, 20**9, 10**15, 31, 2**61, 60, 2):
        assert digits(n) == compiled(n)
    assert 2 == cache_of(compiled).compile_count
