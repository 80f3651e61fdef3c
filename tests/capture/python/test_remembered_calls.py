"""Functions under `functools.lru_cache` and `functools.cache`: as plain Python, without a break."""

import functools
import os
import random
from collections.abc import Callable
from typing import Any, Generic, Optional, TypeVar

import pytest

import dynajit as dj
from dynajit import nn
from dynajit.capture.entry import cache

T = TypeVar("T")
optional: Any = Optional

MAKERS = {
    "cache": functools.cache,
    "lru_cache": functools.lru_cache(maxsize=16),
    "typed": functools.lru_cache(maxsize=None, typed=True),
}


def compiles_of(compiled: Any) -> int:
    """How often it was compiled."""
    return cache.cache_of(compiled).compile_count


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_the_object_that_is_remembered_is_returned(maker: Callable[..., Any]) -> None:
    """By position, by name, and by equal numbers of other classes."""

    def pair(a: Any, b: Any = 2) -> list[Any]:
        return [a, b]

    def f(x: Any) -> Any:
        return x + 1, remembered(1), remembered(1, b=3), remembered(1.0), remembered((1, "a"))

    remembered, expected = maker(pair), maker(pair)
    compiled = dj.compile(f, fullgraph=True)
    for _ in range(4):
        _, *found = compiled(dj.ones(2))
        calls: list[Any] = [expected(1), expected(1, b=3), expected(1.0), expected((1, "a"))]
        assert calls == found
        assert remembered.cache_info() == expected.cache_info()
        assert found[0] is remembered(1) and found[1] is remembered(1, b=3)
        assert expected(1) and expected(1, b=3)
    assert 1 == compiles_of(compiled)


def plain_and_compiled(make: Callable[[], tuple[Any, Any]], calls: int = 4) -> int:
    """Calls of a function of a tensor, plain and compiled, agree in results and in what is counted.

    Args:
        make: gives the function, and the one that it calls and that remembers.
        calls: how many are made.

    Returns:
        How often it was compiled.
    """
    (expected, counted), (f, remembered) = make(), make()
    compiled = dj.compile(f)
    for _ in range(calls):
        found, value = compiled(dj.ones(2)), expected(dj.ones(2))
        assert value.tolist() == found.tolist()
        assert counted.cache_info() == remembered.cache_info()
    return compiles_of(compiled)


def recursive() -> tuple[Any, Any]:
    @functools.cache
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    return lambda x: x * fibonacci(20), fibonacci


def nested() -> tuple[Any, Any]:
    @functools.lru_cache
    def axes(pattern: str) -> list[str]:
        return pattern.split()

    @functools.lru_cache(256)
    def recipe(pattern: str, rank: int) -> dict[str, Any]:
        left, right = pattern.split("->")
        if len(axes(left)) != rank:
            raise ValueError(pattern)
        return {"order": [axes(left).index(name) for name in axes(right)], "rank": len(axes(left))}

    def f(x: Any) -> Any:
        found = recipe("b h w -> w b h", 3)
        return x * found["rank"] + found["order"][0]

    return f, recipe


def one_after_the_other() -> tuple[Any, Any]:
    """The second one meets a list that nothing met before."""
    factors = [2, 3]

    @functools.cache
    def place(n: int) -> int:
        return n - 2

    @functools.cache
    def factor(n: int) -> int:
        return factors[n] * n

    return lambda x: x * factor(place(3)), factor


@pytest.mark.parametrize("make", [recursive, nested, one_after_the_other])
def test_a_function_that_only_computes_is_called_while_its_call_is_captured(make: Any) -> None:
    assert 1 == plain_and_compiled(make)


def reading_what_was_changed() -> tuple[Any, Any]:
    state = {"factor": 1}

    @functools.cache
    def scaled(n: int) -> int:
        return n * state["factor"]

    def f(x: Any) -> Any:
        state["factor"] += 1
        return x * scaled(3)

    return f, scaled


def drawing() -> tuple[Any, Any]:
    generator = random.Random(3)

    @functools.cache
    def drawn(n: int) -> float:
        return generator.random()

    return lambda x: x * drawn(3) * drawn(3), drawn


def counting() -> tuple[Any, Any]:
    runs: list[int] = []

    @functools.cache
    def counted(n: int) -> int:
        runs.append(n)
        return len(runs)

    return lambda x: x * counted(3) * counted(4), counted


def asking_for_the_mode() -> tuple[Any, Any]:
    @functools.cache
    def factor(n: int) -> int:
        return n * (2 + dj.is_grad_enabled()) * (3 + dj.is_autocast_enabled("cpu"))

    def f(x: Any) -> Any:
        with dj.no_grad():
            y = x * factor(3)
        with dj.autocast("cpu", dj.bfloat16):
            return y * factor(4)

    return f, factor


def taking_long() -> tuple[Any, Any]:
    @functools.cache
    def total(n: int) -> int:
        found = 0
        for number in range(n):
            found += number
        return found

    return lambda x: x * total(50_000), total


def breaking() -> tuple[Any, Any]:
    @functools.cache
    def named(n: int) -> int:
        return len(os.getcwd()) * n

    return lambda x: x * named(3), named


@pytest.mark.parametrize(
    "make",
    [reading_what_was_changed, drawing, counting, asking_for_the_mode, taking_long, breaking],
)
def test_other_functions_run_as_in_plain_python(make: Any) -> None:
    plain_and_compiled(make, calls=20)


def test_functions_that_evict_each_others_results_give_them_all() -> None:
    """A call that was made early is made again where the capture came to nothing."""

    @functools.lru_cache(maxsize=1)
    def only(n: int) -> int:
        return n + 1

    compiled = dj.compile(lambda x: x * only(1) * only(2))
    assert [6.0] * 20 == [compiled(dj.ones(1)).item() for _ in range(20)]
    assert only.cache_info().misses >= 40


def test_what_a_function_prints_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    @functools.cache
    def told(n: int) -> int:
        print("told", n)
        return n

    compiled = dj.compile(lambda x: x * told(2) * told(2))
    for _ in range(3):
        compiled(dj.ones(1))

    assert "told 2\n" == capsys.readouterr().out


def test_a_new_list_that_is_remembered_is_the_one_that_is_returned() -> None:
    @functools.cache
    def made(n: int) -> list[int]:
        return [n]

    def f(x: Any) -> Any:
        found = made(1)
        found.append(2)
        return x * len(found), found

    compiled = dj.compile(f, fullgraph=True)
    for length in range(2, 6):
        x, found = compiled(dj.ones(1))
        assert (length, length) == (x.item(), len(found))
        assert found is made(1)


def test_the_first_call_runs_plainly_and_the_next_is_captured_whole() -> None:
    """What the function remembers by then includes tensors, which are inputs of the graph."""
    runs = []

    @functools.lru_cache
    def mask(size: int) -> Any:
        runs.append(size)
        return dj.tril(dj.ones(size, size))

    def f(x: Any) -> Any:
        return x * mask(3)

    compiled = dj.compile(f, fullgraph=True)
    x = dj.randn(3, 3)
    for _ in range(4):
        assert dj.equal(x.tril(), compiled(x))
    assert [3] == runs
    mask(3).fill_(2.0)
    assert dj.equal(x * 2, compiled(x))


def test_what_is_cleared_or_evicted_is_asked_again() -> None:
    """At the next call, once."""
    runs = []

    @functools.lru_cache(maxsize=2)
    def scale(number: int) -> float:
        runs.append(number)
        return number * factor

    def f(x: Any) -> Any:
        return x * scale(1)

    factor = 2.0
    compiled = dj.compile(f, fullgraph=True)
    results = [compiled(dj.ones(1)).item() for _ in range(3)]
    factor = 3.0
    results += [compiled(dj.ones(1)).item() for _ in range(2)]
    scale.cache_clear()
    results += [compiled(dj.ones(1)).item() for _ in range(3)]
    factor = 4.0
    scale(5), scale(6)
    results += [compiled(dj.ones(1)).item() for _ in range(3)]
    assert [2.0] * 5 + [3.0] * 3 + [4.0] * 3 == results
    assert [1, 1, 5, 6, 1] == runs


def test_what_compiled_code_uses_is_evicted_last() -> None:
    """Its calls count as uses."""

    @functools.lru_cache(maxsize=2)
    def double(number: int) -> int:
        return number * 2

    compiled = dj.compile(lambda x: x * double(1), fullgraph=True)
    for other in range(2, 8):
        compiled(dj.ones(1))
        double(other)
    assert 1 == double.cache_info().misses - 6


def test_a_list_that_is_remembered_and_grows_stays_long() -> None:
    """It is one object."""

    @functools.cache
    def found() -> list[int]:
        return []

    def f(x: Any) -> Any:
        found().append(1)
        return x * len(found())

    compiled = dj.compile(f, fullgraph=True)
    assert [1.0, 2.0, 3.0, 4.0] == [compiled(dj.ones(1)).item() for _ in range(4)]
    assert 4 == len(found())


class Table(nn.Module):
    """Remembers by instance."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.start = start

    @functools.lru_cache(maxsize=8)
    def row(self, size: int) -> Any:
        return dj.arange(size) + self.start

    @staticmethod
    @functools.cache
    def factor(number: int) -> float:
        return number * 0.5

    def forward(self, x: Any) -> Any:
        return x * self.row(3) * self.factor(4)


def test_methods_remember_by_instance() -> None:
    """Two instances of a class have results of their own."""
    first, second = Table(1.0), Table(10.0)
    x = dj.ones(3)
    for table in (first, second):
        compiled = dj.compile(table, fullgraph=True)
        for _ in range(3):
            assert dj.equal((dj.arange(3) + table.start) * 2, compiled(x))


@pytest.mark.parametrize("maxsize", [0, 1])
def test_a_function_that_forgets_is_called_for_real(maxsize: int) -> None:
    """One with no room at all, and one whose room others take in between."""
    runs = []

    @functools.lru_cache(maxsize=maxsize)
    def kept(number: int) -> int:
        runs.append(number)
        return number

    def f(x: Any) -> Any:
        return x * kept(1) * kept(2)

    before = dj.compile_stats()["breaks"]
    compiled = dj.compile(f)
    for _ in range(20):
        assert 2.0 == compiled(dj.ones(1)).item()
    assert [1, 2] * 20 == runs
    assert before < dj.compile_stats()["breaks"]


def test_devices_are_keys() -> None:
    """As in positions that models compute once for each size and device."""

    @functools.lru_cache(maxsize=128)
    def positions(size: int, device: Any) -> Any:
        return dj.arange(size, device=device)

    def f(x: Any) -> Any:
        return x * positions(3, x.device) + positions(3, dj.device("cpu"))

    compiled = dj.compile(f, fullgraph=True)
    for _ in range(3):
        assert [0.0, 2.0, 4.0] == compiled(dj.ones(3)).tolist()
    assert (5, 1) == positions.cache_info()[:2]


def test_sizes_are_keys_like_tuples() -> None:
    """A shape finds what was remembered for a tuple."""
    runs = []

    @functools.cache
    def count(shape: tuple[int, ...]) -> int:
        runs.append(type(shape))
        return len(shape)

    count((2, 3))
    compiled = dj.compile(lambda x: x * count(x.shape), fullgraph=True)
    assert [2.0] * 3 == [compiled(dj.ones(2, 3))[0, 0].item() for _ in range(3)]
    assert [tuple] == runs


def test_keys_with_an_equality_of_their_own_are_left_to_python() -> None:
    """Looking them up runs it."""
    asked = []

    class Key:
        def __hash__(self) -> int:
            asked.append("hash")
            return 1

        def __eq__(self, other: object) -> bool:
            return True

    @functools.cache
    def kept(key: Any) -> int:
        return 3

    key = Key()
    before = dj.compile_stats()["breaks"]
    compiled = dj.compile(lambda x: x * kept(key))
    assert [3.0] * 3 == [compiled(dj.ones(1)).item() for _ in range(3)]
    assert ["hash"] * 3 == asked
    assert before < dj.compile_stats()["breaks"]


def test_errors_are_raised_in_every_call() -> None:
    """They are not remembered; nor are arguments that cannot be keys."""

    @functools.cache
    def positive(number: int) -> int:
        if number < 0:
            raise ValueError(f"{number} is negative")
        return number

    compiled = dj.compile(lambda x, number: x * positive(number))
    for _ in range(3):
        with pytest.raises(ValueError, match="-2 is negative"):
            compiled(dj.ones(1), -2)
        with pytest.raises(TypeError, match="unhashable"):
            compiled(dj.ones(1), [1])
        assert 5.0 == compiled(dj.ones(1), 5).item()


def test_sizes_that_vary_are_no_keys() -> None:
    """The function is inlined: no version for each size."""

    @functools.lru_cache
    def halves(shape: tuple[int, ...]) -> list[int]:
        return [2, shape[0] // 2, *shape[1:]]

    compiled = dj.compile(lambda x: x.reshape(halves(tuple(x.shape))), fullgraph=True)
    for size in range(4, 40, 2):
        assert (2, size // 2, 3) == compiled(dj.ones(size, 3)).shape
    assert 3 >= compiles_of(compiled)


def test_a_function_of_sizes_that_changes_something_is_called_for_real() -> None:
    """It does so once for each size."""
    met = []

    @functools.lru_cache
    def half(size: int) -> int:
        met.append(size)
        return size // 2

    compiled = dj.compile(lambda x: x[: half(x.shape[0])] * 2)
    for size in (4, 6, 8, 4, 6, 8, 10):
        assert size // 2 == len(compiled(dj.ones(size)))
    assert [4, 6, 8, 10] == met


def test_keys_that_python_compares_break_the_graph() -> None:
    """As `typing` has: a guard would have to call it to find them."""

    class Named(Generic[T]):
        """Has forms."""

    def f(x: Any) -> Any:
        return x + 1, optional[Named[int]]

    expected = optional[Named[int]]
    compiled = dj.compile(f)
    for _ in range(12):
        y, found = compiled(dj.ones(2))
        assert found is expected and 2.0 == y[0].item()
    assert 3 >= compiles_of(compiled)


def test_classes_without_a_hash_are_refused_as_python_refuses_them() -> None:
    """Their metaclass says so."""

    class Unhashable(type):
        """Of classes that are no keys."""

        __hash__ = None  # type: ignore[assignment]

    class Made(metaclass=Unhashable):
        """Cannot be a key."""

    remembered = functools.cache(lambda cls: cls.__name__)

    def f(x: Any) -> Any:
        try:
            return x, remembered(Made)
        except TypeError as error:
            return x + 1, str(error)

    compiled = dj.compile(f)
    for _ in range(3):
        y, text = compiled(dj.ones(2))
        assert 2.0 == y[0].item()
        assert "unhashable type: 'Unhashable'" in text
