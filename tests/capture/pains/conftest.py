"""What the programs in this folder share: strict mode, an own kernel cache, counted compiles.

Each file is one pain of users of other compilers, and shows that it is none here.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dynajit as dj
from dynajit.capture import cache


@pytest.fixture(scope="session")
def kernel_folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One cache folder for the whole run: equal kernels compile once."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def strict(kernel_folder: Any) -> Iterator[None]:
    """A defect of the compiler is an error, not a fallback; tests do not see each other."""
    with dj.config.override(strict=True, cache_dir=kernel_folder):
        yield
    dj.reset()


@pytest.fixture
def compile_count(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Compiles so far in this test: of functions, rests and callees."""
    names: list[str] = []
    original = cache.FunctionCache._compile

    def counted(self: Any, *arguments: Any) -> Any:
        names.append(self.name)
        return original(self, *arguments)

    monkeypatch.setattr(cache.FunctionCache, "_compile", counted)
    return lambda: len(names)
