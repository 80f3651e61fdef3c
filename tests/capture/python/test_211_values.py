"""Numbers, text, math, operator, and other functions of the standard library on known values."""

import copy
import functools
import json
import math
import operator
import re
import statistics
import string
import struct
import textwrap
from decimal import Decimal
from fractions import Fraction

import pytest


def caught(function, *arguments, **keywords):
    """The result, or the exception's class name and text."""
    try:
        return function(*arguments, **keywords)
    except Exception as error:
        return type(error).__name__, str(error)


def int_methods(x):
    return (
        x + 1,
        int("12", 16),
        int("0b101", 0),
        int(" 7 "),
        int(3.9),
        int(),
        (10).bit_length(),
        (10).bit_count(),
        (1024).to_bytes(2, "big"),
        int.from_bytes(b"\x01\x00", "big"),
        divmod(7, -2),
        pow(3, 4, 5),
        pow(2, -1),
        round(2.5),
        round(2.675, 2),
        round(-1234, -2),
        2**100,
        -(2**63) - 1,
        10**20 // 3,
        (5).conjugate(),
        (6).as_integer_ratio(),
        caught(int, "z"),
        caught(int, "12", 99),
        caught(int, None),
        caught(int, [1]),
        caught(divmod, 1, 0),
        caught(lambda: 1 // 0),
        caught(lambda: 1 % 0),
        caught(lambda: 1 << -1),
        caught(lambda: 2.0**10000),
    )


def float_methods(x):
    return (
        x + 1,
        float("1e3"),
        float("inf"),
        float("-0.0"),
        (0.5).hex(),
        float.fromhex("0x1.8p1"),
        (2.0).is_integer(),
        (0.75).as_integer_ratio(),
        7.5 // 2,
        -7.5 % 2,
        abs(-0.0),
        complex(1, 2) * 1j,
        (1 + 2j).conjugate(),
        abs(3 + 4j),
        caught(float, "x"),
        caught(float, []),
        caught(lambda: 1.0 / 0),
        caught(complex, "a"),
    )


def string_methods(x):
    s = "Hello, World"
    return (
        x + 1,
        s.upper(),
        s.split(", "),
        s.partition(","),
        s.replace("l", "L", 1),
        s.find("o", 5),
        s.count("l"),
        s.startswith(("He", "x")),
        s.center(20, "*"),
        s.zfill(15),
        "a,b,,c".split(","),
        " x ".strip(),
        "abc".translate(str.maketrans("ab", "xy")),
        "x".join(["1", "2"]),
        "%s %r %5.2f %05d %x" % ("a", "b", 3.14159, 42, 255),
        "%(k)s" % {"k": 1},
        "{:>10} {:<5}| {:^7} {!r}".format("r", "l", "c", "q"),
        "{0[a]} {1.real} {n:{w}}".format({"a": 1}, 2, n=3, w=4),
        f"{3.14159:.2f} {42:#x} {1234567:,} {0.5:%} {'a'!r:>5} {7:>{5}}",
        f"{s=}",
        s.encode(),
        b"ab".decode(),
        "a-b_c".title(),
        "ab".isalpha(),
        "tab\tx".expandtabs(4),
        "abc" < "abd",
        "a" * 3,
        "bc" in "abcd",
        s[::-1],
        chr(65) + hex(255) + bin(5) + oct(8),
        ord("a"),
        ascii("é"),
        caught("a".index, "z"),
        caught("a".join, [1]),
        caught(lambda: "%d" % "a"),
        caught(lambda: "%s %s" % "a"),
        caught("{} {}".format, 1),
        caught("{a}".format),
        caught(lambda: f"{'a':d}"),
        caught(ord, "ab"),
        caught(chr, -1),
    )


def mathematics(x):
    return (
        x + 1,
        math.sqrt(2),
        math.pi,
        math.floor(2.5),
        math.ceil(-2.5),
        math.gcd(12, 18),
        math.comb(5, 2),
        math.isclose(0.1 + 0.2, 0.3),
        math.prod([1, 2, 3]),
        math.fsum([0.1] * 10),
        math.hypot(3, 4),
        math.dist([0, 0], [3, 4]),
        math.copysign(1, -0.0),
        math.frexp(8.0),
        math.isqrt(17),
        math.log(8, 2),
        math.factorial(5),
        math.trunc(2.7),
        math.inf > 1,
        caught(math.sqrt, -1),
        caught(math.log, 0),
        caught(math.factorial, -1),
        caught(math.sqrt, "a"),
    )


def operators(x):
    get = operator.itemgetter(1)
    both = operator.itemgetter(0, 2)
    upper = operator.methodcaller("upper")
    real = operator.attrgetter("real", "imag")
    items = [1, 2, 3]
    operator.setitem(items, 0, 9)
    operator.delitem(items, 1)
    return (
        x + 1,
        get([1, 2]),
        both("abc"),
        upper("a"),
        real(3),
        items,
        operator.add(1, 2),
        operator.contains([1], 1),
        operator.countOf([1, 1, 2], 1),
        operator.indexOf([1, 2], 2),
        operator.index(True),
        operator.is_(None, None),
        operator.truth([]),
        operator.iadd([1], [2]),
        operator.concat([1], [2]),
        operator.not_(0),
        operator.lt(1, 2),
        operator.neg(1),
        operator.length_hint([1, 2]),
        sorted([(1, "b"), (2, "a")], key=operator.itemgetter(1)),
        operator.call(len, [1]),
    )


def tensors_through_operators(x):
    return (
        operator.add(x, 1),
        operator.mul(x, x),
        operator.itemgetter(0)(x),
        operator.attrgetter("shape")(x),
    )


def copies(x):
    class_free = {"a": [1, [2]], "t": (1, [3])}
    shallow = copy.copy(class_free)
    deep = copy.deepcopy(class_free)
    deep["a"][1].append(9)
    shallow["a"].append("s")
    return (
        x + 1,
        class_free,
        shallow,
        deep,
        copy.copy([1]),
        copy.deepcopy((1, 2)),
        shallow["a"] is class_free["a"],
    )


def folded_library(x):
    return (
        x + 1,
        re.sub(r"\d+", "#", "a1b22"),
        re.split(",", "a,b"),
        re.findall(r"\w", "a b"),
        bool(re.match("a", "abc")),
        re.search(r"(\d)(\d)", "x12").groups(),
        json.dumps({"a": [1, 2.5, None]}),
        json.loads('{"a": [1, true]}'),
        textwrap.dedent("  a\n  b"),
        textwrap.fill("aaa bbb ccc", 7),
        struct.pack("<i", 5),
        struct.unpack("<i", b"\x05\x00\x00\x00"),
        string.Template("$a b").substitute(a=1),
        str(Fraction(1, 3) + 1),
        statistics.mean([1, 2, 3]),
        string.ascii_lowercase[:3],
    )


def partials(x):
    p = functools.partial(int, base=2)
    q = functools.partial(lambda a, b, *c, k=0: (a, b, c, k), 1, k=5)
    return (
        x + 1,
        p("101"),
        q(2),
        q(2, 3, k=6),
        q.func is not None,
        q.args,
        q.keywords,
        p.func is int,
    )


@functools.singledispatch
def describe(value):
    return "other"


@describe.register
def _(value: int):
    return "int"


@describe.register(list)
def _(value):
    return "list " + describe(value[0])


def dispatch(value):
    return value + 1, describe(1), describe([2]), describe("a"), describe(True)


@functools.total_ordering
class Version:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


def total_order(x):
    a, b = Version(1), Version(2)
    return x + 1, a < b, a <= b, a > b, a >= b, a != b, sorted([b, a])[0].n, max(a, b).n


class Lazy:
    def __init__(self):
        self.count = 0

    @functools.cached_property
    def value(self):
        self.count += 1
        return self.count * 10


def cached_properties(x):
    lazy = Lazy()
    return x + 1, lazy.value, lazy.value, lazy.count


def type_questions(x):
    return (
        x + 1,
        isinstance(1, (int, str)),
        isinstance(1, int | str),
        isinstance(True, int),
        issubclass(bool, int),
        type(1) is int,
        type([]).__name__,
        callable(len),
        callable(3),
        hash("a") == hash("a"),
        hash((1, 2)) == hash((1, 2)),
        getattr(1, "missing", "default"),
        hasattr([], "append"),
        bool([]),
        bool({}),
        bool("a"),
        caught(hash, []),
        caught(isinstance, 1, 5),
        caught(issubclass, 1, int),
        caught(getattr, 1, "missing"),
    )


def bytes_methods(x):
    b = b"hello"
    return (
        x + 1,
        b.upper(),
        b[1:3],
        b.split(b"l"),
        b.hex(),
        bytes([1, 2]),
        bytes(3),
        b + b"!",
        bytes("a", "utf8"),
        list(b),
        b.find(b"l"),
    )


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


def decimals(value):
    return value + 1, str(Decimal("1.10") * 2)


@pytest.mark.parametrize("function", [dispatch, decimals])
def test_functions_with_hidden_state_break(assert_captured, x, function):
    """A registry of classes, or a context, decides: the call runs for real."""
    assert_captured(function, x, graphs=None, breaks=None)
