"""What newer CPython versions spell differently: annotations, slices, `with`, templates.

Programs that older versions cannot parse are text.
"""

# The programs under test are spelled as users spell them.

import sys

import pytest

from dynajit.capture.entry import session
from dynajit.core.errors import GraphBreakError

needs_314 = pytest.mark.skipif(sys.version_info < (3, 14), reason="syntax of 3.14")


class Manager:
    """Keeps what happened to it."""

    def __init__(self, log, swallows=False):
        self.log = log
        self.swallows = swallows

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(("exit", kind and kind.__name__))
        return self.swallows


class InstanceMethods:
    """A class attribute that is no function is not bound."""

    __enter__ = staticmethod(lambda: "entered")
    __exit__ = staticmethod(lambda *details: len(details))


class OnlyEnter:
    def __enter__(self):
        return 1


class Asynchronous:
    async def __aenter__(self):
        return 1

    async def __aexit__(self, *details):
        return None


class OtherMeaning:
    """The names on the instance do not count."""

    def __init__(self):
        self.__enter__ = lambda: 1
        self.__exit__ = lambda *details: None


def attempt(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


def enter(manager):
    with manager as value:
        return value


def annotated_function(x):
    def inner(a: int, b: "str" = "b") -> float:
        return a

    return inner(x) + 1, inner


def annotation_of_a_local(x):
    kind = type(x)

    def inner(a: kind) -> list[kind]:
        return a

    return x + 1, inner


def with_and_break(x):
    log = []
    with Manager(log), Manager(log) as second:
        log.append(memoryview(b"abc")[1])
        x = x + 1
    return x, log, second.swallows


def with_and_exception(x):
    log = []
    with Manager(log, swallows=True):
        x = x + 1
        log.append(memoryview(b"abc")[5])
    return x, log


def with_of_static_methods(x):
    with InstanceMethods() as value:
        x = x * 2
    return x, value


def errors_of_with(x):
    managers = (3, OnlyEnter(), Asynchronous(), OtherMeaning())
    return x + 1, [attempt(lambda manager=manager: enter(manager)) for manager in managers]


def constant_slices(x):
    items = [1, 2, 3, 4]
    items[1:3] = [7]
    del items[::2]
    return x[1:, ::2] + 1, items[:], (1, 2, 3)[::-1], "abc"[:-1]


def consumed_by_builtins(x):
    sizes = [2, 3]
    return (
        all(size > 1 for size in sizes),
        any(size > 2 for size in sizes),
        tuple(size * 2 for size in sizes),
        x + sum(size for size in sizes),
    )


def small_integers(x):
    return x * 255 + 256, [0, 1, -1][0], -5, 2**8


def many_locals(x):
    a = b = c = d = e = f = g = h = i = j = k = m = n = o = p = q = 1
    r = s = 2

    def inner():
        return r + s

    return x + a + b + c + d + e + f + g + h + i + j + k + m + n + o + p + q + inner()


def loop_left_early(x):
    for index in range(5):
        if index == 2:
            break
        for other in (1, 2, 3):
            if other == 2:
                continue
            x = x + other
    else:
        x = x * 100
    return x


def star_calls(x):
    def inner(*args, **kwargs):
        return len(args), sorted(kwargs)

    return inner(*[1, 2]), inner(*(), **{}), inner(1, *[2], k=3), inner(**{"m": x}), x + 1


WITHOUT_A_BREAK = (
    annotated_function, annotation_of_a_local, with_of_static_methods, errors_of_with,
    constant_slices, consumed_by_builtins, small_integers, many_locals, loop_left_early, star_calls,
)  # fmt: skip


@pytest.mark.parametrize("function", WITHOUT_A_BREAK, ids=lambda function: function.__name__)
def test_is_captured_as_in_plain_python(assert_captured, x, function):
    assert_captured(function, x)


@pytest.mark.parametrize("function", [with_and_break, with_and_exception])
def test_a_break_in_a_with_block_keeps_its_meaning(assert_captured, x, function):
    assert_captured(function, x, graphs=None, breaks=None)


def test_annotations_of_a_returned_function_are_its_own(strict, compiler, x):
    inner = compiler.compile(annotated_function)(x)[1]
    assert {"a": int, "b": "str", "return": float} == inner.__annotations__
    inner = compiler.compile(annotation_of_a_local)(x)[1]
    assert {"a": type(x), "return": list[type(x)]} == inner.__annotations__


def from_text(source):
    namespace = {}
    exec(compile(source, "<text>", "exec"), namespace)
    return namespace["f"]


@needs_314
def test_a_template_string_breaks_and_keeps_its_parts(assert_captured, x):
    f = from_text(
        "def f(x, name):\n"
        "    y = x + 1\n"
        "    made = t'{name!r:>{len(name)}} and {name}'\n"
        "    parts = [(p.value, p.expression, p.conversion, p.format_spec)\n"
        "             for p in made.interpolations]\n"
        "    return y * 2, made.strings, parts\n"
    )
    assert_captured(f, x, "ab", graphs=2, breaks=None)
    with pytest.raises(GraphBreakError, match="template strings"):
        session.capture(f, (x, "ab"), fullgraph=True)


@needs_314
def test_except_without_parentheses_is_captured(assert_captured, x):
    f = from_text(
        "def f(x):\n"
        "    try:\n"
        "        [][0]\n"
        "    except KeyError, IndexError:\n"
        "        return x + 1\n"
    )
    assert_captured(f, x)


@needs_314
def test_annotations_of_a_returned_function_are_evaluated_when_asked_for(compiler, x):
    f = from_text(
        "def f(x):\n    def inner(a: later) -> int:\n        return a\n    return x + 1, inner\n"
    )
    inner = compiler.compile(f)(x)[1]
    with pytest.raises(NameError):
        _ = inner.__annotations__
    inner.__globals__["later"] = str
    assert {"a": str, "return": int} == inner.__annotations__
