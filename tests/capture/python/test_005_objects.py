"""User classes: attributes, methods, properties, descriptors, inheritance, special methods."""

# The programs under test are spelled as users spell them.

import abc
import dataclasses
import enum
import weakref

import pytest

from dynajit import eager
from dynajit.ops import functions as F


class Base:
    kind = "base"
    registry = {"a": 2}

    def __init__(self, scale):
        self.scale = scale
        self._hidden = 1

    def run(self, v):
        return v * self.scale

    def describe(self):
        return f"{type(self).__name__}:{self.kind}"

    @property
    def doubled(self):
        return self.scale * 2

    @doubled.setter
    def doubled(self, value):
        self.scale = value / 2

    @staticmethod
    def shift(v, by=1):
        return v + by

    @classmethod
    def make(cls, scale):
        return cls(scale)


class Child(Base):
    kind = "child"

    def __init__(self, scale, extra):
        super().__init__(scale)
        self.extra = extra

    def run(self, v):
        return super().run(v) + self.extra


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left, right):
        self.left = left
        self.right = right


class Vector:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return Vector(self.value + (other.value if isinstance(other, Vector) else other))

    def __radd__(self, other):
        return Vector(other + self.value)

    def __mul__(self, other):
        return NotImplemented if isinstance(other, str) else Vector(self.value * other)

    def __iadd__(self, other):
        self.value = self.value + other
        return self

    def __getitem__(self, index):
        return self.value[index]

    def __len__(self):
        return 7

    def __call__(self, v):
        return self.value + v

    def __eq__(self, other):
        return isinstance(other, Vector) and self.value is other.value

    __hash__ = None

    def __contains__(self, item):
        return item == 3

    def __iter__(self):
        yield self.value
        yield 2

    def __neg__(self):
        return Vector(-self.value)

    def __bool__(self):
        return False


class Dynamic:
    def __init__(self):
        self.__dict__["table"] = {"alpha": 2.0}

    def __getattr__(self, name):
        if name in self.__dict__["table"]:
            return self.__dict__["table"][name]
        raise AttributeError(name)

    def __setattr__(self, name, value):
        self.__dict__["table"][name] = value


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return getattr(instance, self.name) + 1

    def __set__(self, instance, value):
        setattr(instance, self.name, value)


class WithDescriptor:
    field = Descriptor()

    def __init__(self, value):
        self.field = value


@dataclasses.dataclass
class Config:
    width: int
    depth: int = 2
    names: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    scale: float


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        """Area."""


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side * self.side


class Counter:
    def __init__(self):
        self.count = 0
        self.items = [3, 2, 1]

    def __iter__(self):
        return self

    def __next__(self):
        if not self.items:
            raise StopIteration
        return self.items.pop()


def attributes_and_methods(x, y):
    thing = Base(3)
    return thing.run(x) + thing.doubled + Base.shift(y) + thing.shift(1), thing.describe()


def inheritance(x, y):
    thing = Child(2, y)
    return thing.run(x), thing.describe(), isinstance(thing, Base), Child.kind


def class_methods(x, y):
    return Child.__mro__[1].make(2).run(x), Base.make(4).scale


def property_setter(x, y):
    thing = Base(1)
    thing.doubled = 6
    return x * thing.scale


def class_attributes(x, y):
    return x * Base.registry["a"], Base.kind, Base(1).registry["a"]


def slots(x, y):
    pair = Slotted(x, 2)
    pair.right = pair.left * pair.right
    return pair.right


def special_methods(x, y):
    a = Vector(x)
    b = a + Vector(y)
    c = 1 + b * 2
    c += y
    return c.value, a[0], len(a), a(1), a == Vector(x), 3 in a, (-a).value, bool(a), list(a)


def not_equal(x, y):
    return x + 1, Vector(x) != Vector(x), Vector(x) != 3, Base(1) == Base(1)


def dynamic_attributes(x, y):
    thing = Dynamic()
    thing.beta = y
    return x * thing.alpha + thing.beta, hasattr(thing, "gamma"), getattr(thing, "delta", 1)


def descriptors(x, y):
    thing = WithDescriptor(2)
    thing.field = 5
    return x * thing.field


def data_classes(x, y):
    config = Config(3, names=["a"])
    other = Config(width=3, names=["a"])
    return x * config.width + config.depth, config == other, Frozen(2.0).scale


def enums(x, y):
    mode = Color.BLUE
    if mode is Color.RED:
        return x
    return x * mode.value, mode.name, Color(1) == Color.RED, mode == Color.BLUE


def abstract_classes(x, y):
    return x * Square(3).area(), isinstance(Square(1), Shape)


def iteration_protocol(x, y):
    total = x
    for item in Counter():
        total = total * item
    return total


def returns_new_object(x, y):
    thing = Base(x.sum())
    thing.note = [y]
    return thing


def delete_attribute(x, y):
    thing = Base(2)
    del thing._hidden
    return x * thing.scale, hasattr(thing, "_hidden"), vars(thing)


def instance_dict(x, y):
    thing = Base(2)
    fields = thing.__dict__
    fields["scale"] = 5
    return x * thing.scale, sorted(fields), "scale" in fields


def bound_method_values(x, y):
    run = Base(3).run
    return run(x) + [run][0](y), run.__self__.scale, run.__name__


def type_calls(x, y):
    thing = Child(1, 2)
    return type(thing)(3, 4).run(x), type(thing).__name__, thing.__class__ is Child


FUNCTIONS = [
    attributes_and_methods, inheritance, class_methods, property_setter, class_attributes, slots,
    special_methods, not_equal, dynamic_attributes, descriptors, data_classes, enums,
    abstract_classes, iteration_protocol, returns_new_object, delete_attribute, instance_dict,
    bound_method_values, type_calls,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gives_one_graph_and_the_same_result(function, x, y, assert_captured):
    assert_captured(function, x, y)


def test_attributes_of_an_argument_are_guarded_when_used(x, compiler):
    compiled = compiler.compile(lambda x, thing: thing.run(x))
    thing = Base(2.0)
    assert (compiled(x, thing).numpy() == (x * 2).numpy()).all()
    thing.unrelated = 1
    thing.scale = 4.0
    assert (compiled(x, thing).numpy() == (x * 4).numpy()).all()
    assert 1 == len(compiler.graphs)
    thing.scale = y = x + 1
    assert (compiled(x, thing).numpy() == (x * y).numpy()).all()
    assert 2 == len(compiler.graphs)


def test_another_class_is_another_program(x, compiler):
    compiled = compiler.compile(lambda x, thing: thing.run(x))
    assert (compiled(x, Base(2.0)).numpy() == (x * 2).numpy()).all()
    assert (compiled(x, Child(2.0, 1.0)).numpy() == (x * 2 + 1).numpy()).all()


def test_a_patched_method_is_noticed(x, compiler, monkeypatch):
    compiled = compiler.compile(lambda x, thing: thing.run(x))
    thing = Base(2.0)
    compiled(x, thing)
    monkeypatch.setattr(Base, "run", lambda self, v: v - 1)
    assert (compiled(x, thing).numpy() == (x - 1).numpy()).all()
    thing.run = lambda v: v + 7
    assert (compiled(x, thing).numpy() == (x + 7).numpy()).all()


def test_writes_to_attributes_are_replayed(x, compiler):
    def function(x, thing):
        thing.calls += 1
        thing.last = x * thing.calls
        thing.history.append(thing.calls)
        return thing.last

    thing = Base(1)
    thing.calls, thing.history = 0, []
    compiled = compiler.compile(function)
    for count in (1, 2, 3):
        result = compiled(x, thing)
        assert result is thing.last
        assert (result.numpy() == (x * count).numpy()).all()
        assert list(range(1, count + 1)) == thing.history


def test_a_value_read_before_its_attribute_is_overwritten_is_kept(x, compiler):
    def function(x, thing):
        before = thing.note
        thing.note = "new"
        return before, x + 1

    compiled = compiler.compile(function)
    thing = Base(1)
    marker = object()
    thing.note = marker
    assert compiled(x, thing)[0] is marker
    assert "new" == thing.note


def test_a_method_can_be_compiled(x, compiler):
    thing = Child(2.0, 1.0)
    compiled = compiler.compile(Child.run)
    assert (compiled(thing, x).numpy() == (x * 2 + 1).numpy()).all()


class Module:
    """Registers like a neural network module."""

    def __init__(self):
        object.__setattr__(self, "_parameters", {})
        object.__setattr__(self, "_modules", {})
        object.__setattr__(self, "_hooks", {})

    def __setattr__(self, name, value):
        table = self.__dict__["_modules"] if isinstance(value, Module) else None
        if isinstance(value, eager.Tensor):
            table = self.__dict__["_parameters"]
        if table is None:
            object.__setattr__(self, name, value)
        else:
            table[name] = value

    def __getattr__(self, name):
        for table in ("_parameters", "_modules"):
            if name in self.__dict__[table]:
                return self.__dict__[table][name]
        raise AttributeError(name)

    def __call__(self, *args, **kwargs):
        result = self.forward(*args, **kwargs)
        for hook in self._hooks.values():
            result = hook(self, args, result)
        return result


class Linear(Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = eager.tensor([[0.5] * inputs] * outputs, requires_grad=True)
        self.bias = eager.tensor([1.0] * outputs, requires_grad=True)

    def forward(self, x):
        return x @ self.weight.T + self.bias


class Network(Module):
    def __init__(self):
        super().__init__()
        self.first = Linear(3, 4)
        self.second = Linear(4, 2)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.second(F.relu(self.first(x)))


def test_a_network_of_modules_is_one_graph(x, compiler):
    network = Network()
    compiled = compiler.compile(lambda x: network(x).sum())
    expected = network(x).sum()
    for _ in range(3):
        assert (compiled(x).detach().numpy() == expected.detach().numpy()).all()
    assert (1, []) == (len(compiler.graphs), compiler.breaks)
    assert 4 == network.calls


def test_a_hook_added_later_is_noticed(x, compiler):
    network = Network()
    compiled = compiler.compile(lambda x: network(x))
    before = compiled(x)
    network._hooks["double"] = lambda module, args, result: result * 2
    assert (compiled(x).detach().numpy() == (before * 2).detach().numpy()).all()


def test_a_replaced_parameter_is_used(x, compiler):
    network = Linear(3, 2)
    compiled = compiler.compile(lambda x: network(x))
    compiled(x)
    network.weight = network.weight.detach() * 3
    expected = x @ network.weight.T + network.bias
    assert (compiled(x).detach().numpy() == expected.detach().numpy()).all()


def test_a_capture_holds_no_arguments(compiler):
    thing = Base(2.0)
    compiled = compiler.compile(lambda x, thing: thing.run(x))
    compiled(eager.tensor([1.0]), thing)
    compiler.regions.clear()
    reference = weakref.ref(thing)
    del thing
    assert reference() is None
