"""`compile_count`: how often something was compiled; `compiled_names`: what."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from dynajit.capture.entry import cache


@pytest.fixture
def compiled_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was compiled so far in this test: functions, rests and callees.

    In its thread and in those that it starts: what an earlier test has left in others may go on.
    What it has left to the collector may end in this thread, and is among them.
    """
    names: list[str] = []
    left = set(threading.enumerate()) - {threading.current_thread()}
    original = cache.FunctionCache._compile

    def counted(self: Any, *arguments: Any) -> Any:
        if threading.current_thread() not in left:
            names.append(self.name)
        return original(self, *arguments)

    monkeypatch.setattr(cache.FunctionCache, "_compile", counted)
    return names


@pytest.fixture
def compile_count(compiled_names: list[str]) -> Callable[[], int]:
    """How much was compiled so far in this test: see `compiled_names`."""
    return lambda: len(compiled_names)
