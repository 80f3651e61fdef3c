"""Identity of tuples, attributes of new functions, and calls of built-ins with wrong arguments."""

import pytest

from tests.support.python.harness import case

KINDS = ["conv", "".join(["co", "nv"]), 3, 300, 1.5]


def copies_of_a_tuple():
    s, empty = (1, [2]), ()
    return s * 1 is s, 1 * s is s, s[:] is s, s + empty is s, empty + s is s, tuple(s) is s


def empty_tuples():
    s = (1, 2)
    return s[2:] is (s * 0), tuple(iter(())) is s[:0], s is s[:1]


def existing_constants():
    kinds, three, four = KINDS, 3, 4
    texts = kinds[0] is kinds[1], kinds[0] is kinds[0], kinds[0] == kinds[1]
    return texts, kinds[2] is three, kinds[2] is four, kinds[3] is kinds[3], kinds[4] is kinds[0]


def existing_text_and_literal():
    literal = "conv"
    return [name is literal for name in KINDS[:2]]


def id_of_a_tuple():
    s = (1, [2])
    before = id(s)
    return before == id(s), before == id(s * 1), before == id(s[:])


def id_of_a_bound_method():
    items = []
    push = items.append
    before = id(push)
    return before == id(push)


def function_gets_other_code():
    def f():
        return 1

    def g():
        return 2

    f.__code__ = g.__code__
    return f()


def function_gets_code_with_other_cells():
    value = 1

    def f():
        return value

    def g():
        return 2

    f.__code__ = g.__code__


def function_gets_other_defaults():
    def f(a=1, *, b=2):
        return a, b

    f.__defaults__ = (5,)
    f.__kwdefaults__ = {"b": 7}
    first = f()
    f.__defaults__ = None
    try:
        f()
    except TypeError as error:
        return first, str(error)


def function_gets_bad_defaults():
    def f(a=1):
        return a

    f.__defaults__ = 5


def function_gets_a_bad_name():
    def f():
        return 1

    f.__name__ = 5


def function_gets_attributes():
    def f():
        return 1

    f.__name__ = "g"
    f.count = 3
    f.__doc__ = "text"
    return f.__name__, f.count, f.__doc__, f()


def function_gets_a_dict():
    def f():
        return 1

    f.__dict__ = {"count": 3}
    return f.count


def function_of_a_class_method():
    def f():
        return 1

    return classmethod(f).__func__ is f, staticmethod(f).__wrapped__ is f


class Pretends:
    @property
    def __class__(self):
        return 413


class HasItAsAttribute:
    __class__ = 413


def class_attribute_that_is_no_class():
    return Pretends().__class__, HasItAsAttribute().__class__


def cells_are_compared():
    low, high = 2, 3

    def f():
        return low, high

    first, second = f.__closure__
    return first < second, first == second


def reversed_range():
    it = reversed(range(5))
    first = next(it)
    return first, type(it) is type(iter(range(3))), list(it)


def super_in_a_function_without_arguments():
    class Inner:
        def method():
            super()

    Inner.method()


def setattr_of_two():
    setattr(1, 2)


def isinstance_of_one():
    isinstance(1)


def issubclass_of_three():
    issubclass(int, int, int)


def getattr_of_one():
    getattr(1)


def len_of_two():
    len([], [])


def len_with_a_name():
    len(obj=[])


def vars_of_a_number():
    vars(42)


def super_of_three():
    super(1, 2, 3)


def any_of_nothing():
    any()


def format_of_three():
    format(1, "", "")


def range_of_nothing():
    range()


def slice_with_a_name():
    slice(stop=3)


def type_of_two():
    type(1, 2)


def iter_of_nothing():
    iter()


VALUES = [
    case(copies_of_a_tuple),
    case(empty_tuples),
    case(id_of_a_tuple, breaks=None),
    case(id_of_a_bound_method, breaks=None),
    case(function_gets_other_code, breaks=None),
    case(existing_constants),
    case(existing_text_and_literal),
    case(function_gets_code_with_other_cells, breaks=None),
    case(function_gets_other_defaults),
    case(function_gets_bad_defaults, breaks=None),
    case(function_gets_a_bad_name, breaks=None),
    case(function_gets_attributes),
    case(function_gets_a_dict, breaks=None),
    case(function_of_a_class_method, breaks=None),
    case(class_attribute_that_is_no_class, breaks=None),
    case(cells_are_compared, breaks=None),
    case(reversed_range),
    case(super_in_a_function_without_arguments, breaks=None),
]

REFUSALS = [
    setattr_of_two, isinstance_of_one, issubclass_of_three, getattr_of_one, len_of_two,
    len_with_a_name, vars_of_a_number, super_of_three, any_of_nothing, format_of_three,
    range_of_nothing, slice_with_a_name, type_of_two, iter_of_nothing,
]  # fmt: skip


@pytest.mark.parametrize("case", VALUES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


@pytest.mark.parametrize("function", REFUSALS, ids=lambda function: function.__name__)
def test_a_call_that_python_refuses_raises_pythons_error(function, assert_captured):
    with pytest.raises(TypeError):
        function()
    assert_captured(function, graphs=None)
