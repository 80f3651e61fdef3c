"""`with`: managers of users and of contextlib, in every way of leaving the block.

PYTEST_DONT_REWRITE: assertions of the programs under test are those of plain Python.
"""

# The programs under test are spelled as users spell them.

import contextlib
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress

import pytest

from tests.support.python.harness import case


class Manager:
    def __init__(self, log, name="m", swallow=False):
        self.log = log
        self.name = name
        self.swallow = swallow

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, error, traceback):
        shown = None if kind is None else kind.__name__
        self.log.append(f"exit {self.name} {shown} {error!r} {traceback is None}")
        return self.swallow


class Replacing(Manager):
    def __exit__(self, kind, error, traceback):
        raise KeyError("replaced")


class BadEnter:
    def __enter__(self):
        raise ValueError("enter")

    def __exit__(self, *details):
        return True


class NoExit:
    def __enter__(self):
        return self


class Closable:
    def __init__(self, log):
        self.log = log

    def close(self):
        self.log.append("closed")


@contextmanager
def managed(log, value=1):
    log.append("before")
    try:
        yield value
    finally:
        log.append("after")


@contextmanager
def catching(log):
    try:
        yield "caught"
    except ValueError as error:
        log.append(str(error))


@contextmanager
def never_yields():
    if False:
        yield


@contextmanager
def yields_twice():
    yield 1
    yield 2


def plain(log):
    with Manager(log) as m:
        log.append(m.name)
    return log


def without_name(log):
    with Manager(log):
        return "returned"


def several(log):
    with Manager(log, "a") as a, Manager(log, "b") as b:
        log.append(a.name + b.name)


def nested_return(log):
    with Manager(log, "a"):
        with Manager(log, "b"):
            return len(log)


def raises_inside(log):
    with Manager(log):
        raise ValueError("inside")


def swallows(log):
    with Manager(log, swallow=True):
        raise ValueError("inside")
    return "went on"


def replaces(log):
    with Replacing(log):
        raise ValueError("inside")


def enter_raises():
    with BadEnter():
        return "unreached"


def no_exit():
    with NoExit():
        pass


def no_manager():
    with 3:
        pass


def leaves_loop(log):
    for i in range(5):
        with Manager(log, str(i)):
            if i == 1:
                continue
            if i == 3:
                break
    return log


def in_try(log):
    try:
        with Manager(log):
            {}["k"]
    except KeyError as error:
        return error.args
    finally:
        log.append("finally")


def generator_manager(log):
    with managed(log, 5) as value:
        log.append(value)
    return log


def generator_manager_raises(log):
    with managed(log):
        raise ValueError("inside")


def generator_manager_catches(log):
    with catching(log) as value:
        raise ValueError(value)
    return log


def generator_manager_lets_through(log):
    with catching(log):
        raise KeyError("k")


def generator_manager_returns(log):
    with managed(log) as value:
        return value


def generator_never_yields():
    with never_yields():
        pass


def generator_yields_twice():
    with yields_twice():
        pass


def suppressed(log):
    with suppress(KeyError, ValueError):
        log.append(1)
        {}["k"]
        log.append(2)
    with suppress(KeyError):
        log.append(3)
    return log


def not_suppressed():
    with suppress(KeyError):
        raise ValueError("v")


def null_context():
    with nullcontext(3) as value:
        return value


def closes(log):
    with closing(Closable(log)) as thing:
        log.append(thing is not None)
    return log


def closes_on_error(log):
    with closing(Closable(log)):
        raise ValueError("v")


def exit_stack(log):
    with ExitStack() as stack:
        stack.enter_context(Manager(log, "a"))
        stack.enter_context(Manager(log, "b"))
        stack.callback(log.append, "callback")
        log.append("body")
    return log


def exit_stack_swallows(log):
    with ExitStack() as stack:
        stack.enter_context(Manager(log, "a", swallow=True))
        stack.enter_context(Manager(log, "b"))
        raise ValueError("v")
    return log


def decorator(log):
    @managed(log)
    def inner(n):
        log.append("inner")
        return n + 1

    return inner(3)


def manager_of_argument(m):
    with m as same:
        same.name = "changed"
    return m.log


def own_decorator(log):
    class_based = Manager(log)
    with class_based, class_based:
        log.append("twice")
    return log


def exception_context_in_exit(log):
    class_ = contextlib.suppress
    with class_(ZeroDivisionError):
        1 / 0
    return "done"


CASES = [
    case(plain, []), case(without_name, []), case(several, []), case(nested_return, []),
    case(raises_inside, []), case(swallows, []), case(replaces, []), case(enter_raises),
    case(no_exit), case(no_manager), case(leaves_loop, []), case(in_try, []),
    case(generator_manager, []), case(generator_manager_raises, []),
    case(generator_manager_catches, []), case(generator_manager_lets_through, []),
    case(generator_manager_returns, []), case(generator_never_yields),
    case(generator_yields_twice), case(suppressed, []), case(not_suppressed),
    case(null_context), case(closes, []), case(closes_on_error, []), case(exit_stack, [], breaks=None),
    case(exit_stack_swallows, [], breaks=None), case(decorator, []), case(manager_of_argument, Manager([])),
    case(own_decorator, []), case(exception_context_in_exit, []),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


# -- stacks of managers ----------------------------------------------------------------------------


def a_stack_of_all_kinds(log):
    with ExitStack() as stack:
        stack.callback(log.append, "called back")
        first = stack.enter_context(Manager(log, "first"))
        stack.push(Manager(log, "pushed"))
        stack.push(lambda *found: log.append(found[0]))
        return first.name, log


def an_error_that_is_swallowed(log):
    with ExitStack() as stack:
        stack.enter_context(Manager(log, "outer", swallow=True))
        stack.enter_context(Manager(log, "inner"))
        raise ValueError("lost")
    return log


def an_error_that_passes(log):
    try:
        with ExitStack() as stack:
            stack.enter_context(Manager(log, "outer"))
            stack.enter_context(Replacing(log))
            raise ValueError("found")
    except KeyError as error:
        return log, error.args, type(error.__context__)


def moved_and_closed(log):
    stack = ExitStack()
    stack.enter_context(Manager(log, "moved"))
    other = stack.pop_all()
    stack.close()
    log.append("between")
    other.close()
    return log


def as_many_as_there_are(log, names):
    with ExitStack() as stack:
        managers = [stack.enter_context(Manager(log, name)) for name in names]
        return [manager.name for manager in managers]


STACKS = [
    case(a_stack_of_all_kinds, [], graphs=0), case(an_error_that_is_swallowed, [], graphs=0),
    case(an_error_that_passes, [], graphs=0), case(moved_and_closed, [], graphs=0),
    case(as_many_as_there_are, [], ["a", "b"], graphs=0), case(as_many_as_there_are, [], [], graphs=0),
]  # fmt: skip


@pytest.mark.parametrize("case", STACKS, ids=str)
def test_a_stack_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
