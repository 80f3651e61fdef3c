"""Places in source text."""

import pytest

from dynajit.core.location import Location


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
