"""Turns of a loop by C: what Python's own loop over the program's calls gives, in all kinds."""

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

from dynajit.codegen import pipeline
from dynajit.codegen._runtime import Program
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.graph import Builder
from dynajit.ir.pipeline import optimize
from dynajit.ops import TABLE

VECTOR = TensorType((5,), dtypes.float64)


def program(make: Any, *types: Any) -> Program:
    """The compiled graph of `make(*inputs)`."""
    builder = Builder("turn")
    inputs = [builder.placeholder(f"x{i}", type) for i, type in enumerate(types)]
    found = pipeline.compile_graph(optimize(builder.finish(list(make(*inputs)))))
    assert isinstance(found, Program)
    return found


def affine() -> Program:
    """Takes a number of each turn; what is handed on, and a factor."""
    return program(
        lambda n, x, w: (TABLE.add(TABLE.mul(x, w), n),),
        ScalarType(Category.INTEGER),
        VECTOR,
        VECTOR,
    )


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 40, 1001])
def test_turns_are_calls_one_after_the_other(turns: int) -> None:
    run, x, w = affine(), np.arange(5.0), np.full(5, 0.5)
    expected = x
    for turn in range(turns):
        (expected,) = run(3 + 2 * turn, expected, w)

    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    for numbers in ((3, 2), np.arange(3, 3 + 2 * turns, 2, dtype=np.int64)):
        found, count = run.turns((numbers,), (x, w), 1, turns, -1)  # type: ignore[misc]
        assert turns == count
        np.testing.assert_array_equal(found, expected)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_false_result_ends_the_loop_and_no_limit_is_needed() -> None:
    run = program(
        lambda x: (TABLE.mul(x, 0.5), TABLE.gt(TABLE.sum(x, dim=(0,), keepdim=False), 1.0)),
        VECTOR,
    )
    for limit, expected in ((-1, 4), (2, 2)):
        found, count = run.turns((), (np.ones(5),), 1, limit, 1)  # type: ignore[misc]
        assert expected == count
        np.testing.assert_array_equal(found, np.full(5, 0.5**expected))


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 41])
def test_results_may_be_arguments(turns: int) -> None:
    """Handed on to another place, or to their own; collected as they are, or twice."""
    run = program(
        lambda a, b, c, row, w: (b, TABLE.add(a, TABLE.mul(w, row)), c, a, w, row, TABLE.add(a, c)),
        *[VECTOR] * 5,
    )
    rows = np.random.default_rng(0).random((turns, 5))
    a, b, c, w = np.ones(5), np.full(5, 2.0), np.full(5, 3.0), np.arange(5.0)
    for backwards in (False, True):
        values, seen = [a, b, c], []
        for row in rows[::-1] if backwards else rows:
            *values, first, second, third, fourth = run(*values, row, w)
            seen.append([first, second, third, fourth])
        found = run.turns((), (a, b, c, rows, w), 3, turns, -1, 1, 4, backwards)
        assert found is not None and turns == found[-1]
        np.testing.assert_array_equal(found[:3], values)
        seen = seen[::-1] if backwards else seen
        for number, stack in enumerate(found[3:7]):
            assert stack.shape == (turns, 5)
            for turn in range(turns):
                np.testing.assert_array_equal(stack[turn], seen[turn][number])
    assert [1.0] * 5 == a.tolist()


def test_one_result_may_be_handed_on_twice_and_collected() -> None:
    """The same output of the program in several places."""
    made = program(lambda a, b: [TABLE.add(a, b)] * 4, VECTOR, VECTOR)
    a = b = np.ones(5)
    seen = []
    for _ in range(7):
        a, b, kept, _ = made(a, b)
        seen.append(kept)
    found = made.turns((), (np.ones(5), np.ones(5)), 2, 7, -1, 0, 2)
    assert found is not None
    np.testing.assert_array_equal(found[:2], [a, b])
    np.testing.assert_array_equal(found[2], seen)
    np.testing.assert_array_equal(found[3], seen)


def test_a_turn_that_refuses_its_values_ends_the_loop_with_its_error() -> None:
    index = TensorType((), dtypes.int64)
    run = program(
        lambda i, x: (TABLE.add(i, 1), TABLE.index_select(x, TABLE.reshape(i, shape=(1,)), dim=0)),
        index, VECTOR,
    )  # fmt: skip
    with pytest.raises(IndexError):
        run.turns((), (np.array(0), np.arange(5.0)), 1, 100, -1)
    found, count = run.turns((), (np.array(0), np.arange(5.0)), 1, 5, -1)  # type: ignore[misc]
    assert (5, 5) == (int(found), count)


def test_what_is_no_turn_of_the_program_is_refused() -> None:
    run = affine()
    two = (np.ones(5), np.ones(5))
    for numbers, values, carried in (
        ((), two, 1), (((0, 1),), two[:1], 1), (((0, 1),), two, 3), ((np.ones(3),), two, 1),
        ((np.ones(2, np.int64),), two, 1), (((0, 1),), (np.ones(4), np.ones(4)), 1),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            run.turns(numbers, values, carried, 3, -1)
    for stacked, limit in ((1, 3), (2, 5), (1, -1)):
        with pytest.raises(TypeError):
            run.turns(((0, 1),), two, 1, limit, -1, stacked)


def test_an_interrupt_ends_a_loop_without_an_end() -> None:
    run = program(
        lambda x: (TABLE.mul(x, 1.0), TABLE.ge(TABLE.sum(x, dim=(0,), keepdim=False), 0.0)), VECTOR
    )
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # others may ignore it
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            run.turns((), (np.ones(5),), 1, -1, 1)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
