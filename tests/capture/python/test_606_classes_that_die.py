"""Compiled code keeps no class and no function of the program alive, and never takes one for dead."""

import gc
import weakref

import pytest

import dynajit as dj


def class_in_its_own_dict():
    class A:
        table = {}

    A.table[A] = None
    reference = weakref.ref(A)
    del A
    gc.collect()
    return reference() is None


def class_with_everything():
    class Base:
        __slots__ = ()

        def method(self):
            return 1

    class A(Base):
        __slots__ = ("value", "__weakref__")
        constant = 3

        def __init__(self, value):
            self.value = value

        def method(self):
            return super().method() + self.value

        @property
        def twice(self):
            return 2 * self.method() + (__class__ is A)

        @staticmethod
        def made(value):
            return A(value)

        @classmethod
        def named(cls, value):
            return cls(value), cls.__name__

    one, (two, name) = A.made(1), A.named(2)
    found = one.twice, two.twice, name, A.constant, isinstance(one, Base)
    references = [weakref.ref(A), weakref.ref(Base), weakref.ref(A.method), weakref.ref(one)]
    del A, Base, one, two
    gc.collect()
    return found, [reference() is None for reference in references]


def method_that_is_deleted():
    class A:
        def method(self):
            return 4

    instance = A()
    found = instance.method()
    method = weakref.WeakMethod(instance.method)
    reference = weakref.ref(A.method)
    del A.method
    return found, reference() is None, method() is None


def function_that_is_deleted():
    def inner(x):
        return x + 1

    found = inner(1)
    reference = weakref.ref(inner)
    del inner
    return found, reference() is None


ENDING = [
    class_in_its_own_dict, class_with_everything, method_that_is_deleted, function_that_is_deleted,
]  # fmt: skip


@pytest.mark.parametrize("function", ENDING)
def test_classes_and_functions_end_as_in_plain_python(function):
    compiled = dj.compile(function, backend="numpy")
    for _ in range(4):
        assert compiled() == function()


def make_class(number):
    class Local:
        constant = number

        def __init__(self, value):
            self.value = value

        @property
        def total(self):
            return self.value + number

    return Local


def total(instance, x):
    return x + instance.total


def made(cls, x):
    return cls(2), x + 1


@pytest.mark.parametrize("function", [total, made])
def test_arguments_of_classes_that_die(function):
    x = dj.ones(2)
    compiled = dj.compile(function, backend="numpy")
    for number in range(5):
        cls = make_class(number)
        argument = cls if function is made else cls(1)
        for _ in range(3):
            found, expected = compiled(argument, x), function(argument, x)
            if function is made:
                assert type(found[0]) is cls
                assert found[0].total == expected[0].total
            else:
                assert (found == expected).all()
        reference = weakref.ref(cls)
        del cls, argument, found, expected
        gc.collect()
        assert reference() is None


def test_versions_for_classes_that_died_are_dropped():
    compiled = dj.compile(lambda cls, x: x + cls.constant, backend="numpy")
    for number in range(8):
        namespace = type(f"Class{number}", (), {"constant": number})
        assert float(compiled(namespace, dj.ones(()))) == number + 1
        del namespace
        gc.collect()
    assert compiled.entry_count <= 3


class Named:
    pass


thing = Named()


def is_thing(x):
    return x + (1 if thing is None else 2)


def test_none_is_not_taken_for_an_object_that_died(monkeypatch):
    compiled = dj.compile(is_thing, backend="numpy")
    assert float(compiled(dj.ones(()))) == 3
    monkeypatch.setitem(globals(), "thing", None)
    gc.collect()
    assert float(compiled(dj.ones(()))) == 2
