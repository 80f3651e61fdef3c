"""Snapshots of guards: what an unchanged call costs, and that it is never too little."""

import functools
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn
from dynajit.capture.entry import cache
from dynajit.capture.guards.facts import FunctionFacts, TensorFacts
from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.tree import CompiledGuards, compile_guards
from dynajit.capture.places.sources import (
    Attribute,
    CellContents,
    ClassAttribute,
    Closure,
    ClosureCell,
    Constant,
    DefaultOf,
    Function,
    InstanceDict,
    Item,
    Key,
    Local,
    MethodFunction,
    MethodSelf,
    PartOf,
    Source,
    TypeOf,
)
from dynajit.eager import Tensor

SELF = Local("self", 0)
ARGS = Local("args", 1)


class Owner:
    """A plain object."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def method(self) -> None:
        """Does nothing."""


def plain(self: Any = (1, 2)) -> None:
    """Does nothing."""


def tensor(*shape: int) -> Tensor:
    """Zeros."""
    return Tensor(np.zeros(shape, np.float32))


def warm(guards: list[Guard], slots: tuple[Any, ...], function: Any = plain) -> CompiledGuards:
    """Guards with a snapshot for these arguments."""
    compiled = compile_guards(guards)
    for _ in range(3):
        assert compiled.evaluator.check(slots, function)
    return compiled


def entry_of(compiled: Any) -> Any:
    """The version used last."""
    found = compiled._own_call.__func__
    return cache.cache_of(found).entries(found)[0]


def layer_classes(count: int) -> list[type]:
    """As many classes of layers, each with a forward of its own."""
    classes = []
    for _ in range(count):

        class Layer(nn.Linear):
            def forward(self, x: Any) -> Any:
                return super().forward(x) * 0.5

        classes.append(Layer)
    return classes


def test_slow_facts_do_not_grow_with_the_number_of_classes() -> None:
    """What a class says about its methods is compared, not looked up; the root has a few."""
    model = nn.Sequential(*(cls(2, 2) for cls in layer_classes(20)))
    compiled = dj.compile(model, backend="numpy")
    x = dj.ones(1, 2)
    for _ in range(4):
        compiled(x)
    evaluator = entry_of(compiled).guards.evaluator
    walks = evaluator.walks
    for _ in range(10):
        compiled(x)
    words, slow, _ = evaluator.facts

    assert walks == evaluator.walks
    assert words > 20
    assert slow < 10


def test_a_fact_is_compared_once() -> None:
    """A tensor's class is asked for by two guards, and is one word."""
    owner = Owner(table={"x": tensor(2)})
    place = Key(Attribute(SELF, "table"), "x")
    one = [Guard(place, Kind.TENSOR, TensorFacts.of(tensor(2)))]
    two = [*one, Guard(place, Kind.TYPE_IS, Tensor)]

    assert warm(one, (owner,)).evaluator.facts == warm(two, (owner,)).evaluator.facts


def test_arguments_made_for_every_call_keep_the_snapshot() -> None:
    """The tuple of *args is another one in every call; what it holds is the same."""
    model = Owner(parameters={"weight": tensor(2, 2)})
    weight = Key(Attribute(Item(ARGS, 1), "parameters"), "weight")
    guards = [
        Guard(ARGS, Kind.LENGTH, 2),
        Guard(Item(ARGS, 0), Kind.TENSOR, TensorFacts.of(tensor(3))),
        Guard(weight, Kind.TENSOR, TensorFacts.of(tensor(2, 2))),
    ]
    evaluator = compile_guards(guards).evaluator
    kept = []
    for _ in range(20):
        slots = (None, (tensor(3), model))
        kept.append(slots)
        assert evaluator.check(slots, plain, 1)

    assert evaluator.walks == 1
    assert not evaluator.check((None, (tensor(4), model)), plain, 1)
    assert not evaluator.check((None, (tensor(3),)), plain, 1)
    assert not evaluator.check((None, (tensor(3), Owner())), plain, 1)
    model.parameters["weight"] = tensor(2, 3)
    assert not evaluator.check((None, (tensor(3), model)), plain, 1)


def test_a_module_called_through_star_arguments_keeps_the_snapshot() -> None:
    """However many tuples the program makes between two calls."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.layer(args[0]) + kwargs["y"]

    compiled = dj.compile(Model(), backend="numpy")
    x = dj.ones(1, 2)
    kept = []
    for count in range(30):
        kept.append(((count,), compiled(x, y=x)))

    assert entry_of(compiled).guards.evaluator.walks <= 3
    assert kept[-1][1].tolist() == compiled._call_forward(x, y=x).tolist()


def test_the_dict_of_keywords_belongs_to_the_call() -> None:
    """What a function puts into **kwargs is not there in the next call."""

    def f(x: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("seen", []).append(len(kwargs))
        return x + len(kwargs), kwargs

    compiled = dj.compile(f, backend="numpy")
    x = dj.ones(2)
    found = [compiled(x) for _ in range(3)]

    assert [[2.0, 2.0]] * 3 == [value.tolist() for value, _ in found]
    assert [{"seen": [1]}] * 3 == [kwargs for _, kwargs in found]
    assert len({id(kwargs) for _, kwargs in found}) == 3


@pytest.mark.parametrize("call", ["f(x)", "f(x, 2)", "f(x, 2, 3)", "f(x, z=5)", "f(y=2, x=x)",
                                  "f(x, 2, 3, 4, z=5, w=6)"])  # fmt: skip
def test_calls_arrive_as_they_were_made(call: str) -> None:
    """Positions, keywords, defaults and the rest, in later calls as in the first."""

    def f(x: Any, y: Any = 7, *args: Any, z: Any = 8, **kwargs: Any) -> Any:
        return x * y + z, args, kwargs

    scope = {"x": dj.ones(2), "f": f}
    value, args, kwargs = eval(call, scope)
    scope["f"] = dj.compile(f, backend="numpy")
    for _ in range(3):
        found = eval(call, scope)
        assert (value.tolist(), args, kwargs) == (found[0].tolist(), *found[1:])


def test_new_defaults_are_used_by_the_next_call() -> None:
    """Also where the rest of the arguments is passed on as it was given."""

    def f(x: Any, y: Any = 1.0, *args: Any, **kwargs: Any) -> Any:
        return x * y

    compiled = dj.compile(f, backend="numpy")
    x = dj.ones(2)
    assert [[1.0, 1.0]] * 3 == [compiled(x).tolist() for _ in range(3)]
    f.__defaults__ = (4.0,)

    assert [[4.0, 4.0]] * 3 == [compiled(x).tolist() for _ in range(3)]


def closure_of(value: Any) -> Any:
    """A function whose only cell holds `value`."""

    def inner() -> Any:
        return value

    return inner


def test_places_inside_objects_are_words() -> None:
    """Classes, methods, cells, code, defaults and items: nothing to look up."""
    o = Attribute(SELF, "o")
    owner = Owner(field=(1, 2))
    owner.__dict__ = dict(owner.__dict__)  # from 3.13 on a dict may share the object's own values
    function = closure_of(Owner)
    places: list[tuple[Source, tuple[Any, ...], Any, Any]] = [
        (TypeOf(o), (Owner(o=owner),), plain, Owner),
        (Attribute(MethodSelf(o), "field"), (Owner(o=owner.method),), plain, owner.field),
        (PartOf(Function(), "__code__"), (), plain, plain.__code__),
        (DefaultOf(Function(), 0), (), plain, (1, 2)),
        (CellContents(ClosureCell(Function(), 0)), (), function, Owner),
        (Closure(Function(), 0), (), function, Owner),
        (Key(InstanceDict(o), "field"), (Owner(o=owner),), plain, owner.field),
        (Item(o, 1), (Owner(o=[1, Owner]),), plain, Owner),
        (Item(o, 1), (Owner(o=(1, Owner)),), plain, Owner),
    ]
    for source, slots, called, expected in places:
        compiled = warm([Guard(source, Kind.IDENTITY, expected)], slots, called)
        assert compiled.evaluator.facts[1] == 0, source
    methods = [(MethodFunction(o), owner.method), (Attribute(Constant(Owner), "method"), None)]
    for source, value in methods:
        guard = Guard(source, Kind.FUNCTION, FunctionFacts(Owner.method.__code__))
        compiled = warm([guard], (Owner(o=value),))
        assert compiled.evaluator.facts[1] <= 1, source


def test_a_name_that_an_object_lacks_is_a_word() -> None:
    """Until it is stored, by this object or first by another one of the class."""

    class Small:
        def __init__(self) -> None:
            self.a = 1

        def method(self) -> None:
            """Does nothing."""

    owner = Small()
    guards = [
        Guard(SELF, Kind.INSTANCE_LACKS, "method"),
        Guard(ClassAttribute(SELF, "method"), Kind.FUNCTION, FunctionFacts(Small.method.__code__)),
        Guard(Attribute(SELF, "a"), Kind.EQUALS, 1),
    ]
    compiled = warm(guards, (owner,))
    assert compiled.evaluator.facts[1] == 0
    other = Small()
    other.method = 5  # type: ignore[method-assign, assignment]
    assert compiled.evaluator.check((owner,), plain)
    owner.method = 6  # type: ignore[method-assign, assignment]
    assert not compiled.evaluator.check((owner,), plain)


def test_a_snapshot_holds_for_calls_with_the_same_fresh_arguments() -> None:
    """What a call makes anew is not covered; asked as an argument like others it is looked at."""
    kwargs = Local("kwargs", 1)
    guards = [
        Guard(Attribute(SELF, "a"), Kind.IDENTITY, Owner),
        Guard(Key(kwargs, "key"), Kind.TYPE_IS, int),
    ]
    evaluator = compile_guards(guards).evaluator
    slots = Owner(a=Owner), {"key": 1}
    for _ in range(3):
        assert evaluator.check(slots, plain, 1)
    slots[1]["key"] = 1.5
    assert not evaluator.check(slots, plain)
    assert not evaluator.check(slots, plain, 1)


def test_a_version_is_not_used_for_items_of_another_class_at_the_same_address() -> None:
    """The tuple of *args is made anew for every call, often where the last one was."""

    class Asking:
        def __init__(self) -> None:
            self.asked = functools.partial(isinstance_flipped, isinstance, int)

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self.asked(*args, **kwargs)

    asking = Asking()
    values = [1, "a", "b", 2, 1.5, object(), 3]
    compiled = dj.compile(Asking.__call__)
    for _ in range(4):
        found = list(map(functools.partial(compiled, asking), values))
        assert found == [isinstance(value, int) for value in values]


def isinstance_flipped(ask: Any, cls: Any, value: Any) -> Any:
    """`ask` with its arguments the other way round."""
    return ask(value, cls)
