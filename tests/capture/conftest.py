"""`compile_count`: how often something was compiled."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from dynajit.capture.entry import cache


@pytest.fixture
def compile_count(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Compiles so far in this test's thread: of functions, rests and callees.

    What an earlier test has left in other threads may still be compiled.
    """
    names: list[str] = []
    thread = threading.get_ident()
    original = cache.FunctionCache._compile

    def counted(self: Any, *arguments: Any) -> Any:
        if threading.get_ident() == thread:
            names.append(self.name)
        return original(self, *arguments)

    monkeypatch.setattr(cache.FunctionCache, "_compile", counted)
    return lambda: len(names)
