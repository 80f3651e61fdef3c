"""Names that functions and classes are given later; contexts of exceptions thrown into generators."""

import sys

import pytest

from tests.support.python.harness import Compiler, case


def waits():
    yield 1
    yield 2


def handles(delegates):
    try:
        raise KeyError("a")
    except Exception:
        if delegates:
            yield from waits()
        else:
            yield


def context_of(error):
    return repr(error.__context__), repr(getattr(error.__context__, "__context__", 0))


def thrown(delegates):
    generator = handles(delegates)
    next(generator)
    try:
        generator.throw(ValueError(2))
    except ValueError as error:
        return context_of(error)


def thrown_in_a_handler(make, count):
    generator = make()
    for _ in range(count):
        next(generator)
    try:
        try:
            raise OSError(1)
        except OSError:
            generator.throw(ValueError(2))
    except ValueError as error:
        return context_of(error)


def thrown_with_context(delegates):
    generator = handles(delegates)
    next(generator)
    given = ValueError(2)
    given.__context__ = OSError(4)
    try:
        generator.throw(given)
    except ValueError as error:
        return context_of(error)


def thrown_and_raised_again(delegates):
    generator = handles(delegates)
    next(generator)
    try:
        generator.throw(ValueError(2))
    except ValueError as first:
        try:
            raise TypeError(3)
        except TypeError as error:
            return context_of(error), context_of(first)


def closed_in_a_handler():
    log = []

    def worker():
        try:
            yield 1
        except GeneratorExit as error:
            log.append(context_of(error))

    generator = worker()
    next(generator)
    try:
        raise KeyError(1)
    except KeyError:
        generator.close()
    return log


def renamed_generator():
    def function():
        yield 1

    before = function()
    function.__name__ = "other"
    function.__qualname__ = "quite.other"
    after = function()
    next(after)
    return before.__name__, after.__name__, after.__qualname__


def renamed_generators_leave():
    def function():
        yield 1
        yield 2

    function.__name__ = "other"
    first, second = function(), function()
    next(first)
    return first.__name__, [first, second]


CASES = [
    case(thrown, False), case(thrown, True),
    *(case(thrown_in_a_handler, make, count) for make in (waits, lambda: handles(True))
      for count in (0, 1)),
    case(thrown_in_a_handler, waits, 2), case(thrown_in_a_handler, lambda: iter_of(3), 3),
    case(thrown_with_context, False), case(thrown_with_context, True),
    case(thrown_and_raised_again, True), case(closed_in_a_handler, breaks=None),
    case(renamed_generator),
]  # fmt: skip


def iter_of(count):
    yield from range(count)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_a_generator_that_leaves_has_the_name_of_its_function():
    name, generators = Compiler().compile(renamed_generators_leave)()
    assert name == "other"
    assert [(made.__name__, list(made)) for made in generators] == [
        ("other", [2]),
        ("other", [1, 2]),
    ]


class Named:
    """About it."""


def named():
    """About it."""


def named_generator():
    yield 1


def names(function):
    def own(item):
        return item.__name__, item.__qualname__, item.__doc__, item.__module__

    return own(named), own(Named), own(function), named_generator().__name__


@pytest.mark.parametrize("attribute", ("__name__", "__qualname__", "__doc__", "__module__"))
@pytest.mark.parametrize("target", (named, Named, named_generator, waits), ids=str)
def test_a_new_name_is_noticed(compiler, target, attribute):
    compiled = compiler.compile(names)
    for _ in range(2):
        assert compiled(waits) == names(waits)
    before = getattr(target, attribute)
    setattr(target, attribute, "changed")
    try:
        assert compiled(waits) == names(waits)
        assert compiled(waits) == names(waits)
    finally:
        setattr(target, attribute, before)


def test_without_room_for_the_compiler_plain_python_runs():
    before = sys.getrecursionlimit()
    for room in range(3, 9):
        compiled, depth = Compiler().compile(some_names), 1
        while True:
            try:
                sys.setrecursionlimit(depth)
            except RecursionError:
                depth += 1
            else:
                break
        try:
            sys.setrecursionlimit(depth + room)
            found = compiled()
        finally:
            sys.setrecursionlimit(before)
        assert found == some_names()


def some_names():
    return [waits.__name__, Named.__name__]
