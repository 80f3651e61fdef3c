"""The documentation names what is captured."""

import re
from pathlib import Path

import numpy as np

from dynajit.ops.functions.arrays.page import functions_page

_PAGE = Path(__file__).parents[4] / "docs" / "numpy_functions.md"


def _in_python(page: str) -> set[str]:
    """Functions that NumPy has in Python, of those that this release has."""
    section = page.partition("## Captured by what they call")[2].partition("## Left to NumPy")[0]
    return {name for name in re.findall(r"`(\w+)`", section) if hasattr(np, name)}


def _entered(page: str) -> str:
    captured, heading, _ = page.partition("## Captured by what they call")
    assert heading
    return captured


def test_the_page_is_what_the_table_says() -> None:
    """But for the functions that one release of NumPy has and another one has not."""
    assert _entered(_PAGE.read_text()) == _entered(functions_page())
    assert _in_python(_PAGE.read_text()) <= _in_python(functions_page())
