"""Options of the whole test suite."""

from collections.abc import Iterator
from typing import Any

import pytest

import dynajit as dj


def pytest_addoption(parser: Any) -> None:
    """`--cpython all`: every one of CPython's own test files under capture, in every mode."""
    parser.addoption("--cpython", choices=("fast", "all"), default="fast")


@pytest.fixture(scope="session")
def kernel_folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One cache folder for the whole run: equal kernels compile once."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def strict_programs(kernel_folder: Any) -> Iterator[None]:
    """A defect of the compiler is an error, not a fallback; tests do not see each other."""
    with dj.config.override(strict=True, cache_dir=kernel_folder):
        yield
    dj.reset()
