"""The frame of a traceback stands where the exception was raised again last."""

import pytest

from tests.support.python.harness import Compiler


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


def raised_again_from_two_handlers(x):
    try:
        try:
            raise ExceptionGroup("group", [TypeError(1), ValueError(2), OSError(3)])
        except* TypeError:
            raise
        except* ValueError as error:
            raise
    except ExceptionGroup as error:
        return x + 1, error.message, [type(part) for part in error.exceptions]


def raised_again_and_anew(x):
    try:
        try:
            raise ExceptionGroup("group", [TypeError(1), ValueError(2)])
        except* TypeError:
            raise
        except* ValueError as error:
            raise KeyError("new") from error
    except ExceptionGroup as error:
        found = [(type(part), part.args) for part in error.exceptions]
        return x + 1, error.message, [kind for kind, _ in found], len(found)


@pytest.mark.parametrize("function", [raised_again_from_two_handlers, raised_again_and_anew])
def test_a_group_that_handlers_raise_again_is_one_group(assert_captured, x, function):
    assert_captured(function, x)
