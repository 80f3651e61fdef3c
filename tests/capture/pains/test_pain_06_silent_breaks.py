"""Pain 6: nobody says that code was not compiled."""

from pathlib import Path
from typing import Any

import pytest

import dynajit as dj


def noisy(x: Any) -> Any:
    y = x + 1
    z = y * y.max().item()  # here
    return z.exp()


async def never(x: Any) -> Any:
    return x


def test_report_summary_and_statistics_say_what_was_not_compiled(
    capsys: pytest.CaptureFixture[str],
) -> None:
    compiled = dj.compile(noisy)
    with dj.config.override(log=frozenset({"summary"})):
        compiled(dj.ones(3))
    line = f"{Path(__file__).name}:{noisy.__code__.co_firstlineno + 2}"
    printed = capsys.readouterr().err
    assert "2 graphs, 1 break, 67 % of 3 lines compiled" in printed
    assert line in printed
    assert line in str(compiled.report())
    assert line in dj.compile_stats()["reasons"][0]


def test_a_frame_that_runs_as_plain_python_is_reported() -> None:
    compiled = dj.compile(never)
    compiled(dj.ones(2)).close()
    assert "coroutines" in str(compiled.report())
    assert "coroutines" in compiled.report().summary
