"""Pain 8: breakpoint() and the debugger show nothing of the user's program."""

import linecache
import sys
from typing import Any

import pytest

import dynajit as dj


def test_breakpoint_shows_the_users_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def hook(*_: Any) -> None:
        frame = sys._getframe(1)
        names = ("x", "y", "scale")
        seen.append(({name: frame.f_locals.get(name) for name in names}, frame.f_lineno))

    def function(x: Any, scale: float) -> Any:
        y = x * scale
        breakpoint()
        return y + 1

    monkeypatch.setattr(sys, "breakpointhook", hook)
    compiled = dj.compile(function)
    for _ in range(2):
        assert [3.0, 3.0] == compiled(dj.ones(2), 2.0).tolist()
    for found, line in seen:
        assert function.__code__.co_firstlineno + 2 == line
        assert [2.0, 2.0] == found["y"].tolist()
        assert [1.0, 1.0] == found["x"].tolist()
        assert 2.0 == found["scale"]
    assert 2 == len(seen)


def test_a_graph_can_be_stepped_through_line_by_line() -> None:
    compiled = dj.compile(lambda x: (x.exp() + 1).sum(), backend="eager")
    compiled(dj.zeros(2))
    lines: list[str] = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith("<dynajit graph"):
            return None
        lines.append(linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip())
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert 4.0 == compiled(dj.zeros(2)).item()
    finally:
        sys.settrace(before)
    text = "\n".join(lines)
    assert all(name in text for name in ("ops.exp(", "ops.add(", "ops.sum(", "return ("))


def test_one_graph_can_run_eagerly_while_the_program_stays() -> None:
    compiled = dj.compile(lambda x: x * (3 if dj.is_compiling() else 2))
    assert [3.0] == compiled(dj.ones(1)).tolist()
    with dj.set_stance("force_eager"):
        assert [2.0] == compiled(dj.ones(1)).tolist()
    assert [3.0] == compiled(dj.ones(1)).tolist()
