"""Late imports: the module, or a sentence that says what to install."""

import math

import pytest

from dynajit.core.errors import UnsupportedError
from dynajit.core.process.optional import load


def test_a_module_that_exists_is_loaded():
    assert load("math", needed_for="a test", install="nothing") is math


def test_a_module_whose_import_meets_a_read_only_home_counts_as_missing(monkeypatch, tmp_path):
    (tmp_path / "writes_at_import.py").write_text("raise OSError(30, 'Read-only file system')\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(UnsupportedError, match="Read-only file system"):
        load("writes_at_import", needed_for="a test", install="nothing")


def test_a_missing_module_says_what_needs_it_and_how_to_get_it():
    with pytest.raises(UnsupportedError, match=r"plots needs .*'no_such.*install 'plt'"):
        load("no_such_module", needed_for="plots", install="plt")
