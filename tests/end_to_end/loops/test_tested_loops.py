"""Loops that go on until a tensor says so: one loop of the graph, with plain Python's results."""

import _thread
import signal
import threading
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit._higher_order_ops.while_loop import while_loop

X = dj.arange(6.0)
_HALF = np.random.default_rng(0).random((6, 6))
SYMMETRIC = dj.tensor((_HALF @ _HALF.T + 6 * np.eye(6)).astype(np.float32))


def halve(x, tolerance):
    while x.sum() > tolerance:
        x = x * 0.5
    return x


def halve_sum(x, tolerance):
    x = x + 1
    while x.sum() > tolerance:
        x = x * 0.5
    return x


def halve_at_most(x, tolerance, n):
    x, k = x + 1, 0
    while x.sum() > tolerance and k < n:
        x = x * 0.5
        k += 1
    return x


def conjugate_gradient(a, b, tolerance):
    x = dj.zeros_like(b)
    r = b - a @ x
    p = r.clone()
    rs = r @ r
    while rs > tolerance:
        ap = a @ p
        alpha = rs / (p @ ap)
        x = x + alpha * p
        r = r - alpha * ap
        new = r @ r
        p = r + new / rs * p
        rs = new
    return x


def newton(a):
    x, error = a * 1.0, dj.tensor(1.0)
    while error > 1e-6:
        new = 0.5 * (x + a / x)
        error = (new - x).abs().max()
        x = new
    return x


def range_with_break(x, tolerance, n):
    for _ in range(n):
        x = x * 0.5
        if x.sum() < tolerance:
            break
    return x


def pairs(x, tolerance):
    state = (x + 0, x * 2)
    while state[0].sum() > tolerance:
        state = (state[0] * 0.5, state[1] + state[0])
    return state


def leaves_in_the_middle(x, tolerance):
    x = x + 1
    while True:
        x = x * 0.5
        if x.sum() < tolerance:
            return x


def negated(x, tolerance):
    x = x + 1
    while not (x.sum() < tolerance):
        x = x * 0.5
    return x


def with_else(x, tolerance):
    x = x + 1
    while x.sum() > tolerance:
        x = x * 0.5
    else:
        x = x + 100
    return x


def power_iteration(a, tolerance):
    x, change = dj.ones(6), dj.tensor(1.0)
    while change > tolerance:
        y = a @ x
        y = y / dj.linalg.norm(y)
        change = (y - x).abs().max()
        x = y
    return x @ (a @ x)


def counts_turns(x, tolerance, n):
    k = 0
    while x.sum() > tolerance and k < n:
        x = x * 0.5
        k += 1
    return x, k


def counter_of_the_break(x, tolerance, n):
    for i in range(n):  # noqa: B007
        x = x * 0.5
        if x.sum() < tolerance:
            break
    return x, i


def counts_down(x, tolerance):
    x, k = x + 1, 3
    while x.sum() > tolerance:
        x = x * 0.5
        k -= 2
    return {"x": x, "left": [k, (k,)]}


def counts_in_a_tuple(x, tolerance):
    state = (x + 1, 0)
    while state[0].sum() > tolerance:
        state = (state[0] * 0.5, state[1] + 3)
    return state


def numbers_of_all_kinds(x, tolerance, n):
    x, k, t, p = x + 1, 0, 0.0, 1
    while x.sum() > tolerance and k < n:
        x = x * 0.5 + t
        t += 0.001
        p = p * 3 % 7
        k += 1
    return x, k, t, p


def arithmetic_with_a_count(x, tolerance):
    x, k = x + 1, 0
    while x.sum() > tolerance:
        x = x * 0.5
        k += 1
    return k + 1, 2 * k - 7, -k, k * k, abs(3 - k), k > 3, 5 == k, 100 >= k, k != 0, x


def count_in_an_error(x, tolerance):
    x, k = x + 1, 0
    while x.sum() > tolerance:
        x = x * 0.5
        k += 1
    try:
        raise ValueError(k)
    except ValueError as error:
        return x, error.args


def leaves_with_the_count(x, tolerance):
    x, k = x + 1, 0
    while True:
        x = x * 0.5
        k += 1
        if x.sum() < tolerance:
            return x, k


#: Programs, arguments, and how many graphs and loops a call has.
LOOPS = [
    (halve, (X, 0.1), 1, 1), (halve_sum, (X, 0.1), 1, 1), (halve_sum, (X, 1e9), 1, 1),
    (halve_at_most, (X, 0.1, 5), 1, 1), (halve_at_most, (X, 0.1, 500), 1, 1),
    (conjugate_gradient, (SYMMETRIC, X, 1e-8), 1, 1), (newton, (X + 1,), 1, 1),
    (range_with_break, (X, 0.1, 3), 1, 1), (range_with_break, (X, 0.1, 500), 1, 1),
    (pairs, (X, 0.1), 1, 1), (leaves_in_the_middle, (X, 0.1), 1, 1), (negated, (X, 0.1), 1, 1),
    (with_else, (X, 0.1), 1, 1), (power_iteration, (SYMMETRIC, 1e-4), 1, 1),
    (counts_turns, (X, 0.1, 5), 1, 1), (counts_turns, (X + 0, 0.1, 500), 1, 1),
    (counter_of_the_break, (X, 0.1, 500), 1, 1), (counter_of_the_break, (X, 0.1, 2), 1, 1),
    (counts_down, (X, 0.1), 1, 1), (counts_down, (X, 1e9), 1, 1),
    (counts_in_a_tuple, (X, 0.1), 1, 1), (counts_in_a_tuple, (X, 1e9), 1, 1),
    (numbers_of_all_kinds, (X, 0.5, 500), 1, 1), (numbers_of_all_kinds, (X, 0.5, 3), 1, 1),
    (numbers_of_all_kinds, (X, 1e9, 500), 1, 1),
    (arithmetic_with_a_count, (X, 0.1), 1, 1), (arithmetic_with_a_count, (X, 1e9), 1, 1),
    (count_in_an_error, (X, 0.1), 1, 1), (leaves_with_the_count, (X, 0.1), 1, 1),
    (halve_sum, (X * float("nan"), 0.1), 1, 1), (negated, (X * float("-inf"), 0.1), 1, 1),
]  # fmt: skip


def two_names(x, tolerance):
    x = x + 1
    y = x
    while x.sum() > tolerance:
        x = x * 0.5
    return x is y, x, y


def decides_by_data(x, tolerance):
    x = x + 1
    while x.sum() > tolerance:
        x = x * 0.5 if x[0] > 0.01 else x * 0.25
    return x


def writes(x, tolerance):
    x = x.clone()
    while x.sum() > tolerance:
        x *= 0.5
    return x


def collects(x, tolerance):
    seen = []
    x = x + 1
    while x.sum() > tolerance:
        x = x * 0.5
        seen.append(x)
    return seen


def grows(x, n):
    while x.sum() < n:
        x = dj.cat([x, x[-1:]])
    return x


def other_dtype_later(x, tolerance):
    x = x.to(dj.int64) * 100
    while x.sum() > tolerance:
        x = x / 2
    return x


def counts_beyond_an_int64(x, tolerance):
    x, k = x + 1, 1 << 61
    while x.sum() > tolerance:
        x = x * 0.5
        k += 1 << 60
    return x, k


def asks_for_the_count(x, tolerance):
    x, k = x + 1, 0
    while x.sum() > tolerance:
        x = x * 0.5
        k += 1
    texts = f"{k:03d}", f"{k} {k:.1f}", str(k), repr(k), bool(k), "ab" * k
    numbers = k / 2, k // 2, k % 3, k**2, 1.5 * k, k + True, divmod(k, 3), max(k, 3), sum([k, 1])
    others = {k: 1}, [k] == [8], k in (1, 8), [0] * k, list(range(k)), hash(k), k.bit_length()
    kinds = type(k), isinstance(k, int), k is None, int(k), float(k), round(k), k.real, k & 1
    return texts, numbers, others, kinds, x * k, x[:k], k * x


def identity_of_the_count(x, tolerance):
    x, k = x + 1, 0
    while x.sum() > tolerance:
        x = x * 0.5
        k += 1
    eight, true = int("8"), bool(x.shape)
    return x, k is eight, k is k, (k > 3) is true


def set_in_turns_only(x, tolerance):
    x = x + 1
    y = None
    while x.sum() > tolerance:
        y = x * 2
        x = x * 0.5
    return x, y


OTHERS = [
    (counts_turns, (X, 0.1, 0)), (numbers_of_all_kinds, (X, 0.5, 0)),
    (counter_of_the_break, (X, 0.1, 1)),
    (counts_beyond_an_int64, (X, 0.1)), (asks_for_the_count, (X, 0.1)),
    (identity_of_the_count, (X, 0.1)),
    (two_names, (X, 0.1)), (two_names, (X, 1e9)), (decides_by_data, (X, 0.1)), (writes, (X, 0.1)),
    (collects, (X, 0.1)), (grows, (X, 60.0)), (other_dtype_later, (X, 0.1)),
    (set_in_turns_only, (X, 0.1)), (set_in_turns_only, (X, 1e9)),
]  # fmt: skip


def assert_same(expected: Any, found: Any) -> None:
    """Equal in values, types, dtypes, shapes and strides."""
    assert type(expected) is type(found)
    if isinstance(expected, dict):
        assert_same([*expected.items()], [*found.items()])
    elif isinstance(expected, (tuple, list)):
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            assert_same(a, b)
    elif isinstance(expected, dj.Tensor):
        assert (expected.dtype, expected.shape) == (found.dtype, found.shape)
        assert expected.stride() == found.stride()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-5, atol=1e-6)
    else:
        assert expected == found


def loops_of(function: Any, *args: Any) -> tuple[int, int]:
    """How many graphs one call has, and how many loops."""
    graphs = dj.explain(function)(*args).graphs
    return len(graphs), sum(str(graph).count("rows['loop']") for graph in graphs)


@pytest.mark.parametrize(
    ("function", "args", "graphs", "loops"), LOOPS, ids=[f.__name__ for f, *_ in LOOPS]
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_turns_that_do_the_same_are_one_loop(function, args, graphs, loops) -> None:
    """However many there are: the data says."""
    if "negated" in function.__name__ and not np.isfinite(args[0].numpy()).any():
        args = (X, *args[1:])
    compiled = dj.compile(function)
    expected = function(*args)
    assert_same(expected, compiled(*args))
    assert_same(expected, compiled(*args))
    assert loops_of(function, *args) == (graphs, loops)


@pytest.mark.parametrize(
    ("function", "args"), OTHERS, ids=[f"{f.__name__}_{a[-1]}" for f, a in OTHERS]
)
def test_other_loops_give_what_python_gives(function, args) -> None:
    """They break in a turn, or in all."""
    compiled = dj.compile(function)
    expected = function(*args)
    assert_same(expected, compiled(*args))
    assert_same(expected, compiled(*args))


def test_one_version_serves_any_number_of_turns() -> None:
    """Nothing is compiled again."""
    compiled = dj.compile(conjugate_gradient)
    for tolerance in (1e3, 1.0, 1e-2, 1e-8):
        found = compiled(SYMMETRIC, X, tolerance)
        assert_same(conjugate_gradient(SYMMETRIC, X, tolerance), found)
    assert not compiled.report().recompiles


def test_an_argument_that_no_turn_changes_is_itself() -> None:
    """Python returns the object."""
    x = X.clone()
    assert dj.compile(halve)(x, 1e9) is x


def test_gradients_are_those_of_eager_execution() -> None:
    """Such loops break, as they did."""
    gradients = []
    for function in (halve_sum, dj.compile(halve_sum)):
        x = X.clone().requires_grad_()
        function(x, 0.1).sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(gradients[1], gradients[0])


def test_while_loop_is_a_loop() -> None:
    """Of functions of the program's own."""

    def run(x):
        return while_loop(
            lambda x, k: x.sum() > 0.1, lambda x, k: (x * 0.5, k + 1), (x, dj.tensor(0))
        )

    assert_same(run(X), dj.compile(run, fullgraph=True)(X))
    assert loops_of(run, X) == (1, 1)
    assert while_loop(lambda x: False, lambda x: (x,), (X,))[0] is not X


def swapped(a, b):
    a = a + 1
    while a.sum() > 2.0:
        a = a * 0.5
        a, b = b, a
    return a


def handed_on(a, b):
    a, c = a + 1, b * 4
    while a.sum() > 2.0:
        a, c = c, b
    return a


@pytest.mark.parametrize("function", [swapped, handed_on])
def test_an_argument_that_a_turn_hands_on_is_itself(function: Any) -> None:
    compiled = dj.compile(function)
    for a, b in ((4.0, 0.1), (0.5, 0.1), (4.0, 1.0), (4.0, 0.6)):
        given = dj.tensor([a]), dj.tensor([b])
        expected, found = function(*given), compiled(*given)
        assert_same(expected, found)
        assert (expected is given[1]) is (found is given[1])


def test_a_loop_without_an_end_is_interrupted() -> None:
    """By what Python raises in the main thread: Ctrl-C."""
    compiled = dj.compile(halve_sum)
    compiled(X, 0.1)
    timer = threading.Timer(0.5, _thread.interrupt_main)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # others may ignore it
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            compiled(X + float("inf"), 0.1)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("part", [lambda x, i: x[i], lambda x, i: x[0:2, 1], lambda x, i: x.T[1]])
def test_turns_may_be_the_first_to_look_at_part_of_a_tensor(part: Any) -> None:
    def run(x, w):
        i = 0
        while w.sum() < 10 and i < 40:
            w = w * 0.9 + part(x, i).sum()
            i += 1
        return w

    x, w = dj.rand(50, 3), dj.zeros(2)
    dj.testing.assert_close(dj.compile(run, fullgraph=True)(x, w), run(x, w))
    assert loops_of(run, x, w) == (1, 1)
