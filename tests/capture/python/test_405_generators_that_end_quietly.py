"""Generators inside `try` that are let go where no handler of theirs looks at the end of one."""

from collections.abc import Sequence

import pytest

LOG = []


class View(Sequence):
    """A sequence whose iterator is the generator of its base class."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, place):
        return self.values[place]


def zipped(x):
    found = []
    for name, value in zip("ab", View([1.0, 2.0, 3.0]), strict=False):
        found.append((name, x * value))
    return found


def left_early(x):
    for value in View([1.0, 2.0, 3.0]):
        x = x * value
        if value > 1:
            break
    return x + 1


def handling(kind):
    """A generator that would log an exception of a class."""

    def made(x):
        try:
            yield x + 1
            yield x + 2
        except kind:
            LOG.append(kind.__name__)

    return made


def of_several(x):
    def made():
        try:
            yield x + 1
            yield x + 2
        except (ValueError, KeyError):
            LOG.append("two")
        except IndexError:
            LOG.append("index")

    for value, _ in zip(made(), [0], strict=False):
        x = x + value
    return x


def of_two_classes(x):
    def made():
        try:
            yield x + 1
            yield x + 2
        except KeyError:
            LOG.append("key")
        except IndexError:
            LOG.append("index")

    for _, value in zip([0], made(), strict=False):
        x = x + value
    return x


def with_finally(x):
    def made():
        try:
            yield x + 1
            yield x + 2
        except IndexError:
            LOG.append("index")
        finally:
            LOG.append("finally")

    for _, value in zip([0], made(), strict=False):
        x = x + value
    return x


@pytest.mark.parametrize("function", [zipped, left_early, of_two_classes])
def test_no_graph_ends_where_such_a_generator_is_let_go(function, assert_captured, x):
    assert_captured(function, x)


@pytest.mark.parametrize("kind", [BaseException, GeneratorExit, Exception])
def test_what_looks_at_the_end_sees_it(kind, compiler, x):
    def program(t):
        LOG.clear()
        for _, value in zip([0], handling(kind)(t), strict=False):
            t = t + value
        return t, [*LOG]

    expected, seen = program(x)
    result, found = compiler.compile(program)(x)
    assert expected.tolist() == result.tolist()
    assert seen == found


@pytest.mark.parametrize("function", [with_finally, of_several])
def test_what_happens_at_the_end_happens(function, compiler, x):
    LOG.clear()
    expected = function(x).tolist()
    seen = [*LOG]
    LOG.clear()
    assert expected == compiler.compile(function)(x).tolist()
    assert seen == LOG
