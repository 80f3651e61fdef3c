"""Futures: completed once, waited for, joined; as PyTorch's."""

import threading
from typing import Any

import pytest

import dynajit as dj
from dynajit.futures import Future, collect_all, wait_all


def test_a_value_is_waited_for() -> None:
    future: Any = Future()
    threading.Timer(0.01, future.set_result, (3,)).start()

    assert not future.done() or future.value() == 3
    assert 3 == future.wait()
    assert future.done()
    assert dj.futures.Future is dj.Future


def test_errors_are_raised_where_it_is_waited() -> None:
    future = Future()
    future.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        future.wait()
    with pytest.raises(RuntimeError, match="completed"):
        future.set_result(1)


def test_callbacks_run_once_it_is_completed() -> None:
    seen: list[Any] = []
    future = Future()
    future.add_done_callback(lambda f: seen.append(f.value()))
    following = future.then(lambda f: f.value() + 1)
    failing = future.then(lambda f: f.value() / 0)
    future.set_result(1)
    future.add_done_callback(lambda f: seen.append("late"))

    assert [1, "late"] == seen
    assert 2 == following.wait()
    with pytest.raises(ZeroDivisionError):
        failing.wait()


def test_several_are_joined() -> None:
    futures = [Future(), Future()]
    joined = collect_all(futures)
    futures[1].set_result("b")
    assert not joined.done()
    futures[0].set_result("a")

    assert ["a", "b"] == wait_all(futures)
    assert futures == joined.wait()
    assert [] == collect_all([]).wait()
