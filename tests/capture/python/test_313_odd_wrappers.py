"""Subclasses of property, staticmethod and classmethod that bind in their own way."""

import enum
from typing import NamedTuple

import pytest


class ClassValue(property):
    """On the class it is a value."""

    def __get__(self, instance, owner=None):
        return "of the class" if instance is None else super().__get__(instance, owner)


class Counting(staticmethod):
    """Gives a pair with what it was asked through."""

    def __get__(self, instance, owner=None):
        return "static", instance is None, owner.__name__


class Naming(classmethod):
    """Gives a text."""

    def __get__(self, instance, owner=None):
        return f"class method of {owner.__name__}"


class Same(staticmethod):
    """Binds as `staticmethod` does."""


class Box:
    @ClassValue
    def value(self):
        return 5

    counted = Counting(len)
    named = Naming(len)
    same = Same(len)

    @classmethod
    def own(cls):
        return cls.value, cls.counted, cls.named


class Child(Box):
    def through_super(self):
        return super().value

    @classmethod
    def of_super(cls):
        return super().same([1])


class Point(NamedTuple):
    first: int
    second: int = 2


Point.named = Naming(len)
Point.counted = Counting(len)


class Color(enum.Enum):
    RED = 1


Color.named = Naming(len)


def on_the_class(x):
    return x + 1, Box.value, Box.counted, Box.named, Box.same([1, 2])


def on_an_instance(x):
    box = Box()
    return x + box.value, box.counted, box.named, box.same([1, 2])


def through_a_class_method(x):
    return x + 1, Child.own(), Child().own()


def through_super(x):
    return x + Child().through_super(), Child.of_super()


def on_the_class_of_an_object(x, box):
    return x + 1, box.__class__.value, type(box).counted


def of_a_named_tuple(x):
    point = Point(1)
    return x + point.first, point.named, point.counted, Point.named


def of_an_enum_member(x):
    return x + Color.RED.value, Color.RED.named


@pytest.mark.parametrize("function", [on_the_class, through_a_class_method])
def test_is_as_in_plain_python_without_a_break(assert_captured, x, function):
    assert_captured(function, x)


def test_the_class_of_an_argument_is_asked(assert_captured, x):
    assert_captured(on_the_class_of_an_object, x, Child())


@pytest.mark.parametrize(
    "function", [on_an_instance, through_super, of_a_named_tuple, of_an_enum_member]
)
def test_is_as_in_plain_python(assert_captured, x, function):
    assert_captured(function, x, graphs=None, breaks=None)


class Nameless:
    """A getter that refuses to say its name."""

    asked = 0

    def __getattr__(self, name):
        Nameless.asked += 1
        raise KeyError(name)

    def __call__(self, instance):
        return 3


class Strange:
    value = property(Nameless())


def name_of_a_getter(x):
    before = Nameless.asked
    try:
        found = Strange.value.__name__
    except (AttributeError, KeyError) as error:
        found = type(error).__name__
    return x + 1, found, Nameless.asked - before


def test_what_a_property_wraps_is_asked_when_the_program_does(assert_captured, x):
    assert_captured(name_of_a_getter, x, graphs=None, breaks=None)
