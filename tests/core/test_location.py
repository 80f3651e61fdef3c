"""Places in source text."""

import contextlib

import numpy as np
import pytest

import dynajit
from dynajit.core.location import Location, is_helper, is_of_library
from dynajit.eager.backward import engine


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("def f(x):\n    return x @ weight\n")
    return str(path)


def test_a_location_shows_its_line_and_columns(source):
    place = Location(source, 2, "f", column=11, end_column=21)
    assert place.text == "return x @ weight"
    assert place.caret() == "  return x @ weight\n         ^^^^^^^^^^"
    assert str(place) == f"{source}:2"


def test_without_columns_only_the_line_is_shown(source):
    assert Location(source, 2).caret() == "  return x @ weight"


def test_a_missing_file_shows_nothing():
    assert Location("/no/such/file.py", 3).caret() == ""
    assert Location("/no/such/file.py", 3).text == ""


def test_files_of_the_library_are_told_from_others() -> None:
    """Engines as well, wherever they lie; Python's own library and NumPy are helpers."""
    assert is_of_library(dynajit.__file__)
    assert is_of_library(engine.__file__)
    assert not is_of_library(__file__) and not is_helper(__file__)
    assert is_helper(contextlib.__file__) and is_helper(np.__file__)
    assert is_helper("<frozen importlib._bootstrap>") and not is_helper("<stdin>")
