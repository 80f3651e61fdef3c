"""Functions whose calls an extension module takes over: `PyFunction_SetVectorcall` from 3.12 on.

The interpreter's own test module has such a function; what it sets returns "overridden".
"""

from collections.abc import Callable
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.errors import GraphBreakError

testcapi = pytest.importorskip("_testcapi", reason="this Python was built without its test module")
if not hasattr(testcapi, "function_setvectorcall"):
    pytest.skip("functions keep their calls before 3.12", allow_module_level=True)


class Counter:
    """Methods of every kind that capture inlines."""

    def method(self, number: int) -> Any:
        return number + 1

    def __call__(self, number: int) -> Any:
        return number + 2

    def __add__(self, number: int) -> Any:
        return number + 3

    @property
    def field(self) -> Any:
        return 4

    def __getattr__(self, name: str) -> Any:
        return name


USES: dict[str, Callable[[Any], Any]] = {
    "method": lambda counter: counter.method(1),
    "__call__": lambda counter: counter(1),
    "__add__": lambda counter: counter + 1,
    "field": lambda counter: counter.field,
    "__getattr__": lambda counter: counter.other,
}


def fresh(name: str) -> tuple[Any, Any]:
    """An object of a class of its own, and the function behind `name`."""
    cls = type("Fresh", (Counter,), {})
    found = vars(Counter)[name]
    is_property = isinstance(found, property)
    function = found.fget if is_property else found
    own = type(function)(function.__code__, globals(), function.__name__)
    setattr(cls, name, property(own) if is_property else own)
    return cls(), own


@pytest.mark.parametrize("name", USES)
def test_a_function_taken_over_after_it_was_compiled_is_called(name: str) -> None:
    value, function = fresh(name)
    compiled = dj.compile(USES[name])
    before = [compiled(value) for _ in range(3)]
    assert before == [USES[name](value)] * 3
    testcapi.function_setvectorcall(function)
    assert [compiled(value) for _ in range(3)] == ["overridden"] * 3


@pytest.mark.parametrize("name", USES)
def test_a_function_taken_over_before_is_not_captured(name: str) -> None:
    value, function = fresh(name)
    testcapi.function_setvectorcall(function)
    compiled = dj.compile(USES[name])
    assert [compiled(value) for _ in range(3)] == ["overridden"] * 3


def test_fullgraph_names_the_function_taken_over() -> None:
    value, function = fresh("method")
    testcapi.function_setvectorcall(function)
    compiled = dj.compile(USES["method"], fullgraph=True)
    with pytest.raises(GraphBreakError, match="method: calls of it run C code"):
        compiled(value)


def test_a_function_given_as_an_argument_may_be_taken_over_later() -> None:
    def helper(number: int) -> Any:
        return number * 2

    def use(function: Callable[[int], Any], number: int) -> Any:
        return function(number)

    compiled = dj.compile(use)
    assert [compiled(helper, 3) for _ in range(3)] == [6, 6, 6]
    testcapi.function_setvectorcall(helper)
    assert [compiled(helper, 3) for _ in range(3)] == ["overridden"] * 3


def test_a_compiled_function_that_is_taken_over_is_called() -> None:
    def function(number: int) -> Any:
        return number * 2

    compiled = dj.compile(function)
    assert compiled(3) == 6
    testcapi.function_setvectorcall(function)
    assert compiled(3) == "overridden"
