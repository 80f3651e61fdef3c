"""Turns that decide by their counters: one loop where arms are cheap, plain Python's results."""

import random
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.support.loops import loops_of

X = dj.arange(6.0) + 1


def alternating(x):
    for i in range(60):
        x = x * 0.5 if i % 2 == 0 else x + 1
    return x


def by_truth(x):
    for i in range(60):
        if i % 3:
            x = x * 0.5
        else:
            x = x + 1
    return x


def halved_rate(x):
    rate = 1.0
    for i in range(60):
        if (i + 1) % 10 == 0:
            rate = rate * 0.5
        x = x - rate * x * 0.1
    return x, rate


def warm_up(x):
    total = x * 0
    for i in range(60):
        if i < 7:
            total = total + x
        elif i > 50 and i % 3 == 0:
            total = total - x
        x = x * 0.9
    return x, total


def triangular(x):
    for i in range(20):
        for j in range(20):
            if i > j:
                x = x * 0.99
            elif i == j:
                x = x + 1
    return x


def last_place(x):
    best, found, first = 0, False, x * 2
    for i in range(60):
        if i == 30:
            best, found, first = i, True, x * 1
        x = x * 0.9
    return x, best, found, first


def by_time(x):
    t = 0.0
    for _ in range(60):
        t += 0.1
        if t > 3:
            x = x * 0.9
        x = x + (1 if t > 4 else 2)
    return x, t


def every_third_row(x):
    kept = dj.zeros(60)
    for i in range(60):
        if i % 3 == 0:
            kept[i] = x.sum()
        x = x * 0.9
    return x, kept


def of_numpy(x):
    x = x.numpy() * 1
    total, count = np.zeros(6), 0
    for i in range(60):
        if i % 4 == 1:
            total = total + x
            count += 1
        x = np.roll(x, 1) * 0.9
    return total, count, x


def first_turn(x):
    for i in range(40):
        y = x * 0.5 if i == 0 else y * 0.5 + x  # noqa: F821
    return y


def last_turn(x):
    for i in range(40):
        y, k = (x * 0.5, 0) if i == 0 else (y * 0.5 + x, k + i)  # noqa: F821
        if i == 39:
            y = y + kept  # noqa: F821
        kept = y * i
    return y, k, kept


def flips(x):
    is_on, is_off = True, False
    for i in range(40):
        x = x * 0.9
        if is_on:
            x = x + i
        is_on, is_off = not is_on, not i % 3
    return x, is_on, is_off


DECIDED = [
    first_turn, last_turn, flips,
    alternating, by_truth, halved_rate, warm_up, triangular, last_place, by_time,
    every_third_row, of_numpy,
]  # fmt: skip


def heavy_arm(x):
    w = dj.ones(6, 6) * 0.1
    for i in range(40):
        if i % 20 == 7:
            x = w @ (w @ x)
        x = x * 0.9
    return x


def appends(x):
    seen = []
    for i in range(40):
        x = x * 0.9
        if i % 10 == 0:
            seen.append(x)
    return x, *seen


def leaves(x):
    for i in range(60):
        x = x * 0.9
        if i == 41:
            break
    return x, i


def raises_late(x):
    try:
        for i in range(60):
            x = x * 0.9
            if i == 41:
                raise ValueError(i)
    except ValueError as error:
        return x, error.args
    return x, ()


def becomes_a_tensor(x):
    rate = 1.0
    for i in range(60):
        if i == 30:
            rate = x.sum()
        x = x * 0.9
    return x, rate


def becomes_a_float(x):
    k = 1
    for i in range(60):
        if i == 30:
            k = 0.5
        x = x * 0.9 + k
    return x, k


def last_turn_that_reads_a_text(x):
    text = ""
    for i in range(40):
        if i == 39:
            return x, text
        x = x * 0.9
        text = f"{i}"
    return x


UNROLLED = [
    last_turn_that_reads_a_text,
    heavy_arm,
    appends,
    leaves,
    raises_late,
    becomes_a_tensor,
    becomes_a_float,
]


def accumulated(x, n):
    w, g = x, x * 0
    for i in range(n):
        g = g + x * w * 0.01 * i
        if (i + 1) % 4 == 0:
            w = w - 0.1 * g
            g = dj.zeros_like(w)
    return w, g


def heavy_in_turns(x, n):
    w = dj.ones(6, 6) * 0.1
    for i in range(n):
        if not i % 5:
            x = w @ (w @ x)
        elif i % 5 == 2:
            x = x - w @ x
        x = x * 0.9 + i
    return x


def not_a_number_elsewhere(x, n):
    w = dj.ones(6, 6) * 0.1
    for i in range(n):
        if i % 3:
            x = (w @ x) / (i % 3) + 1
        else:
            y = x - x
            x = dj.where(x > 1e9, y / y, w @ (w @ x)) + 1
    return x, y


def appends_in_turns(x, n):
    seen = []
    for i in range(n):
        x = x * 0.9
        if i % 3 == 1:
            seen.append(x)
    return x, *seen


def set_in_some_turns(x, n):
    w = dj.ones(6, 6) * 0.1
    for i in range(n):
        if i % 4 == 2:
            kept, at = w @ x, i
        x = x * 0.9 + i
    return x, kept, at


def draws_in_turns(x, n):
    dj.manual_seed(3)
    for i in range(n):
        if i % 3 == 0:
            x = x + dj.randn(6)
        x = x * 0.9
    return x


def by_a_counter_in_an_object(x, n):
    class State:
        def __init__(self):
            self.steps, self.updates = 0, 1

    state, w = State(), dj.ones(6, 6) * 0.1
    for _ in range(n):
        state.steps += 1
        if state.steps % 4 == 0:
            state.updates *= 3
            state.updates %= 1001
            x = w @ x
        x = x * 0.9 + state.updates
    return x, state.steps, state.updates


def a_counter_that_starts_again(x, n):
    w, k = dj.ones(6, 6) * 0.1, 0
    for _ in range(n):
        k += 1
        if k == 4:
            x = w @ x
            k = 0
        x = x * 0.9 + k
    return x, k


def backwards_in_steps(x, n):
    w = dj.ones(6, 6) * 0.1
    for i in range(3 * n, 0, -3):
        if i % 2 == 0 and i > 6:
            x = w @ x
        x = x * 0.9 + i
    return x, i


def left_out_turns(x, n):
    w = dj.ones(6, 6) * 0.1
    for i, k in enumerate(range(n), 5):
        if i % 4 == 1:
            continue
        x = w @ x * 0.5 + k
    return x, i, k


def rarely(x, n):
    w = dj.ones(6, 6) * 0.1
    for i in range(n):
        x = x * 0.9 + i
        if (i + 1) % 3 == 0:
            x = w @ x
        if i % 640 == 639 or i == n - 2:
            x = w @ (w @ x)
    return x


def one_object_in_turns(x, n):
    w, best = dj.ones(6, 6) * 0.1, x
    for i in range(n):
        x = w @ x + i
        if i % 4 == 1:
            best = x
    return x, best, best is x


PERIODIC = [
    accumulated, heavy_in_turns, not_a_number_elsewhere, appends_in_turns, set_in_some_turns,
    draws_in_turns, by_a_counter_in_an_object, backwards_in_steps, left_out_turns, rarely,
    one_object_in_turns,
]  # fmt: skip


def assert_same(expected: Any, found: Any) -> None:
    """Equal in values, types and dtypes."""
    assert type(expected) is type(found)
    if isinstance(expected, tuple):
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            assert_same(a, b)
    elif isinstance(expected, (dj.Tensor, np.ndarray)):
        assert (expected.dtype, expected.shape) == (found.dtype, found.shape)
        a, b = np.asarray(expected), np.asarray(found)
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=1e-6)
    else:
        assert expected == found


@pytest.mark.parametrize("function", DECIDED)
def test_cheap_arms_are_both_in_the_body(function: Any) -> None:
    compiled = dj.compile(function, fullgraph=True)
    expected = function(X)
    for _ in range(2):
        assert_same(expected, compiled(X))
    assert loops_of(function, X) >= 1


@pytest.mark.parametrize("function", UNROLLED)
def test_other_decisions_are_unrolled(function: Any) -> None:
    assert_same(function(X), dj.compile(function)(X))
    assert loops_of(function, X) == 0


@pytest.mark.parametrize("function", [*PERIODIC, a_counter_that_starts_again])
def test_what_comes_again_after_some_turns_has_plain_results(function: Any) -> None:
    compiled = dj.compile(function)
    for n in (60, 61, 62, 63, 29, 12, 5):
        assert_same(function(X, n), compiled(X, n))


@pytest.mark.parametrize("function", PERIODIC)
def test_several_turns_may_be_one_of_the_loop(function: Any) -> None:
    for n in (60, 63):
        assert loops_of(function, X, n) == 1
    few, many = (dj.explain(function)(X, n).graphs for n in (120, 240))
    assert len(few) == len(many) == 1
    if function is not appends_in_turns:
        assert len(few[0].nodes) == len(many[0].nodes)


@pytest.mark.parametrize("n", [40, 43])
@pytest.mark.parametrize("function", [accumulated, heavy_in_turns, not_a_number_elsewhere, rarely])
def test_gradients_pass_several_turns(function: Any, n: int) -> None:
    results = []
    for run in (function, dj.compile(function, fullgraph=True)):
        x = (X * 0.1).requires_grad_()
        found = run(x, n)
        whole = found if isinstance(found, dj.Tensor) else found[0]
        whole.sum().backward()
        results.append(x.grad.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


def test_an_arm_that_no_turn_runs_costs_nothing() -> None:
    """Which one Python runs is the same in all turns of the loop."""

    def run(x, is_heavy):
        w = dj.ones(6, 6) * 0.1
        for i in range(40):
            if (i < 40 or i == 50) if is_heavy else i < 1:
                x = w @ (w @ x)
            x = x * 0.9 + i
        return x

    for is_heavy in (True, False):
        assert_same(run(X, is_heavy), dj.compile(run)(X, is_heavy))
        assert loops_of(run, X, is_heavy) == 1


def test_gradients_pass_the_arm_that_runs() -> None:
    def step(x, w):
        for i in range(40):
            x = x * w if i % 3 == 0 else x * 0.9 + w
        return x.sum()

    results = []
    for run in (step, dj.compile(step, fullgraph=True)):
        x, w = X.clone().requires_grad_(), (X * 0.1).requires_grad_()
        run(x, w).backward()
        results.append((x.grad.numpy(), w.grad.numpy()))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5)


def behind_the_border(x, table):
    for i in range(60):
        if i + 5 < 60:
            x = x * 0.9 + table[i + 5]
        else:
            x = x * 0.5
    return x


def test_what_python_leaves_out_at_a_border_is_not_refused() -> None:
    """The launch serves the call: nothing runs as plain Python."""
    table = dj.arange(60.0)
    compiled = dj.compile(behind_the_border, fullgraph=True)
    assert_same(behind_the_border(X, table), compiled(X, table))
    with dj.profiler.profile() as profile:
        compiled(X, table)
    assert {"mul", "add"}.isdisjoint(event.name for event in profile.events())
    assert loops_of(behind_the_border, X, table) == 1


def test_gradients_pass_elements_at_a_border() -> None:
    results = []
    for run in (behind_the_border, dj.compile(behind_the_border, fullgraph=True)):
        x, table = X.clone().requires_grad_(), dj.arange(60.0).requires_grad_()
        run(x, table).sum().backward()
        results.append((x.grad.numpy(), table.grad.numpy()))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5)


TESTS = [
    "i % 2 == 0", "i % 5", "i < 4", "i >= n", "i == 9", "i * 2 > n + 5", "(i + j) % 3 == 1",
    "i > j", "j == 2", "t > 0.7", "k % 2 == 0", "i != j and j < 5", "i == 3 or j > 12",
]  # fmt: skip
ACTIONS = [
    "x = x * 0.9", "x = x + i", "y = y + x * 0.1", "k += 1", "k = i", "t = t * 0.5", "t += 0.25",
    "x, y = y, x", "flag = True", "x = x - t", "y = x + k", "table[i % 4] = x.sum()",
    "table[1] += 1", "pass", "continue",
]  # fmt: skip


def block(draw: random.Random, indent: int) -> list[str]:
    """Random statements of a turn."""
    lines = []
    for _ in range(draw.randint(1, 3)):
        if draw.random() < 0.6:
            lines.append(" " * indent + f"if {draw.choice(TESTS)}:")
            lines += [" " * (indent + 4) + draw.choice(ACTIONS) for _ in range(draw.randint(1, 2))]
            if draw.random() < 0.5:
                lines += [" " * indent + "else:", " " * (indent + 4) + draw.choice(ACTIONS)]
        else:
            lines.append(" " * indent + draw.choice(ACTIONS[:-1]))
    return lines


def program_text(draw: random.Random) -> str:
    """A random function with one loop or two."""
    lines = ["def program(x, n):", "    y, k, t, j, flag = x * 0.5, 0, 0.1, 1, False"]
    lines += ["    table = dj.zeros(4)", "    for i in range(24):", *block(draw, 8)]
    if draw.random() < 0.5:
        lines += ["        for j in range(20):", *block(draw, 12)]
    return "\n".join([*lines, "    return x, y, k, t, i, j, flag, table"])


@pytest.mark.parametrize("seed", range(30))
def test_random_decisions_have_plain_results(seed: int) -> None:
    text = program_text(random.Random(seed))
    space: dict[str, Any] = {"dj": dj}
    exec(compile(text, f"<decisions {seed}>", "exec"), space)
    program, compiled = space["program"], dj.compile(space["program"])
    for n in (7, 7, 8, 11):
        try:
            assert_same(program(X, n), compiled(X, n))
        except AssertionError as error:
            raise AssertionError(f"{text}\n{error}") from None


class Falsy:
    """An object that is false."""

    def __bool__(self) -> bool:
        return False


@pytest.mark.parametrize(
    "value",
    [dj.ones(1), dj.zeros(1), np.zeros(1) > 0, np.float64(0), np.int64(3), Falsy(), [], [0], 0.0],
)
def test_not_is_python_s_where_the_graph_ends_there(value: Any) -> None:
    """Outside of loops: real code asks for the truth before it negates it."""

    def negated(x: Any, value: Any) -> Any:
        y = x + 1
        total = value * 1 if isinstance(value, (dj.Tensor, np.ndarray, np.generic)) else value
        return not total, not (y.sum() < 0), y

    assert_same(negated(X, value), dj.compile(negated)(X, value))
