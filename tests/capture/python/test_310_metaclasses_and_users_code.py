"""Operators of classes with a metaclass, argument rules of `object`, missing attributes.

User code that operators run is inlined, or runs for real: never while compiling.
"""

import collections
import types

import pytest

from tests.support.python.harness import Compiler, case

LOG = []


class Meta(type):
    mark = 1

    def __eq__(self, other):
        LOG.append("eq")
        return True

    def __hash__(self):
        LOG.append("hash")
        return 5

    def __bool__(self):
        LOG.append("bool")
        return False

    def __len__(self):
        LOG.append("len")
        return 7

    def __repr__(self):
        LOG.append("repr")
        return "REPR"

    def __format__(self, text):
        LOG.append("format")
        return "F"

    def __contains__(self, item):
        LOG.append("contains")
        return True

    def __getitem__(self, index):
        LOG.append("getitem")
        return index

    def __add__(self, other):
        LOG.append("add")
        return other

    def __neg__(self):
        LOG.append("neg")
        return 3

    def __lt__(self, other):
        LOG.append("lt")
        return True

    def __call__(self, *args):
        LOG.append("call")
        return super().__call__(*args)

    def __getattr__(self, name):
        LOG.append("getattr")
        return name

    @property
    def made(self):
        LOG.append("made")
        return 8


class Loud(metaclass=Meta):
    pass


class Other(metaclass=Meta):
    pass


class Subscripted:
    asked = []

    def __class_getitem__(cls, item):
        cls.asked.append(item)
        return item


def logged(found):
    taken = list(LOG)
    LOG.clear()
    return found, taken


def comparisons_of_classes():
    LOG.clear()
    found = Loud == Other, Loud == 3, 3 == Loud, Loud != Other, Loud < Other
    return logged((found, (Loud, 1) == (Other, 1), Loud in [Other], [Loud].index(Other)))


def operators_of_classes():
    LOG.clear()
    found = bool(Loud), not Loud, len(Loud), Loud[3], 3 in Loud, Loud + 1, -Loud
    return logged(found)


def texts_of_classes():
    LOG.clear()
    return logged((repr(Loud), str(Loud), f"{Loud}", f"{Loud!r}", "%s" % Loud, repr([Loud])))


def attributes_of_classes():
    LOG.clear()
    return logged((Loud.unknown, Loud.made, hasattr(Loud, "other"), getattr(Loud, "third", 1)))


def class_is_called():
    LOG.clear()
    made = Loud()
    return logged(type(made) is Loud)


def class_as_a_key():
    LOG.clear()
    return logged((hash(Loud), len({Loud: 1}), Loud in {Other}))


def subscripted_class():
    Subscripted.asked.clear()
    return Subscripted[int], Subscripted.asked


def attribute_of_a_number_is_not_one_of_type():
    return hasattr(1.0, "__or__"), hasattr(1.0, "mro"), hasattr([], "__subclasses__")


class Neither:
    pass


class New:
    def __new__(cls, first, *args):
        return object.__new__(cls, *args)


class Init:
    def __init__(self, first, *args):
        object.__init__(self, *args)


class Both(New, Init):
    pass


def text_of(make, *args, **keywords):
    try:
        return type(make(*args, **keywords)).__name__
    except TypeError as error:
        return str(error)


def arguments_of_object():
    found = []
    for cls in (Neither, New, Init, Both):
        found += [text_of(cls, 1), text_of(cls, 1, 2), text_of(object.__new__, cls, 1)]
    found += [text_of(Neither, word=1), text_of(object.__init__, Neither(), 1)]
    return found


def descriptors_get_wrong_objects():
    found = []
    for method in (set.add, list.sort, str.upper, collections.deque.append):
        found += [text_of(method), text_of(method, Neither(), 1)]
    return found


def call_of_an_object_that_is_its_own_call():
    class Chain:
        pass

    Chain.__call__ = Chain()
    try:
        return Chain()()
    except RecursionError:
        return "too deep"


def error_of_object_getattribute():
    thing = Neither()
    try:
        object.__getattribute__(thing, "missing")
    except AttributeError as error:
        return error.name, error.obj is thing, str(error)


class Getter:
    def __init__(self):
        self.count = 0

    def __get__(self, obj, owner=None):
        def read(name):
            self.count += 1
            raise AttributeError(name)

        return read


READS, FALLBACK = Getter(), Getter()


class ByDescriptor:
    __getattribute__ = READS


class FallsBack:
    __getattr__ = FALLBACK


def attributes_by_descriptors():
    READS.count = FALLBACK.count = 0
    for thing in (ByDescriptor(), FallsBack()):
        with pytest.raises(AttributeError):
            thing.anything
    return READS.count, FALLBACK.count


CASES = [
    case(comparisons_of_classes),
    case(operators_of_classes),
    case(texts_of_classes),
    case(attributes_of_classes),
    case(class_is_called),
    case(class_as_a_key, breaks=None),
    case(subscripted_class),
    case(attribute_of_a_number_is_not_one_of_type),
    case(arguments_of_object, breaks=None),
    case(descriptors_get_wrong_objects),
    case(call_of_an_object_that_is_its_own_call, breaks=None),
    case(error_of_object_getattribute),
    case(attributes_by_descriptors, breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


MODULE = types.ModuleType("made_here")
LAZY = types.ModuleType("lazy")
exec("def __getattr__(name):\n    return name.upper()", vars(LAZY))


class Growing:
    pass


def module_lacks_it():
    return hasattr(MODULE, "late")


def class_lacks_it():
    return hasattr(Growing, "late")


@pytest.mark.parametrize(
    ("function", "place"), [(module_lacks_it, MODULE), (class_lacks_it, Growing)]
)
def test_an_attribute_that_was_missing_is_found_later(function, place):
    compiled = Compiler().compile(function)
    assert compiled() is False
    place.late = 1
    try:
        assert compiled() is True
    finally:
        del place.late


def module_with_a_getattr():
    return LAZY.some


def module_without_a_name():
    module = types.ModuleType.__new__(types.ModuleType)
    return hasattr(module, "__name__"), hasattr(module, "other")


def annotations_of_a_module():
    found = MODULE.__annotations__
    id(found)
    return MODULE.__annotations__ == {}


@pytest.mark.parametrize(
    "case",
    [
        case(module_with_a_getattr),
        case(module_without_a_name, breaks=None),
        case(annotations_of_a_module, breaks=None),
    ],
    ids=str,
)
def test_module_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


ASKED = []


class Asked(type):
    """A metaclass that notes what is asked of its classes."""

    def __getattribute__(cls, name):
        ASKED.append(name)
        return type.__getattribute__(cls, name)


class Attributes(type):
    """A metaclass with attributes that are not stored."""

    def __getattr__(cls, name):
        ASKED.append(name)
        return 5


class Shown(type):
    @property
    def __mro__(cls):
        ASKED.append("mro")
        return ()

    @property
    def __name__(cls):
        ASKED.append("name")
        return "shown"


def of_metaclass(metaclass):
    class Made(metaclass=metaclass):
        x = 1

        def __init__(self):
            self.v = 1

        def method(self):
            return self.v

        def __add__(self, other):
            return 3

    return Made


def uses_class(cls, o):
    return cls().v, cls.x


def uses_method(cls, o):
    o.v = 2
    return o.method(), o + 1, [o] == [o]


def asks_class(cls, o):
    return isinstance(o, cls), isinstance(o, int), type(o) is cls, bool(o)


def asks_missing(cls, o):
    return getattr(o, "missing", 4), getattr(cls, "missing", 4)


def refuses(cls, o):
    try:
        return len(o)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("metaclass", [Asked, Attributes, Shown])
@pytest.mark.parametrize("function", [uses_class, uses_method, asks_class, asks_missing, refuses])
def test_classes_are_asked_as_often_as_python_asks_them(function, metaclass, strict):
    cls = of_metaclass(metaclass)
    compiled = Compiler().compile(function)
    found = []
    for called in (function, compiled, compiled):
        ASKED.clear()
        found.append((called(cls, cls()), list(ASKED)))
    assert found[0] == found[1] == found[2]


READ_ONLY, READ_AND_WRITTEN = property(len), property(len, len)


def lacks_setter(n):
    return READ_ONLY.fset is None, READ_AND_WRITTEN.fset is None, READ_AND_WRITTEN.fdel, n


def test_a_property_without_a_setter_has_none(strict):
    compiled = Compiler().compile(lacks_setter)
    assert [lacks_setter(1)] * 2 == [compiled(1) for _ in range(2)]
