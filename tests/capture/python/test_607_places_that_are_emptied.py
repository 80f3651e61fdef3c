"""Attributes and variables that hold nothing in a later call, or in an earlier one.

What is read of them is only handed on: no guard on the object says that there is one.
"""

import io
import math

import pytest

from dynajit import eager
from tests.support.python.harness import Compiler


class Holder:
    def __init__(self, *held):
        self.count = 1
        if held:
            self.held = held[0]

    @property
    def found(self):
        try:
            return self.held
        except AttributeError:
            return "none"


class Slots:
    __slots__ = ("count", "held")
    __init__ = Holder.__init__
    found = Holder.found


class Stream(io.IOBase):
    __init__ = Holder.__init__
    found = Holder.found


class Table(dict):
    __slots__ = ("held",)

    def __init__(self, *held):
        if held:
            self.held = held[0]


class Error(Exception):
    def __init__(self, *held):
        if held:
            self.held = held[0]


def read_in_try(holder, t):
    t = t + 1
    try:
        return holder.held, t
    except AttributeError:
        return "none", t


def read_before_a_break(holder, t):
    try:
        found = holder.held
    except AttributeError:
        found = "none"
    return found, t.sum().item()


def read_and_forgotten(holder, t):
    t = t * 2
    try:
        holder.held
    except AttributeError:
        return t - 1
    return t


def read_after_a_write(holder, t):
    holder.count = 5
    return holder.held, t + 1


def property_before_a_break(holder, t):
    return holder.found, t.sum().item()


def outcome(function, *arguments):
    try:
        return "value", function(*arguments)
    except AttributeError as error:
        return "error", str(error)


VALUES = [object(), io.BytesIO(), 3, None, "text", math.sin, int, [1]]


def agree(function, make, value, order):
    compiled = Compiler().compile(function)
    t = eager.tensor([1.0, 2.0])
    for is_held in order:
        results = []
        for called in (function, compiled):
            holder = make(value) if is_held else make()
            results.append((outcome(called, holder, t), getattr(holder, "count", None)))
        assert str(results[0]) == str(results[1])


@pytest.mark.parametrize("order", [(1, 1, 0, 1, 0), (0, 0, 1, 0, 1)])
@pytest.mark.parametrize("make", [Holder, Slots, Stream, Table, Error])
@pytest.mark.parametrize("function", [read_in_try, read_before_a_break, read_and_forgotten])
def test_an_attribute_is_there_or_not(function, make, order):
    for value in VALUES:
        agree(function, make, value, order)


@pytest.mark.parametrize("make", [Holder, Slots, Stream])
@pytest.mark.parametrize("function", [read_after_a_write, property_before_a_break])
def test_an_attribute_is_there_or_not_after_other_effects(function, make):
    for value in VALUES:
        agree(function, make, value, (1, 1, 0, 1, 0))


def test_a_global_variable_is_there_or_not():
    def function(t):
        t = t + 1
        try:
            return variable, t
        except NameError:
            return "none", t

    compiled = Compiler().compile(function)
    t = eager.tensor([1.0, 2.0])
    for value in VALUES:
        globals()["variable"] = value
        assert compiled(t)[0] is value
        del globals()["variable"]
        assert compiled(t)[0] == "none"


def test_a_variable_of_an_outer_function_is_there_or_not():
    def function(t):
        t = t + 1
        try:
            return variable, t
        except NameError:
            return "none", t

    compiled = Compiler().compile(function)
    t = eager.tensor([1.0, 2.0])
    for value in VALUES:
        variable = value
        assert compiled(t)[0] is value
        del variable
        assert compiled(t)[0] == "none"
