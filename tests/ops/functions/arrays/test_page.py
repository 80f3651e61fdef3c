"""The documentation names what is captured."""

from pathlib import Path

from dynajit.ops.functions.arrays.page import functions_page

_PAGE = Path(__file__).parents[4] / "docs" / "numpy_functions.md"


def _captured(page: str) -> str:
    return page.partition("## Left to NumPy")[0]


def test_the_page_is_what_the_table_says() -> None:
    """But for what each release of NumPy has besides."""
    assert _captured(_PAGE.read_text()) == _captured(functions_page())
