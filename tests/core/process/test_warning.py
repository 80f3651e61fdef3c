"""Warnings: their categories, and the line that they are about."""

import sys
import warnings

import pytest

import dynajit as dj
from dynajit.core.errors import CompileWarning, ConfigurationWarning, DynajitWarning
from dynajit.core.process import config


def line() -> int:
    """Of the caller."""
    return sys._getframe(1).f_lineno


def test_a_warning_is_about_the_programs_line() -> None:
    """However deep in the library it is made."""

    @dj.compile(dynamic=False)
    def f(x: dj.Tensor) -> dj.Tensor:
        return x + 1

    with config.override(recompile_limit=2), pytest.warns(CompileWarning) as caught:
        for size in range(2, 6):
            f(dj.ones(size)); expected = line()  # fmt: skip  # noqa: E702

    assert [(__file__, expected)] == [(w.filename, w.lineno) for w in caught]
    assert "recompile_limit" in str(caught[0].message)


def test_categories_are_runtime_warnings() -> None:
    """So that filters that were written before hold."""
    assert issubclass(CompileWarning, DynajitWarning)
    assert issubclass(ConfigurationWarning, DynajitWarning)
    assert issubclass(DynajitWarning, RuntimeWarning)


def test_one_filter_silences_all() -> None:
    """By the base class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DynajitWarning)
        config.from_environment({"DYNAJIT_LOG": "nothing"})


def test_a_misspelt_channel_warns_with_what_is_near() -> None:
    """In the environment; what is known is taken."""
    with pytest.warns(ConfigurationWarning, match=r"Did you mean breaks, graph\?") as caught:
        found = config.from_environment({"DYNAJIT_LOG": "braeks,guards,grph"})

    assert frozenset({"guards"}) == found.log
    assert __file__ == caught[0].filename


def test_set_logs_says_what_is_near() -> None:
    """In an error."""
    with pytest.raises(dj.core.errors.ArgumentError, match="Did you mean kernels"):
        dj.set_logs("kernel")
