"""Objects that wrap functions: properties, class and static methods, `functools.update_wrapper`.

PYTEST_DONT_REWRITE: assertions of the programs under test are those of plain Python.
"""

# ruff: noqa
# The programs under test are spelled as users spell them.

import functools

import pytest
from tests.support.python.harness import case


def class_method_keeps_its_function():
    def function():
        return 1

    method = classmethod(function)
    return method.__func__ is function, method.__wrapped__ is function


def static_method_keeps_its_function():
    def function():
        return 1

    method = staticmethod(function)
    return method.__func__ is function, method.__wrapped__ is function


def annotations_of_a_static_method_are_one_dict():
    def function(x: int):
        return x

    method = staticmethod(function)
    id(method)
    return method.__annotations__ is method.__annotations__, method.__annotations__ == {"x": int}


class Cursed:
    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner):
        return lambda: ("bound to", owner.__name__, self.function(owner))

    def __call__(self, owner):
        return ("called with", owner.__name__)


class Wrapping:
    @classmethod
    @Cursed
    def outer(cls):
        return "outer"


def class_method_of_a_descriptor():
    return Wrapping.outer(), Wrapping().outer()


class Target:
    pass


def unnamed_property_is_not_named_in_errors():
    texts = []
    Target.unnamed = property()
    for step in (getattr, delattr, lambda target, name: setattr(target, name, 1)):
        try:
            step(Target(), "unnamed")
        except AttributeError as error:
            texts.append(str(error))
    return texts


class Empty:
    named = property()


def named_property_is_named_in_errors():
    texts = []
    for step in (
        lambda target: target.named,
        lambda target: setattr(target, "named", 1),
        lambda target: delattr(target, "named"),
    ):
        try:
            step(Empty())
        except AttributeError as error:
            texts.append(str(error))
    return texts


class Unsure:
    def __bool__(self):
        raise ValueError("unsure")


def unsure_function():
    pass


unsure_function.__isabstractmethod__ = Unsure()
UNSURE = property(unsure_function)


def truth_of_an_abstract_mark_is_the_programs():
    try:
        return UNSURE.__isabstractmethod__
    except ValueError as error:
        return str(error)


class Loud(property):
    def __get__(self, instance, owner=None):
        return "loud"


class WithLoud:
    @Loud
    def sound(self):
        return "quiet"


def property_subclass_reads_in_its_own_way():
    return WithLoud().sound


def wrapper_has_the_attributes_of_the_wrapped():
    def wrapped():
        """Text."""

    wrapped.tag = "a tag"

    @functools.wraps(wrapped)
    def wrapper():
        return wrapper.tag

    return wrapper(), wrapper.tag, wrapper.__doc__


def existing_wrapped():
    """Text."""


existing_wrapped.tag = ["a tag"]


def wrapper_has_the_attributes_of_an_existing_function():
    @functools.wraps(existing_wrapped)
    def wrapper():
        pass

    return wrapper.tag is existing_wrapped.tag, wrapper.__wrapped__ is existing_wrapped


def only_what_is_asked_for_is_copied():
    def wrapped():
        """Text of the wrapped."""

    wrapped.tag = "a tag"

    def wrapper():
        """Text of the wrapper."""

    functools.update_wrapper(wrapper, wrapped, ("__doc__",), ())
    return wrapper.__name__, wrapper.__doc__, sorted(wrapper.__dict__)


def setting_wrapped_copies_nothing():
    def wrapped():
        """Text of the wrapped."""

    def wrapper():
        """Text of the wrapper."""

    wrapper.__wrapped__ = wrapped
    id(wrapper)
    return wrapper.__name__, wrapper.__doc__


class Bound:
    def itself(self):
        return self


def methods_bound_again(first, second):
    """From 3.13 on a method stays bound to what it was bound to; before, its function is bound."""
    again = first.itself.__get__(second, Bound)
    from_class = first.itself.__get__(None, Bound)
    new = Bound()
    return (
        again() is first,
        again.__self__ is second,
        from_class.__name__,
        new.itself.__get__(first, Bound)() is first,
    )


def functions_bound_by_hand(first):
    return Bound.itself.__get__(first, Bound)() is first, Bound.itself.__get__(first)() is first


def bound_to_nothing(first):
    try:
        first.itself.__get__(None, None)
    except TypeError as error:
        return str(error)


CASES = [
    case(class_method_keeps_its_function, breaks=None),
    case(static_method_keeps_its_function, breaks=None),
    case(annotations_of_a_static_method_are_one_dict, breaks=None),
    case(class_method_of_a_descriptor, breaks=None),
    case(unnamed_property_is_not_named_in_errors, breaks=None),
    case(named_property_is_named_in_errors, breaks=None),
    case(truth_of_an_abstract_mark_is_the_programs, breaks=None),
    case(property_subclass_reads_in_its_own_way, breaks=None),
    case(wrapper_has_the_attributes_of_the_wrapped),
    case(wrapper_has_the_attributes_of_an_existing_function),
    case(only_what_is_asked_for_is_copied, breaks=None),
    case(setting_wrapped_copies_nothing, breaks=None),
    case(methods_bound_again, Bound(), Bound()),
    case(functions_bound_by_hand, Bound()),
    case(bound_to_nothing, Bound(), breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
