"""Attributes and special methods: descriptors, slots, `super()`, operators, comparison, text.

PYTEST_DONT_REWRITE: assertions of the programs under test are those of plain Python.
"""

# The programs under test are spelled as users spell them.

import abc
import collections.abc
import functools

import pytest

from tests.support.python.harness import case

LOG = []


class Temperature:
    def __init__(self, degrees):
        self._degrees = degrees

    @property
    def degrees(self):
        """Degrees."""
        return self._degrees

    @degrees.setter
    def degrees(self, value):
        if value < 0:
            raise ValueError("too cold")
        self._degrees = value

    @degrees.deleter
    def degrees(self):
        self._degrees = None

    @property
    def fixed(self):
        return 7

    @property
    def broken(self):
        return self.nothing_there


class Typed:
    """Data descriptor."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return instance.__dict__.get(self.name, "unset")

    def __set__(self, instance, value):
        instance.__dict__[self.name] = ("set", value)

    def __delete__(self, instance):
        del instance.__dict__[self.name]


class Shadowed:
    """Non-data descriptor."""

    def __get__(self, instance, owner=None):
        return "from class", owner.__name__


class OnlySet:
    def __set__(self, instance, value):
        instance.seen = value


class Described:
    typed = Typed()
    shadowed = Shadowed()
    only_set = OnlySet()

    def __init__(self, value):
        self.typed = value


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class MoreSlots(Slots):
    __slots__ = ("c",)
    shared = 4


class SlotsAndDict(Slots):
    pass


class Getattr:
    known = 1

    def __getattr__(self, name):
        if name.startswith("dynamic_"):
            return name[8:]
        raise AttributeError(f"no {name}")


class Setattr:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, [value])

    def __delattr__(self, name):
        object.__setattr__(self, "deleted", name)


class Getattribute:
    def __init__(self):
        self.value = 3

    def __getattribute__(self, name):
        if name == "magic":
            return 42
        return super().__getattribute__(name)


class A:
    kind = "a"

    def __init__(self):
        self.calls = ["A"]

    def who(self):
        return ["A"]

    @property
    def label(self):
        return "label A"

    @classmethod
    def make(cls):
        return cls, "A"

    @staticmethod
    def helper(n):
        return n + 1


class B(A):
    def __init__(self):
        super().__init__()
        self.calls.append("B")

    def who(self):
        return [*super().who(), "B"]

    @property
    def label(self):
        return super().label + " B"

    @classmethod
    def make(cls):
        return *super().make(), "B"

    @staticmethod
    def helper(n):
        return A.helper(n) * 2


class C(A):
    def __init__(self):
        super(C, self).__init__()
        self.calls.append("C")

    def who(self):
        return [*super(C, self).who(), "C"]


class D(B, C):
    def __init__(self):
        super().__init__()
        self.calls.append("D")

    def who(self):
        return [*super().who(), "D"]

    def missing(self):
        return super().nothing


class Number:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        if isinstance(other, Number):
            return Number(self.value + other.value)
        if isinstance(other, int):
            return Number(self.value + other)
        return NotImplemented

    def __radd__(self, other):
        return Number(other + self.value)

    def __sub__(self, other):
        return "sub", other

    def __isub__(self, other):
        self.value -= other
        return self

    def __mul__(self, other):
        return NotImplemented

    def __matmul__(self, other):
        return "matmul"

    def __pow__(self, other, modulo=None):
        return "pow", other, modulo

    def __rpow__(self, other):
        return "rpow", other

    def __divmod__(self, other):
        return "divmod"

    def __neg__(self):
        return -self.value

    def __pos__(self):
        return +self.value

    def __invert__(self):
        return ~self.value

    def __abs__(self):
        return abs(self.value)

    def __int__(self):
        return self.value

    def __float__(self):
        return float(self.value)

    def __index__(self):
        return self.value

    def __complex__(self):
        return complex(self.value)

    def __round__(self, digits=None):
        return "round", digits

    def __lshift__(self, other):
        return "lshift"

    def __rand__(self, other):
        return "rand", other

    def __bool__(self):
        return self.value != 0


class Better(Number):
    def __radd__(self, other):
        return "better first"


class Ordered:
    def __init__(self, rank):
        self.rank = rank

    def __eq__(self, other):
        LOG.append("eq")
        return isinstance(other, Ordered) and self.rank == other.rank

    def __lt__(self, other):
        if not isinstance(other, Ordered):
            return NotImplemented
        return self.rank < other.rank

    def __hash__(self):
        return hash(self.rank)


@functools.total_ordering
class Total:
    def __init__(self, rank):
        self.rank = rank

    def __eq__(self, other):
        return self.rank == other.rank

    def __lt__(self, other):
        return self.rank < other.rank


class OnlyGreater:
    def __gt__(self, other):
        return "greater", other


class Unequal:
    def __ne__(self, other):
        return "ne"


class Unhashable:
    def __eq__(self, other):
        return True


class Bag:
    def __init__(self, *items):
        self.items = list(items)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

    def __setitem__(self, index, value):
        self.items[index] = value

    def __delitem__(self, index):
        del self.items[index]

    def __contains__(self, item):
        return item in self.items

    def __call__(self, *args, **kwargs):
        return args, kwargs

    def __repr__(self):
        return f"Bag{self.items}"

    def __format__(self, spec):
        return f"<{spec}>"

    def __reversed__(self):
        return iter(["reversed"])


class OldIteration:
    def __getitem__(self, index):
        if index > 2:
            raise IndexError
        return index * 10


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Texts:
    def __str__(self):
        return "str"

    def __repr__(self):
        return "repr"


class OnlyRepr:
    def __repr__(self):
        return "only repr"


class BadRepr:
    def __repr__(self):
        return 3


class BadLen:
    def __len__(self):
        return -1


class BadBool:
    def __bool__(self):
        return 3


class Meta(type):
    def __instancecheck__(cls, instance):
        return hasattr(instance, "quacks")

    def __subclasscheck__(cls, other):
        return other.__name__.startswith("D")


class Duck(metaclass=Meta):
    pass


class Quacking:
    quacks = True


class Abstract(abc.ABC):
    @abc.abstractmethod
    def run(self):
        """Run."""


class Concrete(Abstract):
    def run(self):
        return "ran"


class Registered:
    pass


Abstract.register(Registered)


class Generic:
    def __class_getitem__(cls, item):
        return cls.__name__, item


class SingletonLike:
    instance = None

    def __new__(cls, value):
        made = super().__new__(cls)
        made.from_new = value
        return made

    def __init__(self, value):
        self.from_init = value


class Other:
    def __new__(cls):
        return [1, 2]


class TakesNothing:
    pass


def properties():
    t = Temperature(3)
    before = t.degrees
    t.degrees = 5
    t.degrees += 1
    middle = t.degrees
    del t.degrees
    return before, middle, t.degrees, t


def property_refuses():
    t = Temperature(3)
    t.degrees = -1


def property_without_setter():
    Temperature(3).fixed = 1


def property_without_deleter():
    del Temperature(3).fixed


def property_raises_attribute_error():
    return Temperature(3).broken


def property_of_class():
    return Temperature.degrees.__doc__, Temperature.fixed.fget(Temperature(1))


def property_of_argument(t):
    t.degrees = t.degrees * 2
    return t.degrees


def data_descriptor():
    d = Described(1)
    first = d.typed
    d.typed = 2
    d.__dict__["other"] = 3
    second = d.typed
    del d.typed
    return first, second, d.typed, d.other, Described.typed.name


def non_data_descriptor():
    d = Described(1)
    before = d.shadowed
    d.shadowed = "own"
    return before, d.shadowed, Described.shadowed


def set_only_descriptor():
    d = Described(1)
    d.only_set = 5
    return d.seen, type(d.only_set) is OnlySet


def slots():
    s = MoreSlots(1)
    s.c = s.a + 1
    s.b = [s]
    return s.a, s.c, s.b[0] is s, s.shared, s


def slot_unset():
    return Slots(1).b


def slot_deleted():
    s = Slots(1)
    del s.a
    return hasattr(s, "a"), s


def slot_deleted_twice():
    s = Slots(1)
    del s.a
    del s.a


def slots_refuse():
    Slots(1).other = 3


def slots_refuse_class_attribute():
    MoreSlots(1).shared = 3


def slots_with_dict():
    s = SlotsAndDict(1)
    s.other = 2
    return s, s.__dict__


def slots_of_argument(s):
    s.b = s.a + 1
    s.a = [s.b]
    return s.b


def getattr_hook():
    g = Getattr()
    return g.known, g.dynamic_name, getattr(g, "nothing", 3), hasattr(g, "dynamic_x")


def getattr_hook_raises():
    return Getattr().nothing


def setattr_hook():
    s = Setattr()
    s.a = 1
    s.b = s.a
    del s.a
    return s, s.deleted


def getattribute_hook():
    g = Getattribute()
    return g.magic, g.value


def getattribute_hook_missing():
    return Getattribute().nothing


def missing():
    return A().nothing


def missing_on_class():
    return A.nothing


def missing_deleted():
    del A().nothing


def getattr_with_names():
    a = A()
    setattr(a, "x", 1)
    found = getattr(a, "x"), getattr(a, "y", None), hasattr(a, "x")
    delattr(a, "x")
    return found, hasattr(a, "x"), vars(a)


def class_and_instance_attribute():
    a, b = A(), A()
    a.kind = "own"
    return a.kind, b.kind, A.kind, "kind" in a.__dict__, "kind" in b.__dict__


def super_chain():
    d = D()
    return d.who(), d.calls, d.label, D.make(), D.helper(3), [c.__name__ for c in D.__mro__]


def super_missing():
    return D().missing()


def super_outside():
    d = D()
    return super(B, d).who(), super(D, d).label


def unbound_methods():
    return A.who(D()), B.helper(1), A.__init__(B()), B.make.__func__(A)


def methods_compare():
    a = A()
    return a.who == a.who, a.who == A().who, a.who.__self__ is a, a.who.__func__ is A.who


def types():
    d = D()
    return (
        type(d) is D, d.__class__ is D, type(d).__name__, D.__name__, D.__qualname__,
        D.__bases__, D.__module__, type(D) is type, isinstance(d, A), issubclass(D, (C, int)),
        isinstance(d, (int, B)), isinstance(D, type),
    )  # fmt: skip


def arithmetic():
    n = Number(3)
    return (
        (n + 1).value, (1 + n).value, (n + n).value, n - 1, n @ 2, n**2, 2**n, divmod(n, 2),
        n << 1, 3 & n,
    )  # fmt: skip


def in_place_arithmetic():
    n = Number(3)
    kept = n
    n -= 1
    m = Number(5)
    m += 1
    return n is kept, n.value, m.value


def unary_arithmetic():
    n = Number(-3)
    return -n, +n, ~n, abs(n), int(n), float(n), complex(n), bool(n), round(n), round(n, 2)


def index_protocol():
    n = Number(1)
    return [1, 2, 3][n], (4, 5)[n], "ab"[n], list(range(n)), [0] * n, [1, 2, 3][n:]


def not_implemented():
    return Number(3) + "a"


def not_implemented_mul():
    return Number(3) * 2


def not_implemented_in_place():
    n = Number(3)
    n *= 2


def unsupported_unary():
    return -A()


def subclass_goes_first():
    return Number(1) + Better(2), Better(1) + Number(2)


def comparison():
    a, b = Ordered(1), Ordered(2)
    return a == b, a != b, a < b, b > a, a == 3, sorted([b, a])[0] is a, max(a, b) is b


def comparison_refused():
    return Ordered(1) < 3


def comparison_without_methods():
    return A() < A()


def comparison_reflected():
    return 3 < OnlyGreater(), OnlyGreater() > 2


def inequality():
    return Unequal() != 1, Unequal() == 1, A() == A(), A() != A()


def total_ordering():
    a, b = Total(1), Total(2)
    return a <= b, a >= b, a > b, a != b


def own_hash():
    a, b = Ordered(1), Ordered(1)
    return {a: 1}[b], len({a, b}), hash(a) == hash(b), a in [b], {a: 1, b: 2}


def own_hash_of_argument(a):
    return {a: 1}[Ordered(1)]


def unhashable():
    return {Unhashable(): 1}


def containers():
    b = Bag(1, 2, 3)
    b[0] = "new"
    del b[1]
    return len(b), b[0], b[-1], b[0:1], "new" in b, 7 in b, bool(b), bool(Bag()), b(1, k=2), b


def container_text():
    b = Bag(1, [2])
    return repr(b), str(b), f"{b}", f"{b:>5}", f"{b!r}", format(b, "x"), [b].__len__()


def container_errors():
    return Bag(1)[5]


def no_getitem():
    return A()[0]


def no_setitem():
    A()[0] = 1


def no_delitem():
    del A()[0]


def no_len():
    return len(A())


def no_call():
    return A()()


def no_iter():
    return list(A())


def no_contains():
    return 1 in A()


def reverses():
    return list(reversed(Bag(1)))


def old_iteration():
    return list(OldIteration()), 20 in OldIteration(), [x for x in OldIteration()]


def iterators():
    c = Countdown(3)
    first = next(c)
    return first, list(c), next(c, "done"), sum(Countdown(4)), tuple(Countdown(2))


def iterator_ends():
    return next(Countdown(0))


def texts():
    return str(Texts()), repr(Texts()), f"{Texts()}", f"{Texts()!r}", f"{OnlyRepr()}", [Texts()]


def text_of_nested():
    return str([Texts(), OnlyRepr()]), repr({"k": Texts()})


def bad_text():
    return repr(BadRepr())


def bad_length():
    return len(BadLen())


def bad_truth():
    return bool(BadBool())


def instance_checks():
    return (
        isinstance(Quacking(), Duck),
        isinstance(3, Duck),
        issubclass(D, Duck),
        issubclass(A, Duck),
    )


def abstract_classes():
    return (
        Concrete().run(), isinstance(Concrete(), Abstract), isinstance(Registered(), Abstract),
        issubclass(int, Abstract), isinstance(A(), Abstract),
    )  # fmt: skip


def abstract_refuses():
    return Abstract()


def collection_checks():
    return (
        isinstance(Bag(), collections.abc.Sized), isinstance(Bag(), collections.abc.Callable),
        isinstance([], collections.abc.Sequence), isinstance({}, collections.abc.Mapping),
        isinstance(Countdown(1), collections.abc.Iterator), isinstance(A(), collections.abc.Hashable),
        isinstance(3, collections.abc.Iterable),
    )  # fmt: skip


def class_getitem():
    return Generic[int], Generic["a"]


def own_new():
    s = SingletonLike(4)
    return s.from_new, s.from_init, s


def new_of_other_class():
    return Other()


def too_many_arguments():
    return TakesNothing(1)


def object_new():
    a = object.__new__(A)
    return hasattr(a, "calls"), type(a) is A, a


def wrong_isinstance():
    return isinstance(A(), 3)


def returned_and_stored(items):
    a = A()
    a.items = items
    items.append(a)
    a.other = {"me": a}
    return a


def identity():
    a = A()
    b = a
    return a is b, a is A(), a is not None, a == b, [a].index(a), {a: 1}[b]


CASES = [
    case(properties), case(property_refuses), case(property_without_setter),
    case(property_without_deleter), case(property_raises_attribute_error),
    case(property_of_class), case(property_of_argument, Temperature(4)), case(data_descriptor),
    case(non_data_descriptor), case(set_only_descriptor), case(slots), case(slot_unset),
    case(slot_deleted), case(slot_deleted_twice), case(slots_refuse),
    case(slots_refuse_class_attribute), case(slots_with_dict), case(slots_of_argument, Slots(1)),
    case(getattr_hook), case(getattr_hook_raises), case(setattr_hook), case(getattribute_hook),
    case(getattribute_hook_missing), case(missing), case(missing_on_class), case(missing_deleted),
    case(getattr_with_names), case(class_and_instance_attribute), case(super_chain),
    case(super_missing), case(super_outside), case(unbound_methods), case(methods_compare),
    case(types), case(arithmetic), case(in_place_arithmetic), case(unary_arithmetic),
    case(index_protocol, breaks=None), case(not_implemented), case(not_implemented_mul),
    case(not_implemented_in_place), case(unsupported_unary), case(subclass_goes_first),
    case(comparison), case(comparison_refused), case(comparison_without_methods),
    case(comparison_reflected), case(inequality), case(total_ordering), case(own_hash, breaks=None),
    case(own_hash_of_argument, Ordered(1), breaks=None), case(unhashable), case(containers),
    case(container_text), case(container_errors), case(no_getitem), case(no_setitem),
    case(no_delitem), case(no_len), case(no_call), case(no_iter), case(no_contains),
    case(reverses), case(old_iteration), case(iterators), case(iterator_ends), case(texts),
    case(text_of_nested), case(bad_text), case(bad_length), case(bad_truth),
    case(instance_checks), case(abstract_classes), case(abstract_refuses),
    case(collection_checks), case(class_getitem), case(own_new), case(new_of_other_class),
    case(too_many_arguments), case(object_new), case(wrong_isinstance),
    case(returned_and_stored, []), case(identity),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
