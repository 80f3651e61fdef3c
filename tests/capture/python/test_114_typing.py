"""Classes, aliases and variables of `typing`: what their metaclasses and C forms refuse and say."""

import functools
import typing

import pytest

from tests.support.python.harness import case

T = typing.TypeVar("T")
P = typing.ParamSpec("P")


class Movie(typing.TypedDict):
    name: str


class Options(typing.TypedDict, total=False):
    level: int


class Proto(typing.Protocol):
    def run(self): ...


class Runs(Proto):
    def __init__(self, n):
        self.n = n

    def run(self):
        return self.n


class Anything(*((typing.Any,) if isinstance(typing.Any, type) else ())):
    pass


class Registry:
    @functools.singledispatchmethod
    @staticmethod
    def shown(n: int) -> str:
        """Shows it."""
        return str(n)


def any_instance(n):
    return isinstance(n, typing.Any)


def any_subclass(n):
    return issubclass(type(n), typing.Any)


def typed_dict_instance(d):
    return isinstance(d, Movie)


def typed_dicts_made(name):
    return Movie(name=name), Options(), Options(level=3), type(Movie(name=name))


def parameters_of(n):
    return typing.Callable[[T], n][int], typing.Dict[T, T][n]


def method_of_a_variable(n):
    return getattr(T, "__typing_subst__", None)(n)


def method_of_a_specification(n):
    return getattr(P, "__typing_subst__", None)([n])


def protocols_class_made(n):
    return Runs(n).run(), isinstance(Runs(n), Runs)


def annotations_of_a_wrapper(n):
    function = Registry.shown
    return function.__doc__, function.__annotations__, n


def class_derived_from_any(n):
    return isinstance(n, Anything), isinstance(Anything(), Anything), issubclass(int, Anything)


CASES = [
    case(any_instance, 1, graphs=0),
    case(any_subclass, 1, graphs=0),
    case(typed_dict_instance, {"name": "a"}, graphs=0),
    case(typed_dicts_made, "a", graphs=0),
    case(parameters_of, int, graphs=0, breaks=None),
    case(method_of_a_variable, int, graphs=0, breaks=None),
    case(method_of_a_specification, int, graphs=0, breaks=None),
    case(protocols_class_made, 3, graphs=0),
    case(annotations_of_a_wrapper, 3, graphs=0, breaks=None),
    case(class_derived_from_any, 3, graphs=0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
