"""Text whose writing the program itself sees: recorded warnings, streams and handlers in Python."""

import io
import logging
import sys
import warnings

import pytest

logger = logging.getLogger("dynajit.tests.output_that_is_read")


class Stream(io.TextIOBase):
    """Keeps what is written."""

    def __init__(self):
        self.texts = []

    def write(self, text):
        self.texts.append(text)
        return len(text)


class Handler(logging.Handler):
    """Keeps messages."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


class Texts:
    """Keeps the texts of warnings."""

    def __init__(self):
        self.found = []

    def show(self, message, *rest):
        self.found.append(str(message))


def recorded_here(x):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.warn("one")
        count = len(found)
        warnings.warn("two", DeprecationWarning)
    return x + count, [str(item.message) for item in found]


def recorded_in_an_argument(x, found):
    before = len(found)
    warnings.warn("seen")
    return x + before, len(found), [str(item.message) for item in found]


def warn(x):
    warnings.warn("one", stacklevel=1)
    return x + 1


def printed_and_read(x, stream):
    print("a", 1)
    count = len(stream.texts)
    return x + count, stream.texts


def logged_and_read(x, handler):
    logger.error("value %d", 3)
    count = len(handler.messages)
    return x + count, handler.messages


def warned_and_read(x, texts):
    warnings.warn("shown", stacklevel=1)
    count = len(texts.found)
    return x + count, texts.found


@pytest.fixture
def twice(compiler, check_same):
    """`twice(function, *arguments)`: two compiled calls give what two plain ones give."""

    def run(function, x, make, prepare):
        compiled = compiler.compile(function)
        for _ in range(2):
            seen = []
            for called in (function, compiled):
                made = make()
                with prepare(made):
                    seen.append(called(x, made))
            check_same(*seen)
        return compiler

    return run


def test_warnings_recorded_by_the_function_itself(compiler, check_same, x):
    compiled = compiler.compile(recorded_here)
    for _ in range(2):
        check_same(recorded_here(x), compiled(x))


def test_warnings_recorded_in_an_argument(compiler, check_same, x):
    compiled = compiler.compile(recorded_in_an_argument)
    for called in (recorded_in_an_argument, compiled, compiled):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            result, count, texts = called(x, found)
        assert (count, texts) == (1, ["seen"])
        check_same(x + 0, result)


def test_a_list_that_becomes_the_recorded_one_is_another_version(compiler, x):
    """The argument is compared with what records warnings now."""
    compiled = compiler.compile(recorded_in_an_argument)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert compiled(x, [])[1:] == (0, [])
    assert len(compiler.breaks) == 0
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert compiled(x, found)[1:] == (1, ["seen"])


def test_recorded_warnings_that_nobody_reads_are_no_break(compiler, x):
    compiled = compiler.compile(warn)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            compiled(x)
        assert [str(item.message) for item in found] == ["one"]
    assert (len(compiler.graphs), len(compiler.breaks)) == (1, 0)


class Shown:
    """Warnings are shown by the object."""

    def __init__(self, texts):
        self.texts = texts
        self.saved = warnings.catch_warnings()

    def __enter__(self):
        self.saved.__enter__()
        warnings.simplefilter("always")
        warnings.showwarning = self.texts.show

    def __exit__(self, *error):
        self.saved.__exit__(*error)


def test_warnings_shown_by_a_function_of_the_program(twice, x):
    assert len(twice(warned_and_read, x, Texts, Shown).breaks) == 1


class Redirected:
    """`print` writes to the stream."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        self.before, sys.stdout = sys.stdout, self.stream

    def __exit__(self, *error):
        sys.stdout = self.before


def test_print_to_a_stream_written_in_python(twice, x):
    assert len(twice(printed_and_read, x, Stream, Redirected).breaks) == 1


class Handled:
    """The logger has one more handler."""

    def __init__(self, handler):
        self.handler = handler

    def __enter__(self):
        logger.addHandler(self.handler)

    def __exit__(self, *error):
        logger.removeHandler(self.handler)


def test_logging_by_a_handler_of_the_program(twice, x):
    assert len(twice(logged_and_read, x, Handler, Handled).breaks) == 1


def test_a_handler_added_later_is_another_version(compiler, x):
    compiled = compiler.compile(logged_and_read)
    assert compiled(x, Handler())[1] == []
    assert len(compiler.breaks) == 0
    handler = Handler()
    with Handled(handler):
        assert compiled(x, handler)[1] == ["value 3"]


def test_a_filter_added_later_is_another_version(compiler, x):
    seen = []

    def note(record):
        seen.append(record.msg)
        return False

    def f(x):
        logger.error("dropped")
        return x + len(seen)

    compiled = compiler.compile(f)
    compiled(x)
    logger.addFilter(note)
    try:
        assert (compiled(x) - x).sum().item() == x.numel() * len(seen) == x.numel()
    finally:
        logger.removeFilter(note)
