"""`compile_count`: how often something was compiled."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from dynajit.capture.entry import cache


@pytest.fixture
def compile_count(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Compiles so far in this test: of functions, rests and callees.

    In its thread and in those that it starts: what an earlier test has left in others may go on.
    """
    names: list[str] = []
    left = set(threading.enumerate()) - {threading.current_thread()}
    original = cache.FunctionCache._compile

    def counted(self: Any, *arguments: Any) -> Any:
        if threading.current_thread() not in left:
            names.append(self.name)
        return original(self, *arguments)

    monkeypatch.setattr(cache.FunctionCache, "_compile", counted)
    return lambda: len(names)
