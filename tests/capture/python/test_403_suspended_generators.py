"""Generators that are suspended at a break, or that escape, are real generators afterwards."""

import gc
import types

import pytest

LOG = []


def plain(x, n=2):
    y = x * n
    yield y
    yield y + 1
    return "end"


def with_finally(x):
    try:
        sent = yield x
        LOG.append(sent)
        yield x * 2
    except KeyError as error:
        LOG.append(repr(error))
        yield x * 3
    finally:
        LOG.append("finally")


def with_loop_and_cell(x):
    total = 0

    def add(v):
        nonlocal total
        total = total + v
        return total

    for i in range(4):
        yield add(x + i)


def in_handler(x):
    try:
        raise ValueError("kept")
    except ValueError:
        yield x
        raise


def delegating(x):
    result = yield from plain(x)
    yield result


def started(x):
    g = plain(x)
    first = next(g)
    memoryview(b"abc")
    return first, list(g)


def not_started(x):
    g = plain(x, n=3)
    memoryview(b"abc")
    return list(g)


def keyword_only_not_started(x):
    def numbers(*args, scale=1, **more):
        yield x * scale
        yield args, more

    g = numbers(1, 2, scale=3, k=4)
    memoryview(b"abc")
    return list(g)


def ended(x):
    g = plain(x)
    values = [v + 1 for v in g]
    memoryview(b"abc")
    return values, next(g, "nothing"), list(g)


def sent_into(x):
    g = with_finally(x)
    first = next(g)
    memoryview(b"abc")
    second = g.send("hello")
    return first, second, list(g)


def thrown_into(x):
    g = with_finally(x)
    first = next(g)
    memoryview(b"abc")
    second = g.throw(KeyError("in"))
    return first, second, list(g)


def closed(x):
    g = with_finally(x)
    first = next(g)
    memoryview(b"abc")
    LOG.append("before")
    g.close()
    LOG.append("after")
    return first


def dropped(x):
    g = with_finally(x)
    first = next(g)
    memoryview(b"abc")
    del g
    return first


def cells(x):
    g = with_loop_and_cell(x)
    first = next(g)
    memoryview(b"abc")
    return first, list(g)


def handler_inside(x):
    g = in_handler(x)
    first = next(g)
    memoryview(b"abc")
    try:
        next(g)
    except ValueError as error:
        return first, str(error)


def delegated(x):
    g = delegating(x)
    first = next(g)
    memoryview(b"abc")
    return first, list(g)


def expression(x):
    g = (x * i for i in [1, 2, 3] if i != 2)
    first = next(g)
    memoryview(b"abc")
    return first, list(g)


def two_of_one(x):
    g = plain(x)
    pair = [g, g]
    first = next(g)
    memoryview(b"abc")
    return first, pair[0] is pair[1], next(pair[0]), next(pair[1], None)


FUNCTIONS = [
    started, not_started, keyword_only_not_started, ended, sent_into, thrown_into, closed, cells,
    handler_inside, delegated, expression, two_of_one,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_generator_goes_on_after_a_break(function, x, assert_captured):
    assert_captured(function, x, graphs=None, breaks=None)


@pytest.mark.parametrize("function", [started, expression, delegated], ids=lambda f: f.__name__)
def test_what_the_generator_did_before_the_break_is_compiled(function, x, compiler):
    compiler.compile(function)(x)
    assert "memoryview" in str(compiler.breaks[0])
    assert [1] == [len(graph.calls) for graph in compiler.graphs[:1]]


def test_the_finally_of_a_dropped_generator_runs_once(x, compiler):
    compiled = compiler.compile(dropped)
    for _ in range(3):
        LOG.clear()
        compiled(x)
        compiler.regions.clear()
        gc.collect()
        assert ["finally"] == LOG


def test_a_generator_that_is_returned_is_real(x, compiler, check_same):
    def function(v):
        g = with_finally(v + 1)
        first = next(g)
        return first * 2, g

    LOG.clear()
    compiled = compiler.compile(function)
    first, generator = compiled(x)
    check_same((x + 1) * 2, first)
    assert type(generator) is types.GeneratorType
    assert ("with_finally", "with_finally") == (generator.__name__, generator.__qualname__)
    check_same((x + 1) * 2, generator.send(5))
    generator.close()
    assert [5, "finally"] == LOG
