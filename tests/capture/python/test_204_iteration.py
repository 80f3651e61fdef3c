"""Iteration and generators: protocols, laziness, send, throw, close, what is left behind."""

import sys

import pytest

import dynajit as dj


def caught(function, *arguments, **keywords):
    """The result, or the exception's class name and text."""
    try:
        return function(*arguments, **keywords)
    except Exception as error:
        return type(error).__name__, str(error)


def sequence_functions(x):
    return (
        x + 1,
        list(enumerate("ab", 1)),
        list(enumerate("ab", start=5)),
        list(zip([1, 2], "ab", (True, False))),
        list(zip()),
        caught(lambda: list(zip([1, 2], [1], strict=True))),
        caught(lambda: list(zip([1], [1, 2], strict=True))),
        caught(lambda: list(zip([1], [1], [1, 2], strict=True))),
        list(map(lambda a, b: a + b, [1, 2, 3], [10, 20])),
        list(filter(None, [0, 1, "", "a"])),
        list(filter(lambda v: v > 1, [1, 2])),
        list(reversed([1, 2])),
        list(reversed(range(3))),
        list(reversed("abc")),
        list(reversed((1, 2))),
        caught(reversed, {1}),
        caught(reversed, 5),
        caught(enumerate, 5),
        caught(zip, 5),
        caught(map, str),
        caught(iter, 5),
        caught(next, [1]),
        caught(len, iter([])),
    )


def counting_from_a_bool(x):
    """Positions are ints, whatever gave the first one."""
    counted = list(map(list, enumerate((letter for letter in "ab"), True)))
    return x + 1, [(repr(number), letter) for number, letter in counted]


def next_forms(x):
    it = iter([1, 2])
    a, b = next(it), next(it)
    return x + 1, a, b, next(it, "end"), caught(next, it), caught(next, iter(()), 1)


def iter_with_sentinel(x):
    values = [1, 2, 3, 0, 5]

    def take():
        return values.pop(0)

    return x + 1, list(iter(take, 0)), values, list(iter(lambda: 1, 1))


class Sequence:
    def __init__(self, items):
        self.items = items

    def __getitem__(self, index):
        return self.items[index]

    def __len__(self):
        return len(self.items)


class Countdown:
    def __init__(self, start):
        self.n = start

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n + 1


class Backwards:
    def __reversed__(self):
        return iter("reversed")


class NoIterator:
    def __iter__(self):
        return 5


def protocols(x):
    return (
        x + 1,
        list(Sequence([1, 2, 3])),
        list(reversed(Sequence([1, 2, 3]))),
        2 in Sequence([1, 2]),
        list(Countdown(3)),
        sum(Countdown(4)),
        max(Countdown(3)),
        [a for a in Countdown(2)],
        dict(zip(Countdown(2), Sequence("ab"))),
        "".join(reversed(Backwards())),
        caught(lambda: [a for a in NoIterator()]),
        caught(iter, NoIterator()),
    )


def laziness_of_map_and_filter(x):
    log = []

    def note(v):
        log.append(v)
        return v * 2

    it = map(note, [1, 2, 3])
    log.append("made")
    first = next(it)
    rest = list(filter(lambda v: v > 4, it))
    return x + 1, first, rest, log


def generator_expression_order(x):
    log = []

    def f(v):
        log.append(v)
        return v

    g = (f(v) for v in [1, 2, 3] if f(v * 10))
    log.append("made")
    total = sum(g)
    return x + 1, total, log


def sends(x):
    def accumulate():
        total = 0
        while True:
            value = yield total
            if value is None:
                return "done"
            total += value

    g = accumulate()
    first = next(g)
    values = [g.send(1), g.send(5)]
    try:
        g.send(None)
    except StopIteration as stop:
        result = stop.value
    return x + 1, first, values, result, caught(accumulate().send, 1)


def throws(x):
    log = []

    def worker():
        try:
            yield 1
        except ValueError as error:
            log.append(str(error))
            yield "handled"
        finally:
            log.append("finally")
        yield "after"

    g = worker()
    a = next(g)
    b = g.throw(ValueError("thrown"))
    c = next(g)
    return x + 1, a, b, c, list(g), log, caught(worker().throw, KeyError("early"))


def throw_is_not_handled(x):
    log = []

    def worker():
        try:
            yield 1
        finally:
            log.append("finally")

    g = worker()
    next(g)
    return x + 1, caught(g.throw, KeyError("k")), log, caught(next, g)


def closes(x):
    log = []

    def worker():
        try:
            yield 1
            log.append("unreached")
        finally:
            log.append("closed")

    g = worker()
    next(g)
    g.close()
    g.close()
    h = worker()
    h.close()
    return x + 1, log, list(g), list(h)


def close_is_caught(x):
    def catches():
        try:
            yield 1
        except GeneratorExit:
            return

    h = catches()
    next(h)
    h.close()
    return x + 1, list(h)


def yield_from(x):
    def inner():
        got = yield 1
        got = yield got
        return "result"

    def outer():
        result = yield from inner()
        yield result
        yield from [7, 8]
        yield from "ab"

    g = outer()
    return x + 1, next(g), g.send("sent"), list(g)


def yield_from_throw(x):
    log = []

    def inner():
        try:
            yield 1
        except ValueError:
            log.append("inner")
            yield 2
        finally:
            log.append("inner finally")

    def outer():
        try:
            yield from inner()
        finally:
            log.append("outer finally")

    g = outer()
    a = next(g)
    b = g.throw(ValueError())
    g.close()
    return x + 1, a, b, log


def stop_iteration_inside(x):
    def wrong():
        yield 1
        raise StopIteration("inside")

    return x + 1, caught(lambda: list(wrong()))


def infinite_with_break(x):
    def naturals():
        n = 0
        while True:
            yield n
            n += 1

    total = x
    for n in naturals():
        if n > 3:
            break
        total = total + n
    return total


def left_in_try(value):
    log = []

    def worker():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    for v in worker():
        break
    log.append("after")
    return value + v, log


def returned_in_loop(value):
    log = []

    def worker():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def first():
        for v in worker():
            return v

    v = first()
    log.append("after")
    return value + v, log


def to_builtins(x):
    def words():
        yield "b"
        yield "a"

    def pairs():
        yield "k", 1
        yield "l", 2

    a, b = words()
    first, *rest = words()
    return (
        x + 1,
        list(words()),
        tuple(words()),
        sorted(words()),
        ",".join(words()),
        dict(pairs()),
        set(words()) == {"a", "b"},
        max(words()),
        any(w == "a" for w in words()),
        all(w for w in words()),
        list(zip(words(), words())),
        [*words(), *words()],
        {**dict(pairs())},
        "a" in words(),
        a + b,
        rest,
        sum(len(w) for w in words()),
    )


def tensors_from_generators(x):
    def scaled(n):
        for i in range(n):
            yield x * i

    total = x
    for t in scaled(3):
        total = total + t
    return total + sum(scaled(2)), [t + 1 for t in scaled(2)]


def recursive_generator(x):
    def walk(tree):
        for node in tree:
            if isinstance(node, list):
                yield from walk(node)
            else:
                yield node

    return x + 1, list(walk([1, [2, [3, 4]], 5]))


def generator_attributes(x):
    def g():
        yield 1

    it = g()
    return x + 1, iter(it) is it, hasattr(it, "send"), type(it).__name__, it.__next__(), it.__name__


def already_executing(x):
    def g():
        yield next(it)

    it = g()
    return x + 1, caught(next, it)


def nested_comprehension_scopes(x):
    fs = [lambda i=i: i for i in range(3)]
    gs = [lambda: i for i in range(3)]
    return x + 1, [f() for f in fs], [g() for g in gs], [[j for j in range(i)] for i in range(3)]


def loop_else(x):
    log = []
    for i in range(2):
        log.append(i)
    else:
        log.append("else")
    for i in []:
        pass
    else:
        log.append("empty")
    while False:
        pass
    else:
        log.append("while")
    return x + 1, log


FUNCTIONS = [
    value
    for name, value in list(globals().items())
    if getattr(value, "__code__", None) is not None
    and value.__module__ == __name__
    and value.__code__.co_varnames[: value.__code__.co_argcount] == ("x",)
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_function_is_captured_without_a_break(assert_captured, x, function):
    """Same result as plain Python, without a break."""
    if function is nested_comprehension_scopes and sys.version_info >= (3, 12):
        pytest.skip("an inlined comprehension with the name of a cell runs as plain Python")
    assert_captured(function, x)


def test_a_comprehension_with_the_name_of_a_cell_gives_pythons_result(assert_captured, x):
    assert_captured(nested_comprehension_scopes, x, graphs=None, breaks=None)


def generator_result(x):
    return x + 1, (v * 2 for v in [1, 2, 3])


def test_returned_generator_runs_afterwards(compiler, x):
    """A generator that was not started is made again."""
    compiled = compiler.compile(generator_result)
    for _ in range(2):
        _, rest = compiled(x)
        assert [2, 4, 6] == list(rest)


@pytest.mark.parametrize("function", [left_in_try, returned_in_loop])
def test_generator_that_is_left_is_closed_in_its_place_in_every_form(assert_captured, x, function):
    assert_captured(function, x, graphs=None)


@pytest.mark.parametrize("function", [left_in_try, returned_in_loop])
def test_generator_that_is_left_is_closed_at_once(compiler, x, function):
    """Its `finally` runs where the loop lets go of it."""
    compiled = compiler.compile(function)
    for _ in range(2):
        assert ["closed", "after"] == compiled(x)[1]
    assert [] == compiler.breaks


def deleted_in_try(value):
    log = []

    def worker():
        try:
            yield 1
        finally:
            log.append("closed")

    g = worker()
    next(g)
    del g
    log.append("after")
    return value, log


def overwritten_in_try(value):
    log = []

    def worker():
        try:
            yield 1
        finally:
            log.append("closed")

    g = worker()
    next(g)
    g = 2
    log.append("after")
    return value + g, log


@pytest.mark.parametrize("function", [deleted_in_try, overwritten_in_try])
def test_generator_that_a_local_lets_go_of_is_closed_at_once(compiler, x, function):
    compiled = compiler.compile(function)
    for _ in range(2):
        assert ["closed", "after"] == compiled(x)[1]
    assert [] == compiler.breaks


def iterators_of_every_class(x):
    numbers, table = [1, 2], {"a": 1}
    return x + 1, [
        iter(numbers), iter((1, 2)), iter(table), iter(table.items()),
        iter({1, 2}), iter("ab"), iter("\xe4b"), iter(b"ab"),
    ]  # fmt: skip


def iterators_that_have_ended(x):
    y, made = iterators_of_every_class(x)
    for iterator in made:
        for _ in iterator:
            pass
    return y, made


def iterators_that_have_begun(x):
    y, made = iterators_of_every_class(x)
    for iterator in made:
        next(iterator)
    return y, made


@pytest.mark.parametrize(
    "function",
    [iterators_of_every_class, iterators_that_have_begun, iterators_that_have_ended],
    ids=lambda function: function.__name__,
)
def test_returned_iterators_keep_class_and_place(function, assert_captured, x):
    def shown(iterators):
        return [(type(iterator).__name__, list(iterator)) for iterator in iterators]

    captured = dj.compile(function, backend="numpy")(x)[1]
    assert shown(function(x)[1]) == shown(captured)
    assert_captured(function, x)
