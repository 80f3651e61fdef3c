"""Loops that go on until a number of Python's says so: `while k < n`, `while True: ... break`.

Results are plain Python's in values, classes, memory and gradients.
"""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.support.loops import assert_same, loops_of

X = dj.arange(6.0).cos()


def up(x):
    i = 0
    while i < 100:
        x = x * 0.9 + i * 0.01
        i += 1
    return x, i


def down(x):
    i = 100
    while i > 0:
        x = x * 0.9 + i * 0.01
        i -= 3
    return x, i


def until_zero(x):
    i = 60
    while i:
        x = x * 0.9 + i
        i -= 1
    return x, i


def not_equal(x):
    i = 0
    while i != 60:
        x = x * 0.9 + i
        i += 2
    return x, i


def negated(x):
    i = 0
    while not i >= 40:
        x = x * 0.9 + i
        i += 1
    return x, i


def by_floats(x):
    t, dt = 0.0, 0.01
    while t < 1.0:
        x = x + dt * (t - x)
        t += dt
    return x, t


def halves(x):
    r = 1.0
    while r > 1e-6:
        x = x * 0.9 + r
        r *= 0.5
    return x, r


def quotients(x):
    n = 1 << 40
    while n > 1:
        x = x * 0.9 + n % 7
        n //= 2
    return x, n


def of_two_conditions(x):
    i, j = 0, 200
    while i < 150 and j > 60:
        x = x * 0.9 + i * j * 1e-4
        i += 1
        j -= 2
    return x, i, j


def of_either_condition(x):
    i, j = 0, 100
    while i < 50 or j > 20:
        x = x * 0.9 + i * j * 1e-4
        i += 1
        j -= 1
    return x, i, j


def assigned_in_the_test(x):
    n = 50
    while (n := n - 1) > 0:
        x = x * 0.9 + n
    return x, n


def broken_at_first(x):
    i = 0
    while True:
        y = x * 2
        if i == 100:
            break
        x = y * 0.45
        i += 1
    return x, y, i


def broken_at_last(x):
    i = 0
    while True:
        x = x * 0.9
        i += 1
        if i >= 100:
            break
        z = x + i
    return x, z, i


def returned(x):
    i = 0
    while True:
        x = x * 0.9
        i += 1
        if i >= 100:
            return x, i


def with_an_else(x):
    i = 0
    while i < 50:
        x = x * 0.9
        i += 1
        if i == 77:
            break
    else:
        x = x + 100
    return x, i


def broken_with_an_else(x):
    i = 0
    while i < 50:
        x = x * 0.9
        i += 1
        if i == 37:
            break
    else:
        x = x + 100
    return x, i


def with_two_kinds_of_turns(x):
    i = 0
    while i < 60:
        if i % 2:
            x = x * 0.9 + i
        else:
            x = x + 1
        i += 1
    return x, i


def said_by_a_variable(x):
    i, done = 0, False
    while not done:
        x = x * 0.9
        i += 1
        done = i >= 40
    return x, i, done


def in_a_try(x):
    i = 0
    while i < 60:
        try:
            x = x * 0.9 + i
        finally:
            i += 1
    return x, i


def appended(x):
    seen, i = [], 0
    while i < 60:
        x = x * 0.9
        seen.append(x.sum())
        i += 2
    return dj.stack(seen), len(seen)


def asked(x):
    seen, i = [], 0
    while i < 60:
        x = x * 0.9
        seen.append(x.double().sum().item())
        i += 1
    return x, *seen


def written(x):
    y, i = dj.zeros(64), 1
    while i < 64:
        y[i] = y[i - 1] * 0.5 + x[i % 6]
        i += 1
    return y, i


def swapped(x):
    a, b, i = x, x * 2, 0
    while i < 41:
        a, b = b, a * 0.5 + b * 0.4
        i += 1
    return a, b, i


def drawn(x):
    i = 0
    while i < 30:
        x = dj.nn.functional.dropout(x, 0.3) + 0.1
        i += 1
    return x, i


class Walk:
    def __init__(self, x):
        self.x, self.steps = x, 0

    def run(self):
        while self.steps < 50:
            self.x = self.x * 0.9 + 1
            self.steps += 1


def of_attributes(x):
    walk = Walk(x)
    walk.run()
    return walk.x, walk.steps


def many_turns(x):
    i = 0
    while i < 200_000:
        x = x * 0.9999 + 1e-5
        i += 1
    return x, i


def of_numpy(x):
    y, i = x.numpy(), 0
    while i < 100:
        y = np.sin(y) + 0.01 * i
        i += 1
    return y, i


def of_fibonacci(x):
    a, b = 0, 1
    while b < 10**6:
        x = x * 0.9 + a % 5
        a, b = b, a + b
    return x, a, b


def around_a_for(x):
    i = 0
    while i < 20:
        for k in range(10):
            x = x * 0.99 + k
        i += 1
    return x, i, k


def within_a_for(x):
    for k in range(12):
        j = 0
        while j < 15:
            x = x * 0.99 + j + k
            j += 1
    return x, j, k


def within_a_while(x):
    i = 0
    while i < 12:
        j = 0
        while j < 15:
            x = x * 0.99 + j
            j += 1
        i += 1
    return x, i, j


LOOPS = {
    up: 1, down: 1, until_zero: 1, not_equal: 1, negated: 1, by_floats: 1, halves: 1, quotients: 1,
    of_two_conditions: 1, of_either_condition: 2, assigned_in_the_test: 1, broken_at_first: 1,
    broken_at_last: 1, returned: 1, with_an_else: 1, broken_with_an_else: 1,
    with_two_kinds_of_turns: 1, said_by_a_variable: 1, in_a_try: 1, appended: 1, asked: 1,
    written: 1, swapped: 1, drawn: 1, of_attributes: 1, many_turns: 1, of_numpy: 1,
    of_fibonacci: 1,
}  # fmt: skip


def that_asks_for_an_outer_counter(x):
    for i in range(12):
        j = 0
        while j < 15:
            x = x * 0.99 + j
            if i == 5:
                x = x + 1
            j += 1
    return x, i, j


NESTED = [around_a_for, within_a_for, within_a_while, that_asks_for_an_outer_counter]


def continued(x):
    i = 0
    while i < 60:
        i += 1
        if i % 7 == 0:
            continue
        x = x * 0.9 + i
    return x, i


def triangular(x):
    for k in range(12):
        j = k
        while j < 15:
            x = x * 0.99 + j
            j += 1
    return x, j


def of_other_shapes(x):
    i = 0
    while i < 20:
        x = x[1:] if i == 4 else x * 0.9
        i += 1
    return x, i


def as_long_as_a_list(x):
    seen = []
    while len(seen) < 30:
        x = x * 0.9
        seen.append(x.sum())
    return x, *seen


def at_most_some_turns(x):
    i = 0
    while i < 3:
        x = x * 0.9
        i += 1
    while i < 2:
        x = x + 1
    return x, i


OTHERS = [
    continued, triangular, of_other_shapes, as_long_as_a_list, at_most_some_turns,
]  # fmt: skip


@pytest.mark.parametrize("function", [*LOOPS, *NESTED, *OTHERS])
def test_results_are_those_of_plain_python(function: Any) -> None:
    compiled = dj.compile(function, fullgraph=True)
    for _ in range(2):
        x, y = X.clone(), X.clone()
        dj.manual_seed(3)
        expected = function(x)
        dj.manual_seed(3)
        assert_same((x, *expected), (y, *compiled(y)))


@pytest.mark.parametrize("function", LOOPS)
def test_turns_that_a_number_ends_are_a_loop(function: Any) -> None:
    assert loops_of(function, X) == LOOPS[function]


@pytest.mark.parametrize("function", NESTED)
def test_nested_loops_are_loops(function: Any) -> None:
    """The first two turns of an outer loop and its last ones have inner loops of their own."""
    assert 2 < loops_of(function, X) < 8


def test_gradients_pass() -> None:
    def run(x):
        i = 0
        while i < 40:
            x = (x * 1.1).sin()
            i += 1
        return x

    grads = []
    for function in (run, dj.compile(run, fullgraph=True)):
        x = X.clone().requires_grad_()
        function(x).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-5)
    assert loops_of(run, X.clone().requires_grad_()) == 1


def test_turns_that_raise_leave_what_python_leaves() -> None:
    def run(x, log):
        i = 0
        while i < 30:
            log[i % 3] = i
            x = x * 0.9 + log[4 if i == 20 else 0]
            i += 1
        return x

    for function in (run, dj.compile(run)):
        log = [0, 0, 0]
        with pytest.raises(IndexError, match="list index out of range"):
            function(X, log)
        assert log == [18, 19, 20]


COUNTED = [
    (0, "i < n", 1), (3, "i <= n", 1), (300, "i > n", -1), (300, "n <= i", -1), (0, "i < 2 * n", 2),
    (400, "not i < n + 3", -3), (0, "not i >= 2 * n - 3", 1), (0, "i != n", 1),
]  # fmt: skip


@pytest.mark.parametrize(("start", "goes_on", "step"), COUNTED)
def test_one_version_serves_all_numbers_of_turns(start: int, goes_on: str, step: int) -> None:
    namespace: dict[str, Any] = {}
    exec(
        f"def run(x, n):\n i = {start}\n while {goes_on}:\n  x = x * 0.9 + i\n  i += {step}\n"
        " return x, i\n",
        namespace,
    )
    run = namespace["run"]
    compiled = dj.compile(run)
    for n in (30, 40):
        assert_same(run(X, n), compiled(X, n))
    versions = len(compiled.guards())
    for n in (50, 77, 41, 100, 35):
        assert_same(run(X, n), compiled(X, n))
    assert len(compiled.guards()) == versions
    for n in (20, 3, 2):  # fewer turns have versions of their own
        assert_same(run(X, n), compiled(X, n))


def test_the_counter_of_another_loop_ends_turns() -> None:
    def run(x):
        for i in range(3, 14):
            j = 0
            while j < 3 * i + 8:
                x = x * 0.9 + j
                j += 1
        return x, j

    assert_same(run(X), dj.compile(run, fullgraph=True)(X))


def test_the_counter_of_another_loop_ends_turns_that_a_tensor_ends() -> None:
    def run(x):
        for i in range(3, 14):
            j = 0
            while x.sum() > -1 and j < 3 * i + 8:
                x = x * 0.9 + 0.1
                j += 1
        return (x,)

    assert_same(run(X), dj.compile(run)(X))


@pytest.mark.parametrize("limit", [None, "a", (1,)])
def test_a_limit_that_is_no_number_raises_what_python_raises(limit: Any) -> None:
    def run(x):
        i, n = 0, 100
        while True:
            x = x * 0.9
            i += 1
            if i == 25:
                n = limit
            if i > n:
                return x

    for function in (run, dj.compile(run)):
        with pytest.raises(TypeError, match="'>' not supported between instances of 'int' and"):
            function(X)
