"""`for i in range(n)`: one loop of the graph where turns do the same, and always plain results."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.support.loops import loops_of as every_loop_of

X = dj.arange(6.0)
MATRIX = dj.tensor((np.random.default_rng(0).random((6, 6)) + 0.1).astype(np.float32))
ROWS = dj.tensor(np.random.default_rng(1).random((50, 6)).astype(np.float32))


def heat(u, n):
    for _ in range(n):
        u = u + 0.1 * (dj.roll(u, 1, 0) + dj.roll(u, -1, 0) - 2 * u)
    return u


def two_values(x, y, n):
    for i in range(n):
        x, y = y * 0.9, x + 0.1 * i
    return x, y, i


def value_before(x, n):
    before = x
    for i in range(n):  # noqa: B007
        before = x
        x = x * 0.9 + 1
    return before, x, i


def recurrence(xs, h):
    for t in range(xs.shape[0]):
        h = dj.tanh(h * 0.5 + xs[t])
    return h, t


def reversed_recurrence(xs, h):
    for t in range(xs.shape[0] - 1, -1, -1):
        h = dj.tanh(h * 0.5 + xs[t])
    return h, t


def view_of_the_last_row(xs, h):
    for t in range(xs.shape[0]):
        row = xs[t]
        h = h + row
    return h, row


def counters(x, n):
    k, t, rate = 0, 0.0, 1.0
    for _ in range(n):
        x = x + rate * t + k
        k += 2
        t += 0.1
        rate *= 0.9
    return x, k, t, rate


def with_else(x, n):
    for i in range(n):  # noqa: B007
        x = x + 1
        continue
    else:
        x = x * 2
    return x, i


def nested(x, n):
    total = x * 0
    for i in range(n):
        for j in range(n):
            total = total + x * (i - j)
    return total, i, j


def power_iteration(a, x, n):
    for _ in range(n):
        y = a @ x
        x = y / dj.linalg.norm(y)
    return x, x @ (a @ x), y


def down(x):
    for i in range(100, 0, -3):
        x = x + i
    return x, i


def formulas_of_the_counter(x, n):
    for i in range(n):
        x = x + i / 10 + i**2 % 7
    return x


def integers(n):
    k = dj.zeros(3, dtype=dj.int64)
    for i in range(n):
        k = k + i
    return k


def choose(x, n):
    for i in range(n):
        x = dj.where(x > i, x * 0.9, x + 1)
    return x


def euler(x, v, n):
    dt = 0.01
    for _ in range(n):
        x, v = x + dt * v, v - dt * dj.sin(x)
    return x, v


def runge_kutta(x, n):
    h = 0.01
    for step in range(n):
        t = step * h
        k1 = dj.cos(x) + t
        k2 = dj.cos(x + h / 2 * k1) + t + h / 2
        k3 = dj.cos(x + h / 2 * k2) + t + h / 2
        k4 = dj.cos(x + h * k3) + t + h
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


def jacobi(a, b, n):
    d = dj.diagonal(a) + 10
    x = dj.zeros_like(b)
    for _ in range(n):
        x = (b - a @ x + dj.diagonal(a) * x) / d
    return x


def page_rank(a, n):
    links = a / a.sum(0)
    rank = dj.ones(6) / 6
    for _ in range(n):
        rank = 0.85 * (links @ rank) + 0.15 / 6
    return rank


def sinkhorn(a, n):
    u = dj.ones(6)
    for _ in range(n):
        v = 1 / (a.T @ u)
        u = 1 / (a @ v)
    return u[:, None] * a * v


def value_iteration(rewards, p, n):
    v = dj.zeros(6)
    for _ in range(n):
        v = dj.maximum(rewards + 0.9 * (p @ v), v)
    return v


def mandelbrot(re, im, n):
    x, y, count = re * 0, im * 0, dj.zeros(6, dtype=dj.int64)
    for _ in range(n):
        x, y = x * x - y * y + re, 2 * x * y + im
        alive = x * x + y * y < 4
        count = count + alive.to(dj.int64)
        x, y = dj.where(alive, x, x * 0 + 9), dj.where(alive, y, y * 0)
    return count


def newton(x, n):
    for _ in range(n):
        x = x - (x * x - 2) / (2 * x)
    return x


#: Programs whose turns do the same, arguments, and how many loops their graph has.
LOOPS = [
    (heat, (X, 60)), (two_values, (X, X + 1, 60)), (value_before, (X, 60)),
    (recurrence, (ROWS, X)), (reversed_recurrence, (ROWS, X)), (view_of_the_last_row, (ROWS, X)),
    (counters, (X, 70)), (with_else, (X, 60)), (nested, (X, 20)),
    (power_iteration, (MATRIX, X, 60)), (down, (X,)), (formulas_of_the_counter, (X, 60)),
    (integers, (60,)), (choose, (X, 60)), (euler, (X, X + 1, 60)), (runge_kutta, (X, 60)),
    (jacobi, (MATRIX, X, 60)), (page_rank, (MATRIX, 60)), (sinkhorn, (MATRIX, 60)),
    (value_iteration, (X, MATRIX / MATRIX.sum(1, keepdim=True), 60)),
    (mandelbrot, (X / 5 - 1, X / 10, 60)), (newton, (X + 1, 60)),
]  # fmt: skip


def swap(x, y, n):
    for _ in range(n):
        x, y = y, x
    return x, y


def leaves_early(x, n):
    for i in range(n):
        x = x + 1
        if i == n - 5:
            break
    else:
        x = x * 100
    return x, i


def leaves_in_the_first_turn(x, n):
    for _ in range(n):
        break
    return x


def other_dtype_later(x, n):
    for i in range(n):
        x = x + 1
        if i == 40:
            x = x.double()
    return x


def other_shape(x, n):
    for _ in range(n):
        x = dj.cat([x, x[-1:]])
    return x


def raises_later(x, n):
    try:
        for i in range(n):
            x = x + 1
            if i == 50:
                raise ValueError(i)
    except ValueError as error:
        return x, error.args
    return x


def transposes(a, n):
    for _ in range(n):
        a = a.T + 1
    return a


def growing_list(x, n):
    items = [x]
    for item in items:
        if len(items) < n:
            items.append(item + 1)
    return items[-1]


def large_numbers(x, n):
    k = 1
    for _ in range(n):
        x = x + k % 7
        k *= 3
    return x, k


UNROLLED = [
    (swap, (X, X + 1, 61)), (leaves_early, (X, 60)),
    (leaves_in_the_first_turn, (X, 60)),
    (other_dtype_later, (X, 60)), (other_shape, (X, 40)),
    (raises_later, (X, 60)), (transposes, (MATRIX, 60)), (growing_list, (X, 40)),
    (large_numbers, (X, 60)), (heat, (X, 7)), (heat, (X, 1)), (heat, (X, 0)),
]  # fmt: skip


def loops_of(function: Callable[..., Any], *args: Any) -> int:
    """How many loops the graphs of one call have."""
    found = dj.explain(function)(*args)
    return sum(str(graph).count("rows['loop']") for graph in found.graphs)


def assert_same(expected: Any, found: Any) -> None:
    """Equal in values, types, dtypes, shapes and strides."""
    assert type(expected) is type(found)
    if isinstance(expected, tuple):
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            assert_same(a, b)
    elif isinstance(expected, dj.Tensor):
        assert (expected.dtype, expected.shape) == (found.dtype, found.shape)
        assert expected.stride() == found.stride()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-5, atol=1e-6)
    else:
        assert expected == found


@pytest.mark.parametrize(("function", "args"), LOOPS, ids=[f.__name__ for f, _ in LOOPS])
def test_turns_that_do_the_same_are_one_loop(function, args) -> None:
    """With plain Python's results, called twice."""
    compiled = dj.compile(function, fullgraph=True)
    expected = function(*args)
    assert_same(expected, compiled(*args))
    assert_same(expected, compiled(*args))
    assert loops_of(function, *args) == 1


@pytest.mark.parametrize(
    ("function", "args"), UNROLLED, ids=[f"{f.__name__}_{a[-1]}" for f, a in UNROLLED]
)
def test_other_loops_are_unrolled(function, args) -> None:
    """As they were, with plain Python's results."""
    assert_same(function(*args), dj.compile(function)(*args))
    assert loops_of(function, *args) == 0


@pytest.mark.parametrize("turns", [7, 8, 200])
def test_loops_of_eight_turns_are_loops_of_the_graph(turns: int) -> None:
    """However few operations they have."""
    assert loops_of(value_before, X, turns) == (turns > 7)


@pytest.mark.parametrize("turns", range(6, 12))
def test_every_number_of_turns_around_the_fewest_is_right(turns) -> None:
    """The first turns, and the last, are captured as they come."""
    for function, args in ((value_before, (X, turns)), (counters, (X, turns))):
        assert_same(function(*args), dj.compile(function)(*args))


def test_a_graph_does_not_grow_with_the_number_of_turns() -> None:
    """Nor do its kernels."""
    few, many = (dj.explain(runge_kutta)(X, n) for n in (100, 10_000))
    nodes = [len(report.graphs[0].nodes) for report in (few, many)]
    assert nodes[0] == nodes[1]
    assert str(few).splitlines()[0] == str(many).splitlines()[0]


def test_an_index_out_of_range_in_a_late_turn_raises_as_python_does() -> None:
    """The launch refuses it, and the function runs plainly."""

    def sums(xs, h, seen):
        seen.append(1)
        for t in range(60):
            h = h + xs[t]
        return h

    errors = []
    for function in (sums, dj.compile(sums)):
        seen: list[int] = []
        with pytest.raises(IndexError) as caught:
            function(ROWS, X, seen)
        errors.append((type(caught.value), str(caught.value), seen))
    assert errors[0] == errors[1]


def test_what_a_loop_leaves_is_the_program_s_own() -> None:
    """Views share memory with what they are views of; swapped arguments are the arguments."""
    xs, a, b = ROWS.clone(), X.clone(), X + 1
    _, row = dj.compile(view_of_the_last_row)(xs, X)
    xs[-1, 0] = 7.0
    assert row[0].item() == 7.0
    first, second = dj.compile(swap)(a, b, 61)
    assert first is b and second is a


def test_loops_that_gradients_pass_are_unrolled() -> None:
    """Their derivatives are those of eager execution."""
    gradients = []
    for function in (heat, dj.compile(heat)):
        u = X.clone().requires_grad_()
        (function(u, 30) * X).sum().backward()
        gradients.append(u.grad.numpy())
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5)


def test_a_loop_without_gradients_stands_beside_parameters() -> None:
    """Under `no_grad`, and in front of what is differentiated."""

    def run(w, x, n):
        with dj.no_grad():
            for _ in range(n):
                x = dj.tanh(w * x)
        return (w * x).sum()

    found = []
    for function in (run, dj.compile(run)):
        w = X.clone().requires_grad_()
        function(w, X + 1, 40).backward()
        found.append(w.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    assert loops_of(run, X.clone().requires_grad_(), X + 1, 40) == 1


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_numbers_that_vary_between_calls_are_exact(backend) -> None:
    """A float that is an argument is no float32."""

    def run(x, rate, n):
        for _ in range(n):
            x = x * 0.5 + rate
        return x

    compiled, x = dj.compile(run, backend=backend), dj.zeros(3, dtype=dj.float64)
    for rate in (0.3, 0.2, 0.1):
        np.testing.assert_allclose(compiled(x, rate, 40).numpy(), run(x, rate, 40).numpy(), 1e-14)


def simulation(x, dt, n):
    t, decay = 0.0, 1.0
    for _ in range(n):
        x = x + dj.sin(x * t) * dt * decay
        t += dt
        decay *= 1 - dt
    return x, t, decay


def with_a_float_on_the_way(x, dt, n):
    t, last = 0.5, 0.0
    for i in range(n):
        last, t = t, last + dt * i
        x = x * 0.5 + last
    return x, t, last, t - dt


def with_a_float_in_a_function_of_pythons(x, dt, n):
    t = 0.0
    for _ in range(n):
        x = x * 0.9 + math.atan(t)
        t += dt
    return x, t


def float_then_int(x, dt, n):
    t = dt
    for i in range(n):
        x = x + t
        t = t * 2 if i < 20 else i
    return x, t


@pytest.mark.parametrize("dtype", [dj.float32, dj.float64])
@pytest.mark.parametrize(
    ("function", "count"),
    [
        (simulation, 1), (with_a_float_on_the_way, 1),
        (with_a_float_in_a_function_of_pythons, None), (float_then_int, None),
    ],
)  # fmt: skip
def test_floats_that_arguments_change_are_handed_on(function, count, dtype) -> None:
    """To the bit."""
    compiled, x = dj.compile(function), dj.arange(6.0, dtype=dtype)
    for dt in (0.1, 0.3, -0.07, 1e-3, float("nan"), math.inf, 0.1):
        expected, found = function(x, dt, 40), compiled(x, dt, 40)
        dj.testing.assert_close(found[0], expected[0], equal_nan=True, rtol=1e-4, atol=1e-5)
        assert repr(expected[1:]) == repr(found[1:])
    if count is not None:
        assert count == loops_of(function, x, 0.1, 40)


def test_a_float_that_is_handed_on_needs_no_version_of_its_own() -> None:
    compiled = dj.compile(simulation, fullgraph=True)
    for dt in (0.1, 0.3, -0.07, 1e-3):
        assert_same(simulation(X, dt, 40), compiled(X, dt, 40))
    assert compiled.entry_count <= 2  # a number is a parameter from its second value on


def langevin(x, n):
    for _ in range(n):
        x = x - 0.1 * x + 0.3 * dj.randn_like(x)
    return x


def draws_around(x, n):
    x = x + dj.rand(6)
    for i in range(n):
        x = x * 0.5 + i * dj.rand(6)
        x = x + dj.randn(3, 1, dtype=dj.float64).float().sum()
    return x, dj.randn(2), dj.rand(5)


def draws_in_rows(x, n):
    seen, rows = [], dj.zeros((n, 6))
    for i in range(n):
        x = dj.nn.functional.dropout(x, 0.3, True) + dj.bernoulli(dj.full((6,), 0.5))
        rows[i] = dj.rand(6)
        seen.append(dj.randint(0, 9, (2,)))
    return x, rows, dj.stack(seen)


def drawn_places(x, n):
    for _ in range(n):
        x = x[dj.randperm(6)] * 0.9
        x = x + dj.multinomial(dj.softmax(x, 0), 2).sum() + dj.rand(1).item()
        x = x + dj.empty(6).normal_(1, 2) + dj.distributions.Normal(x, 1.0).sample()
    return x


def loops_that_draw(x, n):
    for i in range(n):
        x = x * 0.9 + dj.rand(6)
        for j in range(n + 3):
            x = x * 0.9 + dj.randn(6) * (j - i)
        for _ in range(10):
            x = x * 0.9 + dj.rand(())
        x = x + dj.rand(2).sum()
    return x, dj.rand(3)


def samples_that_draw(x, n):
    def sample(v):
        return v + dj.rand(())

    for _ in range(n):
        x = x * 0.5 + dj.vmap(sample, randomness="different")(x)
    return x


def draws_unread(x, n):
    for _ in range(n):
        dj.rand(5)
        x = x + 1
    return x, dj.rand(2)


DRAWING = [
    (langevin, 1), (draws_around, 1), (draws_in_rows, 1), (drawn_places, 1), (loops_that_draw, 9),
    (samples_that_draw, 1), (draws_unread, 1),
]  # fmt: skip


def tensors_of(results):
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize(
    ("function", "count"), DRAWING, ids=[function.__name__ for function, _ in DRAWING]
)
def test_turns_draw_what_python_draws(function, count, backend) -> None:
    """To the bit, in each call; and the generator is where Python leaves it."""
    compiled = dj.compile(function, fullgraph=True, backend=backend)
    dj.manual_seed(3)
    expected = [function(X, turns) for turns in (12, 12, 30)]
    state = dj.get_rng_state()
    dj.manual_seed(3)
    for turns, results in zip((12, 12, 30), expected, strict=True):
        found = compiled(X, turns)
        assert_same(results, found)
        assert all(map(dj.equal, *map(tensors_of, (results, found))))
    assert dj.get_rng_state().tolist() == state.tolist()
    assert every_loop_of(function, X, 12) == count


def drawn_until(x, n):
    for _ in range(n):
        x = x * 0.9 + dj.rand(6)
        if x.sum() > 25:
            break
    return x, dj.rand(2)


def drawn_while(x, n):
    while x.sum() < n:
        x = x + dj.rand(6)
    return x, dj.rand(2)


def drawn_in_an_arm(x, n):
    for _ in range(n):
        if x.sum() > 20:
            x = x * 0.5 + dj.rand(6)
        else:
            x = x + 1
    return x, dj.rand(2)


def draws_at_first(x, n):
    for i in range(n):
        x = x + (dj.rand(6) if i < 2 else 0.5)
    return x, dj.rand(2)


def seeded(x, n):
    for i in range(n):
        dj.manual_seed(i % 3)
        x = x * 0.5 + dj.rand(6)
    return x, dj.rand(2)


@pytest.mark.parametrize(
    "function", [drawn_until, drawn_while, drawn_in_an_arm, draws_at_first, seeded]
)
def test_draws_of_which_nobody_knows_how_many_there_are_stay_python_s(function) -> None:
    """They are unrolled, or break."""
    compiled = dj.compile(function)
    dj.manual_seed(3)
    expected = [function(X, 30) for _ in range(2)]
    state = dj.get_rng_state()
    dj.manual_seed(3)
    for results in expected:
        assert_same(results, compiled(X, 30))
    assert dj.get_rng_state().tolist() == state.tolist()


def test_a_loop_that_draws_serves_all_sizes() -> None:
    """Those of one size each, where sizes vary: how many blocks a turn uses depends on it."""
    compiled = dj.compile(langevin, dynamic=True)
    for size in (6, 9, 40):
        dj.manual_seed(3)
        expected = langevin(dj.arange(float(size)), 20)
        dj.manual_seed(3)
        assert_same(expected, compiled(dj.arange(float(size)), 20))
