"""Classes of exceptions whose `__new__` is odd, and a function in the place of `super`."""

import pytest

from tests.support.python.harness import case


class ByClassMethod(Exception):
    @classmethod
    def __new__(*args):
        return None


class ByFunction(Exception):
    pass


ByFunction.__new__ = lambda cls, *args: Exception.__new__(cls, "made", *args)


class Shadowed:
    message = "shadowed"

    def __init__(self, *args):
        self.args = args


class Base:
    message = "base"


def _with_its_own_super(super):
    class Derived(Base):
        def implicit(self):
            return super().message

        def explicit(self):
            return super(Derived, self).message, super(1, 2).args

    return Derived


Hidden = _with_its_own_super(Shadowed)
NAMES = {"Base": Base, "Shadowed": Shadowed, "super": Shadowed}
exec(
    """
class GlobalSuper(Base):
    def implicit(self):
        return super().message

    def explicit(self):
        return super(1, 2).args
""",
    NAMES,
)
GlobalSuper = NAMES["GlobalSuper"]


def made_by_a_class_method(n):
    return ByClassMethod(n)


def made_by_a_function(n):
    return ByFunction(n).args


def caused_by_a_class_method(n):
    try:
        raise IndexError(n) from ByClassMethod
    except TypeError as error:
        return str(error)
    except IndexError as error:
        return error.__cause__


def super_of_an_enclosing_function(n):
    return Hidden().implicit(), n


def super_of_the_module(n):
    return GlobalSuper().implicit(), GlobalSuper().explicit(), n


CASES = [
    case(made_by_a_class_method, 1, graphs=0, breaks=None),
    case(made_by_a_function, 1, graphs=0, breaks=None),
    case(caused_by_a_class_method, 1, graphs=0, breaks=None),
    case(super_of_an_enclosing_function, 1, graphs=0, breaks=None),
    case(super_of_the_module, 1, graphs=0, breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
