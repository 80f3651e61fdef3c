"""A version made for a harmless object is not used for one whose end does something.

Each program lets go of its argument before its end; it is called with objects that end quietly and
with others in turn: with a finalizer, with a listening weak reference, with either inside them.
"""

import contextvars
import sys
import weakref

import pytest

import dynajit as dj

LOG = []
REFERENCES = []
TABLE = {}


class Thing:
    pass


class Ending(Thing):
    def __del__(self):
        LOG.append("ended")


def quiet():
    return Thing()


def finalized():
    return Ending()


def listened():
    thing = Thing()
    REFERENCES.append(weakref.ref(thing, lambda _: LOG.append("called")))
    return thing


def holding():
    thing = Thing()
    thing.inner = [1, (Ending(),)]
    return thing


def in_list(make):
    return lambda: [make()]


def suspended():
    def generator():
        try:
            yield 1
        finally:
            LOG.append("closed")

    made = generator()
    next(made)
    return made


def deletes(x):
    LOG.append("a")
    del x
    LOG.append("b")


def binds_anew(x):
    LOG.append("a")
    x = None
    LOG.append("b")
    return x


def passes_on(x):
    def callee(y):
        LOG.append("in")
        y = 1
        LOG.append(y)

    LOG.append("a")
    y = x
    del x
    callee(y)
    LOG.append("b")
    y = None
    LOG.append("c")
    return y


def keeps_for_a_while(x):
    LOG.append("a")
    TABLE["x"] = x
    del x
    LOG.append("b")
    TABLE["x"] = None
    LOG.append("c")


def deletes_all(*xs):
    LOG.append("a")
    del xs
    LOG.append("b")


def deletes_named(**xs):
    LOG.append("a")
    del xs
    LOG.append("b")


def binds_a_cell(x):
    def inner():
        nonlocal x
        x = 1

    LOG.append("a")
    inner()
    LOG.append("b")
    return x


def keeps(x):
    LOG.append("a")
    LOG.append("b")


PROGRAMS = [
    deletes,
    binds_anew,
    passes_on,
    keeps_for_a_while,
    binds_a_cell,
    keeps,
]
MAKERS = [
    quiet, finalized, quiet, listened, holding, quiet, in_list(quiet), in_list(finalized),
    in_list(listened), suspended, lambda: 1, finalized, quiet,
]  # fmt: skip


def log_of(call):
    LOG.clear()
    REFERENCES.clear()
    call()
    return list(LOG)


@pytest.mark.parametrize("function", PROGRAMS)
def test_other_objects_end_where_plain_python_ends_them(function):
    compiled = dj.compile(function, backend="numpy")
    for make in MAKERS:
        assert log_of(lambda: function(make())) == log_of(lambda: compiled(make()))


def test_spread_arguments_end_where_plain_python_ends_them():
    compiled = dj.compile(deletes_all, backend="numpy")
    for make in MAKERS:
        assert log_of(lambda: deletes_all(make())) == log_of(lambda: compiled(make()))
    compiled = dj.compile(deletes_named, backend="numpy")
    for make in MAKERS:
        assert log_of(lambda: deletes_named(a=make())) == log_of(lambda: compiled(a=make()))


def by_name(function, make):
    return function(x=make())


def by_star(function, make):
    return function(*(make(),))


def by_a_tuple_of_the_caller(function, make):
    arguments = (make(),)
    function(*arguments)
    LOG.append(len(arguments))
    return type(arguments[0])


def by_a_local_of_the_caller(function, make):
    local = make()
    function(local)
    LOG.append("returned")
    return type(local)


def by_a_function_in_c(function, make):
    def caller(made):
        return contextvars.copy_context().run(function, made)

    return caller(make())


CALLERS = [
    by_name, by_star, by_a_tuple_of_the_caller, by_a_local_of_the_caller, by_a_function_in_c,
]  # fmt: skip


@pytest.mark.parametrize("caller", CALLERS)
def test_however_it_is_called(caller):
    compiled = dj.compile(deletes, backend="numpy")
    for make in MAKERS:
        for _ in range(3):  # the caller's instructions become special ones
            assert log_of(lambda: caller(deletes, make)) == log_of(lambda: caller(compiled, make))


@pytest.mark.parametrize("caller", CALLERS)
def test_where_functions_were_called_before(caller):
    for _ in range(20):  # the caller's instructions become those for functions
        caller(deletes, quiet)
    expected = log_of(lambda: caller(deletes, finalized))
    compiled = dj.compile(deletes, backend="numpy")
    assert expected == log_of(lambda: caller(compiled, finalized))


def test_what_the_caller_holds_needs_no_other_version():
    compiled = dj.compile(deletes, backend="numpy")
    compiled(Thing())
    count = len(compiled.entries())
    kept = holding()
    for _ in range(3):
        compiled(kept)
    assert count == len(compiled.entries())


@pytest.mark.xfail(
    sys.version_info >= (3, 14),
    reason="in the call of what is written in C, the interpreter has the object of a method where "
    "nobody can reach it (a variable of its C function), until the call is over",
    strict=True,
)
def test_methods_of_temporary_objects_end_them_where_plain_python_does():
    class Box:
        def __init__(self, held):
            self.held = held

        def method(self):
            LOG.append("a")
            del self
            LOG.append("b")

    plain = Box.method
    makers = [quiet, finalized, listened, quiet]
    expected = [log_of(lambda: Box(make()).method()) for make in makers]
    Box.method = dj.compile(plain, backend="numpy")
    assert expected == [log_of(lambda: Box(make()).method()) for make in makers]
