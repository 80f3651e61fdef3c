"""Text that is written: print, streams, logging, warnings; without a break, in order."""

import io
import logging
import sys
import warnings
from functools import partial

import pytest


def caught(function, *arguments, **keywords):
    """The result, or the exception's class name and text."""
    try:
        return function(*arguments, **keywords)
    except Exception as error:
        return type(error).__name__, str(error)


logger = logging.getLogger("dynajit.tests.output")


class Named:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"<{self.name}>"

    def __repr__(self):
        return f"Named({self.name!r})"


def print_forms(x):
    print("plain", 1, 2.5, None, [1, "a"], (1,), {"k": 1})
    print("a", "b", sep="-", end="!\n")
    print()
    print("to stderr", file=sys.stderr)
    print("flushed", flush=True)
    return x + 1


def print_in_order(x):
    items = []
    for i in range(3):
        print(i, items)
        items.append(i)
    return x * 2, items


def print_tensor(x):
    y = x + 1
    print("y:", y, [y, 1], x)
    y = y * 2
    return y


def print_tensor_changed_later(x):
    y = x + 1
    print(y)
    y += 1
    return y


def print_objects(x):
    one = Named("one")
    print(one, [one], f"{one!s:>8}")
    one.name = "two"
    print(one)
    return x + 1


def print_errors(x):
    def wrong():
        print("a", sep=1)

    return x + 1


def write_stream(x):
    count = sys.stdout.write("text\n")
    sys.stderr.write("error\n")
    sys.stdout.flush()
    return x + count


def log_records(x):
    logger.warning("value %s of %d", "a", 3)
    logger.error("plain")
    logger.debug("not shown")
    logger.log(logging.CRITICAL, "level %s", [1])
    return x + 1


def warn_forms(x):
    warnings.warn("first")
    warnings.warn("second", DeprecationWarning)
    return x + 1


def helper(value):
    warnings.warn("from the caller's line", stacklevel=2)
    logging.getLogger("dynajit.tests.output").warning("helper")
    return value + 1


def warn_in_inlined_function(x):
    return helper(x) * 2


def print_before_error(x):
    print("before")
    try:
        raise ValueError("inside")
    except ValueError as error:
        print("caught", error)
    return x + 1


FUNCTIONS = [
    value
    for name, value in list(globals().items())
    if getattr(value, "__code__", None) is not None
    and value.__module__ == __name__
    and value.__code__.co_varnames[: value.__code__.co_argcount] == ("x",)
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_function_is_captured_without_a_break(assert_captured, x, function):
    """Same result as plain Python, without a break."""
    assert_captured(function, x)


def print_number(x, number):
    print("number", number, number * 2)
    return x * number


def test_a_run_time_number_is_printed_without_specialising(compiler, x, capsys):
    """One entry serves every number."""
    compiled = compiler.compile(print_number)
    for number in (1.5, 2.5, 3.5):
        compiled(x, number)
    assert capsys.readouterr().out == "number 1.5 3.0\nnumber 2.5 5.0\nnumber 3.5 7.0\n"
    assert 1 == len(compiler.graphs)


def change_argument_after_print(x):
    print(x)
    x += 1
    return x * 2


def test_printed_argument_that_is_changed_in_place(assert_captured, x):
    """The text is that of the old contents."""
    assert_captured(change_argument_after_print, x, graphs=None, breaks=None)


def test_log_record_names_the_users_line(compiler, x, caplog):
    """File, line and function are those of the call in the source."""
    compiled = compiler.compile(log_records)
    compiled(x)
    first = caplog.records[0]
    assert __file__ == first.pathname
    assert log_records.__code__.co_firstlineno + 1 == first.lineno
    assert "log_records" == first.funcName
    assert ["value a of 3", "plain", "level [1]"] == [r.getMessage() for r in caplog.records]


def test_warning_names_the_users_line(compiler, x):
    """`stacklevel=2` names the line of the inlined call."""
    compiled = compiler.compile(warn_in_inlined_function)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        compiled(x)
    assert warn_in_inlined_function.__code__.co_firstlineno + 1 == found[0].lineno
    assert __file__ == found[0].filename


def redirect(x, stream):
    print("shown", file=stream)
    return x + 1


def test_print_to_an_object_of_a_user_class_is_a_break(compiler, x):
    """Its `write` may do anything."""

    class Stream:
        def __init__(self):
            self.texts = []

        def write(self, text):
            self.texts.append(text)

    stream = Stream()
    compiler.compile(redirect)(x, stream)
    assert ["shown", "\n"] == stream.texts
    assert 1 == len(compiler.breaks)


@pytest.mark.parametrize("kind", ["function", "partial"])
def test_a_stream_that_writes_by_code_of_its_own_is_a_break(compiler, x, kind):
    """Derived from a stream of the library, and `write` still the user's, however it is stored."""
    texts = []

    class Stream(io.StringIO):
        write = {
            "function": lambda _, text: texts.append(text),
            "partial": staticmethod(partial(texts.append)),
        }[kind]

    def function(x, stream):
        print("shown", file=stream)
        return x + len(texts)

    result = compiler.compile(function)(x, Stream())

    assert ["shown", "\n"] == texts
    assert (x + 2).tolist() == result.tolist()
    assert 1 == len(compiler.breaks)
