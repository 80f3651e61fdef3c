"""Python's random numbers: drawn anew in every call, in order, and never baked into a region."""

import gc
import random
import weakref

import pytest

import dynajit as dj

OWN = random.Random(7)


def of_an_argument(x, generator):
    return x + generator.random() + generator.randint(1, 6) + generator.uniform(1, 2)


def of_the_module(x, generator):
    return x + random.random(), random.randint(1, 10**6), random.randrange(5), random.uniform(0, 1)


def seeded_on_the_way(x, generator):
    random.seed(5)
    first = x * random.random()
    generator.seed("text")
    return first, generator.random(), random.random()


def in_turns(x, generator):
    return OWN.random() * x, generator.random() - OWN.random(), [OWN.random() for _ in range(3)]


def computed_with(x, generator):
    return x * (generator.randint(1, 6) + 1) / 2, -generator.random()


def of_one_that_is_made(x, generator):
    made = random.Random(5)
    items = [1, 2, 3, x]
    made.shuffle(items)
    return made.choice([1, 2, 3]), made.randint(1, 9), made.gauss(0, 1), items, made


def decided_by_one(x, generator):
    return x if generator.random() < 0.5 else x * 2


def read_between(x, generator):
    first = generator.random()
    state = generator.getstate()
    return x + first + generator.random(), state


WHOLE = [
    of_an_argument, of_the_module, seeded_on_the_way, in_turns, computed_with, of_one_that_is_made,
]  # fmt: skip


def described(found):
    if isinstance(found, (tuple, list)):
        return [described(item) for item in found]
    if isinstance(found, random.Random):
        return found.getstate()
    return found.tolist() if isinstance(found, dj.Tensor) else found


def run(function, generator):
    """What a function gives, and the states that it leaves behind."""
    found = described(function(dj.ones(2), generator))
    return found, generator.getstate(), random.getstate(), OWN.getstate()


@pytest.mark.parametrize("function", [*WHOLE, decided_by_one, read_between])
def test_every_call_draws_what_plain_python_draws(function):
    compiled = dj.compile(function, fullgraph=function in WHOLE)
    expected, actual = random.Random(3), random.Random(3)
    for _ in range(4):
        states = random.getstate(), OWN.getstate()
        wanted = run(function, expected)
        random.setstate(states[0])
        OWN.setstate(states[1])
        assert wanted == run(compiled, actual)


def test_two_arguments_may_be_one_generator():
    def both(x, first, second):
        return x + first.random(), second.random(), first.random()

    compiled = dj.compile(both, fullgraph=True)
    for seeds in ((1, 2), (3,), (4, 5)):
        expected, actual = [random.Random(s) for s in seeds], [random.Random(s) for s in seeds]
        for _ in range(2):
            wanted = described(both(dj.ones(2), expected[0], expected[-1]))
            assert wanted == described(compiled(dj.ones(2), actual[0], actual[-1]))


def test_a_launch_that_refuses_its_values_has_drawn_nothing():
    def choose(x, places, generator):
        number = generator.random()
        return x[places] * number

    compiled = dj.compile(choose, fullgraph=True)
    expected, actual = random.Random(3), random.Random(3)
    for place in (0, 5, 1):
        places, outcomes = dj.tensor([place]), []
        for function, generator in ((choose, expected), (compiled, actual)):
            try:
                outcomes.append(described(function(dj.ones(2), places, generator)))
            except IndexError:
                outcomes.append("refused")
        assert outcomes[0] == outcomes[1]
        assert expected.getstate() == actual.getstate()


def test_a_generator_may_end():
    compiled = dj.compile(of_an_argument, fullgraph=True)

    class Named(random.Random):
        pass

    generator = random.Random(1)
    compiled(dj.ones(2), generator)
    assert described(of_an_argument(dj.ones(2), Named(2))) == described(
        dj.compile(of_an_argument)(dj.ones(2), Named(2))
    )
    holder = Named(1)
    holder.held = generator
    seen = weakref.ref(holder)
    generator.owner = holder
    del generator, holder
    gc.collect()
    assert seen() is None


def test_bad_arguments_raise_what_plain_python_raises():
    def refused(x, generator):
        return x + generator.randint(5, 1)

    compiled = dj.compile(refused)
    for function in (refused, compiled, compiled):
        with pytest.raises(ValueError, match="empty range"):
            function(dj.ones(2), random.Random(1))


@pytest.mark.parametrize("name", ["random", "uniform", "getrandbits"])
def test_a_method_of_one_generator_alone_is_noticed(name):
    compiled = dj.compile(of_an_argument)
    for is_own in (False, True, False):
        expected, actual = random.Random(3), random.Random(3)
        for generator in (expected, actual) if is_own else ():
            setattr(generator, name, lambda *numbers: 1)
        assert described(of_an_argument(dj.ones(2), expected)) == described(
            compiled(dj.ones(2), actual)
        )
