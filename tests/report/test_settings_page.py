"""The page of settings is made from their table."""

from pathlib import Path

from dynajit.core.process.config import SETTINGS, VARIABLES
from dynajit.report.settings_page import settings_page

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_in_the_documentation_is_up_to_date() -> None:
    """Else: `python -m dynajit.report.settings_page > docs/configuration.md`."""
    assert settings_page() == PAGE.read_text()


def test_every_setting_and_every_variable_has_a_row() -> None:
    rows = [line for line in settings_page().splitlines() if line.startswith("| `")]

    assert [] == [name for name in SETTINGS if not any(f"`{name}`" in row for row in rows)]
    assert [] == [name for name in VARIABLES if not any(f"`{name}`" in row for row in rows)]
