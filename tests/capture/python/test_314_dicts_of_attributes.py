"""The `__dict__` of an object, written or read beside the object's own attributes."""

import pytest

import dynajit as dj
from dynajit import eager
from tests.support.python.harness import Compiler, case


class Box:
    def __init__(self, value):
        self.value = value


def updated_after_a_break(x):
    box = Box(3)
    vars(box).update(value=dj.graph_break() or x - 1, more=3)
    return box.value, vars(box)


def stored_after_a_break(x):
    box = Box(3)
    fields = vars(box)
    dj.graph_break()
    fields["value"] = x - 1
    return box.value, fields


def attribute_set_after_a_break(x):
    box = Box(3)
    fields = vars(box)
    dj.graph_break()
    box.value = x - 1
    return fields["value"], box.value


@pytest.mark.parametrize(
    "function", [updated_after_a_break, stored_after_a_break, attribute_set_after_a_break]
)
def test_a_break_between_a_dict_and_its_use(function, assert_captured):
    case(function, eager.tensor([1.0, 2.0]), graphs=None, breaks=None).check(assert_captured)


def written_argument(box, fields, x):
    fields["value"] = x + 1
    return box.value


def read_argument(box, fields, x):
    box.value = x + 1
    return fields["value"]


@pytest.mark.parametrize("function", [written_argument, read_argument])
def test_an_object_and_its_dict_are_given(function):
    x = eager.tensor([1.0, 2.0])
    compiled = Compiler().compile(function)
    for _ in range(2):
        results = []
        for called in (function, compiled):
            box = Box(x * 5)
            results.append(called(box, vars(box), x).tolist())
        assert results[0] == results[1] == [2.0, 3.0]
