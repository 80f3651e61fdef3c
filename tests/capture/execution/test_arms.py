"""Where the arms of a jump meet, whatever Python's bytecode looks like."""

from types import FunctionType

from dynajit.capture.bytecode.instructions import Body, decode
from dynajit.capture.execution.arms import (
    RETURN,
    jump_at,
    lies_in_loop,
    meeting,
    meeting_behind_loops,
)


def body_and_jumps(function: FunctionType) -> tuple[Body, list[int]]:
    """The instructions, and the places of jumps on a truth."""
    body = decode(function.__code__)
    places = [index for index in range(len(body)) if jump_at(body, index) is not None]
    first = [index for index in places if jump_at(body, index - 1) != jump_at(body, index)]
    return body, first


def test_arms_meet_at_the_head_of_a_loop():
    def function(x, n):
        for i in range(n):
            if x > i:
                x = x - 1
            else:
                x = x + 1

    body, (place,) = body_and_jumps(function)
    end = meeting(body, place)

    assert end is not None
    assert body[end].operation == "FOR_ITER"
    assert lies_in_loop(body, place)


def test_arms_that_return_meet_at_returns():
    def function(x):
        if x > 1:
            return x
        return -x

    body, (place,) = body_and_jumps(function)

    assert meeting(body, place) == RETURN
    assert not lies_in_loop(body, place)


def test_the_test_of_a_loop_has_no_arms_that_meet():
    def function(x):
        while x > 1:
            x = x * 0.5
        return x

    body, places = body_and_jumps(function)

    assert [meeting(body, place) for place in places] == [None] * len(places)


def test_an_arm_that_raises_or_has_a_loop_meets_nothing():
    def raises(x):
        if x > 1:
            raise ValueError
        return x

    def has_a_loop(x):
        if x > 1:
            for i in range(3):
                x = x + i
        return x

    for function in (raises, has_a_loop):
        body, places = body_and_jumps(function)
        assert meeting(body, places[0]) is None


def test_arms_with_loops_meet_behind_them():
    def has_loops(x, y):
        if x > 1:
            for i in range(3):
                x = x + i
        else:
            while x < y:
                x = x * 2
        return x + y

    def goes_round(x):
        while True:
            y = x * 2
            if x > 1:
                break
            x = x + 1
        return y

    def raises(x):
        if x > 1:
            raise ValueError
        return x

    for function in (has_loops, goes_round):
        body, places = body_and_jumps(function)
        assert meeting(body, places[0]) is None
        end = meeting_behind_loops(body, places[0])
        assert end == RETURN or body[end].operation in ("LOAD_FAST", "RETURN_VALUE")

    body, places = body_and_jumps(raises)
    assert meeting_behind_loops(body, places[0]) is None
