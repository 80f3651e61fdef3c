"""Sources: readable text, paths for the evaluator, equality by place."""

import math

import pytest

from dynajit.capture.places.sources import (
    Attribute,
    Builtin,
    CellContents,
    ClassAttribute,
    Closure,
    ClosureCell,
    Constant,
    DefaultOf,
    Function,
    Global,
    InstanceDict,
    Item,
    Key,
    Local,
    MethodFunction,
    MethodSelf,
    PartOf,
    RandomOffset,
    RandomSeed,
    State,
    Step,
    TypeOf,
    free,
)

SELF = Local("self", 0)
HELPER = Global("helper")
LAYER = Key(Attribute(SELF, "_modules"), "layers")

TEXTS = [
    (SELF, "self"),
    (Function("train"), "train"),
    (Constant(math), "math"),
    (Constant(math.sin), "sin"),
    (Constant(math, "m"), "m"),
    (State(), "dynajit"),
    (HELPER, "helper"),
    (Global("x", HELPER), "helper.__globals__['x']"),
    (Builtin("len"), "builtins.len"),
    (free("x", 0), "x"),
    (Closure(HELPER, 1, "y"), "helper.__closure__[1].cell_contents"),
    (ClosureCell(HELPER, 1), "helper.__closure__[1]"),
    (CellContents(SELF), "self.cell_contents"),
    (DefaultOf(HELPER, 0), "helper.__defaults__[0]"),
    (DefaultOf(HELPER, "k"), "helper.__kwdefaults__['k']"),
    (PartOf(HELPER, "__code__"), "helper.__code__"),
    (Attribute(SELF, "a"), "self.a"),
    (ClassAttribute(SELF, "forward"), "type(self).forward"),
    (InstanceDict(SELF), "self.__dict__"),
    (Item(SELF, 2), "self[2]"),
    (Key(SELF, "a"), "self['a']"),
    (Key(Attribute(SELF, "_parameters"), "weight"), "self.weight"),
    (LAYER, "self.layers"),
    (Key(Attribute(LAYER, "_modules"), "0"), "self.layers['0']"),
    (TypeOf(SELF), "type(self)"),
    (MethodFunction(SELF), "self.__func__"),
    (MethodSelf(SELF), "self.__self__"),
    (RandomSeed(), "<random seed>"),
    (RandomOffset(3), "<random offset>"),
]


@pytest.mark.parametrize(("source", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_a_source_reads_as_python(source, text):
    assert text == source.expression()
    assert text == str(source)


def test_a_path_lists_the_steps_from_the_root():
    source = Item(Key(Attribute(SELF, "table"), "k"), 3)

    assert (
        (Step.SLOT, 0),
        (Step.ATTRIBUTE, "table"),
        (Step.KEY, "k"),
        (Step.ITEM, 3),
    ) == source.path
    assert SELF is source.root
    assert Attribute(SELF, "table") == source.base.base == source.parent.parent


def test_positional_and_keyword_defaults_are_two_steps():
    assert (Step.DEFAULT, 0) == DefaultOf(Function(), 0).path[-1]
    assert (Step.KEYWORD_DEFAULT, "k") == DefaultOf(Function(), "k").path[-1]


def test_equal_places_are_equal_sources():
    assert Attribute(SELF, "a") == Attribute(Local("self", 0), "a")
    assert hash(Attribute(SELF, "a")) == hash(Attribute(Local("self", 0), "a"))
    assert Attribute(SELF, "a") != ClassAttribute(SELF, "a")
    assert Local("x", 0) != Local("x", 1)
    assert Closure(Function(), 0, "a") == Closure(Function(), 0, "b")


def test_keys_of_different_classes_are_different_places():
    assert Key(SELF, 1) != Key(SELF, True)
    assert Key(SELF, 1) != Key(SELF, 1.0)
    assert Key(SELF, 1) == Key(SELF, 1)
    assert 3 == len({Key(SELF, 1), Key(SELF, True), Key(SELF, 1.0), Key(SELF, 1)})


def test_constants_are_compared_by_identity():
    one, two = [1], [1]

    assert Constant(one) == Constant(one, "name")
    assert Constant(one) != Constant(two)
    assert hash(Constant(one)) == hash(Constant(one))


def test_values_known_only_at_launch_cannot_be_guarded():
    assert not RandomSeed().is_guardable
    assert not Attribute(RandomOffset(), "x").is_guardable
    assert Attribute(SELF, "x").is_guardable


def test_sources_are_frozen():
    with pytest.raises(AttributeError):
        SELF.name = "other"
