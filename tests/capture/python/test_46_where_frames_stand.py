"""The frame of a traceback stands where the exception was raised again last."""

import pytest
from harness import Compiler


def leaves_finally():
    try:
        1 / 0
    finally:
        pass


def other_handler():
    try:
        1 / 0
    except TypeError:
        pass


def raised_again():
    try:
        1 / 0
    except ZeroDivisionError:
        len([])
        raise


def inner_finally():
    try:
        try:
            leaves_finally()
        finally:
            len([])
    except TypeError:
        pass


def plain():
    len([])
    1 / 0


def lines(function):
    with pytest.raises(ZeroDivisionError) as caught:
        function()
    found = []
    step = caught.tb.tb_next
    while step is not None:
        found.append((step.tb_frame.f_code.co_name, step.tb_lineno, step.tb_frame.f_lineno))
        step = step.tb_next
    return found


@pytest.mark.parametrize(
    "function", [leaves_finally, other_handler, raised_again, inner_finally, plain]
)
def test_lines_are_those_of_plain_python(function):
    assert lines(Compiler().compile(function)) == lines(function)
