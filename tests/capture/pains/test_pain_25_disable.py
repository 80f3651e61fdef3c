"""Pain 25: what `disable` covers is a surprise."""

from typing import Any

import pytest

import dynajit as dj


def mark(x: Any) -> Any:
    """3 where it is compiled, 2 where it is plain Python."""
    return x * (3 if dj.is_compiling() else 2)


def test_a_disabled_function_and_all_below_it_run_as_plain_python() -> None:
    @dj.disable
    def outside(x: Any) -> Any:
        return mark(x)

    compiled = dj.compile(lambda x: outside(mark(x)) + 0)
    for _ in range(2):
        assert [6.0] == compiled(dj.ones(1)).tolist()
    (text,) = compiled.report().breaks
    assert "disabled" in text


def test_what_follows_a_disabled_call_is_compiled_again() -> None:
    @dj.disable
    def outside(x: Any) -> Any:
        return x

    compiled = dj.compile(lambda x: mark(outside(mark(x))))
    assert [9.0] == compiled(dj.ones(1)).tolist()


def test_a_disabled_method_keeps_its_binding() -> None:
    class Thing:
        """One method disabled."""

        factor = 5

        @dj.disable
        def scaled(self, x: Any) -> Any:
            return mark(x) * self.factor

        def run(self, x: Any) -> Any:
            return mark(self.scaled(x))

    thing = Thing()
    assert [30.0] == dj.compile(thing.run)(dj.ones(1)).tolist()


def test_fullgraph_names_the_disabled_function() -> None:
    @dj.disable
    def outside(x: Any) -> Any:
        return x

    with pytest.raises(dj.errors.GraphBreakError, match="outside"):
        dj.compile(lambda x: outside(x) + 1, fullgraph=True)(dj.ones(1))
