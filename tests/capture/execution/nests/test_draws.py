"""What nests draw is what NumPy and Python draw, to the bit, and so are the states behind it."""

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.execution.nests import draws
from dynajit.ir.nests import NEST
from tests.end_to_end.loops.nests.test_nests import loops_of, same

pytestmark = pytest.mark.one_python

BITS = (
    np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64
)  # fmt: skip
OF_BOTH = (
    "random()", "uniform(-2.5, 7.25)", "uniform()", "standard_normal()", "normal()",
    "normal(1.5, 0.3)", "normal(scale=2)", "exponential()", "exponential(3.5)",
    "standard_exponential()", "choice(7)",
)  # fmt: skip
OF_GENERATORS = (
    "integers(10)", "integers(-5, 6)", "integers(0, 2**32)", "integers(0, 2**32 - 1)",
    "integers(-2**40, 2**41)", "integers(3, endpoint=True)", "integers(0, 3 * 2**30)",
    "integers(0, 3 * 2**61)", "integers(5, 6)", "integers(low=2, high=9)",
)  # fmt: skip
OF_STATES = (
    "rand()", "random_sample()", "randn()", "randint(10)", "randint(-5, 6)", "randint(0, 2**32)",
    "randint(0, 2**32 - 1)", "randint(-2**40, 2**41)", "randint(0, 3 * 2**30)",
    "randint(0, 3 * 2**61)", "randint(5, 6)",
)  # fmt: skip
OF_PYTHON = (
    "random()", "uniform(-2.5, 7.25)", "uniform(1, 3)", "randint(1, 6)", "randint(-2**40, 2**41)",
    "randint(0, 0)", "randrange(10)", "randrange(3, 9)", "randrange(2**32)", "randrange(2**33)",
    "randrange(3 * 2**60)", "gauss(0.0, 1.0)", "gauss(1, 2)", "normalvariate(0.0, 1.0)",
    "expovariate(2.0)",
)  # fmt: skip


def function_of(expression: str) -> Callable[..., Any]:
    """A loop that draws by an expression, and by `random` now and then."""
    lines = [
        "def draws(x, rng):",
        "    for i in range(len(x)):",
        f"        x[i] = rng.{expression}",
        "        if i % 7 == 3 and rng.random() < 0.25:",
        "            x[i] += 1",
        "    return x",
    ]
    name, text = f"<{expression}>", "\n".join(lines)
    linecache.cache[name] = len(text), None, [f"{line}\n" for line in lines], name
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    made: Callable[..., Any] = namespace["draws"]
    return made


def state_of(generator: Any) -> str:
    """All that decides what comes next."""
    with np.printoptions(threshold=10_000):
        if isinstance(generator, np.random.RandomState):
            return repr(generator.get_state(legacy=False))
        if isinstance(generator, np.random.Generator):
            return repr(generator.bit_generator.state)
        return repr(generator.getstate())


def begun(cls: type, bits: type | None, seed: int) -> Any:
    """A generator that has drawn before."""
    generator = random.Random(seed) if bits is None else cls(bits(seed))
    for _ in range(seed):
        generator.random()
        if cls is np.random.Generator:
            generator.integers(3)
    return generator


@pytest.mark.parametrize(
    ("cls", "expression"),
    [
        *((np.random.Generator, each) for each in (*OF_BOTH, *OF_GENERATORS)),
        *((np.random.RandomState, each) for each in (*OF_BOTH, *OF_STATES)),
        *((random.Random, each) for each in OF_PYTHON),
    ],
)
def test_what_is_drawn_is_what_python_draws(cls: type, expression: str) -> None:
    function = function_of(expression)
    compiled = dj.compile(function, fullgraph=True)
    for bits in BITS if cls is not random.Random else (None,):
        for seed in range(2):
            ours, theirs = begun(cls, bits, seed), begun(cls, bits, seed)
            given = np.zeros(1500), np.zeros(1500)
            assert same(function(given[0], theirs), compiled(given[1], ours))
            assert state_of(ours) == state_of(theirs)
    assert loops_of(function, np.zeros(1500), begun(cls, BITS[0] if bits else None, 0)) == 1


def test_the_rare_ways_through_layers_are_taken_as_numpy_takes_them() -> None:
    for function, name in ((normals, "standard_normal"), (exponentials, "standard_exponential")):
        ours, theirs = np.random.default_rng(8), np.random.default_rng(8)
        found = dj.compile(function, fullgraph=True)(np.zeros(300_000), ours)
        assert np.array_equal(found, getattr(theirs, name)(300_000))


def normals(x, rng):
    for i in range(len(x)):
        x[i] = rng.standard_normal()
    return x


def exponentials(x, rng):
    for i in range(len(x)):
        x[i] = rng.standard_exponential()
    return x


def classes(x, rng, n):
    last = rng.random()
    for i in range(n):
        last = rng.random()
        x[i] = last
    return last


def ints_of_generators(x, rng, n):
    last = rng.integers(4)
    for i in range(n):
        last = rng.integers(3, 9)
        x[i] = last
    return last


def ints_of_states(x, rng, n):
    last = rng.randint(4)
    for i in range(n):
        last = rng.randint(3, 9)
        x[i] = last
    return last


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (classes, np.random.default_rng),
        (classes, np.random.RandomState),
        (classes, random.Random),
        (ints_of_generators, np.random.default_rng),
        (ints_of_states, np.random.RandomState),
    ],
)
def test_what_is_left_of_a_draw_has_its_class(function: Any, make: Any) -> None:
    compiled = dj.compile(function)
    for seed in range(3):
        ours, theirs = make(seed), make(seed)
        assert same(function(np.zeros(50), theirs, 50), compiled(np.zeros(50), ours, 50))
        assert state_of(ours) == state_of(theirs)


def test_a_numpy_whose_streams_are_others_draws_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    function, x = function_of("standard_normal()"), np.zeros(60)
    assert loops_of(function, x, np.random.default_rng(0)) == 1
    monkeypatch.setattr(draws, "STREAMS", draws.STREAMS + 1)
    draws._draw_as_known.cache_clear()
    try:
        other = function_of("standard_normal()")
        assert loops_of(other, x, np.random.default_rng(0)) == 0
        found = dj.compile(other)(x.copy(), np.random.default_rng(5))
        assert same(found, other(x.copy(), np.random.default_rng(5)))
    finally:
        draws._draw_as_known.cache_clear()


@pytest.mark.parametrize(
    ("made", "is_alone"), [(random.Random, True), (np.random.default_rng, False)]
)
def test_no_other_thread_runs_where_nothing_locks_the_generator(made: Any, is_alone: bool) -> None:
    (graph,) = dj.explain(function_of("random()"))(np.zeros(100), made(0)).graphs
    (nest,) = {node.attributes["nest"] for node in graph.calls if node.op is NEST}
    assert nest.is_alone == (made is random.Random)
