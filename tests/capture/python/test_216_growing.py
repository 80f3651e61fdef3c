"""Containers and texts that grow thousands of times: the memory of a capture has a bound."""

import pytest

from tests.support.python.harness import Compiler

MANY = 20_000


def grown_list(count):
    made = []
    for number in range(count):
        made.append(number)
    return made


def grown_at_once(count):
    made = [-1]
    made.extend(range(count))
    return made


def comprehended(count):
    return [number * 2 for number in range(count)]


def grown_dict(count):
    made = {}
    for number in range(count):
        made[number] = -number
    return made


def grown_set(count):
    made = set()
    for number in range(count):
        made.add(number % 5000)
    return made


def grown_text(count):
    made = ""
    for number in range(count):
        made += str(number)
    return made


def grown_number(count):
    made = 1
    for _ in range(count):
        made = made * 3**50
    return made


@pytest.mark.parametrize(
    "function",
    [grown_list, grown_at_once, comprehended, grown_dict, grown_set, grown_text, grown_number],
)
def test_growing_by_thousands_breaks_and_is_right(function):
    compiler = Compiler()
    compiled = compiler.compile(function)
    assert compiled(MANY) == function(MANY)
    assert "limit" in {record.reason.name for record in compiler.breaks}


@pytest.mark.parametrize("function", [grown_list, comprehended, grown_dict, grown_text])
def test_growing_by_hundreds_is_captured_whole(function):
    compiler = Compiler(fullgraph=True)
    assert compiler.compile(function)(500) == function(500)
