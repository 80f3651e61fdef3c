"""`compile_count`: how often something was compiled."""

from collections.abc import Callable
from typing import Any

import pytest

from dynajit.capture.entry import cache


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
