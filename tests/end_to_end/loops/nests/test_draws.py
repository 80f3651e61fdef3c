"""Loops that draw random numbers are nests, and leave generators as plain Python does."""

import copy
import math
import random
import threading
from collections.abc import Callable
from random import randint
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.errors import GraphBreakError
from tests.capture.execution.nests.test_draws import state_of
from tests.end_to_end.loops.nests.test_nests import loops_of, outcome, same

pytestmark = pytest.mark.one_python


def states() -> tuple[str, str]:
    """Of the generators that functions of modules draw from."""
    return state_of(np.random.mtrand._rand), repr(random.getstate())


def results(function: Callable[..., Any], args: tuple[Any, ...], seed: int) -> Any:
    """What a call does where the generators of modules begin with a seed."""
    np.random.seed(seed)
    random.seed(seed)
    found, given = outcome(function, copy.deepcopy(args))
    return found, [each for each in given if isinstance(each, (list, np.ndarray))], states()


def check(function: Callable[..., Any], args: tuple[Any, ...], calls: int = 4) -> Any:
    """A function does what it does plainly, in some calls; gives the compiled one."""
    compiled = dj.compile(function)
    for seed in range(calls):
        expected, found = results(function, args, seed), results(compiled, args, seed)
        assert same(expected[0], found[0])
        assert same(expected[1], found[1])
        assert expected[2] == found[2]
    return compiled


# -- programs


def pi_of_numpy(n):
    inside = 0
    for _ in range(n):
        x, y = np.random.rand(), np.random.rand()
        if x * x + y * y <= 1.0:
            inside += 1
    return 4.0 * inside / n


def pi_from_a_seed(n):
    np.random.seed(7)
    random.seed(-(2**40))
    inside = 0
    for _ in range(n):
        x = np.random.uniform(-1.0, 1.0)
        y = random.uniform(-1, 1)
        if x * x + y * y <= 1.0:
            inside += 1
    return 4.0 * inside / n


def pi_of_python(n):
    inside = 0
    for _ in range(n):
        x, y = random.random(), random.random()
        inside += x * x + y * y <= 1.0
    return inside / n


def walk(n):
    x = y = 0
    for _ in range(n):
        d = randint(0, 3)
        if d == 0:
            x += 1
        elif d == 1:
            x -= 1
        elif d == 2:
            y += 1
        else:
            y -= 1
    return x, y


def walk_in_a_list(n):
    positions, position = [], 0
    for _ in range(n):
        position += random.choice([-1, 1])
        positions.append(position)
    return positions


def normals_in_a_list(n):
    found = [0.0] * n
    for i in range(1, n):
        found[i] = found[i - 1] + np.random.normal(0.0, 0.5)
    return found


def ising_of_arrays(spins, n, beta, sweeps):
    for _ in range(sweeps):
        for _ in range(n * n):
            i, j = np.random.randint(0, n), np.random.randint(n)
            around = (
                spins[(i + 1) % n, j] + spins[i - 1, j] + spins[i, (j + 1) % n] + spins[i, j - 1]
            )
            cost = 2 * spins[i, j] * around
            if cost <= 0 or np.random.rand() < math.exp(-beta * cost):
                spins[i, j] = -spins[i, j]
    return spins


def ising_of_lists(spins, n, beta, sweeps):
    for _ in range(sweeps):
        for _ in range(n * n):
            i, j = random.randrange(n), random.randrange(n)
            around = (
                spins[(i + 1) % n][j] + spins[i - 1][j] + spins[i][(j + 1) % n] + spins[i][j - 1]
            )
            cost = 2 * spins[i][j] * around
            if cost <= 0 or random.random() < math.exp(-beta * cost):
                spins[i][j] = -spins[i][j]
    return spins


def step():
    return random.gauss(0.0, 1.0)


def metropolis(n):
    x, total = 0.0, 0.0
    for _ in range(n):
        new = x + step()
        if random.random() < math.exp(min(0.0, 0.5 * (x * x - new * new))):
            x = new
        total += x
    return total / n


def gibbs(x, n):
    a = b = 0.0
    for i in range(n):
        a = np.random.normal(0.5 * b, 0.75)
        b = np.random.normal(0.5 * a, 0.75)
        x[i, 0] = a
        x[i, 1] = b
    return x


def shuffled(x):
    for i in range(len(x) - 1, 0, -1):
        j = np.random.randint(0, i + 1)
        x[i], x[j] = x[j], x[i]
    return x


SPINS = np.where(np.arange(64).reshape(8, 8) % 3 == 0, 1, -1)
PROGRAMS = [
    (pi_of_numpy, (2000,)),
    (pi_from_a_seed, (2000,)),
    (pi_of_python, (2000,)),
    (walk, (2000,)),
    (walk_in_a_list, (2000,)),
    (normals_in_a_list, (2000,)),
    (ising_of_arrays, (SPINS, 8, 0.44, 20)),
    (ising_of_lists, (SPINS.tolist(), 8, 0.44, 20)),
    (metropolis, (2000,)),
    (gibbs, (np.zeros((500, 2)), 500)),
    (shuffled, (np.arange(300),)),
]


@pytest.mark.parametrize(("function", "args"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_programs_that_draw_do_what_they_do_plainly(function: Any, args: Any) -> None:
    check(function, args, 6)


@pytest.mark.parametrize(
    ("function", "args"),
    [PROGRAMS[0], PROGRAMS[2], PROGRAMS[3], PROGRAMS[6], *PROGRAMS[8:]],
)
def test_programs_that_draw_are_nests(function: Any, args: Any) -> None:
    assert loops_of(function, *args) == 1


# -- generators


def added(x, rng):
    for i in range(len(x)):
        x[i] += rng.standard_normal()
    return x


def test_each_call_draws_from_its_own_generator() -> None:
    compiled = dj.compile(added, fullgraph=True)
    for bits in (np.random.PCG64, np.random.Philox, np.random.MT19937, np.random.SFC64):
        ours, theirs = np.random.Generator(bits(3)), np.random.Generator(bits(3))
        for _ in range(2):
            assert same(added(np.zeros(40), theirs), compiled(np.zeros(40), ours))
            assert ours.random() == theirs.random()
    assert compiled.report().entries == 1


def test_a_generator_of_another_class_is_another_version() -> None:
    compiled = dj.compile(added)
    for make in (np.random.default_rng, np.random.RandomState, np.random.default_rng):
        ours, theirs = make(3), make(3)
        assert same(added(np.zeros(40), theirs), compiled(np.zeros(40), ours))
        assert state_of(ours) == state_of(theirs)


def of_two(x, first, second):
    for i in range(len(x)):
        x[i] += first.random() - second.random()
        if x[i] < 0:
            x[i] = second.integers(5)
    return x


def test_two_generators_draw_by_turns() -> None:
    compiled = dj.compile(of_two)
    for seed in range(3):
        ours, theirs = (
            [np.random.default_rng(seed), np.random.Generator(np.random.MT19937(seed))]
            for _ in range(2)
        )
        assert same(of_two(np.zeros(80), *theirs), compiled(np.zeros(80), *ours))
        assert [*map(state_of, ours)] == [*map(state_of, theirs)]


def test_two_names_of_one_generator_are_one() -> None:
    compiled = dj.compile(of_two)
    for seed in range(3):
        ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
        assert same(of_two(np.zeros(80), theirs, theirs), compiled(np.zeros(80), ours, ours))
        assert state_of(ours) == state_of(theirs)
    firsts = [np.random.default_rng(5) for _ in range(2)]
    seconds = [np.random.default_rng(6) for _ in range(2)]
    found = [
        f(np.zeros(80), a, b) for f, a, b in zip((of_two, compiled), firsts, seconds, strict=True)
    ]
    assert same(*found)


def test_generators_that_share_a_state_draw_as_python_does() -> None:
    compiled = dj.compile(of_two)
    for _ in range(2):
        pairs = []
        for function in (of_two, compiled):
            bits = np.random.PCG64(4)
            two = np.random.Generator(bits), np.random.Generator(bits)
            pairs.append((function(np.zeros(80), *two), repr(bits.state)))
        assert same(*(found for found, _ in pairs))
        assert pairs[0][1] == pairs[1][1]


class OwnBits(np.random.PCG64):
    """Whose state nobody knows."""


def test_bit_generators_of_other_kinds_draw_as_python_does() -> None:
    compiled = dj.compile(added)
    for bits in (np.random.PCG64, OwnBits, np.random.PCG64):
        ours, theirs = np.random.Generator(bits(3)), np.random.Generator(bits(3))
        assert same(added(np.zeros(40), theirs), compiled(np.zeros(40), ours))
        assert ours.random() == theirs.random()


class Sampler:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def fill(self, x):
        for i in range(len(x)):
            x[i] = self.rng.uniform(1.0, 2.0)
        return x


def test_generators_of_objects_draw() -> None:
    compiled = dj.compile(Sampler.fill)
    for seed in range(3):
        ours, theirs = Sampler(seed), Sampler(seed)
        for _ in range(2):
            assert same(theirs.fill(np.zeros(60)), compiled(ours, np.zeros(60)))
            assert state_of(ours.rng) == state_of(theirs.rng)


def of_a_new_generator(n):
    rng = np.random.default_rng(11)
    found = []
    for _ in range(n):
        found.append(rng.integers(0, 100) * rng.random())
    return found


def of_a_new_generator_and_an_array(x):
    rng = np.random.RandomState(5)
    for i in range(len(x)):
        x[i] = rng.randn() * x[i]
    return x, rng.rand()


def test_generators_that_the_function_makes_draw() -> None:
    check(of_a_new_generator, (300,))
    check(of_a_new_generator_and_an_array, (np.ones(300),))


def seeded_between(x):
    for i in range(len(x)):
        x[i] = np.random.rand()
    np.random.seed(4)
    for i in range(len(x)):
        x[i] -= np.random.rand()
    return x, np.random.rand()


def test_seeds_between_loops_are_set_in_order() -> None:
    check(seeded_between, (np.ones(200),))


def before_and_behind(x):
    first = random.random()
    for i in range(len(x)):
        x[i] = random.random() + first
    x *= random.random()
    for i in range(len(x)):
        x[i] += random.random()
    return x, random.random()


def test_draws_of_one_generator_are_in_order() -> None:
    check(before_and_behind, (np.ones(200),))


# -- refusals


def out_of_range(x, n):
    for i in range(n):
        x[i] = np.random.rand()
    return x


def divided(n):
    total = 0.0
    for i in range(n):
        total += 1 / (n - 1 - i) if random.random() < 2 else 0.0
    return total


def of_no_bounds(x, low, high):
    for i in range(len(x)):
        x[i] = np.random.randint(low, high)
    return x


def with_a_scale(x, scale):
    for i in range(len(x)):
        x[i] = np.random.normal(0.0, scale)
    return x


def from_a_list(numbers, n):
    total = 0
    for _ in range(n):
        total += random.choice(numbers)
    return total


def seeded_by(n, seed):
    np.random.seed(seed)
    total = 0.0
    for _ in range(n):
        total += np.random.rand()
    return total


@pytest.mark.parametrize(
    ("function", "good", "bad"),
    [
        (out_of_range, (np.zeros(100), 100), (np.zeros(100), 101)),
        (of_no_bounds, (np.zeros(100), 2, 5), (np.zeros(100), 5, 5)),
        (with_a_scale, (np.zeros(100), 2.0), (np.zeros(100), -1.0)),
        (with_a_scale, (np.zeros(100), 2.0), (np.zeros(100), 0.0)),
        (from_a_list, ([1, 2, 3], 500), ([], 500)),
        (seeded_by, (500, 3), (500, -3)),
        (seeded_by, (500, 3), (500, 2**32)),
    ],
)
def test_what_is_refused_draws_as_python_does(function: Any, good: Any, bad: Any) -> None:
    compiled = check(function, good)
    for seed, args in enumerate((bad, good, bad)):
        expected, found = results(function, args, seed), results(compiled, args, seed)
        assert (
            same(list(expected[0]), list(found[0]))
            if args is bad
            else same(*map(_first, (expected, found)))
        )
        assert same(expected[1], found[1])
        assert expected[2] == found[2]


def _first(found: Any) -> Any:
    return found[0]


def test_an_error_in_a_last_turn_leaves_what_was_drawn() -> None:
    check(divided, (500,))


# -- what is left to Python


def arrays_in_turns(x):
    for i in range(len(x)):
        x[i] = np.random.rand(3).sum()
    return x


def other_distributions(x):
    for i in range(len(x)):
        x[i] = np.random.gamma(2.0) + np.random.rand()
    return x


def in_an_arm(x, n):
    total = np.zeros(3)
    for _ in range(40):
        total = total + x
        if total.sum() > 100:
            for _ in range(n):
                total[0] += np.random.rand()
    return total


def in_turns_of_another_loop(x, n):
    total = np.zeros(3000)
    for _ in range(n):
        total = np.sqrt(total) + x
        part = 0.0
        for _ in range(20):
            part += np.random.rand()
        total = total * part
    return total


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (arrays_in_turns, (np.zeros(80),)),
        (other_distributions, (np.zeros(80),)),
        (in_an_arm, (np.ones(3), 8)),
        (in_turns_of_another_loop, (np.ones(3000), 10)),
    ],
)
def test_what_nests_do_not_draw_is_drawn_by_python(function: Any, args: Any) -> None:
    check(function, args)


def test_a_draw_of_an_array_breaks_where_no_break_is_allowed() -> None:
    with pytest.raises(GraphBreakError):
        dj.compile(arrays_in_turns, fullgraph=True)(np.zeros(80))


# -- threads


def counted(rng, n):
    total = 0
    for _ in range(n):
        total += rng.integers(1000)
    return total


def test_threads_that_share_a_generator_draw_no_number_twice() -> None:
    compiled, rng = dj.compile(counted), np.random.default_rng(3)
    compiled(np.random.default_rng(0), 3000)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.extend(compiled(rng, 3000) for _ in range(20)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(map(int, found)) == int(np.random.default_rng(3).integers(1000, size=240_000).sum())


def test_an_own_method_of_one_generator_of_python_is_called() -> None:
    def uniform(a, b):
        return 0.5

    def fill(x, rng):
        for i in range(len(x)):
            x[i] = rng.uniform(0, 1)
        return x

    compiled = dj.compile(fill)
    rng = random.Random(3)
    assert same(fill(np.zeros(50), random.Random(3)), compiled(np.zeros(50), rng))
    rng.uniform = uniform  # type: ignore[method-assign]
    assert same(np.full(50, 0.5), compiled(np.zeros(50), rng))
