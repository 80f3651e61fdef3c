"""Pain 22: deep call chains die in the compiler."""

import sys
from typing import Any

import pytest

import dynajit as dj


def deep(x: Any, n: int) -> Any:
    return x if n == 0 else deep(x + 1, n - 1)


def endless(x: Any) -> Any:
    return endless(x + 1)


def test_a_chain_of_three_hundred_calls_is_one_graph() -> None:
    compiled = dj.compile(lambda x: deep(x, 300), backend="numpy")
    assert [300.0] == compiled(dj.zeros(1)).tolist()
    assert (1, ()) == (compiled.report().graphs, compiled.report().breaks)


def test_a_chain_deeper_than_the_limit_raises_what_plain_python_raises() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        with pytest.raises(RecursionError):
            endless(dj.zeros(1))
        with pytest.raises(RecursionError):
            dj.compile(endless, backend="numpy")(dj.zeros(1))
    finally:
        sys.setrecursionlimit(limit)
    compiled = dj.compile(lambda x: deep(x, 3), backend="numpy")
    assert [3.0] == compiled(dj.zeros(1)).tolist()
