"""Pain 7: errors of the compiler show its own frames and hide the user's line."""

import traceback
from typing import Any

import pytest

import dynajit as dj


def middle(x: Any) -> Any:
    return innermost(x) + 1


def innermost(x: Any) -> Any:
    return x * (x.sum() > 0).item()


def outermost(x: Any) -> Any:
    return middle(x * 2)


def test_a_fullgraph_error_shows_line_caret_chain_and_remedy() -> None:
    with pytest.raises(dj.errors.GraphBreakError) as error:
        dj.compile(outermost, fullgraph=True)(dj.ones(2))
    text = str(error.value)
    first = innermost.__code__.co_firstlineno + 1
    assert f"test_pain_07_errors.py:{first}" in text
    assert "return x * (x.sum() > 0).item()" in text
    assert "^^^" in text
    for function in (middle, outermost):
        assert f"called from {__file__}:{function.__code__.co_firstlineno + 1}" in text
    assert "Hint:" in text


def test_its_traceback_has_no_frame_of_the_compiler() -> None:
    with pytest.raises(dj.errors.GraphBreakError) as error:
        dj.compile(outermost, fullgraph=True)(dj.ones(2))
    files = {frame.filename for frame in traceback.extract_tb(error.value.__traceback__)}
    assert {__file__} == files
    assert error.value.__cause__ is None


def test_a_users_error_has_the_users_lines_only() -> None:
    def fails(x: Any, n: int) -> Any:
        y = x * 2
        return y / [1, 2][n]  # the line

    compiled = dj.compile(fails)
    with pytest.raises(IndexError, match="list index out of range") as error:
        compiled(dj.ones(2), 5)
    frames = traceback.extract_tb(error.value.__traceback__)
    assert "# the line" in (frames[-1].line or "")
    assert {__file__} == {frame.filename for frame in frames}
