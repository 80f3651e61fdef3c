"""Exceptions that existed before the call, where they meet those that captured code makes."""

import pytest

from tests.support.python.harness import case

LOG = []


class Known(ValueError):
    pass


class Handed(Exception):
    """Its constructor gives one that exists."""

    def __new__(cls, *args):
        return EXISTING

    def __init__(self, *args):
        self.seen = args


OLD = Known("old")
EXISTING = Exception.__new__(Handed, "before")


def written_as_cause(error):
    made = ValueError(1)
    made.__cause__ = error
    LOG.append((made.__cause__ is error, made.__suppress_context__))
    return str(made)


def written_as_context(error):
    made = ValueError(1)
    made.__context__ = error
    LOG.append((made.__context__ is error, made.__suppress_context__))
    return str(made)


def raised_with_cause(error):
    made = ValueError(*error.args)
    made.__cause__ = error
    raise made


def a_number_as_cause(error):
    made = ValueError(1)
    made.__cause__ = 3
    return made


def constructed_existing():
    made = Handed(1, 2)
    return made is EXISTING, made.seen


def raised_existing_by_class():
    raise Handed


def stepwise():
    while True:
        try:
            yield
        except Exception as error:
            LOG.append((type(error), error.args, error is OLD))


def thrown(*what):
    steps = stepwise()
    next(steps)
    steps.throw(*what)
    steps.close()


def existing_thrown_with_its_class():
    thrown(Known, OLD)


def existing_thrown_with_its_base():
    thrown(ValueError, OLD)


def existing_thrown_with_another_class():
    thrown(KeyError, OLD)


def made_thrown_with_another_class():
    thrown(ValueError, KeyError("k"))


def made_thrown_with_its_base():
    thrown(LookupError, KeyError("k"))


def thrown_with_arguments():
    thrown(ValueError, (1, 2))
    thrown(ValueError, ())


def thrown_with_a_number():
    thrown(ValueError, 3)


def thrown_with_none():
    thrown(ValueError, None)
    thrown(ValueError, None, None)


def an_instance_with_a_value():
    thrown(ValueError(1), 3)


def thrown_with_an_odd_traceback():
    thrown(ValueError, ValueError(1), 3)


CAUSES = [
    case(written_as_cause, OLD, graphs=0),
    case(written_as_context, OLD, graphs=0),
    case(a_number_as_cause, OLD, graphs=0),
    case(raised_with_cause, OLD, graphs=None, breaks=None),
    case(constructed_existing, graphs=None, breaks=None),
    case(raised_existing_by_class, graphs=None, breaks=None),
]
THROWN = [
    case(function, graphs=None, breaks=None)
    for function in (
        existing_thrown_with_its_class,
        existing_thrown_with_its_base,
        existing_thrown_with_another_class,
        made_thrown_with_another_class,
        made_thrown_with_its_base,
        thrown_with_arguments,
        thrown_with_a_number,
        thrown_with_none,
        an_instance_with_a_value,
        thrown_with_an_odd_traceback,
    )
]


@pytest.mark.parametrize("row", [*CAUSES, *THROWN], ids=str)
def test_an_exception_from_before_is_one(row, assert_captured) -> None:
    row.check(assert_captured)
