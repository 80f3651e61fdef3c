"""The documentation names what is captured."""

from pathlib import Path

from dynajit.ops.functions.arrays.page import functions_page

_PAGE = Path(__file__).parents[4] / "docs" / "numpy_functions.md"


def _entered(page: str) -> str:
    captured, heading, _ = page.partition("## Captured by what they call")
    assert heading
    return captured


def test_the_page_is_what_the_table_says() -> None:
    """But for the functions that one release of NumPy has and another one has not."""
    assert _entered(_PAGE.read_text()) == _entered(functions_page())
