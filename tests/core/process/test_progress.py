"""A long compilation says what it does, in one line, where somebody looks."""

import io
import os
import pty
import re
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import dynajit as dj
from dynajit.core.process import progress


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """The error stream is a terminal, and a compilation is long after a moment.

    Not by `sys.stderr`, which pytest sets anew when the test begins.
    """
    stream = Terminal()
    monkeypatch.setattr(progress, "AFTER_S", 0.01)
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    yield stream
    assert not any(thread.name == "dynajit-progress" for thread in threading.enumerate())


def wait_for(stream: Terminal, text: str) -> None:
    """Until a text was written: another thread writes it."""
    event = threading.Event()
    for _ in range(4000):
        if text in stream.getvalue():
            return
        event.wait(0.005)
    raise AssertionError(f"{text!r} is not in {stream.getvalue()[-200:]!r}")


def test_a_long_compilation_names_function_and_stage_and_leaves_no_trace(
    terminal: Terminal,
) -> None:
    def backend(graph: Any, types: Any) -> Any:
        wait_for(terminal, "waiting for its backend")
        return lambda x: [x + 1]

    def function(x: Any) -> Any:
        return x + 1

    assert [2.0] == dj.compile(function, backend=backend)(dj.ones(1)).tolist()
    lines = terminal.getvalue().split("\r\x1b[K")
    assert re.fullmatch(
        r"dynajit: compiling .*function: waiting for its backend \(\d s\)", lines[-2]
    )
    assert "" == lines[-1]  # erased
    assert "\n" not in terminal.getvalue()


def test_every_stage_of_a_compilation_has_words(terminal: Terminal) -> None:
    """Those that reports have times of."""
    model = dj.nn.Linear(3, 3)
    found = dj.explain(lambda x: model(x).exp().sum())(dj.ones(2, 3))

    assert set(found.stages) <= set(progress.WORDS)


def test_a_short_compilation_and_one_that_nobody_sees_are_silent(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dj.config.override(progress=False), progress.shown("f"):
        threading.Event().wait(0.05)
    plain = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=plain))
    with progress.shown("f"):
        threading.Event().wait(0.05)
    monkeypatch.setattr(progress, "AFTER_S", 60.0)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=terminal))
    with progress.shown("f"):
        pass

    assert "" == plain.getvalue() == terminal.getvalue()


def test_a_variable_switches_it_off() -> None:
    assert not dj.config.from_environment({"DYNAJIT_PROGRESS": "0"}).progress
    assert dj.config.from_environment({}).progress


def test_a_stream_that_is_closed_or_missing_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None, object()):
        monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
        with progress.shown("f"):
            progress.note("passes")


def test_a_name_cannot_command_the_terminal_and_the_inner_one_is_not_told(
    terminal: Terminal,
) -> None:
    with progress.shown("f\x1b[2J\n"), progress.shown("inner"):
        progress.note("fusion")
        wait_for(terminal, "choosing kernels")

    assert "f\\x1b[2J\\n: choosing kernels" in terminal.getvalue()
    assert "inner" not in terminal.getvalue()


def test_the_line_is_no_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pty.openpty()
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size((30, 10)))
    monkeypatch.setattr(progress, "AFTER_S", 0.01)
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
        with progress.shown("a_function_with_a_long_name"):
            threading.Event().wait(0.1)
        written = os.read(reader, 10_000).decode()
    os.close(reader)

    assert "dynajit: compiling" in written
    assert all(len(line) < 30 for line in written.split("\r\x1b[K"))
