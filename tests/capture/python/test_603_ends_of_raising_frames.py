"""An exception keeps the frames that it passed, and what their locals hold, until it ends."""

import contextlib
import weakref

import pytest

import dynajit as dj

LOG = []


class Ending:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(self.name)


class Manager:
    def __enter__(self):
        return self

    def __exit__(self, *details):
        LOG.append("exit")


def plain(held):
    raise ValueError


def through_finally(held):
    try:
        raise ValueError
    finally:
        LOG.append("finally")


def through_finally_under_another_name(held):
    other = held
    del held
    try:
        raise ValueError
    finally:
        LOG.append(other.name)


def raised_again(held):
    try:
        raise ValueError
    except ValueError:
        LOG.append("first")
        raise


def not_caught(held):
    try:
        raise ValueError
    except KeyError:
        LOG.append("never")


def through_with(held):
    with Manager():
        raise ValueError


def from_a_callee(held):
    def callee():
        raise ValueError

    try:
        callee()
    finally:
        LOG.append("finally")


def suspended():
    try:
        yield 1
    finally:
        LOG.append("closed")


def with_a_generator_of_its_own(held):
    generator = suspended()
    next(generator)
    raise ValueError


def with_a_generator_through_finally(held):
    generator = suspended()
    try:
        next(generator)
        raise ValueError
    finally:
        LOG.append("finally")


def with_a_generator_through_with(held):
    with Manager():
        generator = suspended()
        next(generator)
        raise ValueError


def with_a_generator_past_a_handler(held):
    try:
        generator = suspended()
        next(generator)
        raise ValueError
    except KeyError:
        LOG.append("another")


FUNCTIONS = [
    with_a_generator_of_its_own,
    with_a_generator_through_finally,
    with_a_generator_through_with,
    with_a_generator_past_a_handler,
    plain,
    through_finally,
    through_finally_under_another_name,
    raised_again,
    not_caught,
    through_with,
    from_a_callee,
]


def caught(function):
    LOG.clear()
    try:
        function(Ending("ended"))
    except ValueError as error:
        LOG.append("handler")
        kept = error
    LOG.append("after")
    del kept
    LOG.append("end")
    return list(LOG)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_a_raising_frame_holds_ends_with_the_exception(function):
    compiled = dj.compile(function, backend="numpy")
    for _ in range(3):
        assert caught(function) == caught(compiled)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_same_in_a_frame_that_is_inlined(function):
    compiled = dj.compile(lambda: caught(function), backend="numpy")
    for _ in range(3):
        assert caught(function) == compiled()


def closing(count):
    try:
        for number in range(count):
            yield number
    finally:
        LOG.append("closed")


@contextlib.contextmanager
def managed():
    yield


def with_an_iterator_over_a_generator(t):
    kept = zip([1], closing(3))
    LOG.append(list(kept))
    with managed():
        raise ValueError("inside")


def with_a_list_of_a_generator(t):
    kept = [closing(3)]
    next(kept[0])
    with managed():
        raise ValueError("inside")


def resumed_with_an_iterator_over_a_generator(t):
    kept = zip([1], closing(3))
    LOG.append(list(kept))
    dj.graph_break()  # the region after it finds a real zip that holds a real generator
    with managed():
        raise ValueError("inside")


@contextlib.contextmanager
def managed_with_breaks():
    dj.graph_break()
    try:
        yield
    finally:
        dj.graph_break()


def raising_in_a_block_that_breaks(t):
    kept = zip([1], closing(3))
    LOG.append(list(kept))
    with managed_with_breaks():
        raise ValueError("inside")


def raising_again_after_a_break(t):
    kept = closing(3)
    next(kept)
    try:
        raise ValueError("inside")
    except ValueError:
        dj.graph_break()
        raise


def raising_where_it_breaks(t):
    kept = closing(3)
    next(kept)
    try:
        raising = int
        raising("nothing", base=t.sum().item())
    except TypeError as error:
        LOG.append("handled")
        raise ValueError("inside") from error


def returning_the_exception(t):
    kept = closing(3)
    next(kept)
    try:
        raise ValueError("inside")
    except ValueError as error:
        return error


WITH_GENERATORS = [
    with_an_iterator_over_a_generator,
    with_a_list_of_a_generator,
    resumed_with_an_iterator_over_a_generator,
    raising_in_a_block_that_breaks,
    raising_again_after_a_break,
    raising_where_it_breaks,
    returning_the_exception,
]


@pytest.mark.parametrize("function", WITH_GENERATORS)
def test_a_generator_in_what_a_raising_frame_holds_is_closed_with_the_exception(function):
    def calling(t):
        try:
            error = function(t)
            LOG.append(str(error))
        except ValueError as error:
            LOG.append(str(error))

    compiled = dj.compile(calling, backend="numpy")
    for _ in range(3):
        found = []
        for run in (calling, compiled):
            LOG.clear()
            run(dj.ones(2))
            found.append(list(LOG))
        assert found[0] == found[1]


class Watched:
    """A weak reference to it exists."""


class Owner:
    def __init__(self):
        self.part = Watched()
        self.reference = weakref.ref(self.part)


def caught_beside_an_owner(t, owner):
    try:
        raise ValueError("inside")
    except ValueError as error:
        LOG.append(str(error))
        kept = error
    return t + 1, kept


def test_what_an_instance_holds_does_not_keep_frames_from_being_captured():
    compiled = dj.compile(caught_beside_an_owner, backend="numpy", fullgraph=True)
    value, error = compiled(dj.ones(2), Owner())
    assert value.tolist() == [2.0, 2.0]
    assert error.args == ("inside",)
