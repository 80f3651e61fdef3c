"""`core.process.processors`: how many processors this process may use."""

import os

import pytest

from dynajit.core.process import config
from dynajit.core.process.processors import available_processors


def test_those_that_the_system_lets_the_process_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 3, 4}, raising=False)

    assert 3 == available_processors()


@pytest.mark.parametrize(("count", "expected"), [(6, 6), (None, 1)])
def test_all_that_there_are_where_a_system_does_not_say(
    count: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)

    assert expected == available_processors()
    assert expected == config.Config().thread_count
