"""The dict of a module's globals is reached as a value, too: its items are the variables."""

import sys

import pytest

import dynajit as dj
from tests.support.python.harness import case

NUMBER = 1
HERE = sys.modules[__name__]


def store_an_item(x):
    table = globals()
    table["NUMBER"] = 5
    return x + NUMBER, NUMBER


def store_a_variable(x):
    global NUMBER
    table = globals()
    NUMBER = 6
    return x + table["NUMBER"], table.get("NUMBER"), "NUMBER" in table


def store_in_both_ways(x):
    global NUMBER
    table = vars(HERE)
    NUMBER = table["NUMBER"] + 1
    table["NUMBER"] += 1
    return x + NUMBER, store_an_item.__globals__["NUMBER"]


@pytest.mark.parametrize(
    "case",
    [
        case(function, 2, graphs=None, breaks=None)
        for function in (store_an_item, store_a_variable, store_in_both_ways)
    ],
    ids=str,
)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def store(x, table):
    table["NUMBER"] = 7
    return x + NUMBER


def test_code_for_another_dict_is_not_used_for_the_globals(compiler, monkeypatch):
    monkeypatch.setattr(HERE, "NUMBER", 1)
    compiled = compiler.compile(store)
    x = dj.ones(2)
    assert compiled(x, {}).tolist() == [2, 2]
    assert compiled(x, {}).tolist() == [2, 2]
    assert compiled(x, vars(HERE)).tolist() == [8, 8]
