"""What special methods may return, and what built-in functions refuse: as the interpreter says."""

import collections.abc
import operator
import types
import typing

import pytest

from tests.support.python.harness import case


class Wrong:
    """Every special method returns a value of a wrong type."""

    def __hash__(self):
        return "text"

    def __int__(self):
        return "text"

    def __float__(self):
        return 3

    def __complex__(self):
        return 3

    def __index__(self):
        return "text"

    def __format__(self, specification):
        return 5

    def __len__(self):
        return 2**70

    def __repr__(self):
        return 4


class Plain:
    pass


class Index:
    def __index__(self):
        return 7


class Rounded:
    def __round__(self, digits="none"):
        return digits


class BigHash:
    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number


LOG = []


class Asked(type):
    def __instancecheck__(cls, instance):
        LOG.append(instance)
        return True

    def __subclasscheck__(cls, derived):
        LOG.append(derived)
        raise ZeroDivisionError("asked")


class ByMetaclass(metaclass=Asked):
    pass


class Pretender:
    @property
    def __class__(self):
        return int


def _outcome(function, *arguments, **keywords):
    try:
        return function(*arguments, **keywords)
    except Exception as error:
        return type(error), str(error)


def hash_of_text():
    return _outcome(hash, Wrong())


def hash_as_dict_key():
    return {Wrong(): 1}


def hashes_are_not_hashed_again():
    numbers = (2**61 - 1, 2**62, -(2**63), 2**63 - 1, 2**64, -1, True)
    return [hash(BigHash(number)) for number in numbers]


def conversions():
    return _outcome(int, Wrong()), _outcome(float, Wrong()), _outcome(complex, Wrong())


def conversions_without_a_method():
    return _outcome(int, Plain()), _outcome(float, Plain()), _outcome(complex, Plain())


def conversions_by_index():
    return int(Index()), float(Index()), complex(Index()), operator.index(Index())


def indices():
    return _outcome(operator.index, Wrong()), _outcome(operator.index, Plain())


def index_of_list():
    return [1, 2][Wrong()]


def texts():
    return _outcome(repr, Wrong()), _outcome(str, Wrong()), _outcome(format, Wrong())


def text_in_f_string():
    return f"{Wrong()}"


def length_too_large():
    return _outcome(len, Wrong())


def rounding():
    return (
        round(Rounded()),
        round(Rounded(), None),
        round(Rounded(), 3),
        round(Rounded(), ndigits=2),
    )


def names_that_are_no_text(function):
    value = Plain()
    arguments = (value, 1, 2) if function is setattr else (value, 1)
    return _outcome(function, *arguments), _outcome(function, types, *arguments[1:])


def iter_of_function_and_sentinel():
    return _outcome(iter, 42, 42)


def instance_of_union():
    LOG.clear()
    union = str | ByMetaclass
    return isinstance(3, union), isinstance("", union), isinstance(3, (str, ByMetaclass)), LOG


def class_of_union_that_raises():
    LOG.clear()
    found = (
        _outcome(issubclass, int, str | ByMetaclass),
        _outcome(issubclass, str, str | ByMetaclass),
    )
    return found, list(LOG)


def instance_by_its_class_attribute():
    return isinstance(Pretender(), int), isinstance(Pretender(), Pretender)


class Hooked(collections.abc.Sized):
    @classmethod
    def __subclasshook__(cls, derived):
        return derived is int


def instance_by_subclass_hook():
    return isinstance(3, Hooked), isinstance("", Hooked)


def types_of_bound_methods():
    methods = (42).__lt__, [].append, "a".join, [].__len__, {}.__contains__
    return [type(method) for method in methods]


T = typing.TypeVar("T")
S = typing.TypeVar("S")


def subscripts_of_generic_aliases():
    alias = list[T] | list[S]
    return alias[int, T] == list[int] | list[T]


CASES = [
    case(hash_of_text),
    case(hash_as_dict_key),
    case(hashes_are_not_hashed_again),
    case(conversions),
    case(conversions_without_a_method, breaks=None),
    case(conversions_by_index, breaks=None),
    case(indices),
    case(index_of_list),
    case(texts),
    case(text_in_f_string),
    case(length_too_large),
    case(rounding),
    *[case(names_that_are_no_text, f) for f in (getattr, hasattr, setattr, delattr)],
    case(iter_of_function_and_sentinel),
    case(instance_of_union),
    case(class_of_union_that_raises),
    case(instance_by_its_class_attribute, breaks=None),
    case(instance_by_subclass_hook, breaks=None),
    case(types_of_bound_methods),
    case(subscripts_of_generic_aliases, breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
