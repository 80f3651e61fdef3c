"""Options of the whole test suite."""

from typing import Any


def pytest_addoption(parser: Any) -> None:
    """`--cpython all`: every one of CPython's own test files under capture, in every mode."""
    parser.addoption("--cpython", choices=("fast", "all"), default="fast")
