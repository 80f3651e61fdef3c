"""`if` on data in a loop: both arms are captured where they only compute; else it breaks."""

import math
from typing import Any

import numpy as np
import pytest

import dynajit as dj

RANDOM = np.random.default_rng(0)
U = RANDOM.random(40)
NOISE = RANDOM.normal(size=(60, 3))
CHANCES = np.log(RANDOM.random(60))
WHOLE = RANDOM.integers(0, 9, 40)
DIVISORS = RANDOM.integers(0, 3, 40)
PLACES = RANDOM.integers(0, 80, 40)
WITH_NAN = np.where(RANDOM.random(40) < 0.3, np.nan, RANDOM.integers(-1, 2, 40))


def above(u, t):
    s = u[0] * 0
    for i in range(u.shape[0]):
        if u[i] > t:
            s = s + u[i]
        else:
            s = s - 0.5
    return s


def without_else(u, t):
    s = np.float64(0.0)
    for i in range(len(u)):
        if u[i] > t:
            s = s + u[i]
    return s


def both_conditions(u, t):
    s = u[0] * 0
    for i in range(40):
        if (t < u[i] < 0.9 and u[i - 1] > 0.1) or not u[i] > 0.05:
            s = s + u[i]
    return s


def three_arms(u, t):
    s = u[0] * 0
    for i in range(40):
        if u[i] > 0.8:
            s = s + 10
        elif u[i] > t:
            s = s + 1
        else:
            s = s * 0.99
    return s


def chosen(u, t):
    s = u[0] * 0
    for i in range(40):
        s = s + (u[i] * 2 if u[i] > t else s * 0.1)
    return s


def goes_on(u, t):
    s = u[0] * 0
    for i in range(40):
        if u[i] > t:
            continue
        s = s + u[i]
    return s


def clipped(x, t):
    if x > t:
        return x * 0.1
    y = x + 0.3
    return y


def in_a_function(u, t):
    x = u[0] * 0
    for _ in range(40):
        x = clipped(x, t)
    return x


def in_a_while_loop(u, t):
    x = u * 1.0
    while (x * x).sum() > 0.01:
        if x[0] > x[1]:
            x = x * 0.8
        else:
            x = x * 0.9 - 0.001 * t
    return x


def variables_of_an_arm(u, t):
    s = u[0] * 0
    for i in range(40):
        d = u[i] * 3
        if u[i] > t:
            d = u[i] - t
            square = d * d
            s = s + square
    return s + d


def bisection(low, high):
    low, high = low * 1.0, high * 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if middle * middle > 2:
            high = middle
        else:
            low = middle
    return low, high


def adaptive_steps(y, h):
    t, y = h * 0, y * 1.0
    for _ in range(60):
        k1 = -y
        k2 = -(y + h * k1)
        if abs(k2 - k1).max() * h < 0.01:
            y, t, h = y + h * (k1 + k2) / 2, t + h, h * 1.2
        else:
            h = h * 0.5
    return y, t


def metropolis(x, noise, chances):
    total, x = np.zeros(3), x.copy()
    for i in range(len(chances)):
        proposed = x + noise[i]
        gain = (x**2).sum() - (proposed**2).sum()
        if gain > 0 or chances[i] < gain:
            x = proposed
        total = total + x
    return x, total


def nearest(u, t):
    best, place = np.float64(1e9), np.int64(0)
    for i in range(len(u)):
        distance = abs(u[i] - t)
        if distance < best:
            best, place = distance, np.int64(i)
    return best, place


def best_of(u, t):
    x, best, kept = u * 1.0, dj.tensor(1e9), u * 0
    for _ in range(40):
        x = x * 0.9 - t
        error = (x * x).sum()
        if error < best:
            best = error
            kept = x.clone()
    return best, kept


def quotients(a, b):
    s = np.int64(0)
    for i in range(len(a)):
        if b[i] != 0:
            s = s + a[i] // b[i] + a[i] % b[i]
    return s


def within(u, places):
    s = np.float64(0)
    for i in range(len(u)):
        if places[i] < 40:
            s = s + u[places[i]]
    return s


def nan_is_true(u, t):
    s = np.float64(t)
    for i in range(len(u)):
        if u[i]:
            s = s + 1.0
        if not u[i] > 0:
            s = s + 100.0
    return s


def tensors(*arrays: Any) -> tuple[Any, ...]:
    return tuple(dj.tensor(a) if isinstance(a, np.ndarray) else a for a in arrays)


def same(expected: Any, found: Any) -> None:
    """Equal values of equal types."""
    if isinstance(expected, tuple):
        assert type(found) is tuple
        for a, b in zip(expected, found, strict=True):
            same(a, b)
        return
    assert type(expected) is type(found)
    a, b = np.asarray(expected), np.asarray(found)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    np.testing.assert_allclose(b, a, 1e-6)


CAPTURED = [
    (above, (U, 0.5)), (above, tensors(U, 0.5)), (without_else, (U, 0.5)),
    (both_conditions, tensors(U, 0.5)), (three_arms, (U, 0.4)), (three_arms, tensors(U, 0.4)),
    (goes_on, tensors(U, 0.4)), (chosen, tensors(U, 0.4)), (in_a_function, tensors(U, 0.7)),
    (in_a_while_loop, tensors(U, 0.5)), (variables_of_an_arm, tensors(U, 0.5)),
    (bisection, tensors(np.zeros(1), np.full(1, 2.0))), (bisection, (np.zeros(1), np.full(1, 2.0))),
    (adaptive_steps, tensors(np.ones(3), np.full((), 0.5))), (metropolis, (U[:3], NOISE, CHANCES)),
    (nearest, (U, 0.3)), (best_of, tensors(U[:4].astype(np.float32), 0.1)),
    (quotients, (WHOLE, DIVISORS)),
    (within, (U, PLACES)), (nan_is_true, (WITH_NAN, 0.5)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "args"), CAPTURED, ids=[f"{f.__name__}-{type(a[0]).__name__}" for f, a in CAPTURED]
)
def test_arms_that_only_compute_are_one_graph(function, args):
    expected = function(*args)
    compiled = dj.compile(function, fullgraph=True)

    for _ in range(2):
        same(expected, compiled(*args))


def test_the_same_code_serves_all_outcomes():
    compiled = dj.compile(above, fullgraph=True)
    for t in (-1.0, 0.2, 0.9, 2.0, math.nan):
        same(above(U, t), compiled(U, t))


def test_a_zero_divisor_of_the_arm_that_runs_is_pythons():
    def function(a, b):
        s = a[0] * 0
        for i in range(40):
            if b[i] < 2:
                s = s + a[i] // b[i]
        return s

    a, b = dj.tensor(WHOLE), dj.tensor(DIVISORS)
    with pytest.raises(Exception) as eager:
        function(a, b)
    with pytest.raises(Exception) as compiled:
        dj.compile(function)(a, b)

    assert type(compiled.value) is type(eager.value)


def test_an_index_out_of_range_in_the_arm_that_runs_is_pythons():
    def function(u, places):
        s = np.float64(0)
        for i in range(len(u)):
            if places[i] > 10:
                s = s + u[places[i]]
        return s

    with pytest.raises(IndexError):
        dj.compile(function)(U, PLACES)


def appends(u, t):
    kept = []
    for i in range(20):
        if u[i] > t:
            kept.append(i)
    return kept, u.sum()


def other_dtype(u, t):
    s = u[0] * 0
    for i in range(20):
        if u[i] > t:
            s = (s + 1).to(dj.int64)
    return s


def becomes_a_tensor(u, t):
    s = 0.0
    for i in range(20):
        if u[i] > t:
            s = s + u[i]
    return s


def raises(u, t):
    for i in range(20):
        if u[i] > t + 1:
            raise ValueError(i)
    return u * 2


def known_elsewhere(u, t):
    kept = u * 0
    x = u * 1.0
    for _ in range(20):
        x = x * 0.9
        if x[0] < t:
            kept = x
        x += 0.1
    return kept, x


def is_asked(u, t):
    x, y, count = u * 1.0, u * 2.0, 0
    for _ in range(20):
        z = x if x[0] > t else y
        x = x * 0.9
        count += z is y
    return count


def draws(u, t):
    s = u[0] * 0
    for i in range(20):
        if u[i] > t:
            s = s + dj.rand(())
    return (s > 0) + 0


@pytest.mark.parametrize(
    "function",
    [appends, other_dtype, becomes_a_tensor, raises, known_elsewhere, is_asked, draws],
)
def test_other_arms_are_as_in_plain_python(function):
    args = tensors(U, 0.5)

    for _ in range(2):
        expected, found = function(*args), dj.compile(function)(*args)
        assert type(expected) is type(found)
        for a, b in zip(
            *(x if isinstance(x, tuple) else (x,) for x in (expected, found)), strict=True
        ):
            np.testing.assert_allclose(np.asarray(b), np.asarray(a), 1e-12)
    with pytest.raises(dj.errors.GraphBreakError):
        dj.compile(function, fullgraph=True)(*args)


def test_an_exception_of_an_arm_is_pythons():
    with pytest.raises(ValueError, match=r"^3$"):
        dj.compile(raises)(dj.tensor([0.0, 0, 0, 2.0] * 5), 0.5)


def test_gradients_are_those_of_the_arm_that_runs():
    def function(x):
        for _ in range(20):
            if x.sum() > 1:
                x = x * 0.9
            else:
                x = x.sqrt() + 0.05
        return x

    expected, found = (dj.tensor([0.0, 0.3, 0.9]).requires_grad_() for _ in range(2))
    function(expected).sum().backward()
    dj.compile(function)(found).sum().backward()

    np.testing.assert_allclose(found.grad.numpy(), expected.grad.numpy(), 1e-5)


def masked(x, w):
    for _ in range(40):
        if (x * w).sum() > 1:
            x = x * 0.9 * w
        elif x[0] > 0.5:
            x = (x / w).log().abs()
        else:
            x = x + w.sqrt() * 0.05
    return x


def by_cond(x, w):
    y = dj.cond(x.sum() > 1, lambda x: (x * w, x.sqrt()), lambda x: (x - w, x.log()), (x,))
    return y[0] * y[1]


@pytest.mark.parametrize("function", [masked, by_cond])
@pytest.mark.parametrize("start", [[0.0, 0.3, 0.9], [0.0, 0.2, 0.1], [3.0, 2.0, 1.0]])
def test_infinite_derivatives_of_the_other_arm_are_nothing(function, start):
    expected, found = (
        (dj.tensor(start).requires_grad_(), dj.tensor([0.0, 1.0, 1.2]).requires_grad_())
        for _ in range(2)
    )
    function(*expected).sum().backward()
    dj.compile(function, fullgraph=True)(*found).sum().backward()

    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), 1e-4)


def test_what_one_arm_alone_depends_on_has_no_gradient_where_the_other_runs():
    def function(x, w):
        for _ in range(20):
            if x.sum() > 100:
                x = x * w
            else:
                x = x * 0.9
        return x

    for start in (1.0, 200.0):
        expected, found = (
            (dj.full((3,), start).requires_grad_(), dj.ones(3).requires_grad_()) for _ in range(2)
        )
        function(*expected).sum().backward()
        dj.compile(function)(*found).sum().backward()
        assert [a.grad is None for a in expected] == [a.grad is None for a in found]


@pytest.mark.parametrize("place", ["rows[i % 4]", "rows[places[i]]", "rows.view(-1)[3:6]"])
def test_writes_of_an_arm_are_kept_with_their_gradients(place):
    space: dict[str, Any] = {}
    program = f"""
def function(rows, x, places):
    for i in range(20):
        if x[i % 3] > 0.5:
            {place} = x * i
    return rows * 1
"""
    exec(program, space)
    given = [U[:3].astype(np.float32), PLACES % 4]
    grads = []
    for function in (space["function"], dj.compile(space["function"])):
        x, places = dj.tensor(given[0]).requires_grad_(), dj.tensor(given[1])
        found = function(dj.zeros(4, 3), x, dj.cat([places[:20], places]))
        (found * found).sum().backward()
        grads.append((found.detach(), x.grad))

    same(*grads)


def test_second_derivatives_and_tangents_are_those_of_eager_execution():
    def cubes(x):
        for _ in range(20):
            x = x * 0.9 if x.sum() > 1 else x + 0.05 * x * x
        return (x**3).sum()

    def function(x):
        return dj.func.hessian(cubes)(x), dj.func.jvp(cubes, (x,), (dj.ones_like(x),))[1]

    x = dj.tensor([0.1, 0.4, 0.6])
    same(function(x), dj.compile(function)(x))


def test_cond_of_functions_with_effects_is_as_in_plain_python():
    told = []

    def function(x):
        return dj.cond(x.sum() > 1, lambda x: told.append(1) or x * 2, lambda x: x - 1, (x,))

    compiled = dj.compile(function)
    for x in (dj.ones(3), dj.zeros(3)):
        same(function(x), compiled(x))
    assert told == [1, 1]


def test_cond_that_gives_an_operand_gives_that_very_tensor():
    def function(x):
        return dj.cond(x.sum() > 1, lambda x: x, lambda x: x - 1, (x,))

    x = dj.ones(3)
    assert dj.compile(function)(x) is x


def test_outside_loops_a_jump_on_a_tensor_breaks():
    def function(x):
        y = x * 2
        if y.sum() > 1:
            y = y + 1
        return y

    assert len(dj.explain(function)(dj.rand(3)).breaks) == 1
