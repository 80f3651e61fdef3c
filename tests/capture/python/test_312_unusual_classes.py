"""Classes that shadow, borrow and hide: names of metaclasses, methods of other classes, odd keys."""

import sys
import types

import pytest

from tests.support.python.harness import Compiler, case

LOG = []


class Described:
    """About it."""


class Named(type):
    @property
    def mark(cls):
        return "of the class"


class Marked(metaclass=Named):
    mark = "of the instance"


class Borrowing(dict):
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__
    __getattr__ = dict.__getitem__
    __neg__ = dict.copy


class Bytes(bytes):
    pass


class LoudModule(types.ModuleType):
    def __getattribute__(self, name):
        LOG.append(name)
        return types.ModuleType.__getattribute__(self, name)


LOUD = LoudModule("loud")
LOUD.known = 3


class Refusing:
    def __new__(cls, *args):
        raise AssertionError


class Restored(Refusing):
    __new__ = object.__new__

    def __init__(self, item):
        self.item = item


class Claims(str):
    """Equals every other text."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return str.__hash__(self) ^ 3


class Key:
    """Looks like the name `hidden`, and says so aloud."""

    def __hash__(self):
        return hash("hidden")

    def __eq__(self, other):
        LOG.append(sys._getframe(1).f_code.co_filename)
        return False


def class_with_an_odd_key():
    return type("Odd", (), {Key(): 1, "hidden": 2, "method": lambda self: self.hidden})


def text_of_an_instance():
    found = Described()
    return found.__doc__ == "About it.", found.__module__ == __name__, Described.__doc__


def text_of_an_argument(value):
    return value.__doc__, value.__module__, type(value).__doc__


def shadowed_by_the_metaclass(value):
    return value.mark, Marked().mark, Marked.mark


def borrowed_methods():
    value = Borrowing()
    value.first = 1
    value.second = 2
    del value.first
    return value["second"], value == -value, value.second, vars(value)


def derived_bytes():
    return Bytes(), Bytes([1, 2]), Bytes("é", "utf-8")


def derived_bytes_of_text():
    return Bytes("a")


def loud_module():
    LOG.clear()
    found = isinstance(LOUD, int), isinstance(LOUD, types.ModuleType), callable(LOUD), LOUD.known
    same = LOUD is LOUD
    return LOUD.other if found[0] else (found, same, list(LOG))


def object_new_with_arguments():
    return Restored(3).item


def reads_the_name_of_a_key(cls):
    return cls.hidden, cls().hidden, cls().method()


def keyword_of_a_derived_class():
    return dict(**{Claims("first"): 1}), round(1.75, **{Claims("other"): 1})


def traced():
    lines = []

    def tracer(frame, event, argument):
        if event == "line" and frame.f_code.co_name == "text_of_an_argument":
            lines.append(frame.f_lineno - frame.f_code.co_firstlineno)
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        text_of_an_argument(None)
    finally:
        sys.settrace(before)
    return lines


def context_that_leads_to_itself():
    try:
        try:
            raise ValueError(1)
        except ValueError as error:
            error.__context__ = error
            raise TypeError(2)
    except TypeError as error:
        return error.__context__.args, error.__context__.__context__ is error.__context__


def leaves_with_context_that_leads_to_itself():
    first, second = KeyError(1), KeyError(2)
    first.__context__, second.__context__ = second, first
    try:
        raise ValueError(3)
    except ValueError as error:
        error.__context__ = first
        raise TypeError(4)


CASES = [
    case(text_of_an_instance), case(text_of_an_argument, Described()),
    case(shadowed_by_the_metaclass, Marked(), breaks=None),
    case(borrowed_methods),
    case(derived_bytes, breaks=None), case(derived_bytes_of_text, breaks=None),
    case(loud_module, breaks=None),
    case(object_new_with_arguments, breaks=None),
    case(keyword_of_a_derived_class, breaks=None), case(traced, breaks=None),
    case(context_that_leads_to_itself),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


@pytest.mark.filterwarnings("ignore:non-string key:RuntimeWarning")  # from 3.13 on
def test_the_compiler_asks_no_key_of_a_class():
    odd = class_with_an_odd_key()
    LOG.clear()
    assert Compiler().compile(reads_the_name_of_a_key)(odd) == (2, 2, 2)
    assert set(LOG) == {__file__}  # asked by the program alone
