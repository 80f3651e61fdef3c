"""Loops that would make a graph too long: where they break, and what they compute."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.breaks import LONG_LOOP, PLAIN_LOOP
from dynajit.capture.execution import unrolled

TURNS = 40


@pytest.fixture(autouse=True)
def few_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph is too long from sixty operations on, so that the tests are quick."""
    monkeypatch.setattr(unrolled, "MOST_LAYERS", 20)
    monkeypatch.setattr(unrolled, "MOST_OPERATIONS", 60)
    monkeypatch.setattr(unrolled, "MOST_OF_LAYERS", 1000)


def unlike(x: Any, turns: int) -> Any:
    """Operations depend on the turn, which writes to places of a list: none stands for others."""
    y, seen = x * 2, [0, 0]
    for i in range(turns):
        seen[i % 2] = i
        y = dj.sin(y) + 0.1 * i
        if i % 3 == 1:
            y = dj.tanh(y * 0.5) * 1.5 + x
        y = y - y.mean() * dj.cos(y) / (i + 1)
    return y * 3


def short(x: Any, turns: int) -> Any:
    """The same with two operations in a turn."""
    y, seen = x * 2, [0, 0]
    for i in range(turns):
        seen[i % 2] = i
        y = y + 1 if i % 3 == 1 else y * 0.5
        y = y - x
    return y * 3


def triangle(x: Any, turns: int) -> Any:
    """Inner loops of different lengths, which write."""
    y = x * 2
    for i in range(turns):
        for j in range(i % 4):
            y[j] = y[i % 4] * 0.5 + dj.sin(y[j]) - dj.cos(x[j]) * 0.1
        if i % 3 == 1:
            y = y * 0.9 + 1
    return y * 3


def while_counting(x: Any, turns: int) -> Any:
    y, i, seen = x * 2, 0, [0, 0]
    while i < turns:
        seen[i % 2] = i
        y = dj.sin(y) + 0.1 * i
        if i * i % 37 > 9:
            y = dj.tanh(y * 0.5) * 1.5 + x
        y = y - y.mean() * dj.cos(y) / (i + 1)
        i += 1
    return y * 3


def left_early(x: Any, turns: int) -> Any:
    """`else`, `break`, and a variable that outlives the loop."""
    y = x * 2
    for i in range(turns):
        y = dj.sin(y) + 0.1 * i - y.mean() * dj.cos(y) / (i + 1)
        if i * i % 37 > 9:
            y = dj.tanh(y * 0.5) * 1.5 + x
        if i == turns - 2:
            break
    else:
        y = y * 100
    return y * i


LOOPS = {
    unlike: LONG_LOOP, short: PLAIN_LOOP, triangle: PLAIN_LOOP, while_counting: LONG_LOOP,
    left_early: LONG_LOOP,
}  # fmt: skip


@pytest.mark.parametrize("function", LOOPS)
def test_a_long_loop_breaks_and_computes_what_python_does(
    function: Callable[[Any, int], Any],
) -> None:
    compiled, x = dj.compile(function), dj.rand(6, 5)
    for turns in (TURNS, TURNS, TURNS + 1, 3, 0):
        if function is left_early and turns < 2:
            continue
        dj.testing.assert_close(compiled(x, turns), function(x, turns))
    told = dj.explain(function)(x, TURNS)
    assert told.breaks[0].reason.startswith(LOOPS[function].explanation)


def test_a_caller_is_compiled_behind_a_loop_that_is_plain_python() -> None:
    def caller(x: Any) -> Any:
        y = short(x + 1, TURNS)
        return dj.tanh(y) + dj.sin(y)

    x = dj.rand(6, 5)
    compiled = dj.compile(caller)
    dj.testing.assert_close(compiled(x), caller(x))
    graphs = dj.explain(caller)(x).graphs
    assert "sin" in str(graphs[-1]) and len(graphs) == 2


def test_fullgraph_captures_every_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of what breaks elsewhere here: the C compiler is slow with longer ones."""
    monkeypatch.setattr(unrolled, "MOST_LAYERS", 20 // 3)
    monkeypatch.setattr(unrolled, "MOST_OPERATIONS", 60 // 3)
    turns, x = TURNS // 3, dj.rand(6, 5)
    assert dj.explain(unlike)(x, turns).breaks[0].reason.startswith(LONG_LOOP.explanation)
    compiled = dj.compile(unlike, fullgraph=True)
    dj.testing.assert_close(compiled(x, turns), unlike(x, turns))
    assert compiled.report().graphs == 1


def test_a_deep_model_is_one_graph() -> None:
    """As many turns as a model may have layers, with a few hundred operations."""
    layers = dj.nn.ModuleList(dj.nn.Linear(5, 5) for _ in range(20))

    def deep(x: Any) -> Any:
        for i in range(20):
            x = dj.relu(layers[i](x)) + dj.sin(x) * dj.cos(x) - x.mean()
        return x

    x = dj.rand(6, 5)
    with dj.no_grad():
        dj.testing.assert_close(dj.compile(deep, fullgraph=False)(x), deep(x))
        assert not dj.explain(deep)(x).breaks


def checksum(data: Any) -> int:
    """Bits of numbers decide: every turn would break."""
    found = 0xFFFF
    for byte in list(data):
        for _ in range(8):
            found = (found >> 1) ^ 0x8408 if (found ^ byte) & 1 else found >> 1
            byte >>= 1
    return int(found)


def largest(data: Any) -> tuple[Any, list[int]]:
    best, places = data[0], []
    for i in range(1, len(data)):
        if data[i] > best:
            best = data[i]
            places.append(i)
    return best, places


@pytest.mark.parametrize("function", [checksum, largest])
def test_numbers_of_arrays_that_decide_are_left_to_numpy(function: Callable[[Any], Any]) -> None:
    data = np.random.default_rng(0).integers(0, 255, 60)
    compiled = dj.compile(function)
    for _ in range(2):
        assert compiled(data) == function(data)
    told = dj.explain(function)(data)
    assert [PLAIN_LOOP.explanation in each.reason for each in told.breaks] == [True]


def runs(data: Any) -> list[tuple[int, int]]:
    """A `while` around the break."""
    found, i = [], 0
    while i < len(data):
        j = i
        while j < len(data) and data[j] == data[i]:
            j += 1
        found.append((int(data[i]), j - i))
        i = j
    return found


def test_a_while_whose_turns_break_is_left_to_numpy() -> None:
    """Turns are no calls of compiled parts: there is one for the first turn."""
    data = np.random.default_rng(0).integers(0, 2, 60)
    compiled = dj.compile(runs)
    for _ in range(5):
        assert compiled(data) == runs(data)
    assert compiled.report().hits <= 10 < len(runs(data))


def common(a, b):
    """The length of the longest common subsequence of two texts."""
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            if a[i - 1] == b[j - 1]:
                table[i, j] = table[i - 1, j - 1] + 1
            else:
                table[i, j] = max(table[i - 1, j], table[i, j - 1])
    return table[-1, -1]


def test_turns_over_small_arrays_that_break_at_changing_values_are_plain_python() -> None:
    compiled, random = dj.compile(common), np.random.default_rng(2)
    for turn in range(24):
        a, b = ("".join(random.choice(list("ACGT"), 8 + turn % n)) for n in (9, 5))
        found = compiled(a, b)
        assert (common(a, b), np.int64) == (found, type(found))

    assert compiled.report().hits < 400  # of the parts; there would be one for each element


def distances(a, b):
    return np.array([[np.sum((x - y) ** 2) for x in a] for y in b])


def test_comprehensions_over_rows_within_each_other_are_left_to_numpy() -> None:
    compiled, rows = dj.compile(distances), np.random.default_rng(0).random((40, 3))

    for size in (40, 40, 30):
        given = rows[:size].copy()
        np.testing.assert_array_equal(compiled(given, given), distances(given, given))
    assert PLAIN_LOOP.explanation in str(dj.explain(distances)(rows, rows))
