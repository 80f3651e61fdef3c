"""Built-in functions that a program replaces, and warnings: the program notices no compiler."""

import builtins
import functools

import pytest

from dynajit.capture.entry import own_builtins
from dynajit.core.process import config
from dynajit.core.process.warning import warn
from tests.support.python.harness import Compiler


def lengths(values):
    return [len(value) for value in values]


def test_while_a_builtin_is_replaced_functions_run_as_plain_python(monkeypatch):
    compiler = Compiler()
    with config.override(strict=True):
        compiled = compiler.compile(lengths)
        assert compiled(["ab", ""]) == [2, 0] and not own_builtins.are_replaced()
        monkeypatch.setattr(builtins, "len", functools.lru_cache(4)(len))
        found = compiled(("ab", "abc")), own_builtins.are_replaced()
        monkeypatch.undo()
        assert found == ([2, 3], True) and compiler.skips == []
        assert compiled(["ab", "abc"]) == [2, 3]


def test_a_warning_writes_nothing_into_the_program():
    space = {"warn": warn, "__name__": "some_module"}
    exec(compile("def blamed():\n    warn('told')", "some_file.py", "exec"), space)
    before = set(space)
    with pytest.warns(RuntimeWarning, match="told") as caught:
        space["blamed"]()
    assert set(space) == before and (caught[0].filename, caught[0].lineno) == ("some_file.py", 2)


def test_a_warning_is_about_the_line_of_the_program():
    with pytest.warns(RuntimeWarning, match="told") as caught:
        warn("told")
    assert caught[0].filename == __file__
